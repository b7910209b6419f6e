//! Batches of requests, read by Python itself; and the other frames of the server.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use pinion_http::cgi::limits::VARIABLES_MAX_BYTES;
use pinion_http::cgi::variable_error::VariableError;
use pinion_http::python::environ::Environ;
use pinion_http::python::error::BatchError;
use pinion_http::python::frame_writer::{
    content_header, write_content, write_content_end, write_gone, write_room, write_stack,
    write_take_back,
};
use pinion_http::python::limits::{
    BATCH_MAX_BYTES, BATCH_REQUESTS_MAX, BATCHED_CONTENT_MAX_BYTES, FRAME_CONTENT_MAX_BYTES,
    SHARED_VALUE_MAX_BYTES,
};
use pinion_http::python::marshal_writer;
use pinion_http::python::request_batch::{BatchedContent, RequestBatch};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::oracle::python_frames::frame;

/// Reads frames from its input. For each request it writes the number, the variables and the
/// content, and for each value of another frame its representation.
const READER: &str = r#"
import marshal, struct, sys

def text(value):
    assert type(value) is str
    return value.encode("latin-1").hex()

data = sys.stdin.buffer.read()
lines = []
while data:
    kind, number, length = struct.unpack_from("<III", data)
    content, data = data[12:12 + length], data[12 + length:]
    assert number == 0 and len(content) == length
    value = marshal.loads(content)
    # marshal ignores what follows a value, so that it also reads a frame that is too long.
    try:
        marshal.loads(content[:-1])
    except (EOFError, ValueError, TypeError):
        pass
    else:
        raise AssertionError("the frame is longer than its value")
    if kind != 1:
        lines.append(ascii(value))
        continue
    assert type(value) is list
    lines.append("batch %d" % len(value))
    for number, environ, content in value:
        assert type(environ) is dict
        lines.append("request %d" % number)
        for name in sorted(environ):
            # Names are interned, but not those that a client makes up.
            is_made_up = name.startswith("HTTP_") and name not in ("HTTP_HOST", "HTTP_COOKIE")
            if name.isascii() and sys.implementation.name == "cpython":
                is_interned = sys.intern((name + " ")[:-1]) is name
                assert is_interned != is_made_up or len(name) < 2, name
            lines.append("%s=%s" % (text(name), text(environ[name])))
        assert content is None or type(content) is bytes
        lines.append("streamed" if content is None else "content " + content.hex())
print("\n".join(lines))
"#;

/// A request as a test makes it.
#[derive(Clone, Debug)]
struct Request {
    number: u32,
    variables: Vec<(Vec<u8>, Vec<u8>)>,
    content: Option<Vec<u8>>,
}

impl Request {
    fn environ(&self) -> Environ {
        let mut environ = Environ::default();
        for (name, value) in &self.variables {
            environ.add(name, value).expect("a good variable");
        }
        environ
    }

    fn add_to(&self, batch: &mut RequestBatch) -> Result<(), BatchError> {
        let content = self.content.as_deref();
        let content = content.map_or(BatchedContent::Streamed, BatchedContent::Whole);
        batch.add(self.number, content, &self.environ())
    }

    /// Writes the text that [`READER`] writes for it.
    fn describe(&self, out: &mut String) {
        let mut variables: Vec<_> = self.variables.iter().collect();
        variables.sort();
        writeln!(out, "request {}", self.number).unwrap();
        for (name, value) in variables {
            writeln!(out, "{}={}", hex(name), hex(value)).unwrap();
        }
        match &self.content {
            Some(content) => writeln!(out, "content {}", hex(content)).unwrap(),
            None => writeln!(out, "streamed").unwrap(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn request(number: u32, variables: &[(&[u8], &[u8])], content: Option<&[u8]>) -> Request {
    let variables = variables.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
    Request { number, variables: variables.collect(), content: content.map(<[u8]>::to_vec) }
}

/// Returns the text that an interpreter reads, or `None` if there is no such interpreter.
fn read(interpreter: &str, frames: &[u8]) -> Option<String> {
    let version = Command::new(interpreter).arg("--version").output().ok()?;
    // A version manager has a program with the same name, which fails for versions that are not
    // installed.
    if !version.status.success() {
        return None;
    }
    let mut child = Command::new(interpreter)
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the interpreter starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(frames).expect("the interpreter reads"));
        child.wait_with_output().expect("the interpreter ends")
    });
    assert!(output.status.success(), "{interpreter} cannot read the frames");
    Some(String::from_utf8(output.stdout).expect("ASCII"))
}

/// Panics when an installed interpreter reads another text. `python3` must be installed.
fn check_read(frames: &[u8], expected: &str) {
    let read_by = |name: &str| {
        let found = read(name, frames)?;
        for (found, expected) in found.lines().zip(expected.lines()) {
            assert_eq!(found, expected, "{name} reads another value");
        }
        assert_eq!(found.lines().count(), expected.lines().count(), "{name} reads all values");
        Some(())
    };
    read_by("python3").expect("python3 is there");
    for other in ["pypy3", "python3.8", "python3.9", "python3.12", "python3.13", "python3.14"] {
        if read_by(other).is_none() {
            println!("{other} is not there");
        }
    }
}

/// Makes the frame of a batch that takes all requests.
fn batch_of(requests: &[Request], expected: &mut String) -> Vec<u8> {
    let mut batch = RequestBatch::new();
    for request in requests {
        request.add_to(&mut batch).expect("the batch takes it");
    }
    if !requests.is_empty() {
        writeln!(expected, "batch {}", requests.len()).unwrap();
    }
    requests.iter().for_each(|request| request.describe(expected));
    assert_eq!(batch.bytes(), batch.frame().len());
    batch.frame().to_vec()
}

fn any_request() -> impl Strategy<Value = Request> {
    let name = prop_oneof![
        8 => "[A-Z_]{1,20}",
        2 => "HTTP_[A-Z_]{1,300}",
        1 => "[ -<>-~]{1,300}",
    ];
    let value = prop_oneof![
        8 => "[ -~]{0,40}".prop_map(String::into_bytes),
        1 => vec(1..=255_u8, 0..300),
        1 => vec(prop_oneof![Just(b'a'), Just(0xc3), Just(0xa9)], 250..260),
    ];
    let name = name.prop_map(String::into_bytes);
    let variables = prop::collection::hash_map(name, value, 0..30);
    let content = prop_oneof![Just(None), vec(any::<u8>(), 0..300).prop_map(Some)];
    let number = prop_oneof![1..100_u32, 1..=u32::MAX];
    (number, variables, content).prop_map(|(number, variables, content)| {
        let variables = variables.into_iter().collect();
        Request { number, variables, content }
    })
}

#[test]
fn python_parses_written_requests_unchanged() {
    let every_byte: Vec<u8> = (1..=255).collect();
    let every_content_byte: Vec<u8> = (0..=255).collect();
    let mut requests = vec![
        request(1, &[], None),
        request(2, &[], Some(b"")),
        request(
            0x7fff_ffff,
            &[
                (b"HTTP_HOST", b"a"),
                (b"HTTP_COOKIE", b""),
                (b"HTTP_X_MADE_UP", b"b"),
                (b"HTTP_HOSTS", b"b"),
                (b"PATH_INFO", &every_byte),
                (&every_byte[128..], b"\xff"),
                (b"wsgi.url_scheme", b"https"),
            ],
            Some(&every_content_byte),
        ),
    ];
    requests.extend([0x8000_0000, 0xffff_ffff, 0x4000_0000].map(|n| request(n, &[], None)));
    for bytes in [127, 128, 254, 255, 256, 257, 65534, 65535, 65536] {
        let (ascii, latin1) = (vec![b'a'; bytes], [vec![b'a'; bytes - 1], vec![0xff]].concat());
        let name = [b"N".repeat(bytes), b"HTTP_".to_vec()].concat();
        let made_up = [b"HTTP_".to_vec(), b"N".repeat(bytes)].concat();
        for (name, value) in [(&b"A"[..], &ascii), (b"B", &latin1), (&name, &latin1)] {
            if name.len() + value.len() < VARIABLES_MAX_BYTES - 10 {
                requests.push(request(9, &[(name, value)], Some(&latin1[..bytes.min(65536)])));
            }
        }
        requests.push(request(9, &[(&made_up, b"")], None));
    }
    let mut expected = String::new();
    let mut frames = Vec::new();
    for some in requests.chunks(4) {
        frames.extend(batch_of(some, &mut expected));
    }
    let mut runner = TestRunner::deterministic();
    // The same requests are sent twice, so that later ones refer to values of earlier ones.
    let batches =
        vec(any_request(), 1..=16).prop_map(|requests| [requests.clone(), requests].concat());
    for _ in 0..100 {
        let requests = batches.new_tree(&mut runner).expect("requests").current();
        frames.extend(batch_of(&requests, &mut expected));
    }
    check_read(&frames, &expected);
}

#[test]
fn python_parses_other_value_types() {
    let mut value = Vec::new();
    marshal_writer::begin_list(&mut value, 5);
    marshal_writer::write_bool(&mut value, true);
    marshal_writer::write_bool(&mut value, false);
    marshal_writer::write_none(&mut value);
    marshal_writer::begin_tuple(&mut value, 0);
    marshal_writer::begin_tuple(&mut value, 255);
    for number in 0..255 {
        marshal_writer::write_int(&mut value, 1 << (number % 32));
    }
    let powers: Vec<String> = (0..255).map(|number| (1_u64 << (number % 32)).to_string()).collect();
    let expected = format!("[True, False, None, (), ({})]\n", powers.join(", "));
    check_read(&frame(2, 0, &value), &expected);
}

/// From the third request on, parts of earlier requests are not written again: neither names, nor
/// values that are longer than a reference. A request that differs in one value has that value for
/// itself.
#[test]
fn values_of_earlier_requests_are_not_written_again() {
    let host = vec![b'h'; SHARED_VALUE_MAX_BYTES - 2];
    let one = |path: &'static [u8]| {
        request(5, &[(b"HTTP_HOST", &host), (b"PATH_INFO", path), (b"QUERY_STRING", b"")], None)
    };
    let mut batch = RequestBatch::new();
    let mut bytes = Vec::new();
    for path in [&b"/path"[..], b"/path", b"/path", b"/other", b"/path"] {
        let before = batch.bytes();
        one(path).add_to(&mut batch).expect("there is space");
        bytes.push(batch.bytes() - before);
    }
    // The batch begins with its header and the front of the list. A request has three references
    // to names, two to values, one short value and ten bytes of its own.
    assert_eq!(bytes[0], bytes[1] + 17);
    assert_eq!(bytes[2..], [5 * 5 + 2 + 10, 4 * 5 + 8 + 2 + 10, 5 * 5 + 2 + 10]);
    let longer = vec![b'h'; SHARED_VALUE_MAX_BYTES - 1];
    for _ in 0..2 {
        let before = batch.bytes();
        request(5, &[(b"A", &longer)], None).add_to(&mut batch).expect("there is space");
        assert!(batch.bytes() - before > SHARED_VALUE_MAX_BYTES);
    }
}

#[test]
fn a_batch_has_limits() {
    let one = |number| request(number, &[(b"A", b"b")], None);
    let mut batch = RequestBatch::new();
    assert!(batch.frame().is_empty() && batch.is_empty() && batch.bytes() == 0);
    for number in 1..=BATCH_REQUESTS_MAX {
        assert!(!batch.is_full());
        one(number).add_to(&mut batch).expect("there is space");
        assert_eq!(batch.requests(), number);
    }
    let before = batch.frame().to_vec();
    assert!(batch.is_full());
    assert_eq!(one(33).add_to(&mut batch), Err(BatchError::Full));
    assert_eq!(batch.frame(), before);

    // The longest request fits into an empty batch, and only some of them into one.
    let longest = |number| {
        let value = vec![0xff; VARIABLES_MAX_BYTES - 11];
        request(number, &[(b"A", &value)], Some(&vec![0; BATCHED_CONTENT_MAX_BYTES]))
    };
    batch.clear();
    let mut added = 0;
    while longest(added + 1).add_to(&mut batch).is_ok() {
        added += 1;
    }
    assert_eq!(batch.requests(), added);
    assert!((2..5).contains(&added), "{added} of the longest requests");
    assert!(batch.bytes() - 12 <= BATCH_MAX_BYTES);
    assert_eq!(longest(9).add_to(&mut batch), Err(BatchError::Full));
    one(9).add_to(&mut batch).expect("a short one fits");

    let content = vec![0; BATCHED_CONTENT_MAX_BYTES + 1];
    let too_large = request(1, &[], Some(&content)).add_to(&mut batch);
    assert_eq!(too_large, Err(BatchError::ContentTooLarge));
}

#[test]
fn a_refused_variable_leaves_no_bytes_in_the_batch() {
    let environ = || request(1, &[(b"A", b"b")], None).environ();
    let value = vec![b'a'; VARIABLES_MAX_BYTES - 10];
    for (name, value, error) in [
        (&b""[..], &b"b"[..], VariableError::Name),
        (b"A=", b"b", VariableError::Name),
        (b"A", b"\0", VariableError::Value),
        (b"A", &value, VariableError::TooLarge),
    ] {
        let mut refusing = environ();
        assert_eq!(refusing.add(name, value), Err(error));
        assert_eq!(format!("{refusing:?}"), format!("{:?}", environ()));
    }
}

#[test]
fn a_batch_is_reused() {
    let mut expected = String::new();
    let one = request(1, &[(b"A", b"b")], None);
    let first = batch_of(std::slice::from_ref(&one), &mut expected);
    let mut batch = RequestBatch::new();
    let mut out = Vec::new();
    for _ in 0..2 {
        one.add_to(&mut batch).expect("a good request");
        batch.move_to(&mut out);
        assert!(batch.is_empty() && batch.frame().is_empty());
    }
    batch.move_to(&mut out);
    assert_eq!(out, [first.clone(), first].concat());
}

#[test]
fn server_frames_have_the_expected_bytes() {
    let mut out = Vec::new();
    write_content(&mut out, 7, b"");
    assert!(out.is_empty(), "no content needs no frame");
    let long = vec![b'a'; FRAME_CONTENT_MAX_BYTES as usize + 3];
    write_content(&mut out, 7, &long);
    write_content_end(&mut out, 7);
    write_room(&mut out, 0x0102_0304, 0x0506_0708);
    write_gone(&mut out, u32::MAX);
    write_take_back(&mut out, &[]);
    write_take_back(&mut out, &[1, 0x0102_0304]);
    write_stack(&mut out, 3);
    out.extend_from_slice(&content_header(8, 1));
    let expected = [
        frame(2, 7, &long[3..]),
        frame(2, 7, b"aaa"),
        frame(3, 7, b""),
        frame(4, 0x0102_0304, &[8, 7, 6, 5]),
        frame(5, u32::MAX, b""),
        frame(6, 0, &[1, 0, 0, 0, 4, 3, 2, 1]),
        frame(9, 3, b""),
        frame(2, 8, b"x")[..12].to_vec(),
    ];
    assert_eq!(out, expected.concat());
}

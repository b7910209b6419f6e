//! FastCGI: the rules of the specification one by one, and the limits. Each response is also
//! compared with the oracle, whole and in parts; each request is read by the simple reader here.

use pinion_http::cgi::error::CgiError;
use pinion_http::cgi::limits::VARIABLES_MAX_BYTES;
use pinion_http::cgi::response_event::GatewayEvent;
use pinion_http::cgi::variable_error::VariableError;
use pinion_http::fastcgi::content_writer::{ABORT, FramedPiece};
use pinion_http::fastcgi::error::FastCgiError as Error;
use pinion_http::fastcgi::limits::{
    IGNORED_RECORDS_MAX, RECORD_CONTENT_MAX_BYTES, STDERR_MAX_BYTES, STDERR_READ_MAX_BYTES,
};
use pinion_http::fastcgi::request_writer::{FastCgiRequest, WrittenFastCgi, write_request};
use pinion_http::fastcgi::response_reader::FastCgiReader;
use pinion_http::h1::client::request_error::RequestError;
use pinion_http::h1::client::request_writer::RequestContent;
use pinion_http::h1::client::response_parser::{InputEnd, Persistence, ResponseEvent};
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::method::Method;

use crate::oracle::fastcgi::check_case;
use crate::oracle::plain_cgi_output::{Case, Ended, Event, Found};

const CUT: usize = 7;

/// Returns a record of an application (§3.3).
pub(crate) fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let [id_1, id_0] = id.to_be_bytes();
    let [length_1, length_0] = u16::try_from(content.len()).expect("16 bits").to_be_bytes();
    let mut bytes = vec![1, kind, id_1, id_0, length_1, length_0, padding, 0xaa];
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + usize::from(padding), 0xbb);
    bytes
}

pub(crate) fn stdout(content: &[u8]) -> Vec<u8> {
    record(6, 1, content, (content.len().wrapping_neg() % 8) as u8)
}

pub(crate) fn stderr(content: &[u8]) -> Vec<u8> {
    record(7, 1, content, 0)
}

/// Returns the end of a request (§5.5).
pub(crate) fn end_request(app_status: u32, protocol_status: u8) -> Vec<u8> {
    let mut body = app_status.to_be_bytes().to_vec();
    body.extend_from_slice(&[protocol_status, 0, 0, 0]);
    record(3, 1, &body, 0)
}

/// Reads a response over a connection that stays open.
fn open(records: &[Vec<u8>]) -> Found<Error> {
    check_case(&Case::get(InputEnd::Open), &records.concat(), CUT)
}

fn error(records: &[Vec<u8>]) -> Option<Error> {
    match open(records).ended {
        Ended::Error(error) => Some(error),
        Ended::End(_) | Ended::NeedMore => None,
    }
}

const REUSE: Ended<Error> = Ended::End(Persistence::Reuse);

fn page() -> Vec<u8> {
    stdout(b"Content-Type: a/b\n\nhello")
}

/// §5.5, Appendix B: output in records, the ends of both streams, the end of the request.
#[test]
fn a_response() {
    let (empty, end) = (stdout(b""), end_request(0, 0));
    for records in [
        &[page(), empty.clone(), end.clone()][..],
        // php-fpm ends no stream.
        &[page(), end.clone()],
        &[stderr(b""), page(), empty.clone(), end.clone()],
        &[
            stdout(b"Content-"),
            stdout(b"Type: a/b\n"),
            stdout(b"\nhel"),
            stdout(b"lo"),
            end.clone(),
        ],
        &[record(6, 1, b"Content-Type: a/b\n\nhello", 255), end.clone()],
    ] {
        let found = open(records);
        assert_eq!((found.content(), found.ended), (b"hello".to_vec(), REUSE));
        let head = found.head().unwrap();
        assert_eq!(head.fields, [(b"Content-Type".to_vec(), b"a/b".to_vec())]);
    }
    let mut case = Case::get(InputEnd::Open);
    case.request.close = true;
    let found = check_case(&case, &[page(), end].concat(), CUT);
    assert_eq!(found.ended, Ended::End(Persistence::Close), "it was not asked to keep it");
}

/// §5.5: padding belongs to the record, and the bytes after the response are not consumed.
#[test]
fn a_response_ends_after_its_padding() {
    let end = record(3, 1, &[0; 8], 3);
    let wire = [page(), end, b"more".to_vec()].concat();
    let mut reader = FastCgiReader::new(Case::get(InputEnd::Open).request, &Default::default());
    let mut storage = HeadStorage::new();
    let mut used = 0;
    while !reader.is_at_end() {
        let step = reader.step(&wire[used..], InputEnd::Open, u64::MAX, &mut storage).unwrap();
        used += step.used;
    }
    assert_eq!(&wire[used..], b"more");
    assert_eq!(reader.app_status(), Some(0));
    let step = reader.step(&wire[used..], InputEnd::Open, u64::MAX, &mut storage).unwrap();
    assert_eq!(step.used, 0, "nothing is used behind the end");
    // Without all of its padding the end is incomplete.
    let found = open(&[page(), record(3, 1, &[0; 8], 3)[..17].to_vec()]);
    assert_eq!(found.ended, Ended::NeedMore);
}

/// A connection that ends before the end of the request is incomplete, even after the end of the
/// output.
#[test]
fn a_truncated_response_is_never_complete() {
    let records = [page(), stdout(b""), stderr(b"x"), stderr(b""), end_request(0, 0)];
    let wire = records.concat();
    for end in [InputEnd::Closed, InputEnd::Broken] {
        let case = Case::get(end);
        for cut in 1..wire.len() {
            let found = check_case(&case, &wire[..cut], CUT);
            assert_eq!(found.ended, Ended::Error(Error::Aborted), "{cut} bytes");
        }
        assert_eq!(check_case(&case, b"", CUT).ended, Ended::Error(Error::NoResponse));
        assert_eq!(check_case(&case, &wire, CUT).ended, REUSE);
    }
}

/// §3.3: "The requestId field … version … type".
#[test]
fn malformed_records_are_errors() {
    for version in [0, 2, b'H', 255] {
        let mut wrong = page();
        wrong[0] = version;
        assert_eq!(error(&[wrong]), Some(Error::Version { version }));
    }
    assert_eq!(error(&[b"HTTP".to_vec()]), Some(Error::Version { version: b'H' }));
    for id in [0, 2, 256, 0xffff] {
        let wrong = record(6, id, b"x", 0);
        assert_eq!(error(&[wrong]), Some(Error::RequestId { id }));
        assert_eq!(error(&[page(), record(3, id, &[0; 8], 0)]), Some(Error::RequestId { id }));
    }
    // Types that only a server sends, and unknown ones.
    for kind in [0, 1, 2, 4, 5, 8, 9, 12, 255] {
        assert_eq!(error(&[record(kind, 1, b"x", 0)]), Some(Error::RecordType { kind }));
        assert_eq!(error(&[record(kind, 0, b"x", 0)]), Some(Error::RecordType { kind }));
    }
    // A management record belongs to no request (§3.3).
    for kind in [10, 11] {
        assert_eq!(error(&[record(kind, 1, b"x", 0)]), Some(Error::RequestId { id: 1 }));
    }
}

/// §3.3: a stream ends with an empty record.
#[test]
fn streams_end_once() {
    let empty = stdout(b"");
    let again = stdout(b"x");
    assert_eq!(error(&[page(), empty.clone(), again]), Some(Error::StreamEnded));
    assert_eq!(error(&[stderr(b""), stderr(b"x")]), Some(Error::StreamEnded));
    // An empty record after the end changes nothing.
    let records = [page(), empty.clone(), stderr(b"late"), empty, end_request(0, 0)];
    let found = open(&records);
    assert_eq!((found.stderr(), found.ended), (b"late".to_vec(), REUSE));
    // Bytes after the end of the request belong to no request.
    let wire = [page(), end_request(0, 0), page()];
    assert_eq!(open(&wire).ended, REUSE);
}

/// §5.5: the statuses of the protocol.
#[test]
fn protocol_statuses() {
    for (status, expected) in [
        (1, Error::CannotMultiplex),
        (2, Error::Overloaded),
        (3, Error::UnknownRole),
        (4, Error::ProtocolStatus { status: 4 }),
        (255, Error::ProtocolStatus { status: 255 }),
    ] {
        assert_eq!(error(&[end_request(0, status)]), Some(expected));
        assert_eq!(error(&[page(), end_request(0, status)]), Some(expected));
    }
    for bytes in [0, 7, 9] {
        let end = record(3, 1, &vec![0; bytes], 0);
        assert_eq!(error(&[page(), end]), Some(Error::EndRequest), "{bytes}");
    }
    // The exit status of the application has no effect.
    assert_eq!(open(&[page(), end_request(255, 0)]).ended, REUSE);
}

/// The output must be a whole response when the request ends.
#[test]
fn malformed_output_is_an_error() {
    for (output, expected) in [
        (&b""[..], CgiError::NoOutput),
        (b"Content-Type: a/b", CgiError::HeadIncomplete),
        (b"hello\n", CgiError::MalformedFieldLine),
        (b"Status: 42\n\n", CgiError::InvalidStatus),
        (b"Content-Length: 2\n\nx", CgiError::ContentTooShort { missing_bytes: 1 }),
        (b"Content-Length: 2\n\nxyz", CgiError::ContentTooLong),
        (b"\0", CgiError::ControlByteInHead),
    ] {
        let records = [stdout(output), end_request(0, 0)];
        assert_eq!(error(&records), Some(Error::Output(expected)), "{}", output.escape_ascii());
    }
    assert_eq!(error(&[end_request(0, 0)]), Some(Error::Output(CgiError::NoOutput)));
}

#[test]
fn redirects_on_the_server() {
    let found = open(&[stdout(b"Location: /x\n\nmoved"), end_request(0, 0)]);
    assert_eq!(found.events, [Event::LocalRedirect(b"/x".to_vec())]);
    assert_eq!(found.ended, REUSE, "what follows is read, and the connection can be used");
}

/// §5.3: the error stream is interleaved, and has a limit.
#[test]
fn the_error_stream() {
    let records = [
        stderr(b"PHP Warning: x"),
        stdout(b"X: y\n\nhe"),
        stderr(b"1"),
        stderr(b"2"),
        stdout(b"llo"),
        end_request(0, 0),
    ];
    let found = open(&records);
    let kinds: Vec<_> = found.events.iter().map(std::mem::discriminant).collect();
    assert_eq!(kinds.len(), 5);
    assert_eq!(found.stderr(), b"PHP Warning: x12");
    assert_eq!((found.content(), found.ended), (b"hello".to_vec(), REUSE));
}

#[test]
fn limits_of_the_error_stream() {
    let text = vec![b'x'; 32 * 1024];
    let wire: Vec<u8> = [vec![stderr(&text); 3].concat(), page(), end_request(0, 0)].concat();
    let found = check_case(&Case::get(InputEnd::Open), &wire, 4096);
    assert_eq!(found.stderr().len() as u64, STDERR_MAX_BYTES);
    assert_eq!((found.content(), found.ended), (b"hello".to_vec(), REUSE));
    // The rest is read and dropped, but not without a limit.
    let records = (STDERR_READ_MAX_BYTES / text.len() as u64) as usize;
    let read = |records: usize| {
        let mut reader = FastCgiReader::new(Case::get(InputEnd::Open).request, &Default::default());
        let mut storage = HeadStorage::new();
        let record = stderr(&text);
        for _ in 0..records {
            let mut used = 0;
            while used < record.len() {
                let input = &record[used..];
                used += reader.step(input, InputEnd::Open, 1, &mut storage)?.used;
            }
        }
        Ok(())
    };
    assert_eq!(read(records), Ok(()));
    assert_eq!(read(records + 1), Err(Error::StderrTooLarge));
}

/// §4.1, §4.2: management records respond to no request of the server, and are ignored a few times.
#[test]
fn management_records_are_ignored_a_few_times() {
    let values = record(10, 0, b"\x0f\x01FCGI_MPXS_CONNS0", 6);
    let unknown = record(11, 0, &[99, 0, 0, 0, 0, 0, 0, 0], 0);
    let found = open(&[values.clone(), page(), unknown.clone(), end_request(0, 0)]);
    assert_eq!((found.content(), found.ended), (b"hello".to_vec(), REUSE));
    let many = |count: u32| vec![unknown.clone(); count as usize].concat();
    assert_eq!(open(&[many(IGNORED_RECORDS_MAX), page(), end_request(0, 0)]).ended, REUSE);
    assert_eq!(error(&[many(IGNORED_RECORDS_MAX + 1)]), Some(Error::TooManyRecords));
    let ends = vec![stdout(b""); IGNORED_RECORDS_MAX as usize + 2].concat();
    assert_eq!(error(&[ends]), Some(Error::TooManyRecords));
}

/// Content waits for space, and the error stream does not.
#[test]
fn content_waits_for_output_space() {
    let wire = [stdout(b"X: y\n\nhello"), stderr(b"x"), end_request(0, 0)].concat();
    let mut reader = FastCgiReader::new(Case::get(InputEnd::Open).request, &Default::default());
    let mut storage = HeadStorage::new();
    let mut used = reader.step(&wire, InputEnd::Closed, 0, &mut storage).unwrap().used;
    let step = reader.step(&wire[used..], InputEnd::Closed, 0, &mut storage).unwrap();
    assert_eq!(step.used, 0);
    assert!(matches!(step.event, GatewayEvent::Response(ResponseEvent::NeedMore)));
    let step = reader.step(&wire[used..], InputEnd::Closed, 2, &mut storage).unwrap();
    used += step.used;
    assert!(matches!(step.event, GatewayEvent::Response(ResponseEvent::Content(b"he"))));
    let step = reader.step(&wire[used..], InputEnd::Closed, 3, &mut storage).unwrap();
    used += step.used;
    assert!(matches!(step.event, GatewayEvent::Response(ResponseEvent::Content(b"llo"))));
    let step = reader.step(&wire[used..], InputEnd::Closed, 0, &mut storage).unwrap();
    assert!(matches!(step.event, GatewayEvent::Stderr(b"x")));
}

/// A request parsed like in an application.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    /// Role and flags.
    pub(crate) begin: (u16, u8),
    pub(crate) variables: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) content: Vec<u8>,
    pub(crate) is_content_ended: bool,
    pub(crate) is_aborted: bool,
}

/// Reads a request according to the specification (§3.3, §3.4, §5.1 to §5.4): all records are
/// complete and padded to 8 bytes, in their order.
pub(crate) fn read_request(mut wire: &[u8]) -> ReadRequest {
    let mut request = ReadRequest::default();
    let (mut params, mut state) = (Vec::new(), 0);
    while let [version, kind, id_1, id_0, length_1, length_0, padding, reserved, rest @ ..] = wire {
        assert_eq!((*version, *id_1, *id_0, *reserved), (1, 0, 1, 0));
        let length = usize::from(u16::from_be_bytes([*length_1, *length_0]));
        let (content, rest) = rest.split_at(length);
        assert_eq!((length + usize::from(*padding)) % 8, 0);
        assert!(*padding < 8 && rest[..usize::from(*padding)].iter().all(|&byte| byte == 0));
        wire = &rest[usize::from(*padding)..];
        match (kind, state, content) {
            (1, 0, [role_1, role_0, flags, 0, 0, 0, 0, 0]) => {
                request.begin = (u16::from_be_bytes([*role_1, *role_0]), *flags);
                state = 1;
            }
            (4, 1, []) => state = 2,
            (4, 1, content) => params.extend_from_slice(content),
            (5, 2, []) => {
                request.is_content_ended = true;
                state = 3;
            }
            (5, 2, content) => request.content.extend_from_slice(content),
            (2, 2 | 3, []) => {
                request.is_aborted = true;
                state = 4;
            }
            _ => panic!("a record of type {kind} in state {state}"),
        }
    }
    assert!(wire.is_empty() && state >= 2, "whole records");
    let mut rest = params.as_slice();
    while !rest.is_empty() {
        let (name, value) = (take_length(&mut rest), take_length(&mut rest));
        let (name, behind) = rest.split_at(name);
        let (value, behind) = behind.split_at(value);
        rest = behind;
        request.variables.push((name.to_vec(), value.to_vec()));
    }
    request
}

/// Reads a length of one or four bytes (§3.4).
fn take_length(rest: &mut &[u8]) -> usize {
    if rest[0] < 128 {
        let length = usize::from(rest[0]);
        *rest = &rest[1..];
        return length;
    }
    let bytes: [u8; 4] = rest[..4].try_into().expect("four bytes");
    *rest = &rest[4..];
    (u32::from_be_bytes(bytes) & 0x7fff_ffff) as usize
}

pub(crate) fn write(
    variables: &[(&[u8], &[u8])],
    content: RequestContent,
) -> Result<(Vec<u8>, WrittenFastCgi), VariableError> {
    let request = FastCgiRequest { method: Method::Post, content, keep_connection: true };
    let mut out = b"before".to_vec();
    let written = write_request(&mut out, &request, |params| {
        variables.iter().try_for_each(|(name, value)| params.add(name, value))
    });
    if written.is_err() {
        assert_eq!(out, b"before", "nothing is left of a request that is refused");
    }
    written.map(|written| (out.split_off(6), written))
}

/// Appendix B, example 1: the bytes of a request without content.
#[test]
fn a_request_is_parsed_byte_by_byte() {
    let request = FastCgiRequest {
        method: Method::Get,
        content: RequestContent::Length(0),
        keep_connection: false,
    };
    let mut out = Vec::new();
    let written = write_request(&mut out, &request, |params| {
        params.add(b"SERVER_PORT", b"80")?;
        params.add(b"SERVER_ADDR", b"199.170.183.42")
    })
    .unwrap();
    let expected = b"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\
        \x01\x04\x00\x01\x00\x2a\x06\x00\x0b\x02SERVER_PORT80\x0b\x0eSERVER_ADDR199.170.183.42\
        \x00\x00\x00\x00\x00\x00\
        \x01\x04\x00\x01\x00\x00\x00\x00\x01\x05\x00\x01\x00\x00\x00\x00";
    assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
    assert!(written.content.is_complete());
    assert!(written.request.close, "KEEP_CONN was not set");
}

/// §3.4: lengths up to 127 have one byte, longer ones four.
#[test]
fn lengths_of_variables() {
    for bytes in [0, 1, 127, 128, 255, 256, 65_535, 65_536, 100_000] {
        let value = vec![b'v'; bytes];
        let name = vec![b'n'; bytes.clamp(1, 1000)];
        let variables: [(&[u8], &[u8]); 3] = [(b"A", b"1"), (&name, &value), (b"B", b"")];
        let (out, written) = write(&variables, RequestContent::Length(0)).unwrap();
        let read = read_request(&out);
        assert_eq!(read.begin, (1, 1), "a responder whose connection is kept");
        let expected = variables.map(|(name, value)| (name.to_vec(), value.to_vec()));
        assert_eq!(read.variables, expected, "{bytes}");
        assert!(read.is_content_ended && written.content.is_complete());
    }
    assert_eq!(read_request(&write(&[], RequestContent::Chunked).unwrap().0).variables, []);
}

#[test]
fn invalid_variables_are_refused() {
    let refused = |name: &[u8], value: &[u8]| {
        write(&[(b"A", b"1"), (name, value)], RequestContent::Length(0)).err()
    };
    assert_eq!(refused(b"", b"x"), Some(VariableError::Name));
    assert_eq!(refused(b"A=B", b"x"), Some(VariableError::Name));
    assert_eq!(refused(b"A\0", b"x"), Some(VariableError::Name));
    assert_eq!(refused(b"A", b"x\0y"), Some(VariableError::Value));
    let most = VARIABLES_MAX_BYTES - 8 - 2 - 8 - 1;
    assert_eq!(refused(b"B", &vec![b'x'; most]), None);
    assert_eq!(refused(b"B", &vec![b'x'; most + 1]), Some(VariableError::TooLarge));
}

/// §5.3: content in records, and the end of its stream after the last byte.
#[test]
fn content_with_a_length() {
    for bytes in [1, 7, 8, 9, RECORD_CONTENT_MAX_BYTES, RECORD_CONTENT_MAX_BYTES + 1, 200_000] {
        let content: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        for pieces in [1, 2, 3] {
            let length = RequestContent::Length(bytes as u64);
            let (mut out, mut written) = write(&[(b"A", b"1")], length).unwrap();
            for piece in content.chunks(bytes.div_ceil(pieces)) {
                assert!(!written.content.is_complete());
                written.content.write(&mut out, piece).unwrap();
            }
            assert!(written.content.is_complete(), "the end is written with the last byte");
            let before = out.len();
            assert_eq!(written.content.write(&mut out, b"x"), Err(RequestError::ContentTooLong));
            assert_eq!(written.content.end(&mut out), Ok(()));
            assert_eq!(out.len(), before);
            let read = read_request(&out);
            assert!(read.content == content && read.is_content_ended);
        }
    }
}

#[test]
fn content_that_differs_from_its_length_is_an_error() {
    let (mut out, mut written) = write(&[], RequestContent::Length(5)).unwrap();
    let before = out.len();
    let too_long = Err(RequestError::ContentTooLong);
    assert_eq!(written.content.write(&mut out, b"hello!"), too_long);
    assert_eq!(out.len(), before);
    written.content.write(&mut out, b"he").unwrap();
    let missing = RequestError::ContentTooShort { missing_bytes: 3 };
    assert_eq!(written.content.end(&mut out), Err(missing));
    assert!(!written.content.is_complete());
}

#[test]
fn content_of_an_unknown_length() {
    let (mut out, mut written) = write(&[], RequestContent::Chunked).unwrap();
    for piece in [&b"hel"[..], b"", b"lo"] {
        written.content.write(&mut out, piece).unwrap();
        assert!(!written.content.is_complete());
    }
    assert!(!read_request(&out).is_content_ended, "an empty piece ends nothing");
    written.content.end(&mut out).unwrap();
    assert!(written.content.is_complete());
    let read = read_request(&out);
    assert_eq!((read.content, read.is_content_ended), (b"hello".to_vec(), true));
    assert_eq!(read.begin, (1, 0), "its connection is not kept");
    assert!(written.request.close);
}

/// Content that is sent without copying has the same bytes around it.
#[test]
fn framed_pieces() {
    let content: Vec<u8> = (0..150_001u32).map(|at| at as u8).collect();
    let (mut copied, mut written) =
        write(&[], RequestContent::Length(content.len() as u64)).unwrap();
    written.content.write(&mut copied, &content).unwrap();
    let (mut framed, mut written) =
        write(&[], RequestContent::Length(content.len() as u64)).unwrap();
    let mut rest = content.as_slice();
    while !rest.is_empty() {
        let FramedPiece { bytes, end } =
            written.content.frame(&mut framed, rest.len() as u64).unwrap();
        let (piece, behind) = rest.split_at(bytes as usize);
        framed.extend_from_slice(piece);
        framed.extend_from_slice(end);
        rest = behind;
    }
    assert!(copied == framed && written.content.is_complete());
}

/// §5.4: a request whose client has disconnected. Its connection is not used again.
#[test]
fn aborted_requests() {
    let (mut out, mut written) = write(&[], RequestContent::Length(5)).unwrap();
    written.content.write(&mut out, b"he").unwrap();
    out.extend_from_slice(&ABORT);
    let read = read_request(&out);
    assert_eq!((read.content, read.is_aborted), (b"he".to_vec(), true));
    let (mut out, _) = write(&[], RequestContent::Length(0)).unwrap();
    out.extend_from_slice(&ABORT);
    assert!(read_request(&out).is_aborted);
}

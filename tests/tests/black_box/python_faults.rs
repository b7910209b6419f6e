//! Processes of Python applications that break the protocol, or end in the middle of it. They are
//! scripts in the place of the interpreter.

use crate::mounts::{site, start};
use pinion_tests::body::noise;
use pinion_tests::client::Connection;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::process::{Signal, geteuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

/// A process whose behaviour is the path of the request.
const PROCESS: &str = r#"#!/usr/bin/python3
import marshal, os, socket, struct, sys, threading, time, zlib

listener = socket.socket(fileno=os.dup(0))
attempts = 0

def frame(kind, number, content=b''):
    return struct.pack('<III', kind, number, len(content)) + content

def response(number, content):
    head = b'200 OK\nContent-Type: text/plain\nContent-Length: %d\n' % len(content)
    return frame(17, number, struct.pack('<I', len(head)) + head + content)

# Of requests whose content is read slowly: the bytes, and their checksum.
reading = {}
ends = 0

def read(number, content):
    """Reads content, more slowly than it could come, and asks for more."""
    known = reading[number]
    before = known[0] >> 20
    known[:] = known[0] + len(content), zlib.adler32(content, known[1])
    time.sleep(0.001)
    return frame(23, number, struct.pack('<I', 1 << 20)) if known[0] >> 20 > before else b''

def end(number):
    """Asks for more although there is none, and responds."""
    global ends
    ends += 1
    more = frame(23, number, struct.pack('<I', 65536)) * 3
    return more + response(number, b'%d %d' % tuple(reading[number])) if ends == 1 else b''

def action(number, path, content):
    global attempts
    head = frame(18, number, b'200 OK\nContent-Type: text/plain\n')
    if path == '/floods':
        return head + frame(19, number, bytes(65536)) * 1000 + frame(20, number)
    if path == '/wants':
        return frame(23, number, struct.pack('<I', 2**31))
    if path == '/wants-again':
        return frame(23, number, struct.pack('<I', 65536)) * 100
    if path == '/greedy':
        return frame(23, number, struct.pack('<I', 1 << 20)) * 8
    if path == '/reads':
        reading[number] = [0, 1]
        return frame(23, number, struct.pack('<I', 1 << 20))
    if path == '/ends':
        return response(number, b'%d' % ends)
    if path == '/two-heads':
        return head + head + frame(20, number)
    if path == '/hints':
        return frame(24, number, b'Link: </x>\n') * 100 + response(number, b'late')
    if path == '/content-first':
        return frame(19, number, b'x') + response(number, b'late')
    if path == '/end-alone':
        return frame(20, number)
    if path == '/unknown':
        return frame(99, number)
    if path == '/others':
        return response(number + 1, b'not asked for') + response(number, content)
    if path == '/gives-back':
        attempts += 1
        if attempts < 3:
            return frame(25, 0, struct.pack('<I', number))
    if path == '/never':
        return frame(25, 0, struct.pack('<I', number))
    return response(number, content or b'')

def serve(connection):
    connection.sendall(frame(16, 0, b'{}'))
    stream = connection.makefile('rb')
    while True:
        header = stream.read(12)
        if len(header) < 12:
            return
        kind, number, length = struct.unpack('<III', header)
        content = stream.read(length)
        if kind == 1:
            batch = marshal.loads(content)
            for number, environ, content in batch:
                path = environ.get('PATH_INFO', '/x')
                if path == '/batch':
                    content = b'%d' % len(batch)
                connection.sendall(action(number, path, content))
        elif kind == 2 and number in reading:
            connection.sendall(read(number, content))
        elif kind == 3:
            connection.sendall(end(number))
        elif kind == 5:
            connection.sendall(frame(20, number))

def run(connection):
    try:
        serve(connection)
    except OSError:
        pass

while True:
    connection, _ = listener.accept()
    # The name of the application is that of a file.
    if os.path.exists(sys.argv[-1]):
        os.unlink(sys.argv[-1])
        connection.close()
        continue
    threading.Thread(target=run, args=(connection,), daemon=True).start()
"#;

/// Starts a server whose applications use this process.
fn serve(folder: &Folder, io: Io, application: &str) -> Server {
    start(folder, io, &mount(folder, application))
}

fn mount(folder: &Folder, application: &str) -> String {
    folder.write("process", PROCESS);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("permissions");
    let process = folder.join("process");
    fs::set_permissions(&process, Permissions::from_mode(0o755)).expect("permissions");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    format!(
        "[[site.mount]]\npath = \"/run\"\nwsgi = \"{application}\"\npython = {process:?}\n{user}"
    )
}

/// Content that has arrived together with the head of a request is sent with it to an ASGI
/// application, without a round trip.
#[test]
fn short_content_is_sent_with_its_request() {
    let folder = site("python-content");
    let keys = mount(&folder, "x").replace("wsgi", "asgi");
    for io in Io::BOTH {
        let server = start(&folder, io, &keys);
        let mut connection = server.connect();
        for bytes in [1, 100, 4000] {
            let content = vec![b'a'; bytes];
            let response = connection.exchange(&Request::new("POST", "/run/x").body(&content));
            assert_eq!((response.status, response.body.len()), (200, bytes));
        }
        server.stop();
    }
}

/// Requests that have arrived while the worker was busy are sent to a process together.
#[test]
fn requests_of_one_pass_are_one_batch() {
    const CLIENTS: usize = 20;
    let folder = site("python-batch");
    let keys = mount(&folder, "x") + "python-threads = 32\n";
    folder.write("p.toml", format!("[[site]]\npath = \"public\"\ninclude = \"*.php\"\n{keys}"));
    for io in Io::BOTH {
        let flags = ["--io", io.as_str(), "--workers", "1"];
        let server = Start::site(&folder.join("p.toml")).flags(&flags).start();
        let request = Request::get("/run/batch");
        let mut connections: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
        for connection in &mut connections {
            assert_eq!(connection.exchange(&request).text(), "1");
        }
        server.signal(Signal::STOP);
        connections.iter_mut().for_each(|connection| connection.send(request.bytes()));
        server.signal(Signal::CONT);
        let batches = connections.iter_mut().map(|connection| connection.receive());
        let batches: Vec<usize> =
            batches.map(|response| response.text().parse().expect("a number")).collect();
        // The test does not know when the worker stops and continues, so there may be several
        // passes.
        assert!(batches.iter().any(|requests| *requests > 2), "{batches:?}");
        server.stop();
    }
}

/// Each error fails only its own request, and the log has its reason.
#[test]
fn a_protocol_violation_of_a_process_fails_its_request() {
    let folder = site("python-faults");
    for io in Io::BOTH {
        let server = serve(&folder, io, "x");
        for (path, status, line) in [
            ("wants", 502, "a request for too much content"),
            ("wants-again", 502, "a request for too much content"),
            ("hints", 502, "too many hints"),
            ("content-first", 502, "content before a head"),
            ("end-alone", 500, "without a response"),
            ("unknown", 502, "unknown kind 99"),
            ("never", 502, "has ended"),
        ] {
            let request = Request::new("POST", &format!("/run/{path}")).body(&[b'a'; 100_000]);
            let mut connection = server.connect();
            let mut response = connection.exchange(&request);
            while response.status < 200 {
                response = connection.receive_to(&request);
            }
            assert_eq!(response.status, status, "{path}: {response}");
            server.wait_for_line(0, |found| found.contains(line));
        }
        let cut = server.client().try_exchange(&Request::get("/run/two-heads"));
        assert!(cut.is_err(), "{cut:?}");
        server.wait_for_line(0, |found| found.contains("a second head"));
        let own = server.exchange(&Request::new("POST", "/run/others").body(b"content"));
        assert_eq!(own.text(), "content");
        server.stop();
    }
}

/// Content for a process waits in memory, so the process gets no more than it reads.
#[test]
fn requesting_more_content_than_is_read_fails_the_request() {
    let folder = site("python-greedy");
    for io in Io::BOTH {
        let server = serve(&folder, io, "x");
        let request = Request::new("POST", "/run/greedy").body(&vec![b'a'; 8 << 20]);
        assert_eq!(server.exchange(&request).status, 502);
        server.wait_for_line(0, |line| line.contains("a request for too much content"));
        server.stop();
    }
}

/// Returns the checksum of `zlib.adler32` (RFC 1950, section 8.2).
fn adler32(content: &[u8]) -> u32 {
    let (first, second) = content.iter().fold((1, 0), |(first, second), byte| {
        let first = (first + u32::from(*byte)) % 65521;
        (first, (second + first) % 65521)
    });
    second << 16 | first
}

/// A process that reads slowly gets stored content and arriving content completely, with one end.
#[test]
fn a_process_that_reads_slowly_gets_all_content_and_one_end() {
    let folder = site("python-reads");
    let content = noise(5_000_000);
    let keys = mount(&folder, "x");
    for io in Io::BOTH {
        for limit in ["16M", "1K"] {
            let server = start(&folder, io, &format!("{keys}buffer-limit = \"{limit}\"\n"));
            let mut connection = server.connect();
            let response = connection.exchange(&Request::new("POST", "/run/reads").body(&content));
            let expected = format!("{} {}", content.len(), adler32(&content));
            assert_eq!((response.status, response.text()), (200, &*expected), "{limit}");
            let ends = connection.exchange(&Request::get("/run/ends"));
            assert_eq!(ends.text(), "1", "{limit}");
            server.stop();
        }
    }
}

/// Output of a process waits in memory for the client, so the process sends no more than allowed.
#[test]
fn a_process_that_floods_a_slow_client_is_stopped() {
    let folder = site("python-floods");
    for io in Io::BOTH {
        let server = serve(&folder, io, "x");
        let mut slow = server.connect();
        slow.send(Request::get("/run/floods").bytes());
        server.wait_for_line(0, |line| line.contains("more content than there is room for"));
        assert_eq!(server.get("/run/x").status, 200);
        // Its response ends after the read content.
        drop(slow);
        server.stop();
    }
}

/// A connection is closed before the process has read anything of it.
#[test]
fn a_request_that_no_process_has_read_is_sent_again() {
    let folder = site("python-closes");
    for io in Io::BOTH {
        let closes = folder.join("closes");
        let server = serve(&folder, io, closes.to_str().expect("UTF-8"));
        fs::write(&closes, "").expect("a file");
        let response = server.exchange(&Request::new("POST", "/run/x").body(b"content"));
        assert_eq!((response.status, response.text()), (200, "content"));
        assert!(!closes.exists(), "a connection was closed");
        server.stop();
    }
}

/// The requests include their content.
#[test]
fn requests_that_a_process_returns_are_sent_again() {
    let folder = site("python-gives-back");
    for io in Io::BOTH {
        let server = serve(&folder, io, "x");
        let response = server.exchange(&Request::new("POST", "/run/gives-back").body(b"content"));
        assert_eq!((response.status, response.text()), (200, "content"));
        server.stop();
    }
}

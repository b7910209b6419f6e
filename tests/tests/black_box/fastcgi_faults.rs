//! FastCGI applications that break the protocol, that end, and that are replaced: each client gets
//! an error, and others are not affected.

use pinion_tests::fastcgi_application::{Application, STDERR, STDOUT, end, page, record, response};
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Starts a server whose requests all go to the application at a socket.
fn start(folder: &Folder, io: Io, lines: &str) -> Server {
    let socket = folder.join("app.sock");
    let mount = format!("[[site.mount]]\nfastcgi = \"unix:{}\"\n{lines}", socket.display());
    folder.write("public/file.txt", "file");
    folder.write("pinion.toml", format!("[[site]]\npath = \"public\"\n{mount}"));
    let flags = ["--io", io.as_str(), "--workers", "1"];
    Start::site(&folder.join("pinion.toml")).flags(&flags).start()
}

/// Runs a case with an application that sends these bytes, and checks that other requests are not
/// affected.
fn serving(name: &str, bytes: Vec<u8>, case: impl Fn(&Server)) {
    let folder = Folder::new(name);
    let _app = Application::start(&folder.join("app.sock"), move |connection| {
        if let Some(request) = connection.request() {
            let is_good = request.get("PATH_INFO") == "/good";
            connection.send(if is_good { page("good") } else { bytes.clone() });
        }
    });
    for io in Io::BOTH {
        let server = start(&folder, io, "");
        case(&server);
        assert_eq!(server.get("/good").text(), "good");
        assert_eq!(server.get("/file.txt").text(), "file");
        server.stop();
    }
}

/// FastCGI 1.0 §3.3, §5.5, and RFC 3875 §6: a malformed response gives 502.
#[test]
fn malformed_records_and_documents_are_not_forwarded() {
    let fine = page("fine");
    let changed = |at: usize, byte: u8| {
        let mut bytes = fine.clone();
        bytes[at] = byte;
        bytes
    };
    let document = |text: &str| response(text.as_bytes());
    let long = format!("A: {}\n\nx", "a".repeat(1 << 20));
    for (fault_name, bytes) in [
        ("nothing", Vec::new()),
        ("HTTP", b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()),
        ("version 2", changed(0, 2)),
        ("version 0", changed(0, 0)),
        ("another request", changed(3, 7)),
        ("an unknown type", changed(1, 99)),
        ("no output", [record(STDOUT, b""), end(0)].concat()),
        ("overloaded", end(2)),
        ("no multiplexing", end(1)),
        ("an unknown role", end(3)),
        ("binary", document("\0\u{1}\u{2}\n\nx")),
        ("no head", document("hello")),
        ("an empty head", document("\n\nhello")),
        ("a status of letters", document("Status: OK\nContent-Type: a/b\n\nx")),
        ("a status of two digits", document("Status: 20\nContent-Type: a/b\n\nx")),
        ("two lengths", document("Content-Length: 1\nContent-Length: 2\n\nab")),
        ("a head without end", document(&long)),
    ] {
        serving(&format!("fastcgi-bad-{}", fault_name.replace(' ', "-")), bytes, |server| {
            let response = server.get("/x");
            assert!(matches!(response.status, 502 | 503), "{fault_name}: {response}");
        });
    }
}

/// §3.3: padding, empty records, streams in any pieces, and records of the application itself.
#[test]
fn unusual_records_are_understood() {
    let document = b"Content-Type: text/plain\r\n\r\nwhole";
    let mut bytes = Vec::new();
    for byte in document {
        bytes.extend_from_slice(&[1, STDOUT, 0, 1, 0, 1, 7, 0, *byte, 9, 9, 9, 9, 9, 9, 9]);
        bytes.extend_from_slice(&record(STDERR, b"x"));
    }
    bytes.extend_from_slice(&record(STDERR, b""));
    bytes.extend_from_slice(&[record(STDOUT, b""), end(0)].concat());
    serving("fastcgi-unusual", bytes, |server| assert_eq!(server.get("/x").text(), "whole"));
}

/// An application that ends after any byte of its response: no client can mistake the received part
/// for the whole response.
#[test]
fn a_truncated_response_never_looks_complete() {
    let whole = page("content");
    let folder = Folder::new("fastcgi-cut");
    let count = whole.len();
    let _app = Application::start(&folder.join("app.sock"), move |connection| {
        if let Some(request) = connection.request() {
            let cut = request.get("QUERY_STRING").parse().unwrap_or(whole.len());
            connection.send(&whole[..cut]);
        }
    });
    for io in Io::BOTH {
        let server = start(&folder, io, "");
        for cut in 0..count {
            let mut client = server.connect();
            client.send(Request::new("POST", &format!("/?{cut}")).bytes());
            if let Ok(response) = client.try_receive(false) {
                assert_eq!(response.status, 502, "cut at {cut}: {response}");
            }
        }
        assert_eq!(server.get("/").text(), "content");
        server.stop();
    }
}

/// An application that does not run yet when Pinion starts, that ends during a request, and that is
/// replaced by another one with the same path: only the open requests fail.
#[test]
fn an_application_may_start_late_and_be_replaced() {
    let folder = Folder::new("fastcgi-replaced");
    let socket = folder.join("app.sock");
    for io in Io::BOTH {
        let _missing = std::fs::remove_file(&socket);
        let server = start(&folder, io, "keep-connections = 4\n");
        assert_eq!(server.get("/").status, 502);
        for round in 0..20 {
            let name = format!("application {round}");
            let app = Application::start(&socket, move |connection| {
                while let Some(request) = connection.request() {
                    if request.get("PATH_INFO") == "/end" {
                        return;
                    }
                    connection.send(page(&name));
                }
            });
            assert_eq!(server.get("/").text(), format!("application {round}"));
            assert_eq!(server.exchange(&Request::new("POST", "/end").body(b"a")).status, 502);
            assert_eq!(server.get("/").text(), format!("application {round}"));
            drop(app);
        }
        server.stop();
    }
}

/// listen(2): a Unix socket whose queue is full refuses with EAGAIN. Requests wait for it, and none
/// of them fails.
#[test]
fn requests_wait_for_a_full_queue() {
    const REQUESTS: usize = 12;
    let folder = Folder::new("fastcgi-backlog");
    let path = folder.join("app.sock");
    for io in Io::BOTH {
        let _missing = std::fs::remove_file(&path);
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        bind(&listener, &SocketAddrUnix::new(&path).expect("a path")).expect("bound");
        listen(&listener, 0).expect("listens");
        let server = start(&folder, io, "");
        let mut clients: Vec<_> = (0..REQUESTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(Request::get("/").bytes());
        }
        // The first of them are in the queue, and the others have been refused.
        assert_eq!(server.get("/file.txt").text(), "file");
        for _ in 0..REQUESTS {
            let mut connection = UnixStream::from(accept(&listener).expect("a connection"));
            connection.write_all(&page("served")).expect("written");
            // The request was not read, so the stream must not be reset before it is.
            std::thread::spawn(move || {
                let mut sink = Vec::new();
                let _read = std::io::Read::read_to_end(&mut connection, &mut sink);
            });
        }
        for client in &mut clients {
            assert_eq!(client.receive().text(), "served");
        }
        server.stop();
    }
}

/// unix(7): a socket with an abstract name has no file.
#[test]
fn an_application_may_listen_at_an_abstract_name() {
    let name = format!("pinion-test-{}", std::process::id());
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    bind(&listener, &address).expect("bound");
    listen(&listener, 8).expect("listens");
    let folder = Folder::with("fastcgi-abstract", [("public/file.txt", "file")]);
    let mount = format!("[[site.mount]]\nfastcgi = \"unix:@{name}\"\n");
    folder.write("pinion.toml", format!("[[site]]\npath = \"public\"\n{mount}"));
    for io in Io::BOTH {
        let flags = ["--io", io.as_str()];
        let server = Start::site(Path::new(&folder.join("pinion.toml"))).flags(&flags).start();
        let mut client = server.connect();
        client.send(Request::get("/").bytes());
        let mut connection = UnixStream::from(accept(&listener).expect("a connection"));
        connection.write_all(&page("served")).expect("written");
        assert_eq!(client.receive().text(), "served");
        server.stop();
    }
}

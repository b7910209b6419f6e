//! `[[site.mount]] wsgi`: Python applications that the server starts itself (WSGI, PEP 3333).

use crate::mounts::{site, start};
use pinion_tests::body::noise;
use pinion_tests::client::Connection;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Signal, geteuid};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;

/// Content that fits into no socket buffer.
const LARGE_BYTES: usize = 3_000_000;

/// An application with a path for each thing that it does.
const APPLICATION: &str = r#"
import os, signal, sys, time
from wsgiref.validate import validator

text = [('Content-Type', 'text/plain')]

# Loading takes as long as this file is there.
while os.path.exists(os.path.join(os.path.dirname(__file__), 'loading')):
    time.sleep(0.01)

def application(environ, start_response):
    path = environ['PATH_INFO']
    if path == '/fails':
        raise ValueError('no luck today')
    if path == '/breaks':
        start_response('200 OK', text)
        return breaks()
    if path == '/injects':
        start_response('200 OK', text + [('X-A', 'a\r\nSet-Cookie: b=c')])
        return [b'']
    if path == '/short':
        start_response('200 OK', text + [('Content-Length', '100')])
        return [b'short']
    if path == '/dies':
        os.kill(os.getpid(), signal.SIGSEGV)
    if path == '/dies-within':
        start_response('200 OK', text)
        return dies()
    if path == '/empty':
        start_response(environ['QUERY_STRING'], [])
        return []
    if path == '/pid':
        start_response('200 OK', text)
        return [str(os.getpid()).encode()]
    if path == '/leaves':
        start_response('200 OK', text)
        return Leaves(environ['QUERY_STRING'])
    if path == '/counts':
        # One line for each call, in one call of the system.
        name, number = environ['QUERY_STRING'].split('&')
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.write(file, number.encode() + b'\n')
        os.close(file)
    if path == '/holds':
        while not os.path.exists(environ['QUERY_STRING']):
            time.sleep(0.01)
    if path == '/dies-alone':
        die_alone()
    if path == '/hangs':
        hang(environ['QUERY_STRING'])
    if path == '/sleeps':
        time.sleep(0.3)
    if path == '/zeros':
        start_response('200 OK', text)
        return (bytes(10000) for _ in range(int(environ['QUERY_STRING'])))
    return checked(environ, start_response)

def breaks():
    yield b'first'
    raise ValueError('in the middle')

def hang(path):
    while not os.path.exists(path):
        time.sleep(0.01)

def die_alone():
    """Ends the process once its backlog was taken back, or if there was none for a while."""
    frame = sys._getframe()
    while type(frame.f_locals.get('self')).__name__ != 'WsgiServer':
        frame = frame.f_back
    backlog = frame.f_locals['self'].backlog
    was_there = False
    for _ in range(1000):
        was_there |= len(backlog) > 0
        if was_there and not backlog:
            break
        time.sleep(0.002)
    os.kill(os.getpid(), signal.SIGKILL)

def dies():
    yield b'first'
    os.kill(os.getpid(), signal.SIGKILL)
    yield b'second'

class Leaves:
    """Writes a file when the server closes it."""
    def __init__(self, path):
        self.path = path
    def __iter__(self):
        while True:
            yield bytes(1000)
            time.sleep(0.01)
    def close(self):
        open(self.path, 'w').close()

def variables(environ, start_response):
    content = environ['wsgi.input'].read(10**9)
    start_response('200 OK', text)
    names = ['REQUEST_METHOD', 'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'CONTENT_LENGTH',
             'CONTENT_TYPE', 'SERVER_NAME', 'HTTP_X_A', 'HTTP_X_B', 'HTTP_PROXY', 'wsgi.url_scheme']
    lines = ['%s=%s\n' % (name, environ[name]) for name in names if name in environ]
    return [''.join(lines).encode('latin-1'), b'%d %d\n' % (len(content), sum(content))]

checked = validator(variables)
"#;

fn application(name: &str) -> Folder {
    let folder = site(name);
    folder.write("app/app.py", APPLICATION);
    // The application writes a file there, as another user if the tests run as root.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("permissions");
    folder
}

/// Returns a mount at `/run` of the application.
fn mount(folder: &Folder, keys: &str) -> String {
    let path = folder.join("app");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    format!(
        "[[site.mount]]\npath = \"/run\"\nwsgi = \"app\"\npython = \"/usr/bin/python3\"\n\
         python-folder = {path:?}\n{user}{keys}"
    )
}

#[test]
fn an_application_gets_the_request() {
    let folder = application("wsgi-request");
    let content = noise(LARGE_BYTES);
    let sum = |content: &[u8]| content.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, "buffer-limit = \"1M\"\n"));
        let request = Request::new("PUT", "/run/a%20%C3%A4/b?x=%201&y")
            .field("Content-Type", "text/x-own")
            .field("X-A", "\u{e4}")
            .field("X_B", "wrong")
            .field("Proxy", "wrong");
        for content in [&content[..0], &content[..1], &content[..100_000], &content] {
            let response = server.exchange(&request.clone().body(content));
            let length = content.len();
            let expected = format!(
                "REQUEST_METHOD=PUT\nSCRIPT_NAME=/run\nPATH_INFO=/a \u{e4}/b\n\
                 QUERY_STRING=x=%201&y\nCONTENT_LENGTH={length}\nCONTENT_TYPE=text/x-own\n\
                 SERVER_NAME=localhost\nHTTP_X_A=\u{e4}\nwsgi.url_scheme=http\n{length} {}\n",
                sum(content)
            );
            assert_eq!((response.status, response.text()), (200, &*expected));
        }
        // Its length is found out before.
        let chunked = request.clone().chunked(&content[..500_000], 10_000);
        let text = server.exchange(&chunked).text().to_owned();
        assert!(text.ends_with(&format!("\n500000 {}\n", sum(&content[..500_000]))), "{text}");
        assert!(text.contains("CONTENT_LENGTH=500000\n"), "{text}");
        assert_eq!(server.exchange(&request.chunked(&content, 10_000)).status, 411);
        let head = server.exchange(&Request::head("/run/"));
        assert_eq!((head.status, head.body.len()), (200, 0));
        // PEP 3333 lets a server omit empty variables, but applications rely on them.
        let text = server.get("/run").text().to_owned();
        let expected = "REQUEST_METHOD=GET\nSCRIPT_NAME=/run\nPATH_INFO=\nQUERY_STRING=\n";
        assert!(text.starts_with(expected), "{text}");
        server.stop();
    }
}

#[test]
fn all_protocols_reach_applications() {
    let folder = application("wsgi-protocols");
    folder.write(
        "p.toml",
        format!("[[site]]\npath = \"public\"\ninclude = \"*.php\"\n{}", mount(&folder, "")),
    );
    for protocol in [Protocol::Http2Clear, Protocol::Http3] {
        let server = Start::site(&folder.join("p.toml"))
            .in_way(Way { io: Io::BOTH[0], protocol, form: Form::Folder })
            .start();
        let response = server.exchange(&Request::new("POST", "/run/x").body(b"abc"));
        assert!(response.text().ends_with("\n3 294\n"), "{protocol:?}: {}", response.text());
        server.stop();
    }
}

#[test]
fn a_failure_ends_only_its_request() {
    let folder = application("wsgi-failures");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        let pid = server.get("/run/pid").text().to_owned();
        for (target, line) in [
            ("/run/fails", "ValueError: no luck today"),
            ("/run/injects", "X-A"),
            ("/run/short", "Content-Length"),
        ] {
            let response = server.get(target);
            assert_eq!(response.status, 500, "{target}");
            assert!(!response.text().contains("luck"), "the traceback is in the log alone");
            server.wait_for_line(0, |found| found.contains(line));
        }
        server.wait_for_line(0, |line| line.contains("in application"));
        let cut = server.client().try_exchange(&Request::get("/run/breaks"));
        assert!(cut.is_err(), "{cut:?}");
        assert_eq!(server.get("/run/pid").text(), pid, "it is the same process");
        server.stop();
    }
}

/// The response, the log and the application name a request by the same number.
#[test]
fn lines_in_the_log_have_the_number_of_their_request() {
    let folder = application("wsgi-numbers");
    let lines = format!("request-id = true\n{}", mount(&folder, ""));
    let server = start(&folder, Io::Epoll, &lines);
    let response = server.get("/run/fails");
    let number = response.field("X-Request-Id").expect("a number").to_owned();
    for text in ["GET /fails: the application has failed", "ValueError: no luck today"] {
        server.wait_for_line(0, |line| line.ends_with(&format!("]: [{number}] {text}")));
    }
    server.stop();
}

#[test]
fn a_process_that_dies_is_started_again() {
    let folder = application("wsgi-dies");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        let pid = server.get("/run/pid").text().to_owned();
        assert_eq!(server.get("/run/dies").status, 502);
        // The next request waits for the next process.
        let next = server.get("/run/pid").text().to_owned();
        assert_ne!(next, pid);
        server.wait_for_line(0, |line| line.contains("SIGSEGV"));
        let cut = server.client().try_exchange(&Request::get("/run/dies-within"));
        assert!(cut.is_err(), "{cut:?}");
        assert_ne!(server.get("/run/pid").text(), next);
        server.stop();
    }
}

/// The other process gets all requests while it is loaded.
#[test]
fn a_restarting_process_does_not_block_requests() {
    let folder = application("wsgi-loading");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, "python-processes = 2\n"));
        let pids = || (0..20).map(|_| server.get("/run/pid").text().to_owned());
        let loading = folder.join("app/loading");
        fs::write(&loading, "").expect("a file");
        assert_eq!(server.get("/run/dies").status, 502);
        assert_eq!(pids().collect::<BTreeSet<_>>().len(), 1, "the other one responds");
        fs::remove_file(&loading).expect("removed");
        wait_for("both", || {
            let requests: Vec<Request> = (0..20).map(|_| Request::get("/run/pid")).collect();
            let mut connections = send_all(&server, &requests);
            let pids = connections.iter_mut().map(|connection| {
                let response = connection.receive();
                assert_eq!(response.status, 200);
                response.text().to_owned()
            });
            (pids.collect::<BTreeSet<_>>().len() == 2).then_some(())
        });
        server.stop();
    }
}

#[test]
fn an_iterable_of_a_client_that_leaves_is_closed() {
    let folder = application("wsgi-leaves");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        let closed = folder.join("closed");
        let target = format!("/run/leaves?{}", closed.display());
        server.client().leave_within(&Request::get(&target));
        wait_for("the end of the iterable", || closed.exists().then_some(()));
        fs::remove_file(&closed).expect("removed");
        assert_eq!(server.get("/run/").status, 200);
        server.stop();
    }
}

/// RFC 9110 §8.6: no Content-Length with status 204, and none with 304 that a GET would not have.
#[test]
fn responses_without_content_have_no_length() {
    let folder = application("wsgi-empty");
    let server = start(&folder, Io::BOTH[0], &mount(&folder, ""));
    for status in [204, 304] {
        let response = server.get(&format!("/run/empty?{status}"));
        assert_eq!((response.status, response.body.len()), (status, 0));
        assert_eq!(response.field("Content-Length"), None, "{status}");
    }
    server.stop();
}

/// More than a process may send before the client has taken it.
#[test]
fn large_responses_are_whole() {
    let folder = application("wsgi-large");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        let response = server.get("/run/zeros?3000");
        assert_eq!(response.body.len(), 30_000_000);
        server.stop();
    }
}

/// Requests come from many clients at the same time, to several processes.
#[test]
fn many_clients_share_processes() {
    let folder = application("wsgi-clients");
    for io in Io::BOTH {
        let keys = "python-processes = 2\npython-threads = 2\n";
        let server = start(&folder, io, &mount(&folder, keys));
        thread::scope(|scope| {
            for client in 0..16 {
                let server = &server;
                scope.spawn(move || {
                    let mut connection = server.connect();
                    for number in 0..50 {
                        let path = if number % 25 == 7 { "sleeps" } else { "x" };
                        let target = format!("/run/{path}?{client}-{number}");
                        let text = connection.exchange(&Request::get(&target)).text().to_owned();
                        let query = format!("QUERY_STRING={client}-{number}\n");
                        assert!(text.contains(&query), "{text}");
                    }
                });
            }
        });
        server.stop();
    }
}

/// Sends these requests at the same time, each over a connection of its own.
fn send_all(server: &Server, requests: &[Request]) -> Vec<Connection> {
    let mut connections: Vec<Connection> = requests.iter().map(|_| server.connect()).collect();
    for (connection, request) in connections.iter_mut().zip(requests) {
        connection.send(request.bytes());
    }
    connections
}

/// Returns requests that write their numbers, and the lines that they write.
fn counted(file: &Path, count: usize) -> (Vec<Request>, Vec<String>) {
    let target = |number: &usize| format!("/run/counts?{}&{number}", file.display());
    let numbers = (100..100 + count).collect::<Vec<_>>();
    let requests = numbers.iter().map(|number| Request::get(&target(number))).collect();
    (requests, numbers.iter().map(ToString::to_string).collect())
}

/// Returns the numbers that were written, each as often as its request was executed.
fn executed(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Requests that wait for a long request in a process are moved to another one, and none is
/// executed twice.
#[test]
fn a_long_request_does_not_block_others() {
    let folder = application("wsgi-holds");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, "python-processes = 2\n"));
        for round in 0..5 {
            let (file, gate) = (folder.join("counts"), folder.join("gate"));
            // The processes show that they are quick, so that they have a backlog.
            (0..60).for_each(|_| assert_eq!(server.get("/run/pid").status, 200));
            let (mut requests, expected) = counted(&file, 30);
            let hold = Request::get(&format!("/run/holds?{}", gate.display()));
            requests.insert(round, hold);
            let mut connections = send_all(&server, &requests);
            let mut held = connections.remove(round);
            for connection in &mut connections {
                assert_eq!(connection.receive().status, 200);
            }
            assert_eq!(executed(&file), expected, "each request is executed once");
            fs::write(&gate, "").expect("a file");
            assert_eq!(held.receive().status, 200);
            fs::remove_file(&gate).expect("removed");
            fs::remove_file(&file).expect("removed");
        }
        server.stop();
    }
}

/// A process that dies loses few requests: most of those that it has not started were returned
/// before. Except the request that ends the process, no failed request was executed.
#[test]
fn a_process_dies_with_the_request_that_it_executes() {
    let folder = application("wsgi-dies-alone");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        let file = folder.join("counts");
        (0..60).for_each(|_| assert_eq!(server.get("/run/pid").status, 200));
        let (mut requests, numbers) = counted(&file, 30);
        requests.insert(0, Request::get("/run/dies-alone"));
        let mut connections = send_all(&server, &requests);
        let statuses: Vec<u16> =
            connections.iter_mut().map(|connection| connection.receive().status).collect();
        assert!(statuses.iter().all(|status| matches!(status, 200 | 502)), "{statuses:?}");
        // A request that reached the process right before its end is lost.
        let failed = statuses.iter().filter(|status| **status == 502).count();
        assert!(failed < 10, "{statuses:?}");
        assert_eq!(statuses.first(), Some(&502));
        let served = numbers.iter().zip(&statuses[1..]).filter(|(_, status)| **status == 200);
        let served: Vec<String> = served.map(|(number, _)| number.clone()).collect();
        assert_eq!(executed(&file), served, "each request is executed once");
        fs::remove_file(&file).expect("removed");
        server.stop();
    }
}

/// A request that exceeds its time is cancelled, and the log shows its stack.
#[test]
fn a_request_over_its_time_shows_its_stack() {
    let folder = application("wsgi-hangs");
    let server = start(&folder, Io::BOTH[0], &mount(&folder, "timeout = 1\n"));
    let gate = folder.join("gate");
    let target = format!("/run/hangs?{}", gate.display());
    assert_eq!(server.get(&target).status, 504);
    server.wait_for_line(0, |line| line.contains("/hangs exceeded the time limit"));
    server.wait_for_line(0, |line| line.contains("in hang"));
    fs::write(&gate, "").expect("a file");
    assert_eq!(server.get("/run/x").status, 200);
    server.stop();
}

#[test]
fn a_reload_changes_the_application() {
    let folder = application("wsgi-reload");
    folder.write(
        "app/other.py",
        "def app(environ, start_response):\n\
         \x20   start_response('200 OK', [('Content-Type', 'text/plain')])\n\
         \x20   return [b'other']\n",
    );
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        assert_eq!(server.get("/run/x").status, 200);
        let site = "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n";
        let other = mount(&folder, "").replace("wsgi = \"app\"", "wsgi = \"other\"");
        folder.write("p.toml", format!("{site}{other}"));
        server.signal(Signal::HUP);
        wait_for("the other application", || {
            let response = server.get("/run/x");
            assert_eq!(response.status, 200);
            (response.text() == "other").then_some(())
        });
        server.stop();
    }
}

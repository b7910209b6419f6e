//! `[[site.mount]] asgi`: Python applications that execute many requests at the same time (ASGI 3).

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
use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

/// Content that fits into no buffer on the way.
const LARGE_BYTES: usize = 30_000_000;

/// An application with a path for each thing that it does.
const APPLICATION: &str = r#"
import asyncio, os, signal, time

gate = asyncio.Event()
streams = 0

async def app(scope, receive, send):
    if scope['type'] == 'lifespan':
        while True:
            message = await receive()
            await send({'type': message['type'] + '.complete'})
            if message['type'] == 'lifespan.shutdown':
                return
    path = scope['path'][len(scope['root_path']):]
    await globals()[path.strip('/').split('/')[0] or 'hello'](scope, receive, send)

async def begin(send, headers=[(b'content-type', b'text/plain')], status=200):
    await send({'type': 'http.response.start', 'status': status, 'headers': headers})

async def body(send, content, more=False):
    await send({'type': 'http.response.body', 'body': content, 'more_body': more})

async def whole(send, text):
    await begin(send)
    await body(send, text if type(text) is bytes else text.encode())

async def content(receive):
    while True:
        message = await receive()
        if message['type'] == 'http.disconnect':
            raise ConnectionError('the client has left')
        if message['body']:
            yield message['body']
        if not message['more_body']:
            return

async def hello(scope, receive, send):
    await whole(send, 'hello')

async def scope(scope, receive, send):
    names = ['type', 'http_version', 'method', 'scheme', 'path', 'raw_path', 'query_string',
             'root_path', 'server']
    lines = ['%s=%r\n' % (name, scope[name]) for name in names]
    lines += ['%s: %s\n' % (name.decode(), value.decode('latin-1'))
              for name, value in scope['headers']]
    await whole(send, ''.join(lines))

async def sums(scope, receive, send):
    size = total = 0
    async for piece in content(receive):
        size += len(piece)
        total += sum(piece)
    await whole(send, '%d %d' % (size, total))

async def echo(scope, receive, send):
    await begin(send)
    async for piece in content(receive):
        await body(send, piece, True)
    await body(send, b'')

async def zeros(scope, receive, send):
    await begin(send)
    for _ in range(3000):
        await body(send, bytes(10000), True)
    await body(send, b'')

async def fails(scope, receive, send):
    raise ValueError('no luck today')

async def breaks(scope, receive, send):
    await begin(send)
    await body(send, b'first', True)
    raise ValueError('in the middle')

async def short(scope, receive, send):
    await begin(send, [(b'content-type', b'text/plain'), (b'content-length', b'100')])
    await body(send, b'short', True)
    await body(send, b'')

async def dies(scope, receive, send):
    os.kill(os.getpid(), signal.SIGKILL)

async def dieswithin(scope, receive, send):
    await begin(send)
    await body(send, b'first', True)
    await asyncio.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)

async def pid(scope, receive, send):
    await whole(send, str(os.getpid()))

async def leaves(scope, receive, send):
    await begin(send)
    await body(send, b'first', True)
    while (await receive())['type'] != 'http.disconnect':
        pass
    open(scope['query_string'].decode(), 'w').close()

async def hangs(scope, receive, send):
    async for piece in content(receive):
        pass
    await gate.wait()

async def blocks(scope, receive, send):
    wait_for_file(scope['query_string'].decode())
    await whole(send, 'late')

def wait_for_file(path):
    while not os.path.exists(path):
        time.sleep(0.01)

async def stream(scope, receive, send):
    global streams
    streams += 1
    await begin(send, [(b'content-type', b'text/event-stream')])
    await body(send, b'data: begin\n\n', True)
    await gate.wait()
    await body(send, b'data: end\n\n')
    streams -= 1

async def count(scope, receive, send):
    await whole(send, str(streams))

async def release(scope, receive, send):
    gate.set()
    await whole(send, '')
"#;

fn application(name: &str) -> Folder {
    let folder = site(name);
    folder.write("app/main.py", APPLICATION);
    // The application writes a file there, as another user if the tests run as root.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("permissions");
    folder
}

/// Returns a mount at `/run` of the application.
fn mount(folder: &Folder, keys: &str) -> String {
    let path = folder.join("app");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    format!(
        "[[site.mount]]\npath = \"/run\"\nasgi = \"main:app\"\npython = \"/usr/bin/python3\"\n\
         python-folder = {path:?}\n{user}{keys}"
    )
}

/// Starts a server of the application for each protocol and each back-end.
fn each_way(folder: &Folder, case: impl Fn(&Server, Protocol)) {
    let site = "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n";
    folder.write("p.toml", format!("{site}{}", mount(folder, "")));
    for (protocol, io) in [
        (Protocol::Http1, Io::Epoll),
        (Protocol::Http1, Io::Uring),
        (Protocol::Http2Clear, Io::Epoll),
        (Protocol::Http2Clear, Io::Uring),
        (Protocol::Http3, Io::Epoll),
    ] {
        let way = Way { io, protocol, form: Form::Folder };
        let server = Start::site(&folder.join("p.toml")).in_way(way).start();
        case(&server, protocol);
        server.stop();
    }
}

fn sum(content: &[u8]) -> u64 {
    content.iter().map(|byte| u64::from(*byte)).sum()
}

#[test]
fn an_application_gets_the_request() {
    let folder = application("asgi-request");
    each_way(&folder, |server, protocol| {
        let version = match protocol {
            Protocol::Http2Clear => "2",
            Protocol::Http3 => "3",
            _ => "1.1",
        };
        let scheme = if protocol == Protocol::Http3 { "https" } else { "http" };
        let request = Request::new("PATCH", "/run/scope/a%20%C3%A4/%ff?x=%201&y")
            .field("X-A", "\u{e4}")
            .field("Cookie", "a=1")
            .field("X_B", "wrong")
            .field("Proxy", "wrong")
            .field("X-Forwarded-For", "wrong");
        let text = server.exchange(&request).text().to_owned();
        let expected = format!(
            "type='http'\nhttp_version='{version}'\nmethod='PATCH'\nscheme='{scheme}'\n\
             path='/run/scope/a \u{e4}/\u{fffd}'\nraw_path=b'/run/scope/a%20%C3%A4/%ff'\n\
             query_string=b'x=%201&y'\nroot_path='/run'\n"
        );
        assert!(text.starts_with(&expected), "{text}");
        for line in ["host: localhost\n", "x-a: ", "cookie: a=1\n"] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
        assert!(!text.contains("wrong"), "{text}");
        assert_eq!(server.get("/run").text(), "hello");
        let head = server.exchange(&Request::head("/run/"));
        assert_eq!((head.status, head.body.len()), (200, 0));
        // Dot segments and bytes that no path has are refused, as they are for all gateways.
        assert_eq!(server.get("/run/%00").status, 400);
    });
}

/// Content comes as the application receives it, and is never stored.
#[test]
fn content_is_streamed_both_ways() {
    let folder = application("asgi-content");
    let content = noise(LARGE_BYTES);
    each_way(&folder, |server, _| {
        for content in [&content[..0], &content[..1], &content[..100_000], &content] {
            let request = Request::new("POST", "/run/sums").body(content);
            let expected = format!("{} {}", content.len(), sum(content));
            assert_eq!(server.exchange(&request).text(), expected);
        }
        assert_eq!(server.get("/run/zeros").body.len(), LARGE_BYTES);
        let some = &content[..1_000_000];
        let response = server.exchange(&Request::new("POST", "/run/echo").body(some));
        assert_eq!(response.body.len(), some.len());
        assert!(response.body == some);
    });
    // Over HTTP/1 content may have no length; the first piece is returned before the last one is
    // sent.
    let server = start(&folder, Io::BOTH[0], &mount(&folder, ""));
    let request = Request::new("POST", "/run/sums").chunked(&content, 10_000);
    let expected = format!("{} {}", content.len(), sum(&content));
    assert_eq!(server.exchange(&request).text(), expected);
    let mut connection = server.connect();
    connection.send(
        "POST /run/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nfirst\r\n",
    );
    let mut received = Vec::new();
    read_until(&connection, &mut received, b"first");
    connection.send("4\r\nlast\r\n0\r\n\r\n");
    read_until(&connection, &mut received, b"last\r\n0\r\n\r\n");
    server.stop();
}

#[test]
fn a_failure_ends_only_its_request() {
    let folder = application("asgi-failures");
    each_way(&folder, |server, _| {
        let pid = server.get("/run/pid").text().to_owned();
        let response = server.get("/run/fails");
        assert_eq!(response.status, 500);
        assert!(!response.text().contains("luck"), "the traceback is in the log alone");
        server.wait_for_line(0, |line| line.contains("ValueError: no luck today"));
        for target in ["/run/breaks", "/run/short"] {
            let cut = server.client().try_exchange(&Request::get(target));
            assert!(cut.is_err(), "{target}: {cut:?}");
        }
        assert_eq!(server.get("/run/pid").text(), pid, "it is the same process");
    });
}

#[test]
fn a_process_that_dies_is_started_again() {
    let folder = application("asgi-dies");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        let pid = server.get("/run/pid").text().to_owned();
        assert_eq!(server.get("/run/dies").status, 502);
        let next = server.get("/run/pid").text().to_owned();
        assert_ne!(next, pid);
        let cut = server.client().try_exchange(&Request::get("/run/dieswithin"));
        assert!(cut.is_err(), "{cut:?}");
        assert_ne!(server.get("/run/pid").text(), next);
        server.stop();
    }
}

#[test]
fn an_application_is_notified_when_its_client_disconnects() {
    let folder = application("asgi-leaves");
    each_way(&folder, |server, _| {
        let left = folder.join("left");
        let target = format!("/run/leaves?{}", left.display());
        server.client().leave_within(&Request::get(&target));
        wait_for("the message", || left.exists().then_some(()));
        fs::remove_file(&left).expect("removed");
        assert_eq!(server.get("/run/").text(), "hello");
    });
}

/// The time counts from the last piece of content, and the log shows where the application waits.
#[test]
fn a_request_over_its_time_shows_its_stack() {
    let folder = application("asgi-hangs");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, "timeout = 1\n"));
        for request in [
            Request::get("/run/hangs"),
            Request::new("POST", "/run/hangs").body(&[b'a'; 100_000]),
            Request::new("POST", "/run/hangs").chunked(&[b'a'; 100_000], 1000),
        ] {
            assert_eq!(server.exchange(&request).status, 504);
        }
        server.wait_for_line(0, |line| line.contains("/run/hangs exceeded the time limit"));
        server.wait_for_line(0, |line| line.contains("in hangs"));
        // The application continues until it has ended, and only then its process ends.
        assert_eq!(server.get("/run/release").status, 200);
        server.stop();
    }
}

/// The log shows the position of the event loop, because the event loop does not respond.
#[test]
fn a_request_that_blocks_the_event_loop_shows_where_it_is() {
    let folder = application("asgi-blocks");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, "timeout = 1\n"));
        let file = folder.join("go");
        let target = format!("/run/blocks?{}", file.display());
        assert_eq!(server.get(&target).status, 504);
        let is_line = |line: &str| {
            line.contains("/run/blocks exceeded the time limit; the event loop is blocked")
        };
        server.wait_for_line(0, is_line);
        server.wait_for_line(0, |line| line.contains("in wait_for_file"));
        fs::write(&file, "").expect("a file");
        assert_eq!(server.get("/run/").text(), "hello");
        fs::remove_file(&file).expect("removed");
        server.stop();
    }
}

/// One process serves all streams, and responds to other requests meanwhile.
#[test]
fn many_streams_do_not_block_other_requests() {
    const STREAMS: usize = 200;
    let folder = application("asgi-streams");
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        let request = Request::get("/run/stream");
        let mut streams: Vec<(Connection, Vec<u8>)> = (0..STREAMS)
            .map(|_| {
                let mut connection = server.connect();
                connection.send(request.bytes());
                let mut received = Vec::new();
                read_until(&connection, &mut received, b"begin");
                (connection, received)
            })
            .collect();
        assert_eq!(server.get("/run/count").text(), STREAMS.to_string());
        assert_eq!(server.get("/").text(), "home");
        assert_eq!(server.get("/run/release").status, 200);
        for (connection, received) in &mut streams {
            read_until(connection, received, b"end\n\n\r\n0\r\n\r\n");
        }
        wait_for("their ends", || (server.get("/run/count").text() == "0").then_some(()));
        server.stop();
    }
}

/// Reads until a part has come.
fn read_until(connection: &Connection, received: &mut Vec<u8>, part: &[u8]) {
    while !received.windows(part.len()).any(|window| window == part) {
        let mut piece = [0; 1000];
        let bytes = connection.stream().read(&mut piece).expect("more of the response");
        assert!(bytes > 0, "the end before {}", part.escape_ascii());
        received.extend_from_slice(&piece[..bytes]);
    }
}

/// A reload switches to another application while a stream of the old one continues.
#[test]
fn streams_continue_across_a_reload() {
    let folder = application("asgi-reload");
    folder.write("app/other.py", "async def app(scope, receive, send):\n    raise ValueError\n");
    let server = start(&folder, Io::BOTH[0], &mount(&folder, ""));
    let mut stream = server.connect();
    stream.send("POST /run/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nfirst");
    let mut received = Vec::new();
    read_until(&stream, &mut received, b"first");
    let site = "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n";
    let other = mount(&folder, "").replace("main:app", "other:app");
    folder.write("p.toml", format!("{site}{other}"));
    server.signal(Signal::HUP);
    wait_for("the other application", || (server.get("/run/").status == 500).then_some(()));
    stream.send("later");
    read_until(&stream, &mut received, b"later");
    server.stop();
}

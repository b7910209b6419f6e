//! WebSockets of ASGI applications, over every version of HTTP, with clients that people have.

use crate::mounts::site;
use crate::proxied_websockets::{
    aioquic_client, client_converses_with, converses_with, node_client,
};
use pinion_tests::browser::Browser;
use pinion_tests::client::Connection;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Signal, geteuid};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// `/chat` sends the fields of the request first, and then every message back; below it is a path
/// for each other thing that it does.
const APPLICATION: &str = r#"
import asyncio, json, os, signal

async def app(scope, receive, send):
    if scope['type'] == 'lifespan':
        while True:
            message = await receive()
            await send({'type': message['type'] + '.complete'})
            if message['type'] == 'lifespan.shutdown':
                return
    name = scope['path'][len(scope['root_path']):].strip('/') or 'chat'
    if scope['type'] == 'http':
        text = state.get(name, name).encode()
        await send({'type': 'http.response.start', 'status': 200,
                    'headers': [(b'content-type', b'text/plain')]})
        return await send({'type': 'http.response.body', 'body': text})
    assert (await receive())['type'] == 'websocket.connect'
    await globals()[name](scope, receive, send)

state = {}

async def echo(receive, send):
    while True:
        message = await receive()
        if message['type'] == 'websocket.disconnect':
            state['closed'] = '%d %s' % (message['code'], message.get('reason', ''))
            return
        message['type'] = 'websocket.send'
        await send(message)

async def chat(scope, receive, send):
    protocols = scope['subprotocols']
    await send({'type': 'websocket.accept', 'subprotocol': protocols[-1] if protocols else None,
                'headers': [(b'x-app', b'asgi')]})
    fields = {name.decode(): value.decode() for name, value in scope['headers']}
    fields.update(http_version=scope['http_version'], scheme=scope['scheme'])
    await send({'type': 'websocket.send', 'text': json.dumps(fields)})
    await echo(receive, send)

async def plain(scope, receive, send):
    await send({'type': 'websocket.accept'})
    await echo(receive, send)

async def refuses(scope, receive, send):
    await send({'type': 'websocket.close'})

async def responds(scope, receive, send):
    await send({'type': 'websocket.http.response.start', 'status': 401,
                'headers': [(b'x-why', b'password')]})
    await send({'type': 'websocket.http.response.body', 'body': b'who are you?'})

async def fails(scope, receive, send):
    raise ValueError('no luck today')

async def breaks(scope, receive, send):
    await send({'type': 'websocket.accept'})
    raise ValueError('in the middle')

async def returns(scope, receive, send):
    await send({'type': 'websocket.accept'})

async def closes(scope, receive, send):
    await send({'type': 'websocket.accept'})
    await send({'type': 'websocket.close', 'code': 4321, 'reason': 'enough'})

async def dies(scope, receive, send):
    await send({'type': 'websocket.accept'})
    await receive()
    os.kill(os.getpid(), signal.SIGKILL)

async def flood(scope, receive, send):
    await send({'type': 'websocket.accept'})
    state['sent'] = '0'
    try:
        while True:
            await send({'type': 'websocket.send', 'bytes': bytes(10000)})
            state['sent'] = str(int(state['sent']) + 10000)
    finally:
        state['flood'] = 'over'
"#;

fn application(name: &str) -> Folder {
    let folder = site(name);
    folder.write("app/main.py", APPLICATION);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("permissions");
    let path = folder.join("app");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    let mount = format!(
        "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n[[site.mount]]\npath = \"/chat\"\n\
         asgi = \"main:app\"\npython = \"/usr/bin/python3\"\npython-folder = {path:?}\n{user}"
    );
    folder.write("p.toml", mount);
    folder
}

fn start(folder: &Folder, protocol: Protocol, io: Io) -> Server {
    let way = Way { io, protocol, form: Form::Folder };
    Start::site(&folder.join("p.toml")).in_way(way).start()
}

/// A page converses with the application; the browser compresses messages.
fn a_page_converses(name: &str, protocol: Protocol, version: &str) {
    let folder = application(name);
    for io in Io::BOTH {
        let server = start(&folder, protocol, io);
        let mut browser = match protocol {
            Protocol::Http1 => Browser::start(),
            _ => Browser::trusting(&server),
        };
        let fields: Value = converses_with(&mut browser, &server);
        assert_eq!(fields["http_version"], version, "{fields}");
        let scheme = if protocol == Protocol::Http1 { "ws" } else { "wss" };
        assert_eq!(fields["scheme"], scheme);
        wait_for("the close", || (server.get("/chat/closed").text() == "4000 over").then_some(()));
        server.stop();
    }
}

#[test]
fn chromium_over_http1() {
    a_page_converses("asgi-websocket-1", Protocol::Http1, "1.1");
}

#[test]
fn chromium_over_http2() {
    a_page_converses("asgi-websocket-2", Protocol::Http2, "2");
}

#[test]
fn chromium_over_http3() {
    a_page_converses("asgi-websocket-3", Protocol::Http3, "3");
}

#[track_caller]
fn client_converses(name: &str, protocol: Protocol, client: impl Fn(&Folder) -> Command) {
    let folder = application(name);
    for io in Io::BOTH {
        let server = start(&folder, protocol, io);
        client_converses_with(client(&folder), &server);
        server.stop();
    }
}

#[test]
fn node_over_http2() {
    client_converses("asgi-websocket-node", Protocol::Http2, node_client);
}

#[test]
fn aioquic_over_http3() {
    client_converses("asgi-websocket-aioquic", Protocol::Http3, |_| aioquic_client());
}

/// A client that writes its frames itself, over HTTP/1.
pub(crate) struct Socket {
    connection: Connection,
    received: Vec<u8>,
}

/// The fields of the handshake, without the version.
const UPGRADE: &str = "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

impl Socket {
    /// Sends a request with these fields in addition to the usual ones, and returns the head of the
    /// response.
    fn ask(server: &Server, path: &str, fields: &str) -> (Socket, String) {
        let mut connection = server.connect();
        connection.send(&*format!("GET {path} HTTP/1.1\r\n{UPGRADE}{fields}\r\n"));
        let mut socket = Socket { connection, received: Vec::new() };
        loop {
            let end = socket.received.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                let rest = socket.received.split_off(end + 4);
                let head = std::mem::replace(&mut socket.received, rest);
                return (socket, String::from_utf8(head).expect("text"));
            }
            assert!(socket.read(), "no response");
        }
    }

    pub(crate) fn open(server: &Server, path: &str) -> Socket {
        let (socket, head) = Socket::ask(server, path, "Sec-WebSocket-Version: 13\r\n");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        socket
    }

    /// Returns false at the end.
    fn read(&mut self) -> bool {
        let mut piece = [0; 10_000];
        let bytes = self.connection.stream().read(&mut piece).unwrap_or(0);
        self.received.extend_from_slice(&piece[..bytes]);
        bytes > 0
    }

    /// Sends a frame whose mask changes nothing.
    fn send(&mut self, first: u8, content: &[u8]) {
        let length = (content.len() as u64).to_be_bytes();
        self.connection.send([&[first, 0xff], &length[..], &[0; 4], content].concat());
    }

    pub(crate) fn send_short(&mut self, first: u8, content: &[u8]) {
        let length = u8::try_from(content.len()).expect("it is short");
        self.connection.send([&[first, 0x80 | length, 0, 0, 0, 0], content].concat());
    }

    /// Returns the first byte and the content of the next frame; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let [first, length, rest @ ..] = &self.received[..] {
                let more = [0, 2, 8][usize::from(*length > 125) + usize::from(*length > 126)];
                let bytes = match more {
                    0 => usize::from(*length),
                    _ if rest.len() < more => usize::MAX / 2,
                    _ => rest[..more].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
                };
                if rest.len() >= more + bytes {
                    let frame = (*first, rest[more..more + bytes].to_vec());
                    self.received.drain(..2 + more + bytes);
                    return Some(frame);
                }
            }
            if !self.read() {
                return None;
            }
        }
    }

    /// Returns the code of the frame that closes, which comes next, and responds to it.
    #[track_caller]
    fn closed(&mut self) -> u16 {
        let (first, content) = self.next().expect("a frame");
        assert_eq!(first, 0x88, "{}", content.escape_ascii());
        self.send_short(0x88, &content[..2]);
        assert_eq!(self.next(), None, "the server ends the connection");
        u16::from_be_bytes([content[0], content[1]])
    }
}

#[test]
fn handshakes_are_checked() {
    let folder = application("asgi-websocket-handshake");
    let server = start(&folder, Protocol::Http1, Io::BOTH[0]);
    let ask = |path: &str, fields: &str| Socket::ask(&server, path, fields).1;
    let head = ask("/chat/plain", "Sec-WebSocket-Version: 8\r\n");
    assert!(head.starts_with("HTTP/1.1 426 "), "{head}");
    for line in ["Sec-WebSocket-Version: 13\r\n", "Upgrade: websocket\r\n"] {
        assert!(head.contains(line), "{head}");
    }
    let twice = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    assert!(ask("/chat/plain", twice).starts_with("HTTP/1.1 400 "));
    let version = "Sec-WebSocket-Version: 13\r\n";
    assert!(ask("/chat/refuses", version).starts_with("HTTP/1.1 403 "));
    assert!(ask("/chat/fails", version).starts_with("HTTP/1.1 500 "));
    let (mut socket, head) = Socket::ask(&server, "/chat/responds", version);
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    assert!(head.to_ascii_lowercase().contains("x-why: password\r\n"), "{head}");
    while !socket.received.ends_with(b"who are you?") {
        assert!(socket.read(), "{}", socket.received.escape_ascii());
    }
    let offers = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: one, two\r\n\
        Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    let head = ask("/chat", offers);
    for line in [
        "Sec-WebSocket-Protocol: two\r\n",
        "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; \
         client_no_context_takeover\r\n",
        "x-app: asgi\r\n",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    // A request that is not for a WebSocket is an ordinary request.
    assert_eq!(server.get("/chat/some").text(), "some");
    server.stop();
}

#[test]
fn messages_of_all_sizes_are_echoed() {
    let folder = application("asgi-websocket-sizes");
    for io in Io::BOTH {
        let server = start(&folder, Protocol::Http1, io);
        let mut socket = Socket::open(&server, "/chat/plain");
        for bytes in [0, 1, 65_534, 65_535, 65_536, 1_000_000, 16 << 20] {
            let content: Vec<u8> = (0..bytes).map(|n: usize| (n / 7) as u8).collect();
            if bytes < 126 {
                socket.send_short(0x82, &content);
            } else if bytes > 65_535 {
                socket.send(0x82, &content);
            } else {
                let length = (bytes as u16).to_be_bytes();
                let head = [&[0x82, 0xfe], &length[..], &[0; 4]].concat();
                socket.connection.send([head, content.clone()].concat());
            }
            let mut back = Vec::new();
            let mut opcode = 2;
            loop {
                let (first, piece) = socket.next().expect("a frame");
                if first == 0x89 {
                    continue;
                }
                assert_eq!(first & 0x7f, opcode);
                back.extend(piece);
                opcode = 0;
                if first & 0x80 != 0 {
                    break;
                }
            }
            assert!(back == content, "{} bytes in place of {bytes}", back.len());
        }
        // A ping in the middle of a message.
        socket.send_short(0x01, b"Hel");
        socket.send_short(0x89, b"there?");
        assert_eq!(socket.next(), Some((0x8a, b"there?".to_vec())));
        socket.send_short(0x80, b"lo");
        assert_eq!(socket.next(), Some((0x81, b"Hello".to_vec())));
        socket.send_short(0x88, b"");
        assert_eq!(socket.next(), Some((0x88, Vec::new())));
        assert_eq!(socket.next(), None);
        wait_for("the close", || (server.get("/chat/closed").text() == "1005 ").then_some(()));
        server.stop();
    }
}

#[test]
fn failures_close_websockets_with_the_standard_codes() {
    let folder = application("asgi-websocket-codes");
    for io in Io::BOTH {
        let server = start(&folder, Protocol::Http1, io);
        let closed = |path: &str| Socket::open(&server, path).closed();
        assert_eq!(closed("/chat/breaks"), 1011);
        server.wait_for_line(0, |line| line.contains("ValueError: in the middle"));
        assert_eq!(closed("/chat/returns"), 1000);
        assert_eq!(closed("/chat/closes"), 4321);
        for (first, content, code) in
            [(0x81, &b"\xff"[..], 1007), (0x83, b"", 1002), (0xc1, b"", 1002), (0x80, b"", 1002)]
        {
            let mut socket = Socket::open(&server, "/chat/plain");
            socket.send_short(first, content);
            assert_eq!(socket.closed(), code);
            let heard = || server.get("/chat/closed").text().starts_with(&code.to_string());
            wait_for("the close", || heard().then_some(()));
        }
        let mut socket = Socket::open(&server, "/chat/plain");
        let length = ((16_u64 << 20) + 1).to_be_bytes();
        socket.connection.send([&[0x82, 0xff], &length[..], &[0; 4]].concat());
        assert_eq!(socket.closed(), 1009);
        // A client that leaves without a word.
        drop(Socket::open(&server, "/chat/plain"));
        let heard = || server.get("/chat/closed").text().starts_with("1006");
        wait_for("the close", || heard().then_some(()));
        let mut socket = Socket::open(&server, "/chat/dies");
        socket.send_short(0x81, b"now");
        assert_eq!(socket.closed(), 1011);
        server.stop();
    }
}

/// A client that takes nothing stops the application.
#[test]
fn a_client_that_does_not_read_pauses_the_application() {
    let folder = application("asgi-websocket-pressure");
    for io in Io::BOTH {
        let server = start(&folder, Protocol::Http1, io);
        let flood = Socket::open(&server, "/chat/flood");
        let sent = || server.get("/chat/sent").text().parse::<u64>().unwrap_or_default();
        let mut last = 0;
        wait_for("an application that waits", || {
            let before = std::mem::replace(&mut last, sent());
            (last > 0 && before == last).then_some(())
        });
        assert!(last < 20_000_000, "{last} bytes");
        drop(flood);
        wait_for("the end", || (server.get("/chat/flood").text() == "over").then_some(()));
        server.stop();
    }
}

/// A server that stops announces it, and the application gets the message.
#[test]
fn a_stopping_server_closes_websockets_with_1001() {
    let folder = application("asgi-websocket-stop");
    for io in Io::BOTH {
        let server = start(&folder, Protocol::Http1, io);
        let mut socket = Socket::open(&server, "/chat/plain");
        socket.send_short(0x81, b"hello");
        assert_eq!(socket.next(), Some((0x81, b"hello".to_vec())));
        server.signal(Signal::TERM);
        assert_eq!(socket.closed(), 1001);
        server.stop();
    }
}

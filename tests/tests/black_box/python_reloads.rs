//! Repeated reloads of an ASGI application during streams, WebSockets and an upload.

use crate::asgi_websockets::Socket;
use crate::mounts::site;
use crate::python_processes::reload;
use pinion_tests::SetAtEnd;
use pinion_tests::body::noise;
use pinion_tests::client::Client;
use pinion_tests::client::open_exchanges::Underway;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::geteuid;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const ROUNDS: usize = 20;

/// The uploaded bytes of each round.
const PIECE_BYTES: usize = 5 << 20;

/// `VERSION` differs in each round.
const APPLICATION: &str = r"
import asyncio

async def app(scope, receive, send):
    if scope['type'] == 'websocket':
        await receive()
        await send({'type': 'websocket.accept'})
        while True:
            message = await receive()
            if message['type'] == 'websocket.disconnect':
                return
            await send({'type': 'websocket.send', 'text': VERSION + ' ' + message['text']})
    if scope['type'] != 'http':
        raise NotImplementedError
    path = scope['path']
    kind = b'text/event-stream' if path == '/run/events' else b'text/plain'
    text = VERSION
    if path == '/run/upload':
        length, total, more = 0, 0, True
        while more:
            message = await receive()
            length += len(message['body'])
            total += sum(message['body'])
            more = message['more_body']
        text += ' %d %d' % (length, total)
    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-type', kind)]})
    while path == '/run/events':
        event = b'data: %s\n\n' % VERSION.encode()
        await send({'type': 'http.response.body', 'body': event, 'more_body': True})
        await asyncio.sleep(0.01)
    await send({'type': 'http.response.body', 'body': text.encode()})
";

fn write_version(folder: &Folder, round: usize) {
    // Each source has another length, by which Python recognises that its cache is outdated.
    let rest = "#".repeat(round);
    folder.write("app/main.py", format!("{APPLICATION}\nVERSION = '{round}' {rest}\n"));
}

fn start(protocol: Protocol, folder: &Folder) -> Server {
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    let path = folder.join("app");
    folder.write(
        "p.toml",
        format!(
            "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n[[site.mount]]\npath = \"/run\"\n\
             asgi = \"main:app\"\npython = \"/usr/bin/python3\"\npython-folder = {path:?}\n{user}"
        ),
    );
    let way = Way { io: Io::BOTH[0], protocol, form: Form::Folder };
    Start::site(&folder.join("p.toml")).in_way(way).start()
}

/// One stream of events, which a process continues as long as it is open.
struct Events {
    client: Client,
    stream: Underway,
    taken: usize,
    version: String,
}

impl Events {
    fn open(server: &Server, version: &str) -> Events {
        let mut client = server.client();
        let stream = client.begin(&Request::get("/run/events"));
        Events { client, stream, taken: 0, version: version.to_owned() }
    }

    /// Reads one more event than before.
    #[track_caller]
    fn next(&mut self) {
        let event = format!("data: {}\n\n", self.version);
        self.taken += event.len();
        let come = self.client.take(&mut self.stream, self.taken);
        assert!(
            come.starts_with(event.as_bytes()) && come.ends_with(b"\n"),
            "{}",
            come.escape_ascii()
        );
        self.taken = come.len();
    }
}

fn echoes(socket: &mut Socket, version: &str, word: &str) {
    socket.send_short(0x81, word.as_bytes());
    let expected = format!("{version} {word}").into_bytes();
    assert_eq!(socket.next(), Some((0x81, expected)));
}

#[test]
fn no_exchange_fails_during_repeated_reloads() {
    let folder = site("python-reloads");
    for protocol in [Protocol::Http1, Protocol::Http2Clear] {
        write_version(&folder, 0);
        let server = start(protocol, &folder);
        // Exchanges that are open all the time.
        let mut first = Events::open(&server, "0");
        let mut uploader = server.client();
        let mut upload = uploader.begin_upload(&Request::new("POST", "/run/upload"));
        let mut socket =
            (protocol == Protocol::Http1).then(|| Socket::open(&server, "/run/socket"));
        let piece = noise(PIECE_BYTES);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut client = server.client();
                    while !is_over.load(Ordering::Relaxed) {
                        let response = client.exchange(&Request::get("/run/x"));
                        assert_eq!(response.status, 200, "{response}");
                    }
                });
            }
            let _over = SetAtEnd(&is_over);
            for round in 1..=ROUNDS {
                let old = (round - 1).to_string();
                // Exchanges that are open during one reload.
                let mut events = Events::open(&server, &old);
                events.next();
                write_version(&folder, round);
                let lines = reload(&server);
                assert!(lines.iter().all(|line| !line.contains("cannot")), "{lines:?}");
                wait_for("the new version", || {
                    (server.get("/run/x").text() == round.to_string()).then_some(())
                });
                uploader.send(&mut upload, &piece);
                for events in [&mut first, &mut events] {
                    events.next();
                }
                if let Some(socket) = &mut socket {
                    echoes(socket, "0", &old);
                    let mut new = Socket::open(&server, "/run/socket");
                    echoes(&mut new, &round.to_string(), "new");
                }
            }
        });
        let response = uploader.finish(upload, b"end");
        let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        let total = ROUNDS as u64 * sum(&piece) + sum(b"end");
        assert_eq!(response.text(), format!("0 {} {total}", ROUNDS * PIECE_BYTES + 3));
        drop((first, socket));
        server.stop();
    }
}

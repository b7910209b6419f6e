//! A client that sends without end delays the others by no more than one turn of its input.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinion_engine::app::{App, ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::limits::{CONTENT_TURN_BYTES, INPUT_TURN_BYTES};
use pinion_engine::listener::{Listener, QuicListener, bind_tcp, local_address};
use pinion_engine::server::{Io, Kit, RunningServer};
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};

use crate::plain_client::connect;
use crate::test_server::response;

/// Reports the received requests: the letter of the client, and the number of bytes of a stream.
pub(crate) struct Reader {
    came: Sender<(u8, usize)>,
    /// The handler of the request `h` blocks the worker until this channel has a message.
    held: Arc<Mutex<Receiver<()>>>,
}

/// A server of one worker that reports the received requests. After an `h` it waits until `go_on`
/// has a message.
pub(crate) struct Holder {
    server: RunningServer,
    order: Receiver<(u8, usize)>,
    pub(crate) go_on: Sender<()>,
}

impl Holder {
    pub(crate) fn start(io: Io, listeners: Vec<Listener>, quic: Vec<QuicListener>) -> Holder {
        let kit = Kit { listeners, quic, settings: WorkerSettings::default(), workers: 1, io };
        let (came, order) = channel();
        let (go_on, held) = channel();
        let held = Arc::new(Mutex::new(held));
        let server = RunningServer::start(kit, move |_, _| Reader {
            came: came.clone(),
            held: held.clone(),
        });
        Holder { server: server.expect("start"), order, go_on }
    }

    /// Returns the next report.
    pub(crate) fn next(&self) -> (u8, usize) {
        self.order.recv_timeout(Duration::from_secs(10)).expect("bytes")
    }

    pub(crate) fn stop(self) {
        self.server.control().stop();
        self.server.join();
    }
}

impl Reader {
    fn report(&self, letter: u8, bytes: usize) {
        let _ = self.came.send((letter, bytes));
        if letter == b'h' {
            let _ = self.held.lock().expect("one at a time").recv();
        }
    }
}

impl App for Reader {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        if let Event::Head(head) = event {
            self.report(head.target.path[1], 1);
            exchange.prepared(&response(b""), None);
        }
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        match event {
            ByteStreamEvent::Open => stream.want(u64::MAX),
            ByteStreamEvent::Bytes(bytes) => self.report(bytes[0], bytes.len()),
            _ => {}
        }
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

const FLOODS: usize = 3;

/// Returns the number of bytes of the floods that are processed before clients get a turn whose
/// input was sent later.
fn before_others(io: Io, protocol: Protocol, word: fn(u8) -> Vec<u8>) -> usize {
    const FLOOD_BYTES: usize = 100_000;
    let socket = Arc::new(bind_tcp(([127, 0, 0, 1], 0).into()).expect("bind"));
    let at = local_address(&socket).expect("an address");
    let listeners = vec![Listener { socket, settings: ListenerSettings::plain(protocol) }];
    let server = Holder::start(io, listeners, Vec::new());
    let next = || server.next();
    // The worker receives without end from clients that have sent something already.
    let client = |letter: u8| -> TcpStream {
        let mut stream = connect(at);
        stream.write_all(&word(letter)).expect("send");
        assert_eq!(next().0, letter);
        let mut responses = stream.try_clone().expect("a socket");
        std::thread::spawn(move || responses.read_to_end(&mut Vec::new()));
        stream
    };
    let mut floods: Vec<TcpStream> = (0..FLOODS).map(|_| client(b'f')).collect();
    let mut polite = client(b'p');
    let _holder = client(b'h');
    for flood in &mut floods {
        let words = FLOOD_BYTES / word(b'f').len();
        flood.write_all(&word(b'f').repeat(words)).expect("send");
    }
    polite.write_all(&word(b'p')).expect("send");
    server.go_on.send(()).expect("the worker waits");
    let before = std::iter::repeat_with(next).take_while(|(who, _)| *who != b'p');
    let before = before.map(|(_, bytes)| bytes).sum();
    server.stop();
    before
}

#[test]
fn streams_do_not_monopolise_a_pass() {
    for io in [Io::Epoll, Io::Uring] {
        let bytes = before_others(io, Protocol::ByteStream, |letter| vec![letter]);
        assert!(bytes <= FLOODS * CONTENT_TURN_BYTES, "{bytes} bytes over {io:?}");
    }
}

/// Small requests cost many times as much as the same number of bytes of content.
#[test]
fn small_requests_do_not_monopolise_a_pass() {
    let word = |letter: u8| {
        let [name, end] = ["GET /", " HTTP/1.1\r\nHost: x\r\n\r\n"].map(str::as_bytes);
        [name, &[letter], end].concat()
    };
    for io in [Io::Epoll, Io::Uring] {
        let requests = before_others(io, Protocol::Http(Protocols::ALL), word);
        let most = FLOODS * INPUT_TURN_BYTES.div_ceil(word(b'f').len());
        assert!(requests <= most, "{requests} requests over {io:?}");
    }
}

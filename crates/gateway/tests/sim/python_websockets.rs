//! WebSockets between a client and a process, over simulated time.

use pinion_engine::backend::sim::{Client, Connect, Faults, Network, Read};
use pinion_engine::settings::WorkerSettings;
use pinion_engine::stepped_worker::{Holdings, Stepped};
use pinion_gateway::python::python_app::PythonInterface;

use crate::python_application_and_process::{
    ACCEPT, CLOSED, END, GONE, Link, MESSAGE, PythonApplication, READY, REQUESTS, ROOM,
    ServerFrame, frame, python_app, read_batch,
};

const REQUEST: &[u8] = b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
/// Passes within which all possible events have happened.
const PASSES: usize = 20;
/// The initial window of the content of a process.
const INITIAL_ROOM_BYTES: usize = 256 * 1024;
/// Messages that fill it together, each with its byte of flags.
const MESSAGES: usize = 16;
/// Milliseconds without data from the client after which a ping is sent.
const PING_MS: u64 = 20_000;

struct Stage<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, PythonApplication>,
    client: Client,
    link: Link,
    /// The number of the request.
    number: u32,
    /// The frames from the server to the process.
    frames: Vec<ServerFrame>,
    /// The bytes that the client has received.
    received: Vec<u8>,
}

impl<const READINESS: bool> Stage<READINESS> {
    /// Lets a client request a WebSocket, and a process receive the request.
    fn asked(window_bytes: usize) -> Self {
        let settings = WorkerSettings { outgoing: 64, ..WorkerSettings::default() };
        let network = Network::new(1, Faults::default(), settings.listeners.len());
        let app = python_app(PythonInterface::Asgi);
        let make_app = |poster| PythonApplication::new(poster, app);
        let mut worker = Stepped::new(network.clone(), settings, make_app);
        let connect = Connect { listener: 0, window_bytes, local: false, protected: false };
        let client = network.connect(connect);
        network.send(client, REQUEST);
        let connection = loop {
            network.act_at(Some(network.now().monotonic_ms + 1));
            worker.pass().expect("a pass");
            if let Some((connection, _)) = network.next_opened() {
                break connection;
            }
        };
        let link = Link::accept(connection, &network);
        let (frames, received) = (Vec::new(), Vec::new());
        let mut stage = Self { network, worker, client, link, number: 0, frames, received };
        stage.send(&frame(READY, 0, b"{\"interface\": \"asgi\"}"));
        let requests = stage.frames.iter().find(|one| one.kind == REQUESTS).expect("a request");
        stage.number = read_batch(&requests.content)[0].number;
        stage
    }

    /// Returns the frame by which the application accepts.
    fn acceptance(&self) -> Vec<u8> {
        frame(ACCEPT, self.number, b"101 Switching Protocols\n")
    }

    /// Sends all of these bytes from the process.
    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        for _ in 0..1000 {
            rest = &rest[self.network.send(self.link.connection, rest)..];
            self.passes();
            if rest.is_empty() {
                return;
            }
        }
        panic!("the server does not read");
    }

    fn passes(&mut self) {
        for _ in 0..PASSES {
            self.network.act_at(Some(self.network.now().monotonic_ms + 1));
            self.worker.pass().expect("a pass");
        }
        let frames = self.link.frames(&self.network);
        self.frames.extend(frames);
    }

    /// Lets this much time pass.
    fn wait(&mut self, ms: u64) {
        let until_ms = self.network.now().monotonic_ms + ms;
        while self.network.now().monotonic_ms < until_ms {
            self.network.act_at(Some(until_ms));
            self.worker.pass().expect("a pass");
        }
        self.passes();
    }

    /// Lets the client read all received bytes, and returns the next result.
    fn read(&mut self) -> Read {
        for _ in 0..1000 {
            match self.network.read(self.client, usize::MAX, &mut self.received) {
                Read::Bytes(_) => self.passes(),
                other => return other,
            }
        }
        panic!("the server does not end");
    }

    fn count(&self, kind: u32) -> usize {
        self.frames.iter().filter(|one| one.kind == kind).count()
    }

    /// Returns messages that fill the initial window of a process.
    fn messages(&self) -> Vec<u8> {
        let bytes = INITIAL_ROOM_BYTES / MESSAGES - 1;
        frame(MESSAGE, self.number, &[&[1], &vec![7; bytes][..]].concat()).repeat(MESSAGES)
    }

    /// Disconnects the client and the process, stops the server, and asserts that everything is
    /// freed.
    fn ends(mut self) {
        self.network.leave(self.client);
        self.passes();
        self.send(&frame(END, self.number, b""));
        let app = self.worker.app();
        assert!(app.open() == 0 && !app.app.is_used(), "{:?}", app.app);
        self.worker.drain();
        for _ in 0..PASSES {
            self.wait(1000);
            if self.link.is_over {
                self.network.leave(self.link.connection);
            }
            if self.worker.holdings() == Holdings::default() {
                return;
            }
        }
        let is_closed = [self.client, self.link.connection].map(|one| self.network.is_closed(one));
        panic!("{:?} is held, closed: {is_closed:?}", self.worker.holdings());
    }
}

/// A process may send as much as its window allows before the connection of the client is switched,
/// and waits then: the window opens again when the client has read the messages.
fn room<const READINESS: bool>() {
    let mut stage = Stage::<READINESS>::asked(1 << 20);
    stage.send(&[stage.acceptance(), stage.messages()].concat());
    assert_eq!(stage.read(), Read::Nothing);
    assert!(stage.received.len() > INITIAL_ROOM_BYTES, "{} bytes", stage.received.len());
    let room = stage.frames.iter().filter(|one| one.kind == ROOM);
    let room: u32 = room.map(ServerFrame::number).sum();
    assert!(room as usize > INITIAL_ROOM_BYTES / 2, "{room} bytes");
    stage.ends();
}

#[test]
fn flow_control_credit_starts_with_the_websocket() {
    room::<true>();
    room::<false>();
}

/// A client that has not read for a while, and then reads everything and sends nothing, gets a ping
/// and the usual time for its pong. With readiness the socket accepts all bytes, so the ping is on
/// its way while the client does not read, and its time has begun.
fn ping<const READINESS: bool>(stalled_ms: u64) {
    let mut stage = Stage::<READINESS>::asked(16 * 1024);
    stage.send(&stage.acceptance());
    stage.send(&stage.messages());
    stage.wait(stalled_ms);
    assert_eq!(stage.read(), Read::Nothing, "it is not given up after {stalled_ms} ms");
    let ping = &[0x89, 0];
    let mut waited_ms = 0;
    while !stage.received.ends_with(ping) {
        assert!(waited_ms <= 4 * PING_MS, "no ping");
        stage.wait(1000);
        waited_ms += 1000;
        assert_eq!(stage.read(), Read::Nothing, "it is not given up before a ping");
    }
    let late_ms = if READINESS { stalled_ms.saturating_sub(PING_MS) } else { 0 };
    stage.wait(PING_MS * 3 / 4 - late_ms);
    assert_eq!(stage.read(), Read::Nothing, "after {stalled_ms} ms the pong has time");
    // A pong with a zero mask.
    stage.network.send(stage.client, &[0x8a, 0x80, 0, 0, 0, 0]);
    stage.wait(PING_MS * 3 / 4);
    assert_eq!(stage.read(), Read::Nothing, "it goes on after the pong");
    // Without another pong the connection ends.
    stage.wait(2 * PING_MS + 1000);
    assert_eq!(stage.read(), Read::Reset);
    assert_eq!(stage.count(GONE), 1);
    stage.ends();
}

#[test]
fn a_ping_after_a_stall_has_time_for_its_pong() {
    for stalled_ms in [0, PING_MS / 2, 5 * PING_MS / 4] {
        ping::<true>(stalled_ms);
        ping::<false>(stalled_ms);
    }
}

/// An application that accepts a WebSocket after the server has begun to stop gets the event of the
/// stop, and the client gets the closing frame (RFC 6455 §7.4.1).
fn stop<const READINESS: bool>() {
    let mut stage = Stage::<READINESS>::asked(64 * 1024);
    stage.worker.drain();
    stage.passes();
    stage.send(&stage.acceptance());
    assert_eq!(stage.read(), Read::Nothing);
    let text = String::from_utf8_lossy(&stage.received).into_owned();
    assert!(text.starts_with("HTTP/1.1 101 "), "{text}");
    assert!(stage.received.ends_with(b"\r\n\r\n\x88\x02\x03\xe9"), "{text:?}");
    assert_eq!(stage.count(CLOSED), 1);
    stage.network.send(stage.client, b"\x88\x82\0\0\0\0\x03\xe9");
    stage.send(&frame(END, stage.number, b""));
    stage.wait(1000);
    assert_eq!(stage.read(), Read::Ended);
}

#[test]
fn a_websocket_accepted_late_is_notified_of_the_stop() {
    stop::<true>();
    stop::<false>();
}

/// When a client disconnects before the application accepts, the application gets the event.
fn leaves<const READINESS: bool>(resets: bool) {
    let mut stage = Stage::<READINESS>::asked(64 * 1024);
    if resets {
        stage.network.reset(stage.client);
    } else {
        stage.network.end(stage.client);
    }
    stage.passes();
    stage.send(&stage.acceptance());
    stage.wait(1000);
    assert_eq!(stage.count(GONE), 1, "{:?}", stage.frames);
    stage.ends();
}

#[test]
fn a_client_may_leave_before_its_websocket_is_accepted() {
    for resets in [true, false] {
        leaves::<true>(resets);
        leaves::<false>(resets);
    }
}

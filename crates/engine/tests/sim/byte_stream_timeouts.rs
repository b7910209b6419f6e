//! Byte streams that wait too long: each is aborted after the timeout of its listener, with the
//! cause, and nothing of it is left.

use bytes::Bytes;
use pinion_engine::app::{App, ByteStreamEvent, Event, Gone};
use pinion_engine::backend::sim::{Connect, Faults, Network, Read};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{Exchange, Slice};
use pinion_engine::exchange_address::Address;
use pinion_engine::limits::TICK_MS;
use pinion_engine::settings::{
    ListenerSettings, Protocol, Protocols, StreamTimeouts, WorkerSettings,
};
use pinion_engine::stepped_worker::{Holdings, Stepped};

const FIRST_BYTE_MS: u64 = 3_000;
const IDLE_MS: u64 = 5_000;
/// Milliseconds between two bytes, of either side.
const GAP_MS: u64 = 2_000;
/// Bytes of a side that sends any.
const BYTES: u64 = 7;

/// The behaviour of both sides of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Story {
    /// Neither sends, and the application reads.
    Silent,
    /// Neither sends nor reads.
    Unread,
    /// The client sends now and then.
    ClientSends,
    /// The application sends now and then.
    ServerSends,
    /// The client ends its side, and the application does not.
    HalfClosed,
    /// A request connection that becomes a stream of the application.
    TakenOver,
}

/// Keeps its streams open and records how they end.
struct Patient {
    story: Story,
    left: u64,
    gone: Vec<(Gone, u64)>,
}

impl App for Patient {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        if let Event::Head(_) = event {
            exchange.take_over();
        }
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        match event {
            ByteStreamEvent::Open => {
                if self.story != Story::Unread {
                    stream.want(u64::MAX);
                }
                if self.story == Story::ServerSends {
                    stream.wait(Some(GAP_MS));
                }
            }
            ByteStreamEvent::Deadline if self.left > 0 => {
                self.left -= 1;
                stream.write(Slice::Copied(b"x"));
                stream.wait(Some(GAP_MS));
            }
            ByteStreamEvent::Gone(why) => self.gone.push((why, stream.now().monotonic_ms)),
            _ => {}
        }
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

/// Runs a story until the connection is closed. Returns the cause, and the milliseconds until it.
fn until_gone<const READINESS: bool>(story: Story, first_byte_ms: Option<u64>) -> (Gone, u64) {
    let protocol = match story {
        Story::TakenOver => Protocol::Http(Protocols::ALL),
        _ => Protocol::ByteStream,
    };
    let streams = StreamTimeouts { first_byte_ms, idle_ms: Some(IDLE_MS) };
    let settings = WorkerSettings {
        listeners: vec![ListenerSettings { streams, ..ListenerSettings::plain(protocol) }],
        ..WorkerSettings::default()
    };
    let network = Network::new(1, Faults::default(), 1);
    let app = Patient { story, left: BYTES, gone: Vec::new() };
    let mut worker = Stepped::<READINESS, _>::new(network.clone(), settings, |_| app);
    let connect = Connect { listener: 0, window_bytes: 64_000, local: false, protected: false };
    let client = network.connect(connect);
    match story {
        Story::HalfClosed => network.end(client),
        Story::TakenOver => {
            network.send(client, b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
        }
        _ => {}
    }
    let mut left = if story == Story::ClientSends { BYTES } else { 0 };
    let mut next_ms = network.now().monotonic_ms + GAP_MS;
    loop {
        if left > 0 && network.now().monotonic_ms >= next_ms {
            network.send(client, b"x");
            (left, next_ms) = (left - 1, next_ms + GAP_MS);
        }
        let mut came = Vec::new();
        while let Read::Bytes(_) = network.read(client, usize::MAX, &mut came) {}
        network.act_at((left > 0).then_some(next_ms));
        worker.pass().expect("a pass");
        assert!(!network.is_stuck(), "nobody watches over {story:?}");
        let facts = network.facts(client);
        if let (Some(attached), Some(_)) = (facts.attached_at_ms, facts.closed_at_ms) {
            assert_eq!(worker.holdings(), Holdings::default(), "{story:?}");
            let [(why, at_ms)] = worker.app().gone[..] else { panic!("told once") };
            return (why, at_ms - attached);
        }
    }
}

fn ends_when_due<const READINESS: bool>() {
    let active_ms = BYTES * GAP_MS;
    let first = Some(FIRST_BYTE_MS);
    for (story, first_byte_ms, cause, due_ms) in [
        (Story::Silent, first, Gone::Stalled, FIRST_BYTE_MS),
        (Story::Silent, None, Gone::Idle, IDLE_MS),
        // Unwanted input has no deadline of its first byte.
        (Story::Unread, first, Gone::Idle, IDLE_MS),
        (Story::ClientSends, first, Gone::Idle, active_ms + IDLE_MS),
        (Story::ServerSends, None, Gone::Idle, active_ms + IDLE_MS),
        // Bytes of the server do not count as bytes of the client.
        (Story::ServerSends, first, Gone::Stalled, FIRST_BYTE_MS),
        (Story::HalfClosed, first, Gone::Idle, IDLE_MS),
        (Story::TakenOver, first, Gone::Idle, IDLE_MS),
    ] {
        let (why, after_ms) = until_gone::<READINESS>(story, first_byte_ms);
        let case = format!("{story:?}, first byte {first_byte_ms:?}, readiness {READINESS}");
        assert_eq!(why, cause, "{case} after {after_ms} ms");
        // Each wait of the application is late by a tick at most.
        let late_ms = 2 * TICK_MS * (BYTES + 1);
        assert!((due_ms..=due_ms + late_ms).contains(&after_ms), "{case}: after {after_ms} ms");
    }
}

#[test]
fn a_stream_that_waits_too_long_is_cut_with_the_cause() {
    ends_when_due::<true>();
    ends_when_due::<false>();
}

const MESSAGE_BYTES: usize = 4_096;

/// Sends each posted message to all of its streams.
#[derive(Default)]
struct Speaker {
    streams: Vec<Address>,
    queued: usize,
    cut: usize,
    over: usize,
    gone: Vec<Gone>,
    /// Whether all clients leave; then it records nothing more.
    is_over: bool,
}

impl App for Speaker {
    fn exchange(&mut self, _: Event<'_>, _: &mut Exchange<'_>) {
        unreachable!("the listener speaks no HTTP")
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        match event {
            ByteStreamEvent::Open => {
                stream.want(u64::MAX);
                self.streams.push(stream.address());
            }
            ByteStreamEvent::Gone(why) if !self.is_over => {
                let address = stream.address();
                self.streams.retain(|other| *other != address);
                self.gone.push(why);
            }
            _ => {}
        }
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}

    fn posted(&mut self, message: pinion_engine::app::Message, connections: &mut Connections<'_>) {
        let bytes = *message.downcast::<Bytes>().expect("what the test has posted");
        let sent = connections.broadcast(self.streams.iter().copied(), &bytes);
        assert_eq!(sent.queued + sent.cut + sent.over, self.streams.len(), "each is counted once");
        self.queued += sent.queued;
        self.cut += sent.cut;
        self.over += sent.over;
    }
}

/// Sends messages to this many streams, of which the first `slow` do not read.
fn broadcasts<const READINESS: bool>(audience: usize, slow: usize, messages: usize) {
    let settings = WorkerSettings {
        listeners: vec![ListenerSettings::plain(Protocol::ByteStream)],
        connections: audience + 1,
        // Far less than a copy for each stream would need.
        buffer_bytes: 20_000_000,
        ..WorkerSettings::default()
    };
    let network = Network::new(1, Faults::default(), 1);
    let mut poster = None;
    let mut worker = Stepped::<READINESS, _>::new(network.clone(), settings, |own| {
        poster = Some(own);
        Speaker::default()
    });
    let poster = poster.expect("the application was made");
    let connect = |at: usize| {
        let window_bytes = if at < slow { 1_000 } else { 64_000 };
        network.connect(Connect { listener: 0, window_bytes, local: false, protected: false })
    };
    let clients: Vec<_> = (0..audience).map(connect).collect();
    while worker.app().streams.len() < audience {
        worker.pass().expect("a pass");
    }
    let mut came = Vec::new();
    for number in 0..messages {
        let message = Bytes::from(vec![number as u8; MESSAGE_BYTES]);
        assert!(poster.post_to_apps(|_| Box::new(message.clone())).is_empty(), "there is room");
        for client in &clients[slow..] {
            came.clear();
            while came.len() < MESSAGE_BYTES {
                if network.read(*client, usize::MAX, &mut came) == Read::Nothing {
                    worker.pass().expect("a pass");
                }
            }
            assert_eq!(came, message, "whole and in order");
        }
    }
    // A stream that does not read is aborted with a reason, and never silently gets less.
    let app = worker.app();
    assert_eq!(app.gone, vec![Gone::SlowReader; slow]);
    assert_eq!((app.cut, app.over), (slow, 0));
    let fewest = (audience - slow) * messages;
    assert!((fewest..=fewest + slow * messages).contains(&app.queued), "{} queued", app.queued);
    worker.app().is_over = true;
    clients.iter().for_each(|client| network.reset(*client));
    while worker.holdings().connections > 0 {
        worker.pass().expect("a pass");
    }
    assert_eq!(worker.holdings(), Holdings::default());
}

#[test]
fn a_broadcast_to_ten_thousand_streams_counts_once() {
    broadcasts::<true>(10_000, 0, 3);
    broadcasts::<false>(10_000, 0, 3);
}

#[test]
fn a_slow_reader_of_broadcasts_is_cut_with_the_cause() {
    broadcasts::<true>(30, 10, 100);
    broadcasts::<false>(30, 10, 100);
}

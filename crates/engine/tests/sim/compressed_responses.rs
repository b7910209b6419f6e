//! Responses that are compressed while they are sent, over HTTP/1 and HTTP/2: a client decodes
//! exactly the written bytes, a flush delivers all of them so far, and an aborted response never
//! looks complete.

use std::io::Read;

use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Gone};
use pinion_engine::backend::sim::{Client, Connect, Faults, Network};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{Exchange, Slice};
use pinion_engine::exchange_address::Address;
use pinion_engine::file_mapping::MappingId;
use pinion_engine::limits::ENCODERS_MAX;
use pinion_engine::response_compression;
use pinion_engine::stepped_worker::{Holdings, Stepped};
use pinion_http::field::Field;
use proptest::prelude::*;

use crate::request_model::{MAPPED_BYTES, mapped_file};
use crate::run;
use crate::scenario::{HTTP2, settings_of_listeners};
use crate::strict;

/// Passes of a worker after which it has nothing left to do without an event.
const PASSES: u32 = 300;

/// The steps of the application, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    Write(Vec<u8>),
    /// Sends the same bytes from the mapped file, and from the file itself.
    Map(usize, usize),
    Read(usize, usize),
    Flush,
    /// Waits for a posted message.
    Pause,
    Abort,
}

impl Act {
    fn content(&self) -> &[u8] {
        match self {
            Self::Write(bytes) => bytes,
            Self::Map(at, bytes) | Self::Read(at, bytes) => &mapped_file()[*at..at + bytes],
            Self::Flush | Self::Pause | Self::Abort => b"",
        }
    }
}

/// Plays the same script for every request.
struct Player {
    poster: Poster,
    script: Vec<Act>,
    /// The paused exchanges, and the next step of each.
    waiting: Vec<(Address, usize)>,
    mapping: Option<MappingId>,
    gone: Vec<Gone>,
}

impl Player {
    fn play(&mut self, mut at: usize, exchange: &mut Exchange<'_>) {
        while let Some(act) = self.script.get(at) {
            at += 1;
            let (offset, bytes) = match act {
                Act::Map(at, bytes) | Act::Read(at, bytes) => (*at as u64, *bytes as u64),
                _ => (0, 0),
            };
            match act {
                Act::Write(bytes) => {
                    exchange.write(Slice::Copied(bytes));
                }
                Act::Map(..) => {
                    let mapping = self.mapping.expect("taken up in the first pass");
                    exchange.write(Slice::Mapped { mapping, offset, bytes });
                }
                Act::Read(..) => {
                    let file = run::mapping().1;
                    exchange.write(Slice::File { file, offset, bytes });
                }
                Act::Flush => {
                    exchange.flush();
                }
                Act::Pause => {
                    self.waiting.push((exchange.address(), at));
                    return exchange.wait(None);
                }
                Act::Abort => return exchange.abort(),
            }
        }
        exchange.end(std::iter::empty());
    }
}

impl App for Player {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        match event {
            Event::Head(head) => {
                exchange.compress(response_compression::choose(head));
                let fields = [("Content-Type", "text/plain"), ("ETag", "\"a\"")];
                let fields = fields
                    .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() });
                exchange.head(200, fields.into_iter(), None);
                self.play(0, exchange);
            }
            Event::Posted(_) => {
                let address = exchange.address();
                let place = self.waiting.iter().position(|(who, _)| *who == address);
                let (_, at) = self.waiting.swap_remove(place.expect("somebody who waits"));
                self.play(at, exchange);
            }
            Event::Gone(why) => self.gone.push(why),
            _ => {}
        }
    }

    fn byte_stream_event(&mut self, _: ByteStreamEvent<'_>, _: &mut ByteStreamHandle<'_>) {}

    fn pass(&mut self, connections: &mut Connections<'_>) {
        if self.mapping.is_none() {
            self.mapping = Some(connections.mappings().add(run::mapping().0));
        }
    }
}

/// A server that plays a script, and a client of one protocol.
struct Stage<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, Player>,
    client: Client,
    /// The client if it speaks HTTP/2, with its unsent bytes.
    http2: Option<strict::Client>,
    /// The received bytes if it speaks HTTP/1.
    came: Vec<u8>,
}

/// The received part of a response.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    fields: Vec<(String, String)>,
    content: Vec<u8>,
    is_whole: bool,
}

impl<const READINESS: bool> Stage<READINESS> {
    fn new(seed: u64, faults: Faults, script: &[Act], multiplexed: bool) -> Self {
        let settings = settings_of_listeners();
        let network = Network::new(seed, faults, settings.listeners.len());
        let make_app = |poster| Player {
            poster,
            script: script.to_vec(),
            waiting: Vec::new(),
            mapping: None,
            gone: Vec::new(),
        };
        let mut worker = Stepped::new(network.clone(), settings, make_app);
        worker.pass().expect("a pass");
        let listener = if multiplexed { HTTP2 } else { 0 };
        let connect = Connect { listener, window_bytes: 5000, local: false, protected: true };
        let client = network.connect(connect);
        let http2 = multiplexed.then(|| strict::Client::new(strict::Manner::default()));
        Self { network, worker, client, http2, came: Vec::new() }
    }

    fn ask(&mut self, accept: &str) {
        match &mut self.http2 {
            Some(client) => {
                client.request("GET", "/", &[("accept-encoding", accept)], true);
            }
            None => {
                let request =
                    format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n");
                assert_eq!(self.network.send(self.client, request.as_bytes()), request.len());
            }
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        for _ in 0..PASSES {
            let mut bytes = Vec::new();
            self.network.read(self.client, usize::MAX, &mut bytes);
            if let Some(client) = &mut self.http2 {
                client.take(&bytes).expect("a lawful server");
                let sent = self.network.send(self.client, &client.out);
                client.out.drain(..sent);
            }
            self.came.extend_from_slice(&bytes);
            self.network.act_at(Some(self.network.now().monotonic_ms + 1));
            self.worker.pass().expect("a pass");
        }
    }

    /// Wakes all paused exchanges.
    fn post(&mut self) {
        let app = self.worker.app();
        for (to, _) in &app.waiting {
            app.poster.post(*to, Box::new(())).expect("room in the inbox");
        }
        self.go_on();
    }

    fn seen(&self) -> Seen {
        match &self.http2 {
            Some(client) => {
                let stream = client.streams.values().last().expect("a request");
                let is_whole = stream.end == Some(strict::End::Whole);
                Seen { fields: stream.fields.clone(), content: stream.content.clone(), is_whole }
            }
            None => seen_in_chunks(&self.came),
        }
    }
}

/// Parses the received part of a chunked response.
fn seen_in_chunks(came: &[u8]) -> Seen {
    let end = came.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(came[..end].to_vec()).expect("text");
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").expect("a field");
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let mut seen = Seen {
        fields: head.lines().skip(1).map(field).collect(),
        content: vec![],
        is_whole: false,
    };
    let mut rest = &came[end + 4..];
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..line]).expect("a size");
        let bytes = usize::from_str_radix(size, 16).expect("a size");
        rest = &rest[line + 2..];
        seen.content.extend_from_slice(&rest[..bytes.min(rest.len())]);
        if bytes == 0 {
            seen.is_whole = rest == b"\r\n";
            break;
        }
        rest = rest.get(bytes + 2..).unwrap_or_default();
    }
    seen
}

/// Returns the decoded content so far, and whether it is complete.
fn decoded(coding: &str, content: &[u8]) -> (Vec<u8>, bool) {
    let mut reader: Box<dyn Read> = match coding {
        "gzip" => Box::new(flate2::bufread::GzDecoder::new(content)),
        "br" => Box::new(pinion_brotli::Decoder::new(content)),
        _ => Box::new(content),
    };
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return (all, true),
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(_) => return (all, false),
        }
    }
}

fn field<'s>(seen: &'s Seen, name: &str) -> Option<&'s str> {
    seen.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn act() -> impl Strategy<Value = Act> {
    let text = |bytes: usize| (0..bytes).map(|at| b'a' + (at * at / 5 % 17) as u8).collect();
    let place = (0..MAPPED_BYTES / 2, 0..MAPPED_BYTES / 2);
    prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..2000).prop_map(Act::Write),
        3 => (0usize..100_000).prop_map(move |bytes| Act::Write(text(bytes))),
        1 => place.clone().prop_map(|(at, bytes)| Act::Map(at, bytes)),
        1 => place.prop_map(|(at, bytes)| Act::Read(at, bytes)),
        3 => Just(Act::Flush),
        2 => Just(Act::Pause),
    ]
}

/// Plays a script to its end and compares the content at every pause.
fn plays<const READINESS: bool>(seed: u64, script: &[Act], coding: &str, multiplexed: bool) {
    let faults = Faults { short: 300, late: 100, late_ms: 5, ..Faults::default() };
    let mut stage = Stage::<READINESS>::new(seed, faults, script, multiplexed);
    stage.ask(coding);
    let mut written = Vec::new();
    let mut flushed = 0;
    for act in script {
        written.extend_from_slice(act.content());
        if *act == Act::Flush || coding == "identity" {
            flushed = written.len();
        }
        if *act != Act::Pause {
            continue;
        }
        let seen = stage.seen();
        let (content, _) = decoded(coding, &seen.content);
        assert!(content.len() >= flushed, "{} of {flushed} are there", content.len());
        assert!(written.starts_with(&content), "something else than was written");
        assert!(!seen.is_whole, "it goes on");
        stage.post();
    }
    let seen = stage.seen();
    let is_coded = coding != "identity";
    assert_eq!(field(&seen, "content-encoding"), is_coded.then_some(coding));
    assert_eq!(field(&seen, "vary"), Some("Accept-Encoding"));
    assert_eq!(field(&seen, "etag"), Some(if is_coded { "W/\"a\"" } else { "\"a\"" }));
    assert_eq!(field(&seen, "content-length"), None);
    assert!(seen.is_whole, "the answer ends");
    let (content, is_all) = decoded(coding, &seen.content);
    assert!(is_all && content == written, "{} of {} bytes", content.len(), written.len());
    assert_eq!(stage.worker.holdings().encoders, 0);
    assert!(stage.worker.app().gone.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn decoded_content_equals_the_written_content(
        seed in any::<u64>(),
        script in prop::collection::vec(act(), 0..10),
        coding in prop_oneof![Just("gzip"), Just("br"), Just("identity")],
        multiplexed in any::<bool>(),
        readiness in any::<bool>(),
    ) {
        if readiness {
            plays::<true>(seed, &script, coding, multiplexed);
        } else {
            plays::<false>(seed, &script, coding, multiplexed);
        }
    }
}

/// If the application aborts or the client leaves, no response looks complete, and the encoder is
/// free again.
#[test]
fn an_aborted_response_never_looks_complete() {
    let text = || Act::Write(b"some words and some words ".repeat(300));
    for multiplexed in [false, true] {
        for coding in ["gzip", "br"] {
            let script = [text(), Act::Flush, text(), Act::Pause, Act::Abort];
            let new = || Stage::<true>::new(3, Faults::default(), &script, multiplexed);
            let mut stage = new();
            stage.ask(coding);
            assert_eq!(stage.worker.holdings().encoders, 1);
            stage.post();
            let seen = stage.seen();
            assert!(!seen.is_whole && !decoded(coding, &seen.content).1, "{seen:?}");
            assert_eq!(stage.worker.holdings().encoders, 0);

            let mut stage = new();
            stage.ask(coding);
            stage.network.reset(stage.client);
            for _ in 0..20 {
                stage.network.act_at(Some(stage.network.now().monotonic_ms + 1));
                stage.worker.pass().expect("a pass");
            }
            assert_eq!(stage.worker.app().gone, [Gone::Peer]);
            assert_eq!(stage.worker.holdings(), Holdings::default());
        }
    }
}

/// Above the limit of encoders, responses are sent uncompressed.
#[test]
fn beyond_the_encoder_limit_responses_are_not_compressed() {
    let script = [Act::Write(b"word ".repeat(50)), Act::Pause];
    let mut stage = Stage::<true>::new(4, Faults::default(), &script, true);
    for asked in 1..=ENCODERS_MAX + 1 {
        stage.ask("gzip");
        assert_eq!(stage.worker.holdings().encoders, asked.min(ENCODERS_MAX));
    }
    let last = stage.seen();
    assert_eq!(field(&last, "content-encoding"), None);
    assert_eq!(field(&last, "vary"), Some("Accept-Encoding"));
    assert_eq!(last.content, b"word ".repeat(50));
    stage.post();
    assert_eq!(stage.worker.holdings().encoders, 0);
    let client = stage.http2.as_ref().expect("HTTP/2");
    assert!(client.is_answered());
}

/// HEAD gets the fields of GET, and no encoder.
#[test]
fn head_gets_the_fields_of_get() {
    let script = [Act::Write(b"word ".repeat(50))];
    let mut stage = Stage::<true>::new(5, Faults::default(), &script, true);
    let client = stage.http2.as_mut().expect("HTTP/2");
    let accept = [("accept-encoding", "br, gzip;q=0.5")];
    let [get, head] = ["GET", "HEAD"].map(|method| client.request(method, "/", &accept, true));
    stage.go_on();
    let client = stage.http2.as_ref().expect("HTTP/2");
    assert_eq!(client.streams[&get].fields, client.streams[&head].fields);
    assert_eq!(client.streams[&get].field("content-encoding"), Some("br"));
    assert!(client.streams[&head].content.is_empty());
    assert_eq!(stage.worker.holdings().encoders, 0);
}

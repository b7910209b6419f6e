//! The application of the simulation: a handler for each [`Kind`], and the record in which every
//! exchange and stream is opened once and closed once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Gone, Message};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_engine::exchange_address::Address;
use pinion_engine::file_mapping::{Mapping, MappingId};
use pinion_engine::limits::MESSAGES_PER_PASS;
use pinion_http::error_page;
use pinion_http::field::{Field, Fields};
use pinion_http::prepared_response::{ArchiveRange, Piece, Prepared, PreparedBody, SharedFields};
use pinion_http::request_head::{Framing, RequestHead};
use pinion_http::version::Version;

use crate::alarms_and_messages::Chores;
use crate::request_model::{Kind, mapped, mapped_offset, pattern, sum_of};

/// Bytes of content that a handler requests at a time.
const SIP_BYTES: u64 = 700;
/// Milliseconds after which another thread posts.
const POST_AFTER_MS: u64 = 40;
/// Milliseconds after which it posts again to a handler of [`Kind::Nagged`].
const NAG_AFTER_MS: u64 = 1000;
/// Messages of [`Kind::Showered`].
const SHOWER_MESSAGES: usize = 3 * MESSAGES_PER_PASS + 1;
/// Milliseconds a handler waits for that message.
const POST_PATIENCE_MS: u64 = 2000;
/// Milliseconds that an exchange waits before it ends: longer than any deadline of the engine.
const PATIENCE_MS: u64 = 600_000;
/// Milliseconds a stream waits, for which the engine has no deadline of its own.
const STREAM_PATIENCE_MS: u64 = 45_000;

/// The identity of an exchange or stream: slot and generation of its connection, and its number
/// there.
type Key = (u32, u64, u32);

/// An exchange or a stream that the engine has begun and that has not ended.
enum Job {
    Echo,
    Sum {
        content: Vec<u8>,
        after_posts: bool,
    },
    Exact {
        content: Vec<u8>,
        wanted: u64,
        size: u64,
    },
    Nagged {
        content: Vec<u8>,
    },
    /// `file_from` is the offset of the content in the mapped file, if it is there.
    Fill {
        content: Vec<u8>,
        at: usize,
        file_from: Option<u64>,
    },
    Posted {
        id: u64,
    },
    Showered {
        id: u64,
        left: usize,
    },
    Deadline {
        id: u64,
    },
    Stream,
}

/// A message on its way from another thread.
pub(crate) struct Post {
    pub(crate) at_ms: u64,
    pub(crate) to: Address,
}

/// The application, with the open exchanges and streams.
pub(crate) struct Handlers {
    pub(crate) poster: Poster,
    chores: Chores,
    /// Messages to be posted at their times.
    pub(crate) posts: Vec<Post>,
    mapping: Arc<Mapping>,
    /// The file of the mapping.
    file: Arc<File>,
    mapping_id: Option<MappingId>,
    jobs: BTreeMap<Key, Job>,
    /// Exchanges and streams that have received the event that the server stops.
    notified_of_stop: BTreeSet<Key>,
    /// Those that have received the event that their clients send no more.
    left: BTreeSet<Key>,
    /// Messages that exchanges have received in this pass.
    heard_in_pass: usize,
    /// Exchanges and streams that have begun.
    pub(crate) begun: u64,
    /// Exchanges and streams that have ended by a response, by the application, or by `Gone`.
    pub(crate) ended: u64,
    /// Connections that ended as a flood.
    pub(crate) floods: u64,
}

impl Handlers {
    pub(crate) fn new(poster: Poster, mapping: Arc<Mapping>, file: Arc<File>) -> Self {
        Self {
            chores: Chores::new(poster.clone()),
            poster,
            posts: Vec::new(),
            mapping,
            file,
            mapping_id: None,
            jobs: BTreeMap::new(),
            notified_of_stop: BTreeSet::new(),
            left: BTreeSet::new(),
            heard_in_pass: 0,
            begun: 0,
            ended: 0,
            floods: 0,
        }
    }

    fn open(&mut self, key: Key, job: Job) {
        self.begun += 1;
        assert!(self.jobs.insert(key, job).is_none(), "{key:?} began twice");
    }

    /// Returns whether a connection has any exchange, or is a stream.
    fn has_any(&self, (slot, generation, _): Key) -> bool {
        self.jobs.range((slot, generation, 0)..=(slot, generation, u32::MAX)).next().is_some()
    }

    fn done(&mut self, key: Key) {
        assert!(self.jobs.remove(&key).is_some(), "{key:?} ended twice");
        self.notified_of_stop.remove(&key);
        self.ended += 1;
    }

    /// Records that an exchange or a stream has begun.
    fn begins(&mut self, key: Key, stopping: bool) {
        self.open(key, Job::Stream);
        if stopping {
            self.notified_of_stop.insert(key);
        }
    }

    /// Records the event that the server stops.
    fn stopping(&mut self, key: Key, stopping: bool) {
        assert!(stopping, "what is said can be asked");
        assert!(self.notified_of_stop.insert(key), "{key:?} knows that already");
    }

    /// Records the end of an exchange or a stream.
    fn gone(&mut self, key: Key, why: Gone) {
        let fair = why != Gone::Stopping || self.notified_of_stop.contains(&key);
        assert!(fair, "{key:?} was never told that its time is short");
        self.done(key);
    }

    fn begin(&mut self, head: &RequestHead<'_>, exchange: &mut Exchange<'_>) {
        let path = std::str::from_utf8(head.target.path).expect("our clients send ASCII");
        let mut parts = path.split('/').skip(1);
        let name = parts.next().expect("a name");
        let kind = Kind::NAMES.iter().find(|(_, known)| *known == name).expect("a known name").0;
        let mut number = || parts.next().expect("a number").parse::<u64>().expect("decimal");
        let (id, size) = (number(), number());
        let key = key(exchange.address());
        let is_multiplexed = matches!(head.version, Version::Http2 | Version::Http3);
        let alone = is_multiplexed || !self.has_any(key);
        assert!(alone, "two exchanges at once on {key:?}");
        self.begins(key, exchange.is_stopping());
        match kind {
            Kind::Small | Kind::Unread => {
                response(exchange, &pattern(id, size as usize));
                self.done(key);
            }
            Kind::Hasty => {
                exchange.want(u64::MAX);
                response(exchange, &pattern(id, size as usize));
                self.done(key);
            }
            Kind::Hints => {
                let link = Field { name: b"Link", value: b"</a.css>; rel=preload" };
                exchange.interim(103, std::iter::once(link));
                response(exchange, &pattern(id, size as usize));
                self.done(key);
            }
            Kind::Mapped => {
                let offset = mapped_offset(id, size as usize) as u64;
                let pieces = [Piece::Archive(ArchiveRange { offset, bytes: size })];
                let body = PreparedBody::Archive(&pieces);
                exchange.prepared(&Prepared { body, ..ok(size) }, self.mapping_id);
                self.done(key);
            }
            Kind::Nothing => self.done(key),
            Kind::Abort | Kind::Cut | Kind::Short => {
                exchange.head(200, no_fields(), Some(100));
                exchange.write(Slice::Copied(&pattern(id, 9)));
                match kind {
                    Kind::Abort => exchange.abort(),
                    Kind::Cut => exchange.cut_short(),
                    _ => exchange.end(no_fields()),
                }
                self.done(key);
            }
            Kind::Upgrade => {
                let upgrade = Field { name: b"Upgrade", value: b"echo" };
                let connection = Field { name: b"Connection", value: b"upgrade" };
                self.done(key);
                exchange.upgrade([upgrade, connection].into_iter());
            }
            _ => self.begin_waiting(kind, id, size, head, exchange),
        }
    }

    /// Begins handlers that respond later.
    fn begin_waiting(
        &mut self,
        kind: Kind,
        id: u64,
        size: u64,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let key = key(exchange.address());
        let patience = match kind {
            Kind::Deadline => size,
            Kind::Missed => POST_AFTER_MS / 2,
            Kind::Posted => POST_PATIENCE_MS,
            _ => PATIENCE_MS,
        };
        exchange.wait(Some(patience));
        let job = self.job(kind, id, size, head.framing, exchange);
        self.jobs.insert(key, job);
        match kind {
            Kind::Fill | Kind::Pieces => self.fill(key, exchange),
            _ if kind.has_content() && head.framing == Framing::None => {
                self.body_end(key, &Fields::EMPTY, exchange);
            }
            _ => {}
        }
    }

    /// Returns the job of a request of this kind.
    fn job(
        &mut self,
        kind: Kind,
        id: u64,
        size: u64,
        framing: Framing,
        exchange: &mut Exchange<'_>,
    ) -> Job {
        match kind {
            Kind::Echo => {
                exchange.want(SIP_BYTES);
                let length = match framing {
                    Framing::Length(bytes) => Some(bytes),
                    Framing::None => Some(0),
                    Framing::Chunked | Framing::Frames => None,
                };
                exchange.head(200, no_fields(), length);
                Job::Echo
            }
            Kind::Sum => {
                exchange.want(SIP_BYTES);
                Job::Sum { content: Vec::new(), after_posts: false }
            }
            Kind::Sip => {
                exchange.want(1);
                self.post_later(POST_AFTER_MS, exchange);
                Job::Sum { content: Vec::new(), after_posts: true }
            }
            Kind::Late => {
                self.post_later(size, exchange);
                Job::Sum { content: Vec::new(), after_posts: false }
            }
            Kind::Exact => {
                let wanted = size.min(SIP_BYTES);
                exchange.want(wanted);
                Job::Exact { content: Vec::new(), wanted, size }
            }
            Kind::Nagged => {
                exchange.want(u64::MAX);
                self.post_later(POST_AFTER_MS, exchange);
                Job::Nagged { content: Vec::new() }
            }
            Kind::Fill => {
                exchange.head(200, no_fields(), None);
                Job::Fill { content: pattern(id, size as usize), at: 0, file_from: None }
            }
            Kind::Pieces => {
                exchange.head(200, no_fields(), None);
                let file_from = Some(mapped_offset(id, size as usize) as u64);
                Job::Fill { content: mapped(id, size as usize).to_vec(), at: 0, file_from }
            }
            Kind::Posted => {
                self.post_later(POST_AFTER_MS, exchange);
                Job::Posted { id }
            }
            Kind::Alarmed => {
                let at_ms = exchange.now().monotonic_ms + size;
                self.chores.wake_at(at_ms, exchange.address());
                Job::Posted { id }
            }
            Kind::Relayed => {
                self.chores.wake_soon(exchange.address());
                Job::Posted { id }
            }
            Kind::Showered => {
                let to = exchange.address();
                for _ in 0..SHOWER_MESSAGES {
                    self.poster.post(to, Box::new(to)).expect("room in the inbox");
                }
                Job::Showered { id, left: SHOWER_MESSAGES }
            }
            Kind::Missed => {
                self.post_later(POST_AFTER_MS, exchange);
                Job::Deadline { id }
            }
            _ => Job::Deadline { id },
        }
    }

    fn post_later(&mut self, after_ms: u64, exchange: &mut Exchange<'_>) {
        let at_ms = exchange.now().monotonic_ms + after_ms;
        self.posts.push(Post { at_ms, to: exchange.address() });
    }

    fn fill(&mut self, key: Key, exchange: &mut Exchange<'_>) {
        let Some(Job::Fill { content, at, file_from }) = self.jobs.get_mut(&key) else { return };
        let mapping = self.mapping_id.expect("taken up in the first pass");
        while *at < content.len() {
            let piece = &content[*at..(*at + 1000).min(content.len())];
            let bytes = piece.len() as u64;
            let offset = file_from.map(|from| from + *at as u64);
            let slice = match (*at / 1000 % 4, offset) {
                (1, Some(offset)) => Slice::File { file: self.file.clone(), offset, bytes },
                (2, Some(offset)) => Slice::Mapped { mapping, offset, bytes },
                (0, None) => Slice::Shared(piece.to_vec().into()),
                (0 | 2, _) => Slice::Shared(Bytes::copy_from_slice(piece)),
                _ => Slice::Copied(piece),
            };
            *at += piece.len();
            match exchange.write(slice) {
                ContentRoom::Free => {}
                ContentRoom::Full => return exchange.wait(Some(PATIENCE_MS)),
                // `Gone` is called next.
                ContentRoom::Gone => return,
            }
        }
        exchange.end(std::iter::once(Field { name: b"Checked", value: b"yes" }));
        self.done(key);
    }

    fn body(&mut self, key: Key, bytes: &[u8], exchange: &mut Exchange<'_>) {
        exchange.wait(Some(PATIENCE_MS));
        match self.jobs.get_mut(&key) {
            Some(Job::Echo) => {
                exchange.write(Slice::Copied(bytes));
                exchange.want(bytes.len() as u64);
            }
            Some(Job::Sum { content, after_posts }) => {
                content.extend_from_slice(bytes);
                if *after_posts {
                    self.post_later(POST_AFTER_MS, exchange);
                } else {
                    exchange.want(bytes.len() as u64);
                }
            }
            Some(Job::Exact { content, wanted, size }) => {
                content.extend_from_slice(bytes);
                let taken = content.len() as u64;
                assert!(taken <= *wanted, "more than was wanted");
                if taken == *wanted && wanted < size {
                    let more = (*size - *wanted).min(SIP_BYTES);
                    exchange.want(more);
                    *wanted += more;
                }
            }
            Some(Job::Nagged { content }) => content.extend_from_slice(bytes),
            _ => panic!("content that nobody wanted"),
        }
    }

    fn body_end(&mut self, key: Key, trailers: &Fields<'_>, exchange: &mut Exchange<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let lines = trailers.iter().map(|line| text(line.name) + ": " + &text(line.value));
        let trailers = lines.collect::<Vec<_>>().join(", ");
        match self.jobs.get(&key) {
            Some(Job::Echo) => exchange.end(no_fields()),
            Some(
                Job::Sum { content, .. } | Job::Exact { content, .. } | Job::Nagged { content },
            ) => response(exchange, sum_of(content, &trailers).as_bytes()),
            // A request without content gets no event of its end, unless it was chunked.
            _ => panic!("the end of content that nobody reads"),
        }
        self.done(key);
    }

    fn posted(&mut self, key: Key, exchange: &mut Exchange<'_>) {
        self.heard_in_pass += 1;
        assert!(self.heard_in_pass <= MESSAGES_PER_PASS, "messages keep the connections waiting");
        match self.jobs.get_mut(&key) {
            Some(Job::Showered { left, .. }) if *left > 1 => *left -= 1,
            Some(Job::Showered { id, .. }) => {
                response(exchange, &pattern(*id, 20));
                self.done(key);
            }
            Some(Job::Sum { .. }) => exchange.want(SIP_BYTES),
            Some(Job::Nagged { .. }) => self.post_later(NAG_AFTER_MS, exchange),
            Some(Job::Posted { id }) => {
                response(exchange, &pattern(*id, 20));
                self.done(key);
            }
            // A worker that was delayed delivers messages before it checks deadlines.
            Some(Job::Deadline { .. }) => {}
            _ => panic!("a message for another exchange"),
        }
    }
}

impl App for Handlers {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        let key = key(exchange.address());
        if let Event::Head(head) = event {
            return self.begin(head, exchange);
        }
        assert!(self.jobs.contains_key(&key), "an event for {key:?}, which has no exchange");
        match event {
            Event::Head(_) => {}
            Event::Body(bytes) => self.body(key, bytes, exchange),
            Event::BodyEnd(trailers) => self.body_end(key, &trailers, exchange),
            Event::InputEnd => assert!(self.left.insert(key), "{key:?} hears of its end twice"),
            Event::Writable => self.fill(key, exchange),
            Event::Posted(message) => {
                check_message(&message, exchange.address());
                self.posted(key, exchange);
            }
            Event::Deadline => match self.jobs.get(&key) {
                Some(Job::Deadline { id }) => {
                    response(exchange, &pattern(*id, 20));
                    self.done(key);
                }
                _ => {
                    exchange.abort();
                    self.done(key);
                }
            },
            Event::Stopping => self.stopping(key, exchange.is_stopping()),
            Event::Refused(refusal) => {
                // The client gets the same response from the application and from the engine.
                if key.1.wrapping_add(u64::from(key.2 / 2)).is_multiple_of(2) {
                    let page = error_page::response(
                        refusal.status(),
                        error_page::ErrorFormat::Html,
                        error_page::BUILT_IN_FIELDS,
                    );
                    exchange.prepared(&page, None);
                    self.done(key);
                }
            }
            Event::Gone(why) => self.gone(key, why),
        }
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        let key = key(stream.address());
        if matches!(event, ByteStreamEvent::Open) {
            self.begins(key, stream.is_stopping());
        }
        assert!(self.jobs.contains_key(&key), "an event for {key:?}, which has no stream");
        if !matches!(event, ByteStreamEvent::Gone(_)) {
            stream.wait(Some(STREAM_PATIENCE_MS));
        }
        match event {
            ByteStreamEvent::Open => stream.want(SIP_BYTES),
            ByteStreamEvent::Bytes(bytes) => {
                if stream.write(Slice::Copied(bytes)) == ContentRoom::Free {
                    stream.want(SIP_BYTES);
                }
            }
            ByteStreamEvent::End => {
                stream.close();
                self.done(key);
            }
            ByteStreamEvent::Stopping => self.stopping(key, stream.is_stopping()),
            ByteStreamEvent::Gone(why) => self.gone(key, why),
            ByteStreamEvent::Writable => stream.want(SIP_BYTES),
            ByteStreamEvent::Posted(message) => check_message(&message, stream.address()),
            ByteStreamEvent::Deadline => {
                stream.abort();
                self.done(key);
            }
        }
    }

    fn flooded(&mut self, _connection: Address) {
        self.floods += 1;
    }

    fn closed(&mut self, connection: Address, _unsent_bytes: u64) {
        let key = key(connection);
        assert!(!self.has_any(key), "{key:?} closed under its exchange");
    }

    fn alarm_ms(&self) -> Option<u64> {
        self.chores.alarm_ms()
    }

    fn posted(&mut self, message: Message, _: &mut Connections<'_>) {
        self.chores.posted(&message);
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        let now = connections.now();
        let mappings = connections.mappings();
        self.heard_in_pass = 0;
        self.chores.pass(now.monotonic_ms);
        if self.mapping_id.is_none() {
            self.mapping_id = Some(mappings.add(self.mapping.clone()));
        }
    }
}

/// Checks that a message has the address to which it was posted.
fn check_message(message: &Message, to: Address) {
    assert_eq!(message.downcast_ref::<Address>(), Some(&to), "a message for somebody else");
}

fn key(address: Address) -> Key {
    (address.slot, address.generation, address.exchange)
}

fn no_fields() -> std::iter::Empty<Field<'static>> {
    std::iter::empty()
}

fn ok(bytes: u64) -> Prepared<'static> {
    Prepared {
        shared: SharedFields::h1(b"Content-Type: text/plain\r\n"),
        content_length: Some(bytes),
        ..Prepared::empty(200)
    }
}

fn response(exchange: &mut Exchange<'_>, body: &[u8]) {
    let prepared = Prepared { body: PreparedBody::Bytes(body), ..ok(body.len() as u64) };
    exchange.prepared(&prepared, None);
}

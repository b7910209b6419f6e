//! The state that the simulated backend and the simulated clients share: connections, listeners,
//! the clock, the random faults, and a record of all events.
//!
//! A client acts through [`Network`] at any time between two passes of the worker. Time stands
//! still unless a worker waits with nothing to do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::datagrams::Datagrams;
use super::faults::{Dice, Fallible, Faults};
use super::random::Random;
use super::wall_clock::Wall;
use crate::clock::Now;
use crate::outgoing_connect::RemoteAddress;

/// Bytes that the kernel takes from a client before the engine has read them.
const INPUT_MAX_BYTES: usize = 64 * 1024;
/// Bytes that fit between the engine and a server that has not set a window.
const OPENED_WINDOW_BYTES: usize = 64 * 1024;
/// The maximum number of waits in a row that end without a result, without time passing and without
/// a client that is about to act. More of them show a loop that burns a processor.
const IDLE_WAITS_MAX: u32 = 3;
/// The maximum number of waits in a row without time passing. The input that clients can send
/// without a pause ends long before.
const WAITS_PER_MOMENT_MAX: u32 = 200_000;
/// The start of the clocks: far from zero, so that a forgotten "not set" shows.
const START: Now =
    Now { monotonic_ms: 5_000_017, unix_seconds: 1_790_000_000, unix_ms: 1_790_000_000_000 };

/// The monotonic clock of a network, which any thread may read.
#[derive(Debug, Clone)]
pub struct SharedClock(Arc<AtomicU64>);

impl SharedClock {
    /// Returns the time in milliseconds.
    pub fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The handle of a connection for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client(pub(super) usize);

/// The options of a client's connection.
#[derive(Debug, Clone, Copy)]
pub struct Connect {
    /// The index of the listener.
    pub listener: usize,
    /// Bytes that fit between the engine and this client before it reads.
    pub window_bytes: usize,
    /// Whether this is a Unix socket: its kernel does not report how far a send in flight has come,
    /// only the number of bytes that the client has not read.
    pub local: bool,
    /// Whether the connection is protected from random faults.
    pub protected: bool,
}

/// The result of a client's read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// The number of bytes read, at least one.
    Bytes(usize),
    /// No bytes have arrived yet.
    Nothing,
    /// The server has sent its end of stream.
    Ended,
    /// The connection was reset.
    Reset,
}

/// The observable state of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// The time at which the engine attached it, in milliseconds.
    pub attached_at_ms: Option<u64>,
    /// The time at which the engine last took a byte from it.
    pub taken_at_ms: u64,
    /// The time at which the engine last put a byte into it.
    pub given_at_ms: u64,
    /// The time at which the engine closed it.
    pub closed_at_ms: Option<u64>,
    /// Whether the engine had ended its stream before it closed the connection.
    pub lingered: bool,
    /// Whether its client left no room for output at the time it was closed.
    pub stalled: bool,
    /// Whether a failing operation hit it: it need not work any more.
    pub hurt: bool,
    /// Bytes that wait for the client to read them.
    pub unread_bytes: usize,
    /// Bytes of the client that wait for the engine.
    pub untaken_bytes: usize,
}

/// One connection as the kernel sees it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) options: Connect,
    /// Whether the TCP handshake is over. Only connections that the engine opens wait for that.
    pub(super) established: bool,
    pub(super) to_server: VecDeque<u8>,
    pub(super) client_ended: bool,
    pub(super) to_client: VecDeque<u8>,
    pub(super) server_ended: bool,
    /// The error with which both directions fail for the engine.
    pub(super) broken: Option<Errno>,
    /// Whether both directions have failed for the client.
    client_reset: bool,
    /// Whether the client has closed its socket: nothing that arrives is read.
    client_gone: bool,
    /// The number of bytes that the client has read.
    pub(super) acknowledged: u64,
    pub(super) facts: Facts,
}

impl Connection {
    /// Returns the number of bytes that the kernel takes from the engine now.
    pub(super) fn room(&self) -> usize {
        let (window, unread) = (self.options.window_bytes, self.to_client.len());
        // A Unix socket takes no more until three quarters of it were read.
        let full = self.options.local && unread > 0 && unread > window / 4;
        if full { 0 } else { window.saturating_sub(unread) }
    }

    /// Returns whether a read of the engine returns at once: with bytes, an end or an error.
    pub(super) fn has_input(&self) -> bool {
        !self.to_server.is_empty() || self.client_ended || self.broken.is_some()
    }

    /// Ends both directions for both sides.
    pub(super) fn fail(&mut self, error: Errno) {
        self.broken = Some(error);
        self.facts.hurt = true;
        self.client_reset = true;
        self.to_server.clear();
    }
}

/// The state inside a [`Network`].
pub(super) struct State {
    pub(super) random: Random,
    pub(super) dice: Dice,
    pub(super) now: Now,
    /// The counterpart of [`START`] where a time of the system is needed: only differences count.
    begun: Instant,
    shared_clock: SharedClock,
    wall: Wall,
    pub(super) connections: Vec<Connection>,
    /// The connections that the engine opens and that the player of their servers has not looked
    /// at.
    opened: VecDeque<(Client, RemoteAddress)>,
    /// The clients that wait to be accepted, by listener.
    pub(super) waiting: Vec<VecDeque<Client>>,
    pub(super) datagrams: Datagrams,
    /// The time at which a client, or another driver of the run, acts next without a cause.
    next_action_ms: Option<u64>,
    /// Whether the engine has since done something that a client may respond to.
    pub(super) news: bool,
    waits_this_moment: u32,
    /// Whether accepting has failed because there was no descriptor.
    pub(super) ran_out_of_descriptors: bool,
    idle_waits: u32,
    stuck: bool,
    trace: Trace,
}

impl State {
    pub(super) fn fails(&mut self, operation: Fallible, client: Option<Client>) -> Option<Errno> {
        let protected = client.is_some_and(|c| self.connections[c.0].options.protected);
        let error = self.dice.roll(&mut self.random, operation, protected)?;
        self.note(format_args!("{operation:?} {client:?} fails: {error}"));
        Some(error)
    }

    /// Rolls whether a send finds no kernel memory now; its connection stays usable.
    pub(super) fn lacks_memory(&mut self) -> Option<Errno> {
        let errors = [Errno::NOBUFS, Errno::NOMEM];
        self.random.chance(self.dice.faults.shortage).then(|| *self.random.pick(&errors))
    }

    /// Records an event.
    pub(super) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.now, what);
    }

    /// Begins a wait.
    pub(super) fn begin_wait(&mut self) {
        self.datagrams.begin_wait();
        self.waits_this_moment += 1;
        assert!(
            self.waits_this_moment < WAITS_PER_MOMENT_MAX,
            "the worker spins: time stands still"
        );
        if self.random.chance(self.dice.faults.set) {
            let now_ms = self.now.monotonic_ms;
            let by_ms = self.wall.set(now_ms, &mut self.random, self.dice.faults.set_ms);
            self.now.unix_seconds = self.wall.seconds(now_ms);
            self.now.unix_ms = self.wall.milliseconds(now_ms);
            self.note(format_args!("the wall clock is set by {by_ms} ms"));
        }
    }

    /// Lets time pass because nothing is ready: until `timeout_ms` is over, something is due at
    /// `ready_at_ms`, or a client acts.
    pub(super) fn pass_time(&mut self, timeout_ms: Option<u64>, ready_at_ms: Option<u64>) {
        let now = self.now.monotonic_ms;
        let timeout = timeout_ms.map(|ms| now.saturating_add(ms));
        let news = self.news.then_some(now);
        let until = [timeout, ready_at_ms, self.next_action_ms, news].into_iter().flatten().min();
        let mut ms = until.map_or(0, |until| until.saturating_sub(now));
        if ms > 0 && self.random.chance(self.dice.faults.leap) {
            ms += self.random.below(self.dice.faults.leap_ms.max(1));
        }
        self.advance(ms);
        let client_acts =
            self.news || self.next_action_ms.is_some_and(|at| at <= self.now.monotonic_ms);
        self.idle_waits = if ms > 0 || client_acts { 0 } else { self.idle_waits + 1 };
        assert!(
            self.idle_waits <= IDLE_WAITS_MAX || until.is_none(),
            "the worker spins: it waits 0 ms for nothing"
        );
        self.stuck = until.is_none() && self.idle_waits > IDLE_WAITS_MAX;
    }

    /// Lets a moment pass now and then in a pass of the worker that has work.
    pub(super) fn work_takes_time(&mut self, has_work: bool) {
        if has_work && self.random.chance(100) {
            let ms = self.random.below(3);
            self.advance(ms);
        }
    }

    /// Takes `bytes` of a client's input for the engine; the input has at least so many.
    pub(super) fn take_input(
        &mut self,
        client: Client,
        bytes: usize,
    ) -> impl ExactSizeIterator<Item = u8> {
        self.news = true;
        let connection = &mut self.connections[client.0];
        connection.facts.taken_at_ms = self.now.monotonic_ms;
        connection.to_server.drain(..bytes)
    }

    /// Puts output of the engine on its way to a client.
    pub(super) fn put_output(&mut self, client: Client, bytes: &[u8]) {
        self.news = true;
        let connection = &mut self.connections[client.0];
        connection.facts.given_at_ms = self.now.monotonic_ms;
        if connection.client_gone {
            // The client is gone: its system replies to the first bytes with a reset.
            connection.broken = Some(Errno::CONNRESET);
        } else {
            connection.to_client.extend(bytes);
        }
    }

    /// Adds a new connection, which is established or not.
    fn add(&mut self, options: Connect, established: bool) -> Client {
        let client = Client(self.connections.len());
        self.connections.push(Connection {
            options,
            established,
            to_server: VecDeque::new(),
            client_ended: false,
            to_client: VecDeque::new(),
            server_ended: false,
            broken: None,
            client_reset: false,
            client_gone: false,
            acknowledged: 0,
            facts: Facts::default(),
        });
        client
    }

    /// Opens a connection for the engine. The player of its server decides whether it succeeds.
    pub(super) fn open(&mut self, remote: &RemoteAddress) -> Client {
        let local = matches!(remote, RemoteAddress::Unix(_));
        let window_bytes = OPENED_WINDOW_BYTES;
        let options = Connect { listener: 0, window_bytes, local, protected: false };
        let client = self.add(options, false);
        self.connections[client.0].facts.attached_at_ms = Some(self.now.monotonic_ms);
        self.opened.push_back((client, remote.clone()));
        self.news = true;
        self.note(format_args!("{client:?} is opened to {remote}"));
        client
    }

    fn advance(&mut self, ms: u64) {
        if ms > 0 {
            self.waits_this_moment = 0;
            self.now.monotonic_ms += ms;
            self.shared_clock.0.store(self.now.monotonic_ms, Ordering::Relaxed);
            self.now.unix_seconds = self.wall.seconds(self.now.monotonic_ms);
            self.now.unix_ms = self.wall.milliseconds(self.now.monotonic_ms);
        }
    }

    /// Closes a connection for the engine. As in TCP, a connection that is closed while input waits
    /// is reset, and a reset may overtake bytes that the client has not read (RFC 9112 §9.6).
    pub(super) fn close(&mut self, client: Client, abruptly: bool) {
        self.news = true;
        let now_ms = self.now.monotonic_ms;
        let connection = &mut self.connections[client.0];
        assert!(connection.facts.closed_at_ms.is_none(), "a socket is closed once");
        connection.facts.closed_at_ms = Some(now_ms);
        connection.facts.stalled = connection.room() == 0;
        connection.server_ended = true;
        // No more input comes, and a run may have many connections.
        connection.to_server.shrink_to_fit();
        let reset = abruptly || !connection.to_server.is_empty() || connection.broken.is_some();
        if reset {
            self.reset_client(client);
        }
        self.note(format_args!("{client:?} closed, reset: {reset}"));
    }

    fn reset_client(&mut self, client: Client) {
        let lost = self.random.chance(500);
        let connection = &mut self.connections[client.0];
        connection.client_reset = true;
        if lost {
            connection.to_client.clear();
        }
    }
}

/// A simulated network, shared by the simulated backend and the clients. Clones name the same
/// network.
#[derive(Clone)]
pub struct Network(pub(super) Rc<RefCell<State>>);

impl Network {
    /// Creates a network with `listeners` listeners. Nothing in it depends on anything but `seed`,
    /// `faults` and the calls made.
    pub fn new(seed: u64, faults: Faults, listeners: usize) -> Self {
        Self(Rc::new(RefCell::new(State {
            random: Random::new(seed),
            dice: Dice { faults, operations: 0 },
            now: START,
            begun: Instant::now(),
            shared_clock: SharedClock(Arc::new(AtomicU64::new(START.monotonic_ms))),
            wall: Wall::new(START.monotonic_ms, START.unix_seconds),
            connections: Vec::new(),
            opened: VecDeque::new(),
            waiting: (0..listeners).map(|_| VecDeque::new()).collect(),
            datagrams: Datagrams::default(),
            next_action_ms: None,
            news: false,
            waits_this_moment: 0,
            ran_out_of_descriptors: false,
            idle_waits: 0,
            stuck: false,
            trace: Trace::new(),
        })))
    }

    /// Returns the current times of the clocks.
    pub fn now(&self) -> Now {
        self.0.borrow().now
    }

    /// Returns the monotonic clock in a form that any thread may read.
    pub fn shared_clock(&self) -> SharedClock {
        self.0.borrow().shared_clock.clone()
    }

    /// Returns the time of the monotonic clock as a time of the system.
    pub fn instant(&self) -> Instant {
        let state = self.0.borrow();
        state.begun + Duration::from_millis(state.now.monotonic_ms - START.monotonic_ms)
    }

    /// Returns whether the wall clock showed a second, since 1970, at some moment from `from_ms` to
    /// now.
    pub fn showed(&self, second: i64, from_ms: u64) -> bool {
        let state = self.0.borrow();
        state.wall.showed(second, from_ms, state.now.monotonic_ms)
    }

    /// Sets the time of the next action outside the worker, all clients having done all they can do
    /// now. No wait lasts longer.
    pub fn act_at(&self, at_ms: Option<u64>) {
        let mut state = self.0.borrow_mut();
        state.next_action_ms = at_ms;
        state.news = false;
    }

    /// Holds the worker up for `ms` milliseconds, but not its clients: the process was stopped, or
    /// the machine ran others.
    pub fn hold_up(&self, ms: u64) {
        let mut state = self.0.borrow_mut();
        state.advance(ms);
        state.note(format_args!("the worker was held up for {ms} ms"));
    }

    /// Connects a client. It waits to be accepted; it may send meanwhile.
    pub fn connect(&self, options: Connect) -> Client {
        let mut state = self.0.borrow_mut();
        let client = state.add(options, true);
        state.waiting[options.listener].push_back(client);
        state.note(format_args!("{client:?} connects"));
        client
    }

    /// Returns the next connection that the engine opens. The player of its server acts with it as
    /// a client does, once it has [accepted](Self::establish) it.
    pub fn next_opened(&self) -> Option<(Client, RemoteAddress)> {
        self.0.borrow_mut().opened.pop_front()
    }

    /// Returns whether a connection is open for the engine. One to a Unix socket may be so before
    /// its server has accepted it, and is not refused then.
    pub fn is_established(&self, server: Client) -> bool {
        self.0.borrow().connections[server.0].established
    }

    /// Accepts a connection as its server.
    pub fn establish(&self, server: Client, window_bytes: usize) {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[server.0];
        connection.established = true;
        connection.options.window_bytes = window_bytes;
        state.note(format_args!("{server:?} accepts"));
    }

    /// Refuses a connection as the system of its server, or fails the path to it.
    pub fn refuse(&self, server: Client, error: Errno) {
        let mut state = self.0.borrow_mut();
        state.connections[server.0].fail(error);
        state.note(format_args!("{server:?} refuses: {error}"));
    }

    /// Returns whether the engine has closed a connection.
    pub fn is_closed(&self, client: Client) -> bool {
        self.0.borrow().connections[client.0].facts.closed_at_ms.is_some()
    }

    /// Sends from a client, and returns the number of bytes that the kernel took. A server that has
    /// closed the connection replies with a reset.
    pub fn send(&self, client: Client, bytes: &[u8]) -> usize {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[client.0];
        assert!(!connection.client_ended, "a client that has ended sends nothing");
        if connection.client_reset {
            return 0;
        }
        if connection.facts.closed_at_ms.is_some() {
            state.reset_client(client);
            return 0;
        }
        let taken = bytes.len().min(INPUT_MAX_BYTES.saturating_sub(connection.to_server.len()));
        connection.to_server.extend(&bytes[..taken]);
        if taken > 0 {
            state.note(format_args!("{client:?} sends {taken}"));
        }
        taken
    }

    /// Reads up to `max` bytes and appends them to `into`.
    pub fn read(&self, client: Client, max: usize, into: &mut Vec<u8>) -> Read {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[client.0];
        let bytes = max.min(connection.to_client.len());
        if bytes > 0 {
            let (front, back) = connection.to_client.as_slices();
            let in_front = bytes.min(front.len());
            into.extend_from_slice(&front[..in_front]);
            into.extend_from_slice(&back[..bytes - in_front]);
            connection.to_client.drain(..bytes);
            connection.acknowledged += bytes as u64;
            state.note(format_args!("{client:?} reads {bytes}"));
            return Read::Bytes(bytes);
        }
        match connection {
            _ if max == 0 => Read::Nothing,
            connection if connection.client_reset => Read::Reset,
            connection if connection.server_ended => Read::Ended,
            _ => Read::Nothing,
        }
    }

    /// Sends the client's end of stream; the client goes on reading.
    pub fn end(&self, client: Client) {
        let mut state = self.0.borrow_mut();
        state.connections[client.0].client_ended = true;
        state.note(format_args!("{client:?} ends"));
    }

    /// Closes the client's socket; bytes that are still sent to it cause a reset.
    pub fn leave(&self, client: Client) {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[client.0];
        connection.client_ended = true;
        connection.client_gone = true;
        connection.to_client = VecDeque::new();
        state.note(format_args!("{client:?} leaves"));
    }

    /// Resets the connection as its client.
    pub fn reset(&self, client: Client) {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[client.0];
        connection.fail(Errno::CONNRESET);
        // None of it is read any more, and a run may have many such connections.
        (connection.to_client, connection.to_server) = (VecDeque::new(), VecDeque::new());
        state.note(format_args!("{client:?} resets"));
    }

    /// Returns the observable state of a connection.
    pub fn facts(&self, client: Client) -> Facts {
        let connection = &self.0.borrow().connections[client.0];
        Facts {
            unread_bytes: connection.to_client.len(),
            untaken_bytes: connection.to_server.len(),
            ..connection.facts
        }
    }

    /// Returns whether accepting has failed because there was no descriptor, so that the server may
    /// close connections that are not in use.
    pub fn ran_out_of_descriptors(&self) -> bool {
        self.0.borrow().ran_out_of_descriptors
    }

    /// Returns the number of clients that were not accepted yet.
    pub fn waiting(&self) -> usize {
        self.0.borrow().waiting.iter().map(VecDeque::len).sum()
    }

    /// Returns the number of fallible operations so far: the sweep is over when [`Faults::fail_at`]
    /// is larger.
    pub fn operations(&self) -> u64 {
        self.0.borrow().dice.operations
    }

    /// Returns whether the worker waits without a timeout and no client is going to act.
    pub fn is_stuck(&self) -> bool {
        self.0.borrow().stuck
    }

    /// Returns a digest of all events: equal for equal runs.
    pub fn digest(&self) -> u64 {
        self.0.borrow().trace.digest
    }

    /// Adds an event of the test run to the record.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        self.0.borrow_mut().note(what);
    }
}

/// The record: a digest, and with `PINION_SIM_TRACE` set every line on stderr.
struct Trace {
    digest: u64,
    shown: bool,
    line: String,
}

impl Trace {
    fn new() -> Self {
        let shown = std::env::var_os("PINION_SIM_TRACE").is_some();
        Self { digest: 0xcbf2_9ce4_8422_2325, shown, line: String::new() }
    }

    /// Adds a line to the FNV-1a digest: the record has to be compared, not defended.
    fn note(&mut self, now: Now, what: fmt::Arguments<'_>) {
        self.line.clear();
        let _ = fmt::write(&mut self.line, format_args!("{} {what}", now.monotonic_ms));
        for &byte in self.line.as_bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.shown {
            eprintln!("{}", self.line);
        }
    }
}

//! The state that the simulated backend and the simulated clients share: connections, listeners,
//! the clock, the random faults, and a record of all events.
//!
//! A client acts through [`Network`] at any time between two passes of the worker. Time stands
//! still unless a worker waits with nothing to do.

mod client_actions;

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
use super::simulated_connection::{Client, Connect, SimConnection};
use super::wall_clock::Wall;
use crate::clock::Now;
use crate::outgoing_connect::RemoteAddress;

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

/// The state inside a [`Network`].
pub(super) struct State {
    pub(super) random: Random,
    pub(super) dice: Dice,
    pub(super) now: Now,
    /// The counterpart of [`START`] where a time of the system is needed: only differences count.
    begun: Instant,
    shared_clock: SharedClock,
    wall: Wall,
    pub(super) connections: Vec<SimConnection>,
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
        self.connections.push(SimConnection::new(options, established));
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
    pub(super) fn close(&mut self, client: Client, reset: bool) {
        self.news = true;
        let now_ms = self.now.monotonic_ms;
        let connection = &mut self.connections[client.0];
        assert!(connection.facts.closed_at_ms.is_none(), "a socket is closed once");
        connection.facts.closed_at_ms = Some(now_ms);
        connection.facts.stalled = connection.room() == 0;
        connection.server_ended = true;
        // No more input comes, and a run may have many connections.
        connection.to_server.shrink_to_fit();
        let reset = reset || !connection.to_server.is_empty() || connection.broken.is_some();
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

//! Single cases, and random runs that are compared with simple rules.

use std::collections::BTreeMap;

use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Pool = ConnectionPool<&'static str, u32, u32>;

const FOREVER: u64 = u64::MAX;

fn settings(per_key: usize, all: usize, waiters: usize) -> PoolSettings {
    PoolSettings {
        connections_per_key_max: per_key,
        connections_max: all,
        waiters_per_key_max: waiters,
        idle_timeout_ms: 1000,
    }
}

fn actions(pool: &mut Pool) -> Vec<PoolAction<u32, u32>> {
    std::iter::from_fn(|| pool.next_action()).collect()
}

fn assign(waiter: u32, connection: u32) -> PoolAction<u32, u32> {
    PoolAction::Assign { waiter, connection }
}

/// A pool with unused connections of the key `a`, the last one released last.
fn with_idle(settings: PoolSettings, connections: &[u32]) -> Pool {
    let mut pool = Pool::new(settings);
    for connection in connections {
        pool.acquire(&"a", 100 + connection, Reuse::Refused, FOREVER, 0).expect("room");
        pool.opened(&"a", *connection);
    }
    for (connection, now_ms) in connections.iter().zip(1..) {
        pool.release(&"a", *connection, now_ms);
    }
    actions(&mut pool);
    pool
}

#[test]
fn the_connection_that_was_released_last_is_used_first() {
    let mut pool = with_idle(settings(3, 9, 9), &[1, 2, 3]);
    for waiter in 1..5 {
        pool.acquire(&"a", waiter, Reuse::Allowed, FOREVER, 10).expect("room");
    }
    assert_eq!(actions(&mut pool), [assign(1, 3), assign(2, 2), assign(3, 1)]);
    pool.release(&"a", 2, 20);
    assert_eq!(actions(&mut pool), [assign(4, 2)]);
}

#[test]
fn requests_wait_in_their_order() {
    let mut pool = Pool::new(settings(1, 9, 2));
    for waiter in 1..4 {
        pool.acquire(&"a", waiter, Reuse::Allowed, FOREVER, 0).expect("room");
    }
    let full = pool.acquire(&"a", 4, Reuse::Allowed, FOREVER, 0);
    assert_eq!(full, Err(PoolQueueFull(2)));
    let message = "too many requests wait for a connection (at most 2); try again later";
    assert_eq!(PoolQueueFull(2).to_string(), message);
    assert_eq!(actions(&mut pool), [PoolAction::Open(1)]);
    pool.not_opened(&"a", 1);
    assert_eq!(actions(&mut pool), [PoolAction::Open(2)]);
    pool.opened(&"a", 7);
    pool.cancel(&"a", 99);
    pool.closed(&"a", 7, 2);
    assert_eq!(actions(&mut pool), [PoolAction::Open(3)]);
    assert_eq!((pool.connections(), pool.waiting()), (1, 0));
}

#[test]
fn a_request_waits_until_its_deadline() {
    let mut pool = Pool::new(settings(1, 9, 9));
    pool.acquire(&"a", 1, Reuse::Allowed, 50, 0).expect("room");
    pool.acquire(&"a", 2, Reuse::Allowed, 50, 0).expect("room");
    pool.acquire(&"a", 3, Reuse::Allowed, 40, 0).expect("room");
    assert_eq!(actions(&mut pool), [PoolAction::Open(1)]);
    assert_eq!(pool.next_deadline_ms(), Some(40));
    pool.tick(39);
    assert_eq!(actions(&mut pool), []);
    pool.tick(40);
    assert_eq!(actions(&mut pool), [PoolAction::TimedOut(3)]);
    // Without a tick, too, it gets no connection after its deadline.
    pool.opened(&"a", 7);
    pool.release(&"a", 7, 50);
    assert_eq!(actions(&mut pool), [PoolAction::TimedOut(2)]);
    assert_eq!(pool.next_deadline_ms(), Some(1050), "the unused connection");
}

#[test]
fn idle_connections_are_closed_after_their_timeout() {
    let mut pool = with_idle(settings(3, 9, 9), &[1, 2, 3]);
    pool.tick(1002);
    assert_eq!(actions(&mut pool), [PoolAction::Close(1), PoolAction::Close(2)]);
    // Without a tick, too, an old connection is not used.
    pool.acquire(&"a", 5, Reuse::Allowed, FOREVER, 1003).expect("room");
    assert_eq!(actions(&mut pool), [PoolAction::Close(3), PoolAction::Open(5)]);
    pool.not_opened(&"a", 1004);
    assert_eq!((pool.connections(), pool.next_deadline_ms()), (0, None));
    assert!(pool.keys.is_empty(), "nothing is kept of the key");
}

#[test]
fn a_connection_that_the_server_has_closed_is_dropped() {
    let mut pool = with_idle(settings(2, 9, 9), &[1, 2]);
    pool.closed(&"a", 2, 10);
    pool.closed(&"a", 9, 10);
    pool.release(&"a", 2, 11);
    assert_eq!(pool.connections(), 1);
    pool.acquire(&"a", 5, Reuse::Allowed, FOREVER, 12).expect("room");
    assert_eq!(actions(&mut pool), [assign(5, 1)]);
}

#[test]
fn a_repeated_request_gets_a_new_connection() {
    let mut pool = with_idle(settings(3, 9, 9), &[1, 2]);
    pool.acquire(&"a", 5, Reuse::Refused, FOREVER, 10).expect("room");
    assert_eq!(actions(&mut pool), [PoolAction::Open(5)]);
    pool.opened(&"a", 3);
    pool.acquire(&"a", 6, Reuse::Refused, FOREVER, 11).expect("room");
    assert_eq!(actions(&mut pool), [PoolAction::Close(1), PoolAction::Open(6)], "the oldest");
}

#[test]
fn idle_connections_are_closed_for_other_keys() {
    let mut pool = with_idle(settings(2, 2, 9), &[1, 2]);
    pool.acquire(&"b", 5, Reuse::Allowed, FOREVER, 10).expect("room");
    assert_eq!(actions(&mut pool), [PoolAction::Close(1), PoolAction::Open(5)]);
    pool.acquire(&"a", 6, Reuse::Allowed, FOREVER, 11).expect("room");
    assert_eq!(actions(&mut pool), [assign(6, 2)]);
    pool.acquire(&"c", 7, Reuse::Allowed, FOREVER, 12).expect("room");
    pool.acquire(&"b", 8, Reuse::Allowed, FOREVER, 13).expect("room");
    assert_eq!(actions(&mut pool), []);
    pool.release(&"a", 2, 14);
    let expected = [PoolAction::Close(2), PoolAction::Open(7)];
    assert_eq!(actions(&mut pool), expected, "c has waited longer than b");
    pool.not_opened(&"c", 15);
    assert_eq!(actions(&mut pool), [PoolAction::Open(8)]);
}

#[test]
fn all_idle_connections_can_be_closed() {
    let mut pool = with_idle(settings(3, 9, 9), &[1, 2, 3]);
    pool.acquire(&"a", 5, Reuse::Allowed, FOREVER, 10).expect("room");
    assert_eq!(actions(&mut pool), [assign(5, 3)]);
    pool.close_idle();
    assert_eq!(actions(&mut pool), [PoolAction::Close(1), PoolAction::Close(2)]);
    assert_eq!((pool.connections(), pool.next_deadline_ms()), (1, None));
}

/// An event of a run.
#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire {
        key: usize,
        is_new_wanted: bool,
        wait_ms: u64,
    },
    Cancel {
        choice: usize,
    },
    Opened {
        choice: usize,
    },
    NotOpened {
        choice: usize,
    },
    Release {
        choice: usize,
    },
    ClosedInUse {
        choice: usize,
    },
    ClosedIdle {
        choice: usize,
    },
    Pass {
        ms: u64,
    },
    /// The caller is late with its tick.
    PassUnnoticed {
        ms: u64,
    },
    CloseIdle,
}

fn step() -> impl Strategy<Value = Step> {
    let choice = 0_usize..1 << 16;
    prop_oneof![
        6 => (0_usize..3, weighted(0.2), 0_u64..3000).prop_map(|(key, is_new_wanted, wait_ms)| {
            Step::Acquire { key, is_new_wanted, wait_ms }
        }),
        1 => choice.clone().prop_map(|choice| Step::Cancel { choice }),
        5 => choice.clone().prop_map(|choice| Step::Opened { choice }),
        1 => choice.clone().prop_map(|choice| Step::NotOpened { choice }),
        4 => choice.clone().prop_map(|choice| Step::Release { choice }),
        1 => choice.clone().prop_map(|choice| Step::ClosedInUse { choice }),
        1 => choice.prop_map(|choice| Step::ClosedIdle { choice }),
        3 => (0_u64..700).prop_map(|ms| Step::Pass { ms }),
        1 => (0_u64..1500).prop_map(|ms| Step::PassUnnoticed { ms }),
        1 => Just(Step::CloseIdle),
    ]
}

const KEYS: [&str; 3] = ["a", "b", "c"];

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    waiter: u32,
    key: &'static str,
    is_new_wanted: bool,
    deadline_ms: u64,
}

/// A pool, and all that is known of it from its actions: flat lists in the order of events.
struct Run {
    pool: Pool,
    settings: PoolSettings,
    /// Of the keys of the same position.
    limits: [KeyLimits; 3],
    now_ms: u64,
    waiting: Vec<Waiting>,
    /// Key and request of each connection that is being opened.
    opening: Vec<(&'static str, u32)>,
    in_use: Vec<(&'static str, u32)>,
    /// Key, connection and time of release.
    idle: Vec<(&'static str, u32, u64)>,
    next_id: u32,
    /// The result of each request.
    results: BTreeMap<u32, &'static str>,
}

impl Run {
    fn new(settings: PoolSettings, limits: [KeyLimits; 3]) -> Self {
        Self {
            pool: Pool::new(settings),
            settings,
            limits,
            now_ms: 0,
            waiting: Vec::new(),
            opening: Vec::new(),
            in_use: Vec::new(),
            idle: Vec::new(),
            next_id: 0,
            results: BTreeMap::new(),
        }
    }

    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    fn end(&mut self, waiter: u32, result: &'static str) {
        assert_eq!(self.results.insert(waiter, result), None, "{waiter} has one result");
    }

    fn limits(&self, key: &str) -> KeyLimits {
        let keys = KEYS.iter().zip(self.limits);
        { keys }.find(|(of, _)| **of == key).expect("a key").1
    }

    fn connections_max(&self, key: &str) -> usize {
        self.settings.connections_per_key_max.min(self.limits(key).connections_max)
    }

    fn count(&self, key: &str) -> usize {
        let opening = self.opening.iter().filter(|(of, _)| *of == key).count();
        let in_use = self.in_use.iter().filter(|(of, _)| *of == key).count();
        opening + in_use + self.idle.iter().filter(|(of, ..)| *of == key).count()
    }

    fn step(&mut self, step: Step) {
        let pick = |choice: usize, length: usize| (length > 0).then(|| choice % length.max(1));
        match step {
            Step::Acquire { key, is_new_wanted, wait_ms } => {
                self.acquire(KEYS[key], is_new_wanted, wait_ms);
            }
            Step::Cancel { choice } => {
                let Some(at) = pick(choice, self.waiting.len()) else { return };
                let Waiting { waiter, key, .. } = self.waiting.remove(at);
                self.pool.cancel(&key, waiter);
                self.end(waiter, "cancelled");
            }
            Step::Opened { choice } => {
                let Some(at) = pick(choice, self.opening.len()) else { return };
                let (key, _) = self.opening.remove(at);
                let connection = self.id();
                self.in_use.push((key, connection));
                self.pool.opened(&key, connection);
            }
            Step::NotOpened { choice } => {
                let Some(at) = pick(choice, self.opening.len()) else { return };
                let (key, _) = self.opening.remove(at);
                self.pool.not_opened(&key, self.now_ms);
            }
            Step::Release { choice } => {
                let Some(at) = pick(choice, self.in_use.len()) else { return };
                let (key, connection) = self.in_use.remove(at);
                self.idle.push((key, connection, self.now_ms));
                self.pool.release(&key, connection, self.now_ms);
            }
            Step::ClosedInUse { choice } => {
                let Some(at) = pick(choice, self.in_use.len()) else { return };
                let (key, connection) = self.in_use.remove(at);
                self.pool.closed(&key, connection, self.now_ms);
            }
            Step::ClosedIdle { choice } => {
                let Some(at) = pick(choice, self.idle.len()) else { return };
                let (key, connection, _) = self.idle.remove(at);
                self.pool.closed(&key, connection, self.now_ms);
            }
            Step::Pass { ms } => {
                self.now_ms += ms;
                self.pool.tick(self.now_ms);
            }
            Step::PassUnnoticed { ms } => self.now_ms += ms,
            Step::CloseIdle => self.pool.close_idle(),
        }
        self.take_actions();
        self.check();
        if matches!(step, Step::Pass { .. }) {
            let now_ms = self.now_ms;
            assert!(self.waiting.iter().all(|waiting| waiting.deadline_ms > now_ms));
            let timeout_ms = self.settings.idle_timeout_ms;
            assert!(self.idle.iter().all(|(_, _, since_ms)| since_ms + timeout_ms > now_ms));
        }
    }

    fn acquire(&mut self, key: &'static str, is_new_wanted: bool, wait_ms: u64) {
        let waiter = self.id();
        let deadline_ms = self.now_ms + wait_ms;
        self.waiting.push(Waiting { waiter, key, is_new_wanted, deadline_ms });
        let reuse = if is_new_wanted { Reuse::Refused } else { Reuse::Allowed };
        self.pool.limit(&key, self.limits(key));
        let result = self.pool.acquire(&key, waiter, reuse, deadline_ms, self.now_ms);
        self.take_actions();
        let waiting = self.waiting.iter().filter(|waiting| waiting.key == key).count();
        if result.is_err() {
            assert_eq!(waiting, self.settings.waiters_per_key_max + 1, "only if it is full");
            self.waiting.retain(|waiting| waiting.waiter != waiter);
            self.end(waiter, "refused");
        } else {
            assert!(waiting <= self.settings.waiters_per_key_max);
        }
    }

    fn take_actions(&mut self) {
        while let Some(action) = self.pool.next_action() {
            match action {
                PoolAction::Open(waiter) => {
                    let Waiting { key, .. } = self.serve(waiter);
                    self.opening.push((key, waiter));
                    self.end(waiter, "opens");
                }
                PoolAction::Assign { waiter, connection } => {
                    let Waiting { key, is_new_wanted, .. } = self.serve(waiter);
                    assert!(!is_new_wanted, "{waiter} wants a new connection");
                    let last = self.idle.iter().rposition(|(of, ..)| *of == key);
                    let (_, last, since_ms) = self.idle.remove(last.expect("an unused connection"));
                    assert_eq!(connection, last, "the one that was released last");
                    assert!(since_ms + self.settings.idle_timeout_ms > self.now_ms, "in its time");
                    self.in_use.push((key, connection));
                    self.end(waiter, "has a connection");
                }
                PoolAction::Close(connection) => {
                    let at = self.idle.iter().position(|(_, idle, _)| *idle == connection);
                    self.idle.remove(at.expect("only unused connections are closed"));
                }
                PoolAction::TimedOut(waiter) => {
                    let at = self.waiting.iter().position(|waiting| waiting.waiter == waiter);
                    let waiting = self.waiting.remove(at.expect("it has waited"));
                    assert!(waiting.deadline_ms <= self.now_ms);
                    self.end(waiter, "has waited too long");
                }
            }
        }
    }

    /// Takes a request that gets a connection: the first of its key.
    fn serve(&mut self, waiter: u32) -> Waiting {
        let at = self.waiting.iter().position(|waiting| waiting.waiter == waiter);
        let served = self.waiting.remove(at.expect("it has waited"));
        assert!(served.deadline_ms > self.now_ms, "in its time");
        let is_before = |other: &&Waiting| other.key == served.key && other.waiter < waiter;
        assert!(!self.waiting.iter().any(|other| is_before(&other)), "the first of its key");
        served
    }

    /// Checks the rules that hold after each step.
    fn check(&self) {
        let all = self.opening.len() + self.in_use.len() + self.idle.len();
        assert!(all <= self.settings.connections_max);
        assert_eq!((self.pool.connections(), self.pool.waiting()), (all, self.waiting.len()));
        for key in KEYS {
            let count = self.count(key);
            assert!(count <= self.connections_max(key));
            let idle = self.idle.iter().filter(|(of, ..)| *of == key).count();
            assert!(idle <= self.limits(key).idle_max);
            if !self.waiting.iter().any(|waiting| waiting.key == key) {
                continue;
            }
            // A request waits only if there is really nothing for it.
            assert!(!self.idle.iter().any(|(of, ..)| *of == key), "an unused connection");
            let is_key_full = count == self.connections_max(key);
            let is_all_full = all == self.settings.connections_max && self.idle.is_empty();
            assert!(is_key_full || is_all_full, "room for a connection of {key}");
        }
    }

    /// Ends everything that is open. Then no request may be left.
    fn finish(mut self) {
        while !self.opening.is_empty() || !self.in_use.is_empty() {
            self.step(Step::Opened { choice: 0 });
            self.step(Step::Release { choice: 0 });
        }
        assert!(self.waiting.is_empty(), "{:?}", self.waiting);
        self.step(Step::CloseIdle);
        assert!(self.pool.keys.is_empty() && self.pool.deadlines.is_empty());
    }
}

proptest! {
    /// Never more connections than allowed, for all, for each key and for this one, no request is
    /// lost or served twice, no connection is used twice at a time, the order is kept, and no
    /// request waits without need.
    #[test]
    fn requests_share_connections(
        steps in vec(step(), 0..120),
        per_key in 1_usize..4, all in 1_usize..6, waiters in 0_usize..5,
        connections_max in 1_usize..4, idle_max in 0_usize..3,
    ) {
        let limits = [KeyLimits::NONE, KeyLimits { connections_max, idle_max }, KeyLimits::NONE];
        let mut run = Run::new(settings(per_key, all, waiters), limits);
        for step in steps {
            run.step(step);
        }
        run.finish();
    }
}

//! Work that belongs to no exchange: timers of the application itself, messages to it, and messages
//! from one exchange to another.

use std::collections::BTreeMap;

use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Message};
use pinion_engine::backend::sim::{Connect, Faults, Network};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_engine::settings::WorkerSettings;
use pinion_engine::stepped_worker::{Holdings, Stepped};
use pinion_http::prepared_response::{Prepared, PreparedBody};

use crate::scenario::settings_of_listeners;

/// The worker of a simulation.
const WORKER: u16 = 0;

/// Timers of an application, and exchanges that wait for it.
pub(crate) struct Chores {
    poster: Poster,
    /// Exchanges by the time when their alarm is due, in milliseconds, and a unique number.
    alarms: BTreeMap<(u64, u64), Address>,
    /// Alarms set so far.
    set: u64,
}

impl Chores {
    pub(crate) fn new(poster: Poster) -> Self {
        Self { poster, alarms: BTreeMap::new(), set: 0 }
    }

    /// Wakes an exchange at a time, in milliseconds.
    pub(crate) fn wake_at(&mut self, at_ms: u64, to: Address) {
        self.set += 1;
        self.alarms.insert((at_ms, self.set), to);
    }

    /// Wakes an exchange by way of a message to the application.
    pub(crate) fn wake_soon(&self, to: Address) {
        self.poster.post_to_app(WORKER, Box::new(to)).expect("room in the inbox");
    }

    /// Handles that message in the application.
    pub(crate) fn posted(&self, message: &Message) {
        let to = *message.downcast_ref::<Address>().expect("an address");
        self.wake(to);
    }

    pub(crate) fn alarm_ms(&self) -> Option<u64> {
        self.alarms.keys().next().map(|(at_ms, _)| *at_ms)
    }

    /// Wakes the exchanges whose alarms are due.
    pub(crate) fn pass(&mut self, now_ms: u64) {
        let later = self.alarms.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut self.alarms, later);
        due.values().for_each(|to| self.wake(*to));
    }

    fn wake(&self, to: Address) {
        self.poster.post(to, Box::new(to)).expect("room in the inbox");
    }
}

/// An application that records its events.
struct Diary {
    poster: Poster,
    alarms_ms: Vec<u64>,
    waiting: Vec<Address>,
    /// The times of the calls while an alarm was due, in milliseconds.
    heard_ms: Vec<u64>,
    messages: Vec<&'static str>,
    passes: u32,
}

impl Diary {
    fn new(poster: Poster) -> Self {
        let (alarms_ms, waiting) = (Vec::new(), Vec::new());
        Self { poster, alarms_ms, waiting, heard_ms: Vec::new(), messages: Vec::new(), passes: 0 }
    }
}

impl App for Diary {
    /// `/a` waits until a request for `/b` arrives.
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        let body = match event {
            Event::Head(head) if head.target.path == b"/a" => {
                self.waiting.push(exchange.address());
                return exchange.wait(None);
            }
            Event::Head(_) => {
                for to in self.waiting.drain(..) {
                    self.poster.post(to, Box::new("b was here")).expect("room in the inbox");
                }
                &b"b"[..]
            }
            Event::Posted(message) => match message.downcast_ref::<&str>() {
                Some(text) => text.as_bytes(),
                None => b"something else",
            },
            _ => return,
        };
        let body = PreparedBody::Bytes(body);
        exchange.prepared(&Prepared { body, ..Prepared::empty(200) }, None);
    }

    fn byte_stream_event(&mut self, _: ByteStreamEvent<'_>, _: &mut ByteStreamHandle<'_>) {}

    fn pass(&mut self, connections: &mut Connections<'_>) {
        let now = connections.now();
        self.passes += 1;
        let due = |at_ms: &u64| *at_ms <= now.monotonic_ms;
        if self.alarms_ms.iter().any(due) {
            self.heard_ms.push(now.monotonic_ms);
            self.alarms_ms.retain(|at_ms| !due(at_ms));
        }
    }

    fn alarm_ms(&self) -> Option<u64> {
        self.alarms_ms.iter().copied().min()
    }

    fn posted(&mut self, message: Message, _: &mut Connections<'_>) {
        self.messages.push(message.downcast_ref::<&str>().expect("a text"));
        if self.messages.len() == 1 {
            self.poster.post_to_app(WORKER, Box::new("from inside")).expect("room in the inbox");
        }
    }
}

fn diary<const READINESS: bool>() -> (Network, Stepped<READINESS, Diary>) {
    let settings: WorkerSettings = settings_of_listeners();
    let network = Network::new(1, Faults::default(), settings.listeners.len());
    (network.clone(), Stepped::new(network, settings, Diary::new))
}

/// Without any connection the worker sleeps exactly until the alarm.
fn alarms_are_heard_in_time<const READINESS: bool>() {
    let (network, mut worker) = diary::<READINESS>();
    worker.pass().expect("a pass");
    let now_ms = network.now().monotonic_ms;
    let alarms_ms = [now_ms + 3_600_000, now_ms + 1, now_ms + 70_000, now_ms + 70_001];
    worker.app().alarms_ms = alarms_ms.to_vec();
    worker.app().passes = 0;
    while !worker.app().alarms_ms.is_empty() {
        worker.pass().expect("a pass");
        assert!(!network.is_stuck(), "nothing wakes it");
    }
    let mut sorted_ms = alarms_ms;
    sorted_ms.sort_unstable();
    assert_eq!(worker.app().heard_ms, sorted_ms);
    assert_eq!(worker.app().passes, 4, "it sleeps in between");
}

#[test]
fn an_alarm_wakes_a_worker_that_has_no_connection() {
    alarms_are_heard_in_time::<true>();
    alarms_are_heard_in_time::<false>();
}

fn messages_reach_the_application<const READINESS: bool>() {
    let (network, mut worker) = diary::<READINESS>();
    let poster = worker.app().poster.clone();
    assert_eq!(poster.workers(), 1);
    assert!(poster.post_to_app(1, Box::new("nobody")).is_err());
    poster.post_to_app(WORKER, Box::new("from outside")).expect("room in the inbox");
    for _ in 0..4 {
        network.act_at(Some(network.now().monotonic_ms));
        worker.pass().expect("a pass");
    }
    assert_eq!(worker.app().messages, ["from outside", "from inside"]);
    assert_eq!(worker.holdings(), Holdings::default());
}

#[test]
fn an_application_gets_messages_without_an_exchange() {
    messages_reach_the_application::<true>();
    messages_reach_the_application::<false>();
}

fn one_wakes_the_other<const READINESS: bool>() {
    let (network, mut worker) = diary::<READINESS>();
    let connect = Connect { listener: 0, window_bytes: 3000, local: false, protected: false };
    let [a, b] = [connect; 2].map(|connect| network.connect(connect));
    let ask = |worker: &mut Stepped<READINESS, Diary>, client, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(network.send(client, request.as_bytes()), request.len());
        for _ in 0..20 {
            network.act_at(Some(network.now().monotonic_ms));
            worker.pass().expect("a pass");
        }
    };
    let heard = |client| {
        let mut response = Vec::new();
        network.read(client, usize::MAX, &mut response);
        String::from_utf8(response).expect("text")
    };
    ask(&mut worker, a, "/a");
    assert_eq!(heard(a), "");
    ask(&mut worker, b, "/b");
    assert!(heard(a).ends_with("\r\n\r\nb was here"));
    assert!(heard(b).ends_with("\r\n\r\nb"));
}

#[test]
fn an_exchange_wakes_another_of_its_worker() {
    one_wakes_the_other::<true>();
    one_wakes_the_other::<false>();
}

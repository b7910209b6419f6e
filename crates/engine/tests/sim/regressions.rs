//! Errors that the simulator has found, each with its shortest scenario, for both forms of the
//! backend.

use pinion_engine::backend::sim::{Client, Connect, Faults, Network, Random};
use pinion_engine::limits::{
    ACCEPT_PAUSE_MS, BODY_TIMEOUT_MS, IDLE_TIMEOUT_MS, LINGER_CONTENT_MS, LINGER_MAX_MS,
    RELIEF_STALL_MS, SEND_STALL_MS,
};
use pinion_engine::settings::WorkerSettings;
use pinion_engine::stepped_worker::Stepped;

use crate::client::{Drip, Ending, Pace, Plan};
use crate::handlers::Handlers;
use crate::outcome;
use crate::request_model::{Body, CLOSE, Kind, Request, Response, Version, page, pattern};
use crate::response_comparison::{Allowed, Reader};
use crate::run;
use crate::scenario::{SET_MAX_MS, Scenario, settings_of_listeners};

/// The most bytes that a lingering connection reads in a pass.
const LINGER_TURN_MAX_BYTES: usize = 64 * 1024;

const AT_ONCE: Pace = Pace { send_bytes: usize::MAX, read_bytes: usize::MAX, gap_ms: 0 };

fn request(kind: Kind, size: u64, content: usize) -> Request {
    Request {
        kind,
        id: 3,
        size,
        head_only: false,
        version: Version::Stays,
        content: pattern(4, content),
        chunks: None,
        expects: false,
    }
}

/// Returns the plan of a client that sends `requests` at once.
fn plan(requests: &[Request], window_bytes: usize, ending: Ending) -> Plan {
    let settings = settings_of_listeners();
    let (mut wire, mut ends, mut responses) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, request) in (1..).zip(requests) {
        let (head, content) = request.wire();
        wire.extend([head, content].concat());
        ends.push(wire.len());
        responses.push(request.response(nth, &settings));
    }
    Plan {
        connect: Connect { listener: 0, window_bytes, local: false, protected: false },
        starts_after_ms: 0,
        wire,
        ends,
        in_turn: false,
        pace: AT_ONCE,
        ending,
        drip: None,
        closed_within_ms: None,
        reader: Reader::new(responses, Allowed::default()),
    }
}

/// Runs a story with many seeds; all laws hold.
fn run_story(faults: &Faults, plans: impl Fn() -> Vec<Plan>) {
    run_story_with_seeds(30, faults, plans);
}

fn run_story_with_seeds(times: u64, faults: &Faults, plans: impl Fn() -> Vec<Plan>) {
    for readiness in [true, false] {
        for seed in 0..times {
            let scenario = Scenario::story(readiness, faults.clone(), plans());
            outcome(|| run::run(scenario, &mut Random::new(seed)))
                .unwrap_or_else(|why| panic!("readiness {readiness}, chance {seed}: {why}"));
        }
    }
}

/// Returns faults by which events come late, so that the end of a client overtakes its requests.
fn late() -> Faults {
    Faults { late: 500, late_ms: 30, short: 300, ..Faults::default() }
}

#[test]
fn a_stream_is_notified_of_an_end_before_its_upgrade() {
    run_story(&late(), || {
        let requests = [request(Kind::Posted, 0, 0), request(Kind::Upgrade, 0, 900)];
        vec![plan(&requests, 3000, Ending::HalfCloses)]
    });
}

#[test]
fn a_stream_gets_its_end_after_the_last_byte() {
    run_story(&late(), || {
        let requests = [request(Kind::Upgrade, 0, 9000)];
        vec![plan(&requests, 100, Ending::HalfCloses)]
    });
}

#[test]
fn received_content_is_used_although_the_client_has_ended() {
    run_story(&late(), || {
        let requests = [request(Kind::Sip, 0, 5000), request(Kind::Small, 10, 0)];
        vec![plan(&requests, 3000, Ending::HalfCloses)]
    });
}

#[test]
fn a_stream_that_the_client_does_not_read_times_out() {
    run_story(&Faults::default(), || {
        let requests = [request(Kind::Fill, 100_000, 0)];
        vec![plan(&requests, 500, Ending::StopsReading { after_bytes: 100 })]
    });
}

#[test]
fn a_large_response_may_take_longer_than_an_idle_connection_lives() {
    run_story(&Faults::default(), || {
        let mut slow = plan(&[request(Kind::Mapped, 200_000, 0)], 3000, Ending::Leaves);
        slow.pace = Pace { send_bytes: usize::MAX, read_bytes: 1000, gap_ms: 2000 };
        vec![slow]
    });
}

#[test]
fn a_slow_reader_on_a_unix_socket_does_not_time_out() {
    run_story(&Faults::default(), || {
        // It takes minutes until the output queue has space again.
        let mut slow = plan(&[request(Kind::Mapped, 200_000, 0)], 64_000, Ending::Leaves);
        slow.connect.local = true;
        slow.pace = Pace { send_bytes: usize::MAX, read_bytes: 2000, gap_ms: 20_000 };
        vec![slow]
    });
}

#[test]
fn an_exchange_that_is_refused_in_the_middle_ends_once() {
    run_story(&late(), || {
        let mut echo = request(Kind::Echo, 0, 300);
        echo.chunks = Some(vec![300]);
        let mut plan = plan(&[echo], 3000, Ending::Stays);
        let last_chunk = plan.wire.len() - b"0\r\nDropped: yes\r\n\r\n".len();
        plan.wire.truncate(last_chunk);
        plan.wire.extend_from_slice(b"no chunk\r\n");
        plan.ends = vec![plan.wire.len()];
        // The head is sent already when the error occurs, so the response must end early.
        let start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n".to_vec();
        let body = Body::BrokenChunks(pattern(4, 300));
        let response = Response { start, connection: Vec::new(), body, closes: true };
        plan.reader = Reader::new(vec![response], Allowed::default());
        vec![plan]
    });
}

#[test]
fn a_cancelled_handler_deadline_does_not_end_the_send() {
    run_story(&Faults::default(), || {
        // The handler of the second request sets a deadline and responds before it; the responses
        // wait for a client that reads now and then.
        let requests = [request(Kind::Fill, 3000, 0), request(Kind::Posted, 0, 0)];
        let mut slow = plan(&requests, 700, Ending::Leaves);
        slow.pace = Pace { send_bytes: usize::MAX, read_bytes: 700, gap_ms: 20_000 };
        vec![slow]
    });
}

#[test]
fn lingering_delivers_a_refusal() {
    run_story(&late(), || {
        let mut plan = plan(&[], 3000, Ending::Stays);
        plan.wire = [&b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"[..], &[b'x'; 20_000]].concat();
        plan.ends = vec![plan.wire.len()];
        plan.pace = Pace { send_bytes: 1500, read_bytes: usize::MAX, gap_ms: 10 };
        let response = page(400);
        assert_eq!(response.connection, CLOSE);
        plan.reader = Reader::new(vec![response], Allowed::default());
        vec![plan]
    });
}

#[test]
fn lingering_waits_for_a_client_that_pauses() {
    run_story(&late(), || {
        let mut plan = plan(&[], 3000, Ending::Stays);
        plan.wire = [&b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"[..], &[b'x'; 20_000]].concat();
        plan.ends = vec![plan.wire.len()];
        plan.pace = Pace { send_bytes: 1500, read_bytes: usize::MAX, gap_ms: 20_000 };
        plan.reader = Reader::new(vec![page(400)], Allowed::default());
        vec![plan]
    });
}

#[test]
fn pipelined_requests_wait_for_a_slow_reader() {
    run_story_with_seeds(2, &Faults::default(), || {
        let requests = vec![request(Kind::Small, 1, 0); 20_000];
        let mut flood = plan(&requests, 3000, Ending::Leaves);
        flood.pace = Pace { send_bytes: usize::MAX, read_bytes: 3000, gap_ms: 0 };
        vec![flood]
    });
}

/// Returns the plan of a client that is never silent and never stops at the end of a request: it
/// sends this many bytes of each at a time, beginning in the middle.
fn without_pause(kind: Kind, content: usize, requests: usize) -> Plan {
    let mut all = vec![request(kind, 1, content); requests];
    // The first request is longer than the others, so that no part ends where a request does.
    all[0].id = 3_000_000_000;
    let mut plan = plan(&all, 64_000, Ending::Leaves);
    let bytes = plan.ends[1] - plan.ends[0];
    plan.pace = Pace { send_bytes: bytes, read_bytes: usize::MAX, gap_ms: 400 };
    plan
}

#[test]
fn every_head_has_its_full_time() {
    run_story_with_seeds(3, &Faults::default(), || vec![without_pause(Kind::Small, 0, 200)]);
}

#[test]
fn unwanted_content_has_its_full_time() {
    run_story_with_seeds(3, &Faults::default(), || vec![without_pause(Kind::Unread, 300, 300)]);
}

#[test]
fn a_dripping_head_times_out() {
    run_story_with_seeds(3, &Faults::default(), || {
        let mut plan = plan(&[request(Kind::Small, 1, 0)], 3000, Ending::Stays);
        let line = b"X-Drip: a line that takes its time\r\n".repeat(30);
        let at = plan.wire.len() - b"\r\n".len();
        plan.wire.splice(at..at, line);
        plan.ends = vec![plan.wire.len()];
        // With one byte each 25 ms, the whole would take more than 20 s.
        plan.pace = Pace { send_bytes: 1, read_bytes: usize::MAX, gap_ms: 50 };
        plan.reader = Reader::new(vec![page(408)], Allowed::default());
        vec![plan]
    });
}

#[test]
fn lingering_ends_although_the_peer_continues() {
    run_story_with_seeds(3, &Faults::default(), || {
        // A client that reads would see the end of the response, and disconnect.
        let mut plan = plan(&[], 3000, Ending::StopsReading { after_bytes: 0 });
        plan.wire = [&b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"[..], &[b'x'; 20_000]].concat();
        plan.ends = vec![plan.wire.len()];
        // The head is sent at once, the rest in more than five minutes.
        plan.pace = Pace { send_bytes: 28, read_bytes: usize::MAX, gap_ms: 1000 };
        plan.closed_within_ms = Some(LINGER_MAX_MS);
        vec![plan]
    });
}

/// For any amount of arriving content, others get their turn after as much content as of an upload
/// that is read.
#[test]
fn lingering_does_not_monopolise_a_pass() {
    fn dropped_in_a_pass<const READINESS: bool>() {
        let network = Network::new(1, Faults::default(), 2);
        let (mapping, file) = run::mapping();
        let make_app = |poster| Handlers::new(poster, mapping, file);
        let settings = settings_of_listeners();
        let mut worker = Stepped::<READINESS, _>::new(network.clone(), settings, make_app);
        let connect = Connect { listener: 0, window_bytes: 400_000, local: false, protected: true };
        let client = network.connect(connect);
        // Its response is sent at once, and the connection ends with it.
        let (head, content) = request(Kind::Unread, 10, 2 << 20).wire();
        let mut response = Vec::new();
        assert_eq!(network.send(client, &head), head.len());
        let mut pass = || {
            network.act_at(Some(network.now().monotonic_ms));
            worker.pass().expect("a pass");
        };
        while response.is_empty() {
            pass();
            network.read(client, usize::MAX, &mut response);
        }
        network.send(client, &content);
        let dropped: Vec<usize> = (0..50)
            .map(|_| {
                pass();
                // The kernel has space again for as many bytes as the worker has read.
                network.send(client, &content)
            })
            .collect();
        let most = dropped.iter().max().expect("passes");
        assert!((1..=LINGER_TURN_MAX_BYTES).contains(most), "{dropped:?}");
    }
    dropped_in_a_pass::<true>();
    dropped_in_a_pass::<false>();
}

/// A worker with few permits, and its clients.
struct Crowd<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, Handlers>,
}

impl<const READINESS: bool> Crowd<READINESS> {
    const PERMITS: usize = 64;

    fn new() -> Self {
        let network = Network::new(1, Faults::default(), 2);
        let (mapping, file) = run::mapping();
        let make_app = |poster| Handlers::new(poster, mapping, file);
        let settings = WorkerSettings { connections: Self::PERMITS, ..settings_of_listeners() };
        let worker = Stepped::new(network.clone(), settings, make_app);
        Self { network, worker }
    }

    fn connect(&mut self, kind: Kind, content: usize) -> Client {
        let connect = Connect { listener: 0, window_bytes: 9000, local: false, protected: true };
        let client = self.network.connect(connect);
        self.ask(client, kind, content);
        client
    }

    /// Lets a client send a request and read the response. No content is sent.
    fn ask(&mut self, client: Client, kind: Kind, content: usize) {
        let (head, _) = request(kind, 10, content).wire();
        assert_eq!(self.network.send(client, &head), head.len());
        let mut response = Vec::new();
        for _ in 0..50 {
            self.network.act_at(Some(self.network.now().monotonic_ms));
            self.worker.pass().expect("a pass");
            self.network.read(client, usize::MAX, &mut response);
        }
        assert!(response.starts_with(b"HTTP/1.1 200 "), "{}", response.escape_ascii());
    }

    fn is_closed(&self, client: Client) -> bool {
        self.network.facts(client).closed_at_ms.is_some()
    }
}

/// When permits run short, lingering connections are closed before any that a client could still
/// use.
#[test]
fn lingering_connections_are_closed_first_when_permits_run_short() {
    const LINGERING: usize = 12;
    const IDLE: usize = 44;
    fn closed_for_others<const READINESS: bool>() {
        let mut crowd = Crowd::<READINESS>::new();
        let lingering = [(); LINGERING].map(|()| crowd.connect(Kind::Unread, 2 << 20));
        let idle = [(); IDLE].map(|()| crowd.connect(Kind::Small, 0));
        // Until then their clients may still read the sent bytes.
        crowd.network.hold_up(2 * RELIEF_STALL_MS);
        for _ in LINGERING + IDLE..Crowd::<READINESS>::PERMITS {
            crowd.connect(Kind::Small, 0);
        }
        let closed = lingering.into_iter().filter(|&client| crowd.is_closed(client)).count();
        assert!(closed > 0, "permits are short");
        assert_eq!(idle.into_iter().filter(|&client| crowd.is_closed(client)).count(), 0);
    }
    closed_for_others::<true>();
    closed_for_others::<false>();
}

/// Idle connections are closed in the order in which they have become idle, whenever they were
/// opened.
#[test]
fn connections_that_are_idle_longest_are_closed_first() {
    const USED_AGAIN: usize = 20;
    fn closed_in_order<const READINESS: bool>() {
        let mut crowd = Crowd::<READINESS>::new();
        // One permit in 16 is kept for new connections, and so far none was closed for others.
        let idle: Vec<Client> = (0..Crowd::<READINESS>::PERMITS - 4)
            .map(|_| {
                crowd.network.hold_up(50);
                crowd.connect(Kind::Small, 0)
            })
            .collect();
        assert!(!idle.iter().any(|&client| crowd.is_closed(client)));
        let (used_again, others) = idle.split_at(USED_AGAIN);
        for &client in used_again {
            crowd.network.hold_up(50);
            crowd.ask(client, Kind::Small, 0);
        }
        let in_order: Vec<Client> = others.iter().chain(used_again).copied().collect();
        let mut closed = 0;
        for _ in 0..others.len() {
            crowd.network.hold_up(50);
            crowd.connect(Kind::Small, 0);
            let now = in_order.iter().take_while(|&&client| crowd.is_closed(client)).count();
            let all = in_order.iter().filter(|&&client| crowd.is_closed(client)).count();
            assert_eq!(all, now, "one was closed before another that has been idle longer");
            closed = now;
        }
        assert!((10..=others.len()).contains(&closed), "{closed} were closed");
        assert!(!used_again.iter().any(|&client| crowd.is_closed(client)));
    }
    closed_in_order::<true>();
    closed_in_order::<false>();
}

/// A byte arrives just before each deadline, for five minutes.
#[test]
fn lingering_ends_although_a_byte_comes_now_and_then() {
    const GAP_MS: u64 = LINGER_CONTENT_MS - 1000;
    run_story_with_seeds(3, &Faults::default(), || {
        let upload = request(Kind::Unread, 10, 2 << 20);
        let (head, _) = upload.wire();
        let mut plan = plan(&[upload], 3000, Ending::StopsReading { after_bytes: 0 });
        plan.drip = Some(Drip { from: head.len(), gap_ms: GAP_MS });
        plan.closed_within_ms = Some(LINGER_MAX_MS);
        vec![plan]
    });
}

#[test]
fn dripping_unwanted_content_times_out() {
    run_story_with_seeds(3, &Faults::default(), || {
        let mut plan = plan(&[request(Kind::Unread, 10, 9000)], 3000, Ending::Stays);
        // The head is sent at once, the rest in more than eight minutes.
        plan.pace = Pace { send_bytes: 8, read_bytes: usize::MAX, gap_ms: 1000 };
        plan.closed_within_ms = Some(BODY_TIMEOUT_MS + LINGER_MAX_MS);
        vec![plan]
    });
}

#[test]
fn dripping_content_does_not_extend_the_send_deadline() {
    run_story_with_seeds(3, &Faults::default(), || {
        let ending = Ending::StopsReading { after_bytes: 100 };
        let mut plan = plan(&[request(Kind::Unread, 3000, 20_000)], 500, ending);
        plan.pace = Pace { send_bytes: 80, read_bytes: usize::MAX, gap_ms: 1000 };
        // The acknowledged bytes are checked once in that time.
        plan.closed_within_ms = Some(2 * SEND_STALL_MS);
        vec![plan]
    });
}

#[test]
fn waking_a_handler_does_not_extend_the_deadline_of_its_client() {
    run_story_with_seeds(3, &Faults::default(), || {
        let mut plan = plan(&[request(Kind::Nagged, 0, 900)], 3000, Ending::Stays);
        plan.wire.truncate(plan.wire.len() - 100);
        plan.ends = vec![plan.wire.len()];
        plan.reader = Reader::new(vec![page(408)], Allowed::default());
        vec![plan]
    });
}

#[test]
fn a_client_that_never_reads_times_out() {
    for readiness in [true, false] {
        // One request about every ten seconds, for ten minutes; the first responses fill the
        // window.
        let requests = vec![request(Kind::Small, 600, 0); 60];
        let mut plan = plan(&requests, 1000, Ending::StopsReading { after_bytes: 100 });
        plan.pace = Pace { send_bytes: plan.ends[0], read_bytes: usize::MAX, gap_ms: 20_000 };
        let scenario = Scenario::story(readiness, Faults::default(), vec![plan]);
        let summary = outcome(|| run::run(scenario, &mut Random::new(1))).expect("all laws hold");
        // The thirty seconds of a stalled send are enough for a few requests.
        assert!(summary.operations < 40, "{} operations", summary.operations);
    }
}

#[test]
fn too_much_content_does_not_withdraw_a_response() {
    run_story_with_seeds(5, &late(), || {
        let mut unread = request(Kind::Unread, 10, 1_200_000);
        unread.chunks = Some(vec![60_000; 20]);
        let mut plan = plan(&[unread.clone()], 3000, Ending::Stays);
        let response = unread.response(1, &settings_of_listeners());
        let response = Response { closes: true, ..response };
        plan.reader = Reader::new(vec![response], Allowed::default());
        vec![plan]
    });
}

/// The backend checks this: a client whose window never fills gets no more than its turn.
#[test]
fn a_stream_to_a_fast_reader_does_not_monopolise_a_pass() {
    run_story_with_seeds(2, &Faults::default(), || {
        vec![plan(&[request(Kind::Fill, 8_000_000, 0)], 16_000_000, Ending::Leaves)]
    });
}

#[test]
fn large_responses_to_a_fast_reader_do_not_monopolise_a_pass() {
    run_story_with_seeds(2, &Faults::default(), || {
        vec![plan(&vec![request(Kind::Mapped, 200_000, 0); 50], 16_000_000, Ending::Leaves)]
    });
}

/// The handlers check this.
#[test]
fn many_messages_do_not_monopolise_a_pass() {
    run_story(&Faults::default(), || {
        let plain = || plan(&[request(Kind::Small, 10, 0)], 3000, Ending::Leaves);
        vec![plain(), plan(&[request(Kind::Showered, 0, 0)], 3000, Ending::Leaves), plain()]
    });
}

#[test]
fn dates_follow_a_wall_clock_that_is_set_either_way() {
    run_story(&Faults { set: 500, set_ms: SET_MAX_MS, ..late() }, || {
        let mut slow = plan(&vec![request(Kind::Small, 10, 0); 10], 3000, Ending::Leaves);
        slow.in_turn = true;
        slow.pace = Pace { send_bytes: usize::MAX, read_bytes: usize::MAX, gap_ms: 3000 };
        vec![slow, plan(&[request(Kind::Deadline, 2500, 0)], 3000, Ending::Leaves)]
    });
}

#[test]
fn sends_that_find_no_memory_are_tried_again() {
    let faults = Faults { shortage: 700, ..late() };
    run_story(&faults, || {
        let requests = [Kind::Small, Kind::Mapped, Kind::Fill].map(|kind| request(kind, 50_000, 0));
        vec![plan(&requests, 20_000, Ending::Leaves), plan(&requests, 3000, Ending::HalfCloses)]
    });
}

#[test]
fn a_permanent_lack_of_memory_is_a_stalled_send() {
    let faults = Faults { shortage: 1000, ..Faults::default() };
    run_story(&faults, || {
        let mut plan =
            plan(&[request(Kind::Small, 10, 0)], 3000, Ending::StopsReading { after_bytes: 0 });
        plan.closed_within_ms = Some(2 * SEND_STALL_MS);
        vec![plan]
    });
}

/// A client that disconnects before it is accepted does not delay those after it; if the system
/// lacks a resource they wait for a moment.
#[test]
fn a_client_gone_before_the_accept_does_not_delay_others() {
    let (mut gone, mut held_up) = (0, 0);
    for seed in 0..60 {
        let faults = Faults { fail_at: Some(1), ..Faults::default() };
        let network = Network::new(seed, faults, 2);
        let (mapping, file) = run::mapping();
        let make_app = |poster| Handlers::new(poster, mapping, file);
        let settings = settings_of_listeners();
        let mut worker = Stepped::<true, _>::new(network.clone(), settings, make_app);
        let connect = Connect { listener: 0, window_bytes: 1, local: false, protected: false };
        let clients = [network.connect(connect), network.connect(connect)];
        let start_ms = network.now().monotonic_ms;
        let [first, second] = loop {
            network.act_at(None);
            worker.pass().expect("a pass");
            let facts = clients.map(|client| network.facts(client));
            if facts[1].attached_at_ms.is_some() {
                break facts;
            }
        };
        let waited_ms = second.attached_at_ms.unwrap_or(0) - start_ms;
        if first.hurt {
            gone += 1;
            assert!(waited_ms < 10, "{waited_ms} ms for somebody else's error");
        } else if waited_ms >= ACCEPT_PAUSE_MS {
            held_up += 1;
        }
    }
    assert!(gone > 10 && held_up > 10, "{gone} were gone, {held_up} times something lacked");
}

/// A worker that was stopped for longer than any deadline finds the requests of all clients at
/// once, and more of them than one wait returns. No client is disconnected, because the delay was
/// that of the worker.
#[test]
fn no_client_times_out_because_of_a_delayed_worker() {
    fn held_up<const READINESS: bool>(seed: u64) {
        let faults = Faults { batch: 3, ..Faults::default() };
        let network = Network::new(seed, faults, 2);
        let (mapping, file) = run::mapping();
        let make_app = |poster| Handlers::new(poster, mapping, file);
        let settings = settings_of_listeners();
        let mut worker = Stepped::<READINESS, _>::new(network.clone(), settings, make_app);
        let connect = Connect { listener: 0, window_bytes: 3000, local: false, protected: false };
        let (head, content) = request(Kind::Sum, 0, 100).wire();
        let clients = [connect; 20].map(|connect| network.connect(connect));
        let pass = |worker: &mut Stepped<READINESS, _>, times: u32| {
            for _ in 0..times {
                // The clients will act next, so no pass waits.
                network.act_at(Some(network.now().monotonic_ms));
                worker.pass().expect("a pass");
            }
        };
        // Some are idle, some in the middle of a head or of content.
        pass(&mut worker, 30);
        let cuts = [0, 10, head.len(), head.len() + 50];
        for (client, cut) in clients.iter().zip(cuts.iter().cycle()) {
            network.send(*client, &[&head[..], &content].concat()[..*cut]);
        }
        pass(&mut worker, 30);
        for (client, cut) in clients.iter().zip(cuts.iter().cycle()) {
            network.send(*client, &[&head[..], &content].concat()[*cut..]);
        }
        network.hold_up(10 * IDLE_TIMEOUT_MS);
        pass(&mut worker, 60);
        for client in clients {
            let mut response = Vec::new();
            network.read(client, usize::MAX, &mut response);
            let facts = network.facts(client);
            assert!(response.starts_with(b"HTTP/1.1 200 "), "{client:?}: {facts:?}");
        }
    }
    for seed in 0..30 {
        held_up::<true>(seed);
        held_up::<false>(seed);
    }
}

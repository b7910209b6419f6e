//! Clients of HTTP/2 with one kind of behaviour each, while chance decides the order of events.

use pinion_engine::backend::sim::Faults;

use super::*;
use crate::outcome;
use crate::request_model::pattern;
use crate::run;
use crate::scenario::Scenario;

/// Milliseconds until an idle connection is closed: its last frames, and the time for further input
/// from the client.
const LAST_AND_LINGER_MS: u64 = 10_000;

/// Runs one client with many seeds; all laws hold.
fn run_story(times: u64, plan: impl Fn() -> Plan) {
    for readiness in [true, false] {
        for seed in 0..times {
            let mut scenario = Scenario::story(readiness, Faults::default(), Vec::new());
            scenario.multiplexing.push(plan());
            let asked = scenario.multiplexing[0].requests.len() as u64;
            let summary = outcome(|| run::run(scenario, &mut Random::new(seed)))
                .unwrap_or_else(|why| panic!("readiness {readiness}, chance {seed}: {why}"));
            assert_eq!(summary.multiplexed, asked, "readiness {readiness}, chance {seed}");
        }
    }
}

/// A client that goes silent is disconnected with ENHANCE_YOUR_CALM and counted, if content waits
/// for its windows, or the rest of its frame is missing. A client that owes nothing is no flood.
#[test]
fn clients_that_stall_a_stream_are_counted_as_floods() {
    let silent = |after_bytes, bytes| Plan {
        pace: Pace { send_bytes: 1, read_bytes: usize::MAX, gap_ms: 5 },
        ending: Ending::Freezes { after_bytes },
        ..plan(vec![get(Kind::Fill, 1, bytes)])
    };
    // The client goes silent within a request, with windows that are not opened any more, and with
    // nothing to send.
    for (after_bytes, bytes, floods) in [(60, 100, 1), (250, 50_000, 1), (100_000, 100, 0)] {
        for readiness in [true, false] {
            let mut scenario = Scenario::story(readiness, Faults::default(), Vec::new());
            scenario.multiplexing.push(silent(after_bytes, bytes));
            let summary = outcome(|| run::run(scenario, &mut Random::new(1)));
            let summary = summary.unwrap_or_else(|why| panic!("{after_bytes}: {why}"));
            assert_eq!(summary.floods, floods, "{after_bytes} over {readiness}");
        }
    }
}

/// Returns the common plan of the stories: the client sends all requests at once, reads at once,
/// and leaves.
fn plan(requests: Vec<Request>) -> Plan {
    Plan {
        starts_after_ms: 0,
        connect: Connect { listener: HTTP2, window_bytes: 64_000, local: false, protected: true },
        at_once: requests.len(),
        requests,
        content_after_ms: &[],
        content_gap_ms: None,
        manner: Manner { window_bytes: 1100, gives_back: false },
        drip_bytes: 3000,
        resets_per_mille: 0,
        pace: Pace { send_bytes: usize::MAX, read_bytes: usize::MAX, gap_ms: 5000 },
        ending: Ending::Leaves,
        closed_within_ms: None,
    }
}

fn get(kind: Kind, id: u64, size: u64) -> Request {
    Request {
        kind,
        id,
        size,
        head_only: false,
        version: Version::Stays,
        content: Vec::new(),
        chunks: None,
        expects: false,
    }
}

fn post(kind: Kind, id: u64, size: u64, bytes: usize) -> Request {
    Request { content: pattern(id, bytes), ..get(kind, id, size) }
}

/// The transfer takes some hours of simulated time, in which every deadline passes many times.
#[test]
fn ten_mebibytes_arrive_at_a_kibibyte_a_second() {
    const BYTES: u64 = 10 << 20;
    for (window_bytes, gives_back) in [(65_535, true), (2000, true), (2000, false)] {
        run_story(1, || Plan {
            manner: Manner { window_bytes, gives_back },
            drip_bytes: 2000,
            pace: Pace { send_bytes: usize::MAX, read_bytes: 700, gap_ms: 1000 },
            ..plan(vec![get(Kind::Fill, 1, BYTES), get(Kind::Small, 2, 100)])
        });
    }
}

/// An incomplete frame waits together with streams that wait for a window: the worker does not
/// spin, and everything continues when the rest arrives.
#[test]
fn an_incomplete_frame_beside_closed_windows_causes_no_work() {
    run_story(20, || Plan {
        pace: Pace { send_bytes: 1, read_bytes: usize::MAX, gap_ms: 5 },
        ending: Ending::Stays,
        ..plan(vec![get(Kind::Fill, 1, 50_000), get(Kind::Mapped, 2, 50_000)])
    });
}

/// Returns two concurrent requests with content, of which the first never arrives.
fn uploads(
    second: (Kind, u64, usize),
    content_after_ms: &'static [u64; 2],
    send_bytes: usize,
) -> Plan {
    let (kind, size, bytes) = second;
    Plan {
        content_after_ms,
        manner: Manner { window_bytes: 65_535, gives_back: true },
        drip_bytes: 2000,
        pace: Pace { send_bytes, read_bytes: usize::MAX, gap_ms: 5000 },
        ..plan(vec![post(Kind::Sum, 1, 0, 900), post(kind, 2, size, bytes)])
    }
}

/// Otherwise one stream with progress would keep all others and their buffers.
#[test]
fn stalled_content_times_out_beside_content_with_progress() {
    // The transfer takes more than a minute.
    run_story(10, || uploads((Kind::Sum, 0, 20_000), &[NEVER_MS, 0], 700));
}

/// The content is wanted shortly before the other has stalled for too long, and arrives some time
/// later.
#[test]
fn stalled_content_does_not_end_other_streams() {
    const WANTED_AFTER_MS: u64 = BODY_TIMEOUT_MS - 5000;
    run_story(10, || {
        let second = (Kind::Late, WANTED_AFTER_MS, 2000);
        uploads(second, &[NEVER_MS, BODY_TIMEOUT_MS + 10_000], usize::MAX)
    });
}

/// A handler may respond without reading all content; then the server waits only for the client to
/// read.
#[test]
fn after_its_response_a_client_needs_to_send_no_content() {
    run_story(3, || Plan {
        content_after_ms: &[NEVER_MS],
        // The transfer takes more than a minute.
        drip_bytes: 1100,
        ..plan(vec![post(Kind::Hasty, 1, 50_000, 900)])
    });
}

/// Unread content closes only the window of its own stream. An upload that is read meanwhile takes
/// its time, and is not held to a deadline because of that.
#[test]
fn unread_content_sets_no_deadline_for_other_uploads() {
    const UNREAD: u64 = 40;
    const READ_AFTER_MS: u64 = 2 * BODY_TIMEOUT_MS;
    run_story(3, || {
        // More than the first window of a stream.
        let unread = (0..UNREAD).map(|id| post(Kind::Late, id, READ_AFTER_MS, 70_000));
        // The content is read in small parts, which together take longer than the deadline of
        // content.
        let read = post(Kind::Sip, UNREAD, 0, 700_000);
        Plan {
            manner: Manner { window_bytes: 65_535, gives_back: true },
            pace: Pace { send_bytes: usize::MAX, read_bytes: usize::MAX, gap_ms: 100 },
            ..plan(unread.chain([read]).collect())
        }
    });
}

/// A client that has got its response, and still sends byte by byte, cannot keep a connection
/// without requests open.
#[test]
fn content_after_a_response_does_not_keep_a_connection_open() {
    for readiness in [true, false] {
        let mut scenario = Scenario::story(readiness, Faults::default(), Vec::new());
        scenario.multiplexing.push(Plan {
            content_gap_ms: Some(BODY_TIMEOUT_MS - 1000),
            ending: Ending::Stays,
            closed_within_ms: Some(IDLE_TIMEOUT_MS + LAST_AND_LINGER_MS),
            ..plan(vec![post(Kind::Unread, 1, 100, 900)])
        });
        let summary = outcome(|| run::run(scenario, &mut Random::new(1)));
        let summary = summary.unwrap_or_else(|why| panic!("readiness {readiness}: {why}"));
        assert_eq!((summary.multiplexed, summary.floods), (1, 0));
    }
}

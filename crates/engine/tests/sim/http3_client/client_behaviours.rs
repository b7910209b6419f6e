//! Clients of HTTP/3 with one kind of behaviour each, while chance decides the order of events.

use pinion_engine::backend::sim::Faults;
use pinion_engine::limits::{LINGER_CONTENT_MS, LINGER_MAX_MS};

use super::*;
use crate::outcome;
use crate::request_model::{Kind, Version, pattern};
use crate::run;
use crate::scenario::Scenario;

/// Runs one client with many seeds; all laws hold, and each request gets its whole response.
fn run_story(times: u64, faults: &Faults, plan: impl Fn() -> Plan) {
    for readiness in [true, false] {
        for seed in 0..times {
            let mut scenario = Scenario::story(readiness, faults.clone(), Vec::new());
            scenario.quic.push(plan());
            let asked = scenario.quic[0].requests.len() as u64;
            let summary = outcome(|| run::run(scenario, &mut Random::new(seed)))
                .unwrap_or_else(|why| panic!("readiness {readiness}, chance {seed}: {why}"));
            assert_eq!(summary.over_quic, asked, "readiness {readiness}, chance {seed}");
        }
    }
}

/// Returns the common plan of the stories: the client sends all requests at once, reads at once,
/// and leaves.
fn plan(requests: Vec<Request>) -> Plan {
    Plan {
        starts_after_ms: 0,
        protected: true,
        quic: SimulatedClient { seed: 1, hello_bytes: 0, alpn: b"h3".to_vec() },
        at_once: requests.len(),
        requests,
        content_gap_ms: None,
        window_bytes: 1 << 20,
        resets_per_mille: 0,
        stops_per_mille: 0,
        rebinds_after_ms: None,
        pace: Pace { send_bytes: usize::MAX, read_bytes: usize::MAX, gap_ms: 0 },
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

/// The end of content of unknown length needs no want: it is reported after the last wanted byte,
/// with or without trailers.
#[test]
fn the_end_of_content_is_reported_without_being_requested() {
    for bytes in [0, 1, 900, 9000] {
        run_story(20, &Faults::default(), || {
            let content = pattern(1, bytes);
            let request = get(Kind::Exact, 1, bytes as u64);
            plan(vec![Request { content, chunks: Some(vec![bytes]), ..request }])
        });
    }
}

/// A response without content has no trailers, as over HTTP/1 and HTTP/2.
#[test]
fn a_response_to_head_has_no_trailers() {
    run_story(3, &Faults::default(), || {
        plan(vec![Request { head_only: true, ..get(Kind::Fill, 1, 5000) }])
    });
}

/// The transfer takes many minutes of simulated time, in which every deadline passes several times.
#[test]
fn a_mebibyte_arrives_at_a_kibibyte_a_second() {
    const BYTES: u64 = 1 << 20;
    for window_bytes in [1100, 65_535] {
        run_story(1, &Faults::default(), || Plan {
            window_bytes,
            pace: Pace { send_bytes: usize::MAX, read_bytes: 700, gap_ms: 1000 },
            ..plan(vec![get(Kind::Fill, 1, BYTES), get(Kind::Small, 2, 100)])
        });
    }
}

/// A datagram that could not be sent is dropped together with its connection.
#[test]
fn an_unsent_datagram_is_dropped_with_its_connection() {
    let faults = Faults { full: 1000, ..Faults::default() };
    for readiness in [true, false] {
        let mut scenario = Scenario::story(readiness, faults.clone(), Vec::new());
        let ending = Ending::Freezes { after_bytes: 0 };
        scenario.quic.push(Plan { ending, ..plan(vec![get(Kind::Small, 1, 100)]) });
        outcome(|| run::run(scenario, &mut Random::new(1))).expect("all laws hold");
    }
}

/// QUIC sends lost data again, and continues from another address.
#[test]
fn a_path_that_loses_datagrams_and_changes_costs_time_only() {
    let faults =
        Faults { loss: 50, duplicate: 100, path_ms: 20, jitter_ms: 20, ..Faults::default() };
    run_story(10, &faults, || Plan {
        protected: false,
        rebinds_after_ms: Some(300),
        ..plan(vec![get(Kind::Mapped, 1, 200_000), get(Kind::Fill, 2, 100_000)])
    });
}

/// The window of a connection never closes: an upload that is read may last long while other
/// uploads are not read, and gets no deadline because of them.
#[test]
fn unread_content_sets_no_deadline_for_other_uploads() {
    const UNREAD: u64 = 40;
    const READ_AFTER_MS: u64 = 2 * BODY_TIMEOUT_MS;
    run_story(3, &Faults::default(), || {
        let unread = (0..UNREAD).map(|id| post(Kind::Late, id, READ_AFTER_MS, 70_000));
        // The content is read in small parts, which together take longer than the deadline of
        // content.
        let read = post(Kind::Sip, UNREAD, 0, 700_000);
        Plan {
            pace: Pace { send_bytes: 1000, read_bytes: usize::MAX, gap_ms: 20 },
            ..plan(unread.chain([read]).collect())
        }
    });
}

/// Runs a client that gets its response early, until its connection is closed.
fn answered_early(content_gap_ms: u64, closed_within_ms: u64) {
    for readiness in [true, false] {
        let mut scenario = Scenario::story(readiness, Faults::default(), Vec::new());
        scenario.quic.push(Plan {
            content_gap_ms: Some(content_gap_ms),
            ending: Ending::Stays,
            closed_within_ms: Some(closed_within_ms),
            ..plan(vec![post(Kind::Unread, 1, 100, 900)])
        });
        let summary = outcome(|| run::run(scenario, &mut Random::new(1)));
        let summary = summary.unwrap_or_else(|why| panic!("readiness {readiness}: {why}"));
        assert_eq!((summary.over_quic, summary.floods), (1, 0));
    }
}

/// Milliseconds until an idle connection is closed.
const CLOSING_MS: u64 = IDLE_TIMEOUT_MS + 10_000;

/// The client is asked to stop sending after half a minute.
#[test]
fn a_client_that_stops_sending_announced_content_times_out() {
    answered_early(NEVER_MS, LINGER_CONTENT_MS + CLOSING_MS);
}

/// The client is asked to stop sending after five minutes, as over HTTP/1.
#[test]
fn content_after_a_response_is_dropped_for_at_most_five_minutes() {
    answered_early(LINGER_CONTENT_MS - 1000, LINGER_MAX_MS + CLOSING_MS);
}

//! Every single operation of the kernel fails once, while all servers and clients do as they
//! should.

use pinion_engine::backend::sim::Faults;

use crate::fastcgi_scgi_records::Spoken;
use crate::http1_client::{Actor, Content, Outcome, Request};
use crate::http1_reader::Message;
use crate::laws;
use crate::run::{FAILING, HEALTHY, Plan, Report, run_over};
use crate::upstream::{Behaviour, Shape};

/// An ordinary run fails one of this many operations, `--long` each of them.
const STEP: usize = 2;
/// Bytes of content that take several operations.
const CONTENT_BYTES: usize = 100_000;
/// Servers of the mount.
const SERVERS: usize = 2;

/// Returns three clients whose requests have every framing, in both directions.
fn plan(fail_at: u64, spoken: Spoken, is_stored: bool) -> Plan {
    let framings = [Content::None, Content::Length(CONTENT_BYTES), Content::Chunked(CONTENT_BYTES)];
    let methods = ["GET", "POST", "PUT", "GET", "HEAD"];
    let mut ids = 1..;
    let mut requests = |mount| -> Vec<Request> {
        let requests = methods.iter().zip(framings.iter().chain([&Content::None; 2]));
        let requests = requests
            .zip(&mut ids)
            .map(|((method, content), id)| Request::new(id, mount, method).with(*content));
        requests.collect()
    };
    let mut client = |mount| Actor::new(requests(mount)).over(20_000);
    let clients = vec![client(FAILING), client(FAILING), client(HEALTHY)];
    // An application that ends a connection although it should keep it may meet the next request.
    let is_kept = spoken == (Spoken::FastCgi { is_kept: true });
    let third = if is_kept { Shape::Http10 } else { Shape::UntilClose };
    let shapes = [Shape::Chunked, Shape::Length, third, Shape::Interim, Shape::NoContent];
    let behaviours = shapes.map(|shape| Behaviour::good(shape, CONTENT_BYTES));
    Plan {
        seed: 1,
        faults: Faults { fail_at: Some(fail_at), ..Faults::default() },
        pieces: 0,
        clients,
        http2_clients: Vec::new(),
        servers: vec![behaviours.to_vec(); SERVERS],
        spoken,
        stored_upload_max_bytes: is_stored.then_some(1 << 20),
    }
}

/// Returns whether a client has the response of a server.
fn is_answered(outcome: &Outcome) -> bool {
    let status = outcome.reading.message.as_ref().map(Message::status);
    outcome.reading.end.is_some() && status.is_some_and(|status| status < 500)
}

/// One failure affects one connection, and thus one request of one client.
fn check_harm(report: &Report) -> Result<(), String> {
    let results = report.clients.iter().flat_map(Actor::results);
    let failed: Vec<_> = results.filter(|(_, outcome)| !is_answered(outcome)).collect();
    if failed.len() > 1 { Err(format!("one failure has met {failed:?}")) } else { Ok(()) }
}

fn sweep(readiness: bool) {
    for is_stored in [false, true] {
        sweep_over(readiness, Spoken::Http, is_stored);
    }
    for spoken in Spoken::APPLICATIONS {
        sweep_over(readiness, spoken, false);
    }
}

fn sweep_over(readiness: bool, spoken: Spoken, is_stored: bool) {
    let is_long = std::env::var_os("PINION_LONG").is_some();
    // The two forms of the kernel begin at different ones.
    let first = if is_long || readiness { 1 } else { 2 };
    let mut met = 0;
    for fail_at in (first..).step_by(if is_long { 1 } else { STEP }) {
        let report = run_over(readiness, plan(fail_at, spoken, is_stored));
        let checked = report.and_then(|report| {
            laws::check(&report, false)?;
            check_harm(&report)?;
            Ok(report)
        });
        let report = checked.unwrap_or_else(|why| {
            panic!(
                "{spoken:?}, readiness {readiness}, stored {is_stored}, operation {fail_at}: \
                 {why}"
            )
        });
        let all = report.clients.iter().flat_map(Actor::results);
        met += all.filter(|(_, outcome)| !is_answered(outcome)).count();
        if report.operations < fail_at {
            assert!(fail_at > 100 && met > 10, "the script is too short to show anything");
            break;
        }
    }
}

#[test]
fn any_one_operation_may_fail_over_readiness() {
    sweep(true);
}

#[test]
fn any_one_operation_may_fail_over_completions() {
    sweep(false);
}

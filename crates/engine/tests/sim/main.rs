//! The engine on a simulated kernel with simulated clients: one seed decides a whole run
//! (docs/simulator.md explains how to run, repeat and extend it).

mod alarms_and_messages;
mod byte_stream_timeouts;
mod client;
mod compressed_responses;
mod expected_responses;
mod handlers;
mod http2_client;
mod http3_client;
mod incomplete_handshakes;
mod outgoing;
mod poisoning_allocator;
mod regressions;
mod request_model;
mod response_comparison;
mod run;
mod scenario;
#[path = "../strict/mod.rs"]
mod strict;
mod tunnels;

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pinion_engine::backend::sim::{Faults, Random};

use run::Summary;
use scenario::Scenario;

/// Seeds of an ordinary run of the tests; `cargo xtask test --long` runs 20 000.
const SEEDS: u64 = 2000;
/// An ordinary run fails one of this many operations of the script, `--long` each of them.
const SWEEP_STEP: usize = 4;
/// Failing seeds after which a run stops.
const COMPLAINTS_MAX: usize = 10;

/// Executes a run and returns the broken law, whichever check has found it.
fn outcome(run: impl FnOnce() -> Result<Summary, String>) -> Result<Summary, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(text.unwrap_or_else(|| "a panic without words".to_owned()))
    })
}

fn run_or_fail(seed: u64) -> Summary {
    outcome(|| run::run_seed(seed)).unwrap_or_else(|why| panic!("{}", complaint(seed, &why)))
}

fn complaint(seed: u64, why: &str) -> String {
    format!(
        "seed {seed}: {why}\nto repeat, with all that happened: PINION_SIM_TRACE=1 \
         PINION_SIM_SEED={seed} cargo test -p pinion-engine --test sim seeds -- --nocapture"
    )
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text}")))
}

/// Every seed keeps all laws. `PINION_SIM_SEED` selects one, `PINION_SIM_SEEDS` sets their number.
#[test]
fn seeds() {
    if let Some(seed) = number("PINION_SIM_SEED") {
        println!("{:?}", run_or_fail(seed));
        return;
    }
    let next = AtomicU64::new(0);
    let seeds = number("PINION_SIM_SEEDS").unwrap_or(SEEDS);
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    let outcome = outcome(|| run::run_seed(seed));
                    if totals.lock().expect("no panic").add(seed, outcome) {
                        break;
                    }
                }
            });
        }
    });
    let totals = totals.into_inner().expect("no panic");
    assert!(totals.complaints.is_empty(), "{}", totals.complaints.join("\n"));
    let is_used = totals.responses > 0 && totals.multiplexed > 0 && totals.over_quic > 0;
    assert!(is_used, "a simulation without an answer shows nothing");
}

/// The sums of the runs of many seeds.
#[derive(Default)]
struct Totals {
    responses: u64,
    multiplexed: u64,
    over_quic: u64,
    complaints: Vec<String>,
}

impl Totals {
    /// Adds the run of a seed, and returns whether enough of them have failed: one mistake often
    /// fails many seeds, and a few of them are enough to see their common cause.
    fn add(&mut self, seed: u64, outcome: Result<Summary, String>) -> bool {
        match outcome {
            Ok(summary) => {
                self.responses += summary.responses;
                self.multiplexed += summary.multiplexed;
                self.over_quic += summary.over_quic;
            }
            Err(why) => self.complaints.push(complaint(seed, &why)),
        }
        self.complaints.len() >= COMPLAINTS_MAX
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let mut over_quic = 0;
    for seed in 0..20 {
        let summary = run_or_fail(seed);
        assert_eq!(summary, run_or_fail(seed), "seed {seed}");
        over_quic += summary.over_quic;
    }
    assert!(over_quic > 0, "none of these runs has HTTP/3");
    assert_ne!(run_or_fail(0).digest, run_or_fail(1).digest);
}

/// Fails one operation of a fixed script, then a later one, until a run has no more. The two forms
/// of the simulated kernel begin at different ones.
fn sweep(readiness: bool) {
    let is_long = std::env::var_os("PINION_LONG").is_some();
    let (first, step) = match (is_long, readiness) {
        (true, _) => (1, 1),
        (false, true) => (1, SWEEP_STEP),
        (false, false) => (2, SWEEP_STEP),
    };
    // A variable selects one operation, in order to repeat the run of a reported failure.
    let first = number("PINION_SIM_FAIL_AT").unwrap_or(first);
    for fail_at in (first..).step_by(step) {
        let faults = Faults { fail_at: Some(fail_at), ..Faults::default() };
        let scenario = Scenario::fixed(readiness, faults, None);
        let run = || run::run(scenario, &mut Random::new(fail_at));
        let summary = outcome(run)
            .unwrap_or_else(|why| panic!("readiness {readiness}, operation {fail_at}: {why}"));
        if summary.operations < fail_at {
            assert!(fail_at > 100, "the script is too short to show anything");
            return;
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

/// Memory for buffers may be arbitrarily scarce: a client that needs more is affected, and nothing
/// is lost.
#[test]
fn any_budget_for_buffers_keeps_the_laws() {
    for readiness in [true, false] {
        for bytes in (0..400_000).step_by(4_000) {
            let scenario = Scenario::fixed(readiness, Faults::default(), Some(bytes));
            let run = || run::run(scenario, &mut Random::new(7));
            outcome(run)
                .unwrap_or_else(|why| panic!("readiness {readiness}, {bytes} bytes: {why}"));
        }
    }
}

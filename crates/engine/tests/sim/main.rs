//! The engine on a simulated kernel with simulated clients: one seed decides a whole run
//! (docs/simulator.md says how to run, repeat and extend it).

mod ask;
mod chores;
mod client;
mod coded;
mod freed;
mod handlers;
mod handshakes;
mod http2;
mod reading;
mod run;
mod scenario;
mod stories;
#[path = "../strict/mod.rs"]
mod strict;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pinion_engine::backend::sim::{Faults, Random};

use run::Summary;
use scenario::Scenario;

/// Seeds of an ordinary run of the tests; `cargo xtask test --long` runs 20 000.
const SEEDS: u64 = 400;
/// An ordinary run fails one in so many operations of the script, `--long` each of them.
const SWEEP_STEP: usize = 3;
/// Failing seeds after which a run gives up.
const COMPLAINTS_MAX: usize = 10;

/// Runs something and says which law was broken, whoever watched over it.
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

/// Every seed keeps all laws. `PINION_SIM_SEED` picks one, `PINION_SIM_SEEDS` says how many.
#[test]
fn seeds() {
    if let Some(seed) = number("PINION_SIM_SEED") {
        println!("{:?}", run_or_fail(seed));
        return;
    }
    let (mut answers, mut multiplexed) = (0, 0);
    let mut complaints = Vec::new();
    for seed in 0..number("PINION_SIM_SEEDS").unwrap_or(SEEDS) {
        match outcome(|| run::run_seed(seed)) {
            Ok(summary) => {
                answers += summary.answers;
                multiplexed += summary.multiplexed;
            }
            Err(why) => complaints.push(complaint(seed, &why)),
        }
        // One mistake often shows in many seeds; a few of them are enough to see what they share.
        if complaints.len() == COMPLAINTS_MAX {
            break;
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(answers > 0 && multiplexed > 0, "a simulation without an answer shows nothing");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(run_or_fail(seed), run_or_fail(seed), "seed {seed}");
    }
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
    // One operation, to see the run of a complaint.
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

/// Memory for buffers may be as scarce as it likes: who asks for more pays, and nothing is lost.
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

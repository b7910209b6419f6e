//! Clients of the store in a simulated worker: they send commands in pieces, pipeline them, stop
//! reading and leave, while jobs end late and the kernel fails. A seed draws all of it.
//!
//! The laws:
//! 1. A client that behaves gets the replies that it would get alone from another store, byte for
//!    byte. So nothing is executed twice, and nothing is lost.
//! 2. Any other client gets the beginning of these replies, also one that is cut because the worker
//!    has no memory for buffers.
//! 3. No client has events of another one: a number is not given away before the last event of its
//!    client.
//! 4. A job that waits until its client has read its replies is run when it has.
//! 5. When the last client is gone, nothing is left: connections, buffers, timers, clients, their
//!    memory.

mod commands;
mod fixed_scenarios;
mod simulated_client;
mod worker;

use pinion_engine::backend::sim::{Faults, Random};
use simulated_client::{Actor, ClientEnding};
use worker::{RunPlan, run};

/// Seeds of an ordinary run, each in one of the two forms of the kernel.
const SEEDS: u64 = 300;

/// Clients of a run.
const CLIENTS: usize = 5;

/// Commands of a client at most.
const COMMANDS_MAX: u64 = 40;

/// Memory of a worker for buffers, in bytes: enough for all clients, and too little for those with
/// long replies, which are cut.
const BUFFER_BYTES: usize = 64 << 20;
const STARVED_BYTES: usize = 60_000;

/// Makes the faults of a kernel that is slow and out of order, and breaks connections if the run is
/// not exact.
fn faults(is_exact: bool, random: &mut Random) -> Faults {
    let broken = if is_exact { 0 } else { 3 };
    Faults {
        short: *random.pick(&[0, 400]),
        late: *random.pick(&[0, 100]),
        late_ms: 5,
        interrupt: *random.pick(&[0, 50]),
        accept: 10 * broken,
        attach: 5 * broken,
        broken,
        shortage: 20,
        disarm: *random.pick(&[0, 200]),
        buffers: random.between(2, 20) as u16,
        batch: random.below(6) as u16,
        ..Faults::default()
    }
}

fn plan(seed: u64) -> (bool, RunPlan) {
    let mut random = Random::new(seed);
    let is_exact = random.chance(500);
    let faults = faults(is_exact, &mut random);
    // Almost all commands are jobs with the first of them.
    let work_max = *random.pick(&[0, 3, 50, 4096]);
    let actors = (0..CLIENTS).map(|number| {
        let count = random.between(1, COMMANDS_MAX);
        let script = commands::script(number, count, &mut random);
        let bytes = script.len() as u64;
        let ending = match random.below(8) {
            0 => ClientEnding::Leaves(random.below(bytes + 1) as usize),
            1 => ClientEnding::Resets(random.below(bytes + 1) as usize),
            2 => ClientEnding::NeverReads,
            3 | 4 => ClientEnding::HalfCloses,
            _ => ClientEnding::Waits,
        };
        // The first one is a canary: nothing breaks its connection.
        let ending = if number == 0 { ClientEnding::Waits } else { ending };
        let freezes = random.chance(400).then(|| random.below(50_000) as usize);
        let window_bytes = *random.pick(&[500, 64 * 1024]);
        Actor::new(script, ending, freezes, window_bytes, number == 0)
    });
    let mut actors: Vec<_> = actors.collect();
    let is_starved = !is_exact && random.chance(300);
    actors.iter_mut().for_each(|actor| actor.may_be_cut = is_starved);
    let buffer_bytes = if is_starved { STARVED_BYTES } else { BUFFER_BYTES };
    let pieces = *random.pick(&[0, 300, 900]);
    (random.chance(500), RunPlan { seed, faults, pieces, work_max, buffer_bytes, actors })
}

/// Runs a seed in one form of the kernel.
fn run_seed(seed: u64) -> Result<(), String> {
    let (readiness, plan) = plan(seed);
    if readiness { run::<true>(plan) } else { run::<false>(plan) }
}

#[test]
fn seeds() {
    let only = std::env::var("PINION_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    let count = std::env::var("PINION_SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds = match only {
        Some(seed) => seed..seed + 1,
        None => 0..count.unwrap_or(SEEDS),
    };
    for seed in seeds {
        if let Err(why) = run_seed(seed) {
            panic!("seed {seed}: {why}");
        }
    }
}

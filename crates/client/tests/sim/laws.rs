//! Laws that need a run of their own: failing servers together with good ones, and the end at every
//! stage.

use pinion_client::connection_pool::PoolSettings;
use pinion_engine::backend::sim::{Faults, Random};
use pinion_engine::stepped_worker::Holdings;

use crate::client_application::{Asked, Outcome};
use crate::server::Behaviour;
use crate::{CONNECTIONS_MAX, Run, content_of, each_seed};

/// Seeds of an ordinary run, each in both forms of the kernel.
const SEEDS: u64 = 40;
/// Requests to good servers in one run.
const REQUESTS: u64 = 20;
/// Simulated milliseconds within which everything ends when the application has closed all
/// requests: the rest of a response may be read for a second.
const END_MAX_MS: u64 = 3000;

/// Servers whose responses always arrive.
const GOOD: [Behaviour; 9] = [
    Behaviour::Length,
    Behaviour::Chunked,
    Behaviour::UntilClose,
    Behaviour::Close,
    Behaviour::Interim,
    Behaviour::Pieces,
    Behaviour::Gzip,
    Behaviour::Brotli,
    Behaviour::Redirect,
];

fn pool() -> PoolSettings {
    PoolSettings { connections_per_key_max: CONNECTIONS_MAX, ..PoolSettings::default() }
}

/// Returns faults of a kernel that is slow, short of resources and out of order, but breaks no
/// connection.
fn slow_kernel(random: &mut Random) -> Faults {
    Faults { broken: 0, connect: 0, ..crate::faults(random) }
}

fn good_beside_bad<const READINESS: bool>(seed: u64) {
    let mut random = Random::new(seed);
    let faults = slow_kernel(&mut random);
    let mut run = Run::<READINESS>::new(seed, Some(faults), pool());
    let bad: Vec<_> = Behaviour::ALL.into_iter().filter(|one| !one.can_complete()).collect();
    let bad = *random.pick(&bad);
    let mut asked = Vec::new();
    for number in 0..2 * REQUESTS {
        let behaviour = if number % 2 == 0 { *random.pick(&GOOD) } else { bad };
        // The good requests are few enough for their pools, so that none waits for another.
        let host = (number / 2) as u8 + 1;
        asked.push(if behaviour == bad {
            Asked::get(number, bad)
        } else {
            let drawn = Asked::draw(number, &mut random);
            Asked { behaviour, host, is_closed_early: false, ..drawn }
        });
    }
    for one in &asked {
        run.ask(one.clone());
        run.serve();
        run.pass(random.below(20));
    }
    run.finish(asked.len());
    for (number, outcome) in &run.worker.app().outcomes {
        let asked = &asked[*number as usize];
        if asked.behaviour == bad {
            assert!(matches!(outcome, Outcome::Failed(_)), "{asked:?}: {outcome:?}");
            continue;
        }
        let content = if asked.method == "HEAD" { Vec::new() } else { content_of(*number) };
        assert!(*outcome == Outcome::Complete { status: 200, content }, "{asked:?}: {outcome:?}");
    }
}

/// Servers that refuse, hang, stop in the middle or send nonsense do not affect requests to others.
#[test]
fn faults_of_one_server_do_not_affect_the_others() {
    each_seed(SEEDS, |seed| {
        good_beside_bad::<true>(seed);
        good_beside_bad::<false>(seed);
    });
}

/// Runs requests to servers of one kind for this many passes, and ends them.
fn end_after<const READINESS: bool>(behaviour: Behaviour, passes: u64) {
    let mut random = Random::new(passes);
    let faults = slow_kernel(&mut random);
    let mut run = Run::<READINESS>::new(passes, Some(faults), pool());
    // The requests exceed the limit of connections, so that some wait.
    for number in 0..CONNECTIONS_MAX as u64 + 2 {
        run.ask(Asked { behaviour, host: 1, ..Asked::draw(number, &mut random) });
    }
    for _ in 0..passes {
        run.pass(random.below(5));
        run.serve();
    }
    run.worker.app().end();
    let begun_ms = run.network.now().monotonic_ms;
    while run.worker.app().client.holdings() != (0, 0)
        || run.worker.app().client.alarm_ms().is_some()
        || run.worker.holdings() != Holdings::default()
    {
        let shown = (run.worker.app().client.holdings(), run.worker.holdings());
        let took_ms = run.network.now().monotonic_ms - begun_ms;
        assert!(took_ms < END_MAX_MS, "{behaviour:?} after {passes} passes: {shown:?} are left");
        run.serve();
        run.pass(20);
    }
    assert!(run.servers.keys().all(|client| run.network.is_closed(*client)));
}

/// Whatever stage requests are at when they end, no connection, timer or buffer of them is left.
#[test]
fn requests_ended_in_any_stage_leak_nothing() {
    for behaviour in Behaviour::ALL {
        for passes in 1..40 {
            end_after::<true>(behaviour, passes);
            end_after::<false>(behaviour, passes);
        }
    }
}

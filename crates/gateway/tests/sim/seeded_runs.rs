//! Several clients and servers at the same time: a seed draws the actions of each of them.

use pinion_engine::backend::sim::{Faults, Random};

use crate::fastcgi_scgi_records::Spoken;
use crate::http1_client::{Actor, Content, Leaving, Request};
use crate::http2_client::Http2Client;
use crate::laws;
use crate::run::{FAILING, HEALTHY, Plan, run_over};
use crate::upstream::{Behaviour, Shape, Way};

/// Seeds of an ordinary run, each in both forms of the kernel.
const SEEDS: u64 = 300;
/// The number of seeds with applications, of each kind.
const APPLICATION_SEEDS: u64 = 100;
/// Requests of a run to servers that fail.
const REQUESTS: u64 = 12;
/// More bytes than the first line of a request has.
const LINE_BYTES: u64 = 60;
/// More bytes than the variables of a request have, with their records.
const VARIABLES_BYTES: u64 = 600;

/// Returns the faults of a kernel that is slow and out of order, and breaks something if the run is
/// not exact.
fn faults(is_exact: bool, random: &mut Random) -> Faults {
    let broken = if is_exact { 0 } else { 3 };
    Faults {
        short: *random.pick(&[0, 400]),
        late: *random.pick(&[0, 100]),
        late_ms: 5,
        interrupt: *random.pick(&[0, 50]),
        accept: 10 * broken,
        connect: 10 * broken,
        broken,
        shortage: 20,
        disarm: *random.pick(&[0, 200]),
        buffers: random.between(2, 20) as u16,
        batch: random.below(6) as u16,
        ..Faults::default()
    }
}

fn content(random: &mut Random) -> Content {
    let bytes = *random.pick(&[0, 1, 100, 20_000, 150_000]);
    match random.below(3) {
        0 => Content::Length(bytes),
        1 => Content::Chunked(bytes),
        _ => Content::None,
    }
}

fn request(id: u64, mount: &'static str, is_leaving: bool, random: &mut Random) -> Request {
    let method = *random.pick(&["GET", "HEAD", "OPTIONS", "POST", "PUT"]);
    let content = match method {
        "POST" | "PUT" => content(random),
        _ => Content::None,
    };
    let request = Request::new(id, mount, method).with(content);
    let is_http10 = !matches!(content, Content::Chunked(_)) && random.chance(100);
    let leaves = is_leaving.then(|| {
        let bytes = random.between(1, request.wire().len() as u64) as usize;
        (bytes, *random.pick(&[Leaving::Reset, Leaving::Close, Leaving::End]))
    });
    Request { is_http10, leaves, ..request }
}

fn behaviour(spoken: Spoken, random: &mut Random) -> Behaviour {
    let good = Behaviour::good(*random.pick(&Shape::ALL), *random.pick(&[0, 10, 1000, 100_000]));
    if random.chance(400) {
        return good;
    }
    let reads_bytes = random.chance(300).then(|| {
        let most_bytes = *random.pick(&[300, 3000, 150_000]);
        // A server that has read fewer bytes cannot report which request was tried.
        let least_bytes = if spoken == Spoken::Http { LINE_BYTES } else { VARIABLES_BYTES };
        random.between(least_bytes, most_bytes.max(least_bytes)) as usize
    });
    let failure = random.chance(800).then(|| {
        let most_bytes = *random.pick(&[1, 150, 1000, 100_000]);
        (random.below(most_bytes) as usize, *random.pick(&Way::ALL))
    });
    Behaviour {
        reads_bytes,
        failure,
        window_bytes: *random.pick(&[1000, 64 * 1024]),
        is_refusing: random.chance(100),
        ..good
    }
}

fn plan(seed: u64, spoken: Spoken) -> (bool, Plan) {
    let mut random = Random::new(seed);
    let is_exact = random.chance(500);
    let mut ids = 1..;
    let mut clients: Vec<_> = (0..4)
        .map(|_| {
            let is_leaving = random.chance(200);
            let ids = ids.by_ref().take(REQUESTS as usize / 4);
            let requests = ids.map(|id| request(id, FAILING, is_leaving, &mut random)).collect();
            Actor::new(requests).over(*random.pick(&[2_000, 64 * 1024]))
        })
        .collect();
    let http2_clients = [FAILING, HEALTHY].map(|mount| {
        let ids = ids.by_ref().take(4);
        let requests = ids.map(|id| request(id, mount, false, &mut random));
        Http2Client::new(requests.collect())
    });
    let requests = ids.take(4).map(|id| request(id, HEALTHY, false, &mut random)).collect();
    clients.push(Actor::new(requests));
    let servers = (0..random.between(1, 3))
        .map(|_| (0..REQUESTS).map(|_| behaviour(spoken, &mut random)).collect())
        .collect();
    let plan = Plan {
        seed,
        faults: faults(is_exact, &mut random),
        pieces: *random.pick(&[0, 300]),
        clients,
        http2_clients: http2_clients.into(),
        servers,
        spoken,
        stored_upload_max_bytes: random.chance(200).then_some(1 << 20),
    };
    (is_exact, plan)
}

/// Returns the digest of all that has happened.
fn run(readiness: bool, seed: u64, spoken: Spoken) -> Result<u64, String> {
    let (is_exact, plan) = plan(seed, spoken);
    let report = run_over(readiness, plan)?;
    laws::check(&report, is_exact)?;
    if is_exact {
        laws::check_healthy(&report)?;
    }
    Ok(report.digest)
}

pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text}")))
}

/// Every seed keeps all laws. `PINION_SIM_SEED` selects one, `PINION_SIM_SEEDS` sets their number.
fn check_seeds(spoken: Spoken) {
    let ordinary = if spoken == Spoken::Http { SEEDS } else { APPLICATION_SEEDS };
    let seeds = number("PINION_SIM_SEEDS").unwrap_or(ordinary);
    let only = number("PINION_SIM_SEED");
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        for readiness in [true, false] {
            if let Err(why) = run(readiness, seed, spoken) {
                panic!("{spoken:?}, seed {seed}, readiness {readiness}: {why}");
            }
        }
    }
}

#[test]
fn seeds() {
    check_seeds(Spoken::Http);
}

#[test]
fn seeds_of_fastcgi() {
    check_seeds(Spoken::FastCgi { is_kept: true });
    check_seeds(Spoken::FastCgi { is_kept: false });
}

#[test]
fn seeds_of_scgi() {
    check_seeds(Spoken::Scgi);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..10 {
        for readiness in [true, false] {
            for spoken in [Spoken::Http, Spoken::FastCgi { is_kept: true }] {
                let run = || run(readiness, seed, spoken);
                assert_eq!(run(), run(), "seed {seed}");
            }
        }
    }
    assert_ne!(run(true, 0, Spoken::Http), run(true, 1, Spoken::Http));
}

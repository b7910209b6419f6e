//! A worker with a client on a simulated network: the common code of the laws here and of the
//! single cases in `src/http_client/tests.rs`. The tests implement the servers.

use pinion_engine::Poster;
use pinion_engine::app::App;
use pinion_engine::backend::sim::{Faults, Network};
use pinion_engine::settings::WorkerSettings;
use pinion_engine::stepped_worker::Stepped;

/// Makes a worker that may open connections, with its network.
pub(crate) fn sim_worker<const READINESS: bool, A: App>(
    seed: u64,
    faults: Faults,
    make_app: impl FnOnce(Poster) -> A,
) -> (Network, Stepped<READINESS, A>) {
    let settings = WorkerSettings { outgoing: 4096, ..WorkerSettings::default() };
    let network = Network::new(seed, faults, settings.listeners.len());
    let worker = Stepped::new(network.clone(), settings, make_app);
    (network, worker)
}

/// Lets the worker do its due work; at most this many milliseconds pass.
pub(crate) fn pass<const READINESS: bool, A: App>(
    network: &Network,
    worker: &mut Stepped<READINESS, A>,
    most_ms: u64,
) {
    network.act_at(Some(network.now().monotonic_ms + most_ms));
    worker.pass().expect("a pass");
}

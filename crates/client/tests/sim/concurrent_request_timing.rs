//! Requests at the same time take no longer than one.

use pinion_client::connection_pool::PoolSettings;
use pinion_engine::backend::sim::Faults;

use crate::client_application::{Asked, Outcome};
use crate::server::Behaviour;
use crate::{Run, content_of};

/// The time that the servers need for a response, in milliseconds.
const RESPONSE_MS: u64 = 1000;
/// A pool has 256 connections to each address.
const HOSTS: u8 = 4;

/// A thousand requests whose servers respond after a second are through after a second.
#[test]
fn a_thousand_concurrent_requests_take_as_long_as_one() {
    let mut run = Run::<true>::new(3, Some(Faults::default()), PoolSettings::default());
    let begun_ms = run.network.now().monotonic_ms;
    for number in 0..1000 {
        let host = (number % u64::from(HOSTS)) as u8 + 1;
        run.ask(Asked { host, ..Asked::get(number * 6 + 2, Behaviour::Length) });
    }
    while run.worker.app().outcomes.len() < 1000 {
        run.serve_after(RESPONSE_MS);
        run.pass(1);
        let now_ms = run.network.now().monotonic_ms;
        assert!(now_ms - begun_ms < 60_000, "{:?} are left", run.worker.app().left());
    }
    let app = run.worker.app();
    for (number, outcome) in &app.outcomes {
        let content = content_of(*number);
        assert_eq!(*outcome, Outcome::Complete { status: 200, content }, "{number}");
    }
    let last_ms = app.ended_ms.iter().max().expect("some") - begun_ms;
    // The simulated time advances by a millisecond with each pass, of which the first ones open
    // connections.
    assert!((RESPONSE_MS..RESPONSE_MS + 100).contains(&last_ms), "{last_ms} ms");
}

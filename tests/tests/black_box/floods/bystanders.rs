//! Clients that take no part in a flood: they must get their responses all the time.

use super::Served;
use pinion_tests::SetAtEnd;
use pinion_tests::client::Client;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The fewest responses that each of them gets during a flood, so that a short flood also overlaps
/// with some.
const RESPONSES_MIN: u64 = 20;

/// The pause between two requests of each of them: a busy loop would only take CPU time from the
/// flood.
const PAUSE: Duration = Duration::from_millis(5);

/// Clients that send requests while a server is flooded, and the memory of the server meanwhile.
pub(crate) struct Bystanders<'a> {
    served: &'a Served,
    is_over: AtomicBool,
    memory_bytes: AtomicU64,
}

impl<'a> Bystanders<'a> {
    /// Runs a function while other clients send requests, each on a persistent connection and on
    /// new ones, and while the memory is observed.
    ///
    /// # Panics
    /// Panics if one of them gets no response, or if the server uses more memory than it has
    /// announced.
    #[track_caller]
    pub(crate) fn beside<R>(served: &'a Served, during: impl FnOnce() -> R) -> R {
        let bound_bytes = served.server.reported_bound_bytes();
        let (is_over, memory_bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        let own = Bystanders { served, is_over, memory_bytes };
        let result = thread::scope(|scope| {
            // Other clients use all protocols, whatever the protocol of the flood.
            let begin = |protocol: &Protocol| {
                let (own, protocol) = (&own, *protocol);
                scope.spawn(move || own.ask(protocol))
            };
            let clients: Vec<_> = Protocol::SPOKEN.iter().map(begin).collect();
            scope.spawn(|| own.weigh());
            let _clients_end_too = SetAtEnd(&own.is_over);
            let result = during();
            own.is_over.store(true, Ordering::Relaxed);
            for client in clients {
                client.join().expect("everybody was answered");
            }
            result
        });
        let most_bytes = own.memory_bytes.into_inner();
        eprintln!("{} of {} MiB", most_bytes >> 20, bound_bytes >> 20);
        assert!(most_bytes <= bound_bytes, "{most_bytes} of {bound_bytes} bytes");
        result
    }

    fn ask(&self, protocol: Protocol) {
        let peer = self.served.peer(protocol);
        let mut stays = Client::open(&peer);
        let request = Request::get("/");
        let mut responses = 0;
        while !self.is_over.load(Ordering::Relaxed) || responses < RESPONSES_MIN {
            for client in [&mut stays, &mut Client::open(&peer)] {
                let response = client.exchange(&request);
                assert_eq!((response.status, response.text()), (200, "home"), "over {protocol:?}");
            }
            responses += 1;
            thread::sleep(PAUSE);
        }
    }

    /// Observes the memory of the server until the flood ends.
    fn weigh(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let bytes = self.served.server.own_memory_bytes();
            self.memory_bytes.fetch_max(bytes, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(50));
        }
    }
}

//! Those who have nothing to do with a flood: what they ask for they get, all the time.

use super::Served;
use pinion_tests::SetAtEnd;
use pinion_tests::client::Client;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// What each of them gets at least while a flood goes on, so that a short one is met by some.
const ANSWERS_MIN: u64 = 20;

/// Between two requests of each of them: a busy loop would only take the processors from the flood.
const PAUSE: Duration = Duration::from_millis(5);

/// See the module's head.
pub(crate) struct Bystanders<'a> {
    served: &'a Served,
    is_over: AtomicBool,
    memory_bytes: AtomicU64,
}

impl<'a> Bystanders<'a> {
    /// Does something while others ask, each on a connection that stays and on fresh ones, and
    /// while memory is looked at.
    ///
    /// # Panics
    /// When one of them is not answered, or the server takes more than it said.
    #[track_caller]
    pub(crate) fn beside<R>(served: &'a Served, during: impl FnOnce() -> R) -> R {
        let bound_bytes = served.server.told_bound_bytes();
        let (is_over, memory_bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        let own = Bystanders { served, is_over, memory_bytes };
        let result = thread::scope(|scope| {
            // Whatever a flood comes over, somebody else is there, too.
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
        let mut answers = 0;
        while !self.is_over.load(Ordering::Relaxed) || answers < ANSWERS_MIN {
            for client in [&mut stays, &mut Client::open(&peer)] {
                let answer = client.exchange(&request);
                assert_eq!((answer.status, answer.text()), (200, "home"), "over {protocol:?}");
            }
            answers += 1;
            thread::sleep(PAUSE);
        }
    }

    /// Sees how much memory the server has, as long as it goes on.
    fn weigh(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let bytes = self.served.server.own_memory_bytes();
            self.memory_bytes.fetch_max(bytes, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(50));
        }
    }
}

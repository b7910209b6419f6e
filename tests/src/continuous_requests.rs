//! Requests without pause while something is swapped below the server. None of them may fail.

use crate::client::Connection;
use crate::request::Request;
use crate::response::Response;
use crate::temporary_folder::Folder;
use crate::wait_for;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// Paths and sizes of the files of a generation; the last is too large to be copied into memory
/// when the folder is served.
pub const FILES: [(&str, usize); 4] =
    [("/small", 200), ("/page.html", 20_000), ("/medium.bin", 200_000), ("/large.bin", 1_500_000)];

/// Writes a generation: every file is full of its number.
pub fn write_generation(folder: &Folder, name: &str, generation: u32) {
    let line = format!("{generation:07}\n");
    for (path, bytes) in FILES {
        folder.write(format!("{name}{path}"), line.repeat(bytes / line.len()));
    }
}

/// Returns the generation of a response.
///
/// # Panics
/// Panics if it has none, or more than one.
#[track_caller]
pub fn generation_of(response: &Response) -> u32 {
    assert_eq!(response.status, 200, "{response}");
    let (line, _) = response.body.split_at(8);
    assert!(response.body.chunks(8).all(|other| other == line), "a mix of generations");
    let number = std::str::from_utf8(&line[..7]).expect("a number");
    number.parse().expect("a number")
}

/// Sends requests without pause, on persistent connections and on new ones, until it is stopped.
/// Every response must be complete, of one generation, and have that generation's tag.
#[derive(Debug)]
pub struct Load {
    stop: AtomicBool,
    /// The generation of the last response.
    latest: AtomicU32,
    responses: AtomicU32,
}

impl Load {
    /// Runs `swap` under load.
    ///
    /// # Panics
    /// Panics if a request or `swap` fails.
    pub fn during(address: SocketAddr, swap: impl FnOnce(&Load)) {
        let load = Load {
            stop: AtomicBool::new(false),
            latest: AtomicU32::new(0),
            responses: AtomicU32::new(0),
        };
        thread::scope(|scope| {
            let on = &load;
            let clients: Vec<_> = (0..4)
                .map(|client| scope.spawn(move || on.client(address, client % 2 == 0)))
                .collect();
            // The clients must stop with any end of `swap`.
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| swap(&load)));
            load.stop.store(true, Ordering::Relaxed);
            for client in clients {
                client.join().expect("no client met a failure");
            }
            ended.expect("the swap went well");
        });
    }

    fn client(&self, address: SocketAddr, stays: bool) {
        let mut tags = HashMap::new();
        let mut connection = Connection::open(address);
        while !self.stop.load(Ordering::Relaxed) {
            for (path, bytes) in FILES {
                if !stays {
                    connection = Connection::open(address);
                }
                let response = connection.exchange(&Request::get(path));
                assert_eq!(response.body.len(), bytes / 8 * 8);
                let generation = generation_of(&response);
                let tag = response.field("ETag").expect("a tag").to_owned();
                let known = tags.entry((path, generation)).or_insert_with(|| tag.clone());
                assert_eq!(*known, tag, "{path} of generation {generation}");
                self.latest.store(generation, Ordering::Relaxed);
                self.responses.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until this generation is served, and then for some more responses.
    ///
    /// # Panics
    /// Panics if it is never served.
    #[track_caller]
    pub fn wait_for_generation(&self, generation: u32) {
        wait_for("the new generation", || {
            (self.latest.load(Ordering::Relaxed) == generation).then_some(())
        });
        let responses = self.responses.load(Ordering::Relaxed);
        wait_for("more answers", || {
            (self.responses.load(Ordering::Relaxed) > responses + 20).then_some(())
        });
    }
}

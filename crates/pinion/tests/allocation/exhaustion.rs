//! Workers without memory: only connections that need memory fail, and the others continue.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use crate::counting_allocator::refused;
use crate::site::Site;
use crate::{TURN, exchange, log_of, request};

/// Numbers of successful allocations before all fail, so that each kind of allocation is among the
/// first failures.
const GRANTED: [u64; 16] = [0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 48, 64];
/// Clients of a round, and the number of clients that each next round adds, so that tables have to
/// grow.
const CLIENTS: usize = 14;
const MORE_CLIENTS: usize = 6;

#[test]
fn a_worker_without_memory_continues() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for io in ["epoll", "uring"] {
        let log = log_of(&format!("exhaustion-{io}"));
        for (name, flags) in
            [("no-log", vec!["--io", io]), ("log", vec!["--io", io, "--access-log", &log])]
        {
            let site = Site::serve(&format!("exhaustion-{io}-{name}"), &flags);
            let mut idle = site.connect();
            assert_eq!(exchange(&mut idle, &request("GET /", ""), 1).status, "200");
            let mut refusals = 0;
            for (round, granted) in GRANTED.into_iter().enumerate() {
                refusals += refused(granted, || starve(&site, CLIENTS + round * MORE_CLIENTS));
                let status = exchange(&mut site.connect(), &request("GET /", ""), 1).status;
                assert_eq!(status, "200", "{io}, {name}: after {granted} granted calls");
            }
            assert!(refusals > 0, "{io}, {name}: nobody asked for memory");
            // The connection has sent nothing meanwhile.
            assert_eq!(exchange(&mut idle, &request("GET /", ""), 1).status, "200", "{io}, {name}");
        }
        std::fs::remove_file(&log).expect("removed");
    }
}

/// Runs clients that need memory and may get none.
fn starve(site: &Site, clients: usize) {
    let clients: Vec<UnixStream> = (0..clients)
        .map(|number| {
            let mut client = site.connect();
            client.set_nonblocking(true).expect("set");
            // The write fails if the connection was closed already.
            let _cut_off = client.write(&needy(number));
            client
        })
        .collect();
    // No response is due that the test could wait for.
    thread::sleep(Duration::from_millis(20));
    drop(clients);
}

/// Returns incomplete heads, incomplete bodies, or requests whose responses are not read: from the
/// archive, generated, of many ranges.
fn needy(number: usize) -> Vec<u8> {
    let ranges = "Range: bytes=0-1,10-11,5000-15000,20000-20001\r\n";
    match number % 7 {
        0 => format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "y".repeat(3000)).into_bytes(),
        1 => b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nabc".to_vec(),
        2 => request("GET /large.bin", "").repeat(30),
        3 => request("GET /nothing", "").repeat(200),
        4 => request("GET /middle.bin", ranges).repeat(20),
        5 => request("GET /docs?a", "").repeat(50),
        _ => request("GET /", ""),
    }
}

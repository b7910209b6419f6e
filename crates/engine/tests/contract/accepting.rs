//! Which clients are accepted, and when, on real sockets over each backend: there are never more
//! clients than places, and no client waits while a place is free.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinion_engine::listener::bind_tcp;
use pinion_engine::server::Io;
use pinion_engine::settings::WorkerSettings;
use rustix::fs::{OFlags, fcntl_getfl};

use crate::test_server::{TestServer, connect, read_response};

const BOTH: [Io; 2] = [Io::Epoll, Io::Uring];
const HELLO: &[u8] = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn connections_never_exceed_the_permits_and_all_clients_are_served() {
    /// Fewer than workers and listeners could accept between two checks of their number.
    const PLACES: usize = 5;
    const CLIENTS: usize = 40;
    const TIMES: usize = 20;
    for io in BOTH {
        let settings = WorkerSettings { connections: PLACES, ..WorkerSettings::default() };
        let server = TestServer::start_workers(io, settings, 3);
        // The clients of the byte stream that have got a response and have not begun to leave.
        // Connections of HTTP are closed for new clients once their response is sent.
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                let is_raw = number % 2 == 1;
                let to = if is_raw { server.raw } else { server.http };
                let inside = &inside;
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        let mut stream = connect(to);
                        stream.write_all(HELLO).unwrap();
                        stream.read_exact(&mut [0; 15]).unwrap();
                        if is_raw {
                            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                            assert!(now <= PLACES, "{now} are inside over {io:?}");
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
    }
}

/// A worker may get notified about the clients of both listeners and have a place for only one of
/// them.
#[test]
fn a_free_permit_is_used_for_clients_of_any_listener() {
    const ROUNDS: usize = 200;
    for io in BOTH {
        let settings = WorkerSettings { connections: 2, ..WorkerSettings::default() };
        let server = TestServer::start_workers(io, settings, 2);
        for _ in 0..ROUNDS {
            let mut clients = [server.http, server.raw].map(connect);
            for client in &mut clients {
                client.write_all(HELLO).unwrap();
            }
            for client in &mut clients {
                client.read_exact(&mut [0; 15]).expect("an answer while the other one stays");
            }
        }
    }
}

#[test]
fn inherited_listeners_work_in_both_modes_and_with_both_backends() {
    for non_blocking in [true, false] {
        let socket: Arc<OwnedFd> = Arc::new(bind_tcp(([127, 0, 0, 1], 0).into()).expect("bind"));
        rustix::io::ioctl_fionbio(&socket, non_blocking).expect("set");
        let start = |io| {
            let settings = WorkerSettings { connections: 3, ..WorkerSettings::default() };
            TestServer::start_on(io, settings, 2, socket.clone())
        };
        let servers = BOTH.map(start);
        for _ in 0..50 {
            let mut clients: Vec<_> = (0..6).map(|_| connect(servers[0].http)).collect();
            for client in &mut clients {
                client.write_all(HELLO).unwrap();
            }
            for client in &mut clients {
                assert_eq!(read_response(client).1, b"hello world!\n");
            }
        }
        let flags = fcntl_getfl(&socket).expect("flags");
        assert!(flags.contains(OFlags::NONBLOCK), "an accept that finds nobody would wait");
    }
}

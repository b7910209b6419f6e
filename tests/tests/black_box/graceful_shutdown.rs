//! SIGTERM: clients that came in time get their responses, the port is free at once, and running
//! requests are completed.

use pinion_tests::binary::pinion;
use pinion_tests::client::Connection;
use pinion_tests::matrix::{Io, Matrix};
use pinion_tests::request::Request;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, Stdio};

const LARGE_BYTES: usize = 30 << 20;

#[test]
fn requests_sent_before_the_stop_get_responses() {
    const CLIENTS: usize = 40;
    let folder = Folder::with("in-time", [("index.html", "home")]);
    Matrix::of(folder.path()).plain_only("a handshake needs a server that runs").run_and_stop(
        |mut server| {
            let mut kept: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
            for connection in &mut kept {
                assert_eq!(connection.exchange(&Request::get("/")).text(), "home");
            }
            // While the server is suspended, requests arrive on idle connections, and clients
            // connect to the accept queue. Then it processes all of them at once.
            server.signal(Signal::STOP);
            let mut queued: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
            for connection in kept.iter_mut().chain(&mut queued) {
                connection.send(Request::get("/").bytes());
            }
            server.signal(Signal::TERM);
            server.signal(Signal::CONT);
            for connection in kept.iter_mut().chain(&mut queued) {
                assert_eq!(connection.receive().text(), "home");
                connection.expect_close();
            }
            assert!(server.wait().success());
        },
    );
}

/// Idle connections hold all permits; waiting clients still get their turn.
#[test]
fn connections_queued_before_the_stop_get_responses() {
    const PLACES: usize = 4;
    let folder = Folder::with("waited", [("index.html", "home")]);
    for (io, workers) in Io::BOTH.into_iter().flat_map(|io| [(io, "1"), (io, "2")]) {
        let places = PLACES.to_string();
        let flags = ["--io", io.as_str(), "--workers", workers, "--max-connections", &places];
        let mut server = Start::site(folder.path()).flags(&flags).start();
        let mut kept: Vec<Connection> = (0..PLACES).map(|_| server.connect()).collect();
        for connection in &mut kept {
            assert_eq!(connection.exchange(&Request::get("/")).text(), "home");
        }
        let mut queued: Vec<Connection> = (0..3 * PLACES).map(|_| server.connect()).collect();
        for connection in &mut queued {
            connection.send(Request::get("/").bytes());
        }
        server.signal(Signal::TERM);
        for mut connection in queued {
            assert_eq!(connection.receive().text(), "home");
            connection.expect_close();
        }
        assert!(server.wait().success());
    }
}

#[test]
fn a_stopping_server_leaves_its_port_to_the_next() {
    let folder = Folder::with("port", [("index.html", "home")]);
    folder.write("large.bin", vec![b'x'; LARGE_BYTES]);
    for io in Io::BOTH {
        let mut server = Start::site(folder.path()).flags(&["--io", io.as_str()]).start();
        let mut slow = server.connect();
        slow.send(Request::get("/large.bin").bytes());
        slow.read_some(1000).expect("the first bytes");
        server.signal(Signal::TERM);
        let address = server.address();
        wait_for("a closed port", || Connection::try_open(address).err());
        let flags = ["--io", io.as_str(), "--listen", &address.to_string()];
        let next = Start::site(folder.path()).flags(&flags).start();
        assert_eq!(Connection::open(address).exchange(&Request::get("/")).text(), "home");
        assert!(server.is_running(), "the old one still serves the slow client");
        assert_eq!(slow.receive().body.len(), LARGE_BYTES);
        drop(slow);
        assert!(server.wait().success());
        next.stop();
    }
}

#[test]
fn a_stopping_server_completes_running_responses() {
    let folder = Folder::with("stopping", [("index.html", "home")]);
    folder.write("large.bin", vec![b'x'; LARGE_BYTES]);
    // With one worker, the end of the idle connection shows that the stop was processed.
    Matrix::of(folder.path())
        .serve(&["--workers", "1"])
        .http1_only("pipelined requests")
        .run_and_stop(|mut server| {
            let mut idle = server.connect();
            assert_eq!(idle.exchange(&Request::get("/")).status, 200);
            let mut slow = server.connect();
            slow.send(Request::get("/large.bin").bytes().repeat(3));
            slow.read_some(1000).expect("the first bytes");
            server.signal(Signal::TERM);
            idle.expect_close();
            let running = slow.receive();
            assert!(running.body.len() == LARGE_BYTES && !running.says_close(), "{running}");
            // The next request arrived before the stop. Its response announces that it is the last
            // (RFC 9112 §9.6), so the client knows which of its requests to send again.
            let last = slow.receive();
            assert!(last.body.len() == LARGE_BYTES && last.says_close(), "{last}");
            slow.expect_close();
            drop(slow);
            assert!(server.wait().success());
        });
}

/// Starts a server with pipes for its output; returns it with the reader of its messages.
fn with_pipes(site: &Folder, flags: &[&str]) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut server = Command::new(pinion())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(flags)
        .arg(site.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a server");
    let said = BufReader::new(server.stderr.take().expect("its words")).lines();
    (server, said)
}

/// Returns the address that the server prints.
fn address(said: &mut Lines<BufReader<ChildStderr>>) -> SocketAddr {
    let address = said.find_map(|line| {
        let line = line.expect("its words");
        let url = line.strip_prefix("listening http://")?;
        url.trim_end_matches('/').parse().ok()
    });
    address.expect("a listening server")
}

fn stops(server: &mut Child) {
    kill_process(Pid::from_child(server), Signal::TERM).expect("to stop, and to tell of it");
    let status = wait_for("its end", || server.try_wait().expect("a child"));
    assert!(status.success(), "{status}");
}

/// A server whose output pipe has no reader any more must not end because of a message.
#[test]
fn a_server_with_a_closed_output_pipe_can_be_stopped() {
    let folder = Folder::with("unheard", [("index.html", "home")]);
    for io in Io::BOTH {
        let (mut server, mut said) = with_pipes(&folder, &["--io", io.as_str()]);
        address(&mut said);
        drop(said);
        kill_process(Pid::from_child(&server), Signal::HUP).expect("to reload, and to tell of it");
        stops(&mut server);
    }
}

#[test]
fn a_full_log_pipe_does_not_delay_the_stop() {
    let folder = Folder::with("logs", [("index.html", "home")]);
    for io in Io::BOTH {
        let flags = ["--io", io.as_str(), "--access-log", "-"];
        let (mut server, mut said) = with_pipes(&folder, &flags);
        // More lines than fit into a pipe, without a reader.
        let mut connection = Connection::open(address(&mut said));
        for _ in 0..3000 {
            assert_eq!(connection.exchange(&Request::get("/")).status, 200);
        }
        stops(&mut server);
    }
}

#[test]
fn the_grace_period_ends_stalled_responses() {
    let folder = Folder::new("grace");
    folder.write("large.bin", vec![b'x'; LARGE_BYTES]);
    for io in Io::BOTH {
        let start = Start::serve(&[folder.path()]).grace(1).flags(&["--io", io.as_str()]);
        let mut server = start.start();
        let mut slow = server.connect();
        slow.send(Request::get("/large.bin").bytes());
        slow.read_some(1000).expect("the first bytes");
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        assert!(slow.try_receive(false).is_err(), "an answer that was cut off looks so");
    }
}

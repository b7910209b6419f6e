//! `--store`: long commands, while other clients of the store and of the site continue.

use std::io::Write;
use std::net::Shutdown;

use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start};
use pinion_tests::store_client::{FIELDS, StoreClient};
use pinion_tests::temporary_folder::Folder;

/// Returns a server with one worker, and the port of its store.
fn start(folder: &Folder, io: Io) -> (Server, u16) {
    folder.write("site/index.html", "a site");
    let flags = ["--io", io.as_str(), "--workers", "1", "--store", "127.0.0.1:0"];
    let server = Start::site(&folder.join("site")).flags(&flags).start();
    let port = server.address_of("redis").port();
    (server, port)
}

#[test]
fn a_command_on_a_large_value_does_not_hold_up_others() {
    for io in Io::BOTH {
        let folder = Folder::new("store-jobs");
        let (server, port) = start(&folder, io);
        let mut large = StoreClient::connect(port);
        let mut other = StoreClient::connect(port);
        large.fill();
        for _ in 0..3 {
            large.send("HGETALL large\nINCR count\nSUNIONSTORE none nothing\nHLEN large");
            for number in 0..50 {
                assert_eq!(other.say("PING"), "+PONG");
                assert_eq!(other.say(&format!("SET key:{number} 1")), "+OK");
            }
            // A client that wants the same value gets it, too.
            assert_eq!(other.say("HLEN large"), format!(":{FIELDS}"));
            assert_eq!(server.get("/").text(), "a site");
            assert_eq!(large.array(), FIELDS * 2);
            assert!(large.line().starts_with(':'));
            assert_eq!(large.line(), ":0");
            assert_eq!(large.line(), format!(":{FIELDS}"));
        }
        // Commands that arrive while a job runs wait for it: more than the server reads in one
        // step.
        large.send(&format!("HGETALL large\n{}", "PING\n".repeat(50_000)));
        assert_eq!(large.array(), FIELDS * 2);
        (0..50_000).for_each(|_| assert_eq!(large.line(), "+PONG"));
        server.stop();
    }
}

#[test]
fn a_disconnected_client_loses_only_its_reply() {
    for io in Io::BOTH {
        let folder = Folder::new("store-jobs-gone");
        let (server, port) = start(&folder, io);
        let mut first = StoreClient::connect(port);
        first.fill();
        for number in 0..20 {
            let mut gone = StoreClient::connect(port);
            gone.send(&format!("WATCH large\nCOPY large copy:{number}"));
            assert_eq!(gone.line(), "+OK");
            drop(gone);
            // The next client, which gets the same number, gets no reply of the job.
            let mut next = StoreClient::connect(port);
            assert_eq!(next.say("PING"), "+PONG");
        }
        // A client that has sent everything gets all replies.
        let mut half = StoreClient::connect(port);
        half.send("HGETALL large\nPING\nHGETALL large\nPING");
        half.stream().shutdown(Shutdown::Write).expect("an open side");
        for _ in 0..2 {
            assert_eq!(half.array(), FIELDS * 2);
            assert_eq!(half.line(), "+PONG");
        }
        assert!(half.rest().is_empty());
        assert_eq!(first.say("HLEN large"), format!(":{FIELDS}"));
        server.stop();
    }
}

#[test]
fn a_client_is_killed_at_once() {
    for io in Io::BOTH {
        let folder = Folder::new("store-jobs-kill");
        let (server, port) = start(&folder, io);
        let mut first = StoreClient::connect(port);
        first.fill();
        for command in ["PING", "HGETALL large"] {
            let mut killed = StoreClient::connect(port);
            let id = killed.say("CLIENT ID");
            killed.send(command);
            let kill = format!("CLIENT KILL ID {}", id.trim_start_matches(':'));
            assert_eq!(first.say(&kill), ":1");
            // The client sends nothing more, but its connection ends.
            killed.rest();
            assert_eq!(first.say(&kill), ":0");
        }
        let id = first.say("CLIENT ID");
        let own = format!("CLIENT KILL ID {} SKIPME no", id.trim_start_matches(':'));
        assert_eq!(first.say(&own), ":1");
        assert!(first.rest().is_empty());
        server.stop();
    }
}

#[test]
fn clients_with_half_a_command_have_a_limit() {
    let folder = Folder::new("store-jobs-memory");
    let (server, port) = start(&folder, Io::BOTH[0]);
    let mut first = StoreClient::connect(port);
    assert_eq!(first.say("CONFIG SET maxmemory-clients 3mb"), "+OK");
    let half = |bytes: usize| {
        let mut client = StoreClient::connect(port);
        client.send("*3\n$3\nSET\n$1\na\n$100000000");
        let written = client.stream().write_all(&vec![b'x'; bytes]);
        (client, written)
    };
    let (mut small, written) = half(500_000);
    written.expect("the store reads");
    // This one is closed, as the one with the most.
    let (mut large, _) = half(8_000_000);
    large.rest();
    assert_eq!(first.say("PING"), "+PONG");
    first.send("INFO stats");
    let mut line = first.line();
    while !line.starts_with("evicted_clients:") {
        line = first.line();
    }
    assert_eq!(line, "evicted_clients:1");
    small.stream().write_all(b"x").expect("it is still open");
    server.stop();
}

/// A server that stops lets jobs end and sends their replies.
#[test]
fn a_server_that_stops_waits_for_jobs() {
    for io in Io::BOTH {
        let folder = Folder::new("store-jobs-stop");
        let (server, port) = start(&folder, io);
        let mut client = StoreClient::connect(port);
        client.fill();
        client.send("HGETALL large");
        // The worker has read the earlier command when it has read this one.
        assert_eq!(StoreClient::connect(port).say("PING"), "+PONG");
        let reader = std::thread::spawn(move || client.array());
        server.stop();
        assert_eq!(reader.join().expect("a whole reply"), FIELDS * 2);
    }
}

//! Readers that take a little at a time get all of it. No clock says how slow they are: the server
//! cannot be rid of the answer before the reader has taken most of it, so that it has to wait again
//! and again.
#![forbid(unsafe_code)]

use pinion_tests::body::noise;
use pinion_tests::client::http2::Http2;
use pinion_tests::folder::Folder;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::fs;

/// What a reader takes at a time.
const PIECE_BYTES: usize = 1 << 10;

/// What the kernel keeps for a reader: little, but a few segments of the loopback interface, below
/// which TCP itself waits.
const RECEIVE_BYTES: usize = 256 << 10;

/// Far more than the kernel keeps for a connection whose reader is slow.
fn large_bytes() -> usize {
    let limits = fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("its limits");
    let most = limits.split_whitespace().last().expect("the largest");
    2 * most.parse::<usize>().expect("a number")
}

fn start(site: &Folder, protocol: Protocol, io: Io) -> Server {
    let way = Way { protocol, io, form: Form::Folder };
    Start::site(site.path()).in_way(way).flags(&["--workers", "1"]).start()
}

#[test]
fn over_http1_a_reader_with_little_room_gets_it_all() {
    let (site, content) = (Folder::new("slow-readers"), noise(large_bytes()));
    site.write("large.bin", &content);
    for protocol in [Protocol::Http1, Protocol::Http1Tls] {
        for io in Io::BOTH {
            let server = start(&site, protocol, io);
            let mut connection = server.connect();
            set_socket_recv_buffer_size(connection.stream(), RECEIVE_BYTES).expect("set");
            connection.send(Request::get("/large.bin").bytes());
            for _ in 0..content.len() / PIECE_BYTES {
                assert_ne!(connection.read_some(PIECE_BYTES).expect("more"), 0, "{protocol:?}");
            }
            let answer = connection.receive();
            assert!(answer.body == content, "{protocol:?} over {io:?}: {answer}");
            server.stop();
        }
    }
}

/// The window opens when something has been taken, and never to more than a piece: the client sees
/// to it that nothing more comes.
#[test]
fn over_http2_a_reader_with_a_small_window_gets_it_all() {
    let site = Folder::new("slow-readers");
    site.write("small.bin", noise(5 << 10));
    site.write("large.bin", noise(1 << 20));
    for protocol in [Protocol::Http2, Protocol::Http2Clear] {
        for io in Io::BOTH {
            let server = start(&site, protocol, io);
            let client = Http2::with_window(server.peer(), PIECE_BYTES as u32);
            let mut client = client.expect("a connection");
            for (path, bytes) in [("/small.bin", 5 << 10), ("/large.bin", 1 << 20)] {
                let answer = client.try_exchange(&Request::get(path)).expect("an answer");
                assert!(answer.body == noise(bytes), "{path} by {protocol:?} over {io:?}");
            }
            server.stop();
        }
    }
}

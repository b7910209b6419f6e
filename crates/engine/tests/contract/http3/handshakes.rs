//! Handshakes while other clients are connected.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use pinion_engine::server::Io;

use super::{GET, Http3, connecting, head, listener};
use crate::fairness::Holder;

/// Returns the first datagrams of a client.
fn hello() -> Vec<Vec<u8>> {
    let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    nobody.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let _client = connecting(nobody.local_addr().expect("an address"));
    let mut datagrams = Vec::new();
    // A key exchange of a kilobyte takes two.
    while datagrams.len() < 2 {
        let mut bytes = [0; 2048];
        let count = nobody.recv(&mut bytes).expect("a datagram");
        datagrams.push(bytes[..count].to_vec());
    }
    datagrams
}

#[test]
fn established_connections_precede_handshakes() {
    const NEWCOMERS: usize = 8;
    for io in [Io::Epoll, Io::Uring] {
        let (quic, at) = listener(1);
        let server = Holder::start(io, Vec::new(), vec![quic]);
        let [holder, polite] = [(); 2].map(|()| Http3::connect_to(at));
        let newcomers: Vec<_> = (0..NEWCOMERS)
            .map(|_| (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"), hello()))
            .collect();
        let held = holder.open(&head(GET, "/h"));
        assert_eq!(server.next().0, b'h');
        let sent = || polite.connection.stats().udp_tx.datagrams;
        let before = sent();
        let response = polite.open(&head(GET, "/h"));
        while sent() == before {
            std::thread::yield_now();
        }
        for (socket, hello) in &newcomers {
            socket.set_nonblocking(true).expect("a socket");
            for datagram in hello {
                socket.send_to(datagram, at).expect("sent");
            }
        }
        server.go_on.send(()).expect("the worker waits");
        assert_eq!(server.next().0, b'h');
        let is_answered = |socket: &UdpSocket| socket.recv(&mut [0; 2048]).is_ok();
        let answered = newcomers.iter().filter(|(socket, _)| is_answered(socket)).count();
        assert!(answered <= 1, "{answered} over {io:?}");
        server.go_on.send(()).expect("the worker waits");
        // Then all of them get a response.
        for (socket, _) in &newcomers {
            socket.set_nonblocking(false).expect("a socket");
            socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
            assert!(is_answered(socket), "over {io:?}");
        }
        drop((held, response));
        server.stop();
    }
}

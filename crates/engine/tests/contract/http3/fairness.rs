//! A client with many requests over HTTP/3 delays clients with few requests as little as possible.

use pinion_engine::server::Io;

use super::{GET, Http3, at_once, head, listener};
use crate::fairness::Holder;

#[test]
fn connections_with_the_fewest_datagrams_come_first() {
    const FLOOD: usize = 100; // requests, which take several datagrams
    for io in [Io::Epoll, Io::Uring] {
        for polite_is_first in [true, false] {
            let (quic, at) = listener(1);
            let server = Holder::start(io, Vec::new(), vec![quic]);
            let [holder, polite, flood] = [(); 3].map(|()| Http3::connect_to(at));
            let ask = |client: &Http3, letter: char, requests: usize| {
                let connection = client.connection.clone();
                let before = connection.stats().udp_tx.datagrams;
                let head = head(GET, &format!("/{letter}{:040}", 0));
                let streams = at_once(async move {
                    let mut streams = Vec::new();
                    for _ in 0..requests {
                        let (mut sender, receiver) = connection.open_bi().await.expect("open");
                        sender.write_all(&head).await.expect("written");
                        streams.push((sender, receiver));
                    }
                    streams
                });
                let least = if requests > 1 { 2 } else { 1 };
                while client.connection.stats().udp_tx.datagrams < before + least {
                    std::thread::yield_now();
                }
                streams
            };
            let held = ask(&holder, 'h', 1);
            assert_eq!(server.next().0, b'h');
            let (one, many) = if polite_is_first {
                let one = ask(&polite, 'p', 1);
                (one, ask(&flood, 'f', FLOOD))
            } else {
                let many = ask(&flood, 'f', FLOOD);
                (ask(&polite, 'p', 1), many)
            };
            server.go_on.send(()).expect("the worker waits");
            assert_eq!(server.next().0, b'p', "over {io:?}, first: {polite_is_first}");
            drop((held, one, many));
            server.stop();
        }
    }
}

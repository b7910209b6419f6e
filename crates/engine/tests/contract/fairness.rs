//! Whoever sends without end keeps nobody waiting for more than a share of what he has sent.

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinion_engine::app::{App, Event, RawEvent};
use pinion_engine::clock::Now;
use pinion_engine::exchange::Exchange;
use pinion_engine::limits::CHUNK_BYTES;
use pinion_engine::listener::{Listener, bind_tcp, local_address};
use pinion_engine::mapping::Mappings;
use pinion_engine::raw::RawStream;
use pinion_engine::server::{Io, Kit, Server};
use pinion_engine::settings::{ListenerSettings, Protocol, Settings};

use crate::plain::connect;

/// Reads streams of bytes and tells what came: the first byte, which is that of its client, and how
/// many.
struct Reader {
    came: Sender<(u8, usize)>,
    /// Who sends an `h` holds the worker up until this has something.
    held: Arc<Mutex<Receiver<()>>>,
}

impl App for Reader {
    fn exchange(&mut self, _: Event<'_>, _: &mut Exchange<'_>) {}

    fn raw(&mut self, event: RawEvent<'_>, stream: &mut RawStream<'_>) {
        match event {
            RawEvent::Open => stream.want(u64::MAX),
            RawEvent::Bytes(bytes) => {
                let _ = self.came.send((bytes[0], bytes.len()));
                if bytes[0] == b'h' {
                    let _ = self.held.lock().expect("one at a time").recv();
                }
            }
            _ => {}
        }
    }

    fn pass(&mut self, _: Now, _: &mut Mappings) {}
}

#[test]
fn floods_leave_a_turn_to_others() {
    const FLOODS: usize = 3;
    const FLOOD_BYTES: usize = 100_000;
    for io in [Io::Epoll, Io::Uring] {
        let socket = Arc::new(bind_tcp(([127, 0, 0, 1], 0).into()).expect("bind"));
        let at = local_address(&socket).expect("an address");
        let listeners = vec![Listener { socket, settings: ListenerSettings::plain(Protocol::Raw) }];
        let kit =
            Kit { listeners, quic: Vec::new(), settings: Settings::default(), workers: 1, io };
        let (came, order) = channel();
        let (go_on, held) = channel();
        let held = Arc::new(Mutex::new(held));
        let server =
            Server::start(kit, move |_, _| Reader { came: came.clone(), held: held.clone() });
        let server = server.expect("start");
        let next = || order.recv_timeout(Duration::from_secs(10)).expect("bytes");
        // Those that have spoken before are received from for good.
        let client = |letter: u8| -> TcpStream {
            let mut stream = connect(at);
            stream.write_all(&[letter]).expect("send");
            assert_eq!(next(), (letter, 1));
            stream
        };
        let mut floods: Vec<TcpStream> = (0..FLOODS).map(|_| client(b'f')).collect();
        let mut polite = client(b'p');
        let _holder = client(b'h');
        for flood in &mut floods {
            flood.write_all(&[b'f'; FLOOD_BYTES]).expect("send");
        }
        polite.write_all(b"p").expect("send");
        go_on.send(()).expect("the worker waits");
        let before_bytes: usize =
            std::iter::repeat_with(next).take_while(|(who, _)| *who != b'p').map(|it| it.1).sum();
        assert!(before_bytes <= FLOODS * CHUNK_BYTES, "{before_bytes} bytes over {io:?}");
        server.control().stop();
        server.join();
    }
}

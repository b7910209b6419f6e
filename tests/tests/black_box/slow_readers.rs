//! Clients that read slowly get the whole response. No clock determines their speed: the server
//! cannot finish the response before the client has read most of it, so it has to wait repeatedly.

use pinion_tests::body::noise;
use pinion_tests::client::Client;
use pinion_tests::client::http2::Http2;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes that a client reads at a time.
const PIECE_BYTES: usize = 1 << 10;

/// The receive buffer of the kernel: small, but a few segments of the loopback interface, below
/// which TCP itself waits.
const RECEIVE_BYTES: usize = 256 << 10;

/// Returns far more bytes than the kernel buffers for a connection with a slow reader.
fn large_bytes() -> usize {
    let limits = fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("its limits");
    let most = limits.split_whitespace().last().expect("the largest");
    2 * most.parse::<usize>().expect("a number")
}

fn start(site: &Folder, protocol: Protocol, io: Io) -> Server {
    let way = Way { protocol, io, form: Form::Folder };
    Start::site(site.path()).in_way(way).flags(&["--workers", "1"]).start()
}

/// A relay between a client and a server that reads like a slow client: the kernel buffers as
/// little as possible, and after some time one piece is read each second.
struct Narrow {
    address: SocketAddr,
    is_slow: Arc<AtomicBool>,
    /// The number of pieces that were read since then.
    pieces: Arc<AtomicUsize>,
}

impl Narrow {
    fn to(server: SocketAddr) -> Narrow {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (is_slow, pieces) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let narrow = Narrow { address, is_slow: Arc::clone(&is_slow), pieces: Arc::clone(&pieces) };
        thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            let mut server = with_little_room(server).expect("a connection");
            let mut requests = client.try_clone().expect("a handle");
            let mut to_server = server.try_clone().expect("a handle");
            thread::spawn(move || io::copy(&mut requests, &mut to_server));
            let mut piece = [0; PIECE_BYTES];
            loop {
                match server.read(&mut piece) {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => client.write_all(&piece[..bytes]).expect("it reads"),
                }
                if is_slow.load(Ordering::Relaxed) {
                    pieces.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_secs(1));
                }
            }
        });
        narrow
    }
}

/// Connects with the smallest possible receive buffer. Its size must be set before the connection,
/// because the kernel never reduces an offered window.
fn with_little_room(server: SocketAddr) -> io::Result<TcpStream> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_socket_recv_buffer_size(&socket, PIECE_BYTES)?;
    rustix::net::connect(&socket, &server)?;
    Ok(TcpStream::from(socket))
}

/// 5 KiB at 1 KiB/s, which no server may treat as too slow. All run at once, because each takes
/// some seconds.
#[test]
fn a_reader_of_one_piece_a_second_gets_the_whole_response() {
    let site = Folder::new("slow-readers");
    let content = noise(5 * PIECE_BYTES);
    site.write("small.bin", &content);
    let protocols = [Protocol::Http1Tls, Protocol::Http2, Protocol::Http2Clear];
    let ways = protocols.into_iter().flat_map(|protocol| Io::BOTH.map(|io| (protocol, io)));
    thread::scope(|scope| {
        for (protocol, io) in ways {
            let (site, content) = (&site, &content);
            scope.spawn(move || {
                let server = start(site, protocol, io);
                let narrow = Narrow::to(server.address());
                let mut client = Client::open(&server.peer().at(narrow.address));
                narrow.is_slow.store(true, Ordering::Relaxed);
                let response = client.exchange(&Request::get("/small.bin"));
                assert!(response.body == *content, "{protocol:?} over {io:?}: {response}");
                let pieces = narrow.pieces.load(Ordering::Relaxed);
                assert!(pieces >= 5, "{protocol:?} over {io:?}: {pieces} pieces");
                drop(client);
                server.stop();
            });
        }
    });
}

/// The last response of a connection is in the kernel's buffers long before a slow client has read
/// it, and a client of HTTP/2 sends frames while it reads: a closed connection would reset, and the
/// kernel would drop the rest.
#[test]
fn over_http2_a_client_that_sends_while_reading_gets_the_last_response() {
    // Like PIECE_BYTES, but larger, so that the test ends after some seconds.
    const PIECE_BYTES: usize = 8 << 10;
    const PAUSE: Duration = Duration::from_millis(200);
    let (site, content) = (Folder::new("slow-readers"), noise(12 * PIECE_BYTES));
    site.write("some.bin", &content);
    thread::scope(|scope| {
        for io in Io::BOTH {
            let (site, content) = (&site, &content);
            scope.spawn(move || {
                let way = Way { protocol: Protocol::Http2Clear, io, form: Form::Folder };
                let flags = ["--workers", "1", "--max-requests-per-connection", "1"];
                let server = Start::site(site.path()).in_way(way).flags(&flags).start();
                let mut stream = with_little_room(server.address()).expect("a connection");
                stream.write_all(&asks_for_all(b"/some.bin")).expect("it reads");
                let (mut came, mut piece) = (Vec::new(), [0; PIECE_BYTES]);
                loop {
                    match stream.read(&mut piece) {
                        Ok(0) => break,
                        Ok(bytes) => came.extend_from_slice(&piece[..bytes]),
                        Err(error) => panic!("{io:?}: {error} behind {} bytes", came.len()),
                    }
                    // The server may have closed its side by now.
                    let _ = stream.write_all(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
                    thread::sleep(PAUSE);
                }
                assert!(content_of(&came) == *content, "{io:?}: {} bytes", came.len());
                server.stop();
            });
        }
    });
}

/// Returns the first bytes of an HTTP/2 client whose windows allow a whole content at once (RFC
/// 9113 §3.4, §6).
fn asks_for_all(path: &[u8]) -> Vec<u8> {
    let window = 0x7fff_0000_u32.to_be_bytes();
    let settings = [&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4][..], &window].concat();
    let opened = [&[0, 0, 4, 8, 0, 0, 0, 0, 0][..], &window].concat();
    // "GET", "http", the path and the host "a" (RFC 7541 §6).
    let block = [&[0x82, 0x86, 0x04, path.len() as u8][..], path, &[0x41, 1, b'a']].concat();
    let head = [&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1][..], &block].concat();
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &opened, &head].concat()
}

/// Returns the content of all DATA frames.
fn content_of(mut frames: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
        let bytes = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (payload, behind) = rest.split_at(bytes.min(rest.len()));
        if *kind == 0 {
            content.extend_from_slice(payload);
        }
        frames = behind;
    }
    content
}

#[test]
fn over_http1_a_small_receive_buffer_gets_the_whole_response() {
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
            let response = connection.receive();
            assert!(response.body == content, "{protocol:?} over {io:?}: {response}");
            server.stop();
        }
    }
}

/// The window is opened after each read, and never by more than a piece, so the client limits the
/// received bytes.
#[test]
fn over_http2_a_small_window_gets_the_whole_response() {
    let site = Folder::new("slow-readers");
    site.write("small.bin", noise(5 << 10));
    site.write("large.bin", noise(1 << 20));
    for protocol in [Protocol::Http2, Protocol::Http2Clear] {
        for io in Io::BOTH {
            let server = start(&site, protocol, io);
            let client = Http2::with_window(server.peer(), PIECE_BYTES as u32);
            let mut client = client.expect("a connection");
            for (path, bytes) in [("/small.bin", 5 << 10), ("/large.bin", 1 << 20)] {
                let response = client.try_exchange(&Request::get(path)).expect("an answer");
                assert!(response.body == noise(bytes), "{path} by {protocol:?} over {io:?}");
            }
            server.stop();
        }
    }
}

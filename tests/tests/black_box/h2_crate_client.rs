//! HTTP/2 with the `h2` crate, the client of most programs in Rust: over TLS and with prior
//! knowledge, with many streams on one connection.

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use pinion_tests::PATIENCE;
use pinion_tests::body::noise;
use pinion_tests::client::async_stream::Pipe;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use std::pin::pin;
use std::task::{Context, Waker};
use tokio::runtime;
use tokio::time::timeout;

const SMALL_BYTES: usize = 5 << 10;
const LARGE_BYTES: usize = 3 << 20;

fn site() -> Folder {
    let site = Folder::with("h2-peers", [("index.html", "home")]);
    site.write("small.bin", noise(SMALL_BYTES));
    site.write("large.bin", noise(LARGE_BYTES));
    site
}

/// Runs a case over TLS and without, over both backends, each with a server of its own.
#[track_caller]
fn each_way(start: impl Fn() -> Start, case: &impl AsyncFn(&Server, Client)) {
    for protocol in [Protocol::Http2, Protocol::Http2Clear] {
        for io in Io::BOTH {
            eprintln!("{protocol:?} {io:?}"); // Shown when the case fails.
            let way = Way { protocol, io, form: Form::Folder };
            let server = start().in_way(way).flags(&["--workers", "1"]).start();
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let case = async { case(&server, Client::open(&server).await).await };
                timeout(PATIENCE, case).await.expect("it does not hang");
            });
            server.stop();
        }
    }
}

/// A connection, which a task of its own drives.
struct Client {
    requests: SendRequest<Bytes>,
    pings: h2::PingPong,
    driver: tokio::task::JoinHandle<Result<(), h2::Error>>,
    scheme: &'static str,
}

impl Client {
    async fn open(server: &Server) -> Client {
        let pipe = Pipe::open(server.peer()).expect("a connection");
        let (requests, mut connection) = h2::client::handshake(pipe).await.expect("HTTP/2");
        let pings = connection.ping_pong().expect("the first to ask");
        let driver = tokio::spawn(connection);
        Client { requests, pings, driver, scheme: server.protocol().scheme() }
    }

    /// Sends a request as soon as the server allows another stream; a request without content ends
    /// at once.
    async fn begin(
        &mut self,
        method: &str,
        path: &str,
        has_content: bool,
    ) -> (ResponseFuture, h2::SendStream<Bytes>) {
        let uri = format!("{}://localhost{path}", self.scheme);
        let request = http::Request::builder().method(method).uri(uri).body(()).expect("right");
        let mut ready = self.requests.clone().ready().await.expect("an open connection");
        ready.send_request(request, !has_content).expect("a stream")
    }

    async fn get(&mut self, path: &str) -> Result<(u16, Vec<u8>), h2::Error> {
        whole(self.begin("GET", path, false).await.0).await
    }
}

/// Returns the status and the content of a response, reading as the windows allow.
async fn whole(response: ResponseFuture) -> Result<(u16, Vec<u8>), h2::Error> {
    let response = response.await?;
    let (status, mut stream) = (response.status().as_u16(), response.into_body());
    let mut content = Vec::new();
    while let Some(piece) = piece(&mut stream).await? {
        content.extend_from_slice(&piece);
    }
    Ok((status, content))
}

async fn piece(stream: &mut RecvStream) -> Result<Option<Bytes>, h2::Error> {
    let Some(piece) = stream.data().await.transpose()? else { return Ok(None) };
    stream.flow_control().release_capacity(piece.len())?;
    Ok(Some(piece))
}

#[test]
fn many_concurrent_requests_get_their_own_responses() {
    let site = site();
    each_way(|| Start::site(site.path()), &async |_, mut client| {
        let mut begun = Vec::new();
        for number in 0..120 {
            let (path, status, content) = match number % 20 {
                0 => ("/large.bin", 200, Some(noise(LARGE_BYTES))),
                1..8 => ("/small.bin", 200, Some(noise(SMALL_BYTES))),
                8..14 => ("/none", 404, None),
                _ => ("/", 200, Some(b"home".to_vec())),
            };
            let (response, _) = client.begin("GET", path, false).await;
            begun.push((path, status, content, tokio::spawn(whole(response))));
        }
        for (path, status, content, response) in begun {
            let (found, own) = response.await.expect("no panic").expect("an answer");
            assert_eq!(found, status, "{path}");
            assert!(content.is_none_or(|content| content == own), "{path}");
        }
    });
}

/// The content is not read: the response arrives first, and then the client is asked to stop (RFC
/// 9113 §8.1).
#[test]
fn a_request_with_unread_content_and_the_next_get_responses() {
    let site = site();
    each_way(|| Start::site(site.path()), &async |_, mut client| {
        for bytes in [0, 10, LARGE_BYTES] {
            let (response, mut content) = client.begin("POST", "/", true).await;
            content.send_data(noise(bytes).into(), true).expect("an open stream");
            let (status, _) = whole(response).await.expect("an answer");
            assert_eq!(status, 405, "{bytes} bytes");
            let (status, home) = client.get("/").await.expect("an answer");
            assert_eq!((status, home.as_slice()), (200, &b"home"[..]));
        }
    });
}

/// The rest of a cancelled response uses neither windows nor streams of later ones.
#[test]
fn cancelled_responses_do_not_affect_later_ones() {
    let site = site();
    each_way(|| Start::site(site.path()), &async |_, mut client| {
        for _ in 0..30 {
            let (response, mut stream) = client.begin("GET", "/large.bin", false).await;
            let mut content = response.await.expect("a head").into_body();
            let first = piece(&mut content).await.expect("no end").expect("a piece");
            assert!(noise(LARGE_BYTES).starts_with(&first));
            stream.send_reset(Reason::CANCEL);
            let (status, small) = client.get("/small.bin").await.expect("an answer");
            assert!(status == 200 && small == noise(SMALL_BYTES));
        }
        let (_, large) = client.get("/large.bin").await.expect("an answer");
        assert!(large == noise(LARGE_BYTES));
    });
}

/// RFC 9113 §6.8: running requests are completed, later ones are refused, and the connection ends
/// without an error.
#[test]
fn a_stopping_server_completes_running_requests() {
    let site = site();
    each_way(|| Start::site(site.path()), &async |server, mut client| {
        let (response, _) = client.begin("GET", "/large.bin", false).await;
        let response = response.await.expect("a head");
        server.signal(Signal::TERM);
        let requests = client.requests.clone();
        // The client knows this as soon as the last GOAWAY has arrived.
        let refused = async {
            while requests.clone().ready().await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        refused.await;
        let mut stream = response.into_body();
        let mut content = Vec::new();
        while let Some(piece) = piece(&mut stream).await.expect("the rest") {
            content.extend_from_slice(&piece);
        }
        assert!(content == noise(LARGE_BYTES));
        drop((requests, client.requests));
        client.driver.await.expect("no panic").expect("an orderly end");
    });
}

/// `--dummy-delay`: the connection is active while a response is delayed.
#[test]
fn a_slow_response_does_not_block_others() {
    each_way(
        || Start::serve(&["--dummy", "--dummy-delay", "60s"]).grace(0),
        &async |_, mut client| {
            let (response, _) = client.begin("GET", "/", false).await;
            for _ in 0..2 {
                client.pings.ping(h2::Ping::opaque()).await.expect("an answer to a ping");
            }
            let found = pin!(response).poll(&mut Context::from_waker(Waker::noop()));
            assert!(found.is_pending(), "{found:?}");
        },
    );
}

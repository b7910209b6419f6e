//! The end of a concurrent request (`max-concurrent-requests`): a request counts until its own
//! response has been sent or aborted, whatever else is on its connection.

use pinion_tests::client::Client;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use pinion_tests::wait_for;

/// More than the kernel buffers for a client that does not read.
const LARGE_BYTES: usize = 24 << 20;

/// Number of checks for the arrival of a request before another one is sent.
const LOOKS: usize = 50;

/// Returns a site with a large file, and an application.
fn site(upstream: &Upstream, max: u32) -> Folder {
    let folder = Folder::with("concurrent", [("site/small.txt", "small")]);
    folder.write("site/large.bin", vec![b'x'; LARGE_BYTES]);
    folder.write(
        "pinion.toml",
        format!(
            "[[site]]\npath = \"site\"\n[[site.access]]\nmax-concurrent-requests = {max}\n\
             [[site.mount]]\npath = \"/app\"\nproxy = \"{}\"\n",
            upstream.url()
        ),
    );
    folder
}

/// Runs a case over protocols, with epoll and io_uring in turn.
#[track_caller]
fn each(protocols: &[Protocol], folder: &Folder, case: impl Fn(&Server)) {
    for (protocol, io) in protocols.iter().zip(Io::BOTH.into_iter().cycle()) {
        let way = Way { protocol: *protocol, io, form: Form::Folder };
        let start = Start::site(&folder.join("pinion.toml")).in_way(way);
        case(&start.flags(&["--workers", "2"]).start());
    }
}

/// Protocols whose connections have many concurrent requests.
const MULTIPLEXED: &[Protocol] = &[Protocol::Http2, Protocol::Http2Clear, Protocol::Http3];

fn status(client: &mut Client, target: &str) -> u16 {
    client.exchange(&Request::get(target)).status
}

/// Waits until a client may send another request.
#[track_caller]
fn wait_for_a_free_place(client: &mut Client) {
    let is_free = || Some(status(client, "/small.txt")).filter(|status| *status != 429);
    assert_eq!(wait_for("a free place", is_free), 200);
}

/// Waits until a client may not: its earlier requests have arrived.
#[track_caller]
fn wait_until_none_is_free(client: &mut Client) {
    let is_refused = || (status(client, "/small.txt") == 429).then_some(());
    wait_for("no free place", is_refused);
}

/// A stream that waits for its client does not occupy the slots of other streams.
#[test]
fn an_ended_stream_frees_its_slot_while_others_continue() {
    let upstream = Upstream::echo();
    let folder = site(&upstream, 2);
    each(MULTIPLEXED, &folder, |server| {
        let mut client = Client::with_little_room(server);
        let _large = client.begin(&Request::get("/large.bin"));
        for target in ["/small.txt", "/app", "/missing", "/small.txt"].repeat(3) {
            let expected = if target == "/missing" { 404 } else { 200 };
            assert_eq!(status(&mut client, target), expected, "{target}");
        }
    });
}

/// RFC 9113 §5.1, RFC 9114 §4.1.1: a reset ends one stream. The others keep their slots.
#[test]
fn a_reset_stream_frees_only_its_own_slot() {
    let upstream = Upstream::echo();
    let folder = site(&upstream, 2);
    each(MULTIPLEXED, &folder, |server| {
        let mut client = Client::with_little_room(server);
        let large = Request::get("/large.bin");
        let _first = client.begin(&large);
        for _ in 0..2 {
            let second = client.begin(&large);
            // The first one continues, whichever others have ended.
            wait_until_none_is_free(&mut client);
            client.stop(second);
            wait_for_a_free_place(&mut client);
        }
    });
}

/// A client that disconnects frees its slot, wherever its request is: waiting for an application,
/// within its response, or within that of a file.
#[test]
fn a_disconnected_client_frees_its_slot() {
    let upstream = Upstream::start(|connection| {
        while let Some(head) = connection.request() {
            if head.contains("/app/begun") {
                connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n");
                connection.send([b'x'; 2048]);
            }
            // The application waits until the proxy closes the connection.
            connection.request();
        }
    });
    let folder = site(&upstream, 1);
    each(Protocol::SPOKEN, &folder, |server| {
        let mut other = server.client();
        for target in ["/app/silent", "/app/begun", "/large.bin"] {
            drop(wait_for("no free place", || {
                let mut client = Client::with_little_room(server);
                let open = client.begin(&Request::get(target));
                // A check that arrives before the request occupies the slot itself: the request is
                // refused, and another client tries it.
                let is_held = (0..LOOKS).any(|_| status(&mut other, "/small.txt") == 429);
                is_held.then_some((open, client))
            }));
            wait_for_a_free_place(&mut other);
        }
    });
}

/// RFC 9112 §9.3: requests of a connection of HTTP/1 are processed one after the other, so they are
/// never concurrent. The slot is free as soon as the client has the response.
#[test]
fn a_connection_of_http1_has_one_request_at_once() {
    let upstream = Upstream::echo();
    let folder = site(&upstream, 1);
    each(&[Protocol::Http1, Protocol::Http1Tls], &folder, |server| {
        let mut client = server.client();
        for target in ["/small.txt", "/app", "/small.txt"].repeat(4) {
            assert_eq!(status(&mut client, target), 200, "{target}");
        }
        let mut pipelined = server.connect();
        let requests = ["/small.txt", "/app", "/small.txt", "/app"];
        let bytes: Vec<_> = requests.iter().map(|target| Request::get(target).bytes()).collect();
        pipelined.send(bytes.concat());
        for target in requests {
            assert_eq!(pipelined.receive().status, 200, "{target}");
        }
    });
}

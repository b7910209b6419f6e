//! Extensible priorities (RFC 9218) of HTTP/2: the order of concurrent responses.

use pinion_tests::body::noise;
use pinion_tests::client::http2::Http2;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;

/// The initial window of the connection (RFC 9113 §6.9.2).
const WINDOW_BYTES: usize = 65_535;
const LARGE_BYTES: usize = 300_000;

/// A connection whose window is used up, and on which the rest of one response waits already: that
/// of the first stream, which has the lowest priority.
struct Client {
    http2: Http2,
    first: u32,
}

impl Client {
    fn ask(&mut self, priority: &str) -> u32 {
        let request = Request::get("/large.bin").field("Priority", priority);
        self.http2.try_ask(&request).expect("a head")
    }

    fn prioritize(&mut self, stream: u32, value: &str) {
        self.http2.try_prioritize(stream, value).expect("an answer to a ping");
    }

    /// Opens the window by this many bytes; returns the streams of the frames that arrive.
    fn frames(&mut self, bytes: usize) -> Vec<u32> {
        self.http2.let_through(bytes as u32);
        self.turns(bytes)
    }

    fn turns(&mut self, bytes: usize) -> Vec<u32> {
        self.http2.try_turns(bytes).expect("content")
    }

    /// Does the same; consecutive frames of one stream count once.
    fn order(&mut self, bytes: usize) -> Vec<u32> {
        let mut order = self.frames(bytes);
        order.dedup();
        order
    }
}

/// Runs a case over TLS and without, over both backends.
#[track_caller]
fn each_way(case: impl Fn(Client)) {
    let site = Folder::new("h2-priorities");
    site.write("large.bin", noise(LARGE_BYTES));
    for protocol in [Protocol::Http2, Protocol::Http2Clear] {
        for io in Io::BOTH {
            eprintln!("{protocol:?} {io:?}"); // Shown when the case fails.
            let way = Way { protocol, io, form: Form::Folder };
            let server = Start::site(site.path()).in_way(way).start();
            // Responses wait for the window of the connection only.
            let http2 = Http2::with_window(server.peer(), 1 << 24).expect("a connection");
            let mut client = Client { http2, first: 0 };
            client.first = client.ask("u=7");
            let first = client.turns(WINDOW_BYTES);
            assert!(first.iter().all(|stream| *stream == client.first), "{first:?}");
            case(client);
            server.stop();
        }
    }
}

/// The rest of the first response.
const REST_BYTES: usize = LARGE_BYTES - WINDOW_BYTES;

/// RFC 9218 §5, §10.
#[test]
fn more_urgent_responses_come_first() {
    each_way(|mut client| {
        let [late, usual, soon] = ["u=5", "", "u=1"].map(|priority| client.ask(priority));
        let order = client.order(3 * LARGE_BYTES + REST_BYTES);
        assert_eq!(order, [soon, usual, late, client.first]);
    });
}

/// RFC 9218 §7.1.
#[test]
fn a_priority_update_changes_the_urgency_of_a_response() {
    each_way(|mut client| {
        let [late, soon] = ["u=5", "u=1"].map(|priority| client.ask(priority));
        assert_eq!(client.order(LARGE_BYTES / 2), [soon]);
        client.prioritize(late, "u=0");
        assert_eq!(client.order(LARGE_BYTES / 2), [late]);
        client.prioritize(late, "u=6");
        let order = client.order(LARGE_BYTES + REST_BYTES);
        assert_eq!(order, [soon, late, client.first]);
    });
}

/// RFC 9218 §4.2, §10.
#[test]
fn incremental_responses_are_interleaved() {
    each_way(|mut client| {
        let late = client.ask("u=5, i");
        let [one, other] = [(); 2].map(|()| client.ask("u=1, i"));
        let turns = client.frames(2 * LARGE_BYTES);
        assert!(turns.iter().all(|stream| [one, other].contains(stream)), "{turns:?}");
        assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
        assert_eq!(client.order(LARGE_BYTES + REST_BYTES), [late, client.first]);
    });
}

//! Heads that handlers keep: over HTTP/2 and HTTP/3, a few bytes may be the head of a request as
//! large as any, so those of one connection have a limit together.

use pinion_tests::client::Client;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;

/// The protocols whose connections carry many requests at the same time.
const MULTIPLEXED: &[Protocol] = &[Protocol::Http2, Protocol::Http2Clear, Protocol::Http3];

/// The limit (`OPEN_HEADS_MAX_BYTES`).
const OPEN_HEADS_MAX_BYTES: usize = 256 << 10;
/// The bytes of one field of a head, which has less than 500 bytes in addition: this number of
/// heads is within the limit, and another one is not.
const FIELD_BYTES: usize = 15_872;
const KEPT: usize = OPEN_HEADS_MAX_BYTES / FIELD_BYTES;

const _: () = assert!(KEPT * (FIELD_BYTES + 500) <= OPEN_HEADS_MAX_BYTES);

/// Requests for `/wait` are responded to once there was one for `/go`.
const HANDLERS: &str = r#"
local has_gone, waiting = false, 0

pinion.get("/wait", function(req)
    waiting = waiting + 1
    while not has_gone do pinion.sleep(0.01) end
    return tostring(#req:field("X-Field"))
end)

pinion.get("/at-once", function(req) return tostring(#req:field("X-Field")) end)

pinion.get("/waiting", function() return tostring(waiting) end)

pinion.get("/go", function()
    has_gone = true
    return "gone"
end)
"#;

fn large(target: &str) -> Request {
    Request::get(target).field("X-Field", "x".repeat(FIELD_BYTES))
}

#[track_caller]
fn each_connection(case: impl Fn(&Server)) {
    let folder = Folder::with("open-heads", [("public_html/small.txt", "small")]);
    folder.write("main.lua", HANDLERS);
    for (protocol, io) in MULTIPLEXED.iter().zip(Io::BOTH.into_iter().cycle()) {
        let way = Way { protocol: *protocol, io, form: Form::Folder };
        let start = Start::site(folder.path()).in_way(way);
        case(&start.flags(&["--workers", "1"]).start());
    }
}

#[test]
fn heads_that_handlers_keep_have_a_limit_together() {
    each_connection(|server| {
        let mut client = Client::with_little_room(server);
        let kept: Vec<_> = (0..KEPT).map(|_| client.begin(&large("/wait"))).collect();
        // The heads of others do not count: this is another connection.
        let mut other = Client::with_little_room(server);
        let mut is_waiting = || {
            let waiting = other.exchange(&Request::get("/waiting"));
            (waiting.text() == KEPT.to_string()).then_some(())
        };
        wait_for("all requests", &mut is_waiting);
        for target in ["/wait", "/at-once", "/small.txt"] {
            assert_eq!(client.exchange(&large(target)).status, 431, "{target}");
            assert_eq!(other.exchange(&large("/at-once")).text(), FIELD_BYTES.to_string());
        }
        assert_eq!(client.exchange(&Request::get("/small.txt")).text(), "small");
        assert_eq!(other.exchange(&Request::get("/go")).status, 200);
        for request in kept {
            assert_eq!(client.finish(request, b"").text(), FIELD_BYTES.to_string());
        }
        // Ended requests do not count any more.
        assert_eq!(client.exchange(&large("/wait")).text(), FIELD_BYTES.to_string());
    });
}

#[test]
fn heads_of_completed_requests_do_not_count() {
    each_connection(|server| {
        let mut client = Client::with_little_room(server);
        for _ in 0..2 * KEPT {
            assert_eq!(client.exchange(&large("/at-once")).text(), FIELD_BYTES.to_string());
            assert_eq!(client.exchange(&large("/small.txt")).text(), "small");
        }
    });
}

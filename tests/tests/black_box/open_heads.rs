//! Heads that handlers keep: over HTTP/2 and HTTP/3, a few bytes may be the head of a request as
//! large as any, so those of one connection have a limit together.

use pinion_tests::client::Client;
use pinion_tests::folder::Folder;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};

/// Protocols whose connections carry many requests at once.
const MULTIPLEXED: &[Protocol] = &[Protocol::Http2, Protocol::Http2Clear, Protocol::Http3];

/// The limit (`OPEN_HEADS_MAX_BYTES`).
const OPEN_HEADS_MAX_BYTES: usize = 256 << 10;
/// One field of a head: below the limit of a head, with all others.
const FIELD_BYTES: usize = 15 << 10;
/// Requests at once: their heads are above the limit.
const REQUESTS: usize = 30;

/// Requests for `/wait` are responded to once there was one for `/go`.
const HANDLERS: &str = r#"
local has_gone = false

pinion.get("/wait", function(req)
    while not has_gone do pinion.sleep(0.01) end
    return #req:field("X-Field")
end)

pinion.get("/at-once", function(req) return #req:field("X-Field") end)

pinion.get("/go", function()
    has_gone = true
    return "gone"
end)
"#;

fn large(target: &str) -> Request {
    Request::get(target).field("X-Field", &"x".repeat(FIELD_BYTES))
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
        let waiting: Vec<_> = (0..REQUESTS).map(|_| client.begin(&large("/wait"))).collect();
        // The heads of others do not count: this is another connection.
        let mut other = Client::with_little_room(server);
        assert_eq!(other.exchange(&large("/at-once")).text(), FIELD_BYTES.to_string());
        assert_eq!(other.exchange(&Request::get("/go")).status, 200);
        let statuses: Vec<_> =
            waiting.into_iter().map(|it| client.finish(it, b"").status).collect();
        let kept = OPEN_HEADS_MAX_BYTES / FIELD_BYTES - 1;
        let (first, others) = statuses.split_at(kept);
        assert_eq!(first, vec![200; kept]);
        assert!(others.iter().all(|status| *status == 431), "{statuses:?}");
        // What has ended does not count any more.
        assert_eq!(client.exchange(&large("/wait")).text(), FIELD_BYTES.to_string());
    });
}

#[test]
fn heads_of_requests_that_are_over_do_not_count() {
    each_connection(|server| {
        let mut client = Client::with_little_room(server);
        for _ in 0..REQUESTS {
            assert_eq!(client.exchange(&large("/at-once")).text(), FIELD_BYTES.to_string());
            assert_eq!(client.exchange(&large("/small.txt")).text(), "small");
        }
    });
}

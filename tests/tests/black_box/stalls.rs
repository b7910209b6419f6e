//! Clients that stop in the middle and stay connected: each of the long timeouts of
//! docs/serving.md, over real sockets and every protocol. They are constants of 10 to 90 seconds,
//! so this only runs in `cargo xtask test --long`: feature `long`. The timeout of heads over HTTP/1
//! is in `client_limits.rs` too.

mod http1;
mod http2;
mod http3;

use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// More than the buffers of both ends of a connection can hold.
const LARGE_BYTES: usize = 16 << 20;
/// Rounds of one second: longer than any response to a slow client may stall.
const SLOW_ROUNDS: usize = 45;
/// Rounds of one second: longer than a window may stay closed, or a connection be idle.
const LONG_ROUNDS: usize = 120;

/// A handler that waits for content, one that has begun its response before, and one that never
/// ends.
const HANDLERS: &str = r#"
pinion.post("/echo", function(req) return req:body() end)
pinion.post("/begun", function(req, res)
    res:write("begun"):flush()
    return req:body()
end)
pinion.get("/never", function() pinion.sleep(3600) end)
"#;

/// The behaviour of a client that stops, and the assertions about it.
type Stall = fn(&Server);

fn stalls(protocol: Protocol) -> &'static [Stall] {
    match protocol {
        Protocol::Http1 | Protocol::Http1Tls => http1::ALL,
        Protocol::Http2 | Protocol::Http2Clear => http2::ALL,
        Protocol::Http3 => http3::ALL,
    }
}

#[test]
fn stalled_exchanges_time_out_and_others_continue() {
    let folder = Folder::with("stalls", [("site/main.lua", HANDLERS)]);
    folder.write("site/public_html/index.html", "home");
    folder.write("site/public_html/large.bin", vec![b'x'; LARGE_BYTES]);
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    // All run at once, because they wait far more than they work.
    thread::scope(|scope| {
        for &protocol in Protocol::SPOKEN {
            for io in Io::BOTH {
                let folder = &folder;
                scope.spawn(move || all_at_once(protocol, io, folder));
            }
        }
    });
}

/// Runs all cases on one worker, so that they affect each other.
fn all_at_once(protocol: Protocol, io: Io, folder: &Folder) {
    let archive = [folder.join("site.pinion")];
    let way = Way { protocol, io, form: Form::Archive };
    let socket = folder.join(format!("{}.sock", io.as_str()));
    let listen = format!("unix:{}", socket.display());
    // The time limit of handlers exceeds the waits.
    let flags = ["--workers", "1", "--lua-time", "3600"];
    let mut start = Start::serve(&archive).in_way(way).flags(&flags);
    let also_unix = protocol == Protocol::Http1;
    if also_unix {
        start = start.flags(&["--listen", &listen]);
    }
    let server = start.start();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let each = stalls(protocol).iter().map(|stall| scope.spawn(|| stall(&server)));
        let mut each: Vec<_> = each.collect();
        if also_unix {
            each.push(scope.spawn(|| http1::unread_answers_on_a_unix_socket(&socket)));
        }
        scope.spawn(|| canary(&server, &over));
        let ends: Vec<_> = each.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        assert!(ends.iter().all(Result::is_ok), "{protocol:?} over {io:?}: see above");
    });
    server.stop();
}

/// Runs a well-behaved client until the end.
fn canary(server: &Server, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let mut client = server.client();
        assert_eq!(client.exchange(&Request::get("/")).text(), "home");
        assert_eq!(client.exchange(&Request::head("/large.bin")).status, 200);
        let asked = Request::new("POST", "/echo").body(b"echo");
        assert_eq!(client.exchange(&asked).text(), "echo");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Returns a request of whose content only half will be sent.
fn to_half(target: &str) -> Request {
    Request::new("POST", target).body(&[b'x'; 100])
}

//! No static response allocates memory, from the first byte of a request to the last byte of its
//! response: the whole program serves a site in this process, under an allocator that counts the
//! calls of its workers. Where memory is allocated, the allocation may fail.

mod counting_allocator;
mod exhaustion;
mod site;
mod zero_copy_page;

use counting_allocator::{Counting, counted};
use site::Site;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Rounds before the count, in which tables, queues and spare buffers reach their size.
const WARM_UP_ROUNDS: usize = 200;
/// Counted rounds: enough to show a rare allocation too.
const ROUNDS: usize = 1000;

/// The parts of a response that tests check.
struct Response {
    status: String,
    entity_tag: String,
    content_bytes: usize,
}

/// Sends `request` and reads this many responses; returns the first one.
fn exchange(stream: &mut UnixStream, request: &[u8], responses: usize) -> Response {
    stream.write_all(request).expect("sent");
    let mut held = Vec::new();
    let mut first = None;
    for _ in 0..responses {
        let head_bytes = loop {
            match held.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => more(stream, &mut held),
            }
        };
        let head = String::from_utf8(held[..head_bytes].to_vec()).expect("text");
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let status = head.split(' ').nth(1).expect("a status").to_owned();
        let bodiless = status == "304" || request.starts_with(b"HEAD");
        let body_bytes = match field("Content-Length: ") {
            Some(length) if !bodiless => length.parse().expect("a number"),
            _ => 0,
        };
        while held.len() < head_bytes + body_bytes {
            more(stream, &mut held);
        }
        held.drain(..head_bytes + body_bytes);
        let entity_tag = field("ETag: ").unwrap_or_default().to_owned();
        first.get_or_insert(Response { status, entity_tag, content_bytes: body_bytes });
    }
    assert!(held.is_empty(), "more than was asked for");
    first.expect("an answer")
}

fn more(stream: &mut UnixStream, held: &mut Vec<u8>) {
    let mut buffer = [0; 16 * 1024];
    let count = stream.read(&mut buffer).expect("an answer in time");
    assert!(count > 0, "the server has closed");
    held.extend_from_slice(&buffer[..count]);
}

fn request(method_and_target: &str, fields: &str) -> Vec<u8> {
    format!("{method_and_target} HTTP/1.1\r\nHost: example.org\r\n{fields}\r\n").into_bytes()
}

/// Returns every kind of response: its name, the request, the number of responses, and the status.
fn kinds(tag: &str) -> Vec<(&'static str, Vec<u8>, usize, &'static str)> {
    let get = |target: &str, fields: &str| request(&format!("GET {target}"), fields);
    let codings = "Accept-Encoding: gzip, br\r\n";
    vec![
        ("plain", get("/index.html", ""), 1, "200"),
        ("index", get("/", ""), 1, "200"),
        ("clean URL", get("/about", ""), 1, "200"),
        ("coded", get("/about.html", codings), 1, "200"),
        ("HEAD", request("HEAD /about", ""), 1, "200"),
        ("404", get("/nothing/here", ""), 1, "404"),
        ("304", get("/", &format!("If-None-Match: {tag}\r\n")), 1, "304"),
        ("redirect", get("/docs?a=b", ""), 1, "308"),
        ("range", get("/middle.bin", "Range: bytes=100-200\r\n"), 1, "206"),
        ("ranges", get("/middle.bin", "Range: bytes=1-2,5-9,-1\r\n"), 1, "206"),
        ("not allowed", request("DELETE /", ""), 1, "405"),
        ("mapped", get("/middle.bin", ""), 1, "200"),
        ("large", get("/large.bin", ""), 1, "200"),
        (
            "body dropped",
            [request("POST /", "Content-Length: 5\r\n"), b"12345".to_vec()].concat(),
            1,
            "405",
        ),
        ("pipelined", get("/", "").repeat(16), 16, "200"),
    ]
}

fn no_response_takes_memory(name: &str, flags: &[&str]) {
    let site = Site::serve(name, flags);
    let tag = exchange(&mut site.connect(), &request("GET /", ""), 1).entity_tag;
    for (kind, request, responses, status) in kinds(&tag) {
        let mut stream = site.connect();
        let mut rounds = |count: usize| {
            for _ in 0..count {
                assert_eq!(exchange(&mut stream, &request, responses).status, status, "{kind}");
            }
        };
        rounds(WARM_UP_ROUNDS);
        let calls = counted(|| rounds(ROUNDS));
        assert_eq!(calls, 0, "{kind}: {calls} calls of the allocator in {ROUNDS} rounds, {name}");
    }
    let one = |_| exchange(&mut site.connect(), &request("GET /", ""), 1);
    (0..WARM_UP_ROUNDS).for_each(|round| drop(one(round)));
    let calls = counted(|| (0..ROUNDS).for_each(|round| drop(one(round))));
    assert_eq!(calls, 0, "one request for each connection: {calls} calls, {name}");
}

fn log_of(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("{name}-{}.log", std::process::id()));
    path.display().to_string()
}

/// Lets tests run one after the other, because they count or refuse the calls of all workers.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn static_responses_allocate_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for io in ["epoll", "uring"] {
        no_response_takes_memory(io, &["--io", io]);
        let log = log_of(io);
        let flags = ["--io", io, "--access-log", &log];
        no_response_takes_memory(&format!("{io}-log"), &flags);
        let lines = fs::read_to_string(Path::new(&log)).expect("the log").lines().count();
        assert!(lines > ROUNDS, "{lines} lines");
        fs::remove_file(&log).expect("removed");
    }
    let worker = thread::Builder::new().name("worker-test".to_owned());
    let calls = counted(|| {
        let allocate = || drop(std::hint::black_box(Box::new(1)));
        worker.spawn(allocate).expect("a thread").join().expect("its end");
    });
    assert!(calls > 0, "the allocator counts");
}

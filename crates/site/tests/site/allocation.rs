//! No response allocates memory, neither for an existing path, nor for a missing one, nor for an
//! error.

use std::alloc::{GlobalAlloc, Layout as AllocLayout, System};
use std::cell::Cell;

use pinion_archive::limits::ERROR_PAGE_MAX_BYTES;
use pinion_archive::{EntryKind, Layout, NewEntry, Role};
use pinion_http::content_coding::Coding;
use pinion_http::field_section::{FieldSection, Fit};
use pinion_http::h1::head_parser::{self, HeadStorage, Parsed};
use pinion_http::h3::event::RequestStreamEvent;
use pinion_http::h3::send;
use pinion_http::h3::session::{Session, SessionSettings};
use pinion_http::h3::unidirectional_streams::UniState;
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::Limits;
use pinion_http::{hpack, qpack};
use pinion_site::host_selection::{HostPattern, Hosts};
use pinion_site::{Pieces, RequestBuffers, respond};

use crate::reference_model::{Rule, Site};
use crate::rules;
use crate::sample_site::{Maker, NOW, archive, get, resource};

/// The system's allocator, which counts the calls of each thread.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more, and runs no test.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is passed to the system's allocator unchanged; counting uses a thread-local
// number that needs neither memory nor a destructor.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the requirements for callers are those of the trait; the same holds for the two
    // methods below.
    unsafe fn alloc(&self, layout: AllocLayout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise about `layout` is the one that the system requires.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as `alloc`.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: AllocLayout) {
        // SAFETY: `pointer` came from `alloc` above, that is from the system, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: as `alloc`.
    unsafe fn realloc(&self, pointer: *mut u8, layout: AllocLayout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`, and the caller promises that `bytes` fits the layout.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn responses_allocate_no_memory() {
    let tag = get("/text.txt").field("ETag").expect("always").to_owned();
    let sixteen: Vec<String> = (0..16).map(|n| format!("{0}-{0}", 2 * n)).collect();
    let requests = [
        "GET /text.txt HTTP/1.1".to_owned(),
        "HEAD /text.txt HTTP/1.1".to_owned(),
        "GET / HTTP/1.1\r\nAccept-Encoding: gzip, deflate, br, zstd".to_owned(),
        "GET / HTTP/1.1\r\nAccept-Encoding: br;q=0.5, gzip;q=0.7, *;q=0.1".to_owned(),
        format!("GET /text.txt HTTP/1.1\r\nIf-None-Match: {tag}"),
        "GET /text.txt HTTP/1.1\r\nIf-Match: \"x\"".to_owned(),
        "GET /text.txt HTTP/1.1\r\nRange: bytes=1-5".to_owned(),
        format!("GET /text.txt HTTP/1.1\r\nRange: bytes={}", sixteen.join(",")),
        "GET /text.txt HTTP/1.1\r\nRange: bytes=99-".to_owned(),
        "GET /large HTTP/1.1".to_owned(),
        "GET /x/../%74ext.txt HTTP/1.1".to_owned(),
        "GET /docs?query HTTP/1.1".to_owned(),
        "GET /text.txt/ HTTP/1.1".to_owned(),
        "GET /search?b HTTP/1.1".to_owned(),
        "GET /app HTTP/1.1".to_owned(),
        "GET /nothing HTTP/1.1".to_owned(),
        "GET /docs/a/b/c/nothing HTTP/1.1".to_owned(),
        format!("GET /{} HTTP/1.1", "%C3%BC/".repeat(1150)),
        "GET /hook HTTP/1.1".to_owned(),
        "POST /text.txt HTTP/1.1\r\nAccept: text/plain".to_owned(),
        "OPTIONS * HTTP/1.1".to_owned(),
    ];
    assert_no_memory(&archive(), &requests);
    let before = CALLS.get();
    drop(std::hint::black_box(Box::new(NOW)));
    assert_eq!(CALLS.get() - before, 1, "the allocator counts");
}

/// The error pages of a site are in memory already.
#[test]
fn error_pages_allocate_no_memory() {
    let mut m = Maker::new();
    let html = m.shared(Role::Ordinary, 405, "type");
    let page = vec![b'x'; ERROR_PAGE_MAX_BYTES as usize];
    let forms = [m.form(Coding::Identity, html, &page)];
    m.entry(&resource("/page", &forms));
    m.error_page(&NewEntry { status: 405, ..resource("/", &forms) });
    let requests = ["POST /page HTTP/1.1", "PUT /page HTTP/1.1\r\nAccept: text/plain"];
    assert_no_memory(&m.finish(), &requests.map(str::to_owned));
}

/// Rules of every kind, with the longest paths and queries among the requests.
#[test]
fn redirects_and_rewrites_allocate_no_memory() {
    let rule = |from: &str, query: &[(&str, &str)], to: &str, status| Rule {
        from: from.to_owned(),
        query: query.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(),
        to: to.to_owned(),
        status,
        ..Rule::default()
    };
    let site = Site {
        pages: ["/page", "/new/page"].map(str::to_owned).into(),
        rules: vec![
            Rule { host: "*.example.com".to_owned(), ..rule("/*", &[], "/page", 200) },
            rule("/old/:x/:y", &[], "/new/:y/:x", 301),
            rule("/exact", &[("k", "v w")], "/new/page", 302),
            rule("/by/query", &[("id", ":id")], "/x/:id?id=:id", 302),
            rule("/deep/*", &[], "/new/:splat", 200),
            rule("/long/*", &[], "/long/:splat/:splat#top", 308),
            rule("/gone/*", &[], "/page", 410),
        ],
        fallbacks: [("/tiles/".to_owned(), 200), ("/".to_owned(), 404)].into(),
        single_page: true,
        ..Site::default()
    };
    let long = "%C3%BC/".repeat(1100);
    let query = "%41{|}".repeat(100);
    let requests = [
        "GET /old/a%20b/c?d HTTP/1.1".to_owned(),
        "GET /exact?a&k=v+%77 HTTP/1.1".to_owned(),
        "GET /exact/ HTTP/1.1".to_owned(),
        format!("GET /by/query?id={query} HTTP/1.1"),
        "GET /deep/page HTTP/1.1".to_owned(),
        format!("GET /deep/{long} HTTP/1.1"),
        format!("GET /long/{long} HTTP/1.1"),
        format!("GET /long/a?{query} HTTP/1.1"),
        "GET /gone/x HTTP/1.1".to_owned(),
        "GET /a%2Fb HTTP/1.1".to_owned(),
        "GET /tiles/7.png HTTP/1.1".to_owned(),
        "GET /page/ HTTP/1.1".to_owned(),
        "GET /nothing HTTP/1.1\r\nSec-Fetch-Mode: navigate".to_owned(),
    ];
    assert_no_memory(&rules::archive(&site), &requests);
}

/// Fields that rules change for unknown paths.
#[test]
fn field_rules_allocate_no_memory() {
    let mut m = Maker::new();
    m.shared(Role::Generated, 0, "");
    m.shared(Role::SlashRedirect, 308, "");
    let html = m.shared(Role::Ordinary, 200, "text/html");
    let page = [m.form(Coding::Identity, html, b"page")];
    m.entry(&resource("/page", &page));
    m.entry(&resource("/docs/page", &page));
    let rewrite =
        NewEntry { kind: EntryKind::Rewrite, target: b"/page", ..resource("/docs/r", &[]) };
    m.entry(&rewrite);
    m.entry(&NewEntry { path: b"/docs/gone", status: 410, ..rewrite });
    m.fallback(&resource("/docs/any/", &page));
    m.fallback(&NewEntry { status: 404, ..resource("/", &page) });
    let long = "x".repeat(8000);
    for (folder, name, value) in [
        ("", "X-A", Some("1")),
        ("/docs", "Vary", Some("Origin, accept-encoding")),
        ("/docs", "Vary", Some("Cookie")),
        ("/docs", "Set-Cookie", Some("a=1")),
        ("/docs", "Set-Cookie", Some("b=2")),
        ("/docs", "X-A", None),
        ("/docs", "Cache-Control", Some("public")),
        ("/long", "X-B", Some(&long)),
        ("/long", "X-C", Some(&long)),
        ("/long", "X-D", Some(&long)),
        ("/long", "X-E", Some(&long)),
        ("/long", "X-F", Some(&long)),
    ] {
        m.field_rule(folder, name, value);
    }
    let requests = [
        "GET /docs/none HTTP/1.1",
        "GET /none HTTP/1.1",
        "GET /long/none HTTP/1.1",
        "POST /docs/page HTTP/1.1",
        "OPTIONS /docs/page HTTP/1.1",
        "GET /docs/page HTTP/1.1\r\nIf-Match: \"x\"",
        "GET /docs/page HTTP/1.1\r\nRange: bytes=99-",
        "GET /docs/page/ HTTP/1.1",
        "GET /docs/any/thing HTTP/1.1",
        "GET /docs/any/thing HTTP/1.1\r\nIf-None-Match: *",
        "GET /docs/any/thing HTTP/1.1\r\nRange: bytes=0-0,2-2",
        "GET /docs/r HTTP/1.1",
        "GET /docs/gone HTTP/1.1",
        "GET /docs/%2F%00 HTTP/1.1",
    ];
    assert_no_memory(&m.finish(), &requests.map(str::to_owned));
}

fn assert_no_memory(bytes: &[u8], requests: &[String]) {
    let layout = Layout::open(bytes).expect("opens");
    let archive = layout.view(bytes);
    let mut work = RequestBuffers::new();
    for request in requests {
        let input = format!("{request}\r\nHost: example.org\r\n\r\n").into_bytes();
        let mut storage = HeadStorage::new();
        let parsed = head_parser::parse(&input, 0, &mut storage, &Limits::default());
        let Ok(Parsed::Head { head, .. }) = parsed else { panic!("{request}: {parsed:?}") };
        let before = CALLS.get();
        let mut pieces = Pieces::new();
        let prepared = respond(&archive, &head, NOW, &mut work, &mut pieces);
        let after = CALLS.get();
        assert!(prepared.status >= 200);
        assert_eq!(after - before, 0, "{request}");
        let (hpack, qpack) = (
            hpack::static_encoder::prepared_bytes(&prepared),
            qpack::static_encoder::prepared_bytes(&prepared),
        );
        let mut out = Vec::with_capacity(hpack + qpack);
        let before = CALLS.get();
        hpack::static_encoder::prepared(&mut out, &prepared, b"");
        assert!(out.len() <= hpack);
        qpack::static_encoder::prepared(&mut out, &prepared, b"");
        assert_eq!(CALLS.get() - before, 0, "{request}: encoded");
    }
}

/// Once a section and the table exist, requests of HTTP/2 and HTTP/3 allocate no memory, whatever
/// they add to the table, even if they exceed the limits.
#[test]
fn field_sections_allocate_no_memory() {
    let mut section = FieldSection::new();
    let mut decoder = Decoder::new(4096);
    let limits = Limits::default();
    let kept = |letter: u8, bytes: u8| {
        [&[0x40, 1, letter, bytes][..], &[letter].repeat(bytes.into())].concat()
    };
    let blocks: Vec<_> =
        (0..200u8).map(|n| [kept(n, n % 120), vec![0x82, 0xbe]].concat()).collect();
    let too_many = [0x82].repeat(1000);
    let too_large = kept(b'x', 126).repeat(500);
    // The table has the most entries when all of them are empty.
    for _ in 0..200 {
        decoder.decode(&[0x40, 0, 0], &mut section, &limits).expect("well-formed");
    }
    let before = CALLS.get();
    for block in blocks.iter().chain([&too_many, &too_large]) {
        decoder.decode(block, &mut section, &limits).expect("well-formed");
    }
    assert_ne!(section.fit(), Fit::Whole);
    for bytes in 0..100 {
        let mut encoded = [0; 102];
        encoded[2..].fill(0xd1);
        let encoded = encoded.get(..2 + bytes).expect("long enough");
        qpack::decoder::decode(encoded, &mut section, &limits).expect("well-formed");
        assert_eq!(section.fields().len(), bytes);
    }
    assert_eq!(CALLS.get() - before, 0);
    drop(std::hint::black_box(Box::new(NOW)));
    assert_eq!(CALLS.get() - before, 1, "the allocator counts");
}

/// Once a connection of HTTP/3 is warm, its requests allocate no memory: an early priority, a head,
/// content, skipped frames, and the frames of a response.
#[test]
fn request_streams_allocate_no_memory() {
    let mut section = FieldSection::new();
    let mut session = Session::new(&SessionSettings::default(), 0);
    let mut control = UniState::default();
    session.uni(&mut control, b"\0", false, 0).expect("a control stream");
    session.uni(&mut control, b"\x04\0", false, 0).expect("SETTINGS");
    // A request with fields of the static table, five bytes of content, and a frame without
    // meaning.
    let request = b"\x01\x08\0\0\xd4\xd7\xc1\x50\x01a\0\x05hello\x21\x02xx";
    let mut out = Vec::with_capacity(100);
    let mut before = 0;
    for round in 0..50u16 {
        // The first request warms the connection up.
        if round == 1 {
            before = CALLS.get();
        }
        let [high, low] = ((4 * (round + 1)) | 0x4000).to_be_bytes();
        let update = [0x80, 0x0f, 0x07, 0, 5, high, low, b'u', b'=', b'1'];
        session.uni(&mut control, &update, false, 0).expect("PRIORITY_UPDATE");
        let mut stream = session.begin(4 * u64::from(round), 0).expect("a stream");
        let (mut at, mut content) = (0, 0);
        while !stream.is_ended() {
            let rest = request.get(at..).expect("used once");
            let mut place = None;
            let step = stream.step(rest, true, &mut session, &mut section, &mut place, 0);
            let step = step.expect("a request");
            at += step.used;
            if let RequestStreamEvent::Data { bytes } = step.event {
                content += bytes.len();
            }
        }
        assert_eq!((at, content), (request.len(), 5));
        assert_eq!(stream.priority().urgency, if round == 0 { 3 } else { 1 });
        out.clear();
        send::head(&mut out, |out| {
            qpack::static_encoder::head(out, 200, [].into_iter(), Some(5), b"");
        });
        send::data(&mut out, 5);
        session.answered(&stream);
    }
    assert_eq!(CALLS.get() - before, 0);
}

#[test]
fn host_selection_allocates_no_memory() {
    let patterns = ["a.org", "*.b.org", "*.deep.b.org"];
    let sites = patterns.map(|text| vec![HostPattern::parse(text).expect("a pattern")]);
    let hosts = Hosts::new(sites.iter().map(Vec::as_slice));
    let asked = ["A.org:80", "x.b.org.", "x.y.deep.b.org", "other", "%61.org", "[::1]:80", "a b"];
    let before = CALLS.get();
    let found = asked.map(|host| hosts.select(Some(host.as_bytes())));
    assert_eq!(CALLS.get(), before);
    assert_eq!(found, [Some(0), Some(1), Some(2), None, None, None, None]);
}

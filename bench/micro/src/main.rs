//! Measures the cost of each station of a static request without the kernel: parse, resolve,
//! encode.
//!
//! `pinion-micro [STATION] [ROUNDS] [CASE]` runs the stations up to one (`parse`, `response`, or
//! `all`, the default; `all-hpack` and `all-qpack` encode for the other versions of HTTP), or a
//! single operation (see `header_compression.rs`, `http3.rs`, and `store.rs` for commands of the
//! store, such as `store-get`). It prints nanoseconds per request and a hash of the results, so
//! that no work can be optimised away. A case is a site and a request, see [`CASES`]. Under
//! `valgrind --tool=callgrind` with few rounds it gives instruction counts, which do not depend on
//! the load of the machine; docs/profiling.md has the commands.

use std::hint::black_box;
use std::io::Cursor;
use std::time::Instant;

use pinion_archive::{
    Digest, ETag, EntryKind, Layout, NewEntry, NewRepresentation, NewRule, NewShared, PathPart,
    Role, SharedId, TargetPart, WriteError, Writer,
};
use pinion_http::content_coding::Coding;
use pinion_http::h1::head_parser::{self, HeadStorage, Parsed};
use pinion_http::h1::response_encoder::{self, ConnectionFields};
use pinion_http::limits::Limits;
use pinion_http::prepared_response::Prepared;
use pinion_http::request_head::RequestHead;
use pinion_http::{hpack, qpack};
use pinion_site::{Pieces, RequestBuffers, respond};

mod header_compression;
mod http3;
mod store;

use header_compression::Compressed;
use http3::Http3;
use store::StoreClient;

const BATCHES: u64 = 100;
const NOW: i64 = 1_800_000_000;
const TAIL: &[u8] = b"Date: Fri, 15 Jan 2027 08:00:00 GMT\r\n\r\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let station = arguments.next().unwrap_or_else(|| "all".to_owned());
    let rounds: u64 = arguments.next().map_or(Ok(2_000_000), |rounds| rounds.parse())?;
    if let Some(mut client) = StoreClient::new(&station) {
        measure(&station, rounds, || client.command());
        return Ok(());
    }
    let name = arguments.next().unwrap_or_else(|| "plain".to_owned());
    let Some(case) = CASES.iter().find(|case| case.name == name) else {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        return Err(format!("no case {name}: {}", names.join(", ")).into());
    };
    let bytes = archive(case.rules)?;
    let layout = Layout::open(&bytes)?;
    let mut bench = Bench {
        // The same bytes as a request of wrk.
        request: format!("GET {} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", case.path).into(),
        bytes: &bytes,
        layout: &layout,
        work: RequestBuffers::new(),
        out: Vec::new(),
        storage: HeadStorage::new(),
        compressed: Compressed::new(),
        http3: Http3::new(),
    };
    let run = match station.as_str() {
        "parse" => |bench: &mut Bench<'_>| bench.parse(),
        "answer" => |bench: &mut Bench<'_>| bench.response(),
        "all" => |bench: &mut Bench<'_>| bench.all(),
        "all-hpack" => |bench: &mut Bench<'_>| bench.all_hpack(),
        "all-qpack" => |bench: &mut Bench<'_>| bench.all_qpack(),
        "hpack" => |bench: &mut Bench<'_>| bench.compressed.again(),
        "hpack-literal" => |bench: &mut Bench<'_>| bench.compressed.literal(),
        "qpack" => |bench: &mut Bench<'_>| bench.compressed.qpack(),
        "h3" => |bench: &mut Bench<'_>| bench.http3.request(),
        "render" => |bench: &mut Bench<'_>| bench.compressed.render(),
        other => return Err(format!("no station {other}").into()),
    };
    measure(&station, rounds, || run(&mut bench));
    Ok(())
}

/// Prints the cost of a round, and a hash of the results.
fn measure(station: &str, rounds: u64, mut run: impl FnMut() -> u64) {
    // The fastest of many batches had the fewest interruptions.
    let (mut hash, mut nanoseconds) = (0u64, f64::INFINITY);
    for _ in 0..BATCHES {
        let began = Instant::now();
        for _ in 0..rounds.div_ceil(BATCHES) {
            hash = hash.rotate_left(5).wrapping_add(run());
        }
        let batch = began.elapsed().as_nanos() as f64 / rounds.div_ceil(BATCHES) as f64;
        nanoseconds = nanoseconds.min(batch);
    }
    println!("{station} {nanoseconds:.1} ns/request, {rounds} rounds, hash {hash:016x}");
}

/// A site and a request.
struct Case {
    name: &'static str,
    rules: Rules,
    path: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Rules {
    None,
    /// 100 patterns, and 2000 redirects of one path each that became entries.
    Compiled,
    /// The same, but the 2000 redirects stayed rules, as they do after a rule for any path; and the
    /// rules are tried before the file.
    Walked,
}

const CASES: &[Case] = &[
    Case { name: "plain", rules: Rules::None, path: "/hello.txt" },
    Case { name: "missing", rules: Rules::None, path: "/nothing" },
    Case { name: "rules-file", rules: Rules::Compiled, path: "/hello.txt" },
    Case { name: "rules-exact", rules: Rules::Compiled, path: "/old/1999" },
    Case { name: "rules-last-pattern", rules: Rules::Compiled, path: "/99-blog/2024/news" },
    Case { name: "rules-missing", rules: Rules::Compiled, path: "/nothing" },
    Case { name: "walked-file", rules: Rules::Walked, path: "/hello.txt" },
    Case { name: "walked-exact", rules: Rules::Walked, path: "/old/1999" },
    Case { name: "walked-missing", rules: Rules::Walked, path: "/nothing" },
];

struct Bench<'a> {
    request: Vec<u8>,
    bytes: &'a [u8],
    layout: &'a Layout,
    work: RequestBuffers,
    out: Vec<u8>,
    storage: HeadStorage,
    compressed: Compressed,
    http3: Http3,
}

impl Bench<'_> {
    fn parse(&mut self) -> u64 {
        let head = parsed(&self.request, &mut self.storage);
        black_box(&head).fields.len() as u64
    }

    /// Parses and resolves.
    fn response(&mut self) -> u64 {
        let head = parsed(&self.request, &mut self.storage);
        let archive = self.layout.view(self.bytes);
        let mut pieces = Pieces::new();
        let response = respond(&archive, &head, NOW, &mut self.work, &mut pieces);
        black_box(&response).content_length.unwrap_or(0)
    }

    /// Parses, resolves and encodes.
    fn all(&mut self) -> u64 {
        self.encoded(|out, response| {
            response_encoder::prepared(out, response, ConnectionFields::Stay, TAIL);
        })
    }

    /// Does the same for HTTP/2, except for parsing.
    fn all_hpack(&mut self) -> u64 {
        self.encoded(|out, response| hpack::static_encoder::prepared(out, response, TAIL))
    }

    /// Does the same for HTTP/3, except for parsing.
    fn all_qpack(&mut self) -> u64 {
        self.encoded(|out, response| qpack::static_encoder::prepared(out, response, TAIL))
    }

    #[inline(always)]
    fn encoded(&mut self, encode: impl Fn(&mut Vec<u8>, &Prepared<'_>)) -> u64 {
        let head = parsed(&self.request, &mut self.storage);
        let archive = self.layout.view(self.bytes);
        let mut pieces = Pieces::new();
        let response = respond(&archive, &head, NOW, &mut self.work, &mut pieces);
        self.out.clear();
        encode(&mut self.out, &response);
        black_box(&self.out).len() as u64
    }
}

fn parsed<'h>(request: &'h [u8], storage: &'h mut HeadStorage) -> RequestHead<'h> {
    match head_parser::parse(black_box(request), 0, storage, &Limits::default()) {
        Ok(Parsed::Head { head, .. }) => head,
        _ => unreachable!("the request is whole and correct"),
    }
}

/// Returns a site of a thousand pages and the requested 13-byte file.
fn archive(rules: Rules) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut writer = Writer::new(Cursor::new(Vec::new()))?;
    let fields = [
        ("Cache-Control", "max-age=0, must-revalidate"),
        ("Accept-Ranges", "bytes"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "strict-origin-when-cross-origin"),
        ("X-Frame-Options", "SAMEORIGIN"),
    ];
    let media_type = "text/plain; charset=utf-8";
    let shared = writer.shared(&NewShared {
        role: Role::Ordinary,
        status: 200,
        content_type: Some(media_type),
        fields: &fields,
        not_modified: &fields[..1],
    })?;
    let mut add = |path: &[u8], content: &[u8]| -> Result<(), Box<dyn std::error::Error>> {
        let digest = Digest::of(content);
        let body = writer.body(&digest, content)?;
        let etag = ETag::of(&digest, media_type.as_bytes(), Coding::Identity);
        writer.entry(&NewEntry {
            kind: EntryKind::Resource,
            status: 200,
            path,
            target: b"",
            keeps_query: false,
            rules_first: rules == Rules::Walked,
            has_variant: false,
            modified: Some(NOW - 1000),
            shared: Some(shared),
            representations: &[NewRepresentation { coding: Coding::Identity, shared, body, etag }],
        })?;
        Ok(())
    };
    add(b"/hello.txt", b"hello world!\n")?;
    for number in 0..1000 {
        add(format!("/pages/{number}.txt").as_bytes(), format!("page {number}\n").as_bytes())?;
    }
    if rules != Rules::None {
        add_rules(&mut writer, rules, shared)?;
    }
    let (_, out) = writer.finish(&[])?;
    Ok(out.into_inner())
}

fn add_rules(
    writer: &mut Writer<Cursor<Vec<u8>>>,
    rules: Rules,
    shared: SharedId,
) -> Result<(), WriteError> {
    if rules == Rules::Walked {
        writer.rule(&NewRule {
            force: true,
            host: Some(b"old.example.org"),
            path: &[PathPart::Rest { prefix: b"" }],
            target: &[TargetPart::Literal(b"https://example.org/"), TargetPart::Capture(0)],
            ..NewRule::EMPTY
        })?;
    }
    for number in 0..2000 {
        let name = number.to_string();
        let target = format!("/new/{number}");
        for path in [format!("/old/{number}"), format!("/old/{number}/")] {
            if rules == Rules::Compiled {
                writer.entry(&NewEntry {
                    kind: EntryKind::Redirect,
                    status: 301,
                    path: path.as_bytes(),
                    target: target.as_bytes(),
                    keeps_query: true,
                    rules_first: false,
                    has_variant: false,
                    modified: None,
                    shared: Some(shared),
                    representations: &[],
                })?;
            }
        }
        if rules == Rules::Walked {
            writer.rule(&NewRule {
                path: &[PathPart::Literal(b"old"), PathPart::Literal(name.as_bytes())],
                target: &[TargetPart::Literal(target.as_bytes())],
                keeps_query: true,
                ..NewRule::EMPTY
            })?;
        }
    }
    for number in 0..100 {
        let first = format!("{number}-blog");
        let year = [PathPart::Literal(first.as_bytes()), PathPart::Capture, PathPart::Capture];
        let target = [
            TargetPart::Literal(b"/news/"),
            TargetPart::Capture(1),
            TargetPart::Literal(b"/"),
            TargetPart::Capture(0),
        ];
        let rule = NewRule { path: &year, target: &target, keeps_query: true, ..NewRule::EMPTY };
        writer.rule(&rule)?;
    }
    Ok(())
}

//! curl, the most common client: each kind of its requests, checked by its report of the response.

use pinion_tests::body::noise;
use pinion_tests::external_programs::output;
use pinion_tests::matrix::{Io, Matrix};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;

const LARGE_BYTES: usize = 2 << 20;
/// curl sends `Expect: 100-continue` by default from this size on, and it is more than the server
/// accepts.
const UPLOAD_BYTES: usize = (1 << 20) + 1;
const MIDDLE_BYTES: usize = 200_000;

fn text() -> String {
    (0..500).map(|line| format!("line {line} of a text that can be compressed\n")).collect()
}

fn site() -> Folder {
    let folder = Folder::with("curl", [("index.html", "home"), ("docs/index.html", "docs")]);
    folder.write("text.txt", text());
    folder.write("large.bin", noise(LARGE_BYTES));
    folder
}

/// Runs a case with a folder over every protocol that curl knows.
#[track_caller]
fn every_way(site: &Folder, case: impl Fn(&Server)) {
    Matrix::of(site.path()).over(Protocol::is_known_to_curl, "curl").run(case);
}

/// Protocols over which curl can send two requests: Debian's curl fails when it uses an HTTP/2
/// connection again that began without TLS, with any server.
const ASKS_TWICE: fn(Protocol) -> bool =
    |protocol| protocol.is_known_to_curl() && protocol != Protocol::Http2Clear;

/// The report of curl about one response.
struct Got {
    /// The data of `--write-out '%{json}'`.
    report: Value,
    /// The field lines: names in lower case, each with its values.
    fields: Value,
}

impl Got {
    fn number(&self, name: &str) -> u64 {
        self.report[name].as_u64().unwrap_or_else(|| panic!("{name} in {}", self.report))
    }

    fn status(&self) -> u64 {
        self.number("http_code")
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields[name][0].as_str()
    }
}

/// Runs curl; returns its exit code, its report of each response, and all content.
#[track_caller]
fn run<S: AsRef<OsStr>>(server: &Server, arguments: &[S]) -> (Option<i32>, Vec<Got>, Vec<u8>) {
    let mut curl = server.curl();
    curl.args(["--silent", "--no-progress-meter", "--globoff", "--max-time", "50"]);
    let output =
        output(curl.args(["--write-out", "%{stderr}%{json}\n%{header_json}"]).args(arguments));
    let values = serde_json::Deserializer::from_slice(&output.stderr).into_iter::<Value>();
    let values: Vec<Value> = values
        .map(|value| {
            value.unwrap_or_else(|error| panic!("{error}: {}", output.stderr.escape_ascii()))
        })
        .collect();
    let pair = |pair: &[Value]| Got { report: pair[0].clone(), fields: pair[1].clone() };
    (output.status.code(), values.chunks_exact(2).map(pair).collect(), output.stdout)
}

/// Returns one response and its content, from a run that succeeds.
#[track_caller]
fn curl(server: &Server, target: &str, flags: &[&str]) -> (Got, Vec<u8>) {
    let url = server.url(target);
    let (code, mut got, content) = run(server, &[flags, &[&url]].concat());
    assert_eq!((code, got.len()), (Some(0), 1), "curl {flags:?} {url}");
    (got.remove(0), content)
}

#[test]
fn get_and_head() {
    every_way(&site(), |server| {
        for (target, expected) in [("/", b"home".to_vec()), ("/docs/", b"docs".to_vec())]
            .into_iter()
            .chain([("/text.txt", text().into_bytes()), ("/large.bin", noise(LARGE_BYTES))])
        {
            let (got, content) = curl(server, target, &[]);
            let version = if server.protocol().is_http1() { "1.1" } else { "2" };
            assert_eq!((got.status(), got.report["http_version"].as_str()), (200, Some(version)));
            assert!(content == expected, "{target}");
            let (head, nothing) = curl(server, target, &["--head"]);
            assert_eq!((head.status(), head.number("size_download")), (200, 0));
            assert!(!nothing.is_empty(), "curl shows the head of an answer to HEAD");
            assert_eq!(head.field("content-length"), Some(expected.len().to_string().as_str()));
        }
        let (got, _) = curl(server, "/nothing", &[]);
        assert_eq!((got.status(), got.number("num_headers") > 0), (404, true));
        let (code, _, _) = run(server, &["--fail", &server.url("/nothing")]);
        assert_eq!(code, Some(22), "curl --fail takes 404 for one");
    });
}

#[test]
fn ranges() {
    let noise = noise(LARGE_BYTES);
    every_way(&site(), |server| {
        for (range, expected) in [
            ("0-0", &noise[..1]),
            ("100-199", &noise[100..200]),
            ("-500", &noise[LARGE_BYTES - 500..]),
            ("2000000-", &noise[2_000_000..]),
        ] {
            let (got, content) = curl(server, "/large.bin", &["--range", range]);
            assert_eq!(got.status(), 206, "{range}");
            assert!(content == expected, "{range}");
        }
        let (got, content) = curl(server, "/large.bin", &["--range", "5-9,1000-1009"]);
        assert_eq!(got.status(), 206);
        assert!(got.field("content-type").is_some_and(|kind| kind.starts_with("multipart/")));
        for part in [&noise[5..10], &noise[1000..1010]] {
            assert!(content.windows(part.len()).any(|window| window == part));
        }
    });
}

#[test]
fn a_download_that_broke_off_is_resumed() {
    let (noise, workshop) = (noise(LARGE_BYTES), Folder::new("resumed"));
    every_way(&site(), |server| {
        for bytes in [0, 1, 1_000_000, LARGE_BYTES - 1, LARGE_BYTES] {
            workshop.write("part.bin", &noise[..bytes]);
            let path = workshop.join("part.bin");
            let flags = ["--continue-at", "-", "--output", path.to_str().expect("a path")];
            let (got, _) = curl(server, "/large.bin", &flags);
            let status = if bytes == 0 {
                200
            } else if bytes == LARGE_BYTES {
                416
            } else {
                206
            };
            assert_eq!(got.status(), status, "from byte {bytes}");
            assert!(fs::read(&path).expect("the file") == noise, "from byte {bytes}");
        }
    });
}

#[test]
fn unmodified_content_is_not_sent_again() {
    let workshop = Folder::new("conditional");
    let path = |name: &str| workshop.join(name).to_str().expect("a path").to_owned();
    let (tag, page) = (path("tag"), path("page"));
    every_way(&site(), |server| {
        let (got, _) = curl(server, "/text.txt", &["--etag-save", &tag, "--output", &page]);
        assert_eq!(got.status(), 200);
        // The time of a local copy, and times before and after all.
        for (condition, status) in [
            (page.as_str(), 304),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
            ("-Sun, 06 Nov 1994 08:49:37 GMT", 412),
        ] {
            let (got, _) = curl(server, "/text.txt", &["--time-cond", condition]);
            assert_eq!(got.status(), status, "{condition}");
        }
        let (got, content) = curl(server, "/text.txt", &["--etag-compare", &tag]);
        assert_eq!((got.status(), content.len()), (304, 0));
        let (got, content) = curl(server, "/", &["--etag-compare", &tag]);
        assert_eq!((got.status(), content.as_slice()), (200, b"home".as_slice()));
    });
}

#[test]
fn curl_decodes_every_coding() {
    let (site, text) = (site(), text());
    Matrix::of(site.path())
        .build(&["--codings", "gzip,br,zstd"])
        .over(Protocol::is_known_to_curl, "curl")
        .run(|server| {
            let (got, content) = curl(server, "/text.txt", &["--compressed"]);
            assert!(got.field("content-encoding").is_some(), "curl offers all it knows");
            assert_eq!(String::from_utf8(content).expect("text"), text);
            for coding in ["gzip", "br", "zstd", "identity"] {
                let accept = format!("Accept-Encoding: {coding}");
                let (got, content) =
                    curl(server, "/text.txt", &["--compressed", "--header", &accept]);
                let sent = got.field("content-encoding").unwrap_or("identity");
                assert_eq!((got.status(), sent), (200, coding));
                assert_eq!(String::from_utf8(content).expect("text"), text, "{coding}");
                let received = got.number("size_download") as usize;
                assert_eq!(
                    received < text.len(),
                    coding != "identity",
                    "{received} bytes as {coding}"
                );
            }
            // RFC 9112 §7.4: the server knows no transfer coding but chunked, so it uses none.
            let (got, content) = curl(server, "/text.txt", &["--tr-encoding"]);
            assert_eq!((got.field("transfer-encoding"), content.len()), (None, text.len()));
        });
}

#[test]
fn one_connection_serves_request_after_request() {
    Matrix::of(site().path()).http1_only("how HTTP/1 uses a connection").run(|server| {
        let targets = ["/", "/large.bin", "/nothing", "/docs", "/text.txt", "/", "/docs/"];
        let urls = targets.map(|target| server.url(target));
        let (code, got, _) = run(server, &urls);
        let statuses: Vec<u64> = got.iter().map(Got::status).collect();
        assert_eq!((code, statuses), (Some(0), vec![200, 200, 404, 308, 200, 200, 200]));
        let connects: Vec<u64> = got.iter().map(|got| got.number("num_connects")).collect();
        assert_eq!(connects, [1, 0, 0, 0, 0, 0, 0]);

        let url = server.url("/");
        for (flags, connects) in [
            (&["--http1.0"][..], [1, 1]),
            (&["--http1.0", "--header", "Connection: keep-alive"], [1, 0]),
            (&["--header", "Connection: close"], [1, 1]),
            // An upgrade to HTTP/2 is offered and not accepted.
            (&["--http2"], [1, 0]),
            (&["--data", "a small form"], [1, 0]),
        ] {
            let (code, got, _) = run(server, &[flags, &[&url, &url]].concat());
            let found: Vec<u64> = got.iter().map(|got| got.number("num_connects")).collect();
            assert_eq!((code, found), (Some(0), connects.to_vec()), "{flags:?}");
        }
    });
}

#[test]
fn many_transfers_at_once() {
    Matrix::of(site().path()).over(ASKS_TWICE, "more than one request").run(|server| {
        let url = server.url("/text.txt");
        let urls: Vec<&str> = vec![url.as_str(); 200];
        let flags = ["--parallel", "--parallel-immediate", "--parallel-max", "50"];
        let (code, got, content) = run(server, &[&flags[..], &urls].concat());
        assert_eq!((code, got.len(), content.len()), (Some(0), 200, 200 * text().len()));
        assert!(got.iter().all(|got| got.status() == 200));
    });
}

#[test]
fn uploads_get_a_final_response() {
    let workshop = Folder::new("uploads");
    workshop.write("small", "a small upload");
    workshop.write("middle", vec![b'x'; MIDDLE_BYTES]);
    workshop.write("large", vec![b'x'; UPLOAD_BYTES]);
    let at = |name: &str| format!("@{}", workshop.join(name).display());
    let path = |name: &str| workshop.join(name).display().to_string();
    let (small, middle, large) = (at("small"), at("middle"), at("large"));
    let (small_path, middle_path) = (path("small"), path("middle"));
    let large_path = path("large");
    let chunked = ["--header", "Transfer-Encoding: chunked"];
    // curl adds the name of the file to a target that ends in a slash.
    let target = "/index.html";
    every_way(&site(), |server| {
        for (flags, status) in [
            (&["--data-binary", &small][..], 405),
            (&["--upload-file", &small_path], 405),
            (&["--data-binary", &small, chunked[0], chunked[1]], 405),
            (&["--data-binary", &small, "--header", "Expect: 100-continue"], 405),
            (&["--upload-file", &small_path, "--header", "Expect: 100-continue"], 405),
            (&["--form", "file=x;filename=y"], 405),
            // More content than a window of HTTP/2.
            (&["--data-binary", &middle], 405),
            (&["--upload-file", &middle_path], 405),
            // Content over the limit: it is refused before its first byte if curl waits for that,
            // otherwise after it.
            (&["--data-binary", &large], 413),
            (&["--upload-file", &large_path], 413),
            (&["--data-binary", &large, "--header", "Expect:"], 413),
        ] {
            let (got, _) = curl(server, target, flags);
            assert_eq!(got.status(), status, "{flags:?}");
            if status == 405 {
                assert_eq!(got.field("allow"), Some("GET, HEAD, OPTIONS"), "{flags:?}");
            }
        }
        // With the expectation, which curl uses over HTTP/1 only, no content is sent.
        if server.protocol().is_http1() {
            let (got, _) = curl(server, target, &["--data-binary", &large]);
            assert_eq!(got.number("size_upload"), 0);
            let (got, _) = curl(server, target, &["--data-binary", &small, "--http1.0"]);
            assert_eq!(got.status(), 405);
        }
        assert_eq!(curl(server, "/", &[]).1, b"home");
    });
}

#[test]
fn redirects_are_followed_with_their_query() {
    Matrix::of(site().path()).over(ASKS_TWICE, "more than one request").run(|server| {
        let (got, content) = curl(server, "/docs?a=b&c", &["--location"]);
        assert_eq!((got.status(), got.number("num_redirects")), (200, 1));
        assert_eq!(got.report["url_effective"], Value::from(server.url("/docs/?a=b&c")));
        assert_eq!(content, b"docs");
    });
}

#[test]
fn dot_segments_are_removed_by_the_server_too() {
    every_way(&site(), |server| {
        for (target, status) in [
            ("/docs/../", 200),
            ("/./docs/./", 200),
            ("/docs/%2e%2E/index.html", 200),
            ("/..", 400),
            ("/docs/../../index.html", 400),
            ("/%2e%2e/index.html", 400),
        ] {
            assert_eq!(curl(server, target, &["--path-as-is"]).0.status(), status, "{target}");
        }
        // Without the flag curl removes literal dot segments.
        assert_eq!(curl(server, "/docs/../../index.html", &[]).0.status(), 200);
    });
}

#[test]
fn options_delete_and_proxy_requests_get_their_statuses() {
    every_way(&site(), |server| {
        let (got, content) = curl(server, "/", &["--request", "OPTIONS"]);
        assert_eq!((got.status(), content.len()), (204, 0));
        assert_eq!(got.field("allow"), Some("GET, HEAD, OPTIONS"));
        let all = ["--request", "OPTIONS", "--request-target", "*"];
        assert_eq!(curl(server, "/", &all).0.status(), 204);
        assert_eq!(curl(server, "/", &["--request", "DELETE"]).0.status(), 405);
        // Requests for a proxy are sent with HTTP/1.
        if server.protocol() != Protocol::Http1 {
            return;
        }
        // To a proxy curl sends the absolute form, which an origin server accepts (RFC 9112
        // §3.2.2).
        let proxy = server.url("/");
        let flags = ["--proxy", &proxy, "--noproxy", "nobody.invalid", "http://site.invalid/docs/"];
        let (code, got, content) = run(server, &flags);
        assert_eq!((code, got[0].status(), content.as_slice()), (Some(0), 200, b"docs".as_slice()));
        // A tunnel is refused.
        let (_, got, _) = run(server, &[&["--proxytunnel"], &flags[..]].concat());
        assert_eq!(got[0].number("http_connect"), 501);
    });
}

#[test]
fn curl_reaches_ipv6_and_unix_socket_listeners() {
    let (site, workshop) = (site(), Folder::new("socket"));
    for io in Io::BOTH {
        let socket = workshop.join("socket");
        let listen = format!("unix:{}", socket.display());
        let flags = ["--listen", "[::1]:0", "--listen", &listen, "--io", io.as_str()];
        let server = Start::site(site.path()).flags(&flags).start();
        let line = server.wait_for_line(0, |line| line.starts_with("listening http://[::1]:"));
        let url = line.strip_prefix("listening ").expect("a URL");
        let (code, got, content) = run(&server, &["--ipv6", url]);
        assert_eq!((code, got[0].report["remote_ip"].as_str()), (Some(0), Some("::1")));
        assert_eq!(content, b"home");

        server.wait_for_line(0, |line| line.contains("unix:"));
        let path = socket.to_str().expect("a path");
        let two = ["--unix-socket", path, "http://localhost/", "http://localhost/large.bin"];
        let (code, got, content) = run(&server, &two);
        assert_eq!((code, content.len()), (Some(0), 4 + LARGE_BYTES));
        assert_eq!(got[1].number("num_connects"), 0);
        assert_eq!(curl(&server, "/", &[]).1, b"home");
        server.stop();
        assert!(!socket.exists(), "the socket goes with its server");
    }
}

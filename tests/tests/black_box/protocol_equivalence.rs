//! A request gets the same response over every protocol. The responses over plain HTTP/1 are the
//! reference for all others; a request that is added to a list below is tried over all protocols.

use pinion_tests::binary::source_root;
use pinion_tests::client::Broken;
use pinion_tests::matrix::Matrix;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use std::cell::RefCell;

/// The most lines and bytes of a head.
const FIELDS_MAX: usize = 100;
const HEAD_MAX_BYTES: usize = 16 * 1024;

/// The most content of one request.
const CONTENT_MAX_BYTES: usize = 1 << 20;

/// Fields about the transport, which differs, and the time, which advances.
const OF_THE_TRANSPORT: [&str; 6] = [
    "date",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "alt-svc",
    "strict-transport-security",
];

/// The meaning of a response.
#[derive(Debug, PartialEq, Eq)]
struct Meaning {
    status: u16,
    /// Fields by name, in lower case.
    fields: Vec<(String, String)>,
    content: Vec<u8>,
}

impl Meaning {
    fn of(response: Response) -> Meaning {
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
        let mut fields: Vec<_> = response.fields.into_iter().map(lower).collect();
        fields.retain(|(name, _)| !OF_THE_TRANSPORT.contains(&name.as_str()));
        fields.sort_unstable();
        Meaning { status: response.status, fields, content: response.body }
    }

    /// Returns a description of the differences; `None` if there are none.
    fn differs(&self, other: &Meaning) -> Option<String> {
        let missing = |one: &Meaning, two: &Meaning| -> Vec<(String, String)> {
            let is_missing = |field: &&(String, String)| !two.fields.contains(field);
            one.fields.iter().filter(is_missing).cloned().collect()
        };
        (self != other).then(|| {
            format!(
                "{} {:?} {} bytes, not {} {:?} {} bytes",
                other.status,
                missing(other, self),
                other.content.len(),
                self.status,
                missing(self, other),
                self.content.len(),
            )
        })
    }
}

/// Sends each request over each protocol, and reports all responses that differ from those over
/// plain HTTP/1. The requests may depend on the server, such as its entity tags.
#[track_caller]
fn alike(matrix: Matrix<'_>, requests: impl Fn(&Server) -> Vec<Request>) {
    let (measure, differences) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    matrix.full().run(|server| {
        let requests = requests(server);
        let responses = responses(server, &requests);
        if measure.borrow().is_empty() {
            let whole = requests.iter().zip(responses).map(|(request, response)| match response {
                Ok(response) => response,
                Err(broken) => panic!("{}: {broken:?}", shown(request)),
            });
            *measure.borrow_mut() = whole.collect();
            return;
        }
        for ((request, response), wanted) in requests.iter().zip(responses).zip(&*measure.borrow())
        {
            let difference = match response {
                Ok(response) => wanted.differs(&response),
                // RFC 9113 §8.1.1, RFC 9114 §4.1.2: a malformed request may end its stream.
                Err(Broken::Reset(0x1 | 0x10e)) if wanted.status == 400 => None,
                // §10.5.1: a head that is several times too large may end the connection.
                Err(Broken::GivenUp(0xb | 0x107)) if wanted.status == 431 => None,
                Err(broken) => Some(format!("{broken:?}, not {}", wanted.status)),
            };
            let protocol = server.protocol();
            let text = difference.map(|text| format!("{protocol:?} {}: {text}", shown(request)));
            // A difference is reported once, whichever combination shows it.
            let text = text.filter(|text| !differences.borrow().contains(text));
            differences.borrow_mut().extend(text);
        }
    });
    let differences = differences.into_inner();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Sends the requests on one connection while it is open, because a response must not affect the
/// next one.
fn responses(server: &Server, requests: &[Request]) -> Vec<Result<Meaning, Broken>> {
    let mut client = server.client();
    let response = |request: &Request| {
        let mut response = client.try_exchange(request);
        let has_ended = matches!(response, Err(Broken::Closed | Broken::Failed(_)));
        if has_ended && server.protocol().is_http1() {
            // The connection may have ended after the previous response, because of the content of
            // that request.
            client = server.client();
            response = client.try_exchange(request);
        }
        // If only a stream has ended, the connection continues.
        let goes_on = match &response {
            Ok(response) => !response.says_close(),
            Err(broken) => matches!(broken, Broken::Reset(_)),
        };
        if !goes_on {
            client = server.client();
        }
        response.map(Meaning::of)
    };
    requests.iter().map(response).collect()
}

fn shown(request: &Request) -> String {
    let head = request.head_bytes().escape_ascii().to_string();
    format!("{} + {} bytes", &head[..head.len().min(160)], request.content().len())
}

/// Returns each target with GET and with HEAD.
fn got(targets: &[&str]) -> Vec<Request> {
    targets.iter().flat_map(|target| [Request::get(target), Request::head(target)]).collect()
}

/// Returns GET requests with one field each.
fn with(target: &str, name: &str, values: &[&str]) -> Vec<Request> {
    values.iter().map(|value| Request::get(target).field(name, value)).collect()
}

#[test]
fn the_example_site_is_equal_over_all_protocols() {
    // The default levels of a folder and an archive differ.
    let levels = ["--codings", "gzip:6,br:5,zstd:3"];
    alike(Matrix::of(&source_root().join("examples/site")).build(&levels), |server| {
        let mut requests = got(&[
            "/",
            "/index.html",
            "/index",
            "/about",
            "/about/?q",
            "/guide",
            "/guide/",
            "/guide/archives?a=b&c",
            "/assets/style.css",
            "/assets/arrival.4ec9ce19.js",
            "/assets/pinion.png",
            "/favicon.ico",
            "/robots.txt",
            "/nothing",
            "/guide/nothing",
            "/_headers",
        ]);
        let page = server.get("/about");
        let tag = page.field("ETag").expect("a tag");
        let time = page.field("Last-Modified").expect("a time");
        let weak = format!("W/{tag}");
        requests.extend(with("/about", "If-None-Match", &[tag, &weak, "*", "\"x\""]));
        requests.extend(with("/about", "If-Match", &[tag, &weak, "*", "\"x\""]));
        for name in ["If-Modified-Since", "If-Unmodified-Since"] {
            let old = "Sun, 06 Nov 1994 08:49:37 GMT";
            requests.extend(with("/about", name, &[time, old, "yesterday"]));
        }
        let again = Request::head("/about").field("If-None-Match", tag);
        requests.push(again.field("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"));
        let ranges = ["bytes=0-0", "bytes=-5", "bytes=5-", "bytes=0-1, 5-6,-3", "bytes=99999999-"];
        requests.extend(with("/about", "Range", &ranges));
        requests.extend(with("/assets/pinion.png", "Range", &ranges));
        requests.extend(with("/about", "Range", &["lines=1-2", "bytes=5-2", "bytes"]));
        for value in [tag, &weak, "\"x\""] {
            let request = Request::get("/about").field("Range", "bytes=0-9");
            requests.push(request.field("If-Range", value));
        }
        let codings = ["gzip", "br", "zstd", "gzip, br;q=0.5", "identity", "*;q=0", "x, *"];
        for target in ["/about", "/assets/style.css", "/nothing", "/assets/pinion.png"] {
            requests.extend(with(target, "Accept-Encoding", &codings));
        }
        requests.extend(with("/assets/nothing", "Accept", &["text/plain", "text/html", "x/y"]));
        requests
    });
}

#[test]
fn a_site_with_rules_and_pages_is_equal_over_all_protocols() {
    let redirects = "\
/home              /
/news/*            /blog/:splat 302
/posts/:a/:b       /blog/:b/:a
/articles id=:id   /posts/:id/x 301
/app/*             /index.html 200
/cuties            https://www.petsofnetlify.example
/page              /page2/#fragment 301
";
    let headers = "/*\n  X-Frame-Options: DENY\n  Vary: Origin\n/a.css\n  X-Odd: a, b\n  \
                   Set-Cookie: a=1\n";
    let files = ["index.html", "404.html", "_405.html", "_416.html", "docs/404.html"];
    let files = files.into_iter().chain(["a.css", "docs/index.html", "blog/index.html"]);
    let site = Folder::with("one-meaning", files.map(|name| (name, name)));
    site.write("_redirects", redirects);
    site.write("_headers", headers);
    alike(Matrix::of(site.path()), |_| {
        let mut requests = got(&[
            "/",
            "/home",
            "/home?a=b",
            "/news/2024/x%20y?q=1",
            "/posts/1/2",
            "/articles?id=7",
            "/articles",
            "/app/any/where",
            "/cuties",
            "/page?a",
            "/docs",
            "/docs/none",
            "/none",
            "/a.css",
            "/_405.html",
        ]);
        requests.push(Request::new("POST", "/").body(b"x"));
        requests.push(Request::new("POST", "/home").body(b"x"));
        requests.extend(with("/", "Range", &["bytes=99-"]));
        requests.extend(with("/", "Origin", &["https://a.example"]));
        requests
    });
}

/// Two sites, and a host that belongs to neither.
#[test]
fn hosts_are_checked_alike_over_all_protocols() {
    let folder = Folder::with("one-meaning-hosts", [("a/index.html", "a"), ("b/index.html", "b")]);
    let sites = "[[site]]\nhosts = [\"a.test\"]\npath = \"a\"\n\
                 [[site]]\nhosts = [\"*.b.test\"]\npath = \"b\"\n";
    folder.write("pinion.toml", sites);
    let file = folder.join("pinion.toml");
    alike(Matrix::of(&file).folder_only("a configuration is no site to build"), |_| {
        let hosts = ["a.test", "A.Test:8080", "a.test.", "x.b.test", "b.test", "[::1]:80", "c"];
        let bad = ["a b", "a/b", "user@a.test", "a.test:b", "a.test:80:80", "[::1", "a?b", "%zz"];
        let mut requests: Vec<Request> =
            hosts.iter().chain(&bad).map(|host| Request::get("/").host(host)).collect();
        requests.push(Request::get("/").hostless());
        for target in ["http://a.test/", "http://x.b.test/?q", "http://c/", "http://a.test"] {
            requests.push(Request::get(target));
        }
        requests
    });
}

fn small_site() -> Folder {
    Folder::with(
        "one-meaning-small",
        [("index.html", "home"), ("a|b^c", "odd"), ("d/index.html", "d")],
    )
}

#[test]
fn methods_get_equal_responses_over_all_protocols() {
    alike(Matrix::of(small_site().path()), |_| {
        let mut requests = Vec::new();
        let methods = ["POST", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "BREW", "get", "M-X"];
        for target in ["/", "/nothing", "/d"] {
            requests.extend(methods.map(|method| Request::new(method, target)));
        }
        for bytes in [32, 33, 200] {
            requests.push(Request::new(&"M".repeat(bytes), "/"));
        }
        requests.push(Request::new("OPTIONS", "*"));
        requests.push(Request::new("OPTIONS", "http://localhost"));
        requests.push(Request::new("CONNECT", "localhost:80"));
        requests
    });
}

#[test]
fn targets_get_equal_responses_over_all_protocols() {
    alike(Matrix::of(small_site().path()), |_| {
        let mut requests = got(&[
            "/?q={a}|b^`\\",
            "/a|b^c?{",
            "/a%7Cb%5Ec",
            "/d?q={a}|b",
            "/{a}",
            "/a\\b",
            "/?\"",
            "/?<",
            "/?a#b",
            "/a#b",
            "/ü",
            "/a\u{b}b",
            "/..",
            "/%2e%2e/x",
            "/d/../d/",
            "/d/%2e%2E/",
            "/%252e%252e/x",
            "/%",
            "/%zz",
            "/%00",
            "/d%2F",
            "//",
            "//evil.example/..",
            "*",
            "d/",
            "file:/_headers",
        ]);
        for bytes in [8 * 1024, 8 * 1024 + 1, 12 * 1024] {
            requests.push(Request::get(&format!("/{}", "x".repeat(bytes - 1))));
        }
        requests
    });
}

#[test]
fn request_heads_get_equal_responses_over_all_protocols() {
    alike(Matrix::of(small_site().path()), |_| {
        let fields = |count: usize| {
            (0..count).fold(Request::get("/"), |request, at| request.field(&format!("X-{at}"), "y"))
        };
        let mut requests = vec![fields(0), fields(90), fields(150), fields(500)];
        // The last number and size that are accepted, and the first that are not. One of the lines
        // is that of the host.
        requests.extend([fields(FIELDS_MAX - 1), fields(FIELDS_MAX)]);
        let bare = Request::get("/").field("X", "").head_bytes().len();
        for bytes in [HEAD_MAX_BYTES - bare, HEAD_MAX_BYTES + 1 - bare, 10_000, 20_000, 60_000] {
            requests.push(Request::get("/").field("X", "y".repeat(bytes)));
        }
        // Cookies, each in a field of its own except over HTTP/1.
        for bytes in [1, 100, 200] {
            let cookies: Vec<_> =
                (0..120).map(|at| format!("c{at}={}", "v".repeat(bytes))).collect();
            requests.push(Request::get("/").field("Cookie", cookies.join("; ")));
        }
        let front = "a=1; b=2; c=";
        let bare = Request::get("/").field("Cookie", front).head_bytes().len();
        for bytes in [HEAD_MAX_BYTES - bare, HEAD_MAX_BYTES + 1 - bare] {
            requests.push(Request::get("/").field("Cookie", front.to_owned() + &"v".repeat(bytes)));
        }
        requests.push(Request::get(&format!("/{}", "x".repeat(20_000))));
        requests.extend(with("/", "Expect", &["100-continue", "a-miracle"]));
        requests.extend(with("/", "X-Odd", &["\u{e4}\t\u{20ac}", "a, b", "\"", "\\"]));
        requests.extend(with("/", "TE", &["trailers"]));
        requests.extend(with("/", "Cookie", &["a=1", "a=1; b=2"]));
        requests
    });
}

#[test]
fn content_gets_equal_responses_over_all_protocols() {
    let content = vec![b'x'; CONTENT_MAX_BYTES + 1];
    alike(Matrix::of(small_site().path()), |_| {
        let mut requests = Vec::new();
        for method in ["POST", "GET", "BREW"] {
            for bytes in [0, 1, 1000, 100_000, CONTENT_MAX_BYTES, CONTENT_MAX_BYTES + 1] {
                let content = &content[..bytes];
                requests.push(Request::new(method, "/").body(content));
                requests.push(Request::new(method, "/").chunked(content, 7000));
                requests.push(Request::new(method, "/nothing").body(content));
            }
        }
        let waits = Request::new("POST", "/").field("Expect", "100-continue");
        requests.push(waits.clone().body(b"x"));
        requests.push(waits.chunked(b"x", 1));
        requests.push(Request::new("POST", "/d?a").body(b"x"));
        requests.push(Request::get("/"));
        requests
    });
}

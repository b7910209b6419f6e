//! Rules for fields apply to every response for their path, with any status.
//!
//! A site is built twice, with and without a `_headers`, and gets the same requests. Each field of
//! one response is that of the other one, changed according to a plain reading of the rules.

use std::io::Cursor;

use pinion_archive::Layout;
use pinion_builder::Options;
use proptest::prelude::*;

use crate::Temporary;
use crate::archive_client::{Sent, send};
use crate::fields_oracle::{PATTERNS, Rule, expected_values, text};

const NAMES: [&str; 6] = [
    "X-A",
    "Access-Control-Allow-Origin",
    "Cache-Control",
    "Vary",
    "Set-Cookie",
    "X-Frame-Options",
];

const FILES: [&str; 10] = [
    "index.html",
    "a.html",
    "d/b.css",
    "d/e/b",
    "d/e/index.html",
    "d/none/_404.html",
    "e/x.txt",
    "old/_200.html",
    "404.html",
    "_412.html",
];

const REDIRECTS: &str = "\
/d/moved/* /e/:splat
/d/gone/* /a 410
/d/start /e/x.txt 200
/exact /d/b.css 200
/d/y /elsewhere 301
/b/* /d/e/:splat 200
/forced /a 200!
";

/// Requests by method, path and a field, the status of each, and the path of the page that a
/// rewrite sends.
const REQUESTS: [(&str, &str, &str, u16, &str); 38] = [
    ("GET", "/", "", 200, ""),
    ("GET", "/d/b.css", "", 200, ""),
    ("HEAD", "/d/b.css", "", 200, ""),
    ("GET", "/d/b.css", "Range: bytes=0-1", 206, ""),
    ("GET", "/d/b.css", "Range: bytes=0-1,3-4", 206, ""),
    ("GET", "/d/b.css", "If-None-Match: *", 304, ""),
    ("GET", "/d/b.css", "Range: bytes=999-", 416, ""),
    ("GET", "/d/b.css", "If-Match: \"x\"", 412, ""),
    ("POST", "/d/b.css", "", 405, ""),
    ("BREW", "/d/b.css", "", 501, ""),
    ("OPTIONS", "/d/b.css", "", 204, ""),
    ("OPTIONS", "/d/y", "", 204, ""),
    ("OPTIONS", "/d/moved/x", "", 204, ""),
    ("GET", "/d/b.css/", "", 308, ""),
    ("OPTIONS", "/d/b.css/", "", 204, ""),
    ("GET", "/d/e", "", 308, ""),
    ("GET", "/d/y", "", 301, ""),
    ("GET", "/d/moved/x.css", "", 301, ""),
    ("POST", "/d/moved/x.css", "", 301, ""),
    ("GET", "/d/none.css", "", 404, ""),
    ("OPTIONS", "/d/none.css", "", 404, ""),
    ("GET", "/d/none/x", "", 404, ""),
    ("GET", "/old/thing.css", "", 200, ""),
    ("GET", "/old/thing.css", "If-None-Match: *", 304, ""),
    ("POST", "/old/thing.css", "", 405, ""),
    ("GET", "/d/gone/x", "", 410, "/a"),
    ("GET", "/d/start", "", 200, "/e/x.txt"),
    ("GET", "/d/start/", "", 200, "/e/x.txt"),
    ("GET", "/d/start", "If-None-Match: *", 304, "/e/x.txt"),
    ("GET", "/d/start", "Range: bytes=99-", 416, "/e/x.txt"),
    ("GET", "/d/start", "If-Match: \"x\"", 412, "/e/x.txt"),
    ("POST", "/d/start", "", 405, "/e/x.txt"),
    ("OPTIONS", "/d/start", "", 204, "/e/x.txt"),
    ("OPTIONS", "/b/b", "", 204, "/d/e/b"),
    ("GET", "/exact", "Range: bytes=0-1", 206, "/d/b.css"),
    ("GET", "/b/b", "", 200, "/d/e/b"),
    ("GET", "/b/none.css", "", 404, "/d/e/none.css"),
    ("GET", "/forced", "", 200, "/a"),
];

struct Site {
    bytes: Vec<u8>,
    layout: Layout,
}

impl Site {
    fn build(folder: &Temporary) -> Site {
        let options = Options { codings: Vec::new(), ..Options::new(0) };
        let built = pinion_builder::build(&folder.0, &options, Cursor::new(Vec::new()), &());
        let bytes = built.expect("a site").out.into_inner();
        let layout = Layout::open(&bytes).expect("sound");
        Site { bytes, layout }
    }

    fn get(&self, method: &str, path: &str, field: &str) -> Sent {
        let field = if field.is_empty() { String::new() } else { format!("{field}\r\n") };
        let text = format!("{method} {path} HTTP/1.1\r\nHost: example.org\r\n{field}\r\n");
        send(&self.layout, &self.bytes, &text)
    }
}

fn folder() -> Temporary {
    let folder = Temporary::new();
    for file in FILES {
        folder.write(&format!("/{file}"), &format!("content of {file}"));
    }
    folder.write("/_redirects", REDIRECTS);
    folder
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let line = (prop::sample::select(&NAMES), prop::option::weighted(0.75, 0..4_u8));
    let rule = (prop::sample::select(&PATTERNS), prop::collection::vec(line, 1..4));
    prop::collection::vec(rule, 1..7)
}

/// Returns whether a response is never stored, so that rules do not affect the duration.
fn is_never_kept(status: u16) -> bool {
    status >= 400 || status == 204
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rules_apply_to_every_response_for_their_path(rules in rules()) {
        let folder = folder();
        let before = Site::build(&folder);
        folder.write("/_headers", &text(&rules));
        let after = Site::build(&folder);
        for (method, path, field, status, page) in REQUESTS {
            let (was, is) = (before.get(method, path, field), after.get(method, path, field));
            prop_assert_eq!((was.status, is.status), (status, status), "{} {}", method, path);
            let paths: Vec<&str> =
                [path, page].into_iter().filter(|path| !path.is_empty()).collect();
            for name in NAMES {
                let built_in = was.values(name);
                let expected = match name {
                    "Cache-Control" if is_never_kept(status) => built_in,
                    _ => {
                        let built_in = built_in.first().map(String::as_str);
                        expected_values(&rules, &paths, name, built_in)
                    }
                };
                prop_assert_eq!(
                    is.values(name), expected, "{} of {} {} {}\n{}", name, method, path, field,
                    text(&rules)
                );
            }
        }
    }
}

/// The example that people meet: a preflight of a browser fails without the field.
#[test]
fn a_preflight_has_the_fields_of_its_path() {
    let folder = folder();
    folder.write(
        "/_headers",
        "/d/*\n  Access-Control-Allow-Origin: *\n  Access-Control-Allow-Methods: GET\n  \
         Cache-Control: max-age=60\n  Content-Type: text/x-thing\n/d/:name.css\n  \
         Link: </:name.png>; rel=preload\n",
    );
    let site = Site::build(&folder);
    for (method, path, field, status, _) in REQUESTS {
        let sent = site.get(method, path, field);
        let is_below = path.starts_with("/d/") || path == "/d";
        let origin: &[&str] = if is_below { &["*"] } else { &[] };
        let is_page_of_it = ["/exact", "/b/b", "/b/none.css"].contains(&path);
        if !is_page_of_it {
            assert_eq!(sent.values("Access-Control-Allow-Origin"), origin, "{method} {path}");
        }
        if is_never_kept(status) {
            assert_eq!(sent.values("Cache-Control"), ["no-store"], "{method} {path}");
        }
        let types = sent.values("Content-Type");
        assert!(types.len() <= 1, "{types:?}");
        if status >= 300 {
            assert_ne!(types.first().map(String::as_str), Some("text/x-thing"), "{method} {path}");
        }
    }
    let link = |path: &str| site.get("GET", path, "").values("Link").join("; ");
    assert_eq!(link("/d/none.css"), "</none.png>; rel=preload");
    assert_eq!(link("/d/a%22b%2Fc.css"), "</a%22b%2Fc.png>; rel=preload");
    assert_eq!(link("/d/none.js"), "");
}

/// A `Content-Encoding` describes the coding of the files in the folder. No error page has that
/// coding, and neither has a page that replaces another path.
#[test]
fn no_response_has_the_coding_that_a_rule_gives_to_files() {
    let folder = folder();
    let rules = "/*\n  Content-Encoding: gzip\n/d/*\n  Content-Encoding: br\n  X-B: 1\n";
    folder.write("/_headers", rules);
    let site = Site::build(&folder);
    for (method, path, field, ..) in REQUESTS {
        let sent = site.get(method, path, field);
        assert!(sent.values("Content-Encoding").is_empty(), "{method} {path}");
    }
    assert_eq!(site.get("GET", "/d/none.css", "").values("X-B"), ["1"]);
}

/// No client takes a head without end: the fields stay those of `/*` then, and nothing fails.
#[test]
fn fields_too_large_for_a_head_are_omitted() {
    let folder = folder();
    let value = ":splat".repeat(1300);
    folder.write("/_headers", &format!("/*\n  X-B: 1\n/e/*\n  X-A: {value}\n"));
    let site = Site::build(&folder);
    let short = site.get("GET", "/e/a", "");
    assert_eq!(short.values("X-A"), ["a".repeat(1300)]);
    let long = site.get("GET", &format!("/e/{}", "%C3%BC/".repeat(300)), "");
    assert_eq!(
        (long.status, long.values("X-A"), long.values("X-B")),
        (404, vec![], vec!["1".to_owned()])
    );
}

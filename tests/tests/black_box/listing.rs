//! Folders without an index page: with `--listing` they are served as a list of their files, as a
//! page and as JSON.

use pinion_tests::browser::Browser;
use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::Matrix;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const LISTING: &[&str] = &["--listing"];
/// The `Accept` field of a browser that opens a page.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const JSON: &str = "application/json";

/// Names that a careless page would misinterpret.
const ODD_NAMES: [&str; 6] = [
    "a b.txt",
    "javascript:alert(1)",
    "<img src=x onerror=alert(1)>",
    "\"quotes\" & 'more' 100%.txt",
    "%2e%2e",
    "\u{202e}txt.exe",
];

fn site() -> Folder {
    let site = Folder::with(
        "listing",
        [
            ("docs/index.html", "index"),
            ("docs/part/one.txt", "1"),
            ("404.html", "missing"),
            ("files/deep/er/x.bin", "x"),
            ("files/secret.lua", "secret"),
            ("files/.hidden", "hidden"),
            ("files/_404.html", "missing file"),
        ],
    );
    for name in ODD_NAMES {
        site.write(format!("files/{name}"), name);
    }
    let bytes = [&b"files/"[..], b"not-\xff-utf-8"].concat();
    site.write(OsStr::from_bytes(&bytes), "bytes");
    site.write("favicon.ico", "");
    site
}

fn asked(server: &Server, target: &str, accept: &str) -> Response {
    server.exchange(&Request::get(target).field("Accept", accept))
}

fn entries(response: &Response) -> Vec<Value> {
    assert_eq!(response.field("Content-Type"), Some(JSON), "{response}");
    let parsed: Value = serde_json::from_str(response.text()).expect("one JSON document");
    parsed.as_array().expect("an array").clone()
}

#[test]
fn a_folder_listing_is_html_or_json() {
    let site = site();
    Matrix::of(site.path()).explained().build(LISTING).run(|server| {
        let page = asked(server, "/files/", BROWSER);
        assert_eq!((page.status, page.field("Content-Location")), (200, None));
        assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!(page.field("Vary"), Some("Accept, Accept-Encoding"));
        assert!(page.text().contains("<h1><bdi>files</bdi></h1>"), "{page}");
        assert!(!page.text().contains("<img") && !page.text().contains("<script"), "{page}");
        let json = asked(server, "/files/", JSON);
        assert_ne!(json.field("ETag"), page.field("ETag"));
        for response in [&page, &json] {
            for private in ["secret", ".hidden", "_404"] {
                assert!(!response.text().contains(private), "{response}");
            }
        }
        // Other responses do not change: an index page, a file, missing paths.
        assert_eq!(server.get("/docs/").text(), "index");
        assert_eq!(server.get("/files/deep").status, 308);
        assert_eq!(server.get("/files/nothing/").text(), "missing file");
        assert_eq!(server.get("/nothing/").status, 404);
        assert_eq!(server.exchange(&Request::new("POST", "/files/")).status, 405);
    });
}

#[test]
fn without_the_flag_folders_are_not_listed() {
    let site = site();
    Matrix::of(site.path()).explained().run(|server| {
        assert_eq!(server.get("/files/").text(), "missing file");
        // The page is not JSON, so problem details replace it.
        let missing = asked(server, "/files/", JSON);
        let media_type = missing.field("Content-Type");
        assert_eq!((missing.status, media_type), (404, Some("application/problem+json")));
        assert_eq!(server.get("/files").status, 404);
    });
}

/// A client that follows the links of a listing, and of those below it, finds every file.
#[test]
fn every_listed_url_leads_to_its_file() {
    let site = site();
    Matrix::of(site.path()).explained().build(LISTING).run(|server| {
        let (mut folders, mut files) = (vec!["/".to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            let response = asked(server, &folder, JSON);
            if response.field("Content-Type") != Some(JSON) {
                continue;
            }
            for entry in entries(&response) {
                let url = entry["url"].as_str().expect("an address");
                let target = format!("{folder}{}", url.strip_prefix("./").unwrap_or(url));
                if entry["type"] == "directory" {
                    folders.push(target);
                    continue;
                }
                let file = server.get(&target);
                assert_eq!(file.status, 200, "{target}");
                assert_eq!(entry["size"], file.body.len(), "{target}");
                assert_eq!(entry["mtime"].as_str(), file.field("Last-Modified"), "{target}");
                let name = entry["name"].as_str().expect("a name").to_owned();
                if target.starts_with("/files/") && file.text() == name {
                    files.push(name);
                }
            }
        }
        files.sort_unstable();
        let mut expected = ODD_NAMES.to_vec();
        expected.sort_unstable();
        assert_eq!(files, expected);
    });
}

#[test]
fn listings_support_head_conditions_ranges_and_negotiation() {
    let site = site();
    Matrix::of(site.path()).explained().build(LISTING).run(|server| {
        for accept in [BROWSER, JSON] {
            let whole = asked(server, "/files/", accept);
            let head = server.exchange(&Request::head("/files/").field("Accept", accept));
            for name in ["ETag", "Last-Modified", "Content-Length", "Content-Type", "Vary"] {
                assert!(whole.field(name).is_some(), "{name}: {whole}");
                assert_eq!(head.field(name), whole.field(name), "{name}");
            }
            let known = whole.field("ETag").expect("a tag");
            let again = Request::get("/files/").field("Accept", accept);
            let again = server.exchange(&again.field("If-None-Match", known));
            assert_eq!((again.status, again.field("ETag")), (304, Some(known)));
            assert_eq!(again.field("Vary"), whole.field("Vary"));
            let part = Request::get("/files/").field("Accept", accept).field("Range", "bytes=1-4");
            let part = server.exchange(&part);
            assert_eq!((part.status, &*part.body), (206, &whole.body[1..5]));
        }
        for (accept, is_json) in [
            ("*/*", false),
            ("application/*", true),
            ("application/json, text/html;q=0.9", true),
            ("application/json;q=0.5, text/html", false),
            ("application/json, */*;q=0.1", true),
        ] {
            let found = asked(server, "/files/", accept);
            assert_eq!(found.field("Content-Type") == Some(JSON), is_json, "{accept}");
        }
    });
}

#[test]
fn curl_gets_a_page_or_json_by_accept() {
    let site = site();
    let server = Start::site(site.path()).flags(LISTING).start();
    let curl = |arguments: &[&str]| {
        let url = server.url("/files");
        let mut command = program("curl", "curl");
        command.args(["--silent", "--show-error", "--fail", "--location", "--compressed"]);
        String::from_utf8(stdout(command.args(arguments).arg(url))).expect("text")
    };
    assert!(curl(&[]).starts_with("<!doctype html>"));
    let parsed: Value = serde_json::from_str(&curl(&["--header", "Accept: application/json"]))
        .expect("one JSON document");
    assert_eq!(parsed[0]["name"], "deep");
    server.stop();
}

#[test]
fn with_no_index_every_folder_is_listed() {
    let site = site();
    let server = Start::site(site.path()).flags(&["--listing", "--no-index"]).start();
    let names = |target| {
        let entries = entries(&asked(&server, target, JSON));
        entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("/docs/"), ["part", "index.html"]);
    assert_eq!(names("/"), ["docs", "files", "404.html", "favicon.ico"]);
    server.stop();
}

#[test]
fn the_inspecting_commands_show_listings() {
    let folder = Folder::new("listing-tools");
    let (old, new) = (folder.join("old.pinion"), folder.join("new.pinion"));
    let site = Folder::with("listing-site", [("a/x.txt", "x"), ("index.html", "home")]);
    build(site.path(), &old, LISTING);
    site.write("a/y.txt", "y");
    build(site.path(), &new, LISTING);
    let stdout_of = |words: &[&OsStr]| run(words).stdout;
    let listed = stdout_of(&["ls".as_ref(), "--json".as_ref(), new.as_ref()]);
    let listed: Value = serde_json::from_str(&listed).expect("one JSON document");
    let kind = |entry: &Value, kind| entry["kind"] == kind && entry["path"] == "/a/";
    let entries = listed["entries"].as_array().expect("entries");
    for expected in ["listing", "variant"] {
        assert_eq!(entries.iter().filter(|entry| kind(entry, expected)).count(), 1);
    }
    let found = stdout_of(&["inspect".as_ref(), "--json".as_ref(), new.as_ref()]);
    let found: Value = serde_json::from_str(&found).expect("one JSON document");
    assert_eq!((&found["paths"]["listings"], &found["paths"]["variants"]), (&1.into(), &1.into()));
    let diff = stdout_of(&["diff".as_ref(), old.as_ref(), new.as_ref()]);
    assert!(diff.contains("~ /a/ list of what is in it  content"), "{diff}");
    assert!(diff.contains("+ /a/y.txt") && !diff.contains("clients of JSON"), "{diff}");
    let out = folder.join("out");
    stdout_of(&["extract".as_ref(), new.as_ref(), "-o".as_ref(), out.as_ref()]);
    let again = folder.join("again.pinion");
    build(&out, &again, LISTING);
    let diff = stdout_of(&["diff".as_ref(), new.as_ref(), again.as_ref()]);
    assert!(diff.starts_with("the same archive"), "{diff}");
}

#[test]
fn a_browser_styles_listings_under_any_content_security_policy() {
    let site = site();
    let mut browser = Browser::start();
    for policy in ["", "/*\n Content-Security-Policy: default-src 'self'\n"] {
        site.write("_headers", policy);
        let server = Start::site(site.path()).flags(LISTING).start();
        for target in ["/files/", "/files/deep/er/", "/"] {
            let visit = browser.visit(&server.url(target));
            assert!(visit.complaints.is_empty(), "{target}: {:#?}", visit.complaints);
            let style = "getComputedStyle(document.querySelector('table')).borderCollapse";
            assert_eq!(browser.evaluate(style), "collapse", "{target}");
            for width in [320, 390, 1280] {
                browser.resize(width, 800);
                let overhang =
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth";
                assert_eq!(browser.evaluate(overhang), 0, "{target} is wider than {width}");
            }
        }
        browser.visit(&server.url("/files/"));
        let names = "[...document.querySelectorAll('tbody bdi')].map(n => n.textContent).join('|')";
        let shown = browser.evaluate(names);
        let shown = shown.as_str().expect("names");
        assert!(shown.starts_with("deep|\"quotes\" & 'more' 100%.txt|%2e%2e|"), "{shown}");
        assert!(shown.contains("|<img src=x onerror=alert(1)>|"), "{shown}");
        let schemes = "[...document.links].every(link => link.protocol == 'http:')";
        assert_eq!(browser.evaluate(schemes), true);
        server.stop();
    }
}

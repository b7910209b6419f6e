//! Chromium opens the example site without complaints.

use pinion_tests::binary::source_root;
use pinion_tests::browser::{Browser, Encryption, Visit};
use pinion_tests::matrix::{Form, Io, Matrix, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A browser may request the icon at any time; its content does not matter here.
const ICON: &str = "<svg xmlns='http://www.w3.org/2000/svg'/>";

fn example() -> PathBuf {
    source_root().join("examples/site")
}

/// Returns the paths of the example site, each with its media type.
fn listed() -> Vec<(String, String)> {
    let folder = Folder::new("listed");
    let archive = folder.join("site.pinion");
    build(&example(), &archive, &[]);
    let output = run(&["ls".as_ref(), "--json".as_ref(), archive.as_os_str()]).stdout;
    let output: Value = serde_json::from_str(&output).expect("one JSON document");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = output["entries"].as_array().expect("entries").iter();
    let entries = entries.map(|entry| (text(&entry["path"]), text(&entry["media_type"])));
    entries.filter(|(path, _)| path.starts_with('/')).collect()
}

#[test]
fn every_page_of_the_example_site_loads_without_a_complaint() {
    let mut browser = Browser::start();
    for io in Io::BOTH {
        let server = Start::site(&example()).flags(&["--io", io.as_str()]).start();
        loads(&mut browser, &server, "http/1.1");
        server.stop();
    }
}

#[test]
fn every_page_of_the_example_site_loads_over_http2_and_http3() {
    for (protocol, name) in [(Protocol::Http2, "h2"), (Protocol::Http3, "h3")] {
        for io in Io::BOTH {
            let way = Way { protocol, io, form: Form::Folder };
            let server = Start::site(&example()).in_way(way).start();
            loads(&mut Browser::trusting(&server), &server, name);
            server.stop();
        }
    }
}

/// Opens every page, and asserts that all resources are loaded over this protocol.
#[track_caller]
fn loads(browser: &mut Browser, server: &Server, protocol: &str) {
    let listed = listed();
    let is_page = |media_type: &str| media_type.starts_with("text/html");
    let pages = listed.iter().filter(|(_, media_type)| is_page(media_type));
    let pages = pages.map(|(path, _)| path.as_str());
    // Each page has several names; links use these ones.
    let pages: Vec<&str> =
        pages.filter(|path| !path.ends_with(".html") && !path.ends_with("/index")).collect();
    assert!(pages.contains(&"/") && pages.contains(&"/guide/archives"), "{pages:?}");
    let (mut loaded, mut came_by) = (BTreeSet::new(), BTreeSet::new());
    for page in pages.iter().chain([&"/guide"]) {
        let visit = browser.visit(&server.url(page));
        assert!(visit.complaints.is_empty(), "{page} {protocol}: {:#?}", visit.complaints);
        is_styled_and_fits(browser, page);
        // Resources from the browser's own cache have no protocol.
        let by = browser.evaluate(
            "['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind))
                .map(entry => entry.nextHopProtocol).filter(by => by)",
        );
        let by = by.as_array().expect("a list").iter();
        came_by.extend(by.map(|by| by.as_str().unwrap_or_default().to_owned()));
        loaded.extend(visit.responses.into_iter().map(|response| response.url));
    }
    assert_eq!(Vec::from_iter(came_by), [protocol]);
    // The pages together use all other resources; the browser requests icons at any time.
    for (path, media_type) in &listed {
        let is_expected = path.starts_with("/assets/") && !is_page(media_type);
        assert!(!is_expected || loaded.contains(&server.url(path)), "nobody loads {path}");
    }
}

#[track_caller]
fn is_styled_and_fits(browser: &mut Browser, page: &str) {
    assert_eq!(browser.evaluate("getComputedStyle(document.body).display"), "flex", "{page}");
    fits(browser, page);
}

/// No page scrolls sideways at a narrow or wide width.
#[track_caller]
fn fits(browser: &mut Browser, page: &str) {
    for width in [320, 390, 1280] {
        browser.resize(width, 800);
        let overhang =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.evaluate(overhang), 0, "{page} is wider than {width}");
    }
}

/// Recorded traffic must stay unreadable for quantum computers (FIPS 203). This needs both sides,
/// and the client is an independent program.
#[test]
fn the_keys_of_http2_and_http3_are_exchanged_with_a_post_quantum_part() {
    let site = Folder::with("keys", [("index.html", "home"), ("favicon.ico", ICON)]);
    let speaks = |protocol: Protocol| matches!(protocol, Protocol::Http2 | Protocol::Http3);
    let matrix = Matrix::of(site.path()).archive_only("a browser takes time");
    matrix.over(speaks, "the versions that a browser encrypts").run(|server| {
        let protocol = if server.protocol() == Protocol::Http3 { "QUIC" } else { "TLS 1.3" };
        let visit = Browser::trusting(server).visit(&server.url("/"));
        let page = visit.responses.iter().find(|response| response.purpose == "Document");
        let expected =
            Encryption { protocol: protocol.to_owned(), key_group: "X25519MLKEM768".to_owned() };
        let encryption = page.and_then(|page| page.encryption.clone());
        assert_eq!(encryption, Some(expected), "{:#?}", visit.responses);
    });
}

/// Without this test the others could miss all errors.
#[test]
fn the_browser_harness_finds_faults_of_pages() {
    let faults = [
        ("error.html", "<script>console.error('x')</script>", "Runtime.consoleAPICalled"),
        ("warning.html", "<script>console.warn('x')</script>", "Runtime.consoleAPICalled"),
        ("thrown.html", "<script>throw new Error('x')</script>", "Runtime.exceptionThrown"),
        ("missing.html", "<img src=missing.png alt=x>", "Network.responseReceived"),
        ("late.html", "<script>fetch('/nothing')</script>", "Network.responseReceived"),
        ("closed.html", "<img src=http://127.0.0.1:1/x.png alt=x>", "Network.loadingFailed"),
        (
            "policy.html",
            "<meta http-equiv=Content-Security-Policy content=\"script-src 'none'\">\
             <script>1</script>",
            "Audits.issueAdded",
        ),
    ];
    let page = |content| format!("<!doctype html><meta charset=utf-8><title>x</title>{content}");
    let site = Folder::new("faults");
    for (name, content, _) in faults {
        site.write(name, page(content));
    }
    site.write("right.html", page("<p>x"));
    site.write("favicon.ico", ICON);
    let server = Start::site(site.path()).start();
    let mut browser = Browser::start();
    for (name, _, event) in faults {
        let found = browser.visit(&server.url(&format!("/{name}"))).complaints;
        assert!(found.iter().any(|complaint| complaint.event == event), "{name}: {found:#?}");
    }
    let found = browser.visit(&server.url("/right.html")).complaints;
    assert!(found.is_empty(), "{found:#?}");
    server.stop();
}

#[test]
fn the_404_page_of_the_example_site_is_complete() {
    let mut browser = Browser::start();
    for io in Io::BOTH {
        let server = Start::site(&example()).flags(&["--io", io.as_str()]).start();
        for target in ["/nothing", "/guide/nothing/at/all?a=b"] {
            let url = server.url(target);
            let visit = browser.visit(&url);
            // The status itself is reported as an error; there must be no other complaint.
            let others = visit.complaints.iter();
            let others: Vec<_> =
                others.filter(|complaint| complaint.url.as_deref() != Some(&url)).collect();
            assert!(others.is_empty(), "{target}: {others:#?}");
            assert_eq!(statuses(&visit, &url), [404]);
            assert_eq!(browser.evaluate("document.title"), "Nothing at this address");
            is_styled_and_fits(&mut browser, target);
        }
        server.stop();
    }
}

#[test]
fn the_built_in_error_page_loads_without_complaints() {
    let site = Folder::with("no-404", [("index.html", "home"), ("favicon.ico", ICON)]);
    let server = Start::site(site.path()).start();
    let mut browser = Browser::start();
    let url = server.url("/nothing");
    let visit = browser.visit(&url);
    let others = visit.complaints.iter();
    let others: Vec<_> =
        others.filter(|complaint| complaint.url.as_deref() != Some(&url)).collect();
    assert!(others.is_empty(), "{others:#?}");
    assert_eq!(browser.evaluate("document.title"), "404 Not Found");
    assert_eq!(browser.evaluate("document.compatMode"), "CSS1Compat");
    fits(&mut browser, "/nothing");
    server.stop();
}

#[test]
fn a_reopened_page_is_revalidated_and_fingerprinted_files_are_cached() {
    let example = example();
    let matrix = Matrix::of(&example).archive_only("a browser takes time and sees no difference");
    let matrix = matrix.plain_only("the browser does not trust the certificate");
    matrix.run(|server| {
        let mut browser = Browser::start();
        let (home, script) = (server.url("/"), script(server));
        let first = browser.visit(&home);
        assert_eq!((statuses(&first, &home), statuses(&first, &script)), (vec![200], vec![200]));
        browser.visit(&server.url("/about"));
        let again = browser.visit(&home);
        assert_eq!(statuses(&again, &home), [304]);
        let fetched = again.responses.iter().filter(|response| !response.from_cache);
        assert!(fetched.clone().all(|response| response.url != script), "{:#?}", again.responses);
        // The script displays data about the connection.
        let shown = browser.evaluate("!document.getElementById('arrival').hidden");
        assert_eq!(shown, true);
    });
}

/// Returns the URL of the only script of the home page.
fn script(server: &Server) -> String {
    let page = server.get("/");
    let (_, rest) = page.text().split_once("<script src=\"").expect("a script");
    server.url(rest.split_once('"').expect("the end of the attribute").0)
}

fn statuses(visit: &Visit, url: &str) -> Vec<u64> {
    let responses = visit.responses.iter().filter(|response| response.url == url);
    // The script of the home page also requests its own page.
    let responses = responses.filter(|response| response.purpose != "Fetch");
    responses.map(|response| response.status).collect()
}

#[test]
fn a_build_report_is_a_self_contained_page() {
    let site = Folder::new("report");
    let (archive, report) = (site.join("site.pinion"), site.join("report.html"));
    build(&example(), &archive, &["--report", report.to_str().expect("a plain path")]);
    let mut browser = Browser::start();
    // The report is opened as a file, without a network.
    let visit = browser.visit(&format!("file://{}", report.display()));
    assert!(visit.complaints.is_empty(), "{:#?}", visit.complaints);
    assert_eq!(visit.responses.len(), 1, "it loads something: {:?}", visit.responses);
    assert_eq!(browser.evaluate("document.querySelectorAll('svg rect').length > 10"), true);
    assert_eq!(browser.evaluate("document.querySelectorAll('h2').length"), 7);
    fits(&mut browser, "the report");
}

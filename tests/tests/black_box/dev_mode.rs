//! `--dev`: pages reload in Chromium when the site changes, and show why it cannot be loaded. The
//! mode is for browsers on this machine, and has no effect for other clients.

use pinion_tests::browser::Browser;
use pinion_tests::matrix::{Form, Io, Matrix, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use serde_json::Value;
use std::io::Read as _;

const SCRIPT: &str = "/.pinion/reload.js";
const STREAM: &str = "/.pinion/reload";
/// The `Accept` field of browsers.
const ACCEPT: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

fn page(title: &str) -> String {
    format!("<!doctype html>\n<meta charset=utf-8>\n<title>{title}</title>\n<h1>{title}</h1>\n")
}

/// Returns a site of a static page, a template and a handler.
fn site(name: &str) -> Folder {
    let site = Folder::new(name);
    site.write("index.html", page("first"));
    site.write("page.dyn.html", page("#[['template']]"));
    site.write("main.lua", main_script("handler"));
    site
}

fn main_script(title: &str) -> String {
    format!(
        "local title = '{title}'\n\
         pinion.get('/handler', function(req, res)\n\
         \x20   res:field('Content-Type', 'text/html')\n\
         \x20   return '<title>' .. title .. '</title>'\n\
         end)\n\
         pinion.get('/streamed', function(req, res)\n\
         \x20   res:field('Content-Type', 'text/html')\n\
         \x20   res:write('<title>streamed ' .. title)\n\
         \x20   return '</title>'\n\
         end)\n"
    )
}

fn served(site: &Folder, way: Way) -> Server {
    Start::site(site.path()).in_way(way).flags(&["--dev", "--workers", "2"]).start()
}

fn browser_request(target: &str) -> Request {
    Request::get(target).field("Accept", ACCEPT)
}

/// Waits until the page has this title, after any number of reloads.
#[track_caller]
fn wait_for_title(browser: &mut Browser, title: &str) {
    wait_for(title, || (browser.title() == title).then_some(()));
}

#[track_caller]
fn opens(browser: &mut Browser, server: &Server, path: &str, title: &str) {
    browser.visit(&server.url(path));
    wait_for_title(browser, title);
}

fn text_of(browser: &mut Browser, selector: &str) -> String {
    let quoted = Value::from(selector).to_string();
    let text = browser.evaluate(&format!("document.querySelector({quoted})?.innerText"));
    text.as_str().unwrap_or_default().to_owned()
}

/// Tests every kind of change, for every kind of page.
fn follows_changes(way: Way) {
    let site = site("dev-reload");
    let server = served(&site, way);
    let mut browser =
        if way.protocol.is_encrypted() { Browser::trusting(&server) } else { Browser::start() };
    // The content of a static page changes, and a rule for it is added.
    opens(&mut browser, &server, "/", "first");
    site.write("index.html", page("second"));
    wait_for_title(&mut browser, "second");
    site.write("_redirects", "/ /other.html 200!\n");
    site.write("other.html", page("third"));
    wait_for_title(&mut browser, "third");
    // A missing page is added.
    opens(&mut browser, &server, "/later", "404 Not Found");
    site.write("later.html", page("there"));
    wait_for_title(&mut browser, "there");
    // Scripts and templates change their output.
    opens(&mut browser, &server, "/handler", "handler");
    site.write("main.lua", main_script("other handler"));
    wait_for_title(&mut browser, "other handler");
    opens(&mut browser, &server, "/streamed", "streamed other handler");
    site.write("main.lua", main_script("once more"));
    wait_for_title(&mut browser, "streamed once more");
    opens(&mut browser, &server, "/page", "template");
    site.write("page.dyn.html", page("#[['another ' .. 'template']]"));
    wait_for_title(&mut browser, "another template");
    server.stop();
}

#[test]
fn pages_reload_over_http1() {
    for io in Io::BOTH {
        follows_changes(Way { protocol: Protocol::Http1, io, form: Form::Folder });
    }
}

#[test]
fn pages_reload_over_http2() {
    let io = Io::BOTH[0];
    follows_changes(Way { protocol: Protocol::Http2, io, form: Form::Folder });
}

#[test]
fn pages_reload_over_http3() {
    let io = Io::BOTH[1];
    follows_changes(Way { protocol: Protocol::Http3, io, form: Form::Folder });
}

#[test]
fn a_failed_load_is_shown_until_it_is_fixed() {
    let site = site("dev-failures");
    let server =
        served(&site, Way { protocol: Protocol::Http1, io: Io::BOTH[0], form: Form::Folder });
    let mut browser = Browser::start();
    opens(&mut browser, &server, "/", "first");
    let failures = [
        ("_redirects", "/a /b\n/<c> nowhere 301\n", 2, "_redirects:2:"),
        ("_headers", "/*\n  X-A: 1\nno rule\n", 3, "_headers:3:"),
        ("main.lua", "local a = 1\nlocal b = = 2\n", 2, "main.lua:2"),
        ("main.lua", "\n\nlocal none\nnone.field = 1\n", 4, "main.lua:4"),
        ("page.dyn.html", "<p>\n<?lu if x then ?>\n<b>x</b>\n", 2, "page.dyn.html:"),
        ("page.dyn.html", "<p>\n\n<b>#[[x\n", 3, "page.dyn.html:3"),
    ];
    for (file, text, line, position) in failures {
        let before = std::fs::read(site.join(file)).unwrap_or_default();
        site.write(file, text);
        wait_for(position, || browser.title().starts_with("Cannot load the site").then_some(()));
        // The title arrives before the rest of the page.
        wait_for(position, || text_of(&mut browser, ".at").contains(position).then_some(()));
        if position.ends_with(char::is_numeric) || file.starts_with('_') {
            let marked = text_of(&mut browser, "pre .on");
            let expected = text.lines().nth(line - 1).expect("a line");
            assert_eq!(marked.trim_end(), format!("{line}{expected}"), "{file}");
        }
        // Responses that are no pages stay the same.
        assert_eq!(server.get("/").text(), page("first"));
        site.write(file, before);
        wait_for_title(&mut browser, "first");
    }
    server.stop();
}

#[test]
fn a_site_that_fails_to_load_at_start_shows_its_error() {
    let site =
        Folder::with("dev-start", [("index.html", &*page("well")), ("_redirects", "/a b c")]);
    let server = Start::site(site.path()).flags(&["--dev"]).start();
    server.wait_for_line(0, |line| line.contains("_redirects:1:"));
    server.wait_for_line(0, |line| line.contains("is not served until the error is corrected"));
    // Programs of the developer get the reason, others none.
    for target in ["/", "/missing"] {
        let response = server.get(target);
        assert_eq!(response.status, 500, "{response}");
        assert!(response.text().contains("_redirects:1:"), "{response}");
        assert!(response.text().contains("not served until this is corrected"), "{response}");
        let other = server.exchange(&Request::get(target).host("example.org"));
        assert!(other.status == 503 && !other.text().contains("_redirects"), "{other}");
        assert!(other.text().contains("The site is not available at the moment"), "{other}");
    }
    let mut browser = Browser::start();
    browser.visit(&server.url("/"));
    wait_for("the failure", || browser.title().starts_with("Cannot load").then_some(()));
    wait_for("the note", || text_of(&mut browser, "footer").contains("not served").then_some(()));
    site.write("_redirects", "/a /b\n");
    wait_for_title(&mut browser, "well");
    server.stop();
    // Without --dev the server does not start.
    site.write("_redirects", "/a b c");
    let mut refused = Start::site(site.path()).begin();
    assert_eq!(refused.wait().code(), Some(2));
}

const FAILING: &str = "\
pinion.get('/', function(req, res)
    local text = '<script>top.hacked = 1</script>'
    error(text)
end)
";

#[test]
fn a_failed_request_shows_its_line_and_reloads_when_fixed() {
    let site = Folder::with("dev-request", [("main.lua", FAILING)]);
    let server = Start::site(site.path()).flags(&["--dev"]).start();
    let mut browser = Browser::start();
    browser.visit(&server.url("/"));
    wait_for("the failure", || {
        browser.title().starts_with("The script has failed: ").then_some(())
    });
    wait_for("the page", || (!text_of(&mut browser, "footer").is_empty()).then_some(()));
    assert_eq!(text_of(&mut browser, "h1"), "<script>top.hacked = 1</script>");
    assert_eq!(text_of(&mut browser, "pre .on").trim_end(), "3    error(text)");
    assert!(text_of(&mut browser, ".text").contains("stack traceback"));
    assert_eq!(browser.evaluate("top.hacked === undefined"), true);
    for (width, overhang) in [(320, 0), (1280, 0)] {
        browser.resize(width, 800);
        let wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.evaluate(wider), overhang, "{width}");
    }
    let mended = "pinion.get('/', function(req, res)\n\
                  res:field('Content-Type', 'text/html')\nreturn '<title>mended</title>' end)\n";
    site.write("main.lua", mended);
    wait_for_title(&mut browser, "mended");
    server.stop();
}

/// Programs such as curl get the error as text, or as problem details if they prefer JSON, even if
/// the site has a page of its own.
#[test]
fn programs_get_request_errors_as_text() {
    for own in [false, true] {
        let site = Folder::with("dev-text", [("main.lua", FAILING)]);
        if own {
            site.write("_500.html", page("our own"));
        }
        let server = Start::site(site.path()).flags(&["--dev"]).start();
        for accept in [Some("*/*"), Some("application/json"), Some("text/plain"), None] {
            let request = Request::get("/");
            let request = accept.into_iter().fold(request, |it, value| it.field("Accept", value));
            let response = server.exchange(&request);
            let kind = response.field("content-type");
            let expected = match accept {
                Some("application/json") => "application/problem+json",
                _ => "text/plain; charset=utf-8",
            };
            assert_eq!(kind, Some(expected), "{accept:?}: {response}");
            for words in ["main.lua:3: <script>", "stack traceback:"] {
                assert!(response.text().contains(words), "{accept:?}: {response}");
            }
        }
        let html = server.exchange(&browser_request("/"));
        assert!(html.text().contains("<h1>&lt;script&gt;"), "{html}");
        server.stop();
    }
}

/// Returns the body and the fields except the time.
fn shown(response: &Response) -> (u16, String, Vec<(String, String)>) {
    let fields = response.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date"));
    (response.status, response.text().to_owned(), fields.cloned().collect())
}

#[test]
fn only_browsers_on_this_machine_get_developer_features() {
    let site = site("dev-strangers");
    site.write("main.lua", format!("{}\n{FAILING}", main_script("x")).replace("'/'", "'/fails'"));
    Matrix::of(site.path()).folder_only("code").serve(&["--dev"]).run(|server| {
        let plain = Start::site(site.path()).start();
        for target in ["/", "/handler", "/streamed", "/page", "/missing", "/fails", SCRIPT, STREAM]
        {
            let request = || browser_request(target);
            let developer = server.exchange(&request());
            let without = plain.exchange(&request());
            let strangers = [
                request().host("example.org"),
                request().host("localhost.example.org"),
                request().field("X-Forwarded-For", "192.0.2.1"),
                request().field("Via", "1.1 proxy"),
            ];
            for stranger in &strangers {
                let (status, text, _) = shown(&server.exchange(stranger));
                assert_eq!(status, without.status, "{target}");
                for word in ["/.pinion/", "main.lua", "traceback"] {
                    assert!(!text.contains(word), "{target}: {text}");
                }
                if target != "/fails" {
                    assert_eq!(text, without.text(), "{target}");
                }
            }
            assert_ne!(developer.text(), without.text(), "{target}");
            assert!(!without.text().contains("/.pinion/"), "{target}");
        }
        // Scripts of a page and programs get the usual response.
        for request in [
            Request::get("/"),
            browser_request("/").field("Sec-Fetch-Dest", "empty"),
            Request::get("/handler"),
        ] {
            assert!(!server.exchange(&request).text().contains("/.pinion/"));
        }
        plain.stop();
    });
}

#[test]
fn pages_in_dev_mode_are_complete_and_not_cached() {
    let site = site("dev-whole");
    site.write("index.html", page("first").repeat(100));
    Matrix::of(site.path()).folder_only("code").serve(&["--dev"]).run(|server| {
        let tag = server.get("/").field("etag").expect("a tag").to_owned();
        let request = || browser_request("/").field("Accept-Encoding", "gzip, br");
        for request in [
            request(),
            request().field("If-None-Match", &tag),
            request().field("Range", "bytes=0-9"),
        ] {
            let response = server.exchange(&request);
            assert_eq!(response.status, 200);
            let text = response.text();
            assert!(text.starts_with("<!doctype html>"), "{text}");
            let end = text.lines().last().expect("a line");
            assert!(end.starts_with(&format!("<script src={SCRIPT}?")), "{end}");
            assert_eq!(response.field("cache-control"), Some("no-store"));
            assert_eq!((response.field("etag"), response.field("content-encoding")), (None, None));
        }
        // A conditional request and HEAD get their usual responses.
        let request = Request::get("/").field("If-None-Match", &tag);
        assert_eq!(server.exchange(&request).status, 304);
        let head = Request::head("/").field("Accept", ACCEPT);
        let length = server.exchange(&head).field("content-length").map(str::to_owned);
        let page = server.exchange(&browser_request("/"));
        assert_eq!(length.as_deref(), Some(&*page.text().len().to_string()));
        // A page that shows an older version gets the event at once.
        let stream = server.get(&format!("{STREAM}?0"));
        assert_eq!(stream.field("content-type"), Some("text/event-stream"));
        assert_eq!(stream.text(), "retry:300\n\ndata:reload\n\n");
        assert_eq!(
            server.get(SCRIPT).field("content-type"),
            Some("text/javascript; charset=utf-8")
        );
        // Only GET is accepted.
        assert_eq!(server.exchange(&Request::head(STREAM)).status, 404);
    });
}

#[test]
fn reload_streams_do_not_delay_the_stop_and_are_limited() {
    let site = site("dev-stop");
    let way = |protocol| Way { protocol, io: Io::BOTH[0], form: Form::Folder };
    let server = served(&site, way(Protocol::Http1));
    let open = |_| {
        let mut stream = server.connect();
        stream.send(Request::get(&format!("{STREAM}?ffffffffffffffff")).bytes());
        let mut line = [0; 12];
        stream.stream().read_exact(&mut line).expect("a status line");
        (stream, String::from_utf8_lossy(&line).into_owned())
    };
    // As many streams as two workers hold, and one above the limit.
    let streams: Vec<_> = (0..257).map(open).collect();
    let count = |status: &str| streams.iter().filter(|(_, line)| line.ends_with(status)).count();
    assert!((128..=256).contains(&count("200")), "{}", count("200"));
    assert_eq!(count("200") + count("503"), 257);
    // The site is served meanwhile, and the end of the server does not take the grace period.
    assert_eq!(server.get("/").text(), page("first"));
    server.stop();
}

#[test]
fn a_file_hidden_by_dev_mode_is_reported() {
    let site = site("dev-hidden");
    site.write(".pinion/reload", "mine");
    let flags = ["--dev", "--include", ".pinion/reload", "--include", ".pinion"];
    let server = Start::site(site.path()).flags(&flags).start();
    server.wait_for_line(0, |line| line.contains("/.pinion/reload is hidden"));
    server.stop();
}

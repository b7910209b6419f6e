//! The guestbook of the examples, used by a person in Chromium and by a program such as curl.

use pinion_tests::binary::source_root;
use pinion_tests::browser::Browser;
use pinion_tests::external_programs::stdout;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::thread;

/// Input that shows whether it stays text.
const NAME: &str = "<b>Ada</b> '\"&";
const MESSAGE: &str = "one <i>line</i>\nand </textarea><script>alert(1)</script>";

fn example() -> PathBuf {
    source_root().join("examples/guestbook")
}

fn three_workers() -> Start {
    Start::site(&example()).flags(&["--workers", "3"])
}

/// Returns a string of JavaScript.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns code that fills in the form and presses its button.
fn sign(name: &str, message: &str) -> String {
    format!(
        "document.getElementById('name').value = {};
         document.getElementById('message').value = {};
         document.querySelector('form button').click()",
        quoted(name),
        quoted(message),
    )
}

fn text_of(browser: &mut Browser, selector: &str) -> String {
    let text = browser.evaluate(&format!("document.querySelector({}).innerText", quoted(selector)));
    text.as_str().unwrap_or_default().to_owned()
}

fn value_of(browser: &mut Browser, id: &str) -> String {
    let value = browser.evaluate(&format!("document.getElementById('{id}').value"));
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_person_signs_the_book_over_http1() {
    let server = three_workers().start();
    is_signed_by_a_person(&mut Browser::start(), &server);
    server.stop();
}

#[test]
fn a_person_signs_the_book_over_http2() {
    let way = Way { protocol: Protocol::Http2, io: Io::BOTH[0], form: Form::Folder };
    let server = three_workers().in_way(way).start();
    is_signed_by_a_person(&mut Browser::trusting(&server), &server);
    server.stop();
}

#[track_caller]
fn is_signed_by_a_person(browser: &mut Browser, server: &Server) {
    let visit = browser.visit(&server.url("/"));
    assert!(visit.complaints.is_empty(), "{:#?}", visit.complaints);
    let visit = browser.follow(&sign(NAME, MESSAGE));
    assert!(visit.complaints.is_empty(), "{:#?}", visit.complaints);
    // The browser is redirected to the entry, which is all text.
    let path = browser.evaluate("location.pathname + location.hash.slice(0, 7)");
    assert_eq!(path, "/#entry-");
    assert_eq!(text_of(browser, ".entry:target .by b"), NAME);
    assert_eq!(text_of(browser, ".entry:target .words"), MESSAGE);
    assert_eq!(browser.evaluate("document.querySelectorAll('.entry :is(i, script)').length"), 0);
    assert_eq!(text_of(browser, "#entries-title"), "2 entries");
    assert_eq!(value_of(browser, "name"), "");
    forgets_nothing_that_was_typed(browser);
    looks_right(browser);
}

/// A form with errors shows them where a screen reader finds them, and keeps the input.
#[track_caller]
fn forgets_nothing_that_was_typed(browser: &mut Browser) {
    // A browser validates the form itself, which only helps its user.
    browser.evaluate("document.querySelector('form').noValidate = true");
    let visit = browser.follow(&sign(" ", MESSAGE));
    assert_eq!(visit.responses[0].status, 422);
    // A browser moves the focus when it draws, which is after it has loaded.
    browser.evaluate(
        "new Promise(done => {
             const look = () => document.activeElement.id ? done() : setTimeout(look, 5);
             look();
         })",
    );
    let error = browser.evaluate(
        "document.getElementById(
             document.activeElement.getAttribute('aria-describedby')).innerText",
    );
    assert_eq!(error, "Tell us your name.");
    assert_eq!(browser.evaluate("document.activeElement.id"), "name");
    assert_eq!(value_of(browser, "message"), MESSAGE);
    assert_eq!(browser.evaluate("document.querySelectorAll('.entry').length"), 2);
    looks_right(browser);
    // After the correction, the form is accepted.
    let typed = value_of(browser, "message");
    browser.follow(&sign("Grace", &typed));
    assert_eq!(text_of(browser, ".entry:target .by b"), "Grace");
}

#[track_caller]
fn looks_right(browser: &mut Browser) {
    assert_eq!(browser.evaluate("document.documentElement.lang"), "en");
    let fields = "[...document.querySelectorAll('input:not([type=hidden]), textarea')]";
    let unlabelled = format!("{fields}.filter(field => !field.labels.length).length");
    assert_eq!(browser.evaluate(&unlabelled), 0);
    for width in [320, 390, 1280] {
        browser.resize(width, 844);
        let overhang =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.evaluate(overhang), 0, "wider than {width}");
    }
}

/// A client without a browser: the cookie and the token of a form.
struct Visitor {
    cookie: String,
    token: String,
}

impl Visitor {
    #[track_caller]
    fn of(server: &Server) -> Visitor {
        let page = server.get("/");
        let cookie = page.field("set-cookie").expect("a cookie");
        let (cookie, attributes) = cookie.split_once(';').expect("attributes");
        assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Lax");
        assert_eq!(page.field("cache-control"), Some("no-store"));
        let (_, rest) = page.text().split_once("name=\"token\" value=\"").expect("a token");
        let (token, _) = rest.split_once('"').expect("its end");
        Visitor { cookie: cookie.to_owned(), token: token.to_owned() }
    }

    /// Returns a visitor whose form was accepted, whichever workers made and handled it.
    #[track_caller]
    fn after_signing(server: &Server) -> Visitor {
        let visitor = Visitor::of(server);
        assert_eq!(visitor.signs(server, "first", "signed").status, 303);
        visitor
    }

    /// Sends the form with fields that need no encoding.
    fn signs(&self, server: &Server, name: &str, message: &str) -> Response {
        let form = format!("token={}&name={name}&message={message}", self.token);
        let request = Request::new("POST", "/sign").field("Cookie", &self.cookie);
        server.exchange(&request.body(form.as_bytes()))
    }
}

#[test]
fn a_forged_form_is_refused() {
    let server = three_workers().start();
    let (one, other) = (Visitor::after_signing(&server), Visitor::of(&server));
    let forged = [
        Visitor { cookie: one.cookie.clone(), token: String::new() },
        Visitor { cookie: one.cookie.clone(), token: other.token.clone() },
        Visitor { cookie: one.cookie.clone(), token: "0".repeat(96) },
        Visitor { cookie: "visitor=".to_owned(), token: one.token.clone() },
        Visitor { cookie: format!("x{}", one.cookie), token: one.token },
    ];
    for visitor in forged {
        let response = visitor.signs(&server, "Mallory", "forged");
        assert_eq!(response.status, 403, "{}", visitor.token);
        assert!(response.text().contains("The form has expired"), "{}", response.text());
        // The input is still in the form, in case the sender was a person.
        assert!(response.text().contains("value=\"Mallory\""), "{}", response.text());
    }
    assert!(!server.get("/").text().contains("forged"));
    server.stop();
}

#[test]
fn curl_signs_the_book() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let way = Way { protocol, io: Io::BOTH[0], form: Form::Folder };
        let server = three_workers().in_way(way).start();
        let jar = Folder::new("jar");
        let jar = jar.join("cookies");
        let curl = |more: &[&str]| {
            let mut curl = server.curl();
            curl.arg("--silent").arg("--cookie").arg(&jar).arg("--cookie-jar").arg(&jar);
            String::from_utf8(stdout(curl.args(more))).expect("text")
        };
        let page = curl(&[&server.url("/")]);
        let (_, rest) = page.split_once("name=\"token\" value=\"").expect("a token");
        let token = format!("token={}", &rest[..96]);
        let name = format!("name={NAME}");
        let sign = server.url("/sign");
        let form = |message| {
            let encoded = ["--data-urlencode", &token, "--data-urlencode", &name];
            let rest = ["--data-urlencode", message, "--write-out", "%{http_code}", &sign];
            curl(&[encoded.as_slice(), rest.as_slice()].concat())
        };
        assert!(form("message=").ends_with("422"));
        assert_eq!(form("message=by curl"), "303");
        until(&server, "&lt;b&gt;Ada&lt;/b&gt; &#39;&quot;&amp;</b>");
        server.stop();
    }
}

/// Waits until a page contains this text.
#[track_caller]
fn until(server: &Server, expected: &str) {
    while !server.get("/").text().contains(expected) {
        thread::yield_now();
    }
}

#[test]
fn every_worker_has_all_entries_and_a_reload_keeps_them() {
    let server = three_workers().start();
    let visitor = Visitor::after_signing(&server);
    // Above a hundred entries the oldest are removed.
    for entry in 0..100 {
        assert_eq!(visitor.signs(&server, "many", &format!("entry{entry}.")).status, 303);
    }
    // Connections reach all workers sooner or later.
    for _ in 0..30 {
        until(&server, "entry99.");
    }
    let count = |text: &str| text.matches("<li class=\"entry\"").count();
    assert_eq!(count(server.get("/").text()), 100);
    assert!(!server.get("/").text().contains("entry-first"));
    let from = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(from, |line| line.starts_with("reloaded"));
    for _ in 0..30 {
        assert_eq!(count(server.get("/").text()), 100);
        // A form of the previous version is accepted, too.
        assert_eq!(visitor.signs(&server, "", "x").status, 422);
    }
    server.stop();
}

#[test]
fn invalid_entries_are_explained_in_the_form() {
    let server = Start::site(&example()).flags(&["--workers", "1"]).start();
    let visitor = Visitor::of(&server);
    let long_name = "n".repeat(61);
    let long = "%C3%A9".repeat(1001);
    for (name, message, expected) in [
        ("", "x", "Tell us your name."),
        ("%20%0D%0A", "x", "Tell us your name."),
        (&long_name, "x", "Use at most 60 characters for your name."),
        ("a%0Ab", "x", "Write your name in one line."),
        ("x", "", "Write a few words."),
        ("x", "%00%01", "Write a few words."),
        ("x", &long, "Use at most 1000 characters; these are 1001."),
    ] {
        let response = visitor.signs(&server, name, message);
        assert_eq!(response.status, 422, "{expected}");
        assert!(response.text().contains(expected), "{expected}: {}", response.text());
    }
    // Characters are counted, not bytes.
    let longest = "%C3%A9".repeat(1000);
    assert_eq!(visitor.signs(&server, "x", &longest).status, 303);
    let led = server.get("/sign");
    assert_eq!((led.status, led.field("location")), (303, Some("/")));
    server.stop();
}

#[test]
fn the_book_is_served_from_an_archive_without_its_code() {
    let folder = Folder::new("book");
    let archive = folder.join("book.pinion");
    build(&example(), &archive, &[]);
    let checked = run(&[OsStr::new("check"), example().as_os_str()]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let server = Start::site(&archive).start();
    assert!(server.get("/").text().contains("&lt;script&gt;alert(&#39;hello&#39;)&lt;/script&gt;"));
    for path in ["/main.lua", "/lib/token.lua", "/base.priv.html", "/index.dyn.html"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    server.stop();
}

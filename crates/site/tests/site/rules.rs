//! Rules that are tried in order: a comparison with a plain interpreter, and effects that they must
//! never have.

use std::collections::BTreeSet;

use pinion_archive::{
    EntryKind, Layout, NewEntry, NewRule, PathPart, QueryValue, Role, TargetPart,
};
use pinion_http::content_coding::Coding;
use proptest::prelude::*;

use crate::reference_model::{Request, Resolution, Rule, Site, resolve};
use crate::sample_site::{Maker, Response, ask_host, resource};

const SINGLE_PAGE: &str = "single page";

/// Returns an archive of a site in which no rule has become an entry. Every page has its key as
/// content.
pub(crate) fn archive(site: &Site) -> Vec<u8> {
    let mut m = Maker::new();
    let html = m.shared(Role::Ordinary, 200, "text/html");
    for page in &site.pages {
        let forms = [m.form(Coding::Identity, html, page.as_bytes())];
        let rules_first = site.rules.iter().any(|rule| rule.force);
        m.entry(&NewEntry { rules_first, ..resource(page, &forms) });
    }
    for (folder, &status) in &site.fallbacks {
        let forms = [m.form(Coding::Identity, html, format!("fallback {folder}").as_bytes())];
        m.fallback(&NewEntry { status, ..resource(folder, &forms) });
    }
    if site.single_page {
        let forms = [m.form(Coding::Identity, html, SINGLE_PAGE.as_bytes())];
        m.single_page(&resource("", &forms));
    }
    for rule in &site.rules {
        with_parts(rule, |rule| m.rule(rule));
    }
    if site.no_slash_redirects {
        m.without_slash_redirects();
    }
    m.finish()
}

/// Splits the text of a rule. The first value of a name counts, as in a redirect.
fn with_parts<T>(rule: &Rule, then: impl FnOnce(&NewRule<'_>) -> T) -> T {
    let mut names: Vec<&str> = Vec::new();
    let mut path = Vec::new();
    for segment in rule.from.split('/').filter(|segment| !segment.is_empty()) {
        if let Some(prefix) = segment.strip_suffix('*') {
            path.push(PathPart::Rest { prefix: prefix.as_bytes() });
            names.push("splat");
        } else if let Some(name) = segment.strip_prefix(':') {
            path.push(PathPart::Capture);
            names.push(name);
        } else {
            path.push(PathPart::Literal(segment.as_bytes()));
        }
    }
    let mut query = Vec::new();
    for (key, value) in &rule.query {
        let value = match value.strip_prefix(':') {
            Some(name) => {
                names.push(name);
                QueryValue::Capture
            }
            None => QueryValue::Is(value.as_bytes()),
        };
        query.push((key.as_bytes(), value));
    }
    let mut target = Vec::new();
    let mut literal_from = 0;
    for (colon, _) in rule.to.match_indices(':') {
        let behind = &rule.to[colon + 1..];
        let end = behind.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(behind.len());
        if let Some(number) = names.iter().position(|name| *name == &behind[..end]) {
            target.push(TargetPart::Literal(&rule.to.as_bytes()[literal_from..colon]));
            target.push(TargetPart::Capture(number as u8));
            literal_from = colon + 1 + end;
        }
    }
    target.push(TargetPart::Literal(&rule.to.as_bytes()[literal_from..]));
    target.retain(|part| *part != TargetPart::Literal(b""));
    then(&NewRule {
        force: rule.force,
        status: rule.status,
        host: Some(rule.host.as_bytes()).filter(|host| !host.is_empty()),
        path: &path,
        query: &query,
        target: &target,
        keeps_query: !rule.to.contains('?'),
    })
}

/// Sends a request, with every byte of the path that is no letter or digit escaped.
pub(crate) fn ask(layout: &Layout, bytes: &[u8], request: &Request) -> Response {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '/';
    let path: String = request
        .path
        .bytes()
        .map(|byte| match char::from(byte) {
            c if plain(c) => c.to_string(),
            _ => format!("%{byte:02x}"),
        })
        .collect();
    let query = request.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
    let fields = if request.navigation { "\r\nSec-Fetch-Mode: navigate" } else { "" };
    ask_host(layout, bytes, &format!("GET {path}{query} HTTP/1.1{fields}"), &request.host)
}

/// Converts a response to that of the interpreter.
pub(crate) fn said(response: &Response) -> Resolution {
    let body = String::from_utf8_lossy(&response.body).into_owned();
    match (response.field("Location"), body.strip_prefix("fallback ")) {
        (Some(location), _) => Resolution::Redirect(response.status, location.to_owned()),
        (None, Some(folder)) => Resolution::Fallback(response.status, folder.to_owned()),
        (None, None) if body == SINGLE_PAGE => Resolution::SinglePage,
        (None, None) if body.starts_with('/') => Resolution::Page(response.status, body),
        (None, None) => Resolution::NotFound,
    }
}

/// Generates few names, so that paths, patterns and targets match.
fn path() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        6 => prop_oneof!["[ab]{1,2}", "abcdefgh", "abcdefghi"],
        1 => Just("ü ?#&%".to_owned()),
        1 => Just("a.css".to_owned()),
        1 => Just("b.html".to_owned()),
        1 => Just(String::new()),
    ];
    (proptest::collection::vec(segment, 1..4), prop::bool::weighted(0.3)).prop_map(
        |(segments, slash)| {
            let path = format!("/{}{}", segments.join("/"), if slash { "/" } else { "" });
            // Two slashes at the front would be a host name elsewhere.
            format!("/{}", path.trim_start_matches('/'))
        },
    )
}

fn pattern() -> impl Strategy<Value = String> {
    let segment = prop_oneof![4 => "[ab]{1,2}", 1 => Just("abcdefgh".to_owned()), 2 => ":[xy]"];
    let rest = prop_oneof![4 => Just(""), 2 => Just("/*"), 1 => Just("/a*"), 1 => Just("/")];
    (proptest::collection::vec(segment, 0..4), rest).prop_map(|(segments, rest)| {
        let unique: BTreeSet<_> = segments.iter().filter(|part| part.starts_with(':')).collect();
        let names = segments.iter().filter(|part| part.starts_with(':')).count();
        let path: String = if unique.len() == names {
            segments.iter().map(|segment| format!("/{segment}")).collect()
        } else {
            "/a/:x".to_owned()
        };
        match format!("{path}{rest}") {
            path if path.is_empty() => "/".to_owned(),
            path => path,
        }
    })
}

fn conditions() -> impl Strategy<Value = (String, Vec<(String, String)>)> {
    let host = prop_oneof![
        6 => Just(""),
        1 => Just("example.org"),
        1 => Just("*.example.org"),
        1 => Just("other.example"),
    ];
    let query = prop_oneof![
        6 => Just(vec![]),
        1 => Just(vec![("k", "1")]),
        1 => Just(vec![("k", ":q")]),
        1 => Just(vec![("k", "a b"), ("l", ":q")]),
    ];
    (host, query).prop_map(|(host, query)| {
        let query = query.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        (host.to_owned(), query.collect())
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let to = prop_oneof![
        3 => path().prop_filter("a redirect's literal is ready for a Location", |path| {
            path.is_ascii() && !path.contains([' ', '%', '?', '#', '&'])
        }),
        1 => Just("/a/:splat".to_owned()),
        1 => Just("/:splat".to_owned()),
        1 => Just("/:x/:q".to_owned()),
        1 => Just("/b/:y?to=:splat&q=:q".to_owned()),
        1 => Just("/a?b=:x#:splat".to_owned()),
        1 => Just("/b/:x#end".to_owned()),
        1 => Just("https://example.com/:splat".to_owned()),
        1 => Just("https://example.com:8080/:x/:x?b=1".to_owned()),
    ];
    let status = prop_oneof![
        3 => prop_oneof![Just(301u16), Just(302), Just(303), Just(307), Just(308)],
        3 => Just(200),
        1 => Just(404),
        1 => Just(410),
        1 => Just(503),
    ];
    (conditions(), pattern(), to, status, any::<bool>()).prop_map(
        |((host, query), from, to, status, force)| {
            // The content of another host is not served, and keys have no query.
            let rewrite = status == 200 || status >= 400;
            let key = to.split(['?', '#']).next().unwrap_or_default();
            let to = match rewrite {
                true if to.starts_with("https:") => "/b".to_owned(),
                true => key.to_owned(),
                false => to,
            };
            Rule { host, from, query, to, status, force }
        },
    )
}

pub(crate) fn site() -> impl Strategy<Value = Site> {
    let folder = "(/[ab]{1,2}){0,2}/";
    let status = prop_oneof![Just(200u16), Just(404)];
    (
        proptest::collection::btree_set(path(), 0..12),
        proptest::collection::vec(rule(), 0..12),
        proptest::collection::btree_map(folder, status, 0..3),
        any::<bool>(),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(pages, rules, fallbacks, single_page, no_slash_redirects)| Site {
            pages,
            rules,
            fallbacks,
            single_page,
            no_slash_redirects,
        })
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    let host = prop_oneof![
        Just("example.org"),
        Just("EXAMPLE.org:8080"),
        Just("www.example.org"),
        Just("example.org."),
        Just("www.Example.org.:80"),
        Just("elsewhere.example"),
    ];
    let query = prop_oneof![
        4 => Just(None),
        1 => Just(Some("")),
        1 => Just(Some("k=1")),
        1 => Just(Some("x&k=a+b&l=%C3%BC%26%2f")),
        1 => Just(Some("l=2&%6b=a%20b&k=1")),
        1 => Just(Some("k")),
    ];
    (host, path(), query, any::<bool>()).prop_map(|(host, path, query, navigation)| Request {
        host: host.to_owned(),
        path,
        query: query.map(str::to_owned),
        navigation,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_site_with_rules_agrees_with_the_interpreter(
        site in site(),
        requests in proptest::collection::vec(request(), 1..40),
    ) {
        let bytes = archive(&site);
        let layout = Layout::open(&bytes).expect("sound");
        for request in &requests {
            let response = ask(&layout, &bytes, request);
            prop_assert_eq!(said(&response), resolve(&site, request), "{:?}", request);
        }
    }
}

fn one_rule(from: &str, to: &str, status: u16) -> Site {
    let rule = Rule { from: from.to_owned(), to: to.to_owned(), status, ..Rule::default() };
    Site { rules: vec![rule], ..Site::default() }
}

fn location(site: &Site, target: &str) -> Option<String> {
    let bytes = archive(site);
    let layout = Layout::open(&bytes).expect("sound");
    let response = ask_host(&layout, &bytes, &format!("GET {target} HTTP/1.1"), "example.org");
    response.field("Location").map(str::to_owned)
}

/// `Location: //host/` would lead to another host (RFC 3986 §4.2).
#[test]
fn captures_never_name_a_host() {
    let site = one_rule("/old/*", "/:splat", 301);
    for (target, expected) in [
        ("/old//evil.example/", "/evil.example/"),
        ("/old////evil.example", "/evil.example"),
        ("/old/%5Cevil.example", "/%5Cevil.example"),
        ("/old/https:evil.example", "/https:evil.example"),
        ("/old/%0D%0ASet-Cookie:x", "/%0D%0ASet-Cookie:x"),
        ("/old/a?b=//c", "/a?b=//c"),
        ("/old", "/"),
    ] {
        assert_eq!(location(&site, target).as_deref(), Some(expected), "{target}");
    }
    let mut site = one_rule("/x", "/:q/evil.example", 301);
    site.rules[0].query = vec![("q".to_owned(), ":q".to_owned())];
    assert_eq!(location(&site, "/x?q=").as_deref(), Some("/evil.example?q="));
    site.rules[0].to = "/go?to=:q".to_owned();
    assert_eq!(location(&site, "/x?q=a%26b%3Dc%23d").as_deref(), Some("/go?to=a%26b%3Dc%23d"));
}

/// A target may use a capture repeatedly, but a head has a maximum length.
#[test]
fn a_location_that_becomes_too_long_is_414() {
    let site = one_rule("/a/*", &format!("/{}", "x/:splat/".repeat(30)), 302);
    assert!(location(&site, "/a/b").is_some());
    let bytes = archive(&site);
    let layout = Layout::open(&bytes).expect("sound");
    let target = format!("/a/{}", "%C3%BC/".repeat(1000));
    let response = ask_host(&layout, &bytes, &format!("GET {target} HTTP/1.1"), "example.org");
    assert_eq!((response.status, response.field("Location")), (414, None));
    // A key that is too long matches nothing.
    let site = one_rule("/a/*", &format!("/{}", "x/:splat/".repeat(30)), 200);
    let bytes = archive(&site);
    let layout = Layout::open(&bytes).expect("sound");
    let response = ask_host(&layout, &bytes, &format!("GET {target} HTTP/1.1"), "example.org");
    assert_eq!(response.status, 404);
}

/// An escaped slash of a name stays escaped in a redirect. A key has no escapes.
#[test]
fn a_captured_escaped_slash_remains_escaped() {
    let mut site = one_rule("/app/*", "/app.html", 200);
    site.pages.insert("/app.html".to_owned());
    let bytes = archive(&site);
    let layout = Layout::open(&bytes).expect("sound");
    let body = |target: &str| {
        let request = format!("GET {target} HTTP/1.1");
        ask_host(&layout, &bytes, &request, "example.org").body
    };
    assert_eq!(body("/app/a%2Fb"), b"/app.html");
    assert_eq!(body("/app%2Fa").first(), Some(&b'<'), "another segment");
    let mut site = one_rule("/app/*", "/new/:splat", 301);
    for (target, expected) in [
        ("/app/a/b", Some("/new/a/b")),
        ("/app/a%2Fb", Some("/new/a%2Fb")),
        ("/app/a%2fb/%2F", Some("/new/a%2Fb/%2F")),
        ("/app/%2Fevil.example/x", Some("/new/%2Fevil.example/x")),
        ("/app/a%2F..", Some("/new/a%2F..")),
        ("/app%2Fa", None),
        // The meaning of `%00` is undefined.
        ("/app/a%00b", None),
        ("/app/a%2F%00", None),
    ] {
        assert_eq!(location(&site, target).as_deref(), expected, "{target}");
    }
    site.rules[0].to = "/find?path=:splat".to_owned();
    assert_eq!(location(&site, "/app/a%2Fb").as_deref(), Some("/find?path=a%2Fb"));
    let mut site = one_rule("/app/*", "/new/:splat", 200);
    site.pages.insert("/new/a/b".to_owned());
    let bytes = archive(&site);
    let layout = Layout::open(&bytes).expect("sound");
    let status = |target: &str| {
        ask_host(&layout, &bytes, &format!("GET {target} HTTP/1.1"), "example.org").status
    };
    assert_eq!(["/app/a/b", "/app/a%2Fb"].map(status), [200, 404]);
}

/// Returns the response of a rewrite to a path and that of the path itself, which must be equal. A
/// rewrite uses the other slash form where a request for the path is redirected to it.
fn follows(site: &Site, target: &str, navigation: bool) -> (Resolution, Resolution) {
    let (bytes, own) = (archive(site), archive(&Site { rules: Vec::new(), ..site.clone() }));
    let request = |path: &str| Request {
        host: "example.org".to_owned(),
        path: path.to_owned(),
        navigation,
        ..Request::default()
    };
    let layout = Layout::open(&bytes).expect("sound");
    let rewritten = said(&ask(&layout, &bytes, &request("/zz/start")));
    let layout = Layout::open(&own).expect("sound");
    let direct = |path: &str| said(&ask(&layout, &own, &request(path)));
    let asked = match direct(target) {
        Resolution::Redirect(308, _) => match target.strip_suffix('/') {
            Some(without) => direct(without),
            None => direct(&format!("{target}/")),
        },
        response => response,
    };
    (rewritten, asked)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_rewrite_target_is_resolved_like_a_request(
        mut site in site(),
        target in path(),
        navigation in any::<bool>(),
    ) {
        site.rules = one_rule("/zz/*", &target, 200).rules;
        let (rewritten, asked) = follows(&site, &target, navigation);
        prop_assert_eq!(rewritten, asked, "{:?} {}", site, target);
    }
}

/// Examples of the law, and with the status of an error.
#[test]
fn a_rewrite_finds_the_page_under_either_slash_form() {
    let mut site = one_rule("/v1.30/*", "/v1.30.2/:splat", 200);
    for page in ["/v1.30.2/gallery/", "/docs/v2/", "/about"] {
        site.pages.insert(page.to_owned());
    }
    for (from, to, status) in [
        ("/start", "/docs/v2", 200),
        ("/begin", "/about/", 200),
        ("/gone", "/docs/v2", 410),
        ("/lost", "/nowhere", 410),
    ] {
        site.rules.extend(one_rule(from, to, status).rules);
    }
    let status_and_page = |site: &Site, target: &str| {
        let bytes = archive(site);
        let layout = Layout::open(&bytes).expect("sound");
        let request = format!("GET {target} HTTP/1.1");
        said(&ask_host(&layout, &bytes, &request, "example.org"))
    };
    for (target, expected) in [
        ("/v1.30/gallery", Resolution::Page(200, "/v1.30.2/gallery/".to_owned())),
        ("/v1.30/gallery/", Resolution::Page(200, "/v1.30.2/gallery/".to_owned())),
        ("/v1.30/gallery//", Resolution::NotFound),
        ("/start", Resolution::Page(200, "/docs/v2/".to_owned())),
        ("/begin", Resolution::Page(200, "/about".to_owned())),
        ("/gone", Resolution::Page(410, "/docs/v2/".to_owned())),
        ("/lost", Resolution::NotFound),
    ] {
        assert_eq!(status_and_page(&site, target), expected, "{target}");
    }
    site.no_slash_redirects = true;
    assert_eq!(status_and_page(&site, "/start"), Resolution::NotFound);
}

#[test]
fn rules_allow_the_methods_of_their_result() {
    let mut site = one_rule("/old/*", "/new", 302);
    site.pages.insert("/page".to_owned());
    site.rules.extend(one_rule("/app/*", "/page", 200).rules);
    site.rules.extend(one_rule("/gone/*", "/page", 410).rules);
    let bytes = archive(&site);
    let layout = Layout::open(&bytes).expect("sound");
    let status = |method: &str, path: &str| {
        ask_host(&layout, &bytes, &format!("{method} {path} HTTP/1.1"), "example.org").status
    };
    assert_eq!(["GET", "POST", "OPTIONS"].map(|method| status(method, "/old/x")), [302, 302, 204]);
    assert_eq!(["GET", "POST", "OPTIONS"].map(|method| status(method, "/app/x")), [200, 405, 204]);
    assert_eq!(["GET", "POST"].map(|method| status(method, "/gone/x")), [410, 410]);
}

/// A rewrite is the page itself, with its validators; a page of an error has none.
#[test]
fn a_rewrite_has_validators_and_an_error_page_has_none() {
    let mut site = one_rule("/app/*", "/page", 200);
    site.pages.insert("/page".to_owned());
    site.rules.extend(one_rule("/gone/*", "/page", 410).rules);
    let bytes = archive(&site);
    let layout = Layout::open(&bytes).expect("sound");
    let get = |path: &str, field: &str| {
        ask_host(&layout, &bytes, &format!("GET {path} HTTP/1.1{field}"), "example.org")
    };
    let tag = get("/app/x", "").field("ETag").expect("a resource").to_owned();
    assert_eq!(get("/app/x", &format!("\r\nIf-None-Match: {tag}")).status, 304);
    assert_eq!(get("/app/x", "\r\nRange: bytes=0-1").status, 206);
    let gone = get("/gone/x", "\r\nRange: bytes=0-1");
    assert_eq!((gone.status, gone.field("ETag"), gone.body.as_slice()), (410, None, &b"/page"[..]));
}

/// An error is `no-store` once, whatever fields the page has.
#[test]
fn an_error_with_the_content_of_a_page_is_no_store() {
    let own: [&[(&str, &str)]; 3] = [
        &[("X-A", "1"), ("Accept-Ranges", "bytes")],
        &[("cache-control", "max-age=60"), ("X-A", "1"), ("Cache-Control", "public")],
        &[("Expires", "Thu, 01 Jan 2099 00:00:00 GMT"), ("X-A", "1")],
    ];
    for fields in own {
        let mut m = Maker::new();
        let html = m.shared_with(200, "text/html", fields);
        let forms = [m.form(Coding::Identity, html, b"/page")];
        m.entry(&resource("/page", &forms));
        with_parts(&one_rule("/gone/*", "/page", 410).rules[0], |rule| m.rule(rule));
        let bytes = m.finish();
        let layout = Layout::open(&bytes).expect("sound");
        let gone = ask_host(&layout, &bytes, "GET /gone/x HTTP/1.1", "example.org");
        assert_eq!((gone.status, gone.body.as_slice()), (410, &b"/page"[..]));
        let kept = ["Content-Type", "X-A"].map(|name| gone.field(name));
        assert_eq!(kept, [Some("text/html"), Some("1")]);
        let said = ["Cache-Control", "Expires", "Accept-Ranges"].map(|name| gone.field(name));
        assert_eq!(said, [Some("no-store"), None, None]);
    }
}

/// Rules that became entries have the same responses as those that are tried in order.
#[test]
fn rewrite_entries_have_their_own_status() {
    let mut m = Maker::new();
    let html = m.shared(Role::Ordinary, 200, "text/html");
    let forms = [m.form(Coding::Identity, html, b"/page")];
    m.entry(&resource("/page", &forms));
    for (path, status) in [("/app", 200), ("/gone", 410)] {
        let entry = NewEntry { status, target: b"/page", ..resource(path, &[]) };
        m.entry(&NewEntry { kind: EntryKind::Rewrite, ..entry });
    }
    let bytes = m.finish();
    let layout = Layout::open(&bytes).expect("sound");
    for (path, status) in [("/app", 200), ("/gone", 410)] {
        let request = format!("GET {path} HTTP/1.1");
        let response = ask_host(&layout, &bytes, &request, "example.org");
        assert_eq!(said(&response), Resolution::Page(status, "/page".to_owned()));
        assert_eq!(response.field("ETag").is_some(), status == 200);
    }
}

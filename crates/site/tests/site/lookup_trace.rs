//! The steps of a look-up. Every request of these tests is sent with and without them.

use std::cell::RefCell;

use pinion_archive::{Archive, Layout};
use pinion_http::h1::head_parser::{self, HeadStorage, Parsed};
use pinion_http::h1::response_encoder::{self, ConnectionFields};
use pinion_http::limits::Limits;
use pinion_http::prepared_response::Prepared;
use pinion_http::request_head::RequestHead;
use pinion_site::lookup_trace::{LookupOutcome, LookupStep, RuleMatch, SinglePage, Sought, Trace};
use pinion_site::{Pieces, RequestBuffers, respond_traced};

use crate::reference_model::{Rule, Site};
use crate::rules::archive;
use crate::sample_site::NOW;

/// Steps in words, one after the other.
#[derive(Default)]
struct Steps(RefCell<Vec<String>>);

impl Trace for &Steps {
    fn step(self, step: LookupStep<'_>) {
        self.0.borrow_mut().push(in_words(step));
    }
}

fn in_words(step: LookupStep<'_>) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match step {
        LookupStep::Path(path) => format!("path {}", text(path)),
        LookupStep::NoPath(error) => format!("no path: {error:?}"),
        LookupStep::Entry { sought, path, found } => {
            let sought = match sought {
                Sought::Path => "entry",
                Sought::OtherSlashForm => "slash form",
                Sought::Target => "target",
                Sought::TargetOtherSlashForm => "slash form of the target",
            };
            let found = found.map_or("none", |kind| kind.name());
            format!("{sought} {}: {found}", text(path))
        }
        LookupStep::Variant => "variant".to_owned(),
        LookupStep::NoSlashRedirects => "no slash redirects".to_owned(),
        LookupStep::Rule { number, matched } => match matched {
            RuleMatch::Yes => format!("rule {number} matches"),
            RuleMatch::OtherHost => format!("rule {number}: host"),
            RuleMatch::Query(key) => format!("rule {number}: query {}", text(key)),
        },
        LookupStep::NotForced { number } => format!("rule {number} is not forced"),
        LookupStep::Applied { number } => format!("rule {number} is applied"),
        LookupStep::NulInPath { number } => format!("rule {number}: NUL"),
        LookupStep::TooLong => "too long".to_owned(),
        LookupStep::Rewritten(target) => format!("to {}", text(target)),
        LookupStep::PageOfFolder { path, found } => format!("page of {}: {found}", text(path)),
        LookupStep::Fallback { path, found: Some(status) } => {
            format!("page near {}: {status}", text(path))
        }
        LookupStep::Fallback { path, found: None } => format!("page near {}: none", text(path)),
        LookupStep::SinglePage(page) => match page {
            SinglePage::None => "no single page".to_owned(),
            SinglePage::NoNavigation => "no navigation".to_owned(),
            SinglePage::Sent => "single page".to_owned(),
        },
        LookupStep::End { outcome, key: Some(key), .. } => format!("{outcome:?} {}", text(key)),
        LookupStep::End { outcome, key: None, .. } => format!("{outcome:?}"),
    }
}

/// Checks that a request gets the same response when its steps are recorded, and that the steps end
/// with that response.
#[track_caller]
pub(crate) fn check_trace(archive: &Archive<'_>, head: &RequestHead<'_>, response: &Prepared<'_>) {
    let steps = LastStep::default();
    let mut work = RequestBuffers::new();
    let mut pieces = Pieces::new();
    let traced = respond_traced(archive, head, NOW, &mut work, &mut pieces, &steps);
    let [expected, bytes] = [response, &traced].map(|prepared| {
        let mut out = Vec::new();
        response_encoder::prepared(&mut out, prepared, ConnectionFields::Stay, b"\r\n");
        out
    });
    assert_eq!(expected.escape_ascii().to_string(), bytes.escape_ascii().to_string());
    let status = match *steps.0.borrow() {
        Some(LookupOutcome::Error(status) | LookupOutcome::RuleRedirect(status)) => status,
        Some(LookupOutcome::SlashRedirect) => 308,
        // Methods, conditions and damage decide about the others.
        _ => return,
    };
    let is_options = head.method == pinion_http::method::Method::Options;
    assert!(traced.status == status || is_options && traced.status == 204, "{status}");
}

#[derive(Default)]
struct LastStep(RefCell<Option<LookupOutcome>>);

impl Trace for &LastStep {
    fn step(self, step: LookupStep<'_>) {
        let mut last = self.0.borrow_mut();
        assert_eq!(*last, None, "a step behind the last one: {step:?}");
        if let LookupStep::End { outcome, .. } = step {
            *last = Some(outcome);
        }
    }
}

fn steps(site: &Site, request: &str) -> Vec<String> {
    let bytes = archive(site);
    let layout = Layout::open(&bytes).expect("sound");
    let input = format!("{request} HTTP/1.1\r\nHost: a.example\r\n\r\n").into_bytes();
    let mut storage = HeadStorage::new();
    let parsed = head_parser::parse(&input, 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("{request}: {parsed:?}") };
    let steps = Steps::default();
    let (mut work, mut pieces) = (RequestBuffers::new(), Pieces::new());
    respond_traced(&layout.view(&bytes), &head, NOW, &mut work, &mut pieces, &steps);
    steps.0.take()
}

fn rule(from: &str, to: &str, status: u16, force: bool) -> Rule {
    let (from, to) = (from.to_owned(), to.to_owned());
    Rule { host: String::new(), from, query: vec![], to, status, force }
}

fn site() -> Site {
    let asks =
        Rule { query: vec![("id".into(), ":id".into())], ..rule("/item", "/i/:id", 302, false) };
    let other = Rule { host: "b.example".to_owned(), ..rule("/*", "/b", 301, true) };
    let rules = vec![
        other,
        asks,
        rule("/docs/*", "/index", 200, false),
        rule("/shut/*", "/docs/", 503, true),
        rule("/gone/*", "/none", 200, false),
    ];
    let pages = ["/index", "/docs/", "/shut/a"].map(str::to_owned).into_iter().collect();
    let fallbacks = [("/".to_owned(), 404)].into_iter().collect();
    Site { pages, rules, fallbacks, single_page: true, ..Site::default() }
}

#[test]
fn the_lookup_trace_lists_each_step_in_order() {
    let site = site();
    for (request, expected) in [
        (
            "GET /docs/",
            "path /docs/, rule 0: host, rule 2 matches, rule 2 is not forced, \
          entry /docs/: resource, Resource /docs/",
        ),
        (
            "GET /docs",
            "path /docs, entry /docs: none, rule 0: host, rule 2 matches, \
          slash form /docs/: resource, rule 2 is not forced, SlashRedirect /docs/",
        ),
        (
            "GET /docs/x",
            "path /docs/x, entry /docs/x: none, rule 0: host, rule 2 matches, \
          slash form /docs/x/: none, rule 2 is applied, to /index, target /index: resource, \
          StandIn /index",
        ),
        (
            "GET /shut/a",
            "path /shut/a, rule 0: host, rule 3 matches, rule 3 is applied, to /docs/, \
          target /docs/: resource, Page(503) /docs/",
        ),
        (
            "GET /item?a",
            "path /item, entry /item: none, rule 1: query id, rule 0: host, \
          slash form /item/: none, page of /item: false, page near /item: 404, no navigation, \
          Page(404) 404:/",
        ),
        (
            "GET /gone/x",
            "path /gone/x, entry /gone/x: none, rule 0: host, rule 4 matches, \
          slash form /gone/x/: none, rule 4 is applied, to /none, target /none: none, \
          slash form of the target /none/: none, page of /none: false, page near /none: 404, \
          no navigation, Page(404) 404:/",
        ),
        ("GET /../a", "no path: AboveRoot, Error(400)"),
        (
            "GET /a%2Fb",
            "no path: NeverMatches, rule 0: host, page of /a\\x00b: false, \
          page near /a\\x00b: 404, no navigation, Page(404) 404:/",
        ),
        ("OPTIONS *", ""),
    ] {
        let expected: Vec<&str> = expected.split(", ").filter(|step| !step.is_empty()).collect();
        assert_eq!(steps(&site, request), expected, "{request}");
    }
}

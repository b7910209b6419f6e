//! Redirects: those of the archive, and the one between the two slash forms.

use crate::sample_site::{Maker, TEXT, ask, ask_archive, get, resource};
use pinion_archive::Role;
use pinion_http::content_coding::Coding;

#[test]
fn a_request_redirects_to_the_existing_slash_form() {
    let response = get("/docs");
    assert_eq!(response.status, 308);
    assert_eq!(response.field("Location"), Some("/docs/"));
    assert_eq!(response.length(), Some(0));
    assert_eq!(response.field("X-Slash"), Some("yes"), "the archive's fields for it");
    assert_eq!(get("/text.txt/").field("Location"), Some("/text.txt"));
    assert_eq!(get("/docs?a=b&c").field("Location"), Some("/docs/?a=b&c"));
    assert_eq!(get("/docs?").field("Location"), Some("/docs/?"));
}

#[test]
fn the_slash_redirect_location_is_the_escaped_resolved_path() {
    assert_eq!(get("/%64ocs").field("Location"), Some("/docs/"));
    assert_eq!(get("/x/../docs").field("Location"), Some("/docs/"));
    assert_eq!(get("/a%20b/%c3%bc/").field("Location"), Some("/a%20b/%C3%BC"));
}

/// An empty segment is a segment, not the slash of another form.
#[test]
fn an_empty_segment_is_not_removed() {
    for path in ["/text.txt//", "/docs//", "//"] {
        assert_eq!(get(path).status, 404, "{path}");
    }
}

/// `Location: //host/` would lead to another host (RFC 3986 §4.2).
#[test]
fn no_redirect_leads_to_another_host() {
    let mut m = Maker::new();
    let plain = m.shared(Role::Ordinary, 200, "text/plain");
    let forms = [m.form(Coding::Identity, plain, TEXT)];
    for path in ["//evil.example/", "/docs/", "/\\evil.example/"] {
        m.entry(&resource(path, &forms));
    }
    let bytes = m.finish();
    let location = |path: &str| {
        let response = ask_archive(&bytes, &format!("GET {path} HTTP/1.1"));
        response.field("Location").map(str::to_owned)
    };
    assert_eq!(location("//evil.example"), None);
    assert_eq!(location("/x/..//evil.example"), None);
    assert_eq!(location("/%5Cevil.example"), Some("/%5Cevil.example/".to_owned()));
    assert_eq!(location("/docs"), Some("/docs/".to_owned()));
}

#[test]
fn an_entry_redirects_with_its_own_status_fields_and_query() {
    let old = get("/old");
    assert_eq!((old.status, old.field("Location")), (301, Some("/new")));
    assert_eq!((old.length(), old.field("Content-Type")), (Some(0), None));
    assert_eq!(old.field("Cache-Control"), Some("max-age=0"));
    assert_eq!(get("/old?x=1").field("Location"), Some("/new?x=1"));
    assert_eq!(get("/fixed?x=1").field("Location"), Some("/new"));
    let joined = get("/search?b=2");
    assert_eq!(joined.field("Location"), Some("https://example.org/?a=1&b=2#top"));
    let body = get("/body");
    assert_eq!((body.status, body.body.as_slice()), (307, &b"moved"[..]));
    assert_eq!(body.field("Content-Type"), Some("text/html"));
    assert_eq!(get("/old/").field("Location"), Some("/old"), "one step, then the next");
}

#[test]
fn redirects_hold_for_every_method() {
    for method in ["GET", "HEAD", "POST", "DELETE", "BREW"] {
        assert_eq!(ask(&format!("{method} /old HTTP/1.1")).status, 301, "{method}");
        assert_eq!(ask(&format!("{method} /docs HTTP/1.1")).status, 308, "{method}");
    }
    assert_eq!(ask("OPTIONS /old HTTP/1.1").status, 204);
    assert_eq!(ask("OPTIONS /docs HTTP/1.1").status, 204);
}

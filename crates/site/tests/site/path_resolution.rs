//! Tests which entry a path gets (docs/resolution.md): paths are compared as bytes after
//! decoding, and the first match wins.

use crate::sample_site::{
    DOCS_NOT_FOUND, HOME, Maker, NOT_FOUND, TEXT, archive, ask, ask_archive, get, resource,
};
use pinion_archive::Role;
use pinion_http::content_coding::Coding;

#[test]
fn a_resource_has_all_its_fields() {
    let response = get("/text.txt");
    assert_eq!(response.status, 200);
    assert_eq!(response.body, TEXT);
    assert_eq!(response.length(), Some(36));
    assert_eq!(response.field("Content-Type"), Some("text/plain"));
    assert_eq!(response.field("Cache-Control"), Some("max-age=0"));
    assert_eq!(response.field("Last-Modified"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(response.field("ETag").expect("always").len(), 24);
    assert_eq!(response.field("Content-Location"), None);
}

#[test]
fn an_alias_has_the_content_location_of_its_file() {
    let (alias, file) = (get("/"), get("/index.html"));
    assert_eq!(alias.body, HOME);
    assert_eq!(alias.field("Content-Location"), Some("/index.html"));
    assert_eq!(file.field("Content-Location"), None);
    assert_eq!(alias.field("ETag"), file.field("ETag"));
}

/// RFC 9110 §8.8.2.1: "An origin server with a clock MUST NOT generate a Last-Modified date that
/// is later than the server's time of message origination".
#[test]
fn future_and_unknown_dates_are_not_sent() {
    assert_eq!(get("/future").field("Last-Modified"), None);
    assert_eq!(get("/undated").field("Last-Modified"), None);
    assert_eq!(get("/future").status, 200);
}

#[test]
fn an_empty_resource_has_length_zero() {
    let response = get("/empty");
    assert_eq!((response.status, response.length()), (200, Some(0)));
}

#[test]
fn paths_are_decoded_once() {
    for path in ["/text.txt", "/%74ext.txt", "/a/../text.txt", "/./text.txt", "/%2e/text.txt"] {
        assert_eq!(get(path).body, TEXT, "{path}");
    }
    assert_eq!(get("/a%20b/%C3%BC").status, 200);
    for path in ["/%2574ext.txt", "//text.txt", "/text.txt%00", "/docs%2F", "/TEXT.TXT"] {
        assert_eq!(get(path).status, 404, "{path}");
    }
    for path in ["/../text.txt", "/%2e%2e/x", "/a/../../text.txt", "/%zz", "/%"] {
        assert_eq!(get(path).status, 400, "{path}");
    }
}

#[test]
fn the_query_does_not_select_the_resource() {
    assert_eq!(get("/text.txt?a=b").body, TEXT);
    assert_eq!(ask("GET http://example.org?x HTTP/1.1").body, HOME);
}

#[test]
fn the_nearest_not_found_page_is_served() {
    for path in ["/nothing", "/nothing/at/all", "/docs.html", "/text.txt/x"] {
        let response = get(path);
        assert_eq!((response.status, response.body.as_slice()), (404, NOT_FOUND), "{path}");
    }
    for path in ["/docs/nothing", "/docs/a/b/c/", "/docs/../docs/x", "/docs/%2F", "/%64ocs/x%00"] {
        let response = get(path);
        assert_eq!((response.status, response.body.as_slice()), (404, DOCS_NOT_FOUND), "{path}");
    }
    let packed = ask("GET /docs/x HTTP/1.1\r\nAccept-Encoding: gzip");
    assert_eq!((packed.status, packed.body.as_slice()), (404, &b"gzip of it"[..]));
    assert_eq!(packed.field("Content-Encoding"), Some("gzip"));
}

/// A 404 has no fields about the missing resource.
#[test]
fn a_not_found_page_has_no_validators_and_no_ranges() {
    let response = ask("GET /x HTTP/1.1\r\nIf-None-Match: *\r\nRange: bytes=0-1");
    assert_eq!((response.status, response.body.as_slice()), (404, NOT_FOUND));
    for field in ["ETag", "Last-Modified", "Content-Location", "Content-Range"] {
        assert_eq!(response.field(field), None);
    }
}

#[test]
fn without_a_not_found_page_the_built_in_page_is_served() {
    let mut m = Maker::new();
    let plain = m.shared(Role::Ordinary, 200, "text/plain");
    let forms = [m.form(Coding::Identity, plain, TEXT)];
    m.entry(&resource("/x", &forms));
    let bytes = m.finish();
    let response = ask_archive(&bytes, "GET /y HTTP/1.1");
    assert_eq!(response.status, 404);
    assert!(response.body.starts_with(b"<!doctype html>"));
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.field("Cache-Control"), Some("no-store"));
    assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"));
}

#[test]
fn private_entries_are_404() {
    for path in ["/secret", "/secret/", "/hidden/", "/hidden"] {
        let response = get(path);
        assert_eq!((response.status, response.body.as_slice()), (404, NOT_FOUND), "{path}");
    }
}

#[test]
fn a_rewrite_serves_its_resource_and_does_not_chain() {
    assert_eq!(get("/app").body, HOME);
    assert_eq!(get("/app?x").status, 200);
    for path in ["/loop", "/nowhere"] {
        let response = get(path);
        assert_eq!((response.status, response.body.as_slice()), (404, NOT_FOUND), "{path}");
    }
}

#[test]
fn handler_and_unknown_entries_are_500() {
    for path in ["/hook", "/novel"] {
        let response = get(path);
        assert_eq!(response.status, 500);
        assert!(!response.damaged, "it is as the build wrote it");
    }
}

#[test]
fn internal_keys_cannot_be_requested() {
    let bytes = archive();
    for path in ["/404:/", "/404:/docs/", "/%34%30%34:/"] {
        assert_eq!(ask_archive(&bytes, &format!("GET {path} HTTP/1.1")).status, 404);
    }
}

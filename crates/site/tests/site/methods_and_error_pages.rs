//! Methods, and the pages the server makes itself.

use crate::sample_site::{ask, ask_archive};

const ALLOW: Option<&str> = Some("GET, HEAD, OPTIONS");

/// RFC 9110 §15.5.6: "The origin server MUST generate an Allow header field in a 405 response".
#[test]
fn the_lookup_precedes_the_method_check() {
    // RFC 9110 §15.6.2: 501 "when the server does not recognize the request method".
    let known = ["POST", "PUT", "DELETE", "PATCH", "TRACE", "QUERY"];
    let known = known.map(|method| (method, 405, ALLOW));
    let unknown = ["BREW", "PROPFIND", "get"].map(|method| (method, 501, None));
    for (method, status, allow) in known.into_iter().chain(unknown) {
        let response = ask(&format!("{method} /text.txt HTTP/1.1"));
        assert_eq!((response.status, response.field("Allow")), (status, allow), "{method}");
        let response = ask(&format!("{method} /nothing HTTP/1.1"));
        assert_eq!((response.status, response.field("Allow")), (404, None), "{method}");
    }
}

#[test]
fn options_lists_the_allowed_methods() {
    for target in ["/text.txt", "*", "/"] {
        let response = ask(&format!("OPTIONS {target} HTTP/1.1"));
        assert_eq!((response.status, response.field("Allow")), (204, ALLOW), "{target}");
        assert_eq!(response.length(), None, "RFC 9110 §8.6: none in a 204");
    }
    assert_eq!(ask("OPTIONS /nothing HTTP/1.1").status, 404);
}

#[test]
fn connect_is_501() {
    assert_eq!(ask("CONNECT example.org:443 HTTP/1.1").status, 501);
}

/// RFC 9110 §9.3.2: the fields of HEAD are those of GET. The engine leaves out the body.
#[test]
fn head_has_the_status_and_fields_of_get() {
    for path in ["/text.txt", "/", "/nothing", "/docs", "/old", "/empty"] {
        let get = ask(&format!("GET {path} HTTP/1.1"));
        assert_eq!(get, ask(&format!("HEAD {path} HTTP/1.1")), "{path}");
    }
}

#[test]
fn error_pages_are_html_or_text_by_accept() {
    let page = |accept: &str| ask(&format!("POST /text.txt HTTP/1.1\r\nAccept: {accept}"));
    for accept in ["text/html", "*/*", "text/html,application/xhtml+xml,*/*;q=0.8", "image/png"] {
        let response = page(accept);
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"), "{accept}");
        assert!(response.body.starts_with(b"<!doctype html>"));
    }
    for accept in ["text/plain", "text/plain, text/html;q=0.5"] {
        let response = page(accept);
        assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"), "{accept}");
        assert!(response.body.starts_with(b"405 "));
    }
}

#[test]
fn generated_responses_have_the_fields_of_the_archive() {
    for request in ["POST /text.txt", "OPTIONS *", "GET /../x", "GET /hook", "CONNECT a:1"] {
        let response = ask(&format!("{request} HTTP/1.1"));
        assert_eq!(response.field("X-Generated"), Some("yes"), "{request}");
        assert_eq!(response.field("Cache-Control"), Some("no-store"), "{request}");
    }
}

#[test]
fn an_archive_without_entries_is_404() {
    let bytes = crate::sample_site::Maker::new().finish();
    assert_eq!(ask_archive(&bytes, "GET / HTTP/1.1").status, 404);
}

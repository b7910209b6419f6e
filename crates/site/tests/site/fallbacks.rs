//! Responses for missing paths: fallback pages, and the page of a single-page site. Also responses
//! in another form: JSON variants.

use pinion_archive::{NewEntry, Role};
use pinion_http::content_coding::Coding;

use crate::sample_site::{Maker, ask_archive, resource};

const APP: &[u8] = b"<!doctype html><title>App</title>";

/// Returns a site with a single page, a not-found page, and a folder whose fallback page has status
/// 200.
fn site() -> Vec<u8> {
    let mut m = Maker::new();
    let html = m.shared(Role::Ordinary, 200, "text/html");
    let json = m.shared(Role::Ordinary, 200, "application/json");
    let app = [m.form(Coding::Identity, html, APP)];
    let missing = [m.form(Coding::Identity, html, b"missing")];
    let tile = [m.form(Coding::Identity, html, b"tile")];
    let list = [m.form(Coding::Identity, html, b"<ul>")];
    let list_json = [m.form(Coding::Identity, json, b"[]")];
    m.entry(&NewEntry { has_variant: true, ..resource("/files/", &list) });
    m.variant(&resource("/files/", &list_json));
    m.fallback(&NewEntry { status: 404, ..resource("/", &missing) });
    m.fallback(&resource("/tiles/", &tile));
    m.fallback(&NewEntry { status: 404, ..resource("/tiles/old/", &missing) });
    m.single_page(&resource("", &app));
    m.finish()
}

fn ask(request: &str, field: &str) -> (u16, Vec<u8>) {
    let request = match field {
        "" => format!("{request} HTTP/1.1"),
        field => format!("{request} HTTP/1.1\r\n{field}"),
    };
    let response = ask_archive(&site(), &request);
    (response.status, response.body)
}

#[test]
fn navigations_get_the_single_page_application() {
    let page = (200, APP.to_vec());
    for path in ["/users/7", "/users/7/", "/about.html", "/a.b/c", "/%2F"] {
        for field in [
            "Sec-Fetch-Mode: navigate",
            "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        ] {
            assert_eq!(ask(&format!("GET {path}"), field), page, "{path} {field}");
        }
    }
    assert_eq!(ask("HEAD /users/7", "Sec-Fetch-Mode: navigate").0, 200);
}

#[test]
fn missing_subresources_are_404_despite_the_single_page() {
    let missing = (404, b"missing".to_vec());
    for (request, field) in [
        ("GET /style.css", "Sec-Fetch-Mode: navigate"),
        ("GET /a/logo.svg", "Accept: text/html"),
        ("GET /users/7", ""),
        ("GET /users/7", "Accept: */*"),
        ("GET /users/7", "Accept: image/png, text/html;q=0"),
        ("GET /users/7", "Sec-Fetch-Mode: cors"),
        ("POST /users/7", "Sec-Fetch-Mode: navigate"),
    ] {
        assert_eq!(ask(request, field), missing, "{request} {field}");
    }
    // A client that prefers JSON gets problem details (RFC 9457) in place of the page.
    let (status, body) = ask("GET /users/7", "Accept: application/json, text/html;q=0");
    assert_eq!((status, body.starts_with(b"{\"title\":\"Not Found\",")), (404, true));
}

/// The deepest folder has precedence, whatever the status of its page.
#[test]
fn a_fallback_of_status_200_comes_before_the_single_page() {
    let navigate = "Sec-Fetch-Mode: navigate";
    for field in ["", navigate] {
        assert_eq!(ask("GET /tiles/1/2.png", field), (200, b"tile".to_vec()));
        assert_eq!(ask("GET /tiles/old/2.png", field), (404, b"missing".to_vec()));
    }
    assert_eq!(ask("GET /tiles/old/2", navigate), (200, APP.to_vec()));
    assert_eq!(ask("POST /tiles/1/2.png", "").0, 405);
    let response = ask_archive(&site(), "GET /tiles/1/2.png HTTP/1.1\r\nRange: bytes=1-2");
    assert_eq!((response.status, response.body.as_slice()), (206, &b"il"[..]));
    assert!(response.field("ETag").is_some());
}

#[test]
fn a_client_that_prefers_json_gets_the_variant() {
    for (field, body) in [
        ("Accept: application/json", &b"[]"[..]),
        ("Accept: application/json, text/plain, */*", b"[]"),
        ("Accept: text/html, application/json", b"<ul>"),
        ("Accept: */*", b"<ul>"),
        ("", b"<ul>"),
    ] {
        assert_eq!(ask("GET /files/", field), (200, body.to_vec()), "{field}");
    }
    let response = ask_archive(&site(), "HEAD /files/ HTTP/1.1\r\nAccept: application/json");
    assert_eq!(response.field("Content-Type"), Some("application/json"));
    assert_eq!(ask("GET /json:/files/", "").0, 404, "its key cannot be asked for");
}

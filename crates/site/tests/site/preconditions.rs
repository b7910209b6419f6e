//! Preconditions (RFC 9110 §13), in the order of §13.2.2, on the representation that was chosen.

use crate::sample_site::{HOME, HOME_GZIP, Response, TEXT, ask, get, get_with};

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

fn tag(response: &Response) -> String {
    response.field("ETag").expect("always").to_owned()
}

/// RFC 9110 §15.4.5: a 304 has the Content-Location, Date, ETag, Vary, Cache-Control and Expires
/// of the 200.
#[test]
fn a_304_has_the_fields_of_the_200() {
    let whole = get("/");
    let response = get_with("/", &format!("If-None-Match: {}", tag(&whole)));
    assert_eq!((response.status, response.length()), (304, None));
    for field in ["ETag", "Cache-Control", "Vary", "Content-Location", "Last-Modified"] {
        assert_eq!(response.field(field), whole.field(field), "{field}");
        assert!(response.field(field).is_some(), "{field}");
    }
    assert_eq!(response.field("Content-Type"), None);
    let head = ask(&format!("HEAD / HTTP/1.1\r\nIf-None-Match: {}", tag(&whole)));
    assert_eq!(head.status, 304);
}

#[test]
fn only_the_tag_of_the_chosen_representation_counts() {
    let packed = get_with("/", "Accept-Encoding: gzip");
    assert_eq!(packed.body, HOME_GZIP);
    let other = get_with("/", &format!("If-None-Match: {}", tag(&packed)));
    assert_eq!((other.status, other.body.as_slice()), (200, HOME));
    let same = get_with("/", &format!("Accept-Encoding: gzip\r\nIf-None-Match: {}", tag(&packed)));
    assert_eq!(same.status, 304);
    assert_eq!(same.field("ETag"), packed.field("ETag"));
}

#[test]
fn if_none_match_is_weak_and_a_list() {
    let tag = tag(&get("/text.txt"));
    for value in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
        let response = get_with("/text.txt", &format!("If-None-Match: {value}"));
        assert_eq!(response.status, 304, "{value}");
    }
    let response = get_with("/text.txt", "If-None-Match: \"x\"");
    assert_eq!((response.status, response.body.as_slice()), (200, TEXT));
}

#[test]
fn dates_count_where_no_tags_are_given() {
    let status = |path: &str, fields: &str| get_with(path, fields).status;
    assert_eq!(status("/text.txt", &format!("If-Modified-Since: {DATE}")), 304);
    assert_eq!(status("/text.txt", &format!("If-Modified-Since: {BEFORE}")), 200);
    let both = format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {DATE}");
    assert_eq!(status("/text.txt", &both), 200, "RFC 9110 §13.1.3: ignored beside If-None-Match");
    assert_eq!(status("/text.txt", &format!("If-Unmodified-Since: {DATE}")), 200);
    assert_eq!(status("/text.txt", &format!("If-Unmodified-Since: {BEFORE}")), 412);
    for path in ["/undated", "/future"] {
        assert_eq!(status(path, &format!("If-Modified-Since: {DATE}")), 200, "{path}");
        assert_eq!(status(path, &format!("If-Unmodified-Since: {BEFORE}")), 200, "{path}");
    }
}

#[test]
fn if_match_is_strong_and_comes_first() {
    let tag = tag(&get("/text.txt"));
    let status = |fields: &str| get_with("/text.txt", fields).status;
    assert_eq!(status(&format!("If-Match: {tag}")), 200);
    assert_eq!(status("If-Match: *"), 200);
    assert_eq!(status(&format!("If-Match: W/{tag}")), 412);
    assert_eq!(status("If-Match: \"x\""), 412);
    assert_eq!(status(&format!("If-Match: \"x\"\r\nIf-None-Match: {tag}")), 412);
    assert_eq!(status(&format!("If-Match: {tag}\r\nIf-None-Match: {tag}")), 304);
    let failed = get_with("/text.txt", "If-Match: \"x\"");
    assert_eq!(failed.field("Cache-Control"), Some("no-store"));
    assert_eq!(failed.field("ETag"), None, "the page is not the resource");
}

/// RFC 9110 §13.2.1: preconditions are ignored if the response without them is no 2xx.
#[test]
fn errors_and_redirects_have_no_preconditions() {
    assert_eq!(get_with("/nothing", "If-Match: \"x\"").status, 404);
    assert_eq!(get_with("/old", "If-Match: \"x\"").status, 301);
    assert_eq!(get_with("/docs", "If-None-Match: *").status, 308);
    assert_eq!(ask("POST /text.txt HTTP/1.1\r\nIf-Match: \"x\"").status, 405);
    assert_eq!(ask("OPTIONS /text.txt HTTP/1.1\r\nIf-Match: \"x\"").status, 204);
}

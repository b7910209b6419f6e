//! Which representation (RFC 9110 §12.5.3).

use crate::sample_site::{HOME, HOME_BR, HOME_GZIP, get, get_with};

#[test]
fn the_best_accepted_coding_then_the_smallest() {
    for (accept, body) in [
        ("gzip, deflate, br, zstd", HOME_BR),
        ("gzip", HOME_GZIP),
        ("br", HOME_BR),
        ("gzip;q=1, br;q=0.5", HOME_GZIP),
        ("*", HOME_BR),
        ("zstd", HOME),
        ("identity", HOME),
        ("gzip;q=0, br;q=0", HOME),
        ("identity;q=0", HOME),
        ("*;q=0", HOME),
        ("", HOME),
    ] {
        let response = get_with("/", &format!("Accept-Encoding: {accept}"));
        assert_eq!(response.status, 200, "never 406: {accept}");
        assert_eq!(response.body, body, "{accept}");
    }
    assert_eq!(get("/").body, HOME);
}

#[test]
fn each_representation_has_its_own_etag_and_the_same_vary() {
    let forms = ["identity", "gzip", "br"]
        .map(|coding| get_with("/", &format!("Accept-Encoding: {coding}")));
    let tags: Vec<_> = forms.iter().map(|form| form.field("ETag").expect("always")).collect();
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    let codings: Vec<_> = forms.iter().map(|form| form.field("Content-Encoding")).collect();
    assert_eq!(codings, [None, Some("gzip"), Some("br")]);
    for form in &forms {
        assert_eq!(form.field("Vary"), Some("Accept-Encoding"));
        assert_eq!(form.field("Content-Location"), Some("/index.html"));
    }
}

#[test]
fn several_accept_encoding_lines_are_one_list() {
    let response = get_with("/", "Accept-Encoding: deflate\r\nAccept-Encoding: gzip");
    assert_eq!(response.body, HOME_GZIP);
}

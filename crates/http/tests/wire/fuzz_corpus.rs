//! Every file of the fuzz corpora, replayed with the checks of the fuzz targets.

use std::fs;
use std::path::Path;

use crate::{oracle, ppp_comparison};

/// Runs `check` on every file; there must be some.
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut count = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count >= 20, "{}: only {count} files", folder.display());
}

#[test]
fn h1_request() {
    replay("h1_request", oracle::h1_request::check);
}

#[test]
fn h1_body() {
    replay("h1_body", oracle::h1_body::check);
}

#[test]
fn h1_response() {
    replay("h1_response", oracle::h1_response::check);
}

#[test]
fn h2() {
    replay("h2", |data| drop(oracle::h2_session_invariants::check(data)));
}

#[test]
fn h3() {
    replay("h3", |data| drop(oracle::h3::check(data)));
}

#[test]
fn target_decode() {
    replay("target_decode", oracle::path_decode::check);
}

#[test]
fn range() {
    replay("range", oracle::range::check);
}

#[test]
fn accept_encoding() {
    replay("accept_encoding", oracle::accept_encoding::check);
}

#[test]
fn hpack_encoder() {
    replay("hpack_encoder", oracle::hpack_encoder::check);
}

#[test]
fn qpack_encoder() {
    replay("qpack_encoder", oracle::qpack_encoder::check);
}

#[test]
fn hpack() {
    replay("hpack", oracle::hpack::check);
}

#[test]
fn qpack() {
    replay("qpack", oracle::qpack::check);
}

#[test]
fn multipart() {
    replay("multipart", oracle::multipart::check);
}

#[test]
fn proxy_header() {
    replay("proxy_header", oracle::proxy_header::check);
    replay("proxy_header", ppp_comparison::check);
}

#[test]
fn client_identity() {
    replay("client_identity", oracle::client_identity::check);
}

#[test]
fn cgi_head() {
    replay("cgi_head", oracle::cgi_reader_check::check);
}

#[test]
fn fastcgi() {
    replay("fastcgi", oracle::fastcgi::check);
}

#[test]
fn python_frames() {
    replay("python_frames", oracle::python_frames::check);
}

#[test]
fn websocket() {
    replay("websocket", oracle::websocket::check);
}

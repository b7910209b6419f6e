//! Content codings and their negotiation (RFC 9110 §8.4, §12.5.3).

use pinion_tests::body::decoded;
use pinion_tests::matrix::Matrix;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use std::collections::HashSet;
use std::fs;

const ALL: &[&str] = &["--codings", "gzip,br,zstd"];

/// Returns text whose codings are all worth keeping.
fn text() -> String {
    (0..400).map(|line| format!("line {line} says that {} is a square\n", line * line)).collect()
}

/// Bytes that no coding makes smaller.
fn noise() -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..5000).map(|_| next()).collect()
}

fn site() -> Folder {
    let folder = Folder::new("coding");
    for name in ["page.html", "style.css", "code.js", "data.json", "mark.svg", "notes.txt"] {
        folder.write(name, text());
    }
    folder.write("small.txt", "small");
    folder.write("noise.txt", noise());
    folder.write("photo.png", [b"\x89PNG\r\n\x1a\n".as_slice(), &noise()].concat());
    folder
}

fn accepting(server: &Server, target: &str, accept_encoding: &str) -> Response {
    server.exchange(&Request::get(target).field("Accept-Encoding", accept_encoding))
}

#[test]
fn every_coding_decodes_to_the_file() {
    let site = site();
    Matrix::of(site.path()).explained().build(ALL).run(|server| {
        for entry in fs::read_dir(site.path()).expect("the site") {
            let path = entry.expect("a file").path();
            let target = format!("/{}", path.file_name().and_then(|n| n.to_str()).expect("a name"));
            let file = fs::read(&path).expect("the file");
            for coding in ["identity", "gzip", "br", "zstd"] {
                let response = accepting(server, &target, coding);
                assert_eq!(decoded(&response), file, "{target} in {coding}");
            }
        }
    });
}

#[test]
fn each_coding_is_there_and_has_a_tag_of_its_own() {
    let site = site();
    Matrix::of(site.path()).explained().build(ALL).run(|server| {
        let mut tags = HashSet::new();
        for coding in ["identity", "gzip", "br", "zstd"] {
            let response = accepting(server, "/page.html", coding);
            let expected = (coding != "identity").then_some(coding);
            assert_eq!(response.field("Content-Encoding"), expected, "{response}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{response}");
            assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
            assert!(tags.insert(response.field("ETag").expect("a tag").to_owned()));
        }
    });
}

#[test]
fn files_without_a_coding_have_no_vary() {
    let site = site();
    Matrix::of(site.path()).explained().build(ALL).run(|server| {
        for target in ["/small.txt", "/noise.txt", "/photo.png"] {
            let response = accepting(server, target, "gzip, br, zstd");
            assert_eq!(response.field("Content-Encoding"), None, "{target}: {response}");
            assert_eq!(response.field("Vary"), None, "{target}: {response}");
        }
    });
}

#[test]
fn the_highest_quality_wins_then_the_smallest_form() {
    let site = site();
    Matrix::of(site.path()).explained().build(ALL).run(|server| {
        let mut sizes: Vec<(usize, &str)> = ["gzip", "br", "zstd"]
            .map(|coding| (accepting(server, "/page.html", coding).body.len(), coding))
            .to_vec();
        sizes.sort_unstable();
        let (smallest, largest) = (sizes[0].1, sizes[2].1);
        for (accept, expected) in [
            ("gzip, deflate, br, zstd", smallest),
            ("zstd, br, gzip", smallest),
            ("*", smallest),
            ("gzip;q=0.5, br;q=0.5, zstd;q=0.5", smallest),
            (&format!("{largest};q=0.9, *;q=0.8"), largest),
            (&format!("{smallest};q=0.001, {largest};q=0.002"), largest),
            ("GZIP", "gzip"),
            ("x-gzip", "gzip"),
            ("gzip ; q=1.000", "gzip"),
            ("br;q=0, gzip, *;q=0", "gzip"),
            ("identity;q=0.5, gzip;q=0.6", "gzip"),
        ] {
            let response = accepting(server, "/page.html", accept);
            assert_eq!(response.field("Content-Encoding"), Some(expected), "{accept}");
        }
        let lines = Request::get("/page.html").field("Accept-Encoding", "deflate");
        let lines = lines.field("Accept-Encoding", "zstd");
        assert_eq!(server.exchange(&lines).field("Content-Encoding"), Some("zstd"));
    });
}

#[test]
fn identity_is_the_fallback_instead_of_406() {
    // RFC 9110 §12.5.3 leaves the choice; docs/resolution.md states it.
    let site = site();
    Matrix::of(site.path()).explained().build(ALL).run(|server| {
        let without = server.get("/page.html");
        assert_eq!((without.status, without.field("Content-Encoding")), (200, None));
        for accept in [
            "",
            "identity",
            "deflate",
            "compress, exi",
            "gzip;q=0",
            "*;q=0",
            "identity;q=0, *;q=0",
            "gzip;q=0, br;q=0.000, zstd;q=0",
            "gzip;q=x",
            "gzip;q=",
            "gzip;q=2",
            ";q=1",
            ",,,",
            "gzip;q=0.1234",
            "identity;q=1, gzip;q=0.5",
        ] {
            let response = accepting(server, "/page.html", accept);
            assert_eq!(response.status, 200, "{accept:?}");
            assert_eq!(response.field("Content-Encoding"), None, "{accept:?}: {response}");
        }
        let response = accepting(server, "/photo.png", "gzip, identity;q=0");
        assert_eq!((response.status, response.field("Content-Encoding")), (200, None));
    });
}

#[test]
fn an_error_page_of_the_site_is_negotiated_like_a_page() {
    let site = site();
    site.write("404.html", text());
    Matrix::of(site.path()).explained().build(ALL).run(|server| {
        let response = accepting(server, "/nothing", "gzip");
        assert_eq!((response.status, response.field("Content-Encoding")), (404, Some("gzip")));
        assert_eq!(decoded(&response), text().as_bytes());
    });
}

#[test]
fn codings_are_chosen_at_the_build() {
    let site = site();
    Matrix::of(site.path()).explained().build(&["--codings", "identity"]).run(|server| {
        let response = accepting(server, "/page.html", "gzip, br, zstd");
        assert_eq!((response.field("Content-Encoding"), response.field("Vary")), (None, None));
    });
    Matrix::of(site.path()).explained().build(&["--codings", "br:11"]).run(|server| {
        let response = accepting(server, "/page.html", "gzip, br, zstd");
        assert_eq!(response.field("Content-Encoding"), Some("br"));
        assert_eq!(accepting(server, "/page.html", "gzip").field("Content-Encoding"), None);
    });
}

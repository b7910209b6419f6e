//! Builds, verifies and serves an archive above 4 GiB with the real program: offsets have 64 bits
//! (docs/archive-format.md). This takes minutes, so it only runs in `cargo xtask test --long`:
//! feature `long`.

use pinion_tests::external_programs;
use pinion_tests::matrix::Matrix;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, build, run};
use pinion_tests::temporary_folder::Folder;
use std::fs::File;
use std::os::unix::fs::FileExt;

const LIMIT_OF_32_BITS: u64 = 1 << 32;
const LARGE_BYTES: u64 = LIMIT_OF_32_BITS + 12_345;
const MARK: &[u8] = b"0123456789abcdef";
/// The positions of the marks in the large file: one crosses the limit.
const MARKS: [u64; 3] = [0, LIMIT_OF_32_BITS - 7, LARGE_BYTES - MARK.len() as u64];

fn site() -> Folder {
    // Small bodies are before and after the large one.
    let site = Folder::with("large", [("a.txt", "before"), ("z.txt", "behind")]);
    // The file has a type that is not compressed; the space between the marks is a hole.
    let file = File::create(site.join("disc.zip")).expect("created");
    file.set_len(LARGE_BYTES).expect("made long");
    for at in MARKS {
        file.write_all_at(MARK, at).expect("marked");
    }
    site
}

#[test]
fn an_archive_above_4_gib_is_served_like_any_other() {
    let site = site();
    Matrix::of(site.path()).over(Protocol::is_known_to_curl, "curl").run(|server| {
        assert_eq!(server.get("/a.txt").text(), "before");
        assert_eq!(server.get("/z.txt").text(), "behind");
        let mut connection = server.client();
        let head = connection.exchange(&Request::head("/disc.zip"));
        assert_eq!(head.field("Content-Length"), Some(LARGE_BYTES.to_string().as_str()));
        for at in MARKS {
            let last = at + MARK.len() as u64 - 1;
            let range = format!("bytes={at}-{last}");
            let part = connection.exchange(&Request::get("/disc.zip").field("Range", range));
            assert_eq!(part.status, 206, "{part}");
            let content_range = format!("bytes {at}-{last}/{LARGE_BYTES}");
            assert_eq!(part.field("Content-Range"), Some(content_range.as_str()));
            assert_eq!(part.body, MARK, "at {at}");
        }
        let beyond = format!("bytes={LARGE_BYTES}-");
        let beyond = connection.exchange(&Request::get("/disc.zip").field("Range", beyond));
        assert_eq!(beyond.status, 416, "{beyond}");
        assert_eq!(downloaded_bytes(server, &[]), LARGE_BYTES);
        // Two parts, the first of them longer than a single call can send.
        let parts_bytes = downloaded_bytes(server, &["--range", "0-3999999999,4100000000-"]);
        let headings_bytes = parts_bytes.checked_sub(LARGE_BYTES - 100_000_000);
        assert!(headings_bytes.is_some_and(|bytes| bytes < 1000), "{parts_bytes}");
    });
}

/// Returns the number of bytes that curl downloads without storing them.
fn downloaded_bytes(server: &Server, options: &[&str]) -> u64 {
    let mut curl = server.curl();
    curl.args(["--silent", "--show-error", "--output", "/dev/null"]).args(options);
    curl.args(["--write-out", "%{size_download}", &server.url("/disc.zip")]);
    let printed = String::from_utf8(external_programs::stdout(&mut curl)).expect("text");
    printed.parse().unwrap_or_else(|_| panic!("{printed:?} is no number"))
}

#[test]
fn verify_and_cat_work_on_an_archive_above_4_gib() {
    let site = site();
    let archive = site.join("../large.pinion");
    build(site.path(), &archive, &[]);
    let path = archive.to_str().expect("a path of text");
    assert!(archive.metadata().expect("its size").len() > LIMIT_OF_32_BITS);
    let verified = run(&["verify", path]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let behind = run(&["cat", path, "/z.txt"]);
    assert_eq!(behind.stdout, "behind", "{behind:?}");
    std::fs::remove_file(&archive).expect("removed");
}

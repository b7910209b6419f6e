//! Range requests (RFC 9110 §14).

use pinion_tests::body::{decoded, parts};
use pinion_tests::matrix::explained_ways;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use std::ops::Range;

const PAGE_BYTES: usize = 1000;
/// Over the size from which files of a folder are sent from where they are.
const LARGE_BYTES: usize = 3 << 20;

/// Bytes in which no two places look alike.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes / 8 + 1)
        .flat_map(|number| format!("{number:07}\n").into_bytes())
        .take(bytes)
        .collect()
}

fn site() -> Folder {
    let folder = Folder::new("range");
    folder.write("page.txt", content(PAGE_BYTES));
    folder.write("large.bin", content(LARGE_BYTES));
    folder.write("empty.txt", "");
    folder
}

fn ranged(server: &Server, target: &str, range: &str) -> Response {
    server.exchange(&Request::get(target).field("Range", range))
}

/// Checks that the response to the range is a 206 with exactly these bytes.
#[track_caller]
fn gives(server: &Server, target: &str, total: usize, range: &str, expected: Range<usize>) {
    let response = ranged(server, target, range);
    assert_eq!(response.status, 206, "{range}: {response}");
    let (first, last) = (expected.start, expected.end - 1);
    let content_range = format!("bytes {first}-{last}/{total}");
    assert_eq!(response.field("Content-Range"), Some(content_range.as_str()), "{range}");
    assert!(response.body == content(total)[expected], "{range}: other bytes");
}

#[test]
fn a_single_range_gives_just_its_bytes() {
    // §14.1.2: positions count from 0, both ends are included, a suffix counts from the end.
    explained_ways(&site(), |server| {
        for (range, expected) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-499", 0..500),
            ("bytes=500-999", 500..1000),
            ("bytes=500-", 500..1000),
            ("bytes=999-", 999..1000),
            ("bytes=900-5000", 900..1000),
            ("bytes=0-99999999999999999999999", 0..1000),
            ("bytes=-1", 999..1000),
            ("bytes=-1000", 0..1000),
            ("bytes=-5000", 0..1000),
            ("bytes= 1-2 , 4000-", 1..3),
            ("BYTES=7-7", 7..8),
        ] {
            gives(server, "/page.txt", PAGE_BYTES, range, expected);
        }
    });
}

#[test]
fn a_range_of_a_large_file_gives_just_its_bytes() {
    explained_ways(&site(), |server| {
        for (range, expected) in [
            ("bytes=0-9", 0..10),
            ("bytes=4090-4105", 4090..4106),
            ("bytes=1048570-2097160", 1_048_570..2_097_161),
            ("bytes=-5", LARGE_BYTES - 5..LARGE_BYTES),
            ("bytes=1-", 1..LARGE_BYTES),
        ] {
            gives(server, "/large.bin", LARGE_BYTES, range, expected);
        }
    });
}

#[test]
fn several_ranges_are_sent_as_parts_in_the_requested_order() {
    // §15.3.7.2: each part has its own Content-Range, the whole has none.
    explained_ways(&site(), |server| {
        for (target, total) in [("/page.txt", PAGE_BYTES), ("/large.bin", LARGE_BYTES)] {
            let response = ranged(server, target, "bytes=900-909, 0-1,-3,500-500");
            assert_eq!(response.status, 206, "{response}");
            let found = parts(&response);
            let own_type = server.get(target).field("Content-Type").expect("a type").to_owned();
            let expected = [900..910, 0..2, total - 3..total, 500..501];
            assert_eq!(found.len(), expected.len());
            for (part, expected) in found.iter().zip(expected) {
                let (first, last) = (expected.start, expected.end - 1);
                assert_eq!(part.content_range, format!("bytes {first}-{last}/{total}"));
                assert_eq!(part.content_type, own_type);
                assert_eq!(part.content, content(total)[expected]);
            }
        }
    });
}

#[test]
fn ranges_that_overlap_or_touch_are_merged() {
    // §15.3.7.2: a server may coalesce them.
    explained_ways(&site(), |server| {
        gives(server, "/page.txt", PAGE_BYTES, "bytes=0-9,5-19", 0..20);
        gives(server, "/page.txt", PAGE_BYTES, "bytes=0-9,10-19", 0..20);
        gives(server, "/page.txt", PAGE_BYTES, "bytes=5-,-5,0-4", 0..1000);
        let response = ranged(server, "/page.txt", "bytes=0-9,50-59,5-19");
        let ranges: Vec<String> =
            parts(&response).into_iter().map(|part| part.content_range).collect();
        assert_eq!(ranges, ["bytes 0-19/1000", "bytes 50-59/1000"]);
    });
}

#[test]
fn sixteen_ranges_are_served_and_seventeen_are_not() {
    // §14.2: a server may ignore a Range with many small ranges. The limit is in docs/serving.md,
    // "Limits".
    explained_ways(&site(), |server| {
        let ranges = |count: usize| {
            let each: Vec<String> = (0..count).map(|i| format!("{0}-{0}", 10 * i)).collect();
            format!("bytes={}", each.join(","))
        };
        assert_eq!(parts(&ranged(server, "/page.txt", &ranges(16))).len(), 16);
        let response = ranged(server, "/page.txt", &ranges(17));
        assert_eq!((response.status, response.body.len()), (200, PAGE_BYTES));
    });
}

#[test]
fn a_range_beyond_the_end_is_unsatisfiable() {
    // §15.5.17, §14.4.
    explained_ways(&site(), |server| {
        for range in ["bytes=1000-", "bytes=1000-1001", "bytes=-0", "bytes=5000-6000,2000-"] {
            let response = ranged(server, "/page.txt", range);
            assert_eq!(response.status, 416, "{range}: {response}");
            assert_eq!(response.field("Content-Range"), Some("bytes */1000"), "{range}");
        }
        for range in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
            let response = ranged(server, "/empty.txt", range);
            assert_eq!((response.status, response.field("Content-Range")), (200, None), "{range}");
            assert_eq!(response.field("Content-Length"), Some("0"), "{range}");
        }
    });
}

#[test]
fn invalid_ranges_are_ignored() {
    // §14.2: an invalid ranges-specifier, or a unit that is not understood.
    explained_ways(&site(), |server| {
        for range in [
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-2",
            "bytes=0-1;2-3",
            "lines=0-1",
            "bytes=0x1-2",
            "bytes 0-1",
            "bytes=--1",
            "bytes=1-2-3",
            "bytes=+1-2",
            "bytes=0 -1",
        ] {
            let response = ranged(server, "/page.txt", range);
            assert_eq!((response.status, response.body.len()), (200, PAGE_BYTES), "{range}");
        }
        let twice =
            Request::get("/page.txt").field("Range", "bytes=0-1").field("Range", "bytes=2-3");
        assert_eq!(server.exchange(&twice).status, 200);
    });
}

#[test]
fn ranges_apply_only_to_get() {
    // §14.2: Range is defined for GET.
    explained_ways(&site(), |server| {
        let head = server.exchange(&Request::head("/page.txt").field("Range", "bytes=0-1"));
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("1000")));
        let post = Request::new("POST", "/page.txt").field("Range", "bytes=0-1").body(b"x");
        assert_eq!(server.exchange(&post).status, 405);
    });
}

#[test]
fn if_range_requires_a_strong_match() {
    // §13.1.5.
    explained_ways(&site(), |server| {
        let full = server.get("/page.txt");
        let tag = full.field("ETag").expect("a tag").to_owned();
        let modified = full.field("Last-Modified").expect("a date").to_owned();
        let status = |value: &str| {
            let request = Request::get("/page.txt").field("Range", "bytes=0-9");
            server.exchange(&request.field("If-Range", value)).status
        };
        assert_eq!(status(&tag), 206);
        for other in
            [&format!("W/{tag}"), "\"x\"", "Sun, 06 Nov 1994 08:49:37 GMT", "nonsense", "*"]
        {
            assert_eq!(status(other), 200, "If-Range: {other}");
        }
        // A date is strong once it is a second before that of the response (§8.8.2.2).
        pinion_tests::wait_for("a second", || (status(&modified) == 206).then_some(()));
        let unsatisfiable = Request::get("/page.txt").field("Range", "bytes=5000-");
        assert_eq!(server.exchange(&unsatisfiable.field("If-Range", "\"x\"")).status, 200);
    });
}

#[test]
fn a_range_of_a_coding_is_a_range_of_its_stored_bytes() {
    // §14: ranges are of the selected representation, after its content coding.
    explained_ways(&site(), |server| {
        for coding in ["gzip", "br"] {
            let request = Request::get("/page.txt").field("Accept-Encoding", coding);
            let mut full = server.exchange(&request);
            assert_eq!(full.field("Content-Encoding"), Some(coding), "{full}");
            let mut joined = Vec::new();
            for range in ["bytes=0-19", "bytes=20-"] {
                let part = server.exchange(&request.clone().field("Range", range));
                assert_eq!(part.status, 206, "{part}");
                assert_eq!(part.field("ETag"), full.field("ETag"));
                assert_eq!(part.field("Content-Encoding"), Some(coding));
                joined.extend_from_slice(&part.body);
            }
            full.body = joined;
            assert_eq!(decoded(&full), content(PAGE_BYTES));
        }
    });
}

#[test]
fn ranges_are_offered() {
    // §14.3.
    explained_ways(&site(), |server| {
        for target in ["/page.txt", "/large.bin"] {
            assert_eq!(server.get(target).field("Accept-Ranges"), Some("bytes"));
        }
    });
}

//! Ranges (RFC 9110 §14).

use crate::sample_site::{EXTERNAL_BYTES, HOME_GZIP, Response, TEXT, ask, get, get_with};

/// Returns the parts of a multipart body: their head and content.
fn parts(response: &Response) -> Vec<(String, Vec<u8>)> {
    let media_type = response.field("Content-Type").expect("always");
    let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").expect("multipart");
    let body = String::from_utf8(response.body.clone()).expect("text");
    let body = body.strip_suffix(&format!("\r\n--{boundary}--\r\n")).expect("an end");
    let delimiter = format!("\r\n--{boundary}\r\n");
    let mut parts = body.split(&delimiter);
    assert_eq!(parts.next(), Some(""), "nothing in front");
    parts
        .map(|part| {
            let (head, content) = part.split_once("\r\n\r\n").expect("a blank line");
            (head.to_owned(), content.as_bytes().to_vec())
        })
        .collect()
}

#[test]
fn one_range_is_a_206_with_all_fields_of_the_200() {
    let whole = get("/text.txt");
    for (range, content_range, body) in [
        ("0-9", "bytes 0-9/36", &TEXT[..10]),
        ("10-", "bytes 10-35/36", &TEXT[10..]),
        ("-6", "bytes 30-35/36", &TEXT[30..]),
        ("35-99", "bytes 35-35/36", &TEXT[35..]),
        ("0-", "bytes 0-35/36", TEXT),
        ("0-4,5-9", "bytes 0-9/36", &TEXT[..10]),
        ("0-7,3-9", "bytes 0-9/36", &TEXT[..10]),
        ("0-0,99-", "bytes 0-0/36", &TEXT[..1]),
    ] {
        let response = get_with("/text.txt", &format!("Range: bytes={range}"));
        assert_eq!((response.status, response.body.as_slice()), (206, body), "{range}");
        assert_eq!(response.field("Content-Range"), Some(content_range));
        for field in ["ETag", "Last-Modified", "Cache-Control", "Vary", "Content-Type"] {
            assert_eq!(response.field(field), whole.field(field), "{field}");
        }
    }
}

#[test]
fn several_ranges_are_multipart() {
    let response = get_with("/text.txt", "Range: bytes=0-1, 10-12, -2");
    assert_eq!(response.status, 206);
    assert_eq!(response.field("Content-Range"), None, "RFC 9110 §15.3.7.2: in the parts only");
    assert!(response.field("ETag").is_some());
    let heading = |range: &str| format!("Content-Type: text/plain\r\nContent-Range: bytes {range}");
    let expected = [
        (heading("0-1/36"), TEXT[..2].to_vec()),
        (heading("10-12/36"), TEXT[10..13].to_vec()),
        (heading("34-35/36"), TEXT[34..].to_vec()),
    ];
    assert_eq!(parts(&response), expected);
}

#[test]
fn sixteen_ranges_are_served_and_seventeen_are_not() {
    let list = |count: usize| {
        let ranges: Vec<String> = (0..count).map(|n| format!("{0}-{0}", 2 * n)).collect();
        get_with("/text.txt", &format!("Range: bytes={}", ranges.join(",")))
    };
    let response = list(16);
    assert_eq!(response.status, 206);
    let bodies: Vec<u8> = parts(&response).into_iter().flat_map(|(_, body)| body).collect();
    assert_eq!(bodies, TEXT.iter().copied().step_by(2).take(16).collect::<Vec<_>>());
    let response = list(17);
    assert_eq!((response.status, response.body.as_slice()), (200, TEXT));
}

#[test]
fn a_range_without_a_byte_is_416() {
    for range in ["36-", "99-100", "-0"] {
        let response = get_with("/text.txt", &format!("Range: bytes={range}"));
        assert_eq!(response.status, 416, "{range}");
        assert_eq!(response.field("Content-Range"), Some("bytes */36"));
        assert_eq!(response.field("Cache-Control"), Some("no-store"));
    }
}

#[test]
fn an_empty_file_is_sent_whole_for_any_range() {
    for range in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=5-9,0-1"] {
        let response = get_with("/empty", &format!("Range: {range}"));
        assert_eq!((response.status, response.length()), (200, Some(0)), "{range}");
        assert_eq!(response.field("Content-Range"), None, "{range}");
        assert!(response.field("ETag").is_some(), "{range}");
    }
}

#[test]
fn invalid_ranges_are_ignored() {
    for range in ["bytes=5-1", "bytes=x", "bytes=", "lines=0-1", "bytes 0-1", "bytes=0-1,x"] {
        let response = get_with("/text.txt", &format!("Range: {range}"));
        assert_eq!((response.status, response.body.as_slice()), (200, TEXT), "{range}");
        assert_eq!(response.field("Content-Range"), None);
    }
    let head = ask("HEAD /text.txt HTTP/1.1\r\nRange: bytes=0-1");
    assert_eq!((head.status, head.length()), (200, Some(36)), "RFC 9110 §14.2: GET only");
}

#[test]
fn ranges_are_those_of_the_chosen_representation() {
    let response = get_with("/", "Accept-Encoding: gzip\r\nRange: bytes=5-9");
    assert_eq!((response.status, response.body.as_slice()), (206, &HOME_GZIP[5..10]));
    assert_eq!(response.field("Content-Encoding"), Some("gzip"));
    let response = get_with("/", "Accept-Encoding: gzip\r\nRange: bytes=0-1,4-5");
    assert_eq!(response.field("Content-Encoding"), Some("gzip"));
    assert_eq!(parts(&response).len(), 2);
}

#[test]
fn if_range_and_other_preconditions_precede_ranges() {
    let tag = get("/text.txt").field("ETag").expect("always").to_owned();
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let status =
        |fields: &str| get_with("/text.txt", &format!("Range: bytes=0-1\r\n{fields}")).status;
    assert_eq!(status(&format!("If-Range: {tag}")), 206);
    assert_eq!(status(&format!("If-Range: {date}")), 206);
    assert_eq!(status(&format!("If-Range: W/{tag}")), 200);
    assert_eq!(status("If-Range: \"x\""), 200);
    assert_eq!(status("If-Range: Sun, 06 Nov 1994 08:49:38 GMT"), 200);
    assert_eq!(status(&format!("If-None-Match: {tag}")), 304);
    assert_eq!(status("If-Match: \"x\""), 412);
    let beyond = get_with("/text.txt", "Range: bytes=99-\r\nIf-Range: \"x\"");
    assert_eq!(beyond.status, 200, "the range does not count, so it cannot be wrong");
}

#[test]
fn files_outside_the_archive_have_ranges_too() {
    let whole = get("/large");
    assert_eq!(
        (whole.length(), whole.external),
        (Some(EXTERNAL_BYTES), vec![(0, 0, EXTERNAL_BYTES)])
    );
    let part = get_with("/large", "Range: bytes=4999999990-");
    assert_eq!(part.field("Content-Range"), Some("bytes 4999999990-4999999999/5000000000"));
    assert_eq!(part.external, [(0, 4_999_999_990, 10)]);
    let several = get_with("/large", "Range: bytes=0-0,2-2,-1");
    assert_eq!(several.external, [(0, 0, 1), (0, 2, 1), (0, 4_999_999_999, 1)]);
}

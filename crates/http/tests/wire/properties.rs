//! Properties: inputs made of the pieces that matter, each given to the oracle's check.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::oracle;

/// Pieces of request heads, good and bad.
const HEAD_PIECES: &[&str] = &[
    "GET ",
    "POST ",
    "OPTIONS ",
    "CONNECT ",
    "G@T ",
    "/",
    "*",
    "/a?b",
    "http://a/",
    "http://u@a/",
    "a:80",
    "/%41",
    "/\"",
    "/#",
    "?",
    " ",
    "  ",
    "\t",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.2",
    "HTTP/2.0",
    "HTTP/0.9",
    "http/1.1",
    "HTTP/1.",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "\n\n",
    "Host: a",
    "Host: b",
    "Host:",
    "Host: a:80",
    "Host: u@a",
    "host : a",
    "Host: [::1]",
    "Content-Length: 5",
    "Content-Length: 0",
    "Content-Length: +5",
    "Content-Length: 5, 5",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: chunked, chunked",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: \"close\", x",
    "Expect: 100-continue",
    "Expect: x",
    "X: y",
    "X:",
    ":",
    "X",
    "\0",
    "\x7f",
    "\u{e9}",
    "a",
];

/// Returns a good head to spoil.
fn good_head() -> impl Strategy<Value = Vec<u8>> {
    let method = select(vec!["GET", "HEAD", "POST", "OPTIONS", "BREW"]);
    let target = select(vec!["/", "/a/b?c", "http://a.example/x", "/%2e%2e/%20"]);
    let version = select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.7"]);
    let field = select(vec![
        "Accept: */*",
        "Accept-Encoding: gzip, br",
        "Connection: close",
        "Connection: Keep-Alive, x",
        "Content-Length: 17",
        "Transfer-Encoding: Chunked",
        "Expect: 100-Continue",
        "X-Long:   a  b\t\t",
        "X-Empty:",
        "X-Opaque: \u{e9}",
    ]);
    (method, target, version, vec(field, 0..5), 0..3usize).prop_map(|(m, t, v, fields, empty)| {
        let lines = fields.into_iter().map(|field| format!("{field}\r\n")).collect::<String>();
        format!("{}{m} {t} {v}\r\nHost: a.example:80\r\n{lines}\r\n", "\r\n".repeat(empty)).into()
    })
}

/// Pieces of chunked content, good and bad.
const BODY_PIECES: &[&str] = &[
    "0",
    "5",
    "a",
    "F",
    "10",
    "00000000000000000005",
    "ffffffffffffffff",
    "fffffffffffffffff",
    "0x5",
    "+5",
    "-1",
    " ",
    "\t",
    ";",
    "=",
    "\"",
    "\\",
    "x",
    ";x=y",
    "; x = \"y;\\\"\"",
    "\r\n",
    "\n",
    "\r",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
    "1\r\nx\r\n",
    "hello",
    "X: y\r\n",
    "X : y\r\n",
    ":",
    " fold\r\n",
    "\0",
    "\u{e9}",
];

const RANGE_PIECES: &[&str] = &[
    "bytes=",
    "bytes",
    "=",
    "items=",
    "BYTES=",
    "0-0",
    "0-1",
    "1-2",
    "3-9",
    "5-",
    "-1",
    "-0",
    "-500",
    "9-3",
    "100-200",
    "18446744073709551615",
    "99999999999999999999999",
    "-",
    ",",
    " ",
    "\t",
    "a",
    "\"",
    "007",
];

const CODING_PIECES: &[&str] = &[
    "gzip",
    "br",
    "zstd",
    "identity",
    "*",
    "x-gzip",
    "deflate",
    "GZIP",
    ",",
    ", ",
    ";",
    ";q=",
    ";q=0",
    ";q=1",
    ";q=0.5",
    "; Q=0.123",
    ";q=1.000",
    ";q=1.001",
    ";q=0.1234",
    ";q=.5",
    ";x=y",
    " ",
    "\t",
    "\"",
    "\\",
    "\n",
    "gzip, deflate, br, zstd",
    "gzip, deflate",
    "\u{e9}",
];

const PATH_PIECES: &[&str] = &[
    "/", "//", ".", "..", "/.", "/..", "/./", "/../", "%2e", "%2E%2e", "%2f", "%00", "%", "%4",
    "%41", "%zz", "%25", "%2541", "a", "a.b", "...", "?", "\u{e9}",
];

fn pieces(of: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(select(of), 0..most).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn heads_of_pieces(input in pieces(HEAD_PIECES, 14)) {
        oracle::h1_request::check(&input);
    }

    #[test]
    fn good_heads(input in good_head()) {
        oracle::h1_request::check(&input);
    }

    #[test]
    fn good_heads_with_a_byte_changed(
        input in good_head(),
        at: prop::sample::Index,
        byte in select(b"\r\n \t:\0\x7f\xff/,aH1".to_vec()),
        how in 0..3,
    ) {
        let mut input = input;
        let at = at.index(input.len());
        match how {
            0 => input[at] = byte,
            1 => input.insert(at, byte),
            _ => drop(input.remove(at)),
        }
        oracle::h1_request::check(&input);
    }

    #[test]
    fn any_bytes_as_a_head(input in vec(any::<u8>(), 0..200)) {
        oracle::h1_request::check(&input);
    }

    #[test]
    fn chunks_of_pieces(framing in 0..2u8, cut in 0..9u8, wire in pieces(BODY_PIECES, 14)) {
        oracle::h1_body::check(&[&[framing, cut], wire.as_slice()].concat());
    }

    #[test]
    fn good_chunks(
        chunks in vec(vec(any::<u8>(), 1..40), 0..6),
        trailers in vec(select(vec!["X: y\r\n", "Y:\r\n", "z:\t\u{e9} \r\n"]), 0..3),
        cut in 0..9u8,
        spoil in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut data = vec![0, cut];
        for chunk in &chunks {
            data.extend(format!("{:x}\r\n", chunk.len()).bytes());
            data.extend(chunk);
            data.extend(b"\r\n");
        }
        data.extend(format!("0\r\n{}\r\nGET", trailers.concat()).bytes());
        if let Some((at, byte)) = spoil {
            let at = 2 + at.index(data.len() - 2);
            data[at] = byte;
        }
        oracle::h1_body::check(&data);
    }

    #[test]
    fn lengths(length in 2..=255u8, cut in 0..9u8, wire in vec(any::<u8>(), 0..300)) {
        oracle::h1_body::check(&[&[length, cut], wire.as_slice()].concat());
    }

    #[test]
    fn ranges(length: u8, value in pieces(RANGE_PIECES, 12)) {
        oracle::range::check(&[&[length], b"bytes=".as_slice(), &value].concat());
        oracle::range::check(&[&[length], value.as_slice()].concat());
    }

    #[test]
    fn good_ranges(length in 1..30u8, specs in vec((0..30u32, 0..30u32), 1..18)) {
        let specs: Vec<String> =
            specs.iter().map(|&(a, b)| format!("{}-{}", a.min(b), a.max(b))).collect();
        let value = format!("bytes={}", specs.join(","));
        oracle::range::check(&[&[length], value.as_bytes()].concat());
    }

    #[test]
    fn codings(available: u8, value in pieces(CODING_PIECES, 12)) {
        oracle::accept_encoding::check(&[&[available], value.as_slice()].concat());
    }

    #[test]
    fn paths(path in pieces(PATH_PIECES, 10)) {
        oracle::path_decode::check(&path);
        oracle::path_decode::check(&[b"/", path.as_slice()].concat());
    }

    #[test]
    fn any_bytes(data in vec(any::<u8>(), 0..60)) {
        oracle::range::check(&data);
        oracle::accept_encoding::check(&data);
        oracle::path_decode::check(&data);
        oracle::h1_body::check(&data);
    }
}

/// Pieces of forms, good and bad, for the boundary `b`.
const FORM_PIECES: &[&str] = &[
    "--b",
    "\r\n--b",
    "--b\r\n",
    "\r\n--b\r\n",
    "--b--",
    "\r\n--b--\r\n",
    "--",
    "-",
    "b",
    "\r",
    "\n",
    "\r\n",
    "\r\n\r\n",
    " ",
    "\t",
    "x",
    "--a",
    "\r\n--a",
    "Content-Disposition: form-data; name=a",
    "Content-Disposition: form-data; name=\"a%22\\\"b\"; filename=\"../c\"\r\n",
    "Content-Disposition: form-data; name=a\r\n\r\n",
    "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n",
    "\r\n--b\r\nContent-Disposition: form-data; name=a\r\n\r\n",
    "\r\n--b\r\nContent-Disposition: form-data; name=c; filename=d\r\n\r\n",
    "Content-Type: text/plain\r\n",
    "; filename=\"\"",
    "; name=b",
    "\"",
    "\\",
    ";",
    "=",
    ":",
];

proptest! {
    #[test]
    fn multipart(pieces in vec(select(FORM_PIECES), 0..24), cut in 0u8..40) {
        let mut data = vec![0, cut];
        pieces.iter().for_each(|piece| data.extend_from_slice(piece.as_bytes()));
        oracle::multipart::check(&data);
    }
}

proptest! {
    #[test]
    fn hpack_blocks_with_a_dynamic_table_equal_static_ones(data in vec(any::<u8>(), 0..600)) {
        oracle::hpack_encoder::check(&data);
    }

    /// Few files and few blocks, as a client of one site requests them.
    #[test]
    fn hpack_blocks_of_repeated_fields_equal_static_ones(
        data in vec(prop_oneof![6 => 10..16_u8, 1 => 0..16_u8, 6 => 0..3_u8], 0..600),
    ) {
        oracle::hpack_encoder::check(&data);
    }

    #[test]
    fn qpack_sections_refer_only_to_acknowledged_entries(
        size in prop_oneof![1 => 0..20_u8, 3 => 16..255_u8],
        data in vec(any::<u8>(), 0..600),
    ) {
        oracle::qpack_encoder::check(&[&[size], &*data].concat());
    }

    #[test]
    fn qpack_sections_of_repeated_fields_refer_to_acknowledged_entries(
        size in 16..255_u8,
        data in vec(
            prop_oneof![
                6 => 10..16_u8, 6 => 16..20_u8, 1 => 0..20_u8, 6 => 0..3_u8, 1 => any::<u8>(),
            ],
            0..900,
        ),
    ) {
        oracle::qpack_encoder::check(&[&[size], &*data].concat());
    }
}

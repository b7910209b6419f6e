//! Properties of CGI, FastCGI and SCGI: responses made of the pieces that matter, each given to the
//! check of its oracle; and requests that are written and then read by a plain reader.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use pinion_http::h1::client::request_writer::RequestContent;
use pinion_http::h1::client::response_parser::InputEnd;
use pinion_http::method::Method;
use pinion_http::scgi::request_writer::write_request;

use crate::cgi_variables::read_scgi;
use crate::fastcgi::{end_request, read_request, record, write};
use crate::oracle::plain_cgi_output::{Case, Ended};
use crate::oracle::{cgi_reader_check, fastcgi};

/// Pieces of output, good and bad.
const OUTPUT_PIECES: &[&str] = &[
    "Content-Type: text/html\n",
    "Content-Type: text/html\r\n",
    "Status: 404 Not Found\n",
    "Status: 204\r\n",
    "Status: 42\n",
    "status: 304 x\n",
    "Location: /local?x\n",
    "Location: http://a/b\n",
    "Location: //a/b\n",
    "Location:\n",
    "Content-Length: 5\n",
    "Content-Length: 0\r\n",
    "Content-Length: x\n",
    "Connection: X, close\n",
    "Transfer_Encoding: chunked\n",
    "X: y\n",
    "X : y\n",
    " fold\n",
    "Set-Cookie: a=\u{e9}\n",
    "\n",
    "\r\n",
    "\n\n",
    "\r",
    ":",
    "X",
    "\0",
    "hello",
    "5",
    " ",
];

fn output() -> impl Strategy<Value = Vec<u8>> {
    vec(select(OUTPUT_PIECES), 0..10).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Records as an application sends them, with any output, cut anywhere into records.
fn records() -> impl Strategy<Value = Vec<u8>> {
    let piece = (select(vec![6u8, 6, 6, 6, 6, 7, 7, 10, 11]), output(), 0..20u8);
    let end = select(vec![Some(0u8), Some(0), Some(0), Some(2), Some(9), None]);
    let head = select(vec!["", "", "Content-Type: text/html\n\n", "Content-Length: 9\n\n"]);
    (head, vec(piece, 0..8), end).prop_map(|(head, pieces, end)| {
        let mut wire = record(6, 1, head.as_bytes(), 0);
        if head.is_empty() {
            wire.clear();
        }
        for (kind, content, padding) in pieces {
            wire.extend(record(kind, u16::from(kind < 10), &content, padding));
        }
        wire.extend(end.map(|status| end_request(1, status)).unwrap_or_default());
        wire
    })
}

fn check_output(kind: u8, cut: u8, output: &[u8]) {
    cgi_reader_check::check(&[&[kind, cut], output].concat());
}

fn check_records(kind: u8, cut: u8, wire: &[u8]) {
    fastcgi::check(&[&[kind, cut], wire].concat());
}

/// Names and values of variables.
fn variables() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let name = vec(select((1..=255u8).filter(|&byte| byte != b'=').collect::<Vec<_>>()), 1..200);
    let value = prop_oneof![vec(1..=255u8, 0..200), vec(1..=255u8, 60_000..66_000)];
    vec((name, value), 0..2)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn output_of_pieces(kind in 0..32u8, cut in 0..40u8, output in output()) {
        check_output(kind, cut, &output);
    }

    #[test]
    fn records_of_pieces(kind in 0..32u8, cut in 0..40u8, wire in records()) {
        check_records(kind, cut, &wire);
    }

    #[test]
    fn records_with_a_byte_changed(
        kind in 0..32u8,
        wire in records(),
        at: prop::sample::Index,
        byte in select(vec![0u8, 1, 2, 3, 6, 7, 8, 10, b'\n', b'\r', b':', 0x80, 0xff]),
    ) {
        let mut wire = wire;
        if !wire.is_empty() {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        check_records(kind, 5, &wire);
    }

    #[test]
    fn any_bytes(kind in 0..32u8, cut in 0..40u8, bytes in vec(any::<u8>(), 0..80)) {
        check_output(kind, cut, &bytes);
        check_records(kind, cut, &bytes);
        check_records(kind, cut, &[b"\x01\x06\0\x01\0", bytes.as_slice()].concat());
    }

    /// A response that is cut is never complete, wherever that is.
    #[test]
    fn a_prefix_of_a_response_is_never_complete(wire in records(), at: prop::sample::Index) {
        let case = Case::get(InputEnd::Closed);
        let whole = fastcgi::check_case(&case, &wire, 9);
        if matches!(whole.ended, Ended::End(_)) {
            let front = fastcgi::check_case(&case, &wire[..at.index(wire.len())], 9);
            prop_assert!(!matches!(front.ended, Ended::End(_)));
        }
    }

    #[test]
    fn scgi_requests_round_trip(variables in variables()) {
        let mut out = Vec::new();
        let written = write_request(&mut out, Method::Get, RequestContent::Length(0), |pairs| {
            variables.iter().try_for_each(|(name, value)| pairs.add(name, value))
        });
        prop_assert!(written.is_ok());
        let (pairs, rest) = read_scgi(&out);
        prop_assert!(rest.is_empty() && pairs[2..] == variables);
    }
}

proptest! {
    #[test]
    fn fastcgi_requests_round_trip(
        variables in variables(),
        pieces in vec(prop_oneof![vec(any::<u8>(), 0..30), vec(any::<u8>(), 65_000..66_000)], 0..3),
        is_length_known: bool,
    ) {
        let content = pieces.concat();
        let length = if is_length_known {
            RequestContent::Length(content.len() as u64)
        } else {
            RequestContent::Chunked
        };
        let pairs: Vec<(&[u8], &[u8])> =
            variables.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let (mut out, mut written) = write(&pairs, length).unwrap();
        for piece in &pieces {
            written.content.write(&mut out, piece).unwrap();
        }
        written.content.end(&mut out).unwrap();
        prop_assert!(written.content.is_complete());
        let read = read_request(&out);
        prop_assert!(read.variables == variables);
        prop_assert!(read.content == content && read.is_content_ended && !read.is_aborted);
    }
}

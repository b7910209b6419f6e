//! HPACK and QPACK: decoding returns the encoded fields, which are the same as with HTTP/1.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use pinion_http::field::Field;
use pinion_http::field_section::Fit;
use pinion_http::h1::response_encoder::{self as h1, BodyLength, ConnectionFields};
use pinion_http::prepared_response::{ContentRange, Location, Prepared, SharedFields};
use pinion_http::{hpack, qpack};

use crate::compressed_fields_law::{Pair, check_response, of_hpack, of_qpack, parsed};

/// Names of the static tables, other ones, and names that only HTTP/1 may have.
const NAMES: &[&str] = &[
    "Cache-Control",
    "content-encoding",
    "CONTENT-TYPE",
    "Vary",
    "Set-Cookie",
    "X-Frame-Options",
    "strict-transport-security",
    "Server",
    "x",
    "X-Custom-Field",
    "Content-Security-Policy",
    "access-control-allow-headers",
    "a-name-of-more-than-seven-and-thirty-characters",
    "te",
];

const VALUES: &[&str] = &[
    "",
    "gzip",
    "no-cache",
    "text/css",
    "text/html; charset=utf-8",
    "bytes",
    "accept-encoding",
    "nosniff",
    "max-age=31536000",
    "\u{e9}\u{ff}",
    "  spaces \t",
    "{|}~^`\\<>",
    "0",
    "DENY",
];

fn value() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("of a value", |&b| pinion_http::grammar::is_value_byte(b));
    prop_oneof![
        4 => select(VALUES).prop_map(|value| value.as_bytes().to_vec()),
        3 => "[ -~]{0,40}".prop_map(String::into_bytes),
        2 => vec(byte, 0..30),
        1 => (select(b"a~\xe9".to_vec()), 0..600usize).prop_map(|(byte, count)| vec![byte; count]),
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => select(NAMES).prop_map(|name| name.as_bytes().to_vec()),
        1 => "[A-Za-z0-9!#$%&'*+.^_`|~-]{1,150}".prop_map(String::into_bytes),
    ]
}

fn fields() -> impl Strategy<Value = Vec<Pair>> {
    vec((name(), value()), 0..8)
}

fn lines(fields: &[Pair]) -> Vec<u8> {
    let line = |(name, value): &Pair| [name, &b": "[..], value, b"\r\n"].concat();
    fields.iter().flat_map(line).collect()
}

/// Generates a value without white space at its ends, as archives and requests have them.
fn path() -> impl Strategy<Value = Vec<u8>> {
    "/[!-~]{0,200}".prop_map(String::into_bytes)
}

#[derive(Debug)]
struct Response {
    status: u16,
    shared: Vec<Pair>,
    /// Whether the block has the compressed forms.
    rendered: bool,
    etag: Option<Vec<u8>>,
    last_modified: Option<i64>,
    location: Option<(Vec<u8>, Option<Vec<u8>>)>,
    content_location: Option<Vec<u8>>,
    content_type: Option<Vec<u8>>,
    content_range: Option<(u64, u64, Option<u64>)>,
    allow: Option<Vec<u8>>,
    content_length: Option<u64>,
}

fn any_response() -> impl Strategy<Value = Response> {
    let status = prop_oneof![
        select(vec![200, 204, 206, 301, 302, 304, 308, 400, 403, 404, 405, 412, 416, 421, 500]),
        // Statuses that have another line in HTTP/1 are not for archives.
        select(vec![103u16, 201, 303, 425, 429, 503]),
    ];
    let etag = prop_oneof!["[A-Za-z0-9_-]{22}", "[!#-~]{0,150}"].prop_map(String::into_bytes);
    let number = prop_oneof![0..20u64, any::<u64>(), Just(u64::MAX)];
    let own = (
        option::of(etag),
        option::of(any::<i64>()),
        option::of(number.clone()),
        option::weighted(0.3, (number.clone(), number.clone(), option::of(number))),
    );
    let location = option::weighted(0.3, (path(), option::of(path())));
    let rare = (location, option::weighted(0.3, path()), option::weighted(0.3, value()));
    (status, fields(), any::<bool>(), own, rare, option::weighted(0.2, value())).prop_map(
        |(status, shared, rendered, own, rare, allow)| Response {
            status,
            shared,
            rendered,
            etag: own.0,
            last_modified: own.1,
            content_length: own.2,
            content_range: own.3,
            location: rare.0,
            content_location: rare.1,
            content_type: rare.2,
            allow,
        },
    )
}

impl Response {
    fn check(&self) {
        let h1 = lines(&self.shared);
        let (mut hpack, mut qpack) = (Vec::new(), Vec::new());
        if self.rendered {
            hpack::static_encoder::lines(&mut hpack, &h1);
            qpack::static_encoder::lines(&mut qpack, &h1);
        }
        check_response(&Prepared {
            shared: SharedFields { h1: &h1, hpack: &hpack, qpack: &qpack },
            etag: self.etag.as_deref(),
            last_modified: self.last_modified,
            location: self
                .location
                .as_ref()
                .map(|(path, query)| Location { path, query: query.as_deref() }),
            content_location: self.content_location.as_deref(),
            content_type: self.content_type.as_deref(),
            content_range: self.content_range.map(|(first, last, total)| match total {
                Some(total) => ContentRange::Bytes { first, last, total },
                None => ContentRange::Unsatisfied { total: first },
            }),
            allow: self.allow.as_deref(),
            content_length: self.content_length,
            ..Prepared::empty(self.status)
        });
    }
}

fn as_fields(pairs: &[Pair]) -> impl Iterator<Item = Field<'_>> + Clone {
    pairs.iter().map(|(name, value)| Field { name, value })
}

/// Generates fields of an application: some of them must not be sent.
fn wild_fields() -> impl Strategy<Value = Vec<Pair>> {
    let own = select(vec![
        "Connection",
        "KEEP-ALIVE",
        "proxy-connection",
        "Transfer-Encoding",
        "upgrade",
        "Date",
        "Content-Length",
        "",
        "a b",
        ":status",
        "x\r\ny",
        "X:",
        "\u{e9}",
    ]);
    let name = prop_oneof![3 => name(), 1 => own.prop_map(|name| name.as_bytes().to_vec())];
    let wild = select(vec!["\0", "\r\n", "a\nb", "\x7f", "\t"]);
    let value = prop_oneof![5 => value(), 1 => wild.prop_map(|value| value.as_bytes().to_vec())];
    vec((name, value), 0..8)
}

fn is_of_connection(name: &[u8]) -> bool {
    [&b"proxy-connection"[..], b"upgrade"].contains(&name)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn responses_have_the_same_fields_in_every_version(response in any_response()) {
        response.check();
    }

    #[test]
    fn written_fields_round_trip(fields in fields()) {
        let expected = (parsed(&lines(&fields)), Fit::Whole);
        let mut block = Vec::new();
        as_fields(&fields).for_each(|x| hpack::static_encoder::field(&mut block, x.name, x.value));
        prop_assert_eq!(of_hpack(&block), expected.clone());
        let mut block = qpack::static_encoder::PREFIX.to_vec();
        as_fields(&fields).for_each(|x| qpack::static_encoder::field(&mut block, x.name, x.value));
        prop_assert_eq!(of_qpack(&block), expected);
    }

    /// `head`, `interim` and `trailers` omit the same fields as those of HTTP/1, and those that
    /// only HTTP/1 may have (RFC 9113 §8.2.2).
    #[test]
    fn dynamic_heads_have_the_same_fields_as_http1(
        fields in wild_fields(), length in option::of(any::<u64>()),
    ) {
        let parsed = |head: &[u8]| -> Vec<Pair> {
            let mut said = parsed(head);
            said.retain(|(name, _)| !is_of_connection(name));
            said
        };
        let all = as_fields(&fields);
        let body = length.map_or(BodyLength::None, BodyLength::Length);
        let mut head = Vec::new();
        h1::head(&mut head, 207, all.clone(), body, ConnectionFields::Stay, b"\r\n");
        let status = |code: &str| (b":status".to_vec(), code.as_bytes().to_vec());
        let expected = [vec![status("207")], parsed(&head)].concat();
        let mut out = Vec::new();
        hpack::static_encoder::head(&mut out, 207, all.clone(), length, b"");
        prop_assert_eq!(of_hpack(&out).0, &*expected);
        out.clear();
        qpack::static_encoder::head(&mut out, 207, all.clone(), length, b"");
        prop_assert_eq!(of_qpack(&out).0, expected);

        head.clear();
        h1::interim(&mut head, 103, all.clone());
        let expected = [vec![status("103")], parsed(&head)].concat();
        out.clear();
        hpack::static_encoder::interim(&mut out, 103, all.clone());
        prop_assert_eq!(of_hpack(&out).0, &*expected);
        out.clear();
        qpack::static_encoder::interim(&mut out, 103, all.clone());
        prop_assert_eq!(of_qpack(&out).0, expected);

        head.clear();
        h1::last_chunk(&mut head, all.clone());
        let expected = parsed(&head);
        out.clear();
        hpack::static_encoder::trailers(&mut out, all.clone());
        prop_assert_eq!(of_hpack(&out).0, &*expected);
        out.clear();
        qpack::static_encoder::trailers(&mut out, all);
        prop_assert_eq!(of_qpack(&out).0, expected);
    }
}

/// The upper bound holds if every part has its greatest length.
#[test]
fn the_longest_response_round_trips() {
    let tag = vec![b'~'; 5000];
    let long = vec![b'\xff'; 3000];
    let response = Prepared {
        etag: Some(&tag),
        last_modified: Some(i64::MAX),
        location: Some(Location { path: &long, query: Some(b"") }),
        content_location: Some(&long),
        content_range: Some(ContentRange::Bytes {
            first: u64::MAX,
            last: u64::MAX,
            total: u64::MAX,
        }),
        content_type: Some(b"\xff"),
        allow: Some(b"\xff"),
        content_length: Some(u64::MAX),
        ..Prepared::empty(599)
    };
    let mut out = Vec::new();
    qpack::static_encoder::prepared(&mut out, &response, b"");
    let bytes = qpack::static_encoder::prepared_bytes(&response);
    assert!(out.len() <= bytes && out.len() + 40 > bytes, "{} of {bytes}", out.len());
    let mut out = Vec::new();
    hpack::static_encoder::prepared(&mut out, &response, b"");
    let bytes = hpack::static_encoder::prepared_bytes(&response);
    assert!(out.len() <= bytes && out.len() + 40 > bytes, "{} of {bytes}", out.len());
}

/// RFC 9113 §8.3.2: the status has three digits for any input.
#[test]
fn every_status_round_trips() {
    for status in 0..=u16::MAX {
        let code = if (100..=599).contains(&status) { status } else { 500 };
        let expected = vec![(b":status".to_vec(), code.to_string().into_bytes())];
        let mut out = Vec::new();
        hpack::static_encoder::status(&mut out, status);
        assert_eq!(of_hpack(&out).0, expected);
        let mut out = qpack::static_encoder::PREFIX.to_vec();
        qpack::static_encoder::status(&mut out, status);
        assert_eq!(of_qpack(&out).0, expected);
    }
}

/// RFC 9113 §8.2.2: connection-specific fields are omitted from any lines.
#[test]
fn connection_specific_lines_are_omitted() {
    let lines = b"Upgrade: h2c\r\nX: y\r\nConnection: close\r\nProxy-Connection: a\r\n\
        KEEP-ALIVE: 5\r\nTransfer-Encoding: chunked\r\nUpgrades: z\r\n";
    let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let expected = [pair("x", "y"), pair("upgrades", "z")];
    let mut block = Vec::new();
    hpack::static_encoder::lines(&mut block, lines);
    assert_eq!(of_hpack(&block).0, expected);
    let mut section = qpack::static_encoder::PREFIX.to_vec();
    qpack::static_encoder::lines(&mut section, lines);
    assert_eq!(of_qpack(&section).0, expected);
}

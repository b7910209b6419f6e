//! All protocols have the same limits: a request that HTTP/1 accepts is accepted in compressed
//! form, and one that HTTP/1 refuses is refused here with the same status.

use pinion_http::field::KnownField;
use pinion_http::field_section::FieldSection;
use pinion_http::h1::head_parser::{HeadStorage, parse};
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::{FIELDS_MAX, HEAD_MAX_BYTES, Limits, TRAILER_MAX_BYTES};
use pinion_http::multiplexed_request_head::{self, Rejected};
use pinion_http::refusal::Refusal;
use pinion_http::version::Version;
use pinion_http::{hpack, qpack};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A request, as HTTP/2 and HTTP/3 have it.
#[derive(Clone, Debug, Default)]
struct Asked {
    method: String,
    path: String,
    /// In `:authority`, in `Host`, or in both.
    host: (bool, bool),
    fields: Vec<(&'static str, String)>,
}

const HOST: &str = "www.example.com:8080";

/// 200 or a status of refusal.
type Status = u16;

impl Asked {
    /// Returns GET / with these fields.
    fn with(fields: impl IntoIterator<Item = (&'static str, String)>) -> Asked {
        let (method, path) = ("GET".to_owned(), "/".to_owned());
        Asked { method, path, host: (true, false), fields: fields.into_iter().collect() }
    }

    /// Returns the head in HTTP/1: one line for the host, and one line for all consecutive cookies
    /// (RFC 9113 §8.2.3). Only an empty cookie has a line of its own, since there would be white
    /// space at the end.
    fn in_http1(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: {HOST}", self.method, self.path);
        let mut last = "";
        for (name, value) in &self.fields {
            match (*name, last) {
                ("cookie", "cookie") if !value.is_empty() => head += "; ",
                _ => head += &format!("\r\n{name}: "),
            }
            head += value;
            last = name;
        }
        (head + "\r\n\r\n").into_bytes()
    }

    fn compressed(&self) -> Vec<(&str, &str)> {
        let mut all = vec![(":method", &*self.method), (":scheme", "https")];
        all.extend(self.host.0.then_some((":authority", HOST)));
        all.push((":path", &self.path));
        all.extend(self.host.1.then_some(("host", HOST)));
        all.extend(self.fields.iter().map(|(name, value)| (*name, value.as_str())));
        all
    }

    fn status_in_http1(&self, limits: &Limits) -> Status {
        let mut storage = HeadStorage::new();
        let text = self.in_http1();
        parse(&text, 0, &mut storage, limits).err().map_or(200, Refusal::status)
    }

    /// Returns the statuses over HTTP/2 and over HTTP/3.
    fn statuses(&self, limits: &Limits) -> [Status; 2] {
        let mut section = FieldSection::new();
        self.decode_hpack(&mut section, limits);
        let http2 = status(&section, Version::Http2, limits);
        self.decode_qpack(&mut section, limits);
        [http2, status(&section, Version::Http3, limits)]
    }

    fn decode_hpack(&self, section: &mut FieldSection, limits: &Limits) {
        let mut block = Vec::new();
        for (name, value) in self.compressed() {
            hpack::static_encoder::field(&mut block, name.as_bytes(), value.as_bytes());
        }
        Decoder::new(4096).decode(&block, section, limits).expect("a block");
    }

    fn decode_qpack(&self, section: &mut FieldSection, limits: &Limits) {
        let mut block = qpack::static_encoder::PREFIX.to_vec();
        for (name, value) in self.compressed() {
            qpack::static_encoder::field(&mut block, name.as_bytes(), value.as_bytes());
        }
        qpack::decoder::decode(&block, section, limits).expect("a section");
    }
}

fn status(section: &FieldSection, version: Version, limits: &Limits) -> Status {
    match multiplexed_request_head::of_section(version, section, true, limits, true) {
        Ok(_) => 200,
        Err(Rejected::Refused(refusal)) => refusal.status(),
        Err(Rejected::Malformed) => panic!("a request"),
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    let name = select(vec!["cookie", "cookie", "x", "accept", "hosts", "cookies"]);
    let fields = vec((name, "[a-z=]{0,12}"), 0..30);
    let host = select(vec![(true, false), (false, true), (true, true)]);
    let method = prop_oneof![4 => Just("GET".to_owned()), 1 => "M{1,40}"];
    (method, "/[a-z]{0,40}", host, fields).prop_map(|(method, path, host, fields)| Asked {
        method,
        path,
        host,
        fields,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn the_same_verdict_at_every_limit(
        asked in asked(),
        bytes in -2..=3i32,
        lines in -2..=3i32,
        target in -1..=1i32,
    ) {
        let text = asked.in_http1();
        let count = text.iter().filter(|&&byte| byte == b'\n').count() - 2;
        let least = |most: usize, less: i32| most.saturating_add_signed(-less as isize);
        let limits = Limits {
            head_bytes: least(text.len(), bytes),
            // The line for the host is there in every case.
            fields: least(count, lines).max(1),
            target_bytes: least(asked.path.len(), target),
            ..Limits::default()
        };
        let status = asked.status_in_http1(&limits);
        prop_assert_eq!(asked.statuses(&limits), [status; 2], "{:?}", limits);
    }
}

/// The last that is taken, and the first that is not.
#[test]
fn the_limits_of_a_listener() {
    let limits = Limits::default();
    let both = |asked: &Asked| {
        let status = asked.status_in_http1(&limits);
        assert_eq!(asked.statuses(&limits), [status; 2]);
        status
    };
    let lines = |count: usize| Asked::with(vec![("x", "y".to_owned()); count - 1]);
    for host in [(true, false), (false, true), (true, true)] {
        assert_eq!(both(&Asked { host, ..lines(FIELDS_MAX) }), 200, "{host:?}");
        assert_eq!(both(&Asked { host, ..lines(FIELDS_MAX + 1) }), 431, "{host:?}");
    }
    let bare = Asked::with([("x", String::new())]).in_http1().len();
    let bytes = |count: usize| Asked::with([("x", "y".repeat(count - bare))]);
    for host in [(true, false), (false, true), (true, true)] {
        assert_eq!(both(&Asked { host, ..bytes(HEAD_MAX_BYTES) }), 200, "{host:?}");
        assert_eq!(both(&Asked { host, ..bytes(HEAD_MAX_BYTES + 1) }), 431, "{host:?}");
    }
    for (path, status) in [(8 * 1024, 200), (8 * 1024 + 1, 414), (20_000, 414), (40_000, 414)] {
        let path = format!("/{}", "p".repeat(path - 1));
        assert_eq!(both(&Asked { path, ..lines(1) }), status);
    }
    // The parts of the request line are checked first.
    let path = format!("/{}", "p".repeat(9000));
    assert_eq!(both(&Asked { path: path.clone(), ..lines(FIELDS_MAX + 1) }), 414);
    assert_eq!(both(&Asked { path, method: "M".repeat(33), ..lines(FIELDS_MAX + 1) }), 501);
}

/// RFC 9113 §8.2.3, RFC 9114 §4.2.1: any number of cookies that fit is one line.
#[test]
fn cookies_in_crumbs() {
    let limits = Limits::default();
    let crumbs = |count: usize| (0..count).map(|at| ("cookie", format!("{at}=x")));
    let mut section = FieldSection::new();
    let asked = Asked::with(crumbs(1500).chain([("x", "y".to_owned())]).chain(crumbs(2)));
    let joined = crumbs(1500).map(|(_, value)| value).collect::<Vec<_>>().join("; ");
    for decode in [Asked::decode_hpack, Asked::decode_qpack] {
        decode(&asked, &mut section, &limits);
        let head =
            multiplexed_request_head::of_section(Version::Http2, &section, true, &limits, true);
        let head = head.expect("a request");
        // Only those that follow each other.
        let cookies: Vec<_> = head.fields.all(b"cookie").collect();
        assert_eq!(cookies, [joined.as_bytes(), b"0=x; 1=x"]);
        assert_eq!(head.fields.get(b"x"), Some(&b"y"[..]));
        assert_eq!(head.fields.len(), 3);
        assert_eq!(head.value(KnownField::Host), None);
    }
    let most = HEAD_MAX_BYTES - Asked::with([("cookie", String::new())]).in_http1().len();
    let cut = |bytes: usize| ["a".repeat(40), "c".to_owned(), "b".repeat(bytes - 45)];
    let of = |bytes| Asked::with(cut(bytes).map(|value| ("cookie", value)));
    assert_eq!(of(most).in_http1().len(), HEAD_MAX_BYTES);
    assert_eq!(of(most).statuses(&limits), [200; 2]);
    assert_eq!(of(most + 1).statuses(&limits), [431; 2]);
}

/// RFC 9113 §8.2.1: there is no white space at the ends of a value, nor of a cookie that is
/// appended to another one.
#[test]
fn cookies_with_white_space_are_malformed() {
    let mut section = FieldSection::new();
    let limits = Limits::default();
    for values in [["a", " b"], ["a", "b "], ["a ", "b"], ["a", "\tb"], ["a", " "], ["\t", "b"]] {
        let mut block = Vec::new();
        for (name, value) in Asked::with([]).compressed() {
            hpack::static_encoder::field(&mut block, name.as_bytes(), value.as_bytes());
        }
        for value in values {
            // The value is written unchanged: an encoder removes white space.
            block.extend([0x0f, 0x11, value.len() as u8]);
            block.extend_from_slice(value.as_bytes());
        }
        Decoder::new(4096).decode(&block, &mut section, &limits).expect("a block");
        let head =
            multiplexed_request_head::of_section(Version::Http2, &section, true, &limits, true);
        assert_eq!(head.err(), Some(Rejected::Malformed), "{values:?}");
    }
}

/// Trailers have the limits of HTTP/1 as well.
#[test]
fn trailers() {
    let mut section = FieldSection::new();
    let mut fit = |fields: Vec<(&str, String)>| {
        let mut block = Vec::new();
        for (name, value) in &fields {
            hpack::static_encoder::field(&mut block, name.as_bytes(), value.as_bytes());
        }
        let limits = Limits::default();
        Decoder::new(4096).decode(&block, &mut section, &limits).expect("a block");
        multiplexed_request_head::trailers_fit(&section)
    };
    // The name, `: `, its CRLF and the blank line take seven.
    assert!(fit(vec![("x", "y".repeat(TRAILER_MAX_BYTES - 7))]));
    assert!(!fit(vec![("x", "y".repeat(TRAILER_MAX_BYTES - 6))]));
    assert!(fit(vec![("x", String::new()); FIELDS_MAX]));
    assert!(!fit(vec![("x", String::new()); FIELDS_MAX + 1]));
}

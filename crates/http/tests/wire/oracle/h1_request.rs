//! Request heads: the grammar of RFC 9112 and RFC 9110 taken literally, line by line, with every
//! violation collected. Nothing here is fast, and only the limits are shared with the crate. For
//! accepted heads, the result must also be the same as that of `httparse`, a parser with many
//! users.

use std::collections::BTreeSet;

use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::{
    FIELDS_MAX, HEAD_MAX_BYTES, LEADING_EMPTY_LINES_MAX, Limits, METHOD_MAX_BYTES, TARGET_MAX_BYTES,
};
use pinion_http::refusal::Refusal;
use pinion_http::request_head::Framing;
use pinion_http::version::Version;

/// Panics if the crate parses the bytes differently from the grammar, in one part or in two.
pub(crate) fn check(input: &[u8]) {
    let expected = read(input);
    let whole = outcome(input, input.len());
    compare(input, &whole, &expected);
    if let Outcome::Head(head) = &whole {
        compare_with_httparse(input, head);
    }
    // Every cut for short input, a few dozen for long input.
    let step = input.len() / 40 + 1;
    for cut in (0..input.len()).step_by(step) {
        let parts = outcome(input, cut);
        match (&whole, &parts) {
            (Outcome::Head(whole), Outcome::Head(parts)) => {
                assert_eq!(whole, parts, "cut at {cut}");
            }
            (Outcome::Head(_), _) | (_, Outcome::Head(_)) => {
                panic!("cut at {cut}: {parts:?}, whole: {whole:?}")
            }
            // This result was compared already, as that of the whole.
            (Outcome::Refused(whole), Outcome::Refused(parts)) if whole == parts => {}
            _ => compare(input, &parts, &expected),
        }
    }
}

/// The content of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    method: Vec<u8>,
    target: Vec<u8>,
    is_1_0: bool,
    authority: Option<Vec<u8>>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    framing: Framing,
    keep_alive: bool,
    expect_continue: bool,
    bytes: usize,
}

#[derive(Debug)]
enum Outcome {
    Partial,
    Head(Head),
    Refused(Refusal),
}

/// Returns the result of the crate for two parts: `cut` bytes, then all.
fn outcome(input: &[u8], cut: usize) -> Outcome {
    let limits = Limits::default();
    let mut scanned = 0;
    for part in [&input[..cut], input] {
        let mut storage = HeadStorage::new();
        match parse(part, scanned, &mut storage, &limits) {
            Ok(Parsed::Partial { scanned: s }) => scanned = s,
            Ok(Parsed::Head { head, bytes }) => {
                return Outcome::Head(Head {
                    method: head.method_token.to_vec(),
                    target: head.target.raw.to_vec(),
                    is_1_0: head.version == Version::Http10,
                    authority: head.authority.map(<[u8]>::to_vec),
                    fields: head.fields.iter().map(|f| (f.name.into(), f.value.into())).collect(),
                    framing: head.framing,
                    keep_alive: head.keep_alive,
                    expect_continue: head.expect_continue,
                    bytes,
                });
            }
            Err(refusal) => return Outcome::Refused(refusal),
        }
    }
    Outcome::Partial
}

fn compare(input: &[u8], found: &Outcome, expected: &Reading) {
    match (found, expected) {
        (Outcome::Head(found), Reading::Head(expected)) => assert_eq!(found, expected),
        (Outcome::Partial, Reading::Incomplete) => {}
        (Outcome::Refused(refusal), Reading::Refused(statuses)) => {
            assert!(statuses.contains(&refusal.status()), "{refusal:?}, expected {statuses:?}");
        }
        (Outcome::Refused(refusal), Reading::Incomplete) => {
            // The parser may refuse before the end, but never a beginning that could still become a
            // request.
            for completion in COMPLETIONS {
                let longer = [input, completion].concat();
                if let Reading::Head(_) = read(&longer) {
                    panic!("{refusal:?} too early, before {:?}", completion.escape_ascii());
                }
            }
        }
        _ => panic!("found {found:?}, expected {expected:?}"),
    }
}

/// Two parsers that read the same bytes as different requests make request smuggling possible.
fn compare_with_httparse(input: &[u8], found: &Head) {
    let mut lines = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut lines);
    let parsed = match request.parse(input) {
        // httparse knows the minor versions 0 and 1 only.
        Err(httparse::Error::Version) => return,
        parsed => parsed,
    };
    assert_eq!(parsed, Ok(httparse::Status::Complete(found.bytes)));
    assert_eq!(request.method.map(str::as_bytes), Some(&found.method[..]));
    assert_eq!(request.path.map(str::as_bytes), Some(&found.target[..]));
    assert_eq!(request.version, Some(u8::from(!found.is_1_0)));
    let fields = request.headers.iter();
    let fields: Vec<_> = fields.map(|field| (field.name.into(), field.value.to_vec())).collect();
    assert_eq!(fields, found.fields);
}

/// Ends that complete many beginnings to a request.
const COMPLETIONS: [&[u8]; 18] = [
    b"\r\n\r\n",
    b"\n\r\n",
    b"\r\n",
    b"\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b" / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"/ HTTP/1.1\r\nHost: a\r\n\r\n",
    b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HTTP/1.1\r\nHost: a\r\n\r\n",
    b"TP/1.1\r\nHost: a\r\n\r\n",
    b"1.1\r\nHost: a\r\n\r\n",
    b".1\r\nHost: a\r\n\r\n",
    b"1\r\nHost: a\r\n\r\n",
    b"\r\nHost: a\r\n\r\n",
    b"\nHost: a\r\n\r\n",
    b": a\r\nHost: a\r\n\r\n",
    b"Host: a\r\n\r\n",
];

/// The result according to the grammar.
enum Reading {
    /// There is no blank line yet.
    Incomplete,
    Head(Head),
    /// The head has violations; these are the statuses of all of them.
    Refused(BTreeSet<u16>),
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reading::Incomplete => f.write_str("Incomplete"),
            Reading::Head(head) => head.fmt(f),
            Reading::Refused(statuses) => statuses.fmt(f),
        }
    }
}

fn read(input: &[u8]) -> Reading {
    let mut wrong = BTreeSet::new();
    let mut start = 0;
    let mut empty_lines = 0;
    while input[start..].starts_with(b"\r\n") {
        start += 2;
        empty_lines += 1;
    }
    if empty_lines > LEADING_EMPTY_LINES_MAX {
        wrong.insert(400);
    }
    if input[start..].starts_with(b"\n")
        || (input[start..].starts_with(b"\r") && input.len() > start + 1)
    {
        wrong.insert(400);
    }
    let Some(end) = input[start..].windows(4).position(|four| four == b"\r\n\r\n") else {
        if input.len() >= HEAD_MAX_BYTES {
            wrong.extend([400, 414, 431, 501, 505]);
        }
        return if wrong.is_empty() { Reading::Incomplete } else { Reading::Refused(wrong) };
    };
    let bytes = start + end + 4;
    if bytes > HEAD_MAX_BYTES {
        wrong.insert(431);
    }
    let lines = split(&input[start..start + end], b"\r\n");
    if lines.iter().any(|line| line.contains(&b'\r') || line.contains(&b'\n')) {
        wrong.insert(400);
    }

    let (method, target, is_1_0) = request_line(lines[0], &mut wrong);
    if lines.len() - 1 > FIELDS_MAX {
        wrong.insert(431);
    }
    let fields: Vec<_> = lines[1..].iter().map(|line| field_line(line, &mut wrong)).collect();
    let authority = authority(&target, &fields, is_1_0, &mut wrong);
    let framing = framing(&fields, is_1_0, &mut wrong);
    let expect = values(&fields, "expect");
    let known = expect.iter().all(|value| value.eq_ignore_ascii_case(b"100-continue"));
    if !is_1_0 && !known {
        wrong.insert(417);
    }
    let options: Vec<Vec<u8>> = values(&fields, "connection")
        .iter()
        .flat_map(|value| split(value, b","))
        .map(|option| trim(option).to_ascii_lowercase())
        .collect();
    let says = |option: &str| options.iter().any(|o| o == option.as_bytes());
    let head = Head {
        method,
        target,
        is_1_0,
        authority,
        fields,
        framing,
        keep_alive: !says("close") && (!is_1_0 || says("keep-alive")),
        expect_continue: !is_1_0 && !expect.is_empty() && framing != Framing::None,
        bytes,
    };
    if wrong.is_empty() { Reading::Head(head) } else { Reading::Refused(wrong) }
}

/// RFC 9112 §3: method SP request-target SP HTTP-version.
fn request_line(line: &[u8], wrong: &mut BTreeSet<u16>) -> (Vec<u8>, Vec<u8>, bool) {
    let parts = split(line, b" ");
    let part = |index: usize| parts.get(index).copied().unwrap_or_default();
    let (method, target, version) = (part(0), part(1), part(2));
    if parts.len() != 3 || !is_token(method) {
        wrong.insert(400);
    }
    if method.len() > METHOD_MAX_BYTES {
        wrong.insert(501);
    }
    if target.len() > TARGET_MAX_BYTES {
        wrong.insert(414);
    }
    if !is_target(method, target) {
        wrong.insert(400);
    }
    let digits = version.strip_prefix(b"HTTP/").unwrap_or_default();
    match digits {
        [b'1', b'.', b'0'..=b'9'] => {}
        [b'0'..=b'9', b'.', b'0'..=b'9'] => {
            wrong.insert(505);
        }
        _ => {
            wrong.insert(400);
        }
    }
    (method.to_vec(), target.to_vec(), digits == b"1.0")
}

/// RFC 9112 §3.2: returns whether a target is valid in one of the forms.
fn is_target(method: &[u8], target: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(target) else { return false };
    match method {
        b"CONNECT" => is_authority(text) && text.rsplit(':').next().is_some_and(is_port),
        b"OPTIONS" if text == "*" => true,
        _ => {
            let rest = if text.starts_with('/') {
                text
            } else {
                let Some((scheme, rest)) = text.split_once("://") else { return false };
                let scheme = scheme.to_ascii_lowercase();
                let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
                if !(scheme == "http" || scheme == "https") || !is_authority(authority) {
                    return false;
                }
                rest
            };
            // Also the characters that browsers do not escape, by the URL standard.
            let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
            let is_one = |c: char, more: &str| {
                c.is_ascii_alphanumeric()
                    || "-._~:/?[]@!$&'()*+,;=%|^".contains(c)
                    || more.contains(c)
            };
            path.chars().all(|c| is_one(c, "")) && query.chars().all(|c| is_one(c, "{}`\\"))
        }
    }
}

/// RFC 9110 §7.2: uri-host [ ":" port ], the host not empty (§4.2.1).
fn is_authority(text: &str) -> bool {
    let (host, port) = match (text.strip_prefix('['), text.split_once(':')) {
        (Some(rest), _) => match rest.split_once(']') {
            Some((address, "")) => (Some(address), ""),
            Some((address, rest)) => match rest.strip_prefix(':') {
                Some(port) => (Some(address), port),
                None => return false,
            },
            None => return false,
        },
        (None, Some((name, port))) => return is_name(name) && (port.is_empty() || is_port(port)),
        (None, None) => return is_name(text),
    };
    let address = host.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    address && (port.is_empty() || is_port(port))
}

/// RFC 3986 §3.2.2: reg-name.
fn is_name(name: &str) -> bool {
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if c == '%' {
            let Some(digits) = rest.get(1..3) else { return false };
            if !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
                return false;
            }
            rest = &rest[3..];
        } else if c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=".contains(c) {
            rest = &rest[1..];
        } else {
            return false;
        }
    }
    !name.is_empty()
}

fn is_port(port: &str) -> bool {
    let digits = (1..=5).contains(&port.len()) && port.chars().all(|c| c.is_ascii_digit());
    digits && port.parse::<u32>().is_ok_and(|port| port <= 65535)
}

/// RFC 9112 §5: field-name ":" OWS field-value OWS; no folding (§5.2).
fn field_line(line: &[u8], wrong: &mut BTreeSet<u16>) -> (Vec<u8>, Vec<u8>) {
    let colon = line.iter().position(|&byte| byte == b':');
    let (name, value) = match colon {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &b"\0"[..]),
    };
    let is_value = |byte: &u8| *byte == b'\t' || (b' '..=b'~').contains(byte) || *byte >= 0x80;
    if !is_token(name) || !value.iter().all(is_value) {
        wrong.insert(400);
    }
    (name.to_vec(), trim(value).to_vec())
}

/// RFC 9112 §3.2: one valid Host in 1.1, at most one in 1.0; §3.2.2: absolute-form wins.
fn authority(
    target: &[u8],
    fields: &[(Vec<u8>, Vec<u8>)],
    is_1_0: bool,
    wrong: &mut BTreeSet<u16>,
) -> Option<Vec<u8>> {
    let hosts = values(fields, "host");
    let valid = |host: &Vec<u8>| std::str::from_utf8(host).is_ok_and(is_authority);
    if hosts.len() > 1 || (hosts.is_empty() && !is_1_0) || !hosts.iter().all(valid) {
        wrong.insert(400);
    }
    if target.starts_with(b"/") || target == b"*" {
        return hosts.first().cloned();
    }
    let text = String::from_utf8_lossy(target).into_owned();
    let rest = text.split_once("://").map_or(text.as_str(), |(_, rest)| rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    Some(rest.as_bytes()[..end].to_vec())
}

/// RFC 9112 §6.3; where the RFC leaves a choice, the strict one is made.
fn framing(fields: &[(Vec<u8>, Vec<u8>)], is_1_0: bool, wrong: &mut BTreeSet<u16>) -> Framing {
    let encodings = values(fields, "transfer-encoding");
    let lengths = values(fields, "content-length");
    if !encodings.is_empty() {
        if is_1_0 || !lengths.is_empty() || encodings.len() > 1 {
            wrong.insert(400);
        } else if !encodings[0].eq_ignore_ascii_case(b"chunked") {
            wrong.extend([400, 501]);
        }
        return Framing::Chunked;
    }
    match lengths.as_slice() {
        [] => Framing::None,
        [one] if !one.is_empty() && one.iter().all(u8::is_ascii_digit) => {
            let text = String::from_utf8_lossy(one);
            match text.parse::<u64>() {
                Ok(0) => Framing::None,
                Ok(bytes) => Framing::Length(bytes),
                Err(_) => {
                    wrong.insert(413);
                    Framing::None
                }
            }
        }
        _ => {
            wrong.insert(400);
            Framing::None
        }
    }
}

fn values(fields: &[(Vec<u8>, Vec<u8>)], name: &str) -> Vec<Vec<u8>> {
    let same = |field: &&(Vec<u8>, Vec<u8>)| field.0.eq_ignore_ascii_case(name.as_bytes());
    fields.iter().filter(same).map(|(_, value)| value.clone()).collect()
}

fn is_token(bytes: &[u8]) -> bool {
    let tchar = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !bytes.is_empty() && bytes.iter().all(tchar)
}

fn trim(bytes: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| *byte != b' ' && *byte != b'\t';
    let Some(first) = bytes.iter().position(is_text) else { return b"" };
    let last = bytes.iter().rposition(is_text).unwrap_or(first);
    &bytes[first..=last]
}

fn split<'a>(bytes: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(separator.len()).position(|window| window == separator) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    parts.push(rest);
    parts
}

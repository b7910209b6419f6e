//! Malformed messages (RFC 9114 §4.1.2): most end their stream, some get a response.

use super::streams_and_settings::{data, rows};
use super::{Outcome, Row, control, fields, head, request, section};

/// RFC 9114 §8.1.
const MESSAGE: u64 = 0x10e;

/// The pseudo-fields of a correct request.
const PSEUDO: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];

/// Returns malformed messages, and the outcome of each.
pub fn malformed() -> Vec<Row> {
    let malformed = |section, case: String, frames: &[Vec<u8>]| {
        let writes = vec![control(&[]), request(frames)];
        Row { section, case, writes, outcome: Outcome::Stream(MESSAGE) }
    };
    let mut all = Vec::new();
    for (section, name, value) in [
        ("§4.2", "Accept", "*/*"),
        ("§4.2", "aCcept", "*/*"),
        ("§4.2", "connection", "close"),
        ("§4.2", "keep-alive", "5"),
        ("§4.2", "proxy-connection", "keep-alive"),
        ("§4.2", "transfer-encoding", "chunked"),
        ("§4.2", "upgrade", "websocket"),
        ("§4.2", "te", "gzip"),
        ("§4.2", "te", "trailers, gzip"),
        ("§10.3", "a b", "x"),
        ("§10.3", "a\n", "x"),
        ("§10.3", "", "x"),
        ("§10.3", "x", "a\nb"),
        ("§10.3", "x", "a\rb"),
        ("§10.3", "x", "a\0b"),
        ("§4.3", ":status", "200"),
        ("§4.3", ":protocol", "websocket"),
        ("§4.3", ":x", "y"),
        ("§4.3.1", ":method", "GET"),
        ("§4.3.1", ":scheme", "https"),
        ("§4.3.1", ":authority", "localhost"),
        ("§4.3.1", ":path", "/"),
    ] {
        let row = malformed(section, format!("{name:?}: {value:?}"), &[fields(&[(name, value)])]);
        all.push(row);
    }
    for missing in [":method", ":scheme", ":path"] {
        let rest: Vec<_> = PSEUDO.into_iter().filter(|(name, _)| *name != missing).collect();
        all.push(malformed("§4.3.1", format!("no {missing}"), &[section(&rest)]));
    }
    let [method, scheme, authority, path] = PSEUDO;
    for (section_of, case, fields) in [
        ("§4.3", "a pseudo-field behind a field", vec![method, scheme, ("x", "y"), path]),
        ("§4.3.1", "an empty :path", vec![method, scheme, authority, (":path", "")]),
        ("§4.3.1", "another host", vec![method, scheme, authority, path, ("host", "b")]),
        ("§4.4", "CONNECT with :path", vec![(":method", "CONNECT"), authority, path]),
        ("§4.4", "CONNECT with :scheme", vec![(":method", "CONNECT"), authority, scheme]),
        ("§4.4", "CONNECT without :authority", vec![(":method", "CONNECT")]),
        ("§4.3.1", "a user", vec![method, scheme, (":authority", "me@a"), path]),
        ("§4.3.1", "a user and a word", vec![method, scheme, (":authority", "me:x@a"), path]),
        ("§4.3.1", "a user in Host", vec![method, scheme, path, ("host", "me@a")]),
        ("§4.1.2", "no field at all", vec![]),
    ] {
        all.push(malformed(section_of, case.to_owned(), &[section(&fields)]));
    }
    let long = |length: &str, content: &[Vec<u8>]| {
        [&[fields(&[("content-length", length)])], content].concat()
    };
    for (case, frames) in [
        ("less content than announced", long("5", &[data(b"four")])),
        ("more content than announced", long("3", &[data(b"four")])),
        ("more content in the end", long("3", &[data(b"two"), data(b"!")])),
        ("no content though announced", long("3", &[])),
        ("content though none was announced", long("0", &[data(b"x")])),
        ("trailers before the announced end", long("3", &[data(b"x"), section(&[("x", "y")])])),
    ] {
        all.push(malformed("§4.1.2", case.to_owned(), &frames));
    }
    for (name, value) in [(":path", "/"), ("Upper", "x"), ("connection", "close")] {
        let frames = [head(), data(b"x"), section(&[(name, value)])];
        all.push(malformed("§4.1.2, §4.3", format!("{name:?} in trailers"), &frames));
    }
    all.extend(answered());
    all
}

/// "Servers MAY send an HTTP response indicating the error": this server does, as over any other
/// protocol.
fn answered() -> Vec<Row> {
    let [method, scheme, authority, path] = PSEUDO;
    let no_authority = ("host", "");
    let mut all = Vec::new();
    for (section_of, case, fields) in [
        ("§4.3.1", "an empty :authority", vec![method, scheme, (":authority", ""), path]),
        (
            "§4.3.1",
            "the same beside Host",
            vec![method, scheme, (":authority", ""), path, ("host", "a")],
        ),
        ("§4.3.1", "no authority", vec![method, scheme, path]),
        ("§4.3.1", "an empty Host", vec![method, scheme, path, no_authority]),
        ("§4.3.1", "the same beside :authority", [&PSEUDO[..], &[no_authority]].concat()),
        ("§4.3.1", "a path without a slash", vec![method, scheme, authority, (":path", "x")]),
        ("§4.3.1", "a URL for a path", vec![method, scheme, authority, (":path", "https://a/")]),
        ("§4.3.1", "an asterisk", vec![method, scheme, authority, (":path", "*")]),
        ("§4.4", "CONNECT to nobody", vec![(":method", "CONNECT"), (":authority", "")]),
    ] {
        let writes = vec![request(&[section(&fields)])];
        all.extend(rows(section_of, Outcome::Status(400), [(case, writes)]));
    }
    for (case, lengths) in [
        ("a length that is none", &["x"][..]),
        ("two lengths", &["1", "2"]),
        ("two lengths in one", &["1, 2"]),
    ] {
        let lengths: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
        let writes = vec![request(&[fields(&lengths), data(b"x")])];
        all.extend(rows("§4.1.2", Outcome::Status(400), [(case, writes)]));
    }
    all
}

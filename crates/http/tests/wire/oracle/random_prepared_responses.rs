//! Responses of random steps, for the oracles of encoders.

use pinion_http::date;
use pinion_http::hpack;
use pinion_http::prepared_response::{Location, Prepared, SharedFields};
use pinion_http::qpack;

pub(crate) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Blocks of shared fields, some with one that is in the static table, some with secrets.
const BLOCKS: u8 = 40;

/// Calls a function with the response of a step, 4 and more. `next` returns the bytes that
/// determine its details.
pub(crate) fn with_response(
    step: u8,
    next: &mut impl FnMut() -> u8,
    respond: impl FnOnce(&Prepared<'_>),
) {
    let lines = shared_lines(next() % BLOCKS);
    let (mut in_hpack, mut in_qpack) = (Vec::new(), Vec::new());
    if step != 5 {
        hpack::static_encoder::lines(&mut in_hpack, &lines);
        qpack::static_encoder::lines(&mut in_qpack, &lines);
    }
    let tag = tag(next());
    respond(&Prepared {
        status: if step == 4 { 304 } else { 200 },
        shared: SharedFields { h1: &lines, hpack: &in_hpack, qpack: &in_qpack },
        etag: match step {
            6 => None,
            7 => Some(b"\"short"),
            _ => Some(&tag),
        },
        last_modified: (step != 8).then(|| 1_000_000_000 + i64::from(next() % 8)),
        content_length: (step > 4).then(|| u64::from(next())),
        location: (step == 9).then_some(Location { path: b"/elsewhere", query: None }),
        ..Prepared::empty(200)
    });
}

/// The fields at the end of all responses of a second.
pub(crate) struct TailBytes {
    date: [u8; date::DATE_BYTES],
    fields: Vec<u8>,
    all: Vec<u8>,
}

impl TailBytes {
    /// `field` appends a field in the form of the protocol.
    pub(crate) fn new(second: i64, field: fn(&mut Vec<u8>, &[u8], &[u8])) -> Self {
        let date = date::format(second);
        let (mut fields, mut all) = (Vec::new(), Vec::new());
        field(&mut all, b"date", &date);
        field(&mut fields, b"server", b"Pinion");
        all.extend_from_slice(&fields);
        Self { date, fields, all }
    }

    pub(crate) fn tail(&self) -> hpack::dynamic_encoder::Tail<'_> {
        hpack::dynamic_encoder::Tail { date: &self.date, fields: &self.fields, all: &self.all }
    }
}

fn tag(number: u8) -> [u8; 22] {
    let mut tag = *b"tag-of-a-file--------0";
    tag[19..].copy_from_slice(format!("{number:03}").as_bytes());
    tag
}

fn shared_lines(number: u8) -> Vec<u8> {
    let mut lines = match number % 4 {
        0 => "Content-Type: text/html; charset=utf-8\r\nVary: accept-encoding\r\n".to_owned(),
        1 => "Content-Type: image/png\r\nAccept-Ranges: bytes\r\n".to_owned(),
        2 => "Set-Cookie: a=1\r\nCache-Control: no-store\r\n".to_owned(),
        _ => "Accept-Encoding: gzip, deflate\r\n".to_owned(),
    };
    for line in 0..number % 7 {
        let value = "long ".repeat(usize::from(number) * usize::from(line));
        lines += &format!("X-{number}-{line}: {value}\r\n");
    }
    lines.into_bytes()
}

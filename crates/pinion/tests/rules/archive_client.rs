//! A client for an archive in memory, and its responses in the words of the interpreter.

use pinion_archive::Layout;
use pinion_http::h1::head_parser::{self, HeadStorage, Parsed};
use pinion_http::h1::response_encoder::{self, ConnectionFields};
use pinion_http::limits::Limits;
use pinion_http::prepared_response::{Piece, PreparedBody};
use pinion_site::{Pieces, RequestBuffers, respond};

use crate::reference_model::{Request, Resolution};

/// Requests a path, in which every byte that is no letter or digit is escaped.
pub(crate) fn ask(layout: &Layout, bytes: &[u8], request: &Request) -> Resolution {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '/';
    let path: String = request
        .path
        .bytes()
        .map(|byte| match char::from(byte) {
            c if plain(c) => c.to_string(),
            _ => format!("%{byte:02x}"),
        })
        .collect();
    let query = request.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
    let fields = if request.navigation { "\r\nSec-Fetch-Mode: navigate" } else { "" };
    let host = &request.host;
    let text = format!("GET {path}{query} HTTP/1.1\r\nHost: {host}{fields}\r\n\r\n");
    said(layout, bytes, &text)
}

/// Status and fields of a response.
pub(crate) struct Sent {
    pub(crate) status: u16,
    head: String,
}

impl Sent {
    /// Returns the values of all lines of a field.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let of_name = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        of_name.map(|(_, value)| value.to_owned()).collect()
    }
}

/// Sends a whole request.
pub(crate) fn send(layout: &Layout, bytes: &[u8], request: &str) -> Sent {
    let mut storage = HeadStorage::new();
    let parsed = head_parser::parse(request.as_bytes(), 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("{request}: {parsed:?}") };
    let (mut work, mut pieces) = (RequestBuffers::new(), Pieces::new());
    let archive = layout.view(bytes);
    let prepared = respond(&archive, &head, 1, &mut work, &mut pieces);
    let mut out = Vec::new();
    response_encoder::prepared(&mut out, &prepared, ConnectionFields::Stay, b"\r\n");
    Sent { status: prepared.status, head: String::from_utf8(out).expect("text") }
}

fn said(layout: &Layout, bytes: &[u8], request: &str) -> Resolution {
    let mut storage = HeadStorage::new();
    let parsed = head_parser::parse(request.as_bytes(), 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("{request}: {parsed:?}") };
    let mut work = RequestBuffers::new();
    let mut pieces = Pieces::new();
    let archive = layout.view(bytes);
    let prepared = respond(&archive, &head, 1, &mut work, &mut pieces);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    if let Some(location) = &prepared.location {
        let query = location.query.map_or(String::new(), |query| format!("?{}", text(query)));
        return Resolution::Redirect(prepared.status, text(location.path) + &query);
    }
    let body = match &prepared.body {
        PreparedBody::None => String::new(),
        PreparedBody::Bytes(bytes) => text(bytes),
        PreparedBody::Archive(pieces) => pieces.iter().map(|piece| content(bytes, piece)).collect(),
    };
    match body.strip_prefix("fallback ") {
        Some(folder) => Resolution::Fallback(prepared.status, folder.to_owned()),
        None if body == "single page" => Resolution::SinglePage,
        None if body.starts_with('/') => Resolution::Page(prepared.status, body),
        None => Resolution::NotFound,
    }
}

fn content(archive: &[u8], piece: &Piece<'_>) -> String {
    let bytes = match piece {
        Piece::Bytes(bytes) => bytes,
        Piece::Archive(range) => {
            let (start, bytes) = (range.offset as usize, range.bytes as usize);
            &archive[start..start + bytes]
        }
        Piece::External(_) => panic!("small files are in the archive"),
    };
    String::from_utf8(bytes.to_vec()).expect("text")
}

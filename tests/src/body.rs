//! Bodies that take making or reading: noise, content codings and `multipart/byteranges`.

use crate::response::Response;
use std::io::Read;

/// Returns content of which no part can be moved, removed or inserted without being detected.
pub fn noise(bytes: usize) -> Vec<u8> {
    let (mut noise, mut value) = (vec![0; bytes], 0_u32);
    for byte in &mut noise {
        *byte = (value >> 24) as u8;
        value = value.wrapping_add(2_654_435_761);
    }
    noise
}

/// Different numbers whose hashes in a LuaJIT without a seed agree in their lowest 13 bits, as in
/// the test `hash_of_keys` of the Lua crate: keys of a table that make long chains there.
pub fn colliding_numbers() -> impl Iterator<Item = f64> {
    (0x4010_0000_u32..).flat_map(|high| {
        let doubled = high << 1;
        let rotated = doubled.rotate_left(14);
        let mixed = rotated.rotate_left(5);
        (0..1 << 13).map(move |lowest: u32| {
            // The hash is `(mixed ^ w) - rol(w, 13)`; its lowest bits settle the others of `w`.
            let ends = lowest | (((mixed ^ lowest) & 0x1fff) << 19);
            let word = ends | (((lowest & 0x3f) << 13) ^ (mixed & 0x7_e000));
            let low = word.wrapping_add(rotated) ^ doubled;
            f64::from_bits((u64::from(high) << 32) | u64::from(low))
        })
    })
}

/// Returns the content of a response without its content coding.
///
/// # Panics
/// Panics if the content does not have the coding in `Content-Encoding`.
#[track_caller]
pub fn decoded(response: &Response) -> Vec<u8> {
    let body = &response.body;
    match response.field("Content-Encoding") {
        None => body.clone(),
        Some("gzip") => gunzip(body),
        Some("br") => {
            let mut plain = Vec::new();
            let mut reader = pinion_brotli::Decoder::new(body.as_slice());
            reader.read_to_end(&mut plain).expect("a brotli stream");
            plain
        }
        Some("zstd") => zstd::decode_all(body.as_slice()).expect("a zstd frame"),
        Some(other) => panic!("Content-Encoding: {other}"),
    }
}

/// Decodes one member, as RFC 1952 defines it: its last four bytes are the length of the content.
fn gunzip(body: &[u8]) -> Vec<u8> {
    let (_, length) = body.split_last_chunk::<4>().expect("a gzip member");
    let mut plain = vec![0; u32::from_le_bytes(*length) as usize];
    let count = libdeflater::Decompressor::new().gzip_decompress(body, &mut plain);
    assert_eq!(count.expect("a gzip member"), plain.len());
    plain
}

/// A part of a `multipart/byteranges` body (RFC 9110 §14.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its `Content-Type`.
    pub content_type: String,
    /// Its `Content-Range`.
    pub content_range: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// Returns the parts of a `multipart/byteranges` body (RFC 2046 §5.1.1).
///
/// # Panics
/// Panics if it is none.
#[track_caller]
pub fn parts(response: &Response) -> Vec<Part> {
    let content_type = response.field("Content-Type").expect("a media type");
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect("multipart");
    let delimiter = format!("\r\n--{boundary}");
    let delimiter = delimiter.as_bytes();
    let mut rest = response.body.as_slice();
    // The line break before the first delimiter may be missing.
    rest = rest.strip_prefix(&delimiter[2..]).or(rest.strip_prefix(delimiter)).expect("a part");
    let mut parts = Vec::new();
    while rest != b"--\r\n" {
        rest = rest.strip_prefix(b"\r\n").expect("a line end behind the delimiter");
        let end = find(rest, delimiter).expect("a closing delimiter");
        parts.push(part(&rest[..end]));
        rest = &rest[end + delimiter.len()..];
    }
    parts
}

fn part(bytes: &[u8]) -> Part {
    let head_end = find(bytes, b"\r\n\r\n").expect("a blank line");
    let head = std::str::from_utf8(&bytes[..head_end]).expect("text");
    let field = |name: &str| {
        let line = head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in {head:?}")).to_owned()
    };
    Part {
        content_type: field("Content-Type"),
        content_range: field("Content-Range"),
        content: bytes[head_end + 4..].to_vec(),
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;

    fn response(name: &str, value: &str, body: &[u8]) -> Response {
        let fields = vec![(name.to_owned(), value.to_owned())];
        let (protocol, reason) = (Protocol::Http1, String::new());
        Response { protocol, status: 200, reason, fields, body: body.to_vec() }
    }

    #[test]
    fn multipart_bodies_are_split_into_parts() {
        let body = b"--b\r\nContent-Type: x/y\r\nContent-Range: bytes 0-1/9\r\n\r\nab\
            \r\n--b\r\nContent-Type: x/y\r\nContent-Range: bytes 3-3/9\r\n\r\n\r\r\n--b--\r\n";
        let found = parts(&response("Content-Type", "multipart/byteranges; boundary=b", body));
        let contents: Vec<&[u8]> = found.iter().map(|part| part.content.as_slice()).collect();
        assert_eq!(contents, [b"ab".as_slice(), b"\r"]);
        assert_eq!(found[1].content_range, "bytes 3-3/9");
    }

    #[test]
    #[should_panic(expected = "a closing delimiter")]
    fn a_truncated_body_is_an_error() {
        let body = b"--b\r\nContent-Type: x/y\r\nContent-Range: bytes 0-1/9\r\n\r\nab";
        parts(&response("Content-Type", "multipart/byteranges; boundary=b", body));
    }

    #[test]
    fn content_codings_are_decoded() {
        let frame = zstd::encode_all(&b"hello"[..], 1).expect("encoded");
        assert_eq!(decoded(&response("Content-Encoding", "zstd", &frame)), b"hello");
        assert_eq!(decoded(&response("X", "y", b"hello")), b"hello");
    }
}

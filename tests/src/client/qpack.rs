//! Field sections of QPACK (RFC 9204 §4.5), without a dynamic table.
//!
//! They are written as plain literals, so that a field can have any error that a case needs. A
//! server may only refer to the static table, because this client sets the capacity of a dynamic
//! table to 0.

use loona_hpack::huffman::HuffmanDecoder;

/// Names and values, in their order.
pub type Section = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns a field section of literals, without Huffman codes.
pub fn encode<N: AsRef<[u8]>, V: AsRef<[u8]>>(section: &[(N, V)]) -> Vec<u8> {
    let mut block = vec![0, 0]; // §4.5.1: no reference to the dynamic table
    for (name, value) in section {
        integer(&mut block, 0x20, 3, name.as_ref().len());
        block.extend_from_slice(name.as_ref());
        integer(&mut block, 0, 7, value.as_ref().len());
        block.extend_from_slice(value.as_ref());
    }
    block
}

/// Returns the fields of a section.
///
/// # Errors
/// Returns a description of the error.
pub fn decode(block: &[u8]) -> Result<Section, String> {
    let mut rest = block;
    let (_, required) = read_integer(&mut rest, 8)?;
    let (_, base) = read_integer(&mut rest, 7)?;
    if (required, base) != (0, 0) {
        return Err("§3.2.3: the dynamic table has no room".to_owned());
    }
    let mut section = Vec::new();
    while let Some(&first) = rest.first() {
        section.push(match first {
            0xc0.. => {
                let (name, value) = entry(read_integer(&mut rest, 6)?.1)?;
                (name.into(), value.into())
            }
            0x50..0x60 | 0x70..0x80 => {
                let (name, _) = entry(read_integer(&mut rest, 4)?.1)?;
                (name.into(), string(&mut rest, 7)?)
            }
            0x20..0x40 => {
                let name = string(&mut rest, 3)?;
                (name, string(&mut rest, 7)?)
            }
            _ => return Err("§4.5: a reference to the dynamic table".to_owned()),
        });
    }
    Ok(section)
}

/// Reads a string whose length is in the last `bits` of its first byte, after the bit for Huffman
/// coding (§4.1.2).
fn string(rest: &mut &[u8], bits: u32) -> Result<Vec<u8>, String> {
    let (first, bytes) = read_integer(rest, bits)?;
    let (string, behind) = rest.split_at_checked(bytes).ok_or("a string that is cut")?;
    *rest = behind;
    match first >> bits & 1 {
        0 => Ok(string.to_vec()),
        _ => HuffmanDecoder::new().decode(string).map_err(|error| format!("{error:?}")),
    }
}

/// Writes an integer in the last `bits` of `front`, and bytes after it (RFC 7541 §5.1).
pub fn integer(out: &mut Vec<u8>, front: u8, bits: u32, number: usize) {
    let most = (1 << bits) - 1;
    let Some(mut rest) = number.checked_sub(most) else {
        out.push(front | number as u8);
        return;
    };
    out.push(front | most as u8);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Returns the first byte, and the integer that begins in it.
fn read_integer(rest: &mut &[u8], bits: u32) -> Result<(u8, usize), String> {
    let (&first, mut behind) = rest.split_first().ok_or("a section that is cut")?;
    let most = (1 << bits) - 1;
    let mut number = usize::from(first) & most;
    let mut shift = 0;
    while number >= most && shift < 28 {
        let (&next, further) = behind.split_first().ok_or("an integer that is cut")?;
        behind = further;
        number += usize::from(next & 0x7f) << shift;
        shift += 7;
        if next & 0x80 == 0 {
            break;
        }
    }
    *rest = behind;
    Ok((first, number))
}

fn entry(index: usize) -> Result<(&'static str, &'static str), String> {
    STATIC.get(index).copied().ok_or_else(|| format!("no entry {index} in the static table"))
}

/// The table of appendix A.
const STATIC: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn own(section: &[(&str, &str)]) -> Section {
        section.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn an_encoded_section_is_decoded_unchanged() {
        let long = "x".repeat(300);
        let section = [(":method", "GET"), ("a-name-of-some-length", long.as_str()), ("x", "")];
        assert_eq!(decode(&encode(&section)), Ok(own(&section)));
    }

    #[test]
    fn every_field_line_representation_is_decoded() {
        // RFC 9204 §B.1, and the Huffman codes of RFC 7541 §C.4.1.
        let example = b"\0\0\x51\x0b/index.html";
        assert_eq!(decode(example), Ok(own(&[(":path", "/index.html")])));
        let huffman = b"\0\0\x50\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        assert_eq!(decode(huffman), Ok(own(&[(":authority", "www.example.com")])));
        assert_eq!(decode(b"\0\0\xd9"), Ok(own(&[(":status", "200")])));
        assert_eq!(decode(b"\0\0\xff\x23"), Ok(own(&[("x-frame-options", "sameorigin")])));
    }

    #[test]
    fn sections_that_need_a_dynamic_table_are_refused() {
        for block in [&b"\x02\0\x80"[..], b"\0\0\x80", b"\0\0\x10", b"\0\0\x40\0", b"\0\0\0\0"] {
            assert!(decode(block).is_err(), "{block:?}");
        }
        assert!(decode(b"\0\0\xff\x24").is_err(), "behind the end of the static table");
    }
}

//! Field sections that cannot be decompressed, and wrong instructions on the streams of QPACK (RFC
//! 9204).

use super::streams_and_settings::{data, rows};
use super::{Outcome, Row, control, head, request, uni};
use crate::client::http3::{kind, stream};
use crate::client::quic::frame;

// RFC 9204 §6.
const DECOMPRESSION_FAILED: u64 = 0x200;
const ENCODER_STREAM: u64 = 0x201;
const DECODER_STREAM: u64 = 0x202;

/// The continuation of an integer with a full prefix: it has one bit more than any peer has to
/// accept (§4.1.1).
const BITS_63: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
/// A continuation that exceeds any machine integer.
const BITS_70: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f";

/// Returns field sections that cannot be decompressed.
pub fn sections() -> Vec<Row> {
    let mut all = Vec::new();
    for (section, case, fields) in [
        ("RFC 9204 §2.2.1", "entries are required", &b"\x02\0\x80"[..]),
        ("RFC 9204 §3.2.5", "an entry of the dynamic table", b"\0\0\x80"),
        ("RFC 9204 §3.2.6", "one behind the base", b"\0\0\x10"),
        ("RFC 9204 §4.5.4", "a name from the dynamic table", b"\0\0\x40\x01x"),
        ("RFC 9204 §4.5.5", "a name from behind the base", b"\0\0\0\x01x"),
        ("RFC 9204 §3.1", "behind the end of the static table", b"\0\0\xff\x24"),
        ("RFC 9204 §3.1", "a name from there", b"\0\0\x5f\x54\x01x"),
        ("RFC 9204 §4.5.1.2", "a base below 0", b"\0\x80\xd1"),
        ("RFC 9204 §4.5.1.2", "a base further below 0", b"\0\x85\xd1"),
        ("RFC 9204 §4.5.1", "no prefix", b""),
        ("RFC 9204 §4.5.1", "half a prefix", b"\0"),
        ("RFC 9204 §4.5.6", "a name that is cut", b"\0\0\x23ab"),
        ("RFC 9204 §4.5.6", "a value that is cut", b"\0\0\x21a\x05b"),
        ("RFC 9204 §4.1.1", "an integer without an end", b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("RFC 9204 §4.1.1", "an index of 63 bits", &[b"\0\0\xff", BITS_63].concat()),
        ("RFC 9204 §4.1.1", "an index of 70 bits", &[b"\0\0\xff", BITS_70].concat()),
        ("RFC 9204 §4.1.1", "a length of 70 bits", &[b"\0\0\x51\x7f", BITS_70].concat()),
        ("RFC 9204 §4.1.1", "a base of 70 bits", &[b"\0\x7f", BITS_70, b"\xd1"].concat()),
        ("RFC 9204 §4.1.1", "as many insertions", &[b"\xff", BITS_70, b"\0\xd1"].concat()),
        ("RFC 7541 §5.2", "a name with padding of zeros", b"\0\0\x29\0\x01x"),
        ("RFC 7541 §5.2", "a name with padding of a byte", b"\0\0\x2a\x1f\xff\x01x"),
        ("RFC 7541 §5.2", "the end of a name within it", b"\0\0\x2c\xff\xff\xff\xff\x01x"),
        ("RFC 7541 §5.2", "padding with zeros", b"\0\0\x51\x81\0"),
        ("RFC 7541 §5.2", "padding of a whole byte", b"\0\0\x51\x82\x1f\xff"),
        ("RFC 7541 §5.2", "the end of a string within it", b"\0\0\x51\x84\xff\xff\xff\xff"),
    ] {
        let failed = Outcome::Connection(DECOMPRESSION_FAILED);
        let trailers = vec![request(&[head(), data(b"x"), frame(kind::HEADERS, fields)])];
        let request = vec![control(&[]), request(&[frame(kind::HEADERS, fields)])];
        all.extend(rows(section, failed, [(case, request)]));
        all.extend(rows(section, failed, [(&*format!("{case}, in trailers"), trailers)]));
    }
    all
}

/// Instructions for a dynamic table, whose capacity is 0.
pub fn instructions() -> Vec<Row> {
    let mut all = Vec::new();
    for (section, case, bytes) in [
        ("RFC 9204 §4.3.1", "a capacity above 0", &b"\x21"[..]),
        ("RFC 9204 §4.3.1", "a large capacity", b"\x3f\xe1\x1f"),
        ("RFC 9204 §3.2.2", "an entry by a static name", b"\xc0\x01x"),
        ("RFC 9204 §3.2.2", "an entry by its name", b"\x41x\x01y"),
        ("RFC 9204 §3.1", "an entry by a name behind the end", b"\xff\x24\x01x"),
        ("RFC 9204 §4.1.1", "a capacity of 70 bits", &[b"\x3f", BITS_70].concat()),
        ("RFC 9204 §4.1.1", "a name of 70 bits", &[b"\xff", BITS_70].concat()),
        ("RFC 9204 §4.3.4", "a duplicate of nothing", b"\0"),
        ("RFC 9204 §4.3.2", "an entry by a name that is not there", b"\x80\x01x"),
    ] {
        let writes = vec![control(&[]), uni(stream::ENCODER, bytes)];
        all.extend(rows(section, Outcome::Connection(ENCODER_STREAM), [(case, writes)]));
    }
    for (section, case, bytes) in [
        ("RFC 9204 §4.4.1", "an acknowledged section", &b"\x80"[..]),
        ("RFC 9204 §4.1.1", "a cancelled stream of 77 bits", &[b"\x7f\xff", BITS_70].concat()),
        ("RFC 9204 §4.4.3", "no insertions", b"\0"),
        ("RFC 9204 §4.4.3", "an insertion that never was", b"\x01"),
        ("RFC 9204 §4.4.3", "the same behind what is right", b"\x40\x44\x01"),
    ] {
        let writes = vec![control(&[]), uni(stream::DECODER, bytes)];
        all.extend(rows(section, Outcome::Connection(DECODER_STREAM), [(case, writes)]));
    }
    all
}

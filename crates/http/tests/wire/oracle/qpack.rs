//! A simple reader of RFC 9204 §4.5 without a dynamic table, and of the permitted input on the two
//! streams of QPACK.

use loona_hpack::huffman::HuffmanDecoder;
use pinion_http::field_section::{FieldSection, Fit};
use pinion_http::limits::Limits;
use pinion_http::qpack::dynamic_encoder::Encoder;
use pinion_http::qpack::instruction_streams::{DecoderStream, encoder_stream};
use pinion_http::qpack::{decoder, static_encoder};

use super::http1_equivalent_head::{Pair, within};

/// Panics if the result for the section or the streams differs from the simple one.
pub(crate) fn check(data: &[u8]) {
    let mut section = FieldSection::new();
    let expected = plain(data);
    // Small limits only change how many fields of a section are kept.
    let small = Limits { fields: 3, head_bytes: 60, ..Limits::default() };
    for limits in [Limits::default(), small] {
        let fit = decoder::decode(data, &mut section, &limits);
        assert_eq!(fit.is_ok(), expected.is_some(), "{data:02x?}: {fit:?}, but {expected:?}");
        if let (Ok(fit), Some(expected)) = (fit, &expected) {
            let pairs = section.fields().iter().map(|x| (x.name.to_vec(), x.value.to_vec()));
            let decoded = (pairs.collect(), fit == Fit::Whole);
            assert_eq!(decoded, within(expected, &limits), "{expected:?}");
        }
    }
    check_streams(data);
}

fn plain(data: &[u8]) -> Option<Vec<Pair>> {
    let mut at = 0;
    let required = integer(data, &mut at, 8, 62)?;
    let sign = *data.get(at)? & 0x80 != 0;
    integer(data, &mut at, 7, 62)?;
    if required != 0 || sign {
        return None;
    }
    let mut fields = Vec::new();
    while let Some(&first) = data.get(at) {
        let bits = format!("{first:08b}");
        fields.push(if bits.starts_with("11") {
            row(integer(data, &mut at, 6, 32)?)?
        } else if bits.starts_with("01") && &bits[3..4] == "1" {
            let (name, _) = row(integer(data, &mut at, 4, 32)?)?;
            (name, string(data, &mut at, 7)?)
        } else if bits.starts_with("001") {
            let name = string(data, &mut at, 3)?;
            (name, string(data, &mut at, 7)?)
        } else {
            return None;
        });
    }
    Some(fields)
}

/// RFC 7541 §5.1, with the limit of nine bytes after the first.
pub(crate) fn integer(data: &[u8], at: &mut usize, prefix: u32, bits_max: u32) -> Option<u128> {
    let mask = (1u128 << prefix) - 1;
    let mut value = u128::from(*data.get(*at)?) & mask;
    *at += 1;
    if value == mask {
        let more = &data[*at..];
        let length = more.iter().position(|byte| byte & 0x80 == 0)? + 1;
        if length > 9 {
            return None;
        }
        for (place, byte) in more[..length].iter().enumerate() {
            value += u128::from(byte & 0x7f) << (7 * place);
        }
        *at += length;
    }
    // Numbers that are ignored may have one more than 62 bits.
    (bits_max == 62 || value < 1 << bits_max).then_some(value)
}

pub(crate) fn string(data: &[u8], at: &mut usize, prefix: u32) -> Option<Vec<u8>> {
    let is_coded = *data.get(*at)? & (1 << prefix) != 0;
    let length = integer(data, at, prefix, 32)? as usize;
    let text = data.get(*at..at.checked_add(length)?)?;
    *at += length;
    if is_coded { HuffmanDecoder::new().decode(text).ok() } else { Some(text.to_vec()) }
}

/// Returns a row of RFC 9204 Appendix A, taken from the crate itself: this reader has no list of
/// its own.
pub(crate) fn row(number: u128) -> Option<Pair> {
    let number = u8::try_from(number).ok().filter(|&number| number < 99)?;
    let mut one = static_encoder::PREFIX.to_vec();
    match number.checked_sub(63) {
        None => one.push(0xc0 | number),
        Some(rest) => one.extend([0xff, rest]),
    }
    let mut section = FieldSection::new();
    decoder::decode(&one, &mut section, &Limits::default()).ok()?;
    let field = section.fields().iter().next()?;
    Some((field.name.to_vec(), field.value.to_vec()))
}

/// RFC 9204 §4.3, §4.4: one instruction of each stream is valid, wherever the bytes are cut.
fn check_streams(data: &[u8]) {
    assert_eq!(encoder_stream(data), data.iter().all(|&byte| byte == 0b0010_0000));
    let mut at = 0;
    let mut expected = true;
    while expected && let Some(&first) = data.get(at) {
        let more = data[at + 1..].iter().take_while(|&byte| byte & 0x80 != 0).count();
        let fits = more < 9 || (more == 9 && at + 1 + more == data.len());
        expected = first >> 6 == 0b01 && (first & 0x3f != 0x3f || fits);
        at += if first & 0x3f == 0x3f { more + 2 } else { 1 };
    }
    for cut in [0, data.len() / 2, data.len()] {
        let mut stream = DecoderStream::default();
        let (front, back) = data.split_at(cut);
        let none = &mut Encoder::default();
        let is_legal = stream.read(front, none) && stream.read(back, none);
        assert_eq!(is_legal, expected, "{data:02x?}");
    }
}

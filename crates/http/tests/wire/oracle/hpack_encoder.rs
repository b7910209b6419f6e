//! The field blocks of the responses of one connection: two decoders, that of this crate and
//! another implementation, decode them to the same fields that the plain encoder, which uses no
//! table, has written.
//!
//! The input is a sequence of steps: a byte selects the kind, and the bytes after it are the
//! response.

use loona_hpack::decoder::Decoder as Other;
use pinion_http::field::Field;
use pinion_http::field_section::FieldSection;
use pinion_http::hpack::decoder::Decoder;
use pinion_http::hpack::dynamic_encoder::{Encoder, Tail};
use pinion_http::hpack::static_encoder;
use pinion_http::limits::Limits;

use super::random_prepared_responses::{Fields, TailBytes, with_response};

/// The peer's default size of its table.
const TABLE_BYTES: u32 = 4096;
/// The most memory of the encoder of a connection.
const MEMORY_MAX_BYTES: usize = 4 * 1024;
/// Panics if a block has other fields than the plain one.
pub(crate) fn check(data: &[u8]) {
    let mut connection = Connection {
        encoder: Encoder::new(),
        decoder: Decoder::new(TABLE_BYTES as usize),
        other: Other::new(),
        table_bytes: TABLE_BYTES,
        said_bytes: TABLE_BYTES,
        second: 784_111_777,
    };
    let mut bytes = data.iter().copied();
    while let Some(step) = bytes.next() {
        connection.step(step, &mut || bytes.next().unwrap_or_default());
    }
}

struct Connection {
    encoder: Encoder,
    decoder: Decoder,
    other: Other<'static>,
    table_bytes: u32,
    /// The size that the blocks have announced.
    said_bytes: u32,
    second: i64,
}

impl Connection {
    fn step(&mut self, step: u8, next: &mut impl FnMut() -> u8) {
        match step % 16 {
            0 => self.second += 1,
            1 => self.limit_table(u32::from(next()) * 20),
            2 => {
                let (value, times) = (vec![b'v'; usize::from(next())], next() % 4);
                let field = Field { name: b"x-of-script", value: &value };
                let fields = std::iter::repeat_n(field, usize::from(times));
                self.respond(
                    |encoder, out, tail| encoder.head(out, 201, fields.clone(), Some(7), tail),
                    |out, tail| static_encoder::head(out, 201, fields.clone(), Some(7), tail),
                );
            }
            3 => self.respond(
                |_, out, _| static_encoder::interim(out, 103, std::iter::empty()),
                |out, _| static_encoder::interim(out, 103, std::iter::empty()),
            ),
            step => with_response(step, next, |response| {
                self.respond(
                    |encoder, out, tail| encoder.prepared(out, response, tail),
                    |out, tail| static_encoder::prepared(out, response, tail),
                );
            }),
        }
    }

    fn limit_table(&mut self, bytes: u32) {
        self.encoder.limit_table(bytes);
        self.table_bytes = self.table_bytes.min(bytes);
    }

    fn respond(
        &mut self,
        encode: impl FnOnce(&mut Encoder, &mut Vec<u8>, Tail<'_>),
        plain: impl FnOnce(&mut Vec<u8>, &[u8]),
    ) {
        let tail = TailBytes::new(self.second, static_encoder::field);
        let tail = tail.tail();
        let (mut block, mut expected) = (Vec::new(), Vec::new());
        self.encoder.begin(&mut block);
        encode(&mut self.encoder, &mut block, tail);
        plain(&mut expected, tail.all);
        self.check_size(&block);
        assert!(self.encoder.memory_bytes() <= MEMORY_MAX_BYTES);

        let limits = Limits { fields: 100, head_bytes: 32 * 1024, ..Limits::default() };
        let mut section = FieldSection::new();
        Decoder::new(0).decode(&expected, &mut section, &limits).expect("a plain block");
        let expected = pairs(&section);
        self.decoder.decode(&block, &mut section, &limits).expect("a block");
        assert_eq!(pairs(&section), expected, "{block:02x?}");
        let other: Fields = self.other.decode(&block).expect("a block");
        assert_eq!(other, expected, "{block:02x?}");
        let has_secret = expected.iter().any(|(name, _)| name == b"set-cookie");
        assert!(!has_secret || block.contains(&0x1f), "never indexed: {block:02x?}");
    }

    /// RFC 7541 §4.2: the first block after a change announces the size, which is within the limit.
    fn check_size(&mut self, block: &[u8]) {
        let is_update = block.first().is_some_and(|first| (0x20..0x40).contains(first));
        assert_eq!(is_update, self.table_bytes < self.said_bytes, "{block:02x?}");
        if is_update {
            self.said_bytes = update_size(block);
            assert!(self.said_bytes <= self.table_bytes, "{block:02x?}");
        }
    }
}

/// Returns the size at the beginning of a block (RFC 7541 §6.3).
fn update_size(block: &[u8]) -> u32 {
    let first = u32::from(block[0] & 0x1f);
    if first < 0x1f {
        return first;
    }
    let mut size = first;
    for (position, byte) in block[1..].iter().enumerate() {
        size += u32::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            break;
        }
    }
    size
}

fn pairs(section: &FieldSection) -> Fields {
    section.fields().iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
}

//! The field sections of the responses of one connection of HTTP/3, read by a simple decoder with a
//! table, whose instructions and acknowledgements arrive at any time.
//!
//! The first byte determines the maximum size of the table. The others are steps: a byte selects
//! the kind, and the bytes after it are the response.

use std::collections::VecDeque;

use pinion_http::field::Field;
use pinion_http::field_section::FieldSection;
use pinion_http::h3::session::{Session, SessionSettings};
use pinion_http::h3::unidirectional_streams::UniState;
use pinion_http::limits::Limits;
use pinion_http::qpack::dynamic_encoder::Encoder;
use pinion_http::qpack::static_encoder;

use super::qpack::{integer, row, string};
use super::random_prepared_responses::{Fields, TailBytes, with_response};

/// The most memory of the encoder of a connection, including sections and instructions on their
/// way.
const MEMORY_MAX_BYTES: usize = 12 * 1024;

/// Panics if a section has other fields than the plain one, or refers to an entry that the peer may
/// not have.
pub(crate) fn check(data: &[u8]) {
    let Some((&size, data)) = data.split_first() else { return };
    let capacity_max = u64::from(size) * 64;
    let mut connection = Connection::new(capacity_max);
    let mut bytes = data.iter().copied();
    while let Some(step) = bytes.next() {
        connection.step(step, &mut || bytes.next().unwrap_or_default());
    }
    // The peer receives the rest, and then no section is on its way.
    connection.deliver(usize::MAX);
    while !connection.peer.unacknowledged.is_empty() {
        connection.acknowledge(0);
    }
    assert!(connection.peer.instructions.is_empty());
}

struct Connection {
    session: Session,
    decoder_stream: UniState,
    peer: Peer,
    /// Instructions that were sent and have not arrived.
    on_their_way: VecDeque<u8>,
    second: i64,
    stream: u64,
}

/// The table of the peer, and its pending acknowledgements.
struct Peer {
    capacity_max: u64,
    capacity: usize,
    /// The oldest first.
    entries: VecDeque<(Vec<u8>, Vec<u8>)>,
    inserted: u64,
    /// The number of entries that were not acknowledged.
    unsaid: u64,
    /// The bytes of an incomplete instruction.
    instructions: Vec<u8>,
    /// Sections that refer to entries, with the numbers of these, from 1.
    unacknowledged: Vec<(u64, Vec<u64>)>,
}

impl Connection {
    fn new(capacity_max: u64) -> Self {
        let mut session = Session::new(&SessionSettings::default(), 0);
        let (mut control, mut decoder_stream) = (UniState::default(), UniState::default());
        let mut settings = vec![0x00, 0x04, 0x00, 0x01];
        // A number of two bytes (RFC 9000 §16).
        settings.extend((0x4000 | capacity_max as u16).to_be_bytes());
        settings[2] = settings.len() as u8 - 3;
        feed(&mut session, &mut control, &settings);
        feed(&mut session, &mut decoder_stream, &[0x03]);
        let peer = Peer {
            capacity_max,
            capacity: 0,
            entries: VecDeque::new(),
            inserted: 0,
            unsaid: 0,
            instructions: Vec::new(),
            unacknowledged: Vec::new(),
        };
        let second = 784_111_777;
        let on_their_way = VecDeque::new();
        Self { session, decoder_stream, peer, on_their_way, second, stream: 0 }
    }

    fn step(&mut self, step: u8, next: &mut impl FnMut() -> u8) {
        match step % 20 {
            0 => self.second += 1,
            1 | 16 => self.deliver(usize::from(next())),
            2 => {
                let (value, times) = (vec![b'v'; usize::from(next())], next() % 4);
                let field = Field { name: b"x-of-script", value: &value };
                let fields = std::iter::repeat_n(field, usize::from(times));
                self.respond(
                    |encoder, stream, out, tail| {
                        encoder.head(stream, out, (201, Some(7)), fields.clone(), tail);
                    },
                    |out, tail| static_encoder::head(out, 201, fields.clone(), Some(7), tail),
                );
            }
            3 => self.cancel(usize::from(next())),
            17 | 18 => self.acknowledge(usize::from(next())),
            19 => self.say_entries(u64::from(next())),
            step => with_response(step, next, |response| {
                self.respond(
                    |encoder, stream, out, tail| encoder.prepared(stream, out, response, tail),
                    |out, tail| static_encoder::prepared(out, response, tail),
                );
            }),
        }
    }

    fn respond(
        &mut self,
        encode: impl FnOnce(
            &mut Encoder,
            u64,
            &mut Vec<u8>,
            pinion_http::qpack::dynamic_encoder::Tail<'_>,
        ),
        plain: impl FnOnce(&mut Vec<u8>, &[u8]),
    ) {
        let tail = TailBytes::new(self.second, static_encoder::field);
        let tail = tail.tail();
        let (mut section, mut expected) = (b"before".to_vec(), Vec::new());
        self.stream += 4;
        let encoder = self.session.encoder();
        encode(encoder, self.stream, &mut section, tail);
        assert!(encoder.memory_bytes() <= MEMORY_MAX_BYTES, "{}", encoder.memory_bytes());
        if let Some(instructions) = encoder.instructions() {
            self.on_their_way.extend(instructions.drain(..));
        }
        plain(&mut expected, tail.all);
        let limits = Limits { fields: 100, head_bytes: 32 * 1024, ..Limits::default() };
        let mut fields = FieldSection::new();
        let plain = pinion_http::qpack::decoder::decode(&expected, &mut fields, &limits);
        plain.expect("a plain section");
        let expected: Fields = fields
            .fields()
            .iter()
            .map(|field| (field.name.to_vec(), field.value.to_vec()))
            .collect();
        let section = section.strip_prefix(b"before").expect("what stood before");
        assert_eq!(self.peer.decode(self.stream, section), expected, "{section:02x?}");
    }

    /// Delivers this many bytes of instructions.
    fn deliver(&mut self, bytes: usize) {
        let bytes = bytes.min(self.on_their_way.len());
        let come = self.on_their_way.drain(..bytes);
        self.peer.instructions.extend(come);
        self.peer.execute();
    }

    fn acknowledge(&mut self, position: usize) {
        if self.peer.unacknowledged.is_empty() {
            return;
        }
        let position = position % self.peer.unacknowledged.len();
        let (stream, _) = self.peer.unacknowledged.remove(position);
        self.say(0x80, 7, stream);
    }

    fn cancel(&mut self, position: usize) {
        let known = self.peer.unacknowledged.get(position).map(|(stream, _)| *stream);
        let stream = known.unwrap_or(self.stream + 400);
        self.peer.unacknowledged.retain(|(on, _)| *on != stream);
        self.say(0x40, 6, stream);
    }

    fn say_entries(&mut self, count: u64) {
        let count = count.min(self.peer.unsaid);
        if count > 0 {
            self.peer.unsaid -= count;
            self.say(0x00, 6, count);
        }
    }

    /// Sends an instruction on the decoder stream, cut in two.
    fn say(&mut self, flags: u8, prefix: u32, number: u64) {
        let mask = (1 << prefix) - 1;
        let mut bytes = vec![flags | number.min(mask) as u8];
        if number >= mask {
            let mut rest = number - mask;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        let (front, back) = bytes.split_at(bytes.len() / 2);
        feed(&mut self.session, &mut self.decoder_stream, front);
        feed(&mut self.session, &mut self.decoder_stream, back);
    }
}

fn feed(session: &mut Session, state: &mut UniState, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let step = session.uni(state, bytes, false, 0).expect("what a client may send");
        bytes = &bytes[step.used..];
    }
}

impl Peer {
    fn size(&self) -> usize {
        self.entries.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    /// Returns the entry with this number, from 1.
    fn entry(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let removed = self.inserted - self.entries.len() as u64;
        let position = number.checked_sub(removed + 1).expect("an entry that is not removed");
        self.entries[position as usize].clone()
    }

    /// Executes all complete instructions (RFC 9204 §4.3).
    fn execute(&mut self) {
        let data = std::mem::take(&mut self.instructions);
        let mut start = 0;
        while let Some(end) = self.instruction(&data, start) {
            start = end;
        }
        self.instructions = data[start..].to_vec();
    }

    fn instruction(&mut self, data: &[u8], start: usize) -> Option<usize> {
        let mut at = start;
        match *data.get(at)? {
            0xc0.. => {
                let (name, _) = row(integer(data, &mut at, 6, 62)?).expect("a static entry");
                let value = string(data, &mut at, 7)?;
                self.insert(name, value);
            }
            0x40..=0x7f => {
                let name = string(data, &mut at, 5)?;
                let value = string(data, &mut at, 7)?;
                self.insert(name, value);
            }
            0x20..=0x3f => {
                self.capacity = integer(data, &mut at, 5, 62)? as usize;
                assert!(self.capacity as u64 <= self.capacity_max);
            }
            other => panic!("an instruction that this encoder has no use for: {other:02x}"),
        }
        Some(at)
    }

    fn insert(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.entries.push_back((name, value));
        self.inserted += 1;
        self.unsaid += 1;
        while self.size() > self.capacity {
            let removed = self.inserted - self.entries.len() as u64 + 1;
            // RFC 9204 §2.1.1: a removed entry is acknowledged, and no unacknowledged section
            // refers to it.
            assert!(removed <= self.inserted - self.unsaid, "entry {removed} is not acknowledged");
            let refers = |(_, entries): &(u64, Vec<u64>)| entries.contains(&removed);
            assert!(!self.unacknowledged.iter().any(refers), "entry {removed} is in use");
            self.entries.pop_front().expect("an entry that fits");
        }
    }

    fn decode(&mut self, stream: u64, data: &[u8]) -> Fields {
        let mut at = 0;
        let encoded = integer(data, &mut at, 8, 62).expect("a count") as u64;
        let required = if encoded == 0 { 0 } else { self.required(encoded) };
        assert_eq!(data[at] & 0x80, 0, "the base is not below the count");
        let base = required + integer(data, &mut at, 7, 62).expect("a difference") as u64;
        let (mut fields, mut entries) = (Fields::new(), Vec::new());
        while let Some(&first) = data.get(at) {
            fields.push(match first {
                0xc0.. => row(integer(data, &mut at, 6, 62).expect("an index")).expect("a row"),
                0x80..=0xbf => {
                    let number = base - integer(data, &mut at, 6, 62).expect("an index") as u64;
                    entries.push(number);
                    assert!(number <= self.inserted - self.unsaid, "{number} is unacknowledged");
                    self.entry(number)
                }
                0x50..=0x5f | 0x70..=0x7f => {
                    let name = row(integer(data, &mut at, 4, 62).expect("an index"));
                    let (name, _) = name.expect("a row");
                    assert_eq!(first & 0x20 != 0, name == b"set-cookie", "never indexed");
                    (name, string(data, &mut at, 7).expect("a value"))
                }
                _ => {
                    let name = string(data, &mut at, 3).expect("a name");
                    (name, string(data, &mut at, 7).expect("a value"))
                }
            });
        }
        // RFC 9204 §2.1.2: the count is exactly that of the referenced entries.
        assert_eq!(entries.iter().max().copied().unwrap_or(0), required);
        if required > 0 {
            self.unacknowledged.push((stream, entries));
        }
        fields
    }

    /// RFC 9204 §4.5.1.1.
    fn required(&self, encoded: u64) -> u64 {
        let full = 2 * (self.capacity_max / 32);
        assert!(encoded <= full);
        let max = self.inserted + full / 2;
        let wrapped = max / full * full;
        let required = wrapped + encoded - 1;
        if required > max { required - full } else { required }
    }
}

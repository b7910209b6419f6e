//! The information in the first bytes of a client: the cipher that suits its machine, by the order
//! of its cipher suites, and whether the server name that it requests is a valid name.

use std::ops::Range;

use rustls::CipherSuite;
use rustls::pki_types::ServerName;

use crate::limits::HANDSHAKE_MAX_BYTES;

/// The cipher that a client puts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preference {
    /// AES: its machine has instructions for AES, and the server decides the length of the keys.
    Aes,
    /// ChaCha20, or no known cipher.
    Other,
    /// The bytes end before the suites do.
    Unknown,
}

/// The server name that a client requests (RFC 6066 §3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestedName {
    /// The library accepts it, or refuses it for another reason than its form; or there is none.
    Readable,
    /// It is neither a DNS name nor an address. The range is its position in the ClientHello.
    Unreadable(Range<usize>),
    /// The record with the ClientHello, or a ClientHello without records, has not arrived in full.
    Unknown,
}

/// The choice among the TLS settings of a listener for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The settings that follow the order of the client.
    ByClient,
    /// The settings that put AES with short keys first.
    AesFirst,
    /// The settings for a name that is hidden from the library. The range is its position in the
    /// ClientHello, without the header of a record.
    HiddenName(Range<usize>),
}

pub(super) const RECORD_HEADER_BYTES: usize = 5;
/// The maximum number of bytes of a record (RFC 8446 §5.2).
const RECORD_MAX_BYTES: usize = (1 << 14) + 256;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

/// Returns the choice of settings for a client whose first bytes are `input`, or `None` as long as
/// the bytes do not suffice.
pub(super) fn choice(input: &[u8]) -> Option<Choice> {
    choice_by(preference(input), name(input))
}

/// Returns the choice for a client whose ClientHello comes without records, as in QUIC.
pub(crate) fn bare_choice(message: &[u8]) -> Option<Choice> {
    choice_by(message_preference(message, false), bare_name(message))
}

fn choice_by(preference: Preference, name: RequestedName) -> Option<Choice> {
    match (preference, name) {
        (Preference::Unknown, _) | (_, RequestedName::Unknown) => None,
        (_, RequestedName::Unreadable(place)) => Some(Choice::HiddenName(place)),
        (Preference::Aes, RequestedName::Readable) => Some(Choice::AesFirst),
        (Preference::Other, RequestedName::Readable) => Some(Choice::ByClient),
    }
}

/// Returns the preferred cipher of a client whose first bytes are `input`: one or more records that
/// hold a ClientHello (RFC 8446 §4.1.2, §5.1), or the beginning of them.
pub(super) fn preference(input: &[u8]) -> Preference {
    let Some((header, rest)) = input.split_first_chunk::<RECORD_HEADER_BYTES>() else {
        return Preference::Unknown;
    };
    let record_bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if header[0] != HANDSHAKE || record_bytes > RECORD_MAX_BYTES {
        return Preference::Other;
    }
    if rest.len() <= record_bytes {
        let is_whole = rest.len() == record_bytes;
        return message_preference(rest, is_whole);
    }
    // A message in several records, which is rare.
    match joined(input) {
        Some(message) => message_preference(&message, false),
        None => Preference::Other,
    }
}

/// Returns the content of consecutive records, as far as it has arrived, or `None` if one of them
/// is no part of a message: records of other types, and empty ones, must not come in between (RFC
/// 8446 §5.1).
fn joined(mut input: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    while let Some((header, rest)) = input.split_first_chunk::<RECORD_HEADER_BYTES>() {
        let record_bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[0] != HANDSHAKE || record_bytes == 0 {
            return None;
        }
        message.extend_from_slice(rest.get(..record_bytes).unwrap_or(rest));
        input = rest.get(record_bytes..).unwrap_or_default();
    }
    Some(message)
}

/// Returns the preference of a ClientHello without its records. If it `is_whole` as far as records
/// have arrived, the rest may still come in another record.
fn message_preference(message: &[u8], is_whole: bool) -> Preference {
    let message_bytes = message_bytes(message).unwrap_or(usize::MAX);
    let (suites, is_complete) = suites(message).unwrap_or_default();
    let kinds = suites.iter().map(|suite| is_aes(CipherSuite::from(u16::from_be_bytes(*suite))));
    match kinds.flatten().next() {
        Some(true) => Preference::Aes,
        Some(false) => Preference::Other,
        None if is_complete || message.len() >= message_bytes => Preference::Other,
        None if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) => Preference::Other,
        None if is_whole && message.is_empty() => Preference::Other,
        None => Preference::Unknown,
    }
}

/// Returns the total number of bytes of a message, by its header (RFC 8446 §4).
fn message_bytes(message: &[u8]) -> Option<usize> {
    const HEADER_BYTES: usize = 4;
    let length = message.get(1..HEADER_BYTES)?;
    Some(HEADER_BYTES + length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}

/// Returns the suites, as far as they have arrived, and whether they are complete.
fn suites(message: &[u8]) -> Option<(&[[u8; 2]], bool)> {
    // A length of 24 bits, a version, and 32 bytes of randomness.
    const BEFORE_SESSION_BYTES: usize = 3 + 2 + 32;
    let (kind, rest) = message.split_first()?;
    let (session_bytes, rest) = rest.get(BEFORE_SESSION_BYTES..)?.split_first()?;
    let (bytes, rest) = rest.get(usize::from(*session_bytes)..)?.split_first_chunk()?;
    let bytes = usize::from(u16::from_be_bytes(*bytes));
    let (suites, _) = rest.get(..bytes).unwrap_or(rest).as_chunks();
    (*kind == CLIENT_HELLO).then_some((suites, rest.len() >= bytes))
}

/// Returns the kind of the name that a client requests whose first bytes are `input`.
pub(super) fn name(input: &[u8]) -> RequestedName {
    let Some((header, rest)) = input.split_first_chunk::<RECORD_HEADER_BYTES>() else {
        return RequestedName::Unknown;
    };
    let record_bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
    let is_hello = rest.first().is_none_or(|kind| *kind == CLIENT_HELLO);
    if header[0] != HANDSHAKE || record_bytes > RECORD_MAX_BYTES || !is_hello {
        return RequestedName::Readable;
    }
    rest.get(..record_bytes).map_or(RequestedName::Unknown, whole_name)
}

/// Returns the kind of the name in a ClientHello without records that begins with these bytes. The
/// library refuses one that is too long.
fn bare_name(message: &[u8]) -> RequestedName {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return RequestedName::Readable;
    }
    match message_bytes(message) {
        Some(bytes) if bytes > HANDSHAKE_MAX_BYTES => RequestedName::Readable,
        Some(bytes) => message.get(..bytes).map_or(RequestedName::Unknown, whole_name),
        None => RequestedName::Unknown,
    }
}

/// Returns the kind of the name in a complete ClientHello.
fn whole_name(message: &[u8]) -> RequestedName {
    let place = name_place(message);
    let bytes = place.clone().and_then(|place| message.get(place)).unwrap_or_default();
    match place {
        Some(place) if is_unreadable(bytes) => RequestedName::Unreadable(place),
        _ => RequestedName::Readable,
    }
}

/// Returns whether a name has a valid length for DNS (RFC 1035 §2.3.4), but is no DNS name.
fn is_unreadable(name: &[u8]) -> bool {
    const NAME_MAX_BYTES: usize = 253;
    (1..=NAME_MAX_BYTES).contains(&name.len()) && ServerName::try_from(name).is_err()
}

/// Returns the position of the name in a record with one complete ClientHello, if it has one name
/// (RFC 8446 §4.1.2, RFC 6066 §3).
fn name_place(record: &[u8]) -> Option<Range<usize>> {
    const VERSION_AND_RANDOM_BYTES: usize = 2 + 32;
    const SERVER_NAME: usize = 0;
    const HOST_NAME: usize = 0;
    let mut reader = HelloReader { bytes: record, at: 1 };
    let _message_bytes = reader.number(3)?;
    reader.skip(VERSION_AND_RANDOM_BYTES)?;
    // A session id, cipher suites, methods of compression.
    for length_bytes in [1, 2, 1] {
        let bytes = reader.number(length_bytes)?;
        reader.skip(bytes)?;
    }
    let _extensions_bytes = reader.number(2)?;
    loop {
        let (extension, extension_bytes) = (reader.number(2)?, reader.number(2)?);
        if extension != SERVER_NAME {
            reader.skip(extension_bytes)?;
            continue;
        }
        let (list_bytes, kind, bytes) = (reader.number(2)?, reader.number(1)?, reader.number(2)?);
        let is_alone = extension_bytes == list_bytes + 2 && list_bytes == bytes + 3;
        let start = reader.at;
        reader.skip(bytes)?;
        return (kind == HOST_NAME && is_alone).then_some(start..reader.at);
    }
}

/// A reader of numbers in network byte order.
struct HelloReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl HelloReader<'_> {
    fn number(&mut self, length_bytes: usize) -> Option<usize> {
        let start = self.at;
        self.skip(length_bytes)?;
        let bytes = self.bytes.get(start..self.at)?;
        Some(bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at += bytes;
        (self.at <= self.bytes.len()).then_some(())
    }
}

/// Returns whether a suite uses AES rather than ChaCha20; `None` if we do not have the suite.
fn is_aes(suite: CipherSuite) -> Option<bool> {
    use CipherSuite as S;
    match suite {
        S::TLS13_AES_128_GCM_SHA256
        | S::TLS13_AES_256_GCM_SHA384
        | S::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | S::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | S::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        | S::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Some(true),
        S::TLS13_CHACHA20_POLY1305_SHA256
        | S::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | S::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a ClientHello up to its suites, with a session id of this length.
    fn hello(session_bytes: u8, suites: &[u16]) -> Vec<u8> {
        let mut bytes = vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
        bytes.extend([7; 32]);
        bytes.push(session_bytes);
        bytes.resize(bytes.len() + usize::from(session_bytes), 0x13);
        bytes.extend((2 * suites.len() as u16).to_be_bytes());
        bytes.extend(suites.iter().flat_map(|suite| suite.to_be_bytes()));
        // The methods of compression.
        bytes.extend([1, 0]);
        bytes
    }

    #[test]
    fn the_first_known_suite_determines_the_preference() {
        for (suites, expected) in [
            (&[0x1302, 0x1303, 0x1301][..], true),
            (&[0x1301], true),
            (&[0x1303, 0x1301, 0x1302], false),
            // Chrome puts a reserved suite first (RFC 8701); old suites follow it.
            (&[0x8a8a, 0x1301, 0x1303], true),
            (&[0x8a8a, 0x002f, 0x1303, 0x1301], false),
            (&[0xcca9, 0xc02b], false),
            (&[0xc030, 0xcca8], true),
            (&[0x002f, 0x0035], false),
            (&[], false),
        ] {
            for session_bytes in [0, 1, 32] {
                let hello = hello(session_bytes, suites);
                let found = preference(&hello);
                assert_eq!(found == Preference::Aes, expected, "{suites:04x?}");
                assert_ne!(found, Preference::Unknown, "{suites:04x?}");
            }
        }
    }

    /// Returns a whole ClientHello that requests `name`, after another extension.
    fn hello_for(name: &[u8]) -> Vec<u8> {
        let with_length = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
        let list = with_length(&[&[0][..], &with_length(name)].concat());
        let extensions = [&[0, 23, 0, 0, 0, 0][..], &with_length(&list), &[0, 23, 0, 0]].concat();
        let mut hello = hello(32, &[0x1301]);
        hello.extend(with_length(&extensions));
        let bytes = hello.len() - 5;
        hello[3..5].copy_from_slice(&(bytes as u16).to_be_bytes());
        hello[6..9].copy_from_slice(&(bytes as u32 - 4).to_be_bytes()[1..]);
        hello
    }

    #[test]
    fn invalid_server_names_are_found() {
        for unreadable in [
            "localhost:8443",
            "[foo.com]",
            "a..b",
            "123",
            "-a",
            "a b",
            "\u{e9}",
            "a/",
            ".",
            "[::1]",
        ] {
            let hello = hello_for(unreadable.as_bytes());
            let RequestedName::Unreadable(place) = name(&hello) else { panic!("{unreadable}") };
            assert_eq!(&hello[5..][place], unreadable.as_bytes());
        }
        let longest = [b'?'; 253];
        assert!(matches!(name(&hello_for(&longest)), RequestedName::Unreadable(_)));
        let longer = [b'?'; 254];
        let readable = ["localhost", "a_b.example", "127.0.0.1", "::1", "a.", ""];
        for readable in readable.map(str::as_bytes).into_iter().chain([&longer[..]]) {
            assert_eq!(
                name(&hello_for(readable)),
                RequestedName::Readable,
                "{}",
                readable.escape_ascii()
            );
        }
    }

    /// Over QUIC the same hello comes without a record.
    #[test]
    fn a_hello_without_records_has_the_same_choice() {
        for (asked, suites) in
            [("a..b", 0x1301), ("localhost:8443", 0x1303), ("a.b", 0x1301), ("a.b", 0x1303)]
        {
            let mut hello = hello_for(asked.as_bytes());
            let suite_at = 5 + 4 + 2 + 32 + 1 + 32 + 2;
            hello[suite_at..suite_at + 2].copy_from_slice(&u16::to_be_bytes(suites));
            let expected = choice(&hello);
            assert_ne!(expected, None, "{asked}");
            let message = &hello[5..];
            for bytes in 0..message.len() {
                assert_eq!(bare_choice(&message[..bytes]), None, "{bytes} of {asked}");
            }
            assert_eq!(bare_choice(message), expected, "{asked}");
            // Further bytes change nothing.
            assert_eq!(bare_choice(&[message, &[1, 2, 3]].concat()), expected, "{asked}");
        }
        assert_eq!(bare_choice(&[2]), Some(Choice::ByClient), "a ServerHello");
    }

    /// The engine does not wait for the rest of a ClientHello that would be refused.
    #[test]
    fn an_oversized_hello_without_records_is_judged_by_its_suites() {
        let mut message = hello_for(b"a..b").split_off(5);
        message[1..4].copy_from_slice(&[0, 0x40, 0]);
        assert_eq!(bare_choice(&message), Some(Choice::AesFirst));
        message[1..4].copy_from_slice(&[0, 0x3f, 0]);
        assert_eq!(bare_choice(&message), None);
    }

    proptest! {
        /// Whatever a client sends, the found position is inside the first record.
        #[test]
        fn positions_of_names_are_within_the_record(
            asked in prop::collection::vec(any::<u8>(), 0..300),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            behind in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut hello = hello_for(&asked);
            for (at, byte) in changes {
                let at = at.index(hello.len());
                hello[at] = byte;
            }
            hello.extend(behind);
            let record_bytes = usize::from(u16::from_be_bytes([hello[3], hello[4]]));
            if let RequestedName::Unreadable(place) = name(&hello) {
                prop_assert!(!place.is_empty() && place.end <= record_bytes);
                prop_assert!(ServerName::try_from(&hello[5..][place]).is_err());
            }
        }
    }

    #[test]
    fn a_name_is_unknown_until_its_record_is_complete() {
        let hello = hello_for(b"a..b");
        for bytes in 0..hello.len() {
            assert_eq!(name(&hello[..bytes]), RequestedName::Unknown, "{bytes}");
        }
        // The length of a part does not fit into the record.
        for at in 5..hello.len() {
            let mut damaged = hello.clone();
            damaged[at] ^= 0x80;
            if let RequestedName::Unreadable(place) = name(&damaged) {
                assert!(place.end <= damaged.len() - 5);
            }
        }
        assert_eq!(name(&[23, 3, 3, 0, 9, 1]), RequestedName::Readable);
        assert_eq!(name(&[22, 3, 3, 0, 9, 2]), RequestedName::Readable);
    }

    #[test]
    fn an_incomplete_hello_has_no_preference() {
        let whole = hello(32, &[0x1301, 0x1303]);
        let behind_first = whole.len() - 4;
        for bytes in 0..whole.len() {
            let expected =
                if bytes >= behind_first { Preference::Aes } else { Preference::Unknown };
            assert_eq!(preference(&whole[..bytes]), expected, "{bytes}");
        }
        let mut other = whole;
        other[5] = 2;
        assert_eq!(preference(&other), Preference::Other, "a ServerHello");
    }

    /// RFC 8446 §5.1: a message may be split over several records, anywhere.
    #[test]
    fn a_hello_in_several_records_has_the_same_preference() {
        let mut whole = hello(32, &[0x1301, 0x1303]);
        // The message is as long as its header says.
        whole.resize(5 + 512, 0);
        let message = &whole[5..];
        for piece_bytes in [1, 2, 7, 40, 100, 511] {
            let mut records = Vec::new();
            for piece in message.chunks(piece_bytes) {
                records.extend([22, 3, 1]);
                records.extend((piece.len() as u16).to_be_bytes());
                records.extend(piece);
            }
            let found: Vec<_> = (0..=records.len()).map(|at| preference(&records[..at])).collect();
            let known = found.iter().position(|one| *one != Preference::Unknown).expect("known");
            assert!(known > 5, "{piece_bytes}");
            assert!(found[known..].iter().all(|one| *one == Preference::Aes), "{piece_bytes}");
        }
    }

    /// A connection must not wait for suites that never come.
    #[test]
    fn records_that_do_not_belong_to_a_hello_are_detected_on_arrival() {
        let whole = hello(32, &[0x1301, 0x1303]);
        // A part that ends before the suites do, in a record of its own.
        let part = &whole[5..40];
        let begun = [&[22, 3, 1, 0, part.len() as u8][..], part].concat();
        assert_eq!(preference(&begun), Preference::Unknown);
        for next in [[21, 3, 3, 0, 2], [23, 3, 3, 0, 1], [22, 3, 1, 0, 0]] {
            let input = [&begun[..], &next].concat();
            assert_eq!(preference(&input), Preference::Other, "{next:?}");
        }
    }

    #[test]
    fn other_messages_have_the_preference_other() {
        for input in [
            &b"\x16\x03\x01\0\0"[..],
            b"\x16\x03\x01\0\x05\x14\0\0\x01!",
            &[22, 3, 1, 0, 4, 1, 0, 0, 0],
        ] {
            assert_eq!(preference(input), Preference::Other, "{input:?}");
        }
    }
}

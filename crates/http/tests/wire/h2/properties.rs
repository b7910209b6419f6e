//! Bytes of any kind: connections made of important frames, damaged, and cut anywhere.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::raw_client::*;
use crate::oracle;

/// Generates a frame that a client may send, or often may not.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = select(vec![0, 1, 1, 3, 3, 5, 7, 9, 11, 2, 1 << 31 | 1]);
    let small = vec(any::<u8>(), 0..20);
    prop_oneof![
        4 => (stream.clone(), any::<u8>(), any_fields())
            .prop_map(|(stream, flags, fields)| headers(stream, flags & 1, &fields)),
        3 => (stream.clone(), select(vec![0, 0, 1]), 0..2000usize)
            .prop_map(|(stream, end, bytes)| data(stream, end, &vec![b'x'; bytes])),
        1 => (stream.clone(), any::<u8>(), small.clone())
            .prop_map(|(stream, flags, bytes)| data(stream, flags, &bytes)),
        1 => (stream.clone(), 0..100_000u32).prop_map(|(s, bytes)| window_update(s, bytes)),
        1 => (stream.clone(), 0..20u32).prop_map(|(stream, code)| reset(stream, code)),
        1 => (select(vec![1, 2, 3, 4, 5, 6, 9, 99]), 0..70_000u32)
            .prop_map(|(name, value)| settings(&[(name, value)])),
        1 => any::<u8>().prop_map(|flags| frame(PING, flags, 0, b"12345678")),
        1 => (stream.clone(), any_fields(), 0..30usize).prop_map(|(stream, fields, at)| {
            let block = block(&fields);
            let at = at.min(block.len());
            let begin = frame(HEADERS, END_STREAM, stream, &block[..at]);
            [begin, frame(CONTINUATION, END_HEADERS, stream, &block[at..])].concat()
        }),
        1 => (stream.clone(), select(vec!["u=0", "u=7, i", "i", "x"])).prop_map(|(stream, value)| {
            let payload = [&stream.to_be_bytes()[..], value.as_bytes()].concat();
            frame(PRIORITY_UPDATE, 0, 0, &payload)
        }),
        1 => (any::<u8>(), any::<u8>(), stream, small)
            .prop_map(|(kind, flags, stream, bytes)| frame(kind % 18, flags, stream, &bytes)),
    ]
}

/// Generates the fields of a request in most cases.
fn any_fields() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let more = select(vec![
        ("content-length", "1000"),
        ("content-length", "0"),
        ("priority", "u=1, i"),
        ("priority", "u=6"),
        ("te", "gzip"),
        ("accept", "text/plain"),
        ("expect", "100-continue"),
        ("X", "y"),
        (":protocol", "websocket"),
        (":path", "/other"),
        ("x", ""),
    ]);
    let base = select(vec![GET.to_vec(), POST.to_vec(), POST.to_vec(), TUNNEL.to_vec(), vec![]]);
    (base, vec(more, 0..2)).prop_map(|(base, more)| [base, more].concat())
}

/// An action of a client that keeps to the rules; `which` is one of the streams that it has not
/// ended.
#[derive(Clone, Debug)]
enum Act {
    Request { fields: Vec<(&'static str, &'static str)>, end: bool, cut: usize },
    Content { which: Index, bytes: usize, padding: u8, end: bool },
    Trailers { which: Index },
    Reset { which: Index },
    Priority { which: Index, value: &'static str },
    Window { which: Option<Index>, bytes: u32 },
    Beside(Vec<u8>),
}

fn act() -> impl Strategy<Value = Act> {
    let which = || any::<Index>();
    let beside = prop_oneof![
        (0..100_000u32).prop_map(|bytes| settings(&[(4, bytes)])),
        (0..5000u32).prop_map(|bytes| settings(&[(1, bytes), (5, 16_384 + bytes)])),
        Just(frame(SETTINGS, ACK, 0, b"")),
        Just(frame(PING, 0, 0, b"12345678")),
        Just(frame(0x77, 3, 1, b"unknown")),
    ];
    prop_oneof![
        4 => (any_fields(), any::<bool>(), 0..100usize)
            .prop_map(|(fields, end, cut)| Act::Request { fields, end, cut }),
        6 => (which(), 0..3000usize, 0..9u8, any::<bool>())
            .prop_map(|(which, bytes, padding, end)| Act::Content { which, bytes, padding, end }),
        1 => which().prop_map(|which| Act::Trailers { which }),
        1 => which().prop_map(|which| Act::Reset { which }),
        1 => (which(), select(vec!["u=0", "u=7, i", "i"]))
            .prop_map(|(which, value)| Act::Priority { which, value }),
        2 => (proptest::option::of(which()), 1..50_000u32)
            .prop_map(|(which, bytes)| Act::Window { which, bytes }),
        2 => beside.prop_map(Act::Beside),
    ]
}

/// Returns the actions as bytes.
fn written(acts: &[Act]) -> Vec<u8> {
    let (mut bytes, mut open, mut next) = (Vec::new(), Vec::new(), 1);
    for act in acts {
        let stream = |which: &Index| open.get(which.index(open.len().max(1))).copied();
        let (frames, ended) = match act {
            Act::Request { fields, end, cut } => {
                let (block, flags) = (block(fields), u8::from(*end));
                let (front, rest) = block.split_at(*cut.min(&block.len()));
                let begin = frame(HEADERS, flags, next, front);
                bytes.extend([begin, frame(CONTINUATION, END_HEADERS, next, rest)].concat());
                if !end {
                    open.push(next);
                }
                next += 2;
                continue;
            }
            Act::Content { which, bytes, padding, end } => {
                let Some(stream) = stream(which) else { continue };
                let (flags, zeros) = (PADDED | u8::from(*end), vec![0; usize::from(*padding)]);
                let payload = [&[*padding][..], &vec![b'x'; *bytes], &zeros].concat();
                (data(stream, flags, &payload), end.then_some(stream))
            }
            Act::Trailers { which } => {
                let Some(stream) = stream(which) else { continue };
                (headers(stream, END_STREAM, &[("sum", "7")]), Some(stream))
            }
            Act::Reset { which } => {
                let Some(stream) = stream(which) else { continue };
                (reset(stream, 8), Some(stream))
            }
            Act::Priority { which, value } => {
                let Some(stream): Option<u32> = stream(which) else { continue };
                let payload = [&stream.to_be_bytes()[..], value.as_bytes()].concat();
                (frame(PRIORITY_UPDATE, 0, 0, &payload), None)
            }
            Act::Window { which, bytes } => {
                let stream = which.as_ref().map_or(Some(0), stream);
                (stream.map_or(Vec::new(), |stream| window_update(stream, *bytes)), None)
            }
            Act::Beside(frame) => (frame.clone(), None),
        };
        bytes.extend(frames);
        open.retain(|stream| Some(*stream) != ended);
    }
    bytes
}

proptest! {
    /// A client that keeps to the rules of the connection never gets a connection error.
    #[test]
    fn valid_connections_have_no_error(acts in vec(act(), 0..60), how in any::<u8>()) {
        let bytes = written(&acts);
        let seen = oracle::h2_session_invariants::check(&[&[how & !1][..], &bytes].concat());
        prop_assert!(!seen.iter().any(|seen| seen.contains("fatal")), "{seen:?}");
    }

    #[test]
    fn valid_connections_with_a_changed_byte_keep_the_invariants(
        acts in vec(act(), 0..60),
        how in any::<u8>(),
        place in any::<Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = [&[how & !1][..], &written(&acts)].concat();
        let place = place.index(bytes.len());
        bytes[place] ^= byte & if place == 0 { 0xfe } else { 0xff };
        oracle::h2_session_invariants::check(&bytes);
    }

    #[test]
    fn any_frames_keep_the_invariants(frames in vec(any_frame(), 0..40), how in any::<u8>()) {
        oracle::h2_session_invariants::check(&[&[how & !1][..], &frames.concat()].concat());
    }

    #[test]
    fn any_damaged_frames_keep_the_invariants(
        frames in vec(any_frame(), 1..40),
        how in any::<u8>(),
        spoil in vec((any::<Index>(), any::<u8>()), 0..4),
        cut in any::<Index>(),
    ) {
        let mut bytes = frames.concat();
        for (place, byte) in spoil {
            let place = place.index(bytes.len());
            bytes[place] ^= byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        oracle::h2_session_invariants::check(&[&[how & !1][..], &bytes].concat());
    }

    #[test]
    fn any_bytes_keep_the_invariants(bytes in vec(any::<u8>(), 0..200)) {
        oracle::h2_session_invariants::check(&bytes);
    }
}

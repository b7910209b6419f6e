//! Bytes of any kind: connections made of the frames that matter, spoiled, and cut anywhere.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::peer::*;
use crate::oracle;

/// A frame that a client may send, and often may not.
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

/// Mostly a request.
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
        (":path", "/other"),
        ("x", ""),
    ]);
    let base = select(vec![GET.to_vec(), POST.to_vec(), POST.to_vec(), vec![]]);
    (base, vec(more, 0..2)).prop_map(|(base, more)| [base, more].concat())
}

proptest! {
    #[test]
    fn connections(frames in vec(any_frame(), 0..40), how in any::<u8>()) {
        oracle::h2::check(&[&[how & !1][..], &frames.concat()].concat());
    }

    #[test]
    fn spoiled_connections(
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
        oracle::h2::check(&[&[how & !1][..], &bytes].concat());
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        oracle::h2::check(&bytes);
    }
}

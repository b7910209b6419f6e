//! Bytes of any kind: streams made of the frames that matter, spoiled, and cut anywhere.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::raw_client::*;
use crate::oracle;

/// Returns a frame that a client may send on a request stream, and sometimes may not.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let trailers = select(vec![("sum", "7"), ("host", "a"), ("X", "y"), (":path", "/")]);
    prop_oneof![
        4 => any_head(),
        4 => (0..2000usize).prop_map(|bytes| data(&vec![b'x'; bytes])),
        1 => select(vec![b"".to_vec(), b"abc".to_vec()]).prop_map(|bytes| data(&bytes)),
        2 => vec(trailers, 0..3).prop_map(|fields| headers(&fields)),
        2 => (0..300usize).prop_map(|bytes| frame(UNKNOWN, &vec![0; bytes])),
        1 => (0..20u64, 0..200u64).prop_map(|(kind, bytes)| front(kind, bytes)),
        1 => (0..3u64, 0..1u64 << 62).prop_map(|(kind, bytes)| front(kind, bytes)),
    ]
}

/// Returns mostly the head of a request.
fn any_head() -> impl Strategy<Value = Vec<u8>> {
    let more = select(vec![
        ("content-length", "1000"),
        ("content-length", "3"),
        ("content-length", "0"),
        ("content-length", "x"),
        ("priority", "u=1, i"),
        ("te", "gzip"),
        ("expect", "100-continue"),
        ("X", "y"),
        (":protocol", "websocket"),
    ]);
    let base = select(vec![GET.to_vec(), POST.to_vec(), POST.to_vec(), TUNNEL.to_vec(), vec![]]);
    (base, vec(more, 0..2)).prop_map(|(base, more)| headers(&[base, more].concat()))
}

/// Returns a frame of a control stream.
fn any_control() -> impl Strategy<Value = Vec<u8>> {
    let small = vec(any::<u8>(), 0..20);
    prop_oneof![
        4 => (0..600u64, select(vec!["u=0", "u=7, i", "i", ""]))
            .prop_map(|(stream, value)| priority_update(stream & !3, value)),
        2 => (0..3000usize).prop_map(|bytes| frame(UNKNOWN, &vec![0; bytes])),
        2 => (0..9u64).prop_map(|id| frame(MAX_PUSH_ID, &number(id))),
        2 => (0..9u64).prop_map(|id| frame(GOAWAY, &number(id))),
        1 => (0..15u64, small).prop_map(|(kind, payload)| frame(kind, &payload)),
    ]
}

/// Returns how a stream is cut. No bit selects the kind of stream.
fn how(cut: u8, fin: bool, uni: bool) -> u8 {
    cut << 2 | u8::from(fin) << 1 | u8::from(uni)
}

/// Changes some bytes of a stream.
fn spoil(bytes: &mut [u8], changes: &[(Index, u8)]) {
    for (place, byte) in changes {
        if !bytes.is_empty() {
            bytes[place.index(bytes.len())] ^= byte;
        }
    }
}

proptest! {
    /// A client that keeps to the rules gets no error for a violation.
    #[test]
    fn good_requests(
        parts in vec(0..3000usize, 0..10),
        sum in any::<bool>(),
        announced in any::<bool>(),
        grease in 0..20usize,
        cut in any::<u8>(),
    ) {
        let bytes: usize = parts.iter().sum();
        let head = if announced { post(&bytes.to_string()) } else { headers(&POST) };
        let content = parts.iter().map(|bytes| data(&vec![b'x'; *bytes]));
        let trailers = sum.then(|| headers(&[("sum", "7")]));
        let mut frames: Vec<_> = [head].into_iter().chain(content).chain(trailers).collect();
        frames.insert(grease.min(frames.len()), frame(UNKNOWN, &[0; 99]));
        let stream = [&[how(cut, true, false)][..], &frames.concat()].concat();
        let seen = oracle::h3::check(&stream);
        prop_assert!(!seen.iter().any(|seen| seen.contains("Error")), "{seen:?}");
        let content = seen.iter().find_map(|seen| seen.strip_prefix("content "));
        prop_assert_eq!(content.map_or(0, str::len), bytes);
    }

    #[test]
    fn requests(
        head in any_head(),
        frames in vec(any_frame(), 0..12),
        changes in vec((any::<Index>(), any::<u8>()), 0..2),
        cut in any::<u8>(),
        fin in any::<bool>(),
    ) {
        let mut bytes = [head, frames.concat()].concat();
        spoil(&mut bytes, &changes);
        oracle::h3::check(&[&[how(cut, fin, false)][..], &bytes].concat());
    }

    #[test]
    fn control_streams(
        frames in vec(any_control(), 0..30),
        changes in vec((any::<Index>(), any::<u8>()), 0..2),
        cut in any::<u8>(),
        fin in any::<bool>(),
    ) {
        let mut bytes = [b"\0".to_vec(), settings(&[(6, 9)]), frames.concat()].concat();
        spoil(&mut bytes, &changes);
        oracle::h3::check(&[&[how(cut, fin, true)][..], &bytes].concat());
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        oracle::h3::check(&bytes);
    }
}

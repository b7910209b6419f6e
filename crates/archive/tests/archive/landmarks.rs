//! The positions of bodies: a change moves the later ones only up to the next landmark.

use std::io::Cursor;

use pinion_archive::limits::{LANDMARK_ALIGN_BYTES, LANDMARK_EVERY_BYTES};
use pinion_archive::{Digest, Writer};

/// Bodies that are nowhere, of up to 128 KiB, enough for some landmarks.
fn bodies() -> Vec<(Digest, u64)> {
    let body = |number: u32| {
        let digest = Digest::of(&number.to_le_bytes());
        let drawn = u32::from_le_bytes(*digest.0.last_chunk().unwrap());
        (digest, 1 + u64::from(drawn % (128 * 1024)))
    };
    (0..4000).map(body).collect()
}

/// Returns the offsets that an archive gives them.
fn offsets(bodies: &[(Digest, u64)]) -> Vec<u64> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let offset = |(digest, bytes): &(Digest, u64)| {
        writer.reserve(digest, *bytes).unwrap().1.map(|room| room.offset)
    };
    bodies.iter().map(offset).map(Option::unwrap).collect()
}

#[test]
fn bodies_after_a_landmark_move_by_whole_blocks() {
    let before = bodies();
    let unchanged = offsets(&before);
    let total: u64 = before.iter().map(|(_, bytes)| bytes).sum();
    let expected = (total / LANDMARK_EVERY_BYTES) as usize;
    for changed in [0, 1, 1000, 2500] {
        for bytes in [1, 5000, 300_000] {
            let mut after = before.clone();
            after[changed] = (Digest::of(b"another"), bytes);
            let moved = offsets(&after);
            assert_eq!(unchanged[..changed], moved[..changed]);
            let by = |at: usize| moved[at].abs_diff(unchanged[at]) % LANDMARK_ALIGN_BYTES;
            let behind = changed + 1..before.len();
            let in_place = behind.clone().rev().take_while(|&at| by(at) == 0).count();
            // All bodies but those within the distance of a few landmarks are in place.
            let distance = before.len() / expected;
            assert!(in_place + 4 * distance >= behind.len(), "{in_place} of {}", behind.len());
        }
    }
}

#[test]
fn landmarks_cost_little_space() {
    let bodies = bodies();
    let end = offsets(&bodies).last().unwrap() + bodies.last().unwrap().1;
    let total: u64 = bodies.iter().map(|(_, bytes)| bytes).sum();
    // Bodies of 64 KiB and more begin on a page: half of them, with 2 KiB of padding each.
    let pages = bodies.len() as u64 / 2 * 2048;
    assert!(end - total <= total / 200 + pages, "{} of {total}", end - total);
}

//! Accidental damage: every flipped bit, every length, every misplaced block. A lookup in a damaged
//! archive returns the correct result, or an error that names the damage.

use pinion_archive::layout::{FileHeader, SectionRow};
use pinion_archive::{Layout, OpenError, Scratch, SectionKind, verify};
use zerocopy::FromBytes;

use crate::fuzz_edits::correct_checksums;
use crate::sample_archive::{
    LookupResult, PATHS, describe_site_in, site, site_with_code_and_field_rules,
};

/// Asserts that each result is as before, or an error.
fn assert_same_or_damage(expected: &[LookupResult], actual: &[LookupResult], damage: &str) {
    for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        assert!(actual.is_err() || actual == expected, "{damage}, lookup {index}: {actual:?}");
    }
}

#[test]
fn every_flipped_bit_is_harmless_or_named() {
    let whole = site();
    let expected = describe_site_in(&Layout::open(&whole).expect("sound"), &whole);
    assert!(expected.iter().all(Result::is_ok));
    let mut bytes = whole.clone();
    let (mut refused, mut damaged) = (0, 0);
    for position in 0..bytes.len() {
        for bit in 0..8 {
            bytes[position] ^= 1 << bit;
            match Layout::open(&bytes) {
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
                Ok(layout) => {
                    let now = describe_site_in(&layout, &bytes);
                    assert_same_or_damage(&expected, &now, &format!("byte {position} bit {bit}"));
                    damaged += usize::from(now.iter().any(Result::is_err));
                }
            }
            bytes[position] ^= 1 << bit;
        }
    }
    assert_eq!(bytes, whole);
    assert!(refused > 4096 * 8, "at least the header page refuses the file: {refused}");
    assert!(damaged > 1000 * 8, "flips in the index and in records make lookups fail: {damaged}");
}

#[test]
fn verify_finds_every_changed_byte() {
    for mut bytes in [site(), site_with_code_and_field_rules()] {
        assert!(verify(&bytes, &mut |_, _| {}).expect("opens").is_sound());
        for position in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                bytes[position] ^= flip;
                let sound = verify(&bytes, &mut |_, _| {}).is_ok_and(|report| report.is_sound());
                assert!(!sound, "byte {position} ^ {flip:#x} went unseen");
                bytes[position] ^= flip;
            }
        }
    }
}

#[test]
fn a_file_cut_at_any_length_is_refused() {
    let whole = site();
    for length in 0..whole.len() {
        let error = Layout::open(&whole[..length]).expect_err("cut");
        match length {
            0 => assert_eq!(error, OpenError::NotAnArchive),
            1..4096 => assert_eq!(error, OpenError::NoHeaderPage { bytes: length as u64 }),
            _ => {
                let (expected, actual) = (whole.len() as u64, length as u64);
                assert_eq!(error, OpenError::Truncated { expected, actual });
            }
        }
    }
    let mut longer = whole.clone();
    longer.push(0);
    let (expected, actual) = (whole.len() as u64, longer.len() as u64);
    assert_eq!(Layout::open(&longer).expect_err("longer"), OpenError::TooLong { expected, actual });
}

/// A file can be cut or overwritten while it is being served.
#[test]
fn a_file_truncated_or_zeroed_after_open_never_gives_a_wrong_result() {
    let whole = site();
    let layout = Layout::open(&whole).expect("sound");
    let expected = describe_site_in(&layout, &whole);
    let mut zeroed = whole.clone();
    for length in (0..whole.len()).rev() {
        let now = describe_site_in(&layout, &whole[..length]);
        assert_same_or_damage(&expected, &now, &format!("cut at {length}"));
        zeroed[length] = 0;
        let now = describe_site_in(&layout, &zeroed);
        assert_same_or_damage(&expected, &now, &format!("zeroed from {length}"));
    }
}

/// The digest identifies the whole file: a file that has the same digest and passes `verify` is the
/// same, even if an attacker corrected every checksum.
#[test]
fn a_change_shows_in_the_digest_or_in_verify() {
    let whole = site();
    let digest = Layout::open(&whole).expect("sound").digest();
    assert_eq!(digest, Layout::open(&site()).expect("sound").digest());
    assert_eq!(digest.to_string().len(), 64);
    let (mut digest_changed, mut unsound) = (0, 0);
    for position in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[position] ^= 1 << bit;
            correct_checksums(&mut bytes);
            if bytes == whole {
                // The flip was in a checksum, which `correct_checksums` has restored.
                continue;
            }
            let Ok(report) = verify(&bytes, &mut |_, _| {}) else { continue };
            digest_changed += usize::from(report.digest != digest);
            unsound += usize::from(!report.is_sound());
            assert!(report.digest != digest || !report.is_sound(), "byte {position} bit {bit}");
        }
    }
    assert!(digest_changed > 1000 * 8, "flips in most bytes of sections: {digest_changed}");
    assert!(unsound > 100 * 8, "flips in gaps between sections and in keys of records: {unsound}");
}

/// A signature is computed over the digest, so adding one must not change the digest.
#[test]
fn a_section_of_signatures_leaves_the_digest_as_it_is() {
    let mut bytes = site();
    let digest = Layout::open(&bytes).expect("sound").digest();
    let signature = [0x5a; 96];
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    let offset = bytes.len();
    bytes.extend_from_slice(&signature);
    let with_section = |kind: SectionKind| {
        let mut bytes = bytes.clone();
        let (header, table) = FileHeader::mut_from_prefix(&mut bytes).expect("a header");
        let number = header.sections.get() as usize;
        header.sections += 1;
        header.total_bytes = (offset as u64 + 96).into();
        let (rows, _) =
            <[SectionRow]>::mut_from_prefix_with_elems(table, number + 1).expect("room");
        let row = rows.last_mut().expect("one more");
        (row.kind, row.version) = (kind.0.into(), 1.into());
        (row.offset, row.bytes) = ((offset as u64).into(), 96.into());
        correct_checksums(&mut bytes);
        bytes
    };
    let signed = with_section(SectionKind::SIGNATURES);
    let report = verify(&signed, &mut |_, _| {}).expect("sections of unknown kinds are skipped");
    assert!(report.is_sound());
    assert_eq!(report.digest, digest);
    let other = verify(&with_section(SectionKind(99)), &mut |_, _| {})
        .expect("sections of unknown kinds are skipped");
    assert!(other.is_sound());
    assert_ne!(other.digest, digest);
}

/// A disk or a copy can write a block to the wrong position; both blocks are correct in themselves.
#[test]
fn misplaced_blocks_are_detected() {
    let whole = site();
    let layout = Layout::open(&whole).expect("sound");
    let expected = describe_site_in(&layout, &whole);
    for block in [8, 64, 512] {
        let blocks = whole.len() / block;
        for from in 0..blocks {
            for to in (4096 / block..blocks).filter(|&to| to != from) {
                let mut bytes = whole.clone();
                bytes.copy_within(from * block..(from + 1) * block, to * block);
                if let Ok(layout) = Layout::open(&bytes) {
                    let now = describe_site_in(&layout, &bytes);
                    assert_same_or_damage(&expected, &now, &format!("{block} × {from} over {to}"));
                }
            }
        }
    }
}

/// One damaged record affects one resource; the others stay available.
#[test]
fn damage_to_a_record_affects_that_resource_alone() {
    let mut bytes = site();
    let layout = Layout::open(&bytes).expect("sound");
    let expected = describe_site_in(&layout, &bytes);
    let records = layout.sections().iter().find(|section| section.kind == SectionKind::RECORDS);
    let records = records.expect("required").offset as usize;
    bytes[records + 40] ^= 1;
    let now = describe_site_in(&layout, &bytes);
    assert!(now[0].is_err(), "the first record is that of the first key");
    assert_eq!(expected[1..], now[1..]);
    let report = verify(&bytes, &mut |_, _| {}).expect("opens");
    assert!(report.damages.iter().any(|damage| damage.offset == records as u64));
}

/// A failed search leaves no data that could be mistaken for its result.
#[test]
fn the_scratch_buffer_is_empty_after_a_failed_lookup() {
    let bytes = site();
    let layout = Layout::open(&bytes).expect("sound");
    let archive = layout.view(&bytes);
    let mut scratch = Scratch::new();
    assert_eq!(archive.load(PATHS[0], &mut scratch), Ok(true));
    assert!(scratch.entry().is_some());
    assert_eq!(archive.load(b"/nothing", &mut scratch), Ok(false));
    assert!(scratch.entry().is_none());
}

//! Files made to mislead, with correct checksums: each gives an error that names the fault, never a
//! panic, and never more work than the limits allow.

use pinion_archive::layout::{DigestRow, MODIFIED_NONE, RecordHeader, RepresentationRow};
use pinion_archive::{
    ArchivePart, Damage, EntryKind, Fault, Layout, OpenError, Scratch, SectionFault, SectionKind,
    verify,
};
use proptest::prelude::*;
use zerocopy::FromBytes;

use crate::checksum_forger::ForgedArchive;
use crate::sample_archive::{describe_site_in, look_up, site, site_with_code_and_field_rules};

fn open_error(forged: &ForgedArchive) -> OpenError {
    Layout::open(&forged.bytes).expect_err("must be refused")
}

fn section(kind: SectionKind, fault: SectionFault) -> OpenError {
    OpenError::Section { kind, fault }
}

/// Returns the fault of the lookup of a key.
fn fault_of(forged: &ForgedArchive, key: &[u8]) -> (ArchivePart, Fault) {
    let layout = forged.layout();
    let damage = look_up(&layout.view(&forged.bytes), key).expect_err("must be damaged");
    let report = verify(&forged.bytes, &mut |_, _| {}).expect("opens");
    assert!(!report.is_sound(), "verify must see it too");
    (damage.part, damage.fault)
}

#[test]
fn a_forged_archive_without_a_change_is_sound() {
    let forged = ForgedArchive::new()
        .change_header(|_| {})
        .change_index_header(|_| {})
        .change_buckets(|_| {});
    let forged = forged.change_record(b"/", |_, _| {}).change_section(SectionKind::SHARED, |_| {});
    assert_eq!(forged.bytes, site());
}

#[test]
fn an_invalid_header_page_is_refused() {
    let forged = ForgedArchive::new().change_header(|header| header.version = 1.into());
    assert_eq!(open_error(&forged), OpenError::Version { found: 1 });
    let forged = ForgedArchive::new().change_header(|header| header.reserved[95] = 1);
    assert_eq!(open_error(&forged), OpenError::HeaderReserved);
    for found in [63, u32::MAX] {
        let forged = ForgedArchive::new().change_header(|header| header.sections = found.into());
        assert_eq!(open_error(&forged), OpenError::SectionCount { found });
    }
    // A used row may not be left out of the count: the bytes after the table are zero.
    let forged = ForgedArchive::new().change_header(|header| header.sections = 3.into());
    assert_eq!(open_error(&forged), OpenError::HeaderReserved);
}

#[test]
fn sections_out_of_bounds_or_overlapping_are_refused() {
    let kind = SectionKind::RECORDS;
    for (offset, bytes, fault) in [
        (u64::MAX - 63, 64, SectionFault::Outside),
        (64, u64::MAX, SectionFault::Outside),
        (1 << 40, 64, SectionFault::Outside),
        (1 << 63, 1 << 63, SectionFault::Outside),
        (0, 64, SectionFault::Outside),
        (4096, 64, SectionFault::Overlap),
    ] {
        let forged = ForgedArchive::new().change_section_row(kind, |row| {
            row.offset = offset.into();
            row.bytes = bytes.into();
        });
        assert_eq!(open_error(&forged), section(kind, fault), "{offset} {bytes}");
    }
    let forged = ForgedArchive::new().change_section_row(kind, |row| row.offset += 8);
    assert_eq!(open_error(&forged), section(kind, SectionFault::Alignment));
    // The section before overlaps the next one, which then begins too early.
    let forged = ForgedArchive::new().change_section_row(SectionKind::INDEX, |row| row.bytes += 64);
    let error = open_error(&forged);
    assert!(matches!(error, OpenError::Section { fault: SectionFault::Overlap, .. }), "{error}");
}

#[test]
fn unknown_kinds_versions_and_flags_of_sections_are_checked() {
    let renamed = |kind: u32| {
        ForgedArchive::new().change_section_row(SectionKind::META, |row| row.kind = kind.into())
    };
    assert!(Layout::open(&renamed(999).bytes).is_ok(), "unknown and optional: skipped");
    let twice = section(SectionKind::INDEX, SectionFault::Twice);
    assert_eq!(open_error(&renamed(2)), twice);
    let required = ForgedArchive::new().change_section_row(SectionKind::META, |row| {
        row.kind = 999.into();
        row.flags = 1.into();
    });
    assert_eq!(open_error(&required), section(SectionKind(999), SectionFault::Unknown));

    let newer = |kind| ForgedArchive::new().change_section_row(kind, |row| row.version = 2.into());
    let meta = newer(SectionKind::META);
    assert_eq!(meta.layout().view(&meta.bytes).meta().expect("skipped").count(), 0);
    for kind in
        [SectionKind::BODIES, SectionKind::INDEX, SectionKind::EXTERNALS, SectionKind::RULES]
    {
        assert_eq!(open_error(&newer(kind)), section(kind, SectionFault::Version(2)));
    }
    let flagged =
        ForgedArchive::new().change_section_row(SectionKind::META, |row| row.flags = 2.into());
    assert_eq!(open_error(&flagged), section(SectionKind::META, SectionFault::Flags));
    let flagged =
        ForgedArchive::new().change_section_row(SectionKind::META, |row| row.reserved[7] = 1);
    assert_eq!(open_error(&flagged), section(SectionKind::META, SectionFault::Flags));
    for kind in [
        SectionKind::BODIES,
        SectionKind::INDEX,
        SectionKind::RECORDS,
        SectionKind::SHARED,
        SectionKind::DIGESTS,
    ] {
        let gone = ForgedArchive::new().change_section_row(kind, |row| {
            row.kind = 999.into();
            row.flags = 0.into();
        });
        assert_eq!(open_error(&gone), section(kind, SectionFault::Missing));
    }
}

/// A second section of a known kind, of any version, would contain unread bytes that could differ
/// between two files with one digest.
#[test]
fn a_second_section_of_a_known_kind_is_refused() {
    for kind in [
        SectionKind::BODIES,
        SectionKind::INDEX,
        SectionKind::RECORDS,
        SectionKind::SHARED,
        SectionKind::META,
        SectionKind::EXTERNALS,
        SectionKind::DIGESTS,
        SectionKind::RULES,
        SectionKind::CODE,
        SectionKind::PREVIOUS,
        SectionKind::ORIGINS,
    ] {
        for version in [0, 1, 2, u16::MAX] {
            let mut forged = ForgedArchive::new();
            if forged.layout().sections().iter().all(|section| section.kind != kind) {
                forged = forged.append_section(kind, 1, b"");
            }
            let forged = forged.append_section(kind, version, b"one thing");
            assert_eq!(open_error(&forged), section(kind, SectionFault::Twice), "{version}");
        }
    }
    let newer =
        ForgedArchive::new().change_section_row(SectionKind::META, |row| row.version = 2.into());
    let twice = section(SectionKind::META, SectionFault::Twice);
    for version in [1, 2] {
        assert_eq!(
            open_error(&newer.clone().append_section(SectionKind::META, version, b"")),
            twice
        );
    }
}

/// Sections that this program skips are hashed too: every byte of the file counts.
#[test]
fn skipped_sections_are_verified() {
    let skipped = [
        (
            ForgedArchive::new()
                .change_section_row(SectionKind::META, |row| row.version = 2.into()),
            SectionKind::META,
        ),
        (ForgedArchive::new().append_section(SectionKind(999), 1, b"one thing"), SectionKind(999)),
        (ForgedArchive::new().append_section(SectionKind(999), 2, &[7; 3 << 20]), SectionKind(999)),
    ];
    for (forged, kind) in skipped {
        let forged = forged.change_section(kind, |_| {});
        let mut steps = Vec::new();
        let report = verify(&forged.bytes, &mut |done, all| steps.push((done, all)));
        assert_eq!(report.expect("opens").damages, []);
        let all = forged.bytes.len() as u64;
        assert!(steps.is_sorted() && steps.iter().all(|step| step.0 <= all && step.1 == all));
        assert_eq!(steps.last(), Some(&(all, all)));

        let other = forged.change_section_row(kind, |row| row.digest[31] ^= 1);
        let report = verify(&other.bytes, &mut |_, _| {}).expect("opens");
        let found: Vec<_> = report.damages.iter().map(|found| (found.part, found.fault)).collect();
        assert_eq!(found, [(ArchivePart::Section(kind), Fault::Checksum)]);
    }
}

/// The contents of the section are checked besides its digest, by every reader and by `verify`.
#[test]
fn malformed_code_sections_are_refused_by_readers_and_verify() {
    type Change = fn(&mut [u8]);
    let cases: [(Fault, Change); 5] = [
        (Fault::Length, |code| code[0] = 0xff),
        (Fault::Length, |code| code[7] = 0xff),
        (Fault::Reserved, |code| code[3] = 1),
        (Fault::Syntax, |code| code[8] = b'a'),
        (Fault::Syntax, |code| code[39] = b'.'),
    ];
    for (fault, change) in cases {
        let forged = ForgedArchive { bytes: site_with_code_and_field_rules() }
            .change_section(SectionKind::CODE, change);
        let part = ArchivePart::Section(SectionKind::CODE);
        let layout = forged.layout();
        let damage = layout.view(&forged.bytes).code().expect_err("must be damaged");
        assert_eq!((damage.part, damage.fault), (part, fault));
        let report = verify(&forged.bytes, &mut |_, _| {}).expect("opens");
        assert_eq!(report.damages, [damage]);
    }
    let other = ForgedArchive { bytes: site_with_code_and_field_rules() }
        .change_section_row(SectionKind::CODE, |row| row.digest[0] ^= 1);
    let damage = other.layout().view(&other.bytes).code().expect_err("must be damaged");
    assert_eq!(damage.fault, Fault::Checksum);
    let newer = ForgedArchive { bytes: site_with_code_and_field_rules() }
        .change_section_row(SectionKind::CODE, |row| row.version += 1);
    assert_eq!(open_error(&newer), section(SectionKind::CODE, SectionFault::Version(2)));
    let long = ForgedArchive::new().append_section(SectionKind::CODE, 1, &vec![0; (64 << 20) + 1]);
    assert_eq!(open_error(&long), section(SectionKind::CODE, SectionFault::Length));
}

#[test]
fn sections_of_wrong_length_are_refused() {
    for (kind, change) in [(SectionKind::EXTERNALS, 8), (SectionKind::INDEX, 64)] {
        let forged = ForgedArchive::new().change_section_row(kind, |row| row.bytes -= change);
        assert_eq!(open_error(&forged), section(kind, SectionFault::Length));
    }
    let forged =
        ForgedArchive::new().change_section_row(SectionKind::INDEX, |row| row.bytes = 63.into());
    assert_eq!(open_error(&forged), section(SectionKind::INDEX, SectionFault::Length));
    let length = section(SectionKind::INDEX, SectionFault::Length);
    for buckets in [0, 1 << 58, u64::MAX, u64::MAX / 64] {
        let forged =
            ForgedArchive::new().change_index_header(|header| header.buckets = buckets.into());
        assert_eq!(open_error(&forged), length, "{buckets} buckets");
    }
    let forged =
        ForgedArchive::new().change_section_row(SectionKind::DIGESTS, |row| row.bytes -= 1);
    let error = open_error(&forged);
    assert!(matches!(error, OpenError::EndOfLast { .. }), "{error}");
    let mut forged = forged;
    forged.bytes.pop();
    let forged = forged.change_header(|header| header.total_bytes -= 1);
    assert_eq!(open_error(&forged), section(SectionKind::DIGESTS, SectionFault::Length));
}

#[test]
fn malformed_shared_blocks_are_refused() {
    let forged =
        ForgedArchive::new().change_section_row(SectionKind::SHARED, |row| row.digest[0] ^= 1);
    assert_eq!(open_error(&forged), section(SectionKind::SHARED, SectionFault::Digest));
    type Change = fn(&mut [u8]);
    let cases: [(Fault, Change); 9] = [
        (Fault::Outside, |block| block[..4].copy_from_slice(&u32::MAX.to_le_bytes())),
        (Fault::Length, |block| block[..4].copy_from_slice(&0u32.to_le_bytes())),
        (Fault::Length, |block| block[12..16].copy_from_slice(&u32::MAX.to_le_bytes())),
        (Fault::Length, |block| block[32..36].copy_from_slice(&9u32.to_le_bytes())),
        (Fault::SharedNumber, |block| block[36] = 1),
        (Fault::Syntax, |block| block[8] += 1),
        // "Content-Type: text/html…" with a line break in it, and with the name of another field.
        (Fault::Syntax, |block| block[40 + 20] = b'\n'),
        (Fault::Syntax, |block| block[40] = b' '),
        (Fault::Syntax, |block| block[40..59].copy_from_slice(b"Transfer-Encoding: ")),
    ];
    for (rank, (fault, change)) in cases.into_iter().enumerate() {
        let forged = ForgedArchive::new().change_section(SectionKind::SHARED, change);
        let error = open_error(&forged);
        let OpenError::Damage(Damage { part: ArchivePart::Shared, fault: found, .. }) = error
        else {
            panic!("case {rank}: {error}");
        };
        assert_eq!(found, fault, "case {rank}");
    }
}

#[test]
fn records_of_wrong_length_are_damage() {
    for bytes in [0, 24, 31, 1 << 20, u32::MAX] {
        let forged = ForgedArchive::new()
            .change_record(b"/style.css", |header, _| header.bytes = bytes.into());
        let (part, fault) = fault_of(&forged, b"/style.css");
        assert_eq!(part, ArchivePart::Record);
        assert!(matches!(fault, Fault::Length | Fault::Outside), "{bytes}: {fault}");
    }
    let long = |change: fn(&mut RecordHeader)| {
        let forged = ForgedArchive::new().change_record(b"/style.css", |header, _| change(header));
        assert_eq!(fault_of(&forged, b"/style.css"), (ArchivePart::Record, Fault::Length));
    };
    long(|header| header.path_bytes = u16::MAX.into());
    long(|header| header.target_bytes = u16::MAX.into());
    long(|header| header.representations = u16::MAX.into());
    long(|header| header.representations = 0.into());
    long(|header| header.bytes += 8);
}

#[test]
fn records_with_invalid_values_are_damage() {
    type Change = fn(&mut RecordHeader, &mut [u8]);
    let cases: [(&[u8], Fault, Change); 9] = [
        (b"/", Fault::Reserved, |header, _| header.flags = 8),
        (b"/", Fault::Reserved, |header, _| header.reserved = 1.into()),
        (b"/", Fault::Status, |header, _| header.status = 0.into()),
        (b"/", Fault::Status, |header, _| header.status = 1000.into()),
        (b"/", Fault::Status, |header, _| header.status = 302.into()),
        (b"/old", Fault::Status, |header, _| header.status = 200.into()),
        (b"/old", Fault::Target, |_, rest| rest[6] = b'\r'),
        (b"/", Fault::Target, |_, rest| rest[2] = b' '),
        (b"/app/x", Fault::Target, |header, rest| {
            header.target_bytes = 0.into();
            header.bytes = (32 + 8).into();
            rest[6..].fill(0);
        }),
    ];
    for (rank, (key, fault, change)) in cases.into_iter().enumerate() {
        let forged = ForgedArchive::new().change_record(key, change);
        assert_eq!(fault_of(&forged, key), (ArchivePart::Record, fault), "case {rank}");
    }
}

/// Changes the first representation of `/style.css`, whose path takes 16 bytes.
fn representation(change: impl FnOnce(&mut RepresentationRow)) -> ForgedArchive {
    ForgedArchive::new().change_record(b"/style.css", |_, rest| {
        change(RepresentationRow::mut_from_bytes(&mut rest[16..64]).expect("48 bytes"));
    })
}

#[test]
fn representations_with_invalid_values_are_damage() {
    let fault = |forged: &ForgedArchive| fault_of(forged, b"/style.css");
    for (offset, bytes) in [
        (0, 1),
        (4095, 1),
        (1 << 40, 1),
        (4096, 1 << 40),
        (4096, u64::MAX),
        (u64::MAX, 1),
        (u64::MAX, u64::MAX),
    ] {
        let forged = representation(|row| {
            row.offset = offset.into();
            row.bytes = bytes.into();
        });
        assert_eq!(fault(&forged), (ArchivePart::Body, Fault::Outside), "{offset} {bytes}");
    }
    let tag = representation(|row| row.etag[3] = b'\n');
    assert_eq!(fault(&tag), (ArchivePart::Record, Fault::Tag));
    let tag = representation(|row| row.etag[21] = b'"');
    assert_eq!(fault(&tag), (ArchivePart::Record, Fault::Tag));
    let coding = representation(|row| row.coding = 1);
    assert_eq!(fault(&coding), (ArchivePart::Record, Fault::Representations));
    for id in [4, u32::MAX] {
        let shared = representation(|row| row.shared = id.into());
        assert_eq!(fault(&shared), (ArchivePart::Shared, Fault::SharedNumber));
    }
    let storage = representation(|row| row.storage = 2);
    assert_eq!(fault(&storage), (ArchivePart::Record, Fault::Reserved));
    let external = representation(|row| row.external = 1.into());
    assert_eq!(fault(&external), (ArchivePart::Record, Fault::Reserved));
    for number in [1, u32::MAX] {
        let external = representation(|row| {
            row.storage = 1;
            row.external = number.into();
        });
        assert_eq!(fault(&external), (ArchivePart::External, Fault::ExternalNumber));
    }
    for (offset, bytes) in [(0, 5_000_000_001), (u64::MAX, 1), (1, u64::MAX)] {
        let external = representation(|row| {
            row.storage = 1;
            row.offset = offset.into();
            row.bytes = bytes.into();
        });
        assert_eq!(fault(&external), (ArchivePart::External, Fault::Outside));
    }
}

#[test]
fn unknown_entry_kinds_and_codings_are_skipped() {
    let forged = ForgedArchive::new().change_record(b"/hook", |header, _| header.kind = 200);
    let layout = forged.layout();
    let described =
        look_up(&layout.view(&forged.bytes), b"/hook").expect("not damaged").expect("there");
    assert_eq!(described.kind, EntryKind::Unknown(200));

    // "/" and its target are padded to 16 bytes; its second representation is in an unknown coding.
    let forged = ForgedArchive::new().change_record(b"/", |header, rest| {
        rest[16 + 48 + 38] = 9;
        header.modified = MODIFIED_NONE.into();
    });
    let layout = forged.layout();
    let described =
        look_up(&layout.view(&forged.bytes), b"/").expect("not damaged").expect("there");
    assert_eq!(described.representations.len(), 1);
    assert_eq!(described.modified, None);
}

#[test]
fn a_full_index_ends_the_search() {
    let layout = ForgedArchive::new().layout();
    let bytes = site();
    let mut scratch = Scratch::new();
    let archive = layout.view(&bytes);
    let offset = archive.find(b"/", &mut scratch).expect("sound").expect("there").offset();
    for tag in [0, 1, 0xff_ffff] {
        let forged = ForgedArchive::new().change_buckets(|bucket| {
            bucket.slots = [((tag << 40) | (offset / 8)).into(); 7];
        });
        let layout = forged.layout();
        let damage = look_up(&layout.view(&forged.bytes), b"/nothing").expect_err("endless");
        assert_eq!((damage.part, damage.fault), (ArchivePart::Bucket, Fault::Endless));
    }
}

#[test]
fn slots_outside_the_records_are_damage() {
    let records = |layout: &Layout| {
        let section = layout.sections().iter().find(|section| section.kind == SectionKind::RECORDS);
        let section = section.expect("required");
        (section.offset, section.offset + section.bytes)
    };
    let (first, end) = records(&ForgedArchive::new().layout());
    for offset in [8, 4096, first - 8, end - 24, end, (1 << 43) - 8] {
        let forged = ForgedArchive::new().change_buckets(|bucket| {
            for slot in bucket.slots.iter_mut().filter(|slot| slot.get() != 0) {
                slot.set((slot.get() >> 40 << 40) | (offset / 8));
            }
        });
        assert_eq!(fault_of(&forged, b"/"), (ArchivePart::Record, Fault::Outside), "{offset}");
    }
    // The slot leads into the middle of a record, whose checksum is that of another position.
    let forged = ForgedArchive::new().change_buckets(|bucket| {
        for slot in bucket.slots.iter_mut().filter(|slot| slot.get() != 0) {
            slot.set(slot.get() + 1);
        }
    });
    assert_eq!(fault_of(&forged, b"/").0, ArchivePart::Record);
}

/// A slot leads to another entry's record: the path in the record differs, and the result is "no
/// such entry".
#[test]
fn a_slot_of_another_entry_gives_no_response() {
    let bytes = site();
    let layout = Layout::open(&bytes).expect("sound");
    let archive = layout.view(&bytes);
    let mut scratch = Scratch::new();
    let style = archive.find(b"/style.css", &mut scratch).expect("sound").expect("there").offset();
    let forged = ForgedArchive::new().change_buckets(|bucket| {
        for slot in bucket.slots.iter_mut().filter(|slot| slot.get() != 0) {
            slot.set((slot.get() >> 40 << 40) | (style / 8));
        }
    });
    let layout = forged.layout();
    let archive = layout.view(&forged.bytes);
    assert_eq!(look_up(&archive, b"/"), Ok(None));
    assert!(look_up(&archive, b"/style.css").expect("sound").is_some());
    let report = verify(&forged.bytes, &mut |_, _| {}).expect("opens");
    assert!(report.damages.iter().any(|damage| damage.fault == Fault::Count), "{report:?}");
}

/// Slots cost 8 bytes, the record to which they lead thousands: not all of them are followed.
#[test]
fn verify_takes_limited_work_when_slots_share_a_record() {
    let bytes = site();
    let layout = Layout::open(&bytes).expect("sound");
    let mut scratch = Scratch::new();
    let archive = layout.view(&bytes);
    let offset = archive.find(b"/", &mut scratch).expect("sound").expect("there").offset();
    let record = RecordHeader::ref_from_prefix(&bytes[offset as usize..]).expect("a record").0;
    let record_bytes = u64::from(record.bytes.get());
    let forged =
        ForgedArchive::new().change_buckets(|bucket| bucket.slots = [(offset / 8).into(); 7]);
    let report = verify(&forged.bytes, &mut |_, _| {}).expect("opens");
    let records = layout.sections().iter().find(|section| section.kind == SectionKind::RECORDS);
    let most = records.expect("required").bytes / record_bytes + 1;
    assert!(!report.is_sound() && report.entries <= most, "{} of {most}", report.entries);
}

#[test]
fn invalid_digest_rows_are_damage() {
    let rows = |change: &dyn Fn(&mut [DigestRow])| {
        let forged = ForgedArchive::new().change_section(SectionKind::DIGESTS, |digests| {
            change(<[DigestRow]>::mut_from_bytes(digests).expect("rows"));
        });
        let report = verify(&forged.bytes, &mut |_, _| {}).expect("opens");
        report.damages.iter().map(|damage| damage.part).collect::<Vec<_>>()
    };
    assert_eq!(rows(&|_| ()), []);
    for (offset, bytes) in
        [(0, 1), (4095, 1), (4096, u64::MAX), (u64::MAX, 1), (1 << 40, 9), (4096, 0)]
    {
        let parts = rows(&|rows| {
            rows[0].offset = offset.into();
            rows[0].bytes = bytes.into();
        });
        assert_eq!(parts, [ArchivePart::DigestRow, ArchivePart::Gap], "{offset} {bytes}");
    }
    // Repeated rows of one body would be hashed as often.
    assert!(rows(&|rows| rows[1] = rows[0]).contains(&ArchivePart::DigestRow));
    assert!(rows(&|rows| rows.reverse()).contains(&ArchivePart::DigestRow));
    // Bytes that no row covers must be zero.
    assert_eq!(rows(&|rows| rows[0].bytes -= 1), [ArchivePart::Body, ArchivePart::Gap]);
    assert_eq!(rows(&|rows| rows[1].digest = [0; 32]), [ArchivePart::Body]);
}

/// The digest of the bodies is reserved.
#[test]
fn a_digest_of_the_bodies_section_is_refused() {
    let forged =
        ForgedArchive::new().change_section_row(SectionKind::BODIES, |row| row.digest[31] = 1);
    let report = verify(&forged.bytes, &mut |_, _| {}).expect("opens");
    let parts: Vec<_> = report.damages.iter().map(|damage| (damage.part, damage.fault)).collect();
    assert_eq!(parts, [(ArchivePart::Section(SectionKind::BODIES), Fault::Reserved)]);
}

proptest! {
    /// Any bytes in any record with a correct checksum, and any slots, give a result or an error.
    #[test]
    fn no_record_and_no_index_panics(
        change in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..9),
        slots in proptest::collection::vec(any::<u64>(), 0..3),
    ) {
        let mut forged = ForgedArchive::new();
        for key in crate::sample_archive::PATHS {
            forged = forged.change_record(key, |header, rest| {
                for (offset, value) in &change {
                    let header = zerocopy::IntoBytes::as_mut_bytes(header);
                    match offset.index(28 + rest.len()) {
                        offset @ ..28 => header[4 + offset] = *value,
                        offset => rest[offset - 28] = *value,
                    }
                }
            });
            // The record may be unreadable now; the next key must still be found.
            if forged.bytes.is_empty() { break; }
        }
        if !slots.is_empty() {
            forged = forged.change_buckets(|bucket| {
                for (slot, value) in bucket.slots.iter_mut().zip(&slots) {
                    slot.set(*value);
                }
            });
        }
        let layout = forged.layout();
        let _ = describe_site_in(&layout, &forged.bytes);
        let _ = verify(&forged.bytes, &mut |_, _| {});
        let mut entries = layout.view(&forged.bytes).entries();
        while let Ok(Some(_)) = entries.next_entry() {}
    }

    /// Any bytes after a correct magic.
    #[test]
    fn no_bytes_panic_when_opened(tail in proptest::collection::vec(any::<u8>(), 0..9000)) {
        let bytes = [&b"\x89PINION\n"[..], &tail].concat();
        prop_assert!(Layout::open(&bytes).is_err());
    }
}

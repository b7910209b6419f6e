//! Bodies of older archives that need not be read or encoded again.
//!
//! An archive records which of its bodies came from which content, by which encoder (its origins).
//! A body is taken from it when its bytes have the digest that the archive says, and, unless the
//! archive is known to be our own work, when they decode to the content. A fault in an older
//! archive only makes the new one cost more: a body that cannot be reused is made.
//!
//! Our own work that has not changed since is believed, as an unchanged file of the folder is: its
//! bodies are not even read, but carried over.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;
use pinion_archive::layout::{DigestRow, ORIGIN_NOT_KEPT, OriginRow};
use pinion_archive::{Digest, DigestIndex, OpenError, Section, SectionKind, SectionTable};
use rustix::buffer::spare_capacity;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::coding_options::CodingLevel;
use crate::encode::{EncodedContent, largest_kept};
use crate::kernel_body_copy::CarriedBody;
use crate::limits::{PIECE_BYTES, RUN_BYTES, RUN_GAP_BYTES};
use crate::verify_coding::decodes_to;
use crate::walk::source_stamp::SourceStamp;

/// Older archives, the best first.
#[derive(Default)]
pub(crate) struct ReusableArchives {
    archives: Vec<OldArchive>,
}

/// One older archive.
struct OldArchive {
    file: Arc<File>,
    /// Its bodies, by rising offset.
    bodies: Vec<DigestRow>,
    known: DigestIndex,
    /// The origins, by rising content.
    origins: Vec<OriginRow>,
    /// Whether it is the work of an earlier build in the same place: its statements about its
    /// bodies need no proof.
    own: bool,
    /// Its stamp when it was opened.
    stamp: SourceStamp,
    /// Whether that is the stamp that the earlier build left: the file has not been written to
    /// since.
    untouched: bool,
}

/// The notes of an earlier build about its archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnArchive {
    pub(crate) digest: Digest,
    /// The stamp of the file when it had its name.
    pub(crate) stamp: SourceStamp,
}

/// A body of an older archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BodySpot {
    archive: u32,
    body: u32,
}

/// The knowledge of older archives about a content in a coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownForm {
    /// It was never tried.
    Unknown,
    /// It did not pay.
    NotKept,
    Stored(BodySpot),
}

/// Bodies that were read and checked, for some files.
#[derive(Default)]
pub(crate) struct BodyStock(Vec<(BodySpot, Bytes)>);

/// A body that is too large to be held, in an older archive.
pub(crate) struct DistantBody {
    file: Arc<File>,
    offset: u64,
    left: u64,
}

/// The reason why an archive cannot be reused.
#[derive(Debug)]
pub(crate) enum NotReusable {
    Unreadable(io::Error),
    NotAnArchive(OpenError),
    /// Its tables are not valid.
    Damaged,
}

impl ReusableArchives {
    /// Adds an archive. `own` is the one that an earlier build noted to be its work.
    pub(crate) fn add(&mut self, file: File, own: Option<OwnArchive>) -> Result<(), NotReusable> {
        self.archives.push(OldArchive::open(file, own)?);
        Ok(())
    }

    /// Returns the body that holds this content as it is.
    pub(crate) fn content(&self, digest: &Digest) -> Option<BodySpot> {
        (0..)
            .zip(&self.archives)
            .find_map(|(archive, old)| old.find(digest).map(|body| BodySpot { archive, body }))
    }

    /// Returns the result of this content in a coding.
    pub(crate) fn form(&self, content: &Digest, choice: CodingLevel) -> KnownForm {
        let forms = (0..).zip(&self.archives).map(|(archive, old)| match old.find(content) {
            Some(body) => old.form(BodySpot { archive, body }, choice),
            None => KnownForm::Unknown,
        });
        forms.into_iter().find(|form| *form != KnownForm::Unknown).unwrap_or(KnownForm::Unknown)
    }

    /// Returns how many bodies the first archive has.
    pub(crate) fn bodies(&self) -> usize {
        self.archives.first().map_or(0, |old| old.bodies.len())
    }

    /// Returns the first archive and its stamp, if its bodies can be carried over.
    pub(crate) fn carries(&self) -> Option<(Arc<File>, SourceStamp)> {
        let first = self.archives.first().filter(|old| old.untouched)?;
        Some((Arc::clone(&first.file), first.stamp))
    }

    /// Returns the body at `spot`, if it can be carried over.
    pub(crate) fn carried(&self, spot: BodySpot) -> Option<CarriedBody> {
        let (old, row) = self.row(spot).filter(|(old, _)| spot.archive == 0 && old.untouched)?;
        debug_assert!(old.own);
        Some(CarriedBody {
            digest: Digest(row.digest),
            offset: row.offset.get(),
            bytes: row.bytes.get(),
            number: spot.body,
        })
    }

    /// Returns the result of the content at `spot` in a coding, as far as the same archive knows.
    pub(crate) fn form_in_same_archive(&self, spot: BodySpot, choice: CodingLevel) -> KnownForm {
        self.archive(spot).map_or(KnownForm::Unknown, |old| old.form(spot, choice))
    }

    /// Returns the digest that a body should have.
    pub(crate) fn digest(&self, spot: BodySpot) -> Option<Digest> {
        self.row(spot).map(|(_, row)| Digest(row.digest))
    }

    /// Reads bodies, neighbours at once, and checks each. A body that cannot be read or is damaged
    /// is missing afterwards.
    pub(crate) fn stock(&self, mut wanted: Vec<BodySpot>) -> BodyStock {
        wanted.sort_unstable();
        wanted.dedup();
        let mut stock = BodyStock(Vec::with_capacity(wanted.len()));
        let mut rest = wanted.as_slice();
        while let Some((run, spots)) = self.run(rest) {
            if let Some(old) = spots.first().and_then(|spot| self.archive(*spot)) {
                self.read_run(old, run, spots, &mut stock);
            }
            rest = rest.get(spots.len()..).unwrap_or_default();
        }
        stock
    }

    /// Returns the stored form at `spot` of a content, proven.
    pub(crate) fn proven(
        &self,
        stock: &BodyStock,
        spot: BodySpot,
        choice: CodingLevel,
        content: &[u8],
    ) -> Option<EncodedContent> {
        let digest = self.digest(spot)?;
        let stored = match stock.get(spot) {
            Some(stored) => stored,
            None => self.stock(vec![spot]).get(spot)?,
        };
        let own = self.archive(spot)?.own;
        (own || decodes_to(choice.coding(), &stored, content))
            .then_some(EncodedContent { digest, stored })
    }

    /// Returns a body to be copied piece by piece.
    pub(crate) fn distant(&self, spot: BodySpot) -> Option<DistantBody> {
        let (old, row) = self.row(spot)?;
        Some(DistantBody {
            file: Arc::clone(&old.file),
            offset: row.offset.get(),
            left: row.bytes.get(),
        })
    }

    fn archive(&self, spot: BodySpot) -> Option<&OldArchive> {
        self.archives.get(usize::try_from(spot.archive).ok()?)
    }

    fn row(&self, spot: BodySpot) -> Option<(&OldArchive, &DigestRow)> {
        let old = self.archive(spot)?;
        Some((old, old.body(spot.body)?))
    }

    /// Returns the first of `spots`, and those after it that are read together with it.
    fn run<'s>(&self, spots: &'s [BodySpot]) -> Option<(Range<u64>, &'s [BodySpot])> {
        let first = *spots.first()?;
        let place = |spot: BodySpot| self.row(spot).map_or(0..0, |(_, row)| range(row));
        let mut run = place(first);
        let mut count = 1;
        for &next in spots.get(1..).unwrap_or_default() {
            let next_place = place(next);
            let apart = next.archive != first.archive
                || next_place.start.saturating_sub(run.end) > RUN_GAP_BYTES
                || next_place.end.saturating_sub(run.start) > RUN_BYTES;
            if apart {
                break;
            }
            run.end = next_place.end.max(run.end);
            count += 1;
        }
        Some((run, spots.get(..count)?))
    }

    fn read_run(
        &self,
        old: &OldArchive,
        run: Range<u64>,
        spots: &[BodySpot],
        stock: &mut BodyStock,
    ) {
        let Some(bytes) = read_range(&old.file, run.clone()) else { return };
        for &spot in spots {
            let Some(row) = old.body(spot.body) else { continue };
            let place = range(row);
            let start = place.start.checked_sub(run.start).and_then(|at| usize::try_from(at).ok());
            let length = usize::try_from(row.bytes.get()).ok();
            let (Some(start), Some(length)) = (start, length) else { continue };
            if start.checked_add(length).is_none_or(|end| end > bytes.len()) {
                continue;
            }
            let body = bytes.slice(start..start + length);
            if Digest::of(&body).0 == row.digest {
                stock.0.push((spot, body));
            }
        }
    }
}

impl BodyStock {
    /// Returns a body, if it was asked for and is sound.
    pub(crate) fn get(&self, spot: BodySpot) -> Option<Bytes> {
        let place = self.0.binary_search_by_key(&spot, |(spot, _)| *spot).ok()?;
        self.0.get(place).map(|(_, bytes)| bytes.clone())
    }
}

impl OldArchive {
    fn open(file: File, own: Option<OwnArchive>) -> Result<OldArchive, NotReusable> {
        let stamp = SourceStamp::of(&file.metadata().map_err(NotReusable::Unreadable)?);
        let file_bytes = stamp.bytes;
        let mut page =
            vec![0; SectionTable::BYTES.min(usize::try_from(file_bytes).unwrap_or(usize::MAX))];
        file.read_exact_at(&mut page, 0).map_err(NotReusable::Unreadable)?;
        let outline = SectionTable::read(&page, file_bytes).map_err(NotReusable::NotAnArchive)?;
        let section = |kind| outline.section(kind).copied();
        let bodies = section(SectionKind::BODIES).ok_or(NotReusable::Damaged)?;
        let digests = section(SectionKind::DIGESTS).ok_or(NotReusable::Damaged)?;
        let rows = body_rows(&file, &bodies, &digests)?;
        let origins = match section(SectionKind::ORIGINS) {
            Some(section) => origin_rows(&file, &section, rows.len())?,
            None => Vec::new(),
        };
        let mut known = DigestIndex::default();
        known.reserve(rows.len(), &rows);
        for number in 0..u32::try_from(rows.len()).map_err(|_| NotReusable::Damaged)? {
            known.insert(number, &rows);
        }
        let own = own.filter(|own| own.digest == outline.digest);
        let untouched = own.is_some_and(|own| own.stamp == stamp);
        let (file, own) = (Arc::new(file), own.is_some());
        Ok(OldArchive { file, bodies: rows, known, origins, own, stamp, untouched })
    }

    fn body(&self, number: u32) -> Option<&DigestRow> {
        self.bodies.get(usize::try_from(number).ok()?)
    }

    fn find(&self, digest: &Digest) -> Option<u32> {
        self.known.find(digest, &self.bodies)
    }

    /// Returns the result of the content at `spot`, which is one of this archive.
    fn form(&self, BodySpot { archive, body: number }: BodySpot, choice: CodingLevel) -> KnownForm {
        let first = self.origins.partition_point(|row| row.content.get() < number);
        let of_content = self.origins.get(first..).unwrap_or_default().iter();
        let mut of_content = of_content.take_while(|row| row.content.get() == number);
        let Some(row) = of_content.find(|row| is_of(row, choice)) else {
            return KnownForm::Unknown;
        };
        if row.stored.get() == ORIGIN_NOT_KEPT {
            return KnownForm::NotKept;
        }
        let bytes = |number| self.body(number).map_or(0, |row: &DigestRow| row.bytes.get());
        let pays = largest_kept(bytes(number)).is_some_and(|most| bytes(row.stored.get()) <= most);
        if pays {
            KnownForm::Stored(BodySpot { archive, body: row.stored.get() })
        } else {
            KnownForm::Unknown
        }
    }
}

fn is_of(row: &OriginRow, choice: CodingLevel) -> bool {
    let CodingLevel { method, level } = choice;
    (row.coding, row.method) == (method.coding().number(), method as u8)
        && (row.level, row.edition) == (level, method.edition())
}

fn range(row: &DigestRow) -> Range<u64> {
    let start = row.offset.get();
    start..start.saturating_add(row.bytes.get())
}

/// Returns the bodies of an archive, each after the last and within the section.
fn body_rows(
    file: &File,
    bodies: &Section,
    digests: &Section,
) -> Result<Vec<DigestRow>, NotReusable> {
    let mut end = bodies.offset;
    let last = bodies.offset + bodies.bytes;
    rows(file, digests, |row: &DigestRow| {
        let place = range(row);
        let fits = place.start >= end && place.end > place.start && place.end <= last;
        end = place.end;
        fits
    })
}

fn origin_rows(
    file: &File,
    section: &Section,
    bodies: usize,
) -> Result<Vec<OriginRow>, NotReusable> {
    let exists = |number: u32| usize::try_from(number).is_ok_and(|number| number < bodies);
    let mut last = None;
    rows(file, section, |row: &OriginRow| {
        let key = (row.content.get(), row.method, row.level, row.edition);
        let rises = last.replace(key).is_none_or(|last| last < key);
        let stored = row.stored.get();
        rises && exists(row.content.get()) && (stored == ORIGIN_NOT_KEPT || exists(stored))
    })
}

/// Returns the rows of a section, which is read once and hashed. It stops at the first row that
/// does not fit: a file that claims to be huge costs no more than its real content.
fn rows<R: FromBytes + KnownLayout + Immutable + Unaligned + Copy>(
    file: &File,
    section: &Section,
    mut fits: impl FnMut(&R) -> bool,
) -> Result<Vec<R>, NotReusable> {
    let mut hasher = blake3::Hasher::new();
    let mut rows: Vec<R> = Vec::new();
    let mut at = section.offset;
    let end = section.offset + section.bytes;
    let mut piece = vec![0; PIECE_BYTES / size_of::<R>() * size_of::<R>()];
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len());
        let piece = piece.get_mut(..length).ok_or(NotReusable::Damaged)?;
        file.read_exact_at(piece, at).map_err(NotReusable::Unreadable)?;
        hasher.update(piece);
        let new = <[R]>::ref_from_bytes(piece).map_err(|_| NotReusable::Damaged)?;
        if !new.iter().all(&mut fits) {
            return Err(NotReusable::Damaged);
        }
        rows.extend_from_slice(new);
        at += length as u64;
    }
    if *hasher.finalize().as_bytes() == section.digest.0 {
        Ok(rows)
    } else {
        Err(NotReusable::Damaged)
    }
}

/// Returns a part of a file; `None` when it cannot be read, or ends early.
fn read_range(file: &File, range: Range<u64>) -> Option<Bytes> {
    let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    let mut bytes = Vec::new();
    // A damaged row may claim any length.
    bytes.try_reserve_exact(length).ok()?;
    while bytes.len() < length {
        let at = range.start + bytes.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut bytes), at) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(length);
    Some(bytes.into())
}

impl DistantBody {
    /// Returns whether the body has its digest. Reads all of it; the next reading begins at its
    /// start again.
    pub(crate) fn is_sound(&self, digest: &Digest) -> bool {
        let mut again =
            DistantBody { file: Arc::clone(&self.file), offset: self.offset, left: self.left };
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut again, &mut hasher).is_ok() && *hasher.finalize().as_bytes() == digest.0
    }
}

impl io::Read for DistantBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(buffer.get_mut(..most).unwrap_or_default(), self.offset)?;
        self.offset += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

impl fmt::Display for NotReusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReusable::Unreadable(error) => {
                write!(f, "it cannot be read: {}", crate::error::without_number(error))
            }
            NotReusable::NotAnArchive(error) => error.fmt(f),
            NotReusable::Damaged => f.write_str("it is damaged"),
        }
    }
}

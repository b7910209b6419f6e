//! The file of fingerprints beside an archive, `.NAME.stat`: the stamp of each file of the folder
//! when it was last read, and the findings about its content. An unchanged file need not be read.
//!
//! ```text
//! magic      8 bytes
//! rows       key length (2), type length (1), flags (1), StampRow, digest (32), key, type;
//!            sorted by key
//! archive    that was built with it: digest (32), StampRow
//! rows       their count (8)
//! blake3     of all before (32)
//! ```
//!
//! It is only ever a shortcut: one that is damaged, of another version or not there costs time and
//! nothing else. It is written under another name and renamed, so builds at the same time and
//! builds that are killed leave one that is whole. Rows do not name the folder: device, inode and
//! times of a file are found in no other one.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pinion_archive::Digest;
use pinion_http::content_coding::Coding;
use pinion_http::date::UnixSeconds;
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::body_reuse::{BodySpot, OwnArchive, ReusableArchives};
use crate::limits::{RACY_SECONDS, STAT_CACHE_MAX_BYTES};
use crate::media_type::{self, MediaType};
use crate::walk::consistent_file_read::OpenSource;
use crate::walk::found_files::SourceFile;
use crate::walk::source_stamp::SourceStamp;

/// The last byte is the version: it changes with the rows, and with the findings about a file.
const MAGIC: [u8; 8] = *b"\x89PISTAT\x04";
/// Behind the rows.
const TRAILER_BYTES: usize = 32 + size_of::<StampRow>() + 8 + 32;

/// [`RowHeader::flags`]: the type says `charset=utf-8`.
const UTF8: u8 = 1;
/// [`RowHeader::flags`]: the content begins as an archive does.
const ARCHIVE: u8 = 2;
/// [`RowHeader::flags`]: the name begins a digest of the content.
const BY_CONTENT: u8 = 4;
/// [`RowHeader::flags`]: the digest is that of the decoded content.
const DECODED: u8 = 8;
/// [`RowHeader::flags`]: the number of the coding that a rule gives the file begins at this bit.
const CODING_SHIFT: u32 = 4;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RowHeader {
    key_bytes: zerocopy::little_endian::U16,
    essence_bytes: u8,
    flags: u8,
    stamp: StampRow,
    digest: [u8; 32],
}

/// The attributes that distinguish one state of a file from another.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StampRow {
    device: U64,
    inode: U64,
    bytes: U64,
    modified: I64,
    changed: I64,
    modified_ns: U32,
    changed_ns: U32,
}

/// The findings about a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundIn {
    /// The digest of the content.
    pub(crate) digest: Digest,
    pub(crate) media: MediaType,
    /// Whether it begins as an archive does.
    pub(crate) archive: bool,
    /// Whether its name begins a digest of its content.
    pub(crate) by_content: bool,
    /// The coding that it is in by a rule; the identity without a rule.
    pub(crate) by_rule: Coding,
    /// Whether the stored form is decoded: digest and media type are of that.
    pub(crate) is_decoded: bool,
}

impl FoundIn {
    /// Returns the findings about a file whose content was not held: it is neither decoded nor
    /// compared with its name.
    pub(crate) fn at_once(digest: Digest, media: MediaType, archive: bool) -> FoundIn {
        let by_rule = Coding::Identity;
        FoundIn { digest, media, archive, by_content: false, by_rule, is_decoded: false }
    }
}

/// An unchanged file whose content an older archive has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownFile {
    /// Its number in the list.
    pub(crate) file: u32,
    pub(crate) spot: BodySpot,
    pub(crate) found: FoundIn,
}

/// Returns the name of the file of fingerprints beside an archive. Hidden, so that no walk takes
/// it.
pub(crate) fn path_for(archive: &Path) -> Option<PathBuf> {
    let mut name = std::ffi::OsString::from(".");
    name.push(archive.file_name()?);
    name.push(".stat");
    Some(archive.with_file_name(name))
}

/// Returns whether something stands under that name that is not ours to replace.
pub(crate) fn is_foreign(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
        Ok(metadata) if metadata.is_file() && metadata.len() == 0 => return false,
        Ok(metadata) if metadata.is_file() => {}
        _ => return true,
    }
    let mut head = Vec::new();
    let read = OpenSource::open(path).and_then(|mut file| file.head(&mut head, MAGIC.len()));
    // Another version, or zeros, which a crash of the machine may leave of a file.
    let ours = head.get(..MAGIC.len() - 1) == MAGIC.get(..MAGIC.len() - 1)
        || head.iter().all(|&byte| byte == 0);
    read.is_err() || !ours
}

/// A file of fingerprints that is whole.
pub(crate) struct StatCache {
    /// The archive that was built with it.
    pub(crate) archive: OwnArchive,
    bytes: Vec<u8>,
}

impl StatCache {
    /// Reads the file at `path`; none when there is nothing that can be used.
    pub(crate) fn read(path: &Path) -> Option<StatCache> {
        let file = OpenSource::open(path).ok()?;
        if file.stamp().bytes > STAT_CACHE_MAX_BYTES {
            return None;
        }
        file.read().ok().and_then(StatCache::parse)
    }

    /// Reads the bytes; returns `None` unless every byte is as it was written, by this version.
    fn parse(mut bytes: Vec<u8>) -> Option<StatCache> {
        let rows_end = bytes.len().checked_sub(TRAILER_BYTES)?;
        let (all, check) = bytes.split_last_chunk::<32>()?;
        if !all.starts_with(&MAGIC) || Digest::of(all) != Digest(*check) || rows_end < MAGIC.len() {
            return None;
        }
        let (digest, after) = all.get(rows_end..)?.split_first_chunk()?;
        let (stamp, _) = StampRow::ref_from_prefix(after).ok()?;
        let archive = OwnArchive { digest: Digest(*digest), stamp: stamp.stamp() };
        bytes.truncate(rows_end);
        bytes.drain(..MAGIC.len());
        Some(StatCache { archive, bytes })
    }

    /// Returns the files of a walk that have not changed and whose content is available. `stamps`
    /// are theirs, one for each.
    pub(crate) fn known(
        &self,
        files: &[SourceFile],
        stamps: &[SourceStamp],
        reuse: &ReusableArchives,
    ) -> Vec<KnownFile> {
        let essences = media_type::essences();
        let mut known = Vec::new();
        let mut rest = self.bytes.as_slice();
        let mut row = next(&mut rest);
        for ((number, file), stamp) in (0..).zip(files).zip(stamps) {
            while row.as_ref().is_some_and(|row| row.key < &*file.key) {
                row = next(&mut rest);
            }
            let Some(row) = row.as_ref().filter(|row| row.key == &*file.key) else { continue };
            if row.stamp == *stamp
                && let Some(spot) = reuse.content(&row.found.digest)
                && let Some(media) = row.media(&essences)
            {
                let found = FoundIn { media, ..row.found };
                known.push(KnownFile { file: number, spot, found });
            }
        }
        known
    }
}

struct CachedFile<'a> {
    key: &'a [u8],
    essence: &'a [u8],
    stamp: SourceStamp,
    /// The findings, with a media type that has no essence.
    found: FoundIn,
}

impl CachedFile<'_> {
    /// Returns the media type; `None` for a type that a build would not give now.
    fn media(&self, essences: &HashMap<&[u8], &'static str>) -> Option<MediaType> {
        let essence = *essences.get(self.essence)?;
        let media = MediaType { essence, ..self.found.media };
        media_type::may_be(self.key, essence).then_some(media)
    }
}

/// Returns the row at the front; `None` at the end, and for rows that do not fit.
fn next<'a>(rest: &mut &'a [u8]) -> Option<CachedFile<'a>> {
    let (header, after) = RowHeader::ref_from_prefix(rest).ok()?;
    let (key, after) = after.split_at_checked(header.key_bytes.get().into())?;
    let (essence, after) = after.split_at_checked(header.essence_bytes.into())?;
    *rest = after;
    let has = |flag| header.flags & flag != 0;
    let found = FoundIn {
        digest: Digest(header.digest),
        media: MediaType { essence: "", utf8: has(UTF8) },
        archive: has(ARCHIVE),
        by_content: has(BY_CONTENT),
        by_rule: Coding::from_number(header.flags >> CODING_SHIFT & 3)?,
        is_decoded: has(DECODED),
    };
    Some(CachedFile { key, essence, stamp: header.stamp.stamp(), found })
}

impl StampRow {
    fn of(stamp: &SourceStamp) -> StampRow {
        StampRow {
            device: stamp.device.into(),
            inode: stamp.inode.into(),
            bytes: stamp.bytes.into(),
            modified: stamp.modified.into(),
            changed: stamp.changed.into(),
            modified_ns: stamp.modified_ns.into(),
            changed_ns: stamp.changed_ns.into(),
        }
    }

    fn stamp(&self) -> SourceStamp {
        SourceStamp {
            device: self.device.get(),
            inode: self.inode.get(),
            bytes: self.bytes.get(),
            modified: self.modified.get(),
            changed: self.changed.get(),
            modified_ns: self.modified_ns.get(),
            changed_ns: self.changed_ns.get(),
        }
    }
}

/// A file of fingerprints that is being written.
pub(crate) struct StatCacheWriter {
    out: BufWriter<HashedFile>,
    began: UnixSeconds,
    rows: u64,
}

struct HashedFile {
    file: File,
    hasher: blake3::Hasher,
}

impl StatCacheWriter {
    /// Begins the stat cache on an empty file. Files that changed when the build had `began`, or
    /// shortly before, get no row: they may have changed again within the same tick of the file
    /// system's clock.
    pub(crate) fn new(file: File, began: UnixSeconds) -> io::Result<StatCacheWriter> {
        let mut out = BufWriter::new(HashedFile { file, hasher: blake3::Hasher::new() });
        out.write_all(&MAGIC)?;
        Ok(StatCacheWriter { out, began, rows: 0 })
    }

    /// Records a file. Rows come in the order of their keys.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        stamp: &SourceStamp,
        found: &FoundIn,
    ) -> io::Result<()> {
        let FoundIn { digest, media, archive, by_content, by_rule, is_decoded } = *found;
        let settled = self.began.saturating_sub(RACY_SECONDS);
        let (Ok(key_bytes), Ok(essence_bytes)) =
            (u16::try_from(key.len()), u8::try_from(media.essence.len()))
        else {
            return Ok(());
        };
        if stamp.modified >= settled || stamp.changed >= settled {
            return Ok(());
        }
        let header = RowHeader {
            key_bytes: key_bytes.into(),
            essence_bytes,
            flags: u8::from(media.utf8) * UTF8
                + u8::from(archive) * ARCHIVE
                + u8::from(by_content) * BY_CONTENT
                + u8::from(is_decoded) * DECODED
                + (by_rule.number() << CODING_SHIFT),
            stamp: StampRow::of(stamp),
            digest: digest.0,
        };
        self.rows += 1;
        self.out.write_all(header.as_bytes())?;
        self.out.write_all(key)?;
        self.out.write_all(media.essence.as_bytes())
    }

    /// Ends the file, which belongs to that archive.
    pub(crate) fn finish(mut self, archive: &OwnArchive) -> io::Result<()> {
        self.out.write_all(&archive.digest.0)?;
        self.out.write_all(StampRow::of(&archive.stamp).as_bytes())?;
        self.out.write_all(&self.rows.to_le_bytes())?;
        let mut hashed = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let check = hashed.hasher.finalize();
        hashed.file.write_all(check.as_bytes())
    }
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

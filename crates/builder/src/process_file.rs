//! The work of one worker for one file: read it, find its type, encode it unless the same content
//! is being encoded already.

mod encoding_claims;

pub(crate) use encoding_claims::EncodingClaims;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pinion_archive::Digest;
use pinion_archive::layout::MAGIC;

use crate::body_reuse::{BodyStock, DistantBody, KnownForm, ReusableArchives};
use crate::coding_options::CodingLevel;
use crate::coding_rules::{CodingListId, CodingRules};
use crate::encode::{EncodedContent, Encoders};
use crate::error::Reason;
use crate::fingerprint::is_named_by_content;
use crate::kernel_body_copy::CarriedBody;
use crate::limits::{DECODED_RATIO, HELD_MAX_BYTES, SNIFF_BYTES};
use crate::media_type::{self, MediaType, Utf8Check};
use crate::options::Options;
use crate::path_aliases;
use crate::precompressed::{GivenCoding, OpenedContent, PrecompressedFiles};
use crate::progress::{FileMeter, WorkMeter};
use crate::report::page_assets::assets;
use crate::walk::consistent_file_read::OpenSource;
use crate::walk::found_files::{SourceFile, relative};
use crate::walk::source_stamp::SourceStamp;
use crate::walk::stat_cache::{FoundIn, KnownFile};

/// The state that all workers share.
pub(crate) struct BuildState<'a> {
    /// The folder of the content.
    pub(crate) source: PathBuf,
    pub(crate) options: &'a Options,
    pub(crate) coding_rules: &'a CodingRules<'a>,
    pub(crate) reuse: ReusableArchives,
    /// The stamp of each file during the walk.
    pub(crate) stamps: Vec<SourceStamp>,
    /// Files that need not be read, by their number.
    pub(crate) known: Vec<KnownFile>,
    /// Whether the kernel copies bodies of the archive that is replaced.
    pub(crate) copies_in_kernel: bool,
    /// The build will fail: files are still read, to name every one that cannot be, but that is
    /// all.
    pub(crate) is_lost: AtomicBool,
    pub(crate) claims: EncodingClaims,
    /// Files that are decoded when they are read.
    pub(crate) precompressed: PrecompressedFiles,
    /// Counts the work that is done.
    pub(crate) meter: WorkMeter<'a>,
}

/// A file that was read, or need not be.
pub(crate) struct ProcessedFile {
    pub(crate) found: FoundIn,
    pub(crate) stamp: SourceStamp,
    pub(crate) body: ContentBody,
    /// Whether the file was not read.
    pub(crate) unread: bool,
    pub(crate) codings: FileCodings,
    /// Time spent on the codings.
    pub(crate) encoding: Duration,
    /// The assets that a page loads, for a report.
    pub(crate) assets: Vec<Box<[u8]>>,
}

/// The location of the content.
pub(crate) enum ContentBody {
    Held(Bytes),
    /// A file to be copied into the archive, positioned anywhere.
    Streamed(OpenSource),
    /// A body to be copied from an older archive.
    Distant(DistantBody),
    /// A body to be carried over from the archive that is replaced.
    Carried(CarriedBody),
    /// A file that stays where it is.
    External(OpenSource),
}

/// The content's codings.
pub(crate) enum FileCodings {
    /// None, because of its type or size.
    Untried,
    /// The result of each coding of a list.
    Tried(CodingListId, Vec<TriedCoding>),
    /// An earlier file with this content has the results of the list.
    Earlier(CodingListId),
}

/// A coding of a content.
pub(crate) struct TriedCoding {
    pub(crate) choice: CodingLevel,
    /// `None` when it did not pay.
    pub(crate) form: Option<CodedBody>,
    /// Whether the result came from an older archive.
    pub(crate) reused: bool,
}

/// The location of the stored form of a content.
pub(crate) enum CodedBody {
    Held(EncodedContent),
    Carried(CarriedBody),
}

/// The facts about a content before it is encoded.
struct UncodedContent<'a> {
    key: &'a [u8],
    rank: usize,
    bytes: Bytes,
    found: FoundIn,
    stamp: SourceStamp,
    unread: bool,
}

impl ProcessedFile {
    /// Returns the product of a file that was read and is stored as it is.
    fn without_codings(found: FoundIn, stamp: SourceStamp, body: ContentBody) -> ProcessedFile {
        ProcessedFile {
            found,
            stamp,
            body,
            unread: false,
            codings: FileCodings::Untried,
            encoding: Duration::ZERO,
            assets: Vec::new(),
        }
    }
}

impl<'a> BuildState<'a> {
    /// Returns the memory that the file will need.
    pub(crate) fn cost(&self, rank: usize, file: &SourceFile) -> u64 {
        let given = self.precompressed.given(rank, &file.key);
        if self.is_external(given, file.bytes) || file.bytes > HELD_MAX_BYTES {
            return crate::limits::STREAMED_COST_BYTES;
        }
        let bytes = match given {
            GivenCoding::Nothing => file.bytes,
            _ => file.bytes + (file.bytes * DECODED_RATIO).min(HELD_MAX_BYTES),
        };
        bytes * self.coding_rules.most_forms() as u64
    }

    /// Reads the bodies that older archives have of the files from number `first` on.
    pub(crate) fn stock(&self, first: usize, files: &[SourceFile]) -> BodyStock {
        let mut wanted = Vec::new();
        for (rank, file) in (first..).zip(files) {
            let Some(known) = self.known(rank, file) else { continue };
            if file.bytes > HELD_MAX_BYTES || self.carried(known, file).is_some() {
                continue;
            }
            wanted.push(known.spot);
            let Some(digest) = self.reuse.digest(known.spot) else { continue };
            for &choice in self.choices(self.coding_rules.of(&file.key), known.found.media) {
                if let KnownForm::Stored(spot) = self.reuse.form(&digest, choice) {
                    wanted.push(spot);
                }
            }
        }
        self.reuse.stock(wanted)
    }

    /// Reads file number `rank` of the list, unless it is known; `None` when the build is lost
    /// anyway.
    pub(crate) fn file(
        &self,
        encoders: &mut Encoders,
        stock: &BodyStock,
        rank: usize,
        file: &SourceFile,
    ) -> Result<Option<ProcessedFile>, Reason> {
        let mut meter = FileMeter::new(&self.meter, file.bytes);
        let result = self.product(encoders, stock, rank, file, &mut meter);
        if result.is_err() && !self.options.keep_going {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        result
    }

    fn product(
        &self,
        encoders: &mut Encoders,
        stock: &BodyStock,
        rank: usize,
        file: &SourceFile,
        meter: &mut FileMeter<'_>,
    ) -> Result<Option<ProcessedFile>, Reason> {
        if let Some(known) = self.known(rank, file)
            && let Some(product) = self
                .carried(known, file)
                .or_else(|| self.unread(encoders, stock, known, file, meter))
        {
            return self.unless_lost(|| Ok(product));
        }
        let given = self.precompressed.given(rank, &file.key);
        let source = OpenSource::open(&self.source.join(relative(&file.key)))?;
        let stamp = source.stamp();
        if self.is_external(given, stamp.bytes) {
            return self.unless_lost(|| external(source, &file.key));
        }
        if stamp.bytes > HELD_MAX_BYTES {
            if matches!(given, GivenCoding::ByRule(_)) {
                return Err(Reason::TooLargeToDecode);
            }
            return self.unless_lost(|| streamed(source, &file.key, meter));
        }
        if self.cost(rank, file) < stamp.bytes {
            // It has outgrown the memory that was reserved for it.
            return Err(Reason::Changed);
        }
        let bytes = source.read()?;
        self.unless_lost(|| {
            let key = &*file.key;
            let OpenedContent { content, is_decoded, media } = given.open(key, bytes)?;
            let found = FoundIn {
                digest: Digest::of(&content),
                media,
                archive: content.starts_with(&MAGIC),
                by_content: is_named_by_content(key, media.essence, &content),
                by_rule: given.by_rule(),
                is_decoded,
            };
            let bytes = Bytes::from(content);
            let content = UncodedContent { key, rank, bytes, found, stamp, unread: false };
            Ok(self.held(encoders, stock, content, meter))
        })
    }

    /// Returns the product of an unchanged file whose stored forms are all in the archive that is
    /// replaced, which is our own work and unchanged too: no byte of it is read.
    fn carried(&self, known: &KnownFile, file: &SourceFile) -> Option<ProcessedFile> {
        let KnownFile { found, spot, .. } = *known;
        let stamp = *self.stamps.get(known.file as usize)?;
        let media = found.media;
        let is_page = self.options.report && media.essence == "text/html";
        if !self.copies_in_kernel || is_page {
            return None;
        }
        let body = self.reuse.carried(spot);
        let body = body.filter(|body| body.bytes == stamp.bytes || found.is_decoded)?;
        let list = self.coding_rules.of(&file.key);
        let tried = |&choice: &CodingLevel| {
            let form = match self.reuse.form_in_same_archive(spot, choice) {
                KnownForm::NotKept => None,
                KnownForm::Stored(spot) => Some(CodedBody::Carried(self.reuse.carried(spot)?)),
                KnownForm::Unknown => return None,
            };
            Some(TriedCoding { choice, form, reused: true })
        };
        let codings = if stamp.bytes > HELD_MAX_BYTES || !is_tried(&file.key, list, media) {
            FileCodings::Untried
        } else {
            let tried = self.choices(list, media).iter().map(tried).collect::<Option<_>>()?;
            if self.claims.claim(body.digest, list, known.file as usize) {
                FileCodings::Tried(list, tried)
            } else {
                FileCodings::Earlier(list)
            }
        };
        let product = ProcessedFile::without_codings(found, stamp, ContentBody::Carried(body));
        Some(ProcessedFile { unread: true, codings, ..product })
    }

    /// Returns the product of an unchanged file: its content is that of an older archive. `None`
    /// when that is damaged.
    fn unread(
        &self,
        encoders: &mut Encoders,
        stock: &BodyStock,
        known: &KnownFile,
        file: &SourceFile,
        meter: &mut FileMeter<'_>,
    ) -> Option<ProcessedFile> {
        let KnownFile { found, spot, .. } = *known;
        let stamp = *self.stamps.get(known.file as usize)?;
        if stamp.bytes <= HELD_MAX_BYTES {
            let bytes = stock.get(spot)?;
            let (key, rank) = (&*file.key, known.file as usize);
            let content = UncodedContent { key, rank, bytes, found, stamp, unread: true };
            return Some(self.held(encoders, stock, content, meter));
        }
        let body = self.reuse.distant(spot).filter(|body| body.is_sound(&found.digest))?;
        let product = ProcessedFile::without_codings(found, stamp, ContentBody::Distant(body));
        Some(ProcessedFile { unread: true, ..product })
    }

    fn held(
        &self,
        encoders: &mut Encoders,
        stock: &BodyStock,
        content: UncodedContent<'_>,
        meter: &mut FileMeter<'_>,
    ) -> ProcessedFile {
        let begin = Instant::now();
        let (list, found) = (self.coding_rules.of(content.key), content.found);
        let codings = if !is_tried(content.key, list, found.media) {
            FileCodings::Untried
        } else if self.claims.claim(found.digest, list, content.rank) {
            let choices = self.choices(list, found.media);
            let work: u64 = choices.iter().map(|choice| choice.work()).sum();
            meter.expect((content.bytes.len() as u64).saturating_mul(work));
            let (digest, bytes) = (&found.digest, &content.bytes);
            let tried = choices
                .iter()
                .map(|choice| self.tried(encoders, stock, digest, bytes, *choice, meter));
            FileCodings::Tried(list, tried.collect())
        } else {
            FileCodings::Earlier(list)
        };
        let encoding = begin.elapsed();
        let assets = if self.options.report && found.media.essence == "text/html" {
            assets(content.key, &content.bytes)
        } else {
            Vec::new()
        };
        let UncodedContent { bytes, stamp, unread, .. } = content;
        ProcessedFile {
            found,
            stamp,
            body: ContentBody::Held(bytes),
            unread,
            codings,
            encoding,
            assets,
        }
    }

    /// Encodes a page that the build has made, for a folder: returns its digest, and the results of
    /// its codings.
    pub(crate) fn made(
        &self,
        encoders: &mut Encoders,
        folder: &[u8],
        media: MediaType,
        bytes: &Bytes,
    ) -> (Digest, FileCodings) {
        let digest = Digest::of(bytes);
        if bytes.len() as u64 > HELD_MAX_BYTES {
            return (digest, FileCodings::Untried);
        }
        let list = self.coding_rules.of(folder);
        let choices = self.choices(list, media).iter();
        let (stock, meter) = (BodyStock::default(), &mut FileMeter::new(&self.meter, 0));
        let tried =
            choices.map(|choice| self.tried(encoders, &stock, &digest, bytes, *choice, meter));
        (digest, FileCodings::Tried(list, tried.collect()))
    }

    /// Returns a content in a coding: from an older archive, or made.
    fn tried(
        &self,
        encoders: &mut Encoders,
        stock: &BodyStock,
        digest: &Digest,
        content: &[u8],
        choice: CodingLevel,
        meter: &mut FileMeter<'_>,
    ) -> TriedCoding {
        let older = match self.reuse.form(digest, choice) {
            KnownForm::NotKept => Some(None),
            KnownForm::Stored(spot) => self.reuse.proven(stock, spot, choice, content).map(Some),
            KnownForm::Unknown => None,
        };
        let reused = older.is_some();
        let mut left = content.len() as u64;
        let form = older.unwrap_or_else(|| {
            encoders.encode_watched(choice, content, &mut |read| {
                left = left.saturating_sub(read);
                meter.add(read.saturating_mul(choice.work()));
            })
        });
        meter.add(left.saturating_mul(choice.work()));
        TriedCoding { choice, form: form.map(CodedBody::Held), reused }
    }

    /// Returns the codings that a file is tried in.
    fn choices(&self, list: CodingListId, media: MediaType) -> &'a [CodingLevel] {
        let named = list != CodingListId::DEFAULT;
        if named || !media_type::is_packed(media.essence) {
            self.coding_rules.codings(list)
        } else {
            &[]
        }
    }

    /// Returns the record of file number `rank`, if it is to be in the archive.
    fn known(&self, rank: usize, file: &SourceFile) -> Option<&KnownFile> {
        let given = self.precompressed.given(rank, &file.key);
        if self.is_external(given, file.bytes) {
            return None;
        }
        let rank = u32::try_from(rank).ok()?;
        let place = self.known.binary_search_by_key(&rank, |known| known.file).ok()?;
        // Another rule makes another content of it.
        self.known.get(place).filter(|known| known.found.by_rule == given.by_rule())
    }

    /// Returns whether a file stays where it is. One that is decoded cannot.
    fn is_external(&self, given: GivenCoding, bytes: u64) -> bool {
        let least = self.options.external_min_bytes.filter(|_| given == GivenCoding::Nothing);
        least.is_some_and(|least| bytes > least)
    }

    fn unless_lost(
        &self,
        make: impl FnOnce() -> Result<ProcessedFile, Reason>,
    ) -> Result<Option<ProcessedFile>, Reason> {
        if self.is_lost.load(Ordering::Relaxed) { Ok(None) } else { make().map(Some) }
    }
}

/// Returns whether a file is encoded. Codings that are named for some files apply to them, packed
/// or not. A page of an error is sent without coding.
fn is_tried(key: &[u8], list: CodingListId, media: MediaType) -> bool {
    path_aliases::error_status(key).is_none()
        && (list != CodingListId::DEFAULT || !media_type::is_packed(media.essence))
}

/// Returns the product of a file too large to be held: it is read once for its digest now, once
/// more when it is stored.
fn streamed(
    mut source: OpenSource,
    key: &[u8],
    meter: &mut FileMeter<'_>,
) -> Result<ProcessedFile, Reason> {
    meter.expect(source.stamp().bytes);
    let (essence, archive) = first_look(&mut source, key)?;
    let (mut hasher, mut utf8) = (blake3::Hasher::new(), Utf8Check::default());
    source.pieces(|piece| {
        hasher.update(piece);
        utf8.update(piece);
        meter.add(piece.len() as u64);
    })?;
    let media = MediaType { essence, utf8: media_type::has_charset(essence) && utf8.finish() };
    let digest = Digest(*hasher.finalize().as_bytes());
    let (found, stamp) = (FoundIn::at_once(digest, media, archive), source.stamp());
    Ok(ProcessedFile::without_codings(found, stamp, ContentBody::Streamed(source)))
}

/// Returns the product of a file that stays where it is: it is read only if its type depends on all
/// of its content.
fn external(mut source: OpenSource, key: &[u8]) -> Result<ProcessedFile, Reason> {
    let (essence, archive) = first_look(&mut source, key)?;
    source.check_end()?;
    let utf8 = media_type::has_charset(essence) && {
        let mut utf8 = Utf8Check::default();
        source.pieces(|piece| utf8.update(piece))?;
        utf8.finish()
    };
    let (digest, media) = (source.digest_of_state()?, MediaType { essence, utf8 });
    let (found, stamp) = (FoundIn::at_once(digest, media, archive), source.stamp());
    Ok(ProcessedFile::without_codings(found, stamp, ContentBody::External(source)))
}

/// Returns the facts that the first bytes of a file show: its type, and whether it is an archive.
fn first_look(source: &mut OpenSource, key: &[u8]) -> Result<(&'static str, bool), Reason> {
    let mut head = Vec::new();
    source.head(&mut head, SNIFF_BYTES)?;
    Ok((media_type::essence(key, &head), head.starts_with(&MAGIC)))
}

//! Results of the workers, in the order of the list → the archive.
//!
//! Contents are stored as they come, each once. A resource is a content *with* a media type: equal
//! bytes under another type share the stored bytes, but not fields, tag or codings. Entries are
//! written at the end, when it is known which files there are (`entries`).

mod entries;
mod listings;
mod previous_assets;
mod stored_contents;

pub use previous_assets::Earlier;

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinion_archive::{BodyRef, Digest, External, NewOrigin, WriteError, Writer};
use pinion_http::content_coding::Coding;
use pinion_http::date::UnixSeconds;

use crate::assemble::stored_contents::{ContentForm, ContentId, StoredContents};
use crate::body_reuse::ReusableArchives;
use crate::coding_options::{self, CodingLevel};
use crate::coding_rules::{CodingListId, CodingRules};
use crate::error::{BuildError, FileProblem, Reason};
use crate::kernel_body_copy::{CarriedBody, KernelCopier};
use crate::limits::{HELD_MAX_BYTES, MODIFIED_MIN, SLOWEST};
use crate::media_type::{MediaType, is_packed};
use crate::options::Options;
use crate::process_file::{CodedBody, ContentBody, FileCodings, ProcessedFile, TriedCoding};
use crate::report::{BuildReport, FileReport};
use crate::response_fields::FieldBlocks;
use crate::rules::Rules;
use crate::site_code::SiteCode;
use crate::summary::{CodingSummary, Slow, Summary};
use crate::walk::consistent_file_read::OpenSource;
use crate::walk::found_files::{SourceFile, relative};
use crate::walk::name_globs::Globs;
use crate::walk::source_stamp::SourceStamp;
use crate::walk::stat_cache::{FoundIn, StatCacheWriter};
use crate::warning::Warning;

/// An archive that is being written.
pub(crate) struct Assembly<'a, W: Write + Seek> {
    options: &'a Options,
    files: &'a [SourceFile],
    rules: &'a Rules,
    /// Files whose names change with their content, whatever those names look like.
    immutable: Globs,
    writer: Writer<W>,
    /// The prefix of the keys of files, below the source.
    pub(crate) content: &'static str,
    fields: FieldBlocks<'a>,
    contents: StoredContents,
    resources: Vec<Resource>,
    /// Folders that are listed, by their place in the plan of all keys: as a page and as JSON.
    listings: Vec<[Resource; 2]>,
    /// Every type that a resource has.
    types: Vec<MediaType>,
    externals: Vec<File>,
    /// The assets that each resource loads, for a report.
    assets: Vec<Vec<Box<[u8]>>>,
    /// The digest of the state of each external file, in place of its content.
    states: Vec<Digest>,
    /// Copies bodies that can be carried over.
    kernel_copier: Option<KernelCopier>,
    /// `None` when no fingerprints are to be written, or when they could not be.
    stat_cache_writer: Option<StatCacheWriter>,
    pub(crate) summary: Summary,
}

/// A file that is part of the archive.
struct Resource {
    /// Its number in the list of files.
    file: u32,
    content: ContentId,
    /// Its number in the list of types.
    media: u16,
    /// The list of codings that are its own; `None` for types that are not encoded.
    list: Option<CodingListId>,
    /// [`NEVER`] for none.
    modified: UnixSeconds,
    /// Whether its name begins a digest of its content.
    by_content: bool,
}

impl Resource {
    fn modified(&self) -> Option<UnixSeconds> {
        Some(self.modified).filter(|&modified| modified != NEVER)
    }
}

/// The key of each pattern of [`Options::include`] in the facts of an archive.
pub(crate) const INCLUDE_FACT: &str = "include";

/// The key of [`Options::compat_80s`] in the facts of an archive, and its value.
pub(crate) const COMPAT_FACT: &str = "compat";
pub(crate) const COMPAT_80S: &str = "80s";

/// Stands for no file: the build has made the content itself.
const NO_FILE: u32 = u32::MAX;

/// Stands for no time of modification.
const NEVER: UnixSeconds = UnixSeconds::MIN;

impl<'a, W: Write + Seek> Assembly<'a, W> {
    pub(crate) fn new(
        options: &'a Options,
        coding_rules: &CodingRules<'_>,
        files: &'a [SourceFile],
        rules: &'a Rules,
        kernel_copier: Option<KernelCopier>,
        stat_cache_writer: Option<StatCacheWriter>,
        out: W,
    ) -> Result<Assembly<'a, W>, BuildError> {
        let mut fields = FieldBlocks::new(options, &rules.fields)?;
        let immutable = Globs::of("immutable", &options.immutable)?;
        let mut writer = Writer::new(out)?;
        fields.write_generated(&mut writer, None)?;
        if !options.slash_redirects {
            writer.without_slash_redirects();
        }
        if !options.etags {
            writer.without_etags();
        }
        Ok(Assembly {
            options,
            files,
            rules,
            immutable,
            writer,
            content: "",
            fields,
            contents: StoredContents::default(),
            resources: Vec::new(),
            listings: Vec::new(),
            types: Vec::new(),
            externals: Vec::new(),
            assets: Vec::new(),
            states: Vec::new(),
            kernel_copier,
            stat_cache_writer,
            summary: Summary {
                codings: CodingSummary::none_of(coding_rules.all()),
                ..Summary::default()
            },
        })
    }

    /// Makes room for as many bodies as there were the last time, but no more than there can be.
    pub(crate) fn expect(&mut self, reuse: &ReusableArchives, coding_rules: &CodingRules<'_>) {
        let most = self.files.len().saturating_mul(coding_rules.most_forms());
        self.writer.expect_bodies(reuse.bodies().min(most));
    }

    /// Takes out the copier of bodies, which has to be finished once the archive is whole, and the
    /// writer of the stat cache.
    pub(crate) fn take_writers(&mut self) -> (Option<KernelCopier>, Option<StatCacheWriter>) {
        (self.kernel_copier.take(), self.stat_cache_writer.take())
    }

    /// Stores the code.
    pub(crate) fn code(&mut self, code: &SiteCode) -> Result<(), WriteError> {
        code.iter().try_for_each(|(path, content)| self.writer.code(path, content))
    }

    /// Takes the result of the next file.
    pub(crate) fn take(
        &mut self,
        file: usize,
        product: Result<Option<ProcessedFile>, Reason>,
    ) -> Result<(), BuildError> {
        let problem = match product {
            Ok(Some(product)) => self.resource(file, product)?.err(),
            Ok(None) => None,
            Err(reason) => Some(reason),
        };
        if let Some(reason) = problem {
            self.summary.problems.push(FileProblem { path: self.path(file), reason });
        }
        Ok(())
    }

    /// Stores the product of a file. The inner error is the file's.
    fn resource(
        &mut self,
        file: usize,
        product: ProcessedFile,
    ) -> Result<Result<(), Reason>, BuildError> {
        let ProcessedFile { found, stamp, body, unread, codings, encoding, assets } = product;
        let FoundIn { media, digest, by_content, .. } = found;
        let in_archive = !matches!(body, ContentBody::External(_));
        if in_archive && stamp.bytes > HELD_MAX_BYTES && !is_packed(media.essence) {
            self.summary.warnings.push(Warning::TooLargeToEncode(self.path(file)));
        }
        let content = match self.content(digest, stamp, body)? {
            Ok(content) => content,
            Err(reason) => return Ok(Err(reason)),
        };
        let bytes = self.contents.body(content).map_or(0, |body| self.writer.bytes_of(body));
        let list = self.codings(content, bytes, codings)?;
        if found.archive {
            self.summary.warnings.push(Warning::Archive(self.path(file)));
        }
        if found.by_rule != Coding::Identity && !found.is_decoded {
            self.summary.warnings.push(Warning::NotInCoding(self.path(file)));
        }
        let modified = self.modified(file, stamp.modified).unwrap_or(NEVER);
        if in_archive {
            self.note(file, &stamp, &found);
        }
        let number = u32::try_from(file).map_err(|_| WriteError::TooLarge)?;
        let media = self.number_of(media)?;
        self.resources.push(Resource { file: number, content, media, list, modified, by_content });
        if self.options.report {
            self.assets.push(assets);
        }
        self.summary.files += 1;
        self.summary.unread_files += u64::from(unread);
        self.summary.source_bytes += stamp.bytes;
        if encoding.as_nanos() > 0 {
            self.note_slow(file, encoding);
        }
        Ok(Ok(()))
    }

    /// Returns a content, which is stored if it is new.
    fn content(
        &mut self,
        digest: Digest,
        stamp: SourceStamp,
        body: ContentBody,
    ) -> Result<Result<ContentId, Reason>, BuildError> {
        let stored = self.writer.known(&digest);
        if let Some(known) = self.contents.find(stored, &digest) {
            self.summary.repeated_files += 1;
            self.summary.repeated_bytes += stamp.bytes;
            return Ok(Ok(known));
        }
        Ok(match self.identity(&digest, stamp, body)? {
            Ok(identity) => Ok(self.contents.add(identity, digest)?),
            Err(reason) => Err(reason),
        })
    }

    /// Stores the results of the codings of a content, unless an earlier file has brought them.
    /// Returns the list of these codings.
    fn codings(
        &mut self,
        content: ContentId,
        bytes: u64,
        codings: FileCodings,
    ) -> Result<Option<CodingListId>, WriteError> {
        let (list, tried) = match codings {
            FileCodings::Untried => return Ok(None),
            FileCodings::Earlier(list) => (list, Vec::new()),
            FileCodings::Tried(list, tried) => (list, tried),
        };
        if let Some(known) = self.contents.forms(content, list) {
            let coded = known.iter().map(|form| self.writer.bytes_of(form.body));
            self.summary.repeated_bytes += coded.sum::<u64>();
            return Ok(Some(list));
        }
        let mut forms = Vec::with_capacity(tried.len());
        for TriedCoding { choice, form, reused } in tried {
            self.summary.reused_codings += u64::from(reused);
            let stored = match form {
                Some(coded) => Some(self.form(choice, bytes, &coded)?),
                None => None,
            };
            if let Some(content) = self.contents.body(content) {
                self.writer.origin(&NewOrigin {
                    content,
                    stored: stored.map(|form| form.body),
                    coding: choice.coding(),
                    method: choice.method as u8,
                    level: choice.level,
                    edition: choice.method.edition(),
                });
            }
            forms.extend(stored);
        }
        self.contents.add_forms(content, list, &forms)?;
        Ok(Some(list))
    }

    /// Stores a content in a coding.
    fn form(
        &mut self,
        choice: CodingLevel,
        bytes: u64,
        coded: &CodedBody,
    ) -> Result<ContentForm, WriteError> {
        let body = match coded {
            CodedBody::Held(encoded) => self.writer.body(&encoded.digest, &encoded.stored)?,
            CodedBody::Carried(body) => self.carry(body)?,
        };
        if let Some(count) = self.summary.codings.iter_mut().find(|count| count.choice == choice) {
            count.bodies += 1;
            count.identity_bytes += bytes;
            count.stored_bytes += self.writer.bytes_of(body);
        }
        Ok(ContentForm { coding: choice.coding(), body })
    }

    /// Stores the content itself.
    fn identity(
        &mut self,
        digest: &Digest,
        stamp: SourceStamp,
        body: ContentBody,
    ) -> Result<Result<BodyRef, Reason>, BuildError> {
        match body {
            ContentBody::Held(content) => Ok(Ok(self.writer.body(digest, &content)?)),
            ContentBody::Streamed(source) => stream(&mut self.writer, digest, stamp, source),
            ContentBody::Distant(mut older) => {
                let body = self.writer.body_from(digest, stamp.bytes, &mut older);
                streamed(body)
            }
            ContentBody::Carried(body) => Ok(Ok(self.carry(&body)?)),
            ContentBody::External(source) => {
                let modified_ns = stamp.modified_in_ns();
                let body = self.writer.external(External { bytes: stamp.bytes, modified_ns })?;
                self.externals.push(source.into_file());
                self.states.push(*digest);
                self.summary.external_files += 1;
                Ok(Ok(body))
            }
        }
    }

    /// Makes room for a body that comes from the archive that is replaced.
    fn carry(&mut self, body: &CarriedBody) -> Result<BodyRef, WriteError> {
        let (stored, room) = self.writer.reserve(&body.digest, body.bytes)?;
        let Some(room) = room else { return Ok(stored) };
        let copier = self.kernel_copier.as_mut();
        let copier = copier.ok_or_else(|| io::Error::other("nothing to carry bodies with"))?;
        copier.add(body, room)?;
        Ok(stored)
    }

    /// Returns the number of a type. There are some hundred, and most files have one of the last
    /// few.
    fn number_of(&mut self, media: MediaType) -> Result<u16, WriteError> {
        let place = self.types.iter().rposition(|known| *known == media).unwrap_or_else(|| {
            self.types.push(media);
            self.types.len() - 1
        });
        u16::try_from(place).map_err(|_| WriteError::TooLarge)
    }

    fn media(&self, resource: &Resource) -> MediaType {
        let unknown = MediaType { essence: "application/octet-stream", utf8: false };
        self.types.get(usize::from(resource.media)).copied().unwrap_or(unknown)
    }

    /// Records the stamp of a file and the findings about its content, for the next build.
    fn note(&mut self, file: usize, stamp: &SourceStamp, found: &FoundIn) {
        let Some(key) = self.files.get(file).map(|file| &*file.key) else { return };
        let added = self.stat_cache_writer.as_mut().map(|writer| writer.add(key, stamp, found));
        if added.is_some_and(|added| added.is_err()) {
            self.stat_cache_writer = None;
        }
    }

    /// Returns the modification time for clients: capped by `SOURCE_DATE_EPOCH`, and `None` when it
    /// lies in the future, which RFC 9110 §8.8.2.1 forbids to send, or before [`MODIFIED_MIN`]. A
    /// client that has no entity tag would take another file with the same date for the one it has.
    fn modified(&mut self, file: usize, modified: UnixSeconds) -> Option<UnixSeconds> {
        let capped = self.options.source_date_epoch.map_or(modified, |most| modified.min(most));
        if capped > self.options.now {
            self.summary.warnings.push(Warning::FromTheFuture(self.path(file)));
            return None;
        }
        Some(capped).filter(|&modified| modified >= MODIFIED_MIN)
    }

    fn note_slow(&mut self, file: usize, encoding: Duration) {
        let slowest = &self.summary.slowest;
        if slowest.len() == SLOWEST && slowest.last().is_some_and(|last| last.encoding >= encoding)
        {
            return;
        }
        let place = slowest.partition_point(|slow| slow.encoding >= encoding);
        let path = self.path(file);
        self.summary.slowest.insert(place, Slow { path, encoding });
        self.summary.slowest.truncate(SLOWEST);
    }

    /// Returns the report of where the bytes are. The resources are in the order of their keys.
    fn report(&mut self, resources: &[Resource], keys: &[&[u8]]) -> BuildReport {
        let assets = std::mem::take(&mut self.assets);
        let file = |((resource, key), assets): ((&Resource, &&[u8]), _)| {
            let body = self.contents.body(resource.content)?;
            let forms = resource.list.and_then(|list| self.contents.forms(resource.content, list));
            let coded = forms.unwrap_or_default().iter();
            Some(FileReport {
                key: (*key).into(),
                essence: self.media(resource).essence,
                bytes: self.writer.bytes_of(body),
                coded: coded.map(|form| (form.coding, self.writer.bytes_of(form.body))).collect(),
                content: resource.content.number(),
                assets,
            })
        };
        BuildReport { files: resources.iter().zip(keys).zip(assets).filter_map(file).collect() }
    }

    /// Ends the archive. The facts about the build in its meta section depend on the input alone.
    fn close(mut self) -> Result<(Summary, W, Vec<File>), BuildError> {
        let overrides: Vec<String> =
            self.options.codings_for.iter().map(ToString::to_string).collect();
        let facts = [
            ("generator", concat!("pinion ", env!("CARGO_PKG_VERSION")).to_owned()),
            ("codings", coding_options::list(&self.options.codings)),
            ("codings-for", overrides.join(" ")),
            ("files", self.summary.files.to_string()),
            ("source-bytes", self.summary.source_bytes.to_string()),
            ("repeated-files", self.summary.repeated_files.to_string()),
            ("repeated-bytes", self.summary.repeated_bytes.to_string()),
        ];
        let compat = self.options.compat_80s.then_some((COMPAT_FACT, COMPAT_80S));
        let include = self.options.include.iter().map(|pattern| (INCLUDE_FACT, pattern.as_str()));
        let facts = facts.iter().map(|(key, value)| (*key, value.as_str()));
        let facts = facts.chain(include).chain(compat);
        // A line cannot hold every pattern.
        let can_be_kept = |value: &str| !value.is_empty() && !value.contains(char::is_control);
        let facts: Vec<(&str, &str)> = facts.filter(|(_, value)| can_be_kept(value)).collect();
        let (written, out) = self.writer.finish(&facts)?;
        self.summary.archive_bytes = written.total_bytes;
        self.summary.digest = written.digest;
        self.summary.warnings.sort_unstable();
        Ok((self.summary, out, self.externals))
    }

    fn path(&self, file: usize) -> PathBuf {
        let key = self.files.get(file).map(|file| relative(&file.key)).unwrap_or_default();
        Path::new(self.content).join(key)
    }
}

/// Copies a large file; the inner error is the file's. A part of it that was copied before it
/// turned out to be changing stays in the archive as a gap.
fn stream<W: Write + Seek>(
    writer: &mut Writer<W>,
    digest: &Digest,
    stamp: SourceStamp,
    mut source: OpenSource,
) -> Result<Result<BodyRef, Reason>, BuildError> {
    let file = match source.rewind() {
        Ok(file) => file,
        Err(reason) => return Ok(Err(reason)),
    };
    let body = streamed(writer.body_from(digest, stamp.bytes, file))?;
    Ok(body.and_then(|body| source.check_unchanged().map(|()| body)))
}

/// Separates the errors: the inner error is the file's.
fn streamed(body: Result<BodyRef, WriteError>) -> Result<Result<BodyRef, Reason>, BuildError> {
    match body {
        Ok(body) => Ok(Ok(body)),
        Err(WriteError::Read(error)) => Ok(Err(Reason::Unreadable(error))),
        Err(WriteError::BodyChanged) => Ok(Err(Reason::Changed)),
        Err(error) => Err(error.into()),
    }
}

//! Results of the workers, in the order of the list → the archive.
//!
//! Contents are stored as they come, each once. A resource is a content *with* a media type: equal
//! bytes under another type share the stored bytes, but not fields, tag or codings. Entries are
//! written at the end, when it is known which files there are (`entries`).

mod entries;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::time::Duration;

use pinion_archive::{BodyRef, Digest, External, WriteError, Writer};
use pinion_http::coding::Coding;
use pinion_http::date::UnixSeconds;

use crate::encode::Encoded;
use crate::error::{BuildError, Problem, Reason};
use crate::fields::Fields;
use crate::limits::SLOWEST;
use crate::media::{MediaType, is_packed};
use crate::options::Options;
use crate::report::{FileReport, Report};
use crate::rules::Rules;
use crate::source::{Source, Stamp};
use crate::summary::{CodingSummary, Slow, Summary, Warning};
use crate::walk::{SourceFile, relative};
use crate::work::{Body, Codings, Product};

/// An archive that is being written.
pub(crate) struct Assembly<'a, W: Write + Seek> {
    options: &'a Options,
    files: &'a [SourceFile],
    rules: &'a Rules,
    writer: Writer<W>,
    fields: Fields<'a>,
    contents: Vec<Content>,
    by_digest: HashMap<Digest, usize>,
    resources: Vec<Resource>,
    externals: Vec<File>,
    /// For a report: what each resource loads.
    assets: Vec<Vec<Box<[u8]>>>,
    pub(crate) summary: Summary,
}

/// A content and its stored forms.
struct Content {
    identity: Stored,
    /// Its codings that were worth keeping; None as long as only files of a type that is not
    /// encoded have it.
    codings: Option<Vec<Stored>>,
}

/// Stored bytes.
#[derive(Clone, Copy)]
struct Stored {
    coding: Coding,
    digest: Digest,
    body: BodyRef,
}

/// A file that is part of the archive.
struct Resource {
    /// Its number in the list of files.
    file: usize,
    content: usize,
    media: MediaType,
    /// Whether the codings of its content are its own too.
    encoded: bool,
    modified: Option<UnixSeconds>,
}

impl<'a, W: Write + Seek> Assembly<'a, W> {
    pub(crate) fn new(
        options: &'a Options,
        files: &'a [SourceFile],
        rules: &'a Rules,
        out: W,
    ) -> Result<Assembly<'a, W>, BuildError> {
        let mut fields = Fields::new(options, &rules.fields.rules)?;
        let mut writer = Writer::new(out)?;
        fields.write_generated(&mut writer)?;
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
            writer,
            fields,
            contents: Vec::new(),
            by_digest: HashMap::new(),
            resources: Vec::new(),
            externals: Vec::new(),
            assets: Vec::new(),
            summary: Summary {
                codings: CodingSummary::none_of(&options.codings),
                ..Summary::default()
            },
        })
    }

    /// Takes the result of the next file.
    pub(crate) fn take(
        &mut self,
        file: usize,
        product: Result<Option<Product>, Reason>,
    ) -> Result<(), BuildError> {
        let problem = match product {
            Ok(Some(product)) => self.resource(file, product)?.err(),
            Ok(None) => None,
            Err(reason) => Some(reason),
        };
        if let Some(reason) = problem {
            self.summary.problems.push(Problem { path: self.path(file), reason });
        }
        Ok(())
    }

    /// Stores what a file brought. The inner error is the file's.
    fn resource(
        &mut self,
        file: usize,
        product: Product,
    ) -> Result<Result<(), Reason>, BuildError> {
        let Product { media, archive, digest, stamp, body, codings, encoding, assets } = product;
        let encoded = !matches!(codings, Codings::Untried);
        if matches!(body, Body::Streamed(_)) && !is_packed(media.essence) {
            self.summary.warnings.push(Warning::TooLargeToEncode(self.path(file)));
        }
        let content = match self.content(digest, stamp, body, codings)? {
            Ok(content) => content,
            Err(reason) => return Ok(Err(reason)),
        };
        if archive {
            self.summary.warnings.push(Warning::Archive(self.path(file)));
        }
        let modified = self.modified(file, stamp.modified);
        self.resources.push(Resource { file, content, media, encoded, modified });
        if self.options.report {
            self.assets.push(assets);
        }
        self.summary.files += 1;
        self.summary.source_bytes += stamp.bytes;
        if encoding.as_nanos() > 0 {
            self.note_slow(file, encoding);
        }
        Ok(Ok(()))
    }

    /// The number of a content, stored if it is new.
    fn content(
        &mut self,
        digest: Digest,
        stamp: Stamp,
        body: Body,
        codings: Codings,
    ) -> Result<Result<usize, Reason>, BuildError> {
        let known = self.by_digest.get(&digest).copied();
        let content = if let Some(known) = known {
            self.summary.repeated_files += 1;
            self.summary.repeated_bytes += stamp.bytes;
            known
        } else {
            let body = match self.identity(&digest, stamp, body)? {
                Ok(body) => body,
                Err(reason) => return Ok(Err(reason)),
            };
            let identity = Stored { coding: Coding::Identity, digest, body };
            self.by_digest.insert(digest, self.contents.len());
            self.contents.push(Content { identity, codings: None });
            self.contents.len() - 1
        };
        let Some(Content { codings: stored, .. }) = self.contents.get_mut(content) else {
            unreachable!("the number is that of a content in the list");
        };
        match (codings, stored) {
            (Codings::Tried(encoded), stored @ None) => {
                let kept = store_codings(&mut self.writer, &mut self.summary, stamp, &encoded)?;
                *stored = Some(kept);
            }
            (Codings::Earlier, None) => unreachable!("the file that claimed it came earlier"),
            (Codings::Tried(_) | Codings::Earlier, Some(stored)) => {
                let repeated: u64 = stored.iter().map(|stored| stored.body.bytes()).sum();
                self.summary.repeated_bytes += repeated;
            }
            (Codings::Untried, _) => {}
        }
        Ok(Ok(content))
    }

    /// Stores the content itself.
    fn identity(
        &mut self,
        digest: &Digest,
        stamp: Stamp,
        body: Body,
    ) -> Result<Result<BodyRef, Reason>, BuildError> {
        match body {
            Body::Held(content) => Ok(Ok(self.writer.body(digest, &content)?)),
            Body::Streamed(source) => stream(&mut self.writer, digest, stamp, source),
            Body::External(source) => {
                let modified_ns = stamp.modified_in_ns();
                let body = self.writer.external(External { bytes: stamp.bytes, modified_ns })?;
                self.externals.push(source.into_file());
                self.summary.external_files += 1;
                Ok(Ok(body))
            }
        }
    }

    /// The modification time to tell clients: capped by `SOURCE_DATE_EPOCH`, and none when it lies
    /// in the future, which RFC 9110 §8.8.2.1 forbids to send.
    fn modified(&mut self, file: usize, modified: UnixSeconds) -> Option<UnixSeconds> {
        let capped = self.options.source_date_epoch.map_or(modified, |most| modified.min(most));
        if capped > self.options.now {
            self.summary.warnings.push(Warning::FromTheFuture(self.path(file)));
            return None;
        }
        Some(capped)
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

    /// Where the bytes are. The resources are in the order of their keys.
    fn report(&mut self, resources: &[Resource], keys: &[&[u8]]) -> Report {
        let assets = std::mem::take(&mut self.assets);
        let file = |((resource, key), assets): ((&Resource, &&[u8]), _)| {
            let content = self.contents.get(resource.content)?;
            let codings = content.codings.as_deref().filter(|_| resource.encoded);
            let coded = codings.unwrap_or_default().iter();
            Some(FileReport {
                key: (*key).into(),
                essence: resource.media.essence,
                bytes: content.identity.body.bytes(),
                coded: coded.map(|stored| (stored.coding, stored.body.bytes())).collect(),
                content: resource.content,
                assets,
            })
        };
        Report { files: resources.iter().zip(keys).zip(assets).filter_map(file).collect() }
    }

    /// Ends the archive. What its meta section tells about the build depends on the input alone.
    fn close(mut self) -> Result<(Summary, W, Vec<File>), BuildError> {
        let codings: Vec<String> = self.options.codings.iter().map(ToString::to_string).collect();
        let facts = [
            ("generator", concat!("pinion ", env!("CARGO_PKG_VERSION")).to_owned()),
            ("codings", codings.join(",")),
            ("files", self.summary.files.to_string()),
            ("source-bytes", self.summary.source_bytes.to_string()),
            ("repeated-files", self.summary.repeated_files.to_string()),
            ("repeated-bytes", self.summary.repeated_bytes.to_string()),
        ];
        let facts: Vec<(&str, &str)> =
            facts.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let (written, out) = self.writer.finish(&facts)?;
        self.summary.archive_bytes = written.total_bytes;
        self.summary.digest = written.digest;
        self.summary.warnings.sort_unstable();
        Ok((self.summary, out, self.externals))
    }

    fn path(&self, file: usize) -> PathBuf {
        self.files.get(file).map(|file| relative(&file.key)).unwrap_or_default()
    }
}

/// Copies a large file; the inner error is the file's. A part of it that was copied before it
/// turned out to be changing stays in the archive as a gap.
fn stream<W: Write + Seek>(
    writer: &mut Writer<W>,
    digest: &Digest,
    stamp: Stamp,
    mut source: Source,
) -> Result<Result<BodyRef, Reason>, BuildError> {
    let file = match source.rewind() {
        Ok(file) => file,
        Err(reason) => return Ok(Err(reason)),
    };
    match writer.body_from(digest, stamp.bytes, file) {
        Ok(body) => Ok(source.check_unchanged().map(|()| body)),
        Err(WriteError::Read(error)) => Ok(Err(Reason::Unreadable(error))),
        Err(WriteError::BodyChanged) => Ok(Err(Reason::Changed)),
        Err(error) => Err(error.into()),
    }
}

fn store_codings<W: Write + Seek>(
    writer: &mut Writer<W>,
    summary: &mut Summary,
    stamp: Stamp,
    encoded: &[Encoded],
) -> Result<Vec<Stored>, WriteError> {
    let mut kept = Vec::with_capacity(encoded.len());
    for Encoded { coding, digest, stored } in encoded {
        let body = writer.body(digest, stored)?;
        kept.push(Stored { coding: *coding, digest: *digest, body });
        if let Some(count) = summary.codings.iter_mut().find(|count| count.coding == *coding) {
            count.bodies += 1;
            count.identity_bytes += stamp.bytes;
            count.stored_bytes += stored.len() as u64;
        }
    }
    Ok(kept)
}

//! Listings of folders: made on all cores when all files are known, written at the end.

use std::io::{Seek, Write};

use bytes::Bytes;
use pinion_archive::{Digest, NewEntry, WriteError};
use pinion_http::date::UnixSeconds;

use super::entries::{RedirectPaths, entry};
use super::{Assembly, NEVER, NO_FILE, Resource};
use crate::encode::Encoders;
use crate::error::BuildError;
use crate::listing::{self, ListedFile, Listing};
use crate::media_type::MediaType;
use crate::ordered_thread_pool;
use crate::path_aliases::{self, UrlPlan};
use crate::process_file::{BuildState, FileCodings};
use crate::progress::Progress;
use crate::response_fields::Purpose;
use crate::rules::EntryVerdict;

/// The media type of a listing for browsers.
const PAGE: MediaType = MediaType { essence: "text/html", utf8: true };
/// The media type of a listing for clients that prefer JSON.
const JSON: MediaType = MediaType { essence: "application/json", utf8: false };

/// Memory that a listing takes for each file below its folder: a row of the page and one of the
/// array, with names of usual length.
const ROW_BYTES: u64 = 384;

/// A form of a listing.
struct MadeListing {
    media: MediaType,
    bytes: Bytes,
    digest: Digest,
    codings: FileCodings,
}

impl<W: Write + Seek> Assembly<'_, W> {
    /// Makes and stores the listings of all folders that have one, when every file was taken.
    pub(crate) fn list_folders(
        &mut self,
        state: &BuildState<'_>,
        workers: usize,
        progress: &dyn Progress,
    ) -> Result<(), BuildError> {
        if !self.options.listings {
            return Ok(());
        }
        let files = self.files;
        let all: Vec<ListedFile<'_>> = self
            .resources
            .iter()
            .map(|resource| ListedFile {
                key: files.get(resource.file as usize).map_or(&[][..], |file| &file.key),
                bytes: self.contents.body(resource.content).map_or(0, |b| self.writer.bytes_of(b)),
                modified: resource.modified(),
            })
            .collect();
        let keys: Vec<&[u8]> = all.iter().map(|file| file.key).collect();
        let plan = path_aliases::plan(&keys, self.options.conventions(self.rules));
        let mut number = 0;
        let public = |_: &ListedFile<'_>| {
            number += 1;
            !plan.is_hidden(number - 1)
        };
        let public: Vec<ListedFile<'_>> = all.into_iter().filter(public).collect();
        let below = |folder: &[u8]| {
            let start = public.partition_point(|file| file.key < folder);
            let rest = public.get(start..).unwrap_or_default();
            let count = rest.partition_point(|file| file.key.starts_with(folder));
            rest.get(..count).unwrap_or_default()
        };
        let costs: Vec<u64> =
            plan.listings.iter().map(|folder| below(folder).len() as u64 * ROW_BYTES).collect();
        ordered_thread_pool::in_order(
            &costs,
            crate::limits::WINDOW_MIN_BYTES,
            workers,
            Encoders::default,
            |encoders, number| {
                let folder = plan.listings.get(number).copied().unwrap_or_default();
                let listing = Listing::new(folder, below(folder).iter().copied());
                let make = |(media, bytes): (MediaType, Vec<u8>)| {
                    let bytes = Bytes::from(bytes);
                    let (digest, codings) = state.made(encoders, folder, media, &bytes);
                    MadeListing { media, bytes, digest, codings }
                };
                let forms = [(PAGE, listing::page(&listing)), (JSON, listing::json(&listing))];
                (listing.modified(), forms.map(make))
            },
            |_, (modified, forms)| {
                let [page, json] = forms.map(|form| self.made(form, modified));
                self.listings.push([page?, json?]);
                if progress.cancelled() { Err(BuildError::Cancelled) } else { Ok(()) }
            },
        )
    }

    /// Stores a form of a listing.
    fn made(
        &mut self,
        made: MadeListing,
        modified: Option<UnixSeconds>,
    ) -> Result<Resource, WriteError> {
        let MadeListing { media, bytes, digest, codings } = made;
        let known = self.contents.find(self.writer.known(&digest), &digest);
        let content = match known {
            Some(known) => known,
            None => {
                let body = self.writer.body(&digest, &bytes)?;
                self.contents.add(body, digest)?
            }
        };
        let list = self.codings(content, bytes.len() as u64, codings)?;
        // A file that is gone makes no listing newer. Without a tag that would reveal this, no date
        // can be sent.
        let modified = modified.filter(|_| self.options.etags).unwrap_or(NEVER);
        let media = self.number_of(media)?;
        Ok(Resource { file: NO_FILE, content, media, list, modified, by_content: false })
    }

    /// Writes the entries of all folders that are listed.
    pub(super) fn listings(
        &mut self,
        plan: &UrlPlan<'_>,
        paths: Option<&RedirectPaths<'_>>,
    ) -> Result<(), WriteError> {
        let listings = std::mem::take(&mut self.listings);
        for (folder, [page, json]) in plan.listings.iter().copied().zip(&listings) {
            let verdict = paths.map_or(EntryVerdict::Keep, |paths| paths.verdict(folder));
            if let EntryVerdict::Replace(number) = verdict {
                let rules = self.rules;
                if let Some(rule) = rules.redirects.get(number) {
                    self.redirect(rule, folder)?;
                }
                continue;
            }
            let changes = self.fields.changes.of_path(folder);
            let forms = self.representations(page, Purpose::Listing, changes)?;
            let rules_first = verdict == EntryVerdict::RulesFirst;
            let page = entry(folder, b"", page.modified(), &forms);
            self.writer.entry(&NewEntry { rules_first, has_variant: true, ..page })?;
            let forms = self.representations(json, Purpose::Listing, changes)?;
            self.writer.variant(&entry(folder, b"", json.modified(), &forms))?;
            self.summary.listings += 1;
        }
        self.summary.entries += plan.listings.len() as u64;
        Ok(())
    }
}

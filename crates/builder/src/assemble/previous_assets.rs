//! Assets of earlier releases that the site no longer has: a page that was loaded before a switch
//! still finds its files.
//!
//! An asset that is carried over has the same response as before, with its fields and codings,
//! copied as stored. It is no file of the site: every path of the site, and every rule that is an
//! entry, comes before it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io::{Seek, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pinion_archive::{
    Archive, BodyDigests, Damage, ETag, Entry, EntryKind, NewEntry, NewRepresentation, NewShared,
    PreviousAssets, Scratch, SharedBlock, SharedId, WriteError,
};
use pinion_http::date::UnixSeconds;

use super::Assembly;
use super::entries::RedirectPaths;
use crate::error::BuildError;
use crate::fingerprint::{self, NamedFile};
use crate::path_aliases::UrlPlan;
use crate::rules::{EntryVerdict, SitePaths};
use crate::walk::name_filter::NameFilter;
use crate::walk::name_globs::Globs;
use crate::warning::Warning;

/// Archives of earlier releases.
#[derive(Clone, Copy, Default)]
pub struct Earlier<'a> {
    /// The path and the content of each.
    pub archives: &'a [(&'a Path, Archive<'a>)],
    /// The number of builds for which an asset is carried over.
    pub keep: u16,
    /// Files that are assets too, although their names do not change with their content.
    pub also: Option<&'a Globs>,
}

/// An asset to be carried over.
struct CarriedAsset {
    /// The number of builds that have carried it over, this one included.
    age: u16,
    /// The rank of its archive.
    archive: usize,
}

/// An asset whose bodies are stored.
pub(super) struct StoredAsset {
    path: Box<[u8]>,
    age: u16,
    rules_first: bool,
    forms: StoredForms,
}

struct StoredForms {
    modified: Option<UnixSeconds>,
    stored: Vec<NewRepresentation>,
}

impl<W: Write + Seek> Assembly<'_, W> {
    /// Stores all assets that are carried over, but for their entries.
    pub(super) fn assets_of(
        &mut self,
        earlier: &Earlier<'_>,
        names: &NameFilter,
        keys: &[&[u8]],
        plan: &UrlPlan<'_>,
        paths: Option<&RedirectPaths<'_>>,
    ) -> Result<Vec<StoredAsset>, BuildError> {
        if earlier.archives.is_empty() {
            return Ok(Vec::new());
        }
        let site = SitePaths::of(keys, plan, self.options);
        let by_rules: HashSet<Vec<u8>> =
            paths.map(RedirectPaths::entries).into_iter().flatten().collect();
        let pages = plan.fallbacks.iter().filter(|page| page.status == 200);
        let pages: HashSet<&[u8]> = pages.map(|page| page.folder).collect();
        let is_taken = |path: &[u8]| {
            // `/a` leads to a folder `/a/` that responds.
            let folder = [path, b"/"].concat();
            // Those that are hidden too.
            keys.binary_search(&path).is_ok()
                || by_rules.contains(path)
                || site.has(path)
                || site.slash_redirects && (site.has(&folder) || pages.contains(folder.as_slice()))
        };
        let mut assets = BTreeMap::new();
        // Read once for each archive: the section is hashed as a whole.
        let mut digests = Vec::with_capacity(earlier.archives.len());
        for (rank, (path, archive)) in earlier.archives.iter().enumerate() {
            let damaged = |damage| previous(path, damage);
            let of_bodies = archive.digests().map_err(damaged)?;
            let names_of = assets_in(archive, &of_bodies, &self.immutable, earlier.also);
            let names_of = names_of.map_err(damaged)?;
            let known = archive.previous().map_err(damaged)?;
            for path in &names_of {
                let file = Path::new(OsStr::from_bytes(path.get(1..).unwrap_or_default()));
                let age = age_of(&known, path);
                if age <= earlier.keep && !is_taken(path) && names.may_be_part(file) {
                    take(&mut assets, path, CarriedAsset { age, archive: rank });
                }
            }
            digests.push((of_bodies, names_of));
        }
        // All matching assets have been met: the paths of the site itself are matched too.
        let unused = earlier.also.into_iter().flat_map(Globs::unused);
        let unused = unused.map(|pattern| Warning::UnusedPrevious(pattern.into()));
        self.summary.warnings.extend(unused);
        let mut stored = Vec::new();
        for (path, CarriedAsset { age, archive }) in assets {
            let verdict = paths.map_or(EntryVerdict::Keep, |paths| paths.verdict(&path));
            // A forced rule is walked where there is no entry.
            if matches!(verdict, EntryVerdict::Replace(_)) {
                continue;
            }
            let rules_first = verdict == EntryVerdict::RulesFirst;
            let Some((digests, names)) = digests.get(archive) else { continue };
            let Some((place, archive)) = earlier.archives.get(archive) else { continue };
            let found = self.forms_of(archive, digests, &path, names);
            let found = found.map_err(|error| match error {
                CopyError::Damage(damage) => previous(place, damage),
                CopyError::Build(error) => error,
            })?;
            stored.extend(found.map(|forms| StoredAsset { path, age, rules_first, forms }));
        }
        Ok(stored)
    }

    /// Writes their entries.
    pub(super) fn take_over(&mut self, assets: &[StoredAsset]) -> Result<(), WriteError> {
        for StoredAsset { path, age, rules_first, forms } in assets {
            let asset = super::entries::entry(path, b"", forms.modified, &forms.stored);
            self.writer.entry(&NewEntry { rules_first: *rules_first, ..asset })?;
            self.writer.previous(path, *age);
            let bytes = forms.stored.iter().map(|form| self.writer.bytes_of(form.body));
            self.summary.previous_bytes += bytes.sum::<u64>();
            self.summary.previous_assets += 1;
            self.summary.entries += 1;
        }
        Ok(())
    }

    /// Copies the bodies and fields of one entry.
    fn forms_of(
        &mut self,
        archive: &Archive<'_>,
        digests: &BodyDigests<'_>,
        path: &[u8],
        assets: &BTreeSet<Box<[u8]>>,
    ) -> Result<Option<StoredForms>, CopyError> {
        let mut scratch = Scratch::new();
        let Some(entry) = archive.find(path, &mut scratch)? else { return Ok(None) };
        // A damaged archive can have two records of one path; its index decides which one responds.
        if !is_file(&entry) || !assets.contains(entry.path()) {
            return Ok(None);
        }
        let mut forms = Vec::new();
        for form in entry.representations() {
            let Some((digest, body)) = digests.sound_body(archive, &form)? else { return Ok(None) };
            let shared = self.shared(&archive.shared(form.shared())?)?;
            let Some(shared) = shared else { return Ok(None) };
            let body = self.writer.body(&digest, body).map_err(BuildError::from)?;
            let etag = ETag(*form.etag());
            forms.push(NewRepresentation { coding: form.coding(), shared, body, etag });
        }
        Ok(Some(StoredForms { modified: entry.modified(), stored: forms }))
    }

    /// Returns the same block in this archive; `None` for one that is no text, which no build
    /// writes.
    fn shared(&mut self, block: &SharedBlock<'_>) -> Result<Option<SharedId>, BuildError> {
        let full = texts(block.without_type());
        let not_modified = texts(block.not_modified);
        let (Some(fields), Some(not_modified)) = (full, not_modified) else { return Ok(None) };
        let Ok(media_type) = str::from_utf8(block.media_type()) else { return Ok(None) };
        let content_type = Some(media_type).filter(|media_type| !media_type.is_empty());
        let (role, status) = (block.role, block.status);
        let new =
            NewShared { role, status, content_type, fields: &fields, not_modified: &not_modified };
        Ok(Some(self.writer.shared(&new)?))
    }
}

/// The reason why an asset was not copied.
enum CopyError {
    /// Its archive is damaged.
    Damage(Damage),
    /// The new one cannot be written.
    Build(BuildError),
}

impl From<Damage> for CopyError {
    fn from(damage: Damage) -> CopyError {
        CopyError::Damage(damage)
    }
}

impl From<BuildError> for CopyError {
    fn from(error: BuildError) -> CopyError {
        CopyError::Build(error)
    }
}

fn previous(path: &Path, damage: Damage) -> BuildError {
    BuildError::Previous { path: path.to_owned(), damage }
}

/// Records an asset; of one that several archives have, the youngest is taken, and of those the
/// first.
fn take(assets: &mut BTreeMap<Box<[u8]>, CarriedAsset>, path: &[u8], asset: CarriedAsset) {
    match assets.get_mut(path) {
        Some(known) if known.age <= asset.age => {}
        Some(known) => *known = asset,
        None => drop(assets.insert(path.into(), asset)),
    }
}

/// Returns how many builds will have carried an asset on with the next one.
fn age_of(known: &PreviousAssets<'_>, path: &[u8]) -> u16 {
    known.age(path).unwrap_or(0).saturating_add(1)
}

/// Returns the paths of the assets of an archive: files whose names change with their content,
/// decided as for a folder with all the files of the archive, and those that `also` matches.
fn assets_in(
    archive: &Archive<'_>,
    digests: &BodyDigests<'_>,
    immutable: &Globs,
    also: Option<&Globs>,
) -> Result<BTreeSet<Box<[u8]>>, Damage> {
    let mut files: Vec<EarlierFile<'_>> = Vec::new();
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry()? {
        let Some(form) = entry.representation(0).filter(|_| is_file(&entry)) else { continue };
        let media_type = archive.shared(form.shared())?.media_type();
        let essence = media_type.split(|&byte| byte == b';').next().unwrap_or_default();
        let essence = str::from_utf8(essence).unwrap_or_default().trim();
        let is_also = also.is_some_and(|globs| globs.is_match(entry.path()));
        let (_, name) = fingerprint::split_name(entry.path());
        let is_asset = fingerprint::is_asset(name, essence);
        if is_also || is_asset || immutable.is_match(entry.path()) {
            files.push(EarlierFile { path: entry.path().into(), essence, is_also });
        }
    }
    let named =
        files.iter().map(|EarlierFile { path, essence, .. }| NamedFile { key: path, essence });
    let decided = fingerprint::decide(named, immutable);
    let mut found = BTreeSet::new();
    for (EarlierFile { path, essence, is_also }, decided) in files.into_iter().zip(decided) {
        if is_also || decided || is_proven(archive, digests, &path, essence)? {
            found.insert(path);
        }
    }
    Ok(found)
}

/// A file of an earlier archive that may be an asset.
struct EarlierFile<'a> {
    path: Box<[u8]>,
    /// Its media type without parameters.
    essence: &'a str,
    /// Whether it is one by its pattern.
    is_also: bool,
}

/// Returns whether the content of an asset proves its name.
fn is_proven(
    archive: &Archive<'_>,
    digests: &BodyDigests<'_>,
    path: &[u8],
    essence: &str,
) -> Result<bool, Damage> {
    if !fingerprint::may_be_named_by_content(path, essence) {
        return Ok(false);
    }
    let mut scratch = Scratch::new();
    let entry = archive.find(path, &mut scratch)?;
    let Some(form) = entry.and_then(|entry| entry.representation(0)) else { return Ok(false) };
    let body = digests.sound_body(archive, &form)?;
    Ok(body.is_some_and(|(_, body)| fingerprint::is_named_by_content(path, essence, body)))
}

/// Returns whether an entry is a file under its own path.
fn is_file(entry: &Entry<'_>) -> bool {
    entry.kind() == EntryKind::Resource
        && entry.status() == 200
        && entry.path().first() == Some(&b'/')
        && entry.path().last() != Some(&b'/')
        && entry.target().is_none()
        && !entry.has_variant()
        && entry.representation(0).is_some()
}

/// Returns the lines of a block as names and values.
fn texts(lines: &[u8]) -> Option<Vec<(&str, &str)>> {
    let lines = str::from_utf8(lines).ok()?;
    lines.split_terminator("\r\n").map(|line| line.split_once(": ")).collect()
}

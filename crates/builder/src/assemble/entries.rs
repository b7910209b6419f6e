//! Writes the end of an archive: its paths, the response of each, and its fields.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use pinion_archive::limits::{ERROR_PAGE_MAX_BYTES, FALLBACK_DEPTH_MAX};
use pinion_archive::{Digest, ETag, EntryKind, NewEntry, NewRepresentation, WriteError};
use pinion_http::content_coding::Coding;
use pinion_http::date::UnixSeconds;
use pinion_http::error_page::STATUSES;

use super::{Assembly, Earlier, Resource};
use crate::assemble::stored_contents::ContentForm;
use crate::error::BuildError;
use crate::fingerprint::{self, NamedFile};
use crate::media_type::MediaType;
use crate::path_aliases::{self, FallbackPage, UrlPlan};
use crate::response_fields::{FieldBlock, Purpose};
use crate::rules::redirects::Redirect;
use crate::rules::{
    ChangesId, CompiledRedirects, EntryVerdict, Rules, SitePaths, as_new_field_rule, as_new_rule,
};
use crate::summary::{Fingerprinted, Shadowed, Summary};
use crate::walk::found_files::relative;
use crate::walk::name_filter::NameFilter;
use crate::warning::Warning;

/// The redirects and the paths of the site that they are compared with.
pub(super) struct RedirectPaths<'s> {
    compiled: CompiledRedirects<'s>,
    site: SitePaths<'s>,
}

/// A file whose paths are being written.
struct ServedFile<'f> {
    resource: &'f Resource,
    key: &'f [u8],
    purpose: Purpose,
    /// The representations of its last path: most paths have the same fields.
    forms: Option<(ChangesId, Vec<NewRepresentation>)>,
}

impl RedirectPaths<'_> {
    /// Returns the verdict about the entry of a path that the site has.
    pub(super) fn verdict(&self, path: &[u8]) -> EntryVerdict {
        self.compiled.verdict(path, &self.site)
    }

    /// Returns the paths at which rules respond as entries.
    pub(super) fn entries(&self) -> Vec<Vec<u8>> {
        let placed = self.compiled.place(&self.site);
        placed.entries.into_iter().map(|(path, _)| path).collect()
    }
}

impl<'a, W: Write + Seek> Assembly<'a, W> {
    /// Writes entries and everything else.
    pub(crate) fn finish(
        mut self,
        earlier: &Earlier<'_>,
        names: &NameFilter,
    ) -> Result<(Summary, W, Vec<File>), BuildError> {
        let resources = std::mem::take(&mut self.resources);
        let files = self.files;
        let key = |resource: &Resource| {
            files.get(resource.file as usize).map_or(&[][..], |file| &file.key)
        };
        let keys: Vec<&[u8]> = resources.iter().map(key).collect();
        let plan = path_aliases::plan(&keys, self.options.conventions(self.rules));
        self.summary.report = self.options.report.then(|| self.report(&resources, &keys));
        let rules: &'a Rules = self.rules;
        let paths = (!rules.redirects.is_empty()).then(|| RedirectPaths {
            compiled: CompiledRedirects::new(&rules.redirects),
            site: SitePaths::of(&keys, &plan, self.options),
        });
        let assets = self.assets_of(earlier, names, &keys, &plan, paths.as_ref())?;
        let rules_files = self.store_rules_files()?;
        self.writer.end_bodies()?;
        let fingerprinted = self.fingerprinted(&resources, &keys);
        let mut aliases = plan.aliases.iter().peekable();
        for (number, (resource, key)) in resources.iter().zip(&keys).enumerate() {
            if plan.is_hidden(number) {
                continue;
            }
            let purpose = match fingerprinted.get(number) {
                Some(true) => Purpose::Fingerprinted,
                _ => Purpose::Page,
            };
            let mut served = ServedFile { resource, key, purpose, forms: None };
            self.write_entry(&mut served, key, paths.as_ref())?;
            while let Some((_, alias)) = aliases.next_if(|(file, _)| *file == number) {
                self.write_entry(&mut served, alias, paths.as_ref())?;
            }
        }
        for fallback in &plan.fallbacks {
            if let Some(resource) = resources.get(fallback.file) {
                self.fallback(resource, *fallback)?;
            }
        }
        for &(status, file) in &plan.errors {
            if let Some(resource) = resources.get(file) {
                self.error_page(resource, status)?;
            }
        }
        self.listings(&plan, paths.as_ref())?;
        self.single_page(&resources, &keys)?;
        self.rules_files(&rules_files)?;
        if let Some(paths) = &paths {
            self.write_rules(paths)?;
        }
        for rule in &rules.fields {
            as_new_field_rule(rule, |rule| self.writer.field_rule(rule)).transpose()?;
        }
        self.take_over(&assets)?;
        self.warn_of_second_pages(&plan, &resources, &keys);
        self.summary.aliases = plan.aliases.len() as u64;
        self.summary.entries += (resources.len() - plan.hidden.len() + plan.aliases.len()) as u64;
        self.summary.field_rules = self.rules.fields.len() as u64;
        self.summary.shadowed = shadowed(self.content, &plan, &keys);
        self.close()
    }

    /// Warns about pages of errors that other pages come before.
    fn warn_of_second_pages(&mut self, plan: &UrlPlan<'_>, resources: &[Resource], keys: &[&[u8]]) {
        for &second in &plan.second {
            let first = keys.get(second).and_then(|key| plan.before_second(key));
            let pages = resources.get(second).zip(first.and_then(|first| resources.get(first)));
            if let Some((page, by)) = pages {
                let (page, by) = (self.path(page.file as usize), self.path(by.file as usize));
                self.summary.warnings.push(Warning::SecondFallback { page, by });
            }
        }
    }

    /// Decides whose names change with their content, and counts them.
    fn fingerprinted(&mut self, resources: &[Resource], keys: &[&'a [u8]]) -> Vec<bool> {
        let file = |(resource, key): (&Resource, &&'a [u8])| NamedFile {
            key,
            essence: self.media(resource).essence,
        };
        let files = resources.iter().zip(keys).map(file);
        let mut decided = fingerprint::decide(files, &self.immutable);
        for (decided, resource) in decided.iter_mut().zip(resources) {
            *decided |= resource.by_content;
        }
        self.summary.fingerprinted = Fingerprinted::of(self.content, &decided, keys);
        let unused = self.immutable.unused();
        let unused = unused.map(|pattern| Warning::UnusedImmutable(pattern.into()));
        self.summary.warnings.extend(unused);
        decided
    }

    /// Writes the entry of a path at which a file responds.
    fn write_entry(
        &mut self,
        served: &mut ServedFile<'_>,
        path: &[u8],
        paths: Option<&RedirectPaths<'_>>,
    ) -> Result<(), WriteError> {
        let ServedFile { resource, key, purpose, forms } = served;
        let verdict = paths.map_or(EntryVerdict::Keep, |paths| paths.verdict(path));
        if let EntryVerdict::Replace(number) = verdict {
            let rules = self.rules;
            return rules.redirects.get(number).map_or(Ok(()), |rule| self.redirect(rule, path));
        }
        let changes = self.fields.changes.of_path(path);
        if !matches!(forms, Some((known, _)) if *known == changes) {
            *forms = Some((changes, self.representations(resource, *purpose, changes)?));
        }
        let forms = forms.as_ref().map_or(&[][..], |(_, forms)| forms);
        let target = if path == *key { Vec::new() } else { path_aliases::escaped(key) };
        let entry = entry(path, &target, resource.modified(), forms);
        let rules_first = verdict == EntryVerdict::RulesFirst;
        self.writer.entry(&NewEntry { rules_first, ..entry })
    }

    /// Writes the entry of a path at which a rule responds.
    pub(super) fn redirect(&mut self, rule: &Redirect, path: &[u8]) -> Result<(), WriteError> {
        let (kind, shared) = if rule.is_redirect() {
            let changes = self.fields.changes.of_path(path);
            let shared = self.fields.redirect(&mut self.writer, rule.status, changes)?;
            (EntryKind::Redirect, Some(shared))
        } else {
            (EntryKind::Rewrite, None)
        };
        self.writer.entry(&NewEntry {
            kind,
            status: rule.status,
            path,
            target: rule.only_target().unwrap_or_default(),
            keeps_query: rule.keeps_query,
            rules_first: false,
            has_variant: false,
            modified: None,
            shared,
            representations: &[],
        })
    }

    /// Writes the page for missing resources of a folder.
    fn fallback(
        &mut self,
        resource: &Resource,
        FallbackPage { folder, status, .. }: FallbackPage<'_>,
    ) -> Result<(), BuildError> {
        let depth = folder.iter().filter(|&&byte| byte == b'/').count() - 1;
        if depth > FALLBACK_DEPTH_MAX {
            let path = self.path(resource.file as usize);
            self.summary.warnings.push(Warning::NotFoundTooDeep(path));
            return Ok(());
        }
        let purpose = if status == 200 { Purpose::Page } else { Purpose::NotFound };
        let changes = self.fields.changes.of_folder(folder);
        let representations = self.representations(resource, purpose, changes)?;
        let page = entry(folder, b"", resource.modified(), &representations);
        self.writer.fallback(&NewEntry { status, ..page })?;
        self.summary.not_found_pages += 1;
        Ok(())
    }

    /// Writes the page of an error.
    fn error_page(&mut self, resource: &Resource, status: u16) -> Result<(), BuildError> {
        let path = || self.path(resource.file as usize);
        let bytes = self.contents.body(resource.content).map(|body| self.writer.bytes_of(body));
        if bytes.is_none_or(|bytes| bytes > ERROR_PAGE_MAX_BYTES) {
            let path = path();
            self.summary.warnings.push(Warning::ErrorPageTooLarge(path));
            return Ok(());
        }
        if !STATUSES.contains(&status) {
            let path = path();
            self.summary.warnings.push(Warning::ErrorPageUnused(path));
        }
        let changes = self.fields.changes.of_folder(b"/");
        let forms = self.representations(resource, Purpose::Error(status), changes)?;
        let page = entry(b"/", b"", resource.modified(), &forms);
        self.writer.error_page(&NewEntry { status, ..page })?;
        self.summary.error_pages += 1;
        Ok(())
    }

    /// Writes the page for navigations to missing resources.
    fn single_page(&mut self, resources: &[Resource], keys: &[&[u8]]) -> Result<(), BuildError> {
        let Some(file) = &self.options.single_page else { return Ok(()) };
        let key = path_aliases::of_path(file);
        let found = keys.binary_search(&&*key).ok().and_then(|number| resources.get(number));
        let resource = found.ok_or_else(|| BuildError::SinglePage(file.clone()))?;
        let changes = self.fields.changes.of_folder(b"/");
        let representations = self.representations(resource, Purpose::Navigation, changes)?;
        self.writer.single_page(&entry(b"/", b"", resource.modified(), &representations))?;
        Ok(())
    }

    /// Keeps the rules files, so that the archive can become the folder again.
    fn store_rules_files(&mut self) -> Result<Vec<NewRepresentation>, WriteError> {
        let changes = self.fields.changes.none();
        let mut forms = Vec::with_capacity(self.rules.files.len());
        for text in self.rules.files.values() {
            let digest = Digest::of(text);
            let body = self.writer.body(&digest, text)?;
            let media = MediaType::of(b"/rules.txt", text);
            let (purpose, coding) = (Purpose::Page, Coding::Identity);
            let block = FieldBlock { media, coding, varies: false, purpose, changes };
            let (shared, content_type) = self.fields.id(&mut self.writer, block)?;
            let etag = ETag::of(&digest, content_type.as_bytes(), coding);
            forms.push(NewRepresentation { coding, shared, body, etag });
        }
        Ok(forms)
    }

    /// Writes their entries.
    fn rules_files(&mut self, forms: &[NewRepresentation]) -> Result<(), WriteError> {
        let mut files = self.rules.files.iter().zip(forms);
        files.try_for_each(|((key, _), form)| {
            self.writer.file(&entry(key, b"", None, std::slice::from_ref(form)))
        })
    }

    /// Writes the rules: the ones that are entries, and the ones that are walked.
    fn write_rules(&mut self, paths: &RedirectPaths<'_>) -> Result<(), WriteError> {
        let rules = &self.rules.redirects;
        let placed = paths.compiled.place(&paths.site);
        for (path, number) in &placed.entries {
            if let Some(rule) = rules.get(*number) {
                self.redirect(rule, path)?;
            }
        }
        for rule in placed.walked.iter().filter_map(|&number| rules.get(number)) {
            as_new_rule(rule, |rule| self.writer.rule(rule))?;
        }
        self.summary.entries += placed.entries.len() as u64;
        self.summary.redirect_rules = rules.len() as u64;
        self.summary.walked_rules = placed.walked.len() as u64;
        Ok(())
    }

    /// Returns the stored forms of a resource with their fields and tags.
    pub(super) fn representations(
        &mut self,
        resource: &Resource,
        purpose: Purpose,
        changes: ChangesId,
    ) -> Result<Vec<NewRepresentation>, WriteError> {
        let Some(body) = self.contents.body(resource.content) else { return Ok(Vec::new()) };
        let media = self.media(resource);
        let forms = resource.list.and_then(|list| self.contents.forms(resource.content, list));
        let forms = forms.unwrap_or_default();
        let varies = !forms.is_empty();
        let mut representations = Vec::with_capacity(1 + forms.len());
        let plain = ContentForm { coding: Coding::Identity, body };
        for &ContentForm { coding, body } in std::iter::once(&plain).chain(forms) {
            let block = FieldBlock { media, coding, varies, purpose, changes };
            let digest = body.external().and_then(|number| self.states.get(number as usize));
            let digest = digest.copied().unwrap_or_else(|| self.writer.digest_of(body));
            let (shared, content_type) = self.fields.id(&mut self.writer, block)?;
            let etag = ETag::of(&digest, content_type.as_bytes(), coding);
            representations.push(NewRepresentation { coding, shared, body, etag });
        }
        Ok(representations)
    }
}

pub(super) fn entry<'a>(
    path: &'a [u8],
    target: &'a [u8],
    modified: Option<UnixSeconds>,
    representations: &'a [NewRepresentation],
) -> NewEntry<'a> {
    NewEntry {
        kind: EntryKind::Resource,
        status: 200,
        path,
        target,
        keeps_query: false,
        rules_first: false,
        has_variant: false,
        modified,
        shared: None,
        representations,
    }
}

fn shadowed(content: &str, plan: &UrlPlan<'_>, keys: &[&[u8]]) -> Vec<Shadowed> {
    let path = |file: usize| {
        Path::new(content).join(keys.get(file).map(|key| relative(key)).unwrap_or_default())
    };
    let url = |key: &[u8]| {
        let mut url = PathBuf::from("/");
        url.push(relative(key));
        url
    };
    plan.shadowed
        .iter()
        .map(|&(key, file, by)| Shadowed { url: url(key), file: path(file), by: path(by) })
        .collect()
}

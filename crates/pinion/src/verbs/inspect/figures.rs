//! The figures of an archive, gathered in one walk over its entries.

use crate::archive_file::ArchiveFile;
use crate::listed_entry::ListedEntry;
use pinion_archive::{Archive, BodyLocation, Damage, Entry, SectionKind};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};

/// The number of the largest resources that are named.
const LARGEST: usize = 10;

/// The member names are part of the `--json` contract.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    /// The file, as named on the command line.
    pub(crate) archive: String,
    /// Its length.
    pub(crate) bytes: u64,
    /// The digest that identifies it, in hexadecimal digits.
    pub(crate) digest: String,
    /// The kinds of its paths.
    pub(crate) paths: Paths,
    /// The bodies in it.
    pub(crate) bodies: Bodies,
    /// The figures of each coding, by its token.
    pub(crate) codings: BTreeMap<&'static str, CodingFigures>,
    /// The figures of each media type, without parameters.
    pub(crate) media_types: BTreeMap<String, TypeFigures>,
    /// The largest first.
    pub(crate) largest: Vec<Large>,
    /// Redirects and rewrites that are no paths of their own.
    pub(crate) rules: RuleFigures,
    /// Scripts, templates and the files that they include.
    pub(crate) code: CodeFigures,
    /// Field blocks that representations have in common.
    pub(crate) shared_blocks: u64,
    /// The parts of the file, in its order.
    pub(crate) sections: Vec<SectionFigures>,
    /// The facts about its build.
    pub(crate) build: BTreeMap<String, String>,
}

/// Counts of paths.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Paths {
    /// All of them, fallback pages and variants apart.
    pub(crate) total: u64,
    /// Content under its own name.
    pub(crate) resources: u64,
    /// Further names of a resource.
    pub(crate) aliases: u64,
    /// Listings of folders.
    pub(crate) listings: u64,
    /// Responses with a Location.
    pub(crate) redirects: u64,
    /// Rewrites, private content, handlers.
    pub(crate) others: u64,
    /// Pages for missing resources.
    pub(crate) not_found_pages: u64,
    /// Pages in place of built-in ones.
    pub(crate) error_pages: u64,
    /// Pages that respond for missing resources with 200; the page of a single-page site is one.
    pub(crate) fallback_pages: u64,
    /// JSON forms of resources.
    pub(crate) variants: u64,
}

/// Stored bodies of every coding.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Bodies {
    /// Different ones.
    pub(crate) stored: u64,
    /// Their bytes.
    pub(crate) stored_bytes: u64,
    /// Bodies of resources that did not have to be stored again; further names are not counted.
    pub(crate) repeated: u64,
    /// Their bytes.
    pub(crate) repeated_bytes: u64,
    /// The number of different bodies that stay in files outside of the archive.
    pub(crate) external: u64,
}

/// The different bodies of one coding.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CodingFigures {
    /// Their number.
    pub(crate) bodies: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// The size of the same content without a coding.
    pub(crate) identity_bytes: u64,
}

/// The resources of one media type.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TypeFigures {
    /// Their number.
    pub(crate) resources: u64,
    /// Their bytes without a coding.
    pub(crate) bytes: u64,
}

/// One of the largest resources.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Large {
    /// Its bytes without a coding.
    pub(crate) bytes: u64,
    /// The path as a client asks for it.
    pub(crate) path: String,
}

/// The rules that are walked.
#[derive(Debug, Default, Serialize)]
pub(crate) struct RuleFigures {
    /// Their number.
    pub(crate) count: u64,
    /// The bytes of their section.
    pub(crate) bytes: u64,
}

/// The code of a dynamic site.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CodeFigures {
    /// The number of files.
    pub(crate) files: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

/// One part of the file.
#[derive(Debug, Serialize)]
pub(crate) struct SectionFigures {
    /// Its name.
    pub(crate) name: &'static str,
    /// The position, from the first byte of the file.
    pub(crate) offset: u64,
    /// Its length.
    pub(crate) bytes: u64,
}

impl Figures {
    /// Walks over the whole archive.
    ///
    /// # Errors
    /// The first damage met.
    pub(crate) fn of(file: &ArchiveFile) -> Result<Self, Damage> {
        let archive = file.view();
        let layout = archive.layout();
        let mut figures = Self {
            archive: file.path().to_string_lossy().into_owned(),
            bytes: layout.total_bytes(),
            digest: layout.digest().to_string(),
            paths: Paths::default(),
            bodies: Bodies::default(),
            codings: BTreeMap::new(),
            media_types: BTreeMap::new(),
            largest: Vec::new(),
            rules: rules(&archive),
            code: code(&archive)?,
            shared_blocks: layout.shared_count() as u64,
            sections: sections(&archive),
            build: BTreeMap::new(),
        };
        for (key, value) in archive.meta()? {
            figures.build.insert(key.to_owned(), value.to_owned());
        }
        let mut seen = HashSet::new();
        let mut largest = BinaryHeap::new();
        let mut entries = archive.entries();
        while let Some(entry) = entries.next_entry()? {
            let listed = ListedEntry::new(&archive, &entry)?;
            figures.count_path(&listed);
            figures.count_bodies(&archive, &entry, &listed, &mut seen)?;
            if listed.kind == "resource" && !listed.is_alias() {
                figures.count_type(&listed);
                let bytes = listed.bytes().unwrap_or_default();
                largest.push(Reverse(Large { bytes, path: listed.path }));
                if largest.len() > LARGEST {
                    largest.pop();
                }
            }
        }
        let largest = largest.into_sorted_vec();
        figures.largest = largest.into_iter().map(|Reverse(large)| large).collect();
        Ok(figures)
    }

    fn count_path(&mut self, listed: &ListedEntry) {
        let paths = &mut self.paths;
        let counter = match listed.kind {
            "not-found" => &mut paths.not_found_pages,
            "error-page" => &mut paths.error_pages,
            "fallback" | "single-page" => &mut paths.fallback_pages,
            "variant" => &mut paths.variants,
            "listing" => &mut paths.listings,
            "redirect" => &mut paths.redirects,
            "resource" if listed.is_alias() => &mut paths.aliases,
            "resource" => &mut paths.resources,
            _ => &mut paths.others,
        };
        *counter += 1;
        let Paths { resources, aliases, listings, redirects, others, .. } = *paths;
        let named = [resources, aliases, listings, redirects, others];
        paths.total = named.iter().sum();
    }

    fn count_bodies(
        &mut self,
        archive: &Archive<'_>,
        entry: &Entry<'_>,
        listed: &ListedEntry,
        seen: &mut HashSet<(Option<u32>, u64)>,
    ) -> Result<(), Damage> {
        for form in entry.representations() {
            let location = match archive.body_location(&form)? {
                BodyLocation::Archive(range) => (None, range.offset),
                BodyLocation::External(range) => (Some(range.file), range.offset),
            };
            // Bodies of no bytes share their offset with others.
            if form.bytes() == 0 || seen.insert(location) {
                let coding = self.codings.entry(form.coding().token()).or_default();
                coding.bodies += 1;
                coding.bytes += form.bytes();
                coding.identity_bytes += listed.bytes().unwrap_or_default();
                self.bodies.stored += 1;
                self.bodies.stored_bytes += form.bytes();
                self.bodies.external += u64::from(location.0.is_some());
            } else if listed.kind == "resource" && !listed.is_alias() {
                self.bodies.repeated += 1;
                self.bodies.repeated_bytes += form.bytes();
            }
        }
        Ok(())
    }

    fn count_type(&mut self, listed: &ListedEntry) {
        let media_type = listed.media_type.as_deref().unwrap_or("none");
        let plain = media_type.split(';').next().unwrap_or_default().trim_end();
        let figures = self.media_types.entry(plain.to_owned()).or_default();
        figures.resources += 1;
        figures.bytes += listed.bytes().unwrap_or_default();
    }
}

fn rules(archive: &Archive<'_>) -> RuleFigures {
    let mut sections = archive.layout().sections().iter();
    let section = sections.find(|section| section.kind == SectionKind::RULES);
    let count = archive.rules().len() as u64;
    RuleFigures { count, bytes: section.map_or(0, |section| section.bytes) }
}

fn code(archive: &Archive<'_>) -> Result<CodeFigures, Damage> {
    let code = archive.code()?;
    let bytes = code.iter().map(|(_, content)| content.len() as u64).sum();
    Ok(CodeFigures { files: code.len() as u64, bytes })
}

fn sections(archive: &Archive<'_>) -> Vec<SectionFigures> {
    let sections = archive.layout().sections().iter();
    sections
        .map(|section| SectionFigures {
            name: section.kind.name(),
            offset: section.offset,
            bytes: section.bytes,
        })
        .collect()
}

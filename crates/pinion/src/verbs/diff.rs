//! `pinion diff A B`: the changes for clients if archive B replaced A.

mod code;
mod fields;
mod json_output;
mod rules;
mod text_output;

use crate::archive_file::ArchiveFile;
use crate::failure::Failure;
use crate::settings::Diff;
use crate::terminal::TerminalStyle;
use pinion_archive::layout::VARIANT_PREFIX;
use pinion_archive::{CompareError, Comparison, Pair, PathChange};
use pinion_http::request_target;
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Lists the differences, for people or as JSON. Exit 1 if there are any and that was asked for.
pub(crate) fn run(diff: &Diff) -> Result<(), Failure> {
    let sides =
        Sides { before: ArchiveFile::open(&diff.before)?, after: ArchiveFile::open(&diff.after)? };
    let mut out = BufWriter::new(io::stdout().lock());
    let totals = if diff.json {
        json_output::write(&sides, &mut out)?
    } else {
        text_output::write(&sides, &mut out, TerminalStyle::of_stdout())?
    };
    out.flush()?;
    if diff.exit_code && !totals.same { Err(Failure::AlreadyReported) } else { Ok(()) }
}

/// The two archives.
struct Sides {
    before: ArchiveFile,
    after: ArchiveFile,
}

/// The differences, in figures. The member names are part of the `--json` contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Totals {
    /// Whether the two are the same file, byte for byte if both are sound.
    same: bool,
    added: u64,
    removed: u64,
    changed: u64,
    /// Paths with another time of modification and nothing else.
    touched: u64,
    /// Other names of resources above, that changed as these did.
    other_names: u64,
    unchanged: u64,
    /// Length of the contents above, as they were and as they are.
    content_bytes: BeforeAfter,
    archive_bytes: BeforeAfter,
}

/// A figure of both archives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct BeforeAfter {
    before: u64,
    after: u64,
}

/// A difference and its class in the lists.
struct FoundDifference<'s> {
    change: PathChange<'s>,
    class: Class,
    /// It says nothing that the resource of which this is another name does not say.
    follows: bool,
}

/// How a difference is listed and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Added,
    Removed,
    Changed,
    Touched,
}

impl Class {
    /// Returns its word in the JSON document.
    fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Touched => "touched",
        }
    }
}

impl Sides {
    /// Calls `visit` for each difference.
    fn each(
        &self,
        mut visit: impl FnMut(&FoundDifference<'_>) -> Result<(), Failure>,
    ) -> Result<Totals, Failure> {
        let (before, after) = (self.before.view(), self.after.view());
        let comparison = Comparison::new(before, after).map_err(|error| self.failure(error))?;
        let mut totals = Totals {
            same: before.layout().digest() == after.layout().digest(),
            archive_bytes: BeforeAfter {
                before: before.layout().total_bytes(),
                after: after.layout().total_bytes(),
            },
            ..Totals::default()
        };
        let mut pair = Pair::default();
        let unchanged = comparison.changes(|change| {
            let follows = self.follows(&comparison, change, &mut pair)?;
            let found = FoundDifference { change: *change, class: class(change), follows };
            totals.count(&found);
            visit(&found)
        });
        totals.unchanged = unchanged.map_err(|error| self.failure(error))?;
        Ok(totals)
    }

    /// Returns whether the path is another name of a resource on each side where it is there,
    /// always the same one, and that resource differs in the same way; or the JSON of a listing
    /// that differs too.
    fn follows(
        &self,
        comparison: &Comparison<'_>,
        change: &PathChange<'_>,
        pair: &mut Pair,
    ) -> Result<bool, Failure> {
        let path = change.entry().map_or(&[][..], |entry| entry.path());
        if let Some(folder) = path.strip_prefix(VARIANT_PREFIX) {
            let listing = comparison.at(folder, pair).map_err(|error| self.failure(error))?;
            return Ok(listing.is_some_and(|listing| {
                listing.before.is_some() == change.before.is_some()
                    && listing.after.is_some() == change.after.is_some()
                    && listing.aspects.only_modified() == change.aspects.only_modified()
            }));
        }
        let Some(target) = change.entry().and_then(|entry| entry.target()) else {
            return Ok(false);
        };
        let names = |entry: &pinion_archive::Entry<'_>| {
            entry.kind() == pinion_archive::EntryKind::Resource && entry.target() == Some(target)
        };
        if ![change.before, change.after].iter().flatten().all(names) {
            return Ok(false);
        }
        let mut decoded = Vec::new();
        let Ok(key) = request_target::decode_path(target, &mut decoded) else { return Ok(false) };
        let of_target = comparison.at(key, pair).map_err(|error| self.failure(error))?;
        Ok(of_target.is_some_and(|other| {
            other.aspects == change.aspects
                && other.before.is_some() == change.before.is_some()
                && other.after.is_some() == change.after.is_some()
        }))
    }

    fn failure(&self, error: CompareError<Failure>) -> Failure {
        match error {
            CompareError::Before(damage) => self.before.damaged(damage),
            CompareError::After(damage) => self.after.damaged(damage),
            CompareError::Visitor(failure) => failure,
        }
    }
}

fn class(change: &PathChange<'_>) -> Class {
    match (change.before, change.after) {
        (None, _) => Class::Added,
        (_, None) => Class::Removed,
        _ if change.aspects.only_modified() => Class::Touched,
        _ => Class::Changed,
    }
}

impl Totals {
    fn count(&mut self, found: &FoundDifference<'_>) {
        if found.follows {
            self.other_names += 1;
            return;
        }
        match found.class {
            Class::Added => self.added += 1,
            Class::Removed => self.removed += 1,
            Class::Changed => self.changed += 1,
            Class::Touched => self.touched += 1,
        }
        let bytes = |entry: Option<pinion_archive::Entry<'_>>| {
            entry.and_then(|entry| entry.representation(0)).map_or(0, |form| form.bytes())
        };
        self.content_bytes.before += bytes(found.change.before);
        self.content_bytes.after += bytes(found.change.after);
    }
}

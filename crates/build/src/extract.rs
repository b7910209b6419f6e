//! An archive becomes a folder that a build makes the same archive of.
//!
//! | Step | Module | Does |
//! |---|---|---|
//! | 1 | `layout` | entries → files with their names; what cannot be a file is named |
//! | 2 | `redirects` | redirects, rewrites and rules → the lines of `_redirects` |
//! | 3 | `tree` | files below one folder and nowhere else, whole or not at all |
//!
//! Every entry is looked at before anything is written. Further names of a file are left to the
//! next build, which makes them anew.

mod layout;
mod redirects;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinion_archive::limits::RULES_MAX;
use pinion_archive::{Archive, Damage, Digests, Entry, Fault, Part};

use crate::error::Shown;
use crate::progress::Progress;

use layout::Layout;
use tree::Tree;

pub use layout::{Refusal, RefusalReason};

/// The file of the rules.
const REDIRECTS: &[u8] = b"/_redirects";

/// How an archive becomes a folder.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtractOptions {
    /// Writes into a folder that is not empty: files of the same names are replaced, all others
    /// stay.
    pub force: bool,
    /// Writes what can be written; otherwise nothing is if something cannot.
    pub keep_going: bool,
}

/// Why no folder was made. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The archive is damaged.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// Entries that cannot become files, all of them.
    #[error("{} entries cannot become files", .0.len())]
    Refused(Vec<Refusal>),
    /// The folder has something in it, or is no folder.
    #[error("{}: {what}", Shown(path))]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// What is in the way.
        what: &'static str,
    },
    /// The system refuses.
    #[error("{}: {error}", Shown(path))]
    Output {
        /// The folder, or a file below it.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// [`Progress::cancelled`](crate::Progress::cancelled) said so.
    #[error("cancelled")]
    Cancelled,
}

/// What was written.
#[derive(Debug, Default)]
pub struct Extracted {
    /// Files, fallback pages included.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the files, those that are there for paths that do not exist.
    pub fallback_pages: u64,
    /// Files of rules, kept as they were written or made of redirects.
    pub rules_files: u64,
    /// Lines of a `_redirects` that was made of redirects, in an archive without such files.
    pub redirects: u64,
    /// Further names of files, which a build makes anew.
    pub aliases: u64,
    /// Assets of earlier releases, which are no files of the site and were left out.
    pub previous_assets: u64,
    /// What was written without, when it was told to keep going.
    pub refused: Vec<Refusal>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Writes the site of `archive` to the folder `out`, which is new or empty unless the options say
/// otherwise. A new folder appears under its name complete or not at all.
///
/// # Errors
/// [`ExtractError`]. With [`ExtractOptions::force`] files that were written before an error stay.
pub fn extract(
    archive: &Archive<'_>,
    out: &Path,
    options: ExtractOptions,
    progress: &dyn Progress,
) -> Result<Extracted, ExtractError> {
    let begin = Instant::now();
    let mut extraction = Extraction {
        archive: *archive,
        layout: Layout::new(*archive)?,
        digests: archive.digests()?,
        progress,
        lines: Lines::default(),
        extracted: Extracted::default(),
    };
    extraction.look()?;
    if !extraction.extracted.refused.is_empty() && !options.keep_going {
        return Err(ExtractError::Refused(extraction.extracted.refused));
    }
    let mut tree = Tree::create(out, options.force)?;
    extraction.write(&mut tree)?;
    tree.publish()?;
    Ok(Extracted { elapsed: begin.elapsed(), ..extraction.extracted })
}

struct Extraction<'a> {
    archive: Archive<'a>,
    layout: Layout<'a>,
    digests: Digests<'a>,
    progress: &'a dyn Progress,
    lines: Lines,
    extracted: Extracted,
}

/// What redirects and rules become in an archive that has kept no file of theirs.
#[derive(Default)]
struct Lines {
    /// Of `_redirects`.
    text: String,
    /// Redirects that no line can say.
    refused: Vec<Refusal>,
}

impl Extraction<'_> {
    /// Looks at every entry without writing anything.
    fn look(&mut self) -> Result<(), ExtractError> {
        let (mut files, mut bytes) = (0, 0);
        let mut has_file = false;
        let mut entries = self.archive.entries();
        while let Some(entry) = entries.next_entry()? {
            if redirects::is_line(&entry) {
                let line = redirects::line_of_entry(&self.archive, &entry)?;
                self.line(entry.path(), line);
                continue;
            }
            match self.layout.file_of(&entry)? {
                Ok(Some(_)) => {
                    files += 1;
                    bytes += entry.representation(0).map_or(0, |form| form.bytes());
                    has_file |= layout::is_redirects_file(&entry);
                }
                Ok(None) => {}
                Err(refusal) => self.extracted.refused.push(refusal),
            }
        }
        for rule in self.archive.rules().iter() {
            let line = redirects::line_of_rule(&rule);
            self.line(format!("rule {}", rule.number()).as_bytes(), Some(line));
        }
        if has_file {
            // The redirects are those of files that the archive has kept.
            (self.lines, self.extracted.redirects) = (Lines::default(), 0);
        }
        if self.extracted.redirects > RULES_MAX as u64 {
            let path = REDIRECTS.escape_ascii().to_string();
            self.lines.refused.push(Refusal { path, reason: RefusalReason::TooManyLines });
        }
        self.extracted.refused.append(&mut self.lines.refused);
        self.progress.found(files, bytes);
        Ok(())
    }

    fn line(&mut self, path: &[u8], line: Option<Result<String, &'static str>>) {
        match line {
            Some(Ok(line)) => {
                self.lines.text.push_str(&line);
                self.extracted.redirects += 1;
            }
            Some(Err(what)) => {
                let path = path.escape_ascii().to_string();
                self.lines.refused.push(Refusal { path, reason: RefusalReason::Line(what) });
            }
            None => {}
        }
    }

    fn write(&mut self, tree: &mut Tree) -> Result<(), ExtractError> {
        let mut entries = self.archive.entries();
        while let Some(entry) = entries.next_entry()? {
            match self.layout.file_of(&entry)? {
                Ok(Some(path)) => {
                    let body = self.body(&entry)?;
                    tree.write(&path, body, entry.modified())?;
                    let bytes = body.len() as u64;
                    let is_rules = layout::is_rules_file(&entry);
                    self.extracted.rules_files += u64::from(is_rules);
                    self.extracted.files += u64::from(!is_rules);
                    self.extracted.bytes += bytes;
                    self.extracted.fallback_pages += u64::from(layout::is_fallback(&entry));
                    self.progress.advanced(self.extracted.files, self.extracted.bytes);
                }
                _ if redirects::is_line(&entry) => {}
                _ if self.layout.is_previous(&entry) => self.extracted.previous_assets += 1,
                Ok(None) if layout::is_page(&entry) => self.extracted.aliases += 1,
                Ok(None) | Err(_) => {}
            }
            if self.progress.cancelled() {
                return Err(ExtractError::Cancelled);
            }
        }
        if !self.lines.text.is_empty() {
            tree.write(REDIRECTS, self.lines.text.as_bytes(), None)?;
            self.extracted.rules_files += 1;
        }
        Ok(())
    }

    /// The content of an entry, compared with its digest.
    fn body(&self, entry: &Entry<'_>) -> Result<&[u8], ExtractError> {
        let damage = |fault| Damage { part: Part::Record, offset: entry.offset(), fault };
        let form = entry.representation(0).ok_or(damage(Fault::Representations))?;
        let body = self.digests.sound_body(&self.archive, &form)?;
        body.map(|(_, body)| body).ok_or(damage(Fault::ExternalNumber).into())
    }
}

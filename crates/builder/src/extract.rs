//! An archive becomes a folder that a build makes the same archive of.
//!
//! | Step | Module | Does |
//! |---|---|---|
//! | 1 | `entry_paths` | entries → files with their names; others are reported |
//! | 2 | `redirects_file` | redirects, rewrites and rules → the lines of `_redirects` |
//! | 3 | `headers_file` | the fields of an imported archive → the lines of `_headers` |
//! | 4 | `build_switches` | which switches a build needs, so that it gives files no more names |
//! | 5 | `code_paths` | the code of a dynamic site → files, beside its content if there was some |
//! | 6 | `output_folder` | files below one folder and nowhere else, whole or not at all |
//!
//! Every entry is looked at before anything is written. Further names of a file are left to the
//! next build, which makes them anew.

mod build_switches;
mod code_paths;
mod entry_paths;
mod headers_file;
mod output_folder;
mod redirects_file;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinion_archive::limits::RULES_MAX;
use pinion_archive::{Archive, ArchivePart, BodyDigests, CodeSection, Damage, Entry, Fault};

use crate::error::ShownPath;
use crate::progress::Progress;

use build_switches::BuildSwitches;
use code_paths::CodePlaces;
use entry_paths::ExtractLayout;
use headers_file::{EntryResponses, Headers};
use output_folder::OutputFolder;

pub use entry_paths::{ExtractRefusal, RefusalReason};
pub use headers_file::{Difference, DifferenceReason};

/// The file of the rules.
const REDIRECTS: &[u8] = b"/_redirects";

/// The file of the fields.
const HEADERS: &[u8] = b"/_headers";

/// The options of an extraction.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtractOptions {
    /// Writes into a folder that is not empty: files of the same names are replaced, all others
    /// stay.
    pub force: bool,
    /// Writes as much as possible; otherwise one file that cannot be written stops everything.
    pub keep_going: bool,
}

/// The reason why no folder was made. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The archive is damaged.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// Entries that cannot become files, all of them.
    #[error("{} entries cannot become files", .0.len())]
    Refused(Vec<ExtractRefusal>),
    /// The folder has something in it, or is no folder.
    #[error("{}: {obstacle}", ShownPath(path))]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// The obstacle.
        obstacle: &'static str,
    },
    /// The system refuses.
    #[error("{}: {error}", ShownPath(path))]
    Output {
        /// The folder, or a file below it.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// [`crate::Progress::cancelled`] said so.
    #[error("cancelled")]
    Cancelled,
}

/// The result of an extraction.
#[derive(Debug, Default)]
pub struct Extracted {
    /// Files, fallback pages included.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of files for paths that do not exist.
    pub fallback_pages: u64,
    /// Files of rules, kept as they were written or made of redirects and fields.
    pub rules_files: u64,
    /// Lines of a `_redirects` that was made of redirects, in an archive without such files.
    pub redirects: u64,
    /// Code of a dynamic site.
    pub code: u64,
    /// Further names of files, which a build makes anew.
    pub aliases: u64,
    /// Assets of earlier releases, which are no files of the site and were left out.
    pub previous_assets: u64,
    /// The entries that were left out, when it was asked to keep going.
    pub refused: Vec<ExtractRefusal>,
    /// Flags without which a build would leave out files of the folder, or give files names that an
    /// imported archive does not have.
    pub flags: Vec<String>,
    /// The responses of an imported archive that a build gives otherwise in spite of all that.
    pub differences: Vec<Difference>,
    /// The time that it took.
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
    let code = archive.code()?;
    let mut extraction = ArchiveExtraction {
        archive: *archive,
        layout: ExtractLayout::new(*archive, &code)?,
        places: CodePlaces::of(&code),
        code,
        digests: archive.digests()?,
        progress,
        lines: Lines::default(),
        headers: String::new(),
        extracted: Extracted::default(),
    };
    extraction.check()?;
    if !extraction.extracted.refused.is_empty() && !options.keep_going {
        return Err(ExtractError::Refused(extraction.extracted.refused));
    }
    let mut output = OutputFolder::create(out, options.force)?;
    extraction.write(&mut output)?;
    output.publish()?;
    Ok(Extracted { elapsed: begin.elapsed(), ..extraction.extracted })
}

struct ArchiveExtraction<'a> {
    archive: Archive<'a>,
    layout: ExtractLayout<'a>,
    code: CodeSection,
    places: CodePlaces,
    digests: BodyDigests<'a>,
    progress: &'a dyn Progress,
    lines: Lines,
    /// The text of `_headers`.
    headers: String,
    extracted: Extracted,
}

/// The lines that are made of redirects and rules, for an archive that has kept no rules files.
#[derive(Default)]
struct Lines {
    /// Lines of `_redirects`: rules that come before every entry.
    first: String,
    /// The lines below.
    text: String,
    /// Redirects that no line can say.
    refused: Vec<ExtractRefusal>,
}

/// Files that will be written.
#[derive(Default)]
struct FileTotal {
    files: u64,
    bytes: u64,
}

impl FileTotal {
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

impl ArchiveExtraction<'_> {
    /// Checks every entry, rule and file of code without writing anything.
    fn check(&mut self) -> Result<(), ExtractError> {
        let (mut total, has_redirects_file) = self.check_entries()?;
        self.check_rules();
        if has_redirects_file {
            // The redirects are those of files that the archive has kept.
            (self.lines, self.extracted.redirects) = (Lines::default(), 0);
        }
        if self.extracted.redirects > RULES_MAX as u64 {
            let path = REDIRECTS.escape_ascii().to_string();
            self.lines.refused.push(ExtractRefusal { path, reason: RefusalReason::TooManyLines });
        }
        self.extracted.refused.append(&mut self.lines.refused);
        for (path, content) in self.code.iter() {
            match self.layout.code_of(&self.places, path, content)? {
                Ok(Some(_)) => total.add(content.len() as u64),
                Ok(None) => {}
                Err(refusal) => self.extracted.refused.push(refusal),
            }
        }
        self.progress.found(total.files, total.bytes);
        Ok(())
    }

    /// Checks the entries. Returns the number of files that they become, and whether one of these
    /// is a `_redirects`.
    fn check_entries(&mut self) -> Result<(FileTotal, bool), ExtractError> {
        let (mut total, mut has_redirects_file) = (FileTotal::default(), false);
        let imported = entry_paths::is_imported(&self.archive)?;
        self.extracted.flags = entry_paths::flags(&self.archive)?;
        let (mut responses, mut switches) = (EntryResponses::default(), BuildSwitches::default());
        let mut entries = self.archive.entries();
        while let Some(entry) = entries.next_entry()? {
            if redirects_file::is_line(&entry) {
                let line = redirects_file::line_of_entry(&self.archive, &entry)?;
                let line = self.line(entry.path(), line);
                self.lines.text.push_str(&line);
                if imported {
                    responses.take(&self.archive, &entry, None)?;
                }
                continue;
            }
            let file = match self.layout.file_of(&entry)? {
                Ok(file) => file,
                Err(refusal) => {
                    self.extracted.refused.push(refusal);
                    continue;
                }
            };
            if imported {
                responses.take(&self.archive, &entry, file.as_deref())?;
            }
            if let Some(file) = file {
                total.add(entry.representation(0).map_or(0, |form| form.bytes()));
                has_redirects_file |= entry_paths::is_redirects_file(&entry);
                self.places.take(&file);
                if imported && entry_paths::is_page(&entry) {
                    switches.take(&self.archive, &file)?;
                }
            }
        }
        if imported {
            self.extracted.flags.extend(switches.finish(&self.archive, &mut responses)?);
            let Headers { text, differences } = responses.headers(&self.archive)?;
            (self.headers, self.extracted.differences) = (text, differences);
        }
        Ok((total, has_redirects_file))
    }

    /// Makes lines of the rules that are no entries. The first matching line of a file counts, so
    /// rules that come before entries stand first.
    fn check_rules(&mut self) {
        let mut is_first = true;
        for rule in self.archive.rules().iter() {
            is_first &= rule.is_forced();
            let line = Some(redirects_file::line_of_rule(&rule));
            let line = self.line(format!("rule {}", rule.number()).as_bytes(), line);
            let lines = if is_first { &mut self.lines.first } else { &mut self.lines.text };
            lines.push_str(&line);
        }
    }

    /// Returns the line, counted; empty if there is none, or if no build would take it, which is
    /// noted.
    fn line(&mut self, path: &[u8], line: Option<Result<String, &'static str>>) -> String {
        let archive = self.archive;
        match line.map(|line| line.and_then(|line| redirects_file::readable(&archive, line))) {
            Some(Ok(line)) => {
                self.extracted.redirects += 1;
                line
            }
            Some(Err(problem)) => {
                let path = path.escape_ascii().to_string();
                self.lines
                    .refused
                    .push(ExtractRefusal { path, reason: RefusalReason::Line(problem) });
                String::new()
            }
            None => String::new(),
        }
    }

    fn write(&mut self, output: &mut OutputFolder) -> Result<(), ExtractError> {
        let mut entries = self.archive.entries();
        while let Some(entry) = entries.next_entry()? {
            match self.layout.file_of(&entry)? {
                Ok(Some(path)) => {
                    let body = self.body(&entry)?;
                    let bytes = body.len() as u64;
                    let is_rules = entry_paths::is_rules_file(&entry);
                    // For a file from 1970 a build gives no time either.
                    let modified = entry.modified().unwrap_or(0);
                    let modified = Some(modified).filter(|_| !is_rules);
                    output.write(&self.places.content(&path), body, modified)?;
                    self.extracted.rules_files += u64::from(is_rules);
                    self.extracted.files += u64::from(!is_rules);
                    self.extracted.bytes += bytes;
                    self.extracted.fallback_pages += u64::from(entry_paths::is_fallback(&entry));
                    self.progress.advanced(self.extracted.files, self.extracted.bytes);
                }
                _ if redirects_file::is_line(&entry) => {}
                _ if self.layout.is_previous(&entry) => self.extracted.previous_assets += 1,
                Ok(None) if entry_paths::is_page(&entry) => self.extracted.aliases += 1,
                Ok(None) | Err(_) => {}
            }
            if self.progress.cancelled() {
                return Err(ExtractError::Cancelled);
            }
        }
        self.write_code(output)?;
        let lines = [self.lines.first.as_str(), &self.lines.text].concat();
        if !lines.is_empty() {
            output.write(&self.places.content(REDIRECTS), lines.as_bytes(), None)?;
            self.extracted.rules_files += 1;
        }
        if !self.headers.is_empty() {
            output.write(&self.places.content(HEADERS), self.headers.as_bytes(), None)?;
            self.extracted.rules_files += 1;
        }
        Ok(())
    }

    /// Writes the code, which has no times of modification.
    fn write_code(&mut self, output: &mut OutputFolder) -> Result<(), ExtractError> {
        if let Some(folder) = self.places.folder() {
            // Without it, files beside it would be content.
            output.create_folder(folder)?;
        }
        for (path, content) in self.code.iter() {
            if let Ok(Some(file)) = self.layout.code_of(&self.places, path, content)? {
                output.write(&file, content, None)?;
                self.extracted.code += 1;
                self.extracted.bytes += content.len() as u64;
            }
        }
        Ok(())
    }

    /// Returns the content of an entry, compared with its digest.
    fn body(&self, entry: &Entry<'_>) -> Result<&[u8], ExtractError> {
        let damage = |fault| Damage { part: ArchivePart::Record, offset: entry.offset(), fault };
        let form = entry.representation(0).ok_or(damage(Fault::Representations))?;
        let body = self.digests.sound_body(&self.archive, &form)?;
        body.map(|(_, body)| body).ok_or(damage(Fault::ExternalNumber).into())
    }
}

//! The positions at which the rules of a site are written: in the rules files that its archive
//! keeps, and on the disk in those of a folder and of `--rules` and `--fields`.

use super::explanation::{FileLine, RuleShown};
use crate::listed_entry::ListedRule;
use crate::served_source::ServedSource;
use crate::settings::NamedSources;
use pinion_archive::layout::FILE_PREFIX;
use pinion_archive::{Archive, Damage, EntryKind, Rule};
use pinion_builder::rules::archived_rules::{FieldLine, KeptRules};
use pinion_builder::rules::redirects::Redirect;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The folder of the content, where code lies beside it.
const CONTENT_FOLDER: &str = "public_html";

/// The rules of a site and where they are written.
#[derive(Default)]
pub(super) struct RuleLines {
    kept: KeptRules,
    /// The texts of the files, by their keys.
    texts: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The folder of the site; none of an archive.
    folder: Option<PathBuf>,
    /// The files that make up the `_redirects` at the root.
    rules: Vec<PathBuf>,
    /// The files that make up its `_headers`.
    fields: Vec<PathBuf>,
}

impl RuleLines {
    /// Reads the rules files that an archive keeps.
    ///
    /// # Errors
    /// Damage of the archive.
    pub(super) fn of(
        archive: &Archive<'_>,
        source: &ServedSource,
        sources: &NamedSources,
    ) -> Result<RuleLines, Damage> {
        let mut texts = BTreeMap::new();
        let mut entries = archive.entries();
        while let Some(entry) = entries.next_entry()? {
            let Some(key) = entry.path().strip_prefix(FILE_PREFIX) else { continue };
            let form = entry.representations().next();
            let text = form.map(|form| archive.body(&form)).transpose()?.flatten();
            texts.insert(key.to_vec(), text.unwrap_or_default().to_vec());
        }
        let files = texts.iter().map(|(key, text)| (key.as_slice(), text.as_slice()));
        let (kept, is_folder) =
            (KeptRules::parse(files), matches!(source, ServedSource::Folder(_)));
        let named = |files: &[PathBuf]| if is_folder { files.to_vec() } else { Vec::new() };
        Ok(RuleLines {
            kept,
            folder: is_folder.then(|| source.path().to_owned()),
            rules: named(&sources.rules),
            fields: named(&sources.fields),
            texts,
        })
    }

    /// Returns a rule that requests are compared with, as it is written.
    pub(super) fn rule(&self, archive: &Archive<'_>, number: u32) -> Option<RuleShown> {
        let rule = archive.rules().get(number)?;
        let line = self.kept.line_of(archive.rules(), number);
        Some(line.map_or_else(|| unwritten(&rule), |line| self.shown(line)))
    }

    /// Returns the rule that has become an entry of the archive; `None` for an entry of an
    /// imported archive.
    pub(super) fn rule_of_entry(
        &self,
        path: &[u8],
        said: (EntryKind, u16, &[u8]),
    ) -> Option<(RuleShown, bool)> {
        let line = self.kept.line_of_entry(path, said)?;
        Some((self.shown(line), line.force))
    }

    /// Returns whether the site has rules for paths.
    pub(super) fn has_redirects(&self, archive: &Archive<'_>) -> bool {
        !archive.rules().is_empty() || !self.kept.has_no_redirects()
    }

    /// Returns the lines of `_headers` about a path, or about every path if it is not known, in the
    /// order in which they apply.
    pub(super) fn fields_about(&self, path: Option<&[u8]>, sent: Option<&[u8]>) -> Vec<FieldLine> {
        match path {
            Some(path) => self.kept.fields_about(path, sent),
            None => self.kept.fields_everywhere(),
        }
    }

    /// Returns where a line of the `_headers` at the root is written.
    pub(super) fn place_of_field(&self, line: usize) -> FileLine {
        let is_match = |key: &&Vec<u8>| key.starts_with(b"/_headers");
        let key = self.texts.keys().find(is_match).cloned().unwrap_or_default();
        self.place(Path::new(OsStr::from_bytes(key.get(1..).unwrap_or_default())), line)
    }

    fn shown(&self, rule: &Redirect) -> RuleShown {
        let FileLine { file, line } = self.place(&rule.file, rule.line);
        let key = [b"/", rule.file.as_os_str().as_bytes()].concat();
        let text = self.texts.get(&key).map(Vec::as_slice).unwrap_or_default();
        let text = text.split(|&byte| byte == b'\n').nth(rule.line - 1).unwrap_or_default();
        let text = String::from_utf8_lossy(text.trim_ascii());
        let words: Vec<&str> = text.split_whitespace().collect();
        RuleShown { file: Some(file), line: Some(line), text: words.join(" ") }
    }

    /// Returns the position at which a line of a kept file is written. The files that flags name
    /// are kept after the one of their kind at the root.
    fn place(&self, file: &Path, line: usize) -> FileLine {
        let named = match file.to_str() {
            Some(name) if name.starts_with("_redirects") => self.rules.as_slice(),
            Some(name) if name.starts_with("_headers") => self.fields.as_slice(),
            _ => &[],
        };
        let counts: Vec<usize> = named.iter().map(|file| lines_of_file(file)).collect();
        let key = [b"/", file.as_os_str().as_bytes()].concat();
        let all = self.texts.get(&key).map_or(0, |text| lines_of(text));
        let mut first = all.saturating_sub(counts.iter().sum());
        if line > first {
            for (named, count) in named.iter().zip(counts) {
                if line <= first + count {
                    let line = line - first;
                    return FileLine { file: named.display().to_string(), line };
                }
                first += count;
            }
        }
        FileLine { file: self.on_disk(file).display().to_string(), line }
    }

    /// Returns the name of the first file in a folder of the site that begins with one of these
    /// texts, in their order; `None` for an archive.
    pub(super) fn file_in(&self, folder: &[u8], beginnings: &[&str]) -> Option<Vec<u8>> {
        self.folder.as_ref()?;
        let below = folder.strip_prefix(b"/").unwrap_or(folder);
        let on_disk = self.on_disk(Path::new(OsStr::from_bytes(below)));
        let entries = fs::read_dir(on_disk).ok()?.flatten();
        let names: Vec<Vec<u8>> =
            entries.map(|entry| entry.file_name().as_bytes().to_vec()).collect();
        let named = |beginning: &&str| {
            names.iter().find(|name| name.starts_with(beginning.as_bytes())).cloned()
        };
        beginnings.iter().find_map(named)
    }

    /// Returns the path of a file of the folder; a file of an archive has only its name.
    fn on_disk(&self, file: &Path) -> PathBuf {
        let Some(folder) = &self.folder else { return file.to_owned() };
        let below = folder.join(CONTENT_FOLDER).join(file);
        if below.exists() { below } else { folder.join(file) }
    }
}

/// Returns a rule of an archive that keeps no file with it.
fn unwritten(rule: &Rule<'_>) -> RuleShown {
    let ListedRule { host, path, query, target, status, force } = ListedRule::new(rule);
    let host = host.map_or(String::new(), |host| format!("https://{host}"));
    let query: String = query.iter().map(|condition| format!(" {condition}")).collect();
    let force = if force { "!" } else { "" };
    RuleShown {
        file: None,
        line: None,
        text: format!("{host}{path}{query} {target} {status}{force}"),
    }
}

fn lines_of_file(file: &Path) -> usize {
    fs::read(file).map_or(0, |text| lines_of(&text))
}

/// Counts the lines of a text, the last one too if it has no end.
fn lines_of(text: &[u8]) -> usize {
    let ends = text.iter().filter(|&&byte| byte == b'\n').count();
    ends + usize::from(text.last().is_some_and(|&last| last != b'\n'))
}

//! The settings of the verbs that turn archives into something else.

use super::build::{content, content_flags, output};
use super::{BuildSettings, operand, path};
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::served_source::CONFIGURATION;
use std::path::{Path, PathBuf};

/// `pinion diff`.
#[derive(Debug)]
pub(crate) struct Diff {
    /// The archive as it was.
    pub(crate) before: PathBuf,
    /// The archive as it is going to be.
    pub(crate) after: PathBuf,
    /// Exit with 1 if they are not the same.
    pub(crate) exit_code: bool,
    /// `--json`
    pub(crate) json: bool,
}

/// `pinion extract`.
#[derive(Debug)]
pub(crate) struct Extract {
    /// The archive.
    pub(crate) file: PathBuf,
    /// The folder.
    pub(crate) output: PathBuf,
    /// Write into a folder that is not empty.
    pub(crate) force: bool,
    /// Write as much as possible.
    pub(crate) keep_going: bool,
    /// `--json`
    pub(crate) json: bool,
}

/// `pinion import`.
#[derive(Debug)]
pub(crate) struct Import {
    /// The archive of kawipiko, or the configuration of another server.
    pub(crate) file: PathBuf,
    /// The section of an ini file: `uwsgi.ini:production`.
    pub(crate) section: Option<String>,
    /// The archive or the configuration that is written.
    pub(crate) output: Option<PathBuf>,
    /// Replace a file that is no archive, or a configuration.
    pub(crate) force: bool,
    /// Flags that were given and have no effect on a configuration.
    pub(crate) archive_flags: Vec<&'static str>,
    /// The settings for the codings of bodies, and for the fields of responses.
    pub(crate) content: BuildSettings,
    /// `--json`
    pub(crate) json: bool,
}

impl Import {
    /// Returns whether the file is a configuration of another server, by its name.
    pub(crate) fn is_configuration(&self) -> bool {
        let extension = self.file.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("json" | "ini"))
    }

    /// Returns the file that is written; `None` if it has to be named.
    pub(crate) fn output(&self) -> Option<&Path> {
        let default = self.is_configuration().then_some(Path::new(CONFIGURATION));
        self.output.as_deref().or(default)
    }
}

pub(super) fn diff(low: &Low) -> Result<Diff, Failure> {
    Ok(Diff {
        before: operand(low, "A")?,
        after: operand(low, "B")?,
        exit_code: low.given("exit-code"),
        json: low.given("json"),
    })
}

pub(super) fn extract(low: &Low) -> Result<Extract, Failure> {
    let folder = path(low, "output")?;
    Ok(Extract {
        file: operand(low, "FILE")?,
        output: folder.ok_or_else(|| Failure::usage("say where the folder goes: -o public"))?,
        force: low.given("force"),
        keep_going: low.given("keep-going"),
        json: low.given("json"),
    })
}

/// Splits `uwsgi.ini:production`, unless a file has that name.
fn with_section(file: PathBuf) -> (PathBuf, Option<String>) {
    let parts = file.to_str().and_then(|text| text.rsplit_once(".ini:"));
    match parts.filter(|(_, section)| !section.is_empty() && !file.exists()) {
        Some((stem, section)) => (format!("{stem}.ini").into(), Some(section.to_owned())),
        None => (file, None),
    }
}

pub(super) fn import(low: &Low) -> Result<Import, Failure> {
    let (file, section) = with_section(operand(low, "FILE")?);
    Ok(Import {
        file,
        section,
        output: path(low, "output")?.map(|_| output(low)).transpose()?,
        force: low.given("force"),
        archive_flags: content_flags().filter(|flag| low.given(flag)).collect(),
        content: content(low)?,
        json: low.given("json"),
    })
}

//! The settings of `pinion build`, and of the conversion of a folder to an archive for any verb.

use super::{choice, field_value, number, operand, path, paths, read, row, single};
use crate::directive_value_parsers;
use crate::directives;
use crate::directives::verbs::Verb;
use crate::failure::Failure;
use crate::raw_settings::Low;
use pinion_builder::{CodingEffort, CodingLevel, CodingsFor};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// `pinion build`.
#[derive(Debug)]
pub(crate) struct Build {
    /// The folder.
    pub(crate) source: PathBuf,
    /// The archive.
    pub(crate) output: PathBuf,
    /// Replace a file that is no archive.
    pub(crate) force: bool,
    /// The file of the report.
    pub(crate) report: Option<PathBuf>,
    /// The settings of its content.
    pub(crate) content: BuildSettings,
    /// Look at the archive that is replaced.
    pub(crate) reuse: bool,
    /// More archives from which compressed bodies are reused.
    pub(crate) reuse_from: Vec<PathBuf>,
    /// Archives whose assets are carried over.
    pub(crate) previous: Vec<PathBuf>,
    /// The number of builds for which they are carried over.
    pub(crate) previous_keep: u16,
    /// Globs over paths of more files that are carried over.
    pub(crate) previous_for: Vec<String>,
    /// `--json`
    pub(crate) json: bool,
}

/// The sources of responses that flags of a folder name, for explanations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedSources {
    /// `--rules`
    pub(crate) rules: Vec<PathBuf>,
    /// `--fields`
    pub(crate) fields: Vec<PathBuf>,
    /// `--cache-control`
    pub(crate) cache_control: Option<String>,
}

/// The settings with which a folder becomes an archive.
#[derive(Clone, Debug, Default)]
pub(crate) struct BuildSettings {
    /// `None` when neither codings nor a level was given.
    pub(crate) codings: Option<Vec<CodingLevel>>,
    /// Other codings for some of the files.
    pub(crate) codings_for: Vec<CodingsFor>,
    /// Globs over paths below the folder.
    pub(crate) exclude: Vec<String>,
    /// Globs over paths that are published although their names are left out.
    pub(crate) include: Vec<String>,
    /// Folders of the site whose files are read for each request.
    pub(crate) live: Vec<String>,
    /// Globs over paths whose names change with their content.
    pub(crate) immutable: Vec<String>,
    /// The folder is that of a site of 80s.
    pub(crate) compat_80s: bool,
    /// Files with more redirects and rewrites.
    pub(crate) rules: Vec<PathBuf>,
    /// Files with more response fields.
    pub(crate) fields: Vec<PathBuf>,
    /// Leave out lines of rules files that are wrong.
    pub(crate) lax_rules: bool,
    /// The hosts of the site, by which its redirects are known that lead back to it.
    pub(crate) hosts: Vec<String>,
    /// Field value for resources without a fingerprint.
    pub(crate) cache_control: Option<String>,
    /// Leave the security fields out.
    pub(crate) no_security_fields: bool,
    /// Index files do not respond for their folders.
    pub(crate) no_index: bool,
    /// Folders without a response of their own are listed.
    pub(crate) listing: bool,
    /// Pages do not respond without their extension.
    pub(crate) no_clean_urls: bool,
    /// No redirect to the other slash form.
    pub(crate) no_slash_redirects: bool,
    /// No `ETag`.
    pub(crate) no_etag: bool,
    /// No `Cache-Control` except from `_headers`.
    pub(crate) no_cache_control: bool,
    /// The file for navigations to missing resources.
    pub(crate) single_page: Option<String>,
    /// Another server responds to paths that the site lacks.
    pub(crate) has_fallback_server: bool,
    /// Build without the files that cannot be read.
    pub(crate) keep_going: bool,
    /// Threads that compress.
    pub(crate) jobs: Option<NonZeroUsize>,
}

impl BuildSettings {
    /// Returns the sources of responses that flags name.
    pub(crate) fn named_sources(&self) -> NamedSources {
        NamedSources {
            rules: self.rules.clone(),
            fields: self.fields.clone(),
            cache_control: self.cache_control.clone(),
        }
    }
}

/// Returns the flags that [`BuildSettings`] is made of: those that `pinion build` and `pinion
/// serve` share.
pub(crate) fn content_flags() -> impl Iterator<Item = &'static str> {
    let rows = directives::of(Verb::Build).filter(|row| row.verbs.contains(&Verb::Serve));
    rows.map(|row| row.name)
}

/// Reads the output. An archive is written at many places of its file, which a pipe does not have.
pub(super) fn output(low: &Low) -> Result<PathBuf, Failure> {
    match path(low, "output")? {
        Some(path) if path.as_os_str() == "-" => {
            Err(Failure::usage("an archive cannot go to stdout; a file of that name is ./-"))
        }
        Some(path) => Ok(path),
        None => Err(Failure::usage("say where the archive goes: -o site.pinion")),
    }
}

pub(super) fn build(low: &Low) -> Result<Build, Failure> {
    for name in ["previous-keep", "previous-for"] {
        if low.given(name) && !low.given("previous") {
            return Err(Failure::usage(format!("--{name} has no effect without --previous")));
        }
    }
    Ok(Build {
        source: operand(low, "SRC")?,
        output: output(low)?,
        force: low.given("force"),
        report: path(low, "report")?,
        content: content(low)?,
        reuse: !low.given("no-reuse"),
        reuse_from: paths(low, "reuse")?,
        previous: paths(low, "previous")?,
        previous_keep: number(low, "previous-keep")?.unwrap_or_default(),
        previous_for: globs(low, "previous-for")?,
        json: low.given("json"),
    })
}

pub(super) fn content(low: &Low) -> Result<BuildSettings, Failure> {
    if low.given("cache-control") && low.given("no-cache-control") {
        return Err(Failure::usage(
            "--cache-control has no effect with --no-cache-control; leave out one of them",
        ));
    }
    let (codings, level) = codings(low)?;
    let mut codings_for = Vec::new();
    for text in low.values("codings-for") {
        let rule = |text: &str| directive_value_parsers::codings_for(text, level);
        codings_for.push(read(row("codings-for"), text, rule)?);
    }
    Ok(BuildSettings {
        codings,
        codings_for,
        exclude: globs(low, "exclude")?,
        include: globs(low, "include")?,
        live: Vec::new(),
        immutable: globs(low, "immutable")?,
        compat_80s: choice(low, "compat")? == "80s",
        rules: paths(low, "rules")?,
        fields: paths(low, "fields")?,
        lax_rules: low.given("lax-rules"),
        hosts: Vec::new(),
        cache_control: field_value(low, "cache-control")?,
        no_security_fields: low.given("no-security-headers"),
        no_index: low.given("no-index"),
        listing: low.given("listing"),
        no_clean_urls: low.given("no-clean-urls"),
        no_slash_redirects: low.given("no-slash-redirects"),
        no_etag: low.given("no-etag"),
        no_cache_control: low.given("no-cache-control"),
        single_page: single(low, "single-page", |text| Ok(text.to_owned()))?,
        has_fallback_server: false,
        keep_going: low.given("keep-going"),
        jobs: number(low, "jobs")?.and_then(NonZeroUsize::new),
    })
}

fn globs(low: &Low, name: &'static str) -> Result<Vec<String>, Failure> {
    low.values(name).map(|glob| read(row(name), glob, |glob| Ok(glob.to_owned()))).collect()
}

/// Reads the codings that were asked for, and the level of those that are named without one.
fn codings(low: &Low) -> Result<(Option<Vec<CodingLevel>>, CodingEffort), Failure> {
    let named = single(low, "codings", directive_value_parsers::codings)?;
    let level = match choice(low, "level")? {
        "fast" => Some(CodingEffort::Fast),
        "max" => Some(CodingEffort::Max),
        "best" => Some(CodingEffort::Best),
        _ => None,
    };
    if let (Some(named), Some(_)) = (&named, level)
        && !named.is_empty()
        && !low.given("codings-for")
        && named.iter().all(|coding| coding.level.is_some())
    {
        return Err(Failure::usage(
            "--level has no effect: every coding of --codings has a level of its own; leave out \
             one of them",
        ));
    }
    let at = level.unwrap_or_default();
    let named = named.map(|named| named.into_iter().map(|coding| coding.at(at)).collect());
    Ok((named.or_else(|| level.map(CodingEffort::codings)), at))
}

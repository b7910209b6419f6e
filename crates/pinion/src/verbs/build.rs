//! `pinion build SRC -o FILE`: a folder becomes an archive.

mod report;

use crate::archive_file::ArchiveFile;
use crate::build_options;
use crate::failure::{Failure, without_number};
use crate::lua_program_loader;
use crate::progress::Watcher;
use crate::settings::Build;
use crate::terminal::TerminalStyle;
use anyhow::{Context as _, anyhow};
use pinion_builder::{BuildError, Earlier, Globs, Options, REPORT_MARK, Summary, build_file_after};
use pinion_lua::script_quotas::Allowance;
use pinion_lua::shared_site_state::ScriptSite;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Bytes at the front of a report that have its mark: more than the language, the charset and the
/// viewport take, which stand before it.
const REPORT_HEAD_BYTES: u64 = 1024;

/// Builds, and reports the result.
pub(crate) fn run(build: &Build) -> Result<(), Failure> {
    let options = build_options::options(&build.content, Options::new)?;
    let options = Options {
        force: build.force,
        report: build.report.is_some(),
        reuse: build.reuse,
        reuse_from: build.reuse_from.clone(),
        check_code: Some(lua_program_loader::code_errors),
        ..options
    };
    let also = Globs::new(&build.previous_for)
        .map_err(|error| Failure::usage(format!("--previous-for: {error}")))?;
    if let Some(path) = &build.report {
        check_report(path, build)?;
    }
    let watcher = Watcher::new(build.json)?;
    let opened: Result<Vec<_>, _> = build.previous.iter().map(|p| ArchiveFile::open(p)).collect();
    let opened = opened?;
    let archives: Vec<_> = opened.iter().map(|file| (file.path(), file.view())).collect();
    let earlier = Earlier { archives: &archives, keep: build.previous_keep, also: Some(&also) };
    let result = build_file_after(earlier, &build.source, &options, &build.output, &watcher);
    watcher.clear();
    if let (Ok(summary), Some(path)) = (&result, &build.report) {
        // Once more: links may lead to files that exist only now.
        check_report(path, build)?;
        write_report(summary, &build.output, path)?;
    }
    match result {
        Ok(summary) if build.json => {
            let document = report::document(build, &summary, &code_warnings(build));
            writeln!(io::stdout().lock(), "{document}")?;
            Ok(())
        }
        Ok(summary) => {
            report::print(build, &summary, &code_warnings(build), TerminalStyle::of_stderr());
            Ok(())
        }
        // Editors open a position as it is printed, so that its file has to be a path from here.
        Err(error @ BuildError::Rules(_)) => {
            Err(build_options::failure(error).with_site(&build.source, None))
        }
        Err(error) => Err(build_options::failure(error)),
    }
}

/// Runs the code of the new archive once, and returns the warnings about it. An error is none of
/// the build: the server that starts the code may have a key and folders that it needs.
fn code_warnings(build: &Build) -> Vec<String> {
    let proven = || {
        let file = ArchiveFile::open(&build.output).ok()?;
        let (allowance, site) = (Allowance::default(), ScriptSite::default());
        lua_program_loader::of_archive(&file.view(), &build.source, allowance, &site).ok()?
    };
    proven().map(|proven| proven.warnings).unwrap_or_default()
}

/// Checks the file for the report: it replaces a report, an empty file, or by force another file. A
/// typing error must not cost a page of the site or an archive.
fn check_report(path: &Path, build: &Build) -> Result<(), Failure> {
    let shown = path.display();
    if is_same_place(path, &build.output) {
        let message = format!("--report: {shown} is the archive of -o; give another name");
        return Err(Failure::usage(message));
    }
    // Nothing there, or nothing that has content to lose.
    let is_free = fs::metadata(path).map_or(true, |found| !found.is_file() || found.len() == 0);
    if is_free || build.force {
        return Ok(());
    }
    let mut head = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
    file.take(REPORT_HEAD_BYTES).read_to_end(&mut head).with_context(|| format!("{shown}"))?;
    if head.windows(REPORT_MARK.len()).any(|bytes| bytes == REPORT_MARK.as_bytes()) {
        return Ok(());
    }
    Err(anyhow!(
        "{shown}: will not replace a file that is not a report; give another name with --report, \
         or replace it with --force"
    )
    .into())
}

/// Returns whether two paths lead to one name, which need not be there yet.
fn is_same_place(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        let in_place = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
        path.canonicalize().ok().or_else(in_place)
    };
    place(one).is_some_and(|place_of_one| Some(place_of_one) == place(other))
}

/// Writes the report. The archive is there already; without its report a part of the request was
/// not done.
fn write_report(summary: &Summary, output: &Path, path: &Path) -> Result<(), Failure> {
    let title = output.file_name().unwrap_or_default().to_string_lossy();
    let page = summary.report.as_ref().map(|report| report.page(&title, summary));
    let shown = path.display();
    let Err(error) = fs::write(path, page.unwrap_or_default()) else { return Ok(()) };
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "; create its folder first",
        _ => "",
    };
    let why = without_number(&error.to_string());
    Err(anyhow!("cannot write the report {shown}: {why}{advice}").into())
}

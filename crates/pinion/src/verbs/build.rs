//! `pinion build SRC -o FILE`: a folder becomes an archive.

mod report;

use crate::archive_file::ArchiveFile;
use crate::build_options;
use crate::failure::Failure;
use crate::progress::Watcher;
use crate::settings::Build;
use crate::terminal::Style;
use anyhow::Context as _;
use pinion_build::{Earlier, Globs, Options, Summary, build_file_after};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Builds, and tells what was built.
pub(crate) fn run(build: &Build) -> Result<(), Failure> {
    let options = build_options::options(&build.content, Options::new)?;
    let options = Options {
        force: build.force,
        report: build.report.is_some(),
        reuse: build.reuse,
        reuse_from: build.reuse_from.clone(),
        ..options
    };
    let also = Globs::new(&build.previous_for)
        .map_err(|error| Failure::usage(format!("--previous-for: {error}")))?;
    let watcher = Watcher::new(build.json)?;
    let opened: Result<Vec<_>, _> = build.previous.iter().map(|p| ArchiveFile::open(p)).collect();
    let opened = opened?;
    let archives: Vec<_> = opened.iter().map(|file| (file.path(), file.view())).collect();
    let earlier = Earlier { archives: &archives, keep: build.previous_keep, also: Some(&also) };
    let result = build_file_after(earlier, &build.source, &options, &build.output, &watcher);
    watcher.clear();
    if let (Ok(summary), Some(path)) = (&result, &build.report) {
        write_report(summary, &build.output, path)?;
    }
    match result {
        Ok(summary) if build.json => {
            writeln!(io::stdout().lock(), "{}", report::document(&build.output, &summary))?;
            Ok(())
        }
        Ok(summary) => {
            report::tell(&build.output, &summary, Style::of_stderr());
            Ok(())
        }
        Err(error) => Err(build_options::failure(error)),
    }
}

/// The archive is there already; without its report something was asked for and not done.
fn write_report(summary: &Summary, output: &Path, path: &Path) -> Result<(), Failure> {
    let title = output.file_name().unwrap_or_default().to_string_lossy();
    let page = summary.report.as_ref().map(|report| report.page(&title, summary));
    let written = fs::write(path, page.unwrap_or_default());
    Ok(written.with_context(|| format!("cannot write the report {}", path.display()))?)
}

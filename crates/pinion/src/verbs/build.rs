//! `pinion build SRC -o FILE`: a folder becomes an archive.

mod report;

use crate::build_options;
use crate::failure::Failure;
use crate::progress::Watcher;
use crate::settings::Build;
use crate::terminal::Style;
use pinion_build::{Options, build_file};
use std::io::{self, Write as _};

/// Builds, and tells what was built.
pub(crate) fn run(build: &Build) -> Result<(), Failure> {
    let options = build_options::options(&build.content, Options::new)?;
    let options = Options { force: build.force, ..options };
    let watcher = Watcher::new(build.json)?;
    let result = build_file(&build.source, &options, &build.output, &watcher);
    watcher.clear();
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

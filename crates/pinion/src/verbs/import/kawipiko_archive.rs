//! An archive of kawipiko becomes one of ours.

use crate::archive_file;
use crate::build_options;
use crate::failure::Failure;
use crate::json_failure_document::text;
use crate::progress::Watcher;
use crate::settings::Import;
use crate::terminal::{TerminalStyle, counted, size};
use anyhow::anyhow;
use pinion_builder::{ImportError, Imported, Leftover, Options, import_file};
use pinion_engine::stderr;
use serde_json::{Value, json};
use std::io::{self, Write as _};
use std::path::Path;

/// Makes the archive, and reports its content.
pub(super) fn run(import: &Import) -> Result<(), Failure> {
    let output = import.output();
    let output = output.ok_or_else(|| {
        let is_archive = import.file.extension().is_some_and(|extension| extension == "cdb");
        Failure::usage(if is_archive {
            "say where the archive goes: -o site.pinion"
        } else {
            "the name of the file says what it is: .cdb an archive of kawipiko, which needs \
             -o site.pinion; .json a configuration of NGINX Unit; .ini one of uWSGI"
        })
    })?;
    let options = build_options::options(&import.content, Options::new)?;
    let options = Options { force: import.force, ..options };
    let mapping = archive_file::map(&import.file)?;
    let watcher = Watcher::new(import.json)?;
    let result = import_file(mapping.bytes(), &options, output, &watcher);
    watcher.clear();
    match result {
        Ok(imported) if import.json => {
            writeln!(io::stdout().lock(), "{}", document(import, output, &imported))?;
            Ok(())
        }
        Ok(imported) => {
            print_report(output, &imported, TerminalStyle::of_stderr());
            Ok(())
        }
        Err(ImportError::Build(error)) => Err(build_options::failure(error)),
        Err(error) => Err(anyhow!("{}: {error}", import.file.display()).into()),
    }
}

fn print_report(output: &Path, imported: &Imported, style: TerminalStyle) {
    for leftover in &imported.leftovers {
        stderr::line(format_args!("{}: left out {leftover}", style.yellow("warning")));
    }
    let mut line = format!(
        "{}: {}, {} of contents, ",
        style.bold(output.display()),
        counted(imported.pages, "page"),
        size(imported.content_bytes),
    );
    for (number, noun) in [
        (imported.fallback_pages, "fallback page"),
        (imported.redirects, "redirect"),
        (imported.rules, "rule"),
    ] {
        if number > 0 {
            line.push_str(&format!("{}, ", counted(number, noun)));
        }
    }
    let seconds = imported.elapsed.as_secs_f64();
    line.push_str(&format!("archive {}, {seconds:.2} s", size(imported.archive_bytes)));
    stderr::line(format_args!("{line}"));
}

/// Returns the document. Members are added, never renamed or removed.
fn document(import: &Import, output: &Path, imported: &Imported) -> Value {
    json!({
        "archive": text(output),
        "imported": text(&import.file),
        "archive_bytes": imported.archive_bytes,
        "digest": imported.digest.to_string(),
        "pages": imported.pages,
        "aliases": imported.aliases,
        "fallback_pages": imported.fallback_pages,
        "redirects": imported.redirects,
        "rules": imported.rules,
        "contents": imported.contents,
        "content_bytes": imported.content_bytes,
        "left_out": imported.leftovers.iter().map(Leftover::to_string).collect::<Vec<_>>(),
        "seconds": imported.elapsed.as_secs_f64(),
    })
}

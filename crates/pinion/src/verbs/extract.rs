//! `pinion extract FILE -o DIR`: an archive becomes a folder again.

use crate::archive_file::ArchiveFile;
use crate::failure::Failure;
use crate::json_failure_document::text;
use crate::progress::Watcher;
use crate::settings::Extract;
use crate::terminal::{TerminalStyle, counted, size};
use anyhow::anyhow;
use pinion_builder::{
    Difference, ExtractError, ExtractOptions, ExtractRefusal, Extracted, extract,
};
use pinion_engine::stderr;
use serde_json::{Value, json};
use std::io::{self, Write as _};

/// Writes the folder, and reports the result.
pub(crate) fn run(settings: &Extract) -> Result<(), Failure> {
    let file = ArchiveFile::open(&settings.file)?;
    let options = ExtractOptions { force: settings.force, keep_going: settings.keep_going };
    let watcher = Watcher::new(settings.json)?;
    let result = extract(&file.view(), &settings.output, options, &watcher);
    watcher.clear();
    let extracted = result.map_err(|error| failure(&file, settings, error))?;
    if settings.json {
        writeln!(io::stdout().lock(), "{}", document(settings, &extracted))?;
    } else {
        print_report(settings, &extracted, TerminalStyle::of_stderr());
    }
    Ok(())
}

fn failure(file: &ArchiveFile, settings: &Extract, error: ExtractError) -> Failure {
    match error {
        ExtractError::Damage(damage) => file.damaged(damage),
        ExtractError::Refused(refused) => {
            for refusal in &refused {
                stderr::line(format_args!("pinion: {refusal}"));
            }
            let many = counted(refused.len() as u64, "path");
            let why = format!("nothing was written because of {many}");
            anyhow!("{why}; --keep-going writes all others").into()
        }
        ExtractError::Occupied { .. } if !settings.force => {
            anyhow!("{error}; give another name with -o, or replace it with --force").into()
        }
        ExtractError::Cancelled => anyhow!("cancelled; no folder was made").into(),
        error => anyhow!(error).into(),
    }
}

/// Responses that are named to people: a site whose files all have the same fault would fill the
/// screen.
const SHOWN_MAX: usize = 20;

fn print_report(settings: &Extract, extracted: &Extracted, style: TerminalStyle) {
    for refusal in &extracted.refused {
        stderr::line(format_args!("{}: left out {refusal}", style.yellow("warning")));
    }
    let (shown, more) = extracted.differences.split_at(extracted.differences.len().min(SHOWN_MAX));
    for difference in shown {
        stderr::line(format_args!("{}: {difference}", style.yellow("warning")));
    }
    if !more.is_empty() {
        let more = counted(more.len() as u64, "more path");
        stderr::line(format_args!("{}: and {more} (--json names all)", style.yellow("warning")));
    }
    if !extracted.flags.is_empty() {
        let flags = extracted.flags.join(" ");
        stderr::line(format_args!(
            "{}: for the same archive, build it with {flags}",
            style.dim("note")
        ));
    }
    if extracted.previous_assets > 0 {
        let assets = counted(extracted.previous_assets, "asset");
        stderr::line(format_args!("left out {assets} of earlier releases"));
    }
    let code = match extracted.code {
        0 => String::new(),
        code => format!("{} of code, ", counted(code, "file")),
    };
    stderr::line(format_args!(
        "{}: {}, {code}{}, {:.2} s",
        style.bold(settings.output.display()),
        counted(extracted.files, "file"),
        size(extracted.bytes),
        extracted.elapsed.as_secs_f64()
    ));
}

/// Returns the document. Members are added, never renamed or removed.
fn document(settings: &Extract, extracted: &Extracted) -> Value {
    let refusal = |refusal: &ExtractRefusal| refusal.to_string();
    let difference = |difference: &Difference| difference.to_string();
    json!({
        "archive": text(&settings.file),
        "folder": text(&settings.output),
        "files": extracted.files,
        "bytes": extracted.bytes,
        "code": extracted.code,
        "fallback_pages": extracted.fallback_pages,
        "aliases": extracted.aliases,
        "previous_assets": extracted.previous_assets,
        "build_flags": extracted.flags,
        "differences": extracted.differences.iter().map(difference).collect::<Vec<_>>(),
        "redirects": extracted.redirects,
        "rules_files": extracted.rules_files,
        "refused": extracted.refused.iter().map(refusal).collect::<Vec<_>>(),
        "seconds": extracted.elapsed.as_secs_f64(),
    })
}

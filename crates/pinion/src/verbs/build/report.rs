//! The result of a build, for people and for programs.

use crate::build_notes;
use crate::json_failure_document::{problems, text};
use crate::settings::Build;
use crate::terminal::{TerminalStyle, counted, percent, size};
use pinion_builder::{Summary, Warning};
use pinion_engine::stderr;
use serde_json::{Value, json};
use std::path::Path;

/// Paths of each kind that are named one by one; more are counted.
const NAMED: usize = 10;

/// Reports it on stderr: warnings, then one line.
pub(crate) fn print(build: &Build, summary: &Summary, of_code: &[String], style: TerminalStyle) {
    let warning = style.yellow("warning");
    for problem in &summary.problems {
        stderr::line(format_args!("{warning}: left out {problem}"));
    }
    for text in warnings(build, summary, of_code) {
        stderr::line(format_args!("{warning}: {text}"));
    }
    let special: Vec<_> = summary.special.iter().map(|path| path.display().to_string()).collect();
    name_some(style, "never served", &special);
    let code: Vec<_> = summary.code.iter().map(|path| path.display().to_string()).collect();
    name_some(style, "code", &code);
    let [left_out, scripts] = build_notes::left_out_of(summary);
    let found = [left_out, scripts, build_notes::kept_by_clients(&summary.fingerprinted)];
    for text in found.iter().flatten() {
        stderr::line(format_args!("{}: {text}", style.dim("note")));
    }
    let shadowed: Vec<_> = summary.shadowed.iter().map(ToString::to_string).collect();
    name_some(style, "note", &shadowed);
    stderr::line(format_args!("{}", line(&build.output, summary, style)));
}

/// Returns the warnings, those about rules with their files as paths from here, and those about the
/// code.
fn warnings(build: &Build, summary: &Summary, of_code: &[String]) -> Vec<String> {
    let shown =
        |warning: &Warning| warning.of_rule(&build.source).unwrap_or_else(|| warning.to_string());
    summary.warnings.iter().map(shown).chain(of_code.iter().cloned()).collect()
}

/// Returns the summary in one line.
fn line(output: &Path, summary: &Summary, style: TerminalStyle) -> String {
    let mut line = format!(
        "{}: {} in {}, {} of files, ",
        style.bold(output.display()),
        counted(summary.files, "file"),
        counted(summary.folders, "folder"),
        size(summary.source_bytes),
    );
    for coding in summary.codings.iter().filter(|coding| coding.bodies > 0) {
        let share = percent(coding.stored_bytes, coding.identity_bytes);
        let name = coding.choice.method.name();
        line.push_str(&format!("{name} {} ({share}), ", size(coding.stored_bytes)));
    }
    if summary.previous_assets > 0 {
        let (assets, bytes) = (summary.previous_assets, size(summary.previous_bytes));
        line.push_str(&format!("{} of earlier releases ({bytes}), ", counted(assets, "asset")));
    }
    if summary.unread_files > 0 {
        let files = counted(summary.unread_files, "file");
        line.push_str(&format!("{files} unchanged since the last build, "));
    }
    if summary.repeated_bytes > 0 {
        let bytes = size(summary.repeated_bytes);
        line.push_str(&format!("{bytes} of repeated content stored once, "));
    }
    let seconds = summary.elapsed.as_secs_f64();
    line.push_str(&format!("archive {}, {seconds:.2} s", size(summary.archive_bytes)));
    line
}

fn name_some(style: TerminalStyle, label: &str, names: &[String]) {
    for name in names.iter().take(NAMED) {
        stderr::line(format_args!("{}: {name}", style.dim(label)));
    }
    if names.len() > NAMED {
        let more = counted((names.len() - NAMED) as u64, "more path");
        stderr::line(format_args!("{}: and {more} (--json names all)", style.dim(label)));
    }
}

/// Returns the summary as JSON. Members are added, never renamed or removed.
pub(crate) fn document(build: &Build, summary: &Summary, of_code: &[String]) -> Value {
    let codings = summary.codings.iter().map(|coding| {
        json!({
            "coding": coding.choice.coding().token(),
            "method": coding.choice.method.name(),
            "level": coding.choice.level,
            "bodies": coding.bodies,
            "identity_bytes": coding.identity_bytes,
            "stored_bytes": coding.stored_bytes,
        })
    });
    let shadowed = summary.shadowed.iter().map(|shadowed| {
        json!({
            "url": text(&shadowed.url),
            "file": text(&shadowed.file),
            "by": text(&shadowed.by),
        })
    });
    let slowest = summary
        .slowest
        .iter()
        .map(|slow| json!({"path": text(&slow.path), "seconds": slow.encoding.as_secs_f64()}));
    json!({
        "archive": text(&build.output),
        "archive_bytes": summary.archive_bytes,
        "digest": summary.digest.to_string(),
        "files": summary.files,
        "folders": summary.folders,
        "source_bytes": summary.source_bytes,
        "entries": summary.entries,
        "aliases": summary.aliases,
        "listings": summary.listings,
        "not_found_pages": summary.not_found_pages,
        "error_pages": summary.error_pages,
        "rules": {
            "redirects": summary.redirect_rules,
            "walked": summary.walked_rules,
            "headers": summary.field_rules,
        },
        "previous_assets": summary.previous_assets,
        "previous_bytes": summary.previous_bytes,
        "repeated_files": summary.repeated_files,
        "repeated_bytes": summary.repeated_bytes,
        "unread_files": summary.unread_files,
        "reused_codings": summary.reused_codings,
        "codings": codings.collect::<Vec<_>>(),
        "skipped": paths(&summary.skipped),
        "special": paths(&summary.special),
        "code": paths(&summary.code),
        "fingerprinted": {
            "files": summary.fingerprinted.files,
            "examples": paths(&summary.fingerprinted.examples),
        },
        "shadowed": shadowed.collect::<Vec<_>>(),
        "warnings": warnings(build, summary, of_code),
        "problems": problems(&summary.problems),
        "slowest": slowest.collect::<Vec<_>>(),
        "seconds": summary.elapsed.as_secs_f64(),
    })
}

fn paths(paths: &[impl AsRef<Path>]) -> Vec<String> {
    paths.iter().map(|path| text(path.as_ref())).collect()
}

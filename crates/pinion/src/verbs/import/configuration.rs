//! The configuration of another server becomes a `pinion.toml`.

use super::configuration_draft::{ConfigurationDraft, Leftover};
use super::json_document::JsonNode;
use super::limits::{FILE_MAX_MIB, SETTLE_ROUNDS_MAX};
use super::{nginx_unit, uwsgi};
use crate::config;
use crate::failure::Failure;
use crate::json_failure_document::text;
use crate::regular_file;
use crate::served_source::CONFIGURATION;
use crate::settings::Import;
use crate::terminal::{TerminalStyle, counted};
use anyhow::{Context as _, anyhow};
use pinion_engine::stderr;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, absolute};

/// A file that was converted.
#[derive(Debug)]
pub(super) struct Converted {
    pub(super) draft: ConfigurationDraft,
    /// The `pinion.toml`.
    pub(super) text: String,
}

/// Writes the file, and reports the settings that could not be carried over.
///
/// # Errors
/// There is no file, or requests are let in that were refused: then it is written.
pub(super) fn run(import: &Import) -> Result<(), Failure> {
    if let Some(flag) = import.archive_flags.first() {
        let message = format!("--{flag} has no effect on a configuration; leave it out");
        return Err(Failure::usage(message));
    }
    let file = &import.file;
    let output = import.output().unwrap_or(Path::new(CONFIGURATION));
    let wrong = |message: String| Failure::from(anyhow!("{}: {message}", file.display()));
    if !file.exists() {
        let message = format!("{} does not exist; give the path of a file", file.display());
        return Err(anyhow!(message).into());
    }
    let bytes = regular_file::read(file, FILE_MAX_MIB).map_err(wrong)?;
    let converted = convert(file, import.section.as_deref(), bytes).map_err(wrong)?;
    write(output, &converted.text, import.force)?;
    if import.json {
        writeln!(io::stdout().lock(), "{}", document(import, output, &converted))?;
    } else {
        report(import, output, &converted.draft, TerminalStyle::of_stderr());
    }
    if converted.draft.leftovers().iter().any(|leftover| leftover.opens) {
        Err(Failure::AlreadyReported)
    } else {
        Ok(())
    }
}

/// Converts the content of a file, or one section of it.
///
/// # Errors
/// A phrase that says why nothing can be made of it.
pub(super) fn convert(
    file: &Path,
    section: Option<&str>,
    bytes: Vec<u8>,
) -> Result<Converted, String> {
    let text = String::from_utf8(bytes);
    let text = text.map_err(|error| format!("is not UTF-8: {error}"))?;
    let is_json = file.extension().is_some_and(|extension| extension == "json");
    let draft = if is_json {
        let root = JsonNode::parse(&text)?;
        if !nginx_unit::is_unit(&root) {
            return Err("is no configuration of NGINX Unit: it has neither listeners, routes nor \
                        applications"
                .to_owned());
        }
        nginx_unit::convert(&root)?
    } else {
        uwsgi::convert(&text, &absolute(file).map_err(|error| error.to_string())?, section)?
    };
    settle(draft, &file.to_string_lossy())
}

/// Makes comments of the keys that Pinion refuses, so that the written file is a valid
/// configuration.
fn settle(mut draft: ConfigurationDraft, source: &str) -> Result<Converted, String> {
    for _ in 0..SETTLE_ROUNDS_MAX {
        let (text, origins) = draft.render(source);
        let faults = match config::parse(&text, Path::new(CONFIGURATION)) {
            Ok((_, faults)) | Err(faults) => faults,
        };
        let Some(first) = faults.first() else { return Ok(Converted { draft, text }) };
        let origin = first.place.and_then(|place| *origins.get(place.line.checked_sub(1)?)?);
        let Some((table, Some(line))) = origin else {
            return Err(format!("cannot be converted: {}", first.message));
        };
        let table = draft.tables.get_mut(table);
        if !table.is_some_and(|table| table.refuse(line, &first.message)) {
            return Err(format!("cannot be converted: {}", first.message));
        }
        draft.drop_empty_mounts();
    }
    Err("cannot be converted: too many of its values are out of bounds".to_owned())
}

/// Writes a new file. With `force` it replaces another one.
fn write(output: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(!force);
    let mut opened = options.open(output).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => anyhow!(
            "{} exists already; name another file with -o, or replace it with --force",
            output.display()
        ),
        _ => anyhow!("cannot write {}: {error}", output.display()),
    })?;
    opened
        .write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", output.display()))?;
    Ok(())
}

fn report(import: &Import, output: &Path, draft: &ConfigurationDraft, style: TerminalStyle) {
    let file = import.file.display();
    let leftovers = draft.leftovers();
    // Paths that are open now are reported last, where they are seen.
    let (open, closed): (Vec<&Leftover>, Vec<&Leftover>) =
        leftovers.into_iter().partition(|leftover| leftover.opens);
    let print_leftovers = |leftovers: &[&Leftover], word: &str| {
        for Leftover { place, message, .. } in leftovers {
            let joint = if place.starts_with('/') { ": " } else { ":" };
            stderr::line(format_args!("{word}: {file}{joint}{place}: {message}"));
        }
    };
    print_leftovers(&closed, &style.yellow("warning"));
    print_leftovers(&open, &style.red("OPEN"));
    let keys = counted(draft.keys(), "key");
    let name = output.display().to_string();
    let mut line = format!("{}: {keys}", style.bold(&name));
    if !closed.is_empty() {
        line.push_str(&format!(", {}", counted(closed.len() as u64, "warning")));
    }
    if !open.is_empty() {
        let refusals = counted(open.len() as u64, "refusal");
        line.push_str(&format!(", {refusals} lost: before you serve it, correct what is OPEN"));
    }
    stderr::line(format_args!("{line}; check it with `pinion check {name}`"));
}

/// Returns the document. Members are added, never renamed or removed.
fn document(import: &Import, output: &Path, converted: &Converted) -> Value {
    let leftover = |leftover: &&Leftover| {
        let Leftover { place, message, opens } = leftover;
        json!({"place": place, "message": message, "opens": opens})
    };
    json!({
        "config": text(output),
        "imported": text(&import.file),
        "keys": converted.draft.keys(),
        "not_needed": converted.draft.not_needed,
        "left_out": converted.draft.leftovers().iter().map(leftover).collect::<Vec<_>>(),
    })
}

//! `pinion check [CONFIG]`: everything that is wrong with a configuration, in one go.

use crate::config::{self, Fault, Loaded, Place};
use crate::directives::verbs::Verb;
use crate::document;
use crate::failure::Failure;
use crate::settings::Check;
use crate::source::CONFIGURATION;
use crate::terminal::{Style, counted};
use crate::written::Low;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;

/// Writes a line for each fault; exit 2 when there is any.
pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    let path = check.config.as_deref().unwrap_or(Path::new(CONFIGURATION));
    if path.is_dir() {
        let shown = path.display();
        return Err(Failure::usage(format!("{shown} is a folder; name a configuration file")));
    }
    if check.config.is_none() && !path.exists() {
        return Err(Failure::usage(format!(
            "there is no {CONFIGURATION} here; name a file: pinion check CONFIG"
        )));
    }
    let mut loaded = config::load(path, &Low::new(Verb::Serve));
    config::examine(&mut loaded, path);
    let mut out = io::stdout().lock();
    match check.json {
        true => writeln!(out, "{}", document(path, &loaded))?,
        false => write_text(&mut out, path, &loaded)?,
    }
    match loaded.faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::ToldUsage),
    }
}

fn document(path: &Path, loaded: &Loaded) -> Value {
    let fault = |fault: &Fault| {
        json!({
            "file": document::text(&fault.file),
            "line": fault.place.map(|place| place.line),
            "column": fault.place.map(|place| place.column),
            "message": fault.message,
        })
    };
    json!({
        "config": document::text(path),
        "sites": loaded.sites.len(),
        "listeners": loaded.listeners.len(),
        "faults": loaded.faults.iter().map(fault).collect::<Vec<_>>(),
    })
}

fn write_text(out: &mut impl Write, path: &Path, loaded: &Loaded) -> io::Result<()> {
    let style = Style::of_stdout();
    for Fault { file, place, message } in &loaded.faults {
        let place =
            place.map_or(String::new(), |Place { line, column }| format!("{line}:{column}:"));
        writeln!(out, "{} {message}", style.bold(format_args!("{}:{place}", file.display())))?;
    }
    if loaded.faults.is_empty() {
        let sites = counted(loaded.sites.len() as u64, "site");
        writeln!(out, "{}: {}, {sites}", path.display(), style.green("right"))?;
    }
    Ok(())
}

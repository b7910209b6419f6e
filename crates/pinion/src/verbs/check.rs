//! `pinion check [PATH]`: all faults in a configuration, or in the files of a site, in one run.

use crate::build_options;
use crate::config::{self, CheckNotes, ConfigFault};
use crate::directives::verbs::Verb;
use crate::failure::Failure;
use crate::json_failure_document;
use crate::lua_program_loader;
use crate::raw_settings::Low;
use crate::served_source::{self, CONFIGURATION, ServedSource};
use crate::server::php::php_pools;
use crate::settings::{BuildSettings, Check, SiteSettings};
use crate::terminal::{TerminalStyle, counted};
use pinion_builder::Options;
use pinion_engine::stderr;
use pinion_lua::script_quotas::Allowance;
use pinion_lua::shared_site_state::ScriptSite;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;

/// The checked parts, and their faults.
struct Checked<'p> {
    path: &'p Path,
    sites: usize,
    listeners: usize,
    faults: Vec<ConfigFault>,
    warnings: Vec<String>,
    notes: Vec<String>,
}

/// Writes a line for each fault; exit 2 when there is any.
pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    let path = check.path.as_deref().unwrap_or(Path::new(CONFIGURATION));
    if check.path.is_none() && !path.exists() {
        return Err(Failure::usage(format!(
            "there is no {CONFIGURATION} here; name a file or a folder: pinion check PATH"
        )));
    }
    let is_named_archive = path.extension().is_some_and(|extension| extension == "pinion");
    let is_archive =
        is_named_archive && path.exists() || served_source::is_archive(path).unwrap_or(false);
    let is_built = path.is_dir() || is_archive;
    let is_site = is_built || served_source::is_script(path);
    let is_configuration = path.extension().is_some_and(|extension| extension == "toml");
    let can_be_checked = is_site || is_configuration && path.exists();
    if !can_be_checked {
        return Err(neither(path));
    }
    let checked = if is_site { site(path, check)? } else { configuration(path, check)? };
    let mut out = io::stdout().lock();
    if check.json {
        writeln!(out, "{}", document(&checked))?;
    } else {
        write_text(&mut out, &checked)?;
    }
    if checked.faults.is_empty() { Ok(()) } else { Err(Failure::AlreadyReportedConfig) }
}

/// Returns the failure of a path that leads to nothing that can be checked.
fn neither(path: &Path) -> Failure {
    let shown = path.display();
    // A path that cannot be looked at has a reason of its own.
    if let Err(failure) = served_source::recognise(path)
        && !matches!(failure, Failure::Usage(_))
    {
        return failure;
    }
    Failure::usage(if path.exists() {
        format!("{shown} is neither a configuration (.toml) nor a folder, an archive or a script")
    } else {
        format!(
            "{shown} does not exist; give a configuration (.toml), a folder, an archive or a \
         script{}",
            served_source::unexpanded(path)
        )
    })
}

fn configuration<'p>(path: &'p Path, check: &Check) -> Result<Checked<'p>, Failure> {
    check.refuse_folder_flags(path, "a configuration; write a key of that name in its [[site]]")?;
    let mut loaded = config::load(path, &Low::new(Verb::Serve));
    loaded.faults.append(&mut loaded.program_file_faults);
    loaded.faults.sort_by_key(|fault| fault.place);
    config::examine(&mut loaded, path);
    // The user that checks a file is perhaps not the one that starts the server.
    let privileges = loaded.privilege_faults.iter().map(ToString::to_string);
    loaded.warnings.extend(privileges);
    Ok(Checked {
        path,
        sites: loaded.sites.len(),
        listeners: loaded.listeners.len(),
        faults: loaded.faults,
        warnings: loaded.warnings,
        notes: loaded.notes,
    })
}

/// Checks a folder, an archive or a script, as it is served without any other flag.
fn site<'p>(path: &'p Path, check: &Check) -> Result<Checked<'p>, Failure> {
    let source = served_source::recognise(path)?;
    let allowance = Allowance::default();
    if let Some(file) = source.file() {
        check.refuse_folder_flags(path, "which is no folder; leave it out")?;
        let opened = match source {
            ServedSource::Script(_) => {
                lua_program_loader::proven(&file, allowance, &ScriptSite::default())
                    .map(|proven| CheckNotes { warnings: proven.warnings, ..CheckNotes::default() })
            }
            _ => config::examine_archive(&file, allowance),
        };
        let fault = |failure: &Failure| {
            let reason = failure.reason()?;
            Some(config::of_code(path, &reason).with_stack(failure.stack()))
        };
        let (CheckNotes { warnings, notes }, wrong) = match opened {
            Ok(said) => (said, None),
            Err(failure) => (CheckNotes::default(), fault(&failure)),
        };
        let faults = wrong.into_iter().collect();
        return Ok(Checked { path, sites: 1, listeners: 0, faults, warnings, notes });
    }
    let settings = SiteSettings::from_low(&Low::new(Verb::Serve))?.with_php(&source, None)?;
    let content = BuildSettings {
        live: settings.content.live.clone(),
        has_fallback_server: settings.content.has_fallback_server,
        ..check.content.clone()
    };
    let options = build_options::options(&content, Options::serving)?;
    let mounts = settings.planned_mounts();
    let examined = config::examine_folder(path, &options, allowance, mounts.as_ref());
    let (CheckNotes { mut warnings, notes }, mut faults) = match examined {
        Ok(said) => (said, Vec::new()),
        Err(faults) => (CheckNotes::default(), faults),
    };
    match settings.php.as_ref().map(php_pools::check) {
        // Another user, or a flag, may be given to the server.
        Some(Err(("php-user", wrong))) => warnings.push(format!("{}: {wrong}", path.display())),
        Some(Err((_, wrong))) => faults.push(ConfigFault::of(path, wrong)),
        Some(Ok(())) | None => {}
    }
    Ok(Checked { path, sites: 1, listeners: 0, faults, warnings, notes })
}

fn document(checked: &Checked<'_>) -> Value {
    let fault = |fault: &ConfigFault| {
        json!({
            "file": json_failure_document::text(&fault.file),
            "line": fault.place.map(|place| place.line),
            // Of code only the line is known.
            "column": fault.place.map(|place| place.column.max(1)),
            "message": fault.message,
        })
    };
    json!({
        "config": json_failure_document::text(checked.path),
        "sites": checked.sites,
        "listeners": checked.listeners,
        "faults": checked.faults.iter().map(fault).collect::<Vec<_>>(),
        "warnings": checked.warnings,
        "notes": checked.notes,
    })
}

fn write_text(out: &mut impl Write, checked: &Checked<'_>) -> io::Result<()> {
    let style = TerminalStyle::of_stdout();
    for ConfigFault { file, place, message, stack } in &checked.faults {
        let place = place.map_or(String::new(), |place| format!("{place}:"));
        writeln!(out, "{} {message}", style.bold(format_args!("{}:{place}", file.display())))?;
        for line in stack {
            writeln!(out, "  {line}")?;
        }
    }
    let beside = TerminalStyle::of_stderr();
    for text in &checked.warnings {
        stderr::line(format_args!("{}: {text}", beside.yellow("warning")));
    }
    for text in &checked.notes {
        stderr::line(format_args!("{}: {text}", beside.dim("note")));
    }
    if checked.faults.is_empty() {
        let sites = match checked.sites {
            0 => "only a store".to_owned(),
            sites => counted(sites as u64, "site"),
        };
        writeln!(out, "{}: {}, {sites}", checked.path.display(), style.green("no errors"))?;
    }
    Ok(())
}

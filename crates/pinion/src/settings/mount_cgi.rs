//! The settings of a `[[site.mount]]` for CGI scripts.

use super::mount::{MountFault, field_changes, has_value, number, optional, switch, texts, value};
use super::{default_variables, row};
use crate::directive_value_parsers;
use crate::directives;
use crate::raw_settings::Low;
use crate::server::mounts::MountPath;
use pinion_gateway::cgi::cgi_scripts::{CgiScripts, ContentStorage};
use pinion_gateway::field_changes::ChangedMessage;
use pinion_gateway::path_prefix::PathPrefix;
use pinion_gateway::script_location::application_root;
use pinion_gateway::upstream_group::PassedFields;
use pinion_spawner::accounts::{AccountError, Accounts};
use pinion_spawner::limits::NAME_MAX_BYTES;
use pinion_spawner::start_table::{Identity, ProgramKind, ProgramStart, StartTable};
use pinion_spawner::table_check::{StartError, TableError};
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

/// The CGI scripts of a mount.
#[derive(Debug)]
pub(crate) struct CgiMount {
    /// The scripts for the workers.
    pub(crate) scripts: Arc<CgiScripts>,
    /// The row for the spawner.
    pub(crate) start: ProgramStart,
}

/// Rows that say something about CGI scripts alone.
const CGI_ROWS: [&str; 6] = [
    "mount-cgi-user",
    "mount-cgi-group",
    "mount-cgi-chroot",
    "mount-cgi-no-chroot",
    "mount-cgi-max",
    "mount-cgi-total-timeout",
];

/// Other rows that have an effect with CGI scripts.
const COMMON_ROWS: [&str; 11] = [
    "mount-path",
    "mount-cgi",
    "mount-timeout",
    "mount-variables",
    "mount-pass-authorization",
    "mount-buffer-uploads",
    "mount-buffer-limit",
    "mount-set-response-headers",
    "mount-remove-response-headers",
    "mount-pass-response-headers",
    "mount-send-files",
];

/// The folder of scripts.
struct ScriptFolder {
    /// The folder as the server sees it.
    folder: PathBuf,
    /// The only script, by its name.
    script: Option<OsString>,
}

/// Refuses settings for CGI scripts in a mount without any.
///
/// # Errors
/// The key that has no effect.
pub(super) fn refuse_without_scripts(low: &Low) -> Result<(), MountFault> {
    match CGI_ROWS.into_iter().find(|row| low.given(row)) {
        Some(row) => Err(MountFault::new(row, "has no effect without cgi; leave it out")),
        None => Ok(()),
    }
}

/// Returns the CGI scripts of a mount.
///
/// # Errors
/// Something is wrong, or has no effect.
pub(super) fn scripts(low: &Low, path: &MountPath) -> Result<CgiMount, MountFault> {
    let MountPath::Prefix(prefix) = path else {
        let message = "is an extension; with cgi write a path, such as /cgi-bin";
        return Err(MountFault::new("mount-path", message));
    };
    let has_effect = |name: &str| CGI_ROWS.contains(&name) || COMMON_ROWS.contains(&name);
    let mut others = directives::mount_rows().map(|row| row.name).filter(|name| !has_effect(name));
    if let Some(row) = others.find(|row| low.given(row)) {
        return Err(MountFault::new(row, "has no effect with cgi; leave it out"));
    }
    let ScriptFolder { folder, script } = script_folder(low)?;
    let chroot = chroot(low, &folder)?;
    let inside = match &chroot {
        None => folder.clone(),
        Some(chroot) => match folder.strip_prefix(chroot) {
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => {
                let (folder, chroot) = (folder.display(), chroot.display());
                let message = format!("{folder} is not in the root directory {chroot}");
                return Err(MountFault::new("mount-cgi", message));
            }
        },
    };
    let start = ProgramStart {
        kind: ProgramKind::Cgi,
        environment: environment(low, chroot.is_some())?,
        identity: identity(low)?,
        chroot: chroot.clone(),
        cgi_script: script.clone(),
        ..ProgramStart::new(&row_name(&folder, script.as_ref()), &inside)
    };
    check(&start)?;
    let running_max = number(low, "mount-cgi-max")? as usize;
    let mut scripts = CgiScripts::new(folder).with_running_max(running_max);
    scripts.script_folder = application_root(&inside);
    scripts.chroot = chroot;
    scripts.script = script.map(|script| script.as_bytes().into());
    scripts.mount = PathPrefix::new(prefix.as_str());
    scripts.passes_authorization = low.given("mount-pass-authorization");
    scripts.timeout_ms = number(low, "mount-timeout")? * 1000;
    scripts.total_timeout_ms = number(low, "mount-cgi-total-timeout")? * 1000;
    scripts.content_storage = match switch(low, "mount-buffer-uploads") {
        None => ContentStorage::UpToLimit,
        Some(true) => ContentStorage::Always,
        Some(false) => ContentStorage::Never,
    };
    scripts.stored_max_bytes = value(low, "mount-buffer-limit", directive_value_parsers::size)?;
    scripts.response_fields = field_changes(low, ChangedMessage::Response)?;
    scripts.sends_files = low.given("mount-send-files");
    scripts.passed_fields = PassedFields {
        alt_svc: has_value(low, "mount-pass-response-headers", "Alt-Svc"),
        hsts: has_value(low, "mount-pass-response-headers", "Strict-Transport-Security"),
    };
    Ok(CgiMount { scripts: Arc::new(scripts), start })
}

/// Returns the folder of the scripts. A file is the only script of its folder.
fn script_folder(low: &Low) -> Result<ScriptFolder, MountFault> {
    let row = "mount-cgi";
    let path = PathBuf::from(texts(low, row).next().unwrap_or_default());
    let path = absolute(&path).map_err(|error| MountFault::new(row, error))?;
    let wrong =
        |why: &dyn fmt::Display| MountFault::new(row, format_args!("{}: {why}", path.display()));
    let found = fs::metadata(&path).map_err(|error| wrong(&error))?;
    if found.is_dir() {
        return Ok(ScriptFolder { folder: path, script: None });
    }
    // The spawner follows no links.
    let real = fs::canonicalize(&path).map_err(|error| wrong(&error))?;
    match (real.parent(), real.file_name()) {
        (Some(folder), Some(name)) if found.is_file() => {
            Ok(ScriptFolder { folder: folder.to_owned(), script: Some(name.to_owned()) })
        }
        _ => Err(wrong(&"is neither a folder nor a file")),
    }
}

/// Returns the root directory of the scripts.
fn chroot(low: &Low, folder: &Path) -> Result<Option<PathBuf>, MountFault> {
    match (texts(low, "mount-cgi-chroot").next(), low.given("mount-cgi-no-chroot")) {
        (Some(_), true) => {
            let message = "has no effect with cgi-chroot; leave out one of them";
            Err(MountFault::new("mount-cgi-no-chroot", message))
        }
        (None, true) => Ok(None),
        (Some(path), false) => {
            let path =
                absolute(path).map_err(|error| MountFault::new("mount-cgi-chroot", error))?;
            Ok(Some(path))
        }
        (None, false) => Ok(geteuid().is_root().then(|| folder.to_owned())),
    }
}

fn identity(low: &Low) -> Result<Option<Identity>, MountFault> {
    let user = optional(low, "mount-cgi-user", |text| Ok(text.to_owned()))?;
    let group = optional(low, "mount-cgi-group", |text| Ok(text.to_owned()))?;
    let Some(user) = user else {
        return match group {
            Some(_) => {
                let message = "has no effect without cgi-user; add it";
                Err(MountFault::new("mount-cgi-group", message))
            }
            None => Ok(None),
        };
    };
    let fault = |error: AccountError| {
        let row = match error {
            AccountError::UnknownGroup(_) => "mount-cgi-group",
            _ => "mount-cgi-user",
        };
        MountFault::new(row, error)
    };
    let accounts = Accounts::read().map_err(fault)?;
    accounts.identity(&user, group.as_deref()).map(Some).map_err(fault)
}

/// Returns the environment that all scripts have: the default variables, and those that were
/// written, which replace others of the same name.
fn environment(low: &Low, has_root: bool) -> Result<Vec<(OsString, OsString)>, MountFault> {
    let row = "mount-variables";
    let mut variables = default_variables(has_root);
    for (value, text) in texts(low, row).enumerate() {
        let at = |message| MountFault { value, ..MountFault::new(row, message) };
        let (name, text) = directive_value_parsers::variable(text).map_err(at)?;
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), text.into()));
    }
    Ok(variables)
}

/// Returns the name of the scripts in the log: the name of their folder, or of the only one.
fn row_name(folder: &Path, script: Option<&OsString>) -> String {
    let name = script.map(OsString::as_os_str).or(folder.file_name()).unwrap_or_default();
    let shown = name.to_string_lossy();
    let is_allowed = |char: &char| char.is_ascii_alphanumeric() || "-_.".contains(*char);
    // A number may be added to distinguish it from another one.
    let shown: String = shown.chars().filter(is_allowed).take(NAME_MAX_BYTES - 4).collect();
    if shown.is_empty() { "cgi".to_owned() } else { shown }
}

/// Finds settings that the spawner would refuse. Whether this process has the privileges shows at
/// the start.
fn check(start: &ProgramStart) -> Result<(), MountFault> {
    let table = StartTable { starts: vec![start.clone()] };
    match table.check() {
        Ok(()) => Ok(()),
        Err(TableError::Start { error: StartError::Privilege { .. }, .. }) => Ok(()),
        Err(TableError::Start { error: StartError::CgiAsRoot, .. }) => {
            let message = "is missing; a server that is started as root runs no scripts as root";
            Err(MountFault::new("mount-cgi-user", message))
        }
        Err(TableError::Start { error, .. }) => {
            let name = match &error {
                StartError::Missing { path, .. } | StartError::NotADirectory(path)
                    if Some(path) == start.chroot.as_ref() =>
                {
                    "mount-cgi-chroot"
                }
                StartError::NoIdentity => "mount-cgi-user",
                StartError::TooMany { .. }
                | StartError::TooLarge(_)
                | StartError::Variable(_)
                | StartError::DuplicateVariable(_)
                | StartError::Marker => "mount-variables",
                _ => "mount-cgi",
            };
            debug_assert!(row(name).file.is_some(), "{name} is a key");
            Err(MountFault::new(name, error))
        }
        Err(error) => Err(MountFault::new("mount-cgi", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rows_are_names_of_programs() {
        let name = |folder: &str, script: Option<&str>| {
            row_name(Path::new(folder), script.map(OsString::from).as_ref())
        };
        assert_eq!(name("/srv/cgi-bin", None), "cgi-bin");
        assert_eq!(name("/usr/lib/git-core", Some("git-http-backend")), "git-http-backend");
        assert_eq!(name("/", None), "cgi");
        assert_eq!(name("/srv/\u{e4} b", None), "b");
        assert_eq!(name(&format!("/{}", "x".repeat(99)), None).len(), NAME_MAX_BYTES - 4);
    }
}

//! The settings of a `[[site.mount]]` for a Python application.

use super::default_variables;
use super::mount::{MountFault, field_changes, has_value, number, optional, texts, value};
use crate::directive_value_parsers;
use crate::directives;
use crate::raw_settings::Low;
use crate::server::mounts::MountPath;
use pinion_gateway::field_changes::{ChangedMessage, FieldChanges};
use pinion_gateway::path_prefix::PathPrefix;
use pinion_gateway::python::python_app::{PythonApp, PythonInterface};
use pinion_gateway::upstream_group::PassedFields;
use pinion_python::command_line::Interface;
use pinion_spawner::accounts::Accounts;
use pinion_spawner::start_table::Identity;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::path::{PathBuf, absolute};
use std::sync::{Arc, OnceLock};

/// The Python application of a mount.
#[derive(Debug)]
pub(crate) struct PythonMount {
    pub(crate) settings: PythonSettings,
    /// The application for the workers, once the server has its processes.
    pub(crate) app: OnceLock<Arc<PythonApp>>,
}

/// The settings of a Python application.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PythonSettings {
    pub(crate) interface: Interface,
    /// `app:app`.
    pub(crate) application: String,
    /// Whether the object that was named returns the application.
    pub(crate) is_factory: bool,
    pub(crate) folder: PathBuf,
    /// The interpreter, or the folder of a virtual environment.
    pub(crate) python: Option<PathBuf>,
    pub(crate) processes: usize,
    pub(crate) threads: usize,
    pub(crate) limits: ProcessLimits,
    /// The nice value of the processes, if not that of the server.
    pub(crate) nice: Option<i8>,
    /// The user that was written, with its numbers.
    pub(crate) identity: Option<Identity>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    prefix: PathPrefix,
    timeout_ms: u64,
    stored_max_bytes: u64,
    response_fields: FieldChanges,
    passed_fields: PassedFields,
}

/// The limits at which a process is replaced by another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessLimits {
    pub(crate) requests: Option<u64>,
    pub(crate) lifetime_seconds: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
}

/// Rows that say something about Python applications alone.
const PYTHON_ROWS: [&str; 10] = [
    "mount-python-factory",
    "mount-python-folder",
    "mount-python",
    "mount-python-processes",
    "mount-python-threads",
    "mount-python-max-requests",
    "mount-python-max-lifetime",
    "mount-python-max-memory",
    "mount-python-nice",
    "mount-python-user",
];

/// Other rows that have an effect with a Python application.
const COMMON_ROWS: [&str; 10] = [
    "mount-path",
    "mount-wsgi",
    "mount-asgi",
    "mount-python-application",
    "mount-timeout",
    "mount-variables",
    "mount-buffer-limit",
    "mount-set-response-headers",
    "mount-remove-response-headers",
    "mount-pass-response-headers",
];

/// Returns how an application is called that this row names; `None` if it names none.
pub(super) fn interface(row: &str) -> Option<Interface> {
    match row {
        "mount-wsgi" => Some(Interface::Wsgi),
        "mount-asgi" => Some(Interface::Asgi),
        "mount-python-application" => Some(Interface::Auto),
        _ => None,
    }
}

/// Refuses settings for a Python application in a mount without one.
///
/// # Errors
/// The key that has no effect.
pub(super) fn refuse_without_application(low: &Low) -> Result<(), MountFault> {
    match PYTHON_ROWS.into_iter().find(|row| low.given(row)) {
        Some(row) => Err(MountFault::new(
            row,
            "has no effect without wsgi, asgi or python-application; leave it out",
        )),
        None => Ok(()),
    }
}

/// Returns the Python application of a mount.
///
/// # Errors
/// Something is wrong, or has no effect.
pub(super) fn application(
    low: &Low,
    path: &MountPath,
    interface: Interface,
) -> Result<PythonMount, MountFault> {
    let (row, key) = match interface {
        Interface::Auto => ("mount-python-application", "python-application"),
        Interface::Wsgi => ("mount-wsgi", "wsgi"),
        Interface::Asgi => ("mount-asgi", "asgi"),
    };
    let MountPath::Prefix(prefix) = path else {
        let message = format!("is an extension; with {key} write a path, such as /");
        return Err(MountFault::new("mount-path", message));
    };
    let has_effect = |name: &str| PYTHON_ROWS.contains(&name) || COMMON_ROWS.contains(&name);
    let mut others = directives::mount_rows().map(|row| row.name).filter(|name| !has_effect(name));
    if let Some(other) = others.find(|row| low.given(row)) {
        return Err(MountFault::new(other, format!("has no effect with {key}; leave it out")));
    }
    let path_of = |row| {
        let path = texts(low, row).next().map(absolute).transpose();
        path.map_err(|error| MountFault::new(row, error))
    };
    let folder = path_of("mount-python-folder")?;
    let folder = folder.map_or_else(|| absolute("."), Ok);
    let folder = folder.map_err(|error| MountFault::new("mount-python-folder", error))?;
    if !folder.is_dir() {
        let message = format!("{} is no folder", folder.display());
        return Err(MountFault::new("mount-python-folder", message));
    }
    let settings = PythonSettings {
        interface,
        application: value(low, row, |text| Ok(text.to_owned()))?,
        is_factory: low.given("mount-python-factory"),
        folder,
        python: path_of("mount-python")?,
        processes: number(low, "mount-python-processes")? as usize,
        threads: number(low, "mount-python-threads")? as usize,
        limits: process_limits(low)?,
        nice: optional(low, "mount-python-nice", directive_value_parsers::nice)?,
        identity: identity(low)?,
        environment: environment(low)?,
        prefix: PathPrefix::new(prefix.as_str()),
        timeout_ms: number(low, "mount-timeout")? * 1000,
        stored_max_bytes: value(low, "mount-buffer-limit", directive_value_parsers::size)?,
        response_fields: field_changes(low, ChangedMessage::Response)?,
        passed_fields: PassedFields {
            alt_svc: has_value(low, "mount-pass-response-headers", "Alt-Svc"),
            hsts: has_value(low, "mount-pass-response-headers", "Strict-Transport-Security"),
        },
    };
    Ok(PythonMount { settings, app: OnceLock::new() })
}

impl PythonSettings {
    /// Returns the application for the workers, which has no processes yet.
    pub(crate) fn app(&self) -> PythonApp {
        let prefix = PathPrefix::new(self.prefix.as_str());
        let interface = match self.interface {
            // An interface that the processes detect counts as WSGI until they have reported it.
            Interface::Wsgi | Interface::Auto => PythonInterface::Wsgi { threads: self.threads },
            Interface::Asgi => PythonInterface::Asgi,
        };
        let mut app = PythonApp::new(&self.application, prefix, interface);
        if self.interface == Interface::Auto {
            app.refuse_until_loaded();
        }
        app.timeout_ms = self.timeout_ms;
        app.stored_max_bytes = self.stored_max_bytes;
        app.response_fields = self.response_fields.clone();
        app.passed_fields = self.passed_fields;
        app
    }
}

fn process_limits(low: &Low) -> Result<ProcessLimits, MountFault> {
    let number = |row: &'static str| {
        optional(low, row, |text| directive_value_parsers::number(&super::row(row).kind, text))
    };
    Ok(ProcessLimits {
        requests: number("mount-python-max-requests")?,
        lifetime_seconds: number("mount-python-max-lifetime")?,
        memory_bytes: optional(low, "mount-python-max-memory", directive_value_parsers::size)?,
    })
}

impl ProcessLimits {
    /// Returns whether there is one.
    pub(crate) fn is_some(&self) -> bool {
        *self != Self::default()
    }
}

fn identity(low: &Low) -> Result<Option<Identity>, MountFault> {
    let row = "mount-python-user";
    let Some(user) = optional(low, row, |text| Ok(text.to_owned()))? else {
        if geteuid().is_root() {
            let message = "is missing, such as www-data; a server that is started as root runs no \
                 application as root";
            return Err(MountFault::new(row, message));
        }
        return Ok(None);
    };
    let fault = |error| MountFault::new(row, error);
    let identity = Accounts::read().map_err(fault)?.identity(&user, None).map_err(fault)?;
    if identity.uid == 0 {
        return Err(MountFault::new(row, "applications do not run as root; name another user"));
    }
    Ok(Some(identity))
}

/// Returns the environment of the processes: the default variables, and those that were written,
/// which replace others of the same name.
fn environment(low: &Low) -> Result<Vec<(OsString, OsString)>, MountFault> {
    let row = "mount-variables";
    let mut variables = default_variables(false);
    for (value, text) in texts(low, row).enumerate() {
        let at = |message| MountFault { value, ..MountFault::new(row, message) };
        let (name, text) = directive_value_parsers::variable(text).map_err(at)?;
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), text.into()));
    }
    Ok(variables)
}

//! The settings of a `[[site.mount]]` for an application that speaks FastCGI or SCGI.

use super::mount::{MountFault, number, optional, texts, value};
use crate::directive_value_parsers::{self, mount_values};
use crate::raw_settings::Low;
use crate::server::mounts::MountPath;
use pinion_gateway::fastcgi_scgi_variables::{AddedVariables, ProgramOptions, ProgramTarget};
use pinion_gateway::path_prefix::PathPrefix;
use pinion_gateway::script_location::{ScriptFolder, application_root};
use pinion_gateway::upstream::{Upstream, UpstreamProtocol};
use std::path::{Path, absolute};

/// The rows of which a mount has one.
pub(crate) const SERVER_ROWS: [&str; 8] = [
    "mount-proxy",
    "mount-fastcgi",
    "mount-scgi",
    "mount-cgi",
    "mount-wsgi",
    "mount-asgi",
    "mount-python-application",
    "mount-store",
];

/// The extension of scripts, unless the path of the mount says so.
const SCRIPT_EXTENSION: &str = ".php";

/// Rows that say something about a folder of scripts.
const SCRIPT_ROWS: [&str; 4] =
    ["mount-application-root", "mount-index", "mount-no-front-controller", "mount-no-exec"];

/// Rows that say something about an application alone.
const APPLICATION_ROWS: [&str; 4] =
    ["mount-root", "mount-pass-authorization", "mount-variables", "mount-max-connections"];

/// Rows that say something about servers that speak HTTP alone.
const HTTP_ROWS: [&str; 6] = [
    "mount-upstream-path",
    "mount-host",
    "mount-tls-name",
    "mount-tls-ca",
    "mount-tls-pin",
    "mount-health-path",
];

/// Returns the row that names the servers of a mount.
///
/// # Errors
/// There is none, or more than one.
pub(super) fn servers(low: &Low) -> Result<&'static str, MountFault> {
    let mut given = SERVER_ROWS.into_iter().filter(|row| low.given(row));
    let Some(servers) = given.next() else {
        let message = "is missing; a mount has proxy, fastcgi, scgi, cgi, wsgi, asgi, \
                       python-application or store";
        return Err(MountFault::new("mount-proxy", message));
    };
    match given.next() {
        None => Ok(servers),
        Some(row) => {
            let message = "a mount has either proxy, fastcgi, scgi, cgi, wsgi, asgi, \
                           python-application or store; leave one out";
            Err(MountFault::new(row, message))
        }
    }
}

/// Returns the applications of a mount.
///
/// # Errors
/// One is wrong.
pub(super) fn upstreams(low: &Low) -> Result<Vec<Upstream>, MountFault> {
    let servers = servers(low)?;
    let timeout_ms = number(low, "mount-timeout")? * 1000;
    let keep_connections = number(low, "mount-keep-connections")? as usize;
    let protocol = match servers {
        "mount-fastcgi" => UpstreamProtocol::FastCgi { keep_connections },
        _ => UpstreamProtocol::Scgi,
    };
    let connections_max = optional(low, "mount-max-connections", |text| {
        directive_value_parsers::number(&super::row("mount-max-connections").kind, text)
    })?;
    let upstream = |(value, text): (usize, &str)| {
        let at = |message| MountFault { value, ..MountFault::new(servers, message) };
        let mut upstream = mount_values::application(text, protocol).map_err(at)?;
        upstream.timeout_ms = timeout_ms;
        upstream.connections_max = connections_max.map_or(usize::MAX, |max| max as usize);
        Ok(upstream)
    };
    texts(low, servers).enumerate().map(upstream).collect()
}

/// Returns the options for an application; `None` for a mount whose servers speak HTTP.
///
/// # Errors
/// Something is wrong, or has no effect.
pub(super) fn options(
    low: &Low,
    servers: &'static str,
    path: &MountPath,
) -> Result<Option<ProgramOptions>, MountFault> {
    let without_effect = |row, reason| {
        let message = format!("has no effect {reason}; leave it out");
        MountFault::new(row, message)
    };
    let first = |rows: &[&'static str]| rows.iter().copied().find(|row| low.given(row));
    if servers == "mount-proxy" {
        let rows = [&APPLICATION_ROWS[..], &SCRIPT_ROWS, &["mount-keep-connections"]].concat();
        return match first(&rows) {
            Some(row) => Err(without_effect(row, "without fastcgi or scgi")),
            None => Ok(None),
        };
    }
    if let Some(row) = first(&HTTP_ROWS) {
        return Err(without_effect(row, "with fastcgi or scgi"));
    }
    if servers == "mount-scgi"
        && let Some(row) = first(&["mount-keep-connections"])
    {
        return Err(without_effect(row, "with scgi, which has one request for each connection"));
    }
    let target = match low.values("mount-root").next() {
        Some(root) => ProgramTarget::Scripts(scripts(low, Path::new(root), path)?),
        None => match (first(&SCRIPT_ROWS), path) {
            (Some(row), _) => return Err(without_effect(row, "without root")),
            (None, MountPath::Prefix(prefix)) => ProgramTarget::Application(prefix.clone()),
            (None, MountPath::Suffix(_)) => {
                let message =
                    "is missing; a mount for an extension needs the folder of its scripts";
                return Err(MountFault::new("mount-root", message));
            }
        },
    };
    Ok(Some(ProgramOptions {
        target,
        passes_authorization: low.given("mount-pass-authorization"),
        variables: variables(low)?,
    }))
}

fn scripts(low: &Low, root: &Path, path: &MountPath) -> Result<ScriptFolder, MountFault> {
    let absolute = absolute(root)
        .map_err(|error| MountFault::new("mount-root", format!("{}: {error}", root.display())))?;
    let root_of = |text: &str| Ok(application_root(Path::new(text)));
    let seen = optional(low, "mount-application-root", root_of)?;
    let index = value(low, "mount-index", |text| Ok(text.to_owned()))?;
    let (mount, extension, is_extension) = match path {
        MountPath::Prefix(prefix) => (prefix.as_str(), SCRIPT_EXTENSION, false),
        MountPath::Suffix(suffix) => ("", suffix.as_str(), true),
    };
    let rows = ["mount-index", "mount-no-front-controller"];
    if let Some(row) = rows.into_iter().find(|row| is_extension && low.given(row)) {
        let message = "has no effect with the path of an extension; leave it out";
        return Err(MountFault::new(row, message));
    }
    Ok(ScriptFolder {
        application_root: seen.unwrap_or_else(|| application_root(&absolute)),
        root: absolute,
        mount: PathPrefix::new(mount),
        extension: extension.into(),
        index: index.into(),
        has_front_controller: !is_extension && !low.given("mount-no-front-controller"),
        no_exec: no_exec(low)?,
    })
}

/// Returns the folders in which no scripts are run.
fn no_exec(low: &Low) -> Result<Vec<Box<[u8]>>, MountFault> {
    let row = "mount-no-exec";
    if !low.given(row) {
        return value(low, row, |text| Ok(vec![text.as_bytes().into()]));
    }
    let folder = |(value, text): (usize, &str)| match directive_value_parsers::site_folder(text) {
        Ok(folder) => Ok(folder.as_bytes().into()),
        Err(message) => Err(MountFault { value, ..MountFault::new(row, message) }),
    };
    texts(low, row).enumerate().map(folder).collect()
}

/// Returns the variables that are added.
fn variables(low: &Low) -> Result<AddedVariables, MountFault> {
    let row = "mount-variables";
    let variable = |(value, text): (usize, &str)| {
        let at = |message| MountFault { value, ..MountFault::new(row, message) };
        let (name, text) = directive_value_parsers::variable(text).map_err(at)?;
        Ok((name.into(), text.into()))
    };
    texts(low, row).enumerate().map(variable).collect()
}

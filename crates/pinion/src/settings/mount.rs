//! A part of a site that other servers respond to, as its `[[site.mount]]` says. The keys about
//! FastCGI and SCGI are read by `mount_fastcgi_scgi`.

use super::sendfile_folder::sent_folders;
use super::{mount_cgi, mount_fastcgi_scgi, mount_python, row};
use crate::directive_value_parsers::{self, http_values, mount_values};
use crate::directives::{self, Default};
use crate::raw_settings::Low;
use crate::regular_file;
use crate::server::mounts::{Mount, MountPath};
use pinion_client::client_tls::{ServerAuthorities, ServerTrust};
use pinion_gateway::field_changes::{ChangedMessage, FieldChanges, check_changed_field};
use pinion_gateway::path_prefix::PathRewrite;
use pinion_gateway::server_health::{HealthThresholds, PassiveChecks};
use pinion_gateway::upstream::Upstream;
use pinion_gateway::upstream_group::{
    ActiveChecks, AttemptLimits, PassedFields, UpstreamGroup, UpstreamGroupError, UpstreamOptions,
};
use pinion_gateway::x_sendfile::FILE_FIELDS;
use std::fmt;
use std::path::Path;

/// Most of a file with certificates: all roots of a system have a quarter of that.
const AUTHORITIES_MAX_MIB: u64 = 1;

/// A fault in a mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MountFault {
    /// The row of the directive table that it is about.
    pub(crate) row: &'static str,
    /// Which of its values, from 0.
    pub(crate) value: usize,
    /// The description of the fault.
    pub(crate) message: String,
}

impl MountFault {
    pub(super) fn new(row: &'static str, message: impl fmt::Display) -> Self {
        Self { row, value: 0, message: message.to_string() }
    }
}

/// Writes `KEY: fault`.
impl fmt::Display for MountFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = row(self.row).file.map_or(self.row, |key| key.name);
        write!(f, "{key}: {}", self.message)
    }
}

/// Reads the settings of a mount. The file of `tls-ca` is read.
///
/// # Errors
/// The key that is wrong.
pub(crate) fn mount(low: &Low) -> Result<Mount, MountFault> {
    mount_with(low, |_| {})
}

/// Reads the settings of a mount, as [`mount`] does, and changes its servers.
///
/// # Errors
/// The key that is wrong.
pub(crate) fn mount_with(low: &Low, change: impl Fn(&mut Upstream)) -> Result<Mount, MountFault> {
    let path = value(low, "mount-path", MountPath::parse)?;
    let servers = mount_fastcgi_scgi::servers(low)?;
    if servers == "mount-store" {
        return of_store(low, path);
    }
    let sent = sent_folders(low)?;
    if servers == "mount-cgi" {
        let mount = Mount::of_scripts(path.clone(), mount_cgi::scripts(low, &path)?);
        return Ok(mount.with_sent_folders(sent));
    }
    mount_cgi::refuse_without_scripts(low)?;
    if let Some(interface) = mount_python::interface(servers) {
        let application = mount_python::application(low, &path, interface)?;
        return Ok(Mount::of_application(path, application));
    }
    mount_python::refuse_without_application(low)?;
    let program = mount_fastcgi_scgi::options(low, servers, &path)?;
    let options = UpstreamOptions {
        balance: value(low, "mount-balance", mount_values::balance)?,
        passive: PassiveChecks {
            max_fails: number(low, "mount-max-fails")? as u32,
            fail_timeout_ms: number(low, "mount-fail-timeout")? * 1000,
        },
        active: active_checks(low)?,
        attempts: AttemptLimits {
            max: number(low, "mount-max-attempts")? as u32,
            timeout_ms: number(low, "mount-retry-timeout")? * 1000,
        },
        path: rewrite(low, &path)?,
        request_fields: field_changes(low, ChangedMessage::Request)?,
        response_fields: field_changes(low, ChangedMessage::Response)?,
        passed_fields: PassedFields {
            alt_svc: has_value(low, "mount-pass-response-headers", "Alt-Svc"),
            hsts: has_value(low, "mount-pass-response-headers", "Strict-Transport-Security"),
        },
        sends_files: sent.is_some(),
        stored_upload_max_bytes: stored_upload_max_bytes(low, program.is_some())?,
        unknown_length_max_bytes: value(low, "mount-buffer-limit", directive_value_parsers::size)?,
        program,
    };
    let mut upstreams = match servers {
        "mount-proxy" => upstreams(low)?,
        _ => mount_fastcgi_scgi::upstreams(low)?,
    };
    if let Some(wrong) = without_tls(low, &upstreams) {
        return Err(wrong);
    }
    upstreams.iter_mut().for_each(change);
    let group = UpstreamGroup::new(upstreams, options);
    let group = group.map_err(|error| match error {
        UpstreamGroupError::Twice(value) => {
            MountFault { value, ..MountFault::new(servers, "the server is given twice") }
        }
        error => MountFault::new(servers, error),
    })?;
    Ok(Mount::new(path, group).with_sent_folders(sent))
}

/// Returns a mount whose pages are values of the store.
fn of_store(low: &Low, path: MountPath) -> Result<Mount, MountFault> {
    let MountPath::Prefix(prefix) = path else {
        let message = "is an extension; with store write a path, such as /live";
        return Err(MountFault::new("mount-path", message));
    };
    let has_effect = |name: &&str| ["mount-path", "mount-store"].contains(name);
    let mut others = directives::mount_rows().map(|row| row.name).filter(|name| !has_effect(name));
    if let Some(row) = others.find(|row| low.given(row)) {
        return Err(MountFault::new(row, "has no effect with store; leave it out"));
    }
    let keys = value(low, "mount-store", |text| Ok(text.to_owned()))?;
    Ok(Mount::of_store(prefix, &keys))
}

fn upstreams(low: &Low) -> Result<Vec<Upstream>, MountFault> {
    let timeout_ms = number(low, "mount-timeout")? * 1000;
    let trust = trust(low)?;
    let name = optional(low, "mount-tls-name", |text| Ok(text.to_owned()))?;
    let host = optional(low, "mount-host", mount_values::upstream_host)?;
    let upstream = |(number, text): (usize, &str)| {
        let at = |message: String| MountFault {
            value: number,
            ..MountFault::new("mount-proxy", message)
        };
        let mut upstream = mount_values::upstream(text).map_err(at)?;
        upstream.timeout_ms = timeout_ms;
        if let Some(host) = &host {
            upstream.host = host.clone();
        }
        let trusting = upstream.trusting(trust.clone(), name.as_deref());
        trusting.map_err(|error| MountFault::new("mount-tls-name", error))
    };
    texts(low, "mount-proxy").enumerate().map(upstream).collect()
}

/// Returns which servers with https are trusted.
fn trust(low: &Low) -> Result<ServerTrust, MountFault> {
    let mut pins = Vec::new();
    for text in texts(low, "mount-tls-pin") {
        let pin = directive_value_parsers::certificate_pin(text);
        pins.push(pin.map_err(|error| MountFault::new("mount-tls-pin", error))?);
    }
    let Some(path) = low.values("mount-tls-ca").next().map(Path::new) else {
        return Ok(if pins.is_empty() {
            ServerTrust::SystemRoots
        } else {
            ServerTrust::Pins(pins)
        });
    };
    if !pins.is_empty() {
        let message = "has no effect with tls-pin; leave out one of them";
        return Err(MountFault::new("mount-tls-ca", message));
    }
    let wrong = |why: &dyn fmt::Display| {
        MountFault::new("mount-tls-ca", format_args!("{} {why}", path.display()))
    };
    let text = regular_file::read(path, AUTHORITIES_MAX_MIB).map_err(|why| wrong(&why))?;
    let authorities = ServerAuthorities::from_pem(&text).map_err(|error| wrong(&error))?;
    Ok(ServerTrust::Authorities(authorities))
}

/// Returns the fault of settings for TLS that stand with servers none of which has it.
fn without_tls(low: &Low, upstreams: &[Upstream]) -> Option<MountFault> {
    if upstreams.iter().any(Upstream::is_tls) {
        return None;
    }
    let rows = ["mount-tls-name", "mount-tls-ca", "mount-tls-pin"];
    let row = rows.into_iter().find(|row| low.given(row))?;
    Some(MountFault::new(row, "has no effect without a server with https; leave it out"))
}

fn active_checks(low: &Low) -> Result<Option<ActiveChecks>, MountFault> {
    let Some(path) = optional(low, "mount-health-path", http_values::url_path)? else {
        let rows = [
            "mount-health-interval",
            "mount-health-timeout",
            "mount-health-fails",
            "mount-health-passes",
        ];
        return match rows.into_iter().find(|row| low.given(row)) {
            Some(row) => Err(MountFault::new(row, "has no effect without health-path; add it")),
            None => Ok(None),
        };
    };
    Ok(Some(ActiveChecks {
        target: path.into(),
        interval_ms: number(low, "mount-health-interval")? * 1000,
        timeout_ms: number(low, "mount-health-timeout")? * 1000,
        thresholds: HealthThresholds {
            fails: number(low, "mount-health-fails")? as u32,
            passes: number(low, "mount-health-passes")? as u32,
        },
    }))
}

fn rewrite(low: &Low, path: &MountPath) -> Result<Option<PathRewrite>, MountFault> {
    let row = "mount-upstream-path";
    let Some(upstream) = optional(low, row, http_values::url_path)? else {
        return Ok(None);
    };
    let MountPath::Prefix(prefix) = path else {
        let message = "takes the place of a path, and the mount has an extension; leave it out";
        return Err(MountFault::new(row, message));
    };
    let rewrite = PathRewrite::new(prefix.clone(), &upstream);
    let rewrite =
        rewrite.map_err(|error| MountFault::new(row, format_args!("{upstream:?} {error}")));
    Ok(Some(rewrite?))
}

pub(super) fn field_changes(
    low: &Low,
    message: ChangedMessage,
) -> Result<FieldChanges, MountFault> {
    let (set, remove) = match message {
        ChangedMessage::Request => ("mount-set-request-headers", "mount-remove-request-headers"),
        ChangedMessage::Response => ("mount-set-response-headers", "mount-remove-response-headers"),
    };
    let check = |row, value, name: &str| {
        let checked = check_changed_field(name, message);
        let fault = |error| MountFault::new(row, format_args!("{name} {error}"));
        checked.map_err(|error| MountFault { value, ..fault(error) })
    };
    let mut changes = FieldChanges::default();
    let mut names: Vec<&str> = Vec::new();
    for (value, text) in texts(low, set).enumerate() {
        let at = |error: String| MountFault { value, ..MountFault::new(set, error) };
        let (name, content) = http_values::header(text).map_err(at)?;
        check(set, value, name)?;
        names.push(name);
        changes.set(name, content);
    }
    for (value, name) in texts(low, remove).enumerate() {
        check(remove, value, name)?;
        if names.iter().any(|set| set.eq_ignore_ascii_case(name)) {
            let message = format!("{name} is set, too; a header that is set replaces others");
            return Err(MountFault { value, ..MountFault::new(remove, message) });
        }
        changes.remove(name);
    }
    if message == ChangedMessage::Response && low.given("mount-send-files") {
        FILE_FIELDS.into_iter().for_each(|name| changes.remove(name));
    }
    Ok(changes)
}

fn stored_upload_max_bytes(low: &Low, is_program: bool) -> Result<Option<u64>, MountFault> {
    let row = "mount-buffer-limit";
    if switch(low, "mount-buffer-uploads") == Some(true) {
        return value(low, row, directive_value_parsers::size).map(Some);
    }
    if low.given(row) && !is_program {
        return Err(MountFault::new(row, "has no effect without buffer-uploads = true; add it"));
    }
    Ok(None)
}

/// Returns the values of a row that are text.
pub(super) fn texts<'l>(low: &'l Low, row: &str) -> impl Iterator<Item = &'l str> {
    low.values(row).filter_map(|text| text.to_str())
}

/// Returns the written value of a switch whose default is neither on nor off.
pub(super) fn switch(low: &Low, row: &str) -> Option<bool> {
    low.given(row).then(|| !has_value(low, row, "false"))
}

pub(super) fn has_value(low: &Low, row: &str, value: &str) -> bool {
    texts(low, row).any(|text| text == value)
}

/// Returns the value of a row, if it is written.
pub(super) fn optional<T>(
    low: &Low,
    row: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, MountFault> {
    let parsed = texts(low, row).next().map(parse).transpose();
    parsed.map_err(|error| MountFault::new(row, error))
}

/// Returns the value of a row with a default.
pub(super) fn value<T>(
    low: &Low,
    name: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, MountFault> {
    let default = match row(name).default {
        Default::Value(text) => text,
        _ => "",
    };
    let text = texts(low, name).next().unwrap_or(default);
    parse(text).map_err(|error| MountFault::new(name, error))
}

pub(super) fn number(low: &Low, name: &'static str) -> Result<u64, MountFault> {
    value(low, name, |text| directive_value_parsers::number(&row(name).kind, text))
}

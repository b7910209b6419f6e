//! The configuration of NGINX Unit (`unit.json`).
//!
//! | Module | Part |
//! |---|---|
//! | [`routes`] | the steps that a listener leads to, each with its hosts and paths |
//! | [`access_rules`] | steps that refuse requests → `[[site.access]]` |
//! | [`mounts`] | the paths of a step → a mount for each |
//! | [`sites`] | steps → a site for each set of hosts |
//! | [`applications`] | `applications`: mounts for Python, keys about PHP |
//! | [`upstreams`] | `proxy` and `upstreams` |

mod access_rules;
mod applications;
mod mounts;
mod routes;
mod sites;
mod upstreams;

use super::configuration_draft::{ConfigurationDraft, DraftTable, is_value, named};
use super::json_document::{JsonNode, pointer};
use std::cell::Cell;

/// The configuration, and the pointer to it.
struct Unit<'n> {
    root: &'n JsonNode,
    at: String,
    /// Steps of the present listener that were looked at.
    steps_seen: Cell<usize>,
}

/// Members of an export of Unit's control API beside the configuration.
const EXPORTED: [&str; 4] = ["certificates", "config", "js_modules", "status"];

/// Members that are read.
const MEMBERS: [&str; 6] =
    ["access_log", "applications", "listeners", "routes", "settings", "upstreams"];

/// Returns whether a value is a configuration of Unit.
pub(super) fn is_unit(root: &JsonNode) -> bool {
    configuration(root).is_some()
}

fn configuration(root: &JsonNode) -> Option<Unit<'_>> {
    let has_part = |node: &JsonNode| MEMBERS.iter().any(|name| node.member(name).is_some());
    if has_part(root) {
        return Some(Unit { root, at: String::new(), steps_seen: Cell::new(0) });
    }
    let root = root.member("config").filter(|config| has_part(config))?;
    Some(Unit { root, at: "/config".to_owned(), steps_seen: Cell::new(0) })
}

/// Converts a configuration.
///
/// # Errors
/// A phrase that says why nothing can be made of it.
pub(super) fn convert(root: &JsonNode) -> Result<ConfigurationDraft, String> {
    let unit = configuration(root).ok_or("this is no configuration of NGINX Unit")?;
    let mut first = DraftTable::new("");
    for (name, _) in unit.root.members() {
        if !MEMBERS.contains(&name.as_str()) && !EXPORTED.contains(&name.as_str()) {
            first.leave_out(pointer(&unit.at, name), "is not known, and was not carried");
        }
    }
    let mut server = DraftTable::new("[server]");
    let (target, listeners) = unit.listeners(&mut first, &mut server)?;
    let mut limits = DraftTable::new("[limits]");
    let max_body = unit.settings(&mut limits);
    let steps = unit.steps(&target, &mut first);
    let sites = sites::tables(&unit, &steps, max_body, &first)?;
    let log = unit.access_log();
    let tables = [vec![first], sites, listeners, vec![server, limits, log]].concat();
    Ok(ConfigurationDraft { tables, not_needed: 0 })
}

/// The target of the requests of a listener, and the place that names it.
struct ListenerTarget<'n> {
    pass: &'n str,
    at: String,
}

impl<'n> Unit<'n> {
    /// Returns the value of a member of a part, with its pointer.
    fn part(&self, part: &str, name: &str) -> Option<(&'n JsonNode, String)> {
        let at = pointer(&pointer(&self.at, part), name);
        Some((self.root.member(part)?.member(name)?, at))
    }

    /// Returns where requests go, and a table for each listener that leads there.
    fn listeners(
        &self,
        first: &mut DraftTable,
        server: &mut DraftTable,
    ) -> Result<(ListenerTarget<'n>, Vec<DraftTable>), String> {
        let listeners = self.root.member("listeners").map(JsonNode::members).unwrap_or_default();
        // Routes lead to more than an application alone does.
        let passes = listeners.iter().filter_map(|(_, listener)| listener.member("pass")?.text());
        let main = passes.clone().find(|pass| routes::route_name(pass).is_some());
        let main = main.or_else(|| passes.clone().next());
        let mut target: Option<ListenerTarget<'_>> = None;
        let mut tables = Vec::new();
        for (address, listener) in listeners {
            let at = pointer(&pointer(&self.at, "listeners"), address);
            let Some(pass) = listener.member("pass").and_then(JsonNode::text) else {
                first.leave_out(at, "has no pass, and was not carried");
                continue;
            };
            if let Some(main) = main.filter(|main| *main != pass) {
                let message = format!(
                    "passes to {}, not to {}: Pinion serves the same sites at every address; run a \
                     second server for it, or give its site hosts of its own",
                    named(pass),
                    named(main)
                );
                first.leave_out(at, message);
                continue;
            }
            tables.push(listener_table(address, listener, &at, server));
            target.get_or_insert(ListenerTarget { pass, at: pointer(&at, "pass") });
        }
        let target = target.ok_or("no listener passes to anything; add one to `listeners`")?;
        Ok((target, tables))
    }

    /// Carries the settings of HTTP, and returns the most content of a request, in bytes.
    fn settings(&self, limits: &mut DraftTable) -> Option<u64> {
        let mut max_body = None;
        let at = pointer(&self.at, "settings");
        for (name, node) in self.root.member("settings").map(JsonNode::members).unwrap_or_default()
        {
            let at = pointer(&at, name);
            if name != "http" {
                limits.leave_out(at, "has no equal in Pinion");
                continue;
            }
            for (name, node) in node.members() {
                let at = pointer(&at, name);
                match (name.as_str(), node.number()) {
                    ("header_read_timeout", Some(seconds)) => {
                        limits.number("header-timeout", seconds);
                    }
                    ("body_read_timeout", Some(seconds)) => limits.number("body-timeout", seconds),
                    ("idle_timeout", Some(seconds)) => limits.number("keep-alive-timeout", seconds),
                    ("max_body_size", Some(bytes)) => max_body = Some(bytes),
                    _ => limits.leave_out(at, http_setting(name)),
                }
            }
        }
        max_body
    }

    fn access_log(&self) -> DraftTable {
        let mut log = DraftTable::new("[log]");
        let at = pointer(&self.at, "access_log");
        let Some(node) = self.root.member("access_log") else { return log };
        match (node.text(), node.member("path").and_then(JsonNode::text)) {
            (Some(path), _) | (None, Some(path)) => log.text("access", path),
            (None, None) => log.leave_out(at.clone(), "has no path, and was not carried"),
        }
        for (name, _) in node.members().iter().filter(|(name, _)| name != "path") {
            let message = "was not carried: the formats are combined, vhost-combined and json";
            log.leave_out(pointer(&at, name), message);
        }
        log
    }
}

fn http_setting(name: &str) -> &'static str {
    match name {
        "send_timeout" => {
            "was not carried: a client that takes nothing is cut off after 30 to 60 s"
        }
        "body_buffer_size" | "body_temp_path" => {
            "was not carried: large content is stored in the folder that TMPDIR names"
        }
        "server_version" => "was not carried: Pinion sends a Server header only with server-name",
        "static" => "was not carried: media types are set in _headers, by Content-Type",
        _ => "has no equal in Pinion",
    }
}

/// Returns the table of a listener. Its settings about proxies are about the whole server here.
fn listener_table(
    address: &str,
    listener: &JsonNode,
    at: &str,
    server: &mut DraftTable,
) -> DraftTable {
    let mut table = DraftTable::new("[[listen]]");
    let address = address.strip_prefix('*').unwrap_or(address);
    let key = if listener.member("tls").is_some() { "tls" } else { "address" };
    table.text(key, address);
    for (name, node) in listener.members() {
        let at = pointer(at, name);
        match name.as_str() {
            "pass" => {}
            "tls" => certificates(node, &at, &mut table),
            "forwarded" | "client_ip" => forwarded(node, &at, server),
            _ => table.leave_out(at, "has no equal in Pinion"),
        }
    }
    table
}

fn certificates(tls: &JsonNode, at: &str, table: &mut DraftTable) {
    for (name, node) in tls.members() {
        let at = pointer(at, name);
        let Some(bundles) = node.texts().filter(|_| name == "certificate") else {
            table.leave_out(at, "has no equal in Pinion");
            continue;
        };
        for bundle in bundles {
            let message = format!(
                "the certificate {} is in Unit's state folder (certs/, as PEM): copy it, and name \
                 it as cert of a [[certificate]]; until then the certificate is self-signed",
                named(bundle)
            );
            table.leave_out(at.clone(), message);
        }
    }
}

/// Converts the settings of proxies: which are trusted, and where they name the client.
fn forwarded(node: &JsonNode, at: &str, server: &mut DraftTable) {
    for (name, node) in node.members() {
        let at = pointer(at, name);
        match (name.as_str(), node.texts()) {
            ("client_ip" | "header", Some(headers)) if headers.len() == 1 => {
                server.text("client-ip-header", headers[0]);
            }
            ("source", Some(sources)) => {
                for source in sources {
                    let is_plain = !source.starts_with('!') && !source.contains('-');
                    match source.strip_prefix("unix:").or(Some(source).filter(|_| is_plain)) {
                        Some("") => server.add("trusted-proxies", "unix".to_owned()),
                        Some(source) if is_value("trusted-proxy", source) => {
                            server.add("trusted-proxies", source.to_owned());
                        }
                        _ => {
                            let message =
                                format!("{} was not carried: write networks", named(source));
                            server.leave_out(at.clone(), message);
                        }
                    }
                }
            }
            ("protocol", Some(headers)) if headers == ["X-Forwarded-Proto"] => {}
            ("recursive", _) if *node == JsonNode::Bool(true) => {}
            ("recursive", _) => {
                server.leave_out(at, "Pinion reads the list from its end, past trusted addresses");
            }
            _ => server.leave_out(at, "has no equal in Pinion"),
        }
    }
}

//! Other servers: `proxy` of an action, and `upstreams`.

use super::super::configuration_draft::{DraftTable, named};
use super::super::json_document::{JsonNode, pointer};
use super::Unit;

/// Sets the server of a mount: `http://127.0.0.1:3000`, `http://unix:/run/app.sock`.
pub(super) fn proxy(url: &str, mount: &mut DraftTable) {
    match url.strip_prefix("http://unix:") {
        Some(path) => mount.text("proxy", format!("unix:{}", path.trim_end_matches(':'))),
        None => mount.text("proxy", url),
    }
}

impl Unit<'_> {
    /// Sets the servers of a mount. Says whether there are any.
    pub(super) fn upstream(&self, name: &str, at: &str, mount: &mut DraftTable) -> bool {
        let Some((upstream, place)) = self.part("upstreams", name) else {
            mount.leave_out(at, format!("there is no upstream {}", named(name)));
            return false;
        };
        let place = pointer(&place, "servers");
        let servers = upstream.member("servers").map(JsonNode::members).unwrap_or_default();
        for (address, options) in servers {
            let weight = options.member("weight");
            if weight.is_some_and(|weight| *weight != JsonNode::Number(1)) {
                let at = pointer(&pointer(&place, address), "weight");
                mount.leave_out(at, "was not carried: all servers get the same share");
            }
            let unix = address.starts_with("unix:");
            let url = if unix { address.clone() } else { format!("http://{address}") };
            mount.add("proxy", url);
        }
        if servers.is_empty() {
            mount.leave_out(place, "names no server");
        }
        !servers.is_empty()
    }
}

//! The protocols of the engine know their link and the buffers, and nothing of what calls them.

use super::Rule;
use super::project::{Finding, Project};

/// Where the protocols are, as files and as folders.
const PROTOCOLS: [&str; 4] = [
    "crates/engine/src/http1",
    "crates/engine/src/http2",
    "crates/engine/src/http3",
    "crates/engine/src/multiplexed",
];

/// Types of the layers above: the table of connections, the worker, the application.
const HIGHER: [&str; 5] = ["Core", "Conns", "Conn", "Worker", "App"];

pub(super) const LAYERS: Rule = Rule { name: "layers", check: layers, canary: protocol_with_core };

fn layers(project: &Project) -> Vec<Finding> {
    let is_protocol = |path: &str| {
        let is_in =
            |place: &str| path.strip_prefix(place).is_some_and(|rest| rest.starts_with(['.', '/']));
        PROTOCOLS.iter().any(|place| is_in(place)) && !path.ends_with("/tests.rs")
    };
    let mut findings = Vec::new();
    for (file, source) in project.rust().filter(|(file, _)| is_protocol(&file.path)) {
        for name in HIGHER {
            findings.extend(source.words(name).map(|at| {
                let what = format!("a protocol knows its link and the buffers, not `{name}`");
                Finding::new(file, source.line(at), what)
            }));
        }
    }
    findings
}

fn protocol_with_core() -> Project {
    let file = "//! A protocol.\n\nuse crate::core::Core;\n";
    let map = "//! The engine.\n\nmod http1;\n";
    Project::of(&[("crates/engine/src/http1.rs", file), ("crates/engine/src/lib.rs", map)])
}

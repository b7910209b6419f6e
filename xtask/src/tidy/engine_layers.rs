//! The layers of the engine: its protocols use their link and the buffers, and no code of higher
//! layers; only the driver delivers the events of a connection to the application; the time comes
//! from the backend.

use super::Rule;
use super::project::{File, Finding, Project};
use super::rust_source::Source;

/// The modules of the protocols, as files and as folders.
const PROTOCOLS: [&str; 6] = [
    "crates/engine/src/byte_stream",
    "crates/engine/src/http1",
    "crates/engine/src/http2",
    "crates/engine/src/http3",
    "crates/engine/src/linger",
    "crates/engine/src/multiplexed",
];

/// The one module that calls the application about a connection.
const DRIVER: [&str; 1] = ["crates/engine/src/driver"];

/// The methods of the application that it calls.
const EVENTS: [&str; 9] = [
    "answered",
    "closed",
    "dropped",
    "error_page",
    "exchange",
    "flooded",
    "page_fields",
    "raw",
    "sent",
];

/// The modules that read the time: the backends, the main thread when it waits for the workers, and
/// the tickets of rustls, whose interface has no time.
const CLOCKS: [&str; 3] =
    ["crates/engine/src/backend", "crates/engine/src/server", "crates/engine/src/tls/tickets"];

/// Types and modules of the layers above: connections and their table, the worker, the application.
/// A connection is named by its module, because the protocols use a type `Connection` of QUIC.
const HIGHER: [&str; 6] = [
    "WorkerCore",
    "ConnectionTable",
    "crate::connection",
    "connection::Connection",
    "Worker",
    "App",
];

pub(super) const LAYERS: Rule = Rule { name: "layers", check: layers, canary: protocol_with_core };
pub(super) const EVENT_CALLS: Rule =
    Rule { name: "events", check: events_outside_of_the_driver, canary: core_with_an_event };
pub(super) const CLOCK: Rule =
    Rule { name: "clock", check: other_clocks, canary: quic_with_a_clock };

/// Returns whether a file is one of these modules, or within one.
fn is_in(path: &str, modules: &[&str]) -> bool {
    let is_in_one =
        |module: &&str| path.strip_prefix(*module).is_some_and(|rest| rest.starts_with(['.', '/']));
    modules.iter().any(is_in_one)
}

/// Returns the sources of the engine outside of these modules, without tests.
fn engine<'p>(
    project: &'p Project,
    without: &'p [&str],
) -> impl Iterator<Item = (&'p File, &'p Source)> {
    project.rust().filter(|(file, _)| {
        file.path.starts_with("crates/engine/src/")
            && !file.is_test()
            && !is_in(&file.path, without)
    })
}

fn layers(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in engine(project, &[]).filter(|(file, _)| is_in(&file.path, &PROTOCOLS)) {
        for name in HIGHER {
            findings.extend(source.words(name).map(|at| {
                let message = format!("a protocol knows its link and the buffers, not `{name}`");
                Finding::new(file, source.line(at), message)
            }));
        }
    }
    findings
}

fn events_outside_of_the_driver(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in engine(project, &DRIVER) {
        for event in EVENTS {
            let calls = source.words(event).filter(|at| source.code[..*at].ends_with("app."));
            findings.extend(calls.filter(|at| !source.is_test(*at)).map(|at| {
                let message = format!("only the driver calls `app.{event}`");
                Finding::new(file, source.line(at), message)
            }));
        }
    }
    findings
}

fn other_clocks(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in engine(project, &CLOCKS) {
        let reads = source.words("now").filter(|at| {
            let before = &source.code[..*at];
            before.ends_with("Instant::") || before.ends_with("SystemTime::")
        });
        findings.extend(reads.filter(|at| !source.is_test(*at)).map(|at| {
            let message = "the time of a worker comes from its backend, once in a pass".to_owned();
            Finding::new(file, source.line(at), message)
        }));
    }
    findings
}

fn core_with_an_event() -> Project {
    let file = "//! State.\n\nfn closed(app: &mut impl App) {\n    app.sent();\n}\n";
    let map = "//! The engine: `worker_core`.\n\nmod worker_core;\n";
    Project::of(&[("crates/engine/src/worker_core.rs", file), ("crates/engine/src/lib.rs", map)])
}

fn quic_with_a_clock() -> Project {
    let file =
        "//! Timers.\n\nfn due() -> std::time::Instant {\n    std::time::Instant::now()\n}\n";
    let map = "//! The engine: `quic`.\n\nmod quic;\n";
    Project::of(&[("crates/engine/src/quic.rs", file), ("crates/engine/src/lib.rs", map)])
}

fn protocol_with_core() -> Project {
    let file = "//! A protocol.\n\nuse crate::worker_core::WorkerCore;\n";
    let map = "//! The engine: `http1`.\n\nmod http1;\n";
    Project::of(&[("crates/engine/src/http1.rs", file), ("crates/engine/src/lib.rs", map)])
}

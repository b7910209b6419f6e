//! The table of scenarios: the measurements and their goals.

use super::compared_servers::{Content, PEERS, Program, Setup};
use super::served_content::LARGE_BYTES;
use super::{floods, h3_scenarios, lua_scenarios, tls_scenarios};
use std::collections::BTreeMap;

/// Servers that take turns under the same kind of load.
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) about: &'static str,
    pub(crate) connections: u32,
    /// The duration of each load.
    pub(crate) seconds: u32,
    pub(crate) cases: Vec<Case>,
    pub(crate) comparisons: Vec<Comparison>,
}

/// One server with one request.
pub(crate) struct Case {
    pub(crate) label: String,
    pub(crate) setup: Setup,
    pub(crate) ask: Ask,
}

/// A request, and the expected response.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) path: &'static str,
    pub(crate) status: u16,
    /// The length of the body where it matters.
    pub(crate) body_bytes: Option<u64>,
    /// Whether the request is conditional on an entity tag that matches.
    pub(crate) conditional: bool,
    /// Whether the connection ends after each response.
    pub(crate) closes: bool,
    /// Whether the request has `Connection: keep-alive`, for servers that need it.
    pub(crate) keeps: bool,
    pub(crate) pattern: Targets,
    pub(crate) client: Client,
    /// A simultaneous flood, by its name in `pinion-flood --list`.
    pub(crate) flood: Option<&'static str>,
}

/// The client of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Client {
    /// wrk, over HTTP/1.
    Wrk,
    /// h2load with this many concurrent requests on a connection.
    H2 { streams: u32 },
    /// The project's own client, over HTTP/3.
    H3 { streams: u32 },
    /// Connections that complete a handshake without a request, resuming an older session or not.
    Handshakes { resumed: bool },
    /// oha, over HTTP/1.
    Oha,
}

/// The sequence of requests on a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Targets {
    One,
    Pipelined(u32),
    /// Any of the 250 000 small files.
    Random,
    /// One of them, with the same work for the client.
    Hot,
    /// The 1000 small pages in turn.
    Pages,
}

/// The ratio of a figure of one case to that of others, in the same round.
pub(crate) struct Comparison {
    pub(crate) figure: Figure,
    pub(crate) case: String,
    /// The case with the best median is used.
    pub(crate) with: Vec<String>,
    /// The goal; `None` if the ratio is only informative.
    pub(crate) limit: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Figure {
    /// CPU time of the server per response.
    Cpu,
    /// CPU time of the client per response, of clients that measure it.
    ClientCpu,
    /// CPU time of server and client together per response.
    TotalCpu,
    /// Bytes that the client received per response.
    Bytes,
    /// The time within which half of the responses arrived.
    P50,
    /// The time within which 99 of 100 responses arrived.
    P99,
}

/// The number of open connections in most scenarios.
pub(crate) const CONNECTIONS: u32 = 64;

/// The connection counts of the sweep.
pub(crate) const SWEEP: &[u32] = &[1, 16, 64, 128, 512, 2048, 4096, 10_000, 16_384];

/// wrk needs up to a second to open so many connections, which its load must outlast.
const OPENED_PER_SECOND: u32 = 4096;

/// A file, and the same without a site.
pub(crate) const DUMMIES: [(&str, Content); 3] =
    [("file", Content::Small), ("dummy", Content::Dummy), ("empty dummy", Content::DummyEmpty)];

/// The cost of the kernel itself, which no server can undercut.
pub(crate) const BARE: &[Program] = &[Program::BareEpoll, Program::BareUring];

pub(crate) const PINION: &[Program] = &[Program::PinionEpoll, Program::PinionUring];

/// Returns all scenarios except the sweep, in the order of the report.
pub(crate) fn all(seconds: u32) -> Vec<Scenario> {
    let page = Ask::new("/hello.txt");
    let pipelined = Ask { pattern: Targets::Pipelined(16), ..page.clone() };
    let closing = Ask { closes: true, ..page.clone() };
    let mut sixteen = against_bare(
        "pipelined",
        "One small file, 16 requests in each write.",
        &pipelined,
        1.3,
        seconds,
    );
    for program in PINION {
        sixteen.comparisons.push(beside(Figure::Cpu, program, &[Program::Nginx], 0.1));
    }
    let mut scenarios = vec![
        against_bare(
            "keep-alive",
            "One small file over connections that stay open.",
            &page,
            1.1,
            seconds,
        ),
        sixteen,
        against_bare(
            "close",
            "One small file, a connection for each request.",
            &closing,
            1.15,
            seconds,
        ),
        responses(seconds),
        workers(seconds),
        paths(seconds),
        rules(seconds),
        large(seconds),
    ];
    scenarios.extend(tls_scenarios::all(seconds));
    scenarios.extend(h3_scenarios::all(seconds));
    scenarios.extend(lua_scenarios::all(seconds));
    scenarios.push(floods::beside(seconds));
    scenarios
}

/// Returns one step of the sweep: every server with this many connections.
pub(crate) fn step(connections: u32, seconds: u32) -> Scenario {
    let seconds = seconds + connections / OPENED_PER_SECOND;
    let page = Ask::new("/hello.txt");
    let compare = |program: &Program| beside(Figure::P99, program, PEERS, 1.0);
    Scenario {
        name: format!("sweep-{connections}"),
        about: "One small file over connections that stay open.",
        connections,
        seconds,
        cases: everyone(&page),
        comparisons: PINION.iter().map(compare).collect(),
    }
}

/// Returns a scenario of every server with the same request, each compared with the bare loop of
/// its kind.
fn against_bare(name: &str, about: &'static str, ask: &Ask, limit: f64, seconds: u32) -> Scenario {
    let compare = |program: &Program| beside(Figure::Cpu, program, &[program.bare()], limit);
    let comparisons = PINION.iter().chain(PEERS).map(compare).collect();
    scenario(name, about, seconds, everyone(ask), comparisons)
}

/// Returns a scenario of other responses than a plain file, each compared with the plain file.
fn responses(seconds: u32) -> Scenario {
    let plain = Ask::new("/about.html");
    let asks = [
        ("plain file", plain.clone()),
        ("clean URL", Ask { path: "/about", ..plain.clone() }),
        ("index", Ask { path: "/", ..plain.clone() }),
        ("not found", Ask { path: "/nothing", status: 404, ..plain.clone() }),
        ("not modified", Ask { status: 304, conditional: true, ..plain.clone() }),
        ("redirect", Ask { path: "/guide", status: 308, ..plain }),
    ];
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for program in PINION {
        let label = |variant: &str| format!("{}, {variant}", program.name());
        for (variant, ask) in &asks {
            cases.push(Case::new(label(variant), *program, ask.clone()));
        }
        for (variant, _) in asks.iter().skip(1) {
            comparisons.push(cpu(label(variant), label("plain file"), 1.1));
        }
    }
    scenario(
        "answers",
        "What an answer costs beside that of a plain file.",
        seconds,
        cases,
        comparisons,
    )
}

/// Returns a scenario of two workers on one core, which shows the cost of sharing the work.
fn workers(seconds: u32) -> Scenario {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for program in PINION {
        let label = |count: &str| format!("{}, {count}", program.name());
        for (count, workers) in [("one worker", 1), ("two workers", 2)] {
            let mut case = Case::new(label(count), *program, Ask::new("/hello.txt"));
            case.setup.workers = workers;
            cases.push(case);
        }
        comparisons.push(cpu(label("two workers"), label("one worker"), 1.1));
    }
    scenario(
        "workers",
        "Two workers on one core beside one worker on it.",
        seconds,
        cases,
        comparisons,
    )
}

/// Returns a scenario of random files, compared with a single one.
fn paths(seconds: u32) -> Scenario {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for program in PINION {
        let label = |which: &str| format!("{}, {which}", program.name());
        for (which, pattern) in [("hot path", Targets::Hot), ("random paths", Targets::Random)] {
            let ask = Ask { pattern, ..Ask::new("/000/page-000.txt") };
            let mut case = Case::new(label(which), *program, ask);
            case.setup.content = Content::Many;
            cases.push(case);
        }
        comparisons.push(cpu(label("random paths"), label("hot path"), 1.15));
    }
    scenario(
        "paths",
        "Random paths over 250 000 files of about a hundred bytes, beside one of them.",
        seconds,
        cases,
        comparisons,
    )
}

/// Returns a scenario of a site with many rules, compared with a site without. Each row has a
/// request with rules, and one that gives the same response without.
fn rules(seconds: u32) -> Scenario {
    let page = Ask::new("/hello.txt");
    let missing = Ask { status: 404, ..Ask::new("/nothing") };
    let asks = [
        ("file", page.clone(), page.clone()),
        ("first of 2000 paths", Ask::new("/old/0"), page.clone()),
        ("last of 2000 paths", Ask::new("/old/1999"), page.clone()),
        ("last of 100 patterns", Ask::new("/99-blog/2024/news"), page),
        ("not found", missing.clone(), missing),
    ];
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for program in PINION {
        let label = |variant: &str, which: &str| format!("{}, {variant}, {which}", program.name());
        for (variant, with, without) in &asks {
            let (ruled, plain) = (label(variant, "rules"), label(variant, "none"));
            let mut case = Case::new(ruled.clone(), *program, with.clone());
            case.setup.content = Content::Ruled;
            cases.push(Case::new(plain.clone(), *program, without.clone()));
            cases.push(case);
            comparisons.push(cpu(ruled, plain, 1.05));
        }
    }
    scenario(
        "rules",
        "A file and its rewrites in a site with rules for 2000 paths and 100 patterns, beside that \
         file in a site without.",
        seconds,
        cases,
        comparisons,
    )
}

/// Returns a scenario of a file of 100 KiB, compared with the best of the other servers.
fn large(seconds: u32) -> Scenario {
    let ask = Ask { body_bytes: Some(LARGE_BYTES as u64), ..Ask::new("/large/file.bin") };
    let case = |program: &Program| Case::new(program.name().to_owned(), *program, ask.clone());
    let compare = |program: &Program| beside(Figure::Cpu, program, PEERS, 1.0);
    let cases = PINION.iter().chain(PEERS).map(case).collect();
    scenario(
        "large",
        "A file of 100 KiB, beside the best of the other servers.",
        seconds,
        cases,
        PINION.iter().map(compare).collect(),
    )
}

/// Returns a scenario with the usual number of connections.
pub(crate) fn scenario(
    name: &str,
    about: &'static str,
    seconds: u32,
    cases: Vec<Case>,
    comparisons: Vec<Comparison>,
) -> Scenario {
    Scenario { name: name.to_owned(), about, connections: CONNECTIONS, seconds, cases, comparisons }
}

/// Returns every server with the same request.
fn everyone(ask: &Ask) -> Vec<Case> {
    // Consecutive cases are compared, so that drift of the machine has the least effect.
    [Program::BareEpoll, Program::PinionEpoll, Program::BareUring, Program::PinionUring]
        .iter()
        .chain(PEERS)
        .map(|program| Case::new(program.name().to_owned(), *program, ask.clone()))
        .collect()
}

pub(crate) fn cpu(case: String, with: String, limit: f64) -> Comparison {
    Comparison { figure: Figure::Cpu, case, with: vec![with], limit: Some(limit) }
}

/// Returns a comparison that is only informative.
pub(crate) fn cpu_without_goal(case: String, with: String) -> Comparison {
    Comparison { limit: None, ..cpu(case, with, 0.0) }
}

/// Returns comparisons of the client's work for each response of a program over HTTP/2 or HTTP/3,
/// with the best of others. They are only informative.
pub(crate) fn client_work(program: &Program, others: &[Program]) -> [Comparison; 3] {
    let compare = |figure| Comparison { limit: None, ..beside(figure, program, others, 0.0) };
    [Figure::ClientCpu, Figure::TotalCpu, Figure::Bytes].map(compare)
}

/// Returns a comparison of a program with the best of others, in a scenario with one case for each.
/// The goal is that of this project.
pub(crate) fn beside(
    figure: Figure,
    program: &Program,
    others: &[Program],
    limit: f64,
) -> Comparison {
    Comparison {
        figure,
        case: program.name().to_owned(),
        with: others.iter().map(|other| other.name().to_owned()).collect(),
        limit: program.is_pinion().then_some(limit),
    }
}

/// The goal for the CPU time of a request, relative to an earlier program of Pinion.
const BEFORE_RATIO: f64 = 1.02;

impl Scenario {
    /// Replaces the name of each program at the beginning of labels by what `label` returns.
    pub(crate) fn name_versions(&mut self, label: impl Fn(Program) -> String) {
        let mut renamed = BTreeMap::new();
        for case in &mut self.cases {
            let program = case.setup.program;
            if let Some(rest) = case.label.strip_prefix(program.name()) {
                let new = format!("{}{rest}", label(program));
                renamed.insert(std::mem::replace(&mut case.label, new.clone()), new);
            }
        }
        for comparison in &mut self.comparisons {
            for label in [&mut comparison.case].into_iter().chain(&mut comparison.with) {
                if let Some(new) = renamed.get(label) {
                    label.clone_from(new);
                }
            }
        }
    }

    /// Returns whether a client measures its own work, as those of HTTP/2 and HTTP/3 do.
    pub(crate) fn measures_clients(&self) -> bool {
        self.cases
            .iter()
            .any(|case| matches!(case.ask.client, Client::H2 { .. } | Client::H3 { .. }))
    }

    /// Adds an earlier program of Pinion to each of its cases, and compares the two.
    pub(crate) fn compare_with_before(&mut self) {
        for case in std::mem::take(&mut self.cases) {
            let before = case.setup.program.is_pinion().then(|| case.before());
            if let Some(before) = &before {
                let (own, with) = (case.label.clone(), before.label.clone());
                self.comparisons.push(cpu(own, with, BEFORE_RATIO));
            }
            self.cases.push(case);
            self.cases.extend(before);
        }
    }
}

impl Case {
    /// Returns the same case with an earlier program.
    fn before(&self) -> Self {
        let setup = Setup { is_before: true, ..self.setup };
        Self { label: format!("{}, before", self.label), setup, ask: self.ask.clone() }
    }

    pub(crate) fn new(label: String, program: Program, ask: Ask) -> Self {
        let closes = ask.closes && program.is_bare();
        let setup = Setup {
            program,
            is_before: false,
            content: Content::Small,
            workers: 1,
            closes,
            key: None,
            quic: false,
        };
        Self { label, setup, ask }
    }
}

impl Ask {
    /// Returns a plain GET whose response has status 200.
    pub(crate) fn new(path: &'static str) -> Self {
        Self {
            path,
            status: 200,
            body_bytes: None,
            conditional: false,
            closes: false,
            keeps: false,
            pattern: Targets::One,
            client: Client::Wrk,
            flood: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_name_existing_cases_and_scenario_names_are_unique() {
        let mut seen = std::collections::BTreeSet::new();
        for mut scenario in all(1).into_iter().chain(SWEEP.iter().map(|&count| step(count, 1))) {
            scenario.compare_with_before();
            let labels: Vec<&String> = scenario.cases.iter().map(|case| &case.label).collect();
            for comparison in &scenario.comparisons {
                assert!(labels.contains(&&comparison.case), "{}", comparison.case);
                assert!(comparison.with.iter().all(|with| labels.contains(&with)));
            }
            let old = labels.len();
            scenario.name_versions(|program| format!("{} 1.0", program.name()));
            let labels: Vec<&String> = scenario.cases.iter().map(|case| &case.label).collect();
            assert!(labels.len() == old && labels.iter().all(|label| label.contains(" 1.0")));
            let is_known = |label| labels.contains(&label);
            for comparison in &scenario.comparisons {
                assert!(is_known(&comparison.case) && comparison.with.iter().all(is_known));
            }
            assert!(seen.insert(scenario.name.clone()), "{} twice", scenario.name);
        }
    }
}

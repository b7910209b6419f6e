//! The cost of HTTP/3: the part of the table of scenarios about HTTP/3.

use super::certificates::Key;
use super::compared_servers::Program;
use super::scenario::{
    Ask, Case, Client, Comparison, DUMMIES, PINION, Scenario, client_work, cpu, cpu_without_goal,
};
use super::served_content::HUGE_BYTES;
use super::tls_scenarios::PAGE;

/// Returns the scenarios in the order of the report.
pub(crate) fn all(seconds: u32) -> Vec<Scenario> {
    vec![
        small("h3", 1, "One small file over HTTP/3, one request of a connection at once.", seconds),
        small(
            "h3-streams",
            32,
            "One small file over HTTP/3, 32 requests of a connection at once.",
            seconds,
        ),
        huge(seconds),
        dummy(seconds),
    ]
}

/// The server that the goals are compared with.
const PEER: Program = Program::Caddy;

/// The servers of other projects that send files over HTTP/3.
const PEERS: &[Program] =
    &[PEER, Program::CurrentCaddy, Program::CurrentNginx, Program::CurrentH2o];

pub(crate) fn case(label: String, program: Program, streams: u32, ask: &Ask) -> Case {
    let mut case = Case::new(label, program, Ask { client: Client::H3 { streams }, ..ask.clone() });
    (case.setup.key, case.setup.quic) = (Some(Key::P256), true);
    case
}

/// Returns the scenario of a small file from every server, compared with Caddy and with the current
/// nginx.
fn small(name: &str, streams: u32, about: &'static str, seconds: u32) -> Scenario {
    let own = |program: &Program| program.name().to_owned();
    let each = |program: &Program| case(own(program), *program, streams, &Ask::new(PAGE));
    Scenario {
        name: name.to_owned(),
        about,
        connections: 10,
        seconds,
        cases: PINION.iter().chain(PEERS).chain(&[Program::CurrentHaproxy]).map(each).collect(),
        comparisons: comparisons(0.25),
    }
}

/// Compares both backends with Caddy, which is the goal, and with the current nginx.
fn comparisons(goal: f64) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for program in PINION {
        let own = || program.name().to_owned();
        comparisons.push(cpu(own(), PEER.name().to_owned(), goal));
        comparisons.push(cpu_without_goal(own(), Program::CurrentNginx.name().to_owned()));
        comparisons.extend(client_work(program, &[Program::CurrentNginx]));
    }
    comparisons
}

/// Returns the scenario of a file of 10 MiB.
fn huge(seconds: u32) -> Scenario {
    let ask = Ask { body_bytes: Some(HUGE_BYTES as u64), ..Ask::new("/large/huge.bin") };
    let own = |program: &Program| program.name().to_owned();
    let each = |program: &Program| case(own(program), *program, 1, &ask);
    Scenario {
        name: "h3-huge".to_owned(),
        about: "A file of 10 MiB over HTTP/3. What is under way when the time is over is waited \
                for, so each request is charged with one whole file.",
        connections: 4,
        seconds,
        cases: PINION.iter().chain(PEERS).map(each).collect(),
        comparisons: comparisons(1.0),
    }
}

/// Returns the scenario of a file compared with the same bytes without a site.
fn dummy(seconds: u32) -> Scenario {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for &program in PINION {
        for streams in [1, 32] {
            let label = |variant: &str| format!("{}, {streams} at once, {variant}", program.name());
            for (variant, content) in DUMMIES {
                let mut case = case(label(variant), program, streams, &Ask::new(PAGE));
                case.setup.content = content;
                cases.push(case);
            }
            for (variant, _) in &DUMMIES[1..] {
                comparisons.push(cpu_without_goal(label("file"), label(variant)));
            }
        }
    }
    Scenario {
        name: "h3-dummy".to_owned(),
        about: "One small file over HTTP/3, beside the same content without a site, and beside no \
                content.",
        connections: 10,
        seconds,
        cases,
        comparisons,
    }
}

//! The cost of TLS and HTTP/2: the part of the table of scenarios for them.

use super::certificates::Key;
use super::compared_servers::Program;
use super::scenario::{
    Ask, BARE, CONNECTIONS, Case, Client, Comparison, DUMMIES, Figure, PINION, Scenario, Targets,
    beside, client_work, cpu, cpu_without_goal,
};
use super::served_content::{HUGE_BYTES, MEDIUM_BYTES};

/// Returns the scenarios in the order of the report.
pub(crate) fn all(seconds: u32) -> Vec<Scenario> {
    vec![
        streams(seconds),
        pages(seconds),
        alone(seconds),
        medium(seconds),
        keep_alive(seconds),
        handshakes(seconds),
        huge(seconds),
        crowd(seconds),
        dummy(seconds),
    ]
}

/// The servers of other projects in comparisons over TLS.
const TLS_PEERS: &[Program] =
    &[Program::Nginx, Program::H2o, Program::CurrentNginx, Program::CurrentH2o];

/// Those of them that can send a small file over HTTP/2.
const H2_PEERS: &[Program] = &[
    Program::Nginx,
    Program::H2o,
    Program::CurrentNginx,
    Program::CurrentH2o,
    Program::CurrentCaddy,
    Program::CurrentHaproxy,
    Program::CurrentLighttpd,
];

pub(crate) const PAGE: &str = "/hello.txt";

pub(crate) fn h2(streams: u32) -> Ask {
    Ask { client: Client::H2 { streams }, ..Ask::new(PAGE) }
}

pub(crate) fn encrypted(label: String, program: Program, key: Key, ask: Ask) -> Case {
    let mut case = Case::new(label, program, ask);
    case.setup.key = Some(key);
    case
}

/// Returns a scenario of many streams on few connections.
fn streams(seconds: u32) -> Scenario {
    let case =
        |program: &Program| encrypted(program.name().to_owned(), *program, Key::P256, h2(32));
    let against = |program: &Program| beside(Figure::Cpu, program, &[Program::H2o], 0.6);
    let others = H2_PEERS.iter().filter(|program| **program != Program::H2o);
    let mut comparisons: Vec<Comparison> = PINION.iter().chain(others).map(against).collect();
    comparisons.extend(PINION.iter().flat_map(|it| client_work(it, &[Program::H2o])));
    Scenario {
        name: "h2".to_owned(),
        about: "One small file over HTTP/2 and TLS, 32 requests of a connection at once.",
        connections: 10,
        seconds,
        cases: PINION.iter().chain(H2_PEERS).map(case).collect(),
        comparisons,
    }
}

/// Returns a scenario of many files over HTTP/2 with different fields.
fn pages(seconds: u32) -> Scenario {
    let ask = Ask { pattern: Targets::Pages, ..h2(32) };
    let case =
        |program: &Program| encrypted(program.name().to_owned(), *program, Key::P256, ask.clone());
    let own = PINION.iter();
    Scenario {
        name: "h2-pages".to_owned(),
        about: "1000 small files in turn over HTTP/2 and TLS, 32 requests of a connection at once.",
        connections: 10,
        seconds,
        cases: PINION.iter().chain(TLS_PEERS).map(case).collect(),
        comparisons: own.flat_map(|it| client_work(it, &[Program::H2o])).collect(),
    }
}

/// Returns a scenario of a file of medium size, over HTTP/1.1 and HTTP/2.
fn medium(seconds: u32) -> Scenario {
    const FILE: &str = "/large/medium.bin";
    let label = |program: Program, how: &str| format!("{}, {how}", program.name());
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for (how, ask) in [("HTTP/1.1", Ask::new(FILE)), ("HTTP/2", Ask { path: FILE, ..h2(32) })] {
        for &program in PINION.iter().chain(TLS_PEERS) {
            let ask = Ask { body_bytes: Some(MEDIUM_BYTES as u64), ..ask.clone() };
            cases.push(encrypted(label(program, how), program, Key::P256, ask));
        }
        for &program in PINION {
            comparisons.push(cpu(label(program, how), label(Program::Nginx, how), 0.55));
        }
    }
    Scenario {
        name: "tls-medium".to_owned(),
        about: "A file of 15 KiB over TLS, by HTTP/1.1 and HTTP/2; connections stay open.",
        connections: 10,
        seconds,
        cases,
        comparisons,
    }
}

/// Returns a scenario of one request after the other: the response time of an otherwise idle
/// server.
fn alone(seconds: u32) -> Scenario {
    let case = |program: &Program| encrypted(program.name().to_owned(), *program, Key::P256, h2(1));
    let against = |program: &Program| beside(Figure::P50, program, &[Program::H2o], 1.0);
    Scenario {
        name: "h2-alone".to_owned(),
        about: "One small file over HTTP/2 and TLS, one request at a time.",
        connections: 1,
        seconds,
        cases: PINION.iter().chain(H2_PEERS).map(case).collect(),
        comparisons: PINION.iter().map(against).collect(),
    }
}

/// Returns a scenario of HTTP/1 over TLS, compared with nginx and with Pinion without TLS.
fn keep_alive(seconds: u32) -> Scenario {
    let label = |program: Program, how: &str| format!("{}, {how}", program.name());
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for &program in PINION.iter().chain(TLS_PEERS) {
        let (plain, tls) = (label(program, "plain"), label(program, "TLS"));
        cases.push(Case::new(plain.clone(), program, Ask::new(PAGE)));
        cases.push(encrypted(tls.clone(), program, Key::P256, Ask::new(PAGE)));
        if program.is_pinion() {
            comparisons.push(cpu(tls.clone(), label(Program::Nginx, "TLS"), 0.6));
            comparisons.push(cpu(tls, plain, 1.5));
        } else {
            comparisons.push(cpu_without_goal(tls, plain));
        }
    }
    for &program in BARE {
        let loop_alone = program.name().to_owned();
        cases.push(Case::new(loop_alone.clone(), program, Ask::new(PAGE)));
        comparisons.push(cpu_without_goal(loop_alone, label(Program::Nginx, "TLS")));
    }
    Scenario {
        name: "tls-keep-alive".to_owned(),
        about: "One small file over HTTP/1.1 and TLS 1.3, and without TLS; connections stay open.",
        connections: CONNECTIONS,
        seconds,
        cases,
        comparisons,
    }
}

/// Returns a scenario of handshakes without requests, full ones and resumed ones.
fn handshakes(seconds: u32) -> Scenario {
    let label = |program: Program, variant: &str| format!("{}, {variant}", program.name());
    let ask = |resumed| Ask { client: Client::Handshakes { resumed }, ..Ask::new(PAGE) };
    let kinds = [
        ("P-256", Key::P256, false),
        ("RSA-2048", Key::Rsa2048, false),
        ("resumed", Key::Rsa2048, true),
    ];
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for (variant, key, resumed) in kinds {
        for &program in PINION.iter().chain(TLS_PEERS) {
            cases.push(encrypted(label(program, variant), program, key, ask(resumed)));
        }
    }
    for &program in PINION {
        let with_nginx =
            |variant, limit| cpu(label(program, variant), label(Program::Nginx, variant), limit);
        let with_own =
            |variant, limit| cpu(label(program, "resumed"), label(program, variant), limit);
        comparisons.push(with_nginx("P-256", 0.5));
        comparisons.push(with_nginx("RSA-2048", 0.8));
        comparisons.push(with_own("RSA-2048", 0.4));
        comparisons.push(with_own("P-256", 1.0));
        let (own, other) = (label(program, "resumed"), label(Program::Nginx, "resumed"));
        comparisons.push(cpu_without_goal(own, other));
    }
    Scenario {
        name: "handshakes".to_owned(),
        about: "Connections over TLS 1.3 with X25519 that ask for nothing: what is called a \
                request here is a handshake, with the begin and the end of its connection.",
        connections: 16,
        seconds,
        cases,
        comparisons,
    }
}

/// Returns a scenario of a file of 10 MiB.
fn huge(seconds: u32) -> Scenario {
    let label = |program: Program, how: &str| format!("{}, {how}", program.name());
    let plain = Ask { body_bytes: Some(HUGE_BYTES as u64), ..Ask::new("/large/huge.bin") };
    let ways = [
        ("HTTP/1.1", plain.clone()),
        ("HTTP/2", Ask { client: Client::H2 { streams: 1 }, ..plain }),
    ];
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for (how, ask) in ways {
        for &program in PINION.iter().chain(TLS_PEERS) {
            cases.push(encrypted(label(program, how), program, Key::P256, ask.clone()));
        }
        for &program in PINION {
            comparisons.push(cpu(label(program, how), label(Program::Nginx, how), 1.1));
        }
    }
    Scenario {
        name: "tls-huge".to_owned(),
        about: "A file of 10 MiB over TLS.",
        connections: 4,
        seconds,
        cases,
        comparisons,
    }
}

/// Returns a scenario with oha's three cases, in which no request may fail.
fn crowd(seconds: u32) -> Scenario {
    let keep = Ask { client: Client::Oha, ..Ask::new(PAGE) };
    let close = Ask { closes: true, ..keep.clone() };
    let mut cases = Vec::new();
    for &program in PINION {
        let label = |how: &str| format!("{}, {how}", program.name());
        cases.push(Case::new(label("plain"), program, keep.clone()));
        cases.push(encrypted(label("TLS"), program, Key::Rsa2048, keep.clone()));
        cases.push(encrypted(label("TLS, no reuse"), program, Key::Rsa2048, close.clone()));
    }
    Scenario {
        name: "oha".to_owned(),
        about: "One small file, asked for by oha; with TLS the key is RSA-2048.",
        connections: 1024,
        seconds,
        cases,
        comparisons: Vec::new(),
    }
}

/// Returns a scenario of a file, compared with the same bytes without a site.
fn dummy(seconds: u32) -> Scenario {
    let ways = [
        ("HTTP/1.1", None, Ask::new(PAGE)),
        ("HTTP/1.1 over TLS", Some(Key::P256), Ask::new(PAGE)),
        ("HTTP/2 over TLS", Some(Key::P256), h2(32)),
    ];
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for &program in PINION {
        for (how, key, ask) in &ways {
            let label = |variant: &str| format!("{}, {how}, {variant}", program.name());
            for (variant, content) in DUMMIES {
                let mut case = Case::new(label(variant), program, ask.clone());
                (case.setup.key, case.setup.content) = (*key, content);
                cases.push(case);
            }
            for (variant, _) in &DUMMIES[1..] {
                comparisons.push(cpu_without_goal(label("file"), label(variant)));
            }
        }
    }
    Scenario {
        name: "dummy".to_owned(),
        about: "One small file, beside the same content without a site, and beside no content.",
        connections: 10,
        seconds,
        cases,
        comparisons,
    }
}

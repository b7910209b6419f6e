//! The effect of a flood on other clients: the times of their responses while one client causes
//! work without end at full speed.

use super::certificates::Key;
use super::compared_servers::Program;
use super::h3_scenarios;
use super::scenario::{Ask, Case, Comparison, Figure, PINION, Scenario};
use super::tls_scenarios::{PAGE, encrypted, h2};

/// The goal: the factor by which the 99th percentile of response times may grow in a flood.
const GOAL: f64 = 2.0;

/// The floods over HTTP/2, as listed by `pinion-flood --list`.
const HTTP2: &[&str] = &[
    "h2:rapid reset",
    "h2:made you reset",
    "h2:CONTINUATION of a full frame",
    "h2:SETTINGS",
    "h2:PING",
    "h2:empty DATA",
    "h2:fields of a full table, many times",
    "h2:fields of a full table, windows that stay shut",
    "h2:windows opened byte by byte",
    "h2:windows that stay shut",
];

/// The same floods where HTTP/3 has them, and those that only QUIC has.
const HTTP3: &[&str] = &[
    "h3:rapid reset",
    "h3:answers that are stopped",
    "h3:made you reset",
    "h3:empty DATA",
    "h3:heads beyond the limit",
    "h3:heads of too many fields",
    "h3:windows that stay shut",
    "h3:handshakes",
];

/// Measures one client that sends one request after the other, without a flood and with each of
/// them.
pub(crate) fn beside(seconds: u32) -> Scenario {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for &program in PINION {
        for (floods, alone, of) in
            [(HTTP2, "h2 alone", http2 as fn(_, _) -> Case), (HTTP3, "h3 alone", http3)]
        {
            let label = |variant: &str| format!("{}, {variant}", program.name());
            cases.push(of(program, label(alone)));
            for &flood in floods {
                let mut case = of(program, label(flood));
                case.ask.flood = Some(flood);
                for (figure, limit) in [(Figure::P99, Some(GOAL)), (Figure::P50, None)] {
                    let (case, with) = (case.label.clone(), vec![label(alone)]);
                    comparisons.push(Comparison { figure, case, with, limit });
                }
                cases.push(case);
            }
        }
    }
    Scenario {
        name: "floods".to_owned(),
        about: "One small file over TLS, one request at a time, while four connections flood the \
                server at full speed, beside the same without a flood. CPU is that of the whole \
                server for each answer that the measured client got.",
        connections: 1,
        seconds,
        cases,
        comparisons,
    }
}

fn http2(program: Program, label: String) -> Case {
    encrypted(label, program, Key::P256, h2(1))
}

fn http3(program: Program, label: String) -> Case {
    h3_scenarios::case(label, program, 1, &Ask::new(PAGE))
}

//! The cost of checks of access: a password that was verified before, a request rate, and paths
//! without a rule on a site that has rules.
//!
//! Two servers with the same files take turns, one of them without any rule. Each gets requests for
//! the same path, so that the difference is the check.

use super::compared_servers::Workshop;
use super::load_generators::Measured;
use super::measured_server::{self, SERVER_CORE, Server};
use super::wrk::{self, Load, Pattern};
use crate::bench::figure_table::{self, Figure};
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::fs;

/// The name of the part.
pub(crate) const NAME: &str = "access";

const ROUNDS: usize = 7;
const SECONDS: u32 = 2;
const CONNECTIONS: u32 = 64;
/// Microseconds of CPU time that a check may take, and a path without a rule.
const GOAL_CHECK_US: f64 = 1.0;
const GOAL_OTHER_US: f64 = 0.1;

/// A requested path, and the rules for it.
struct Case {
    name: &'static str,
    path: &'static str,
    goal_us: f64,
}

const CASES: [Case; 3] = [
    Case { name: "no rule for the path", path: "/hello.txt", goal_us: GOAL_OTHER_US },
    Case { name: "a verified password", path: "/guide/", goal_us: GOAL_CHECK_US },
    Case { name: "a request rate", path: "/about", goal_us: GOAL_CHECK_US },
];

/// Ada has the password `open sesame`.
const USERS: &str = "ada:$2y$12$JRfBjYDXCM3XhygaySxdw.BtRWhUHYISEaScfJ3c6wwNObCMxx2BC\n";
const CREDENTIALS: &str = "Authorization: Basic YWRhOm9wZW4gc2VzYW1l";

const RULES: &str = r#"
[[site.access]]
path = "/guide"
password-file = "access.users"

[[site.access]]
path = "/about"
request-rate = "1000000/s"
"#;

/// Measures, and returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let (plain, ruled) = (server(shop, "plain", "")?, server(shop, "ruled", RULES)?);
    let (mut figures, mut data) = (Vec::new(), Map::new());
    for case in CASES {
        let mut differences = Vec::new();
        for round in 0..=turns {
            let (before, behind) = (cpu_us(&plain, case.path)?, cpu_us(&ruled, case.path)?);
            eprintln!("  {NAME} {} {round}/{turns}: {before:.2} {behind:.2} µs", case.name);
            // The first one warms up, and verifies the password.
            if round > 0 {
                differences.push(behind - before);
            }
        }
        data.insert(case.name.to_owned(), json!(differences));
        let spread = Spread::of(differences).context("at least one round")?;
        figures.push(Figure::spread(case.name, &spread).at_most(case.goal_us));
    }
    let report = format!(
        "µs of CPU time that a request takes longer than on a server without rules: \
         {CONNECTIONS} connections, files of 13 bytes, {turns} rounds of {SECONDS} s in \
         turn.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

/// Starts a server of the small site with these rules.
fn server(shop: &Workshop, name: &str, rules: &str) -> Result<Server> {
    fs::write(shop.file("access.users"), USERS)?;
    let configuration = shop.file(&format!("{NAME}-{name}.toml"));
    fs::write(&configuration, format!("[[site]]\npath = \"small.pinion\"\n{rules}"))?;
    Server::start(&shop.file(&format!("{NAME}-{name}.log")), |port| {
        let mut command = measured_server::on_core(SERVER_CORE, shop.pinion());
        command.arg("serve").arg(&configuration).args(["--workers", "1", "--io", "epoll"]);
        command.args(["--control", "off", "--listen", &format!("127.0.0.1:{port}")]);
        Ok(command)
    })
}

/// Loads a server. Returns its CPU time for each request, in microseconds.
fn cpu_us(server: &Server, path: &str) -> Result<f64> {
    let before = server.cpu()?;
    let measured: Measured = wrk::run(&Load {
        connections: CONNECTIONS,
        seconds: SECONDS,
        url: format!("http://{}{path}", server.address()),
        fields: vec![CREDENTIALS.to_owned()],
        pattern: Pattern::Plain,
    })?;
    let cpu_us = server.cpu()?.since(&before) as f64 / 1e3 / measured.requests as f64;
    ensure!(measured.errors + measured.refusals == 0, "{path}: {measured:?}");
    Ok(cpu_us)
}

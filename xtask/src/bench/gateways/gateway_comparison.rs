//! A file, a CGI script and an application with FastCGI, each served by Pinion and by nginx, and a
//! WSGI application of Pinion, with one and with five processes: a number of requests over several
//! connections, on all cores.
//!
//! This repeats a comparison of 2017: a server in C with an application in Python, slowcgi and
//! flup.

use super::compared_servers::{Place, Scripts};
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::h2load::{self, Requests};
use crate::bench::load::load_generators::Measured;
use crate::bench::load::measured_server::Server;
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const REQUESTS: u32 = 10_000;
const CONNECTIONS: u32 = 100;
/// Workers of Pinion and processes of nginx; scripts of Pinion and processes of fcgiwrap that run
/// at the same time.
const CHILDREN: [u32; 2] = [1, 5];

/// The targets: their names and paths.
const TARGETS: [(&str, &str); 4] = [
    ("file", "/hello.txt"),
    ("CGI", "/cgi-bin/hello"),
    ("FastCGI, flup", "/app"),
    ("WSGI", "/wsgi"),
];
/// The target that nginx does not serve.
const OWN_TARGET: usize = 3;

/// The goal for the requests per second with CGI, relative to those of fcgiwrap with nginx.
const GOAL_CGI: f64 = 2.0;
/// The goal for the requests per second with FastCGI, relative to nginx.
const GOAL_FASTCGI: f64 = 1.0;
/// The goal for the slowest response of the application, relative to the median.
const GOAL_SLOWEST: f64 = 10.0;

/// A row of the table: the target, the number of processes, and the server.
type Row = (usize, u32, &'static str);

/// Measures, and returns the report and the data.
pub(super) fn run(place: &Place, rounds: usize) -> Result<(String, Value)> {
    let rows = measured(place, rounds)?;
    let (mut table, mut data) = (String::new(), Map::new());
    table.push_str(
        "| Response | Processes | Server | Requests/s | Median, ms | p99, ms | Slowest, ms |\n",
    );
    table.push_str("|---|---|---|---|---|---|---|\n");
    for ((target, children, server), rounds) in &rows {
        let spread = |of: fn(&Measured) -> f64| spread(rounds, of);
        let _ = writeln!(
            table,
            "| {} | {children} | {server} | {} | {} | {} | {} |",
            TARGETS[*target].0,
            spread(Measured::requests_per_second)?.shown(0),
            spread(|it| it.p50 as f64 / 1e3)?.shown(2),
            spread(|it| it.p99 as f64 / 1e3)?.shown(2),
            spread(|it| it.max as f64 / 1e3)?.shown(2),
        );
        let name = format!("{}, {children}, {server}", TARGETS[*target].0);
        data.insert(name, rounds.iter().map(Measured::data).collect());
    }
    let report = format!(
        "{REQUESTS} requests over {CONNECTIONS} connections that stay open, {rounds} rounds in \
         turn: the median, in brackets the least and the most. Servers and client share all cores. \
         The processes are those of nginx and of fcgiwrap, and the workers, `cgi-max` and \
         `python-processes` of Pinion. No request has failed.\n\n{table}\n{}",
        figure_table::table(&compared(&rows)?)
    );
    Ok((report, json!(data)))
}

fn spread(rounds: &[Measured], of: impl Fn(&Measured) -> f64) -> Result<Spread> {
    Spread::of(rounds.iter().map(of)).context("at least one round")
}

/// Returns the ratios that have goals.
fn compared(rows: &BTreeMap<Row, Vec<Measured>>) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for children in CHILDREN {
        for (target, goal) in [(1, GOAL_CGI), (2, GOAL_FASTCGI)] {
            let (own, nginx) =
                (&rows[&(target, children, "Pinion")], &rows[&(target, children, "nginx")]);
            let pairs = own.iter().zip(nginx);
            let over =
                pairs.map(|(own, nginx)| own.requests_per_second() / nginx.requests_per_second());
            let over = Spread::of(over).context("at least one round")?;
            let name = format!("{}, {children}: requests/s over nginx", TARGETS[target].0);
            figures.push(Figure::spread(name, &over).at_least(goal));
        }
        let rounds = &rows[&(2, children, "Pinion")];
        let late = spread(rounds, |it| it.max as f64 / it.p50.max(1) as f64)?;
        let name = format!("FastCGI, flup, {children}: slowest over median");
        figures.push(Figure::spread(name, &late).at_most(GOAL_SLOWEST));
    }
    Ok(figures)
}

/// Loads each server in turn.
fn measured(place: &Place, rounds: usize) -> Result<BTreeMap<Row, Vec<Measured>>> {
    let _application = place.application()?;
    let mut rows = BTreeMap::<Row, Vec<Measured>>::new();
    for children in CHILDREN {
        let _wrap = place.fcgiwrap(children)?;
        let nginx = place.nginx(children)?;
        let pinion = place.pinion(children, Scripts::AtMost(children))?;
        for round in 0..rounds {
            for (target, (name, path)) in TARGETS.iter().enumerate() {
                for (server, running) in [("Pinion", &pinion), ("nginx", &nginx)] {
                    if target == OWN_TARGET && server == "nginx" {
                        continue;
                    }
                    let measured = load(place, running, path)?;
                    eprintln!(
                        "  {name}, {children}, {server}, {}/{rounds}: {:.0} requests/s",
                        round + 1,
                        measured.requests_per_second()
                    );
                    rows.entry((target, children, server)).or_default().push(measured);
                }
            }
        }
    }
    Ok(rows)
}

fn load(place: &Place, server: &Server, path: &str) -> Result<Measured> {
    let measured = h2load::run_requests(&Requests {
        requests: REQUESTS,
        connections: CONNECTIONS,
        url: format!("http://{}{path}", server.address()),
        times: place.file("h2load.log"),
    })?;
    let is_whole = measured.requests == u64::from(REQUESTS)
        && measured.errors + measured.refusals + measured.timeouts == 0;
    ensure!(is_whole, "{path}: {measured:?}");
    Ok(measured)
}

//! The benchmark shows whether a thousand open event streams of an ASGI application slow down
//! files, and other requests for the application.

use super::compared_servers::Place;
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::measured_server::Server;
use crate::bench::load::proxied_event_streams::open_streams;
use crate::bench::load::wrk::{self, Load, Pattern};
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// Loads of one second whose median counts, so that one that something else on the machine has
/// disturbed does not.
const LOADS: usize = 5;
const CONNECTIONS: u32 = 64;
const STREAMS: u32 = 1000;
/// The 99th percentile of files with the streams, over that without them.
const GOAL_FILES: f64 = 1.2;
/// The 99th percentile of another request for the application, in milliseconds.
const GOAL_ROUTE_MS: f64 = 50.0;

/// Measures, and returns the report and the data.
pub(super) fn run(place: &Place, rounds: usize) -> Result<(String, Value)> {
    let server = Server::start(&place.file("python-streams.log"), |port| {
        let site = place.python_site(&port.to_string());
        let mount = place.python_mount("/asgi", "asgi = \"python_hello:main\"", 1);
        place.pinion_on_core("python-streams.toml", &(site + &mount))
    })?;
    let (mut ratios, mut route) = (Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=rounds {
        let alone = p99_ms(&server, "/hello.txt")?;
        let streams = open_streams(server.address(), "/asgi/events", STREAMS)?;
        let beside = p99_ms(&server, "/hello.txt")?;
        let application = p99_ms(&server, "/asgi")?;
        drop(streams);
        // Until all of them are closed on both sides.
        thread::sleep(Duration::from_secs(1));
        eprintln!("  {round}/{rounds}: {:.2}, {application:.1} ms", beside / alone);
        if round > 0 {
            ratios.push(beside / alone);
            route.push(application);
        }
    }
    let spread = |of: &[f64]| Spread::of(of.iter().copied()).context("at least one round");
    let figures = [
        Figure::spread("files: p99 beside the streams over that alone", &spread(&ratios)?)
            .at_most(GOAL_FILES),
        Figure::spread("the application: p99 beside the streams, ms", &spread(&route)?)
            .at_most(GOAL_ROUTE_MS),
    ];
    let report = format!(
        "The 99th percentile over {CONNECTIONS} connections beside {STREAMS} event streams of an \
         ASGI application with an event each second, {rounds} rounds, each the median of {LOADS} \
         loads of one second. The server and the application share one core.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, json!({"files": ratios, "application_ms": route})))
}

fn p99_ms(server: &Server, path: &str) -> Result<f64> {
    let load = || {
        let measured = wrk::run(&Load {
            connections: CONNECTIONS,
            seconds: 1,
            url: format!("http://{}{path}", server.address()),
            fields: Vec::new(),
            pattern: Pattern::Plain,
        })?;
        ensure!(measured.errors + measured.refusals == 0, "{measured:?}");
        Ok::<f64, anyhow::Error>(measured.p99 as f64 / 1e3)
    };
    let loads = (0..LOADS).map(|_| load()).collect::<Result<Vec<_>>>()?;
    Ok(Spread::of(loads).context("at least one load")?.median)
}

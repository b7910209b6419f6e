//! The latency of `GET` at half of the load that the slowest server supports.

use super::StoreServer;
use super::commands::{self, CONNECTIONS};
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::compared_servers::Workshop;
use crate::bench::load::h3load::{self, Load};
use crate::bench::load::load_generators::Measured;
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::time::Instant;

const ROUNDS: usize = 5;
/// The duration of each load.
const SECONDS: u32 = 4;
/// Commands that are sent to find the maximum load of a server.
const COMMANDS: u32 = 200_000;

/// Measures, and returns the report and the data.
pub(super) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let mut servers = Vec::new();
    let mut slowest = f64::MAX;
    for server in StoreServer::ALL {
        let started = server.start(shop).with_context(|| server.name())?;
        commands::fill(&started)?;
        let began = Instant::now();
        commands::redis_benchmark(started.address(), (1, COMMANDS), &["GET", "key:__rand_int__"])?;
        slowest = slowest.min(f64::from(COMMANDS) / began.elapsed().as_secs_f64());
        servers.push((server, started));
    }
    let rate = (slowest / 2.0).floor();
    let mut all: Vec<Vec<_>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 0..=turns {
        for ((server, started), latencies) in servers.iter().zip(&mut all) {
            let measured = h3load::run(&Load {
                program: shop.rateload(),
                connections: CONNECTIONS,
                streams: 1,
                seconds: SECONDS,
                url: format!("redis://{}/key:000000000007", started.address()),
                body_bytes: None,
                rate: Some(rate / f64::from(CONNECTIONS)),
            });
            let measured = measured.with_context(|| server.name())?;
            ensure!(measured.timeouts == 0, "{}: responses are missing", server.name());
            eprintln!("  {} at {rate} commands/s: p99 {} µs", server.name(), measured.p99);
            // The first round warms up.
            if round > 0 {
                latencies.push(measured);
            }
        }
    }
    let mut table = String::from("| Server | p50, µs | p99, µs | p99.9, µs |\n|---|---|---|---|\n");
    let mut data = Map::new();
    for ((server, _), latencies) in servers.iter().zip(&all) {
        let of = |figure: fn(&Measured) -> u64| {
            let figures = latencies.iter().map(|measured| figure(measured) as f64);
            Spread::of(figures).context("at least one round")
        };
        let (p50, p99, p999) = (of(|it| it.p50)?, of(|it| it.p99)?, of(|it| it.p999)?);
        let (name, shown) = (server.name(), [p50.shown(0), p99.shown(0), p999.shown(0)]);
        table += &format!("| {name} | {} |\n", shown.join(" | "));
        let rounds = latencies.iter().map(|it| {
            let Measured { requests, p50, p99, p999, .. } = it;
            json!({"requests": requests, "p50": p50, "p99": p99, "p999": p999})
        });
        data.insert(name.to_owned(), rounds.collect());
    }
    let best = |round: usize| {
        let peers = servers.iter().zip(&all).filter(|((server, _), _)| server.is_peer());
        peers.map(|(_, latencies)| latencies[round].p99).min().unwrap_or(u64::MAX) as f64
    };
    let mut figures = Vec::new();
    for ((server, _), latencies) in servers.iter().zip(&all).filter(|((it, _), _)| !it.is_peer()) {
        let over = latencies.iter().enumerate().map(|(round, it)| it.p99 as f64 / best(round));
        let over = Spread::of(over).context("at least one round")?;
        let name = format!("{}: p99 over the better peer", server.name());
        figures.push(Figure::spread(name, &over).at_most(1.0));
    }
    let report = format!(
        "Latency of GET at {rate} commands a second, half of what the slowest server can bear, \
         sent at fixed times over {CONNECTIONS} connections for {SECONDS} s, {turns} rounds in \
         turn.\n\n{table}\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

//! The CPU time of a command with two workers compared with that with one.

use super::commands::{self, CONNECTIONS};
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::compared_servers::Workshop;
use crate::bench::load::measured_server::Server;
use crate::bench::statistics::Spread;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::process::Command;

const ROUNDS: usize = 5;
/// The numbers of pipelined and of sent commands.
const LOAD: (u32, u32) = (16, 1_500_000);
/// CPU time over that with one worker.
const GOAL: f64 = 1.15;

const CASES: [(&str, &[&str]); 2] = [
    ("SET", &["SET", "key:__rand_int__", "value-of-16-byte"]),
    ("GET", &["GET", "key:__rand_int__"]),
];

/// Measures, and returns the report and the data.
pub(super) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let servers = [start(shop, 1)?, start(shop, 2)?];
    let (mut figures, mut data) = (Vec::new(), Map::new());
    for (name, words) in CASES {
        let mut costs: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for round in 0..=turns {
            for (server, costs) in servers.iter().zip(&mut costs) {
                let cost = commands::cost(server, words, LOAD)?;
                // The first round warms up.
                if round > 0 {
                    costs.push(cost);
                }
            }
        }
        eprintln!("  {name} with one and two workers");
        let over = costs[1].iter().zip(&costs[0]).map(|(two, one)| two / one);
        let over = Spread::of(over).context("at least one round")?;
        let figure = format!("{name}: CPU with two workers over that with one");
        figures.push(Figure::spread(figure, &over).at_most(GOAL));
        data.insert(name.to_owned(), json!({"one": costs[0], "two": costs[1]}));
    }
    let report = format!(
        "Pinion with one and with two workers on both cores, beside the client; {CONNECTIONS} \
         connections, {} commands pipelined, {turns} rounds in turn.\n\n{}",
        LOAD.0,
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

fn start(shop: &Workshop, workers: u32) -> Result<Server> {
    let server = Server::start(&shop.file(&format!("store-workers-{workers}.log")), |port| {
        let file = shop.file(&format!("store-workers-{workers}.toml"));
        let text = format!(
            "[server]\ncontrol = \"off\"\nworkers = {workers}\n[[listen]]\nstore = \
             \"127.0.0.1:{port}\"\n[store]\nmemory = 1024\n"
        );
        std::fs::write(&file, text)?;
        let mut command = Command::new(shop.pinion());
        command.arg("serve").arg(file);
        Ok(command)
    })?;
    commands::fill(&server)?;
    Ok(server)
}

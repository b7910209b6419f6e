//! The cost of a CGI script compared with a bare loop that starts the same program, one after the
//! other; and the memory of an idle server.

use super::compared_servers::{Place, Scripts};
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::cpu_time;
use crate::bench::load::h2load::{self, Requests};
use crate::bench::load::measured_server::Server;
use crate::bench::process_cost;
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;

/// Scripts of one round.
const SCRIPTS: u32 = 3000;
/// The CPU time of a request over that of the bare loop.
const GOAL_OF_LOOP: f64 = 1.25;
/// Proportional memory of all processes, in MiB.
const GOAL_MIB: f64 = 8.0;

/// Measures, and returns the report and the data.
pub(super) fn run(place: &Place, rounds: usize) -> Result<(String, Value)> {
    let own = place.pinion(1, Scripts::OnCore)?;
    let other = if place.is_root() { Some(place.pinion(1, Scripts::OnCoreAsOther)?) } else { None };
    let (mut bare, mut as_own, mut as_other) = (Vec::new(), Vec::new(), Vec::new());
    // The first one warms up.
    for round in 0..=rounds {
        let figures = [
            (&mut bare, Some(loop_us(place)?)),
            (&mut as_own, Some(script_us(place, &own)?)),
            (&mut as_other, other.as_ref().map(|other| script_us(place, other)).transpose()?),
        ];
        for (all, figure) in figures {
            all.extend(figure.filter(|_| round > 0));
        }
        eprintln!("  CGI {round}/{rounds}");
    }
    drop((own, other));
    let memory = memory_mib(place)?;
    let of = |all: &[f64]| Spread::of(all.to_vec()).context("at least one round");
    let over =
        |all: &[f64]| of(&all.iter().zip(&bare).map(|(own, bare)| own / bare).collect::<Vec<_>>());
    let mut figures = vec![
        Figure::spread("bare loop: CPU of a script, µs", &of(&bare)?),
        Figure::spread("Pinion: CPU of a request, µs", &of(&as_own)?),
        Figure::spread("Pinion: CPU over the bare loop", &over(&as_own)?).at_most(GOAL_OF_LOOP),
    ];
    if !as_other.is_empty() {
        let over = over(&as_other)?;
        figures
            .push(Figure::spread("Pinion, script as another user: CPU over the bare loop", &over));
    }
    figures.push(Figure::of("memory (PSS) of all processes, MiB", memory).at_most(GOAL_MIB));
    let report = format!(
        "{SCRIPTS} runs of a static program, one after the other, {rounds} rounds in turn. CPU \
         time is that of the server with its processes, or of the loop, and of the scripts.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, json!({"bare": bare, "own": as_own, "other": as_other, "memory_mib": memory})))
}

/// Returns the CPU time of one run in the bare loop, in microseconds.
fn loop_us(place: &Place) -> Result<f64> {
    let mut command = place.command_on_core(place.file("spawn"));
    command.arg(SCRIPTS.to_string()).arg(place.file("scripts/hello"));
    let cost = process_cost::of(&command, None, &place.file("spawn.log"))?;
    Ok(cost.cpu_seconds * 1e6 / f64::from(SCRIPTS))
}

/// Returns the CPU time of one request for a script, in microseconds.
fn script_us(place: &Place, server: &Server) -> Result<f64> {
    let before = (server.cpu()?, ended_ticks(server)?);
    load(place, server, SCRIPTS, 1)?;
    let own_us = server.cpu()?.since(&before.0) as f64 / 1e3;
    let scripts_us = (ended_ticks(server)? - before.1) as f64 * 1e6 / ticks_per_second()?;
    Ok((own_us + scripts_us) / f64::from(SCRIPTS))
}

fn load(place: &Place, server: &Server, requests: u32, connections: u32) -> Result<()> {
    let measured = h2load::run_requests(&Requests {
        requests,
        connections,
        url: format!("http://{}/cgi-bin/hello", server.address()),
        times: place.file("h2load.log"),
    })?;
    ensure!(measured.requests == u64::from(requests) && measured.refusals == 0, "{measured:?}");
    Ok(())
}

/// Returns the CPU time of the processes that the server has started and that have ended.
fn ended_ticks(server: &Server) -> Result<u64> {
    let mut ticks = 0;
    for process in server.processes()? {
        let path = format!("/proc/{process}/stat");
        ticks += cpu_time::ended_ticks(&fs::read_to_string(&path)?).context(path)?;
    }
    Ok(ticks)
}

fn ticks_per_second() -> Result<f64> {
    let text = crate::process::output(std::process::Command::new("getconf").arg("CLK_TCK"))?;
    text.trim().parse().context("ticks of a second")
}

/// Returns the memory of all processes of a server with CGI alone that has run some scripts, in
/// MiB.
fn memory_mib(place: &Place) -> Result<f64> {
    let server = place.pinion(1, Scripts::OnCore)?;
    load(place, &server, SCRIPTS, 8)?;
    let mut bytes = 0;
    for process in server.processes()? {
        let path = format!("/proc/{process}/smaps_rollup");
        bytes += process_cost::bytes_in(&fs::read_to_string(&path)?, "Pss").context(path)?;
    }
    Ok(bytes as f64 / f64::from(1 << 20))
}

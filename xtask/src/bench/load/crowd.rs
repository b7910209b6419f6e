//! What a server takes while so many connections are kept alive and ask a script: memory of its
//! processes.

use super::client::Job;
use super::lua::{greeting, scripted};
use super::programs::{Content, Program, Workshop};
use super::wrk;
use crate::bench::cost;
use crate::bench::figures::{self, Figure};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;

/// The name of the part.
pub(crate) const NAME: &str = "lua-crowd";

const CONNECTIONS: u32 = 10_000;
/// Long enough for all of them to be opened and asked several times.
const SECONDS: u32 = 8;
/// What may be resident with all of them, in MiB.
const GOAL_MIB: f64 = 40.0;

/// Measures all servers; the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let mut figures = Vec::new();
    let mut data = serde_json::Map::new();
    for (program, name) in [
        (Program::PinionEpoll, "pinion epoll, MiB"),
        (Program::PinionUring, "pinion io_uring, MiB"),
        (Program::Nginx, "nginx, MiB"),
        (Program::Eighties, "80s, MiB"),
    ] {
        let Some((bytes, answers)) = each(shop, program)? else { continue };
        let mib = bytes / f64::from(1 << 20);
        let figure = Figure::of(name, mib);
        let figure = if program.is_pinion() { figure.at_most(GOAL_MIB) } else { figure };
        let shown = format!("{mib:.1} ({answers} answers)");
        figures.push(Figure { shown, ..figure });
        data.insert(program.name().to_owned(), json!({ "bytes": bytes, "answers": answers }));
    }
    let report = format!(
        "Most resident memory of a server while {CONNECTIONS} connections that stay open ask a \
         handler in Lua.\n\n{}",
        figures::table(&figures)
    );
    Ok((report, data.into()))
}

/// Most bytes that were resident, and how many answers came; `None` when the server is not
/// installed.
fn each(shop: &Workshop, program: Program) -> Result<Option<(f64, u64)>> {
    let ask = greeting(program);
    let case = scripted(program.name().to_owned(), program, Content::Script, ask);
    let Some(server) = shop.start(case.setup)? else { return Ok(None) };
    let load = wrk::Load {
        connections: CONNECTIONS,
        seconds: SECONDS,
        url: format!("http://{}{}", server.address(), case.ask.path),
        fields: vec!["Connection: keep-alive".to_owned()],
        pattern: wrk::Pattern::Plain,
    };
    let measured = Job::Wrk(load).run()?;
    let most = |process: u32| -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        cost::bytes_in(&status, "VmHWM").context("the kernel does not say")
    };
    let bytes: u64 = server.processes()?.into_iter().map(most).sum::<Result<u64>>()?;
    Ok(Some((bytes as f64, measured.requests)))
}

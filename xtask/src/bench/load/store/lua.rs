//! `pinion.store.get` in a handler in Lua compared with `GET` over a Unix socket.

use super::commands::{self, CONNECTIONS};
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::compared_servers::Workshop;
use crate::bench::load::measured_server::{SERVER_CORE, Server, on_core};
use crate::bench::load::wrk::{self, Load, Pattern};
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;

const ROUNDS: usize = 5;
const SECONDS: u32 = 2;
/// Calls in each request to `/gets`.
const CALLS: f64 = 100.0;
/// Commands over the socket.
const COMMANDS: u32 = 200_000;
/// CPU time of a call over that of a command.
const GOAL: f64 = 0.15;

const HANDLER: &str = r#"
local get = pinion.store.get
local keys = {}
for number = 0, 99 do keys[#keys + 1] = ("key:%012d"):format(number) end
pinion.get("/none", function() return "" end)
pinion.get("/gets", function()
    for number = 1, 100 do get(keys[number]) end
    return ""
end)
"#;

/// Measures, and returns the report and the data.
pub(super) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let state = shop.file("store-lua");
    fs::create_dir_all(&state)?;
    fs::write(state.join("main.lua"), HANDLER)?;
    let socket = state.join("store.sock");
    let server = Server::start(&state.join("pinion.log"), |port| {
        let file = state.join("pinion.toml");
        let text = format!(
            "[server]\ncontrol = \"off\"\nworkers = 1\n[[listen]]\naddress = \
             \"127.0.0.1:{port}\"\n[[listen]]\nstore = \"unix:{}\"\n[[site]]\npath = \
             \"{}\"\n",
            socket.display(),
            state.join("main.lua").display()
        );
        fs::write(&file, text)?;
        let mut command = on_core(SERVER_CORE, shop.pinion());
        command.arg("serve").arg(file);
        Ok(command)
    })?;
    let unix = ["-s".to_owned(), socket.display().to_string()];
    commands::benchmark(&unix, (16, 500_000), &["SET", "key:__rand_int__", "value-of-16-byte"])?;
    let (mut calls, mut sockets) = (Vec::new(), Vec::new());
    for round in 0..=turns {
        let call = (request(&server, "/gets")? - request(&server, "/none")?) / CALLS;
        let before = server.cpu()?;
        commands::benchmark(&unix, (1, COMMANDS), &["GET", "key:__rand_int__"])?;
        let over_socket = server.cpu()?.since(&before) as f64 / 1e3 / f64::from(COMMANDS);
        eprintln!("  store.get in Lua {call:.3} µs, GET over a Unix socket {over_socket:.2} µs");
        if round > 0 {
            calls.push(call);
            sockets.push(over_socket);
        }
    }
    let spread = |costs: &[f64]| Spread::of(costs.iter().copied()).context("at least one round");
    let over = Spread::of(calls.iter().zip(&sockets).map(|(call, socket)| call / socket));
    let over = over.context("at least one round")?;
    let figures = [
        Figure::spread("pinion.store.get in Lua, µs", &spread(&calls)?),
        Figure::spread("GET over a Unix socket, one at a time, µs", &spread(&sockets)?),
        Figure::spread("store.get over GET", &over).at_most(GOAL),
    ];
    let report = format!(
        "CPU time of a call in Lua, and of a command of {CONNECTIONS} connections over a Unix \
         socket, {turns} rounds in turn.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, json!({"calls": calls, "sockets": sockets})))
}

/// Microseconds of CPU time of a request.
fn request(server: &Server, path: &str) -> Result<f64> {
    let load = Load {
        connections: 16,
        seconds: SECONDS,
        url: format!("http://{}{path}", server.address()),
        fields: Vec::new(),
        pattern: Pattern::Plain,
    };
    let before = server.cpu()?;
    let measured = wrk::run(&load)?;
    let used = server.cpu()?.since(&before);
    ensure!(measured.requests > 0 && measured.refusals == 0, "{path}: {measured:?}");
    Ok(used as f64 / 1e3 / measured.requests as f64)
}

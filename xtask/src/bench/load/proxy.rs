//! The cost of a forwarded request, compared with nginx, Caddy and haproxy.
//!
//! The server that responds is Pinion without any work to do, on the core of the load, so that the
//! proxy has the other core to itself.

use super::compared_servers::{Program, Workshop};
use super::load_generators::Measured;
use super::measured_server::{self, CLIENT_CORE, SERVER_CORE, Server};
use super::wrk::{self, Load, Pattern};
use crate::bench::figure_table::{self, Figure};
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// The name of the part.
pub(crate) const NAME: &str = "proxy";

const ROUNDS: usize = 7;
const SECONDS: u32 = 3;
const CONNECTIONS: u32 = 64;
/// The CPU time of a request over that of nginx and of Caddy.
const GOAL_OF_NGINX: f64 = 1.0;
const GOAL_OF_CADDY: f64 = 0.6;
/// The 99th percentile over that of nginx.
const GOAL_P99: f64 = 1.0;

const PROGRAMS: [Program; 7] = [
    Program::PinionEpoll,
    Program::PinionUring,
    Program::Nginx,
    Program::Caddy,
    Program::CurrentNginx,
    Program::CurrentCaddy,
    Program::CurrentHaproxy,
];

/// The servers whose ratios only inform.
const CURRENT: [Program; 3] =
    [Program::CurrentNginx, Program::CurrentCaddy, Program::CurrentHaproxy];

/// Measures, and returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let (mut figures, mut data) = (Vec::new(), Map::new());
    let rounds = forwarded(shop)?;
    for (program, rounds) in &rounds {
        let cpu = spread(rounds.iter().map(|round| round.cpu_us))?;
        let p99 = spread(rounds.iter().map(|round| round.measured.p99 as f64))?;
        let rate = spread(rounds.iter().map(|round| round.measured.requests_per_second()))?;
        let name = &shop.label(*program);
        figures.push(Figure::spread(format!("{name}: CPU, µs"), &cpu));
        figures.push(Figure::spread(format!("{name}: 99th percentile, µs"), &p99));
        let shown = rate.shown(0);
        let rate = Figure::spread(format!("{name}: requests per second"), &rate);
        figures.push(Figure { shown, ..rate });
        let round = |round: &Round| json!({"cpu_us": round.cpu_us, "p99": round.measured.p99});
        data.insert(name.clone(), rounds.iter().map(round).collect());
    }
    for own in [Program::PinionEpoll, Program::PinionUring] {
        let over = |peer: Program, of: fn(&Round) -> f64| {
            let pairs = rounds[&own].iter().zip(&rounds[&peer]);
            spread(pairs.map(|(own, peer)| of(own) / of(peer)))
        };
        let cpu = |round: &Round| round.cpu_us;
        let p99 = |round: &Round| round.measured.p99 as f64;
        let name = own.name();
        let figure = |quantity: &str, peer, of| -> Result<Figure> {
            let name = format!("{name}: {quantity} over {}", shop.label(peer));
            Ok(Figure::spread(name, &over(peer, of)?))
        };
        figures.push(figure("CPU", Program::Nginx, cpu)?.at_most(GOAL_OF_NGINX));
        figures.push(figure("CPU", Program::Caddy, cpu)?.at_most(GOAL_OF_CADDY));
        figures.push(figure("99th percentile", Program::Nginx, p99)?.at_most(GOAL_P99));
        for peer in CURRENT.into_iter().filter(|peer| rounds.contains_key(peer)) {
            figures.push(figure("CPU", peer, cpu)?);
        }
    }
    let report = format!(
        "Requests over {CONNECTIONS} connections that are forwarded to a server of 13 bytes, \
         {turns} rounds of {SECONDS} s in turn. CPU time is that of the proxy alone.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

/// The result of one load on one server.
pub(super) struct Round {
    pub(super) cpu_us: f64,
    pub(super) measured: Measured,
}

pub(super) fn spread(values: impl IntoIterator<Item = f64>) -> Result<Spread> {
    Spread::of(values).context("at least one round")
}

/// Loads each proxy in turn.
fn forwarded(shop: &Workshop) -> Result<BTreeMap<Program, Vec<Round>>> {
    let turns = shop.turns(ROUNDS);
    let upstream = Server::start(&shop.file("proxy-upstream.log"), |port| {
        let mut command = measured_server::on_core(CLIENT_CORE, shop.pinion());
        command.args(["serve", "--dummy", "--dummy-bytes", "13", "--workers", "1"]);
        command.args(["--max-requests-per-connection", "1000000000"]);
        command.args(["--control", "off", "--listen", &format!("127.0.0.1:{port}")]);
        Ok(command)
    })?;
    let mut proxies = Vec::new();
    for program in PROGRAMS {
        match shop.find(program) {
            Some(found) => {
                proxies.push((program, proxy(shop, program, &found, upstream.address())?));
            }
            None if CURRENT.contains(&program) => {}
            None => bail!("{} is not installed", program.name()),
        }
    }
    let mut rounds = BTreeMap::<Program, Vec<Round>>::new();
    for round in 0..=turns {
        for (program, proxy) in &proxies {
            let before = proxy.cpu()?;
            let measured = load(proxy.address(), "/", CONNECTIONS, SECONDS)?;
            let cpu_us = proxy.cpu()?.since(&before) as f64 / 1e3 / measured.requests as f64;
            ensure!(measured.errors + measured.refusals == 0, "{}: {measured:?}", program.name());
            eprintln!("  {NAME} {} {round}/{turns}: {cpu_us:.2} µs", program.name());
            // The first one warms up.
            if round > 0 {
                rounds.entry(*program).or_default().push(Round { cpu_us, measured });
            }
        }
    }
    Ok(rounds)
}

/// Loads a path of a server over plain connections that stay open.
pub(super) fn load(
    address: SocketAddr,
    path: &str,
    connections: u32,
    seconds: u32,
) -> Result<Measured> {
    wrk::run(&Load {
        connections,
        seconds,
        url: format!("http://{address}{path}"),
        fields: Vec::new(),
        pattern: Pattern::Plain,
    })
}

/// Starts a proxy on its core. `found` is its program.
fn proxy(shop: &Workshop, program: Program, found: &Path, upstream: SocketAddr) -> Result<Server> {
    Server::start(&shop.file(&format!("{NAME}-{}.log", program.name())), |port| {
        let state = shop.file(&format!("proxy-state/{}", program.name().replace(' ', "-")));
        fs::create_dir_all(&state)?;
        let template = |name: &str| {
            let values = [
                ("PORT", port.to_string()),
                ("STATE", state.display().to_string()),
                ("UPSTREAM", upstream.to_string()),
            ];
            measured_server::configuration(&measured_server::template(name), &values, &state)
        };
        let io = match program {
            Program::Nginx | Program::CurrentNginx => {
                let mut command = measured_server::on_core(SERVER_CORE, found);
                command.arg("-e").arg(state.join("nginx.error")).arg("-p").arg(&state);
                command.arg("-c").arg(template("nginx-proxy.conf")?);
                return Ok(command);
            }
            Program::Caddy | Program::CurrentCaddy => {
                let mut command = measured_server::on_core(SERVER_CORE, found);
                command.args(["run", "--adapter", "caddyfile", "--config"]);
                command.arg(template("caddy-proxy.caddyfile")?).env("GOMAXPROCS", "1");
                return Ok(command);
            }
            Program::CurrentHaproxy => {
                let mut command = measured_server::on_core(SERVER_CORE, found);
                command.args(["-db", "-f"]).arg(template("haproxy-proxy.conf")?);
                return Ok(command);
            }
            Program::PinionUring => "uring",
            _ => "epoll",
        };
        Ok(forwarding(shop, io, port, upstream))
    })
}

/// Returns the command of a server with one worker that forwards.
fn forwarding(shop: &Workshop, io: &str, port: u16, upstream: SocketAddr) -> std::process::Command {
    let mut command = measured_server::on_core(SERVER_CORE, shop.pinion());
    command.args(["serve", "--proxy", &format!("http://{upstream}"), "--workers", "1"]);
    command.args(["--io", io, "--control", "off", "--listen", &format!("127.0.0.1:{port}")]);
    command
}

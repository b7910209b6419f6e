//! The benchmark shows whether a thousand open event streams through the proxy slow down files.
//!
//! The application that sends the events shares the core of the load, and takes CPU time from the
//! load. So files are also loaded while the same streams lead to the application directly: the
//! proxy is not the cause of the slowdown in that case.

use super::compared_servers::{Program, Workshop};
use super::measured_server::{self, CLIENT_CORE, SERVER_CORE, Server};
use super::wrk::{self, Load, Pattern};
use crate::bench::figure_table::{self, Figure};
use crate::bench::statistics::Spread;
use crate::{process, workspace_paths};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The name of the part.
pub(crate) const NAME: &str = "streams";

const ROUNDS: usize = 7;
/// Loads of one second whose median counts, so that one that something else on the machine has
/// disturbed does not.
const LOADS: usize = 5;
const CONNECTIONS: u32 = 64;
const STREAMS: u32 = 1000;
/// Streams are opened one after the other, so that their events come one after the other, too.
const BETWEEN_STREAMS: Duration = Duration::from_millis(1);
/// The 99th percentile of files with the streams, over that without them.
const GOAL: f64 = 1.2;

const PROGRAMS: [Program; 3] = [Program::PinionEpoll, Program::PinionUring, Program::Nginx];

/// The 99th percentiles of one round, in microseconds.
struct Round {
    alone: f64,
    /// Streams lead to the application directly.
    direct: f64,
    /// Streams lead through the proxy.
    forwarded: f64,
}

/// Measures, and returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let application = Server::start(&shop.file("streams-events.log"), |port| {
        let python = process::find("python3").context("python3")?;
        let mut command = measured_server::on_core(CLIENT_CORE, python);
        command
            .arg(workspace_paths::root().join("bench/load/event_stream_server.py"))
            .arg(port.to_string());
        Ok(command)
    })?;
    let (mut figures, mut data) = (Vec::new(), Map::new());
    for program in PROGRAMS {
        let rounds = rounds(shop, program, application.address())?;
        let ratio =
            |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of)).context("at least one round");
        let name = program.name();
        let forwarded = ratio(|round| round.forwarded / round.alone)?;
        let figure = Figure::spread(format!("{name}: over files alone"), &forwarded);
        let is_goal = program.is_pinion();
        figures.push(if is_goal { figure.at_most(GOAL) } else { figure });
        let direct = ratio(|round| round.direct / round.alone)?;
        figures.push(Figure::spread(format!("{name}: streams without the proxy"), &direct));
        let both = ratio(|round| round.forwarded / round.direct)?;
        figures.push(Figure::spread(format!("{name}: with the proxy over without it"), &both));
        let values = rounds.iter().map(|round| {
            json!({"alone": round.alone, "direct": round.direct, "forwarded": round.forwarded})
        });
        data.insert(name.to_owned(), values.collect());
    }
    let report = format!(
        "The 99th percentile of files over {CONNECTIONS} connections beside {STREAMS} event \
         streams with an event each second, {turns} rounds in turn, each the median of {LOADS} \
         loads of one second.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

fn rounds(shop: &Workshop, program: Program, application: SocketAddr) -> Result<Vec<Round>> {
    let turns = shop.turns(ROUNDS);
    let proxy = proxy(shop, program, application)?;
    let load = || {
        let measured = wrk::run(&Load {
            connections: CONNECTIONS,
            seconds: 1,
            url: format!("http://{}/hello.txt", proxy.address()),
            fields: Vec::new(),
            pattern: Pattern::Plain,
        })?;
        ensure!(measured.errors + measured.refusals == 0, "{}: {measured:?}", program.name());
        Ok::<f64, anyhow::Error>(measured.p99 as f64)
    };
    let p99 = || {
        let loads = (0..LOADS).map(|_| load()).collect::<Result<Vec<_>>>()?;
        Ok::<f64, anyhow::Error>(Spread::of(loads).context("at least one load")?.median)
    };
    let beside = |address: SocketAddr| {
        let streams = open_streams(address, "/events", STREAMS)?;
        let p99 = p99()?;
        drop(streams);
        // Until all of them are closed on both sides.
        std::thread::sleep(Duration::from_secs(1));
        Ok::<f64, anyhow::Error>(p99)
    };
    p99()?;
    (1..=turns)
        .map(|round| {
            let alone = p99()?;
            let (direct, forwarded) = (beside(application)?, beside(proxy.address())?);
            eprintln!(
                "  {NAME} {} {round}/{turns}: {:.2}, without the proxy {:.2}",
                program.name(),
                forwarded / alone,
                direct / alone
            );
            Ok(Round { alone, direct, forwarded })
        })
        .collect()
}

/// Starts a server of files that forwards the streams.
fn proxy(shop: &Workshop, program: Program, application: SocketAddr) -> Result<Server> {
    Server::start(&shop.file(&format!("{NAME}-{}.log", program.name())), |port| {
        if program == Program::Nginx {
            let state = shop.file("streams-state");
            fs::create_dir_all(&state)?;
            let values = [
                ("PORT", port.to_string()),
                ("STATE", state.display().to_string()),
                ("UPSTREAM", application.to_string()),
                ("SITE", shop.file("site").display().to_string()),
            ];
            let template = measured_server::template("nginx-streams.conf");
            let configuration = measured_server::configuration(&template, &values, &state)?;
            let nginx = process::find("nginx").context("nginx")?;
            let mut command = measured_server::on_core(SERVER_CORE, nginx);
            command.arg("-e").arg(state.join("nginx.error")).arg("-p").arg(&state);
            command.arg("-c").arg(configuration);
            return Ok(command);
        }
        let io = if program == Program::PinionUring { "uring" } else { "epoll" };
        let mut command = measured_server::on_core(SERVER_CORE, shop.pinion());
        command.arg("serve").arg(shop.file("small.pinion")).args(["--workers", "1", "--io", io]);
        command.args(["--proxy", &format!("/events=http://{application}")]);
        command.args(["--control", "off", "--listen", &format!("127.0.0.1:{port}")]);
        Ok(command)
    })
}

/// Opens this many streams of events.
pub(crate) fn open_streams(address: SocketAddr, path: &str, count: u32) -> Result<Vec<TcpStream>> {
    let start = Instant::now();
    (0..count)
        .map(|number| {
            let at = start + BETWEEN_STREAMS * number;
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            open_stream(address, path)
        })
        .collect()
}

/// Opens a stream of events and waits for the first one.
fn open_stream(address: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut came = Vec::new();
    while !came.windows(9).any(|part| part == b"data: now") {
        let mut piece = [0; 1024];
        let bytes = stream.read(&mut piece)?;
        ensure!(bytes > 0, "no stream: {}", came.escape_ascii());
        came.extend_from_slice(&piece[..bytes]);
    }
    Ok(stream)
}

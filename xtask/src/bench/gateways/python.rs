//! The cost of a request for a Python application, with WSGI and with ASGI, compared with other
//! servers: the smallest application, each server with all its processes on one core.

use super::compared_servers::{INTERPRETER, Place};
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::load_generators::Measured;
use crate::bench::load::measured_server::{SERVER_CORE, Server, on_core};
use crate::bench::load::wrk::{self, Load, Pattern};
use crate::bench::statistics::Spread;
use crate::{python_packages, workspace_paths};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

const CONNECTIONS: u32 = 64;
const SECONDS: u32 = 3;

/// The size of the file for `wsgi.file_wrapper`.
const FILE_BYTES: usize = 100 << 10;

/// The cases: a server, and a path on it.
const CASES: [(&str, ServerKind, &str); 12] = [
    ("file, Pinion", ServerKind::Pinion, "/hello.txt"),
    ("file of 100 KiB, Pinion", ServerKind::Pinion, "/file.bin"),
    ("WSGI, Pinion", ServerKind::Pinion, "/wsgi"),
    ("WSGI, Pinion, 2 processes", ServerKind::Pinion, "/wsgi-2"),
    ("WSGI, Pinion, a file", ServerKind::Pinion, "/wsgi?file"),
    ("WSGI, fastpysgi", ServerKind::Fastpysgi, "/"),
    ("WSGI, granian", ServerKind::GranianWsgi, "/"),
    ("WSGI, gunicorn (sync)", ServerKind::Gunicorn, "/"),
    ("ASGI, Pinion", ServerKind::Pinion, "/asgi"),
    ("ASGI, Pinion, uvloop", ServerKind::Pinion, "/asgi-uvloop"),
    ("ASGI, granian", ServerKind::GranianAsgi, "/"),
    ("ASGI, uvicorn", ServerKind::Uvicorn, "/"),
];

/// The ratio of the CPU time of a request to that of another case, and the goal.
const RATIOS: [(&str, &str, f64); 9] = [
    ("WSGI, Pinion", "WSGI, fastpysgi", 1.1),
    ("WSGI, Pinion", "WSGI, granian", 0.5),
    ("WSGI, Pinion", "WSGI, gunicorn (sync)", 0.1),
    ("WSGI, Pinion, 2 processes", "WSGI, Pinion", 1.15),
    ("WSGI, Pinion, a file", "WSGI, Pinion", 1.5),
    ("ASGI, Pinion", "ASGI, granian", 0.7),
    ("ASGI, Pinion", "ASGI, uvicorn", 0.45),
    ("ASGI, Pinion, uvloop", "ASGI, granian", 0.7),
    ("ASGI, Pinion, uvloop", "ASGI, uvicorn", 0.45),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ServerKind {
    Pinion,
    Fastpysgi,
    GranianWsgi,
    GranianAsgi,
    Gunicorn,
    Uvicorn,
}

/// One load: the CPU time of a request in microseconds, and the measurement of the client.
struct Round {
    cpu_us: f64,
    measured: Measured,
}

/// Measures, and returns the report and the data.
pub(super) fn run(place: &Place, rounds: usize) -> Result<(String, Value)> {
    let peers = workspace_paths::root().join("bench/load/python_peers.txt");
    python_packages::install_packages_to(&peers, &place.file("python-peers"))?;
    let mut servers = BTreeMap::new();
    for (name, kind, _) in CASES {
        if let Entry::Vacant(free) = servers.entry(kind) {
            free.insert(start(place, kind).with_context(|| name.to_owned())?);
        }
    }
    let mut all: Vec<Vec<Round>> = CASES.iter().map(|_| Vec::new()).collect();
    // The first round warms up.
    for round in 0..=rounds {
        for ((name, kind, path), results) in CASES.iter().zip(&mut all) {
            let measured = load(&servers[kind], path).with_context(|| (*name).to_owned())?;
            eprintln!("  {name}, {round}/{rounds}: {:.1} µs", measured.cpu_us);
            if round > 0 {
                results.push(measured);
            }
        }
    }
    report(&all, rounds)
}

fn report(all: &[Vec<Round>], rounds: usize) -> Result<(String, Value)> {
    let spread = |results: &[Round], of: fn(&Round) -> f64| {
        Spread::of(results.iter().map(of)).context("at least one round")
    };
    let mut table = String::from(
        "| Response | CPU of a request, µs | Requests/s | Median, ms | p99, ms |\n\
         |---|---|---|---|---|\n",
    );
    let mut data = Map::new();
    for ((name, ..), results) in CASES.iter().zip(all) {
        table += &format!(
            "| {name} | {} | {} | {} | {} |\n",
            spread(results, |it| it.cpu_us)?.shown(1),
            spread(results, |it| it.measured.requests_per_second())?.shown(0),
            spread(results, |it| it.measured.p50 as f64 / 1e3)?.shown(2),
            spread(results, |it| it.measured.p99 as f64 / 1e3)?.shown(2),
        );
        let of_round = |it: &Round| json!({"cpu_us": it.cpu_us, "client": it.measured.data()});
        data.insert((*name).to_owned(), results.iter().map(of_round).collect());
    }
    let position = |wanted: &str| CASES.iter().position(|(name, ..)| *name == wanted);
    let mut figures = Vec::new();
    for (own, other, goal) in RATIOS {
        let of = |name| all.get(position(name)?).map(|results| results.iter().map(|it| it.cpu_us));
        let pairs = of(own).zip(of(other)).context("the names of cases")?;
        let over = Spread::of(pairs.0.zip(pairs.1).map(|(own, other)| own / other));
        let over = over.context("at least one round")?;
        figures.push(Figure::spread(format!("{own}: CPU over {other}"), &over).at_most(goal));
    }
    let report = format!(
        "The smallest application with CPython, {CONNECTIONS} connections that stay open, \
         {SECONDS} s for each load, {rounds} rounds in turn: the median, in brackets the least and \
         the most. Each server runs on one core with all its processes, one process for the \
         application unless noted, access logs off; CPU is that of all of them. uvicorn has uvloop \
         and httptools, granian has uvloop.\n\n{table}\n{}",
        figure_table::table(&figures)
    );
    Ok((report, json!(data)))
}

fn load(server: &Server, path: &str) -> Result<Round> {
    let load = Load {
        connections: CONNECTIONS,
        seconds: SECONDS,
        url: format!("http://{}{path}", server.address()),
        fields: Vec::new(),
        pattern: Pattern::Plain,
    };
    let before = server.cpu()?;
    let measured = wrk::run(&load)?;
    let used = server.cpu()?.since(&before);
    ensure!(measured.requests > 0 && measured.refusals == 0, "{measured:?}");
    Ok(Round { cpu_us: used as f64 / 1e3 / measured.requests as f64, measured })
}

fn start(place: &Place, kind: ServerKind) -> Result<Server> {
    Server::start(&place.file(&format!("{kind:?}.log")), |port| {
        let python = |words: &[&str]| {
            let mut command = on_core(SERVER_CORE, "setpriv");
            let packages = place.file("python-peers");
            let mut path = OsString::from(packages);
            path.push(":");
            path.push(place.file(""));
            command.env("PYTHONPATH", path);
            place.add_user(&mut command);
            command.arg(INTERPRETER).args(words);
            command
        };
        let port = port.to_string();
        let granian = |interface: &str, app: &str| {
            python(&[
                "-m",
                "granian",
                "--interface",
                interface,
                "--workers",
                "1",
                "--host",
                "127.0.0.1",
                "--port",
                &port,
                "--no-ws",
                "--log-level",
                "warning",
                app,
            ])
        };
        Ok(match kind {
            ServerKind::Pinion => pinion(place, &port)?,
            ServerKind::Fastpysgi => {
                python(&[&place.file("python_hello.py").display().to_string(), &port])
            }
            ServerKind::GranianWsgi => granian("wsgi", "python_hello:app"),
            ServerKind::GranianAsgi => granian("asgi", "python_hello:main"),
            ServerKind::Gunicorn => {
                let address = format!("127.0.0.1:{port}");
                python(&["-m", "gunicorn", "-w", "1", "-b", &address, "python_hello:app"])
            }
            ServerKind::Uvicorn => python(&[
                "-m",
                "uvicorn",
                "--loop",
                "uvloop",
                "--http",
                "httptools",
                "--no-access-log",
                "--log-level",
                "warning",
                "--port",
                &port,
                "python_hello:main",
            ]),
        })
    })
}

/// Returns a Pinion with one worker and an application for each path.
fn pinion(place: &Place, port: &str) -> Result<Command> {
    let uvloop = place.virtual_environment("with-uvloop", &place.file("python-peers"))?;
    let text = [
        place.python_site(port),
        place.python_mount("/wsgi", "wsgi = \"python_hello:app\"", 1),
        place.python_mount("/wsgi-2", "wsgi = \"python_hello:app\"", 2),
        place.python_mount("/asgi", "asgi = \"python_hello:main\"", 1),
        place.python_mount_with("/asgi-uvloop", "asgi = \"python_hello:main\"", 1, &uvloop),
    ];
    fs::write(place.file("python_file.bin"), vec![b'x'; FILE_BYTES])?;
    fs::write(place.file("site/file.bin"), vec![b'x'; FILE_BYTES])?;
    place.pinion_on_core("python.toml", &text.concat())
}

//! The cost of a request of a script to another server, compared with the work of that server, and
//! the number of such requests that can wait at the same time. Both servers are Pinion, each with
//! one worker on a core of its own.

use super::compared_servers::{Program, Workshop};
use super::measured_server::{self, CLIENT_CORE, SERVER_CORE, Server};
use crate::bench::figure_table::{self, Figure};
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The name of the part.
pub(crate) const NAME: &str = "fetch";

const ROUNDS: usize = 7;
/// Requests of a round: enough for a second or so.
const REQUESTS: u32 = 30_000;
/// Requests before the first round, which open connections and let the script be compiled.
const WARMING: u32 = 5_000;
/// The numbers of requests that are open at the same time.
const CONCURRENT: [u32; 2] = [1, 32];
/// The goal for the fetcher's CPU time for a request, relative to that of the other server.
const GOAL_RATIO: f64 = 2.2;
/// The delay of the slow server, and the goal for the time of a thousand requests to it.
const SLOW_SECONDS: u32 = 1;
const SLOW_REQUESTS: u32 = 1000;
const GOAL_SLOW_SECONDS: f64 = 1.5;
/// Longer than any of the loads takes.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The site of the server that fetches. No server gets more than 256 connections, so the slow one
/// is requested at several addresses.
const FETCHER: &str = r#"
local function work(total, parts, url)
    local each = total / parts
    local works = {}
    for part = 1, parts do
        works[part] = function()
            for _ = 1, each do
                local res = assert(pinion.fetch(url(part)))
                assert(#assert(res:body()) == 13)
            end
        end
    end
    pinion.gather(unpack(works))
    return "done"
end

pinion.get("/small", function(req)
    local url = "http://127.0.0.1:" .. req.query.port .. "/hello.txt"
    return work(tonumber(req.query.n), tonumber(req.query.c), function() return url end)
end)

pinion.get("/slow", function(req)
    local n = tonumber(req.query.n)
    return work(n, n, function(part)
        return "http://127.0.0." .. part % 4 + 1 .. ":" .. req.query.port .. "/"
    end)
end)
"#;

/// A server whose responses are delayed.
const SLOW: &str = r#"
pinion.get("/", function()
    pinion.sleep(SECONDS)
    return "hello, world\n"
end)
"#;

/// Measures over both backends; returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let (mut figures, mut data) = (Vec::new(), Map::new());
    for (program, io) in [(Program::PinionEpoll, "epoll"), (Program::PinionUring, "uring")] {
        for concurrent in CONCURRENT {
            let ratios = ratios(shop, io, concurrent)?;
            let spread = Spread::of(ratios.iter().copied()).context("at least one round")?;
            let name = format!("{}, {concurrent} at a time: CPU over serving", program.name());
            figures.push(Figure::spread(name.clone(), &spread).at_most(GOAL_RATIO));
            data.insert(name, json!(ratios));
        }
        let seconds = slow(shop, io)?;
        let name = format!("{}, {SLOW_REQUESTS} of a slow server: seconds", program.name());
        let figure = Figure::of(name.clone(), seconds).at_most(GOAL_SLOW_SECONDS);
        figures.push(Figure { shown: format!("{seconds:.2}"), ..figure });
        data.insert(name, json!(seconds));
    }
    let report = format!(
        "CPU time of a server whose script requests a file of 13 bytes over connections that stay \
         open, over that of the server that answers, {turns} rounds of {REQUESTS} requests; and \
         the time of {SLOW_REQUESTS} requests at once to a server that answers after \
         {SLOW_SECONDS} s.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

/// Returns the ratio of the fetcher's CPU time to the server's, round by round.
fn ratios(shop: &Workshop, io: &str, concurrent: u32) -> Result<Vec<f64>> {
    let turns = shop.turns(ROUNDS);
    let files = start(shop, io, SERVER_CORE, "files", "small.pinion", "127.0.0.1")?;
    let fetcher = fetcher(shop, io)?;
    let port = files.address().port();
    let load = |count: u32| {
        ask(fetcher.address(), &format!("/small?n={count}&c={concurrent}&port={port}"))
    };
    load(WARMING)?;
    (0..turns)
        .map(|round| {
            let (fetched, served) = (fetcher.cpu()?, files.cpu()?);
            load(REQUESTS)?;
            let fetched = fetcher.cpu()?.since(&fetched);
            let served = files.cpu()?.since(&served);
            let ratio = fetched as f64 / served as f64;
            eprintln!("  {NAME} {io}, {concurrent} at a time {}/{turns}: {ratio:.2}", round + 1);
            Ok(ratio)
        })
        .collect()
}

/// Returns the seconds until all requests to the slow server have their responses.
fn slow(shop: &Workshop, io: &str) -> Result<f64> {
    let script = SLOW.replace("SECONDS", &SLOW_SECONDS.to_string());
    fs::write(shop.file("slow.lua"), script)?;
    let slow = start(shop, io, SERVER_CORE, "slow", "slow.lua", "0.0.0.0")?;
    let fetcher = fetcher(shop, io)?;
    let began = Instant::now();
    let port = slow.address().port();
    ask(fetcher.address(), &format!("/slow?n={SLOW_REQUESTS}&port={port}"))?;
    Ok(began.elapsed().as_secs_f64())
}

fn fetcher(shop: &Workshop, io: &str) -> Result<Server> {
    fs::write(shop.file("fetcher.lua"), FETCHER)?;
    start(shop, io, CLIENT_CORE, "fetcher", "fetcher.lua", "127.0.0.1")
}

/// Starts a server with one worker on `core`. Scripts may connect to this machine and have long
/// time limits.
fn start(
    shop: &Workshop,
    io: &str,
    core: u32,
    log: &str,
    site: &str,
    address: &str,
) -> Result<Server> {
    Server::start(&shop.file(&format!("{NAME}-{log}.log")), |port| {
        let mut command = measured_server::on_core(core, shop.pinion());
        command.arg("serve").arg(shop.file(site)).args(["--workers", "1", "--io", io]);
        command.args(["--listen", &format!("{address}:{port}"), "--fetch-private"]);
        let seconds = TIMEOUT.as_secs();
        command.args(["--lua-cpu", &(seconds * 1000).to_string()]);
        command.args(["--lua-time", &seconds.to_string(), "--lua-memory", "256"]);
        Ok(command)
    })
}

/// Requests `path` and waits for a successful response.
fn ask(address: SocketAddr, path: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    ensure!(response.starts_with(b"HTTP/1.1 200 "), "{path}: {}", response.escape_ascii());
    Ok(())
}

//! The CPU time of a command, by redis-benchmark.

use super::StoreServer;
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::compared_servers::Workshop;
use crate::bench::load::measured_server::{CLIENT_CORE, Server, on_core};
use crate::bench::statistics::Spread;
use crate::process;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;

const ROUNDS: usize = 5;
pub(super) const CONNECTIONS: u32 = 50;
/// Keys that commands choose from.
const KEYS: u32 = 100_000;

/// A measured command.
struct Case {
    name: &'static str,
    /// The words of redis-benchmark; a value of 16 bytes.
    words: &'static [&'static str],
    /// The number of pipelined commands, the number of sent commands, and the goal for the CPU time
    /// relative to that of the better peer.
    loads: &'static [(u32, u32, f64)],
}

const SIMPLE: &[(u32, u32, f64)] =
    &[(1, 200_000, 0.75), (16, 1_500_000, 0.5), (64, 2_000_000, 0.4), (256, 3_000_000, 0.2)];
const OTHERS: &[(u32, u32, f64)] = &[(1, 150_000, 0.8), (16, 800_000, 0.6), (64, 1_000_000, 0.5)];
const HEAVY: &[(u32, u32, f64)] = &[(1, 100_000, 0.8), (16, 300_000, 0.6), (64, 300_000, 0.5)];

const CASES: [Case; 9] = [
    Case { name: "SET", words: &["SET", "key:__rand_int__", "value-of-16-byte"], loads: SIMPLE },
    Case { name: "GET", words: &["GET", "key:__rand_int__"], loads: SIMPLE },
    Case { name: "INCR", words: &["INCR", "count:__rand_int__"], loads: OTHERS },
    Case {
        name: "MGET of 10",
        words: &[
            "MGET",
            "key:__rand_int__",
            "key:__rand_int__",
            "key:__rand_int__",
            "key:__rand_int__",
            "key:__rand_int__",
            "key:__rand_int__",
            "key:__rand_int__",
            "key:__rand_int__",
            "key:__rand_int__",
            "key:__rand_int__",
        ],
        loads: HEAVY,
    },
    Case {
        name: "HSET",
        words: &["HSET", "hash:__rand_int__", "field", "value-of-16-byte"],
        loads: OTHERS,
    },
    Case { name: "HGETALL of 10", words: &["HGETALL", "hash-of-10"], loads: HEAVY },
    Case { name: "LPUSH", words: &["LPUSH", "list:__rand_int__", "element"], loads: OTHERS },
    Case {
        name: "ZADD",
        words: &["ZADD", "sorted", "__rand_int__", "member:__rand_int__"],
        loads: OTHERS,
    },
    Case { name: "ZRANGE of 10", words: &["ZRANGE", "sorted", "0", "9"], loads: HEAVY },
];

/// Measures, and returns the report and the data.
pub(super) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let mut servers = Vec::new();
    for server in StoreServer::ALL {
        let started = server.start(shop).with_context(|| server.name())?;
        fill(&started)?;
        servers.push((server, started));
    }
    let (mut table, mut figures, mut data) = (heading(), Vec::new(), Map::new());
    for case in &CASES {
        for &(depth, count, goal) in case.loads {
            let mut costs: Vec<Vec<f64>> = servers.iter().map(|_| Vec::new()).collect();
            for round in 0..=turns {
                for ((_, server), costs) in servers.iter().zip(&mut costs) {
                    let cost = cost(server, case.words, (depth, count))?;
                    // The first round warms up.
                    if round > 0 {
                        costs.push(cost);
                    }
                }
            }
            let name = format!("{}, {depth} pipelined", case.name);
            eprintln!("  {name}");
            table += &row(&name, &costs)?;
            figures.extend(ratios(&name, &servers, &costs, goal)?);
            let named = servers.iter().zip(&costs);
            let named = named.map(|((server, _), costs)| (server.name().to_owned(), json!(costs)));
            data.insert(name, Value::Object(named.collect()));
        }
    }
    let report = format!(
        "CPU time of a command in µs, {CONNECTIONS} connections of redis-benchmark, {KEYS} keys, \
         {turns} rounds in turn: the median, in brackets the least and the most. Each server has \
         one thread and one core.\n\n{table}\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

/// Stores the values that the commands read.
pub(super) fn fill(server: &Server) -> Result<()> {
    let mut commands = Vec::new();
    for number in 0..KEYS {
        let key = format!("key:{number:012}");
        super::add_command(&mut commands, &[b"SET", key.as_bytes(), b"value-of-16-byte"]);
    }
    for number in 0..10 {
        let field = format!("field-{number}");
        super::add_command(&mut commands, &[b"HSET", b"hash-of-10", field.as_bytes(), b"value"]);
    }
    super::send(server.address(), &commands, KEYS as usize + 10)
}

/// Returns the CPU time of a command in microseconds; `load` has the numbers of pipelined and of
/// sent commands.
pub(super) fn cost(server: &Server, words: &[&str], load: (u32, u32)) -> Result<f64> {
    let before = server.cpu()?;
    redis_benchmark(server.address(), load, words)?;
    let used = server.cpu()?.since(&before);
    Ok(used as f64 / 1e3 / f64::from(load.1))
}

/// Sends commands to an address; `load` has the numbers of pipelined and of sent commands.
pub(super) fn redis_benchmark(address: SocketAddr, load: (u32, u32), words: &[&str]) -> Result<()> {
    let [host, port] = [address.ip().to_string(), address.port().to_string()];
    benchmark(&["-h".to_owned(), host, "-p".to_owned(), port], load, words)
}

/// Sends commands to the server that arguments of redis-benchmark name.
pub(super) fn benchmark(
    server: &[String],
    (depth, count): (u32, u32),
    words: &[&str],
) -> Result<()> {
    let benchmark = process::find("redis-benchmark").context("redis-benchmark")?;
    let mut command = on_core(CLIENT_CORE, benchmark);
    command.args(server);
    command.args(["-c", &CONNECTIONS.to_string(), "-n", &count.to_string(), "-q"]);
    command.args(["-P", &depth.to_string(), "-r", &KEYS.to_string()]);
    process::output(command.args(words))?;
    Ok(())
}

fn heading() -> String {
    let names = StoreServer::ALL.map(|server| format!(" {} |", server.name())).concat();
    format!("| Command |{names}\n|---{}|\n", "|---".repeat(StoreServer::ALL.len()))
}

fn row(name: &str, costs: &[Vec<f64>]) -> Result<String> {
    let mut row = format!("| {name} |");
    for costs in costs {
        let spread = Spread::of(costs.iter().copied()).context("at least one round")?;
        row += &format!(" {} |", spread.shown(2));
    }
    Ok(row + "\n")
}

/// Returns the cost of each case of Pinion relative to that of the better peer of the same round.
fn ratios(
    name: &str,
    servers: &[(StoreServer, Server)],
    costs: &[Vec<f64>],
    goal: f64,
) -> Result<Vec<Figure>> {
    let of = |is_peer| {
        let all = servers.iter().zip(costs);
        all.filter(move |((server, _), _)| server.is_peer() == is_peer)
    };
    let best = |round: usize| of(true).map(|(_, costs)| costs[round]).fold(f64::MAX, f64::min);
    let mut figures = Vec::new();
    for ((server, _), costs) in of(false) {
        let over = costs.iter().enumerate().map(|(round, cost)| cost / best(round));
        let over = Spread::of(over).context("at least one round")?;
        let name = format!("{name}: {} over the better peer", server.name());
        figures.push(Figure::spread(name, &over).at_most(goal));
    }
    Ok(figures)
}

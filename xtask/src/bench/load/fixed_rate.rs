//! The cost and the time of a request at a fixed rate: 10, 50 and 80 % of the maximum rate of the
//! slowest server. Requests are sent when they are due, even if the server is late.

use super::certificates::Key;
use super::compared_servers::{Content, Program, Setup, Workshop};
use super::h2load::{self, Streams};
use super::h3load;
use super::load_generators::{Job, Measured};
use super::measured_server::Server;
use super::scenario::PINION;
use super::tls_scenarios::PAGE;
use super::wrk::{self, Pattern};
use crate::bench::figure_table::{self, Figure};
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

/// The name of the part.
pub(crate) const NAME: &str = "fixed-rate";

const ROUNDS: usize = 5;
/// The duration of each load.
const SECONDS: u32 = 3;
/// The duration of the load that determines the maximum rate of a server.
const MAXIMUM_SECONDS: u32 = 1;
const PERCENTS: [u32; 3] = [10, 50, 80];

/// The protocol of the requests.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Http1,
    Tls,
    Http2,
    Http3,
}

impl Way {
    const ALL: [Self; 4] = [Self::Http1, Self::Tls, Self::Http2, Self::Http3];

    fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Tls => "HTTP/1.1 over TLS",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }

    fn connections(self) -> u32 {
        match self {
            Self::Http1 | Self::Tls => 64,
            Self::Http2 | Self::Http3 => 10,
        }
    }

    /// Returns the requests of a connection that may be open at once.
    fn streams(self) -> u32 {
        match self {
            Self::Http1 | Self::Tls => 1,
            Self::Http2 | Self::Http3 => 32,
        }
    }

    /// Returns the servers of other projects for comparison.
    fn peers(self) -> &'static [Program] {
        match self {
            Self::Http3 => &[Program::CurrentNginx, Program::CurrentH2o],
            _ => &[Program::Nginx, Program::CurrentNginx, Program::H2o, Program::CurrentH2o],
        }
    }

    fn setup(self, program: Program) -> Setup {
        Setup {
            program,
            is_before: false,
            content: Content::Small,
            workers: 1,
            closes: false,
            key: (self != Self::Http1).then_some(Key::P256),
            quic: self == Self::Http3,
        }
    }

    fn url(self, server: &Server) -> String {
        let scheme = if self == Self::Http1 { "http" } else { "https" };
        format!("{scheme}://{}{PAGE}", server.address())
    }

    /// Returns the load with as many requests as the server responds to.
    fn maximum(self, shop: &Workshop, server: &Server) -> Job {
        let (connections, streams, seconds) = (self.connections(), self.streams(), MAXIMUM_SECONDS);
        let url = self.url(server);
        match self {
            Self::Http1 | Self::Tls => {
                let (fields, pattern) = (Vec::new(), Pattern::Plain);
                Job::Wrk(wrk::Load { connections, seconds, url, fields, pattern })
            }
            Self::Http2 => Job::H2load(Streams {
                connections,
                streams,
                seconds,
                url,
                urls: None,
                times: shop.file("h2load.log"),
                rate: None,
            }),
            Self::Http3 => Job::H3load(self.h3load(shop, url, seconds, None)),
        }
    }

    /// Runs a load with this many requests in a second.
    fn run(self, shop: &Workshop, server: &Server, rate: f64) -> Result<Measured> {
        let url = self.url(server);
        let each = rate / f64::from(self.connections());
        match self {
            Self::Http2 => h2load::run(&Streams {
                connections: self.connections(),
                streams: self.streams(),
                seconds: SECONDS,
                url,
                urls: None,
                times: shop.file("h2load.log"),
                rate: Some(each),
            }),
            Self::Http1 | Self::Tls | Self::Http3 => {
                h3load::run(&self.h3load(shop, url, SECONDS, Some(each)))
            }
        }
    }

    fn h3load(self, shop: &Workshop, url: String, seconds: u32, rate: Option<f64>) -> h3load::Load {
        let (connections, streams) = (self.connections(), self.streams());
        let program = if self == Self::Http3 { shop.h3load() } else { shop.rateload() };
        let body_bytes = None;
        h3load::Load { program, connections, streams, seconds, url, body_bytes, rate }
    }
}

/// The result of one load.
struct Round {
    cpu_us: f64,
    /// How often the server got the processor for each request: nearly always after it was woken.
    wakes: f64,
    measured: Measured,
}

/// A server with its results.
struct Case {
    program: Program,
    label: String,
    server: Server,
    rounds: Vec<Round>,
}

/// Measures, and returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let (mut tables, mut figures, mut data) = (String::new(), Vec::new(), Map::new());
    for way in Way::ALL {
        let mut cases = start(shop, way)?;
        let maximum = maximum(shop, way, &cases)?;
        for percent in PERCENTS {
            let rate = (maximum * f64::from(percent) / 100.0).floor();
            for round in 0..turns {
                for case in &mut cases {
                    let before = case.server.cpu()?;
                    let measured = way.run(shop, &case.server, rate);
                    let measured = measured.with_context(|| case.label.clone())?;
                    let after = case.server.cpu()?;
                    let Measured { requests, errors, refusals, timeouts, .. } = measured;
                    ensure!(requests > 0, "{} has not responded", case.label);
                    ensure!(
                        (errors, refusals, timeouts) == (0, 0, 0),
                        "{}: {errors} errors, {refusals} refusals, {timeouts} timeouts",
                        case.label
                    );
                    let requests = requests as f64;
                    let cpu_us = after.since(&before) as f64 / 1e3 / requests;
                    let wakes = after.wakes_since(&before) as f64 / requests;
                    case.rounds.push(Round { cpu_us, wakes, measured });
                }
                eprintln!("  {} at {percent} %, {}/{turns}", way.name(), round + 1);
            }
            tables += &table(way, percent, rate, &cases)?;
            figures.extend(goals(way, percent, &cases)?);
            data.insert(format!("{}, {percent} %", way.name()), rounds_data(rate, &cases));
            cases.iter_mut().for_each(|case| case.rounds.clear());
        }
    }
    let report = format!(
        "One small file, at a fixed rate for {SECONDS} s, {turns} rounds in turn: CPU time of \
         the server for each request, how often it was woken for each request, and latencies \
         from the time when a request is due. The rate is a part of what the slowest of the \
         servers can bear. Opening the connections is included in the CPU time. Over HTTP/2 \
         the client sends requests of all connections at the same moments: latencies are \
         those of bursts, and of the client as much as of the server.\n\n{tables}{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

fn start(shop: &Workshop, way: Way) -> Result<Vec<Case>> {
    let bare: &[Program] = match way {
        Way::Http1 => &[Program::BareEpoll, Program::BareUring],
        _ => &[],
    };
    let mut cases = Vec::new();
    for &program in bare.iter().chain(PINION).chain(way.peers()) {
        let label = shop.label(program);
        if let Some(server) = shop.start(way.setup(program)).with_context(|| label.clone())? {
            cases.push(Case { program, label, server, rounds: Vec::new() });
        }
    }
    Ok(cases)
}

/// Returns the requests per second of the slowest server.
fn maximum(shop: &Workshop, way: Way, cases: &[Case]) -> Result<f64> {
    let mut slowest = f64::INFINITY;
    for case in cases {
        let measured = way.maximum(shop, &case.server).run()?;
        slowest = slowest.min(measured.requests_per_second());
    }
    Ok(slowest)
}

/// Returns the spread of a figure of a case.
fn spread(case: &Case, figure: impl Fn(&Round) -> f64) -> Result<Spread> {
    Spread::of(case.rounds.iter().map(figure)).context("at least one round")
}

fn table(way: Way, percent: u32, rate: f64, cases: &[Case]) -> Result<String> {
    let mut text = format!(
        "{} at {percent} %, {rate} requests a second:\n\n| Server | CPU, µs | Wakes | p50, µs | \
         p99, µs | p99.9, µs |\n|---|---|---|---|---|---|\n",
        way.name()
    );
    for case in cases {
        let latency = |of: fn(&Measured) -> u64| spread(case, |round| of(&round.measured) as f64);
        let cells = [
            spread(case, |round| round.cpu_us)?.shown(2),
            spread(case, |round| round.wakes)?.shown(2),
            latency(|it| it.p50)?.shown(0),
            latency(|it| it.p99)?.shown(0),
            latency(|it| it.p999)?.shown(0),
        ];
        text += &format!("| {} | {} |\n", case.label, cells.join(" | "));
    }
    Ok(text + "\n")
}

/// Returns the figures with goals.
fn goals(way: Way, percent: u32, cases: &[Case]) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let is_peer = |case: &&Case| !case.program.is_pinion() && !case.program.is_bare();
    let mut add =
        |own: &Case, quantity: &str, others: &[&Case], of: fn(&Round) -> f64, goal: f64| {
            if others.is_empty() {
                return Ok(());
            }
            let over = own.rounds.iter().enumerate().map(|(round, own)| {
                let best =
                    others.iter().map(|other| of(&other.rounds[round])).fold(f64::MAX, f64::min);
                of(own) / best
            });
            let over = Spread::of(over).context("at least one round")?;
            let name = format!("{} at {percent} %, {}: {quantity}", way.name(), own.label);
            figures.push(Figure::spread(name, &over).at_most(goal));
            Ok::<(), anyhow::Error>(())
        };
    for own in cases.iter().filter(|case| case.program.is_pinion()) {
        let bare: Vec<&Case> = cases.iter().filter(|it| it.program == own.program.bare()).collect();
        let peers: Vec<&Case> = cases.iter().filter(is_peer).collect();
        let p99 = |round: &Round| round.measured.p99 as f64;
        match percent {
            10 => {
                add(own, "CPU over the bare loop", &bare, |round| round.cpu_us, 1.2)?;
                add(own, "p99 over the best peer", &peers, p99, 0.8)?;
            }
            50 => {
                let p50 = |round: &Round| round.measured.p50 as f64;
                add(own, "p50 over the best peer", &peers, p50, 1.0)?;
                add(own, "p99 over the best peer", &peers, p99, 1.0)?;
            }
            _ => {}
        }
    }
    Ok(figures)
}

fn rounds_data(rate: f64, cases: &[Case]) -> Value {
    let mut data = Map::new();
    data.insert("rate".to_owned(), json!(rate));
    for case in cases {
        let rounds = case.rounds.iter().map(|round| {
            let Measured { p50, p99, p999, requests, .. } = round.measured;
            json!({
                "cpu_us": round.cpu_us, "wakes": round.wakes, "requests": requests,
                "p50_us": p50, "p99_us": p99, "p99_9_us": p999,
            })
        });
        data.insert(case.label.clone(), rounds.collect());
    }
    data.into()
}

//! `cargo xtask bench abuse`: the time that a client waits for a response while another one abuses
//! the server, compared with its usual time.
//!
//! Requests with large content that keep one function of C busy are an abuse as well
//! (`large_content`). Keys of a table whose hashes collide are another one (`hash_collisions`):
//! here the time of the request itself is compared with that of a request with other keys.
//!
//! The clients behave as in `tests/tests/black_box/connection_permits.rs` and `lua_uploads.rs`,
//! which count responses; here they are timed.

mod hash_collisions;
mod large_content;

use super::figure_table::{self, Figure};
use super::release_binary;
use super::runs::Run;
use super::started_server::Started;
use super::statistics::Spread;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: cargo xtask bench abuse [OPTIONS]
  --rounds N     how often each abuse is tried [7]
  --name NAME    the run's name [the host's]";

/// The allowed time of a response, relative to its usual time.
const RATIO_GOAL: f64 = 2.0;
/// The `--max-connections` of the server, and the connections that an attacker opens.
const MAX_CONNECTIONS: usize = 512;
/// Requests of the victim in a round, each on a connection of its own.
const REQUESTS: usize = 200;
/// Bytes that are sent of the content of an upload before it stalls.
const STALLED_BYTES: usize = 1 << 20;

/// The backends of the server (`--io`): each attack is measured over both.
const BACKENDS: [&str; 2] = ["epoll", "uring"];

/// An attack: the bytes and actions for a new connection, and the number of connections.
struct Abuse {
    name: &'static str,
    connections: usize,
    /// Sends the bytes of the attack; the connection stays open afterwards.
    attack: fn(&mut TcpStream) -> std::io::Result<()>,
}

const ABUSES: [Abuse; 4] = [
    Abuse {
        name: "idle connections",
        connections: MAX_CONNECTIONS,
        attack: |stream| stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    },
    Abuse { name: "silent connections", connections: MAX_CONNECTIONS, attack: |_| Ok(()) },
    Abuse {
        name: "incomplete request heads",
        connections: MAX_CONNECTIONS,
        attack: |stream| stream.write_all(b"GET / HTTP/1.1\r\nHost"),
    },
    Abuse {
        name: "stalled uploads",
        connections: 100,
        attack: |stream| {
            stream.write_all(
                b"POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\
                  Content-Type: multipart/form-data; boundary=b\r\n\r\n\
                  --b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n",
            )?;
            stream.write_all(&[b'x'; STALLED_BYTES])
        },
    },
];

/// Measures and records all abuses as one part of today's run.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (rounds, name) = super::rounds_and_name(arguments, 7, USAGE)?;
    let (pinion, bench_folder) = (release_binary::binary()?, release_binary::state()?);
    let site = site(&bench_folder)?;
    let (mut figures, mut data) = (Vec::new(), Vec::new());
    for io in BACKENDS {
        let mut add = |abuse: &str, (ratios, rounds_json): (Vec<f64>, Vec<Value>)| -> Result<()> {
            let name = format!("{abuse}, {io}: ratio");
            figures.push(Figure::spread(name, &spread(ratios)?).at_most(RATIO_GOAL));
            data.push(json!({ "abuse": abuse, "io": io, "rounds": rounds_json }));
            Ok(())
        };
        for abuse in &ABUSES {
            add(abuse.name, measure(&pinion, &site, rounds, io, abuse)?)?;
        }
        for content in &large_content::CONTENTS {
            let measured = large_content::measure(&pinion, &site, rounds, io, content)?;
            add(content.name, measured)?;
        }
        add(hash_collisions::NAME, hash_collisions::measure(&pinion, &site, rounds, io)?)?;
    }
    let report = format!(
        "{rounds} rounds over each backend, each with a fresh server of {MAX_CONNECTIONS} \
         connections. A ratio is the median latency of {REQUESTS} requests of a client, each on a \
         new connection, while another client holds connections or posts content repeatedly, \
         divided by the median latency of that client before. For hash collisions, it is the time \
         of a request that fills a table with {} keys that collide, divided by the time with as \
         many keys that do not. Values are medians of the rounds, with minimum and maximum in \
         brackets.\n\n{}",
        hash_collisions::KEYS,
        figure_table::table(&figures),
    );
    let mut run = Run::open(name)?;
    run.record("abuse", &report, &json!(data))?;
    println!("\n== abuse\n\n{report}");
    eprintln!("recorded in {}", run.shown());
    Ok(())
}

/// Returns the ratio of the latency of a victim during an attack to its usual latency for each
/// round, and both latencies as JSON.
fn measure(
    pinion: &Path,
    site: &Path,
    rounds: usize,
    io: &str,
    abuse: &Abuse,
) -> Result<(Vec<f64>, Vec<Value>)> {
    let (mut ratios, mut rounds_json) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let max_connections = MAX_CONNECTIONS.to_string();
        let flags = ["--io", io, "--max-connections", &max_connections, "--upload-space", "64"];
        let (server, _) = Started::start_with(pinion, site, "/", &flags)?;
        let usual = victim_latency_ms(&server, || false)?;
        let mut held = Vec::new();
        for _ in 0..abuse.connections {
            // The server may close it at any time.
            if let Ok(mut stream) = TcpStream::connect(server.address()) {
                let _closed_meanwhile = (abuse.attack)(&mut stream);
                held.push(stream);
            }
        }
        // The server counts a silent or stalled client as such after a second.
        std::thread::sleep(Duration::from_millis(1500));
        let abused = victim_latency_ms(&server, || false)?;
        ratios.push(abused / usual);
        rounds_json.push(json!({ "usual_ms": usual, "abused_ms": abused }));
    }
    Ok((ratios, rounds_json))
}

fn spread(figures: Vec<f64>) -> Result<Spread> {
    Spread::of(figures).context("no figures")
}

/// Returns the median latency of requests of the victim, in milliseconds: of [`REQUESTS`], and of
/// more as long as the measured load `goes_on`.
fn victim_latency_ms(server: &Started, goes_on: impl Fn() -> bool) -> Result<f64> {
    let mut times = Vec::with_capacity(REQUESTS);
    while times.len() < REQUESTS || goes_on() {
        let began = Instant::now();
        server.ask("/")?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(spread(times)?.median)
}

/// Makes a site with a page and a handler for forms, and returns its path.
fn site(bench_folder: &Path) -> Result<PathBuf> {
    let site = bench_folder.join("abuse");
    fs::create_dir_all(&site)?;
    fs::write(site.join("index.html"), "<h1>home</h1>")?;
    let form = "pinion.post(\"/form\", function(req) return tostring(req:form().f.size) end)\n";
    fs::write(
        site.join("main.lua"),
        [form, hash_collisions::HANDLER, large_content::HANDLERS].concat(),
    )?;
    Ok(site)
}

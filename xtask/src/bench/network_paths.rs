//! `cargo xtask bench paths`: files over paths with a round trip, a rate and loss, over each
//! version of HTTP, compared with the current nginx and Caddy.
//!
//! Pinion is measured twice, with CUBIC and with BBR. Then two transfers share a path.
//!
//! Server and clients are in network namespaces of their own, with `tests/src/long_path.py` between
//! them. The clients are curl and h2load, and `bench/h3load` over HTTP/3. TCP has the windows of
//! Reno, which are those of CUBIC on such paths (RFC 9438, section 4.3).

mod congestion_control_sharing;

use super::delayed_network::{Ended, LongPath, SERVER, line, on};
use super::figure_table::{self, Figure};
use super::peers::{self, Peer};
use super::runs::Run;
use super::{release_binary, rounds_and_name};
use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: cargo xtask bench paths [OPTIONS]
  --rounds N     how often each file is sent [1]
  --name NAME    the run's name [the host's]";

/// The port of Pinion with its default settings.
const PINION_PORT: u16 = 8443;

const ROUND_TRIPS_MS: [&str; 2] = ["16", "50"];
const LOSSES_PER_MILLE: [&str; 3] = ["0", "10", "30"];
const RATES_MBIT: [&str; 2] = ["10", "100"];

/// The time after which a transfer is ended, so that the received bytes count.
const TRANSFER_MAX_SECONDS: u32 = 20;
/// The time in which h3load begins requests: it waits ten seconds longer for responses.
const H3LOAD_SECONDS: u32 = TRANSFER_MAX_SECONDS - 10;

/// Files with their sizes.
const FILES: [(&str, usize); 2] = [("1m.bin", 1 << 20), ("10m.bin", 10 << 20)];
/// A file whose transfer never ends in time.
const ENDLESS: (&str, u64) = ("endless.bin", 1 << 30);
const SMALL: &str = "small.txt";
const SMALL_FILES: &str = "100";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Version {
    Http1,
    Http2,
    Http3,
}

impl Version {
    const ALL: [Self; 3] = [Self::Http1, Self::Http2, Self::Http3];

    fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }
}

/// A server of the files.
struct Sender {
    name: &'static str,
    port: u16,
    versions: &'static [Version],
    _program: Ended,
}

/// The measurements of one sender over one path, in each round.
#[derive(Debug, Default)]
struct Transfers {
    /// Mbit/s of each of [`FILES`].
    goodputs: [Vec<f64>; 2],
    /// Seconds until the last of the small files.
    small_seconds: Vec<f64>,
}

/// Measures and records.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (rounds, name) = rounds_and_name(arguments, 1, USAGE)?;
    let pinion = release_binary::binary()?;
    release_binary::h3load()?;
    let folder = release_binary::state()?.join("paths");
    make_files(&folder)?;
    let mut figures = Vec::new();
    let (mut tables, mut data) = (String::new(), Map::new());
    for rtt in ROUND_TRIPS_MS {
        for loss in LOSSES_PER_MILLE {
            for rate in RATES_MBIT {
                let cell = format!("{rtt} ms, {} % loss, {rate} Mbit/s", percent(loss));
                eprintln!("  {cell}");
                let arguments = ["--delay-ms", rtt, "--loss", loss, "--rate-mbit", rate];
                let path = LongPath::start(&arguments)?;
                let measured = measure(&path, &pinion, &folder, rounds)?;
                tables += &table(&cell, &measured);
                figures.extend(goals(&cell, (rtt, loss), &measured));
                data.insert(cell, cell_data(&measured));
            }
        }
    }
    let report = format!(
        "Files over TLS and paths with a round trip, loss in both directions, and a rate; {rounds} \
         rounds, the median. Goodput is that of one file over a new connection, with the \
         handshake; a transfer ends after {TRANSFER_MAX_SECONDS} s, and what has come until then \
         counts. The last column is the time until the last of {SMALL_FILES} small files: over \
         HTTP/1.1 with six connections, otherwise with one.\n\n{tables}{}",
        figure_table::table(&figures)
    );
    let mut run = Run::open(name)?;
    run.record("paths", &report, &data.into())?;
    let (shared, shared_data) = congestion_control_sharing::measure(&pinion, &folder)?;
    run.record("shared-paths", &shared, &shared_data)?;
    println!("\n== paths\n\n{report}\n== shared paths\n\n{shared}");
    eprintln!("recorded in {}", run.shown());
    Ok(())
}

fn percent(per_mille: &str) -> f64 {
    per_mille.parse::<f64>().unwrap_or_default() / 10.0
}

fn make_files(folder: &Path) -> Result<()> {
    let site = folder.join("site");
    fs::create_dir_all(&site)?;
    fs::write(site.join(SMALL), "hello world!\n")?;
    for (name, bytes) in FILES {
        fs::write(site.join(name), vec![b'x'; bytes])?;
    }
    let endless = fs::File::create(site.join(ENDLESS.0))?;
    Ok(endless.set_len(ENDLESS.1)?)
}

type Measured = Vec<(&'static str, Version, Transfers)>;

fn measure(path: &LongPath, pinion: &Path, folder: &Path, rounds: usize) -> Result<Measured> {
    let senders = start(path, pinion, folder)?;
    let mut measured = Vec::new();
    for sender in &senders {
        for version in sender.versions {
            measured.push((sender.name, *version, Transfers::default()));
        }
    }
    for _ in 0..rounds {
        for (name, version, transfers) in &mut measured {
            let sender = senders.iter().find(|it| it.name == *name).context("its server")?;
            for ((file, bytes), goodputs) in FILES.iter().zip(&mut transfers.goodputs) {
                goodputs.push(goodput(path, sender.port, *version, (file, *bytes))?);
            }
            transfers.small_seconds.push(small_files(path, sender.port, *version)?);
        }
    }
    Ok(measured)
}

/// Starts all servers that are installed.
fn start(path: &LongPath, pinion: &Path, folder: &Path) -> Result<Vec<Sender>> {
    let (site, state) = (folder.join("site"), state(folder, PINION_PORT)?);
    let mut senders = vec![
        start_pinion(path, pinion, folder, ("Pinion", PINION_PORT, "cubic"))?,
        start_pinion(path, pinion, folder, ("Pinion with BBR", 8543, "bbr"))?,
    ];
    // The file of the key also has its certificate.
    let pair = ["crt", "pem"].map(|end| state.join(format!("tls/self-signed-p256.{end}")));
    let [certificate, key] = pair.map(|file| file.display().to_string());
    let site = site.display();
    let peers = [
        (
            Peer::Nginx,
            9443,
            "nginx",
            format!(
                "daemon off; master_process off; pid {0}/nginx.pid; error_log {0}/nginx.error;\n\
                 events {{}}\nhttp {{ include {1}; access_log off; http2 on; http3 on;\n\
                 client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f;\n\
                 uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;\nserver {{ listen \
                 {SERVER}:9443 ssl; listen {SERVER}:9443 quic; ssl_certificate {certificate}; \
                 ssl_certificate_key {key}; root {site}; }} }}\n",
                state.display(),
                peers::nginx_types().display(),
            ),
        ),
        (
            Peer::Caddy,
            9543,
            "Caddy",
            format!(
                "{{\n admin off\n auto_https off\n default_sni localhost\n log {{\n output \
                 discard\n }}\n}}\nhttps://:9543 {{\n bind {SERVER}\n tls {certificate} {key}\n \
                 root * {site}\n file_server\n}}\n"
            ),
        ),
    ];
    for (peer, port, name, configuration) in peers {
        let Some(program) = peer.program() else {
            eprintln!("  {name} is left out: `cargo xtask bench peers` installs it");
            continue;
        };
        let file = folder.join(format!("{name}.conf"));
        fs::write(&file, configuration)?;
        let versions = &Version::ALL;
        let _program = start_peer(path, peer, &program, &file)?;
        senders.push(Sender { name, port, versions, _program });
        wait_for(path, port).with_context(|| name.to_owned())?;
    }
    Ok(senders)
}

/// Returns the state folder of the server at a port.
fn state(folder: &Path, port: u16) -> Result<PathBuf> {
    let state = folder.join(format!("state-{port}"));
    fs::create_dir_all(&state)?;
    Ok(state)
}

/// Starts Pinion with a name, a port and a congestion control.
fn start_pinion(
    path: &LongPath,
    pinion: &Path,
    folder: &Path,
    (name, port, congestion): (&'static str, u16, &str),
) -> Result<Sender> {
    let mut serve = on(&path.server, pinion);
    serve.arg("serve").arg(folder.join("site")).arg("--state").arg(state(folder, port)?);
    serve.args(["--control", "off", "--quic-congestion", congestion]);
    for flag in ["--tls", "--quic"] {
        serve.args([flag, &format!("{SERVER}:{port}")]);
    }
    let mut served = serve.stderr(Stdio::piped()).spawn()?;
    let stderr = served.stderr.take();
    let _program = Ended(served);
    line(stderr, |line| line == "ready").context("pinion")?;
    // TCP is the same with both.
    let versions: &[Version] = match congestion {
        "bbr" => &[Version::Http3],
        _ => &Version::ALL,
    };
    Ok(Sender { name, port, versions, _program })
}

fn start_peer(path: &LongPath, peer: Peer, program: &Path, file: &PathBuf) -> Result<Ended> {
    let mut command = on(&path.server, program);
    match peer {
        Peer::Caddy => command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file),
        _ => command.arg("-c").arg(file),
    };
    Ok(Ended(command.stderr(Stdio::null()).spawn()?))
}

/// Waits until a server responds.
fn wait_for(path: &LongPath, port: u16) -> Result<()> {
    let mut first = curl(path, port, SMALL, Version::Http1)?;
    first.args(["--retry", "20", "--retry-connrefused", "--retry-delay", "1"]);
    process::output(&mut first)?;
    Ok(())
}

fn curl(path: &LongPath, port: u16, file: &str, version: Version) -> Result<Command> {
    let mut curl = on(&path.client, process::find("curl").context("curl")?);
    curl.args(["--silent", "--insecure", "--noproxy", "*", "--output", "/dev/null"]);
    curl.arg(if version == Version::Http2 { "--http2" } else { "--http1.1" });
    curl.args(["--connect-to", &format!("::{SERVER}:")]);
    curl.arg(format!("https://localhost:{port}/{file}"));
    Ok(curl)
}

/// Returns the Mbit/s of one file.
fn goodput(
    path: &LongPath,
    port: u16,
    version: Version,
    (file, bytes): (&str, usize),
) -> Result<f64> {
    if version == Version::Http3 {
        let began = Instant::now();
        let report = h3load(path, port, file, ["-m", "1", "-n", "1"])?;
        let seconds = began.elapsed().as_secs_f64();
        let is_whole = report["requests"] == 1;
        let received = report["received_bytes"].as_u64().unwrap_or(0) as f64;
        let came = if is_whole { bytes as f64 } else { received };
        return Ok(came * 8e-6 / seconds);
    }
    let mut curl = curl(path, port, file, version)?;
    curl.args(["--max-time", &TRANSFER_MAX_SECONDS.to_string()]);
    curl.args(["--write-out", "%{size_download} %{time_total}"]);
    // curl fails at its time limit, and still prints the received bytes.
    let output = curl.output().context("curl")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (bytes, seconds) = text.split_once(' ').context("what curl has measured")?;
    Ok(bytes.parse::<f64>()? * 8e-6 / seconds.parse::<f64>()?)
}

fn h3load(path: &LongPath, port: u16, file: &str, more: [&str; 4]) -> Result<Value> {
    let mut command = on(&path.client, workspace_paths::target().join("dist/pinion-h3load"));
    command.args(["-c", "1", "-d", &H3LOAD_SECONDS.to_string()]).args(more);
    command.arg(format!("https://{SERVER}:{port}/{file}"));
    let text = process::output(&mut command)?;
    serde_json::from_str(&text).with_context(|| format!("h3load did not report:\n{text}"))
}

/// Returns the seconds until the last of the small files has arrived.
fn small_files(path: &LongPath, port: u16, version: Version) -> Result<f64> {
    let began = Instant::now();
    if version == Version::Http3 {
        h3load(path, port, SMALL, ["-m", SMALL_FILES, "-n", SMALL_FILES])?;
        return Ok(began.elapsed().as_secs_f64());
    }
    let mut load = on(&path.client, "timeout");
    load.args([&TRANSFER_MAX_SECONDS.to_string(), "h2load", "-n", SMALL_FILES]);
    load.args(match version {
        Version::Http1 => ["-c", "6", "-m", "1", "--npn-list=http/1.1"],
        _ => ["-c", "1", "-m", SMALL_FILES, "--npn-list=h2"],
    });
    load.arg(format!("https://{SERVER}:{port}/{SMALL}"));
    // If the time limit is reached, it counts as the result.
    load.output().context("h2load")?;
    // Lost packets at the end of one connection must not affect the next one.
    let seconds = began.elapsed().as_secs_f64();
    thread::sleep(Duration::from_millis(100));
    Ok(seconds)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn table(cell: &str, measured: &Measured) -> String {
    let mut text = format!(
        "{cell}:\n\n| Server | 1 MiB, Mbit/s | 10 MiB, Mbit/s | {SMALL_FILES} small files, s \
         |\n|---|---|---|---|\n"
    );
    for (name, version, transfers) in measured {
        let [one, ten] = &transfers.goodputs;
        text += &format!(
            "| {name}, {} | {:.2} | {:.2} | {:.2} |\n",
            version.name(),
            median(one),
            median(ten),
            median(&transfers.small_seconds)
        );
    }
    text + "\n"
}

/// Returns the goals: HTTP/3 compared with Pinion's HTTP/2 where packets are lost, and with that of
/// nginx.
fn goals(cell: &str, (rtt, loss): (&str, &str), measured: &Measured) -> Vec<Figure> {
    let of = |name: &str, version: Version| {
        let found = measured.iter().find(|(own, of, _)| *own == name && *of == version);
        found.map(|(_, _, transfers)| median(&transfers.goodputs[1]))
    };
    let mut figures = Vec::new();
    let Some(own) = of("Pinion", Version::Http3).filter(|_| loss != "0") else { return figures };
    let shown = |name: String, value: f64| {
        let figure = Figure::of(name, value);
        Figure { shown: format!("{value:.2}"), ..figure }
    };
    if let Some(http2) = of("Pinion", Version::Http2) {
        let name = format!("{cell}: 10 MiB over HTTP/3, times HTTP/2");
        figures.push(shown(name, own / http2).at_least(1.0));
    }
    let is_far = rtt == "50";
    for (name, sent) in
        [("HTTP/3", own), ("BBR", of("Pinion with BBR", Version::Http3).unwrap_or(own))]
    {
        if let Some(nginx) = of("nginx", Version::Http3) {
            let figure = shown(format!("{cell}: 10 MiB over {name}, times nginx"), sent / nginx);
            figures.push(if is_far { figure.at_least(2.0) } else { figure });
        }
    }
    figures
}

fn cell_data(measured: &Measured) -> Value {
    let rows = measured.iter().map(|(name, version, transfers)| {
        let key = format!("{name}, {}", version.name());
        let [one, ten] = &transfers.goodputs;
        let seconds = &transfers.small_seconds;
        (key, json!({"1 MiB": one, "10 MiB": ten, "small files": seconds}))
    });
    Value::Object(rows.collect())
}

//! `cargo xtask bench upload`: the speed of uploads over a path with a round trip of 100 ms, over
//! each protocol, compared with Caddy.
//!
//! Server and clients are in network namespaces of their own, with `tests/src/long_path.py` between
//! them. The clients are curl and, over HTTP/3, `bench/h3load`. Caddy hands the content on to
//! Pinion, next to it on the same side of the path, so the same script reads it.

use super::delayed_network::{Ended, LongPath, SERVER, line, on};
use super::figure_table::{self, Figure};
use super::runs::Run;
use super::statistics::Spread;
use super::{release_binary, rounds_and_name};
use crate::debian_packages::{self, Need, Proof};
use crate::process;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const USAGE: &str = "\
usage: cargo xtask bench upload [OPTIONS]
  --rounds N     how often each client sends [5]
  --name NAME    the run's name [the host's]";

const NEEDS: &[Need] = &[Need { package: "caddy", proof: Proof::Program("caddy") }];
const ROUND_TRIP_MS: &str = "100";
const CONTENT_BYTES: usize = 32 << 20;

const SITE: &str = r#"
pinion.post("/upload", { body = 2^26 }, function(req)
    local bytes = 0
    while true do
        local piece = req:read(65536)
        if not piece then return "got " .. bytes end
        bytes = bytes + #piece
    end
end)
"#;

/// A client that sends: its name, its protocol for curl or `None` for HTTP/3, and the server's
/// port.
struct Sender(&'static str, Option<&'static str>, u16);

const PINION_PORT: u16 = 8443;
const CADDY_PORT: u16 = 9443;
const SENDERS: [Sender; 5] = [
    Sender("Pinion, HTTP/1: MB/s", Some("--http1.1"), PINION_PORT),
    Sender("Pinion, HTTP/2: MB/s", Some("--http2"), PINION_PORT),
    Sender("Caddy, HTTP/2: MB/s", Some("--http2"), CADDY_PORT),
    Sender("Pinion, HTTP/3: MB/s", None, PINION_PORT),
    Sender("Caddy, HTTP/3: MB/s", None, CADDY_PORT),
];

/// Measures and records.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (rounds, name) = rounds_and_name(arguments, 5, USAGE)?;
    debian_packages::install(NEEDS)?;
    let pinion = release_binary::binary()?;
    let h3load = release_binary::h3load()?;
    let folder = release_binary::state()?.join("upload");
    let path = LongPath::start(&["--delay-ms", ROUND_TRIP_MS])?;
    let _servers = servers(&pinion, &folder, &path)?;
    let mut rates = vec![Vec::new(); SENDERS.len()];
    for _ in 0..rounds {
        for (sender, rates) in SENDERS.iter().zip(&mut rates) {
            rates.push(send(sender, &h3load, &folder, &path)?);
        }
    }
    let spread = |rates: &Vec<f64>| Spread::of(rates.clone()).context("at least one round");
    let spreads = rates.iter().map(spread).collect::<Result<Vec<_>>>()?;
    let median = |index: usize| spreads[index].median;
    let mut figures: Vec<_> =
        SENDERS.iter().zip(&spreads).map(|(sender, rate)| Figure::spread(sender.0, rate)).collect();
    figures.extend([
        Figure::of("HTTP/2, times HTTP/1", median(1) / median(0)).at_least(0.5),
        Figure::of("HTTP/2, times Caddy", median(1) / median(2)).at_least(1.0),
        Figure::of("HTTP/3, times HTTP/1", median(3) / median(0)).at_least(0.5),
        Figure::of("HTTP/3, times Caddy", median(3) / median(4)).at_least(1.0),
    ]);
    let report = format!(
        "{} MiB over TLS and a path with a round trip of {ROUND_TRIP_MS} ms, from the start of the \
         client to its end. {rounds} rounds: the median, in brackets the least and the most.\n\n{}",
        CONTENT_BYTES >> 20,
        figure_table::table(&figures)
    );
    let names = SENDERS.iter().map(|sender| sender.0);
    let data = json!(names.zip(&rates).collect::<Vec<_>>());
    let mut run = Run::open(name)?;
    run.record("upload", &report, &data)?;
    println!("\n== upload\n\n{report}");
    eprintln!("recorded in {}", run.shown());
    Ok(())
}

/// Starts Pinion, and Caddy in front of it.
fn servers(pinion: &Path, folder: &Path, path: &LongPath) -> Result<[Ended; 2]> {
    let (site, state) = (folder.join("site"), folder.join("state"));
    fs::create_dir_all(site.join("public_html"))?;
    fs::create_dir_all(&state)?;
    fs::write(site.join("main.lua"), SITE)?;
    fs::write(folder.join("large.bin"), vec![b'x'; CONTENT_BYTES])?;
    let mut serve = on(&path.server, pinion);
    serve.arg("serve").arg(&site).arg("--state").arg(&state).args(["--lua-time", "600"]);
    serve.args(["--listen", &format!("{SERVER}:8080")]);
    for flag in ["--tls", "--quic"] {
        serve.args([flag, &format!("{SERVER}:{PINION_PORT}")]);
    }
    let mut served = serve.stderr(Stdio::piped()).spawn()?;
    let stderr = served.stderr.take();
    let served = Ended(served);
    line(stderr, |line| line == "ready").context("pinion")?;
    // The key is in a file with its certificate.
    let pair = ["crt", "pem"].map(|end| state.join(format!("tls/self-signed-p256.{end}")));
    let [certificate, key] = pair.map(|file| file.display().to_string());
    let configuration = format!(
        "{{\n admin off\n auto_https off\n default_sni localhost\n \
         log {{\n output discard\n }}\n}}\n\
         https://:{CADDY_PORT} {{\n bind {SERVER}\n tls {certificate} {key}\n \
         reverse_proxy {SERVER}:8080\n}}\n"
    );
    fs::write(folder.join("Caddyfile"), configuration)?;
    let mut proxy = on(&path.server, &process::find("caddy").context("caddy")?);
    proxy.args(["run", "--adapter", "caddyfile", "--config"]).arg(folder.join("Caddyfile"));
    let proxy = Ended(proxy.stderr(Stdio::null()).spawn()?);
    let mut first = curl(path, CADDY_PORT)?;
    first.args(["--output", "/dev/null", "--retry", "10", "--retry-connrefused"]);
    process::output(first.args(["--retry-delay", "1"])).context("caddy")?;
    Ok([served, proxy])
}

/// Returns curl on the client's side, with the URL of the script. Certificates are for `localhost`.
fn curl(path: &LongPath, port: u16) -> Result<Command> {
    let mut curl = on(&path.client, &process::find("curl").context("curl")?);
    curl.args(["--silent", "--show-error", "--insecure", "--noproxy", "*", "--connect-to"]);
    curl.args([format!("::{SERVER}:"), format!("https://localhost:{port}/upload")]);
    Ok(curl)
}

/// Sends once; returns megabytes per second.
fn send(sender: &Sender, h3load: &Path, folder: &Path, path: &LongPath) -> Result<f64> {
    let Sender(name, version, port) = sender;
    let mut client = if let Some(version) = version {
        let mut curl = curl(path, *port)?;
        curl.args([*version, "--header", "Expect:", "--data-binary"]);
        curl.arg(format!("@{}", folder.join("large.bin").display()));
        curl
    } else {
        let mut load = on(&path.client, h3load);
        load.args(["-c", "1", "-n", "1", "-d", "120", "--post", &CONTENT_BYTES.to_string()]);
        load.arg(format!("https://{SERVER}:{port}/upload"));
        load
    };
    let began = Instant::now();
    let response = process::output(&mut client).with_context(|| (*name).to_owned())?;
    let is_whole = match version {
        Some(_) => response == format!("got {CONTENT_BYTES}"),
        None => response.contains("\"requests\":1,"),
    };
    ensure!(is_whole, "{name}: {response}");
    Ok(CONTENT_BYTES as f64 / 1e6 / began.elapsed().as_secs_f64())
}

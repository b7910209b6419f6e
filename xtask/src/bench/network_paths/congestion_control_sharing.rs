//! Two transfers over one path at once: the share that each congestion control of HTTP/3 leaves to
//! TCP.

use super::{
    ENDLESS, H3LOAD_SECONDS, PINION_PORT, TRANSFER_MAX_SECONDS, Version, curl, h3load, start_pinion,
};
use crate::bench::delayed_network::{LongPath, SERVER};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::thread;

/// Milliseconds of the round trip, Mbit/s, and milliseconds of the queue of each path.
const PATHS: [[&str; 3]; 3] = [["50", "20", "10"], ["50", "20", "100"], ["50", "20", "250"]];

/// A transfer with a congestion control: HTTP/1.1 uses that of the kernel.
#[derive(Clone, Copy)]
struct Transfer {
    name: &'static str,
    version: Version,
    congestion: &'static str,
}

const TCP: Transfer = Transfer { name: "TCP", version: Version::Http1, congestion: "cubic" };
const CUBIC: Transfer = Transfer { name: "CUBIC", version: Version::Http3, congestion: "cubic" };
const BBR: Transfer = Transfer { name: "BBR", version: Version::Http3, congestion: "bbr" };

const PAIRS: [[Transfer; 2]; 4] = [[TCP, TCP], [TCP, CUBIC], [TCP, BBR], [BBR, BBR]];

/// Measures all pairs on all paths; returns the report and its data.
pub(super) fn measure(pinion: &Path, folder: &Path) -> Result<(String, Value)> {
    let mut report = format!(
        "Two transfers from two servers over one path at once, for {TRANSFER_MAX_SECONDS} s, \
         without loss but for what the queue has no room for: Mbit/s of each. TCP has the windows \
         of Reno.\n\n| Path | Transfers | First | Second |\n|---|---|---|---|\n"
    );
    let mut data = Map::new();
    for [rtt, rate, queue] in PATHS {
        let cell = format!("{rtt} ms, {rate} Mbit/s, queue of {queue} ms");
        eprintln!("  {cell}");
        for pair in PAIRS {
            let arguments = ["--delay-ms", rtt, "--rate-mbit", rate, "--queue-ms", queue];
            let path = LongPath::start(&arguments)?;
            let [first, second] = goodputs(&path, pinion, folder, pair)?;
            let names = format!("{} and {}", pair[0].name, pair[1].name);
            report += &format!("| {cell} | {names} | {first:.2} | {second:.2} |\n");
            data.insert(format!("{cell}: {names}"), json!([first, second]));
        }
    }
    Ok((report, data.into()))
}

/// Returns the Mbit/s of two transfers that begin at once.
fn goodputs(
    path: &LongPath,
    pinion: &Path,
    folder: &Path,
    pair: [Transfer; 2],
) -> Result<[f64; 2]> {
    let ports = [PINION_PORT, PINION_PORT + 1];
    let mut senders = Vec::new();
    for (transfer, port) in pair.iter().zip(ports) {
        let sender = (transfer.name, port, transfer.congestion);
        senders.push(start_pinion(path, pinion, folder, sender)?);
    }
    thread::scope(|scope| {
        let running = [0, 1].map(|at| {
            let (version, port) = (pair[at].version, ports[at]);
            scope.spawn(move || received_bytes(path, port, version))
        });
        let [first, second] = running.map(|transfer| {
            let bytes = transfer.join().ok().context("a thread of a transfer")??;
            anyhow::Ok(bytes as f64 * 8e-6 / f64::from(TRANSFER_MAX_SECONDS))
        });
        Ok([first?, second?])
    })
}

/// Returns the received bytes of an endless file.
fn received_bytes(path: &LongPath, port: u16, version: Version) -> Result<u64> {
    if version == Version::Http3 {
        let report = h3load(path, port, ENDLESS.0, ["-m", "1", "-n", "1"])?;
        let received = report["received_bytes"].as_u64();
        return received.with_context(|| format!("bytes from {SERVER} in {H3LOAD_SECONDS} s"));
    }
    let mut curl = curl(path, port, ENDLESS.0, version)?;
    curl.args(["--max-time", &TRANSFER_MAX_SECONDS.to_string()]);
    curl.args(["--write-out", "%{size_download}"]);
    // curl fails at its time limit, and still prints the received bytes.
    let output = curl.output().context("curl")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

//! The memory of many keys, compared with redis-server.

use super::StoreServer;
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::compared_servers::Workshop;
use crate::bench::load::measured_server::Server;
use anyhow::{Context, Result};
use serde_json::{Value, json};

const KEYS: usize = 10_000_000;
/// Keys that are stored with one write.
const BATCH: usize = 100_000;
/// Memory over that of redis-server.
const GOAL: f64 = 0.8;
/// Bytes of an expiry.
const EXPIRY_GOAL_BYTES: f64 = 8.0;

/// Measures, and returns the report and the data.
pub(super) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let bytes = |server, expires| memory_of_keys(shop, server, expires);
    let redis = bytes(StoreServer::Redis, false)?;
    let pinion = bytes(StoreServer::PinionUring, false)?;
    let expiring = bytes(StoreServer::PinionUring, true)?;
    let redis_expiring = bytes(StoreServer::Redis, true)?;
    let figures = [
        Figure::of("redis-server, bytes of a key", redis),
        Figure::of("redis-server, with an expiry", redis_expiring),
        Figure::of("Pinion, bytes of a key", pinion),
        Figure::of("Pinion, with an expiry", expiring),
        Figure::of("Pinion, of an expiry", expiring - pinion).at_most(EXPIRY_GOAL_BYTES),
        ratio("Pinion over redis-server", pinion / redis).at_most(GOAL),
    ];
    let report = format!(
        "Resident memory of {KEYS} keys of 16 bytes with values of 16 bytes, for each.\n\n{}",
        figure_table::table(&figures)
    );
    let data = json!({
        "redis": redis, "redis_expiring": redis_expiring, "pinion": pinion,
        "pinion_expiring": expiring,
    });
    Ok((report, data))
}

fn ratio(name: &'static str, value: f64) -> Figure {
    Figure { shown: format!("{value:.2}"), ..Figure::of(name, value) }
}

/// Bytes of resident memory of each key.
fn memory_of_keys(shop: &Workshop, server: StoreServer, expires: bool) -> Result<f64> {
    let started = server.start(shop).with_context(|| server.name())?;
    let before = resident_bytes(&started)?;
    for first in (0..KEYS).step_by(BATCH) {
        let mut commands = Vec::new();
        for number in first..first + BATCH {
            let key = format!("{number:016}");
            let key = key.as_bytes();
            if expires {
                super::add_command(&mut commands, &[b"SET", key, key, b"EX", b"100000"]);
            } else {
                super::add_command(&mut commands, &[b"SET", key, key]);
            }
        }
        super::send(started.address(), &commands, BATCH)?;
    }
    Ok((resident_bytes(&started)? - before) / KEYS as f64)
}

/// Returns the resident memory of all processes of a server.
fn resident_bytes(server: &Server) -> Result<f64> {
    let mut bytes = 0.0;
    for process in server.processes()? {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next());
        let kibibytes: f64 = kibibytes.context("a line of its memory")?.parse()?;
        bytes += kibibytes * 1024.0;
    }
    Ok(bytes)
}

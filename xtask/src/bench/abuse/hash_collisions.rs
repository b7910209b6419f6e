//! A request whose JSON becomes keys of a table, all of which have one hash in a LuaJIT without a
//! seed.

use super::super::started_server::Started;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

/// The name of the ratios.
pub(super) const NAME: &str = "numbers that collide without a seed";

/// Keys of the table: some 10 MB of JSON.
pub(super) const KEYS: usize = 500_000;

/// The handler that creates the table.
pub(super) const HANDLER: &str = "\
pinion.post(\"/keys\", function(req)
  local keys, count = {}, 0
  req:limit(16 * 2^20)
  for _, key in ipairs(req:json()) do keys[key] = true end
  for _ in pairs(keys) do count = count + 1 end
  return tostring(count)
end)
";

/// Returns the ratio of the time of a request with keys that collide to that of one with other keys
/// for each round, and both times as JSON.
pub(super) fn measure(
    pinion: &Path,
    site: &Path,
    rounds: usize,
    io: &str,
) -> Result<(Vec<f64>, Vec<Value>)> {
    let flags = ["--lua-cpu", "60000", "--lua-time", "60", "--lua-memory", "512"];
    let flags = [&flags[..], &["--lua-vm-memory", "1024", "--io", io]].concat();
    let attack = content(colliding());
    // Their lowest bits differ, and their texts are as long.
    let usual = content((0..KEYS as u64).map(|n| f64::from_bits(4.5_f64.to_bits() + n * 0x1_0001)));
    let (mut ratios, mut rounds_json) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (server, _) = Started::start_with(pinion, site, "/", &flags)?;
        let (usual, attacked) = (seconds(&server, &usual)?, seconds(&server, &attack)?);
        ratios.push(attacked / usual);
        rounds_json.push(json!({ "usual_ms": usual * 1000.0, "abused_ms": attacked * 1000.0 }));
    }
    Ok((ratios, rounds_json))
}

fn seconds(server: &Started, content: &str) -> Result<f64> {
    let began = Instant::now();
    let response = server.post("/keys", "application/json", content.as_bytes())?;
    let took = began.elapsed().as_secs_f64();
    let is_whole = response.ends_with(format!("\r\n\r\n{KEYS}").as_bytes());
    ensure!(is_whole, "POST /keys: {}", response.escape_ascii());
    Ok(took)
}

fn content(keys: impl Iterator<Item = f64>) -> String {
    let mut text = String::from("[");
    for key in keys {
        let separator = if text.len() > 1 { "," } else { "" };
        let _to_memory = write!(text, "{separator}{key:.16}");
    }
    text + "]"
}

/// Numbers whose hashes without a seed have zeros in their lowest bits, as in the test
/// `hash_of_keys` of the Lua crate.
fn colliding() -> impl Iterator<Item = f64> {
    (0x4010_0000_u32..)
        .flat_map(|high| {
            let doubled = high << 1;
            let rotated = doubled.rotate_left(14);
            let mixed = rotated.rotate_left(5);
            (0..1 << 13).map(move |lowest: u32| {
                // The hash is `(mixed ^ w) - rol(w, 13)`; its lowest bits settle the others of `w`.
                let ends = lowest | (((mixed ^ lowest) & 0x1fff) << 19);
                let word = ends | (((lowest & 0x3f) << 13) ^ (mixed & 0x7_e000));
                let low = word.wrapping_add(rotated) ^ doubled;
                f64::from_bits((u64::from(high) << 32) | u64::from(low))
            })
        })
        .take(KEYS)
}

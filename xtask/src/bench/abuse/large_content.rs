//! Content that keeps one C function busy: a client posts it repeatedly while another one waits for
//! its pages. `tests/tests/black_box/lua_large_input.rs` counts the responses of the other client.

use super::super::started_server::Started;
use super::victim_latency_ms;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Content for one of the [`HANDLERS`].
pub(super) struct Content {
    pub(super) name: &'static str,
    path: &'static str,
    text: fn() -> String,
}

pub(super) const CONTENTS: [Content; 2] = [
    Content { name: "millions of numbers for table.concat", path: "/list", text: numbers },
    Content { name: "a megabyte of literals for load", path: "/chunk", text: literals },
];

/// The handlers that process it.
pub(super) const HANDLERS: &str = "\
pinion.post(\"/list\", function(req)
  return tostring(#table.concat(req:limit(2^25):json(), \",\"))
end)
pinion.post(\"/chunk\", function(req)
  return tostring(#assert(load(req:limit(2^25):body()))())
end)
";

/// Elements of the list: 8 MB of JSON.
const ELEMENTS: usize = 4_000_000;
/// Literals of the chunk, each a constant of its own.
const LITERALS: usize = 160_000;

fn numbers() -> String {
    format!("[{}7]", "7,".repeat(ELEMENTS - 1))
}

fn literals() -> String {
    let literals: Vec<String> = (0..LITERALS).map(|number| format!("{number}")).collect();
    format!("return {{{}}}", literals.join(","))
}

/// Returns the ratio of the latency of a victim during this load to its usual latency for each
/// round, and both latencies as JSON. The limits are those of every site: each request is completed
/// or reaches a limit.
pub(super) fn measure(
    pinion: &Path,
    site: &Path,
    rounds: usize,
    io: &str,
    content: &Content,
) -> Result<(Vec<f64>, Vec<Value>)> {
    let text = (content.text)();
    let (mut ratios, mut rounds_json) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (server, _) = Started::start_with(pinion, site, "/", &["--io", io])?;
        let usual = victim_latency_ms(&server, || false)?;
        let (is_done, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
        let abused = thread::scope(|scope| {
            let posts = scope.spawn(|| -> Result<()> {
                while !is_done.load(Ordering::Relaxed) {
                    let response =
                        server.post(content.path, "application/json", text.as_bytes())?;
                    ensure!(response.starts_with(b"HTTP/1.1 "), "{}: no response", content.path);
                    ended.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
            // At least one of the requests lasts from the beginning to the end.
            let is_going_on = || ended.load(Ordering::Relaxed) < 2 && !posts.is_finished();
            let abused = victim_latency_ms(&server, is_going_on);
            is_done.store(true, Ordering::Relaxed);
            let posted = posts.join().expect("it does not panic");
            posted.and(abused)
        })?;
        ratios.push(abused / usual);
        rounds_json.push(json!({ "usual_ms": usual, "abused_ms": abused }));
    }
    Ok((ratios, rounds_json))
}

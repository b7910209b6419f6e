//! The memory that a server holds for each byte of an attacker: heads of HTTP/2 that represent many
//! times their compressed size, of requests whose responses cannot be sent.

use super::certificates::Key;
use super::compared_servers::{Content, Program, Setup, Workshop};
use super::idle_connection_memory::own_bytes;
use super::tls_handshakes::Held;
use crate::bench::figure_table::{self, Figure};
use anyhow::Result;
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// The name of the part.
pub(crate) const NAME: &str = "held-heads";

/// Connections that hold requests.
const CONNECTIONS: u32 = 40;
/// Connections that are opened and closed before, so that memory that a server allocates once is
/// included.
const WARMING: u32 = 10;
/// Time for a server to process the requests, and to free unneeded memory.
const REST: Duration = Duration::from_millis(500);

const SERVERS: [Program; 8] = [
    Program::PinionEpoll,
    Program::PinionUring,
    Program::Nginx,
    Program::CurrentNginx,
    Program::H2o,
    Program::CurrentH2o,
    Program::Caddy,
    Program::CurrentCaddy,
];

/// The measurement of a server.
struct Measured {
    program: Program,
    /// Connections that it has not ended.
    connections: u64,
    /// Allocated bytes for each received byte.
    ratio: f64,
}

/// Measures all servers; returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let mut all = Vec::new();
    for program in SERVERS {
        all.extend(measure(shop, program)?);
    }
    let is_pinion =
        |it: &&Measured| matches!(it.program, Program::PinionEpoll | Program::PinionUring);
    let peers = all.iter().filter(|it| !is_pinion(it) && it.connections > 0);
    let best = peers.map(|it| it.ratio).fold(f64::INFINITY, f64::min);
    let goal = (best * 10.0).round() / 10.0;
    let mut figures = Vec::new();
    for it in &all {
        let name = format!("{}, {} connections kept", shop.label(it.program), it.connections);
        let figure = Figure::of(name, it.ratio);
        let figure = Figure { shown: format!("{:.2}", it.ratio), ..figure };
        figures.push(if is_pinion(&it) { figure.at_most(goal) } else { figure });
    }
    let report = format!(
        "Anonymous memory of a server for each byte that {CONNECTIONS} connections of HTTP/2 have \
         sent, each with 100 requests for a small file and a window that stays shut. Each head has \
         12 000 bytes of fields from the HPACK table, in 3 bytes.\n\n{}",
        figure_table::table(&figures)
    );
    let data = all.iter().map(|it| {
        (shop.label(it.program), json!({"connections": it.connections, "ratio": it.ratio}))
    });
    Ok((report, Value::Object(data.collect())))
}

/// Measures a server; `None` if it is not installed.
fn measure(shop: &Workshop, program: Program) -> Result<Option<Measured>> {
    let setup = Setup {
        program,
        is_before: false,
        content: Content::Small,
        workers: 1,
        closes: false,
        key: Some(Key::P256),
        quic: false,
    };
    let Some(server) = shop.start(setup)? else { return Ok(None) };
    let port = server.address().port();
    drop(Held::with_heads(port, WARMING)?);
    thread::sleep(REST);
    let before = own_bytes(&server)?;
    let (held, connections, sent_bytes) = Held::with_heads(port, CONNECTIONS)?;
    thread::sleep(REST);
    let after = own_bytes(&server)?;
    drop(held);
    let ratio = (after as f64 - before as f64) / sent_bytes.max(1) as f64;
    Ok(Some(Measured { program, connections, ratio }))
}

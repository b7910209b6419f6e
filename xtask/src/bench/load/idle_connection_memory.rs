//! The memory of an idle connection over TLS in the processes of the server.

use super::certificates::Key;
use super::compared_servers::{Content, Program, Setup, Workshop};
use super::measured_server::Server;
use super::tls_handshakes::Held;
use crate::bench::figure_table::{self, Figure};
use crate::bench::process_cost;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::thread;
use std::time::Duration;

/// The name of the part.
pub(crate) const NAME: &str = "tls-idle";

/// Number of open connections; enough to make the other memory of a server small in comparison.
const CONNECTIONS: u32 = 2000;
/// Connections that are opened and closed before, so that memory that a server allocates once is
/// included.
const WARMING: u32 = 100;
/// Time for a server to free the memory of handshakes.
const REST: Duration = Duration::from_millis(500);

/// The goals for the memory of a connection: in bytes, and relative to nginx.
const GOAL_BYTES: f64 = 10.0 * 1024.0;
const GOAL_OF_NGINX: f64 = 0.5;

/// Measures all servers; returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let mut figures = Vec::new();
    let mut data = serde_json::Map::new();
    let nginx = each(shop, Program::Nginx)?;
    for (program, own, ratio) in [
        (Program::PinionEpoll, "pinion epoll, bytes", "pinion epoll over"),
        (Program::PinionUring, "pinion io_uring, bytes", "pinion io_uring over"),
    ] {
        let bytes = each(shop, program)?.context("pinion is built")?;
        figures.push(Figure::of(own, bytes).at_most(GOAL_BYTES));
        if let Some(nginx) = nginx {
            let share =
                Figure::of(format!("{ratio} {}", shop.label(Program::Nginx)), bytes / nginx)
                    .at_most(GOAL_OF_NGINX);
            figures.push(Figure { shown: format!("{:.2}", bytes / nginx), ..share });
        }
        data.insert(program.name().to_owned(), json!(bytes));
    }
    let mut others = vec![(Program::Nginx, nginx)];
    for program in [Program::H2o, Program::CurrentNginx, Program::CurrentH2o] {
        others.push((program, each(shop, program)?));
    }
    for (program, bytes) in others {
        if let Some(bytes) = bytes {
            let label = shop.label(program);
            figures.push(Figure::of(format!("{label}, bytes"), bytes));
            data.insert(label, json!(bytes));
        }
    }
    let report = format!(
        "Anonymous memory of a server for each of {CONNECTIONS} connections over TLS 1.3 that \
         asked for one small file over HTTP/1.1 and then nothing.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

/// Returns the bytes for each connection; `None` if the server is not installed.
fn each(shop: &Workshop, program: Program) -> Result<Option<f64>> {
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
    drop(Held::open(port, WARMING)?);
    thread::sleep(REST);
    let before = own_bytes(&server)?;
    let held = Held::open(port, CONNECTIONS)?;
    thread::sleep(REST);
    let after = own_bytes(&server)?;
    drop(held);
    Ok(Some((after as f64 - before as f64) / f64::from(CONNECTIONS)))
}

/// Returns the anonymous memory of a server, in all its processes.
pub(crate) fn own_bytes(server: &Server) -> Result<u64> {
    let own = |process: u32| -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        process_cost::bytes_in(&status, "RssAnon").context("the kernel does not say")
    };
    server.processes()?.into_iter().map(own).sum()
}

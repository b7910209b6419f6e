//! The memory of a server's processes while many persistent connections send requests to a script.
//! The figure counts only if all connections were open at once and got their responses, so both are
//! checked.

use super::compared_servers::{Content, Program, Workshop};
use super::load_generators::{Job, Measured};
use super::lua_scenarios::{greeting, scripted};
use super::measured_server::Server;
use super::wrk;
use crate::bench::figure_table::{self, Figure};
use crate::bench::process_cost;
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The name of the part.
pub(crate) const NAME: &str = "lua-crowd";

const CONNECTIONS: u32 = 10_000;
/// Long enough for all connections to be opened and to send several requests.
const SECONDS: u32 = 8;
/// The interval of counting the connections: often enough for a load, and a small part of the CPU
/// time meanwhile.
const LOOK: Duration = Duration::from_millis(250);
/// The goal for the resident memory with all of them, in MiB.
const GOAL_MIB: f64 = 40.0;

/// The measurement of one server.
struct Crowd {
    /// The largest resident memory.
    bytes: u64,
    /// The most connections that were accepted at one time.
    connections: u64,
    measured: Measured,
}

/// Measures all servers; returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let mut figures = Vec::new();
    let mut data = serde_json::Map::new();
    for (program, name) in [
        (Program::PinionEpoll, "pinion epoll, MiB"),
        (Program::PinionUring, "pinion io_uring, MiB"),
        (Program::Nginx, "nginx, MiB"),
        (Program::Eighties, "80s, MiB"),
    ] {
        let Some(crowd) = each(shop, program)? else { continue };
        if program.is_pinion() {
            crowd.check().with_context(|| program.name().to_owned())?;
        }
        let mib = crowd.bytes as f64 / f64::from(1 << 20);
        let figure = Figure::of(name, mib);
        let figure = if program.is_pinion() { figure.at_most(GOAL_MIB) } else { figure };
        figures.push(Figure { shown: crowd.shown(mib), ..figure });
        data.insert(program.name().to_owned(), crowd.data());
    }
    let report = format!(
        "Most resident memory of a server while {CONNECTIONS} connections that stay open ask a \
         handler in Lua.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

impl Crowd {
    /// Checks that the figure counts: all connections were open, and all requests got responses.
    ///
    /// # Errors
    /// Returns the condition that does not hold.
    fn check(&self) -> Result<()> {
        let Measured { requests, errors, refusals, timeouts, .. } = self.measured;
        ensure!(
            self.connections >= u64::from(CONNECTIONS),
            "at most {} of {CONNECTIONS} connections were open at once",
            self.connections
        );
        ensure!(
            errors + refusals + timeouts == 0,
            "{errors} errors, {refusals} refusals and {timeouts} timeouts beside {requests} answers"
        );
        // With fewer requests some connections have sent none.
        ensure!(requests >= u64::from(CONNECTIONS), "only {requests} answers");
        Ok(())
    }

    /// Returns the figure with the failed condition, if any, after it: another server need not
    /// pass.
    fn shown(&self, mib: f64) -> String {
        let Self { connections, measured, .. } = self;
        let doubt = self.check().err().map_or_else(String::new, |why| format!("; {why}"));
        format!("{mib:.1} ({connections} connections, {} answers{doubt})", measured.requests)
    }

    fn data(&self) -> Value {
        let Measured { requests, errors, refusals, timeouts, .. } = self.measured;
        json!({
            "bytes": self.bytes, "connections": self.connections, "answers": requests,
            "errors": errors, "refusals": refusals, "timeouts": timeouts,
        })
    }
}

/// Measures one server under the load; `None` if it is not installed.
fn each(shop: &Workshop, program: Program) -> Result<Option<Crowd>> {
    let ask = greeting(program);
    let case = scripted(program.name().to_owned(), program, Content::Script, ask);
    let Some(server) = shop.start(case.setup)? else { return Ok(None) };
    let load = wrk::Load {
        connections: CONNECTIONS,
        seconds: SECONDS,
        url: format!("http://{}{}", server.address(), case.ask.path),
        fields: vec!["Connection: keep-alive".to_owned()],
        pattern: wrk::Pattern::Plain,
    };
    let (measured, connections) = counted(&server, &Job::Wrk(load))?;
    let most = |process: u32| -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        process_cost::bytes_in(&status, "VmHWM").context("the kernel does not say")
    };
    let bytes = server.processes()?.into_iter().map(most).sum::<Result<u64>>()?;
    Ok(Some(Crowd { bytes, connections, measured }))
}

/// Runs a load, and counts the server's connections meanwhile; returns the largest number at one
/// time.
fn counted(server: &Server, job: &Job) -> Result<(Measured, u64)> {
    let is_over = AtomicBool::new(false);
    let port = server.address().port();
    let count = || -> Result<u64> {
        let mut most = 0;
        while !is_over.load(Ordering::Relaxed) {
            most = most.max(taken(&fs::read_to_string("/proc/net/tcp")?, port));
            thread::sleep(LOOK);
        }
        Ok(most)
    };
    thread::scope(|scope| {
        let counting = scope.spawn(count);
        let measured = job.run();
        is_over.store(true, Ordering::Relaxed);
        let most = counting.join().map_err(|_| anyhow!("counting connections panicked"))?;
        Ok((measured?, most?))
    })
}

/// Returns the number of accepted connections of a port, by the kernel's table of TCP. Connections
/// in the accept queue belong to no process and have no inode. The table is read in pieces, and
/// while connections arrive, one can be in two of them.
fn taken(table: &str, port: u16) -> u64 {
    const ESTABLISHED: &str = "01";
    let end = format!(":{port:04X}");
    let taken = |line| {
        let words: Vec<&str> = str::split_whitespace(line).collect();
        let (own, peer, state, inode) =
            (words.get(1)?, words.get(2)?, words.get(3)?, words.get(9)?);
        (own.ends_with(&end) && *state == ESTABLISHED && *inode != "0").then_some((*own, *peer))
    };
    table.lines().filter_map(taken).collect::<HashSet<_>>().len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_count_once_they_are_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let count = || {
            let table = fs::read_to_string("/proc/net/tcp").unwrap();
            let once = taken(&table, address.port());
            assert_eq!(taken(&table.repeat(2), address.port()), once, "a piece that is read twice");
            once
        };
        assert_eq!(count(), 0);
        let clients = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        assert_eq!(count(), 0);
        let accepted = [(); 2].map(|()| listener.accept().unwrap());
        assert_eq!(count(), 2);
        drop((clients, accepted));
    }

    #[test]
    fn missing_connections_and_responses_fail_the_check() {
        let crowd = |connections, errors, timeouts, requests| {
            let measured = Measured { requests, errors, timeouts, ..Measured::default() };
            Crowd { bytes: 1 << 20, connections, measured }
        };
        let well = crowd(10_000, 0, 0, 20_000);
        assert!(well.check().is_ok());
        assert_eq!(well.shown(1.0), "1.0 (10000 connections, 20000 answers)");
        for (wrong, why) in [
            (crowd(9_999, 0, 0, 20_000), "at most 9999 of 10000 connections"),
            (crowd(10_000, 1, 0, 20_000), "1 errors, 0 refusals and 0 timeouts"),
            (crowd(10_000, 0, 1, 20_000), "0 errors, 0 refusals and 1 timeouts"),
            (crowd(10_000, 0, 0, 9_999), "only 9999 answers"),
        ] {
            let said = wrong.check().unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
            assert!(wrong.shown(1.0).contains(&said), "{}", wrong.shown(1.0));
        }
        let refused = Measured { refusals: 1, ..crowd(10_000, 0, 0, 20_000).measured };
        assert!(Crowd { measured: refused, ..crowd(10_000, 0, 0, 0) }.check().is_err());
    }
}

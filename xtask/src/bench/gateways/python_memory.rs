//! The memory of Python applications: compared with the plain interpreter with the same application
//! imported, during a million requests, and during 100 MiB of content in both directions.

use super::compared_servers::{INTERPRETER, Place};
use crate::bench::figure_table::{self, Figure};
use crate::bench::load::h2load::{self, Requests};
use crate::bench::load::measured_server::Server;
use crate::bench::process_cost;
use crate::process;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;

/// After these requests everything that a server needs is in memory.
const WARMING: u32 = 200_000;
const REQUESTS: u32 = 1_000_000;
const CONNECTIONS: u32 = 64;
const MIB: f64 = 1024.0 * 1024.0;
const CONTENT_BYTES: usize = 100 << 20;

/// The memory that all processes of Pinion may use beyond that of the interpreter alone.
const GOAL_MIB: f64 = 4.0;
/// The memory after the requests over that before them.
const GOAL_GROWTH: f64 = 1.02;
/// The peak of the memory may grow by this amount during the transfer of content.
const GOAL_CONTENT_MIB: f64 = 4.0;

/// Measures, and returns the report and the data.
pub(super) fn run(place: &Place, _rounds: usize) -> Result<(String, Value)> {
    let (bare, bare_anonymous) = bare_mib(place)?;
    let server = Server::start(&place.file("python-memory.log"), |port| {
        let site = place.python_site(&port.to_string());
        let mount = place.python_mount("/wsgi", "wsgi = \"python_hello:app\"", 1);
        place.pinion_on_core("python-memory.toml", &(site + &mount))
    })?;
    load(place, &server, WARMING)?;
    let before = mib(&server, "smaps_rollup", "Pss")?;
    let anonymous = mib(&server, "smaps_rollup", "Pss_Anon")?;
    eprintln!("  {REQUESTS} requests");
    load(place, &server, REQUESTS)?;
    let after = mib(&server, "smaps_rollup", "Pss")?;
    let most_before = mib(&server, "status", "VmHWM")?;
    echo(&server)?;
    let most_after = mib(&server, "status", "VmHWM")?;
    let figures = [
        Figure::of("bare interpreter with the application, PSS, MiB", bare),
        Figure::of("Pinion with the application, PSS, MiB", before),
        Figure::of("more than the bare interpreter, MiB", before - bare).at_most(GOAL_MIB),
        Figure::of("of that, not of files, MiB", anonymous - bare_anonymous),
        growth(after / before),
        Figure::of("growth of peak memory with 100 MiB up and down, MiB", most_after - most_before)
            .at_most(GOAL_CONTENT_MIB),
    ];
    let report = format!(
        "The smallest WSGI application in one process of CPython, one worker, {CONNECTIONS} \
         connections. Memory is that of all processes of Pinion.\n\n{}",
        figure_table::table(&figures)
    );
    let data = json!({
        "bare": bare, "bare_anonymous": bare_anonymous, "before": before, "after": after,
        "anonymous": anonymous,
        "most_before": most_before, "most_after": most_after,
    });
    Ok((report, data))
}

fn growth(over: f64) -> Figure {
    let name = format!("PSS after {REQUESTS} requests over that before");
    let figure = Figure::of(name, over).at_most(GOAL_GROWTH);
    Figure { shown: format!("{over:.3}"), ..figure }
}

/// Returns the memory of an interpreter that has imported the application, and the part of it that
/// is not of files, in MiB.
fn bare_mib(place: &Place) -> Result<(f64, f64)> {
    let program = "import python_hello, sys; print(flush=True); sys.stdin.read()";
    let mut command = Command::new(INTERPRETER);
    command.args(["-c", program]).current_dir(place.file(""));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| process::shown(&command))?;
    let stdout = child.stdout.take().context("a pipe")?;
    BufReader::new(stdout).read_line(&mut String::new())?;
    let of = |name| figure(child.id(), "smaps_rollup", name);
    let memory = (of("Pss"), of("Pss_Anon"));
    drop(child.stdin.take());
    child.wait()?;
    Ok((memory.0?, memory.1?))
}

/// Returns a figure of all processes of a server, in MiB.
fn mib(server: &Server, file: &str, name: &str) -> Result<f64> {
    server.processes()?.into_iter().map(|process| figure(process, file, name)).sum()
}

fn figure(process: u32, file: &str, name: &str) -> Result<f64> {
    let path = format!("/proc/{process}/{file}");
    let bytes = process_cost::bytes_in(&fs::read_to_string(&path)?, name).context(path)?;
    Ok(bytes as f64 / MIB)
}

fn load(place: &Place, server: &Server, requests: u32) -> Result<()> {
    let measured = h2load::run_requests(&Requests {
        requests,
        connections: CONNECTIONS,
        url: format!("http://{}/wsgi", server.address()),
        times: place.file("h2load.log"),
    })?;
    ensure!(measured.requests == u64::from(requests) && measured.refusals == 0, "{measured:?}");
    Ok(())
}

/// Sends content to an application that sends it back while it comes.
fn echo(server: &Server) -> Result<()> {
    let stream = TcpStream::connect(server.address())?;
    let mut sending = stream.try_clone()?;
    let sender = thread::spawn(move || -> Result<()> {
        write!(
            sending,
            "PUT /wsgi?echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {CONTENT_BYTES}\r\n\r\n"
        )?;
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..CONTENT_BYTES / piece.len() {
            sending.write_all(&piece)?;
        }
        Ok(())
    });
    let (mut received, mut reader) = (0, BufReader::new(stream));
    let mut piece = vec![0; 1 << 16];
    loop {
        let bytes = reader.read(&mut piece)?;
        if bytes == 0 {
            break;
        }
        received += piece.iter().take(bytes).filter(|byte| **byte == b'x').count();
    }
    sender.join().ok().context("the sender")??;
    // The head may have the letter, too.
    ensure!((CONTENT_BYTES..CONTENT_BYTES + 100).contains(&received), "{received} bytes came back");
    Ok(())
}

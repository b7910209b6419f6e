//! Requests at a fixed rate, whatever the server does (an open loop): each has a due time from
//! which its latency counts, so a stalled server does not get fewer requests.
//!
//! The requests are all the same, and so are the lengths of the responses. One thread on the core
//! of clients sends and receives without ever sleeping.

use super::measured_server::CLIENT_CORE;
use crate::process;
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// Requests at a fixed rate.
#[derive(Debug, Clone)]
pub(crate) struct OpenLoop<'a> {
    pub(crate) address: SocketAddr,
    /// One request.
    pub(crate) request: &'a [u8],
    pub(crate) connections: usize,
    /// Requests in a second, of all connections.
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latencies {
    pub(crate) requests: usize,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// The time limit of the last responses.
const END: Duration = Duration::from_secs(5);

/// Runs one load to its end.
pub(crate) fn run(load: &OpenLoop<'_>) -> Result<Latencies> {
    // The load runs in a thread of its own, because only that is bound to the core.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            stay_on_core()?;
            send_all(load)
        });
        thread.join().expect("the load does not panic")
    })
}

fn stay_on_core() -> Result<()> {
    let thread = std::fs::read_link("/proc/thread-self")?;
    let thread = thread.file_name().context("the number of this thread")?;
    let mut command = Command::new("taskset");
    process::output(command.args(["-cp", &CLIENT_CORE.to_string()]).arg(thread))?;
    Ok(())
}

/// A connection with the due times of its requests that have no response yet.
struct Connection {
    stream: TcpStream,
    due: VecDeque<Instant>,
    received_bytes: usize,
}

fn send_all(load: &OpenLoop<'_>) -> Result<Latencies> {
    let mut connections = Vec::new();
    let mut response_bytes = 0;
    for _ in 0..load.connections {
        let mut stream = TcpStream::connect(load.address)?;
        stream.set_nodelay(true)?;
        stream.write_all(load.request)?;
        // The response is small, so it arrives at once.
        response_bytes = stream.read(&mut [0; 1 << 16])?;
        stream.set_nonblocking(true)?;
        connections.push(Connection { stream, due: VecDeque::new(), received_bytes: 0 });
    }
    ensure!(response_bytes > 0, "{} has closed the connection", load.address);
    let count = (load.rate * load.seconds) as usize;
    let interval = Duration::from_secs_f64(1.0 / load.rate);
    let (began, mut sent, mut latencies) = (Instant::now(), 0, Vec::with_capacity(count));
    while latencies.len() < count {
        let now = Instant::now();
        while sent < count && began + interval.mul_f64(sent as f64) <= now {
            let connection = &mut connections[sent % load.connections];
            connection.due.push_back(began + interval.mul_f64(sent as f64));
            connection.stream.write_all(load.request)?;
            sent += 1;
        }
        for connection in connections.iter_mut().filter(|it| !it.due.is_empty()) {
            receive(connection, response_bytes, &mut latencies)?;
        }
        if now > began + Duration::from_secs_f64(load.seconds) + END {
            bail!("{} of {count} responses have not come", count - latencies.len());
        }
    }
    latencies.sort_by(f64::total_cmp);
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    Ok(Latencies { requests: count, p50: at(0.5), p99: at(0.99), p999: at(0.999) })
}

/// Reads the available bytes.
fn receive(
    connection: &mut Connection,
    response_bytes: usize,
    latencies: &mut Vec<f64>,
) -> Result<()> {
    match connection.stream.read(&mut [0; 1 << 16]) {
        Ok(0) => bail!("the server has closed a connection"),
        Ok(bytes) => connection.received_bytes += bytes,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    while connection.received_bytes >= response_bytes {
        connection.received_bytes -= response_bytes;
        let due = connection.due.pop_front().context("a response that nobody asked for")?;
        latencies.push(due.elapsed().as_secs_f64() * 1e6);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Starts a server that sends back its input.
    #[test]
    fn each_request_has_its_latency() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let (mut reader, mut writer) = (&stream, &stream);
                    std::io::copy(&mut reader, &mut writer)
                });
            }
        });
        let load =
            OpenLoop { address, request: b"PING\r\n", connections: 3, rate: 1000.0, seconds: 0.1 };
        let latencies = send_all(&load).unwrap();
        assert_eq!(latencies.requests, 100);
        assert!(latencies.p50 > 0.0 && latencies.p50 <= latencies.p99);
        assert!(latencies.p99 <= latencies.p999);
    }
}

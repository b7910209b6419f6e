//! Load over HTTP/3: connections that repeat one request, all on one thread. The counts are printed
//! as one line of JSON; times are microseconds.
//!
//! The client needs little CPU time itself, so that the server is the busy side, and TLS is the
//! same for each server. When the time ends, open requests are completed.

#![forbid(unsafe_code)]

mod client;
mod crypto;
mod options;
mod reply;
mod socket;
mod tally;

use std::time::{Duration, Instant};

use anyhow::Result;
use client::{Client, Plan};
use options::Options;
use pinion_http::{h3, qpack};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket::Inlet;
use tally::Tally;

/// The time for handshakes, before the first request of a schedule is due.
const HANDSHAKES: Duration = Duration::from_millis(100);

/// The time for open requests to be completed at the end.
const GRACE: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    let began = Instant::now();
    let config = client::config()?;
    // The connections take turns: requests that were due at the same moment would be a burst.
    let schedule = |connection: usize| {
        let interval = Duration::from_secs_f64(1.0 / options.rate?);
        let turn = interval.mul_f64(connection as f64 / options.connections as f64);
        Some((began + HANDSHAKES + turn, interval))
    };
    let connect = |number| Client::connect(options.server, config.clone(), schedule(number), began);
    let mut clients: Vec<Client> = (0..options.connections).map(connect).collect::<Result<_>>()?;
    let mut plan = Plan {
        request: request(&options),
        streams: options.streams,
        requests_max: options.requests_max.unwrap_or(u64::MAX),
        upload_bytes: options.upload_bytes.unwrap_or(0),
        is_over: false,
        content_bytes: options.content_bytes,
    };
    let (mut tally, mut inlet) = (Tally::default(), Inlet::new());
    for client in &mut clients {
        client.drive(&plan, &mut tally, began)?;
    }
    let handshakes = if options.rate.is_some() { HANDSHAKES } else { Duration::ZERO };
    let end = began + handshakes + options.duration;
    loop {
        let now = Instant::now();
        plan.is_over = now >= end || clients.iter().all(|client| client.has_begun_all(&plan));
        let is_done = plan.is_over && clients.iter().all(Client::is_idle);
        if is_done || now >= end + GRACE {
            break;
        }
        let until = if now >= end { end + GRACE } else { end };
        let ready = wait(&mut clients, now, until)?;
        let now = Instant::now();
        for (client, is_ready) in clients.iter_mut().zip(ready) {
            if is_ready {
                client.receive(&mut inlet, now);
            }
            if is_ready || client.deadline().is_some_and(|deadline| deadline <= now) {
                client.drive(&plan, &mut tally, now)?;
            }
        }
    }
    let now = Instant::now();
    for client in clients {
        client.close(&mut tally, now)?;
    }
    println!("{}", tally.into_json(now - began));
    Ok(())
}

/// Waits until data arrives, a deadline passes or it is `until`; returns the clients that have
/// data.
fn wait(clients: &mut [Client], now: Instant, until: Instant) -> Result<Vec<bool>> {
    let deadlines = clients.iter_mut().filter_map(Client::deadline);
    let next = deadlines.chain([until]).min().unwrap_or(until);
    let left = Timespec::try_from(next.saturating_duration_since(now))?;
    let watched = clients.iter().map(|client| client.socket().fd());
    let mut sockets: Vec<PollFd<'_>> =
        watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    poll(&mut sockets, Some(&left))?;
    Ok(sockets.iter().map(|socket| !socket.revents().is_empty()).collect())
}

/// Returns the frames of a request; of its content only the header.
fn request(options: &Options) -> Vec<u8> {
    let mut frames = Vec::new();
    h3::send::head(&mut frames, |section| {
        section.extend_from_slice(&qpack::static_encoder::PREFIX);
        let method: &[u8] = if options.upload_bytes.is_some() { b"POST" } else { b"GET" };
        qpack::static_encoder::field(section, b":method", method);
        qpack::static_encoder::field(section, b":scheme", b"https");
        qpack::static_encoder::field(section, b":authority", options.server.to_string().as_bytes());
        qpack::static_encoder::field(section, b":path", options.path.as_bytes());
        qpack::static_encoder::field(section, b"user-agent", b"pinion-h3load");
        if let Some(bytes) = options.upload_bytes {
            qpack::static_encoder::field(section, b"content-length", bytes.to_string().as_bytes());
        }
    });
    if let Some(bytes) = options.upload_bytes {
        h3::send::data(&mut frames, bytes);
    }
    frames
}

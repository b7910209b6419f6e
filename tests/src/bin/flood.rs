//! Runs one of the floods at full speed for some time. The benchmarks use it to measure the effect
//! on other clients, and you can use it to observe a server.
#![forbid(unsafe_code)]

use pinion_tests::client::Client;
use pinion_tests::client::byte_stream::Peer;
use pinion_tests::floods::{End, Flood, Leave};
use pinion_tests::protocol::Protocol;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: pinion-flood PROTOCOL:NAME ADDRESS:PORT SECONDS [CERTIFICATE]
       pinion-flood --list
  PROTOCOL:NAME  a line of what --list tells
  CERTIFICATE    a PEM file with what the server has, for all but h2c
It says `flooding` when the server lets clients in, and at the end, as a line of JSON, how many
connections there were and how each of them ended.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["--list"] => Ok(list()),
        [name, server, seconds] => flood(name, server, seconds, None),
        [name, server, seconds, file] => flood(name, server, seconds, Some(Path::new(file))),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> String {
    let names = Flood::all().map(|(protocol, flood)| shown(protocol, flood));
    names.collect::<Vec<_>>().join("\n")
}

fn shown(protocol: Protocol, flood: &Flood) -> String {
    format!("{}:{}", protocol.as_str(), flood.name)
}

fn flood(
    name: &str,
    server: &str,
    seconds: &str,
    certificate: Option<&Path>,
) -> Result<String, String> {
    let found = Flood::all().find(|(protocol, flood)| shown(*protocol, flood) == name);
    let (protocol, flood) = found.ok_or_else(|| format!("no flood {name}; see --list"))?;
    let address: SocketAddr = server.parse().map_err(|_| format!("no address: {server}"))?;
    let seconds: u64 = seconds.parse().map_err(|_| format!("no time: {seconds}"))?;
    if protocol.is_encrypted() && certificate.is_none() {
        return Err(format!("over {} a certificate is needed\n{USAGE}", protocol.as_str()));
    }
    let peer = Peer::new(address, protocol, certificate);
    // A refused connection is reported, because a flood without connections would have no effect
    // and no error.
    drop(Client::try_open(&peer).map_err(|error| format!("{server}: {error}"))?);
    println!("flooding");
    io::stdout().flush().map_err(|error| error.to_string())?;
    let ends = flood.flood(&peer, Leave::after(Some(Duration::from_secs(seconds))));
    Ok(summary(&ends).to_string())
}

fn summary(ends: &[End]) -> Value {
    let count = |is_match: fn(&End) -> bool| ends.iter().filter(|end| is_match(end)).count();
    json!({
        "connections": ends.len(),
        "calm": count(|end| *end == End::Calm),
        "other": count(|end| matches!(end, End::Other(_))),
        "cut": count(|end| *end == End::Cut),
        "hung": count(|end| *end == End::Hung),
        "left": count(|end| *end == End::Left),
    })
}

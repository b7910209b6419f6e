//! `cargo xtask bench gateways`: measures files, CGI scripts and an application with FastCGI,
//! served by this server and by nginx; the cost of a CGI script compared with a bare loop that
//! starts it; the cost of a request for a Python application compared with other servers, the
//! memory of such applications, and the effect of their open streams on other clients.
//!
//! | Module | Contents |
//! |---|---|
//! | `compared_servers` | the servers of the comparison, and their programs |
//! | `gateway_comparison` | files, CGI scripts and applications on all cores |
//! | `cgi_cost` | the cost of a CGI script, and the memory of an idle server |
//! | `python` | the cost of a request for a Python application, compared with other servers |
//! | `python_memory` | the memory of Python applications |
//! | `python_streams` | the effect of a thousand open event streams on other requests |

mod cgi_cost;
mod compared_servers;
mod gateway_comparison;
mod python;
mod python_memory;
mod python_streams;

use super::runs::Run;
use super::{release_binary, rounds_and_name};
use crate::debian_packages::{self, Need, Proof};
use anyhow::{Result, ensure};
use serde_json::Value;

const USAGE: &str = "\
usage: cargo xtask bench gateways [OPTIONS]
  --only PART    only this part: gateways, cgi, python, python-memory or python-streams
  --rounds N     how often the servers take turns [3]
  --name NAME    the run's name [the host's]";

const NEEDS: &[Need] = &[
    Need { package: "gcc", proof: Proof::Program("gcc") },
    Need { package: "libc6-dev", proof: Proof::File("/usr/include/stdlib.h") },
    Need { package: "nginx-light", proof: Proof::Program("nginx") },
    Need { package: "nghttp2-client", proof: Proof::Program("h2load") },
    Need { package: "fcgiwrap", proof: Proof::Program("fcgiwrap") },
    Need { package: "wrk", proof: Proof::Program("wrk") },
    Need { package: "python3", proof: Proof::File("/usr/bin/python3") },
];

/// A measurement, which returns the report and the data.
type Measure = fn(&compared_servers::Place, usize) -> Result<(String, Value)>;

const PARTS: [(&str, Measure); 5] = [
    ("gateways", gateway_comparison::run),
    ("cgi", cgi_cost::run),
    ("python", python::run),
    ("python-memory", python_memory::run),
    ("python-streams", python_streams::run),
];

/// Runs the measurements and records them.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (only, arguments) = match arguments {
        ["--only", part, rest @ ..] => (Some(*part), rest),
        _ => (None, arguments),
    };
    let (rounds, name) = rounds_and_name(arguments, 3, USAGE)?;
    let parts: Vec<_> =
        PARTS.iter().filter(|(name, _)| only.is_none_or(|it| it == *name)).collect();
    ensure!(!parts.is_empty(), "{USAGE}");
    debian_packages::install(NEEDS)?;
    crate::python_packages::install()?;
    let pinion = release_binary::binary()?;
    let place = compared_servers::Place::make(&pinion)?;
    let mut run = Run::open(name)?;
    for (name, measure) in parts {
        let (report, data) = measure(&place, rounds)?;
        run.record(name, &report, &data)?;
        println!("\n== {name}\n\n{report}");
    }
    eprintln!("recorded in {}", run.shown());
    Ok(())
}

//! `cargo xtask bench gateways`: files, CGI scripts and an application with FastCGI, behind this
//! server and behind nginx; what a CGI script costs beside a bare loop that starts it; and what a
//! request for a Python application costs beside other servers.

mod python;
mod scripts;
mod setup;
mod table;

use super::runs::Run;
use super::{release, rounds_and_name};
use crate::debian::{self, Need, Proof};
use anyhow::Result;

const USAGE: &str = "\
usage: cargo xtask bench gateways [OPTIONS]
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

/// Measures and records.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (rounds, name) = rounds_and_name(arguments, 3, USAGE)?;
    debian::install(NEEDS)?;
    crate::python::install()?;
    let pinion = release::binary()?;
    let place = setup::Place::make(&pinion)?;
    let mut run = Run::open(name)?;
    let parts = [
        ("gateways", table::run(&place, rounds)?),
        ("cgi", scripts::run(&place, rounds)?),
        ("python", python::run(&place, rounds)?),
    ];
    for (name, (report, data)) in parts {
        run.record(name, &report, &data)?;
        println!("\n== {name}\n\n{report}");
    }
    eprintln!("recorded in {}", run.shown());
    Ok(())
}

//! `cargo xtask bench`: measurements against goals, kept in `bench/runs/`.
//!
//! Each bench measures one or more named parts and records them with [`runs::Run`], which writes
//! the readable report and the data beside it.

mod load;
mod machine;
mod runs;
mod statistics;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask bench load|machine
  load      what an answer costs, beside the bare loops and other servers
  machine   what this machine is, as a run's data notes it";

/// Runs the bench that `arguments` name.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["load", rest @ ..] => load::run(rest),
        ["machine"] => {
            println!("{:#}", machine::facts()?);
            Ok(())
        }
        _ => bail!("{USAGE}"),
    }
}

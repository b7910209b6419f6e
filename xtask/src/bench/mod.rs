//! `cargo xtask bench`: measurements against goals, kept in `bench/runs/`.
//!
//! Each bench measures one or more named parts and records them with [`runs::Run`], which writes
//! the readable report and the data beside it.

mod build;
mod cost;
mod figures;
mod load;
mod machine;
mod release;
mod runs;
mod scale;
mod statistics;
mod trees;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask bench build|load|machine|scale
  build     what a build and a rebuild cost, beside kawipiko's archiver
  load      what an answer costs, beside the bare loops and other servers
  machine   what this machine is, as a run's data notes it
  scale     what an archive of a million files takes, and how soon it answers";

/// Runs the bench that `arguments` name.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["build", rest @ ..] => build::run(rest),
        ["load", rest @ ..] => load::run(rest),
        ["scale", rest @ ..] => scale::run(rest),
        ["machine"] => {
            println!("{:#}", machine::facts()?);
            Ok(())
        }
        _ => bail!("{USAGE}"),
    }
}

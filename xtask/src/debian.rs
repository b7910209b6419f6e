//! Programs of other projects that tests and benches run, and how to get them.
//!
//! What is there is used; what is missing is installed when we are root, and else named together
//! with the command that installs it.

use crate::process;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// One thing that must be on the machine.
pub(crate) struct Need {
    pub(crate) package: &'static str,
    pub(crate) proof: Proof,
}

/// What shows that a package is there.
pub(crate) enum Proof {
    /// It can be found and run.
    Program(&'static str),
    /// It is there.
    File(&'static str),
    /// Python can import it.
    Module(&'static str),
}

/// Sees to it that all of `needs` are there.
pub(crate) fn install(needs: &[Need]) -> Result<()> {
    let missing = missing(needs);
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() || process::find("apt-get").is_none() {
        bail!("missing: {0}\n  on Debian: sudo apt-get install {0}", missing.join(" "));
    }
    println!("  installing {}", missing.join(" "));
    process::output(Command::new("apt-get").arg("update"))?;
    process::output(
        Command::new("apt-get")
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&missing)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )?;
    Ok(())
}

/// The packages whose proof is not on this machine.
fn missing(needs: &[Need]) -> Vec<&'static str> {
    let absent = |need: &&Need| match need.proof {
        Proof::Program(name) => process::find(name).is_none(),
        Proof::File(path) => !Path::new(path).exists(),
        Proof::Module(name) => {
            process::output(Command::new("python3").args(["-c", &format!("import {name}")]))
                .is_err()
        }
    };
    needs.iter().filter(absent).map(|need| need.package).collect()
}

fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_named() {
        let needs = [
            Need { package: "coreutils", proof: Proof::Program("env") },
            Need { package: "no-such-package", proof: Proof::Program("no-such-program") },
            Need { package: "no-such-docs", proof: Proof::File("/no/such/file") },
            Need { package: "no-such-module", proof: Proof::Module("no_such_module") },
        ];
        assert_eq!(missing(&needs), ["no-such-package", "no-such-docs", "no-such-module"]);
    }
}

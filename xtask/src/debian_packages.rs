//! Programs of other projects that tests and benchmarks run, and their installation.
//!
//! Existing programs are used; missing ones are installed if the user is root, and otherwise
//! reported with the command that installs them.

use crate::process;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// A requirement of the machine.
pub(crate) struct Need {
    pub(crate) package: &'static str,
    pub(crate) proof: Proof,
}

/// The evidence that a package is installed.
pub(crate) enum Proof {
    /// The program can be found and run.
    Program(&'static str),
    /// The file exists.
    File(&'static str),
    /// Python can import the module.
    Module(&'static str),
}

/// Installs the missing ones of `needs`.
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

/// Returns the packages whose evidence is missing on this machine.
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
    fn only_missing_packages_are_listed() {
        let needs = [
            Need { package: "coreutils", proof: Proof::Program("env") },
            Need { package: "no-such-package", proof: Proof::Program("no-such-program") },
            Need { package: "no-such-docs", proof: Proof::File("/no/such/file") },
            Need { package: "no-such-module", proof: Proof::Module("no_such_module") },
        ];
        assert_eq!(missing(&needs), ["no-such-package", "no-such-docs", "no-such-module"]);
    }
}

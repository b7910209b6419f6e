//! The versions of the servers that are compared, and their names in tables.

use super::compared_servers::{Program, Workshop};
use crate::bench::peers::{Peer, version};
use std::collections::BTreeMap;

/// Every server of another project that a report names with its version.
const NAMED: &[Program] = &[
    Program::Caddy,
    Program::Nginx,
    Program::H2o,
    Program::Lighttpd,
    Program::Kawipiko,
    Program::CurrentCaddy,
    Program::CurrentNginx,
    Program::CurrentH2o,
    Program::CurrentHaproxy,
    Program::CurrentLighttpd,
];

impl Program {
    /// Returns the argument that makes it print its version; `None` if it has no such argument.
    fn version_flag(self) -> Option<&'static str> {
        match self {
            Self::BareEpoll | Self::BareUring | Self::Eighties => None,
            Self::Caddy => Some("version"),
            Self::H2o | Self::Lighttpd => Some("-v"),
            Self::Nginx => Some("-V"),
            Self::Kawipiko | Self::PinionEpoll | Self::PinionUring => Some("--version"),
            _ => self.peer().map(Peer::version_flag),
        }
    }
}

impl Workshop {
    /// Returns the version that it prints, in one line; `None` if it is not installed.
    fn version(&self, program: Program) -> Option<String> {
        let printed = version::printed(&self.find(program)?, program.version_flag()?)?;
        Some(version::summary(&printed).unwrap_or_else(|| "unknown".to_owned()))
    }

    /// Returns each server of another project, and Pinion, with its version for a report.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&'static str, String)> {
        [&Program::PinionEpoll].into_iter().chain(NAMED).map(|&program| {
            let version = self.version(program);
            (program.name(), version.unwrap_or_else(|| "not installed".to_owned()))
        })
    }

    /// Returns whether any current release is installed.
    pub(crate) fn has_current_peers(&self) -> bool {
        NAMED.iter().any(|program| program.peer().is_some() && self.labels.contains_key(program))
    }

    /// Returns the name of a server in a table. The name of a server of another project contains
    /// its version, so that two releases are distinguishable.
    pub(crate) fn label(&self, program: Program) -> String {
        self.labels.get(&program).cloned().unwrap_or_else(|| program.name().to_owned())
    }

    /// Returns the labels of installed servers of other projects.
    pub(super) fn find_labels(&self) -> BTreeMap<Program, String> {
        let mut labels = BTreeMap::new();
        for &program in NAMED {
            let Some(version) = self.version(program) else { continue };
            let Some(number) = version::number(&version) else { continue };
            let server = program.peer().map_or(program.name(), Peer::name);
            let mut label = format!("{server} {number}");
            // On a system that is as new as the current releases, both are of one version.
            if labels.values().any(|other| *other == label) {
                label = format!("current {label}");
            }
            labels.insert(program, label);
        }
        labels
    }
}

//! Certificates that all servers of a comparison have, made anew for each run by openssl.

use crate::process;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What kind of key a certificate has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    P256,
    Rsa2048,
}

/// The files of a certificate that signs itself.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Key {
    /// Where [`make`] has put them.
    pub(crate) fn pair(self, state: &Path) -> Pair {
        let name = match self {
            Self::P256 => "p256",
            Self::Rsa2048 => "rsa2048",
        };
        let file = |ending: &str| state.join(format!("{name}.{ending}"));
        Pair { certificate: file("crt"), key: file("key") }
    }
}

/// Makes both below `state`.
pub(crate) fn make(state: &Path) -> Result<()> {
    let kinds: [(Key, &[&str]); 2] = [
        (Key::P256, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]),
        (Key::Rsa2048, &["-newkey", "rsa:2048"]),
    ];
    for (key, kind) in kinds {
        let pair = key.pair(state);
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-noenc", "-days", "30", "-subj", "/CN=localhost"]);
        command.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]).args(kind);
        // Attackers look at what they are given, and take no authority for a server.
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-keyout").arg(pair.key).arg("-out").arg(pair.certificate);
        process::output(&mut command)?;
    }
    Ok(())
}

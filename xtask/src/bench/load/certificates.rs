//! Certificates for all servers of a comparison, created for each run by openssl.

use crate::process;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kind of the key of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    P256,
    Rsa2048,
}

/// The files of a self-signed certificate.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Key {
    /// Returns the files that [`make`] has created.
    pub(crate) fn pair(self, state: &Path) -> Pair {
        let name = match self {
            Self::P256 => "p256",
            Self::Rsa2048 => "rsa2048",
        };
        let file = |ending: &str| state.join(format!("{name}.{ending}"));
        Pair { certificate: file("crt"), key: file("key") }
    }
}

/// Creates both kinds below `state`.
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
        // The attackers verify certificates, and do not accept that of an authority for a server.
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-keyout").arg(pair.key).arg("-out").arg(pair.certificate);
        process::output(&mut command)?;
    }
    Ok(())
}

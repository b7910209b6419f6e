//! `pinion version`: which build of the program this is, and what it is made of.

mod components;

use crate::failure::Failure;
use pinion_archive::layout::FORMAT_VERSION;
use std::io::Write as _;

/// Writes the version or the list of components, for people or as JSON.
pub(crate) fn run(sbom: bool, json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if sbom {
        return components::write(json, &mut out);
    }
    let version = env!("CARGO_PKG_VERSION");
    let system = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    if json {
        let value = serde_json::json!({
            "version": version,
            "archive_format": FORMAT_VERSION,
            "system": system,
        });
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "pinion {version}, archive format {FORMAT_VERSION}, {system}")?;
    }
    Ok(())
}

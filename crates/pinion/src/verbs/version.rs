//! `pinion version`: which build of the program this is, and its components.

mod components;

use crate::failure::Failure;
use pinion_archive::layout::FORMAT_VERSION;
use std::io::Write as _;

/// The git commit of the sources that a package was made of. Only `cargo xtask dist` sets it: a
/// program that is built during development is of no commit.
const COMMIT: Option<&str> = option_env!("PINION_BUILD_COMMIT");

/// The compiler of that package.
const COMPILER: Option<&str> = option_env!("PINION_BUILD_COMPILER");

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
            "commit": COMMIT,
            "compiler": COMPILER,
            "system": system,
        });
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "pinion {version}, archive format {FORMAT_VERSION}, {system}")?;
        if let Some(commit) = COMMIT {
            writeln!(out, "made of {commit}")?;
        }
        if let Some(compiler) = COMPILER {
            writeln!(out, "compiled by {compiler}")?;
        }
    }
    Ok(())
}

//! `cargo xtask sbom`: the list of the components of the program, for `pinion version --sbom`.
//!
//! The list is part of the source tree and of the program, so that a build needs nothing but
//! itself. A test here fails when `Cargo.lock` has changed and the list has not.

use crate::program_components::{Component, Key, Program};
use crate::workspace_paths;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Writes the list.
pub(crate) fn run() -> Result<()> {
    let path = path();
    fs::write(&path, text()?).with_context(|| path.display().to_string())?;
    println!("wrote {}", path.display());
    Ok(())
}

/// Checks that the list in the tree is current.
pub(crate) fn check() -> Result<()> {
    ensure!(fs::read_to_string(path()).context(FILE)? == text()?, "it differs from Cargo.lock");
    Ok(())
}

/// The list, relative to the root.
pub(crate) const FILE: &str = "crates/pinion/src/verbs/version/pinion.cdx.json";

/// Returns the path of the list.
pub(crate) fn path() -> PathBuf {
    workspace_paths::root().join(FILE)
}

fn text() -> Result<String> {
    let mut text = serde_json::to_string_pretty(&document(&Program::read()?)?)?;
    text.push('\n');
    Ok(text)
}

/// Returns a CycloneDX 1.6 document. It has neither a time nor a number of its own: the same lock
/// file results in the same bytes.
fn document(program: &Program) -> Result<Value> {
    let mut components: Vec<Value> =
        program.components.iter().map(|(key, component)| described(key, component)).collect();
    let mut dependencies = vec![json!({"ref": "pinion", "dependsOn": references(&program.needs)})];
    for (key, component) in &program.components {
        dependencies.push(json!({"ref": purl(key), "dependsOn": references(&component.needs)}));
    }
    for (bundled, inside, version) in program.bundled()? {
        let reference = format!("pkg:generic/{}@{version}", bundled.name);
        components.push(json!({
            "type": "library",
            "bom-ref": reference,
            "name": bundled.name,
            "version": version,
            "description": format!("C library, from the sources of {}", bundled.inside),
            "scope": "required",
            "licenses": [{"expression": bundled.licence}],
            "purl": reference,
        }));
        let brings = dependencies.iter_mut().find(|one| one["ref"] == purl(inside));
        let brings = brings.and_then(|one| one["dependsOn"].as_array_mut());
        brings.context("a crate that is listed")?.push(reference.clone().into());
        dependencies.push(json!({"ref": reference, "dependsOn": []}));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "pre-build"}],
            "component": {
                "type": "application",
                "bom-ref": "pinion",
                "name": "pinion",
                "version": program.version,
                "licenses": [{"expression": program.licence}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn described(key: &Key, component: &Component) -> Value {
    json!({
        "type": "library",
        "bom-ref": purl(key),
        "name": key.0,
        "version": key.1,
        "scope": if component.is_linked { "required" } else { "excluded" },
        "hashes": [{"alg": "SHA-256", "content": component.checksum}],
        "licenses": [{"expression": component.licence}],
        "purl": purl(key),
    })
}

fn references(keys: &BTreeSet<Key>) -> Vec<String> {
    keys.iter().map(purl).collect()
}

/// Returns the package URL. A `+` would be a space to those who decode it as a form.
fn purl((name, version): &Key) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_sbom_matches_the_lock_file() {
        check().expect("a current list; to renew it: cargo xtask gen");
    }
}

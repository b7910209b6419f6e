//! `pinion version --sbom`: the list of the components of the program, read like a tool that
//! searches for components with known vulnerabilities.

use pinion_tests::binary::source_root;
use pinion_tests::external_programs::{python_program, stdout};
use pinion_tests::server::run;
use pinion_tests::temporary_folder::Folder;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// The script that validates the list; its head describes how.
const VALIDATE_SBOM: &str = include_str!("../../src/validate_sbom.py");

fn document() -> Value {
    let listed = run(&["version", "--sbom", "--json"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&listed.stdout).expect("one JSON document")
}

fn components(document: &Value) -> &[Value] {
    document["components"].as_array().expect("components")
}

#[test]
fn the_document_follows_cyclonedx() {
    let folder = Folder::with("sbom", [("pinion.cdx.json", document().to_string().as_str())]);
    let mut python = python_program("python3");
    python.args(["-c", VALIDATE_SBOM]).arg(folder.join("pinion.cdx.json"));
    assert_eq!(String::from_utf8_lossy(&stdout(&mut python)), "");
}

#[test]
fn every_crate_has_the_version_and_checksum_of_the_lock_file() {
    let lock = fs::read_to_string(source_root().join("Cargo.lock")).expect("the lock file");
    let document = document();
    for component in components(&document) {
        if component["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:generic/")) {
            continue;
        }
        let (name, version) = (&component["name"], &component["version"]);
        let package = format!("[[package]]\nname = {name}\nversion = {version}\n");
        let found = lock.split_once(&package).unwrap_or_else(|| panic!("{name} {version}")).1;
        let checksum = format!("\nchecksum = {}\n", component["hashes"][0]["content"]);
        assert!(found.split("[[").next().is_some_and(|own| own.contains(&checksum)), "{name}");
    }
    // Some components that every build has, and some that only tests or tools use.
    let names: BTreeSet<&str> =
        components(&document).iter().filter_map(|component| component["name"].as_str()).collect();
    for (name, is_listed) in [
        ("rustix", true),
        ("zstd-sys", true),
        ("zstd", true),
        ("libdeflate", true),
        ("cc", true),
        ("proptest", false),
        ("vt100", false),
        ("pinion-http", false),
    ] {
        assert_eq!(names.contains(name), is_listed, "{name}");
    }
}

#[test]
fn the_listed_components_are_those_reachable_by_dependencies() {
    let document = document();
    let listed: BTreeSet<&str> = components(&document)
        .iter()
        .filter_map(|component| component["bom-ref"].as_str())
        .collect();
    let mut reached = BTreeSet::new();
    let mut open = vec!["pinion"];
    while let Some(reference) = open.pop() {
        let mut entries = document["dependencies"].as_array().expect("dependencies").iter();
        let entry = entries.find(|entry| entry["ref"] == reference).expect("an entry for each");
        let needs = entry["dependsOn"].as_array().expect("needs").iter().filter_map(Value::as_str);
        open.extend(needs.filter(|need| reached.insert(*need)));
    }
    assert_eq!(reached, listed);
}

#[test]
fn the_table_has_a_line_for_each_component() {
    let table = run(&["version", "--sbom"]).stdout;
    let document = document();
    let lines: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(lines.len(), components(&document).len());
    for (line, component) in lines.iter().zip(components(&document)) {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), component["name"].as_str());
        assert_eq!(words.next(), component["version"].as_str());
        let licence = component["licenses"][0]["expression"].as_str().expect("a licence");
        assert!(line.contains(licence), "{line}");
        let is_tool = component["scope"] == "excluded";
        assert_eq!(line.ends_with("  for the build alone"), is_tool, "{line}");
    }
}

//! The components of the program: every crate that is linked into it or takes part in its build,
//! and the C libraries that some of them contain.
//!
//! `cargo tree` lists those crates, because only it resolves features as a build does; `cargo
//! metadata` has the folder and the licence of each, `Cargo.lock` has the checksums.

use crate::{process, workspace_paths};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The targets of the packages. The list is the union of their components.
const SYSTEMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Name and version, because a crate may be present in several versions.
pub(crate) type Key = (String, String);

/// One crate of another project.
#[derive(Debug)]
pub(crate) struct Component {
    /// An SPDX expression.
    pub(crate) licence: String,
    /// SHA-256 of the package, in hexadecimal digits.
    pub(crate) checksum: String,
    /// Its sources.
    pub(crate) folder: PathBuf,
    /// Whether the crate, or its library, is part of the program; otherwise it only takes part in
    /// the build.
    pub(crate) is_linked: bool,
    /// The crates on which it depends.
    pub(crate) needs: BTreeSet<Key>,
}

/// The program and its components.
#[derive(Debug)]
pub(crate) struct Program {
    /// The version of the workspace.
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) licence: String,
    /// The crates of other projects on which its own crates depend.
    pub(crate) needs: BTreeSet<Key>,
    /// All direct and indirect dependencies.
    pub(crate) components: BTreeMap<Key, Component>,
}

/// A C library that comes with the sources of a crate and is linked with it.
#[derive(Debug)]
pub(crate) struct Bundled {
    /// The crate.
    pub(crate) inside: &'static str,
    /// The name of the library.
    pub(crate) name: &'static str,
    /// An SPDX expression.
    pub(crate) licence: &'static str,
    /// The path of its own licence text, below the folder of the crate.
    pub(crate) licence_file: &'static str,
    /// The file of the crate that has the version of the library.
    header: &'static str,
    version: Version,
}

/// The form of a version in a file.
#[derive(Debug)]
enum Version {
    /// By macros, the first part first.
    Macros(&'static [&'static str]),
    /// By the last part only, which follows this text.
    Behind(&'static str),
}

/// All such libraries.
pub(crate) const BUNDLED: [Bundled; 4] = [
    Bundled {
        inside: "aws-lc-sys",
        name: "aws-lc",
        licence: "(Apache-2.0 OR ISC) AND Apache-2.0 AND BSD-3-Clause AND ISC AND MIT",
        licence_file: "aws-lc/LICENSE",
        header: "aws-lc/include/openssl/base.h",
        version: Version::Macros(&["AWSLC_VERSION_NUMBER_STRING"]),
    },
    Bundled {
        inside: "libdeflate-sys",
        name: "libdeflate",
        licence: "MIT",
        licence_file: "libdeflate/COPYING",
        header: "libdeflate/libdeflate.h",
        version: Version::Macros(&["LIBDEFLATE_VERSION_STRING"]),
    },
    Bundled {
        // This crate only has the sources: mlua-sys compiles and links them.
        inside: "luajit-src",
        name: "luajit",
        licence: "MIT",
        licence_file: "luajit2/COPYRIGHT",
        header: "luajit_relver.txt",
        version: Version::Behind("2.1."),
    },
    Bundled {
        inside: "zstd-sys",
        name: "zstd",
        // The library is also available under GPL-2.0; this is the chosen licence.
        licence: "BSD-3-Clause",
        licence_file: "zstd/LICENSE",
        header: "zstd/lib/zstd.h",
        version: Version::Macros(&[
            "ZSTD_VERSION_MAJOR",
            "ZSTD_VERSION_MINOR",
            "ZSTD_VERSION_RELEASE",
        ]),
    },
];

/// Crates with C or assembler code that is their own, or that is never compiled.
const OWN_C: [&str; 3] = [
    "blake3",              // its own, by the same authors
    "brotli-decompressor", // an example of its use from C
    "walkdir",             // an example to compare it with
];

impl Bundled {
    /// Returns the version of the library from its header.
    pub(crate) fn version(&self, sources: &Path) -> Result<String> {
        let path = sources.join(self.header);
        let header = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let names = match self.version {
            Version::Macros(names) => names,
            Version::Behind(front) => return Ok(format!("{front}{}", header.trim())),
        };
        let parts: Option<Vec<&str>> = names.iter().map(|name| value(&header, name)).collect();
        Ok(parts.with_context(|| format!("no version in {}", path.display()))?.join("."))
    }
}

/// Returns whether a crate has a C library that is linked.
fn brings_library((name, _): &Key) -> bool {
    BUNDLED.iter().any(|bundled| bundled.inside == name)
}

/// Returns the value of a macro in a header.
fn value<'h>(header: &'h str, name: &str) -> Option<&'h str> {
    let words = header.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = words.into_iter().find_map(|words| match words.as_slice() {
        ["#define", macro_name, value, ..] if *macro_name == name => Some(*value),
        _ => None,
    });
    found.map(|value| value.trim_matches('"'))
}

impl Program {
    /// Reads the components that `Cargo.lock` has now.
    pub(crate) fn read() -> Result<Self> {
        let metadata = process::output(&mut process::cargo(&[
            "metadata",
            "--locked",
            "--format-version",
            "1",
        ]))?;
        let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
        let lock = workspace_paths::root().join("Cargo.lock");
        let lock = fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
        let linked = edges(&tree("normal,no-proc-macro")?)?;
        let all = edges(&tree("normal,build")?)?;
        Self::of(&metadata, &checksums(&lock), &linked, all)
    }

    fn of(
        metadata: &Value,
        checksums: &BTreeMap<Key, String>,
        linked: &Edges,
        all: Edges,
    ) -> Result<Self> {
        let packages = metadata["packages"].as_array().context("cargo metadata: no packages")?;
        let packages: BTreeMap<Key, &Value> = packages
            .iter()
            .map(|package| ((text(package, "name"), text(package, "version")), package))
            .collect();
        let is_own =
            |key: &Key| packages.get(key).is_some_and(|package| package["source"].is_null());
        let mut needs = BTreeSet::new();
        let mut components = BTreeMap::new();
        for (key, its_needs) in all {
            let others = its_needs.into_iter().filter(|need| !is_own(need));
            if is_own(&key) {
                needs.extend(others);
                continue;
            }
            let of = || format!("{} {}", key.0, key.1);
            let package = packages.get(&key).with_context(of)?;
            let manifest = PathBuf::from(text(package, "manifest_path"));
            let component = Component {
                licence: expression(&text(package, "license")),
                checksum: checksums.get(&key).with_context(of)?.clone(),
                folder: manifest.parent().with_context(of)?.to_owned(),
                is_linked: linked.contains_key(&key) || brings_library(&key),
                needs: others.collect(),
            };
            ensure!(!component.licence.is_empty(), "{} has no licence", of());
            components.insert(key, component);
        }
        let program = packages.iter().find(|((name, _), _)| name == "pinion");
        let ((_, version), program) = program.context("no package pinion")?;
        let (version, licence) = (version.clone(), text(program, "license"));
        Ok(Self { version, licence, needs, components })
    }

    /// Returns the C libraries, each with its crate and its version. Fails if a crate has C code
    /// that is not in the tables.
    pub(crate) fn bundled(&self) -> Result<Vec<(&'static Bundled, &Key, String)>> {
        let mut found = Vec::new();
        for (key, component) in self.components.iter().filter(|(_, one)| one.is_linked) {
            match BUNDLED.iter().find(|bundled| bundled.inside == key.0) {
                Some(bundled) => found.push((bundled, key, bundled.version(&component.folder)?)),
                None if OWN_C.contains(&key.0.as_str()) || !has_c(&component.folder)? => {}
                None => bail!("{} has C in it; say in {} whose", key.0, file!()),
            }
        }
        Ok(found)
    }
}

fn has_c(folder: &Path) -> Result<bool> {
    let is_c = |path: &String| [".c", ".cc", ".cpp", ".S"].iter().any(|end| path.ends_with(end));
    Ok(workspace_paths::files(folder)?.iter().any(is_c))
}

/// The dependencies of each crate.
type Edges = BTreeMap<Key, BTreeSet<Key>>;

/// Returns the dependency tree of the program, one crate on each line, after its depth.
fn tree(edges: &str) -> Result<String> {
    let mut command = process::cargo(&["tree", "--locked", "--package", "pinion"]);
    command.args(["--edges", edges, "--prefix", "depth", "--format", " {p}"]);
    for system in SYSTEMS {
        command.args(["--target", system]);
    }
    process::output(&mut command)
}

/// Parses lines such as `2 serde_core v1.0.229 (*)`. The lines below with a depth greater by one
/// are the dependencies of a crate; a star means that they were listed before. There is an empty
/// line between two targets.
fn edges(tree: &str) -> Result<Edges> {
    let mut edges = Edges::new();
    let mut above: Vec<Key> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let (Some(depth), Some(name), Some(version)) = (words.next(), words.next(), words.next())
        else {
            bail!("cargo tree: {line:?}");
        };
        let depth: usize = depth.parse().with_context(|| format!("cargo tree: {line:?}"))?;
        let key = (name.to_owned(), version.trim_start_matches('v').to_owned());
        above.truncate(depth);
        if let Some(parent) = above.last() {
            edges.entry(parent.clone()).or_default().insert(key.clone());
        }
        edges.entry(key.clone()).or_default();
        above.push(key);
    }
    Ok(edges)
}

/// Returns the checksums of a lock file, which cargo always writes in the same form.
fn checksums(lock: &str) -> BTreeMap<Key, String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |name: &str| {
            let prefix = format!("{name} = \"");
            let line = package.lines().find_map(|line| line.strip_prefix(prefix.as_str()))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) =
            (value("name"), value("version"), value("checksum"))
        {
            found.insert((name, version), sum);
        }
    }
    found
}

/// Returns a licence as an SPDX expression; older crates have a slash for "or".
fn expression(licence: &str) -> String {
    licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(name: &str, version: &str) -> Key {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn repeated_entries_of_a_cargo_tree_are_resolved() {
        let tree = "0 pinion v0.1.0 (/x/pinion)\n1 own v0.1.0 (/x/own)\n\
                    2 a v1.0.0\n3 b v2.0.0+c.1\n1 a v1.0.0 (*)\n\
                    1 derive v1.0.0 (proc-macro)\n\n0 pinion v0.1.0\n";
        let edges = edges(tree).unwrap();
        assert_eq!(edges.len(), 5);
        assert_eq!(edges[&key("a", "1.0.0")], BTreeSet::from([key("b", "2.0.0+c.1")]));
        assert_eq!(edges[&key("pinion", "0.1.0")].len(), 3);
        assert!(edges[&key("derive", "1.0.0")].is_empty());
        assert!(super::edges("pinion v0.1.0\n").is_err());
    }

    #[test]
    fn workspace_crates_are_merged_into_the_program() {
        let package = |name: &str, source: Value| {
            json!({"name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                   "source": source, "manifest_path": format!("/r/{name}/Cargo.toml")})
        };
        let packages = [
            package("pinion", Value::Null),
            package("own", Value::Null),
            package("a", json!("registry")),
            package("cc", json!("registry")),
        ];
        let tree = "0 pinion v1.0.0\n1 own v1.0.0\n2 a v1.0.0\n";
        let sums = checksums(
            "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"aa\"\n\n\
             [[package]]\nname = \"own\"\nversion = \"1.0.0\"\n\n\
             [[package]]\nname = \"cc\"\nversion = \"1.0.0\"\nchecksum = \"cc\"\n",
        );
        let all = edges(&format!("{tree}3 cc v1.0.0\n")).unwrap();
        let program =
            Program::of(&json!({"packages": packages}), &sums, &edges(tree).unwrap(), all).unwrap();
        assert_eq!(program.needs, BTreeSet::from([key("a", "1.0.0")]));
        assert_eq!(program.components.len(), 2);
        let a = &program.components[&key("a", "1.0.0")];
        assert_eq!((a.licence.as_str(), a.checksum.as_str()), ("MIT OR Apache-2.0", "aa"));
        assert_eq!((a.is_linked, a.needs.len()), (true, 1));
        assert!(!program.components[&key("cc", "1.0.0")].is_linked);
    }

    #[test]
    fn versions_are_read_from_c_headers() {
        let header = "#define  V_MAJOR    1\n#define V_STRING\t\"1.26\"\n#define V_MAJOR_OF 2\n";
        assert_eq!(value(header, "V_MAJOR"), Some("1"));
        assert_eq!(value(header, "V_STRING"), Some("1.26"));
        assert_eq!(value(header, "V"), None);
    }
}

//! The licence texts of everything that is linked into the program, as their authors wrote them.

use super::package::Package;
use crate::program_components::{BUNDLED, Component, Key, Program};
use crate::{process, workspace_paths};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The first letters of the names of such files, in capitals.
const NAMES: [&str; 6] = ["COPYING", "COPYRIGHT", "LICENCE", "LICENSE", "NOTICE", "UNLICENSE"];

/// Extensions of files that are no licences, whatever their names.
const OTHERS: [&str; 5] = [".c", ".h", ".json", ".rs", ".toml"];

/// Folders of files that are not linked.
const UNUSED: [&str; 4] = ["benches/", "examples/", "fuzz/", "tests/"];

/// Crates that come without a text, and the crate of the same authors from the same repository that
/// has it.
const TEXT_OF: [(&str, &str); 2] = [("alloc-stdlib", "alloc-no-stdlib"), ("mlua-sys", "mlua")];

/// The licence of the GNU C library, at its path in Debian.
const C_LIBRARY: &str = "/usr/share/doc/libc6-dev/copyright";

/// Texts, each with the components to which it applies.
type Texts = BTreeMap<String, BTreeSet<String>>;

/// Adds all of them to a package.
pub(super) fn write(
    package: &Package,
    folder: &str,
    parts: &Program,
    is_static: bool,
) -> Result<()> {
    let text = third_party(parts)?;
    package.file(&format!("{folder}/THIRD-PARTY-LICENSES"), text.as_bytes())?;
    // The standard library is part of every program; the compiler is distributed with its licences.
    let root = process::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let standard = PathBuf::from(root.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    let standard = fs::read(&standard).with_context(|| standard.display().to_string())?;
    package.file(&format!("{folder}/RUST-LIBRARY-LICENSES.html"), &standard)?;
    if is_static {
        let c_library = fs::read(C_LIBRARY).context(C_LIBRARY)?;
        package.file(&format!("{folder}/C-LIBRARY-LICENSES"), &c_library)?;
    }
    Ok(())
}

fn third_party(parts: &Program) -> Result<String> {
    let linked: Vec<(&Key, &Component)> =
        parts.components.iter().filter(|(_, component)| component.is_linked).collect();
    let mut texts = Texts::new();
    let mut list = String::new();
    for (key, component) in &linked {
        let name = format!("{} {}", key.0, key.1);
        writeln!(list, "    {name}: {}", component.licence)?;
        let mut from = *component;
        if let Some((_, other)) = TEXT_OF.iter().find(|(crate_name, _)| *crate_name == key.0) {
            let other = linked.iter().find(|(key, _)| key.0 == *other);
            from = other.with_context(|| format!("whose text has {name}?"))?.1;
        }
        let found = files(from, &key.0)?;
        ensure!(!found.is_empty(), "{name} has no text of its licence; say in {} whose", file!());
        for path in found {
            let bytes = fs::read(from.folder.join(&path)).with_context(|| path.clone())?;
            add(&mut texts, &bytes, &name);
        }
    }
    for (bundled, inside, version) in parts.bundled()? {
        writeln!(list, "    {} {version} in {}: {}", bundled.name, inside.0, bundled.licence)?;
    }
    Ok(document(&list, &texts))
}

fn add(texts: &mut Texts, bytes: &[u8], owner: &str) {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    texts.entry(text.trim_matches('\n').to_owned()).or_default().insert(owner.to_owned());
}

/// Returns the files of a crate that are texts of licences.
fn files(component: &Component, name: &str) -> Result<Vec<String>> {
    let bundled = BUNDLED.iter().find(|bundled| bundled.inside == name);
    let is_ours = |path: &String| match bundled {
        // A library may offer a choice of several licences; the table has the chosen one.
        Some(bundled) => !path.contains('/') || path == bundled.licence_file,
        None => true,
    };
    let found = workspace_paths::files(&component.folder)?;
    Ok(found.into_iter().filter(|path| is_text(path) && is_ours(path)).collect())
}

fn is_text(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_uppercase();
    NAMES.iter().any(|begin| name.starts_with(begin))
        && !OTHERS.iter().any(|end| path.ends_with(end))
        && !UNUSED.iter().any(|folder| path.starts_with(folder))
}

fn document(list: &str, texts: &Texts) -> String {
    let line = "=".repeat(80);
    let mut document = format!(
        "Pinion has these works of other people in it, each under a licence of its own. The texts\n\
         of the licences follow. What is behind an \"OR\" is a choice.\n\n{list}"
    );
    let mut sorted: Vec<_> = texts.iter().collect();
    sorted.sort_by_key(|(text, owners)| (*owners, *text));
    for (text, owners) in sorted {
        let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
        document += &format!("\n{line}\n{}\n{line}\n\n{text}\n", owners.join("\n"));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_files_are_recognized_by_name() {
        for path in ["LICENSE", "LICENSE-MIT", "license.txt", "COPYING", "src/x/LICENSE-UNICODE"] {
            assert!(is_text(path), "{path}");
        }
        for path in ["src/license.rs", "README.md", "tests/data/LICENSE", "src/copying.c"] {
            assert!(!is_text(path), "{path}");
        }
    }

    #[test]
    fn each_licence_text_appears_once_with_its_owners() {
        let mut texts = Texts::new();
        add(&mut texts, b"\nBe kind.\r\n", "b 2.0");
        add(&mut texts, b"Be kind.\n\n", "a 1.0");
        add(&mut texts, b"Be quick.", "a 1.0");
        let document = document("    a 1.0: X\n", &texts);
        assert_eq!(document.matches("Be kind.").count(), 1);
        assert!(document.contains("\na 1.0\nb 2.0\n=="), "{document}");
        let place = |text: &str| document.find(text).expect("a text");
        assert!(place("    a 1.0: X") < place("Be quick.") && place("Be quick.") < place("kind"));
    }

    #[test]
    fn every_linked_component_has_a_licence_text() {
        let text = third_party(&Program::read().expect("cargo knows")).expect("texts");
        for word in [
            "    rustix ",
            "    zstd 1",
            "    luajit 2.1.",
            "Meta Platforms",
            "Mike Pall",
            "UNICODE",
        ] {
            assert!(text.contains(word), "{word}");
        }
        // The text has neither crates that are only used by the build, nor the licence that was not
        // chosen.
        assert!(!text.contains("    syn ") && !text.contains("GNU GENERAL PUBLIC LICENSE"));
    }
}

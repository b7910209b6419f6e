//! Every Rust file is part of something that gets built.

use super::Rule;
use super::project::{File, Finding, Project};
use super::rust_source::Source;
use std::collections::BTreeSet;

pub(super) const ORPHANS: Rule = Rule { name: "orphans", check: orphans, canary: orphan };

fn orphans(project: &Project) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let roots = project.packages.iter().flat_map(|package| &package.roots);
    let mut open: Vec<(String, String)> =
        roots.map(|root| (root.clone(), folder(root).to_owned())).collect();
    while let Some((path, modules)) = open.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        let Some(file) = project.file(&path) else { continue };
        let Some(source) = &file.rust else { continue };
        for (child, its_modules) in children(project, file, source, &modules) {
            open.push((child, its_modules));
        }
    }
    let packaged = |path: &str| {
        !project.packages.is_empty()
            && ["crates/", "tests/", "xtask/", "fuzz/"].iter().any(|top| path.starts_with(top))
    };
    project
        .rust()
        .filter(|(file, _)| packaged(&file.path) && !reached.contains(&file.path))
        .map(|(file, _)| Finding::new(file, 0, "no module leads here"))
        .collect()
}

/// Returns the files that `file` pulls in, each with the folder its own modules are in.
fn children(
    project: &Project,
    file: &File,
    source: &Source,
    modules: &str,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let here = folder(&file.path);
    for at in source.words("mod") {
        let rest = source.code[at + "mod".len()..].trim_start();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if !after.trim_start().starts_with(';') {
            continue;
        }
        let inside =
            enclosing(source, at).iter().fold(modules.to_owned(), |at, name| join(&at, name));
        if let Some(path) = path_attribute(file, source, at) {
            let path = join(here, path);
            found.push((path.clone(), folder(&path).to_owned()));
            continue;
        }
        let own = join(&inside, name);
        for path in [format!("{own}.rs"), format!("{own}/mod.rs")] {
            if project.file(&path).is_some() {
                found.push((path, own.clone()));
            }
        }
    }
    for (at, call) in source.code.match_indices("include!(") {
        let argument = file.text[at + call.len()..].trim_start();
        if let Some(path) = argument.strip_prefix('"').and_then(|text| text.split('"').next()) {
            found.push((join(here, path), here.to_owned()));
        }
    }
    found
}

/// Returns the path of a `#[path = "…"]` directly before the module at `at`.
fn path_attribute<'a>(file: &'a File, source: &Source, at: usize) -> Option<&'a str> {
    let start = source.code[..at].rfind([';', '}', '{']).map_or(0, |before| before + 1);
    let attribute = source.code[start..at].find("#[path")? + start;
    file.text[attribute..at].split('"').nth(1)
}

/// Names of the inline modules around an offset, outermost first.
fn enclosing(source: &Source, offset: usize) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, byte) in source.code.bytes().enumerate().take(offset) {
        match byte {
            b'{' => {
                let before = source.code[..at].trim_end();
                let mut words = before.rsplit(char::is_whitespace);
                let name = words.next().unwrap_or_default();
                names.push(if words.next() == Some("mod") { name } else { "" });
            }
            b'}' => drop(names.pop()),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Joins and resolves `..`.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn orphan() -> Project {
    let files = [
        ("docs/ARCHITECTURE.md", "| Layer | Crate | Holds | May import |\n| 1 | http | x | – |\n"),
        ("crates/http/src/lib.rs", "//! Map: `date`.\n#![forbid(unsafe_code)]\nmod date;\n"),
        ("crates/http/src/date.rs", ""),
        ("crates/http/src/forgotten.rs", ""),
    ];
    Project::of(&files).with_package("http", &[], &["crates/http/src/lib.rs"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_module_declaration_is_followed() {
        let root = "mod a;\npub mod b;\n#[cfg(test)]\nmod tests;\n\
                    #[path = \"odd/place.rs\"]\nmod c;\n\
                    mod inline { mod deep; }\nconst D: u8 = include!(\"table.rs\");\n";
        let project = Project::of(&[
            ("crates/x/src/lib.rs", root),
            ("crates/x/src/a.rs", "mod under;\n"),
            ("crates/x/src/a/under.rs", ""),
            ("crates/x/src/b/mod.rs", "mod under;\n"),
            ("crates/x/src/b/under.rs", ""),
            ("crates/x/src/tests.rs", ""),
            ("crates/x/src/odd/place.rs", "mod near;\n"),
            ("crates/x/src/odd/near.rs", ""),
            ("crates/x/src/inline/deep.rs", ""),
            ("crates/x/src/table.rs", "1"),
            ("bench/not-ours.rs", ""),
        ])
        .with_package("x", &[], &["crates/x/src/lib.rs"]);
        let said: Vec<_> = orphans(&project).iter().map(ToString::to_string).collect();
        assert_eq!(said, [""; 0]);
    }

    #[test]
    fn a_commented_out_module_declaration_is_ignored() {
        let project =
            Project::of(&[("crates/x/src/lib.rs", "// mod a;\n"), ("crates/x/src/a.rs", "")])
                .with_package("x", &[], &["crates/x/src/lib.rs"]);
        assert_eq!(orphans(&project).len(), 1);
    }
}

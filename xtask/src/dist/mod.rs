//! `cargo xtask dist [--static]`: builds an installable package, `target/packages/pinion-….tar.gz`.
//!
//! Its layout is that of an installation: unpacked into `/usr/local`, every file is at its place.
//! `--static` links the C library into the program, so that it runs without one, as in an otherwise
//! empty container image.
//!
//! `program` builds the program of a package, `licences` collects the licence texts of everything
//! that is linked into it, and `package` packs the folder into one file with reproducible bytes.

mod licences;
mod package;
mod program;

use crate::program_components::Program;
use crate::{process, sbom, workspace_paths};
use anyhow::{Context, Result, bail};
use package::Package;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask dist [--static]";

/// The path of the program.
const PROGRAM: &str = "bin/pinion";

/// The folder of documents.
const DOCUMENTS: &str = "share/doc/pinion";

/// Files of the source tree in every package, with their folders.
const FILES: [(&str, &str); 10] = [
    ("packaging/pinion.service", "lib/systemd/system"),
    ("packaging/pinion.socket", "lib/systemd/system"),
    ("packaging/pinion-apps.service", "lib/systemd/system"),
    ("packaging/pinion.logrotate", DOCUMENTS),
    ("packaging/Containerfile", DOCUMENTS),
    ("CHANGELOG.md", DOCUMENTS),
    ("LICENSE-APACHE", DOCUMENTS),
    ("LICENSE-MIT", DOCUMENTS),
    ("README.md", DOCUMENTS),
    ("SECURITY.md", DOCUMENTS),
];

/// The completions of shells, with their paths.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/pinion"),
    ("fish", "share/fish/vendor_completions.d/pinion.fish"),
    ("zsh", "share/zsh/site-functions/_pinion"),
];

/// Builds the package of the command line.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let is_static = match arguments {
        [] => false,
        ["--static"] => true,
        _ => bail!(USAGE),
    };
    make(is_static)?;
    Ok(())
}

/// Builds a package and returns the path of the program in it.
pub(crate) fn make(is_static: bool) -> Result<PathBuf> {
    let parts = Program::read()?;
    let host = program::host()?;
    let binary = program::build(&host, is_static, &parts)?;
    let machine = host.split('-').next().unwrap_or(&host);
    let kind = if is_static { "-static" } else { "" };
    let name = format!("pinion-{}-{machine}-linux{kind}", parts.version);
    let folder = folder();
    let package = Package::new(&folder, &name)?;
    fill(&package, &binary, &parts, is_static).with_context(|| name.clone())?;
    let packed = package.pack(package::time()?)?;
    package::sum_up(&folder)?;
    println!("wrote {}", packed.display());
    Ok(folder.join(name).join(PROGRAM))
}

/// Returns the digests of all packages.
pub(crate) fn sums() -> Result<Vec<u8>> {
    read(&folder().join(package::SUMS))
}

/// Returns the folder of packages.
fn folder() -> PathBuf {
    workspace_paths::target().join("packages")
}

fn fill(package: &Package, binary: &Path, parts: &Program, is_static: bool) -> Result<()> {
    package.program(PROGRAM, &read(binary)?)?;
    for (source, folder) in FILES {
        let name = source.rsplit('/').next().unwrap_or(source);
        package.file(&format!("{folder}/{name}"), &read(&workspace_paths::root().join(source))?)?;
    }
    let docs = workspace_paths::root().join("docs");
    for path in workspace_paths::files(&docs)? {
        package.file(&format!("{DOCUMENTS}/docs/{path}"), &read(&docs.join(&path))?)?;
    }
    for (page, section) in pages(&said(binary, &["man"])?) {
        let text = said(binary, &["man", page.strip_prefix("pinion-").unwrap_or(&page)])?;
        package.file(&format!("share/man/man{section}/{page}.{section}"), &text)?;
    }
    for (shell, path) in COMPLETIONS {
        package.file(path, &said(binary, &["completions", shell])?)?;
    }
    package.file(&format!("{DOCUMENTS}/pinion.cdx.json"), &read(&sbom::path())?)?;
    licences::write(package, DOCUMENTS, parts, is_static)
}

/// Returns all pages of the manual with their sections: that of the program, and those to which it
/// refers.
fn pages(program: &[u8]) -> Vec<(String, String)> {
    let page = String::from_utf8_lossy(program).replace("\\-", "-").replace("\\fR", "");
    let words = page.split([' ', '\n', ',']).map(|word| word.trim_start_matches("\\fB"));
    let named = words.filter_map(|word| {
        let (name, section) = word.strip_suffix(')')?.split_once('(')?;
        name.starts_with("pinion").then(|| (name.to_owned(), section.to_owned()))
    });
    [("pinion".to_owned(), "1".to_owned())].into_iter().chain(named).collect()
}

/// Returns the output of the program.
fn said(binary: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    Ok(process::output(Command::new(binary).args(arguments))?.into_bytes())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_manual_pages_are_found_in_the_main_page() {
        let page = ".SH \"SEE ALSO\"\n\\fBpinion\\-serve\\fR(1), \\fBpinion.toml\\fR(5)\n";
        let pages = pages(page.as_bytes());
        let names: Vec<String> = pages.iter().map(|(name, at)| format!("{name}.{at}")).collect();
        assert_eq!(names, ["pinion.1", "pinion-serve.1", "pinion.toml.5"]);
    }

    #[test]
    fn all_files_of_the_package_exist() {
        for (path, _) in FILES {
            assert!(workspace_paths::root().join(path).is_file(), "{path}");
        }
    }
}

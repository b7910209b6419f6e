//! `cargo xtask dist [--static]`: a package to install from, `target/packages/pinion-….tar.gz`.
//!
//! It is laid out as it is installed: unpacked into `/usr/local`, everything is where it belongs.
//! `--static` links the C library into the program, so that it runs where there is none, as in an
//! image of a container that is empty otherwise.

mod licences;
mod package;
mod program;

use crate::components::Program;
use crate::{process, sbom, workspace};
use anyhow::{Context, Result, bail};
use package::Package;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask dist [--static]";

/// Where the program is installed.
const PROGRAM: &str = "bin/pinion";

/// Where documents are installed.
const DOCUMENTS: &str = "share/doc/pinion";

/// Files of the tree that are in every package, and where.
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

/// What a shell completes with, and where it looks for that.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/pinion"),
    ("fish", "share/fish/vendor_completions.d/pinion.fish"),
    ("zsh", "share/zsh/site-functions/_pinion"),
];

/// Makes the package that the command line asks for.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let is_static = match arguments {
        [] => false,
        ["--static"] => true,
        _ => bail!(USAGE),
    };
    make(is_static)?;
    Ok(())
}

/// Makes a package and gives the program in it.
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

/// The digests of all packages that are there.
pub(crate) fn sums() -> Result<Vec<u8>> {
    read(&folder().join(package::SUMS))
}

/// Where packages are made.
fn folder() -> PathBuf {
    workspace::target().join("packages")
}

fn fill(package: &Package, binary: &Path, parts: &Program, is_static: bool) -> Result<()> {
    package.program(PROGRAM, &read(binary)?)?;
    for (source, folder) in FILES {
        let name = source.rsplit('/').next().unwrap_or(source);
        package.file(&format!("{folder}/{name}"), &read(&workspace::root().join(source))?)?;
    }
    let docs = workspace::root().join("docs");
    for path in workspace::files(&docs)? {
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

/// All pages of the manual with their sections: that of the program, and what it says to see also.
fn pages(program: &[u8]) -> Vec<(String, String)> {
    let page = String::from_utf8_lossy(program).replace("\\-", "-").replace("\\fR", "");
    let words = page.split([' ', '\n', ',']).map(|word| word.trim_start_matches("\\fB"));
    let named = words.filter_map(|word| {
        let (name, section) = word.strip_suffix(')')?.split_once('(')?;
        name.starts_with("pinion").then(|| (name.to_owned(), section.to_owned()))
    });
    [("pinion".to_owned(), "1".to_owned())].into_iter().chain(named).collect()
}

/// What the program writes.
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
    fn every_page_is_found_in_the_first() {
        let page = ".SH \"SEE ALSO\"\n\\fBpinion\\-serve\\fR(1), \\fBpinion.toml\\fR(5)\n";
        let pages = pages(page.as_bytes());
        let names: Vec<String> = pages.iter().map(|(name, at)| format!("{name}.{at}")).collect();
        assert_eq!(names, ["pinion.1", "pinion-serve.1", "pinion.toml.5"]);
    }

    #[test]
    fn what_goes_into_a_package_is_there() {
        for (path, _) in FILES {
            assert!(workspace::root().join(path).is_file(), "{path}");
        }
    }
}

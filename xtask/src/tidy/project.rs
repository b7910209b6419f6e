//! The subject of the rules: the text files of the tree and the packages that cargo knows.

use super::rust_source::Source;
use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt;
use std::fs;
use std::path::Path;

/// The whole tree, read once.
pub(crate) struct Project {
    pub(crate) files: Vec<File>,
    pub(crate) packages: Vec<Package>,
    /// Every path, also of files that are not text.
    pub(crate) paths: Vec<String>,
}

/// A text file.
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// For Rust files only.
    pub(crate) rust: Option<Source>,
}

/// A package of the workspace, or a separate one in the tree.
pub(crate) struct Package {
    /// The name without the prefix of the project: `http` for `pinion-http`.
    pub(crate) name: String,
    /// The crates that this one imports, of any kind (normal, build, dev).
    pub(crate) imports: Vec<String>,
    /// The first file of each library, binary, test, bench and example.
    pub(crate) roots: Vec<String>,
}

/// Something that is wrong, with its place.
#[derive(Debug)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1; 0 for the file as a whole.
    line: usize,
    message: String,
}

/// The text files that people write by hand; other kinds are data. All files of [`PACKAGING`] are
/// text, too.
const TEXT: &[&str] =
    &["c", "css", "html", "js", "json", "lua", "md", "py", "rs", "sh", "svg", "toml", "yml"];

/// The folder of the files that packages are made with.
pub(super) const PACKAGING: &str = "packaging/";

/// Packages that are not part of the workspace.
const OUTSIDE: [&str; 2] = ["fuzz/Cargo.toml", "tests/h3i/Cargo.toml"];

impl Project {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let paths = workspace_paths::files(root)?;
        let mut files = Vec::new();
        let is_text =
            |path: &&String| TEXT.contains(&extension(path)) || path.starts_with(PACKAGING);
        for path in paths.iter().filter(is_text) {
            let text = fs::read_to_string(root.join(path)).with_context(|| path.clone())?;
            files.push(File::of(path, &text));
        }
        let mut own = packages(root, "Cargo.toml")?;
        for manifest in OUTSIDE {
            own.extend(packages(root, manifest)?);
        }
        Ok(Self { files, packages: own, paths })
    }

    /// Returns a project that exists only in memory, for canaries and tests.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files.iter().map(|(path, text)| File::of(path, text)).collect(),
            packages: Vec::new(),
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
        }
    }

    pub(crate) fn with_package(mut self, name: &str, imports: &[&str], roots: &[&str]) -> Self {
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let package = Package { name: name.to_owned(), imports: own(imports), roots: own(roots) };
        self.packages.push(package);
        self
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| file.rust.as_ref().map(|source| (file, source)))
    }
}

impl File {
    fn of(path: &str, text: &str) -> Self {
        let rust = (extension(path) == "rs").then(|| Source::of(text));
        Self { path: path.to_owned(), text: text.to_owned(), rust }
    }

    pub(crate) fn extension(&self) -> &str {
        extension(&self.path)
    }

    /// Returns whether the file contains only tests.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        self.path.split('/').any(|part| part == "tests")
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
            || self.path.starts_with("fuzz/")
    }

    /// Returns whether a program wrote the file, which its first lines state.
    pub(crate) fn is_generated(&self) -> bool {
        self.text.lines().take(5).any(|line| line.contains("@generated"))
    }
}

impl Finding {
    pub(crate) fn new(file: &File, line: usize, message: impl Into<String>) -> Self {
        Self::at(&file.path, line, message)
    }

    pub(crate) fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn packages(root: &Path, manifest: &str) -> Result<Vec<Package>> {
    let metadata = process::output(
        process::cargo(&["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
            .arg(root.join(manifest)),
    )?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata: no packages")?;
    Ok(packages.iter().map(|package| package_of(root, package)).collect())
}

fn package_of(root: &Path, package: &Value) -> Package {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let local = |dependency: &Value| !dependency["path"].is_null();
    let relative = |path: String| match Path::new(&path).strip_prefix(root) {
        Ok(inside) => inside.to_string_lossy().into_owned(),
        Err(_) => path,
    };
    let name = short_name(&text(&package["name"]));
    Package {
        imports: list(&package["dependencies"])
            .iter()
            .filter(|dependency| local(dependency))
            .map(|dependency| short_name(&text(&dependency["name"])))
            // A crate whose tests need a feature of it names itself.
            .filter(|import| *import != name)
            .collect(),
        name,
        roots: list(&package["targets"])
            .iter()
            .map(|target| relative(text(&target["src_path"])))
            .collect(),
    }
}

fn short_name(package: &str) -> String {
    package.strip_prefix("pinion-").unwrap_or(package).to_owned()
}

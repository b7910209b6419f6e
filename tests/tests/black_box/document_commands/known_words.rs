//! Words of documents that are not executed here: flags, tasks of xtask, packages, units and
//! images. The tests check that they exist.

use pinion_tests::binary::source_root;
use pinion_tests::server::run;
use std::fs;
use std::path::Path;

/// Asserts that the help of the verb has every flag.
#[track_caller]
pub(crate) fn has_flags(document: &Path, verb: &str, rest: &[&str]) {
    let help = run(&[verb, "--help"]);
    assert_eq!(help.code, Some(0), "{}: pinion {verb}", document.display());
    // The words after a bar belong to another program.
    let own = rest.iter().take_while(|word| **word != "|");
    for flag in own.filter(|word| word.starts_with('-')) {
        let is_listed = help.stdout.split([' ', ',', '\n', '[']).any(|word| word == *flag);
        assert!(is_listed, "{}: pinion {verb} {flag}", document.display());
    }
}

/// Returns whether a program is a measuring tool. These run for minutes, and not every machine
/// allows them, so only their arguments are checked.
pub(crate) fn measures(program: &str) -> bool {
    ["callgrind_annotate", "perf", "taskset", "valgrind"].contains(&program)
}

/// The folder of programs that were built for profiling.
pub(crate) const PROFILED: &str = "target/profiling/";

/// Asserts that a package is one of `cargo xtask dist`; tests/tests/black_box/dist_packages.rs
/// unpacks them.
#[track_caller]
pub(crate) fn is_package_of_ours(document: &Path, words: &[&str]) {
    let workspace = fs::read_to_string(source_root().join("Cargo.toml")).expect("the workspace");
    let version = workspace.lines().find_map(|line| line.strip_prefix("version = "));
    let version = version.expect("a version").trim_matches('"');
    for package in words.iter().filter(|word| word.ends_with(".tar.gz")) {
        let name = package.strip_prefix("target/packages/pinion-").unwrap_or(package);
        let rest = name.strip_prefix(version);
        let is_made = ["-x86_64-linux.tar.gz", "-x86_64-linux-static.tar.gz"].map(Some);
        assert!(is_made.contains(&rest), "{}: {package}", document.display());
    }
    assert!(words.contains(&"--strip-components=1"), "{}: {words:?}", document.display());
}

/// Asserts that a file that packages install among the documents is one of `packaging/`.
#[track_caller]
pub(crate) fn is_packaged(document: &Path, installed: &str) {
    let name = installed.strip_prefix("/usr/local/share/doc/pinion/").expect("a document");
    let file = source_root().join("packaging").join(name);
    assert!(file.is_file(), "{}: {installed}", document.display());
}

/// Asserts that the unit has the settings that the verb needs.
#[track_caller]
pub(crate) fn is_for_the_unit(document: &Path, verb: &str, rest: &[&str]) {
    let units: Vec<&&str> = rest.iter().filter(|word| !word.starts_with('-')).collect();
    assert!(!units.is_empty(), "{}: systemctl {verb}", document.display());
    for name in units {
        // The second socket is a unit of docs/installing.md itself; systemd_and_container_files.rs
        // checks it.
        if *name == "pinion-https.socket" {
            continue;
        }
        let file = if name.contains('.') { (*name).to_owned() } else { format!("{name}.service") };
        let unit = fs::read_to_string(source_root().join("packaging").join(file)).expect("a unit");
        let needs = match verb {
            "enable" => "\nWantedBy=",
            "reload" => "\nExecReload=",
            "restart" | "start" | "status" | "stop" if name.ends_with(".socket") => "\nListen",
            "restart" | "start" | "status" | "stop" => "\nExecStart=",
            _ => panic!("{}: systemctl {verb}", document.display()),
        };
        assert!(unit.contains(needs), "{}: systemctl {verb} {name}", document.display());
    }
}

/// The name that documents give to the image of `packaging/Containerfile`.
const IMAGE: &str = "site";

/// Asserts that the files for an image exist; tests/tests/black_box/systemd_and_container_files.rs
/// runs the steps of the file.
#[track_caller]
pub(crate) fn builds_an_image(document: &Path, words: &[&str]) {
    for pair in words.windows(2) {
        match pair {
            ["--file", file] => {
                assert!(source_root().join(file).is_file(), "{}: {file}", document.display());
            }
            ["--build-arg", setting] => {
                let (name, site) = setting.split_once('=').expect("a value");
                assert_eq!(name, "SITE", "{}", document.display());
                assert!(source_root().join(site).is_dir(), "{}: {site}", document.display());
            }
            _ => {}
        }
    }
}

/// Asserts that the words after the image are a valid command line.
#[track_caller]
pub(crate) fn runs_an_image(document: &Path, words: &[&str]) {
    let at = words.iter().position(|word| *word == IMAGE);
    let at = at.unwrap_or_else(|| panic!("{}: which image?", document.display()));
    if let Some((verb, rest)) = words[at + 1..].split_first() {
        has_flags(document, verb, rest);
    }
}

/// Asserts that every program of this project among the words is a package of the workspace.
#[track_caller]
pub(crate) fn are_built(document: &Path, words: &[&str]) {
    for name in words.iter().filter_map(|word| word.strip_prefix(PROFILED)) {
        assert!(is_package(name), "{}: {PROFILED}{name}", document.display());
    }
}

/// Asserts that the packages and the profile exist.
#[track_caller]
pub(crate) fn is_build(document: &Path, words: &[&str]) {
    let workspace = fs::read_to_string(source_root().join("Cargo.toml")).expect("the workspace");
    for pair in words.windows(2) {
        let exists = match pair {
            ["-p" | "--package", name] => is_package(name),
            ["--profile", name] => workspace.contains(&format!("[profile.{name}]")),
            ["--test", name] => is_test(name),
            _ => true,
        };
        assert!(exists, "{}: cargo … {}", document.display(), words.join(" "));
    }
}

/// Asserts that the package to install exists; the name of a repository is up to the reader.
#[track_caller]
pub(crate) fn is_install(document: &Path, words: &[&str]) {
    let is_known = match words {
        ["--path", folder] => source_root().join(folder).join("Cargo.toml").is_file(),
        ["--git", "URL", name] => is_package(name),
        _ => false,
    };
    assert!(is_known, "{}: cargo install {}", document.display(), words.join(" "));
}

/// Returns whether a word sets a variable for a build as `.cargo/config.toml` does.
pub(crate) fn is_build_setting(word: &str) -> bool {
    let config = fs::read_to_string(source_root().join(".cargo/config.toml"));
    let config = config.expect("the settings of cargo");
    word.split_once('=').is_some_and(|(name, value)| {
        config.lines().any(|line| line == format!("{name} = \"{value}\""))
    })
}

/// Returns whether a crate, or the package of the black-box tests, has tests of that name.
fn is_test(name: &str) -> bool {
    let crates = fs::read_dir(source_root().join("crates")).expect("the crates");
    let crates = crates.filter_map(Result::ok).map(|entry| entry.path());
    crates.chain([source_root().join("tests")]).any(|package| {
        let tests = package.join("tests");
        tests.join(name).join("main.rs").exists() || tests.join(format!("{name}.rs")).exists()
    })
}

fn is_package(name: &str) -> bool {
    let lock = fs::read_to_string(source_root().join("Cargo.lock")).expect("the lock file");
    lock.contains(&format!("name = \"{name}\"\nversion"))
}

/// Asserts that `cargo xtask help` lists a task, and that the tasks read every flag; words in
/// capitals are placeholders.
#[track_caller]
pub(crate) fn is_chore(document: &Path, words: &[&str]) {
    let sources = chores();
    let (chore, rest) = words.split_first().expect("a chore");
    let is_known =
        |line: &str| line.trim_start_matches('"').starts_with(&format!("cargo xtask {chore} "));
    let is_read = |flag: &&&str| sources.contains(&format!("\"{flag}\""));
    let unknown = rest.iter().filter(|word| word.starts_with('-')).find(|flag| !is_read(flag));
    assert!(
        sources.lines().any(is_known) && unknown.is_none(),
        "{}: cargo xtask {}: {unknown:?}",
        document.display(),
        words.join(" ")
    );
}

/// Returns the concatenated sources of `cargo xtask`.
fn chores() -> String {
    let mut folders = vec![source_root().join("xtask/src")];
    let mut sources = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                sources += &fs::read_to_string(entry.path()).expect("a source file");
            }
        }
    }
    sources
}

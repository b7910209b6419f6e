//! The interpreters of Python for the tests of the process of applications: always `python3` and
//! `pypy3` of Debian, and those in the variable `PINION_PYTHONS`.

use super::Step;
use crate::nextest::{self, Selection};
use crate::process;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// The variable with further interpreters: their paths, separated by colons.
const VARIABLE: &str = "PINION_PYTHONS";
/// The interpreters of the system, as in `crates/python/tests/program.rs`.
const OF_SYSTEM: [&str; 2] = ["/usr/bin/python3", "/usr/bin/pypy3"];
/// Prints the name and the version of an interpreter, with a `t` after the version of a
/// free-threaded one.
const VERSION: &str = "import sys, sysconfig; print(sys.implementation.name, \
    sys.version.split()[0] + 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')), end='')";

/// The step that runs the tests with each of the interpreters, and lists them.
pub(super) const STEP: Step = Step { name: "pythons", run: test };

/// Returns the interpreters in the variable. It is required, because the test depends on it: the
/// versions on a machine are not known otherwise.
///
/// # Errors
/// Returns the reason why the variable must be set, or which interpreter does not run.
pub(super) fn require() -> Result<Vec<String>> {
    let value = std::env::var(VARIABLE).unwrap_or_default();
    let paths = named(&value)?;
    paths.iter().map(|path| described(path)).collect()
}

fn named(value: &str) -> Result<Vec<&str>> {
    let paths: Vec<&str> = value.split(':').filter(|path| !path.is_empty()).collect();
    if paths.is_empty() {
        bail!(
            "{VARIABLE} is not set: set it to the interpreters that Python applications are \
             tested with beside those of Debian, such as \
             {VARIABLE}=/opt/python3.8/bin/python3:/opt/python3.14t/bin/python3; applications may \
             have any version from 3.8 on"
        );
    }
    match paths.iter().find(|path| !Path::new(path).is_absolute()) {
        Some(path) => bail!("{VARIABLE} names {path}: name each interpreter by its whole path"),
        None => Ok(paths),
    }
}

/// Returns the version of an interpreter and its path.
fn described(path: &str) -> Result<String> {
    let version = process::output(Command::new(path).args(["-I", "-c", VERSION]));
    let version = version.with_context(|| format!("an interpreter of {VARIABLE} does not run"))?;
    Ok(format!("{version} ({path})"))
}

fn test() -> Result<()> {
    let interpreters = require()?;
    let filter = "package(pinion-python) & binary(program)";
    nextest::run(Selection { filter: Some(filter), profile: Some("long"), cargo: &[] })?;
    println!("tested interpreters of Python:");
    for path in OF_SYSTEM {
        println!("  {}", described(path)?);
    }
    for interpreter in interpreters {
        println!("  {interpreter}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_must_be_absolute_paths() {
        let error = named("").unwrap_err().to_string();
        assert!(error.starts_with("PINION_PYTHONS is not set: set it to "), "{error}");
        assert!(named("::").is_err());
        let error = named("/usr/bin/python3:python3.8").unwrap_err().to_string();
        assert!(error.contains("names python3.8: "), "{error}");
        assert_eq!(named("/a/python3::/b/python3").expect("paths"), ["/a/python3", "/b/python3"]);
    }

    #[test]
    fn an_interpreter_that_does_not_run_is_named() {
        let error = format!("{:#}", described("/no/such/python3").unwrap_err());
        assert!(error.contains("PINION_PYTHONS") && error.contains("/no/such/python3"), "{error}");
    }
}

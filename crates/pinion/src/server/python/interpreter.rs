//! The interpreter of a Python application: the one that was named, or that of its virtual
//! environment, or the one of the system.

use anyhow::{Context as _, anyhow};
use std::env;
use std::path::{Path, PathBuf};

/// Folders of virtual environments beside an application, by the names that people give them.
const ENVIRONMENTS: [&str; 2] = [".venv", "venv"];

/// The interpreter of a virtual environment, below its folder.
const OF_ENVIRONMENT: &str = "bin/python3";

/// Finds the interpreter of the application in a folder. `named` is a program, or the folder of a
/// virtual environment. Links stay as they are: the interpreter finds its virtual environment by
/// the path with which it was started.
///
/// # Errors
/// There is none.
pub(crate) fn find(named: Option<&Path>, folder: &Path) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        let program = if named.is_dir() { named.join(OF_ENVIRONMENT) } else { named.to_owned() };
        return if program.is_file() {
            Ok(program)
        } else {
            Err(anyhow!(
                "there is no Python interpreter {}; name another one, or a virtual environment, \
             with the key python",
                program.display()
            ))
        };
    }
    let active = env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let environments = active.into_iter().chain(ENVIRONMENTS.map(|name| folder.join(name)));
    let mut of_environments = environments.map(|environment| environment.join(OF_ENVIRONMENT));
    if let Some(program) = of_environments.find(|program| program.is_file()) {
        return Ok(program);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut programs = env::split_paths(&path).map(|folder| folder.join("python3"));
    programs.find(|program| program.is_absolute() && program.is_file()).context(
        "there is no python3 in PATH; install it (apt install python3), or name an interpreter \
         with the key python",
    )
}

//! Programs of other people, run to their end. One that is missing is a failure, never a skip.

use crate::PATIENCE;
use crate::binary::profile_folder;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Returns a program that has to be installed.
///
/// # Panics
/// Panics if it is missing; the message has the command that installs it.
#[track_caller]
pub fn program(name: &str, package: &str) -> Command {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from); // where Debian keeps some
    let found = std::env::split_paths(&search).chain(system).map(|folder| folder.join(name));
    match found.into_iter().find(|path| path.is_file()) {
        Some(path) => Command::new(path),
        None => panic!("{name} is missing; on Debian: sudo apt-get install {package}"),
    }
}

/// Returns a program from the Python environment that the test command makes of
/// `tests/requirements.txt`.
///
/// # Panics
/// Panics if it is missing; the message has the command that installs it.
#[track_caller]
pub fn python_program(name: &str) -> Command {
    below_target(&format!("python/bin/{name}"), "needs")
}

/// Returns a package of those that applications import, which the test command makes of
/// `tests/python_applications.txt`: a folder, or a file.
///
/// # Panics
/// Panics if it is missing; the message has the command that installs it.
#[track_caller]
pub fn python_package(name: &str) -> PathBuf {
    path_below_target(&format!("python-applications/{name}"), "needs")
}

/// Returns the folder of the Node packages that the test command installs from
/// `tests/package.json`.
///
/// # Panics
/// Panics if it is missing; the message has the command that installs it.
#[track_caller]
pub fn node_packages() -> PathBuf {
    path_below_target("node/node_modules", "needs")
}

/// Returns the folder of sources that the test command fetches from `tests/python_sources.txt`.
///
/// # Panics
/// Panics if it is missing; the message has the command that installs it.
#[track_caller]
pub fn python_source(name: &str) -> PathBuf {
    path_below_target(&format!("python-sources/{name}"), "needs")
}

/// Returns the folder with Redis' own tests, which the test command takes from Debian's source
/// package.
///
/// # Panics
/// Panics if they are missing; the message has the command that installs them.
#[track_caller]
pub fn redis_tests() -> PathBuf {
    path_below_target("redis-tests", "needs")
}

/// Returns a program that the test command builds from `tests/go.mod`.
///
/// # Panics
/// Panics if it is missing; the message has the command that installs it.
#[track_caller]
pub fn go_program(name: &str) -> Command {
    below_target(&format!("go/bin/{name}"), "needs")
}

/// Returns a program of ACME that `cargo xtask test --only recipes` builds from
/// `tests/acme/go.mod`.
///
/// # Panics
/// Panics if it is missing; the message has the command that installs it.
#[track_caller]
pub fn acme_program(name: &str) -> Command {
    below_target(&format!("acme/bin/{name}"), "recipes")
}

/// Returns a program of a static site generator, by its path below the folder in which `cargo xtask
/// test --only recipes` installs them.
///
/// # Panics
/// Panics if it is missing; the message has the command that installs it.
#[track_caller]
pub fn generator_program(path: &str) -> Command {
    below_target(&format!("fingerprints/{path}"), "recipes")
}

/// Returns a program that the test command installs from crates.io.
///
/// # Panics
/// Panics if it is missing; the message has the command that installs it.
#[track_caller]
pub fn crate_program(name: &str) -> Command {
    below_target(&format!("tools/bin/{name}"), "needs")
}

/// Returns a command for a file below the target folder; `step` is the step of the test command
/// that installs it.
#[track_caller]
fn below_target(path: &str, step: &str) -> Command {
    Command::new(path_below_target(path, step))
}

#[track_caller]
fn path_below_target(path: &str, step: &str) -> PathBuf {
    let target = profile_folder();
    let target = target.parent().expect("a profile's folder lies in the target folder");
    let path = target.join(path);
    assert!(path.exists(), "{} is missing; cargo xtask test --only {step}", path.display());
    path
}

/// Runs a program to its end within [`PATIENCE`] and returns its output.
///
/// # Panics
/// Panics if it cannot be started or does not end.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    output_within(command, PATIENCE)
}

/// Runs a program to its end within `patience`.
///
/// # Panics
/// Panics if it cannot be started or does not end.
#[track_caller]
pub fn output_within(command: &mut Command, patience: Duration) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let pid = rustix::process::Pid::from_child(&child);
    let waiting = thread::spawn(move || child.wait_with_output());
    let deadline = Instant::now() + patience;
    while !waiting.is_finished() {
        if Instant::now() > deadline {
            let _ended_meanwhile =
                rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("{command:?} does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = waiting.join().expect("no panic while waiting");
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Compiles a program of one file in Go. The first one on a machine compiles Go's own library, too,
/// which needs a minute while other tests run.
///
/// # Panics
/// Panics if it cannot be compiled.
#[track_caller]
pub fn build_go(folder: &Path, source: &str, program_name: &str) {
    let mut compiler = program("go", "golang-go");
    compiler.args(["build", "-o", program_name, source]).current_dir(folder);
    let built = output_within(&mut compiler, 4 * PATIENCE);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// Runs a program that must succeed, and returns its standard output.
///
/// # Panics
/// Panics if it fails; the message has its output.
#[track_caller]
pub fn stdout(command: &mut Command) -> Vec<u8> {
    let output = output(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "sudo apt-get install the-package")]
    fn a_missing_program_fails_with_its_package() {
        program("no-such-program", "the-package");
    }

    #[test]
    #[should_panic(expected = "cargo xtask test --only needs")]
    fn a_missing_python_program_fails_with_installation_advice() {
        python_program("no-such-program");
    }

    #[test]
    #[should_panic(expected = "go/bin/no-such-program is missing")]
    fn a_missing_go_program_fails_with_its_expected_path() {
        go_program("no-such-program");
    }

    #[test]
    fn a_program_runs_to_its_end() {
        assert_eq!(stdout(program("echo", "coreutils").arg("x")), b"x\n");
    }

    #[test]
    #[should_panic(expected = "does not end")]
    fn a_program_that_does_not_end_is_ended() {
        let mut sleep = program("sleep", "coreutils");
        output_within(sleep.arg("1000"), Duration::from_millis(50));
    }
}

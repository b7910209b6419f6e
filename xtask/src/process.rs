//! Runs other programs, with helpful messages for failures.

use crate::workspace_paths;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the cargo that runs this program, at the root of the source tree.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(workspace_paths::root());
    command
}

/// Runs a command to its end with inherited output; an error names the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a command to its end and returns its standard output; an error contains its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    command.stdin(Stdio::null());
    let done = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !done.status.success() {
        let complaint = String::from_utf8_lossy(&done.stderr);
        bail!("{} ended with {}\n{}", shown(command), done.status, complaint.trim_end());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Returns the command as text for a shell.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%*".contains(c);
        let bare = !argument.is_empty() && argument.chars().all(plain);
        words.push(if bare { argument.into_owned() } else { format!("'{argument}'") });
    }
    words.join(" ")
}

/// Returns the path of a program, if it is installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from); // where Debian keeps servers
    std::env::split_paths(&search)
        .chain(system)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command() {
        let error = run(Command::new("false").arg("a b")).unwrap_err();
        assert!(error.to_string().starts_with("false 'a b' ended with"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = output(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start no-such-program");
        assert_eq!(find("no-such-program"), None);
    }
}

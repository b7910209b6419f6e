//! Runs the program and inspects the results.

use crate::temporary_folder::Folder;
use std::process::{Command, Output, Stdio};

/// Returns a command for the program in a folder. The environment of the caller does not affect its
/// output.
pub(crate) fn command(folder: &Folder, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinion"));
    command.args(arguments.split_whitespace());
    command.current_dir(folder.path()).stdin(Stdio::null());
    command.env_remove("SOURCE_DATE_EPOCH").env_remove("NO_COLOR");
    command.env_remove("RUNTIME_DIRECTORY").env("XDG_RUNTIME_DIR", folder.path());
    command
}

/// Runs it to its end.
pub(crate) fn run(folder: &Folder, arguments: &str) -> Run {
    Run::of(command(folder, arguments).output().expect("it runs"))
}

/// Returns the verbs in its help.
pub(crate) fn verbs(folder: &Folder) -> Vec<String> {
    let help = run(folder, "help");
    let list = help.text().lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = list.take_while(|line| !line.is_empty());
    let verbs: Vec<String> =
        list.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    assert!(verbs.iter().any(|verb| verb == "build"), "{}", help.text());
    verbs
}

/// Runs it to build `site` into `site.pinion`.
pub(crate) fn build_site(folder: &Folder) {
    let run = run(folder, "build site -o site.pinion");
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// The result of a run.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("an exit code, no signal"),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("UTF-8")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).expect("one JSON document")
    }

    /// Asserts that it failed with this code, printed the reason in one line that contains `hint`,
    /// and wrote no data.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, hint: &str) {
        assert_eq!(self.code, code, "{}", self.stderr);
        assert!(self.stderr.contains(hint), "{:?} has no {hint:?}", self.stderr);
        assert!(self.stderr.starts_with("pinion: "), "{:?}", self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{:?}", self.stderr);
        assert!(self.stdout.is_empty());
    }
}

/// Returns the members of an object, sorted.
pub(crate) fn members(value: &serde_json::Value) -> Vec<&str> {
    let mut members: Vec<&str> =
        value.as_object().expect("an object").keys().map(String::as_str).collect();
    members.sort_unstable();
    members
}

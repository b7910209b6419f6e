//! The test runner: cargo-nextest, pinned in `tests/requirements.txt` and set up in
//! `.config/nextest.toml`. It runs the tests of all programs side by side, each in a process of its
//! own, so that tests which wait leave the processors to those which do not.

use crate::{process, workspace_paths};
use std::process::Command;

/// The feature of the tests that take minutes.
pub(crate) const LONG: &str = "pinion-tests/long";

/// The selection of the tests of one run. Every selection starts from the whole workspace: cargo
/// unifies the features of packages that are built together, so a smaller selection would build its
/// dependencies again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selection<'a> {
    /// Arguments of cargo: packages that are left out, features, targets.
    pub(crate) cargo: &'a [&'a str],
    /// A filter expression of nextest, or all tests.
    pub(crate) filter: Option<&'a str>,
    /// A profile of `.config/nextest.toml`, or its default.
    pub(crate) profile: Option<&'a str>,
}

/// Returns the command that builds and runs the selected tests.
pub(crate) fn command(selection: Selection<'_>) -> Command {
    // Cargo finds subcommands in PATH; this one is called by its path and gets its own name.
    let mut command = Command::new(workspace_paths::target().join("python/bin/cargo-nextest"));
    command.current_dir(workspace_paths::root());
    // Cargo has just built it; without this each test process would compare it with the sources.
    let program = std::path::absolute(workspace_paths::target().join("ci/pinion"));
    command.env("PINION_BINARY", program.unwrap_or_default());
    command.args(["nextest", "run", "--workspace", "--cargo-profile", "ci"]);
    command.args(selection.cargo);
    if let Some(profile) = selection.profile {
        command.args(["--profile", profile]);
    }
    if let Some(filter) = selection.filter {
        command.args(["--filterset", filter]);
    }
    command
}

/// Builds and runs the selected tests.
pub(crate) fn run(selection: Selection<'_>) -> anyhow::Result<()> {
    process::run(&mut command(selection))
}

/// Returns a filter for modules of the black-box tests.
pub(crate) fn black_box(modules: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = modules.iter().map(AsRef::as_ref).collect();
    format!("binary(black_box) & test(/^({})::/)", names.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_selection_becomes_nextest_arguments() {
        let modules = black_box(&["range", "sites"]);
        let cargo = ["--features", LONG];
        let selection = Selection { cargo: &cargo, filter: Some(&modules), profile: Some("long") };
        let shown = process::shown(&command(selection));
        assert!(
            shown.ends_with(
                "cargo-nextest nextest run --workspace --cargo-profile ci --features \
                 pinion-tests/long --profile long --filterset 'binary(black_box) & \
                 test(/^(range|sites)::/)'"
            ),
            "{shown}"
        );
    }
}

//! `cargo xtask test`: everything that must be green, in order; the README's test command.

use crate::debian::{self, Need, Proof};
use crate::{process, python};
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Instant;

/// Programs and files of other projects that the tests use.
const NEEDS: &[Need] = &[
    Need { package: "chromium", proof: Proof::Program("chromium") },
    Need { package: "curl", proof: Proof::Program("curl") },
    // Debian packs the module apart from Python itself.
    Need { package: "python3-venv", proof: Proof::Module("ensurepip") },
    Need {
        package: "python3.11-doc",
        proof: Proof::File("/usr/share/doc/python3.11/html/index.html"),
    },
    Need { package: "slowhttptest", proof: Proof::Program("slowhttptest") },
];

/// One step: what it is called and what it does.
struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "needs", run: needs },
    Step { name: "format", run: || cargo(&["fmt", "--all", "--check"]) },
    Step { name: "binary", run: || cargo(&["build", "--profile", "ci", "-p", "pinion"]) },
    Step { name: "tests", run: || cargo(&["test", "--workspace", "--profile", "ci"]) },
];

/// Runs all steps, or the one after `--only`.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let only = match arguments {
        [] => None,
        ["--only", name] => Some(*name),
        _ => bail!("usage: cargo xtask test [--only STEP]; steps: {}", names()),
    };
    if let Some(name) = only
        && !STEPS.iter().any(|step| step.name == name)
    {
        bail!("no step {name}; steps: {}", names());
    }
    for step in STEPS.iter().filter(|step| only.is_none_or(|name| name == step.name)) {
        println!("== {}", step.name);
        let began = Instant::now();
        let again = || format!("to repeat: cargo xtask test --only {}", step.name);
        (step.run)().with_context(again)?;
        println!("== {}: ok, {} s", step.name, began.elapsed().as_secs());
    }
    println!("all green");
    Ok(())
}

fn needs() -> Result<()> {
    debian::install(NEEDS)?;
    python::install()
}

fn names() -> String {
    STEPS.iter().map(|step| step.name).collect::<Vec<_>>().join(", ")
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    process::run(Command::new(cargo).args(arguments).current_dir(crate::workspace::root()))
}

//! The machine of a measurement: a figure without its machine is meaningless.

use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// Returns processor, cores, memory in MiB, kernel and compiler.
pub(crate) fn facts() -> Result<Value> {
    let processors = read("/proc/cpuinfo")?;
    let memory = read("/proc/meminfo")?;
    let memory_kib: u64 = field(&memory, "MemTotal")
        .and_then(|value| value.split_whitespace().next()?.parse().ok())
        .context("no MemTotal in /proc/meminfo")?;
    Ok(json!({
        "processor": field(&processors, "model name").unwrap_or("unknown"),
        "cores": std::thread::available_parallelism()?.get(),
        "memory_mib": memory_kib / 1024,
        "kernel": read("/proc/sys/kernel/osrelease")?.trim(),
        "compiler": process::output(Command::new("rustc").arg("--version"))?.trim(),
    }))
}

/// Returns the measured commit; a `+` at its end means that the tree had other changes.
pub(crate) fn commit() -> Result<String> {
    let git = |arguments: &[&str]| {
        process::output(Command::new("git").args(arguments).current_dir(workspace_paths::root()))
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ":!bench/runs"])?;
    let mark = if changed.is_empty() { "" } else { "+" };
    Ok(format!("{}{mark}", head.trim()))
}

/// Returns the host name as the kernel has it.
pub(crate) fn host() -> Result<String> {
    Ok(read("/proc/sys/kernel/hostname")?.trim().to_owned())
}

/// Returns the date of today, as `YYYY-MM-DD` in UTC.
pub(crate) fn today() -> Result<String> {
    Ok(process::output(Command::new("date").args(["-u", "+%F"]))?.trim().to_owned())
}

/// Returns the value of the first `name: value` line.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (left, right) = line.split_once(':')?;
        (left.trim() == name).then(|| right.trim())
    })
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_with_a_key_is_used() {
        let text = "processor\t: 0\nmodel name\t: Fast: 2 GHz\nmodel name\t: Slow\n";
        assert_eq!(field(text, "model name"), Some("Fast: 2 GHz"));
        assert_eq!(field(text, "model"), None);
    }
}

//! Units of systemd: their settings, and the system calls that their filters refuse.

use crate::external_programs::{program, stdout};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the values of a setting of a unit, in their order.
///
/// # Panics
/// Panics if it has none.
#[track_caller]
pub fn settings<'u>(unit: &'u str, name: &str) -> Vec<&'u str> {
    let prefix = format!("{name}=");
    let found: Vec<&str> = unit.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
    assert!(!found.is_empty(), "the unit has no {name}");
    found
}

/// Returns the numbers of all calls that filters of a unit refuse: the calls that the first filter
/// does not allow, and those that a further one with a tilde removes.
///
/// # Panics
/// Panics if a filter does not begin with allowed calls.
#[track_caller]
pub fn refused_calls(filters: &[&str]) -> Vec<u32> {
    let (allowing, taking) = filters.split_first().expect("a filter");
    let mut allowed = calls(allowing);
    for filter in taking {
        let taken = calls(filter.strip_prefix('~').expect("it takes away"));
        allowed.retain(|call| !taken.contains(call));
    }
    let numbers = numbers();
    numbers.into_iter().filter(|(name, _)| !allowed.contains(name)).map(|(_, at)| at).collect()
}

/// Returns the calls in a filter, including those of its sets.
fn calls(filter: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = filter.split_whitespace().map(str::to_owned).collect();
    while let Some(name) = open.pop() {
        if !name.starts_with('@') {
            found.insert(name);
            continue;
        }
        let mut analyze = program("systemd-analyze", "systemd");
        let output = stdout(analyze.args(["syscall-filter", "--no-pager", &name]));
        let output = String::from_utf8(output).expect("text");
        let lines = output.lines().skip(1).map(str::trim).filter(|line| !line.starts_with('#'));
        open.extend(lines.map(str::to_owned));
    }
    found
}

/// Returns the number of each call on this machine, from the headers of the kernel.
fn numbers() -> BTreeMap<String, u32> {
    let mut cc = program("cc", "gcc");
    let output = stdout(cc.args(["-dM", "-E", "-include", "asm/unistd.h", "-x", "c", "/dev/null"]));
    let output = String::from_utf8(output).expect("text");
    let macros: BTreeMap<&str, &str> = output
        .lines()
        .filter_map(|line| line.strip_prefix("#define __NR")?.split_once(' '))
        .collect();
    // Some values are another name: `__NR_lseek` is `__NR3264_lseek`.
    let number = |value: &str| {
        let value =
            value.strip_prefix("__NR").and_then(|name| macros.get(name)).map_or(value, |v| v);
        value.parse().ok()
    };
    let named = macros
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix('_')?.to_owned(), number(value)?)));
    named.collect()
}

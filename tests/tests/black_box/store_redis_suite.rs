//! `--store`: Redis' own tests, which are programs in Tcl, against the store.

use pinion_tests::external_programs::{output_within, program, redis_tests};
use pinion_tests::matrix::Io;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use std::collections::BTreeSet;
use std::time::Duration;

/// Files that need some seconds in all.
const SHORT_UNITS: [&str; 10] = [
    "unit/bitfield",
    "unit/bitops",
    "unit/dump",
    "unit/expire",
    "unit/keyspace",
    "unit/multi",
    "unit/slowlog",
    "unit/sort",
    "unit/type/incr",
    "unit/type/string",
];

/// Files with cases that send random commands for a long time.
const LONG_UNITS: [&str; 8] = [
    "unit/other",
    "unit/scan",
    "unit/type/hash",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/set",
    "unit/type/zset",
];

/// Marks of cases, and why they are left out: `DEBUG` is not there, there are no replicas and no
/// files of data, and the counts of memory that `maxmemory` is compared with are late.
const TAGS_LEFT_OUT: &str = "-needs:debug -needs:repl -needs:save -needs:config-maxmemory";

/// This is not a statement about speed: it ends the wait for a run that does not end.
const PATIENCE: Duration = Duration::from_secs(if cfg!(feature = "long") { 3000 } else { 240 });
/// Seconds after which the harness ends a case.
const CASE_SECONDS: &str = if cfg!(feature = "long") { "600" } else { "120" };

/// A case that is left out.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LeftOut {
    unit: &'static str,
    case: &'static str,
}

/// Returns the cases that the list names: below each `[file] cause` one a line.
fn left_out() -> BTreeSet<LeftOut> {
    let mut unit = None;
    let mut cases = BTreeSet::new();
    for line in include_str!("../../redis_tests_left_out.txt").lines() {
        if let Some((name, cause)) = line.strip_prefix('[').and_then(|it| it.split_once("] ")) {
            assert!(cause.ends_with('.'), "{line}");
            assert!(SHORT_UNITS.contains(&name) || LONG_UNITS.contains(&name), "{line}");
            unit = Some(name);
        } else if !line.is_empty() && !line.starts_with("# ") {
            let unit = unit.expect("a case follows the line of its file");
            assert!(cases.insert(LeftOut { unit, case: line }), "{line} is there twice");
        }
    }
    cases
}

/// Runs a file of tests and returns the failures.
fn complaints(unit: &str, port: &str, folder: &Folder) -> Vec<String> {
    let cases = left_out();
    let cases: Vec<_> = cases.iter().filter(|it| it.unit == unit).map(|it| it.case).collect();
    folder.write("left_out", cases.join("\n"));
    let mut harness = program("tclsh", "tcl");
    harness.arg("tests/test_helper.tcl").current_dir(redis_tests());
    harness.args(["--host", "127.0.0.1", "--port", port, "--single", unit, "--durable"]);
    // The layout of values in memory is not a subject of these tests.
    harness.args(["--ignore-encoding", "--ignore-digest", "--tags", TAGS_LEFT_OUT]);
    harness.args(["--timeout", CASE_SECONDS, "--skipfile"]).arg(folder.join("left_out"));
    let output = output_within(&mut harness, PATIENCE);
    let said = plain(&String::from_utf8_lossy(&output.stdout));
    let mut complaints = failures(&said);
    let skipped: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("[skip]: ")).collect();
    complaints.extend(
        cases
            .iter()
            .filter(|case| !skipped.iter().any(|name| is_meant(case, name)))
            .map(|case| format!("{unit} has no case {case:?}, which is left out")),
    );
    let passed = said.lines().filter(|line| line.starts_with("[ok]: ")).count();
    if passed == 0 || (complaints.is_empty() && !output.status.success()) {
        let rest = String::from_utf8_lossy(&output.stderr);
        complaints.push(format!("{unit}: {passed} passed, {}\n{said}{rest}", output.status));
    }
    complaints
}

/// Returns whether a line of the list names a case.
fn is_meant(line: &str, case: &str) -> bool {
    line.strip_prefix("/^").map_or(line == case, |begin| case.starts_with(begin))
}

/// Returns a text without the colours of a terminal.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Returns each failure that the harness reports, with its first lines.
fn failures(said: &str) -> Vec<String> {
    const LINES_SHOWN: usize = 6;
    let lines: Vec<_> = said.lines().collect();
    let is_failure = |line: &str| {
        ["[err]: ", "[exception]: ", "[TIMEOUT]: "].iter().any(|mark| line.starts_with(mark))
    };
    let begins = (0..lines.len()).filter(|&index| is_failure(lines[index]));
    let shown = |index: usize| {
        let last = lines.len().min(index + LINES_SHOWN);
        let end = (index + 1..last).find(|&at| lines[at].starts_with('[')).unwrap_or(last);
        lines[index..end].join("\n")
    };
    begins.map(shown).collect()
}

#[test]
fn the_tests_of_redis_pass() {
    let folder = Folder::new("store-tcl");
    folder.write("site/index.html", "a site");
    let (units, ways) = if cfg!(feature = "long") {
        ([&SHORT_UNITS[..], &LONG_UNITS].concat(), &Io::BOTH[..])
    } else {
        (SHORT_UNITS.to_vec(), &Io::BOTH[..1])
    };
    let mut complaints = Vec::new();
    for io in ways {
        for unit in &units {
            let flags = ["--io", io.as_str(), "--store", "127.0.0.1:0"];
            let server = Start::site(&folder.join("site")).flags(&flags).start();
            let lines = server.lines();
            let line = lines.iter().find(|line| line.starts_with("listening redis://"));
            let line = line.expect("the address of the store").trim_end_matches('/');
            let port = line.rsplit(':').next().unwrap_or_default();
            complaints.extend(self::complaints(unit, port, &folder));
            server.stop();
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

#[test]
fn failures_in_the_output_of_the_redis_suite_are_found() {
    let said = "[\u{1b}[0;32;49mok\u{1b}[0m]: fine (1 ms)\n[\u{1b}[0;31;49merr\u{1b}[0m]: wrong in \
                tests/a.tcl\nExpected '1'\n[\u{1b}[0;32;49mok\u{1b}[0m]: fine (1 ms)\n";
    assert_eq!(failures(&plain(said)), ["[err]: wrong in tests/a.tcl\nExpected '1'"]);
    assert_eq!(failures(&plain("[TIMEOUT]: clients state")).len(), 1);
    assert_eq!(failures("[ok]: fine (1 ms)\n[skip]: err\n"), [""; 0]);
}

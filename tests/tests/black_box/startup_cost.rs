//! The cost of a start, in system calls: an unnecessary wait, poll or thread shows here,
//! independent of the load of the machine. `cargo xtask bench scale` measures the duration of a
//! start.

use pinion_tests::binary::{pinion, source_root};
use pinion_tests::external_programs::{program, stdout};
use pinion_tests::lua_script_site::script;
use pinion_tests::server::{Start, build};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

/// System calls until a server with an archive is ready: two workers, one listener, epoll.
const ARCHIVE_MAX_CALLS: usize = 300;
/// The same limit with a script, which is started once on trial.
const SCRIPT_MAX_CALLS: usize = 550;
/// System calls of a verb that prints something, and of one that starts a script.
const VERB_MAX_CALLS: [usize; 2] = [120, 400];

/// Returns a command that executes its further arguments in its own process, and writes all system
/// calls to a file.
fn traced(trace: &Path) -> Command {
    let mut strace = program("strace", "strace");
    // The test runner adds folders in which libraries would be looked for.
    strace.env_remove("LD_LIBRARY_PATH").args(["-D", "-f", "-o"]).arg(trace);
    strace
}

/// Returns the calls in a trace, once the program has ended, each with the number of its thread in
/// front. A call that another thread interrupts has two lines, of which the first one counts; how
/// often threads wait for each other is up to the machine.
fn calls(trace: &Path) -> Vec<String> {
    let lines = wait_for("the whole trace", || {
        let text = fs::read_to_string(trace).ok()?;
        let process = text.split(' ').next()?.to_owned();
        let is_end = |line: &str| line.starts_with(&process) && line.contains("+++ exited with ");
        text.lines().any(is_end).then(|| text.lines().map(str::to_owned).collect::<Vec<_>>())
    });
    let is_call = |line: &String| !line.contains(" resumed>") && !line.contains(" futex(");
    lines.into_iter().filter(is_call).collect()
}

fn thread_of(call: &str) -> &str {
    call.split(' ').next().expect("a trace begins with the number of the thread")
}

/// Returns the calls of a start: those of the first thread until the server is ready, and those of
/// each other thread until it waits for something to do. How far the other threads are when the
/// first one is ready is up to the machine.
fn calls_of_start(calls: &[String]) -> Vec<&String> {
    let is_ready = |call: &String| call.contains("write(2, \"ready\\n\"");
    let ready = calls.iter().position(is_ready).expect("it was ready");
    let first = thread_of(&calls[ready]);
    let mut waiting = HashSet::new();
    let mut of_start = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let thread = thread_of(call);
        if [" epoll_pwait(", " ppoll("].iter().any(|wait| call.contains(wait)) {
            waiting.insert(thread);
        }
        let is_of_start = if thread == first { index < ready } else { !waiting.contains(thread) };
        if is_of_start {
            of_start.push(call);
        }
    }
    of_start
}

#[track_caller]
fn is_cheap(site: &OsStr, most: usize) {
    let traces = Folder::new("startup");
    let trace = traces.join("trace");
    let flags = ["--io", "epoll", "--workers", "2"];
    Start::serve(&[site]).flags(&flags).under(traced(&trace)).start().stop();
    let calls = calls(&trace);
    let of_start = calls_of_start(&calls);
    let count = of_start.len();
    assert!(count <= most, "{site:?}: {count} calls\n{}", calls.join("\n"));
    // Waiting is no way to start.
    let naps = of_start.into_iter().filter(|call| call.contains("nanosleep("));
    assert_eq!(naps.collect::<Vec<_>>(), Vec::<&String>::new(), "{site:?}");
}

#[test]
fn an_archive_is_served_after_few_system_calls() {
    let folder = Folder::new("startup");
    let archive = folder.join("site.pinion");
    build(&source_root().join("examples/site"), &archive, &[]);
    is_cheap(archive.as_os_str(), ARCHIVE_MAX_CALLS);
}

#[test]
fn a_script_is_served_after_few_system_calls() {
    let (_folder, path) = script("pinion.get('/', function() return 'hello' end)");
    is_cheap(path.as_os_str(), SCRIPT_MAX_CALLS);
}

#[test]
fn verbs_that_print_make_few_system_calls() {
    let (_folder, path) = script("print('hello')");
    let path = path.to_str().expect("text");
    let [plain, with_script] = VERB_MAX_CALLS;
    for (words, most) in
        [(&["version"][..], plain), (&["check", path], with_script), (&["run", path], with_script)]
    {
        let traces = Folder::new("startup");
        let trace = traces.join("trace");
        stdout(traced(&trace).arg(pinion()).args(words));
        let calls = calls(&trace);
        assert!(calls.len() <= most, "{words:?}: {}\n{}", calls.len(), calls.join("\n"));
    }
}

//! The ends of programs, and the ways to stop them.

use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

use pinion_spawner::reply::SpawnerReply;
use pinion_spawner::worker_connection::stream_sockets;
use rustix::process::Signal;

use crate::process_observer::{anonymous_kib, children, descriptors, is_alive, wait_until};
use crate::test_server::{Server, Worker, log, row, shell, survivors, wait_for_log};

pub(crate) fn every_end_is_reported() {
    let mut server = Server::with(vec![
        shell(),
        row("true", "/bin/true"),
        row("false", "/bin/false"),
        row("sleep", "/bin/sleep"),
    ]);
    let _streams = [server.start(1, "true", &[]), server.start(2, "false", &[])];
    let _more = [
        server.shell(3, "exit 255"),
        server.shell(4, "kill -SEGV $$"),
        server.shell(5, "kill -KILL $$"),
        server.start(6, "sleep", &[]),
    ];
    let ends = server.worker.ends(6);
    assert_eq!(ends[&1], SpawnerReply::Exited { id: 1, status: 0 });
    assert_eq!(ends[&2], SpawnerReply::Exited { id: 2, status: 1 });
    assert_eq!(ends[&3], SpawnerReply::Exited { id: 3, status: 255 });
    assert_eq!(ends[&4], SpawnerReply::Signaled { id: 4, signal: 11 });
    assert_eq!(ends[&5], SpawnerReply::Signaled { id: 5, signal: 9 });
    assert_eq!(ends[&6], SpawnerReply::Exited { id: 6, status: 1 });
    wait_for_log("]: ended by SIGSEGV\n");
    wait_for_log("]: ended by SIGKILL\n");
}

pub(crate) fn a_program_that_ignores_sigterm_is_killed() {
    let mut server = Server::new();
    let mut stream = server.shell(1, "trap '' TERM; echo; while :; do sleep 1000; done");
    server.worker.started(1);
    wait_for_line(&mut stream);
    server.worker.connection.stop(1).expect("sent");
    assert_eq!(server.worker.reply(), SpawnerReply::Signaled { id: 1, signal: 9 });
    wait_for_log("]: killed, it has not stopped in 100 ms\n");
    wait_until("no process is left", || survivors().is_empty());
}

pub(crate) fn a_program_that_obeys_is_not_killed() {
    let mut slow = shell();
    slow.grace_ms = 60_000;
    slow.stop_signal = Signal::USR1;
    let mut server = Server::with(vec![slow]);
    let mut stream = server.shell(1, "trap 'exit 7' USR1; echo; while :; do sleep 0.01; done");
    server.worker.started(1);
    wait_for_line(&mut stream);
    server.worker.connection.stop(1).expect("sent");
    // A second request does not shorten the grace period.
    server.worker.connection.stop(1).expect("sent");
    assert_eq!(server.worker.reply(), SpawnerReply::Exited { id: 1, status: 7 });
    // A program that is stopped during its execution by the kernel ends, too.
    for id in 2..20 {
        let _stream = server.shell(id, "exec sleep 1000");
        server.worker.connection.signal(id, 15).expect("sent");
        assert!(matches!(server.worker.reply(), SpawnerReply::Started { .. }));
        assert_eq!(server.worker.reply(), SpawnerReply::Signaled { id, signal: 15 });
    }
}

pub(crate) fn signals_reach_the_main_process() {
    let mut server = Server::new();
    let mut stream = server.shell(1, "trap 'echo hup' HUP; echo; while :; do sleep 0.01; done");
    server.worker.started(1);
    wait_for_line(&mut stream);
    server.worker.connection.signal(1, 1).expect("sent");
    wait_for_line(&mut stream);
    server.worker.connection.signal(1, 3).expect("sent");
    assert_eq!(server.worker.reply(), SpawnerReply::Signaled { id: 1, signal: 3 });
}

pub(crate) fn programs_of_a_closed_connection_are_stopped() {
    let mut server = Server::new();
    let mut other = Worker::connect(&server.spawner);
    let _kept = other.start(server.request(1, "sh", &["exec sleep 1000"]));
    let kept = other.started(1);
    let _streams: Vec<_> = (1..=3).map(|id| server.shell(id, "sleep 1000; true")).collect();
    let programs: Vec<i32> = server.worker.all_started(3).into_values().collect();
    // Some are requested and closed before the spawner has read the request.
    let _more: Vec<_> = (4..=6).map(|id| server.shell(id, "sleep 1000; true")).collect();
    drop(std::mem::replace(&mut server.worker, Worker::connect(&server.spawner)));
    wait_until("its programs are gone", || !programs.iter().any(|pid| is_alive(*pid)));
    wait_until("only that of the other worker is left", || survivors() == [kept]);
    server.assert_works();
}

pub(crate) fn stopping_ends_all() {
    let mut server = Server::new();
    let mut ignoring = server.shell(1, "trap '' TERM; echo; while :; do sleep 1000; done");
    let mut obeying = server.shell(
        2,
        "trap 'echo end >&2; exit' TERM; echo; \
        while :; do sleep 0.01; done",
    );
    server.worker.all_started(2);
    wait_for_line(&mut ignoring);
    wait_for_line(&mut obeying);
    let _daemon = server.shell(3, "(setsid sleep 1000 &) & sleep 1000");
    server.worker.started(3);
    let Server { spawner, mut worker, .. } = server;
    spawner.stop(Duration::from_secs(60)).expect("nothing is left");
    assert_eq!(survivors(), []);
    let ends = worker.ends(3);
    assert_eq!(ends[&1], SpawnerReply::Signaled { id: 1, signal: 9 });
    assert_eq!(ends[&2], SpawnerReply::Exited { id: 2, status: 0 });
    assert_eq!(worker.try_reply(), None);
    assert!(log().contains("]: end\n"), "what a program writes at its end is logged");
}

/// Returns the number of runs of a program: 100 000 in the long tests.
fn runs() -> u64 {
    if std::env::var_os("PINION_LONG").is_some() { 100_000 } else { 1000 }
}

pub(crate) fn many_runs_leave_nothing() {
    let mut server = Server::with(vec![row("true", "/bin/true")]);
    let pid = server.pid();
    let spawner = pid.as_raw_nonzero().get();
    let mut run = |ids: std::ops::Range<u64>| {
        for id in ids {
            let (_own, program) = stream_sockets().expect("sockets");
            let request = server.request(id, "true", &[]);
            server.worker.connection.start(request, program.as_fd(), None).expect("sent");
            drop(program);
            server.worker.started(id);
            assert_eq!(server.worker.reply(), SpawnerReply::Exited { id, status: 0 });
        }
    };
    run(0..100);
    let open = descriptors(spawner);
    let kib = anonymous_kib(pid);
    run(100..runs());
    assert_eq!(descriptors(spawner), open);
    assert_eq!(children(pid), []);
    let more_kib = anonymous_kib(pid).saturating_sub(kib);
    assert!(more_kib <= 16, "{more_kib} KiB more than {kib} KiB");
}

/// Reads one line of a program.
#[track_caller]
pub(crate) fn wait_for_line(stream: &mut std::os::unix::net::UnixStream) {
    stream.flush().expect("a socket");
    let mut byte = [0];
    loop {
        std::io::Read::read_exact(stream, &mut byte).expect("a line");
        if byte == *b"\n" {
            return;
        }
    }
}

//! The end of the server and of the spawner by force: no process of a program survives.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::{env, thread};

use pinion_spawner::spawner_handle::{CgroupUse, ControlError};
use pinion_spawner::worker_connection::{RequestError, stream_sockets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_process};

use crate::process_observer::{is_alive, tagged, wait_until};
use crate::test_server::{Server, shell, survivors};

/// Programs that do not want to end.
const PROGRAMS: [&str; 5] = [
    "exec sleep 1000",
    "trap '' TERM HUP INT; while :; do sleep 1000; done",
    "setsid sh -c 'setsid sleep 1000 & exit' & wait; sleep 1000",
    "setsid sh -c 'setsid sleep 1000 & exit' & wait",
    "exec yes flood >&2",
];

/// A server that starts programs and prints a line after each step. It is killed by its test.
pub(crate) fn serve(arguments: &[String]) {
    let cgroups = match arguments {
        [word] if word == "cgroups" => CgroupUse::IfDelegated,
        _ => CgroupUse::Never,
    };
    let mut server = Server::in_cgroups(vec![shell()], cgroups);
    crate::test_server::remove_log();
    println!("forked {}", server.pid().as_raw_nonzero());
    let mut streams = Vec::new();
    for (id, program) in (1..).zip(PROGRAMS) {
        streams.push(server.shell(id, program));
        println!("sent {id}");
        server.worker.reply();
        println!("started {id}");
    }
    loop {
        thread::park();
    }
}

pub(crate) fn killed_servers_leave_nothing() {
    let steps = 1 + 2 * PROGRAMS.len();
    for (step, way) in (0..steps).flat_map(|step| [(step, "cgroups"), (step, "groups")]) {
        let program = env::current_exe().expect("a path");
        let mut command = Command::new(program);
        command.args(["scenario", "serve", way]).stdout(Stdio::piped());
        let mut server = command.spawn().expect("it runs");
        let lines = BufReader::new(server.stdout.take().expect("a pipe")).lines();
        let lines: Vec<String> = lines.take(step + 1).map(|line| line.expect("text")).collect();
        let spawner = lines[0].strip_prefix("forked ").expect("a process");
        let spawner = spawner.parse().expect("a number");
        server.kill().expect("killed");
        let tag = format!("TEST_TAG={}", server.id());
        server.wait().expect("it has ended");
        wait_until("the spawner is gone", || !is_alive(spawner));
        assert_eq!(tagged(&tag), [], "after {:?}", lines.last());
    }
}

pub(crate) fn killed_spawners_leave_nothing() {
    for (count, cgroups) in (0..=PROGRAMS.len())
        .flat_map(|count| [(count, CgroupUse::IfDelegated), (count, CgroupUse::Never)])
    {
        let mut server = Server::in_cgroups(vec![shell()], cgroups);
        let programs = (1..).zip(&PROGRAMS[..count]);
        let streams: Vec<_> = programs.map(|(id, program)| server.shell(id, program)).collect();
        // The last one is on its way when the spawner is killed.
        for _ in 1..count {
            server.worker.reply();
        }
        kill_process(server.pid(), Signal::KILL).expect("killed");
        let mut polled = [PollFd::new(&server.spawner, PollFlags::empty())];
        let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut polled, Some(&patience)), Ok(1));
        assert!(polled[0].revents().contains(PollFlags::HUP));
        while server.worker.try_reply().is_some() {}
        let (_own, program) = stream_sockets().expect("sockets");
        let request = server.request(9, "sh", &["true"]);
        let sent = server.worker.connection.start(request, program.as_fd(), None);
        assert_eq!(sent, Err(RequestError::Gone));
        assert!(matches!(server.spawner.connect(), Err(ControlError::Gone)));
        wait_until("it can be reaped", || server.spawner.has_ended());
        server.spawner.kill_descendants().expect("nothing is left");
        assert_eq!(survivors(), []);
        drop(streams);
    }
}

pub(crate) fn signals_do_not_end_it() {
    let mut server = Server::new();
    let pid = server.pid();
    for number in (1..32).filter(|number| ![9, 19].contains(number)) {
        let signal = Signal::from_named_raw(number).expect("a signal");
        kill_process(pid, signal).expect("sent");
        server.assert_works();
    }
    assert!(!server.spawner.has_ended());
    assert_eq!(rustix::process::getpgid(Some(pid)), Ok(pid), "the terminal does not reach it");
}

/// A server whose spawner hangs gets the error that it is busy, and never waits for it.
pub(crate) fn a_spawner_that_hangs_blocks_no_connection() {
    let mut server = Server::new();
    let connector = server.spawner.connector();
    kill_process(server.pid(), Signal::STOP).expect("sent");
    let mut connections = Vec::new();
    let error = loop {
        match connector.connect() {
            Ok(connection) => connections.push(connection),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ControlError::Busy), "{error}");
    assert!(!connector.has_ended());
    drop(connections);
    kill_process(server.pid(), Signal::CONT).expect("sent");
    server.assert_works();
    kill_process(server.pid(), Signal::KILL).expect("sent");
    connector.wait_for_end();
    assert!(connector.has_ended());
    assert_eq!(server.spawner.ending_signal(), Some(libc::SIGKILL));
    assert!(matches!(connector.connect(), Err(ControlError::Gone)));
}

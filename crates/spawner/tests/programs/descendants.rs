//! Processes that programs leave: with the programs they end, in a cgroup or without one.

use pinion_spawner::reply::SpawnerReply;
use pinion_spawner::spawner_handle::CgroupUse;
use pinion_spawner::start_table::{Identity, ProgramStart, StartTable};
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::process_observer::{children, is_alive, wait_until};
use crate::program_ends::wait_for_line;
use crate::test_server::{MOMENT, Server, shell, survivors};

/// Starts a spawner in each way to find descendants.
fn in_both_ways(test: fn(&mut Server)) {
    for cgroups in [CgroupUse::Never, CgroupUse::IfDelegated] {
        let mut server = Server::in_cgroups(vec![shell()], cgroups);
        test(&mut server);
        assert_eq!(children(server.pid()), []);
        server.assert_works();
        server.spawner.stop(std::time::Duration::from_secs(60)).expect("nothing is left");
    }
}

#[track_caller]
fn nothing_is_left(server: &Server) {
    wait_until("no process is left", || survivors().is_empty());
    wait_until("nothing is to be reaped", || children(server.pid()).is_empty());
}

pub(crate) fn children_end_with_their_program() {
    in_both_ways(|server| {
        let _stream = server.shell(1, "sleep 1000 & sleep 1000 & (sleep 1000; :) & exit 3");
        server.worker.started(1);
        assert_eq!(server.worker.reply(), SpawnerReply::Exited { id: 1, status: 3 });
        nothing_is_left(server);
    });
}

/// A daemon has a session of its own and a parent that has ended.
const DAEMON: &str = "setsid sh -c 'setsid sleep 1000 & exit' & wait";

pub(crate) fn daemons_end_with_their_program() {
    in_both_ways(|server| {
        let mut stream = server.shell(1, &format!("{DAEMON}; echo; read line"));
        server.worker.started(1);
        wait_for_line(&mut stream);
        // The daemon is a child of the spawner now, and lives as long as its program.
        wait_until("the daemon runs", || children(server.pid()).len() == 2);
        std::thread::sleep(MOMENT);
        assert_eq!(children(server.pid()).len(), 2);
        drop(stream);
        server.worker.ends(1);
        nothing_is_left(server);
    });
}

pub(crate) fn daemons_without_an_environment_end() {
    in_both_ways(|server| {
        let script = "setsid env -i /bin/sh -c 'setsid /bin/sleep 1000 & echo $!' & wait; exit 0";
        let pid: i32 = server.output(1, "sh", &[script]).trim().parse().expect("a process");
        wait_until("it is gone", || !is_alive(pid));
        nothing_is_left(server);
    });
}

pub(crate) fn daemons_of_other_programs_stay() {
    in_both_ways(|server| {
        let mut stream = server.shell(1, &format!("{DAEMON}; echo; read line"));
        server.worker.started(1);
        wait_for_line(&mut stream);
        wait_until("the daemon runs", || children(server.pid()).len() == 2);
        let before = children(server.pid());
        for id in 2..22 {
            assert_eq!(server.output(id, "sh", &[&format!("{DAEMON}; echo end")]), "end\n");
        }
        wait_until("the others are gone", || children(server.pid()) == before);
        drop(stream);
        server.worker.ends(1);
        nothing_is_left(server);
    });
}

/// A spawner that may not look into processes of other users, as that of the service of systemd.
pub(crate) fn daemons_of_other_users_stay() {
    let mut other = ProgramStart { name: "other".to_owned(), ..shell() };
    other.identity = Some(Identity { uid: 65534, gid: 65534, groups: vec![65534] });
    if !geteuid().is_root() {
        let error = StartTable { starts: vec![other] }.check().expect_err("privileges").to_string();
        assert!(error.contains("needs CAP_SETGID"), "{error}");
        return;
    }
    let own = capabilities(None).expect("capabilities");
    let mut fewer = own;
    let dac = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    fewer.effective -= CapabilitySet::SYS_PTRACE | dac;
    for cgroups in [CgroupUse::Never, CgroupUse::IfDelegated] {
        set_capabilities(None, fewer).expect("fewer capabilities");
        let mut server = Server::in_cgroups(vec![shell(), other.clone()], cgroups);
        set_capabilities(None, own).expect("the same capabilities");
        let mut stream = server.start(1, "other", &[&format!("{DAEMON}; echo; read line")]);
        server.worker.started(1);
        wait_for_line(&mut stream);
        wait_until("the daemon runs", || children(server.pid()).len() == 2);
        let before = children(server.pid());
        // Several ends, each after a longer time than the second check of an orphan.
        for id in 2..22 {
            assert_eq!(server.output(id, "sh", &["sleep 0.03; echo end"]), "end\n");
            assert_eq!(children(server.pid()), before, "after {id}");
        }
        // A program of its own user keeps nothing that is older than that program.
        let own_stream = server.shell(30, "read line");
        server.worker.started(30);
        drop(stream);
        server.worker.ends(1);
        wait_until("the daemon is gone", || children(server.pid()).len() == 1);
        drop(own_stream);
        server.worker.ends(1);
        nothing_is_left(&server);
    }
}

/// While a program is being executed, its process has no environment by which it is recognised.
pub(crate) fn daemons_that_are_being_executed_stay() {
    // The server uses no cgroups, which would know the program of a process.
    let mut server = Server::in_cgroups(vec![shell()], CgroupUse::Never);
    // Each execution begins the next one.
    let script = "again='exec /bin/sh -c \"$0\" \"$0\"'
        setsid sh -c 'setsid sh -c \"$0\" \"$0\" & exit' \"$again\" & wait; echo; read line";
    let mut stream = server.shell(1, script);
    server.worker.started(1);
    wait_for_line(&mut stream);
    wait_until("the daemon runs", || children(server.pid()).len() == 2);
    let before = children(server.pid());
    for id in 2..500 {
        let _streams = [server.shell(id, "exit 0"), server.shell(1000 + id, "exit 0")];
        server.worker.ends(2);
        assert!(is_alive(before[1]), "killed by the end of {id}:\n{}", crate::test_server::log());
    }
    drop(stream);
    server.worker.ends(1);
    nothing_is_left(&server);
}

/// A process that ends during its check leaves another one, which is found nevertheless.
pub(crate) fn nothing_is_left_beside_other_programs() {
    let mut server = Server::in_cgroups(vec![shell()], CgroupUse::Never);
    let stream = server.shell(1, "read line");
    server.worker.started(1);
    let before = children(server.pid());
    let chain = "setsid sh -c \"$0\" \"$0\" & exit 0";
    for id in 2..100 {
        let _stream = server.start(id, "sh", &[chain, chain]);
        server.worker.ends(1);
        wait_until("the others are gone", || children(server.pid()) == before);
    }
    drop(stream);
    server.worker.ends(1);
    nothing_is_left(&server);
}

pub(crate) fn programs_that_fork_without_end_end() {
    in_both_ways(|server| {
        // Each process starts another one in a session of its own, and ends.
        let chain = "setsid sh -c \"$0\" \"$0\" & exit 0";
        let _stream = server.start(1, "sh", &[chain, chain]);
        server.worker.ends(1);
        nothing_is_left(server);
    });
}

//! Operations that the system refuses: each failure is reported with its stage, and the spawner
//! continues.

use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use pinion_spawner::reply::{Reason, SpawnerReply, StartStage};
use pinion_spawner::spawner_handle::{CgroupUse, ControlError, Spawner};
use pinion_spawner::start_table::{Identity, ProgramStart, StartTable};
use pinion_spawner::worker_connection::stream_sockets;
use rustix::fs::XattrFlags;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::process_observer::{children, descriptors, wait_until};
use crate::test_server::{Folder, Server, Worker, is_root, log, row, shell, wait_for_log};

pub(crate) fn failures_name_their_stage() {
    let folder = Folder::new("stages");
    let path = |name: &str| folder.0.join(name).to_str().expect("text").to_owned();
    for name in ["gone", "text"] {
        fs::write(path(name), "no program").expect("a file");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path(name), executable).expect("permissions");
    }
    fs::create_dir(path("folder")).expect("a folder");
    let mut lost = row("lost", "/bin/true");
    lost.working_directory = path("folder").into();
    let mut rows = vec![shell(), row("gone", &path("gone")), row("text", &path("text")), lost];
    if is_root() {
        let mut rootless = row("rootless", "/program");
        rootless.chroot = Some(path("root").into());
        fs::create_dir(path("root")).expect("a folder");
        fs::copy("/bin/true", path("root/program")).expect("a copy");
        rows.push(rootless);
    }
    let count = rows.len();
    let mut server = Server::with(rows);
    let mut failed = |id: u64, name: &str, stage: StartStage, errno: i32| {
        let _stream = server.start(id, name, &[]);
        assert_eq!(server.worker.reply(), SpawnerReply::Failed { id, stage, errno }, "{name}");
        server.assert_works();
    };
    failed(1, "text", StartStage::Exec, libc::ENOEXEC);
    if count == 5 {
        // The interpreter is not inside of the new root.
        failed(2, "rootless", StartStage::Exec, libc::ENOENT);
    }
    drop(folder);
    failed(3, "gone", StartStage::Exec, libc::ENOENT);
    failed(4, "lost", StartStage::WorkingDirectory, libc::ENOENT);
    if count == 5 {
        failed(5, "rootless", StartStage::Chroot, libc::ENOENT);
    }
    wait_for_log("pinion: text: cannot execute the program: Exec format error");
    wait_for_log("pinion: lost: cannot enter the working directory: No such file");
    // A failure is reported before its process has ended.
    wait_until("nothing is to be reaped", || children(server.pid()).is_empty());
}

pub(crate) fn a_lack_of_descriptors_is_reported() {
    let rows = vec![row("true", "/bin/true"), shell()];
    let mut server = Server::in_cgroups(rows, CgroupUse::Never);
    server.assert_works();
    let pid = server.pid();
    let spawner = pid.as_raw_nonzero().get();
    let open = descriptors(spawner);
    let before = getrlimit(Resource::Nofile);
    let limit = |descriptors: Option<u64>| {
        let new = Rlimit { current: descriptors, ..before };
        prlimit(Some(pid), Resource::Nofile, new).expect("a limit");
    };
    let first = open.len() as u64;
    let mut reports = Vec::new();
    for (id, allowed) in (0..).zip(first..first + 20) {
        limit(Some(allowed));
        let _stream = server.worker.start(server.request(id, "true", &[]));
        let reply = server.worker.reply();
        if let SpawnerReply::Started { .. } = reply {
            assert_eq!(server.worker.reply(), SpawnerReply::Exited { id, status: 0 });
        }
        reports.push(reply);
        let table = StartTable { starts: vec![row("other", "/bin/true")] };
        if allowed == first {
            let refused = server.spawner.replace_table(&table).expect_err("no descriptors");
            assert!(matches!(refused, ControlError::Refused), "{refused}");
            assert_eq!(Worker::connect(&server.spawner).try_reply(), None);
        }
        assert_eq!(descriptors(spawner), open, "{allowed}");
    }
    // Only the first of two sockets gets a free descriptor, and is not used for both.
    limit(Some(first + 1));
    let (_input, program_input) = stream_sockets().expect("sockets");
    let (_output, program_output) = stream_sockets().expect("sockets");
    let request = server.request(100, "true", &[]);
    let (input, output) = (program_input.as_fd(), Some(program_output.as_fd()));
    server.worker.connection.start(request, input, output).expect("sent");
    let rejected = SpawnerReply::Rejected { id: 100, reason: Reason::Descriptors };
    assert_eq!(server.worker.reply(), rejected);
    limit(before.current);
    let lost = SpawnerReply::Rejected { id: 0, reason: Reason::Descriptors };
    assert_eq!(reports[0], lost);
    let is_expected = |reply: &SpawnerReply| match reply {
        SpawnerReply::Rejected { reason, .. } => *reason == Reason::Descriptors,
        SpawnerReply::Failed { stage, errno, .. } => {
            (*stage, *errno) == (StartStage::Pipes, libc::EMFILE)
        }
        SpawnerReply::Started { .. } => true,
        _ => false,
    };
    assert!(reports.iter().all(is_expected), "{reports:?}");
    assert!(
        reports.iter().any(|reply| matches!(reply, SpawnerReply::Failed { .. })),
        "{reports:?}"
    );
    assert!(matches!(reports.last(), Some(SpawnerReply::Started { .. })), "{reports:?}");
    wait_for_log("spawner: new programs refused, keeping the others: program `other`: cannot open");
    wait_for_log("spawner: closed the connection of a worker: too many open files");
    wait_for_log("pinion: true: cannot open pipes: Too many open files");
    server.assert_works();
}

pub(crate) fn a_lack_of_processes_is_reported() {
    if is_root() {
        // The limit does not apply to root. This process has one thread, so it can become another
        // user.
        let (uid, gid) = (Uid::from_raw(65534), Gid::from_raw(65534));
        set_thread_groups(&[]).expect("groups");
        set_thread_res_gid(gid, gid, gid).expect("a group");
        set_thread_res_uid(uid, uid, uid).expect("a user");
    }
    let mut server = Server::new();
    server.assert_works();
    let pid = server.pid();
    let before = getrlimit(Resource::Nproc);
    let limit = |processes: Option<u64>| {
        let new = Rlimit { current: processes, ..before };
        prlimit(Some(pid), Resource::Nproc, new).expect("a limit");
    };
    limit(Some(0));
    let _stream = server.shell(1, "true");
    let failed = SpawnerReply::Failed { id: 1, stage: StartStage::Fork, errno: libc::EAGAIN };
    assert_eq!(server.worker.reply(), failed);
    limit(before.current);
    server.assert_works();
    wait_for_log("pinion: sh: cannot create a process: Resource temporarily unavailable");
}

/// A kernel may kill each process that is cloned into a cgroup if that of its parent was killed
/// before, even while it was empty.
pub(crate) fn cgroups_that_kill_are_not_used() {
    let path = Path::new("/sys/fs/cgroup/unified");
    let path = if path.exists() { path } else { Path::new("/sys/fs/cgroup") };
    let path = path.join(format!("pinion-test-{}", std::process::id()));
    // If this process may not create cgroups, the spawner uses none.
    let is_delegated = fs::create_dir(&path).is_ok()
        && rustix::fs::setxattr(&path, "user.delegate", b"1", XattrFlags::empty()).is_ok()
        && fs::write(path.join("cgroup.kill"), "1").is_ok()
        && fs::write(path.join("cgroup.procs"), std::process::id().to_string()).is_ok();
    let mut server = Server::new();
    server.assert_works();
    let refused = log().contains("spawner: cannot start programs in cgroups: Operation canceled");
    if !is_delegated {
        assert!(!refused, "no cgroup was tried");
    }
    server.spawner.stop(Duration::from_secs(60)).expect("nothing is left");
    if is_delegated {
        let names = fs::read_dir(&path).expect("a cgroup").map(|entry| entry.expect("an entry"));
        let left = names.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        assert_eq!(left.count(), 0, "the spawner has removed its cgroups");
        let parent = path.parent().expect("a folder").join("cgroup.procs");
        fs::write(parent, std::process::id().to_string()).expect("the way back");
        fs::remove_dir(&path).expect("an empty cgroup");
    }
}

/// The text of a program that is shared with the black-box tests.
const REFUSE_CALLS: &str = include_str!("../../../../tests/src/refuse_calls.py");

/// Runs a scenario in which the kernel refuses some calls, and returns its output.
fn refused(calls: &[libc::c_long], errno: i32, scenario: &str) -> String {
    let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
    let mut command = Command::new("python3");
    command.args(["-c", REFUSE_CALLS, &errno.to_string(), &calls.join(",")]);
    command.arg(env::current_exe().expect("a path")).args(["scenario", scenario]);
    let output = command.output().expect("python3");
    let text = String::from_utf8(output.stdout).expect("text");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{calls:?}: {text}{error}");
    text
}

/// Starts a program with all settings that need system calls, and prints the reply.
pub(crate) fn try_start(_: &[String]) {
    let mut server = Server::with(vec![with_settings()]);
    let _stream = server.start(1, "sh", &["true"]);
    println!("{:?}", server.worker.ends(1)[&1]);
    crate::test_server::remove_log();
}

fn with_settings() -> ProgramStart {
    let mut start = shell();
    start.nice = Some(1);
    if is_root() {
        start.identity = Some(Identity { uid: 65534, gid: 65534, groups: vec![65534] });
        start.chroot = Some("/".into());
    }
    start
}

pub(crate) fn refused_calls_are_reported() {
    let failed = |call, stage: StartStage| {
        let expected = SpawnerReply::Failed { id: 1, stage, errno: libc::EPERM };
        assert_eq!(refused(&[call], libc::EPERM, "start"), format!("{expected:?}\n"));
    };
    failed(libc::SYS_pipe2, StartStage::Pipes);
    failed(libc::SYS_setpriority, StartStage::Nice);
    if is_root() {
        failed(libc::SYS_chroot, StartStage::Chroot);
        failed(libc::SYS_setgroups, StartStage::Groups);
        failed(libc::SYS_setresgid, StartStage::Group);
        failed(libc::SYS_setresuid, StartStage::User);
    }
    // Without these calls the spawner uses alternatives.
    let optional = [libc::SYS_clone3, libc::SYS_mkdirat, libc::SYS_pidfd_open];
    let exited = SpawnerReply::Exited { id: 1, status: 0 };
    for call in optional {
        assert_eq!(refused(&[call], libc::ENOSYS, "start"), format!("{exited:?}\n"), "{call}");
    }
}

/// Forks a spawner and prints the result.
pub(crate) fn try_fork(_: &[String]) {
    let table = StartTable { starts: vec![shell()] };
    match Spawner::fork(&table, CgroupUse::IfDelegated, || ()) {
        Ok(_) => println!("forked"),
        Err(error) => println!("{error}"),
    }
}

pub(crate) fn a_server_without_calls_is_refused() {
    let cannot = "cannot start the process that starts programs: cannot";
    let cases: [(&[libc::c_long], &str); 4] = [
        (&[libc::SYS_socketpair], "open sockets"),
        (&[libc::SYS_prctl], "become a subreaper"),
        (&[libc::SYS_clone, libc::SYS_clone3], "create a process"),
        (&[1_000_000], ""),
    ];
    for (calls, operation) in cases {
        let text = refused(calls, libc::EPERM, "fork");
        let error = format!("{cannot} {operation}: Operation not permitted (os error 1)\n");
        assert_eq!(text, if operation.is_empty() { "forked\n" } else { &error });
    }
    for call in [libc::SYS_signalfd4, libc::SYS_close_range, libc::SYS_setsid] {
        let text = refused(&[call], libc::EPERM, "fork");
        assert!(text.starts_with("the process that starts programs has ended"), "{text}");
    }
}

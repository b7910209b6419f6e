//! The start of a program: its sockets, its process, its environment, and the settings of its row.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use pinion_spawner::reply::{Reason, SpawnerReply, StartStage};
use pinion_spawner::spawner_handle::ControlError;
use pinion_spawner::start_table::{
    Identity, MARKER, ProgramKind, ProgramStart, ResourceLimit, StartTable,
};
use pinion_spawner::worker_connection::stream_sockets;
use rustix::process::{Resource, Signal, getpgid, getsid, kill_process};

use crate::process_observer::{self, anonymous_kib, descriptors, status, wait_until};
use crate::test_server::{MOMENT, Server, Worker, is_root, log, row, shell, wait_for_log};

pub(crate) fn programs_talk_over_their_sockets() {
    let mut server = Server::with(vec![row("cat", "/bin/cat"), shell()]);
    let mut stream = server.start(1, "cat", &[]);
    server.worker.started(1);
    stream.write_all(b"over and back").expect("written");
    stream.shutdown(Shutdown::Write).expect("an end");
    let mut output = String::new();
    stream.read_to_string(&mut output).expect("text");
    assert_eq!(output, "over and back");
    assert_eq!(server.worker.reply(), SpawnerReply::Exited { id: 1, status: 0 });

    // Standard input and output may be two sockets.
    let (input, program_input) = stream_sockets().expect("sockets");
    let (output, program_output) = stream_sockets().expect("sockets");
    let request = server.request(2, "cat", &[]);
    let sent = server.worker.connection.start(
        request,
        program_input.as_fd(),
        Some(program_output.as_fd()),
    );
    sent.expect("sent");
    drop((program_input, program_output));
    let (mut input, mut output) = (UnixStream::from(input), UnixStream::from(output));
    output.set_nonblocking(false).expect("a socket");
    input.write_all(b"in one, out of the other").expect("written");
    drop(input);
    let mut text = String::new();
    output.read_to_string(&mut text).expect("text");
    assert_eq!(text, "in one, out of the other");
}

pub(crate) fn a_process_begins_clean() {
    let mut server = Server::with(vec![row("cat", "/bin/cat"), shell()]);
    // Many descriptors and blocked signals in the server and in the spawner reach no program.
    let _held: Vec<UnixStream> = (10..20).map(|id| server.start(id, "cat", &[])).collect();
    server.worker.all_started(10);
    let _stream = server.start(1, "cat", &[]);
    let pid = server.worker.started(1);
    assert_eq!(descriptors(pid), [0, 1, 2]);
    for field in ["SigBlk", "SigIgn", "SigCgt"] {
        assert_eq!(status(pid, field), "0000000000000000", "{field}");
    }
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    assert_eq!(status(pid, "PPid"), server.pid().as_raw_nonzero().to_string());
    let process = rustix::process::Pid::from_raw(pid);
    assert_eq!(getsid(process).ok(), process);
    assert_eq!(getpgid(process).ok(), process);
    assert_eq!(
        std::fs::read_link(format!("/proc/{pid}/cwd")).expect("a link"),
        std::path::Path::new("/")
    );
}

pub(crate) fn the_environment_is_complete() {
    let mut env = row("env", "/usr/bin/env");
    env.environment = vec![("ONE".into(), "1".into()), ("EMPTY".into(), "".into())];
    let mut server = Server::with(vec![env]);
    let output = server.output(1, "env", &[]);
    let lines: Vec<&str> = output.lines().collect();
    let [marker, one, empty] = lines[..] else { panic!("{output}") };
    assert_eq!((one, empty), ("ONE=1", "EMPTY="));
    let marker = marker.strip_prefix(MARKER).expect("the marker");
    let other = server.output(2, "env", &[]);
    assert!(!other.contains(marker), "each start has a marker of its own");
}

pub(crate) fn settings_of_the_row_hold() {
    let mut start = shell();
    start.nice = Some(7);
    start.working_directory = "/usr/bin".into();
    start.arguments = vec!["-c".into()];
    start.resource_limits = vec![
        ResourceLimit { resource: Resource::Core, soft: Some(0), hard: Some(0) },
        ResourceLimit { resource: Resource::Nofile, soft: Some(77), hard: Some(99) },
    ];
    let mut server = Server::with(vec![start]);
    let script = "pwd; nice; ulimit -c; ulimit -n; ulimit -Hn; echo $0-$1-$#";
    let output = server.output(1, "sh", &[script, "name", "an argument"]);
    assert_eq!(output, "/usr/bin\n7\n0\n77\n99\nname-an argument-1\n");
    // A kernel without autogroups writes nothing there.
    let script = "cat /proc/self/autogroup 2> /dev/null || true";
    let autogroup = server.output(2, "sh", &[script]);
    assert!(autogroup.is_empty() || autogroup.ends_with(" nice 7\n"), "{autogroup}");
}

pub(crate) fn another_user_has_no_way_back() {
    let mut start = shell();
    start.identity = Some(Identity { uid: 65534, gid: 65533, groups: vec![65532, 65533] });
    if !is_root() {
        let error = StartTable { starts: vec![start] }.check().expect_err("privileges").to_string();
        assert!(error.contains("needs CAP_SETGID"), "{error}");
        return;
    }
    let mut server = Server::with(vec![start]);
    let mut stream = server.shell(1, "read line");
    let pid = server.worker.started(1);
    assert_eq!(status(pid, "Uid"), "65534\t65534\t65534\t65534");
    assert_eq!(status(pid, "Gid"), "65533\t65533\t65533\t65533");
    assert_eq!(status(pid, "Groups"), "65532 65533");
    for field in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status(pid, field), "0000000000000000", "{field}");
    }
    // The signal that ends it with the spawner is not lost with the change of the user.
    stream.write_all(b"line\n").expect("written");
    assert_eq!(server.worker.reply(), SpawnerReply::Exited { id: 1, status: 0 });
    let _stream = server.shell(2, "exec sleep 1000");
    let pid = server.worker.started(2);
    kill_process(server.pid(), Signal::KILL).expect("killed");
    wait_until("the program is gone", || !process_observer::is_alive(pid));
    server.spawner.kill_descendants().expect("nothing is left");
}

pub(crate) fn a_root_directory_is_a_root() {
    // On a system with merged folders /usr contains everything that a shell needs.
    let mut start = shell();
    start.chroot = Some("/usr".into());
    start.working_directory = "/share".into();
    if !is_root() {
        let error = StartTable { starts: vec![start] }.check().expect_err("privileges").to_string();
        assert!(error.contains("needs CAP_SYS_CHROOT"), "{error}");
        return;
    }
    let mut server = Server::with(vec![start]);
    let output = server.output(1, "sh", &["pwd; test -e /usr || echo inside; cd ..; pwd; pwd -P"]);
    assert_eq!(output, "/share\ninside\n/\n/\n");
}

pub(crate) fn the_spawner_is_small_and_visible() {
    let mut server = Server::new();
    server.assert_works();
    let pid = server.pid().as_raw_nonzero().get();
    let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).expect("a process");
    assert_eq!(read("comm"), b"pinion: spawner\n");
    assert!(read("cmdline").starts_with(b"pinion: spawner\0"));
    assert_eq!(status(pid, "Threads"), "1");
    // It sleeps as long as there is no event, also while a program runs.
    let _stream = server.shell(1, "exec sleep 1000");
    server.worker.started(1);
    let switches = || {
        let count = |field| status(pid, field).parse::<u64>().expect("a number");
        count("voluntary_ctxt_switches") + count("nonvoluntary_ctxt_switches")
    };
    wait_until("it sleeps", || status(pid, "State").starts_with('S'));
    let before = switches();
    std::thread::sleep(MOMENT);
    assert_eq!(switches(), before);
    let kib = anonymous_kib(server.pid());
    println!("anonymous memory of the spawner: {kib} KiB");
    assert!(kib <= 1024, "{kib} KiB");
}

pub(crate) fn tables_are_replaced() {
    let mut server = Server::new();
    let first = server.request(1, "sh", &["echo first"]);
    let mut other = shell();
    other.name = "other".into();
    server.replace(vec![row("true", "/bin/true"), other.clone()]);
    assert_eq!(server.output(2, "other", &["echo second"]), "second\n");
    // A request that was made for the earlier table keeps its meaning.
    let mut stream = server.worker.start(first.clone());
    let mut output = String::new();
    stream.read_to_string(&mut output).expect("text");
    assert_eq!(output, "first\n");
    server.worker.ends(1);
    // Running programs are not touched.
    let mut stream = server.start(3, "other", &["read line; echo $line"]);
    server.worker.started(3);
    server.replace(vec![shell()]);
    stream.write_all(b"still there\n").expect("written");
    output.clear();
    stream.read_to_string(&mut output).expect("text");
    assert_eq!(output, "still there\n");
    server.worker.ends(1);
    let _stream = server.worker.start(first);
    let rejected = SpawnerReply::Rejected { id: 1, reason: Reason::StaleTable };
    assert_eq!(server.worker.reply(), rejected);

    // A wrong table changes nothing.
    let wrong = StartTable { starts: vec![row("wrong", "/no/such")] };
    let refused = server.spawner.replace_table(&wrong).expect_err("a wrong table");
    assert!(matches!(refused, ControlError::Table(_)), "{refused}");
    server.assert_works();
    // A table that is valid for the server may be invalid for the spawner.
    let folder = crate::test_server::Folder::new("table");
    let program = folder.0.join("program");
    std::fs::copy("/bin/true", &program).expect("a copy");
    let table = StartTable { starts: vec![row("gone", program.to_str().expect("text"))] };
    server.spawner.replace_table(&table).expect("a right table");
    let mut worker = Worker::connect(&server.spawner);
    drop(folder);
    let mut request = server.request(9, "sh", &[]);
    request.generation = server.spawner.generation();
    let _stream = worker.start(request);
    let reply = worker.reply();
    assert!(matches!(reply, SpawnerReply::Failed { id: 9, errno: libc::ENOENT, .. }), "{reply:?}");
    wait_for_log("pinion: gone: cannot execute the program: No such file or directory");
}

/// An unchanged row stays although its program is missing; others are checked.
pub(crate) fn kept_rows_are_not_checked_again() {
    let folder = crate::test_server::Folder::new("kept");
    let program = folder.0.join("program");
    std::fs::copy("/bin/true", &program).expect("a copy");
    let kept = row("kept", program.to_str().expect("text"));
    let mut server = Server::with(vec![shell(), kept.clone()]);
    drop(folder);
    server.replace(vec![shell(), kept.clone(), row("true", "/bin/true")]);
    let _stream = server.start(1, "true", &[]);
    assert_eq!(server.worker.ends(1)[&1], SpawnerReply::Exited { id: 1, status: 0 });
    let _stream = server.start(2, "kept", &[]);
    let reply = server.worker.reply();
    assert!(matches!(reply, SpawnerReply::Failed { id: 2, errno: libc::ENOENT, .. }), "{reply:?}");
    server.assert_works();
    // The same row with another number, and a row that differs, are new.
    let mut other = kept.clone();
    other.arguments = vec!["other".into()];
    for starts in [vec![kept.clone(), shell()], vec![shell(), other]] {
        let refused = server.spawner.replace_table(&StartTable { starts }).expect_err("a new row");
        assert!(matches!(refused, ControlError::Table(_)), "{refused}");
    }
    // Checks that concern all rows are also made for those that are kept.
    let mut twice = row("sh", "/bin/true");
    twice.arguments = vec!["x".into()];
    let starts = vec![shell(), kept, row("true", "/bin/true"), twice];
    let refused = server.spawner.replace_table(&StartTable { starts }).expect_err("one name");
    assert!(refused.to_string().contains("two programs with the name `sh`"), "{refused}");
    server.assert_works();
}

/// The server stops waiting for a table. The spawner uses that table nevertheless, and neither its
/// reply nor its rows are mistaken for those of the next one.
pub(crate) fn a_late_answer_is_not_that_of_a_later_table() {
    let mut server = Server::new();
    let first = server.request(1, "sh", &["echo first"]);
    let named = |name: &str, text: &str| {
        let mut start = row(name, "/bin/echo");
        start.arguments = vec![text.into()];
        start
    };
    kill_process(server.pid(), Signal::STOP).expect("sent");
    let lost = StartTable { starts: vec![shell(), named("lost", "lost")] };
    let error = server.spawner.replace_table(&lost).expect_err("it is stopped");
    assert!(matches!(error, ControlError::Timeout), "{error}");
    kill_process(server.pid(), Signal::CONT).expect("sent");
    let refused = StartTable { starts: vec![shell(), row("wrong", "/no/such")] };
    server.spawner.replace_table(&refused).expect_err("a wrong table");
    server.replace(vec![shell(), named("next", "next")]);
    assert_eq!(server.output(2, "next", &[]), "next\n");
    let mut stream = server.worker.start(first);
    let mut output = String::new();
    stream.read_to_string(&mut output).expect("text");
    assert_eq!(output, "first\n", "of the table that was in use before");
    server.worker.ends(1);
}

/// They have nothing to read and write to the log, and the spawner does not log their ends.
pub(crate) fn supervised_programs_have_no_sockets() {
    let script = "read line || echo nothing to read; echo error >&2; kill -SEGV $$";
    let mut program = row("app", "/bin/sh");
    program.kind = ProgramKind::Supervised;
    program.arguments = vec!["-c".into(), script.into()];
    let file = std::env::temp_dir().join(format!("pinion-missing-{}", std::process::id()));
    std::fs::copy("/bin/true", &file).expect("a program");
    let missing =
        ProgramStart { kind: program.kind, ..row("missing", file.to_str().expect("UTF-8")) };
    let mut server = Server::with(vec![program, missing, shell()]);
    server.worker.connection.start_supervised(server.request(1, "app", &[]), &[]).expect("sent");
    let pid = server.worker.started(1);
    assert_eq!(server.worker.reply(), SpawnerReply::Signaled { id: 1, signal: 11 });
    let lines = ["nothing to read", "error"].map(|line| format!("pinion: app[{pid}]: {line}\n"));
    assert_eq!(log(), lines.concat());
    std::fs::remove_file(&file).expect("removed");
    server
        .worker
        .connection
        .start_supervised(server.request(4, "missing", &[]), &[])
        .expect("sent");
    let failed = SpawnerReply::Failed { id: 4, stage: StartStage::Exec, errno: 2 };
    assert_eq!(server.worker.reply(), failed);
    let rejected = |id| SpawnerReply::Rejected { id, reason: Reason::Descriptors };
    let (one, other) = stream_sockets().expect("sockets");
    let two = server.worker.connection.start(
        server.request(2, "app", &[]),
        one.as_fd(),
        Some(other.as_fd()),
    );
    two.expect("sent");
    assert_eq!(server.worker.reply(), rejected(2), "it has no use for two sockets");
    server
        .worker
        .connection
        .start_supervised(server.request(3, "sh", &["true"]), &[])
        .expect("sent");
    assert_eq!(server.worker.reply(), rejected(3), "what a worker starts needs one");
    assert_eq!(log(), lines.concat(), "nothing more is logged");
    server.assert_works();
}

/// A program accepts connections from a socket that stays when the program ends, and has a file.
pub(crate) fn a_supervised_program_has_a_listening_socket() {
    let script = "import socket\n\
        listener = socket.socket(fileno=0)\n\
        connection, _ = listener.accept()\n\
        connection.sendall(connection.recv(100).upper())\n";
    let path = std::env::temp_dir().join(format!("pinion-program-{}", std::process::id()));
    std::fs::write(&path, script).expect("a file");
    let file = std::fs::File::open(&path).expect("a file");
    std::fs::remove_file(&path).expect("removed");
    let mut program = row("app", "/usr/bin/env");
    program.kind = ProgramKind::Supervised;
    program.environment = vec![("PATH".into(), std::env::var_os("PATH").expect("a path"))];
    program.arguments = ["python3", "/dev/fd/3"].map(Into::into).into();
    let mut server = Server::with(vec![program]);
    let address = SocketAddr::from_abstract_name(format!("pinion-{}", std::process::id()));
    let address = address.expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("a socket");
    for id in 1..=3 {
        // The connection waits for the program.
        let mut client = UnixStream::connect_addr(&address).expect("connected");
        client.write_all(b"text").expect("written");
        let request = server.request(id, "app", &[]);
        let connection = &server.worker.connection;
        let sent = connection.start_supervised(request, &[listener.as_fd(), file.as_fd()]);
        sent.expect("sent");
        server.worker.started(id);
        let mut text = String::new();
        client.read_to_string(&mut text).expect("text");
        assert_eq!(text, "TEXT");
        assert_eq!(server.worker.reply(), SpawnerReply::Exited { id, status: 0 });
    }
}

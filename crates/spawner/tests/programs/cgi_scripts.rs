//! CGI scripts: a worker names a file below the folder of a row, and variables of its environment.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use pinion_spawner::reply::{Reason, SpawnerReply, StartStage};
use pinion_spawner::start_table::{Identity, ProgramKind, ProgramStart};
use pinion_spawner::worker_request::{CgiScript, StartRequest};

use crate::test_server::{Folder, Server, is_root, log, row, shell};

/// Returns a row for the scripts of a folder.
fn cgi(folder: &Path) -> ProgramStart {
    let mut start = row("cgi", folder.to_str().expect("text"));
    start.kind = ProgramKind::Cgi;
    // The tests may run as root.
    start.cgi_as_root = true;
    start
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, content).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

fn request<'a>(server: &Server, id: u64, path: &'a str, variables: &'a str) -> StartRequest<'a> {
    let (path, variables) = (path.as_bytes(), variables.as_bytes());
    StartRequest { script: Some(CgiScript { path, variables }), ..server.request(id, "cgi", &[]) }
}

/// Runs a script to its end and returns its output.
fn output(server: &mut Server, id: u64, path: &str, variables: &str) -> String {
    let stream = server.worker.start(request(server, id, path, variables));
    let output = std::io::read_to_string(stream).expect("text");
    assert_eq!(server.worker.reply(), SpawnerReply::Exited { id, status: 0 }, "{output}");
    output
}

fn rejection(server: &mut Server, id: u64, request: StartRequest<'_>) -> Reason {
    let _stream = server.worker.start(request);
    match server.worker.reply() {
        SpawnerReply::Rejected { id: rejected, reason } if rejected == id => reason,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_script_has_its_folder_and_its_variables() {
    let folder = Folder::new("cgi");
    write(&folder.0.join("one"), "#!/bin/sh\necho \"$0 $# $PWD\"; pwd -P; exec env\n");
    write(&folder.0.join("b/c/two"), "#!/bin/sh\npwd -P\n");
    let mut row = cgi(&folder.0);
    row.environment.push(("FIXED".into(), "row".into()));
    row.environment.push(("REMOTE_USER".into(), "row".into()));
    row.cgi_variables = vec!["FIXED".into(), "OWN".into()];
    let mut server = Server::with(vec![row]);
    let variables = "REQUEST_METHOD=GET\0HTTP_X_A=1=2\nx\0REMOTE_USER=worker\0REMOTE_USERS=\0";
    let variables = format!("{variables}FIXED=worker\0OWN=yes\0");
    let refused = request(&server, 1, "one", &variables);
    assert_eq!(rejection(&mut server, 1, refused), Reason::Variable, "REMOTE_USERS is none");
    let variables = variables.replace("REMOTE_USERS=\0", "");
    let output_of_one = output(&mut server, 2, "one", &variables);
    let path = folder.0.to_str().expect("text");
    let lines: Vec<&str> = output_of_one.lines().collect();
    assert_eq!(lines[..2], [&format!("{path}/one 0 {path}"), path]);
    for expected in ["REQUEST_METHOD=GET", "HTTP_X_A=1=2", "x", "OWN=yes"] {
        assert!(lines.contains(&expected), "{expected}: {output_of_one}");
    }
    // The worker cannot change variables that the row sets.
    for expected in ["FIXED=row", "REMOTE_USER=row"] {
        assert!(lines.contains(&expected), "{expected}: {output_of_one}");
    }
    assert!(!output_of_one.contains("=worker"), "{output_of_one}");
    assert_eq!(output(&mut server, 3, "b/c/two", ""), format!("{path}/b/c\n"));
}

/// A script that has no socket for its input finds the end of the input, and may close its output
/// when it is done.
pub(crate) fn a_script_without_input_can_close_its_output() {
    let folder = Folder::new("cgi");
    write(&folder.0.join("closes"), "#!/bin/sh\ncat; echo done; exec >&-; exec sleep 1000\n");
    let mut server = Server::with(vec![cgi(&folder.0)]);
    let stream = server.worker.start(request(&server, 1, "closes", ""));
    assert_eq!(std::io::read_to_string(stream).expect("text"), "done\n");
    server.worker.connection.stop(1).expect("sent");
    assert_eq!(server.worker.reply(), SpawnerReply::Signaled { id: 1, signal: 15 });
}

pub(crate) fn workers_set_no_other_variables() {
    let folder = Folder::new("cgi");
    write(&folder.0.join("env"), "#!/bin/sh\nexec env\n");
    let mut server = Server::with(vec![cgi(&folder.0)]);
    for (id, name) in
        (1..).zip(["LD_PRELOAD", "PATH", "HTTP_PROXY", "BASH_ENV", "PINION_START", "http_x", "A"])
    {
        let variables = format!("REQUEST_METHOD=GET\0{name}=x\0");
        let refused = request(&server, id, "env", &variables);
        assert_eq!(rejection(&mut server, id, refused), Reason::Variable, "{name}");
    }
    let shown = output(&mut server, 100, "env", "HTTP_A=1\0");
    assert!(shown.contains("HTTP_A=1\n") && shown.contains("PATH=/usr/bin:/bin\n"), "{shown}");
}

pub(crate) fn nothing_outside_of_the_folder_is_executed() {
    let folder = Folder::new("cgi");
    write(&folder.0.join("outside"), "#!/bin/sh\necho outside\n");
    write(&folder.0.join("scripts/inside"), "#!/bin/sh\necho inside\n");
    let scripts = folder.0.join("scripts");
    symlink("../outside", scripts.join("relative")).expect("a link");
    symlink(folder.0.join("outside"), scripts.join("absolute")).expect("a link");
    symlink("inside", scripts.join("within")).expect("a link");
    symlink("..", scripts.join("up")).expect("a link");
    symlink("/proc/self/root/bin", scripts.join("magic")).expect("a link");
    let mut server = Server::with(vec![cgi(&scripts)]);
    let paths = ["relative", "absolute", "within", "up/outside", "magic/true"];
    for (id, path) in (1..).zip(paths) {
        let _stream = server.worker.start(request(&server, id, path, ""));
        let failed = SpawnerReply::Failed { id, stage: StartStage::Script, errno: libc::ELOOP };
        assert_eq!(server.worker.reply(), failed, "{path}");
    }
    assert_eq!(output(&mut server, 100, "inside", ""), "inside\n");
}

pub(crate) fn failures_of_scripts_name_their_stage() {
    let folder = Folder::new("cgi");
    let path = |name: &str| folder.0.join(name);
    write(&path("text"), "no program\n");
    write(&path("lost"), "#!/no/such/interpreter\n");
    write(&path("below/file"), "#!/bin/sh\n");
    write(&path("plain"), "#!/bin/sh\n");
    fs::set_permissions(path("plain"), fs::Permissions::from_mode(0o644)).expect("a mode");
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("a socket");
    let mut server = Server::with(vec![cgi(&folder.0), shell()]);
    let failures = [
        ("none", StartStage::Script, libc::ENOENT),
        ("none/below", StartStage::Script, libc::ENOENT),
        ("plain/below", StartStage::Script, libc::ENOTDIR),
        ("below", StartStage::ScriptType, libc::EISDIR),
        ("socket", StartStage::ScriptType, libc::EACCES),
        ("plain", StartStage::ScriptMode, libc::EACCES),
        ("text", StartStage::Exec, libc::ENOEXEC),
        ("lost", StartStage::Interpreter, libc::ENOENT),
    ];
    for (id, (path, stage, errno)) in (1..).zip(failures) {
        let _stream = server.worker.start(request(&server, id, path, ""));
        assert_eq!(server.worker.reply(), SpawnerReply::Failed { id, stage, errno }, "{path}");
    }
    server.assert_works();
    drop(folder);
    let _stream = server.worker.start(request(&server, 100, "below/file", ""));
    let failed =
        SpawnerReply::Failed { id: 100, stage: StartStage::ScriptFolder, errno: libc::ENOENT };
    assert_eq!(server.worker.reply(), failed);
    // The worker logs why, with the request.
    assert!(!log().contains("cannot"), "{}", log());
}

pub(crate) fn a_script_runs_in_its_root_directory_as_its_user() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("cgi");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).expect("a mode");
    write(&folder.0.join("cgi-bin/lost"), "#!/bin/sh\necho\n");
    write(&folder.0.join("cgi-bin/secret"), "#!/bin/sh\n");
    fs::set_permissions(folder.0.join("cgi-bin/secret"), fs::Permissions::from_mode(0o700))
        .expect("a mode");
    write(&folder.0.join("cgi-bin/id"), "#!/bin/sh\nid -u; pwd; echo \"$0\"\n");
    let mut row = cgi(Path::new("/cgi-bin"));
    row.chroot = Some(folder.0.clone());
    row.identity = Some(Identity { uid: 65534, gid: 65534, groups: vec![] });
    row.cgi_as_root = false;
    let mut server = Server::with(vec![row]);
    let _stream = server.worker.start(request(&server, 1, "lost", ""));
    let failed =
        SpawnerReply::Failed { id: 1, stage: StartStage::Interpreter, errno: libc::ENOENT };
    assert_eq!(server.worker.reply(), failed);
    let _stream = server.worker.start(request(&server, 2, "secret", ""));
    let failed = SpawnerReply::Failed { id: 2, stage: StartStage::Exec, errno: libc::EACCES };
    assert_eq!(server.worker.reply(), failed);
    copy_with_libraries("/bin/sh", &folder.0);
    copy_with_libraries("/usr/bin/id", &folder.0);
    assert_eq!(output(&mut server, 3, "id", ""), "65534\n/cgi-bin\n/cgi-bin/id\n");
}

/// Copies a program and its shared libraries below a root directory.
fn copy_with_libraries(program: &str, root: &Path) {
    let listed = Command::new("ldd").arg(program).output().expect("ldd");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.chain([program]) {
        let copy = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
        fs::copy(file, copy).expect("a copy");
    }
}

pub(crate) fn scripts_are_for_rows_of_cgi() {
    let folder = Folder::new("cgi");
    write(&folder.0.join("one"), "#!/bin/sh\necho \"$#\"\n");
    let mut row = cgi(&folder.0);
    row.allows_arguments = true;
    write(&folder.0.join("two"), "#!/bin/sh\n");
    row.cgi_script = Some("one".into());
    let mut server = Server::with(vec![row, shell()]);
    let script = Some(CgiScript { path: b"one", variables: b"" });
    let wrong = StartRequest { script, ..server.request(1, "sh", &["true"]) };
    assert_eq!(rejection(&mut server, 1, wrong), Reason::Script);
    let wrong = server.request(2, "cgi", &[]);
    assert_eq!(rejection(&mut server, 2, wrong), Reason::Script);
    // A client chooses no options of a script, for any row.
    let wrong = StartRequest { script, ..server.request(3, "cgi", &["-s"]) };
    assert_eq!(rejection(&mut server, 3, wrong), Reason::Arguments);
    let wrong = request(&server, 4, "two", "");
    assert_eq!(rejection(&mut server, 4, wrong), Reason::Script, "another script");
    assert_eq!(output(&mut server, 5, "one", ""), "0\n");
}

//! Unix sockets: the owner of a file, the clients that may connect, and the messages when a socket
//! cannot be created.

use pinion_tests::client::ask_unix;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Ended, Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::Signal;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

fn site() -> Folder {
    Folder::with("unix", [("site/index.html", "home")])
}

fn address(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

fn start(io: Io, folder: &Folder, socket: &Path) -> Server {
    let start = Start::site(&folder.join("site")).flags(&["--io", io.as_str()]);
    start.flags(&["--listen", &address(socket)]).start()
}

/// Runs a start that should fail.
fn refused(folder: &Folder, listen: &[&str]) -> Ended {
    let site = folder.join("site").display().to_string();
    let flags = listen.iter().flat_map(|address| ["--listen", *address]);
    let arguments: Vec<&str> = ["serve", &site].into_iter().chain(flags).collect();
    run(&arguments)
}

/// Asserts that the home page is served over the socket.
#[track_caller]
fn responses(socket: &Path) {
    let response = ask_unix(socket, "x");
    assert!(
        response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\nhome"),
        "{response}"
    );
}

#[test]
fn the_socket_file_is_created_and_removed_with_its_server() {
    for io in Io::BOTH {
        let folder = site();
        let socket = folder.join("a.sock");
        let server = start(io, &folder, &socket);
        responses(&socket);
        server.stop();
        assert!(!socket.exists());
    }
}

#[test]
fn a_stopping_server_keeps_the_socket_of_another_one() {
    for io in Io::BOTH {
        let folder = site();
        let socket = folder.join("b.sock");
        let first = start(io, &folder, &socket);
        fs::remove_file(&socket).expect("removed");
        let second = start(io, &folder, &socket);
        first.stop();
        responses(&socket);
        second.stop();
        assert!(!socket.exists());
    }
}

/// A draining server has closed its socket already; its successor replaces the file at once.
#[test]
fn a_draining_server_keeps_the_socket_of_its_successor() {
    for io in Io::BOTH {
        let folder = site();
        folder.write("site/large.bin", vec![b'x'; 30 << 20]);
        let socket = folder.join("h.sock");
        let mut first = start(io, &folder, &socket);
        let mut slow = first.connect();
        slow.send(Request::get("/large.bin").bytes());
        slow.read_some(1000).expect("the first bytes");
        first.signal(Signal::TERM);
        wait_for("a closed socket", || UnixStream::connect(&socket).err());
        let second = start(io, &folder, &socket);
        drop(slow);
        assert!(first.wait().success());
        responses(&socket);
        second.stop();
        assert!(!socket.exists());
    }
}

/// A proxy usually runs as another user.
#[test]
fn the_socket_file_is_writable_by_all_users() {
    for io in Io::BOTH {
        let folder = site();
        let socket = folder.join("c.sock");
        let server = start(io, &folder, &socket);
        let mode = fs::metadata(&socket).expect("a file").permissions().mode();
        assert_eq!(mode & 0o7777, 0o666, "{mode:o}");
        // No other file has become writable by this.
        let log = folder.join("access.log");
        let other = Start::site(&folder.join("site"))
            .flags(&["--listen", &address(&folder.join("d.sock")), "--access-log"])
            .flags(&[&log])
            .start();
        let mode = fs::metadata(&log).expect("a log").permissions().mode();
        assert_eq!(mode & 0o002, 0, "{mode:o}");
        other.stop();
        server.stop();
    }
}

/// Creates a listening socket that accepts no connections, with a full queue of clients.
fn busy(path: &Path) -> (OwnedFd, Vec<OwnedFd>) {
    let unix = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket")
    };
    let address = SocketAddrUnix::new(path).expect("an address");
    let listener = unix();
    bind(&listener, &address).expect("bound");
    listen(&listener, 0).expect("listening");
    let mut clients = Vec::new();
    loop {
        let client = unix();
        match connect(&client, &address) {
            Ok(()) => clients.push(client),
            Err(Errno::AGAIN) => return (listener, clients),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_socket_with_a_full_accept_queue_is_in_use() {
    let folder = site();
    let socket = folder.join("e.sock");
    let _held = busy(&socket);
    let ended = refused(&folder, &[&address(&socket)]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let used = "another program listens there already, `ss -lxp` shows which one";
    assert!(ended.stderr.contains(used), "{}", ended.stderr);
    assert!(socket.exists());
}

#[test]
fn a_file_that_is_not_a_socket_is_refused_with_its_type_and_kept() {
    let folder = site();
    let at = |name: &str| -> PathBuf { folder.join(name) };
    folder.write("file", "x");
    fs::create_dir(at("folder")).expect("a folder");
    symlink("file", at("link")).expect("a link");
    symlink("nothing", at("dangling")).expect("a link");
    mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    for (name, expected_type) in [
        ("file", "a regular file"),
        ("folder", "a folder"),
        ("link", "a symbolic link"),
        ("dangling", "a symbolic link"),
        ("pipe", "a named pipe"),
    ] {
        let before = at(name).symlink_metadata().expect("there").file_type();
        let ended = refused(&folder, &[&address(&at(name))]);
        let said = ended.stderr;
        assert_eq!(ended.code, Some(1), "{said}");
        assert!(
            said.contains(&format!("{expected_type} has this name; remove it or")),
            "{name}: {said}"
        );
        let after = at(name).symlink_metadata().expect("there still").file_type();
        assert_eq!(after, before, "{name}");
    }
}

#[test]
fn a_start_that_fails_leaves_no_file_behind() {
    let folder = site();
    let socket = folder.join("f.sock");
    let listen = address(&socket);
    // An address of documentation (RFC 5737 §3), which no machine has.
    let ended = refused(&folder, &[&listen, "192.0.2.1:1"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("192.0.2.1:1"), "{}", ended.stderr);
    assert!(!socket.exists());
    // The addresses are bound, then the site cannot be built.
    symlink("nothing", folder.join("site/dangling.html")).expect("a link");
    let ended = refused(&folder, &[&listen]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("dangling"), "{}", ended.stderr);
    assert!(!socket.exists());
}

#[test]
fn a_duplicate_address_is_named() {
    let folder = site();
    let socket = folder.join("g.sock");
    for listen in [address(&socket), "127.0.0.1:1".to_owned()] {
        let ended = refused(&folder, &[&listen, "127.0.0.1:0", &listen]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        let twice = format!("--listen {listen} is given twice");
        assert!(ended.stderr.contains(&twice), "{}", ended.stderr);
        assert!(!socket.exists());
    }
}

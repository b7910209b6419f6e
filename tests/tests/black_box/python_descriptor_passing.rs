//! The channel by which processes of Python applications send descriptors of files, with processes
//! that misuse it, and without descriptors for more. They are scripts in the place of the
//! interpreter.

use crate::mounts::site;
use pinion_tests::body::noise;
use pinion_tests::client::Connection;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

/// More than the kernel takes for a client that does not read.
const FILE_BYTES: usize = 24 << 20;
/// Descriptors that a server may have; one of 64 of them can be of a file that is being sent.
const DESCRIPTORS: u64 = 1024;
const FILES: usize = DESCRIPTORS as usize / 64;

/// A process whose actions the path of a request selects. The query names a file.
const PROCESS: &str = r#"#!/usr/bin/python3
import array, marshal, os, socket, struct, sys, threading, time

listener = socket.socket(fileno=os.dup(0))
channels = {}
# How often the server has taken the channel back, and how often a channel has ended.
refusals = ends = 0

def frame(kind, number, content=b''):
    return struct.pack('<III', kind, number, len(content)) + content

def response(number, content):
    head = b'200 OK\nContent-Type: text/plain\nContent-Length: %d\n' % len(content)
    return frame(17, number, struct.pack('<I', len(head)) + head + content)

def send_descriptor(channel, number, path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        rights = array.array('i', [descriptor])
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        channel.sendmsg([struct.pack('<I', number)], ancillary)
    finally:
        os.close(descriptor)

def flood(channel, number, step, path):
    """Sends descriptors for other requests until the server ends the channel."""
    global ends
    try:
        while True:
            number += step
            send_descriptor(channel, number, path)
    except OSError:
        ends += 1

def respond(connection, token, number, name, path):
    """Responds to a request for a file, once the server has named a channel or has not."""
    if not token:
        connection.sendall(response(number, b'no channel'))
        return
    while token not in channels:
        time.sleep(0.001)
    channel = channels[token]
    if name == '/file':
        send_descriptor(channel, number, path)
    elif name == '/repeats':
        threading.Thread(target=flood, args=(channel, number + 1000, 0, path), daemon=True).start()
    elif name == '/numbers':
        threading.Thread(target=flood, args=(channel, number + 1000, 1, path), daemon=True).start()
    elif name == '/garbage':
        channel.sendall(b'no descriptor')
        channel.sendall(b'and none again')
    size = os.path.getsize(path)
    head = b'200 OK\nContent-Type: text/plain\nContent-Length: %d\n' % size
    connection.sendall(frame(18, number, head) + frame(29, number, struct.pack('<QQ', 0, size)))

def serve(connection):
    global refusals
    connection.sendall(frame(16, 0, b'{}'))
    stream = connection.makefile('rb')
    waiting = []
    while True:
        header = stream.read(12)
        if len(header) < 12:
            return
        kind, number, length = struct.unpack('<III', header)
        content = stream.read(length)
        if kind == 1:
            for number, environ, _ in marshal.loads(content):
                name = environ['PATH_INFO']
                if name == '/refusals':
                    connection.sendall(response(number, b'%d' % refusals))
                elif name == '/ends':
                    connection.sendall(response(number, b'%d' % ends))
                else:
                    waiting.append((number, name, environ['QUERY_STRING']))
                    connection.sendall(frame(30, 0))
        elif kind == 10:
            if not content and not waiting:
                refusals += 1
            for request in waiting:
                respond(connection, content, *request)
            waiting = []
        elif kind == 11:
            channels[content] = connection
            threading.Event().wait()
        elif kind == 5:
            connection.sendall(frame(20, number))

def run(connection):
    try:
        serve(connection)
    except OSError:
        pass

while True:
    connection, _ = listener.accept()
    threading.Thread(target=run, args=(connection,), daemon=True).start()
"#;

fn start(folder: &Folder, io: Io) -> Server {
    folder.write("process", PROCESS);
    folder.write("file", noise(FILE_BYTES));
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    let process = folder.join("process");
    fs::set_permissions(&process, Permissions::from_mode(0o755)).expect("permissions");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    folder.write(
        "p.toml",
        format!(
            "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n\
             [[site.mount]]\npath = \"/run\"\nwsgi = \"x\"\n\
             python = {process:?}\npython-threads = 64\n{user}"
        ),
    );
    Start::site(&folder.join("p.toml"))
        .flags(&["--io", io.as_str(), "--workers", "1"])
        .open_files(DESCRIPTORS)
        .start()
}

fn target(folder: &Folder, name: &str) -> String {
    format!("/run/{name}?{}", folder.join("file").display())
}

/// Returns how many times the server has the file of the application open.
fn open_files(server: &Server, folder: &Folder) -> usize {
    let file = folder.join("file").display().to_string();
    server.open_files().into_iter().filter(|open| *open == file).count()
}

/// Files of clients that do not read stay open, so a process learns when there are enough: it reads
/// further ones itself, and gets a channel again when clients have disconnected.
#[test]
fn a_process_loses_its_channel_while_too_many_files_are_open() {
    let folder = site("python-enough-files");
    for io in Io::BOTH {
        let server = start(&folder, io);
        let request = Request::get(&target(&folder, "file"));
        let slow: Vec<Connection> = (1..=FILES)
            .map(|count| {
                let mut connection = server.connect();
                connection.send(request.bytes());
                wait_for("an open file", || (open_files(&server, &folder) == count).then_some(()));
                connection
            })
            .collect();
        wait_for("the word of it", || (server.get("/run/refusals").text() == "1").then_some(()));
        assert_eq!(server.exchange(&request).text(), "no channel");
        assert_eq!(open_files(&server, &folder), FILES);
        drop(slow);
        wait_for("closed files", || (open_files(&server, &folder) == 0).then_some(()));
        assert_eq!(server.exchange(&request).body.len(), FILE_BYTES);
        server.stop();
    }
}

/// A process that sends anything by a channel except descriptors of responses loses the channel,
/// and the request of it: the server reads no more of the channel, and continues.
#[test]
fn a_process_that_misuses_its_channel_loses_it() {
    let folder = site("python-channels");
    for io in Io::BOTH {
        let server = start(&folder, io);
        for (name, ends) in [("repeats", "1"), ("numbers", "2"), ("garbage", "2"), ("none", "2")] {
            let outcome = server.client().try_exchange(&Request::get(&target(&folder, name)));
            // Its head was sent on, or was not.
            assert!(outcome.is_err() || outcome.is_ok_and(|one| one.status == 502), "{name}");
            assert_eq!(server.get("/").text(), "home");
            server.wait_for_line(0, |line| line.contains("FILE without a descriptor"));
            wait_for("the end of the channel", || {
                (server.get("/run/ends").text() == ends).then_some(())
            });
            let file = server.exchange(&Request::get(&target(&folder, "file")));
            assert_eq!(file.body.len(), FILE_BYTES, "it gets another channel");
        }
        wait_for("closed files", || (open_files(&server, &folder) == 0).then_some(()));
        server.stop();
    }
}

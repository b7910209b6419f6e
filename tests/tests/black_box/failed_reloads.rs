//! Failing reloads: each is reported, has no effect, and the next one succeeds.

use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Builds an archive whose home page is `text`, in place of any file with its name.
fn publish(folder: &Folder, text: &str) {
    folder.write("site/index.html", text);
    let archive = folder.join("site.pinion");
    if archive.is_dir() {
        fs::remove_dir(&archive).expect("removed");
    } else if archive.exists() {
        fs::remove_file(&archive).expect("removed");
    }
    build(&folder.join("site"), &archive, &[]);
}

/// Replaces the archive by something else, and returns the text of the error about it.
type Replace = fn(&Path) -> &'static str;

const REPLACEMENTS: [Replace; 5] = [
    |path| {
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a pipe");
        "is not a regular file; make an archive with `pinion build`"
    },
    |path| {
        UnixListener::bind(path).expect("a socket");
        "is not a regular file; make an archive with `pinion build`"
    },
    |path| {
        fs::create_dir(path).expect("a folder");
        "is a folder; make an archive of it with `pinion build`"
    },
    |path| {
        fs::write(path, "").expect("an empty file");
        "not a Pinion archive: the file is empty"
    },
    |path| {
        fs::write(path, "<!doctype html>").expect("a file");
        "not a Pinion archive"
    },
];

#[test]
fn an_invalid_archive_is_reported_and_the_previous_version_kept() {
    for io in Io::BOTH {
        for memory in ["map", "preload", "copy"] {
            let folder = Folder::new("no-archive");
            let archive = folder.join("site.pinion");
            publish(&folder, "home");
            let flags = ["--io", io.as_str(), "--memory", memory];
            let server = Start::site(&archive).flags(&flags).start();
            for replace in REPLACEMENTS {
                fs::remove_file(&archive).expect("removed");
                let reason = replace(&archive);
                eprintln!("{io:?}, --memory {memory}: {reason}");
                let said = server.lines().len();
                server.signal(Signal::HUP);
                server.wait_for_line(said, |line| line.contains("keeping the previous version"));
                server.wait_for_line(said, |line| line.contains(reason));
                assert_eq!(server.get("/").text(), "home");
                is_taken_up(&server, &folder, reason);
                publish(&folder, "home");
                server.signal(Signal::HUP);
                wait_for("the old page", || (server.get("/").text() == "home").then_some(()));
            }
            server.stop();
        }
    }
}

/// Publishes an archive whose page is `text`, and waits until it is served.
#[track_caller]
fn is_taken_up(server: &Server, folder: &Folder, text: &str) {
    publish(folder, text);
    server.signal(Signal::HUP);
    wait_for("the next archive", || (server.get("/").text() == text).then_some(()));
}

//! The access log when its lines cannot be written: requests still get their responses, and every
//! lost line is counted and reported.

use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;

fn site() -> Folder {
    Folder::with("log-trouble", [("site/index.html", "home")])
}

/// Starts a server with one worker, so that all lines are in the order of the requests.
fn start(io: Io, folder: &Folder, log: &Path) -> Server {
    let log = log.to_str().expect("a path in UTF-8");
    let flags = ["--io", io.as_str(), "--workers", "1", "--access-log", log];
    Start::site(&folder.join("site")).flags(&flags).flags(&["--log-format", "json"]).start()
}

/// Returns the sum of the numbers in front of `label` in all lines that the server has printed.
fn logged_number(server: &Server, label: &str) -> usize {
    let number = |line: String| line.split_once(label)?.1.parse::<usize>().ok();
    server.lines().into_iter().filter_map(number).sum()
}

#[test]
fn lines_that_a_slow_reader_blocks_are_dropped_and_counted() {
    /// With such a long field, these are more requests than the pipe, the log's thread and its
    /// queue can hold together.
    const REQUESTS: usize = 3000;
    const DROPPED: &str = " lines dropped: ";
    for io in Io::BOTH {
        let folder = site();
        let pipe = folder.join("pipe");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("a pipe");
        // The pipe is opened at both ends, so that neither side waits for the other one to open it.
        let both = File::options().read(true).write(true).open(&pipe).expect("the pipe");
        let mut server = start(io, &folder, &pipe);
        let reader = BufReader::new(File::open(&pipe).expect("the pipe"));
        drop(both);
        let mut connection = server.connect();
        let request = Request::get("/").field("User-Agent", "x".repeat(2000));
        for _ in 0..REQUESTS {
            assert_eq!(connection.exchange(&request).text(), "home");
        }
        let lines = thread::spawn(|| {
            let whole = |line: &String| serde_json::from_str::<Value>(line).is_ok();
            let lines: Vec<String> = reader.lines().map(|line| line.expect("text")).collect();
            assert!(lines.iter().all(whole), "a line that is not whole");
            lines.len()
        });
        wait_for("dropped lines", || (logged_number(&server, DROPPED) > 0).then_some(()));
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let written = lines.join().expect("lines");
        // Lost lines that were not reported at once are reported at the end.
        wait_for("the sum", || {
            (written + logged_number(&server, DROPPED) == REQUESTS).then_some(())
        });
    }
}

#[test]
fn a_full_disk_drops_and_counts_lines_until_rotation() {
    const REQUESTS: usize = 5;
    const LOST: &str = " lines lost: ";
    for io in Io::BOTH {
        let folder = site();
        let log = folder.join("access.log");
        symlink("/dev/full", &log).expect("a link");
        let mut server = start(io, &folder, &log);
        for _ in 0..REQUESTS {
            assert_eq!(server.get("/").text(), "home");
        }
        let line = server.wait_for_line(0, |line| line.contains(LOST));
        let reason = "No space left on device; ";
        let expected = format!("pinion: cannot write the access log {}: {reason}", log.display());
        assert!(line.starts_with(&expected), "{line}");
        fs::remove_file(&log).expect("the link");
        server.signal(Signal::HUP);
        wait_for("a new log", || log.exists().then_some(()));
        assert_eq!(server.get("/?rotated").text(), "home");
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        // A line is written after its response, so the last of the earlier lines may come after the
        // signal.
        let text = fs::read_to_string(&log).expect("the new log");
        assert!(text.lines().last().is_some_and(|line| line.contains("/?rotated")), "{text}");
        let written = text.lines().count() - 1;
        wait_for("the sum", || (written + logged_number(&server, LOST) == REQUESTS).then_some(()));
    }
}

#[test]
fn a_log_that_cannot_be_reopened_continues_in_its_old_file() {
    for io in Io::BOTH {
        let folder = site();
        folder.write("logs/old.log", "");
        let log = folder.join("logs/access.log");
        let server = start(io, &folder, &log);
        server.get("/?one");
        fs::rename(folder.join("logs"), folder.join("moved")).expect("renamed");
        server.signal(Signal::HUP);
        let line = server.wait_for_line(0, |line| line.contains("cannot reopen"));
        let reason = "the old file stays: No such file or directory; create its folder, or name \
                      another file";
        let expected = format!("the access log {}, {reason}", log.display());
        assert_eq!(line, format!("pinion: cannot reopen {expected}"));
        server.get("/?two");
        server.stop();
        let text = fs::read_to_string(folder.join("moved/access.log")).expect("the log");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}

#[test]
fn a_log_that_cannot_be_opened_ends_the_start_with_exit_1() {
    let folder = site();
    let site = folder.join("site");
    let missing = "No such file or directory; create its folder, or name another file";
    let is_folder = "Is a directory; name a file in it";
    for (log, reason) in [("none/access.log", missing), ("", is_folder)] {
        let log = folder.join(log);
        let words = ["serve", "--listen", "127.0.0.1:0", "--access-log"].map(AsRef::as_ref);
        let ended = run(&[&words[..], &[log.as_os_str(), site.as_os_str()]].concat());
        let log = log.display();
        let expected =
            format!("pinion: cannot start: cannot open the access log {log}: {reason}\n");
        assert_eq!((ended.code, ended.stderr), (Some(1), expected));
    }
}

/// Opening a named pipe would wait for a reader, and block the start of the server or the lines of
/// all logs.
#[test]
fn a_named_pipe_without_a_reader_is_an_error_and_does_not_block() {
    let reason = "no program reads this named pipe; start the one that does, or name a file";
    for io in Io::BOTH {
        let folder = site();
        let pipe = folder.join("pipe");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("a pipe");
        let (site, shown) = (folder.join("site"), pipe.display());
        let flags = ["serve", "--listen", "127.0.0.1:0", "--io", io.as_str(), "--access-log"];
        let words = flags.map(AsRef::as_ref);
        let ended = run(&[&words[..], &[pipe.as_os_str(), site.as_os_str()]].concat());
        let expected =
            format!("pinion: cannot start: cannot open the access log {shown}: {reason}\n");
        assert_eq!((ended.code, ended.stderr), (Some(1), expected));
        let both = File::options().read(true).write(true).open(&pipe).expect("the pipe");
        let mut server = start(io, &folder, &pipe);
        let mut lines = BufReader::new(both).lines();
        let mut line = || lines.next().expect("a line").expect("text");
        assert_eq!(server.get("/?one").text(), "home");
        assert!(line().contains("/?one"));
        drop(lines);
        server.signal(Signal::USR1);
        let logged = server.wait_for_line(0, |line| line.contains("cannot reopen"));
        let expected = format!("access log {shown}, the old file stays: {reason}");
        assert_eq!(logged, format!("pinion: cannot reopen the {expected}"));
        // The next reader gets the lines from that time on.
        let both = File::options().read(true).write(true).open(&pipe).expect("the pipe");
        let mut lines = BufReader::new(both).lines();
        assert_eq!(server.get("/?two").text(), "home");
        assert!(lines.next().expect("a line").expect("text").contains("/?two"));
        server.signal(Signal::TERM);
        assert!(server.wait().success());
    }
}

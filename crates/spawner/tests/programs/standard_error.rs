//! The standard error of programs.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use pinion_spawner::limits::{LINE_MAX_BYTES, LINES_BURST, LOG_LINE_MAX_BYTES};
use pinion_spawner::reply::SpawnerReply;

use crate::program_ends::wait_for_line;
use crate::test_server::{
    Server, log, redirect_log, redirect_standard_error, restore_log, row, shell,
};

pub(crate) fn lines_have_name_and_process() {
    let mut server = Server::new();
    let script = "printf 'one\\ntw' >&2; printf 'o\\033[31m\\n' >&2; printf 'no line feed' >&2";
    let _stream = server.shell(1, script);
    let pid = server.worker.started(1);
    server.worker.ends(1);
    let lines = ["one", "two\\x1b[31m", "no line feed"];
    let lines: String = lines.iter().map(|line| format!("pinion: sh[{pid}]: {line}\n")).collect();
    assert_eq!(log(), lines, "all is logged before the end of the program is reported");
}

pub(crate) fn a_flood_is_bounded_and_blocks_nothing() {
    let mut server = Server::with(vec![row("yes", "/usr/bin/yes"), shell()]);
    let mut flood = server.shell(1, "echo; exec yes flood >&2");
    let flooding = server.worker.started(1);
    wait_for_line(&mut flood);
    let long = "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo end";
    assert_eq!(server.output(2, "sh", &[long]), "end\n");
    // Standard error is read continuously, because a pipe holds far fewer lines.
    let mut read = server.shell(3, "yes counted | head -n 1000000 >&2; echo");
    server.worker.started(3);
    wait_for_line(&mut read);
    server.worker.ends(1);
    server.worker.connection.stop(1).expect("sent");
    assert_eq!(server.worker.reply(), SpawnerReply::Signaled { id: 1, signal: 15 });
    let log = log();
    let of_flood = log.lines().filter(|line| line.ends_with(&format!("[{flooding}]: flood")));
    assert!(of_flood.count() as u64 >= LINES_BURST);
    assert!(log.contains("lines were left out\n"), "{log}");
    let left_out: u64 = log
        .lines()
        .filter_map(|line| line.strip_prefix("pinion: sh[")?.strip_suffix(" lines were left out"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    let counted = log.lines().filter(|line| line.ends_with(": counted")).count() as u64;
    assert!(left_out + counted >= 1_000_000, "{left_out} lines left out, {counted} logged");
    let cut = format!(" ({} bytes were left out)", 1_000_000 - LINE_MAX_BYTES);
    assert!(log.lines().any(|line| line.ends_with(&cut)), "{cut}");
    assert!(log.lines().all(|line| line.len() < LOG_LINE_MAX_BYTES));
}

pub(crate) fn a_pipe_that_is_not_read_blocks_nothing() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    flood_an_unread_log(writer.as_raw_fd());
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    // Only whole lines are written to a full pipe.
    assert!(text.ends_with('\n'), "{text}");
    assert!(text.lines().all(|line| line.starts_with("pinion: sh[")), "{text}");
}

pub(crate) fn a_socket_that_is_not_read_blocks_nothing() {
    let (_reader, writer) = UnixStream::pair().expect("sockets");
    // The shortest lines fill the pipe before the limit of the line rate is reached.
    flood_an_unread_log(writer.as_raw_fd());
}

/// Runs programs that flood standard error while that of the spawner is not read.
fn flood_an_unread_log(descriptor: i32) {
    redirect_log();
    redirect_standard_error(descriptor);
    let mut server = Server::new();
    restore_log();
    let wide = "x".repeat(LINE_MAX_BYTES);
    let floods: Vec<_> = (0..4).map(|id| server.shell(id, &format!("yes {wide} >&2"))).collect();
    server.worker.all_started(4);
    // More than a pipe or a socket holds.
    let script = format!("yes {wide} | head -n 20000 >&2; echo end");
    assert_eq!(server.output(9, "sh", &[&script]), "end\n");
    (0..4).for_each(|id| server.worker.connection.stop(id).expect("sent"));
    server.worker.ends(floods.len());
    server.assert_works();
    server.spawner.stop(Duration::from_secs(60)).expect("nothing is left");
}

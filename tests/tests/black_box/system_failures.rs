//! Actions of the system or of an operator that must not end a server: docs/reliability.md lists
//! them.

use pinion_tests::binary::source_root;
use pinion_tests::empty_root_filesystem::EmptyRoot;
use pinion_tests::external_programs::program;
use pinion_tests::lua_script_site::script;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::Signal;
use std::fs;
use std::process::Command;

const UPLOADS: &str = r#"
pinion.get("/", function() return "here" end)
pinion.post("/", function(req)
    req:limit(4 * 2^20)
    return tostring(req:form().file.size)
end)
"#;

/// Returns a form with a file of this many bytes.
fn upload(bytes: usize) -> Request {
    let head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let form = [head, &"x".repeat(bytes), "\r\n--b--\r\n"].concat();
    let kind = "multipart/form-data; boundary=b";
    Request::new("POST", "/").field("Content-Type", kind).body(form.as_bytes())
}

/// Returns a command under a limit of `prlimit`, such as `--fsize=1000`.
fn limited(limit: &str) -> Command {
    let mut prlimit = program("prlimit", "util-linux");
    prlimit.arg(limit);
    prlimit
}

#[test]
fn a_file_size_limit_fails_only_the_larger_writes() {
    const LIMIT_BYTES: u64 = 100_000;
    let ((_folder, site), logs) = (script(UPLOADS), Folder::new("fsize"));
    let log = logs.join("log");
    let flags = ["--access-log", log.to_str().expect("text"), "--workers", "1"];
    let start = Start::site(&site).flags(&flags);
    let server = start.under(limited(&format!("--fsize={LIMIT_BYTES}"))).start();
    assert_eq!(server.exchange(&upload(10_000)).text(), "10000");
    assert_eq!(server.exchange(&upload(300_000)).status, 500);
    let mut connection = server.connect();
    let request = Request::get("/").field("User-Agent", "x".repeat(500));
    wait_for("a log that takes no more", || {
        assert_eq!(connection.exchange(&request).text(), "here");
        server.lines().iter().any(|line| line.contains("access log")).then_some(())
    });
    assert!(fs::metadata(&log).expect("the log").len() <= LIMIT_BYTES);
    assert_eq!(server.get("/").text(), "here");
    server.stop();
}

#[test]
fn usr1_reopens_the_logs_and_usr2_is_ignored() {
    let folder = Folder::with("signals", [("site/index.html", "home")]);
    let (log, rotated) = (folder.join("log"), folder.join("log.1"));
    let flags = ["--access-log", log.to_str().expect("text")];
    let server = Start::site(&folder.join("site")).flags(&flags).start();
    assert_eq!(server.get("/").text(), "home");
    // nginx upgrades on this one.
    server.signal(Signal::USR2);
    wait_for("the line before the rotation", || {
        (!fs::read_to_string(&log).ok()?.is_empty()).then_some(())
    });
    fs::rename(&log, &rotated).expect("renamed");
    server.signal(Signal::USR1);
    wait_for("a new log", || log.exists().then_some(()));
    assert_eq!(server.get("/?after").text(), "home");
    wait_for("the line behind the rotation", || {
        fs::read_to_string(&log).ok()?.contains("/?after").then_some(())
    });
    assert!(!fs::read_to_string(&rotated).expect("the old log").contains("/?after"));
    // The signal only reopens the log.
    assert!(!server.lines().iter().any(|line| line.starts_with("reloaded")));
    server.stop();
}

/// With any limit on threads, a start either serves or reports the reason for its failure. The
/// limit counts all processes of a user, so the test uses a user without other processes, as far as
/// it may change its user.
#[test]
fn a_thread_limit_is_an_error_and_not_a_crash() {
    let root = EmptyRoot::with_program("/pinion");
    root.copy(&source_root().join("examples/site/index.html"), "/site/index.html");
    let user = 60_000 + std::process::id() % 5_000;
    let (mut served, mut refused) = (0, 0);
    for count in 1..=12 {
        let mut runner = limited(&format!("--nproc={count}"));
        let other = root.runner(&format!("{user}:{user}"));
        runner.arg(other.get_program()).args(other.get_args());
        let start = Start::serve(&["/site", "--watch"]).under(runner);
        let mut server = start.found_at("/pinion".as_ref()).begin();
        let is_ready = |server: &Server| server.lines().iter().any(|line| line == "ready");
        wait_for("a start or its end", || {
            (!server.is_running() || is_ready(&server)).then_some(())
        });
        if is_ready(&server) {
            server.signal(Signal::TERM);
            served += 1;
        } else {
            refused += 1;
        }
        let status = server.wait();
        let said = server.lines().join("\n");
        assert!(status.code().is_some(), "{count} threads: {status}\n{said}");
        assert!(!said.contains("panicked"), "{count} threads: {said}");
    }
    let is_alone = rustix::process::geteuid().is_root();
    assert!(served > 0 || !is_alone, "{refused} starts failed");
}

/// In a container that was made from scratch there is no `/tmp`.
#[test]
fn without_a_temporary_folder_uploads_are_kept_in_memory() {
    let root = EmptyRoot::with_program("/pinion");
    let (_folder, site) = script(UPLOADS);
    root.copy(&site, "/site.lua");
    let start = Start::serve(&["/site.lua"]).under(root.runner("65532:65532"));
    let server = start.found_at("/pinion".as_ref()).start();
    for bytes in [1_000, 100_000, 3_000_000] {
        assert_eq!(server.exchange(&upload(bytes)).text(), bytes.to_string());
    }
    let said = server.last_words();
    let is_about_it = |line: &&String| line.starts_with("pinion: cannot store uploads in /tmp (");
    assert_eq!(said.iter().filter(is_about_it).count(), 1, "{said:#?}");
}

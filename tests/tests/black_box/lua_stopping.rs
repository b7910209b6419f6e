//! SIGTERM and background work of scripts: started work is completed within the grace period, and
//! no new work begins.

use pinion_tests::binary::pinion;
use pinion_tests::client::Connection;
use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const SCRIPT: &str = r#"
local runs = 0
pinion.every(0.01, function() runs = runs + 1 end)
pinion.get("/runs", function() return tostring(runs) end)
pinion.get("/begin", function()
    pinion.spawn(function()
        pinion.sleep(0.3)
        assert(pinion.fs.write("data/done", "done"))
    end)
    return "begun"
end)
pinion.get("/begin-endless", function()
    pinion.spawn(function() pinion.sleep(3600) end)
    return "begun"
end)
pinion.get("/count", function()
    pinion.spawn(function()
        while not pinion.fs.stat("data/stopped") do pinion.sleep(0.01) end
        local before = runs
        pinion.sleep(0.2)
        pinion.send("counted", runs - before)
    end)
    return "begun"
end)
pinion.on("counted", function(runs) assert(pinion.fs.write("data/runs", tostring(runs))) end)
"#;

/// A site of a script, and a folder in which it writes.
struct Site {
    folder: Folder,
}

impl Site {
    fn new(script: &str) -> Site {
        let folder = Folder::with("lua-stopping", [("site.lua", script)]);
        fs::create_dir(folder.join("data")).expect("a folder");
        Site { folder }
    }

    fn script(&self) -> PathBuf {
        self.folder.join("site.lua")
    }

    fn folder_flag(&self) -> String {
        format!("data={}", self.folder.join("data").display())
    }

    fn start(&self, io: Io, grace_seconds: u32) -> Server {
        let folder = self.folder_flag();
        let flags = ["--io", io.as_str(), "--workers", "1", "--lua-folder", &folder];
        Start::site(&self.script()).flags(&flags).grace(grace_seconds).start()
    }

    /// Returns the content of a file that the script has written.
    fn written(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join("data").join(name)).ok()
    }
}

#[test]
fn spawned_work_is_completed_before_the_server_ends() {
    for io in Io::BOTH {
        let site = Site::new(SCRIPT);
        let mut server = site.start(io, 3600);
        assert_eq!(server.get("/begin").text(), "begun");
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        assert_eq!(site.written("done").as_deref(), Some("done"));
        let said = server.lines();
        assert!(!said.iter().any(|line| line.contains("stopped before")), "{said:?}");
    }
}

#[test]
fn a_stopping_server_runs_no_schedules_and_still_gets_messages() {
    for io in Io::BOTH {
        let site = Site::new(SCRIPT);
        let mut server = site.start(io, 3600);
        assert_eq!(server.get("/count").text(), "begun");
        while server.get("/runs").text() == "0" {}
        server.signal(Signal::TERM);
        let address = server.address();
        // The worker has received the stop: no client can connect any more.
        wait_for("a closed port", || Connection::try_open(address).err());
        site.folder.write("data/stopped", "");
        assert!(server.wait().success());
        assert_eq!(site.written("runs").as_deref(), Some("0"));
    }
}

#[test]
fn endless_work_ends_with_the_grace_period() {
    for io in Io::BOTH {
        let site = Site::new(SCRIPT);
        let mut server = site.start(io, 1);
        assert_eq!(server.get("/begin-endless").text(), "begun");
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        server.wait_for_line(0, |line| line.contains("pieces left: 1") && line.contains("--grace"));
    }
    // At a second signal the server ends at once.
    let site = Site::new(SCRIPT);
    let mut server = site.start(Io::Epoll, 3600);
    assert_eq!(server.get("/begin-endless").text(), "begun");
    server.signal(Signal::TERM);
    server.wait_for_line(0, |line| line.starts_with("stopping"));
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

/// Sends SIGTERM to a script at the command line after it has printed `up`; returns its exit code,
/// and its output on stdout and stderr.
fn terminated(script: &str, grace_seconds: &str) -> (Option<i32>, String, String) {
    let site = Site::new(script);
    let mut command = Command::new(pinion());
    command.args(["run", "--grace", grace_seconds]).arg(site.script());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("started");
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "up\n");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
    let status = wait_for("its end", || child.try_wait().expect("its state"));
    let (mut more, mut said) = (String::new(), String::new());
    out.read_to_string(&mut more).expect("text");
    child.stderr.take().expect("its words").read_to_string(&mut said).expect("text");
    (status.code(), more, said)
}

#[test]
fn a_script_at_the_command_line_runs_to_its_end() {
    let script = "pinion.every(0.01, function() end)
        pinion.spawn(function()
            print('up')
            pinion.sleep(0.3)
            print('done')
        end)";
    assert_eq!(terminated(script, "3600"), (Some(0), "done\n".to_owned(), String::new()));
    for endless in ["print('up') pinion.sleep(3600)", "print('up') while true do end"] {
        let (code, more, said) = terminated(endless, "1");
        assert_eq!((code, more.as_str()), (Some(1), ""), "{endless}");
        assert!(said.contains("stopped before the script was done"), "{endless}: {said}");
    }
}

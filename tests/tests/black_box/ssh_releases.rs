//! Release folders of another machine: a real sshd on loopback, with keys of its own.

use pinion_tests::binary::pinion;
use pinion_tests::external_programs::{output, program, stdout};
use pinion_tests::server::{Ended, Start, build};
use pinion_tests::temporary_folder::Folder;
use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A machine that is reached by ssh: a listener on loopback, and an sshd for each connection.
struct Machine {
    folder: Folder,
    port: u16,
    ended: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
    sessions: Arc<Mutex<Vec<Child>>>,
}

impl Machine {
    /// Creates a machine on which `path` is the search path of programs.
    fn new(path: &str) -> Machine {
        let folder = Folder::new("machine");
        for name in ["host", "key"] {
            let mut keygen = program("ssh-keygen", "openssh-client");
            stdout(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(name)));
        }
        let at = |name: &str| folder.join(name).display().to_string();
        fs::copy(folder.join("key.pub"), folder.join("authorized")).expect("a copy");
        folder.write(
            "sshd_config",
            format!(
                "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nLogLevel ERROR\n\
                 SetEnv PATH={path}\n",
                at("host"),
                at("authorized")
            ),
        );
        folder.write(
            "ssh_config",
            format!(
                "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nBatchMode yes\n\
                 StrictHostKeyChecking accept-new\nLogLevel ERROR\n",
                at("key"),
                at("known")
            ),
        );
        // ssh uses the keys and hosts of the test, not the configuration of the user.
        let ssh = program("ssh", "openssh-client").get_program().to_string_lossy().into_owned();
        folder.write("bin/ssh", format!("#!/bin/sh\nexec {ssh} -F {} \"$@\"\n", at("ssh_config")));
        let executable = Permissions::from_mode(0o755);
        fs::set_permissions(folder.join("bin/ssh"), executable).expect("executable");
        make_privilege_separation_folder();

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let ended = Arc::new(AtomicBool::new(false));
        let sessions: Arc<Mutex<Vec<Child>>> = Arc::default();
        let config = folder.join("sshd_config");
        let (stop, children) = (Arc::clone(&ended), Arc::clone(&sessions));
        let listening = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let child = session(&config, stream);
                children.lock().expect("no panic under the lock").push(child);
            }
        });
        Machine { folder, port, ended, listening: Some(listening), sessions }
    }

    /// Returns the URL of a folder of this machine.
    fn url(&self, path: &Path) -> String {
        format!("ssh://127.0.0.1:{}{}", self.port, path.display())
    }

    /// Runs `pinion` with an `ssh` that leads to this machine.
    #[track_caller]
    fn pinion(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(pinion());
        let search = std::env::var("PATH").expect("a path");
        command.env("PATH", format!("{}:{search}", self.folder.join("bin").display()));
        let output = output(command.args(arguments));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Ended { code: output.status.code(), stdout, stderr }
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let ended = self.pinion(&[arguments, &["--json"]].concat());
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
        serde_json::from_str(&ended.stdout).expect("one JSON document")
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str], hint: &str) {
        let ended = self.pinion(arguments);
        assert_eq!(ended.code, Some(1), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(hint), "{arguments:?}: {:?} has no {hint:?}", ended.stderr);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // The listener checks for the end at each connection.
        let _knocked = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(listening) = self.listening.take() {
            let _ended = listening.join();
        }
        if let Ok(mut sessions) = self.sessions.lock() {
            for session in sessions.iter_mut() {
                // Most of them have ended with their connections.
                let _ended = session.kill();
                let _ended = session.wait();
            }
        }
    }
}

/// Starts one sshd for one connection, like inetd.
fn session(config: &Path, stream: TcpStream) -> Child {
    let output = OwnedFd::from(stream.try_clone().expect("a second descriptor"));
    let mut sshd = program("sshd", "openssh-server");
    sshd.args(["-i", "-e", "-f"]).arg(config);
    sshd.stdin(OwnedFd::from(stream)).stdout(output).stderr(Stdio::null());
    sshd.spawn().expect("sshd starts")
}

/// Creates the folder for privilege separation, which sshd needs as root. Usually its service
/// creates the folder.
fn make_privilege_separation_folder() {
    if rustix::process::geteuid().is_root() {
        fs::create_dir_all("/run/sshd").expect("a folder for sshd");
    }
}

/// Returns two archives of a site, and the folder that contains them.
fn archives() -> (Folder, String, String) {
    let folder = Folder::new("archives");
    let [one, two] = ["one", "two"].map(|name| {
        folder.write("site/index.html", name);
        folder.write("site/large.txt", name.repeat(200_000));
        let archive = folder.join(format!("{name}.pinion"));
        build(&folder.join("site"), &archive, &[]);
        archive.display().to_string()
    });
    (folder, one, two)
}

#[test]
fn publish_list_and_rollback_work_over_ssh() {
    let bin = pinion().parent().expect("a folder").display().to_string();
    let machine = Machine::new(&format!("{bin}:/usr/bin:/bin"));
    let (_folder, one, two) = archives();
    // A name that a shell would split.
    let live = machine.folder.join("it's $HOME; \"live\"");
    let url = machine.url(&live).replace(' ', "%20");
    let first = machine.json(&["publish", &one, &url]);
    assert_eq!((&first["folder"], &first["previous"]), (&url.clone().into(), &().into()));
    let server = Start::site(&live).start();
    let second = machine.json(&["publish", &two, &url, "--keep", "2"]);
    assert_eq!((&second["previous"], &second["taken_up"]), (&first["digest"], &true.into()));
    assert_eq!(
        (&second["archive"], &second["bytes"]),
        (&two.clone().into(), &fs::metadata(&two).expect("it").len().into())
    );
    assert_eq!(machine.json(&["publish", &two, &url])["already_current"], true);
    let listed = machine.json(&["releases", &url]);
    assert_eq!((&listed["folder"], &listed["current"]), (&url.clone().into(), &second["digest"]));
    assert_eq!(listed["releases"][1]["back"], 1);
    let log = fs::read_to_string(live.join("log")).expect("the log");
    assert!(log.lines().all(|line| line.ends_with("@127.0.0.1")), "{log}");
    let back = machine.json(&["rollback", &url]);
    assert_eq!((&back["digest"], &back["taken_up"]), (&first["digest"], &true.into()));
    assert_eq!(server.get("/").text(), "one");
    let digest = second["digest"].as_str().expect("a digest");
    let rollback = machine.pinion(&["rollback", &url, &digest[..8]]);
    assert_eq!(rollback.code, Some(0), "{}", rollback.stderr);
    assert!(
        rollback.stderr.contains("rolled back to") && rollback.stdout.is_empty(),
        "{}",
        rollback.stderr
    );
    server.stop();
}

#[test]
fn errors_of_the_remote_machine_are_reported() {
    let machine = Machine::new("/usr/bin:/bin");
    let (folder, one, _) = archives();
    let url = machine.url(&machine.folder.join("live"));
    machine.fails(&["publish", &one, &url], "there is no pinion on 127.0.0.1");
    machine.fails(&["releases", &url], "say where with --remote-pinion");
    machine.fails(&["publish", &one, &url, "--remote-pinion", "/dev/null"], "cannot be run");
    machine.fails(&["publish", &one, &url, "--remote-pinion", "true"], "of another version");
    machine
        .fails(&["publish", &one, &url, "--remote-pinion", "false"], "ended with 1 and no answer");

    let own = pinion().display().to_string();
    let program = ["--remote-pinion", own.as_str()];
    machine.fails(&[&["releases", &url], &program[..]].concat(), "on 127.0.0.1: ");
    machine.folder.write("other/index.html", "a site");
    let other = machine.url(&machine.folder.join("other"));
    let refused = machine.pinion(&[&["publish", &one, &other], &program[..]].concat());
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(1), 1), "{}", refused.stderr);
    assert!(refused.stderr.contains("holds something else already (index.html)"));
    let older = machine.folder.join("older");
    fs::write(&older, "#!/bin/sh\necho '{\"error\":\"unknown verb publish\"}'; exit 2\n")
        .expect("a script");
    fs::set_permissions(&older, Permissions::from_mode(0o755)).expect("executable");
    let older = older.display().to_string();
    machine
        .fails(&["publish", &one, &url, "--remote-pinion", &older], "there is of another version");

    // A damaged archive is not sent; for an unreachable machine the message of ssh is reported too.
    folder.write("text", "no archive");
    let text = folder.join("text").display().to_string();
    machine.fails(&[&["publish", &text, &url], &program[..]].concat(), "not a Pinion archive");
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        format!("ssh://{}/live", listener.local_addr().expect("an address"))
    };
    machine.fails(&["publish", &one, &nobody], "ssh to 127.0.0.1 failed");
    assert!(!machine.folder.join("live/current.pinion").exists());
    assert_eq!(
        machine.json(&[&["publish", &one, &url], &program[..]].concat())["already_current"],
        false
    );
}

#[test]
fn a_missing_ssh_program_is_reported() {
    let (folder, one, _) = archives();
    let mut command = Command::new(pinion());
    command.args(["publish", &one, "ssh://127.0.0.1/live"]).env("PATH", folder.path());
    let said = String::from_utf8(output(&mut command).stderr).expect("text");
    assert!(said.contains("there is no ssh on this machine"), "{said}");
}

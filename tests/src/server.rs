//! Starts, observes and stops a server.

use crate::binary::pinion;
use crate::client::byte_stream::Peer;
use crate::client::{Client, Connection};
use crate::external_programs::{output, program};
use crate::matrix::Way;
use crate::processes::{mapped_bytes, program_path};
use crate::protocol::Protocol;
use crate::request::Request;
use crate::response::Response;
use crate::temporary_folder::Folder;
use crate::tls_certificates::Pair;
use crate::wait_for;
use crate::why_comparison::Served;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The parameters of a server's start.
#[derive(Debug)]
pub struct Start {
    verb: &'static str,
    arguments: Vec<OsString>,
    folder: Option<PathBuf>,
    grace_seconds: u32,
    runner: Option<Command>,
    program: PathBuf,
    protocol: Protocol,
    /// The address of an additional listener besides those of its configuration, if it gets one.
    listener: Option<String>,
    /// Standard input; without it, `/dev/null`.
    stdin: Option<OwnedFd>,
    /// The folder of the sockets of its session.
    session: Option<PathBuf>,
    /// The description for `pinion why`.
    served: Option<Served>,
}

/// Bytes in the memory limit printed by a server that are for the program itself (`PROGRAM_BYTES`
/// in crates/pinion/src/server/memory_parts.rs).
const PROGRAM_BYTES: u64 = 9 << 20;
/// The part of them that only scripts need.
const SCRIPT_CODE_BYTES: u64 = 1 << 20;
/// The part of them that only TLS needs.
const TLS_CODE_BYTES: u64 = 3 << 20;

/// Far longer than any test waits, so that a server which does not end on its own is noticed.
const ENDLESS_GRACE_SECONDS: u32 = 3600;

impl Start {
    /// Returns the start of `pinion serve SITE`, on a port that the kernel chooses.
    pub fn site(site: &Path) -> Start {
        Start::serve(&[site.as_os_str()])
    }

    /// Returns the start of `pinion serve` with these arguments, on a port that the kernel chooses.
    pub fn serve<S: AsRef<OsStr>>(arguments: &[S]) -> Start {
        let arguments = arguments.iter().map(|word| word.as_ref().to_owned()).collect();
        Start {
            verb: "serve",
            arguments,
            folder: None,
            grace_seconds: ENDLESS_GRACE_SECONDS,
            runner: None,
            program: pinion().to_owned(),
            protocol: Protocol::Http1,
            listener: Some("127.0.0.1:0".to_owned()),
            session: None,
            stdin: None,
            served: None,
        }
    }

    /// Returns the start of `pinion store` with these arguments; [`Self::start_without_http`]
    /// starts it.
    pub fn store<S: AsRef<OsStr>>(arguments: &[S]) -> Start {
        Start { verb: "store", listener: None, ..Start::serve(arguments) }
    }

    /// Returns the start of `pinion serve CONFIGURATION`, with only the listeners of the file.
    pub fn configured(file: &Path) -> Start {
        Start { listener: None, ..Start::site(file) }
    }

    /// Uses the protocol and the backend of the way, for the listener and for clients; the source
    /// of the site is set separately.
    #[must_use]
    pub fn in_way(mut self, way: Way) -> Start {
        self.protocol = way.protocol;
        self.flags(&["--io", way.io.as_str()])
    }

    /// Sets an address instead of a port that the kernel chooses.
    #[must_use]
    pub fn listening_at(mut self, address: &str) -> Start {
        self.listener = Some(address.to_owned());
        self
    }

    /// Sets standard input, for a runner that uses it.
    #[must_use]
    pub fn stdin(mut self, stdin: OwnedFd) -> Start {
        self.stdin = Some(stdin);
        self
    }

    /// Sets the session whose sockets are in this folder (`XDG_RUNTIME_DIR`); without it, there is
    /// none.
    #[must_use]
    pub fn session(mut self, folder: &Path) -> Start {
        self.session = Some(folder.to_owned());
        self
    }

    /// Compares each exchange over plain HTTP/1 with `pinion why` for the same source.
    #[must_use]
    pub fn explained(self, served: Option<Served>) -> Start {
        Start { served, ..self }
    }

    /// Adds flags.
    #[must_use]
    pub fn flags<S: AsRef<OsStr>>(mut self, flags: &[S]) -> Start {
        self.arguments.extend(flags.iter().map(|flag| flag.as_ref().to_owned()));
        self
    }

    /// Adds a listener over TLS with this certificate, on a port that the kernel chooses.
    #[must_use]
    pub fn tls(self, pair: &Pair) -> Start {
        self.flags(&["--tls", "127.0.0.1:0"]).flags(&pair.flags())
    }

    /// Sets the working folder, for arguments that are relative paths.
    #[must_use]
    pub fn working_in(mut self, folder: &Path) -> Start {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Sets the grace period after SIGTERM.
    #[must_use]
    pub fn grace(mut self, seconds: u32) -> Start {
        self.grace_seconds = seconds;
        self
    }

    /// Sets the limit of open files.
    #[must_use]
    pub fn open_files(self, count: u64) -> Start {
        let mut prlimit = program("prlimit", "util-linux");
        prlimit.arg(format!("--nofile={count}:{count}"));
        self.under(prlimit)
    }

    /// Sets a program that executes its further arguments in its own process.
    #[must_use]
    pub fn under(mut self, runner: Command) -> Start {
        self.runner = Some(runner);
        self
    }

    /// Sets another path of the program, for a runner with its own view of the file system.
    #[must_use]
    pub fn found_at(mut self, program: &Path) -> Start {
        self.program = program.to_owned();
        self
    }

    /// Starts the server and waits until it listens.
    ///
    /// # Panics
    /// Panics if it ends instead, with its output.
    #[track_caller]
    pub fn start(mut self) -> Server {
        let served = self.served.take().map(Arc::new);
        let mut server = self.begin();
        let address = server.wait_until_it_listens();
        let certificate = server.certificate();
        let peer = Peer::new(address, server.protocol, certificate.as_deref());
        server.peer = Some(peer.explained(served));
        server
    }

    /// Starts a server without HTTP, and waits until it is ready. It has no address for requests.
    ///
    /// # Panics
    /// Panics if it ends instead, with its output.
    #[track_caller]
    pub fn start_without_http(self) -> Server {
        let mut server = self.begin();
        server.wait_until_ready();
        server
    }

    /// Starts it without waiting: it has no address yet, and may never get one.
    #[track_caller]
    pub fn begin(self) -> Server {
        let mut command = match self.runner {
            None => Command::new(self.program),
            Some(mut runner) => {
                runner.arg(self.program);
                runner
            }
        };
        command.env_remove("RUNTIME_DIRECTORY").env_remove("XDG_RUNTIME_DIR");
        command.envs(self.session.map(|folder| ("XDG_RUNTIME_DIR", folder)));
        command.args([self.verb, "--grace", &self.grace_seconds.to_string()]);
        let listener = match self.protocol {
            Protocol::Http1 | Protocol::Http2Clear => "--listen",
            Protocol::Http1Tls | Protocol::Http2 => "--tls",
            Protocol::Http3 => "--quic",
        };
        if let Some(address) = &self.listener {
            command.args([listener, address]);
        }
        let state = self.protocol.is_encrypted().then(|| Folder::new("state"));
        if let Some(state) = &state {
            command.arg("--state").arg(state.path());
        }
        command.args(&self.arguments);
        if let Some(folder) = self.folder {
            command.current_dir(folder);
        }
        command.stdin(self.stdin.map_or_else(Stdio::null, Stdio::from)).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("pinion starts");
        let stderr = Lines::of(child.stderr.take().expect("piped"));
        Server { child, stderr, protocol: self.protocol, state, peer: None }
    }
}

/// A running server. It is killed when the test ends without [`Server::stop`].
#[derive(Debug)]
pub struct Server {
    child: Child,
    stderr: Lines,
    protocol: Protocol,
    /// The folder of its certificate, if it needs one.
    state: Option<Folder>,
    /// `None` until it listens.
    peer: Option<Peer>,
}

impl Server {
    /// Returns the address of its first listener.
    pub fn address(&self) -> SocketAddr {
        self.peer().address()
    }

    /// Returns its address and the parameters of connections to it.
    pub fn peer(&self) -> &Peer {
        self.peer.as_ref().expect("a started server listens")
    }

    /// Returns its protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the file with the certificate that it has made, for programs that must trust it.
    pub fn certificate(&self) -> Option<PathBuf> {
        let file = self.state.as_ref().map(|state| state.join("tls/self-signed-p256.crt"));
        file.filter(|file| file.exists())
    }

    /// Returns its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Opens a new connection, for cases about the bytes of HTTP/1.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::try_to(self.peer()).expect("a connection")
    }

    /// Opens a new connection with the protocol of the server.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::open(self.peer())
    }

    /// Sends one request on a connection of its own.
    #[track_caller]
    pub fn exchange(&self, request: &Request) -> Response {
        self.client().exchange(request)
    }

    /// Sends `GET target` on a connection of its own.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.exchange(&Request::get(target))
    }

    /// Returns its address as a URL, with this target.
    pub fn url(&self, target: &str) -> String {
        format!("{}://{}{target}", self.protocol.scheme(), self.address())
    }

    /// Returns a curl that trusts the server and uses its protocol.
    ///
    /// # Panics
    /// Panics for HTTP/3, which Debian's curl does not support.
    #[track_caller]
    pub fn curl(&self) -> Command {
        let mut curl = program("curl", "curl");
        curl.args(["--disable", "--noproxy", "*"]);
        match self.protocol {
            Protocol::Http1 => &mut curl,
            Protocol::Http1Tls => curl.arg("--http1.1"),
            Protocol::Http2 => curl.arg("--http2"),
            Protocol::Http2Clear => curl.arg("--http2-prior-knowledge"),
            Protocol::Http3 => panic!("a case with curl has to say `is_known_to_curl`"),
        };
        if let Some(certificate) = self.certificate() {
            curl.arg("--cacert").arg(certificate);
        }
        curl
    }

    /// Returns the address of the first printed listener with this scheme.
    #[track_caller]
    pub fn address_of(&self, scheme: &str) -> SocketAddr {
        let head = format!("listening {scheme}://");
        let url = self.wait_for_line(0, |line| line.starts_with(&head));
        let address = url.strip_prefix(&head).expect("a URL");
        address.trim_end_matches('/').parse().expect("an address")
    }

    /// Returns the address of the first printed listener for this protocol.
    #[track_caller]
    pub fn address_over(&self, protocol: Protocol) -> SocketAddr {
        let head = format!("listening {}://", protocol.scheme());
        let tail = if protocol == Protocol::Http3 { "/ (HTTP/3)" } else { "/" };
        let is_its = |line: &str| line.starts_with(&head) && line.ends_with(tail);
        let line = self.wait_for_line(0, is_its);
        line[head.len()..line.len() - tail.len()].parse().expect("an address")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("a signal reaches the server");
    }

    /// Returns its output on stderr so far.
    pub fn lines(&self) -> Vec<String> {
        self.stderr.all()
    }

    /// Waits for a line on stderr that `matches`, from the `from`th line on.
    #[track_caller]
    pub fn wait_for_line(&self, from: usize, matches: impl Fn(&str) -> bool) -> String {
        wait_for("a line on stderr", || {
            self.stderr.all().into_iter().skip(from).find(|line| matches(line))
        })
    }

    /// Returns whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Returns a figure of `/proc/PID/status` that is given in kB, such as `VmRSS`, in bytes.
    pub fn memory_bytes(&self, figure: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).expect(figure);
        kib.parse::<u64>().expect("a number") * 1024
    }

    /// Returns the memory limit that it has printed at start, in bytes: "… and 12.3 MiB of memory
    /// (…)".
    #[track_caller]
    pub fn reported_bound_bytes(&self) -> u64 {
        let line = self.wait_for_line(0, |line| line.contains(" of memory ("));
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|word| *word == "memory").expect("the phrase");
        let number: f64 = words[at - 3].parse().expect("a number");
        let unit = match words[at - 2] {
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            other => panic!("{other} in {line:?}"),
        };
        (number * f64::from(unit)) as u64
    }

    /// Returns its memory without the archive, to be compared with the printed limit. The program
    /// counts with its fixed part of the limit, which is that of a release: a program with
    /// assertions and without link-time optimisation has 13 MiB resident under load.
    pub fn own_memory_bytes(&self) -> u64 {
        let program = program_path(self.id());
        let is_archive = |path: &str| path.ends_with(".pinion") || path.contains("pinion-site");
        let is_counted = |path: &str| !is_archive(path) && path != program;
        self.program_bytes() + mapped_bytes(self.id(), "Rss:", is_counted)
    }

    fn program_bytes(&self) -> u64 {
        let line = self.wait_for_line(0, |line| line.contains(" of memory ("));
        let of_scripts = if line.contains(" to other servers") { SCRIPT_CODE_BYTES } else { 0 };
        let lines = self.stderr.all();
        let is_tls = lines.iter().any(|line| line.starts_with("listening https://"));
        let of_tls = if is_tls { TLS_CODE_BYTES } else { 0 };
        PROGRAM_BYTES + of_scripts + of_tls
    }

    /// Waits until it has a thread of this name.
    #[track_caller]
    pub fn wait_for_thread(&self, name: &str) {
        let folder = format!("/proc/{}/task", self.child.id());
        wait_for("a thread", || {
            let threads = fs::read_dir(&folder).expect("its threads");
            let is_named = |thread: fs::DirEntry| {
                let found = fs::read_to_string(thread.path().join("comm"));
                found.is_ok_and(|found| found.trim_end() == name)
            };
            threads.flatten().any(is_named).then_some(())
        });
    }

    /// Returns the targets of its open descriptors.
    pub fn open_files(&self) -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("its files");
        let target = |entry: fs::DirEntry| fs::read_link(entry.path()).ok();
        let targets = entries.flatten().filter_map(target);
        targets.map(|target| target.display().to_string()).collect()
    }

    /// Returns the number of sockets among them.
    pub fn sockets(&self) -> usize {
        self.open_files().iter().filter(|file| file.starts_with("socket:")).count()
    }

    /// Ends it with SIGTERM, and asserts a successful exit status.
    #[track_caller]
    pub fn stop(self) {
        self.last_words();
    }

    /// Ends it likewise, and returns its output on stderr, one entry for each line.
    #[track_caller]
    pub fn last_words(mut self) -> Vec<String> {
        self.signal(Signal::TERM);
        let status = self.wait();
        let lines = wait_for("all that it said", || self.stderr.whole());
        let said = lines.join("\n");
        assert!(status.success(), "{status} after SIGTERM:\n{said}");
        assert!(!said.contains("panicked"), "a panic:\n{said}");
        lines
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the end of the server", || self.child.try_wait().expect("its state"))
    }

    fn wait_until_it_listens(&mut self) -> SocketAddr {
        let said = self.wait_until_ready();
        let url = format!("listening {}://", self.protocol.scheme());
        let url = said.iter().find_map(|line| line.strip_prefix(&url));
        let url = url.and_then(|url| url.split_once('/'));
        let (address, _) = url.expect("a listener of the protocol of this server");
        address.parse().expect("an address")
    }

    /// Waits for the end of its start, and returns its output. Each listener has its line, and all
    /// of them have been printed then.
    fn wait_until_ready(&mut self) -> Vec<String> {
        wait_for("a listening server", || {
            // This is checked before the lines, so that they include the last output of a process
            // that ended early.
            let ended = !self.is_running();
            let said = self.stderr.all();
            if said.iter().any(|line| line == "ready") {
                return Some(said);
            }
            assert!(!ended, "pinion ended at once:\n{}", said.join("\n"));
            None
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the server said:\n{}", self.stderr.all().join("\n"));
        }
        // The process has ended already if the test was successful.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Runs `pinion` to its end: exit status, stdout and stderr.
#[track_caller]
pub fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Ended {
    output(Command::new(pinion()).args(arguments)).into()
}

/// Runs `pinion` to its end by another program, which gets it and its arguments as its last
/// arguments, such as `env` or `strace`.
#[track_caller]
pub fn run_under<S: AsRef<OsStr>>(mut outer: Command, arguments: &[S]) -> Ended {
    output(outer.arg(pinion()).args(arguments)).into()
}

/// Builds an archive of a folder.
///
/// # Panics
/// Panics if that fails.
#[track_caller]
pub fn build(source: &Path, archive: &Path, flags: &[&str]) {
    let fixed = [OsStr::new("build"), source.as_os_str(), OsStr::new("-o"), archive.as_os_str()];
    let arguments: Vec<&OsStr> = fixed.into_iter().chain(flags.iter().map(OsStr::new)).collect();
    let ended = run(&arguments);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

/// The result of a run of `pinion`.
#[derive(Debug)]
pub struct Ended {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its output on stdout.
    pub stdout: String,
    /// Its output on stderr.
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Ended {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// The lines that a process has written so far.
#[derive(Clone, Debug, Default)]
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    are_whole: Arc<AtomicBool>,
}

impl Lines {
    fn of(stderr: ChildStderr) -> Lines {
        let lines = Lines::default();
        let own = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                own.lines.lock().expect("no panic under the lock").push(line);
            }
            own.are_whole.store(true, Ordering::Release);
        });
        lines
    }

    /// Returns all of them, once the output has ended.
    fn whole(&self) -> Option<Vec<String>> {
        self.are_whole.load(Ordering::Acquire).then(|| self.all())
    }

    fn all(&self) -> Vec<String> {
        self.lines.lock().expect("no panic under the lock").clone()
    }
}

//! A running server under test, and requests to it.

use crate::pinion_runner::command;
use crate::temporary_folder::Folder;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough for any machine; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
    /// The URLs in the lines that begin with `listening`, in that order.
    pub(crate) urls: Vec<String>,
    /// The lines before them.
    pub(crate) start: Vec<String>,
}

impl Server {
    /// Starts `pinion serve` on a port that the kernel chooses and waits until it listens.
    pub(crate) fn start(folder: &Folder, arguments: &str) -> Self {
        Self::start_with(folder, &format!("{arguments} --listen 127.0.0.1:0"), 1)
    }

    /// Starts it with the given listeners.
    pub(crate) fn start_with(folder: &Folder, arguments: &str, listeners: usize) -> Self {
        Self::start_as(folder, &format!("serve --workers 2 {arguments}"), listeners)
    }

    /// Starts it with a whole command line.
    pub(crate) fn start_as(folder: &Folder, arguments: &str, listeners: usize) -> Self {
        let mut child = command(folder, arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let lines = follow(child.stderr.take().expect("a pipe"));
        let (mut urls, mut start) = (Vec::new(), Vec::new());
        while urls.len() < listeners {
            let line = lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no listener: {start:?}"));
            match line.strip_prefix("listening ") {
                Some(url) => urls.push(url.to_owned()),
                None => start.push(line),
            }
        }
        Self { child, lines, urls, start }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for a line on stderr that contains `hint`.
    #[track_caller]
    pub(crate) fn hears(&self, hint: &str) -> String {
        let began = Instant::now();
        let mut heard = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
            if line.contains(hint) {
                return line;
            }
            heard.push(line);
        }
        panic!("no {hint:?} among {heard:?}");
    }

    /// Sends SIGTERM and waits for the end; returns exit code and stdout.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        self.signal(Signal::TERM);
        let mut stdout = String::new();
        let pipe = self.child.stdout.as_mut().expect("a pipe");
        pipe.read_to_string(&mut stdout).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), stdout)
    }

    pub(crate) fn address(&self) -> &str {
        let url = self.urls[0].strip_prefix("http://").expect("a URL");
        url.trim_end_matches('/')
    }

    /// Sends one GET on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.try_get(path).expect("an answer")
    }

    /// Sends one GET with additional field lines.
    pub(crate) fn get_with(&self, path: &str, fields: &str) -> Response {
        self.ask(path, fields).expect("an answer")
    }

    /// Sends one GET, to which the server may react by closing the connection.
    pub(crate) fn try_get(&self, path: &str) -> Option<Response> {
        self.ask(path, "")
    }

    fn ask(&self, path: &str, fields: &str) -> Option<Response> {
        let mut stream = TcpStream::connect(self.address()).expect("it listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok()?;
        Response::split(&bytes)
    }

    /// Repeats a request until it gets the wanted response.
    #[track_caller]
    pub(crate) fn gets(&self, path: &str, wanted: impl Fn(&Response) -> bool) {
        let began = Instant::now();
        loop {
            let response = self.get(path);
            if wanted(&response) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "still {response:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process has ended already if the test was successful.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A parsed response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and field lines.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    fn split(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head, body: bytes[end..].to_vec() })
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// Sends a request that ends the connection, and reads its response.
pub(crate) fn exchange(stream: &mut (impl Read + Write), request: &str) -> Response {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer and the end");
    Response::split(&bytes).expect("a head")
}

/// Returns the lines of stderr as they arrive.
fn follow(stderr: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

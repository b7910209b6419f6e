//! An application with FastCGI. A test controls each byte of its responses. The records are written
//! and read here a second time, by the specification of FastCGI 1.0.

use crate::PATIENCE;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// `FCGI_BEGIN_REQUEST` (§8).
pub const BEGIN_REQUEST: u8 = 1;
/// `FCGI_ABORT_REQUEST`.
pub const ABORT_REQUEST: u8 = 2;
/// `FCGI_END_REQUEST`.
pub const END_REQUEST: u8 = 3;
/// `FCGI_PARAMS`.
pub const PARAMS: u8 = 4;
/// `FCGI_STDIN`.
pub const STDIN: u8 = 5;
/// `FCGI_STDOUT`.
pub const STDOUT: u8 = 6;
/// `FCGI_STDERR`.
pub const STDERR: u8 = 7;

/// Returns a record of request 1 (§3.3).
///
/// # Panics
/// Panics if the content is too long for a record.
pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("it fits").to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

/// Returns `FCGI_END_REQUEST` with a status for the application and one for the protocol (§5.5).
pub fn end(protocol_status: u8) -> Vec<u8> {
    record(END_REQUEST, &[0, 0, 0, 0, protocol_status, 0, 0, 0])
}

/// Returns a whole response: the output of a program, and the ends of stream and request.
pub fn response(output: &[u8]) -> Vec<u8> {
    let records = output.chunks(60_000).map(|piece| record(STDOUT, piece));
    records.chain([record(STDOUT, b""), end(0)]).flatten().collect()
}

/// Returns a whole response of status 200 with this text.
pub fn page(text: &str) -> Vec<u8> {
    response(format!("Content-Type: text/plain\r\n\r\n{text}").as_bytes())
}

/// A request.
#[derive(Clone, Debug, Default)]
pub struct FastCgiRequest {
    /// The variables.
    pub variables: BTreeMap<String, String>,
    /// The content.
    pub content: Vec<u8>,
    /// The connection stays open (`FCGI_KEEP_CONN`).
    pub keeps_connection: bool,
}

impl FastCgiRequest {
    /// Returns a variable, empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }
}

/// A connection of the server under test.
#[derive(Debug)]
pub struct FastCgiConnection {
    stream: UnixStream,
}

impl FastCgiConnection {
    /// Reads a record; `None` at the end.
    pub fn record(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 8];
        self.stream.read_exact(&mut header).ok()?;
        let [version, kind, id_high, id_low, high, low, padding, _] = header;
        assert_eq!((version, id_high, id_low), (1, 0, 1), "version 1, request 1");
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut content = vec![0; length + usize::from(padding)];
        self.stream.read_exact(&mut content).ok()?;
        content.truncate(length);
        Some((kind, content))
    }

    /// Reads the variables of a request, up to the empty record; `None` at the end.
    ///
    /// # Panics
    /// Panics if the records are not those of a request.
    pub fn head(&mut self) -> Option<FastCgiRequest> {
        let (kind, content) = self.record()?;
        assert_eq!((kind, content.get(..2)), (BEGIN_REQUEST, Some(&[0, 1][..])), "a responder");
        let mut request =
            FastCgiRequest { keeps_connection: content[2] & 1 == 1, ..FastCgiRequest::default() };
        let mut pairs = Vec::new();
        loop {
            let (kind, content) = self.record()?;
            assert_eq!(kind, PARAMS, "variables");
            if content.is_empty() {
                break;
            }
            pairs.extend_from_slice(&content);
        }
        let mut rest = &pairs[..];
        while !rest.is_empty() {
            let (name_length, value_length) = (length(&mut rest), length(&mut rest));
            let (name, behind) = rest.split_at(name_length);
            let (value, behind) = behind.split_at(value_length);
            rest = behind;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let before = request.variables.insert(text(name), text(value));
            assert_eq!(before, None, "{} comes once", text(name));
        }
        Some(request)
    }

    /// Reads a request with its content; `None` at the end, or if it is aborted.
    pub fn request(&mut self) -> Option<FastCgiRequest> {
        let mut request = self.head()?;
        loop {
            match self.record()? {
                (STDIN, content) if content.is_empty() => return Some(request),
                (STDIN, content) => request.content.extend_from_slice(&content),
                _ => return None,
            }
        }
    }

    /// Sends bytes; a server that has left gets none.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _left = self.stream.write_all(bytes.as_ref());
    }
}

/// Takes the length of a name or a value (§3.4).
fn length(rest: &mut &[u8]) -> usize {
    match **rest {
        [short, ..] if short < 128 => {
            *rest = &rest[1..];
            usize::from(short)
        }
        [a, b, c, d, ..] => {
            *rest = &rest[4..];
            u32::from_be_bytes([a & 127, b, c, d]) as usize
        }
        _ => panic!("a length is cut off"),
    }
}

/// An application that listens on a Unix socket until it is dropped.
#[derive(Debug)]
pub struct Application {
    listener: UnixListener,
    is_over: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    open: Arc<Mutex<Vec<UnixStream>>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Application {
    /// Starts an application whose connections are served by `serve`, each on a thread. An existing
    /// socket is replaced.
    ///
    /// # Panics
    /// Panics if it cannot listen.
    pub fn start(
        socket: &Path,
        serve: impl Fn(&mut FastCgiConnection) + Send + Sync + 'static,
    ) -> Application {
        let _missing = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).expect("a socket");
        let accepting = listener.try_clone().expect("a copy");
        let mut application = Application {
            listener,
            is_over: Arc::default(),
            connections: Arc::default(),
            open: Arc::default(),
            acceptor: None,
        };
        let (is_over, connections) = (application.is_over.clone(), application.connections.clone());
        let (open, serve) = (application.open.clone(), Arc::new(serve));
        let acceptor = thread::spawn(move || {
            for stream in accepting.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                connections.fetch_add(1, Ordering::SeqCst);
                stream.set_read_timeout(Some(PATIENCE)).expect("set");
                stream.set_write_timeout(Some(PATIENCE)).expect("set");
                let copy = stream.try_clone().expect("a copy");
                open.lock().expect("no panic under the lock").push(copy);
                let serve = Arc::clone(&serve);
                thread::spawn(move || {
                    let mut connection = FastCgiConnection { stream };
                    serve(&mut connection);
                    // A copy of it is kept for the end.
                    let _ended = connection.stream.shutdown(Shutdown::Both);
                });
            }
        });
        application.acceptor = Some(acceptor);
        application
    }

    /// Starts one that responds to each request by this function.
    pub fn responding(
        socket: &Path,
        respond: impl Fn(&FastCgiRequest) -> Vec<u8> + Send + Sync + 'static,
    ) -> Application {
        Application::start(socket, move |connection| {
            while let Some(request) = connection.request() {
                connection.send(respond(&request));
                if !request.keeps_connection {
                    return;
                }
            }
        })
    }

    /// Connections that were accepted.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // The thread that accepts looks up.
        let _woken = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        for stream in self.open.lock().expect("no panic under the lock").drain(..) {
            let _ended = stream.shutdown(Shutdown::Both);
        }
        let acceptor = self.acceptor.take().expect("it has one");
        acceptor.join().expect("no panic");
    }
}

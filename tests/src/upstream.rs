//! A server of HTTP/1.1 that requests are forwarded to. A test controls each byte of it.

use crate::PATIENCE;
use crate::reserved_port::HeldPort;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};

/// A server on a port of its own. It accepts connections until the test ends, or until it is
/// [killed](Upstream::kill). It keeps the port after that.
pub struct Upstream {
    port: HeldPort,
    serve: Arc<dyn Fn(&mut Accepted) + Send + Sync>,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    notes: Arc<AtomicUsize>,
    /// Changes when it is killed.
    life: Arc<AtomicUsize>,
    /// The connections that were accepted since the last start.
    accepted: Arc<Mutex<Vec<Weak<TcpStream>>>>,
    /// Accepts connections.
    acceptor: Option<JoinHandle<()>>,
}

/// A connection that a server has accepted.
#[derive(Debug)]
pub struct Accepted {
    stream: Arc<TcpStream>,
    /// The received bytes that were not used yet.
    input: Vec<u8>,
    heads: Arc<Mutex<Vec<String>>>,
    notes: Arc<AtomicUsize>,
}

impl Upstream {
    /// Starts one whose connections are served by `serve`, each on a thread.
    ///
    /// # Panics
    /// Panics if there is no free port.
    pub fn start(serve: impl Fn(&mut Accepted) + Send + Sync + 'static) -> Upstream {
        let port = HeldPort::take();
        let listener = TcpListener::bind(port.address()).expect("its port");
        let mut upstream = Upstream {
            port,
            serve: Arc::new(serve),
            connections: Arc::default(),
            heads: Arc::default(),
            notes: Arc::default(),
            life: Arc::default(),
            accepted: Arc::default(),
            acceptor: None,
        };
        upstream.accept(listener);
        upstream
    }

    fn accept(&mut self, listener: TcpListener) {
        let (connections, heads) = (self.connections.clone(), self.heads.clone());
        let (notes, serve) = (self.notes.clone(), self.serve.clone());
        let (life, accepted) = (self.life.clone(), self.accepted.clone());
        let number = life.load(Ordering::SeqCst);
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let mut all = accepted.lock().expect("no panic under the lock");
                if life.load(Ordering::SeqCst) != number {
                    return;
                }
                let stream = Arc::new(stream);
                all.push(Arc::downgrade(&stream));
                drop(all);
                connections.fetch_add(1, Ordering::Relaxed);
                let (serve, heads, notes) = (serve.clone(), heads.clone(), notes.clone());
                stream.set_read_timeout(Some(PATIENCE)).expect("set");
                stream.set_write_timeout(Some(PATIENCE)).expect("set");
                let mut accepted = Accepted { stream, input: Vec::new(), heads, notes };
                thread::spawn(move || serve(&mut accepted));
            }
        };
        self.acceptor = Some(thread::spawn(accept));
    }

    /// Ends it as a process that is killed ends: all its connections, and then nothing listens.
    ///
    /// # Panics
    /// Panics if it was killed before.
    pub fn kill(&mut self) {
        let accepted = self.accepted.clone();
        let mut all = accepted.lock().expect("no panic under the lock");
        self.life.fetch_add(1, Ordering::SeqCst);
        for stream in all.drain(..).filter_map(|stream| stream.upgrade()) {
            let _ended = stream.shutdown(Shutdown::Both);
        }
        drop(all);
        // The thread that accepts looks up.
        let _woken = TcpStream::connect(self.port.address());
        let acceptor = self.acceptor.take().expect("it is alive");
        acceptor.join().expect("no panic");
    }

    /// Has it listen at its old address again.
    ///
    /// # Panics
    /// Panics if it is running.
    pub fn restart(&mut self) {
        let listener = TcpListener::bind(self.port.address()).expect("its old port");
        self.accept(listener);
    }

    /// Starts one that sends these bytes to each request, and closes then.
    pub fn saying(bytes: impl Into<Vec<u8>>) -> Upstream {
        let bytes = bytes.into();
        Upstream::start(move |connection| {
            if connection.request().is_some() {
                connection.send(&bytes);
            }
        })
    }

    /// Starts one that responds to each request with 200 and its head.
    pub fn echo() -> Upstream {
        Upstream::start(|connection| {
            while let Some(head) = connection.request() {
                connection.respond(head.as_bytes());
            }
        })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Connections that were accepted.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of [notes](Accepted::note) of all connections.
    pub fn notes(&self) -> usize {
        self.notes.load(Ordering::Relaxed)
    }

    /// Returns the heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no panic under the lock").clone()
    }
}

impl Accepted {
    /// Reads a request with its content, and returns its head; `None` at the end.
    pub fn request(&mut self) -> Option<String> {
        let head = self.head()?;
        let field = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        if field("transfer-encoding:").is_some() {
            self.take_until(b"\r\n0\r\n\r\n")?;
        } else if let Some(length) = field("content-length:") {
            self.take(length.parse().ok()?)?;
        }
        Some(head)
    }

    /// Reads a head; `None` at the end.
    pub fn head(&mut self) -> Option<String> {
        let head = self.take_until(b"\r\n\r\n")?;
        let head = String::from_utf8(head).expect("a head is text");
        self.heads.lock().expect("no panic under the lock").push(head.clone());
        Some(head)
    }

    /// Reads this many bytes; `None` if there are not so many.
    pub fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        while self.input.len() < bytes {
            self.read()?;
        }
        Some(self.input.drain(..bytes).collect())
    }

    fn take_until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            let found = self.input.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Some(self.input.drain(..at + end.len()).collect());
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Option<()> {
        let mut buffer = [0; 64 * 1024];
        let bytes = (&*self.stream).read(&mut buffer).ok().filter(|bytes| *bytes > 0)?;
        self.input.extend_from_slice(&buffer[..bytes]);
        Some(())
    }

    /// Sends bytes; a proxy that has left gets none.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _left = (&*self.stream).write_all(bytes.as_ref());
    }

    /// Sends bytes. Returns false if the proxy has left.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        (&*self.stream).write_all(bytes).is_ok()
    }

    /// Notes that something has happened, for [`Upstream::notes`].
    pub fn note(&self) {
        self.notes.fetch_add(1, Ordering::Relaxed);
    }

    /// Responds with 200 and this content.
    pub fn respond(&mut self, content: &[u8]) {
        let kind = "Content-Type: text/plain";
        let length = content.len();
        let head = format!("HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {length}\r\n\r\n");
        self.send([head.as_bytes(), content].concat());
    }

    /// Sends no more, but continues to read.
    pub fn finish(&mut self) {
        let _left = self.stream.shutdown(Shutdown::Write);
    }

    /// Waits for the end of the bytes of the proxy.
    pub fn wait_for_end(&mut self) {
        while self.read().is_some() {}
    }
}

//! A server in this process with handlers that use every part of the contract, and a plain client.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Gone};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_engine::exchange_address::Address;
use pinion_engine::file_mapping::{Mapping, MappingId};
use pinion_engine::listener::{Listener, bind_tcp, local_address};
use pinion_engine::response_compression::choose;
use pinion_engine::server::{Control, Io, Kit, RunningServer};
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use pinion_http::field::{Field, Fields};
use pinion_http::prepared_response::{ArchiveRange, Piece, Prepared, PreparedBody, SharedFields};
use pinion_http::request_head::Framing;
use pinion_http::version::Version;

use crate::exchange_ends::OpenExchanges;
use crate::http3;
pub(crate) use crate::plain_client::{connect, read_response};

/// Bytes of the file of `/big`.
pub(crate) const BIG_BYTES: usize = 3 * 1024 * 1024 + 17;

/// Bytes of content that `/upload` allows.
pub(crate) const UPLOAD_MAX_BYTES: u64 = 3 << 20;

/// Returns the content of `/big`.
pub(crate) fn big() -> Vec<u8> {
    (0..BIG_BYTES).map(|at| (at / 7 % 251) as u8).collect()
}

/// The content of `/coded`, which is compressed while it is sent.
pub(crate) const CODED: &[u8] = &[b'c'; 5000];

/// The shared bytes of many responses.
pub(crate) const SHARED: Bytes = Bytes::from_static(b"shared");

/// Creates a file in memory.
fn memfd(content: &[u8]) -> File {
    let memfd = rustix::fs::memfd_create("content", rustix::fs::MemfdFlags::CLOEXEC);
    let mut file = File::from(memfd.expect("memfd"));
    file.write_all(content).expect("write");
    file
}

/// The state of a test handler for its exchange.
#[derive(Default)]
enum Job {
    #[default]
    None,
    Echo,
    Fill(u64),
    /// Counts content.
    Count(u64),
    /// Wants the content after a posted message.
    Later {
        max: u64,
    },
    /// Writes a line from time to time, and a last one when the server stops.
    Endless,
    /// Responds once the client sends no more.
    UntilInputEnd,
}

/// The handlers of the tests; their states are stored by the addresses of their exchanges.
pub(crate) struct Handlers {
    poster: Poster,
    big: Arc<Mapping>,
    big_file: Arc<File>,
    big_id: Option<MappingId>,
    jobs: HashMap<Address, Job>,
    open: OpenExchanges,
    gone: std::sync::mpsc::Sender<Gone>,
    floods: std::sync::mpsc::Sender<Address>,
    waiting: std::sync::mpsc::Sender<Address>,
}

impl Handlers {
    fn job(&mut self, exchange: &mut Exchange<'_>) -> &mut Job {
        self.jobs.entry(exchange.address()).or_default()
    }

    fn begin(&mut self, path: &[u8], framing: Framing, exchange: &mut Exchange<'_>) {
        let none = || std::iter::empty::<Field<'_>>();
        match path {
            b"/hello" | b"/big" | b"/hints" | b"/stopping" => self.respond_at_once(path, exchange),
            b"/echo" => {
                *self.job(exchange) = Job::Echo;
                let length = if let Framing::Length(bytes) = framing { Some(bytes) } else { None };
                exchange.want(1000);
                exchange.head(200, none(), length);
                if framing == Framing::None {
                    exchange.end(none());
                }
                exchange.wait(None);
            }
            b"/pieces" | b"/shrinks" | b"/directory" => self.write_pieces(path, exchange),
            b"/count" | b"/upload" | b"/little" | b"/later" | b"/later-little" | b"/five" => {
                self.begin_counting(path, exchange);
            }
            b"/fill" => {
                *self.job(exchange) = Job::Fill(1 << 20);
                exchange.head(200, none(), None);
                exchange.wait(None);
                self.fill(exchange);
            }
            b"/posted" => {
                let (poster, address) = (self.poster.clone(), exchange.address());
                exchange.wait(None);
                std::thread::spawn(move || poster.post(address, Box::new("from a thread\n")));
            }
            b"/waits" => {
                let _ = self.waiting.send(exchange.address());
                exchange.wait(Some(u64::MAX));
            }
            b"/deadline" => exchange.wait(Some(30)),
            b"/late" => exchange.wait(Some(200)),
            b"/abort" | b"/cut" | b"/short" | b"/long" | b"/beyond" | b"/endless-file"
            | b"/behind-files" | b"/too-many-files" | b"/cut-chunks" => {
                self.write_wrongly(path, exchange);
            }
            b"/upgrade" => {
                let _ = self.waiting.send(exchange.address());
                let upgrade = Field { name: b"Upgrade", value: b"echo" };
                let connection = Field { name: b"Connection", value: b"upgrade" };
                exchange.upgrade([upgrade, connection].into_iter());
            }
            b"/endless" => {
                *self.job(exchange) = Job::Endless;
                exchange.head(200, none(), None);
                exchange.write(Slice::Copied(b"tick\n"));
                exchange.wait(Some(10));
                let _ = self.waiting.send(exchange.address());
            }
            b"/until-input-end" => {
                *self.job(exchange) = Job::UntilInputEnd;
                exchange.wait(None);
            }
            b"/forever" => exchange.wait(None),
            b"/panic" => {
                // Other clients connect meanwhile.
                std::thread::sleep(Duration::from_millis(100));
                panic!("a handler panics");
            }
            _ => {}
        }
    }

    /// Handles paths with a complete response.
    fn respond_at_once(&self, path: &[u8], exchange: &mut Exchange<'_>) {
        match path {
            b"/hello" => exchange.prepared(&response(b"hello world!\n"), None),
            b"/big" => {
                let pieces = [Piece::Archive(ArchiveRange { offset: 0, bytes: BIG_BYTES as u64 })];
                let prepared = Prepared {
                    content_length: Some(BIG_BYTES as u64),
                    body: PreparedBody::Archive(&pieces),
                    ..Prepared::empty(200)
                };
                exchange.prepared(&prepared, self.big_id);
            }
            b"/hints" => {
                let link = Field { name: b"Link", value: b"</a.css>; rel=preload" };
                exchange.interim(103, std::iter::once(link));
                exchange.prepared(&response(b"hinted\n"), None);
            }
            _ => {
                let text = if exchange.is_stopping() { "stopping\n" } else { "serving\n" };
                exchange.prepared(&response(text.as_bytes()), None);
            }
        }
    }

    /// Handles paths whose response differs from its announcement, or is invalid.
    fn write_wrongly(&mut self, path: &[u8], exchange: &mut Exchange<'_>) {
        exchange.wait(None);
        let length = match path {
            b"/abort" | b"/cut" | b"/short" => Some(100),
            b"/long" => Some(5),
            _ => None,
        };
        exchange.head(200, std::iter::empty::<Field<'_>>(), length);
        let file = |offset, bytes| Slice::File { file: self.big_file.clone(), offset, bytes };
        if length == Some(100) {
            exchange.write(Slice::Copied(b"only this"));
        }
        let room = match path {
            b"/abort" => return exchange.abort(),
            b"/cut" | b"/cut-chunks" => {
                exchange.write(Slice::Copied(b", to be cut"));
                return exchange.cut_short();
            }
            b"/short" => return exchange.end(std::iter::empty::<Field<'_>>()),
            b"/long" => exchange.write(Slice::Copied(b"too long")),
            b"/beyond" => {
                let mapping = self.big_id.expect("taken up in the first pass");
                exchange.write(Slice::Mapped { mapping, offset: 1, bytes: BIG_BYTES as u64 })
            }
            b"/endless-file" => exchange.write(file(0, u64::MAX)),
            b"/behind-files" => exchange.write(file(u64::MAX, 1)),
            _ => {
                assert_eq!(exchange.write(file(0, 1 << 62)), ContentRoom::Full);
                exchange.write(file(0, 1 << 62))
            }
        };
        assert_eq!(room, ContentRoom::Gone);
    }

    /// Handles paths that send files and shared bytes.
    fn write_pieces(&mut self, path: &[u8], exchange: &mut Exchange<'_>) {
        let none = || std::iter::empty::<Field<'_>>();
        exchange.wait(None);
        exchange.head(200, none(), None);
        let file_of = |path: &[u8]| match path {
            b"/pieces" => self.big_file.clone(),
            b"/shrinks" => Arc::new(memfd(&big())),
            _ => Arc::new(File::open("/").expect("the root folder")),
        };
        let file = file_of(path);
        let piece = |offset, bytes| Slice::File { file: file.clone(), offset, bytes };
        exchange.write(Slice::Shared(SHARED));
        exchange.write(piece(5, 10));
        exchange.write(piece(0, 0));
        exchange.write(Slice::Shared(SHARED.slice(2..4)));
        exchange.write(piece(0, BIG_BYTES as u64));
        if path == b"/pieces" {
            return exchange.end(none());
        }
        // The file still has the promised length when the head is written.
        if path == b"/shrinks" {
            file.set_len(BIG_BYTES as u64 - 1).expect("a file of ours");
        }
    }

    /// Handles paths that count the received content.
    fn begin_counting(&mut self, path: &[u8], exchange: &mut Exchange<'_>) {
        *self.job(exchange) = Job::Count(0);
        exchange.wait(None);
        match path {
            b"/later" | b"/later-little" => {
                let little = path == b"/later-little";
                *self.job(exchange) = Job::Later { max: if little { 3 } else { UPLOAD_MAX_BYTES } };
                let _ = self.waiting.send(exchange.address());
                return;
            }
            b"/upload" => exchange.body_limit(UPLOAD_MAX_BYTES),
            b"/little" => exchange.body_limit(3),
            _ => {}
        }
        exchange.want(if path == b"/five" { 5 } else { u64::MAX });
    }

    fn body(&mut self, bytes: &[u8], exchange: &mut Exchange<'_>) {
        if let Job::Count(count) = self.job(exchange) {
            *count += bytes.len() as u64;
            return;
        }
        exchange.write(Slice::Copied(bytes));
        exchange.want(1000);
    }

    /// Sends the count in chunks, with the received trailers.
    fn body_end(&mut self, trailers: &Fields<'_>, exchange: &mut Exchange<'_>) {
        if let Job::Count(count) = self.job(exchange) {
            let text = format!("{count} bytes");
            exchange.head(200, std::iter::empty::<Field<'_>>(), None);
            exchange.write(Slice::Copied(text.as_bytes()));
        }
        exchange.end(trailers.iter());
    }

    fn posted(&mut self, text: &'static str, exchange: &mut Exchange<'_>) {
        if let Job::Later { max } = *self.job(exchange) {
            *self.job(exchange) = Job::Count(0);
            exchange.body_limit(max);
            return exchange.want(u64::MAX);
        }
        exchange.prepared(&response(text.as_bytes()), None);
    }

    fn fill(&mut self, exchange: &mut Exchange<'_>) {
        loop {
            let Job::Fill(left) = self.job(exchange) else { return };
            if *left == 0 {
                exchange.end(std::iter::empty::<Field<'_>>());
                return;
            }
            *left -= 1024;
            match exchange.write(Slice::Shared(vec![b'x'; 1024].into())) {
                ContentRoom::Free => {}
                ContentRoom::Full | ContentRoom::Gone => return,
            }
        }
    }
}

pub(crate) fn response(body: &'static [u8]) -> Prepared<'static> {
    Prepared {
        shared: SharedFields::h1(b"Content-Type: text/plain\r\n"),
        content_length: Some(body.len() as u64),
        body: PreparedBody::Bytes(body),
        ..Prepared::empty(200)
    }
}

impl App for Handlers {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        if let Event::Head(head) = &event {
            let is_http1 = matches!(head.version, Version::Http10 | Version::Http11);
            self.open.begin(exchange, is_http1);
        }
        match event {
            Event::Head(head) if head.target.path == b"/coded" => {
                exchange.compress(choose(head));
                let text = Field { name: b"Content-Type", value: b"text/plain" };
                exchange.head(200, std::iter::once(text), Some(CODED.len() as u64));
                exchange.write(Slice::Copied(&CODED[..1000]));
                exchange.flush();
                exchange.write(Slice::Copied(&CODED[1000..]));
                exchange.end(std::iter::empty::<Field<'_>>());
            }
            Event::Head(head) => self.begin(head.target.path, head.framing, exchange),
            Event::Body(bytes) => self.body(bytes, exchange),
            Event::BodyEnd(trailers) => self.body_end(&trailers, exchange),
            Event::InputEnd => {
                if let Job::UntilInputEnd = self.job(exchange) {
                    exchange.prepared(&response(b"no more\n"), None);
                }
            }
            Event::Writable => self.fill(exchange),
            Event::Posted(message) => {
                let text = message.downcast::<&'static str>().expect("what the test posted");
                self.posted(&text, exchange);
            }
            Event::Deadline => match self.job(exchange) {
                Job::Endless => {
                    exchange.write(Slice::Copied(b"tick\n"));
                    exchange.wait(Some(10));
                }
                _ => exchange.prepared(&response(b"late\n"), None),
            },
            Event::Stopping => {
                if let Job::Endless = self.job(exchange) {
                    *self.job(exchange) = Job::None;
                    exchange.write(Slice::Copied(b"bye\n"));
                    exchange.end(std::iter::empty::<Field<'_>>());
                }
            }
            // The engine responds.
            Event::Refused(_) => {}
            Event::Gone(why) => {
                let _ = self.gone.send(why);
            }
        }
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        match event {
            ByteStreamEvent::Open => stream.want(1 << 20),
            ByteStreamEvent::Bytes(b"post") => {
                let (poster, address) = (self.poster.clone(), stream.address());
                std::thread::spawn(move || poster.post(address, Box::new("from a thread\n")));
            }
            ByteStreamEvent::Bytes(b"wait") => stream.wait(Some(30)),
            ByteStreamEvent::Bytes(b"patience") => stream.wait(Some(u64::MAX)),
            ByteStreamEvent::Bytes(b"abort") => {
                stream.write(Slice::Copied(b"never"));
                stream.abort();
            }
            ByteStreamEvent::Bytes(bytes) => {
                stream.write(Slice::Copied(bytes));
                stream.want(bytes.len() as u64);
            }
            ByteStreamEvent::End => stream.close(),
            ByteStreamEvent::Gone(why) => {
                let _ = self.gone.send(why);
            }
            ByteStreamEvent::Posted(message) => {
                let text = message.downcast::<&'static str>().expect("what the test posted");
                stream.write(Slice::Shared(text.as_bytes().to_vec().into()));
            }
            ByteStreamEvent::Deadline => {
                stream.write(Slice::Mapped {
                    mapping: self.big_id.expect("taken up in the first pass"),
                    offset: 7,
                    bytes: 5,
                });
            }
            ByteStreamEvent::Stopping => {
                assert!(stream.is_stopping());
                stream.write(Slice::Copied(b"bye\n"));
                stream.close();
            }
            ByteStreamEvent::Writable => {}
        }
    }

    fn ended(&mut self, number: NonZeroU32) {
        self.open.ended(number);
    }

    fn closed(&mut self, connection: Address, _unsent_bytes: u64) {
        self.open.closed(connection);
    }

    fn flooded(&mut self, connection: Address) {
        let _ = self.floods.send(connection);
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        let mappings = connections.mappings();
        if self.big_id.is_none() {
            self.big_id = Some(mappings.add(self.big.clone()));
        }
    }
}

/// A server that stops when it is dropped.
pub(crate) struct TestServer {
    /// The address of the HTTP listener.
    pub(crate) http: SocketAddr,
    /// The address of the byte stream listener.
    pub(crate) raw: SocketAddr,
    /// The address of the QUIC listener.
    pub(crate) quic: SocketAddr,
    /// Stops the server.
    pub(crate) control: Control,
    /// The causes of exchanges that ended early.
    pub(crate) gone: std::sync::mpsc::Receiver<Gone>,
    /// Connections that were closed as floods.
    pub(crate) floods: std::sync::mpsc::Receiver<Address>,
    /// The addresses of waiting exchanges, in the order of their requests.
    pub(crate) waiting: std::sync::mpsc::Receiver<Address>,
    poster: Poster,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Starts one worker on `io`.
    pub(crate) fn start(io: Io, settings: WorkerSettings) -> Self {
        Self::start_workers(io, settings, 1)
    }

    /// Starts workers on `io`.
    pub(crate) fn start_workers(io: Io, settings: WorkerSettings, workers: usize) -> Self {
        let http = bind_tcp(([127, 0, 0, 1], 0).into()).expect("bind");
        Self::start_on(io, settings, workers, Arc::new(http))
    }

    /// Starts workers on `io` with this socket for HTTP.
    pub(crate) fn start_on(
        io: Io,
        settings: WorkerSettings,
        workers: usize,
        http: Arc<OwnedFd>,
    ) -> Self {
        let file = memfd(&big());
        let big_file = Arc::new(file.try_clone().expect("a second handle"));
        let mapping = Arc::new(Mapping::new(file, Vec::new()).expect("map"));
        let raw = Arc::new(bind_tcp(([127, 0, 0, 1], 0).into()).expect("bind"));
        let address = |socket: &Arc<_>| local_address(socket).expect("address");
        let (http_at, raw_at) = (address(&http), address(&raw));
        let listener =
            |socket, protocol| Listener { socket, settings: ListenerSettings::plain(protocol) };
        let listeners = vec![
            listener(http, Protocol::Http(Protocols::ALL)),
            listener(raw, Protocol::ByteStream),
        ];
        let (endpoint, quic_at) = http3::listener(workers);
        let kit = Kit { listeners, quic: vec![endpoint], settings, workers, io };
        let (gone, gone_events) = std::sync::mpsc::channel();
        let (floods, flooded) = std::sync::mpsc::channel();
        let (waiting, waiting_at) = std::sync::mpsc::channel();
        let server = RunningServer::start(kit, move |_, poster| Handlers {
            poster,
            big: mapping.clone(),
            big_file: big_file.clone(),
            big_id: None,
            jobs: HashMap::new(),
            open: OpenExchanges::default(),
            gone: gone.clone(),
            floods: floods.clone(),
            waiting: waiting.clone(),
        });
        let server = server.expect("start");
        let (control, poster) = (server.control(), server.poster());
        let thread = Some(std::thread::spawn(move || server.join()));
        Self {
            http: http_at,
            raw: raw_at,
            quic: quic_at,
            control,
            gone: gone_events,
            floods: flooded,
            waiting: waiting_at,
            poster,
            thread,
        }
    }

    /// Connects to the HTTP listener.
    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.http)
    }

    /// Returns the address of the next waiting exchange.
    pub(crate) fn next_waiting(&self) -> Address {
        self.waiting.recv_timeout(Duration::from_secs(10)).expect("an exchange that waits")
    }

    /// Posts to an exchange or a stream.
    pub(crate) fn post(&self, to: Address, text: &'static str) {
        self.poster.post(to, Box::new(text)).expect("room in the inbox");
    }

    /// Sends bytes on a new connection, ends the sending side and reads until the server closes.
    pub(crate) fn exchange(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).expect("send");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        response
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

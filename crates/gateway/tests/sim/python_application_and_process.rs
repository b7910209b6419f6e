//! An application that consists of the requests of Python applications alone, and a process of one:
//! it reads the frames of the server, and sends frames as a test chooses them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Message};
use pinion_engine::backend::sim::{Client, Network, Read};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_gateway::path_prefix::PathPrefix;
use pinion_gateway::proxy::{Ended, UploadQuotas};
use pinion_gateway::proxy_error::ProxyError;
use pinion_gateway::python::Python;
use pinion_gateway::python::python_app::{PythonApp, PythonInterface};
use pinion_http::field::Field;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::request_head::RequestHead;
use pinion_jobs::byte_quota::ByteQuota;

/// Most bytes of uploads in memory.
const UPLOADS_MAX_BYTES: usize = 1 << 20;
/// The time that a process may be silent, in milliseconds.
const TIMEOUT_MS: u64 = 2_000;
/// Bytes that fit between the server and a process before it reads.
const WINDOW_BYTES: usize = 64 * 1024;

/// Kinds of frames, as `pinion_http::python` describes them.
pub(crate) const REQUESTS: u32 = 1;
pub(crate) const ROOM: u32 = 4;
pub(crate) const GONE: u32 = 5;
pub(crate) const CLOSED: u32 = 8;
pub(crate) const READY: u32 = 16;
pub(crate) const RESPONSE: u32 = 17;
pub(crate) const HEAD: u32 = 18;
pub(crate) const CONTENT: u32 = 19;
pub(crate) const END: u32 = 20;
pub(crate) const ABORT: u32 = 21;
pub(crate) const FAILED: u32 = 22;
pub(crate) const WANT: u32 = 23;
pub(crate) const HINTS: u32 = 24;
pub(crate) const GIVEN_BACK: u32 = 25;
pub(crate) const ACCEPT: u32 = 26;
pub(crate) const MESSAGE: u32 = 27;
pub(crate) const WANT_CHANNEL: u32 = 30;

/// Returns a frame.
pub(crate) fn frame(kind: u32, request: u32, content: &[u8]) -> Vec<u8> {
    let header = [kind, request, content.len() as u32].map(u32::to_le_bytes).concat();
    [&header, content].concat()
}

/// Returns an application with a process.
pub(crate) fn python_app(interface: PythonInterface) -> Arc<PythonApp> {
    let mut app = PythonApp::new("app", PathPrefix::new("/"), interface);
    app.timeout_ms = TIMEOUT_MS;
    app.add_process(PathBuf::from("/simulated"), None);
    Arc::new(app)
}

/// See the head of the module.
pub(crate) struct PythonApplication {
    python: Python,
    pub(crate) app: Arc<PythonApp>,
    open: HashMap<Address, String>,
    /// The outcome of each request, by target.
    pub(crate) ended: HashMap<String, Ended>,
}

impl PythonApplication {
    pub(crate) fn new(poster: Poster, app: Arc<PythonApp>) -> Self {
        let memory = Arc::new(ByteQuota::new(UPLOADS_MAX_BYTES));
        let python = Python::new(UploadQuotas { files: Arc::default(), memory }, poster);
        Self { python, app, open: HashMap::new(), ended: HashMap::new() }
    }

    /// Returns the number of requests that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    fn begin(&mut self, head: &RequestHead<'_>, exchange: &mut Exchange<'_>) {
        let target = String::from_utf8_lossy(head.target.path).into_owned();
        let client = ClientIdentity { peer: exchange.peer(), is_secured: false };
        let begun = self.python.begin(&self.app, &Arc::from([]), (&client, head), exchange);
        let before = self.open.insert(exchange.address(), target);
        assert_eq!(before, None, "a request that has not ended");
        if let Err(error) = begun {
            note(Ended::Failed(error), &mut self.open, &mut self.ended, exchange);
        }
    }

    fn flush(&mut self, connections: &mut Connections<'_>) {
        let Self { python, open, ended, .. } = self;
        if connections.is_stopping() {
            python.stop();
        }
        python.flush(connections, |end, exchange| note(end, open, ended, exchange));
    }
}

/// Notes how a request has ended, and responds to it if the gateway has not.
fn note(
    end: Ended,
    open: &mut HashMap<Address, String>,
    ended: &mut HashMap<String, Ended>,
    exchange: &mut Exchange<'_>,
) {
    let target = open.remove(&exchange.address()).expect("a request that has not ended");
    if let Ended::Failed(error) = &end {
        respond(error, exchange);
    }
    let before = ended.insert(target, end);
    assert_eq!(before, None, "a request has ended twice");
}

fn respond(error: &ProxyError, exchange: &mut Exchange<'_>) {
    let value = error.to_string().escape_default().to_string();
    let field = Field { name: b"Own", value: value.as_bytes() };
    exchange.head(error.status(), std::iter::once(field), Some(0));
    exchange.end(std::iter::empty());
}

impl App for PythonApplication {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        if let Event::Head(head) = &event {
            self.begin(head, exchange);
        } else if self.python.has(exchange.address())
            && let Some(end) = self.python.event(&event, exchange)
        {
            note(end, &mut self.open, &mut self.ended, exchange);
        }
        self.flush(&mut exchange.connections());
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        if stream.tag().is_some_and(Python::is_of_process) {
            let Self { python, open, ended, .. } = self;
            python.byte_stream_event(&event, stream, |end, exchange| {
                note(end, open, ended, exchange);
            });
        } else {
            assert!(self.python.raw_of_client(&event, stream), "no WebSocket");
        }
        self.flush(&mut stream.connections());
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        self.python.pass(connections);
        self.flush(connections);
    }

    fn alarm_ms(&self) -> Option<u64> {
        self.python.alarm_ms()
    }

    fn posted(&mut self, _: Message, _: &mut Connections<'_>) {}
}

/// A frame of the server.
#[derive(Clone, Debug)]
pub(crate) struct ServerFrame {
    pub(crate) kind: u32,
    pub(crate) request: u32,
    pub(crate) content: Vec<u8>,
}

impl ServerFrame {
    /// Returns its content as a number.
    pub(crate) fn number(&self) -> u32 {
        u32::from_le_bytes(self.content.as_slice().try_into().expect("a number"))
    }
}

/// A request of a batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchedRequest {
    pub(crate) number: u32,
    pub(crate) path: String,
    /// The whole content; `None` if it is streamed.
    pub(crate) content: Option<Vec<u8>>,
}

/// The side of a process on its connection to the server.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: Client,
    /// The received bytes of an incomplete frame.
    input: Vec<u8>,
    pub(crate) is_over: bool,
}

impl Link {
    /// Accepts a connection. The process is loaded.
    pub(crate) fn accept(connection: Client, network: &Network) -> Self {
        network.establish(connection, WINDOW_BYTES);
        Self { connection, input: Vec::new(), is_over: false }
    }

    /// Reads the received bytes.
    pub(crate) fn frames(&mut self, network: &Network) -> Vec<ServerFrame> {
        while let read @ (Read::Bytes(_) | Read::Ended | Read::Reset) =
            network.read(self.connection, usize::MAX, &mut self.input)
        {
            if !matches!(read, Read::Bytes(_)) {
                self.is_over = true;
                break;
            }
        }
        let mut frames = Vec::new();
        while let Some((header, rest)) = self.input.split_first_chunk::<12>() {
            let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4"));
            let Some(content) = rest.get(..word(8) as usize) else { break };
            frames.push(ServerFrame { kind: word(0), request: word(4), content: content.into() });
            self.input.drain(..12 + word(8) as usize);
        }
        frames
    }
}

/// Reads the content of a frame `REQUESTS`.
pub(crate) fn read_batch(content: &[u8]) -> Vec<BatchedRequest> {
    let mut reader = Reader { rest: content, referred: Vec::new() };
    let Some(Value::List(requests)) = reader.value() else { panic!("no list") };
    let read = |request: Value| {
        let Value::List(values) = request else { panic!("{request:?}") };
        let [Value::Int(number), Value::Dict(dict), content] = &values[..] else {
            panic!("{values:?}")
        };
        let names = [&b"path"[..], b"REQUEST_URI"];
        let path = dict.iter().find(|(name, _)| names.contains(&name.as_slice()));
        let Some((_, Value::Bytes(path))) = path else { panic!("{dict:?}") };
        let content = match content {
            Value::Bytes(content) => Some(content.clone()),
            _ => None,
        };
        let path = String::from_utf8_lossy(path).into_owned();
        BatchedRequest { number: *number, path, content }
    };
    requests.into_iter().map(read).collect()
}

/// A value in the format of Python's `marshal`, as far as a process needs it.
#[derive(Clone, Debug)]
enum Value {
    None,
    Int(u32),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Dict(Vec<(Vec<u8>, Value)>),
}

/// Reads values of `marshal`.
struct Reader<'a> {
    rest: &'a [u8],
    /// Values to which later ones refer.
    referred: Vec<Value>,
}

impl Reader<'_> {
    /// Returns `None` at the end of a dictionary.
    fn value(&mut self) -> Option<Value> {
        const REFERRED: u8 = 0x80;
        let kind = self.take(1)[0];
        let place = (kind & REFERRED != 0).then_some(self.referred.len());
        if place.is_some() {
            self.referred.push(Value::None);
        }
        let kind = kind & !REFERRED;
        let count = match kind {
            b'N' => return Some(Value::None),
            b'0' => return None,
            b'z' | b'Z' | b')' => u32::from(self.take(1)[0]),
            b'{' => 0,
            _ => u32::from_le_bytes(self.take(4).try_into().expect("4 bytes")),
        };
        let value = match kind {
            b'i' => Value::Int(count),
            b'r' => self.referred[count as usize].clone(),
            b')' | b'[' => {
                Value::List((0..count).map(|_| self.value().expect("a value")).collect())
            }
            b'{' => self.dict(),
            _ => Value::Bytes(self.take(count).to_vec()),
        };
        if let Some(place) = place {
            self.referred[place] = value.clone();
        }
        Some(value)
    }

    fn dict(&mut self) -> Value {
        let mut dict = Vec::new();
        while let Some(key) = self.value() {
            let Value::Bytes(key) = key else { panic!("{key:?}") };
            dict.push((key, self.value().expect("a value")));
        }
        Value::Dict(dict)
    }

    fn take(&mut self, bytes: u32) -> Vec<u8> {
        let (front, behind) = self.rest.split_at(bytes as usize);
        self.rest = behind;
        front.to_vec()
    }
}

//! A connection that is warm takes no memory for a request, on either side.

mod python;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pinion_http::cgi::response_event::GatewayEvent;
use pinion_http::cgi::variables::{
    RequestVariables, ScriptVariables, ServerVariables, VariableScratch,
};
use pinion_http::fastcgi::request_writer::FastCgiRequest;
use pinion_http::fastcgi::response_reader::FastCgiReader;
use pinion_http::field::Field;
use pinion_http::field_section::FieldSection;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::h1::client::request_writer::{
    OutgoingRequest, RequestContent, RequestTarget, write_request,
};
use pinion_http::h1::client::response_parser::{InputEnd, ResponseEvent, ResponseParser};
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::h2::event::Event;
use pinion_http::h2::session::{Session, SessionSettings};
use pinion_http::hpack::static_encoder;
use pinion_http::limits::Limits;
use pinion_http::method::Method;
use pinion_http::{fastcgi, scgi};

/// The system's allocator, counting the calls of each thread.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// The most bytes that one call has requested.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // A thread that is ending has no counter any more, and no test in it.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: every call is passed to the system's allocator unchanged; counting changes a thread-local
// number that needs neither memory nor a destructor.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: requires of its caller the same as the trait; so do the two functions below.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise about `layout` is the one that the system's allocator
        // requires.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as `alloc`.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, and thus from the system's allocator, with
        // this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: as `alloc`.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: as for `dealloc`, and the caller promises that `bytes` fits the layout.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// GET / of http://a, with an entry for the table of the compression: index 62 from then on.
const FIRST: &[u8] = b"\x82\x86\x84\x01\x01a\x40\x01x\x01y";
const THEN: &[u8] = b"\x82\x86\x84\x01\x01a\xbe";

fn frame(wire: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    wire.extend_from_slice(&[0, 0, payload.len() as u8, kind, flags]);
    wire.extend_from_slice(&stream.to_be_bytes());
    wire.extend_from_slice(payload);
}

/// A connection with its buffers, as a server has them.
struct Connection {
    session: Session<[u64; 8]>,
    section: FieldSection,
    out: Vec<u8>,
    next_stream: u32,
}

impl Connection {
    /// Sends a page: as many requests as may be open at the same time, one of them with content and
    /// one cancelled.
    fn page(&mut self, wire: &mut Vec<u8>, block: &[u8]) {
        wire.clear();
        let first = self.next_stream;
        self.next_stream += 256;
        for stream in (first..self.next_stream).step_by(2) {
            let end = u8::from(stream != first);
            frame(wire, 1, 4 | end, stream, block);
        }
        frame(wire, 0, 0, first, b"content");
        frame(wire, 8, 0, 0, &[0, 1, 0, 0]);
        frame(wire, 3, 0, first + 2, &[0, 0, 0, 8]);
        self.read(wire);
        for stream in (first..self.next_stream).step_by(2).filter(|&stream| stream != first + 2) {
            let Connection { session, out, .. } = self;
            assert!(
                session.head(stream, false, out, |_, block| static_encoder::status(block, 200))
            );
            session.set_ready(stream, true);
        }
        while let Some(stream) = self.session.next_ready() {
            assert!(self.session.data(stream, 100, true, &mut self.out));
            assert!(self.session.close(stream, &mut self.out).is_some());
        }
        assert_eq!(self.session.open_streams(), 0);
        self.out.clear();
    }

    fn read(&mut self, wire: &[u8]) {
        let mut at = 0;
        while at < wire.len() {
            let (rest, mut place) = (&wire[at..], None);
            let Connection { session, section, out, .. } = self;
            let step = session.step(rest, section, &mut place, 0, out);
            at += step.used;
            match step.event {
                Event::Fatal { code, .. } => panic!("{code:?}"),
                Event::Data { stream, bytes, .. } => {
                    self.session.consumed(stream, bytes.len(), &mut self.out);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_warm_connection_allocates_nothing() {
    let mut connection = Connection {
        session: Session::new(&SessionSettings::default()),
        section: FieldSection::new(),
        out: Vec::new(),
        next_stream: 1,
    };
    connection.session.open(&mut connection.out);
    connection.read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let mut wire = Vec::new();
    connection.page(&mut wire, FIRST);
    // The session remembers the streams that it has ended, up to a limit.
    (0..200).for_each(|_| connection.page(&mut wire, THEN));
    let before = CALLS.with(Cell::get);
    (0..100).for_each(|_| connection.page(&mut wire, THEN));
    assert_eq!(CALLS.with(Cell::get) - before, 0);
    // Its memory is that of all streams that may be open, and the table of the compression.
    println!("{} bytes, {} beside", size_of::<Session<()>>(), connection.session.memory_bytes());
    assert!(connection.session.memory_bytes() < 128 * 128 + 8 * 1024);
}

/// Writes a request of a client and parses a response, with chunks and trailers in both. Returns
/// the number of events and trailers.
fn exchange(out: &mut Vec<u8>, storage: &mut HeadStorage) -> usize {
    const RESPONSE: &[u8] = b"HTTP/1.1 103 x\r\nLink: y\r\n\r\nHTTP/1.1 200 OK\r\nServer: x\r\n\
        Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nSum: 7\r\n\r\n";
    out.clear();
    let target = RequestTarget::Origin { authority: b"a.example", target: b"/" };
    let request =
        OutgoingRequest { content: RequestContent::Chunked, ..OutgoingRequest::get(target) };
    let field = Field { name: b"X", value: b"y" };
    let mut written = write_request(out, &request, [field]).unwrap();
    written.content.write(out, b"hello").unwrap();
    written.content.end(out, [field]).unwrap();
    let mut parser = ResponseParser::new(written.request, &ResponseLimits::default());
    // The head comes in two parts.
    let (mut used, mut arrived, mut events) = (0, 60, 0);
    loop {
        let input = &RESPONSE[used..arrived];
        let step = parser.step(input, InputEnd::Open, u64::MAX, storage).unwrap();
        used += step.used;
        events += 1;
        match step.event {
            ResponseEvent::NeedMore => arrived = RESPONSE.len(),
            ResponseEvent::End { trailers, .. } => return events + trailers.len(),
            _ => {}
        }
    }
}

#[test]
fn a_client_request_allocates_nothing() {
    let (mut out, mut storage) = (Vec::new(), HeadStorage::new());
    // Interim response, a part of the head, the head, content, the end and its trailer.
    assert_eq!(exchange(&mut out, &mut storage), 6);
    let before = CALLS.with(Cell::get);
    (0..100).for_each(|_| assert_eq!(exchange(&mut out, &mut storage), 6));
    assert_eq!(CALLS.with(Cell::get) - before, 0);
}

/// Writes a request with its variables over FastCGI and over SCGI, and reads a response of many
/// records. Returns the number of bytes of its content.
fn gateway_exchange(
    variables: &RequestVariables<'_>,
    response: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut VariableScratch,
    storage: &mut HeadStorage,
) -> usize {
    let content = RequestContent::Length(0);
    out.clear();
    scgi::request_writer::write_request(out, Method::Get, content, |pairs| {
        variables.visit(scratch, |name, value| pairs.add(name, value))
    })
    .expect("the request is good");
    out.clear();
    let request = FastCgiRequest { method: Method::Get, content, keep_connection: true };
    let written = fastcgi::request_writer::write_request(out, &request, |params| {
        variables.visit(scratch, |name, value| params.add(name, value))
    })
    .expect("the request is good");
    let mut reader = FastCgiReader::new(written.request, &ResponseLimits::default());
    let (mut used, mut content_bytes) = (0, 0);
    loop {
        let input = &response[used..];
        let step = reader.step(input, InputEnd::Open, u64::MAX, storage).expect("it is good");
        used += step.used;
        match step.event {
            GatewayEvent::Response(ResponseEvent::Content(bytes)) => content_bytes += bytes.len(),
            GatewayEvent::Response(ResponseEvent::End { .. }) => return content_bytes,
            _ => {}
        }
    }
}

/// Gives the variables of a request to `check`.
fn with_variables(check: impl FnOnce(&RequestVariables<'_>)) {
    let wire = b"GET /a?b HTTP/1.1\r\nHost: h\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n";
    let mut request_storage = HeadStorage::new();
    let parsed = parse(wire, 0, &mut request_storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("no head") };
    let variables = RequestVariables {
        head: &head,
        client: ClientIdentity { peer: "[2001:db8::1]:1".parse().ok(), is_secured: true },
        server: ServerVariables { name: b"h", port: 443, software: b"pinion" },
        script: ScriptVariables { name: b"/a", ..ScriptVariables::default() },
        content: RequestContent::Length(0),
        passes_authorization: false,
        added: &[],
    };
    check(&variables);
}

#[test]
fn a_gateway_request_allocates_nothing() {
    with_variables(gateway_takes_no_memory);
}

fn gateway_takes_no_memory(variables: &RequestVariables<'_>) {
    let record = |kind: u8, content: &[u8]| {
        [&[1, kind, 0, 1, 0, content.len() as u8, 0, 0], content].concat()
    };
    let mut response = record(6, b"Content-Type: text/html\r\nStatus: 404 x\r\n\r\n");
    for _ in 0..1000 {
        response.extend(record(6, b"hello"));
        response.extend(record(7, b"x"));
    }
    response.extend(record(3, &[0; 8]));
    let (mut out, mut storage) = (Vec::new(), HeadStorage::new());
    let mut scratch = VariableScratch::default();
    let mut exchange =
        || gateway_exchange(variables, &response, &mut out, &mut scratch, &mut storage);
    assert_eq!(exchange(), 5000);
    let before = CALLS.get();
    assert_eq!(exchange(), 5000);
    assert_eq!(CALLS.get(), before, "no memory was taken");
}

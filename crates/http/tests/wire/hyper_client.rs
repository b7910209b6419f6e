//! Responses are compared with the client of `hyper`, which has many users. Both must read the same
//! response: two recipients that end a response at different bytes make response splitting
//! possible.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};
use proptest::prelude::*;
use proptest::sample::select;

use pinion_http::h1::client::response_error::ResponseError;
use pinion_http::h1::client::response_parser::{InputEnd, Persistence};
use pinion_http::h1::trailers::is_forbidden_in_response;
use pinion_http::method::Method;

use crate::http1_client_properties::{RESPONSE_PIECES, good_response};
use crate::oracle::h1_response::{Case, Ended, run};

/// Panics when hyper makes another response of the bytes.
fn check(case: &Case, wire: &[u8], cut: usize) {
    let found = run(case, wire, 0);
    let length = found.head.as_ref().and_then(|head| head.content_length);
    if length.is_some_and(|length| length > u64::MAX - 2) {
        // hyper uses the two largest lengths for other purposes.
        return;
    }
    let other = Hyper::run(case, wire, cut);
    if let Some(head) = &found.head {
        let (is_1_0, status) = other.head.as_ref().map(|head| (head.is_1_0, head.status)).unzip();
        assert_eq!((is_1_0, status), (Some(head.is_1_0), Some(head.status)), "{found:?}");
        assert_eq!(other.head.map(|head| head.fields), Some(by_name(&head.fields)));
    }
    let interim: Vec<u16> = found.interim.iter().map(|head| head.status).collect();
    match found.ended {
        Ended::End(Persistence::Tunnel) => {}
        Ended::End(_) => {
            assert_eq!(other.interim, interim);
            assert_eq!(other.ended, HyperEnded::Complete, "{found:?}");
            assert_eq!(other.content, found.content);
            assert_eq!(other.trailers, by_name(&found.trailers));
        }
        Ended::NeedMore => {
            assert_ne!(other.ended, HyperEnded::Complete, "{found:?}");
            assert_eq!(other.content, found.content);
        }
        Ended::Error(error) if other.ended == HyperEnded::Complete => {
            assert!(is_stricter(error), "{error:?}: it takes {:?}", other.content);
        }
        Ended::Error(_) => {}
    }
}

/// Returns whether this side refuses a response that others may accept, in order to be sure of its
/// end.
fn is_stricter(error: ResponseError) -> bool {
    match error {
        // hyper skips empty lines before a status line, and accepts a bare LF as the end of a line.
        ResponseError::MalformedStatusLine | ResponseError::MisplacedLineEnd => true,
        // hyper reads content in other codings until the close, and ignores `Content-Length`.
        ResponseError::AmbiguousTransferEncoding | ResponseError::UnsupportedTransferCoding => true,
        // hyper accepts a 101 that was not requested.
        ResponseError::UnexpectedUpgrade => true,
        // hyper does not read chunk extensions, and accepts white space in trailers.
        ResponseError::MalformedChunk | ResponseError::MalformedTrailer => true,
        // hyper has limits of its own.
        ResponseError::HeadTooLarge { .. }
        | ResponseError::TooManyFields { .. }
        | ResponseError::TooManyInterimResponses { .. }
        | ResponseError::ChunkExtensionsTooLarge { .. }
        | ResponseError::TrailersTooLarge
        | ResponseError::TooManyTrailers
        | ResponseError::ContentTooLarge { .. } => true,
        ResponseError::UnsupportedVersion
        | ResponseError::MalformedFieldLine
        | ResponseError::InvalidContentLength
        | ResponseError::NoResponse
        | ResponseError::HeadIncomplete
        | ResponseError::ContentIncomplete => false,
    }
}

/// Values of each name, in their order.
type ByName = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

fn by_name(fields: &[(Vec<u8>, Vec<u8>)]) -> ByName {
    let mut names = ByName::new();
    for (name, value) in fields {
        names.entry(name.to_ascii_lowercase()).or_default().push(value.clone());
    }
    names
}

fn by_name_of(map: &HeaderMap) -> ByName {
    let mut names = ByName::new();
    for (name, value) in map {
        names.entry(name.as_str().into()).or_default().push(value.as_bytes().to_vec());
    }
    names
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HyperEnded {
    Complete,
    Pending,
    Error,
}

struct HyperHead {
    is_1_0: bool,
    status: u16,
    fields: ByName,
}

/// The result of hyper's client for the bytes.
struct Hyper {
    interim: Vec<u16>,
    head: Option<HyperHead>,
    content: Vec<u8>,
    trailers: ByName,
    ended: HyperEnded,
}

impl Hyper {
    /// Polls a connection, the request on it and the content of the response in turn, until nothing
    /// moves any more. There is no runtime: the wire is in memory.
    fn run(case: &Case, wire: &[u8], cut: usize) -> Hyper {
        let mut context = Context::from_waker(Waker::noop());
        let io = Wire::new(wire, cut, case.end);
        let progress = Arc::clone(&io.progress);
        let mut builder = http1::Builder::new();
        builder.max_headers(200);
        let mut handshake = pin!(builder.handshake(io));
        let Poll::Ready(Ok((mut sender, connection))) = handshake.as_mut().poll(&mut context)
        else {
            panic!("a handshake of HTTP/1 waits for nothing");
        };
        let mut connection = pin!(connection);
        let mut is_connected = true;
        let interim = Arc::new(Mutex::new(Vec::new()));
        let mut request = request(case);
        let statuses = Arc::clone(&interim);
        hyper::ext::on_informational(&mut request, move |response| {
            statuses.lock().unwrap().push(response.status().as_u16());
        });
        let mut response = pin!(sender.send_request(request));
        let mut content = None;
        let ended = HyperEnded::Pending;
        let (head, bytes, trailers) = (None, Vec::new(), ByName::new());
        let mut found = Hyper { interim: Vec::new(), head, content: bytes, trailers, ended };
        // The loop has one more round than those with progress, since each part may wait for a
        // later one.
        let mut still_rounds = 0;
        while still_rounds < 3 && found.ended == HyperEnded::Pending {
            let before = *progress.lock().unwrap();
            if is_connected {
                is_connected = connection.as_mut().poll(&mut context).is_pending();
            }
            let moved = match &mut content {
                None => found.take_head(response.as_mut().poll(&mut context), &mut content),
                Some(body) => found.take_frame(Pin::new(body).poll_frame(&mut context)),
            };
            let is_still = !moved && *progress.lock().unwrap() == before;
            still_rounds = if is_still { still_rounds + 1 } else { 0 };
        }
        found.interim = std::mem::take(&mut interim.lock().unwrap());
        found
    }

    fn take_head(
        &mut self,
        response: Poll<hyper::Result<Response<Incoming>>>,
        content: &mut Option<Incoming>,
    ) -> bool {
        match response {
            Poll::Pending => return false,
            Poll::Ready(Err(_)) => self.ended = HyperEnded::Error,
            Poll::Ready(Ok(response)) => {
                self.head = Some(HyperHead {
                    is_1_0: response.version() == Version::HTTP_10,
                    status: response.status().as_u16(),
                    fields: by_name_of(response.headers()),
                });
                *content = Some(response.into_body());
            }
        }
        true
    }

    fn take_frame(&mut self, frame: Poll<Option<hyper::Result<Frame<Bytes>>>>) -> bool {
        match frame {
            Poll::Pending => return false,
            Poll::Ready(None) => self.ended = HyperEnded::Complete,
            Poll::Ready(Some(Err(_))) => self.ended = HyperEnded::Error,
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => self.content.extend_from_slice(&data),
                Err(frame) => {
                    let trailers = frame.into_trailers().expect("data or trailers");
                    self.trailers = by_name_of(&trailers);
                    self.trailers.retain(|name, _| !is_forbidden_in_response(name));
                }
            },
        }
        true
    }
}

fn request(case: &Case) -> Request<NoContent> {
    let (method, uri) = match case.request.method {
        Method::Connect => ("CONNECT", "a.example:443"),
        Method::Head => ("HEAD", "/"),
        _ => ("GET", "/"),
    };
    let mut request = Request::builder().method(method).uri(uri).header("host", "a.example");
    if case.request.close {
        request = request.header("connection", "close");
    }
    request.body(NoContent).expect("a request")
}

/// The content of a request that has none.
struct NoContent;

impl Body for NoContent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(0)
    }
}

/// The connection to a server whose bytes are known. They come once the request was sent.
struct Wire {
    input: Vec<u8>,
    cut: usize,
    end: InputEnd,
    is_sent: bool,
    /// Bytes that were read.
    progress: Arc<Mutex<usize>>,
}

impl Wire {
    fn new(input: &[u8], cut: usize, end: InputEnd) -> Wire {
        let progress = Arc::new(Mutex::new(0));
        Wire { input: input.to_vec(), cut: cut.max(1), end, is_sent: false, progress }
    }
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_sent {
            return Poll::Pending;
        }
        let mut at = self.progress.lock().unwrap();
        let rest = &self.input[*at..];
        let bytes = rest.len().min(self.cut).min(buffer.remaining());
        match self.end {
            _ if bytes > 0 => buffer.put_slice(&rest[..bytes]),
            InputEnd::Open => return Poll::Pending,
            InputEnd::Closed => {}
            InputEnd::Broken => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
        *at += bytes;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_sent = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Kinds of cases with the usual limits, and no `Upgrade`, which hyper does not request.
fn kind() -> impl Strategy<Value = u8> {
    select((0..32u8).filter(|kind| kind & 3 != 3).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4 * ProptestConfig::default().cases))]

    #[test]
    fn responses_of_pieces(
        kind in kind(),
        cut in 1..60usize,
        pieces in prop::collection::vec(select(RESPONSE_PIECES), 0..14),
    ) {
        check(&Case::of(kind), pieces.concat().as_bytes(), cut);
    }

    #[test]
    fn good_responses(kind in kind(), cut in 1..60usize, wire in good_response()) {
        check(&Case::of(kind), &wire, cut);
    }

    #[test]
    fn good_responses_with_a_byte_changed(
        kind in kind(),
        wire in good_response(),
        at: prop::sample::Index,
        byte in select(b"\r\n \t:;\0\x7f\xff0159aH,".to_vec()),
    ) {
        let mut wire = wire;
        let at = at.index(wire.len());
        wire[at] = byte;
        check(&Case::of(kind), &wire, 30);
    }
}

/// Checks the corpus of the fuzz target.
#[test]
fn corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/h1_response");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        let data = fs::read(path).unwrap();
        let [kind, cut, wire @ ..] = data.as_slice() else { continue };
        if kind & 3 != 3 {
            check(&Case::of(*kind & 31), wire, usize::from(*cut));
            count += 1;
        }
    }
    assert!(count >= 20, "only {count} files");
}

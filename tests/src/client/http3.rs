//! One HTTP/3 connection (RFC 9114) that sends requests one after the other and reads responses.
//!
//! QUIC is that of quinn. Frames and field sections are made and parsed here, so that a request can
//! have any error that a case needs, and no error of the server is tolerated.

mod aside;
mod partial_requests;

use super::Broken;
use super::byte_stream::Peer;
use super::qpack;
use super::quic::{Quic, at_once, frame, integer, leave_alone, take_frame, take_integer, wait};
use crate::is_reached;
use crate::protocol::Protocol;
use crate::request::Request;
use crate::response::{Response, from_section};
use crate::response_invariants;
pub use aside::Part;
use quinn::{ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};

/// Types of frames (§7.2).
pub mod kind {
    /// DATA
    pub const DATA: u64 = 0x0;
    /// HEADERS
    pub const HEADERS: u64 = 0x1;
    /// CANCEL_PUSH
    pub const CANCEL_PUSH: u64 = 0x3;
    /// SETTINGS
    pub const SETTINGS: u64 = 0x4;
    /// PUSH_PROMISE
    pub const PUSH_PROMISE: u64 = 0x5;
    /// GOAWAY
    pub const GOAWAY: u64 = 0x7;
    /// MAX_PUSH_ID
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// Types of HTTP/2 that have no meaning, and must not be sent (§7.2.8).
    pub const RESERVED: [u64; 4] = [0x2, 0x6, 0x8, 0x9];
}

/// Types of unidirectional streams (§6.2, RFC 9204 §4.2).
pub mod stream {
    /// Control
    pub const CONTROL: u64 = 0x0;
    /// Push
    pub const PUSH: u64 = 0x1;
    /// QPACK encoder
    pub const ENCODER: u64 = 0x2;
    /// QPACK decoder
    pub const DECODER: u64 = 0x3;
}

/// H3_NO_ERROR (§8.1).
const NO_ERROR: u64 = 0x100;
/// H3_REQUEST_CANCELLED: the client does not send the rest of a request whose response is complete.
const REQUEST_CANCELLED: u32 = 0x10c;

/// A connection, and the data that the server has sent about it.
#[derive(Debug)]
pub struct Http3 {
    heard: Arc<Mutex<Heard>>,
    quic: Quic,
    /// The sender of the control stream. It is the last field, because the stream must not end
    /// while the connection is open (§6.2.1).
    _control: SendStream,
}

/// The data of the server's control stream, and an error on any of its own streams.
#[derive(Debug, Default)]
struct Heard {
    has_control: bool,
    settings: Option<Vec<(u64, u64)>>,
    go_away: Option<u64>,
    wrong: Option<&'static str>,
}

impl Http3 {
    /// Connects, and opens the control stream with the settings (§6.2.1).
    ///
    /// # Errors
    /// Returns the errors of QUIC or of TLS.
    pub fn try_open(peer: &Peer) -> io::Result<Http3> {
        let quic = Quic::open(peer)?;
        let mut control = wait(quic.connection().open_uni())??;
        let settings = [&integer(stream::CONTROL)[..], &frame(kind::SETTINGS, &[])].concat();
        wait(control.write_all(&settings))??;
        let heard = Arc::new(Mutex::new(Heard::default()));
        leave_alone(listen(quic.connection().clone(), Arc::clone(&heard)));
        Ok(Http3 { heard, quic, _control: control })
    }

    /// Returns the QUIC connection.
    pub fn quic(&self) -> &Quic {
        &self.quic
    }

    /// Sends as much of a request as the server accepts, and reads its response, which is checked
    /// by [`response_invariants`].
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    #[track_caller]
    pub fn try_exchange(&self, request: &Request) -> Result<Response, Broken> {
        let mut bytes = head(request);
        for piece in request.content().chunks(16 * 1024) {
            bytes.extend(frame(kind::DATA, piece));
        }
        let connection = self.quic.connection().clone();
        let mut response = ResponseParts::new(request.is_head());
        let (response, outcome) = at_once(async move {
            let outcome = exchange(&connection, &bytes, &mut response).await;
            (response, outcome)
        })?;
        self.judge(response, outcome)
    }

    /// Does the same for a request without content, and calls `meanwhile` after the head of the
    /// response.
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    #[track_caller]
    pub fn exchange_around(
        &self,
        request: &Request,
        meanwhile: impl FnOnce(),
    ) -> Result<Response, Broken> {
        let (bytes, mut response) = (head(request), ResponseParts::new(request.is_head()));
        let connection = self.quic.connection().clone();
        let (begun, mut response) = at_once(async move {
            let begun = begin(&connection, &bytes, &mut response).await;
            (begun, response)
        })?;
        let mut receiver = begun?;
        meanwhile();
        let (response, outcome) = at_once(async move {
            let outcome = receive(&mut receiver, &mut response).await;
            (response, outcome)
        })?;
        self.judge(response, outcome)
    }

    /// Returns the value of a setting of the server, after waiting for its settings.
    ///
    /// # Panics
    /// Panics if it sends none, or wrong ones.
    pub fn setting(&self, name: u64) -> Option<u64> {
        let heard = || self.heard.lock().expect("no panic under the lock");
        assert!(is_reached(|| heard().settings.is_some()), "no settings");
        let heard = heard();
        assert_eq!(heard.wrong, None);
        let mut settings = heard.settings.iter().flatten();
        settings.find_map(|(found, value)| (*found == name).then_some(*value))
    }

    /// Returns the first stream to which the server does not respond any more, if it has sent
    /// GOAWAY.
    ///
    /// # Panics
    /// Panics if it sent a wrong one.
    pub fn go_away(&self) -> Option<u64> {
        let heard = |heard: &Heard| (heard.wrong, heard.go_away);
        let (wrong, go_away) = heard(&self.heard.lock().expect("no panic under the lock"));
        assert_eq!(wrong, None);
        go_away
    }

    /// Checks the received data by the rules.
    #[track_caller]
    fn judge(&self, parts: ResponseParts, outcome: Result<(), Broken>) -> Result<Response, Broken> {
        let heard = || self.heard.lock().expect("no panic under the lock");
        // Data of several streams that arrive together can be processed in either order.
        let has_settings = outcome.is_err()
            || is_reached(|| {
                let heard = heard();
                heard.settings.is_some() || heard.wrong.is_some()
            });
        if let Some(wrong) = heard().wrong {
            return Err(malformed(wrong));
        }
        outcome?;
        if !has_settings {
            return Err(malformed("§6.2.1: no settings, which come first"));
        }
        let mut response = parts.head.ok_or_else(|| malformed("§4.1: no head"))?;
        response.body = parts.body;
        response_invariants::check(&response, parts.to_head);
        Ok(response)
    }
}

impl Http3 {
    /// Sends a request without content, and waits for the first bytes of its response. Dropping the
    /// receiver stops the server.
    ///
    /// # Errors
    /// Returns the reason why there are none.
    pub fn try_begin(&self, request: &Request) -> Result<RecvStream, Broken> {
        let bytes = head(request);
        let (mut sender, mut receiver) =
            wait(self.quic.connection().open_bi())?.map_err(io::Error::from)?;
        wait(send(&mut sender, &bytes))?;
        let first = wait(receiver.read_chunk(usize::MAX, true))?.map_err(io::Error::from)?;
        first.map(|_| receiver).ok_or(Broken::Closed)
    }
}

/// Returns the head of a request.
fn head(request: &Request) -> Vec<u8> {
    frame(kind::HEADERS, &qpack::encode(&request.section(Protocol::Http3.scheme())))
}

/// Sends a request without content and reads the head of its response.
async fn begin(
    connection: &quinn::Connection,
    request: &[u8],
    response: &mut ResponseParts,
) -> Result<RecvStream, Broken> {
    let opened = connection.open_bi().await;
    let (mut sender, mut receiver) = opened.map_err(|error| lost(error, response))?;
    send(&mut sender, request).await;
    while !response.has_final_head() {
        if !receive_some(&mut receiver, response).await? {
            return Err(malformed("§4.1: no head"));
        }
    }
    Ok(receiver)
}

/// Sends a request and reads its response at the same time, because either may wait for the other.
async fn exchange(
    connection: &quinn::Connection,
    request: &[u8],
    response: &mut ResponseParts,
) -> Result<(), Broken> {
    let opened = connection.open_bi().await;
    let (mut sender, mut receiver) = opened.map_err(|error| lost(error, response))?;
    let outcome = converse(&mut sender, request, &mut receiver, response).await;
    let _sent_already = sender.reset(VarInt::from_u32(REQUEST_CANCELLED));
    outcome
}

/// Sends the rest of a request while its response arrives.
async fn converse(
    sender: &mut SendStream,
    request: &[u8],
    receiver: &mut RecvStream,
    response: &mut ResponseParts,
) -> Result<(), Broken> {
    let mut sending = pin!(send(sender, request));
    let mut receiving = pin!(receive(receiver, response));
    let mut is_sent = false;
    poll_fn(|context| {
        if !is_sent {
            is_sent = sending.as_mut().poll(context).is_ready();
        }
        receiving.as_mut().poll(context)
    })
    .await
}

/// Sends as much as the server accepts. If it stops the request, the response shows that (§4.1.1).
async fn send(sender: &mut SendStream, request: &[u8]) {
    match sender.write_all(request).await {
        Ok(()) => sender.finish().expect("it was not finished before"),
        Err(WriteError::Stopped(_) | WriteError::ConnectionLost(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

async fn receive(receiver: &mut RecvStream, response: &mut ResponseParts) -> Result<(), Broken> {
    while receive_some(receiver, response).await? {}
    Ok(())
}

/// Receives a piece; returns false at the end of the stream.
async fn receive_some(
    receiver: &mut RecvStream,
    response: &mut ResponseParts,
) -> Result<bool, Broken> {
    match receiver.read_chunk(usize::MAX, true).await {
        Ok(Some(chunk)) => response.take(&chunk.bytes).map(|()| true),
        Ok(None) if response.held.is_empty() => Ok(false),
        Ok(None) => Err(malformed("§7.1: a frame that is cut")),
        Err(ReadError::Reset(code)) => Err(Broken::Reset(code.into())),
        Err(ReadError::ConnectionLost(error)) => Err(lost(error, response)),
        Err(error) => Err(Broken::Failed(error.into())),
    }
}

/// Returns the reason why the connection has ended.
fn lost(error: ConnectionError, response: &ResponseParts) -> Broken {
    let has_begun = response.head.is_some() || !response.held.is_empty();
    match error {
        ConnectionError::ApplicationClosed(closed) => match closed.error_code.into_inner() {
            NO_ERROR if has_begun => Broken::Short(format!("{} bytes", response.body.len())),
            NO_ERROR => Broken::Closed,
            code => Broken::GivenUp(code),
        },
        other => Broken::Failed(other.into()),
    }
}

/// The received part of a response.
#[derive(Debug)]
struct ResponseParts {
    to_head: bool,
    head: Option<Response>,
    body: Vec<u8>,
    has_trailers: bool,
    /// The bytes of an incomplete frame.
    held: Vec<u8>,
}

impl ResponseParts {
    fn new(to_head: bool) -> ResponseParts {
        ResponseParts {
            to_head,
            head: None,
            body: Vec::new(),
            has_trailers: false,
            held: Vec::new(),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.held.extend_from_slice(bytes);
        while let Some((kind, payload)) = take_frame(&mut self.held) {
            match kind {
                kind::DATA | kind::HEADERS if self.has_trailers => {
                    return Err(malformed("§4.1: nothing comes behind trailers"));
                }
                kind::DATA if !self.has_final_head() => {
                    return Err(malformed("§4.1: content before the head of an answer"));
                }
                kind::DATA => self.body.extend_from_slice(&payload),
                kind::HEADERS => self.take_headers(&payload)?,
                _ if is_known(kind) => return Err(malformed("§7.2: a frame with no place there")),
                // §9: frames of an unknown kind are ignored.
                _ => {}
            }
        }
        Ok(())
    }

    fn take_headers(&mut self, block: &[u8]) -> Result<(), Broken> {
        let section = qpack::decode(block).map_err(|error| malformed(&error))?;
        if self.has_final_head() {
            self.has_trailers = true;
            return Ok(());
        }
        let head = from_section(section, Protocol::Http3).map_err(Broken::Malformed)?;
        if head.status < 200 {
            response_invariants::check(&head, self.to_head);
        }
        self.head = Some(head);
        Ok(())
    }

    fn has_final_head(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.status >= 200)
    }
}

/// Returns whether a type of frames has a meaning, or is forbidden.
fn is_known(kind: u64) -> bool {
    kind <= kind::GOAWAY || kind == kind::MAX_PUSH_ID || kind::RESERVED.contains(&kind)
}

/// Reads the streams that the server opens.
async fn listen(connection: quinn::Connection, heard: Arc<Mutex<Heard>>) {
    while let Ok(stream) = connection.accept_uni().await {
        leave_alone(follow(stream, Arc::clone(&heard)));
    }
}

async fn follow(mut stream: RecvStream, heard: Arc<Mutex<Heard>>) {
    let (mut held, mut of_kind) = (Vec::new(), None);
    loop {
        let read = stream.read_chunk(usize::MAX, true).await;
        let mut heard = heard.lock().expect("no panic under the lock");
        match (read, of_kind) {
            (Ok(Some(chunk)), _) => held.extend_from_slice(&chunk.bytes),
            (Ok(None) | Err(ReadError::Reset(_)), Some(_)) => {
                heard.wrong = Some("§6.2.1: a critical stream ends");
                return;
            }
            _ => return,
        }
        if of_kind.is_none() {
            let mut rest = held.as_slice();
            let Some(kind) = take_integer(&mut rest) else { continue };
            held = rest.to_vec();
            match kind {
                stream::CONTROL | stream::ENCODER | stream::DECODER => of_kind = Some(kind),
                stream::PUSH => heard.wrong = Some("§4.6: nobody lets it push"),
                // §6.2.3: reserved types have no meaning.
                _ => return,
            }
            if kind == stream::CONTROL && std::mem::replace(&mut heard.has_control, true) {
                heard.wrong = Some("§6.2.1: a second control stream");
            }
        }
        while of_kind == Some(stream::CONTROL)
            && let Some((kind, payload)) = take_frame(&mut held)
        {
            let taken = heard.control_frame(kind, &payload);
            heard.wrong = heard.wrong.or(taken.err());
        }
    }
}

impl Heard {
    fn control_frame(&mut self, kind: u64, payload: &[u8]) -> Result<(), &'static str> {
        if (kind == kind::SETTINGS) == self.settings.is_some() {
            return Err("§7.2.4: settings come first, and once");
        }
        match kind {
            kind::SETTINGS => {
                self.settings = Some(settings(payload)?);
                Ok(())
            }
            kind::GOAWAY => {
                let id = take_integer(&mut &*payload).ok_or("§7.2.6: GOAWAY")?;
                let is_right = id % 4 == 0 && self.go_away.is_none_or(|before| id <= before);
                self.go_away = Some(id);
                is_right.then_some(()).ok_or("§5.2: a stream of a request, and none behind it")
            }
            _ if is_known(kind) => Err("§7.2: a frame that no server sends there"),
            _ => Ok(()),
        }
    }
}

/// Parses settings (§7.2.4).
fn settings(mut payload: &[u8]) -> Result<Vec<(u64, u64)>, &'static str> {
    let mut settings: Vec<(u64, u64)> = Vec::new();
    while !payload.is_empty() {
        let name = take_integer(&mut payload).ok_or("§7.2.4: settings that are cut")?;
        let value = take_integer(&mut payload).ok_or("§7.2.4: settings that are cut")?;
        if matches!(name, 0x0 | 0x2..=0x5) || settings.iter().any(|(before, _)| *before == name) {
            return Err("§7.2.4.1: a setting that is forbidden, or comes twice");
        }
        settings.push((name, value));
    }
    Ok(settings)
}

fn malformed(reason: &str) -> Broken {
    Broken::Malformed(reason.to_owned())
}

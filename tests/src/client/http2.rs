//! One HTTP/2 connection (RFC 9113) that sends requests one after the other and reads responses.
//!
//! Frames are made and parsed here, so that a request can have any error that a case needs, and no
//! error of the server is tolerated. The window is small, so that every large response has to wait
//! for it.

mod parked_exchanges;
mod partial_requests;
mod response_order;

use super::Broken;
use super::byte_stream::{Peer, Wire};
use crate::protocol::Protocol;
use crate::request::Request;
use crate::response::{Response, from_section};
use crate::response_invariants;
use loona_hpack::{Decoder, Encoder};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// The first bytes of a client (§3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The size of the receive windows of a stream and of the connection. The latter cannot be smaller
/// at the start (§6.9.2).
const WINDOW_BYTES: u32 = 65_535;
/// Frames of either side are not longer, because neither side announces a larger maximum (§4.2).
const FRAME_MAX_BYTES: usize = 16_384;
/// Size of the dynamic table of the client's encoder (RFC 7541 §4.2).
const TABLE_BYTES: u32 = 4096;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 0x10; // RFC 9218 §7.1

const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
const WITH_PRIORITY: u8 = 32;

const SETTING_TABLE: u16 = 1;
const SETTING_PUSH: u16 = 2;
pub(crate) const SETTING_WINDOW: u16 = 4;
/// The client does not send the rest of a request whose response is complete (§7).
const CANCEL: u32 = 8;

/// A connection, and the state that both sides share.
pub struct Http2 {
    wire: Wire,
    protocol: Protocol,
    held: Vec<u8>,
    encoder: Encoder<'static>,
    decoder: Decoder<'static>,
    next_stream: u32,
    /// The send window of the connection.
    send_window: i64,
    /// The initial send window of a new stream.
    stream_window: i64,
    /// The receive window of the connection.
    receive_window: i64,
    /// The initial receive window of a stream.
    stream_window_bytes: u32,
    has_settings: bool,
    /// Exchanges that wait while another one is in progress.
    aside: Vec<Exchange>,
}

impl fmt::Debug for Http2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2").field("next_stream", &self.next_stream).finish_non_exhaustive()
    }
}

/// A stream with one request and its response.
#[derive(Debug)]
struct Exchange {
    id: u32,
    to_head: bool,
    send_window: i64,
    receive_window: i64,
    /// The size to which the receive window is opened again and again; 0 for one that is opened by
    /// calls.
    window_bytes: u32,
    head: Option<Response>,
    body: Vec<u8>,
    is_over: bool,
}

#[derive(Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Http2 {
    /// Connects, and sends the preface and the settings.
    ///
    /// # Errors
    /// Returns the errors of the socket or of TLS.
    pub fn try_open(peer: &Peer) -> io::Result<Http2> {
        Http2::with_window(peer, WINDOW_BYTES)
    }

    /// Connects with a receive window of this many bytes on each stream.
    ///
    /// # Errors
    /// Returns the errors of the socket or of TLS.
    pub fn with_window(peer: &Peer, stream_window_bytes: u32) -> io::Result<Http2> {
        let mut http2 = Http2 {
            wire: Wire::open(peer)?,
            protocol: peer.protocol(),
            held: Vec::new(),
            encoder: Encoder::new(),
            decoder: Decoder::new(),
            next_stream: 1,
            send_window: i64::from(WINDOW_BYTES),
            stream_window: i64::from(WINDOW_BYTES),
            receive_window: i64::from(WINDOW_BYTES),
            stream_window_bytes,
            has_settings: false,
            aside: Vec::new(),
        };
        let mut settings = SETTING_PUSH.to_be_bytes().to_vec();
        settings.extend(0u32.to_be_bytes());
        settings.extend(SETTING_WINDOW.to_be_bytes());
        settings.extend(stream_window_bytes.to_be_bytes());
        let bytes = [PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat();
        http2.wire.write_all(&bytes)?;
        Ok(http2)
    }

    /// Returns the socket, for tests that manipulate it.
    pub fn socket(&self) -> &TcpStream {
        self.wire.socket()
    }

    /// Sends as much of a request as the server accepts, and reads its response, which is checked
    /// by [`response_invariants`].
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    #[track_caller]
    pub fn try_exchange(&mut self, request: &Request) -> Result<Response, Broken> {
        let mut exchange = self.open(request)?;
        self.send_content(&mut exchange, request.content())?;
        self.receive(exchange)
    }

    /// Reads a response to its end.
    #[track_caller]
    fn receive(&mut self, mut exchange: Exchange) -> Result<Response, Broken> {
        while !exchange.is_over {
            self.take_frame(&mut exchange)?;
        }
        let mut response = exchange.head.ok_or_else(|| malformed("content without a head"))?;
        response.body = exchange.body;
        response_invariants::check(&response, exchange.to_head);
        Ok(response)
    }

    /// Does the same with the last request: the client ends its side of the connection, so the
    /// server learns that nothing follows before the response is read. The response has to fit into
    /// the windows.
    ///
    /// # Errors
    /// Returns the reason why there is no response, or an error if the server does not end the
    /// connection after it.
    #[track_caller]
    pub fn try_last_exchange(mut self, request: &Request) -> Result<Response, Broken> {
        let mut exchange = self.open(request)?;
        self.send_content(&mut exchange, request.content())?;
        self.wire.finish()?;
        // The server may already have responded and closed.
        let _gone = self.wire.socket().shutdown(Shutdown::Write);
        let response = self.receive(exchange)?;
        loop {
            match self.read_frame() {
                Ok(frame) if matches!(frame.kind, HEADERS | DATA) => {
                    return Err(malformed("an answer to nothing"));
                }
                Ok(_) => {}
                Err(Broken::Closed) => return Ok(response),
                Err(broken) => return Err(broken),
            }
        }
    }

    /// Sends a request without content, and reads until a part of the content of its response has
    /// arrived.
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    pub fn try_begin(&mut self, request: &Request) -> Result<(), Broken> {
        let mut exchange = self.open(request)?;
        while exchange.body.is_empty() {
            self.take_frame(&mut exchange)?;
        }
        Ok(())
    }

    /// Cancels the last request.
    pub fn stop(&mut self) {
        let last = self.next_stream - 2;
        self.send_if_open(&frame(RST_STREAM, 0, last, &CANCEL.to_be_bytes()));
    }

    /// Opens a stream with the head of a request.
    fn open(&mut self, request: &Request) -> Result<Exchange, Broken> {
        self.open_for(request, !request.content().is_empty())
    }

    /// Does the same, whether or not content follows.
    fn open_for(&mut self, request: &Request, is_longer: bool) -> Result<Exchange, Broken> {
        let mut exchange = Exchange {
            id: self.next_stream,
            to_head: request.is_head(),
            send_window: self.stream_window,
            receive_window: i64::from(self.stream_window_bytes),
            window_bytes: self.stream_window_bytes,
            head: None,
            body: Vec::new(),
            is_over: false,
        };
        self.next_stream += 2;
        // The settings of the server apply from the first request on.
        while !self.has_settings {
            self.take_frame(&mut exchange)?;
        }
        exchange.send_window = self.stream_window;
        self.send_head(&exchange, request, is_longer);
        Ok(exchange)
    }

    fn send_head(&mut self, exchange: &Exchange, request: &Request, is_longer: bool) {
        let section = request.section(self.protocol.scheme());
        let fields = section.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let block = self.encoder.encode(fields);
        let pieces = block.chunks(FRAME_MAX_BYTES);
        let last = pieces.len() - 1;
        let mut bytes = Vec::new();
        for (at, piece) in pieces.enumerate() {
            let kind = if at == 0 { HEADERS } else { CONTINUATION };
            let flags = if at == 0 && !is_longer { END_STREAM } else { 0 };
            let flags = flags | if at == last { END_HEADERS } else { 0 };
            bytes.extend(frame(kind, flags, exchange.id, piece));
        }
        self.send_if_open(&bytes);
    }

    /// Sends content as the windows allow, until the response is complete.
    fn send_content(&mut self, exchange: &mut Exchange, content: &[u8]) -> Result<(), Broken> {
        self.send_piece(exchange, content, END_STREAM)
    }

    /// Does the same with these flags on the last frame.
    fn send_piece(
        &mut self,
        exchange: &mut Exchange,
        content: &[u8],
        last: u8,
    ) -> Result<(), Broken> {
        let mut rest = content;
        while !rest.is_empty() && !exchange.is_over {
            let window = self.send_window.min(exchange.send_window).max(0);
            let bytes = usize::try_from(window).unwrap_or(0).min(rest.len()).min(FRAME_MAX_BYTES);
            if bytes == 0 {
                self.take_frame(exchange)?;
                continue;
            }
            let (piece, behind) = rest.split_at(bytes);
            let flags = if behind.is_empty() { last } else { 0 };
            self.send_if_open(&frame(DATA, flags, exchange.id, piece));
            self.send_window -= bytes as i64;
            exchange.send_window -= bytes as i64;
            rest = behind;
        }
        if !rest.is_empty() {
            self.send_if_open(&frame(RST_STREAM, 0, exchange.id, &CANCEL.to_be_bytes()));
        }
        Ok(())
    }

    /// Sends bytes. If the server has closed meanwhile, its last frames are still read.
    fn send_if_open(&mut self, bytes: &[u8]) {
        let _closed_meanwhile = self.wire.write_all(bytes);
    }

    fn take_frame(&mut self, exchange: &mut Exchange) -> Result<(), Broken> {
        let frame = self.read_frame()?;
        if !self.has_settings && (frame.kind != SETTINGS || frame.flags & ACK != 0) {
            return Err(malformed("§3.4: the server's settings come first"));
        }
        match self.aside.iter().position(|other| other.id == frame.stream) {
            None => self.act_on(exchange, &frame),
            Some(at) => {
                let mut other = self.aside.swap_remove(at);
                let done = self.act_on(&mut other, &frame);
                self.aside.push(other);
                done
            }
        }
    }

    /// Processes a frame of an exchange or of the connection.
    fn act_on(&mut self, exchange: &mut Exchange, frame: &Frame) -> Result<(), Broken> {
        let of_exchange = frame.stream == exchange.id;
        match frame.kind {
            DATA | HEADERS if !of_exchange || exchange.is_over => {
                Err(malformed("§5.1: a frame of a stream that is over, or never was"))
            }
            DATA => self.take_data(exchange, frame),
            HEADERS => self.take_headers(exchange, frame),
            RST_STREAM if of_exchange && !exchange.is_over => {
                Err(Broken::Reset(number(&frame.payload)?.into()))
            }
            SETTINGS if frame.flags & ACK == 0 => self.take_settings(exchange, &frame.payload),
            PING if frame.flags & ACK == 0 => {
                self.send_if_open(&self::frame(PING, ACK, 0, &frame.payload));
                Ok(())
            }
            GOAWAY => take_goaway(exchange, &frame.payload),
            WINDOW_UPDATE => {
                let more = i64::from(number(&frame.payload)? & 0x7fff_ffff);
                match frame.stream {
                    _ if more == 0 => return Err(malformed("§6.9: a window that does not open")),
                    0 => self.send_window += more,
                    _ if of_exchange => exchange.send_window += more,
                    _ => {}
                }
                Ok(())
            }
            PUSH_PROMISE | CONTINUATION => Err(malformed("§6.6, §6.10: nobody asked for it")),
            PRIORITY | RST_STREAM | SETTINGS | PING => Ok(()),
            // §5.5: frames of an unknown kind are ignored.
            _ => Ok(()),
        }
    }

    fn take_data(&mut self, exchange: &mut Exchange, frame: &Frame) -> Result<(), Broken> {
        if exchange.head.as_ref().is_none_or(|head| head.status < 200) {
            return Err(malformed("§8.1: content before the head of an answer"));
        }
        let bytes = frame.payload.len() as i64; // with padding (§6.9.1)
        self.receive_window -= bytes;
        exchange.receive_window -= bytes;
        if self.receive_window < 0 || exchange.receive_window < 0 {
            return Err(malformed("§6.9.1: more than the window has room for"));
        }
        exchange.body.extend_from_slice(without_padding(frame, 0)?);
        exchange.is_over = frame.flags & END_STREAM != 0;
        self.receive_window = self.open_window(0, self.receive_window, WINDOW_BYTES);
        if !exchange.is_over {
            let (left, full) = (exchange.receive_window, exchange.window_bytes);
            exchange.receive_window = self.open_window(exchange.id, left, full);
        }
        Ok(())
    }

    /// Opens a window to its full size when less than half of it is left; returns its new size.
    fn open_window(&mut self, stream: u32, left: i64, full: u32) -> i64 {
        if left >= i64::from(full / 2) {
            return left;
        }
        let more = u32::try_from(i64::from(full) - left).unwrap_or(0);
        self.send_if_open(&frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes()));
        full.into()
    }

    /// Reads a head or trailers, whose frames must not be interrupted by others (§4.3).
    fn take_headers(&mut self, exchange: &mut Exchange, first: &Frame) -> Result<(), Broken> {
        let skipped = if first.flags & WITH_PRIORITY != 0 { 5 } else { 0 };
        let mut block = without_padding(first, skipped)?.to_vec();
        let mut is_whole = first.flags & END_HEADERS != 0;
        while !is_whole {
            let next = self.read_frame()?;
            if next.kind != CONTINUATION || next.stream != first.stream {
                return Err(malformed("§6.10: something between the frames of a head"));
            }
            block.extend_from_slice(&next.payload);
            is_whole = next.flags & END_HEADERS != 0;
        }
        let section = self.decoder.decode(&block);
        let section = section.map_err(|error| malformed(&format!("RFC 7541: {error:?}")))?;
        exchange.is_over = first.flags & END_STREAM != 0;
        if exchange.head.as_ref().is_some_and(|head| head.status >= 200) {
            return if exchange.is_over {
                Ok(())
            } else {
                Err(malformed("§8.1: trailers end a stream"))
            };
        }
        let head = from_section(section, self.protocol).map_err(Broken::Malformed)?;
        if head.status < 200 {
            response_invariants::check(&head, exchange.to_head);
        }
        exchange.head = Some(head);
        Ok(())
    }

    fn take_settings(&mut self, exchange: &mut Exchange, payload: &[u8]) -> Result<(), Broken> {
        for setting in payload.chunks(6) {
            let [a, b, value @ ..] = setting else { return Err(malformed("§6.5: settings")) };
            let (setting, value) = (u16::from_be_bytes([*a, *b]), number(value)?);
            match setting {
                SETTING_WINDOW => {
                    let more = i64::from(value) - self.stream_window;
                    self.stream_window += more;
                    exchange.send_window += more;
                }
                SETTING_TABLE => assert!(value >= TABLE_BYTES, "this client cannot have less"),
                // §6.5.2: only clients may set it to 1.
                SETTING_PUSH if value != 0 => return Err(malformed("a server has to say 0")),
                _ => {}
            }
        }
        self.has_settings = true;
        self.send_if_open(&frame(SETTINGS, ACK, 0, &[]));
        Ok(())
    }

    fn read_frame(&mut self) -> Result<Frame, Broken> {
        self.hold(9)?;
        let [a, b, c, kind, flags, stream @ ..] = &self.held[..9] else { unreachable!("9 bytes") };
        let bytes = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if bytes > FRAME_MAX_BYTES {
            return Err(malformed("§4.2: a frame larger than the client takes"));
        }
        let (kind, flags, stream) = (*kind, *flags, number(stream)? & 0x7fff_ffff);
        self.hold(9 + bytes)?;
        let payload = self.held.drain(..9 + bytes).skip(9).collect();
        Ok(Frame { kind, flags, stream, payload })
    }

    /// Reads until this many bytes are available.
    fn hold(&mut self, bytes: usize) -> Result<(), Broken> {
        let mut buffer = [0; 64 * 1024];
        while self.held.len() < bytes {
            match self.wire.read(&mut buffer)? {
                0 if self.held.is_empty() => return Err(Broken::Closed),
                0 => return Err(Broken::Short(format!("{} of {bytes} bytes", self.held.len()))),
                count => self.held.extend_from_slice(&buffer[..count]),
            }
        }
        Ok(())
    }
}

/// Returns a frame (§4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is short").to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream, payload].concat()
}

/// Returns the bytes between the first `skipped` ones and the padding (§6.1, §6.2).
fn without_padding(frame: &Frame, skipped: usize) -> Result<&[u8], Broken> {
    let (padding, payload) = match frame.payload.split_first() {
        Some((padding, rest)) if frame.flags & PADDED != 0 => (usize::from(*padding), rest),
        _ => (0, frame.payload.as_slice()),
    };
    let end = payload.len().checked_sub(padding);
    end.and_then(|end| payload.get(skipped..end)).ok_or_else(|| malformed("§6.1: padding"))
}

/// §6.8: the server will not respond to requests that it had not begun before GOAWAY.
fn take_goaway(exchange: &Exchange, payload: &[u8]) -> Result<(), Broken> {
    let [a, b, c, d, code @ ..] = payload else { return Err(malformed("§6.8: GOAWAY")) };
    let last = u32::from_be_bytes([*a, *b, *c, *d]) & 0x7fff_ffff;
    let code = code.get(..4).ok_or_else(|| malformed("§6.8: GOAWAY"))?;
    if last < exchange.id || number(code)? != 0 {
        Err(Broken::GivenUp(number(code)?.into()))
    } else {
        Ok(())
    }
}

fn number(bytes: &[u8]) -> Result<u32, Broken> {
    let bytes = bytes.try_into().map_err(|_| malformed("4 bytes are a number"))?;
    Ok(u32::from_be_bytes(bytes))
}

fn malformed(reason: &str) -> Broken {
    Broken::Malformed(reason.to_owned())
}

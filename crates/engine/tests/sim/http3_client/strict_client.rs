//! A client that checks that the server obeys RFC 9114, on a QUIC connection of quinn-proto over
//! the simulated network. Frames out of order, malformed ones, and those after an end are errors.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use pinion_engine::backend::sim::{Network, SimPeer};
use pinion_engine::quic::simulated_sockets::SimulatedClient;
use pinion_http::field_section::FieldSection;
use pinion_http::h3::{send, varint};
use pinion_http::limits::Limits;
use pinion_http::qpack::{decoder, static_encoder};
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, ReadError,
    StreamEvent, StreamId, TransportConfig, TransportErrorCode, VarInt, WriteError,
};

/// Bytes of the stream that a client reads at once.
const CHUNK_BYTES: usize = 4096;

/// The control stream of the client: its type, and SETTINGS without a setting.
const CONTROL: &[u8] = &[0x0, 0x4, 0x0];

/// Codes of errors (RFC 9114 §8.1).
pub(crate) const NO_ERROR: u64 = 0x100;
pub(crate) const INTERNAL_ERROR: u64 = 0x102;
const REQUEST_CANCELLED: u32 = 0x10c;

/// Codes with which a server may close a connection that breaks no rule of QUIC (RFC 9000 §20.1):
/// it refuses the connection, the client has another address than the one it has proved, or HTTP/3
/// ends the connection during the handshake.
const LAWFUL_CODES: &[TransportErrorCode] = &[
    TransportErrorCode::CONNECTION_REFUSED,
    TransportErrorCode::INVALID_TOKEN,
    TransportErrorCode::APPLICATION_ERROR,
];

/// The result of a step, or the law that the server broke.
type Lawful<T = ()> = Result<T, String>;

/// How a stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The response is complete.
    Whole,
    /// RESET_STREAM with this code, without a complete response.
    Reset(u64),
    /// The client has ended it.
    Left,
}

/// A request stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) interim: Vec<u16>,
    pub(crate) status: Option<u16>,
    /// The fields of the final head.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Option<Vec<(String, String)>>,
    pub(crate) end: Option<End>,
    /// Whether all of the request has been passed to QUIC.
    pub(crate) sent_end: bool,
    /// Bytes that QUIC has not accepted.
    out: Vec<u8>,
    /// Whether the stream ends after `out`.
    ends: bool,
    is_head_only: bool,
    /// Whether the server has stopped the request (RFC 9114 §4.1.1).
    is_asked_to_stop: bool,
    /// Bytes of incomplete frames.
    input: Vec<u8>,
    /// Missing bytes of the current frame of content.
    data_left: u64,
}

/// A connection of a client.
pub(crate) struct Client {
    pub(crate) peer: SimPeer,
    pub(crate) streams: BTreeMap<u64, Stream>,
    /// The stream of each GOAWAY.
    pub(crate) goaways: Vec<u64>,
    /// How the connection ended.
    pub(crate) lost: Option<ConnectionError>,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(crate) connection: Connection,
    is_connected: bool,
    /// The control stream of the server, and its unprocessed bytes.
    control: Option<(StreamId, Vec<u8>)>,
    has_settings: bool,
    section: FieldSection,
    /// The stream that was read first the last time; the next time, another one is.
    turn: u64,
    /// A stream that is not read.
    pub(crate) unread: Option<u64>,
}

impl Client {
    /// Begins to connect.
    pub(crate) fn connect(
        network: &Network,
        peer: SimPeer,
        client: &SimulatedClient,
        transport: TransportConfig,
    ) -> Client {
        let mut endpoint = Endpoint::new(client.endpoint(), None, true, None);
        let config = client.connection(transport);
        let (now, server) = (network.instant(), network.server_address());
        let connected = endpoint.connect(now, config, server, "sim");
        let (handle, connection) = connected.expect("the first connection");
        Client {
            peer,
            streams: BTreeMap::new(),
            goaways: Vec::new(),
            lost: None,
            endpoint,
            handle,
            connection,
            is_connected: false,
            control: None,
            has_settings: false,
            section: FieldSection::new(),
            turn: 0,
            unread: None,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Processes the datagrams that have arrived.
    ///
    /// # Errors
    /// Returns the law that the server broke.
    pub(crate) fn receive(&mut self, network: &Network) -> Lawful {
        let now = network.instant();
        let server = network.server_address();
        let mut out = Vec::new();
        while let Some(datagram) = network.receive_datagram(self.peer) {
            let bytes = bytes::BytesMut::from(&datagram.bytes[..]);
            out.clear();
            let event = self.endpoint.handle(now, server, None, datagram.ecn, bytes, &mut out);
            match event {
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    self.connection.handle_event(event);
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.endpoint.ignore(incoming);
                    return Err("the server begins a connection".to_owned());
                }
                // A datagram that was damaged, or that arrived too late.
                Some(DatagramEvent::Response(transmit)) => {
                    network.send_datagram(self.peer, transmit.ecn, &out[..transmit.size]);
                }
                None => {}
            }
        }
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.events()
    }

    /// Sends all pending datagrams.
    pub(crate) fn transmit(&mut self, network: &Network) {
        let now = network.instant();
        let mut bytes = Vec::new();
        loop {
            while let Some(event) = self.connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                    self.connection.handle_event(event);
                }
            }
            bytes.clear();
            let Some(transmit) = self.connection.poll_transmit(now, 1, &mut bytes) else { return };
            network.send_datagram(self.peer, transmit.ecn, &bytes[..transmit.size]);
        }
    }

    /// Returns when it has to act, in milliseconds, if nothing arrives.
    pub(crate) fn wakes_at_ms(&mut self, network: &Network) -> Option<u64> {
        let at = self.connection.poll_timeout()?;
        let left = at.saturating_duration_since(network.instant());
        Some(network.now().monotonic_ms + left.as_nanos().div_ceil(1_000_000) as u64)
    }

    fn events(&mut self) -> Lawful {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected if self.connection.is_closed() => {}
                Event::Connected => {
                    self.is_connected = true;
                    let control = self.connection.streams().open(Dir::Uni);
                    let control = control.ok_or("RFC 9114 §6.2: three streams are permitted")?;
                    let written = self.connection.send_stream(control).write(CONTROL);
                    require(written == Ok(CONTROL.len()), "no room for a control stream")?;
                }
                Event::ConnectionLost { reason } => {
                    self.lost.get_or_insert_with(|| reason.clone());
                    let is_lawful = match &reason {
                        ConnectionError::TransportError(_) => false,
                        ConnectionError::ConnectionClosed(close) => {
                            LAWFUL_CODES.contains(&close.error_code)
                        }
                        _ => true,
                    };
                    require(is_lawful, &format!("the connection ends: {reason}"))?;
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    return Err("RFC 9114 §6.1: a request of the server".to_owned());
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(id) = self.connection.streams().accept(Dir::Uni) {
                        let first = self.control.replace((id, Vec::new())).is_none();
                        require(first, "RFC 9114 §6.2: a second stream of the server")?;
                        self.read_control()?;
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Uni => {
                    self.read_control()?;
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.stopped(id, error_code.into_inner())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Records that the server has stopped a request.
    fn stopped(&mut self, id: StreamId, code: u64) -> Lawful {
        let stream = self.streams.get_mut(&u64::from(id)).ok_or("a stream that must not stop")?;
        stream.is_asked_to_stop = true;
        stream.out.clear();
        let is_error = !matches!(stream.end, Some(End::Left)) && code != NO_ERROR;
        let _already = self.connection.send_stream(id).reset(VarInt::from_u32(REQUEST_CANCELLED));
        // An aborted response is reset as well.
        let is_whole = stream.end == Some(End::Whole);
        require(!is_error || !is_whole, "an error behind a complete response")
    }

    fn read_control(&mut self) -> Lawful {
        let Some((id, input)) = &mut self.control else { return Ok(()) };
        let mut stream = self.connection.recv_stream(*id);
        let Ok(mut chunks) = stream.read(true) else {
            return Err("RFC 9114 §6.2.1: the control stream is closed".to_owned());
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => input.extend_from_slice(&chunk.bytes),
                Err(ReadError::Blocked) => break,
                Ok(None) | Err(ReadError::Reset(_)) => {
                    return Err("RFC 9114 §6.2.1: the control stream ends".to_owned());
                }
            }
        }
        drop(chunks);
        let mut rest = &input[..];
        if !self.has_settings && rest.first().is_some_and(|kind| *kind != 0x0) {
            return Err("a stream of the server that is no control stream".to_owned());
        }
        if !self.has_settings {
            rest = rest.get(1..).unwrap_or_default();
        }
        while let Some((kind, payload, behind)) = whole_frame(rest) {
            match kind {
                0x4 => require(!self.has_settings, "RFC 9114 §7.2.4: SETTINGS twice")?,
                _ if !self.has_settings => return Err("SETTINGS are the first frame".to_owned()),
                0x7 => {
                    let id = varint::read(&mut &payload[..]).ok_or("GOAWAY without a stream")?;
                    require(id.is_multiple_of(4), "RFC 9114 §5.2: GOAWAY names a request")?;
                    let grows = self.goaways.last().is_some_and(|before| *before < id);
                    require(!grows, "RFC 9114 §5.2: the number of GOAWAY never grows")?;
                    self.goaways.push(id);
                }
                kind => require(is_reserved(kind), "a frame that no server sends")?,
            }
            self.has_settings = true;
            rest = behind;
        }
        if self.has_settings {
            *input = rest.to_vec();
        }
        Ok(())
    }

    /// Begins a request, if the server permits another stream; `fields` follow the pseudo-fields.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        ends: bool,
    ) -> Option<u64> {
        let id = self.connection.streams().open(Dir::Bi)?;
        let pseudo = [(":method", method), (":scheme", "https"), (":path", path)];
        let all = pseudo.iter().chain(&[(":authority", "a")]).chain(fields);
        let mut stream = Stream { is_head_only: method == "HEAD", ends, ..Stream::default() };
        headers(&mut stream.out, all);
        self.streams.insert(id.into(), stream);
        Some(id.into())
    }

    /// Returns whether a stream accepts more of its request now.
    pub(crate) fn takes_content(&self, id: u64) -> bool {
        let stream = &self.streams[&id];
        let is_over = stream.end.is_some() || stream.is_asked_to_stop || stream.ends;
        !is_over && stream.out.is_empty()
    }

    /// Returns whether the server has stopped a request.
    pub(crate) fn is_asked_to_stop(&self, id: u64) -> bool {
        self.streams[&id].is_asked_to_stop
    }

    /// Sends a frame of content.
    pub(crate) fn data(&mut self, id: u64, bytes: &[u8], ends: bool) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if !bytes.is_empty() {
            send::data(&mut stream.out, bytes.len() as u64);
            stream.out.extend_from_slice(bytes);
        }
        stream.ends = ends;
    }

    /// Ends the content with trailers.
    pub(crate) fn trailers(&mut self, id: u64, fields: &[(&str, &str)]) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        headers(&mut stream.out, fields.iter());
        stream.ends = true;
    }

    /// Ends a stream that has not ended, in both directions.
    pub(crate) fn leave_stream(&mut self, id: u64) {
        let code = VarInt::from_u32(REQUEST_CANCELLED);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.end.is_none() {
            stream.end = Some(End::Left);
            stream.out.clear();
            let id = stream_id(id);
            let _over = self.connection.send_stream(id).reset(code);
            let _over = self.connection.recv_stream(id).stop(code);
        }
    }

    /// Stops a response, but continues to send the request.
    pub(crate) fn stop_response(&mut self, id: u64) {
        let code = VarInt::from_u32(REQUEST_CANCELLED);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.end.is_none() {
            stream.end = Some(End::Left);
            let _over = self.connection.recv_stream(stream_id(id)).stop(code);
        }
    }

    /// Gives QUIC up to `most` bytes of each stream, and returns how many it took.
    pub(crate) fn write(&mut self, most: usize) -> usize {
        let mut written = 0;
        for (id, stream) in &mut self.streams {
            let is_over = stream.sent_end || stream.is_asked_to_stop;
            if is_over || stream.end == Some(End::Left) && stream.out.is_empty() {
                continue;
            }
            let bytes = stream.out.len().min(most);
            let mut sender = self.connection.send_stream(stream_id(*id));
            if bytes > 0 {
                match sender.write(&stream.out[..bytes]) {
                    Ok(taken) => {
                        stream.out.drain(..taken);
                        written += taken;
                    }
                    Err(WriteError::Blocked) => {}
                    Err(_) => stream.is_asked_to_stop = true,
                }
            }
            if stream.out.is_empty() && stream.ends && !stream.is_asked_to_stop {
                stream.sent_end = sender.finish().is_ok();
            }
        }
        written
    }

    /// Returns whether all bytes have been passed to QUIC.
    pub(crate) fn has_written_all(&self) -> bool {
        self.streams.values().all(|stream| stream.out.is_empty())
    }

    /// Reads up to `most` bytes of responses, and returns how many there were.
    ///
    /// # Errors
    /// Returns the law that the server broke.
    pub(crate) fn read(&mut self, most: usize) -> Lawful<usize> {
        let mut left = most;
        let open = self.streams.iter().filter(|(_, stream)| stream.end.is_none());
        let read = open.filter(|(id, _)| Some(**id) != self.unread);
        let mut ids: Vec<u64> = read.map(|(id, _)| *id).collect();
        let first = ids.partition_point(|id| *id <= self.turn);
        let count = ids.len();
        ids.rotate_left(if first == count { 0 } else { first });
        for id in ids {
            if left == 0 {
                break;
            }
            self.turn = id;
            left -= self.read_stream(id, left).map_err(|why| format!("stream {id}: {why}"))?;
        }
        Ok(most - left)
    }

    fn read_stream(&mut self, id: u64, most: usize) -> Lawful<usize> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(0) };
        let mut receiver = self.connection.recv_stream(stream_id(id));
        let Ok(mut chunks) = receiver.read(true) else { return Ok(0) };
        let mut count = 0;
        while count < most {
            match chunks.next(CHUNK_BYTES.min(most - count)) {
                Ok(Some(chunk)) => {
                    count += chunk.bytes.len();
                    stream.take(&chunk.bytes, &mut self.section)?;
                }
                Ok(None) => {
                    stream.whole()?;
                    break;
                }
                Err(ReadError::Reset(code)) => {
                    stream.end = Some(End::Reset(code.into_inner()));
                    break;
                }
                Err(ReadError::Blocked) => break,
            }
        }
        Ok(count)
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self, network: &Network) {
        self.connection.close(network.instant(), VarInt::from_u32(NO_ERROR as u32), Bytes::new());
    }

    /// Returns whether QUIC has completed the end of the connection.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_drained()
    }

    /// Returns whether the server accepts a request.
    pub(crate) fn is_accepted(&self, id: u64) -> bool {
        self.goaways.last().is_none_or(|first| id < *first)
    }
}

impl Stream {
    /// Returns the last value of a field of the final head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Processes bytes of the response.
    fn take(&mut self, mut bytes: &[u8], section: &mut FieldSection) -> Lawful {
        // Most bytes are content, which is not copied twice.
        if self.input.is_empty() {
            bytes = self.take_data(bytes);
        }
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while !rest.is_empty() {
            if self.data_left > 0 {
                rest = self.take_data(rest);
                continue;
            }
            let mut behind = rest;
            let header = varint::read(&mut behind).zip(varint::read(&mut behind));
            let Some((kind, length)) = header else { break };
            if kind == 0x0 {
                require(self.status.is_some(), "RFC 9114 §4.1: content before the head")?;
                require(self.trailers.is_none(), "RFC 9114 §4.1: content behind trailers")?;
                self.data_left = length;
                rest = behind;
                continue;
            }
            let Some(payload) = behind.get(..length as usize) else { break };
            match kind {
                0x1 => self.take_section(payload, section)?,
                kind => require(is_reserved(kind), "a frame that no server sends here")?,
            }
            rest = &behind[payload.len()..];
        }
        self.input = rest.to_vec();
        Ok(())
    }

    /// Consumes content of the current frame, and returns the rest.
    fn take_data<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let now = self.data_left.min(bytes.len() as u64) as usize;
        self.content.extend_from_slice(&bytes[..now]);
        self.data_left -= now as u64;
        &bytes[now..]
    }

    fn take_section(&mut self, payload: &[u8], section: &mut FieldSection) -> Lawful {
        let decoded = decoder::decode(payload, section, &Limits::default());
        decoded.map_err(|error| format!("{error:?}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = section.fields();
        let fields: Vec<_> = fields.iter().map(|f| (text(f.name), text(f.value))).collect();
        for (name, _) in &fields {
            let is_small = !name.bytes().any(|byte| byte.is_ascii_uppercase());
            require(is_small, "RFC 9114 §4.2: a name in capitals")?;
            let is_of_http1 = ["connection", "keep-alive", "transfer-encoding", "upgrade"];
            require(!is_of_http1.contains(&name.as_str()), "RFC 9114 §4.2: a field of HTTP/1")?;
        }
        if self.status.is_some() {
            require(self.trailers.is_none(), "RFC 9114 §4.1: trailers twice")?;
            require(fields.iter().all(|(name, _)| !name.starts_with(':')), "a second head")?;
            self.trailers = Some(fields);
            return Ok(());
        }
        let status = fields.first().filter(|(name, _)| name == ":status").ok_or("no status")?;
        let status = status.1.parse().map_err(|_| "a status is a number")?;
        if (100..200).contains(&status) {
            require(status != 101, "RFC 9114 §4.5: HTTP/3 has no 101")?;
            self.interim.push(status);
            return Ok(());
        }
        self.status = Some(status);
        self.fields = fields[1..].to_vec();
        Ok(())
    }

    /// Records that the response is complete.
    fn whole(&mut self) -> Lawful {
        self.end = Some(End::Whole);
        require(self.status.is_some(), "RFC 9114 §4.1: an end without a head")?;
        let is_within = !self.input.is_empty() || self.data_left > 0;
        require(!is_within, "RFC 9114 §7.1: an end within a frame")?;
        let length = self.field("content-length").and_then(|length| length.parse().ok());
        let is_right = length.is_none_or(|length: usize| length == self.content.len());
        // A server that has waited in vain for the rest of the head does not know the method.
        let is_head_only = self.is_head_only && self.status != Some(408);
        if is_head_only || matches!(self.status, Some(204 | 304)) {
            return require(self.content.is_empty(), "content of a response that has none");
        }
        require(is_right, "RFC 9114 §4.1.2: content of another length")
    }
}

/// Appends a field section in a frame.
fn headers<'f>(out: &mut Vec<u8>, fields: impl Iterator<Item = &'f (&'f str, &'f str)>) {
    send::head(out, |section| {
        section.extend_from_slice(&static_encoder::PREFIX);
        for (name, value) in fields {
            static_encoder::field(section, name.as_bytes(), value.as_bytes());
        }
    });
}

/// Returns the type and the payload of the frame at the front, and the rest.
fn whole_frame(mut rest: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let kind = varint::read(&mut rest)?;
    let length = varint::read(&mut rest)? as usize;
    Some((kind, rest.get(..length)?, &rest[length..]))
}

/// Returns whether a type of frames is reserved to be ignored (RFC 9114 §7.2.8).
fn is_reserved(kind: u64) -> bool {
    kind >= 0x21 && (kind - 0x21).is_multiple_of(0x1f)
}

fn stream_id(id: u64) -> StreamId {
    VarInt::from_u64(id).expect("a number of a stream").into()
}

fn require(is_kept: bool, law: &str) -> Lawful {
    if is_kept { Ok(()) } else { Err(law.to_owned()) }
}

/// Returns the settings of the transport of a client: the window of each stream, and that of all
/// together.
pub(crate) fn transport(window_bytes: u32, idle: Duration) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(window_bytes))
        .receive_window(VarInt::from_u32(window_bytes.saturating_mul(2)))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_idle_timeout(idle.try_into().ok());
    transport
}

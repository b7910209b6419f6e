//! A client of HTTP/2 that checks that the server obeys RFC 9113: it converts bytes to bytes,
//! without a socket. Frames beyond its windows, out of order, or after the end of a stream, are
//! errors. The tests of the contract and of the simulator share it.
#![allow(dead_code, reason = "each of the two uses a part")]

pub(crate) mod http2_frames;

use std::collections::BTreeMap;

use pinion_http::field_section::FieldSection;
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::Limits;

use http2_frames::{Frame, Kind, flag};

/// A violation ends the connection.
type Lawful<T = ()> = Result<T, String>;

/// The initial window and maximum payload of a frame (RFC 9113 §6.5.2).
const WINDOW_BYTES: i64 = 65_535;
const FRAME_MAX_BYTES: usize = 16_384;

/// How a stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The response is complete.
    Whole,
    /// RST_STREAM with this code, before a complete response.
    Reset(u32),
    /// The client has reset it.
    Left,
}

/// The received data of a stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) interim: Vec<u16>,
    pub(crate) status: Option<u16>,
    /// The fields of the final head.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) end: Option<End>,
    /// The server has stopped the request (RFC 9113 §8.1).
    pub(crate) asked_to_stop: bool,
    /// Whether the client has ended its side.
    pub(crate) sent_end: bool,
    head_only: bool,
    /// The windows of DATA for both directions.
    receive_window: i64,
    send_window: i64,
}

impl Stream {
    /// Returns the last value of a field of the final head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The settings of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Window of each stream for the server's DATA.
    pub(crate) window_bytes: u32,
    /// Whether windows are opened again when half of them is used up.
    pub(crate) gives_back: bool,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner { window_bytes: 65_535, gives_back: true }
    }
}

/// A connection of a client.
pub(crate) struct Client {
    /// Bytes to be sent.
    pub(crate) out: Vec<u8>,
    pub(crate) streams: BTreeMap<u32, Stream>,
    /// Last stream and code of each GOAWAY.
    pub(crate) leaves: Vec<(u32, u32)>,
    /// Whether the server has acknowledged the settings.
    pub(crate) settled: bool,
    /// The number of acknowledged PINGs.
    pub(crate) pongs: usize,
    manner: Manner,
    input: Vec<u8>,
    decoder: Decoder,
    section: FieldSection,
    has_settings: bool,
    next_stream: u32,
    receive_window: i64,
    send_window: i64,
    /// The initial send window of a new stream.
    first_window: i64,
    /// An incomplete field block: the stream, whether it ends the stream, and the received part.
    block: Option<(u32, bool, Vec<u8>)>,
}

impl Client {
    /// Creates a client that has written its preface.
    pub(crate) fn new(manner: Manner) -> Client {
        let mut out = http2_frames::PREFACE.to_vec();
        http2_frames::settings(
            &mut out,
            &[(http2_frames::INITIAL_WINDOW_SIZE, manner.window_bytes)],
        );
        Client {
            out,
            streams: BTreeMap::new(),
            leaves: Vec::new(),
            settled: false,
            pongs: 0,
            manner,
            input: Vec::new(),
            decoder: Decoder::new(4096),
            section: FieldSection::new(),
            has_settings: false,
            next_stream: 1,
            receive_window: WINDOW_BYTES,
            send_window: WINDOW_BYTES,
            first_window: WINDOW_BYTES,
            block: None,
        }
    }

    /// Begins a request; `fields` follow the pseudo-fields. Returns its stream.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        end: bool,
    ) -> u32 {
        let id = self.next_stream;
        self.next_stream += 2;
        let pseudo = [(":method", method), (":scheme", "http"), (":path", path)];
        let all: Vec<_> = pseudo.iter().chain(&[(":authority", "a")]).chain(fields).collect();
        http2_frames::headers(&mut self.out, id, &all, end);
        let stream = Stream {
            sent_end: end,
            head_only: method == "HEAD",
            receive_window: i64::from(self.manner.window_bytes),
            send_window: self.first_window,
            ..Stream::default()
        };
        self.streams.insert(id, stream);
        id
    }

    /// Begins a request without content. Returns its stream.
    pub(crate) fn get(&mut self, path: &str) -> u32 {
        self.request("GET", path, &[], true)
    }

    /// Returns how many bytes of content may be sent on a stream now.
    pub(crate) fn room(&self, id: u32) -> usize {
        let stream = &self.streams[&id];
        let is_over = stream.end.is_some() || stream.asked_to_stop || stream.sent_end;
        let window = stream.send_window.min(self.send_window).max(0) as usize;
        if is_over { 0 } else { window.min(FRAME_MAX_BYTES) }
    }

    /// Returns whether less may arrive on a stream than a frame that counts as work.
    pub(crate) fn is_shut(&self, id: u32) -> bool {
        const LITTLE_BYTES: i64 = 512;
        let stream = &self.streams[&id];
        stream.end.is_none() && stream.receive_window.min(self.receive_window) < LITTLE_BYTES
    }

    /// Sends as much of the content `bytes` as the windows allow; `end` applies to their end.
    /// Returns the number of sent bytes.
    pub(crate) fn data(&mut self, id: u32, bytes: &[u8], end: bool) -> usize {
        let now = self.room(id).min(bytes.len());
        let is_last = end && now == bytes.len();
        let stream = self.streams.get_mut(&id).expect("a stream of ours");
        if now == 0 && !is_last || stream.sent_end || stream.end.is_some() {
            return 0;
        }
        stream.sent_end = is_last;
        stream.send_window -= now as i64;
        self.send_window -= now as i64;
        http2_frames::data(&mut self.out, id, &bytes[..now], is_last);
        now
    }

    /// Sends content although the response is whole, as much of `bytes` as the windows allow;
    /// returns how much that was.
    pub(crate) fn data_behind_response(&mut self, id: u32, bytes: usize) -> usize {
        let stream = self.streams.get_mut(&id).expect("a stream of ours");
        let mut sent = 0;
        while stream.end == Some(End::Whole) && !stream.asked_to_stop && !stream.sent_end {
            let window = stream.send_window.min(self.send_window).max(0) as usize;
            let now = window.min(FRAME_MAX_BYTES).min(bytes - sent);
            if now == 0 {
                break;
            }
            http2_frames::data(&mut self.out, id, &vec![b'x'; now], false);
            stream.send_window -= now as i64;
            self.send_window -= now as i64;
            sent += now;
        }
        sent
    }

    /// Ends the content with trailers.
    pub(crate) fn trailers(&mut self, id: u32, fields: &[(&str, &str)]) {
        let all: Vec<_> = fields.iter().collect();
        http2_frames::headers(&mut self.out, id, &all, true);
        self.streams.get_mut(&id).expect("a stream of ours").sent_end = true;
    }

    /// Resets a stream that has not ended.
    pub(crate) fn reset(&mut self, id: u32) {
        let stream = self.streams.get_mut(&id).expect("a stream of ours");
        if stream.end.is_none() {
            stream.end = Some(End::Left);
            http2_frames::number(&mut self.out, Kind::ResetStream, id, http2_frames::CANCEL);
        }
    }

    /// Opens the windows of a stream, and of the connection, by this many bytes.
    pub(crate) fn open_window(&mut self, id: u32, bytes: u32) {
        self.receive_window += i64::from(bytes);
        http2_frames::number(&mut self.out, Kind::WindowUpdate, 0, bytes);
        let stream = self.streams.get_mut(&id).expect("a stream of ours");
        if stream.end.is_none() {
            stream.receive_window += i64::from(bytes);
            http2_frames::number(&mut self.out, Kind::WindowUpdate, id, bytes);
        }
    }

    pub(crate) fn ping(&mut self) {
        http2_frames::frame(&mut self.out, Kind::Ping, 0, 0, b"are you?");
    }

    /// Returns whether no stream waits for anything.
    pub(crate) fn is_answered(&self) -> bool {
        self.streams.values().all(|stream| stream.end.is_some())
    }

    /// Processes received bytes.
    ///
    /// # Errors
    /// Returns the law that they broke.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Lawful {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let Some(frame) = Frame::read(&mut rest) {
            self.frame(&frame).map_err(|why| format!("{why}: {frame:?}"))?;
        }
        self.input = rest.to_vec();
        Ok(())
    }

    fn frame(&mut self, frame: &Frame<'_>) -> Lawful {
        require(frame.payload.len() <= FRAME_MAX_BYTES, "a frame longer than we allow")?;
        let first = std::mem::replace(&mut self.has_settings, true);
        require(first || frame.kind == Kind::Settings as u8, "SETTINGS are the first frame")?;
        let cut = self.block.is_some();
        require(cut == (frame.kind == Kind::Continuation as u8), "a frame between field blocks")?;
        match frame.kind {
            kind if kind == Kind::Data as u8 => self.came_data(frame),
            kind if kind == Kind::Headers as u8 => {
                let end = frame.has(flag::END_STREAM);
                self.came_block(frame.stream, end, frame.payload.to_vec(), frame)
            }
            kind if kind == Kind::Continuation as u8 => {
                let (stream, end, mut block) = self.block.take().ok_or("no block")?;
                require(stream == frame.stream, "of another stream")?;
                block.extend_from_slice(frame.payload);
                self.came_block(stream, end, block, frame)
            }
            kind if kind == Kind::ResetStream as u8 => self.came_reset(frame),
            kind if kind == Kind::Settings as u8 => self.came_settings(frame),
            kind if kind == Kind::Ping as u8 => {
                if frame.has(flag::ACK) {
                    self.pongs += 1;
                } else {
                    http2_frames::frame(&mut self.out, Kind::Ping, flag::ACK, 0, frame.payload);
                }
                Ok(())
            }
            kind if kind == Kind::GoAway as u8 => {
                let last = frame.number(0)?;
                let lower = self.leaves.last().is_none_or(|(before, _)| last <= *before);
                require(lower, "RFC 9113 §6.8: the last stream never grows")?;
                self.leaves.push((last, frame.number(4)?));
                Ok(())
            }
            kind if kind == Kind::WindowUpdate as u8 => self.came_window(frame),
            _ => Err("a frame that no server sends".to_owned()),
        }
    }

    fn came_settings(&mut self, frame: &Frame<'_>) -> Lawful {
        if frame.has(flag::ACK) {
            self.settled = true;
            return require(frame.payload.is_empty(), "an acknowledgement with values");
        }
        for setting in frame.payload.chunks_exact(6) {
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            if u16::from_be_bytes([setting[0], setting[1]]) == http2_frames::INITIAL_WINDOW_SIZE {
                let change = i64::from(value) - self.first_window;
                self.first_window += change;
                self.streams.values_mut().for_each(|stream| stream.send_window += change);
            }
        }
        http2_frames::frame(&mut self.out, Kind::Settings, flag::ACK, 0, b"");
        Ok(())
    }

    fn came_window(&mut self, frame: &Frame<'_>) -> Lawful {
        let increment = i64::from(frame.number(0)?);
        require(increment > 0, "a window opened by nothing")?;
        let window = match frame.stream {
            0 => &mut self.send_window,
            id => &mut self.streams.get_mut(&id).ok_or("no such stream")?.send_window,
        };
        *window += increment;
        require(*window < 1 << 31, "a window beyond any number")
    }

    fn came_reset(&mut self, frame: &Frame<'_>) -> Lawful {
        let code = frame.number(0)?;
        let stream = self.streams.get_mut(&frame.stream).ok_or("no such stream")?;
        match stream.end {
            Some(End::Left) => {}
            Some(End::Whole) => {
                // Frames that were sent meanwhile may not have arrived.
                require(code == http2_frames::NO_ERROR, "an error behind a complete answer")?;
                stream.asked_to_stop = true;
            }
            Some(End::Reset(_)) => return Err("reset twice".to_owned()),
            None => stream.end = Some(End::Reset(code)),
        }
        Ok(())
    }

    fn came_data(&mut self, frame: &Frame<'_>) -> Lawful {
        let bytes = frame.payload.len() as i64;
        self.receive_window -= bytes;
        require(self.receive_window >= 0, "beyond the window of the connection")?;
        let stream = self.streams.get_mut(&frame.stream).ok_or("no such stream")?;
        stream.receive_window -= bytes;
        require(stream.receive_window >= 0, "beyond the window of the stream")?;
        if stream.end != Some(End::Left) {
            require(stream.end.is_none(), "content behind the end")?;
            require(stream.status.is_some(), "content before the head")?;
            stream.content.extend_from_slice(frame.payload);
            if frame.has(flag::END_STREAM) {
                stream.whole()?;
            }
        }
        if self.manner.gives_back {
            if stream.end.is_none() {
                let most = i64::from(self.manner.window_bytes);
                give_back(&mut self.out, frame.stream, &mut stream.receive_window, most);
            }
            give_back(&mut self.out, 0, &mut self.receive_window, WINDOW_BYTES);
        }
        Ok(())
    }

    fn came_block(&mut self, id: u32, end: bool, block: Vec<u8>, frame: &Frame<'_>) -> Lawful {
        if !frame.has(flag::END_HEADERS) {
            self.block = Some((id, end, block));
            return Ok(());
        }
        let decoded = self.decoder.decode(&block, &mut self.section, &Limits::default());
        decoded.map_err(|error| format!("{error:?}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = self.section.fields();
        let fields: Vec<_> = fields.iter().map(|f| (text(f.name), text(f.value))).collect();
        let stream = self.streams.get_mut(&id).ok_or("no such stream")?;
        if stream.end == Some(End::Left) {
            return Ok(());
        }
        require(stream.end.is_none(), "a field block behind the end")?;
        if stream.status.is_some() {
            require(end, "RFC 9113 §8.1: trailers without an end")?;
            require(fields.iter().all(|(name, _)| !name.starts_with(':')), "a second head")?;
            stream.trailers = fields;
            return stream.whole();
        }
        let status = fields.first().filter(|(name, _)| name == ":status").ok_or("no status")?;
        let status = status.1.parse().map_err(|_| "a status is a number")?;
        if (100..200).contains(&status) {
            stream.interim.push(status);
            return require(!end, "an interim answer is not the last");
        }
        stream.status = Some(status);
        stream.fields = fields[1..].to_vec();
        if end { stream.whole() } else { Ok(()) }
    }
}

impl Stream {
    /// Records that the response is complete.
    fn whole(&mut self) -> Lawful {
        self.end = Some(End::Whole);
        let length = self.field("content-length").and_then(|length| length.parse().ok());
        let is_right = length.is_none_or(|length: usize| length == self.content.len());
        let nothing = self.head_only || matches!(self.status, Some(204 | 304));
        if nothing {
            require(self.content.is_empty(), "content of an answer that has none")
        } else {
            require(is_right, "RFC 9113 §8.1.1: content of another length")
        }
    }
}

/// Opens a window to its full size, once half of it is used up.
fn give_back(out: &mut Vec<u8>, stream: u32, window: &mut i64, most: i64) {
    if *window <= most / 2 {
        http2_frames::number(out, Kind::WindowUpdate, stream, (most - *window) as u32);
        *window = most;
    }
}

fn require(is_kept: bool, law: &str) -> Lawful {
    if is_kept { Ok(()) } else { Err(law.to_owned()) }
}

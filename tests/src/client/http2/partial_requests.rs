//! Clients that stop in the middle, and the frames that the server sends about it.

use super::{ACK, DATA, END_STREAM, Frame, GOAWAY, HEADERS, Http2, PING, frame, malformed, number};
use crate::client::Broken;
use crate::request::Request;
use crate::response::Response;
use std::thread;
use std::time::Duration;

impl Http2 {
    /// Sends a request without content, and does not wait for its response.
    ///
    /// # Errors
    /// Returns an error if the server does not send its settings first.
    pub fn try_send(&mut self, request: &Request) -> Result<(), Broken> {
        self.open(request).map(|_| ())
    }

    /// Sends the first half of the HEADERS frame of a request.
    pub fn send_half_frame(&mut self, request: &Request) {
        let block = self.next_block(request);
        let whole = frame(HEADERS, END_STREAM, self.next_stream, &block);
        self.send_if_open(&whole[..whole.len() / 2]);
    }

    /// Sends the first frame with the head of a request, without its continuation (§6.10).
    pub fn send_first_frame(&mut self, request: &Request) {
        let block = self.next_block(request);
        self.send_if_open(&frame(HEADERS, END_STREAM, self.next_stream, &block[..block.len() / 2]));
    }

    fn next_block(&mut self, request: &Request) -> Vec<u8> {
        let section = request.section(self.protocol.scheme());
        let fields = section.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        self.encoder.encode(fields)
    }

    /// Sends a request with the first half of its content, and reads the response.
    ///
    /// # Errors
    /// Returns the reason why there is none.
    #[track_caller]
    pub fn try_half_content(&mut self, request: &Request) -> Result<Response, Broken> {
        let exchange = self.open(request)?;
        let half = &request.content()[..request.content().len() / 2];
        self.send_if_open(&frame(DATA, 0, exchange.id, half));
        self.receive(exchange)
    }

    /// Sends this many PING frames without a request, and waits for their acknowledgements. Each is
    /// sent in pieces of this many bytes, which the server reads one by one.
    ///
    /// # Errors
    /// Returns an error if the server closes, or the connection has ended.
    pub fn try_pings(&mut self, times: usize, piece_bytes: usize) -> Result<(), Broken> {
        let ping = ping();
        for _ in 0..times {
            for (number, piece) in ping.chunks(piece_bytes).enumerate() {
                if number > 0 {
                    thread::sleep(Duration::from_millis(20));
                }
                self.send_if_open(piece);
            }
        }
        self.try_pongs(times)
    }

    /// Sends the first part of a PING frame.
    pub fn begin_ping(&mut self) {
        self.send_if_open(&ping()[..HALF_PING_BYTES]);
    }

    /// Sends the rest of the frame and the first part of another one with the same bytes, and waits
    /// for the acknowledgement.
    ///
    /// # Errors
    /// Returns an error if the server closes, or the connection has ended.
    pub fn try_ping_and_half(&mut self) -> Result<(), Broken> {
        let mut rest = ping();
        rest.rotate_left(HALF_PING_BYTES);
        self.send_if_open(&rest);
        self.try_pongs(1)
    }

    fn try_pongs(&mut self, times: usize) -> Result<(), Broken> {
        let mut said = 0;
        while said < times {
            let frame = self.read_frame()?;
            match (frame.kind, frame.flags) {
                (PING, ACK) => said += 1,
                (GOAWAY, _) => return Err(Broken::GivenUp(code(&frame)?.into())),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads to an orderly end of the connection, and opens no window meanwhile. Returns the code
    /// of the last GOAWAY (§6.8).
    ///
    /// # Errors
    /// Returns an error if there is none, or the connection breaks.
    pub fn try_end(&mut self) -> Result<u32, Broken> {
        let mut said = None;
        loop {
            match self.read_frame() {
                Ok(frame) if frame.kind == GOAWAY => said = Some(code(&frame)?),
                Ok(_) => {}
                Err(Broken::Closed) => return said.ok_or(Broken::Closed),
                Err(broken) => return Err(broken),
            }
        }
    }
}

/// Less than the nine bytes of a frame header.
const HALF_PING_BYTES: usize = 8;

fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"is there")
}

/// Returns the error code of a GOAWAY (§6.8).
fn code(frame: &Frame) -> Result<u32, Broken> {
    number(frame.payload.get(4..8).ok_or_else(|| malformed("§6.8: GOAWAY"))?)
}

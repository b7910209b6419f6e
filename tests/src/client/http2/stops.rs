//! Clients that stop in the middle, and what the server says of it.

use super::{ACK, DATA, END_STREAM, Frame, GOAWAY, HEADERS, Http2, PING, frame, malformed, number};
use crate::client::Broken;
use crate::request::Request;
use crate::response::Response;
use std::thread;
use std::time::Duration;

impl Http2 {
    /// Sends a request without content, and does not wait for its answer.
    ///
    /// # Errors
    /// The server does not speak first.
    pub fn try_send(&mut self, request: &Request) -> Result<(), Broken> {
        self.open(request).map(|_| ())
    }

    /// Sends the frame with the head of a request up to its middle.
    pub fn send_half_frame(&mut self, request: &Request) {
        let block = self.next_block(request);
        let whole = frame(HEADERS, END_STREAM, self.next_stream, &block);
        self.send_if_open(&whole[..whole.len() / 2]);
    }

    /// Sends the first frame with the head of a request, and none that continues it (§6.10).
    pub fn send_first_frame(&mut self, request: &Request) {
        let block = self.next_block(request);
        self.send_if_open(&frame(HEADERS, END_STREAM, self.next_stream, &block[..block.len() / 2]));
    }

    fn next_block(&mut self, request: &Request) -> Vec<u8> {
        let section = request.section(self.protocol.scheme());
        let fields = section.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        self.encoder.encode(fields)
    }

    /// Sends a request with the first half of its content, and reads the answer.
    ///
    /// # Errors
    /// Why there is none.
    #[track_caller]
    pub fn try_half_content(&mut self, request: &Request) -> Result<Response, Broken> {
        let exchange = self.open(request)?;
        let half = &request.content()[..request.content().len() / 2];
        self.send_if_open(&frame(DATA, 0, exchange.id, half));
        self.receive(exchange)
    }

    /// Asks so many times whether the server is there, without a request, and waits for what it
    /// says. Each time comes in pieces of so many bytes, which the server reads one by one.
    ///
    /// # Errors
    /// It leaves, or the connection has ended.
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

    /// Begins to ask whether the server is there.
    pub fn begin_ping(&mut self) {
        self.send_if_open(&ping()[..HALF_PING_BYTES]);
    }

    /// Asks the rest, begins to ask again with the same bytes, and waits for what the server says.
    ///
    /// # Errors
    /// It leaves, or the connection has ended.
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

    /// Reads to an orderly end of the connection, and opens no window meanwhile. With which code of
    /// GOAWAY the server leaves (§6.8), the last of them if it says several.
    ///
    /// # Errors
    /// It does not say one, or breaks off.
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

/// Not even its first nine bytes, which say what comes.
const HALF_PING_BYTES: usize = 8;

fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"is there")
}

/// Of GOAWAY (§6.8).
fn code(frame: &Frame) -> Result<u32, Broken> {
    number(frame.payload.get(4..8).ok_or_else(|| malformed("§6.8: GOAWAY"))?)
}

//! Several requests at once on a connection, and the order of their content.
//!
//! No test depends on time: while the connection's window is used up, all responses wait for their
//! turn.

use super::{ACK, DATA, HEADERS, Http2, PING, PRIORITY_UPDATE, WINDOW_UPDATE, frame, malformed};
use crate::client::Broken;
use crate::request::Request;

impl Http2 {
    /// Sends a request without content and reads up to the head of its response, which is ignored.
    /// Returns its stream.
    ///
    /// # Errors
    /// Returns an error if there is no such head, or content of another response arrives before it.
    #[track_caller]
    pub fn try_ask(&mut self, request: &Request) -> Result<u32, Broken> {
        let stream = self.open(request)?.id;
        loop {
            let frame = self.read_frame()?;
            match frame.kind {
                HEADERS if frame.stream == stream => return Ok(stream),
                DATA => return Err(malformed("§6.9: content while the window is shut")),
                _ => {}
            }
        }
    }

    /// Sends a frame that changes the priority of a response. The server has processed it when this
    /// returns.
    ///
    /// # Errors
    /// Returns an error if the server does not acknowledge the PING after it.
    pub fn try_prioritize(&mut self, stream: u32, value: &str) -> Result<(), Broken> {
        let update = [&stream.to_be_bytes()[..], value.as_bytes()].concat();
        self.send_if_open(&frame(PRIORITY_UPDATE, 0, 0, &update));
        self.send_if_open(&frame(PING, 0, 0, b"is taken"));
        loop {
            let frame = self.read_frame()?;
            match (frame.kind, frame.flags) {
                (PING, ACK) => return Ok(()),
                (DATA, _) => return Err(malformed("§6.9: content while the window is shut")),
                _ => {}
            }
        }
    }

    /// Opens the window of the connection by this many bytes.
    pub fn let_through(&mut self, bytes: u32) {
        self.send_if_open(&frame(WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes()));
    }

    /// Returns the streams of the next frames of content, up to this many bytes in total.
    ///
    /// # Errors
    /// Returns an error if less content arrives.
    pub fn try_turns(&mut self, bytes: usize) -> Result<Vec<u32>, Broken> {
        let (mut turns, mut come) = (Vec::new(), 0);
        while come < bytes {
            let frame = self.read_frame()?;
            if frame.kind == DATA {
                come += frame.payload.len();
                turns.push(frame.stream);
            }
        }
        Ok(turns)
    }
}

//! Several requests at once on a connection, and whose content comes when.
//!
//! Nothing depends on time: as long as the connection's window is shut, answers wait side by side
//! for their turn.

use super::{ACK, DATA, HEADERS, Http2, PING, PRIORITY_UPDATE, WINDOW_UPDATE, frame, malformed};
use crate::client::Broken;
use crate::request::Request;

impl Http2 {
    /// Sends a request without content and reads up to the head of its answer, which is not looked
    /// at: its stream.
    ///
    /// # Errors
    /// There is no such head, or content of another answer comes before it.
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

    /// Says how urgent an answer is by a frame of its own, which the server has taken when this
    /// returns.
    ///
    /// # Errors
    /// The server does not answer the PING behind it.
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

    /// Lets the server send so much more on the connection.
    pub fn let_through(&mut self, bytes: u32) {
        self.send_if_open(&frame(WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes()));
    }

    /// The streams of the next frames of content, up to so many bytes in all.
    ///
    /// # Errors
    /// Less than that comes.
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

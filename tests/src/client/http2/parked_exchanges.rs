//! Exchanges that are set aside: their windows are opened by calls, while other exchanges continue.

use super::{DATA, END_STREAM, Exchange, Http2, RST_STREAM, WINDOW_UPDATE, frame};
use crate::client::Broken;
use crate::client::http2::CANCEL;
use crate::request::Request;
use crate::response::Response;

impl Http2 {
    /// Sends a request, or only the head of one whose content follows later, and reads nothing of
    /// its response. Returns its stream.
    ///
    /// # Errors
    /// Returns an error if the server does not begin with its settings.
    pub fn try_set_aside(&mut self, request: &Request, is_longer: bool) -> Result<u32, Broken> {
        let mut exchange = self.open_for(request, is_longer)?;
        exchange.window_bytes = 0;
        let stream = exchange.id;
        self.aside.push(exchange);
        Ok(stream)
    }

    /// Opens the window for this much content in total, and reads until it has arrived, or the end
    /// of the response.
    ///
    /// # Errors
    /// Returns the reason why it does not arrive.
    pub fn try_take(&mut self, stream: u32, bytes: usize) -> Result<&[u8], Broken> {
        let mut exchange = self.take_back(stream);
        let taken = self.take_up_to(&mut exchange, bytes);
        self.aside.push(exchange);
        taken?;
        Ok(self.aside.last().map_or(&[], |exchange| &exchange.body))
    }

    /// Sends more content of a request.
    ///
    /// # Errors
    /// Returns the reason why the server does not accept it.
    pub fn try_send_piece(&mut self, stream: u32, piece: &[u8]) -> Result<(), Broken> {
        let mut exchange = self.take_back(stream);
        let sent = self.send_piece(&mut exchange, piece, 0);
        self.aside.push(exchange);
        sent
    }

    /// Sends the rest of a request, if there is one, and reads its response to the end.
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    #[track_caller]
    pub fn try_finish(&mut self, stream: u32, rest: Option<&[u8]>) -> Result<Response, Broken> {
        let mut exchange = self.take_back(stream);
        exchange.window_bytes = self.stream_window_bytes;
        let (left, full) = (exchange.receive_window, exchange.window_bytes);
        exchange.receive_window = self.open_window(stream, left, full);
        match rest {
            None => {}
            Some([]) => self.send_if_open(&frame(DATA, END_STREAM, stream, &[])),
            Some(rest) => self.send_content(&mut exchange, rest)?,
        }
        self.receive(exchange)
    }

    /// Cancels a response. Frames that are on their way are still read (§5.1).
    pub fn stop_aside(&mut self, stream: u32) {
        self.send_if_open(&frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
    }

    fn take_back(&mut self, stream: u32) -> Exchange {
        let at = self.aside.iter().position(|exchange| exchange.id == stream);
        self.aside.swap_remove(at.expect("it was set aside"))
    }

    fn take_up_to(&mut self, exchange: &mut Exchange, bytes: usize) -> Result<(), Broken> {
        let let_through = exchange.body.len() as i64 + exchange.receive_window;
        let more = u32::try_from(bytes as i64 - let_through).unwrap_or(0);
        if more > 0 && !exchange.is_over {
            self.send_if_open(&frame(WINDOW_UPDATE, 0, exchange.id, &more.to_be_bytes()));
            exchange.receive_window += i64::from(more);
        }
        while exchange.body.len() < bytes && !exchange.is_over {
            self.take_frame(exchange)?;
        }
        Ok(())
    }
}

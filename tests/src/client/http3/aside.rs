//! Exchanges that are read piece by piece: unread content keeps the window of its stream closed,
//! while other exchanges continue.

use super::{Http3, ResponseParts, head, kind, malformed, receive_some};
use crate::client::Broken;
use crate::client::quic::{at_once, frame, wait};
use crate::request::Request;
use crate::response::Response;
use quinn::{RecvStream, SendStream};
use std::io;

/// A stream, and the received part of its response.
#[derive(Debug)]
pub struct Part {
    sender: SendStream,
    receiver: RecvStream,
    response: ResponseParts,
    is_over: bool,
}

impl Http3 {
    /// Sends a request without content, or only the head of one whose content follows later, and
    /// reads nothing of its response.
    ///
    /// # Errors
    /// Returns the reason why it cannot be sent.
    pub fn try_set_aside(&self, request: &Request, is_longer: bool) -> Result<Part, Broken> {
        let opened = wait(self.quic.connection().open_bi())?;
        let (mut sender, receiver) = opened.map_err(io::Error::from)?;
        wait(sender.write_all(&head(request)))?.map_err(io::Error::from)?;
        if !is_longer {
            sender.finish().expect("it was not finished before");
        }
        Ok(Part {
            sender,
            receiver,
            response: ResponseParts::new(request.is_head()),
            is_over: false,
        })
    }

    /// Sends the rest of a request, if there is one, and reads its response to the end at the same
    /// time.
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    #[track_caller]
    pub fn try_finish(&self, part: Part, rest: Option<&[u8]>) -> Result<Response, Broken> {
        let Part { mut sender, mut receiver, mut response, is_over } = part;
        let bytes = rest.map(|rest| frame(kind::DATA, rest));
        let (response, outcome) = at_once(async move {
            let outcome = match bytes {
                _ if is_over => Ok(()),
                None => super::receive(&mut receiver, &mut response).await,
                Some(bytes) => {
                    super::converse(&mut sender, &bytes, &mut receiver, &mut response).await
                }
            };
            (response, outcome)
        })?;
        self.judge(response, outcome)
    }
}

impl Part {
    /// Reads until this much of the content has arrived, or its end.
    ///
    /// # Errors
    /// Returns the reason why it does not arrive.
    pub fn try_take(&mut self, bytes: usize) -> Result<&[u8], Broken> {
        while self.response.body.len() < bytes && !self.is_over {
            self.is_over = !wait(receive_some(&mut self.receiver, &mut self.response))??;
        }
        if self.is_over && !self.response.has_final_head() {
            Err(malformed("§4.1: no head"))
        } else {
            Ok(&self.response.body)
        }
    }

    /// Sends more content of the request.
    ///
    /// # Errors
    /// Returns the reason why the server does not accept it.
    pub fn try_send(&mut self, piece: &[u8]) -> Result<(), Broken> {
        wait(self.sender.write_all(&frame(kind::DATA, piece)))?.map_err(io::Error::from)?;
        Ok(())
    }
}

//! A connection of the control socket without its descriptor: bytes in, requests out, and the
//! reverse for responses. It handles one request at a time, and reads the next one only when the
//! response to the previous one has been sent.

use super::protocol::{CommandRequest, Response};

/// Bytes of one request with its end of line. Commands have less than a hundred; a request to
/// explain is as long as its URL and headers.
pub(crate) const REQUEST_MAX_BYTES: usize = 64 * 1024;

/// Holds the input that is not parsed yet and the output that is not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of the output that have left.
    sent: usize,
    stage: ConnectionStage,
}

/// The stage of the exchange with the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ConnectionStage {
    /// A request is received.
    #[default]
    Request,
    /// A request is executed.
    Response,
    /// The rest of the output is sent; then the connection is over.
    End,
}

impl Connection {
    /// Returns how many bytes it can receive now: none while a request is executed, a response is
    /// sent, or a whole request is in the input already.
    pub(crate) fn wanted_bytes(&self) -> usize {
        if self.stage != ConnectionStage::Request || !self.output().is_empty() || self.has_line() {
            return 0;
        }
        REQUEST_MAX_BYTES - self.input.len().min(REQUEST_MAX_BYTES)
    }

    /// Takes the bytes that were received, no more than [`Self::wanted_bytes`].
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Returns whether [`Self::request`] has a whole line to parse.
    pub(crate) fn has_line(&self) -> bool {
        self.stage == ConnectionStage::Request
            && self.output().is_empty()
            && self.input.contains(&b'\n')
    }

    /// Returns whether a part of a request has been received.
    pub(crate) fn has_begun(&self) -> bool {
        !self.input.is_empty()
    }

    /// Returns the next request if all of it has been received; the caller responds with
    /// [`Self::respond`] or [`Self::announce`]. A line that is not a request gets an error response
    /// here, and the connection closes.
    pub(crate) fn request(&mut self) -> Option<CommandRequest> {
        if !self.has_line() {
            if self.stage == ConnectionStage::Request && self.input.len() >= REQUEST_MAX_BYTES {
                self.end_with(&Response::refused(format!(
                    "the request is longer than {REQUEST_MAX_BYTES} bytes"
                )));
            }
            return None;
        }
        let end = self.input.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.input.drain(..=end).collect();
        match CommandRequest::parse(line.strip_suffix(b"\n").unwrap_or(&line)) {
            Ok(request) => {
                self.stage = ConnectionStage::Response;
                Some(request)
            }
            Err(error) => {
                self.end_with(&Response::refused(error));
                None
            }
        }
    }

    /// Queues the response to the request that was executed.
    pub(crate) fn respond(&mut self, response: &Response) {
        self.queue(response);
        if self.stage == ConnectionStage::Response {
            self.stage = ConnectionStage::Request;
        }
    }

    /// Queues the response to a request to stop the server, and keeps the connection open until the
    /// process ends.
    pub(crate) fn announce(&mut self, response: &Response) {
        self.queue(response);
    }

    /// Queues a last response.
    pub(crate) fn end_with(&mut self, response: &Response) {
        self.queue(response);
        self.end();
    }

    /// Receives nothing more. The connection is over when the output has been sent.
    pub(crate) fn end(&mut self) {
        self.input = Vec::new();
        self.stage = ConnectionStage::End;
    }

    /// Returns the output that is not sent yet.
    pub(crate) fn output(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    /// Removes bytes from the output that have been sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.output.len() {
            self.output = Vec::new();
            self.sent = 0;
        }
    }

    /// Returns whether one of its requests is being executed.
    pub(crate) fn awaits_response(&self) -> bool {
        self.stage == ConnectionStage::Response
    }

    /// Returns whether it is over and all output has been sent.
    pub(crate) fn is_over(&self) -> bool {
        self.stage == ConnectionStage::End && self.output().is_empty()
    }

    fn queue(&mut self, response: &Response) {
        // A response has only strings and numbers; if it could not be written, the client would
        // see the end of the connection.
        if let Ok(line) = serde_json::to_vec(response) {
            self.output.extend_from_slice(&line);
            self.output.push(b'\n');
        } else {
            self.stage = ConnectionStage::End;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::{Message, ServerCommand};
    use crate::explain::request::{ExplainRequest, RequestHeader};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Returns the requests of a client that sends these pieces, each executed at once, and the
    /// responses.
    fn talk(pieces: &[Vec<u8>]) -> (Vec<CommandRequest>, Vec<Response>, Connection) {
        let (mut connection, mut requests, mut output) = (Connection::default(), vec![], vec![]);
        for piece in pieces {
            let mut rest = &piece[..];
            while !rest.is_empty() && connection.wanted_bytes() > 0 {
                let (now, later) = rest.split_at(rest.len().min(connection.wanted_bytes()));
                connection.receive(now);
                rest = later;
                while let Some(request) = connection.request() {
                    assert_eq!(connection.wanted_bytes(), 0, "one request at a time");
                    requests.push(request);
                    connection.respond(&Response::done(vec![Message::info("done")]));
                    assert_eq!(connection.wanted_bytes(), 0, "the response has not been taken");
                    assert!(connection.request().is_none());
                    output.extend_from_slice(connection.output());
                    connection.sent(connection.output().len());
                }
                output.extend_from_slice(connection.output());
                connection.sent(connection.output().len());
            }
        }
        let lines = output.split_inclusive(|byte| *byte == b'\n');
        let responses = lines.map(|line| serde_json::from_slice(line).expect("a response"));
        (requests, responses.collect(), connection)
    }

    fn request() -> impl Strategy<Value = CommandRequest> {
        let plain = prop_oneof![
            Just(ServerCommand::Status),
            Just(ServerCommand::Reload),
            Just(ServerCommand::Stop)
        ];
        let header = (".{0,20}", ".{0,20}");
        let header = header.prop_map(|(name, value)| RequestHeader { name, value });
        let explain = (".{0,40}", ".{0,10}", vec(header, 0..4));
        let explain =
            explain.prop_map(|(url, method, headers)| ExplainRequest { url, method, headers });
        prop_oneof![plain.prop_map(CommandRequest::new), explain.prop_map(CommandRequest::explain)]
    }

    proptest! {
        #[test]
        fn requests_are_parsed_in_any_pieces(
            sent in vec(request(), 0..8),
            cuts in vec(1_usize..40, 0..40),
        ) {
            let mut bytes = Vec::new();
            for request in &sent {
                serde_json::to_writer(&mut bytes, request).expect("written");
                bytes.push(b'\n');
            }
            let mut pieces = Vec::new();
            for cut in cuts {
                pieces.push(bytes.drain(..cut.min(bytes.len())).collect());
            }
            pieces.push(bytes);
            let (requests, responses, _) = talk(&pieces);
            prop_assert_eq!(&requests, &sent);
            prop_assert_eq!(responses.len(), sent.len());
        }

        #[test]
        fn a_malformed_request_gets_one_response_and_ends_the_connection(
            sent in vec(request(), 0..4),
            line in "[^\n]{0,200}",
        ) {
            let mut bytes = Vec::new();
            for request in &sent {
                serde_json::to_writer(&mut bytes, request).expect("written");
                bytes.push(b'\n');
            }
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(b"\n{\"version\":1,\"command\":\"stop\"}\n");
            let (requests, responses, talked) = talk(&[bytes]);
            prop_assert_eq!(requests, sent.clone());
            prop_assert_eq!(responses.len(), sent.len() + 1);
            prop_assert!(talked.is_over());
        }
    }

    #[test]
    fn a_request_that_is_too_long_ends_the_conversation() {
        let longest = |bytes: usize| {
            let mut line =
                serde_json::to_vec(&CommandRequest::new(ServerCommand::Status)).expect("written");
            line.resize(bytes - 1, b' ');
            line.push(b'\n');
            line
        };
        let (requests, responses, talked) = talk(&[longest(REQUEST_MAX_BYTES)]);
        assert_eq!((requests.len(), responses.len(), talked.is_over()), (1, 1, false));
        let (requests, responses, talked) = talk(&[longest(REQUEST_MAX_BYTES + 1)]);
        assert_eq!((requests.len(), responses.len(), talked.is_over()), (0, 1, true));
        let error = responses[0].error.as_deref().expect("refused");
        assert!(error.contains("longer than 65536 bytes"), "{error}");
    }
}

//! Checks which frames a process may send about a request, and when: their contents wait in memory
//! for the client or for the process.

use pinion_http::h1::client::limits::INTERIM_RESPONSES_MAX;
use pinion_http::python::child_frame::ChildFrame;
use pinion_http::python::limits::INITIAL_ROOM_BYTES;

use super::super::limits::WANTED_MAX_BYTES;
use super::super::python_failure::PythonFailure;
use super::PythonRequest;

impl PythonRequest {
    /// Checks that a frame may come now, and that it is within the allowance of the process.
    pub(in crate::python) fn check(&mut self, frame: &ChildFrame<'_>) -> Result<(), PythonFailure> {
        let is_begun = self.status.is_some();
        match *frame {
            ChildFrame::Response { .. } | ChildFrame::Head { .. } if is_begun => {
                Err(PythonFailure::Unexpected("a second head"))
            }
            ChildFrame::Accept { .. } if is_begun || self.websocket.is_none() => {
                Err(PythonFailure::Unexpected("ACCEPT for a request that is over, or no WebSocket"))
            }
            ChildFrame::Message { .. } | ChildFrame::Close { .. } => {
                Err(PythonFailure::Unexpected("a message before ACCEPT"))
            }
            ChildFrame::Response { ref head, .. } | ChildFrame::Head { ref head, .. }
                if self.websocket.as_ref().is_some_and(|pending| pending.is_connect)
                    && (200..300).contains(&head.status) =>
            {
                Err(PythonFailure::Unexpected("a successful response in place of a WebSocket"))
            }
            ChildFrame::Content { .. } if !is_begun => {
                Err(PythonFailure::Unexpected("content before a head"))
            }
            ChildFrame::Content { bytes, .. }
                if u64::from(self.sent_bytes) + bytes.len() as u64
                    > u64::from(INITIAL_ROOM_BYTES) =>
            {
                Err(PythonFailure::Unexpected("more content than there is room for"))
            }
            ChildFrame::Want { bytes, .. }
                if self.wanted_bytes + u64::from(bytes) > WANTED_MAX_BYTES =>
            {
                Err(PythonFailure::Unexpected("a request for too much content at a time"))
            }
            // Each would be responded to, without an end.
            ChildFrame::Want { bytes: 0, .. } => {
                Err(PythonFailure::Unexpected("a request for no content"))
            }
            ChildFrame::Hints { .. } => {
                self.interim_responses += 1;
                match is_begun {
                    true => Err(PythonFailure::Unexpected("hints after the head")),
                    false if self.interim_responses > INTERIM_RESPONSES_MAX => {
                        Err(PythonFailure::Unexpected("too many hints"))
                    }
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

//! Requests that stop in the middle.

use super::{Http3, REQUEST_CANCELLED, ResponseParts, head, lost, receive};
use crate::client::Broken;
use crate::client::http3::kind;
use crate::client::quic::{at_once, frame};
use crate::request::Request;
use crate::response::Response;
use quinn::{Connection, VarInt};

impl Http3 {
    /// Sends the head of a request up to the middle of its frame, and reads the response.
    ///
    /// # Errors
    /// Returns the reason why there is none.
    #[track_caller]
    pub fn try_half_head(&self, request: &Request) -> Result<Response, Broken> {
        let whole = head(request);
        self.try_without_end(whole[..whole.len() / 2].to_vec())
    }

    /// Does the same with a whole head, and the content up to the middle of a frame.
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    #[track_caller]
    pub fn try_half_content(&self, request: &Request) -> Result<Response, Broken> {
        let content = frame(kind::DATA, request.content());
        self.try_without_end([&head(request)[..], &content[..content.len() / 2]].concat())
    }

    #[track_caller]
    fn try_without_end(&self, bytes: Vec<u8>) -> Result<Response, Broken> {
        let mut response = ResponseParts::new(false);
        let connection = self.quic.connection().clone();
        let (response, outcome) = at_once(async move {
            let outcome = stop(&connection, &bytes, &mut response).await;
            (response, outcome)
        })?;
        self.judge(response, outcome)
    }
}

/// Sends bytes of a request, and nothing more before the response has arrived.
async fn stop(
    connection: &Connection,
    bytes: &[u8],
    response: &mut ResponseParts,
) -> Result<(), Broken> {
    let opened = connection.open_bi().await;
    let (mut sender, mut receiver) = opened.map_err(|error| lost(error, response))?;
    sender.write_all(bytes).await.map_err(|error| Broken::Failed(error.into()))?;
    let outcome = receive(&mut receiver, response).await;
    let _stopped_already = sender.reset(VarInt::from_u32(REQUEST_CANCELLED));
    outcome
}

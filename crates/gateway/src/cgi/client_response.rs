//! The response of a script as it is sent to the client.

use std::sync::Arc;

use pinion_engine::exchange::{ContentRoom, Exchange, Slice};

use super::cgi_scripts::CgiScripts;
use super::script_output::OutputEvent;
use crate::response_forwarding::{ResponseChanges, forwarded};
use crate::x_sendfile::FileResponse;

/// The progress of the response to a client.
#[derive(Debug, Default)]
pub(super) struct ClientResponse {
    /// The status of the head that was sent.
    pub(super) status: Option<u16>,
    /// Bytes of content that were sent.
    pub(super) body_bytes: u64,
    /// The length in the head.
    content_length: Option<u64>,
    /// Enough waits for the client: no output is read until there is room.
    pub(super) is_full: bool,
    /// The path and query of another response that replaces this one.
    pub(super) redirect: Option<Box<[u8]>>,
    /// The response with a file that replaces this one.
    pub(super) file: Option<Box<FileResponse>>,
}

impl ClientResponse {
    /// Sends a part of the response. `defaults` are lines of fields that it has unless the script
    /// sets them.
    pub(super) fn send(
        &mut self,
        event: OutputEvent<'_>,
        scripts: &CgiScripts,
        defaults: &Arc<[u8]>,
        exchange: &mut Exchange<'_>,
    ) {
        match event {
            OutputEvent::LocalRedirect(target) => self.redirect = Some(target.into()),
            OutputEvent::Head { status, fields, content_length } => {
                let changes = ResponseChanges::of(&scripts.response_fields, scripts.passed_fields);
                if scripts.sends_files {
                    let file = FileResponse::of(status, fields.iter(), changes, defaults);
                    self.file = file.map(Box::new);
                }
                if self.file.is_some() {
                    return;
                }
                let fields = forwarded(fields.iter(), changes, defaults);
                exchange.head(status, fields.iter().copied(), content_length);
                (self.status, self.content_length) = (Some(status), content_length);
            }
            // A file is sent in its place.
            OutputEvent::Content(_) if self.file.is_some() => {}
            OutputEvent::Content(bytes) => {
                self.body_bytes += bytes.len() as u64;
                self.is_full = exchange.write(Slice::Copied(bytes)) != ContentRoom::Free;
            }
        }
    }

    /// Returns whether all content was sent that the head has announced.
    pub(super) fn has_announced_content(&self) -> bool {
        self.status.is_some() && self.content_length == Some(self.body_bytes)
    }
}

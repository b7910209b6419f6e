//! Content of a request that is stored before an upstream server is asked: a slow client then takes
//! no connection to the server, and none of its threads or processes.

use std::sync::Arc;

use pinion_client::http_client::request::{ClientRequest, RequestBody};
use pinion_client::http_client::{HttpClient, RequestId};
use pinion_jobs::upload_quota::UploadQuota;
use pinion_jobs::upload_spool::{StoreError, UploadSpool};

use crate::limits::REQUEST_PIECE_BYTES;

/// The stored content of a request.
#[derive(Debug)]
pub(super) struct StoredUpload {
    /// The request, until all content is there.
    request: Option<Box<ClientRequest>>,
    spool: UploadSpool,
    sent_bytes: u64,
    is_ended: bool,
}

impl StoredUpload {
    /// Begins to store the content of a request.
    pub(super) fn new(request: ClientRequest, quota: &Arc<UploadQuota>) -> Self {
        let mut spool = UploadSpool::default();
        spool.belong_to(quota);
        Self { request: Some(Box::new(request)), spool, sent_bytes: 0, is_ended: false }
    }

    /// Whether content is missing.
    pub(super) fn is_collecting(&self) -> bool {
        self.request.is_some()
    }

    /// Adds content.
    ///
    /// # Errors
    /// It cannot be stored.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.spool.append(bytes)
    }

    /// All content is there. Returns the request that is sent now, with the length of its content.
    ///
    /// # Errors
    /// The content cannot be stored.
    pub(super) fn finish(&mut self) -> Result<Option<ClientRequest>, StoreError> {
        self.spool.finish()?;
        let length = Some(self.spool.bytes());
        let request = self.request.take();
        Ok(request
            .map(|request| ClientRequest { content: RequestBody::Pieces { length }, ..*request }))
    }

    /// The request is sent once more.
    pub(super) fn rewind(&mut self) {
        (self.sent_bytes, self.is_ended) = (0, false);
    }

    /// Gives the next content to the connection, as far as there is room.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn send(&mut self, client: &mut HttpClient, id: RequestId) -> std::io::Result<()> {
        while !self.is_ended && client.takes_content(id) {
            let left = self.spool.bytes() - self.sent_bytes;
            let piece = self.spool.read(self.sent_bytes, left.min(REQUEST_PIECE_BYTES))?;
            client.write(id, Some(&piece));
            self.sent_bytes += piece.len() as u64;
            if self.sent_bytes == self.spool.bytes() {
                client.write(id, None);
                self.is_ended = true;
            }
        }
        Ok(())
    }
}

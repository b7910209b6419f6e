//! Content of a request that is stored before an upstream server is asked: a slow client then takes
//! no connection to the server, and none of its threads or processes.

use std::sync::Arc;

use pinion_client::http_client::request::ClientRequest;
use pinion_client::http_client::{HttpClient, RequestId};
use pinion_jobs::byte_quota::ByteQuota;
use pinion_jobs::upload_quota::UploadQuota;
use pinion_jobs::upload_spool::StoreError;

use crate::stored_content::StoredContent;

/// The stored content of a request.
#[derive(Debug)]
pub(super) struct StoredUpload {
    /// The request, until all content is there.
    request: Option<Box<ClientRequest>>,
    content: StoredContent,
    is_ended: bool,
}

/// The quotas of all uploads together.
#[derive(Clone, Debug)]
pub struct UploadQuotas {
    /// The quota of the folder for temporary files, those of scripts included.
    pub files: Arc<UploadQuota>,
    /// The quota of memory.
    pub memory: Arc<ByteQuota>,
}

impl StoredUpload {
    /// Begins to store the content of a request.
    pub(super) fn new(request: ClientRequest, quotas: &UploadQuotas) -> Self {
        let request = Some(Box::new(request));
        Self { request, content: StoredContent::new(quotas), is_ended: false }
    }

    /// Returns whether content is missing.
    pub(super) fn is_collecting(&self) -> bool {
        self.request.is_some()
    }

    /// Adds content.
    ///
    /// # Errors
    /// It cannot be stored.
    pub(super) fn append(&mut self, bytes: &[u8], quotas: &UploadQuotas) -> Result<(), StoreError> {
        self.content.append(bytes, quotas)
    }

    /// Ends the content, all of which is there. Returns the request that is sent now, with the
    /// length of its content.
    ///
    /// # Errors
    /// The content cannot be stored.
    pub(super) fn finish(&mut self) -> Result<Option<ClientRequest>, StoreError> {
        let bytes = self.content.finish()?;
        Ok(self.request.take().map(|mut request| {
            request.set_content_length(bytes);
            *request
        }))
    }

    /// Returns whether all content was given to the connection.
    pub(super) fn is_sent(&self) -> bool {
        self.is_ended
    }

    /// Makes the upload ready to be sent once more.
    pub(super) fn rewind(&mut self) {
        self.content.rewind();
        self.is_ended = false;
    }

    /// Sends the next content to the connection, as far as there is room.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn send(&mut self, client: &mut HttpClient, id: RequestId) -> std::io::Result<()> {
        while !self.is_ended && client.takes_content(id) {
            if let Some(piece) = self.content.next_piece()? {
                client.write(id, Some(&piece));
            }
            if self.content.is_at_end() {
                client.write(id, None);
                self.is_ended = true;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_forwarding::forward;
    use crate::upstream::Upstream;
    use crate::upstream_group::UpstreamGroup;
    use pinion_client::http_client::request::RequestBody;
    use pinion_http::forwarded_client::ClientIdentity;
    use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
    use pinion_http::limits::Limits;

    fn request() -> ClientRequest {
        let (text, mut storage) = (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", HeadStorage::new());
        let parsed = parse(text, 0, &mut storage, &Limits::default());
        let Ok(Parsed::Head { head, .. }) = parsed else { panic!("a head") };
        let upstream = Upstream::parse("http://a").expect("a URL");
        let client = ClientIdentity { peer: None, is_secured: false };
        let group = UpstreamGroup::of_one(upstream.clone());
        forward(&upstream, &group, &head, &client, "x").expect("forwarded")
    }

    /// The content in memory is limited for all uploads together, and its memory is free again when
    /// an upload has ended.
    #[test]
    fn uploads_share_their_memory() {
        let memory = Arc::new(ByteQuota::new(100_000));
        let quotas = UploadQuotas { files: Arc::default(), memory: memory.clone() };
        let upload = || StoredUpload::new(request(), &quotas);
        let (mut one, mut two) = (upload(), upload());
        one.append(&[0; 60_000], &quotas).expect("stored");
        let error = two.append(&[0; 60_000], &quotas).expect_err("no memory");
        assert!(matches!(error, StoreError::Full(why) if why.contains("memory")));
        drop(one);
        let mut three = upload();
        three.append(&[0; 60_000], &quotas).expect("stored");
        assert!(memory.bytes() >= 60_000);
        // The length is that of the whole content.
        let request = three.finish().expect("stored").expect("a request");
        assert_eq!(request.content, RequestBody::Pieces { length: Some(60_000) });
        assert!(!three.is_collecting());
        drop((two, three));
        assert_eq!(memory.bytes(), 0);
    }
    /// An upload in a file uses none of the memory for all uploads once it is complete, however
    /// much time its upstream server takes.
    #[test]
    fn an_upload_in_a_file_takes_no_memory() {
        let memory = Arc::new(ByteQuota::new(1 << 20));
        let quotas = UploadQuotas { files: Arc::default(), memory: memory.clone() };
        let mut upload = StoredUpload::new(request(), &quotas);
        for _ in 0..10 {
            upload.append(&[7; 60_000], &quotas).expect("stored");
        }
        assert!(memory.bytes() > 0, "what comes is in memory first");
        let request = upload.finish().expect("stored").expect("a request");
        assert_eq!(request.content, RequestBody::Pieces { length: Some(600_000) });
        assert_eq!(memory.bytes(), 0);
        let mut pieces = std::iter::from_fn(|| upload.content.next_piece().expect("it is there"));
        assert!(pieces.by_ref().flatten().eq([7].repeat(600_000)));
    }
}

//! Content of a request that is stored before an upstream server is asked: a slow client then takes
//! no connection to the server, and none of its threads or processes.

use std::sync::Arc;

use pinion_client::http_client::request::ClientRequest;
use pinion_client::http_client::{HttpClient, RequestId};
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::request_head::Framing;
use pinion_jobs::byte_quota::ByteQuota;
use pinion_jobs::upload_quota::UploadQuota;
use pinion_jobs::upload_spool::StoreError;

use super::upstream_failover::failure_of;
use super::{Ended, Proxy};
use crate::proxy_error::ProxyError;
use crate::stored_content::StoredContent;
use crate::upstream_group::UpstreamOptions;

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

impl Proxy {
    /// Continues after a piece of content was stored, or could not be.
    pub(super) fn stored(
        &mut self,
        address: Address,
        stored: Result<(), StoreError>,
    ) -> Option<Ended> {
        let error = match stored.err()? {
            StoreError::Full(why) => ProxyError::StorageFull(why.into()),
            StoreError::Io(error) => ProxyError::Stored(error.to_string().into()),
        };
        Some(self.failed(address, error))
    }

    /// Continues after all content of an exchange is stored: its server is asked.
    pub(super) fn collected(
        &mut self,
        address: Address,
        exchange: &mut Exchange<'_>,
    ) -> Option<Ended> {
        let forwarding = self.exchanges.get_mut(&address)?;
        let finished = forwarding.upload.as_mut().map(StoredUpload::finish)?;
        let request = match finished {
            Ok(request) => request?,
            Err(error) => return self.stored(address, Err(error)),
        };
        let now_ms = exchange.now().monotonic_ms;
        forwarding.attempts.begin(now_ms);
        match self.client.start(request, now_ms) {
            Ok(id) => {
                forwarding.id = id;
                self.requests.insert(id, address);
                None
            }
            Err(error) => {
                let error = failure_of(&forwarding.attempts.server, Arc::new(error));
                Some(self.failed(address, error))
            }
        }
    }
}

/// Returns how much content of a request is stored before its server is asked; `None` if it is
/// passed on as it comes.
pub(super) fn stored_upload_max_bytes(options: &UpstreamOptions, framing: Framing) -> Option<u64> {
    let has_no_length = matches!(framing, Framing::Chunked | Framing::Frames);
    match options.stored_upload_max_bytes {
        _ if framing == Framing::None => None,
        Some(max_bytes) => Some(max_bytes),
        None if options.program.is_some() && has_no_length => {
            Some(options.unknown_length_max_bytes)
        }
        None => None,
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
    fn an_upload_in_a_file_uses_no_memory() {
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

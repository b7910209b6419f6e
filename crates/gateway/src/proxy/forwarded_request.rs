//! One request that is forwarded: its content on the way to the upstream server, and the response
//! on the way to the client.

use std::collections::VecDeque;
use std::sync::Arc;

use pinion_client::http_client::error::HttpClientError;
use pinion_client::http_client::request::{ReadOutcome, ResponseStart};
use pinion_client::http_client::{HttpClient, RequestId};
use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_http::field::Field;
use pinion_http::h1::client::response_error::ResponseError;

use super::stored_upload::StoredUpload;
use super::upstream_failover::{Attempts, ServerNews, failure_of};
use super::{ApplicationMessage, Ended};
use crate::field_changes::FieldChanges;
use crate::limits::{REQUEST_PIECE_BYTES, RESPONSE_PIECE_BYTES};
use crate::proxy_error::ProxyError;
use crate::response_forwarding::{
    ResponseChanges, forwarded, forwarded_interim, location_for_client,
};
use crate::tunnels::Tunnels;
use crate::upstream_group::UpstreamOptions;
use crate::websocket_handshake::WebSocketHandshake;
use crate::x_sendfile::FileResponse;

/// An exchange whose request is forwarded.
pub(super) struct ForwardedExchange {
    /// Not valid as long as [`Self::upload`] is collected.
    pub(super) id: RequestId,
    pub(super) attempts: Attempts,
    /// Content that is stored before a server is asked.
    pub(super) upload: Option<StoredUpload>,
    /// Lines of fields that the response has unless the upstream server sets them.
    pub(super) defaults: Arc<[u8]>,
    /// The protocols that the client would switch to.
    pub(super) offered: Option<Box<str>>,
    /// The handshake with the upstream server for the extended CONNECT of the client.
    pub(super) handshake: Option<WebSocketHandshake>,
    /// The content has a length that the client has announced.
    pub(super) has_length: bool,
    /// Bytes of content that were asked for and have not come.
    pub(super) wanted_bytes: u64,
    /// All content of the request has come, or it has none.
    pub(super) has_all_content: bool,
    /// Enough of the response waits for the client: nothing is read of it until there is room.
    pub(super) is_full: bool,
    /// The status of the response whose head was sent.
    pub(super) status: Option<u16>,
    /// Bytes of content that were sent.
    pub(super) body_bytes: u64,
}

impl ForwardedExchange {
    /// Returns whether content is stored, and no server was asked yet.
    pub(super) fn is_collecting(&self) -> bool {
        self.upload.as_ref().is_some_and(StoredUpload::is_collecting)
    }

    /// Asks the client for more content if the upstream server takes it, or sends more of the
    /// stored content.
    pub(super) fn take_content(
        &mut self,
        client: &mut HttpClient,
        exchange: &mut Exchange<'_>,
    ) -> std::io::Result<()> {
        if let Some(upload) = &mut self.upload {
            upload.send(client, self.id)?;
            if self.status.is_some() && upload.is_sent() {
                // It is not sent once more.
                self.upload = None;
            }
            return Ok(());
        }
        let is_over = self.has_all_content || self.wanted_bytes > 0;
        if !is_over && client.takes_content(self.id) {
            exchange.want(REQUEST_PIECE_BYTES);
            self.wanted_bytes = REQUEST_PIECE_BYTES;
        }
        Ok(())
    }

    /// Returns whether the server is an application that speaks FastCGI or SCGI.
    pub(super) fn is_of_application(&self) -> bool {
        self.attempts.server.group().options.program.is_some()
    }

    /// Returns whether content is stored only to find out its length.
    pub(super) fn lacks_length(&self) -> bool {
        let options = &self.attempts.server.group().options;
        self.is_collecting() && !self.has_length && options.stored_upload_max_bytes.is_none()
    }

    /// Returns the text that the application has written to its error stream since the last call.
    pub(super) fn message(&self, client: &mut HttpClient) -> Option<ApplicationMessage> {
        let text = client.take_stderr(self.id);
        let server = || self.attempts.server.to_string().into();
        (!text.is_empty()).then(|| ApplicationMessage { server: server(), text: text.into() })
    }

    /// Passes on the available part of the response.
    pub(super) fn respond(
        &mut self,
        client: &mut HttpClient,
        tunnels: &mut Tunnels,
        news: &mut VecDeque<ServerNews>,
        exchange: &mut Exchange<'_>,
    ) -> Option<Ended> {
        let status = match self.status {
            Some(status) => status,
            None => {
                self.interim(client, exchange);
                match client.response(self.id) {
                    Ok(None) => return None,
                    Ok(Some(start)) if start.status == 101 => {
                        let start = start.clone();
                        news.extend(self.succeeded());
                        return Some(self.switch(start, client, tunnels, exchange));
                    }
                    // It would open a tunnel that leads nowhere.
                    Ok(Some(start))
                        if self.handshake.is_some() && (200..300).contains(&start.status) =>
                    {
                        let upstream = self.attempts.server.to_string().into();
                        let error = ProxyError::NotSwitched { upstream, status: start.status };
                        return Some(Ended::Failed(error));
                    }
                    Ok(Some(start)) => {
                        if let Some(file) = self.file_response(start) {
                            news.extend(self.succeeded());
                            return Some(Ended::File(Box::new(file)));
                        }
                        let status = self.send_head(start, exchange);
                        news.extend(self.succeeded());
                        status
                    }
                    Err(error) => return Some(Ended::Failed(self.failure(error))),
                }
            }
        };
        while !self.is_full {
            let mut room = ContentRoom::Free;
            let give = |bytes: &[u8]| room = exchange.write(Slice::Copied(bytes));
            match client.read(self.id, RESPONSE_PIECE_BYTES, give) {
                ReadOutcome::Pending => return None,
                ReadOutcome::Bytes(bytes) => self.body_bytes += bytes as u64,
                ReadOutcome::End => {
                    let trailers = client.trailers(self.id);
                    exchange.end(forwarded_interim(trailers.iter(), self.response_changes()));
                    return Some(Ended::Answered { status, body_bytes: self.body_bytes });
                }
                ReadOutcome::Failed(error) => {
                    exchange.cut_short();
                    let (body_bytes, error) = (self.body_bytes, self.failure(error));
                    return Some(Ended::Aborted { status, body_bytes, error });
                }
            }
            self.is_full = room != ContentRoom::Free;
        }
        None
    }

    /// Sends the head of the response. Returns its status.
    fn send_head(&mut self, start: &ResponseStart, exchange: &mut Exchange<'_>) -> u16 {
        let location = self.location(start);
        let changes = ResponseChanges::new(self.options(), location.as_deref());
        let fields = forwarded(start.fields.iter(), changes, &self.defaults);
        exchange.head(start.status, fields.iter().copied(), start.content_length);
        *self.status.insert(start.status)
    }

    /// Returns the response if a file is sent in place of its content.
    fn file_response(&self, start: &ResponseStart) -> Option<FileResponse> {
        if !self.options().sends_files {
            return None;
        }
        let location = self.location(start);
        let changes = ResponseChanges::new(self.options(), location.as_deref());
        FileResponse::of(start.status, start.fields.iter(), changes, &self.defaults)
    }

    /// Returns the value of `Location` as the client gets it, if that is another one.
    fn location(&self, start: &ResponseStart) -> Option<Vec<u8>> {
        let (attempts, options) = (&self.attempts, self.options());
        // Applications know the paths of the site, and have no host of their own.
        let value = start.fields.get("Location").filter(|_| options.program.is_none())?;
        let (upstream, asked) = (attempts.server.upstream()?, attempts.asked.as_deref());
        location_for_client(value, upstream, options.path.as_ref(), asked)
    }

    /// Returns how the messages of the mount are changed.
    fn options(&self) -> &UpstreamOptions {
        &self.attempts.server.group().options
    }

    /// Records that the server has responded.
    fn succeeded(&mut self) -> Option<ServerNews> {
        let change = self.attempts.server.succeeded()?;
        let server = self.attempts.server.to_string().into();
        Some(ServerNews { server, change, reason: None })
    }

    /// Makes a tunnel of both connections.
    fn switch(
        &self,
        mut start: ResponseStart,
        client: &mut HttpClient,
        tunnels: &mut Tunnels,
        exchange: &mut Exchange<'_>,
    ) -> Ended {
        if let Some(handshake) = &self.handshake
            && !handshake.take_accept(&mut start)
        {
            let upstream = self.attempts.server.to_string().into();
            return Ended::Failed(ProxyError::WebSocketAccept { upstream });
        }
        let protocol = start.fields.get("Upgrade").unwrap_or_default();
        // One that is not taken ends with the request.
        let is_offered = self.has_offered(protocol);
        let tunnel = is_offered.then(|| client.take_tunnel(self.id)).flatten();
        let Some(tunnel) = tunnel else {
            let error = HttpClientError::Response(ResponseError::UnexpectedUpgrade);
            return Ended::Failed(self.failure(Arc::new(error)));
        };
        let own = [
            Field { name: b"Connection", value: b"Upgrade" },
            Field { name: b"Upgrade", value: protocol },
        ];
        let fields = forwarded_interim(start.fields.iter(), self.response_changes());
        let address = exchange.address();
        let server = self.attempts.server.for_tunnel();
        if let Some(handshake) = &self.handshake {
            exchange.open_tunnel(fields);
            let connections = &mut exchange.connections();
            tunnels.open_on_stream(address, handshake.has_ended, tunnel, server, connections);
            return Ended::Answered { status: 200, body_bytes: 0 };
        }
        let fields = fields.chain(own);
        exchange.upgrade(fields);
        tunnels.open(address, tunnel, server, &mut exchange.connections());
        Ended::Answered { status: 101, body_bytes: 0 }
    }

    /// Returns whether the client would switch to a protocol.
    fn has_offered(&self, protocol: &[u8]) -> bool {
        let offered = self.offered.iter().flat_map(|offered| offered.split(", "));
        offered.into_iter().any(|one| one.as_bytes().eq_ignore_ascii_case(protocol))
    }

    /// Passes on interim responses, except 100: this server has sent its own.
    fn interim(&mut self, client: &mut HttpClient, exchange: &mut Exchange<'_>) {
        while let Some(interim) = client.next_interim(self.id) {
            if interim.status != 100 {
                let fields = forwarded_interim(interim.fields.iter(), self.response_changes());
                let fields: Vec<Field<'_>> = fields.collect();
                exchange.interim(interim.status, fields.into_iter());
            }
        }
    }

    /// Returns the fields that the operator sets or removes in responses.
    fn response_changes(&self) -> &FieldChanges {
        &self.attempts.server.group().options.response_fields
    }

    fn failure(&self, error: Arc<HttpClientError>) -> ProxyError {
        failure_of(&self.attempts.server, error)
    }
}

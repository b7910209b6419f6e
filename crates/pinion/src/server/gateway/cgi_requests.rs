//! Requests that CGI scripts respond to.

use super::failure_log::LoggedFailure;
use super::{CLIENT_LEFT, Gateway, OpenRequest};
use crate::server::mounts::Mount;
use crate::server::request_log::RequestLog;
use crate::server::sendfile_folders::SentFolders;
use pinion_engine::app::{ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_gateway::cgi::cgi_failure::CgiFailure;
use pinion_gateway::cgi::cgi_scripts::CgiScripts;
use pinion_gateway::cgi::{Cgi, CgiEnded};
use pinion_gateway::limits::OVERLOAD_RETRY_SECONDS;
use pinion_http::field::is_same_name;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::method::Method;
use pinion_http::owned_head::OwnedRequestHead;
use pinion_http::request_head::RequestHead;
use std::sync::Arc;

/// Fields of a request that are about its content, which a redirected request does not have.
const CONTENT_FIELDS: [&str; 6] = [
    "Content-Length",
    "Content-Type",
    "Content-Encoding",
    "Content-Language",
    "Expect",
    "Transfer-Encoding",
];

/// The copy of a request for the case that the application redirects it, or names a file.
pub(super) struct KeptRequest {
    pub(super) head: OwnedRequestHead,
    /// How many local redirects have led to it.
    count: u32,
    /// The folders of files that the application may name, if it may do that.
    pub(super) sent_folders: Option<Arc<SentFolders>>,
}

/// A request whose response is that to a GET for another path of this server (RFC 3875 §6.2.2).
#[derive(Debug)]
pub(crate) struct LocalRedirect {
    pub(crate) address: Address,
    /// The request, without its content.
    pub(crate) head: OwnedRequestHead,
    /// The path and the query.
    pub(crate) target: Box<[u8]>,
    /// The number of local redirects so far, this one included.
    pub(crate) count: u32,
}

impl KeptRequest {
    pub(super) fn new(head: &RequestHead<'_>, count: u32, mount: &Mount) -> Box<Self> {
        let keep = |name: &[u8]| !CONTENT_FIELDS.iter().any(|one| is_same_name(name, one));
        let head = OwnedRequestHead::with_fields(head, |field| keep(field.name), &[]);
        Box::new(Self { head, count, sent_folders: mount.sent_folders.clone() })
    }

    /// Returns the request for another path of this server.
    pub(super) fn redirected(self, address: Address, target: Box<[u8]>) -> LocalRedirect {
        let Self { head, count, .. } = self;
        LocalRedirect { address, head, target, count: count + 1 }
    }
}

impl Gateway {
    /// Begins a request to a CGI script. Answers it if that is not possible.
    pub(super) fn begin_cgi(
        &mut self,
        waiting: OpenRequest,
        (scripts, defaults): (&Arc<CgiScripts>, &Arc<[u8]>),
        (client, head): (&ClientIdentity, &RequestHead<'_>),
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let count = self.redirect_count;
        match self.cgi().begin(scripts, defaults, (client, head), count, exchange) {
            Ok(()) => {
                self.waiting.insert(exchange.address(), waiting);
            }
            Err(failure) => self.fail_cgi(waiting, &failure, request_log, exchange),
        }
    }

    /// Returns the requests to CGI scripts, which are made for the first one.
    fn cgi(&mut self) -> &mut Cgi {
        let Self { shared, poster, is_stopping, .. } = self;
        self.cgi.get_or_insert_with(|| {
            let uploads = shared.settings.uploads.clone();
            let mut cgi = Cgi::new(shared.programs.clone(), uploads, poster.clone());
            if *is_stopping {
                cgi.stop();
            }
            Box::new(cgi)
        })
    }

    /// Handles an event of an exchange. Returns false if no CGI script responds to it.
    pub(super) fn cgi_event(
        &mut self,
        event: &Event<'_>,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        let Some(cgi) = &mut self.cgi else { return false };
        if !cgi.has(exchange.address()) {
            return false;
        }
        if let Some(ended) = cgi.event(event, exchange) {
            let refusal = match event {
                Event::Refused(refusal) => Some(refusal.status()),
                _ => None,
            };
            self.cgi_ended(ended, refusal, request_log, exchange);
        }
        true
    }

    /// Returns whether an event on a stream is for a CGI script.
    pub(crate) fn is_of_script(tag: u64) -> bool {
        Cgi::is_of_script(tag)
    }

    /// Handles an event on a stream of a CGI script.
    pub(crate) fn raw_of_script(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        match &mut self.cgi {
            Some(cgi) => cgi.byte_stream_event(event, stream),
            None => stream.abort(),
        }
    }

    /// Returns a request that a CGI script has redirected to another path of this server.
    pub(crate) fn next_redirect(&mut self) -> Option<LocalRedirect> {
        self.redirects.pop_front()
    }

    /// Sets how many local redirects have led to the request that begins now.
    pub(crate) fn set_redirect_count(&mut self, count: u32) {
        self.redirect_count = count;
    }

    pub(super) fn flush_cgi(
        &mut self,
        request_log: &mut RequestLog,
        connections: &mut Connections<'_>,
    ) {
        let Some(mut cgi) = self.cgi.take() else { return };
        cgi.flush(connections, |ended, exchange| {
            self.cgi_ended(ended, None, request_log, exchange);
        });
        self.cgi = Some(cgi);
    }

    /// Records a request that has ended, and responds if it has failed. `refusal` is the status for
    /// content that was refused.
    fn cgi_ended(
        &mut self,
        ended: CgiEnded,
        refusal: Option<u16>,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let address = exchange.address();
        let Some(waiting) = self.waiting.remove(&address) else { return };
        match ended {
            CgiEnded::Answered { status, body_bytes } => {
                let body_bytes = if waiting.method == Method::Head { 0 } else { body_bytes };
                request_log.record_deferred(waiting.record, status, body_bytes, exchange);
            }
            CgiEnded::LocalRedirect { target } => {
                let Some(kept) = waiting.kept else { return };
                self.redirects.push_back(kept.redirected(address, target));
            }
            CgiEnded::Aborted { status, body_bytes, error } => {
                self.log_cgi("the response was cut off", &waiting, &error, exchange);
                request_log.record_deferred(waiting.record, status, body_bytes, exchange);
            }
            CgiEnded::File(response) => self.send_file(waiting, &response, request_log, exchange),
            CgiEnded::Failed(failure) => self.fail_cgi(waiting, &failure, request_log, exchange),
            CgiEnded::Gone { status, body_bytes } => match (status, refusal) {
                (None, Some(status)) => self.respond(waiting, status, request_log, exchange),
                (status, _) => {
                    let status = status.unwrap_or(CLIENT_LEFT);
                    request_log.record_deferred(waiting.record, status, body_bytes, exchange);
                }
            },
        }
    }

    #[cold]
    fn fail_cgi(
        &mut self,
        waiting: OpenRequest,
        failure: &CgiFailure,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let status = failure.status();
        if failure.is_logged() {
            self.log_cgi(&status.to_string(), &waiting, failure, exchange);
        }
        if status == 503 {
            let field = format!("Retry-After: {OVERLOAD_RETRY_SECONDS}\r\n");
            exchange.add_fields(field.as_bytes());
        }
        self.respond(waiting, status, request_log, exchange);
    }

    #[cold]
    fn log_cgi(
        &self,
        outcome: &str,
        waiting: &OpenRequest,
        failure: &CgiFailure,
        exchange: &Exchange<'_>,
    ) {
        let failure = LoggedFailure::of_script(outcome, failure, &waiting.mount);
        self.shared.failures.log(&failure, waiting, exchange);
    }
}

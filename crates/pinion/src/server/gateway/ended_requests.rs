//! The ends of requests that other servers respond to: their records in the access log, and the
//! responses to those that have failed.

use super::failure_log::LoggedFailure;
use super::{CLIENT_LEFT, Gateway, OpenRequest};
use crate::server::request_log::RequestLog;
use pinion_client::http_client::error::HttpClientError;
use pinion_engine::exchange::Exchange;
use pinion_gateway::proxy::Ended;
use pinion_gateway::proxy_error::ProxyError;
use pinion_http::method::Method;
use pinion_http::prepared_response::{Location, Prepared, SharedFields};
use pinion_site::error_page_at;

/// The methods that are forwarded, among those that servers know: all but CONNECT and TRACE.
const FORWARDED_METHODS: &[u8] = b"GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE, QUERY";

impl Gateway {
    /// Records a request that has ended, and responds if it has failed. `refusal` is the status for
    /// content that was refused.
    pub(super) fn ended(
        &mut self,
        ended: Ended,
        refusal: Option<u16>,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let Some(waiting) = self.waiting.remove(&exchange.address()) else { return };
        match ended {
            Ended::Answered { status, body_bytes } => {
                let body_bytes = if waiting.method == Method::Head { 0 } else { body_bytes };
                request_log.record_deferred(waiting.record, status, body_bytes, exchange);
            }
            Ended::Aborted { status, body_bytes, error } => {
                self.log("the response was cut off", &waiting, &error, exchange);
                request_log.record_deferred(waiting.record, status, body_bytes, exchange);
            }
            Ended::File(response) => self.send_file(waiting, &response, request_log, exchange),
            Ended::Failed(error) => self.fail(waiting, &error, request_log, exchange),
            Ended::Gone { status, body_bytes } => match (status, refusal) {
                (None, Some(status)) => self.respond(waiting, status, request_log, exchange),
                (status, _) => {
                    let status = status.unwrap_or(CLIENT_LEFT);
                    request_log.record_deferred(waiting.record, status, body_bytes, exchange);
                }
            },
        }
    }

    /// Responds to a request that has failed: with a redirect, or with the page of an error, which
    /// is logged.
    #[cold]
    pub(super) fn fail(
        &mut self,
        waiting: OpenRequest,
        error: &ProxyError,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        if let ProxyError::MissingSlash { path, query } = error {
            let location = Location { path, query: query.as_deref() };
            return redirect(waiting, location, request_log, exchange);
        }
        if let ProxyError::Upstream { error, .. } = error
            && let HttpClientError::LocalRedirect(target) = &**error
            && let Some(kept) = waiting.kept
        {
            let redirect = kept.redirected(exchange.address(), target.clone());
            return self.redirects.push_back(redirect);
        }
        self.log(&error.status().to_string(), &waiting, error, exchange);
        if let Some(seconds) = error.retry_seconds() {
            exchange.add_fields(format!("Retry-After: {seconds}\r\n").as_bytes());
        }
        self.respond(waiting, error.status(), request_log, exchange);
    }

    /// Responds with the page of a status.
    #[cold]
    pub(super) fn respond(
        &mut self,
        waiting: OpenRequest,
        status: u16,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let OpenRequest { generation, rules_path, method, record, error_format, .. } = waiting;
        let archive = &generation.archive();
        let (path, work) = (rules_path.as_deref(), self.work.get_or_insert_default());
        let page = error_page_at(path, status, error_format, archive, work).prepared;
        let page = Prepared { allow: (status == 405).then_some(FORWARDED_METHODS), ..page };
        request_log.respond_deferred(&page, record, method == Method::Head, exchange);
    }

    /// Logs why a request has no response, or not all of one.
    #[cold]
    fn log(
        &self,
        outcome: &str,
        waiting: &OpenRequest,
        error: &ProxyError,
        exchange: &Exchange<'_>,
    ) {
        if error.is_logged() {
            let failure = LoggedFailure::of_server(outcome, error, &waiting.mount);
            self.shared.failures.log(&failure, waiting, exchange);
        }
    }
}

/// Redirects to the path of a folder with the slash at its end.
#[cold]
fn redirect(
    waiting: OpenRequest,
    location: Location<'_>,
    request_log: &mut RequestLog,
    exchange: &mut Exchange<'_>,
) {
    let response = Prepared {
        shared: SharedFields::h1(waiting.generation.generated_fields()),
        location: Some(location),
        content_length: Some(0),
        ..Prepared::empty(308)
    };
    request_log.respond_deferred(&response, waiting.record, false, exchange);
}

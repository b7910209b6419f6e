//! Files that are sent in place of the content of responses (`X-Sendfile`, `X-Accel-Redirect`).

use super::failure_log::LoggedFailure;
use super::{Gateway, OpenRequest};
use crate::server::live_files::{FileContent, OpenLiveFile, range_boundary};
use crate::server::request_log::RequestLog;
use crate::server::sendfile_folders::SentFolders;
use pinion_engine::exchange::Exchange;
use pinion_gateway::x_sendfile::{FileReference, FileResponse};
use pinion_http::method::Method;
use pinion_http::prepared_response::Prepared;
use pinion_http::request_head::RequestHead;
use pinion_site::live_file::{SentFile, sent_file_response};
use pinion_site::{Pieces, RequestBuffers};
use std::sync::Arc;

/// The `Cache-Control` of a file if the application sets none: the application has decided for one
/// user.
const PRIVATE_LINE: &[u8] = b"Cache-Control: private, max-age=0, must-revalidate\r\n";

/// The `Cache-Control` of a file that is the page of an error.
const ERROR_LINE: &[u8] = b"Cache-Control: no-store\r\n";

/// A part of the file can be asked for.
const RANGES_LINE: &[u8] = b"Accept-Ranges: bytes\r\n";

/// Lines of fields of a response with a file.
struct FileFields {
    /// The fields of a whole response, with `Content-Type` in front.
    full: Vec<u8>,
    type_line_bytes: usize,
    /// The fields of a 304.
    not_modified: Vec<u8>,
}

impl Gateway {
    /// Responds with the file that an application has named in place of the content of its
    /// response, or with an error that has nothing of that response.
    pub(super) fn send_file(
        &mut self,
        waiting: OpenRequest,
        response: &FileResponse,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let Some(kept) = &waiting.kept else { return exchange.abort() };
        let Some(folders) = kept.sent_folders.clone() else { return exchange.abort() };
        let file = match folders.file(&response.file) {
            Ok(file) => file,
            Err(error) => {
                let (kind, cause) = (error.kind(), error.to_string());
                self.log_file_error(
                    &waiting,
                    &response.file,
                    (error.status(), kind, &cause),
                    exchange,
                );
                return self.respond(waiting, error.status(), request_log, exchange);
            }
        };
        let head = kept.head.head();
        let sending = FileSending { waiting: &waiting, response, head: &head, folders: &folders };
        match sending.send(file, self.work.get_or_insert_default(), exchange) {
            Ok(sent) => {
                let body_bytes = sent.content_length.filter(|_| head.method != Method::Head);
                let body_bytes = body_bytes.unwrap_or_default();
                request_log.record_deferred(waiting.record, sent.status, body_bytes, exchange);
            }
            Err(status) => {
                let cause = unsent_file(status);
                self.log_file_error(&waiting, &response.file, (status, cause, cause), exchange);
                self.respond(waiting, status, request_log, exchange);
            }
        }
    }

    #[cold]
    fn log_file_error(
        &self,
        waiting: &OpenRequest,
        named: &FileReference,
        (status, kind, cause): (u16, &str, &str),
        exchange: &Exchange<'_>,
    ) {
        // The path may be a client's choice, so it makes no other kind.
        let (outcome, about) = (status.to_string(), format!("{named}: {cause}"));
        let failure = LoggedFailure {
            outcome: &outcome,
            subject: kind,
            about: &about,
            cause: &"",
            advice: None,
        };
        self.shared.failures.log(&failure, waiting, exchange);
    }
}

/// Returns the reason why an open file is not sent, with this status.
fn unsent_file(status: u16) -> &'static str {
    match status {
        503 => {
            "too many files are being sent; the limit is an eighth of the open files (ulimit -n)"
        }
        404 => "it has gone while it was read",
        _ => "it changes too often to be read as a whole",
    }
}

/// A response with a file that is being made.
struct FileSending<'r> {
    waiting: &'r OpenRequest,
    response: &'r FileResponse,
    /// The request.
    head: &'r RequestHead<'r>,
    folders: &'r Arc<SentFolders>,
}

impl FileSending<'_> {
    /// Sends a file, and returns the response for the log.
    ///
    /// # Errors
    /// The status of a response that is still to be given.
    fn send(
        &self,
        mut file: OpenLiveFile,
        work: &mut RequestBuffers,
        exchange: &mut Exchange<'_>,
    ) -> Result<Prepared<'static>, u16> {
        let again = |_: &OpenLiveFile| self.folders.file(&self.response.file).ok();
        let content = match self.head.method {
            Method::Head => None,
            _ => FileContent::of(&mut file, (&self.folders.open, again), exchange)?,
        };
        let now = exchange.now().unix_seconds;
        let (etag, modified) = file.validators(now).unzip();
        let (fields, boundary) = (self.fields(&file), range_boundary(self.head));
        let sent = SentFile {
            // The application may have looked at the range of the request, too.
            status: if self.response.status == 206 { 200 } else { self.response.status },
            fields: &fields.full,
            type_line_bytes: fields.type_line_bytes,
            not_modified_fields: &fields.not_modified,
            bytes: file.stamp.bytes,
            modified,
            etag: etag.as_deref().map(str::as_bytes),
            boundary: boundary.as_bytes(),
        };
        let (archive, mut pieces) = (self.waiting.generation.archive(), Pieces::new());
        let response = sent_file_response(&archive, self.head, now, &sent, work, &mut pieces);
        let logged = Prepared {
            content_length: response.content_length,
            ..Prepared::empty(response.status)
        };
        FileContent::send(content.as_ref(), &response, exchange);
        Ok(logged)
    }

    /// Returns the fields of the application, with those that it has not set.
    fn fields(&self, file: &OpenLiveFile) -> FileFields {
        let own = &self.response.fields;
        let has = |name| own.get(name).is_some();
        // PHP sends an empty type for none.
        let media_type = own.get("Content-Type").filter(|value| !value.is_empty());
        let media_type = media_type.unwrap_or(file.media_type.as_bytes());
        let mut full = [b"Content-Type: ", media_type, b"\r\n"].concat();
        let (type_line_bytes, mut not_modified) = (full.len(), Vec::new());
        if !has("Cache-Control") && !has("Expires") {
            let line = if self.response.status < 400 { PRIVATE_LINE } else { ERROR_LINE };
            full.extend_from_slice(line);
            not_modified.extend_from_slice(line);
        }
        // Ranges are for GET only (RFC 9110 §14.2).
        let is_read = matches!(self.head.method, Method::Get | Method::Head);
        if is_read && matches!(self.response.status, 200 | 206) {
            full.extend_from_slice(RANGES_LINE);
        }
        for field in own.iter() {
            if field.name.eq_ignore_ascii_case(b"Content-Type") {
                continue;
            }
            let line = [field.name, b": ", field.value, b"\r\n"].concat();
            full.extend_from_slice(&line);
            if !is_of_content(field.name) {
                not_modified.extend_from_slice(&line);
            }
        }
        FileFields { full, type_line_bytes, not_modified }
    }
}

/// Returns whether a field describes the content, so that a 304 has no use for it (RFC 9110
/// §15.4.5).
fn is_of_content(name: &[u8]) -> bool {
    ["Content-Disposition", "Content-Language"]
        .iter()
        .any(|of_content| name.eq_ignore_ascii_case(of_content.as_bytes()))
}

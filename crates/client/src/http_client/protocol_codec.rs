//! The protocols of servers: HTTP/1.1, FastCGI or SCGI. The pool and the requests are the same for
//! all of them; they differ in how a request is written, and how its response is read.

use pinion_http::cgi::response_event::{GatewayEvent, GatewayStep};
use pinion_http::cgi::response_reader::CgiReader;
use pinion_http::fastcgi::content_writer::FastCgiContentWriter;
use pinion_http::fastcgi::response_reader::FastCgiReader;
use pinion_http::field::Field;
use pinion_http::h1::client::content_writer::ContentWriter;
use pinion_http::h1::client::request_error::RequestError;
use pinion_http::h1::client::response_parser::{InputEnd, ResponseParser};
use pinion_http::h1::head_parser::HeadStorage;

use super::error::HttpClientError;

/// The framing of a request's content.
#[derive(Debug)]
pub(super) enum RequestFraming {
    /// The content is framed by its length or in chunks; that of SCGI by its length.
    Http(ContentWriter),
    /// The content is framed in records.
    FastCgi(FastCgiContentWriter),
}

impl RequestFraming {
    /// Returns whether the request is complete.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Http(writer) => writer.is_complete(),
            Self::FastCgi(writer) => writer.is_complete(),
        }
    }

    /// Appends a piece of content.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, content: &[u8]) -> Result<(), RequestError> {
        match self {
            Self::Http(writer) => writer.write(out, content),
            Self::FastCgi(writer) => writer.write(out, content),
        }
    }

    /// Appends the end of the content. FastCGI and SCGI have no trailers.
    pub(super) fn end<'f>(
        &mut self,
        out: &mut Vec<u8>,
        trailers: impl Iterator<Item = Field<'f>>,
    ) -> Result<(), RequestError> {
        match self {
            Self::Http(writer) => writer.end(out, trailers),
            Self::FastCgi(writer) => writer.end(out),
        }
    }
}

/// The parser of a response.
#[derive(Debug)]
pub(super) enum ResponseReader {
    Http(ResponseParser),
    FastCgi(FastCgiReader),
    Scgi(CgiReader),
}

impl ResponseReader {
    /// Uses bytes at the front of `input`, of content at most `room`. Unused bytes must be at the
    /// front of the next input.
    pub(super) fn step<'a>(
        &'a mut self,
        input: &'a [u8],
        end: InputEnd,
        room: u64,
        storage: &'a mut HeadStorage,
    ) -> Result<GatewayStep<'a>, HttpClientError> {
        match self {
            Self::Http(parser) => {
                let step = parser.step(input, end, room, storage)?;
                Ok(GatewayStep { used: step.used, event: GatewayEvent::Response(step.event) })
            }
            Self::FastCgi(reader) => Ok(reader.step(input, end, room, storage)?),
            Self::Scgi(reader) => Ok(reader.step(input, end, room, storage)?),
        }
    }
}

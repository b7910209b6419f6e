//! Formats the events of HTTP/2 and HTTP/3 connections in a few words.

use pinion_http::error_page::ErrorFormat;
use pinion_http::field::Fields;
use pinion_http::multiplexed_request_head::refused_request;
use pinion_http::refusal::Refusal;
use pinion_http::request_head::RequestHead;

pub(crate) fn head(head: &RequestHead<'_>, end: bool) -> String {
    format!("{} {}{}", text(head.method_token), text(head.target.raw), of_end(end))
}

pub(crate) fn refused(refusal: Refusal, fields: &Fields<'_>, end: bool) -> String {
    let form = refused_request(fields);
    let head_only = if form.head_only { " head-only" } else { "" };
    let plain = match form.error_format {
        ErrorFormat::Html => "",
        ErrorFormat::Text => " text",
        ErrorFormat::ProblemDetails => " problem",
    };
    format!("{}{head_only}{plain}{}", refusal.status(), of_end(end))
}

pub(crate) fn content(bytes: &[u8]) -> String {
    match bytes.len() {
        0..=40 => text(bytes),
        long => format!("({long} bytes)"),
    }
}

pub(crate) fn all(fields: &Fields<'_>) -> String {
    fields.iter().map(|field| format!(" {}={}", text(field.name), text(field.value))).collect()
}

pub(crate) fn of_end(end: bool) -> &'static str {
    if end { " end" } else { "" }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

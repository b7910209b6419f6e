//! Computes the response to a request: archive and request head in, prepared response out.
//!
//! **In:** an [`Archive`](pinion_archive::Archive), a
//! [`RequestHead`](pinion_http::request_head::RequestHead) of any protocol, the time, and buffers
//! that are reused between requests. **Out:** a
//! [`Prepared`](pinion_http::prepared_response::Prepared) that borrows from all of these. It does
//! no I/O, reads no clock, and allocates nothing once the buffers have grown.
//!
//! | Module | Decides |
//! |---|---|
//! | `response` | the order of everything: target, entry, method |
//! | `resolve` | which entry a path gets: its own, a rule's, the other slash form's, a fallback's |
//! | `rule_matching`, `form_urlencoded` | the first rule that matches host, path and query |
//! | `rule_target` | the target of a rule, with its captures filled in |
//! | `field_rules`, `field_lines` | the fields by rules of responses without stored ones |
//! | `resource_response` | the representation, and whole, part, 304, 412 or 416 |
//! | `multipart_ranges` | several ranges in one body |
//! | [`live_file`] | a file that is no part of the archive, with the fields of the site |
//! | `redirect_location` | the location of a redirect |
//! | `generated_responses` | the responses without an entry: error pages, OPTIONS |
//! | [`host_selection`] | which of several sites a request is for |
//! | [`lookup_trace`] | the steps of a lookup, for a caller that explains a response |
//! | `request_buffers` | [`RequestBuffers`] and [`Pieces`], the buffers of a request |
#![forbid(unsafe_code)]

mod field_lines;
mod field_rules;
mod form_urlencoded;
mod generated_responses;
pub mod host_selection;
pub mod live_file;
pub mod lookup_trace;
mod multipart_ranges;
mod redirect_location;
mod request_buffers;
mod resolve;
mod resource_response;
mod response;
mod rule_matching;
mod rule_target;

pub use generated_responses::{
    ErrorPageSource, ErrorResponse, error_for, error_in_format_for, error_page_at,
    field_rules_path, generated_fields, options_for, pathless_script_fields, refused_page,
    script_fields,
};
pub use request_buffers::{Pieces, RequestBuffers};
pub use resolve::{has_file, has_rule_before_files};
pub use response::{respond, respond_traced};

//! Computes the response to a request: archive and request head in, prepared response out.
//!
//! **In:** an [`Archive`](pinion_archive::Archive), a
//! [`RequestHead`](pinion_http::request::RequestHead) of any protocol, the time, and buffers that
//! are reused between requests. **Out:** a [`Prepared`](pinion_http::prepared::Prepared) that
//! borrows from all of these. It does no I/O, reads no clock, and allocates nothing once the
//! buffers have grown.
//!
//! | Module | Decides |
//! |---|---|
//! | [`answer()`] | the order of everything: target, entry, method |
//! | `resolve` | which entry a path gets: its own, a rule's, the other slash form's, a fallback's |
//! | `rules`, `form` | the first rule that matches host, path and query |
//! | `template` | the target of a rule, with its captures filled in |
//! | `fields` | the fields by rules of responses that are not stored with them |
//! | `resource` | the representation, and whole, part, 304, 412 or 416 |
//! | `multipart` | several ranges in one body |
//! | [`live`] | a file that is no part of the archive, with the fields of the site |
//! | `location` | the location of a redirect |
//! | `generated` | the responses without an entry: error pages, OPTIONS |
//! | `field_lines` | whether a cache may store a response with its field lines |
//! | [`hosts`] | which of several sites a request is for |
//! | [`trace`] | the steps of a lookup, for a caller that explains a response |
//! | `work` | [`RequestBuffers`] and [`Pieces`], the buffers of a request |
#![forbid(unsafe_code)]

mod answer;
mod field_lines;
mod fields;
mod form;
mod generated;
pub mod hosts;
pub mod live;
mod location;
mod multipart;
mod resolve;
mod resource;
mod rules;
mod template;
pub mod trace;
mod work;

pub use answer::{answer, answer_traced};
pub use generated::{
    ErrorPageSource, ErrorResponse, error_for, error_in_format_for, error_page_at,
    field_rules_path, generated_fields, options_for, pathless_script_fields, refused_page,
    script_fields,
};
pub use resolve::{has_file, has_rule_before_files};
pub use work::{Pieces, RequestBuffers};

//! A file that is no part of the archive of its site: one of a folder that is read for each
//! request, or one that an application has named. Its response is that of a file of the archive,
//! with the same preconditions and ranges.

use pinion_archive::{Archive, BodyLocation, SharedBlock};
use pinion_http::conditional::Validators;
use pinion_http::date::UnixSeconds;
use pinion_http::method::Method;
use pinion_http::prepared_response::{ExternalRange, Prepared};
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::{escape, is_path_byte};

use crate::generated_responses::{self, generated_block};
use crate::request_buffers::{Pieces, RequestBuffers, ResponseBuffers};
use crate::resource_response::{self, SelectedRepresentation, UnappliedRules};
use crate::response::SiteLookup;

/// A file, as it was when it was opened.
#[derive(Clone, Copy, Debug)]
pub struct LiveFile<'x> {
    /// The value of `Content-Type`.
    pub media_type: &'x str,
    /// The value of `Cache-Control`, if it has one before rules.
    pub cache_control: Option<&'x str>,
    /// Whether its content is sent in several codings.
    pub varies: bool,
    /// Its length in bytes.
    pub bytes: u64,
    /// The time of its last change, in seconds since 1970, if it is disclosed.
    pub modified: Option<UnixSeconds>,
    /// Its entity tag, without quotes, if it is disclosed.
    pub etag: Option<&'x [u8]>,
    /// `Content-Location`: the path of the file, if that is not the path of the request.
    pub location: Option<&'x [u8]>,
    /// The boundary between several ranges, which must not occur in the content. If it is empty,
    /// the file is sent as a whole.
    pub boundary: &'x [u8],
}

/// Returns the response of a site to a request for a file outside of its archive. The pieces of its
/// body are [external](pinion_http::prepared_response::Piece::External), and all of them of this
/// file.
pub fn live_response<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    now: UnixSeconds,
    file: &LiveFile<'x>,
    request_buffers: &'x mut RequestBuffers,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let lookup = SiteLookup { archive: *archive, head, now };
    let RequestBuffers { text, path, fields, live, .. } = request_buffers;
    let (lines, buffers) = (live, ResponseBuffers { text, decoded: path, target: b"", fields });
    match head.method {
        Method::Get | Method::Head => {}
        Method::Options => return generated_responses::options(&lookup, buffers),
        Method::Other => return generated_responses::error(&lookup, 501, buffers),
        _ => return generated_responses::error(&lookup, 405, buffers),
    }
    let (full_bytes, type_line_bytes) = write_fields(archive, file, lines);
    let (full, not_modified) = lines.split_at(full_bytes);
    let selected = SelectedRepresentation {
        status: 200,
        content_location: file.location,
        boundary: file.boundary,
        bytes: file.bytes,
        shared: SharedBlock::of_lines(full, not_modified, type_line_bytes),
        body: whole_file(file.bytes),
    };
    let validators = validators(archive, file.etag, file.modified, now);
    if resource_response::is_unconditional(&lookup, selected.status) {
        let ResponseBuffers { decoded, fields, .. } = buffers;
        let shared = fields.apply_all(archive, head, selected.shared, decoded);
        return resource_response::whole(
            &validators,
            &SelectedRepresentation { shared, ..selected },
            pieces,
        );
    }
    let rules = UnappliedRules::All;
    resource_response::conditional_response(&lookup, &validators, selected, rules, buffers, pieces)
}

/// Whole field lines of a response, with all rules for its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldLines {
    /// The lines of a whole response, `Content-Type` first.
    pub full: Vec<u8>,
    /// The lines of a 304.
    pub not_modified: Vec<u8>,
    /// The length of the first line in bytes.
    pub type_line_bytes: usize,
}

/// Returns the fields that [`live_response`] gives a file, but for those of one request alone: for
/// content that is sent often, as a [`SentFile`].
pub fn live_fields(
    archive: &Archive<'_>,
    head: &RequestHead<'_>,
    file: &LiveFile<'_>,
    request_buffers: &mut RequestBuffers,
) -> FieldLines {
    let RequestBuffers { path, fields, live: lines, .. } = request_buffers;
    let (full_bytes, type_line_bytes) = write_fields(archive, file, lines);
    let (full, not_modified) = lines.split_at(full_bytes);
    let block = SharedBlock::of_lines(full, not_modified, type_line_bytes);
    let block = fields.apply_all(archive, head, block, path);
    FieldLines {
        full: block.full_fields().h1.to_vec(),
        not_modified: block.not_modified_fields().h1.to_vec(),
        type_line_bytes: block.type_line().len(),
    }
}

/// A file that is sent in place of the content of an application's response. The application has
/// decided who receives it.
#[derive(Clone, Copy, Debug)]
pub struct SentFile<'x> {
    /// The status of a whole response. Preconditions and ranges count for 200 alone.
    pub status: u16,
    /// Its whole field lines, with `Content-Type` first.
    pub fields: &'x [u8],
    /// The length of that first line in bytes.
    pub type_line_bytes: usize,
    /// Whole lines of the fields of a 304.
    pub not_modified_fields: &'x [u8],
    /// Its length in bytes.
    pub bytes: u64,
    /// The time of its last change, in seconds since 1970, if it is disclosed.
    pub modified: Option<UnixSeconds>,
    /// Its entity tag, without quotes, if it is disclosed.
    pub etag: Option<&'x [u8]>,
    /// The boundary of ranges, as [`LiveFile::boundary`].
    pub boundary: &'x [u8],
}

/// Returns the response to a request for which an application has named a file. The pieces of its
/// body are [external](pinion_http::prepared_response::Piece::External), and all of them of this
/// file. Rules for fields are in the fields already.
pub fn sent_file_response<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    now: UnixSeconds,
    file: &SentFile<'x>,
    request_buffers: &'x mut RequestBuffers,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let lookup = SiteLookup { archive: *archive, head, now };
    let RequestBuffers { text, path, fields, .. } = request_buffers;
    let buffers = ResponseBuffers { text, decoded: path, target: b"", fields };
    let shared = SharedBlock::of_lines(file.fields, file.not_modified_fields, file.type_line_bytes);
    let selected = SelectedRepresentation {
        status: file.status,
        content_location: None,
        boundary: file.boundary,
        bytes: file.bytes,
        shared,
        body: whole_file(file.bytes),
    };
    let validators = validators(archive, file.etag, file.modified, now);
    // RFC 9110 §13.1 and §14.2: conditions of other methods are for the resource that they change,
    // and ranges are for GET.
    let is_selected = file.status == 200 && head.method.selects_representation();
    if !is_selected || resource_response::is_unconditional(&lookup, file.status) {
        return resource_response::whole(&validators, &selected, pieces);
    }
    let rules = UnappliedRules::None;
    resource_response::conditional_response(&lookup, &validators, selected, rules, buffers, pieces)
}

/// Returns the whole content of the one file that is not in the archive.
fn whole_file(bytes: u64) -> BodyLocation {
    BodyLocation::External(ExternalRange { file: 0, offset: 0, bytes, size: bytes, modified_ns: 0 })
}

fn validators<'x>(
    archive: &Archive<'_>,
    etag: Option<&'x [u8]>,
    modified: Option<UnixSeconds>,
    now: UnixSeconds,
) -> Validators<'x> {
    Validators {
        etag: etag.filter(|_| archive.has_etags()),
        // RFC 9110 §8.8.2.1: no date later than that of the message.
        last_modified: modified.filter(|modified| *modified <= now),
    }
}

/// Returns the redirect of a folder to its path with a slash, like that of a folder of the archive.
pub fn live_slash_redirect<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    request_buffers: &'x mut RequestBuffers,
) -> Prepared<'x> {
    let lookup = SiteLookup { archive: *archive, head, now: 0 };
    let RequestBuffers { text, path, fields, .. } = request_buffers;
    text.clear();
    if let Ok(decoded) = head.target.decoded_path(path) {
        escape(text, decoded.iter().copied(), is_path_byte);
        text.push(b'/');
    }
    let buffers = ResponseBuffers { text, decoded: path, target: b"", fields };
    if head.method == Method::Options {
        return generated_responses::options(&lookup, buffers);
    }
    crate::response::slash_redirect(&lookup, buffers)
}

/// Writes the fields of a whole response and then those of a 304, as a build makes them before it
/// applies rules. Returns the length of the former, and of the media type in them.
fn write_fields(archive: &Archive<'_>, file: &LiveFile<'_>, lines: &mut Vec<u8>) -> (usize, usize) {
    let LiveFile { media_type, cache_control, varies, .. } = *file;
    lines.clear();
    let line = |lines: &mut Vec<u8>, name: &str, value: &str| {
        [name, ": ", value, "\r\n"]
            .iter()
            .for_each(|part| lines.extend_from_slice(part.as_bytes()));
    };
    line(lines, "Content-Type", media_type);
    let type_line_bytes = lines.len();
    let common = |lines: &mut Vec<u8>| {
        if let Some(cache_control) = cache_control {
            line(lines, "Cache-Control", cache_control);
        }
        if varies {
            line(lines, "Vary", "Accept-Encoding");
        }
    };
    common(lines);
    lines.extend_from_slice(b"Accept-Ranges: bytes\r\n");
    // The security fields of the site, which all of its responses have.
    let block = generated_block(archive);
    let plain = block.plain.and_then(|plain| archive.shared(plain).ok()).unwrap_or(block);
    let all = plain.without_type().split_inclusive(|&byte| byte == b'\n');
    let kept = all.filter(|line| !line.to_ascii_lowercase().starts_with(b"cache-control:"));
    kept.for_each(|line| lines.extend_from_slice(line));
    let full_bytes = lines.len();
    common(lines);
    (full_bytes, type_line_bytes)
}

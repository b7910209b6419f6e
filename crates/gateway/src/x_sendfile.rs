//! Responses in place of whose content this server sends a file: those with `X-Sendfile` or
//! `X-Accel-Redirect`, which applications have from Apache httpd, lighttpd and nginx.

use std::fmt;

use pinion_client::http_client::request::OwnedFields;
use pinion_http::field::Field;
use pinion_http::status::never_has_content;

use crate::response_forwarding::{ResponseChanges, forwarded};

/// The fields by which an application names a file. No client gets them from a mount that sends
/// files.
pub const FILE_FIELDS: [&str; 2] = [ACCEL_REDIRECT, SENDFILE];

const ACCEL_REDIRECT: &str = "X-Accel-Redirect";
const SENDFILE: &str = "X-Sendfile";

/// Bytes of the value of a field that are kept for messages.
const SHOWN_BYTES: usize = 256;

/// Fields of an application that are about its own content, and not about the file.
const CONTENT_FIELDS: [&str; 9] = [
    "Accept-Ranges",
    "Content-Digest",
    "Content-Encoding",
    "Content-MD5",
    "Content-Range",
    "Digest",
    "ETag",
    "Last-Modified",
    "Repr-Digest",
];

/// A response in place of whose content a file is sent.
#[derive(Debug, PartialEq)]
pub struct FileResponse {
    /// The status code of the application.
    pub status: u16,
    /// The fields as the client gets them, without those that the file decides about.
    pub fields: OwnedFields,
    /// The file.
    pub file: FileReference,
}

/// The way in which an application names a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileReference {
    /// `X-Accel-Redirect`: a path as URLs have it, percent-encoded, perhaps with a query.
    UrlPath(Box<[u8]>),
    /// `X-Sendfile`: an absolute path of the file system, as it is.
    DiskPath(Box<[u8]>),
    /// The field with this name is there more than once.
    Repeated(&'static str),
}

impl FileReference {
    /// Returns the file that the fields of a response name. `X-Accel-Redirect` counts if both are
    /// there, as with nginx.
    fn of<'a>(fields: &(impl Iterator<Item = Field<'a>> + Clone)) -> Option<Self> {
        FILE_FIELDS.into_iter().find_map(|name| {
            let is_match = |field: &Field<'_>| field.name.eq_ignore_ascii_case(name.as_bytes());
            let mut values = fields.clone().filter(is_match).map(|field| Box::from(field.value));
            let value = values.next()?;
            Some(match values.next() {
                Some(_) => Self::Repeated(name),
                None if name == ACCEL_REDIRECT => Self::UrlPath(value),
                None => Self::DiskPath(value),
            })
        })
    }
}

/// `X-Sendfile: /srv/files/a.pdf`.
impl fmt::Display for FileReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = match self {
            Self::UrlPath(value) => (ACCEL_REDIRECT, value),
            Self::DiskPath(value) => (SENDFILE, value),
            Self::Repeated(name) => return f.write_str(name),
        };
        let shown = value.get(..SHOWN_BYTES).unwrap_or(value);
        write!(f, "{name}: {}", String::from_utf8_lossy(shown).escape_debug())
    }
}

impl FileResponse {
    /// Returns the response of an application with these fields, if it names a file and its status
    /// has content. `defaults` are lines of fields that the response has unless the application
    /// sets them.
    pub(crate) fn of<'a>(
        status: u16,
        fields: impl Iterator<Item = Field<'a>> + Clone,
        changes: ResponseChanges<'a>,
        defaults: &'a [u8],
    ) -> Option<Self> {
        if never_has_content(status) {
            return None;
        }
        let file = FileReference::of(&fields)?;
        let mut kept = OwnedFields::default();
        for field in forwarded(fields, changes, defaults) {
            let is_match = |name: &&str| field.name.eq_ignore_ascii_case(name.as_bytes());
            if !CONTENT_FIELDS.iter().chain(&FILE_FIELDS).any(is_match) {
                kept.push(field.name, field.value);
            }
        }
        Some(Self { status, fields: kept, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream_group::UpstreamOptions;

    fn response(status: u16, fields: &[(&'static str, &'static str)]) -> Option<FileResponse> {
        let options = UpstreamOptions::default();
        let fields = fields
            .iter()
            .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() });
        let changes = ResponseChanges::new(&options, None);
        FileResponse::of(status, fields, changes, b"X-Frame-Options: DENY\r\n")
    }

    #[test]
    fn fields_of_the_file_replace_those_of_the_content() {
        let fields = [
            ("content-type", "text/csv"),
            ("Content-Length", "0"),
            ("ETag", "\"a\""),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Accept-Ranges", "none"),
            ("Content-Encoding", "gzip"),
            ("x-accel-redirect", "/files/a.csv"),
            ("X-Sendfile", "/srv/files/b.csv"),
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
        ];
        let FileResponse { status, fields, file } = response(200, &fields).expect("a file");
        assert_eq!((status, file), (200, FileReference::UrlPath(b"/files/a.csv"[..].into())));
        let lines = String::from_utf8(fields.lines()).expect("text");
        assert_eq!(
            lines,
            "content-type:text/csv\nSet-Cookie:a=1\nSet-Cookie:b=2\nX-Frame-Options:DENY\n"
        );
    }

    #[test]
    fn a_file_is_named_once_and_by_a_response_with_content() {
        let one = [("X-Sendfile", "/srv/a")];
        for status in [200, 206, 403, 500] {
            let file = response(status, &one).map(|response| response.file);
            assert_eq!(file, Some(FileReference::DiskPath(b"/srv/a"[..].into())), "{status}");
        }
        for status in [103, 204, 304] {
            assert_eq!(response(status, &one), None, "{status}");
        }
        assert_eq!(response(200, &[("X-Accel-Buffering", "no")]), None);
        let twice = response(200, &[("X-SENDFILE", "/a"), ("X-Sendfile", "/a")]).expect("a file");
        assert_eq!(twice.file, FileReference::Repeated("X-Sendfile"));
    }

    #[test]
    fn a_message_shows_the_value_in_one_short_line() {
        let long = format!("/a\n{}", "\u{e4}".repeat(1000)).into_bytes();
        let shown = FileReference::DiskPath(long.into()).to_string();
        assert!(shown.starts_with("X-Sendfile: /a\\n\u{e4}") && shown.len() < 300, "{shown}");
    }
}

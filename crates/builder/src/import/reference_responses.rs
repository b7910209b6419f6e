//! The response to a reference, apart from its path.

use std::borrow::Cow;

use pinion_archive::is_written_by_server;
use pinion_http::error_page::SECURITY_FIELDS;
use pinion_kawipiko::{Archive, Damage, KawipikoField, Kind, RecordFault, Reference};

use crate::import::decoded_contents::StoredBytes;
use crate::media_type::is_packed;

/// Status, fields and content. Paths with the same numbers share one.
#[derive(Clone, Debug)]
pub(super) struct ImportedResponse<'a> {
    pub(super) status: u16,
    pub(super) media: Option<Cow<'a, str>>,
    pub(super) cache_control: Option<&'a str>,
    /// `Location`.
    pub(super) location: &'a [u8],
    /// All fields but those above and those that a server writes itself.
    pub(super) others: Vec<(&'static str, &'a str)>,
    /// The number of its content.
    pub(super) content: u32,
    pub(super) stored: StoredBytes<'a>,
}

impl<'a> ImportedResponse<'a> {
    /// Reads the fields of a reference.
    pub(super) fn of(
        archive: &Archive<'a>,
        reference: &Reference<'a>,
    ) -> Result<ImportedResponse<'a>, Damage> {
        let damage = |fault| {
            let record = format!("m{:07x}", reference.fields_number());
            Damage { record, fault }
        };
        let bytes = archive.content(reference)?;
        let mut response = ImportedResponse {
            status: 200,
            media: None,
            cache_control: None,
            location: b"",
            others: Vec::new(),
            content: reference.content_number(),
            stored: StoredBytes::Identity(bytes),
        };
        let fields = match archive.fields(reference) {
            // After a redirect, whose content is empty too, the archiver forgets the fields of
            // empty files, and its server responds with status 500.
            Err(Damage { fault: RecordFault::Missing, .. })
                if bytes.is_empty() && reference.kind == Kind::File =>
            {
                Vec::new()
            }
            found => found?,
        };
        for KawipikoField { name, value } in fields {
            let text = || text(value).ok_or(damage(RecordFault::Value));
            match name.to_ascii_lowercase().as_str() {
                "!status" => {
                    let status = text()?.parse().ok().filter(|status| (200..600).contains(status));
                    response.status = status.ok_or(damage(RecordFault::Value))?;
                }
                "content-type" => response.media = Some(Cow::Borrowed(text()?)),
                "cache-control" => response.cache_control = Some(text()?),
                "location" => response.location = value,
                "content-encoding" => {
                    response.stored = match value {
                        b"identity" => StoredBytes::Identity(bytes),
                        b"gzip" => StoredBytes::Gzip(bytes),
                        b"br" => StoredBytes::Brotli(bytes),
                        _ => return Err(damage(RecordFault::Value)),
                    };
                }
                own if is_written_anew(own) => {}
                _ => response.others.push((name, text()?)),
            }
        }
        Ok(response)
    }

    /// Returns whether its type is worth encoding.
    pub(super) fn is_encoded(&self) -> bool {
        let media = self.media.as_deref().unwrap_or_default();
        !is_packed(media.split(';').next().unwrap_or_default().trim_end())
    }
}

/// Returns whether a field is not carried over, because our server writes it itself, or our builder
/// for each stored form. `name` is in lower case.
fn is_written_anew(name: &str) -> bool {
    let is_security_field =
        || SECURITY_FIELDS.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    matches!(name, "accept-ranges" | "server" | "vary")
        || is_written_by_server(name.as_bytes())
        || is_security_field()
}

/// Returns a value that can stand in a field.
fn text(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    let visible = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    (!text.is_empty() && text.bytes().all(visible)).then_some(text)
}

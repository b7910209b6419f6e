//! The response fields of a site, as the archive's shared blocks.

use std::collections::{HashMap, hash_map};
use std::io::{Seek, Write};

use pinion_archive::{NewShared, Role, SharedId, WriteError, Writer};
use pinion_http::content_coding::Coding;
use pinion_http::error_page::SECURITY_FIELDS;
use pinion_http::grammar::is_value_byte;

use crate::error::BuildError;
use crate::listing;
use crate::media_type::MediaType;
use crate::options::Options;
use crate::rules::headers::{FieldRule, HeaderChange};
use crate::rules::{Changes, ChangesId, FieldList};

/// The value for names that change with the content: stored for a year, which caches (RFC 9111)
/// treat as without end, and not even revalidated on reload (RFC 8246).
const FINGERPRINTED: &str = "public, max-age=31536000, immutable";
/// Everything else: kept, but asked about each time.
pub const REVALIDATED: &str = "max-age=0, must-revalidate";
/// The value for responses to a wrong URL: they are right until the file is uploaded.
pub(crate) const NEVER_CACHED: &str = "no-store";

/// The fields that can forbid a page its style.
const POLICY_FIELDS: [&str; 2] = ["Content-Security-Policy", "Content-Security-Policy-Report-Only"];

/// Makes shared blocks, each once.
pub(crate) struct FieldBlocks<'r> {
    /// The `Cache-Control` of responses that may be stored but have to be revalidated.
    cache_control: String,
    /// Whether responses have a `Cache-Control` by default.
    cached: bool,
    security: &'static [(&'static str, &'static str)],
    /// The changes that `_headers` makes.
    pub(crate) changes: Changes<'r>,
    known: HashMap<FieldBlock, (SharedId, String)>,
}

/// The inputs of the fields of a representation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FieldBlock {
    pub(crate) media: MediaType,
    pub(crate) coding: Coding,
    /// Whether the resource has other codings too.
    pub(crate) varies: bool,
    pub(crate) purpose: Purpose,
    pub(crate) changes: ChangesId,
}

/// The purpose of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// A response under its own URL, or for URLs that do not exist but get a response as if they
    /// did.
    Page,
    /// Under its own URL, which changes with its content.
    Fingerprinted,
    /// A listing of a folder, in one of two types.
    Listing,
    /// The page for navigations to a missing page, and for no other requests.
    Navigation,
    /// The page for a URL that does not exist: status 404.
    NotFound,
    /// The page in place of the built-in page of a status.
    Error(u16),
}

impl Purpose {
    /// Returns whether a media type that a rule gives is that of the content. A type for all files
    /// of a folder is not meant for its listing, nor for the pages of errors.
    pub(crate) fn has_given_type(self) -> bool {
        !matches!(self, Purpose::Listing | Purpose::NotFound | Purpose::Error(_))
    }

    /// Returns the status of the response.
    fn status(self) -> u16 {
        match self {
            Purpose::NotFound => 404,
            Purpose::Error(status) => status,
            Purpose::Page | Purpose::Fingerprinted | Purpose::Listing | Purpose::Navigation => 200,
        }
    }
}

impl<'r> FieldBlocks<'r> {
    pub(crate) fn new(
        options: &Options,
        rules: &'r [FieldRule],
    ) -> Result<FieldBlocks<'r>, BuildError> {
        let cache_control = options.cache_control.as_deref().unwrap_or(REVALIDATED);
        let is_value = |&byte: &u8| is_value_byte(byte) && byte.is_ascii();
        if cache_control.is_empty() || !cache_control.as_bytes().iter().all(is_value) {
            let value = cache_control.to_owned();
            return Err(BuildError::FieldValue { field: "Cache-Control", value });
        }
        Ok(FieldBlocks {
            cache_control: cache_control.to_owned(),
            cached: options.cache_control_field,
            security: if options.security_fields { SECURITY_FIELDS } else { &[] },
            changes: Changes::new(rules),
            known: HashMap::new(),
        })
    }

    /// Returns the `Cache-Control` of everything that has no fingerprint in its name.
    pub(crate) fn cache_control(&self) -> &str {
        &self.cache_control
    }

    /// Returns the fields that every response has.
    pub(crate) fn security(&self) -> &'static [(&'static str, &'static str)] {
        self.security
    }

    /// Writes the fields of responses that the server makes itself. Redirects between slash forms
    /// have `cache_control`, if it is not `None`, in place of the usual one.
    pub(crate) fn write_generated<W: Write + Seek>(
        &mut self,
        writer: &mut Writer<W>,
        cache_control: Option<&str>,
    ) -> Result<(), WriteError> {
        let changes = self.changes.of_folder(b"/");
        self.bodiless(writer, Role::Generated, 0, NEVER_CACHED, changes)?;
        let cache_control = cache_control.unwrap_or(&self.cache_control);
        self.bodiless(writer, Role::SlashRedirect, 308, cache_control, changes)?;
        Ok(())
    }

    /// Returns the fields of a redirect.
    pub(crate) fn redirect<W: Write + Seek>(
        &mut self,
        writer: &mut Writer<W>,
        status: u16,
        changes: ChangesId,
    ) -> Result<SharedId, WriteError> {
        self.bodiless(writer, Role::Ordinary, status, &self.cache_control, changes)
    }

    /// Returns the fields of a representation, and the media type among them. A 304 carries those
    /// of them that RFC 9110 §15.4.5 names; the others come from the client's cache.
    pub(crate) fn id<W: Write + Seek>(
        &mut self,
        writer: &mut Writer<W>,
        block: FieldBlock,
    ) -> Result<(SharedId, &str), WriteError> {
        let id = match self.known.entry(block) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(new) => {
                let cache_control = self.cached.then_some(self.cache_control.as_str());
                let FieldBlock { coding, varies, purpose, .. } = block;
                let built_in = built_in(cache_control, self.security, coding, varies, purpose);
                let plain = FieldList::new(&built_in, &[]);
                let mut list = FieldList::new(&built_in, &sent(self.changes.get(block.changes)));
                let is_listing = block.purpose == Purpose::Listing;
                if is_listing {
                    list.edit(&POLICY_FIELDS, |policy| {
                        listing::allowing_style(policy, listing::STYLE_HASH)
                    });
                }
                let media = match list.content_type.take_if(|_| block.purpose.has_given_type()) {
                    Some(given) => given,
                    None => block.media.field().into_owned(),
                };
                let not_modified = list.not_modified();
                let new_block = NewShared {
                    role: Role::Ordinary,
                    status: block.purpose.status(),
                    content_type: Some(&media),
                    fields: &list.all(),
                    not_modified: &not_modified,
                };
                let (fields, not_modified) = (plain.all(), plain.not_modified());
                let own_type = block.media.field();
                let plain_block = NewShared {
                    content_type: Some(&own_type),
                    fields: &fields,
                    not_modified: &not_modified,
                    ..new_block
                };
                let is_plain = list.has_same_fields(&plain);
                let id = write_block(writer, &new_block, &plain_block, is_plain)?;
                new.insert((id, media))
            }
        };
        Ok((id.0, &id.1))
    }

    /// Writes a block for responses whose body, if they have one, is not the site's.
    fn bodiless<W: Write + Seek>(
        &self,
        writer: &mut Writer<W>,
        role: Role,
        status: u16,
        cache_control: &str,
        changes: ChangesId,
    ) -> Result<SharedId, WriteError> {
        let mut fields = Vec::with_capacity(4);
        if self.cached {
            fields.push(("Cache-Control", cache_control));
        }
        fields.extend_from_slice(self.security);
        let plain = FieldList::new(&fields, &[]);
        let list = FieldList::new(&fields, &sent(self.changes.get(changes)));
        let fields = list.all();
        let block =
            NewShared { role, status, content_type: None, fields: &fields, not_modified: &[] };
        // The server uses the first block that has a role.
        let (role, fields) = (Role::Ordinary, plain.all());
        let plain_block = NewShared { role, fields: &fields, ..block };
        write_block(writer, &block, &plain_block, list.has_same_fields(&plain))
    }
}

/// Returns the changes that responses show. A `Content-Encoding` says how a file lies in the
/// folder.
fn sent(changes: &[HeaderChange]) -> Vec<HeaderChange> {
    let is_sent = |change: &&HeaderChange| !change.name().eq_ignore_ascii_case("content-encoding");
    changes.iter().filter(is_sent).cloned().collect()
}

/// Stores a block, and the one that rules for fields have made it of, unless it is that.
fn write_block<W: Write + Seek>(
    writer: &mut Writer<W>,
    block: &NewShared<'_>,
    plain: &NewShared<'_>,
    is_plain: bool,
) -> Result<SharedId, WriteError> {
    if is_plain {
        return writer.shared(block);
    }
    let plain = writer.shared(plain)?;
    writer.shared_by_rules(block, plain)
}

/// Returns the fields of a representation in a build with the usual options and without `_headers`.
pub(crate) fn usual(
    coding: Coding,
    varies: bool,
    purpose: Purpose,
) -> Vec<(&'static str, &'static str)> {
    built_in(Some(REVALIDATED), SECURITY_FIELDS, coding, varies, purpose)
}

/// Returns these fields for redirects.
pub(crate) fn usual_without_content() -> Vec<(&'static str, &'static str)> {
    std::iter::once(("Cache-Control", REVALIDATED)).chain(SECURITY_FIELDS.iter().copied()).collect()
}

/// Returns the fields of a representation before `_headers` changes them. `cache_control` is the
/// value for responses that may be stored but have to be revalidated; with `None` there is no such
/// field.
fn built_in<'f>(
    cache_control: Option<&'f str>,
    security: &[(&'static str, &'static str)],
    coding: Coding,
    varies: bool,
    purpose: Purpose,
) -> Vec<(&'static str, &'f str)> {
    let mut fields = Vec::with_capacity(8);
    if coding != Coding::Identity {
        fields.push(("Content-Encoding", coding.token()));
    }
    if let Some(cache_control) = cache_control {
        let cache_control = match purpose {
            Purpose::Page | Purpose::Listing | Purpose::Navigation => cache_control,
            Purpose::Fingerprinted => FINGERPRINTED,
            Purpose::NotFound | Purpose::Error(_) => NEVER_CACHED,
        };
        fields.push(("Cache-Control", cache_control));
    }
    match (purpose, varies) {
        (Purpose::Listing, true) => fields.push(("Vary", "Accept, Accept-Encoding")),
        (Purpose::Listing, false) => fields.push(("Vary", "Accept")),
        (Purpose::Navigation, true) => {
            fields.push(("Vary", "Accept, Accept-Encoding, Sec-Fetch-Mode"));
        }
        (Purpose::Navigation, false) => fields.push(("Vary", "Accept, Sec-Fetch-Mode")),
        (_, true) => fields.push(("Vary", "Accept-Encoding")),
        (_, false) => {}
    }
    if !matches!(purpose, Purpose::NotFound | Purpose::Error(_)) {
        fields.push(("Accept-Ranges", "bytes"));
    }
    fields.extend_from_slice(security);
    if purpose == Purpose::Listing && !security.is_empty() {
        fields.push(("Content-Security-Policy", listing::POLICY));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_cache_control_value_is_refused() {
        for (value, good) in [
            ("max-age=60", true),
            ("private, no-cache=\"set-cookie\"", true),
            ("", false),
            ("a\r\nSet-Cookie: x", false),
            ("a\nb", false),
            ("a\0b", false),
            ("größe", false),
        ] {
            let options = Options { cache_control: Some(value.to_owned()), ..Options::new(0) };
            assert_eq!(FieldBlocks::new(&options, &[]).is_ok(), good, "{value:?}");
        }
    }
}

//! The response fields of a site, as the archive's shared blocks.

use std::collections::HashMap;
use std::io::{Seek, Write};

use pinion_archive::{NewShared, Role, SharedId, WriteError, Writer};
use pinion_http::coding::Coding;
use pinion_http::grammar::is_value_byte;

use crate::error::BuildError;
use crate::media::MediaType;
use crate::options::Options;

/// The name changes with the content: kept for a year, which RFC 9111 readers take for ever, and
/// not even asked about on reload (RFC 8246).
const FINGERPRINTED: &str = "public, max-age=31536000, immutable";
/// Everything else: kept, but asked about each time.
const REVALIDATED: &str = "max-age=0, must-revalidate";
/// Answers to a wrong URL: right until somebody uploads the file.
pub(crate) const NEVER_CACHED: &str = "no-store";

/// On every response, unless the options say no.
const SECURITY: [(&str, &str); 3] = [
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    ("X-Frame-Options", "SAMEORIGIN"),
];

/// Makes shared blocks, each once.
pub(crate) struct Fields {
    cache_control: String,
    security: &'static [(&'static str, &'static str)],
    known: HashMap<Block, SharedId>,
}

/// What the fields of a representation depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    pub(crate) media: MediaType,
    pub(crate) coding: Coding,
    /// Whether the resource has other codings too.
    pub(crate) varies: bool,
    pub(crate) purpose: Purpose,
}

/// What a resource is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Under its own URL.
    Page,
    /// Under its own URL, which changes with its content.
    Fingerprinted,
    /// For a URL that does not exist: status 404.
    NotFound,
}

impl Fields {
    pub(crate) fn new(options: &Options) -> Result<Fields, BuildError> {
        let cache_control = options.cache_control.as_deref().unwrap_or(REVALIDATED);
        let is_value = |&byte: &u8| is_value_byte(byte) && byte.is_ascii();
        if cache_control.is_empty() || !cache_control.as_bytes().iter().all(is_value) {
            let value = cache_control.to_owned();
            return Err(BuildError::FieldValue { field: "Cache-Control", value });
        }
        Ok(Fields {
            cache_control: cache_control.to_owned(),
            security: if options.security_fields { &SECURITY } else { &[] },
            known: HashMap::new(),
        })
    }

    /// `Cache-Control` of everything that has no fingerprint in its name.
    pub(crate) fn cache_control(&self) -> &str {
        &self.cache_control
    }

    /// The fields that every response has.
    pub(crate) fn security(&self) -> &'static [(&'static str, &'static str)] {
        self.security
    }

    /// The fields of responses that the server makes itself.
    pub(crate) fn write_generated<W: Write + Seek>(
        &self,
        writer: &mut Writer<W>,
    ) -> Result<(), WriteError> {
        for (role, status, cache_control) in [
            (Role::Generated, 0, NEVER_CACHED),
            (Role::SlashRedirect, 308, self.cache_control.as_str()),
        ] {
            let mut fields = vec![("Cache-Control", cache_control)];
            fields.extend_from_slice(self.security);
            let block =
                NewShared { role, status, content_type: None, fields: &fields, not_modified: &[] };
            writer.shared(&block)?;
        }
        Ok(())
    }

    /// The fields of a representation. A 304 carries those of them that RFC 9110 §15.4.5 names;
    /// the others come from the client's cache.
    pub(crate) fn id<W: Write + Seek>(
        &mut self,
        writer: &mut Writer<W>,
        block: Block,
    ) -> Result<SharedId, WriteError> {
        if let Some(&id) = self.known.get(&block) {
            return Ok(id);
        }
        let (status, cache_control) = match block.purpose {
            Purpose::Page => (200, self.cache_control.as_str()),
            Purpose::Fingerprinted => (200, FINGERPRINTED),
            Purpose::NotFound => (404, NEVER_CACHED),
        };
        let mut cached = vec![("Cache-Control", cache_control)];
        if block.varies {
            cached.push(("Vary", "Accept-Encoding"));
        }
        let mut fields = Vec::with_capacity(8);
        if block.coding != Coding::Identity {
            fields.push(("Content-Encoding", block.coding.token()));
        }
        fields.extend_from_slice(&cached);
        if block.purpose != Purpose::NotFound {
            fields.push(("Accept-Ranges", "bytes"));
        }
        fields.extend_from_slice(self.security);
        let id = writer.shared(&NewShared {
            role: Role::Ordinary,
            status,
            content_type: Some(&block.media.field()),
            fields: &fields,
            not_modified: &cached,
        })?;
        self.known.insert(block, id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_control_is_a_field_value() {
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
            assert_eq!(Fields::new(&options).is_ok(), good, "{value:?}");
        }
    }
}

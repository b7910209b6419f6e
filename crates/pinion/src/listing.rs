//! An entry of an archive as the verbs show it.

use crate::calendar;
use pinion_archive::layout::FALLBACK_PREFIX;
use pinion_archive::{Archive, Damage, Entry, Representation};
use serde::Serialize;

/// One entry. The member names are part of the `--json` contract.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    /// As a client asks for it, percent-encoded; for a not-found page the folder it answers for.
    pub(crate) path: String,
    /// `resource`, `redirect`, `rewrite`, `private`, `handler`, or `not-found`.
    pub(crate) kind: &'static str,
    /// Of the response.
    pub(crate) status: u16,
    /// `Content-Location`, `Location`, or where a rewrite leads.
    pub(crate) target: Option<String>,
    /// RFC 3339, UTC.
    pub(crate) modified: Option<String>,
    /// Media type with its parameters.
    pub(crate) media_type: Option<String>,
    /// The stored forms, identity first.
    pub(crate) representations: Vec<ListedForm>,
}

/// One stored form of an entry.
#[derive(Debug, Serialize)]
pub(crate) struct ListedForm {
    /// The token of `Content-Encoding`.
    pub(crate) coding: &'static str,
    /// Stored length.
    pub(crate) bytes: u64,
    /// Without its quotes.
    pub(crate) etag: String,
}

impl Listed {
    /// Reads what an entry names.
    ///
    /// # Errors
    /// A shared block that the entry names is damaged.
    pub(crate) fn new(archive: &Archive<'_>, entry: &Entry<'_>) -> Result<Self, Damage> {
        let internal = entry.path().strip_prefix(FALLBACK_PREFIX);
        let first = entry.representations().next();
        let media_type = match &first {
            Some(form) => Some(archive.shared(form.shared())?.media_type()),
            None => None,
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Self {
            path: encoded(internal.unwrap_or(entry.path())),
            kind: if internal.is_some() { "not-found" } else { entry.kind().name() },
            status: entry.status(),
            target: entry.target().map(text),
            modified: entry.modified().map(calendar::rfc3339),
            media_type: media_type.filter(|media_type| !media_type.is_empty()).map(text),
            representations: entry.representations().map(|form| ListedForm::new(&form)).collect(),
        })
    }

    /// Length of the identity form.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.representations.first().map(|form| form.bytes)
    }

    /// Another name of a resource: it says so by its Content-Location.
    pub(crate) fn is_alias(&self) -> bool {
        self.kind == "resource" && self.target.is_some()
    }
}

impl ListedForm {
    fn new(form: &Representation<'_>) -> Self {
        Self {
            coding: form.coding().token(),
            bytes: form.bytes(),
            etag: String::from_utf8_lossy(form.etag()).into_owned(),
        }
    }
}

/// A path key as a client writes it (RFC 3986 §3.3: `pchar` and `/` stay, the rest is escaped).
fn encoded(key: &[u8]) -> String {
    let mut path = String::with_capacity(key.len());
    for &byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => path.push(char::from(byte)),
            b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*'
            | b'+' | b',' | b';' | b'=' | b':' | b'@' => path.push(char::from(byte)),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

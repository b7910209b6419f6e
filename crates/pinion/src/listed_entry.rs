//! An entry of an archive as the verbs show it.

use crate::timestamp_format;
use pinion_archive::layout::{
    ERROR_PREFIX, FALLBACK_PREFIX, FILE_PREFIX, SINGLE_PAGE_KEY, VARIANT_PREFIX,
};
use pinion_archive::{
    Archive, Damage, Entry, PathPart, QueryValue, Representation, Rule, SegmentPart, TargetPart,
};
use serde::Serialize;

/// One entry. The member names are part of the `--json` contract.
#[derive(Debug, Serialize)]
pub(crate) struct ListedEntry {
    /// The path as a client asks for it, percent-encoded; for a fallback page the folder it
    /// responds for.
    pub(crate) path: String,
    /// `resource`, `redirect`, `rewrite`, `private`, `handler`; `listing` of a folder and its
    /// `variant` as JSON; or an entry that responds in place of a resource: `not-found` and
    /// `fallback` (status 200), `single-page`; `error-page` in place of the built-in page of its
    /// status.
    pub(crate) kind: &'static str,
    /// The status of the response.
    pub(crate) status: u16,
    /// `Content-Location`, `Location`, or where a rewrite leads.
    pub(crate) target: Option<String>,
    /// RFC 3339, UTC.
    pub(crate) modified: Option<String>,
    /// Media type with its parameters.
    pub(crate) media_type: Option<String>,
    /// The number of builds that have carried it over, for an asset of an earlier release.
    pub(crate) previous: Option<u16>,
    /// The stored forms, identity first.
    pub(crate) representations: Vec<ListedForm>,
}

/// One file of code. The member names are part of the `--json` contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ListedCode {
    /// The path as the archive has it; two slashes in front stand for a file beside the content.
    pub(crate) path: String,
    /// `script`, `page`, `private`, or `included`: content of the site that a page includes.
    pub(crate) kind: &'static str,
    /// Its length.
    pub(crate) bytes: u64,
}

impl ListedCode {
    /// Describes a file of [`Archive::code`].
    pub(crate) fn new(path: &[u8], content: &[u8]) -> Self {
        let path = String::from_utf8_lossy(path).into_owned();
        let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let kind = if name.contains(".priv.") {
            "private"
        } else if name.contains(".dyn.") {
            "page"
        } else if name.ends_with(".lua") {
            "script"
        } else {
            "included"
        };
        Self { path, kind, bytes: content.len() as u64 }
    }
}

/// One stored form of an entry.
#[derive(Debug, Serialize)]
pub(crate) struct ListedForm {
    /// The token of `Content-Encoding`.
    pub(crate) coding: &'static str,
    /// Stored length.
    pub(crate) bytes: u64,
    /// The entity tag without its quotes.
    pub(crate) etag: String,
}

impl ListedEntry {
    /// Reads the entry and everything that it names.
    ///
    /// # Errors
    /// A shared block that the entry names is damaged.
    pub(crate) fn new(archive: &Archive<'_>, entry: &Entry<'_>) -> Result<Self, Damage> {
        let (kind, path) = kind_and_path(entry);
        let first = entry.representations().next();
        let media_type = match &first {
            Some(form) => Some(archive.shared(form.shared())?.media_type()),
            None => None,
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Self {
            path: encoded(path),
            kind,
            status: entry.status(),
            target: entry.target().map(text),
            modified: entry.modified().map(timestamp_format::rfc3339),
            media_type: media_type.filter(|media_type| !media_type.is_empty()).map(text),
            previous: None,
            representations: entry.representations().map(|form| ListedForm::new(&form)).collect(),
        })
    }

    /// Returns the length of the identity form.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.representations.first().map(|form| form.bytes)
    }

    /// Returns whether it is another name of a resource, as its Content-Location says.
    pub(crate) fn is_alias(&self) -> bool {
        self.kind == "resource" && self.target.is_some()
    }
}

/// A rule that is walked. The member names are part of the `--json` contract.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct ListedRule {
    /// The host it is for, perhaps with `*.` before it.
    pub(crate) host: Option<String>,
    /// `/a/:1/*`: its captures are numbered from 1, except a `*` at the end.
    pub(crate) path: String,
    /// `key=value` or `key=:2`.
    pub(crate) query: Vec<String>,
    /// `Location`, or the path whose content is sent, with the captures by their numbers and
    /// `:splat` for a `*`.
    pub(crate) target: String,
    /// The status of the response.
    pub(crate) status: u16,
    /// Whether it applies to paths that have an entry.
    pub(crate) force: bool,
}

impl ListedRule {
    pub(crate) fn new(rule: &Rule<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut captures, mut splat) = (0, None);
        let mut path = String::new();
        for part in rule.path() {
            path.push('/');
            captures += u32::from(!matches!(part, PathPart::Literal(_)));
            match part {
                PathPart::Literal(literal) => path += &encoded(literal),
                PathPart::Rest { prefix } => {
                    path += &format!("{}*", encoded(prefix));
                    splat = Some(captures);
                }
                PathPart::Capture => path += &format!(":{captures}"),
                PathPart::Mixed(pattern) => {
                    captures -= 1;
                    for part in pattern.parts() {
                        captures += u32::from(!matches!(part, SegmentPart::Literal(_)));
                        match part {
                            SegmentPart::Literal(literal) => path += &encoded(literal),
                            SegmentPart::Capture => path += &format!(":{captures}"),
                            SegmentPart::Star => {
                                path.push('*');
                                splat = Some(captures);
                            }
                        }
                    }
                }
            }
        }
        if path.is_empty() {
            path.push('/');
        }
        let condition = |(key, value): (&[u8], QueryValue<'_>)| match value {
            QueryValue::Is(value) => format!("{}={}", text(key), text(value)),
            QueryValue::Capture => {
                captures += 1;
                format!("{}=:{captures}", text(key))
            }
        };
        let query = rule.query().map(condition).collect();
        let part = |part: TargetPart<'_>| match part {
            TargetPart::Literal(literal) if rule.is_redirect() => text(literal),
            TargetPart::Literal(literal) => encoded(literal),
            TargetPart::Capture(number) => match u32::from(number) + 1 {
                number if splat == Some(number) => ":splat".to_owned(),
                number => format!(":{number}"),
            },
        };
        Self {
            host: rule.host().map(text),
            path,
            query,
            target: rule.target().map(part).collect(),
            status: rule.status(),
            force: rule.is_forced(),
        }
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

/// Returns the kind of an entry, and the path or folder that it responds for.
fn kind_and_path<'a>(entry: &Entry<'a>) -> (&'static str, &'a [u8]) {
    let key = entry.path();
    if let Some(folder) = key.strip_prefix(FALLBACK_PREFIX) {
        return (if entry.status() == 200 { "fallback" } else { "not-found" }, folder);
    }
    if let Some(path) = key.strip_prefix(VARIANT_PREFIX) {
        return ("variant", path);
    }
    if let Some(path) = key.strip_prefix(FILE_PREFIX) {
        return (entry.kind().name(), path);
    }
    if key.starts_with(ERROR_PREFIX) {
        return ("error-page", b"/");
    }
    if key == SINGLE_PAGE_KEY {
        return ("single-page", b"/");
    }
    (if entry.has_variant() { "listing" } else { entry.kind().name() }, key)
}

/// Returns a path key as a client writes it (RFC 3986 §3.3: `pchar` and `/` stay, the rest is
/// escaped).
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

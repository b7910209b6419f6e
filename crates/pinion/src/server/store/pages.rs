//! Pages of the store: the values of keys, as responses (docs/store.md, "Pages from the store").
//!
//! The parts of a response beside the value are made once for each value: the entity tag, the
//! fields, the codings. They are kept beside the store, by site and path, and belong to the value
//! that they were made of: a short value is compared with it, a long one is the same if its address
//! is the same. So a command that changes a value need not know of it, and the next request finds
//! the new value.

use super::clients::shared;
use crate::server::live_files::{INDEX, UNKNOWN_TYPE};
use bytes::Bytes;
use pinion_builder::{CodingLevel, Method, encode_once, file_type};
use pinion_engine::limits::ENCODE_MIN_BYTES;
use pinion_http::content_coding::Coding;
use pinion_http::field::KnownField;
use pinion_http::media_type::is_compressible;
use pinion_http::negotiate;
use pinion_http::request_head::RequestHead;
use pinion_site::live_file::{FieldLines, LiveFile};
use pinion_store::store::{Store, StoredValue};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The longest value that is compressed: for so many bytes of text, a worker needs about 1 ms of
/// CPU time with Brotli, 0.6 ms with gzip and 0.2 ms with Zstandard, once for each value. A longer
/// one is sent as it is.
const CODED_MAX_BYTES: u64 = 64 * 1024;

/// The longest value that Brotli compresses with quality 5; longer ones have quality 4, so that
/// none costs a worker much more than 1 ms. Of 60 KiB of a page of HTML, the qualities 1 to 5 make
/// 20.7, 19.1, 18.8, 18.1 and 17.0 kB in 0.3, 0.8, 0.8, 0.9 and 1.4 ms; of 32 KiB, 11.5, 10.6,
/// 10.5, 10.0 and 9.4 kB in 0.2, 0.4, 0.4, 0.5 and 0.7 ms. Gzip makes 18.2 kB of the 60 KiB, and
/// Zstandard 19.0 kB.
const BROTLI_BEST_MAX_BYTES: usize = 32 * 1024;

/// The longest value that is a page. A worker makes its entity tag in less than a millisecond, and
/// it counts against the memory for responses while it is sent.
pub(crate) const PAGE_MAX_BYTES: usize = 1024 * 1024;

/// Locks for all kept forms, so that workers seldom wait for each other.
const SHARDS: usize = 16;

/// Bytes of kept forms under one lock: 32 MiB in all. All of them are dropped when there are more,
/// and made again.
const SHARD_MAX_BYTES: usize = 2 * 1024 * 1024;

/// The size of a kept form beside its bytes: table entries and allocations.
const FORM_OVERHEAD_BYTES: usize = 512;

/// The type of a path without an extension.
const PAGE_TYPE: &str = "text/html; charset=utf-8";

/// Codings in the order in which they are sent if the client likes them alike. Numbers stand for
/// their lengths, which are not known before one is made.
const CODINGS: [(Coding, u64); 4] =
    [(Coding::Identity, 4), (Coding::Brotli, 1), (Coding::Zstd, 2), (Coding::Gzip, 3)];

/// The keys of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreMount {
    /// The decoded path of the mount, without a slash at the end.
    path: Box<[u8]>,
    /// The prefix of keys.
    prefix: Box<[u8]>,
}

impl StoreMount {
    /// Makes the keys of a mount with this decoded path. Keys begin with `prefix`.
    pub(crate) fn new(path: &[u8], prefix: &[u8]) -> Self {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        Self { path: path.into(), prefix: prefix.into() }
    }

    /// Returns the key for the decoded path of a request; `None` if the path is not below that of
    /// the mount.
    fn key(&self, path: &[u8]) -> Option<Vec<u8>> {
        let rest = match path.strip_prefix(&*self.path)? {
            [] => b"",
            rest => rest.strip_prefix(b"/")?,
        };
        let index = if rest.is_empty() || rest.ends_with(b"/") { INDEX } else { b"" };
        Some([&*self.prefix, rest, index].concat())
    }
}

/// `the store, with keys that begin with "page:"`.
impl fmt::Display for StoreMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = String::from_utf8_lossy(&self.prefix);
        if self.prefix.is_empty() {
            f.write_str("the store")
        } else {
            write!(f, "the store, with keys that begin with {:?}", prefix.as_ref())
        }
    }
}

/// All pages of a store. Workers share it.
#[derive(Debug)]
pub(crate) struct StoredPages {
    store: Arc<Store>,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    /// The forms by the number of the site and the decoded path, each with the bytes that it
    /// counts.
    forms: HashMap<Box<[u8]>, (Arc<PageForms>, usize)>,
    bytes: usize,
}

/// The result of a look-up of a path.
#[derive(Debug)]
pub(crate) enum FoundPage {
    /// The path has no key, or the key no value.
    Nothing,
    /// A command that takes long has this key, or others beside it.
    Busy { key: Vec<u8> },
    /// The key has a value that cannot be a page.
    Other { key: Vec<u8>, why: NoPage },
    /// A page.
    Page(StoredPage),
}

/// The reason why a value cannot be a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPage {
    /// It is no string, but of this type.
    Type(&'static str),
    /// It is longer than [`PAGE_MAX_BYTES`].
    TooLong { bytes: usize },
}

impl fmt::Display for NoPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(name) => write!(f, "is a {name}; only a string can be a page"),
            Self::TooLong { bytes } => {
                let most = PAGE_MAX_BYTES >> 20;
                write!(f, "has {bytes} bytes; a page has at most {most} MiB: serve it as a file")
            }
        }
    }
}

/// A value, and the parts of its responses.
#[derive(Debug)]
pub(crate) struct StoredPage {
    content: Bytes,
    forms: Arc<PageForms>,
}

/// One form of a value, as it is sent.
pub(crate) struct PageForm<'p> {
    pub(crate) fields: &'p FieldLines,
    pub(crate) etag: &'p str,
    pub(crate) content: &'p Bytes,
}

/// The parts that are made once for a value.
#[derive(Debug)]
struct PageForms {
    value: KnownValue,
    fields: FieldLines,
    etag: String,
    /// Whether it is sent in several codings.
    varies: bool,
    /// The coded forms of each of [`CODINGS`] except the first; `None` inside if it would not be
    /// shorter.
    coded: [OnceLock<Option<CodedForm>>; CODINGS.len() - 1],
}

#[derive(Debug)]
struct CodedForm {
    fields: FieldLines,
    etag: String,
    content: Bytes,
}

/// The value that forms were made of.
#[derive(Clone, Debug)]
enum KnownValue {
    Short(Bytes),
    /// No other value can lie there, as long as this is there.
    Long(Weak<Vec<u8>>),
}

impl StoredPages {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, shards: Default::default() }
    }

    /// Returns the page for the decoded path of a request of a site, whose number no other one and
    /// no other generation of it has. `make_fields` makes the fields of a value that was not sent
    /// before. `now_ms` are milliseconds since 1970.
    pub(crate) fn find(
        &self,
        mount: &StoreMount,
        (site, path): (u64, &[u8]),
        now_ms: u64,
        make_fields: impl FnOnce(&LiveFile<'_>) -> FieldLines,
    ) -> FoundPage {
        let Some(key) = mount.key(path) else { return FoundPage::Nothing };
        let name = name(site, path);
        let known = self.known(&name);
        let look = |value: Option<StoredValue<'_>>| FoundValue::of(&self.store, value, known);
        match self.store.look(0, &key, now_ms, look) {
            None => FoundPage::Busy { key },
            Some(found) => self.page(found, (key, name, path), make_fields),
        }
    }

    /// Returns the page of a value that a job has found, as [`Self::find`] does.
    pub(crate) fn page_of(
        &self,
        mut found: FoundValue,
        mount: &StoreMount,
        (site, path): (u64, &[u8]),
        make_fields: impl FnOnce(&LiveFile<'_>) -> FieldLines,
    ) -> FoundPage {
        let Some(key) = mount.key(path) else { return FoundPage::Nothing };
        let name = name(site, path);
        if let FoundValue::Value(looked) = &mut found {
            looked.forms = self.known(&name).filter(|forms| forms.value.is_same(&looked.value));
        }
        self.page(found, (key, name, path), make_fields)
    }

    fn page(
        &self,
        found: FoundValue,
        (key, name, path): (Vec<u8>, Vec<u8>, &[u8]),
        make_fields: impl FnOnce(&LiveFile<'_>) -> FieldLines,
    ) -> FoundPage {
        match found {
            FoundValue::Nothing => FoundPage::Nothing,
            FoundValue::Other(why) => FoundPage::Other { key, why },
            FoundValue::Value(Looked { content, forms: Some(forms), .. }) => {
                FoundPage::Page(StoredPage { content, forms })
            }
            FoundValue::Value(Looked { content, value, .. }) => {
                let forms = PageForms::new(value, &content, path, make_fields);
                let forms = Arc::new(forms);
                self.keep(name, &forms, content.len());
                FoundPage::Page(StoredPage { content, forms })
            }
        }
    }

    /// Returns the forms that were made last for a name.
    fn known(&self, name: &[u8]) -> Option<Arc<PageForms>> {
        self.shard(name).forms.get(name).map(|(forms, _)| Arc::clone(forms))
    }

    fn keep(&self, name: Vec<u8>, forms: &Arc<PageForms>, content_bytes: usize) {
        let bytes = FORM_OVERHEAD_BYTES + 2 * name.len() + forms.most_bytes(content_bytes);
        let mut shard = self.shard(&name);
        if shard.bytes + bytes > SHARD_MAX_BYTES {
            *shard = Shard::default();
        }
        shard.bytes += bytes;
        let replaced = shard.forms.insert(name.into(), (Arc::clone(forms), bytes));
        shard.bytes -= replaced.map_or(0, |(_, bytes)| bytes);
    }

    fn shard(&self, name: &[u8]) -> MutexGuard<'_, Shard> {
        let sum = name.iter().fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
        let index = sum.wrapping_mul(0x9e37_79b1) >> (u32::BITS - SHARDS.ilog2());
        let shard = &self.shards[index as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns under which name the forms of a page are kept.
fn name(site: u64, path: &[u8]) -> Vec<u8> {
    [&site.to_le_bytes()[..], path].concat()
}

/// The value of a key.
#[derive(Clone, Debug)]
pub(crate) enum FoundValue {
    Nothing,
    /// A value that cannot be a page.
    Other(NoPage),
    /// A string.
    Value(Looked),
}

impl FoundValue {
    fn of(
        store: &Arc<Store>,
        value: Option<StoredValue<'_>>,
        known: Option<Arc<PageForms>>,
    ) -> Self {
        match value {
            None => Self::Nothing,
            Some(StoredValue::Other(type_name)) => Self::Other(NoPage::Type(type_name)),
            Some(StoredValue::Long(bytes)) if bytes.len() > PAGE_MAX_BYTES => {
                Self::Other(NoPage::TooLong { bytes: bytes.len() })
            }
            Some(StoredValue::Long(bytes)) => Self::Value(Looked::long(store, bytes, known)),
            Some(StoredValue::Short(bytes)) => Self::Value(Looked::short(bytes, known)),
        }
    }

    /// Looks at a key in a thread for jobs, for [`StoredPages::page_of`].
    pub(super) fn look_as_job(store: &Arc<Store>, key: &[u8], now_ms: u64) -> Self {
        store.look_as_job(0, key, now_ms, |value| Self::of(store, value, None))
    }
}

/// A string, and the forms that were made of it.
#[derive(Clone, Debug)]
pub(crate) struct Looked {
    content: Bytes,
    value: KnownValue,
    forms: Option<Arc<PageForms>>,
}

impl Looked {
    fn long(store: &Arc<Store>, bytes: &Arc<Vec<u8>>, known: Option<Arc<PageForms>>) -> Self {
        let content = shared(store, Arc::clone(bytes));
        let value = KnownValue::Long(Arc::downgrade(bytes));
        let forms = known.filter(|forms| forms.value.is_same(&value));
        Self { content, value, forms }
    }

    fn short(bytes: &[u8], known: Option<Arc<PageForms>>) -> Self {
        let known = known.and_then(|forms| match &forms.value {
            KnownValue::Short(known) if known == bytes => Some((known.clone(), Arc::clone(&forms))),
            _ => None,
        });
        let (content, forms) = match known {
            Some((content, forms)) => (content, Some(forms)),
            None => (Bytes::copy_from_slice(bytes), None),
        };
        Self { value: KnownValue::Short(content.clone()), content, forms }
    }
}

impl KnownValue {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Short(bytes), Self::Short(others)) => bytes == others,
            (Self::Long(bytes), Self::Long(others)) => Weak::ptr_eq(bytes, others),
            _ => false,
        }
    }
}

impl PageForms {
    fn new(
        value: KnownValue,
        content: &Bytes,
        path: &[u8],
        make_fields: impl FnOnce(&LiveFile<'_>) -> FieldLines,
    ) -> Self {
        let media_type = media_type(path);
        let bytes = content.len() as u64;
        let is_coded_size = (ENCODE_MIN_BYTES..=CODED_MAX_BYTES).contains(&bytes);
        let varies = is_coded_size && is_compressible(media_type.as_bytes());
        let fields = make_fields(&LiveFile {
            media_type: &media_type,
            cache_control: Some(pinion_builder::REVALIDATED),
            varies,
            bytes,
            modified: None,
            etag: None,
            location: None,
            boundary: b"",
        });
        let etag = etag(content);
        Self { value, fields, etag, varies, coded: Default::default() }
    }

    /// Returns how many bytes of memory the forms have at most, once all are made.
    fn most_bytes(&self, content_bytes: usize) -> usize {
        let own = match self.value {
            KnownValue::Short(_) => content_bytes,
            KnownValue::Long(_) => 0,
        };
        let coded = if self.varies { self.coded.len() * content_bytes } else { 0 };
        let lines = self.fields.full.len() + self.fields.not_modified.len();
        own + coded + lines * CODINGS.len()
    }
}

impl StoredPage {
    /// Returns the form that a request is to have.
    pub(crate) fn form(&self, head: &RequestHead<'_>) -> PageForm<'_> {
        let Self { content, forms } = self;
        // A page for one user is not coded: its length could reveal its content.
        let is_coded = forms.varies && head.user().is_none();
        if let Some(coded) = is_coded.then(|| self.coded(head)).flatten() {
            let CodedForm { fields, etag, content } = coded;
            return PageForm { fields, etag, content };
        }
        PageForm { fields: &forms.fields, etag: &forms.etag, content }
    }

    fn coded(&self, head: &RequestHead<'_>) -> Option<&CodedForm> {
        let accepted = negotiate::accepted(head.values(KnownField::AcceptEncoding));
        let chosen = negotiate::choose(&accepted, CODINGS.into_iter());
        let (coding, _) = *CODINGS.get(chosen)?;
        let place = self.forms.coded.get(chosen.checked_sub(1)?)?;
        place.get_or_init(|| self.encode(coding)).as_ref()
    }

    fn encode(&self, coding: Coding) -> Option<CodedForm> {
        let (method, level) = match coding {
            Coding::Brotli if self.content.len() <= BROTLI_BEST_MAX_BYTES => (Method::Brotli, 5),
            Coding::Brotli => (Method::Brotli, 4),
            Coding::Zstd => (Method::Zstd, 3),
            _ => (Method::Gzip, 6),
        };
        let content = encode_once(CodingLevel { method, level }, &self.content)?;
        let FieldLines { full, not_modified, type_line_bytes } = &self.forms.fields;
        let mut full = full.clone();
        full.extend_from_slice(format!("Content-Encoding: {}\r\n", coding.token()).as_bytes());
        let (not_modified, type_line_bytes) = (not_modified.clone(), *type_line_bytes);
        let fields = FieldLines { full, not_modified, type_line_bytes };
        Some(CodedForm { fields, etag: format!("{}-{}", self.forms.etag, coding.token()), content })
    }
}

fn etag(content: &[u8]) -> String {
    const SHOWN_CHARACTERS: usize = 24;
    let hex = blake3::hash(content).to_hex();
    hex[..SHOWN_CHARACTERS].to_owned()
}

fn media_type(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    let name = path.rsplit('/').next().unwrap_or_default();
    let unknown = || if name.contains('.') { UNKNOWN_TYPE } else { PAGE_TYPE };
    file_type(name).unwrap_or_else(|| unknown().to_owned())
}

#[cfg(test)]
mod tests;

//! The pages of a site in place of the built-in error pages.
//!
//! The pages are copied when an archive is opened: an error is often met when little else works,
//! and its page must cost neither a lookup nor memory then. A damaged page is left out, and the
//! built-in page is sent.

use crate::archive::{Archive, Scratch};
use crate::digest::{Digest, ETag};
use crate::entry::EntryKind;
use crate::layout::ERROR_PREFIX;
use crate::limits::ERROR_PAGE_MAX_BYTES;
use crate::shared_blocks::{SharedBlock, SharedId};

/// Statuses that a page may have.
pub(crate) const STATUSES: core::ops::RangeInclusive<u16> = 400..=599;

/// All of a site, by rising status.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorPages {
    pages: Vec<LoadedErrorPages>,
}

#[derive(Clone, Debug)]
struct LoadedErrorPages {
    status: u16,
    shared: SharedId,
    body: Box<[u8]>,
}

/// The page of a status.
#[derive(Clone, Copy, Debug)]
pub struct ErrorPage<'a> {
    /// The fields, `Content-Type` among them.
    pub shared: SharedBlock<'a>,
    /// The content.
    pub body: &'a [u8],
}

/// Returns the key of the page of a status.
pub(crate) fn key(status: u16) -> Vec<u8> {
    [ERROR_PREFIX, status.to_string().as_bytes()].concat()
}

impl ErrorPages {
    /// Reads the pages that are sound.
    pub(crate) fn load(archive: &Archive<'_>) -> ErrorPages {
        let mut scratch = Scratch::new();
        ErrorPages {
            pages: STATUSES
                .filter_map(|s| LoadedErrorPages::new(archive, s, &mut scratch))
                .collect(),
        }
    }

    /// Returns the page of a status, and the block of its fields.
    pub(crate) fn of(&self, status: u16) -> Option<(SharedId, &[u8])> {
        let index = self.pages.binary_search_by_key(&status, |page| page.status).ok()?;
        self.pages.get(index).map(|page| (page.shared, &*page.body))
    }
}

impl LoadedErrorPages {
    fn new(archive: &Archive<'_>, status: u16, scratch: &mut Scratch) -> Option<LoadedErrorPages> {
        let entry = archive.find(&key(status), scratch).ok()??;
        let form = entry.representation(0)?;
        if entry.kind() != EntryKind::Resource
            || entry.status() != status
            || form.bytes() > ERROR_PAGE_MAX_BYTES
        {
            return None;
        }
        let shared = archive.shared(form.shared()).ok()?;
        let body: Box<[u8]> = archive.body(&form).ok()??.into();
        // The tag is made of the digest of the body.
        let tag = ETag::of(&Digest::of(&body), shared.media_type(), form.coding());
        (tag.0.as_slice() == form.etag()).then_some(LoadedErrorPages {
            status,
            shared: form.shared(),
            body,
        })
    }
}

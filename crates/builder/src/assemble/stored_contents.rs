//! The contents of an archive that is being written, and the bodies they are stored in.
//!
//! A large site has millions of them. They are numbers beside each other, some 60 bytes for a
//! content with two codings; the archive's writer knows the meaning of each number.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use pinion_archive::{BodyRef, Digest, WriteError};
use pinion_http::content_coding::Coding;

use crate::coding_rules::CodingListId;

/// The number of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ContentId(u32);

impl ContentId {
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }
}

/// A content in a coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentForm {
    pub(crate) coding: Coding,
    pub(crate) body: BodyRef,
}

/// All contents, and the bodies of each.
#[derive(Default)]
pub(crate) struct StoredContents {
    /// Each content as it is.
    plain: Vec<BodyRef>,
    /// Contents, found by that body.
    by_body: HashTable<ContentId>,
    hasher: RandomState,
    /// Contents that stayed outside, by the digests that stand for them.
    external: HashMap<Digest, ContentId>,
    /// The results of the first list of codings that each content was tried in.
    lists: Vec<Option<(CodingListId, FormSpan)>>,
    /// The results of further lists of a content: hardly ever are there any.
    more: HashMap<(ContentId, CodingListId), FormSpan>,
    forms: Vec<ContentForm>,
}

/// A part of all forms.
#[derive(Clone, Copy)]
struct FormSpan {
    start: u32,
    count: u8,
}

impl StoredContents {
    /// Returns the content that is stored as `body`, or that stayed outside and has the digest
    /// `state`.
    pub(crate) fn find(&self, body: Option<BodyRef>, state: &Digest) -> Option<ContentId> {
        let Some(body) = body else { return self.external.get(state).copied() };
        let is_match = |content: &ContentId| self.body(*content) == Some(body);
        self.by_body.find(self.hasher.hash_one(body), is_match).copied()
    }

    /// Adds a new content, as it is. `state` stands for one that stayed outside.
    pub(crate) fn add(&mut self, body: BodyRef, state: Digest) -> Result<ContentId, WriteError> {
        let number = u32::try_from(self.plain.len()).map_err(|_| WriteError::TooLarge)?;
        let content = ContentId(number);
        self.plain.push(body);
        self.lists.push(None);
        if body.external().is_some() {
            self.external.insert(state, content);
        } else {
            let (plain, hasher) = (&self.plain, &self.hasher);
            let hash = |content: &ContentId| {
                plain.get(content.0 as usize).map_or(0, |body| hasher.hash_one(body))
            };
            self.by_body.insert_unique(hash(&content), content, hash);
        }
        Ok(content)
    }

    /// Returns the content as it is.
    pub(crate) fn body(&self, content: ContentId) -> Option<BodyRef> {
        self.plain.get(content.0 as usize).copied()
    }

    /// Returns the results of the codings of a list; `None` when they were not tried yet.
    pub(crate) fn forms(&self, content: ContentId, list: CodingListId) -> Option<&[ContentForm]> {
        let first = self.lists.get(content.0 as usize).copied().flatten();
        let span = match first {
            Some((known, span)) if known == list => span,
            _ => *self.more.get(&(content, list))?,
        };
        let start = span.start as usize;
        self.forms.get(start..start + usize::from(span.count))
    }

    /// Records the results of the codings of a list.
    pub(crate) fn add_forms(
        &mut self,
        content: ContentId,
        list: CodingListId,
        forms: &[ContentForm],
    ) -> Result<(), WriteError> {
        let start = u32::try_from(self.forms.len()).map_err(|_| WriteError::TooLarge)?;
        let count = u8::try_from(forms.len()).map_err(|_| WriteError::TooLarge)?;
        self.forms.extend_from_slice(forms);
        let span = FormSpan { start, count };
        match self.lists.get_mut(content.0 as usize) {
            Some(first @ None) => *first = Some((list, span)),
            _ => drop(self.more.insert((content, list), span)),
        }
        Ok(())
    }
}

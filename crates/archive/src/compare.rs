//! The differences between the responses of two archives, path by path. Each path of one is looked
//! up in the other, so the memory this takes does not depend on how many there are; and contents
//! are compared by their digests, so no body is read.

use pinion_http::content_coding::Coding;

use crate::archive::{Archive, Scratch};
use crate::body_digests::BodyDigests;
use crate::damage::Damage;
use crate::digest::Digest;
use crate::entry::{Entry, Representation};
use crate::shared_blocks::SharedId;

/// Two archives, the older one first.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    before: ComparedArchive<'a>,
    after: ComparedArchive<'a>,
}

/// A path with different responses.
#[derive(Clone, Copy, Debug)]
pub struct PathChange<'s> {
    /// The entry in the older archive; none if the path is new.
    pub before: Option<Entry<'s>>,
    /// The entry in the newer archive; none if the path is gone.
    pub after: Option<Entry<'s>>,
    /// The differences of the two; all false if one of them is missing.
    pub aspects: Aspects,
}

/// The parts in which two entries of one path can differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aspects {
    /// The kind of the entry.
    pub kind: bool,
    /// The status.
    pub status: bool,
    /// `Content-Location`, `Location`, or where a rewrite leads.
    pub target: bool,
    /// Whether the query is carried over.
    pub query: bool,
    /// The time of modification.
    pub modified: bool,
    /// The bytes of the content.
    pub content: bool,
    /// Which codings there are, or the stored bytes of one while the content is the same.
    pub codings: bool,
    /// The fields that many representations have in common, the media type among them.
    pub fields: bool,
}

/// The reason why a comparison ended early.
#[derive(Debug)]
pub enum CompareError<E> {
    /// The older archive is damaged.
    Before(Damage),
    /// The newer archive is damaged.
    After(Damage),
    /// The visitor has ended the comparison with this error.
    Visitor(E),
}

/// The buffers that the two entries of a path are copied to; kept between lookups.
#[derive(Debug, Default)]
pub struct Pair {
    before: Scratch,
    after: Scratch,
}

/// Damage, and which archive it is in.
enum Damaged {
    Before(Damage),
    After(Damage),
}

impl<E> From<Damaged> for CompareError<E> {
    fn from(damaged: Damaged) -> CompareError<E> {
        match damaged {
            Damaged::Before(damage) => CompareError::Before(damage),
            Damaged::After(damage) => CompareError::After(damage),
        }
    }
}

/// One archive of the two.
#[derive(Clone, Copy, Debug)]
struct ComparedArchive<'a> {
    archive: Archive<'a>,
    digests: BodyDigests<'a>,
}

impl Aspects {
    /// Returns whether there is any difference.
    pub fn any(&self) -> bool {
        *self != Aspects::default()
    }

    /// Returns whether the time of modification is the only difference.
    pub fn only_modified(&self) -> bool {
        *self == Aspects { modified: true, ..Aspects::default() }
    }
}

impl<'s> PathChange<'s> {
    /// Returns the entry itself, the newer one if there are two.
    pub fn entry(&self) -> Option<Entry<'s>> {
        self.after.or(self.before)
    }
}

impl<'a> Comparison<'a> {
    /// Reads the digests of both.
    ///
    /// # Errors
    /// Damage of a digests section.
    pub fn new<E>(
        before: Archive<'a>,
        after: Archive<'a>,
    ) -> Result<Comparison<'a>, CompareError<E>> {
        let before = ComparedArchive::new(before).map_err(Damaged::Before)?;
        let after = ComparedArchive::new(after).map_err(Damaged::After)?;
        Ok(Comparison { before, after })
    }

    /// Calls `visit` for each difference: first for the paths of the newer archive in their order
    /// there, then for those that only the older one has. Returns the number of equal paths.
    ///
    /// # Errors
    /// The first damage, or the error of `visit`.
    pub fn changes<E>(
        &self,
        mut visit: impl FnMut(&PathChange<'_>) -> Result<(), E>,
    ) -> Result<u64, CompareError<E>> {
        let (mut equal, mut scratch) = (0, Scratch::new());
        let mut entries = self.after.archive.entries();
        while let Some(after) = entries.next_entry().map_err(Damaged::After)? {
            let found = self.before.archive.find(after.path(), &mut scratch);
            match self.change(found.map_err(Damaged::Before)?, Some(after))? {
                Some(change) => visit(&change).map_err(CompareError::Visitor)?,
                None => equal += 1,
            }
        }
        let mut entries = self.before.archive.entries();
        while let Some(before) = entries.next_entry().map_err(Damaged::Before)? {
            let found = self.after.archive.load(before.path(), &mut scratch);
            if !found.map_err(Damaged::After)? {
                let gone =
                    PathChange { before: Some(before), after: None, aspects: Aspects::default() };
                visit(&gone).map_err(CompareError::Visitor)?;
            }
        }
        Ok(equal)
    }

    /// Returns the difference at one path; `None` if both respond to it alike, or neither does.
    ///
    /// # Errors
    /// Damage that was met.
    pub fn at<'s, E>(
        &self,
        key: &[u8],
        pair: &'s mut Pair,
    ) -> Result<Option<PathChange<'s>>, CompareError<E>> {
        let Pair { before, after } = pair;
        let before = self.before.archive.find(key, before).map_err(Damaged::Before)?;
        let after = self.after.archive.find(key, after).map_err(Damaged::After)?;
        Ok(self.change(before, after)?)
    }

    fn change<'s>(
        &self,
        before: Option<Entry<'s>>,
        after: Option<Entry<'s>>,
    ) -> Result<Option<PathChange<'s>>, Damaged> {
        let (Some(old), Some(new)) = (before, after) else {
            let change = PathChange { before, after, aspects: Aspects::default() };
            return Ok(Some(change).filter(|change| change.entry().is_some()));
        };
        let content = self.content(&old, &new)?;
        let aspects = Aspects {
            kind: old.kind() != new.kind(),
            status: old.status() != new.status(),
            target: old.target() != new.target(),
            query: old.keeps_query() != new.keeps_query(),
            modified: old.modified() != new.modified(),
            content,
            codings: self.codings(&old, &new, content)?,
            fields: self.fields(&old, &new)?,
        };
        Ok(Some(PathChange { before, after, aspects }).filter(|_| aspects.any()))
    }

    /// Returns whether the identities differ.
    fn content(&self, old: &Entry<'_>, new: &Entry<'_>) -> Result<bool, Damaged> {
        match (old.representation(0), new.representation(0)) {
            (Some(old), Some(new)) => self.stored(&old, &new),
            (None, None) => Ok(false),
            _ => Ok(true),
        }
    }

    fn codings(
        &self,
        old: &Entry<'_>,
        new: &Entry<'_>,
        other_content: bool,
    ) -> Result<bool, Damaged> {
        let (old, new) = (old.representations(), new.representations());
        let codings = |form: Representation<'_>| form.coding();
        if !old.clone().map(codings).eq(new.clone().map(codings)) {
            return Ok(true);
        }
        for (old, new) in old.zip(new).filter(|(old, _)| old.coding() != Coding::Identity) {
            if !other_content && self.stored(&old, &new)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether the stored bytes differ.
    fn stored(&self, old: &Representation<'_>, new: &Representation<'_>) -> Result<bool, Damaged> {
        if old.bytes() != new.bytes() {
            return Ok(true);
        }
        let old = self.before.digest(old).map_err(Damaged::Before)?;
        Ok(old != self.after.digest(new).map_err(Damaged::After)?)
    }

    /// Returns whether the shared blocks differ: those of the entries, and of the codings both
    /// have.
    fn fields(&self, old: &Entry<'_>, new: &Entry<'_>) -> Result<bool, Damaged> {
        if self.blocks(old.shared(), new.shared())? {
            return Ok(true);
        }
        for old in old.representations() {
            let mut same = new.representations().filter(|new| new.coding() == old.coding());
            if let Some(new) = same.next()
                && self.blocks(Some(old.shared()), Some(new.shared()))?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether two shared blocks differ.
    fn blocks(&self, old: Option<SharedId>, new: Option<SharedId>) -> Result<bool, Damaged> {
        let old = self.before.block(old).map_err(Damaged::Before)?;
        Ok(old != self.after.block(new).map_err(Damaged::After)?)
    }
}

impl<'a> ComparedArchive<'a> {
    fn new(archive: Archive<'a>) -> Result<ComparedArchive<'a>, Damage> {
        Ok(ComparedArchive { archive, digests: archive.digests()? })
    }

    /// Returns the lines of a block, in its full form and that of a 304.
    fn block(&self, id: Option<SharedId>) -> Result<Option<[&'a [u8]; 2]>, Damage> {
        let block = id.map(|id| self.archive.shared(id)).transpose()?;
        Ok(block.map(|block| [block.full, block.not_modified]))
    }

    fn digest(&self, form: &Representation<'_>) -> Result<Option<Digest>, Damage> {
        self.digests.of(&self.archive, form)
    }
}

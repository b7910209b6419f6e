//! What one worker does with one file: read it, name its type, encode it unless the same content
//! is being encoded already.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pinion_archive::Digest;
use pinion_archive::layout::MAGIC;

use crate::encode::{Encoded, Encoders};
use crate::error::Reason;
use crate::limits::{HELD_MAX_BYTES, SNIFF_BYTES};
use crate::media::{self, MediaType, Utf8Check};
use crate::options::Options;
use crate::report::assets::assets;
use crate::source::{Source, Stamp};
use crate::walk::{SourceFile, relative};

/// What all workers know.
pub(crate) struct Work<'a> {
    pub(crate) source: &'a Path,
    pub(crate) options: &'a Options,
    /// The build will fail: files are still read, to name every one that cannot be, but that is
    /// all.
    pub(crate) lost: AtomicBool,
    claims: Claims,
}

/// A file that was read.
pub(crate) struct Product {
    pub(crate) media: MediaType,
    /// Whether it begins as an archive does.
    pub(crate) archive: bool,
    /// Of the content.
    pub(crate) digest: Digest,
    pub(crate) stamp: Stamp,
    pub(crate) body: Body,
    pub(crate) codings: Codings,
    /// Time spent on the codings.
    pub(crate) encoding: Duration,
    /// For a report: what a page loads.
    pub(crate) assets: Vec<Box<[u8]>>,
}

/// Where the content is.
pub(crate) enum Body {
    Held(Vec<u8>),
    /// To be copied into the archive, positioned anywhere.
    Streamed(Source),
    /// To stay where it is.
    External(Source),
}

/// The content's codings.
pub(crate) enum Codings {
    /// None, because of its type or size.
    Untried,
    /// Those worth keeping.
    Tried(Vec<Encoded>),
    /// An earlier file with this content has them.
    Earlier,
}

impl<'a> Work<'a> {
    pub(crate) fn new(source: &'a Path, options: &'a Options, lost: bool) -> Work<'a> {
        Work { source, options, lost: AtomicBool::new(lost), claims: Claims::default() }
    }

    /// Memory that the file will need.
    pub(crate) fn cost(&self, file: &SourceFile) -> u64 {
        if self.is_external(file.bytes) || file.bytes > HELD_MAX_BYTES {
            return crate::limits::STREAMED_COST_BYTES;
        }
        file.bytes * (1 + self.options.codings.len() as u64)
    }

    /// Reads file number `rank` of the list; `None` when the build is lost anyway.
    pub(crate) fn file(
        &self,
        encoders: &mut Encoders,
        rank: usize,
        file: &SourceFile,
    ) -> Result<Option<Product>, Reason> {
        let result = self.product(encoders, rank, file);
        if result.is_err() && !self.options.keep_going {
            self.lost.store(true, Ordering::Relaxed);
        }
        result
    }

    fn product(
        &self,
        encoders: &mut Encoders,
        rank: usize,
        file: &SourceFile,
    ) -> Result<Option<Product>, Reason> {
        let source = Source::open(&self.source.join(relative(&file.key)))?;
        let stamp = source.stamp();
        if self.is_external(stamp.bytes) {
            return self.unless_lost(|| external(source, &file.key));
        }
        if stamp.bytes > HELD_MAX_BYTES {
            return self.unless_lost(|| streamed(source, &file.key));
        }
        if self.cost(file) < stamp.bytes {
            // It has outgrown the memory that was reserved for it.
            return Err(Reason::Changed);
        }
        let content = source.read()?;
        self.unless_lost(|| Ok(self.held(encoders, rank, &file.key, stamp, content)))
    }

    fn held(
        &self,
        encoders: &mut Encoders,
        rank: usize,
        key: &[u8],
        stamp: Stamp,
        content: Vec<u8>,
    ) -> Product {
        let media = MediaType::of(key, &content);
        let archive = content.starts_with(&MAGIC);
        let digest = Digest::of(&content);
        let begin = Instant::now();
        let codings = if media::is_packed(media.essence) {
            Codings::Untried
        } else if self.claims.claim(digest, rank) {
            Codings::Tried(encoders.encode(&content))
        } else {
            Codings::Earlier
        };
        let encoding = begin.elapsed();
        let assets = match self.options.report && media.essence == "text/html" {
            true => assets(key, &content),
            false => Vec::new(),
        };
        let body = Body::Held(content);
        Product { media, archive, digest, stamp, body, codings, encoding, assets }
    }

    fn is_external(&self, bytes: u64) -> bool {
        self.options.external_min_bytes.is_some_and(|least| bytes > least)
    }

    fn unless_lost(
        &self,
        make: impl FnOnce() -> Result<Product, Reason>,
    ) -> Result<Option<Product>, Reason> {
        if self.lost.load(Ordering::Relaxed) { Ok(None) } else { make().map(Some) }
    }
}

/// A file too large to be held: read once for its digest now, once more when it is stored.
fn streamed(mut source: Source, key: &[u8]) -> Result<Product, Reason> {
    let (essence, archive) = first_look(&mut source, key)?;
    let (mut hasher, mut utf8) = (blake3::Hasher::new(), Utf8Check::default());
    source.pieces(|piece| {
        hasher.update(piece);
        utf8.update(piece);
    })?;
    Ok(Product {
        media: MediaType { essence, utf8: media::has_charset(essence) && utf8.finish() },
        archive,
        digest: Digest(*hasher.finalize().as_bytes()),
        stamp: source.stamp(),
        body: Body::Streamed(source),
        codings: Codings::Untried,
        encoding: Duration::ZERO,
        assets: Vec::new(),
    })
}

/// A file that stays where it is: read only if its type depends on all of its content.
fn external(mut source: Source, key: &[u8]) -> Result<Product, Reason> {
    let (essence, archive) = first_look(&mut source, key)?;
    source.check_end()?;
    let utf8 = media::has_charset(essence) && {
        let mut utf8 = Utf8Check::default();
        source.pieces(|piece| utf8.update(piece))?;
        utf8.finish()
    };
    Ok(Product {
        media: MediaType { essence, utf8 },
        archive,
        digest: source.digest_of_state()?,
        stamp: source.stamp(),
        body: Body::External(source),
        codings: Codings::Untried,
        encoding: Duration::ZERO,
        assets: Vec::new(),
    })
}

/// What the first bytes of a file tell: its type, and whether it is an archive.
fn first_look(source: &mut Source, key: &[u8]) -> Result<(&'static str, bool), Reason> {
    let mut head = Vec::new();
    source.head(&mut head, SNIFF_BYTES)?;
    Ok((media::essence(key, &head), head.starts_with(&MAGIC)))
}

/// Which file encodes a content that several files have: the first of the list. When a later one
/// came first, both do; that is rare, and the result is the same.
#[derive(Default)]
struct Claims(Mutex<HashMap<Digest, usize>>);

impl Claims {
    /// Whether file number `rank` has to encode this content. If not, an earlier file does.
    fn claim(&self, digest: Digest, rank: usize) -> bool {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holder = claims.entry(digest).or_insert(rank);
        let claimed = rank <= *holder;
        *holder = rank.min(*holder);
        claimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_list_encodes() {
        let claims = Claims::default();
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        assert!(claims.claim(a, 5));
        assert!(!claims.claim(a, 6));
        assert!(claims.claim(a, 2));
        assert!(!claims.claim(a, 3));
        assert!(claims.claim(b, 9));
    }
}

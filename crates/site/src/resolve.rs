//! Which entry a path gets. First match wins: the entry of the path itself (the build has made
//! entries for index files and clean URLs), the other slash form, the nearest not-found page.

use pinion_archive::{Archive, Damage, EntryKind, Scratch};
use pinion_http::target::{PathError, Target};

use crate::location;
use crate::work::Work;

/// What was found, and where it is in the [`Work`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A resource; its entry is in `scratch`.
    Resource,
    /// A redirect; its entry is in `scratch`.
    Redirect,
    /// Only the other slash form exists; its location is in `text`.
    SlashRedirect,
    /// A not-found page; its entry is in `scratch`.
    NotFoundPage,
    /// A built-in page.
    Error(u16),
}

/// Looks the path of a target up.
pub(crate) fn resolve(
    archive: &Archive<'_>,
    target: &Target<'_>,
    work: &mut Work,
) -> Result<Outcome, Damage> {
    let Work { path: buffer, key, scratch, text, .. } = work;
    let path = match target.decoded_path(buffer) {
        Ok(path) => path,
        Err(PathError::NeverMatches) => return not_found(archive, buffer, scratch),
        Err(error) => return Ok(Outcome::Error(error.status())),
    };
    if archive.load(path, scratch)? {
        let Some(entry) = scratch.entry() else { return Ok(Outcome::Error(500)) };
        return match entry.kind() {
            EntryKind::Resource => Ok(Outcome::Resource),
            EntryKind::Redirect => Ok(Outcome::Redirect),
            EntryKind::Private => not_found(archive, path, scratch),
            EntryKind::Rewrite => {
                key.clear();
                key.extend_from_slice(entry.target().unwrap_or_default());
                rewritten(archive, key, scratch)
            }
            EntryKind::Handler | EntryKind::Unknown(_) => Ok(Outcome::Error(500)),
        };
    }
    let other: &[u8] = match path {
        // An empty segment at the end is a segment, not the slash of another form.
        [b'/'] | [.., b'/', b'/'] => return not_found(archive, path, scratch),
        [without @ .., b'/'] => without,
        _ => {
            key.clear();
            key.extend_from_slice(path);
            key.push(b'/');
            key
        }
    };
    if archive.load(other, scratch)? {
        let kind = scratch.entry().map(|entry| entry.kind());
        if kind != Some(EntryKind::Private) && location::write_path(text, other) {
            return Ok(Outcome::SlashRedirect);
        }
    }
    not_found(archive, path, scratch)
}

fn not_found(archive: &Archive<'_>, path: &[u8], scratch: &mut Scratch) -> Result<Outcome, Damage> {
    let found = archive.load_fallback(path, scratch)?;
    Ok(if found { Outcome::NotFoundPage } else { Outcome::Error(404) })
}

/// The entry a rewrite leads to: a resource; there are no chains.
fn rewritten(archive: &Archive<'_>, key: &[u8], scratch: &mut Scratch) -> Result<Outcome, Damage> {
    let found = archive.load(key, scratch)?;
    let kind = scratch.entry().map(|entry| entry.kind());
    let resource = found && kind == Some(EntryKind::Resource);
    Ok(if resource { Outcome::Resource } else { Outcome::Error(500) })
}

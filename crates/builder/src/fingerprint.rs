//! Finds the files whose names change with their content, so that a client may store the file of a
//! name for any time (RFC 8246).
//!
//! Build tools put a hash of the content into the name: `app.3f2a9c1b.js`, `index-Bq3xK9zQ.css`.
//! A name that is wrongly taken for such a name keeps an old file in caches for a year, and nothing
//! can undo that. A name that is wrongly not taken for one costs a revalidation. So the decision
//! needs evidence, and one name alone is none: `hero-iPhone15.png` looks like a name with a hash.
//!
//! | Evidence | Module |
//! |---|---|
//! | the name has 16 or more hexadecimal digits in a row | [`hash_candidates`] |
//! | a part of the name is the beginning of a digest of the content | [`content_digest`] |
//! | most files of the folder have a random part of one length in one position | [`name_group`] |
//! | the folder is an output folder of a known tool | [`build_tools`] |
//! | `--immutable` names the file | here |

mod build_tools;
mod content_digest;
mod hash_candidates;
mod name_group;
mod word_or_hash;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::walk::name_globs::Globs;
use hash_candidates::{has_long_hash, parts, stem_of};
use name_group::{FileGroup, NameForm};

pub(crate) use content_digest::{is_named_by_content, may_be_named_by_content};
pub(crate) use hash_candidates::is_asset;

/// A file that may have a fingerprint in its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedFile<'a> {
    /// Its path below the source with a slash in front.
    pub(crate) key: &'a [u8],
    /// Its media type without parameters.
    pub(crate) essence: &'a str,
}

/// A file whose type is one that build tools give a hash.
#[derive(Clone, Copy)]
struct Asset<'a> {
    key: &'a [u8],
    /// Its number among all files.
    number: u32,
    is_image: bool,
}

impl<'a> Asset<'a> {
    fn name(&self) -> &'a [u8] {
        split_name(self.key).1
    }
}

/// Decides for each of all files of a site whether its name changes with its content, as far as the
/// names show: a name that is proven [by the content](is_named_by_content) is one as well. The
/// files may come in any order; there are at most [`FILES_MAX`](crate::limits::FILES_MAX).
pub(crate) fn decide<'a>(
    files: impl IntoIterator<Item = NamedFile<'a>>,
    immutable: &Globs,
) -> Vec<bool> {
    let (mut decided, mut assets) = (Vec::new(), Vec::new());
    for NamedFile { key, essence } in files {
        let (number, is_image) = (decided.len() as u32, essence.starts_with("image/"));
        let asset = Asset { key, number, is_image };
        let stem = is_asset(asset.name(), essence).then(|| stem_of(asset.name(), is_image));
        assets.extend(stem.is_some().then_some(asset));
        let has_long_hash = stem.flatten().is_some_and(has_long_hash);
        decided.push(immutable.is_match(key) || has_long_hash);
    }
    let mut folders: HashMap<&[u8], Vec<Asset<'a>>> = HashMap::new();
    for asset in &assets {
        folders.entry(split_name(asset.key).0).or_default().push(*asset);
    }
    let witnessed = build_tools::witnessed(&assets);
    drop(assets);
    for (folder, assets) in folders {
        decide_folder(folder, &assets, &witnessed, &mut decided);
    }
    decided
}

/// Decides for the assets of one folder, as far as it is not decided for each alone.
fn decide_folder(
    folder: &[u8],
    assets: &[Asset<'_>],
    witnessed: &build_tools::Witnessed<'_>,
    decided: &mut [bool],
) {
    let mut groups: HashMap<NameForm, FileGroup<'_>> = HashMap::new();
    let mut all = 0;
    for asset in assets {
        let Some(stem) = stem_of(asset.name(), asset.is_image) else { continue };
        // A source map counts only together with its file.
        let is_map = asset.name().ends_with(b".map");
        all += usize::from(!is_map);
        let has_width = asset.is_image && stem_of(asset.name(), false) != Some(stem);
        for (form, part) in parts(stem, has_width) {
            groups.entry(form).or_default().add(asset.number, part, form.alphabet, is_map);
        }
    }
    for (form, group) in groups {
        let is_of_tool = || witnessed.covers(folder, form);
        let has_evidence =
            form.is_evidence() && group.is_most_of(all) && group.is_random(form.alphabet);
        if !(has_evidence || is_of_tool()) {
            continue;
        }
        for number in group.accepted() {
            if let Some(decided) = decided.get_mut(number as usize) {
                *decided = true;
            }
        }
    }
}

/// Returns the folder of a key, with the slash at its end, and the name in it.
pub(crate) fn split_name(key: &[u8]) -> (&[u8], &[u8]) {
    let at = key.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    key.split_at(at)
}

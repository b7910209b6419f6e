//! Output folders of build tools that write few files with hashes, or many without beside them.
//!
//! A tool is known by two files that only it writes in such folders. Some tools have a folder whose
//! name is theirs alone.

use std::collections::HashMap;

use super::name_group::{Alphabet, NameForm};
use super::word_or_hash::{PartKind, classify};
use super::{Asset, split_name};

/// A tool and where it writes names with hashes.
struct BuildTool {
    /// Two files that show that the tool has written the folder above them.
    witnesses: [Witness; 2],
    form: NameForm,
    /// Folders below the same one that hold names with hashes, with all folders in them.
    folders: &'static [&'static [u8]],
}

/// A file of a tool: its folder, and its name without the hash.
struct Witness {
    folder: &'static [u8],
    before: &'static [u8],
    behind: &'static [u8],
}

const fn witness(folder: &'static [u8], before: &'static [u8], behind: &'static [u8]) -> Witness {
    Witness { folder, before, behind }
}

/// Eight hexadecimal digits after a dot.
const DOT_HEX: NameForm =
    NameForm { alphabet: Alphabet::Hex, separator: b'.', bytes: 8, has_width: false };
/// Eight characters of base64url after a dash.
const DASH_BASE64: NameForm =
    NameForm { alphabet: Alphabet::Base64, separator: b'-', bytes: 8, has_width: false };

static TOOLS: [BuildTool; 5] = [
    // Material for MkDocs.
    BuildTool {
        witnesses: [
            witness(b"assets/javascripts/", b"bundle.", b".min.js"),
            witness(b"assets/stylesheets/", b"main.", b".min.css"),
        ],
        form: DOT_HEX,
        folders: &[b"assets/javascripts/", b"assets/stylesheets/"],
    },
    // Vite.
    BuildTool {
        witnesses: [
            witness(b"assets/", b"index-", b".js"),
            witness(b"assets/", b"index-", b".css"),
        ],
        form: DASH_BASE64,
        folders: &[b"assets/"],
    },
    // Create React App.
    BuildTool {
        witnesses: [
            witness(b"static/js/", b"main.", b".js"),
            witness(b"static/css/", b"main.", b".css"),
        ],
        form: DOT_HEX,
        folders: &[b"static/"],
    },
    // Vue CLI.
    BuildTool {
        witnesses: [witness(b"js/", b"app.", b".js"), witness(b"css/", b"app.", b".css")],
        form: DOT_HEX,
        folders: &[b"css/", b"fonts/", b"img/", b"js/", b"media/"],
    },
    // Docusaurus.
    BuildTool {
        witnesses: [
            witness(b"assets/js/", b"main.", b".js"),
            witness(b"assets/css/", b"styles.", b".css"),
        ],
        form: DOT_HEX,
        folders: &[b"assets/"],
    },
];

/// Folders that only one tool writes: SvelteKit, Astro and Nuxt, which all bundle with Rollup.
const OWN_FOLDERS: [&[u8]; 3] = [b"/_app/immutable/", b"/_astro/", b"/_nuxt/"];

/// The tools that have written a site.
pub(super) struct Witnessed<'a> {
    /// Each tool and the folder that it has written to, with a slash at its end.
    known: Vec<(&'static BuildTool, &'a [u8])>,
}

/// Finds the tools that have written these files.
pub(super) fn witnessed<'a>(files: &[Asset<'a>]) -> Witnessed<'a> {
    let mut seen: HashMap<(usize, &'a [u8]), [bool; 2]> = HashMap::new();
    for file in files {
        let (folder, name) = split_name(file.key);
        for (number, tool) in TOOLS.iter().enumerate() {
            for (which, witness) in tool.witnesses.iter().enumerate() {
                let Some(root) = root_of(folder, witness.folder) else { continue };
                if is_witness(name, witness, tool.form) {
                    let seen = seen.entry((number, root)).or_default();
                    seen.get_mut(which).into_iter().for_each(|seen| *seen = true);
                }
            }
        }
    }
    let known = seen.into_iter().filter(|(_, seen)| *seen == [true, true]);
    let known = known.filter_map(|((tool, root), _)| Some((TOOLS.get(tool)?, root)));
    Witnessed { known: known.collect() }
}

impl Witnessed<'_> {
    /// Returns whether a tool writes names with a hash of this form to a folder.
    pub(super) fn covers(&self, folder: &[u8], form: NameForm) -> bool {
        let is_own = || {
            OWN_FOLDERS.iter().any(|own| memchr::memmem::find(folder, own).is_some())
                && (form.alphabet, form.bytes) == (Alphabet::Base64, 8)
        };
        let is_of = |tool: &BuildTool, root: &[u8]| {
            let below = folder.strip_prefix(root);
            tool.form == form
                && below.is_some_and(|below| tool.folders.iter().any(|of| below.starts_with(of)))
        };
        self.known.iter().any(|(tool, root)| is_of(tool, root)) || is_own()
    }
}

/// Returns the part above `inner` of a folder that ends with it.
fn root_of<'a>(folder: &'a [u8], inner: &[u8]) -> Option<&'a [u8]> {
    folder.strip_suffix(inner).filter(|root| root.ends_with(b"/"))
}

fn is_witness(name: &[u8], witness: &Witness, form: NameForm) -> bool {
    let hash = name.strip_prefix(witness.before).and_then(|rest| rest.strip_suffix(witness.behind));
    hash.is_some_and(|hash| {
        hash.len() == usize::from(form.bytes)
            && form.alphabet.has_all(hash)
            && classify(hash, form.alphabet) != PartKind::Word
    })
}

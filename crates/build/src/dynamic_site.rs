//! Recognizes a dynamic site by its folder, and the changes that this makes to its files.
//!
//! A walk lists the names in a folder; only then is it known whether there is code in it. In a
//! static site nothing here has any effect.
//!
//! | | In a dynamic site |
//! |---|---|
//! | `*.lua`, `*.dyn.*`, `*.priv.*` | code: kept, and never published |
//! | names with `.lua` or `.dyn.` in another place | copies of code: left out |
//! | folders `i.*` | ignored, with all that is in them |
//! | `static/` at the top of the content | plain files: those named as code are left out |
//! | `public_html/` at the top | the content; beside it only `*.lua` counts |
//!
//! In a site of 80s a file named as a page (`*.dyn.*`) below a folder `static/`, at any depth, is a
//! plain file.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinion_template::name::{MAIN, MAIN_BESIDE, route};

use crate::compat_80s::is_page_below_static;
use crate::error::FileProblem;
use crate::site_layout::SiteLayout;
use crate::walk::file_names::{is_code, is_copy_of_code, is_page, is_script, path_and_name};
use crate::walk::file_stamp::FileStamp;
use crate::walk::found_files::{FoundFiles, SourceFile, relative};
use crate::warning::Warning;

/// The folder at the top that, where there is one, holds the content of a dynamic site.
pub const CONTENT_FOLDER: &str = "public_html";

/// The prefix of the keys of the files in it.
const CONTENT_PREFIX: &[u8] = b"/public_html";

/// Folders whose names begin so, in any case, are ignored.
const IGNORED_PREFIX: &[u8] = b"i.";

/// The prefix of the keys of the files in the folder of the content that holds no code.
const STATIC_PREFIX: &[u8] = b"/static/";

/// A file of code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeFile {
    /// Its path in the archive.
    pub(crate) path: Box<[u8]>,
    /// Its key below the source.
    pub(crate) key: Box<[u8]>,
}

impl CodeFile {
    /// Returns where it lies, below the source.
    pub(crate) fn relative(&self) -> PathBuf {
        relative(&self.key)
    }
}

/// Returns whether a file of a dynamic site with this key, one of the content, is neither content
/// nor code.
pub(crate) fn is_left_out(key: &[u8]) -> bool {
    ignored_folder(key).is_some() || is_copy_of_code(name_of(key)) || is_code_among_files(key)
}

/// Returns whether a file lies, by its key in the content, where nothing is code, and is named as
/// code.
fn is_code_among_files(key: &[u8]) -> bool {
    key.starts_with(STATIC_PREFIX) && is_code(name_of(key))
}

/// Determines the kind of site that a walk has found. In a dynamic one the keys of files become
/// those of its content, and its code is set apart.
pub(crate) fn arrange(mut found: FoundFiles) -> FoundFiles {
    if found.is_80s {
        publish_below_static(&mut found);
    }
    let code = std::mem::take(&mut found.code);
    let has_folder = found.has_content_folder;
    let is_live = |key: &[u8]| is_page(name_of(key)) && !is_left_out(key);
    let makes_dynamic = |file: &CodeFile| {
        &*file.key == MAIN.as_bytes() || in_content(&file.key, has_folder).is_some_and(is_live)
    };
    if !code.iter().any(makes_dynamic) {
        return found;
    }
    found.code = code;
    found.is_dynamic = true;
    leave_out(&mut found);
    let is_file = |key: &[u8]| in_content(key, has_folder).is_some_and(is_code_among_files);
    found.code.retain(|file| !is_file(&file.key));
    if found.has_content_folder {
        enter_content(&mut found);
    }
    let kept: HashSet<PathBuf> = found.code.iter().map(CodeFile::relative).collect();
    found.special.retain(|path| !kept.contains(path));
    found.code.sort_unstable();
    found.special.sort_unstable();
    found.skipped.sort_unstable();
    found.skipped.dedup();
    found
}

/// Makes plain files of pages that are no code in a site of 80s.
fn publish_below_static(found: &mut FoundFiles) {
    let FoundFiles { files, stamps, special, code, problems, below_static, .. } = found;
    let mut all: Vec<(SourceFile, FileStamp)> = files.drain(..).zip(stamps.drain(..)).collect();
    let mut published = HashSet::new();
    for (key, stamp) in below_static.drain(..) {
        published.insert(relative(&key));
        match stamp {
            Ok(stamp) => all.push((SourceFile { key, bytes: stamp.bytes }, stamp)),
            Err(reason) => problems.push(FileProblem { path: relative(&key), reason }),
        }
    }
    all.sort_by(|(one, _), (next, _)| one.key.cmp(&next.key));
    (*files, *stamps) = all.into_iter().unzip();
    special.retain(|path| !published.contains(path));
    code.retain(|file| !published.contains(&file.relative()));
}

/// Leaves out ignored files, and copies of code.
fn leave_out(found: &mut FoundFiles) {
    let FoundFiles { skipped, special, is_80s, .. } = found;
    let is_80s = *is_80s;
    let mut stays = |key: &[u8]| {
        if let Some(folder) = ignored_folder(key) {
            skipped.push(relative(folder));
            return false;
        }
        let is_file = is_80s && is_page_below_static(key);
        let is_copy = is_copy_of_code(name_of(key)) && !is_file;
        if is_copy {
            special.push(relative(key));
        }
        !is_copy
    };
    retain_files(&mut found.files, &mut found.stamps, &mut stays);
    found.code.retain(|file| stays(&file.key));
    found.rules.retain(|key| stays(key));
    let is_ignored = |path: &Path| ignored_folder(&key_of(path)).is_some();
    found.special.retain(|path| !is_ignored(path));
    found.loops.retain(|path| !is_ignored(path));
    found.problems.retain(|problem| !is_ignored(&problem.path));
    found.skipped.retain(|path| !is_ignored(path));
}

/// Makes one folder the content, and excludes the files beside it.
fn enter_content(found: &mut FoundFiles) {
    let FoundFiles { files, stamps, skipped, rules, code, .. } = found;
    let mut stays = |key: &[u8]| {
        let is_content = below_content(key).is_some();
        if !is_content {
            skipped.push(relative(key));
        }
        is_content
    };
    retain_files(files, stamps, &mut stays);
    rules.retain(|key| stays(key));
    for file in files {
        if let Some(below) = below_content(&file.key) {
            file.key = below.into();
        }
    }
    for key in rules {
        if let Some(below) = below_content(key) {
            *key = below.into();
        }
    }
    code.retain_mut(|file| {
        file.path = match below_content(&file.key) {
            Some(below) => below.into(),
            None => [b"/", &*file.key].concat().into(),
        };
        below_content(&file.key).is_some() || is_script(name_of(&file.key))
    });
    found.loops.retain(|path| below_content(&key_of(path)).is_some());
    // A socket or a broken link beside the content does not matter; a folder that cannot be read
    // may have code in it.
    found.problems.retain(|problem| {
        below_content(&key_of(&problem.path)).is_some() || problem.reason.is_unreadable()
    });
    found.content = CONTENT_FOLDER;
}

/// Keeps files and their stamps together.
fn retain_files(
    files: &mut Vec<SourceFile>,
    stamps: &mut Vec<FileStamp>,
    stays: &mut impl FnMut(&[u8]) -> bool,
) {
    let kept: Vec<bool> = files.iter().map(|file| stays(&file.key)).collect();
    let mut of_files = kept.iter();
    files.retain(|_| of_files.next() == Some(&true));
    let mut of_stamps = kept.iter();
    stamps.retain(|_| of_stamps.next() == Some(&true));
}

/// Returns the layout of the folder that a walk has found.
pub(crate) fn layout(found: &FoundFiles) -> SiteLayout {
    match (found.is_dynamic, found.content.is_empty()) {
        (false, _) => SiteLayout::Static,
        (true, true) => SiteLayout::Dynamic,
        (true, false) => SiteLayout::DynamicBeside,
    }
}

/// Returns warnings for the author of a dynamic site about the names of its files.
pub(crate) fn doubts(found: &FoundFiles) -> Vec<Warning> {
    let mut doubts = below_static(found);
    if !found.is_dynamic {
        return doubts;
    }
    let content = |path: &Path| path.strip_prefix(found.content).map(key_of).ok();
    for path in &found.special {
        let Some(key) = content(path) else { continue };
        if is_page_below_static(&key) {
            continue;
        }
        if is_code_among_files(&key) {
            doubts.push(Warning::CodeAmongFiles(path.clone()));
        } else if is_copy_of_code(name_of(&key)) {
            doubts.push(Warning::CopyOfCode(path.clone()));
        }
    }
    let has_code = |path: &str| found.code.iter().any(|file| &*file.path == path.as_bytes());
    if has_code(MAIN_BESIDE) && has_code(MAIN) {
        doubts.push(Warning::SecondMain(Path::new(found.content).join("main.lua")));
    }
    for page in &found.code {
        if let Some(file) = behind_page(page, found) {
            doubts.push(Warning::BehindPage { file, page: page.relative() });
        }
    }
    doubts
}

/// Returns warnings about pages below a folder `static/`, which would be files in a site of 80s.
fn below_static(found: &FoundFiles) -> Vec<Warning> {
    let is_live = |path: &PathBuf| found.code.iter().any(|file| file.relative() == *path);
    let paths = found.below_static.iter().map(|(key, _)| relative(key));
    let is_ignored = |path: &PathBuf| {
        found.is_dynamic && ignored_folder(&key_of(path)).is_some()
            || !found.content.is_empty() && path.strip_prefix(found.content).is_err()
    };
    let doubt = |path: PathBuf| match is_live(&path) {
        true => Warning::PageBelowStatic(path),
        false => Warning::CodeAmongFiles(path),
    };
    paths.filter(|path| !is_ignored(path)).map(doubt).collect()
}

/// Returns the file with the same URL as a page, below the source.
fn behind_page(page: &CodeFile, found: &FoundFiles) -> Option<PathBuf> {
    let route = route(std::str::from_utf8(&page.path).ok()?).ok()??;
    let names: &[&str] = if route.path.ends_with('/') { &["index.html"] } else { &["", ".html"] };
    let mut keys = names.iter().map(|name| [route.path.as_bytes(), name.as_bytes()].concat());
    let has = |key: &Vec<u8>| found.files.binary_search_by(|file| (*file.key).cmp(key)).is_ok();
    let key = keys.find(has).filter(|_| route.method == "GET")?;
    Some(Path::new(found.content).join(relative(&key)))
}

/// Returns whether a key is that of the content folder.
pub(crate) fn is_content_folder(key: &[u8]) -> bool {
    key == CONTENT_PREFIX
}

/// Returns the key below the content folder, if it lies there.
pub(crate) fn below_content(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(CONTENT_PREFIX).filter(|below| below.first() == Some(&b'/'))
}

/// Returns the key in the content, which is all of the folder where there is none for it.
fn in_content(key: &[u8], has_folder: bool) -> Option<&[u8]> {
    if has_folder { below_content(key) } else { Some(key) }
}

/// Returns the outermost ignored folder that holds this key, or has it.
pub(crate) fn ignored_folder(key: &[u8]) -> Option<&[u8]> {
    let mut start = 0;
    while let Some(slash) = key.get(start..)?.iter().position(|&byte| byte == b'/') {
        let end = start + slash;
        let front = key.get(start..end)?.get(..IGNORED_PREFIX.len());
        if front.is_some_and(|front| front.eq_ignore_ascii_case(IGNORED_PREFIX)) {
            return key.get(..end);
        }
        start = end + 1;
    }
    None
}

fn name_of(key: &[u8]) -> &[u8] {
    path_and_name(key).1
}

pub(crate) fn key_of(path: &Path) -> Vec<u8> {
    [b"/", path.as_os_str().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::walk::file_names::is_code;

    /// As a walk finds them.
    fn found(files: &[&str]) -> FoundFiles {
        let mut found = FoundFiles::default();
        for file in files {
            let key: Box<[u8]> = format!("/{file}").into_bytes().into();
            found.has_content_folder |= below_content(&key).is_some();
            if is_code(name_of(&key)) {
                found.special.push(relative(&key));
                found.code.push(CodeFile { path: key.clone(), key });
            } else {
                found.files.push(SourceFile { key, bytes: 0 });
                found.stamps.push(FileStamp::default());
            }
        }
        found
    }

    fn keys(found: &FoundFiles) -> String {
        let text = |key: &[u8]| key.escape_ascii().to_string();
        let keys: Vec<_> = found.files.iter().map(|file| text(&file.key)).collect();
        keys.join(" ")
    }

    fn code(found: &FoundFiles) -> String {
        let text = |file: &CodeFile| file.path.escape_ascii().to_string();
        found.code.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_static_site_is_left_as_it_is() {
        for files in [
            &["i.d/a", "post.html", "public_html/x", "a.lua.bak"][..],
            &["a/main.lua", "x.lua", "x.priv.html"],
            &["i.d/a.dyn.html", "x"],
            &["public_html/x", "a.dyn.html"],
            &["static/a.dyn.html", "x"],
            &["public_html/static/a.dyn.html", "x"],
            &["a.dyn.html.gz", "x"],
        ] {
            let arranged = arrange(found(files));
            let plain: Vec<_> = files.iter().filter(|file| !is_code(file.as_bytes())).collect();
            assert_eq!(arranged.files.len(), plain.len(), "{files:?}");
            assert!(
                arranged.code.is_empty() && !arranged.is_dynamic && arranged.content.is_empty()
            );
            assert_eq!(arranged.special.len(), files.len() - plain.len(), "as before");
        }
    }

    #[test]
    fn code_is_set_apart() {
        let arranged = arrange(found(&[
            "a.dyn.html",
            "a/b.priv.txt",
            "a/i.d/c.lua",
            "i.d/x",
            "i.html",
            "I.big/x",
            "main.lua",
            "main.lua.gz",
            "static/x.dyn.html",
            "static/y.html",
            "post.html",
        ]));
        assert_eq!(keys(&arranged), "/i.html /static/y.html /post.html");
        assert_eq!(code(&arranged), "/a.dyn.html /a/b.priv.txt /main.lua");
        assert_eq!(arranged.skipped, [PathBuf::from("I.big"), "a/i.d".into(), "i.d".into()]);
        let special = ["main.lua.gz", "static/x.dyn.html"];
        assert_eq!(arranged.special, special.map(PathBuf::from));
        assert!(arranged.is_dynamic && arranged.content.is_empty());
    }

    #[test]
    fn the_content_folder_is_the_site() {
        let files = ["lib/db.lua", "lib/x.dyn.html", "main.lua", "notes.txt"];
        let inside = ["public_html/a.dyn.html", "public_html/index.html", "public_html/main.lua"];
        let arranged = arrange(found(&[&files[..], &inside].concat()));
        assert_eq!(keys(&arranged), "/index.html");
        assert_eq!(code(&arranged), "//lib/db.lua //main.lua /a.dyn.html /main.lua");
        assert_eq!(arranged.skipped, [PathBuf::from("notes.txt")]);
        assert_eq!(arranged.special, [PathBuf::from("lib/x.dyn.html")]);
        assert_eq!(arranged.content, CONTENT_FOLDER);
        assert_eq!(arranged.stamps.len(), 1);
    }

    #[test]
    fn names_that_mislead_are_told() {
        let files = ["about.dyn.html", "index.dyn.html", "main.lua", "post.x.dyn.html"];
        let plain = ["about.html", "index.html", "static/x.lua", "x.dyn.html.bak", "x.html"];
        let mut found = found(&[&files[..], &plain].concat());
        found.files.sort_by(|one, next| one.key.cmp(&next.key));
        let behind =
            |file: &str, page: &str| Warning::BehindPage { file: file.into(), page: page.into() };
        let expected = [
            Warning::CodeAmongFiles("static/x.lua".into()),
            Warning::CopyOfCode("x.dyn.html.bak".into()),
            behind("about.html", "about.dyn.html"),
            behind("index.html", "index.dyn.html"),
        ];
        assert_eq!(doubts(&arrange(found)), expected);
    }

    proptest! {
        /// No name that is one of code is ever published, and no file is both.
        #[test]
        fn nothing_is_published_that_is_code(
            files in prop::collection::btree_set(
                "((public_html|static|i\\.d|a|lib)/){0,2}\\
                 (main\\.lua|x\\.(dyn|priv|lua)\\.html|x\\.DYN\\.html\\.gz|x\\.lua|y\\.txt)",
                0..12,
            ),
        ) {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            let arranged = arrange(found(&files));
            prop_assert_eq!(arranged.files.len(), arranged.stamps.len());
            let is_dynamic = !arranged.code.is_empty();
            prop_assert_eq!(is_dynamic, arranged.is_dynamic);
            for file in &arranged.files {
                prop_assert!(!is_code(name_of(&file.key)));
                prop_assert!(!is_dynamic || !is_left_out(&file.key));
            }
            for file in &arranged.code {
                let lies = file.relative();
                prop_assert!(files.iter().any(|name| Path::new(name) == lies));
                prop_assert!(!arranged.special.contains(&lies));
                let is_beside = file.path.starts_with(b"//");
                prop_assert!(!is_beside || is_script(name_of(&file.path)));
            }
            prop_assert!(arranged.code.is_sorted_by(|one, next| one.path < next.path));
        }
    }
}

//! Arranges the files that a walk has found as the site has them: the keys of the content, and the
//! code set apart.
//!
//! A walk lists the names in a folder; only then is it known whether there is code in it. In a
//! static site nothing here has any effect.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use pinion_template::file_name::MAIN;

use crate::code_or_content::{
    CONTENT_FOLDER, CodeFile, below_content, ignored_folder, in_content, is_code_among_files,
    is_left_out, key_of, name_of,
};
use crate::error::{BuildError, FileProblem};
use crate::legacy_80s_server::{is_page_below_static, main_is_of_80s};
use crate::walk::file_kinds_by_name::{is_copy_of_code, is_page, is_script};
use crate::walk::found_files::{FoundFiles, SourceFile, relative};
use crate::walk::source_stamp::SourceStamp;

/// Arranges the files that a walk of the folder `source` has found. `is_80s` says that the site is
/// one of 80s, regardless of the modules that its main script loads.
///
/// # Errors
/// [`BuildError::ContentFolder`]: the name of the content folder is that of something else.
pub(crate) fn arrange(
    source: &Path,
    found: FoundFiles,
    is_80s: bool,
) -> Result<FoundFiles, BuildError> {
    let is_80s = is_80s || main_is_of_80s(source, &found);
    let mut found = set_code_apart(FoundFiles { is_80s, ..found });
    if found.is_dynamic && found.names_content_folder && !found.has_content_folder {
        return Err(BuildError::ContentFolder);
    }
    found.rules.sort_unstable();
    let FoundFiles { skipped, excluded, special, loops, .. } = &mut found;
    for paths in [skipped, excluded, special, loops] {
        paths.sort_unstable();
    }
    Ok(found)
}

/// Determines the kind of site that a walk has found. In a dynamic one the keys of files become
/// those of its content, and its code is set apart.
pub(crate) fn set_code_apart(mut found: FoundFiles) -> FoundFiles {
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
    let mut all: Vec<(SourceFile, SourceStamp)> = files.drain(..).zip(stamps.drain(..)).collect();
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
    stamps: &mut Vec<SourceStamp>,
    stays: &mut impl FnMut(&[u8]) -> bool,
) {
    let kept: Vec<bool> = files.iter().map(|file| stays(&file.key)).collect();
    let mut of_files = kept.iter();
    files.retain(|_| of_files.next() == Some(&true));
    let mut of_stamps = kept.iter();
    stamps.retain(|_| of_stamps.next() == Some(&true));
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::walk::file_kinds_by_name::is_code;

    /// Returns these files as a walk finds them.
    pub(crate) fn found(files: &[&str]) -> FoundFiles {
        let mut found = FoundFiles::default();
        for file in files {
            let key: Box<[u8]> = format!("/{file}").into_bytes().into();
            found.has_content_folder |= below_content(&key).is_some();
            if is_code(name_of(&key)) {
                found.special.push(relative(&key));
                found.code.push(CodeFile { path: key.clone(), key });
            } else {
                found.files.push(SourceFile { key, bytes: 0 });
                found.stamps.push(SourceStamp::default());
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
    fn a_static_site_is_unchanged() {
        for files in [
            &["i.d/a", "post.html", "public_html/x", "a.lua.bak"][..],
            &["a/main.lua", "x.lua", "x.priv.html"],
            &["i.d/a.dyn.html", "x"],
            &["public_html/x", "a.dyn.html"],
            &["static/a.dyn.html", "x"],
            &["public_html/static/a.dyn.html", "x"],
            &["a.dyn.html.gz", "x"],
        ] {
            let arranged = set_code_apart(found(files));
            let plain: Vec<_> = files.iter().filter(|file| !is_code(file.as_bytes())).collect();
            assert_eq!(arranged.files.len(), plain.len(), "{files:?}");
            assert!(
                arranged.code.is_empty() && !arranged.is_dynamic && arranged.content.is_empty()
            );
            assert_eq!(arranged.special.len(), files.len() - plain.len(), "as before");
        }
    }

    #[test]
    fn code_is_separated_from_published_files() {
        let arranged = set_code_apart(found(&[
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
    fn only_the_content_folder_is_published() {
        let files = ["lib/db.lua", "lib/x.dyn.html", "main.lua", "notes.txt"];
        let inside = ["public_html/a.dyn.html", "public_html/index.html", "public_html/main.lua"];
        let arranged = set_code_apart(found(&[&files[..], &inside].concat()));
        assert_eq!(keys(&arranged), "/index.html");
        assert_eq!(code(&arranged), "//lib/db.lua //main.lua /a.dyn.html /main.lua");
        assert_eq!(arranged.skipped, [PathBuf::from("notes.txt")]);
        assert_eq!(arranged.special, [PathBuf::from("lib/x.dyn.html")]);
        assert_eq!(arranged.content, CONTENT_FOLDER);
        assert_eq!(arranged.stamps.len(), 1);
    }

    proptest! {
        /// No name that is one of code is ever published, and no file is both.
        #[test]
        fn code_is_never_published(
            files in prop::collection::btree_set(
                "((public_html|static|i\\.d|a|lib)/){0,2}\\
                 (main\\.lua|x\\.(dyn|priv|lua)\\.html|x\\.DYN\\.html\\.gz|x\\.lua|y\\.txt)",
                0..12,
            ),
        ) {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            let arranged = set_code_apart(found(&files));
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

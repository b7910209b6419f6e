//! The layout with which a folder is served, which a running site must not lose unnoticed, and the
//! parts of the folder that the site depends on.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinion_template::file_name::{MAIN_BESIDE, main_script};

use crate::code_or_content::{
    below_content, ignored_folder, is_content_folder, is_left_out, key_of,
};
use crate::legacy_80s_server::is_page_below_static;
use crate::site_code::SiteCode;
use crate::walk::file_kinds_by_name::is_script;
use crate::walk::found_files::FoundFiles;
use crate::walk::name_filter::NameFilter;

/// The layout with which a folder is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SiteLayout {
    /// A static site.
    #[default]
    Static,
    /// A dynamic site: all of the folder is its content.
    Dynamic,
    /// A dynamic site that has a folder for its content.
    DynamicBeside,
}

impl SiteLayout {
    /// Returns the layout of the folder that a walk has found.
    pub(crate) fn of(found: &FoundFiles) -> Self {
        match (found.is_dynamic, found.content.is_empty()) {
            (false, _) => SiteLayout::Static,
            (true, true) => SiteLayout::Dynamic,
            (true, false) => SiteLayout::DynamicBeside,
        }
    }

    /// Returns whether there is code.
    #[must_use]
    pub fn is_dynamic(self) -> bool {
        self != SiteLayout::Static
    }

    /// Returns whether a site of the layout `before` may have this one without a decision of the
    /// operator. Otherwise files that were code, or lay beside the content, would be published.
    #[must_use]
    pub fn may_follow(self, before: SiteLayout) -> bool {
        match before {
            SiteLayout::Static => true,
            SiteLayout::Dynamic => self.is_dynamic(),
            SiteLayout::DynamicBeside => self == SiteLayout::DynamicBeside,
        }
    }
}

/// The place of the main script of a site, if it has one with anything in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MainScript {
    /// None.
    #[default]
    None,
    /// One among the content.
    Content,
    /// One beside it.
    Beside,
}

impl MainScript {
    /// Returns the main script among this code.
    pub(crate) fn of(code: &SiteCode) -> Self {
        match main_script(|path| code.get(path.as_bytes())) {
            Some((_, text)) if text.iter().all(u8::is_ascii_whitespace) => MainScript::None,
            Some((MAIN_BESIDE, _)) => MainScript::Beside,
            Some(_) => MainScript::Content,
            None => MainScript::None,
        }
    }
}

/// The properties that a site keeps for as long as it is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishGuard {
    /// Its layout.
    pub layout: SiteLayout,
    /// Its main script. Without it the site would lose its routes, and the checks that the script
    /// has put around its pages.
    pub main: MainScript,
}

impl PublishGuard {
    /// Returns whether a site that has these properties may have `now` without a decision of the
    /// operator.
    #[must_use]
    pub fn may_become(self, now: Self) -> bool {
        now.layout.may_follow(self.layout) && now.main >= self.main
    }
}

/// The paths that the walk of a build has met.
#[derive(Clone, Debug, Default)]
pub struct WalkedSite {
    /// Links, below the source, in no order. They were followed, apart from those that lead
    /// nowhere or to a folder above them.
    pub links: Vec<PathBuf>,
    /// The paths of the code, below the source, in no order.
    pub code: Vec<PathBuf>,
    /// The layout of the folder. It decides which paths [matter](NameFilter::may_matter_to) from
    /// now on.
    pub layout: SiteLayout,
}

impl NameFilter {
    /// Returns whether a build of a site of this layout depends on something at `path`, below the
    /// source: it can be part of the site, has rules, or is code. Beside the content of a dynamic
    /// site only scripts count, and folders, which may hold some: `is_folder` says whether that is
    /// one.
    pub fn may_matter_to(
        &self,
        layout: SiteLayout,
        path: &Path,
        is_folder: impl Fn() -> bool,
    ) -> bool {
        if !self.may_matter(path, layout.is_dynamic()) {
            return false;
        }
        let key = key_of(path);
        // Only with its slash does the name of a folder show that it is ignored.
        let is_ignored = ignored_folder(&[&*key, b"/"].concat()).is_some();
        if layout.is_dynamic() && is_ignored && is_folder() {
            return false;
        }
        match layout {
            SiteLayout::Static => true,
            // The main script decides whether that is code or a file.
            SiteLayout::Dynamic => !is_left_out(&key) || is_page_below_static(&key),
            SiteLayout::DynamicBeside => match below_content(&key) {
                Some(below) => !is_left_out(below) || is_page_below_static(below),
                None if path == Path::new("") || is_content_folder(&key) => true,
                None => {
                    let is_script = path.file_name().map(OsStr::as_bytes).is_some_and(is_script);
                    !is_left_out(&key) && (is_script || is_folder())
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_cannot_weaken_the_site_layout() {
        use SiteLayout::{Dynamic, DynamicBeside, Static};
        for (before, allowed) in [
            (Static, [true, true, true]),
            (Dynamic, [false, true, true]),
            (DynamicBeside, [false, false, true]),
        ] {
            let found = [Static, Dynamic, DynamicBeside].map(|now| now.may_follow(before));
            assert_eq!(found, allowed, "{before:?}");
        }
    }

    #[test]
    fn a_rebuild_cannot_lose_the_main_script() {
        let main = |code: &[(&str, &str)]| {
            MainScript::of(
                &code.iter().map(|(path, text)| (path.as_bytes().into(), (*text).into())).collect(),
            )
        };
        let (beside, content) = (("//main.lua", "x = 1"), ("/main.lua", "y = 2"));
        let mains = [
            (MainScript::None, main(&[("/x.dyn.html", "x"), ("//lib/main.lua", "z = 3")])),
            (MainScript::Content, main(&[content])),
            (MainScript::Beside, main(&[beside, content])),
        ];
        for (rank, (expected, found)) in mains.into_iter().enumerate() {
            assert_eq!(found, expected);
            let before = PublishGuard { layout: SiteLayout::Dynamic, main: found };
            for (other, (main, _)) in mains.into_iter().enumerate() {
                let now = PublishGuard { main, ..before };
                assert_eq!(before.may_become(now), other >= rank, "{before:?} to {now:?}");
            }
        }
        // An editor that is not through. The other one would not run.
        for code in [&[("/main.lua", "")][..], &[("//main.lua", " \n"), content]] {
            assert_eq!(main(code), MainScript::None, "{code:?}");
        }
    }

    #[test]
    fn changes_outside_a_dynamic_site_do_not_matter() {
        let names = NameFilter::new(&["drafts".to_owned()], &[]).unwrap();
        let matters = |layout, path: &str| {
            let is_folder = || path == "lib" || path.ends_with("i.d");
            names.may_matter_to(layout, Path::new(path), is_folder)
        };
        for (path, expected) in [
            ("", [true, true, true]),
            ("main.lua", [true, true, true]),
            ("main.lua.bak", [true, false, false]),
            ("I.d/x.html", [true, false, false]),
            ("i.html", [true, true, false]),
            ("public_html/i.d", [true, false, false]),
            ("a.html", [true, true, false]),
            ("data.db", [true, true, false]),
            ("lib", [true, true, true]),
            ("lib/x.lua", [false, true, true]),
            ("lib/x.dyn.html", [true, true, false]),
            ("_headers", [true, true, false]),
            ("public_html", [true, true, true]),
            ("public_html/a.html", [true, true, true]),
            ("public_html/i.d/a.html", [true, false, false]),
            ("public_html/a.dyn.html.bak", [false, false, false]),
            ("public_html/_headers", [true, true, true]),
            ("public_html/static/x.priv.html", [false, true, false]),
            ("public_html/static/x.dyn.html", [true, true, true]),
            ("static/x.dyn.html.gz", [false, true, false]),
            ("drafts/x.lua", [false, false, false]),
            (".git/x", [false, false, false]),
        ] {
            let layouts = [SiteLayout::Static, SiteLayout::Dynamic, SiteLayout::DynamicBeside];
            assert_eq!(layouts.map(|layout| matters(layout, path)), expected, "{path}");
        }
    }
}

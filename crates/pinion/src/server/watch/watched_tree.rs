//! The part of the file system that belongs to a served folder: the folder, and the targets of its
//! links.
//!
//! The kernel reports the real path of a file, a site knows the path of its links, and the two can
//! differ: a file in a hidden folder is part of the site when a link leads there. So every folder
//! of the file system that the site reaches into is kept with its path in the site, and the names
//! on that path decide, as they do in a build.

use crate::server::path_state::{Look, look};
use notify::RecursiveMode;
use pinion_builder::{NameFilter, SiteLayout, WalkedSite};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Links that are looked at each time. A change of a link's target mostly causes a notice; looking
/// finds targets that are switched outside of the site. A hundred thousand links must not keep a
/// core busy.
const LINKS_PER_LOOK: usize = 1000;

/// Folders to be watched, alone or with all below.
pub(super) type Watches = BTreeMap<PathBuf, RecursiveMode>;

/// A served folder, as far as it has to be watched.
pub(super) struct Scope {
    source: PathBuf,
    names: NameFilter,
    /// Files of rules that a build reads too, wherever they are; their paths are absolute.
    rules: Vec<WatchedLink>,
    /// The links that the last build met.
    links: Vec<WatchedLink>,
    /// The link to be looked at next.
    next: usize,
    places: Vec<WatchedFolder>,
    /// The layout that the last build found. Before the first one all code matters.
    layout: SiteLayout,
    /// The paths of the code that this build found, below the source.
    code: Vec<PathBuf>,
    /// Files that links lead to, where they really are.
    files: HashSet<PathBuf>,
}

/// A path whose target may change: a link of the site, or the path of a rules file.
struct WatchedLink {
    /// Below the source, or absolute: joined to the source it is where to look.
    path: PathBuf,
    /// Its target before the last build.
    seen: Look,
}

/// A folder that is part of the site with all in it.
struct WatchedFolder {
    /// Its real path, without links.
    real: PathBuf,
    /// Its path in the site, below the source.
    path: PathBuf,
}

impl Scope {
    /// Makes the scope of a source; `rules` are absolute.
    pub(super) fn new(source: &Path, names: NameFilter, rules: Vec<PathBuf>) -> Self {
        let seen = |path: PathBuf| WatchedLink { seen: look(&path), path };
        let mut scope = Self {
            source: source.to_owned(),
            names,
            rules: rules.into_iter().map(seen).collect(),
            links: Vec::new(),
            next: 0,
            places: Vec::new(),
            layout: SiteLayout::Dynamic,
            code: Vec::new(),
            files: HashSet::new(),
        };
        scope.resolve();
        scope
    }

    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    /// Stores the paths that the walk of a build has met; returns true when something matters now
    /// that did not before.
    pub(super) fn take_walked(&mut self, walked: WalkedSite) -> bool {
        let WalkedSite { links, code, layout } = walked;
        let mut known: HashMap<PathBuf, Look> =
            self.links.drain(..).map(|link| (link.path, link.seen)).collect();
        // A site that got a folder for its content depends on less than before.
        let mut is_more = layout != self.layout
            && (layout == SiteLayout::Dynamic || self.layout == SiteLayout::Static);
        for path in links {
            // The recorded target of a known one stays: the build may have met an earlier state.
            let seen = known.remove(&path).unwrap_or_else(|| {
                is_more = true;
                look(&self.source.join(&path))
            });
            self.links.push(WatchedLink { path, seen });
        }
        self.next = 0;
        (self.layout, self.code) = (layout, code);
        is_more
    }

    /// Resolves the real paths of all parts anew.
    pub(super) fn resolve(&mut self) {
        // A source that is gone is being replaced; until then the old places will do.
        let Ok(real) = self.source.canonicalize() else { return };
        self.places = vec![WatchedFolder { real, path: PathBuf::new() }];
        self.files.clear();
        for WatchedLink { path, .. } in &self.rules {
            // One that is gone is being replaced, under the same name.
            let gone = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
            self.files.extend(path.canonicalize().ok().or_else(gone));
        }
        for WatchedLink { path, .. } in &self.links {
            match self.source.join(path).canonicalize() {
                Ok(real) if real.is_dir() => {
                    self.places.push(WatchedFolder { real, path: path.clone() });
                }
                Ok(real) => {
                    self.files.insert(real);
                }
                // It leads nowhere; looking finds out when that changes.
                Err(_) => {}
            }
        }
    }

    /// Returns the folders to watch so that nothing of the site is missed, none within another.
    pub(super) fn watches(&self) -> Watches {
        let mut folders: Vec<&Path> =
            self.places.iter().map(|place| place.real.as_path()).collect();
        folders.sort_unstable();
        let mut watches = Watches::new();
        let mut last: Option<&Path> = None;
        for folder in folders {
            // A folder stands before all that lie in it, and those stand together.
            if last.is_none_or(|last| !folder.starts_with(last)) {
                watches.insert(folder.to_owned(), RecursiveMode::Recursive);
                last = Some(folder);
            }
        }
        for folder in self.files.iter().filter_map(|file| file.parent()) {
            let is_watched = |above| watches.get(above) == Some(&RecursiveMode::Recursive);
            if !folder.ancestors().any(is_watched) {
                watches.insert(folder.to_owned(), RecursiveMode::NonRecursive);
            }
        }
        watches
    }

    /// Returns whether something at this place, as the kernel reports it, can be part of the site.
    pub(super) fn concerns(&self, real: &Path) -> bool {
        let is_in = |place: &WatchedFolder| {
            let Ok(below) = real.strip_prefix(&place.real) else { return false };
            let path = place.path.join(below);
            // One that is gone has been a folder if code lay in it.
            let is_folder =
                || real.is_dir() || self.code.iter().any(|file| file.starts_with(&path));
            self.names.may_matter_to(self.layout, &path, is_folder)
        };
        self.files.contains(real) || self.places.iter().any(is_in)
    }

    /// Returns whether the source is somewhere else than it was, or a link leads to something else
    /// than before the last build. It looks at a part of the links, at the next part the next time.
    pub(super) fn has_moved(&mut self) -> bool {
        let place = self.places.first().map(|place| place.real.as_path());
        if self.source.canonicalize().is_ok_and(|now| place != Some(&now)) {
            return true;
        }
        let count = self.links.len().min(LINKS_PER_LOOK);
        let links = self.links.iter().cycle().skip(self.next).take(count);
        let mut looked_at = self.rules.iter().chain(links);
        let has_moved = looked_at.any(|link| look(&self.source.join(&link.path)) != link.seen);
        self.next = (self.next + count).checked_rem(self.links.len()).unwrap_or_default();
        has_moved
    }

    /// Records the targets of all links at the beginning of a build.
    pub(super) fn record_state(&mut self) {
        for link in self.rules.iter_mut().chain(&mut self.links) {
            link.seen = look(&self.source.join(&link.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Folder(PathBuf);

    fn walked(links: Vec<PathBuf>, layout: SiteLayout) -> WalkedSite {
        WalkedSite { links, code: Vec::new(), layout }
    }

    impl Folder {
        fn new(name: &str) -> Self {
            let id = std::process::id();
            let folder = std::env::temp_dir().join(format!("pinion-scope-{id}-{name}"));
            fs::create_dir_all(folder.join("site/.parts")).expect("folders");
            fs::create_dir_all(folder.join("out/sub")).expect("folders");
            fs::write(folder.join("out/a.html"), "a").expect("written");
            Self(folder.canonicalize().expect("no links"))
        }

        /// The scope of `site`, with links and where they lead.
        fn scope(&self, links: &[(&str, &str)]) -> Scope {
            let names = NameFilter::new(&["drafts".to_owned()], &[]).expect("names");
            let mut scope = Scope::new(&self.0.join("site"), names, Vec::new());
            for (path, target) in links {
                symlink(target, self.0.join("site").join(path)).expect("a link");
            }
            let paths: Vec<PathBuf> = links.iter().map(|(path, _)| path.into()).collect();
            assert_eq!(scope.take_walked(walked(paths, SiteLayout::Static)), !links.is_empty());
            scope.resolve();
            scope
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _left_for_the_system = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn name_filters_apply_to_the_path_within_the_site() {
        let folder = Folder::new("names");
        let links = [("parts", ".parts"), ("one.html", "../out/a.html"), ("sub", "../out/sub")];
        let scope = folder.scope(&links);
        for (path, expected) in [
            ("site", true),
            ("site/index.html", true),
            ("site/deep/er/index.html", true),
            ("site/access.log", false),
            ("site/.git/index", false),
            ("site/drafts/index.html", false),
            ("site/.parts/x.html", true),
            ("site/.parts/x.tmp", false),
            ("out/a.html", true),
            ("out/b.html", false),
            ("out/sub/b.html", true),
            ("out/sub/b.html~", false),
            ("elsewhere", false),
        ] {
            assert_eq!(scope.concerns(&folder.0.join(path)), expected, "{path}");
        }
    }

    #[test]
    fn all_code_concerns_a_dynamic_site() {
        let folder = Folder::new("code");
        let mut scope = folder.scope(&[]);
        let concerned = |scope: &Scope| {
            ["site/main.lua", "site/a.dyn.html", "site/x.lua", "site/a.priv.html"]
                .map(|path| scope.concerns(&folder.0.join(path)))
        };
        assert_eq!(concerned(&scope), [true, true, false, false]);
        assert!(
            scope.take_walked(walked(vec![], SiteLayout::Dynamic)),
            "code may have changed unnoticed"
        );
        assert_eq!(concerned(&scope), [true; 4]);
        assert!(
            !scope.take_walked(walked(vec![], SiteLayout::Dynamic))
                && !scope.take_walked(walked(vec![], SiteLayout::Static))
        );
        assert_eq!(concerned(&scope), [true, true, false, false]);
    }

    #[test]
    fn outside_the_content_folder_only_code_concerns_a_site() {
        let folder = Folder::new("beside-content");
        let mut scope = folder.scope(&[]);
        let code = vec!["gone/x.lua".into()];
        let layout = SiteLayout::DynamicBeside;
        assert!(scope.take_walked(WalkedSite { links: Vec::new(), code, layout }));
        fs::create_dir_all(folder.0.join("site/lib")).expect("a folder");
        for (path, expected) in [
            ("site/main.lua", true),
            ("site/lib", true),
            ("site/gone", true),
            ("site/public_html/a.html", true),
            ("site/notes.txt", false),
            ("site/data.db-journal", false),
            ("site/main.lua.bak", false),
            ("site/i.d/x.lua", false),
        ] {
            assert_eq!(scope.concerns(&folder.0.join(path)), expected, "{path}");
        }
    }

    #[test]
    fn no_folder_is_watched_twice() {
        let folder = Folder::new("twice");
        let links = [("parts", ".parts"), ("one.html", "../out/a.html"), ("none", "nothing")];
        let alone = (folder.0.join("out"), RecursiveMode::NonRecursive);
        let site = (folder.0.join("site"), RecursiveMode::Recursive);
        let scope = folder.scope(&links);
        assert_eq!(scope.watches(), Watches::from([alone, site.clone()]));
        let mut scope = scope;
        symlink("../out", folder.0.join("site/out")).expect("a link");
        let paths = ["parts", "one.html", "none", "out"];
        assert!(scope.take_walked(walked(paths.map(PathBuf::from).to_vec(), SiteLayout::Static)));
        scope.resolve();
        let whole = (folder.0.join("out"), RecursiveMode::Recursive);
        assert_eq!(scope.watches(), Watches::from([whole, site]));
    }

    #[test]
    fn rules_files_outside_the_folder_are_watched() {
        let folder = Folder::new("beside");
        let names = NameFilter::new(&[], &[]).expect("names");
        let rules = folder.0.join("rules");
        symlink("out/a.html", &rules).expect("a link");
        let mut scope = Scope::new(&folder.0.join("site"), names, vec![rules.clone()]);
        assert!(scope.concerns(&folder.0.join("out/a.html")));
        assert!(!scope.concerns(&folder.0.join("out/b.html")));
        assert!(scope.watches().contains_key(&folder.0.join("out")));
        assert!(!scope.take_walked(walked(vec![], SiteLayout::Static)) && !scope.has_moved());
        fs::remove_file(&rules).expect("removed");
        assert!(scope.has_moved());
        scope.record_state();
        scope.resolve();
        assert!(scope.concerns(&rules) && scope.watches().contains_key(&folder.0));
        symlink("out/other", &rules).expect("a link");
        assert!(!scope.has_moved(), "it leads nowhere, as before");
        fs::write(folder.0.join("out/other"), "x").expect("written");
        assert!(scope.has_moved());
    }

    #[test]
    fn a_changed_link_target_is_found_among_many() {
        let folder = Folder::new("many");
        let mut scope = folder.scope(&[("z.html", "../out/a.html")]);
        let many = (0..2 * LINKS_PER_LOOK).map(|number| PathBuf::from(format!("{number}.html")));
        let all: Vec<PathBuf> = many.chain(["z.html".into()]).collect();
        assert!(
            scope.take_walked(walked(all.clone(), SiteLayout::Static))
                && !scope.take_walked(walked(all, SiteLayout::Static))
        );
        assert!((0..6).all(|_| !scope.has_moved()));
        fs::write(folder.0.join("out/a.html"), "another length").expect("written");
        assert!((0..3).any(|_| scope.has_moved()));
        scope.record_state();
        assert!((0..6).all(|_| !scope.has_moved()));
    }
}

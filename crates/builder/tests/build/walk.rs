//! The selection of files that become resources.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinion_builder::limits::REPEATED_FOLDERS_MAX;
use pinion_builder::{BuildError, ExtractOptions, Options, Progress, Warning, examine};
use proptest::prelude::*;

use crate::archive_reader::{built, built_with, options};
use crate::temporary_folder::Folder;

#[test]
fn symbolic_links_out_of_the_folder_are_followed() {
    let outside = Folder::with(&[("page.css", "outside"), ("deep/x.css", "deep")]);
    let folder = Folder::with(&[("real/y.css", "inside")]);
    folder.link("file.css", outside.join("page.css"));
    folder.link("folder", outside.join("deep"));
    folder.link("sister", "real");
    folder.link("chain", "sister");
    let site = built(&folder);
    assert_eq!(
        site.keys(),
        ["/chain/y.css", "/file.css", "/folder/x.css", "/real/y.css", "/sister/y.css"]
    );
    assert_eq!(site.page("/file.css").content(), b"outside");
    assert_eq!(site.page("/chain/y.css").content(), b"inside");
}

#[test]
fn the_source_may_be_a_symbolic_link() {
    let folder = Folder::with(&[("site/a.css", "a")]);
    folder.link("current", "site");
    let site = pinion_builder::build(
        &folder.join("current"),
        &options(),
        std::io::Cursor::new(Vec::new()),
        &(),
    );
    assert_eq!(site.unwrap().summary.files, 1);
}

#[test]
fn a_folder_linked_below_itself_is_entered_once() {
    let folder = Folder::with(&[("a/b/x.css", "x")]);
    folder.link("a/b/up", "../../a");
    folder.link("a/self", ".");
    folder.link("root", folder.path());
    let site = built(&folder);
    // `root` is the source itself, so it is an ancestor; `a/b/up` is `a`.
    assert_eq!(site.keys(), ["/a/b/x.css"]);
    let looped = |path: &str| Warning::FolderLoop(path.into());
    assert_eq!(site.summary.warnings, [looped("a/b/up"), looped("a/self"), looped("root")]);
}

#[test]
fn two_folders_linked_to_each_other_are_entered_once() {
    let folder = Folder::with(&[("a/x.css", "x"), ("b/y.css", "y")]);
    folder.link("a/b", "../b");
    folder.link("b/a", "../a");
    let site = built(&folder);
    assert_eq!(site.keys(), ["/a/b/y.css", "/a/x.css", "/b/a/x.css", "/b/y.css"]);
    assert_eq!(site.summary.warnings.len(), 2);
}

/// A walk of the whole machine would not end.
#[test]
fn a_link_to_a_folder_that_holds_the_site_is_not_followed() {
    let folder = Folder::with(&[("s/a.css", "a")]);
    folder.link("s/parent", "..");
    folder.link("s/root", "/");
    let source = folder.join("s");
    let out = std::io::Cursor::new(Vec::new());
    let site = pinion_builder::build(&source, &options(), out, &()).unwrap();
    let looped = |path: &str| Warning::FolderLoop(path.into());
    assert_eq!(site.summary.warnings, [looped("parent"), looped("root")]);
    assert_eq!(site.summary.files, 1);
}

#[test]
fn folders_of_the_kernel_are_not_entered() {
    let folder = Folder::with(&[("a.css", "a")]);
    folder.link("proc", "/proc");
    folder.link("self", "/proc/self");
    folder.link("sys", "/sys/kernel");
    let error = built_with(&folder, &options()).err().unwrap();
    let BuildError::Problems(problems) = &error else { panic!("{error}") };
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let of =
        |name: &str| format!("{name}: a folder of the kernel (/proc or /sys), not one with files");
    assert_eq!(lines, ["proc", "self", "sys"].map(of));
}

/// Two links in each folder lead to the next one: twice as many paths with each level.
#[test]
fn paths_through_repeated_links_are_bounded() {
    let folder = Folder::new();
    let level = |number: usize| format!("d{number:02}");
    for number in 0..20 {
        folder.folder(&level(number));
        for name in ["a", "b"] {
            folder.link(&format!("{}/{name}", level(number)), format!("../{}", level(number + 1)));
        }
    }
    folder.file(format!("{}/x.css", level(20)), "x");
    for keep_going in [false, true] {
        let error = built_with(&folder, &Options { keep_going, ..options() }).err().unwrap();
        assert!(matches!(error, BuildError::RepeatedFolders(_)), "{error}");
        let error = examine(folder.path(), &options()).unwrap_err();
        let expected =
            format!("links lead to the same folders by more than {REPEATED_FOLDERS_MAX}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
    // A usual number of links is followed.
    let folder = Folder::with(&[("shared/a/b/x.css", "x")]);
    for number in 0..300 {
        folder.link(&format!("v{number}/shared"), "../shared");
    }
    assert_eq!(built(&folder).keys().len(), 301);
}

/// Counts the checks for cancellation, and cancels at one of them.
struct GivesUp {
    asked: AtomicUsize,
    at: usize,
}

impl Progress for GivesUp {
    fn found(&self, _files: u64, _bytes: u64) {
        panic!("the walk was over");
    }

    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.at
    }
}

/// The build is cancelled between folders, and within one that has many names.
#[test]
fn a_build_can_be_cancelled_during_its_walk() {
    let folder = Folder::new();
    for number in 0..50 {
        folder.file(format!("d{number}/a.css"), "a");
    }
    for number in 0..3000 {
        fs::write(folder.join(format!("many-{number}.css")), "m").unwrap();
    }
    for at in [0, 1, 2, 40] {
        let progress = GivesUp { asked: AtomicUsize::new(0), at };
        let out = std::io::Cursor::new(Vec::new());
        let result = pinion_builder::build(folder.path(), &options(), out, &progress);
        assert!(matches!(result, Err(BuildError::Cancelled)), "at {at}");
    }
}

#[test]
fn everything_that_is_not_a_file_is_reported() {
    let folder = Folder::with(&[("good.css", "good")]);
    folder.link("dangling.css", "nowhere");
    folder.link("far", "/nowhere/at/all");
    folder.link("circle", "circle");
    folder.link("zero", "/dev/zero");
    folder.pipe("pipe");
    folder.folder("d");
    folder.socket("d/socket");
    let error = built_with(&folder, &options()).err().unwrap();
    let BuildError::Problems(problems) = &error else { panic!("{error}") };
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "circle: symbolic link that leads back to itself",
            "d/socket: a socket, not a file",
            "dangling.css: broken symbolic link",
            "far: broken symbolic link",
            "pipe: a named pipe, not a file",
            "zero: a device, not a file",
        ]
    );
    let line = "circle: symbolic link that leads back to itself (and 5 more)";
    assert_eq!(error.to_string(), line);

    let site = built_with(&folder, &Options { keep_going: true, ..options() }).unwrap();
    assert_eq!(site.keys(), ["/good.css"]);
    assert_eq!(site.summary.problems.len(), 6);
}

/// Tests may run as root, which can read everything. But a path that is too long cannot be opened:
/// the folder below the link has one, although its own path is short enough.
#[test]
fn unreadable_files_and_folders_are_named() {
    let folder = Folder::with(&[("good.css", "good")]);
    let name = "n".repeat(250);
    // The path is below the system's limit of 4096 bytes, and above it together with the name of
    // the link's folder.
    let deep = vec![name.as_str(); 16].join("/");
    let elsewhere = Folder::new();
    elsewhere.file(format!("{deep}/x.css"), "x");
    folder.link(&format!("{name}/down"), elsewhere.path());
    let error = built_with(&folder, &options()).err().unwrap();
    let BuildError::Problems(problems) = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 1, "{error}");
    assert!(error.to_string().contains("File name too long"), "{error}");

    let site = built_with(&folder, &Options { keep_going: true, ..options() }).unwrap();
    assert_eq!(site.keys(), ["/good.css"]);
}

#[test]
fn a_source_that_is_not_a_folder_is_an_error() {
    let folder = Folder::with(&[("file", "")]);
    for (name, message) in [("file", "is not a folder"), ("missing", "does not exist")] {
        let source = folder.join(name);
        let error = pinion_builder::build(&source, &options(), std::io::Cursor::new(vec![]), &());
        let line = error.err().unwrap().to_string();
        let expected = format!("{} {message}; give a folder", source.display());
        assert_eq!(line, expected);
    }
}

#[test]
fn an_empty_folder_is_a_site_without_pages() {
    let folder = Folder::new();
    folder.folder("a/b");
    let site = built(&folder);
    assert_eq!(site.keys(), Vec::<&str>::new());
    assert_eq!(site.summary.folders, 3);
}

/// Names that Hugo makes of a tag, and that Emacs leaves behind.
#[test]
fn names_with_a_number_sign_are_published() {
    let folder = Folder::with(&[
        ("#left#", "an autosave"),
        ("a#b.txt", "in the middle"),
        ("tags/c#/index.html", "a tag"),
        ("tags/c#/x~", "a backup"),
    ]);
    let site = built(&folder);
    assert_eq!(
        site.keys(),
        ["/a#b", "/a#b.txt", "/tags/c#/", "/tags/c#/index", "/tags/c#/index.html"]
    );
    assert_eq!(site.page("/tags/c#/").target.as_deref(), Some("/tags/c%23/index.html"));
    let skipped = ["#left#", "tags/c#/x~"].map(std::path::PathBuf::from);
    assert_eq!(site.summary.skipped, skipped);
}

#[test]
fn include_publishes_names_that_are_left_out() {
    let folder = Folder::with(&[
        (".git/config", "x"),
        (".htaccess", "x"),
        (".nojekyll", ""),
        ("a.log", "x"),
        ("b/c.tmp", "x"),
        ("b/d.priv.tmp", "secret"),
        ("main.lua~", "x"),
    ]);
    let include = [".git", "/.htaccess", "*.log", "b/*", "*.gone"].map(str::to_owned).to_vec();
    let options = Options { include, ..options() };
    let site = built_with(&folder, &options).unwrap();
    assert_eq!(site.keys(), ["/.git/config", "/.htaccess", "/a.log", "/b/c.tmp"]);
    assert_eq!(site.summary.warnings, [Warning::UnusedInclude("*.gone".into())]);
    let paths = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths.iter().map(|path| path.display().to_string()).collect()
    };
    assert_eq!(paths(&site.summary.skipped), [".nojekyll", "main.lua~"]);
    assert_eq!(paths(&site.summary.special), ["b/d.priv.tmp"]);
    // Extracting the archive gives the same folder again, and the flags for building it.
    let out = Folder::new();
    let layout = pinion_archive::Layout::open(&site.bytes).unwrap();
    let archive = layout.view(&site.bytes);
    let done =
        pinion_builder::extract(&archive, out.path(), ExtractOptions::default(), &()).unwrap();
    assert_eq!((done.files, done.flags[0].as_str()), (4, "--include=.git"));
    assert!(built_with(&out, &options).unwrap().bytes == site.bytes);
}

/// The file of fingerprints of the archive is new with each build.
#[test]
fn a_build_does_not_publish_its_own_output() {
    let folder = Folder::with(&[("a.css", "a")]);
    let options = Options { include: vec![".*".to_owned(), "*".to_owned()], ..options() };
    let out = folder.join("site.pinion");
    let build = || pinion_builder::build_file(folder.path(), &options, &out, &()).unwrap();
    let first = build();
    assert_eq!((first.files, build().digest), (1, first.digest));
}

#[test]
fn the_summary_lists_files_that_are_left_out() {
    let folder = Folder::with(&[
        (".git/config", ""),
        (".well-known/security.txt", "Contact: x"),
        ("Thumbs.db", ""),
        ("_headers", ""),
        ("_redirects", ""),
        ("a/keys.priv.d/key.pem", "secret"),
        ("a/menu.dyn.html", ""),
        ("app.lua", ""),
        ("draft.md", ""),
        ("index.html", ""),
        ("pinion.toml", ""),
        ("secret/plan.html", ""),
    ]);
    let exclude = vec!["*.md".to_owned(), "/secret".to_owned()];
    let site = built_with(&folder, &Options { exclude, ..options() }).unwrap();
    let (urls, kept): (Vec<&str>, Vec<&str>) =
        site.keys().into_iter().partition(|key| key.starts_with('/'));
    assert_eq!(
        urls,
        ["/", "/.well-known/security", "/.well-known/security.txt", "/index", "/index.html"]
    );
    assert_eq!(kept, ["file:/_headers", "file:/_redirects"]);
    let paths = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths.iter().map(|path| path.display().to_string()).collect()
    };
    assert_eq!(paths(&site.summary.skipped), [".git", "Thumbs.db", "draft.md", "secret"]);
    assert_eq!(paths(&site.summary.special), ["a/keys.priv.d", "pinion.toml"]);
    assert_eq!(paths(&site.summary.code), ["a/menu.dyn.html", "app.lua"]);
}

/// A typing error in a pattern must not publish private files.
#[test]
fn an_exclude_pattern_without_a_match_is_warned_about() {
    let folder = Folder::with(&[("drafts/a.html", ""), ("index.html", ""), ("x.psd", "")]);
    let exclude = ["draft", "/drafts/*", "*.psd", "guide/**"].map(str::to_owned).to_vec();
    let site = built_with(&folder, &Options { exclude, ..options() }).unwrap();
    let unused = |pattern: &str| Warning::UnusedExclude(pattern.into());
    assert_eq!(site.summary.warnings, [unused("draft"), unused("guide/**")]);
}

#[test]
fn a_bad_pattern_fails_before_anything_is_read() {
    let folder = Folder::new();
    let options = Options { exclude: vec!["a{".to_owned()], ..options() };
    assert!(matches!(built_with(&folder, &options), Err(BuildError::Glob { .. })));
}

/// A tree of files for the disk.
#[derive(Clone, Debug)]
enum Node {
    File,
    Folder(BTreeMap<&'static [u8], Node>),
    /// A link to a folder outside with one file, `o`.
    Link,
}

const NAMES: [&[u8]; 16] = [
    b"a",
    b"a!",
    b"a.css",
    b"a0",
    b"b",
    b"b.js",
    b".git",
    b".well-known",
    b"x.log",
    b"y~",
    b"_HEADERS",
    b"m.priv.css",
    b"A B",
    b"\xff\xfe.css",
    "\u{fc}.css".as_bytes(),
    b"line\nbreak",
];

fn tree() -> impl Strategy<Value = BTreeMap<&'static [u8], Node>> {
    let name = prop::sample::select(NAMES.to_vec());
    let leaf = prop_oneof![4 => Just(Node::File), 1 => Just(Node::Link)];
    let node = leaf.prop_recursive(4, 40, 6, move |inner| {
        let name = prop::sample::select(NAMES.to_vec());
        prop::collection::btree_map(name, inner, 0..6).prop_map(Node::Folder)
    });
    prop::collection::btree_map(name, node, 0..8)
}

fn put(folder: &Folder, outside: &Folder, prefix: &[u8], tree: &BTreeMap<&'static [u8], Node>) {
    fs::create_dir_all(folder.join(prefix)).unwrap();
    for (name, node) in tree {
        let path = [prefix, name].concat();
        match node {
            Node::File => folder.file(&path, &path),
            Node::Folder(inner) => put(folder, outside, &[&path[..], b"/"].concat(), inner),
            Node::Link => {
                let link = Path::new(OsStr::from_bytes(&path)).to_owned();
                std::os::unix::fs::symlink(outside.path(), folder.path().join(link)).unwrap();
            }
        }
    }
}

/// Collects the keys of the site: every path whose components are all included, sorted as a whole.
fn expected(prefix: &[u8], tree: &BTreeMap<&'static [u8], Node>, keys: &mut Vec<Vec<u8>>) {
    let left_out: [&[u8]; 5] = [b".git", b"x.log", b"y~", b"_HEADERS", b"m.priv.css"];
    for (name, node) in tree.iter().filter(|(name, _)| !left_out.contains(name)) {
        let key = [prefix, b"/", name].concat();
        match node {
            Node::File => keys.push(key),
            Node::Folder(inner) => expected(&key, inner, keys),
            Node::Link => keys.push([&key[..], b"/o"].concat()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn any_tree_agrees_with_the_model(tree in tree()) {
        let (folder, outside) = (Folder::new(), Folder::with(&[("o", "outside")]));
        put(&folder, &outside, b"", &tree);
        let mut keys = Vec::new();
        expected(b"", &tree, &mut keys);
        keys.sort();
        prop_assert_eq!(built(&folder).files, keys);
    }
}

//! A file under the name of an archive is replaced only if it is an archive or empty.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pinion_archive::Layout;
use pinion_builder::{BuildError, Occupant, Options, Progress, build_file};
use rustix::fs::{FlockOperation, flock};

use crate::archive_reader::options;
use crate::temporary_folder::Folder;

fn publish(path: &Path, force: bool) -> Result<(), BuildError> {
    let source = Folder::with(&[("a.html", "a")]);
    build_file(source.path(), &Options { force, ..options() }, path, &()).map(drop)
}

fn is_archive(path: &Path) -> bool {
    Layout::open(&fs::read(path).unwrap()).is_ok()
}

#[test]
fn pipes_sockets_and_folders_are_never_replaced() {
    let out = Folder::new();
    out.pipe("pipe");
    out.socket("socket");
    out.folder("folder/x");
    out.link("link", "pipe");
    let kinds = || {
        let kind = |name| fs::symlink_metadata(out.join(name)).unwrap().file_type();
        let [pipe, socket, folder, link] = ["pipe", "socket", "folder", "link"].map(kind);
        (pipe.is_fifo(), socket.is_socket(), folder.is_dir(), link.is_symlink())
    };
    for force in [false, true] {
        for (name, by) in [
            ("pipe", Occupant::Pipe),
            ("socket", Occupant::Socket),
            ("folder", Occupant::Folder),
            ("link", Occupant::Pipe),
            ("..", Occupant::Folder),
        ] {
            let path = out.join(name);
            let error = publish(&path, force).unwrap_err();
            assert_eq!(error.to_string(), format!("{}: will not replace {by}", path.display()));
            assert!(matches!(error, BuildError::Occupied { by: found, .. } if found == by));
        }
    }
    assert_eq!(kinds(), (true, true, true, true));
    assert_eq!(out.names(), ["folder", "link", "pipe", "socket"]);
}

#[test]
fn a_file_that_is_not_an_archive_is_replaced_only_with_force() {
    let out = Folder::new();
    // The first seven bytes of an archive alone are no archive.
    for content in [&b"<!doctype html>"[..], b"x", b"\x89PINION"] {
        out.file("page.html", content);
        out.link("link", "page.html");
        for name in ["page.html", "link"] {
            let error = publish(&out.join(name), false).unwrap_err();
            let by = Occupant::OtherFile;
            assert!(matches!(error, BuildError::Occupied { by: found, .. } if found == by));
            assert!(fs::read(out.join("page.html")).unwrap() == content);
        }
        publish(&out.join("link"), true).unwrap();
        assert!(is_archive(&out.join("page.html")));
        fs::remove_file(out.join("link")).unwrap();
        assert_eq!(out.names(), ["page.html"]);
    }
}

#[test]
fn an_archive_and_an_empty_file_are_replaced() {
    let out = Folder::new();
    let path = out.join("site.pinion");
    // A damaged archive, or one of another version, has the first bytes of an archive.
    for content in [&b""[..], b"\x89PINION\n and then something else"] {
        out.file("site.pinion", content);
        publish(&path, false).unwrap();
        assert!(is_archive(&path));
    }
    publish(&path, false).unwrap();
    assert_eq!(out.names(), ["site.pinion"]);
}

#[test]
fn symbolic_links_are_kept_and_their_target_is_replaced() {
    let out = Folder::new();
    out.folder("releases");
    // The link is relative to its folder; at first its target does not exist yet.
    out.link("current/site.pinion", "../next.pinion");
    out.link("next.pinion", out.join("releases/1.pinion"));
    for _ in 0..2 {
        publish(&out.join("current/site.pinion"), false).unwrap();
        let ends = ["current/site.pinion", "next.pinion"].map(|name| fs::read_link(out.join(name)));
        let expected = [PathBuf::from("../next.pinion"), out.join("releases/1.pinion")];
        assert_eq!(ends.map(Result::unwrap), expected);
        assert!(is_archive(&out.join("releases/1.pinion")));
    }
    assert_eq!(out.names(), ["current", "next.pinion", "releases"]);
}

#[test]
fn dangling_and_circular_output_links_are_errors() {
    let out = Folder::new();
    out.link("circle", "circle");
    out.link("lost", "no/such/site.pinion");
    for (name, message) in [("circle", "symbolic links"), ("lost", "no such folder")] {
        let error = publish(&out.join(name), true).unwrap_err();
        assert!(matches!(error, BuildError::Output { .. }), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    assert_eq!(out.names(), ["circle", "lost"]);
}

#[test]
fn abandoned_drafts_are_removed_by_the_next_build() {
    let out = Folder::new();
    let path = out.join("site.pinion");
    let left = [
        ".site.pinion.draft-1-0.tmp",
        ".site.pinion.draft-77-13.tmp",
        ".site.pinion.stat.draft-1-1.tmp",
    ];
    let other = [
        ".other.pinion.draft-1-0.tmp",
        ".site.pinion.mine.tmp",
        ".site.pinion.draft-5-5.tmp.keep",
        "site.pinion.draft-5-5.tmp",
    ];
    for name in left.iter().chain(&other) {
        out.file(name, "of a build that was killed, or of somebody else");
    }
    out.folder(".site.pinion.draft-2-0.tmp");
    out.pipe(".site.pinion.draft-2-1.tmp");
    out.link(".site.pinion.draft-2-2.tmp", "site.pinion.draft-5-5.tmp");
    out.file(".site.pinion.draft-3-0.tmp", "of a build that runs");
    let held = fs::File::open(out.join(".site.pinion.draft-3-0.tmp")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();

    let stay = [
        ".other.pinion.draft-1-0.tmp",
        ".site.pinion.draft-2-0.tmp",
        ".site.pinion.draft-2-1.tmp",
        ".site.pinion.draft-2-2.tmp",
        ".site.pinion.draft-3-0.tmp",
        ".site.pinion.draft-5-5.tmp.keep",
        ".site.pinion.mine.tmp",
        "site.pinion",
        "site.pinion.draft-5-5.tmp",
    ];
    publish(&path, false).unwrap();
    assert_eq!(out.names(), stay);
    // The process of the draft has ended.
    drop(held);
    publish(&path, false).unwrap();
    assert!(!out.names().contains(&".site.pinion.draft-3-0.tmp".to_owned()));
    assert_eq!(out.names().len(), stay.len() - 1);
}

/// Builds into the same path during the progress reports of another build.
struct Another<'a> {
    path: &'a Path,
    drafts: AtomicUsize,
}

impl Progress for Another<'_> {
    fn advanced(&self, _files: u64, _bytes: u64) {
        let drafts = || {
            let names = fs::read_dir(self.path.parent().unwrap()).unwrap();
            names.filter(|name| name.as_ref().unwrap().path().extension() == Some("tmp".as_ref()))
        };
        self.drafts.store(drafts().count(), Ordering::Relaxed);
        publish(self.path, false).unwrap();
        assert_eq!(drafts().count(), self.drafts.load(Ordering::Relaxed));
    }
}

#[test]
fn a_build_keeps_the_drafts_of_a_running_build() {
    let (source, out) = (Folder::with(&[("index.html", "of the longer one")]), Folder::new());
    let path = out.join("site.pinion");
    // The longer build reuses an archive that the other one replaces meanwhile.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let later = Options { now: now + 3600, ..options() };
    build_file(source.path(), &later, &path, &()).unwrap();
    let another = Another { path: &path, drafts: AtomicUsize::new(0) };
    let again = build_file(source.path(), &later, &path, &another).unwrap();
    assert_eq!(again.unread_files, 1, "nothing was taken over");
    assert_eq!(another.drafts.into_inner(), 2, "of the archive and of its fingerprints");
    assert_eq!(out.names(), ["site.pinion"]);
    let elsewhere = Folder::new();
    build_file(source.path(), &options(), &elsewhere.join("site.pinion"), &()).unwrap();
    assert!(fs::read(&path).unwrap() == fs::read(elsewhere.join("site.pinion")).unwrap());
}

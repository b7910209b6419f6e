//! What stands under the name of an archive is replaced only if it is an archive, or empty.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use pinion_archive::Layout;
use pinion_build::{BuildError, Occupant, Options, build_file};

use crate::folder::Folder;
use crate::reader::options;

fn publish(path: &Path, force: bool) -> Result<(), BuildError> {
    let source = Folder::with(&[("a.html", "a")]);
    build_file(source.path(), &Options { force, ..options() }, path, &()).map(drop)
}

fn is_archive(path: &Path) -> bool {
    Layout::open(&fs::read(path).unwrap()).is_ok()
}

#[test]
fn what_is_no_file_is_never_replaced() {
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
fn a_file_that_is_no_archive_is_replaced_by_force_alone() {
    let out = Folder::new();
    // The first seven bytes of an archive are no archive.
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
    // A damaged archive, or one of another version, begins as an archive does.
    for content in [&b""[..], b"\x89PINION\n and then something else"] {
        out.file("site.pinion", content);
        publish(&path, false).unwrap();
        assert!(is_archive(&path));
    }
    publish(&path, false).unwrap();
    assert_eq!(out.names(), ["site.pinion"]);
}

#[test]
fn links_stay_and_their_end_is_replaced() {
    let out = Folder::new();
    out.folder("releases");
    // Relative to the folder of the link; the first time it leads to nothing yet.
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
fn links_that_lead_nowhere_are_errors_of_the_output() {
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

//! `pinion import`: archives of kawipiko become ours. What is in them is tested with the room.

use crate::folder::Folder;
use crate::program::{build_site, members, run};
use std::path::Path;

fn archive(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../kawipiko/tests/archives/made").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn an_archive_is_taken_over() {
    let folder = Folder::new();
    let file = archive("site-gzip.cdb");
    let run = |arguments: &str| run(&folder, arguments);
    let imported = run(&format!("import {file} -o site.pinion --json"));
    assert_eq!((imported.code, imported.stderr.as_str()), (0, ""));
    assert_eq!(
        members(&imported.json()),
        [
            "aliases",
            "archive",
            "archive_bytes",
            "content_bytes",
            "contents",
            "digest",
            "fallback_pages",
            "imported",
            "left_out",
            "pages",
            "redirects",
            "rules",
            "seconds"
        ]
    );
    assert_eq!(run("verify site.pinion").code, 0);
    assert!(run("cat site.pinion /index.html").text().contains("<title>"));
    // Only an archive is replaced.
    folder.write("notes.txt", "notes");
    run(&format!("import {file} -o notes.txt")).refused(1, "--force");
    assert_eq!(run(&format!("import {file} -o notes.txt --force --codings zstd")).code, 0);
}

#[test]
fn what_is_no_archive_of_kawipiko_is_named() {
    let folder = Folder::with_site();
    build_site(&folder);
    let run = |file: &str| run(&folder, &format!("import {file} -o out.pinion"));
    run("site.pinion").refused(1, "site.pinion: cdb table 0 lies outside of the file");
    run("site/style.css").refused(1, "site/style.css: cdb table 0 lies outside of the file");
    run("site/404.html").refused(1, "not a cdb file: shorter than 2048 bytes");
    run("none").refused(1, "none does not exist; give the path of an archive");
    let mut cut = std::fs::read(archive("site-gzip.cdb")).expect("a file");
    cut.truncate(cut.len() - 1);
    folder.write("cut.cdb", &cut);
    run("cut.cdb").refused(1, "cut.cdb: cdb table");
    assert!(!folder.join("out.pinion").exists());
}

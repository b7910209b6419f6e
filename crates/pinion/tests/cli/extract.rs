//! `pinion extract`: extracts a folder, from which the same archive can be built.

use crate::pinion_runner::{build_site, members, run};
use crate::temporary_folder::Folder;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Returns every file below a folder with its content and its time of modification in seconds.
fn files(folder: &Path) -> Vec<(String, Vec<u8>, u64)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("a folder").map(|entry| entry.expect("an entry")) {
            let (path, metadata) = (entry.path(), entry.metadata().expect("its kind"));
            if metadata.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).expect("below").to_string_lossy().into_owned();
            let modified = metadata.modified().expect("a time");
            let seconds = modified.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
            found.push((name, fs::read(path).expect("a file"), seconds.as_secs()));
        }
    }
    found.sort();
    found
}

#[test]
fn extract_restores_the_site() {
    let folder = Folder::with_site();
    folder.write("site/a b/\u{fc}.txt", "umlaut");
    folder.write("site/empty.css", "");
    build_site(&folder);
    let run = run(&folder, "extract site.pinion -o out --json");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let document = run.json();
    assert_eq!(
        members(&document),
        [
            "aliases",
            "archive",
            "build_flags",
            "bytes",
            "code",
            "differences",
            "fallback_pages",
            "files",
            "folder",
            "previous_assets",
            "redirects",
            "refused",
            "rules_files",
            "seconds"
        ]
    );
    assert_eq!((&document["files"], &document["fallback_pages"]), (&6.into(), &0.into()));
    assert_eq!(files(&folder.join("out")), files(&folder.join("site")));
    let again = crate::pinion_runner::run(&folder, "build out -o again.pinion");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(folder.read("again.pinion") == folder.read("site.pinion"));
}

#[test]
fn rules_files_are_extracted_and_not_served() {
    let folder = Folder::with_site();
    let text = "# all\n/*\n  X-A: 1\n";
    folder.write("site/_headers", text);
    build_site(&folder);
    assert_eq!(run(&folder, "cat site.pinion /_headers").stdout, text.as_bytes());
    let listed = run(&folder, "ls site.pinion --json").json();
    let mut all = listed["entries"].as_array().expect("entries").iter();
    let entry = all.find(|entry| entry["path"] == "/_headers").expect("it is listed");
    assert_eq!(entry["kind"], "private");
    assert_eq!(run(&folder, "verify site.pinion").code, 0);
    let done = run(&folder, "extract site.pinion -o out --json").json();
    assert_eq!(done["rules_files"], 1);
    assert_eq!(folder.read("out/_headers"), text.as_bytes());
}

#[test]
fn a_folder_with_content_is_not_replaced_without_force() {
    let folder = Folder::with_site();
    build_site(&folder);
    folder.write("out/mine.txt", "mine");
    folder.write("out/style.css", "old");
    let names = folder.names();
    let on = |flags: &str| run(&folder, &format!("extract site.pinion -o {flags}"));
    let advice = "the folder is not empty; give another name with -o, or replace it with --force";
    on("out").refused(1, advice);
    on("site.pinion").refused(1, "not a folder");
    on("none/out").refused(1, "no such folder");
    assert_eq!(folder.names(), names, "nothing is left behind");
    assert_eq!(on("out --force").code, 0);
    assert_eq!(folder.read("out/mine.txt"), b"mine");
    assert_eq!(folder.read("out/style.css"), folder.read("site/style.css"));
    fs::create_dir(folder.join("empty")).expect("a folder");
    assert_eq!(on("empty").code, 0);
    assert_eq!(files(&folder.join("empty")), files(&folder.join("site")));
}

/// The target folder may contain malicious links.
#[test]
fn no_symbolic_link_is_followed() {
    let folder = Folder::with_site();
    build_site(&folder);
    fs::create_dir_all(folder.join("outside")).expect("a folder");
    folder.write("outside.css", "mine");
    fs::create_dir_all(folder.join("out")).expect("a folder");
    symlink("../outside", folder.join("out/docs")).expect("a link");
    symlink("../outside.css", folder.join("out/style.css")).expect("a link");
    run(&folder, "extract site.pinion -o out --force").refused(1, "out/docs/index.html: ");
    assert_eq!(fs::read_dir(folder.join("outside")).expect("a folder").count(), 0);
    fs::remove_file(folder.join("out/docs")).expect("removed");
    assert_eq!(run(&folder, "extract site.pinion -o out --force").code, 0);
    assert_eq!(folder.read("outside.css"), b"mine");
    assert_eq!(folder.read("out/style.css"), folder.read("site/style.css"));
}

#[test]
fn a_damaged_body_leaves_no_folder() {
    let folder = Folder::with_site();
    build_site(&folder);
    let mut bytes = folder.read("site.pinion");
    // The first body begins on the second page.
    bytes[4096] ^= 1;
    folder.write("site.pinion", &bytes);
    let names = folder.names();
    run(&folder, "extract site.pinion -o out").refused(1, "does not match its check");
    assert_eq!(folder.names(), names);
}

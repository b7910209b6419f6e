//! With `--json` stdout is exactly one JSON document in all cases.

use crate::pinion_runner::{Run, build_site, members, run};
use crate::temporary_folder::Folder;
use std::os::unix::fs::symlink;

/// Asserts that the program failed with this code, and that the document has the same reason as the
/// line on stderr.
#[track_caller]
fn failed(run: &Run, code: i32, expected: &[&str]) {
    assert_eq!(run.code, code, "{}", run.stderr);
    let json = run.json();
    assert_eq!(members(&json), expected);
    let error = json["error"].as_str().expect("a text");
    assert!(!error.contains("os error"), "{error}");
    assert_eq!(run.stderr.lines().last(), Some(format!("pinion: {error}").as_str()));
}

#[test]
fn a_failure_is_a_document() {
    let folder = Folder::with_site();
    build_site(&folder);
    folder.write("empty", "");
    let archive = folder.read("site.pinion");
    folder.write("cut.pinion", &archive[..archive.len() - 1]);
    for file in ["none", "empty", "site", "cut.pinion"] {
        let on = |verb: &str, path: &str| run(&folder, &format!("{verb} {file} {path} --json"));
        failed(&on("inspect", ""), 1, &["archive", "error"]);
        failed(&on("ls", ""), 1, &["archive", "error"]);
        failed(&on("cat", "/"), 1, &["archive", "error"]);
        failed(&on("verify", ""), 1, &["archive", "error", "sound"]);
        failed(&on("publish", "live"), 1, &["archive", "error", "folder"]);
        failed(&on("releases", ""), 1, &["error", "folder"]);
        failed(&on("rollback", ""), 1, &["error", "folder"]);
        failed(&on("diff", "site.pinion"), 1, &["after", "before", "error"]);
    }
    let on = |arguments: &str| run(&folder, &format!("{arguments} --json"));
    failed(&on("cat site.pinion /none"), 1, &["archive", "error"]);
    failed(&on("cat site.pinion / --coding zstd"), 1, &["archive", "error"]);
    failed(&on("why cut.pinion /"), 1, &["error", "method", "version"]);
    failed(&on("why site about"), 2, &["error", "method", "version"]);
    let build = ["archive", "error", "problems"];
    failed(&on("build none -o out"), 1, &build);
    failed(&on("build site -o site/index.html"), 1, &build);
    failed(&on("build site -o out --exclude ["), 2, &build);
    symlink("nowhere", folder.join("site/a")).expect("a link");
    failed(&on("build site -o out"), 1, &build);
    assert_eq!(on("build site -o out").json()["problems"][0]["path"], "a");
}

#[test]
fn a_wrong_command_line_is_a_document() {
    let folder = Folder::new();
    for arguments in [
        "--json",
        "ls --json",
        "lss a --json",
        "ls a b --json",
        "cat --json a",
        "build --json a",
        "build a -o b --jobs 0 --json",
        "version --json --xyzzy",
    ] {
        failed(&run(&folder, arguments), 2, &["error"]);
    }
    // After two dashes it is the name of a file.
    run(&folder, "ls -- --json").refused(1, "--json does not exist; give the path of an archive");
}

/// One bit is flipped anywhere in an archive: the damage is detected early, late or not at all.
#[test]
fn damage_anywhere_results_in_one_json_document() {
    let folder = Folder::with_site();
    build_site(&folder);
    let whole = folder.read("site.pinion");
    let mut cut_short = 0;
    for at in (0..whole.len()).step_by(61) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        folder.write("flipped.pinion", &flipped);
        for arguments in [
            "ls flipped.pinion",
            "inspect flipped.pinion",
            "cat flipped.pinion /style.css",
            "verify flipped.pinion",
            "diff site.pinion flipped.pinion",
        ] {
            let run = run(&folder, &format!("{arguments} --json"));
            let json = run.json();
            let good = json["error"].is_null() && json["sound"] != false;
            assert_eq!(run.code, i32::from(!good), "byte {at}: {arguments}: {json}");
            cut_short += u32::from(!good && !json["entries"].is_null() && json["sound"].is_null());
        }
    }
    assert!(cut_short > 0, "no damage showed in the middle of a list");
}

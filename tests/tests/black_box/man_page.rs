//! The manual as man(1) displays it: groff reports no warning.

use pinion_tests::external_programs::{output, program};
use pinion_tests::server::run;
use pinion_tests::temporary_folder::Folder;
use std::path::Path;

/// Returns the warnings of groff about a page; its output is discarded.
#[track_caller]
fn warnings(page: &Path) -> String {
    let mut man = program("man", "man-db");
    // All warnings of groff, not only the default ones of man(1).
    man.args(["--warnings=w", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(page);
    // The width of a usual terminal, whatever that of the tests is.
    man.env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8").env_remove("MANOPT");
    let ended = output(&mut man);
    let said = String::from_utf8(ended.stderr).expect("text");
    assert!(ended.status.success(), "{}: {said}", page.display());
    let drawn = String::from_utf8_lossy(&ended.stdout);
    assert!(drawn.starts_with("x T utf8\n") && drawn.len() > 200, "{}: {drawn}", page.display());
    said
}

/// Returns the names of all pages, from the error for a wrong name.
fn pages() -> Vec<String> {
    let ended = run(&["man", "none"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let (_, names) = ended.stderr.trim_end().split_once("there are ").expect("names");
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn groff_warns_about_no_page() {
    let folder = Folder::new("manual");
    let pages = pages();
    for page in ["pinion", "pinion.toml", "serve", "build", "diff", "version"] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    for page in pages {
        let text = run(&["man", &page]);
        assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""), "{page}");
        folder.write(&page, &text.stdout);
        assert_eq!(warnings(&folder.join(&page)), "", "{page}");
    }
}

/// Without this test the other one could miss all errors.
#[test]
fn groff_warnings_are_detected() {
    let folder = Folder::new("wrong-manual");
    for (fault, expected) in
        [(".NONE\n", "macro 'NONE' not defined"), ("\\(zz\n", "can't find special character 'zz'")]
    {
        let page = run(&["man", "serve"]).stdout + fault;
        folder.write("page", page);
        let said = warnings(&folder.join("page"));
        assert!(said.contains(expected), "{fault:?}: {said:?}");
    }
}

//! The manual as man(1) shows it: groff finds nothing to warn about.

use pinion_tests::folder::Folder;
use pinion_tests::peers::{output, program};
use pinion_tests::server::run;
use std::path::Path;

/// What groff says of a page; its pages and requests go nowhere.
#[track_caller]
fn warnings(page: &Path) -> String {
    let mut man = program("man", "man-db");
    // All of groff's warnings, not only those that man(1) asks for by itself.
    man.args(["--warnings=w", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(page);
    // As in a terminal of the usual width, whatever the one of the tests is.
    man.env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8").env_remove("MANOPT");
    let ended = output(&mut man);
    let said = String::from_utf8(ended.stderr).expect("text");
    assert!(ended.status.success(), "{}: {said}", page.display());
    let drawn = String::from_utf8_lossy(&ended.stdout);
    assert!(drawn.starts_with("x T utf8\n") && drawn.len() > 200, "{}: {drawn}", page.display());
    said
}

/// The pages there are, as a wrong name is answered.
fn pages() -> Vec<String> {
    let ended = run(&["man", "none"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let (_, names) = ended.stderr.trim_end().split_once("there are ").expect("names");
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn no_page_gives_groff_a_reason_to_warn() {
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

/// Without this one the other could be blind.
#[test]
fn what_is_wrong_with_a_page_is_told() {
    let folder = Folder::new("wrong-manual");
    for (fault, told) in
        [(".NONE\n", "macro 'NONE' not defined"), ("\\(zz\n", "can't find special character 'zz'")]
    {
        let page = run(&["man", "serve"]).stdout + fault;
        folder.write("page", page);
        let said = warnings(&folder.join("page"));
        assert!(said.contains(told), "{fault:?}: {said:?}");
    }
}

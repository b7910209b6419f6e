//! `pinion diff`: the changes that a release would make.

use crate::pinion_runner::{Run, members, run};
use crate::temporary_folder::Folder;
use serde_json::{Value, json};

/// Builds two releases of one site, as `a.pinion` and `b.pinion`.
fn releases() -> Folder {
    let folder = Folder::with_site();
    folder.write("site/gone.txt", "gone");
    folder.write("site/same.html", "<!doctype html><title>same</title>");
    builds(&folder, "a", "");
    folder.write("site/index.html", "<!doctype html><title>second</title>");
    folder.write("site/new.html", "<!doctype html><title>new</title>");
    std::fs::remove_file(folder.join("site/gone.txt")).expect("removed");
    let old = std::time::SystemTime::UNIX_EPOCH;
    let same = std::fs::File::options().write(true).open(folder.join("site/same.html"));
    same.and_then(|file| file.set_modified(old)).expect("a time");
    builds(&folder, "b", "");
    folder
}

#[track_caller]
fn builds(folder: &Folder, name: &str, flags: &str) {
    let run = run(folder, &format!("build site -o {name}.pinion {flags}"));
    assert_eq!(run.code, 0, "{}", run.stderr);
}

fn change<'a>(document: &'a Value, path: &str) -> &'a Value {
    let changes = document["changes"].as_array().expect("a list");
    let found = changes.iter().find(|change| change["path"] == path);
    found.unwrap_or_else(|| panic!("no {path} in {document}"))
}

/// Returns the output without the sizes of the archives, which depend on alignment.
fn lines(run: &Run) -> Vec<&str> {
    run.text().lines().filter(|line| !line.starts_with("content ")).collect()
}

#[test]
fn the_text_lists_changes_and_a_summary() {
    let folder = releases();
    let run = run(&folder, "diff a.pinion b.pinion");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(
        lines(&run),
        [
            "~ /index.html  content 35 B -> 36 B",
            "+ /new.html  33 B  text/html; charset=utf-8",
            "- /gone.txt  4 B  text/plain; charset=utf-8",
            "1 added, 1 removed, 1 changed, 7 unchanged, 1 with another time only; \
             5 other names of these",
        ]
    );
    let sizes = run.text().lines().last().expect("a line");
    assert!(sizes.starts_with("content 73 B -> 103 B (+30 B), archive "), "{sizes}");
}

#[test]
fn the_json_has_changes_and_a_summary() {
    let folder = releases();
    let document = run(&folder, "diff a.pinion b.pinion --json").json();
    assert_eq!(
        members(&document),
        ["after", "before", "built_in", "changes", "code", "rules", "summary"]
    );
    let index = change(&document, "/index.html");
    assert_eq!(
        members(index),
        ["after", "aspects", "before", "change", "fields", "follows", "path"]
    );
    assert_eq!((&index["change"], &index["follows"]), (&"changed".into(), &false.into()));
    assert!(index["aspects"].as_array().expect("a list").contains(&"content".into()));
    assert_eq!(index["before"]["representations"][0]["bytes"], 35);
    assert_eq!(index["after"]["representations"][0]["bytes"], 36);
    assert_eq!(change(&document, "/")["follows"], true);
    assert_eq!(change(&document, "/new.html")["before"], Value::Null);
    assert_eq!(change(&document, "/gone.txt")["after"], Value::Null);
    let touched = change(&document, "/same.html");
    assert_eq!(
        (&touched["change"], &touched["aspects"]),
        (&"touched".into(), &json!(["modified"]))
    );
    let summary = &document["summary"];
    for (name, figure) in [("added", 1), ("removed", 1), ("changed", 1), ("touched", 1)] {
        assert_eq!(summary[name], figure, "{name}");
    }
    assert_eq!(summary["content_bytes"], json!({"before": 73, "after": 103}));
    assert_eq!(summary["archive_bytes"]["after"], folder.read("b.pinion").len());
}

#[test]
fn fields_and_codings_are_named() {
    let folder = Folder::with_site();
    builds(&folder, "a", "");
    builds(&folder, "b", "--cache-control no-cache --no-security-headers --codings br");
    let run = run(&folder, "diff a.pinion b.pinion");
    let style = run.text().split("~ /style.css").nth(1).expect("a line");
    let style = style.split("\n~ ").next().unwrap_or_default();
    for line in [
        "codings gzip ",
        " -> br ",
        "    Cache-Control: max-age=0, must-revalidate -> no-cache\n",
        "    X-Content-Type-Options: nosniff -> none\n",
    ] {
        assert!(style.contains(line), "{style}");
    }
    assert!(!style.contains("content"), "{style}");
    let built_in = "~ built-in pages\n    X-Content-Type-Options: nosniff -> none\n";
    assert!(run.text().contains(built_in), "{}", run.text());
}

#[test]
fn the_exit_code_flag_reports_differences() {
    let folder = releases();
    assert_eq!(run(&folder, "diff a.pinion b.pinion --exit-code").code, 1);
    assert_eq!(run(&folder, "diff a.pinion b.pinion --exit-code --json").code, 1);
    let same = run(&folder, "diff a.pinion a.pinion --exit-code");
    assert_eq!((same.code, same.text()), (0, "the same archive\n"));
    let document = run(&folder, "diff a.pinion a.pinion --json").json();
    assert_eq!((&document["changes"], &document["summary"]["same"]), (&json!([]), &true.into()));
}

#[test]
fn damage_is_reported_with_its_file() {
    let folder = releases();
    let figures = run(&folder, "inspect b.pinion --json").json();
    let mut sections = figures["sections"].as_array().expect("a list").iter();
    let digests = sections.find(|section| section["name"] == "digests").expect("a section");
    let offset = usize::try_from(digests["offset"].as_u64().expect("a number")).expect("a place");
    let mut bytes = folder.read("b.pinion");
    bytes[offset] ^= 1;
    folder.write("b.pinion", &bytes);
    run(&folder, "diff a.pinion b.pinion").refused(1, "b.pinion is damaged: digests section");
    run(&folder, "diff none b.pinion")
        .refused(1, "none does not exist; give the path of an archive");
    let document = run(&folder, "diff a.pinion b.pinion --json").json();
    assert_eq!(members(&document), ["after", "before", "changes", "error"]);
}

/// Builds two releases that differ in the status of the fallback page of a folder, in that of a
/// redirect, and in rules with patterns. Each difference is reported as clients see it.
fn statuses_and_rules() -> Folder {
    let folder = Folder::with_site();
    folder.write("site/docs/_404.html", "a page");
    folder.write("site/_redirects", "/old /index.html 301\n/blog/* /news/:splat\n/a/* /b 302\n");
    builds(&folder, "a", "");
    std::fs::rename(folder.join("site/docs/_404.html"), folder.join("site/docs/_200.html"))
        .expect("another name");
    folder.write("site/_redirects", "/old /index.html 302\n/a/* /b 302\n/blog/* /posts/:splat\n");
    builds(&folder, "b", "");
    folder
}

#[test]
fn statuses_and_rules_are_in_the_text() {
    let folder = statuses_and_rules();
    let diff = run(&folder, "diff a.pinion b.pinion");
    assert_eq!((diff.code, diff.stderr.as_str()), (0, ""));
    assert_eq!(
        lines(&diff),
        [
            "~ anything else below /docs/  status 404 -> 200",
            "    Cache-Control: no-store -> max-age=0, must-revalidate",
            "    Accept-Ranges: none -> bytes",
            "~ /_redirects itself, which no client is sent  content 54 B -> 55 B",
            "~ /old  status 301 -> 302",
            "~ /old/  status 301 -> 302",
            "+ rule /blog/* -> /posts/:splat  301",
            "- rule /blog/* -> /news/:splat  301",
            "0 added, 0 removed, 4 changed, 10 unchanged",
        ]
    );
}

#[test]
fn statuses_and_rules_are_in_the_document() {
    let folder = statuses_and_rules();
    let document = run(&folder, "diff a.pinion b.pinion --json").json();
    let old = change(&document, "/old");
    assert_eq!((&old["change"], &old["aspects"]), (&"changed".into(), &json!(["status"])));
    assert_eq!((&old["before"]["status"], &old["after"]["status"]), (&301.into(), &302.into()));
    let page = change(&document, "/docs/");
    let aspects = page["aspects"].as_array().expect("a list");
    for aspect in ["status", "fields"] {
        assert!(aspects.contains(&aspect.into()), "{page}");
    }
    assert!(!aspects.contains(&"content".into()), "{page}");
    let kinds = (&page["before"]["kind"], &page["after"]["kind"]);
    assert_eq!(kinds, (&"not-found".into(), &"fallback".into()));
    assert_eq!((&page["before"]["status"], &page["after"]["status"]), (&404.into(), &200.into()));
    let cached = json!({
        "name": "Cache-Control",
        "before": "no-store",
        "after": "max-age=0, must-revalidate",
    });
    assert!(page["fields"].as_array().expect("a list").contains(&cached), "{page}");

    let rules = &document["rules"];
    for (list, target) in [("added", "/posts/:splat"), ("removed", "/news/:splat")] {
        let rules = rules[list].as_array().expect("a list");
        assert_eq!(rules.len(), 1, "{list}: {rules:?}");
        let rule = (&rules[0]["path"], &rules[0]["target"], &rules[0]["status"]);
        assert_eq!(rule, (&"/blog/*".into(), &target.into(), &301.into()), "{list}");
    }
    // Both archives have only one common rule, which cannot be out of order.
    assert_eq!(rules["reordered"], false);
    assert_eq!(document["summary"]["changed"], 4);
}

#[test]
fn rules_in_another_order_are_a_difference() {
    let folder = Folder::with_site();
    folder.write("site/_redirects", "/a/:x/b /1\n/a/y/* /2 302\n");
    builds(&folder, "a", "");
    folder.write("site/_redirects", "/a/y/* /2 302\n/a/:x/b /1\n");
    builds(&folder, "b", "");
    let diff = run(&folder, "diff a.pinion b.pinion");
    assert!(lines(&diff).contains(&"~ rules  in another order"), "{}", diff.text());
    let document = run(&folder, "diff a.pinion b.pinion --json").json();
    let nothing = json!([]);
    assert_eq!(document["rules"], json!({"added": nothing, "removed": nothing, "reordered": true}));
}

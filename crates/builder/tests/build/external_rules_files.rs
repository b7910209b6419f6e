//! Files of rules outside of the folder: they apply as if they were appended to its own rules.

use pinion_builder::{BuildError, Options};
use proptest::prelude::*;

use crate::archive_reader::{Site, built, built_with, options};
use crate::temporary_folder::Folder;

/// Returns options with these files, which are in another folder.
fn with(beside: &Folder, rules: &[&str], fields: &[&str]) -> Options {
    let paths = |names: &[&str]| names.iter().map(|name| beside.join(name)).collect();
    Options { rules: paths(rules), fields: paths(fields), ..options() }
}

fn pages() -> Folder {
    Folder::with(&[("a.html", "a"), ("b/index.html", "b"), ("b/_redirects", "./x /a\n")])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn external_rules_equal_rules_in_the_folder(
        rules in prop::collection::vec("/(old|b|c/:x|c/\\*) /(new|a)( (302|200|404))?", 0..6),
        fields in prop::collection::vec("/(\\*|a|b/\\*)\n (X-A: 1|! Vary|Content-Type: a/b)", 0..6),
        cuts in (0..6_usize, 0..6_usize, 0..6_usize),
        named in any::<bool>(),
    ) {
        let name = if named { "_redirects.txt" } else { "_redirects" };
        let whole = pages();
        whole.file(name, rules.join("\n"));
        whole.file("_headers", fields.join("\n"));
        // The folder has the first lines, or no such file; two files have the others.
        let (folder, beside) = (pages(), Folder::new());
        let first = cuts.0.min(rules.len());
        let second = first + cuts.1.min(rules.len() - first);
        let of_fields = cuts.2.min(fields.len());
        if first > 0 || named || rules.is_empty() {
            folder.file(name, rules[..first].join("\n"));
        }
        if of_fields > 0 || fields.is_empty() {
            folder.file("_headers", fields[..of_fields].join("\n"));
        }
        beside.file("one", rules[first..second].join("\n"));
        beside.file("two", rules[second..].join("\n"));
        beside.file("fields", fields[of_fields..].join("\n"));
        // A line break more would be in the archive: an empty file adds none to compare with.
        let mut of_rules = vec!["one", "two"];
        of_rules.retain(|name| std::fs::metadata(beside.join(name)).unwrap().len() > 0);
        let more = if of_fields < fields.len() { vec!["fields"] } else { Vec::new() };
        let options = with(&beside, &of_rules, &more);
        let split = built_with(&folder, &options).unwrap();
        prop_assert!(built(&whole).bytes == split.bytes);
    }
}

#[test]
fn errors_in_external_rules_name_their_file_and_line() {
    let beside = Folder::with(&[("r", "/a /b\n/c d\n"), ("f", "/*\n  X-A: 1\n X-B\n")]);
    let wrong = built_with(&pages(), &with(&beside, &["r"], &["f"]));
    let Err(BuildError::Rules(errors)) = wrong else { panic!("{:?}", wrong.map(|_| ())) };
    let places: Vec<_> = errors.iter().map(|e| (e.file.clone(), e.line, e.column)).collect();
    assert_eq!(places, [(beside.join("f"), 3, 2), (beside.join("r"), 2, 4)]);
}

/// The name of a file outside could be equal to that of a file below the folder.
#[test]
fn an_external_relative_path_is_reported_with_a_dot() {
    let options = Options { rules: vec!["no-such-rules".into()], ..options() };
    let error = built_with(&pages(), &options).map(|_| ()).unwrap_err();
    let BuildError::UnreadRules(problems) = error else { panic!("{error}") };
    assert_eq!(problems[0].path.to_str(), Some("./no-such-rules"));
}

#[test]
fn a_rules_file_named_twice_is_an_error() {
    let beside = Folder::with(&[("r", "/x /y\n")]);
    let folder = pages();
    folder.file("_redirects", "/x /y\n");
    beside.link("again", beside.join("r"));
    beside.link("own", folder.join("_redirects"));
    for names in [["r", "r"], ["r", "again"], ["own", "r"]] {
        let wrong = built_with(&folder, &with(&beside, &names, &[]));
        let Err(BuildError::Rules(errors)) = wrong else { panic!("{:?}", wrong.map(|_| ())) };
        let expected = "another file: this one is read already; name it once";
        assert_eq!(errors[0].expected, expected, "{names:?}");
    }
}

#[test]
fn a_named_rules_file_in_the_folder_is_not_published() {
    let folder = pages();
    folder.file("our-rules", "/x /y\n");
    folder.file("b/our-fields", "/*\n X-A: 1\n");
    let before = built(&folder);
    assert!(before.keys().contains(&"/our-rules"));
    let site = built_with(&folder, &with(&folder, &["our-rules"], &["b/our-fields"])).unwrap();
    assert!(site.keys().iter().all(|key| !key.contains("our-")), "{:?}", site.keys());
    let skipped: Vec<_> = site.summary.skipped.iter().filter_map(|path| path.to_str()).collect();
    assert_eq!(skipped, ["b/our-fields", "our-rules"]);
}

#[test]
fn an_unreadable_external_rules_file_fails_the_build() {
    let beside = Folder::new();
    beside.pipe("pipe");
    beside.folder("folder");
    for (name, reason) in
        [("none", "No such file"), ("pipe", "a named pipe"), ("folder", "Is a directory")]
    {
        for options in [with(&beside, &[name], &[]), with(&beside, &[], &[name])] {
            for keep_going in [false, true] {
                let options = Options { keep_going, ..options.clone() };
                let error = built_with(&pages(), &options).map(|_| ()).unwrap_err();
                assert!(matches!(error, BuildError::UnreadRules(_)), "{error:?}");
                assert!(error.to_string().contains(reason), "{error}");
            }
        }
    }
}

#[test]
fn all_rules_files_together_have_the_length_limit_of_one() {
    let line = format!("# {}\n", "x".repeat(997));
    let half = pinion_builder::limits::RULES_FILE_MAX_BYTES as usize / 2 / line.len();
    let (folder, beside) = (pages(), Folder::new());
    folder.file("_redirects", line.repeat(half));
    beside.file("fits", line.repeat(half));
    beside.file("too-long", line.repeat(half + 2));
    let fits = |name| built_with(&folder, &with(&beside, &[name], &[])).map(|_: Site| ());
    fits("fits").unwrap();
    let error = fits("too-long").unwrap_err().to_string();
    assert!(error.contains("bytes in all files of this kind"), "{error}");
}

#[test]
fn warnings_name_the_external_rules_file() {
    let beside = Folder::with(&[("f", "/a\nhttps://example.org/*\n  X-A: 1\n"), ("r", "/a /x\n")]);
    let site = built_with(&pages(), &with(&beside, &["r"], &["f"])).unwrap();
    let warnings: Vec<String> = site.summary.warnings.iter().map(ToString::to_string).collect();
    let of = |name: &str, line: usize| format!("{}:{line}:1: ", beside.join(name).display());
    for start in [of("f", 1), of("f", 2), of("r", 1)] {
        assert!(
            warnings.iter().any(|warning| warning.starts_with(&start)),
            "{start}: {warnings:?}"
        );
    }
}

/// Wrong lines are left out and reported, and nothing else changes.
#[test]
fn lax_rules_skips_invalid_lines() {
    let folder = pages();
    folder.file(
        "_redirects",
        "/old /new\n/c d\n/de /a 302 Country=de\n/loop /loop\n/api https://api.example/ 200\n",
    );
    folder.file("_headers", "/*\n  X-A: 1\n  X-B\n/%zz\n  X-C: 1\n/b/*\n  X-D: 1\n");
    let strict = built_with(&folder, &options());
    let Err(BuildError::Rules(errors)) = strict else { panic!("{:?}", strict.map(|_| ())) };
    assert_eq!(errors.len(), 5, "{errors:?}");
    let lax = Options { lax_rules: true, ..options() };
    let site = built_with(&folder, &lax).unwrap();
    let warnings: Vec<String> = site.summary.warnings.iter().map(ToString::to_string).collect();
    let places = [
        "_headers:3:3: skipped by --lax-rules: expected a path, Name: value, or ! Name, found",
        "_headers:4:2: skipped by --lax-rules: expected two hexadecimal digits",
        "_redirects:2:4: skipped by --lax-rules: expected a target",
        "_redirects:3:12: skipped by --lax-rules: expected no condition",
        "_redirects:4:7: skipped by --lax-rules: expected another target",
        "_redirects:5:6: skipped by --lax-rules: expected a path of this site",
    ];
    assert_eq!(warnings.len(), places.len(), "{warnings:?}");
    for (warning, place) in warnings.iter().zip(places) {
        assert!(warning.starts_with(place), "{warning}");
    }
    let right = pages();
    right.file("_redirects", "/old /new\n");
    right.file("_headers", "/*\n  X-A: 1\n/b/*\n  X-D: 1\n");
    let right = built(&right);
    for path in ["/old", "/old/", "/a", "/b/"] {
        let (one, other) = (site.page(path), right.page(path));
        assert_eq!(
            (one.status, &one.target, &one.forms),
            (other.status, &other.target, &other.forms)
        );
    }
    assert!(!site.keys().contains(&"/loop"));
}

/// Without a rule another one may lead to itself that this one kept from it.
#[test]
fn lax_rules_skips_loops_until_none_remains() {
    let folder = Folder::with(&[("a.html", "a")]);
    folder.file("_redirects", "/x/* /x/:splat\n/x/y /x/y\n/z /a\n");
    let lax = Options { lax_rules: true, ..options() };
    let site = built_with(&folder, &lax).unwrap();
    assert_eq!(site.summary.warnings.len(), 2, "{:?}", site.summary.warnings);
    assert_eq!(site.summary.redirect_rules, 1);
}

/// If another server responds to paths that the site does not have, a rule that responds to every
/// path would leave nothing for that server.
#[test]
fn catch_all_rewrites_are_refused_with_a_fallback_server() {
    let rules = "/* /a 200\n/b/* /a 200\n/* /a 404\n/* /x 301\nhttps://a.test/* /a 200\n\
                 /* q=:q /a 200\n/* /a 200!\n";
    let folder = Folder::with(&[("a.html", "a"), ("_redirects", rules)]);
    assert!(built_with(&folder, &options()).is_ok(), "without another server");
    let strict = Options { has_fallback_server: true, ..options() };
    let Err(BuildError::Rules(errors)) = built_with(&folder, &strict) else { panic!("no error") };
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    for (message, line) in messages.iter().zip([1, 7]) {
        let front = format!("_redirects:{line}:1: expected a rule for some paths");
        assert!(message.starts_with(&front), "{message}");
    }
    let lax = Options { lax_rules: true, ..strict };
    let site = built_with(&folder, &lax).expect("a site");
    let warnings: Vec<String> = site.summary.warnings.iter().map(ToString::to_string).collect();
    let is_left_out =
        |warning: &&String| warning.contains("skipped by --lax-rules: expected a rule for");
    assert_eq!(warnings.iter().filter(is_left_out).count(), 2, "{warnings:?}");
}

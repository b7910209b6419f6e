//! `pinion check` finds mistakes before a server meets them.

use crate::pinion_runner::{build_site, run};
use crate::temporary_folder::Folder;

/// Returns the status and the output of a check of a configuration.
fn checked(folder: &Folder, text: &str) -> (i32, String, String) {
    folder.write("pinion.toml", text);
    let run = run(folder, "check");
    (run.code, run.text().to_owned(), run.stderr.clone())
}

#[test]
fn a_log_with_two_formats_is_an_error_in_the_line_of_the_second() {
    let folder = Folder::with_site();
    std::os::unix::fs::symlink("a.log", folder.join("link.log")).expect("a link");
    let site = |host: &str, log: &str, format: &str| {
        format!("[[site]]\npath = \"site\"\nhosts = [\"{host}\"]\naccess-log = \"{log}\"\n{format}")
    };
    let (json, combined) = ("log-format = \"json\"\n", "log-format = \"combined\"\n");
    let server = "[log]\naccess = \"a.log\"\nformat = \"json\"\n";
    let both = |first: String, second: String| first + &second;
    let wrong = |at: &str, name: &str, first: &str, line: usize, second: &str| {
        format!(
            "pinion.toml:{at}: access-log: {name} is written in the format {first} by line {line}, \
             and here in {second}; write log-format = \"{first}\" here, or name another file\n"
        )
    };
    for (text, expected) in [
        (both(site("a", "a.log", ""), site("b", "a.log", combined)), None),
        (both(site("a", "a.log", json), site("b", "b.log", "")), None),
        (both(site("a", "a.log", json), server.to_owned()), None),
        (
            both(site("a", "a.log", ""), site("b", "a.log", json)),
            Some(wrong("8:14", "a.log", "combined", 4, "json")),
        ),
        (
            both(site("a", "a.log", ""), site("b", "./a.log", json)),
            Some(wrong("8:14", "./a.log", "combined", 4, "json")),
        ),
        (
            both(site("a", "a.log", ""), site("b", "link.log", json)),
            Some(wrong("8:14", "link.log", "combined", 4, "json")),
        ),
        (
            both(site("a", "-", json), site("b", "-", combined)),
            Some(wrong("9:14", "stdout", "json", 4, "combined")),
        ),
        (
            both(site("a", "a.log", ""), server.to_owned()),
            Some(wrong("4:14", "a.log", "json", 6, "combined")),
        ),
    ] {
        let (code, lines, stderr) = checked(&folder, &text);
        match expected {
            Some(expected) => assert_eq!((code, lines), (2, expected), "{text}"),
            None => assert_eq!(code, 0, "{text}: {lines}{stderr}"),
        }
    }
}

#[test]
fn an_address_that_two_listeners_name_is_an_error_that_names_both() {
    let folder = Folder::with_site();
    let same = "name the same address; give one of them another port";
    for (first, second, expected) in [
        (
            "address = 8080",
            "tls = \":8080\"",
            format!("tls :8080 and address :8080 in line 4 {same}"),
        ),
        (
            "address = \"[::1]:80\"",
            "address = \"[::1]:80\"",
            format!("address [::1]:80 and address [::1]:80 in line 4 {same}"),
        ),
        (
            "tls = 443",
            "address = \"localhost:443\"",
            "address localhost:443 and tls :443 in line 4 have the port in common, and one of \
             them is for every address of the machine; give one of them another port"
                .to_owned(),
        ),
    ] {
        let text =
            format!("[[site]]\npath = \"site\"\n[[listen]]\n{first}\n[[listen]]\n{second}\n");
        let (code, lines, _) = checked(&folder, &text);
        let (place, message) = lines.trim_end().split_once(": ").expect("a place");
        assert!(place.starts_with("pinion.toml:6:"), "{lines}");
        assert_eq!((code, message), (2, &*expected));
    }
    // The same port of UDP is another port.
    let text = "[[site]]\npath = \"site\"\n[[listen]]\ntls = 443\n[[listen]]\nquic = 443\n";
    assert_eq!(checked(&folder, text).0, 0);
}

#[test]
fn a_value_without_meaning_is_a_warning() {
    let folder = Folder::with_site();
    for value in ["true", "false", "\"no-cache\""] {
        let text = format!("[[site]]\npath = \"site\"\ncache-control = {value}\n");
        let (code, lines, stderr) = checked(&folder, &text);
        assert_eq!((code, &*lines), (0, "pinion.toml: no errors, 1 site\n"));
        let expected = match value {
            "true" => {
                "warning: pinion.toml:3:17: cache-control: true is the default and has no effect; \
                 write a value in quotes, or false\n"
            }
            _ => "",
        };
        assert_eq!(stderr, expected);
    }
}

/// An archive is opened, which finds a wrong file; its contents are not read.
#[test]
fn check_notes_that_archive_contents_are_unverified() {
    let folder = Folder::with_site();
    build_site(&folder);
    let mut bytes = folder.read("site.pinion");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    folder.write("site.pinion", bytes);
    let note = "site.pinion: its contents were not verified; `pinion verify site.pinion` does that";
    let of_archive = run(&folder, "check site.pinion");
    assert_eq!((of_archive.code, &*of_archive.stderr), (0, &*format!("note: {note}\n")));
    let (code, _, stderr) = checked(&folder, "[[site]]\npath = \"site.pinion\"\n");
    assert_eq!((code, stderr), (0, format!("note: {note}\n")));
    let document = run(&folder, "check site.pinion --json").json();
    assert_eq!(document["notes"], serde_json::json!([note]));
    assert_eq!(run(&folder, "verify site.pinion").code, 1);
}

/// Returns the warnings of a check of a folder with one more file, without their beginning.
fn warnings(file: &str, text: &str) -> Vec<String> {
    let folder = Folder::with_site();
    folder.write(&format!("site/{file}"), text);
    let checked = run(&folder, "check site");
    assert_eq!(checked.code, 0, "{}", checked.text());
    // Warnings about rules begin with the path of the file.
    let text = |line: &str| {
        let line = line.strip_prefix("warning: ")?;
        Some(line.strip_prefix("site: ").or(line.strip_prefix("site/"))?.to_owned())
    };
    checked.stderr.lines().filter_map(text).collect()
}

#[test]
fn a_name_that_is_almost_that_of_a_rules_file_is_a_warning() {
    for (name, expected) in [
        ("_header", "published as a file, its rules are not read; rename it to _headers"),
        ("_headers.txt", "published as a file, its rules are not read; rename it to _headers"),
        ("redirects", "published as a file, its rules are not read; rename it to _redirects"),
        ("_Redirects", "never served, its rules are not read; rename it to _redirects"),
    ] {
        assert_eq!(warnings(name, ""), [format!("{name}: {expected}")]);
    }
    for name in ["_redirects", "docs/_header", "header.html"] {
        assert!(warnings(name, "").is_empty(), "{name}");
    }
}

#[test]
fn a_site_without_any_file_is_a_warning() {
    let folder = Folder::new();
    std::fs::create_dir(folder.join("site")).expect("a folder");
    let warned = |expected: &str| {
        let checked = run(&folder, "check site");
        assert_eq!((checked.code, &*checked.stderr), (0, expected), "{}", checked.text());
    };
    let empty = "warning: site: there is no file to publish; every request gets 404\n";
    warned(empty);
    folder.write("site/_redirects", "/* https://example.org/:splat\n");
    warned("");
}

#[test]
fn placeholders_without_effect_in_a_target_are_warnings() {
    let force = |status| {
        format!(
            "_redirects:1:4: the ! is part of the target here; to force the rule, write it after \
             the status, as in {status}!"
        )
    };
    let star = |column| {
        format!(
            "_redirects:1:{column}: the * of the target is sent as it is; write :splat for what \
             the * of the path stands for"
        )
    };
    let foreign = "_redirects:1:9: $1 is ordinary text in a target; write :splat for what the * of \
                   the path stands for, or :name for a placeholder of the path";
    let group = "_redirects:1:4: (.*) is ordinary text in a path; write * for the rest of a path \
                 (:splat in the target), or :name for one segment";
    for (line, expected) in [
        ("/a /b!", vec![force("301")]),
        ("/a /b! 302", vec![force("302")]),
        ("/a /b 301!", vec![]),
        ("/x* /y/*", vec![star(5)]),
        ("/x/* https://example.org/*", vec![star(6)]),
        ("/x/* /y/$1", vec![foreign.to_owned()]),
        ("/x/(.*) /y", vec![group.to_owned()]),
        ("/x/* /y/:splat", vec![]),
    ] {
        assert_eq!(warnings("_redirects", line), expected, "{line}");
    }
}

/// The check is the same as in a build, which does not walk through the whole machine either.
#[test]
fn a_link_to_a_folder_that_holds_the_site_is_a_warning() {
    let folder = Folder::with_site();
    for (name, target) in [("up", ".."), ("root", "/"), ("self", ".")] {
        std::os::unix::fs::symlink(target, folder.join(&format!("site/{name}"))).expect("a link");
    }
    let checked = run(&folder, "check site");
    let line = |name: &str| {
        let problem = "not followed: a symbolic link to a folder that contains it";
        format!("warning: site: {name}: {problem}\n")
    };
    let expected = ["root", "self", "up"].map(line).concat();
    assert_eq!((checked.code, checked.stderr), (0, expected));
}

#[test]
fn two_values_of_a_field_that_may_have_one_are_a_warning() {
    let expected = "_headers:3:1: the pattern in line 1 gives X-Frame-Options to the same paths, \
                    and browsers do not accept two values; write `! X-Frame-Options` above the \
                    second one to replace the first";
    let text = "/*\n  X-Frame-Options: DENY\n/a\n  X-Frame-Options: SAMEORIGIN\n";
    assert_eq!(warnings("_headers", text), [expected]);
}

/// A fault begins with the name of its file, which appears once.
#[test]
fn a_file_that_is_no_archive_is_named_once() {
    let folder = Folder::with_site();
    build_site(&folder);
    let bytes = folder.read("site.pinion");
    folder.write("site.pinion", &bytes[..3000]);
    let truncated = run(&folder, "check site.pinion");
    assert_eq!(truncated.code, 2, "{}", truncated.stderr);
    let text = truncated.text();
    assert!(text.starts_with("site.pinion: truncated archive"), "{text}");
    assert_eq!(text.matches("site.pinion").count(), 1, "{text}");
    folder.write("other.pinion", "no archive");
    let other = run(&folder, "check other.pinion");
    other.refused(2, "other.pinion is neither a folder nor a Pinion archive");
}

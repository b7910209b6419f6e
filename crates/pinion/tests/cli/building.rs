//! `pinion build`: its output, and the files that remain after a failure.

use crate::pinion_runner::{build_site, command, members, run};
use crate::temporary_folder::Folder;
use std::os::unix::fs::symlink;

#[test]
fn a_build_is_one_line_and_one_file() {
    let folder = Folder::with_site();
    let built = run(&folder, "build site -o site.pinion");
    assert_eq!((built.code, built.stdout.as_slice()), (0, &b""[..]));
    assert_eq!(built.stderr.lines().count(), 1, "{}", built.stderr);
    assert!(built.stderr.contains("site.pinion: 4 files"), "{}", built.stderr);
    // One body is compressed; a line about a coding without any would be noise.
    assert!(built.stderr.contains("gzip ") && built.stderr.contains("br "), "{}", built.stderr);
    folder.write("tiny/index.html", "small");
    let tiny = run(&folder, "build tiny -o tiny.pinion");
    assert!(!tiny.stderr.contains("gzip ") && !tiny.stderr.contains("br "), "{}", tiny.stderr);
    std::fs::remove_dir_all(folder.join("tiny")).expect("removed");
    std::fs::remove_file(folder.join("tiny.pinion")).expect("removed");
    assert_eq!(folder.names(), ["site", "site.pinion"]);
}

#[test]
fn json_is_the_only_thing_on_stdout() {
    let folder = Folder::with_site();
    let built = run(&folder, "build site -o site.pinion --json");
    assert_eq!((built.code, built.stderr.as_str()), (0, ""));
    let json = built.json();
    assert_eq!(
        members(&json),
        [
            "aliases",
            "archive",
            "archive_bytes",
            "code",
            "codings",
            "digest",
            "entries",
            "error_pages",
            "files",
            "fingerprinted",
            "folders",
            "listings",
            "not_found_pages",
            "previous_assets",
            "previous_bytes",
            "problems",
            "repeated_bytes",
            "repeated_files",
            "reused_codings",
            "rules",
            "seconds",
            "shadowed",
            "skipped",
            "slowest",
            "source_bytes",
            "special",
            "unread_files",
            "warnings"
        ]
    );
    assert_eq!((&json["files"], &json["archive"]), (&4.into(), &"site.pinion".into()));
    assert_eq!(json["archive_bytes"], folder.read("site.pinion").len());
}

#[test]
fn every_file_that_cannot_be_read_is_named_and_nothing_is_left_behind() {
    let folder = Folder::with_site();
    symlink("nowhere", folder.join("site/a")).expect("a link");
    symlink("nowhere", folder.join("site/docs/b")).expect("a link");
    let failed = run(&folder, "build site -o site.pinion");
    assert_eq!(failed.code, 1);
    for line in [
        "pinion: a: broken symbolic link",
        "pinion: docs/b: broken symbolic link",
        "pinion: nothing was built because 2 paths cannot be published; correct them, or leave \
         them out with --exclude or --keep-going\n",
    ] {
        assert!(failed.stderr.contains(line), "{}", failed.stderr);
    }
    assert_eq!(folder.names(), ["site"]);

    let json = run(&folder, "build site -o site.pinion --json");
    assert_eq!(json.code, 1);
    assert_eq!(members(&json.json()), ["archive", "error", "problems"]);
    assert_eq!(members(&json.json()["problems"][0]), ["path", "reason"]);

    let built = run(&folder, "build site -o site.pinion --keep-going");
    assert_eq!(built.code, 0);
    assert!(built.stderr.contains("left out docs/b: broken symbolic link"), "{}", built.stderr);
}

/// A server would not start with the archive either, so the build fails as `pinion check` does.
#[test]
fn a_script_that_cannot_be_compiled_ends_the_build() {
    let folder = Folder::with_site();
    folder.write("site/main.lua", "local x = 1\n");
    folder.write("site/lib.lua", "return {}\n");
    build_site(&folder);
    let built = folder.read("site.pinion");
    for (name, text) in [("main.lua", "local x\nif x\n"), ("lib.lua", "return }\n")] {
        let before = folder.read(&format!("site/{name}"));
        folder.write(&format!("site/{name}"), text);
        let failed = run(&folder, "build site -o site.pinion");
        assert_eq!(failed.code, 1, "{}", failed.stderr);
        assert!(failed.stderr.starts_with(&format!("pinion: site/{name}:")), "{}", failed.stderr);
        let last = "pinion: nothing was built because of 1 error in code; correct it";
        assert_eq!(failed.stderr.lines().last(), Some(last));
        assert_eq!(folder.read("site.pinion"), built, "{name}");
        folder.write(&format!("site/{name}"), before);
    }
}

#[test]
fn a_report_in_a_missing_folder_gets_advice() {
    let folder = Folder::with_site();
    let failed = run(&folder, "build site -o site.pinion --report none/r.html");
    let expected = "pinion: cannot write the report none/r.html: No such file or directory; create \
                    its folder first\n";
    assert_eq!((failed.code, &*failed.stderr), (1, expected));
}

#[test]
fn rules_files_that_cannot_be_read_are_a_wrong_command_line() {
    let folder = Folder::with_site();
    for keep_going in ["", " --keep-going"] {
        let flags = "--rules none --fields ./site";
        let built = run(&folder, &format!("build site -o site.pinion {flags}{keep_going}"));
        assert_eq!(
            (built.code, built.stderr.lines().collect::<Vec<_>>()),
            (
                2,
                vec![
                    "pinion: ./none: cannot be read: No such file or directory",
                    "pinion: ./site: cannot be read: Is a directory",
                    "pinion: nothing was built because 2 rules files cannot be read; correct the \
                     path or the permissions",
                ]
            )
        );
        let run_json =
            run(&folder, &format!("build site -o site.pinion {flags}{keep_going} --json"));
        let problems = &run_json.json()["problems"];
        assert_eq!(problems[1]["path"], "./site", "{problems}");
    }
    assert_eq!(folder.names(), ["site"]);
}

#[test]
fn a_report_replaces_only_reports_and_empty_files() {
    let folder = Folder::with_site();
    let build = |flags: &str| run(&folder, &format!("build site -o site.pinion {flags}"));
    assert_eq!(build("--report report.html").code, 0);
    assert_eq!(build("--report report.html").code, 0, "a report is replaced");
    folder.write("empty", "");
    assert_eq!(build("--report empty").code, 0);
    assert!(folder.read("empty").starts_with(b"<!doctype html>"));

    let (page, archive) = (folder.read("site/index.html"), folder.read("site.pinion"));
    folder.write("other.pinion", &archive);
    for (report, code, hint) in [
        ("site.pinion", 2, "is the archive of -o"),
        ("./site/../site.pinion", 2, "is the archive of -o"),
        ("site/index.html", 1, "give another name with --report, or replace it with"),
        ("other.pinion", 1, "give another name with --report, or replace it with"),
        ("site", 1, "cannot write the report site: Is a directory"),
    ] {
        let failed = build(&format!("--report {report}"));
        assert_eq!((failed.code, failed.stdout.as_slice()), (code, &b""[..]), "{report}");
        assert!(failed.stderr.contains(hint), "{report}: {}", failed.stderr);
    }
    // The path is a link to the report, whose file does not exist yet.
    symlink("later.pinion", folder.join("link.pinion")).expect("a link");
    let linked = run(&folder, "build site -o link.pinion --report later.pinion");
    assert_eq!(linked.code, 2, "{}", linked.stderr);
    assert_eq!(run(&folder, "verify later.pinion").code, 0);
    let nowhere = run(&folder, "build site -o new.pinion --report new.pinion");
    assert_eq!(nowhere.code, 2, "{}", nowhere.stderr);
    assert_eq!(folder.read("site/index.html"), page);
    assert_eq!(folder.read("other.pinion"), archive);
    assert_eq!(build("--report other.pinion --force").code, 0);
    assert!(folder.read("other.pinion").starts_with(b"<!doctype html>"));
}

/// A link that is longer than a name may be, which the system refuses to root as well.
#[test]
fn a_file_that_cannot_be_read_is_named_with_the_systems_reason() {
    let folder = Folder::with_site();
    symlink("x".repeat(300), folder.join("site/link")).expect("a link");
    let failed = run(&folder, "build site -o site.pinion");
    assert_eq!(failed.code, 1);
    let line = failed.stderr.lines().next();
    assert_eq!(line, Some("pinion: link: cannot be read: File name too long"));
    assert_eq!(folder.names(), ["site"]);
}

#[test]
fn an_older_archive_in_the_folder_is_named() {
    let folder = Folder::with_site();
    assert_eq!(run(&folder, "build site -o site/one.pinion").code, 0);
    let built = run(&folder, "build site -o site/two.pinion");
    assert_eq!((built.code, built.stderr.lines().count()), (0, 3));
    let warning = "warning: one.pinion: an archive is published; --exclude leaves it out\n";
    assert!(built.stderr.starts_with(warning), "{}", built.stderr);
    let quiet = run(&folder, "build site -o site/two.pinion --exclude one.pinion");
    let left_out = "note: 2 paths left out (publish with --include): .one.pinion.stat, ";
    assert_eq!((quiet.code, quiet.stderr.lines().count()), (0, 2));
    assert!(quiet.stderr.starts_with(left_out), "{}", quiet.stderr);
}

/// An empty page instead of it would be wrong without an error.
#[test]
fn a_virtual_file_of_the_kernel_is_named() {
    let folder = Folder::with_site();
    symlink("/proc/version", folder.join("site/version.txt")).expect("a link");
    let failed = run(&folder, "build site -o site.pinion");
    assert_eq!(failed.code, 1);
    let line = failed.stderr.lines().next();
    assert_eq!(
        line,
        Some("pinion: version.txt: its content is longer or shorter than its size, as below /proc")
    );
    assert_eq!(folder.names(), ["site"]);
}

#[test]
fn an_older_archive_stays_when_a_build_fails() {
    let folder = Folder::with_site();
    build_site(&folder);
    let older = folder.read("site.pinion");
    symlink("nowhere", folder.join("site/a")).expect("a link");
    assert_eq!(run(&folder, "build site -o site.pinion").code, 1);
    assert!(folder.read("site.pinion") == older);
}

/// A mistyped name of an archive must not overwrite other files: a page, a pipe with readers.
#[test]
fn only_archives_are_replaced() {
    let folder = Folder::with_site();
    let page = folder.read("site/index.html");
    let to_the_page = "build site -o site/index.html";
    run(&folder, to_the_page).refused(1, "site/index.html: will not replace a file that is not");
    run(&folder, to_the_page).refused(1, "give another name with -o, or replace it with --force");
    assert!(folder.read("site/index.html") == page);
    let listener = std::os::unix::net::UnixListener::bind(folder.join("socket")).expect("bound");
    let to_the_socket = "build site -o socket --force";
    let line = "will not replace a socket; give another name with -o\n";
    run(&folder, to_the_socket).refused(1, line);
    drop(listener);
    assert_eq!(folder.names(), ["site", "socket"]);
    assert_eq!(run(&folder, &format!("{to_the_page} --force")).code, 0);
    assert_eq!(run(&folder, "verify site/index.html").code, 0);
}

#[test]
fn each_build_error_is_one_line() {
    let folder = Folder::with_site();
    run(&folder, "build none -o out").refused(1, "none");
    run(&folder, "build site -o no/such/out").refused(1, "no/such/out: no such folder");
    run(&folder, "build site -o site")
        .refused(1, "site: will not replace a folder; give another name with -o");
    let line = "--exclude: \"[\" is not a pattern: unclosed";
    run(&folder, "build site -o out --exclude [").refused(2, line);
    let epoch = command(&folder, "build site -o out").env("SOURCE_DATE_EPOCH", "today").output();
    let epoch = epoch.expect("it runs");
    assert_eq!(epoch.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&epoch.stderr).contains("SOURCE_DATE_EPOCH"));
    assert_eq!(folder.names(), ["site"]);
}

#[test]
fn flags_reach_the_build() {
    let folder = Folder::with_site();
    let flags = "--codings identity --exclude docs --cache-control no-cache --no-security-headers";
    assert_eq!(run(&folder, &format!("build site -o site.pinion {flags} -j 1")).code, 0);
    let list = run(&folder, "ls site.pinion --json").json();
    let entries = list["entries"].as_array().expect("entries");
    assert!(!entries.iter().any(|entry| entry["path"] == "/docs/"));
    let coded = |entry: &&serde_json::Value| entry["representations"][1].is_object();
    assert!(!entries.iter().any(|entry| coded(&entry)));
}

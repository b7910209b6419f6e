//! `pinion import`: converts archives of kawipiko and configurations of other servers. Their
//! contents are tested in the crates of the converters.

use crate::pinion_runner::{build_site, members, run};
use crate::temporary_folder::Folder;
use std::path::Path;

fn archive(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../kawipiko/tests/archives/made").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn an_archive_is_imported() {
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
    // Only an archive is overwritten.
    folder.write("notes.txt", "notes");
    run(&format!("import {file} -o notes.txt")).refused(1, "--force");
    assert_eq!(run(&format!("import {file} -o notes.txt --force --codings zstd")).code, 0);
}

#[test]
fn files_that_are_not_kawipiko_archives_are_named() {
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

#[test]
fn a_configuration_is_imported_and_nothing_is_replaced() {
    let folder = Folder::with_site();
    let run = |arguments: &str| run(&folder, arguments);
    let path = folder.join("site");
    folder.write("uwsgi.ini", format!("[uwsgi]\ncheck-static = {}\ncron = 1\n", path.display()));
    let imported = run("import uwsgi.ini");
    assert_eq!((imported.code, imported.text()), (0, ""));
    let lines: Vec<&str> = imported.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("warning: uwsgi.ini:3: cron: there is no scheduler"), "{lines:?}");
    assert!(lines[1].starts_with("warning: uwsgi.ini:http: no http"), "{lines:?}");
    assert!(lines[2].ends_with("check it with `pinion check pinion.toml`"), "{lines:?}");
    let written = String::from_utf8(folder.read("pinion.toml")).expect("UTF-8");
    assert!(written.contains("\n# 3: cron: there is no scheduler"), "{written}");
    assert_eq!(run("check").code, 0);
    // The file exists now.
    run("import uwsgi.ini").refused(1, "pinion.toml exists already; name another file with -o");
    folder.write("pinion.toml", "mine");
    let failed = run("import uwsgi.ini --json");
    let error = failed.json()["error"].as_str().expect("a reason").to_owned();
    assert!(failed.code == 1 && error.contains("--force"), "{error}");
    assert_eq!(folder.read("pinion.toml"), b"mine");
    assert_eq!(run("import uwsgi.ini --force").code, 0);
    assert_eq!(folder.read("pinion.toml"), written.as_bytes());
    folder.write("unit.json", "{\"listeners\": {\"*:80\": {\"pass\": \"upstreams/a\"}}}");
    run("import unit.json -o other.toml")
        .refused(1, "unit.json: nothing that a listener passes to");
    run("import none.json").refused(1, "none.json does not exist");
    run("import uwsgi.ini -o other.toml --codings br").refused(2, "--codings has no effect");
    assert!(!folder.join("other.toml").exists());
    let json = run("import uwsgi.ini -o other.toml --json");
    assert_eq!((json.code, json.stderr.as_str()), (0, ""));
    let own = ["config", "imported", "keys", "left_out", "not_needed"];
    assert_eq!(members(&json.json()), own);
}

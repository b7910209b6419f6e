//! The verbs that read archives: inspect, ls, cat, verify.

use crate::pinion_runner::{Run, build_site, members, run};
use crate::temporary_folder::Folder;
use pinion_archive::{
    Digest, ETag, EntryKind, NewEntry, NewRepresentation, NewRule, NewShared, PathPart, QueryValue,
    Role, TargetPart, Writer,
};
use pinion_http::content_coding::Coding;
use serde_json::Value;

fn archive() -> Folder {
    let folder = Folder::with_site();
    build_site(&folder);
    folder
}

fn listed<'a>(list: &'a Value, path: &str) -> &'a Value {
    let entries = list["entries"].as_array().expect("entries");
    entries
        .iter()
        .find(|entry| entry["path"] == path && entry["kind"] == "resource")
        .unwrap_or_else(|| panic!("{path} in {list}"))
}

#[test]
fn ls_lists_every_path_with_its_forms() {
    let folder = archive();
    let list = run(&folder, "ls site.pinion --json").json();
    assert_eq!(members(&list), ["archive", "code", "entries", "rules"]);
    let style = listed(&list, "/style.css");
    assert_eq!(
        members(style),
        [
            "kind",
            "media_type",
            "modified",
            "path",
            "previous",
            "representations",
            "status",
            "target"
        ]
    );
    let forms = style["representations"].as_array().expect("forms");
    assert_eq!(members(&forms[0]), ["bytes", "coding", "etag"]);
    assert_eq!((&forms[0]["coding"], &forms[0]["bytes"]), (&"identity".into(), &2200.into()));
    assert_eq!(listed(&list, "/")["target"], "/index.html");
    let text = run(&folder, "ls site.pinion");
    assert_eq!(text.code, 0);
    for path in ["/style.css", "/docs/  = /docs/index.html", "anything else below /"] {
        assert!(text.text().contains(path), "{}", text.text());
    }
}

#[test]
fn cat_writes_stored_bodies() {
    let folder = archive();
    let style = folder.read("site/style.css");
    assert_eq!(run(&folder, "cat site.pinion /style.css").stdout, style);
    assert_eq!(run(&folder, "cat site.pinion /%73tyle.css").stdout, style);
    let json = run(&folder, "cat site.pinion /style.css --json").json();
    assert_eq!(json["body"].as_str().map(str::as_bytes), Some(style.as_slice()));
    assert_eq!((&json["coding"], &json["path"]), (&"identity".into(), &"/style.css".into()));
    run(&folder, "cat site.pinion /none").refused(1, "`pinion ls` lists its paths");
    run(&folder, "cat site.pinion /style.css --coding zstd").refused(1, "is not stored as zstd");
}

#[test]
fn inspect_reports_counts_and_sizes() {
    let folder = archive();
    let json = run(&folder, "inspect site.pinion --json").json();
    assert_eq!(
        members(&json),
        [
            "archive",
            "bodies",
            "build",
            "bytes",
            "code",
            "codings",
            "digest",
            "largest",
            "media_types",
            "paths",
            "rules",
            "sections",
            "shared_blocks"
        ]
    );
    assert_eq!(json["bytes"], folder.read("site.pinion").len());
    assert_eq!(
        (&json["paths"]["resources"], &json["paths"]["not_found_pages"]),
        (&4.into(), &1.into())
    );
    assert_eq!(json["largest"][0]["path"], "/style.css");
    let text = run(&folder, "inspect site.pinion");
    assert!(text.text().contains("4  resources"), "{}", text.text());
}

#[test]
fn verify_names_damaged_parts() {
    let folder = archive();
    let sound = run(&folder, "verify site.pinion");
    assert_eq!(sound.code, 0);
    assert!(sound.text().contains("sound"), "{}", sound.text());
    let json = run(&folder, "verify site.pinion --json").json();
    assert_eq!(
        members(&json),
        ["archive", "damages", "digest", "entries", "more_damages", "sections", "sound"]
    );
    assert_eq!(json["sound"], true);

    // The first body begins on the second page.
    let mut bytes = folder.read("site.pinion");
    bytes[4096] ^= 1;
    folder.write("flipped.pinion", &bytes);
    let flipped = run(&folder, "verify flipped.pinion");
    assert_eq!((flipped.code, flipped.stderr.as_str()), (1, ""));
    assert!(flipped.text().contains("damaged"), "{}", flipped.text());
    let json = run(&folder, "verify flipped.pinion --json");
    assert_eq!((json.code, &json.json()["sound"]), (1, &false.into()));
    let damage = &json.json()["damages"][0];
    assert_eq!(members(damage), ["fault", "offset", "part"]);

    folder.write("cut.pinion", &bytes[..bytes.len() - 1]);
    run(&folder, "verify cut.pinion").refused(1, "truncated archive");
    let json = run(&folder, "verify cut.pinion --json");
    assert_eq!((json.code, &json.json()["sound"]), (1, &false.into()));
}

/// The digest of an archive: three verbs print the same one, and another build of the same files
/// has it too.
#[test]
fn the_digest_names_the_content() {
    let folder = archive();
    let of = |arguments: &str| {
        let json = run(&folder, arguments).json();
        json["digest"].as_str().expect("a string").to_owned()
    };
    let digest = of("inspect site.pinion --json");
    assert_eq!(digest.len(), 64, "{digest}");
    assert_eq!(of("verify site.pinion --json"), digest);
    for verb in ["inspect", "verify"] {
        let text = run(&folder, &format!("{verb} site.pinion"));
        assert!(text.text().contains(&format!("digest {digest}\n")), "{}", text.text());
    }
    assert_eq!(of("build site -o again.pinion --json"), digest);
    assert_eq!(folder.read("again.pinion"), folder.read("site.pinion"));
    folder.write("site/style.css", "/* changed */");
    assert_ne!(of("build site -o again.pinion --json"), digest);
}

#[test]
fn files_that_are_not_archives_are_named_with_exit_1() {
    let folder = archive();
    folder.write("empty", "");
    folder.write("text", "text");
    for verb in ["inspect", "ls", "verify"] {
        let on = |file: &str| -> Run { run(&folder, &format!("{verb} {file}")) };
        on("none").refused(1, "none does not exist; give the path of an archive");
        on("empty").refused(1, "the file is empty");
        on("text").refused(1, "text: not a Pinion archive");
        on("site").refused(1, "`pinion build`");
    }
}

/// The contents of an archive that are no paths: rules, fallback pages, variants.
#[test]
fn rules_fallbacks_and_variants_are_shown() {
    let folder = Folder::new();
    folder.write("rules.pinion", with_rules());
    let list = run(&folder, "ls rules.pinion --json").json();
    let kinds: Vec<_> = list["entries"].as_array().expect("entries").iter().collect();
    let kinds: Vec<_> = kinds.iter().map(|entry| (&entry["kind"], &entry["path"])).collect();
    let expected = [
        ("listing", "/list/"),
        ("fallback", "/tiles/"),
        ("not-found", "/"),
        ("variant", "/list/"),
        ("single-page", "/"),
    ];
    let expected: Vec<_> =
        expected.iter().map(|&(kind, path)| (Value::from(kind), Value::from(path))).collect();
    assert_eq!(kinds, expected.iter().map(|(kind, path)| (kind, path)).collect::<Vec<_>>());
    let rule = &list["rules"][0];
    assert_eq!(members(rule), ["force", "host", "path", "query", "status", "target"]);
    assert_eq!(
        (&rule["path"], &rule["target"]),
        (&"/blog/:1/*".into(), &"/:splat/:1?id=:3".into())
    );
    let text = run(&folder, "ls rules.pinion");
    for line in [
        "302!  //*.example.org/blog/:1/* k=v w id=:3  -> /:splat/:1?id=:3",
        "410   /gone  -> /list/",
        "anything else below /tiles/",
        "any other page",
        "/list/  for clients of JSON",
    ] {
        assert!(text.text().contains(line), "{line}\n{}", text.text());
    }
    let json = run(&folder, "inspect rules.pinion --json").json();
    assert_eq!(json["rules"]["count"], 2);
    assert!(json["rules"]["bytes"].as_u64().expect("a number") > 100);
    assert_eq!(
        [&json["paths"]["total"], &json["paths"]["fallback_pages"], &json["paths"]["variants"]],
        [&1.into(), &2.into(), &Value::from(1)]
    );
    let text = run(&folder, "inspect rules.pinion");
    assert!(text.text().contains("2  rules by pattern or condition"), "{}", text.text());
    assert_eq!(run(&folder, "verify rules.pinion").code, 0);
}

fn with_rules() -> Vec<u8> {
    let mut writer = Writer::new(std::io::Cursor::new(Vec::new())).expect("memory");
    let html = NewShared {
        role: Role::Ordinary,
        status: 200,
        content_type: Some("text/html"),
        fields: &[],
        not_modified: &[],
    };
    let shared = writer.shared(&html).expect("well-formed");
    let digest = Digest::of(b"page");
    let body = writer.body(&digest, b"page").expect("memory");
    let etag = ETag::of(&digest, b"text/html", Coding::Identity);
    let forms = [NewRepresentation { coding: Coding::Identity, shared, body, etag }];
    let page = NewEntry {
        kind: EntryKind::Resource,
        status: 200,
        path: b"/list/",
        target: b"",
        keeps_query: false,
        rules_first: true,
        has_variant: true,
        modified: None,
        shared: None,
        representations: &forms,
    };
    let plain = NewEntry { rules_first: false, has_variant: false, ..page };
    writer.entry(&page).expect("valid");
    writer.fallback(&NewEntry { path: b"/tiles/", ..plain }).expect("valid");
    writer.fallback(&NewEntry { path: b"/", status: 404, ..plain }).expect("valid");
    writer.variant(&plain).expect("valid");
    writer.single_page(&plain).expect("valid");
    let target = [
        TargetPart::Literal(b"/"),
        TargetPart::Capture(1),
        TargetPart::Literal(b"/"),
        TargetPart::Capture(0),
        TargetPart::Literal(b"?id="),
        TargetPart::Capture(2),
    ];
    let moved = NewRule {
        force: true,
        status: 302,
        host: Some(b"*.example.org"),
        path: &[PathPart::Literal(b"blog"), PathPart::Capture, PathPart::Rest { prefix: b"" }],
        query: &[(b"k", QueryValue::Is(b"v w")), (b"id", QueryValue::Capture)],
        target: &target,
        keeps_query: false,
    };
    writer.rule(&moved).expect("valid");
    let gone = [PathPart::Literal(b"gone")];
    let list = [TargetPart::Literal(b"/list/")];
    let gone = NewRule { status: 410, path: &gone, target: &list, ..NewRule::EMPTY };
    writer.rule(&gone).expect("valid");
    writer.finish(&[]).expect("well-formed").1.into_inner()
}

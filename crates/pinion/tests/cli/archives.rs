//! Looking into archives: inspect, ls, cat, verify.

use crate::folder::Folder;
use crate::program::{Run, build_site, members, run};
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
    assert_eq!(members(&list), ["archive", "entries", "rules"]);
    let style = listed(&list, "/style.css");
    assert_eq!(
        members(style),
        ["kind", "media_type", "modified", "path", "representations", "status", "target"]
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
fn cat_writes_what_was_built() {
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
fn inspect_counts() {
    let folder = archive();
    let json = run(&folder, "inspect site.pinion --json").json();
    assert_eq!(
        members(&json),
        [
            "archive",
            "bodies",
            "build",
            "bytes",
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
fn verify_names_what_is_damaged() {
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

/// The digest that names an archive: three verbs say the same one, and another build of the same
/// files too.
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
fn what_is_no_archive_is_exit_1_and_named() {
    let folder = archive();
    folder.write("empty", "");
    folder.write("text", "text");
    for verb in ["inspect", "ls", "verify"] {
        let on = |file: &str| -> Run { run(&folder, &format!("{verb} {file}")) };
        on("none").refused(1, "cannot open none");
        on("empty").refused(1, "the file is empty");
        on("text").refused(1, "text: not a Pinion archive");
        on("site").refused(1, "`pinion build`");
    }
}

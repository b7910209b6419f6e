//! Dynamic sites: their code is kept in the archive and never published.

use std::fs;
use std::path::PathBuf;

use pinion_archive::Layout;
use pinion_builder::{BuildError, CodeError, ExtractOptions, Options, Warning, examine, extract};
use proptest::prelude::*;

use crate::archive_reader::{Site, built, built_with, options};
use crate::temporary_folder::Folder;

fn code(site: &Site) -> Vec<(String, String)> {
    let layout = Layout::open(&site.bytes).unwrap();
    let code = layout.view(&site.bytes).code().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    code.iter().map(|(path, content)| (text(path), text(content))).collect()
}

fn code_paths(site: &Site) -> Vec<String> {
    code(site).into_iter().map(|(path, _)| path).collect()
}

fn paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

fn errors(folder: &Folder) -> Vec<String> {
    match built_with(folder, &options()) {
        Err(BuildError::Code(errors)) => {
            let shown = format!("{}/", folder.path().display());
            let below = |error: &CodeError| {
                let message = error.to_string();
                message.strip_prefix(&shown).unwrap_or_else(|| panic!("{message}")).to_owned()
            };
            errors.iter().map(below).collect()
        }
        other => panic!("{:?}", other.map(|site| site.summary)),
    }
}

#[track_caller]
fn comes_back(folder: &Folder) {
    let (site, out) = (built(folder), Folder::new());
    let layout = Layout::open(&site.bytes).unwrap();
    let archive = layout.view(&site.bytes);
    let done = extract(&archive, out.path(), ExtractOptions::default(), &()).unwrap();
    assert!(done.refused.is_empty());
    let again = built(&out);
    assert_eq!(code(&again), code(&site));
    assert_eq!(again.keys(), site.keys());
    assert!(again.bytes == site.bytes);
}

#[test]
fn code_is_archived_and_not_published() {
    let folder = Folder::with(&[
        (".hidden.lua", "secret"),
        ("about.dyn.html", "<p>#[[1]]"),
        ("i.parts/x.html", "<p>"),
        ("index.html", "<h1>"),
        ("lib/db.lua", "return 1"),
        ("lib/keys.priv.txt", "secret"),
        ("lib/old.lua.bak", "return 0"),
        ("main.lua", "-- main"),
        ("post.html", "<p>"),
    ]);
    let site = built_with(&folder, &Options { listings: true, ..options() }).unwrap();
    let published: Vec<_> = site.files.iter().map(|key| key.escape_ascii().to_string()).collect();
    assert_eq!(published, ["/index.html", "/post.html"]);
    let expected = [
        ("/about.dyn.html", "<p>#[[1]]"),
        ("/lib/db.lua", "return 1"),
        ("/lib/keys.priv.txt", "secret"),
        ("/main.lua", "-- main"),
    ];
    assert_eq!(code(&site), expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
    let bodies = site.entries.values().flat_map(|page| &page.forms);
    for stored in bodies.filter_map(|form| form.stored.as_ref()) {
        let text = stored.escape_ascii().to_string();
        assert!(!["secret", "lib", "lua", ".dyn."].iter().any(|hidden| text.contains(hidden)));
    }
    let code = ["about.dyn.html", "lib/db.lua", "lib/keys.priv.txt", "main.lua"];
    assert_eq!(paths(&site.summary.code), code);
    assert_eq!(paths(&site.summary.special), [".hidden.lua", "lib/old.lua.bak"]);
    assert_eq!(paths(&site.summary.skipped), ["i.parts"]);
    comes_back(&folder);
}

#[test]
fn public_html_is_the_published_content() {
    let folder = Folder::with(&[
        ("README.md", "not published"),
        ("lib/db.lua", "return 1"),
        ("main.lua", "-- main"),
        ("public_html/_headers", "/*\n  X-A: 1\n"),
        ("public_html/_redirects", "/old /new\n"),
        ("public_html/a/b.dyn.html", "<p>"),
        ("public_html/index.html", "<h1>"),
    ]);
    let site = built(&folder);
    let keys =
        ["/", "/index", "/index.html", "/old", "/old/", "file:/_headers", "file:/_redirects"];
    assert_eq!(site.keys(), keys);
    assert!(site.page("/").forms[0].fields.contains("X-A: 1"));
    assert_eq!(code_paths(&site), ["//lib/db.lua", "//main.lua", "/a/b.dyn.html"]);
    assert_eq!(paths(&site.summary.skipped), ["README.md"]);
    comes_back(&folder);
    // Errors in that folder are reported with the path of the file.
    folder.file("public_html/_redirects", "old\n");
    let error = built_with(&folder, &options()).err().unwrap().to_string();
    assert!(error.starts_with("public_html/_redirects:1:"), "{error}");
}

#[test]
fn empty_content_and_nested_folders_round_trip() {
    let folder = Folder::with(&[("main.lua", "-- main")]);
    comes_back(&folder);
    folder.folder("public_html");
    assert_eq!(code_paths(&built(&folder)), ["//main.lua"]);
    comes_back(&folder);
    let inner = "public_html/public_html/x.txt";
    comes_back(&Folder::with(&[(inner, "x"), ("public_html/a.dyn.html", "a")]));
}

#[test]
fn without_code_names_have_no_special_meaning() {
    let folder = Folder::with(&[
        ("i.d/a", "a"),
        ("post.html", "b"),
        ("public_html/x.txt", "c"),
        ("x.lua.gz", "d"),
        ("lib/main.lua", "e"),
    ]);
    let site = built(&folder);
    for key in ["/i.d/a", "/post.html", "/public_html/x.txt", "/x.lua.gz"] {
        site.page(key);
    }
    assert!(code(&site).is_empty() && site.summary.code.is_empty());
    assert_eq!(paths(&site.summary.special), ["lib/main.lua"]);
    comes_back(&Folder::with(&[("i.d/a", "a"), ("public_html/x.txt", "c"), ("x.lua.gz", "d")]));
}

#[test]
fn files_that_pages_include_are_archived_as_code() {
    let folder = Folder::with(&[
        ("a.dyn.html", "<?include parts/foot.html ?><?include parts/nav.priv.html ?>"),
        ("parts/foot.html", "<?include more.txt ?>"),
        ("parts/more.txt", "more"),
        ("parts/nav.priv.html", "nav"),
        ("parts/unused.html", "unused"),
    ]);
    let site = built(&folder);
    let kept = ["/a.dyn.html", "/parts/foot.html", "/parts/more.txt", "/parts/nav.priv.html"];
    assert_eq!(code_paths(&site), kept);
    site.page("/parts/foot.html");
    comes_back(&folder);
    // A rule can replace the URL of an included file.
    folder.file("_redirects", "/parts/more.txt /elsewhere 301!\n");
    let site = built(&folder);
    assert_eq!(code_paths(&site), kept);
    let (layout, out) = (Layout::open(&site.bytes).unwrap(), Folder::new());
    extract(&layout.view(&site.bytes), out.path(), ExtractOptions::default(), &()).unwrap();
    assert_eq!(code(&built(&out)), code(&site));
}

#[test]
fn mistakes_in_pages_are_errors() {
    let folder = Folder::with(&[
        ("a.dyn.html", "fine\n<?lu if ?>\n"),
        ("b.dyn.html", "<?include none.html ?>"),
        ("c.dyn.html", "<?include parts/c.html ?>"),
        ("parts/c.html", "\n\n<?lu ) ?>"),
    ]);
    let errors = errors(&folder);
    let expected = ["a.dyn.html:2: ", "b.dyn.html:1: ", "parts/c.html:3: "];
    assert_eq!(errors.len(), 3, "{errors:?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.starts_with(expected), "{error}");
    }
    let examined = examine(folder.path(), &options());
    assert!(matches!(examined, Err(BuildError::Code(_))));
    // A private file is not checked alone: it is compiled as a part of the template that includes
    // it.
    let folder = Folder::with(&[("a.priv.html", "<?lu if ?>"), ("main.lua", "if")]);
    built(&folder);
}

#[test]
fn code_that_cannot_be_read_is_an_error() {
    let folder = Folder::with(&[("main.lua", "")]);
    folder.link("lib.lua", "nothing");
    let large = vec![b' '; 8 * 1024 * 1024 + 1];
    folder.file("large.lua", &large);
    folder.pipe("pipe.lua");
    let errors = errors(&folder);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].starts_with("large.lua: larger than 8388608 bytes"), "{errors:?}");
    assert_eq!(errors[1], "lib.lua: cannot be read: No such file or directory");
    assert!(errors[2].starts_with("pipe.lua: "), "{errors:?}");
}

/// In a site of 80s, no file below a folder `static/` is code, at any depth.
#[test]
fn pages_below_static_are_plain_files_in_a_site_of_80s() {
    let files = [
        ("a/static/b/x.dyn.html", "<p>as it is</p>"),
        ("about.dyn.html", "<p>#[[1]]"),
        ("static/bad.dyn.html", "<?lu if ?>"),
        ("static/keys.priv.txt", "secret"),
        ("static/x.dyn.html.gz", "packed"),
        ("static/x.lua", "-- code"),
    ];
    let folder = Folder::with(&files);
    folder.file("main.lua", "local aio = require(\"aio.aio\")\n");
    let site = built(&folder);
    let published = ["/a/static/b/x.dyn.html", "/static/bad.dyn.html", "/static/x.dyn.html.gz"];
    let found: Vec<_> = site.files.iter().map(|key| key.escape_ascii().to_string()).collect();
    assert_eq!(found, published);
    assert_eq!(code_paths(&site), ["/about.dyn.html", "/main.lua"]);
    assert_eq!(site.page("/static/bad.dyn.html").content(), b"<?lu if ?>");
    comes_back(&folder);
    // A key of the configuration has the same effect.
    folder.file("main.lua", "-- a script");
    let options = Options { compat_80s: true, ..options() };
    let site = built_with(&folder, &options).unwrap();
    assert_eq!(site.files.len(), 3);
    let (layout, out) = (Layout::open(&site.bytes).unwrap(), Folder::new());
    let archive = layout.view(&site.bytes);
    let done = extract(&archive, out.path(), ExtractOptions::default(), &()).unwrap();
    assert_eq!(done.flags, ["--compat=80s"]);
    assert!(built_with(&out, &options).unwrap().bytes == site.bytes);
    // In other sites, each such file is reported.
    fs::remove_file(folder.join("static/x.dyn.html.gz")).unwrap();
    let site = built(&folder);
    assert!(site.files.is_empty());
    let page = Warning::PageBelowStatic("a/static/b/x.dyn.html".into());
    let left_out = ["static/bad.dyn.html", "static/keys.priv.txt", "static/x.lua"];
    let left_out = left_out.map(|path| Warning::CodeAmongFiles(path.into()));
    let mut expected = left_out.to_vec();
    expected.push(page);
    expected.sort();
    assert_eq!(site.summary.warnings, expected);
}

#[test]
fn a_symbolic_link_to_a_script_is_code() {
    let folder = Folder::with(&[("a/script", "-- linked")]);
    folder.link("main.lua", "a/script");
    let expected = [("/main.lua".to_owned(), "-- linked".to_owned())];
    assert_eq!(code(&built(&folder)), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_dynamic_site_round_trips(
        files in prop::collection::btree_map(
            "((public_html|a|i\\.b)/){0,2}\\
             (x\\.dyn\\.html|main\\.lua|y\\.priv\\.css|z\\.(txt|lua\\.gz))",
            "[xy]{0,3}",
            0..8,
        ),
    ) {
        let folder = Folder::new();
        for (name, content) in &files {
            folder.file(name, content);
        }
        comes_back(&folder);
    }
}

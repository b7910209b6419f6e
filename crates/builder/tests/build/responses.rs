//! The responses of the paths of a site: aliases, types, fields, times.

use std::path::PathBuf;

use pinion_archive::Layout;
use pinion_builder::{ExtractOptions, Fingerprinted, Options, Shadowed, Warning, examine, extract};

use crate::archive_reader::{NOW, built, built_with, options, value};
use crate::temporary_folder::Folder;

#[test]
fn aliases_share_the_content_and_have_a_content_location() {
    let folder = Folder::with(&[("a b/index.html", "index"), ("a b/ü.html", "page")]);
    let site = built(&folder);
    assert_eq!(
        site.keys(),
        ["/a b/", "/a b/\\xc3\\xbc", "/a b/\\xc3\\xbc.html", "/a b/index", "/a b/index.html",]
    );
    for (alias, file, target) in [
        ("/a b/", "/a b/index.html", "/a%20b/index.html"),
        ("/a b/index", "/a b/index.html", "/a%20b/index.html"),
        ("/a b/\\xc3\\xbc", "/a b/\\xc3\\xbc.html", "/a%20b/%C3%BC.html"),
    ] {
        let (alias, file) = (site.page(alias), site.page(file));
        assert_eq!(alias.target.as_deref(), Some(target));
        assert_eq!(file.target, None);
        assert_eq!(alias.forms, file.forms);
        assert_eq!(alias.modified, file.modified);
    }
    assert_eq!((site.summary.files, site.summary.aliases, site.summary.entries), (2, 3, 5));
}

#[test]
fn two_files_for_one_url_are_resolved_without_an_error() {
    let folder = Folder::with(&[
        ("a", "exact"),
        ("a.html", "html"),
        ("b.htm", "htm"),
        ("b.txt", "txt"),
        ("_index.xml", "<x/>"),
        ("index.html", "html"),
    ]);
    let site = built(&folder);
    assert_eq!(site.page("/a").content(), b"exact");
    assert_eq!(site.page("/b").content(), b"htm");
    assert_eq!(site.page("/").content(), b"<x/>");
    let shadowed = |url: &str, file: &str, by: &str| Shadowed {
        url: url.into(),
        file: file.into(),
        by: by.into(),
    };
    assert_eq!(
        site.summary.shadowed,
        [
            shadowed("/", "index.html", "_index.xml"),
            shadowed("/a", "a.html", "a"),
            shadowed("/b", "b.txt", "b.htm"),
        ]
    );
    assert_eq!(site.summary.shadowed[2].to_string(), "/b is served from b.htm, not from b.txt");
}

/// A file that could not be read does not reserve its URL, so the next file gets it.
#[test]
fn an_unreadable_file_shadows_no_other_file() {
    let folder = Folder::with(&[("b.txt", "txt")]);
    folder.link("b.html", "nowhere");
    let site = built_with(&folder, &Options { keep_going: true, ..options() }).unwrap();
    assert_eq!(site.page("/b").content(), b"txt");
    assert!(site.summary.shadowed.is_empty());
}

#[test]
fn not_found_pages_are_also_ordinary_pages() {
    let folder = Folder::with(&[("404.html", "root"), ("docs/404.html", "docs"), ("200.png", "")]);
    let site = built(&folder);
    assert_eq!(site.summary.not_found_pages, 2);
    for (folder, content) in [("/", "root"), ("/docs/", "docs")] {
        let page = site.page(&format!("{folder}404.html"));
        let missing = site.page(&format!("404:{folder}"));
        assert_eq!((page.status, missing.status), (200, 404));
        assert_eq!(page.content(), content.as_bytes());
        assert_eq!(missing.content(), content.as_bytes());
        assert_eq!(page.field("Cache-Control"), Some("max-age=0, must-revalidate"));
        assert_eq!(missing.field("Cache-Control"), Some("no-store"));
        assert_eq!(missing.target, None);
        assert_eq!(page.forms[0].etag, missing.forms[0].etag);
    }
    assert_eq!(site.page("/200.png").status, 200);
}

#[test]
fn a_not_found_page_too_deep_is_only_an_ordinary_page() {
    let deep = ["d"; 64].join("/");
    let folder = Folder::with(&[(&format!("{deep}/404.html"), "x")]);
    folder.file(format!("{}/404.html", &deep[2..]), "y");
    let site = built(&folder);
    assert_eq!(site.page(&format!("/{deep}/404.html")).status, 200);
    assert_eq!(site.summary.not_found_pages, 1);
    let path = format!("{deep}/404.html").into();
    assert_eq!(site.summary.warnings, [Warning::NotFoundTooDeep(path)]);
}

#[test]
fn equal_content_under_another_type_or_status_is_another_resource() {
    let folder = Folder::with(&[
        ("a.css", "/* */"),
        ("b.js", "/* */"),
        ("c.css", "/* */"),
        ("index.html", "<p>"),
        ("404.html", "<p>"),
    ]);
    let site = built(&folder);
    let [a, b, c] = ["/a.css", "/b.js", "/c.css"].map(|key| site.page(key));
    assert_eq!(a.field("Content-Type"), Some("text/css; charset=utf-8"));
    assert_eq!(b.field("Content-Type"), Some("text/javascript; charset=utf-8"));
    assert_ne!(a.forms[0].etag, b.forms[0].etag);
    assert_eq!(a, c);
    assert_eq!(site.page("404:/").status, 404);
    assert_eq!(site.page("/").status, 200);
    assert_eq!(site.summary.repeated_files, 3);
    assert_eq!(site.summary.repeated_bytes, 5 + 5 + 3);
}

/// A 304 has the fields of RFC 9110 §15.4.5, and no others.
#[test]
fn a_page_has_security_cache_and_coding_fields() {
    let folder = Folder::with(&[("index.html", &"<p>many words</p>\n".repeat(50))]);
    let site = built(&folder);
    let page = site.page("/index.html");
    let security = "X-Content-Type-Options: nosniff\r\n\
        Referrer-Policy: strict-origin-when-cross-origin\r\n\
        X-Frame-Options: SAMEORIGIN\r\n";
    let cached = "Cache-Control: max-age=0, must-revalidate\r\nVary: Accept-Encoding\r\n";
    assert_eq!(page.forms.len(), 3);
    for (form, coding) in page.forms.iter().zip(["", "gzip", "br"]) {
        let coding = match coding {
            "" => String::new(),
            token => format!("Content-Encoding: {token}\r\n"),
        };
        let expected = format!(
            "Content-Type: text/html; charset=utf-8\r\n{coding}{cached}Accept-Ranges: bytes\r\n\
             {security}"
        );
        assert_eq!(form.fields, expected);
        assert_eq!(form.not_modified, cached);
    }
    let plain = Options { security_fields: false, ..options() };
    let site = built_with(&folder, &plain).unwrap();
    assert_eq!(site.page("/").field("X-Frame-Options"), None);
}

#[test]
fn generated_responses_and_slash_redirects_have_fields() {
    let folder = Folder::with(&[("a.css", "x")]);
    let bytes = built(&folder).bytes;
    let layout = Layout::open(&bytes).unwrap();
    let archive = layout.view(&bytes);
    for (role, cache_control) in [
        (pinion_archive::Role::Generated, "no-store"),
        (pinion_archive::Role::SlashRedirect, "max-age=0, must-revalidate"),
    ] {
        let block = archive.shared_for(role).unwrap();
        let fields = String::from_utf8(block.full.to_vec()).unwrap();
        assert_eq!(value(&fields, "Cache-Control"), Some(cache_control));
        assert_eq!(value(&fields, "X-Content-Type-Options"), Some("nosniff"));
        assert_eq!(block.type_line_bytes, 0);
    }
}

#[test]
fn fingerprinted_names_are_immutable() {
    let folder = Folder::with(&[("app.3f2a9c1b57a0d79d.js", "x"), ("app.js", "y")]);
    for (cache_control, expected) in
        [(None, "max-age=0, must-revalidate"), (Some("max-age=60"), "max-age=60")]
    {
        let cache_control = cache_control.map(str::to_owned);
        let site = built_with(&folder, &Options { cache_control, ..options() }).unwrap();
        let field = |key: &str| site.page(key).field("Cache-Control").unwrap().to_owned();
        assert_eq!(field("/app.3f2a9c1b57a0d79d.js"), "public, max-age=31536000, immutable");
        assert_eq!(field("/app.js"), expected);
    }
}

#[test]
fn modification_times_are_capped_and_future_ones_dropped() {
    let folder = Folder::with(&[("old.css", "o"), ("now.css", "n"), ("future.css", "f")]);
    folder.modified("old.css", 1_000_000_000);
    folder.modified("now.css", NOW as u64);
    folder.modified("future.css", NOW as u64 + 1);
    let times = |options: &Options| {
        let site = built_with(&folder, options).unwrap();
        let times = ["/old.css", "/now.css", "/future.css"].map(|key| site.page(key).modified);
        (times, site.summary.warnings)
    };
    let (found, warnings) = times(&options());
    assert_eq!(found, [Some(1_000_000_000), Some(NOW), None]);
    assert_eq!(warnings, [Warning::FromTheFuture("future.css".into())]);
    let capped = Options { source_date_epoch: Some(1_500_000_000), ..options() };
    let (found, warnings) = times(&capped);
    assert_eq!(found, [Some(1_000_000_000), Some(1_500_000_000), Some(1_500_000_000)]);
    assert!(warnings.is_empty());
}

/// Times without information, as Nix, Bazel, zip and a `SOURCE_DATE_EPOCH` of 1 set them, and the
/// first time that is kept.
#[test]
fn placeholder_modification_times_are_dropped() {
    const FIRST: u64 = 315_619_200;
    let folder = Folder::with(&[("a.css", "a")]);
    for (time, expected) in [
        (0, None),
        (1, None),
        (315_532_800, None),
        (FIRST - 1, None),
        (FIRST, Some(FIRST as i64)),
        (1_000_000_000, Some(1_000_000_000)),
    ] {
        folder.modified("a.css", time);
        let site = built(&folder);
        assert_eq!(site.page("/a.css").modified, expected, "{time}");
        assert!(site.summary.warnings.is_empty());
        // A build of the extracted folder gives the same bytes.
        let (layout, out) = (Layout::open(&site.bytes).unwrap(), Folder::new());
        let options = ExtractOptions::default();
        extract(&layout.view(&site.bytes), out.path(), options, &()).unwrap();
        assert!(built(&out).bytes == site.bytes, "{time}");
    }
    let options = Options { source_date_epoch: Some(1), ..options() };
    assert_eq!(built_with(&folder, &options).unwrap().page("/a.css").modified, None);
}

#[test]
fn favicon_ico_is_served_from_another_icon() {
    let folder = Folder::with(&[("favicon.svg", "<svg/>"), ("favicon.png", "png")]);
    let site = built(&folder);
    let (icon, svg) = (site.page("/favicon.ico"), site.page("/favicon.svg"));
    assert_eq!((icon.target.as_deref(), &icon.forms), (Some("/favicon.svg"), &svg.forms));
    assert_eq!(value(&icon.forms[0].fields, "Content-Type"), Some("image/svg+xml"));
    assert!(site.summary.shadowed.is_empty(), "{:?}", site.summary.shadowed);
    folder.file(b"_redirects", "/* /favicon.png 404\n");
    assert_eq!(built(&folder).page("/favicon.ico").target.as_deref(), Some("/favicon.svg"));
    folder.file(b"_redirects", "/favicon.ico /img/icon.ico\n");
    let site = built(&folder);
    let icon = site.page("/favicon.ico");
    assert_eq!((icon.status, icon.target.as_deref()), (301, Some("/img/icon.ico")));
}

/// A fallback page is never used if a rule matches all missing paths.
#[test]
fn a_fallback_page_that_no_request_reaches_is_warned_about() {
    for (redirects, covered) in [
        ("/* /index.html 200", "_wildcard.html a/_200.html"),
        ("/a/* /new", "a/_200.html"),
        ("/:x/* /", "a/_200.html"),
        ("/b/* /c/:splat\n/* /index.html 200", "_wildcard.html a/_200.html"),
        ("/a/b/* /new", ""),
        // The rule does not apply to `/a/b%2Fc`.
        ("/a/* /new/:splat", ""),
        ("/a/:x /new/:x", ""),
        ("/* x=1 /index.html", ""),
        ("http://h/* /index.html", ""),
        // The target is missing too, so the fallback page is used.
        ("/* /none 200", ""),
        ("/* 200", ""),
        // Rules in front of the general one let some requests through.
        ("/a/x/* 200\n/* /index.html 200", ""),
        ("/* /none 200\n/* /index.html 200", ""),
    ] {
        let folder = Folder::with(&[
            ("index.html", "home"),
            ("404.html", "a page like any other, too"),
            ("_wildcard.html", "any"),
            ("a/_200.html", "any below a"),
            ("_redirects", redirects),
        ]);
        let warnings = built(&folder).summary.warnings;
        let pages = warnings.iter().filter_map(|warning| match warning {
            Warning::CoveredFallback { page, .. } => page.to_str(),
            _ => None,
        });
        assert_eq!(pages.collect::<Vec<_>>().join(" "), covered, "{redirects}");
    }
}

/// A build decides about a folder as a whole, whichever files are reused; and a check decides in
/// the same way.
#[test]
fn a_fingerprint_is_decided_from_the_folder() {
    let names = ["index-BxK3q2_a.js", "index-C-x2dF-Q.css", "vendor-DiwrgTda.js"];
    let folder = Folder::with(&names.map(|name| (name, name)));
    folder.file("x-iPhone15.png", "p");
    let site = built(&folder);
    for name in names {
        let page = site.page(&format!("/{name}"));
        assert_eq!(page.field("Cache-Control"), Some("public, max-age=31536000, immutable"));
    }
    let revalidated = Some("max-age=0, must-revalidate");
    assert_eq!(site.page("/x-iPhone15.png").field("Cache-Control"), revalidated);
    let examples = names.map(PathBuf::from).to_vec();
    let expected = Fingerprinted { files: 3, examples };
    assert_eq!(site.summary.fingerprinted, expected);
    assert_eq!(examine(folder.path(), &options()).unwrap().fingerprinted, expected);
}

#[test]
fn the_immutable_option_marks_files() {
    let folder = Folder::with(&[("fonts/a.woff2", "a"), ("b.html", "b"), ("c.css", "c")]);
    let immutable = ["fonts/**", "*.html", "none"].map(str::to_owned).to_vec();
    let site = built_with(&folder, &Options { immutable, ..options() }).unwrap();
    let year = Some("public, max-age=31536000, immutable");
    for (key, expected) in [("/fonts/a.woff2", true), ("/b.html", true), ("/c.css", false)] {
        assert_eq!(site.page(key).field("Cache-Control") == year, expected, "{key}");
    }
    assert_eq!(site.summary.fingerprinted.files, 2);
    assert_eq!(site.summary.warnings, [Warning::UnusedImmutable("none".into())]);
}

/// The SHA-256 of `abc` begins with these digits.
#[test]
fn a_name_with_the_hash_of_its_content_is_immutable() {
    let folder = Folder::with(&[("app.ba7816bf.js", "abc"), ("d/app.ba7816bf.js", "abd")]);
    let site = built(&folder);
    assert_eq!(site.summary.fingerprinted.examples, [PathBuf::from("app.ba7816bf.js")]);
}

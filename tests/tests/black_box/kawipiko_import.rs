//! Archives of kawipiko's own archiver, imported and served: clients get the same responses as
//! before. `crates/kawipiko/tests/archives/made/` describes how the archives were made.

use pinion_tests::binary::source_root;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use std::fs;

const ARCHIVES: [&str; 5] = ["identity", "gzip", "zopfli", "unlisted", "br"];

/// Imports each archive and serves it.
fn each(case: impl Fn(&Server, &str)) {
    for name in ARCHIVES {
        let folder = Folder::new("import");
        let archives = source_root().join("crates/kawipiko/tests/archives/made");
        let file = archives.join(format!("site-{name}.cdb"));
        let out = folder.join("site.pinion");
        let [file, out] = [&file, &out].map(|path| path.to_str().expect("UTF-8"));
        let imported = run(&["import", file, "-o", out]);
        assert_eq!(imported.code, Some(0), "{}", imported.stderr);
        let left_out = imported.stderr.lines().filter(|line| line.contains("left out"));
        let left_out: Vec<&str> = left_out.collect();
        assert_eq!(left_out, ["warning: left out ://*/never: no request can match it"]);
        let server = Start::serve(&[out]).start();
        case(&server, name);
        server.stop();
    }
}

/// Returns whether an archive has listings, which have precedence over the redirects of whole
/// folders.
fn has_listings(name: &str) -> bool {
    name != "br"
}

fn source(path: &str) -> Vec<u8> {
    let site = source_root().join("crates/kawipiko/tests/archives/site");
    fs::read(site.join(path)).expect("a file of the site")
}

#[track_caller]
fn is_file(response: &Response, status: u16, path: &str, media_type: &str) {
    assert_eq!(response.status, status, "{response}");
    assert!(response.body == source(path), "{response}");
    assert_eq!(response.field("Content-Type"), Some(media_type), "{response}");
}

#[track_caller]
fn leads(response: &Response, status: u16, location: &str) {
    let found = (response.status, response.field("Location"));
    assert_eq!(found, (status, Some(location)), "{response}");
}

const HTML: &str = "text/html; charset=utf-8";

#[test]
fn files_under_all_their_names() {
    each(|server, _| {
        for (target, path, media_type, location) in [
            ("/", "index.html", HTML, Some("/index.html")),
            ("/index", "index.html", HTML, Some("/index.html")),
            ("/index.html", "index.html", HTML, None),
            ("/about", "about.html", HTML, Some("/about.html")),
            ("/docs/", "docs/index.html", HTML, Some("/docs/index.html")),
            ("/style.css", "style.css", "text/css; charset=utf-8", None),
            ("/logo.png", "logo.png", "image/png", None),
            ("/two%20words.txt", "two words.txt", "text/plain; charset=utf-8", None),
            ("/data/numbers.json", "data/numbers.json", "application/json; charset=utf-8", None),
        ] {
            let response = server.get(target);
            is_file(&response, 200, path, media_type);
            assert_eq!(response.field("Content-Location"), location, "{response}");
            let head = server.exchange(&Request::head(target));
            assert_eq!(head.field("ETag"), response.field("ETag"), "{head}");
        }
        leads(&server.get("/docs?a=b"), 308, "/docs/?a=b");
        leads(&server.get("/about/"), 308, "/about");
    });
}

#[test]
fn the_client_chooses_the_coding_now() {
    each(|server, _| {
        for coding in ["gzip", "br"] {
            let request = Request::get("/style.css").field("Accept-Encoding", coding);
            let response = server.exchange(&request);
            assert_eq!(response.field("Content-Encoding"), Some(coding), "{response}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{response}");
            let tag = response.field("ETag").expect("a tag").to_owned();
            let again = server.exchange(&request.field("If-None-Match", tag));
            assert_eq!(again.status, 304, "{again}");
        }
    });
}

#[test]
fn fields_are_kept() {
    each(|server, name| {
        let expected = match name {
            // The archive was made with --exclude-cache.
            "br" => "max-age=0, must-revalidate",
            _ => "public, immutable, max-age=3600",
        };
        for target in ["/", "/style.css", "/old", "/docs", "/moved/a/b"] {
            let response = server.get(target);
            assert_eq!(response.field("Cache-Control"), Some(expected), "{target}: {response}");
        }
    });
}

#[test]
fn pages_of_whole_folders() {
    each(|server, name| {
        for target in ["/docs/none", "/docs/a/b"] {
            let response = server.get(target);
            is_file(&response, 404, "docs/_404.html", HTML);
            assert_eq!(response.field("Cache-Control"), Some("no-store"), "{response}");
        }
        is_file(&server.get("/app/any/thing.css"), 200, "app/_wildcard.html", HTML);
        if !has_listings(name) {
            is_file(&server.get("/app/"), 200, "app/_wildcard.html", HTML);
        }
        leads(&server.get("/app"), 308, "/app/");
        assert_eq!(server.get("/none").status, 404);
    });
}

#[test]
fn redirects() {
    each(|server, name| {
        leads(&server.get("/old"), 301, "/about.html");
        leads(&server.get("/old?a=b"), 301, "/about.html?a=b");
        leads(&server.get("/out?a=b"), 302, "https://example.org/x?y=z");
        leads(&server.get("/caf%C3%A9"), 308, "/about.html");
        leads(&server.get("/relative"), 303, "/about.html");
        leads(&server.get("/docs/gone"), 301, "/docs/page.html");
        // Redirects of whole folders do not apply where a nearer entry exists.
        leads(&server.get("/moved/a/b"), 301, "/docs/page.html");
        for target in ["/moved", "/moved/"].iter().filter(|_| !has_listings(name)) {
            leads(&server.get(target), 301, "/docs/page.html");
        }
        is_file(&server.get("/moved/deep/a"), 200, "moved/deep/_200.html", HTML);
    });
}

#[test]
fn redirects_of_a_host_precede_others() {
    each(|server, _| {
        let ask = |host: &str, target: &str| server.exchange(&Request::get(target).host(host));
        leads(&ask("shop.example", "/"), 307, "/docs/");
        leads(&ask("SHOP.example:81", "/old"), 301, "/docs/page.html");
        leads(&ask("shop.example", "/port"), 301, "/about.html");
        is_file(&ask("shop.example", "/about.html"), 200, "about.html", HTML);
        leads(&ask("all.example", "/style.css"), 302, "/index.html");
        leads(&ask("all.example", "/none"), 302, "/index.html");
        leads(&ask("other.example", "/old"), 301, "/about.html");
    });
}

#[test]
fn listings_of_folders_without_an_index() {
    each(|server, name| {
        let listing = server.get("/data/");
        if !has_listings(name) {
            assert_eq!(listing.status, 404, "{listing}");
            return;
        }
        assert_eq!(listing.status, 200, "{listing}");
        assert_eq!(listing.field("Content-Type"), Some("application/json; charset=utf-8"));
        let document: serde_json::Value = serde_json::from_slice(&listing.body).expect("JSON");
        let names = document["entries"].as_array().expect("a list").iter();
        let names: Vec<_> = names.map(|entry| entry["name"].as_str().expect("a name")).collect();
        assert_eq!(names, ["more", "numbers.json"]);
        leads(&server.get("/data"), 308, "/data/");
    });
}

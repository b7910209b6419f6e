//! Sites whose files are written by readers of a document: every page of them is requested.

use super::{ASKS_FOR_PASSWORD, filled_in, is_error};
use pinion_tests::document_blocks::routes;
use pinion_tests::request::Request;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use std::fs;
use std::path::Path;

/// The content of a form, with the fields that the pages of documents require.
const FORM: &str = "text=some";

/// The path at which sites of documents send events until the server stops.
const STREAM: &str = "/events";

/// Serves a folder as it is, with an empty folder `data` for its scripts, and requests all routes
/// of its pages and its main script; returns their number. A page responds without parameters too;
/// the document itself requests it with parameters by curl.
///
/// # Panics
/// Panics if one of the responses has an error status, or if the server logs an error.
#[track_caller]
pub(crate) fn all_response(document: &Path, site: &Path) -> usize {
    let published = site.join("public_html");
    let mut files = Vec::new();
    collect(if published.is_dir() { &published } else { site }, "", &mut files);
    let pages = files.iter().filter_map(|path| answered(path)).map(|(method, path)| {
        let request = Request::new(&method, &path);
        let request = if method == "GET" { request } else { request.body(FORM.as_bytes()) };
        (method, path, request)
    });
    // Not every site has a main script.
    let main = fs::read_to_string(site.join("main.lua")).unwrap_or_default();
    let routes = routes(&main).into_iter().map(|(method, path)| {
        let request = filled_in(&method, &path);
        (method, path, request)
    });
    let requests: Vec<_> = pages.chain(routes).collect();
    if requests.is_empty() {
        return 0;
    }
    let folder = Folder::new("docs-data");
    let data = format!("data={}", folder.path().display());
    let mut streams = Vec::new();
    let flags = ["--workers", "1", "--lua-folder", &data, "--store-memory", "16"];
    let server = Start::site(site).flags(&flags).start();
    for (method, path, request) in &requests {
        if path == STREAM {
            let mut client = server.client();
            let begun = client.begin(request);
            streams.push((client, begun));
            continue;
        }
        let status = server.exchange(request).status;
        // A route that accepts a form may redirect when it is done.
        let is_open = status == 200 || status == ASKS_FOR_PASSWORD;
        let is_well = is_open || (method != "GET" && (200..400).contains(&status));
        assert!(is_well, "{}: {method} {path}: {status}", document.display());
    }
    if !streams.is_empty() {
        server.signal(Signal::TERM);
    }
    for (mut client, begun) in streams {
        assert_eq!(client.finish(begun, b"").status, 200, "{}: {STREAM}", document.display());
    }
    let said = server.last_words();
    let is_well = !said.iter().any(|line| is_error(line));
    assert!(is_well, "{}: {}", document.display(), said.join("\n"));
    requests.len()
}

/// Collects the paths of all files below a folder, each from its root on.
fn collect(folder: &Path, above: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = format!("{above}/{}", entry.file_name().to_str().expect("a name in UTF-8"));
        if entry.path().is_dir() { collect(&entry.path(), &path, found) } else { found.push(path) }
    }
}

/// Returns the method and the path of the file of a page, as docs/templates.md describes them.
fn answered(file: &str) -> Option<(String, String)> {
    let (folder, name) = file.rsplit_once('/').expect("a path from the root on");
    let (stem, kind) = name.rsplit_once(".dyn.").filter(|_| !name.contains(".priv."))?;
    let (method, stem) = match stem.split_once('.') {
        Some((method @ ("post" | "put" | "delete"), stem)) => (method.to_uppercase(), stem),
        _ => ("GET".to_owned(), stem),
    };
    let path = match (stem, kind) {
        ("index", "html") => format!("{folder}/"),
        (_, "html") => format!("{folder}/{stem}"),
        _ => format!("{folder}/{stem}.{kind}"),
    };
    Some((method, path))
}

#[test]
fn file_names_map_to_the_documented_requests() {
    for (file, responses) in [
        ("/about.dyn.html", Some("GET /about")),
        ("/a/index.dyn.html", Some("GET /a/")),
        ("/feed.dyn.xml", Some("GET /feed.xml")),
        ("/a/post.login.dyn.html", Some("POST /a/login")),
        ("/parts/menu.priv.html", None),
        ("/parts/menu.priv.dyn.html", None),
        ("/plain.html", None),
        ("/main.lua", None),
    ] {
        let found = answered(file).map(|(method, path)| format!("{method} {path}"));
        assert_eq!(found.as_deref(), responses, "{file}");
    }
}

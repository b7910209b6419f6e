//! The worked table of docs/resolution.md is tested row by row.

use std::collections::{BTreeMap, BTreeSet};

use pinion_archive::Layout;

use crate::reference_model::{Request, Resolution, Rule, Site, resolve};
use crate::rules::{archive, ask, said};

const DOCUMENT: &str = include_str!("../../../../docs/resolution.md");

/// Returns the lines of the block that follows a sentence.
fn block(behind: &str) -> Vec<&'static str> {
    let (_, text) = DOCUMENT.split_once(behind).expect("a sentence of that name");
    let (_, text) = text.split_once("```text\n").expect("a block");
    text.split_once("```").expect("its end").0.lines().collect()
}

/// Returns the keys of a file: its own name, its short path, the folder of an index file.
fn keys(file: &str) -> Vec<String> {
    let short = file.strip_suffix(".html");
    let folder = file.strip_suffix("index.html");
    [Some(file), short, folder].into_iter().flatten().map(|key| format!("/{key}")).collect()
}

/// Returns a line of `_redirects` as simple as those of the table.
fn rule(line: &str) -> Rule {
    let mut words = line.split_whitespace();
    let from = words.next().expect("a path");
    let rest: Vec<&str> = words.collect();
    let (query, rest) = match rest.first().and_then(|word| word.split_once('=')) {
        Some((key, value)) if !key.contains('/') => {
            (vec![(key.to_owned(), value.to_owned())], &rest[1..])
        }
        _ => (vec![], &rest[..]),
    };
    let status = rest.get(1).copied().unwrap_or("301");
    let (host, from) = match from.strip_prefix("http://") {
        Some(url) => url.split_at(url.find('/').expect("a path")),
        None => ("", from),
    };
    Rule {
        host: host.to_owned(),
        from: from.to_owned(),
        query,
        to: rest[0].to_owned(),
        status: status.trim_end_matches('!').parse().expect("a status"),
        force: status.ends_with('!'),
    }
}

/// Returns the site of the document, and which file each of its keys is.
fn site() -> (Site, BTreeMap<String, String>) {
    let mut files = BTreeMap::new();
    let mut fallbacks = BTreeMap::new();
    for file in block("These files, with") {
        let (folder, name) = file.split_at(file.rfind('/').map_or(0, |slash| slash + 1));
        match name {
            "404.html" => drop(fallbacks.insert(format!("/{folder}"), 404)),
            _ if name.starts_with("_200.") => drop(fallbacks.insert(format!("/{folder}"), 200)),
            _ => files.extend(keys(file).into_iter().map(|key| (key, file.to_owned()))),
        }
    }
    let rules = block("and this `_redirects`:").into_iter().map(rule).collect();
    let pages: BTreeSet<String> = files.keys().cloned().collect();
    (Site { pages, rules, fallbacks, single_page: true, ..Site::default() }, files)
}

/// Returns the request of a row: its target, possibly with a host, and its kind.
fn request(cell: &str) -> Request {
    let (target, kind) = cell.trim_start_matches('`').split_once('`').expect("a target");
    let (host, target) = match target.strip_prefix("http://") {
        Some(url) => url.split_at(url.find('/').expect("a path")),
        None => ("example.org", target),
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    Request {
        host: host.to_owned(),
        path: path.replace("%20", " "),
        query,
        navigation: kind.trim() == "navigation",
    }
}

/// Returns the response in the words of the table.
fn in_words(response: &Resolution, files: &BTreeMap<String, String>) -> String {
    match response {
        Resolution::Page(status, key) => format!("{status} {}", files[key]),
        Resolution::Redirect(status, location) => format!("{status} `{location}`"),
        Resolution::Fallback(200, folder) => format!("200 {}_200.png", &folder[1..]),
        Resolution::Fallback(status, folder) => format!("{status} {}404.html", &folder[1..]),
        Resolution::SinglePage => "200 app.html".to_owned(),
        Resolution::NotFound => "404".to_owned(),
    }
}

#[test]
fn the_worked_table_of_the_document_is_correct() {
    let (site, files) = site();
    let bytes = archive(&site);
    let layout = Layout::open(&bytes).expect("sound");
    let (_, table) = DOCUMENT.split_once("| Request | Response | Step |\n").expect("the table");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let mut steps = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let request = request(cells[0]);
        let response = said(&ask(&layout, &bytes, &request));
        assert_eq!(in_words(&response, &files), cells[1], "{row}");
        assert_eq!(response, resolve(&site, &request), "{row}");
        steps.insert(cells[2].chars().next().expect("a step"));
    }
    assert_eq!(steps.into_iter().collect::<String>(), "1234567");
}

/// The last row, which a site with a page for everything never reaches.
#[test]
fn without_404_html_the_built_in_page_is_served() {
    let (mut site, _) = site();
    assert!(DOCUMENT.contains("Without `404.html`, `/users/7` is the built-in page"));
    site.fallbacks.remove("/").expect("the page");
    let bytes = archive(&site);
    let layout = Layout::open(&bytes).expect("sound");
    let request = request("`/users/7`");
    let response = ask(&layout, &bytes, &request);
    assert_eq!((response.status, said(&response)), (404, Resolution::NotFound));
    assert_eq!(resolve(&site, &request), Resolution::NotFound);
}

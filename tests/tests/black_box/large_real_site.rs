//! A real site as a whole: Debian's `python3.11-doc`, 1065 files and 67 MB, every file in every
//! coding, byte by byte.

use pinion_tests::body::decoded;
use pinion_tests::client::Client;
use pinion_tests::matrix::{Form, Io, Matrix};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const SITE: &str = "/usr/share/doc/python3.11/html";
/// The fast levels: the sizes of the representations are not tested here.
const FLAGS: &[&str] = &["--codings", "gzip:1,br:2,zstd:1"];
const CODINGS: [&str; 4] = ["identity", "gzip", "br", "zstd"];
/// Types that every coding makes smaller.
const TEXT: [&str; 5] = ["css", "html", "js", "svg", "txt"];
/// Smaller texts may have no coded form, because none would pay.
const CODED_MIN_BYTES: usize = 1024;
/// A sample contains one of this many files.
const SAMPLE_STEP: usize = 16;
/// Larger files of a served folder stay where they are, without coded forms (docs/serving.md).
const COPIED_MAX_BYTES: usize = 1 << 20;

/// Returns every file below the site, with links followed, by its path.
fn site_files() -> BTreeMap<String, PathBuf> {
    let missing = "the site is missing; on Debian: sudo apt-get install python3.11-doc";
    let (mut files, mut folders) = (BTreeMap::new(), vec![(String::new(), PathBuf::from(SITE))]);
    while let Some((key, folder)) = folders.pop() {
        for entry in fs::read_dir(&folder).expect(missing) {
            let entry = entry.expect("a name");
            let name = entry.file_name().into_string().expect("a name in ASCII");
            let key = format!("{key}/{name}");
            if fs::metadata(entry.path()).expect("no link leads nowhere").is_dir() {
                folders.push((key, entry.path()));
            } else {
                assert!(files.insert(key, entry.path()).is_none());
            }
        }
    }
    files
}

/// Returns whether the name keeps a file out of a site (docs of `pinion build`).
fn is_hidden(key: &str) -> bool {
    key.rsplit('/').next().is_some_and(|name| name.starts_with('.'))
}

fn accepting(request: Request, coding: &str) -> Request {
    request.field("Accept-Encoding", coding)
}

/// Returns the fields on which a client may rely from one response to the next: all but the time.
fn lasting_fields(response: &Response) -> Vec<&(String, String)> {
    response.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("Date")).collect()
}

/// Fetches one file in every coding, and HEAD of each; returns the codings of the responses.
fn check_file(client: &mut Client, key: &str, content: &[u8]) -> BTreeSet<&'static str> {
    let (mut came_in, mut tags, mut types) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    for coding in CODINGS {
        let response = client.exchange(&accepting(Request::get(key), coding));
        assert_eq!(response.status, 200, "{key} in {coding}: {response}");
        assert_eq!(
            response.field("Content-Length"),
            Some(response.body.len().to_string().as_str()),
            "{key} in {coding}"
        );
        assert!(decoded(&response) == content, "{key} in {coding} is not the file");
        let own = response.field("Content-Encoding").unwrap_or("identity");
        assert!(own == coding || own == "identity", "{key} in {own}, not in {coding}");
        let tag = response.field("ETag").expect("a tag").to_owned();
        let known = tags.entry(own.to_owned()).or_insert_with(|| tag.clone());
        assert_eq!(*known, tag, "{key} in {own} has two tags");
        types.insert(response.field("Content-Type").map(str::to_owned));
        came_in.extend(CODINGS.into_iter().find(|coding| *coding == own));

        let head = client.exchange(&accepting(Request::head(key), coding));
        assert_eq!(head.status, 200, "HEAD of {key} in {coding}");
        assert_eq!(lasting_fields(&head), lasting_fields(&response), "{key} in {coding}");
    }
    let distinct: BTreeSet<&String> = tags.values().collect();
    assert_eq!(distinct.len(), tags.len(), "{key}: codings share a tag: {tags:?}");
    assert_eq!(types.len(), 1, "{key}: the type depends on the coding: {types:?}");
    came_in
}

/// Returns whether a file must have every coding.
fn must_be_coded(form: Form, path: &Path, content: &[u8]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_text = extension.is_some_and(|extension| TEXT.contains(&extension));
    let is_copied = form == Form::Archive || content.len() <= COPIED_MAX_BYTES;
    is_text && is_copied && content.len() >= CODED_MIN_BYTES
}

/// Checks one in `step` files.
fn check_site(server: &Server, form: Form, files: &BTreeMap<String, PathBuf>, step: usize) {
    let mut client = server.client();
    let (mut served, mut coded) = (0, 0);
    for (key, path) in files.iter().step_by(step) {
        if is_hidden(key) {
            assert_eq!(client.exchange(&Request::get(key)).status, 404, "{key}");
            continue;
        }
        let content = fs::read(path).expect("the file");
        let came_in = check_file(&mut client, key, &content);
        served += 1;
        if must_be_coded(form, path, &content) {
            assert_eq!(came_in.len(), CODINGS.len(), "{key} came in {came_in:?}");
            coded += 1;
        }
    }
    assert!(served > 1000 / step && coded > 900 / step, "{served} files, {coded} of them coded");
}

/// The sizes that kawipiko's archiver reaches for the site at its default levels, gzip 6 and brotli
/// 6: the bytes that a client gets for all files, per million uncompressed bytes. `cargo xtask
/// bench build` measures them.
const PEER: [(&str, u64); 2] = [("gzip", 190_930), ("br", 170_261)];

#[test]
fn default_levels_send_no_more_than_a_peer_does() {
    let folder = Folder::new("python-docs-sizes");
    let archive = folder.join("site.pinion");
    for (coding, of_a_million) in PEER {
        build(Path::new(SITE), &archive, &["--codings", coding]);
        let ended = run(&["inspect", archive.to_str().expect("ASCII"), "--json"]);
        let figures: serde_json::Value = serde_json::from_str(&ended.stdout).expect("figures");
        let figure = |path: &str| figures.pointer(path).and_then(serde_json::Value::as_u64);
        let stored = figure("/bodies/stored_bytes").expect("the bytes of all forms");
        let plain = figure("/codings/identity/bytes").expect("the bytes of plain forms");
        let coded = figure(&format!("/codings/{coding}/identity_bytes"));
        let sent = stored - coded.expect("the bytes of plain forms beside coded ones");
        assert!(sent * 1_000_000 <= plain * of_a_million, "{coding}: {sent} of {plain} bytes");
    }
}

#[test]
fn every_file_is_served_unchanged_in_every_coding() {
    let site = Path::new(SITE);
    let files = site_files();
    let leads_out = |path: &PathBuf| !fs::canonicalize(path).expect("a file").starts_with(site);
    assert!(files.values().any(leads_out), "links out of the site are part of this test");
    let folder = Folder::new("python-docs");
    let archive = folder.join("site.pinion");
    build(site, &archive, FLAGS);
    // Plain HTTP/1 has every file from a folder and from an archive, over one backend each. The
    // other ways have a sample, and everything in `cargo xtask test --long`.
    let is_long = std::env::var_os("PINION_LONG").is_some();
    for way in Matrix::of(site).list() {
        let is_whole = is_long
            || way.protocol == Protocol::Http1
                && (way.io == Io::Uring) == (way.form == Form::Folder);
        let step = if is_whole { 1 } else { SAMPLE_STEP };
        let start = match way.form {
            Form::Folder => Start::site(site).flags(FLAGS),
            Form::Archive => Start::site(&archive),
        };
        let server = start.in_way(way).start();
        check_site(&server, way.form, &files, step);
        server.stop();
    }
}

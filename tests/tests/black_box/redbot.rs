//! REDbot, a linter of HTTP resources, on all paths of the example site, over both backends: it
//! sends requests with and without conditions, ranges and codings, and compares the responses.

use pinion_tests::binary::source_root;
use pinion_tests::external_programs::{python_program, stdout};
use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use serde_json::Value;
use std::thread;

/// The program that runs REDbot; its head describes it.
const LINT_RESOURCES: &str = include_str!("../../src/lint_resources.py");

/// Warnings that are no errors, and the reasons.
const BORNE: [(&str, &str); 2] = [
    ("STORE_PUBLIC_UNNECESSARY", "`public` is for caches in front of a site behind a password"),
    ("RANGE_CL_FULL", "it asks for 96 bytes, and a smaller file is answered with all it has"),
];

/// Returns every path of the example site, and some missing ones.
fn targets(archive: &Folder) -> Vec<String> {
    let path = archive.join("site.pinion");
    build(&source_root().join("examples/site"), &path, &[]);
    let listed = run(&["ls".as_ref(), "--json".as_ref(), path.as_os_str()]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("one JSON document");
    let entries = listed["entries"].as_array().expect("entries");
    let paths = entries.iter().map(|entry| entry["path"].as_str().expect("a path").to_owned());
    let paths = paths.filter(|path| path.starts_with('/'));
    paths.chain(["/guide".to_owned(), "/nothing".to_owned()]).collect()
}

#[test]
fn redbot_finds_no_fault_in_the_example_site() {
    let folder = Folder::new("redbot");
    let targets = targets(&folder);
    assert!(targets.iter().any(|target| target == "/assets/style.css"), "{targets:?}");
    // Both run at once, because REDbot waits more than it works.
    thread::scope(|scope| {
        for io in Io::BOTH {
            let (targets, archive) = (&targets, folder.join("site.pinion"));
            scope.spawn(move || {
                let server = Start::serve(&[archive]).flags(&["--io", io.as_str()]).start();
                let found = look_at(&server, targets);
                for target in targets {
                    has_no_fault(target, &found[server.url(target)]);
                }
                server.stop();
            });
        }
    });
}

/// Returns the findings of REDbot about each target: a HAR document by its URL.
#[track_caller]
fn look_at(server: &Server, targets: &[String]) -> Value {
    let mut python = python_program("python3");
    python.args(["-c", LINT_RESOURCES]).args(targets.iter().map(|target| server.url(target)));
    serde_json::from_slice(&stdout(&mut python)).expect("one JSON document")
}

#[track_caller]
fn has_no_fault(target: &str, report: &Value) {
    let entry = &report["log"]["entries"][0];
    let status = entry["response"]["status"].as_u64();
    let expected = match target {
        "/guide" => 308,
        "/nothing" => 404,
        _ => 200,
    };
    assert_eq!(status, Some(expected), "{target}: {report:#}");
    let notes = entry["_red_messages"].as_array().expect("notes");
    assert!(!notes.is_empty(), "{target}: REDbot always has something to say");
    for note in notes {
        judge(target, note);
    }
}

/// Checks a note, and the notes on requests that were made because of it.
#[track_caller]
fn judge(target: &str, note: &Value) {
    let (level, name) = (note["level"].as_str(), note["note_id"].as_str().unwrap_or_default());
    let is_borne = level == Some("WARN") && BORNE.iter().any(|(borne, _)| *borne == name);
    assert!(is_borne || matches!(level, Some("GOOD" | "INFO")), "{target}: {note:#}");
    for inner in note["subnotes"].as_array().into_iter().flatten() {
        judge(target, inner);
    }
}

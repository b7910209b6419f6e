//! Compares `pinion why` with a running server: its status and headers must be those that the
//! server sends, and the server itself must give the same explanation.

use crate::request::Request;
use crate::response::Response;
use crate::server::run;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::PathBuf;

/// The header that changes every second.
const OF_THE_MOMENT: &str = "Date";

/// The source of a server, as arguments of `pinion why`.
#[derive(Debug)]
pub struct Served {
    /// The folder or the archive.
    pub source: PathBuf,
    /// The flags for building a folder.
    pub flags: Vec<String>,
    /// The control socket of the server.
    pub socket: PathBuf,
}

impl Served {
    /// Returns the flags for a server with this socket.
    #[must_use]
    pub fn control_flags(&self) -> [&OsStr; 2] {
        ["--control".as_ref(), self.socket.as_os_str()]
    }
}

/// Asserts that `pinion why`, with the same arguments as the server, predicts the response.
///
/// Requests that a URL and the flags of `why` cannot express are skipped: with a body, in HTTP/1.0,
/// without exactly one `Host`, and with a target that is no path or has a `#`.
///
/// # Panics
/// Panics if it predicts anything else.
#[track_caller]
pub fn assert_explained(served: &Served, request: &Request, response: &Response) {
    let Some(words) = words(request) else { return };
    let mut arguments = vec!["why", served.source.to_str().expect("a path in UTF-8")];
    arguments.extend(words.iter().chain(&served.flags).map(String::as_str));
    arguments.push("--json");
    let report = document(&arguments);
    let mut asked = vec!["why", "--socket", served.socket.to_str().expect("a path in UTF-8")];
    asked.extend(words.iter().map(String::as_str));
    asked.push("--json");
    assert_eq!(
        lasting(&document(&asked)),
        lasting(&report),
        "{asked:?}: the server says otherwise"
    );
    let mut headers: Vec<(String, String)> = Vec::new();
    for header in report["headers"].as_array().expect("headers") {
        let text = |member: &str| header[member].as_str().expect("a text").to_owned();
        headers.push((text("name"), text("value")));
    }
    headers.retain(|(name, _)| name != OF_THE_MOMENT);
    let sent = response.fields.iter().filter(|(name, _)| name != OF_THE_MOMENT);
    let sent: Vec<(String, String)> = sent.cloned().collect();
    assert_eq!(
        (report["status"].as_u64(), headers),
        (Some(response.status.into()), sent),
        "{arguments:?}"
    );
    assert_fully_explained(&report, &arguments);
}

/// Returns the document that a command line prints.
#[track_caller]
fn document(arguments: &[&str]) -> Value {
    let ended = run(arguments);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("a document")
}

/// Returns a document without the time, and without the listener and the notes about it, which only
/// a server has.
#[must_use]
pub fn lasting(report: &Value) -> Value {
    let mut report = report.clone();
    let members = report.as_object_mut().expect("an object");
    members.remove("listener");
    let listed = |member: Option<&mut Value>| match member {
        Some(Value::Array(array)) => std::mem::take(array),
        other => panic!("{other:?} is no array"),
    };
    let mut notes = listed(members.get_mut("notes"));
    notes.retain(|note| !note.as_str().is_some_and(|note| note.starts_with("no listener ")));
    let mut headers = listed(members.get_mut("headers"));
    headers.retain(|header| header["name"] != OF_THE_MOMENT);
    members.insert("notes".to_owned(), notes.into());
    members.insert("headers".to_owned(), headers.into());
    report
}

/// Asserts that each explanation ends with a step that responds, and each header has a source.
#[track_caller]
fn assert_fully_explained(report: &Value, arguments: &[&str]) {
    let steps = report["steps"].as_array().expect("steps");
    let last = steps.last().unwrap_or_else(|| panic!("{arguments:?}: no steps"));
    assert_eq!(last["responds"], true, "{arguments:?}: {steps:?}");
    for header in report["headers"].as_array().expect("headers") {
        let is_by_rule = header["source"] == "rule";
        let has_lines = header["lines"].as_array().is_some_and(|lines| !lines.is_empty());
        assert_eq!(is_by_rule, has_lines, "{arguments:?}: {header}");
    }
}

/// Returns the words of a command line for a request.
fn words(request: &Request) -> Option<Vec<String>> {
    let is_plain = request.content().is_empty() && request.body_bytes().is_empty();
    let head = String::from_utf8(request.head_bytes()).ok()?;
    let mut lines = head.split("\r\n");
    let request_line = lines.next()?;
    let mut parts = request_line.split(' ');
    let (method, target, version) = (parts.next()?, parts.next()?, parts.next()?);
    let is_of_url = target.starts_with('/') && !target.contains('#');
    if !is_plain || version != "HTTP/1.1" || !is_of_url || parts.next().is_some() {
        return None;
    }
    let fields: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let is_host = |line: &&&str| line.starts_with("Host: ");
    let host = fields.iter().find(is_host)?.strip_prefix("Host: ")?;
    if fields.iter().filter(is_host).count() != 1 {
        return None;
    }
    let mut words =
        vec![format!("http://{host}{target}"), "--method".to_owned(), method.to_owned()];
    for line in fields.iter().filter(|line| !line.starts_with("Host: ")) {
        words.extend(["--header".to_owned(), (*line).to_owned()]);
    }
    Some(words)
}

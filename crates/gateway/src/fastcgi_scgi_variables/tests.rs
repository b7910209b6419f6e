//! Tests of the variables that applications get for a request, and of those that they never get.

use super::*;
use crate::upstream_group::UpstreamOptions;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::SocketAddr;

fn client() -> ClientIdentity {
    let peer: SocketAddr = "[::ffff:192.0.2.7]:4711".parse().expect("an address");
    ClientIdentity { peer: Some(peer), is_secured: true }
}

fn options(mount: &str) -> ProgramOptions {
    ProgramOptions {
        target: ProgramTarget::Application(PathPrefix::new(mount)),
        passes_authorization: false,
        variables: vec![("APP_ENV".into(), "live".into())],
    }
}

fn request(
    text: &str,
    program: &ProgramOptions,
    changes: FieldChanges,
) -> Result<ClientRequest, ProxyError> {
    let mut storage = HeadStorage::new();
    let parsed = parse(text.as_bytes(), 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("{text}") };
    let upstream = Upstream::parse_application("unix:/run/app.sock", UpstreamProtocol::Scgi);
    let upstream = upstream.expect("an address");
    let options = UpstreamOptions {
        request_fields: changes,
        program: Some(program.clone()),
        ..UpstreamOptions::default()
    };
    let group = UpstreamGroup::new(vec![upstream.clone()], options).expect("a group");
    forward_to_program(&upstream, &group, program, &head, &client())
}

fn variables_of(request: &ClientRequest) -> BTreeMap<String, String> {
    let ServerProtocol::Scgi(variables) = &request.protocol else { panic!("SCGI") };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all: Vec<_> =
        variables.iter().map(|variable| (text(variable.name), text(variable.value))).collect();
    let map: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!(all.len(), map.len(), "each name once: {all:?}");
    map
}

fn variables(lines: &str, changes: FieldChanges) -> BTreeMap<String, String> {
    let text = format!("GET /app/a%2Fb?q HTTP/1.1\r\nHost: Example.org:8443\r\n{lines}\r\n");
    variables_of(&request(&text, &options("/app"), changes).expect("forwarded"))
}

#[test]
fn an_application_gets_the_request_as_variables() {
    let found = variables("Accept: a\r\nCookie: b=c\r\n", FieldChanges::default());
    for (name, value) in [
        ("SCRIPT_NAME", "/app"),
        ("PATH_INFO", "/a/b"),
        ("QUERY_STRING", "q"),
        ("REQUEST_URI", "/app/a%2Fb?q"),
        ("REQUEST_METHOD", "GET"),
        ("SERVER_NAME", "example.org"),
        ("SERVER_PORT", "8443"),
        ("REMOTE_ADDR", "192.0.2.7"),
        ("REMOTE_PORT", "4711"),
        ("HTTPS", "on"),
        ("HTTP_HOST", "Example.org:8443"),
        ("HTTP_ACCEPT", "a"),
        ("HTTP_COOKIE", "b=c"),
        ("APP_ENV", "live"),
    ] {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
    }
    for name in ["SCRIPT_FILENAME", "DOCUMENT_ROOT", "CONTENT_LENGTH", "REDIRECT_STATUS"] {
        assert_eq!(found.get(name), None, "{name}");
    }
}

/// Fields in which proxies describe a client are not trusted if the client sends them itself.
/// Passwords and the addresses of proxies are not passed on to applications.
#[test]
fn a_client_chooses_no_variable_that_an_application_trusts() {
    let found = variables(
        "Proxy: http://evil\r\nX-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\n\
         Forwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nRemote-User: root\r\n\
         X-Remote-User: root\r\nAuthorization: Basic x\r\nX_Under: y\r\nX-Original-URL: /z\r\n",
        FieldChanges::default(),
    );
    let fields: Vec<&String> = found.keys().filter(|name| name.starts_with("HTTP_")).collect();
    assert_eq!(fields, ["HTTP_HOST"]);
}

#[test]
fn fields_are_set_and_removed() {
    let mut changes = FieldChanges::default();
    changes.set("X-Tenant", "north");
    changes.remove("Cookie");
    let found = variables("X-Tenant: south\r\nCookie: b=c\r\nX-Other: d\r\n", changes);
    let fields: Vec<(&str, &str)> = found
        .iter()
        .filter(|(name, _)| name.starts_with("HTTP_") && *name != "HTTP_HOST")
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(fields, [("HTTP_X_OTHER", "d"), ("HTTP_X_TENANT", "north")]);
}

#[test]
fn paths_that_cannot_be_a_variable_are_refused() {
    let head = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    for (path, error) in [
        ("/app/%00", ProxyError::Path),
        ("/app/../x", ProxyError::DotSegment),
        ("/app/%2e%2e%2fx", ProxyError::DotSegment),
    ] {
        let result = request(&head(path), &options("/app"), FieldChanges::default());
        assert_eq!(result.err(), Some(error), "{path}");
    }
}

#[test]
fn content_length_is_set_once_it_is_known() {
    let text = "POST /app HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut request = request(text, &options("/app"), FieldChanges::default()).expect("forwarded");
    assert_eq!(variables_of(&request).get("CONTENT_LENGTH"), None);
    request.set_content_length(5);
    assert_eq!(request.content, RequestBody::Pieces { length: Some(5) });
    assert_eq!(variables_of(&request).get("CONTENT_LENGTH").map(String::as_str), Some("5"));
}

#[test]
fn the_host_that_the_site_was_chosen_by_names_the_server() {
    let head = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (host, name, port) in [
        ("A.example", "a.example", "443"),
        ("a:81", "a", "81"),
        ("[::1]:81", "[::1]", "81"),
        ("[::1]", "[::1]", "443"),
    ] {
        let request = request(&head(host), &options("/"), FieldChanges::default());
        let found = variables_of(&request.expect("forwarded"));
        assert_eq!((&*found["SERVER_NAME"], &*found["SERVER_PORT"]), (name, port), "{host}");
    }
}

proptest! {
    /// Whatever names the fields have, the variables that describe the request and its sender are
    /// those of this server.
    #[test]
    fn fields_never_replace_other_variables(
        names in prop::collection::vec("[A-Za-z_-]{1,4}(Proxy|Host|Remote[-_]Addr|Https)?", 0..6),
    ) {
        let lines: String = names.iter().map(|name| format!("{name}: evil\r\n")).collect();
        let clean = variables("", FieldChanges::default());
        let found = variables(&lines, FieldChanges::default());
        for (name, value) in &clean {
            prop_assert_eq!(found.get(name), Some(value), "{}", name);
        }
        let is_known = |name: &String| clean.contains_key(name) || name.starts_with("HTTP_");
        prop_assert!(found.keys().all(is_known));
        prop_assert_eq!(found.get("HTTP_PROXY"), None);
    }
}

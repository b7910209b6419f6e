//! Tests of listeners of Unit, and of the paths of its applications.

use super::*;

/// A configuration with these listeners and routes.
fn unit(listeners: &str, routes: &str) -> String {
    format!(
        r#"{{"listeners": {{{listeners}}}, "routes": [{routes}], "applications": {{
            "a": {{"type": "python", "module": "a", "protocol": "wsgi"}},
            "b": {{"type": "python", "module": "b", "protocol": "wsgi"}}
        }}}}"#
    )
}

const PATHS: &str = r#"
    {"match": {"uri": "/path/*"}, "action": {"pass": "applications/a"}},
    {"match": {"uri": "/environ"}, "action": {"pass": "applications/a"}},
    {"match": {"uri": "/b/*"}, "action": {"pass": "applications/b"}},
    {"match": {"uri": "/own/*"}, "action":
        {"pass": "applications/a", "response_headers": {"X-A": "b"}}},"#;

fn paths(converted: &Converted) -> Vec<String> {
    let mounts = table(&converted.text)["site"][0]["mount"].clone();
    let paths = mounts.as_array().expect("mounts").iter().map(|mount| mount["path"].to_string());
    paths.map(|path| path.trim_matches('"').to_owned()).collect()
}

#[test]
fn paths_of_the_application_for_everything_need_no_mount() {
    let listener = r#""*:80": {"pass": "routes"}"#;
    let own = ("/applications/a", "gets /own as SCRIPT_NAME");
    let other = ("/applications/b", "wrap it: environ[\"PATH_INFO\"] = ");
    let text = unit(listener, &format!(r#"{PATHS} {{"action": {{"pass": "applications/a"}}}}"#));
    let got = converted("unit.json", &text);
    assert_eq!(paths(&got), ["/b", "/own", "/"], "{}", got.text);
    names(&got, &[own, other]);
    // A file of the site would come before the application.
    let share = r#"{"action": {"share": "/srv$uri", "fallback": {"pass": "applications/a"}}}"#;
    let got = converted("unit.json", &unit(listener, &format!("{PATHS} {share}")));
    assert_eq!(paths(&got), ["/b", "/own", "/"], "{}", got.text);
    let file = "a file of the site comes before it";
    names(
        &got,
        &[
            own,
            other,
            (
                "/applications/a",
                &format!("/path is left to the mount / of the same application: {file}"),
            ),
            (
                "/applications/a",
                &format!("/environ is left to the mount / of the same application: {file}"),
            ),
        ],
    );
    // Another application responds to everything else.
    let text = unit(listener, &format!(r#"{PATHS} {{"action": {{"pass": "applications/b"}}}}"#));
    let got = converted("unit.json", &text);
    assert_eq!(paths(&got), ["/path", "/environ", "/own", "/"], "{}", got.text);
}

#[test]
fn the_listener_that_passes_to_routes_precedes_others() {
    let listeners = r#""*:1": {"pass": "applications/b"}, "*:2": {"pass": "routes"}"#;
    let got = converted("unit.json", &unit(listeners, r#"{"action": {"pass": "applications/a"}}"#));
    assert_eq!(table(&got.text)["listen"], serde_json::json!([{"address": ":2"}]));
    names(&got, &[("/listeners/*:1", "passes to applications/b, not to routes")]);
}

#[test]
fn dangling_references_are_named() {
    for (pass, place) in [
        ("routes/nope", "/listeners/*:80/pass: there are no routes of the name routes/nope"),
        ("applications/nope", "/listeners/*:80/pass: applications/nope leads to nothing"),
        ("upstreams/nope", "/listeners/*:80/pass: there is no upstream nope"),
    ] {
        let error = refused("unit.json", &unit(&format!(r#""*:80": {{"pass": "{pass}"}}"#), ""));
        assert!(error.contains(place), "{error}");
    }
}

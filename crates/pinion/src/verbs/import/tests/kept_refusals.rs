//! Tests that requests which another server refused are still refused, or are named as open.

use super::*;

/// Returns the paths that are open now, each as `place message`.
fn open(converted: &Converted) -> Vec<String> {
    let leftovers = converted.draft.leftovers();
    let open = leftovers.iter().filter(|leftover| leftover.opens);
    open.map(|Leftover { place, message, .. }| format!("{place} {message}")).collect()
}

#[test]
fn refusing_rules_of_uwsgi_are_reported_as_open() {
    let text = "[uwsgi]\nmodule = a\nhttp = :80\nroute = ^/admin break:403 Forbidden\n\
                route = ^/old redirect:/new\nroute = ^/breakfast uwsgi:/a\n\
                route = ^/x basicauth:Staff,a:b\nstatic-skip-ext = .py\nstatic-skip-ext = .sql\n";
    let open = open(&converted("/a.ini", text));
    let expected = [("4 ", "^/admin"), ("7 ", "^/x"), ("9 ", ".sql are sent now")];
    assert_eq!(open.len(), expected.len(), "{open:#?}");
    for (message, (place, part)) in open.iter().zip(expected) {
        assert!(message.starts_with(place) && message.contains(part), "{open:#?}");
    }
}

/// A configuration of Unit with these routes, and applications `a` and `b`.
fn routes(routes: &str) -> Converted {
    try_routes(routes).unwrap_or_else(|error| panic!("{error}"))
}

fn try_routes(routes: &str) -> Result<Converted, String> {
    let text = format!(
        r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": [{routes}],
        "applications": {{
            "a": {{"type": "python", "module": "a", "protocol": "wsgi"}},
            "b": {{"type": "python", "module": "b", "protocol": "wsgi", "prefix": "/b"}},
            "php": {{"type": "php", "root": "/srv"}}
        }}}}"#
    );
    convert(Path::new("unit.json"), None, text.into_bytes())
}

const TO_A: &str = r#"{"action": {"pass": "applications/a"}}"#;

/// Steps, the tables that they become, and the paths that are named as open.
const STEPS: [(&str, &str, &[&str]); 19] = [
    (
        r#"{"match": {"uri": "/a/*", "source": "!10.0.0.0/8"}, "action": {"return": 403}}"#,
        r#"[{"path": "/a", "allow": ["10.0.0.0/8"]}]"#,
        &[],
    ),
    (
        r#"{"match": {"uri": ["/a", "/a/*"]}, "action": {"return": 404}}"#,
        r#"[{"path": "/a", "deny": ["0.0.0.0/0", "::/0", "unix"]}]"#,
        &[],
    ),
    (
        r#"{"match": {"source": ["10.0.0.0/8", "[::1]"]}, "action": {"return": 403}}"#,
        r#"[{"path": "/", "deny": ["10.0.0.0/8", "::1"]}]"#,
        &[],
    ),
    // Some networks are allowed, and all others are not.
    (
        r#"{"match": {"uri": "/b/*", "source": ["10.0.0.0/8", "!10.1.0.0/16"]},
            "action": {"pass": "applications/b"}},
           {"match": {"uri": "/b/*"}, "action": {"return": 403}}"#,
        r#"[{"path": "/b", "allow": ["10.0.0.0/8"], "deny": ["10.1.0.0/16"]}]"#,
        &[],
    ),
    // Two steps have the same path.
    (
        r#"{"match": {"uri": "/a/*", "source": "10.1.0.0/16"}, "action": {"return": 403}},
           {"match": {"uri": "/a/*", "source": "!10.0.0.0/8"}, "action": {"return": 403}},
           {"match": {"uri": "/a/*", "source": "!11.0.0.0/8"}, "action": {"return": 403}}"#,
        r#"[{"path": "/a", "deny": ["10.1.0.0/16"], "allow": ["10.0.0.0/8"]}]"#,
        &["/a/* for other networks"],
    ),
    // The second step refuses the others, too.
    (
        r#"{"match": {"uri": "/a/*", "source": "!10.0.0.0/8"}, "action": {"return": 403}},
           {"match": {"uri": "/a/*"}, "action": {"return": 403}}"#,
        r#"[{"path": "/a", "allow": ["10.0.0.0/8"], "deny": ["0.0.0.0/0", "::/0", "unix"]}]"#,
        &[],
    ),
    // Requests that an earlier step handles are never refused.
    (
        r#"{"match": {"uri": "/b/*"}, "action": {"pass": "applications/b"}},
           {"match": {"uri": "/b/x/*"}, "action": {"return": 403}}"#,
        "null",
        &[],
    ),
    (
        r#"{"match": {"uri": "/a/*", "cookies": {"a": "b"}}, "action": {"return": 403}}"#,
        "null",
        &["/a/* was refused"],
    ),
    (
        r#"{"match": {"uri": "/a/*", "cookies": {"a": "!b"}},
            "action": {"return": 302, "location": "/login"}}"#,
        "null",
        &["/a/* was refused"],
    ),
    (
        r#"{"match": {"uri": ["/a/*", "~^/b"]}, "action": {"return": 403}}"#,
        r#"[{"path": "/a", "deny": ["0.0.0.0/0", "::/0", "unix"]}]"#,
        &["~^/b was refused"],
    ),
    (
        r#"{"match": {"uri": "/a*"}, "action": {"return": 403}}"#,
        r#"[{"path": "/a", "deny": ["0.0.0.0/0", "::/0", "unix"]}]"#,
        &["/a* beside /a and /a/*"],
    ),
    (
        r#"{"match": {"uri": ["/", "*.sql"]}, "action": {"return": 403}}"#,
        "null",
        &["/ was refused", "*.sql was refused"],
    ),
    (
        r#"{"match": {"uri": "/a/*", "source": ["10.0.0.0-10.0.0.9", "10.1.0.0/16"]},
            "action": {"return": 403}}"#,
        r#"[{"path": "/a", "deny": ["10.1.0.0/16"]}]"#,
        &["10.0.0.0-10.0.0.9"],
    ),
    // Refusals within routes whose condition cannot be converted.
    (
        r#"{"match": {"method": "POST"}, "action": {"pass": "routes"}},
           {"match": {"uri": "/c"}, "action": {"return": 301, "location": "/d"}},
           {"match": {"method": "PUT"}, "action": {"return": 405}}"#,
        "null",
        &["what /routes/0/match describes", "what /routes/2/match describes"],
    ),
    (
        r#"{"match": {"source": "10.0.0.0/8"}, "action": {"return": 302, "location": "/d"}}"#,
        "null",
        &["redirected"],
    ),
    (
        r#"{"match": {"uri": "/s/*"}, "action": {"share": "/srv$uri", "types": "image/*"}}"#,
        "null",
        &["files of other types"],
    ),
    (
        r#"{"match": {"uri": "/s/*"}, "action": {"share": "/srv$uri", "follow_symlinks": false}},
           {"action": {"share": "/srv$uri", "follow_symlinks": false, "chroot": "/srv"}}"#,
        "null",
        &["links in this folder", "links in this folder"],
    ),
    // The table for `/a` covers `/a/*`, too, which the first step does not take.
    (
        r#"{"match": {"uri": "/a", "source": "10.1.0.0/16"}, "action": {"pass": "applications/a"}},
           {"match": {"uri": ["/a/*", "/a"]}, "action": {"return": 403}}"#,
        r#"[{"path": "/a", "allow": ["10.1.0.0/16"]}]"#,
        &["/a/* for the clients of an earlier step was refused"],
    ),
    (
        r#"{"match": {"uri": "/a/*", "source": "10.1.0.0/16"},
            "action": {"pass": "applications/a"}},
           {"match": {"uri": ["/a", "/a/*"]}, "action": {"return": 403}}"#,
        r#"[{"path": "/a", "allow": ["10.1.0.0/16"]}]"#,
        &["/a for the clients of an earlier step was refused"],
    ),
];

#[test]
fn steps_of_unit_that_refuse_become_access() {
    for (steps, expected, parts) in STEPS {
        let converted = routes(&format!("{steps}, {TO_A}"));
        let site = &table(&converted.text)["site"][0];
        let expected: Value = serde_json::from_str(expected).expect("JSON");
        let access = site.get("access").cloned().unwrap_or_default();
        assert_eq!(access, expected, "{steps}\n{}", converted.text);
        let open = open(&converted);
        assert_eq!(open.len(), parts.len(), "{steps}\n{open:#?}");
        for (message, part) in open.iter().zip(parts) {
            assert!(message.contains(part), "{steps}\n{open:#?}");
        }
    }
}

#[test]
fn a_step_for_some_clients_is_carried_only_if_others_are_refused() {
    let inner = r#"{"match": {"uri": "/b/*", "source": "10.0.0.0/8"},
        "action": {"pass": "applications/b"}}"#;
    // Others get the result of the next step.
    let converted = routes(&format!("{inner}, {TO_A}"));
    let site = table(&converted.text)["site"][0].clone();
    assert_eq!(site["mount"].as_array().map(Vec::len), Some(1), "{}", converted.text);
    assert_eq!(site.get("access"), None, "{}", converted.text);
    names(&converted, &[("/routes/0/match/source", "this step was not carried")]);
    // Others get 404: there is no other step.
    let converted = routes(inner);
    let site = table(&converted.text)["site"][0].clone();
    assert_eq!(site["mount"][0]["path"], "/b", "{}", converted.text);
    assert_eq!(site["access"][0]["allow"][0], "10.0.0.0/8", "{}", converted.text);
    names(&converted, &[]);
}

#[test]
fn refused_hosts_and_files_beside_scripts_are_reported_as_open() {
    let steps = r#"{"match": {"host": "old.example"}, "action": {"return": 403}}"#;
    let converted = routes(&format!("{steps}, {TO_A}"));
    let open_now = open(&converted);
    assert!(open_now.len() == 1 && open_now[0].contains("old.example was refused"), "{open_now:?}");
    // Unit shares no other files of the folder.
    let php = r#"{"match": {"uri": "*.php"}, "action": {"pass": "applications/php"}}"#;
    let open_now = open(&routes(php));
    assert!(open_now.len() == 1 && open_now[0].contains("no scripts are open"), "{open_now:?}");
    let shared = routes(&format!(r#"{php}, {{"action": {{"share": "/srv$uri"}}}}"#));
    assert!(open(&shared).is_empty(), "{}", shared.text);
}

/// The first network is within the second one.
const NETWORKS: [&str; 3] = ["10.1.0.0/16", "10.0.0.0/8", "192.0.2.0/24"];

/// Clients, and of which of these networks they are.
const CLIENTS: [[bool; 3]; 4] =
    [[true, true, false], [false, true, false], [false, false, true], [false, false, false]];

const TARGETS: [&str; 7] = ["/", "/a", "/a/x", "/a/b", "/a/b/x", "/c", "/c/x"];

/// A step: paths, networks (those of the second list are exceptions), and whether it refuses.
type PlainStep = (Vec<&'static str>, Option<(Vec<usize>, Vec<usize>)>, bool);

fn plain_step() -> impl Strategy<Value = PlainStep> {
    let uri = prop::sample::select(vec!["/a", "/a/*", "/a/b", "/a/b/*", "/c/*", "/a*"]);
    let networks = || prop::collection::vec(0..3_usize, 0..2);
    let sources = (networks(), networks())
        .prop_filter("a network", |(some, except)| !some.is_empty() || !except.is_empty());
    (prop::collection::vec(uri, 0..3), prop::option::of(sources), any::<bool>())
}

fn written((uris, sources, refuses): &PlainStep) -> Value {
    let mut conditions = Map::new();
    if !uris.is_empty() {
        conditions.insert("uri".to_owned(), uris.clone().into());
    }
    if let Some((some, except)) = sources {
        let some = some.iter().map(|&network| NETWORKS[network].to_owned());
        let except = except.iter().map(|&network| format!("!{}", NETWORKS[network]));
        conditions.insert("source".to_owned(), some.chain(except).collect());
    }
    let action = match refuses {
        true => serde_json::json!({"return": 403}),
        false => serde_json::json!({"pass": "applications/a"}),
    };
    serde_json::json!({"match": conditions, "action": action})
}

/// Returns whether Unit uses a step for a request.
fn takes((uris, sources, _): &PlainStep, target: &str, client: &[bool; 3]) -> bool {
    let has_path = |uri: &&str| match uri.strip_suffix('*') {
        Some(start) => target.starts_with(start),
        None => target == *uri,
    };
    let is_of = |networks: &[usize]| networks.iter().any(|&network| client[network]);
    let has_client = sources
        .as_ref()
        .is_none_or(|(some, except)| (some.is_empty() || is_of(some)) && !is_of(except));
    (uris.is_empty() || uris.iter().any(has_path)) && has_client
}

/// Returns whether a site of Pinion passes a request on.
fn admits(site: &Value, target: &str, client: &[bool; 3]) -> bool {
    let rows = |name: &str| site.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let covers = |row: &Value| {
        let path = row.get("path").and_then(Value::as_str).unwrap_or("/").trim_end_matches('/');
        target.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_of = |row: &Value, key: &str| {
        let networks = row.get(key).and_then(Value::as_array)?;
        Some(networks.iter().filter_map(Value::as_str).any(|network| {
            let known = NETWORKS.iter().position(|known| *known == network);
            known.is_none_or(|known| client[known])
        }))
    };
    rows("mount").iter().any(covers)
        && rows("access")
            .iter()
            .filter(|row| covers(row))
            .all(|row| is_of(row, "deny") != Some(true) && is_of(row, "allow") != Some(false))
}

proptest! {
    #[test]
    fn requests_that_unit_refused_are_refused_or_reported(
        steps in prop::collection::vec(plain_step(), 0..5),
    ) {
        let mut written: Vec<String> = steps.iter().map(|step| written(step).to_string()).collect();
        written.push(TO_A.to_owned());
        // Nothing is served at all if the first step refuses everything.
        let Ok(converted) = try_routes(&written.join(", ")) else { return Ok(()) };
        if !open(&converted).is_empty() {
            return Ok(());
        }
        let site = &table(&converted.text)["site"][0];
        for (target, client) in TARGETS.iter().flat_map(|t| CLIENTS.iter().map(move |c| (t, c))) {
            let first = steps.iter().find(|step| takes(step, target, client));
            // A step for all clients that is the last one has the effect that Pinion has anyway: a
            // path without a mount gets 404. A mount for `/a` has all paths below it, too.
            let is_rest =
                |(uris, sources, _): &PlainStep| uris.is_empty() && sources.is_none();
            if first.is_some_and(|step| step.2 && !is_rest(step)) {
                let text = &converted.text;
                prop_assert!(!admits(site, target, client), "{target} {client:?}\n{text}");
            }
        }
    }
}

/// Each of these routes passes requests to all of them, and so does each of those.
#[test]
fn the_conversion_of_cyclic_routes_ends() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let steps = names.map(|name| {
        format!(r#"{{"match": {{"method": "GET"}}, "action": {{"pass": "routes/{name}"}}}}"#)
    });
    let open_steps = names.map(|name| format!(r#"{{"action": {{"pass": "routes/{name}"}}}}"#));
    for steps in [steps, open_steps] {
        let routes = names.map(|name| format!("\"{name}\": [{}]", steps.join(", ")));
        let text = format!(
            r#"{{"listeners": {{"*:80": {{"pass": "routes/a"}}}}, "routes": {{{}}}}}"#,
            routes.join(", ")
        );
        // The result does not matter, but the conversion has to end.
        let _converted_or_refused = convert(Path::new("unit.json"), None, text.into_bytes());
    }
}

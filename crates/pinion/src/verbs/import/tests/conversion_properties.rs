//! Tests that hold for every file: the result is an error, or a configuration that Pinion accepts
//! and that has the content of the draft.

use super::*;

/// Texts that make trouble in JSON, in ini files, in TOML and in comments.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{1,6}",
        2 => "/[a-z*]{0,4}(/\\*)?",
        1 => prop::sample::select(vec![
            "routes", "routes/a", "applications/a", "applications/a/b", "upstreams/a", "\"", "'''",
            "\n[server]\nworkers = 1", "a\\", "\u{7f}\u{1}", "é…\u{202e}", "%(a)%(b)", "%", "*:80",
            "*:443", "unix:/a", "/srv$uri", "http://127.0.0.1:1", "python", "php 8", "wsgi", "",
            "example.org", "*.example.org", "*.php", "*", "!a", "X-A: b", "10.0.0.0/8",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

/// Names of members that have a meaning, and others.
fn member() -> impl Strategy<Value = String> {
    let known = vec![
        "listeners",
        "routes",
        "applications",
        "upstreams",
        "settings",
        "access_log",
        "config",
        "pass",
        "tls",
        "certificate",
        "forwarded",
        "source",
        "client_ip",
        "match",
        "action",
        "host",
        "uri",
        "method",
        "share",
        "fallback",
        "return",
        "location",
        "proxy",
        "response_headers",
        "index",
        "type",
        "path",
        "home",
        "module",
        "callable",
        "protocol",
        "prefix",
        "targets",
        "threads",
        "processes",
        "max",
        "user",
        "environment",
        "limits",
        "timeout",
        "requests",
        "root",
        "script",
        "servers",
        "weight",
        "http",
        "max_body_size",
        "idle_timeout",
        "a",
        "b",
    ];
    prop_oneof![6 => prop::sample::select(known).prop_map(str::to_owned), 1 => hostile()]
}

fn node() -> impl Strategy<Value = Value> {
    use Value;
    let leaf = prop_oneof![
        4 => hostile().prop_map(Value::from),
        2 => any::<u64>().prop_map(Value::from),
        1 => (0_u64..100).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => (-5.0..5.0).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let members = prop::collection::vec((member(), inner.clone()), 0..6);
        prop_oneof![
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::from),
            3 => members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A configuration that has all required members, so that the others are read.
fn unit() -> impl Strategy<Value = String> {
    let route = (
        prop::option::of(prop_oneof![hostile(), Just("/a/*".to_owned()), Just("*.php".to_owned())]),
        prop::option::of(prop::sample::select(vec!["example.org", "*.example.org", "a.b", "*"])),
        prop_oneof![
            Just(serde_json::json!({"pass": "applications/a"})),
            Just(serde_json::json!({"pass": "applications/php"})),
            Just(serde_json::json!({"pass": "upstreams/a"})),
            Just(serde_json::json!({"pass": "routes/b"})),
            Just(serde_json::json!({"share": "/srv$uri", "fallback": {"pass": "applications/a"}})),
            Just(serde_json::json!({"share": ["/srv$uri", "/b$uri"]})),
            hostile().prop_map(|text| serde_json::json!({"proxy": text})),
            hostile().prop_map(|text| serde_json::json!({"share": text})),
            (hostile(), node()).prop_map(|(name, node)| {
                serde_json::json!({"proxy": "http://a", "response_headers": {name: node}})
            }),
            node(),
        ],
    );
    let route = route.prop_map(|(uri, host, action)| {
        let mut conditions = Map::new();
        conditions.extend(uri.map(|uri| ("uri".to_owned(), uri.into())));
        conditions.extend(host.map(|host| ("host".to_owned(), host.into())));
        serde_json::json!({"match": conditions, "action": action})
    });
    let routes = || prop::collection::vec(route.clone(), 0..6);
    let address = prop_oneof![Just("*:80".to_owned()), Just("unix:/a".to_owned()), hostile()];
    let parts = (
        prop::collection::vec((address, prop::option::of(node())), 1..3),
        (routes(), routes()),
        prop::collection::vec((member(), node()), 0..5),
        node(),
        prop::collection::vec((hostile(), node()), 0..3),
    );
    parts.prop_map(|(listeners, (main, other), keys, settings, environment)| {
        let mut python = serde_json::json!({"type": "python", "module": "m"});
        for (name, node) in keys {
            python[name] = node;
        }
        python["environment"] = Value::Object(environment.into_iter().collect());
        let listeners: Map<String, Value> = listeners
            .into_iter()
            .map(|(address, tls)| (address, serde_json::json!({"pass": "routes/a", "tls": tls})))
            .collect();
        serde_json::json!({
            "listeners": listeners,
            "routes": {"a": main, "b": other},
            "settings": {"http": settings},
            "applications": {"a": python, "php": {"type": "php", "root": "/srv"}},
            "upstreams": {"a": {"servers": {"10.0.0.1:80": {}}}},
        })
        .to_string()
    })
}

fn ini() -> impl Strategy<Value = String> {
    let names = vec![
        "http",
        "https",
        "http-socket",
        "socket",
        "module",
        "wsgi-file",
        "callable",
        "mount",
        "chdir",
        "home",
        "pythonpath",
        "env",
        "processes",
        "threads",
        "uid",
        "max-requests",
        "harakiri",
        "reload-on-rss",
        "static-map",
        "static-map2",
        "check-static",
        "static-index",
        "set",
        "a",
        "b",
        "manage-script-name",
        "route",
        "for",
        "endfor",
        "ini",
        "max-worker-lifetime",
    ];
    let name =
        prop_oneof![6 => prop::sample::select(names).prop_map(str::to_owned), 1 => hostile()];
    let value = prop_oneof![
        4 => hostile(),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        1 => (hostile(), hostile()).prop_map(|(a, b)| format!("{a}={b}")),
        1 => prop::sample::select(vec![":80", "/a=m:c", "/static=/srv", ":443,a.crt,a.key", "%d/a"])
            .prop_map(str::to_owned),
    ];
    let line = (name, value).prop_map(|(name, value)| format!("{name} = {value}\n"));
    let lines = prop::collection::vec(line, 0..20);
    lines.prop_map(|lines| format!("[uwsgi]\nmodule = m\n{}", lines.concat()))
}

/// Returns the TOML tables that a draft stands for.
fn meant(draft: &ConfigurationDraft) -> Table {
    let mut root = Table::new();
    for table in draft.tables.iter().filter(|table| table.has_keys() || table.header == "[[site]]")
    {
        let keys = keys(table);
        let name = table.header.trim_matches(['[', ']']);
        let array = |of: &mut Table, name: &str, keys: Table| {
            let array = of.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            array.as_array_mut().expect("an array").push(Value::Object(keys));
        };
        match name.strip_prefix("site.") {
            Some(inner) => {
                let sites = root["site"].as_array_mut().expect("sites");
                let site = sites.last_mut().and_then(Value::as_object_mut);
                array(site.expect("a site"), inner, keys);
            }
            None if table.header.starts_with("[[") => array(&mut root, name, keys),
            None => drop(root.insert(name.to_owned(), Value::Object(keys))),
        }
    }
    root
}

fn keys(table: &DraftTable) -> Table {
    let text = |text: &String| Value::String(text.clone());
    let pairs = table.lines.iter().filter_map(|line| match line {
        DraftLine::Key(key, setting) => Some((
            (*key).to_owned(),
            match setting {
                Setting::Text(value) => text(value),
                Setting::Texts(texts) => Value::Array(texts.iter().map(text).collect()),
                Setting::Number(number) => Value::from(*number),
                Setting::Switch(on) => Value::Bool(*on),
                Setting::Variables(variables) => Value::Object(
                    variables.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
                ),
            },
        )),
        DraftLine::LeftOut(_) => None,
    });
    pairs.collect()
}

fn holds(name: &str, text: &str) -> Result<(), TestCaseError> {
    let Ok(Converted { draft, text }) = convert(Path::new(name), None, text.as_bytes().to_vec())
    else {
        return Ok(());
    };
    match config::parse(&text, Path::new(CONFIGURATION)) {
        Ok((_, faults)) => prop_assert!(faults.is_empty(), "{faults:?}\n{text}"),
        Err(faults) => return Err(TestCaseError::fail(format!("{faults:?}\n{text}"))),
    }
    let read = read(&text);
    let read = read.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    prop_assert_eq!(&read, &meant(&draft), "{}", text);
    // Each path of a mount and of a live folder exists once.
    for site in read["site"].as_array().into_iter().flatten() {
        let mounts = site.get("mount").and_then(Value::as_array).into_iter().flatten();
        let mut paths: Vec<&str> =
            mounts.map(|mount| mount.get("path").and_then(Value::as_str).unwrap_or("/")).collect();
        let all = paths.len();
        paths.sort_unstable();
        paths.dedup();
        prop_assert_eq!(paths.len(), all, "{}", text);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_json_is_refused_or_becomes_a_configuration(node in node()) {
        holds("unit.json", &node.to_string())?;
    }

    #[test]
    fn any_configuration_of_unit_is_refused_or_becomes_one(text in unit()) {
        holds("unit.json", &text)?;
    }

    #[test]
    fn any_ini_file_is_refused_or_becomes_a_configuration(text in ini()) {
        holds("/srv/uwsgi.ini", &text)?;
    }

    #[test]
    fn any_text_is_refused_or_becomes_a_configuration(text in any::<String>()) {
        holds("unit.json", &text)?;
        holds("/srv/uwsgi.ini", &text)?;
    }
}

use super::configuration::{Converted, convert};
use super::configuration_draft::{ConfigurationDraft, DraftLine, DraftTable, Leftover, Setting};
use crate::config;
use crate::served_source::CONFIGURATION;
use proptest::prelude::*;
use serde_json::{Map, Value};
use std::path::Path;
use toml::de::{DeTable, DeValue};

mod conversion_properties;
mod ini_files;
mod kept_refusals;
mod nginx_unit_listeners;

/// A configuration of Unit, as its documents show it.
const UNIT: &str = r#"{
    // The sites of this machine.
    "listeners": {
        "*:8080": {"pass": "routes"},
        "*:8443": {"pass": "routes", "tls": {"certificate": "bundle"}},
        "127.0.0.1:9000": {"pass": "applications/other"}
    },
    "routes": [
        {"match": {"host": "old.example.org"},
            "action": {"return": 301, "location": "https://example.org/"}},
        {"match": {"uri": "/static/*"}, "action": {"share": "/srv/shop$uri"}},
        {"match": {"uri": ["/api", "/api/*"]}, "action": {"pass": "applications/api/v1"}},
        {"match": {"uri": "/ws/*"}, "action": {"proxy": "http://127.0.0.1:3000"}},
        {"match": {"method": "POST", "uri": "/up"}, "action": {"pass": "applications/shop"}},
        {"action": {"pass": "applications/shop"}}
    ],
    "applications": {
        "shop": {
            "type": "python 3.11", "path": ["/srv/shop", "/srv/lib"], "home": "/srv/venv",
            "module": "shop.wsgi", "protocol": "wsgi", "threads": 4,
            "processes": {"max": 3, "spare": 1, "idle_timeout": 20}, "user": "www-data",
            "group": "www-data", "environment": {"DJANGO_SETTINGS_MODULE": "shop.\"settings\""},
            "limits": {"timeout": 30, "requests": 1000}, "isolation": {"rootfs": "/"}
        },
        "api": {
            "type": "python", "path": "/srv/api", "callable": "api", "prefix": "/api",
            "targets": {"v1": {"module": "main", "protocol": "asgi"}}
        },
        "other": {"type": "go", "executable": "/srv/go"}
    },
    "settings": {"http": {"header_read_timeout": 20, "send_timeout": 5}},
    "access_log": "/var/log/unit.log"
}"#;

/// A configuration of uWSGI, as its documents show it.
const UWSGI: &str = "[uwsgi]
; a comment
base = /srv/shop
http = :8080
socket = /run/shop.sock
chdir = %(base)/code
home = %(base)/venv
wsgi-file = shop/wsgi.py
callable = app
master = true
processes = 4
threads = 2
uid = www-data
gid = www-data
env = DJANGO_SETTINGS_MODULE=shop.settings
env = A=b
pythonpath = %(base)/lib
max-requests = 1000
max-worker-lifetime = 3600
reload-on-rss = 256
harakiri = 30
static-map = /static=%(base)/static
static-map2 = /media=%(base)
cron = 0 -1 -1 -1 -1 /bin/true
no-such-option = 1
pidfile = /run/%n.pid
logto = $(HOME)/log
";

fn converted(name: &str, text: &str) -> Converted {
    convert(Path::new(name), None, text.as_bytes().to_vec())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn refused(name: &str, text: &str) -> String {
    convert(Path::new(name), None, text.as_bytes().to_vec()).expect_err(text)
}

type Table = Map<String, Value>;

/// Reads a text with the parser of TOML.
fn read(text: &str) -> Result<Table, String> {
    let table = DeTable::parse(text).map_err(|error| error.to_string())?;
    Ok(object(table.get_ref()))
}

fn object(table: &DeTable<'_>) -> Table {
    let pair = |(name, value): (_, &toml::Spanned<DeValue<'_>>)| {
        let name: &toml::Spanned<toml::de::DeString<'_>> = name;
        (name.get_ref().to_string(), value_of(value.get_ref()))
    };
    table.iter().map(pair).collect()
}

fn value_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => number.as_str().parse::<u64>().expect("a number").into(),
        DeValue::Boolean(on) => Value::Bool(*on),
        DeValue::Array(values) => values.iter().map(|value| value_of(value.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(object(table)),
        other => panic!("{other:?} is never written"),
    }
}

fn table(text: &str) -> Table {
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the settings that were left out, each as `place message`.
fn left_out(converted: &Converted) -> Vec<String> {
    let leftovers = converted.draft.leftovers();
    leftovers.iter().map(|Leftover { place, message, .. }| format!("{place} {message}")).collect()
}

#[track_caller]
fn names(converted: &Converted, parts: &[(&str, &str)]) {
    let left_out = left_out(converted);
    for (place, message) in parts {
        let has_it =
            |text: &String| text.starts_with(&format!("{place} ")) && text.contains(message);
        assert!(left_out.iter().any(has_it), "{place} {message}: {left_out:#?}");
        // The written file lists them, too.
        let in_file =
            |line: &str| line.starts_with(&format!("# {place}: ")) && line.contains(message);
        assert!(converted.text.lines().any(in_file), "{place} {message}: {}", converted.text);
    }
    assert_eq!(left_out.len(), parts.len(), "{left_out:#?}");
}

#[test]
fn a_configuration_of_unit_becomes_sites_and_mounts() {
    let converted = converted("unit.json", UNIT);
    let expected = r#"
[[site]]
live = ["/static=/srv/shop/static"]

[[site.mount]]
path = "/api"
asgi = "main:api"
python-folder = "/srv/api"

[[site.mount]]
path = "/ws"
proxy = "http://127.0.0.1:3000"

[[site.mount]]
path = "/"
wsgi = "shop.wsgi:application"
python-folder = "/srv/shop"
python = "/srv/venv"
python-threads = 4
python-processes = 3
python-user = "www-data"
timeout = 30
python-max-requests = 1000
variables = { DJANGO_SETTINGS_MODULE = "shop.\"settings\"", PYTHONPATH = "/srv/lib" }

[[listen]]
address = ":8080"

[[listen]]
tls = ":8443"

[limits]
header-timeout = 20

[log]
access = "/var/log/unit.log"
"#;
    let got = table(&converted.text);
    let mut got_sites = got.clone();
    let Some(Value::Array(sites)) = got_sites.remove("site") else { panic!("{}", converted.text) };
    assert_eq!(sites.len(), 1, "{}", converted.text);
    let mut expected = table(expected);
    let Some(Value::Array(own)) = expected.remove("site") else { panic!() };
    assert_eq!(sites, own, "{}", converted.text);
    assert_eq!(got_sites, expected);
    names(
        &converted,
        &[
            ("/listeners/127.0.0.1:9000", "passes to applications/other"),
            ("/listeners/*:8443/tls/certificate", "the certificate bundle"),
            ("/routes/0/action", "nothing is served for old.example.org"),
            ("/routes/0/action/return", "write to _redirects: /* https://example.org/ 301!"),
            ("/routes/4/match/method", "a Lua script"),
            ("/applications/shop/processes", "is fixed"),
            ("/applications/shop/group", "the group is that of the user"),
            ("/applications/shop/isolation", "systemd"),
            ("/settings/http/send_timeout", "was not carried"),
        ],
    );
}

#[test]
fn an_export_a_php_site_and_upstreams_are_read() {
    let text = r#"{"certificates": {}, "config": {
        "listeners": {"*:80": {"pass": "routes/main", "forwarded":
            {"client_ip": "X-Forwarded-For", "source": ["10.0.0.0/8", "!10.1.0.0/16"],
             "recursive": true}}},
        "routes": {"main": [
            {"match": {"host": "blog.example.org", "uri": ["*.php", "*.php/*", "/wp-admin/"]},
             "action": {"pass": "applications/wp/direct"}},
            {"match": {"host": "blog.example.org"},
             "action": {"share": "/srv/wp$uri", "fallback": {"pass": "applications/wp/index"}}},
            {"match": {"host": "app.example.org"},
             "action": {"share": "/srv/app$uri", "fallback": {"share": "/srv/app/index.html"}}},
            {"action": {"pass": "upstreams/rr", "response_headers": {"X-A": "b", "Server": null}}}
        ]},
        "upstreams": {"rr": {"servers": {"10.0.0.1:80": {}, "10.0.0.2:80": {"weight": 2}}}},
        "applications": {"wp": {"type": "php", "user": "www-data", "processes": 8,
            "targets": {"direct": {"root": "/srv/wp/"},
                "index": {"root": "/srv/wp/", "script": "index.php"}}}}
    }}"#;
    let converted = converted("export.json", text);
    let expected = r#"
[[site]]
hosts = ["blog.example.org"]
path = "/srv/wp/"
php = true
php-user = "www-data"
php-processes = 8

[[site]]
hosts = ["app.example.org"]
path = "/srv/app"
watch = true
single-page = "index.html"

[[site]]
[[site.mount]]
path = "/"
proxy = ["http://10.0.0.1:80", "http://10.0.0.2:80"]
set-response-headers = ["X-A: b"]
remove-response-headers = ["Server"]

[[listen]]
address = ":80"

[server]
client-ip-header = "X-Forwarded-For"
trusted-proxies = ["10.0.0.0/8"]
"#;
    assert_eq!(table(&converted.text), table(expected), "{}", converted.text);
    let at = "/config/listeners/*:80/forwarded/source";
    names(
        &converted,
        &[
            (at, "!10.1.0.0/16 was not carried"),
            ("/config/upstreams/rr/servers/10.0.0.2:80/weight", "the same share"),
        ],
    );
}

#[test]
fn a_configuration_of_uwsgi_becomes_a_site_with_a_mount() {
    let converted = converted("/srv/shop/uwsgi.ini", UWSGI);
    let expected = r#"
[[site]]
live = ["/static=/srv/shop/static", "/media=/srv/shop/media"]

[[site.mount]]
wsgi = "shop/wsgi.py:app"
python-folder = "/srv/shop/code"
python = "/srv/shop/venv"
python-processes = 4
python-threads = 2
python-user = "www-data"
python-max-requests = 1000
python-max-lifetime = 3600
python-max-memory = "256M"
timeout = 30
variables = { DJANGO_SETTINGS_MODULE = "shop.settings", A = "b", PYTHONPATH = "/srv/shop/lib" }

[[listen]]
address = ":8080"
"#;
    assert_eq!(table(&converted.text), table(expected), "{}", converted.text);
    names(
        &converted,
        &[
            ("5", "socket: speaks another protocol"),
            ("14", "gid: was not carried"),
            ("24", "cron: there is no scheduler"),
            ("25", "no-such-option is not known"),
            ("27", "logto: was not carried: messages go to stderr"),
        ],
    );
    // master and pidfile.
    assert_eq!(converted.draft.not_needed, 2);
}

#[test]
fn placeholders_conditions_and_sections_are_converted() {
    let text = "[uwsgi]\nhttp-socket = 127.0.0.1:8080\nchdir = %d\nmodule = %n:app\nset = x=y\n\
                env = A=%(x)%%\nif-env = B\nthreads = 9\nendif =\nhome = %z\n[other]\n\
                uid = www-data\n[uwsgi]\nini = :other\nini = more.ini\n\
                mount = /a=b:c\nmanage-script-name\n[third]\nuid = root\n";
    let converted = converted("/srv/my app/shop.ini", text);
    let expected = r#"
[[site]]
[[site.mount]]
wsgi = "shop:app"
python-folder = "/srv/my app/"
python-user = "www-data"
variables = { A = "y%" }

[[site.mount]]
path = "/a"
wsgi = "b:c"
python-folder = "/srv/my app/"
python-user = "www-data"
variables = { A = "y%" }

[[listen]]
address = "127.0.0.1:8080"
"#;
    assert_eq!(table(&converted.text), table(expected), "{}", converted.text);
    names(
        &converted,
        &[
            ("7", "if-env = B to its end"),
            ("18", "the section [third]"),
            ("10", "the placeholder %z"),
            ("15", "import that file, too"),
        ],
    );
}

#[test]
fn values_that_pinion_refuses_become_comments() {
    let text = "[uwsgi]\nhttp = :99999\nmodule = a\nthreads = 100000\nhttp = :8080\n";
    let converted = converted("/a.ini", text);
    let got = table(&converted.text);
    assert_eq!(got["listen"].as_array().map(Vec::len), Some(1), "{}", converted.text);
    names(&converted, &[("python-threads", "100000 was not carried"), ("address", ":99999")]);
    // A line that ends within a value does not end the comment.
    let text = r#"{"listeners": {"*:80": {"pass": "applications/a"}}, "applications": {"a":
        {"type": "python", "module": "m", "protocol": "wsgi", "home": "/x\n[server]\nworkers = 1",
         "a\nb = 1": 2}}}"#;
    let converted = self::converted("a.json", text);
    let mount = table(&converted.text)["site"][0]["mount"][0].clone();
    assert_eq!(mount["python"].as_str(), Some("/x\n[server]\nworkers = 1"));
    assert!(!converted.text.lines().any(|line| line.starts_with("b = 1")), "{}", converted.text);
}

#[test]
fn unconvertible_files_are_refused_with_a_reason() {
    for (name, text, why) in [
        ("a.json", "{", "EOF"),
        ("a.json", "[]", "no configuration of NGINX Unit"),
        ("a.json", "{\"listeners\": {}, \"listeners\": {}}", "\"listeners\" is there twice"),
        ("a.json", "{\"listeners\": {}}", "no listener passes"),
        (
            "a.json",
            "{\"listeners\": {\"*:80\": {\"pass\": \"routes\"}}, \"routes\": []}",
            "nothing",
        ),
        ("a.ini", "", "no section [uwsgi]"),
        ("a.ini", "[other]\nmodule = a\n", "no section [uwsgi]"),
        ("a.ini", "[uwsgi]\nmaster = 1\n", "names no application"),
        ("a.ini", "[uwsgi]\nmodule = a\0b\n", "a zero byte in line 2"),
    ] {
        let error = refused(name, text);
        assert!(error.contains(why), "{text}: {error}");
    }
    let deep = format!("{{\"listeners\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(refused("a.json", &deep).contains("recursion limit"));
    assert!(convert(Path::new("a.ini"), None, vec![0xff]).expect_err("no text").contains("UTF-8"));
    // Each line is twice as long as the one above.
    let lines: String = (1..40).map(|n| format!("a{n} = %(a{0})%(a{0})\n", n - 1)).collect();
    let text = format!("[uwsgi]\nmodule = m\na0 = x\n{lines}chdir = %(a39)\n");
    assert!(
        left_out(&converted("/a.ini", &text)).iter().any(|text| text.contains("is longer than"))
    );
    // A circle of routes ends.
    let text = r#"{"listeners": {"*:80": {"pass": "routes"}}, "routes": [
        {"action": {"pass": "routes"}},
        {"action": {"pass": "routes"}}, {"action": {"proxy": "http://a"}}]}"#;
    assert!(left_out(&converted("a.json", text)).iter().any(|text| text.contains("in a circle")));
}

use super::*;
use crate::config::tables;
use crate::server::mounts::Mount;
use crate::settings::mount;
use pinion_gateway::balancing::Balance;
use pinion_gateway::limits;
use pinion_gateway::server_health::{HealthThresholds, PassiveChecks};
use pinion_gateway::upstream::UpstreamHost;
use pinion_gateway::upstream_group::{ActiveChecks, AttemptLimits, PassedFields};
use std::path::Path;

/// Reads a file with these lines, and returns its mount, or its error and the position of this.
fn read(lines: &str) -> Result<Mount, (String, TextPlace)> {
    let text = format!("[[site]]\n[[site.mount]]\n{lines}\n");
    let (tables, faults) = tables::read(&text, Path::new("pinion.toml")).expect("TOML");
    assert_eq!(faults, [], "{text}");
    let section = &tables.sites[0].tables(Table::Mount)[0];
    mount(&section.low).map_err(|fault| {
        let place = section.places_of(fault.row).nth(fault.value).unwrap_or(section.place);
        (fault.to_string(), place)
    })
}

#[test]
fn a_mount_has_defaults() {
    let mount = read("proxy = \"http://127.0.0.1:3000\"").expect("a mount");
    assert_eq!(mount.path().to_string(), "/");
    let options = mount.upstreams().expect("servers").options();
    assert_eq!(options.balance, Balance::LeastConnections);
    assert_eq!(options.passive, PassiveChecks::default());
    assert_eq!((&options.active, &options.path), (&None, &None));
    assert!(options.request_fields.is_empty() && options.response_fields.is_empty());
    assert_eq!(options.passed_fields, PassedFields::default());
    assert_eq!(options.stored_upload_max_bytes, None);
    let upstream = mount.upstreams().expect("servers").servers().next().expect("a server").upstream;
    assert_eq!(upstream.host, UpstreamHost::Client);
    assert_eq!(upstream.timeout_ms, limits::UPSTREAM_TIMEOUT_MS);
    // The defaults in the table of directives are those of the limits.
    let checked = read("proxy = \"http://a\"\nhealth-path = \"/up\"\nbuffer-uploads = true");
    let options = checked.expect("a mount").upstreams().expect("servers").options().clone();
    let expected = ActiveChecks {
        target: "/up".into(),
        interval_ms: limits::HEALTH_INTERVAL_MS,
        timeout_ms: limits::HEALTH_TIMEOUT_MS,
        thresholds: HealthThresholds::default(),
    };
    assert_eq!(options.active, Some(expected));
    assert_eq!(options.attempts, AttemptLimits::default());
    assert_eq!(options.stored_upload_max_bytes, Some(limits::STORED_UPLOAD_MAX_BYTES));
}

#[test]
fn every_key_of_a_mount_is_parsed() {
    let mount = read(
        "path = \"/api/\"\nproxy = [\"https://a:1\", \"unix:/run/b.sock\"]\ntimeout = 7\n\
         upstream-path = \"/v1\"\nhost = \"app.internal:80\"\ntls-name = \"a.internal\"\n\
         tls-pin = \"sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"\n\
         set-request-headers = [\"X-A: b\", \"X-B: c\"]\nremove-request-headers = \"Cookie\"\n\
         set-response-headers = \"Server: x\"\nremove-response-headers = [\"X-Powered-By\"]\n\
         pass-response-headers = [\"Alt-Svc\"]\nbalance = \"header-hash:X-User\"\nmax-fails = 0\n\
         fail-timeout = 2\nmax-attempts = 5\nretry-timeout = 9\nhealth-path = \"/up\"\n\
         health-interval = 1\nhealth-timeout = 2\nhealth-fails = 4\nhealth-passes = 5\n\
         buffer-uploads = true\nbuffer-limit = \"2K\"",
    );
    let mount = mount.expect("a mount");
    assert_eq!(
        mount.to_string(),
        "/api is forwarded to one of https://a:1, unix:/run/b.sock, with /v1 in the place of that \
         path"
    );
    let options = mount.upstreams().expect("servers").options();
    assert_eq!(options.balance, Balance::HeaderHash("X-User".into()));
    assert_eq!(options.passive, PassiveChecks { max_fails: 0, fail_timeout_ms: 2_000 });
    assert_eq!(options.attempts, AttemptLimits { max: 5, timeout_ms: 9_000 });
    let thresholds = HealthThresholds { fails: 4, passes: 5 };
    let (interval_ms, timeout_ms) = (1_000, 2_000);
    let expected = ActiveChecks { target: "/up".into(), interval_ms, timeout_ms, thresholds };
    assert_eq!(options.active, Some(expected));
    assert_eq!(options.passed_fields, PassedFields { alt_svc: true, hsts: false });
    assert_eq!(options.stored_upload_max_bytes, Some(2048));
    for upstream in mount.upstreams().expect("servers").servers().map(|server| server.upstream) {
        assert_eq!(upstream.host, UpstreamHost::Fixed("app.internal:80".into()));
        assert_eq!(upstream.timeout_ms, 7_000);
    }
}

#[test]
fn contradictions_are_reported_at_their_position() {
    for (lines, message, line, column) in [
        ("proxy = [\"http://a\", \"http://a:80\"]", "proxy: the server is given twice", 3, 22),
        ("proxy = \"http://a\"\ntls-name = \"a\"", "tls-name: has no effect without", 4, 12),
        ("proxy = \"http://a\"\ntls-ca = \"x\"", "tls-ca: x", 4, 10),
        (
            "proxy = \"https://a\"\ntls-ca = \"x\"\ntls-pin = \
             \"sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"",
            "tls-ca: has no effect with tls-pin",
            4,
            10,
        ),
        ("proxy = \"http://a\"\nhealth-fails = 2", "health-fails: has no effect without", 4, 16),
        ("proxy = \"http://a\"\nbuffer-limit = 5", "buffer-limit: has no effect without", 4, 16),
        (
            "proxy = \"http://a\"\npath = \"*.php\"\nupstream-path = \"/\"",
            "upstream-path: takes the place of a path",
            5,
            17,
        ),
        (
            "proxy = \"http://a\"\nupstream-path = \"/a/../b\"",
            "upstream-path: \"/a/../b\" has a segment . or ..",
            4,
            17,
        ),
        (
            "proxy = \"http://a\"\nset-request-headers = [\"A: b\", \"host: c\"]",
            "set-request-headers: host is set with `host`",
            4,
            32,
        ),
        (
            "proxy = \"http://a\"\nremove-request-headers = [\"X_Forwarded_For\"]",
            "remove-request-headers: X_Forwarded_For says where a request comes from",
            4,
            27,
        ),
        (
            "proxy = \"http://a\"\nset-response-headers = \"Connection: close\"",
            "set-response-headers: Connection belongs to the connection",
            4,
            24,
        ),
        (
            "proxy = \"http://a\"\nset-response-headers = \"Alt-Svc: clear\"",
            "set-response-headers: Alt-Svc holds for the whole host",
            4,
            24,
        ),
        (
            "proxy = \"http://a\"\nset-request-headers = \"A: b\"\nremove-request-headers = \"a\"",
            "remove-request-headers: a is set, too",
            5,
            26,
        ),
    ] {
        let (found, place) = read(lines).expect_err(lines);
        assert!(found.contains(message), "{lines}: {found}");
        assert_eq!(place, TextPlace { line, column }, "{lines}");
    }
}

/// Each single value is checked by the table of keys.
#[test]
fn values_are_checked() {
    for (line, message) in [
        ("path = \"api\"", "path: \"api\" is no path of a mount: write /api or *.php"),
        ("proxy = \"a:3000\"", "proxy: "),
        ("proxy = []", "proxy: an empty list"),
        ("host = \"a b\"", "host: "),
        ("host = \"http://a\"", "host: "),
        ("tls-name = \"a b\"", "tls-name: "),
        ("balance = \"random\"", "balance: \"random\" is none of"),
        ("balance = \"header-hash:\"", "balance: "),
        ("max-fails = -1", "max-fails: "),
        ("fail-timeout = 0", "fail-timeout: "),
        ("max-attempts = 0", "max-attempts: "),
        ("max-attempts = 65", "max-attempts: "),
        ("retry-timeout = 0", "retry-timeout: "),
        ("pass-response-headers = [\"Server\"]", "pass-response-headers: "),
        ("remove-request-headers = [\"a b\"]", "remove-request-headers: "),
        ("set-request-headers = [\"a\"]", "set-request-headers: "),
        ("buffer-limit = \"x\"", "buffer-limit: "),
        (
            "tls-verify = false",
            "unknown key tls-verify in [[site.mount]]; certificates are always verified",
        ),
        ("upstreams = []", "unknown key upstreams in [[site.mount]]; write proxy = "),
    ] {
        let text = format!("[[site]]\n[[site.mount]]\n{line}\n");
        let (_, faults) = tables::read(&text, Path::new("pinion.toml")).expect("TOML");
        let [fault] = faults.as_slice() else { panic!("{line}: {faults:?}") };
        assert!(fault.message.starts_with(message), "{line}: {fault}");
        assert_eq!(fault.place.map(|place| place.line), Some(3), "{fault}");
    }
}

#[test]
fn a_path_has_one_mount() {
    for (lines, expected) in [
        (
            "proxy = [\"/api=http://a\", \"/api/=http://b\"]",
            Some("p.toml:2:27: proxy: /api is forwarded by line 2 already"),
        ),
        (
            "proxy = \"http://a\"\n[[site.mount]]\nproxy = \"http://b\"",
            Some("p.toml:3:1: path: / is forwarded by line 2 already"),
        ),
        (
            "[[site.mount]]\npath = \"/a\"\nproxy = \"http://a\"\n[[site.mount]]\n\
             proxy = \"http://b\"\npath = \"/a/\"",
            Some("p.toml:7:8: path: /a is forwarded by line 3 already"),
        ),
        (
            "[[site.mount]]\npath = \"*.php\"\nproxy = \"http://a\"\n[[site.mount]]\n\
             proxy = \"http://b\"\npath = \"*.php\"",
            Some("p.toml:7:8: path: *.php is forwarded by line 3 already"),
        ),
        (
            "single-page = \"index.html\"\n[[site.mount]]\nproxy = \"http://b\"",
            Some("p.toml:2:15: single-page: the page responds to every path"),
        ),
        ("single-page = \"index.html\"\n[[site.mount]]\nproxy = \"http://b\"\npath = \"/a\"", None),
        ("proxy = \"/a=http://a\"\n[[site.mount]]\nproxy = \"http://b\"", None),
    ] {
        let text = format!("[[site]]\n{lines}\n");
        let (tables, faults) = tables::read(&text, Path::new("p.toml")).expect("TOML");
        assert_eq!(faults, [], "{text}");
        let found = find(&tables.sites[0], Path::new("p.toml"));
        let found: Vec<String> = found.iter().map(ConfigFault::to_string).collect();
        match expected {
            Some(expected) => {
                assert!(matches!(&found[..], [one] if one.starts_with(expected)), "{found:?}");
            }
            None => assert_eq!(found, Vec::<String>::new(), "{text}"),
        }
    }
}

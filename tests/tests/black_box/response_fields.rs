//! The fields of a response besides its content.

use pinion_tests::client::Client;
use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::{Matrix, Way, explained_ways, ways};
use pinion_tests::request::Request;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use std::thread;
use std::time::{Duration, SystemTime};

const SECURITY: [(&str, &str); 3] = [
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    ("X-Frame-Options", "SAMEORIGIN"),
];

fn site() -> Folder {
    Folder::with("fields", [("index.html", "home"), ("docs/index.html", "docs"), ("a.css", "a{}")])
}

#[test]
fn every_response_has_the_security_fields() {
    explained_ways(&site(), |server| {
        for (request, status) in [
            (Request::get("/"), 200),
            (Request::get("/").field("Range", "bytes=0-1"), 206),
            (Request::get("/docs"), 308),
            (Request::get("/nothing"), 404),
            (Request::get("/../"), 400),
            (Request::new("DELETE", "/"), 405),
            (Request::get("/").field("If-Match", "\"x\""), 412),
            (Request::get("/").field("Range", "bytes=9-"), 416),
            (Request::new("OPTIONS", "/"), 204),
        ] {
            let response = server.exchange(&request);
            assert_eq!(response.status, status, "{response}");
            for (name, value) in SECURITY {
                assert_eq!(response.field(name), Some(value), "{response}");
            }
        }
    });
}

#[test]
fn the_security_fields_can_be_left_out() {
    let site = site();
    Matrix::of(site.path()).explained().build(&["--no-security-headers"]).run(|server| {
        for target in ["/", "/docs", "/nothing"] {
            let response = server.get(target);
            for (name, _) in SECURITY {
                assert_eq!(response.field(name), None, "{response}");
            }
        }
    });
}

#[test]
fn optional_fields_are_not_sent_by_default() {
    explained_ways(&site(), |server| {
        let response = server.get("/");
        for name in ["Server", "X-Powered-By", "X-XSS-Protection", "Content-Security-Policy"] {
            assert_eq!(response.field(name), None, "{response}");
        }
        // RFC 6797 §7.2: the field requires a setting of the operator; RFC 7838: the field requires
        // HTTP/3.
        assert_eq!(response.field("Strict-Transport-Security"), None);
        assert_eq!(response.field("Alt-Svc"), None);
    });
}

#[test]
fn every_response_has_the_configured_server_name() {
    let site = site();
    Matrix::of(site.path()).serve(&["--server-name", "Pinion-Test/1"]).run(|server| {
        assert_eq!(server.get("/").field("Server"), Some("Pinion-Test/1"));
        assert_eq!(server.get("/nothing").field("Server"), Some("Pinion-Test/1"));
        if !server.protocol().is_http1() {
            return;
        }
        let mut connection = server.connect();
        connection.send("nonsense\r\n\r\n");
        assert_eq!(connection.receive().field("Server"), Some("Pinion-Test/1"));
    });
}

#[test]
fn fingerprinted_names_are_cached_for_a_year_and_the_rest_is_revalidated() {
    let kept = [
        "assets/index-Bq3xK9zQ.css",
        "assets/index-DiwrgTda.js",
        "js/app.3f2a9c1b.min.js",
        "js/vendor.57a0d79d.js",
        "main.3f2a9c1b57a0d79d.css",
    ];
    let others = [
        "alone/app.3f2a9c1b.js",
        "app-Version12.js",
        "bg.2024abcd.png",
        "hero-iPhone15Pro.png",
        "js/page.3f2a9c1b.html",
        "report-20240131.css",
        "team-John2023.jpg",
    ];
    let site = Folder::with("cache", kept.into_iter().chain(others).map(|name| (name, name)));
    explained_ways(&site, |server| {
        let cached = |target: &str| server.get(target).field("Cache-Control").map(str::to_owned);
        let year = Some("public, max-age=31536000, immutable".to_owned());
        let revalidated = Some("max-age=0, must-revalidate".to_owned());
        for name in kept {
            assert_eq!(cached(&format!("/{name}")), year, "{name}");
        }
        for name in others {
            assert_eq!(cached(&format!("/{name}")), revalidated, "{name}");
        }
    });
}

#[test]
fn cache_control_can_be_set() {
    let site = site();
    site.write("app.3f2a9c1b57a0d79d.js", "x");
    Matrix::of(site.path()).explained().build(&["--cache-control", "private, max-age=60"]).run(
        |server| {
            assert_eq!(server.get("/").field("Cache-Control"), Some("private, max-age=60"));
            let fingerprinted = server.get("/app.3f2a9c1b57a0d79d.js");
            assert_eq!(
                fingerprinted.field("Cache-Control"),
                Some("public, max-age=31536000, immutable")
            );
        },
    );
}

#[test]
fn head_is_get_without_the_content() {
    // RFC 9110 §9.3.2: the same fields as in the response to GET.
    explained_ways(&site(), |server| {
        for target in ["/", "/docs/", "/docs", "/a.css", "/nothing"] {
            let (get, head) = (server.get(target), server.exchange(&Request::head(target)));
            let without_date = |fields: &[(String, String)]| -> Vec<(String, String)> {
                let is_date = |name: &str| name.eq_ignore_ascii_case("Date");
                fields.iter().filter(|(name, _)| !is_date(name)).cloned().collect()
            };
            assert_eq!(get.status, head.status, "{target}");
            assert_eq!(without_date(&get.fields), without_date(&head.fields), "{target}");
            let length = head.field("Content-Length").map(str::to_owned);
            assert_eq!(length, Some(get.body.len().to_string()), "{target}");
        }
    });
}

/// RFC 9110 §6.6.1: the date of the response, not that of the connection or of the server's start.
#[test]
fn each_response_has_the_date_of_its_own_second() {
    let site = site();
    let start = |way: Way| {
        eprintln!("{way:?}"); // Shown when the case fails.
        let server = Start::site(site.path()).in_way(way).start();
        let mut client = server.client();
        let date = date_of_response(&mut client);
        (way, server, client, date)
    };
    let connected: Vec<_> = ways(|_| true).into_iter().map(start).collect();
    // At any moment of its second at which the last response was sent, that second has ended then.
    thread::sleep(Duration::from_millis(1100));
    for (way, server, mut client, first) in connected {
        eprintln!("{way:?}");
        let second = date_of_response(&mut client);
        assert!(second > first, "{first}, and more than a second later {second}");
        drop(client);
        server.stop();
    }
}

/// Returns the date of a response in seconds since 1970. It must be the current second, as far as
/// the two clocks agree.
#[track_caller]
fn date_of_response(client: &mut Client) -> u64 {
    let now = || SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let before = now();
    let response = client.exchange(&Request::get("/"));
    let after = now();
    let date = response.field("Date").expect("a date");
    let read = stdout(program("date", "coreutils").args(["--date", date, "+%s"]));
    let seconds: u64 = String::from_utf8_lossy(&read).trim().parse().expect("a number");
    assert!((before - 1..=after + 1).contains(&seconds), "{date}: {before} to {after}");
    seconds
}

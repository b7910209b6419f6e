//! The tools for operators: figures, health checks, and the `--dummy` server.

use pinion_tests::client::Connection;
use pinion_tests::request::Request;
use pinion_tests::server::{Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::Signal;
use std::fs;

#[test]
fn statistics_are_printed_at_intervals_and_at_the_end() {
    let folder = Folder::with("figures", [("index.html", "home")]);
    for io in ["epoll", "uring"] {
        let flags = ["--io", io, "--stats", "1", "--workers", "2"];
        let server = Start::site(folder.path()).flags(&flags).start();
        for _ in 0..3 {
            assert_eq!(server.get("/").status, 200);
        }
        assert_eq!(server.exchange(&Request::head("/")).status, 200);
        assert_eq!(server.get("/none").status, 404);
        // The input cannot be parsed as a request, so the engine itself responds.
        let mut connection = server.connect();
        connection.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
        assert_eq!(connection.receive().status, 400);
        let counted = "6 responses (";
        let line = server.wait_for_line(0, |line| line.contains(counted));
        for part in ["stats after ", ", 2xx 4, 3xx 0, 4xx 2, 5xx 0; content ", "; memory "] {
            assert!(line.contains(part), "{line}");
        }
        let last = server.last_words().pop().expect("lines");
        assert!(last.starts_with("stats after ") && last.contains(counted), "{last}");
    }
}

#[test]
fn the_health_check_is_answered_on_every_host() {
    let folder = Folder::with("health", [("index.html", "home"), ("healthz", "a page")]);
    folder.write(
        "pinion.toml",
        "[[site]]\npath = \".\"\nhosts = [\"example.org\"]\n[server]\nhealth = \"/healthz\"\n",
    );
    let config = folder.path().join("pinion.toml");
    for io in ["epoll", "uring"] {
        let mut server = Start::site(&config).flags(&["--io", io, "--workers", "1"]).start();
        let mut kept = server.connect();
        let healthy = kept.exchange(&Request::get("/healthz"));
        assert_eq!((healthy.status, healthy.text()), (200, "ok\n"));
        assert_eq!(healthy.field("cache-control"), Some("no-store"));
        // Only the exact path is the health check.
        assert_eq!(server.get("/healthz/").status, 421);
        assert_eq!(server.exchange(&Request::head("/healthz?x=1")).status, 200);
        assert_eq!(server.exchange(&Request::new("POST", "/healthz")).status, 405);
        // HAProxy uses OPTIONS by default.
        let options = server.exchange(&Request::new("OPTIONS", "/healthz"));
        assert_eq!((options.status, options.text()), (200, "ok\n"));
        assert_eq!(options.field("allow"), Some("GET, HEAD, OPTIONS"));
        // The response to a request that began in time announces that no further one is possible.
        let request = Request::get("/healthz").bytes();
        let (begin, rest) = request.split_at(8);
        server.signal(Signal::STOP);
        kept.send(begin);
        server.signal(Signal::TERM);
        server.signal(Signal::CONT);
        wait_for("a closed port", || Connection::try_open(server.address()).err());
        kept.send(rest);
        let stopping = kept.receive();
        assert_eq!((stopping.status, stopping.text()), (503, "stopping\n"));
        assert!(server.wait().success());
    }
}

/// The same holds while the server stops. Other methods on the path are no health checks.
#[test]
fn health_checks_are_logged_unless_excluded() {
    let folder = Folder::with("health-log", [("site/index.html", "home")]);
    let log = folder.join("access.log");
    let site = "[[site]]\npath = \"site\"\n[log]\naccess = \"access.log\"\nhealth-log = false\n";
    folder.write("pinion.toml", format!("{site}[server]\nhealth = \"/healthz\"\n"));
    let config = folder.path().join("pinion.toml");
    let by_flag = ["--health", "/healthz", "--access-log", log.to_str().expect("text")];
    let flags =
        |more: &[&str]| Start::site(&folder.join("site")).flags(&[&by_flag[..], more].concat());
    let all = ["/healthz", "/healthz?x", "/healthz", "/healthz", "/"];
    let without = ["/healthz", "/"];
    let cases: [(Start, &[&str]); 3] = [
        (flags(&[]), &all),
        (flags(&["--no-health-log"]), &without),
        (Start::site(&config), &without),
    ];
    for (start, expected) in cases {
        let server = start.flags(&["--workers", "1"]).start();
        let mut client = server.connect();
        for (method, target, status) in [
            ("GET", "/healthz", 200),
            ("HEAD", "/healthz?x", 200),
            ("OPTIONS", "/healthz", 200),
            ("POST", "/healthz", 405),
            ("GET", "/", 200),
        ] {
            assert_eq!(client.exchange(&Request::new(method, target)).status, status, "{method}");
        }
        server.stop();
        let text = fs::read_to_string(&log).expect("the log");
        let target = |line: &str| line.split(' ').nth(6).map(str::to_owned);
        let targets: Vec<String> = text.lines().filter_map(target).collect();
        assert_eq!(targets, expected, "{text}");
        fs::remove_file(&log).expect("removed");
    }
    let refused = run(&["serve", ".", "--no-health-log"]);
    let why = "--no-health-log has no effect without --health; add it";
    assert!(refused.code == Some(2) && refused.stderr.contains(why), "{}", refused.stderr);
}

#[test]
fn the_dummy_response_has_the_length_and_delay_of_its_flags() {
    for io in ["epoll", "uring"] {
        for bytes in ["0", "13", "100000"] {
            let flags = ["--dummy", "--io", io, "--dummy-bytes", bytes, "--dummy-delay", "2ms"];
            let server = Start::serve(&flags[..1]).flags(&flags[1..]).start();
            let mut connection = server.connect();
            for _ in 0..3 {
                let response = connection.exchange(&Request::head("/anything"));
                assert_eq!((response.status, response.field("content-length")), (200, Some(bytes)));
            }
            server.stop();
        }
    }
}

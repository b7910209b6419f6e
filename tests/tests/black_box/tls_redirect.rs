//! Listeners that redirect to HTTPS, and Strict-Transport-Security.

use pinion_tests::client::Connection;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{Pair, curl};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;

fn files() -> (Folder, Pair) {
    let files = Folder::with("redirect", [("site/index.html", "home")]);
    files.write("site/.well-known/acme-challenge/token", "proof");
    let pair = Pair::new(&files, "a", &["*.a.test", "a.test", "b.test"]);
    (files, pair)
}

/// Starts a server; returns it with the address of the redirecting listener, which it prints last.
fn serve(files: &Folder, pair: &Pair, flags: &[&str]) -> (Server, SocketAddr) {
    serve_at(&files.join("site"), pair, flags)
}

fn serve_at(site: &Path, pair: &Pair, flags: &[&str]) -> (Server, SocketAddr) {
    let start = Start::site(site).tls(pair);
    let server = start.flags(&["--redirect-http", "127.0.0.1:0"]).flags(flags).start();
    let plain = format!("listening http://{}/", server.address());
    let is_its = |line: &str| line.starts_with("listening http://") && line != plain;
    let url = server.wait_for_line(0, is_its);
    let address = url.trim_start_matches("listening http://").trim_end_matches('/');
    (server, address.parse().expect("an address"))
}

fn ask(address: SocketAddr, request: &Request) -> Response {
    Connection::open(address).exchange(request)
}

#[test]
fn every_request_leads_to_the_same_path_of_the_canonical_host() {
    let (files, pair) = files();
    let (server, address) = serve(&files, &pair, &["--hsts", "1y"]);
    let origin = format!("https://a.test:{}", server.address_of("https").port());
    for (target, expected) in [
        ("/", "/"),
        ("/docs/?x=1&y=2", "/docs/?x=1&y=2"),
        ("/a%20b/%C3%BC", "/a%20b/%C3%BC"),
        ("//evil.test/x", "//evil.test/x"),
        ("/a|b?c={d}", "/a%7Cb?c=%7Bd%7D"),
        ("http://evil.test/x?y", "/x?y"),
    ] {
        let request = Request::get(target).host("evil.test");
        let response = ask(address, &request);
        assert_eq!(response.status, 308, "{target}");
        assert_eq!(response.field("Location"), Some(format!("{origin}{expected}").as_str()));
        // RFC 6797 §7.2: the field is never sent over plain HTTP.
        assert_eq!(response.field("Strict-Transport-Security"), None);
    }
    for method in ["HEAD", "POST", "DELETE", "OPTIONS"] {
        assert_eq!(ask(address, &Request::new(method, "/x")).status, 308, "{method}");
    }
    let star = ask(address, &Request::new("OPTIONS", "*"));
    assert_eq!(star.field("Location"), Some(format!("{origin}/").as_str()));
    server.stop();
}

/// RFC 9110 §7.2: the host is a claim of the client, and a cache may keep the response.
#[test]
fn the_host_of_a_client_is_never_the_redirect_target() {
    let (files, pair) = files();
    let (server, address) = serve(&files, &pair, &["--canonical-host", "www.a.test:444"]);
    for host in ["evil.test", "a.test", "a.test:80", "evil.test:1", "[::1]", "127.0.0.1"] {
        for request in [
            Request::get("/x").host(host),
            Request::get("/x").host(host).field("X-Forwarded-Host", "evil.test"),
            Request::get("/x").host(host).field("Forwarded", "host=evil.test"),
        ] {
            let response = ask(address, &request);
            assert_eq!(response.field("Location"), Some("https://www.a.test:444/x"), "{host}");
        }
    }
    let old = ask(address, &Request::get("/x").hostless().http10());
    assert_eq!(old.field("Location"), Some("https://www.a.test:444/x"));
    server.stop();
}

#[test]
fn acme_challenges_of_a_site_are_served_over_plain_http() {
    let (files, pair) = files();
    let (server, address) = serve(&files, &pair, &[]);
    let proof = ask(address, &Request::get("/.well-known/acme-challenge/token"));
    assert_eq!((proof.status, proof.text()), (200, "proof"));
    let head = ask(address, &Request::head("/.well-known/%61cme-challenge/%74oken"));
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("5")));
    let other = ask(address, &Request::get("/.well-known/security.txt"));
    assert_eq!(other.status, 308);
    server.stop();
}

/// Challenges are created while the server runs, as certbot does. They are served on every listener
/// and for every host, from an archive as well as from a release folder. Missing challenges get the
/// same response as without the webroot.
#[test]
fn challenges_in_the_webroot_are_served_as_soon_as_they_exist() {
    let (files, pair) = files();
    let (archive, releases) = (files.join("site.pinion"), files.join("releases"));
    build(&files.join("site"), &archive, &[]);
    let published = run(&[OsStr::new("publish"), archive.as_os_str(), releases.as_os_str()]);
    assert_eq!(published.code, Some(0), "{}", published.stderr);
    files.write("outside", "secret");
    let (webroot, below) = (files.join("webroot"), "webroot/.well-known/acme-challenge");
    let flags = ["--acme-webroot", webroot.to_str().expect("a path")];
    for (io, site) in Io::BOTH.into_iter().flat_map(|io| [(io, &archive), (io, &releases)]) {
        let flags = [&flags[..], &["--io", io.as_str()]].concat();
        let (server, redirecting) = serve_at(site, &pair, &flags);
        let addresses = [server.address(), redirecting];
        let form = if site == &archive { "archive" } else { "releases" };
        let token = format!("{}-{form}-aZ09_-", io.as_str());
        let target = format!("/.well-known/acme-challenge/{token}");
        for address in addresses {
            let before = ask(address, &Request::get(&target));
            assert!(matches!(before.status, 404 | 308), "{before}");
        }
        files.write(format!("{below}/{token}"), "token.thumbprint");
        std::os::unix::fs::symlink(files.join("outside"), files.join(format!("{below}/l{token}")))
            .expect("a link");
        for address in addresses {
            for host in ["a.test", "b.test", "127.0.0.1"] {
                let found = ask(address, &Request::get(&target).host(host));
                assert_eq!((found.status, found.text()), (200, "token.thumbprint"), "{host}");
                assert_eq!(found.field("Content-Type"), Some("text/plain; charset=utf-8"));
            }
            for path in [
                format!("{target}/"),
                format!("{target}x"),
                "/.well-known/acme-challenge/".to_owned(),
                "/.well-known/acme-challenge/../../outside".to_owned(),
                "/.well-known/acme-challenge/..%2f..%2f..%2foutside".to_owned(),
                format!("/.well-known/acme-challenge/l{token}"),
            ] {
                let response = ask(address, &Request::get(&path));
                assert!(!response.text().contains("secret") && response.status != 200, "{path}");
            }
        }
        server.stop();
    }
}

/// A fallback page of a site is not served over plain HTTP.
#[test]
fn only_challenge_files_are_served_over_plain_http() {
    let (files, pair) = files();
    files.write("site/.well-known/acme-challenge/page.html", "page");
    files.write("site/.well-known/acme-challenge/deeper/token", "deeper");
    files.write("site/_redirects", "/* /index.html 200\n");
    let (server, address) = serve(&files, &pair, &[]);
    let origin = format!("https://a.test:{}", server.address_of("https").port());
    for path in [
        "/.well-known/acme-challenge/../../index.html",
        "/.well-known/acme-challenge/%2e%2e/%2E%2E/index.html",
        "/.well-known/acme-challenge/..%2F..%2Findex.html",
        "/.well-known/acme-challenge/unknown",
        "/.well-known/acme-challenge/un.known",
        "/.well-known/acme-challenge/page.html",
        "/.well-known/acme-challenge/deeper/token",
        "/.well-known/acme-challenge/deeper",
        "/.well-known/acme-challenge/deeper/",
        "/.well-known/acme-challenge/token/",
        "/.well-known/acme-challenge//token",
        "/.well-known/acme-challenge/%",
        "/.well-known/acme-challenge/",
        "/.well-known/acme-challenge",
        "/../.well-known/acme-challenge/token",
    ] {
        let response = ask(address, &Request::get(path));
        assert_eq!(response.status, 308, "{path}: {response}");
        assert_eq!(response.field("Location"), Some(format!("{origin}{path}").as_str()));
    }
    let posted = ask(address, &Request::new("POST", "/.well-known/acme-challenge/token"));
    assert_eq!(posted.status, 308, "{posted}");
    let proof = ask(address, &Request::get("/.well-known/acme-challenge/token"));
    assert_eq!((proof.status, proof.text()), (200, "proof"));
    server.stop();
}

/// A forced rule for the path of a challenge leads to another page.
#[test]
fn a_challenge_that_a_forced_rule_hides_is_not_served() {
    let (files, pair) = files();
    files.write("site/_redirects", "/.well-known/acme-challenge/* /index.html 200!\n");
    let (server, address) = serve(&files, &pair, &[]);
    let response = ask(address, &Request::get("/.well-known/acme-challenge/token"));
    assert_eq!(response.status, 308, "{response}");
    server.stop();
}

/// The redirect keeps the host of the start, because clients that follow it would get another
/// certificate.
#[test]
fn redirects_to_a_host_without_a_certificate_are_reported() {
    let (files, pair) = files();
    let same = Pair::new(&files, "same", &["b.test", "a.test"]);
    let wild = Pair::new(&files, "wild", &["c.test", "*.test"]);
    let other = Pair::new(&files, "other", &["c.test"]);
    for canonical in [&[][..], &["--canonical-host", "a.test"]] {
        pair.become_like(&same);
        let (server, _) = serve(&files, &pair, canonical);
        for next in [&wild, &other, &same] {
            let said = server.lines().len();
            pair.become_like(next);
            server.wait_for_line(said, |line| line.starts_with("reloaded certificate "));
        }
        let lines = server.lines();
        let is_of_start = |line: &str| {
            line.starts_with("listening ") || line.starts_with("open ") || line == "ready"
        };
        let taken = lines.iter().filter(|line| !is_of_start(line));
        let taken: Vec<&String> = taken.skip(1).collect();
        let [_of_wild, _of_other, warning, _of_same] = taken[..] else { panic!("{taken:?}") };
        let host = if canonical.is_empty() { "b.test" } else { "a.test" };
        let expected = format!(
            "pinion: warning: redirects lead to {host}, which no certificate names any more: \
             restart, or set --canonical-host"
        );
        assert_eq!(*warning, expected);
        server.stop();
    }
}

#[test]
fn hsts_is_sent_only_over_tls() {
    let (files, pair) = files();
    for (flags, expected) in [
        (&[][..], None),
        (&["--hsts", "off"], None),
        (&["--hsts", "1d"], Some("max-age=86400")),
        (
            &["--hsts", "2y,subdomains,preload", "--server-name", "x"],
            Some("max-age=63072000; includeSubDomains; preload"),
        ),
    ] {
        let (server, redirect) = serve(&files, &pair, flags);
        let name = "strict-transport-security: ";
        for target in ["/", "/none"] {
            let got = curl(&server, "a.test", target, &pair.cert, &[]).expect("an answer");
            let lower = got.to_ascii_lowercase();
            let value = lower.lines().find_map(|line| line.strip_prefix(name));
            assert_eq!(value, expected.map(str::to_ascii_lowercase).as_deref(), "{got}");
            let plain = server.get(target);
            assert_eq!(plain.field("Strict-Transport-Security"), None);
            let away = ask(redirect, &Request::get(target));
            assert_eq!(away.field("Strict-Transport-Security"), None);
        }
        server.stop();
    }
}

/// A redirect to `localhost` would lead clients to their own machine.
#[test]
fn without_a_host_in_the_certificates_the_flag_is_required() {
    let (files, _) = files();
    let nameless = Pair::new(&files, "nameless", &["*.a.test"]);
    let state = files.join("state").display().to_string();
    let site = files.join("site").display().to_string();
    let own = ["--state", &state].map(str::to_owned);
    let cases = [
        (&nameless.flags()[..], "and the first certificate names none"),
        (&own[..], "and the self-signed certificate is for this machine alone"),
    ];
    for (flags, why) in cases {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let listen = ["serve", &site, "--tls", "127.0.0.1:0", "--redirect-http", "127.0.0.1:0"];
        let ended = run(&[&listen[..], &flags].concat());
        let line = format!(
            "pinion: --redirect-http needs a host to redirect to, {why}; add --canonical-host \
             HOST\n"
        );
        let output = ended.stderr.split_inclusive('\n').filter(|line| line.starts_with("pinion:"));
        assert_eq!((ended.code, output.collect::<String>()), (Some(2), line));
        assert!(!files.join("state").exists(), "no certificate was made");
        let start = Start::serve(&[&listen[1..], &flags].concat());
        start.flags(&["--canonical-host", "a.test"]).start().stop();
    }
}

#[test]
fn check_finds_redirects_without_a_host() {
    let (files, _) = files();
    Pair::new(&files, "nameless", &["*.a.test"]);
    let listen = "[[site]]\npath = \"site\"\n[[listen]]\ntls = \"127.0.0.1:0\"\n\
                  [[listen]]\nredirect-http = \"127.0.0.1:0\"\n";
    let certificate = "[[certificate]]\ncert = \"nameless.crt\"\nkey = \"nameless.key\"\n";
    let canonical = "[tls]\ncanonical-host = \"a.test\"\n";
    let config = files.join("pinion.toml").display().to_string();
    for (certificate, why) in [
        ("", "and the self-signed certificate is for this machine alone"),
        (certificate, "and the first certificate names none"),
    ] {
        files.write("pinion.toml", format!("{listen}{certificate}"));
        let ended = run(&["check", &config]);
        let line = format!(
            "{config}:6:17: redirect-http: needs a host to redirect to, {why}; write \
             canonical-host = \"HOST\" in [tls]\n"
        );
        assert_eq!((ended.code, ended.stdout), (Some(2), line));
        files.write("pinion.toml", format!("{listen}{certificate}{canonical}"));
        let ended = run(&["check", &config]);
        assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    }
}

#[test]
fn flags_without_effect_are_refused() {
    let (files, pair) = files();
    let (site, cert) = (files.join("site"), pair.cert.display().to_string());
    let site = site.display().to_string();
    for (flags, why) in [
        (&["--redirect-http", "0"][..], "--redirect-http has no effect without --tls; add it"),
        (&["--cert", &cert], "--cert has no effect without --tls, --quic or --store-tls; add it"),
        (&["--tls", "0", "--key", &cert], "--key has no effect without --cert; add it"),
        (
            &["--tls", "0", "--canonical-host", "a"],
            "--canonical-host has no effect without --redirect-http; add it",
        ),
        (
            &["--quic", "127.0.0.1:0", "--protocols", "h1,h2"],
            "--protocols: leaves nothing to speak at quic; add h3",
        ),
        (
            &["--tls", "0", "--protocols", "h3"],
            "--protocols: leaves nothing to speak at tls; add h1 or h2",
        ),
        (&["--alt-svc", "off"], "--alt-svc has no effect without --tls; add it"),
        (&["--hsts", "1y"], "--hsts has no effect without --tls or --quic; add it"),
        (
            &["--tls", "0", "--cert", &cert, "--tls-self", "p256"],
            "--tls-self has no effect with --cert; leave out one of them",
        ),
        (
            &["--tls", "0", "--cert", &cert, "--cert", &cert, "--key", &cert],
            "there are 2 --cert but 1 --key; give each --cert its --key, in the same order, or \
             no --key if the keys are in the files of the certificates",
        ),
        (
            &["--dummy", "--tls", "0", "--redirect-http", "0"],
            "--redirect-http has no effect with --dummy, which serves no site; leave out one of \
             them",
        ),
    ] {
        let dummy = flags.first() == Some(&"--dummy");
        let arguments = if dummy { vec!["serve"] } else { vec!["serve", &site] };
        let ended = run(&[&arguments[..], flags].concat());
        assert_eq!((ended.code, ended.stderr), (Some(2), format!("pinion: {why}\n")));
    }
}

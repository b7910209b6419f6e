//! `[[site.mount]]`: the changes of a request and its response, and the selection of forwarded
//! requests.

use crate::lua_fetch_tls::s_server;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Ended, Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{Pair, key_hash};
use pinion_tests::upstream::Upstream;
use rustix::process::Signal;

/// Starts a server of a site with these lines, and files of a folder.
pub(crate) fn start(folder: &Folder, io: Io, lines: &str) -> Server {
    let site = "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n";
    folder.write("p.toml", format!("{site}{lines}"));
    Start::site(&folder.join("p.toml")).flags(&["--io", io.as_str()]).start()
}

pub(crate) fn site(name: &str) -> Folder {
    Folder::with(name, [("public/index.html", "home"), ("public/file.php", "source")])
}

/// Responds with its name and the first line of the request.
pub(crate) fn named(name: &'static str) -> Upstream {
    Upstream::start(move |connection| {
        while let Some(head) = connection.request() {
            let line = head.lines().next().unwrap_or_default();
            connection.respond(format!("{name} {line}").as_bytes());
        }
    })
}

#[test]
fn each_path_has_its_mount() {
    let folder = site("mount-order");
    let (root, api, php) = (named("root"), named("api"), named("php"));
    let lines = format!(
        "[[site.mount]]\nproxy = \"{}\"\n[[site.mount]]\npath = \"*.php\"\nproxy = \"{}\"\n\
         [[site.mount]]\npath = \"/api\"\nproxy = \"{}\"\n",
        root.url(),
        php.url(),
        api.url()
    );
    for io in Io::BOTH {
        let server = start(&folder, io, &lines);
        for (target, expected) in [
            ("/", "home"),
            ("/file.php", "source"),
            ("/missing.php", "php GET /missing.php HTTP/1.1"),
            ("/a/b.php?x", "php GET /a/b.php?x HTTP/1.1"),
            ("/missing.php/x", "root GET /missing.php/x HTTP/1.1"),
            ("/missing", "root GET /missing HTTP/1.1"),
            ("/api/x.php", "api GET /api/x.php HTTP/1.1"),
            ("/apis", "root GET /apis HTTP/1.1"),
        ] {
            assert_eq!(server.get(target).text(), expected, "{target}");
        }
        let posted = server.exchange(&Request::new("POST", "/form.php").body(b"a"));
        assert_eq!(posted.text(), "php POST /form.php HTTP/1.1");
        server.stop();
    }
}

/// Paths of the upstream server in a response are translated to those of the mount.
#[test]
fn the_upstream_server_can_have_another_path() {
    let upstream = Upstream::start(|connection| {
        while let Some(head) = connection.request() {
            let path = head.split(' ').nth(1).expect("a path");
            let location = path.rsplit("to=").next().expect("a location");
            let head = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nX-Path: {path}\r\n");
            connection.send(head + "Content-Length: 0\r\n\r\n");
        }
    });
    let folder = site("mount-path");
    let lines = format!(
        "[[site.mount]]\npath = \"/api\"\nproxy = \"{0}\"\nupstream-path = \"/v1\"\n\
         [[site.mount]]\npath = \"/app\"\nproxy = \"{0}\"\nupstream-path = \"/\"\n",
        upstream.url()
    );
    let own = format!("{}/v1/a", upstream.url());
    for io in Io::BOTH {
        let server = start(&folder, io, &lines);
        for (target, path, location) in [
            ("/api?to=/v1/login?x".to_owned(), "/v1?to=/v1/login?x", "/api/login?x"),
            ("/%61pi/a%2Fb?to=/v1".to_owned(), "/v1/a%2Fb?to=/v1", "/api"),
            ("/api/x?to=/other".to_owned(), "/v1/x?to=/other", "/other"),
            (format!("/api/?to={own}"), "", "/api/a"),
            ("/app?to=/login".to_owned(), "/?to=/login", "/app/login"),
            ("/app/x?to=http://localhost/y".to_owned(), "", "http://localhost/app/y"),
            ("/app/x?to=https://other.example/y".to_owned(), "", "https://other.example/y"),
        ] {
            let request = Request::get(&target).host("localhost");
            let response = server.exchange(&request);
            assert_eq!(response.status, 302, "{target}: {response}");
            assert_eq!(response.field("Location"), Some(location), "{target}");
            if !path.is_empty() {
                assert_eq!(response.field("X-Path"), Some(path), "{target}");
            }
        }
        // Dot segments would lead out of the path.
        for target in ["/api/../x", "/api/%2e%2e/x", "/app/..;/x"] {
            assert_eq!(server.get(target).status, 400, "{target}");
        }
        server.stop();
    }
}

/// Returns the lines of a field that a head has.
fn values<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[test]
fn headers_are_set_and_removed_in_both_directions() {
    let upstream = Upstream::start(|connection| {
        while connection.request().is_some() {
            connection.send(
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Powered-By: php\r\nX-App: one\r\n\
                 Alt-Svc: h3=\":444\"\r\nStrict-Transport-Security: max-age=1\r\n\
                 Content-Type: text/plain\r\n\r\nok",
            );
        }
    });
    let folder = site("mount-headers");
    let lines = |more: &str| {
        format!(
            "[[site.mount]]\nproxy = \"{}\"\n\
             set-request-headers = [\"X-User: anna\", \"X-Empty:\"]\n\
             remove-request-headers = [\"Cookie\", \"Accept-Encoding\"]\n\
             set-response-headers = \"x-app: pinion\"\n\
             remove-response-headers = [\"X-Powered-By\"]\n{more}",
            upstream.url()
        )
    };
    for io in Io::BOTH {
        for (more, alt_svc, hsts) in [
            ("", None, None),
            ("pass-response-headers = [\"Alt-Svc\"]", Some("h3=\":444\""), None),
            ("pass-response-headers = \"Strict-Transport-Security\"", None, Some("max-age=1")),
        ] {
            let site = "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n";
            folder.write("p.toml", format!("{site}{}", lines(more)));
            // `Alt-Svc` has no meaning without TLS.
            let way = Way { protocol: Protocol::Http1Tls, io, form: Form::Folder };
            let server = Start::site(&folder.join("p.toml")).in_way(way).start();
            let request = Request::get("/x")
                .field("X-User", "eve")
                .field("X_User", "eve")
                .field("Cookie", "a=1")
                .field("Accept-Encoding", "br")
                .field("X-Other", "1");
            let response = server.exchange(&request);
            assert_eq!(response.text(), "ok");
            assert_eq!(response.values("X-App").collect::<Vec<_>>(), ["pinion"], "{response}");
            assert_eq!(response.field("X-Powered-By"), None, "{response}");
            assert_eq!(response.field("Alt-Svc"), alt_svc, "{response}");
            assert_eq!(response.field("Strict-Transport-Security"), hsts, "{response}");
            let head = upstream.heads().pop().expect("a head");
            assert_eq!(values(&head, "X-User"), ["anna"], "{head}");
            assert_eq!(values(&head, "X-Empty"), [""], "{head}");
            assert_eq!(values(&head, "X-Other"), ["1"], "{head}");
            for name in ["X_User", "Cookie", "Accept-Encoding"] {
                assert_eq!(values(&head, name), Vec::<&str>::new(), "{name}: {head}");
            }
            server.stop();
        }
    }
}

/// Interim responses, a switch to another protocol, and trailers have fields as well.
#[test]
fn removed_headers_are_nowhere_in_a_response() {
    const SECRETS: &str = "X-Powered-By: php\r\nX-App: one\r\nX-Kept: 1\r\n";
    let upstream = Upstream::start(|connection| {
        while let Some(head) = connection.request() {
            if head.contains("Upgrade: ") {
                let switch = "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: echo\r\n";
                return connection.send(format!("{switch}{SECRETS}\r\nover"));
            }
            connection.send(format!(
                "HTTP/1.1 103 Early Hints\r\n{SECRETS}\r\nHTTP/1.1 200 OK\r\n{SECRETS}\
                 Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n{SECRETS}\r\n"
            ));
        }
    });
    let folder = site("mount-removed-headers");
    let lines = format!(
        "[[site.mount]]\nproxy = \"{}\"\nset-response-headers = \"X-App: pinion\"\n\
         remove-response-headers = [\"X-Powered-By\"]\n",
        upstream.url()
    );
    for io in Io::BOTH {
        let server = start(&folder, io, &lines);
        for (fields, heads) in [
            (&[("Connection", "close, TE"), ("TE", "trailers")][..], 3),
            (&[("Connection", "Upgrade"), ("Upgrade", "echo")], 1),
        ] {
            let mut request = Request::get("/x");
            for (name, value) in fields {
                request = request.field(name, value);
            }
            let mut connection = server.connect();
            connection.send(request.bytes());
            let text = String::from_utf8(connection.rest()).expect("text");
            assert!(!text.contains("X-Powered-By") && !text.contains("X-App: one"), "{text}");
            assert_eq!(text.matches("X-Kept: 1\r\n").count(), heads, "{text}");
        }
        server.stop();
    }
}

#[test]
fn the_host_is_that_of_the_policy() {
    let upstream = Upstream::echo();
    let folder = site("mount-host");
    let own = upstream.url().trim_start_matches("http://").to_owned();
    let mount = |path: &str, host: &str| {
        format!("[[site.mount]]\npath = \"/{path}\"\nproxy = \"{}\"\n{host}\n", upstream.url())
    };
    let lines = [
        mount("default", ""),
        mount("client", "host = \"client\""),
        mount("upstream", "host = \"upstream\""),
        mount("fixed", "host = \"app.internal:81\""),
    ];
    let server = start(&folder, Io::Epoll, &lines.concat());
    for (path, expected) in [
        ("/default", "shop.test"),
        ("/client", "shop.test"),
        ("/upstream", &own),
        ("/fixed", "app.internal:81"),
    ] {
        let response = server.exchange(&Request::get(path).host("shop.test"));
        assert_eq!(values(response.text(), "Host"), [expected], "{response}");
        assert_eq!(values(response.text(), "X-Forwarded-Host"), ["shop.test"], "{response}");
    }
    server.stop();
}

/// Only the correct certificate is accepted, and no key disables the check.
#[test]
fn servers_with_https_are_verified() {
    let folder = site("mount-tls");
    let authority = Pair::new(&folder, "authority", &["authority.test"]);
    let pair = authority.vouch(&folder, "app", &["app.internal"]);
    let own = Pair::new(&folder, "own", &["own.test"]);
    let (_app, port) = s_server(&pair, &[]);
    let (_own, own_port) = s_server(&own, &[]);
    let (ca, pin) = (authority.cert.display(), key_hash(&own.cert));
    let mount = |path: &str, port: u16, keys: &str| {
        let proxy = format!("proxy = \"https://127.0.0.1:{port}\"");
        format!("[[site.mount]]\npath = \"/{path}\"\n{proxy}\n{keys}\n")
    };
    let lines = [
        mount("roots", port, "tls-name = \"app.internal\""),
        mount("address", port, &format!("tls-ca = \"{ca}\"")),
        mount("other", port, &format!("tls-ca = \"{ca}\"\ntls-name = \"other.internal\"")),
        mount("right", port, &format!("tls-ca = \"{ca}\"\ntls-name = \"app.internal\"")),
        mount("pinned", own_port, &format!("tls-pin = \"sha256//{pin}\"")),
        mount("unpinned", port, &format!("tls-pin = \"sha256//{pin}\"")),
    ];
    for io in Io::BOTH {
        for (path, status, reason) in [
            ("/roots", 502, "unknown authority"),
            ("/address", 502, "not for 127.0.0.1, but for app.internal"),
            ("/other", 502, "not for other.internal, but for app.internal"),
            ("/right", 200, ""),
            ("/pinned", 200, ""),
            ("/unpinned", 502, "matches no pin"),
        ] {
            // The log only has the first of several errors.
            let server = start(&folder, io, &lines.concat());
            assert_eq!(server.get(path).status, status, "{path}");
            let lines = server.last_words();
            let front = format!("502 for {path}: ");
            let is_reported = |line: &String| line.contains(&front) && line.contains(reason);
            assert_eq!(lines.iter().any(is_reported), status == 502, "{path}: {lines:#?}");
        }
    }
}

/// A reload adds mounts to a site and a server that had none, and removes them.
#[test]
fn a_reload_adds_and_removes_mounts() {
    let folder = site("mount-reload");
    let site = "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n";
    let upstream = named("one");
    for io in Io::BOTH {
        let server = start(&folder, io, "");
        assert_eq!(server.get("/x").status, 404);
        let mount = format!("[[site.mount]]\nproxy = \"{}\"\n", upstream.url());
        folder.write("p.toml", format!("{site}{mount}"));
        reload(&server);
        assert_eq!(server.get("/x").text(), "one GET /x HTTP/1.1");
        assert_eq!(server.get("/").text(), "home");
        let more = format!("path = \"/x\"\nupstream-path = \"/y\"\n{mount}");
        folder.write("p.toml", format!("{site}{mount}{more}"));
        reload(&server);
        assert_eq!(server.get("/x").text(), "one GET /y HTTP/1.1");
        folder.write("p.toml", site);
        reload(&server);
        assert_eq!(server.get("/x").status, 404);
        server.stop();
    }
}

/// A mount has precedence over files, however a client spells its path.
#[test]
fn no_spelling_of_a_path_bypasses_its_mount() {
    const HIDDEN: &str = "a file below a mount";
    let folder = Folder::with(
        "mount-spellings",
        [
            ("public/index.html", "home"),
            ("public/api/x.txt", HIDDEN),
            ("public/caf\u{e9}/x.txt", HIDDEN),
        ],
    );
    let upstream = named("upstream");
    let mounts = ["/api", "/caf%C3%A9"]
        .map(|path| format!("[[site.mount]]\npath = \"{path}\"\nproxy = \"{}\"\n", upstream.url()));
    let mut spellings = Vec::new();
    for (path, key) in [("/api/x.txt", "/api/x.txt"), ("/caf%C3%A9/x.txt", "/caf\u{e9}/x.txt")] {
        spellings.push(path.to_owned());
        for front in ["/.", "/x/..", "/%2e", "/x/%2E.", "/x/y/../.."] {
            spellings.push(format!("{front}{path}"));
            spellings.push(path.replace("/x.txt", &format!("{front}/x.txt")));
        }
        let segments: Vec<&str> = key.split('/').skip(1).collect();
        for digits in [|byte: u8| format!("%{byte:02x}"), |byte: u8| format!("%{byte:02X}")] {
            let encoded = segments.iter().map(|one| one.bytes().map(digits).collect::<String>());
            spellings.push(encoded.map(|one| format!("/{one}")).collect());
        }
        spellings.extend(["%c3%a9", "%c3%A9"].map(|escapes| path.replace("%C3%A9", escapes)));
    }
    for io in Io::BOTH {
        let server = start(&folder, io, &mounts.concat());
        for target in &spellings {
            let response = server.get(target);
            let is_of_mount = matches!(response.status, 400 | 404)
                || response.status == 200 && response.text().starts_with("upstream GET /");
            assert!(is_of_mount && response.text() != HIDDEN, "{target}: {response}");
        }
        for target in [&*spellings[0], "/caf%c3%a9/x.txt"] {
            assert_eq!(server.get(target).text(), format!("upstream GET {target} HTTP/1.1"));
        }
        server.stop();
    }
}

pub(crate) fn reload(server: &Server) {
    let from = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(from, |line| line.contains("1 new, 1 removed"));
}

/// Returns the whole output of a command.
fn output_of(ended: &Ended) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

/// A rule that responds to every path would leave nothing for the mount.
#[test]
fn a_catch_all_rewrite_with_a_fallback_mount_is_an_error() {
    let folder = site("mount-rules");
    let upstream = named("one");
    let rules = "/old /new 301\n/* /index.html 200\n";
    let site = format!("[[site]]\npath = \"public\"\nproxy = \"{}\"\n", upstream.url());
    folder.write("p.toml", &site);
    let file = folder.join("p.toml");
    let file = file.to_str().expect("text");
    let place = folder.join("public/_redirects:2:1: ");
    let place = place.to_str().expect("text");
    let is_reported = |line: &str| line.contains(place) && line.contains("leaves nothing for");
    // A reload keeps the previous version.
    let server = Start::site(&folder.join("p.toml")).start();
    folder.write("public/_redirects", rules);
    let from = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(from, is_reported);
    assert_eq!(server.get("/x").text(), "one GET /x HTTP/1.1");
    server.stop();
    for arguments in [&["serve", file, "--listen", "127.0.0.1:0"][..], &["check", file]] {
        let ended = run(arguments);
        assert_ne!(ended.code, Some(0), "{arguments:?}");
        assert!(output_of(&ended).lines().any(is_reported), "{arguments:?}: {}", output_of(&ended));
    }
    // The short form on a command line, and an archive, give the same error.
    let public = folder.join("public");
    let public = public.to_str().expect("text");
    let ended = run(&["serve", public, "--proxy", &upstream.url(), "--listen", "127.0.0.1:0"]);
    assert!(ended.stderr.lines().any(is_reported), "{}", ended.stderr);
    let archive = folder.join("site.pinion");
    build(&folder.join("public"), &archive, &[]);
    folder.write("p.toml", site.replace("public", "site.pinion"));
    for arguments in [&["serve", file, "--listen", "127.0.0.1:0"][..], &["check", file]] {
        let ended = run(arguments);
        assert_ne!(ended.code, Some(0), "{arguments:?}");
        let words = "site.pinion: _redirects:2:1: the rule responds";
        assert!(output_of(&ended).contains(words), "{arguments:?}: {}", output_of(&ended));
    }
    // With another path there is no contradiction, and neither is there without the rule.
    let below = site.replace("proxy = \"", "proxy = \"/api=");
    // No program runs the PHP script of the folder then.
    folder.write("p.toml", below + "php = false\n");
    assert_eq!(run(&["check", file]).code, Some(0));
    folder.write("public/_redirects", "/* /index.html 200 Language=de\n/docs/* /index.html 200\n");
    folder.write("p.toml", &site);
    let ended = run(&["check", file]);
    assert!(!output_of(&ended).contains("leaves nothing for"), "{}", output_of(&ended));
}

/// Contradictions are reported with file, line and column; the start and `pinion check` report the
/// same.
#[test]
fn contradictory_keys_are_errors_with_line_and_column() {
    let folder = site("mount-faults");
    for (lines, expected) in [
        (
            "proxy = \"/a=http://a\"\n[[site.mount]]\npath = \"/a\"\nproxy = \"http://b\"\n",
            "p.toml:5:8: path: /a is forwarded by line 3 already",
        ),
        (
            "[[site.mount]]\nproxy = \"http://a\"\ntls-name = \"a\"\n",
            "p.toml:5:12: tls-name: has no effect without a server with https",
        ),
        ("[[site.mount]]\nproxy = \"https://a\"\ntls-ca = \"none.pem\"\n", "p.toml:5:10: tls-ca: "),
        (
            "[[site.mount]]\nproxy = \"http://a\"\nset-request-headers = [\"Host: a\"]\n",
            "p.toml:5:24: set-request-headers: Host is set with `host`",
        ),
        (
            "[[site.mount]]\npath = \"/a\"\n",
            "p.toml:3:1: proxy: is missing; a mount has proxy, fastcgi, scgi, cgi, wsgi, asgi, \
             python-application or store",
        ),
        (
            "single-page = \"index.html\"\nproxy = \"http://a\"\n",
            "p.toml:3:15: single-page: the page responds to every path",
        ),
    ] {
        folder.write("p.toml", format!("[[site]]\npath = \"public\"\n{lines}"));
        let file = folder.join("p.toml");
        let file = file.to_str().expect("text");
        for verb in ["check", "serve"] {
            let ended = run(&[verb, file]);
            assert_ne!(ended.code, Some(0), "{verb}: {lines}");
            assert!(output_of(&ended).contains(expected), "{verb}: {lines}: {}", output_of(&ended));
        }
    }
    folder.write(
        "p.toml",
        "[[site]]\npath = \"public\"\n[[site.mount]]\nproxy = \"http://a\"\nbalance = \
         \"client-hash\"\n",
    );
    let ended = run(&["check", folder.join("p.toml").to_str().expect("text")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn why_names_the_mount_and_its_servers() {
    let folder = site("mount-why");
    folder.write(
        "p.toml",
        "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n[[site.mount]]\n\
         path = \"/api\"\nupstream-path = \"/v1\"\n\
         proxy = [\"http://127.0.0.1:3001\", \"http://127.0.0.1:3002\"]\n[[site.mount]]\n\
         path = \"*.php\"\nproxy = \"unix:/run/php.sock\"\n",
    );
    let file = folder.join("p.toml");
    let file = file.to_str().expect("text");
    let why = |target: &str| {
        let ended = run(&["why", file, &format!("http://localhost{target}")]);
        assert_eq!(ended.code, Some(0), "{target}: {}", ended.stderr);
        ended.stdout
    };
    let report = why("/api/users");
    let words =
        "/api is forwarded to one of http://127.0.0.1:3001, http://127.0.0.1:3002, with /v1";
    assert!(report.contains(words), "{report}");
    let report = why("/missing.php");
    assert!(report.contains("*.php is forwarded to unix:/run/php.sock"), "{report}");
    assert!(why("/file.php").contains("200"), "a file comes first");
}

/// The responses are the same over HTTP/2 and HTTP/3, also with buffering and balancing.
#[test]
fn mounts_respond_over_every_protocol() {
    let folder = site("mount-protocols");
    let (one, two) = (named("one"), named("one"));
    let lines = format!(
        "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n\
         [[site.mount]]\npath = \"/api\"\nproxy = [\"{}\", \"{}\"]\n\
         upstream-path = \"/v1\"\nbuffer-uploads = true\n",
        one.url(),
        two.url()
    );
    folder.write("p.toml", lines);
    for protocol in [Protocol::Http1Tls, Protocol::Http2, Protocol::Http3] {
        for io in Io::BOTH {
            let way = Way { protocol, io, form: Form::Folder };
            let server = Start::site(&folder.join("p.toml")).in_way(way).start();
            assert_eq!(server.get("/api/x").text(), "one GET /v1/x HTTP/1.1");
            let request = Request::new("POST", "/api/x").body(&vec![b'x'; 300_000]);
            assert_eq!(server.exchange(&request).text(), "one POST /v1/x HTTP/1.1");
            server.stop();
        }
    }
}

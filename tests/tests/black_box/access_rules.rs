//! Access rules of a site (`[[site.access]]`): passwords, networks, rates, concurrent requests,
//! pages of other origins, numbers of requests. They apply to files, scripts and other servers
//! alike, over each protocol.

use pinion_tests::external_programs::output;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use pinion_tests::{is_reached, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};

/// Created by `htpasswd -nbB -C 4` of Apache 2.4 and, with Argon2id, by the program of its
/// reference implementation. The passwords are `open`, `päss: wörd` and `password`.
const USERS: &str = "\
ann:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju
b\u{f6}b:$2y$04$GHlOxn0HfhOUGbf2WLRmne84.UIXXWsp3A86H2amcbtWQfVmethZO
eve:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4
";

const ANN: &str = "Basic YW5uOm9wZW4=";
const EVE: &str = "Basic ZXZlOnBhc3N3b3Jk";

/// The script of the site, which describes a request.
const SCRIPT: &str = r#"
local function said(req)
    return table.concat({ tostring(req.user), tostring(req.id),
        tostring(req.fields.authorization), tostring(req.fields["x-request-id"]) }, " ")
end
pinion.get("/admin/script", said)
pinion.get("/script", function(req, res)
    res:field("Access-Control-Allow-Origin", "*")
    return said(req)
end)
"#;

/// Creates a site with files, a script and another server, and these lines of a configuration.
fn site(upstream: &Upstream, lines: &str) -> Folder {
    let folder = Folder::with(
        "access",
        [
            ("site/index.html", "home"),
            ("site/about.html", "about"),
            ("site/admin/index.html", "admin"),
            ("site/admin/list.txt", "list"),
            ("site/_redirects", "/way/* /admin/:splat 200\n"),
        ],
    );
    folder.write("site/main.lua", SCRIPT);
    folder.write("users", USERS);
    let url = upstream.url();
    let mounts = format!(
        "[[site.mount]]\npath = \"/admin/app\"\nproxy = \"{url}\"\n\
         [[site.mount]]\npath = \"/app\"\nproxy = \"{url}\"\n"
    );
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{lines}\n{mounts}"));
    folder
}

/// Runs a case over each protocol, with epoll and io_uring in turn.
#[track_caller]
fn each_protocol(folder: &Folder, flags: &[&str], case: impl Fn(&Server)) {
    for (protocol, io) in Protocol::SPOKEN.iter().zip(Io::BOTH.into_iter().cycle()) {
        let way = Way { protocol: *protocol, io, form: Form::Folder };
        let start = Start::site(&folder.join("pinion.toml")).in_way(way);
        let server = start.flags(&["--workers", "2"]).flags(flags).start();
        case(&server);
    }
}

fn with_password(target: &str, value: &str) -> Request {
    Request::get(target).field("Authorization", value)
}

#[track_caller]
fn assert_asks_for_a_password(response: &Response) {
    assert_eq!(response.status, 401, "{response}");
    let challenge = "Basic realm=\"The \\\"staff\\\"\", charset=\"UTF-8\"";
    assert_eq!(response.field("WWW-Authenticate"), Some(challenge), "{response}");
    assert_eq!(response.field("Cache-Control"), Some("no-store"), "{response}");
}

const PASSWORD: &str = "[[site.access]]\npath = \"/admin\"\npassword-file = \"users\"\n\
                        realm = 'The \"staff\"'\n";

/// RFC 7617, for every kind of response and every spelling of a path.
#[test]
fn a_password_opens_a_part_of_a_site() {
    let upstream = Upstream::echo();
    let folder = site(&upstream, PASSWORD);
    each_protocol(&folder, &["--health", "/admin/health"], |server| {
        assert_eq!(server.get("/").text(), "home");
        assert_eq!(server.get("/about").status, 200);
        assert_eq!(server.get("/admin/health").text(), "ok\n");
        for target in [
            "/admin",
            "/admin/",
            "/admin/list.txt",
            "/admin/missing",
            "/ADMIN/list.txt",
            "/%61dmin/list.txt",
            "//admin/list.txt",
            "/x/../admin/list.txt",
            "/admin%2Flist.txt",
            "/way/list.txt",
            "/admin/script",
            "/admin/app",
            "/admin/%61pp/x",
            "/app/..%2fadmin/list.txt",
        ] {
            let response = server.get(target);
            assert_asks_for_a_password(&response);
            assert_asks_for_a_password(
                &server.exchange(&with_password(target, "Basic YW5uOm9wZQ==")),
            );
        }
        assert_eq!(server.exchange(&Request::head("/admin/")).status, 401);
        for (target, text) in [
            ("/admin/", "admin"),
            ("/admin/list.txt", "list"),
            ("/way/list.txt", "list"),
            ("/admin/script", "ann nil nil nil"),
        ] {
            let response = server.exchange(&with_password(target, ANN));
            assert_eq!((response.status, response.text()), (200, text), "{target}");
        }
        assert_eq!(server.exchange(&with_password("/admin/", EVE)).status, 200);
        let bob = "Basic YsO2Yjpww6Rzczogd8O2cmQ=";
        assert_eq!(server.exchange(&with_password("/admin/", bob)).status, 200);
        for wrong in [
            "Basic YW5uOnBhc3N3b3Jk",
            "Basic QW5uOm9wZW4=",
            "Basic eDpvcGVu",
            "Bearer YW5uOm9wZW4=",
            "Basic YW5uOm9wZW4=YQ==",
            "Basic",
        ] {
            assert_asks_for_a_password(&server.exchange(&with_password("/admin/", wrong)));
        }
        let twice = with_password("/admin/", ANN).field("Authorization", EVE);
        assert_asks_for_a_password(&server.exchange(&twice));
    });
    assert_eq!(upstream.connections(), 0, "nothing was forwarded without a password");
}

/// Neither a password nor a forged identity of the client reaches the application.
#[test]
fn other_servers_get_the_user_and_not_the_password() {
    let upstream = Upstream::echo();
    let folder = site(&upstream, &format!("request-id = true\n{PASSWORD}"));
    let log = folder.join("access.log");
    let log_flag = log.to_str().expect("a path");
    each_protocol(&folder, &["--access-log", log_flag, "--log-format", "json"], |server| {
        let forged = |request: Request| {
            request
                .field("Remote-User", "root")
                .field("X-Forwarded-User", "root")
                .field("X-Remote-User", "root")
                .field("X-Request-Id", "forged")
        };
        let request = forged(with_password("/admin/app?a", ANN));
        let response = server.exchange(&request);
        assert_eq!(response.status, 200, "{response}");
        let head = response.text().to_ascii_lowercase();
        assert!(!head.contains("authorization") && !head.contains("root"), "{head}");
        assert!(head.contains("\r\nx-forwarded-user: ann\r\n"), "{head}");
        let id = response.field("X-Request-Id").expect("a number");
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert!(head.contains(&format!("\r\nx-request-id: {id}\r\n")), "{head}");
        assert!(!head.contains("forged"), "{head}");
        let logged = wait_for("a line in the log", || {
            let text = fs::read_to_string(&log).ok()?;
            text.lines().find(|line| line.contains(id)).map(str::to_owned)
        });
        let logged: Value = serde_json::from_str(&logged).expect("JSON");
        assert_eq!((logged["user"].as_str(), logged["status"].as_u64()), (Some("ann"), Some(200)));
        // Where no rule requires a password, that of the application is forwarded.
        let head = server.exchange(&forged(with_password("/app", ANN))).text().to_ascii_lowercase();
        assert!(head.contains("\r\nauthorization: basic yw5u"), "{head}");
        assert!(!head.contains("root") && !head.contains("forged"), "{head}");
        let script = server.exchange(&forged(with_password("/admin/script", ANN)));
        let id = script.field("X-Request-Id").expect("a number");
        assert_eq!(script.text(), format!("ann {id} nil {id}"));
    });
}

#[test]
fn clients_of_other_networks_are_refused() {
    let upstream = Upstream::echo();
    let folder = site(
        &upstream,
        "[[site.access]]\npath = \"/admin\"\nallow = [\"192.0.2.0/24\", \"unix\"]\n\
         [[site.access]]\npath = \"/app\"\ndeny = [\"127.0.0.0/8\"]\n\
         [[site.access]]\nallow = [\"127.0.0.0/8\"]\n",
    );
    each_protocol(&folder, &[], |server| {
        assert_eq!(server.get("/").status, 200);
        for target in ["/admin/", "/way/list.txt", "/admin/script", "/app", "/app/x"] {
            let response = server.get(target);
            assert_eq!(response.status, 403, "{target}");
            assert_eq!(response.field("WWW-Authenticate"), None);
        }
    });
    assert_eq!(upstream.connections(), 0);
}

/// Networks and limits apply to the client that a trusted proxy names.
#[test]
fn a_trusted_proxy_names_the_client() {
    let upstream = Upstream::echo();
    let folder = site(
        &upstream,
        "[[site.access]]\npath = \"/admin\"\nallow = [\"192.0.2.0/24\"]\nrequest-rate = \"2/h\"\n",
    );
    each_protocol(&folder, &["--trusted-proxy", "127.0.0.1"], |server| {
        let status = |client: &str| {
            let request = Request::get("/admin/list.txt").field("X-Forwarded-For", client);
            server.exchange(&request).status
        };
        assert_eq!(
            [status("192.0.2.9"), status("192.0.2.9"), status("192.0.2.9")],
            [200, 200, 429]
        );
        assert_eq!((status("192.0.2.10"), status("198.51.100.1")), (200, 403));
    });
}

/// Retry-After is in seconds (RFC 9110 §10.2.3).
#[test]
fn clients_over_the_request_rate_get_429_with_retry_after() {
    let upstream = Upstream::echo();
    let folder = site(
        &upstream,
        "[[site.access]]\nrequest-rate = \"10/h\"\nrequest-burst = 4\n\
         [[site.access]]\npath = \"/app\"\nrequest-rate = \"10/h\"\nrequest-burst = 2\n",
    );
    each_protocol(&folder, &["--health", "/up"], |server| {
        for target in ["/", "/app", "/script", "/missing"] {
            let status = server.get(target).status;
            assert_eq!(status, if target == "/missing" { 404 } else { 200 }, "{target}");
        }
        for target in ["/", "/app", "/script"] {
            let response = server.get(target);
            assert_eq!(response.status, 429, "{target}");
            let seconds: u64 = response.field("Retry-After").expect("a time").parse().expect("it");
            assert!((1..=360).contains(&seconds), "{seconds}");
        }
        assert_eq!(server.get("/up").status, 200);
    });
    assert_eq!(upstream.connections() / Protocol::SPOKEN.len(), 1);
}

/// The first half of a delayed response.
const HELD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\ndo";

/// Delays the second halves of responses while it is closed.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, is_open: bool) {
        *self.is_open.lock().expect("no panic under the lock") = is_open;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().expect("no panic under the lock");
        drop(self.changed.wait_while(is_open, |is_open| !*is_open));
    }
}

/// When a client has its response, its slot is free.
#[test]
fn concurrent_requests_count_until_they_end() {
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let upstream = Upstream::start(move |connection| {
        while connection.request().is_some() {
            if !connection.try_send(HELD) {
                return;
            }
            connection.note();
            held.wait();
            if !connection.try_send(b"ne") {
                return;
            }
        }
    });
    let folder = site(&upstream, "[[site.access]]\npath = \"/app\"\nmax-concurrent-requests = 2\n");
    each_protocol(&folder, &[], |server| {
        gate.set(false);
        let earlier = upstream.notes();
        let statuses = std::thread::scope(|scope| {
            let ask = || {
                let mut client = server.client();
                scope.spawn(move || client.exchange(&Request::get("/app")).status)
            };
            let open = [ask(), ask()];
            let are_there = is_reached(|| upstream.notes() == earlier + 2);
            let statuses = are_there.then(|| {
                let refused = server.get("/app/x");
                (refused.status, server.get("/").status)
            });
            gate.set(true);
            let open = open.map(|request| request.join().expect("a response"));
            (statuses, open)
        });
        assert_eq!(statuses, (Some((429, 200)), [200, 200]));
        // The slots are free again, on every worker.
        let is_free = || Some(server.get("/app").status).filter(|status| *status != 429);
        for _ in 0..8 {
            assert_eq!(wait_for("a free place", is_free), 200);
        }
    });
}

fn varies_by_origin(response: &Response) -> bool {
    let vary = response.field("Vary").unwrap_or_default();
    vary.split(',').any(|name| name.trim() == "Origin")
}

/// Fetch Standard §3.2. This includes a part that needs a password: browsers send none with a
/// preflight request.
#[test]
fn cors_fields_follow_the_allowed_origins() {
    let upstream = Upstream::start(|connection| {
        while connection.request().is_some() {
            connection.send(
                b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nVary: X\r\n\
                  Access-Control-Allow-Credentials: true\r\nContent-Type: text/plain\r\n\
                  Content-Length: 2\r\n\r\nok",
            );
        }
    });
    let cors = "cors-origins = [\"https://a.test\"]\ncors-methods = [\"PUT\"]\n\
                cors-headers = [\"Authorization\"]\ncors-max-age = 60\ncors-credentials = true\n";
    let folder = site(
        &upstream,
        &format!(
            "[[site.access]]\n{cors}[[site.access]]\npath = \"/about\"\ncors-origins = \"*\"\n\
             {PASSWORD}"
        ),
    );
    each_protocol(&folder, &[], |server| {
        for target in ["/", "/script", "/app", "/missing"] {
            for (origin, allowed) in [("https://a.test", true), ("https://b.test", false)] {
                let response = server.exchange(&Request::get(target).field("Origin", origin));
                let expected = allowed.then_some(origin);
                assert_eq!(response.field("Access-Control-Allow-Origin"), expected, "{target}");
                let credentials = response.field("Access-Control-Allow-Credentials");
                assert_eq!(credentials, allowed.then_some("true"), "{target}");
                assert!(varies_by_origin(&response), "{response}");
            }
            let response = server.get(target);
            assert!(varies_by_origin(&response), "{response}");
        }
        let about = server.exchange(&Request::get("/about").field("Origin", "https://b.test"));
        assert_eq!(about.field("Access-Control-Allow-Origin"), Some("*"));
        let preflight = |target: &str, origin: &str| {
            let request = Request::new("OPTIONS", target).field("Origin", origin);
            server.exchange(&request.field("Access-Control-Request-Method", "PUT"))
        };
        for target in ["/admin/list.txt", "/admin/app", "/script"] {
            let response = preflight(target, "https://a.test");
            assert_eq!(response.status, 204, "{response}");
            for (name, value) in [
                ("Access-Control-Allow-Origin", Some("https://a.test")),
                ("Access-Control-Allow-Methods", Some("PUT")),
                ("Access-Control-Allow-Headers", Some("Authorization")),
                ("Access-Control-Max-Age", Some("60")),
                ("WWW-Authenticate", None),
            ] {
                assert_eq!(response.field(name), value, "{response}");
            }
            let response = preflight(target, "https://b.test");
            assert_eq!(response.status, 204, "{response}");
            assert_eq!(response.field("Access-Control-Allow-Origin"), None);
        }
        // The page gets the status that requires a password, and a request with one is accepted.
        let request = Request::get("/admin/list.txt").field("Origin", "https://a.test");
        let refused = server.exchange(&request);
        assert_eq!(refused.status, 401);
        assert_eq!(refused.field("Access-Control-Allow-Origin"), Some("https://a.test"));
        let other = Request::new("OPTIONS", "/admin/list.txt");
        assert_eq!(server.exchange(&other).status, 401, "an OPTIONS that is none");
    });
}

/// A browser's preflight and request are about the path that it requests. The path to which a
/// rewrite leads is internal to the site.
#[test]
fn cors_applies_to_the_path_before_a_rewrite() {
    let upstream = Upstream::echo();
    let tables = "[[site.access]]\npath = \"/admin\"\ncors-origins = [\"https://a.test\"]\n\
                  cors-methods = [\"PUT\"]\n[[site.access]]\npath = \"/way/b\"\n\
                  cors-origins = [\"https://b.test\"]\ncors-methods = [\"PUT\"]\n";
    let folder = site(&upstream, tables);
    folder.write("site/admin/b/list.txt", "b");
    each_protocol(&folder, &[], |server| {
        let allowed = |method: &str, target: &str, origin: &str| {
            let request = Request::new(method, target).field("Origin", origin);
            let response = server.exchange(&request.field("Access-Control-Request-Method", "PUT"));
            response.field("Access-Control-Allow-Origin").map(str::to_owned)
        };
        for (target, of_a, of_b) in [
            ("/admin/list.txt", true, false),
            ("/admin/b/list.txt", true, false),
            ("/way/list.txt", false, false),
            ("/way/b/list.txt", false, true),
        ] {
            for (origin, is_allowed) in [("https://a.test", of_a), ("https://b.test", of_b)] {
                let expected = is_allowed.then(|| origin.to_owned());
                assert_eq!(allowed("GET", target, origin), expected, "{target}");
                assert_eq!(allowed("OPTIONS", target, origin), expected, "preflight of {target}");
            }
        }
    });
}

/// RFC 9110 §10.1.1: a client that waits for `100 Continue` gets the final response instead.
#[test]
fn an_upload_without_a_password_is_refused_unread() {
    let upstream = Upstream::echo();
    let folder = site(&upstream, PASSWORD);
    for io in Io::BOTH {
        let start = Start::site(&folder.join("pinion.toml")).flags(&["--io", io.as_str()]);
        let server = start.start();
        for (target, bytes) in [
            ("/admin/app", 9_u64),
            ("/admin/app", 5 << 30),
            ("/admin/script", 5 << 30),
            ("/admin/list.txt", 5 << 30),
        ] {
            for expects in ["", "Expect: 100-continue\r\n"] {
                let mut stream = TcpStream::connect(server.address()).expect("a server");
                let head = format!(
                    "PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n{expects}\r\n"
                );
                stream.write_all(head.as_bytes()).expect("sent");
                let mut begin = [0; 12];
                stream.read_exact(&mut begin).expect("a response");
                assert_eq!(&begin, b"HTTP/1.1 401", "{target} {bytes} {expects}");
            }
        }
        // With the password the content is requested.
        let mut stream = TcpStream::connect(server.address()).expect("a server");
        let head = format!(
            "PUT /admin/app HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nAuthorization: {ANN}\r\n\
             Expect: 100-continue\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).expect("a response");
        assert_eq!(&begin, b"HTTP/1.1 100");
        stream.write_all(b"abc").expect("sent");
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("a response");
        assert!(rest.contains("HTTP/1.1 200"), "{rest}");
    }
    assert_eq!(upstream.heads().len(), 2);
}

/// A changed password is no longer accepted, although it was verified just before.
#[test]
fn a_reload_revokes_removed_passwords() {
    let upstream = Upstream::echo();
    let folder = site(&upstream, PASSWORD);
    each_protocol(&folder, &[], |server| {
        folder.write("users", USERS);
        let reload = |expected: &str| {
            let said = server.lines().len();
            server.signal(Signal::HUP);
            server.wait_for_line(said, |line| line.contains(expected));
        };
        reload("reloaded");
        let status = |value| server.exchange(&with_password("/admin/", value)).status;
        wait_for("a password", || Some(status(ANN)).filter(|status| *status == 200));
        assert_eq!(status(EVE), 200);
        let eve = USERS.lines().last().expect("a line");
        folder.write("users", format!("{eve}\n"));
        reload("reloaded");
        wait_for("the new file", || Some(status(ANN)).filter(|status| *status == 401));
        assert_eq!(status(EVE), 200);
        // A malformed file changes nothing, and its hashes are not printed.
        folder.write("users", "eve:x\nann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
        reload("users:2: ann: has a SHA-1 hash; only bcrypt and Argon2id are accepted");
        assert_eq!((status(EVE), status(ANN)), (200, 401));
        let lines = server.lines();
        assert!(lines.iter().all(|line| !line.contains("W6ph5Mm5")), "{lines:?}");
        folder.write("users", USERS);
    });
}

/// The attempts of one client are limited, and clients with a verified password or another address
/// are not affected.
#[test]
fn a_flood_of_wrong_passwords_does_not_affect_other_clients() {
    let upstream = Upstream::echo();
    let folder = site(&upstream, PASSWORD);
    each_protocol(&folder, &[], |server| {
        let ask = |value: &str| server.exchange(&with_password("/admin/", value)).status;
        assert_eq!(ask(ANN), 200);
        // The passwords differ: `ann:0`, `ann:1` and so on.
        let wrong = (0..10).flat_map(|tens| (0..10).map(move |ones| format!("{tens}{ones}")));
        let statuses: Vec<u16> = wrong
            .map(|digits| ask(&format!("Basic {}", base64(&format!("ann:{digits}")))))
            .collect();
        let verified = statuses.iter().filter(|status| **status == 401).count();
        // Some more than the initial limit are verified, if that takes long.
        assert!((20..60).contains(&verified), "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 401 | 429)), "{statuses:?}");
        assert_eq!(statuses.last(), Some(&429));
        let refused = server.exchange(&with_password("/admin/", EVE));
        assert_eq!(refused.status, 429, "it is not verified");
        let seconds: u64 = refused.field("Retry-After").expect("a time").parse().expect("it");
        assert!((1..=5).contains(&seconds), "{seconds}");
        assert_eq!(ask(ANN), 200, "it was verified before");
        assert_eq!(server.get("/").status, 200);
        if server.protocol().is_known_to_curl() {
            let mut curl = server.curl();
            curl.args(["--silent", "--max-time", "50", "--interface", "127.0.0.2"]);
            curl.args(["--user", "eve:password", &server.url("/admin/")]);
            let output = output(&mut curl);
            assert_eq!(output.stdout, b"admin", "another client");
        }
    });
}

/// A user whose password, `open`, takes about half a second to verify.
const SLOW: &str = "slow:$2y$13$a6FulujO1a34h3J7DvwrRex72pJ7PlTBiwbcV69./9YwX0SG9wS0S\n";

/// Opens a connection of a client with this address in a PROXY header, and sends a request.
fn send_from(server: &Server, address: &str, target: &str, credentials: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("a server");
    let value = base64(credentials);
    let text = format!(
        "PROXY TCP4 {address} 192.0.2.1 1 80\r\nGET {target} HTTP/1.1\r\nHost: a\r\n\
         Authorization: Basic {value}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).expect("sent");
    stream
}

fn read_all(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    text
}

/// Returns the received bytes of a connection, if there are any.
fn come_from(mut stream: &TcpStream) -> Option<String> {
    stream.set_nonblocking(true).expect("set");
    let mut bytes = [0; 512];
    let come = stream.read(&mut bytes).unwrap_or(0);
    (come > 0).then(|| String::from_utf8_lossy(&bytes[..come]).into_owned())
}

/// Requests with the same password wait for one verification, which is one attempt.
#[test]
fn a_repeated_password_is_verified_once() {
    let folder = site(&Upstream::echo(), PASSWORD);
    folder.write("users", SLOW);
    for io in Io::BOTH {
        let start = Start::site(&folder.join("pinion.toml")).flags(&["--io", io.as_str()]);
        let server = start.flags(&["--workers", "1", "--proxy-protocol", "127.0.0.0/8"]).start();
        let send = |_| send_from(&server, "192.0.2.7", "/admin/", "slow:open");
        let sent: Vec<TcpStream> = (0..30).map(send).collect();
        for response in sent.into_iter().map(read_all) {
            assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("admin"));
        }
    }
}

/// At most a hundred passwords wait. Further clients are asked to retry later.
#[test]
fn a_flood_from_many_clients_is_refused() {
    let folder = site(&Upstream::echo(), PASSWORD);
    folder.write("users", SLOW);
    for io in Io::BOTH {
        let start = Start::site(&folder.join("pinion.toml")).flags(&["--io", io.as_str()]);
        let server = start.flags(&["--workers", "1", "--proxy-protocol", "127.0.0.0/8"]).start();
        let known = send_from(&server, "192.0.2.7", "/admin/", "slow:open");
        assert!(read_all(known).starts_with("HTTP/1.1 200"));
        // No client has more than four waiting passwords, and these have four each.
        let send = |number: u32| {
            let address = format!("198.51.100.{}", number / 4);
            send_from(&server, &address, "/admin/", &format!("slow:{number}"))
        };
        let sent: Vec<TcpStream> = (0..128).map(send).collect();
        let refused = wait_for("a response", || sent.iter().rev().find_map(come_from));
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        assert!(refused.contains("\r\nRetry-After: 2\r\n"), "{refused}");
        // The fifth password of a client whose turn has not come yet.
        let fifth = send_from(&server, "198.51.100.20", "/admin/", "slow:another");
        assert!(read_all(fifth).starts_with("HTTP/1.1 429"));
        // Verified passwords, and paths without one, do not wait.
        let known = send_from(&server, "192.0.2.7", "/admin/", "slow:open");
        assert!(read_all(known).starts_with("HTTP/1.1 200"));
        assert!(read_all(send_from(&server, "192.0.2.8", "/", "")).starts_with("HTTP/1.1 200"));
        drop(sent);
        // Passwords of clients that have disconnected are not verified, so that others have their
        // turn.
        let answered = || {
            let stream = send_from(&server, "203.0.113.2", "/admin/", "slow:shut");
            Some(read_all(stream)).filter(|text| text.starts_with("HTTP/1.1 401"))
        };
        wait_for("a free place", answered);
    }
}

/// Encodes a text in Base64 (RFC 4648 §4).
fn base64(text: &str) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for three in text.as_bytes().chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let sign = char::from(SIGNS[(bits >> shift & 63) as usize]);
            encoded.push(if place <= three.len() { sign } else { '=' });
        }
    }
    encoded
}

/// A login with curl.
#[test]
fn curl_logs_in() {
    let upstream = Upstream::echo();
    let folder = site(&upstream, PASSWORD);
    each_protocol(&folder, &[], |server| {
        if !server.protocol().is_known_to_curl() {
            return;
        }
        for (flags, text) in [
            (&["--user", "ann:open"][..], "200 admin"),
            (&["--user", "b\u{f6}b:p\u{e4}ss: w\u{f6}rd"], "200 admin"),
            (&["--user", "ann:shut"], "401 "),
        ] {
            let mut curl = server.curl();
            curl.args(["--silent", "--max-time", "50", "--fail"]).args(flags);
            curl.args(["--write-out", "%{stderr}%{http_code} "]).arg(server.url("/admin/"));
            let output = output(&mut curl);
            let printed = [output.stderr, output.stdout].concat();
            assert_eq!(String::from_utf8_lossy(&printed), text, "{flags:?}");
        }
    });
}

/// `pinion check` finds errors in rules, and `pinion why` explains the checks of a request.
#[test]
fn check_finds_wrong_rules_and_why_explains_valid_ones() {
    let upstream = Upstream::echo();
    let rules = format!("{PASSWORD}[[site.access]]\nrequest-rate = \"10/s\"\ndeny = \"unix\"\n");
    let folder = site(&upstream, &rules);
    let file = folder.join("pinion.toml");
    let file = file.to_str().expect("a path");
    let why = |target: &str, flags: &[&str]| {
        let output = run(&[&["why", file, target, "--json"][..], flags].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        serde_json::from_str::<Value>(&output.stdout).expect("JSON")
    };
    let report = why("/ADMIN/list.txt", &[]);
    assert_eq!(report["status"], 401, "{report}");
    let steps = report["steps"].as_array().expect("steps");
    let last = steps.last().expect("a step");
    assert_eq!(last["name"], "access");
    let reason = last["reason"].as_str().expect("a reason");
    assert!(reason.contains("/admin") && reason.contains("users"), "{reason}");
    assert!(steps.iter().any(|step| step.to_string().contains("10/s of one client")), "{report}");
    let report = why("/about", &[]);
    assert_eq!(report["status"], 200, "{report}");
    let report = why("/way/list.txt", &[]);
    assert_eq!(report["status"], 401, "the file of a rewrite: {report}");
    folder.write("users", "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
    folder.write("site/.well-known/x", "x");
    let checked = run(&["check", file]);
    let text = format!("{}{}", checked.stdout, checked.stderr);
    assert_ne!(checked.code, Some(0), "{text}");
    assert!(text.contains("pinion.toml:5:17: password-file: "), "{text}");
    assert!(text.contains("users:1: ann: has a SHA-1 hash"), "{text}");
}

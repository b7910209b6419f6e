//! Mounts with FastCGI and SCGI: PHP-FPM, flup, fcgiwrap, and an application that returns the
//! variables of its requests.

use crate::lua_fetch::Running;
use pinion_tests::external_programs::{program, python_program};
use pinion_tests::fastcgi_application::{ABORT_REQUEST, STDERR, STDIN};
use pinion_tests::fastcgi_application::{Application, FastCgiRequest, page, record, response};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

/// Creates a folder `site` with scripts and files.
fn site(name: &str) -> Folder {
    Folder::with(
        name,
        [
            ("site/index.php", "<?php echo 'front ', $_SERVER['REQUEST_URI'];"),
            ("site/admin/index.php", "<?php echo 'admin';"),
            ("site/hello.txt", "hello"),
            ("site/wp-content/uploads/evil.php", "<?php echo 'evil';"),
            ("site/photo.jpg", "<?php echo 'evil';"),
            ("site/.hidden.php", "<?php echo 'evil';"),
        ],
    )
}

/// Starts a server of the folder `site` with a mount with these lines.
fn start(folder: &Folder, io: Io, lines: &str) -> Server {
    let text = format!("[[site]]\npath = \"site\"\nphp = false\n[[site.mount]]\n{lines}");
    folder.write("pinion.toml", text);
    Start::site(&folder.join("pinion.toml")).flags(&["--io", io.as_str()]).start()
}

fn mount(socket: &Path) -> String {
    format!("fastcgi = \"unix:{}\"\nroot = \"site\"\n", socket.display())
}

/// Starts an application that responds with these variables, a line for each, and the content.
fn telling(socket: &Path, names: &'static [&'static str]) -> Application {
    Application::responding(socket, |request: &FastCgiRequest| {
        let lines: String = names.iter().map(|name| format!("{}\n", request.get(name))).collect();
        page(&(lines + &String::from_utf8_lossy(&request.content)))
    })
}

#[test]
fn a_path_names_a_script_below_the_root() {
    let folder = site("fastcgi-paths");
    let root = folder.join("site");
    let root = root.to_str().expect("text");
    let socket = folder.join("app.sock");
    let _app = telling(&socket, &["SCRIPT_FILENAME", "SCRIPT_NAME", "PATH_INFO", "DOCUMENT_ROOT"]);
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&socket));
        for (target, script, path_info) in [
            ("/", "/index.php", ""),
            ("/index.php/a%20b?c", "/index.php", "/a b"),
            ("/admin/", "/admin/index.php", ""),
            ("/pretty/url", "/index.php", ""),
            ("/missing.php", "/index.php", ""),
        ] {
            let expected = format!("{root}{script}\n{script}\n{path_info}\n{root}\n");
            assert_eq!(server.get(target).text(), expected, "{target}");
        }
        assert_eq!(server.get("/hello.txt").text(), "hello");
        let folder_path = server.get("/admin?a=b");
        assert_eq!((folder_path.status, folder_path.field("Location")), (308, Some("/admin/?a=b")));
        server.stop();
    }
}

/// An upload is never run, whatever its name and the spelling of its path, and the source of a
/// script is never sent, even when no application listens at the socket.
#[test]
fn uploads_are_not_run_and_sources_are_not_sent() {
    let folder = site("fastcgi-attacks");
    let socket = folder.join("app.sock");
    let mut lines = mount(&socket);
    lines.push_str("no-front-controller = true\n");
    let app = telling(&socket, &["SCRIPT_NAME"]);
    let server = start(&folder, Io::Epoll, &lines);
    let targets = [
        "/photo.jpg/x.php",
        "/photo.jpg%2Fx.php",
        "/wp-content/uploads/evil.php",
        "/wp-content/uploads/evil.php/x",
        "/wp-content//uploads/evil.php",
        "//wp-content/uploads/evil.php",
        "/wp-content%2Fuploads/evil.php",
        "/wp-content/uploads%5Cevil.php",
        "/wp-content/uploads/evil.php%20",
        "/wp-content/uploads/evil.php.",
        "/wp-content/uploads/evil.PHP",
        "/.hidden.php",
        "/%2ehidden.php",
        "/index.PHP",
        "/index.php%00",
        "/index.php.",
    ];
    for target in targets {
        let response = server.get(target);
        assert!(matches!(response.status, 400 | 404), "{target}: {response}");
        assert!(!response.text().contains("<?php"), "{target}: {response}");
    }
    for target in ["/x/../wp-content/uploads/evil.php", "/%2e%2e/site/index.php"] {
        assert_eq!(server.get(target).status, 400, "{target}");
    }
    assert_eq!(app.connections(), 0, "nothing was run");
    drop(app);
    for target in ["/index.php", "/admin/index.php", "/admin/"].iter().chain(&targets) {
        let response = server.get(target);
        assert!(matches!(response.status, 400 | 404 | 502), "{target}: {response}");
        assert!(!response.text().contains("<?php"), "{target}: {response}");
    }
    server.stop();
}

/// Links are not followed, so that no upload can be a link to a file elsewhere.
#[test]
fn symbolic_links_are_not_run_as_scripts() {
    let folder = site("fastcgi-links");
    folder.write("secret.php", "<?php echo 'secret';");
    std::os::unix::fs::symlink(folder.join("secret.php"), folder.join("site/link.php"))
        .expect("a link");
    std::os::unix::fs::symlink("..", folder.join("site/up")).expect("a link");
    let socket = folder.join("app.sock");
    let app = telling(&socket, &["SCRIPT_FILENAME"]);
    let server = start(&folder, Io::Uring, &(mount(&socket) + "no-front-controller = true\n"));
    for target in ["/link.php", "/up/secret.php"] {
        assert_eq!(server.get(target).status, 404, "{target}");
    }
    assert_eq!(app.connections(), 0);
    // A script that is added later is found at once.
    folder.write("site/late.php", "<?php");
    let filename = format!("{}\n", folder.join("site/late.php").display());
    assert_eq!(server.get("/late.php").text(), filename);
    server.stop();
}

/// A rule about a script applies to every path to which the script responds.
#[test]
fn rules_about_access_hold_for_the_script_that_is_run() {
    let folder = site("fastcgi-access");
    let socket = folder.join("app.sock");
    let app = telling(&socket, &["SCRIPT_NAME"]);
    let lines = mount(&socket)
        + "[[site.access]]\npath = \"/admin/index.php\"\ndeny = [\"127.0.0.0/8\"]\n\
           [[site.access]]\npath = \"/index.php\"\ndeny = [\"127.0.0.0/8\"]\n";
    let server = start(&folder, Io::Epoll, &lines);
    for target in ["/admin/", "/admin/index.php", "/admin/index.php/x", "/", "/pretty/url"] {
        assert_eq!(server.get(target).status, 403, "{target}");
    }
    assert_eq!(server.get("/hello.txt").status, 200);
    assert_eq!(app.connections(), 0);
    server.stop();
    // A front controller uses the path after it as that of the page.
    let lines = mount(&socket)
        + "[[site.access]]\npath = \"/users\"\ndeny = [\"127.0.0.0/8\"]\n\
           [[site.access]]\npath = \"/admin/users\"\ndeny = [\"127.0.0.0/8\"]\n";
    let server = start(&folder, Io::Uring, &lines);
    for target in [
        "/users",
        "/users/x",
        "/index.php/users",
        "/index.php/users/x",
        "/index.php/%75sers",
        "/admin/index.php/users",
        "/admin/users",
    ] {
        assert_eq!(server.get(target).status, 403, "{target}");
    }
    assert_eq!(app.connections(), 0);
    assert_eq!(server.get("/index.php/other").text(), "/index.php\n");
    server.stop();
}

/// The application knows the length of the content, whatever its framing was.
#[test]
fn content_without_a_length_is_stored_first() {
    let folder = site("fastcgi-length");
    let socket = folder.join("app.sock");
    let _app = telling(&socket, &["CONTENT_LENGTH", "REQUEST_METHOD"]);
    let content = "x".repeat(200_000);
    let expected = format!("200000\nPOST\n{content}");
    let server = start(&folder, Io::Uring, &(mount(&socket) + "buffer-limit = \"200000\"\n"));
    let post = Request::new("POST", "/");
    let sized = post.clone().body(content.as_bytes());
    let chunked = post.clone().chunked(content.as_bytes(), 10_000);
    for request in [&sized, &chunked] {
        assert_eq!(server.exchange(request).text(), expected);
    }
    // Content with a length has no limit, and content without one has.
    let more = content + "x";
    assert_eq!(server.exchange(&post.clone().chunked(more.as_bytes(), 10_000)).status, 411);
    server.wait_for_line(0, |line| {
        line.contains("411 for /: the content has no Content-Length, and is longer than")
            && line.contains("buffer-limit of the mount /; raise that key")
    });
    assert_eq!(server.exchange(&post.body(more.as_bytes())).status, 200);
    server.stop();
}

/// FastCGI 1.0 §5.4: an application learns that its client has left.
#[test]
fn an_application_is_notified_when_its_client_disconnects() {
    let folder = site("fastcgi-abort");
    let socket = folder.join("app.sock");
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&kinds);
    let _app = Application::start(&socket, move |connection| {
        let Some(_head) = connection.head() else { return };
        connection.send(record(6, b"Content-Type: text/plain\r\n\r\nfirst"));
        while let Some((kind, content)) = connection.record() {
            noted.lock().expect("no panic").push((kind, content));
        }
        noted.lock().expect("no panic").push((0, Vec::new()));
    });
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&socket));
        let mut client = server.connect();
        client.send(Request::get("/index.php").bytes());
        client.read_some(1).expect("the head");
        drop(client);
        let noted = wait_for("the end", || {
            let noted = kinds.lock().expect("no panic");
            noted.last().is_some_and(|(kind, _)| *kind == 0).then(|| noted.clone())
        });
        assert_eq!(noted[..2], [(STDIN, Vec::new()), (ABORT_REQUEST, Vec::new())], "{io:?}");
        kinds.lock().expect("no panic").clear();
        server.stop();
    }
}

#[test]
fn the_error_stream_of_an_application_is_logged() {
    let folder = site("fastcgi-stderr");
    let socket = folder.join("app.sock");
    let _app = Application::responding(&socket, |_| {
        [record(STDERR, "PHP Warning: näh\x1b[31m\nsecond line\n".as_bytes()), page("ok")].concat()
    });
    let server = start(&folder, Io::Epoll, &mount(&socket));
    assert_eq!(server.get("/").text(), "ok");
    let shown = format!("fastcgi+unix:{}: PHP Warning: näh\\x1b[31m", socket.display());
    server.wait_for_line(0, |line| line.contains(&shown));
    server.wait_for_line(0, |line| line.ends_with(": second line"));
    server.stop();
}

/// Each request gets a connection of its own; requests above the limit wait.
#[test]
fn requests_beyond_the_connections_of_an_application_wait() {
    let folder = site("fastcgi-bound");
    let socket = folder.join("app.sock");
    let app = telling(&socket, &["QUERY_STRING"]);
    let lines = mount(&socket) + "max-connections = 1\nkeep-connections = 1\n";
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n[[site.mount]]\n{lines}"));
    let flags = ["--workers", "1"];
    let server = Start::site(&folder.join("pinion.toml")).flags(&flags).start();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..20 {
                    let target = format!("/?{number}-{round}");
                    assert_eq!(server.get(&target).text(), format!("{number}-{round}\n"));
                }
            });
        }
    });
    assert_eq!(app.connections(), 1);
    server.stop();
}

/// A request is forwarded with its identity, and without claims of the client about itself.
#[test]
fn clients_choose_no_variables_that_applications_trust() {
    let folder = site("fastcgi-variables");
    let socket = folder.join("app.sock");
    let app = Application::responding(&socket, |request: &FastCgiRequest| {
        let names = request.variables.iter().filter(|(name, _)| name.starts_with("HTTP_"));
        let names: Vec<String> = names.map(|(name, value)| format!("{name}={value}")).collect();
        let own = ["REMOTE_ADDR", "HTTPS", "SERVER_NAME", "APP_ENV", "REMOTE_USER"];
        let own = own.map(|name| request.get(name)).join(" ");
        page(&format!("{}\n{own}", names.join(" ")))
    });
    let lines = mount(&socket) + "variables = { APP_ENV = \"live\" }\n";
    let server = start(&folder, Io::Epoll, &lines);
    let request = Request::get("/")
        .field("Proxy", "http://evil")
        .field("X-Forwarded-For", "1.2.3.4")
        .field("X_Forwarded_Proto", "https")
        .field("Remote-User", "root")
        .field("Authorization", "Basic eDp5")
        .field("Accept", "a");
    let expected = "HTTP_ACCEPT=a HTTP_HOST=localhost\n127.0.0.1  localhost live ";
    assert_eq!(server.exchange(&request).text(), expected);
    server.stop();
    let lines = lines + "pass-authorization = true\n";
    let server = start(&folder, Io::Epoll, &lines);
    let text = server.exchange(&request).text().to_owned();
    assert!(text.contains("HTTP_AUTHORIZATION=Basic eDp5"), "{text}");
    server.stop();
    drop(app);
}

/// RFC 3875 §6.2.2: the response is that to a GET for another path, with the access rules of that
/// path.
#[test]
fn a_local_redirect_is_served_from_another_path_of_the_site() {
    let folder = site("fastcgi-local");
    folder.write("site/secret.txt", "secret");
    let socket = folder.join("app.sock");
    let _app = Application::responding(&socket, |request| {
        let target = request.get("QUERY_STRING");
        match target {
            "end" => page(&format!("{} end", request.get("REQUEST_METHOD"))),
            target => response(format!("Location: {target}\n\n").as_bytes()),
        }
    });
    let lines =
        mount(&socket) + "[[site.access]]\npath = \"/secret.txt\"\ndeny = [\"127.0.0.0/8\"]\n";
    for io in Io::BOTH {
        let server = start(&folder, io, &lines);
        let post = |target: &str| Request::new("POST", &format!("/?{target}")).body(b"content");
        assert_eq!(server.exchange(&post("/hello.txt")).text(), "hello");
        assert_eq!(server.exchange(&post("/index.php?end")).text(), "GET end");
        assert_eq!(server.exchange(&post("/secret.txt")).status, 403);
        assert_eq!(server.exchange(&post("/index.php?/hello.txt")).text(), "hello");
        // A chain of redirects.
        let many = "/index.php?".repeat(11);
        assert_eq!(server.exchange(&post(&format!("{many}end"))).status, 502);
        assert_eq!(server.exchange(&post(&format!("{}end", &many[11..]))).text(), "GET end");
        server.stop();
    }
}

/// Fields that the application does not set are those of the site, and `Status` is not forwarded.
#[test]
fn responses_have_the_status_and_headers_of_the_application() {
    let folder = site("fastcgi-response");
    folder.write("site/_headers", "/*\n  X-Site: yes\n");
    let socket = folder.join("app.sock");
    let _app = Application::responding(&socket, |_| {
        response(
            b"Status: 404 Gone Away\nContent-Type: text/plain\nCache-Control: no-store\n\
              Set-Cookie: a=b\n\nno such page",
        )
    });
    let lines = mount(&socket);
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n[[site.mount]]\n{lines}"));
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Http3] {
        let way = Way { protocol, io: Io::Uring, form: Form::Folder };
        let server = Start::site(&folder.join("pinion.toml")).in_way(way).start();
        let response = server.get("/");
        assert_eq!((response.status, response.text()), (404, "no such page"));
        assert_eq!(response.field("X-Site"), Some("yes"));
        assert_eq!(response.field("Set-Cookie"), Some("a=b"));
        assert_eq!(response.field("Status"), None);
        server.stop();
    }
}

/// PHP-FPM, which ends its processes on SIGTERM.
struct PhpFpm(Child);

impl Drop for PhpFpm {
    fn drop(&mut self) {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process");
        let _ended_meanwhile = kill_process(id, Signal::TERM);
        let _status = self.0.wait();
    }
}

/// Starts PHP-FPM with a socket in the folder.
fn php_fpm(folder: &Folder) -> PhpFpm {
    let socket = folder.join("php.sock");
    let path = folder.path().display();
    folder.write(
        "fpm.conf",
        format!(
            "[global]\nerror_log = {path}/fpm.log\ndaemonize = no\n[www]\nuser = www-data\n\
             group = www-data\nlisten = {}\nlisten.mode = 0666\npm = static\n\
             pm.max_children = 2\ncatch_workers_output = yes\n\
             security.limit_extensions = .php\n",
            socket.display()
        ),
    );
    // The user of the scripts needs access to them.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("set");
    let mut command = program("php-fpm8.2", "php8.2-fpm");
    command.arg("-F").arg("-y").arg(folder.join("fpm.conf"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let fpm = PhpFpm(command.spawn().expect("php-fpm"));
    wait_for("the socket", || UnixStream::connect(&socket).ok());
    fpm
}

/// A script that returns PHP's view of a request.
const TELLING: &str = r#"<?php
header('Content-Type: text/plain');
header('X-Sum: ' . md5(file_get_contents('php://input')));
foreach (['SCRIPT_NAME', 'PATH_INFO', 'PHP_SELF', 'REQUEST_METHOD', 'CONTENT_LENGTH'] as $name) {
    echo $_SERVER[$name] ?? '', "\n";
}
echo json_encode($_GET), "\n", json_encode($_POST);
"#;

#[test]
fn php_fpm_runs_scripts() {
    let folder = site("php-fpm");
    folder.write("site/tell.php", TELLING);
    folder.write(
        "site/fail.php",
        "<?php header('Cache-Control: no-store'); error_log('a warning'); no_such_function();",
    );
    folder
        .write("site/large.php", "<?php for ($i = 0; $i < 3000; $i++) echo str_repeat('x', 1000);");
    let _php = php_fpm(&folder);
    for (io, more) in [(Io::Epoll, ""), (Io::Uring, "keep-connections = 1\n")] {
        let server = start(&folder, io, &(mount(&folder.join("php.sock")) + more));
        let response = server.get("/tell.php/a/b?x=1");
        assert_eq!(response.text(), "/tell.php\n/a/b\n/tell.php/a/b\nGET\n\n{\"x\":\"1\"}\n[]");
        let form = Request::new("POST", "/tell.php")
            .field("Content-Type", "application/x-www-form-urlencoded")
            .chunked(b"a=1&b=2", 2);
        let expected = "/tell.php\n\n/tell.php\nPOST\n7\n[]\n{\"a\":\"1\",\"b\":\"2\"}";
        assert_eq!(server.exchange(&form).text(), expected);
        assert_eq!(server.get("/any/page").text(), "front /any/page");
        assert_eq!(server.get("/large.php").body.len(), 3_000_000);
        let large = vec![b'y'; 3_000_000];
        let posted = server.exchange(&Request::new("POST", "/tell.php").body(&large));
        assert_eq!(posted.field("X-Sum"), Some("67a78c7113fb2ec7a6e783e39c4270ca"));
        assert_eq!(server.get("/fail.php").status, 500);
        server.wait_for_line(0, |line| line.contains("a warning"));
        server.wait_for_line(0, |line| line.contains("no_such_function"));
        server.stop();
    }
}

/// An application in Python with flup, which is one program for all paths of its mount.
#[test]
fn flup_responds_over_fastcgi_and_scgi() {
    const APPLICATION: &str = r#"
import sys
from flup.server.fcgi import WSGIServer as FastCGI
from flup.server.scgi import WSGIServer as SCGI

def app(environ, start_response):
    content = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Type", "text/plain")])
    line = "%s %s %s %d" % (environ["SCRIPT_NAME"], environ["PATH_INFO"],
        environ["wsgi.url_scheme"], len(content))
    return [line.encode()]

kind, socket = sys.argv[1:]
server = {"fastcgi": FastCGI, "scgi": SCGI}[kind]
server(app, bindAddress=socket).run()
"#;
    for (kind, io) in [("fastcgi", Io::Epoll), ("scgi", Io::Uring)] {
        let folder = site(&format!("flup-{kind}"));
        folder.write("app.py", APPLICATION);
        let socket = folder.join("app.sock");
        let mut python = python_program("python");
        let _app =
            Running::on_socket(python.arg(folder.join("app.py")).arg(kind).arg(&socket), &socket);
        let lines = format!("path = \"/app\"\n{kind} = \"unix:{}\"\n", socket.display());
        let server = start(&folder, io, &lines);
        assert_eq!(server.get("/app/a%20b?x").text(), "/app /a b http 0");
        assert_eq!(server.get("/app").text(), "/app  http 0");
        let post = Request::new("POST", "/app/x");
        assert_eq!(
            server.exchange(&post.clone().body(&[b'a'; 70_000])).text(),
            "/app /x http 70000"
        );
        assert_eq!(server.exchange(&post.chunked(&[b'a'; 7_000], 100)).text(), "/app /x http 7000");
        assert_eq!(server.get("/hello.txt").text(), "hello");
        server.stop();
    }
}

/// Scripts in any language with fcgiwrap.
#[test]
fn fcgiwrap_runs_scripts() {
    let folder = site("fcgiwrap");
    folder.write(
        "site/cgi-bin/tell.cgi",
        "#!/bin/sh\necho 'Content-Type: text/plain'\necho 'Status: 201 Made'\necho\n\
         echo \"$SCRIPT_NAME $PATH_INFO $QUERY_STRING\"\ncat\n",
    );
    let script = folder.join("site/cgi-bin/tell.cgi");
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("set");
    let socket = folder.join("wrap.sock");
    let mut wrap = program("fcgiwrap", "fcgiwrap");
    let _wrap =
        Running::on_socket(wrap.arg("-s").arg(format!("unix:{}", socket.display())), &socket);
    let lines = format!("path = \"*.cgi\"\n{}", mount(&socket));
    let server = start(&folder, Io::Epoll, &lines);
    let request = Request::new("POST", "/cgi-bin/tell.cgi/more?a=b").body(b"content");
    let response = server.exchange(&request);
    let expected = (201, "/cgi-bin/tell.cgi /more a=b\ncontent");
    assert_eq!((response.status, response.text()), expected);
    assert_eq!(server.get("/cgi-bin/missing.cgi").status, 404);
    assert_eq!(server.get("/hello.txt").text(), "hello");
    server.stop();
}

/// A key without a possible meaning is an error with its position.
#[test]
fn check_finds_wrong_keys() {
    let folder = site("fastcgi-check");
    for (lines, expected) in [
        ("fastcgi = \"php\"", "4:11: fastcgi: \"php\": write unix:/run/app.sock"),
        (
            "fastcgi = \"a:1\"\nproxy = \"http://a\"",
            "a mount has either proxy, fastcgi, scgi, cgi, wsgi, asgi, python-application or store",
        ),
        (
            "path = \"/x\"",
            "a mount has proxy, fastcgi, scgi, cgi, wsgi, asgi, python-application or store",
        ),
        ("fastcgi = \"a:1\"\nindex = \"a.php\"", "index: has no effect without root"),
        ("path = \"*.php\"\nfastcgi = \"a:1\"", "root: is missing"),
        ("scgi = \"a:1\"\nkeep-connections = 1", "has no effect with scgi"),
        ("fastcgi = \"a:1\"\nhost = \"client\"", "host: has no effect with fastcgi or scgi"),
        ("proxy = \"http://a\"\nroot = \"site\"", "root: has no effect without fastcgi or scgi"),
        ("fastcgi = \"a:1\"\nroot = \"site\"\nno-exec = \"../x\"", "no-exec: \"../x\""),
    ] {
        let text = format!("[[site]]\npath = \"site\"\n[[site.mount]]\n{lines}\n");
        folder.write("pinion.toml", text);
        let file = folder.join("pinion.toml");
        let ended = run(&["check", file.to_str().expect("text")]);
        let output = format!("{}{}", ended.stdout, ended.stderr);
        assert!(output.contains(expected), "{lines}: {output}");
    }
}

//! `send-files`: files that applications name with `X-Sendfile` or `X-Accel-Redirect`, and that the
//! server sends in place of the content of their responses.

use crate::live_files::{MODIFIED, write_at};
use crate::lua_fetch::Running;
use crate::php;
use pinion_tests::body::{noise, parts};
use pinion_tests::client::Client;
use pinion_tests::external_programs::python_program;
use pinion_tests::fastcgi_application::{Application, response as fastcgi_response};
use pinion_tests::matrix::{Io, ways};
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use pinion_tests::wait_for;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::geteuid;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A text that no response may contain.
const SECRET: &str = "a secret that nobody may read";

/// Content that is sent from an open file.
const LARGE_BYTES: usize = 3_000_000;

/// A script of the shell that names the file of `X-Accel-Redirect` in its query, and sets every
/// field that the file decides about, and some that stay.
const ACCEL: &str = "#!/bin/sh\n\
    cat > /dev/null\n\
    echo 'Content-Type: text/x-own'\n\
    echo 'Content-Disposition: attachment; filename=\"own.txt\"'\n\
    echo 'Set-Cookie: a=1'\n\
    echo 'Set-Cookie: b=2'\n\
    echo 'Cache-Control: max-age=7'\n\
    echo 'X-Own: yes'\n\
    echo 'ETag: \"own\"'\n\
    echo 'Last-Modified: Mon, 07 Nov 1994 08:49:37 GMT'\n\
    echo 'Accept-Ranges: none'\n\
    echo 'Content-Encoding: gzip'\n\
    echo \"X-Accel-Redirect: $QUERY_STRING\"\n\
    echo\n\
    echo 'content of the script'\n";

/// A script that names the file of `X-Sendfile` as its `PATH_INFO`.
const SENDFILE: &str = "#!/bin/sh\n\
    echo 'Status: 200 Fine'\n\
    echo \"X-Sendfile: $PATH_INFO\"\n\
    echo\n\
    echo 'content of the script'\n";

/// Returns a site, a folder with files next to it, and a secret outside of both.
fn site(name: &str) -> Folder {
    let folder = Folder::with(
        name,
        [("site/index.html", "home"), ("secret.txt", SECRET), ("scripts/x", "")],
    );
    write_at(&folder, "files/a b.txt", "hello world", 0);
    write_at(&folder, "files/deep/large.bin", noise(LARGE_BYTES), 0);
    write_at(&folder, "files/empty.csv", "", 0);
    folder
}

fn write_script(folder: &Folder, name: &str, script: &str) {
    let path = format!("scripts/{name}");
    folder.write(&path, script);
    fs::set_permissions(folder.join(&path), Permissions::from_mode(0o755)).expect("permissions");
}

/// Writes a configuration with a mount of these lines at `/run`, whose responses may name files.
fn configure(folder: &Folder, mount: &str) {
    folder.write(
        "p.toml",
        format!(
            "[[site]]\npath = \"site\"\n[[site.mount]]\npath = \"/run\"\n{mount}\
             send-files = [\"/protected=files\"]\n"
        ),
    );
}

/// Returns a mount of the scripts of a folder.
fn cgi(folder: &Folder) -> String {
    let user =
        if geteuid().is_root() { "cgi-user = \"nobody\"\ncgi-no-chroot = true\n" } else { "" };
    format!("cgi = {:?}\n{user}", folder.join("scripts"))
}

/// Returns a folder with both scripts, and a mount of them.
fn scripts(name: &str) -> Folder {
    let folder = site(name);
    write_script(&folder, "accel", ACCEL);
    write_script(&folder, "sendfile", SENDFILE);
    configure(&folder, &cgi(&folder));
    folder
}

fn start(folder: &Folder, io: Io) -> Server {
    Start::site(&folder.join("p.toml")).flags(&["--io", io.as_str()]).start()
}

/// An application with FastCGI that responds with these lines of fields, and a secret as content.
struct Naming {
    lines: Arc<Mutex<String>>,
    _application: Application,
}

impl Naming {
    fn start(folder: &Folder) -> Self {
        let lines: Arc<Mutex<String>> = Arc::default();
        let (said, socket) = (Arc::clone(&lines), folder.join("app.sock"));
        let _application = Application::responding(&socket, move |_| {
            let lines = said.lock().expect("no panic under the lock");
            fastcgi_response(format!("{lines}\r\n{SECRET}").as_bytes())
        });
        configure(folder, &format!("fastcgi = \"unix:{}\"\n", socket.display()));
        Self { lines, _application }
    }

    fn name(&self, lines: &[&str]) {
        let mut said = self.lines.lock().expect("no panic under the lock");
        said.clear();
        lines.iter().for_each(|line| write!(said, "{line}\r\n").expect("text"));
    }
}

/// Checks that neither of the fields that name files reaches a client.
#[track_caller]
fn assert_hidden(response: &Response) {
    for name in ["X-Sendfile", "X-Accel-Redirect"] {
        assert_eq!(response.values(name).next(), None, "{response}");
    }
    assert!(!String::from_utf8_lossy(&response.body).contains(SECRET), "{response}");
}

/// The whole file, parts of it, and nothing, as of a live file; over each protocol.
#[test]
fn a_named_file_replaces_the_content_of_a_response() {
    let folder = scripts("sent-files");
    let large = noise(LARGE_BYTES);
    for way in ways(|_| true) {
        let server = Start::site(&folder.join("p.toml")).in_way(way).start();
        let mut client = server.client();
        let target = "/run/accel?/protected/a%20b.txt?x=y";
        let whole = client.exchange(&Request::get(target));
        assert_eq!((whole.status, whole.text()), (200, "hello world"), "{whole}");
        assert_hidden(&whole);
        for (name, value) in [
            ("Content-Type", Some("text/x-own")),
            ("Content-Disposition", Some("attachment; filename=\"own.txt\"")),
            ("Cache-Control", Some("max-age=7")),
            ("X-Own", Some("yes")),
            ("Last-Modified", Some(MODIFIED)),
            ("Accept-Ranges", Some("bytes")),
            ("Content-Encoding", None),
            ("Content-Length", Some("11")),
            ("X-Content-Type-Options", Some("nosniff")),
        ] {
            assert_eq!(whole.field(name), value, "{name}: {whole}");
        }
        assert!(whole.values("Set-Cookie").eq(["a=1", "b=2"]), "{whole}");
        let tag = whole.field("ETag").expect("an entity tag").to_owned();
        assert_ne!(tag, "\"own\"");
        part_of_a_file(&mut client, target, &tag);
        for name in ["/protected/deep/large.bin", "//protected//deep/%6carge.bin"] {
            let response = client.exchange(&Request::get(&format!("/run/accel?{name}")));
            assert!(response.body == large, "{} bytes: {response}", response.body.len());
        }
        let range = Request::get("/run/accel?/protected/deep/large.bin");
        let response = client.exchange(&range.field("Range", "bytes=1000000-1999999"));
        assert_eq!(response.status, 206, "{response}");
        assert!(response.body == large[1_000_000..2_000_000], "{response}");
        server.stop();
    }
}

fn part_of_a_file(client: &mut Client, target: &str, tag: &str) {
    let get = || Request::get(target);
    let head = client.exchange(&get().method("HEAD"));
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("11")), "{head}");
    assert_eq!(head.field("ETag"), Some(tag), "{head}");
    for request in [
        get().field("If-None-Match", tag),
        get().field("If-Modified-Since", MODIFIED),
        get().method("HEAD").field("If-None-Match", "*"),
    ] {
        let response = client.exchange(&request);
        assert_eq!((response.status, response.field("ETag")), (304, Some(tag)), "{response}");
        assert_eq!(response.field("Cache-Control"), Some("max-age=7"), "{response}");
        assert_eq!(response.field("Content-Disposition"), None, "{response}");
        assert_hidden(&response);
    }
    let part = client.exchange(&get().field("Range", "bytes=6-").field("If-Range", tag));
    assert_eq!((part.status, part.text()), (206, "world"), "{part}");
    assert_eq!(part.field("Content-Range"), Some("bytes 6-10/11"), "{part}");
    assert_eq!(part.field("Content-Type"), Some("text/x-own"), "{part}");
    let several = client.exchange(&get().field("Range", "bytes=0-4,6-10"));
    assert_eq!(several.status, 206, "{several}");
    let contents: Vec<Vec<u8>> = parts(&several).into_iter().map(|part| part.content).collect();
    assert_eq!(contents, [b"hello", b"world"]);
    assert_eq!(
        client.exchange(&get().field("If-Range", "\"x\"").field("Range", "bytes=6-")).status,
        200
    );
    // Errors have nothing of the response of the application.
    for (request, status) in
        [(get().field("Range", "bytes=11-"), 416), (get().field("If-Match", "\"other\""), 412)]
    {
        let response = client.exchange(&request);
        assert_eq!((response.status, response.field("X-Own")), (status, None), "{response}");
        assert_hidden(&response);
    }
    // Ranges are for GET, and conditions for requests that select the file.
    let post = Request::new("POST", target).field("If-None-Match", tag);
    for request in [post, Request::new("QUERY", target).field("Content-Type", "text/plain")] {
        let response = client.exchange(&request.body(b"form").field("Range", "bytes=6-"));
        assert_eq!((response.status, response.text()), (200, "hello world"), "{response}");
        assert_eq!(response.field("Accept-Ranges"), None, "{response}");
    }
}

/// The file supplies the fields that the application does not set.
#[test]
fn a_named_file_supplies_missing_fields() {
    let folder = scripts("sent-plain");
    write_at(&folder, "files/x.html", "<p>", 0);
    let files = folder.join("files");
    let files = files.to_str().expect("text");
    for io in Io::BOTH {
        let server = start(&folder, io);
        for (name, kind, content) in [
            ("a%20b.txt", "text/plain; charset=utf-8", "hello world"),
            ("x.html", "text/html; charset=utf-8", "<p>"),
            ("empty.csv", "text/csv; charset=utf-8", ""),
        ] {
            let response = server.get(&format!("/run/sendfile{files}/{name}"));
            assert_eq!((response.status, response.text()), (200, content), "{response}");
            assert_eq!(response.field("Content-Type"), Some(kind), "{response}");
            // The response may be for this client alone.
            let private = Some("private, max-age=0, must-revalidate");
            assert_eq!(response.field("Cache-Control"), private, "{response}");
            assert_hidden(&response);
        }
        // A path of URLs leads to the file only for applications.
        for target in ["/protected/a%20b.txt", "/run/protected/a%20b.txt", "/files/a%20b.txt"] {
            assert_eq!(server.get(target).status, 404, "{target}");
        }
        server.stop();
    }
}

/// A local redirect leads to a script, and that to a file.
#[test]
fn the_response_after_a_local_redirect_may_name_a_file() {
    let folder = scripts("sent-redirect");
    let location = "#!/bin/sh\necho 'Location: /run/accel?/protected/a%20b.txt'; echo\n";
    write_script(&folder, "away", location);
    for io in Io::BOTH {
        let server = start(&folder, io);
        let response = server.exchange(&Request::get("/run/away").field("Range", "bytes=0-4"));
        assert_eq!((response.status, response.text()), (206, "hello"), "{response}");
        let post = server.exchange(&Request::new("POST", "/run/away").body(b"a"));
        assert_eq!((post.status, post.text()), (200, "hello world"), "{post}");
        server.stop();
    }
}

/// The log has a line at most every few seconds, so each case has a server of its own.
#[track_caller]
fn refused(folder: &Folder, naming: &Naming, case: (&str, u16, &str), io: Io) {
    let (line, status, why) = case;
    let line = line.replace("DISK", folder.path().to_str().expect("text"));
    naming.name(&["Content-Type: text/plain", "Set-Cookie: a=1", &line]);
    let server = start(folder, io);
    let response = server.get("/run/x");
    assert_eq!(response.status, status, "{line}: {response}");
    assert_eq!(response.field("Set-Cookie"), None, "{line}: {response}");
    assert_hidden(&response);
    let front = format!("pinion: {status} for /run/x: ");
    let logged = server.wait_for_line(0, |line| line.starts_with(&front));
    assert!(logged.contains(why), "{line}: {logged}");
    server.stop();
}

#[test]
fn only_files_in_the_configured_folders_are_sent() {
    let folder = site("sent-refused");
    let naming = Naming::start(&folder);
    symlink(folder.join("secret.txt"), folder.join("files/link")).expect("a link");
    symlink("..", folder.join("files/up")).expect("a link");
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, folder.join("files/fifo"), FileType::Fifo, mode, 0).expect("a pipe");
    let named = format!("/protected={}", folder.join("files").display());
    let outside = format!("is in no folder of send-files ({named})");
    let malformed = "is no absolute path of a file";
    let link = "is a symbolic link";
    let cases = [
        ("X-Accel-Redirect: /protected/none", 404, "/files/none: no such file"),
        ("X-Accel-Redirect: /protected/deep", 404, "is no regular file"),
        ("X-Accel-Redirect: /protected/fifo", 404, "is no regular file"),
        ("X-Accel-Redirect: /protected/link", 404, link),
        ("X-Accel-Redirect: /protected/up/secret.txt", 404, link),
        ("X-Accel-Redirect: /protected/", 502, &outside),
        ("X-Accel-Redirect: /other/a%20b.txt", 502, &outside),
        ("X-Accel-Redirect: /protected/../secret.txt", 502, malformed),
        ("X-Accel-Redirect: /protected/%2e%2e/secret.txt", 502, malformed),
        ("X-Accel-Redirect: /protected/a%20b.txt%00", 502, malformed),
        ("X-Accel-Redirect: /protected/%zz", 502, malformed),
        ("X-Accel-Redirect: @named", 502, malformed),
        ("X-Accel-Redirect: http://127.0.0.1/x", 502, malformed),
        ("X-Accel-Redirect:", 502, malformed),
        ("X-Sendfile: DISK/secret.txt", 502, &outside),
        ("X-Sendfile: DISK/files/../secret.txt", 502, malformed),
        ("X-Sendfile: DISK/files/link", 404, link),
        ("X-Sendfile: /etc/passwd", 502, &outside),
        ("X-Sendfile: files/a b.txt", 502, malformed),
        ("X-Sendfile: DISK/files/a%20b.txt", 404, "a%20b.txt: no such file"),
        ("X-Sendfile: /a\r\nX-Sendfile: /b", 502, "X-Sendfile: is there more than once"),
    ];
    for (case, io) in cases.into_iter().zip(Io::BOTH.into_iter().cycle()) {
        refused(&folder, &naming, case, io);
    }
}

/// Responses that name no file, or that have no content, are as they are everywhere.
#[test]
fn responses_that_name_no_file_are_passed_on() {
    let folder = site("sent-others");
    let naming = Naming::start(&folder);
    let server = start(&folder, Io::Epoll);
    naming.name(&["Content-Type: text/plain", "X-Accel-Buffering: no", "ETag: \"own\""]);
    let response = server.get("/run/x");
    assert_eq!((response.text(), response.field("ETag")), (SECRET, Some("\"own\"")));
    assert_eq!(response.field("X-Accel-Buffering"), Some("no"), "{response}");
    let file = "X-Accel-Redirect: /protected/a%20b.txt";
    naming.name(&["Status: 304 Not Modified", "ETag: \"own\"", "Vary: Cookie", file]);
    let response = server.get("/run/x");
    assert_eq!((response.status, response.field("ETag")), (304, Some("\"own\"")), "{response}");
    assert_hidden(&response);
    // The status of the application stays, and such a response is sent as a whole.
    naming.name(&["Status: 403 No", "Content-Type: text/plain", "Cache-Control: no-store", file]);
    let request = Request::get("/run/x").field("Range", "bytes=0-1").field("If-None-Match", "*");
    let response = server.exchange(&request);
    assert_eq!((response.status, response.text()), (403, "hello world"), "{response}");
    assert_hidden(&response);
    // An application may respond to a range without knowing that it need not.
    naming.name(&["Status: 206 Part", "Content-Range: bytes 0-1/2", file]);
    let response = server.get("/run/x");
    assert_eq!((response.status, response.text()), (200, "hello world"), "{response}");
    assert_eq!(response.field("Content-Range"), None, "{response}");
    // Of both fields, that of nginx counts.
    naming.name(&["X-Sendfile: /etc/passwd", file]);
    assert_eq!(server.get("/run/x").text(), "hello world");
    server.stop();
    // Without the key, both fields are like any other.
    let text = fs::read_to_string(folder.join("p.toml")).expect("text");
    let text: String = text.lines().filter(|line| !line.contains("send-files")).fold(
        String::new(),
        |mut text, line| {
            writeln!(text, "{line}").expect("text");
            text
        },
    );
    folder.write("p.toml", text);
    let server = start(&folder, Io::Uring);
    naming.name(&["Content-Type: text/plain", "X-Sendfile: /a", file]);
    let response = server.get("/run/x");
    assert_eq!(response.text(), SECRET);
    assert_eq!(response.field("X-Sendfile"), Some("/a"), "{response}");
    assert_eq!(response.field("X-Accel-Redirect"), Some("/protected/a%20b.txt"), "{response}");
    server.stop();
}

/// A file that the user of the server may not read is not sent, for any user of the application.
#[test]
fn an_unreadable_file_is_forbidden() {
    if geteuid().is_root() {
        // A superuser may read everything. The unit tests of errors have this one.
        return;
    }
    let folder = site("sent-unreadable");
    let naming = Naming::start(&folder);
    let file = folder.join("files/a b.txt");
    fs::set_permissions(&file, Permissions::from_mode(0o000)).expect("permissions");
    let case = ("X-Accel-Redirect: /protected/a%20b.txt", 403, "permission denied");
    refused(&folder, &naming, case, Io::Epoll);
}

/// The connection of a server with HTTP is used again when the rest of the response was read, and
/// closed if that has no end.
#[test]
fn the_content_of_the_response_is_read_up_to_a_limit() {
    let folder = site("sent-proxy");
    let upstream = Upstream::start(|connection| {
        while let Some(head) = connection.request() {
            let file = "X-Accel-Redirect: /protected/a%20b.txt\r\nContent-Type: text/plain\r\n";
            if head.starts_with("GET /run/endless") {
                let head = format!("HTTP/1.1 200 OK\r\n{file}\r\n");
                connection.send(head);
                while connection.try_send(&[b'x'; 10_000]) {}
                return connection.note();
            }
            let length = if head.starts_with("GET /run/none") { 0 } else { 300_000 };
            let head = format!("HTTP/1.1 200 OK\r\n{file}Content-Length: {length}\r\n\r\n");
            connection.send([head.as_bytes(), &vec![b'x'; length]].concat());
        }
    });
    configure(&folder, &format!("proxy = \"{}\"\n", upstream.url()));
    let server = Start::site(&folder.join("p.toml")).flags(&["--workers", "1"]).start();
    let mut client = server.client();
    for target in ["/run/none", "/run/some", "/run/none", "/run/some"] {
        let response = client.exchange(&Request::get(target));
        assert_eq!(response.text(), "hello world", "{target}: {response}");
        assert_eq!(response.field("Content-Length"), Some("11"), "{response}");
    }
    // The end of a response may come after the file was sent.
    assert!(upstream.connections() <= 4, "{}", upstream.connections());
    wait_for("a connection that is used again", || {
        let before = upstream.connections();
        assert_eq!(client.exchange(&Request::get("/run/none")).text(), "hello world");
        (upstream.connections() == before).then_some(())
    });
    assert_eq!(client.exchange(&Request::get("/run/endless")).text(), "hello world");
    wait_for("the end of a response without end", || (upstream.notes() == 1).then_some(()));
    server.stop();
}

/// A script may finish after its response, and a script that writes endlessly is stopped.
#[test]
fn a_script_may_finish_and_may_not_write_without_end() {
    let folder = scripts("sent-finish");
    let front = "#!/bin/sh\necho 'X-Accel-Redirect: /protected/a%20b.txt'; echo\n";
    let done = folder.join("files/done");
    fs::set_permissions(folder.join("files"), Permissions::from_mode(0o777)).expect("set");
    let counts = format!("{front}echo content; sleep 0.2; echo more; echo done > {done:?}\n");
    write_script(&folder, "counts", &counts);
    let endless = format!("{front}echo $$ > {:?}; exec yes\n", folder.join("files/pid"));
    write_script(&folder, "endless", &endless);
    let server = start(&folder, Io::Epoll);
    assert_eq!(server.get("/run/counts").text(), "hello world");
    wait_for("the end of the script", || {
        fs::read_to_string(&done).ok().filter(|text| text == "done\n")
    });
    assert_eq!(server.get("/run/endless").text(), "hello world");
    let pid = wait_for("its number", || {
        fs::read_to_string(folder.join("files/pid")).ok().filter(|text| text.ends_with('\n'))
    });
    let process = Path::new("/proc").join(pid.trim());
    wait_for("the end of a script without end", || (!process.exists()).then_some(()));
    // The server does not wait for a script that reads no upload.
    let upload = Request::new("POST", "/run/endless").body(&noise(LARGE_BYTES));
    assert_eq!(server.exchange(&upload).text(), "hello world");
    server.stop();
}

/// A client that leaves in the middle of a file leaves it closed.
#[test]
fn a_file_is_closed_when_its_client_leaves() {
    let folder = scripts("sent-left");
    let file = fs::File::create(folder.join("files/huge")).expect("a file");
    file.set_len(1 << 30).expect("its length");
    for io in Io::BOTH {
        let server = start(&folder, io);
        let open = || {
            let open = server.open_files();
            open.into_iter().filter(|file| file.ends_with("files/huge")).collect::<Vec<_>>()
        };
        let mut leaving = server.connect();
        leaving.send("GET /run/accel?/protected/huge HTTP/1.1\r\nHost: localhost\r\n\r\n");
        leaving.read_some(1).expect("a response has begun");
        assert_eq!(open().len(), 1);
        drop(leaving);
        wait_for("a closed file", || open().is_empty().then_some(()));
        server.stop();
    }
}

#[test]
fn the_access_log_has_the_bytes_of_the_file() {
    let folder = scripts("sent-log");
    let log = folder.join("access.log");
    let flags = ["--access-log", log.to_str().expect("text")];
    let server = Start::site(&folder.join("p.toml")).flags(&flags).start();
    let target = "/run/accel?/protected/a%20b.txt";
    server.get(target);
    server.exchange(&Request::get(target).field("Range", "bytes=0-4"));
    server.exchange(&Request::head(target));
    server.get("/run/accel?/protected/none");
    for (request, end) in [
        (format!("\"GET {target} HTTP/1.1\""), " 200 11 "),
        (format!("\"GET {target} HTTP/1.1\""), " 206 5 "),
        (format!("\"HEAD {target} HTTP/1.1\""), " 200 0 "),
        ("\"GET /run/accel?/protected/none HTTP/1.1\"".to_owned(), " 404 "),
    ] {
        let expected = format!("{request}{end}");
        wait_for(&expected, || {
            fs::read_to_string(&log).ok().filter(|text| text.contains(&expected))
        });
    }
    server.stop();
}

/// A script of PHP that the server runs itself.
#[test]
fn php_names_files() {
    let script = "<?php\n\
        register_shutdown_function(function () {\n\
            usleep(100000); echo 'more'; flush();\n\
            file_put_contents(__DIR__ . '/../done', connection_status()); });\n\
        if ($_GET['type'] ?? '') header('Content-Type: ' . $_GET['type']);\n\
        if (isset($_GET['none'])) header('Content-Type:');\n\
        header('Content-Disposition: attachment; filename=\"own.txt\"');\n\
        header('X-Sendfile: ' . dirname(__DIR__) . '/files/' . $_GET['file']);\n\
        echo 'content of the script';\n\
        if ($_POST) flush();";
    let folder =
        php::site("sent-php", &[("index.php", "<?php echo 'front';"), ("get.php", script)]);
    write_at(&folder, "files/a b.txt", "hello world", 0);
    let named = folder.join("files");
    let flags = ["--php-send-files", named.to_str().expect("text")];
    let server = Start::site(&folder.join("public")).flags(php::user_flags()).flags(&flags).start();
    let response = server.get("/get.php?type=application/x-own&file=a+b.txt");
    assert_eq!((response.status, response.text()), (200, "hello world"), "{response}");
    assert_eq!(response.field("Content-Type"), Some("application/x-own"), "{response}");
    assert_eq!(response.field("Last-Modified"), Some(MODIFIED), "{response}");
    assert_hidden(&response);
    // The script was not cut off.
    let done = wait_for("the end of the script", || {
        fs::read_to_string(folder.join("done")).ok().filter(|text| !text.is_empty())
    });
    assert_eq!(done, "0");
    // A script that was sent content finishes as well, though the file is sent long before.
    fs::remove_file(folder.join("done")).expect("it was there");
    let post = Request::new("POST", "/get.php?file=a+b.txt").body(b"a=b");
    let post = post.field("Content-Type", "application/x-www-form-urlencoded");
    assert_eq!(server.exchange(&post).text(), "hello world");
    wait_for("the end of the script", || {
        fs::read_to_string(folder.join("done")).ok().filter(|status| status == "0")
    });
    let response = server.get("/get.php?none&file=a+b.txt");
    assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"), "{response}");
    let response = server.get("/get.php?file=none");
    assert_eq!(response.status, 404, "{response}");
    assert_eq!(server.get("/").text(), "front");
    server.stop();
}

/// An application in Python with SCGI names files.
#[test]
fn flup_names_files() {
    const APPLICATION: &str = r#"
import sys
from flup.server.scgi import WSGIServer

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/x-own"), ("Content-Length", "7"),
        ("X-Accel-Redirect", "/protected" + environ["PATH_INFO"].replace(" ", "%20"))])
    return [b"content"]

WSGIServer(app, bindAddress=sys.argv[1]).run()
"#;
    let folder = site("sent-flup");
    folder.write("app.py", APPLICATION);
    let socket = folder.join("app.sock");
    let mut python = python_program("python");
    let _app = Running::on_socket(python.arg(folder.join("app.py")).arg(&socket), &socket);
    configure(&folder, &format!("scgi = \"unix:{}\"\n", socket.display()));
    for io in Io::BOTH {
        let server = start(&folder, io);
        let response = server.get("/run/a%20b.txt");
        assert_eq!((response.status, response.text()), (200, "hello world"), "{response}");
        assert_eq!(response.field("Content-Type"), Some("text/x-own"), "{response}");
        assert_eq!(server.get("/run/none").status, 404);
        server.stop();
    }
}

#[test]
fn wrong_folders_are_errors_of_the_configuration() {
    let folder = site("sent-check");
    for (lines, expected) in [
        ("send-files = \"none\"", "5:14: send-files: "),
        ("send-files = \"secret.txt\"", "secret.txt is not a folder"),
        ("send-files = [\"files\", \"/a=files\", \"/a/=site\"]", "is given twice; leave one out"),
        ("send-files = \"/a//b=files\"", "has a path with an empty or dot segment"),
        ("send-files = \"/a?=files\"", "a path is written without escapes"),
    ] {
        let text = format!(
            "[[site]]\npath = \"site\"\n[[site.mount]]\nproxy = \"http://127.0.0.1:1\"\n{lines}\n"
        );
        folder.write("p.toml", text);
        let file = folder.join("p.toml");
        let ended = run(&["check", file.to_str().expect("text")]);
        let output = format!("{}{}", ended.stdout, ended.stderr);
        assert!(output.contains(expected), "{lines}: {output}");
    }
}

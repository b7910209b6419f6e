//! PHP that the server starts itself: a folder with an index.php, used as an application, attacked.
//! PHP-FPM is that of Debian.

use pinion_tests::external_programs::program;
use pinion_tests::request::Request;
use pinion_tests::server::{Ended, Server, Start, run, run_under};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Signal, geteuid};
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

/// The user that PHP runs as if the server is root's, and its number.
const USER: (&str, u32) = ("www-data", 33);

/// A text in a script that is in none of its responses.
const SECRET: &str = "secret-of-the-source";

/// The script shows the parts of its request.
pub(crate) const ECHO: &str = "<?php // secret-of-the-source\n\
    echo 'ran ', basename(__FILE__), ' ', $_SERVER['SCRIPT_NAME'], ' ', \
    $_SERVER['PATH_INFO'] ?? 'none', ' ', $_SERVER['QUERY_STRING'], ' ', posix_geteuid();\n";

/// Returns the user that scripts run as.
fn user_number() -> u32 {
    if geteuid().is_root() { USER.1 } else { geteuid().as_raw() }
}

/// Returns the flags without which a server of root does not start PHP.
pub(crate) fn user_flags() -> &'static [&'static str] {
    if geteuid().is_root() { &["--php-user", USER.0] } else { &[] }
}

/// Returns the same setting as a line of a configuration.
pub(crate) fn user_key() -> &'static str {
    if geteuid().is_root() { "php-user = \"www-data\"\n" } else { "" }
}

/// Returns a folder in which scripts may write: the site is `public` in it.
pub(crate) fn site(name: &str, files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new(name);
    for (path, content) in files {
        folder.write(Path::new("public").join(path), content);
    }
    give_away(folder.path());
    folder
}

/// Makes a folder and everything in it that of the user of PHP.
fn give_away(folder: &Path) {
    if !geteuid().is_root() {
        return;
    }
    chown(folder, Some(USER.1), Some(USER.1)).expect("its owner");
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            give_away(&path);
        } else {
            chown(&path, Some(USER.1), Some(USER.1)).expect("its owner");
        }
    }
}

fn start(folder: &Folder, flags: &[&str]) -> Server {
    Start::site(&folder.join("public")).flags(user_flags()).flags(flags).start()
}

/// Returns a server of a configuration with these keys of its site.
pub(crate) fn configured(folder: &Folder, keys: &str) -> Start {
    configure(folder, keys);
    Start::site(&folder.join("pinion.toml"))
}

pub(crate) fn configure(folder: &Folder, keys: &str) {
    let text = format!("[[site]]\npath = \"public\"\n{keys}\n[server]\ncontrol = \"run/p.sock\"\n");
    folder.write("pinion.toml", text);
}

/// Reloads, and waits until that is reported.
pub(crate) fn reload(server: &Server) -> String {
    let before = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(before, |line| line.starts_with("reloaded") || line.contains("keeping"))
}

#[test]
fn an_index_php_is_all_that_an_application_needs() {
    let folder = site(
        "php-index",
        &[("index.php", ECHO), ("tool.php", ECHO), ("blog/index.php", ECHO), ("a.css", "css")],
    );
    let server = start(&folder, &["--php-processes", "3"]);
    let user = user_number();
    for (target, expected) in [
        ("/", "ran index.php /index.php none  USER"),
        ("/index.php", "ran index.php /index.php none  USER"),
        ("/index.php/a/b?x=1", "ran index.php /index.php /a/b x=1 USER"),
        ("/a/pretty/url?y", "ran index.php /index.php none y USER"),
        ("/tool.php/p", "ran tool.php /tool.php /p  USER"),
        ("/blog/", "ran index.php /blog/index.php none  USER"),
        ("/a.css", "css"),
    ] {
        let response = server.get(target);
        assert_eq!(response.status, 200, "{target}: {response}");
        assert_eq!(response.text(), expected.replace("USER", &user.to_string()), "{target}");
        assert_eq!(response.field("X-Powered-By"), None, "{response}");
    }
    assert_eq!(server.get("/blog").status, 308);
    let words = server.lines().join("\n");
    let named = if geteuid().is_root() { "www-data".to_owned() } else { format!("({user})") };
    let line = words.lines().find(|line| line.starts_with("PHP ")).expect(&words).to_owned();
    assert!(line.contains("php-fpm") && line.contains("at most 3 processes as"), "{line}");
    assert!(line.contains(&named) && line.contains("memory of PHP not counted"), "{line}");
    server.stop();
}

/// `pinion check`, `pinion why` and `pinion status` show PHP.
#[test]
fn status_why_and_check_show_php() {
    let folder = site("php-shown", &[("index.php", ECHO), ("a.css", "css")]);
    let server = configured(&folder, user_key()).start();
    assert_eq!(server.get("/x").status, 200);
    let socket = folder.join("run/p.sock");
    let socket = socket.to_str().expect("UTF-8");
    let status = run(&["status", "--socket", socket]).stdout;
    assert!(status.contains("php-fpm") && status.contains("running"), "{status}");
    assert!(status.contains("php-fpm.sock"), "{status}");
    let why = run(&["why", "--socket", socket, "/x"]).stdout;
    assert!(why.contains("public/index.php is run by PHP"), "{why}");
    let file = folder.join("pinion.toml");
    let file = file.to_str().expect("UTF-8");
    let why = run(&["why", file, "/x"]).stdout;
    assert!(why.contains("public/index.php is run by PHP"), "{why}");
    let checked = run(&["check", file]);
    assert_eq!(checked.code, Some(0), "{}", checked.stdout);
    server.stop();
}

/// The application of the examples: a session, a database, an upload, pretty URLs.
#[test]
fn a_real_application_works() {
    let folder = Folder::new("php-example");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/php");
    for path in ["public/index.php", "public/style.css"] {
        folder.write(path, fs::read(example.join(path)).expect("a file of the example"));
    }
    give_away(folder.path());
    let server = start(&folder, &["--no-exec", "uploads"]);
    let asked = |request: &Request| server.exchange(request);
    assert!(server.get("/").text().contains("Log in"));
    assert_eq!(server.get("/style.css").status, 200);
    assert_eq!(server.get("/entry/1").status, 404);
    assert_eq!(asked(&Request::new("POST", "/entries").body(b"")).status, 403);
    let form = "application/x-www-form-urlencoded";
    let login = Request::new("POST", "/login").field("Content-Type", form).body(b"user=Ada%20%3C");
    let response = asked(&login);
    assert_eq!(response.status, 303, "{response}");
    let cookie = response.values("Set-Cookie").last().expect("a session");
    let cookie = cookie.split(';').next().expect("a cookie").to_owned();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\0";
    for (name, content, status) in
        [("photo.png", &png[..], 303), ("shell.php", b"<?php phpinfo();", 422)]
    {
        let head = format!(
            "--x\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nHello & all\r\n--x\r\n\
             Content-Disposition: form-data; name=\"picture\"; filename=\"{name}\"\r\n\
             Content-Type: image/png\r\n\r\n"
        );
        let body = [head.as_bytes(), content, b"\r\n--x--\r\n"].concat();
        let upload = Request::new("POST", "/entries")
            .field("Cookie", &cookie)
            .field("Content-Type", "multipart/form-data; boundary=x");
        let response = asked(&upload.body(&body));
        assert_eq!(response.status, status, "{name}: {response}");
    }
    let entry = server.get("/entry/1");
    assert!(entry.text().contains("Ada &lt;") && entry.text().contains("Hello &amp; all"));
    let (_, rest) = entry.text().split_once("<img src=\"").expect("a picture");
    let picture = rest.split('"').next().expect("its path").to_owned();
    // The new picture is served at once.
    let response = server.get(&picture);
    assert_eq!((response.status, &response.body[..]), (200, &png[..]), "{response}");
    assert_eq!(response.field("Content-Type"), Some("image/png"));
    server.stop();
}

/// Paths by which others have run uploaded files, or have seen sources.
const ATTACKS: &[&str] = &[
    "/wp-content/uploads/x.jpg/y.php",
    "/wp-content/uploads/x.jpg/.php",
    "/wp-content/uploads/x.jpg%00.php",
    "/wp-content/uploads/x.jpg%00/y.php",
    "/wp-content/uploads/x.jpg%0a.php",
    "/wp-content/uploads/x.jpg%20.php",
    "/wp-content/uploads/x.jpg/%2e%2e/x.php",
    "/wp-content/uploads/x.php",
    "/wp-content/uploads/x.php/",
    "/wp-content/uploads/x.php/a",
    "/wp-content/uploads/x.php.",
    "/wp-content/uploads/x.php%20",
    "/wp-content/uploads/x.php%00",
    "/wp-content/uploads/x.php::$DATA",
    "/wp-content/uploads/x.php;a.jpg",
    "/wp-content/uploads/x.PHP",
    "/wp-content/uploads/x.phtml",
    "/wp-content/uploads/x.php.jpg",
    "/wp-content/uploads/",
    "/wp-content/uploads",
    "/wp-content/uploads/deep/y.php",
    "/wp-content//uploads/x.php",
    "//wp-content/uploads/x.php",
    "/./wp-content/uploads/x.php",
    "/a/../wp-content/uploads/x.php",
    "/wp-content/%75ploads/x.php",
    "/wp-content%2fuploads/x.php",
    "/wp-content/uploads%2fx.php",
    "/wp-content\\uploads\\x.php",
    "/wp-content%5cuploads%5cx.php",
    "/index.php/../wp-content/uploads/x.php",
    "/WP-CONTENT/uploads/x.php",
    "/UPPER.PHP",
    "/upper.php",
    "/INDEX.PHP",
    "/wp-config.php",
    "/wp-config.php.bak",
    "/wp-config.php~",
    "/wp-config.php/x.css",
    "/wp-config.phps",
    "/.env",
    "/../public/index.php",
    "/index.php%00",
    "/index.php.",
    "/index%2ephp",
];

/// Uploads stay files, and scripts are never shown.
#[test]
fn only_scripts_are_run_and_no_source_is_shown() {
    let image = format!("GIF89a{ECHO}");
    let folder = site(
        "php-attacks",
        &[
            (
                "index.php",
                "<?php // secret-of-the-source\nhttp_response_code(404);\n\
                 header('Cache-Control: no-store'); echo 'front';",
            ),
            ("wp-config.php", "<?php // secret-of-the-source\n"),
            ("wp-config.php.bak", ECHO),
            ("wp-config.php~", ECHO),
            (".env", ECHO),
            ("UPPER.PHP", ECHO),
            ("wp-content/uploads/x.jpg", &image),
            ("wp-content/uploads/x.php", ECHO),
            ("wp-content/uploads/index.php", ECHO),
            ("wp-content/uploads/x.phtml", ECHO),
            ("wp-content/uploads/x.php.jpg", &image),
            ("wp-content/uploads/deep/y.php", ECHO),
        ],
    );
    let server = start(&folder, &[]);
    for target in ATTACKS {
        let response = server.exchange(&Request::get(target));
        let text = String::from_utf8_lossy(&response.body).into_owned();
        assert!(!text.contains("ran "), "{target} was run: {response}{text}");
        assert!(!text.contains(SECRET), "{target} shows its source: {response}{text}");
    }
    // A picture is served as one, for any content.
    let response = server.get("/wp-content/uploads/x.jpg");
    assert_eq!(response.field("Content-Type"), Some("image/jpeg"), "{response}");
    assert_eq!(response.body, image.as_bytes());
    server.stop();
}

#[test]
fn content_over_the_limit_does_not_reach_php() {
    let script = "<?php echo strlen(file_get_contents('php://input')), ' ', \
                  ini_get('upload_max_filesize'), ' ', ini_get('post_max_size');";
    let folder = site("php-limit", &[("index.php", script)]);
    let server = start(&folder, &["--php-upload-limit", "1M"]);
    let content = vec![b'a'; (1 << 20) + 1];
    for request in [
        Request::new("POST", "/").body(&content),
        Request::new("POST", "/").chunked(&content, 60_000),
    ] {
        assert_eq!(server.exchange(&request).status, 413);
    }
    for request in [
        Request::new("POST", "/").body(&content[1..]),
        Request::new("POST", "/").chunked(&content[1..], 60_000),
    ] {
        assert_eq!(server.exchange(&request).text(), "1048576 1048576 1048576");
    }
    server.stop();
}

/// A script whose client has left ends when it writes; its process is free for the next request.
#[test]
fn a_script_is_aborted_when_its_client_disconnects() {
    let script = "<?php register_shutdown_function(function () {\n\
                  file_put_contents(__DIR__ . '/aborted', connection_aborted()); });\n\
                  while (true) { echo str_repeat('x', 1000); flush(); usleep(1000); }";
    let folder = site("php-aborted", &[("index.php", "<?php echo 'ok';"), ("long.php", script)]);
    let server = start(&folder, &["--php-processes", "1"]);
    let mut leaving = server.connect();
    leaving.send("GET /long.php HTTP/1.1\r\nHost: localhost\r\n\r\n");
    leaving.read_some(1).expect("a response has begun");
    drop(leaving);
    let path = folder.join("public/aborted");
    let said = wait_for("the end of the script", || {
        fs::read_to_string(&path).ok().filter(|text| !text.is_empty())
    });
    assert_eq!(said, "1");
    assert_eq!(server.get("/").text(), "ok");
    server.stop();
}

#[test]
fn a_fatal_error_is_logged_and_not_shown() {
    let script = "<?php missing_function_of_a_test();";
    let folder = site("php-fatal", &[("index.php", script)]);
    let server = start(&folder, &[]);
    // PHP sends no fields about caches, which a response of Pinion must have, so this one is read
    // without that check.
    let mut connection = server.connect();
    connection.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let response = String::from_utf8(connection.rest()).expect("text");
    assert!(response.starts_with("HTTP/1.1 500 "), "{response}");
    assert!(!response.contains("missing_function"), "{response}");
    server.wait_for_line(0, |line| line.contains("undefined function missing_function_of_a_test"));
    server.stop();
}

#[test]
fn a_large_response_is_passed_on_as_it_comes() {
    let script = "<?php for ($i = 0; $i < 320; $i++) { echo str_repeat(chr($i % 251), 65536); }";
    let folder = site("php-large", &[("index.php", script)]);
    let server = start(&folder, &[]);
    let response = server.get("/");
    let expected: Vec<u8> = (0..320_u32).flat_map(|i| vec![(i % 251) as u8; 65536]).collect();
    assert!(response.body == expected, "{} bytes: {response}", response.body.len());
    server.stop();
}

#[track_caller]
fn refused(ended: &Ended, words: &[&str]) {
    assert!(matches!(ended.code, Some(1 | 2)), "{}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
}

#[test]
fn a_start_that_cannot_run_php_ends_with_advice() {
    let folder = site("php-refused", &[("index.php", ECHO)]);
    let public = folder.join("public");
    let public = public.to_str().expect("UTF-8");
    let serve =
        |flags: &[&str]| run(&[&["serve", public, "--listen", "127.0.0.1:0"], flags].concat());
    let user = user_flags();
    let with_user = |flags: &[&'static str]| serve(&[user, flags].concat());
    if geteuid().is_root() {
        refused(&serve(&[]), &["PHP does not run as root", "--php-user www-data"]);
        refused(&serve(&["--php-user", "root"]), &["PHP does not run as root"]);
        refused(&serve(&["--php-user", "no-such-user"]), &["--php-user", "no-such-user"]);
        let mut other = program("setpriv", "util-linux");
        other.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        let flags = ["serve", public, "--listen", "127.0.0.1:0", "--php-user", USER.0];
        refused(&run_under(other, &flags), &["only root can run PHP as www-data"]);
    }
    refused(&with_user(&["--php-fpm", "/bin/false"]), &["/bin/false is no php-fpm"]);
    refused(&with_user(&["--php-fpm", "/missing/php-fpm"]), &["cannot run /missing/php-fpm -v"]);
    refused(&with_user(&["--single-page", "a.html"]), &["--single-page", "--no-php"]);
    refused(&with_user(&["--listing"]), &["--listing", "--no-php"]);
    refused(&with_user(&["--no-php"]), if user.is_empty() { &[] } else { &["--no-php"] });
    // Without an index.php PHP is not used.
    let folder = site("php-no-index", &[("a/tool.php", ECHO), ("index.html", "home")]);
    let public = folder.join("public");
    let public = public.to_str().expect("UTF-8");
    let ended = run(&["serve", public, "--listen", "127.0.0.1:0"]);
    refused(&ended, &["a/tool.php is a PHP script", "--php-fpm PATH", "--no-php", "php = true"]);
}

/// Without PHP scripts are left out, and their sources are not sent.
#[test]
fn without_php_scripts_are_not_published() {
    let folder = site("php-without", &[("index.php", ECHO), ("index.html", "home")]);
    let server = Start::site(&folder.join("public")).flags(&["--no-php"]).start();
    assert_eq!(server.get("/").text(), "home");
    assert_eq!(server.get("/index.php").status, 404);
    server.wait_for_line(0, |line| {
        line.contains("1 script whose source is not published: index.php")
    });
    server.stop();
    // A user who wants to publish sources has to set it explicitly.
    let flags = ["--no-php", "--include", "*.php"];
    let server = Start::site(&folder.join("public")).flags(&flags).start();
    assert_eq!(server.get("/index.php").text(), ECHO);
    server.stop();
}

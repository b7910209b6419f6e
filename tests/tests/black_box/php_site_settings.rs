//! The keys of `[[site]]` together with PHP: the effect of each on a live file, on the response of
//! a script, and on that of the front controller.

use crate::php::{configured, site, user_flags, user_key};
use pinion_tests::binary::source_root;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::collections::BTreeSet;
use std::fs;

/// A script that responds with its name, and with the status in the query.
const SCRIPT: &str = "<?php http_response_code((int)($_GET['status'] ?? 200));\n\
    header('Cache-Control: no-store'); echo basename(__FILE__);";

/// A file, a script, and a path of neither.
const TARGETS: [(&str, &str); 3] =
    [("/a.txt", "a file"), ("/tool.php", "tool.php"), ("/pretty", "index.php")];

/// The test that shows the effect of a key of `[[site]]`.
enum ShownBy {
    /// A test of this file.
    Here,
    /// A test of another file, which has this text.
    Other(&'static str, &'static str),
    /// An error: the key has no effect together with PHP.
    Refused,
    /// The key is about the archive, which only has the rules and the error pages of such a site,
    /// or about scripts in Lua.
    NotAboutFiles,
}

/// All keys of `[[site]]`.
const KEYS: [(&str, ShownBy); 51] = {
    use ShownBy::{Here, NotAboutFiles, Other, Refused};
    [
        ("hosts", Here),
        ("path", Here),
        ("request-id", Here),
        ("access-log", Here),
        ("log-format", Here),
        ("memory", NotAboutFiles),
        ("watch", NotAboutFiles),
        ("live", Here),
        ("lua-folder", NotAboutFiles),
        ("proxy", Here),
        ("proxy-timeout", NotAboutFiles),
        ("dev", NotAboutFiles),
        ("lua-cpu", NotAboutFiles),
        ("lua-memory", NotAboutFiles),
        ("lua-vm-memory", NotAboutFiles),
        ("lua-time", NotAboutFiles),
        ("lua-unsafe", NotAboutFiles),
        ("php", Other("php.rs", "--no-php")),
        ("php-fpm", Other("php.rs", "--php-fpm")),
        ("php-user", Other("php.rs", "--php-user")),
        ("php-processes", Other("php.rs", "--php-processes")),
        ("php-upload-limit", Other("php.rs", "--php-upload-limit")),
        ("php-pass-authorization", Here),
        ("php-send-files", Other("x_sendfile.rs", "--php-send-files")),
        ("no-exec", Other("php.rs", "--no-exec")),
        ("fetch-private", NotAboutFiles),
        ("fetch-network", NotAboutFiles),
        ("fetch-socket", NotAboutFiles),
        ("fetch-ca", NotAboutFiles),
        ("fetch-pin", NotAboutFiles),
        ("lua-program", NotAboutFiles),
        ("secret", NotAboutFiles),
        ("codings", NotAboutFiles),
        ("level", NotAboutFiles),
        ("codings-for", NotAboutFiles),
        ("exclude", Here),
        ("include", Here),
        ("compat", NotAboutFiles),
        ("rules", Here),
        ("fields", Here),
        ("lax-rules", NotAboutFiles),
        ("cache-control", Here),
        ("immutable", NotAboutFiles),
        ("cache-control = false", Here),
        ("index", Here),
        ("listing", Refused),
        ("clean-urls", Here),
        ("slash-redirects", Here),
        ("etag", Here),
        ("single-page", Refused),
        ("security-headers", Here),
    ]
};

/// Keys without an effect on responses.
const OF_BUILDS: [&str; 2] = ["keep-going", "jobs"];

#[test]
fn every_key_of_a_site_is_in_the_table() {
    let reference = source_root().join("docs/reference/configuration.md");
    let reference = fs::read_to_string(reference).expect("the reference");
    let keys = reference.lines().filter_map(|line| line.strip_prefix("### `site."));
    let keys: BTreeSet<&str> = keys
        .map(|key| key.trim_end_matches('`'))
        .filter(|key| !key.starts_with("mount.") && !key.starts_with("access."))
        .collect();
    let known: BTreeSet<&str> = KEYS.iter().map(|(key, _)| *key).chain(OF_BUILDS).collect();
    assert_eq!(keys, known);
    for (key, shown) in &KEYS {
        if let ShownBy::Other(file, text) = shown {
            let file = source_root().join("tests/tests/black_box").join(file);
            assert!(fs::read_to_string(file).expect("a test").contains(text), "{key}");
        }
    }
}

fn application(name: &str, files: &[(&str, &str)]) -> Folder {
    let own = [("index.php", SCRIPT), ("tool.php", SCRIPT), ("a.txt", "a file")];
    site(name, &[&own[..], files].concat())
}

/// Starts a server with these keys of its site, and tables after them.
fn start(folder: &Folder, keys: &str) -> Server {
    configured(folder, &format!("{}{keys}", user_key())).start()
}

/// Requests all three targets, and asserts that each responds.
#[track_caller]
fn all_of(server: &Server, check: impl Fn(&str, &Response)) {
    for (target, content) in TARGETS {
        let response = server.get(target);
        assert_eq!((response.status, response.text()), (200, content), "{target}: {response}");
        check(target, &response);
    }
}

/// Rules for one path, and forced ones, come before files and scripts. Others come before the front
/// controller.
#[test]
fn redirects_precede_files_and_scripts() {
    let rules = "/a.txt /new 302\n/tool.php /new 302\n/gone.php /new 302\n/pretty /new 302\n\
                 /forced/* /new 302!\n/soft/* /new 302\n/closed/* /404.html 404\n\
                 /closed.php /404.html 404\n";
    let folder = application(
        "php-rules",
        &[
            ("_redirects", rules),
            ("404.html", "not here"),
            ("forced/a.txt", "forced"),
            ("forced/x.php", SCRIPT),
            ("soft/a.txt", "soft"),
            ("soft/x.php", SCRIPT),
            ("closed.php", SCRIPT),
        ],
    );
    let server = start(&folder, "");
    for target in [
        "/a.txt",
        "/tool.php",
        "/tool.php?id=3",
        "/gone.php",
        "/pretty",
        "/forced/a.txt",
        "/forced/x.php",
        "/forced/other",
        "/soft/other",
    ] {
        let response = server.get(target);
        assert_eq!(response.status, 302, "{target}: {response}");
        let location = response.field("Location").expect("where to");
        assert!(location.starts_with("/new"), "{target}: {location}");
    }
    for (target, content) in [
        ("/soft/a.txt", "soft"),
        ("/soft/x.php", "x.php"),
        ("/tool.php/other", "tool.php"),
        ("/index.php", "index.php"),
        ("/other", "index.php"),
    ] {
        assert_eq!(server.get(target).text(), content, "{target}");
    }
    for target in ["/closed/x", "/closed.php"] {
        let response = server.get(target);
        assert_eq!((response.status, response.text()), (404, "not here"), "{target}: {response}");
    }
    let socket = folder.join("run/p.sock");
    let socket = socket.to_str().expect("UTF-8");
    let why = run(&["why", "--socket", socket, "/tool.php"]).stdout;
    assert!(why.contains("302") && why.contains("_redirects"), "{why}");
    server.stop();
}

/// Keys that change the headers of responses. `Cache-Control` of a script is not changed.
#[test]
fn headers_of_the_site_are_on_all_responses() {
    let headers = "/*\n  X-All: yes\n  Cache-Control: max-age=9\n/tool.php\n  X-Own: tool\n\
                   /pretty\n  X-Own: pretty\n/a.txt\n  X-Own: file\n";
    let folder = application("php-headers", &[("_headers", headers)]);
    let server = start(&folder, "request-id = true\n");
    all_of(&server, |target, response| {
        assert_eq!(response.field("X-All"), Some("yes"), "{response}");
        let own = match target {
            "/a.txt" => "file",
            "/tool.php" => "tool",
            _ => "pretty",
        };
        assert_eq!(response.field("X-Own"), Some(own), "{response}");
        assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{response}");
        assert!(response.field("X-Request-Id").is_some_and(|id| id.len() == 32), "{response}");
        let caches = if target == "/a.txt" { "max-age=9" } else { "no-store" };
        assert_eq!(response.field("Cache-Control"), Some(caches), "{response}");
    });
    server.stop();
    fs::remove_file(folder.join("public/_headers")).expect("removed");
    folder.write("more", "/*\n  X-All: more\n");
    folder.write("rules", "/moved /pretty 302\n");
    let keys = "fields = \"more\"\nrules = \"rules\"\nsecurity-headers = false\netag = false\n\
                cache-control = \"max-age=5\"\n";
    let server = start(&folder, keys);
    all_of(&server, |target, response| {
        assert_eq!(response.field("X-All"), Some("more"), "{response}");
        for name in ["X-Content-Type-Options", "X-Request-Id", "ETag"] {
            assert_eq!(response.field(name), None, "{response}");
        }
        let caches = if target == "/a.txt" { "max-age=5" } else { "no-store" };
        assert_eq!(response.field("Cache-Control"), Some(caches), "{response}");
    });
    assert_eq!(server.get("/moved").status, 302);
    server.stop();
    let server = start(&folder, "cache-control = false\n");
    all_of(&server, |target, response| {
        let caches = if target == "/a.txt" { None } else { Some("no-store") };
        assert_eq!(response.field("Cache-Control"), caches, "{response}");
    });
    server.stop();
}

/// Created by `htpasswd -nbB -C 4`, for the password `open`.
const USERS: &str = "ann:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju\n";

/// Passwords, networks, rates and other origins.
#[test]
fn rules_about_access_hold_for_all_responses() {
    let script = "<?php header('Cache-Control: no-store'); echo basename(__FILE__);\n\
        header('X-User: ' . ($_SERVER['REMOTE_USER'] ?? 'none'));\n\
        header('X-Authorization: ' . ($_SERVER['HTTP_AUTHORIZATION'] ?? 'none'));";
    let folder = application("php-access", &[("tool.php", script), ("index.php", script)]);
    folder.write("users", USERS);
    let server = start(&folder, "[[site.access]]\npassword-file = \"users\"\n");
    for (target, content) in TARGETS {
        assert_eq!(server.get(target).status, 401, "{target}");
        let request = Request::get(target).field("Authorization", "Basic YW5uOm9wZW4=");
        let response = server.exchange(&request);
        assert_eq!((response.status, response.text()), (200, content), "{target}: {response}");
        if target != "/a.txt" {
            assert_eq!(response.field("X-User"), Some("ann"), "{response}");
            assert_eq!(response.field("X-Authorization"), Some("none"), "{response}");
        }
    }
    server.stop();
    let server = start(&folder, "php-pass-authorization = true\n");
    let request = Request::get("/tool.php").field("Authorization", "Bearer x");
    assert_eq!(server.exchange(&request).field("X-Authorization"), Some("Bearer x"));
    server.stop();
    for (rule, status) in [("deny = [\"127.0.0.0/8\"]\n", 403), ("request-rate = \"1/h\"\n", 429)] {
        for (target, _) in TARGETS {
            let server = start(&folder, &format!("[[site.access]]\npath = \"{target}\"\n{rule}"));
            let mut statuses = [server.get(target).status, server.get(target).status];
            statuses.sort_unstable();
            assert_eq!(statuses[1], status, "{target} {rule}");
            let other = if target == "/pretty" { "/tool.php" } else { "/pretty" };
            assert_eq!(server.get(other).status, 200, "{target} {rule}");
            server.stop();
        }
    }
    let origin = "https://app.example";
    let server = start(&folder, &format!("[[site.access]]\ncors-origins = [\"{origin}\"]\n"));
    for (target, _) in TARGETS {
        let response = server.exchange(&Request::get(target).field("Origin", origin));
        assert_eq!(response.field("Access-Control-Allow-Origin"), Some(origin), "{response}");
        let preflight = Request::new("OPTIONS", target)
            .field("Origin", origin)
            .field("Access-Control-Request-Method", "GET");
        let response = server.exchange(&preflight);
        assert_eq!(response.status, 204, "{target}: {response}");
        assert_eq!(response.field("Access-Control-Allow-Origin"), Some(origin), "{response}");
    }
    server.stop();
}

/// The pages of the site are for errors of the server. Errors of a script have the script's own
/// pages.
#[test]
fn pages_for_errors_are_those_of_the_site_or_of_the_script() {
    let folder = application(
        "php-pages",
        &[
            ("_403.html", "own 403"),
            ("_405.html", "own 405"),
            ("_413.html", "own 413"),
            ("no/x.txt", "closed"),
        ],
    );
    let keys = "php-upload-limit = \"1K\"\n\
                [[site.access]]\npath = \"/no\"\ndeny = [\"127.0.0.0/8\"]\n";
    let server = start(&folder, keys);
    for target in ["/no/x.txt", "/no/x.php", "/no/pretty"] {
        let response = server.get(target);
        assert_eq!((response.status, response.text()), (403, "own 403"), "{target}: {response}");
    }
    let response = server.exchange(&Request::new("POST", "/a.txt").body(b"a"));
    assert_eq!((response.status, response.text()), (405, "own 405"), "{response}");
    for target in ["/tool.php", "/pretty"] {
        let response = server.exchange(&Request::new("POST", target).body(&[b'a'; 2000]));
        assert_eq!((response.status, response.text()), (413, "own 413"), "{target}: {response}");
        for status in [403, 404, 500] {
            let response = server.get(&format!("{target}?status={status}"));
            assert_eq!(response.status, status, "{target}: {response}");
            assert!(response.text().ends_with(".php"), "{target}: {response}");
        }
    }
    server.stop();
}

/// Two sites with PHP, each with its own scripts, files and log.
#[test]
fn each_php_site_has_its_own_hosts_and_log() {
    let folder = Folder::new("php-hosts");
    for name in ["one", "two"] {
        let script = format!("<?php header('Cache-Control: no-store'); echo '{name} script';");
        folder.write(format!("{name}/index.php"), &script);
        folder.write(format!("{name}/tool.php"), &script);
        folder.write(format!("{name}/a.txt"), format!("{name} file"));
    }
    let table = |name: &str, format: &str| {
        format!(
            "[[site]]\nhosts = \"{name}.example\"\npath = \"{name}\"\n{}\
             access-log = \"{name}.log\"\nlog-format = \"{format}\"\n",
            user_key()
        )
    };
    let text = [table("one", "json"), table("two", "combined")].concat();
    folder.write("pinion.toml", text);
    let server = Start::site(&folder.join("pinion.toml")).start();
    for name in ["one", "two"] {
        for (target, kind) in [("/a.txt", "file"), ("/tool.php", "script"), ("/pretty", "script")] {
            let response = server.exchange(&Request::get(target).host(&format!("{name}.example")));
            assert_eq!(response.text(), format!("{name} {kind}"), "{target}: {response}");
        }
    }
    assert_eq!(server.get("/tool.php").status, 421);
    for (name, line) in [("one", "\"target\":\"TARGET\""), ("two", "\"GET TARGET HTTP/1.1\" 200 ")]
    {
        for (target, _) in TARGETS {
            let expected = line.replace("TARGET", target);
            wait_for(&expected, || {
                let log = fs::read_to_string(folder.join(format!("{name}.log"))).ok()?;
                log.contains(&expected).then_some(())
            });
        }
    }
    server.stop();
}

/// Files are compressed while they are sent; the output of a script is sent unchanged.
#[test]
fn text_of_files_is_compressed_and_that_of_scripts_is_not() {
    let large = "text ".repeat(1000);
    let script = "<?php header('Cache-Control: no-store'); echo str_repeat('text ', 1000);";
    let folder = application(
        "php-coding",
        &[("a.txt", &large), ("tool.php", script), ("index.php", script)],
    );
    let server = start(&folder, "");
    for (target, _) in TARGETS {
        let response = server.exchange(&Request::get(target).field("Accept-Encoding", "gzip"));
        let coding = if target == "/a.txt" { Some("gzip") } else { None };
        assert_eq!(response.field("Content-Encoding"), coding, "{target}: {response}");
    }
    server.stop();
}

/// The existing files, and their paths.
#[test]
fn file_names_lead_to_files_and_short_paths_to_the_script() {
    let folder = application(
        "php-names",
        &[
            ("page.html", "page"),
            ("dir/index.html", "dir"),
            ("left.txt", "left out"),
            ("left.php", SCRIPT),
            ("app.log", "log"),
            ("blog/index.php", SCRIPT),
        ],
    );
    let server = start(&folder, "exclude = [\"left.*\"]\ninclude = [\"app.log\"]\n");
    for (target, status, content) in [
        ("/page.html", 200, "page"),
        // Files of a live folder have no short paths.
        ("/page", 200, "index.php"),
        ("/dir/", 200, "dir"),
        ("/left.txt", 404, ""),
        // A script that is excluded from the files can still be run.
        ("/left.php", 200, "left.php"),
        ("/app.log", 200, "log"),
    ] {
        let response = server.get(target);
        assert_eq!(response.status, status, "{target}: {response}");
        assert!(status == 404 || response.text() == content, "{target}: {response}");
    }
    for target in ["/dir", "/blog"] {
        let response = server.get(target);
        assert_eq!(
            (response.status, response.field("Location")),
            (308, Some(&*format!("{target}/")))
        );
    }
    server.stop();
    let server = start(&folder, "index = false\nslash-redirects = false\nclean-urls = false\n");
    // The folder only has the script for the path; without it, the front controller responds.
    for (target, content) in [
        ("/dir/", "index.php"),
        ("/dir", "index.php"),
        ("/page.html", "page"),
        ("/page", "index.php"),
    ] {
        assert_eq!(server.get(target).text(), content, "{target}");
    }
    server.stop();
    // Files that are not live are served from the archive, with all of its features.
    fs::create_dir(folder.join("public/media")).expect("a folder");
    let server = start(&folder, "live = [\"media\"]\n");
    for (target, content) in [("/page", "page"), ("/dir/", "dir"), ("/pretty", "index.php")] {
        assert_eq!(server.get(target).text(), content, "{target}");
    }
    folder.write("public/media/new.txt", "new");
    assert_eq!(server.get("/media/new.txt").text(), "new");
    server.stop();
}

/// A setting that would respond in place of scripts is an error, and a mount for a path is not.
#[test]
fn settings_that_would_replace_scripts_are_errors() {
    let folder = application("php-refused-keys", &[]);
    let public = folder.join("public");
    let public = public.to_str().expect("UTF-8");
    for flags in [&["--single-page", "a.txt"][..], &["--listing"]] {
        let words = [&["serve", public, "--listen", "127.0.0.1:0"], user_flags(), flags].concat();
        let ended = run(&words);
        assert!(ended.code != Some(0) && ended.stderr.contains("--no-php"), "{}", ended.stderr);
    }
    let upstream = crate::mounts::named("api");
    let server = start(&folder, &format!("proxy = \"/api={}\"\n", upstream.url()));
    all_of(&server, |_, _| {});
    assert!(server.get("/api/x.php").text().starts_with("api GET /api/x.php"));
    server.stop();
}

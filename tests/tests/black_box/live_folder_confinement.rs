//! Files that are never served from a live folder, whatever it contains and whatever changes are
//! made meanwhile.

use crate::mounts::named;
use pinion_tests::body::noise;
use pinion_tests::client::Client;
use pinion_tests::matrix::{Form, Io, Matrix, Way, ways};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::reserved_port::HeldPort;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A text that no response may contain.
const SECRET: &str = "a secret that nobody may read";

/// Returns a site with a live folder `media`, and a secret outside of both.
fn site(name: &str) -> Folder {
    let folder = Folder::with(
        name,
        [("site/index.html", "home"), ("site/media/a.txt", "a"), ("secret/a.txt", SECRET)],
    );
    folder.write("secret.txt", SECRET);
    folder
}

fn live(folder: &Folder, case: impl Fn(&Server)) {
    let site = folder.join("site");
    let matrix = Matrix::of(&site).folder_only("a live folder is one of a folder");
    matrix.build(&["--live", "media"]).run(case);
}

/// Names of hidden files, leftovers and sources, none of which a build publishes.
const WITHHELD: [&str; 26] = [
    ".env",
    ".git/config",
    ".htaccess",
    ".user.ini",
    "a/.hidden/b.txt",
    "config.inc",
    "a.php~",
    "a.bak",
    "A.BAK",
    "dump.sql",
    "dump.SQL",
    "app.log",
    "a.tmp",
    "a.swp",
    "settings.ini",
    "a.old",
    "a.orig",
    "a.save",
    "db.sqlite3",
    "main.lua",
    "a.dyn.html",
    "a.priv.txt",
    "_headers",
    "_redirects",
    "Thumbs.db",
    "backup.bak/a.txt",
];

/// Sources for PHP, in all spellings that some server would execute, and copies of them.
const SOURCES: [&str; 10] = [
    "x.PHP",
    "x.Php",
    "x.php.",
    "x.php5",
    "x.phtml",
    "x.phar",
    "x.phps",
    "x.php.txt",
    "x.php.png",
    "x.php_",
];

#[test]
fn hidden_files_leftovers_and_sources_are_missing_also_where_a_gateway_is_down() {
    let folder = site("live-withheld");
    for name in WITHHELD.iter().chain(&SOURCES).chain(&["x.php", "d/x.php"]) {
        folder.write(format!("site/media/{name}"), SECRET);
    }
    folder.write("site/media/.well-known/a.txt", "well known");
    let down = HeldPort::take();
    let lines = format!(
        "[[site]]\npath = \"site\"\nlive = [\"media\"]\nproxy = \"http://{0}\"\n\
         [[site.mount]]\npath = \"*.php\"\nproxy = \"http://{0}\"\n",
        down.address()
    );
    folder.write("pinion.toml", lines);
    for way in ways(|_| true) {
        let server = Start::site(&folder.join("pinion.toml")).in_way(way).start();
        let mut client = server.client();
        for name in WITHHELD.iter().chain(&SOURCES) {
            for target in [format!("/media/{name}"), format!("/media/{}", escaped(name))] {
                let response = client.exchange(&Request::get(&target));
                assert_eq!(response.status, 404, "{target}: {response}");
                assert!(!response.text().contains(SECRET), "{target}");
            }
        }
        for target in ["/media/x.php", "/media/d/x.php", "/media/x.php/a.txt", "/other"] {
            let response = client.exchange(&Request::get(target));
            assert_eq!(response.status, 502, "{target}: {response}");
            assert!(!response.text().contains(SECRET), "{target}");
        }
        for (target, text) in [("/media/.well-known/a.txt", "well known"), ("/media/a.txt", "a")] {
            assert_eq!(client.exchange(&Request::get(target)).text(), text, "{target}");
        }
        server.stop();
    }
}

/// Returns a path with every byte except slashes as an escape.
fn escaped(path: &str) -> String {
    let escape = |byte: u8| match byte {
        b'/' => "/".to_owned(),
        byte => format!("%{byte:02x}"),
    };
    path.bytes().map(escape).collect()
}

#[test]
fn scripts_in_a_live_folder_belong_to_their_mount() {
    let folder = site("live-scripts");
    folder.write("site/media/x.php", SECRET);
    let (root, php) = (named("root"), named("php"));
    let lines = format!(
        "[[site]]\npath = \"site\"\nlive = [\".\"]\nproxy = \"{}\"\n\
         [[site.mount]]\npath = \"*.php\"\nproxy = \"{}\"\n",
        root.url(),
        php.url()
    );
    folder.write("pinion.toml", lines);
    let server = Start::site(&folder.join("pinion.toml")).start();
    assert!(server.get("/media/x.php").text().starts_with("php GET /media/x.php"));
    assert!(server.get("/media/%78.ph%70").text().starts_with("php GET"));
    assert_eq!(server.get("/media/a.txt").text(), "a");
    assert!(server.get("/media/b.txt").text().starts_with("root GET"));
    server.stop();
}

#[test]
fn no_link_is_followed() {
    let folder = site("live-links");
    symlink("a.txt", folder.join("site/media/inside.txt")).expect("a link");
    symlink("../../secret.txt", folder.join("site/media/outside.txt")).expect("a link");
    symlink("../../secret", folder.join("site/media/folder")).expect("a link");
    symlink(".", folder.join("site/media/itself")).expect("a link");
    symlink("/proc/self/root", folder.join("site/media/root")).expect("a link");
    folder.write("site/media/dir/index.html", "index");
    symlink("../dir", folder.join("site/media/linked")).expect("a link");
    live(&folder, |server| {
        for target in [
            "/media/inside.txt",
            "/media/outside.txt",
            "/media/folder/a.txt",
            "/media/itself/a.txt",
            "/media/root/etc/passwd",
            "/media/linked/",
            "/media/linked",
        ] {
            assert_eq!(server.get(target).status, 404, "{target}");
        }
        assert_eq!(server.get("/media/a.txt").text(), "a");
    });
    // The folder itself is replaced by a link while it is served.
    let server = Start::site(&folder.join("site")).flags(&["--live", "media"]).start();
    fs::rename(folder.join("site/media"), folder.join("site/away")).expect("renamed");
    symlink("../secret", folder.join("site/media")).expect("a link");
    assert_eq!(server.get("/media/a.txt").status, 404);
    fs::remove_file(folder.join("site/media")).expect("removed");
    folder.write("site/media/a.txt", "another folder");
    assert_eq!(server.get("/media/a.txt").text(), "another folder");
    server.stop();
}

/// A thread keeps exchanging a folder and a link to a secret one while clients request a file.
#[test]
fn renames_during_a_request_never_expose_a_secret_file() {
    let folder = site("live-race");
    folder.write("site/media/dir/a.txt", "fine");
    symlink("../../secret", folder.join("site/media/link")).expect("a link");
    let at = |name: &str| folder.join(format!("site/media/{name}"));
    let (dir, link, is_over) = (at("dir"), at("link"), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                exchange(&dir, &link);
            }
        });
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            live(&folder, |server| {
                let mut client = server.client();
                let mut found = [0, 0];
                for _ in 0..400 {
                    let response = client.exchange(&Request::get("/media/dir/a.txt"));
                    match response.status {
                        200 => assert_eq!(response.text(), "fine"),
                        404 => assert!(!response.text().contains(SECRET)),
                        _ => panic!("{response}"),
                    }
                    found[usize::from(response.status == 200)] += 1;
                }
                eprintln!("missing and found: {found:?}");
            });
        }));
        is_over.store(true, Ordering::Relaxed);
        asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn exchange(one: &Path, other: &Path) {
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(CWD, one, CWD, other, flags).expect("exchanged");
}

#[test]
fn no_spelling_of_a_path_leaves_the_folder() {
    let folder = site("live-spellings");
    folder.write("site/media/dir/b.txt", "b");
    live(&folder, |server| {
        let mut client = server.client();
        for target in [
            "/media/../../secret.txt",
            "/media/..%2f..%2fsecret.txt",
            "/media/%2e%2e/%2e%2e/secret.txt",
            "/media/%2e%2e%2f%2e%2e%2fsecret.txt",
            "/media/..%5c..%5csecret.txt",
            "/media/dir/..%00/../../../secret.txt",
            "/media/%2fetc/passwd",
            "/media//etc/passwd",
            "//media/a.txt",
            "/media//a.txt",
            "/media/a.txt%00",
            "/media/a.txt%00.png",
            "/media/a.txt%0a",
            "/media/dir%5cb.txt",
            "/media/dir/%2e%2e/%2e%2e/%2e%2e/secret.txt",
            "/media/a.txt/",
            "/media/a.txt/.",
            "/media/a.txt/../../../secret.txt",
            "/media%2fa.txt",
            "/media/%252e%252e/secret.txt",
            "/media/%c0%ae%c0%ae/secret.txt",
            "/media/....//....//secret.txt",
            "/MEDIA/a.txt",
            "/media/A.txt",
        ] {
            let response = client.exchange(&Request::get(target));
            assert!(matches!(response.status, 400 | 404), "{target}: {response}");
            assert!(!response.text().contains(SECRET), "{target}");
        }
        for target in
            ["/media/./a.txt", "/media/dir/../a.txt", "/%6dedia/%61.txt", "/x/../media/a.txt"]
        {
            assert_eq!(client.exchange(&Request::get(target)).text(), "a", "{target}");
        }
        let long = format!("/media/{}", "a".repeat(5000));
        assert_eq!(client.exchange(&Request::get(&long)).status, 404);
        let deep = format!("/media{}", "/a".repeat(2000));
        assert_eq!(client.exchange(&Request::get(&deep)).status, 404);
    });
}

#[test]
fn pipes_sockets_and_devices_are_not_served() {
    let folder = site("live-special");
    let pipe = folder.join("site/media/pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o644), 0).expect("a pipe");
    let _socket = UnixListener::bind(folder.join("site/media/socket")).expect("a socket");
    let flags = ["--live", "media", "--live", "/dev=/dev"];
    for io in Io::BOTH {
        let server =
            Start::site(&folder.join("site")).flags(&flags).flags(&["--io", io.as_str()]).start();
        for target in ["/media/pipe", "/media/socket", "/dev/null", "/dev/zero", "/dev/"] {
            assert_eq!(server.get(target).status, 404, "{target}");
        }
        assert_eq!(server.get("/media/a.txt").text(), "a");
        server.stop();
    }
}

/// A file of the kernel that no user can read, not even root.
#[test]
fn a_file_that_cannot_be_read_is_forbidden_and_logged() {
    let folder = site("live-unreadable");
    let server = Start::site(&folder.join("site")).flags(&["--live", "/vm=/proc/sys/vm"]).start();
    let response = server.get("/vm/compact_memory");
    assert_eq!(response.status, 403, "{response}");
    server.wait_for_line(0, |line| {
        line.contains("403 for /vm/compact_memory")
            && line.contains("cannot read /proc/sys/vm/compact_memory: permission denied")
    });
    server.stop();
}

/// Passwords for a part of a live folder, by the name of the folder, of a page and of a file.
#[test]
fn rules_about_access_hold_for_live_files() {
    let folder = site("live-access");
    folder.write("users", "ann:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju\n");
    folder.write("site/media/private/a.txt", "private");
    folder.write("site/media/page/index.html", "page");
    folder.write("site/media/file.txt", "file");
    let rule =
        |path: &str| format!("[[site.access]]\npath = \"{path}\"\npassword-file = \"users\"\n");
    let rules = ["/media/private", "/media/page/index.html", "/media/file.txt"].map(rule);
    let lines = rules.concat();
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\nlive = [\"media\"]\n{lines}"));
    for way in ways(|_| true) {
        let server = Start::site(&folder.join("pinion.toml")).in_way(way).start();
        let mut client = server.client();
        for (target, text) in [
            ("/media/private/a.txt", "private"),
            ("/media/%70rivate/./a.txt", "private"),
            ("/media/page/", "page"),
            ("/media/page/index.html", "page"),
            ("/media/file.txt", "file"),
        ] {
            let refused = client.exchange(&Request::get(target));
            assert_eq!(refused.status, 401, "{target}: {refused}");
            let ann = Request::get(target).field("Authorization", "Basic YW5uOm9wZW4=");
            let admitted = client.exchange(&ann);
            assert_eq!((admitted.status, admitted.text()), (200, text), "{target}: {admitted}");
        }
        assert_eq!(client.exchange(&Request::get("/media/page")).status, 401);
        assert_eq!(client.exchange(&Request::get("/media/private/missing")).status, 401);
        assert_eq!(client.exchange(&Request::get("/media/a.txt")).text(), "a");
        server.stop();
    }
}

/// More bytes than the kernel and the engine buffer of a response.
const LARGE_BYTES: usize = 16 << 20;

#[test]
fn a_file_truncated_during_its_response_never_looks_complete() {
    for way in ways(|_| true) {
        let folder = site("live-truncated");
        let content = noise(LARGE_BYTES);
        folder.write("site/media/large.bin", &content);
        let server =
            Start::site(&folder.join("site")).flags(&["--live", "media"]).in_way(way).start();
        let mut client = Client::with_little_room(&server);
        let underway = client.begin(&Request::get("/media/large.bin"));
        let is_open = || server.open_files().iter().any(|file| file.ends_with("/large.bin"));
        wait_for("the open file", || is_open().then_some(()));
        let file = File::options().write(true).open(folder.join("site/media/large.bin"));
        file.expect("it opens").set_len(1 << 20).expect("truncated");
        if let Ok(whole) = client.try_finish(underway, b"") {
            panic!("{way:?}: {} bytes look like a whole response", whole.body.len());
        }
        assert_eq!(server.get("/media/large.bin").body, content[..1 << 20]);
        assert_eq!(server.get("/").text(), "home");
        server.stop();
    }
}

/// Clients that read slowly keep files open, so their number is limited such that connections still
/// find descriptors.
#[test]
fn the_number_of_open_files_is_bounded() {
    const OPEN_FILES: u64 = 256;
    const AT_ONCE: usize = (OPEN_FILES / 8) as usize;
    let folder = site("live-open-files");
    let file = File::create(folder.join("site/media/large.bin")).expect("a file");
    file.set_len(64 << 20).expect("large");
    for io in Io::BOTH {
        let way = Way { protocol: Protocol::Http1, io, form: Form::Folder };
        let server = Start::site(&folder.join("site"))
            .flags(&["--live", "media"])
            .open_files(OPEN_FILES)
            .in_way(way)
            .start();
        let mut slow: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let mut client = Client::with_little_room(&server);
                let mut underway = client.begin(&Request::get("/media/large.bin"));
                assert!(client.take(&mut underway, 10).starts_with(&[0]));
                (client, underway)
            })
            .collect();
        let refused = server.get("/media/large.bin");
        assert_eq!(refused.status, 503, "{refused}");
        assert_eq!(refused.field("Retry-After"), Some("5"));
        assert_eq!(server.get("/media/a.txt").text(), "a", "a small file is not kept open");
        let head = server.exchange(&Request::head("/media/large.bin"));
        assert_eq!(head.status, 200, "{head}");
        slow.truncate(AT_ONCE / 2);
        wait_for("room", || {
            let ranged = Request::get("/media/large.bin").field("Range", "bytes=0-40000");
            (server.exchange(&ranged).status == 206).then_some(())
        });
        drop(slow);
        server.stop();
    }
}

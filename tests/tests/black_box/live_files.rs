//! Live folders (docs/live-folders.md): files that are read for each request, with the same
//! responses as files of an archive.

use pinion_tests::body::{decoded, noise};
use pinion_tests::matrix::{Io, Matrix};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use pinion_tests::wait_for;
use rustix::process::Signal;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

/// The date of RFC 9110 §5.6.7.
pub(crate) const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const MODIFIED_UNIX_SECONDS: u64 = 784_111_777;

/// Writes a file that was changed long ago, this many seconds after [`MODIFIED`].
pub(crate) fn write_at(folder: &Folder, path: &str, content: impl AsRef<[u8]>, seconds: u64) {
    folder.write(path, content);
    let file = File::options().write(true).open(folder.join(path)).expect("the file");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED_UNIX_SECONDS + seconds);
    file.set_modified(time).expect("its time");
}

/// Returns a site with a folder `media` for live files.
fn site(name: &str) -> Folder {
    let folder = Folder::with(name, [("index.html", "home"), ("404.html", "not here")]);
    fs::create_dir(folder.join("media")).expect("a folder");
    folder
}

#[track_caller]
fn live_unexplained(site: &Folder, case: impl Fn(&Server)) {
    let matrix = Matrix::of(site.path()).folder_only("a live folder is one of a folder");
    matrix.build(&["--live", "media"]).run(case);
}

/// Runs a case over each protocol and both backends, together with `pinion why`.
#[track_caller]
fn live(site: &Folder, case: impl Fn(&Server)) {
    let matrix = Matrix::of(site.path()).folder_only("a live folder is one of a folder");
    matrix.build(&["--live", "media"]).explained().run(case);
}

#[test]
fn files_appear_change_and_disappear_without_a_reload() {
    let folder = site("live-changes");
    live(&folder, |server| {
        let missing = server.get("/media/a.txt");
        assert_eq!((missing.status, missing.text()), (404, "not here"));
        write_at(&folder, "media/a.txt", "first", 0);
        let first = server.get("/media/a.txt");
        assert_eq!((first.status, first.text()), (200, "first"), "{first}");
        assert_eq!(first.field("Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!(first.field("Last-Modified"), Some(MODIFIED));
        assert_eq!(first.field("Cache-Control"), Some("max-age=0, must-revalidate"));
        assert_eq!(first.field("X-Content-Type-Options"), Some("nosniff"));
        let tag = first.field("ETag").expect("an entity tag").to_owned();
        write_at(&folder, "media/a.txt", "other", 1);
        let other = server.exchange(&Request::get("/media/a.txt").field("If-None-Match", &tag));
        assert_eq!((other.status, other.text()), (200, "other"));
        assert_ne!(other.field("ETag"), Some(tag.as_str()));
        write_at(&folder, "new", "replaced", 0);
        fs::rename(folder.join("new"), folder.join("media/a.txt")).expect("renamed");
        assert_eq!(server.get("/media/a.txt").text(), "replaced");
        write_at(&folder, "media/b/c/d.json", "{}", 0);
        let deep = server.get("/media/b/c/d.json");
        assert_eq!((deep.status, deep.field("Content-Type")), (200, Some("application/json")));
        fs::remove_dir_all(folder.join("media/b")).expect("removed");
        fs::remove_file(folder.join("media/a.txt")).expect("removed");
        assert_eq!(server.get("/media/a.txt").status, 404);
        assert_eq!(server.get("/media/b/c/d.json").status, 404);
    });
}

#[test]
fn a_file_present_at_start_is_served_with_its_later_content() {
    let folder = site("live-start");
    write_at(&folder, "media/a.txt", "old", 0);
    live(&folder, |server| {
        write_at(&folder, "media/a.txt", "new", 1);
        assert_eq!(server.get("/media/a.txt").text(), "new");
        fs::remove_file(folder.join("media/a.txt")).expect("removed");
        assert_eq!(server.get("/media/a.txt").status, 404);
        write_at(&folder, "media/a.txt", "old", 0);
    });
}

/// Another change within the same tick of a clock would look the same to a client.
#[test]
fn a_file_that_has_just_changed_has_no_validators() {
    let folder = site("live-fresh");
    let server = Start::site(folder.path()).flags(&["--live", "media"]).start();
    let ahead = SystemTime::now() + Duration::from_secs(3600);
    folder.write("media/a.txt", "fresh");
    let file = File::options().write(true).open(folder.join("media/a.txt")).expect("the file");
    file.set_modified(ahead).expect("its time");
    let fresh = server.get("/media/a.txt");
    assert_eq!(
        (fresh.status, fresh.field("ETag"), fresh.field("Last-Modified")),
        (200, None, None)
    );
    write_at(&folder, "media/a.txt", "fresh", 0);
    assert!(server.get("/media/a.txt").field("ETag").is_some());
    server.stop();
}

#[test]
fn an_index_file_is_served_for_its_folder_and_nothing_is_listed() {
    let folder = site("live-index");
    write_at(&folder, "media/a b/index.html", "<p>index", 0);
    write_at(&folder, "media/list/x.txt", "x", 0);
    folder.write("_headers", "/media/*\n  X-Of: folder\n");
    live(&folder, |server| {
        let index = server.get("/media/a%20b/");
        assert_eq!((index.status, index.text()), (200, "<p>index"), "{index}");
        assert_eq!(index.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!(index.field("Content-Location"), Some("/media/a%20b/index.html"));
        let own = server.get("/media/a%20b/index.html");
        assert_eq!((own.text(), own.field("Content-Location")), ("<p>index", None));
        assert_eq!(own.field("ETag"), index.field("ETag"));
        let slash = server.get("/media/a%20b?q=1");
        assert_eq!((slash.status, slash.field("Location")), (308, Some("/media/a%20b/?q=1")));
        assert_eq!(slash.field("X-Of"), Some("folder"));
        for target in ["/media", "/media/", "/media/list", "/media/list/", "/media/list/x.txt/"] {
            assert_eq!(server.get(target).status, 404, "{target}");
        }
        assert_eq!(server.get("/media/list/x").status, 404, "a short URL");
    });
    let flags = ["--live", "media", "--no-index"];
    let server = Start::site(folder.path()).flags(&flags).start();
    assert_eq!(server.get("/media/a%20b/").status, 404);
    assert_eq!(server.get("/media/a%20b").status, 404);
    server.stop();
}

#[test]
fn text_is_compressed_as_it_is_sent() {
    let folder = site("live-coding");
    let text = "a line of a text that gets smaller\n".repeat(200);
    write_at(&folder, "media/a.txt", &text, 0);
    write_at(&folder, "media/large.svg", text.repeat(20), 0);
    write_at(&folder, "media/too-large.svg", text.repeat(200), 0);
    write_at(&folder, "media/short.txt", "short", 0);
    write_at(&folder, "media/a.png", &text, 0);
    // A coding is selected after the steps that `pinion why` explains.
    live_unexplained(&folder, |server| {
        let asked = |target: &str| Request::get(target).field("Accept-Encoding", "gzip");
        for (target, content) in
            [("/media/a.txt", text.clone()), ("/media/large.svg", text.repeat(20))]
        {
            let plain = server.get(target);
            assert_eq!(plain.field("Vary"), Some("Accept-Encoding"), "{target}");
            let tag = plain.field("ETag").expect("an entity tag").to_owned();
            let coded = server.exchange(&asked(target));
            assert_eq!(coded.field("Content-Encoding"), Some("gzip"), "{target}: {coded}");
            assert_eq!(coded.field("Vary"), Some("Accept-Encoding"));
            assert_eq!(coded.field("ETag"), Some(format!("W/{tag}").as_str()));
            assert_eq!(coded.field("Last-Modified"), Some(MODIFIED));
            assert!(decoded(&coded) == content.as_bytes() && coded.body.len() < content.len());
            let head = server.exchange(&asked(target).method("HEAD"));
            assert_eq!(head.field("Content-Encoding"), Some("gzip"), "{head}");
            let weak = format!("W/{tag}");
            let known = server.exchange(&asked(target).field("If-None-Match", &weak));
            assert_eq!((known.status, known.field("ETag")), (304, Some(weak.as_str())));
            let part = server.exchange(&asked(target).field("Range", "bytes=0-4"));
            assert_eq!((part.status, part.text()), (206, &content[..5]));
            assert_eq!(part.field("Content-Encoding"), None);
        }
        for target in ["/media/too-large.svg", "/media/short.txt", "/media/a.png"] {
            let response = server.exchange(&asked(target));
            let fields = (response.field("Content-Encoding"), response.field("Vary"));
            assert_eq!((response.status, fields), (200, (None, None)), "{target}");
        }
    });
}

#[test]
fn forced_and_exact_rules_precede_live_files() {
    let folder = site("live-rules");
    write_at(&folder, "media/a.txt", "a", 0);
    write_at(&folder, "media/b.txt", "b", 0);
    write_at(&folder, "media/one.txt", "one", 0);
    write_at(&folder, "media/dir/c.txt", "c", 0);
    folder.write(
        "_redirects",
        "/media/one.txt /other\n/media/b.txt /other 301!\n/media/gone.txt /other\n\
         /media/dir/* /other/:splat 302!\n/media/* /rest 303\n",
    );
    live(&folder, |server| {
        assert_eq!(server.get("/media/a.txt").text(), "a");
        for (target, status, location) in [
            ("/media/one.txt", 301, "/other"),
            ("/media/b.txt", 301, "/other"),
            ("/media/gone.txt", 301, "/other"),
            ("/media/dir/c.txt", 302, "/other/c.txt"),
            ("/media/missing", 303, "/rest"),
        ] {
            let response = server.get(target);
            let found = (response.status, response.field("Location"));
            assert_eq!(found, (status, Some(location)), "{target}");
        }
    });
}

#[test]
fn the_whole_site_can_be_a_live_folder() {
    let folder = Folder::with("live-root", [("index.html", "home"), ("404.html", "not here")]);
    folder.write("_redirects", "/old /new\n");
    folder.write("_headers", "/*\n  X-A: b\n");
    let matrix = Matrix::of(folder.path()).folder_only("a live folder is one of a folder");
    matrix.build(&["--live", "."]).explained().run(|server| {
        write_at(&folder, "index.html", "home", 0);
        assert_eq!(server.get("/").text(), "home");
        write_at(&folder, "index.html", "new home", 0);
        let home = server.get("/");
        assert_eq!((home.text(), home.field("X-A")), ("new home", Some("b")));
        write_at(&folder, "a/b.txt", "b", 0);
        assert_eq!(server.get("/a/b.txt").text(), "b");
        assert_eq!(server.get("/old").field("Location"), Some("/new"));
        let missing = server.get("/missing");
        assert_eq!((missing.status, missing.text()), (404, "not here"));
        for target in ["/_redirects", "/_headers"] {
            assert_eq!(server.get(target).status, 404, "{target}");
        }
        fs::remove_dir_all(folder.join("a")).expect("removed");
    });
}

/// Uploads of an application are outside of its site, and sites of archives and other servers have
/// no folder.
#[test]
fn a_folder_outside_the_site_can_be_served_at_a_path() {
    let folder = Folder::with("live-elsewhere", [("site/index.html", "home")]);
    let upstream = Upstream::start(|connection| {
        while connection.request().is_some() {
            connection.respond(b"application");
        }
    });
    write_at(&folder, "uploads/a.txt", "a", 0);
    write_at(&folder, "uploads/deep/er/b.txt", "b", 0);
    write_at(&folder, "inner/c.txt", "c", 0);
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    let lives = ["/media=uploads", "/media/inner=inner"].map(|live| format!("\"{live}\""));
    let live = lives.join(", ");
    for path in ["path = \"site\"", "path = \"site.pinion\"", ""] {
        let lines = format!("{path}\nproxy = \"{}\"\nlive = [{live}]\n", upstream.url());
        folder.write("pinion.toml", format!("[[site]]\n{lines}"));
        let file = folder.join("pinion.toml");
        let checked = run(&["check", &file.display().to_string()]);
        assert!(checked.code == Some(0), "{}", checked.stdout);
        let server = Start::site(&file).start();
        for (target, expected) in [
            ("/media/a.txt", "a"),
            ("/media/deep/er/b.txt", "b"),
            ("/media/inner/c.txt", "c"),
            ("/media/c.txt", "application"),
            ("/media/inner/a.txt", "application"),
            ("/mediaa.txt", "application"),
            ("/other", "application"),
        ] {
            assert_eq!(server.get(target).text(), expected, "{path} {target}");
        }
        // Requests for existing files are not forwarded to another server.
        let posted = server.exchange(&Request::new("POST", "/media/a.txt").body(b"x"));
        assert_eq!(posted.status, 405);
        let posted = server.exchange(&Request::new("POST", "/media/new.txt").body(b"x"));
        assert_eq!(posted.text(), "application");
        server.stop();
    }
}

#[test]
fn a_reload_changes_the_live_folders() {
    let folder = Folder::with("live-reload", [("site/index.html", "home")]);
    write_at(&folder, "site/a/x.txt", "a", 0);
    write_at(&folder, "site/b/x.txt", "b", 0);
    let lines = |live: &str| format!("[[site]]\npath = \"site\"\nlive = [{live}]\n");
    folder.write("pinion.toml", lines("\"a\""));
    for io in Io::BOTH {
        folder.write("pinion.toml", lines("\"a\""));
        let file = folder.join("pinion.toml");
        let server = Start::site(&file).flags(&["--io", io.as_str()]).start();
        let is_live = |name: &str| {
            write_at(&folder, &format!("site/{name}/y.txt"), "y", 0);
            let found = server.get(&format!("/{name}/y.txt")).status == 200;
            fs::remove_file(folder.join(format!("site/{name}/y.txt"))).expect("removed");
            found
        };
        assert!(is_live("a") && !is_live("b"));
        folder.write("pinion.toml", lines("\"b\""));
        server.signal(Signal::HUP);
        wait_for("the other folder", || is_live("b").then_some(()));
        assert!(!is_live("a"));
        assert_eq!(server.get("/a/x.txt").text(), "a", "it is part of the archive now");
        // A folder that is missing keeps the previous version.
        folder.write("pinion.toml", lines("\"missing\""));
        server.signal(Signal::HUP);
        server.wait_for_line(0, |line| line.contains("site/missing does not exist"));
        assert!(is_live("b"));
        server.stop();
    }
}

#[test]
fn invalid_live_folders_are_errors_of_check_and_start() {
    let folder = Folder::with("live-check", [("site/index.html", "home"), ("site/file", "x")]);
    fs::create_dir(folder.join("outside")).expect("a folder");
    std::os::unix::fs::symlink("../outside", folder.join("site/link")).expect("a link");
    std::os::unix::fs::symlink(".", folder.join("site/within")).expect("a link");
    build(&folder.join("site"), &folder.join("site.pinion"), &["--exclude", "link"]);
    for (path, live, why) in [
        ("site", "missing", "does not exist"),
        ("site", "link", "is a symbolic link"),
        ("site", "within/x", "is a symbolic link"),
        ("site", "file", "is not a folder"),
        ("site", "/media=gone", "does not exist"),
        ("site.pinion", "media", "has no site folder"),
    ] {
        let file = folder.join("pinion.toml");
        folder.write(
            "pinion.toml",
            format!(
                "[[site]]\npath = \"{path}\"\nlive = [\"{live}\"]\n\
                 [[listen]]\naddress = \"127.0.0.1:0\"\n"
            ),
        );
        let checked = run(&["check", &file.display().to_string()]);
        assert!(checked.code != Some(0), "{live}");
        assert!(
            checked.stdout.contains(why) && checked.stdout.contains("pinion.toml:3:"),
            "{}",
            checked.stdout
        );
        let started = run(&["serve", &file.display().to_string()]);
        assert!(started.code != Some(0) && started.stderr.contains(why), "{}", started.stderr);
    }
    let site = folder.join("site").display().to_string();
    for live in ["..", "a/../b", "/srv", ".git", "/x=", "/../x=y"] {
        let started = run(&["serve", &site, "-l", "127.0.0.1:0", "--live", live]);
        assert!(started.code != Some(0) && started.stderr.contains("--live"), "{live}");
    }
}

/// A site with code keeps it, and its live folders are where its content is.
#[test]
fn a_dynamic_site_has_live_folders_in_its_content() {
    let folder = Folder::with(
        "live-dynamic",
        [
            ("site/main.lua", "pinion.get('/media/route', function() return 'route' end)"),
            ("site/public_html/index.html", "home"),
        ],
    );
    write_at(&folder, "site/public_html/media/a.txt", "a", 0);
    fs::create_dir(folder.join("site/data")).expect("a folder");
    let site = folder.join("site");
    let server = Start::site(&site).flags(&["--live", "public_html/media"]).start();
    assert_eq!(server.get("/media/a.txt").text(), "a");
    write_at(&folder, "site/public_html/media/route", "file", 0);
    write_at(&folder, "site/public_html/media/x.lua", "code", 0);
    assert_eq!(server.get("/media/route").text(), "route");
    assert_eq!(server.get("/media/x.lua").status, 404);
    server.stop();
    fs::remove_file(folder.join("site/public_html/media/x.lua")).expect("removed");
    let plain = Folder::with("live-plain", [("main.lua", ""), ("index.dyn.html", "home")]);
    for (site, live, why) in [
        (&*site, "data", "lies beside public_html"),
        (&*site, ".", "public_html is excluded"),
        (plain.path(), ".", "has Lua code"),
    ] {
        let site = site.display().to_string();
        let started = run(&["serve", &site, "-l", "127.0.0.1:0", "--live", live]);
        assert!(started.code != Some(0) && started.stderr.contains(why), "{}", started.stderr);
    }
}

/// The response with a compressed live file is complete at its end, over each protocol.
#[test]
fn open_files_are_closed_after_their_responses() {
    let folder = site("live-descriptors");
    write_at(&folder, "media/large.bin", noise(300_000), 0);
    write_at(&folder, "media/a.svg", "<svg/>".repeat(10_000), 0);
    let is_large =
        |file: &String| file.contains("live-descriptors") && !file.ends_with("descriptors");
    live_unexplained(&folder, |server| {
        let mut client = server.client();
        for _ in 0..20 {
            assert_eq!(client.exchange(&Request::get("/media/large.bin")).body.len(), 300_000);
            let coded = Request::get("/media/a.svg").field("Accept-Encoding", "br, gzip");
            assert_eq!(decoded(&client.exchange(&coded)).len(), 60_000);
            client.exchange(&Request::head("/media/large.bin"));
        }
        let left = || server.open_files().into_iter().filter(is_large).collect::<Vec<_>>();
        wait_for("closed files", || left().is_empty().then_some(()));
    });
}

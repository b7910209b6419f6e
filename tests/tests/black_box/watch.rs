//! The changes that `--watch` reloads automatically, and those that it ignores. `site_swap.rs`
//! tests the switch to a new version over both backends; this module tests the detection.

use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{PATIENCE, wait_for};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn watched(site: &Path, flags: &[&str]) -> Server {
    Start::site(site).flags(&["--watch", "--codings", "gzip:1"]).flags(flags).start()
}

#[track_caller]
fn wait_for_text(server: &Server, target: &str, text: &str) {
    let condition = format!("{target} says {text:?} within {PATIENCE:?}");
    wait_for(&condition, || (server.get(target).body == text.as_bytes()).then_some(()));
}

/// Writes a file next to another one, and renames it over that.
fn replace(folder: &Folder, path: &str, text: &str) {
    folder.write("replacement", text);
    fs::rename(folder.join("replacement"), folder.join(path)).expect("replaced");
}

#[test]
fn targets_of_symbolic_links_are_watched() {
    let folder = Folder::with(
        "links",
        [
            ("site/index.html", "home"),
            ("site/.parts/part.html", "part 1"),
            ("out/file.html", "file 1"),
            ("out/folder/page.html", "page 1"),
        ],
    );
    symlink("../out/file.html", folder.join("site/file.html")).expect("a link");
    symlink("../out/folder", folder.join("site/folder")).expect("a link");
    symlink(".parts", folder.join("site/parts")).expect("a link");
    let server = watched(&folder.join("site"), &[]);
    wait_for_text(&server, "/file.html", "file 1");
    folder.write("out/file.html", "file 2");
    wait_for_text(&server, "/file.html", "file 2");
    replace(&folder, "out/file.html", "file 3");
    wait_for_text(&server, "/file.html", "file 3");
    folder.write("out/folder/page.html", "page 2");
    wait_for_text(&server, "/folder/page.html", "page 2");
    folder.write("out/folder/deep/er/page.html", "deep 1");
    wait_for_text(&server, "/folder/deep/er/page.html", "deep 1");
    folder.write("out/folder/deep/er/page.html", "deep 2");
    wait_for_text(&server, "/folder/deep/er/page.html", "deep 2");
    // A hidden folder is excluded; by the name of the link it is included.
    folder.write("site/.parts/part.html", "part 2");
    wait_for_text(&server, "/parts/part.html", "part 2");
    server.stop();
}

#[test]
fn targets_of_later_symbolic_links_are_watched() {
    let files = [("site/index.html", "home"), ("out/file.html", "1"), ("out/f/page.html", "1")];
    let folder = Folder::with("later-links", files);
    let server = watched(&folder.join("site"), &[]);
    for (link, target, file) in [
        ("site/file.html", "../out/file.html", "out/file.html"),
        ("site/folder", "../out/f", "out/f/page.html"),
    ] {
        symlink(target, folder.join(link)).expect("a link");
        let url = match link {
            "site/folder" => "/folder/page.html",
            _ => "/file.html",
        };
        wait_for_text(&server, url, "1");
        for text in ["22", "333"] {
            folder.write(file, text);
            wait_for_text(&server, url, text);
        }
        replace(&folder, file, "4444");
        wait_for_text(&server, url, "4444");
    }
    // The link is removed, and the file is served from the folder again: unneeded folders are not
    // watched, and needed ones are.
    fs::remove_file(folder.join("site/folder")).expect("removed");
    wait_for("no page", || (server.get("/folder/page.html").status == 404).then_some(()));
    folder.write("out/file.html", "55555");
    wait_for_text(&server, "/file.html", "55555");
    server.stop();
}

#[test]
fn a_switched_link_in_a_chain_of_links_is_followed() {
    let files = [("site/index.html", "home"), ("1/page.html", "one"), ("2/page.html", "two")];
    let folder = Folder::with("chain", files);
    symlink("1", folder.join("current")).expect("a link");
    symlink("../current/page.html", folder.join("site/page.html")).expect("a link");
    symlink("../current", folder.join("site/all")).expect("a link");
    let server = watched(&folder.join("site"), &[]);
    wait_for_text(&server, "/page.html", "one");
    symlink("2", folder.join("next")).expect("a link");
    fs::rename(folder.join("next"), folder.join("current")).expect("switched");
    wait_for_text(&server, "/page.html", "two");
    wait_for_text(&server, "/all/page.html", "two");
    folder.write("2/page.html", "two again");
    wait_for_text(&server, "/page.html", "two again");
    wait_for_text(&server, "/all/page.html", "two again");
    server.stop();
}

#[test]
fn a_dangling_link_is_reported_and_followed_once_it_has_a_target() {
    let folder = Folder::with("dangling", [("site/index.html", "home"), ("out/other", "x")]);
    let server = watched(&folder.join("site"), &[]);
    symlink("../out/page.html", folder.join("site/page.html")).expect("a link");
    server.wait_for_line(0, |line| line.contains("page.html: broken symbolic link"));
    assert_eq!(server.get("/").text(), "home");
    folder.write("out/page.html", "page");
    wait_for_text(&server, "/page.html", "page");
    server.stop();
}

#[test]
fn rules_beside_the_folder_are_watched() {
    let folder = Folder::with(
        "beside",
        [("site/index.html", "1"), ("conf/rules", "/a /index.html 200\n"), ("conf/fields", "")],
    );
    let path = |name: &str| folder.join(name).to_str().expect("a path").to_owned();
    let (rules, fields) = (path("conf/rules"), path("conf/fields"));
    let server = watched(&folder.join("site"), &["--rules", &rules, "--fields", &fields]);
    wait_for_text(&server, "/a", "1");
    replace(&folder, "conf/rules", "/b /index.html 200\n");
    wait_for_text(&server, "/b", "1");
    assert_eq!(server.get("/a").status, 404);
    // Some editors remove a file and write it again.
    fs::remove_file(folder.join("conf/rules")).expect("removed");
    wait_for("a site that cannot be built", || {
        server.lines().iter().any(|line| line.contains("conf/rules")).then_some(())
    });
    assert_eq!(server.get("/b").body, b"1", "the last state stays");
    folder.write("conf/rules", "/c /index.html 200\n");
    wait_for_text(&server, "/c", "1");
    folder.write("conf/fields", "/*\n X-Beside: 1\n");
    wait_for("a field from beside the folder", || {
        (server.get("/b").field("x-beside") == Some("1")).then_some(())
    });
    server.stop();
}

#[test]
fn a_folder_moved_away_and_back_is_still_watched() {
    let folder = Folder::with("moved", [("site/index.html", "1"), ("out/file.html", "1")]);
    // With a link into the folder around the site, that folder is watched as well.
    symlink("../file.html", folder.join("site/file.html")).expect("a link");
    folder.write("file.html", "1");
    let server = watched(&folder.join("site"), &[]);
    for text in ["22", "333"] {
        fs::rename(folder.join("site"), folder.join("away")).expect("moved");
        fs::rename(folder.join("away"), folder.join("site")).expect("moved back");
        folder.write("site/index.html", text);
        wait_for_text(&server, "/", text);
        folder.write("file.html", text);
        wait_for_text(&server, "/file.html", text);
    }
    server.stop();
}

/// Returns how often a server has rebuilt its folder.
fn reloads(server: &Server) -> usize {
    server.lines().iter().filter(|line| line.starts_with("reloaded ")).count()
}

#[test]
fn changes_of_excluded_files_start_no_build() {
    let folder = Folder::with("left-out", [("site/index.html", "0"), ("clock/index.html", "0")]);
    for path in ["site/.git/index", "site/drafts/page.html", "site/page.html~", "site/x.lua"] {
        folder.write(path, "before");
    }
    let log = folder.join("site/access.log");
    let log = log.to_str().expect("a path");
    let server = watched(&folder.join("site"), &["--exclude", "drafts", "--access-log", log]);
    // Notifications take time. When this server has reloaded a later change, the other one has had
    // the same time.
    let clock = watched(&folder.join("clock"), &[]);
    let nothings: [&dyn Fn(); 4] = [
        &|| {
            let before = fs::metadata(log).expect("a log").len();
            assert_eq!(server.get("/index.html").status, 200);
            wait_for("a line", || (fs::metadata(log).ok()?.len() > before).then_some(()));
        },
        &|| folder.write("site/.git/index", "after"),
        &|| folder.write("site/drafts/new.html", "after"),
        &|| {
            let saved = File::options().append(true).open(folder.join("site/page.html~"));
            saved.and_then(|mut file| file.write_all(b"more")).expect("written");
            folder.write("site/x.lua", "after");
            fs::create_dir(folder.join("site/.cache")).expect("made");
        },
    ];
    for (number, nothing) in nothings.iter().enumerate() {
        nothing();
        let tick = (number + 1).to_string();
        folder.write("clock/index.html", &tick);
        wait_for_text(&clock, "/", &tick);
        assert_eq!(reloads(&server), 0, "nothing {number} had the site built");
    }
    folder.write("site/index.html", "1");
    wait_for_text(&server, "/", "1");
    server.wait_for_line(0, |line| line.starts_with("reloaded "));
    server.stop();
    clock.stop();
}

#[test]
fn changes_outside_a_dynamic_site_start_no_build() {
    let folder = Folder::with("no-part", [("site/main.lua", ""), ("clock/index.html", "0")]);
    for path in ["site/public_html/index.html", "site/i.d/x.html", "site/data.db"] {
        folder.write(path, "0");
    }
    let server = watched(&folder.join("site"), &[]);
    let clock = watched(&folder.join("clock"), &[]);
    let nothings = ["i.d/x.html", "notes.txt", "main.lua.bak", "data.db", "public_html/i.x/a.html"];
    for (number, nothing) in nothings.iter().enumerate() {
        let before = reloads(&server);
        folder.write(Path::new("site").join(nothing), "1");
        let tick = (number + 1).to_string();
        folder.write("clock/index.html", &tick);
        wait_for_text(&clock, "/", &tick);
        assert_eq!(reloads(&server), before, "{nothing} had the site built");
    }
    folder.write("site/public_html/index.html", "1");
    wait_for_text(&server, "/", "1");
    folder.write("site/lib/x.lua", "return 1");
    let main = "require 'lib.x'\npinion.get('/x', function() return 'x' end)";
    folder.write("site/main.lua", main);
    wait_for_text(&server, "/x", "x");
    server.stop();
    clock.stop();
}

/// A site whose pages a generator writes repeatedly.
struct Generator {
    folder: Folder,
}

impl Generator {
    const PAGES: usize = 30;
    /// A site counts as shrunk if fewer than half of its pages are left, so every served version
    /// has the pages in the first half.
    const FIRST_HALF: usize = Self::PAGES / 2 - 1;

    fn write(&self, version: &str, page: usize) {
        self.folder.write(format!("site/page{page}.html"), format!("{version} of {page}"));
    }

    /// Rewrites the site like a generator: removes all of it, waits, and writes one page after the
    /// other. Returns the longest time without a change, which exceeds the requested one on a busy
    /// machine.
    fn write_anew(&self, version: &str, pause: Duration) -> Duration {
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        let mut changed = || {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        };
        // An incomplete site still has the first pages.
        for page in (0..Self::PAGES).rev() {
            fs::remove_file(self.folder.join(format!("site/page{page}.html"))).expect("removed");
            changed();
        }
        std::thread::sleep(pause);
        for page in 0..Self::PAGES {
            self.write(version, page);
            changed();
            std::thread::sleep(Duration::from_millis(50 + 10 * (page as u64 % 4)));
        }
        longest
    }
}

/// A site that has lost most of its pages is not served before nothing has changed for two seconds,
/// however long the rest takes, and whenever a load happens: after the first pause the new pages
/// are written while the server waits for more, and after the last one they are still being written
/// when the server's wait for the first of them would end.
#[test]
fn a_site_being_rewritten_keeps_its_old_version_until_complete() {
    /// Below the two seconds by more than the difference between the clocks of two threads.
    const QUIET_MAX: Duration = Duration::from_millis(1900);
    let generator = Generator { folder: Folder::new("generator") };
    (0..Generator::PAGES).for_each(|page| generator.write("version 0", page));
    let server = watched(&generator.folder.join("site"), &["--workers", "1"]);
    let last = format!("/page{}", Generator::PAGES - 1);
    let mut round = 0;
    for pause in [400, 600, 1500].map(Duration::from_millis) {
        // The test repeats until the machine keeps the times of the generator.
        loop {
            round += 1;
            let version = format!("version {round}");
            let (is_written, mut lost) = (AtomicBool::new(false), Vec::new());
            let longest = std::thread::scope(|scope| {
                let written = scope.spawn(|| {
                    let longest = generator.write_anew(&version, pause);
                    is_written.store(true, Ordering::Relaxed);
                    longest
                });
                let mut requests = 0;
                wait_for("the new version", || {
                    let target = format!("/page{}", requests % Generator::FIRST_HALF);
                    let status = server.get(&target).status;
                    lost.extend((status != 200).then(|| format!("{target}: {status}")));
                    requests += 1;
                    let is_new = server.get(&last).text().starts_with(&version);
                    (is_written.load(Ordering::Relaxed) && is_new).then_some(())
                });
                written.join().expect("written")
            });
            if longest < QUIET_MAX {
                assert_eq!(lost, [""; 0], "{pause:?}, the longest {longest:?}");
                break;
            }
        }
    }
    // Pages that were removed for good disappear, and the server logs it.
    for page in 1..Generator::PAGES {
        let path = generator.folder.join(format!("site/page{page}.html"));
        fs::remove_file(path).expect("removed");
    }
    let warning = server.wait_for_line(0, |line| line.contains("warning"));
    assert!(warning.contains("before this reload"), "{warning}");
    assert_eq!(server.get(&last).status, 404);
    assert_eq!(server.get("/page0").status, 200);
    server.stop();
}

/// Changes of an unwatched site are not detected, so it is loaded a second time before a version is
/// served that has lost most of its pages.
#[test]
fn a_site_that_is_not_watched_and_shrinks_is_loaded_twice() {
    let folder = Folder::with("shrinks", [("site/index.html", "0")]);
    let server = Start::site(&folder.join("site")).start();
    let mut version = 0;
    // The test repeats until the machine is fast enough for a change within the two seconds between
    // the loads.
    loop {
        version += 1;
        let began = Instant::now();
        fs::remove_file(folder.join("site/index.html")).expect("removed");
        server.signal(Signal::HUP);
        // Longer than a load takes.
        std::thread::sleep(Duration::from_millis(500));
        folder.write("site/index.html", version.to_string());
        if began.elapsed() < Duration::from_millis(1900) {
            wait_for_text(&server, "/", &version.to_string());
            break;
        }
        wait_for("a reload", || (reloads(&server) == version).then_some(()));
    }
    server.stop();
}

/// The log reports once that the site is missing, and once that it is back.
#[test]
fn a_vanished_site_keeps_its_old_version_until_it_is_back() {
    let folder = Folder::with("gone", [("site/index.html", "home")]);
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    for name in ["site", "site.pinion"] {
        let (site, away) = (folder.join(name), folder.join("away"));
        let server = watched_alone(&site);
        fs::rename(&site, &away).expect("moved");
        let gone = "site is gone (deleted, renamed or unmounted), keeping the previous version";
        let gone = gone.replacen("site", name, 1);
        server.wait_for_line(0, |line| line.contains(&gone));
        assert_eq!(server.get("/").text(), "home");
        fs::rename(&away, &site).expect("moved back");
        server.wait_for_line(0, |line| line.ends_with(&format!("{name} is back")));
        assert_eq!(server.get("/").text(), "home");
        if site.is_dir() {
            folder.write("site/index.html", "again");
        } else {
            folder.write("site/index.html", "again");
            build(&folder.join("site"), &site, &[]);
        }
        wait_for_text(&server, "/", "again");
        let lines = server.lines();
        assert_eq!(lines.iter().filter(|line| line.contains(&gone)).count(), 1, "{lines:?}");
        server.stop();
        folder.write("site/index.html", "home");
    }
}

fn watched_alone(site: &Path) -> Server {
    Start::site(site).flags(&["--watch"]).start()
}

/// A new link causes a second build of a watched site, about which nothing is printed.
#[test]
fn one_change_is_reported_once() {
    let files = [("site/index.html", "home"), ("out/a.html", "a"), ("clock/index.html", "0")];
    let folder = Folder::with("once", files);
    let server = watched(&folder.join("site"), &[]);
    // When this server has reloaded later changes, the other one has had the time too.
    let clock = watched(&folder.join("clock"), &[]);
    let mut ticks = 0;
    let mut wait = || {
        for _ in 0..2 {
            ticks += 1;
            let text = ticks.to_string();
            folder.write("clock/index.html", &text);
            wait_for_text(&clock, "/", &text);
        }
    };
    let count = |part: &str| server.lines().iter().filter(|line| line.contains(part)).count();
    symlink("../out/a.html", folder.join("site/a.html")).expect("a link");
    wait_for_text(&server, "/a.html", "a");
    wait();
    assert_eq!(count("reloaded "), 1, "{:?}", server.lines());
    symlink("nowhere", folder.join("site/b.html")).expect("a link");
    server.wait_for_line(0, |line| line.contains("b.html: broken symbolic link"));
    wait();
    assert_eq!(count("cannot reload"), 1, "{:?}", server.lines());
    // The same error after the next change is reported again.
    folder.write("site/index.html", "changed");
    wait_for("the second report", || (count("cannot reload") == 2).then_some(()));
    server.stop();
    clock.stop();
}

//! Release folders: publishing and rolling back while clients send requests all the time, and the
//! state after a publish is killed, the disk is full or the archive is damaged.

use pinion_tests::binary::pinion;
use pinion_tests::continuous_requests::{Load, generation_of, write_generation};
use pinion_tests::external_programs::{output, program};
use pinion_tests::matrix::Io;
use pinion_tests::server::{Ended, Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{is_reached, wait_for};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use std::{io, thread};

/// Builds an archive of this generation: `N.pinion`.
fn archive(folder: &Folder, generation: u32) -> String {
    write_generation(folder, "site", generation);
    let name = format!("{generation}.pinion");
    build(&folder.join("site"), &folder.join(&name), &[]);
    name
}

/// Runs a verb in the folder.
#[track_caller]
fn pinion_in(folder: &Folder, arguments: &[&str]) -> Ended {
    output(Command::new(pinion()).args(arguments).current_dir(folder.path())).into()
}

/// Runs a verb that must succeed with `--json`.
#[track_caller]
fn json(folder: &Folder, arguments: &[&str]) -> serde_json::Value {
    let ended = pinion_in(folder, &[arguments, &["--json"]].concat());
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("one JSON document")
}

#[track_caller]
fn fails(folder: &Folder, arguments: &[&str], code: i32, hint: &str) {
    let ended = pinion_in(folder, arguments);
    assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
    assert!(ended.stderr.contains(hint), "{arguments:?}: {:?} has no {hint:?}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{:?}", ended.stderr);
}

/// Asserts that the current release can be verified.
#[track_caller]
fn current_is_sound(folder: &Folder) {
    let current = folder.join("live/current.pinion");
    let target = fs::read_link(&current).expect("a link");
    let verified = run(&["verify".as_ref(), current.as_os_str()]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    let digest = verified.stdout.lines().find_map(|line| line.strip_prefix("digest "));
    let name = format!("releases/{}.pinion", digest.expect("its digest"));
    assert_eq!(target, Path::new(&name), "it is called what it is");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns hidden files except the expected ones.
fn drafts(folder: &Folder) -> Vec<String> {
    let all = names(&folder.join("live")).into_iter().chain(names(&folder.join("live/releases")));
    all.filter(|name| name.starts_with('.') && name != ".lock").collect()
}

fn serve(folder: &Folder, io: Io, flags: &[&str]) -> Server {
    Start::serve(&["live"])
        .working_in(folder.path())
        .flags(&["--io", io.as_str()])
        .flags(flags)
        .start()
}

/// Returns the number of releases that the server has open.
fn open_releases(server: &Server) -> usize {
    server.open_files().into_iter().filter(|path| path.contains("/releases/")).count()
}

#[test]
fn no_request_fails_while_releases_are_switched() {
    for (io, memory) in [(Io::Epoll, "map"), (Io::Uring, "map"), (Io::Epoll, "copy")] {
        let folder = Folder::new("releases");
        let archives: Vec<String> = (1..=4).map(|number| archive(&folder, number)).collect();
        let first = json(&folder, &["publish", &archives[0], "live"]);
        assert_eq!((&first["taken_up"], &first["previous"]), (&().into(), &().into()));
        let server = serve(&folder, io, &["--memory", memory]);
        let held = open_releases(&server);
        assert_eq!(generation_of(&server.get("/small")), 1);
        Load::during(server.address(), |load| {
            for generation in 2..=4 {
                let name = &archives[generation - 1];
                let published = json(&folder, &["publish", name, "live", "--keep", "3"]);
                assert_eq!(published["taken_up"], true);
                load.wait_for_generation(generation as u32);
            }
            for (back, generation) in [(&[][..], 3), (&["1"], 2)] {
                let done = json(&folder, &[&["rollback", "live"], back].concat());
                assert_eq!(done["taken_up"], true);
                load.wait_for_generation(generation);
            }
            let again = json(&folder, &["publish", &archives[3], "live"]);
            assert_eq!(again["already_current"], false);
            load.wait_for_generation(4);
        });
        let gone = is_reached(|| open_releases(&server) <= held);
        assert!(gone, "old releases stay open: {:?}", server.open_files());
        assert_eq!(names(&folder.join("live/releases")).len(), 3);
        current_is_sound(&folder);
        server.stop();
    }
}

/// Builds an archive of a site with this main script.
fn dynamic_archive(folder: &Folder, name: &str, script: &str) -> String {
    folder.write("dynamic/main.lua", script);
    let archive = format!("{name}.pinion");
    build(&folder.join("dynamic"), &folder.join(&archive), &[]);
    archive
}

#[test]
fn a_release_that_no_server_could_start_is_not_published() {
    let folder = Folder::new("unproven");
    let page = |says: &str| format!("pinion.get('/', function() return '{says}' end)");
    let one = dynamic_archive(&folder, "one", &page("one"));
    json(&folder, &["publish", &one, "live"]);
    let server = serve(&folder, Io::Epoll, &[]);
    let broken = dynamic_archive(&folder, "broken", "local x = nil\nx()\n");
    fails(&folder, &["publish", &broken, "live"], 1, "main.lua:2:");
    fails(&folder, &["publish", &broken, "live"], 1, "nothing was switched");
    assert_eq!(names(&folder.join("live/releases")).len(), 1);
    // With the flag, it switches: the server's own message is decisive.
    let lines = server.lines().len();
    let published = json(&folder, &["publish", &broken, "live", "--unproven"]);
    assert_eq!(published["taken_up"], false, "the server has refused it");
    server.wait_for_line(lines, |line| line.contains("main.lua:2:"));
    assert_eq!(server.get("/").body, b"one", "keeping the previous version");
    let two = dynamic_archive(&folder, "two", &page("two"));
    assert_eq!(json(&folder, &["publish", &two, "live"])["taken_up"], true);
    wait_for("the second release", || (server.get("/").body == b"two").then_some(()));
    server.stop();
}

/// A service may start before its first release: the files of a release folder are never served as
/// a site.
#[test]
fn a_folder_that_becomes_a_release_folder_is_served_as_one() {
    for io in Io::BOTH {
        let folder = Folder::new("becomes");
        let archives: Vec<String> = (1..=2).map(|number| archive(&folder, number)).collect();
        fs::create_dir(folder.join("live")).expect("made");
        let server = serve(&folder, io, &["--watch"]);
        assert_eq!(server.get("/small").status, 404);
        for (name, generation) in archives.iter().zip(1..) {
            json(&folder, &["publish", name, "live"]);
            let is_taken = || {
                let inside = ["/current.pinion", "/log", "/releases/"];
                assert!(inside.iter().all(|path| server.get(path).status == 404));
                let response = server.get("/small");
                (response.status == 200 && generation_of(&response) == generation).then_some(())
            };
            wait_for("the release", is_taken);
        }
        server.stop();
    }
}

#[test]
fn a_release_folder_is_a_site_of_a_configuration() {
    let folder = Folder::new("configured");
    let (one, two) = (archive(&folder, 1), archive(&folder, 2));
    json(&folder, &["publish", &one, "live"]);
    folder.write("pinion.toml", "[[site]]\npath = \"live\"\n");
    assert_eq!(pinion_in(&folder, &["check"]).code, Some(0));
    let server = Start::serve(&["pinion.toml"]).working_in(folder.path()).start();
    assert_eq!(generation_of(&server.get("/small")), 1);
    assert_eq!(json(&folder, &["publish", &two, "live"])["taken_up"], true);
    wait_for("the second release", || (generation_of(&server.get("/small")) == 2).then_some(()));
    server.stop();
    // Flags without effect on an archive have none on a release folder.
    folder.write("pinion.toml", "[[site]]\npath = \"live\"\ncodings = \"gzip\"\n");
    assert_eq!(pinion_in(&folder, &["check"]).code, Some(2));
    fails(&folder, &["serve", "live", "--codings", "gzip"], 2, "--codings has no effect on live");
}

#[test]
fn a_site_folder_with_the_names_of_a_release_folder_is_a_site() {
    let files = [("site/index.html", "home"), ("site/releases/1.txt", "first"), ("x", "y")];
    let folder = Folder::with("names", files);
    symlink("releases/1.txt", folder.join("site/current.pinion")).expect("a link");
    let server = Start::site(&folder.join("site")).start();
    assert_eq!(server.get("/releases/1.txt").text(), "first");
    assert_eq!(server.get("/current.pinion").text(), "first");
    server.stop();
    archive(&folder, 1);
    fails(&folder, &["publish", "1.pinion", "site"], 1, "site holds something else already");
    fails(&folder, &["releases", "site"], 1, "site is not a release folder");
    fails(&folder, &["rollback", "site"], 1, "site is not a release folder");
    for verb in ["releases", "rollback"] {
        let missing = "none does not exist; `pinion publish` creates it";
        fails(&folder, &[verb, "none"], 1, missing);
        fails(&folder, &[verb, "site/index.html"], 1, "site/index.html is not a folder");
    }
    fails(&folder, &["publish", "1.pinion", "none/below"], 1, "above it does not exist");
    fails(&folder, &["publish", "1.pinion", "x"], 1, "cannot make x");
}

#[test]
fn the_five_newest_releases_are_kept_and_rollback_needs_one_of_them() {
    let folder = Folder::new("kept");
    let digests: Vec<String> = (1..=7)
        .map(|number| {
            let name = archive(&folder, number);
            let published = json(&folder, &["publish", &name, "live"]);
            published["digest"].as_str().expect("a digest").to_owned()
        })
        .collect();
    let listed = json(&folder, &["releases", "live"]);
    let releases = listed["releases"].as_array().expect("releases");
    let shown: Vec<&str> = releases.iter().filter_map(|one| one["digest"].as_str()).collect();
    let newest: Vec<&str> = digests.iter().rev().take(5).map(String::as_str).collect();
    assert_eq!((shown, &listed["current"]), (newest, &digests[6].clone().into()));
    let steps: Vec<Option<u64>> = releases.iter().map(|one| one["back"].as_u64()).collect();
    assert_eq!(steps, [None, Some(1), Some(2), Some(3), Some(4)]);
    assert!(releases.iter().all(|one| one["paths"].as_u64() == Some(5) && one["error"].is_null()));

    fails(&folder, &["rollback", "live", "5"], 1, "only 4 releases before the current one");
    fails(&folder, &["rollback", "live", "0"], 2, "0 is the release that is current");
    fails(&folder, &["rollback", "live", "xyzw"], 2, "neither a number of releases");
    fails(&folder, &["rollback", "live", &digests[0]], 1, "no release begins with");
    let done = json(&folder, &["rollback", "live", "3"]);
    assert_eq!(
        (&done["digest"], &done["previous"]),
        (&digests[3].clone().into(), &digests[6].clone().into())
    );
    // The next switch goes forward again, by the beginning of a digest.
    let done = json(&folder, &["rollback", "live", &digests[6][..10]]);
    assert_eq!(done["digest"], digests[6]);
    assert_eq!(json(&folder, &["rollback", "live", &digests[6]])["already_current"], true);

    // The current release and the previous one are always kept.
    let name = archive(&folder, 8);
    let last = json(&folder, &["publish", &name, "live", "--keep", "1"]);
    assert_eq!(last["removed"].as_array().expect("a list").len(), 4);
    assert_eq!(json(&folder, &["rollback", "live"])["digest"], digests[6]);
    let log = fs::read_to_string(folder.join("live/log")).expect("the log");
    let verbs: Vec<&str> = log.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let (published, back) = (["publish"; 7], ["rollback"; 2]);
    assert_eq!(verbs, [&published[..], &back, &["publish", "rollback"]].concat());

    let table = pinion_in(&folder, &["releases", "live"]).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].ends_with("paths") && lines[1].starts_with(&format!("*  {}", &digests[6][..12]))
    );
}

#[test]
fn damaged_archives_are_not_published() {
    let folder = Folder::new("refused");
    let (one, two) = (archive(&folder, 1), archive(&folder, 2));
    json(&folder, &["publish", &one, "live"]);
    let whole = fs::read(folder.join(&two)).expect("the archive");
    let mut older = whole.clone();
    older[8] -= 1;
    folder.write("older.pinion", older);
    folder.write("cut.pinion", &whole[..whole.len() - 1]);
    folder.write("text.pinion", "no archive");
    let mut flipped = whole.clone();
    let middle = whole.len() / 2;
    flipped[middle] ^= 1;
    folder.write("flipped.pinion", flipped);
    for (file, hint) in [
        ("older.pinion", "archive format 2; this program reads format 3"),
        ("cut.pinion", "truncated archive"),
        ("text.pinion", "not a Pinion archive"),
        ("flipped.pinion", "is damaged: "),
        ("site", "is a folder"),
        ("none", "none does not exist; give the path of an archive"),
        ("/dev/null", "is not a regular file"),
    ] {
        fails(&folder, &["publish", file, "live"], 1, hint);
        if file.ends_with(".pinion") {
            let ended = piped(&folder, &fs::read(folder.join(file)).expect("a file"));
            assert_eq!(ended.code, Some(1), "{file}: {}", ended.stderr);
            assert!(ended.stderr.starts_with("pinion: stdin"), "{}", ended.stderr);
        }
        current_is_sound(&folder);
        assert_eq!((drafts(&folder), names(&folder.join("live/releases")).len()), (vec![], 1));
    }
    let ended = piped(&folder, &whole);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(json(&folder, &["publish", &two, "live"])["already_current"], true);

    // A damaged release is detected, is not a target of a rollback, and is repaired by publishing
    // it again.
    let digest = json(&folder, &["releases", "live"])["releases"][1]["digest"].clone();
    let rotten =
        folder.join("live/releases").join(format!("{}.pinion", digest.as_str().expect("text")));
    fs::write(&rotten, "rotten").expect("written");
    fails(&folder, &["rollback", "live"], 1, "not a Pinion archive");
    assert!(json(&folder, &["releases", "live"])["releases"][1]["error"].is_string());
    json(&folder, &["publish", &one, "live"]);
    current_is_sound(&folder);
    let current = fs::canonicalize(folder.join("live/current.pinion")).expect("a file");
    let bytes = fs::read(&current).expect("a file");
    fs::write(&current, [&bytes[..middle], b"rot", &bytes[middle + 3..]].concat())
        .expect("written");
    assert_eq!(json(&folder, &["publish", &one, "live"])["mended"], true);
    current_is_sound(&folder);
}

/// Runs `pinion publish - live` with these bytes on stdin.
#[track_caller]
fn piped(folder: &Folder, bytes: &[u8]) -> Ended {
    let mut command = Command::new(pinion());
    command.args(["publish", "-", "live"]).current_dir(folder.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    // The command reads no further than it has to.
    let _refused = io::Write::write_all(&mut stdin, bytes);
    drop(stdin);
    child.wait_with_output().expect("its end").into()
}

fn publishing(folder: &Folder, file: &str) -> Child {
    let mut command = Command::new(pinion());
    command.args(["publish", file, "live", "--keep", "2"]).current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it runs")
}

/// Number of publishes that are killed.
const KILLS: u32 = 40;

#[test]
fn a_publish_that_is_killed_leaves_the_old_release_or_the_new_one() {
    let folder = Folder::new("killed");
    let archives: Vec<String> = (1..=3).map(|number| archive(&folder, number)).collect();
    json(&folder, &["publish", &archives[0], "live"]);
    let begin = Instant::now();
    json(&folder, &["publish", &archives[1], "live"]);
    let whole = begin.elapsed();
    let (mut survived, mut torn) = (0, 0);
    for kill in 0..KILLS {
        let name = &archives[(kill as usize) % 3];
        let before = fs::read_link(folder.join("live/current.pinion")).expect("a link");
        let mut child = publishing(&folder, name);
        // The times range from the start of the command to its end.
        thread::sleep(whole * kill / KILLS);
        child.kill().expect("killed, or ended before");
        child.wait().expect("its end");
        current_is_sound(&folder);
        torn += u32::from(!drafts(&folder).is_empty());
        survived +=
            u32::from(fs::read_link(folder.join("live/current.pinion")).expect("a link") == before);
    }
    assert!(survived > 0, "every publish was over before it was killed");
    assert!(torn > 0, "no publish was killed in the middle");
    let last = archive(&folder, 9);
    json(&folder, &["publish", &last, "live", "--keep", "2"]);
    assert_eq!((drafts(&folder), names(&folder.join("live/releases")).len()), (vec![], 2));
    current_is_sound(&folder);
    json(&folder, &["rollback", "live"]);
    current_is_sound(&folder);
}

#[test]
fn a_full_disk_is_reported_and_keeps_the_old_release() {
    let folder = Folder::new("full");
    let (one, two) = (archive(&folder, 1), archive(&folder, 2));
    json(&folder, &["publish", &one, "live"]);
    let bytes = fs::metadata(folder.join(&two)).expect("the archive").len();
    for room in [0, 7, 4096, bytes / 2, bytes - 1] {
        let script =
            format!("trap '' XFSZ; exec prlimit --fsize={room}:{room} \"$0\" publish {two} live");
        let mut shell = program("sh", "dash");
        shell.arg("-c").arg(script).arg(pinion()).current_dir(folder.path());
        let failed = output(&mut shell);
        let said = String::from_utf8(failed.stderr).expect("text");
        assert_eq!(failed.status.code(), Some(1), "room for {room} bytes: {said}");
        assert!(said.contains("cannot copy 2.pinion to live/releases: File too large"), "{said:?}");
        assert_eq!(said.lines().count(), 1, "{said:?}");
        current_is_sound(&folder);
        assert_eq!((drafts(&folder), names(&folder.join("live/releases")).len()), (vec![], 1));
    }
    json(&folder, &["publish", &two, "live"]);
    // A rollback needs no disk space, not even for the log; the next switch repairs the log.
    fs::remove_file(folder.join("live/log")).expect("removed");
    symlink("/dev/full", folder.join("live/log")).expect("a link");
    let back = pinion_in(&folder, &["rollback", "live", &digest_of(&folder, &one)]);
    assert_eq!(back.code, Some(0), "{}", back.stderr);
    assert!(back.stderr.contains("switched, but cannot write live/log"), "{}", back.stderr);
    current_is_sound(&folder);
    fs::remove_file(folder.join("live/log")).expect("removed");
    json(&folder, &["publish", &two, "live"]);
    let log = fs::read_to_string(folder.join("live/log")).expect("the log");
    let verbs: Vec<&str> = log.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(verbs, ["switch", "publish"]);
}

fn digest_of(folder: &Folder, file: &str) -> String {
    let verified = json(folder, &["verify", file]);
    verified["digest"].as_str().expect("a digest").to_owned()
}

#[test]
fn concurrent_publishes_run_one_after_the_other() {
    let folder = Folder::new("two");
    let (one, two) = (archive(&folder, 1), archive(&folder, 2));
    json(&folder, &["publish", &one, "live"]);
    let lock = File::options().write(true).open(folder.join("live/.lock")).expect("the lock");
    flock(&lock, FlockOperation::LockExclusive).expect("locked");
    let mut command = Command::new(pinion());
    command.args(["publish", &two, "live"]).current_dir(folder.path());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let stderr = child.stderr.take().expect("piped");
    let mut lines = io::BufRead::lines(io::BufReader::new(stderr)).map_while(Result::ok);
    let first = lines.next().expect("a line");
    assert!(first.starts_with("waiting: live is being switched by process "), "{first}");
    assert_eq!(digest_of(&folder, "live/current.pinion"), digest_of(&folder, &one));
    drop(lock);
    assert!(child.wait().expect("its end").success());
    assert_eq!(digest_of(&folder, "live/current.pinion"), digest_of(&folder, &two));

    let both: Vec<Child> = [&one, &two]
        .iter()
        .flat_map(|name| [(); 4].map(|()| name))
        .map(|name| publishing(&folder, name))
        .collect();
    for mut child in both {
        assert!(child.wait().expect("its end").success());
    }
    current_is_sound(&folder);
    assert_eq!((drafts(&folder), names(&folder.join("live/releases")).len()), (vec![], 2));
    let log = fs::read_to_string(folder.join("live/log")).expect("the log");
    let digests: Vec<&str> = log.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert!(digests.windows(2).all(|pair| pair[0] != pair[1]), "{log}");
}

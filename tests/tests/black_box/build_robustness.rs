//! The files that `pinion build` leaves when it is killed or the disk is full, and the
//! reproducibility of its output.

use pinion_tests::binary::pinion;
use pinion_tests::external_programs::{output, program};
use pinion_tests::server::{build, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Writes pages that take a while to encode, different for each `edition`.
fn write_site(folder: &Folder, name: &str, edition: &str) {
    for page in 0..60 {
        let line = |line: u32| format!("<p>{edition}, page {page}, {}</p>\n", line * line * 7919);
        let text: String = (0..400).map(line).collect();
        folder.write(format!("{name}/d{}/page{page}.html", page % 7), text);
    }
    // The file is larger than the write buffer, so it is written in the middle of a build.
    folder.write(format!("{name}/noise.bin"), edition.repeat(400_000));
}

/// Returns the visible names in a folder.
fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).expect("the folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("ASCII");
    let mut names: Vec<String> = entries.flatten().map(name).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

#[test]
fn a_build_that_is_killed_leaves_the_old_archive_or_the_new_one() {
    const KILLS: u32 = 40;
    let folder = Folder::new("killed");
    write_site(&folder, "site", "first");
    let archive = folder.join("site/site.pinion");
    build(&folder.join("site"), &archive, &[]);
    let old = fs::read(&archive).expect("the archive");
    write_site(&folder, "site", "second");
    let began = Instant::now();
    build(&folder.join("site"), &archive, &[]);
    let whole_build = began.elapsed();
    let new = fs::read(&archive).expect("the archive");
    assert!(old != new);

    let (mut survived, mut littered) = (0, 0);
    for kill in 0..KILLS {
        fs::write(&archive, &old).expect("the old archive");
        let mut building = Command::new(pinion())
            .args(["build", ".", "-o", "site.pinion"])
            .current_dir(folder.join("site"))
            .stderr(Stdio::null())
            .spawn()
            .expect("pinion starts");
        // The times range from the start of the build to long after its end.
        thread::sleep(whole_build * kill * 5 / (4 * KILLS));
        building.kill().expect("killed, or ended before");
        building.wait().expect("its end");
        let left = fs::read(&archive).expect("the archive");
        assert!(left == old || left == new, "kill {kill}: neither the old nor the new archive");
        survived += u32::from(left == old);
        littered += u32::from(drafts(&folder.join("site")) > 0);
    }
    assert!(survived > 0, "every build was over before it was killed");
    assert!(littered > 0, "no build was killed while it wrote");
    // Files that killed builds have left beside the archive are not part of the next one, and are
    // removed.
    build(&folder.join("site"), &archive, &[]);
    assert!(fs::read(&archive).expect("the archive") == new);
    assert_eq!(drafts(&folder.join("site")), 0);
}

/// Ctrl-C while a large folder is read: the build ends at the next folder, and the old archive
/// stays.
#[test]
fn a_signal_ends_a_build_during_its_walk() {
    const FOLDERS: usize = 2000;
    /// A folder is read by two calls.
    const CALLS_BEFORE: usize = 20;
    for signal in [Signal::INT, Signal::TERM] {
        let folder = Folder::with("interrupted", [("site/index.html", "home")]);
        build(&folder.join("site"), &folder.join("site.pinion"), &[]);
        let old = fs::read(folder.join("site.pinion")).expect("the archive");
        for number in 0..FOLDERS {
            folder.write(format!("site/d{number}/a.css"), "a {}");
        }
        // Each call takes so long that the signal arrives during the walk on any machine.
        let mut strace = program("strace", "strace");
        strace.args(["-f", "-qq", "-o", "calls", "-e", "trace=getdents64"]);
        strace.args(["-e", "inject=getdents64:delay_enter=20000", "sh", "-c"]);
        let line =
            format!("echo $$ > id; exec '{}' build site -o site.pinion -j 1", pinion().display());
        let mut building = strace
            .arg(line)
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace starts");
        let calls = || {
            let text = fs::read_to_string(folder.join("calls")).unwrap_or_default();
            text.lines().filter(|line| line.contains("getdents64(")).count()
        };
        wait_for("the walk", || (calls() >= CALLS_BEFORE).then_some(()));
        let id = fs::read_to_string(folder.join("id")).expect("written before");
        let id = Pid::from_raw(id.trim().parse().expect("a number")).expect("a process");
        kill_process(id, signal).expect("it builds");
        let ended = building.wait().expect("an end");
        assert_eq!(ended.code(), Some(1), "{signal:?}");
        assert!(calls() < FOLDERS, "{signal:?}: {} calls, it has read everything", calls());
        assert!(fs::read(folder.join("site.pinion")).expect("the archive") == old);
        assert_eq!(drafts(folder.path()), 0);
    }
}

/// Runs `pinion build` with a limit of bytes in a file. If the signal is ignored, a write beyond
/// the limit fails, as on a full disk; otherwise it ends the program.
fn build_with_room(folder: &Folder, bytes: usize, signal_ignored: bool) -> std::process::Output {
    let room = format!("--fsize={bytes}:{bytes}");
    let trap = if signal_ignored { "trap '' XFSZ;" } else { "ulimit -c 0;" };
    let script = format!("{trap} exec prlimit {room} \"$0\" build site -o site.pinion");
    let mut shell = program("sh", "dash");
    shell.arg("-c").arg(script).arg(pinion()).current_dir(folder.path());
    output(&mut shell)
}

#[test]
fn a_full_disk_is_reported_and_keeps_the_old_archive() {
    let folder = Folder::new("full");
    write_site(&folder, "site", "first");
    let before = Folder::new("before");
    before.write("site/index.html", "old");
    build(&before.join("site"), &before.join("site.pinion"), &[]);
    let old = fs::read(before.join("site.pinion")).expect("the archive");
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    let bytes = fs::metadata(folder.join("site.pinion")).expect("the archive").len() as usize;
    for room in [0, 1, 4095, 4096, bytes / 3, bytes / 2, bytes - 4096, bytes - 1] {
        folder.write("site.pinion", &old);
        let failed = build_with_room(&folder, room, true);
        let said = String::from_utf8(failed.stderr).expect("text");
        assert_eq!(failed.status.code(), Some(1), "room for {room} bytes: {said}");
        assert!(said.starts_with("pinion: ") && said.lines().count() == 1, "{said:?}");
        assert!(said.contains("File too large"), "{said:?}");
        assert!(fs::read(folder.join("site.pinion")).expect("a file") == old);
        // The files of the previous, killed build are removed too.
        assert_eq!(drafts(folder.path()), 0, "litter beside the site and the archive");

        let killed = build_with_room(&folder, room, false);
        assert_eq!(killed.status.code(), None, "ended by a signal");
        assert!(fs::read(folder.join("site.pinion")).expect("a file") == old);
        assert_eq!(names(&folder), ["site", "site.pinion"]);
        assert!(drafts(folder.path()) > 0, "it was killed while it wrote");
    }
    assert!(build_with_room(&folder, bytes, true).status.success(), "it fits exactly");
    assert_eq!(drafts(folder.path()), 0);
    assert_eq!(run(&["verify".as_ref(), folder.join("site.pinion").as_os_str()]).code, Some(0));
}

/// Returns how many hidden drafts killed builds have left in a folder: of the archive and of its
/// fingerprints.
fn drafts(folder: &Path) -> usize {
    let is_draft = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        name.starts_with(b".site.pinion.") && name.ends_with(b".tmp")
    };
    fs::read_dir(folder).expect("the folder").flatten().filter(is_draft).count()
}

/// Returns the summary of a build of `site` below `folder`.
fn build_report(folder: &Folder, flags: &[&str]) -> serde_json::Value {
    let mut command = Command::new(pinion());
    command.args(["build", "site", "-o", "site.pinion", "--json"]).args(flags);
    let ended = output(command.current_dir(folder.path()));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    serde_json::from_slice(&ended.stdout).expect("JSON")
}

/// Sets the modification times of all files back; the time of the status change cannot be set, so
/// it waits.
fn settle(folder: &Folder) {
    touch(&folder.join("site"), SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800));
    thread::sleep(Duration::from_secs(4));
}

#[test]
fn killed_builds_leave_no_wrong_fingerprints_for_later_builds() {
    const KILLS: u32 = 30;
    let folder = Folder::new("shared");
    write_site(&folder, "site", "first");
    settle(&folder);
    build_report(&folder, &[]);
    let second = build_report(&folder, &[]);
    assert_eq!(second["unread_files"], second["files"], "{second}");
    for kill in 0..KILLS {
        folder.write("site/changing.html", format!("<p>edition {kill}</p>").repeat(50));
        let builds: Vec<_> = (0..3)
            .map(|_| {
                let mut command = Command::new(pinion());
                command.args(["build", "site", "-o", "site.pinion"]).stderr(Stdio::null());
                command.current_dir(folder.path()).spawn().expect("pinion starts")
            })
            .collect();
        thread::sleep(Duration::from_millis(u64::from(kill) * 2));
        for (number, mut build) in builds.into_iter().enumerate() {
            if number < 2 {
                build.kill().expect("killed, or ended before");
            }
            let ended = build.wait().expect("its end");
            assert!(number < 2 || ended.success(), "kill {kill}: it fails for the others");
        }
    }
    // The last edition may be too old by now to count as just changed, and is then known.
    folder.write("site/changing.html", "another one");
    let last = build_report(&folder, &[]);
    assert_eq!(drafts(folder.path()), 0);
    let anew = build_report(&folder, &["--no-reuse"]);
    assert_eq!(last["digest"], anew["digest"]);
    // The killed builds did not affect the reuse: everything except the changing file was known.
    assert_eq!(last["unread_files"], second["files"], "{last}");
}

/// Builds `site` onto a file system of this many bytes; returns the exit status, the output, and
/// the names that exist afterwards.
fn build_on_small_disk(folder: &Folder, bytes: usize) -> (i32, String, Vec<String>) {
    const SCRIPT: &str = "mount -t tmpfs -o size=$1 none out || exit 9; \
        \"$0\" build site -o out/site.pinion; echo $?; ls -A out";
    let mut unshare = program("unshare", "util-linux");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT]);
    unshare.arg(pinion()).arg(bytes.to_string()).current_dir(folder.path());
    let ended = output(&mut unshare);
    let said = String::from_utf8(ended.stderr).expect("text");
    let listed = String::from_utf8(ended.stdout).expect("text");
    let mut lines = listed.lines().map(str::to_owned);
    let status = lines.next().and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{said}")), said, lines.collect())
}

/// The archive does not fit, or it fits alone, or its fingerprints fit too.
#[test]
fn a_nearly_full_disk_fails_the_build_or_skips_the_fingerprints() {
    const PAGE_BYTES: usize = 4096;
    let folder = Folder::new("nearly-full");
    for number in 0..200 {
        folder.write(format!("site/a/long/way/down/to/page{number}.html"), "x".repeat(number));
    }
    fs::create_dir(folder.join("out")).expect("made");
    settle(&folder);
    build_report(&folder, &[]);
    let pages = fs::read(folder.join("site.pinion")).expect("the archive").len() / PAGE_BYTES;
    let mut seen = [0; 3];
    for spare in 0..16 {
        let (status, said, names) = build_on_small_disk(&folder, (pages + spare) * PAGE_BYTES);
        let warned = said.contains("file of fingerprints");
        match (status, names.as_slice()) {
            (1, []) => {
                assert!(said.contains("No space left on device"), "{said}");
                seen[0] += 1;
            }
            (0, [archive]) if archive == "site.pinion" && warned => seen[1] += 1,
            (0, [_, _]) if !warned => seen[2] += 1,
            other => panic!("{spare} pages to spare: {other:?}, {said}"),
        }
    }
    assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
}

/// Returns the archive that this command line makes of `site` below `folder`.
fn archive_of(folder: &Path, before: &[&str], flags: &[&str], epoch: Option<&str>) -> Vec<u8> {
    let out = Folder::new("out");
    let pinion = pinion().to_str().expect("a path in UTF-8");
    let words: Vec<&str> = before.iter().copied().chain([pinion, "build"]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(folder.join("site")).arg("-o").arg(out.join("a")).args(flags);
    // The time zone and the language must not affect the archive.
    command.env("TZ", format!("Zone{}", flags.len())).env("LC_ALL", "de_DE.UTF-8");
    match epoch {
        Some(epoch) => command.env("SOURCE_DATE_EPOCH", epoch),
        None => command.env_remove("SOURCE_DATE_EPOCH"),
    };
    let ended = output(&mut command);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    fs::read(out.join("a")).expect("the archive")
}

/// Sets the modification time of every file below `folder`.
fn touch(folder: &Path, time: SystemTime) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => touch(&path, time),
            path => File::options()
                .write(true)
                .open(path)
                .expect("a file")
                .set_modified(time)
                .expect("a time"),
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    let (one, other) = (Folder::new("one"), Folder::new("another-place"));
    for folder in [&one, &other] {
        write_site(folder, "site", "first");
        touch(&folder.join("site"), time);
    }
    let archive = archive_of(one.path(), &[], &[], None);
    for (case, again) in [
        ("again", archive_of(one.path(), &[], &[], None)),
        ("elsewhere", archive_of(other.path(), &[], &[], None)),
        ("one worker", archive_of(one.path(), &[], &["-j", "1"], None)),
        ("seven workers", archive_of(one.path(), &[], &["-j", "7"], None)),
        ("one core", archive_of(other.path(), &["taskset", "-c", "0"], &[], None)),
        ("a later epoch", archive_of(one.path(), &[], &[], Some("1600000000"))),
    ] {
        assert!(again == archive, "other bytes: {case}");
    }

    // The epoch limits times, so touched files make no difference any more.
    let capped = archive_of(one.path(), &[], &[], Some("1400000000"));
    touch(&other.join("site"), time + Duration::from_secs(1000));
    assert!(archive_of(other.path(), &[], &[], Some("1400000000")) == capped);
    assert!(archive_of(other.path(), &[], &[], None) != archive, "times are input");
    assert!(capped != archive, "the epoch is input");
}

//! Files that change while `pinion build` reads them: the build reports them, or the change has no
//! effect.

use pinion_tests::SetAtEnd;
use pinion_tests::binary::pinion;
use pinion_tests::external_programs::stdout;
use pinion_tests::server::{Ended, build, run};
use pinion_tests::temporary_folder::Folder;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

/// A file that is not held in memory but read piece by piece: more than 128 MiB.
const LARGE_BYTES: u64 = (128 << 20) + 4096;

/// Most builds that may end before they are stopped in the middle of the large file.
const ATTEMPTS: usize = 50;

/// The message of a build about the file.
const TOLD: &str = "pinion: large.bin: changed while it was read; build again";

/// A change of a file.
type Change = fn(&File);

/// A build that is at some offset of a file, and can be stopped there.
struct Held {
    /// `None` after its end was waited for.
    building: Option<Child>,
    pid: Pid,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(building) = &mut self.building {
            // A test has failed, and a stopped process would stay forever.
            let _ = building.kill();
            let _ = building.wait();
        }
    }
}

impl Held {
    /// Runs a build of `site` until it has read the first bytes of `file` and not the last ones;
    /// returns `None` if it ended first.
    fn within(folder: &Folder, file: &Path, flags: &[&str]) -> Option<Held> {
        let building = Command::new(pinion())
            .args(["build", "site", "-o", "site.pinion"])
            .args(flags)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pinion starts");
        let held = Held { pid: Pid::from_child(&building), building: Some(building) };
        while held.stop() {
            if held.place_in(file).is_some_and(|at| at > 0 && at < LARGE_BYTES) {
                return Some(held);
            }
            held.go_on();
            thread::sleep(Duration::from_micros(500));
        }
        let ended = held.end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        None
    }

    /// Stops all its threads; returns false if it has ended.
    fn stop(&self) -> bool {
        // The process has not been waited for, so its ID is still its own.
        kill_process(self.pid, Signal::STOP).expect("a signal reaches the build");
        let events = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let event = waitid(WaitId::Pid(self.pid), events).expect("a child").expect("an event");
        event.stopped()
    }

    fn go_on(&self) {
        kill_process(self.pid, Signal::CONT).expect("a signal reaches the build");
    }

    /// Returns its offset in a file that it has opened.
    fn place_in(&self, file: &Path) -> Option<u64> {
        let process = PathBuf::from(format!("/proc/{}", self.pid.as_raw_nonzero()));
        let opened = fs::read_dir(process.join("fd")).expect("its files").flatten();
        let is_file = |link: &PathBuf| fs::read_link(link).is_ok_and(|to| to == file);
        let link = opened.map(|entry| entry.path()).find(is_file)?;
        let info = process.join("fdinfo").join(link.file_name().expect("a number"));
        let info = fs::read_to_string(info).expect("it stands still");
        let place = info.lines().find_map(|line| line.strip_prefix("pos:")).expect("a place");
        Some(place.trim().parse().expect("a number"))
    }

    fn end(mut self) -> Ended {
        let building = self.building.take().expect("it is waited for once");
        building.wait_with_output().expect("its end").into()
    }
}

/// Creates a site with a very old large file, and the archive of an earlier site.
fn site() -> (Folder, PathBuf) {
    let folder = Folder::new("changing");
    folder.write("site/index.html", "earlier");
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    folder.write("site/index.html", "<p>a page</p>".repeat(100));
    folder.write("site/z.txt", "the last one");
    let large = fs::canonicalize(folder.join("site")).expect("a folder").join("large.bin");
    write_large(&large);
    (folder, large)
}

fn write_large(large: &Path) {
    let file = File::create(large).expect("made");
    file.set_len(LARGE_BYTES).expect("made long");
    file.write_all_at(b"first", 0).expect("written");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000)).expect("old");
}

/// Returns the result of a build during which the large file changed.
fn changed(folder: &Folder, large: &Path, flags: &[&str], change: impl Fn(&File)) -> Ended {
    let old = fs::read(folder.join("site.pinion")).expect("an archive");
    for _ in 0..ATTEMPTS {
        write_large(large);
        if let Some(held) = Held::within(folder, large, flags) {
            change(&File::options().write(true).open(large).expect("the file"));
            held.go_on();
            return held.end();
        }
        folder.write("site.pinion", &old);
    }
    panic!("{ATTEMPTS} builds were over before they were met");
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).expect("the folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().expect("ASCII")).collect();
    names.retain(|name| !name.ends_with(".stat"));
    names.sort();
    names
}

fn content(folder: &Folder, path: &str) -> Vec<u8> {
    stdout(Command::new(pinion()).arg("cat").arg(folder.join("site.pinion")).arg(path))
}

#[test]
fn a_change_during_the_build_is_reported_and_keeps_the_old_archive() {
    let (folder, large) = site();
    let old = fs::read(folder.join("site.pinion")).expect("an archive");
    let changes: [(&str, Change); 4] = [
        ("longer", |file| file.write_all_at(b"more", LARGE_BYTES).expect("written")),
        ("shorter", |file| file.set_len(LARGE_BYTES / 2).expect("cut")),
        ("empty", |file| file.set_len(0).expect("cut")),
        ("of the same length", |file| file.write_all_at(b"other", 0).expect("written")),
    ];
    for (case, change) in changes {
        let ended = changed(&folder, &large, &["--no-reuse"], change);
        assert_eq!(ended.code, Some(1), "{case}: {}", ended.stderr);
        let messages = ended.stderr.lines().filter(|line| *line == TOLD);
        assert_eq!(messages.count(), 1, "{case}: {}", ended.stderr);
        assert!(!ended.stderr.contains("z.txt"), "{case}: {}", ended.stderr);
        assert!(fs::read(folder.join("site.pinion")).expect("an archive") == old, "{case}");
        assert_eq!(names(&folder), ["site", "site.pinion"], "{case}");
    }
}

#[test]
fn a_build_with_keep_going_omits_changed_files() {
    let (folder, large) = site();
    let change = |file: &File| file.write_all_at(b"other", 0).expect("written");
    let ended = changed(&folder, &large, &["--keep-going"], change);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("large.bin: changed while it was read"), "{}", ended.stderr);
    assert_eq!(content(&folder, "/z.txt"), b"the last one");
    assert_eq!(content(&folder, "/"), "<p>a page</p>".repeat(100).into_bytes());
    let archive = folder.join("site.pinion");
    assert_eq!(run(&["verify".as_ref(), archive.as_os_str()]).code, Some(0));
    let cat = run(&["cat".as_ref(), archive.as_os_str(), "/large.bin".as_ref()]);
    assert_eq!(cat.code, Some(1), "{}", cat.stderr);
}

/// Editors and deployments replace a file, so the opened one does not change.
#[test]
fn a_replaced_file_is_stored_by_the_next_build() {
    let (folder, large) = site();
    let next = folder.join("next");
    let change = |_: &File| {
        fs::write(&next, "new").expect("written");
        fs::rename(&next, &large).expect("put in its place");
    };
    let ended = changed(&folder, &large, &[], change);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let stored = content(&folder, "/large.bin");
    assert!(stored.len() as u64 == LARGE_BYTES && stored.starts_with(b"first\0"));
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    assert_eq!(content(&folder, "/large.bin"), b"new");
}

/// Returns lines with their number and a letter.
fn lines(letter: char, count: usize) -> Vec<u8> {
    (0..count).map(|line| format!("{letter}{line:07}\n")).collect::<String>().into_bytes()
}

/// Returns whether a file that is overwritten with one text and the other, each by one call, and
/// then cut to its length, may have had this content. During the write it has parts of both, and a
/// read during the cut may end in zeros.
fn may_have_been(content: &[u8], short: &[u8], long: &[u8]) -> bool {
    let is_of_one = |(at, byte): (usize, &u8)| match short.get(at) {
        Some(other) => byte == other || *byte == long[at],
        None => *byte == long[at] || *byte == 0,
    };
    (short.len()..=long.len()).contains(&content.len()) && content.iter().enumerate().all(is_of_one)
}

#[test]
fn a_changing_file_is_stored_consistently_or_fails_the_build() {
    /// The number of builds, and the maximum if not yet both some have succeeded and some have
    /// failed.
    const BUILDS: usize = 40;
    const BUILDS_MAX: usize = 1000;
    let (short, long) = (lines('a', 4_000), lines('b', 9_001));
    let folder = Folder::new("restless");
    let pages: Vec<(String, String)> = (0..30)
        .map(|page| (format!("/{page}.html"), format!("<p>page {page}</p>").repeat(100 + page)))
        .collect();
    for (path, text) in &pages {
        folder.write(format!("site{path}"), text);
    }
    let path = folder.join("site/log.txt");
    fs::write(&path, &short).expect("written");
    let archive = folder.join("site.pinion");
    let words = [Path::new("build"), &folder.join("site"), Path::new("-o"), &archive];
    let is_over = AtomicBool::new(false);
    let message = "pinion: log.txt: changed while it was read; build again";
    thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&path).expect("the file");
            for round in 0_u64.. {
                let text = if round % 2 == 0 { &long } else { &short };
                file.write_all_at(text, 0).expect("written");
                file.set_len(text.len() as u64).expect("cut");
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                // Bursts, and pauses in which a build succeeds.
                thread::sleep(Duration::from_micros(round % 23 * 100));
            }
        });
        let _over = SetAtEnd(&is_over);
        let (mut left, mut built, mut refused) = (None, 0, 0);
        for number in 0.. {
            if number >= BUILDS && built > 0 && refused > 0 {
                break;
            }
            assert!(number < BUILDS_MAX, "{built} built, {refused} refused");
            let ended = run(&words);
            let now = fs::read(&archive).ok();
            match ended.code {
                Some(0) => {
                    let stored = content(&folder, "/log.txt");
                    assert!(may_have_been(&stored, &short, &long), "build {number}");
                    built += 1;
                }
                Some(1) => {
                    let is_reported = ended.stderr.lines().any(|line| line == message);
                    assert!(is_reported, "build {number}: {}", ended.stderr);
                    assert!(now == left, "build {number}: the old archive stays");
                    refused += 1;
                }
                code => panic!("build {number}: {code:?}, {}", ended.stderr),
            }
            left = now;
        }
    });
    // The file does not change any more.
    build(&folder.join("site"), &archive, &[]);
    assert_eq!(content(&folder, "/log.txt"), fs::read(&path).expect("the file"));
    for (path, text) in &pages {
        assert_eq!(content(&folder, path), text.as_bytes(), "{path}");
    }
    assert_eq!(run(&["verify".as_ref(), archive.as_os_str()]).code, Some(0));
}

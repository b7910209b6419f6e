//! Outputs that fail, and builds that are cancelled: no incomplete file is left.

use std::fs;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use pinion_archive::Layout;
use pinion_builder::limits::EXTERNAL_MIN_BYTES;
use pinion_builder::{BuildError, Options, Progress, Warning, build, build_file};

use crate::archive_reader::{built, built_with, options};
use crate::temporary_folder::Folder;

/// A disk that is full after a number of bytes, or fails a call with a given number.
struct Failing {
    memory: Cursor<Vec<u8>>,
    bytes_left: u64,
    calls_left: u64,
}

impl Failing {
    fn new(bytes_left: u64, calls_left: u64) -> Failing {
        Failing { memory: Cursor::new(Vec::new()), bytes_left, calls_left }
    }

    fn call(&mut self) -> io::Result<()> {
        let left = self.calls_left.checked_sub(1);
        self.calls_left = left.ok_or(io::Error::from(io::ErrorKind::StorageFull))?;
        Ok(())
    }
}

impl Write for &mut Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call()?;
        let room = self.bytes_left.min(bytes.len() as u64) as usize;
        if room == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes_left -= room as u64;
        self.memory.write(&bytes[..room])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.call()
    }
}

impl Seek for &mut Failing {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.call()?;
        self.memory.seek(to)
    }
}

fn site() -> Folder {
    let folder = Folder::new();
    for number in 0..80 {
        let page = format!("<p>page {number}, much like the others</p>\n").repeat(30 + number);
        folder.file(format!("p{number}.html"), page);
    }
    // Larger than the writer's buffer: written in the middle of the build.
    folder.file("large.bin", vec![7; 600_000]);
    folder
}

/// Returns whether the output is no archive, or a complete one: the failed write may have been the
/// last one.
fn is_none_or(whole: &[u8], out: &Failing) -> bool {
    Layout::open(out.memory.get_ref()).is_err() || out.memory.get_ref() == whole
}

/// The disk is full after any number of bytes: an error, and no archive.
#[test]
fn a_full_disk_at_any_byte_is_an_error_without_an_archive() {
    let folder = site();
    let whole = build(folder.path(), &options(), Cursor::new(Vec::new()), &()).unwrap();
    let (length, whole) = (whole.summary.archive_bytes, whole.out.into_inner());
    // The header page is written twice: zeros first, itself last.
    let written = length + 4096;
    let steps =
        (0..written).step_by(40_009).chain([1, 4095, 4096, length - 1, length, written - 1]);
    for room in steps {
        let mut out = Failing::new(room, u64::MAX);
        let error = build(folder.path(), &options(), &mut out, &()).err().unwrap();
        assert!(matches!(error, BuildError::Archive(_)), "{room}: {error}");
        assert!(error.to_string().starts_with("cannot write the archive: "), "{error}");
        assert!(is_none_or(&whole, &out), "{room}");
    }
    let mut out = Failing::new(written, u64::MAX);
    build(folder.path(), &options(), &mut out, &()).unwrap();
    assert!(*out.memory.get_ref() == whole);
}

/// Call number 0, 1, 2, … of the output fails, until none does.
#[test]
fn a_failure_of_any_output_call_is_an_error() {
    let folder = site();
    let whole = build(folder.path(), &options(), Cursor::new(Vec::new()), &()).unwrap();
    let whole = whole.out.into_inner();
    let mut failed = 0;
    for calls in 0.. {
        let mut out = Failing::new(u64::MAX, calls);
        if build(folder.path(), &options(), &mut out, &()).is_ok() {
            assert!(*out.memory.get_ref() == whole);
            break;
        }
        assert!(is_none_or(&whole, &out), "{calls}");
        failed += 1;
    }
    assert!(failed > 5, "{failed} calls were enough for everything");
}

#[test]
fn a_failed_build_keeps_the_old_archive_and_leaves_no_temporary_file() {
    let (folder, out) = (Folder::with(&[("a.html", "a")]), Folder::with(&[("site.pinion", "")]));
    let old = built(&Folder::with(&[("a.html", "old")])).bytes;
    out.file("site.pinion", &old);
    folder.link("b.html", "nowhere");
    let path = out.join("site.pinion");
    let error = build_file(folder.path(), &options(), &path, &()).unwrap_err();
    assert_eq!(error.to_string(), "b.html: broken symbolic link");
    assert_eq!(out.names(), ["site.pinion"]);
    assert!(fs::read(&path).unwrap() == old);
    let keep_going = Options { keep_going: true, ..options() };
    build_file(folder.path(), &keep_going, &path, &()).unwrap();
    assert_eq!(out.names(), ["site.pinion"]);
    Layout::open(&fs::read(&path).unwrap()).unwrap();
}

#[test]
fn impossible_output_paths_are_refused() {
    let folder = Folder::with(&[("a.html", "a")]);
    let out = Folder::new();
    out.folder("taken/x");
    for (name, message) in [
        ("taken", "will not replace a folder"),
        ("missing/site.pinion", "no such folder"),
        ("..", "will not replace a folder"),
    ] {
        let path = out.join(name);
        let error = build_file(folder.path(), &options(), &path, &()).unwrap_err();
        let line = error.to_string();
        assert!(line.contains(&path.display().to_string()), "{line}");
        assert!(line.contains(message), "{line}");
        assert_eq!(out.names(), ["taken"]);
    }
}

/// `pinion build . -o site.pinion` again and again results in the same archive, not in one that
/// grows.
#[test]
fn an_archive_in_the_source_folder_is_not_part_of_the_next_build() {
    let folder = Folder::with(&[("a.html", "a")]);
    let path = folder.join("site.pinion");
    build_file(folder.path(), &options(), &path, &()).unwrap();
    let first = fs::read(&path).unwrap();
    let summary = build_file(folder.path(), &options(), &path, &()).unwrap();
    assert!(fs::read(&path).unwrap() == first);
    assert_eq!(summary.files, 1);
    assert_eq!(folder.names(), ["a.html", "site.pinion"]);
}

/// An archive of another name stays in the site, and a warning names it.
#[test]
fn an_archive_in_the_folder_is_warned_about() {
    let folder = Folder::with(&[("a.html", "a"), ("b.html", "not \u{89}PINION\n")]);
    build_file(folder.path(), &options(), &folder.join("one.pinion"), &()).unwrap();
    fs::rename(folder.join("one.pinion"), folder.join("style.css")).unwrap();
    folder.modified("style.css", 1_577_836_800);
    let two = folder.join("two.pinion");
    // Held in memory, or left where it is.
    let large = fs::read(folder.join("style.css")).unwrap();
    folder.file("large.bin", [large, vec![0; EXTERNAL_MIN_BYTES as usize]].concat());
    for external_min_bytes in [None, Some(EXTERNAL_MIN_BYTES)] {
        let options = Options { external_min_bytes, ..options() };
        let summary = build_file(folder.path(), &options, &two, &()).unwrap();
        let archive = |name: &str| Warning::Archive(name.into());
        assert_eq!(summary.warnings, [archive("large.bin"), archive("style.css")]);
        assert_eq!(summary.files, 4);
    }
    let exclude = vec!["style.css".to_owned(), "large.bin".to_owned()];
    let options = Options { exclude, ..options() };
    let summary = build_file(folder.path(), &options, &two, &()).unwrap();
    assert_eq!((summary.warnings, summary.files), (vec![], 2));
}

/// Cancels at the nth check.
struct Impatient {
    asked: AtomicU32,
    gives_up_at: u32,
    found: Mutex<(u64, u64)>,
    advanced: Mutex<(u64, u64)>,
}

impl Progress for Impatient {
    fn found(&self, files: u64, bytes: u64) {
        *self.found.lock().unwrap() = (files, bytes);
    }

    fn advanced(&self, files: u64, bytes: u64) {
        let mut advanced = self.advanced.lock().unwrap();
        assert!(files > advanced.0);
        *advanced = (files, bytes);
    }

    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.gives_up_at
    }
}

#[test]
fn a_cancelled_build_leaves_nothing() {
    let (folder, out) = (site(), Folder::new());
    let path = out.join("site.pinion");
    let mut cancelled = 0;
    for gives_up_at in 0.. {
        let progress = Impatient {
            asked: AtomicU32::new(0),
            gives_up_at,
            found: Mutex::default(),
            advanced: Mutex::default(),
        };
        match build_file(folder.path(), &options(), &path, &progress) {
            Err(BuildError::Cancelled) => assert_eq!(out.names(), Vec::<String>::new()),
            Err(error) => panic!("{error}"),
            Ok(summary) => {
                let found = *progress.found.lock().unwrap();
                assert_eq!(found, (81, summary.source_bytes));
                assert_eq!(*progress.advanced.lock().unwrap(), found);
                break;
            }
        }
        cancelled += 1;
    }
    assert!(cancelled >= 2, "only {cancelled} batches");
    assert_eq!(out.names(), ["site.pinion"]);
}

/// The order of the two files would be undefined.
#[test]
fn rules_under_both_names_are_an_error() {
    let folder = Folder::with(&[("a/_redirects", "./b /c\n"), ("a/_redirects.txt", "./b /d\n")]);
    let Err(BuildError::Rules(errors)) = built_with(&folder, &options()) else { panic!("built") };
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.file, Path::new("a/_redirects.txt"));
    assert!(error.to_string().contains("no second file beside _redirects"), "{error}");
}

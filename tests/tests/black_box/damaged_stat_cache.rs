//! A wrong file of fingerprints next to an archive that `--reuse` names: the result is that of a
//! build from nothing, except for the one case in which the documentation states that the file is
//! trusted.

use pinion_tests::binary::pinion;
use pinion_tests::external_programs::output;
use pinion_tests::server::run;
use pinion_tests::temporary_folder::Folder;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

/// The digest of all other bytes ends the file.
const CHECK_BYTES: usize = 32;
/// Bytes after the rows: the identity of the archive (its digest, then its file status), the number
/// of rows, the checksum.
const TRAILER_BYTES: usize = 32 + STAMP_BYTES + 8 + CHECK_BYTES;
const STAMP_BYTES: usize = 48;
/// The archive that is reused, and its fingerprints.
const OLD: &str = "kept/old.pinion";
const OLD_STAMPS: &str = "kept/.old.pinion.stat";
/// Two files of one length.
const TWINS: [(&str, &str); 2] = [("/a.txt", "one of them, "), ("/b.txt", "the other one")];

struct Site {
    folder: Folder,
    archive: Vec<u8>,
    stamps: Vec<u8>,
}

impl Site {
    /// Creates a folder whose files are too old to count as just changed, and an archive of it.
    fn new() -> Site {
        let folder = Folder::new("fingerprints");
        for (path, text) in TWINS {
            folder.write(format!("site{path}"), text.repeat(100));
        }
        for number in 0..20 {
            folder.write(format!("site/{number}.html"), format!("<p>{number}</p>").repeat(200));
        }
        folder.write("kept/keep", "");
        folder.write("elsewhere/a.txt", "another site");
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800);
        for entry in fs::read_dir(folder.join("site")).expect("a folder").flatten() {
            let file = File::options().write(true).open(entry.path()).expect("a file");
            file.set_modified(old).expect("a time");
        }
        // The time of the status change cannot be set, so the test waits.
        thread::sleep(Duration::from_secs(4));
        build_report(&folder, &["site", "-o", OLD]);
        let read = |path| fs::read(folder.join(path)).expect("a file");
        let (archive, stamps) = (read(OLD), read(OLD_STAMPS));
        Site { folder, archive, stamps }
    }

    /// Runs a build that reuses an archive and a file of fingerprints; returns its summary and its
    /// archive.
    fn reused(&self, archive: &[u8], stamps: &[u8]) -> (Value, Vec<u8>) {
        self.folder.write(OLD, archive);
        self.folder.write(OLD_STAMPS, stamps);
        self.built(&["--reuse", OLD])
    }

    /// Runs a build into an empty folder.
    fn built(&self, flags: &[&str]) -> (Value, Vec<u8>) {
        let out = self.folder.join("new/site.pinion");
        let _may_not_be_there = fs::remove_dir_all(self.folder.join("new"));
        fs::create_dir(self.folder.join("new")).expect("a folder");
        let report =
            build_report(&self.folder, &[&["site", "-o", "new/site.pinion"], flags].concat());
        assert_eq!(run(&["verify".as_ref(), out.as_os_str()]).code, Some(0));
        (report, fs::read(out).expect("an archive"))
    }

    /// Returns a file of the last result of [`Site::built`].
    fn content(&self, path: &str) -> String {
        let archive = self.folder.join("new/site.pinion");
        let cat = run(&["cat".as_ref(), archive.as_os_str(), path.as_ref()]);
        assert_eq!(cat.code, Some(0), "{}", cat.stderr);
        cat.stdout
    }

    /// Asserts that the archive is that of a build from nothing, whatever is in the two files.
    #[track_caller]
    fn expect_same_archive(&self, case: &str, archive: &[u8], stamps: &[u8]) -> Value {
        let (report, bytes) = self.reused(archive, stamps);
        assert!(bytes == self.archive, "{case}: another archive");
        report
    }
}

/// Returns the summary of a build in `folder`.
#[track_caller]
fn build_report(folder: &Folder, arguments: &[&str]) -> Value {
    let mut command = Command::new(pinion());
    command.arg("build").args(arguments).arg("--json").current_dir(folder.path());
    let ended = output(&mut command);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    serde_json::from_slice(&ended.stdout).expect("JSON")
}

/// Corrects the checksum, like an attacker.
fn sealed(mut stamps: Vec<u8>) -> Vec<u8> {
    let rest = stamps.len() - CHECK_BYTES;
    let check = *blake3::hash(&stamps[..rest]).as_bytes();
    stamps[rest..].copy_from_slice(&check);
    stamps
}

/// Returns the rows of the twins with the digests of each other's content.
fn swapped(stamps: &[u8]) -> Vec<u8> {
    let mut swapped = stamps.to_vec();
    let digests = TWINS.map(|(_, text)| *blake3::hash(text.repeat(100).as_bytes()).as_bytes());
    for (own, other) in [(0, 1), (1, 0)] {
        let at = stamps.windows(32).position(|bytes| bytes == digests[own]).expect("a row");
        swapped[at..at + 32].copy_from_slice(&digests[other]);
    }
    swapped
}

/// Makes the file of fingerprints name the archive at `path` as its own.
fn claimed(stamps: &[u8], path: &Path) -> Vec<u8> {
    let file = fs::metadata(path).expect("an archive");
    let wide = [file.dev(), file.ino(), file.len(), file.mtime() as u64, file.ctime() as u64];
    let narrow = [file.mtime_nsec() as u32, file.ctime_nsec() as u32];
    let wide = wide.iter().flat_map(|number| number.to_le_bytes());
    let stamp: Vec<u8> = wide.chain(narrow.iter().flat_map(|n| n.to_le_bytes())).collect();
    let mut stamps = stamps.to_vec();
    let at = stamps.len() - TRAILER_BYTES + 32;
    stamps[at..at + STAMP_BYTES].copy_from_slice(&stamp);
    sealed(stamps)
}

#[test]
fn wrong_fingerprints_change_no_build_except_as_documented() {
    let site = Site::new();
    let (anew, bytes) = site.built(&["--no-reuse"]);
    assert!(bytes == site.archive);
    let files = anew["files"].as_u64().expect("a number");
    let unread = |report: &Value| report["unread_files"].as_u64().expect("a number");
    // Without this check the other cases would prove nothing.
    assert_eq!(unread(&site.expect_same_archive("as it was", &site.archive, &site.stamps)), files);
    assert_eq!(sealed(site.stamps.clone()), site.stamps, "this is how it is sealed");

    unreadable_fingerprints(&site);
    of_another_archive(&site);

    let lies = swapped(&site.stamps);
    assert_eq!(unread(&site.expect_same_archive("no right check", &site.archive, &lies)), 0);
    // docs/building.md: such a build can store wrong content for a file.
    let (report, bytes) = site.reused(&site.archive, &sealed(lies));
    assert_eq!(unread(&report), files);
    assert!(bytes != site.archive);
    assert_eq!(site.content(TWINS[0].0), TWINS[1].1.repeat(100));
    assert_eq!(site.content(TWINS[1].0), TWINS[0].1.repeat(100));
    assert_eq!(site.content("/3.html"), "<p>3</p>".repeat(200));
    // With `--no-reuse` the files are read.
    let (report, bytes) = site.built(&["--reuse", OLD, "--no-reuse"]);
    assert_eq!(unread(&report), 0);
    assert!(bytes == site.archive);
}

/// Files that are cut anywhere, zeros, noise with and without the first bytes: they only cost time.
fn unreadable_fingerprints(site: &Site) {
    let whole = &site.stamps;
    for length in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        site.expect_same_archive(&format!("{length} bytes"), &site.archive, &whole[..length]);
    }
    let noise = |number: usize| ((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    let noise: Vec<u8> = (0..whole.len()).map(noise).collect();
    let with_magic = [&whole[..8], &noise[8..]].concat();
    let in_rows = [&whole[..8], &noise[8..whole.len() - TRAILER_BYTES]].concat();
    let in_rows = [&in_rows, &whole[whole.len() - TRAILER_BYTES..]].concat();
    for (what, stamps) in [
        ("zeros", vec![0; whole.len()]),
        ("noise", noise.clone()),
        ("noise with the first bytes", with_magic.clone()),
        ("noise that is sealed", sealed(with_magic)),
        ("noise in the rows, sealed", sealed(in_rows)),
        ("more at the end", [whole, &b"x"[..]].concat()),
    ] {
        site.expect_same_archive(what, &site.archive, &stamps);
    }
}

/// The fingerprints of one archive are next to another one.
fn of_another_archive(site: &Site) {
    let folder = &site.folder;
    build_report(folder, &["elsewhere", "-o", "kept/other.pinion"]);
    let other = fs::read(folder.join("kept/other.pinion")).expect("an archive");
    let others = fs::read(folder.join("kept/.other.pinion.stat")).expect("fingerprints");
    // They belong to another folder, which has other files.
    let report = site.expect_same_archive("of another folder", &site.archive, &others);
    assert_eq!(report["unread_files"], 0);
    // All files are unchanged, and the archive does not have their content.
    let report = site.expect_same_archive("beside another archive", &other, &site.stamps);
    assert_eq!(report["unread_files"], 0);
    // The archive has other bytes at their offsets, with or without a correct checksum.
    let mut damaged = site.archive.clone();
    let text = TWINS[0].1.as_bytes();
    let at = damaged.windows(text.len()).position(|bytes| bytes == text).expect("a body");
    damaged[at] ^= 1;
    site.expect_same_archive("a damaged archive", &damaged, &site.stamps);
    let path = folder.join(OLD);
    let denied = claimed(&site.stamps, &path);
    assert_eq!(fs::read(&path).expect("an archive"), damaged);
    folder.write(OLD_STAMPS, denied);
    let (_, bytes) = site.built(&["--reuse", OLD]);
    assert!(bytes == site.archive, "bodies of an archive in another place prove themselves");
}

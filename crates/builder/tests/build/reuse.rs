//! The reuse of earlier builds, which must never affect the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pinion_builder::{CodingEffort, CodingsFor, Options, Summary, Warning, build_file, codings_at};
use proptest::prelude::*;

use crate::archive_reader::options;
use crate::temporary_folder::Folder;

/// Returns options with a time so late that no file of this test counts as just changed.
fn later() -> Options {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    Options { now: now as i64 + 3600, ..options() }
}

fn page(number: usize) -> String {
    format!("<p>page {number}, much like the others</p>\n").repeat(20 + number % 50)
}

fn site() -> Folder {
    let folder = Folder::new();
    for number in 0..150 {
        folder.file(format!("d{}/p{number}.html", number % 7), page(number % 100));
    }
    folder.file("empty.txt", "");
    folder.file("tiny.txt", "x");
    folder.file("noise.bin", noise(20_000));
    folder.file("picture.png", noise(3_000));
    folder.file("large.css", page(3).repeat(200));
    folder
}

fn noise(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// An archive and the summary of its build.
struct Made {
    bytes: Vec<u8>,
    summary: Summary,
}

fn make(source: &Folder, out: &Path, options: &Options) -> Made {
    let summary = build_file(source.path(), options, out, &()).unwrap();
    Made { bytes: fs::read(out).unwrap(), summary }
}

/// Returns the archive of a build without reuse.
fn anew(source: &Folder, options: &Options) -> Vec<u8> {
    let out = Folder::new();
    let options = Options { reuse: false, reuse_from: Vec::new(), ..options.clone() };
    make(source, &out.join("site.pinion"), &options).bytes
}

/// Bytes after the rows of a file of fingerprints.
const TRAILER_BYTES: usize = 120;

fn stamps(out: &Folder) -> PathBuf {
    out.join(".site.pinion.stat")
}

#[test]
fn an_unchanged_folder_is_not_read_again() {
    let (source, out) = (site(), Folder::new());
    let path = out.join("site.pinion");
    let first = make(&source, &path, &later());
    assert_eq!((first.summary.unread_files, first.summary.reused_codings), (0, 0));
    assert!(first.bytes == anew(&source, &later()));
    let second = make(&source, &path, &later());
    assert!(second.bytes == first.bytes);
    assert_eq!(second.summary.digest, first.summary.digest);
    // An empty file has no body that could be reused.
    assert_eq!(second.summary.unread_files, second.summary.files - 1);
    // Each content is encoded once, except the picture, which is never compressed.
    assert_eq!(second.summary.reused_codings, 2 * 103);
    let timeless = |summary: &Summary| (summary.codings.clone(), summary.repeated_bytes);
    assert_eq!(timeless(&second.summary), timeless(&first.summary));
}

#[test]
fn only_changed_files_are_read_again() {
    let (source, out) = (site(), Folder::new());
    let path = out.join("site.pinion");
    make(&source, &path, &later());
    // The file gets other content of the same length, and the old time of modification.
    source.file("d0/p0.html", page(0).replace("much", "very"));
    source.file("new.html", "<p>new</p>".repeat(100));
    fs::remove_file(source.join("tiny.txt")).unwrap();
    fs::rename(source.join("picture.png"), source.join("other.png")).unwrap();
    let second = make(&source, &path, &later());
    assert!(second.bytes == anew(&source, &later()));
    // The changed, the new, the renamed and the empty file are read.
    assert_eq!(second.summary.unread_files, second.summary.files - 4);
    assert_eq!(make(&source, &path, &later()).bytes.len(), second.bytes.len());
}

/// Within two seconds a file can change twice without a trace.
#[test]
fn files_changed_within_two_seconds_are_read_again() {
    let (source, out) = (site(), Folder::new());
    let path = out.join("site.pinion");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let just_now = Options { now, ..options() };
    make(&source, &path, &just_now);
    let second = make(&source, &path, &just_now);
    assert_eq!(second.summary.unread_files, 0);
    assert!(second.summary.reused_codings > 0, "read again, but not encoded again");
    make(&source, &path, &later());
    assert!(make(&source, &path, &just_now).summary.unread_files > 0);
}

/// With any changed options, the result is that of a build from nothing.
#[test]
fn changed_options_give_the_result_of_a_full_build() {
    let (source, out) = (site(), Folder::new());
    let path = out.join("site.pinion");
    let codings =
        |text: &str| Options { codings: codings_at(text, CodingEffort::Best).unwrap(), ..later() };
    let rule = CodingsFor::parse("*.css=gzip:9,br:2", CodingEffort::Best).unwrap();
    for (options, reused) in [
        (codings("gzip:6,br:6"), 0),
        (codings("gzip:6,br:5"), 103),
        (codings("gzip:5,br:5,zstd:1"), 103),
        (codings("zopfli:1"), 0),
        (codings("identity"), 0),
        (codings("gzip:6,br:6"), 0),
        (Options { codings_for: vec![rule], ..codings("gzip:6,br:6") }, 204),
        (Options { exclude: vec!["d*".to_owned()], ..codings("gzip:6,br:6") }, 4),
        (Options { security_fields: false, source_date_epoch: Some(1), ..codings("gzip") }, 3),
    ] {
        let made = make(&source, &path, &options);
        assert!(made.bytes == anew(&source, &options), "{options:?}");
        assert_eq!(made.summary.reused_codings, reused, "{:?}", options.codings);
    }
}

/// Other archives are reused too, but their data are checked.
#[test]
fn bodies_of_other_archives_are_reused() {
    let (source, elsewhere, out) = (site(), Folder::new(), Folder::new());
    let old = elsewhere.join("old.pinion");
    make(&source, &old, &later());
    source.file("more.html", page(120));
    let options = Options { reuse_from: vec![old], ..later() };
    let checks = |name: &str, options: &Options, is_known: bool| {
        let made = make(&source, &out.join(name), options);
        assert!(made.bytes == anew(&source, options));
        // One file is new, and an empty one has no body that could be reused.
        let unread = if is_known { made.summary.files - 2 } else { 0 };
        assert_eq!((made.summary.unread_files, made.summary.reused_codings), (unread, 2 * 103));
        assert_eq!(made.summary.warnings, []);
    };
    // The file of fingerprints of the other archive tells which files are unchanged.
    checks("known.pinion", &options, true);
    checks("not-asked.pinion", &Options { reuse: false, ..options.clone() }, false);
    fs::remove_file(elsewhere.join(".old.pinion.stat")).unwrap();
    checks("alone.pinion", &options, false);
}

#[test]
fn reuse_from_a_file_that_is_not_an_archive_is_warned_about() {
    let (source, out) = (site(), Folder::new());
    out.file("text", "not an archive");
    out.pipe("pipe");
    let files = ["none", "text", "pipe", "."].map(|name| out.join(name));
    let options = Options { reuse_from: files.to_vec(), ..later() };
    let made = make(&source, &out.join("site.pinion"), &options);
    assert!(made.bytes == anew(&source, &options));
    let lines: Vec<String> = made.summary.warnings.iter().map(Warning::to_string).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("nothing is reused from it: ")), "{lines:?}");
}

/// Every file of the folder is damaged in turn, or replaced by something else.
#[test]
fn damaged_reuse_files_do_not_change_the_result() {
    let (source, out) = (site(), Folder::new());
    let path = out.join("site.pinion");
    let first = make(&source, &path, &later());
    let whole = fs::read(stamps(&out)).unwrap();
    for (bytes, kept) in [
        (Vec::new(), 0),
        (whole[..whole.len() / 2].to_vec(), 0),
        (vec![0; whole.len()], 0),
        (whole.iter().map(|byte| byte ^ 1).collect(), 0),
        ([&whole[..], b"x"].concat(), 0),
        (whole.clone(), first.summary.files - 1),
    ] {
        fs::write(&path, &first.bytes).unwrap();
        fs::write(stamps(&out), &bytes).unwrap();
        let made = make(&source, &path, &later());
        assert!(made.bytes == first.bytes);
        assert_eq!(made.summary.unread_files, kept, "{} bytes", bytes.len());
        let foreign = !bytes.is_empty() && bytes[0] != whole[0] && bytes[0] != 0;
        assert_eq!(made.summary.warnings.contains(&Warning::StatCacheNotWritten), foreign);
        // After the rows is the identity of the archive, which differs each time.
        let rows = ..whole.len().saturating_sub(TRAILER_BYTES);
        assert_eq!(fs::read(stamps(&out)).unwrap()[rows] == whole[rows], !foreign);
    }
}

/// Replays the corpus of the fuzzer with the stable toolchain.
#[test]
fn the_corpus_of_reuse_keeps_the_law() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/reuse");
    let files: Vec<_> = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        println!("{}", file.display());
        crate::reuse_law::check(&fs::read(file).unwrap());
    }
}

/// A new body may fit into the padding between two that do not move.
#[test]
fn a_new_file_is_stored_between_two_unmoved_files() {
    for between in [1, 28, 4000] {
        let (source, out) = (Folder::new(), Folder::new());
        source.file("a.bin", noise(40));
        source.file("c.bin", noise(100_000));
        let path = out.join("site.pinion");
        make(&source, &path, &later());
        source.file("b.bin", vec![7; between]);
        let second = make(&source, &path, &later());
        assert_eq!(second.summary.unread_files, 2);
        assert!(second.bytes == anew(&source, &later()), "{between} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Files of all sizes are added, removed and changed among others: the archive is sound, and
    /// equal to that of a build from nothing.
    #[test]
    fn any_change_gives_the_result_of_a_full_build(
        sizes in prop::collection::vec(size(), 6..9),
        changes in prop::collection::vec((0usize..18, prop::option::weighted(0.8, size())), 1..6),
    ) {
        let (source, out) = (Folder::new(), Folder::new());
        let options = Options { codings: Vec::new(), ..later() };
        let write = |number: usize, round: u8, bytes: usize| {
            let mut content = noise(bytes as u64);
            content.iter_mut().take(2).for_each(|byte| *byte = number as u8 ^ round << 6);
            source.file(format!("{number:02}.bin"), content);
        };
        for (number, &bytes) in sizes.iter().enumerate() {
            write(2 * number, 0, bytes);
        }
        let path = out.join("site.pinion");
        make(&source, &path, &options);
        for (number, bytes) in changes {
            match bytes {
                Some(bytes) => write(number, 1, bytes),
                None => drop(fs::remove_file(source.join(format!("{number:02}.bin")))),
            }
            let made = make(&source, &path, &options);
            prop_assert!(made.bytes == anew(&source, &options));
            let report = pinion_archive::verify(&made.bytes, &mut |_, _| {}).unwrap();
            prop_assert!(report.damages.is_empty(), "{:?}", report.damages);
        }
    }
}

/// Names that are fingerprints together with enough similar ones, or because of their content
/// (`abc`).
const NAMES: [&str; 10] = [
    "assets/a.57a0d79d.css",
    "assets/b.83f73b43.css",
    "assets/index-BxK3q2_a.js",
    "assets/index-C-x2dF-Q.css",
    "assets/plain.css",
    "assets/vendor-DiwrgTda.js",
    "assets/x-iPhone15.png",
    "lone.ba7816bf.js",
    "lone.ungWv48Bz-.js",
    "page.html",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whether a name is a fingerprint depends on the other files in the folder: as these are added
    /// and removed, the archive is that of a build from nothing, although no file is read again.
    #[test]
    fn fingerprints_are_decided_as_in_a_full_build(
        rounds in prop::collection::vec(prop::collection::vec(any::<bool>(), NAMES.len()), 2..5),
        immutable in any::<bool>(),
    ) {
        let (source, out) = (Folder::new(), Folder::new());
        let immutable = immutable.then(|| "plain.*".to_owned()).into_iter().collect();
        let options = Options { codings: Vec::new(), immutable, ..later() };
        let path = out.join("site.pinion");
        for round in rounds {
            for (name, is_there) in NAMES.iter().zip(round) {
                let file = source.join(name);
                match is_there {
                    true if file.exists() => {}
                    true => source.file(name, "abc"),
                    false => drop(fs::remove_file(file)),
                }
            }
            let made = make(&source, &path, &options);
            prop_assert!(made.bytes == anew(&source, &options));
        }
    }
}

/// Generates sizes around those at which bodies are aligned.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 1usize..200, 1 => 3000usize..5000, 3 => 63_000usize..80_000]
}

/// A foreign file with that name is not overwritten.
#[test]
fn a_foreign_file_with_the_name_of_the_stat_cache_is_kept() {
    let (source, out) = (Folder::with(&[("a.html", "a")]), Folder::new());
    let path = out.join("site.pinion");
    fs::write(stamps(&out), "my notes").unwrap();
    assert_eq!(make(&source, &path, &later()).summary.warnings, [Warning::StatCacheNotWritten]);
    assert_eq!(fs::read(stamps(&out)).unwrap(), b"my notes");
    fs::remove_file(stamps(&out)).unwrap();
    out.pipe(".site.pinion.stat");
    assert_eq!(make(&source, &path, &later()).summary.warnings, [Warning::StatCacheNotWritten]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    /// Bytes of the older archive are changed, or it is cut or extended: the new archive is the
    /// same.
    #[test]
    fn a_damaged_previous_archive_does_not_change_the_result(
        places in prop::collection::vec((0.0f64..1.0, 1u8..=255), 1..30),
        cut in prop::option::weighted(0.2, 0.0f64..1.0),
        keeps_stamps in any::<bool>(),
    ) {
        let (source, out) = (Folder::new(), Folder::new());
        for number in 0..12 {
            source.file(format!("p{number}.html"), page(number));
        }
        let path = out.join("site.pinion");
        let first = make(&source, &path, &later());
        let mut bytes = first.bytes.clone();
        for (place, change) in places {
            let at = (place * bytes.len() as f64) as usize;
            bytes[at] ^= change;
        }
        if let Some(cut) = cut {
            bytes.truncate(8 + (cut * (bytes.len() - 8) as f64) as usize);
        }
        bytes[..8].copy_from_slice(&first.bytes[..8]);
        fs::write(&path, bytes).unwrap();
        if !keeps_stamps {
            fs::remove_file(stamps(&out)).unwrap();
        }
        prop_assert!(make(&source, &path, &later()).bytes == first.bytes);
    }
}

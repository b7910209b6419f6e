//! The reports of a build about its progress.

use std::num::NonZeroUsize;
use std::sync::Mutex;

use pinion_builder::limits::WORKED_MIN_BYTES;
use pinion_builder::{CodingEffort, Options, Progress, build, codings_at};

use crate::archive_reader::options;
use crate::temporary_folder::Folder;

#[derive(Debug, PartialEq, Eq)]
enum ReportedStep {
    Advanced(u64),
    Worked(u64),
}

#[derive(Default)]
struct Listener(Mutex<Vec<ReportedStep>>);

impl Progress for Listener {
    fn advanced(&self, _files: u64, bytes: u64) {
        self.0.lock().unwrap().push(ReportedStep::Advanced(bytes));
    }

    fn worked(&self, bytes: u64) {
        self.0.lock().unwrap().push(ReportedStep::Worked(bytes));
    }
}

/// Builds with one thread, so that the reports are always the same.
fn reported_steps(folder: &Folder, codings: &str) -> Vec<ReportedStep> {
    let codings = codings_at(codings, CodingEffort::Best).unwrap();
    let options = Options { threads: NonZeroUsize::new(1), codings, ..options() };
    let listener = Listener::default();
    build(folder.path(), &options, std::io::Cursor::new(Vec::new()), &listener).unwrap();
    listener.0.into_inner().unwrap()
}

fn text(bytes: u64) -> String {
    let words = (0..bytes / 8).map(|number| format!("{:07} ", number * number % 9_999_991));
    words.collect::<String>()
}

#[test]
fn progress_moves_while_one_large_file_is_encoded() {
    let folder = Folder::new();
    let bytes = 6 * WORKED_MIN_BYTES;
    folder.file("large.txt", text(bytes));
    folder.file("small.txt", "small");
    let steps = reported_steps(&folder, "gzip:1,br:4,zstd:3");
    assert_eq!(steps, reported_steps(&folder, "gzip:1,br:4,zstd:3"));
    let worked = |step: &ReportedStep| match step {
        ReportedStep::Worked(bytes) => Some(*bytes),
        ReportedStep::Advanced(_) => None,
    };
    let of_large: Vec<u64> = steps.iter().filter_map(worked).collect();
    // gzip is reported at its end, brotli after each mebibyte, zstd after each four, each with its
    // work.
    let (gzip, brotli, zstd) = (25, 96, 23);
    let of_brotli = (0..=6).map(|sixth| 6 * gzip + sixth * brotli);
    let of_zstd = [4, 6].map(|sixth| 6 * (gzip + brotli) + sixth * zstd);
    let all = gzip + brotli + zstd;
    let expected: Vec<u64> =
        of_brotli.chain(of_zstd).map(|sixths| bytes * sixths / 6 / all).collect();
    assert_eq!(of_large, expected);
    // All of the work is reported before the file is added.
    let end = steps.iter().position(|step| *step == ReportedStep::Worked(bytes));
    let taken =
        steps.iter().position(|step| matches!(step, ReportedStep::Advanced(all) if *all >= bytes));
    assert!(end.is_some() && end < taken, "{steps:?}");
    assert_eq!(steps.last(), Some(&ReportedStep::Advanced(bytes + 5)));
}

#[test]
fn reported_work_never_falls_behind_the_bytes_of_finished_files() {
    let folder = Folder::new();
    folder.file("a.txt", text(2 * WORKED_MIN_BYTES));
    folder.file("b.txt", text(3 * WORKED_MIN_BYTES));
    folder.file("copy-of-a.txt", text(2 * WORKED_MIN_BYTES));
    (0..50).for_each(|number| folder.file(format!("{number}.txt"), text(number * 100)));
    let mut last = 0;
    for step in reported_steps(&folder, "br:4,gzip:1") {
        match step {
            ReportedStep::Worked(bytes) => {
                assert!(bytes > last);
                last = bytes;
            }
            ReportedStep::Advanced(bytes) => last = last.max(bytes),
        }
    }
    assert!(last > 7 * WORKED_MIN_BYTES);
}

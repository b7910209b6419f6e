//! Same input, same bytes.

use std::num::NonZeroUsize;

use pinion_builder::{Options, build_file};
use proptest::prelude::*;

use crate::archive_reader::{NOW, built_with, options};
use crate::temporary_folder::Folder;

fn with_threads(threads: usize) -> Options {
    Options { threads: NonZeroUsize::new(threads), ..options() }
}

/// Many files, many of them with equal content, more batches than workers.
fn crowd(folder: &Folder, order: impl Iterator<Item = usize>) {
    for number in order {
        let content = format!("body {} {{ color: red }}\n", number % 20).repeat(1 + number % 30);
        let extension = ["css", "html", "png"][number % 3];
        folder.file(format!("d{}/f{number}.{extension}", number % 7), content);
    }
}

#[test]
fn threads_path_and_directory_order_do_not_change_the_archive() {
    let (one, two) = (Folder::new(), Folder::new());
    crowd(&one, 0..400);
    crowd(&two, (0..400).rev());
    let expected = built_with(&one, &with_threads(1)).unwrap();
    assert!(expected.summary.repeated_files > 100);
    for threads in [1, 2, 3, 8] {
        for folder in [&one, &two] {
            let site = built_with(folder, &with_threads(threads)).unwrap();
            assert!(site.bytes == expected.bytes, "{threads} threads");
        }
    }
}

#[test]
fn the_clock_does_not_change_the_archive() {
    let folder = Folder::with(&[("a.html", "a"), ("b.html", "b")]);
    folder.modified("b.html", NOW as u64 - 1);
    let at = |now: i64, epoch: Option<i64>| {
        let options = Options { now, source_date_epoch: epoch, ..options() };
        built_with(&folder, &options).unwrap().bytes
    };
    assert!(at(NOW, None) == at(NOW + 1_000_000_000, None));
    // Only a file from the future makes a difference, and an epoch in the past takes that away.
    assert!(at(NOW, None) != at(NOW - 2, None));
    assert!(at(NOW, Some(NOW - 10)) == at(NOW - 2, Some(NOW - 10)));
}

#[test]
fn every_input_changes_the_archive() {
    let base = Folder::with(&[("a.html", "a")]);
    let bytes = |folder: &Folder, options: &Options| built_with(folder, options).unwrap().bytes;
    let expected = bytes(&base, &options());
    let other_name = Folder::with(&[("b.html", "a")]);
    let other_content = Folder::with(&[("a.html", "b")]);
    let other_time = Folder::with(&[("a.html", "a")]);
    other_time.modified("a.html", 1_000_000_000);
    for folder in [other_name, other_content, other_time] {
        assert!(bytes(&folder, &options()) != expected);
    }
    for options in [
        Options { codings: Vec::new(), ..options() },
        Options { cache_control: Some("no-cache".to_owned()), ..options() },
        Options { security_fields: false, ..options() },
        Options { source_date_epoch: Some(1), ..options() },
    ] {
        assert!(bytes(&base, &options) != expected, "{options:?}");
    }
}

#[test]
fn a_build_to_a_file_equals_a_build_to_memory() {
    let (folder, out) = (Folder::with(&[("a.html", "a")]), Folder::new());
    let path = out.join("site.pinion");
    build_file(folder.path(), &options(), &path, &()).unwrap();
    assert!(std::fs::read(path).unwrap() == built_with(&folder, &options()).unwrap().bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    /// Contents that repeat, in types that are tried and types that are not: for any timing of the
    /// workers, the bytes are those of one worker.
    #[test]
    fn thread_timing_does_not_change_the_archive(
        files in prop::collection::vec((0usize..6, 0usize..3), 1..120),
        threads in 2usize..6,
    ) {
        let folder = Folder::new();
        for (number, (content, extension)) in files.iter().enumerate() {
            let extension = ["css", "html", "png"][*extension];
            folder.file(format!("{number}.{extension}"), format!("x{content} ").repeat(3000));
        }
        let expected = built_with(&folder, &with_threads(1)).unwrap().bytes;
        let bytes = built_with(&folder, &with_threads(threads)).unwrap().bytes;
        prop_assert!(bytes == expected);
    }
}

//! Large files: streamed into an archive, or left outside when a folder is served.

use std::fs::File;
use std::os::unix::fs::FileExt;

use pinion_builder::limits::{EXTERNAL_MIN_BYTES, HELD_MAX_BYTES};
use pinion_builder::{Options, Warning};
use pinion_http::content_coding::Coding;

use crate::archive_reader::{NOW, built, built_with};
use crate::temporary_folder::Folder;

#[test]
fn a_file_too_large_for_memory_is_copied_as_it_is() {
    let folder = Folder::with(&[("a.txt", "begin"), ("b.txt", "begin")]);
    for name in ["a.txt", "b.txt"] {
        let file = File::options().write(true).open(folder.join(name)).unwrap();
        file.set_len(HELD_MAX_BYTES + 1).unwrap();
        folder.modified(name, 1_577_836_800);
    }
    let site = built(&folder);
    let page = site.page("/a.txt");
    assert_eq!(page.codings(), [Coding::Identity]);
    let stored = page.forms[0].stored.as_deref().unwrap();
    assert_eq!(stored.len() as u64, HELD_MAX_BYTES + 1);
    assert!(stored.starts_with(b"begin\0") && stored[5..].iter().all(|&byte| byte == 0));
    assert_eq!(page.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(site.page("/b.txt"), page);
    assert_eq!(site.summary.repeated_bytes, HELD_MAX_BYTES + 1);
    assert!((site.bytes.len() as u64) < 2 * HELD_MAX_BYTES);
    let large = |name: &str| Warning::TooLargeToEncode(name.into());
    assert_eq!(site.summary.warnings, [large("a.txt"), large("b.txt")]);
}

#[test]
fn large_files_of_a_served_folder_remain_outside_the_archive() {
    let folder = Folder::new();
    let large = vec![b'x'; EXTERNAL_MIN_BYTES as usize + 1];
    folder.file("a.txt", &large);
    folder.file("b", [&large[..], "ü".as_bytes(), b"\xff"].concat());
    folder.file("edge.txt", &large[1..]);
    let site = built_with(&folder, &Options::serving(NOW)).unwrap();
    assert_eq!(site.page("/edge.txt").codings().len(), 3);
    for (number, key) in ["/a.txt", "/b"].into_iter().enumerate() {
        let page = site.page(key);
        assert_eq!(page.codings(), [Coding::Identity]);
        assert_eq!(page.forms[0].stored, None, "outside");
        let expected = std::fs::read(folder.join(&key[1..])).unwrap();
        let mut content = vec![0; expected.len()];
        site.externals[number].read_exact_at(&mut content, 0).unwrap();
        assert!(content == expected);
    }
    assert_eq!(site.summary.external_files, 2);
    assert_eq!(site.page("/a").target.as_deref(), Some("/a.txt"));
    assert_eq!(site.page("/a.txt").field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(site.page("/b").field("Content-Type"), Some("text/plain"), "not UTF-8 at its end");
}

/// The tag of a file that is not read changes with its state.
#[test]
fn tags_of_external_files_change_with_their_state() {
    let folder = Folder::new();
    let large = vec![b'x'; EXTERNAL_MIN_BYTES as usize + 1];
    folder.file("a.bin", &large);
    folder.file("b.bin", &large);
    let tag = |key: &str| {
        let site = built_with(&folder, &Options::serving(NOW)).unwrap();
        site.page(key).forms[0].etag.clone()
    };
    let first = tag("/a.bin");
    assert_eq!(tag("/a.bin"), first);
    assert_ne!(tag("/b.bin"), first);
    folder.modified("a.bin", 1);
    assert_ne!(tag("/a.bin"), first);
}

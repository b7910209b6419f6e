//! A second build opens no file that has not changed, according to the kernel.

use pinion_tests::server::build;
use pinion_tests::temporary_folder::Folder;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Watches a folder for opened files.
struct Opened(OwnedFd);

impl Opened {
    fn watch(folder: &Path) -> Opened {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("inotify");
        inotify::add_watch(&watch, folder, WatchFlags::OPEN).expect("a watch");
        Opened(watch)
    }

    /// Returns the names of the files that were opened since the last call, each once.
    fn files(&self) -> Vec<String> {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.0, &mut space);
        let mut names = Vec::new();
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::ISDIR) => {}
                Ok(event) => {
                    let name = event.file_name().expect("a name in the folder");
                    names.push(name.to_str().expect("ASCII").to_owned());
                }
                Err(Errno::WOULDBLOCK) => break,
                Err(error) => panic!("{error}"),
            }
        }
        names.sort();
        names.dedup();
        names
    }
}

/// A file that was written in the last seconds could be changed once more without a trace, so a
/// build reads it again. The test waits until the file is old enough.
fn let_settle() {
    thread::sleep(Duration::from_secs(4));
}

#[test]
fn only_changed_files_are_opened() {
    let folder = Folder::new("unchanged");
    for name in ["a.html", "b.css", "c.png"] {
        folder.write(format!("site/{name}"), name.repeat(1000));
    }
    let_settle();
    let (site, archive) = (folder.join("site"), folder.join("site.pinion"));
    let opened = Opened::watch(&site);
    build(&site, &archive, &[]);
    assert_eq!(opened.files(), ["a.html", "b.css", "c.png"], "or this test hears nothing");
    build(&site, &archive, &[]);
    assert_eq!(opened.files(), Vec::<String>::new());
    folder.write("site/b.css", "b{}");
    opened.files();
    build(&site, &archive, &[]);
    assert_eq!(opened.files(), ["b.css"]);
    // Another archive, without a file of fingerprints.
    build(&site, &folder.join("other.pinion"), &[]);
    assert_eq!(opened.files(), ["a.html", "b.css", "c.png"]);
    // The archive that is named for reuse has a file of fingerprints.
    let_settle();
    let last = archive.to_str().expect("UTF-8");
    build(&site, &archive, &[]);
    opened.files();
    build(&site, &folder.join("third.pinion"), &["--reuse", last]);
    assert_eq!(opened.files(), Vec::<String>::new());
    build(&site, &folder.join("fourth.pinion"), &["--reuse", last, "--no-reuse"]);
    assert_eq!(opened.files(), ["a.html", "b.css", "c.png"]);
    let bytes = |name: &str| fs::read(folder.join(name)).expect("an archive");
    assert!(bytes("third.pinion") == bytes("fourth.pinion"));
}

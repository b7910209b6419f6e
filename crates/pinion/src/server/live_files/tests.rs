use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A folder that is removed at the end.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("pinion-live-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, content).expect("written");
    }

    fn live(&self, folders: &[&str]) -> LiveFiles {
        let folders: Vec<LiveFolder> =
            folders.iter().map(|text| LiveFolder::parse(text).expect(text)).collect();
        let names = NameFilter::new(&[], &[]).expect("no patterns");
        let settings =
            LiveFileSettings { cache_control: None, serves_index: true, redirects_slashes: true };
        LiveFiles::open(&folders, Some(&self.0), names, [".php"].into_iter(), settings)
            .expect("open folders")
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// Describes in words the result for a path.
fn found(live: &LiveFiles, path: &str) -> String {
    match live.find(path.as_bytes()) {
        LiveOutcome::Nothing => "nothing".to_owned(),
        LiveOutcome::File(file) => {
            assert!(file.is_unchanged());
            String::from_utf8(file.path).expect("text")
        }
        LiveOutcome::SlashRedirect => "redirect".to_owned(),
        LiveOutcome::Withheld => "withheld".to_owned(),
        LiveOutcome::Failed(failure) => failure.to_string(),
    }
}

#[test]
fn the_longest_matching_folder_decides() {
    let folder = TestFolder::new();
    for name in ["a/x.txt", "a/b/y.txt", "c/z.txt", "a/index.html"] {
        folder.write(name, name);
    }
    let inner = format!("/a/b={}", folder.0.join("c").display());
    let live = folder.live(&["a", &inner]);
    for (path, expected) in [
        ("/a/x.txt", "/a/x.txt"),
        ("/a/b/z.txt", "/a/b/z.txt"),
        ("/a/b/y.txt", "nothing"),
        ("/a/b/", "nothing"),
        ("/a/b", "nothing"),
        ("/a", "redirect"),
        ("/a/", "/a/index.html"),
        ("/ax.txt", "nothing"),
        ("/c/z.txt", "nothing"),
        ("/", "nothing"),
        ("/a/.env", "withheld"),
        ("/a/x.php", "nothing"),
        ("/a/x.phtml", "withheld"),
    ] {
        assert_eq!(found(&live, path), expected, "{path}");
    }
    let disk_path = live.disk_path(b"/a/b/z.txt").expect("a folder");
    assert_eq!(disk_path, folder.0.join("c/z.txt"));
    assert!(live.responses(b"/a/%78.txt") && live.responses(b"/a/.env"));
    assert!(!live.responses(b"/a/q.txt") && !live.responses(b"/a/x.txt%00"));
}

#[test]
fn a_folder_of_the_site_is_looked_up_again_for_each_path() {
    let folder = TestFolder::new();
    folder.write("a/x.txt", "x");
    folder.write("secret/x.txt", "secret");
    let live = folder.live(&["a"]);
    assert_eq!(found(&live, "/a/x.txt"), "/a/x.txt");
    fs::rename(folder.0.join("a"), folder.0.join("b")).expect("renamed");
    assert_eq!(found(&live, "/a/x.txt"), "nothing");
    symlink("secret", folder.0.join("a")).expect("a link");
    assert_eq!(found(&live, "/a/x.txt"), "nothing");
    fs::remove_file(folder.0.join("a")).expect("removed");
    folder.write("a/x.txt", "x");
    assert_eq!(found(&live, "/a/x.txt"), "/a/x.txt");
}

#[test]
fn a_stamp_distinguishes_states_of_a_file() {
    let folder = TestFolder::new();
    folder.write("a/x.txt", "x");
    let live = folder.live(&["a"]);
    let LiveOutcome::File(file) = live.find(b"/a/x.txt") else { panic!("no file") };
    let FileStamp { bytes, modified, .. } = file.stamp;
    assert_eq!(bytes, 1);
    assert!(!file.stamp.is_settled(modified) && !file.stamp.is_settled(modified - 100));
    assert!(!file.stamp.is_settled(modified + SETTLED_AFTER_SECONDS - 1));
    assert!(file.stamp.is_settled(modified + SETTLED_AFTER_SECONDS));
    folder.write("a/x.txt", "xy");
    assert!(!file.is_unchanged());
    let LiveOutcome::File(other) = live.find(b"/a/x.txt") else { panic!("no file") };
    assert_ne!(other.stamp.etag(), file.stamp.etag());
    assert!(other.stamp.etag().bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'));
}

mod any_path {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A result is a file below the folder, by one name that no other path has.
        #[test]
        fn only_clean_paths_have_files(rest in "(/|[.]|a|\\\\|\n|\u{7f}|x[.]txt){0,8}") {
            let path = format!("/m{rest}");
            let folder = FOLDER.with(|(_, live)| found(live, &path));
            let is_known = ["/m/x.txt", "/m/a/x.txt", "/m/a/a"].contains(&path.as_str());
            prop_assert_eq!(folder == path, is_known, "{}: {}", path, folder);
            prop_assert!(!folder.contains("secret"));
        }
    }

    thread_local! {
        static FOLDER: (TestFolder, LiveFiles) = {
            let folder = TestFolder::new();
            for name in ["m/x.txt", "m/a/x.txt", "m/a/a", "x.txt", "a/secret"] {
                folder.write(name, name);
            }
            let live = folder.live(&["m"]);
            (folder, live)
        };
    }
}

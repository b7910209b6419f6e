//! Tests of the files that paths can and cannot reach.

use super::*;
use crate::limits::{FILE_READ_MAX_BYTES, FILES_LISTED_MAX};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder that is removed with the value. It has the folders `data` and `shown`, and
/// `secret` beside them.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinion-files-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for folder in ["data/sub", "shown"] {
            fs::create_dir_all(path.join(folder)).expect("a folder");
        }
        for file in ["secret", "data/sub/inner", "shown/page.html"] {
            fs::write(path.join(file), file).expect("a file");
        }
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn folders(&self) -> Folders {
        let at = |name: &str, is_read_only| FolderAt {
            name: name.to_owned(),
            path: self.path(name),
            is_read_only,
        };
        Folders::open(&[at("data", false), at("shown", true)], |_| None).expect("opened")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn read(folders: &Folders, name: &str) -> Result<String, String> {
    let content =
        folders.read(name.as_bytes(), None, None, u64::MAX).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&content).into_owned())
}

fn why<T: fmt::Debug>(outcome: Result<T, FileError>) -> String {
    outcome.expect_err("an error").to_string()
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

#[test]
fn files_are_written_read_and_removed() {
    let place = Place::new();
    let folders = place.folders();
    assert_eq!(read(&folders, "data/sub/inner").as_deref(), Ok("data/sub/inner"));
    assert_eq!(folders.write(b"data/new", b"one"), Ok(()));
    assert_eq!(folders.append(b"data/new", b" two"), Ok(()));
    assert_eq!(folders.append(b"data/log", b"line"), Ok(()));
    assert_eq!(read(&folders, "data/new").as_deref(), Ok("one two"));
    let part = |from, bytes| folders.read(b"data/new", from, bytes, u64::MAX);
    assert_eq!(part(Some(4), None), Ok(b"two".to_vec()));
    assert_eq!(part(Some(1), Some(2)), Ok(b"ne".to_vec()));
    assert_eq!(part(Some(7), Some(2)), Ok(Vec::new()));
    assert_eq!(part(Some(u64::MAX), Some(u64::MAX)), Ok(Vec::new()));
    assert_eq!(folders.make_folder(b"data/made"), Ok(()));
    assert!(why(folders.make_folder(b"data/made")).contains("exists already"));
    assert_eq!(folders.rename(b"data/new", b"data/made/old"), Ok(()));
    assert_eq!(read(&folders, "data/made/old").as_deref(), Ok("one two"));
    let listed = folders.list(b"data").expect("a list");
    assert_eq!(listed, ["log", "made", "sub"].map(|name| name.as_bytes().to_vec()));
    assert!(why(folders.remove(b"data/made")).contains("not empty"));
    assert_eq!(folders.remove(b"data/made/old"), Ok(()));
    assert_eq!(folders.remove(b"data/made"), Ok(()));
    assert_eq!(names(&place.path("data")), ["log", "sub"]);
}

#[test]
fn a_replaced_file_keeps_its_permissions_and_leaves_no_draft() {
    let place = Place::new();
    let (folders, path) = (place.folders(), place.path("data/f"));
    folders.write(b"data/f", b"old").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    let before = fs::metadata(&path).expect("there").ino();
    folders.write(b"data/f", b"new").expect("written");
    let after = fs::metadata(&path).expect("there");
    assert_eq!(after.mode() & 0o777, 0o600);
    assert_ne!(after.ino(), before, "who has the old one open keeps it whole");
    assert!(why(folders.write(b"data/sub", b"text")).contains("folder"));
    assert_eq!(names(&place.path("data")), ["f", "sub"]);
    fs::write(place.path("data/.pinion-draft-1"), "left").expect("written");
    assert_eq!(folders.list(b"data").expect("a list").len(), 2);
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let place = Place::new();
    let folders = place.folders();
    symlink("..", place.path("data/up")).expect("a link");
    symlink("../secret", place.path("data/leak")).expect("a link");
    symlink("sub/inner", place.path("data/inside")).expect("a link");
    symlink(place.path("secret"), place.path("data/absolute")).expect("a link");
    let long = format!("data/{}", "x/".repeat(600));
    let segment = format!("data/{}", "x".repeat(256));
    for name in [
        "",
        "/",
        "data/",
        "/data/sub/inner",
        "../secret",
        "data/../secret",
        "data/sub/../../secret",
        "data/./sub/inner",
        "data//sub/inner",
        "data/up/secret",
        "data/leak",
        "data/inside",
        "data/absolute",
        "data/sub/inner\0",
        "data/sub/inner/x",
        "secret",
        "other/x",
        ".",
        "..",
        &long,
        &segment,
    ] {
        read(&folders, name).expect_err(name);
        folders.append(name.as_bytes(), b"changed").expect_err(name);
    }
    // Operations that create or remove names act on the link, never on its target.
    folders.write(b"data/leak", b"changed").expect("the link is replaced");
    folders.remove(b"data/absolute").expect("the link is removed");
    folders.write(b"data/up/secret", b"changed").expect_err("out");
    folders.remove(b"data/up/secret").expect_err("out");
    folders.rename(b"data/up/secret", b"data/mine").expect_err("out");
    folders.rename(b"data/sub", b"data/up/mine").expect_err("out");
    folders.make_folder(b"data/up/mine").expect_err("out");
    folders.list(b"data/up").expect_err("out");
    assert_eq!(folders.stat(b"data/up").expect("a link").kind, FileKind::Other);
    assert_eq!(fs::read(place.path("secret")).expect("there"), b"secret");
    assert_eq!(fs::read(place.path("data/sub/inner")).expect("there"), b"data/sub/inner");
    for itself in
        [folders.remove(b"data"), folders.write(b"data", b""), folders.append(b"data", b"")]
    {
        itself.expect_err("the folder itself");
    }
}

#[test]
fn files_of_read_only_folders_cannot_be_changed() {
    let place = Place::new();
    let folders = place.folders();
    assert_eq!(read(&folders, "shown/page.html").as_deref(), Ok("shown/page.html"));
    let (page, new): (&[u8], &[u8]) = (b"shown/page.html", b"shown/new");
    for outcome in [
        folders.write(page, b"x"),
        folders.append(page, b"x"),
        folders.remove(page),
        folders.make_folder(new),
        folders.rename(page, new),
        folders.rename(page, b"data/new"),
        folders.rename(b"data/sub/inner", new),
    ] {
        assert!(why(outcome).contains("read-only"));
    }
    assert_eq!(names(&place.path("shown")), ["page.html"]);
    let none = Folders::default().read(b"data/x", None, None, u64::MAX).expect_err("no folders");
    assert_eq!(none.kind, FileErrorKind::NoFolders);
}

#[test]
fn only_regular_files_are_read_and_pipes_do_not_block() {
    let place = Place::new();
    let folders = place.folders();
    let pipe = place.path("data/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("a pipe");
    assert!(read(&folders, "data/pipe").expect_err("a pipe").contains("neither"));
    assert!(why(folders.append(b"data/pipe", b"x")).contains("neither"));
    assert!(read(&folders, "data/sub").expect_err("a folder").contains("folder"));
}

#[test]
fn reads_and_listings_beyond_the_limits_are_refused() {
    let place = Place::new();
    let folders = place.folders();
    let large = fs::File::create(place.path("data/large")).expect("a file");
    large.set_len(FILE_READ_MAX_BYTES + 1).expect("a length");
    assert!(read(&folders, "data/large").expect_err("too large").contains("16 MiB"));
    let end = folders.read(b"data/large", Some(FILE_READ_MAX_BYTES), None, u64::MAX);
    assert_eq!(end, Ok(vec![0]));
    let less = folders.read(b"data/large", None, Some(2 << 20), 1 << 20);
    assert!(why(less).contains("at most 1 MiB"));
    for number in 0..=FILES_LISTED_MAX {
        fs::write(place.path(&format!("data/sub/{number}")), "").expect("a file");
    }
    assert!(why(folders.list(b"data/sub")).contains("10000"));
}

#[test]
fn an_error_names_the_folder_that_does_not_exist() {
    let place = Place::new();
    for (name, why) in [
        ("none", "none does not exist; create it, or remove the setting"),
        ("data:rw", "data:rw does not exist; only `:ro` may follow the path, not `:rw`"),
        ("secret", "secret is not a folder"),
    ] {
        let path = place.path(name);
        let at = [FolderAt { name: "x".to_owned(), path, is_read_only: true }];
        let error = Folders::open(&at, |_| None).expect_err("none");
        assert!(error.ends_with(why), "{error}");
    }
}

/// An error names the operation, the file and the cause.
#[test]
fn errors_name_the_action_and_the_file() {
    let place = Place::new();
    let folders = place.folders();
    let missing = "the folder \"data/no\" does not exist";
    for (outcome, text) in [
        (
            folders.read(b"data/x", None, None, u64::MAX).map(drop),
            "cannot read \"data/x\": no such file",
        ),
        (
            folders.read(b"/etc/passwd", None, None, u64::MAX).map(drop),
            "cannot read \"/etc/passwd\": not a valid path",
        ),
        (folders.write(b"data/no/x", b"a"), &*format!("cannot write \"data/no/x\": {missing}")),
        (folders.create(b"data/no/x", b"a"), &format!("cannot create \"data/no/x\": {missing}")),
        (folders.append(b"data/no/x", b"a"), &format!("cannot append to \"data/no/x\": {missing}")),
        (
            folders.make_folder(b"data/no/x"),
            &format!("cannot create the folder \"data/no/x\": {missing}"),
        ),
        (
            folders.make_folder(b"data/sub"),
            "cannot create the folder \"data/sub\": it exists already",
        ),
        (folders.list(b"data/no").map(drop), "cannot list \"data/no\": no such folder"),
        (
            folders.list(b"data/sub/inner").map(drop),
            "cannot list \"data/sub/inner\": it is not a folder",
        ),
        (folders.stat(b"data/no").map(drop), "cannot look up \"data/no\": no such file or folder"),
        (folders.remove(b"data/no/x"), "cannot remove \"data/no/x\": no such file or folder"),
        (
            folders.rename(b"data/no", b"data/x"),
            "cannot rename \"data/no\" to \"data/x\": no such file or folder",
        ),
        (
            folders.rename(b"data/sub", b"data/no/x"),
            &format!("cannot rename \"data/sub\" to \"data/no/x\": {missing}"),
        ),
    ] {
        assert_eq!(why(outcome), text);
    }
}

proptest! {
    #[test]
    fn a_valid_name_is_a_folder_and_plain_segments(name in "[a./\0]{0,12}|(a/|[.]{1,2}/){0,4}a") {
        if let Ok((folder, path)) = split(name.as_bytes(), String::new) {
            prop_assert!(!folder.contains(&b'/'));
            let whole = if path == ITSELF { folder.to_vec() } else { [folder, path].join(&b'/') };
            prop_assert_eq!(whole, name.as_bytes());
            let odd = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains('\0');
            prop_assert!(!name.split('/').any(odd));
        }
    }
}

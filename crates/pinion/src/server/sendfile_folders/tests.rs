use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

/// Folders with files, a secret beside them, and everything that is no file.
struct Disk(PathBuf);

impl Disk {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pinion-sent-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("files/a/b")).expect("folders");
        fs::create_dir_all(path.join("filesystem")).expect("folders");
        for name in ["files/x.txt", "files/a/b/y z.txt", "files/100%25.txt", "filesystem/x.txt"] {
            fs::write(path.join(name), name).expect("written");
        }
        fs::write(path.join("secret"), "secret").expect("written");
        symlink("../secret", path.join("files/link")).expect("a link");
        symlink("..", path.join("files/up")).expect("a link");
        symlink("files", path.join("current")).expect("a link");
        Self(path)
    }

    fn folders(&self, named: &[&str]) -> SentFolders {
        let folder = |text: &&str| {
            let text = text.replace("DISK", self.0.to_str().expect("text"));
            SentFolder::parse(&text).expect("a folder")
        };
        SentFolders::new(named.iter().map(folder).collect())
    }

    /// Describes the result in words.
    fn found(&self, folders: &SentFolders, named: &FileReference) -> String {
        match folders.file(named) {
            Ok(file) => String::from_utf8(file.path).expect("text"),
            Err(error) => format!("{} {error}", error.status()),
        }
    }

    fn at(&self, folders: &SentFolders, path: &str) -> String {
        self.found(folders, &FileReference::UrlPath(path.as_bytes().into()))
    }

    fn on_disk(&self, folders: &SentFolders, path: &str) -> String {
        let path = path.replace("DISK", self.0.to_str().expect("text"));
        self.found(folders, &FileReference::DiskPath(path.as_bytes().into()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_path_of_urls_is_decoded_once() {
    let disk = Disk::new("urls");
    let folders = disk.folders(&["/protected=DISK/files", "/protected/deep=DISK/files/a"]);
    for (path, found) in [
        ("/protected/x.txt", "x.txt"),
        ("/protected//x.txt?a=b", "x.txt"),
        ("//protected/%78.txt", "x.txt"),
        ("/protected/a/b/y%20z.txt", "a/b/y z.txt"),
        ("/protected/deep/b/y z.txt", "b/y z.txt"),
        ("/protected/100%2525.txt", "100%25.txt"),
    ] {
        assert_eq!(disk.at(&folders, path), found, "{path}");
    }
    for path in [
        "",
        "protected/x.txt",
        "/protected/../secret",
        "/protected/%2e%2e/secret",
        "/protected/./x.txt",
        "/protected/x.txt%00",
        "/protected/%7",
        "https://example.org/protected/x.txt",
    ] {
        assert!(disk.at(&folders, path).starts_with("502 is no absolute path"), "{path}");
    }
    for path in ["/x.txt", "/protectedx/x.txt", "/protected", "/protected/", "/"] {
        assert!(disk.at(&folders, path).starts_with("502 is in no folder of send-files (/prot"));
    }
}

#[test]
fn a_path_of_the_disk_is_below_a_folder_and_is_not_decoded() {
    let disk = Disk::new("disk");
    let folders = disk.folders(&["DISK/files", "/app=DISK/current/a"]);
    for (path, found) in [
        ("DISK/files/x.txt", "x.txt"),
        ("DISK//files///x.txt", "x.txt"),
        ("DISK/files/100%25.txt", "100%25.txt"),
        ("DISK/files/a/b/y z.txt", "a/b/y z.txt"),
        ("DISK/current/a/b/y z.txt", "b/y z.txt"),
    ] {
        assert_eq!(disk.on_disk(&folders, path), found, "{path}");
    }
    // The application may know the folder by its real path.
    let real = disk.folders(&["DISK/current"]);
    assert_eq!(disk.on_disk(&real, "DISK/files/x.txt"), "x.txt");
    for path in ["DISK/secret", "DISK/filesystem/x.txt", "DISK/files", "/etc/passwd", "/"] {
        assert!(disk.on_disk(&folders, path).starts_with("502 is in no folder"), "{path}");
    }
    for path in ["x.txt", "DISK/files/../secret", "DISK/files/a/../../secret", "DISK/files/x\0"] {
        assert!(disk.on_disk(&folders, path).starts_with("502 is no absolute path"), "{path}");
    }
    // A folder without a path in URLs has none.
    assert!(disk.at(&folders, "/files/x.txt").starts_with("502 is in no folder"));
}

#[test]
fn only_regular_files_are_sent() {
    let disk = Disk::new("kinds");
    let _socket = UnixListener::bind(disk.0.join("files/socket")).expect("a socket");
    let fifo = disk.0.join("files/fifo");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).expect("a pipe");
    let folders = disk.folders(&["DISK/files"]);
    for (name, why) in [
        ("none", "no such file"),
        ("x.txt/y", "not a directory"),
        ("a", "is no regular file"),
        ("fifo", "is no regular file"),
        ("socket", "no such device"),
        ("link", "is a symbolic link"),
        ("up/secret", "is a symbolic link"),
    ] {
        let found = disk.on_disk(&folders, &format!("DISK/files/{name}"));
        assert!(found.starts_with("404 ") && found.contains(why), "{name}: {found}");
        assert!(found.contains(&format!("files/{name}")), "{found}");
    }
    let twice = disk.found(&folders, &FileReference::Repeated("X-Sendfile"));
    assert_eq!(twice, "502 is there more than once");
}

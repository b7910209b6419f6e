//! Tests of the script that a path names, and of the rule that no path names any other file.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const FILES: [&str; 8] = [
    "index.php",
    "admin/index.php",
    "admin/tool.php",
    "photo.jpg",
    "uploads/evil.php",
    "uploads/index.php",
    "dir.php/real.php",
    ".hidden.php",
];

fn folder() -> ScriptFolder {
    ScriptFolder {
        root: PathBuf::from("/srv/site"),
        application_root: application_root(Path::new("/srv/site/")),
        mount: PathPrefix::new("/"),
        extension: ".php".into(),
        index: "index.php".into(),
        has_front_controller: true,
        no_exec: vec![b"uploads"[..].into()],
    }
}

fn kind(path: &[u8]) -> Option<FileKind> {
    let path = std::str::from_utf8(path).ok()?;
    let is_below = |file: &&str| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    if FILES.contains(&path) {
        Some(FileKind::File)
    } else if FILES.iter().any(is_below) {
        Some(FileKind::Folder)
    } else {
        None
    }
}

fn located(folder: &ScriptFolder, path: &str) -> String {
    match folder.locate_among(path.as_bytes(), kind) {
        ScriptLocation::Script(LocatedScript { name, path_info }) => {
            format!("{} {}", name.escape_ascii(), path_info.escape_ascii())
        }
        ScriptLocation::MissingSlash => "slash".to_owned(),
        ScriptLocation::NotFound => "none".to_owned(),
    }
}

#[test]
fn a_path_names_one_script() {
    let folder = folder();
    for (path, expected) in [
        ("/", "/index.php "),
        ("/index.php", "/index.php "),
        ("/index.php/a/b", "/index.php /a/b"),
        ("/index.php/", "/index.php /"),
        ("/index.php/x.php", "/index.php /x.php"),
        ("/%69ndex.p%68p/a%20b", "/index.php /a b"),
        ("/admin/", "/admin/index.php "),
        ("/admin", "slash"),
        ("/admin/tool.php", "/admin/tool.php "),
        // A path without a script goes to the front controller, without a path after it.
        ("/pretty/url", "/index.php "),
        ("/missing.php", "/index.php "),
        ("/photo.jpg", "/index.php "),
        ("/INDEX.PHP", "/index.php "),
        // No script is found in a folder without scripts.
        ("/uploads/evil.php", "none"),
        ("/uploads/evil.php/x", "none"),
        ("/uploads/", "/index.php "),
        ("/uploads", "/index.php "),
        ("/uploadsx/evil.php", "/index.php "),
    ] {
        assert_eq!(located(&folder, path), expected, "{path}");
    }
}

/// These attacks use the way in which other servers split paths. Each one reaches at most the front
/// controller, like any path without a file.
#[test]
fn paths_that_can_be_read_in_two_ways_name_no_script() {
    let with_front = folder();
    let without = ScriptFolder { has_front_controller: false, ..folder() };
    for path in [
        "/photo.jpg/x.php",
        "/photo.jpg%00.php",
        "/photo.jpg%2Fx.php",
        "/admin//tool.php",
        "//admin/tool.php",
        "/admin%2Ftool.php",
        "/admin%5Ctool.php",
        "/admin\\tool.php",
        "/.hidden.php",
        "/%2ehidden.php",
        "/admin/.php",
        "/admin/tool.php%00",
        "/admin/tool.php%0A",
        "/admin/tool.php.",
        "/admin/tool.php%20",
        "/admin/tool.PHP",
        "/uploads//evil.php",
        "/dir.php/real.php",
        "/%ZZ",
        "*",
        "",
    ] {
        assert_eq!(located(&with_front, path), "/index.php ", "{path}");
        assert_eq!(located(&without, path), "none", "{path}");
    }
}

#[test]
fn a_mount_below_the_root_has_its_own_front_controller() {
    let folder = ScriptFolder { mount: PathPrefix::new("/admin"), ..folder() };
    assert_eq!(located(&folder, "/admin/pretty"), "/admin/index.php ");
    let folder = ScriptFolder { mount: PathPrefix::new("/uploads"), ..folder };
    assert_eq!(located(&folder, "/uploads/pretty"), "none");
}

#[test]
fn a_path_with_the_name_of_a_script_in_it_is_covered() {
    let folder = folder();
    for path in ["/a.php", "/a.php/b", "/a%2Ephp", "/x/a.p%68p/"] {
        assert!(folder.covers(path.as_bytes()), "{path}");
    }
    for path in ["/.php", "/a.php5", "/a.PHP", "/a.php.txt", "/", "*"] {
        assert!(!folder.covers(path.as_bytes()), "{path}");
    }
}

#[test]
fn the_application_may_have_the_folder_elsewhere() {
    let script = LocatedScript { name: b"/a/b.php".to_vec(), path_info: Vec::new() };
    assert_eq!(folder().filename(&script), b"/srv/site/a/b.php");
    assert_eq!(*application_root(Path::new("/")), *b"");
}

proptest! {
    /// Whatever path is requested, a script that is found is one of the regular files with the
    /// extension outside of the folders without scripts. Its name and the rest are the requested
    /// path, or its name is the index of that folder or of the mount.
    #[test]
    fn only_scripts_are_found(
        path in "(/|//|%2F|\\.|%2e|%00|\\\\|admin|tool|index|uploads|evil|\\.php|\\.jpg|x){0,8}",
    ) {
        let path = format!("/{path}");
        let folder = folder();
        let found = folder.locate_among(path.as_bytes(), kind);
        if let ScriptLocation::Script(LocatedScript { name, path_info }) = found {
            let name = String::from_utf8(name).expect("text");
            let scripts: BTreeSet<&str> =
                ["index.php", "admin/index.php", "admin/tool.php"].into_iter().collect();
            prop_assert!(scripts.contains(name.trim_start_matches('/')), "{name} for {path}");
            let mut scratch = Vec::new();
            let decoded = decode_path(path.as_bytes(), &mut scratch).unwrap_or_default();
            let asked = [name.as_bytes(), &path_info].concat();
            let is_index = path_info.is_empty() && name.ends_with("/index.php");
            prop_assert!(asked == decoded || is_index, "{name} for {path}");
        }
    }
}

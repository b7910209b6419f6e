//! `pinion serve FOLDER --cgi`: scripts without a configuration file.

use crate::cgi::copy_with_libraries;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Start, run};
use pinion_tests::temporary_folder::Folder;
use rustix::process::geteuid;
use std::fs;
use std::path::Path;

/// The script prints its user, its folder and its path.
const WHO: &str = "echo Content-Type: text/plain; echo; id -u; pwd; echo $SCRIPT_NAME; cat\n";

/// Returns a folder with a site and a script.
fn site(name: &str) -> Folder {
    let folder = crate::cgi::scripts(name, &[("who", WHO)]);
    fs::remove_file(folder.join("public/file.php")).expect("a script that nothing runs");
    folder
}

/// Flags for scripts that run as another user, if this process may do that.
fn user(root: &Path) -> Vec<&str> {
    if geteuid().is_root() {
        vec!["--cgi-user", "nobody", "--cgi-chroot", root.to_str().expect("text")]
    } else {
        Vec::new()
    }
}

#[test]
fn a_flag_runs_the_scripts_of_a_folder() {
    let folder = site("cgi-flag");
    let path = folder.join("scripts").display().to_string();
    let other = format!("/other/={path}/who");
    for io in Io::BOTH {
        let server = Start::site(&folder.join("public"))
            .flags(&["--io", io.as_str(), "--cgi", &path, "--cgi", &other])
            .flags(&user(Path::new("/")))
            .start();
        let response = server.exchange(&Request::new("POST", "/scripts/who").body(b"content"));
        let text = response.text();
        assert!(text.ends_with(&format!("\n{path}\n/scripts/who\ncontent")), "{text}");
        assert!(server.get("/other/x").text().ends_with("\n/other\n"), "a single script");
        assert_eq!(server.get("/").text(), "home");
        assert_eq!(server.get("/scripts/none").status, 404);
        server.stop();
    }
}

/// Started as root, the server runs scripts as another user, in a root directory that is the folder
/// of the scripts unless a flag names another one.
#[test]
fn scripts_of_a_flag_run_as_their_user_in_their_root_directory() {
    if !geteuid().is_root() {
        return;
    }
    let folder = site("cgi-flag-root");
    let (public, path) = (folder.join("public"), folder.join("scripts"));
    let (site, scripts) = (public.to_str().expect("text"), path.to_str().expect("text"));
    let refused = run(&["serve", site, "--listen", "127.0.0.1:0", "--cgi", scripts]);
    assert_eq!(refused.code, Some(2));
    let expected = "--cgi-user: is missing; a server that is started as root runs no scripts";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    let start = || Start::site(&public).flags(&["--cgi", scripts, "--cgi-user", "nobody"]);
    let server = start().start();
    assert_eq!(server.get("/scripts/who").status, 502);
    let inside = format!("is missing inside of the root directory {scripts}");
    let line = server.wait_for_line(0, |line| line.contains(&inside));
    assert!(line.contains("the interpreter of its first line (#!)"), "{line}");
    server.stop();
    for name in ["/bin/sh", "/usr/bin/id", "/usr/bin/cat"] {
        copy_with_libraries(name, &path);
    }
    let server = start().start();
    assert_eq!(server.get("/scripts/who").text(), "65534\n/\n/scripts/who\n");
    server.stop();
    for name in ["/bin/sh", "/usr/bin/id", "/usr/bin/cat"] {
        copy_with_libraries(name, folder.path());
    }
    let server = start().flags(&["--cgi-chroot", folder.path().to_str().expect("text")]).start();
    assert_eq!(server.get("/scripts/who").text(), "65534\n/scripts\n/scripts/who\n");
    server.stop();
}

#[test]
fn flags_without_effect_are_errors() {
    let folder = site("cgi-flag-errors");
    let (public, path) = (folder.join("public"), folder.join("scripts").display().to_string());
    let site = public.to_str().expect("text");
    let none = folder.join("none").display().to_string();
    let twice = format!("/scripts={path}");
    for (flags, expected) in [
        (&["--cgi-user", "nobody"][..], "--cgi-user has no effect without --cgi; add it"),
        (&["--cgi-chroot", "/"], "--cgi-chroot has no effect without --cgi; add it"),
        (&["--cgi", &none], "none: No such file or directory"),
        (&["--cgi", &path, "--cgi-user", "no-such-user"], "--cgi-user: unknown user"),
        (
            &["--cgi", &path, "--cgi-user", "nobody", "--cgi-chroot", "/etc"],
            "scripts is not in the root directory /etc",
        ),
        (
            &["--cgi", &path, "--cgi", &twice, "--cgi-user", "nobody", "--cgi-chroot", "/"],
            "--cgi: the path /scripts is given twice",
        ),
    ] {
        let refused = run(&[&["serve", site, "--listen", "127.0.0.1:0"], flags].concat());
        assert_eq!(refused.code, Some(2), "{flags:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{flags:?}: {}", refused.stderr);
    }
}

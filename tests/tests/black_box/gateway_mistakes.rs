//! Common mistakes with scripts and applications, and the messages about them: at the start, of
//! `pinion check` and of `pinion why`.

use crate::php::{self, ECHO, configured, reload, user_flags, user_key};
use pinion_tests::server::{Ended, Start, run};
use pinion_tests::temporary_folder::Folder;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// A socket on which no test listens.
const NOWHERE: &str = "unix:/run/no-such-application.sock";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns both outputs of `pinion check`.
fn checked(path: &Path) -> (Option<i32>, String) {
    let Ended { code, stdout, stderr, .. } = run(&["check", text(path)]);
    (code, stdout + &stderr)
}

/// Creates a folder with a configuration of these lines, and a site in `public`.
fn with_configuration(name: &str, lines: &str) -> Folder {
    let folder = Folder::with(name, [("public/index.html", "home")]);
    folder.write("pinion.toml", format!("[[site]]\npath = \"public\"\n{lines}"));
    folder
}

/// PHP-FPM responds to each request with 404 then, without an explanation.
#[test]
fn scripts_that_the_user_of_php_cannot_read_are_named() {
    if !geteuid().is_root() {
        return;
    }
    let folder = php::site("mistakes-access", &[("index.php", ECHO)]);
    let (public, index) = (folder.join("public"), folder.join("public/index.php"));
    let server = configured(&folder, user_key()).start();
    assert_eq!(server.get("/").status, 200);
    let file = folder.join("pinion.toml");
    for (path, closed, open, verb, command) in [
        (folder.path(), 0o700, 0o755, "enter", "chmod u+x"),
        (&*public, 0o600, 0o755, "enter", "chmod u+x"),
        (&*index, 0o200, 0o644, "read", "chmod u+r"),
    ] {
        // In the first case the folder itself belongs to another user.
        let command = if path == folder.path() {
            std::os::unix::fs::chown(path, Some(0), Some(0)).expect("its owner");
            command.replace("u+", "o+")
        } else {
            command.to_owned()
        };
        set_mode(path, closed);
        let expected = format!("PHP runs as www-data, who cannot {verb} {} (", path.display());
        let advice = format!("`{command} {}`", path.display());
        let ended =
            run(&["serve", text(&public), "--php-user", "www-data", "--listen", "127.0.0.1:0"]);
        let (code, said) = checked(&file);
        let reloaded = reload(&server);
        // The log has the reason in a line of its own.
        let reason = server.wait_for_line(0, |line| line.contains(&expected));
        for (text, is_right) in [
            (&ended.stderr, ended.code == Some(2)),
            (&said, code == Some(2)),
            (&reason, reloaded.contains("keeping")),
        ] {
            assert!(is_right && text.contains(&expected) && text.contains(&advice), "{text}");
        }
        set_mode(path, open);
    }
    assert!(reload(&server).starts_with("reloaded"));
    server.stop();
}

#[test]
fn folders_without_scripts_are_below_the_site() {
    let files = [("index.php", ECHO), ("a/x.php", ECHO)];
    let folder = php::site("mistakes-no-exec", &files);
    let file = folder.join("pinion.toml");
    for wrong in ["/etc", "..", "a/../..", "", "a//b"] {
        php::configure(&folder, &format!("{}no-exec = [\"a\", \"{wrong}\"]\n", user_key()));
        let (code, said) = checked(&file);
        let expected = format!("no-exec: \"{wrong}\" is no folder of the site");
        assert!(code == Some(2) && said.contains(&expected), "{said}");
        let mount = format!("[[site.mount]]\nfastcgi = \"{NOWHERE}\"\nroot = \"public\"\n");
        let site = format!("[[site]]\npath = \"public\"\n{mount}no-exec = [\"{wrong}\"]\n");
        folder.write("pinion.toml", site);
        let (code, said) = checked(&file);
        assert!(code == Some(2) && said.contains(&expected), "{said}");
    }
    let warning =
        format!("no-exec: there is no folder uploda in {}", folder.join("public").display());
    php::configure(&folder, &format!("{}no-exec = [\"a\", \"uploda/\"]\n", user_key()));
    let (code, said) = checked(&file);
    assert!(code == Some(0) && said.contains(&warning), "{said}");
    let server = Start::site(&file).start();
    server.wait_for_line(0, |line| line.contains(&warning));
    assert_eq!(server.get("/a/x.php").status, 404);
    server.stop();
    // WordPress creates its folder with the first upload.
    php::configure(&folder, user_key());
    let (code, said) = checked(&file);
    assert!(code == Some(0) && !said.contains("there is no folder"), "{said}");
}

/// Returns the explanation of a path by `pinion why`.
fn why(file: &Path, target: &str) -> String {
    let ended = run(&["why", text(file), target]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

#[test]
fn why_names_the_script() {
    let files = [
        ("index.php", ECHO),
        ("shop.php", ECHO),
        ("blog/index.php", ECHO),
        ("wp-content/uploads/evil.php", ECHO),
    ];
    let folder = php::site("mistakes-why", &files);
    let file = folder.join("pinion.toml");
    let public = folder.join("public");
    let fastcgi = format!("[[site.mount]]\nfastcgi = \"{NOWHERE}\"\nroot = \"public\"\n");
    let configurations = [
        (user_key().to_owned(), "by PHP".to_owned()),
        (fastcgi.clone(), format!("by fastcgi+{NOWHERE}")),
    ];
    for (keys, by) in &configurations {
        php::configure(&folder, keys);
        for (target, expected) in [
            ("/", format!("{}/index.php is run {by}", public.display())),
            ("/any/page", format!("{}/index.php is run {by}", public.display())),
            (
                "/shop.php/a/b",
                format!("{}/shop.php is run {by}, with PATH_INFO /a/b", public.display()),
            ),
            ("/blog", "308".to_owned()),
            (
                "/wp-content/uploads/evil.php",
                "no script is run in the folder wp-content/uploads".to_owned(),
            ),
            ("/wp-content/uploads/evil.php", "404".to_owned()),
        ] {
            let said = why(&file, target);
            assert!(said.contains(&expected), "{target}: {said}");
            assert!(!said.contains("/run/php-fpm.sock"), "{target}: {said}");
        }
    }
    php::configure(&folder, &format!("{fastcgi}no-front-controller = true\n"));
    let said = why(&file, "/none");
    let expected = format!("there is no script for the path in {}", public.display());
    assert!(said.contains(&expected) && said.contains("404"), "{said}");
    // A running server gives the same explanation.
    let server = configured(&folder, user_key()).start();
    let socket = folder.join("run/p.sock");
    for target in ["/any/page", "/wp-content/uploads/evil.php", "/blog"] {
        let running = run(&["why", "--socket", text(&socket), target]).stdout;
        let line = |said: &str| {
            said.lines()
                .find(|line| line.contains("public") || line.contains("script"))
                .map(str::to_owned)
        };
        assert_eq!(line(&running), line(&why(&file, target)), "{target}");
    }
    let status = server.get("/blog").status;
    assert_eq!(status, 308);
    server.stop();
}

#[test]
fn why_names_the_cgi_script() {
    let folder = with_configuration("mistakes-why-cgi", "");
    folder.write("scripts/dir/a", "#!/bin/sh\n");
    let user = if geteuid().is_root() { "cgi-user = \"nobody\"\n" } else { "" };
    let mount = format!("[[site.mount]]\npath = \"/run\"\ncgi = \"scripts\"\n{user}");
    folder.write("pinion.toml", format!("[[site]]\npath = \"public\"\n{mount}"));
    let file = folder.join("pinion.toml");
    let scripts = folder.join("scripts");
    let scripts = scripts.display();
    let run = format!("{scripts}/dir/a is run as CGI, with PATH_INFO /b");
    for (target, expected) in [
        ("/run/dir/a/b", run),
        ("/run/none", format!("there is no script for the path in {scripts}")),
        ("/run/none", "404".to_owned()),
    ] {
        let said = why(&file, target);
        assert!(said.contains(&expected), "{target}: {said}");
    }
}

#[test]
fn a_check_agrees_with_the_start() {
    let folder = php::site("mistakes-check", &[("index.php", ECHO)]);
    let (public, file) = (folder.join("public"), folder.join("pinion.toml"));
    php::configure(&folder, "");
    let (code, said) = checked(&file);
    let (folder_code, of_folder) = checked(&public);
    assert_eq!(folder_code, Some(0), "{of_folder}");
    assert!(!of_folder.contains("whose source is not published"), "{of_folder}");
    let is_refused = geteuid().is_root();
    assert_eq!(code, Some(if is_refused { 2 } else { 0 }), "{said}");
    for said in [said, of_folder] {
        assert_eq!(said.contains("PHP does not run as root"), is_refused, "{said}");
    }
    // A script that no mount runs.
    let folder = with_configuration("mistakes-unrun", "");
    folder.write("public/a/tool.php", ECHO);
    let file = folder.join("pinion.toml");
    let started = run(&["serve", text(&file)]);
    assert!(started.stderr.contains("public/a/tool.php is a PHP script, and nothing runs it"));
    let public = folder.join("public");
    for path in [&file, &public] {
        let (code, said) = checked(path);
        let is_named = said.contains("public/a/tool.php: is a PHP script, and nothing runs it");
        assert!(code == Some(2) && is_named, "{said}");
    }
    folder.write("pinion.toml", "[[site]]\npath = \"public\"\nphp = false\n");
    assert_eq!(checked(&file).0, Some(0));
}

/// Malformed addresses of applications are reported at their position, and only once.
#[test]
fn paths_of_scripts_begin_at_the_file() {
    for wrong in ["cgi = \"\"", "fastcgi = \"9000\"", "proxy = \"a\"", "cgi = 3"] {
        let lines = format!("[[site.mount]]\npath = \"/a\"\n{wrong}\n");
        let folder = with_configuration("mistakes-servers", &lines);
        let (code, said) = checked(&folder.join("pinion.toml"));
        assert!(code == Some(2) && said.contains("pinion.toml:5:"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let user = if geteuid().is_root() { "cgi-user = \"nobody\"\n" } else { "" };
    let mount = format!("[[site.mount]]\npath = \"/a\"\ncgi = \"cgi/bin\"\n{user}");
    let folder = with_configuration("mistakes-relative", &mount);
    folder.write("cgi/bin/a.sh", "#!/bin/sh\necho Content-Type: text/plain\necho\npwd\n");
    set_mode(&folder.join("cgi/bin/a.sh"), 0o755);
    let file = folder.join("pinion.toml");
    for root in ["cgi-no-chroot = true\n", "cgi-chroot = \"cgi\"\n"] {
        if !geteuid().is_root() && root.contains("cgi-chroot") {
            continue;
        }
        folder.write("pinion.toml", format!("[[site]]\npath = \"public\"\n{mount}{root}"));
        let (code, said) = checked(&file);
        assert_eq!(code, Some(0), "{said}");
    }
    folder.write(
        "pinion.toml",
        format!("[[site]]\npath = \"public\"\n{mount}cgi-no-chroot = true\n"),
    );
    let server = Start::site(Path::new("pinion.toml")).working_in(folder.path()).start();
    let response = server.get("/a/a.sh");
    assert_eq!(response.text().trim(), text(&folder.join("cgi/bin")), "{response}");
    server.stop();
}

/// No build sees the files of live folders, so patterns for them match nothing in it.
#[test]
fn patterns_for_live_files_cause_no_warning() {
    let doubt = "nothing is left out";
    let folder = with_configuration("mistakes-patterns", "exclude = [\"*.zip\"]\n");
    let file = folder.join("pinion.toml");
    let server = Start::site(&file).start();
    server.wait_for_line(0, |line| line.contains(doubt));
    server.stop();
    fs::create_dir(folder.join("public/media")).expect("a folder");
    fs::create_dir(folder.join("other")).expect("a folder");
    folder.write("other/a.zip", "");
    for live in [".", "media", &format!("/other={}", folder.join("other").display())] {
        let keys = format!("exclude = [\"*.zip\"]\nlive = [\"{live}\"]\n");
        folder.write("pinion.toml", format!("[[site]]\npath = \"public\"\n{keys}"));
        let server = Start::site(&file).start();
        assert_eq!(server.get("/other/a.zip").status, 404);
        let lines = server.lines();
        assert!(!lines.iter().any(|line| line.contains(doubt)), "{live}: {lines:?}");
        server.stop();
    }
}

#[test]
fn check_names_links_in_live_folders() {
    let folder = php::site("mistakes-links", &[("index.php", ECHO), ("a/b.css", "css")]);
    symlink("a", folder.join("public/linked")).expect("a link");
    php::configure(&folder, user_key());
    let (code, said) = checked(&folder.join("pinion.toml"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 symbolic link not followed: linked"), "{said}");
}

#[test]
fn impossible_values_of_php_keys_are_errors() {
    let folder = php::site("mistakes-php", &[("index.php", ECHO)]);
    let public = folder.join("public");
    let serve = |flags: &[&str]| {
        let flags =
            [&["serve", text(&public), "--listen", "127.0.0.1:0"], user_flags(), flags].concat();
        run(&flags).stderr
    };
    let said = serve(&["--php-upload-limit", "64"]);
    assert!(said.contains("--php-upload-limit: 64 means bytes") && said.contains("64M"), "{said}");
    let said = serve(&["--php-fpm", "/nonexistent"]);
    assert!(said.contains("/nonexistent") && said.contains("--php-fpm"), "{said}");
    folder.write("pinion.toml", "[[site]]\npath = \"public\"\nphp-usr = \"a\"\n");
    let (_, said) = checked(&folder.join("pinion.toml"));
    assert!(said.contains("did you mean php-user?"), "{said}");
    // A folder that is read for each request is no snapshot.
    let server = configured(&folder, user_key()).start();
    let line = server.wait_for_line(0, |line| line.starts_with("site "));
    assert!(line.contains("(files are read for each request)"), "{line}");
    server.stop();
}

//! `[[site.mount]] cgi`: scripts that respond to requests (CGI/1.1, RFC 3875).

use crate::mounts::{site, start};
use pinion_tests::body::noise;
use pinion_tests::external_programs::program;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::processes::processes_with;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::geteuid;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;

/// Content that fits into no socket buffer.
const LARGE_BYTES: usize = 3_000_000;

fn write_script(folder: &Folder, name: &str, content: &str) {
    let path = format!("scripts/{name}");
    folder.write(&path, content);
    let executable = Permissions::from_mode(0o755);
    fs::set_permissions(folder.join(&path), executable).expect("permissions");
}

/// Writes a script of the shell.
fn shell(folder: &Folder, name: &str, script: &str) {
    write_script(folder, name, &format!("#!/bin/sh\n{script}"));
}

/// Returns a folder with a site and scripts of the shell.
pub(crate) fn scripts(name: &str, scripts: &[(&str, &str)]) -> Folder {
    let folder = site(name);
    fs::create_dir_all(folder.join("scripts")).expect("a folder");
    scripts.iter().for_each(|(name, script)| shell(&folder, name, script));
    folder
}

/// Keys for scripts that run as another user, if this process may do that.
fn user() -> &'static str {
    if geteuid().is_root() { "cgi-user = \"nobody\"\ncgi-no-chroot = true\n" } else { "" }
}

/// Returns a mount at `/run` of the scripts of a folder.
pub(crate) fn mount(folder: &Folder, keys: &str) -> String {
    let path = folder.join("scripts");
    format!("[[site.mount]]\npath = \"/run\"\ncgi = {path:?}\n{}{keys}", user())
}

/// The script of this name: it shows its variables.
const ENVIRONMENT: (&str, &str) = ("env", "echo Content-Type: text/plain\necho\nenv\n");

#[test]
fn a_script_gets_the_request() {
    let folder = scripts(
        "cgi-request",
        &[
            ENVIRONMENT,
            (
                "dir/echo",
                "echo Content-Type: text/plain; echo X-Length: $CONTENT_LENGTH; echo; exec cat\n",
            ),
            (
                "pwd",
                "echo Status: 404 None; echo Content-Type: text/plain\n\
                 echo Cache-Control: no-store; echo; pwd; echo \"$0 $#\"; cat\n",
            ),
        ],
    );
    let path = folder.join("scripts").to_str().expect("text").to_owned();
    for io in Io::BOTH {
        let keys = "variables = { OWN = \"yes\", REMOTE_USER = \"fixed\" }\n";
        let server = start(&folder, io, &mount(&folder, keys));
        let request = Request::get("/run/env/a%20b?c=d")
            .host("example.org:81")
            .field("X-One", "1")
            .field("Proxy", "http://evil.example")
            .field("Authorization", "Basic eDp5")
            .field("X_Two", "2");
        let response = server.exchange(&request);
        assert_eq!((response.status, response.field("Content-Type")), (200, Some("text/plain")));
        let text = response.text();
        let lines: Vec<&str> = text.lines().collect();
        for expected in [
            "GATEWAY_INTERFACE=CGI/1.1",
            "REQUEST_METHOD=GET",
            "SCRIPT_NAME=/run/env",
            "PATH_INFO=/a b",
            "QUERY_STRING=c=d",
            "REQUEST_URI=/run/env/a%20b?c=d",
            "SERVER_NAME=example.org",
            "SERVER_PORT=81",
            "REMOTE_ADDR=127.0.0.1",
            "HTTP_X_ONE=1",
            "OWN=yes",
            "REMOTE_USER=fixed",
            &format!("SCRIPT_FILENAME={path}/env"),
        ] {
            assert!(lines.contains(&expected), "{expected}: {text}");
        }
        for front in ["HTTP_PROXY", "HTTP_AUTHORIZATION", "HTTP_X_TWO", "CONTENT_LENGTH"] {
            assert!(!lines.iter().any(|line| line.starts_with(front)), "{front}: {text}");
        }
        let response = server.get("/run/pwd");
        assert_eq!(response.status, 404);
        assert_eq!(response.text(), format!("{path}\n{path}/pwd 0\n"));
        let large = noise(LARGE_BYTES);
        for content in [&b""[..], b"a", &large] {
            for request in [
                Request::new("POST", "/run/dir/echo").body(content),
                Request::new("POST", "/run/dir/echo").chunked(content, 10_000),
            ] {
                let response = server.exchange(&request);
                assert_eq!(response.field("X-Length"), Some(&*content.len().to_string()));
                assert!(response.body == content, "{} bytes", response.body.len());
            }
        }
        let response = server.exchange(&Request::head("/run/pwd"));
        assert_eq!((response.status, response.body.len()), (404, 0));
        for missing in ["/run/none", "/run/", "/run", "/run/dir", "/run/../etc/passwd", "/run//env"]
        {
            let status = server.get(missing).status;
            assert!(matches!(status, 400 | 404), "{missing}: {status}");
        }
        server.stop();
    }
}

#[test]
fn all_protocols_reach_scripts() {
    let folder = scripts(
        "cgi-protocols",
        &[("echo", "echo Content-Type: text/plain; echo X-Length: $CONTENT_LENGTH; echo; cat\n")],
    );
    let site = "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n";
    folder.write("p.toml", format!("{site}{}", mount(&folder, "")));
    let content = noise(300_000);
    for protocol in [Protocol::Http2Clear, Protocol::Http3] {
        let server = Start::site(&folder.join("p.toml"))
            .in_way(Way { io: Io::BOTH[0], protocol, form: Form::Folder })
            .start();
        let response = server.exchange(&Request::new("POST", "/run/echo").body(&content));
        assert!(response.body == content, "{} bytes", response.body.len());
        server.stop();
    }
}

/// A script that writes no response is an error of the server, and others are unaffected.
#[test]
fn wrong_output_is_status_502_and_a_line_of_the_log() {
    let folder = scripts(
        "cgi-wrong",
        &[
            ("nothing", "exit 3\n"),
            ("killed", "kill -SEGV $$\n"),
            ("binary", "printf '\\177ELF\\001\\000\\000'\n"),
            ("text", "echo hello world\n"),
            ("status", "echo Status: abc; echo; echo x\n"),
            ("interim", "echo Status: 100 Continue; echo; echo x\n"),
            ("half", "printf 'Content-Type: text'\n"),
            ("nph-document", "echo Content-Type: text/plain; echo; echo x\n"),
            ("right", "echo Content-Type: text/plain; echo; echo right\n"),
            ("to-stderr", "echo from the script >&2; echo; echo\n"),
        ],
    );
    folder.write("scripts/plain", "#!/bin/sh\n");
    write_script(&folder, "lost", "#!/no/such/interpreter\n");
    write_script(&folder, "no-program", "text\n");
    write_script(&folder, "dos", "#!/bin/sh\r\necho\r\n");
    symlink("right", folder.join("scripts/link")).expect("a link");
    let cases = [
        ("nothing", "the program wrote no response (it has exited with status 3)"),
        ("killed", "the program wrote no response (it was ended by SIGSEGV)"),
        ("binary", "control character"),
        (
            "text",
            "has a malformed field line (it has exited with status 0); the line is \"hello world\"",
        ),
        ("status", "Status is no status code"),
        ("interim", "Status is no status code"),
        ("half", "the output ended within the response's head"),
        ("nph-document", "502 for /run/nph-document"),
        ("to-stderr", "begins with a blank line"),
        ("plain", "plain is not executable: run `chmod +x` for it"),
        ("lost", "lost is there, but the interpreter of its first line (#!)"),
        ("dos", "dos: its first line ends with CR LF"),
        ("no-program", "is no program: begin it with a line such as #!/bin/sh"),
    ];
    // Each script and cause has its line immediately, so that a repair can be seen.
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        for (name, line) in cases {
            for _ in 0..2 {
                let response = server.get(&format!("/run/{name}"));
                assert_eq!(response.status, 502, "{name}: {response}");
            }
            server.wait_for_line(0, |found| {
                found.contains(line) && found.contains(&format!("/run/{name}"))
            });
        }
        server.wait_for_line(0, |line| line.ends_with("from the script"));
        assert_eq!(server.get("/run/link").status, 404);
        assert_eq!(server.get("/run/right").text(), "right\n");
        shell(&folder, "killed", "exit 4\n");
        assert_eq!(server.get("/run/killed").status, 502);
        server.wait_for_line(0, |line| {
            line.contains("/run/killed") && line.contains("it has exited with status 4")
        });
        shell(&folder, "killed", "kill -SEGV $$\n");
        server.stop();
    }
}

/// A response that is not whole never looks whole.
#[test]
fn a_script_that_dies_in_its_response_cuts_the_connection() {
    let folder = scripts(
        "cgi-cut",
        &[
            ("killed", "echo Content-Type: text/plain; echo; echo half; kill -KILL $$\n"),
            ("short", "echo Content-Type: text/plain; echo Content-Length: 10; echo; echo half\n"),
            (
                "whole",
                "echo Content-Type: text/plain; echo Content-Length: 5; echo\n\
                 echo half; kill -KILL $$\n",
            ),
            ("fails", "echo Content-Type: text/plain; echo; echo half; exit 1\n"),
        ],
    );
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        for name in ["killed", "short"] {
            let mut client = server.client();
            let broken = client.try_exchange(&Request::get(&format!("/run/{name}")));
            assert!(broken.is_err(), "{name}: {broken:?}");
        }
        server.wait_for_line(0, |line| line.contains("the response was cut off for /run/killed"));
        for name in ["whole", "fails"] {
            assert_eq!(server.get(&format!("/run/{name}")).text(), "half\n", "{name}");
        }
        server.stop();
    }
}

#[test]
fn nph_scripts_and_local_redirects_get_their_responses() {
    let folder = scripts(
        "cgi-nph",
        &[
            (
                "nph-one",
                "printf 'HTTP/1.1 103 Early Hints\\r\\nLink: x\\r\\n\\r\\nHTTP/1.0 201 Made\\r\\n\
             X: y\\r\\nContent-Type: text/plain\\r\\n\\r\\nnph'\n",
            ),
            ("away", "echo Location: http://other.example/; echo\n"),
            ("file", "echo Location: /file.php; echo\n"),
            ("script", "cat > /dev/null; echo \"Location: /run/env/x?$CONTENT_LENGTH\"; echo\n"),
            ("circle", "echo Location: /run/circle; echo\n"),
            ENVIRONMENT,
        ],
    );
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        let response = server.get("/run/nph-one");
        assert_eq!((response.status, response.field("X")), (201, Some("y")));
        assert_eq!(response.text(), "nph");
        let response = server.get("/run/away");
        let location = response.field("Location");
        assert_eq!((response.status, location), (302, Some("http://other.example/")));
        let response = server.get("/run/file");
        assert_eq!((response.status, response.text()), (200, "source"));
        let posted = server.exchange(&Request::new("POST", "/run/script").body(b"four"));
        let text = posted.text();
        for expected in ["REQUEST_METHOD=GET", "QUERY_STRING=4", "PATH_INFO=/x"] {
            assert!(text.lines().any(|line| line == expected), "{expected}: {text}");
        }
        assert!(!text.contains("CONTENT_"), "{text}");
        let response = server.get("/run/circle");
        assert_eq!(response.status, 502);
        server.wait_for_line(0, |line| line.contains("more than 10 local redirects"));
        server.stop();
    }
}

/// The directions do not wait for each other.
#[test]
fn unread_content_and_early_output_do_not_block_a_script() {
    let folder = scripts(
        "cgi-directions",
        &[
            ("unread", "echo Content-Type: text/plain; echo; echo done\n"),
            ("first", "echo Content-Type: text/plain; echo; head -c 400000 /dev/zero; wc -c\n"),
            ("large", "echo Content-Type: text/plain; echo; head -c 30000000 /dev/zero\n"),
        ],
    );
    let content = noise(LARGE_BYTES);
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        let response = server.exchange(&Request::new("POST", "/run/unread").body(b"short"));
        assert_eq!(response.text(), "done\n");
        let response = server.exchange(&Request::new("POST", "/run/first").body(&content));
        let (zeros, count) = response.body.split_at(400_000);
        assert!(zeros.iter().all(|byte| *byte == 0));
        let count = String::from_utf8_lossy(count);
        assert_eq!(count.trim().parse(), Ok(LARGE_BYTES), "{count}");
        assert_eq!(server.get("/run/large").body.len(), 30_000_000);
        server.stop();
    }
}

/// All output arrives, including the part that is in the socket when the script ends.
#[test]
fn output_of_any_size_is_whole() {
    let script =
        "cat; echo Content-Type: text/plain; echo; exec head -c \"$QUERY_STRING\" /dev/zero\n";
    let folder = scripts("cgi-sizes", &[("zeros", script)]);
    // The sizes are near those of a read, of the data that is taken from a script at a time, and of
    // the buffer of a socket.
    let sizes = [8 * 1024, 64 * 1024, 208 * 1024].into_iter();
    let sizes = sizes.flat_map(|size| size - 40..size + 40).step_by(13).chain([0, 1, 300_000]);
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, ""));
        for size in sizes.clone() {
            let target = format!("/run/zeros?{size}");
            let mut connection = server.connect();
            for request in [Request::get(&target), Request::new("POST", &target).body(b"")] {
                let response = connection.exchange(&request);
                assert_eq!((response.status, response.body.len()), (200, size));
            }
        }
        server.stop();
    }
}

/// A process that a script leaves behind does not delay a client, and a script may continue without
/// its output.
#[test]
fn background_processes_of_a_script_do_not_delay_the_response() {
    let mark = format!("4{}", std::process::id());
    let folder = scripts(
        "cgi-stays",
        &[
            ("forks", &format!("echo Content-Type: text/plain; echo; sleep {mark} & echo done\n")),
            (
                "goes-on",
                "echo Content-Type: text/plain; echo; echo done\n\
                 exec >&-; read line; cat; touch \"$DONE\"\n",
            ),
        ],
    );
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("permissions");
    let done = folder.join("done");
    for io in Io::BOTH {
        let keys = format!("variables = {{ DONE = \"{}\" }}\n", done.display());
        let server = start(&folder, io, &mount(&folder, &keys));
        assert_eq!(server.get("/run/forks").text(), "done\n");
        wait_for("the end of what is left", || processes_with(&mark).is_empty().then_some(()));
        assert_eq!(server.get("/run/goes-on").text(), "done\n");
        wait_for("the end of the script", || done.exists().then_some(()));
        fs::remove_file(&done).expect("a file");
        server.stop();
    }
}

#[test]
fn a_client_that_leaves_stops_its_script() {
    let mark = format!("5{}", std::process::id());
    let folder = scripts(
        "cgi-left",
        &[
            (
                "silent",
                &format!("echo Content-Type: text/plain; echo; echo first; exec sleep {mark}\n"),
            ),
            ("env", ENVIRONMENT.1),
        ],
    );
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, "cgi-max = 1\n"));
        server.client().leave_within(&Request::get("/run/silent"));
        wait_for("the end of the script", || processes_with(&mark).is_empty().then_some(()));
        // Its place is free again.
        assert_eq!(server.get("/run/env").status, 200);
        server.stop();
    }
}

#[test]
fn content_without_a_length_has_a_limit() {
    let folder =
        scripts("cgi-length", &[("count", "echo Content-Type: text/plain; echo; wc -c\n")]);
    let server = start(&folder, Io::BOTH[0], &mount(&folder, "buffer-limit = \"200000\"\n"));
    let content = noise(200_001);
    let post = Request::new("POST", "/run/count");
    let fits = server.exchange(&post.clone().chunked(&content[1..], 10_000));
    assert_eq!(fits.text().trim(), "200000");
    assert_eq!(server.exchange(&post.clone().chunked(&content, 10_000)).status, 411);
    server.wait_for_line(0, |line| {
        line.contains("411 for /run/count: ") && line.contains("buffer-limit of the mount /run;")
    });
    assert_eq!(server.exchange(&post.body(&content)).text().trim(), "200001");
    server.stop();
}

#[test]
fn silent_and_endless_scripts_are_stopped() {
    let mark = format!("6{}", std::process::id());
    let folder = scripts(
        "cgi-silent",
        &[
            ("silent", &format!("exec sleep {mark}\n")),
            (
                "half",
                &format!("echo Content-Type: text/plain; echo; echo half; exec sleep {mark}\n"),
            ),
            (
                "endless",
                "echo Content-Type: text/plain; echo; while :; do sleep 0.1; echo more; done\n",
            ),
        ],
    );
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, "timeout = 1\n"));
        assert_eq!(server.get("/run/silent").status, 504);
        server.wait_for_line(0, |line| line.contains("silent: no output for 1 s"));
        assert!(server.client().try_exchange(&Request::get("/run/half")).is_err());
        server.stop();
        let server = start(&folder, io, &mount(&folder, "cgi-total-timeout = 1\n"));
        assert!(server.client().try_exchange(&Request::get("/run/endless")).is_err());
        let expected = "endless: the program has not ended within 1 s";
        server.wait_for_line(0, |line| line.contains(expected));
        wait_for("the end of all", || processes_with(&mark).is_empty().then_some(()));
        server.stop();
    }
}

/// No more scripts run at the same time than may, and none of the requests is lost.
#[test]
fn requests_over_the_script_limit_are_queued() {
    let script = "mkdir \"$LOCK\" || exit 1\necho Content-Type: text/plain; echo; sleep 0.02\n\
                  rmdir \"$LOCK\"\necho ok\n";
    let folder = scripts("cgi-turns", &[("alone", script)]);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("permissions");
    let lock = folder.join("lock");
    for io in Io::BOTH {
        let keys = format!("cgi-max = 1\nvariables = {{ LOCK = \"{}\" }}\n", lock.display());
        let server = start(&folder, io, &mount(&folder, &keys));
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let response = server.get("/run/alone");
                    assert_eq!((response.status, response.text()), (200, "ok\n"), "{response}");
                });
            }
        });
        server.stop();
    }
}

/// Copies a program and its shared libraries below a root directory.
pub(crate) fn copy_with_libraries(program: &str, root: &Path) {
    let listed = Command::new("ldd").arg(program).output().expect("ldd");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.chain([program]) {
        let copy = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
        fs::copy(file, copy).expect("a copy");
    }
}

/// Started as root, the server runs scripts as another user, in a root directory.
#[test]
fn a_script_runs_as_its_user_in_its_root_directory() {
    if !geteuid().is_root() {
        return;
    }
    let folder =
        scripts("cgi-root", &[("who", "echo Content-Type: text/plain; echo; id -u; pwd; ls /\n")]);
    let path = folder.join("scripts");
    let lines = |keys: &str| format!("[[site.mount]]\npath = \"/run\"\ncgi = {path:?}\n{keys}");
    // Without a user nothing is started.
    folder.write("p.toml", format!("[[site]]\npath = \"public\"\n{}", lines("")));
    let refused = run(&["serve", folder.join("p.toml").to_str().expect("text")]);
    assert!(refused.stderr.contains("runs no scripts as root"), "{}", refused.stderr);
    // By default the root directory is the folder of the scripts, without any interpreter.
    let server = start(&folder, Io::BOTH[0], &lines("cgi-user = \"nobody\"\n"));
    assert_eq!(server.get("/run/who").status, 502);
    let inside = format!(
        "missing inside of the root directory {}; put it there, or let scripts see all files with \
         cgi-no-chroot = true",
        path.display()
    );
    server.wait_for_line(0, |line| line.contains(&inside));
    server.stop();
    for name in ["/bin/sh", "/usr/bin/id", "/usr/bin/ls"] {
        copy_with_libraries(name, folder.path());
    }
    let keys = format!("cgi-user = \"nobody\"\ncgi-chroot = {:?}\n", folder.path());
    for io in Io::BOTH {
        let server = start(&folder, io, &lines(&keys));
        let response = server.get("/run/who");
        let text = response.text();
        assert!(text.starts_with("65534\n/scripts\n") && text.contains("public\n"), "{text}");
        server.stop();
    }
}

#[test]
fn a_reload_changes_the_scripts_of_a_mount() {
    let folder =
        scripts("cgi-reload", &[("a", "echo Content-Type: text/plain; echo; echo \"one $KEY\"\n")]);
    let server = start(&folder, Io::BOTH[0], &mount(&folder, "variables = { KEY = \"1\" }\n"));
    assert_eq!(server.get("/run/a").text(), "one 1\n");
    let site = "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n";
    let mut lines = format!("{site}{}", mount(&folder, ""));
    lines.push_str("variables = { KEY = \"2\" }\n");
    folder.write("p.toml", &lines);
    let from = server.lines().len();
    server.signal(rustix::process::Signal::HUP);
    wait_for("the other variable", || (server.get("/run/a").text() == "one 2\n").then_some(()));
    assert!(!server.lines()[from..].iter().any(|line| line.contains("cannot")));
    // A folder that is not there changes nothing.
    let _ = write!(lines, "[[site.mount]]\npath = \"/other\"\ncgi = \"/no/such\"\n{}", user());
    folder.write("p.toml", &lines);
    server.signal(rustix::process::Signal::HUP);
    server.wait_for_line(from, |line| line.contains("cgi: /no/such: No such file"));
    assert_eq!(server.get("/run/a").text(), "one 2\n");
    server.stop();
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut git = program("git", "git");
    git.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]).args(arguments);
    git.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("HOME", folder);
    let ended = git.output().expect("git");
    assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// Runs git-http-backend for a folder of repositories.
#[test]
fn repositories_are_cloned_and_pushed_to() {
    let folder = site("cgi-git");
    let backend = Path::new("/usr/lib/git-core/git-http-backend");
    assert!(backend.is_file(), "git-http-backend is missing; on Debian: apt-get install git");
    fs::create_dir(folder.join("repositories")).expect("a folder");
    git(&folder.join("repositories"), &["init", "-q", "--bare", "-b", "main", "one.git"]);
    git(&folder.join("repositories/one.git"), &["config", "http.receivepack", "true"]);
    // The user of the scripts writes to it.
    let chown = Command::new("chmod").args(["-R", "a+rwX"]).arg(folder.path()).status();
    assert!(chown.expect("chmod").success());
    let keys = format!(
        "variables = {{ GIT_PROJECT_ROOT = \"{}\", GIT_HTTP_EXPORT_ALL = \"1\", \
         GIT_CONFIG_COUNT = \"1\", GIT_CONFIG_KEY_0 = \"safe.directory\", \
         GIT_CONFIG_VALUE_0 = \"*\" }}\n",
        folder.join("repositories").display()
    );
    let mount = format!("[[site.mount]]\npath = \"/git\"\ncgi = {backend:?}\n{}{keys}", user());
    // Git sends large packs without a length. Stored ones get one; for others Git needs none.
    let uploads = ["", "buffer-uploads = false\nbuffer-limit = \"1M\"\n"];
    for (number, (io, upload)) in Io::BOTH.into_iter().zip(uploads).enumerate() {
        let server: Server = start(&folder, io, &format!("{mount}{upload}"));
        let url = server.url("/git/one.git");
        let (work, copy) = (format!("work{number}"), format!("copy{number}"));
        git(folder.path(), &["clone", "-q", &url, &work]);
        let path = folder.join(&work);
        // Larger than `http.postBuffer`, so that it comes in chunks.
        fs::write(path.join(format!("large{number}")), noise(LARGE_BYTES)).expect("a file");
        git(&path, &["add", "."]);
        git(&path, &["commit", "-q", "-m", "one"]);
        git(&path, &["push", "-q", "origin", "HEAD:main"]);
        git(folder.path(), &["clone", "-q", &url, &copy]);
        let cloned = fs::read(folder.join(&copy).join(format!("large{number}"))).expect("a file");
        assert!(cloned == noise(LARGE_BYTES));
        let missing = server.url("/git/none.git");
        let mut listing = program("git", "git");
        listing.args(["ls-remote", "-q", &missing]).env("GIT_TERMINAL_PROMPT", "0");
        assert!(!listing.output().expect("git").status.success(), "there is no such repository");
        server.stop();
    }
}

#[test]
fn keys_without_effect_are_errors() {
    let folder = scripts("cgi-keys", &[]);
    let path = folder.join("scripts");
    for (lines, expected) in [
        (mount(&folder, "host = \"a\"\n"), "host: has no effect with cgi; leave it out"),
        (
            mount(&folder, "proxy = \"http://a\"\n"),
            "proxy, fastcgi, scgi, cgi, wsgi, asgi, python-application or store; leave one out",
        ),
        (
            format!("[[site.mount]]\npath = \"*.cgi\"\ncgi = {path:?}\n"),
            "path: is an extension; with cgi write a path",
        ),
        (
            "[[site.mount]]\nproxy = \"http://a\"\ncgi-max = 1\n".to_owned(),
            "cgi-max: has no effect without cgi; leave it out",
        ),
        (
            format!("[[site.mount]]\ncgi = {path:?}\ncgi-user = \"no-such-user\"\n"),
            "cgi-user: unknown user `no-such-user`",
        ),
        (
            format!(
                "[[site.mount]]\ncgi = {path:?}\ncgi-user = \"nobody\"\ncgi-chroot = \"/etc\"\n"
            ),
            "is not in the root directory /etc",
        ),
    ] {
        folder.write("p.toml", format!("[[site]]\npath = \"public\"\n{lines}"));
        let refused = run(&["check", folder.join("p.toml").to_str().expect("text")]);
        let output = format!("{}{}", refused.stdout, refused.stderr);
        assert!(refused.code != Some(0) && output.contains(expected), "{expected}: {output}");
    }
}

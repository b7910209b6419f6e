//! Many sites on one server: the selection of the site of a request, and changes of one site.

use pinion_tests::client::ask_unix;
use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::{Form, Io, Way, ways};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{SetAtEnd, wait_for};
use rustix::process::Signal;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

const THREE_SITES: &str = "\
[[site]]
hosts = [\"a.test\", \"www.a.test\"]
path = \"a\"

[[site]]
hosts = [\"*.a.test\"]
path = \"b.pinion\"

[[site]]
path = \"rest\"
";

/// Creates folders of three sites, each with its name as home page, and a configuration in another
/// folder, so that its paths are not relative to the current folder.
fn three_sites(configuration: &str) -> Folder {
    let folder = Folder::new("sites");
    for name in ["a", "b", "rest"] {
        folder.write(format!("conf/{name}/index.html"), name);
        folder.write(format!("conf/{name}/{name}.txt"), name);
    }
    build(&folder.join("conf/b"), &folder.join("conf/b.pinion"), &[]);
    folder.write("conf/pinion.toml", configuration);
    folder
}

fn start(folder: &Folder, io: Io) -> Server {
    start_in(folder, Way { protocol: Protocol::Http1, io, form: Form::Archive })
}

fn start_in(folder: &Folder, way: Way) -> Server {
    Start::site(&folder.join("conf/pinion.toml")).in_way(way).start()
}

/// Returns status and content for a host.
#[track_caller]
fn ask(server: &Server, host: &str, target: &str) -> (u16, String) {
    let response = server.exchange(&Request::get(target).host(host));
    (response.status, response.text().to_owned())
}

#[test]
fn each_host_has_its_site() {
    for way in ways(|_| true) {
        let folder = three_sites(THREE_SITES);
        let server = start_in(&folder, way);
        for (host, site) in [
            ("a.test", "a"),
            ("A.Test:8080", "a"),
            ("www.a.test.", "a"),
            ("x.a.test", "b"),
            ("x.y.a.test:1", "b"),
            ("b.test", "rest"),
            ("127.0.0.1", "rest"),
            ("[::1]:80", "rest"),
        ] {
            assert_eq!(ask(&server, host, "/"), (200, site.to_owned()), "{host}");
        }
        // Files of one site are missing in the others.
        assert_eq!(ask(&server, "a.test", "/a.txt").0, 200);
        assert_eq!(ask(&server, "x.a.test", "/a.txt").0, 404);
        // RFC 9112 §3.2.2: the authority of the target counts, not Host.
        assert_eq!(ask(&server, "b.test", "http://www.a.test/").1, "a");
        assert_eq!(ask(&server, "a.test", "http://other/").1, "rest");
        if way.protocol.is_http1() {
            let old = server.exchange(&Request::get("/").hostless().http10());
            assert_eq!((old.status, old.text()), (200, "rest"));
        }
        server.stop();
    }
}

#[test]
fn a_unix_socket_has_the_same_sites() {
    for io in Io::BOTH {
        let folder = three_sites(THREE_SITES);
        let socket = folder.join("socket");
        let listen = format!("unix:{}", socket.display());
        let site = Start::site(&folder.join("conf/pinion.toml"));
        let server = site.flags(&["--io", io.as_str(), "--listen", &listen]).start();
        for (host, site) in [("a.test", "a"), ("x.a.test", "b"), ("c", "rest")] {
            let response = ask_unix(&socket, host);
            assert!(response.ends_with(&format!("\r\n\r\n{site}")), "{host}: {response}");
        }
        server.stop();
    }
}

#[test]
fn each_site_has_the_rules_and_fields_that_it_names() {
    for way in ways(|_| true) {
        let folder = three_sites(
            "[[site]]\nhosts = [\"a.test\"]\npath = \"a\"\nrules = [\"own\", \"shared\"]\n\
             [[site]]\npath = \"rest\"\nrules = [\"shared\"]\nfields = [\"fields\"]\n",
        );
        folder.write("conf/own", "/own /index.html 200\n");
        folder.write("conf/shared", "/shared /index.html 200\n");
        folder.write("conf/fields", "/*\n  X-Of: rest\n");
        let server = start_in(&folder, way);
        let get = |host: &str, target: &str| server.exchange(&Request::get(target).host(host));
        assert_eq!(ask(&server, "a.test", "/own"), (200, "a".to_owned()));
        assert_eq!(ask(&server, "a.test", "/shared"), (200, "a".to_owned()));
        assert_eq!(ask(&server, "b.test", "/shared"), (200, "rest".to_owned()));
        assert_eq!(ask(&server, "b.test", "/own").0, 404);
        assert_eq!(get("b.test", "/").field("x-of"), Some("rest"));
        assert_eq!(get("a.test", "/").field("x-of"), None);
        folder.write("conf/own", "/new /index.html 200\n");
        server.signal(Signal::HUP);
        wait_for("the rules of now", || (ask(&server, "a.test", "/new").0 == 200).then_some(()));
        assert_eq!(ask(&server, "a.test", "/own").0, 404);
        server.stop();
    }
}

#[test]
fn requests_for_several_sites_share_a_connection() {
    for way in ways(|_| true) {
        let folder = three_sites(THREE_SITES);
        let server = start_in(&folder, way);
        let mut client = server.client();
        for (host, site) in [("a.test", "a"), ("x.a.test", "b"), ("c", "rest"), ("a.test", "a")] {
            let response = client.exchange(&Request::get("/").host(host));
            assert_eq!((response.status, response.text()), (200, site));
        }
        server.stop();
    }
}

#[test]
fn an_unknown_host_gets_421() {
    for way in ways(|_| true) {
        let folder = three_sites("[[site]]\nhosts = [\"a.test\"]\npath = \"a\"\n");
        let server = start_in(&folder, way);
        assert_eq!(ask(&server, "a.test", "/"), (200, "a".to_owned()));
        for host in ["b.test", "x.a.test", "127.0.0.1"] {
            let (status, page) = ask(&server, host, "/");
            assert_eq!(status, 421, "{host}");
            assert!(page.contains("has no site for this host name"), "{page}");
        }
        if way.protocol.is_http1() {
            let old = server.exchange(&Request::get("/").hostless().http10());
            assert_eq!(old.status, 421);
        }
        server.stop();
    }
}

#[test]
fn curl_finds_each_site() {
    let folder = three_sites(THREE_SITES);
    let server = start(&folder, Io::Epoll);
    let port = server.address().port();
    for (host, site) in [("a.test", "a"), ("deep.x.a.test", "b"), ("c.test", "rest")] {
        let mut curl = program("curl", "curl");
        let resolve = format!("{host}:{port}:127.0.0.1");
        curl.args(["--fail", "--silent", "--show-error", "--resolve", &resolve]);
        assert_eq!(stdout(curl.arg(format!("http://{host}:{port}/"))), site.as_bytes());
    }
    server.stop();
}

#[test]
fn one_site_is_swapped_under_load_and_no_request_fails() {
    for way in ways(|_| true) {
        let watched = THREE_SITES.replace("path = \"rest\"", "path = \"rest\"\nwatch = true");
        let folder = three_sites(&watched);
        let server = start_in(&folder, way);
        let (done, responses) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            for host in ["a.test", "x.a.test", "rest.test"] {
                let (server, done, responses) = (&server, &done, &responses);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let (status, text) = ask(server, host, "/");
                        let is_known =
                            ["a", "b", "rest"].contains(&text.as_str()) || text.starts_with("new ");
                        assert!(status == 200 && is_known, "{host}: {status} {text}");
                        assert!(host == "rest.test" || text.len() == 1, "{host}: {text}");
                        responses.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let _done = SetAtEnd(&done);
            for number in 0..3 {
                let text = format!("new {number}");
                folder.write("conf/rest/index.html", &text);
                wait_for("the new page", || (ask(&server, "c", "/").1 == text).then_some(()));
                let before = responses.load(Ordering::Relaxed);
                wait_for("answers beside the swaps", || {
                    (responses.load(Ordering::Relaxed) > before + 30).then_some(())
                });
            }
        });
        let said = server.lines();
        assert!(!said.iter().any(|line| line.contains("reloaded") && line.contains("b.pinion")));
        server.stop();
    }
}

#[test]
fn a_site_that_fails_to_reload_is_kept_and_others_are_reloaded() {
    for io in Io::BOTH {
        let folder = three_sites(THREE_SITES);
        let server = start(&folder, io);
        folder.write("conf/a/index.html", "a2");
        fs::write(folder.join("conf/b.new"), "no archive").expect("written");
        fs::rename(folder.join("conf/b.new"), folder.join("conf/b.pinion")).expect("renamed");
        // A file that is no archive is an error of the whole configuration.
        let said = server.lines().len();
        server.signal(Signal::HUP);
        server.wait_for_line(said, |line| line.contains("pinion.toml:7:8: "));
        server.wait_for_line(said, |line| line.contains("keeping the previous version"));
        assert_eq!(ask(&server, "x.a.test", "/").1, "b");
        assert_eq!(ask(&server, "a.test", "/").1, "a");
        // A damaged archive is an error of one site only.
        build(&folder.join("conf/b"), &folder.join("conf/b.good"), &[]);
        let mut bytes = fs::read(folder.join("conf/b.good")).expect("an archive");
        bytes.truncate(bytes.len() / 2);
        fs::write(folder.join("conf/b.new"), bytes).expect("written");
        fs::rename(folder.join("conf/b.new"), folder.join("conf/b.pinion")).expect("renamed");
        let said = server.lines().len();
        server.signal(Signal::HUP);
        let is_error = |line: &str| line.contains("cannot reload") && line.contains("b.pinion");
        server.wait_for_line(said, is_error);
        // The line about all sites comes last, and reports the failure too.
        let last = "3 sites, 0 new, 0 removed; 1 site keeps its previous version";
        server.wait_for_line(said, |line| line.starts_with("reloaded ") && line.ends_with(last));
        let lines = server.lines();
        let place =
            |is_match: &dyn Fn(&str) -> bool| lines[said..].iter().position(|l| is_match(l));
        assert!(place(&is_error) < place(&|line| line.ends_with(last)), "{lines:?}");
        wait_for("the new page", || (ask(&server, "a.test", "/").1 == "a2").then_some(()));
        assert_eq!(ask(&server, "x.a.test", "/").1, "b");
        server.stop();
    }
}

/// The error is the same at a start and at a reload.
#[test]
fn an_error_in_rules_names_the_host_of_the_site_and_the_file() {
    let folder = three_sites(THREE_SITES);
    let server = start(&folder, Io::Epoll);
    folder.write("conf/a/_redirects", "/b c\n");
    let file = folder.join("conf/a/_redirects").display().to_string();
    let expected = format!("pinion: site a.test: {file}:1:4: expected ");
    let said = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(said, |line| line.starts_with(&expected));
    server.stop();
    let configuration = folder.join("conf/pinion.toml");
    let serve = || {
        let listen = ["--listen", "127.0.0.1:0"].map(AsRef::as_ref);
        run(&[&["serve".as_ref(), configuration.as_os_str()][..], &listen].concat())
    };
    let ended = serve();
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
    // The error of a site for all other hosts only has its folder.
    fs::remove_file(folder.join("conf/a/_redirects")).expect("removed");
    folder.write("conf/rest/_headers", "X: y\n");
    let ended = serve();
    let expected = format!("pinion: {}/_headers:1:1: ", folder.join("conf/rest").display());
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
}

#[test]
fn sighup_reloads_the_configuration() {
    for io in Io::BOTH {
        let folder = three_sites(THREE_SITES);
        let server = start(&folder, io);
        let read_again = |text: &str, hint: &str| {
            folder.write("conf/pinion.toml", text);
            let said = server.lines().len();
            server.signal(Signal::HUP);
            server.wait_for_line(said, |line| line.contains(hint));
        };
        // Changes: another host for one site, one site removed, one added.
        folder.write("conf/new/index.html", "new");
        let changed = THREE_SITES.replace("\"www.a.test\"", "\"other.test\"");
        let changed = changed.replace("path = \"rest\"", "path = \"new\"");
        read_again(&changed, "conf/pinion.toml: 3 sites, 1 new, 1 removed");
        for (host, site) in
            [("other.test", "a"), ("www.a.test", "b"), ("a.test", "a"), ("c.test", "new")]
        {
            wait_for(host, || (ask(&server, host, "/").1 == site).then_some(()));
        }
        // Change: another setting for the build of a site.
        let flavoured = changed.replace("path = \"a\"", "path = \"a\"\nexclude = [\"*.txt\"]");
        assert_eq!(ask(&server, "a.test", "/a.txt").0, 200);
        read_again(&flavoured, "3 sites, 1 new, 1 removed");
        wait_for("the file to go", || (ask(&server, "a.test", "/a.txt").0 == 404).then_some(()));
        // Changes that need a restart are reported, and the others are applied.
        let more = format!("{flavoured}\n[server]\nworkers = 7\ngrace = 1\n");
        read_again(&more, "a restart is needed for [server] workers");
        // A wrong file changes nothing.
        read_again("[[site]]\npath = \"gone\"\n", "pinion.toml:2:8: ");
        server.wait_for_line(0, |line| line.contains("keeping the previous version"));
        assert_eq!(ask(&server, "a.test", "/"), (200, "a".to_owned()));
        assert_eq!(ask(&server, "c.test", "/"), (200, "new".to_owned()));
        server.stop();
    }
}

#[test]
fn a_removed_site_leaves_no_open_files() {
    let watched = THREE_SITES.replace("path = \"b.pinion\"", "path = \"b.pinion\"\nwatch = true");
    let folder = three_sites(&watched);
    let server = start(&folder, Io::Epoll);
    let archives = || {
        let open = server.open_files();
        open.iter().filter(|file| file.contains("b.pinion")).count()
    };
    assert_eq!(archives(), 1);
    folder.write("conf/pinion.toml", "[[site]]\npath = \"a\"\n");
    server.signal(Signal::HUP);
    wait_for("the archive to be closed", || {
        // Workers switch to the new version when they handle their next event.
        let (status, text) = ask(&server, "x.a.test", "/");
        assert_eq!(status, 200);
        (text == "a" && archives() == 0).then_some(())
    });
    server.stop();
}

#[test]
fn configuration_errors_end_the_start_with_their_positions() {
    let folder = three_sites("[[site]]\npath = \"a\"\nwokers = 1\n\n[[site]]\npath = \"none\"\n");
    let file = folder.join("conf/pinion.toml");
    let ended = run(&["serve".as_ref(), file.as_os_str(), "--listen".as_ref(), "0".as_ref()]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    for hint in [
        "pinion.toml:3:1: unknown key wokers in [[site]]",
        "pinion.toml:5:1: this site and the one in line 1 have no hosts",
        "pinion.toml:6:8: ",
    ] {
        assert!(ended.stderr.contains(hint), "{hint}: {}", ended.stderr);
    }
}

/// A flag that may be repeated replaces the whole list of the file. Its paths are relative to the
/// current folder, those of the keys to the file.
#[test]
fn flags_for_rules_and_fields_replace_the_keys() {
    let folder = three_sites(
        "[[site]]\nhosts = [\"a.test\"]\npath = \"a\"\nrules = [\"own\", \"more\"]\n\
         fields = [\"fields\"]\n[[site]]\npath = \"rest\"\nrules = [\"own\"]\n",
    );
    folder.write("conf/own", "/own /index.html 200\n");
    folder.write("conf/more", "/more /index.html 200\n");
    folder.write("conf/fields", "/*\n  X-Of: file\n");
    folder.write("own", "/flag /index.html 200\n");
    folder.write("other", "/other /index.html 200\n");
    folder.write("fields", "/*\n  X-Of: flag\n");
    // Rules in the folder itself apply whatever the flags are.
    folder.write("conf/a/_redirects", "/inside /index.html 200\n");
    let all = ["/own", "/more", "/flag", "/other", "/inside"];
    for (flags, of_a, of_rest, fields) in [
        (&[][..], &["/own", "/more", "/inside"][..], &["/own"][..], [Some("file"), None]),
        (&["--rules", "own"], &["/flag", "/inside"], &["/flag"], [Some("file"), None]),
        (
            &["--rules", "own", "--rules", "other", "--fields", "fields"],
            &["/flag", "/other", "/inside"],
            &["/flag", "/other"],
            [Some("flag"), Some("flag")],
        ),
    ] {
        let start = Start::serve(&["conf/pinion.toml"]).working_in(folder.path());
        let server = start.flags(flags).start();
        for (host, answered, field) in [("a.test", of_a, fields[0]), ("b", of_rest, fields[1])] {
            for target in all {
                let expected = if answered.contains(&target) { 200 } else { 404 };
                assert_eq!(ask(&server, host, target).0, expected, "{flags:?} {host} {target}");
            }
            let home = server.exchange(&Request::get("/").host(host));
            assert_eq!(home.field("x-of"), field, "{flags:?} {host}");
        }
        server.stop();
    }
}

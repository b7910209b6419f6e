//! Signals while a site is being built: at the start, and for a reload.

use pinion_tests::matrix::Io;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;

/// Takes a compressor long.
const SLOWLY: [&str; 4] = ["--codings", "br:11", "--jobs", "1"];
/// Of 512 KiB each: copied and compressed, not served from where they are.
const FILE_BYTES: usize = 512 << 10;
/// The name of the threads that build.
const BUILDER: &str = "build";

/// Adds pages that no two lines of are alike.
fn add_pages(folder: &Folder, count: u64) {
    let mut state: u64 = 1;
    for number in 0..count {
        let mut page = String::with_capacity(FILE_BYTES + 17);
        while page.len() < FILE_BYTES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number | 1);
            page.push_str(&format!("{state:016x}\n"));
        }
        folder.write(format!("{number}.html"), page);
    }
}

/// Returns the first line of a start that begins with `begin`.
#[track_caller]
fn first_line(start: Start, begin: &str) -> String {
    let server = start.start();
    let line = server.wait_for_line(0, |line| line.starts_with(begin));
    server.stop();
    line
}

#[test]
fn the_start_prints_the_site_and_its_url() {
    let files = Folder::with("start", [("site/index.html", "home"), ("site/a.css", "a {}")]);
    let site = files.join("site");
    let name = site.display();
    for (flag, state) in [("--no-watch", "snapshot until SIGHUP)"), ("--watch", "live")] {
        let line = first_line(Start::site(&site).flags(&[flag]), "pinion ");
        assert!(line.contains(&format!("{name} (")) && line.contains(state), "{line}");
        assert!(line.contains(" (2 files, "), "{line}");
    }
    let server = Start::site(&site).start();
    let port = server.address().port();
    server.wait_for_line(0, |line| line == format!("open http://localhost:{port}/"));
    server.stop();
}

/// A request for a host that no site names gets 421.
#[test]
fn the_printed_url_has_a_host_of_a_site() {
    let files = Folder::with("start-hosts", [("site/index.html", "home")]);
    for (hosts, opens) in [("\"a.test\"", false), ("\"a.test\", \"localhost\"", true)] {
        files.write(
            "pinion.toml",
            format!(
                "[[listen]]\naddress = \"127.0.0.1:0\"\n\
                 [[site]]\npath = \"site\"\nhosts = [{hosts}]\n"
            ),
        );
        let server = Start::configured(&files.join("pinion.toml")).start();
        server.wait_for_line(0, |line| line == "ready");
        let lines = server.lines();
        let is_of_site = |line: &String| {
            line.starts_with("site ")
                && line.contains(" (1 file, snapshot until SIGHUP) for a.test")
        };
        assert!(lines.iter().any(is_of_site), "{lines:?}");
        let url = format!("open http://localhost:{}/", server.address().port());
        let opened: Vec<&String> = lines.iter().filter(|line| line.starts_with("open ")).collect();
        assert_eq!(opened, if opens { vec![&url] } else { vec![] });
        server.stop();
    }
}

#[test]
fn the_start_prints_the_excluded_paths() {
    let site = Folder::with("start", [("index.html", "home")]);
    for name in [".a", ".b", "c~", "d.log", "e.tmp", "f.lock"] {
        site.write(name, "left out");
    }
    let left_out = "6 paths left out (publish with --include): .a, .b, c~, d.log, e.tmp and 1 more";
    let server = Start::site(site.path()).start();
    server.wait_for_line(0, |line| line.contains(left_out));
    server.stop();
}

#[test]
fn a_signal_ends_a_start_that_still_builds() {
    let site = Folder::new("building");
    add_pages(&site, 60);
    for signal in [Signal::TERM, Signal::INT] {
        let sockets = Folder::new("sockets");
        let socket = sockets.join("pinion.sock");
        let listen = format!("unix:{}", socket.display());
        let start = Start::site(site.path()).flags(&SLOWLY).flags(&["--listen", &listen]);
        let mut server = start.begin();
        server.wait_for_thread(BUILDER);
        assert!(socket.exists(), "the addresses are taken before the build");
        server.signal(signal);
        let status = server.wait();
        assert!(status.success(), "{status}");
        let said = server.wait_for_line(0, |line| line.starts_with("stopped"));
        assert_eq!(said, "stopped; nothing was served yet");
        assert_eq!(server.lines(), [said], "it never listened");
        assert!(!socket.exists(), "the file of the socket is left behind");
    }
}

#[test]
fn a_reload_requested_during_the_first_build_follows_it() {
    let site = Folder::with("hup", [("index.html", "home")]);
    add_pages(&site, 2);
    let mut server = Start::site(site.path()).flags(&SLOWLY).begin();
    server.wait_for_thread(BUILDER);
    server.signal(Signal::HUP);
    server.wait_for_line(0, |line| line.starts_with("listening "));
    server.wait_for_line(0, |line| line.starts_with("reloaded "));
    assert!(server.is_running());
    server.stop();
}

#[test]
fn a_signal_ends_a_server_during_the_build_of_a_reload() {
    for io in Io::BOTH {
        let site = Folder::with("rebuilding", [("index.html", "home")]);
        let start = Start::site(site.path()).flags(&SLOWLY).flags(&["--io", io.as_str()]);
        let mut server = start.start();
        add_pages(&site, 60);
        server.signal(Signal::HUP);
        server.wait_for_thread(BUILDER);
        assert_eq!(server.get("/").text(), "home");
        server.signal(Signal::TERM);
        let status = server.wait();
        assert!(status.success(), "{status}");
        let said = server.lines();
        assert!(!said.iter().any(|line| line.starts_with("reloaded")), "{said:?}");
    }
}

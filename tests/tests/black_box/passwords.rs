//! Passwords over time: what a reload and a watch do with password files and with what was verified
//! before, and whose wrong passwords count together.

use pinion_tests::folder::Folder;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::upstream::Upstream;
use pinion_tests::wait_for;
use rustix::process::Signal;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Made by `htpasswd -nbB -C 4`. The password of both is `open`.
const ANN: &str = "ann:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju\n";
const BOB: &str = "bob:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju\n";

/// What the credentials `ann:open`, `ann:shut` and `bob:open` are in a request.
const ANN_OPEN: &str = "Basic YW5uOm9wZW4=";
const ANN_SHUT: &str = "Basic YW5uOnNodXQ=";
const BOB_OPEN: &str = "Basic Ym9iOm9wZW4=";

/// A folder, or what `source` names, behind a password, with these lines before.
fn protected(source: &str) -> Folder {
    let folder = Folder::with("passwords", [("site/index.html", "home")]);
    folder.write("users", ANN);
    let password = "[[site.access]]\npassword-file = \"users\"\n";
    folder.write("pinion.toml", format!("[[site]]\n{source}\n{password}"));
    folder
}

fn with_password(value: &str) -> Request {
    Request::get("/").field("Authorization", value)
}

fn status(server: &Server, value: &str) -> u16 {
    server.exchange(&with_password(value)).status
}

fn reload(server: &Server) {
    let said = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(said, |line| line.starts_with("reloaded "));
}

/// Sends wrong passwords until no more are verified.
fn use_up_attempts(mut status: impl FnMut() -> u16) {
    for _ in 0..200 {
        if status() == 429 {
            return;
        }
    }
    panic!("wrong passwords are limited");
}

/// Certificates are renewed and sites are published by a reload: no user has to be verified again
/// for that. As nothing is verified any more for this client, it is the cache that admits it.
#[test]
fn a_reload_keeps_what_was_verified_with_the_same_file() {
    let folder = protected("path = \"site\"");
    for io in Io::BOTH {
        folder.write("users", ANN);
        let start = Start::site(&folder.join("pinion.toml")).flags(&["--io", io.as_str()]);
        let server = start.start();
        assert_eq!(status(&server, ANN_OPEN), 200);
        use_up_attempts(|| status(&server, ANN_SHUT));
        // The same content in another file.
        folder.write("replacement", ANN);
        fs::rename(folder.join("replacement"), folder.join("users")).expect("replaced");
        folder.write("site/index.html", "new");
        reload(&server);
        let is_new = || {
            let response = server.exchange(&with_password(ANN_OPEN));
            assert_eq!(response.status, 200, "{response}");
            (response.text() == "new").then_some(())
        };
        wait_for("the new version", is_new);
        // One byte is another: what was verified before counts for nothing.
        folder.write("users", format!("#\n{ANN}"));
        reload(&server);
        let is_dropped = || (status(&server, ANN_OPEN) == 429).then_some(());
        wait_for("the new file", is_dropped);
        folder.write("site/index.html", "home");
        server.stop();
    }
}

/// A user whose password, `open`, takes about half a second to verify: a reload takes less.
const SLOW: &str = "slow:$2y$13$a6FulujO1a34h3J7DvwrRex72pJ7PlTBiwbcV69./9YwX0SG9wS0S\n";
const SLOW_OPEN: &str = "Basic c2xvdzpvcGVu";

/// A request that waits for its password while the site is reloaded is checked by the new rules,
/// and counts once.
#[test]
fn a_reload_during_a_verification_counts_no_request_twice() {
    let folder = protected("path = \"site\"");
    folder.write("users", SLOW);
    let rules = "[[site.access]]\npassword-file = \"users\"\nrequest-rate = \"1/h\"\n\
                 max-concurrent-requests = 1\n";
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{rules}"));
    for io in Io::BOTH {
        let start = Start::site(&folder.join("pinion.toml")).flags(&["--io", io.as_str()]);
        let server = start.flags(&["--workers", "1"]).start();
        let mut client = server.connect();
        client.send(with_password(SLOW_OPEN).bytes());
        reload(&server);
        assert_eq!(client.receive().status, 200);
        assert_eq!(status(&server, SLOW_OPEN), 429, "it has counted once");
        server.stop();
    }
}

/// Wherever the site comes from, and whether the file is written in place or replaced.
#[test]
fn password_files_are_watched() {
    let built = Folder::with("passwords-built", [("public/index.html", "home")]);
    let archive = built.join("site.pinion");
    build(&built.join("public"), &archive, &[]);
    let archive = format!("path = \"{}\"", archive.display());
    let upstream = Upstream::echo();
    let proxied = format!("proxy = \"{}\"", upstream.url());
    for source in ["path = \"site\"", &archive, &proxied] {
        let folder = protected(source);
        let server = Start::site(&folder.join("pinion.toml")).flags(&["--watch"]).start();
        assert_eq!((status(&server, ANN_OPEN), status(&server, BOB_OPEN)), (200, 401), "{source}");
        let admits = |value| move |server: &Server| status(server, value) == 200;
        let (ann, bob) = (admits(ANN_OPEN), admits(BOB_OPEN));
        // Without asking all the time: wrong passwords are limited.
        let after_change = |change: &dyn Fn(), expected: &str| {
            let said = server.lines().len();
            change();
            server.wait_for_line(said, |line| line.contains(expected));
        };
        after_change(&|| folder.write("users", format!("{ANN}{BOB}")), "reloaded ");
        wait_for("a new user", || bob(&server).then_some(()));
        let replace = || {
            folder.write("replacement", BOB);
            fs::rename(folder.join("replacement"), folder.join("users")).expect("replaced");
        };
        after_change(&replace, "reloaded ");
        wait_for("a user less", || (!ann(&server)).then_some(()));
        // What is wrong leaves everything as it was, until it is right.
        after_change(&|| folder.write("users", "ann:open\n"), "users:1: ");
        assert!(bob(&server), "{source}");
        after_change(&|| folder.write("users", ANN), "reloaded ");
        wait_for("the user again", || ann(&server).then_some(()));
        server.stop();
    }
}

/// Sends a request over a Unix socket.
fn status_over(socket: &Path, value: &str) -> u16 {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    let request = with_password(value).field("Connection", "close");
    stream.write_all(&request.bytes()).expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response.get(9..12).and_then(|status| status.parse().ok()).expect("a status")
}

/// Behind a proxy that says nothing about its clients, all of them come over one Unix socket. One
/// that guesses the password of a user must not keep the other users out.
#[test]
fn wrong_passwords_over_a_unix_socket_count_by_user() {
    let folder = protected("path = \"site\"");
    folder.write("users", format!("{ANN}{BOB}"));
    let socket = folder.join("socket");
    let listen = format!("unix:{}", socket.display());
    for io in Io::BOTH {
        let start = Start::site(&folder.join("pinion.toml")).flags(&["--listen", &listen]);
        let server = start.flags(&["--io", io.as_str()]).start();
        use_up_attempts(|| status_over(&socket, ANN_SHUT));
        assert_eq!(status_over(&socket, ANN_OPEN), 429, "it is not verified");
        assert_eq!(status_over(&socket, BOB_OPEN), 200, "another user");
        assert_eq!(status(&server, ANN_OPEN), 200, "a client with an address");
        server.stop();
    }
}

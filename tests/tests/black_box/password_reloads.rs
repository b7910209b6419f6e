//! Passwords over time: the effects of a reload and a watch on password files and on verified
//! passwords, and the clients whose wrong passwords are counted together.

use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use pinion_tests::wait_for;
use rustix::process::Signal;
use std::fs;
use std::io::{ErrorKind, Read, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Created by `htpasswd -nbB -C 4`. The password of both is `open`.
const ANN: &str = "ann:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju\n";
const BOB: &str = "bob:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju\n";

/// The credentials `ann:open`, `ann:shut`, `bob:open` and `bob:shut` in a request.
const ANN_OPEN: &str = "Basic YW5uOm9wZW4=";
const ANN_SHUT: &str = "Basic YW5uOnNodXQ=";
const BOB_OPEN: &str = "Basic Ym9iOm9wZW4=";
const BOB_SHUT: &str = "Basic Ym9iOnNodXQ=";

/// Creates a folder, or another `source`, that is protected by a password and these configuration
/// lines.
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

/// Replaces the users of a folder atomically, so that the server never reads a part of the file.
fn replace_users(folder: &Folder, users: &str) {
    folder.write("replacement", users);
    fs::rename(folder.join("replacement"), folder.join("users")).expect("replaced");
}

/// Certificates are renewed and sites are published by a reload: no user has to be verified again
/// for that. Removed users are refused although they were verified.
#[test]
fn a_reload_keeps_verified_passwords_if_the_file_is_unchanged() {
    let folder = protected("path = \"site\"");
    for io in Io::BOTH {
        folder.write("users", ANN);
        let start = Start::site(&folder.join("pinion.toml")).flags(&["--io", io.as_str()]);
        let server = start.start();
        assert_eq!(status(&server, ANN_OPEN), 200);
        // The same content in another file.
        replace_users(&folder, ANN);
        folder.write("site/index.html", "new");
        reload(&server);
        let is_new = || {
            let response = server.exchange(&with_password(ANN_OPEN));
            assert_eq!(response.status, 200, "{response}");
            (response.text() == "new").then_some(())
        };
        wait_for("the new version", is_new);
        // Users that were verified before are verified again.
        replace_users(&folder, BOB);
        reload(&server);
        let is_dropped = || (status(&server, ANN_OPEN) != 200).then_some(());
        wait_for("the new file", is_dropped);
        folder.write("site/index.html", "home");
        server.stop();
    }
}

/// A user whose password, `open`, takes about half a second to verify: a reload takes less.
const SLOW: &str = "slow:$2y$13$a6FulujO1a34h3J7DvwrRex72pJ7PlTBiwbcV69./9YwX0SG9wS0S\n";
const SLOW_OPEN: &str = "Basic c2xvdzpvcGVu";

/// A request that waits for its password while the site is reloaded is checked by the new rules,
/// and counts once. A round in which the response came before the end of the reload proves nothing.
#[test]
fn a_reload_during_a_verification_counts_no_request_twice() {
    let folder = protected("path = \"site\"");
    folder.write("users", SLOW);
    let rules = "[[site.access]]\npassword-file = \"users\"\nrequest-rate = \"1/h\"\n\
                 max-concurrent-requests = 1\n";
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{rules}"));
    for io in Io::BOTH {
        let round = || {
            let start = Start::site(&folder.join("pinion.toml")).flags(&["--io", io.as_str()]);
            let server = start.flags(&["--workers", "1"]).start();
            let mut client = TcpStream::connect(server.address()).expect("a connection");
            let request = with_password(SLOW_OPEN).field("Connection", "close");
            client.write_all(&request.bytes()).expect("sent");
            reload(&server);
            client.set_nonblocking(true).expect("a mode");
            let early = client.peek(&mut [0]);
            let has_overlapped = early.is_err_and(|why| why.kind() == ErrorKind::WouldBlock);
            client.set_nonblocking(false).expect("a mode");
            assert_eq!(status_in(&mut client), 200);
            assert_eq!(status(&server, SLOW_OPEN), 429, "it has counted once");
            server.stop();
            has_overlapped.then_some(())
        };
        wait_for("a verification that goes on behind a reload", round);
    }
}

/// The file is watched for every source of the site.
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
        // The file is not tested by repeated requests, because wrong passwords are limited.
        let after_change = |change: &dyn Fn(), expected: &str| {
            let said = server.lines().len();
            change();
            server.wait_for_line(said, |line| line.contains(expected));
        };
        after_change(&|| replace_users(&folder, &format!("{ANN}{BOB}")), "reloaded ");
        wait_for("a new user", || bob(&server).then_some(()));
        after_change(&|| replace_users(&folder, BOB), "reloaded ");
        wait_for("a user less", || (!ann(&server)).then_some(()));
        wait_for("the user that is left", || bob(&server).then_some(()));
        // An error leaves everything unchanged until it is corrected.
        after_change(&|| replace_users(&folder, "ann:open\n"), "users:1: ");
        assert!(bob(&server), "{source}");
        after_change(&|| replace_users(&folder, ANN), "reloaded ");
        wait_for("the user again", || ann(&server).then_some(()));
        let remove = || fs::remove_file(folder.join("users")).expect("removed");
        after_change(
            &remove,
            "users is gone (deleted, renamed or unmounted), keeping its previous",
        );
        assert!(ann(&server), "{source}");
        after_change(&|| replace_users(&folder, ANN), "users is back");
        server.stop();
    }
}

/// Sends a request over a Unix socket; returns the status.
fn status_over(socket: &Path, value: &str) -> u16 {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    let request = with_password(value).field("Connection", "close");
    stream.write_all(&request.bytes()).expect("sent");
    status_in(&mut stream)
}

/// Returns the status of the response on a connection that closes after it.
fn status_in(stream: &mut impl Read) -> u16 {
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response.get(9..12).and_then(|status| status.parse().ok()).expect("a status")
}

/// Behind a proxy that does not identify its clients, all of them use one Unix socket. A client
/// that guesses the password of a user must not lock out the other users.
#[test]
fn wrong_passwords_over_a_unix_socket_count_by_user() {
    let folder = protected("path = \"site\"");
    folder.write("users", format!("{ANN}{BOB}"));
    let socket = folder.join("socket");
    let listen = format!("unix:{}", socket.display());
    for io in Io::BOTH {
        let start = Start::site(&folder.join("pinion.toml")).flags(&["--listen", &listen]);
        let server = start.flags(&["--io", io.as_str()]).start();
        // Wrong passwords are never cached, so both are attempts.
        let is_only_ann = || {
            let is_kept_out = status_over(&socket, ANN_SHUT) == 429;
            (is_kept_out && status_over(&socket, BOB_SHUT) == 401).then_some(())
        };
        wait_for("a user that is kept out, and another that is not", is_only_ann);
        assert_eq!(status_over(&socket, BOB_OPEN), 200, "another user");
        assert_eq!(status(&server, ANN_OPEN), 200, "a client with an address");
        server.stop();
    }
}

//! `pinion serve`: starting, reloading, logging, stopping.

use crate::pinion_runner::{build_site, run};
use crate::server::{Server, exchange};
use crate::temporary_folder::Folder;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

/// Publishes another archive under the same name, as `pinion build` does it.
fn publish(folder: &Folder, title: &str) {
    folder.write("site/index.html", format!("<!doctype html><title>{title}</title>"));
    build_site(folder);
}

#[test]
fn a_folder_and_an_archive_are_served_alike() {
    let folder = Folder::with_site();
    build_site(&folder);
    let page = folder.read("site/index.html");
    for source in ["site", "site.pinion"] {
        let server = Server::start(&folder, source);
        let response = server.get("/");
        assert_eq!((response.status, &response.body), (200, &page), "{source}");
        assert!(response.field("ETag").is_some() && response.field("Date").is_some());
        assert_eq!(response.field("Server"), None);
        assert_eq!(server.get("/none").status, 404);
        assert_eq!(server.get("/none").body, folder.read("site/404.html"));
        assert_eq!(server.stop().0, Some(0), "{source}");
    }
}

#[test]
fn public_is_served_when_nothing_is_named() {
    let folder = Folder::new();
    folder.write("public/index.html", "public");
    assert_eq!(Server::start(&folder, "").get("/").body, b"public");
}

#[test]
fn a_path_alone_serves_a_folder_an_archive_or_a_script() {
    let folder = Folder::with_site();
    build_site(&folder);
    folder.write("site.lua", "pinion.get('/', function() return 'of a script' end)");
    let home = folder.read("site/index.html");
    for (path, body) in
        [("site", &home[..]), ("site.pinion", &home), ("site.lua", b"of a script".as_slice())]
    {
        let server = Server::start_as(&folder, &format!("{path} --listen 127.0.0.1:0"), 1);
        assert_eq!(server.get("/").body, body, "{path}");
        assert_eq!(server.stop().0, Some(0), "{path}");
    }
}

#[test]
fn every_memory_mode_gives_the_same_responses() {
    let folder = Folder::with_site();
    build_site(&folder);
    for source in ["site", "site.pinion"] {
        for memory in ["map", "preload", "copy"] {
            let server = Server::start(&folder, &format!("{source} --memory {memory}"));
            assert_eq!(server.get("/style.css").body, folder.read("site/style.css"), "{memory}");
        }
    }
}

#[test]
fn an_archive_copied_to_memory_survives_truncation() {
    let folder = Folder::with_site();
    build_site(&folder);
    let server = Server::start(&folder, "site.pinion --memory copy");
    let file = fs::File::options().write(true).open(folder.join("site.pinion")).expect("it opens");
    file.set_len(0).expect("truncated");
    assert_eq!(server.get("/style.css").body, folder.read("site/style.css"));
}

#[test]
fn a_truncated_archive_fails_requests_but_not_the_server() {
    let folder = Folder::with_site();
    folder.write("site/large.bin", vec![7; 1 << 20]);
    build_site(&folder);
    let server = Server::start(&folder, "site.pinion");
    assert_eq!(server.get("/large.bin").body.len(), 1 << 20);
    let file = fs::File::options().write(true).open(folder.join("site.pinion")).expect("it opens");
    file.set_len(4096).expect("truncated");
    for path in ["/large.bin", "/", "/style.css", "/none", "/large.bin"] {
        let response = server.try_get(path);
        assert!(response.is_none_or(|response| response.status == 500), "{path}");
    }
    server.hears("every request is answered 500 until a whole archive is loaded");
    publish(&folder, "whole again");
    server.signal(Signal::HUP);
    server.gets("/", |response| response.body == folder.read("site/index.html"));
}

#[test]
fn every_listener_is_printed_and_responds() {
    let folder = Folder::with_site();
    let listen = "site --listen 127.0.0.1:0 --listen [::1]:0 --listen unix:p.sock";
    let server = Server::start_with(&folder, listen, 3);
    assert!(server.urls[1].starts_with("http://[::1]:"), "{:?}", server.urls);
    assert_eq!(server.urls[2], "unix:p.sock");
    assert_eq!(server.get("/").status, 200);
    let mut local = UnixStream::connect(folder.join("p.sock")).expect("it listens");
    let response = exchange(&mut local, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(response.status, 200);
    assert_eq!(server.stop().0, Some(0));
    assert!(!folder.join("p.sock").exists(), "the socket's file is gone");
}

#[test]
fn an_archive_that_is_not_whole_is_exit_1_before_anything_listens() {
    let folder = Folder::with_site();
    build_site(&folder);
    let sound = folder.read("site.pinion");
    let with = |at: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        bytes
    };
    for (name, bytes, hint) in [
        ("newer", with(8, 9), "newer: archive format 9; this program reads format 3"),
        ("damaged", with(20, !sound[20]), "damaged archive: the header page"),
        ("cut", sound[..sound.len() - 1].to_vec(), "truncated archive"),
    ] {
        folder.write(name, bytes);
        run(&folder, &format!("serve {name} --listen 127.0.0.1:0")).refused(1, hint);
    }
}

#[test]
fn an_address_in_use_is_exit_1() {
    let folder = Folder::with_site();
    let server = Server::start(&folder, "site");
    let second = run(&folder, &format!("serve site --listen {}", server.address()));
    second.refused(1, "another program listens there already");
}

#[test]
fn the_start_line_has_workers_connections_and_memory() {
    let folder = Folder::with_site();
    let server = Server::start(&folder, "site --max-connections 100 --memory-budget 20 --io epoll");
    let line = server.start.last().expect("a line");
    for part in
        ["2 workers on epoll", "at most 100 connections and ", " MiB of memory (files of the"]
    {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn the_dummy_responds_with_13_bytes_to_every_request() {
    let folder = Folder::new();
    let server = Server::start(&folder, "--dummy --server-name pinion");
    for path in ["/", "/anything?x"] {
        let response = server.get(path);
        assert_eq!((response.status, response.body.len()), (200, 13));
        assert_eq!(response.field("Content-Length"), Some("13"));
        assert_eq!(response.field("Server"), Some("pinion"));
    }
}

#[test]
fn the_empty_dummy_responds_without_content() {
    let folder = Folder::new();
    for flags in ["--dummy-empty", "--dummy --dummy-empty --dummy-delay 5ms"] {
        let response = Server::start(&folder, flags).get("/anything");
        assert_eq!((response.status, response.body.len()), (200, 0), "{flags}");
        assert_eq!(response.field("Content-Length"), Some("0"), "{flags}");
    }
}

#[test]
fn sighup_reloads_a_replaced_archive_and_a_changed_folder() {
    let folder = Folder::with_site();
    build_site(&folder);
    for source in ["site", "site.pinion"] {
        let server = Server::start(&folder, source);
        let title = format!("second state of {source}");
        publish(&folder, &title);
        assert!(!server.get("/").body.ends_with(format!("{title}</title>").as_bytes()));
        server.signal(Signal::HUP);
        server.hears("reloaded");
        server.gets("/", |response| response.body == folder.read("site/index.html"));
        assert_eq!(server.stop().0, Some(0));
    }
}

#[test]
fn a_failed_reload_keeps_the_previous_version() {
    let folder = Folder::with_site();
    build_site(&folder);
    let server = Server::start(&folder, "site.pinion");
    folder.write("broken", "no archive");
    fs::rename(folder.join("broken"), folder.join("site.pinion")).expect("renamed");
    server.signal(Signal::HUP);
    server.hears("keeping the previous version");
    server.hears("not a Pinion archive");
    assert_eq!(server.get("/").body, folder.read("site/index.html"));
}

#[test]
fn a_watched_folder_is_rebuilt_when_a_file_changes() {
    let folder = Folder::with_site();
    let server = Server::start(&folder, "site --watch");
    for title in ["second", "third"] {
        folder.write("site/index.html", format!("<!doctype html><title>{title}</title>"));
        server.gets("/", |response| response.body == folder.read("site/index.html"));
    }
    folder.write("site/new/page.html", "new");
    server.gets("/new/page.html", |response| response.body == b"new");
}

#[test]
fn a_watched_archive_is_swapped_when_another_takes_its_name() {
    let folder = Folder::with_site();
    build_site(&folder);
    let server = Server::start(&folder, "site.pinion --watch");
    for title in ["second", "third"] {
        publish(&folder, title);
        server.gets("/", |response| response.body == folder.read("site/index.html"));
    }
    // A storm of renames: the name leads nowhere now and then, and to the last one at the end.
    for state in 0..20 {
        fs::rename(folder.join("site.pinion"), folder.join("away")).expect("renamed");
        folder.write("site/index.html", format!("<title>{state}</title>"));
        build_site(&folder);
    }
    server.gets("/", |response| response.body == b"<title>19</title>");
}

#[test]
fn a_link_to_the_archive_may_be_switched() {
    let folder = Folder::with_site();
    let release = |title: &str| {
        publish(&folder, title);
        fs::rename(folder.join("site.pinion"), folder.join(title)).expect("renamed");
        std::os::unix::fs::symlink(title, folder.join("next")).expect("a link");
        fs::rename(folder.join("next"), folder.join("current.pinion")).expect("switched");
    };
    release("one");
    let server = Server::start(&folder, "current.pinion --watch");
    release("two");
    server.gets("/", |response| response.body == b"<!doctype html><title>two</title>");
}

#[test]
fn the_access_log_has_a_line_for_each_request_and_can_be_rotated() {
    let folder = Folder::with_site();
    let server = Server::start(&folder, "site --access-log access.log");
    assert_eq!(server.get("/?a=\"b\\").status, 400, "a quote is no part of a target");
    assert_eq!(server.get("/none").status, 404);
    let line = || String::from_utf8(folder.read("access.log")).expect("UTF-8");
    server.gets("/", |_| line().contains("\"GET /none HTTP/1.1\" 404 "));
    fs::rename(folder.join("access.log"), folder.join("access.log.1")).expect("rotated");
    server.signal(Signal::HUP);
    server.gets("/rotated", |_| folder.join("access.log").exists() && line().contains("/rotated"));
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn the_access_log_on_stdout_is_complete_when_the_server_ends() {
    let folder = Folder::with_site();
    let server = Server::start(&folder, "site --access-log - --log-format json");
    for _ in 0..50 {
        server.get("/style.css");
    }
    let (code, stdout) = server.stop();
    assert_eq!((code, stdout.lines().count()), (Some(0), 50));
    for line in stdout.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&value["target"], &value["status"]), (&"/style.css".into(), &200.into()));
        assert_eq!((&value["bytes"], &value["peer"]), (&2200.into(), &"127.0.0.1".into()));
    }
}

#[test]
fn a_stopping_server_completes_running_requests() {
    let folder = Folder::with_site();
    let server = Server::start(&folder, "site");
    let mut idle = TcpStream::connect(server.address()).expect("it listens");
    let mut busy = TcpStream::connect(server.address()).expect("it listens");
    busy.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").expect("sent");
    // There is a response on a third connection: the two above were accepted before it.
    assert_eq!(server.get("/").status, 200);
    server.signal(Signal::TERM);
    server.hears("stopping");
    assert_eq!(idle.read(&mut [0; 1]).expect("the end"), 0, "an idle connection ends at once");
    let response = exchange(&mut busy, "\r\n");
    assert_eq!((response.status, response.field("Connection")), (200, Some("close")));
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn the_grace_period_or_a_second_signal_ends_the_server() {
    let folder = Folder::with_site();
    for (grace, signals) in [("0", 1), ("600", 2)] {
        let server = Server::start(&folder, &format!("site --grace {grace}"));
        let mut slow = TcpStream::connect(server.address()).expect("it listens");
        slow.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
        assert_eq!(server.get("/").status, 200);
        for _ in 1..signals {
            server.signal(Signal::INT);
            server.hears("stopping");
        }
        assert_eq!(server.stop().0, Some(0), "--grace {grace}");
    }
}

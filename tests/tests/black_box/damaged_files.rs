//! Files that are truncated or changed while they are served: only their own responses fail, and
//! neither the server nor other responses are affected (docs/reliability.md).

use pinion_tests::client::Broken;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::fs::File;
use std::path::Path;

const MEMORY: [&str; 3] = ["map", "preload", "copy"];

/// More files than the server has slots for mappings initially, each above the 1 MiB from which a
/// file of a folder is external to the archive.
const LARGE_FILES: usize = 110;
const LARGE_BYTES: usize = (1 << 20) + 5000;

fn content(number: usize) -> Vec<u8> {
    let mut bytes = vec![b'a' + (number % 26) as u8; LARGE_BYTES];
    let name = format!("file {number}\n");
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn truncate(path: &Path, bytes: u64) {
    let file = File::options().write(true).open(path).expect("it opens");
    file.set_len(bytes).expect("truncated");
}

fn start(site: &Path, io: Io, memory: &str) -> Server {
    eprintln!("over {io:?}, --memory {memory}");
    Start::site(site).flags(&["--io", io.as_str(), "--memory", memory]).start()
}

#[test]
fn a_truncated_large_file_breaks_only_its_own_responses() {
    const VICTIM: usize = 105;
    let folder = Folder::with("externals", [("index.html", "home")]);
    for io in Io::BOTH {
        for memory in MEMORY {
            for number in 0..LARGE_FILES {
                folder.write(format!("{number}.bin"), content(number));
            }
            let server = start(folder.path(), io, memory);
            let target = format!("/{VICTIM}.bin");
            assert!(server.get(&target).body == content(VICTIM));
            let mut slow = server.connect();
            slow.send(Request::get(&target).bytes());
            slow.read_some(100).expect("the first bytes");
            let mut ranged = server.connect();
            ranged.send(Request::get(&target).field("Range", "bytes=50000-").bytes());
            ranged.read_some(100).expect("the first bytes");
            truncate(&folder.join(format!("{VICTIM}.bin")), 100_000);
            for (mut connection, from) in [(slow, 0), (ranged, 50_000)] {
                match connection.try_receive(false) {
                    Ok(whole) => assert!(whole.body == content(VICTIM)[from..], "wrong bytes"),
                    Err(Broken::Short(_) | Broken::Failed(_)) if memory == "map" => {}
                    Err(broken) => panic!("{broken:?}"),
                }
            }
            let again = server.get(&target);
            match memory {
                "map" => assert_eq!(again.status, 500),
                _ => assert!(again.body == content(VICTIM)),
            }
            for other in (0..LARGE_FILES).filter(|number| *number != VICTIM) {
                assert!(server.get(&format!("/{other}.bin")).body == content(other), "{other}");
            }
            assert_eq!(server.get("/").text(), "home");
            server.stop();
        }
    }
}

#[test]
fn a_rewritten_large_file_is_not_mixed_with_its_old_content() {
    let folder = Folder::with("rewritten", [("index.html", "home")]);
    for io in Io::BOTH {
        folder.write("large.bin", content(1));
        let server = start(folder.path(), io, "map");
        assert!(server.get("/large.bin").body == content(1));
        // The file has the same size, so the time of modification shows the change.
        folder.write("large.bin", content(2));
        let outdated = server.get("/large.bin");
        assert_eq!(outdated.status, 500, "{outdated}");
        server.wait_for_line(0, |line| line.contains("/large.bin: the file has changed"));
        assert_eq!(server.get("/").text(), "home");
        server.signal(rustix::process::Signal::HUP);
        wait_for("the new file", || (server.get("/large.bin").body == content(2)).then_some(()));
        server.stop();
    }
}

#[test]
fn a_truncated_archive_breaks_responses_unless_it_was_copied() {
    let folder = Folder::with("archive", [("site/index.html", "home")]);
    folder.write("site/large.bin", content(0));
    let archive = folder.join("site.pinion");
    for io in Io::BOTH {
        for memory in MEMORY {
            build(&folder.join("site"), &archive, &[]);
            let server = start(&archive, io, memory);
            assert!(server.get("/large.bin").body == content(0));
            truncate(&archive, 5000);
            for target in ["/large.bin", "/", "/nothing", "/large.bin", "/"] {
                let mut connection = server.connect();
                connection.send(Request::get(target).bytes());
                match connection.try_receive(false) {
                    Ok(response) if memory == "copy" => {
                        assert_ne!(response.status, 500, "{target}");
                    }
                    Ok(response) => assert_eq!(response.status, 500, "{target}"),
                    Err(broken) => assert_ne!(memory, "copy", "{broken:?}"),
                }
            }
            build(&folder.join("site"), &archive, &[]);
            server.signal(rustix::process::Signal::HUP);
            server.wait_for_line(0, |line| line.starts_with("reloaded"));
            wait_for("a whole archive", || (server.get("/").status == 200).then_some(()));
            assert!(server.get("/large.bin").body == content(0));
            server.stop();
        }
    }
}

#[test]
fn an_archive_truncated_within_its_last_page_is_detected() {
    let folder = Folder::with("last-page", [("site/index.html", "home")]);
    let archive = folder.join("site.pinion");
    for io in Io::BOTH {
        build(&folder.join("site"), &archive, &[]);
        let server = start(&archive, io, "map");
        assert_eq!(server.get("/").text(), "home");
        // The rest of the page reads as zeros, without a signal.
        let bytes = archive.metadata().expect("its size").len();
        truncate(&archive, bytes - 1);
        wait_for("an answer of 500", || (server.get("/").status == 500).then_some(()));
        server.stop();
    }
}

#[test]
fn many_failed_responses_are_logged_in_a_few_lines() {
    const REQUESTS: usize = 2000;
    let folder = Folder::with("flood", [("site/index.html", "home")]);
    let archive = folder.join("site.pinion");
    build(&folder.join("site"), &archive, &[]);
    let server = start(&archive, Io::Epoll, "map");
    truncate(&archive, 5);
    wait_for("an answer of 500", || (server.get("/").status == 500).then_some(()));
    let mut connection = server.connect();
    for _ in 0..REQUESTS {
        assert_eq!(connection.exchange(&Request::get("/")).status, 500);
    }
    let logged_count = server.lines().iter().filter(|line| line.contains("500 for")).count();
    assert!((1..REQUESTS / 10).contains(&logged_count), "{logged_count} lines");
    server.stop();
}

//! Content that changes under the server: swaps, truncations, and the end of the server itself.

use pinion_tests::continuous_requests::{FILES, Load, generation_of, write_generation};
use pinion_tests::matrix::{Io, Matrix, every_way};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{is_reached, wait_for};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Replaces the archive like a deployment: `pinion build` renames.
fn publish_archive(folder: &Folder, generation: u32) {
    write_generation(folder, "next", generation);
    build(&folder.join("next"), &folder.join("site.pinion"), &[]);
}

/// Switches the link `site` to another folder, in one step.
fn publish_folder(folder: &Folder, generation: u32) {
    let name = format!("generation-{generation}");
    write_generation(folder, &name, generation);
    symlink(&name, folder.join("link")).expect("a link");
    fs::rename(folder.join("link"), folder.join("site")).expect("switched");
}

fn start(io: Io, site: &Path, flags: &[&str]) -> Server {
    Start::serve(&[site]).flags(&["--io", io.as_str()]).flags(flags).start()
}

/// Swaps under load, and asserts that nothing of the old generations stays open.
fn swaps(folder: &Folder, site: &str, flags: &[&str], publish: fn(&Folder, u32), reload: bool) {
    for io in Io::BOTH {
        publish(folder, 1);
        let server = start(io, &folder.join(site), flags);
        assert_eq!(generation_of(&server.get("/small")), 1);
        let contents = open_contents(&server).len();
        Load::during(server.address(), |load| {
            for generation in 2..=4 {
                publish(folder, generation);
                if reload {
                    server.signal(Signal::HUP);
                }
                load.wait_for_generation(generation);
            }
        });
        let gone = is_reached(|| open_contents(&server).len() <= contents);
        assert!(gone, "old generations stay: {:?}", open_contents(&server));
        server.stop();
    }
}

/// Returns the archives and files of the site that the server has open.
fn open_contents(server: &Server) -> Vec<String> {
    let is_content = |path: &String| path.starts_with("/memfd:") || path.contains("-swap/");
    server.open_files().into_iter().filter(is_content).collect()
}

#[test]
fn sighup_swaps_an_archive_under_load() {
    for memory in ["map", "preload", "copy"] {
        let folder = Folder::new("swap");
        swaps(&folder, "site.pinion", &["--memory", memory], publish_archive, true);
    }
}

#[test]
fn sighup_swaps_a_folder_under_load() {
    let folder = Folder::new("swap");
    swaps(&folder, "site", &["--codings", "gzip:1"], publish_folder, true);
}

#[test]
fn a_watched_archive_is_swapped_under_load() {
    let folder = Folder::new("swap");
    swaps(&folder, "site.pinion", &["--watch"], publish_archive, false);
}

#[test]
fn a_watched_folder_is_swapped_under_load() {
    let folder = Folder::new("swap");
    swaps(&folder, "site", &["--watch", "--codings", "gzip:1"], publish_folder, false);
}

#[test]
fn a_file_of_a_watched_folder_is_replaced_under_load() {
    for io in Io::BOTH {
        let folder = Folder::new("replace");
        write_generation(&folder, "site", 1);
        let flags = ["--watch", "--codings", "gzip:1"];
        let server = start(io, &folder.join("site"), &flags);
        Load::during(server.address(), |load| {
            for generation in 2..=4 {
                // Each file is replaced by a rename; another test writes a large one in place.
                write_generation(&folder, "next", generation);
                for (path, _) in FILES {
                    let (from, to) = (format!("next{path}"), format!("site{path}"));
                    fs::rename(folder.join(from), folder.join(to)).expect("replaced");
                }
                load.wait_for_generation(generation);
            }
        });
        server.stop();
    }
}

#[test]
fn a_failed_reload_keeps_the_previous_version_and_later_ones_succeed() {
    for io in Io::BOTH {
        let folder = Folder::new("failing");
        publish_archive(&folder, 1);
        let server = start(io, &folder.join("site.pinion"), &[]);
        Load::during(server.address(), |load| {
            folder.write("broken", "this is no archive");
            fs::rename(folder.join("broken"), folder.join("site.pinion")).expect("replaced");
            server.signal(Signal::HUP);
            server.wait_for_line(0, |line| line.contains("cannot reload"));
            load.wait_for_generation(1);
            // A build only replaces archives.
            fs::remove_file(folder.join("site.pinion")).expect("removed");
            publish_archive(&folder, 2);
            server.signal(Signal::HUP);
            load.wait_for_generation(2);
        });
        server.stop();
    }
}

/// Sends requests until every path has responded with `status`.
#[track_caller]
fn wait_until_all_are(server: &Server, status: u16) {
    wait_for("answers after the truncation", || {
        let all = FILES.iter().all(|(path, _)| {
            let mut connection = server.connect();
            connection.send(Request::get(path).bytes());
            // A response that was begun from lost pages is correctly cut off, but is not yet the
            // expected one.
            connection.try_receive(false).is_ok_and(|response| response.status == status)
        });
        all.then_some(())
    });
}

#[test]
fn a_truncated_archive_breaks_its_responses_but_not_the_server() {
    for io in Io::BOTH {
        for kept_bytes in [0, 4096, 300_000] {
            let folder = Folder::new("truncated");
            publish_archive(&folder, 1);
            let path = folder.join("site.pinion");
            let mut server = start(io, &path, &[]);
            wait_until_all_are(&server, 200);
            let file = File::options().write(true).open(&path).expect("the archive");
            file.set_len(kept_bytes).expect("truncated");
            for (target, bytes) in FILES {
                let mut connection = server.connect();
                connection.send(Request::get(target).bytes());
                // The response is the whole content, an error, or visibly cut off: never zeros.
                if let Ok(response) = connection.try_receive(false) {
                    let whole = response.status == 200 && response.body.len() == bytes / 8 * 8;
                    assert!(whole || response.status == 500, "{response}");
                    assert!(!whole || generation_of(&response) == 1);
                }
            }
            assert!(server.is_running(), "{:?}", server.lines());
            publish_archive(&folder, 2);
            server.signal(Signal::HUP);
            wait_until_all_are(&server, 200);
            assert_eq!(generation_of(&server.get("/large.bin")), 2);
            server.stop();
        }
    }
}

#[test]
fn a_copy_in_memory_is_not_touched_by_truncation() {
    for io in Io::BOTH {
        let folder = Folder::new("copy");
        publish_archive(&folder, 1);
        let path = folder.join("site.pinion");
        let server = start(io, &path, &["--memory", "copy"]);
        File::create(&path).expect("truncated");
        for (target, _) in FILES {
            assert_eq!(generation_of(&server.get(target)), 1);
        }
        server.stop();
    }
}

#[test]
fn a_changed_large_file_breaks_only_its_own_responses() {
    // More files than the server can guard one by one.
    const LARGE_FILES: u32 = 80;
    const LARGE_BYTES: u64 = (1 << 20) + 4096;
    let folder = Folder::with("large", [("index.html", "home")]);
    for number in 0..LARGE_FILES {
        let path = folder.join(format!("{number}.bin"));
        File::create(path).and_then(|file| file.set_len(LARGE_BYTES)).expect("a large file");
    }
    let last = folder.join(format!("{}.bin", LARGE_FILES - 1));
    Matrix::of(folder.path()).folder_only("an archive has its own copy").run(|server| {
        let target = format!("/{}.bin", LARGE_FILES - 1);
        assert_eq!(server.get(&target).body.len() as u64, LARGE_BYTES);
        let file = File::options().write(true).open(&last).expect("the file");
        file.set_len(4096).expect("truncated");
        for range in ["bytes=0-", "bytes=0-9", "bytes=8000-8009", "bytes=8000-8009,900000-"] {
            let request = Request::get(&target).field("Range", range);
            match server.client().try_exchange(&request) {
                Ok(refused) => assert_eq!(refused.status, 500, "{range}: {refused}"),
                Err(broken) => panic!("{range}: {broken:?}, and nothing had been sent yet"),
            }
        }
        assert_eq!(server.get("/0.bin").body.len() as u64, LARGE_BYTES);
        assert_eq!(server.get("/").text(), "home");
        file.set_len(LARGE_BYTES).expect("for the next way");
    });
}

#[test]
fn a_server_that_is_stopped_at_once_ends() {
    let folder = Folder::with("stopped", [("index.html", "home")]);
    for _ in 0..10 {
        every_way(&folder, |_| {});
    }
}

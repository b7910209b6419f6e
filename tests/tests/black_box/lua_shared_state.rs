//! The parts that all workers of a script share: files that are created once, and counters.

use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use std::sync::atomic::{AtomicUsize, Ordering};

const SCRIPT: &str = r#"
pinion.get("/claim/:name/:who", function(req)
    local is_made, why = pinion.fs.create("data/" .. req.params.name, req.params.who)
    return is_made and "mine" or why
end)
pinion.get("/content/:name", function(req)
    return assert(pinion.fs.read("data/" .. req.params.name))
end)
pinion.get("/count", function() return tostring(pinion.count("visits")) end)
pinion.get("/count/:by", function(req)
    return tostring(pinion.count("visits", tonumber(req.params.by)))
end)
pinion.get("/wrong", function() pinion.count("visits", 1.5) end)
"#;

fn serve(folder: &Folder, io: Io) -> Server {
    let data = format!("data={}", folder.join("data").display());
    let start = Start::site(&folder.join("site.lua")).flags(&["--io", io.as_str()]);
    start.flags(&["--workers", "2", "--lua-folder", &data]).start()
}

fn files() -> Folder {
    Folder::with("shared", [("site.lua", SCRIPT), ("data/taken", "before")])
}

/// Runs a function on several threads at the same time, with the number of each.
fn at_once(threads: usize, run: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for number in 0..threads {
            let run = &run;
            scope.spawn(move || run(number));
        }
    });
}

#[test]
fn one_of_several_concurrent_file_creations_succeeds() {
    for io in Io::BOTH {
        let (folder, winners) = (files(), AtomicUsize::new(0));
        let server = serve(&folder, io);
        for round in 0..10 {
            let before = winners.load(Ordering::SeqCst);
            at_once(4, |number| {
                let claim = format!("/claim/{round}/{number}");
                let response = server.exchange(&Request::get(&claim));
                if response.text() == "mine" {
                    winners.fetch_add(1, Ordering::SeqCst);
                    let content = server.get(&format!("/content/{round}"));
                    assert_eq!(content.text(), number.to_string());
                } else {
                    assert!(response.text().contains("it exists already"), "{response}");
                }
            });
            assert_eq!(winners.load(Ordering::SeqCst), before + 1, "over {io:?}");
        }
        let taken = server.get("/claim/taken/x");
        assert!(taken.text().ends_with("it exists already; pinion.fs.write replaces a file"));
        assert_eq!(server.get("/content/taken").text(), "before");
        let left = std::fs::read_dir(folder.join("data")).expect("a folder").count();
        assert_eq!(left, 11, "no draft is left");
        server.stop();
    }
}

#[test]
fn a_counter_counts_for_all_workers_and_outlives_a_reload() {
    for io in Io::BOTH {
        let folder = files();
        let server = serve(&folder, io);
        at_once(4, |_| {
            for _ in 0..25 {
                assert_eq!(server.get("/count").status, 200);
            }
        });
        assert_eq!(server.get("/count/0").text(), "100");
        // The script counts at its start too, once in each worker and not when it is tried before.
        folder.write("site.lua", format!("pinion.count(\"starts\")\n{SCRIPT}"));
        let lines = server.lines().len();
        server.signal(Signal::HUP);
        server.wait_for_line(lines, |line| line.starts_with("reloaded "));
        assert_eq!(server.get("/count/-50").text(), "50");
        let wrong = server.get("/wrong");
        assert_eq!(wrong.status, 500);
        server.wait_for_line(lines, |line| line.contains("bad argument #2 to 'pinion.count' ("));
        assert_eq!(server.get("/count/9007199254740992").status, 500, "beyond 2^53");
        assert_eq!(server.get("/count/0").text(), "50");
        server.stop();
    }
}

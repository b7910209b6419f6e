//! A wake-up of a worker by its own work needs no system call. A wake-up by another thread needs
//! one, and only if the worker sleeps.

use pinion_tests::external_programs::program;
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::fs;
use std::thread;

const SCRIPT: &str = r#"
pinion.get("/gather", function()
    local one, other = pinion.gather(function() return 1 end, function() return 2 end)
    return tostring(one + other)
end)
pinion.get("/cached", function()
    return pinion.cached("key", 0.02, function() pinion.sleep(0.01) return "3" end)
end)
pinion.get("/spawn", function()
    pinion.spawn(function() pinion.send("heard", 1) end)
    return "3"
end)
pinion.on("heard", function() end)
"#;

/// Requests for each handler.
const REQUESTS: usize = 100;
/// Wake-ups of a start and an end: threads that publish a site or stop the server.
const OTHER_WAKES_MAX: usize = 10;

#[test]
fn wakeups_within_a_worker_need_no_system_call() {
    for io in Io::BOTH {
        let ((_folder, site), traces) = (script(SCRIPT), Folder::new("wakes"));
        let trace = traces.join("trace");
        let mut strace = program("strace", "strace");
        // The traced program keeps its process; `-y` shows the files of descriptors.
        strace.args(["-D", "-f", "-y", "-e", "trace=write,exit_group", "-o"]).arg(&trace);
        let flags = ["--io", io.as_str(), "--workers", "1"];
        let server = Start::site(&site).flags(&flags).under(strace).start();
        for path in ["/gather", "/cached", "/spawn"] {
            // Requests at the same time wait for the value that one of them makes.
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let mut connection = server.connect();
                        for _ in 0..REQUESTS / 4 {
                            let response = connection.exchange(&Request::get(path));
                            assert_eq!(response.text(), "3", "{path}: {response}");
                        }
                    });
                }
            });
        }
        server.stop();
        let calls = wait_for("the whole trace", || {
            let calls = fs::read_to_string(&trace).expect("a trace");
            calls.contains("exit_group").then_some(calls)
        });
        let wakes = calls.lines().filter(|call| call.contains("[eventfd]>")).count();
        assert!(wakes <= OTHER_WAKES_MAX, "{io:?}: {wakes} wakes\n{calls}");
    }
}

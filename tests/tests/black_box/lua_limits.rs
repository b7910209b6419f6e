//! Scripts that exceed a limit: each request fails alone and its error names the limit, while the
//! same worker responds to others and the memory of the server stays bounded.

use pinion_tests::client::Client;
use pinion_tests::matrix::{Io, ways};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

const SCRIPT: &str = r#"
local unpack = unpack or table.unpack
local big = ("x"):rep(2^20)
local function sleep() pinion.sleep(1) end
pinion.get("/", function() return "well" end)
pinion.get("/version", function() return _VERSION end)
pinion.get("/waits", function() pinion.sleep(0.05) return "waited" end)
pinion.get("/spawn", function() pinion.spawn(function() end) return "spawned" end)

pinion.get("/timers", function() for n = 1, 1e6 do pinion.spawn(sleep) end end)
pinion.get("/tree", function()
    local function grow() pinion.spawn(grow) pinion.spawn(grow) end
    grow()
    return "planted"
end)
pinion.get("/gather", function()
    local parts = {}
    -- More than may be, and fewer than LuaJIT can unpack.
    for n = 1, 2000 do parts[n] = sleep end
    return pinion.gather(unpack(parts))
end)
pinion.get("/gather-tree", function()
    local function grow()
        return pinion.gather(grow, grow, grow, grow)
    end
    return grow()
end)
pinion.get("/every", function() for n = 1, 1e6 do pinion.every(60, sleep) end end)
pinion.get("/cron", function() for n = 1, 1e6 do pinion.cron("* * * * *", sleep) end end)
pinion.get("/on", function() for n = 1, 1e6 do pinion.on("channel" .. n, sleep) end end)
pinion.get("/cached", function()
    for n = 1, 1e6 do pinion.cached("key" .. n, 60, function() return n end) end
end)
local keys = 0
pinion.get("/cached-large", function()
    for n = 1, 4 do
        keys = keys + 1
        pinion.cached(keys, 3600, function() return ("x"):rep(2^20) .. keys end)
    end
    return "made"
end)
pinion.get("/keep-large", function() pinion.keep.value = ("x"):rep(2^20 + 1) end)
pinion.get("/keep-function", function() pinion.keep.value = { sleep } end)
pinion.get("/keep-many", function() for n = 1, 1e6 do pinion.keep["many" .. n] = n end end)
pinion.get("/keep-much", function() for n = 1, 1e6 do pinion.keep["much" .. n] = big end end)
pinion.on("news", function(value) return #value end)
pinion.get("/send", function() for n = 1, 1e6 do pinion.send("news", n .. "") end end)
pinion.get("/send-large", function() for n = 1, 1e6 do pinion.send("news", big) end end)
pinion.get("/send-flood", function()
    for n = 1, 300 do
        pinion.spawn(function() for m = 1, 3 do pinion.send("news", big) end end)
    end
    return "begun"
end)
pinion.get("/writes", function()
    local large = big:rep(8)
    for n = 1, 100 do
        pinion.spawn(function() assert(pinion.fs.write("data/written", large)) end)
    end
    return "begun"
end)
pinion.get("/passwords", function()
    for n = 1, 1e6 do pinion.spawn(function() pinion.password.hash("secret") end) end
end)
pinion.get("/passwords-in-turn", function()
    for n = 1, 1e6 do pinion.password.hash("secret") end
end)

pinion.get("/loop", function() while true do end end)
pinion.get("/repeat", function() return #("a"):rep(2^31) end)
pinion.get("/deep", function()
    local function deeper() return 1 + deeper() end
    return deeper()
end)
pinion.get("/pattern", function()
    return tostring(("a"):rep(1e5):find(("a*"):rep(20) .. "b"))
end)
pinion.get("/json-deep", function()
    return assert(pinion.json.decode(("["):rep(1e6)))
end)
pinion.get("/json-large", function()
    -- The text is little. What is left are the steps of a few thousand of its tables.
    for n = 1, 250 do big:find("y", 1, true) end
    return #assert(pinion.json.decode("[" .. ("[],"):rep(1e5) .. "1]"))
end)
pinion.get("/json-circle", function()
    local circle = {}
    circle.circle = circle
    return assert(pinion.json.encode(circle))
end)
"#;

/// The memory limit of the server in these tests: 64 MiB of its VM, 64 MiB each of messages, of
/// jobs and of waiting results, slightly more of running ones, and of kept values, and the memory
/// of the server itself.
const MEMORY_MAX_BYTES: u64 = 448 << 20;

/// Targets with the status of the response and the text in the log.
const CASES: &[(&str, u16, &str)] = &[
    ("/timers", 500, "starts at most 1000 pieces"),
    ("/tree", 200, "starts at most 1000 pieces"),
    ("/gather", 500, "starts at most 1000 pieces"),
    ("/gather-tree", 500, "starts at most 1000 pieces"),
    ("/every", 500, "while the main script starts"),
    ("/cron", 500, "while the main script starts"),
    ("/on", 500, "while the main script starts"),
    ("/cached", 500, "starts at most 1000 pieces"),
    ("/keep-large", 500, "larger than 1024 KiB"),
    ("/keep-function", 500, "only strings, numbers, booleans"),
    ("/keep-many", 500, "pinion.keep holds at most 1024 values"),
    ("/keep-much", 500, "pinion.keep holds at most"),
    ("/send", 500, "at most 1000 messages with 4 MiB are sent at once"),
    ("/send-large", 500, "at most 1000 messages with 4 MiB are sent at once"),
    ("/send-flood", 200, "more than 64 MiB of messages wait for their listeners"),
    ("/writes", 200, "too many files wait"),
    ("/loop", 500, "its CPU"),
    ("/repeat", 500, "resulting string too large"),
    ("/deep", 500, "stack overflow"),
    ("/pattern", 500, "steps"),
    ("/json-deep", 500, "deeper than 128 levels"),
    ("/json-large", 500, "too many steps"),
    ("/json-circle", 500, "JSON cannot contain circular"),
];

/// The text in the log where Lua 5.4 allows more values on its stack.
const CASES_OF_54: &[(&str, &str)] = &[("/deep", "its memory")];

/// Returns a site with a folder for files, which is removed with the value.
fn site() -> (Folder, PathBuf, String) {
    let folder = Folder::with("lua-bounds", [("site.lua", SCRIPT)]);
    fs::create_dir(folder.join("data")).expect("a folder");
    let script = folder.join("site.lua");
    let data = format!("data={}", folder.join("data").display());
    (folder, script, data)
}

fn served(script: &Path, data: &str, io: Io) -> Server {
    let limits = ["--lua-memory", "16", "--lua-vm-memory", "64", "--lua-time", "5"];
    let flags = ["--io", io.as_str(), "--workers", "1", "--lua-folder", data];
    // Finishing the remaining requests at the end would take longer than the test.
    Start::site(script).flags(&flags).flags(&limits).grace(1).start()
}

#[track_caller]
fn is_within_bounds(server: &Server, target: &str) {
    let peak_bytes = server.memory_bytes("VmHWM");
    assert!(peak_bytes <= MEMORY_MAX_BYTES, "{target}: {} MiB", peak_bytes >> 20);
}

#[test]
fn a_request_over_a_limit_fails_alone() {
    for io in Io::BOTH {
        let (_folder, script, data) = site();
        let server = served(&script, &data, io);
        let is_54 = server.get("/version").text() == "Lua 5.4";
        for (target, status, said) in CASES {
            let of_54 = CASES_OF_54.iter().find(|(of, _)| is_54 && of == target);
            let said = of_54.map_or(*said, |(_, said)| *said);
            let from = server.lines().len();
            let mut other = server.connect();
            other.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(server.get(target).status, *status, "{target}");
            assert_eq!(other.receive().text(), "waited", "beside {target}");
            // Earlier work may still fail for the same reason.
            let by = if *status == 500 { format!("GET {target}: ") } else { "lua: ".to_owned() };
            server.wait_for_line(from, |line| line.contains(&by) && line.contains(said));
            assert_eq!(server.get("/").text(), "well", "behind {target}");
            assert_eq!(server.get("/spawn").text(), "spawned", "behind {target}");
            is_within_bounds(&server, target);
        }
        server.stop();
    }
}

#[test]
fn cached_values_are_dropped_for_requests() {
    let (_folder, script, data) = site();
    let server = served(&script, &data, Io::Epoll);
    let mut made = 0;
    while made < 100 {
        // The request may reach the limit of the VM, which frees memory for the next one.
        let is_made = server.get("/cached-large").status == 200;
        assert!(is_made || server.get("/cached-large").status == 200, "behind {made}");
        assert_eq!(server.get("/").text(), "well");
        made += 1;
    }
    is_within_bounds(&server, "/cached-large");
    server.stop();
}

#[test]
fn many_password_hashes_use_a_few_threads() {
    let (_folder, script, data) = site();
    let server = served(&script, &data, Io::Epoll);
    assert_eq!(server.get("/passwords").status, 500);
    server.wait_for_thread("job passwords");
    assert_eq!(server.get("/passwords-in-turn").status, 503);
    for _ in 0..10 {
        assert_eq!(server.get("/waits").text(), "waited");
        let threads = format!("/proc/{}/task", server.id());
        let threads = fs::read_dir(threads).expect("its threads").flatten();
        let names = threads.filter_map(|one| fs::read_to_string(one.path().join("comm")).ok());
        assert!(names.filter(|name| name.trim_end() == "job passwords").count() <= 2);
    }
    server.stop();
}

/// How often the clients of slow responses pause, each time for longer than the time limit of a
/// request.
const PAUSES: usize = 3;
const PAUSE: Duration = Duration::from_millis(2_100);

/// Returns a site of a handler and of a page whose responses are both `expected`: more than fits
/// between a server and a client that does not read.
fn with_large_responses() -> (Folder, String) {
    let limits = fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("its limits");
    let most = limits.split_whitespace().last().expect("the largest");
    let bytes = (4 << 20) + most.parse::<usize>().expect("a number");
    let text = "x".repeat(4_000);
    let pieces = bytes / text.len();
    let handler = format!(
        "local text = ('x'):rep({})
        pinion.get('/written', function(req, res)
            for n = 1, {pieces} do res:write(text, n, '\\n') end
        end)",
        text.len()
    );
    let page = format!("<?lu for n = 1, {pieces} do ?>{text}#[[n]]\n<?lu end ?>");
    let files = [("main.lua", handler.as_str()), ("page.dyn.html", page.as_str())];
    let expected = (1..=pieces).map(|number| format!("{text}{number}\n")).collect();
    (Folder::with("lua-bounds", files), expected)
}

/// `--lua-time` limits the time of the handler. The time in which it waits for its client does not
/// count, over any protocol.
#[test]
fn a_slow_client_gets_a_response_beyond_the_request_time_limit() {
    let (folder, expected) = with_large_responses();
    let mut responses = Vec::new();
    let mut servers = Vec::new();
    for way in ways(|_| true) {
        let flags = ["--workers", "1", "--lua-time", "2"];
        let server = Start::site(folder.path()).in_way(way).flags(&flags).start();
        for target in ["/written", "/page"] {
            let mut client = Client::with_little_room(&server);
            let underway = client.begin(&Request::get(target));
            responses.push((way, target, client, underway));
        }
        servers.push(server);
    }
    // All of them run at once, so that the test takes no longer than its pauses.
    for pause in 1..=PAUSES {
        thread::sleep(PAUSE);
        for (way, target, client, underway) in &mut responses {
            eprintln!("{way:?} {target}"); // Shown when the case fails.
            let bytes = expected.len() / (PAUSES + 1) * pause;
            let taken = client.take(underway, bytes);
            assert!(expected.as_bytes().starts_with(taken), "pause {pause}");
        }
    }
    for (way, target, mut client, underway) in responses {
        eprintln!("{way:?} {target}");
        let response = client.finish(underway, b"");
        assert!(response.status == 200 && response.body == expected.as_bytes());
    }
    for server in servers {
        server.stop();
    }
}

#[test]
fn a_script_with_too_many_registrations_does_not_start() {
    for (line, said) in [
        ("pinion.every(60, function() end)", "256 schedules"),
        ("pinion.cron('* * * * *', function() end)", "256 schedules"),
        ("pinion.on('channel' .. n, function() end)", "1024 channels"),
        ("pinion.spawn(function() end)", "most 10000 in a worker"),
        ("pinion.get('/' .. n, function() end)", "routes"),
    ] {
        let text = format!("\nfor n = 1, 1e6 do\n    {line}\nend");
        let folder = Folder::with("lua-bounds", [("site.lua", text.as_str())]);
        let script = folder.join("site.lua");
        let ended = run(&["serve", "--listen", "127.0.0.1:0", &script.display().to_string()]);
        assert_eq!(ended.code, Some(1), "{line}: {}", ended.stderr);
        for part in ["site.lua:3:", said] {
            assert!(ended.stderr.contains(part), "{line}: {}", ended.stderr);
        }
    }
}

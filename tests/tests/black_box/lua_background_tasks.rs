//! Background work of scripts: parts of a request that run at the same time, work after the
//! response, repeated work, cached values, messages between workers, and work that outlives a
//! reload.

use pinion_tests::lua_script_site::{in_every_way, script};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use std::path::Path;
use std::thread;

const SCRIPT: &str = r#"local unpack = unpack or table.unpack

local order = {}
pinion.get("/gather", function()
    local log = {}
    local a, b, c = pinion.gather(
        function() pinion.sleep(0.03) log[#log + 1] = "a" return 1 end,
        function() pinion.sleep(0.01) log[#log + 1] = "b" return nil end,
        function() log[#log + 1] = "c" return pinion.gather(function() return "deep" end) end)
    return table.concat(log) .. tostring(a) .. tostring(b) .. c
end)
pinion.get("/gather-error", function()
    local is_well, why = pcall(pinion.gather, function() error("of a part") end, function() end)
    return tostring(is_well) .. " " .. why:match("[^:]*$")
end)
pinion.get("/gather-endless", function()
    return pinion.gather(function() pinion.sleep(0.001) end, function() while true do end end)
end)
pinion.get("/gather-write", function(req, res)
    return pinion.gather(function() res:flush() end)
end)
pinion.get("/gather-body", function(req, res) return pinion.gather(function() end) or "none" end)
pinion.get("/spawn", function()
    order = { "handler" }
    pinion.spawn(function()
        order[#order + 1] = "behind"
        pinion.sleep(0.001)
        order[#order + 1] = "later"
    end)
    return "answered"
end)
pinion.get("/order", function() return table.concat(order, " ") end)
pinion.get("/too-much", function()
    for n = 1, 1e6 do pinion.spawn(function() pinion.sleep(1) end) end
end)
pinion.get("/much-at-once", function()
    local parts = {}
    for n = 1, 500 do parts[n] = function() pinion.sleep(0.001) return n end end
    local sum = 0
    for _, value in ipairs({ pinion.gather(unpack(parts)) }) do sum = sum + value end
    return tostring(sum)
end)
local done = 0
pinion.get("/compute", function()
    for n = 1, 8 do
        pinion.spawn(function()
            local began = os.clock()
            while os.clock() - began < 0.1 do end
            done = done + 1
        end)
    end
end)
pinion.get("/done", function() return tostring(done) end)
local seen = {}
pinion.get("/seen", function()
    seen[#seen + 1] = coroutine.running()
    pinion.sleep(0.05)
    return "seen"
end)
pinion.get("/meddle", function()
    for _, other in ipairs(seen) do
        if other ~= coroutine.running() then coroutine.resume(other, 1, "no handler") end
    end
    seen = {}
    return "meddled"
end)
local ticks, made = 0, 0
pinion.every(0.01, function() ticks = ticks + 1 end)
pinion.every(0.01, function() error("in a schedule") end)
pinion.cron("* * * * *", function() end)
pinion.get("/endless-work", function() pinion.spawn(function() while true do end end) end)
pinion.get("/ticks", function() return tostring(ticks) end)
pinion.get("/made", function()
    return tostring(pinion.cached("key", 60, function()
        made = made + 1
        pinion.sleep(0.02)
        return made
    end))
end)
pinion.get("/made-anew", function()
    local first = pinion.cached("short", 0, function() return 1 end)
    pinion.sleep(0.001)
    return first .. pinion.cached("short", 0, function() return 2 end)
end)
pinion.get("/made-wrong", function()
    local is_well, why = pcall(pinion.cached, "wrong", 60, function() error("no value") end)
    local again = pinion.cached("wrong", 60, function() return "a value" end)
    return tostring(is_well) .. why:match("[^:]*$") .. ", " .. again
end)
pinion.get("/made-false", function()
    local made = 0
    local function produce() made = made + 1 return false end
    local first = pinion.cached("false", 60, produce)
    return tostring(first) .. tostring(pinion.cached("false", 60, produce)) .. made
end)
pinion.get("/made-endless", function()
    local is_well, why = pcall(pinion.cached, "endless", 60, function() while true do end end)
    return why
end)
local asking = { a = "b", b = "c", c = "a", itself = "itself", part = "part", far = "near",
    near = "far", none = "plain" }
local function made_by_asking(key)
    local value = pinion.cached(key, 60, function()
        pinion.sleep(0.001)
        local other = asking[key]
        if key == "part" or key == "far" or key == "none" then
            local value = pinion.gather(
                function() return made_by_asking(other) end,
                function() return other and made_by_asking("plain") end
            )
            return value
        end
        return other and made_by_asking(other) or "no circle"
    end)
    return value
end
pinion.get("/circle/:key", function(req)
    local is_well, why = pcall(made_by_asking, req.params.key)
    return tostring(is_well) .. (why:match(": (.*)$") or why)
end)
pinion.post("/password", function(req)
    local stored = assert(pinion.password.hash(req:body()))
    local right, wrong = pinion.gather(
        function() return pinion.password.verify(req:body(), stored) end,
        function() return pinion.password.verify("other", stored) end)
    local none, why = pinion.password.verify("other", "no hash")
    return stored:match("^%$argon2id%$") .. tostring(right) .. tostring(wrong) .. tostring(none)
        .. #why
end)
"#;

/// Repeats a request until its response has the wanted text.
#[track_caller]
fn until(server: &Server, target: &str, is_match: impl Fn(&str) -> bool) {
    while !is_match(server.get(target).text()) {
        thread::yield_now();
    }
}

#[test]
fn gathered_functions_run_concurrently() {
    in_every_way(SCRIPT, |server| {
        assert_eq!(server.get("/gather").text(), "cba1nildeep");
        assert_eq!(server.get("/gather-error").text(), "false  of a part");
        assert_eq!(server.get("/much-at-once").text(), "125250");
        // The CPU time of a part counts for its request.
        let from = server.lines().len();
        assert_eq!(server.get("/gather-endless").status, 500);
        server.wait_for_line(from, |line| line.contains("its CPU"));
        assert_eq!(server.get("/gather-write").status, 500);
        server.wait_for_line(from, |line| line.contains("only the handler of a request"));
        assert_eq!(server.get("/gather").text(), "cba1nildeep");
    });
}

#[test]
fn coroutines_closed_by_a_script_do_not_break_later_requests() {
    in_every_way(SCRIPT, |server| {
        let both = || {
            thread::scope(|scope| {
                let asking = [0, 1].map(|_| scope.spawn(|| server.get("/seen").status));
                asking.map(|asking| asking.join().expect("an answer"))
            })
        };
        assert_eq!(both(), [200, 200]);
        assert_eq!(server.get("/meddle").text(), "meddled");
        assert_eq!(both(), [200, 200]);
    });
}

#[test]
fn spawned_work_runs_after_the_response() {
    in_every_way(SCRIPT, |server| {
        assert_eq!(server.get("/spawn").text(), "answered");
        until(server, "/order", |order| order == "handler behind later");
        let from = server.lines().len();
        assert_eq!(server.get("/too-much").status, 500);
        server.wait_for_line(from, |line| line.contains("starts at most 1000 pieces"));
        assert_eq!(server.get("/spawn").text(), "answered");
        until(server, "/order", |order| order == "handler behind later");
    });
}

#[test]
fn requests_are_served_between_computing_tasks() {
    let (_folder, path) = script(SCRIPT);
    let server = Start::site(&path).flags(&["--workers", "1"]).start();
    assert_eq!(server.get("/compute").text(), "");
    // A request that is sent meanwhile gets its response after one or two of them, not after all.
    let done: u32 = server.get("/done").text().parse().expect("a number");
    assert!(done < 4, "{done} of 8 were done before");
    until(&server, "/done", |done| done == "8");
}

#[test]
fn schedules_continue_after_a_failed_run() {
    in_every_way(SCRIPT, |server| {
        until(server, "/ticks", |ticks| ticks.parse::<u32>().is_ok_and(|ticks| ticks > 3));
        server.wait_for_line(0, |line| line.contains("in a schedule"));
        assert_eq!(server.get("/endless-work").status, 200);
        server.wait_for_line(0, |line| line.contains("pinion.spawn: ") && line.contains("CPU"));
        assert_eq!(server.get("/gather").text(), "cba1nildeep");
    });
}

/// A call after `return` has no line of its own in Lua, but the first line of the log still has a
/// position.
#[test]
fn errors_in_tail_calls_of_background_work_are_logged_with_a_line() {
    let text = "local function fails() return pinion.codec.hex_encode({}) end
        pinion.get('/spawn', function() pinion.spawn(function() return fails() end) end)
        pinion.get('/send', function() pinion.send('news', 1) end)
        pinion.on('news', function() return fails() end)
        pinion.every(0.01, function() return fails() end)";
    in_every_way(text, |server| {
        for target in ["/spawn", "/send"] {
            assert_eq!(server.get(target).status, 200, "{target}");
        }
        for (line, by) in [(2, "pinion.spawn"), (4, "pinion.on"), (5, "pinion.every")] {
            let place = format!(
                "/site.lua:{line}: in the function of {by} that starts at this line: bad argument"
            );
            let is_match =
                |logged: &str| logged.contains(&format!("lua: {by}: ")) && logged.contains(&place);
            server.wait_for_line(0, is_match);
        }
    });
}

#[test]
fn a_cached_value_is_computed_once() {
    in_every_way(SCRIPT, |server| {
        thread::scope(|scope| {
            let asking: Vec<_> =
                (0..8).map(|_| scope.spawn(|| server.get("/made").text().to_owned())).collect();
            for asking in asking {
                assert_eq!(asking.join().expect("an answer"), "1");
            }
        });
        assert_eq!(server.get("/made-anew").text(), "12");
        assert_eq!(server.get("/made-wrong").text(), "false no value, a value");
        assert_eq!(server.get("/made-false").text(), "falsefalse1");
        let endless = server.get("/made-endless");
        assert!(endless.text().contains("was ended by a limit; the log has"), "{endless}");
        // A function that would wait for its own value gets an error.
        assert_eq!(server.get("/circle/none").text(), "trueno circle");
        for key in ["itself", "a", "b", "part", "far", "near"] {
            let circle = format!("falsepinion.cached(\"{key}\"): its function calls pinion.cached");
            let response = server.get(&format!("/circle/{key}"));
            assert!(response.text().starts_with(&circle), "{response}");
        }
    });
}

#[test]
fn passwords_are_hashed_off_the_worker_thread() {
    in_every_way(SCRIPT, |server| {
        let response = server.exchange(&Request::new("POST", "/password").body(b"open sesame"));
        assert!(response.text().starts_with("$argon2id$truefalsenil"), "{}", response.text());
    });
}

const WORKERS: &str = r#"
local heard, runs = {}, 0
pinion.on("news", function(value) heard[#heard + 1] = value.text end)
pinion.every(0.01, function() runs = runs + 1 pinion.send("runs", runs) end)
local most = 0
pinion.on("runs", function(value) most = math.max(most, value) end)
pinion.get("/send", function() pinion.send("news", { text = "it" }) return "sent" end)
pinion.get("/heard", function() return table.concat(heard, " ") end)
pinion.get("/runs", function() return runs .. " " .. most end)
"#;

#[test]
fn all_workers_get_messages_and_one_runs_the_schedule() {
    let (_folder, path) = script(WORKERS);
    let server = Start::site(&path).flags(&["--workers", "3"]).start();
    assert_eq!(server.get("/send").text(), "sent");
    // Connections reach all workers sooner or later, and each worker has received the message.
    for _ in 0..50 {
        until(&server, "/heard", |heard| heard == "it");
    }
    let (mut repeats, mut hears) = (false, false);
    while !(repeats && hears) {
        let response = server.get("/runs");
        let (runs, most) = response.text().split_once(' ').expect("two numbers");
        let numbers: (u32, u32) = (runs.parse().expect("runs"), most.parse().expect("most"));
        repeats |= numbers.0 > 1;
        hears |= numbers.0 == 0 && numbers.1 > 1;
    }
    server.stop();
}

fn rewrite(folder: &Folder, path: &Path, text: &str) {
    // The file is replaced by a rename, as editors do, so that the server never reads half of it.
    let other = folder.join("other");
    std::fs::write(&other, text).expect("written");
    std::fs::rename(&other, path).expect("renamed");
}

#[test]
fn kept_values_survive_a_reload_and_schedules_do_not() {
    let edition = |name: &str| {
        format!(
            "pinion.every(0.01, function() pinion.keep.{name} = (pinion.keep.{name} or 0) + 1 end)
            pinion.get('/', function()
                return '{name} ' .. tostring(pinion.keep.a or 0) .. ' '
                    .. tostring(pinion.keep.b or 0)
            end)"
        )
    };
    let (folder, path) = script(&edition("a"));
    let server = Start::site(&path).flags(&["--workers", "1"]).start();
    until(&server, "/", |text| !text.starts_with("a 0"));
    rewrite(&folder, &path, &edition("b"));
    server.signal(Signal::HUP);
    server.wait_for_line(0, |line| line.starts_with("reloaded"));
    until(&server, "/", |text| text.starts_with("b "));
    let count = |server: &Server, at: usize| -> u32 {
        let response = server.get("/");
        response.text().split(' ').nth(at).expect("a number").parse().expect("a number")
    };
    let old = count(&server, 1);
    assert!(old > 0);
    until(&server, "/", |text| text.split(' ').nth(2).is_some_and(|count| count != "0"));
    until(&server, "/", |text| text.split(' ').nth(2).is_some_and(|count| count.len() > 1));
    assert_eq!(count(&server, 1), old);
    server.stop();
}

#[test]
fn too_many_old_scripts_end_the_oldest_with_its_requests() {
    let edition = |name: u32| {
        format!(
            "pinion.get('/', function() return '{name}' end)
            pinion.get('/slow', function() pinion.sleep(20) return 'slow' end)"
        )
    };
    let (folder, path) = script(&edition(0));
    let server = Start::site(&path).flags(&["--workers", "1"]).grace(1).start();
    let mut slow = Vec::new();
    for name in 1..=5 {
        let mut connection = server.connect();
        connection.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        // The handler has started: its worker responds to later requests.
        assert_eq!(server.get("/").text(), (name - 1).to_string());
        slow.push(connection);
        rewrite(&folder, &path, &edition(name));
        server.signal(Signal::HUP);
        until(&server, "/", |text| text == name.to_string());
    }
    // Four old versions may remain. The fifth and oldest of them ended when the limit was exceeded.
    let response = slow.remove(0).receive();
    assert_eq!(response.status, 503);
    server.wait_for_line(0, |line| line.contains("reloaded more than 4 times"));
    // The other requests would take longer than this test.
    drop(slow);
    server.stop();
}

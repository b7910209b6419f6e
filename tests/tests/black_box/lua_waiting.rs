//! Handlers that wait: for messages, and for the end of the server or of their script. Their time
//! limit counts from one write to the next.

use pinion_tests::client::Client;
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::{Io, ways};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::Signal;

const SCRIPT: &str = r#"
pinion.get("/events", function(req, res)
    res:field("Content-Type", "text/event-stream")
    local news = pinion.subscribe("news")
    res:write("data: open\n\n"):flush()
    while true do
        local text, why = news:wait(3600)
        if not text then
            res:write("data: ", why, "\n\n")
            return
        end
        res:write("data: ", text, "\n\n"):flush()
    end
end)
pinion.get("/poll", function()
    local news = pinion.subscribe("news")
    pinion.send("ready", 1)
    local text, why = news:wait(3600)
    return text or why
end)
pinion.on("ready", function() pinion.count("ready") end)
pinion.get("/ready", function() return tostring(pinion.count("ready", 0)) end)
pinion.get("/none", function()
    local text, why = pinion.subscribe("none"):wait(0.01)
    return tostring(text) .. " " .. why
end)
pinion.post("/news", function(req) pinion.send("news", req:body()) return "sent" end)
pinion.get("/ticks", function(req, res)
    res:write("open\n"):flush()
    while pinion.wait(3600) do end
    res:write(pinion.ending(), "\n")
end)
pinion.get("/burst", function()
    local burst = pinion.subscribe("burst")
    for number = 1, 150 do pinion.send("burst", number) end
    local taken, lost_in_all, last = 0, 0, 0
    while last < 150 do
        local number, lost = burst:wait(3600)
        taken, lost_in_all, last = taken + 1, lost_in_all + lost, number
    end
    burst:close()
    local _, why = pcall(burst.wait, burst, 0)
    return (taken + lost_in_all) .. " " .. why
end)
pinion.get("/many", function()
    for _ = 1, 17 do pinion.subscribe("x") end
end)
"#;

fn post(server: &Server, text: &str) {
    let response = server.exchange(&Request::new("POST", "/news").body(text.as_bytes()));
    assert_eq!(response.text(), "sent");
}

const OPEN: &str = "data: open\n\n";

#[test]
fn a_message_wakes_its_waiters_in_all_workers() {
    let (_folder, path) = script(SCRIPT);
    for way in ways(|_| true) {
        eprintln!("{way:?}"); // Shown when the case fails.
        let flags = ["--workers", "2", "--lua-time", "3600"];
        let server = Start::site(&path).in_way(way).flags(&flags).start();
        let mut streams: Vec<_> = (0..12)
            .map(|_| {
                let mut client = server.client();
                let mut underway = client.begin(&Request::get("/events"));
                assert_eq!(client.take(&mut underway, OPEN.len()), OPEN.as_bytes());
                (client, underway)
            })
            .collect();
        for (number, expected) in ["one", "two"]
            .iter()
            .zip(["data: open\n\ndata: one\n\n", "data: open\n\ndata: one\n\ndata: two\n\n"])
        {
            post(&server, number);
            for (client, underway) in &mut streams {
                assert_eq!(client.take(underway, expected.len()), expected.as_bytes());
            }
        }
        assert_eq!(server.get("/none").text(), "nil timeout");
        drop(streams);
        server.stop();
    }
}

#[test]
fn a_long_poll_returns_the_next_message() {
    let (_folder, path) = script(SCRIPT);
    for io in Io::BOTH {
        let flags = ["--workers", "2", "--io", io.as_str()];
        let server = Start::site(&path).flags(&flags).start();
        std::thread::scope(|scope| {
            let polls: Vec<_> = (0..8).map(|_| scope.spawn(|| server.get("/poll"))).collect();
            // Each worker receives the message of each of them.
            wait_for("all polls", || (server.get("/ready").text() == "16").then_some(()));
            post(&server, "hello");
            for poll in polls {
                assert_eq!(poll.join().expect("an answer").text(), "hello");
            }
        });
        server.stop();
    }
}

#[test]
fn messages_over_the_queue_of_a_subscription_are_counted() {
    let (_folder, path) = script(SCRIPT);
    for io in Io::BOTH {
        let flags = ["--workers", "1", "--io", io.as_str()];
        let server = Start::site(&path).flags(&flags).start();
        let response = server.get("/burst");
        assert!(response.text().starts_with("150 "), "{response}");
        assert!(response.text().contains("the subscription is closed"), "{response}");
        assert_eq!(server.get("/many").status, 500);
        server.wait_for_line(0, |line| line.contains("16 subscriptions"));
        server.stop();
    }
    let (_folder, path) = script("pinion.subscribe('news')");
    let ended = pinion_tests::server::run(&["check", &path.display().to_string()]);
    let output = ended.stdout + &ended.stderr;
    assert!(output.contains("site.lua:1:") && output.contains("use pinion.on"), "{output}");
}

/// Begins streams of both kinds.
fn streams(server: &Server) -> Vec<(Client, pinion_tests::client::open_exchanges::Underway)> {
    let begin = |(target, open): (&str, &str)| {
        let mut client = server.client();
        let mut underway = client.begin(&Request::get(target));
        assert_eq!(client.take(&mut underway, open.len()), open.as_bytes());
        (client, underway)
    };
    [("/events", OPEN), ("/ticks", "open\n")].into_iter().map(begin).collect()
}

#[test]
fn streams_end_with_a_last_event_when_the_server_stops() {
    let (_folder, path) = script(SCRIPT);
    for way in ways(|_| true) {
        eprintln!("{way:?}"); // Shown when the case fails.
        let flags = ["--workers", "2", "--lua-time", "3600"];
        let mut server = Start::site(&path).in_way(way).flags(&flags).grace(3600).start();
        let streams = streams(&server);
        server.signal(Signal::TERM);
        let ends = ["data: open\n\ndata: stopping\n\n", "open\nstopping\n"];
        for ((mut client, underway), end) in streams.into_iter().zip(ends) {
            let response = client.finish(underway, b"");
            assert_eq!((response.status, response.text()), (200, end));
        }
        assert!(server.wait().success());
    }
}

#[test]
fn streams_end_when_their_script_is_replaced() {
    for io in Io::BOTH {
        let (folder, path) = script(SCRIPT);
        let flags = ["--workers", "2", "--lua-time", "3600", "--io", io.as_str()];
        let server = Start::site(&path).flags(&flags).start();
        let streams = streams(&server);
        folder.write("site.lua", format!("{SCRIPT}\n-- another one"));
        server.signal(Signal::HUP);
        let ends = ["data: open\n\ndata: reloaded\n\n", "open\nreloaded\n"];
        for ((mut client, underway), end) in streams.into_iter().zip(ends) {
            let response = client.finish(underway, b"");
            assert_eq!((response.status, response.text()), (200, end));
        }
        server.stop();
    }
}

const TIMED: &str = r#"
pinion.get("/empty-flushes", function(req, res)
    while true do
        res:flush()
        pinion.sleep(0.1)
    end
end)
pinion.get("/silent-stream", function(req, res)
    res:write("open\n"):flush()
    pinion.sleep(3600)
end)
pinion.get("/long", { time = 60 }, function() pinion.sleep(1.5) return "done" end)
pinion.get("/short", { time = 0.05 }, function() pinion.sleep(3600) end)
pinion.get("/usual", function() pinion.sleep(3600) end)
pinion.post("/small", { body = 10 }, function(req) return tostring(#req:body()) end)
pinion.post("/large", { body = 3e6, time = 60 }, function(req) return tostring(#req:body()) end)
pinion.post("/default", function(req) return tostring(#req:body()) end)
local group = pinion.group("/group")
group.route("PUT", "/x", { body = 5 }, function(req) return tostring(#req:body()) end)
"#;

/// The time of a stream counts from one write to the next
/// (crates/lua/tests/sim/request_time_limit.rs), and a stream that sends nothing is ended.
#[test]
fn a_stream_that_writes_nothing_is_ended() {
    let (_folder, path) = script(TIMED);
    for way in ways(|_| true) {
        eprintln!("{way:?}"); // Shown when the case fails.
        let flags = ["--workers", "1", "--lua-time", "1"];
        let server = Start::site(&path).in_way(way).flags(&flags).start();
        let mut client = server.client();
        let mut underway = client.begin(&Request::get("/silent-stream"));
        assert_eq!(client.take(&mut underway, 5), b"open\n");
        let said = "the response has written nothing for 1 s";
        let is_of = |line: &str, path: &str| line.contains(path) && line.contains(said);
        server.wait_for_line(0, |line| is_of(line, "/silent-stream"));
        // Only sent bytes count.
        let mut client = server.client();
        let _underway = client.begin(&Request::get("/empty-flushes"));
        server.wait_for_line(0, |line| is_of(line, "/empty-flushes"));
        let mut client = server.client();
        let _underway = client.begin(&Request::head("/empty-flushes"));
        server.wait_for_line(0, |line| line.contains("HEAD /empty-flushes"));
        server.stop();
    }
}

#[test]
fn a_route_has_limits_of_its_own() {
    let (_folder, path) = script(TIMED);
    for way in ways(|_| true) {
        eprintln!("{way:?}"); // Shown when the case fails.
        let flags = ["--workers", "1", "--lua-time", "1"];
        let server = Start::site(&path).in_way(way).flags(&flags).start();
        assert_eq!(server.get("/long").text(), "done");
        assert_eq!((server.get("/short").status, server.get("/usual").status), (503, 503));
        let why = "the request has taken longer than 0.05 s: raise the option `time` of its route";
        server.wait_for_line(0, |line| line.contains(why));
        for (method, path, bytes, status) in [
            ("POST", "/small", 10, 200),
            ("POST", "/small", 11, 413),
            ("POST", "/large", 3_000_000, 200),
            ("POST", "/large", 3_000_001, 413),
            ("POST", "/default", 1 << 20, 200),
            ("POST", "/default", (1 << 20) + 1, 413),
            ("PUT", "/group/x", 5, 200),
            ("PUT", "/group/x", 6, 413),
        ] {
            let request = Request::new(method, path).chunked(&vec![b'x'; bytes], 60_000);
            let response = server.exchange(&request);
            assert_eq!(response.status, status, "{method} {path} with {bytes} bytes: {response}");
        }
        server.stop();
    }
}

#[test]
fn wrong_route_options_are_errors_with_their_line() {
    for (options, said) in [
        ("{ time = 0 }", "`time` is a number of seconds"),
        ("{ time = -1 }", "`time` is a number of seconds"),
        ("{ time = 0/0 }", "`time` is a number of seconds"),
        ("{ time = '5' }", "`time` is a number of seconds"),
        ("{ time = 3601 }", "at most 3600"),
        ("{ body = -1 }", "`body` is a whole number of bytes"),
        ("{ body = 1.5 }", "`body` is a whole number of bytes"),
        ("{ body = 1e300 }", "`body` is a whole number of bytes"),
        ("{ bodies = 1 }", "\"bodies\""),
        ("{ 5 }", "an option of a route has no name"),
        ("5", "(table such as { time = 9 } expected, got number)"),
    ] {
        let text = format!("\npinion.post('/x', {options}, function() end)\n");
        let folder = Folder::with("lua-waiting", [("site.lua", text.as_str())]);
        let script = folder.join("site.lua").display().to_string();
        let ended = pinion_tests::server::run(&["check", &script]);
        assert_eq!(ended.code, Some(2), "{options}: {}", ended.stderr);
        let output = ended.stdout + &ended.stderr;
        for part in ["site.lua:2:", said] {
            assert!(output.contains(part), "{options}: {output}");
        }
    }
    // A route can set the same time limit that the operator can set for all.
    let (_folder, path) = script("pinion.get('/x', { time = 7200 }, function() return 'x' end)");
    let server = Start::site(&path).flags(&["--lua-time", "7200"]).start();
    assert_eq!(server.get("/x").text(), "x");
    server.stop();
}

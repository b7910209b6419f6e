//! Handlers in Lua: the same script gives the same responses over every protocol and both backends,
//! an error in one request affects only that request, and a changed script is loaded without a
//! failed request.

use pinion_tests::body::decoded;
use pinion_tests::lua_script_site::{in_every_way, in_every_way_with, script};
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const SCRIPT: &str = r#"
pinion.get("/hello/:name", function(req, res)
    res:write("Hi, ", req.params.name, "!\n")
end)
pinion.get("/said", function() return "a string that is returned is the content" end)
pinion.get("/slept", function() pinion.sleep(0.02) return "slept" end)
pinion.post("/form", function(req, res)
    local form = req:form()
    res:write(form.a, "|", form.b, "|", tostring(form.c))
end)
pinion.post("/echo", function(req) return req:body() end)
pinion.post("/unread", function() return "nobody has read it" end)
pinion.get("/large", function(req, res)
    for line = 1, 20000 do res:write(("line %d\n"):format(line)) end
end)
pinion.get("/streamed", function(req, res)
    for line = 1, 3 do
        res:write(line, "\n"):flush()
        pinion.sleep(0.005)
    end
end)
pinion.get("/within", function(req, res)
    local next = coroutine.wrap(function()
        for n = 1, 3 do
            pinion.sleep(0.001)
            coroutine.yield(n)
        end
    end)
    res:write(next(), next(), next())
end)
pinion.get("/caught", function()
    local is_well, why = pcall(function() pinion.sleep(0.001) error("after a wait") end)
    return tostring(is_well) .. " " .. tostring(why):match(": ([%a ]+)$")
end)
pinion.get("/request", function(req, res)
    res:write(req.method, " ", req.path, " ", req.target, " ", tostring(req.query_string), " ",
        req.query.a, " ", #req.query["a[]"], " ", req.cookies.session, " ", req:field("X-Two"),
        " ", req.fields["x-two"], " ", req.peer, " ", req.route)
end)
pinion.get("/fields", function(req, res)
    res:status(201):field("X-Frame-Options", "DENY"):field("X-Own", "1")
    res:field("X-Own", "2"):cookie("a", "b"):cookie("c", "d"):html("<b>html</b>")
end)
pinion.get("/nothing", function(req, res) res:status(204) end)
pinion.get("/teapot", function(req, res) res:status(418) return "short and stout" end)
pinion.get("/reset", function(req, res) return res:status(205):write("text") end)
pinion.get("/reset-by-and-by", function(req, res)
    res:status(205):write("text"):flush()
    res:write("more")
end)
pinion.get("/led", function(req, res) return res:redirect("/hello/you") end)
pinion.get("/moved", function(req, res) return res:redirect("/hello/you", 301) end)
pinion.get("/control", function() error("\27[31mred\rline") end)
pinion.get("/error", function() local no = nil return no.thing end)
pinion.get("/late-error", function(req, res)
    res:write("begun"):flush()
    error("too late for a page")
end)
pinion.get("/endless", function() while true do pcall(function() while true do end end) end end)
pinion.get("/hungry", function() local t = {} for n = 1, 2^53 do t[n] = ("x"):rep(999) .. n end end)
pinion.get("/catastrophe", function() pcall(string.find, ("a"):rep(40), ("a*"):rep(20) .. "b") end)
pinion.get("/giant", function() local text = ("a"):rep(2^31) return text end)
pinion.get("/deep", function() local function deep() return 1 + deep() end return deep() end)
pinion.get("/lua", function() return _VERSION end)
pinion.get("/split", function(req, res) res:field("X", "a\r\nSet-Cookie: b=c") end)
pinion.get("/framed", function(req, res) res:field("Content-Length", "5") end)
pinion.get("/odd-status", function(req, res) res:status(99) end)
pinion.get("/after", function(req, res)
    kept = res
    return "first"
end)
pinion.get("/after-that", function() kept:write("more") end)
pinion.get("/led-nowhere", function(req, res) return res:redirect() end)
pinion.get("/led-by-200", function(req, res) return res:redirect("/", 200) end)
pinion.get("/tail-split", function(req, res) return res:redirect("a\r\nb") end)
pinion.get("/tail-status", function(req, res) return res:status(99) end)
pinion.get("/tail-write", function(req, res) return kept:write("x") end)
pinion.get("/tail-hex", function() return pinion.codec.hex_encode({}) end)
pinion.get("/yields", function() coroutine.yield("WAIT") end)
pinion.post("/json", function(req, res)
    local value, why = req:json()
    if not value then res:status(400) return why end
    value.seen = pinion.codec.hex_encode("ok")
    res:json(value, { sort = true })
end)
pinion.get("/cyclic", function(req, res) local t = {} t.t = t res:json(t) end)
pinion.get("/no-hex", function() local text = pinion.codec.hex_encode({}) return text end)
pinion.get("/secret-page", function(req, res) res:compress(false) return ("x"):rep(5000) end)
pinion.any("/any", function(req) return req.method end)
pinion.group("/slashed/").get("/x", function() return "slashed" end)
local inner = pinion.group("/inner")
inner.use(function(req, res, next)
    if req:field("X-Key") ~= "right" then
        res:status(403)
        return "closed"
    end
    res:field("X-Around", "yes")
    return next()
end)
inner.get("/secret", function() return "open" end)
"#;

#[test]
fn handlers_respond_alike_over_every_protocol() {
    in_every_way(SCRIPT, |server| {
        for (target, content) in [
            ("/hello/you", "Hi, you!\n"),
            ("/hello/%C3%A4%20b", "Hi, ä b!\n"),
            ("/said", "a string that is returned is the content"),
            ("/slept", "slept"),
            ("/streamed", "1\n2\n3\n"),
            ("/within", "123"),
            ("/caught", "false after a wait"),
        ] {
            let response = server.get(target);
            assert_eq!((response.status, response.text()), (200, content), "{target}");
            assert_eq!(
                response.field("content-type"),
                Some("text/plain; charset=utf-8"),
                "{target}"
            );
            assert_eq!(response.field("x-content-type-options"), Some("nosniff"), "{target}");
            assert_eq!(response.field("cache-control"), None, "{target}");
            let head = server.exchange(&Request::head(target));
            assert_eq!((head.status, head.body.len()), (200, 0), "{target}");
            assert_eq!(head.field("content-length"), response.field("content-length"), "{target}");
        }
        let expected: String = (1..=20_000).map(|line| format!("line {line}\n")).collect();
        assert_eq!(server.get("/large").text(), expected);
    });
}

#[test]
fn content_of_a_request_reaches_its_handler() {
    in_every_way(SCRIPT, |server| {
        let form = Request::new("POST", "/form").body(b"a=1+2&b=%26%3d&c");
        assert_eq!(server.exchange(&form).text(), "1 2|&=|");
        let content: Vec<u8> = (0..=255).cycle().take(200_000).collect();
        for request in [
            Request::new("POST", "/echo").body(&content),
            Request::new("POST", "/echo").chunked(&content, 1000),
        ] {
            assert_eq!(server.exchange(&request).body, content);
        }
        assert_eq!(server.exchange(&Request::new("POST", "/echo")).text(), "");
        let json = Request::new("POST", "/json").body(br#"{"b": [1, 2.5, null], "a": "\u00e4"}"#);
        let response = server.exchange(&json);
        assert_eq!(response.field("content-type"), Some("application/json"));
        assert_eq!(response.text(), r#"{"a":"ä","b":[1,2.5,null],"seen":"6f6b"}"#);
        let wrong = server.exchange(&Request::new("POST", "/json").body(b"{\n  \"a\": }"));
        assert_eq!(wrong.status, 400);
        assert!(wrong.text().contains("line 2"), "{}", wrong.text());
        let unread = Request::new("POST", "/unread").body(&content);
        assert_eq!(server.exchange(&unread).text(), "nobody has read it");
        if server.protocol().is_http1() {
            let too_much = Request::new("POST", "/echo").field("Content-Length", "1048577");
            assert_eq!(server.exchange(&too_much).status, 413);
        }
        assert_eq!(server.get("/said").status, 200);
    });
}

#[test]
fn a_handler_sees_the_request_and_makes_the_head() {
    in_every_way(SCRIPT, |server| {
        let request = Request::get("/request?a=1&a=2")
            .field("Cookie", "other=x; session=s1")
            .field("X-Two", "one")
            .field("X-Two", "two");
        assert_eq!(
            server.exchange(&request).text(),
            "GET /request /request?a=1&a=2 a=1&a=2 2 2 s1 one, two one, two 127.0.0.1 /request"
        );
        let response = server.get("/fields");
        assert_eq!((response.status, response.text()), (201, "<b>html</b>"));
        assert_eq!(response.values("x-frame-options").collect::<Vec<_>>(), ["DENY"]);
        assert_eq!(response.values("x-own").collect::<Vec<_>>(), ["2"]);
        assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"));
        let cookies: Vec<_> = response.values("set-cookie").collect();
        let rest = "; Path=/; HttpOnly; SameSite=Lax";
        assert_eq!(cookies, [format!("a=b{rest}"), format!("c=d{rest}")]);
        let nothing = server.get("/nothing");
        assert_eq!((nothing.status, nothing.body.len()), (204, 0));
        assert_eq!(nothing.field("content-type"), None);
        // The status has no known reason phrase.
        let teapot = server.get("/teapot");
        assert_eq!((teapot.status, teapot.text()), (418, "short and stout"));
        let reset = server.get("/reset");
        assert_eq!((reset.status, reset.body.len()), (205, 0));
        assert_eq!(reset.field("content-type"), None);
        let reset = server.get("/reset-by-and-by");
        assert_eq!((reset.status, reset.body.len()), (205, 0), "{reset}");
        assert_eq!(reset.field("transfer-encoding"), None);
        let led = server.get("/led");
        assert_eq!((led.status, led.field("location")), (303, Some("/hello/you")));
        let moved = server.get("/moved");
        assert_eq!((moved.status, moved.field("location")), (301, Some("/hello/you")));
    });
}

/// Generated content is compressed while it is sent, and flushed parts arrive at once.
#[test]
fn responses_are_compressed_if_the_client_accepts_it() {
    in_every_way(SCRIPT, |server| {
        let plain = server.get("/large");
        assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
        for coding in ["gzip", "br"] {
            let asked = Request::get("/large").field("Accept-Encoding", coding);
            let response = server.exchange(&asked);
            assert_eq!(response.field("content-encoding"), Some(coding));
            assert_eq!(decoded(&response), plain.body);
            assert!(response.body.len() * 3 < plain.body.len());
        }
        let asked = Request::get("/streamed").field("Accept-Encoding", "gzip");
        assert_eq!(decoded(&server.exchange(&asked)), b"1\n2\n3\n");
        let refused = Request::get("/secret-page").field("Accept-Encoding", "gzip");
        let refused = server.exchange(&refused);
        assert_eq!((refused.field("content-encoding"), refused.body.len()), (None, 5000));
    });
}

#[test]
fn missing_routes_get_404_and_missing_methods_405() {
    in_every_way(SCRIPT, |server| {
        assert_eq!(server.get("/none").status, 404);
        let other = server.exchange(&Request::new("POST", "/said").body(b"x"));
        assert_eq!((other.status, other.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
        let options = server.exchange(&Request::new("OPTIONS", "/said"));
        assert_eq!((options.status, options.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
        assert_eq!(server.get("/any").text(), "GET");
        assert_eq!(server.exchange(&Request::new("PUT", "/any").body(b"x")).text(), "PUT");
        assert_eq!(server.get("/hello/a/b").status, 404);
        assert_eq!(server.get("/hello/").status, 404);
        // A slash within a name and the slash between names are not the same.
        assert_eq!(server.get("/hello/a%2Fb").status, 404);
        assert_eq!(server.get("/slashed/x").text(), "slashed");
        let closed = server.get("/inner/secret");
        assert_eq!((closed.status, closed.text()), (403, "closed"));
        let open = server.exchange(&Request::get("/inner/secret").field("X-Key", "right"));
        assert_eq!((open.text(), open.field("x-around")), ("open", Some("yes")));
    });
}

/// Checks the status, and that the page has the ID of the error and nothing of the script; returns
/// the log line.
#[track_caller]
fn fails(server: &Server, target: &str, status: u16, why: &str) -> String {
    let from = server.lines().len();
    let response = server.get(target);
    assert_eq!(response.status, status, "{target}");
    let id = response.field("error-id").expect("a name");
    assert!(response.text().contains(id), "{target}");
    assert!(
        !response.text().contains("site.lua") && !response.text().contains("stack"),
        "{target}"
    );
    let logged = server.wait_for_line(from, |line| line.contains(id));
    assert!(logged.contains(target) && logged.contains(why), "{logged}");
    logged
}

#[test]
fn whole_numbers_are_in_full_in_fields_and_redirects() {
    let text = "local n = 1700000000123456
        pinion.get('/field', function(req, res) res:field('X-N', n) end)
        pinion.get('/redirect', function(req, res) res:redirect('/at/' .. n) end)";
    in_every_way(text, |server| {
        assert_eq!(server.get("/field").field("X-N"), Some("1700000000123456"));
        let location = server.get("/redirect").field("Location").map(str::to_owned);
        assert!(location.is_some_and(|location| location.ends_with("/at/1700000000123456")));
    });
}

/// The timeout applies to connections without a request.
#[test]
fn a_handler_may_take_longer_than_the_keep_alive_timeout() {
    let text = "pinion.get('/', function() pinion.sleep(2.5) return 'late' end)";
    in_every_way_with(text, &["--keep-alive-timeout", "1"], |server| {
        assert_eq!(server.get("/").text(), "late");
    });
}

#[test]
fn errors_are_logged_and_hidden_from_the_client() {
    // On machines where allocating memory is slow, it also costs CPU time.
    in_every_way_with(SCRIPT, &["--lua-cpu", "1000"], |server| {
        // The stack of Lua 5.4 may become so large that the memory limit of a request is reached
        // first.
        let is_54 = server.get("/lua").text() == "Lua 5.4";
        let deep = if is_54 { "used up its memory" } else { "stack overflow" };
        for (target, status, why) in [
            ("/error", 500, "attempt to index"),
            ("/endless", 500, "used up its CPU time"),
            ("/hungry", 500, "used up its memory"),
            ("/catastrophe", 500, "too many steps"),
            ("/giant", 500, "string too large"),
            ("/deep", 500, deep),
            ("/split", 500, "the value of the header X has a line break"),
            ("/framed", 500, "the server sets the header Content-Length itself"),
            ("/odd-status", 500, "99 is not a status"),
            ("/control", 500, ":  [31mred line"),
            ("/cyclic", 500, "JSON cannot contain circular"),
            ("/no-hex", 500, "to 'pinion.codec.hex_encode' (string expected, got table)"),
            ("/yields", 500, "coroutine.yield in a handler"),
            ("/led-nowhere", 500, "at this line: bad argument #1 to 'res:redirect'"),
            ("/led-by-200", 500, "at this line: bad argument #2 to 'res:redirect'"),
            ("/tail-split", 500, "at this line: the value of the header Location has a line break"),
            ("/tail-status", 500, "at this line: 99 is not a status"),
            ("/tail-hex", 500, "to 'pinion.codec.hex_encode' (string expected, got table)"),
        ] {
            let logged = fails(server, target, status, why);
            let is_at = SCRIPT.lines().position(|line| line.contains(&format!("{target:?}")));
            let at = format!("site.lua:{}:", is_at.expect("a handler") + 1);
            assert!(logged.contains(&at), "{logged}");
            assert_eq!(server.get("/hello/you").text(), "Hi, you!\n", "after {target}");
        }
        assert_eq!(server.get("/after").text(), "first");
        fails(server, "/after-that", 500, "the response is complete");
        let logged = fails(server, "/tail-write", 500, "at this line: the response is complete");
        assert!(logged.contains("site.lua:"), "{logged}");
    });
}

#[test]
fn a_response_that_fails_midway_never_looks_complete() {
    in_every_way(SCRIPT, |server| {
        let cut = server.client().try_exchange(&Request::get("/late-error"));
        assert!(cut.is_err(), "{cut:?}");
        assert_eq!(server.get("/said").status, 200);
    });
}

/// While one request uses all the CPU time of its budget, others wait a little and get their
/// responses.
#[test]
fn an_endless_request_does_not_block_others() {
    let (_folder, path) = script(SCRIPT);
    for io in Io::BOTH {
        let server = Start::site(&path).flags(&["--io", io.as_str(), "--workers", "1"]).start();
        thread::scope(|scope| {
            let endless: Vec<_> =
                (0..4).map(|_| scope.spawn(|| server.get("/endless").status)).collect();
            for _ in 0..50 {
                assert_eq!(server.get("/slept").text(), "slept");
            }
            for endless in endless {
                assert_eq!(endless.join().expect("answered"), 500);
            }
        });
        server.stop();
    }
}

/// Waiting requests delay no others, and a request whose client has disconnected is dropped.
#[test]
fn many_requests_wait_at_once_and_abandoned_ones_are_dropped() {
    let text = r#"
        local waiting = 0
        pinion.get("/wait", function()
            waiting = waiting + 1
            while waiting < 200 do pinion.sleep(0.01) end
            return "all"
        end)
        pinion.get("/leave", function(req, res) res:write("x"):flush() pinion.sleep(20) end)
        pinion.get("/count", function() return tostring(waiting) end)
    "#;
    let (_folder, path) = script(text);
    let server = Start::site(&path).flags(&["--workers", "1"]).start();
    for _ in 0..50 {
        server.client().leave_within(&Request::get("/leave"));
    }
    thread::scope(|scope| {
        let all: Vec<_> = (0..200).map(|_| scope.spawn(|| server.get("/wait").body)).collect();
        for one in all {
            assert_eq!(one.join().expect("answered"), b"all");
        }
    });
    assert_eq!(server.get("/count").text(), "200");
    server.stop();
}

#[test]
fn a_script_that_cannot_start_ends_with_its_line() {
    for (text, line, why) in [
        ("pinion.get('/', function(req, res)\n", ":2:", "'end' expected"),
        ("local a = 1\nlocal b = nil + a\n", ":2:", "attempt to perform arithmetic"),
        ("pinion.get('no slash', function() end)", ":1:", "begins with a slash"),
        ("pinion.get('/a')", ":1:", "bad argument #2 to 'pinion.get' (function(req, res) expected"),
        ("pinion:group('/a')", ":1:", "a group is made with a dot"),
        ("pinion.every(1, print, { each = true })", ":1:", "has no option \"each\""),
        ("\npinion:get('/a', print)", ":2:", "written with a dot: pinion.get(pattern, handler)"),
        ("pinion.get('/a', print)\npinion.get('/a', print)", ":2:", "matches the same requests"),
        ("pinion.sleep(1)", "", "cannot wait while it starts, and calls pinion.sleep here"),
        ("while true do end", ":1:", "CPU time"),
        ("local t = {} while true do t[#t + 1] = ('x'):rep(1e6) .. #t end", "site.lua:", "memory"),
        ("pinion.get('/a/:', print)", ":1:", "`:` needs a name, such as"),
        ("pinion.route('GET IT', '/a', print)", ":1:", "\"GET IT\" is not a valid method"),
        ("\u{1b}LJ\u{2}", "", "bytecode"),
    ] {
        let (_folder, path) = script(text);
        let ended = run(&["serve".as_ref(), path.as_os_str()]);
        assert_eq!(ended.code, Some(1), "{text}: {}", ended.stderr);
        let (shown, stack) = ended.stderr.split_once('\n').unwrap_or_default();
        assert!(shown.contains(why) && shown.contains(line), "{text}: {}", ended.stderr);
        assert!(line.is_empty() || shown.contains("site.lua"), "{text}: {shown}");
        // Code that has run has a stack, as errors of requests have.
        let is_of_stack = |line: &str| line.starts_with("pinion:   ");
        assert!(stack.lines().all(is_of_stack), "{text}: {}", ended.stderr);
        let checked = run(&["check".as_ref(), path.as_os_str()]);
        assert_eq!(checked.code, Some(2), "{text}: {}", checked.stdout);
        assert!(checked.stdout.contains(why), "{text}: {}", checked.stdout);
    }
}

fn answering(text: &str) -> String {
    format!("pinion.get('/', function() pinion.sleep(0.002) return '{text}' end)")
}

fn rewrite(folder: &Folder, path: &Path, text: &str) {
    folder.write("next.lua", text);
    std::fs::rename(folder.join("next.lua"), path).expect("renamed");
}

#[test]
fn a_changed_script_is_reloaded_without_failed_requests() {
    let (folder, path) = script(&answering("0"));
    let server = Start::site(&path).flags(&["--workers", "2"]).start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let (mut last, mut count) = (0, 0);
                    let mut client = server.client();
                    while !is_over.load(Ordering::Relaxed) {
                        let response = client.exchange(&Request::get("/"));
                        assert_eq!(response.status, 200);
                        let edition: u32 = response.text().parse().expect("a number");
                        count += 1;
                        last = edition;
                    }
                    (last, count)
                })
            })
            .collect();
        for edition in 1..=20 {
            rewrite(&folder, &path, &answering(&edition.to_string()));
            let from = server.lines().len();
            server.signal(Signal::HUP);
            server.wait_for_line(from, |line| line.starts_with("reloaded"));
        }
        while server.get("/").text() != "20" {}
        is_over.store(true, Ordering::Relaxed);
        for asking in asking {
            let (last, count) = asking.join().expect("no request has failed");
            assert!(last <= 20 && count > 0);
        }
    });
    // A script that cannot start changes nothing, and the log has the position of the error.
    rewrite(&folder, &path, "pinion.get('/', function()\nreturn 1 +\nend)");
    let from = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(from, |line| line.contains("cannot reload"));
    server.wait_for_line(from, |line| line.contains("site.lua:3:"));
    assert_eq!(server.get("/").text(), "20");
    server.stop();
}

#[test]
fn a_watched_script_is_reloaded_when_it_changes() {
    let (folder, path) = script(&answering("old"));
    let server = Start::site(&path).flags(&["--watch"]).start();
    assert_eq!(server.get("/").text(), "old");
    rewrite(&folder, &path, &answering("new"));
    server.wait_for_line(0, |line| line.starts_with("reloaded"));
    while server.get("/").text() != "new" {}
    server.stop();
}

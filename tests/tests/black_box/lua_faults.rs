//! Errors of scripts: their positions are in the log, and in the page only with `--dev`; a site can
//! have its own responses for errors and missing paths.

use pinion_tests::client::Client;
use pinion_tests::lua_script_site::{in_every_way, script};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Ended, Server, Start, run};
use pinion_tests::wait_for;

/// Functions that each exceed a budget within two calls.
const OVER: &str = r#"
local function spins()
    while true do end
end
local function searches()

    return ("a"):rep(40):find(("a*"):rep(20) .. "b") and 1
end
local function waits()

    pinion.sleep(60)
end
pinion.get("/cpu", function() while true do pcall(spins) end end)
pinion.get("/steps", function() local found = pcall(searches) return tostring(found) end)
pinion.get("/time", function() local value = waits() return value end)
pinion.get("/within", function()
    local inside = coroutine.wrap(function() local value = spins() return value end)
    return inside()
end)
pinion.get("/spawned", function()
    pinion.spawn(function() local value = spins() return value end)
    return "begun"
end)
pinion.get("/version", function() return _VERSION end)
"#;

/// Returns whether a stack has the function of a position. The function has no name; Lua 5.4 may
/// show the field of the server that contains it.
fn shows(server: &Server, stack: &str, function: &str) -> bool {
    let field = function.replace("in function", "in field '?'");
    stack.contains(function)
        || (stack.contains(&field) && server.get("/version").text() == "Lua 5.4")
}

const OVER_CPU: &str = "site.lua:3: the request has used up its CPU time of 200 ms: look for a \
                        loop that does not end; if the work takes that long, raise it with";

const OVER_CASES: [(&str, u16, &str, &str); 4] = [
    ("/cpu", 500, OVER_CPU, "site.lua:13: in function"),
    ("/steps", 500, "site.lua:7: too many steps: the request has used", "site.lua:14: in function"),
    (
        "/time",
        503,
        "site.lua:11: the request has taken longer than 1 s",
        "site.lua:15: in function",
    ),
    ("/within", 500, OVER_CPU, "site.lua:17: in function"),
];

#[test]
fn exceeded_budgets_are_logged_with_line_and_stack() {
    let (_folder, path) = script(OVER);
    let server = Start::site(&path).flags(&["--lua-time", "1", "--workers", "1"]).start();
    for (target, status, why, outer) in OVER_CASES {
        let from = server.lines().len();
        let response = server.get(target);
        assert_eq!(response.status, status, "{target}");
        assert!(!response.text().contains("site.lua"), "{target}: {}", response.text());
        let logged = server.wait_for_line(from, |line| line.contains(&format!("GET {target}: ")));
        assert!(logged.contains(why), "{logged}");
        server.wait_for_line(from, |line| shows(&server, line, outer));
        server.wait_for_line(from, |line| line.contains("stack traceback:"));
    }
    let from = server.lines().len();
    assert_eq!(server.get("/spawned").text(), "begun");
    let logged = server.wait_for_line(from, |line| line.contains("pinion.spawn: "));
    let why = "site.lua:3: the background work has used up its CPU time of 1000 ms";
    assert!(logged.contains(why) && logged.contains("--lua-cpu"), "{logged}");
    // Lua code of the server itself is not shown in the stack.
    assert!(!server.lines().iter().any(|line| line.contains("lua:   pinion:")));
    server.stop();
}

#[test]
fn exceeded_budgets_show_their_line_on_the_developer_page() {
    let (_folder, path) = script(OVER);
    let flags = ["--lua-time", "1", "--workers", "1", "--dev"];
    let server = Start::site(&path).flags(&flags).start();
    for (target, status, why, outer) in OVER_CASES {
        let response = server.exchange(&Request::get(target).field("Accept", "text/plain"));
        assert_eq!(response.status, status, "{target}");
        let shown = response.text();
        assert!(shown.contains(why) && shows(&server, shown, outer), "{target}: {shown}");
    }
    server.stop();
}

/// A script that never ends outside of requests.
#[test]
fn an_endless_loop_at_start_is_reported_with_its_line() {
    let (_folder, path) = script("local n = 0\n\nwhile true do n = n + 1 end");
    let why = "site.lua:3: the start of the script has used up its CPU time of 2000 ms";
    let mut refused = Start::site(&path).begin();
    assert!(!refused.wait().success());
    refused.wait_for_line(0, |line| line.contains(why));
    let Ended { code, stderr, .. } =
        run(&["run", "--lua-cpu", "100", path.to_str().expect("text")]);
    assert_eq!(code, Some(1), "{stderr}");
    let why = "site.lua:3: the program has used up its CPU time of 1000 ms: look for a loop";
    assert!(stderr.contains(why), "{stderr}");
}

/// A script that uses half of its tasks for work without requests. Requests use the other half:
/// this many connections, each with this many requests.
const FULL: &str = r#"
for _ = 1, 10000 do
    pinion.spawn(function() pinion.sleep(3000) end)
end
pinion.get("/waits", function() pinion.sleep(3000) end)
pinion.get("/", function() return "well" end)
"#;
const CONNECTIONS: usize = 100;
const AT_ONCE: usize = 100;

/// If a request is refused before its handler could begin, the log has as much information as about
/// a failed handler.
#[test]
fn a_request_refused_by_a_full_worker_is_logged_with_its_error_id() {
    let (_folder, path) = script(FULL);
    // Other protocols have one request on a connection, or take longer to open so many.
    let way = Way { protocol: Protocol::Http2Clear, io: Io::Epoll, form: Form::Folder };
    let flags = ["--workers", "1", "--lua-time", "3600"];
    let server = Start::site(&path).in_way(way).flags(&flags).grace(1).start();
    let mut client = server.client();
    assert_eq!(client.exchange(&Request::get("/")).text(), "well");
    let begin = |_| {
        let mut client = server.client();
        for _ in 0..AT_ONCE {
            let _underway = client.begin(&Request::get("/waits"));
        }
        client
    };
    let waiting: Vec<Client> = (0..CONNECTIONS).map(begin).collect();
    let response = wait_for("a request without a place", || {
        let response = client.exchange(&Request::get("/"));
        (response.status != 200).then_some(response)
    });
    assert_eq!((response.status, response.field("retry-after")), (503, Some("5")));
    let id = response.field("error-id").expect("a name");
    assert!(response.text().contains(id), "{response}");
    let logged = server.wait_for_line(0, |line| line.contains(id));
    let why = "GET /: this worker has 20000 requests and pieces of background work";
    assert!(logged.contains(why), "{logged}");
    drop(waiting);
    server.stop();
}

const OWN: &str = r#"
pinion.not_found(function(req, res)
    if req.path == "/gone/and-broken" then error("nothing to say") end
    if req.path == "/gone/for-good" then res:status(410) end
    return "nothing at " .. req.path
end)
pinion.on_error(function(req, res, why, id)
    if req.path == "/twice" then error("and again") end
    if req.path == "/taken" then res:status(409) end
    return req.method .. " " .. req.path .. "|" .. tostring(why):match("%d+: .*") .. "|" .. id
end)
pinion.get("/", function() return "well" end)
pinion.get("/fails", function(req, res)
    res:status(201):field("X-Of-Handler", "yes"):cookie("of", "handler"):write("half")
    error("too bad")
end)
pinion.get("/taken", function() error("somebody has it") end)
pinion.get("/twice", function() error("once") end)
pinion.get("/cpu", function() while true do end end)
pinion.get("/late", function(req, res) res:write("half"):flush() error("too late") end)
"#;

#[test]
fn error_handlers_of_a_site_make_the_response() {
    in_every_way(OWN, |server| {
        let from = server.lines().len();
        let response = server.get("/fails");
        assert_eq!(response.status, 500);
        // Nothing is left of the handler's own response.
        assert_eq!((response.field("x-of-handler"), response.field("set-cookie")), (None, None));
        let (said, id) = response.text().rsplit_once('|').expect("a name");
        assert_eq!(said, "GET /fails|15: too bad");
        assert_eq!(id.len(), 12, "{id}");
        // The ID is the same as in the log.
        let logged = server.wait_for_line(from, |line| line.contains(id));
        assert!(logged.contains("site.lua:15: too bad"), "{logged}");
        let taken = server.get("/taken");
        assert_eq!(taken.status, 409);
        assert!(taken.text().starts_with("GET /taken|17: somebody has it|"));
        // An error within the error handler gets the built-in response, and both errors are logged.
        let from = server.lines().len();
        let response = server.get("/twice");
        assert_eq!(response.status, 500);
        assert!(response.text().contains(response.field("error-id").expect("a name")));
        assert!(!response.text().contains("once") && !response.text().contains("again"));
        let id = response.field("error-id").expect("a name");
        let first = server.wait_for_line(from, |line| line.contains("site.lua:18: once"));
        let second = server.wait_for_line(from, |line| line.contains("site.lua:8: and again"));
        assert!(second.contains("the handler of pinion.on_error has failed too: "), "{second}");
        assert!(first.contains(id) && second.contains(id), "{first}, {second}");
        // An endless loop could also be in the error handler.
        let response = server.get("/cpu");
        assert_eq!(response.status, 500);
        assert!(response.field("error-id").is_some() && !response.text().contains('|'));
        assert!(server.client().try_exchange(&Request::get("/late")).is_err());
        assert_eq!(server.get("/").text(), "well");
    });
}

#[test]
fn an_error_in_the_error_handler_does_not_hide_the_first_one() {
    let (_folder, path) = script(OWN);
    let server = Start::site(&path).flags(&["--workers", "1", "--dev"]).start();
    let response = server.exchange(&Request::get("/twice").field("Accept", "text/plain"));
    let (first, second) = response.text().split_once("and again").expect("both");
    assert!(
        first.contains("site.lua:18: once") && first.contains("has failed too: "),
        "{response}"
    );
    assert!(!second.contains("once"), "{response}");
    let page = server.exchange(&Request::get("/twice").field("Accept", "text/html"));
    assert!(page.text().contains("<h1>once</h1>"), "{page}");
    server.stop();
}

const BODIES: &str = r#"
pinion.post("/route", { body = 1000 }, function(req)
    local body = req:body()
    return body
end)
pinion.post("/limit", function(req)
    req:limit(2000)
    local bytes = 0
    for piece in req:pieces() do bytes = bytes + #piece end
    return tostring(bytes)
end)
pinion.post("/default", function(req) return req:body() end)
pinion.post("/form", function(req) return type(req:form()) end)
pinion.post("/caught", { body = 1000 }, function(req)
    return tostring(pcall(req.body, req))
end)
"#;

const BODY_CASES: [(&str, usize, &str, &str); 4] = [
    ("/route", 1001, "3", "1000 bytes, which the option `body` of the route \"/route\" allows: r"),
    ("/limit", 2001, "9", "2000 bytes, which a call of req:limit allows for the request of the"),
    ("/default", (1 << 20) + 1, "12", "1048576 bytes, the default: allow more with the option `"),
    ("/caught", 1001, "15", "1000 bytes, which the option `body` of the route \"/caught\" allows"),
];

/// A client that sends too much gets the status, and the log has the exceeded limit once.
#[test]
fn a_body_over_its_limit_is_logged_with_the_limit_and_its_setting() {
    in_every_way(BODIES, |server| {
        for (target, bytes, line, why) in BODY_CASES {
            let content = vec![b'x'; bytes];
            let is_over = |line: &String| line.contains("the request body is larger than ");
            for request in [
                Request::new("POST", target).body(&content),
                Request::new("POST", target).chunked(&content, 60_000),
                // A single chunk that is far larger.
                Request::new("POST", target).chunked(&vec![b'x'; bytes + (2 << 20)], 4 << 20),
            ] {
                let from = server.lines().len();
                assert_eq!(server.exchange(&request).status, 413, "{target}");
                let logged =
                    server.wait_for_line(from, |line| line.contains(&format!("POST {target}: ")));
                assert!(logged.contains(why) && is_over(&logged), "{target}: {logged}");
                assert!(logged.contains(&format!("site.lua:{line}: ")), "{target}: {logged}");
                let lines = server.lines();
                assert_eq!(lines.iter().skip(from).filter(|line| is_over(line)).count(), 1);
            }
            let fits = Request::new("POST", target).body(b"x");
            assert_eq!(server.exchange(&fits).status, 200, "{target}");
        }
        if server.protocol().is_http1() {
            let form = Request::new("POST", "/form")
                .field("Content-Type", "multipart/form-data; boundary=b")
                .field("Content-Length", ((32 << 20) + 1).to_string());
            assert_eq!(server.exchange(&form).status, 413);
            let why = "larger than 33554432 bytes, the default for a form with files: allow more";
            server.wait_for_line(0, |line| line.contains("POST /form: ") && line.contains(why));
        }
    });
}

#[test]
fn the_page_of_a_developer_names_the_limit_of_a_body() {
    let (_folder, path) = script(BODIES);
    let server = Start::site(&path).flags(&["--workers", "1", "--dev"]).start();
    for (target, bytes, line, why) in BODY_CASES {
        for accept in ["text/html", "text/plain"] {
            let request = Request::new("POST", target).field("Accept", accept);
            let response = server.exchange(&request.body(&vec![b'x'; bytes]));
            let shown = response.text().replace("&quot;", "\"");
            assert_eq!(response.status, 413, "{target}");
            assert!(shown.contains(why), "{target}: {shown}");
            assert!(shown.contains(&format!("site.lua:{line}")), "{target}: {shown}");
        }
    }
    server.stop();
}

#[test]
fn not_found_handlers_of_a_site_make_the_response() {
    in_every_way(OWN, |server| {
        let response = server.get("/gone");
        assert_eq!((response.status, response.text()), (404, "nothing at /gone"));
        let response = server.get("/gone/for-good");
        assert_eq!((response.status, response.text()), (410, "nothing at /gone/for-good"));
        let response = server.exchange(&Request::head("/gone"));
        assert_eq!((response.status, response.text()), (404, ""));
        let response = server.exchange(&Request::new("POST", "/gone").body(b"content"));
        assert_eq!((response.status, response.text()), (404, "nothing at /gone"));
        let response = server.get("/gone/and-broken");
        assert_eq!(response.status, 500);
        assert!(response.text().contains("3: nothing to say"), "{}", response.text());
        // A path with routes of other methods is not missing.
        assert_eq!(server.exchange(&Request::new("POST", "/fails").body(b"")).status, 405);
    });
}

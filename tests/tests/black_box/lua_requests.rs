//! The request object of a handler: every method, nested groups, data about the connection, and
//! complete responses. A slow reader delays the handler that writes to it.

use pinion_tests::body::noise;
use pinion_tests::lua_script_site::{in_every_way, script};
use pinion_tests::matrix::Matrix;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::Start;
use pinion_tests::wait_for;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

const SCRIPT: &str = r#"
local function said(req) return req.method .. " " .. req.route end
for _, name in ipairs({ "get", "head", "post", "put", "delete", "patch", "options" }) do
    pinion[name]("/" .. name, function(req, res)
        res:field("Said", said(req))
        return said(req)
    end)
end
pinion.route("PURGE", "/cache", said)
pinion.route("purge", "/small", said)
pinion.any("/any", said)

local function order(name)
    return function(req, res, next)
        req.around = (req.around or "") .. name .. " "
        return next()
    end
end
local function walked(req) return req.around .. req.route end
local outer = pinion.group("/outer")
outer.use(order("outer"))
outer.get("/one", walked)
outer.group("/inner", function(inner)
    inner.use(order("inner"))
    inner.get("/two", walked)
    inner.group("/last").get("/three/:id", walked)
end)
outer.get("/four", walked)

pinion.get("/connection", function(req)
    return table.concat({ req.protocol, req.scheme, tostring(req.tls), req.host,
        tostring(req.peer) }, " ")
end)

pinion.get("/much", function(req, res)
    local piece = ("x"):rep(2^20)
    for n = 1, 64 do res:write(piece) end
end)
pinion.get("/flushed", function(req, res)
    local piece = ("x"):rep(2^20)
    for n = 1, 64 do res:write(piece):flush() end
end)
pinion.get("/streamed", function(req, res)
    local piece, left = ("x"):rep(2^20), 64
    return res:stream(function()
        left = left - 1
        return left >= 0 and piece or nil
    end)
end)
pinion.get("/small-one", function() return "small" end)

local is_going_on
pinion.get("/stream", function(req, res)
    local pieces, at = { "one ", 2, " three" }, 0
    is_going_on = false
    res:stream(function()
        at = at + 1
        while at > 1 and not is_going_on do pinion.sleep(0.001) end
        return pieces[at]
    end)
    return ", all"
end)
pinion.get("/go-on", function() is_going_on = true return "gone on" end)
pinion.post("/back", function(req, res) return res:stream(req:pieces(1000)) end)

local first
pinion.get("/first", function(req, res) first = res return "first" end)
pinion.get("/write", function(req, res)
    first:write("more")
end)
pinion.get("/status", function(req, res)
    first:status(201)
end)
pinion.get("/dot-write", function(req, res)
    res.write("more")
end)
pinion.get("/dot-body", function(req, res)
    res:write(req.body())
end)
pinion.get("/dot-field", function(req, res)
    res:write(req.field("Host"))
end)
pinion.get("/every", function()
    pinion.every(1, print)
end)
pinion.get("/cron", function()
    pinion.cron("* * * * *", print)
end)
pinion.get("/on", function()
    pinion.on("channel", print)
end)
pinion.get("/route", function()
    pinion.get("/more", print)
end)
"#;

#[test]
fn each_method_has_its_handlers() {
    in_every_way(SCRIPT, |server| {
        for name in ["get", "post", "put", "delete", "patch", "options"] {
            let (method, target) = (name.to_uppercase(), format!("/{name}"));
            let response = server.exchange(&Request::new(&method, &target));
            let said = format!("{method} {target}");
            assert_eq!((response.status, response.text()), (200, said.as_str()));
        }
        // HEAD has a handler of its own, or that of GET.
        for (target, said) in [("/head", "HEAD /head"), ("/get", "HEAD /get")] {
            let response = server.exchange(&Request::head(target));
            assert_eq!((response.status, response.field("said")), (200, Some(said)), "{target}");
            assert_eq!(response.text(), "", "{target}");
        }
        for target in ["/cache", "/small"] {
            let response = server.exchange(&Request::new("PURGE", target));
            assert_eq!(response.text(), format!("PURGE {target}"));
            let response = server.get(target);
            assert_eq!((response.status, response.field("allow")), (405, Some("PURGE, OPTIONS")));
        }
        // Each method is listed once, even if OPTIONS has a handler.
        let any = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, QUERY";
        for (method, target, allow) in [("TRACE", "/any", any), ("GET", "/options", "OPTIONS")] {
            let response = server.exchange(&Request::new(method, target));
            assert_eq!((response.status, response.field("allow")), (405, Some(allow)), "{method}");
        }
    });
}

#[test]
fn groups_within_groups_have_the_middleware_of_all() {
    in_every_way(SCRIPT, |server| {
        for (target, walked) in [
            ("/outer/one", "outer /outer/one"),
            ("/outer/inner/two", "outer inner /outer/inner/two"),
            ("/outer/inner/last/three/7", "outer inner /outer/inner/last/three/:id"),
            ("/outer/four", "outer /outer/four"),
        ] {
            assert_eq!(server.get(target).text(), walked);
        }
    });
}

#[test]
fn a_handler_sees_version_scheme_host_and_address() {
    in_every_way(SCRIPT, |server| {
        let (version, scheme) = match server.protocol() {
            Protocol::Http1 => ("HTTP/1.1", "http"),
            Protocol::Http1Tls => ("HTTP/1.1", "https"),
            Protocol::Http2 => ("HTTP/2.0", "https"),
            Protocol::Http2Clear => ("HTTP/2.0", "http"),
            Protocol::Http3 => ("HTTP/3.0", "https"),
        };
        let is_tls = scheme == "https";
        let response = server.exchange(&Request::get("/connection").host("localhost"));
        let said = format!("{version} {scheme} {is_tls} localhost 127.0.0.1");
        assert_eq!(response.text(), said);
    });
}

#[test]
fn a_client_of_a_unix_socket_has_no_address() {
    let (folder, path) = script(SCRIPT);
    let socket = folder.join("a.sock");
    let listen = format!("unix:{}", socket.display());
    let server = Start::site(&path).flags(&["--listen", &listen]).start();
    let mut stream = UnixStream::connect(&socket).expect("connected");
    let asked = b"GET /connection HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    stream.write_all(asked).expect("asked");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("answered");
    assert!(response.ends_with("\r\n\r\nHTTP/1.1 http false here nil"), "{response}");
    server.stop();
}

/// A handler that writes faster than its client reads waits, so no buffer grows.
#[test]
fn a_handler_writes_no_faster_than_its_client_reads() {
    let (_folder, path) = script(SCRIPT);
    let matrix = Matrix::of(&path).folder_only("a script is no archive");
    let matrix = matrix.serve(&["--workers", "1", "--lua-cpu", "5000"]);
    matrix.plain_only("the reader is a bare socket").run(|server| {
        if server.protocol() != Protocol::Http1 {
            return;
        }
        for target in ["/much", "/flushed", "/streamed"] {
            let mut reader = TcpStream::connect(server.address()).expect("a connection");
            let asked = format!("GET {target} HTTP/1.0\r\nHost: h\r\n\r\n");
            reader.write_all(asked.as_bytes()).expect("asked");
            let mut response = vec![0; 1000];
            reader.read_exact(&mut response).expect("the head and some content");
            for _ in 0..100 {
                assert_eq!(server.get("/small-one").text(), "small");
            }
            reader.read_to_end(&mut response).expect("the rest");
            let head =
                response.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
            assert_eq!(response.len() - head - 4, 64 << 20, "{target}");
        }
        assert!(server.memory_bytes("VmHWM") < 48 << 20);
    });
}

/// The next piece is requested when the one before it has been sent.
#[test]
fn streamed_content_is_sent_piece_by_piece() {
    in_every_way(SCRIPT, |server| {
        let mut client = server.client();
        let mut underway = client.begin(&Request::get("/stream"));
        assert_eq!(client.take(&mut underway, 4), b"one ");
        assert_eq!(server.get("/go-on").text(), "gone on");
        let response = client.finish(underway, b"");
        assert_eq!((response.status, response.text()), (200, "one 2 three, all"));
        let content = noise(100_000);
        let back = server.exchange(&Request::new("POST", "/back").body(&content));
        assert_eq!(back.body, content);
    });
}

/// Errors of a handler are logged with its line, not with one of the server.
#[test]
fn misuse_in_a_handler_is_logged_with_its_line() {
    in_every_way(SCRIPT, |server| {
        assert_eq!(server.get("/first").text(), "first");
        for (target, why) in [
            ("/write", "the response is complete"),
            ("/status", "the response is complete"),
            ("/dot-write", "call it with a colon: res:write(text), not res.write(text)"),
            ("/dot-body", "call it with a colon: req:body(), not req.body()"),
            ("/dot-field", "call it with a colon: req:field(name), not req.field(name)"),
            ("/every", "while the main script starts"),
            ("/cron", "while the main script starts"),
            ("/on", "while the main script starts"),
            ("/route", "while the main script starts"),
        ] {
            let from = server.lines().len();
            assert_eq!(server.get(target).status, 500, "{target}");
            let is_handler = |line: &str| line.contains(&format!("\"{target}\""));
            // The error is in the next line.
            let line = SCRIPT.lines().position(is_handler).expect("a handler") + 2;
            let logged =
                server.wait_for_line(from, |line| line.contains(&format!("GET {target}:")));
            assert!(
                logged.contains(&format!("site.lua:{line}: ")) && logged.contains(why),
                "{logged}"
            );
        }
    });
}

/// A schedule runs in one worker, or in each of them.
#[test]
fn a_schedule_runs_in_one_worker_or_in_each() {
    let (_folder, path) = script(
        "local id = pinion.codec.hex_encode(pinion.crypto.random(8))
        pinion.every(0.01, function() pinion.log('one ' .. id) end)
        pinion.every(0.01, function() pinion.log('each ' .. id) end, { each_worker = true })",
    );
    let server = Start::site(&path).flags(&["--workers", "3"]).start();
    let workers_of = |label: &str| -> BTreeSet<String> {
        let lines = server.lines();
        lines
            .iter()
            .filter_map(|line| line.split_once(label))
            .map(|(_, id)| id.to_owned())
            .collect()
    };
    let seen = wait_for("runs in three workers", || {
        let (each, one) = (workers_of("lua: each ").len(), workers_of("lua: one ").len());
        (each == 3 && one > 0).then_some((each, one))
    });
    assert_eq!(seen, (3, 1));
    server.stop();
}

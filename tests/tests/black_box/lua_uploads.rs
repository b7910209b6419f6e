//! Content that a handler reads while it arrives, and forms with files: those of curl and
//! handwritten ones, over every protocol and both backends. Whatever names a client gives its
//! files, how much it sends and where it stops, no file is left behind.

use pinion_tests::body::noise;
use pinion_tests::client::Connection;
use pinion_tests::external_programs::output;
use pinion_tests::lua_script_site::{in_every_way, in_every_way_with, script};
use pinion_tests::matrix::{Io, Matrix};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start};
use pinion_tests::wait_for;

const SCRIPT: &str = r#"
local function shown(value)
    if type(value) == "table" then
        local content = value:read()
        return ("%s/%d/%s/%s"):format(value.name, value.size, tostring(value.type),
            #content > 20 and #content or content)
    end
    return tostring(value)
end
pinion.post("/form", function(req, res)
    local names = {}
    local form = req:form()
    for name in pairs(form) do
        if name:sub(-2) ~= "[]" then names[#names + 1] = name end
    end
    table.sort(names)
    for _, name in ipairs(names) do
        for _, value in ipairs(form[name .. "[]"] or { form[name] }) do
            res:write(name, "=", shown(value), "\n")
        end
    end
    assert(req:form() == form or type(req:form()) == "table")
end)
pinion.post("/back", function(req, res)
    for piece in req:form().file:pieces(30000) do res:write(piece) end
end)
pinion.post("/pieces", function(req, res)
    local pieces = {}
    for piece in req:pieces(10000) do
        assert(#piece > 0 and #piece <= 10000)
        pieces[#pieces + 1] = piece
        if #pieces == 3 then pinion.sleep(0.01) end
    end
    assert(req:read() == nil and req:body() == "")
    res:write(table.concat(pieces))
end)
pinion.post("/first", function(req, res)
    local first, second = req:read(3), req:read(1)
    local rest = req:body()
    res:write(first .. second .. rest)
end)
pinion.post("/some", function(req, res) return tostring(req:read(5)) end)
pinion.post("/much", function(req, res)
    req:limit(30 * 2^20)
    local sum = 0
    for piece in req:pieces() do sum = sum + #piece end
    return tostring(sum)
end)
pinion.post("/little", function(req) return req:limit(10):body() end)
pinion.post("/stubborn", function(req)
    req:limit(2^25)
    local is_well = pcall(req.body, req)
    local again, why = pcall(req.read, req, 10)
    return tostring(is_well) .. " " .. tostring(again) .. " " .. tostring(why)
end)
pinion.post("/long-text", function(req) return tostring(#req:limit(3 * 2^20):body()) end)
pinion.post("/small-form", function(req, res)
    req:limit(1000)
    return tostring(req:form().a)
end)
pinion.post("/caught", function(req, res)
    local is_well, why = pcall(req.form, req)
    res:status(422)
    return tostring(is_well) .. " " .. tostring(why)
end)
pinion.post("/kept", function(req, res)
    kept = req:form().file
    return kept.name
end)
pinion.get("/kept", function() local content = kept:read() return content end)
pinion.post("/late-limit", function(req) req:read(1) req:limit(5) end)
pinion.post("/late-form", function(req) req:read(1) local form = req:form() return form.a end)
pinion.post("/body-of-form", function(req) req:form() local body = req:body() return body end)
pinion.get("/nothing", function(req)
    return tostring(req:read()) .. tostring(req:body()) .. tostring(next(req:form()))
end)
pinion.on_error(function(req, res, why) return why end)
"#;

/// Returns the request of a form.
fn form(target: &str, parts: &[(&str, &[u8])]) -> Request {
    let mut body = Vec::new();
    for (parameters, content) in parts {
        let head = format!("--b\r\nContent-Disposition: form-data; {parameters}\r\n\r\n");
        body.extend_from_slice(&[head.as_bytes(), content, b"\r\n"].concat());
    }
    body.extend_from_slice(b"--b--\r\n");
    raw(target, &body)
}

fn raw(target: &str, body: &[u8]) -> Request {
    Request::new("POST", target).field("Content-Type", "multipart/form-data; boundary=b").body(body)
}

/// Returns the number of files without a name that the server has open.
fn spools(server: &Server) -> usize {
    server.open_files().iter().filter(|file| file.ends_with("(deleted)")).count()
}

/// Waits until the server has only `before` such files open, for example that of the built folder.
#[track_caller]
fn leaves_nothing(server: &Server, before: usize) {
    // Over HTTP/2 and HTTP/3 a client may learn of the end before the server does.
    while spools(server) > before {
        assert_eq!(server.get("/nothing").text(), "nilnil");
    }
    let named = std::fs::read_dir(std::env::temp_dir()).expect("the folder").flatten();
    let is_ours = |name: &str| name.starts_with(".pinion-upload");
    let left: Vec<_> =
        named.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn curl_uploads_fields_and_files() {
    let (folder, path) = script(SCRIPT);
    folder.write("small.txt", "small");
    folder.write("large.bin", noise(200_000));
    let small = folder.join("small.txt").display().to_string();
    let large = folder.join("large.bin").display().to_string();
    let matrix = Matrix::of(&path).over(Protocol::is_known_to_curl, "curl");
    matrix.folder_only("a script is no archive").run(|server| {
        let mut curl = server.curl();
        curl.args(["--silent", "--show-error", "--max-time", "50"]);
        for part in [
            "text=some text".to_owned(),
            "text=again".to_owned(),
            format!("one=@{small}"),
            format!("two=@{large};type=image/png"),
            format!("two=@{small};filename=../x"),
            format!("two=@{small};filename=\"a \\\"b\\\".txt\""),
            format!("two=@{small};filename=/etc/passwd"),
        ] {
            curl.args(["--form", &part]);
        }
        let output = output(curl.arg(server.url("/form")));
        let expected = "one=small.txt/5/text/plain/small\n\
            text=some text\n\
            text=again\n\
            two=large.bin/200000/image/png/200000\n\
            two=x/5/text/plain/small\n\
            two=a \"b\".txt/5/text/plain/small\n\
            two=passwd/5/text/plain/small\n";
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    });
}

#[test]
fn names_of_files_are_made_safe() {
    in_every_way(SCRIPT, |server| {
        for (sent, name) in [
            ("../x", "x"),
            ("/etc/passwd", "passwd"),
            (r"C:\dir\x.txt", "x.txt"),
            ("a\0b\x01", "ab"),
            ("..", "unnamed"),
            (".", "unnamed"),
            (".htaccess", "htaccess"),
            ("dir/", "unnamed"),
            ("a%22b.txt", "a\"b.txt"),
            ("ä", "ä"),
        ] {
            let parameters = format!("name=\"f\"; filename=\"{sent}\"");
            let response = server.exchange(&form("/form", &[(&parameters, b"1")]));
            assert_eq!(response.text(), format!("f={name}/1/nil/1\n"), "{sent:?}");
        }
        let long = format!("name=f; filename={}", "x".repeat(1000));
        let response = server.exchange(&form("/form", &[(&long, b"1")]));
        assert_eq!(response.text(), format!("f={}/1/nil/1\n", "x".repeat(200)));
        // A browser whose user has chosen nothing; an empty file; a file without a name.
        let parts: [(&str, &[u8]); 5] = [
            ("name=none; filename=\"\"", b""),
            ("name=empty; filename=e", b""),
            ("name=unnamed; filename=\"\"", b"1"),
            ("name=\"\"", b"text"),
            ("name=a; filename=x; filename*=UTF-8''..%2Fy", b""),
        ];
        assert_eq!(
            server.exchange(&form("/form", &parts)).text(),
            "=text\na=x/0/nil/\nempty=e/0/nil/\nunnamed=unnamed/1/nil/1\n"
        );
        assert_eq!(server.exchange(&form("/form", &[])).text(), "");
    });
}

#[test]
fn content_is_read_piece_by_piece() {
    in_every_way(SCRIPT, |server| {
        let content = noise(200_000);
        for request in [
            Request::new("POST", "/pieces").body(&content),
            Request::new("POST", "/pieces").chunked(&content, 777),
            Request::new("POST", "/first").body(&content),
        ] {
            assert!(server.exchange(&request).body == content);
        }
        for (target, text) in [("/pieces", ""), ("/some", "nil")] {
            assert_eq!(server.exchange(&Request::new("POST", target)).text(), text);
            assert_eq!(server.exchange(&Request::new("POST", target).body(b"")).text(), text);
        }
        // Unread content does not affect the next request.
        let mut client = server.client();
        let some = Request::new("POST", "/some").body(&content);
        assert_eq!(client.exchange(&some).body, content[..5]);
        assert_eq!(client.exchange(&Request::get("/nothing")).text(), "nilnil");
        let plain = Request::new("POST", "/form").body(b"a=1&b=2");
        assert_eq!(server.exchange(&plain).text(), "a=1\nb=2\n");
    });
}

/// Far more than one string may have, and never much of it in memory. It takes more time than a
/// usual request, because other tests use the CPU too.
#[test]
fn twenty_mebibytes_stream_through_little_memory() {
    const BYTES: usize = 20 << 20;
    /// After a lost packet HTTP/3 keeps up to 6 MiB that came behind it, the window of a stream.
    /// Everything else takes some MiB.
    const GROWN_MAX_BYTES: u64 = 12 << 20;
    in_every_way_with(SCRIPT, &["--lua-cpu", "10000"], |server| {
        let before = spools(server);
        let content = noise(BYTES);
        let part = "name=file; filename=large";
        let small = form("/back", &[(part, &content[..1 << 20])]);
        assert!(server.exchange(&small).body == content[..1 << 20]);
        let peak_bytes = server.memory_bytes("VmHWM");
        let large = form("/back", &[(part, &content)]);
        assert!(server.exchange(&large).body == content, "what went in comes out");
        let much = Request::new("POST", "/much").body(&content);
        assert_eq!(server.exchange(&much).text(), BYTES.to_string());
        // The kernel counts by thread, which is not exact.
        let grown_bytes = server.memory_bytes("VmHWM").saturating_sub(peak_bytes);
        assert!(grown_bytes <= GROWN_MAX_BYTES, "{grown_bytes} bytes");
        leaves_nothing(server, before);
    });
}

/// Returns a request without content that announces this many bytes.
fn announced(target: &str, bytes: usize) -> Request {
    Request::new("POST", target)
        .field("Content-Type", "multipart/form-data; boundary=b")
        .field("Content-Length", bytes.to_string())
}

#[test]
fn too_large_or_malformed_forms_are_refused() {
    in_every_way(SCRIPT, |server| {
        let status = |request: &Request| server.exchange(request).status;
        let before = spools(server);
        let file = "name=f; filename=x";
        assert_eq!(status(&form("/form", &vec![(file, &b""[..]); 100])), 200);
        assert_eq!(status(&form("/form", &vec![(file, &b""[..]); 101])), 413);
        assert_eq!(status(&form("/form", &[("name=a", &vec![b'x'; 2 << 20])])), 413);
        assert_eq!(status(&form("/small-form", &[("name=a", b"1")])), 200);
        assert_eq!(status(&form("/small-form", &[(file, &[b'x'; 2000])])), 413);
        let chunked = Request::new("POST", "/little").chunked(&[b'x'; 11], 5);
        assert_eq!(status(&chunked), 413);
        assert_eq!(status(&Request::new("POST", "/little").body(&[b'x'; 10])), 200);
        let text = Request::new("POST", "/long-text").body(&vec![b'x'; 3 << 20]);
        assert_eq!(server.exchange(&text).text(), (3 << 20).to_string());
        // A handler that catches the error continues without the content, and does not wait for it.
        let text = Request::new("POST", "/stubborn").body(&vec![b'x'; (16 << 20) + 1]);
        let response = server.exchange(&text);
        assert!(response.text().starts_with("false false "), "{}", response.text());
        assert!(response.text().contains("read it with req:pieces"), "{}", response.text());
        if server.protocol().is_http1() {
            assert_eq!(status(&announced("/form", (32 << 20) + 1)), 413);
            assert_eq!(status(&announced("/pieces", (1 << 20) + 1)), 413);
        }
        let field = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n";
        for wrong in [
            "garbage".to_owned(),
            String::new(),
            "--b\r\n\r\n1\r\n--b--".to_owned(),
            format!("{field}1\r\n--b"),
            format!("{field}1"),
            field.replace("name=a", "name=a; name=b") + "1\r\n--b--",
            field.replace('\r', "") + "1\n--b--\n",
        ] {
            let response = server.exchange(&raw("/form", wrong.as_bytes()));
            assert_eq!(response.status, 400, "{wrong:?}");
            assert!(
                !response.text().contains("the form"),
                "it is for the log: {}",
                response.text()
            );
        }
        let boundless =
            Request::new("POST", "/form").field("Content-Type", "multipart/form-data").body(b"x");
        assert_eq!(status(&boundless), 400);
        // A handler can send its own message.
        let caught = server.exchange(&raw("/caught", b"garbage"));
        assert_eq!(caught.status, 422);
        assert!(
            caught.text().ends_with("form ends before its closing boundary"),
            "{}",
            caught.text()
        );
        leaves_nothing(server, before);
    });
}

/// Errors of a client are logged in one line, without a stack.
#[test]
fn a_malformed_form_logs_no_stack() {
    let (_folder, path) = script(SCRIPT);
    for io in Io::BOTH {
        let server = Start::site(&path).flags(&["--io", io.as_str(), "--workers", "1"]).start();
        let from = server.lines().len();
        for wrong in ["garbage", "", "--b\r\n\r\n1\r\n--b--"] {
            assert_eq!(server.exchange(&raw("/form", wrong.as_bytes())).status, 400);
        }
        // Later log lines show that all earlier ones have been written.
        assert_eq!(server.get("/not-there").status, 404);
        let lines = server.last_words();
        let logged: Vec<_> = lines[from..].iter().filter(|line| line.contains("lua:")).collect();
        assert_eq!(logged.len(), 3, "{lines:?}");
        assert!(logged.iter().all(|line| line.contains("POST /form: ")), "{logged:?}");
    }
}

#[test]
fn misuse_of_the_upload_functions_is_reported() {
    let (_folder, path) = script(SCRIPT);
    for io in Io::BOTH {
        let server = Start::site(&path).flags(&["--io", io.as_str(), "--workers", "1"]).start();
        let says = |response: &Response, why: &str| {
            assert_eq!(response.status, 500);
            assert!(response.text().contains("site.lua:"), "{}", response.text());
            assert!(response.text().contains(why), "{}", response.text());
        };
        let file = "name=file; filename=x";
        let kept = server.exchange(&form("/kept", &[(file, &[b'x'; 100_000])]));
        assert_eq!(kept.status, 200);
        says(&server.get("/kept"), "the request has ended");
        for (target, why) in [
            ("/late-limit", "call req:limit before"),
            ("/late-form", "call req:form first"),
            ("/body-of-form", "the body was read with req:form"),
        ] {
            says(&server.exchange(&form(target, &[("name=a", b"1")])), why);
        }
        server.stop();
    }
}

/// A client that stops in the middle, or disconnects, leaves nothing behind.
#[test]
fn an_aborted_or_stalled_upload_leaves_no_temporary_file() {
    let (_folder, path) = script(SCRIPT);
    for io in Io::BOTH {
        let server = Start::site(&path).flags(&["--io", io.as_str(), "--workers", "1"]).start();
        let before = spools(&server);
        let whole = form("/form", &[("name=f; filename=x", &noise(1 << 20))]).bytes();
        let half = &whole[..whole.len() / 2];
        let mut clients: Vec<Connection> = (0..5).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(half);
        }
        while spools(&server) < before + clients.len() {
            assert_eq!(server.get("/nothing").text(), "nilnil");
        }
        drop(clients);
        leaves_nothing(&server, before);
        let mut slow = server.connect();
        slow.send(half);
        while spools(&server) == before {
            assert_eq!(server.get("/nothing").text(), "nilnil");
        }
        slow.send(&whole[half.len()..]);
        assert_eq!(slow.receive().text(), format!("f=x/{}/nil/{}\n", 1 << 20, 1 << 20));
        leaves_nothing(&server, before);
        server.stop();
    }
}

/// Returns the bytes of uploads in files without a name.
fn stored_bytes(server: &Server) -> u64 {
    let folder = format!("/proc/{}/fd", server.id());
    let files = std::fs::read_dir(folder).expect("the server runs").flatten();
    let deleted = files.filter(|file| {
        std::fs::read_link(file.path())
            .is_ok_and(|path| path.to_string_lossy().ends_with("(deleted)"))
    });
    deleted.filter_map(|file| Some(std::fs::metadata(file.path()).ok()?.len())).sum()
}

/// Sends a form up to this many bytes of its file, and then stops.
fn stalled_form(server: &Server, sent_bytes: usize) -> Connection {
    let file = ("name=file; filename=large", &*noise(sent_bytes));
    let whole = form("/form", &[file]).bytes();
    let head_end = whole.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&whole[..head_end]).replace(
        &format!("Content-Length: {}", whole.len() - head_end),
        &format!("Content-Length: {}", 10 << 20),
    );
    let mut connection = server.connect();
    connection.send_if_open(head.as_bytes());
    connection.send_if_open(&whole[head_end..whole.len() - 20]);
    connection
}

/// The bytes and files of any number of stalled uploads are bounded, and a form that is sent
/// completely is accepted.
#[test]
fn stalled_uploads_are_limited_and_yield_to_complete_ones() {
    const SPACE_BYTES: u64 = 4 << 20;
    for io in Io::BOTH {
        for (sent_bytes, open_files) in [(400_000, 1000), (80_000, 300)] {
            let (_folder, script) = script(SCRIPT);
            let start = Start::site(&script).flags(&["--io", io.as_str(), "--workers", "2"]);
            let start = start.flags(&["--upload-space", "4"]).open_files(open_files);
            let server = start.start();
            let line = server.wait_for_line(0, |line| line.contains("uploads take at most"));
            assert!(line.contains("4.00 MiB"), "{line}");
            let before = stored_bytes(&server);
            let stalled: Vec<Connection> =
                (0..60).map(|_| stalled_form(&server, sent_bytes)).collect();
            let file = ("name=file; filename=f", &*noise(1_000_000));
            let response = wait_for("room for one that does not stall", || {
                let held_bytes = stored_bytes(&server).saturating_sub(before);
                assert!(held_bytes <= SPACE_BYTES, "{held_bytes} bytes over {io:?}");
                assert_eq!(server.exchange(&Request::get("/nothing")).status, 200);
                let response = server.exchange(&form("/form", &[file]));
                assert!(response.status == 200 || response.status == 503, "{}", response.status);
                let can_retry = response.field("Retry-After").is_some();
                assert!(response.status == 200 || can_retry, "it says when to come back");
                (response.status == 200).then_some(response)
            });
            assert_eq!(response.text(), "file=f/1000000/nil/1000000\n");
            drop(stalled);
            wait_for("nothing to be held", || (stored_bytes(&server) <= before).then_some(()));
            server.stop();
        }
    }
}

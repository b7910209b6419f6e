//! Scripts that send requests to other servers: to widely used ones, and to this one.

use pinion_tests::external_programs::program;
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::Matrix;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A script that fetches the URL of the query and returns the response, or the error.
pub(crate) const FETCH: &str = r#"
pinion.get("/fetch", function(req, res)
    local query = req.query
    local response, why = pinion.fetch(query.url, {
        method = query.method, socket = query.socket, body = query.body,
        timeout = tonumber(query.timeout), max_bytes = tonumber(query.max_bytes),
        redirects = tonumber(query.redirects),
    })
    if not response then
        return "nil: " .. why
    end
    local body, wrong = response:body()
    if not body then
        return response.status .. " nil: " .. wrong
    end
    return response.status .. " " .. (response:field("content-type") or "-") .. " " .. body
end)
"#;

/// Requests a script that fetches from another server, and returns its text.
#[track_caller]
pub(crate) fn fetched(server: &Server, parameters: &[(&str, &str)]) -> String {
    let mut target = "/fetch".to_owned();
    for (at, (name, value)) in parameters.iter().enumerate() {
        let value: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        target += &format!("{}{name}={value}", if at == 0 { '?' } else { '&' });
    }
    server.get(&target).text().to_owned()
}

/// A running program that is ended when the value is dropped.
pub(crate) struct Running(Child);

impl Running {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Running {
        let child = command.stdin(Stdio::null()).spawn();
        Running(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Returns its process ID.
    #[cfg(feature = "long")]
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the standard output of the program.
    #[track_caller]
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.0.stdout.take().expect("it is piped")
    }

    /// Starts a program that listens on a Unix socket, and waits until it does.
    #[track_caller]
    pub(crate) fn on_socket(command: &mut Command, socket: &Path) -> Running {
        let running = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        wait_for("the socket", || UnixStream::connect(socket).ok());
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_meanwhile = self.0.kill();
        let _status = self.0.wait();
    }
}

/// More bytes than all buffers on the way can hold.
const LARGE_BYTES: usize = 3 << 20;

/// Returns content that cannot be compressed.
fn large() -> Vec<u8> {
    pinion_tests::body::noise(LARGE_BYTES)
}

fn content(name: &str) -> Folder {
    let folder = Folder::with(name, [("www/hello.txt", "hello\n"), ("www/sub/index.html", "sub")]);
    folder.write("www/large.bin", large());
    folder
}

fn nginx(folder: &Folder) -> Running {
    let path = folder.path().display().to_string();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {path}/{kind};\n"));
    let http = format!(
        "{}types {{ text/plain txt; }} access_log off; gzip on; gzip_min_length 1; \
         gzip_types text/plain;\n\
         server {{ listen unix:{path}/socket; root {path}/www; }}\n",
        temporary.concat()
    );
    // nginx runs as one process, because a worker would continue when its master is killed.
    let text = format!(
        "daemon off;\nmaster_process off;\npid {path}/pid;\nevents {{}}\nhttp {{\n{http}}}\n"
    );
    folder.write("nginx.conf", text);
    let mut nginx = program("nginx", "nginx-light");
    nginx.args(["-e", "stderr", "-p", &path, "-c", "nginx.conf"]);
    Running::on_socket(&mut nginx, &folder.join("socket"))
}

fn caddy(folder: &Folder) -> Running {
    let path = folder.path().display();
    let text = format!(
        "{{\n admin off\n auto_https off\n}}\nhttp://localhost {{\n bind unix/{path}/socket\n \
         root * {path}/www\n encode gzip\n file_server\n}}\n"
    );
    folder.write("Caddyfile", text);
    let mut caddy = program("caddy", "caddy");
    caddy.args(["run", "--adapter", "caddyfile", "--config"]).arg(folder.join("Caddyfile"));
    Running::on_socket(caddy.env("HOME", folder.path()), &folder.join("socket"))
}

fn h2o(folder: &Folder) -> Running {
    let path = folder.path().display();
    let text = format!(
        "listen:\n  port: {path}/socket\n  type: unix\nuser: root\nnum-threads: 1\ncompress: ON\n\
         hosts:\n  default:\n    paths:\n      /:\n        file.dir: {path}/www\n"
    );
    folder.write("h2o.yaml", text);
    let mut h2o = program("h2o", "h2o");
    h2o.args(["-m", "worker", "-c"]).arg(folder.join("h2o.yaml"));
    Running::on_socket(&mut h2o, &folder.join("socket"))
}

/// Runs a script that fetches, over every protocol.
fn fetching(flags: &[&str], case: impl Fn(&Server)) {
    let (_folder, path) = script(FETCH);
    let flags = [&["--workers", "1", "--lua-time", "60", "--lua-cpu", "10000"], flags].concat();
    Matrix::of(&path).folder_only("a script is no archive").serve(&flags).run(case);
}

/// Checks the responses that a script gets from a server with [`content`].
#[track_caller]
fn check(server: &Server, place: &[(&str, &str)]) {
    let get = |path: &str, more: &[(&str, &str)]| {
        let url = format!("{}{path}", place.first().map_or("http://localhost", |(_, url)| url));
        let parameters = [&[("url", url.as_str())], place.get(1..).unwrap_or_default(), more];
        fetched(server, &parameters.concat())
    };
    let hello = get("/hello.txt", &[]);
    assert!(hello.starts_with("200 text/plain") && hello.ends_with(" hello\n"), "{hello}");
    // Each connection serves several requests.
    for _ in 0..3 {
        assert_eq!(get("/hello.txt", &[]), hello);
    }
    let head = get("/hello.txt", &[("method", "HEAD")]);
    assert_eq!(head.trim_end(), hello.trim_end_matches(" hello\n"), "{head}");
    assert!(get("/none", &[]).starts_with("404 "));
    let redirected = get("/sub", &[]);
    assert!(redirected.starts_with("200 ") && redirected.ends_with(" sub"), "{redirected}");
    let redirect = get("/sub", &[("redirects", "0")]);
    assert!(redirect.starts_with("301 ") || redirect.starts_with("308 "), "{redirect}");
    let large = get("/large.bin", &[("max_bytes", "1000000")]);
    assert!(large.ends_with("longer than 1000000 bytes; raise max_bytes to allow more"), "{large}");
    assert_eq!(get("/hello.txt", &[]), hello, "the next request is not affected");
}

#[test]
fn responses_of_nginx_caddy_and_h2o_are_understood() {
    let (nginx_folder, caddy_folder) = (content("nginx"), content("caddy"));
    let h2o_folder = content("h2o");
    let _running = [nginx(&nginx_folder), caddy(&caddy_folder), h2o(&h2o_folder)];
    let sockets = [&nginx_folder, &caddy_folder, &h2o_folder].map(|folder| folder.join("socket"));
    let sockets = sockets.map(|socket| socket.display().to_string());
    let flags: Vec<&str> = sockets.iter().flat_map(|socket| ["--fetch-socket", socket]).collect();
    fetching(&flags, |server| {
        for socket in &sockets {
            check(server, &[("url", "http://localhost"), ("socket", socket)]);
        }
    });
}

#[test]
fn responses_of_a_python_server_are_understood() {
    let folder = content("python");
    let mut python = program("python3", "python3");
    python.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0", "--directory"]);
    python.arg(folder.join("www")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running::start(&mut python);
    let mut line = String::new();
    BufReader::new(running.stdout()).read_line(&mut line).expect("a line");
    let port = line.split_whitespace().skip_while(|word| *word != "port").nth(1);
    let url = format!("http://127.0.0.1:{}", port.expect("a port"));
    fetching(&["--fetch-private"], |server| check(server, &[("url", &url)]));
}

#[test]
fn responses_of_pinion_are_understood() {
    let folder = content("own");
    let other = Start::site(&folder.join("www")).start();
    let url = format!("http://{}", other.address());
    fetching(&["--fetch-network", "127.0.0.1"], |server| check(server, &[("url", &url)]));
    other.stop();
}

/// A script that fetches from itself, in all the forms that the documents describe.
const ITSELF: &str = r#"
local json = pinion.json
pinion.any("/echo", function(req, res)
    res:field("X-Method", req.method)
    res:field("X-Type", req:field("content-type"))
    res:field("X-Length", req:field("content-length") or "chunked")
    res:field("X-Agent", req:field("user-agent"))
    return req:body()
end)
pinion.get("/two", function(req, res)
    res:field("Set-Cookie", "a=1"):field("Set-Cookie", "b=2", "more")
    return "two"
end)
pinion.get("/creds", function(req)
    return tostring(req:field("authorization")) .. " " .. tostring(req:field("cookie"))
end)
pinion.any("/to/:code", function(req, res)
    return res:field("Location", req.query.to):status(tonumber(req.params.code))
end)
pinion.get("/many", function(req, res)
    for n = 1, 300 do res:write(("%08d"):format(n):rep(1000)) end
end)
pinion.get("/slow", function() pinion.sleep(0.2) return "slow" end)
pinion.get("/test/:case", function(req)
    local own = "http://127.0.0.1:" .. req.query.port
    local fetch = function(path, options) return assert(pinion.fetch(own .. path, options)) end
    local tests = {
        json = function()
            local echoed = fetch("/echo", { json = { name = "a", list = { 1, 2 } } })
            assert(echoed.status == 200 and echoed:field("X-Method") == "POST")
            assert(echoed.fields["x-type"] == "application/json")
            local value = assert(echoed:json())
            return value.name .. #value.list
        end,
        body = function()
            local echoed = fetch("/echo", { method = "PUT", body = "text", fields = {
                ["Content-Type"] = "text/x", ["User-Agent"] = "me" } })
            return echoed:field("x-method") .. echoed:field("x-type") .. echoed:field("x-length")
                .. echoed:field("x-agent") .. echoed:body() .. echoed:body()
        end,
        pieces = function()
            local function parts()
                local n = 0
                return function()
                    n = n + 1
                    if n <= 50 then
                        if n % 20 == 0 then pinion.sleep(0.001) end
                        return ("%04d"):format(n):rep(1000)
                    end
                end
            end
            local chunked = fetch("/echo", { method = "POST", body = parts() })
            assert(chunked:field("x-length") == "chunked" and #chunked:body() == 200000)
            local counted = fetch("/echo", { method = "POST", body = parts(), length = 200000 })
            assert(counted:field("x-length") == "200000" and #counted:body() == 200000)
            local short, why = pinion.fetch(own .. "/echo", { body = parts(), length = 200001 })
            assert(not short)
            return why:gsub("^http[^ ]* ", "")
        end,
        stop = function()
            local is_well, why = pcall(pinion.fetch, own .. "/echo", { body = function()
                error("no more", 0)
            end })
            return tostring(is_well) .. why
        end,
        gather = function()
            local begun, responses = os.time(), {}
            local works = {}
            for n = 1, 20 do works[n] = function() return fetch("/slow") end end
            local all = { pinion.gather((unpack or table.unpack)(works)) }
            local texts = {}
            for n = 1, 20 do texts[n] = all[n]:body() end
            assert(os.time() - begun < 3)
            return table.concat(texts):gsub("slow", "s")
        end,
        read = function()
            local many, bytes, sizes = fetch("/many", { max_bytes = 2^24 }), 0, 0
            for piece in many:pieces(1000) do
                bytes, sizes = bytes + #piece, math.max(sizes, #piece)
            end
            assert(many:read() == nil and many:field("content-encoding") == nil)
            return bytes .. " " .. sizes
        end,
        close = function()
            for n = 1, 50 do
                local many = fetch("/many")
                assert(#many:read(10) == 10)
                many:close()
                assert(many:read() == nil)
            end
            return "closed"
        end,
        cookies = function()
            local two = fetch("/two")
            return two:field("set-cookie")
        end,
        raw = function()
            local many = fetch("/many", { fields = { ["Accept-Encoding"] = "gzip" } })
            return many:field("content-encoding") .. tostring(#many:body() < 2400000)
        end,
        get = function()
            local moved = fetch("/to/302?to=/echo", { method = "POST", body = "lost" })
            return moved:field("x-method") .. "|" .. moved:body() .. "|" .. moved.url:sub(-5)
        end,
        same = function()
            local moved = fetch("/to/307?to=/echo", { method = "POST", body = "kept" })
            return moved:field("x-method") .. moved:body()
        end,
        own = function()
            local fields = { Authorization = "secret", Cookie = "c=1" }
            return fetch("/to/302?to=/creds", { fields = fields }):body()
        end,
        other = function()
            local fields = { Authorization = "secret", Cookie = "c=1" }
            local to = "http://localhost:" .. req.query.port .. "/creds"
            return fetch("/to/302?to=" .. to, { fields = fields }):body()
        end,
        loop = function()
            local again, why = pinion.fetch(own .. "/loop")
            return tostring(again) .. why:gsub("^http[^ ]* ", " ")
        end,
        fields = function()
            local _, line = pinion.fetch(own, { fields = { ["X"] = "a\r\nHost: b" } })
            local _, host = pinion.fetch(own, { fields = { Host = "b" } })
            local _, method = pinion.fetch(own, { method = "G T" })
            return (line .. "; " .. host .. "; " .. method):gsub("http[^ ]* ", "")
        end,
        many = function()
            local open = {}
            for n = 1, 1001 do
                local response, why = pinion.fetch(own .. "/two")
                if not response then return n .. why:sub(1, 30) end
                open[n] = response
            end
        end,
    }
    return tostring((tests[req.params.case]()))
end)
pinion.get("/loop", function(req, res) return res:redirect("/loop") end)
"#;

#[test]
fn every_documented_property_of_fetch_holds() {
    let (_folder, path) = script(ITSELF);
    let flags = ["--workers", "1", "--fetch-private", "--lua-cpu", "20000", "--lua-time", "60"];
    let listener = Start::site(&path).flags(&flags).start();
    let port = listener.address().port().to_string();
    for (case, expected) in [
        ("json", "a2"),
        ("body", "PUTtext/x4metexttext"),
        ("pieces", "the request is refused: the content is 1 bytes shorter than announced"),
        ("stop", "falseno more"),
        ("gather", "ssssssssssssssssssss"),
        ("read", "2400000 1000"),
        ("close", "closed"),
        ("cookies", "a=1, b=2"),
        ("raw", "gziptrue"),
        ("get", "GET||/echo"),
        ("same", "POSTkept"),
        ("own", "secret c=1"),
        ("other", "nil nil"),
        ("loop", "nil more than 10 redirects"),
        (
            "fields",
            "the request is refused: the value of field 1 has a control character; the request is \
             refused: Host cannot be set: the client writes it; the request is refused: the \
             method is no token",
        ),
        ("many", "1001a handler has at most 1000 res"),
    ] {
        let got = listener.get(&format!("/test/{case}?port={port}"));
        assert_eq!(got.text(), expected, "{case}");
    }
    listener.stop();
}

#[test]
fn a_program_at_the_command_line_fetches() {
    let folder = content("run");
    let other = Start::site(&folder.join("www")).start();
    let url = format!("http://{}/hello.txt", other.address());
    folder.write("token", "s3cret\n");
    let text = "local response = assert(pinion.fetch(arg[1]))
        print(response.status, response:body(), pinion.secret('token'))";
    folder.write("get.lua", text);
    let (script, token) = (folder.join("get.lua"), folder.join("token"));
    let secret = format!("token={}", token.display());
    let script = script.display().to_string();
    let ended = run(&["run", "--secret", &secret, &script, &url]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "200\thello\n\ts3cret\n"));
    other.stop();
}

#[test]
fn secrets_come_from_files_and_are_read_at_each_reload() {
    let folder = Folder::with(
        "secrets",
        [
            (
                "site/main.lua",
                "local at_start = pinion.secret('token')
                pinion.get('/', function() return at_start .. pinion.secret('token') end)
                pinion.get('/none', function()
                    return select(2, pcall(pinion.secret, 'other'))
                end)",
            ),
            ("token", "one\r\n"),
            ("pinion.toml", "[[site]]\npath = \"site\"\nsecret = [\"token=token\"]\n"),
        ],
    );
    let file = folder.join("pinion.toml");
    let checked = run(&["check", &file.display().to_string()]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let site = folder.join("site");
    assert_eq!(run(&["check", &site.display().to_string()]).code, Some(0));
    let server = Start::serve(&[&file]).start();
    assert_eq!(server.get("/").text(), "oneone");
    let none = server.get("/none");
    assert!(none.text().contains("there is no secret \"other\" (there is token)"), "{none}");
    fs::write(folder.join("token"), "two").expect("written");
    server.signal(rustix::process::Signal::HUP);
    wait_for("the reload", || (server.get("/").text() == "twotwo").then_some(()));
    fs::remove_file(folder.join("token")).expect("removed");
    let checked = run(&["check", &file.display().to_string()]);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    assert!(checked.code != Some(0) && said.contains("--secret token:"), "{said}");
    server.signal(rustix::process::Signal::HUP);
    server.wait_for_line(0, |line| line.contains("--secret token:"));
    assert_eq!(server.get("/").text(), "twotwo", "the previous version");
    server.stop();
}

//! QUERY (RFC 10008): handlers and applications get it with its content, everything that has only a
//! GET refuses it, and nothing that was kept for a GET is its response.

use crate::cgi;
use crate::live_files::write_at;
use crate::mounts::start;
use pinion_tests::binary::source_root;
use pinion_tests::fastcgi_application::{Application, FastCgiRequest, page};
use pinion_tests::lua_script_site::{in_every_way, in_every_way_with};
use pinion_tests::matrix::{Io, Matrix, ways};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use rustix::process::geteuid;
use std::fs;

const ALLOW: Option<&str> = Some("GET, HEAD, OPTIONS");

const SCRIPT: &str = r#"
local function describe(req)
    return table.concat({ req.method, req.route, req:field("Content-Type"), req:body() }, " ")
end
pinion.query("/search", describe)
pinion.query("/limited", { body = 10 }, describe)
pinion.query("/json", function(req, res)
    local query, why = req:json()
    if not query then
        res:status(422)
        return why
    end
    res:field("Accept-Query", "application/json"):json({ found = query.q })
end)
pinion.query("/moved", function(req, res) res:redirect("/results/7", 303) end)
pinion.any("/any", describe)
pinion.get("/only-get", function() return "got" end)
pinion.post("/form", describe)
pinion.group("/group").query("/search", describe)
pinion.query("/file", function(req, res) return res:file("data/result.txt") end)
pinion.query("/fetch", function(req)
    local response = pinion.fetch(req:field("X-To"), { method = "QUERY",
        fields = { ["Content-Type"] = "text/plain" }, body = req:body() })
    return response.status .. " " .. response:body()
end)
"#;

/// Returns a QUERY with this content, by the length and in chunks.
fn queries(target: &str, content: &[u8]) -> [Request; 2] {
    let request = Request::new("QUERY", target).field("Content-Type", "text/plain");
    [request.clone().body(content), request.chunked(content, 7)]
}

#[test]
fn handlers_get_a_query_with_its_content() {
    let content = "what is asked for ".repeat(1000);
    in_every_way(SCRIPT, |server| {
        for target in ["/search", "/any", "/group/search"] {
            for content in ["", "a", &content] {
                for request in queries(target, content.as_bytes()) {
                    let response = server.exchange(&request);
                    let expected = format!("QUERY {target} text/plain {content}");
                    assert_eq!((response.status, response.text()), (200, &*expected));
                }
            }
        }
        let json = Request::new("QUERY", "/json").field("Content-Type", "application/json");
        let response = server.exchange(&json.clone().body(br#"{"q":7}"#));
        assert_eq!((response.status, response.text()), (200, r#"{"found":7}"#));
        assert_eq!(response.field("Accept-Query"), Some("application/json"));
        assert_eq!(server.exchange(&json.body(b"{")).status, 422);
        let [moved, _] = queries("/moved", b"a");
        let moved = server.exchange(&moved);
        assert_eq!((moved.status, moved.field("Location")), (303, Some("/results/7")));
        for request in queries("/limited", b"more than ten bytes") {
            assert_eq!(server.exchange(&request).status, 413);
        }
        for (target, allow) in [("/only-get", "GET, HEAD, OPTIONS"), ("/form", "POST, OPTIONS")] {
            let [query, _] = queries(target, b"a");
            let response = server.exchange(&query);
            assert_eq!((response.status, response.field("Allow")), (405, Some(allow)), "{target}");
        }
        let get = server.get("/search");
        assert_eq!((get.status, get.field("Allow")), (405, Some("QUERY, OPTIONS")));
        // Methods are case-sensitive (RFC 9110 §9.1).
        let [query, _] = queries("/search", b"a");
        assert_eq!(server.exchange(&query.method("query")).status, 405);
    });
}

/// RFC 10008 §2: a server must refuse a QUERY without the media type of its content.
#[test]
fn a_query_without_a_media_type_reaches_no_handler() {
    in_every_way(SCRIPT, |server| {
        for target in ["/search", "/any"] {
            for request in [
                Request::new("QUERY", target),
                Request::new("QUERY", target).body(b"a"),
                Request::new("QUERY", target).chunked(b"abc", 2),
                Request::new("QUERY", target).field("Content-Type", "").body(b"a"),
            ] {
                assert_eq!(server.exchange(&request).status, 400, "{target}");
            }
        }
        // Other methods need none.
        let put = server.exchange(&Request::new("PUT", "/any").body(b"a"));
        assert_eq!(put.status, 500, "the handler has run, and misses the type");
    });
}

const REASON: &str = "A QUERY needs a Content-Type.";

/// The client reads why its QUERY is refused. Nothing of the script runs.
#[test]
fn a_query_without_a_media_type_is_refused_with_the_reason() {
    const RUNS: &str = "
        pinion.use(function(req, res, next) res:field('X-Ran', 'yes') return next() end)
        pinion.on_error(function() return 'the handler of errors' end)
        pinion.query('/search', function(req) return req:body() end)";
    let query = Request::new("QUERY", "/search").body(b"a");
    let (html, text) = ("text/html; charset=utf-8", "text/plain; charset=utf-8");
    let problem_details = "application/problem+json";
    for flags in [&[][..], &["--dev"]] {
        in_every_way_with(RUNS, flags, |server| {
            let of_curl = if flags.is_empty() { html } else { text };
            for (accept, media_type) in [
                ("*/*", of_curl),
                ("text/html", html),
                ("text/plain", text),
                ("application/json", problem_details),
            ] {
                let response = server.exchange(&query.clone().field("Accept", accept));
                let found = (response.status, response.field("Content-Type"));
                assert_eq!(found, (400, Some(media_type)), "{accept}");
                assert!(response.text().contains(REASON), "{accept}: {response}");
                assert_eq!(response.field("X-Ran"), None, "{accept}");
            }
            let typed = query.clone().field("Content-Type", "text/plain");
            assert_eq!(server.exchange(&typed).field("X-Ran"), Some("yes"));
        });
    }
}

/// A page refuses it in the same way, unless the site has a page of its own for the status.
#[test]
fn a_page_refuses_a_query_without_a_media_type() {
    let page = ("query.find.dyn.html", "found");
    for own in [None, Some(("_400.html", "our own"))] {
        let folder = Folder::with("query-page", [page].into_iter().chain(own));
        let server = Start::site(folder.path()).start();
        let response = server.exchange(&Request::new("QUERY", "/find").body(b"a"));
        assert_eq!(response.status, 400);
        assert!(response.text().contains(own.map_or(REASON, |(_, text)| text)), "{response}");
        let json = Request::new("QUERY", "/find").field("Accept", "application/json");
        assert!(server.exchange(&json.body(b"a")).text().contains(REASON));
        server.stop();
    }
}

/// The example of docs/lua.md.
#[test]
fn the_example_compares_the_media_type_alone_and_always_sends_an_array() {
    let document = fs::read_to_string(source_root().join("docs/lua.md")).expect("the document");
    let mut blocks = document.split("```lua\n").filter_map(|rest| rest.split("```").next());
    let example = blocks.find(|block| block.contains("pinion.query(\"/cities\"")).expect("a block");
    in_every_way(example, |server| {
        let query = |media_type: &str, content: &str| {
            let query = Request::new("QUERY", "/cities").field("Content-Type", media_type);
            server.exchange(&query.body(content.as_bytes()))
        };
        let form = "application/x-www-form-urlencoded";
        for media_type in
            [form, "Application/X-WWW-Form-Urlencoded;charset=utf-8", &format!("{form} ; a=b")]
        {
            let response = query(media_type, "least=0.5");
            assert_eq!((response.status, response.text()), (200, r#"["berlin","bremen"]"#));
        }
        assert_eq!(query(form, "least=9").text(), "[]");
        for media_type in ["text/plain", "application/x-www-form-urlencodedx"] {
            assert_eq!(query(media_type, "least=0.5").status, 415, "{media_type}");
        }
    });
}

/// Files are not searched: 405 for a method that is known, 501 for one that is not.
#[test]
fn files_refuse_a_query() {
    let files = [("index.html", "home"), ("sub/a.txt", "a"), ("_redirects", "/old /new 301\n")];
    let folder = Folder::with("query-files", files);
    fs::create_dir(folder.join("media")).expect("a folder");
    folder.write("media/live.txt", "live");
    let flags = ["--live", "media", "--listing"];
    let matrix = Matrix::of(folder.path()).folder_only("live files").serve(&flags);
    matrix.run(|server| {
        for target in ["/", "/index.html", "/sub/a.txt", "/sub/", "/media/live.txt"] {
            assert_eq!(server.get(target).status, 200, "{target}");
            for query in queries(target, b"select *") {
                let response = server.exchange(&query);
                assert_eq!((response.status, response.field("Allow")), (405, ALLOW), "{target}");
                assert_eq!(server.exchange(&query.method("QUERYX")).status, 501, "{target}");
            }
            let options = server.exchange(&Request::new("OPTIONS", target));
            assert_eq!((options.status, options.field("Allow")), (204, ALLOW), "{target}");
            assert_eq!(server.get(target).status, 200, "{target}");
        }
        let [missing, _] = queries("/none", b"a");
        assert_eq!(server.exchange(&missing).status, 404);
        // RFC 10008 §2.5: clients send the same QUERY to the other URL.
        let [moved, _] = queries("/old", b"a");
        let moved = server.exchange(&moved);
        assert_eq!((moved.status, moved.field("Location")), (301, Some("/new")));
    });
}

/// A file that a handler sends is the result of the query: conditions are compared with it, and
/// ranges are for GET alone.
#[test]
fn a_conditional_query_can_get_304() {
    let folder = Folder::with("query-file", [("site.lua", SCRIPT)]);
    // A file that has just been written has no entity tag yet.
    write_at(&folder, "data/result.txt", "found", 0);
    let data = format!("data={}", folder.join("data").display());
    for way in ways(|_| true) {
        let start = Start::site(&folder.join("site.lua")).in_way(way);
        let server = start.flags(&["--lua-folder", &data]).start();
        let [query, _] = queries("/file", b"a");
        let whole = server.exchange(&query.clone().field("Range", "bytes=0-1"));
        assert_eq!((whole.status, whole.text()), (200, "found"));
        assert_eq!(whole.field("Accept-Ranges"), None);
        let tag = whole.field("ETag").expect("a tag").to_owned();
        let same = server.exchange(&query.clone().field("If-None-Match", &tag));
        assert_eq!((same.status, same.text()), (304, ""));
        let other = server.exchange(&query.field("If-Match", "\"other\""));
        assert_eq!(other.status, 412);
        server.stop();
    }
}

/// Serves a mount at `/run` in each way that one is tried.
fn with_mount(name: &str, lines: &str, case: impl Fn(&Server)) {
    let folder = Folder::with(name, [("public/index.html", "home")]);
    let text = format!("[[site]]\npath = \"public\"\n[[site.mount]]\npath = \"/run\"\n{lines}");
    folder.write("p.toml", text);
    for way in ways(|_| true) {
        let server = Start::site(&folder.join("p.toml")).in_way(way).start();
        case(&server);
        server.stop();
    }
}

#[test]
fn an_upstream_server_gets_a_query_with_its_content() {
    let upstream = Upstream::start(|connection| {
        while let Some(head) = connection.head() {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
            });
            let content = connection.take(length.expect("a length")).expect("content");
            let first = head.lines().next().unwrap_or_default();
            connection.respond(&[first.as_bytes(), b" ", &content].concat());
        }
    });
    let lines = format!("proxy = \"{}\"\nbuffer-uploads = true\n", upstream.url());
    with_mount("query-proxy", &lines, |server| {
        for content in ["", "select *"] {
            for query in queries("/run/a?b", content.as_bytes()) {
                let response = server.exchange(&query);
                let expected = format!("QUERY /run/a?b HTTP/1.1 {content}");
                assert_eq!((response.status, response.text()), (200, &*expected));
            }
        }
        // The application decides about the type.
        assert_eq!(server.exchange(&Request::new("QUERY", "/run").body(b"a")).status, 200);
        let trace = server.exchange(&Request::new("TRACE", "/run"));
        let allow = Some("GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE, QUERY");
        assert_eq!((trace.status, trace.field("Allow")), (405, allow));
    });
}

#[test]
fn a_program_gets_a_query_with_its_content() {
    let folder = Folder::new("query-fastcgi-socket");
    let socket = folder.join("app.sock");
    let _application = Application::responding(&socket, |request: &FastCgiRequest| {
        let names = ["REQUEST_METHOD", "CONTENT_TYPE", "CONTENT_LENGTH"];
        let values = names.map(|name| request.get(name)).join(" ");
        page(&format!("{values} {}", String::from_utf8_lossy(&request.content)))
    });
    let lines = format!("fastcgi = \"unix:{}\"\n", socket.display());
    with_mount("query-fastcgi", &lines, |server| {
        for content in ["", "select *"] {
            for query in queries("/run/a", content.as_bytes()) {
                let response = server.exchange(&query);
                let expected = format!("QUERY text/plain {} {content}", content.len());
                assert_eq!((response.status, response.text()), (200, &*expected));
            }
        }
    });
}

#[test]
fn scripts_and_python_applications_get_a_query_with_its_content() {
    const ECHO: &str = "echo Content-Type: text/plain; echo\n\
        printf '%s %s %s ' $REQUEST_METHOD $CONTENT_TYPE $CONTENT_LENGTH; exec cat\n";
    const WSGI: &str = "def app(environ, start_response):\n\
        \x20   start_response('200 OK', [('Content-Type', 'text/plain')])\n\
        \x20   names = ['REQUEST_METHOD', 'CONTENT_TYPE', 'CONTENT_LENGTH']\n\
        \x20   text = ' '.join(environ[name] for name in names).encode()\n\
        \x20   return [text, b' ', environ['wsgi.input'].read()]\n";
    let folder = cgi::scripts("query-programs", &[("echo", ECHO)]);
    folder.write("app/app.py", WSGI);
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    let wsgi = format!(
        "[[site.mount]]\npath = \"/wsgi\"\nwsgi = \"app:app\"\n\
         python = \"/usr/bin/python3\"\npython-folder = {:?}\n{user}",
        folder.join("app")
    );
    let mounts = cgi::mount(&folder, "") + &wsgi;
    for io in Io::BOTH {
        let server = start(&folder, io, &mounts);
        for target in ["/run/echo", "/wsgi/a"] {
            for content in ["", "select *"] {
                for query in queries(target, content.as_bytes()) {
                    let response = server.exchange(&query);
                    let expected = format!("QUERY text/plain {} {content}", content.len());
                    assert_eq!((response.status, response.text()), (200, &*expected), "{target}");
                }
            }
        }
        server.stop();
    }
}

/// A response that a browser may store for a GET is not one for a QUERY with the same path, and a
/// handler that stores results uses the content as their key.
#[test]
fn a_get_and_a_query_have_different_responses() {
    const KEPT: &str = "
        local function found(req, text)
            return pinion.cached(req.method .. text, 60, function() return req.method .. text end)
        end
        pinion.get('/a', function(req) return found(req, '') end)
        pinion.query('/a', function(req) return found(req, req:body()) end)";
    in_every_way(KEPT, |server| {
        for _ in 0..3 {
            assert_eq!(server.get("/a").text(), "GET");
            for content in ["x", "y"] {
                for query in queries("/a", content.as_bytes()) {
                    assert_eq!(server.exchange(&query).text(), format!("QUERY{content}"));
                }
            }
        }
    });
}

/// `pinion.fetch` sends a QUERY, and keeps method and content after 301 and 302: RFC 10008 §2.5.
#[test]
fn a_script_sends_a_query() {
    let upstream = Upstream::start(|connection| {
        while let Some(head) = connection.head() {
            let content = connection.take(if head.starts_with("QUERY") { 3 } else { 0 });
            let content = content.expect("content");
            if let Some(status) = head.strip_prefix("QUERY /moved/").map(|rest| &rest[..3]) {
                let location = "Location: /to\r\nContent-Length: 0";
                connection.send(format!("HTTP/1.1 {status} Moved\r\n{location}\r\n\r\n"));
                continue;
            }
            let first = head.lines().next().unwrap_or_default();
            connection.respond(&[first.as_bytes(), b" ", &content].concat());
        }
    });
    let folder = Folder::with("query-fetch", [("site.lua", SCRIPT)]);
    for io in Io::BOTH {
        let flags = ["--fetch-private", "--io", io.as_str()];
        let server = Start::site(&folder.join("site.lua")).flags(&flags).start();
        for (path, expected) in [
            ("/to", "200 QUERY /to HTTP/1.1 abc"),
            ("/moved/301", "200 QUERY /to HTTP/1.1 abc"),
            ("/moved/302", "200 QUERY /to HTTP/1.1 abc"),
            ("/moved/303", "200 GET /to HTTP/1.1 "),
            ("/moved/307", "200 QUERY /to HTTP/1.1 abc"),
            ("/moved/308", "200 QUERY /to HTTP/1.1 abc"),
        ] {
            let [query, _] = queries("/fetch", b"abc");
            let query = query.field("X-To", format!("{}{path}", upstream.url()));
            assert_eq!(server.exchange(&query).text(), expected, "{path}");
        }
        server.stop();
    }
}

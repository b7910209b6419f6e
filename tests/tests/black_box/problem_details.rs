//! Problem details (RFC 9457): the responses to clients that prefer JSON to error pages.

use pinion_tests::lua_script_site::in_every_way;
use pinion_tests::matrix::{Io, Matrix, explained_ways, ways};
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use serde_json::Value;

const JSON: &str = "application/json";

/// The `Accept` fields of `fetch`, axios and HTTPie, and types of applications.
const PREFER_JSON: [&str; 5] = [
    JSON,
    "application/problem+json",
    "application/json, text/plain, */*",
    "application/json, */*;q=0.5",
    "application/vnd.api+json, text/html;q=0.5",
];

/// The `Accept` fields of browsers, curl and programs without a preference.
const PREFER_NO_JSON: [&str; 4] = [
    "*/*",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "text/html, application/json",
    "application/json;q=0.5, */*",
];

/// Returns the members of the problem details in a response.
#[track_caller]
fn problem(response: &Response, status: u16) -> Value {
    assert_eq!(response.status, status, "{response}");
    let media_type = response.field("Content-Type");
    assert_eq!(media_type, Some("application/problem+json"), "{response}");
    let length = response.body.len().to_string();
    assert_eq!(response.field("Content-Length"), Some(&*length), "{response}");
    assert_eq!(response.field("Cache-Control"), Some("no-store"), "{response}");
    let members: Value = serde_json::from_str(response.text()).expect("JSON");
    assert_eq!(members["status"], status, "{response}");
    assert!(members["title"].is_string(), "{response}");
    members
}

fn asked(server: &Server, request: Request) -> Response {
    server.exchange(&request.field("Accept", JSON))
}

#[test]
fn errors_of_files_are_problem_details() {
    let folder = Folder::with("problem-files", [("index.html", "home")]);
    explained_ways(&folder, |server| {
        let etag = Request::get("/index.html").field("If-Match", "\"other\"");
        for (request, status, title) in [
            (Request::get("/none"), 404, "Not Found"),
            (Request::new("QUERY", "/index.html"), 405, "Method Not Allowed"),
            (Request::new("BREW", "/"), 501, "Not Implemented"),
            (Request::get("/../a"), 400, "Bad Request"),
            (etag, 412, "Precondition Failed"),
            (Request::get("/").field("Range", "bytes=99-"), 416, "Range Not Satisfiable"),
        ] {
            for accept in PREFER_JSON {
                let response = server.exchange(&request.clone().field("Accept", accept));
                let members = problem(&response, status);
                assert_eq!(members["title"], title, "{accept}");
                assert!(members["detail"].is_string(), "{accept}");
                // The fields are the same, except for the type and the length.
                let page = server.exchange(&request);
                let others = |response: &Response| -> Vec<(String, String)> {
                    let fields = response.fields.iter().cloned();
                    let is_own = |name: &str| {
                        ["content-type", "content-length", "date"]
                            .contains(&&*name.to_ascii_lowercase())
                    };
                    fields.filter(|(name, _)| !is_own(name)).collect()
                };
                assert_eq!(others(&response), others(&page), "{accept}");
            }
            for accept in PREFER_NO_JSON {
                let response = server.exchange(&request.clone().field("Accept", accept));
                let html = Some("text/html; charset=utf-8");
                assert_eq!((response.status, response.field("Content-Type")), (status, html));
            }
        }
        let get = asked(server, Request::get("/none"));
        let head = asked(server, Request::head("/none"));
        assert_eq!((head.status, head.text()), (404, ""));
        assert_eq!(head.field("Content-Length"), get.field("Content-Length"));
        // Existing content is sent to all clients.
        assert_eq!(asked(server, Request::get("/")).text(), "home");
    });
}

/// Pages of a site are for clients that accept them, and a page in JSON is for those that prefer
/// JSON.
#[test]
fn problem_details_replace_error_pages_unless_they_are_json() {
    let own = r#"{"own":true}"#;
    let folder = Folder::with(
        "problem-pages",
        [
            ("index.html", "home"),
            ("404.html", "not here"),
            ("api/_404.json", own),
            ("gone.html", "it is gone"),
            ("_405.html", "not so"),
            ("_501.json", own),
            ("app/_200.html", "the application"),
            ("_redirects", "/old/* /gone.html 410\n/late /gone.html 599\n/other /gone.html 200\n"),
            ("_headers", "/*\n  X-Site: yes\n"),
        ],
    );
    explained_ways(&folder, |server| {
        for (target, status, page) in [("/none", 404, "not here"), ("/old/a", 410, "it is gone")] {
            let response = asked(server, Request::get(target));
            problem(&response, status);
            assert_eq!(response.field("X-Site"), Some("yes"));
            let html = server.get(target);
            assert_eq!(html.status, status);
            assert!(html.text().contains(page), "{html}");
        }
        // No name is registered for this status.
        let late = asked(server, Request::get("/late"));
        assert_eq!((late.status, late.text()), (599, "{\"status\":599}\n"));
        problem(&asked(server, Request::new("POST", "/index.html")), 405);
        assert_eq!(server.exchange(&Request::new("POST", "/index.html")).text(), "not so");
        for request in [Request::get("/api/none"), Request::new("BREW", "/")] {
            let response = asked(server, request);
            let media_type = response.field("Content-Type");
            assert_eq!((response.text(), media_type), (own, Some("application/json")));
        }
        for (target, page) in [("/app/none", "the application"), ("/other", "it is gone")] {
            let response = asked(server, Request::get(target));
            assert_eq!((response.status, response.text()), (200, page), "{target}");
        }
    });
}

#[test]
fn a_refused_head_gets_the_format_of_its_accept_field() {
    let folder = Folder::with("problem-heads", [("index.html", "home")]);
    let matrix = Matrix::of(folder.path()).http1_only("heads that cannot be read as HTTP/1");
    matrix.run(|server| {
        let long = "x".repeat(9000);
        for (head, status) in [
            (format!("GET /{long} HTTP/1.1\r\nHost: a\r\nAccept: {JSON}\r\n\r\n"), 414),
            (format!("GET / HTTP/1.1\r\nAccept: {JSON}\r\nHost: a\r\nHost: b\r\n\r\n"), 400),
        ] {
            let mut connection = server.connect();
            connection.send(&head);
            problem(&connection.receive(), status);
            connection.expect_close();
        }
    });
}

#[test]
fn errors_of_scripts_are_problem_details() {
    const SCRIPT: &str = "
        pinion.get('/fails', function() error('<\"secret\">') end)
        pinion.post('/body', { body = 10 }, function(req) return req:body() end)
        pinion.query('/search', function(req) return req:body() end)
        pinion.get('/own', function(req, res) res:status(404) return 'own' end)";
    in_every_way(SCRIPT, |server| {
        let failed = asked(server, Request::get("/fails"));
        let members = problem(&failed, 500);
        assert_eq!(members["error_id"].as_str(), failed.field("Error-Id"));
        assert!(!failed.text().contains("secret"), "{failed}");
        let long = Request::new("POST", "/body").body(b"more than ten bytes");
        problem(&asked(server, long), 413);
        problem(&asked(server, Request::new("QUERY", "/search").body(b"a")), 400);
        let other = asked(server, Request::get("/body"));
        problem(&other, 405);
        assert_eq!(other.field("Allow"), Some("POST, OPTIONS"));
        // Responses of handlers are not replaced.
        assert_eq!(asked(server, Request::get("/own")).text(), "own");
    });
}

/// A developer gets the reason, as on the page for browsers, whatever pages the site has.
#[test]
fn a_developer_sees_the_reason() {
    let script = ("main.lua", "pinion.get('/', function() error('a \"reason\"') end)");
    for (io, own) in [
        (Io::BOTH[0], None),
        (Io::BOTH[1], None),
        (Io::BOTH[0], Some(("_500.json", "{}"))),
        (Io::BOTH[0], Some(("_500.txt", "own"))),
        (Io::BOTH[0], Some(("_500.html", "own"))),
    ] {
        let folder = Folder::with("problem-developer", [script].into_iter().chain(own));
        let flags = ["--dev", "--io", io.as_str()];
        let server = Start::site(folder.path()).flags(&flags).start();
        let response = asked(&server, Request::get("/"));
        let members = problem(&response, 500);
        let report = members["report"].as_str().expect("a report");
        assert!(report.contains("a \"reason\"") && report.contains("main.lua:1"), "{report}");
        let text = server.exchange(&Request::get("/").field("Accept", "*/*"));
        assert_eq!(text.field("Content-Type"), Some("text/plain; charset=utf-8"), "{own:?}");
        assert!(text.text().contains("a \"reason\""), "{own:?}: {text}");
        for response in [response, text] {
            assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{own:?}");
        }
        server.stop();
    }
}

/// The ID of a failure is added to HTML and to text. In other content it would be an error.
#[test]
fn a_page_of_a_site_gets_the_id_of_a_failure_if_it_is_html_or_text() {
    for (name, own) in [
        ("_500.html", "<h1>own</h1>"),
        ("_500.txt", "own\n"),
        ("_500.json", r#"{"own":true}"#),
        ("_500.xml", "<own/>"),
    ] {
        let failing = ("a.dyn.html", "<?lua error('no') ?>");
        let folder = Folder::with("problem-failure-pages", [failing, (name, own)]);
        let server = Start::site(folder.path()).start();
        for accept in ["*/*", "text/html", "text/plain", JSON] {
            let response = server.exchange(&Request::get("/a").field("Accept", accept));
            let id = response.field("Error-Id").expect("an ID");
            if accept == JSON && name != "_500.json" {
                assert_eq!(problem(&response, 500)["error_id"], id);
                continue;
            }
            let expected = match name {
                "_500.html" => format!("{own}<p><small>Error {id}</small></p>\n"),
                "_500.txt" => format!("{own}Error {id}\n"),
                _ => own.to_owned(),
            };
            assert_eq!((response.status, response.text()), (500, &*expected), "{name} {accept}");
        }
        server.stop();
    }
}

/// A shared cache must not send problem details to a browser, so an error that it may store names
/// `Accept` in `Vary`.
#[test]
fn errors_that_caches_may_store_vary_by_accept() {
    let folder = Folder::with(
        "problem-vary",
        [
            ("index.html", "home"),
            ("gone.html", "gone"),
            ("_405.html", "not so"),
            ("sub/404.html", "nothing"),
            ("_redirects", "/old /gone.html 410\n/cdn/old /gone.html 410\n"),
            (
                "_headers",
                "/cdn/*\n  CDN-Cache-Control: max-age=60\n\
                 /surrogate/*\n  Vary: Origin\n  Surrogate-Control: max-age=9\n\
                 /vary/*\n  Vary: Origin\n\
                 /accept/*\n  Vary: accept, Origin\n  X-Accel-Expires: 9\n",
            ),
        ],
    );
    let (both, own) = (Some("Origin, Accept"), Some("accept, Origin"));
    let accept = Some("Accept");
    let cases = [
        // The `Vary` of an error with the site's `Cache-Control`, and of one without.
        (Request::get("/none"), 404, None, accept),
        (Request::get("/sub/none"), 404, None, accept),
        (Request::get("/cdn/none"), 404, accept, accept),
        (Request::get("/surrogate/none"), 404, both, both),
        (Request::get("/vary/none"), 404, Some("Origin"), both),
        (Request::get("/accept/none"), 404, own, own),
        (Request::new("POST", "/index.html"), 405, None, accept),
        (Request::get("/../a"), 400, None, accept),
        (Request::get("/").field("Range", "bytes=99-"), 416, None, accept),
        (Request::get("/cdn/old"), 410, accept, accept),
        (Request::new("OPTIONS", "/"), 204, None, None),
        (Request::get("/"), 200, None, None),
    ];
    for is_without in [false, true] {
        let flags: &[&str] = if is_without { &["--no-cache-control"] } else { &[] };
        Matrix::of(folder.path()).build(flags).explained().run(|server| {
            for (request, status, with, without) in &cases {
                let expected = if is_without { *without } else { *with };
                for accept in [JSON, "text/html", "text/plain", "*/*"] {
                    let response = server.exchange(&request.clone().field("Accept", accept));
                    assert_eq!(response.status, *status, "{response}");
                    let vary: Vec<&str> = response.values("Vary").collect();
                    assert_eq!(vary, Vec::from_iter(expected), "{is_without}: {response}");
                }
            }
            // The page of a rule is never stored as an error, but problem details may be.
            let page = server.get("/old");
            let stored = (page.field("Cache-Control"), page.field("Vary"));
            assert_eq!(stored, (Some("no-store"), None), "{page}");
            let problem = asked(server, Request::get("/old"));
            assert_eq!(problem.field("Vary"), accept.filter(|_| is_without), "{problem}");
        });
    }
}

#[test]
fn errors_about_other_servers_and_clients_are_problem_details() {
    let broken = Upstream::saying("no response\r\n\r\n");
    let folder = Folder::with("problem-gateway", [("public/index.html", "home")]);
    let text = format!(
        "[[site]]\npath = \"public\"\nhosts = [\"localhost\"]\n\
         [[site.mount]]\npath = \"/app\"\nproxy = \"{}\"\n\
         [[site.access]]\npath = \"/rare\"\nrequest-rate = \"1/h\"\n\
         [[site.access]]\npath = \"/closed\"\nallow = [\"192.0.2.0/24\"]\n",
        broken.url()
    );
    folder.write("p.toml", text);
    for way in ways(|_| true) {
        let flags = ["--workers", "1"];
        let server = Start::site(&folder.join("p.toml")).flags(&flags).in_way(way).start();
        problem(&asked(&server, Request::get("/app/a")), 502);
        problem(&asked(&server, Request::new("TRACE", "/app/a")), 405);
        problem(&asked(&server, Request::get("/closed/a")), 403);
        assert_eq!(server.get("/rare").status, 404);
        let limited = asked(&server, Request::get("/rare"));
        problem(&limited, 429);
        assert!(limited.field("Retry-After").is_some(), "{limited}");
        problem(&asked(&server, Request::get("/").host("other.example")), 421);
        server.stop();
    }
}

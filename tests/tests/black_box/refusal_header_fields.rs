//! The responses to requests that are refused have the fields of the rules for their path, as far
//! as that is known: a browser shows its page no error that the rules do not let it read.

use pinion_tests::matrix::{Matrix, Way, every_way, ways};
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;

const HEADERS: &str = "\
/*
  X-Everywhere: 1
/tiles/*
  Access-Control-Allow-Origin: *
  Cache-Control: max-age=60
";

/// Handlers that take ten bytes.
const SCRIPT: &str = "\
for _, path in ipairs({ '/tiles/little', '/other/little' }) do
    pinion.post(path, function(req) return req:limit(10):body() end)
end
";

/// More content than a site takes.
const TOO_MUCH_BYTES: usize = (1 << 20) + 1;

fn site() -> Folder {
    Folder::with(
        "refused-rules",
        [
            ("main.lua", SCRIPT),
            ("public_html/index.html", "home"),
            ("public_html/_headers", HEADERS),
        ],
    )
}

/// Returns requests for a file in a folder that are refused over every protocol, with the status.
fn refused(folder: &str) -> Vec<(u16, Request)> {
    let path = |name: &str| format!("/{folder}/{name}");
    let get = || Request::get(&path("a"));
    let mut many = get();
    for number in 0..150 {
        many = many.field(&format!("X-{number}"), "y");
    }
    vec![
        (400, get().field("Content-Length", "x")),
        (413, Request::new("POST", &path("a")).body(&vec![b'x'; TOO_MUCH_BYTES])),
        (413, Request::new("POST", &path("little")).body(&[b'x'; 11])),
        (413, Request::new("POST", &path("little")).chunked(&[b'x'; 11], 5)),
        (414, Request::get(&path(&format!("a?{}", "x".repeat(9000))))),
        (417, get().field("Expect", "a-miracle")),
        (431, many),
        (501, Request::new(&"M".repeat(40), &path("a"))),
    ]
}

/// Checks the fields of a response to a request whose path is in `folder`.
#[track_caller]
fn has_fields_of(folder: &str, status: u16, response: &Response) {
    assert_eq!(response.status, status, "{response}");
    assert_eq!(response.field("X-Everywhere"), Some("1"), "{response}");
    let origin = (folder == "tiles").then_some("*");
    assert_eq!(response.field("Access-Control-Allow-Origin"), origin, "{response}");
    assert_eq!(response.field("Cache-Control"), Some("no-store"), "{response}");
}

#[test]
fn a_refused_request_has_the_rules_for_its_path() {
    every_way(&site(), |server| {
        for folder in ["tiles", "other"] {
            for (status, request) in refused(folder) {
                has_fields_of(folder, status, &server.exchange(&request));
            }
        }
    });
}

/// Heads that only HTTP/1 can send. The rules for the path apply if no missing byte could change
/// the path.
#[test]
fn a_head_that_cannot_be_read_has_the_rules_for_the_path_it_shows() {
    let site = site();
    Matrix::of(site.path()).serve(&["--header-timeout", "1"]).http1_only("its bytes").run(
        |server| {
            let post = "POST /tiles/little HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:";
            let huge = "POST /tiles/a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999";
            let long = "x".repeat(9000);
            let cases = [
                ("tiles", 400, "GET /tiles/a HTTP/1.1\r\n\r\n".to_owned()),
                ("tiles", 400, "GET /tiles/a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n".to_owned()),
                ("tiles", 400, "GET /tiles/a HTTP/1.1\r\nHost: x\r\nno field\r\n\r\n".to_owned()),
                ("tiles", 400, "GET http://x/tiles/a HTTP/1.1\r\n\r\n".to_owned()),
                ("tiles", 400, format!("{post} chunked\r\n\r\nno size\r\n")),
                ("tiles", 400, format!("{post} chunked\r\n\r\n0\r\nno field\r\n\r\n")),
                ("tiles", 408, "GET /tiles/a HTTP/1.1\r\nHost: x\r\n".to_owned()),
                ("tiles", 408, "GET /tiles/a?b".to_owned()),
                ("tiles", 413, format!("{huge}\r\n\r\n")),
                ("tiles", 501, format!("{post} gzip, chunked\r\n\r\n")),
                ("tiles", 505, "GET /tiles/a HTTP/9.9\r\nHost: x\r\n\r\n".to_owned()),
                ("none", 400, "nonsense\r\n\r\n".to_owned()),
                ("none", 400, "GET /tiles/\"a HTTP/1.1\r\nHost: x\r\n\r\n".to_owned()),
                // The path may continue.
                ("none", 408, "GET /tiles/a".to_owned()),
                ("none", 414, format!("GET /tiles/{long} HTTP/1.1\r\nHost: x\r\n\r\n")),
            ];
            // All of them are sent at the same time, since some have to time out.
            let connections = cases.each_ref().map(|(_, _, bytes)| {
                let mut connection = server.connect();
                connection.send_if_open(bytes);
                connection
            });
            for ((folder, status, bytes), mut connection) in cases.iter().zip(connections) {
                eprintln!("{bytes:.60}"); // Shown when the case fails.
                has_fields_of(folder, *status, &connection.receive());
                connection.expect_close();
            }
        },
    );
}

/// The host selects the rules; without a readable host, those for all other hosts apply.
#[test]
fn the_rules_are_those_of_the_site_of_the_host() {
    for way in ways(|_| true) {
        let Way { protocol, .. } = way;
        let folder = Folder::new("refused-hosts");
        for site in ["a", "rest"] {
            folder.write(format!("{site}/index.html"), site);
            folder.write(format!("{site}/_headers"), format!("/in/*\n  X-Site: {site}\n"));
        }
        let sites = "[[site]]\nhosts = [\"a.test\"]\npath = \"a\"\n[[site]]\npath = \"rest\"\n";
        folder.write("pinion.toml", sites);
        let server = Start::site(&folder.join("pinion.toml")).in_way(way).start();
        for (host, path, site) in [
            ("a.test", "/in/a", Some("a")),
            ("b.test", "/in/a", Some("rest")),
            ("a.test", "/a", None),
        ] {
            for (status, request) in [
                (413, Request::new("POST", path).body(&vec![b'x'; TOO_MUCH_BYTES])),
                (417, Request::get(path).field("Expect", "a-miracle")),
            ] {
                let response = server.exchange(&request.host(host));
                assert_eq!(response.status, status, "{response}");
                assert_eq!(response.field("X-Site"), site, "{host}{path}: {response}");
            }
        }
        if protocol.is_http1() {
            let mut connection = server.connect();
            connection.send("GET /in/a HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n");
            let response = connection.receive();
            assert_eq!(response.field("X-Site"), Some("rest"), "{response}");
        }
        server.stop();
    }
}

//! Pages that are values of the store: `--store-pages`, and `[[site.mount]]` with `store`.

use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A server with pages of a store, whose socket is in the folder.
struct Pages {
    server: Server,
    socket: PathBuf,
}

impl Pages {
    fn start(folder: &Folder, io: Io, lines: &str) -> Self {
        let socket = folder.join("store.sock");
        folder.write("site/file.html", "a file");
        folder.write(
            "p.toml",
            format!(
                "[[listen]]\naddress = \"127.0.0.1:0\"\n[[listen]]\nstore = \"unix:{}\"\n\
                 [[site]]\npath = \"site\"\n{lines}",
                socket.display()
            ),
        );
        let flags = ["--io", io.as_str(), "--workers", "2"];
        let server = Start::configured(&folder.join("p.toml")).flags(&flags).start();
        Self { server, socket }
    }

    fn redis(&self, words: &[&str]) -> String {
        let mut command = program("redis-cli", "redis-tools");
        command.arg("-s").arg(&self.socket).args(words);
        String::from_utf8(stdout(&mut command)).expect("text").trim().to_owned()
    }

    fn get(&self, target: &str, fields: &[(&str, &str)]) -> Response {
        let request = Request::get(target);
        let with = |request: Request, (name, value): &(&str, &str)| request.field(name, value);
        self.server.exchange(&fields.iter().fold(request, with))
    }
}

const LIVE: &str = "[[site.mount]]\npath = \"/live\"\nstore = \"page:\"\n";

/// Returns a page in a type that is compressed.
fn text(lines: usize) -> String {
    (0..lines).map(|line| format!("<p>line {line}</p>\n")).collect()
}

#[test]
fn a_key_is_served_as_a_page() {
    for io in Io::BOTH {
        let folder = Folder::new("store-pages");
        let pages = Pages::start(&folder, io, LIVE);
        for (key, value) in [("index.html", "home"), ("about", "about"), ("a b/c.css", "a{}")] {
            assert_eq!(pages.redis(&["SET", &format!("page:{key}"), value]), "OK");
        }
        let html = "text/html; charset=utf-8";
        for (target, media_type, content) in [
            ("/live/", html, "home"),
            ("/live", html, "home"),
            ("/live/about", html, "about"),
            ("/live/a%20b/c.css?x=1", "text/css; charset=utf-8", "a{}"),
        ] {
            let response = pages.get(target, &[]);
            assert_eq!((response.status, response.text()), (200, content), "{target}");
            assert_eq!(response.field("Content-Type"), Some(media_type), "{target}");
            let revalidated = Some("max-age=0, must-revalidate");
            assert_eq!(response.field("Cache-Control"), revalidated, "{target}");
            let length = content.len().to_string();
            assert_eq!(response.field("Content-Length"), Some(&*length), "{target}");
            let head = pages.server.exchange(&Request::head(target));
            assert_eq!(head.fields, response.fields, "{target}");
        }
        for target in ["/live/none", "/live/about/", "/live/%zz", "/livelier", "/live/A", "/about"]
        {
            assert!(matches!(pages.get(target, &[]).status, 400 | 404), "{target}");
        }
        assert_eq!(pages.get("/file.html", &[]).text(), "a file");
        let post = pages.server.exchange(&Request::new("POST", "/live/about").body(b"x"));
        assert_eq!((post.status, post.field("Allow")), (405, Some("GET, HEAD, OPTIONS")));
        let query = pages.server.exchange(&Request::new("QUERY", "/live/about").body(b"x"));
        assert_eq!((query.status, query.field("Allow")), (405, Some("GET, HEAD, OPTIONS")));
        let options = pages.server.exchange(&Request::new("OPTIONS", "/live/about"));
        assert_eq!((options.status, options.field("Allow")), (204, Some("GET, HEAD, OPTIONS")));
        pages.redis(&["LPUSH", "page:list", "x"]);
        assert_eq!(pages.get("/live/list", &[]).status, 500);
        pages.server.wait_for_line(0, |line| {
            line.ends_with("the key \"page:list\" is a list; only a string can be a page")
        });
        pages.server.stop();
    }
}

/// All workers send the new value with the next request.
#[test]
fn a_set_is_visible_at_once() {
    for io in Io::BOTH {
        let folder = Folder::new("store-pages-set");
        let pages = Pages::start(&folder, io, LIVE);
        // Short and long values have other forms in the store.
        let long = |number: usize| format!("{number:04}{}", "x".repeat(3000));
        for number in 0..30 {
            let value = if number % 3 == 2 { format!("short {number}") } else { long(number) };
            pages.redis(&["SET", "page:a", &value]);
            let tags: Vec<String> = (0..6)
                .map(|_| {
                    let response = pages.get("/live/a", &[]);
                    assert_eq!(response.text(), value);
                    response.field("ETag").expect("a tag").to_owned()
                })
                .collect();
            assert!(tags.iter().all(|tag| *tag == tags[0]), "{tags:?}");
            pages.redis(&["APPEND", "page:a", "+"]);
            let response = pages.get("/live/a", &[]);
            assert_eq!(response.text(), value + "+");
            assert_ne!(response.field("ETag"), Some(&*tags[0]));
        }
        pages.redis(&["PEXPIRE", "page:a", "1"]);
        pinion_tests::wait_for("the end of a page", || {
            (pages.get("/live/a", &[]).status == 404).then_some(())
        });
        pages.server.stop();
    }
}

/// Elements of a list whose `SORT` takes some hundredths of a second and locks all keys meanwhile.
const SORTED: usize = 200_000;

/// The number of long commands, one after the other.
const SORTS: usize = 30;

/// A page whose key is locked by a command that takes long comes as soon as that has ended.
#[test]
fn a_page_waits_for_a_command_that_takes_long() {
    for io in Io::BOTH {
        let folder = Folder::new("store-pages-wait");
        let pages = Pages::start(&folder, io, LIVE);
        pages.redis(&["SET", "page:a", "short"]);
        pages.redis(&["SET", "page:long", &text(500)]);
        pages.redis(&["LPUSH", "page:list", "x"]);
        let mut client = BufReader::new(UnixStream::connect(&pages.socket).expect("the store"));
        let mut commands = String::new();
        for from in (0..SORTED).step_by(1000) {
            let elements = (from..from + 1000).map(|number| format!(" {number}"));
            commands += &format!("RPUSH list{}\r\n", elements.collect::<String>());
        }
        let line = |client: &mut BufReader<UnixStream>| {
            let mut line = String::new();
            client.read_line(&mut line).expect("the store replies");
            line
        };
        client.get_mut().write_all(commands.as_bytes()).expect("the store reads");
        (0..SORTED).step_by(1000).for_each(|_| assert!(line(&mut client).starts_with(':')));
        // Weights that are not there are looked up, so all keys are locked.
        let sorts = "SORT list BY weight:* LIMIT 0 1\r\n".repeat(SORTS);
        client.get_mut().write_all(sorts.as_bytes()).expect("the store reads");
        for _ in 0..SORTS / 2 {
            assert_eq!(pages.get("/live/a", &[]).text(), "short");
            assert_eq!(pages.get("/live/long", &[]).text(), text(500));
            assert_eq!(pages.get("/live/none", &[]).status, 404);
            assert_eq!(pages.get("/live/list", &[]).status, 500);
            // A client that leaves is no matter.
            let mut leaves = TcpStream::connect(pages.server.address()).expect("the server");
            leaves.write_all(b"GET /live/a HTTP/1.1\r\nHost: a\r\n\r\n").expect("it reads");
        }
        (0..SORTS).for_each(|_| {
            assert_eq!(line(&mut client), "*1\r\n");
            line(&mut client);
            line(&mut client);
        });
        assert_eq!(pages.get("/live/a", &[]).text(), "short");
        pages.server.stop();
    }
}

/// RFC 9110, sections 13 and 14.
#[test]
fn pages_support_conditional_and_range_requests() {
    let folder = Folder::new("store-pages-conditions");
    let pages = Pages::start(&folder, Io::Epoll, LIVE);
    for (key, value) in [("short", "0123456789".to_owned()), ("long", text(1000))] {
        pages.redis(&["SET", &format!("page:{key}"), &value]);
        let target = format!("/live/{key}");
        let whole = pages.get(&target, &[]);
        let tag = whole.field("ETag").expect("a tag").to_owned();
        let same = pages.get(&target, &[("If-None-Match", &tag)]);
        assert_eq!((same.status, same.field("ETag")), (304, Some(&*tag)));
        assert_eq!(pages.get(&target, &[("If-None-Match", "\"x\"")]).status, 200);
        assert_eq!(pages.get(&target, &[("If-Match", "\"x\"")]).status, 412);
        let part = pages.get(&target, &[("Range", "bytes=2-5")]);
        assert_eq!((part.status, part.text()), (206, &value[2..6]));
        let range = format!("bytes 2-5/{}", value.len());
        assert_eq!(part.field("Content-Range"), Some(&*range));
        let parts = pages.get(&target, &[("Range", "bytes=0-1,4-5")]);
        assert_eq!(parts.status, 206);
        assert!(parts.text().contains(&value[4..6]) && parts.text().contains("--"), "{parts}");
        let behind = pages.get(&target, &[("Range", "bytes=999999-")]);
        assert_eq!(behind.status, 416);
        let other = pages.get(&target, &[("Range", "bytes=2-5"), ("If-Range", "\"x\"")]);
        assert_eq!((other.status, other.text()), (200, &*value));
    }
    pages.server.stop();
}

#[test]
fn pages_are_compressed_by_accept_encoding() {
    let folder = Folder::new("store-pages-codings");
    let pages = Pages::start(&folder, Io::Epoll, LIVE);
    let value = text(500);
    pages.redis(&["SET", "page:a.html", &value]);
    pages.redis(&["SET", "page:a.png", &value]);
    pages.redis(&["SET", "page:small", "small"]);
    let plain = pages.get("/live/a.html", &[]);
    assert_eq!(plain.field("Vary"), Some("Accept-Encoding"));
    let mut tags = vec![plain.field("ETag").expect("a tag").to_owned()];
    for coding in ["gzip", "br", "zstd"] {
        let accepts = [("Accept-Encoding", coding)];
        let response = pages.get("/live/a.html", &accepts);
        assert_eq!(response.field("Content-Encoding"), Some(coding));
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
        assert!(response.body.len() < value.len() / 4);
        let curl = pages
            .server
            .curl()
            .args(["--compressed", "-H"])
            .arg(format!("Accept-Encoding: {coding}"))
            .arg(pages.server.url("/live/a.html"))
            .output()
            .expect("curl");
        // Some versions of curl do not know zstd.
        if coding != "zstd" {
            assert_eq!(String::from_utf8_lossy(&curl.stdout), value, "{coding}");
        }
        let tag = response.field("ETag").expect("a tag").to_owned();
        let again = [("Accept-Encoding", coding), ("If-None-Match", &*tag)];
        assert_eq!(pages.get("/live/a.html", &again).status, 304);
        tags.push(tag);
        assert_eq!(pages.get("/live/a.png", &accepts).field("Content-Encoding"), None);
        assert_eq!(pages.get("/live/small", &accepts).field("Content-Encoding"), None);
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4, "each form has a tag of its own: {tags:?}");
    pages.server.stop();
}

/// Files of the site may respond first, and the other rules of the site apply to pages, too.
#[test]
fn pages_have_the_rules_fields_and_access_checks_of_their_site() {
    let folder = Folder::new("store-pages-site");
    folder.write("site/_headers", "/*\n  X-Site: yes\n/secret/*\n  Cache-Control: max-age=9\n");
    folder.write("users", "ann:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju\n");
    let lines = format!(
        "[[site.mount]]\npath = \"/\"\nstore = \"page:\"\n[[site.access]]\npath = \"/secret\"\n\
         password-file = {:?}\n",
        folder.join("users")
    );
    let pages = Pages::start(&folder, Io::Epoll, &lines);
    for key in ["file.html", "other", "secret/a"] {
        pages.redis(&["SET", &format!("page:{key}"), "from the store"]);
    }
    assert_eq!(pages.get("/file.html", &[]).text(), "a file");
    let other = pages.get("/other", &[]);
    assert_eq!((other.text(), other.field("X-Site")), ("from the store", Some("yes")));
    assert_eq!(other.field("X-Content-Type-Options"), Some("nosniff"));
    assert_eq!(pages.get("/secret/a", &[]).status, 401);
    assert_eq!(pages.get("/%73ecret/a", &[]).status, 401);
    assert_eq!(pages.get("/none", &[]).status, 404);
    pages.server.stop();
}

#[test]
fn pages_are_served_over_all_protocols() {
    let ways = Protocol::SPOKEN.iter().flat_map(|&protocol| Io::BOTH.map(|io| (protocol, io)));
    for (protocol, io) in ways {
        let folder = Folder::new("store-pages-protocols");
        let socket = folder.join("store.sock");
        let flags = [
            "--store".to_owned(),
            format!("unix:{}", socket.display()),
            "--store-pages".to_owned(),
            "/live=page:".to_owned(),
        ];
        folder.write("site/index.html", "a site");
        let way = Way { protocol, io, form: Form::Folder };
        let start = Start::site(&folder.join("site")).in_way(way).flags(&flags);
        let pages = Pages { server: start.start(), socket };
        let long = text(20_000);
        pages.redis(&["SET", "page:short", "short"]);
        // An argument of a program has a limit.
        for piece in long.as_bytes().chunks(50_000) {
            let piece = std::str::from_utf8(piece).expect("ASCII");
            pages.redis(&["APPEND", "page:long", piece]);
        }
        assert_eq!(pages.get("/live/short", &[]).text(), "short");
        assert_eq!(pages.get("/live/long", &[]).text(), long);
        let part = pages.get("/live/long", &[("Range", "bytes=100000-100009")]);
        assert_eq!((part.status, part.text()), (206, &long[100_000..100_010]));
        pages.server.stop();
    }
}

#[test]
fn wrong_page_settings_are_errors() {
    let folder = Folder::new("store-pages-wrong");
    folder.write("site/index.html", "a site");
    let site = folder.join("site");
    let site = site.to_str().expect("text");
    let ended = run(&["serve", site, "--store-pages", "page:"]);
    assert!(ended.stderr.contains("there is no store; add --store"), "{}", ended.stderr);
    let toml = |lines: &str| {
        let store =
            "[[listen]]\nstore = \"127.0.0.1:0\"\n[[site]]\npath = \"site\"\n[[site.mount]]\n";
        folder.write("p.toml", format!("{store}{lines}"));
        let ended = run(&["check", folder.join("p.toml").to_str().expect("text")]);
        assert_ne!(ended.code, Some(0), "{lines}");
        ended.stdout + &ended.stderr
    };
    let text = toml("path = \"/a\"\nstore = \"a:\"\ntimeout = 5\n");
    assert!(text.contains("timeout: has no effect with store"), "{text}");
    let text = toml("path = \"*.html\"\nstore = \"a:\"\n");
    assert!(text.contains("with store write a path"), "{text}");
    let text = toml("path = \"/a\"\nstore = \"a:\"\ncgi = \"cgi\"\n");
    assert!(text.contains("a mount has either"), "{text}");
}

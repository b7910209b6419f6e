//! Rules files from practice: the published examples of Netlify, Cloudflare and IPFS, requested
//! with curl.

use pinion_tests::binary::pinion;
use pinion_tests::external_programs::output;
use pinion_tests::matrix::Matrix;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use serde_json::Value;
use std::process::Command;

/// Returns a site in which the content of every file is its own path, with rules.
fn site(files: &[&str], rules: &[(&str, &str)]) -> Folder {
    Folder::with("rules", files.iter().map(|path| (*path, *path)).chain(rules.iter().copied()))
}

/// Runs a case with a folder over every protocol that curl knows.
#[track_caller]
fn every_way(site: &Folder, case: impl Fn(&Server)) {
    Matrix::of(site.path()).explained().over(Protocol::is_known_to_curl, "curl").run(case);
}

/// The response that curl gets: status, fields (names in lower case), body.
struct Got {
    status: u64,
    fields: Value,
    body: String,
}

impl Got {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields[name][0].as_str()
    }
}

/// Sends a request with curl; `arguments` precede the URL.
#[track_caller]
fn curl(server: &Server, arguments: &[&str], target: &str) -> Got {
    let mut curl = server.curl();
    curl.args(["--silent", "--globoff", "--path-as-is", "--max-time", "50"]);
    curl.args(["--write-out", "%{stderr}%{http_code}\n%{header_json}"]);
    if server.peer().served().is_some() {
        // This client compares the response with that of `pinion why`.
        server.exchange(&request(arguments, target));
    }
    let got = output(curl.args(arguments).arg(server.url(target)));
    let text = String::from_utf8(got.stderr).expect("text");
    let (status, fields) = text.split_once('\n').expect("a status and fields");
    Got {
        status: status.parse().expect("a status"),
        fields: serde_json::from_str(fields).expect("JSON"),
        body: String::from_utf8(got.stdout).expect("text"),
    }
}

/// Returns the request that curl sends.
fn request(arguments: &[&str], target: &str) -> Request {
    let mut request = Request::get(target);
    let mut words = arguments.iter();
    while let Some(&word) = words.next() {
        if word == "-I" {
            request = request.method("HEAD");
            continue;
        }
        let value = words.next().expect("a value");
        request = match (word, value.split_once(": ")) {
            ("-X", _) => request.method(value),
            ("-r", _) => request.field("Range", format!("bytes={value}")),
            ("-H", Some(("Host", host))) => request.host(host),
            ("-H", Some((name, value))) => request.field(name, value),
            _ => panic!("{arguments:?}"),
        };
    }
    request
}

/// The expected response of a target.
#[derive(Debug, PartialEq, Eq)]
enum Gives<'a> {
    /// Status and `Location`.
    To(u64, &'a str),
    /// Status and the file with the content.
    File(u64, &'a str),
    /// The built-in page.
    Nothing,
}
use Gives::{File, Nothing, To};

#[track_caller]
fn gives(server: &Server, table: &[(&str, Gives<'_>)]) {
    for (target, expected) in table {
        gives_with(server, &[], target, expected);
    }
}

#[track_caller]
fn gives_with(server: &Server, arguments: &[&str], target: &str, expected: &Gives<'_>) {
    let got = curl(server, arguments, target);
    let found = match got.field("location") {
        Some(location) => To(got.status, location),
        None if got.body.contains("<!doctype html>") && got.status == 404 => Nothing,
        None => File(got.status, &got.body),
    };
    assert_eq!(found, *expected, "{arguments:?} {target}");
}

#[test]
fn netlify_documentation() {
    let redirects = "\
# Redirects from what the browser requests to what we serve
/home              /
/blog/my-post.php  /blog/my-post # an inline comment
/news              /blog
/cuties            https://www.petsofnetlify.example
/authors/c%C3%A9line /authors/about-c%C3%A9line
/news/*            /blog/:splat
/posts/:month/:date/:year/:slug  /blog/:year/:month/:date/:slug
/articles id=:id tag=:tag /posts/:tag/:id 301
/articles id=:id          /posts/:id 301
/my-redirect       /blog  301
/go                /blog  302
/ecommerce         /store-closed 404
/best-pets/dogs    /best-pets/cats.html 200!
/docs/*            200
/*                 /index.html 200
";
    let files = [
        "index.html",
        "blog/index.html",
        "store-closed.html",
        "best-pets/dogs.html",
        "best-pets/cats.html",
        "docs/a.html",
        "style.css",
    ];
    every_way(&site(&files, &[("_redirects", redirects)]), |server| {
        gives(
            server,
            &[
                ("/home", To(301, "/")),
                ("/home/?a=b", To(301, "/?a=b")),
                ("/blog/my-post.php", To(301, "/blog/my-post")),
                ("/cuties", To(301, "https://www.petsofnetlify.example")),
                ("/authors/c%c3%a9line", To(301, "/authors/about-c%C3%A9line")),
                ("/news", To(301, "/blog")),
                ("/news/", To(301, "/blog")),
                ("/news/2024/x%20y?q=1", To(301, "/blog/2024/x%20y?q=1")),
                ("/posts/02/12/2004/my-story", To(301, "/blog/2004/02/12/my-story")),
                ("/articles?id=1&tag=cats", To(301, "/posts/cats/1?id=1&tag=cats")),
                ("/articles?tag=a+b&x&id=1", To(301, "/posts/a%20b/1?tag=a+b&x&id=1")),
                ("/articles?id=7", To(301, "/posts/7?id=7")),
                ("/articles", File(200, "index.html")),
                ("/go", To(302, "/blog")),
                ("/ecommerce", File(404, "store-closed.html")),
                ("/best-pets/dogs", File(200, "best-pets/cats.html")),
                ("/best-pets/dogs.html", File(200, "best-pets/dogs.html")),
                ("/docs/a", File(200, "docs/a.html")),
                ("/docs/b", Nothing),
                ("/style.css", File(200, "style.css")),
                ("/any/where", File(200, "index.html")),
                ("/blog", To(308, "/blog/")),
                ("/blog/", File(200, "blog/index.html")),
            ],
        );
    });
}

#[test]
fn cloudflare_documentation() {
    let redirects = "\
/home301 / 301
/home302 / 302
/querystrings /?query=string 301
/twitch https://twitch.example
/trailing /trailing-target/ 302
/notrailing/ /nottrailing 301
/page/ /page2/#fragment 301
/blog/* https://blog.my.example/:splat
/products/:code/:name /products?code=:code&name=:name
";
    every_way(&site(&["index.html"], &[("_redirects", redirects)]), |server| {
        gives(
            server,
            &[
                ("/home301", To(301, "/")),
                ("/home302", To(302, "/")),
                ("/querystrings?mine=1", To(301, "/?query=string")),
                ("/twitch", To(301, "https://twitch.example")),
                ("/trailing", To(302, "/trailing-target/")),
                ("/notrailing", To(301, "/nottrailing")),
                ("/page", To(301, "/page2/#fragment")),
                ("/page?a", To(301, "/page2/?a#fragment")),
                ("/blog/some/article", To(301, "https://blog.my.example/some/article")),
                ("/products/1234/x%26y", To(301, "/products?code=1234&name=x%26y")),
                ("/products/1234", Nothing),
            ],
        );
    });
}

#[test]
fn ipfs_gateway_conformance() {
    let redirects = "\
/redirect-one /one.html
/301-redirect-one /one.html 301
/302-redirect-two /two.html 302
/200-index /index.html 200
/posts/:year/:month/:day/:title /articles/:year/:month/:day/:title 301
/splat/* /redirected-splat/:splat 301
/not-found/* /404.html 404
/gone/* /410.html 410
/unavail/* /451.html 451
/* /404.html 404
";
    let files = [
        "index.html",
        "one.html",
        "two.html",
        "404.html",
        "410.html",
        "451.html",
        "redirected-splat/one.html",
    ];
    every_way(&site(&files, &[("_redirects", redirects)]), |server| {
        gives(
            server,
            &[
                ("/redirect-one", To(301, "/one.html")),
                ("/301-redirect-one", To(301, "/one.html")),
                ("/302-redirect-two", To(302, "/two.html")),
                ("/200-index", File(200, "index.html")),
                ("/posts/2022/01/01/hello", To(301, "/articles/2022/01/01/hello")),
                ("/splat/one.html", To(301, "/redirected-splat/one.html")),
                ("/not-found/has-no-redirects-entry", File(404, "404.html")),
                ("/gone/has-no-redirects-entry", File(410, "410.html")),
                ("/unavail/has-no-redirects-entry", File(451, "451.html")),
                ("/catch-all", File(404, "404.html")),
                ("/one", File(200, "one.html")),
            ],
        );
    });
}

#[test]
fn kawipiko_lines_and_rules_of_folders() {
    let rules = [
        (
            "_redirects.txt",
            "/old /new 301\n://example.org/x https://example.com/y 308\n/docs/* /root 302",
        ),
        (
            "docs/_redirects",
            "./a /elsewhere 307\n./old/* ./new/:splat 302\n./start ./index.html 200",
        ),
        ("docs/v1/_redirects", "./start /deepest 302"),
    ];
    every_way(&site(&["index.html", "docs/index.html", "docs/v1/index.html"], &rules), |server| {
        gives(
            server,
            &[
                ("/old", To(301, "/new")),
                ("/x", Nothing),
                ("/docs/a", To(307, "/elsewhere")),
                ("/docs/old/b/c", To(302, "/docs/new/b/c")),
                ("/docs/start", File(200, "docs/index.html")),
                ("/docs/v1/start/", To(302, "/deepest")),
                ("/docs/other", To(302, "/root")),
            ],
        );
        let there = To(308, "https://example.com/y");
        gives_with(server, &["-H", "Host: EXAMPLE.org:8080"], "/x", &there);
    });
}

#[test]
fn rules_apply_by_host_and_can_be_forced() {
    let redirects = "\
http://blog.example/* https://www.example/blog/:splat 301!
https://*.shop.example/cart /cart.html 200
/index.html /start 302!
/a /b 302!
/maintenance/* key=1 /maintenance/in.html 200!
/maintenance/* /maintenance/out.html 503!
";
    let files = [
        "index.html",
        "a.html",
        "cart.html",
        "maintenance/in.html",
        "maintenance/out.html",
        "maintenance/x.css",
    ];
    every_way(&site(&files, &[("_redirects", redirects)]), |server| {
        gives(
            server,
            &[
                ("/", File(200, "index.html")),
                ("/index.html", To(302, "/start")),
                ("/a", To(302, "/b")),
                ("/a/", To(302, "/b")),
                ("/a.html", File(200, "a.html")),
                ("/cart", File(200, "cart.html")),
                ("/maintenance/x.css?key=1", File(200, "maintenance/in.html")),
                ("/maintenance/x.css", File(503, "maintenance/out.html")),
                ("/maintenance?key=2", File(503, "maintenance/out.html")),
            ],
        );
        let blog = ["-H", "Host: Blog.Example:81"];
        gives_with(server, &blog, "/a.html?b", &To(301, "https://www.example/blog/a.html?b"));
        gives_with(server, &blog, "/", &To(301, "https://www.example/blog/"));
        // A scheme in a captured text cannot lead to another host.
        gives_with(
            server,
            &blog,
            "//evil.example",
            &To(301, "https://www.example/blog//evil.example"),
        );
    });
}

#[test]
fn a_single_page_responds_only_to_navigations() {
    let site = site(&["index.html", "app.js", "docs/index.html", "docs/404.html"], &[]);
    let flags = ["--single-page", "index.html"];
    Matrix::of(site.path()).explained().over(Protocol::is_known_to_curl, "curl").build(&flags).run(
        |server| {
            let navigates = ["-H", "Sec-Fetch-Mode: navigate"];
            gives_with(server, &navigates, "/any/route", &File(200, "index.html"));
            gives_with(server, &navigates, "/any/route.html", &File(200, "index.html"));
            gives_with(
                server,
                &["-H", "Accept: text/html,*/*;q=0.8"],
                "/any",
                &File(200, "index.html"),
            );
            gives_with(server, &navigates, "/docs/none", &File(200, "index.html"));
            gives_with(server, &navigates, "/missing.css", &Nothing);
            gives_with(server, &[], "/any/route", &Nothing);
            gives_with(server, &[], "/docs/none", &File(404, "docs/404.html"));
            gives_with(server, &["-H", "Accept: text/html", "-X", "POST"], "/any", &Nothing);
            let head = curl(server, &["-I", "-H", "Accept: text/html"], "/any");
            assert_eq!(head.status, 200);
            // RFC 9110 §12.5.5: a cache must not send it to a client that would have got a 404. The
            // response for its own path is the same for all clients.
            let names = head.fields["vary"].to_string();
            assert!(names.contains("Accept,") && names.contains("Sec-Fetch-Mode"), "{names}");
            let own = curl(server, &["-I", "-H", "Accept: text/html"], "/");
            assert!(!own.fields["vary"].to_string().contains("Sec-Fetch-Mode"), "{}", own.fields);
        },
    );
}

#[test]
fn missing_paths_get_the_nearest_404_or_200_page() {
    let files = [
        "index.html",
        "_404.html",
        "404.png",
        "200.png",
        "app/_200.html",
        "app/_404.txt",
        "app/deep/404.html",
        "all/_wildcard.txt",
    ];
    every_way(&site(&files, &[]), |server| {
        gives(
            server,
            &[
                ("/none", File(404, "_404.html")),
                ("/_404.html", File(404, "_404.html")),
                ("/_404", File(404, "_404.html")),
                ("/404.png", File(200, "404.png")),
                ("/200.png", File(200, "200.png")),
                ("/app/none", File(200, "app/_200.html")),
                ("/app/_200.html", File(200, "app/_200.html")),
                ("/app/deep/none", File(404, "app/deep/404.html")),
                ("/app/deep/404.html", File(200, "app/deep/404.html")),
                ("/all/x/y.css", File(200, "all/_wildcard.txt")),
            ],
        );
        assert!(curl(server, &[], "/app/none").field("etag").is_some(), "a page like any other");
        assert_eq!(curl(server, &[], "/none").field("cache-control"), Some("no-store"));
    });
}

#[test]
fn fields_apply_by_pattern() {
    let headers = "\
https://preview.pages.example/*
  X-Robots-Tag: noindex
/*
  X-Frame-Options: DENY
  Cache-Control: public, max-age=60
  Vary: Origin
/assets/*
  cache-control: immutable
  Access-Control-Allow-Origin: *
/assets/*.bin
  Content-Type: application/x-thing
  ! X-Frame-Options
/movies/:title
  X-Movie: You are watching \":title\"
  Set-Cookie: a=1
  Set-Cookie: b=2
";
    let text = "a text that is long enough to be worth compressing, and again: ".repeat(40);
    let rules =
        [("_headers", headers), ("_redirects", "/old /new 301"), ("text.txt", text.as_str())];
    let files = [
        "index.html",
        "assets/a.css",
        "assets/b.bin",
        "movies/up & down.html",
        "404.html",
        "dir/index.html",
    ];
    every_way(&site(&files, &rules), |server| {
        let field =
            |target: &str, name: &str| curl(server, &[], target).field(name).map(str::to_owned);
        let is = |target: &str, name: &str, value: Option<&str>| {
            assert_eq!(field(target, name).as_deref(), value, "{target} {name}");
        };
        is("/", "x-frame-options", Some("DENY"));
        is("/", "x-content-type-options", Some("nosniff"));
        is("/", "cache-control", Some("public, max-age=60"));
        is("/", "x-robots-tag", None);
        is("/text.txt", "vary", Some("Accept-Encoding, Origin"));
        is("/assets/a.css", "cache-control", Some("public, max-age=60, immutable"));
        // The file does not exist; the rule still applies to its path.
        is("/ASSETS/a.css", "access-control-allow-origin", Some("*"));
        is("/assets/b.bin", "content-type", Some("application/x-thing"));
        is("/assets/b.bin", "x-frame-options", None);
        is(
            "/movies/up%20&%20down.html",
            "x-movie",
            Some("You are watching \"up%20&%20down.html\""),
        );
        is("/movies/up%20&%20down", "x-movie", Some("You are watching \"up%20&%20down\""));
        // Responses without a URL of their own, and redirects.
        is("/none", "x-frame-options", Some("DENY"));
        is("/none", "access-control-allow-origin", None);
        // A rule for all paths does not make caches keep responses for missing ones.
        is("/none", "cache-control", Some("no-store"));
        is("/dir", "x-frame-options", Some("DENY"));
        is("/old", "cache-control", Some("public, max-age=60"));
        let cookies = curl(server, &[], "/movies/up%20&%20down").fields["set-cookie"].clone();
        assert_eq!(cookies, serde_json::json!(["a=1", "b=2"]));
        let tag = field("/", "etag").expect("a tag");
        let again = curl(server, &["-H", &format!("If-None-Match: {tag}")], "/");
        assert_eq!((again.status, again.field("x-frame-options")), (304, Some("DENY")));
    });
}

/// A browser sends OPTIONS before it sends a request to another site, and reads the fields of
/// errors too.
#[test]
fn fields_are_on_every_response_for_their_path() {
    let rules = [
        ("_redirects", "/tiles/old/* /tiles/:splat\n/tiles/start /index.html 200\n"),
        ("_headers", "/tiles/*\n  Access-Control-Allow-Origin: *\n  Cache-Control: max-age=60\n"),
    ];
    let site = site(&["index.html", "tiles/7.png", "tiles/x/index.html", "404.html"], &rules);
    every_way(&site, |server| {
        for (arguments, target, status) in [
            (&[][..], "/tiles/7.png", 200),
            (&["-H", "Range: bytes=0-1"], "/tiles/7.png", 206),
            (&["-H", "If-None-Match: *"], "/tiles/7.png", 304),
            (&["-H", "Range: bytes=999-"], "/tiles/7.png", 416),
            (&["-H", "If-Match: \"x\""], "/tiles/7.png", 412),
            (&["-X", "OPTIONS"], "/tiles/7.png", 204),
            (&["-X", "DELETE"], "/tiles/7.png", 405),
            (&[], "/tiles/none.png", 404),
            (&[], "/tiles/x", 308),
            (&[], "/tiles/old/7.png", 301),
            (&[], "/tiles/start", 200),
        ] {
            let got = curl(server, arguments, target);
            assert_eq!(got.status, status, "{arguments:?} {target}");
            let origin = got.field("access-control-allow-origin");
            assert_eq!(origin, Some("*"), "{arguments:?} {target}");
            let kept = got.field("cache-control").map(|kept| kept == "max-age=60");
            assert_eq!(kept, Some(status < 400 && status != 204), "{arguments:?} {target}");
        }
        assert_eq!(curl(server, &[], "/none").field("access-control-allow-origin"), None);
    });
}

#[test]
fn rewrites_resolve_like_requests_and_patterns_like_those_of_cloudflare() {
    let redirects = "\
/v1.30/* /v1.30.2/:splat 200
/start /docs/v2 200
/begin /about/ 200
/*.:extension/old /files/:extension/:splat
/p-:id /products/:id
/assets/:name.css /styles/:name.css
/k/kubectl_*.md /docs/:splat/
/*.txt /text/:splat 302
/shop/* https://b\u{fc}cher.example/:splat
";
    let files = ["index.html", "v1.30.2/gallery/index.html", "docs/v2/index.html", "about.html"];
    every_way(&site(&files, &[("_redirects", redirects)]), |server| {
        gives(
            server,
            &[
                ("/v1.30/gallery", File(200, "v1.30.2/gallery/index.html")),
                ("/v1.30/gallery/", File(200, "v1.30.2/gallery/index.html")),
                ("/v1.30/none", Nothing),
                ("/start", File(200, "docs/v2/index.html")),
                ("/begin", File(200, "about.html")),
                ("/a/b.c.d/old", To(301, "/files/d/a/b.c")),
                ("/p-7", To(301, "/products/7")),
                ("/assets/a.b.css?x", To(301, "/styles/a.b.css?x")),
                ("/k/kubectl_get/pods.md", To(301, "/docs/get/pods/")),
                ("/a/b.txt", To(302, "/text/a/b")),
                ("/shop/a%2Fb/c", To(301, "https://xn--bcher-kva.example/a%2Fb/c")),
            ],
        );
    });
}

/// An error is `no-store`, whatever caching its page has, so that it is not in a cache after it has
/// ended.
#[test]
fn an_error_by_a_rule_is_not_cached_like_its_page() {
    let rules = [
        ("_redirects", "/gone /410.html 410\n/gone/* /pages/:splat 404\n/same /410.html 200\n"),
        ("_headers", "/*\n X-A: b\n Expires: Thu, 01 Jan 2099 00:00:00 GMT\n"),
    ];
    let site = site(&["index.html", "410.html", "pages/a.3f2a9c1b57a0d79d.css"], &rules);
    every_way(&site, |server| {
        let got = |target: &str| {
            let got = curl(server, &[], target);
            let field = |name: &str| got.field(name).map(str::to_owned);
            let kept = (field("cache-control"), field("expires"), field("accept-ranges"));
            (got.status, kept, field("x-a"), field("content-type"))
        };
        let never = (Some("no-store".to_owned()), None, None);
        let b = || Some("b".to_owned());
        let html = || Some("text/html; charset=utf-8".to_owned());
        assert_eq!(got("/gone"), (410, never.clone(), b(), html()));
        let (status, kept, _, _) = got("/gone/a.3f2a9c1b57a0d79d.css");
        assert_eq!((status, kept), (404, never));
        // The page is requested with its own path, and with another one.
        let (status, kept, ..) = got("/410.html");
        assert_eq!((status, kept.2.as_deref()), (200, Some("bytes")));
        assert_eq!(kept.0.as_deref(), Some("max-age=0, must-revalidate"));
        assert_eq!(got("/same"), (200, kept, b(), html()));
    });
}

#[test]
fn flags_switch_conventions_off() {
    let site = site(&["index.html", "about.html", "dir/index.html", "dir/404.html"], &[]);
    let with = |flags: &[&str], case: &dyn Fn(&Server)| {
        Matrix::of(site.path()).over(Protocol::is_known_to_curl, "curl").build(flags).run(case);
    };
    with(&["--no-index"], &|server| {
        gives(server, &[("/", Nothing), ("/index", File(200, "index.html")), ("/dir", Nothing)]);
    });
    with(&["--no-clean-urls"], &|server| {
        gives(server, &[("/about", Nothing), ("/", File(200, "index.html"))]);
    });
    with(&["--no-slash-redirects"], &|server| {
        gives(
            server,
            &[("/dir", Nothing), ("/about/", Nothing), ("/dir/x", File(404, "dir/404.html"))],
        );
    });
    with(&["--no-etag", "--no-cache-control"], &|server| {
        for target in ["/", "/none", "/dir", "/dir/none"] {
            let got = curl(server, &[], target);
            assert_eq!((got.field("etag"), got.field("cache-control")), (None, None), "{target}");
        }
        let modified = curl(server, &[], "/").field("last-modified").map(str::to_owned);
        let since = format!("If-Modified-Since: {}", modified.expect("a time"));
        assert_eq!(curl(server, &["-H", &since], "/").status, 304);
        assert_eq!(curl(server, &["-H", "If-None-Match: \"x\""], "/").status, 200);
        assert_eq!(curl(server, &["-r", "0-3"], "/").status, 206);
    });
}

/// Runs `pinion build`; returns its exit code, and its stderr.
fn build(site: &Folder, flags: &[&str]) -> (Option<i32>, String, String) {
    let out = Folder::new("rules-out");
    let mut command = Command::new(pinion());
    command.arg("build").arg(site.path()).arg("-o").arg(out.join("a.pinion")).args(flags);
    let done = output(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn every_wrong_rule_is_an_error_with_its_position() {
    let rules = [
        ("_redirects", "/a\n/b /c 301\n/d /e 999\n"),
        ("docs/_redirects", "/x /y\n"),
        ("_headers", "/a\n  ETag: \"x\"\n"),
    ];
    let (code, _, errors) = build(&site(&["index.html", "docs/a.html"], &rules), &[]);
    assert_eq!(code, Some(2), "{errors}");
    for place in
        ["_redirects:1:3: expected", "_redirects:3:7:", "docs/_redirects:1:1:", "_headers:2:3:"]
    {
        assert!(errors.contains(place), "{place} in {errors}");
    }
    assert!(errors.contains("4 errors in rules files"), "{errors}");
    for rule in ["/a /a 301", "/a /a/ 301", "http://h.example/* https://h.example/:splat 301!"] {
        let (code, _, errors) = build(&site(&["index.html"], &[("_redirects", rule)]), &[]);
        let place = "expected another target: this one leads back";
        assert!(code == Some(2) && errors.contains(place), "{rule}: {errors}");
        let reason = match rule {
            "/a /a/ 301" => "a trailing slash makes no difference in a rule: remove the line",
            "/a /a 301" => "remove the line, or correct the target",
            _ => "rules apply to http and https alike: remove the line",
        };
        assert!(errors.contains(reason), "{rule}: {errors}");
    }
    let (code, _, errors) = build(&site(&["index.html"], &[]), &["--single-page", "app.html"]);
    let place = "--single-page: the site has no file \"app.html\"";
    assert!(code == Some(2) && errors.contains(place), "{errors}");
}

#[test]
fn unreachable_rules_are_warnings_and_rules_are_counted() {
    let rules = [
        (
            "_redirects",
            "/*.:extension /e\n/assets/:name.css /c\n/*.txt /t\n/k/kubectl_*.md /k\n\
             /* /index.html 200\n/a /b\n",
        ),
        ("docs/_redirects", "./ /x\n./none ./nothing.html 200\n"),
        ("_headers", "/*\n  X: y\n/b\n"),
        ("docs/_headers", "/*\n  X: y\n"),
    ];
    let (code, report, warned) =
        build(&site(&["index.html", "docs/index.html"], &rules), &["--json"]);
    assert_eq!(code, Some(0), "{warned}");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let expected = serde_json::json!({"redirects": 8, "walked": 3, "headers": 1});
    assert_eq!(report["rules"], expected, "{report}");
    let warnings = report["warnings"].to_string();
    for warning in [
        "_redirects:2:1: never applies: line 1 matches all its requests first",
        "_redirects:3:1: never applies: line 1 matches all its requests first",
        "_redirects:4:1: never applies: line 1 matches all its requests first",
        "_redirects:6:1: never applies: line 5 matches all its requests first",
        "docs/_redirects:1:1: never applies: the site has a file at this path",
        "docs/_redirects:2:8: the target is not in the site",
        "_headers:3:1: has no headers",
        "docs/_headers: not read",
    ] {
        assert!(warnings.contains(warning), "{warning} in {warnings}");
    }
    assert_eq!(report["special"], serde_json::json!([]), "{report}");
}

#[test]
fn a_served_folder_reloads_changed_rules() {
    let site = site(&["index.html"], &[("_redirects", "/a /b 301\n")]);
    let server = Start::site(site.path()).flags(&["--watch"]).start();
    assert_eq!(curl(&server, &[], "/a").field("location"), Some("/b"));
    let becomes = |condition: &str, target: &str, is: &dyn Fn(&Got) -> bool| {
        wait_for(condition, || is(&curl(&server, &[], target)).then_some(()));
    };
    site.write("_redirects", "/a /c 301\n");
    becomes("the new target", "/a", &|got| got.field("location") == Some("/c"));
    site.write("_headers", "/*\n  X-A: b\n");
    becomes("the new field", "/", &|got| got.field("x-a") == Some("b"));
    // Wrong rules change nothing, and are reported.
    site.write("_redirects", "/a\n");
    wait_for("the place of the error", || {
        server.lines().iter().any(|line| line.contains("_redirects:1:3: expected")).then_some(())
    });
    assert_eq!(curl(&server, &[], "/a").field("location"), Some("/c"));
}

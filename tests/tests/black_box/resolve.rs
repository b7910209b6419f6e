//! Tests which file is served at a URL (docs/resolution.md). Every file of the sites
//! here contains its own name, so the body of a response shows which file was served.

use pinion_tests::matrix::explained_ways;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Returns a site in which the content of every file is its own path.
fn site(files: &[&str]) -> Folder {
    Folder::with("resolve", files.iter().map(|path| (*path, *path)))
}

/// Requests each target and compares the file in the response, and its `Content-Location`.
#[track_caller]
fn responses(server: &Server, expected: &[(&str, &str, Option<&str>)]) {
    let mut connection = server.client();
    for &(target, file, location) in expected {
        let response = connection.exchange(&Request::get(target));
        assert_eq!((response.status, response.text()), (200, file), "GET {target}: {response}");
        assert_eq!(response.field("Content-Location"), location, "GET {target}: {response}");
    }
}

#[track_caller]
fn has_status(server: &Server, status: u16, targets: &[&str]) {
    for target in targets {
        let response = server.get(target);
        assert_eq!(response.status, status, "GET {target}: {response}");
    }
}

#[track_caller]
fn redirects(server: &Server, expected: &[(&str, &str)]) {
    let mut connection = server.client();
    for &(target, location) in expected {
        let response = connection.exchange(&Request::get(target));
        assert_eq!(response.status, 308, "GET {target}: {response}");
        assert_eq!(response.field("Location"), Some(location), "GET {target}");
        assert_eq!(response.field("Content-Length"), Some("0"), "GET {target}");
    }
}

#[test]
fn the_order_is_exact_file_then_index_then_clean_url() {
    let files = [
        "index.html",
        "about.html",
        "a",
        "a.html",
        "b.txt",
        "b.xht",
        "b.xhtml",
        "b.htm",
        "c.txt",
        "c.xht",
        "docs/index.html",
        "docs/index.txt",
        "data/index.json",
        "news/_index.html",
        "news/index.html",
        "style.css",
    ];
    explained_ways(&site(&files), |server| {
        responses(
            server,
            &[
                ("/", "index.html", Some("/index.html")),
                ("/index.html", "index.html", None),
                ("/index", "index.html", Some("/index.html")),
                ("/about.html", "about.html", None),
                ("/about", "about.html", Some("/about.html")),
                ("/about?a=b&c", "about.html", Some("/about.html")),
                ("/a", "a", None),
                ("/a.html", "a.html", None),
                ("/b", "b.htm", Some("/b.htm")),
                ("/c", "c.xht", Some("/c.xht")),
                ("/docs/", "docs/index.html", Some("/docs/index.html")),
                ("/docs/index.txt", "docs/index.txt", None),
                ("/data/", "data/index.json", Some("/data/index.json")),
                ("/news/", "news/_index.html", Some("/news/_index.html")),
                ("/style.css", "style.css", None),
            ],
        );
        // The archive has them at keys that no request can name.
        has_status(server, 400, &["file:/_headers"]);
        has_status(server, 404, &["/file:/_headers", "//file:/_headers"]);
        has_status(
            server,
            404,
            &["/style", "/About", "/about.HTML", "/data/index", "/docs/style.css"],
        );
    });
}

#[test]
fn the_other_slash_form_gets_308_with_its_query() {
    // RFC 9110 §15.4.9: 308 keeps the method, and the target is a URI reference.
    let site = site(&["index.html", "docs/index.html", "about.html", "ü/index.html", "x.css"]);
    explained_ways(&site, |server| {
        redirects(
            server,
            &[
                ("/docs", "/docs/"),
                ("/docs?", "/docs/?"),
                ("/docs?a=b/c?d", "/docs/?a=b/c?d"),
                ("/about/", "/about"),
                ("/about/?q", "/about?q"),
                ("/about.html/", "/about.html"),
                ("/x.css/?v=1", "/x.css?v=1"),
                ("/%C3%BC", "/%C3%BC/"),
                ("/docs/../docs", "/docs/"),
            ],
        );
        let response = server.exchange(&Request::new("POST", "/docs?a").body(b"x"));
        assert_eq!((response.status, response.field("Location")), (308, Some("/docs/?a")));
    });
}

#[test]
fn a_redirect_never_leads_to_another_host() {
    // RFC 3986 §4.2: a reference that begins with two slashes names an authority.
    explained_ways(&site(&["index.html", "evil.example/index.html"]), |server| {
        has_status(server, 404, &["//evil.example", "//evil.example/", "/%2Fevil.example"]);
        redirects(server, &[("/.//../evil.example", "/evil.example/")]);
    });
}

#[test]
fn the_nearest_404_page_is_sent_with_status_404() {
    let files = ["index.html", "404.html", "docs/index.html", "docs/404.html", "docs/a/b.html"];
    explained_ways(&site(&files), |server| {
        for (target, page) in [
            ("/nothing", "404.html"),
            ("/nothing/at/all", "404.html"),
            ("/docsnot/x", "404.html"),
            ("/docs/nothing", "docs/404.html"),
            ("/docs/a/nothing", "docs/404.html"),
            ("/docs/a/b/c?d", "docs/404.html"),
        ] {
            let response = server.get(target);
            assert_eq!((response.status, response.text()), (404, page), "GET {target}");
            assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
            // RFC 9110 §13.2.1, §14.2: preconditions and ranges only apply to responses that would
            // be 2xx.
            let request =
                Request::get(target).field("If-None-Match", "*").field("Range", "bytes=0-1");
            let conditional = server.exchange(&request);
            assert_eq!((conditional.status, conditional.text()), (404, page), "GET {target}");
        }
        responses(
            server,
            &[
                ("/404.html", "404.html", None),
                ("/docs/404", "docs/404.html", Some("/docs/404.html")),
            ],
        );
    });
}

#[test]
fn the_built_in_not_found_page_is_html_or_text_as_the_client_prefers() {
    explained_ways(&site(&["index.html"]), |server| {
        for (accept, content_type) in [
            ("*/*", "text/html; charset=utf-8"),
            ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"),
            ("text/plain", "text/plain; charset=utf-8"),
            ("text/html;q=0.5, text/plain", "text/plain; charset=utf-8"),
        ] {
            let response = server.exchange(&Request::get("/nothing").field("Accept", accept));
            assert_eq!(response.status, 404);
            assert_eq!(response.field("Content-Type"), Some(content_type), "Accept: {accept}");
            assert!(response.text().contains("404"), "{}", response.text());
        }
    });
}

#[test]
fn an_encoded_slash_or_nul_never_matches() {
    explained_ways(&site(&["index.html", "docs/index.html", "a.txt"]), |server| {
        has_status(server, 404, &["/docs%2Findex.html", "/docs%2f", "/%2F", "/a.txt%00", "/%00"]);
    });
    explained_ways(&site(&["404.html", "docs/404.html"]), |server| {
        for (target, page) in [("/x%2F", "404.html"), ("/docs/x%00", "docs/404.html")] {
            let response = server.get(target);
            assert_eq!((response.status, response.text()), (404, page), "GET {target}");
        }
    });
}

#[test]
fn characters_that_browsers_do_not_escape_are_accepted() {
    explained_ways(&site(&["index.html", "a|b^c", "docs/index.html"]), |server| {
        responses(
            server,
            &[
                ("/?q={a}|b^`\\", "index.html", Some("/index.html")),
                ("/a|b^c?{", "a|b^c", None),
                ("/a%7Cb%5Ec", "a|b^c", None),
            ],
        );
        redirects(server, &[("/docs?q={a}|b", "/docs/?q=%7Ba%7D%7Cb")]);
        has_status(server, 400, &["/{a}", "/a\\b", "/?\"", "/?<", "/?a#b"]);
    });
}

#[test]
fn dot_segments_are_removed_once_and_never_lead_above_the_root() {
    // RFC 3986 §5.2.4; the percent-encoded dot is the same dot (§6.2.2.2).
    explained_ways(
        &site(&["index.html", "about.html", "docs/index.html", "docs/x..y"]),
        |server| {
            responses(
                server,
                &[
                    ("/docs/../about", "about.html", Some("/about.html")),
                    ("/docs/%2e%2E/about", "about.html", Some("/about.html")),
                    ("/./docs/./index.html", "docs/index.html", None),
                    ("/docs/.", "docs/index.html", Some("/docs/index.html")),
                    ("/docs/none/..", "docs/index.html", Some("/docs/index.html")),
                    ("/docs/x..y", "docs/x..y", None),
                ],
            );
            has_status(
                server,
                400,
                &[
                    "/..",
                    "/../about",
                    "/%2e%2e/about",
                    "/docs/../../about",
                    "/.%2E/.%2e/etc/passwd",
                ],
            );
            // The path is decoded once, and the result matches no file.
            has_status(server, 404, &["/%252e%252e/about", "/.../about"]);
        },
    );
}

#[test]
fn empty_segments_stay() {
    explained_ways(&site(&["index.html", "about.html", "docs/index.html"]), |server| {
        has_status(server, 404, &["//", "//about", "/docs//", "/docs//index.html", "/about//"]);
    });
}

#[test]
fn names_of_any_bytes_are_found_by_their_escapes() {
    let folder = site(&[
        "grüße.html",
        "a b.txt",
        "a+b.txt",
        "100%.txt",
        "who?.txt",
        "x;y=z,&'()!$*@:~.txt",
        "[1].txt",
    ]);
    folder.write(OsStr::from_bytes(b"caf\xe9.txt"), "caf\\xe9.txt");
    explained_ways(&folder, |server| {
        responses(
            server,
            &[
                ("/gr%C3%BC%C3%9Fe.html", "grüße.html", None),
                ("/gr%c3%bc%c3%9fe", "grüße.html", Some("/gr%C3%BC%C3%9Fe.html")),
                ("/a%20b.txt", "a b.txt", None),
                ("/a+b.txt", "a+b.txt", None),
                ("/100%25", "100%.txt", Some("/100%25.txt")),
                ("/who%3F", "who?.txt", Some("/who%3F.txt")),
                ("/x;y=z,&'()!$*@:~.txt", "x;y=z,&'()!$*@:~.txt", None),
                ("/%78;y=z,&'()!$*@:~", "x;y=z,&'()!$*@:~.txt", Some("/x;y=z,&'()!$*@:~.txt")),
                ("/[1].txt", "[1].txt", None),
                ("/caf%E9", "caf\\xe9.txt", Some("/caf%E9.txt")),
            ],
        );
        has_status(server, 404, &["/caf%C3%A9.txt", "/gr%25C3%25BC%25C3%259Fe.html"]);
        has_status(server, 400, &["/%", "/%4", "/%zz", "/about%2", "/%%20"]);
    });
}

#[test]
fn equal_bytes_keep_the_fields_of_their_own_name() {
    let text = "the same text in each of them, and a bit of it: ".repeat(40);
    let names = ["same.txt", "same.css", "same.html", "same.bin", "404.html", "docs/same.js"];
    let folder = Folder::with("same", names.iter().map(|name| (*name, text.as_str())));
    explained_ways(&folder, |server| {
        let mut seen: Vec<Response> = Vec::new();
        for (target, status, content_type) in [
            ("/same.txt", 200, "text/plain; charset=utf-8"),
            ("/same.css", 200, "text/css; charset=utf-8"),
            ("/same.html", 200, "text/html; charset=utf-8"),
            ("/docs/same.js", 200, "text/javascript; charset=utf-8"),
            ("/nothing", 404, "text/html; charset=utf-8"),
        ] {
            let response = server.get(target);
            assert_eq!((response.status, response.text()), (status, text.as_str()), "{target}");
            assert_eq!(response.field("Content-Type"), Some(content_type), "{target}");
            let tag = response.field("ETag");
            assert!(!seen.iter().any(|other| tag.is_some() && other.field("ETag") == tag));
            seen.push(response);
        }
    });
}

#[test]
fn files_named_like_a_status_are_ordinary_files() {
    explained_ways(
        &site(&["200.png", "404.png", "500.html", "404.txt", "404/index.html"]),
        |server| {
            responses(
                server,
                &[
                    ("/200.png", "200.png", None),
                    ("/404.png", "404.png", None),
                    ("/500", "500.html", Some("/500.html")),
                    ("/404", "404.txt", Some("/404.txt")),
                    ("/404/", "404/index.html", Some("/404/index.html")),
                ],
            );
            assert_eq!(server.get("/200.png").field("Content-Type"), Some("image/png"));
            assert!(server.get("/nothing").text().contains("<!doctype html>"), "the built-in page");
        },
    );
}

#[test]
fn well_known_is_served_and_other_hidden_names_are_not() {
    // RFC 8615 §3.
    let files = [".well-known/security.txt", ".well-known/.x", ".env", ".git/config", "index.html"];
    explained_ways(&site(&files), |server| {
        responses(server, &[("/.well-known/security.txt", files[0], None)]);
        has_status(server, 404, &["/.env", "/.git/config", "/.git/", "/.well-known/.x"]);
    });
}

#[test]
fn private_files_are_never_served() {
    let files = [
        "index.html",
        "app.lua",
        "APP.LUA",
        "page.dyn.html",
        "keys.priv.txt",
        "x.Priv.pem",
        "_redirects",
        "_headers",
        "pinion.toml",
        "sub/_redirects",
        "sub/app.lua",
        "lib.priv.d/a.txt",
    ];
    let site = site(&files);
    for rules in ["_redirects", "_headers", "sub/_redirects"] {
        site.write(rules, "# rules, none of them");
    }
    for module in ["app.lua", "sub/app.lua"] {
        site.write(module, "-- nothing");
    }
    explained_ways(&site, |server| {
        for file in &files[1..] {
            has_status(server, 404, &[&format!("/{file}")]);
        }
        has_status(
            server,
            404,
            &["/page.dyn", "/keys.priv", "/app", "/%61pp.lua", "/pinion", "/app.lua/"],
        );
    });
}

#[test]
fn a_request_for_the_icon_gets_the_icon_of_the_site() {
    explained_ways(&site(&["favicon.svg", "favicon.png", "a/favicon.svg"]), |server| {
        responses(server, &[("/favicon.ico", "favicon.svg", Some("/favicon.svg"))]);
        let icon = server.get("/favicon.ico");
        assert_eq!(icon.field("Content-Type"), Some("image/svg+xml"));
        has_status(server, 404, &["/a/favicon.ico"]);
    });
    explained_ways(&site(&["favicon.ico", "favicon.svg"]), |server| {
        responses(server, &[("/favicon.ico", "favicon.ico", None)]);
    });
    explained_ways(&site(&["index.html"]), |server| has_status(server, 404, &["/favicon.ico"]));
}

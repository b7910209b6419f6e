//! Pages of a site in place of the built-in ones: `_400.html` and similar files at the root.

use pinion_tests::matrix::{Matrix, explained_ways};
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use std::fs;

/// Returns a site whose error pages contain their own names.
fn site() -> Folder {
    let names = [
        "index.html",
        "_400.html",
        "_405.txt",
        "_408.html",
        "_412.html",
        "_414.html",
        "_416.html",
        "_431.html",
        "_500.html",
        "_501.html",
        "_505.html",
        "a/_405.html",
        "500.html",
    ];
    Folder::with("error-pages", names.map(|name| (name, name)))
}

#[track_caller]
fn is_page(response: &Response, status: u16, page: &str) {
    assert_eq!((response.status, response.text()), (status, page), "{response}");
    assert_eq!(response.field("Cache-Control"), Some("no-store"), "{response}");
    assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{response}");
    let media_type = if page.ends_with(".txt") { "text/plain" } else { "text/html" };
    let media_type = format!("{media_type}; charset=utf-8");
    assert_eq!(response.field("Content-Type"), Some(&*media_type), "{response}");
    for name in ["ETag", "Last-Modified", "Accept-Ranges", "Content-Location", "Vary"] {
        assert_eq!(response.field(name), None, "{response}");
    }
}

#[test]
fn every_error_response_has_the_page_of_its_status() {
    explained_ways(&site(), |server| {
        let asked = |request: Request| server.exchange(&request);
        let refused = asked(Request::new("POST", "/index.html").body(b"x"));
        is_page(&refused, 405, "_405.txt");
        assert_eq!(refused.field("Allow"), Some("GET, HEAD, OPTIONS"));
        is_page(&asked(Request::new("BREW", "/index.html")), 501, "_501.html");
        is_page(&asked(Request::get("/../x")), 400, "_400.html");
        let range = asked(Request::get("/index.html").field("Range", "bytes=99-"));
        is_page(&range, 416, "_416.html");
        assert_eq!(range.field("Content-Range"), Some("bytes */10"));
        is_page(&asked(Request::get("/index.html").field("If-Match", "\"x\"")), 412, "_412.html");
        // The site has one page for the status, whatever type the client prefers.
        let text = Request::new("PUT", "/index.html").field("Accept", "text/html");
        is_page(&asked(text), 405, "_405.txt");
    });
}

/// A request that cannot be parsed has no host and no path, but gets the page.
#[test]
fn malformed_heads_get_the_error_page_and_end_the_connection() {
    Matrix::of(site().path()).http1_only("heads that cannot be read as HTTP/1").run(|server| {
        let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000));
        let fields = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(101));
        for (request, status, page) in [
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "_400.html"),
            ("GET / HTTP/1.1\r\nHost: a\r\n X: y\r\n\r\n", 400, "_400.html"),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "_505.html"),
            (&long, 414, "_414.html"),
            (&fields, 431, "_431.html"),
        ] {
            let mut connection = server.connect();
            connection.send(request);
            let response = connection.receive();
            is_page(&response, status, page);
            assert!(response.says_close(), "{response}");
            connection.expect_close();
        }
    });
}

#[test]
fn head_has_the_length_and_no_content() {
    explained_ways(&site(), |server| {
        let head = server.exchange(&Request::head("/index.html").field("If-Match", "\"x\""));
        assert_eq!((head.status, head.field("Content-Length")), (412, Some("9")), "{head}");
    });
}

#[test]
fn error_pages_at_the_root_have_no_path_of_their_own() {
    explained_ways(&site(), |server| {
        for target in ["/_400.html", "/_400", "/_405.txt", "/_500.html"] {
            assert_eq!(server.get(target).status, 404, "{target}");
        }
        assert_eq!(server.get("/a/_405.html").text(), "a/_405.html");
        assert_eq!(server.get("/500").text(), "500.html");
        // The site has no page for missing paths, so the built-in one is sent.
        assert!(server.get("/nothing").text().contains("404 Not Found"));
    });
}

#[test]
fn error_pages_have_the_fields_for_the_whole_site() {
    let site = site();
    site.write("_headers", "/*\n  X-Site: yes\n  Cache-Control: public\n");
    Matrix::of(site.path()).run(|server| {
        let response = server.exchange(&Request::new("POST", "/index.html"));
        is_page(&response, 405, "_405.txt");
        assert_eq!(response.field("X-Site"), Some("yes"));
    });
}

/// Error pages are kept in memory, independent of the file.
#[test]
fn a_damaged_error_page_is_replaced_by_the_built_in_one() {
    let folder = Folder::new("damaged-error-pages");
    let archive = folder.join("site.pinion");
    build(site().path(), &archive, &[]);
    let whole = fs::read(&archive).expect("an archive");
    let place = |text: &[u8]| whole.windows(text.len()).position(|window| window == text);
    let mut damaged = whole.clone();
    damaged[place(b"_405.txt").expect("a body")] ^= 1;
    fs::write(&archive, &damaged).expect("written");
    let server = Start::site(&archive).start();
    let refused = |server: &Server| server.exchange(&Request::new("POST", "/index.html"));
    assert_eq!(refused(&server).status, 405);
    assert!(refused(&server).text().contains("405 Method Not Allowed"));
    is_page(&server.exchange(&Request::new("BREW", "/index.html")), 501, "_501.html");
    server.stop();
    fs::write(&archive, &whole).expect("written");
    let server = Start::site(&archive).start();
    is_page(&refused(&server), 405, "_405.txt");
    let file = fs::OpenOptions::new().write(true).open(&archive).expect("there");
    file.set_len(4096).expect("shorter");
    is_page(&server.get("/index.html"), 500, "_500.html");
    server.wait_for_line(0, |line| line.contains("truncated"));
    server.stop();
}

#[test]
fn unused_error_pages_are_reported() {
    let site = site();
    site.write("_500.txt", "second");
    site.write("_418.html", "unknown");
    site.write("_429.html", "x".repeat(33 * 1024));
    let folder = Folder::new("told-error-pages");
    let archive = folder.join("site.pinion");
    let built = run(&["build".as_ref(), site.path().as_os_str(), "-o".as_ref(), archive.as_ref()]);
    for line in [
        "_500.txt: not used: _500.html is the page for the same errors",
        "_418.html: not used: the server sends no response with this status",
        "_429.html: not used: a page for errors may have at most 32 KiB",
    ] {
        assert!(built.stderr.contains(line), "{line}: {}", built.stderr);
    }
    let (listed, out) = (folder.join("again.pinion"), folder.join("out"));
    let ls = run(&["ls".as_ref(), archive.as_os_str()]).stdout;
    assert_eq!(ls.matches("errors with this status").count(), 11, "{ls}");
    run(&["extract".as_ref(), archive.as_os_str(), "-o".as_ref(), out.as_ref()]);
    build(&out, &listed, &[]);
    let diff = run(&["diff".as_ref(), archive.as_os_str(), listed.as_ref()]).stdout;
    // The archive also contains unused bodies, which do not come back.
    assert!(diff.contains("0 added, 0 removed, 0 changed"), "{diff}");
}

//! Dynamic sites: a folder with code in it, and the archive of it, give the same responses; the
//! code is never sent to a client; and a change with an error in it has no effect.

use pinion_tests::matrix::Matrix;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{PATIENCE, wait_for};
use serde_json::Value;
use std::path::Path;

const MAIN: &str = "-- SOURCE\npinion.get(\"/hello\", function() return \"hello\" end)\n";

/// Everything in [`files`] that is never published, by the path a client might try.
const CODE: [&str; 7] = [
    "/main.lua",
    "//main.lua",
    "/lib/db.lua",
    "/main.lua.bak",
    "/about.dyn.html",
    "/a.priv.html",
    "/i.old/x.html",
];

/// Creates a dynamic site with its content below `content`.
fn files(content: &str) -> Folder {
    let folder = Folder::with("dynamic", [("main.lua", MAIN), ("lib/db.lua", "-- SOURCE")]);
    for (name, text) in [
        ("about.dyn.html", "<p>SOURCE<?include foot.html ?>"),
        ("a.priv.html", "SOURCE"),
        ("foot.html", "the foot"),
        ("i.old/x.html", "SOURCE"),
        ("main.lua.bak", "SOURCE"),
        ("page.html", "a page"),
        ("_redirects", "/steal /main.lua 200\n/steals/* /:splat 200\n"),
    ] {
        folder.write(Path::new(content).join(name), text);
    }
    folder
}

#[track_caller]
fn is_served(server: &Server) {
    let hello = server.get("/hello");
    assert_eq!((hello.status, hello.body.as_slice()), (200, &b"hello"[..]));
    assert_eq!(server.get("/page").body, b"a page");
    assert_eq!(server.get("/foot.html").body, b"the foot", "published, although it is included");
    let led = CODE.map(|path| format!("/steals{path}"));
    let more = ["/main", "/about.dyn", "/a.priv", "/steal", "/public_html/page.html", "/lib/"];
    for path in CODE.iter().copied().chain(led.iter().map(String::as_str)).chain(more) {
        for accepted in ["identity", "gzip, br, zstd"] {
            let request = Request::get(path).field("Accept-Encoding", accepted);
            let response = server.exchange(&request);
            assert_eq!(response.status, 404, "{path}");
            assert!(!response.body.escape_ascii().to_string().contains("SOURCE"), "{path}");
        }
    }
    let list = server.exchange(&Request::get("/").field("Accept", "application/json"));
    let text = String::from_utf8(list.body).expect("JSON");
    assert!(text.contains("page.html"), "{text}");
    for hidden in ["lua", "dyn", "priv", "i.old", "lib", "public_html"] {
        assert!(!text.contains(hidden), "{text}");
    }
}

#[test]
fn a_folder_with_a_main_script_is_served() {
    let site = files("");
    Matrix::of(site.path()).build(&["--listing"]).run(is_served);
}

#[test]
fn a_folder_with_a_content_folder_is_served() {
    let site = files("public_html");
    Matrix::of(site.path()).build(&["--listing"]).run(is_served);
}

#[test]
fn unknown_paths_get_the_404_page_of_the_site() {
    let site = files("public_html");
    let small = "<p>nothing here</p>";
    // The file is as large as files that are sent from a file descriptor.
    let large = "what is not here is somewhere else\n".repeat(1 << 14);
    site.write("public_html/404.html", small);
    site.write("public_html/docs/404.html", &large);
    site.write("public_html/gone.html", "gone");
    site.write("public_html/_redirects", "/old/* /gone.html 404\n");
    Matrix::of(site.path()).run(|server| {
        for (path, page) in [("/none", small), ("/docs/none", &*large), ("/old/x", "gone")] {
            let response = server.get(path);
            assert_eq!((response.status, response.text()), (404, page), "{path}");
            let head = server.exchange(&Request::new("HEAD", path));
            let bytes = page.len().to_string();
            assert_eq!((head.status, head.body.len()), (404, 0), "{path}");
            assert_eq!(head.field("Content-Length"), Some(&*bytes), "{path}");
            let packed = server.exchange(&Request::get(path).field("Accept-Encoding", "gzip"));
            assert_eq!(packed.status, 404, "{path}");
            assert_eq!(server.exchange(&Request::new("OPTIONS", path)).status, 404, "{path}");
        }
        assert_eq!(server.get("/hello").body, b"hello");
    });
}

/// One route for each way in which a script may respond.
const RESPONSES: &str = r#"
local function slow() pinion.sleep(0.01) end
pinion.get("/api/text", function() return "text" end)
pinion.get("/api/slept", function() slow() return "slept" end)
pinion.get("/api/stream", function(_, res) res:write("a"):flush() slow() res:write("b") end)
pinion.get("/api/moved", function(_, res) res:redirect("/api/text") end)
pinion.get("/api/file", function(_, res) return res:file("data/file.txt") end)
pinion.get("/api/own", function(_, res)
    res:field("Access-Control-Allow-Origin", "https://a.example")
    return "own"
end)
pinion.get("/api/fails", function() error("wrong") end)
pinion.get("/api/fails-late", function() slow() error("wrong") end)
pinion.get("/api/spins", function() while true do end end)
pinion.get("/api/late", { time = 0.1 }, function() pinion.sleep(60) end)
pinion.post("/api/form", function(req) return req:form().a end)
pinion.get("/other", function() return "other" end)
"#;

#[test]
fn rules_for_fields_apply_to_every_response_of_a_script_for_their_path() {
    let folder = Folder::with("script-fields", [("site/main.lua", RESPONSES)]);
    folder.write("data/file.txt", "file");
    let rules = "/api/*\n  Access-Control-Allow-Origin: *\n  Cache-Control: max-age=60\n";
    folder.write("site/public_html/_headers", rules);
    folder.write("site/public_html/api/page.dyn.html", "<p>#[[1 + 1]]</p>");
    let data = format!("data={}", folder.join("data").display());
    Matrix::of(&folder.join("site")).serve(&["--lua-folder", &data]).run(|server| {
        let form = |content: &[u8], kind: &str| {
            Request::new("POST", "/api/form").body(content).field("Content-Type", kind)
        };
        let url_encoded = "application/x-www-form-urlencoded";
        for (request, status) in [
            (Request::get("/api/text"), 200),
            (Request::head("/api/text"), 200),
            (Request::get("/api/slept"), 200),
            (Request::get("/api/stream"), 200),
            (Request::get("/api/page"), 200),
            (Request::get("/api/moved"), 303),
            (Request::get("/api/file"), 200),
            (Request::get("/api/file").field("Range", "bytes=99-"), 416),
            (Request::get("/api/fails"), 500),
            (Request::get("/api/fails-late"), 500),
            (Request::get("/api/spins"), 500),
            (Request::get("/api/late"), 503),
            (form(b"a=1", url_encoded), 200),
            (form(b"no boundary", "multipart/form-data"), 400),
            (Request::new("OPTIONS", "/api/text"), 204),
            (Request::new("DELETE", "/api/text"), 405),
            (Request::get("/api/none"), 404),
        ] {
            let response = server.exchange(&request);
            let head = request.head_bytes().escape_ascii().to_string();
            assert_eq!(response.status, status, "{head}: {response}");
            let origin = response.field("Access-Control-Allow-Origin");
            assert_eq!(origin, Some("*"), "{head}: {response}");
            // Only the script knows how long a response may be cached.
            let kept = response.field("Cache-Control");
            assert_ne!(kept, Some("max-age=60"), "{head}: {response}");
        }
        let own = server.get("/api/own");
        assert_eq!(own.field("Access-Control-Allow-Origin"), Some("https://a.example"), "{own}");
        assert_eq!(server.get("/other").field("Access-Control-Allow-Origin"), None);
    });
}

#[test]
fn an_archive_of_any_name_becomes_the_folder_again() {
    let (site, folder) = (files("public_html"), Folder::new("archives"));
    let (one, two) = (folder.join("site.pin"), folder.join("again"));
    build(site.path(), &one, &["--listing"]);
    let server = Start::site(&one).start();
    is_served(&server);
    server.stop();
    let text = |path: &Path| path.display().to_string();
    let out = folder.join("out");
    assert_eq!(run(&["verify", &text(&one)]).code, Some(0));
    let extracted = run(&["extract", &text(&one), "-o", &text(&out)]);
    assert_eq!(extracted.code, Some(0), "{}", extracted.stderr);
    assert_eq!(std::fs::read_to_string(out.join("main.lua")).expect("extracted"), MAIN);
    build(&out, &two, &["--listing"]);
    let same = run(&["diff", "--exit-code", &text(&one), &text(&two)]);
    assert_eq!(same.code, Some(0), "{}", same.stdout);
}

#[test]
fn ls_inspect_and_diff_show_code() {
    let (site, folder) = (files(""), Folder::new("looked-at"));
    let (one, two) = (folder.join("one.pinion"), folder.join("two.pinion"));
    let text = |path: &Path| path.display().to_string();
    build(site.path(), &one, &[]);
    let list = run(&["ls", &text(&one)]).stdout;
    for (kind, path) in [
        ("script", "/main.lua"),
        ("page", "/about.dyn.html"),
        ("private", "/a.priv.html"),
        ("included", "/foot.html"),
    ] {
        let is_match = |line: &&str| line.contains(kind) && line.ends_with(path);
        assert!(list.lines().any(|line| is_match(&line)), "{path}: {list}");
    }
    assert!(run(&["inspect", &text(&one)]).stdout.contains("5 files"));
    site.write("main.lua", "-- other");
    build(site.path(), &two, &[]);
    let diff = run(&["diff", &text(&one), &text(&two)]).stdout;
    assert!(diff.contains("~ code /main.lua") && !diff.contains("lib/db.lua"), "{diff}");
}

#[test]
fn a_code_error_ends_the_start_and_is_reported() {
    for (name, content, place) in [
        ("main.lua", "local x\nif x\n", "main.lua:"),
        ("main.lua", "local x = nil\nx()\n", "main.lua:2:"),
        ("about.dyn.html", "fine\n<?lu if ?>\n", "about.dyn.html:2:"),
        // No code requires the file before a request does.
        ("lib/db.lua", "local x = 1\nx = = 2\n", "lib/db.lua:2:"),
    ] {
        let site = files("");
        site.write(name, content);
        let path = site.path().display().to_string();
        let ended = run(&["serve", &path, "--listen", "127.0.0.1:0"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(place), "{}", ended.stderr);
        let checked = run(&["check", &path]);
        assert_eq!(checked.code, Some(2));
        assert!(checked.stdout.contains(place), "{}", checked.stdout);
    }
    let checked = run(&["check", &files("").path().display().to_string()]);
    assert_eq!(checked.code, Some(0), "{}", checked.stdout);
}

/// An error at the start is reported with its stack, and does not hide errors of other files.
#[test]
fn check_shows_the_stack_and_every_file_with_errors() {
    let site = files("");
    site.write("main.lua", "local function fails()\n    error('why')\nend\nfails()\n");
    site.write("lib/db.lua", "\n\nx = = 2\n");
    site.write("lib/other.lua", "\ny = = 2\n");
    let path = site.path().display().to_string();
    let checked = run(&["check", &path]);
    assert_eq!(checked.code, Some(2));
    for line in ["main.lua:2: why\n  stack traceback:\n", "/main.lua:4: in main chunk\n"] {
        assert!(checked.stdout.contains(line), "{line}: {}", checked.stdout);
    }
    for place in ["lib/db.lua:3: ", "lib/other.lua:2: "] {
        assert_eq!(checked.stdout.matches(place).count(), 1, "{}", checked.stdout);
    }
    let ended = run(&["serve", &path, "--listen", "127.0.0.1:0"]);
    let begins = format!(
        "pinion: cannot start: {path}/main.lua:2: why\npinion:   stack traceback:\npinion:   "
    );
    assert!(ended.stderr.contains(&begins), "{}", ended.stderr);
    assert!(ended.stderr.contains("main.lua:4: in main chunk"), "{}", ended.stderr);
}

/// A site with code and patterns of other servers gets warnings, because they are sent or matched
/// unchanged.
#[test]
fn tags_and_patterns_of_other_servers_cause_warnings() {
    let site = files("");
    site.write("main.lua", "pinion.get('/items/<int:id>', function() end)\n");
    site.write("about.dyn.html", "<p>\n<?= $name ?>\n<?php echo 1 ?>\n<?foo ?>");
    let path = site.path().display().to_string();
    let text = "is not a tag of Pinion and is sent as text";
    let tags = [
        format!("about.dyn.html:2: `<?=` {text}; write `#[[expression]]` for a value"),
        format!("about.dyn.html:3: `<?php` {text}; write `<?lu code ?>` for code"),
        format!("about.dyn.html:4: `<?foo` {text}; the tags are lu, lua, include"),
    ];
    let pattern =
        "main.lua:1: the pattern \"/items/<int:id>\" matches the text `<int:id>` itself; \
                   write `:id` for a parameter"
            .to_owned();
    let checked = run(&["check", &path]);
    assert_eq!(checked.code, Some(0), "{}", checked.stdout);
    for words in tags.iter().chain([&pattern]) {
        assert!(checked.stderr.contains(&**words), "{words}: {}", checked.stderr);
    }
    let server = Start::site(site.path()).start();
    for words in tags.iter().chain([&pattern]) {
        let count = server.lines().iter().filter(|line| line.contains(&**words)).count();
        assert_eq!(count, 1, "{words}: {:?}", server.lines());
    }
    server.stop();
    let archive = site.join("site.pinion");
    let built = run(&["build", &path, "-o", &archive.display().to_string()]);
    for words in tags.iter().chain([&pattern]) {
        assert_eq!(built.stderr.matches(&**words).count(), 1, "{words}: {}", built.stderr);
    }
    let document = run(&["build", &path, "--json", "-o", &archive.display().to_string()]);
    let document: Value = serde_json::from_str(&document.stdout).expect("JSON");
    let warnings: Vec<&str> = document["warnings"]
        .as_array()
        .map_or_else(Vec::new, |all| all.iter().filter_map(Value::as_str).collect());
    assert!(warnings.iter().any(|warning| warning.contains(&pattern)), "{warnings:?}");
    // Code that does not start is no error of the build: another machine may have a key.
    site.write("main.lua", "error('no key')\n");
    let built = run(&["build", &path, "-o", &archive.display().to_string()]);
    assert_eq!(built.code, Some(0), "{}", built.stderr);
}

/// This also holds if there is no code next to the content folder.
#[test]
fn messages_of_requests_name_the_file_in_the_content_folder() {
    let site = Folder::with("content-path", [("public_html/a.dyn.html", "\n#[[query.x.y]]")]);
    let server = Start::site(site.path()).start();
    assert_eq!(server.get("/a").status, 500);
    let file = site.join("public_html/a.dyn.html");
    assert!(file.is_file());
    let place = format!("{}:2: ", file.display());
    server.wait_for_line(0, |line| line.contains("GET /a: ") && line.contains(&place));
    server.stop();
}

/// A page that cannot be compiled hides no other errors. Only the line of code is known, and no
/// column.
#[test]
fn check_reports_errors_of_pages_and_scripts_together() {
    let site = files("");
    site.write("about.dyn.html", "fine\n<?lu if ?>\n");
    site.write("main.lua", "local x\nlocal y = = 2\n");
    site.write("lib/db.lua", "\n\nx = = 2\n");
    let checked = run(&["check", &site.path().display().to_string()]);
    assert_eq!(checked.code, Some(2));
    for place in ["about.dyn.html:2: ", "main.lua:2: ", "lib/db.lua:3: "] {
        assert_eq!(checked.stdout.matches(place).count(), 1, "{}", checked.stdout);
    }
    assert!(!checked.stdout.contains(":1:"), "{}", checked.stdout);
}

#[test]
fn valid_changes_are_loaded_and_invalid_ones_are_not() {
    let site = files("");
    let server = Start::site(site.path()).flags(&["--watch", "--codings", "gzip:1"]).start();
    assert_eq!(server.get("/hello").body, b"hello");
    let said = |text: &str| {
        let condition = format!("/hello says {text:?} within {PATIENCE:?}");
        let is_match = || (server.get("/hello").body == text.as_bytes()).then_some(());
        wait_for(&condition, is_match);
    };
    site.write("main.lua", MAIN.replace("return \"hello\"", "return \"two\""));
    said("two");
    for (name, mistake, place) in [
        ("lib/db.lua", "x = = 2", "lib/db.lua:1:"),
        ("main.lua", "if if if", "main.lua:1"),
        ("about.dyn.html", "<?lu if ?>", "about.dyn.html:1:"),
    ] {
        let lines = server.lines().len();
        site.write(name, mistake);
        server.wait_for_line(lines, |line| line.contains(place));
        assert_eq!(server.get("/hello").body, b"two", "the one before stays");
        assert_eq!(server.get("/page").body, b"a page");
    }
    site.write("lib/db.lua", "fine = true");
    site.write("about.dyn.html", "fine");
    site.write("main.lua", MAIN.replace("return \"hello\"", "return \"three\""));
    said("three");
    // Without code the site would be static, which requires a restart.
    let lines = server.lines().len();
    for name in ["main.lua", "about.dyn.html"] {
        std::fs::remove_file(site.join(name)).expect("removed");
    }
    server.wait_for_line(lines, |line| line.contains("restart the server"));
    assert_eq!(server.get("/hello").body, b"three", "the one before stays");
    assert_eq!(server.get("/page").body, b"a page");
    site.write("main.lua", MAIN.replace("return \"hello\"", "return \"four\""));
    said("four");
    server.stop();
}

/// The middleware of a script stays active while an editor or a deployment replaces the script.
#[test]
fn a_removed_or_empty_main_script_keeps_the_previous_version() {
    const GUARD: &str = "pinion.use(function(_, res) res:status(401) return 'no' end)";
    for beside in ["", "public_html/"] {
        let site = Folder::with("guarded", [("main.lua", GUARD)]);
        site.write(format!("{beside}page.dyn.html"), "a page");
        if !beside.is_empty() {
            // The second script, which never runs.
            site.write("public_html/main.lua", "pinion.log('inner')");
        }
        let server = Start::site(site.path()).flags(&["--watch"]).start();
        for take in [true, false] {
            let lines = server.lines().len();
            if take {
                std::fs::rename(site.join("main.lua"), site.join("away")).expect("moved");
            } else {
                site.write("main.lua", "\n");
            }
            server.wait_for_line(lines, |line| line.contains("main.lua was removed or is empty"));
            assert_eq!(server.get("/page").status, 401, "beside {beside:?}, {take}");
            let lines = server.lines().len();
            site.write("main.lua", GUARD);
            server.wait_for_line(lines, |line| line.starts_with("reloaded "));
            assert_eq!(server.get("/page").status, 401);
        }
        server.stop();
    }
}

#[test]
fn files_beside_the_content_stay_private_when_the_content_is_gone() {
    let site = files("public_html");
    site.write("conf/db.txt", "SOURCE");
    // A page without a script makes a dynamic site too.
    std::fs::remove_file(site.join("public_html/about.dyn.html")).expect("removed");
    let server = Start::site(site.path()).flags(&["--watch", "--codings", "gzip:1"]).start();
    for (from, to) in [("public_html", "away"), ("main.lua", "away.lua")] {
        let lines = server.lines().len();
        std::fs::rename(site.join(from), site.join(to)).expect("moved");
        server.wait_for_line(lines, |line| line.contains("restore it"));
        for path in ["/conf/db.txt", "/away/page.html", "/public_html/page.html"] {
            assert_eq!(server.get(path).status, 404, "{path}");
        }
        assert_eq!(server.get("/page").body, b"a page", "the one before stays");
        std::fs::rename(site.join(to), site.join(from)).expect("moved back");
        server.wait_for_line(lines, |line| line.starts_with("reloaded "));
        assert_eq!(server.get("/page").body, b"a page");
    }
    server.stop();
}

#[test]
fn an_unreadable_content_folder_is_not_treated_as_missing() {
    let folder = Folder::with("no-content", [("site/main.lua", MAIN), ("site/db.txt", "SOURCE")]);
    let site = folder.join("site");
    let (text, out) = (site.display().to_string(), folder.join("x.pinion").display().to_string());
    let fails = |flags: &[&str]| {
        let built = run(&[&["build", &text, "-o", &out][..], flags].concat());
        assert_eq!(built.code, Some(1), "{}", built.stderr);
        assert!(built.stderr.contains("public_html is excluded or cannot"), "{}", built.stderr);
    };
    std::os::unix::fs::symlink("nothing", site.join("public_html")).expect("a link");
    fails(&["--keep-going"]);
    std::fs::remove_file(site.join("public_html")).expect("removed");
    folder.write("site/public_html/a.html", "a");
    fails(&["--exclude", "public_html"]);
    let built = run(&["build", &text, "-o", &out]);
    assert_eq!(built.code, Some(0), "{}", built.stderr);
}

#[test]
fn copies_of_pages_and_scripts_are_never_sent() {
    let copies = [
        "s.dyn.html.gz",
        "s.dyn.html.zip",
        "post.wish.dyn.html.orig",
        "p.dyn.html.bak",
        "p.dyn.html-old",
        "main.lua-old",
        "main.lua_bak",
        "main.lua,v",
        "main.lua ",
        "main.luac",
        "c.dyn.LUA",
        "menu.PRIV.dyn.html",
        "I.big/x.html",
        "static/y.dyn.html",
        "static/y.lua",
    ];
    let site = files("");
    copies.iter().for_each(|name| site.write(name, "SOURCE"));
    site.write("up.DYN.html", "up");
    site.write("DELETE.z.dyn.html", "gone");
    site.write("static/a.html", "plain");
    let server = Start::site(site.path()).start();
    for name in copies {
        let short = name.replace(".dyn", "").replace(".PRIV", "").replace(".html", "");
        let long = name.replace(".dyn", "").replace(".DYN", "");
        for path in [name.to_owned(), short, long] {
            let path = format!("/{}", path.replace(' ', "%20"));
            let response = server.get(&path);
            assert_eq!(response.status, 404, "{path}");
        }
    }
    assert_eq!(server.exchange(&Request::new("POST", "/wish")).status, 404);
    assert_eq!(server.get("/up").body, b"up");
    assert_eq!(server.get("/z").status, 405);
    assert_eq!(server.get("/static/a").body, b"plain");
    let lines = server.lines().join("\n");
    assert!(lines.contains("static/y.dyn.html: left out: it is named as code"), "{lines}");
    assert!(lines.contains("p.dyn.html.bak: left out: its name"), "{lines}");
    server.stop();
}

#[test]
fn two_pages_for_the_same_requests_end_a_build() {
    let site = files("");
    site.write("about.dyn.htm", "too");
    let out = Folder::new("same");
    let out = out.join("same.pinion").display().to_string();
    let built = run(&["build", &site.path().display().to_string(), "-o", &out]);
    assert_eq!(built.code, Some(1), "{}", built.stderr);
    let [one, other] = ["about.dyn.html", "about.dyn.htm"].map(|name| site.join(name));
    let (one, other) = (one.display(), other.display());
    let message = format!("{one}: GET /about is answered by {other} already");
    assert!(built.stderr.contains(&message), "{}", built.stderr);
}

#[test]
fn a_writable_folder_must_not_be_part_of_the_site() {
    let folder = Folder::new("written");
    let main = "pinion.get('/w', function() assert(pinion.fs.write('data/e.dyn.html', 'SOURCE')) \
                return 'written' end)";
    folder.write("site/main.lua", main);
    for path in ["site/data/x", "site/.data/x", "site/i.data/x", "out/x", "site/a/b/x"] {
        folder.write(path, "x");
    }
    std::os::unix::fs::symlink("../out", folder.join("site/led")).expect("a link");
    let site = folder.join("site").display().to_string();
    for (path, flags) in [
        ("site/data", &[][..]),
        ("site/a/b", &["--exclude", "data"]),
        ("site", &[]),
        (".", &[]),
        ("out", &[]),
    ] {
        let named = format!("data={}", folder.join(path).display());
        let arguments = ["serve", &site, "-l", "127.0.0.1:0", "--lua-folder", &named];
        let ended = run(&[&arguments[..], flags].concat());
        assert_eq!(ended.code, Some(2), "{path}: {}", ended.stderr);
        assert!(ended.stderr.contains("beside the site"), "{path}: {}", ended.stderr);
    }
    for (path, excluded) in [("site/data", "data"), ("site/.data", "x"), ("site/i.data", "x")] {
        let named = format!("data={}", folder.join(path).display());
        let flags = ["--watch", "--lua-folder", &named, "--exclude", excluded];
        let server = Start::site(&folder.join("site")).flags(&flags).start();
        assert_eq!(server.get("/w").body, b"written");
        server.stop();
        let flags = ["--lua-folder", &named, "--exclude", excluded];
        let server = Start::site(&folder.join("site")).flags(&flags).start();
        for page in ["/data/e", "/.data/e", "/i.data/e", "/data/e.dyn.html"] {
            assert_eq!(server.get(page).status, 404, "{page}");
        }
        server.stop();
        std::fs::remove_file(folder.join(path).join("e.dyn.html")).expect("it was written");
    }
}

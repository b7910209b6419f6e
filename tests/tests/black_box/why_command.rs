//! `pinion why`: its explanation agrees with the responses of a server (most cases are in the
//! modules about the responses themselves, see `Matrix::explained`), and names the sources of a
//! response.

use pinion_tests::binary::{pinion, source_root};
use pinion_tests::request::Request;
use pinion_tests::server::{Ended, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::why_comparison::{Served, assert_explained};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// Runs it with text output.
fn why(source: &Path, words: &[&str]) -> Ended {
    let source = source.to_str().expect("a path in UTF-8");
    let arguments: Vec<&str> = ["why", source].into_iter().chain(words.iter().copied()).collect();
    run(&arguments)
}

/// Returns its JSON document.
#[track_caller]
fn document(source: &Path, words: &[&str]) -> Value {
    let ended = why(source, &[words, &["--json"]].concat());
    assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
    assert_eq!(ended.stderr, "", "{words:?}");
    serde_json::from_str(&ended.stdout).expect("a document")
}

/// Creates a site with rules of every kind.
fn site() -> Folder {
    let folder = Folder::new("why");
    for file in ["index.html", "about.html", "app.html", "closed.html", "docs/index.html"] {
        folder.write(format!("site/{file}"), file.repeat(200));
    }
    folder.write("site/404.html", "nothing");
    folder.write("site/tiles/_200.png", "tile");
    let redirects = "# Moved.\n\
        http://old.example.org/*  https://example.org/:splat  301!\n\
        /item id=:id   /items/:id  302\n\
        /about         /imprint\n\
        /docs/*        /handbook/:splat\n\
        /shop/*        /closed.html  410\n\
        /members/*     /app.html     200!\n\
        /old/*         /nothing.html 200\n\
        /plain         /other\n";
    folder.write("site/_redirects", redirects);
    let headers = "/*\n  X-Site: why\n  Vary: Origin\n  ! X-Frame-Options\n\
        /docs/*\n  Cache-Control: max-age=60\n  X-Docs: :splat\n\
        /app.html\n  X-App: yes\n/about\n  Content-Type: text/plain\n";
    folder.write("site/_headers", headers);
    folder
}

/// Returns the description of a server without flags for this source.
fn served(folder: &Folder, source: &Path) -> Served {
    let socket = folder.join("control/pinion.sock");
    Served { source: source.to_owned(), flags: Vec::new(), socket }
}

/// Returns the steps in words: number, name, and the line of the rule.
fn steps(report: &Value) -> Vec<String> {
    let steps = report["steps"].as_array().expect("steps");
    let shown = |step: &Value| {
        let number = step["number"].as_u64().map_or("-".to_owned(), |number| number.to_string());
        let mark = if step["responds"] == true { ">" } else { "" };
        let name = step["name"].as_str().expect("a name");
        match step["rule"]["line"].as_u64() {
            Some(line) => format!("{mark}{number} {name} :{line}"),
            None => format!("{mark}{number} {name}"),
        }
    };
    steps.iter().map(shown).collect()
}

#[test]
fn the_steps_match_the_documentation() {
    let folder = site();
    let archive = folder.join("site.pinion");
    pinion_tests::server::build(&folder.join("site"), &archive, &["--single-page", "app.html"]);
    let not_found =
        "2 file, 3 slash-form, 4 rule, 5 fallback-page, 6 single-page, >7 not-found-page";
    for (words, expected) in [
        (vec!["/about"], "1 forced-rule :2, 1 forced-rule :4, >2 file".to_owned()),
        (vec!["/about/"], "1 forced-rule :2, 1 forced-rule :4, 2 file, >3 slash-form".to_owned()),
        (
            vec!["/docs/x"],
            "1 forced-rule :2, 1 forced-rule, 2 file, 3 slash-form, >4 rule :5".to_owned(),
        ),
        (
            vec!["/plain"],
            "1 forced-rule :2, 1 forced-rule, 2 file, 3 slash-form, >4 rule :9".to_owned(),
        ),
        (vec!["/members/x"], ">1 forced-rule :7".to_owned()),
        (vec!["http://old.example.org/a"], ">1 forced-rule :2".to_owned()),
        (vec!["/none"], format!("1 forced-rule :2, 1 forced-rule, {not_found}")),
        (
            vec!["/none", "-H", "Accept: text/html"],
            "1 forced-rule :2, 1 forced-rule, 2 file, 3 slash-form, 4 rule, 5 fallback-page, \
             >6 single-page"
                .to_owned(),
        ),
        (
            vec!["/item?x"],
            format!(
                "1 forced-rule :2, 1 forced-rule, {}",
                not_found.replace("4 rule", "4 rule :3, 4 rule")
            ),
        ),
        (
            vec!["/old/x"],
            format!(
                "1 forced-rule :2, 1 forced-rule, {}",
                not_found.replace("4 rule", "4 rule :8")
            ),
        ),
        (
            vec!["/tiles/1"],
            "1 forced-rule :2, 1 forced-rule, 2 file, 3 slash-form, 4 rule, >5 fallback-page"
                .to_owned(),
        ),
        (vec!["/../x"], ">- path".to_owned()),
        (
            vec!["/about", "-X", "POST"],
            "1 forced-rule :2, 1 forced-rule :4, >2 file, >- method".to_owned(),
        ),
        (
            vec!["/about", "-H", "Range: bytes=0-1"],
            "1 forced-rule :2, 1 forced-rule :4, >2 file, >- condition".to_owned(),
        ),
    ] {
        let report = document(&archive, &words);
        assert_eq!(steps(&report).join(", "), expected, "{words:?}");
        let of_folder = [&words[..], &["--single-page", "app.html"]].concat();
        let report = document(&folder.join("site"), &of_folder);
        assert_eq!(steps(&report).join(", "), expected, "{words:?}");
    }
}

/// Problem details are no file of the site: neither their type nor their size is that of one.
#[test]
fn problem_details_are_explained_as_built_in() {
    let folder = Folder::with(
        "why-problem",
        [
            ("gone.html", &*"it is gone ".repeat(200)),
            ("_405.html", "not so"),
            ("_redirects", "/old /gone.html 410\n"),
        ],
    );
    let note = "Accept prefers JSON, so problem details take the place of the page";
    for (words, status, has_note) in [
        (&["/old"][..], 410, true),
        (&["/gone", "-X", "POST"], 405, true),
        (&["/none"], 404, false),
        (&["/gone", "-H", "If-Match: \"other\""], 412, false),
    ] {
        let json = ["-H", "Accept: application/json"];
        let report = document(folder.path(), &[words, &json].concat());
        assert_eq!(report["status"], status, "{words:?}");
        let headers = report["headers"].as_array().expect("headers");
        let found = headers.iter().find(|header| header["name"] == "Content-Type");
        let found = found.expect("a type");
        assert_eq!(
            (&found["value"], &found["source"], &found["reason"]),
            (&"application/problem+json".into(), &"built-in".into(), &"built in".into()),
            "{words:?}"
        );
        assert_eq!(report["codings"].as_array().expect("codings").len(), 0, "{words:?}");
        let notes = report["notes"].as_array().expect("notes");
        assert_eq!(notes.iter().any(|other| other == note), has_note, "{words:?}");
    }
    let report = document(folder.path(), &["/old"]);
    assert_eq!(report["notes"].as_array().expect("notes").len(), 0);
    assert_ne!(report["codings"].as_array().expect("codings").len(), 0);
}

/// Returns the value of a header, if it is present.
fn value(report: &Value, name: &Value) -> Option<String> {
    let headers = report["headers"].as_array().expect("headers");
    let found = headers.iter().find(|header| header["name"] == *name)?;
    Some(found["value"].as_str().expect("a value").to_owned())
}

#[test]
fn a_header_changes_without_the_line_that_it_comes_from() {
    let folder = site();
    let site = folder.join("site");
    let mut tried = 0;
    for url in
        ["/", "/about", "/docs/", "/docs/x", "/members/x", "/shop/x", "/none", "/%zz", "/docs"]
    {
        let report = document(&site, &[url]);
        let parts = report["headers"].as_array().expect("headers").iter();
        for part in parts.chain(report["removed"].as_array().expect("removed")) {
            let alone = std::slice::from_ref(part);
            for line in part["lines"].as_array().map_or(alone, Vec::as_slice) {
                let file = line["file"].as_str().expect("a file");
                let number = line["line"].as_u64().expect("a line") as usize;
                let whole = fs::read_to_string(file).expect("the file of the line");
                let mut lines: Vec<&str> = whole.lines().collect();
                lines[number - 1] = "";
                fs::write(file, lines.join("\n")).expect("written");
                let without = document(&site, &[url]);
                fs::write(file, &whole).expect("written");
                let name = &part["name"];
                assert_ne!(value(&report, name), value(&without, name), "{url} {part}");
                tried += 1;
            }
        }
        fs::rename(site.join("_headers"), folder.join("headers")).expect("renamed");
        let without = document(&site, &[url]);
        fs::rename(folder.join("headers"), site.join("_headers")).expect("renamed");
        let is_by_rule =
            |header: &&Value| header["source"] == "rule" && header["name"] != "Location";
        for header in report["headers"].as_array().expect("headers") {
            let name = &header["name"];
            // An entity tag depends on the type, too.
            let differs = *name == "Date" || *name == "ETag";
            let is_same = differs || value(&report, name) == value(&without, name);
            assert_eq!(is_same, !is_by_rule(&header), "{url} {header}");
        }
    }
    assert!(tried > 30, "{tried}");
}

#[test]
fn lines_of_files_named_by_flags_have_their_file_and_number() {
    let folder = site();
    folder.write("more-rules", "# more\n/more/* /about\n");
    folder.write("even-more", "/even /about 302\n");
    folder.write("more-headers", "/more/*\n  X-More: yes\n");
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let (rules, even, headers) = (path("more-rules"), path("even-more"), path("more-headers"));
    let flags = ["--rules", &rules, "--rules", &even, "--fields", &headers];
    let report = document(&folder.join("site"), &[&["/more/x"][..], &flags].concat());
    let last = report["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
    let text = "/more/* /about";
    assert_eq!(last["rule"], serde_json::json!({"file": rules, "line": 2, "text": text}));
    let headers_shown = report["headers"].as_array().expect("headers");
    let more = headers_shown.iter().find(|header| header["name"] == "X-More").expect("X-More");
    assert_eq!(more["lines"], serde_json::json!([{"file": headers, "line": 2}]));
    let report = document(&folder.join("site"), &[&["/even"][..], &flags].concat());
    let last = report["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
    assert_eq!((&last["rule"]["file"], &last["rule"]["line"]), (&Value::from(even), &1.into()));
}

#[test]
fn the_host_selects_the_site_of_a_configuration() {
    let folder = site();
    folder.write("other/index.html", "other");
    folder.write(
        "pinion.toml",
        "[server]\nserver-name = \"Why/1\"\nhealth = \"/health\"\n\n\
         [[site]]\nhosts = [\"a.example\", \"*.a.example\"]\npath = \"site\"\n\n\
         [[site]]\nhosts = [\"www.a.example\"]\npath = \"other\"\n\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n",
    );
    let source = folder.join("pinion.toml");
    let served = served(&folder, &source);
    let server = Start::configured(&source).flags(&served.control_flags()).start();
    for (host, target, pattern) in [
        ("a.example", "/about", Some("a.example")),
        ("A.example:8080", "/shop/x", Some("a.example")),
        ("b.c.a.example", "/", Some("*.a.example")),
        ("www.a.example", "/about", Some("www.a.example")),
        ("none.example", "/", None),
        ("none.example", "/health", None),
    ] {
        let request = Request::get(target).host(host);
        let response = server.exchange(&request);
        assert_explained(&served, &request, &response);
        let report = document(&source, &[&format!("http://{host}{target}")]);
        assert_eq!(report["site"]["host"].as_str(), pattern, "{host}");
    }
    server.stop();
}

#[test]
fn a_listener_that_redirects_leads_to_the_encrypted_one() {
    let folder = site();
    folder.write(
        "pinion.toml",
        "[[site]]\npath = \"site\"\n\n[tls]\nself-signed = \"p256\"\n\
         canonical-host = \"a.example\"\nhsts = \"1y\"\n\n\
         [[listen]]\nredirect-http = \":8080\"\n\n[[listen]]\ntls = \":8443\"\n\n\
         [[listen]]\nquic = \":8444\"\n",
    );
    let source = folder.join("pinion.toml");
    let header = |report: &Value, name: &str| value(report, &Value::from(name)).unwrap_or_default();
    let report = document(&source, &["http://any.example:8080/a?b"]);
    assert_eq!(steps(&report), [">- redirect-to-https"]);
    assert_eq!(report["listener"]["address"], ":8080");
    assert_eq!(header(&report, "Location"), "https://a.example:8443/a?b");
    assert_eq!(header(&report, "Strict-Transport-Security"), "");
    let report = document(&source, &["https://any.example:8443/about"]);
    assert_eq!((&report["status"], &report["listener"]["kind"]), (&200.into(), &"tls".into()));
    assert_eq!(header(&report, "Strict-Transport-Security"), "max-age=31536000");
    assert_eq!(header(&report, "Alt-Svc"), "h3=\":8444\"; ma=86400");
    let report = document(&source, &["https://any.example/about"]);
    let note = "no listener has port 443; this is the response at :8443";
    assert_eq!(report["notes"], serde_json::json!([note]));
}

#[test]
fn a_route_is_found_and_not_called() {
    let folder = Folder::new("why-script");
    let script = "pinion.get('/hello/:name', function() error('called') end)\n\n\
        pinion.post('/form', function() error('called') end)\n";
    folder.write("main.lua", script);
    folder.write("public_html/index.html", "home");
    folder.write("public_html/page.dyn.html", "<p>{{ 1 + 1 }}</p>\n");
    let root = folder.path();
    let report = document(root, &["/hello/x"]);
    assert_eq!(steps(&report), [">- route"]);
    assert_eq!(report["status"], Value::Null);
    let place = format!("/hello/:name, {}:1", root.join("main.lua").display());
    assert_eq!(report["steps"][0]["reason"], place.as_str());
    let report = document(root, &["/page"]);
    let reason = report["steps"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("public_html/page.dyn.html:1"), "{reason}");
    let served = served(&folder, root);
    let server = Start::site(root).flags(&served.control_flags()).start();
    let requests = [
        Request::get("/"),
        Request::get("/form"),
        Request::new("OPTIONS", "/form"),
        Request::get("/none"),
        Request::new("DELETE", "/"),
    ];
    for request in requests {
        assert_explained(&served, &request, &server.exchange(&request));
    }
    let with_handler = format!("{script}pinion.not_found(function() error('called') end)\n");
    folder.write("main.lua", with_handler);
    let report = document(root, &["/none"]);
    assert_eq!(steps(&report), ["- route", ">- not-found-handler"]);
    server.stop();
}

#[test]
fn invalid_urls_are_refused_and_control_bytes_escaped() {
    let folder = site();
    let site = folder.join("site");
    for (words, reason) in [
        (vec!["about"], "about: is not a URL"),
        (vec!["ftp://a.example/"], "has another scheme"),
        (vec!["http://"], "has no valid host"),
        (vec!["/a b"], "has a space; write %20"),
        (vec!["/", "-H", "Content-Length: 1"], "is about the connection or the body"),
        (vec!["/", "--listing=yes"], "--listing"),
    ] {
        let ended = why(&site, &words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(ended.stderr.contains(reason), "{words:?}: {}", ended.stderr);
    }
    let ended = why(&folder.join("none"), &["/"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let words = ["why".into(), site.into_os_string(), OsStr::from_bytes(b"/\xff\x1b[2J").into()];
    let ended = run::<OsString>(&words);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
    let words = ["why".into(), words[1].clone(), OsStr::from_bytes(b"/\xff%1B%5B2J").into()];
    let ended = run::<OsString>(&words);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("GET http://localhost/%FF%1B%5B2J\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("there is no /\\xFF\\x1B[2J\n"), "{}", ended.stdout);
}

/// Returns the block that begins with a text of a document.
#[track_caller]
fn block<'d>(document: &'d str, begin: &str) -> &'d str {
    let block = document.split("```text\n").skip(1).find(|block| block.starts_with(begin));
    block.expect("a block that begins so").split("\n```").next().expect("its text")
}

#[test]
fn the_documented_example_matches_the_output() {
    let page = source_root().join("docs/inspecting.md");
    let page = fs::read_to_string(page).expect("the document");
    let folder = Folder::new("why-document");
    for file in ["_redirects", "_headers"] {
        let path = format!("public/{file}");
        folder.write(&path, block(&page, &format!("# {path}\n")));
    }
    folder.write("public/index.html", "home");
    let mut pinion = Command::new(pinion());
    let output = pinion.args(["why", "public", "/guide/setup"]).current_dir(folder.path()).output();
    let output = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let without_date = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("  Date: ")).map(str::to_owned).collect()
    };
    let shown = block(&page, "GET http://localhost/guide/setup");
    assert_eq!(without_date(&output), without_date(shown));
    assert!(output.lines().all(|line| line.len() <= 80), "{output}");
}

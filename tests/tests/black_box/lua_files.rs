//! Files that scripts read, write and send: below folders that the operator configures, and nowhere
//! else.

use pinion_tests::body::{decoded, noise};
use pinion_tests::matrix::Matrix;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::time::{Duration, UNIX_EPOCH};

const SCRIPT: &str = r#"
local fs = pinion.fs
pinion.get("/all", function()
    assert(fs.make_folder("data/made"))
    assert(fs.write("data/made/a", "one"))
    assert(fs.append("data/made/a", " two"))
    assert(fs.rename("data/made/a", "data/made/b"))
    local said = { assert(fs.read("data/made/b")), fs.read("data/made/b", { from = 4, bytes = 2 }) }
    local found = fs.stat("data/made/b")
    said[#said + 1] = found.type .. found.size .. tostring(found.modified > 1e9)
    said[#said + 1] = table.concat(fs.list("data/made"), ",")
    said[#said + 1] = fs.stat("data/made").type
    assert(fs.remove("data/made/b"))
    assert(fs.remove("data/made"))
    said[#said + 1] = tostring(fs.stat("data/made"))
    return table.concat(said, " ")
end)
pinion.get("/read/*path", function(req) return table.concat({ fs.read(req.params.path) }) end)
pinion.get("/why/*path", function(req)
    local text, why = fs.read(req.params.path)
    return tostring(text) .. " " .. tostring(why)
end)
pinion.get("/write/*path", function(req)
    local is_written, why = fs.write(req.params.path, "changed")
    return tostring(is_written) .. " " .. tostring(why)
end)
pinion.get("/at-once", function()
    local parts = {}
    for n = 1, 20 do parts[n] = function() return fs.read("data/small.txt") end end
    return table.concat({ pinion.gather(unpack(parts)) })
end)
pinion.get("/hoard", function()
    local kept = {}
    -- Lua has equal texts once: these differ.
    for n = 1, 20 do kept[n] = assert(fs.read("data/large.bin", { from = n, bytes = 2^22 })) end
    return tostring(#kept)
end)
pinion.get("/wrong", function()
    local text = fs.read("data/small.txt", { form = 1 })
    return text
end)
pinion.any("/send/*path", function(req, res) return res:file(req.params.path) end)
pinion.get("/typed", function(req, res)
    local name = "r\195\169sum\195\169.txt"
    return res:file("data/small.txt", { type = "text/x-own", download = name })
end)
pinion.get("/or-else", function(req, res)
    local is_sent, why = res:file("data/none")
    if not is_sent then return "instead: " .. why end
end)
pinion.get("/after", function(req, res)
    local is_sent = res:file("data/small.txt")
    return is_sent and "text"
end)
pinion.get("/beside", function(req, res)
    res:write("text")
    return res:file("data/small.txt")
end)
pinion.get("/", function() return "here" end)
"#;

/// More than any buffer on the way can hold, with content in which moved or missing parts are
/// detected.
const LARGE_BYTES: usize = 5 << 20;

/// A script, and two folders for it.
struct Site {
    folder: Folder,
    flags: Vec<String>,
}

impl Site {
    /// Sets a modification time long ago, because a file that has just changed has no entity tag.
    fn has_changed_long_ago(&self, path: &str) {
        let file = fs::File::options().write(true).open(self.folder.join(path));
        let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.expect("a file").set_modified(long_ago).expect("a time");
    }

    fn new() -> Self {
        // The script must run in both versions of Lua.
        let script = format!("local unpack = unpack or table.unpack\n{SCRIPT}");
        let files = [
            ("site.lua", script.as_str()),
            ("data/small.txt", "small"),
            ("data/style.css", "p { color: red }\n"),
            ("data/empty", ""),
            ("shown/page.html", "<p>page"),
            ("secret", "secret"),
        ];
        let folder = Folder::with("files", files);
        folder.write("data/large.bin", noise(LARGE_BYTES));
        symlink("../secret", folder.join("data/link")).expect("a link");
        let named = |name: &str, how: &str| {
            ["--lua-folder".to_owned(), format!("{name}={}{how}", folder.join(name).display())]
        };
        let flags = [named("data", ""), named("shown", ":ro")].concat();
        Self { folder, flags }
    }

    #[track_caller]
    fn in_every_way(&self, case: impl Fn(&Server)) {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let flags = [&flags[..], &["--workers", "1", "--lua-cpu", "5000"]].concat();
        let script = self.folder.join("site.lua");
        Matrix::of(&script).folder_only("a script is no archive").serve(&flags).run(case);
    }
}

#[test]
fn scripts_read_and_write_below_their_folders() {
    let site = Site::new();
    site.in_every_way(|server| {
        assert_eq!(server.get("/all").text(), "one two tw file7true b folder nil");
        assert_eq!(server.get("/at-once").text(), "small".repeat(20));
        assert_eq!(server.get("/read/shown/page.html").text(), "<p>page");
        assert_eq!(server.get("/write/data/new").text(), "true nil");
        assert_eq!(server.get("/read/data/new").text(), "changed");
        let refused = server.get("/write/shown/page.html");
        assert_eq!(
            refused.text(),
            "nil cannot write \"shown/page.html\": the folder shown is read-only; \
                         remove `:ro` from its --lua-folder to change it"
        );
        for path in ["data/link", "data/none", "secret", "data", "data/small.txt/x"] {
            let response = server.get(&format!("/why/{path}"));
            assert!(response.text().starts_with("nil cannot read \""), "{path}: {response}");
        }
        let from = server.lines().len();
        assert_eq!(server.get("/wrong").status, 500);
        server.wait_for_line(from, |line| line.contains("site.lua:") && line.contains("\"form\""));
        // Read data counts as memory.
        assert_eq!(server.get("/hoard").status, 500);
        server.wait_for_line(from, |line| line.contains("used up its memory"));
        assert_eq!(server.get("/read/data/small.txt").text(), "small");
    });
    assert_eq!(fs::read(site.folder.join("secret")).expect("there"), b"secret");
    assert_eq!(fs::read(site.folder.join("shown/page.html")).expect("there"), b"<p>page");
}

#[test]
fn a_file_is_sent_whole_with_its_fields() {
    Site::new().in_every_way(|server| {
        let large = server.get("/send/data/large.bin");
        assert_eq!(large.field("Content-Type"), Some("application/octet-stream"));
        assert_eq!(large.field("Content-Length"), Some(LARGE_BYTES.to_string().as_str()));
        assert!(large.body == noise(LARGE_BYTES), "{} bytes", large.body.len());
        let style = server.get("/send/data/style.css");
        assert_eq!(style.field("Content-Type"), Some("text/css; charset=utf-8"));
        assert_eq!(style.text(), "p { color: red }\n");
        assert_eq!(server.get("/send/data/empty").body, b"");
        let head = server.exchange(&Request::head("/send/data/large.bin"));
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.field("Content-Length"), large.field("Content-Length"));
        let typed = server.get("/typed");
        assert_eq!(typed.field("Content-Type"), Some("text/x-own"));
        let disposition = "attachment; filename=\"r_sum_.txt\"; \
                           filename*=UTF-8''r%C3%A9sum%C3%A9.txt";
        assert_eq!(typed.field("Content-Disposition"), Some(disposition));
        for path in ["data/none", "data/link", "data", "secret", "other/x"] {
            assert_eq!(server.get(&format!("/send/{path}")).status, 404, "{path}");
        }
        let instead = server.get("/or-else");
        assert_eq!(instead.status, 404);
        assert!(
            instead.text().starts_with("instead: cannot send \"data/none\": no such"),
            "{instead}"
        );
        let from = server.lines().len();
        assert_eq!(server.get("/beside").status, 500);
        server.wait_for_line(from, |line| line.contains("write nothing before it"));
        let from = server.lines().len();
        let _whole_or_torn = server.client().try_exchange(&Request::get("/after"));
        let why = "res:file has sent the complete response; write and return nothing after it";
        server.wait_for_line(from, |line| line.contains("GET /after: ") && line.contains(why));
    });
}

#[test]
fn a_file_that_the_client_has_is_not_sent_again() {
    let site = Site::new();
    site.has_changed_long_ago("data/small.txt");
    site.in_every_way(|server| {
        let path = "/send/data/small.txt";
        let first = server.get(path);
        let tag = first.field("ETag").expect("a tag");
        let date = first.field("Last-Modified").expect("a date");
        let other = format!("\"other\", {tag}");
        let early = "Thu, 01 Jan 1970 00:00:00 GMT";
        for (status, fields) in [
            (304, vec![("If-None-Match", tag)]),
            (304, vec![("If-None-Match", &*other)]),
            (304, vec![("If-None-Match", "*")]),
            (304, vec![("If-Modified-Since", date)]),
            (200, vec![("If-None-Match", "\"other\"")]),
            (200, vec![("If-Modified-Since", early)]),
            // The entity tag has precedence over the date.
            (200, vec![("If-None-Match", "\"other\""), ("If-Modified-Since", date)]),
        ] {
            let asked = fields
                .iter()
                .fold(Request::get(path), |asked, (name, value)| asked.field(name, value));
            let response = server.exchange(&asked);
            assert_eq!(response.status, status, "{fields:?}");
            assert_eq!(response.field("ETag"), Some(tag), "{fields:?}");
            assert_eq!(response.body.is_empty(), status == 304, "{fields:?}");
        }
        let asked = Request::new("POST", path).field("If-None-Match", tag).body(b"");
        assert_eq!(server.exchange(&asked).status, 200);
    });
}

#[test]
fn a_file_is_compressed_if_the_client_accepts_it() {
    let site = Site::new();
    let text = "a line of text that comes again\n".repeat(10_000);
    site.folder.write("data/long.txt", &text);
    site.has_changed_long_ago("data/long.txt");
    site.in_every_way(|server| {
        let asked = Request::get("/send/data/long.txt").field("Accept-Encoding", "gzip");
        let response = server.exchange(&asked);
        assert_eq!(response.field("Content-Encoding"), Some("gzip"));
        // RFC 9110 §8.8.1: the bytes differ from those of the file, whose tag is a strong one.
        assert!(response.field("ETag").is_some_and(|tag| tag.starts_with("W/")));
        assert!(response.body.len() < text.len() / 10, "{} bytes", response.body.len());
        assert!(decoded(&response) == text.as_bytes());
    });
}

/// A client that reads nothing while others get their responses still gets the whole file, and the
/// server does not read ahead meanwhile.
#[test]
fn a_slow_reader_gets_the_whole_file_and_does_not_block_others() {
    let site = Site::new();
    let bytes = 64 << 20;
    site.folder.write("data/huge.bin", noise(bytes));
    let matrix_flags: Vec<&str> = site.flags.iter().map(String::as_str).collect();
    let flags = [&matrix_flags[..], &["--workers", "1"]].concat();
    let script = site.folder.join("site.lua");
    let matrix = Matrix::of(&script).folder_only("a script is no archive").serve(&flags);
    matrix.plain_only("the reader is a bare socket").run(|server| {
        let mut reader = TcpStream::connect(server.address()).expect("a connection");
        let asked = b"GET /send/data/huge.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        reader.write_all(asked).expect("asked");
        let mut response = vec![0; 1000];
        reader.read_exact(&mut response).expect("the head and some content");
        for _ in 0..100 {
            assert_eq!(server.get("/send/data/small.txt").text(), "small");
        }
        reader.read_to_end(&mut response).expect("the rest");
        let head = response.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        assert!(response[head + 4..] == noise(bytes), "{} bytes", response.len());
        assert!(server.memory_bytes("VmHWM") < bytes as u64 * 3 / 4);
    });
}

#[test]
fn without_the_flag_scripts_have_no_files() {
    let site = Site::new();
    let server = Start::site(&site.folder.join("site.lua")).start();
    let response = server.get("/why/data/small.txt");
    assert!(response.text().contains("--lua-folder NAME=PATH"), "{response}");
    assert!(server.get("/write/data/small.txt").text().contains("--lua-folder"));
    // No request can succeed, so the operator must be informed.
    assert_eq!(server.get("/send/data/small.txt").status, 500);
    server.wait_for_line(0, |line| line.contains("name one with --lua-folder NAME=PATH"));
    server.stop();
}

#[test]
fn a_missing_folder_ends_the_start_with_its_reason() {
    let site = Site::new();
    let script = site.folder.join("site.lua");
    let script = script.to_str().expect("text");
    for (name, why) in [
        ("none", "does not exist; create it"),
        ("data:rw", "does not exist; only `:ro` may follow the path, not `:rw`"),
        ("secret", "is not a folder"),
    ] {
        let path = site.folder.join(name).display().to_string();
        let folder = format!("x={path}");
        let ended = run(&["serve", script, "-l", "127.0.0.1:0", "--lua-folder", &folder]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(&path) && ended.stderr.contains(why), "{}", ended.stderr);
    }
}

/// In a configuration a relative path is below the folder of the file.
#[test]
fn a_configuration_names_folders_for_each_site() {
    let site = Site::new();
    let text = "[[listen]]\naddress = \"127.0.0.1:0\"\n\n[[site]]\npath = \"site.lua\"\n\
                lua-folder = [\"data=data\", \"shown=shown:ro\"]\n";
    site.folder.write("pinion.toml", text);
    let server = Start::configured(&site.folder.join("pinion.toml")).start();
    assert_eq!(server.get("/read/data/small.txt").text(), "small");
    assert!(server.get("/write/shown/page.html").text().contains("read-only"));
    server.stop();
    site.folder.write("pinion.toml", text.replace("data=data", "data=gone"));
    let path = site.folder.join("pinion.toml");
    let ended = run(&["check", path.to_str().expect("text")]);
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    let output = format!("{}{}", ended.stdout, ended.stderr);
    assert!(output.contains("gone does not exist; create it"), "{output}");
}

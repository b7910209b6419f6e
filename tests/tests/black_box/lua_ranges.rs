//! Ranges and preconditions of files that scripts send (`res:file`): a client gets the same
//! response as for the same published file (RFC 9110 §13 and §14).

use pinion_tests::body::{noise, parts};
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

const SCRIPT: &str = r#"
pinion.any("/:name", function(req, res) return res:file("data/" .. req.params.name) end)
pinion.get("/hidden/:name", function(req, res)
    res:status(403)
    return res:file("data/" .. req.params.name)
end)
pinion.get("/own/:name", function(req, res)
    res:field("Cache-Control", "max-age=60")
    return res:file("data/" .. req.params.name, { download = "it" })
end)
"#;

/// More than is read at once.
const LARGE_BYTES: usize = 300_000;

/// Creates the files that are both published and sent by a script. They changed long ago, so that
/// they have entity tags.
fn files() -> Folder {
    let folder = Folder::new("lua-ranges");
    folder.write("page.txt", "0123456789".repeat(100));
    folder.write("large.bin", noise(LARGE_BYTES));
    folder.write("empty.txt", "");
    for name in ["page.txt", "large.bin", "empty.txt"] {
        let file = fs::File::options().write(true).open(folder.join(name)).expect("a file");
        let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.set_modified(long_ago).expect("a time");
    }
    folder
}

/// Runs a server of the files themselves, and one of the script that sends them.
fn servers(io: Io, run: impl Fn(&Server, &Server)) {
    let (files, (_folder, path)) = (files(), script(SCRIPT));
    let data = format!("data={}:ro", files.path().display());
    let io = ["--io", io.as_str()];
    let published = Start::site(files.path()).flags(&io).start();
    let flags = [&io[..], &["--lua-folder", &data]].concat();
    let sent = Start::site(&path).flags(&flags).start();
    run(&published, &sent);
    published.stop();
    sent.stop();
}

/// `Content-Type`, `Content-Range` and content of a part.
type PlainPart = (String, String, Vec<u8>);

/// Returns the fields of a response that describe the part of the file, and that part.
fn meaning(response: &Response) -> (u16, [Option<String>; 3], Vec<PlainPart>) {
    let owned = |name| response.field(name).map(str::to_owned);
    let is_multipart =
        response.field("Content-Type").is_some_and(|kind| kind.starts_with("multipart/"));
    let accepted = if response.status < 400 { owned("Accept-Ranges") } else { None };
    let length =
        if is_multipart || response.status >= 400 { None } else { owned("Content-Length") };
    let fields = [owned("Content-Range"), length, accepted];
    let content = match is_multipart {
        true => {
            let found = parts(response).into_iter();
            found.map(|part| (part.content_type, part.content_range, part.content)).collect()
        }
        false if response.status >= 400 => Vec::new(),
        false => vec![(String::new(), String::new(), response.body.clone())],
    };
    (response.status, fields, content)
}

const RANGES: &[&str] = &[
    "bytes=0-0",
    "bytes=500-",
    "bytes=-5",
    "bytes=900-5000",
    "bytes=0-1,5-6,-3",
    "bytes=0-65535,65600-200000,-1",
    "bytes=0-9,5-19,50-59",
    "bytes=400000-",
    "bytes=-0",
    "bytes=5-2",
    "lines=0-1",
    "bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,30-30",
    "bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,30-30,\
     32-32",
];

#[test]
fn ranges_of_a_sent_file_are_those_of_a_published_one() {
    for io in Io::BOTH {
        servers(io, |published, sent| {
            for name in ["/page.txt", "/large.bin", "/empty.txt"] {
                for range in RANGES {
                    let get = Request::get(name).field("Range", range);
                    let (ours, theirs) = (sent.exchange(&get), published.exchange(&get));
                    assert!(meaning(&ours) == meaning(&theirs), "{name} {range}: {ours}");
                    let head = Request::head(name).field("Range", range);
                    let ours = sent.exchange(&head);
                    assert_eq!((ours.status, ours.field("Content-Range")), (200, None));
                }
                let whole = sent.get(name);
                assert_eq!(whole.field("Accept-Ranges"), Some("bytes"), "{name}");
            }
        });
    }
}

#[test]
fn preconditions_and_if_range_work_as_for_a_published_file() {
    for io in Io::BOTH {
        servers(io, |published, sent| {
            let date = "Sun, 09 Sep 2001 01:46:40 GMT";
            let early = "Thu, 01 Jan 1998 00:00:00 GMT";
            let tags = [published, sent].map(|server| {
                let response = server.get("/page.txt");
                assert_eq!(response.field("Last-Modified"), Some(date));
                response.field("ETag").expect("a tag").to_owned()
            });
            for (fields, status) in [
                (&[("If-Range", "TAG")][..], 206),
                (&[("If-Range", date)], 206),
                (&[("If-Range", "W/TAG")], 200),
                (&[("If-Range", "\"other\"")], 200),
                (&[("If-Range", early)], 200),
                (&[("If-Match", "TAG")], 206),
                (&[("If-Match", "*")], 206),
                (&[("If-Match", "\"other\"")], 412),
                (&[("If-Unmodified-Since", date)], 206),
                (&[("If-Unmodified-Since", early)], 412),
                (&[("If-None-Match", "W/TAG")], 304),
                (&[("If-None-Match", "\"other\"")], 206),
                (&[("If-Modified-Since", date)], 304),
                (&[("If-None-Match", "\"other\""), ("If-Modified-Since", date)], 206),
            ] {
                for (server, tag) in [published, sent].into_iter().zip(&tags) {
                    let request = Request::get("/page.txt").field("Range", "bytes=0-9");
                    let request = fields.iter().fold(request, |request, (name, value)| {
                        request.field(name, value.replace("TAG", tag))
                    });
                    let response = server.exchange(&request);
                    assert_eq!(response.status, status, "{fields:?}: {response}");
                }
            }
        });
    }
}

#[test]
fn an_error_has_no_ranges_and_is_not_stored() {
    servers(Io::Epoll, |_, sent| {
        let hidden = sent.exchange(&Request::get("/hidden/page.txt").field("Range", "bytes=0-9"));
        assert_eq!((hidden.status, hidden.body.len()), (403, 1000));
        assert_eq!(hidden.field("Accept-Ranges"), None);
        let post = Request::new("POST", "/page.txt").field("Range", "bytes=0-9").body(b"x");
        assert_eq!(sent.exchange(&post).status, 200);
        let part = sent.exchange(&Request::get("/own/page.txt").field("Range", "bytes=0-9"));
        assert_eq!((part.status, part.field("Cache-Control")), (206, Some("max-age=60")));
        assert!(part.field("Content-Disposition").is_some(), "{part}");
        let behind = sent.exchange(&Request::get("/own/page.txt").field("Range", "bytes=1000-"));
        assert_eq!((behind.status, behind.field("Cache-Control")), (416, Some("no-store")));
        assert_eq!(behind.field("Content-Range"), Some("bytes */1000"));
        assert_eq!((behind.field("ETag"), behind.body.len()), (None, 0));
    });
}

//! Content of requests to CGI scripts: the content that is stored before a script is started, and
//! the content that is not.

use crate::cgi::{mount, scripts};
use crate::mounts::start;
use pinion_tests::body::noise;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

/// More clients than scripts that may run, and few enough for any limit on open files.
const SLOW_CLIENTS: usize = 50;

/// Content that is longer than the limit of the tests, and than the limit of content in memory.
const LARGE_BYTES: usize = 300_000;

/// Creates a folder with a script that leaves a file when it starts, and responds with its content.
fn echo(name: &str) -> Folder {
    let script = "touch \"$STARTED\"\necho Content-Type: text/plain\n\
                  echo \"X-Length: ${CONTENT_LENGTH:-none}\"; echo; exec cat\n";
    let get = "echo Content-Type: text/plain; echo; echo \"$REQUEST_METHOD\"\n";
    let folder = scripts(name, &[("echo", script), ("get", get)]);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("permissions");
    folder
}

fn started_with(folder: &Folder, io: Io, keys: &str) -> Server {
    let variables = format!("variables = {{ STARTED = {:?} }}\n", folder.join("started"));
    start(folder, io, &mount(folder, &format!("{keys}{variables}")))
}

/// Returns the first half of a request, and the rest.
fn halves(request: &Request) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = request.bytes();
    let rest = bytes.split_off(bytes.len() - request.body_bytes().len() / 2);
    (bytes, rest)
}

fn is_started(folder: &Folder) -> bool {
    fs::remove_file(folder.join("started")).is_ok()
}

/// A client that sends its content slowly uses no process.
#[test]
fn slow_uploads_occupy_no_script_process() {
    let folder = echo("cgi-slow-clients");
    for io in Io::BOTH {
        let server = started_with(&folder, io, "cgi-max = 1\n");
        let mut slow = Vec::new();
        for number in 0..SLOW_CLIENTS {
            let content = format!("content of client {number}");
            let request = Request::new("POST", "/run/echo");
            let request = match number % 2 {
                0 => request.body(content.as_bytes()),
                _ => request.chunked(content.as_bytes(), 5),
            };
            let (first, rest) = halves(&request);
            let mut connection = server.connect();
            connection.send(first);
            slow.push((connection, content, rest));
        }
        // Earlier input has been read when later connections have their responses.
        for _ in 0..5 {
            assert_eq!(server.get("/run/get").text(), "GET\n");
        }
        assert!(!is_started(&folder), "no content is complete");
        for (connection, _, rest) in &mut slow {
            connection.send(rest);
        }
        for (connection, content, _) in &mut slow {
            let response = connection.receive();
            let length = content.len().to_string();
            assert_eq!((response.text(), response.field("X-Length")), (&**content, Some(&*length)));
        }
        assert!(is_started(&folder));
        server.stop();
    }
}

/// Without `buffer-uploads`, content that is longer than the limit is not stored.
#[test]
fn longer_content_is_streamed_or_has_no_length() {
    let folder = echo("cgi-longer");
    let (fits, large) = (noise(1024), noise(LARGE_BYTES));
    for io in Io::BOTH {
        let server = started_with(&folder, io, "buffer-limit = \"1K\"\n");
        for request in [
            Request::new("POST", "/run/echo").body(&fits),
            Request::new("POST", "/run/echo").chunked(&fits, 100),
        ] {
            let response = server.exchange(&request);
            assert!(is_started(&folder) && response.body == fits);
            assert_eq!(response.field("X-Length"), Some("1024"));
        }
        let (first, rest) = halves(&Request::new("POST", "/run/echo").body(&large));
        let mut connection = server.connect();
        connection.send(first);
        wait_for("the start of the script", || is_started(&folder).then_some(()));
        connection.send(rest);
        assert!(connection.receive().body == large);
        let chunked = Request::new("POST", "/run/echo").chunked(&large, 10_000);
        assert_eq!(server.exchange(&chunked).status, 411);
        assert!(!is_started(&folder));
        server.stop();
    }
}

/// With `buffer-uploads = true` all content is stored, and longer content is refused.
#[test]
fn all_content_is_stored() {
    let folder = echo("cgi-stored");
    let (large, larger) = (noise(LARGE_BYTES), noise(LARGE_BYTES + 1));
    for io in Io::BOTH {
        let keys = format!("buffer-uploads = true\nbuffer-limit = \"{LARGE_BYTES}\"\n");
        let server = started_with(&folder, io, &keys);
        let (first, rest) = halves(&Request::new("POST", "/run/echo").body(&large));
        let mut connection = server.connect();
        connection.send(first);
        for _ in 0..5 {
            assert_eq!(server.get("/run/get").text(), "GET\n");
        }
        assert!(!is_started(&folder), "the content is not complete");
        connection.send(rest);
        assert!(connection.receive().body == large);
        assert!(is_started(&folder));
        for request in [
            Request::new("POST", "/run/echo").body(&larger),
            Request::new("POST", "/run/echo").chunked(&larger, 10_000),
        ] {
            assert_eq!(server.exchange(&request).status, 413);
        }
        assert!(!is_started(&folder));
        server.stop();
    }
}

/// With `buffer-uploads = false` scripts get content as it arrives, and its end without a length.
#[test]
fn no_content_is_stored() {
    let folder = echo("cgi-streamed");
    let large = noise(LARGE_BYTES);
    for io in Io::BOTH {
        let keys = "buffer-uploads = false\nbuffer-limit = \"1K\"\n";
        let server = started_with(&folder, io, keys);
        for content in [&b""[..], b"short", &large] {
            for (request, length) in [
                (Request::new("POST", "/run/echo").body(content), content.len().to_string()),
                (Request::new("POST", "/run/echo").chunked(content, 10_000), "none".to_owned()),
            ] {
                let (first, rest) = halves(&request);
                let mut connection = server.connect();
                connection.send(first);
                if !content.is_empty() {
                    wait_for("the start of the script", || is_started(&folder).then_some(()));
                }
                connection.send(rest);
                let response = connection.receive();
                assert!(response.body == content, "{} bytes", response.body.len());
                assert_eq!(response.field("X-Length"), Some(&*length));
                is_started(&folder);
            }
        }
        server.stop();
    }
}

/// Content of no bytes, without a length, ends the input of a script that has waited for its turn.
#[test]
fn a_script_that_has_waited_gets_the_end_of_its_input() {
    let hold = "echo Content-Type: text/plain; echo; echo; exec cat\n";
    let count = "echo Content-Type: text/plain; echo; wc -c\n";
    let folder = scripts("cgi-empty", &[("hold", hold), ("count", count)]);
    for io in Io::BOTH {
        let keys = "cgi-max = 1\nbuffer-uploads = false\n";
        let server = start(&folder, io, &mount(&folder, keys));
        let (first, rest) = halves(&Request::new("POST", "/run/hold").body(b"content"));
        let mut holding = server.connect();
        holding.send(first);
        // The only process is in use as soon as the response has begun.
        assert!(holding.read_some(1).expect("a response") > 0);
        let mut waiting = server.connect();
        waiting.send(Request::new("POST", "/run/count").chunked(b"", 1).bytes());
        assert_eq!(server.get("/").text(), "home");
        holding.send(rest);
        assert_eq!(waiting.receive().text().trim(), "0");
        server.stop();
    }
}

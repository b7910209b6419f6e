//! The access log: correct, complete, and safe to read.

use pinion_tests::matrix::Matrix;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn site() -> Folder {
    Folder::with("log", [("site/index.html", "home"), ("site/docs/index.html", "docs")])
}

/// Runs a case with an access log, in the ways that `narrow` keeps; `case` gets the path of the
/// log.
fn with_log_in(
    narrow: impl Fn(Matrix<'_>) -> Matrix<'_>,
    format: &str,
    case: impl Fn(&Server, &Path),
) {
    let folder = site();
    let path = folder.join("access.log");
    let flags = ["--access-log", path.to_str().expect("a path"), "--log-format", format];
    narrow(Matrix::of(&folder.join("site")).serve(&flags)).run(|server| {
        case(server, &path);
        fs::remove_file(&path).expect("a log for each way");
    });
}

/// Runs a case with an access log in every way.
fn with_log(format: &str, case: impl Fn(&Server, &Path)) {
    with_log_in(|matrix| matrix, format, case);
}

/// Returns the version of HTTP in the log for the protocol of the server.
fn version(server: &Server) -> &'static str {
    match server.protocol() {
        Protocol::Http1 | Protocol::Http1Tls => "HTTP/1.1",
        Protocol::Http2 | Protocol::Http2Clear => "HTTP/2.0",
        Protocol::Http3 => "HTTP/3.0",
    }
}

/// Waits until the log has this many lines, and returns them.
#[track_caller]
fn lines(path: &Path, count: usize) -> Vec<String> {
    let lines = wait_for("lines in the access log", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (text.ends_with('\n') && lines.len() >= count).then_some(lines)
    });
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

/// Returns the line `peer - - [time] "request" status bytes "referer" "agent"` without the time.
#[track_caller]
fn without_time(line: &str) -> String {
    let (peer, rest) = line.split_once(" - - [").expect("a time");
    let (time, rest) = rest.split_once("] ").expect("the end of the time");
    assert_eq!(time.len(), "06/Nov/1994:08:49:37 +0000".len(), "{time}");
    format!("{peer} {rest}")
}

#[test]
fn combined_lines_describe_their_requests() {
    with_log("combined", |server, log| {
        let tag = server.get("/").field("ETag").expect("a tag").to_owned();
        let mut client = server.client();
        let agent = Request::get("/docs?a=b").field("User-Agent", "Test/1 (\"x\")");
        client.exchange(&agent.field("Referer", "http://localhost/"));
        client.exchange(&Request::head("/docs/"));
        client.exchange(&Request::get("/").field("If-None-Match", tag));
        client.exchange(&Request::get("/").field("Range", "bytes=1-2"));
        let missing = client.exchange(&Request::get("/nothing"));
        let last = if server.protocol().is_http1() { "HTTP/1.0" } else { version(server) };
        let request = Request::get("/");
        client.exchange(&if last == "HTTP/1.0" { request.http10() } else { request });
        let found: Vec<String> = lines(log, 7).iter().map(|line| without_time(line)).collect();
        let expected = [
            "127.0.0.1 \"GET / HTTP/1.1\" 200 4 \"-\" \"-\"",
            "127.0.0.1 \"GET /docs?a=b HTTP/1.1\" 308 0 \"http://localhost/\" \
             \"Test/1 (\\\"x\\\")\"",
            "127.0.0.1 \"HEAD /docs/ HTTP/1.1\" 200 0 \"-\" \"-\"",
            "127.0.0.1 \"GET / HTTP/1.1\" 304 0 \"-\" \"-\"",
            "127.0.0.1 \"GET / HTTP/1.1\" 206 2 \"-\" \"-\"",
            &format!("127.0.0.1 \"GET /nothing HTTP/1.1\" 404 {} \"-\" \"-\"", missing.body.len()),
            &format!("127.0.0.1 \"GET / {last}\" 200 4 \"-\" \"-\""),
        ];
        let expected = expected.map(|line| line.replace("HTTP/1.1", version(server)));
        // Two workers have two connections, so their lines may be in either order.
        let sorted = |mut lines: Vec<String>| {
            lines.sort_unstable();
            lines
        };
        assert_eq!(sorted(found), sorted(expected.to_vec()));
    });
}

#[test]
fn json_lines_describe_their_requests() {
    with_log("json", |server, log| {
        let mut client = server.client();
        let port = client.local_port();
        client.exchange(&Request::get("/docs/?q=%C3%BC").field("User-Agent", "Tést\t\"\\"));
        let line = &lines(log, 1)[0];
        let found = json(line);
        for (name, value) in [
            ("peer", Value::from("127.0.0.1")),
            ("port", Value::from(port)),
            ("method", Value::from("GET")),
            ("host", Value::from("localhost")),
            ("target", Value::from("/docs/?q=%C3%BC")),
            ("version", Value::from(version(server))),
            ("status", Value::from(200)),
            ("bytes", Value::from(4)),
            ("referer", Value::Null),
            ("user_agent", Value::from("Tést\t\"\\")),
        ] {
            assert_eq!(found[name], value, "{name} in {line}");
        }
        assert!(found["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
        assert!(found["duration_us"].is_u64(), "{line}");
    });
}

#[test]
fn client_input_cannot_forge_a_line() {
    with_log("combined", |server, log| {
        let forged = "\" 200 0 \"-\" \"-\"\u{9b}2J \\ \u{e4}";
        let request = Request::get("/'%0A%22").field("User-Agent", forged).field("Referer", "\t\"");
        let response = server.exchange(&request);
        assert_eq!(response.status, 404, "{response}");
        let line = without_time(&lines(log, 1)[0]);
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
        let quotes = line.replace("\\\\", "").replace("\\\"", "").matches('"').count();
        assert_eq!(quotes, 6, "three quoted strings: {line}");
        let front = format!("127.0.0.1 \"GET /'%0A%22 {}\" 404 ", version(server));
        assert!(line.starts_with(&front), "{line}");
    });
}

/// Returns requests that the server refuses, each with the status.
fn refused() -> Vec<(u16, Vec<u8>)> {
    let fields = "X: y\r\n".repeat(200);
    let long = "x".repeat(9000);
    let text = [
        (400, "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n".to_owned()),
        // The number exceeds any length; the other lengths are possible.
        (413, format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}0\r\n\r\n", u64::MAX)),
        (414, format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n")),
        (431, format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n")),
        (501, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_owned()),
        (505, "GET / HTTP/3.0\r\nHost: x\r\n\r\n".to_owned()),
    ];
    text.into_iter().map(|(status, text)| (status, text.into_bytes())).collect()
}

#[test]
fn a_refused_head_is_logged() {
    with_log_in(
        |matrix| matrix.http1_only("unreadable heads"),
        "combined",
        |server, log| {
            for (number, (status, request)) in refused().into_iter().enumerate() {
                let mut connection = server.connect();
                connection.send(request);
                let response = connection.receive();
                assert_eq!(response.status, status);
                let line = without_time(&lines(log, number + 1)[number]);
                let bytes = response.body.len();
                assert_eq!(line, format!("127.0.0.1 \"-\" {status} {bytes} \"-\" \"-\""));
            }
        },
    );
    with_log_in(
        |matrix| matrix.http1_only("unreadable heads"),
        "json",
        |server, log| {
            for (number, (status, request)) in refused().into_iter().enumerate() {
                let mut connection = server.connect();
                connection.send(request);
                connection.receive();
                let found = json(&lines(log, number + 1)[number]);
                assert_eq!((&found["status"], &found["cut"]), (&status.into(), &false.into()));
                for unknown in ["method", "host", "target", "version", "referer", "user_agent"] {
                    assert_eq!(found[unknown], Value::Null, "{unknown} of {status}");
                }
            }
        },
    );
}

#[test]
fn a_request_with_a_refused_body_is_logged() {
    with_log("combined", |server, log| {
        let request = Request::new("POST", "/upload?x").body(&vec![b'x'; (1 << 20) + 1]);
        assert_eq!(server.exchange(&request).status, 413);
        let line = without_time(&lines(log, 1)[0]);
        let front = format!("127.0.0.1 \"POST /upload?x {}\" 413 ", version(server));
        assert!(line.starts_with(&front), "{line}");
    });
}

#[test]
fn a_head_that_times_out_is_logged() {
    let folder = site();
    std::thread::scope(|scope| {
        for io in ["epoll", "uring"] {
            let (folder, log) = (&folder, folder.join(format!("{io}.log")));
            scope.spawn(move || {
                let flags = ["--io", io, "--access-log", log.to_str().expect("a path")];
                let server = Start::site(&folder.join("site")).flags(&flags).start();
                let mut half = server.connect();
                half.send("GET / HTTP/1.1\r\nHost:");
                let bytes = half.receive().body.len();
                let line = without_time(&lines(&log, 1)[0]);
                assert_eq!(line, format!("127.0.0.1 \"-\" 408 {bytes} \"-\" \"-\""));
                // Without a request there is no response, and no line.
                drop(server.connect());
                server.stop();
                lines(&log, 1);
            });
        }
    });
}

#[test]
fn a_truncated_response_is_logged_with_the_bytes_sent() {
    const LARGE_BYTES: usize = 16 << 20;
    let folder = site();
    folder.write("site/large.bin", vec![b'x'; LARGE_BYTES]);
    let log = folder.join("access.log");
    let flags = ["--access-log", log.to_str().expect("a path"), "--log-format", "json"];
    Matrix::of(&folder.join("site")).serve(&flags).run(|server| {
        if server.protocol().is_http1() {
            let mut connection = server.connect();
            let two = [Request::get("/").bytes(), Request::get("/large.bin").bytes()];
            connection.send(two.concat());
            connection.send(Request::get("/docs/").bytes());
            connection.read_some(1000).expect("the first bytes");
        } else {
            let mut client = server.client();
            client.exchange(&Request::get("/"));
            client.leave_within(&Request::get("/large.bin"));
        }
        let found = lines(&log, 2).iter().map(|line| json(line)).collect::<Vec<_>>();
        assert_eq!((&found[0]["target"], &found[0]["cut"]), (&"/".into(), &false.into()));
        assert_eq!(found[0]["bytes"], Value::from(4));
        assert_eq!((&found[1]["target"], &found[1]["cut"]), (&"/large.bin".into(), &true.into()));
        let bytes = found[1]["bytes"].as_u64().expect("a number");
        assert!((1..LARGE_BYTES as u64).contains(&bytes), "{bytes}");
        // A complete response for comparison.
        assert_eq!(server.get("/large.bin").body.len(), LARGE_BYTES);
        let whole = json(&lines(&log, 3)[2]);
        assert_eq!((&whole["bytes"], &whole["cut"]), (&LARGE_BYTES.into(), &false.into()));
        fs::remove_file(&log).expect("a log for each way");
    });
}

/// Content that is written in pieces is counted as a whole, including the pieces that were sent
/// long before its end.
#[test]
fn streamed_content_is_logged_with_its_total_size() {
    const STREAM: &str = r#"
pinion.get("/stream", function(req, res)
    for _ = 1, 100 do res:write(("x"):rep(10000)) end
end)
"#;
    let folder = Folder::with("log-stream", [("site.lua", STREAM)]);
    let log = folder.join("access.log");
    let flags = ["--access-log", log.to_str().expect("a path"), "--log-format", "json"];
    let script = folder.join("site.lua");
    let matrix = Matrix::of(&script).folder_only("a script is no archive").serve(&flags);
    matrix.run(|server| {
        assert_eq!(server.get("/stream").body.len(), 1_000_000);
        let line = json(&lines(&log, 1)[0]);
        assert_eq!((&line["bytes"], &line["cut"]), (&1_000_000.into(), &false.into()));
        fs::remove_file(&log).expect("a log for each way");
    });
}

#[test]
fn a_response_cancelled_by_its_client_is_logged_at_once() {
    const LARGE_BYTES: u64 = 16 << 20;
    let folder = site();
    folder.write("site/large.bin", vec![b'x'; LARGE_BYTES as usize]);
    let log = folder.join("access.log");
    let flags = ["--access-log", log.to_str().expect("a path"), "--log-format", "json"];
    let served = folder.join("site");
    let matrix = Matrix::of(&served).serve(&flags);
    let matrix = matrix.over(|protocol| !protocol.is_http1(), "its connection would end too");
    matrix.run(|server| {
        let mut client = server.client();
        client.stop_within(&Request::get("/large.bin"));
        let line = json(&lines(&log, 1)[0]);
        assert_eq!((&line["target"], &line["cut"]), (&"/large.bin".into(), &true.into()));
        let bytes = line["bytes"].as_u64().expect("a number");
        assert!((1..LARGE_BYTES).contains(&bytes), "{bytes}");
        drop(client);
        fs::remove_file(&log).expect("a log for each way");
    });
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn sighup_reopens_the_log() {
    with_log("combined", |server, log| {
        server.get("/");
        lines(log, 1);
        let rotated = log.with_extension("1");
        fs::rename(log, &rotated).expect("rotated");
        server.get("/docs/");
        lines(&rotated, 2);
        server.signal(Signal::HUP);
        wait_for("a new log", || log.exists().then_some(()));
        server.get("/nothing");
        assert!(lines(log, 1)[0].contains("/nothing"));
        lines(&rotated, 2);
    });
}

#[test]
fn every_request_of_a_burst_is_logged_or_counted_as_dropped() {
    const REQUESTS: usize = 20_000;
    with_log_in(
        |matrix| matrix.plain_only("two threads share the socket"),
        "json",
        |server, log| {
            let mut connection = server.connect();
            let mut sending = connection.stream().try_clone().expect("a second handle");
            let writer = std::thread::spawn(move || {
                use std::io::Write;
                let bytes = Request::get("/").bytes().repeat(REQUESTS);
                sending.write_all(&bytes).expect("the server takes them");
            });
            for _ in 0..REQUESTS {
                assert_eq!(connection.receive().status, 200);
            }
            writer.join().expect("written");
            wait_for("every request", || {
                let written = fs::read_to_string(log).unwrap_or_default().lines().count();
                (written + dropped(server) >= REQUESTS).then_some(())
            });
            let written = fs::read_to_string(log).expect("the log").lines().count();
            assert_eq!(written + dropped(server), REQUESTS);
        },
    );
}

/// Returns the sum of dropped lines that stderr reports.
fn dropped(server: &Server) -> usize {
    let lines = server.lines().into_iter().filter(|line| line.contains("dropped"));
    let number = |line: String| {
        let digits = line.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty());
        digits.and_then(|digits| digits.parse::<usize>().ok()).expect("a number")
    };
    lines.map(number).sum()
}

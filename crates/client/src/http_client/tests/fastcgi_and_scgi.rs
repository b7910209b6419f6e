//! Tests of requests to applications with FastCGI and SCGI. The wire formats have their own tests
//! (`pinion_http`); these are about connections.

use super::*;
use crate::limits::{BUSY_SOCKET_RETRY_MAX_MS, POOL_IDLE_TIMEOUT_MS, STDERR_KEPT_MAX_BYTES};
use rustix::io::Errno;

const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

fn variables() -> OwnedFields {
    let mut variables = OwnedFields::default();
    variables.push(b"REQUEST_METHOD", b"GET");
    variables.push(b"SCRIPT_NAME", b"/x.php");
    variables
}

fn fastcgi(content: RequestBody) -> ClientRequest {
    let protocol = ServerProtocol::FastCgi { variables: variables(), keep_connection: true };
    ClientRequest { content, protocol, ..get(URL) }
}

/// A record of request 1 (FastCGI §3.3).
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("a record").to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

/// `FCGI_END_REQUEST` with status 0 (§5.5).
fn end() -> Vec<u8> {
    record(3, &[0; 8])
}

fn document(content: &str) -> Vec<u8> {
    record(STDOUT, format!("Content-Type: text/plain\r\n\r\n{content}").as_bytes())
}

/// Returns the records of a request that the application has received, as types and contents.
fn received(run: &Run, server: Client) -> Vec<(u8, Vec<u8>)> {
    let mut bytes = Vec::new();
    run.network.read(server, 1 << 20, &mut bytes);
    let (mut records, mut rest) = (Vec::new(), &bytes[..]);
    while let [1, kind, 0, 1, high, low, padding, 0, behind @ ..] = rest {
        let (content, behind) = behind.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        records.push((*kind, content.to_vec()));
        rest = &behind[usize::from(*padding)..];
    }
    assert_eq!(rest, b"", "whole records");
    records
}

#[test]
fn requests_to_a_fastcgi_application_share_a_connection() {
    let mut run = Run::new(4);
    let mut ids = vec![run.start(fastcgi(RequestBody::Whole([].into())))];
    let (server, _) = run.accept();
    for number in 0..3 {
        let records = received(&run, server);
        // Responder, FCGI_KEEP_CONN.
        assert_eq!(records[0], (1, vec![0, 1, 1, 0, 0, 0, 0, 0]));
        assert_eq!(records[1], (4, b"\x0e\x03REQUEST_METHODGET\x0b\x06SCRIPT_NAME/x.php".to_vec()));
        assert_eq!(records[2..], [(4, Vec::new()), (STDIN, Vec::new())]);
        let text = format!("response {number}");
        run.respond(server, &[document(&text), record(STDERR, b"a warning"), end()].concat());
        let id = ids[number];
        let start = run.client().response(id).expect("no error").expect("a response").clone();
        assert_eq!((start.status, start.content_length), (200, None));
        assert_eq!(run.read_all(id), (text.into_bytes(), ReadOutcome::End));
        assert_eq!(run.client().take_stderr(id), b"a warning");
        ids.push(run.start(fastcgi(RequestBody::Whole([].into()))));
        assert!(run.network.next_opened().is_none(), "the connection is used again");
    }
    run.end(&ids);
}

#[test]
fn little_of_the_error_stream_is_kept() {
    let mut run = Run::new(4);
    let id = run.start(fastcgi(RequestBody::Whole([].into())));
    let (server, _) = run.accept();
    for _ in 0..4 {
        run.respond(server, &record(STDERR, &[b'x'; 3000]));
    }
    assert_eq!(run.client().take_stderr(id).len(), STDERR_KEPT_MAX_BYTES);
    run.respond(server, &[record(STDERR, b"the next"), document("page"), end()].concat());
    assert_eq!(run.client().take_stderr(id), b"the next");
    assert_eq!(run.read_all(id), (b"page".to_vec(), ReadOutcome::End));
    run.end(&[id]);
}

#[test]
fn content_is_sent_as_records_while_the_response_comes() {
    let mut run = Run::new(4);
    let id = run.start(fastcgi(RequestBody::Pieces { length: None }));
    let (server, _) = run.accept();
    assert_eq!(received(&run, server).len(), 3, "the stream of content is open");
    run.client().write(id, Some(b"first"));
    run.passes();
    assert_eq!(received(&run, server), [(STDIN, b"first".to_vec())]);
    run.respond(server, &document("early"));
    assert_eq!(run.read_all(id), (b"early".to_vec(), ReadOutcome::Pending));
    run.client().write(id, Some(b"second"));
    run.client().write(id, None);
    run.passes();
    assert_eq!(received(&run, server), [(STDIN, b"second".to_vec()), (STDIN, Vec::new())]);
    run.respond(server, &end());
    assert_eq!(run.read_all(id).1, ReadOutcome::End);
    run.end(&[id]);
}

/// Without FCGI_END_REQUEST the response may have been cut anywhere.
#[test]
fn a_response_without_the_end_of_its_request_is_never_whole() {
    let whole = [document("content"), record(STDOUT, b""), end()].concat();
    for cut in 0..whole.len() {
        let mut run = Run::new(4);
        // It is not idempotent, so it is not sent again.
        let id = run.start(ClientRequest {
            method: "POST".into(),
            ..fastcgi(RequestBody::Whole([].into()))
        });
        let (server, _) = run.accept();
        run.respond(server, &whole[..cut]);
        run.network.leave(server);
        run.passes();
        let has_failed = run.error(id).is_some()
            || matches!(run.read_all(id), (content, ReadOutcome::Failed(_))
                if b"content".starts_with(&content));
        assert!(has_failed, "cut at {cut}");
        run.end(&[id]);
    }
}

#[test]
fn a_local_redirect_is_an_error_with_its_target() {
    let mut run = Run::new(4);
    let id = run.start(fastcgi(RequestBody::Whole([].into())));
    let (server, _) = run.accept();
    run.respond(server, &[record(STDOUT, b"Location: /other?a\n\n"), end()].concat());
    let error = run.client().response(id).expect_err("an error");
    assert_eq!(*error, HttpClientError::LocalRedirect((*b"/other?a").into()));
    run.end(&[id]);
}

#[test]
fn a_scgi_response_ends_with_its_connection() {
    let mut run = Run::new(4);
    let request = ClientRequest {
        method: "POST".into(),
        content: RequestBody::Whole((*b"content").into()),
        protocol: ServerProtocol::Scgi(variables()),
        ..get(URL)
    };
    let id = run.start(request.clone());
    let (server, _) = run.accept();
    let head = "CONTENT_LENGTH\x007\0SCGI\x001\0REQUEST_METHOD\0GET\0SCRIPT_NAME\0/x.php\0";
    assert_eq!(run.requested(server), format!("{}:{head},content", head.len()));
    run.respond(server, b"Status: 404 Not Found\nContent-Type: text/plain\n\nnothing");
    assert_eq!(run.read_all(id), (b"nothing".to_vec(), ReadOutcome::Pending));
    run.network.leave(server);
    run.passes();
    assert_eq!(run.read_all(id), (Vec::new(), ReadOutcome::End));
    let status = run.client().response(id).expect("no error").map(|start| start.status);
    assert_eq!(status, Some(404));
    // The length of the content has to be known.
    let unknown = ClientRequest { content: RequestBody::Pieces { length: None }, ..request };
    let now_ms = run.now_ms();
    assert!(matches!(run.client().start(unknown, now_ms), Err(HttpClientError::Variables(_))));
    run.end(&[id]);
}

/// An application that serves one request of a connection closes it after the response.
#[test]
fn a_connection_that_is_not_kept_is_closed_by_the_application() {
    let mut run = Run::new(4);
    let protocol = ServerProtocol::FastCgi { variables: variables(), keep_connection: false };
    let connections = KeyLimits { idle_max: 0, ..KeyLimits::NONE };
    let request = ClientRequest { protocol, connections, ..get(URL) };
    let id = run.start(request.clone());
    let (server, _) = run.accept();
    // Responder, without FCGI_KEEP_CONN.
    assert_eq!(received(&run, server)[0], (1, vec![0, 1, 0, 0, 0, 0, 0, 0]));
    run.respond(server, &[document("one"), end()].concat());
    assert_eq!(run.read_all(id), (b"one".to_vec(), ReadOutcome::End));
    let next = run.start(request);
    assert!(run.network.is_closed(server), "no request will use it");
    let (server, _) = run.accept();
    run.respond(server, &[document("two"), end()].concat());
    assert_eq!(run.read_all(next), (b"two".to_vec(), ReadOutcome::End));
    run.end(&[id, next]);
}

/// §5.4: the application learns that its response is not wanted any more, wherever it is.
#[test]
fn an_abandoned_request_is_aborted() {
    const ABORT: u8 = 2;
    for sent in [&b""[..], &document("some content")] {
        let mut run = Run::new(4);
        let id = run.start(fastcgi(RequestBody::Pieces { length: None }));
        let (server, _) = run.accept();
        received(&run, server);
        run.respond(server, sent);
        run.client().close(id);
        run.passes();
        assert_eq!(received(&run, server), [(ABORT, Vec::new())]);
        assert!(run.network.is_closed(server), "no other request is sent on it");
        run.end(&[]);
    }
}

/// connect(2) fails at once for a Unix socket whose queue is full. The server exists, so the
/// request waits for it, but not for ever.
#[test]
fn a_full_queue_of_a_unix_socket_is_waited_for() {
    let path = std::path::Path::new("/run/app.sock");
    let local = || {
        let url = RequestUrl::parse(URL).expect("a URL").over_socket(path).expect("a path");
        let policy = Arc::new(AddressPolicy::new(PrivateAddresses::Allowed, [], [path.into()]));
        ClientRequest { url, policy, ..fastcgi(RequestBody::Whole([].into())) }
    };
    let mut run = Run::new(4);
    let id = run.start(local());
    for _ in 0..20 {
        let (server, _) = run.network.next_opened().expect("another attempt");
        run.network.refuse(server, Errno::AGAIN);
        run.passes();
        let due_ms = run.now_ms() + BUSY_SOCKET_RETRY_MAX_MS;
        run.pass_until(due_ms);
        assert_eq!(run.error(id), None);
    }
    let (server, _) = run.accept();
    run.respond(server, &[document("late"), end()].concat());
    assert_eq!(run.read_all(id), (b"late".to_vec(), ReadOutcome::End));
    run.client().close(id);
    // The queue stays full.
    run.pass_until(run.now_ms() + POOL_IDLE_TIMEOUT_MS + 1000);
    let id = run.start(local());
    let due_ms = run.now_ms() + TIMEOUT_MS;
    while let Some((server, _)) = run.network.next_opened() {
        assert!(run.now_ms() <= due_ms, "an attempt after the time for it");
        run.network.refuse(server, Errno::AGAIN);
        run.passes();
        run.pass_until(run.now_ms() + BUSY_SOCKET_RETRY_MAX_MS);
    }
    let error = run.client().response(id).expect_err("an error");
    assert!(matches!(*error, HttpClientError::ConnectTimeout(TIMEOUT_MS)), "{error}");
    run.end(&[id]);
}

//! Tests of request content that the server reads slowly, or not at all.

use super::*;
use crate::limits::SEND_LOOKS;

/// A body of a megabyte for a server that has this window.
fn upload(run: &mut Run, content: RequestBody, window_bytes: usize) -> (RequestId, Client) {
    let request = ClientRequest { method: "POST".into(), content, ..get(URL) };
    let id = run.start(request);
    let (server, _) = run.network.next_opened().expect("a connection is opened");
    run.network.establish(server, window_bytes);
    run.passes();
    (id, server)
}

fn megabyte() -> RequestBody {
    RequestBody::Whole(vec![b'u'; 1 << 20].into())
}

/// Lets the server read this much in each half of the time limit. Returns the bytes that it has
/// got.
fn read_slowly(run: &mut Run, server: Client, step_bytes: usize, until_bytes: usize) -> usize {
    let mut read = Vec::new();
    while read.len() < until_bytes {
        let before = read.len();
        run.network.read(server, step_bytes, &mut read);
        assert!(read.len() > before, "{before} bytes of the upload have come");
        let next_ms = run.now_ms() + TIMEOUT_MS / 2;
        run.pass_until(next_ms);
    }
    read.len()
}

/// The timeout is for a lack of progress, so an upload may take many times as long.
#[test]
fn an_upload_over_a_slow_path_continues() {
    let head_bytes = 200;
    // The server first reads all of it but the bytes that the kernel of the client keeps, and then
    // the rest.
    for window_bytes in [64 << 10, 2 << 20] {
        let mut run = Run::new(4);
        let begun_ms = run.now_ms();
        let (id, server) = upload(&mut run, megabyte(), window_bytes);
        read_slowly(&mut run, server, 60_000, (1 << 20) - head_bytes);
        assert!(run.now_ms() - begun_ms > 5 * TIMEOUT_MS);
        assert_eq!(run.error(id), None);
        run.respond(server, OK);
        assert_eq!(run.read_all(id), (b"ok".to_vec(), ReadOutcome::End));
        run.end(&[id]);
    }
}

#[test]
fn pieces_over_a_slow_path_continue() {
    let mut run = Run::new(4);
    let begun_ms = run.now_ms();
    let (id, server) = upload(&mut run, RequestBody::Pieces { length: None }, 64 << 10);
    let (mut written, mut read) = (0, Vec::new());
    while written < 1 << 20 || run.network.facts(server).unread_bytes > 0 {
        while written < 1 << 20 && run.client().takes_content(id) {
            run.client().write(id, Some(&[b'u'; 30_000]));
            written += 30_000;
            if written >= 1 << 20 {
                run.client().write(id, None);
            }
            run.passes();
        }
        run.network.read(server, 60_000, &mut read);
        let next_ms = run.now_ms() + TIMEOUT_MS / 2;
        run.pass_until(next_ms);
        assert_eq!(run.error(id), None, "{written} written, {} read", read.len());
    }
    assert!(read.ends_with(b"\r\n0\r\n\r\n") && run.now_ms() - begun_ms > 5 * TIMEOUT_MS);
    run.respond(server, OK);
    assert_eq!(run.read_all(id), (b"ok".to_vec(), ReadOutcome::End));
    run.end(&[id]);
}

/// A server that stops reading has the whole time once more, and no longer.
#[test]
fn a_stalled_upload_times_out() {
    for (read_bytes, reason) in [(100_000, "took nothing"), (1 << 20, "no response within")] {
        let mut run = Run::new(4);
        let (id, server) = upload(&mut run, megabyte(), 64 << 10);
        read_slowly(&mut run, server, 60_000, read_bytes);
        let last_ms = run.now_ms() - TIMEOUT_MS / 2;
        while run.error(id).is_none() {
            run.pass(100);
            let late_ms = TIMEOUT_MS / SEND_LOOKS + 200;
            assert!(run.now_ms() - last_ms <= TIMEOUT_MS + late_ms, "{reason}");
        }
        assert!(run.now_ms() - last_ms >= TIMEOUT_MS, "{reason}");
        let error = run.error(id).expect("an error");
        assert!(error.contains(reason), "{error}");
        run.end(&[id]);
    }
}

/// A small body is sent at once, so the time is that of the wait for the response.
#[test]
fn a_silent_server_after_a_small_body_times_out() {
    let mut run = Run::new(4);
    let begun_ms = run.now_ms();
    let (id, server) = upload(&mut run, RequestBody::Whole(b"small"[..].into()), 64 << 10);
    assert!(run.requested(server).ends_with("\r\n\r\nsmall"));
    while run.error(id).is_none() {
        run.pass(100);
    }
    let took_ms = run.now_ms() - begun_ms;
    let latest_ms = TIMEOUT_MS + TIMEOUT_MS / SEND_LOOKS + 200;
    assert!((TIMEOUT_MS..=latest_ms).contains(&took_ms), "{took_ms} ms");
    run.end(&[id]);
}

/// Trailers are sent once, although a request is handled with each piece of its response.
#[test]
fn trailers_of_a_request_are_sent_once() {
    let mut run = Run::new(4);
    let (id, server) = upload(&mut run, RequestBody::Pieces { length: None }, 64 << 10);
    let mut trailers = OwnedFields::default();
    trailers.push(b"X-Sum", b"7");
    run.client().write(id, Some(b"content"));
    run.client().write_end(id, trailers);
    run.passes();
    let (head, content) = OK.split_at(OK.len() - 2);
    run.respond(server, head);
    run.respond(server, &content[..1]);
    assert_eq!(run.error(id), None);
    run.respond(server, &content[1..]);
    assert_eq!(run.read_all(id), (b"ok".to_vec(), ReadOutcome::End));
    let requested = run.requested(server);
    assert!(requested.ends_with("\r\n\r\n7\r\ncontent\r\n0\r\nX-Sum: 7\r\n\r\n"), "{requested}");
    run.end(&[id]);
}

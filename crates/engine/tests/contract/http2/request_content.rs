//! The content of requests: wants and the report of the end, trailers, the limit, and the use of
//! windows.

use std::net::Shutdown;
use std::time::Duration;

use pinion_engine::app::Gone;

use super::Http2;
use crate::on_both;
use crate::strict::End;
use crate::test_server::{TestServer, UPLOAD_MAX_BYTES};

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn bodies_stream_both_ways() {
    on_both(|server| {
        let content: Vec<u8> = (0..500_000u32).map(|n| (n % 253) as u8).collect();
        let length = content.len().to_string();
        for fields in [&[("content-length", length.as_str())][..], &[]] {
            let mut http2 = Http2::connect(&server);
            let ids = [0; 3].map(|_| http2.client.request("POST", "/echo", fields, false));
            for id in ids {
                http2.send(id, &content, &[]);
            }
            assert_eq!(http2.get("/hello"), "hello world!\n");
            for id in ids {
                http2.content_of(id);
                assert!(http2.client.streams[&id].content == content);
            }
        }
    });
}

#[test]
fn continue_is_sent_only_when_the_handler_wants_content() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        let fields = [("content-length", "2"), ("expect", "100-continue")];
        let id = http2.client.request("POST", "/echo", &fields, false);
        http2.until(|client| !client.streams[&id].interim.is_empty());
        assert_eq!(http2.client.streams[&id].interim, [100]);
        http2.send(id, b"ok", &[]);
        assert_eq!(http2.content_of(id), "ok");
        let id = http2.client.request("POST", "/hello", &fields, false);
        assert_eq!(http2.content_of(id), "hello world!\n");
        assert!(http2.client.streams[&id].interim.is_empty());
    });
}

#[test]
fn trailers_are_received_and_sent() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        let sent = [("sum", "209"), ("host", "evil"), ("content_length", "7"), ("sign", "x, y")];
        for content in [&b"hi"[..], b""] {
            let id = http2.client.request("POST", "/count", &[], false);
            http2.send(id, content, &sent);
            assert_eq!(http2.content_of(id), format!("{} bytes", content.len()));
            let expected = [("sum", "209"), ("sign", "x, y")].map(|(n, v)| (n.into(), v.into()));
            assert_eq!(http2.client.streams[&id].trailers, expected);
        }
        let id = http2.client.request("POST", "/count", &[], false);
        http2.send(id, b"hi", &[("host", "evil")]);
        assert_eq!(http2.content_of(id), "2 bytes");
        assert!(http2.client.streams[&id].trailers.is_empty());
    });
}

/// `/five` wants five bytes and never more.
#[test]
fn the_end_of_content_is_reported_without_being_requested() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        for pieces in [&["hello"][..], &["he", "", "llo"], &["hello", ""], &[""], &["h", "ello"]] {
            for trailers in [&[("sum", "7")][..], &[]] {
                let id = http2.client.request("POST", "/five", &[], false);
                for piece in pieces {
                    http2.client.data(id, piece.as_bytes(), false);
                    http2.seen();
                }
                http2.send(id, b"", trailers);
                let bytes = pieces.concat().len();
                assert_eq!(http2.content_of(id), format!("{bytes} bytes"), "{pieces:?}");
            }
        }
    });
}

/// Begins an upload with or without a known length, and sends the content once it is wanted.
fn upload(http2: &mut Http2, server: &TestServer, path: &str, bytes: u64, says: bool) -> u32 {
    let length = bytes.to_string();
    let fields = [("content-length", length.as_str()), ("expect", "100-continue")];
    let fields = if says { &fields[..] } else { &[] };
    let id = http2.client.request("POST", path, fields, false);
    let is_kept = path.starts_with("/later");
    if is_kept {
        // Content that fits into the initial window arrives before the handler wants it.
        let first = vec![b'x'; bytes.min(1000) as usize];
        http2.client.data(id, &first, first.len() as u64 == bytes);
        http2.seen();
        server.post(server.next_waiting(), "go on");
    }
    if says {
        http2.until(|client| {
            let stream = &client.streams[&id];
            stream.end.is_some() || !stream.interim.is_empty()
        });
    }
    let sent = if is_kept { bytes.min(1000) } else { 0 };
    if http2.client.streams[&id].end.is_none() {
        http2.send(id, &vec![b'x'; (bytes - sent) as usize], &[]);
    }
    http2.end_of(id);
    id
}

#[test]
fn content_is_held_to_the_limit_of_its_handler() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        for (path, bytes, allowed) in [
            ("/count", 1 << 20, true),
            ("/count", (1 << 20) + 1, false),
            ("/upload", UPLOAD_MAX_BYTES, true),
            ("/upload", UPLOAD_MAX_BYTES + 1, false),
            ("/later", UPLOAD_MAX_BYTES, true),
            ("/later", UPLOAD_MAX_BYTES + 1, false),
            ("/little", 3, true),
            ("/little", 4, false),
            ("/later-little", 3, true),
            ("/later-little", 4, false),
        ] {
            for says in [true, false] {
                let id = upload(&mut http2, &server, path, bytes, says);
                let stream = &http2.client.streams[&id];
                let case = format!("{path}, {bytes} bytes, said {says}: {:?}", stream.status);
                assert_eq!(stream.end, Some(End::Whole), "{case}");
                if allowed {
                    assert_eq!(stream.content, format!("{bytes} bytes").as_bytes(), "{case}");
                    continue;
                }
                assert_eq!(stream.status, Some(413), "{case}");
                let gone = server.gone.recv_timeout(PATIENCE);
                assert_eq!(gone, Ok(Gone::ContentTooLarge), "{case}");
            }
        }
        let huge = [("content-length", "18446744073709551615")];
        for (path, status) in [("/hello", 200), ("/nothing", 413), ("/count", 413)] {
            let id = http2.client.request("POST", path, &huge, false);
            assert_eq!(http2.end_of(id).status, Some(status), "{path}");
        }
        assert_eq!(http2.get("/hello"), "hello world!\n", "it goes on");
    });
}

/// Content that was kept and never wanted holds no window of the connection after the end of its
/// stream, for any reason.
#[test]
fn unread_content_returns_its_connection_window() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        let some = [b'x'; 16_000];
        for n in 0..60 {
            let id = http2.client.request("POST", "/waits", &[], false);
            assert_eq!(http2.client.data(id, &some, n % 2 == 0), some.len(), "round {n}");
            http2.seen();
            let waiting = server.next_waiting();
            if n % 3 == 0 {
                http2.client.reset(id);
                http2.seen();
                assert_eq!(server.gone.recv_timeout(PATIENCE), Ok(Gone::Peer));
            } else {
                server.post(waiting, "unread");
                assert_eq!(http2.content_of(id), "unread");
            }
        }
        let id = http2.client.request("POST", "/count", &[], false);
        http2.send(id, &[b'x'; 900_000], &[]);
        assert_eq!(http2.content_of(id), "900000 bytes");
    });
}

/// RFC 9113 §5.2: an unread stream stops at its own window, and leaves that of the connection to
/// the others.
#[test]
fn unread_streams_do_not_block_others() {
    const WINDOW_BYTES: usize = 65_535;
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        // The client has received all window updates with this response.
        assert_eq!(http2.get("/hello"), "hello world!\n");
        for _ in 0..100 {
            let id = http2.client.request("POST", "/waits", &[], false);
            let parts = [(); 5].map(|()| http2.client.data(id, &[b'x'; 1 << 14], false));
            assert_eq!(parts.iter().sum::<usize>(), WINDOW_BYTES);
            http2.flush();
            server.next_waiting();
        }
        let id = http2.client.request("POST", "/count", &[], false);
        http2.send(id, &[b'x'; 900_000], &[]);
        assert_eq!(http2.content_of(id), "900000 bytes");
    });
}

/// Some clients read nothing before they have sent all, so the windows stay open for a while after
/// an early response.
#[test]
fn after_an_early_response_a_client_may_continue_to_send() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        for (bytes, is_asked_to_stop) in [(1 << 20, false), ((1 << 20) + 1, true)] {
            let length = bytes.to_string();
            let fields = [("content-length", length.as_str())];
            let id = http2.client.request("POST", "/hello", &fields, false);
            assert_eq!(http2.content_of(id), "hello world!\n");
            let mut sent = 0;
            while sent < 1 << 20 {
                let now = http2.client.data_behind_response(id, bytes - sent);
                http2.seen();
                sent += now;
            }
            assert_eq!(
                (sent, http2.client.streams[&id].asked_to_stop),
                (1 << 20, is_asked_to_stop)
            );
        }
    });
}

#[test]
fn a_client_that_leaves_is_reported_to_the_handler() {
    on_both(|server| {
        let half = |path| {
            let mut http2 = Http2::connect(&server);
            let id = http2.client.request("POST", path, &[("content-length", "9")], false);
            http2.client.data(id, b"half", false);
            http2.seen();
            (http2, id)
        };
        let (mut http2, id) = half("/echo");
        http2.client.reset(id);
        http2.seen();
        assert_eq!(server.gone.recv_timeout(PATIENCE), Ok(Gone::Peer), "by a reset");
        assert_eq!(http2.get("/hello"), "hello world!\n");
        for path in ["/echo", "/count"] {
            drop(half(path));
            assert_eq!(server.gone.recv_timeout(PATIENCE), Ok(Gone::Peer), "by closing");
            let (mut http2, _) = half(path);
            let waits = http2.client.get("/waits");
            http2.flush();
            let waiting = server.next_waiting();
            http2.socket.shutdown(Shutdown::Write).unwrap();
            assert_eq!(server.gone.recv_timeout(PATIENCE), Ok(Gone::Peer), "by its end");
            server.post(waiting, "whole");
            assert_eq!(http2.content_of(waits), "whole", "a request that was complete");
            http2.closed();
        }
        assert!(server.gone.try_recv().is_err(), "once each");
    });
}

/// All waiting requests get the event that their client sends no more, each once, and can still
/// respond.
#[test]
fn exchanges_are_notified_of_the_end_of_client_input() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        let ids =
            ["/until-input-end", "/waits", "/until-input-end"].map(|path| http2.client.get(path));
        http2.flush();
        let waiting = server.next_waiting();
        http2.socket.shutdown(Shutdown::Write).unwrap();
        for id in [ids[0], ids[2]] {
            assert_eq!(http2.content_of(id), "no more\n");
        }
        server.post(waiting, "another");
        assert_eq!(http2.content_of(ids[1]), "another");
        http2.closed();
    });
}

#[test]
fn content_of_another_length_ends_its_stream() {
    on_both(|server| {
        const PROTOCOL_ERROR: u32 = 1;
        let mut http2 = Http2::connect(&server);
        for content in [&b"123"[..], b"12345"] {
            let id = http2.client.request("POST", "/count", &[("content-length", "4")], false);
            http2.client.data(id, content, true);
            assert_eq!(http2.end_of(id).end, Some(End::Reset(PROTOCOL_ERROR)));
            assert_eq!(server.gone.recv_timeout(PATIENCE), Ok(Gone::Refused));
        }
        assert_eq!(http2.get("/hello"), "hello world!\n");
    });
}

//! Content of requests and responses.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pinion_engine::app::Gone;
use pinion_engine::server::Io;
use pinion_engine::settings::WorkerSettings;

use std::io::Read;

use crate::http3::{GET, Http3, POST, RUNTIME, frame, head, wait};
use crate::on_both;
use crate::test_server::{CODED, TestServer};

#[test]
fn a_handler_is_notified_of_a_changed_file() {
    on_both(|server| {
        let client = Http3::connect(&server);
        for path in ["/shrinks", "/directory"] {
            let (mut sender, mut receiver) = client.open(&head(GET, path));
            sender.finish().expect("open");
            // H3_INTERNAL_ERROR.
            let ended = wait(receiver.read_to_end(1 << 23)).expect_err("a reset");
            assert!(ended.to_string().contains("258"), "{ended}");
            assert_eq!(server.gone.recv_timeout(Duration::from_secs(10)), Ok(Gone::Broken));
        }
        assert!(client.get("/hello").ends_with(b"hello world!\n"));
    });
}

/// Returns the decoded content of a response: a head, then frames of compressed content.
#[test]
fn content_is_compressed_as_it_goes_out() {
    // "accept-encoding: gzip, deflate, br" of the static table (RFC 9204 §A), at the end of a head.
    const ACCEPTS: u8 = 0xc0 | 31;
    on_both(|server| {
        let client = Http3::connect(&server);
        let request = frame(0x1, &[&head(GET, "/coded")[2..], &[ACCEPTS]].concat());
        let (mut sender, mut receiver) = client.open(&request);
        sender.finish().expect("open");
        let response = wait(receiver.read_to_end(1 << 20)).expect("an answer");
        let (mut rest, mut content) = (&response[..], Vec::new());
        while let [kind, length, behind @ ..] = rest {
            // Lengths have one byte or two (RFC 9000 §16).
            let (bytes, behind) = match length >> 6 {
                0 => (usize::from(*length), behind),
                _ => (usize::from(length & 0x3f) << 8 | usize::from(behind[0]), &behind[1..]),
            };
            if *kind == 0x0 {
                content.extend_from_slice(&behind[..bytes]);
            }
            rest = &behind[bytes..];
        }
        let mut decoded = Vec::new();
        flate2::read::GzDecoder::new(&content[..]).read_to_end(&mut decoded).expect("gzip");
        assert!(decoded == CODED && content.len() < 200, "{} bytes", content.len());
    });
}

/// Unread content fills only the window of its own stream.
#[test]
fn an_unread_stream_does_not_block_others() {
    on_both(|server| {
        let client = Http3::connect(&server);
        let (mut sender, _receiver) = client.open(&head(POST, "/forever"));
        // A frame of DATA that is larger than any window.
        let data = [&[0x0, 0x80, 0x80, 0, 0][..], &vec![b'x'; 1 << 23]].concat();
        let is_full = wait(poll_fn(|context| {
            Poll::Ready(pin!(sender.write_all(&data)).poll(context).is_pending())
        }));
        assert!(is_full, "nobody reads it");
        assert!(client.get("/hello").ends_with(b"hello world!\n"));
    });
}

/// Returns the header of a DATA frame of this many bytes, with a length of four bytes.
fn data_header(bytes: usize) -> [u8; 5] {
    let [_, high, middle, low] = (bytes as u32).to_be_bytes();
    [0x0, 0x80, high, middle, low]
}

/// Returns this much content in DATA frames of a size.
fn content(bytes: usize, frame_bytes: usize) -> Vec<u8> {
    let piece = vec![b'x'; frame_bytes];
    let frame = if frame_bytes < 64 {
        frame(0x0, &piece)
    } else {
        [&data_header(frame_bytes)[..], &piece].concat()
    };
    frame.repeat(bytes / frame_bytes)
}

/// Asserts that a request without content, and one whose content is read, get their responses on a
/// connection with unread requests.
#[track_caller]
fn is_held_up_by_nobody(client: &Http3) {
    assert!(client.get("/hello").ends_with(b"hello world!\n"));
    let (mut sender, mut receiver) = client.open(&head(POST, "/count"));
    let data = content(100_000, 100_000);
    for _ in 0..5 {
        wait(sender.write_all(&data)).expect("written");
    }
    sender.finish().expect("open");
    let response = wait(receiver.read_to_end(1 << 20)).expect("an answer");
    assert!(response.ends_with(b"500000 bytes"));
}

/// RFC 9000 §4.1: unread content uses the window of the connection, which is as large as those of
/// all streams. The headers of small frames use it as well.
#[test]
fn many_unread_streams_do_not_block_others() {
    const BYTES: usize = 100_000;
    on_both(|server| {
        for (streams, frame_bytes) in [(20, BYTES), (4, 1), (100, 8)] {
            let client = Http3::connect(&server);
            let data = content(BYTES, frame_bytes);
            let unread: Vec<_> = (0..streams)
                .map(|_| {
                    let (mut sender, receiver) = client.open(&head(POST, "/forever"));
                    wait(sender.write_all(&data)).expect("written");
                    (sender, receiver)
                })
                .collect();
            is_held_up_by_nobody(&client);
            drop(unread);
        }
    });
}

/// The windows permit more than there is memory: requests that hold the most are aborted, so that
/// all others continue, and no connection is closed for this.
#[test]
fn unread_requests_are_aborted_when_memory_is_short() {
    /// `:status: 503` of the static table (RFC 9204 §A), after the prefix of a field section.
    const UNAVAILABLE: [u8; 3] = [0, 0, 0xc0 | 28];
    for io in [Io::Epoll, Io::Uring] {
        for (budget_bytes, streams, bytes) in [(32 << 20, 12, 4_000_000), (64 << 20, 100, 1 << 20)]
        {
            let settings =
                WorkerSettings { buffer_bytes: budget_bytes, ..WorkerSettings::default() };
            let server = TestServer::start(io, settings);
            let client = Http3::connect(&server);
            let data = content(bytes, bytes);
            let mut unread: Vec<_> = (0..streams)
                .map(|_| {
                    let (mut sender, receiver) = client.open(&head(POST, "/forever"));
                    // A client may be asked to stop after its response.
                    let _stopped = wait(sender.write_all(&data));
                    (sender, receiver)
                })
                .collect();
            is_held_up_by_nobody(&client);
            let gone: Vec<Gone> = server.gone.try_iter().collect();
            assert!(gone.iter().all(|why| *why == Gone::Overload), "{gone:?}");
            let is_some = (1..streams).contains(&gone.len());
            assert!(is_some, "{} of {streams}", gone.len());
            // Each of these requests has its response.
            let mut responses = tokio::task::JoinSet::new();
            for (_, mut receiver) in unread.drain(..) {
                let response = async move { receiver.read_chunk(1000, true).await };
                responses.spawn_on(response, RUNTIME.handle());
            }
            for _ in 0..gone.len() {
                let chunk = wait(responses.join_next()).expect("a stream").expect("no panic");
                let bytes = chunk.expect("a response").expect("a head").bytes;
                // The bytes follow the type of the frame and a length of two bytes.
                assert!(bytes[3..].starts_with(&UNAVAILABLE), "{:?}", &bytes[..10]);
            }
            is_held_up_by_nobody(&client);
        }
    }
}

/// A client with an early response may continue to send for a while, because some read nothing
/// before they have sent all; then it is asked to stop with H3_NO_ERROR (RFC 9114 §4.1.1).
#[test]
fn after_an_early_response_a_client_may_continue_to_send() {
    const NO_ERROR: u32 = 0x100;
    /// The header of a DATA frame of a gibibyte.
    const DATA: [u8; 9] = [0x0, 0xc0, 0, 0, 0, 0x40, 0, 0, 0];
    on_both(|server| {
        let client = Http3::connect(&server);
        for (parts, stopped) in [(15, None), (17, Some(NO_ERROR.into()))] {
            let request = [&head(POST, "/hello")[..], &DATA[..]].concat();
            let (mut sender, mut receiver) = client.open(&request);
            let response = wait(receiver.read_to_end(1 << 20)).expect("an answer");
            assert!(response.ends_with(b"hello world!\n"));
            for _ in 0..parts {
                let written = wait(sender.write_all(&[b'x'; 64 * 1024]));
                assert!(written.is_ok() || stopped.is_some(), "{written:?}");
            }
            if stopped.is_none() {
                sender.finish().expect("open");
            }
            assert_eq!(wait(sender.stopped()).expect("connected"), stopped, "{parts}");
        }
    });
}

//! Frames of a Python process.

use pinion_http::cgi::error::CgiError;
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::h1::client::response_framing::ResponseFraming;
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::method::Method;
use pinion_http::python::child_frame::ChildFrame;
use pinion_http::python::error::ChildFrameError as Error;
use pinion_http::python::frame_header::ChildFrameKind as Kind;
use pinion_http::python::frame_reader::ChildFrameReader;
use pinion_http::python::frame_writer::{
    MessagePiece, channel_frame, write_closed, write_files, write_message,
};
use pinion_http::python::response_length_check::ResponseContentCheck;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::oracle::python_frames::{Event, Found, Head, check, check_frames, frame};

const CUT: usize = 7;

/// Returns a frame `RESPONSE`.
fn response(request: u32, head: &[u8], content: &[u8]) -> Vec<u8> {
    let head_bytes = u32::try_from(head.len()).expect("32 bits").to_le_bytes();
    frame(17, request, &[&head_bytes, head, content].concat())
}

fn ready() -> Vec<u8> {
    frame(16, 0, b"{}")
}

/// Returns the result for frames after `READY`.
fn frames(frames: &[Vec<u8>]) -> Found {
    let wire = [ready(), frames.concat()].concat();
    let mut found = check_frames(&ResponseLimits::default(), &wire, CUT);
    assert_eq!(found.events.remove(0), Event::Ready("{}".to_owned()));
    found
}

fn error(kind: u32, request: u32, content: &[u8]) -> Option<Error> {
    frames(&[frame(kind, request, content)]).error
}

fn head(status: u16, reason: &str, fields: &[(&str, &str)], content_length: Option<u64>) -> Head {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let fields = fields.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
    Head { status, reason: bytes(reason), fields, content_length }
}

#[test]
fn responses_of_requests_that_are_mixed() {
    let found = frames(&[
        frame(18, 1, b"200 OK\nContent-Length: 4\nX: \ty \n"),
        response(7, b"404 Not  Found\nA: b\na: c\n", b"gone"),
        frame(19, 1, b"he"),
        frame(19, 1, b""),
        frame(19, 1, b"re"),
        frame(23, 9, &[0, 0, 1, 0]),
        frame(24, 9, b"Link: </a>; rel=preload\n"),
        frame(20, 1, b""),
        frame(21, 9, b"broken \x00\xff"),
        frame(22, 8, b"ValueError: 1"),
        frame(25, 0, &[1, 0, 0, 0, 255, 255, 255, 255]),
        response(u32::MAX, b"204\n", b""),
    ]);
    assert_eq!(found.error, None);
    let fields = &[("Content-Length", "4"), ("X", "y")][..];
    let first = head(200, "OK", fields, Some(4));
    let second = head(404, "Not  Found", &[("A", "b"), ("a", "c")], None);
    let hints = vec![(b"Link".to_vec(), b"</a>; rel=preload".to_vec())];
    let expected = [
        Event::Head { request: 1, head: first, whole: None },
        Event::Head { request: 7, head: second, whole: Some(4) },
        Event::Content(7, b"gone".to_vec()),
        Event::WholeEnd(7),
        Event::Content(1, b"here".to_vec()),
        Event::Want(9, 65536),
        Event::Hints(9, hints),
        Event::End(1),
        Event::Abort(9, b"broken \x00\xff".to_vec()),
        Event::Failed(8, b"ValueError: 1".to_vec()),
        Event::GivenBack(vec![1, u32::MAX]),
        Event::Head { request: u32::MAX, head: head(204, "", &[], None), whole: Some(0) },
        Event::WholeEnd(u32::MAX),
    ];
    assert_eq!(found.events, expected);
}

/// PEP 3333: "applications are forbidden from using HTTP/1.1 'hop-by-hop' features or headers".
#[test]
fn fields_of_the_connection_are_left_out() {
    let text = b"200 OK\nConnection: X-A, close\nTransfer-Encoding: chunked\nKeep-Alive: 1\n\
                 Upgrade: h2c\nStatus: 500\nTE: a\nTrailer: b\nProxy-Connection: c\nx-a: d\nE: f\n";
    let kept = head(200, "OK", &[("E", "f")], None);
    let found = frames(&[response(1, text, b"")]);
    let expected = [Event::Head { request: 1, head: kept, whole: Some(0) }, Event::WholeEnd(1)];
    assert_eq!(found.events, expected);
}

#[test]
fn malformed_heads_are_the_fault_of_one_request() {
    let repeated = CgiError::RepeatedField { name: "Content-Length" };
    for (text, wrong) in [
        (&b""[..], CgiError::HeadIncomplete),
        (b"200 OK", CgiError::HeadIncomplete),
        (b"200 OK\nA: b", CgiError::HeadIncomplete),
        (b"\n", CgiError::InvalidStatus),
        (b"OK\n", CgiError::InvalidStatus),
        (b"100 Continue\n", CgiError::InvalidStatus),
        (b"20 OK\n", CgiError::InvalidStatus),
        (b"2000\n", CgiError::InvalidStatus),
        (b"200 OK\r\n", CgiError::InvalidStatus),
        (b"200 \x00\n", CgiError::InvalidStatus),
        (b"200 OK\n\n", CgiError::MalformedFieldLine),
        (b"200 OK\nA: b\r\n", CgiError::MalformedFieldLine),
        (b"200 OK\nA: b\x00c\n", CgiError::MalformedFieldLine),
        (b"200 OK\nA\n", CgiError::MalformedFieldLine),
        (b"200 OK\n: b\n", CgiError::MalformedFieldLine),
        (b"200 OK\nA : b\n", CgiError::MalformedFieldLine),
        (b"200 OK\n A: b\n", CgiError::MalformedFieldLine),
        (b"200 OK\nContent-Length: 1\ncontent-length: 1\n", repeated),
        (b"200 OK\nContent-Length: -1\n", CgiError::InvalidContentLength),
    ] {
        let next = response(2, b"200\n", b"");
        let found = frames(&[response(1, text, b"abc"), next.clone()]);
        let malformed = Event::MalformedHead { request: 1, error: wrong, is_end: true };
        assert_eq!(found.events[0], malformed, "{}", text.escape_ascii());
        assert_eq!((found.events.len(), found.error), (3, None), "the next response is there");
        let found = frames(&[frame(18, 1, text), next]);
        let malformed = Event::MalformedHead { request: 1, error: wrong, is_end: false };
        assert_eq!(found.events[0], malformed, "{}", text.escape_ascii());
        assert_eq!((found.events.len(), found.error), (3, None), "the next response is there");
    }
}

#[test]
fn heads_over_a_limit_are_skipped() {
    for (bytes, is_good) in [(65536, true), (65537, false), (1 << 20, false)] {
        let mut text = b"200 OK\nA: ".to_vec();
        text.resize(bytes - 1, b'x');
        text.push(b'\n');
        for wire in [response(1, &text, b"content"), frame(18, 1, &text)] {
            let found = frames(&[wire, frame(20, 2, b"")]);
            let is_head = matches!(found.events[0], Event::Head { .. });
            assert_eq!((is_head, found.error), (is_good, None));
            assert_eq!(found.events.last(), Some(&Event::End(2)));
        }
    }
    let fields = |count: usize| [b"200 OK\n".to_vec(), b"A: b\n".repeat(count)].concat();
    let good = &frames(&[frame(18, 1, &fields(200))]).events[0];
    assert!(matches!(good, Event::Head { head, .. } if head.fields.len() == 200));
    let error = CgiError::TooManyFields { max: 200 };
    let many = &frames(&[frame(18, 1, &fields(201))]).events[0];
    assert_eq!(*many, Event::MalformedHead { request: 1, error, is_end: false });
}

#[test]
fn invalid_frames_of_a_process_are_errors() {
    assert_eq!(error(0, 1, b""), Some(Error::Kind { kind: 0 }));
    assert_eq!(error(31, 1, b""), Some(Error::Kind { kind: 31 }));
    assert_eq!(error(1 << 24 | 20, 1, b""), Some(Error::Kind { kind: 0x0100_0014 }));
    assert_eq!(error(16, 0, b"{}"), Some(Error::ReadyAgain));
    let number = |kind, request| Some(Error::RequestNumber { kind, request });
    assert_eq!(error(25, 1, b""), number(Kind::GivenBack, 1));
    assert_eq!(error(17, 0, b""), number(Kind::Response, 0));
    let length = |kind, bytes| Some(Error::Length { kind, bytes });
    assert_eq!(error(17, 1, b"abc"), length(Kind::Response, 3));
    assert_eq!(error(19, 1, &[0; 65537]), length(Kind::Content, 65537));
    assert_eq!(error(20, 1, b"a"), length(Kind::End, 1));
    assert_eq!(error(21, 1, &[0; 8193]), length(Kind::Abort, 8193));
    assert_eq!(error(23, 1, b"abc"), length(Kind::Want, 3));
    assert_eq!(error(25, 0, b"abcde"), length(Kind::GivenBack, 5));
    assert_eq!(error(24, 1, &[0; 1 << 20 | 1]), length(Kind::Hints, 1 << 20 | 1));
    let head_length = Error::HeadLength { head_bytes: 5, frame_bytes: 8 };
    assert_eq!(error(17, 1, &[5, 0, 0, 0, 1, 1, 1, 1]), Some(head_length));
    let long = response(1, b"200\n", &[0; 65537]);
    assert_eq!(frames(&[long]).error, length(Kind::Response, 65545));
    let limits = ResponseLimits::default();
    let first = check_frames(&limits, &frame(20, 1, b""), CUT);
    assert_eq!(first.error, Some(Error::NotReady { kind: Kind::End }));
    let first = check_frames(&limits, &frame(16, 0, b"\xff"), CUT);
    assert_eq!(first.error, Some(Error::ReadyText));
    let cut = ready();
    assert_eq!(check_frames(&limits, &cut[..5], CUT).error, Some(Error::Incomplete));
    assert_eq!(Error::Kind { kind: 7 }.to_string().split(' ').next_back(), Some("7"));
}

/// A frame that arrives in pieces is collected as it arrives, whatever length it announces.
#[test]
fn a_reader_allocates_no_more_than_has_arrived() {
    let mut reader = ChildFrameReader::new(&ResponseLimits::default());
    let mut storage = HeadStorage::new();
    reader.step(&ready(), &mut storage).expect("a good frame");
    let content = frame(19, 1, &[b'a'; 65536]);
    let mut bytes = 0;
    for piece in content.chunks(1000) {
        let mut rest = piece;
        while !rest.is_empty() {
            let step = reader.step(rest, &mut storage).expect("a good frame");
            if let Some(ChildFrame::Content { bytes: piece, .. }) = step.frame {
                assert!(rest.as_ptr_range().contains(&piece.as_ptr()), "it is not copied");
                bytes += piece.len();
            }
            rest = &rest[step.used..];
        }
    }
    assert_eq!(bytes, 65536);
}

/// Passes the head of a whole response to `check`.
fn with_head(text: &[u8], check: impl FnOnce(&ChildFrame<'_>)) {
    let mut reader = ChildFrameReader::new(&ResponseLimits::default());
    let mut storage = HeadStorage::new();
    reader.step(&ready(), &mut storage).expect("a good frame");
    let wire = response(1, text, b"abc");
    check(&reader.step(&wire, &mut storage).expect("a good frame").frame.expect("a frame"));
}

#[test]
fn content_must_match_the_length_in_its_head() {
    let limits = ResponseLimits { content_bytes: 5, ..ResponseLimits::default() };
    for (text, method, framing, errors) in [
        (&b"200 OK\nContent-Length: 3\n"[..], Method::Get, ResponseFraming::Length(3), [None; 3]),
        (b"200 OK\n", Method::Get, ResponseFraming::Length(3), [None; 3]),
        (b"200 OK\nContent-Length: 9\n", Method::Head, ResponseFraming::None, [None; 3]),
        (b"304\nContent-Length: 9\n", Method::Get, ResponseFraming::None, [None; 3]),
        (
            b"200 OK\nContent-Length: 4\n",
            Method::Get,
            ResponseFraming::Length(4),
            [
                None,
                Some(CgiError::ContentTooShort { missing_bytes: 1 }),
                Some(CgiError::ContentTooLong),
            ],
        ),
    ] {
        with_head(text, |frame| {
            let ChildFrame::Response { head, content, missing_bytes: 0, .. } = frame else {
                panic!("{frame:?}")
            };
            let whole = Some(content.len() as u32);
            assert_eq!(head.response_head(method, whole).framing, framing);
            let mut check = ResponseContentCheck::new(method, head, &limits);
            let first = check.take(content);
            assert_eq!(first.err(), errors[0]);
            let dropped = framing == ResponseFraming::None;
            assert_eq!(first.expect("no error").is_empty(), dropped);
            assert_eq!(check.end().err(), errors[1]);
            if errors[2].is_some() {
                assert_eq!(check.take(b"de").err(), errors[2]);
            }
        });
    }
    with_head(b"200 OK\n", |frame| {
        let ChildFrame::Response { head, .. } = frame else { panic!("{frame:?}") };
        let streamed = head.response_head(Method::Get, None).framing;
        assert_eq!(streamed, ResponseFraming::UntilClose);
        let mut check = ResponseContentCheck::new(Method::Get, head, &limits);
        assert_eq!(check.take(b"abcde").expect("within the limit"), b"abcde");
        assert_eq!(check.take(b"f"), Err(CgiError::ContentTooLarge { max_bytes: 5 }));
    });
}

fn any_head() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => Just(b"Content-Type: text/plain\n".to_vec()),
        2 => "[A-Za-z_-]{1,9}: [ -~]{0,20}\n".prop_map(String::into_bytes),
        1 => Just(b"Connection: x, y\n".to_vec()),
        1 => "[Cc]ontent-[Ll]ength: [0-9]{1,3}\n".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..20),
    ];
    let status = prop_oneof![
        5 => Just(b"200 OK\n".to_vec()),
        1 => "[0-9]{2,4} ?[a-z]{0,5}\n".prop_map(String::into_bytes),
    ];
    (status, vec(line, 0..5)).prop_map(|(status, lines)| [status, lines.concat()].concat())
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let request = 1..5_u32;
    let content = || vec(any::<u8>(), 0..100);
    prop_oneof![
        4 => (request.clone(), any_head(), content()).prop_map(|(n, h, c)| response(n, &h, &c)),
        2 => (request.clone(), any_head()).prop_map(|(n, h)| frame(18, n, &h)),
        2 => (request.clone(), content()).prop_map(|(n, c)| frame(19, n, &c)),
        1 => request.clone().prop_map(|n| frame(20, n, b"")),
        1 => (21..23_u32, request.clone(), content()).prop_map(|(k, n, c)| frame(k, n, &c)),
        1 => (request.clone(), any::<u32>()).prop_map(|(n, w)| frame(23, n, &w.to_le_bytes())),
        1 => (request.clone(), any_head()).prop_map(|(n, h)| frame(24, n, &h)),
        1 => (request.clone(), any_head()).prop_map(|(n, h)| {
            frame(26, n, &[b"101 x\n", &h[..]].concat())
        }),
        2 => (request.clone(), 0..4_u8, content()).prop_map(|(n, flags, c)| {
            frame(27, n, &[&[flags], &c[..]].concat())
        }),
        1 => (request.clone(), content())
            .prop_map(|(n, c)| frame(28, n, &[b"\xe8\x03", &c[..]].concat())),
        1 => (request, any::<[u8; 16]>()).prop_map(|(n, part)| frame(29, n, &part)),
        1 => Just(frame(30, 0, b"")),
        1 => vec(any::<[u8; 4]>(), 0..5).prop_map(|numbers| frame(25, 0, &numbers.concat())),
    ]
}

proptest! {
    /// Frames are read one by one, however they are cut, even if the last one is incomplete.
    #[test]
    fn frames_are_parsed_in_any_pieces(
        frames in vec(any_frame(), 0..8),
        cut in 1..200_usize,
        lost in 0..20_usize,
        small in any::<bool>(),
    ) {
        let mut wire = [ready(), frames.concat()].concat();
        wire.truncate(wire.len().saturating_sub(lost));
        let mut limits = ResponseLimits::default();
        if small {
            limits.head_bytes = 60;
            limits.fields = 3;
        }
        check_frames(&limits, &wire, cut);
    }

    /// Frames with changed bytes are read, or refused.
    #[test]
    fn frames_with_faults(
        frames in vec(any_frame(), 1..5),
        cut in 1..50_usize,
        faults in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut wire = [ready(), frames.concat()].concat();
        for (at, byte) in faults {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        check_frames(&ResponseLimits::default(), &wire, cut);
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }

    /// Kinds and lengths are small, so that more than the first header is processed.
    #[test]
    fn any_small_numbers(
        headers in vec((15..30_u8, 0..3_u8, 0..20_u8), 0..8),
        kind in any::<u8>(),
    ) {
        let mut data = vec![kind | 2, 5];
        for (frame, request, bytes) in headers {
            data.extend([frame, 0, 0, 0, request, 0, 0, 0, bytes, 0, 0, 0]);
            data.resize(data.len() + usize::from(bytes), kind / 4);
        }
        check(&data);
    }
}

/// The frames for files, in both directions.
#[test]
fn files() {
    let part = [7_u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
    let found = frames(&[frame(30, 0, b""), frame(29, 3, &part)]);
    let events = [Event::WantChannel, Event::File(3, 7, u64::MAX)];
    assert_eq!((&found.events[..], found.error), (&events[..], None));
    let length = |kind, bytes| Some(Error::Length { kind, bytes });
    assert_eq!(error(29, 1, &part[1..]), length(Kind::File, 15));
    assert_eq!(error(30, 0, b"x"), length(Kind::WantChannel, 1));
    let mut out = Vec::new();
    write_files(&mut out, Some(&[5; 16]));
    write_files(&mut out, None);
    assert_eq!(out, [frame(10, 0, &[5; 16]), frame(10, 0, b"")].concat());
    assert_eq!(channel_frame(&[5; 16]), frame(11, 0, &[5; 16]));
}

/// The frames of a WebSocket in both directions.
#[test]
fn websockets() {
    let found = frames(&[
        frame(26, 1, b"101 Switching Protocols\nX: y\nConnection: close\n"),
        frame(27, 1, b"\0Hello"),
        frame(27, 1, b"\x03ab"),
        frame(27, 1, b"\x03"),
        frame(27, 1, b"\x01cd"),
        frame(27, 1, b"\0"),
        frame(28, 1, b"\xb8\x0bbye"),
    ]);
    let events = [
        Event::Accept(1, vec![(b"X".to_vec(), b"y".to_vec())]),
        Event::Message(1, false, b"Hello".to_vec(), 6, true),
        Event::Message(1, true, b"abcd".to_vec(), 7, true),
        Event::Message(1, false, vec![], 1, true),
        Event::Close(1, 3000, b"bye".to_vec()),
    ];
    assert_eq!((&found.events[..], found.error), (&events[..], None));
    for head in [&b"200 OK\n"[..], b"1010\n", b"101", b"101\nX y\n"] {
        let event = &frames(&[frame(26, 1, head)]).events[0];
        assert!(matches!(event, Event::MalformedHead { is_end: false, .. }), "{event:?}");
    }
    assert_eq!(error(27, 1, b"\x04a"), Some(Error::MessageFlags { flags: 4 }));
    let length = |kind, bytes| Some(Error::Length { kind, bytes });
    assert_eq!(error(27, 1, b""), length(Kind::Message, 0));
    assert_eq!(error(27, 1, &[0; (1 << 16) + 1]), length(Kind::Message, (1 << 16) + 1));
    assert_eq!(error(28, 1, b"a"), length(Kind::Close, 1));
    assert_eq!(error(28, 1, &[0; 126]), length(Kind::Close, 126));

    let mut out = Vec::new();
    let piece = MessagePiece { is_binary: true, is_end: false };
    let wanted = write_message(&mut out, 1, |out| {
        out.extend(b"abc");
        Some(piece)
    });
    assert_eq!(wanted, 4);
    let nothing = write_message(&mut out, 2, |out| {
        out.extend(b"abc");
        None
    });
    assert_eq!(nothing, 0);
    write_message(&mut out, 3, |_| Some(MessagePiece { is_binary: false, is_end: true }));
    write_closed(&mut out, 4, 1001, "bye");
    let expected =
        [frame(7, 1, b"\x03abc"), frame(7, 3, b"\0"), frame(8, 4, b"\xe9\x03bye")].concat();
    assert_eq!(out, expected);
}

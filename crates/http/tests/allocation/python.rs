//! Requests to a Python process, and its frames.

use pinion_http::cgi::variables::{RequestVariables, VariableScratch};
use pinion_http::h1::client::limits::{RESPONSE_HEAD_MAX_BYTES, ResponseLimits};
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::python::asgi_scope::{Scope, ScopeProtocol};
use pinion_http::python::child_frame::ChildFrame;
use pinion_http::python::environ::Environ;
use pinion_http::python::frame_reader::ChildFrameReader;
use pinion_http::python::request_batch::{BatchedContent, RequestBatch};

use super::{CALLS, LARGEST, with_variables};

/// Returns a frame that announces this many bytes, and has these.
fn frame(kind: u32, request: u32, bytes: usize, content: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(bytes).expect("32 bits");
    [&[kind, request, bytes].map(u32::to_le_bytes).concat(), content].concat()
}

fn exchange(
    variables: &RequestVariables<'_>,
    (environ, batch, reader): (&mut Environ, &mut RequestBatch, &mut ChildFrameReader),
    response: &[u8],
    scratch: &mut VariableScratch,
    storage: &mut HeadStorage,
) -> usize {
    batch.clear();
    for request in 1..=32 {
        environ.clear();
        variables.visit(scratch, |name, value| environ.add(name, value)).expect("it is good");
        batch.add(request, BatchedContent::Whole(b""), environ).expect("there is space");
    }
    assert!(batch.frame().len() > 32 * 100);
    let mut content_bytes = 0;
    // Heads arrive at once and in pieces.
    for bytes in [response.len(), 5] {
        for mut piece in response.chunks(bytes) {
            while !piece.is_empty() {
                let step = reader.step(piece, storage).expect("the frame is good");
                content_bytes += match step.frame {
                    Some(ChildFrame::Response { content, .. }) => content.len(),
                    Some(ChildFrame::Content { bytes, .. }) => bytes.len(),
                    _ => 0,
                };
                piece = &piece[step.used..];
            }
        }
    }
    content_bytes
}

#[test]
fn a_batch_allocates_nothing() {
    with_variables(|variables| {
        let head = b"200 OK\nContent-Type: text/html\nContent-Length: 5\n";
        let content = [&(head.len() as u32).to_le_bytes()[..], head, b"hello"].concat();
        let response = frame(17, 1, content.len(), &content).repeat(100);
        let mut reader = ChildFrameReader::new(&ResponseLimits::default());
        let (mut batch, mut scratch) = (RequestBatch::new(), VariableScratch::default());
        let mut environ = Environ::default();
        let mut storage = HeadStorage::new();
        reader.step(&frame(16, 0, 2, b"{}"), &mut storage).expect("the frame is good");
        let mut exchange = || {
            let ends = (&mut environ, &mut batch, &mut reader);
            exchange(variables, ends, &response, &mut scratch, &mut storage)
        };
        assert_eq!(exchange(), 1000);
        let before = CALLS.get();
        assert_eq!(exchange(), 1000);
        assert_eq!(CALLS.get(), before, "no memory was taken");
    });
}

/// Whatever length a frame announces, and in any pieces, only a head is collected.
#[test]
fn frames_allocate_no_more_than_a_head() {
    let head = [b"200 OK\nA: ", &vec![b'a'; RESPONSE_HEAD_MAX_BYTES][..]].concat();
    for kind in 16..=28 {
        for bytes in [1 << 12, 1 << 13, 1 << 14, 1 << 16, 1 << 18, 1 << 20, u32::MAX as usize] {
            for head_bytes in [bytes.saturating_sub(4), RESPONSE_HEAD_MAX_BYTES, u32::MAX as usize]
            {
                let start = if kind == 17 { head_bytes as u32 } else { 0x2030_3032 };
                let content = [&start.to_le_bytes()[..], &head, &head].concat();
                let request = u32::from(![16, 25].contains(&kind));
                let wire = frame(kind, request, bytes, &content);
                let mut reader = ChildFrameReader::new(&ResponseLimits::default());
                let mut storage = HeadStorage::reserved();
                if kind != 16 {
                    reader.step(&frame(16, 0, 2, b"{}"), &mut storage).expect("a good frame");
                }
                LARGEST.set(0);
                for piece in wire.chunks(1000) {
                    let mut rest = piece;
                    while let Ok(step) = reader.step(rest, &mut storage)
                        && step.used > 0
                    {
                        rest = &rest[step.used..];
                    }
                }
                // A growing vector has up to twice the needed capacity.
                let most = LARGEST.get();
                assert!(most <= 2 * RESPONSE_HEAD_MAX_BYTES, "{most} bytes for kind {kind}");
            }
        }
    }
}

#[test]
fn a_scope_allocates_nothing() {
    with_variables(|variables| {
        let head = variables.head;
        let scope = Scope {
            protocol: ScopeProtocol::Http { method: head.method_token },
            version: head.version,
            is_secured: true,
            path: "/\u{e4}".as_bytes(),
            raw_path: b"/%C3%A4",
            query: b"b",
            root_path: b"",
            client: variables.client.peer,
            server: (b"h", 443),
        };
        let (mut batch, mut environ) = (RequestBatch::new(), Environ::default());
        let mut fill = || {
            batch.clear();
            for request in 1..=32 {
                environ.clear();
                scope.write(head.authority, head.fields.iter(), &mut environ).expect("it fits");
                let added = batch.add(request, BatchedContent::Streamed, &environ);
                added.expect("the request is good");
            }
            batch.frame().len()
        };
        let bytes = fill();
        let before = CALLS.get();
        assert_eq!(fill(), bytes);
        assert_eq!(CALLS.get(), before, "no memory was taken");
    });
}

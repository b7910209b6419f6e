//! The client of `tungstenite`, which has many users, with the server's side: messages in both
//! directions, pings and the closing handshake.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Result, Write};

use pinion_http::websocket::connection::{ClosedBy, InputEvent, WebSocketConnection};
use pinion_http::websocket::frame_head::MessageKind;
use pinion_http::websocket::limits::MESSAGE_MAX_BYTES;
use proptest::collection::vec;
use proptest::prelude::*;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::protocol::{Role, WebSocket};
use tungstenite::{Error, Message};

/// The stream of the client, which reads in small parts.
#[derive(Default)]
struct Pipe {
    to_client: VecDeque<u8>,
    to_server: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.to_client.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let bytes = out.len().min(7);
        self.to_client.read(&mut out[..bytes])
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.to_server.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

struct Both {
    client: WebSocket<Pipe>,
    server: WebSocketConnection,
    /// The incomplete message.
    content: Vec<u8>,
    /// The messages that the server has received.
    received: Vec<(MessageKind, Vec<u8>)>,
    closed: Option<ClosedBy>,
}

impl Both {
    fn new() -> Both {
        Both {
            client: WebSocket::from_raw_socket(Pipe::default(), Role::Client, None),
            server: WebSocketConnection::new(MESSAGE_MAX_BYTES, None),
            content: Vec::new(),
            received: Vec::new(),
            closed: None,
        }
    }

    /// Lets the server read the output of the client, in parts.
    fn serve(&mut self, part_bytes: usize) {
        self.client.flush().expect("it is sent");
        let wire = std::mem::take(&mut self.client.get_mut().to_server);
        let mut out = Vec::new();
        for mut part in wire.chunks(part_bytes) {
            loop {
                let input = self.server.read(part, 1000, &mut self.content, &mut out);
                part = &part[input.used..];
                match input.event {
                    InputEvent::NeedMore => break,
                    InputEvent::NeedRoom => panic!("there is room"),
                    InputEvent::Message { kind, is_end: true, .. } => {
                        self.received.push((kind, std::mem::take(&mut self.content)));
                    }
                    InputEvent::Message { .. } | InputEvent::Alive => {}
                    InputEvent::Closed(by) => self.closed = Some(by),
                }
            }
        }
        self.client.get_mut().to_client.extend(out);
    }

    fn client_reads(&mut self) -> Option<Message> {
        match self.client.read() {
            Ok(message) => Some(message),
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn server_writes(&mut self, write: impl FnOnce(&mut WebSocketConnection, &mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut self.server, &mut out);
        self.client.get_mut().to_client.extend(out);
    }
}

proptest! {
    #[test]
    fn messages_both_ways(
        messages in vec((any::<bool>(), "\\PC{0,300}", 1_usize..200), 0..8),
        part_bytes in 1_usize..50,
    ) {
        let mut both = Both::new();
        for (is_text, text, cut) in &messages {
            let kind = if *is_text { MessageKind::Text } else { MessageKind::Binary };
            let code = if *is_text { Data::Text } else { Data::Binary };
            let (front, back) = text.as_bytes().split_at((*cut).min(text.len()));
            for (code, piece, is_end) in [(code, front, false), (Data::Continue, back, true)] {
                let frame = Frame::message(piece.to_vec(), OpCode::Data(code), is_end);
                both.client.send(Message::Frame(frame)).expect("it is sent");
                both.client.send(Message::Ping(b"ping".as_slice().into())).expect("it is sent");
            }
            both.serve(part_bytes);
            prop_assert_eq!(both.received.pop(), Some((kind, text.as_bytes().to_vec())));
            for _ in 0..2 {
                let pong = both.client_reads();
                prop_assert_eq!(pong, Some(Message::Pong(b"ping".as_slice().into())));
            }
            both.server_writes(|server, out| {
                server.write(kind, front, false, out);
                server.ping(b"there?", out);
                server.write(kind, back, true, out);
            });
            let ping = both.client_reads();
            prop_assert_eq!(ping, Some(Message::Ping(b"there?".as_slice().into())));
            let echo = both.client_reads().expect("a message");
            prop_assert_eq!(echo.is_text(), *is_text);
            prop_assert_eq!(&echo.into_data()[..], text.as_bytes());
        }
    }
}

#[test]
fn a_client_closes() {
    for (frame, code, reason) in [
        (Some(CloseFrame { code: CloseCode::Away, reason: "bye".into() }), 1001, "bye"),
        (None, 1005, ""),
    ] {
        let mut both = Both::new();
        both.client.close(frame).expect("it is sent");
        both.serve(1);
        let reason = reason.into();
        assert_eq!(both.closed.take(), Some(ClosedBy::Client { code, reason }));
        assert!(both.server.is_over() && !both.server.is_open());
        // Nothing is sent after that.
        both.server_writes(|server, out| {
            server.write(MessageKind::Text, b"late", true, out);
            server.ping(b"late", out);
            server.close(1011, "late", out);
        });
        assert_eq!(both.client.get_ref().to_client.len(), if code == 1005 { 2 } else { 7 });
        let Some(Message::Close(close)) = both.client_reads() else { panic!("no close") };
        assert_eq!(close.map(|close| u16::from(close.code)), (code != 1005).then_some(code));
        assert!(matches!(both.client.read(), Err(Error::ConnectionClosed | Error::Io(_))));
    }
}

#[test]
fn a_server_closes() {
    let mut both = Both::new();
    both.client.send(Message::text("on its way")).expect("it is sent");
    both.server_writes(|server, out| server.close(3000, "enough", out));
    assert!(!both.server.is_open() && !both.server.is_over(), "the client's frame is missing");
    both.serve(5);
    assert_eq!(both.received, [], "what comes after the close is dropped");
    assert!(both.content.is_empty());
    let Some(Message::Close(Some(close))) = both.client_reads() else { panic!("no close") };
    assert_eq!((u16::from(close.code), close.reason.as_str()), (3000, "enough"));
    both.serve(5);
    let reason = "enough".into();
    assert_eq!(both.closed.take(), Some(ClosedBy::Client { code: 3000, reason }));
    assert!(both.server.is_over());
    assert!(both.client.get_ref().to_client.is_empty(), "it closes once");
}

#[test]
fn a_failure_closes() {
    let mut both = Both::new();
    both.client.get_mut().to_server.extend(b"\x81\x81aaaa\x9e");
    both.serve(1);
    assert!(matches!(both.closed, Some(ClosedBy::Error(_))));
    let Some(Message::Close(Some(close))) = both.client_reads() else { panic!("no close") };
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1007, "the text is not UTF-8"));
    assert!(both.server.is_over());

    // Text of the application that is not UTF-8 also closes the connection, and does not end the
    // message.
    let mut both = Both::new();
    both.server_writes(|server, out| {
        server.write(MessageKind::Text, b"\xce", false, out);
        server.write(MessageKind::Text, b"a", true, out);
    });
    let Some(Message::Close(Some(close))) = both.client_reads() else { panic!("no close") };
    assert_eq!(u16::from(close.code), 1011);
    assert!(!both.server.is_open());
}

//! The machine together with a client of another project (the crate `h2`): each checks the frames
//! of the other, and content is sent back unchanged.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Request};
use pinion_http::field_section::FieldSection;
use pinion_http::h2::event::Event;
use pinion_http::h2::session::{Session, SessionSettings};
use pinion_http::hpack::static_encoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// The data of a stream in a server that sends content back.
#[derive(Default)]
struct Echo {
    content: Vec<u8>,
    sent: usize,
    fill: Vec<u8>,
}

struct Server {
    session: Session<Echo>,
    out: Vec<u8>,
    /// The events that follow an error of the client, in words.
    last: Vec<String>,
}

impl Server {
    fn event(&mut self, event: &Event<'_>) {
        let Server { session, out, .. } = self;
        match *event {
            Event::Head { stream, head, end } => {
                let fill = head.fields.get(b"x-fill").unwrap_or_default().to_vec();
                assert_eq!(head.authority, Some(&b"a.example"[..]));
                *session.own(stream).unwrap() = Echo { fill, ..Echo::default() };
                if head.target.path == b"/leave" {
                    session.go_away(out);
                }
                if end {
                    self.response(stream);
                }
            }
            Event::Data { stream, bytes, end } => {
                session.consumed(stream, bytes.len(), out);
                session.own(stream).unwrap().content.extend_from_slice(bytes);
                if end {
                    self.response(stream);
                }
            }
            Event::Trailers { stream, fields } => {
                assert_eq!(fields.get(b"sum"), Some(&b"7"[..]));
                self.response(stream);
            }
            Event::NeedMore | Event::Nothing | Event::Opened | Event::Reset { .. } => {}
            ref other => self.last.extend(super::raw_client::words(other)),
        }
    }

    fn response(&mut self, stream: u32) {
        let fill = std::mem::take(&mut self.session.own(stream).unwrap().fill);
        let wrote = self.session.head(stream, false, &mut self.out, |_, block| {
            static_encoder::status(block, 200);
            static_encoder::field(block, b"X-Fill", &fill);
        });
        assert!(wrote);
        self.session.set_ready(stream, true);
        self.finish(stream);
    }

    fn send(&mut self) {
        while let Some(stream) = self.session.next_ready() {
            let room = self.session.room(stream);
            let own = self.session.own(stream).unwrap();
            let start = own.sent;
            own.sent = own.content.len().min(start + room);
            let part = own.content[start..own.sent].to_vec();
            assert!(self.session.data(stream, part.len(), false, &mut self.out));
            self.out.extend_from_slice(&part);
            self.finish(stream);
        }
    }

    /// Ends a response whose content has been sent completely.
    fn finish(&mut self, stream: u32) {
        let own = self.session.own(stream).unwrap();
        if own.sent < own.content.len() {
            return;
        }
        assert!(
            self.session.trailers(stream, &mut self.out, |block| static_encoder::field(
                block, b"sum", b"7"
            ))
        );
        assert!(self.session.close(stream, &mut self.out).is_some());
    }
}

/// Serves one connection to its end; returns the last frames of the client.
async fn serve(io: DuplexStream, settings: SessionSettings) -> Vec<String> {
    let (mut reader, mut writer) = tokio::io::split(io);
    let (queue, mut queued) = unbounded_channel::<Vec<u8>>();
    // A separate task writes, because a client may read nothing while it has to send.
    tokio::spawn(async move {
        while let Some(bytes) = queued.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut server = Server { session: Session::new(&settings), out: Vec::new(), last: Vec::new() };
    server.session.open(&mut server.out);
    let mut section = FieldSection::new();
    let (mut input, mut buffer) = (Vec::new(), vec![0; 20_000]);
    loop {
        flush(&mut server, &queue);
        let Ok(bytes @ 1..) = reader.read(&mut buffer).await else { break };
        input.extend_from_slice(&buffer[..bytes]);
        let mut at = 0;
        while at < input.len() {
            let (rest, mut place) = (&input[at..], None);
            let step = server.session.step(rest, &mut section, &mut place, 0, &mut server.out);
            at += step.used;
            let waits = matches!(step.event, Event::NeedMore);
            server.event(&step.event);
            server.send();
            if waits {
                break;
            }
        }
        input.drain(..at);
        if server.session.is_finished() {
            flush(&mut server, &queue);
            break;
        }
    }
    assert_eq!(server.session.open_streams(), 0);
    server.last
}

fn flush(server: &mut Server, queue: &UnboundedSender<Vec<u8>>) {
    if !server.out.is_empty() {
        let _gone = queue.send(std::mem::take(&mut server.out));
    }
}

/// Sends one request with content of this length, in pieces, and optionally trailers after it.
async fn echo(sender: SendRequest<Bytes>, bytes: usize, trailers: bool) {
    let fill = "f".repeat(bytes % 9000);
    let request =
        Request::post("https://a.example/echo?x").header("x-fill", &fill).body(()).unwrap();
    let mut sender = sender.ready().await.unwrap();
    let nothing = bytes == 0 && !trailers;
    let (response, mut upload) = sender.send_request(request, nothing).unwrap();
    let content: Vec<u8> = (0..bytes).map(|n| (n * 7 % 251) as u8).collect();
    let mut at = 0;
    while at < bytes {
        upload.reserve_capacity(bytes - at);
        // h2 only reports a capacity that has grown.
        while upload.capacity() == 0 {
            let more = std::future::poll_fn(|context| upload.poll_capacity(context)).await;
            more.unwrap().unwrap();
        }
        let end = bytes.min(at + upload.capacity().min(5000));
        let part = Bytes::copy_from_slice(&content[at..end]);
        at = end;
        upload.send_data(part, at == bytes && !trailers).unwrap();
    }
    if trailers {
        let fields = HeaderMap::from_iter([("sum".parse().unwrap(), "7".parse().unwrap())]);
        upload.send_trailers(fields).unwrap();
    }
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-fill"], fill);
    let mut download = response.into_body();
    let mut back = Vec::new();
    while let Some(part) = download.data().await {
        let part = part.unwrap();
        download.flow_control().release_capacity(part.len()).unwrap();
        back.extend_from_slice(&part);
    }
    assert!(back == content, "{} bytes of {bytes}", back.len());
    assert_eq!(download.trailers().await.unwrap().unwrap()["sum"], "7");
}

/// Sends one request that the client cancels in the middle of its content.
async fn give_up(sender: SendRequest<Bytes>) {
    let request = Request::post("https://a.example/half").body(()).unwrap();
    let mut sender = sender.ready().await.unwrap();
    let (_, mut upload) = sender.send_request(request, false).unwrap();
    upload.send_data(Bytes::from_static(b"half of it"), false).unwrap();
    upload.send_reset(h2::Reason::CANCEL);
}

fn run(pipe_bytes: usize, client: &Builder, server: SessionSettings) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (near, far) = duplex(pipe_bytes);
        let serving = tokio::spawn(serve(far, server));
        let (sender, connection) = client.handshake::<_, Bytes>(near).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut tasks = Vec::new();
        for bytes in [0, 1, 100, 16_383, 16_384, 16_385, 70_000, 300_000, 8999, 5] {
            for trailers in [false, true] {
                tasks.push(tokio::spawn(echo(sender.clone(), bytes, trailers)));
            }
            tasks.push(tokio::spawn(give_up(sender.clone())));
        }
        for task in tasks {
            task.await.unwrap();
        }
        drop(sender);
        connection.await.unwrap().unwrap();
        // A client without further requests ends the connection without an error.
        assert_eq!(serving.await.unwrap(), [""; 0]);
    });
}

#[test]
fn content_is_echoed() {
    let plain = SessionSettings::default();
    let narrow = SessionSettings { streams: 3, connection_window_bytes: 0, ..plain };
    for pipe_bytes in [64, 5000, 1 << 20] {
        run(pipe_bytes, &Builder::new(), plain);
        let small = Builder::new()
            .initial_window_size(1000)
            .header_table_size(0)
            .max_concurrent_reset_streams(100)
            .to_owned();
        run(pipe_bytes, &small, plain);
        let large = Builder::new()
            .initial_window_size(1 << 20)
            .initial_connection_window_size(1 << 22)
            .max_frame_size(100_000)
            .to_owned();
        run(pipe_bytes, &large, narrow);
    }
}

/// RFC 9113 §6.8: the client receives GOAWAY, open streams are completed, and then the connection
/// ends.
#[test]
fn the_server_completes_streams_after_its_goaway() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (near, far) = duplex(4096);
        let serving = tokio::spawn(serve(far, SessionSettings::default()));
        let (sender, connection) = h2::client::handshake(near).await.unwrap();
        let result = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&result);
        let connection = tokio::spawn(async move {
            *kept.lock().unwrap() = Some(connection.await);
        });
        let mut sender: SendRequest<Bytes> = sender.ready().await.unwrap();
        let open = tokio::spawn(echo(sender.clone(), 100_000, true));
        let request = Request::get("https://a.example/leave").body(()).unwrap();
        let (response, _) = sender.send_request(request, true).unwrap();
        assert_eq!(response.await.unwrap().status(), 200);
        open.await.unwrap();
        drop(sender);
        connection.await.unwrap();
        assert!(result.lock().unwrap().take().unwrap().is_ok());
        assert_eq!(serving.await.unwrap(), [""; 0]);
    });
}

//! Tunnels over a stream of HTTP/2 or HTTP/3, opened by an extended CONNECT (RFC 8441, RFC 9220),
//! with other requests on the same connection. HTTP/2 is that of the crate `h2`, QUIC that of
//! quinn.

use super::async_stream::Pipe;
use super::http3::{Http3, kind};
use super::qpack;
use super::quic::{frame, take_frame};
use crate::PATIENCE;
use crate::protocol::Protocol;
use crate::server::Server;
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::Request;
use quinn::{ReadError, VarInt};
use std::future::poll_fn;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// The bytes that the server may send on a connection before it gets more of the window.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// H3_REQUEST_CANCELLED (RFC 9114 §8.1).
const H3_REQUEST_CANCELLED: u32 = 0x10c;

/// A connection whose streams may be tunnels.
#[derive(Debug)]
pub enum TunnelClient {
    /// HTTP/2.
    Http2(SendRequest<Bytes>, &'static str),
    /// HTTP/3.
    Http3(Box<Http3>),
}

/// The response to an extended CONNECT, and the stream after it.
#[derive(Debug)]
pub struct Tunnel {
    /// The status.
    pub status: u16,
    /// The fields of the response, without pseudo-fields.
    pub fields: Vec<(String, String)>,
    /// To the server.
    pub sender: Sender,
    /// From the server.
    pub receiver: Receiver,
}

/// The client's direction of a stream.
#[derive(Debug)]
pub enum Sender {
    /// HTTP/2.
    Http2(SendStream<Bytes>),
    /// HTTP/3.
    Http3(quinn::SendStream),
}

/// The server's direction of a stream.
#[derive(Debug)]
pub enum Receiver {
    /// HTTP/2.
    Http2(RecvStream),
    /// HTTP/3, and the received bytes of an incomplete frame.
    Http3(quinn::RecvStream, Vec<u8>),
}

/// A stream was reset with this code.
#[derive(Debug, PartialEq, Eq)]
pub struct Reset(pub u64);

/// Returns the reset by which a server ends a tunnel: CANCEL, or H3_REQUEST_CANCELLED (RFC 8441 §5,
/// RFC 9220 §3).
pub fn cancelled(protocol: Protocol) -> Reset {
    match protocol {
        Protocol::Http3 => Reset(H3_REQUEST_CANCELLED.into()),
        _ => Reset(u32::from(Reason::CANCEL).into()),
    }
}

impl From<h2::Error> for Reset {
    fn from(error: h2::Error) -> Reset {
        let reason = error.reason().unwrap_or_else(|| panic!("{error}"));
        Reset(u32::from(reason).into())
    }
}

impl TunnelClient {
    /// Connects over the protocol of the server. A stream that is not read takes a small part of
    /// the window of the connection.
    ///
    /// # Panics
    /// Panics if that fails.
    pub fn open(server: &Server, runtime: &Runtime) -> TunnelClient {
        if server.protocol() == Protocol::Http3 {
            let http3 = Http3::try_open(server.peer()).expect("a connection");
            http3.quic().connection().set_receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES));
            return TunnelClient::Http3(Box::new(http3));
        }
        let requests = runtime.block_on(async {
            let pipe = Pipe::open(server.peer()).expect("a connection");
            let mut builder = h2::client::Builder::new();
            builder.initial_connection_window_size(CONNECTION_WINDOW_BYTES);
            let (requests, connection) = builder.handshake(pipe).await.expect("HTTP/2");
            tokio::spawn(connection);
            requests.ready().await.expect("an open connection")
        });
        TunnelClient::Http2(requests, server.protocol().scheme())
    }

    /// Returns whether the server announces that it accepts an extended CONNECT, once it has sent
    /// its settings.
    pub async fn is_announced(&mut self) -> bool {
        match self {
            TunnelClient::Http2(requests, _) => {
                // The settings of the server have arrived with its first response.
                let head = Request::get("http://localhost/").body(()).expect("right");
                let (response, _) = requests.send_request(head, true).expect("a stream");
                response.await.expect("a response");
                requests.is_extended_connect_protocol_enabled()
            }
            TunnelClient::Http3(http3) => http3.setting(0x8) == Some(1),
        }
    }

    /// Requests a tunnel with these fields.
    ///
    /// # Errors
    /// The stream was reset.
    pub async fn connect(
        &mut self,
        protocol: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Result<Tunnel, Reset> {
        self.exchange("CONNECT", Some(protocol), path, fields).await
    }

    /// Returns the content of the response to GET.
    ///
    /// # Panics
    /// Panics if its status is not 200.
    pub async fn get(&mut self, path: &str) -> Vec<u8> {
        let whole = async {
            let mut response = self.exchange("GET", None, path, &[]).await?;
            assert_eq!(response.status, 200, "{path}");
            response.receiver.rest().await
        };
        timeout(PATIENCE, whole).await.expect("it does not hang").expect("a response")
    }

    async fn exchange(
        &mut self,
        method: &str,
        protocol: Option<&str>,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Result<Tunnel, Reset> {
        // A request without a protocol ends with its head.
        match self {
            TunnelClient::Http2(requests, scheme) => {
                let url = format!("{scheme}://localhost{path}");
                let mut request = Request::builder().method(method).uri(url);
                for (name, value) in fields {
                    request = request.header(*name, *value);
                }
                if let Some(protocol) = protocol {
                    request = request.extension(h2::ext::Protocol::from(protocol));
                }
                let request = request.body(()).expect("right");
                *requests = requests.clone().ready().await.expect("an open connection");
                let (response, sender) = requests.send_request(request, protocol.is_none())?;
                let (head, receiver) = response.await?.into_parts();
                let text = |value: &http::HeaderValue| value.to_str().expect("text").to_owned();
                let fields =
                    head.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
                let (status, fields) = (head.status.as_u16(), fields.collect());
                let (sender, receiver) = (Sender::Http2(sender), Receiver::Http2(receiver));
                Ok(Tunnel { status, fields, sender, receiver })
            }
            TunnelClient::Http3(http3) => {
                let pseudo =
                    [(":method", method), (":scheme", "https"), (":authority", "localhost")];
                let protocol = protocol.map(|protocol| (":protocol", protocol));
                let mut section = pseudo.to_vec();
                section.extend(protocol.into_iter().chain([(":path", path)]));
                section.extend(fields);
                let head = frame(kind::HEADERS, &qpack::encode(&section));
                let connection = http3.quic().connection();
                let (mut sender, receiver) = connection.open_bi().await.expect("a stream");
                sender.write_all(&head).await.expect("a head");
                if protocol.is_none() {
                    sender.finish().expect("it was not finished before");
                }
                let mut receiver = Receiver::Http3(receiver, Vec::new());
                let (status, fields) = receiver.head().await?;
                Ok(Tunnel { status, fields, sender: Sender::Http3(sender), receiver })
            }
        }
    }
}

impl Sender {
    /// Sends bytes, as far as the windows of the server let it.
    ///
    /// # Errors
    /// The server has stopped it.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Reset> {
        match self {
            Sender::Http2(stream) => {
                let mut rest = Bytes::copy_from_slice(bytes);
                while !rest.is_empty() {
                    stream.reserve_capacity(rest.len());
                    let room = poll_fn(|context| stream.poll_capacity(context)).await;
                    let room = room.ok_or(Reset(u32::from(Reason::STREAM_CLOSED).into()))??;
                    let piece = rest.split_to(room.min(rest.len()));
                    stream.send_data(piece, false)?;
                }
                Ok(())
            }
            Sender::Http3(stream) => match stream.write_all(&frame(kind::DATA, bytes)).await {
                Err(quinn::WriteError::Stopped(code)) => Err(Reset(code.into_inner())),
                written => {
                    written.expect("an open connection");
                    Ok(())
                }
            },
        }
    }

    /// Ends this direction of the stream.
    ///
    /// # Errors
    /// The server has stopped it.
    pub async fn finish(&mut self) -> Result<(), Reset> {
        match self {
            Sender::Http2(stream) => Ok(stream.send_data(Bytes::new(), true)?),
            Sender::Http3(stream) => {
                let _stopped = stream.finish();
                Ok(())
            }
        }
    }

    /// Resets the stream.
    pub fn reset(&mut self) {
        match self {
            Sender::Http2(stream) => stream.send_reset(Reason::CANCEL),
            Sender::Http3(stream) => {
                let _over = stream.reset(VarInt::from_u32(H3_REQUEST_CANCELLED));
            }
        }
    }
}

impl Receiver {
    /// Receives the next bytes; `None` at the end.
    ///
    /// # Errors
    /// The server has reset the stream.
    pub async fn receive(&mut self) -> Result<Option<Vec<u8>>, Reset> {
        match self {
            Receiver::Http2(stream) => {
                let Some(piece) = stream.data().await.transpose()? else { return Ok(None) };
                stream.flow_control().release_capacity(piece.len())?;
                Ok(Some(piece.to_vec()))
            }
            Receiver::Http3(..) => Ok(self.frame().await?.map(|(frame, payload)| {
                assert_eq!(frame, kind::DATA);
                payload
            })),
        }
    }

    /// Receives everything until the end.
    ///
    /// # Errors
    /// The server has reset the stream.
    pub async fn rest(&mut self) -> Result<Vec<u8>, Reset> {
        let mut all = Vec::new();
        while let Some(bytes) = self.receive().await? {
            all.extend(bytes);
        }
        Ok(all)
    }

    /// Receives until there are this many bytes.
    ///
    /// # Errors
    /// The server has reset the stream.
    ///
    /// # Panics
    /// Panics if the stream ends before.
    pub async fn take(&mut self, bytes: usize) -> Result<Vec<u8>, Reset> {
        let mut all = Vec::new();
        while all.len() < bytes {
            all.extend(self.receive().await?.expect("more bytes"));
        }
        Ok(all)
    }

    /// Returns the status and the fields of a response over HTTP/3.
    async fn head(&mut self) -> Result<(u16, Vec<(String, String)>), Reset> {
        let (frame, payload) = self.frame().await?.expect("a response");
        assert_eq!(frame, kind::HEADERS);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let section = qpack::decode(&payload).expect("a section").into_iter();
        let mut fields: Vec<_> = section.map(|(name, value)| (text(name), text(value))).collect();
        let (name, status) = fields.remove(0);
        assert_eq!(name, ":status");
        Ok((status.parse().expect("a status"), fields))
    }

    /// Returns the next frame over HTTP/3.
    async fn frame(&mut self) -> Result<Option<(u64, Vec<u8>)>, Reset> {
        let Receiver::Http3(stream, held) = self else { panic!("no stream of HTTP/3") };
        loop {
            if let Some(frame) = take_frame(held) {
                return Ok(Some(frame));
            }
            match stream.read_chunk(usize::MAX, true).await {
                Ok(Some(chunk)) => held.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    assert!(held.is_empty(), "a frame that is cut");
                    return Ok(None);
                }
                Err(ReadError::Reset(code)) => return Err(Reset(code.into_inner())),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

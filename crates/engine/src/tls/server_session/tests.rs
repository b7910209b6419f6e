//! Tests of a session with rustls' own client, in memory.

use std::io::{Read as _, Write as _};

use rustls::ClientConnection;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::version::{TLS12, TLS13};

use super::*;
use crate::limits::SEAL_MAX_BYTES;
use crate::tls::tests::{Made, client, server, tickets};

/// Content after which the session reads no further input.
const LAST: &[u8] = b"the last";

/// A client and a session, with the buffers that a worker would have.
struct Pair {
    client: ClientConnection,
    session: Box<ServerSession>,
    buffer: Vec<u8>,
    spare: Vec<u8>,
    /// The protocols that the session has reported, one for each finished handshake.
    begun: Vec<Inside>,
    content: Vec<u8>,
}

impl Pair {
    fn new(version: &'static rustls::SupportedProtocolVersion) -> Self {
        let made = Made::new(&["a.test"]);
        let config = server(&[&made], &tickets(Vec::new()), None);
        let client = client(&[&made], &[version], default_provider(), None);
        let client = ClientConnection::new(client, "a.test".try_into().unwrap()).unwrap();
        Self {
            client,
            session: Box::new(ServerSession::new(&config, &[]).unwrap()),
            buffer: Vec::new(),
            spare: Vec::new(),
            begun: Vec::new(),
            content: Vec::new(),
        }
    }

    /// Creates a pair whose handshake is over.
    fn open(version: &'static rustls::SupportedProtocolVersion) -> Self {
        let mut pair = Self::new(version);
        pair.talk(usize::MAX).unwrap();
        assert_eq!(pair.begun, [Inside::Http2]);
        pair
    }

    fn take(&mut self, input: &[u8]) -> Result<usize, TlsFault> {
        let Self { session, buffer, begun, content, .. } = self;
        session.take(input, buffer, |brought| {
            match brought {
                Brought::Begun(inside) => begun.push(inside),
                Brought::Content(bytes) => content.extend_from_slice(bytes),
            }
            !content.ends_with(LAST)
        })
    }

    /// Returns the bytes that the client has to send.
    fn client_says(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut wire).unwrap();
        }
        wire
    }

    /// Returns all bytes that the session has to send.
    fn session_says(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        if self.session.has_records() {
            self.session.send(|parts| {
                wire.extend_from_slice(&parts[0]);
                Sending::Done(wire.len())
            });
        }
        assert!(!self.session.has_records());
        self.session.emptied(&mut self.spare);
        wire
    }

    fn client_reads(&mut self, mut wire: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        while !wire.is_empty() {
            self.client.read_tls(&mut wire).unwrap();
            self.client.process_new_packets().unwrap();
            let mut piece = [0; 20_000];
            while let Ok(bytes @ 1..) = self.client.reader().read(&mut piece) {
                content.extend_from_slice(&piece[..bytes]);
            }
        }
        content
    }

    /// Exchanges data in pieces of `cut` bytes until neither side has more to send. Returns the
    /// content that the client has read.
    fn talk(&mut self, cut: usize) -> Result<Vec<u8>, TlsFault> {
        let mut content = Vec::new();
        loop {
            let wire = self.client_says();
            for piece in wire.chunks(cut.min(wire.len().max(1))) {
                self.take(piece)?;
            }
            let back = self.session_says();
            if wire.is_empty() && back.is_empty() {
                return Ok(content);
            }
            content.extend(self.client_reads(&back));
        }
    }
}

#[test]
fn input_after_the_last_request_is_not_decrypted() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::open(version);
        pair.client.writer().write_all(LAST).unwrap();
        let wire = pair.client_says();
        let garbage = [0xff; 300];
        assert_eq!(pair.take(&[&wire[..], &garbage].concat()), Ok(300));
        assert_eq!(pair.take(&garbage), Ok(300));
        assert_eq!(pair.content, LAST);
        // The session can still send a response and its end.
        assert!(pair.session.seal(b"answer", &mut pair.spare));
        let mut back = pair.session_says();
        assert!(pair.session.close());
        back.extend(pair.session_says());
        assert_eq!(pair.client_reads(&back), b"answer");
    }
}

#[test]
fn records_may_be_cut_anywhere() {
    for version in [&TLS12, &TLS13] {
        for cut in [1, 2, 3, 7, 100, 1000, usize::MAX] {
            let mut pair = Pair::new(version);
            // The content is sent directly after the handshake, in the same bytes.
            pair.client.writer().write_all(b"early").unwrap();
            pair.talk(cut).unwrap();
            assert_eq!((&pair.begun[..], &pair.content[..]), (&[Inside::Http2][..], &b"early"[..]));
            let long: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
            pair.client.set_buffer_limit(None);
            pair.client.writer().write_all(&long).unwrap();
            pair.talk(cut).unwrap();
            assert!(pair.content[5..] == long, "{cut}");
            assert!(pair.session.seal(b"answer", &mut pair.spare));
            assert_eq!(pair.session.sealed_bytes(), 6);
            assert_eq!(pair.talk(cut).unwrap(), b"answer");
            pair.client.send_close_notify();
            pair.talk(cut).unwrap();
            assert!(pair.session.is_ended());
            // The session can still send content, and then close_notify.
            assert!(pair.session.seal(b"last", &mut pair.spare) && pair.session.close());
            assert!(!pair.session.close(), "once");
            let wire = pair.session_says();
            assert_eq!(pair.client_reads(&wire), b"last");
            assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
        }
    }
}

#[test]
fn a_waiting_session_has_no_buffer() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::open(version);
        for bytes in [10, SEAL_MAX_BYTES] {
            assert!(pair.session.seal(&vec![7; bytes], &mut pair.spare));
            assert_eq!(pair.talk(usize::MAX).unwrap().len(), bytes);
            pair.client.writer().write_all(&[7; 1000]).unwrap();
            pair.talk(100).unwrap();
            assert_eq!(pair.session.buffer_bytes(), 0, "{bytes}");
        }
        assert!(pair.spare.len() > SEAL_MAX_BYTES, "the worker has it");
        // The session holds only the incomplete record.
        pair.client.writer().write_all(&[7; 1000]).unwrap();
        let wire = pair.client_says();
        pair.take(&wire[..500]).unwrap();
        assert_eq!(pair.session.buffer_bytes(), 500);
    }
}

/// A session that cannot send must not keep a buffer that was made for more content, since only the
/// content is counted.
#[test]
fn a_blocked_session_keeps_only_its_records() {
    let mut pair = Pair::open(&TLS13);
    pair.spare = vec![0; 70_000];
    assert!(pair.session.seal(b"answer", &mut pair.spare));
    assert!(pair.spare.is_empty());
    assert!(matches!(pair.session.send(|_| Sending::Blocked), Sending::Blocked));
    pair.session.hold(&mut pair.spare);
    assert_eq!(pair.spare.len(), 70_000);
    assert!(pair.session.buffer_bytes() < 100);
    // A part of the records is sent.
    let mut first = Vec::new();
    pair.session.send(|parts| {
        first.extend_from_slice(&parts[0][..10]);
        Sending::Done(10)
    });
    let rest = pair.session_says();
    assert_eq!(pair.client_reads(&[first, rest].concat()), b"answer");
}

/// A client may renew its keys (RFC 8446 §4.6.3).
#[test]
fn key_updates_are_followed() {
    let mut pair = Pair::open(&TLS13);
    pair.client.refresh_traffic_keys().unwrap();
    pair.client.writer().write_all(b"under new keys").unwrap();
    pair.talk(1).unwrap();
    assert_eq!(pair.content, b"under new keys");
    assert!(pair.session.seal(b"answer", &mut pair.spare));
    assert_eq!(pair.talk(1).unwrap(), b"answer");
}

/// A client that breaks the rules gets one alert, and nothing more.
#[test]
fn faults_cause_one_alert_and_end_the_session() {
    for (begins, input) in [
        (false, &b"\x16\x03\x01\0\x05\x14\0\0\x01!"[..]),
        (false, b"\x16\x03\x01\xff\xff"),
        (true, b"\x17\x03\x03\0\x20no one has sealed this, I fear..."),
        (true, b"\x17\x03\x03\xff\xff"),
        (true, b"\x16\x03\x03\0\x05hello"),
    ] {
        let mut pair = if begins { Pair::open(&TLS13) } else { Pair::new(&TLS13) };
        assert_eq!(pair.take(input), Err(TlsFault), "{input:?}");
        assert!(pair.session.has_records(), "{input:?}");
        assert_eq!(pair.take(b"more"), Ok(4));
        assert!(!pair.session.seal(b"content", &mut pair.spare));
        let wire = pair.session_says();
        assert!(!wire.is_empty() && wire.len() < 40, "{wire:?}");
        assert!(!pair.session.close());
        assert_eq!(pair.session.buffer_bytes(), 0);
    }
}

/// A handshake that does not come to its end is aborted, whatever its messages are.
#[test]
fn a_handshake_has_a_size_limit() {
    let mut pair = Pair::new(&TLS13);
    let mut long = vec![1, 0, 0xff, 0];
    long.resize(1000, 0);
    let record = [&[22, 3, 1][..], &(long.len() as u16).to_be_bytes(), &long].concat();
    pair.take(&record).unwrap();
    let more = [&[22, 3, 1][..], &1000u16.to_be_bytes(), &[0; 1000]].concat();
    let fault = (0..100).position(|_| pair.take(&more) == Err(TlsFault));
    assert_eq!(fault, Some(HANDSHAKE_MAX_BYTES / more.len() - 1));
}

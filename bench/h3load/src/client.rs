//! One connection and its requests.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ReadError, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};
use rustls::pki_types::ServerName;

use crate::reply::Reply;
use crate::socket::{Inlet, Socket};
use crate::tally::Tally;

/// Receive windows large enough that servers never wait for this side.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// Returns the configuration of all connections.
pub(crate) fn config() -> Result<ClientConfig> {
    let tls = crate::crypto::config(b"h3")?;
    let crypto = QuicClientConfig::try_from(tls).ok().context("AES-128 is there")?;
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES));
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// The parameters of all requests, and whether further ones are allowed.
pub(crate) struct Plan {
    /// The frames of a request.
    pub(crate) request: Vec<u8>,
    /// Requests of a connection that are open at once.
    pub(crate) streams: usize,
    /// The time has ended, so that no further request is begun.
    pub(crate) is_over: bool,
    /// Total requests of a connection.
    pub(crate) requests_max: u64,
    /// Bytes of content of each request.
    pub(crate) upload_bytes: u64,
    /// The expected bytes of content of each response, if it is checked.
    pub(crate) content_bytes: Option<u64>,
}

/// The schedule of requests that do not wait for one another.
struct Pace {
    interval: Duration,
    /// The time of the next one.
    due: Instant,
}

/// One connection with its requests.
pub(crate) struct Client {
    socket: Socket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: Connection,
    server: SocketAddr,
    open: HashMap<StreamId, (Instant, Reply)>,
    /// Number of requests that were begun.
    begun: u64,
    /// Requests whose content is not sent completely, with the remaining bytes.
    uploads: Vec<(StreamId, u64)>,
    pace: Option<Pace>,
    is_connected: bool,
    is_lost: bool,
    outlet: Vec<u8>,
}

/// `H3_NO_ERROR` (RFC 9114 §8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// A control stream with empty settings (RFC 9114 §6.2.1, §7.2.4).
const CONTROL: [u8; 3] = [0, 4, 0];

impl Client {
    /// Begins to connect. `schedule` has the time of the first request and the interval of all, if
    /// requests do not wait for one another.
    pub(crate) fn connect(
        server: SocketAddr,
        config: ClientConfig,
        schedule: Option<(Instant, Duration)>,
        now: Instant,
    ) -> Result<Self> {
        let socket = Socket::open(server)?;
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let name = ServerName::from(server.ip());
        let (handle, quic) = endpoint.connect(now, config, server, &name.to_str())?;
        let open = HashMap::new();
        let (is_connected, is_lost, outlet) = (false, false, Vec::new());
        let (begun, uploads) = (0, Vec::new());
        Ok(Self {
            socket,
            endpoint,
            handle,
            quic,
            server,
            open,
            begun,
            uploads,
            pace: schedule.map(|(due, interval)| Pace { interval, due }),
            is_connected,
            is_lost,
            outlet,
        })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns the time at which it needs to run, if nothing arrives.
    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        let due = self.pace.as_ref().filter(|_| self.is_connected && !self.is_lost);
        self.quic.poll_timeout().into_iter().chain(due.map(|pace| pace.due)).min()
    }

    /// Returns whether no request is open and none will begin.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && (self.is_connected || self.is_lost)
    }

    /// Returns whether it has begun as many requests as allowed, or cannot begin any more.
    pub(crate) fn has_begun_all(&self, plan: &Plan) -> bool {
        self.begun >= plan.requests_max || self.is_lost
    }

    /// Processes received datagrams.
    pub(crate) fn receive(&mut self, inlet: &mut Inlet, now: Instant) {
        while self.socket.receive(inlet) {
            let (datagrams, ecn) = inlet.datagrams();
            for bytes in datagrams {
                self.outlet.clear();
                let bytes = BytesMut::from(bytes);
                let Self { endpoint, server, outlet, .. } = self;
                // All datagrams are from one server.
                if let Some(DatagramEvent::ConnectionEvent(_, event)) =
                    endpoint.handle(now, *server, None, ecn, bytes, outlet)
                {
                    self.quic.handle_event(event);
                }
            }
        }
    }

    /// Handles deadlines, reads responses, begins requests and sends.
    pub(crate) fn drive(&mut self, plan: &Plan, tally: &mut Tally, now: Instant) -> Result<()> {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.quic.handle_timeout(now);
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(response) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(response);
            }
        }
        while let Some(event) = self.quic.poll() {
            self.happened(&event, plan, tally, now)?;
        }
        if self.is_connected && !self.is_lost {
            self.begin(plan, now)?;
            self.upload();
        }
        self.transmit(now)
    }

    /// Closes the connection; open requests count as timeouts.
    pub(crate) fn close(mut self, tally: &mut Tally, now: Instant) -> Result<()> {
        let never_connected = !self.is_connected && !self.is_lost;
        tally.timeouts += self.open.len() as u64 + u64::from(never_connected);
        let stats = self.quic.stats();
        tally.datagrams_in += stats.udp_rx.datagrams;
        tally.received_bytes += stats.udp_rx.bytes;
        tally.datagrams_out += stats.udp_tx.datagrams;
        tally.lost_packets += stats.path.lost_packets;
        self.quic.close(now, NO_ERROR, Bytes::new());
        self.transmit(now)
    }

    fn happened(
        &mut self,
        event: &Event,
        plan: &Plan,
        tally: &mut Tally,
        now: Instant,
    ) -> Result<()> {
        match event {
            Event::Connected => {
                self.is_connected = true;
                if let Some(pace) = &mut self.pace {
                    pace.due = pace.due.max(now);
                }
                if let Some(control) = self.quic.streams().open(Dir::Uni) {
                    self.quic.send_stream(control).write(&CONTROL)?;
                }
            }
            Event::ConnectionLost { reason } => {
                eprintln!("connection lost: {reason}");
                self.is_lost = true;
                tally.errors += self.open.len().max(1) as u64;
                self.open.clear();
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                // The streams for control and QPACK have no data that this client needs.
                while let Some(id) = self.quic.streams().accept(Dir::Uni) {
                    self.discard(id);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Uni => {
                self.discard(*id);
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(*id, plan, tally, now),
            _ => {}
        }
        Ok(())
    }

    fn discard(&mut self, id: StreamId) {
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(false) else { return };
        while let Ok(Some(_)) = chunks.next(usize::MAX) {}
        let _sent_behind_all_events = chunks.finalize();
    }

    fn read(&mut self, id: StreamId, plan: &Plan, tally: &mut Tally, now: Instant) {
        let Some((begun, reply)) = self.open.get_mut(&id) else { return };
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let is_whole = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => reply.take(&chunk.bytes),
                Ok(None) => break Some(true),
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(_)) => break Some(false),
            }
        };
        let _sent_behind_all_events = chunks.finalize();
        let Some(is_whole) = is_whole else { return };
        let fits = plan.content_bytes.is_none_or(|bytes| bytes == reply.content_bytes);
        match reply.is_ok {
            Some(false) => tally.non_200_responses += 1,
            Some(true) if is_whole && fits => {
                tally.count_response(*begun, now, reply.content_bytes);
            }
            _ => tally.errors += 1,
        }
        self.open.remove(&id);
    }

    /// Begins as many requests as allowed.
    fn begin(&mut self, plan: &Plan, now: Instant) -> Result<()> {
        if plan.is_over || self.has_begun_all(plan) {
            self.pace = None;
            return Ok(());
        }
        while self.open.len() < plan.streams && !self.has_begun_all(plan) {
            let due = self.pace.as_ref().map_or(now, |pace| pace.due);
            if due > now {
                break;
            }
            let Some(id) = self.quic.streams().open(Dir::Bi) else { break };
            if let Some(pace) = &mut self.pace {
                pace.due += pace.interval;
            }
            let mut stream = self.quic.send_stream(id);
            stream.write(&plan.request)?;
            self.begun += 1;
            if plan.upload_bytes == 0 {
                stream.finish()?;
            } else {
                self.uploads.push((id, plan.upload_bytes));
            }
            self.open.insert(id, (due, Reply::default()));
        }
        Ok(())
    }

    /// Sends content, as the windows of the server and of the path allow.
    fn upload(&mut self) {
        static PIECE: [u8; 1 << 16] = [b'x'; 1 << 16];
        let quic = &mut self.quic;
        self.uploads.retain_mut(|(id, left)| {
            let mut stream = quic.send_stream(*id);
            while *left > 0 {
                let bytes = (*left).min(PIECE.len() as u64) as usize;
                match stream.write(&PIECE[..bytes]) {
                    Ok(taken) => *left -= taken as u64,
                    Err(WriteError::Blocked) => return true,
                    // The server has stopped the upload; its response has the reason.
                    Err(_) => return false,
                }
            }
            let _stopped = stream.finish();
            false
        });
    }

    fn transmit(&mut self, now: Instant) -> Result<()> {
        let segments_max = self.socket.segments_max();
        loop {
            self.outlet.clear();
            let next = self.quic.poll_transmit(now, segments_max, &mut self.outlet);
            let Some(transmit) = next else { return Ok(()) };
            self.socket.send(&transmit, &self.outlet[..transmit.size])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    #[test]
    fn a_connection_that_was_never_established_counts_once() {
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let config = config().unwrap();
        let mut now = Instant::now();
        let mut client = Client::connect(silent.local_addr().unwrap(), config, None, now).unwrap();
        let plan = Plan {
            request: Vec::new(),
            streams: 1,
            is_over: false,
            requests_max: u64::MAX,
            upload_bytes: 0,
            content_bytes: None,
        };
        let mut tally = Tally::default();
        while !client.is_lost {
            client.drive(&plan, &mut tally, now).unwrap();
            now = client.deadline().unwrap_or(now + Duration::from_secs(1));
        }
        client.close(&mut tally, now).unwrap();
        assert_eq!((tally.errors, tally.timeouts), (1, 0));
    }
}

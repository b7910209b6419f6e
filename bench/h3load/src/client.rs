//! One connection and its requests.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ReadError, StreamEvent, StreamId, VarInt, WriteError,
};
use rustls::pki_types::ServerName;

use crate::reply::Reply;
use crate::socket::{Inlet, Socket};
use crate::tally::Tally;

/// What every request is, and whether there may be more.
pub(crate) struct Plan {
    /// The frames of a request.
    pub(crate) request: Vec<u8>,
    /// Requests of a connection that are under way at once.
    pub(crate) streams: usize,
    /// Whether the time is over, so that no request is begun any more.
    pub(crate) is_over: bool,
    /// Requests of a connection in all.
    pub(crate) requests_max: u64,
    /// Bytes of content behind each request.
    pub(crate) upload_bytes: u64,
    pub(crate) content_bytes: Option<u64>,
}

/// Requests that do not wait for one another.
struct Pace {
    interval: Duration,
    /// When the next one is due, once the connection is there.
    due: Instant,
}

/// See the module's head.
pub(crate) struct Client {
    socket: Socket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: Connection,
    server: SocketAddr,
    open: HashMap<StreamId, (Instant, Reply)>,
    /// Requests that were begun.
    begun: u64,
    /// Requests whose content is still to be sent, with the bytes that are left of it.
    uploads: Vec<(StreamId, u64)>,
    pace: Option<Pace>,
    is_connected: bool,
    is_lost: bool,
    outlet: Vec<u8>,
}

/// `H3_NO_ERROR` (RFC 9114 §8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// A control stream with settings that say nothing (RFC 9114 §6.2.1, §7.2.4).
const CONTROL: [u8; 3] = [0, 4, 0];

impl Client {
    /// Begins to connect. Requests have this interval, if there is one.
    pub(crate) fn connect(
        server: SocketAddr,
        config: ClientConfig,
        interval: Option<Duration>,
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
            pace: interval.map(|interval| Pace { interval, due: now }),
            is_connected,
            is_lost,
            outlet,
        })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// When it is to be looked at, if nothing comes.
    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        let due = self.pace.as_ref().filter(|_| self.is_connected && !self.is_lost);
        self.quic.poll_timeout().into_iter().chain(due.map(|pace| pace.due)).min()
    }

    /// Whether nothing is under way and nothing is to come.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && (self.is_connected || self.is_lost)
    }

    /// Whether it has begun as many requests as it may, or cannot begin any more.
    pub(crate) fn has_begun_all(&self, plan: &Plan) -> bool {
        self.begun >= plan.requests_max || self.is_lost
    }

    /// Takes what has come.
    pub(crate) fn receive(&mut self, inlet: &mut Inlet, now: Instant) {
        while self.socket.receive(inlet) {
            let (datagrams, ecn) = inlet.datagrams();
            for bytes in datagrams {
                self.outlet.clear();
                let bytes = BytesMut::from(bytes);
                let Self { endpoint, server, outlet, .. } = self;
                // To one address nobody else sends.
                if let Some(DatagramEvent::ConnectionEvent(_, event)) =
                    endpoint.handle(now, *server, None, ecn, bytes, outlet)
                {
                    self.quic.handle_event(event);
                }
            }
        }
    }

    /// Looks at deadlines, reads answers, begins requests and sends.
    pub(crate) fn drive(&mut self, plan: &Plan, tally: &mut Tally, now: Instant) -> Result<()> {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.quic.handle_timeout(now);
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(answer);
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

    /// Ends the connection; what is under way never came.
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
                    pace.due = now;
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
                // Control and QPACK: nothing on them that this client has to know.
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
            Some(false) => tally.refusals += 1,
            Some(true) if is_whole && fits => tally.answered(*begun, now, reply.content_bytes),
            _ => tally.errors += 1,
        }
        self.open.remove(&id);
    }

    /// Begins as many requests as there may be.
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

    /// Sends content, as far as the windows of the server and of the path go.
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
                    // The server wants no more of it; its response says why.
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
    fn a_connection_that_never_was_counts_once() {
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let config = crate::crypto::config().unwrap();
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

//! A byte stream to a server, plain or encrypted.

use super::quic;
use crate::PATIENCE;
use crate::protocol::Protocol;
use crate::tls_certificates::Pair;
use crate::why_comparison::Served;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ALL_VERSIONS, ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// The host name of servers, unless a case needs another one.
const HOST: &str = "localhost";

/// The address of a server, and the parameters of connections to it.
#[derive(Clone, Debug)]
pub struct Peer {
    address: SocketAddr,
    protocol: Protocol,
    /// The host name in the handshake.
    host: &'static str,
    /// The configuration of encrypted connections. All connections share it, so that later ones
    /// resume the session of earlier ones like those of browsers.
    tls: Option<Arc<ClientConfig>>,
    /// The same for HTTP/3.
    quic: Option<quinn::ClientConfig>,
    /// The address that clients connect from; `None` leaves it to the system.
    source: Option<IpAddr>,
    /// The description of the server for `pinion why`, which explains each exchange over HTTP/1.
    served: Option<Arc<Served>>,
}

impl Peer {
    /// Returns a peer with HTTP/1 over TCP.
    pub fn plain(address: SocketAddr) -> Peer {
        let protocol = Protocol::Http1;
        let (tls, quic, source, served) = (None, None, None, None);
        Peer { address, protocol, host: HOST, tls, quic, source, served }
    }

    /// Returns a peer with this protocol; `certificate` is a PEM file with its certificate, for
    /// encrypted protocols.
    ///
    /// # Panics
    /// Panics if the file has none.
    pub fn new(address: SocketAddr, protocol: Protocol, certificate: Option<&Path>) -> Peer {
        let tls = certificate.filter(|_| protocol.is_encrypted());
        let tls = tls.map(|file| trusting(file, ALL_VERSIONS).with_no_client_auth());
        Peer { protocol, ..Peer::plain(address) }.encrypted(tls)
    }

    /// Returns an encrypted peer that requires certificates of clients: `client` is that of this
    /// client.
    ///
    /// # Panics
    /// Panics if the files are malformed.
    pub fn asking(
        address: SocketAddr,
        protocol: Protocol,
        certificate: &Path,
        client: &Pair,
    ) -> Peer {
        let own = CertificateDer::from_pem_file(&client.cert).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(&client.key).expect("a key");
        let tls = trusting(certificate, ALL_VERSIONS).with_client_auth_cert(vec![own], key);
        let tls = Some(tls.expect("a certificate and its key"));
        Peer { protocol, ..Peer::plain(address) }.encrypted(tls)
    }

    /// Returns the same peer, whose responses are compared with those of `pinion why`.
    #[must_use]
    pub fn explained(self, served: Option<Arc<Served>>) -> Peer {
        Peer { served, ..self }
    }

    /// Returns the description for `pinion why`.
    pub fn served(&self) -> Option<&Arc<Served>> {
        self.served.as_ref()
    }

    fn encrypted(self, tls: Option<ClientConfig>) -> Peer {
        let tls = tls.map(|mut config| {
            config.alpn_protocols = vec![self.protocol.alpn().to_vec()];
            Arc::new(config)
        });
        let quic = tls.as_ref().filter(|_| self.protocol == Protocol::Http3).map(quic::config);
        Peer { tls, quic, ..self }
    }

    /// Returns the same peer with another host in the handshake.
    #[must_use]
    pub fn host(self, host: &'static str) -> Peer {
        Peer { host, ..self }
    }

    /// Returns the same peer with other QUIC windows of a stream and of the connection.
    #[must_use]
    pub fn windows(self, bytes: [u32; 2]) -> Peer {
        let quic = self.quic.as_ref().map(|config| quic::with_windows(config, bytes));
        Peer { quic, ..self }
    }

    /// Returns the same peer, to which QUIC clients send keep-alive packets.
    #[must_use]
    pub fn kept_alive(self) -> Peer {
        let quic = self.quic.as_ref().map(quic::kept_alive);
        Peer { quic, ..self }
    }

    /// Returns the same peer at another address.
    #[must_use]
    pub fn at(&self, address: SocketAddr) -> Peer {
        Peer { address, ..self.clone() }
    }

    /// Returns the same peer, for clients that connect from this address of the host.
    #[must_use]
    pub fn reached_from(&self, source: impl Into<IpAddr>) -> Peer {
        Peer { source: Some(source.into()), ..self.clone() }
    }

    /// Returns the address that clients connect from, if it is given.
    pub fn source(&self) -> Option<IpAddr> {
        self.source
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the host name in the handshake.
    pub(super) fn asked_for(&self) -> &'static str {
        self.host
    }

    /// Returns the QUIC configuration.
    pub(super) fn quic(&self) -> Option<&quinn::ClientConfig> {
        self.quic.as_ref()
    }
}

/// Returns the builder of a client configuration that trusts only this certificate.
///
/// # Panics
/// Panics if the file has none.
pub fn trusting(
    certificate: &Path,
    versions: &[&'static SupportedProtocolVersion],
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let certificate = CertificateDer::from_pem_file(certificate).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate to trust");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_protocol_versions(versions).expect("TLS");
    config.with_root_certificates(roots)
}

/// Connects from an address of this host.
fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    // Programs that other tests start at the same time must not inherit the socket.
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    rustix::net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

/// A connected socket, and the state of its encryption.
#[derive(Debug)]
pub enum Wire {
    /// Without encryption.
    Plain(TcpStream),
    /// TLS with a completed handshake.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// Connects and completes the handshake.
    ///
    /// # Errors
    /// Returns the errors of the socket or of TLS.
    pub fn open(peer: &Peer) -> io::Result<Wire> {
        let mut stream = match peer.source {
            None => TcpStream::connect(peer.address)?,
            Some(source) => connect_from(source, peer.address)?,
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let Some(config) = &peer.tls else { return Ok(Wire::Plain(stream)) };
        let name = ServerName::try_from(peer.host).map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(config), name);
        let mut tls = tls.map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        match tls.alpn_protocol() {
            Some(agreed) if agreed == peer.protocol.alpn() => {}
            other => return Err(io::Error::other(format!("{other:?} was agreed on"))),
        }
        Ok(Wire::Tls(Box::new(StreamOwned::new(tls, stream))))
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => &stream.sock,
        }
    }

    /// Ends the sending side; over TLS with close_notify (RFC 8446 §6.1).
    ///
    /// # Errors
    /// Returns the errors of the socket.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(stream) => stream.shutdown(Shutdown::Write),
            Wire::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()
            }
        }
    }
}

/// Over TLS the stream must end with close_notify; any other end is an error.
impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Tls(stream) => read_sealed(stream, buffer),
        }
    }
}

/// Reads without writing, unlike the library's own stream: the last bytes of a server that reads
/// nothing more can still be read.
fn read_sealed(
    stream: &mut StreamOwned<ClientConnection, TcpStream>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match stream.conn.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        stream.conn.read_tls(&mut stream.sock)?;
        stream.conn.process_new_packets().map_err(io::Error::other)?;
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(stream) => stream.flush(),
            Wire::Tls(stream) => stream.flush(),
        }
    }
}

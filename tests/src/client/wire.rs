//! A stream of bytes to a server, plain or encrypted.

use super::quic;
use crate::PATIENCE;
use crate::protocol::Protocol;
use crate::tls::Pair;
use crate::why::Served;
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

/// Who servers say they are, unless a case is about that.
const HOST: &str = "localhost";

/// Where a server is, and how to talk to it.
#[derive(Clone, Debug)]
pub struct Peer {
    address: SocketAddr,
    protocol: Protocol,
    /// Asked for in the handshake.
    host: &'static str,
    /// For what is encrypted. Shared by all connections, so that later ones resume the session of
    /// earlier ones as those of browsers do.
    tls: Option<Arc<ClientConfig>>,
    /// For HTTP/3, made of that.
    quic: Option<quinn::ClientConfig>,
    /// The address that clients connect from; `None` leaves it to the system.
    source: Option<IpAddr>,
    /// What `pinion why` explains of it: each exchange over HTTP/1.
    served: Option<Arc<Served>>,
}

impl Peer {
    /// One that speaks HTTP/1 over TCP.
    pub fn plain(address: SocketAddr) -> Peer {
        let protocol = Protocol::Http1;
        let (tls, quic, source, served) = (None, None, None, None);
        Peer { address, protocol, host: HOST, tls, quic, source, served }
    }

    /// One that speaks this protocol; `certificate` is a PEM file with the certificate it has, for
    /// what is encrypted.
    ///
    /// # Panics
    /// When the file has none.
    pub fn new(address: SocketAddr, protocol: Protocol, certificate: Option<&Path>) -> Peer {
        let tls = certificate.filter(|_| protocol.is_encrypted());
        let tls = tls.map(|file| trusting(file, ALL_VERSIONS).with_no_client_auth());
        Peer { protocol, ..Peer::plain(address) }.encrypted(tls)
    }

    /// One that is encrypted and asks its clients who they are: `client` tells it.
    ///
    /// # Panics
    /// When the files are not what they should be.
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

    /// The same, whose responses are compared with what `pinion why` says.
    #[must_use]
    pub fn explained(self, served: Option<Arc<Served>>) -> Peer {
        Peer { served, ..self }
    }

    /// What `pinion why` explains of it.
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

    /// The same, asked for another host in the handshake.
    #[must_use]
    pub fn host(self, host: &'static str) -> Peer {
        Peer { host, ..self }
    }

    /// The same, but over QUIC the server may send so much before it hears more, on a stream and on
    /// the connection.
    #[must_use]
    pub fn windows(self, bytes: [u32; 2]) -> Peer {
        let quic = self.quic.as_ref().map(|config| quic::with_windows(config, bytes));
        Peer { quic, ..self }
    }

    /// The same, but over QUIC the client shows again and again that it is there.
    #[must_use]
    pub fn kept_alive(self) -> Peer {
        let quic = self.quic.as_ref().map(quic::kept_alive);
        Peer { quic, ..self }
    }

    /// The same behind another address.
    #[must_use]
    pub fn at(&self, address: SocketAddr) -> Peer {
        Peer { address, ..self.clone() }
    }

    /// The same, for clients that connect from this address of the host.
    #[must_use]
    pub fn reached_from(&self, source: impl Into<IpAddr>) -> Peer {
        Peer { source: Some(source.into()), ..self.clone() }
    }

    /// The address that clients connect from, if it is given.
    pub fn source(&self) -> Option<IpAddr> {
        self.source
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The host that it is asked for in the handshake.
    pub(super) fn asked_for(&self) -> &'static str {
        self.host
    }

    /// How to talk QUIC with it.
    pub(super) fn quic(&self) -> Option<&quinn::ClientConfig> {
        self.quic.as_ref()
    }
}

/// The beginning of what a client needs that trusts this certificate and no other one.
///
/// # Panics
/// When the file has none.
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
    // Programs that other tests start at this moment must not inherit it.
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    rustix::net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

/// A connected socket, and what encrypts it.
#[derive(Debug)]
pub enum Wire {
    /// Nothing does.
    Plain(TcpStream),
    /// TLS does; its handshake is over.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// Connects and shakes hands.
    ///
    /// # Errors
    /// What the socket says, or TLS.
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

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => &stream.sock,
        }
    }

    /// Says that nothing more will be sent. Over TLS by its own word for that (RFC 8446 §6.1).
    ///
    /// # Errors
    /// What the socket says.
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

/// Over TLS the end of the stream has to be told; an end that was not is an error.
impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Tls(stream) => read_sealed(stream, buffer),
        }
    }
}

/// Reads without writing, unlike the library's own stream: what a server says before it closes is
/// there although it takes nothing more.
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

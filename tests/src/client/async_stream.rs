//! The same byte stream as [`super::byte_stream`] for libraries that wait by futures.

use super::byte_stream::{Peer, Wire};
use rustls::ClientConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connected socket, and the state of its encryption.
#[derive(Debug)]
pub struct Pipe {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Pipe {
    /// Connects and completes the TLS handshake, which blocks. It must be called within a runtime.
    ///
    /// # Errors
    /// Returns the errors of the socket or of TLS.
    pub fn open(peer: &Peer) -> io::Result<Pipe> {
        let (socket, tls) = match Wire::open(peer)? {
            Wire::Plain(socket) => (socket, None),
            Wire::Tls(stream) => {
                let (tls, socket) = stream.into_parts();
                (socket, Some(Box::new(tls)))
            }
        };
        socket.set_nonblocking(true)?;
        Ok(Pipe { socket: TcpStream::from_std(socket)?, tls })
    }

    /// Sends the bytes that are encrypted already.
    fn drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(())) };
        while tls.wants_write() {
            ready!(self.socket.poll_write_ready(context))?;
            match tls.write_tls(&mut AtOnce(&self.socket)) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error).into(),
                Ok(_) | Err(_) => {}
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads and writes without waiting.
struct AtOnce<'a>(&'a TcpStream);

impl Read for AtOnce<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for AtOnce<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Pipe { socket, tls } = self.get_mut();
        let Some(tls) = tls else { return Pin::new(socket).poll_read(context, buffer) };
        loop {
            match tls.reader().read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done.map(|count| buffer.advance(count))),
            }
            ready!(socket.poll_read_ready(context))?;
            match tls.read_tls(&mut AtOnce(socket)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).into(),
                Ok(_) => {
                    tls.process_new_packets().map_err(io::Error::other)?;
                }
            }
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let pipe = self.get_mut();
        ready!(pipe.drain(context))?;
        let Some(tls) = &mut pipe.tls else {
            return Pin::new(&mut pipe.socket).poll_write(context, bytes);
        };
        let taken = tls.writer().write(bytes)?;
        // Bytes that cannot be sent now go with the next call, or with a flush.
        let _gone = pipe.drain(context)?;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().drain(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let pipe = self.get_mut();
        if let Some(tls) = &mut pipe.tls {
            tls.send_close_notify();
        }
        ready!(pipe.drain(context))?;
        Pin::new(&mut pipe.socket).poll_shutdown(context)
    }
}

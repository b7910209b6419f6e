//! A server that was just started and has responded once.

use super::process_cost;
use crate::process;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit for the first response of a server.
const RESPONSE_MAX: Duration = Duration::from_secs(10);

/// A server on a free port of this machine; it ends when this is dropped.
pub(crate) struct Started {
    child: Child,
    address: SocketAddr,
}

impl Started {
    /// Starts a server with `site` and returns it with the time until the first response for
    /// `path`.
    pub(crate) fn start(pinion: &Path, site: &Path, path: &str) -> Result<(Self, Duration)> {
        Self::start_with(pinion, site, path, &[])
    }

    /// Does the same with more flags.
    pub(crate) fn start_with(
        pinion: &Path,
        site: &Path,
        path: &str,
        flags: &[&str],
    ) -> Result<(Self, Duration)> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = Command::new(pinion);
        command.arg("serve").arg(site).args(["--listen", &address.to_string()]).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let mut server = Self { child: command.spawn()?, address };
        let response = loop {
            if let Ok(response) = server.ask(path) {
                break response;
            }
            if began.elapsed() > RESPONSE_MAX || server.child.try_wait()?.is_some() {
                bail!("{} does not answer", process::shown(&command));
            }
            std::thread::sleep(Duration::from_micros(100));
        };
        let took = began.elapsed();
        if !response.starts_with(b"HTTP/1.1 200 ") {
            bail!("{path}: {}", response.escape_ascii());
        }
        Ok((server, took))
    }

    /// Returns the address of its listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the whole response to a request, on a connection of its own.
    pub(crate) fn ask(&self, path: &str) -> Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(RESPONSE_MAX))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        Ok(response)
    }

    /// Returns the whole response to a request with content, on a connection of its own.
    pub(crate) fn post(&self, path: &str, media_type: &str, content: &[u8]) -> Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.address)?;
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
            content.len()
        )?;
        stream.write_all(content)?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        Ok(response)
    }

    /// Returns the bytes of its resident anonymous memory, without mapped files, whose memory the
    /// kernel can reclaim.
    pub(crate) fn own_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        process_cost::bytes_in(&status, "RssAnon").context("the kernel does not say")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

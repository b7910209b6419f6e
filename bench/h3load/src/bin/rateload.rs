//! Load over HTTP/1.1, plain or with TLS, or over RESP (the protocol of Redis), at a fixed rate,
//! whatever the server does (an open loop): each request has a due time from which its latency
//! counts, so a stalled server does not get fewer requests. The counts are printed as one line of
//! JSON; times are microseconds.
//!
//! The requests are all the same, and so are the lengths of the responses. The connections take
//! turns, so that requests are due at even distances. One thread sends and receives without ever
//! sleeping: a client that sleeps would add the time of its own wakeups.

#![forbid(unsafe_code)]

#[path = "../crypto.rs"]
mod crypto;
#[path = "../tally.rs"]
mod tally;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tally::Tally;

const USAGE: &str = "\
usage: pinion-rateload [OPTIONS] http[s]://ADDRESS:PORT/PATH | redis://ADDRESS:PORT/KEY
  -c N            connections [10]
  -d SECONDS      how long requests are sent [2]
  --rps N         requests of a connection in a second [100]";

/// The time limit of the last responses.
const GRACE: Duration = Duration::from_secs(5);
/// The bounds of the numbers of options.
const OPTION_MIN: f64 = 1e-3;
const OPTION_MAX: f64 = 1e6;
/// The time limit of the first response of a connection.
const FIRST_RESPONSE: Duration = Duration::from_secs(5);
/// Most bytes of one read: a record of TLS.
const READ_BYTES: usize = 1 << 14;

/// The options of the command line.
#[derive(Debug, PartialEq)]
struct Options {
    connections: usize,
    seconds: f64,
    /// Requests of a connection in a second.
    rate: f64,
    protocol: Protocol,
    server: SocketAddr,
    /// The path of a resource, or the name of a key.
    target: String,
}

/// The protocol of the requests.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Protocol {
    Http,
    Https,
    /// `GET` of a string, in RESP2.
    Redis,
}

impl Protocol {
    fn of_scheme(scheme: &str) -> Option<Self> {
        match scheme {
            "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            "redis" => Some(Self::Redis),
            _ => None,
        }
    }

    fn request(self, server: SocketAddr, target: &str) -> Vec<u8> {
        let text = match self {
            Self::Http | Self::Https => {
                format!("GET /{target} HTTP/1.1\r\nHost: {server}\r\n\r\n")
            }
            Self::Redis => format!("*2\r\n$3\r\nGET\r\n${}\r\n{target}\r\n", target.len()),
        };
        text.into_bytes()
    }

    /// Returns the length of a response, once its head is complete.
    ///
    /// # Errors
    /// Fails for a head without a length.
    fn response_length(self, response: &[u8]) -> Result<Option<usize>> {
        let head_end: &[u8] = if self == Self::Redis { b"\r\n" } else { b"\r\n\r\n" };
        let end = response.windows(head_end.len()).position(|bytes| bytes == head_end);
        let Some(end) = end else { return Ok(None) };
        let head = String::from_utf8_lossy(&response[..end]).to_ascii_lowercase();
        let content_bytes = match self {
            // A string is followed by a line end, which does not count.
            Self::Redis => head.strip_prefix('$').map(|length| (length, head_end.len())),
            Self::Http | Self::Https => {
                let field = head.split_once("\r\ncontent-length:");
                field.and_then(|(_, rest)| rest.lines().next()).map(|length| (length.trim(), 0))
            }
        };
        let (length, end_bytes) = content_bytes.context("a response without a length")?;
        let length: usize = length.parse().context("the length of a response is no number")?;
        Ok(Some(end + head_end.len() + length + end_bytes))
    }

    fn is_success(self, response: &[u8]) -> bool {
        self == Self::Redis || response.starts_with(b"HTTP/1.1 200 ")
    }
}

fn main() -> Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    let (tally, duration) = run(&options)?;
    println!("{}", tally.into_json(duration));
    Ok(())
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let (mut connections, mut seconds, mut rate, mut url) = (10.0, 2.0, 100.0, None);
        while let Some(word) = words.next() {
            let target = match word.as_str() {
                "-c" => &mut connections,
                "-d" => &mut seconds,
                "--rps" => &mut rate,
                _ if url.is_none() && !word.starts_with('-') => {
                    url = Some(word);
                    continue;
                }
                _ => bail!("not an option: {word}\n{USAGE}"),
            };
            let value = words.next().and_then(|value| value.parse().ok());
            *target = value
                .filter(|value| (OPTION_MIN..OPTION_MAX).contains(value))
                .with_context(|| format!("{word} needs a positive number\n{USAGE}"))?;
        }
        let url = url.context(USAGE)?;
        let (scheme, rest) = url.split_once("://").with_context(|| format!("{url}\n{USAGE}"))?;
        let protocol = Protocol::of_scheme(scheme).with_context(|| format!("{url}\n{USAGE}"))?;
        let (server, target) = rest.split_once('/').with_context(|| format!("{url}\n{USAGE}"))?;
        let server = server.parse().with_context(|| format!("{url}\n{USAGE}"))?;
        let (connections, target) = (connections.ceil() as usize, target.to_owned());
        Ok(Self { connections, seconds, rate, protocol, server, target })
    }
}

/// The bytes of a connection, plain or encrypted.
enum Transport {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Transport {
    fn connect(server: SocketAddr, config: Option<&Arc<ClientConfig>>) -> Result<Self> {
        let socket = TcpStream::connect(server)?;
        socket.set_nodelay(true)?;
        let Some(config) = config else { return Ok(Self::Plain(socket)) };
        let tls = ClientConnection::new(Arc::clone(config), ServerName::from(server.ip()))?;
        Ok(Self::Tls(Box::new(StreamOwned::new(tls, socket))))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

/// A connection with the due times of its requests that have no response yet.
struct Connection {
    transport: Transport,
    due: VecDeque<Instant>,
    /// The bytes of requests that the socket has not taken yet.
    unsent: Vec<u8>,
    /// The bytes of responses that have not been counted yet.
    received_bytes: usize,
}

impl Connection {
    /// Opens a connection and gets one response, whose length it returns as well.
    fn open(
        options: &Options,
        config: Option<&Arc<ClientConfig>>,
        request: &[u8],
    ) -> Result<(Self, usize)> {
        let Options { protocol, server, .. } = *options;
        let mut transport = Transport::connect(server, config)?;
        transport.socket().set_read_timeout(Some(FIRST_RESPONSE))?;
        ensure!(transport.write(request)? == request.len(), "the request is too long");
        let (mut response, mut length) = (Vec::new(), None);
        while length.is_none_or(|length| response.len() < length) {
            let mut bytes = [0; READ_BYTES];
            let count = transport.read(&mut bytes)?;
            ensure!(count > 0, "{server} has closed the connection");
            response.extend_from_slice(&bytes[..count]);
            length = protocol.response_length(&response)?;
        }
        ensure!(protocol.is_success(&response), "the status of a response is not 200");
        ensure!(length == Some(response.len()), "a response is longer than it says");
        transport.socket().set_nonblocking(true)?;
        let (due, unsent) = (VecDeque::new(), Vec::new());
        Ok((Self { transport, due, unsent, received_bytes: 0 }, response.len()))
    }

    /// Sends a request that is due at this time.
    fn send(&mut self, request: &[u8], due: Instant) -> Result<()> {
        self.due.push_back(due);
        self.unsent.extend_from_slice(request);
        self.flush()
    }

    /// Writes as much as the socket takes.
    fn flush(&mut self) -> Result<()> {
        while !self.unsent.is_empty() {
            match self.transport.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads the available bytes, and counts the responses that are complete.
    fn receive(
        &mut self,
        response_bytes: usize,
        buffer: &mut [u8],
        tally: &mut Tally,
    ) -> Result<()> {
        self.flush()?;
        match self.transport.read(buffer) {
            Ok(0) => bail!("the server has closed a connection"),
            Ok(count) => {
                self.received_bytes += count;
                tally.received_bytes += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        while self.received_bytes >= response_bytes {
            self.received_bytes -= response_bytes;
            let due = self.due.pop_front().context("a response to no request")?;
            tally.count_response(due, Instant::now(), response_bytes as u64);
        }
        Ok(())
    }
}

/// Sends all requests; returns the counts, and the time that it took.
fn run(options: &Options) -> Result<(Tally, Duration)> {
    let Options { protocol, server, connections: number, .. } = *options;
    let request = protocol.request(server, &options.target);
    let config = (protocol == Protocol::Https).then(|| crypto::config(b"http/1.1")).transpose()?;
    let config = config.map(Arc::new);
    let (mut connections, mut response_bytes) = (Vec::new(), 0);
    for _ in 0..number {
        let (connection, bytes) = Connection::open(options, config.as_ref(), &request)?;
        ensure!(connections.is_empty() || bytes == response_bytes, "responses differ in length");
        response_bytes = bytes;
        connections.push(connection);
    }
    let rate = options.rate * number as f64;
    let count = (rate * options.seconds) as usize;
    let due_after = |request: usize| Duration::from_secs_f64(request as f64 / rate);
    let mut buffer = vec![0; READ_BYTES];
    let mut tally = Tally::default();
    let (began, mut sent) = (Instant::now(), 0);
    let end = began + Duration::from_secs_f64(options.seconds) + GRACE;
    loop {
        let now = Instant::now();
        while sent < count && began + due_after(sent) <= now {
            connections[sent % number].send(&request, began + due_after(sent))?;
            sent += 1;
        }
        for connection in connections.iter_mut().filter(|one| !one.due.is_empty()) {
            connection.receive(response_bytes, &mut buffer, &mut tally)?;
        }
        let open: usize = connections.iter().map(|connection| connection.due.len()).sum();
        if (sent == count && open == 0) || now > end {
            tally.timeouts = open as u64;
            return Ok((tally, began.elapsed()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn options_of_rateload_are_parsed() {
        let options = parse("-c 3 -d 4 --rps 2.5 https://127.0.0.1:7/a/b").unwrap();
        let expected = Options {
            connections: 3,
            seconds: 4.0,
            rate: 2.5,
            protocol: Protocol::Https,
            server: "127.0.0.1:7".parse().unwrap(),
            target: "a/b".to_owned(),
        };
        assert_eq!(options, expected);
        assert_eq!(parse("http://127.0.0.1:7/").unwrap().protocol, Protocol::Http);
        assert_eq!(parse("redis://127.0.0.1:7/key").unwrap().protocol, Protocol::Redis);
    }

    #[test]
    fn a_response_ends_after_its_content() {
        let response = b"HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 2\r\n\r\nhi";
        let length = |response| Protocol::Http.response_length(response);
        assert_eq!(length(response).unwrap(), Some(response.len()));
        assert_eq!(length(&response[..40]).unwrap(), None);
        assert!(length(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        let length = |response| Protocol::Redis.response_length(response);
        assert_eq!(length(b"$2\r\nhi\r\n").unwrap(), Some(8));
        assert_eq!(length(b"$2\r").unwrap(), None);
        assert!(length(b"$-1\r\n").is_err() && length(b"-ERR\r\n").is_err());
        let command = Protocol::Redis.request(([127, 0, 0, 1], 7).into(), "ab");
        assert_eq!(command, b"*2\r\n$3\r\nGET\r\n$2\r\nab\r\n");
    }

    #[test]
    fn an_unknown_option_is_refused() {
        for line in [
            "-c",
            "-c x https://127.0.0.1:7/",
            "--what",
            "ftp://127.0.0.1:7/",
            "http://a/",
            "-c 0 x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    /// A server that is late gets all requests, and each has its latency.
    #[test]
    fn each_request_is_counted() {
        const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("-c 3 -d 0.1 --rps 300 http://{}/a", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let (mut bytes, mut request) = ([0; 1000], Vec::new());
                    while let Ok(count @ 1..) = stream.read(&mut bytes) {
                        request.extend_from_slice(&bytes[..count]);
                        while let Some(at) = request.windows(4).position(|end| end == b"\r\n\r\n") {
                            request.drain(..at + 4);
                            stream.write_all(RESPONSE).unwrap();
                        }
                    }
                });
            }
        });
        let (tally, duration) = run(&parse(&url).unwrap()).unwrap();
        let counts = tally.into_json(duration);
        assert_eq!((&counts["requests"], &counts["timeouts"]), (&90.into(), &0.into()));
        assert_eq!(counts["received_bytes"], 90 * RESPONSE.len());
    }
}

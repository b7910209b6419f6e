//! A small DNS server on loopback, over UDP and TCP, with responses that a test determines. It has
//! its own encoder (RFC 1035 §4.1), so that the resolver is not tested with itself.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

pub(crate) const A: u16 = 1;
pub(crate) const CNAME: u16 = 5;
pub(crate) const SOA: u16 = 6;
pub(crate) const AAAA: u16 = 28;

pub(crate) const NO_ERROR: u8 = 0;
pub(crate) const SERVER_FAILURE: u8 = 2;
pub(crate) const NAME_ERROR: u8 = 3;
pub(crate) const REFUSED: u8 = 5;

/// A question.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) id: u16,
    /// In lower case, without the dot at its end.
    pub(crate) name: String,
    pub(crate) kind: u16,
    pub(crate) is_tcp: bool,
}

/// The reaction of the server to a question.
pub(crate) enum Response {
    Message(Message),
    /// Datagrams that are sent unchanged; over TCP only the first one, with its length.
    Raw(Vec<Vec<u8>>),
    Silence,
}

/// A response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) code: u8,
    pub(crate) is_truncated: bool,
    pub(crate) answers: Vec<Record>,
    /// The TTL of the SOA record in a negative response.
    pub(crate) negative_ttl: Option<u32>,
}

/// A record of the answer section.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) kind: u16,
    pub(crate) ttl: u32,
    pub(crate) data: Vec<u8>,
}

impl Message {
    pub(crate) fn error(code: u8) -> Response {
        Response::Message(Self { code, ..Self::default() })
    }

    /// Returns a response without answers that may be cached for a time (RFC 2308 §2).
    pub(crate) fn absent(code: u8, negative_ttl: u32) -> Response {
        Response::Message(Self { code, negative_ttl: Some(negative_ttl), ..Self::default() })
    }

    /// Returns the addresses of the requested family.
    pub(crate) fn addresses(question: &Question, ttl: u32, addresses: &[&str]) -> Response {
        let records = addresses.iter().map(|text| Record::address(&question.name, ttl, text));
        let answers: Vec<Record> = records.filter(|record| record.kind == question.kind).collect();
        let negative_ttl = answers.is_empty().then_some(ttl);
        Response::Message(Self { answers, negative_ttl, ..Self::default() })
    }

    pub(crate) fn encode(&self, question: &Question) -> Vec<u8> {
        let mut bytes = question.id.to_be_bytes().to_vec();
        // The flags of a response to a query with recursion desired and available.
        bytes.extend([0x81 | if self.is_truncated { 2 } else { 0 }, 0x80 | self.code]);
        let authorities = u16::from(self.negative_ttl.is_some());
        let answers = u16::try_from(self.answers.len()).expect("few records");
        for count in [1, answers, authorities, 0] {
            bytes.extend(count.to_be_bytes());
        }
        bytes.extend(encode_name(&question.name));
        bytes.extend(question.kind.to_be_bytes());
        bytes.extend(1_u16.to_be_bytes());
        for record in &self.answers {
            record.encode(&mut bytes);
        }
        if let Some(ttl) = self.negative_ttl {
            let mut data = [encode_name("ns.example"), encode_name("admin.example")].concat();
            for number in [1, 3600, 600, 86400, ttl] {
                data.extend(number.to_be_bytes());
            }
            Record { name: "example".to_owned(), kind: SOA, ttl, data }.encode(&mut bytes);
        }
        bytes
    }
}

impl Record {
    pub(crate) fn address(name: &str, ttl: u32, text: &str) -> Self {
        let (kind, data) = match text.parse().expect(text) {
            IpAddr::V4(address) => (A, address.octets().to_vec()),
            IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
        };
        Self { name: name.to_owned(), kind, ttl, data }
    }

    pub(crate) fn alias(name: &str, ttl: u32, target: &str) -> Self {
        Self { name: name.to_owned(), kind: CNAME, ttl, data: encode_name(target) }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(encode_name(&self.name));
        bytes.extend(self.kind.to_be_bytes());
        bytes.extend(1_u16.to_be_bytes());
        bytes.extend(self.ttl.to_be_bytes());
        bytes.extend(u16::try_from(self.data.len()).expect("short data").to_be_bytes());
        bytes.extend(&self.data);
    }
}

pub(crate) fn encode_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).expect("a label"));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

fn decode(bytes: &[u8], is_tcp: bool) -> Option<Question> {
    let id = u16::from_be_bytes(*bytes.first_chunk()?);
    let mut rest = bytes.get(12..)?;
    let mut labels = Vec::new();
    while let (&[length, ..], _) = rest.split_at_checked(1)? {
        rest = &rest[1..];
        if length == 0 {
            break;
        }
        let (label, behind) = rest.split_at_checked(length.into())?;
        labels.push(String::from_utf8(label.to_ascii_lowercase()).ok()?);
        rest = behind;
    }
    let kind = u16::from_be_bytes(*rest.first_chunk()?);
    Some(Question { id, name: labels.join("."), kind, is_tcp })
}

type Behaviour = dyn Fn(&Question) -> Response + Send + Sync;

/// A server. Its threads run until the process of the test ends.
pub(crate) struct DnsServer {
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
}

impl DnsServer {
    /// Starts a server on a free port, with the same number for UDP and TCP.
    pub(crate) fn start(
        behaviour: impl Fn(&Question) -> Response + Send + Sync + 'static,
    ) -> DnsServer {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
            let address = udp.local_addr().expect("an address");
            if let Ok(tcp) = TcpListener::bind(address) {
                break (udp, tcp);
            }
        };
        let server = Self { address: udp.local_addr().expect("an address"), log: Arc::default() };
        let behaviour: Arc<Behaviour> = Arc::new(behaviour);
        let log = Arc::clone(&server.log);
        let answer = move |bytes: &[u8], is_tcp| {
            let Some(question) = decode(bytes, is_tcp) else { return Vec::new() };
            let kind = if question.kind == AAAA { "AAAA" } else { "A" };
            let transport = if is_tcp { "tcp" } else { "udp" };
            log.lock().expect("a log").push(format!("{kind} {} {transport}", question.name));
            match behaviour(&question) {
                Response::Message(message) => vec![message.encode(&question)],
                Response::Raw(datagrams) => datagrams,
                Response::Silence => Vec::new(),
            }
        };
        let answer = Arc::new(answer);
        serve_tcp(tcp, Arc::clone(&answer));
        serve_udp(udp, answer);
        server
    }

    /// Returns the questions so far, sorted.
    pub(crate) fn questions(&self) -> Vec<String> {
        let mut questions = self.log.lock().expect("a log").clone();
        questions.sort();
        questions
    }
}

fn serve_udp(
    udp: UdpSocket,
    answer: Arc<impl Fn(&[u8], bool) -> Vec<Vec<u8>> + Send + Sync + 'static>,
) {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, peer)) = udp.recv_from(&mut buffer) {
            let (bytes, answer) = (buffer[..length].to_vec(), Arc::clone(&answer));
            let udp = udp.try_clone().expect("a socket");
            thread::spawn(move || {
                for datagram in answer(&bytes, false) {
                    // The resolver may have closed its socket.
                    let _ = udp.send_to(&datagram, peer);
                }
            });
        }
    });
}

fn serve_tcp(
    tcp: TcpListener,
    answer: Arc<impl Fn(&[u8], bool) -> Vec<Vec<u8>> + Send + Sync + 'static>,
) {
    thread::spawn(move || {
        for stream in tcp.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || while exchange(&stream, &*answer).is_some() {});
        }
    });
}

/// Answers one question of a TCP connection, which has its length in front (RFC 1035 §4.2.2).
fn exchange(
    mut stream: &TcpStream,
    answer: &(impl Fn(&[u8], bool) -> Vec<Vec<u8>> + ?Sized),
) -> Option<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut bytes).ok()?;
    if let Some(message) = answer(&bytes, true).first() {
        let length = u16::try_from(message.len()).expect("a short message");
        stream.write_all(&[&length.to_be_bytes(), &message[..]].concat()).ok()?;
    }
    Some(())
}

/// Lets all questions of a server wait.
#[derive(Default)]
pub(crate) struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn pass(&self) {
        let is_open = self.is_open.lock().expect("a gate");
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).expect("a gate"));
    }

    pub(crate) fn open(&self) {
        *self.is_open.lock().expect("a gate") = true;
        self.opened.notify_all();
    }
}

/// Starts a server whose answers wait for its gate.
pub(crate) fn gated() -> (DnsServer, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let inside = Arc::clone(&gate);
    let server = DnsServer::start(move |question| {
        inside.pass();
        Message::addresses(question, 0, &["192.0.2.1", "2001:db8::1"])
    });
    (server, gate)
}

//! Tests of single cases over simulated connections, one for each thing that a client must not get
//! wrong. The laws for all kinds of servers are in `tests/sim`.

mod fastcgi_and_scgi;
mod memory_limits;
#[path = "../../tests/sim/sim_worker.rs"]
mod sim_worker;
mod tls_settings;
mod uploads;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use pinion_engine::app::{App, Event, Message};
use pinion_engine::backend::sim::{Client, Faults, Network};
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_engine::outgoing_connect::RemoteAddress;
use pinion_engine::stepped_worker::Stepped;
use sim_worker::sim_worker;

use super::request::{OwnedFields, RequestBody, ServerProtocol};
use super::*;
use crate::address_policy::{AddressPolicy, PrivateAddresses};
use crate::connection_pool::{KeyLimits, PoolSettings};
use crate::happy_eyeballs::AddressFamily;
use crate::limits::{CONTENT_BUFFER_BYTES, POOL_IDLE_TIMEOUT_MS, READ_BYTES};
use crate::request_url::RequestUrl;
use crate::resolver::{Resolved, ResolverSettings};

const TIMEOUT_MS: u64 = 5000;
const URL: &str = "http://192.0.2.1/";

/// Notes which requests have news.
struct Caller {
    client: HttpClient,
    news: Vec<RequestId>,
    /// A connection that ends at the beginning of the next pass, which the client does not hear.
    lost: Option<Address>,
}

impl Caller {
    fn flush(&mut self, connections: &mut Connections<'_>) {
        self.client.flush(connections);
        while let Some(id) = self.client.next_news() {
            self.news.push(id);
        }
    }
}

impl App for Caller {
    fn exchange(&mut self, _: Event<'_>, exchange: &mut Exchange<'_>) {
        exchange.abort();
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        self.client.byte_stream_event(&event, stream);
        self.flush(&mut stream.connections());
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        if let Some(address) = self.lost.take() {
            connections.stream(address).expect("an open connection").abort();
        }
        self.client.pass(connections);
        self.flush(connections);
    }

    fn alarm_ms(&self) -> Option<u64> {
        self.client.alarm_ms()
    }

    /// A message means that names were resolved, and the next pass reads them.
    fn posted(&mut self, _: Message, _: &mut Connections<'_>) {}
}

struct Run {
    network: Network,
    worker: Stepped<true, Caller>,
}

impl Run {
    fn new(connections_per_key_max: usize) -> Self {
        let pool = PoolSettings { connections_per_key_max, ..PoolSettings::default() };
        Self::with(HttpClientSettings { pool, ..HttpClientSettings::default() })
    }

    fn with(bounds: HttpClientSettings) -> Self {
        let (network, worker) = sim_worker(1, Faults::default(), |poster| {
            // No name server responds, because none listens at this address.
            let name_servers = vec![([127, 0, 0, 1], 1).into()];
            let resolver = Resolver::new(ResolverSettings { name_servers, ..Default::default() });
            let client = HttpClient::new(resolver, bounds, poster, 0);
            Caller { client, news: Vec::new(), lost: None }
        });
        Self { network, worker }
    }

    fn now_ms(&self) -> u64 {
        self.network.now().monotonic_ms
    }

    fn client(&mut self) -> &mut HttpClient {
        &mut self.worker.app().client
    }

    fn pass(&mut self, ms: u64) {
        sim_worker::pass(&self.network, &mut self.worker, ms);
    }

    fn passes(&mut self) {
        (0..6).for_each(|_| self.pass(1));
    }

    fn pass_until(&mut self, at_ms: u64) {
        while self.now_ms() < at_ms {
            self.pass((at_ms - self.now_ms()).min(100));
        }
    }

    fn start(&mut self, request: ClientRequest) -> RequestId {
        let now_ms = self.now_ms();
        let id = self.client().start(request, now_ms).expect("a request");
        self.passes();
        id
    }

    /// Accepts the connection that is being opened.
    fn accept(&mut self) -> (Client, RemoteAddress) {
        let (server, remote) = self.network.next_opened().expect("a connection is opened");
        self.network.establish(server, 1 << 20);
        self.passes();
        (server, remote)
    }

    fn respond(&mut self, server: Client, bytes: &[u8]) {
        assert_eq!(self.network.send(server, bytes), bytes.len());
        self.passes();
    }

    fn requested(&self, server: Client) -> String {
        let mut bytes = Vec::new();
        self.network.read(server, 1 << 20, &mut bytes);
        String::from_utf8(bytes).expect("text")
    }

    fn read_all(&mut self, id: RequestId) -> (Vec<u8>, ReadOutcome) {
        let mut content = Vec::new();
        loop {
            let give = |bytes: &[u8]| content.extend_from_slice(bytes);
            match self.client().read(id, 10_000, give) {
                ReadOutcome::Bytes(_) => self.passes(),
                other => return (content, other),
            }
        }
    }

    fn error(&mut self, id: RequestId) -> Option<String> {
        self.client().response(id).err().map(|error| error.to_string())
    }

    /// Closes requests and waits until unused connections are closed: nothing may be left.
    fn end(mut self, ids: &[RequestId]) {
        ids.iter().for_each(|id| self.client().close(*id));
        self.passes();
        let end_ms = self.now_ms() + POOL_IDLE_TIMEOUT_MS + 1000;
        self.pass_until(end_ms);
        let client = self.client();
        assert_eq!(client.holdings(), (0, 0));
        assert_eq!((client.opening.len(), client.abandoned.len()), (0, 0));
        assert_eq!((client.deadlines.len(), client.draining.len()), (0, 0));
        assert_eq!((client.pool.connections(), client.pool.waiting()), (0, 0));
        assert_eq!(client.memory.bytes(), 0);
        assert!(!client.has_work());
        assert_eq!(client.alarm_ms(), None);
        assert_eq!(self.worker.holdings().connections, 0);
    }
}

fn get(url: &str) -> ClientRequest {
    let networks = ["192.0.2.0/24".parse().expect("a network")];
    ClientRequest {
        site: 1,
        method: "GET".into(),
        url: RequestUrl::parse(url).expect("a URL"),
        fields: OwnedFields::default(),
        content: RequestBody::Whole([].into()),
        policy: Arc::new(AddressPolicy::new(PrivateAddresses::Allowed, networks, [])),
        tls: None,
        timeout_ms: TIMEOUT_MS,
        redirects_max: 2,
        content_max_bytes: 1 << 20,
        forwarded: None,
        protocol: ServerProtocol::Http,
        connections: KeyLimits::NONE,
    }
}

fn redirect_to(location: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 303 See Other\r\nContent-Length: 4\r\nLocation: {location}");
    format!("{head}\r\n\r\ngone").into_bytes()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("into memory");
    encoder.finish().expect("into memory")
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_redirect_to_https_is_never_followed_without_tls() {
    let mut run = Run::new(4);
    let id = run.start(get(URL));
    let (server, _) = run.accept();
    run.respond(server, &redirect_to("https://192.0.2.1/secret"));
    assert!(run.network.next_opened().is_none(), "nothing is sent without TLS");
    assert_eq!(run.error(id).as_deref(), Some("https is not available here"));
    run.end(&[id]);
}

#[test]
fn a_redirect_on_one_server_uses_one_connection() {
    let mut run = Run::new(4);
    let id = run.start(get(URL));
    let (server, _) = run.accept();
    run.requested(server);
    run.respond(server, &redirect_to("/other"));
    assert!(run.network.next_opened().is_none(), "the connection is free again");
    assert!(run.requested(server).starts_with("GET /other "));
    run.respond(server, OK);
    assert_eq!(run.read_all(id), (b"ok".to_vec(), ReadOutcome::End));
    run.end(&[id]);
}

#[test]
fn failed_redirects_leak_nothing() {
    let mut run = Run::new(4);
    let ids = ["ftp://a/", "/again"].map(|location| {
        let id = run.start(get(URL));
        let Some((server, _)) = run.network.next_opened() else { panic!("a connection is opened") };
        run.network.establish(server, 1 << 20);
        run.passes();
        let mut responses = 0;
        while run.error(id).is_none() {
            run.respond(server, &redirect_to(location));
            responses += 1;
        }
        // Two redirects are followed.
        assert_eq!(responses, if location == "/again" { 3 } else { 1 });
        run.network.leave(server);
        run.passes();
        id
    });
    run.end(&ids);
}

#[test]
fn requests_that_time_out_in_the_queue_leak_nothing() {
    let mut run = Run::new(1);
    let timeouts_ms = [TIMEOUT_MS * 2, TIMEOUT_MS, TIMEOUT_MS];
    let ids = timeouts_ms.map(|timeout_ms| run.start(ClientRequest { timeout_ms, ..get(URL) }));
    run.accept();
    let end_ms = run.now_ms() + 2 * TIMEOUT_MS + 100;
    run.pass_until(end_ms);
    let errors = ids.map(|id| run.error(id).expect("an error"));
    assert!(errors[0].contains("no response within"), "{errors:?}");
    assert!(
        errors[1..].iter().all(|text| text.contains("no connection became free")),
        "{errors:?}"
    );
    run.end(&ids);
}

/// RFC 8305 §5: the second address is tried after 250 ms, and the first attempt is cancelled when
/// the second one has won.
#[test]
fn cancelled_attempts_leak_nothing() {
    let mut run = Run::new(4);
    let id = run.start(get("http://localhost/"));
    let (_, first) = run.network.next_opened().expect("a connection is opened");
    let tried_ms = run.now_ms() + 300;
    run.pass_until(tried_ms);
    let (server, second) = run.accept();
    assert_ne!(first, second);
    run.respond(server, OK);
    assert_eq!(run.read_all(id), (b"ok".to_vec(), ReadOutcome::End));
    let lost = run.start(get("http://localhost:81/"));
    let end_ms = run.now_ms() + TIMEOUT_MS + 100;
    run.pass_until(end_ms);
    assert!(run.error(lost).expect("an error").contains("no connection within"));
    run.end(&[id, lost]);
}

/// The responses of name servers may arrive when the request is on its way to another host.
#[test]
fn late_addresses_of_another_host_are_not_used() {
    let mut run = Run::new(4);
    let id = run.start(get(URL));
    let client = run.client();
    let stale = client.next_opening;
    let poster = client.poster.clone();
    let mut late = client.mailbox.callback((id, stale), poster, 0);
    let (server, _) = run.accept();
    run.respond(server, &redirect_to("http://host.invalid/"));
    let (ipv4, ttl_seconds) = ("192.0.2.66".parse().expect("an address"), 1);
    late(AddressFamily::Ipv4, Ok(Resolved { addresses: vec![ipv4], ttl_seconds }));
    // IPv4 addresses wait for the other family for 50 ms.
    let tried_ms = run.now_ms() + 500;
    run.pass_until(tried_ms);
    assert!(run.network.next_opened().is_none(), "no connection to an address of another host");
    run.end(&[id]);
}

/// A gzip member may end anywhere in the received data, even after the first byte of the next
/// member.
#[test]
fn members_of_gzip_may_be_cut_anywhere() {
    let content = [gzip(b"one"), gzip(b"two")].concat();
    let first = gzip(b"one").len();
    for cut in [first, first + 1, first + 2] {
        let mut run = Run::new(4);
        let id = run.start(get(URL));
        let (server, _) = run.accept();
        let fields = format!("Content-Encoding: gzip\r\nContent-Length: {}", content.len());
        run.respond(server, format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes());
        run.respond(server, &content[..cut]);
        assert_eq!(run.read_all(id), (b"one".to_vec(), ReadOutcome::Pending));
        run.respond(server, &content[cut..]);
        assert_eq!(run.read_all(id), (b"two".to_vec(), ReadOutcome::End), "cut at {cut}");
        run.end(&[id]);
    }
}

#[test]
fn content_above_the_maximum_is_not_delivered() {
    let mut run = Run::new(4);
    let id = run.start(ClientRequest { content_max_bytes: 10, ..get(URL) });
    let (server, _) = run.accept();
    run.respond(server, b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n0123456789abcdefghij");
    let (content, outcome) = run.read_all(id);
    assert!(matches!(outcome, ReadOutcome::Failed(_)), "{outcome:?}");
    assert_eq!(content, b"0123456789");
    run.end(&[id]);
}

/// The timeout for a head applies to all of it, even if a server sends it byte by byte, or one
/// interim response after the other.
#[test]
fn a_dripping_head_times_out() {
    for (begin, drop) in [("HTTP/1.1 200 OK\r\nA: ", "a"), ("", "HTTP/1.1 102 P\r\n\r\n")] {
        let mut run = Run::new(4);
        let id = run.start(get(URL));
        let (server, _) = run.accept();
        let begun_ms = run.now_ms();
        run.respond(server, begin.as_bytes());
        while !run.network.is_closed(server) {
            run.network.send(server, drop.as_bytes());
            let next_ms = run.now_ms() + 300;
            run.pass_until(next_ms);
            assert!(run.now_ms() < begun_ms + TIMEOUT_MS + 500, "{drop}");
        }
        let error = run.error(id).expect("an error");
        assert!(error.contains("no response within"), "{error}");
        run.end(&[id]);
    }
}

#[test]
fn request_content_after_a_redirect_is_discarded() {
    let mut run = Run::new(4);
    let content = RequestBody::Pieces { length: None };
    let id = run.start(ClientRequest { method: "POST".into(), content, ..get(URL) });
    let (server, _) = run.accept();
    assert!(run.client().takes_content(id));
    run.respond(server, &redirect_to("/other"));
    // The caller knows that it may write, and does not know of the redirect.
    run.client().write(id, Some(b"piece"));
    run.client().write(id, None);
    run.passes();
    let (other, _) = run.accept();
    assert!(run.requested(other).starts_with("GET /other "));
    run.respond(other, OK);
    assert_eq!(run.read_all(id), (b"ok".to_vec(), ReadOutcome::End));
    run.end(&[id]);
}

/// The end of a connection is noticed even after it has delivered all requested data.
#[test]
fn the_end_of_an_idle_connection_is_noticed() {
    let mut run = Run::new(4);
    let id = run.start(get(URL));
    let (server, _) = run.accept();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 32700\r\n\r\n";
    let padding = READ_BYTES as usize - 32700 - head.len() - "A: \r\n".len();
    let field = format!("\r\nA: {}\r\n\r\n", "a".repeat(padding));
    let head = [&head[..head.len() - 4], field.as_bytes()].concat();
    let response = [head, vec![b'x'; 32700]].concat();
    assert_eq!(response.len(), READ_BYTES as usize);
    run.respond(server, &response);
    assert_eq!(run.read_all(id).0.len(), 32700);
    run.client().close(id);
    assert_eq!(run.client().holdings(), (0, 1), "it is kept");
    run.network.leave(server);
    run.passes();
    assert_eq!(run.client().holdings(), (0, 0));
    run.end(&[]);
}

/// The connection may end between the choice of the pool and the request.
#[test]
fn a_connection_that_ends_before_its_request_is_replaced() {
    for method in ["GET", "POST"] {
        let mut run = Run::new(4);
        let first = run.start(get(URL));
        let (server, _) = run.accept();
        run.respond(server, OK);
        let now_ms = run.now_ms();
        let client = run.client();
        client.close(first);
        let request = ClientRequest { method: method.into(), ..get(URL) };
        let id = client.start(request, now_ms).expect("a request");
        let kept = *client.connections.keys().next().expect("a kept connection");
        client.received(kept, b"", InputEnd::Closed);
        run.passes();
        let (other, _) = run.accept();
        assert!(run.requested(other).starts_with(method));
        run.respond(other, OK);
        assert_eq!(run.read_all(id), (b"ok".to_vec(), ReadOutcome::End), "{method}");
        run.end(&[id]);
    }
}

/// The connection ends in the pass in which a request would be sent on it. No byte of the request
/// was sent, so it is sent again, whatever its method is.
#[test]
fn a_request_that_was_never_sent_is_repeated() {
    let pieces = RequestBody::Pieces { length: None };
    for content in [RequestBody::Whole(b"once"[..].into()), pieces] {
        let mut run = Run::new(4);
        let first = run.start(get(URL));
        let (server, _) = run.accept();
        run.requested(server);
        run.respond(server, OK);
        run.client().close(first);
        let kept = run.client().connections.values().next().expect("a kept connection").address;
        let now_ms = run.now_ms();
        let request = ClientRequest { method: "POST".into(), content, ..get(URL) };
        let id = run.client().start(request, now_ms).expect("a request");
        run.worker.app().lost = Some(kept);
        run.passes();
        assert_eq!(run.requested(server), "", "nothing was sent on it");
        let (other, _) = run.accept();
        if run.client().takes_content(id) {
            run.client().write(id, Some(b"once"));
            run.client().write(id, None);
            run.passes();
        }
        let request = run.requested(other);
        assert!(request.starts_with("POST / "), "{request}");
        assert_eq!(request.matches("once").count(), 1, "{request}");
        run.respond(other, OK);
        assert_eq!(run.read_all(id), (b"ok".to_vec(), ReadOutcome::End));
        run.end(&[id]);
    }
}

/// The server may have acted on a request that was sent, so a POST is not sent twice.
#[test]
fn a_request_that_was_sent_is_repeated_only_if_that_is_harmless() {
    for (method, is_repeated) in [("GET", true), ("PUT", true), ("POST", false), ("PATCH", false)] {
        let mut run = Run::new(4);
        let first = run.start(get(URL));
        let (server, _) = run.accept();
        run.requested(server);
        run.respond(server, OK);
        run.client().close(first);
        let id = run.start(ClientRequest { method: method.into(), ..get(URL) });
        assert!(run.requested(server).starts_with(method), "it is sent on the kept connection");
        run.network.leave(server);
        run.passes();
        assert_eq!(run.network.next_opened().is_some(), is_repeated, "{method}");
        assert_eq!(run.error(id).is_none(), is_repeated, "{method}");
        run.end(&[id]);
    }
}

/// A response of 10 GiB is for a reader that does not read: the server has to wait, and the client
/// holds little of it.
#[test]
fn a_reader_that_does_not_read_makes_the_server_wait() {
    let mut run = Run::new(4);
    let id = run.start(ClientRequest { content_max_bytes: u64::MAX, ..get(URL) });
    let (server, _) = run.accept();
    run.respond(server, b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n");
    let piece = vec![b'x'; 16 * 1024];
    let mut sent = 0;
    let mut read = 0;
    for round in 0..400 {
        sent += run.network.send(server, &piece);
        run.pass(1);
        if round % 4 == 3 {
            let give = |bytes: &[u8]| read += bytes.len();
            run.client().read(id, 100, give);
        }
        let held: usize = run.client().connections.values().map(|one| one.input.len()).sum();
        let unread = run.client().requests.values().map(PendingRequest::unread).sum::<usize>();
        assert!(held <= 2 * READ_BYTES as usize, "{held} bytes wait for the buffer");
        assert!(unread <= CONTENT_BUFFER_BYTES, "{unread} bytes wait for the reader");
    }
    assert!(sent < 1 << 20, "the server has sent {sent} bytes, {read} were read");
    run.end(&[id]);
}

//! Connections over HTTP/1 that were switched to another protocol (RFC 9110 §7.8): each side gets
//! the bytes of the other one, and learns how the other one has ended.

use std::collections::HashMap;

use pinion_engine::backend::sim::{Client, Connect, Faults, Network, Read};
use pinion_engine::settings::WorkerSettings;
use pinion_engine::stepped_worker::{Holdings, Stepped};
use pinion_gateway::proxy::ProxyHoldings;
use pinion_gateway::upstream_group::UpstreamOptions;

use crate::application::Application;
use crate::fastcgi_scgi_records::Spoken;
use crate::run::{BASE_PORT, FAILING, group};

const REQUEST: &[u8] = b"GET /failing/1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                         Upgrade: echo\r\n\r\n";
const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                        Upgrade: echo\r\n\r\n";
/// Passes within which everything that can happen has happened.
const PASSES: usize = 20;

/// A side of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// A worker with a client and a server.
struct Stage<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, Application>,
    client: Client,
    server: Client,
}

impl<const READINESS: bool> Stage<READINESS> {
    /// Makes the client request another protocol, and the server respond with these bytes.
    fn asked(response: &[u8]) -> Self {
        let settings = WorkerSettings { outgoing: 64, ..WorkerSettings::default() };
        let network = Network::new(1, Faults::default(), settings.listeners.len());
        let upstreams = group(BASE_PORT..BASE_PORT + 1, Spoken::Http, UpstreamOptions::default());
        let make_app = |poster| Application::new(poster, HashMap::from([(FAILING, upstreams)]));
        let worker = Stepped::new(network.clone(), settings, make_app);
        let window_bytes = 64 * 1024;
        let connect = Connect { listener: 0, window_bytes, local: false, protected: false };
        let client = network.connect(connect);
        network.send(client, REQUEST);
        let mut stage = Self { network, worker, client, server: client };
        stage.passes();
        let (server, _) = stage.network.next_opened().expect("a connection is opened");
        stage.server = server;
        stage.network.establish(server, window_bytes);
        stage.passes();
        assert!(stage.came(Side::Server).0.starts_with(b"GET /failing/1 "));
        stage.network.send(server, response);
        stage.passes();
        stage
    }

    /// Has a tunnel through which bytes have passed in both directions.
    fn opened() -> Self {
        let mut stage = Self::asked(SWITCH);
        let (head, _) = stage.came(Side::Client);
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", head.escape_ascii());
        for (from, to) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
            stage.network.send(stage.of(from), b"hello");
            stage.passes();
            assert_eq!(stage.came(to), (b"hello".to_vec(), Read::Nothing));
        }
        stage
    }

    fn of(&self, side: Side) -> Client {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }

    fn passes(&mut self) {
        for _ in 0..PASSES {
            let soon_ms = self.network.now().monotonic_ms + 1;
            self.network.act_at(Some(soon_ms));
            self.worker.pass().expect("a pass");
        }
    }

    /// Returns the bytes that one side has received, and the event that followed them.
    fn came(&self, side: Side) -> (Vec<u8>, Read) {
        let mut bytes = Vec::new();
        loop {
            match self.network.read(self.of(side), usize::MAX, &mut bytes) {
                Read::Bytes(_) => {}
                other => return (bytes, other),
            }
        }
    }

    /// Waits for everything to be given back.
    fn ends(mut self) {
        for _ in 0..PASSES {
            self.passes();
            let holdings = self.worker.app().proxy.holdings();
            if self.worker.holdings() == Holdings::default() && holdings == ProxyHoldings::default()
            {
                return;
            }
        }
        panic!("{:?} is held", self.worker.holdings());
    }
}

/// A reset means that bytes may be missing, which an orderly end would deny.
fn reset<const READINESS: bool>(from: Side, to: Side) {
    let mut stage = Stage::<READINESS>::opened();
    stage.network.reset(stage.of(from));
    stage.passes();
    assert_eq!(stage.came(to).1, Read::Reset, "{from:?} has reset");
    stage.network.leave(stage.of(to));
    stage.ends();
}

#[test]
fn a_reset_of_either_side_is_a_reset_for_the_other() {
    for (from, to) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
        reset::<true>(from, to);
        reset::<false>(from, to);
    }
}

/// After the end of one side the other one may continue.
fn end<const READINESS: bool>(from: Side, to: Side) {
    let mut stage = Stage::<READINESS>::opened();
    stage.network.send(stage.of(from), b"last");
    stage.network.end(stage.of(from));
    stage.passes();
    assert_eq!(stage.came(to), (b"last".to_vec(), Read::Ended), "{from:?} has ended");
    stage.network.send(stage.of(to), b"more");
    stage.passes();
    assert_eq!(stage.came(from), (b"more".to_vec(), Read::Nothing));
    stage.network.end(stage.of(to));
    stage.passes();
    assert_eq!(stage.came(from), (Vec::new(), Read::Ended));
    [from, to].into_iter().for_each(|side| stage.network.leave(stage.of(side)));
    stage.ends();
}

#[test]
fn an_end_of_either_side_is_an_end_for_the_other() {
    for (from, to) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
        end::<true>(from, to);
        end::<false>(from, to);
    }
}

/// Without the last byte of the head there is no tunnel, for any end of the server.
fn no_tunnel<const READINESS: bool>(bytes: usize, resets: bool) {
    let mut stage = Stage::<READINESS>::asked(&SWITCH[..bytes]);
    if resets {
        stage.network.reset(stage.server);
    } else {
        stage.network.end(stage.server);
    }
    stage.passes();
    let (head, _) = stage.came(Side::Client);
    assert!(head.starts_with(b"HTTP/1.1 502 "), "{bytes} bytes: {}", head.escape_ascii());
    [stage.client, stage.server].into_iter().for_each(|side| stage.network.leave(side));
    stage.ends();
}

#[test]
fn a_server_may_fail_after_every_byte_before_a_tunnel_is_open() {
    for bytes in 0..SWITCH.len() {
        for resets in [true, false] {
            no_tunnel::<true>(bytes, resets);
            no_tunnel::<false>(bytes, resets);
        }
    }
}

//! A relay for the datagrams of one client to a server and back, which can be blocked.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The interval at which a relay checks for its end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A relay. It ends when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    gates: Arc<Gates>,
    /// The datagrams that the client has sent, forwarded or not.
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

#[derive(Debug, Default)]
struct Gates {
    to_server: AtomicBool,
    to_client: AtomicBool,
    is_over: AtomicBool,
}

impl Relay {
    /// Creates an open relay in front of this address.
    ///
    /// # Panics
    /// Panics if there is no port for it.
    pub fn to(server: SocketAddr) -> Relay {
        let bound = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            socket.set_read_timeout(Some(LOOK_AGAIN)).expect("set");
            Arc::new(socket)
        };
        let (front, back) = (bound(), bound());
        back.connect(server).expect("an address");
        let relay = Relay {
            address: front.local_addr().expect("an address"),
            gates: Arc::default(),
            sent: Arc::default(),
        };
        relay.open();
        let client = Arc::new(Mutex::new(None));
        {
            let (gates, sent) = (Arc::clone(&relay.gates), Arc::clone(&relay.sent));
            let (front, back, client) = (front.clone(), back.clone(), client.clone());
            thread::spawn(move || {
                each(&front, &gates.is_over, |bytes, from| {
                    *client.lock().expect("no panic under the lock") = Some(from);
                    sent.lock().expect("no panic under the lock").push(bytes.to_vec());
                    if gates.to_server.load(Ordering::Relaxed) {
                        let _refused = back.send(bytes);
                    }
                });
            });
        }
        let gates = Arc::clone(&relay.gates);
        thread::spawn(move || {
            each(&back, &gates.is_over, |bytes, _| {
                let client = *client.lock().expect("no panic under the lock");
                if let Some(client) = client.filter(|_| gates.to_client.load(Ordering::Relaxed)) {
                    let _gone = front.send_to(bytes, client);
                }
            });
        });
        relay
    }

    /// Returns the address of the relay.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards all datagrams.
    pub fn open(&self) {
        self.gates.to_server.store(true, Ordering::Relaxed);
        self.gates.to_client.store(true, Ordering::Relaxed);
    }

    /// Blocks datagrams from the server.
    pub fn close_to_client(&self) {
        self.gates.to_client.store(false, Ordering::Relaxed);
    }

    /// Blocks datagrams from the client.
    pub fn close_to_server(&self) {
        self.gates.to_server.store(false, Ordering::Relaxed);
    }

    /// Returns the datagrams that the client has sent.
    ///
    /// # Panics
    /// Panics if the relay has panicked.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        self.sent.lock().expect("no panic under the lock").clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.gates.is_over.store(true, Ordering::Relaxed);
    }
}

/// Calls `take` for every received datagram.
fn each(socket: &UdpSocket, is_over: &AtomicBool, mut take: impl FnMut(&[u8], SocketAddr)) {
    let mut buffer = vec![0; 64 * 1024];
    while !is_over.load(Ordering::Relaxed) {
        // On an error nothing was received, or the other side has no socket any more.
        if let Ok((count, from)) = socket.recv_from(&mut buffer) {
            take(&buffer[..count], from);
        }
    }
}

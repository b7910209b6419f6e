//! A worker without a thread on the simulated backend: the driver of a simulation runs its passes
//! and checks its resources between two of them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::app::App;
use crate::backend::Backend as _;
use crate::backend::sim::{Network, Sim};
use crate::inbox::Poster;
use crate::quic::config::QuicConfig;
use crate::quic::endpoint::ListenerEndpoint;
use crate::quic::simulated_sockets::SimulatedSocket;
use crate::quic::worker_endpoints::Quic;
use crate::settings::WorkerSettings;
use crate::worker::{SharedByWorkers, Worker};

/// A worker that runs pass by pass. `READINESS` is that of [`Sim`].
pub struct Stepped<const READINESS: bool, A: App> {
    worker: Worker<Sim<READINESS>, A>,
    shared: Arc<SharedByWorkers>,
}

/// The resources that a worker holds. All of them are 0 once the last connection is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Connections, and slots that the backend has not released.
    pub connections: usize,
    /// Bytes of buffers in use: counted against the memory budget and not kept for reuse, as spare
    /// chunks and empty queues are.
    pub buffer_bytes: usize,
    /// Output queues in use.
    pub queues: usize,
    /// Deadlines that are armed.
    pub timers: usize,
    /// Slices of mappings that wait to be sent.
    pub slices: usize,
    /// Responses that are being compressed.
    pub encoders: usize,
    /// Entries of QUIC besides its connections: timers, handshakes and their steps, and the
    /// connections that its endpoints know.
    pub quic: usize,
}

/// A QUIC listener on the simulated network.
pub struct SimulatedQuic {
    /// The common settings of its connections.
    pub config: QuicConfig,
    /// The index of its settings.
    pub listener: u16,
    /// The maximum number of datagrams into which one send may be cut.
    pub segments_max: usize,
}

impl<const READINESS: bool, A: App> Stepped<READINESS, A> {
    /// Creates a worker on `network`; its application gets the handle that posts messages to it.
    pub fn new(
        network: Network,
        settings: WorkerSettings,
        make_app: impl FnOnce(Poster) -> A,
    ) -> Self {
        let shared = Arc::new(SharedByWorkers::new(1, &settings, Vec::new(), Vec::new()));
        let app = make_app(Poster { inboxes: shared.inboxes.clone() });
        let worker = Worker::new(0, Sim::new(network), app, Arc::new(settings), shared.clone());
        Self { worker, shared }
    }

    /// Adds a QUIC listener, the only one.
    ///
    /// # Panics
    /// Never panics: the simulated backend can always watch a socket.
    pub fn listen_quic(&mut self, network: &Network, quic: &SimulatedQuic) {
        let socket = SimulatedSocket::open(network, quic.segments_max);
        let endpoint = ListenerEndpoint::new(Box::new(socket), &quic.config, 0, quic.listener);
        let watched = self.worker.watch_endpoints(Quic::with_endpoints(vec![endpoint]), |_| true);
        watched.expect("a simulated socket can be watched");
    }

    /// Returns the addresses from which the clients of the open QUIC connections have connected.
    pub fn quic_clients(&mut self) -> Vec<SocketAddr> {
        let core = &mut self.worker.core;
        let Some(quic) = &core.quic else { return Vec::new() };
        let places = quic.places.iter().zip(0..).filter(|(place, _)| place.is_some());
        places.filter_map(|(_, slot)| core.connections.get(slot).peer).collect()
    }

    /// Runs one pass; returns false if the worker has drained.
    ///
    /// # Errors
    /// Fails if the backend cannot wait; the simulated one always can.
    pub fn pass(&mut self) -> io::Result<bool> {
        let quic = self.worker.core.quic.as_ref();
        let has_steps = quic.is_some_and(|quic| !quic.steps.is_empty());
        if self.worker.has_messages() || has_steps {
            // A worker that is awake needs no wake-up, but the simulated kernel mistakes a pass
            // that neither waits nor has a result for a loop that burns a processor.
            self.worker.backend.waker().wake();
        }
        self.worker.pass()
    }

    /// Begins to drain: there are no new connections, open exchanges go on, and idle connections
    /// close.
    pub fn drain(&self) {
        self.shared.drain();
        self.shared.inboxes[0].wake();
    }

    /// Ends everything.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.drain();
    }

    /// Returns the application.
    pub fn app(&mut self) -> &mut A {
        &mut self.worker.app
    }

    /// Returns the bytes of buffers that the worker keeps for reuse. Their number is bounded, and
    /// depends on the most that were in use at once.
    pub fn spare_bytes(&self) -> usize {
        self.worker.core.buffers.pool.spare_bytes()
    }

    /// Returns the resources that the worker holds now.
    pub fn holdings(&self) -> Holdings {
        let core = &self.worker.core;
        Holdings {
            connections: core.connections.len(),
            buffer_bytes: core.buffers.pool.lent_bytes() - core.buffers.outputs.own_bytes(),
            queues: core.buffers.outputs.in_use(),
            timers: core.wheel.armed(),
            slices: core.buffers.mappings.slices(),
            encoders: core.buffers.encoders.in_use(),
            quic: core.quic.as_ref().map_or(0, |quic| quic.holdings()),
        }
    }
}

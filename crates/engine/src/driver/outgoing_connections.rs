//! Connections that the server opens, and actions of the application on streams outside of their
//! own events.

use rustix::io::Errno;

use super::{byte_streams, http1, multiplexed_requests};
use crate::app::App;
use crate::backend::{Backend, OpeningState, Slot};
use crate::byte_stream::ConnectStep;
use crate::connection::Protocol;
use crate::end_reason::Gone;
use crate::outgoing_connect::{ConnectTls, NotConnected, RemoteOrigin};
use crate::tls::TlsSession;
use crate::worker::Worker;
use crate::worker_core::WorkerCore;

/// Begins the byte stream of a connection that the server has opened.
pub(crate) fn begin<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    let connection = core.connections.get(slot);
    let Protocol::Connecting(connecting) =
        std::mem::replace(&mut connection.protocol, Protocol::Closing)
    else {
        unreachable!("a connection is opened once")
    };
    connection.protocol = Protocol::ByteStream(connecting.stream);
    byte_streams::open(app, core, slot);
}

impl<B: Backend, A: App> Worker<B, A> {
    /// Moves on the connections that the application has opened, written to or ended outside of
    /// their own events. Its actions during this have their turn in the next pass, which does not
    /// wait.
    #[inline]
    pub(crate) fn settle_dirty(&mut self) {
        if !self.core.to_connect.is_empty() {
            self.begin_connections();
        }
        if !self.core.dirty.is_empty() {
            self.settle_all_dirty();
        }
    }

    fn begin_connections(&mut self) {
        let waiting = self.core.to_connect.len();
        for at in 0..waiting {
            let slot = self.core.to_connect[at];
            // It may have ended meanwhile, and its slot may have another connection.
            let connection = self.core.connections.get(slot);
            let Protocol::Connecting(connecting) = &mut connection.protocol else { continue };
            if connecting.step != ConnectStep::Wanted {
                continue;
            }
            // The application may have ended it since, and gets no events of it any more.
            if let Some(why) = connection.link.cut {
                self.cut(slot, why);
                continue;
            }
            let begun = match &mut connecting.origin {
                RemoteOrigin::Remote(remote) => self.backend.connect(slot, remote),
                RemoteOrigin::Socket(socket) => {
                    let socket = socket.take().expect("it is taken once, by the step");
                    self.backend.adopt(slot, socket).map(|()| OpeningState::Pending)
                }
            };
            match begun {
                Ok(opening) => {
                    connecting.step = ConnectStep::Begun;
                    match opening {
                        OpeningState::Done => self.connected(slot, Ok(())),
                        OpeningState::Pending => self.settle(slot),
                    }
                }
                Err(error) => self.cut(slot, Gone::NotConnected(NotConnected::from(error))),
            }
        }
        self.core.to_connect.drain(..waiting);
    }

    fn settle_all_dirty(&mut self) {
        let waiting = self.core.dirty.len();
        for at in 0..waiting {
            let slot = self.core.dirty[at];
            let connection = self.core.connections.get(slot);
            // A slot that was given back meanwhile is not marked.
            if !connection.in_use || !std::mem::take(&mut connection.link.dirty) {
                continue;
            }
            let Self { app, core, .. } = self;
            match &core.connections.get(slot).protocol {
                Protocol::Http1(_) => http1::after_event(app, core, slot),
                Protocol::Multiplexed(_) => multiplexed_requests::after_events(app, core, slot),
                Protocol::ByteStream(_) => byte_streams::after_event(core, slot),
                _ => {}
            }
            self.settle(slot);
        }
        self.core.dirty.drain(..waiting);
    }

    /// Handles the result of opening a connection.
    pub(crate) fn connected(&mut self, slot: Slot, result: Result<(), Errno>) {
        if let Err(error) = result {
            return self.cut(slot, Gone::NotConnected(NotConnected::from(error)));
        }
        let Self { app, core, .. } = self;
        let connection = core.connections.get(slot);
        let Protocol::Connecting(connecting) = &mut connection.protocol else {
            unreachable!("a connection is opened once")
        };
        let Some(ConnectTls { config, name }) = connecting.tls.take() else {
            begin(app, core, slot);
            return self.settle(slot);
        };
        match TlsSession::connect(config, name) {
            Ok(session) => {
                connecting.step = ConnectStep::Handshake;
                connection.link.tls = Some(session);
                self.settle(slot);
            }
            Err(error) => {
                connecting.failure = Some(Box::new(error));
                self.cut(slot, Gone::NotConnected(NotConnected::Tls));
            }
        }
    }

    /// Moves on a connection that is being opened: only its end can happen.
    #[cold]
    pub(crate) fn settle_connecting(&mut self, slot: Slot) {
        match self.core.connections.get(slot).link.cut {
            Some(why) => self.cut(slot, why),
            None => self.core.set_deadline(slot),
        }
    }

    /// Ends our side of a byte stream whose application sends no more, now that all output has
    /// left.
    #[inline]
    pub(crate) fn finish_stream(&mut self, slot: Slot) {
        let Protocol::ByteStream(stream) = &mut self.core.connections.get(slot).protocol else {
            return;
        };
        if std::mem::take(&mut stream.owes_finish) {
            self.backend.finish(slot);
        }
    }
}

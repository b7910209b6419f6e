//! A worker on a simulated network that keeps the messages posted to it.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;

use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Message};
use pinion_engine::backend::sim::{Faults, Network};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::settings::WorkerSettings;
use pinion_engine::stepped_worker::Stepped;
use pinion_jobs::job_queue::JobOwner;

/// The worker, which reads its inbox on request.
pub(crate) struct InboxWorker {
    network: Network,
    worker: Stepped<true, InboxApp>,
    poster: Poster,
    posted: Rc<RefCell<Vec<Message>>>,
}

struct InboxApp {
    posted: Rc<RefCell<Vec<Message>>>,
}

impl App for InboxApp {
    fn exchange(&mut self, _event: Event<'_>, _exchange: &mut Exchange<'_>) {}

    fn byte_stream_event(
        &mut self,
        _event: ByteStreamEvent<'_>,
        _stream: &mut ByteStreamHandle<'_>,
    ) {
    }

    fn pass(&mut self, _connections: &mut Connections<'_>) {}

    fn posted(&mut self, message: Message, _connections: &mut Connections<'_>) {
        self.posted.borrow_mut().push(message);
    }
}

impl InboxWorker {
    pub(crate) fn new() -> Self {
        let settings = WorkerSettings::default();
        let network = Network::new(1, Faults::default(), settings.listeners.len());
        let posted = Rc::default();
        let mut own_poster = None;
        let app = InboxApp { posted: Rc::clone(&posted) };
        let worker = Stepped::new(network.clone(), settings, |poster| {
            own_poster = Some(poster);
            app
        });
        Self { network, worker, poster: own_poster.expect("a poster"), posted }
    }

    /// Returns the owner of a task with this number.
    pub(crate) fn owner(&self, number: u64) -> JobOwner {
        JobOwner { number, worker: 0, poster: self.poster.clone() }
    }

    /// Posts to the worker until its inbox is full.
    pub(crate) fn fill_inbox(&self) {
        while self.poster.post_to_app(0, Box::new(())).is_ok() {}
    }

    /// Reads the inbox once, and returns its messages of this type.
    pub(crate) fn take<M: 'static>(&mut self) -> Vec<M> {
        self.network.act_at(Some(self.network.now().monotonic_ms + 1));
        self.worker.pass().expect("a pass");
        let posted = mem::take(&mut *self.posted.borrow_mut());
        posted.into_iter().filter_map(|message| Some(*message.downcast::<M>().ok()?)).collect()
    }
}

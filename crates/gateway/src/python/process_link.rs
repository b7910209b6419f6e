//! The connection of a worker to a process of an application.

use std::collections::VecDeque;

use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Slice};
use pinion_engine::exchange_address::{Address, AddressMap};
use pinion_engine::outgoing_connect::{Connect, RemoteAddress};
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::python::error::BatchError;
use pinion_http::python::frame_reader::ChildFrameReader;
use pinion_http::python::frame_writer::write_files;
use pinion_http::python::request_batch::RequestBatch;
use rustc_hash::FxHashMap;

use super::file_descriptor_channel::FileChannel;
use super::limits::{CONNECT_TIMEOUT_MS, START_MS};
use super::python_app::AppProcess;
use super::python_failure::PythonFailure;
use super::python_request::PythonRequest;
use crate::limits::PYTHON_TAG;
use crate::proxy_error::ProxyError;

/// The connection of a worker to a process of an application.
#[derive(Debug)]
pub(super) struct ProcessLink {
    pub(super) process: AppProcess,
    pub(super) reader: ChildFrameReader,
    /// The requests that the process has, or will get, by their numbers.
    pub(super) requests: FxHashMap<u32, LinkRequest>,
    /// The time when the last response has ended, in monotonic milliseconds.
    pub(super) last_end_ms: u64,
    /// The channel by which files come, once the process wants to send some.
    pub(super) files: Option<FileChannel>,
    /// The time since when the event loop has not answered, in monotonic milliseconds, if it was
    /// asked.
    pub(super) asked_ms: Option<u64>,
    /// So much waits to be sent that content of requests waits, too.
    pub(super) is_full: bool,
    /// Numbers of requests with content that the process wants and has not got. Some may be over.
    held: VecDeque<u32>,
    stream: Option<Address>,
    /// Numbers of requests that were not sent. Some may be over.
    unsent: VecDeque<u32>,
    batch: RequestBatch,
    last_number: u32,
}

/// A request that a process has.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkRequest {
    pub(super) number: u32,
    /// Its exchange; `None` once that is over.
    pub(super) exchange: Option<Address>,
    /// The time when it was sent, in monotonic milliseconds; `None` before that.
    pub(super) sent_ms: Option<u64>,
    /// A frame about it has come, so the process has started it.
    pub(super) is_started: bool,
    /// Whether the process was asked to give it back.
    pub(super) is_taken_back: bool,
    /// Whether it is over its time, and its client has got a response.
    pub(super) is_overdue: bool,
    /// Whether it is among those that are [held](ProcessLink::hold).
    is_held: bool,
}

impl ProcessLink {
    pub(super) fn new(process: AppProcess) -> Self {
        Self {
            process,
            reader: ChildFrameReader::new(&ResponseLimits::default()),
            requests: FxHashMap::default(),
            last_end_ms: 0,
            files: None,
            asked_ms: None,
            is_full: false,
            held: VecDeque::new(),
            stream: None,
            unsent: VecDeque::new(),
            batch: RequestBatch::new(),
            last_number: 0,
        }
    }

    /// Returns whether there are requests that were not sent yet.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns whether the process has no requests, and gets none.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Ends the connection.
    pub(super) fn close(&self, connections: &mut Connections<'_>) {
        if let Some(mut stream) = self.stream.and_then(|address| connections.stream(address)) {
            stream.abort();
        }
    }

    /// Adds a request to those that are sent next, and returns its number.
    pub(super) fn add(&mut self, exchange: Address) -> u32 {
        let number = self.free_number();
        let known = LinkRequest {
            number,
            exchange: Some(exchange),
            sent_ms: None,
            is_started: false,
            is_taken_back: false,
            is_overdue: false,
            is_held: false,
        };
        self.requests.insert(number, known);
        self.unsent.push_back(number);
        number
    }

    /// Sends the requests of the link, over a connection that is opened if there is none. Before
    /// the process has sent `READY` it gets none, so that requests that are lost with a connection
    /// that never was ready can be given to another process. Returns the requests that cannot be
    /// sent, each with its error; the process does not have them.
    ///
    /// # Errors
    /// No connection can be opened.
    pub(super) fn send(
        &mut self,
        requests: &mut AddressMap<PythonRequest>,
        connections: &mut Connections<'_>,
        link: u64,
    ) -> Result<Vec<(LinkRequest, ProxyError)>, PythonFailure> {
        if self.stream.is_none() {
            self.open(connections, link)?;
        }
        let mut refused = Vec::new();
        if !self.reader.is_ready() {
            return Ok(refused);
        }
        let now_ms = connections.now().monotonic_ms;
        while let Some(number) = self.unsent.pop_front() {
            let Some(known) = self.requests.get_mut(&number) else { continue };
            let request = known.exchange.and_then(|address| requests.get_mut(&address));
            let Some(request) = request else { continue };
            known.sent_ms = Some(now_ms);
            match request.add_to(&mut self.batch, number) {
                Ok(()) => {}
                Err(BatchError::Full) => {
                    known.sent_ms = None;
                    self.unsent.push_front(number);
                    self.write_batch(connections);
                }
                Err(error) => {
                    let error = ProxyError::Stored(error.to_string().into());
                    refused.extend(self.requests.remove(&number).map(|known| (known, error)));
                }
            }
        }
        self.write_batch(connections);
        Ok(refused)
    }

    fn open(&mut self, connections: &mut Connections<'_>, link: u64) -> Result<(), PythonFailure> {
        let AppProcess { app, number } = &self.process;
        let path = app.queue.socket(*number).ok_or(PythonFailure::ProcessEnded)?;
        let connect = Connect {
            remote: RemoteAddress::Unix(path.to_path_buf()),
            tls: None,
            timeout_ms: CONNECT_TIMEOUT_MS,
            tag: PYTHON_TAG | link,
        };
        let opened = connections.connect(connect);
        self.stream = Some(opened.map_err(|_| PythonFailure::NoConnection)?);
        Ok(())
    }

    fn write_batch(&mut self, connections: &mut Connections<'_>) {
        let stream = self.stream.and_then(|address| connections.stream(address));
        if let Some(mut stream) = stream
            && !self.batch.is_empty()
        {
            self.is_full = stream.write(Slice::Copied(self.batch.frame())) == ContentRoom::Full;
        }
        // Without a stream the last event of the connection is on the way.
        self.batch.clear();
    }

    /// Opens a channel for files if the process `may` have one, and appends the frame about it. If
    /// there is none, the process reads its files itself.
    pub(super) fn open_file_channel(&mut self, may: bool, out: &mut Vec<u8>) {
        let AppProcess { app, number } = &self.process;
        let path = app.queue.socket(*number).filter(|_| may);
        self.files = path.and_then(|path| FileChannel::open(&path).ok());
        write_files(out, self.files.as_ref().map(FileChannel::token));
    }

    /// Sends frames about requests that were sent.
    pub(super) fn write(&mut self, frames: &[u8], connections: &mut Connections<'_>) {
        if frames.is_empty() {
            return;
        }
        let stream = self.stream.and_then(|address| connections.stream(address));
        if let Some(mut stream) = stream {
            self.is_full = stream.write(Slice::Copied(frames)) == ContentRoom::Full;
        }
    }

    /// Records a request whose content may have to wait until there is room.
    pub(super) fn hold(&mut self, number: u32) {
        if let Some(known) = self.requests.get_mut(&number)
            && !std::mem::replace(&mut known.is_held, true)
        {
            self.held.push_back(number);
        }
    }

    /// Takes a request out that is over.
    pub(super) fn remove(&mut self, number: u32) -> Option<LinkRequest> {
        let known = self.requests.remove(&number)?;
        if known.is_held {
            self.held.retain(|held| *held != number);
        }
        Some(known)
    }

    /// Forgets the exchange of a request, which is over; its last frame is still to come.
    pub(super) fn forget_exchange(&mut self, number: u32) {
        if let Some(known) = self.requests.get_mut(&number) {
            known.exchange = None;
        }
    }

    /// Returns the next request that was held, and its exchange, if there is room for its content.
    pub(super) fn next_held(&mut self) -> Option<(u32, Option<Address>)> {
        let number = if self.is_full { None } else { self.held.pop_front() }?;
        let known = self.requests.get_mut(&number);
        let exchange = known.and_then(|known| {
            known.is_held = false;
            known.exchange
        });
        Some((number, exchange))
    }

    /// Takes all requests out that were not sent.
    pub(super) fn take_unsent(&mut self) -> Vec<LinkRequest> {
        let numbers = std::mem::take(&mut self.unsent);
        numbers.iter().filter_map(|number| self.requests.remove(number)).collect()
    }

    /// Returns the numbers of requests that were sent some time ago, and that the process may not
    /// have started, the first ones first. They count as taken back.
    pub(super) fn take_back(&mut self, now_ms: u64, max: usize) -> Vec<u32> {
        let is_late = |known: &LinkRequest| {
            let is_old = known.sent_ms.is_some_and(|sent_ms| now_ms >= sent_ms + START_MS);
            is_old && !known.is_started && !known.is_taken_back && known.exchange.is_some()
        };
        let late = self.requests.values().filter(|known| is_late(known));
        let mut numbers: Vec<u32> = late.map(|known| known.number).collect();
        numbers.sort_unstable();
        // The first one is started, as far as is known.
        numbers.truncate(max.saturating_add(1));
        for number in &numbers {
            if let Some(known) = self.requests.get_mut(number) {
                known.is_taken_back = true;
            }
        }
        numbers
    }

    fn free_number(&mut self) -> u32 {
        loop {
            self.last_number = self.last_number.wrapping_add(1);
            if self.last_number != 0 && !self.requests.contains_key(&self.last_number) {
                return self.last_number;
            }
        }
    }
}

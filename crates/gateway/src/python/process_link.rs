//! The connection of a worker to a process of an application.

use pinion_engine::address::Address;
use pinion_engine::connections::Connections;
use pinion_engine::exchange::Slice;
use pinion_engine::remote::{Connect, RemoteAddress};
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::python::error::BatchError;
use pinion_http::python::frame_reader::ChildFrameReader;
use pinion_http::python::request_batch::{BatchedContent, RequestBatch};
use rustc_hash::FxHashMap;

use super::limits::CONNECT_TIMEOUT_MS;
use super::python_app::AppProcess;
use super::python_failure::PythonFailure;
use super::python_request::{PythonRequest, RequestStage};
use crate::limits::PYTHON_TAG;
use crate::proxy_error::ProxyError;

/// See the head of the module.
#[derive(Debug)]
pub(super) struct ProcessLink {
    pub(super) process: AppProcess,
    pub(super) reader: ChildFrameReader,
    /// The requests that the process has, or will get, by their numbers.
    pub(super) requests: FxHashMap<u32, LinkRequest>,
    /// When the last response has ended, in monotonic milliseconds.
    pub(super) last_end_ms: u64,
    stream: Option<Address>,
    batch: RequestBatch,
    last_number: u32,
}

/// A request that a process has.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkRequest {
    pub(super) number: u32,
    /// Its exchange; `None` once that is over.
    pub(super) exchange: Option<Address>,
    /// When it was sent, in monotonic milliseconds.
    pub(super) sent_ms: u64,
}

impl ProcessLink {
    pub(super) fn new(process: AppProcess) -> Self {
        Self {
            process,
            reader: ChildFrameReader::new(&ResponseLimits::default()),
            requests: FxHashMap::default(),
            last_end_ms: 0,
            stream: None,
            batch: RequestBatch::new(),
            last_number: 0,
        }
    }

    /// Whether there are requests that were not sent yet.
    pub(super) fn has_unsent(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Whether the process has no requests, and gets none.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.batch.is_empty()
    }

    /// Ends the connection.
    pub(super) fn close(&self, connections: &mut Connections<'_>) {
        if let Some(mut stream) = self.stream.and_then(|address| connections.stream(address)) {
            stream.abort();
        }
    }

    /// Adds a request to the batch that is sent next.
    ///
    /// # Errors
    /// Its content cannot be read, or its variables are too long.
    pub(super) fn add(
        &mut self,
        request: &mut PythonRequest,
        address: Address,
        now_ms: u64,
        connections: &mut Connections<'_>,
        link: u64,
    ) -> Result<(), ProxyError> {
        let whole = request.take_whole_content()?;
        let content = match &whole {
            Some(bytes) => BatchedContent::Whole(bytes),
            None => BatchedContent::Streamed,
        };
        let number = self.free_number();
        let environ = std::mem::take(&mut request.environ);
        let mut added = self.batch.add(number, content, |writer| {
            environ.write(writer);
            Ok(())
        });
        if added == Err(BatchError::Full) {
            self.send(connections, link).map_err(|failure| request.error(failure))?;
            added = self.batch.add(number, content, |writer| {
                environ.write(writer);
                Ok(())
            });
        }
        match added {
            Ok(()) => {}
            Err(BatchError::Variable(error)) => {
                return Err(request.error(PythonFailure::Variables(error)));
            }
            Err(error) => return Err(ProxyError::Stored(error.to_string().into())),
        }
        request.stage = RequestStage::Sent { link, number };
        let known = LinkRequest { number, exchange: Some(address), sent_ms: now_ms };
        self.requests.insert(number, known);
        Ok(())
    }

    /// Sends the batch, over a connection that is opened if there is none.
    ///
    /// # Errors
    /// No connection can be opened.
    pub(super) fn send(
        &mut self,
        connections: &mut Connections<'_>,
        link: u64,
    ) -> Result<(), PythonFailure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        if self.stream.is_none() {
            let AppProcess { app, number } = &self.process;
            let Some(path) = app.queue.socket(*number) else { return Ok(()) };
            let connect = Connect {
                remote: RemoteAddress::Unix(path.to_path_buf()),
                tls: None,
                timeout_ms: CONNECT_TIMEOUT_MS,
                tag: PYTHON_TAG | link,
            };
            let opened = connections.connect(connect);
            self.stream = Some(opened.map_err(|_| PythonFailure::NoConnection)?);
        }
        let stream = self.stream.and_then(|address| connections.stream(address));
        if let Some(mut stream) = stream {
            stream.write(Slice::Copied(self.batch.frame()));
        }
        self.batch.clear();
        Ok(())
    }

    /// Sends other frames, behind the requests that they may be about.
    pub(super) fn write(&mut self, frames: &[u8], connections: &mut Connections<'_>) {
        if frames.is_empty() {
            return;
        }
        let stream = self.stream.and_then(|address| connections.stream(address));
        if let Some(mut stream) = stream {
            if !self.batch.is_empty() {
                stream.write(Slice::Copied(self.batch.frame()));
                self.batch.clear();
            }
            stream.write(Slice::Copied(frames));
        }
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

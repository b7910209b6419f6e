//! Messages to the processes besides requests, and messages from them: their frames, their ends,
//! and the requests that they cannot begin.

use std::sync::Arc;

use pinion_engine::app::{ByteStreamEvent, Gone};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::python::child_frame::ChildFrame;
use pinion_http::python::frame_writer::{write_files, write_gone, write_room, write_take_back};
use rustc_hash::FxHashMap;

use super::Python;
use super::file_descriptor_channel::take_file;
use super::limits::{FRAME_PIECE_BYTES, QUEUE_TIMEOUT_MS, START_MS};
use super::process_link::{LinkRequest, ProcessLink};
use super::python_app::{AppProcess, PythonApp};
use super::python_failure::PythonFailure;
use super::python_request::RequestStage;
use crate::limits::PYTHON_TAG;
use crate::proxy::Ended;

impl Python {
    /// Handles an event on a connection to a process. `ended` is called for each request that this
    /// ends, with its exchange.
    pub fn byte_stream_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
        mut ended: impl FnMut(Ended, &mut Exchange<'_>),
    ) {
        let Some(tag) = stream.tag() else { return };
        let number = tag & !PYTHON_TAG;
        match event {
            ByteStreamEvent::Open => stream.want(FRAME_PIECE_BYTES),
            ByteStreamEvent::Bytes(bytes) => {
                stream.want(bytes.len() as u64);
                let mut connections = stream.connections();
                if let Err(failure) = self.frames(number, bytes, &mut connections, &mut ended) {
                    stream.abort();
                    self.lost(number, &failure, &mut stream.connections(), &mut ended);
                }
            }
            ByteStreamEvent::End => {
                stream.abort();
                let failure = PythonFailure::ProcessEnded;
                self.lost(number, &failure, &mut stream.connections(), &mut ended);
            }
            ByteStreamEvent::Gone(why) => {
                let failure = match why {
                    Gone::NotConnected(error) => PythonFailure::NotConnected(*error),
                    _ => PythonFailure::ProcessEnded,
                };
                self.lost(number, &failure, &mut stream.connections(), &mut ended);
            }
            ByteStreamEvent::Writable => {
                let Some(mut link) = self.links.remove(&number) else { return };
                link.is_full = false;
                self.give_held(&mut link, &mut stream.connections(), &mut ended);
                self.links.insert(number, link);
            }
            _ => {}
        }
    }

    /// Takes requests back that wait in a process which does not get to them, while another one has
    /// time, or while it executes a long one. So the executing request does not delay them, and
    /// they are not lost with it.
    pub fn pass(&mut self, connections: &mut Connections<'_>) {
        self.websocket_pass(connections);
        let now_ms = connections.now().monotonic_ms;
        self.blocked_pass(now_ms);
        if self.check_ms.is_none_or(|check_ms| now_ms < check_ms) {
            return;
        }
        let mut has_any = false;
        for link in self.links.values_mut().filter(|link| !link.is_idle()) {
            let AppProcess { app, number } = &link.process;
            has_any |= !app.is_asgi();
            let Some((backlog, free)) = app.queue.backlog(*number) else { continue };
            let is_held_up = now_ms >= link.last_end_ms + START_MS;
            if is_held_up {
                app.queue.set_slow(*number);
            }
            let max = if is_held_up { backlog } else { backlog.min(free) };
            if max == 0 {
                continue;
            }
            self.frames.clear();
            write_take_back(&mut self.frames, &link.take_back(now_ms, max));
            link.write(&self.frames, connections);
            self.frames.clear();
        }
        self.check_ms = has_any.then(|| now_ms + START_MS);
    }

    /// Sends a frame about the request of an exchange to its process.
    pub(super) fn send_frame(
        &mut self,
        address: Address,
        exchange: &mut Exchange<'_>,
        write: impl FnOnce(u32, &mut Vec<u8>),
    ) {
        let Some(request) = self.requests.get(&address) else { return };
        let RequestStage::Sent { link, number } = request.stage else { return };
        let Some(link) = self.links.get_mut(&link) else { return };
        self.frames.clear();
        write(number, &mut self.frames);
        link.write(&self.frames, &mut exchange.connections());
        self.frames.clear();
    }

    /// Returns whether a process has a request.
    pub(super) fn is_sent(&self, address: Address) -> bool {
        let Some(request) = self.requests.get(&address) else { return false };
        let RequestStage::Sent { link, number } = request.stage else { return false };
        let link = self.links.get(&link);
        let known = link.and_then(|link| link.requests.get(&number));
        known.is_some_and(|known| known.sent_ms.is_some())
    }

    /// Sends the content of a request that has come and that its process wants.
    pub(super) fn send_content(&mut self, address: Address, exchange: &mut Exchange<'_>) {
        if !self.is_sent(address) {
            return;
        }
        let Some(request) = self.requests.get_mut(&address) else { return };
        let RequestStage::Sent { link, number } = request.stage else { return };
        let Some(link) = self.links.get_mut(&link) else { return };
        if link.is_full {
            return link.hold(number);
        }
        self.frames.clear();
        // Content that comes from the client is not stored, so reading it does not fail.
        while matches!(request.give_content(number, &mut self.frames), Ok(true)) {}
        link.write(&self.frames, &mut exchange.connections());
        self.frames.clear();
    }

    /// Sends a process content that it wants, as long as the connection to it has room.
    fn give_held(
        &mut self,
        link: &mut ProcessLink,
        connections: &mut Connections<'_>,
        ended: &mut impl FnMut(Ended, &mut Exchange<'_>),
    ) {
        while let Some((number, address)) = link.next_held() {
            let Some(address) = address else { continue };
            let Some(request) = self.requests.get_mut(&address) else { continue };
            self.frames.clear();
            match request.give_content(number, &mut self.frames) {
                Ok(true) => link.hold(number),
                Ok(false) => {}
                Err(error) => {
                    write_gone(&mut self.frames, number);
                    link.forget_exchange(number);
                    // Without an exchange its last event is on the way.
                    if let Some(mut exchange) = connections.exchange(address) {
                        let end = request.failed_by(error, &mut exchange);
                        self.requests.remove(&address);
                        ended(end, &mut exchange);
                    }
                }
            }
            link.write(&self.frames, connections);
        }
        self.frames.clear();
    }

    pub(super) fn send_room(
        &mut self,
        address: Address,
        room: Option<u32>,
        exchange: &mut Exchange<'_>,
    ) {
        if let Some(bytes) = room {
            self.send_frame(address, exchange, |number, out| {
                write_room(out, number, bytes);
            });
        }
    }

    /// Reads the frames that have come from a process.
    fn frames(
        &mut self,
        link_number: u64,
        mut input: &[u8],
        connections: &mut Connections<'_>,
        ended: &mut impl FnMut(Ended, &mut Exchange<'_>),
    ) -> Result<(), PythonFailure> {
        let Some(mut link) = self.links.remove(&link_number) else { return Ok(()) };
        let mut storage = std::mem::take(&mut self.storage);
        let (mut result, mut given_back) = (Ok(()), Vec::new());
        let (was_ready, mut has_file, mut wants_channel) = (link.reader.is_ready(), false, false);
        while !input.is_empty() {
            let ProcessLink { reader, requests, files, .. } = &mut link;
            match reader.step(input, &mut storage) {
                Ok(step) => {
                    input = input.get(step.used..).unwrap_or_default();
                    let Some(frame) = step.frame else { continue };
                    if let ChildFrame::GivenBack(numbers) = frame {
                        let taken = numbers.iter().filter_map(|it| take_not_started(requests, it));
                        given_back.extend(taken);
                        self.note_response(&mut link);
                        continue;
                    }
                    wants_channel |= matches!(frame, ChildFrame::WantChannel);
                    let Some(number) = frame.request() else { continue };
                    let is_file = matches!(frame, ChildFrame::File { .. });
                    has_file |= is_file;
                    self.files.taken = if is_file { take_file(files, number) } else { None };
                    // A process that responds to a request that it does not have is not believed.
                    let known = requests.get_mut(&number).filter(|known| known.sent_ms.is_some());
                    let Some(known) = known else { continue };
                    known.is_started = true;
                    let is_want = matches!(frame, ChildFrame::Want { .. });
                    let is_last = frame.is_last();
                    if self.frame(&frame, (link_number, *known), connections, ended) {
                        known.exchange = None;
                    }
                    if is_want {
                        link.hold(number);
                    }
                    if is_last {
                        self.end_request(&mut link, number, connections.now().monotonic_ms);
                    }
                }
                Err(error) => {
                    result = Err(PythonFailure::Frame(error));
                    break;
                }
            }
        }
        self.storage = storage;
        self.update_file_channel(&mut link, wants_channel, has_file);
        link.write(&self.frames, connections);
        self.give_held(&mut link, connections, ended);
        if link.has_unsent() && link.reader.is_ready() {
            self.unsent.push(link_number);
        }
        let is_up = link.reader.is_ready() && !was_ready;
        let process = (is_up || !given_back.is_empty()).then(|| link.process.clone());
        self.links.insert(link_number, link);
        if let Some(process) = process {
            let (taken, others) = given_back.into_iter().partition(|known| known.is_taken_back);
            self.enter_first(&process, taken, connections);
            self.enter_again(&process, others, connections, ended);
            if is_up && process.app.queue.set_up(process.number) {
                self.leave_processes_that_are_down(&process.app, connections);
            }
        }
        result
    }

    /// Opens a channel for files that a process wants, and ends the use of one when enough files
    /// are being sent. Frames for the process come into `self.frames`.
    fn update_file_channel(&mut self, link: &mut ProcessLink, is_wanted: bool, has_file: bool) {
        if is_wanted {
            link.open_file_channel(self.files.has_room(), &mut self.frames);
        } else if has_file && !self.files.has_room() {
            // The channel stays for files that are on their way.
            write_files(&mut self.frames, None);
        }
    }

    /// Ends a request after the last frame of its process.
    fn end_request(&mut self, link: &mut ProcessLink, number: u32, now_ms: u64) {
        if let Some(known) = link.remove(number) {
            let begin_ms = known.sent_ms.unwrap_or(now_ms).max(link.last_end_ms);
            link.last_end_ms = now_ms;
            let AppProcess { app, number } = &link.process;
            if known.is_overdue {
                app.queue.end_overdue(*number);
            }
            self.release(app, *number, Some(now_ms.saturating_sub(begin_ms)));
        }
    }

    /// Passes a frame about a request on to its client. Frames for the process come into
    /// `self.frames`. Returns whether the request has become a WebSocket.
    fn frame(
        &mut self,
        frame: &ChildFrame<'_>,
        (link, known): (u64, LinkRequest),
        connections: &mut Connections<'_>,
        ended: &mut impl FnMut(Ended, &mut Exchange<'_>),
    ) -> bool {
        let key = (link, known.number);
        let Some(address) = known.exchange else {
            self.websocket_frame(key, frame, connections);
            return false;
        };
        let Some(request) = self.requests.get_mut(&address) else { return false };
        if let ChildFrame::Accept { fields, .. } = frame
            && request.check(frame).is_ok()
        {
            return self.accept(key, address, fields, connections, ended);
        }
        // Without an exchange its last event is on the way.
        let Some(mut exchange) = connections.exchange(address) else { return false };
        if let ChildFrame::File { offset, bytes, .. } = *frame {
            let end = request.send_file((offset, bytes), &mut self.files, &mut exchange);
            self.requests.remove(&address);
            ended(end, &mut exchange);
            return false;
        }
        match request.frame(frame, known.number, &mut exchange, &mut self.frames) {
            None => {
                let left_ms = request.due_ms.saturating_sub(exchange.now().monotonic_ms);
                exchange.wait(Some(left_ms));
            }
            Some(end) => {
                self.requests.remove(&address);
                ended(end, &mut exchange);
            }
        }
        false
    }

    /// Handles a lost connection, and with it all its requests. The ones that were not sent go to
    /// another process, if it is the process that has ended.
    pub(super) fn lost(
        &mut self,
        number: u64,
        failure: &PythonFailure,
        connections: &mut Connections<'_>,
        ended: &mut impl FnMut(Ended, &mut Exchange<'_>),
    ) {
        let Some(link) = self.links.remove(&number) else { return };
        self.numbers.remove(&link.process.number);
        let is_again = *failure == PythonFailure::ProcessEnded;
        self.expect(&link, is_again);
        let (unsent, sent): (Vec<LinkRequest>, Vec<LinkRequest>) =
            link.requests.into_values().partition(|known| is_again && known.sent_ms.is_none());
        for known in sent.iter().filter(|known| known.exchange.is_none()) {
            self.lose_websocket((number, known.number), connections);
        }
        self.lose(&link.process, sent, failure, connections, ended);
        self.enter_again(&link.process, unsent, connections, ended);
    }

    /// Waits for a process that was there and has ended, and is started again. Others get its
    /// requests meanwhile.
    fn expect(&mut self, link: &ProcessLink, has_ended: bool) {
        let AppProcess { app, number } = &link.process;
        if !has_ended || self.is_stopping || !link.reader.is_ready() {
            // If it is not there, that is seen by the next request.
            app.queue.set_up(*number);
        } else if app.queue.set_down(*number) {
            self.last_number += 1;
            self.numbers.insert(*number, self.last_number);
            self.links.insert(self.last_number, ProcessLink::new(link.process.clone()));
            self.unsent.push(self.last_number);
        }
    }

    /// Moves requests that wait for processes which are down, after a process is there again.
    fn leave_processes_that_are_down(
        &mut self,
        app: &Arc<PythonApp>,
        connections: &mut Connections<'_>,
    ) {
        let mut left = Vec::new();
        for link in self.links.values_mut().filter(|link| link.has_unsent()) {
            if Arc::ptr_eq(&link.process.app, app) && app.queue.is_replaced(link.process.number) {
                left.push((link.process.clone(), link.take_unsent()));
            }
        }
        for (process, requests) in left {
            self.enter_first(&process, requests, connections);
        }
        self.grant(app);
    }

    /// Removes these requests from a process.
    fn lose(
        &mut self,
        process: &AppProcess,
        requests: Vec<LinkRequest>,
        failure: &PythonFailure,
        connections: &mut Connections<'_>,
        ended: &mut impl FnMut(Ended, &mut Exchange<'_>),
    ) {
        for known in requests {
            self.release(&process.app, process.number, None);
            let Some(address) = known.exchange else { continue };
            // Without an exchange its last event is on the way.
            let Some(mut exchange) = connections.exchange(address) else { continue };
            let Some(request) = self.requests.remove(&address) else { continue };
            ended(request.failed(failure.clone(), &mut exchange), &mut exchange);
        }
    }

    /// Queues requests first that a process was too slow for, and does not have any more.
    fn enter_first(
        &mut self,
        process: &AppProcess,
        mut requests: Vec<LinkRequest>,
        connections: &mut Connections<'_>,
    ) {
        requests.sort_unstable_by_key(|known| std::cmp::Reverse(known.number));
        for known in &requests {
            let Some(address) = known.exchange else { continue };
            // Without an exchange its last event is on the way.
            let Some(mut exchange) = connections.exchange(address) else { continue };
            let Some(request) = self.requests.get_mut(&address) else { continue };
            request.stage = RequestStage::Waiting;
            request.due_ms = exchange.now().monotonic_ms + QUEUE_TIMEOUT_MS;
            exchange.wait(Some(QUEUE_TIMEOUT_MS));
            process.app.queue.enter_first(address);
        }
        for _ in &requests {
            self.release(&process.app, process.number, None);
        }
    }

    /// Queues requests again that a process has not started, and does not have any more. They go to
    /// another process.
    fn enter_again(
        &mut self,
        process: &AppProcess,
        mut requests: Vec<LinkRequest>,
        connections: &mut Connections<'_>,
        ended: &mut impl FnMut(Ended, &mut Exchange<'_>),
    ) {
        requests.sort_unstable_by_key(|known| known.number);
        for known in requests {
            self.release(&process.app, process.number, None);
            let Some(address) = known.exchange else { continue };
            // Without an exchange its last event is on the way.
            let Some(mut exchange) = connections.exchange(address) else { continue };
            let Some(request) = self.requests.get_mut(&address) else { continue };
            let entered = match request.count_attempt() {
                Ok(()) => self.enter(address, &mut exchange),
                Err(error) => Err(error),
            };
            if let Err(error) = entered {
                self.requests.remove(&address);
                ended(Ended::Failed(error), &mut exchange);
            }
        }
    }
}

/// Takes a request out that a process has given back, unless it was started.
fn take_not_started(
    requests: &mut FxHashMap<u32, LinkRequest>,
    number: u32,
) -> Option<LinkRequest> {
    let is_started = requests.get(&number).is_none_or(|known| known.is_started);
    if is_started { None } else { requests.remove(&number) }
}

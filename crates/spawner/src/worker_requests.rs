//! Reads the requests of workers, carries them out, and sends the replies.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::Signal;

use crate::event_loop::EventLoop;
use crate::limits::REQUESTS_PER_TURN;
use crate::program::SpawnedProgram;
use crate::reply::{Reason, SpawnerReply};
use crate::seqpacket_socket::{Received, receive_record};
use crate::worker_request::SpawnerRequest;

/// The connection of a worker, as the spawner has it.
#[derive(Debug)]
pub(crate) struct Worker {
    socket: OwnedFd,
    /// The queue of replies for which the socket had no space. No request is read as long as this
    /// queue has any, so its length is bounded: two for each running program, plus those of one
    /// turn.
    replies: VecDeque<SpawnerReply>,
}

impl Worker {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, replies: VecDeque::new() }
    }

    /// Returns the event for which the loop waits on the connection: space if answers are queued,
    /// otherwise requests.
    pub(crate) fn awaited(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = if self.replies.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        (self.socket.as_fd(), flags)
    }
}

impl EventLoop {
    /// Handles a connection that is readable, or that has space for answers.
    pub(crate) fn on_worker(&mut self, serial: u64) {
        self.send_replies(serial);
        let mut buffer = std::mem::take(&mut self.buffer);
        self.receive_requests(serial, &mut buffer);
        self.buffer = buffer;
    }

    fn receive_requests(&mut self, serial: u64, buffer: &mut [u8]) {
        for _ in 0..REQUESTS_PER_TURN {
            let Some(worker) = self.workers.get(&serial) else { return };
            if !worker.replies.is_empty() {
                return;
            }
            let malformed = match receive_record(&worker.socket, buffer) {
                Err(Errno::AGAIN | Errno::INTR) => return,
                Ok(Received::Record(record)) => match SpawnerRequest::decode(record.bytes) {
                    Some(SpawnerRequest::Start(request)) => {
                        let descriptors = (record.descriptors, record.lost_descriptors);
                        self.start(serial, &request, descriptors);
                        continue;
                    }
                    Some(_) if !record.descriptors.is_empty() || record.lost_descriptors => {
                        Some("descriptors with a request that has none")
                    }
                    Some(request) => {
                        self.on_request(serial, &request);
                        continue;
                    }
                    None => Some("a malformed request"),
                },
                Ok(Received::TooLong) => Some("a request that is too long"),
                Ok(Received::End) | Err(_) => None,
            };
            self.close_worker(serial, malformed);
        }
    }

    fn on_request(&mut self, worker: u64, request: &SpawnerRequest<'_>) {
        let now_ms = self.now_ms();
        let (SpawnerRequest::Signal { id, .. } | SpawnerRequest::Stop { id }) = *request else {
            return;
        };
        let is_meant =
            |program: &&mut SpawnedProgram| (program.worker, program.id) == (Some(worker), id);
        let Some(program) = self.programs.values_mut().find(is_meant) else {
            self.reply(worker, SpawnerReply::Rejected { id, reason: Reason::NotRunning });
            return;
        };
        match *request {
            SpawnerRequest::Signal { signal, .. } => {
                if let Some(signal) = Signal::from_named_raw(i32::from(signal)) {
                    program.signal(signal);
                }
            }
            _ => program.stop(now_ms),
        }
    }

    /// Closes a connection and stops the programs that it has started.
    fn close_worker(&mut self, serial: u64, malformed: Option<&str>) {
        let now_ms = self.now_ms();
        if let Some(violation) = malformed {
            let text =
                format!("spawner: closed the connection of a worker, which has sent {violation}");
            self.log.notice(now_ms, &text);
        }
        self.workers.remove(&serial);
        for program in self.programs.values_mut().filter(|p| p.worker == Some(serial)) {
            program.worker = None;
            program.stop(now_ms);
        }
    }

    /// Sends a reply to a worker, or queues it. If the worker has disconnected, the reply is
    /// dropped.
    pub(crate) fn reply(&mut self, worker: u64, reply: SpawnerReply) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.replies.push_back(reply);
        }
        self.send_replies(worker);
    }

    fn send_replies(&mut self, serial: u64) {
        let Some(worker) = self.workers.get_mut(&serial) else { return };
        while let Some(reply) = worker.replies.front() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&worker.socket, &reply.encode(), flags) {
                Ok(_) => drop(worker.replies.pop_front()),
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => return,
                // The next read detects the closed connection.
                Err(_) => worker.replies.clear(),
            }
        }
    }
}

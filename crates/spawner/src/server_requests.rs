//! Requests of the server on the control connection: connections of workers, tables, the end.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::control::{ControlAnswer, ControlRequest};
use crate::event_loop::{EventLoop, LiveTable};
use crate::limits::WORKERS_MAX;
use crate::records::{Received, receive_record};
use crate::start_table::{ProgramStart, StartTable};
use crate::table_codec::decode_start;
use crate::worker_requests::Worker;

/// A table of which not all rows have come yet.
#[derive(Debug)]
pub(crate) struct ComingTable {
    generation: u32,
    missing: u16,
    starts: Vec<ProgramStart>,
}

/// A record that breaks the protocol of a connection.
struct Malformed(&'static str);

impl EventLoop {
    pub(crate) fn read_control(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.receive_control(&mut buffer);
        self.buffer = buffer;
    }

    fn receive_control(&mut self, buffer: &mut [u8]) {
        let Some(control) = &self.control else { return };
        let malformed = match receive_record(control, buffer) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(Received::Record(record)) => {
                let descriptors = record.descriptors;
                match ControlRequest::decode(record.bytes) {
                    Some(request) => match self.on_control(request, descriptors) {
                        Ok(()) => return,
                        Err(Malformed(what)) => what,
                    },
                    None => "a malformed request",
                }
            }
            Ok(Received::TooLong) => "a request that is too long",
            Ok(Received::End) | Err(_) => "",
        };
        // Without the server's requests nothing more can be asked of the spawner.
        self.control = None;
        self.notice_end_of_server();
        if !malformed.is_empty() {
            let now_ms = self.now_ms();
            self.log.notice(now_ms, &format!("spawner: the server has sent {malformed}, stopping"));
        }
        self.stop_everything();
    }

    fn on_control(
        &mut self,
        request: ControlRequest<'_>,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), Malformed> {
        match request {
            ControlRequest::Connect => self.connect(descriptors),
            ControlRequest::BeginTable { generation, starts } => {
                self.coming = Some(ComingTable { generation, missing: starts, starts: Vec::new() });
            }
            ControlRequest::AddStart { start } => {
                let coming = self.coming.as_mut().filter(|coming| coming.missing > 0);
                let coming = coming.ok_or(Malformed("a program without a table"))?;
                let start = decode_start(start).ok_or(Malformed("a malformed program"))?;
                coming.starts.push(start);
                coming.missing -= 1;
            }
            ControlRequest::UseTable => {
                let coming = self.coming.take().filter(|coming| coming.missing == 0);
                let coming = coming.ok_or(Malformed("an incomplete table"))?;
                self.use_table(coming);
            }
            ControlRequest::Stop => self.stop_everything(),
        }
        Ok(())
    }

    /// Takes the connection of a worker. One that cannot be taken is closed, which the worker
    /// notices.
    fn connect(&mut self, descriptors: Vec<OwnedFd>) {
        match <[OwnedFd; 1]>::try_from(descriptors) {
            Ok([socket]) if self.workers.len() < WORKERS_MAX => {
                let serial = self.serial();
                self.workers.insert(serial, Worker::new(socket));
            }
            refused => {
                let why = if refused.is_ok() { "workers" } else { "open files" };
                let now_ms = self.now_ms();
                let text = format!("spawner: closed the connection of a worker: too many {why}");
                self.log.notice(now_ms, &text);
            }
        }
    }

    fn use_table(&mut self, coming: ComingTable) {
        let table = StartTable { starts: coming.starts };
        let checked = match table.check() {
            Ok(()) => LiveTable::of(coming.generation, &table.starts).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let answer = match checked {
            Ok(table) => {
                self.previous = Some(std::mem::replace(&mut self.table, table));
                ControlAnswer::TableInUse
            }
            Err(error) => {
                let now_ms = self.now_ms();
                let text = format!("spawner: new programs refused, keeping the others: {error}");
                self.log.notice(now_ms, &text);
                ControlAnswer::TableRefused
            }
        };
        self.answer_control(answer);
    }

    pub(crate) fn answer_control(&self, answer: ControlAnswer) {
        if let Some(control) = &self.control {
            // The server waits for it. If it is gone, the next read says so.
            let _ = send(control, &[answer as u8], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}

//! Handles the requests of the server on the control connection: connections of workers, tables,
//! the end.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::control_codec::{ControlReply, ControlRequest};
use crate::event_loop::{EventLoop, LiveStart, LiveTable};
use crate::limits::WORKERS_MAX;
use crate::seqpacket_socket::{Received, receive_record};
use crate::start_table::ProgramStart;
use crate::table_check::{check_row, check_together};
use crate::table_codec::decode_start;
use crate::worker_requests::Worker;

/// A new table that is still incomplete.
#[derive(Debug)]
pub(crate) struct ComingTable {
    generation: u32,
    /// The generation of the table that the server currently uses.
    previous: u32,
    missing: u16,
    starts: Vec<ComingStart>,
}

/// A row of an incomplete table.
#[derive(Debug)]
enum ComingStart {
    New(Box<ProgramStart>),
    /// A row that is copied from the table in use, by its number.
    Kept(u16),
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
                        Err(Malformed(violation)) => violation,
                    },
                    None => "a malformed request",
                }
            }
            Ok(Received::TooLong) => "a request that is too long",
            Ok(Received::End) | Err(_) => "",
        };
        // Without the control connection, the spawner can receive no further requests of the
        // server.
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
            ControlRequest::BeginTable { generation, previous, starts } => {
                let (missing, starts) = (starts, Vec::new());
                self.coming = Some(ComingTable { generation, previous, missing, starts });
            }
            ControlRequest::AddStart { start } => {
                let start = decode_start(start).ok_or(Malformed("a malformed program"))?;
                self.add_start(ComingStart::New(Box::new(start)))?;
            }
            ControlRequest::KeepStart { number } => self.add_start(ComingStart::Kept(number))?,
            ControlRequest::UseTable => {
                let coming = self.coming.take().filter(|coming| coming.missing == 0);
                let coming = coming.ok_or(Malformed("an incomplete table"))?;
                self.use_table(coming);
            }
            ControlRequest::Stop => self.stop_everything(),
        }
        Ok(())
    }

    /// Adds the connection of a worker. A connection that cannot be added is closed, which the
    /// worker notices.
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

    fn add_start(&mut self, start: ComingStart) -> Result<(), Malformed> {
        let coming = self.coming.as_mut().filter(|coming| coming.missing > 0);
        let coming = coming.ok_or(Malformed("a program without a table"))?;
        coming.starts.push(start);
        coming.missing -= 1;
        Ok(())
    }

    fn use_table(&mut self, coming: ComingTable) {
        let (generation, previous) = (coming.generation, coming.previous);
        let reply = match self.checked_table(coming) {
            Ok(table) => {
                let replaced = std::mem::replace(&mut self.table, table);
                // The server has timed out waiting for the reply to this table and does not use
                // it. So no request names that table, and requests for the one before it may still
                // arrive.
                if replaced.generation == previous {
                    self.previous = Some(replaced);
                }
                ControlReply::TableInUse { generation }
            }
            Err(error) => {
                let now_ms = self.now_ms();
                let text = format!("spawner: new programs refused, keeping the others: {error}");
                self.log.notice(now_ms, &text);
                ControlReply::TableRefused { generation }
            }
        };
        self.reply_control(reply);
    }

    /// Checks a complete table, and prepares its new rows.
    fn checked_table(&self, coming: ComingTable) -> Result<LiveTable, String> {
        let in_use = self.live_table(coming.previous);
        let kept = |number: u16| in_use?.starts.get(usize::from(number)).map(Rc::clone);
        let prepared = |start: ComingStart| match start {
            ComingStart::New(start) => match check_row(&start) {
                Ok(_) => LiveStart::of(&start).ok_or_else(|| "a program has a NUL byte".to_owned()),
                Err(error) => Err(error.to_string()),
            },
            ComingStart::Kept(number) => {
                kept(number).ok_or_else(|| "a program is kept that is not there".to_owned())
            }
        };
        let starts: Vec<_> = coming.starts.into_iter().map(prepared).collect::<Result<_, _>>()?;
        let rows = starts.iter().map(|start| (&*start.name, start.encoded_bytes));
        check_together(starts.len(), rows).map_err(|error| error.to_string())?;
        Ok(LiveTable { generation: coming.generation, starts })
    }

    pub(crate) fn reply_control(&self, reply: ControlReply) {
        if let Some(control) = &self.control {
            // The server waits for this reply. If the server has ended, the next read reports
            // that.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = send(control, &reply.encode(), flags);
        }
    }
}

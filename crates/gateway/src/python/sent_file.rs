//! Responses whose content is a part of a file that a process has opened.

use std::fs::File;
use std::sync::{Arc, Weak};

use pinion_engine::exchange::{Exchange, Slice};
use rustix::process::{Resource, getrlimit};

use super::limits::SENT_FILES_DIVISOR;
use super::python_failure::PythonFailure;
use super::python_request::PythonRequest;
use crate::proxy::Ended;

/// The files of a worker that are being sent.
#[derive(Debug)]
pub(super) struct SentFiles {
    files: Vec<Weak<File>>,
    max: usize,
    /// The file of the frame that is handled.
    pub(super) taken: Option<File>,
}

impl Default for SentFiles {
    fn default() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let max = usize::try_from(descriptors / SENT_FILES_DIVISOR).unwrap_or(usize::MAX);
        Self { files: Vec::new(), max, taken: None }
    }
}

impl SentFiles {
    /// Counts a file for as long as it is being sent.
    fn add(&mut self, file: &Arc<File>) {
        if self.files.len() == self.files.capacity() {
            self.files.retain(|file| file.strong_count() > 0);
        }
        self.files.push(Arc::downgrade(file));
    }

    /// Returns whether more of them may be opened.
    pub(super) fn has_room(&mut self) -> bool {
        if self.files.len() >= self.max {
            self.files.retain(|file| file.strong_count() > 0);
        }
        self.files.len() < self.max
    }
}

impl PythonRequest {
    /// Ends a response with a part of a file.
    pub(super) fn send_file(
        &mut self,
        (offset, bytes): (u64, u64),
        files: &mut SentFiles,
        exchange: &mut Exchange<'_>,
    ) -> Ended {
        let Some(file) = files.taken.take() else {
            let failure = PythonFailure::Unexpected("FILE without a descriptor");
            return self.failed(failure, exchange);
        };
        let end = offset.checked_add(bytes);
        let has_part = |end| file.metadata().is_ok_and(|it| it.is_file() && it.len() >= end);
        if !end.is_some_and(has_part) {
            let failure = PythonFailure::Unexpected("FILE with a part that the file does not have");
            return self.failed(failure, exchange);
        }
        match self.take_file_content(bytes) {
            Ok(true) => {
                let file = Arc::new(file);
                files.add(&file);
                exchange.write(Slice::File { file, offset, bytes });
            }
            Ok(false) => {}
            Err(failure) => return self.failed(failure, exchange),
        }
        self.end(exchange)
    }
}

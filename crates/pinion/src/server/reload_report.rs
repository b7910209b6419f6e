//! The messages of a reload, for the client of the control socket that waits for it, and for the
//! service manager.

use crate::control::protocol::Message;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The messages of one reload. Every thread that takes part in the reload holds the report; when
/// the last one drops it, the reload has ended, and the messages are sent.
pub(crate) struct ReloadReport {
    messages: Mutex<Vec<Message>>,
    done: Mutex<Option<Done>>,
}

type Done = Box<dyn FnOnce(Vec<Message>) + Send>;

impl ReloadReport {
    /// Returns one that calls `done` at its end, on the thread that has the last part.
    pub(crate) fn new(done: impl FnOnce(Vec<Message>) + Send + 'static) -> Arc<Self> {
        Arc::new(Self { messages: Mutex::default(), done: Mutex::new(Some(Box::new(done))) })
    }

    fn add(&self, message: &Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
    }
}

impl Drop for ReloadReport {
    fn drop(&mut self) {
        let messages = self.messages.get_mut().unwrap_or_else(PoisonError::into_inner);
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = done.take() {
            done(std::mem::take(messages));
        }
    }
}

impl fmt::Debug for ReloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadReport").field("messages", &self.messages).finish_non_exhaustive()
    }
}

/// All reports that a step of a reload belongs to; none for changes of files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports(Vec<Arc<ReloadReport>>);

impl Reports {
    /// Returns one report alone.
    pub(crate) fn of(report: Arc<ReloadReport>) -> Self {
        Self(vec![report])
    }

    /// Logs a message and adds it to all reports.
    pub(crate) fn log(&self, message: &Message) {
        message.log();
        self.add_message(message);
    }

    /// Adds a message to all reports. The caller logs it.
    pub(crate) fn add_message(&self, message: &Message) {
        self.0.iter().for_each(|report| report.add(message));
    }

    /// Adds the reports of another step.
    pub(crate) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_report_is_sent_when_its_last_part_is_over() {
        let (sender, sent) = channel();
        let done = move |messages| sender.send(messages).expect("received");
        let first = Reports::of(ReloadReport::new(done));
        let second = first.clone();
        first.add_message(&Message::info("one"));
        drop(first);
        assert!(sent.try_recv().is_err(), "another part goes on");
        second.add_message(&Message::error("two"));
        drop(second);
        let messages = [Message::info("one"), Message::error("two")];
        assert_eq!(sent.try_recv().expect("over"), messages);
    }
}

//! Messages to a worker: to one of its exchanges or streams, or to its application.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::address::Address;
use crate::app::Message;
use crate::backend::Waker;
use crate::limits::INBOX_MAX_MESSAGES;

/// Whose a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// An exchange or a stream, as long as it lives.
    Tenant(Address),
    /// The application of the worker, whatever it is busy with.
    App,
}

/// Messages and whose they are.
pub(crate) type Messages = VecDeque<(Recipient, Message)>;

/// Bytes of one worker's messages: those that wait, and those it has taken and not delivered.
pub(crate) const WORKER_BYTES: usize = 2 * INBOX_MAX_MESSAGES * size_of::<(Recipient, Message)>();

/// One worker's inbox.
#[derive(Default)]
pub(crate) struct Inbox {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    messages: Messages,
    waker: Option<Waker>,
    /// How many workers have read the inbox, one after the other.
    workers: u32,
}

impl Inbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic while the lock is held leaves a whole list behind; go on with it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker that reads the inbox from now on; returns its number among those that did. The
    /// inbox outlives a worker that panics, and the number tells their connections apart.
    ///
    /// It is woken at once: whoever called before had nobody to wake, and a drain that is not heard
    /// would wait for the end of the grace.
    pub(crate) fn attach(&self, waker: Waker) -> u32 {
        let number = {
            let mut inner = self.lock();
            inner.waker = Some(waker);
            inner.workers = inner.workers.wrapping_add(1);
            inner.workers
        };
        self.wake();
        number
    }

    /// Gives all messages, in the order they came, for a list that is `empty`.
    pub(crate) fn take(&self, empty: Messages) -> Messages {
        std::mem::replace(&mut self.lock().messages, empty)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Adds a message behind the others, unless `messages_max` wait already.
    fn push(&self, messages_max: usize, to: Recipient, message: Message) -> Result<(), Message> {
        let mut inner = self.lock();
        let full = inner.messages.len() >= messages_max;
        if full || inner.messages.try_reserve(1).is_err() {
            return Err(message);
        }
        inner.messages.push_back((to, message));
        // The worker takes all messages at once, so only the first of a batch has to wake it.
        let waker = if inner.messages.len() == 1 { inner.waker.clone() } else { None };
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    pub(crate) fn wake(&self) {
        let waker = self.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Posts messages to the exchanges, streams and applications of a server: from any thread, and from
/// inside of any event, to the own worker too. They are delivered in the order they came, each in
/// an event of its own, never inside of the one that posted it.
#[derive(Clone)]
pub struct Poster {
    pub(crate) inboxes: Arc<[Inbox]>,
}

impl Poster {
    /// How many workers the server has; they are numbered from 0.
    pub fn workers(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// Delivers `message` as a `Posted` event. Dropped silently when the exchange or stream is
    /// over. Many messages share one wake.
    ///
    /// # Errors
    /// The message, when too many wait for the worker already, or there is no memory for one more.
    pub fn post(&self, to: Address, message: Message) -> Result<(), Message> {
        self.post_up_to(INBOX_MAX_MESSAGES, to, message)
    }

    /// Delivers `message` to the application of a worker, whichever exchanges it has
    /// ([`App::posted`](crate::app::App::posted)). It waits for the next application of that worker
    /// when this one panics before it takes its messages up, and is lost when the worker has ended.
    ///
    /// # Errors
    /// The message, when there is no such worker, too many wait for it already, or there is no
    /// memory for one more.
    pub fn post_to_app(&self, worker: u16, message: Message) -> Result<(), Message> {
        match self.inboxes.get(usize::from(worker)) {
            None => Err(message),
            Some(inbox) => inbox.push(INBOX_MAX_MESSAGES, Recipient::App, message),
        }
    }

    /// As [`Self::post`], unless so many messages wait already.
    pub(crate) fn post_up_to(
        &self,
        messages_max: usize,
        to: Address,
        message: Message,
    ) -> Result<(), Message> {
        match self.inboxes.get(usize::from(to.worker)) {
            None => Ok(()),
            Some(inbox) => inbox.push(messages_max, Recipient::Tenant(to), message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::INBOX_DATAGRAMS_MAX;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_worker_that_comes_late_is_woken_for_what_it_missed() {
        let wakes = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&wakes);
        let waker = Waker(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let inbox = Inbox::default();
        inbox.wake();
        inbox.attach(waker);
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        inbox.wake();
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_full_inbox_gives_the_message_back() {
        let poster = Poster { inboxes: Arc::new([Inbox::default()]) };
        let to = Address { worker: 0, slot: 0, generation: 1, exchange: 1 };
        for number in 0..INBOX_MAX_MESSAGES {
            poster.post(to, Box::new(number)).expect("room");
        }
        let back = poster.post(to, Box::new("one more")).expect_err("no room");
        assert_eq!(back.downcast_ref(), Some(&"one more"));
        let taken = poster.inboxes[0].take(Messages::new());
        assert_eq!(taken.len(), INBOX_MAX_MESSAGES);
        poster.post(to, back).expect("room again");
    }

    #[test]
    fn a_message_to_an_application_needs_a_worker() {
        let poster = Poster { inboxes: Arc::new([Inbox::default(), Inbox::default()]) };
        assert_eq!(poster.workers(), 2);
        assert!(poster.post_to_app(2, Box::new("nobody")).is_err());
        poster.post_to_app(1, Box::new("somebody")).expect("room");
        assert!(poster.inboxes[0].take(Messages::new()).is_empty());
        let taken = poster.inboxes[1].take(Messages::new());
        assert_eq!(taken.front().map(|(to, _)| *to), Some(Recipient::App));
    }

    #[test]
    fn datagrams_leave_room_for_messages() {
        let poster = Poster { inboxes: Arc::new([Inbox::default()]) };
        let to = Address { worker: 0, slot: 0, generation: 1, exchange: 1 };
        let post = || poster.post_up_to(INBOX_DATAGRAMS_MAX, to, Box::new(()));
        assert!((0..INBOX_DATAGRAMS_MAX).all(|_| post().is_ok()));
        assert!(post().is_err());
        for _ in INBOX_DATAGRAMS_MAX..INBOX_MAX_MESSAGES {
            poster.post(to, Box::new(())).expect("room");
        }
    }
}

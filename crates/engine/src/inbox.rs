//! Messages to a worker: to one of its exchanges or streams, or to its application.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::Waker;
use crate::exchange_address::Address;
use crate::limits::INBOX_MAX_MESSAGES;

/// A message that is posted to an exchange, a stream or an application ([`Poster`](crate::Poster)).
pub type Message = Box<dyn Any + Send>;

/// The recipient of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// An exchange or a stream, as long as it lives.
    Tenant(Address),
    /// The application of the worker, regardless of its exchanges.
    App,
}

/// Messages with their recipients.
pub(crate) type Messages = VecDeque<(Recipient, Message)>;

/// Bytes of one worker's messages: those that wait, and those it has taken and not delivered.
pub(crate) const WORKER_BYTES: usize = 2 * INBOX_MAX_MESSAGES * size_of::<(Recipient, Message)>();

/// The flag of a worker that waits for its backend, or is about to. Only then does a message need
/// its waker, which costs system calls.
const ASLEEP: u8 = 1;
/// The flag of waiting messages.
const MESSAGES: u8 = 2;
/// The flag of changed state that the workers share: the worker makes one more pass.
const CHANGES: u8 = 4;
/// The flag of a probe whether the worker still makes passes: the next pass clears it.
const PROBE: u8 = 8;

/// One worker's inbox.
#[derive(Default)]
pub(crate) struct Inbox {
    inner: Mutex<Inner>,
    /// The flags `ASLEEP`, `MESSAGES`, `CHANGES` and `PROBE`. The thread that sets the first flag
    /// besides `ASLEEP` wakes the worker, so a busy worker is never woken, and a sleeping one once.
    state: AtomicU8,
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
        // A panic while the lock is held leaves a whole list behind, which is still usable.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches the worker that reads the inbox from now on; returns its number among those that
    /// did. The inbox outlives a worker that panics, and the number distinguishes their
    /// connections.
    ///
    /// The worker makes one more pass than it would: earlier changes had no worker to wake, and a
    /// drain that is not seen would wait for the end of the grace period.
    pub(crate) fn attach(&self, waker: Waker) -> u32 {
        let number = {
            let mut inner = self.lock();
            inner.waker = Some(waker);
            inner.workers = inner.workers.wrapping_add(1);
            inner.workers
        };
        // The worker before may have ended while it was asleep.
        self.state.swap(MESSAGES | CHANGES, Ordering::AcqRel);
        number
    }

    /// Marks the worker as asleep. Returns false if there is something for it to do first.
    pub(crate) fn fall_asleep(&self) -> bool {
        let (order, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.state.compare_exchange(0, ASLEEP, order, failure).is_ok()
    }

    /// Marks the worker as awake. Returns whether shared state has changed.
    pub(crate) fn awake(&self) -> bool {
        self.state.fetch_and(!(ASLEEP | CHANGES | PROBE), Ordering::AcqRel) & CHANGES != 0
    }

    /// Clears the flag of waiting messages. Returns whether it was set.
    pub(crate) fn take_message_flag(&self) -> bool {
        self.state.load(Ordering::Acquire) & MESSAGES != 0
            && self.state.fetch_and(!MESSAGES, Ordering::AcqRel) & MESSAGES != 0
    }

    /// Returns all messages, in the order of their arrival, in exchange for a list that is `empty`.
    pub(crate) fn take(&self, empty: Messages) -> Messages {
        std::mem::replace(&mut self.lock().messages, empty)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Adds a message after the others, unless `messages_max` wait already.
    fn push(&self, messages_max: usize, to: Recipient, message: Message) -> Result<(), Message> {
        let mut inner = self.lock();
        let full = inner.messages.len() >= messages_max;
        if full || inner.messages.try_reserve(1).is_err() {
            return Err(message);
        }
        inner.messages.push_back((to, message));
        drop(inner);
        self.notify(MESSAGES);
        Ok(())
    }

    /// Makes the worker run one more pass.
    pub(crate) fn wake(&self) {
        self.notify(CHANGES);
    }

    /// Probes whether the worker still makes passes: it is probed until it has made one.
    pub(crate) fn probe(&self) {
        self.notify(PROBE);
    }

    /// Returns whether the worker has made no pass since it was probed.
    pub(crate) fn is_probed(&self) -> bool {
        self.state.load(Ordering::Acquire) & PROBE != 0
    }

    /// Makes the worker take messages that it has left for its next pass.
    pub(crate) fn mark_messages_pending(&self) {
        self.notify(MESSAGES);
    }

    fn notify(&self, flag: u8) {
        if self.state.fetch_or(flag, Ordering::AcqRel) == ASLEEP {
            let waker = self.lock().waker.clone();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// A handle that posts messages to the exchanges, streams and applications of a server: from any
/// thread, and from inside of any event, to the own worker too. They are delivered in the order of
/// their arrival, each in an event of its own, never inside of the event that posted it. Posting to
/// an awake worker needs no system call, and a worker delivers messages that were posted by its
/// completions in the same pass.
#[derive(Clone)]
pub struct Poster {
    pub(crate) inboxes: Arc<[Inbox]>,
}

impl Poster {
    /// Returns the number of workers of the server; they are numbered from 0.
    pub fn workers(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// Delivers `message` as a `Posted` event. It is dropped silently if the exchange or stream is
    /// over. Many messages share one wake.
    ///
    /// # Errors
    /// Returns the message, if too many wait for the worker already, or there is no memory for one
    /// more.
    pub fn post(&self, to: Address, message: Message) -> Result<(), Message> {
        self.post_up_to(INBOX_MAX_MESSAGES, to, message)
    }

    /// Delivers `message` to the application of a worker, independent of its exchanges
    /// ([`App::posted`](crate::app::App::posted)). It waits for the next application of that worker
    /// if this one panics before it takes its messages, and is lost if the worker has ended.
    ///
    /// # Errors
    /// Returns the message, if there is no such worker, too many wait for it already, or there is
    /// no memory for one more.
    pub fn post_to_app(&self, worker: u16, message: Message) -> Result<(), Message> {
        match self.inboxes.get(usize::from(worker)) {
            None => Err(message),
            Some(inbox) => inbox.push(INBOX_MAX_MESSAGES, Recipient::App, message),
        }
    }

    /// Posts to the application of every worker, one message for each, which `message` makes for
    /// its number. Returns the numbers of the workers that could not take theirs, and the messages:
    /// see [`Self::post_to_app`].
    pub fn post_to_apps(&self, mut message: impl FnMut(u16) -> Message) -> Vec<(u16, Message)> {
        let post = |worker| {
            let refused = self.post_to_app(worker, message(worker)).err();
            refused.map(|message| (worker, message))
        };
        (0..self.workers()).filter_map(post).collect()
    }

    /// Posts as [`Self::post`] does, unless `messages_max` messages wait already.
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
    fn a_worker_that_starts_late_gets_earlier_wakeups() {
        let (inbox, wakes) = attached();
        inbox.wake();
        assert!(!inbox.fall_asleep(), "it has not looked");
        assert!(inbox.awake() && inbox.take_message_flag());
        assert!(inbox.fall_asleep());
        assert_eq!(wakes.load(Ordering::Relaxed), 0, "it was awake");
    }

    /// Returns an inbox whose worker is awake, and the number of times that the worker was woken.
    fn attached() -> (Inbox, Arc<AtomicU32>) {
        let wakes = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&wakes);
        let waker = Waker(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let inbox = Inbox::default();
        inbox.attach(waker);
        (inbox, wakes)
    }

    #[test]
    fn only_a_worker_that_sleeps_is_woken_and_once() {
        let (inbox, wakes) = attached();
        let push = || inbox.push(INBOX_MAX_MESSAGES, Recipient::App, Box::new(())).expect("room");
        assert!(inbox.awake() && inbox.take_message_flag());
        push();
        assert!(!inbox.fall_asleep(), "there is a message");
        assert!(!inbox.awake() && inbox.take_message_flag() && !inbox.take_message_flag());
        assert_eq!(wakes.load(Ordering::Relaxed), 0);
        assert!(inbox.fall_asleep());
        push();
        push();
        inbox.wake();
        assert_eq!(wakes.load(Ordering::Relaxed), 1, "one wake brings it all");
        assert!(inbox.awake() && inbox.take_message_flag());
        assert!(inbox.fall_asleep());
        inbox.wake();
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_pass_acknowledges_a_probe_and_changes_nothing_else() {
        let (inbox, wakes) = attached();
        assert!(inbox.awake() && inbox.take_message_flag() && !inbox.is_probed());
        assert!(inbox.fall_asleep());
        inbox.probe();
        inbox.probe();
        assert_eq!(wakes.load(Ordering::Relaxed), 1, "a worker that sleeps is woken");
        assert!(inbox.is_probed());
        assert!(!inbox.awake(), "nothing has changed");
        assert!(!inbox.is_probed());
        inbox.probe();
        assert!(!inbox.fall_asleep(), "it makes a pass first");
        // A new worker in the place of one that has ended counts as a response to the probe, too.
        inbox.attach(Waker(Arc::new(|| {})));
        assert!(!inbox.is_probed());
    }

    /// Messages of another thread always arrive: a message that is posted between two checks of the
    /// worker is read before the worker sleeps, or wakes it.
    #[test]
    fn no_message_is_missed_between_the_check_and_the_sleep() {
        const MESSAGES: usize = 100_000;
        let (wake, woken) = std::sync::mpsc::channel();
        let inbox = Inbox::default();
        inbox.attach(Waker(Arc::new(move || wake.send(()).expect("the worker listens"))));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..MESSAGES {
                    let mut message: Message = Box::new(number);
                    while let Err(back) = inbox.push(INBOX_MAX_MESSAGES, Recipient::App, message) {
                        message = back;
                        std::thread::yield_now();
                    }
                }
            });
            let mut taken = 0;
            while taken < MESSAGES {
                if inbox.fall_asleep() {
                    woken.recv().expect("a wake");
                }
                inbox.awake();
                if inbox.take_message_flag() {
                    taken += inbox.take(Messages::new()).len();
                }
            }
        });
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
    fn datagrams_leave_inbox_capacity_for_messages() {
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

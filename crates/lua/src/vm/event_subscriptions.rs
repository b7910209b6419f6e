//! The functions of the host that wait for an event: a message, or the end of the server or of the
//! script.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, LuaString, Result, Table, Value};

use super::host_functions::{Host, Outcome, or_why};
use crate::channel_message::ChannelMessage;
use crate::limits::{
    SUBSCRIPTION_QUEUE_MAX, SUBSCRIPTION_QUEUE_MAX_BYTES, SUBSCRIPTIONS_PER_TASK_MAX,
};
use crate::task::TaskId;

/// The reason why running work should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndingReason {
    /// The server stops.
    Stopping,
    /// Another script has replaced it.
    Reloaded,
}

impl EndingReason {
    /// Returns the name for scripts.
    const fn name(self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::Reloaded => "reloaded",
        }
    }
}

/// The subscriptions of a VM.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// The number of subscriptions that there ever were; each has a number from 1 on.
    count: u64,
    all: HashMap<u64, Subscription>,
    /// The numbers of subscriptions by channel, which are many where thousands of streams have one.
    channels: HashMap<Box<str>, BTreeSet<u64>>,
}

/// The messages of a channel that a task has yet to read.
#[derive(Debug)]
struct Subscription {
    channel: Box<str>,
    queue: VecDeque<Arc<ChannelMessage>>,
    /// Bytes of these messages.
    bytes: usize,
    /// The number of messages that were dropped since the last one was read.
    lost: u64,
    /// The task that waits for the next message.
    waiter: Option<TaskId>,
}

impl Subscription {
    /// Adds a message. If there are too many, the oldest ones are dropped; the newest one stays.
    fn push(&mut self, message: &Arc<ChannelMessage>) {
        self.bytes += message.value.bytes();
        self.queue.push_back(Arc::clone(message));
        while self.queue.len() > 1
            && (self.queue.len() > SUBSCRIPTION_QUEUE_MAX
                || self.bytes > SUBSCRIPTION_QUEUE_MAX_BYTES)
        {
            self.take();
            self.lost += 1;
        }
    }

    fn take(&mut self) -> Option<Arc<ChannelMessage>> {
        let message = self.queue.pop_front()?;
        self.bytes -= message.value.bytes();
        Some(message)
    }
}

impl Subscriptions {
    fn add(&mut self, channel: &str) -> u64 {
        self.count += 1;
        let (queue, bytes, lost, waiter) = Default::default();
        let subscription = Subscription { channel: channel.into(), queue, bytes, lost, waiter };
        self.all.insert(self.count, subscription);
        self.channels.entry(channel.into()).or_default().insert(self.count);
        self.count
    }

    fn remove(&mut self, number: u64) {
        let Some(subscription) = self.all.remove(&number) else { return };
        if let Some(numbers) = self.channels.get_mut(&subscription.channel) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.channels.remove(&subscription.channel);
            }
        }
    }

    /// Adds a message to all subscriptions of its channel, and returns the tasks that wait for it.
    fn deliver(&mut self, message: &Arc<ChannelMessage>) -> Vec<TaskId> {
        let mut waiters = Vec::new();
        for number in self.channels.get(&message.channel).into_iter().flatten() {
            if let Some(subscription) = self.all.get_mut(number) {
                subscription.push(message);
                waiters.extend(subscription.waiter.take());
            }
        }
        waiters
    }
}

impl Host {
    /// Delivers a message to the subscriptions of its channel.
    pub(crate) fn deliver(&self, message: &Arc<ChannelMessage>) {
        let waiters = self.subscriptions.borrow_mut().deliver(message);
        waiters.into_iter().for_each(|waiter| self.wake(waiter));
    }

    /// Ends subscriptions whose tasks have ended.
    pub(crate) fn end_subscriptions(&self, numbers: &[u64]) {
        if !numbers.is_empty() {
            let mut subscriptions = self.subscriptions.borrow_mut();
            numbers.iter().for_each(|&number| subscriptions.remove(number));
        }
    }

    /// Notifies handlers and work that they should end: tasks that wait for that are woken. The
    /// stop of the server has precedence over a reload of the script.
    pub(crate) fn announce_end(&self, ending: EndingReason) {
        if self.ending.get() != Some(EndingReason::Stopping) {
            self.ending.set(Some(ending));
        }
        let waiting = self.tasks.borrow().wakeable();
        waiting.into_iter().for_each(|id| self.wake(id));
    }

    /// Begins a subscription of the running task.
    fn subscribe(&self, channel: &str) -> std::result::Result<u64, String> {
        let mut tasks = self.tasks.borrow_mut();
        let Some(task) = tasks.get(self.work.current.get()) else {
            return Err(
                "a subscription belongs to a handler or to background work; while the main \
                        script starts, use pinion.on"
                    .to_owned(),
            );
        };
        if task.subscriptions.len() >= SUBSCRIPTIONS_PER_TASK_MAX {
            return Err(format!(
                "a handler has at most {SUBSCRIPTIONS_PER_TASK_MAX} subscriptions; close one with \
                 subscription:close()"
            ));
        }
        let number = self.subscriptions.borrow_mut().add(channel);
        task.subscriptions.push(number);
        Ok(number)
    }

    /// Ends a subscription of any task.
    fn unsubscribe(&self, number: u64) {
        self.subscriptions.borrow_mut().remove(number);
        let mut tasks = self.tasks.borrow_mut();
        if let Some(task) = tasks.get(self.work.current.get()) {
            task.subscriptions.retain(|&own| own != number);
        }
    }

    /// Takes the next message. Returns whether the subscription is open, whether there was a
    /// message, the message, and how many were lost before it. Without a message the running task
    /// is woken by the next one.
    fn next_message(&self, lua: &Lua, number: u64) -> Result<(bool, bool, Value, u64)> {
        let mut subscriptions = self.subscriptions.borrow_mut();
        let Some(subscription) = subscriptions.all.get_mut(&number) else {
            return Ok((false, false, Value::Nil, 0));
        };
        let Some(message) = subscription.queue.front() else {
            subscription.waiter = Some(self.work.current.get());
            return Ok((true, false, Value::Nil, 0));
        };
        // If memory for the value runs out, the message stays.
        let value = message.value.to_lua(lua)?;
        subscription.take();
        subscription.waiter = None;
        Ok((true, true, value, std::mem::take(&mut subscription.lost)))
    }
}

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let ending = move |_: &Lua, ()| Ok(of.ending.get().map(EndingReason::name));
    table.raw_set("ending", lua.create_function(ending)?)?;
    let of = Rc::clone(host);
    let subscribe = move |_: &Lua, channel: LuaString| -> Result<Outcome<u64>> {
        Ok(or_why(of.subscribe(&channel.to_string_lossy())))
    };
    table.raw_set("subscribe", lua.create_function(subscribe)?)?;
    let of = Rc::clone(host);
    let unsubscribe = move |_: &Lua, number: u64| {
        of.unsubscribe(number);
        Ok(())
    };
    table.raw_set("unsubscribe", lua.create_function(unsubscribe)?)?;
    let of = Rc::clone(host);
    let next = move |lua: &Lua, number: u64| of.next_message(lua, number);
    table.raw_set("next_message", lua.create_function(next)?)?;
    let chunk = lua.load(include_str!("../subscriptions.lua")).set_name("=pinion");
    table.raw_set("subscriptions", chunk.into_function()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copied_value::CopiedValue;
    use pinion_jobs::byte_quota::ByteQuota;

    fn message(channel: &str, bytes: usize) -> Arc<ChannelMessage> {
        let reservation = Arc::new(ByteQuota::default()).reserve(bytes);
        let value = CopiedValue::Bytes(vec![b'x'; bytes]);
        Arc::new(ChannelMessage { channel: channel.into(), value, _reservation: reservation })
    }

    /// Whatever comes, a queue is within its bounds, or one message, and none goes uncounted.
    #[test]
    fn an_event_queue_is_bounded_and_counts_lost_messages() {
        for bytes in [1, 1000, SUBSCRIPTION_QUEUE_MAX_BYTES / 3, SUBSCRIPTION_QUEUE_MAX_BYTES + 1] {
            let mut subscriptions = Subscriptions::default();
            let number = subscriptions.add("a");
            let other = subscriptions.add("b");
            let sent = SUBSCRIPTION_QUEUE_MAX + 50;
            for _ in 0..sent {
                assert!(subscriptions.deliver(&message("a", bytes)).is_empty());
                let one = subscriptions.all.get(&number).expect("it is open");
                assert!(one.queue.len() <= SUBSCRIPTION_QUEUE_MAX);
                assert!(one.bytes <= SUBSCRIPTION_QUEUE_MAX_BYTES || one.queue.len() == 1);
            }
            let one = subscriptions.all.get_mut(&number).expect("it is open");
            assert_eq!(one.queue.len() as u64 + one.lost, sent as u64, "{bytes}");
            while one.take().is_some() {}
            assert_eq!(one.bytes, 0);
            assert!(subscriptions.all.get(&other).is_some_and(|other| other.queue.is_empty()));
            subscriptions.remove(number);
            subscriptions.remove(number);
            assert_eq!(subscriptions.channels.len(), 1);
            subscriptions.remove(other);
            assert!(subscriptions.channels.is_empty() && subscriptions.all.is_empty());
        }
    }
}

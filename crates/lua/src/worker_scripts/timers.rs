//! The timers of a worker: tasks that sleep or may take too long, and schedules.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::rc::Rc;

use crate::limits::TIMERS_MIN;
use crate::task::TaskId;
use crate::vm::Vm;

/// The timers of a worker. Each keeps its VM alive until it is due or dropped.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    /// The number of timers at which timers of ended tasks are searched for.
    search_at: usize,
    /// The number of timers that there ever were: of two timers for the same time the earlier one
    /// fires first.
    count: u64,
}

/// An event that is due at a time.
struct Timer {
    at_ms: u64,
    number: u64,
    vm: Rc<Vm>,
    event: TimerEvent,
}

/// The event of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerEvent {
    /// A task has slept long enough, or taken too long.
    Task(TaskId),
    /// A schedule is due. The number is its rank in the script.
    Schedule(usize),
}

impl TimerEvent {
    fn is_schedule(self) -> bool {
        matches!(self, Self::Schedule(_))
    }
}

impl Timers {
    /// Adds a timer for an event of a VM, at a time in monotonic milliseconds.
    pub(super) fn add(&mut self, at_ms: u64, vm: &Rc<Vm>, event: TimerEvent) {
        if self.heap.len() >= self.search_at.max(TIMERS_MIN) {
            self.drop_timers_of_ended_tasks();
            self.search_at = self.heap.len() * 2;
        }
        self.count += 1;
        let (vm, number) = (Rc::clone(vm), self.count);
        self.heap.push(Reverse(Timer { at_ms, number, vm, event }));
    }

    /// Returns when the next timer is due, in monotonic milliseconds.
    #[inline]
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(timer)| timer.at_ms)
    }

    /// Removes the next timer if it is due, and returns its VM and its event.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<(Rc<Vm>, TimerEvent)> {
        if self.next_ms()? > now_ms {
            return None;
        }
        let Reverse(Timer { vm, event, .. }) = self.heap.pop()?;
        Some((vm, event))
    }

    /// Drops all timers of a VM.
    pub(super) fn drop_timers_of(&mut self, vm: &Rc<Vm>) {
        self.heap.retain(|Reverse(timer)| !Rc::ptr_eq(&timer.vm, vm));
    }

    /// Drops the schedules of a VM.
    pub(super) fn drop_schedules_of(&mut self, vm: &Rc<Vm>) {
        let is_one = |timer: &Timer| Rc::ptr_eq(&timer.vm, vm) && timer.event.is_schedule();
        self.heap.retain(|Reverse(timer)| !is_one(timer));
    }

    /// Drops the schedules of all VMs.
    pub(super) fn drop_schedules(&mut self) {
        self.heap.retain(|Reverse(timer)| !timer.event.is_schedule());
    }

    /// Returns the number of timers of tasks and of schedules.
    #[cfg(feature = "sim")]
    pub(super) fn counts(&self) -> (usize, usize) {
        let schedules = self.heap.iter().filter(|Reverse(timer)| timer.event.is_schedule()).count();
        (self.heap.len() - schedules, schedules)
    }

    fn drop_timers_of_ended_tasks(&mut self) {
        self.heap.retain(|Reverse(timer)| match timer.event {
            TimerEvent::Task(id) => timer.vm.tasks().get(id).is_some(),
            TimerEvent::Schedule(_) => true,
        });
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timer {}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ms, self.number).cmp(&(other.at_ms, other.number))
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_watchdog::CpuWatchdogs;
    use crate::shared_site_state::WorkerSite;
    use crate::site_program::SiteProgram;
    use pinion_engine::clock::Now;

    #[test]
    fn timers_of_ended_tasks_are_removed() {
        let mut watchdog = CpuWatchdogs::new(1).watchdog(0).expect("watched");
        let program = SiteProgram::new("site.lua", Vec::new());
        let started = Vm::start(&program, &mut watchdog, WorkerSite::default(), Now::read());
        let vm = Rc::new(started.expect("started"));
        let mut timers = Timers::default();
        let live = vm.tasks().begin_without_exchange().expect("a slot");
        timers.add(1, &vm, TimerEvent::Task(live));
        for at_ms in 0..100_000 {
            let id = vm.tasks().begin_without_exchange().expect("a slot");
            timers.add(600_000 + at_ms, &vm, TimerEvent::Task(id));
            vm.host().end(id);
        }
        assert!(timers.heap.len() <= 2 * TIMERS_MIN, "{}", timers.heap.len());
        timers.drop_timers_of_ended_tasks();
        assert_eq!((timers.heap.len(), timers.next_ms()), (1, Some(1)));
        assert_eq!(Rc::strong_count(&vm), 2);
        assert!(timers.pop_due(0).is_none());
        assert_eq!(timers.pop_due(1).map(|(_, event)| event), Some(TimerEvent::Task(live)));
    }
}

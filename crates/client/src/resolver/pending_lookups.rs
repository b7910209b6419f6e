//! Names that are being looked up, and the callers that wait for them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pinion_jobs::async_thread::TaskGuard;

use super::name_cache::{FamilyAnswer, NameAnswers};
use super::{ResolveCallback, ResolveError, Resolved};
use crate::connect_target::HostName;
use crate::happy_eyeballs::AddressFamily;

/// The known answers for a name: IPv4, IPv6.
pub(super) type KnownAnswers = [Option<FamilyAnswer>; 2];

const FAMILIES: [AddressFamily; 2] = [AddressFamily::Ipv4, AddressFamily::Ipv6];

/// A caller that waits for a name. Each family is reported once; if the caller is dropped before,
/// as [`ResolveError::Stopped`].
pub(super) struct LookupWaiter {
    name: HostName,
    callback: ResolveCallback,
    /// Whether a family was reported, in the order of [`KnownAnswers`].
    is_reported: [bool; 2],
}

impl LookupWaiter {
    pub(super) fn new(name: &HostName, callback: ResolveCallback) -> Self {
        Self { name: name.clone(), callback, is_reported: [false; 2] }
    }

    /// Reports the known answers that were not reported yet.
    pub(super) fn deliver(&mut self, answers: &KnownAnswers) {
        for (family, answer) in FAMILIES.into_iter().zip(answers) {
            if let Some(answer) = answer {
                let resolved = |addresses: &Vec<_>| Resolved {
                    addresses: addresses.clone(),
                    ttl_seconds: answer.ttl_seconds,
                };
                let result = answer.result.as_ref().map(resolved).map_err(Clone::clone);
                self.report(family, result);
            }
        }
    }

    pub(super) fn deliver_all(&mut self, answers: &NameAnswers) {
        self.deliver(&[Some(answers.ipv4.clone()), Some(answers.ipv6.clone())]);
    }

    /// Reports an error for each family that was not reported yet.
    pub(super) fn fail(&mut self, error: &ResolveError) {
        FAMILIES.into_iter().for_each(|family| self.report(family, Err(error.clone())));
    }

    fn report(&mut self, family: AddressFamily, result: Result<Resolved, ResolveError>) {
        let [ipv4, ipv6] = &mut self.is_reported;
        let is_reported = if family == AddressFamily::Ipv4 { ipv4 } else { ipv6 };
        if !std::mem::replace(is_reported, true) {
            // A callback that panics has printed its message; the others are called all the same.
            let _ = catch_unwind(AssertUnwindSafe(|| (self.callback)(family, result)));
        }
    }
}

impl Drop for LookupWaiter {
    fn drop(&mut self) {
        if self.is_reported != [true; 2] {
            self.fail(&ResolveError::Stopped(self.name.to_string()));
        }
    }
}

/// All names that are being looked up.
#[derive(Default)]
pub(super) struct PendingLookups {
    names: HashMap<HostName, PendingName>,
    /// The number of callers that wait for any of the names.
    waiters: usize,
    /// The number of names that have been looked up.
    lookups: u64,
}

#[derive(Default)]
struct PendingName {
    answers: KnownAnswers,
    waiters: Vec<LookupWaiter>,
    /// The number of all callers that have come, including those that are taken out at the moment.
    count: usize,
    /// The number of the lookup.
    lookup: u64,
    /// The guard that cancels the lookup when the name is removed.
    guard: Option<TaskGuard>,
}

impl PendingLookups {
    pub(super) fn contains(&self, name: &HostName) -> bool {
        self.names.contains_key(name)
    }

    pub(super) fn names(&self) -> usize {
        self.names.len()
    }

    pub(super) fn waiters(&self) -> usize {
        self.waiters
    }

    /// Adds a caller, and returns the number of the lookup that it waits for. Known answers are
    /// reported to it with the next answer.
    pub(super) fn add(&mut self, name: &HostName, waiter: LookupWaiter) -> u64 {
        let pending = self.names.entry(name.clone()).or_insert_with(|| {
            self.lookups += 1;
            PendingName { lookup: self.lookups, ..PendingName::default() }
        });
        pending.waiters.push(waiter);
        pending.count += 1;
        self.waiters += 1;
        pending.lookup
    }

    /// Keeps the guard of a lookup until its name is removed. The guard of a lookup that is over,
    /// after which another one for the same name may have begun, is dropped.
    pub(super) fn set_guard(&mut self, name: &HostName, lookup: u64, guard: TaskGuard) {
        if let Some(pending) = self.names.get_mut(name)
            && pending.lookup == lookup
        {
            pending.guard = Some(guard);
        }
    }

    /// Notes the answer of a family, and takes the callers out, so that they are called without the
    /// lock.
    pub(super) fn take_waiters(
        &mut self,
        name: &HostName,
        family: AddressFamily,
        answer: &FamilyAnswer,
    ) -> Option<(Vec<LookupWaiter>, KnownAnswers)> {
        let pending = self.names.get_mut(name)?;
        let [ipv4, ipv6] = &mut pending.answers;
        let known = if family == AddressFamily::Ipv4 { ipv4 } else { ipv6 };
        *known = Some(answer.clone());
        Some((std::mem::take(&mut pending.waiters), pending.answers.clone()))
    }

    /// Puts callers back that were taken out.
    pub(super) fn put_waiters(&mut self, name: &HostName, mut waiters: Vec<LookupWaiter>) {
        if let Some(pending) = self.names.get_mut(name) {
            pending.waiters.append(&mut waiters);
        }
    }

    /// Removes a name, with its callers and the known answers.
    pub(super) fn remove(&mut self, name: &HostName) -> Option<(Vec<LookupWaiter>, KnownAnswers)> {
        let pending = self.names.remove(name)?;
        self.waiters -= pending.count;
        Some((pending.waiters, pending.answers))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text).expect(text)
    }

    /// All that have come are counted until their name is removed, also while they are taken out.
    #[test]
    fn callers_are_counted_until_their_name_is_removed() {
        let mut pending = PendingLookups::default();
        let (sender, receiver) = channel();
        for text in ["a.example", "a.example", "b.example", "a.example"] {
            let sender = sender.clone();
            let callback = move |family, result: Result<_, _>| {
                sender.send((family, result.is_ok())).expect("open");
            };
            pending.add(&name(text), LookupWaiter::new(&name(text), Box::new(callback)));
        }
        assert_eq!((pending.names(), pending.waiters()), (2, 4));
        let answer = FamilyAnswer { result: Ok(Vec::new()), ttl_seconds: 1 };
        let taken = pending.take_waiters(&name("a.example"), AddressFamily::Ipv6, &answer);
        let (mut waiters, answers) = taken.expect("a name");
        assert_eq!((waiters.len(), pending.waiters()), (3, 4));
        waiters.iter_mut().for_each(|waiter| waiter.deliver(&answers));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [(AddressFamily::Ipv6, true); 3]);
        pending.put_waiters(&name("a.example"), waiters);
        let (waiters, answers) = pending.remove(&name("a.example")).expect("a name");
        assert_eq!((pending.names(), pending.waiters()), (1, 1));
        assert!(matches!(answers, [None, Some(_)]));
        drop(waiters);
        let stopped: Vec<_> = receiver.try_iter().collect();
        assert_eq!(stopped, [(AddressFamily::Ipv4, false); 3], "only what was not reported");
        assert!(pending.remove(&name("a.example")).is_none());
        drop(pending);
        assert_eq!(receiver.try_iter().count(), 2, "both families of the other name");
    }
}

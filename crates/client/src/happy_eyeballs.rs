//! Happy Eyeballs (RFC 8305): connects to the first address of a name that responds, over IPv6 or
//! IPv4, without a long wait for one that does not.
//!
//! This is a state machine: results of name resolution and of connections go in, with the time in
//! milliseconds; [`ConnectAction`]s come out. It does not open connections itself.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;

use crate::address_order::AddressRank;
use crate::limits::{
    ADDRESSES_PER_FAMILY_MAX, ATTEMPT_DELAY_MS, CONNECT_TIMEOUT_MS, RESOLUTION_DELAY_MS,
};

/// A family of addresses. Each needs a DNS query of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressFamily {
    /// A records (RFC 1035 §3.4.1).
    Ipv4,
    /// AAAA records (RFC 3596 §2.1).
    Ipv6,
}

impl AddressFamily {
    /// Returns the family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::Ipv4 } else { Self::Ipv6 }
    }

    fn other(self) -> Self {
        match self {
            Self::Ipv4 => Self::Ipv6,
            Self::Ipv6 => Self::Ipv4,
        }
    }
}

impl fmt::Display for AddressFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

/// The times of a [`HappyEyeballs`], in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectTimes {
    /// The delay until the next attempt; see [`ATTEMPT_DELAY_MS`].
    pub attempt_delay_ms: u64,
    /// The wait of IPv4 addresses for IPv6 ones; see [`RESOLUTION_DELAY_MS`].
    pub resolution_delay_ms: u64,
    /// The time for all attempts; see [`CONNECT_TIMEOUT_MS`].
    pub timeout_ms: u64,
}

impl Default for ConnectTimes {
    fn default() -> Self {
        Self {
            attempt_delay_ms: ATTEMPT_DELAY_MS,
            resolution_delay_ms: RESOLUTION_DELAY_MS,
            timeout_ms: CONNECT_TIMEOUT_MS,
        }
    }
}

/// The next action of the caller. An index identifies an address: [`HappyEyeballs::address`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectAction<E> {
    /// Opens a connection to this address, and reports its end by [`HappyEyeballs::connected`] or
    /// [`HappyEyeballs::failed`].
    Connect(usize),
    /// Cancels this attempt. Reports about it are ignored from now on.
    Cancel(usize),
    /// Calls [`HappyEyeballs::tick`] at this time. It replaces the earlier time.
    WaitUntil(u64),
    /// This attempt is the connection. No action follows.
    Won(usize),
    /// There is no connection. No action follows.
    Failed(ConnectFailure<E>),
}

/// The reasons why no connection was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectFailure<E> {
    /// The addresses that were tried and have failed, in the order of their failures.
    pub attempts: Vec<(IpAddr, E)>,
    /// The families whose resolution has failed.
    pub resolution: Vec<(AddressFamily, E)>,
    /// The time limit of all attempts in milliseconds, if it has passed.
    pub timeout_ms: Option<u64>,
}

impl<E: fmt::Display> fmt::Display for ConnectFailure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (address, error) in &self.attempts {
            write!(f, "{separator}{address}: {error}")?;
            separator = "; ";
        }
        // Both queries usually fail for the same reason.
        let mut last = None;
        for (_, error) in &self.resolution {
            let text = error.to_string();
            if last.as_ref() != Some(&text) {
                write!(f, "{separator}{text}")?;
                separator = "; ";
            }
            last = Some(text);
        }
        match self.timeout_ms {
            Some(timeout_ms) => write!(f, "{separator}no connection within {timeout_ms} ms"),
            None if separator.is_empty() => f.write_str("the name has no addresses"),
            None => Ok(()),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for ConnectFailure<E> {}

/// The attempts to connect to one name, as a state machine without I/O.
#[derive(Debug)]
pub struct HappyEyeballs<E> {
    times: ConnectTimes,
    deadline_ms: u64,
    ipv4: FamilyState,
    ipv6: FamilyState,
    addresses: Vec<IpAddr>,
    in_flight: Vec<usize>,
    /// The family of the last attempt.
    last_family: Option<AddressFamily>,
    /// The time at which the next attempt may begin. There is none before addresses are known.
    next_attempt_ms: Option<u64>,
    failure: ConnectFailure<E>,
    actions: VecDeque<ConnectAction<E>>,
    /// The last time for which the caller was asked to wait.
    wait_ms: Option<u64>,
    has_ended: bool,
}

/// The addresses of one family.
#[derive(Debug, Default)]
struct FamilyState {
    is_resolved: bool,
    /// Indexes of the addresses that were not tried yet, the best one first.
    untried: VecDeque<usize>,
}

impl<E> HappyEyeballs<E> {
    /// Begins to connect to a name whose addresses are looked up.
    #[must_use]
    pub fn new(times: ConnectTimes, now_ms: u64) -> Self {
        let mut eyeballs = Self::without_addresses(times, now_ms);
        eyeballs.proceed(now_ms);
        eyeballs
    }

    /// Begins to connect to one of several known addresses, such as that of a URL.
    #[must_use]
    pub fn with_addresses(times: ConnectTimes, addresses: &[IpAddr], now_ms: u64) -> Self {
        let mut eyeballs = Self::without_addresses(times, now_ms);
        eyeballs.add(AddressFamily::Ipv6, addresses);
        eyeballs.add(AddressFamily::Ipv4, addresses);
        eyeballs.proceed(now_ms);
        eyeballs
    }

    fn without_addresses(times: ConnectTimes, now_ms: u64) -> Self {
        let failure =
            ConnectFailure { attempts: Vec::new(), resolution: Vec::new(), timeout_ms: None };
        Self {
            times,
            deadline_ms: now_ms.saturating_add(times.timeout_ms),
            ipv4: FamilyState::default(),
            ipv6: FamilyState::default(),
            addresses: Vec::new(),
            in_flight: Vec::new(),
            last_family: None,
            next_attempt_ms: None,
            failure,
            actions: VecDeque::new(),
            wait_ms: None,
            has_ended: false,
        }
    }

    /// Returns the address with an index of an action.
    #[must_use]
    pub fn address(&self, index: usize) -> Option<IpAddr> {
        self.addresses.get(index).copied()
    }

    /// Returns the next action. The caller takes actions until there are none, after each call of
    /// another function.
    pub fn next_action(&mut self) -> Option<ConnectAction<E>> {
        self.actions.pop_front()
    }

    /// Takes the result of the lookup of one family. Only the first result of a family counts;
    /// addresses of another family and those above [`ADDRESSES_PER_FAMILY_MAX`] are left out.
    pub fn resolved(&mut self, family: AddressFamily, result: Result<&[IpAddr], E>, now_ms: u64) {
        if self.has_ended || self.family(family).is_resolved {
            return;
        }
        match result {
            Ok(addresses) => self.add(family, addresses),
            Err(error) => {
                self.family_mut(family).is_resolved = true;
                self.failure.resolution.push((family, error));
            }
        }
        self.proceed(now_ms);
    }

    /// Notes that the attempt with this index has become a connection. The others are cancelled.
    pub fn connected(&mut self, index: usize, now_ms: u64) {
        if !self.take_in_flight(index) {
            return;
        }
        self.cancel_all();
        self.end(ConnectAction::Won(index));
        self.proceed(now_ms);
    }

    /// Notes that the attempt with this index has failed. The next address is tried at once.
    pub fn failed(&mut self, index: usize, error: E, now_ms: u64) {
        if !self.take_in_flight(index) {
            return;
        }
        if let Some(address) = self.address(index) {
            self.failure.attempts.push((address, error));
        }
        self.next_attempt_ms = Some(now_ms);
        self.proceed(now_ms);
    }

    /// Does the steps that are due at this time.
    pub fn tick(&mut self, now_ms: u64) {
        // The awaited time has passed, so it is requested again if it still counts.
        if self.wait_ms.is_some_and(|wait_ms| wait_ms <= now_ms) {
            self.wait_ms = None;
        }
        self.proceed(now_ms);
    }

    /// Ends all attempts because the connection is not wanted any more. There is no result.
    pub fn abort(&mut self) {
        if !self.has_ended {
            self.cancel_all();
            self.has_ended = true;
        }
    }

    fn family(&self, family: AddressFamily) -> &FamilyState {
        match family {
            AddressFamily::Ipv4 => &self.ipv4,
            AddressFamily::Ipv6 => &self.ipv6,
        }
    }

    fn family_mut(&mut self, family: AddressFamily) -> &mut FamilyState {
        match family {
            AddressFamily::Ipv4 => &mut self.ipv4,
            AddressFamily::Ipv6 => &mut self.ipv6,
        }
    }

    /// Adds the addresses of a family, each once, in the order of RFC 6724.
    fn add(&mut self, family: AddressFamily, addresses: &[IpAddr]) {
        let mut sorted: Vec<IpAddr> = Vec::new();
        for address in addresses.iter().filter(|ip| AddressFamily::of(**ip) == family) {
            if sorted.len() < ADDRESSES_PER_FAMILY_MAX && !sorted.contains(address) {
                sorted.push(*address);
            }
        }
        sorted.sort_by_key(|address| AddressRank::of(*address));
        let first = self.addresses.len();
        let untried = (first..first + sorted.len()).collect();
        self.addresses.extend(sorted);
        *self.family_mut(family) = FamilyState { is_resolved: true, untried };
    }

    fn take_in_flight(&mut self, index: usize) -> bool {
        let position = self.in_flight.iter().position(|in_flight| *in_flight == index);
        position.map(|position| self.in_flight.remove(position)).is_some()
    }

    fn cancel_all(&mut self) {
        self.actions.extend(self.in_flight.drain(..).map(ConnectAction::Cancel));
    }

    fn end(&mut self, result: ConnectAction<E>) {
        debug_assert!(self.in_flight.is_empty(), "each attempt ends before the result");
        self.actions.push_back(result);
        self.has_ended = true;
    }

    fn fail(&mut self) {
        self.cancel_all();
        let none =
            ConnectFailure { attempts: Vec::new(), resolution: Vec::new(), timeout_ms: None };
        let failure = std::mem::replace(&mut self.failure, none);
        self.end(ConnectAction::Failed(failure));
    }

    /// Begins the attempts that are due, or ends, and sets the time to wait for.
    fn proceed(&mut self, now_ms: u64) {
        if self.has_ended {
            return;
        }
        if now_ms >= self.deadline_ms {
            self.failure.timeout_ms = Some(self.times.timeout_ms);
            return self.fail();
        }
        if self.next_attempt_ms.is_none() {
            self.next_attempt_ms = self.first_attempt_ms(now_ms);
        }
        if let Some(index) = self.due_attempt(now_ms) {
            self.in_flight.push(index);
            self.next_attempt_ms = Some(now_ms.saturating_add(self.times.attempt_delay_ms));
            self.actions.push_back(ConnectAction::Connect(index));
        }
        let are_resolved = self.ipv4.is_resolved && self.ipv6.is_resolved;
        if are_resolved && self.in_flight.is_empty() {
            debug_assert!(!self.has_untried(), "without attempts the next one is due");
            return self.fail();
        }
        let next_attempt_ms = self.next_attempt_ms.filter(|_| self.has_untried());
        let wait_ms = next_attempt_ms.map_or(self.deadline_ms, |ms| ms.min(self.deadline_ms));
        if self.wait_ms != Some(wait_ms) {
            self.wait_ms = Some(wait_ms);
            self.actions.push_back(ConnectAction::WaitUntil(wait_ms));
        }
    }

    /// Returns when the first attempt begins, if there is an address: at once if it may be over
    /// IPv6, else after the Resolution Delay, unless there are no IPv6 addresses (RFC 8305 §3).
    fn first_attempt_ms(&self, now_ms: u64) -> Option<u64> {
        if self.ipv6.is_resolved {
            return self.has_untried().then_some(now_ms);
        }
        let delayed_ms = now_ms.saturating_add(self.times.resolution_delay_ms);
        self.has_untried().then_some(delayed_ms)
    }

    fn has_untried(&self) -> bool {
        !self.ipv4.untried.is_empty() || !self.ipv6.untried.is_empty()
    }

    /// Takes the next address if its time has come.
    fn due_attempt(&mut self, now_ms: u64) -> Option<usize> {
        let is_first = self.last_family.is_none();
        let may_wait = if is_first { !self.ipv6.is_resolved } else { !self.in_flight.is_empty() };
        if may_wait && self.next_attempt_ms.is_none_or(|next_ms| now_ms < next_ms) {
            return None;
        }
        let family = self.next_family()?;
        let index = self.family_mut(family).untried.pop_front()?;
        self.last_family = Some(family);
        Some(index)
    }

    /// Returns the family of the next address: families alternate (RFC 8305 §4), and the first one
    /// is that of the best address.
    fn next_family(&self) -> Option<AddressFamily> {
        let best = |family: AddressFamily| {
            let index = *self.family(family).untried.front()?;
            self.address(index).map(AddressRank::of)
        };
        let preferred = match self.last_family {
            Some(last) => last.other(),
            None => match (best(AddressFamily::Ipv4), best(AddressFamily::Ipv6)) {
                (Some(ipv4), Some(ipv6)) if ipv4 < ipv6 => AddressFamily::Ipv4,
                _ => AddressFamily::Ipv6,
            },
        };
        let candidates = [preferred, preferred.other()];
        candidates.into_iter().find(|family| !self.family(*family).untried.is_empty())
    }
}

#[cfg(test)]
mod tests;

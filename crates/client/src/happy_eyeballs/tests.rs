//! Tests of connections in virtual time: the attempts and their times, and the end of each run.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::AddressFamily::{Ipv4, Ipv6};
use super::ConnectAction::*;
use super::*;

const TIMES: ConnectTimes =
    ConnectTimes { attempt_delay_ms: 250, resolution_delay_ms: 50, timeout_ms: 10_000 };

type Eyeballs = HappyEyeballs<&'static str>;

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect(text)).collect()
}

/// Takes all actions, with the addresses in place of their indexes.
fn actions(eyeballs: &mut Eyeballs) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(action) = eyeballs.next_action() {
        let address = |index| eyeballs.address(index).expect("an address");
        texts.push(match action {
            Connect(index) => format!("connect {}", address(index)),
            Cancel(index) => format!("cancel {}", address(index)),
            WaitUntil(ms) => format!("wait {ms}"),
            Won(index) => format!("won {}", address(index)),
            Failed(failure) => format!("failed: {failure}"),
        });
    }
    texts
}

fn index(eyeballs: &Eyeballs, text: &str) -> usize {
    let address: IpAddr = text.parse().expect(text);
    eyeballs.addresses.iter().position(|known| *known == address).expect(text)
}

#[test]
fn ipv6_is_tried_at_once_and_ipv4_after_the_delay() {
    let mut eyeballs = Eyeballs::new(TIMES, 1000);
    assert_eq!(actions(&mut eyeballs), ["wait 11000"]);
    eyeballs.resolved(Ipv6, Ok(&ips(&["2001:db8::1"])), 1010);
    assert_eq!(actions(&mut eyeballs), ["connect 2001:db8::1"]);
    eyeballs.resolved(Ipv4, Ok(&ips(&["192.0.2.1"])), 1020);
    assert_eq!(actions(&mut eyeballs), ["wait 1260"]);
    eyeballs.tick(1259);
    assert_eq!(actions(&mut eyeballs), [""; 0]);
    eyeballs.tick(1260);
    assert_eq!(actions(&mut eyeballs), ["connect 192.0.2.1", "wait 11000"]);
    eyeballs.connected(index(&eyeballs, "192.0.2.1"), 1300);
    assert_eq!(actions(&mut eyeballs), ["cancel 2001:db8::1", "won 192.0.2.1"]);
    // Late events change nothing.
    eyeballs.connected(index(&eyeballs, "2001:db8::1"), 1301);
    eyeballs.tick(99_999);
    assert_eq!(actions(&mut eyeballs), [""; 0]);
}

/// RFC 8305 §3: IPv4 waits for the Resolution Delay, and no longer.
#[test]
fn ipv4_waits_for_the_resolution_of_ipv6() {
    let mut late = Eyeballs::new(TIMES, 0);
    actions(&mut late);
    late.resolved(Ipv4, Ok(&ips(&["192.0.2.1"])), 10);
    assert_eq!(actions(&mut late), ["wait 60"]);
    late.tick(60);
    assert_eq!(actions(&mut late), ["connect 192.0.2.1", "wait 10000"]);
    late.resolved(Ipv6, Ok(&ips(&["2001:db8::1"])), 100);
    assert_eq!(actions(&mut late), ["wait 310"], "the delay counts from the first attempt");
    late.tick(310);
    assert_eq!(actions(&mut late), ["connect 2001:db8::1", "wait 10000"]);

    let mut in_time = Eyeballs::new(TIMES, 0);
    in_time.resolved(Ipv4, Ok(&ips(&["192.0.2.1"])), 10);
    actions(&mut in_time);
    in_time.resolved(Ipv6, Ok(&ips(&["2001:db8::1"])), 59);
    assert_eq!(actions(&mut in_time), ["connect 2001:db8::1", "wait 309"]);

    for without in [Ok(&[][..]), Err("no answer")] {
        let mut alone = Eyeballs::new(TIMES, 0);
        alone.resolved(Ipv4, Ok(&ips(&["192.0.2.1"])), 10);
        actions(&mut alone);
        alone.resolved(Ipv6, without, 20);
        assert_eq!(actions(&mut alone), ["connect 192.0.2.1", "wait 10000"], "nothing to wait for");
    }
}

#[test]
fn a_failure_tries_the_next_address_at_once() {
    let addresses = ips(&["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"]);
    let mut eyeballs = Eyeballs::with_addresses(TIMES, &addresses, 0);
    assert_eq!(actions(&mut eyeballs), ["connect 2001:db8::1", "wait 250"]);
    eyeballs.failed(index(&eyeballs, "2001:db8::1"), "refused", 5);
    assert_eq!(actions(&mut eyeballs), ["connect 192.0.2.1", "wait 255"]);
    eyeballs.tick(255);
    assert_eq!(actions(&mut eyeballs), ["connect 2001:db8::2", "wait 505"]);
    eyeballs.failed(index(&eyeballs, "192.0.2.1"), "unreachable", 300);
    assert_eq!(actions(&mut eyeballs), ["connect 192.0.2.2", "wait 10000"]);
    eyeballs.failed(index(&eyeballs, "192.0.2.2"), "refused", 301);
    assert_eq!(actions(&mut eyeballs), [""; 0]);
    eyeballs.failed(index(&eyeballs, "2001:db8::2"), "refused", 302);
    let failed = "failed: 2001:db8::1: refused; 192.0.2.1: unreachable; 192.0.2.2: refused; \
                  2001:db8::2: refused";
    assert_eq!(actions(&mut eyeballs), [failed]);
}

/// RFC 6724 §6, rule 6: a unique local address has a lower precedence than IPv4.
#[test]
fn the_best_address_comes_first() {
    let addresses = ips(&["fd00::1", "192.0.2.1", "2001::1"]);
    let mut eyeballs = Eyeballs::with_addresses(TIMES, &addresses, 0);
    assert_eq!(actions(&mut eyeballs), ["connect 192.0.2.1", "wait 250"]);
    eyeballs.tick(250);
    assert_eq!(actions(&mut eyeballs), ["connect 2001::1", "wait 500"]);
    eyeballs.tick(500);
    assert_eq!(actions(&mut eyeballs), ["connect fd00::1", "wait 10000"]);
}

#[test]
fn the_timeout_ends_resolution_and_attempts() {
    let mut silent = Eyeballs::new(TIMES, 0);
    actions(&mut silent);
    silent.tick(10_000);
    assert_eq!(actions(&mut silent), ["failed: no connection within 10000 ms"]);

    let mut slow = Eyeballs::with_addresses(TIMES, &ips(&["192.0.2.1"]), 0);
    assert_eq!(actions(&mut slow), ["connect 192.0.2.1", "wait 10000"]);
    slow.tick(10_001);
    let failed = "failed: no connection within 10000 ms";
    assert_eq!(actions(&mut slow), ["cancel 192.0.2.1", failed]);

    let at_once = ConnectTimes { timeout_ms: 0, ..TIMES };
    let mut none = Eyeballs::with_addresses(at_once, &ips(&["192.0.2.1"]), 0);
    assert_eq!(actions(&mut none), ["failed: no connection within 0 ms"]);
}

#[test]
fn failures_of_resolution_are_named_once() {
    let mut eyeballs = Eyeballs::new(TIMES, 0);
    eyeballs.resolved(Ipv6, Err("no such name"), 1);
    eyeballs.resolved(Ipv4, Err("no such name"), 2);
    assert_eq!(actions(&mut eyeballs), ["wait 10000", "failed: no such name"]);
    let mut half = Eyeballs::new(TIMES, 0);
    half.resolved(Ipv6, Err("server failure"), 1);
    half.resolved(Ipv4, Ok(&[]), 2);
    assert_eq!(actions(&mut half), ["wait 10000", "failed: server failure"]);
    let mut none = Eyeballs::with_addresses(TIMES, &[], 0);
    assert_eq!(actions(&mut none), ["failed: the name has no addresses"]);
}

#[test]
fn abort_cancels_all_and_has_no_result() {
    let addresses = ips(&["192.0.2.1", "2001:db8::1"]);
    let mut eyeballs = Eyeballs::with_addresses(TIMES, &addresses, 0);
    eyeballs.tick(250);
    actions(&mut eyeballs);
    eyeballs.abort();
    assert_eq!(actions(&mut eyeballs), ["cancel 2001:db8::1", "cancel 192.0.2.1"]);
    eyeballs.abort();
    eyeballs.tick(99_999);
    assert_eq!(actions(&mut eyeballs), [""; 0]);
}

#[test]
fn only_the_first_of_many_addresses_are_tried() {
    let many: Vec<IpAddr> = (0..99).map(|last| IpAddr::from([192, 0, 2, last])).collect();
    let twice: Vec<IpAddr> = many.iter().flat_map(|address| [*address, *address]).collect();
    let eyeballs = Eyeballs::with_addresses(TIMES, &twice, 0);
    assert_eq!(eyeballs.addresses, many[..ADDRESSES_PER_FAMILY_MAX]);
}

/// How the network treats the attempts to an address.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Connects { after_ms: u64 },
    Refuses { after_ms: u64 },
    Silent,
}

#[derive(Clone, Debug)]
struct Answer {
    after_ms: Option<u64>,
    /// Last bytes of addresses with their behaviour, or an error.
    addresses: Result<Vec<(u8, Behaviour)>, ()>,
}

fn answer() -> impl Strategy<Value = Answer> {
    let behaviour = prop_oneof![
        (0_u64..2000).prop_map(|after_ms| Behaviour::Connects { after_ms }),
        (0_u64..2000).prop_map(|after_ms| Behaviour::Refuses { after_ms }),
        Just(Behaviour::Silent),
    ];
    let addresses = prop::collection::vec((0_u8..20, behaviour), 0..6);
    let result = prop_oneof![5 => addresses.prop_map(Ok), 1 => Just(Err(()))];
    (prop::option::weighted(0.9, 0_u64..500), result)
        .prop_map(|(after_ms, addresses)| Answer { after_ms, addresses })
}

/// An event at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Resolved(AddressFamily),
    Connected(usize),
    Failed(usize),
    Tick,
}

/// The record of a run.
#[derive(Debug, Default)]
struct Trace {
    begun: Vec<(u64, usize)>,
    failed: Vec<(u64, usize)>,
    cancelled: Vec<usize>,
    results: Vec<(u64, ConnectAction<&'static str>)>,
    addresses: Vec<IpAddr>,
    /// When both families were resolved.
    resolved_ms: Option<u64>,
}

fn address(family: AddressFamily, last: u8) -> IpAddr {
    match family {
        Ipv4 => IpAddr::from([192, 0, 2, last]),
        Ipv6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last)]),
    }
}

/// Runs the attempts to their end.
fn run(times: ConnectTimes, ipv4: &Answer, ipv6: &Answer) -> Trace {
    let mut trace = Trace::default();
    let mut events: BTreeSet<(u64, Event)> = BTreeSet::new();
    let mut behaviours: BTreeMap<IpAddr, Behaviour> = BTreeMap::new();
    for (family, answer) in [(Ipv4, ipv4), (Ipv6, ipv6)] {
        events.extend(answer.after_ms.map(|ms| (ms, Event::Resolved(family))));
        for (last, behaviour) in answer.addresses.iter().flatten() {
            behaviours.entry(address(family, *last)).or_insert(*behaviour);
        }
    }
    if let (Some(ipv4_ms), Some(ipv6_ms)) = (ipv4.after_ms, ipv6.after_ms) {
        trace.resolved_ms = Some(ipv4_ms.max(ipv6_ms));
    }
    let mut eyeballs = Eyeballs::new(times, 0);
    let mut now_ms = 0;
    loop {
        while let Some(action) = eyeballs.next_action() {
            match action {
                Connect(index) => {
                    trace.begun.push((now_ms, index));
                    let address = eyeballs.address(index).expect("an address");
                    events.extend(match behaviours[&address] {
                        Behaviour::Connects { after_ms } => {
                            Some((now_ms + after_ms, Event::Connected(index)))
                        }
                        Behaviour::Refuses { after_ms } => {
                            Some((now_ms + after_ms, Event::Failed(index)))
                        }
                        Behaviour::Silent => None,
                    });
                }
                // An event that is on its way arrives all the same.
                Cancel(index) => trace.cancelled.push(index),
                WaitUntil(ms) => {
                    assert!(ms > now_ms, "a wait is for the future");
                    events.retain(|(_, event)| *event != Event::Tick);
                    events.insert((ms, Event::Tick));
                }
                result => trace.results.push((now_ms, result)),
            }
        }
        let Some((ms, event)) = events.pop_first() else { break };
        now_ms = ms;
        match event {
            Event::Resolved(family) => {
                let answer = if family == Ipv4 { ipv4 } else { ipv6 };
                let found = answer.addresses.as_ref().map(|found| -> Vec<IpAddr> {
                    found.iter().map(|(last, _)| address(family, *last)).collect()
                });
                let found = found.as_deref().map_err(|()| "no answer");
                eyeballs.resolved(family, found, now_ms);
            }
            Event::Connected(index) => eyeballs.connected(index, now_ms),
            Event::Failed(index) => {
                if trace.results.is_empty() {
                    trace.failed.push((now_ms, index));
                }
                eyeballs.failed(index, "refused", now_ms);
            }
            Event::Tick => eyeballs.tick(now_ms),
        }
    }
    trace.addresses.clone_from(&eyeballs.addresses);
    trace
}

proptest! {
    #[test]
    fn each_run_ends_once_and_in_time(
        ipv4 in answer(), ipv6 in answer(), timeout_ms in 0_u64..6000,
    ) {
        let times = ConnectTimes { timeout_ms, ..TIMES };
        let trace = run(times, &ipv4, &ipv6);
        let [(end_ms, result)] = &trace.results[..] else {
            return Err(TestCaseError::fail(format!("{:?}", trace.results)));
        };
        prop_assert!(*end_ms <= timeout_ms);

        let begun: BTreeSet<usize> = trace.begun.iter().map(|(_, index)| *index).collect();
        prop_assert_eq!(begun.len(), trace.begun.len(), "an address is tried at most once");
        let distinct: BTreeSet<IpAddr> = trace.addresses.iter().copied().collect();
        prop_assert_eq!(distinct.len(), trace.addresses.len(), "and has one index");

        // All that has begun was won, has failed or was cancelled: exactly one of these.
        let mut ends: Vec<usize> = trace.failed.iter().map(|(_, index)| *index).collect();
        ends.extend(&trace.cancelled);
        if let Won(index) = result {
            ends.push(*index);
        }
        ends.sort_unstable();
        prop_assert_eq!(ends, begun.into_iter().collect::<Vec<_>>());
        if let Failed(failure) = result {
            prop_assert_eq!(failure.attempts.len(), trace.failed.len());
            prop_assert_eq!(failure.timeout_ms.is_some(), *end_ms == timeout_ms);
        }
    }

    /// RFC 8305 §5: attempts begin one after the other, with the delay between them unless one has
    /// failed meanwhile; and families alternate as long as both have addresses.
    #[test]
    fn attempts_are_separated_by_the_delay(ipv4 in answer(), ipv6 in answer()) {
        let trace = run(TIMES, &ipv4, &ipv6);
        for pair in trace.begun.windows(2) {
            let [(first_ms, _), (second_ms, _)] = pair else { unreachable!() };
            let between = *first_ms..=*second_ms;
            let has_failed = trace.failed.iter().any(|(ms, _)| between.contains(ms));
            prop_assert!(second_ms - first_ms >= TIMES.attempt_delay_ms || has_failed);
        }
        let is_ipv6: Vec<bool> =
            trace.begun.iter().map(|(_, index)| trace.addresses[*index].is_ipv6()).collect();
        if let (Some(resolved_ms), Some((first_ms, _))) = (trace.resolved_ms, trace.begun.first())
            && resolved_ms <= *first_ms
        {
            let is_ipv4 = |address: &&IpAddr| address.is_ipv4();
            let ipv4 = trace.addresses.iter().filter(is_ipv4).count();
            let both = ipv4.min(trace.addresses.len() - ipv4);
            let alternating = is_ipv6.iter().take(2 * both).enumerate();
            prop_assert!(alternating.into_iter().all(|(at, is_ipv6)| *is_ipv6 == (at % 2 == 0)));
        }
    }

    /// With enough time, a reachable address is found, and a failure has tried all.
    #[test]
    fn a_reachable_address_is_reached(ipv4 in answer(), ipv6 in answer()) {
        let trace = run(ConnectTimes { timeout_ms: 100_000, ..TIMES }, &ipv4, &ipv6);
        let is_reachable = |answer: &Answer| {
            let mut first = BTreeMap::new();
            for (last, behaviour) in answer.addresses.iter().flatten() {
                first.entry(*last).or_insert(*behaviour);
            }
            let connects = first.values().any(|b| matches!(b, Behaviour::Connects { .. }));
            answer.after_ms.is_some() && connects
        };
        let is_won = matches!(trace.results[..], [(_, Won(_))]);
        prop_assert_eq!(is_won, is_reachable(&ipv4) || is_reachable(&ipv6));
        if !is_won {
            prop_assert_eq!(trace.begun.len(), trace.addresses.len());
        }
    }
}

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const SECOND_NS: u64 = 1_000_000_000;

fn client(number: u32) -> ClientPrefix {
    ClientPrefix::Ipv4(number.to_be_bytes())
}

#[test]
fn a_client_is_an_ipv4_address_or_an_ipv6_prefix() {
    let of = |text: &str| ClientPrefix::of(Some(text.parse().expect("an address")));
    assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
    assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
    assert_eq!(ClientPrefix::of(None), ClientPrefix::Unix);
}

#[test]
fn a_full_table_uses_exactly_its_counted_memory() {
    let limit = RateLimit::new(1, SECOND_NS, 2).expect("a limit");
    for clients in [1 << 10, 1 << 14, 1 << 16] {
        let table = RateTable::new(clients);
        (0..20_000).for_each(|number| {
            let _limited = table.admit(&limit, (0, client(number)), SECOND_NS);
        });
        let of_shard = |shard: &Mutex<Vec<Set>>| {
            size_of_val(shard) + shard.lock().expect("sets").capacity() * size_of::<Set>()
        };
        let held: usize = table.shards.iter().map(of_shard).sum();
        assert_eq!(held, RateTable::bytes(clients));
    }
}

#[test]
fn clients_and_scopes_do_not_disturb_each_other() {
    let limit = RateLimit::new(1, SECOND_NS, 2).expect("a limit");
    let table = RateTable::new(1024);
    let now_ns = 7 * SECOND_NS;
    for number in 0..100 {
        for scope in 0..2 {
            let whom = (scope, client(number));
            assert_eq!(table.admit(&limit, whom, now_ns), Ok(()));
            assert_eq!(table.admit(&limit, whom, now_ns), Ok(()));
            assert_eq!(table.admit(&limit, whom, now_ns), Err(SECOND_NS));
        }
    }
    table.refund(&limit, (0, client(0)));
    assert_eq!(table.admit(&limit, (0, client(0)), now_ns), Ok(()));
    assert!(table.admit(&limit, (0, client(0)), now_ns).is_err());
    assert_eq!(table.admit(&limit, (1, client(0)), now_ns + SECOND_NS), Ok(()));
}

/// The state of a client is forgotten once it makes no difference.
#[test]
fn the_slot_of_an_idle_client_is_reused() {
    let limit = RateLimit::new(1, SECOND_NS, 1).expect("a limit");
    let table = RateTable::new(SHARDS * SET_PLACES);
    for number in 0..20_000 {
        let now_ns = u64::from(number + 1) * 2 * SECOND_NS;
        assert_eq!(table.admit(&limit, (0, client(number)), now_ns), Ok(()), "{number}");
    }
}

proptest! {
    /// With any number of clients and a table that is too small for them, no client gets more than
    /// its limit allows. With a table that is large enough, it gets all of that.
    #[test]
    fn an_evicted_client_never_exceeds_its_limit(
        requests in prop::collection::vec((0_u32..2000, 0_u64..SECOND_NS / 50), 1..400),
        burst in 1_u64..4,
        is_small: bool,
    ) {
        let limit = RateLimit::new(2, SECOND_NS, burst).expect("a limit");
        let clients = if is_small { SHARDS * SET_PLACES } else { 1 << 16 };
        // With this many others the sets are full.
        let table = RateTable::new(clients);
        let mut now_ns = SECOND_NS;
        if is_small {
            for number in 10_000..14_000 {
                let _ = table.admit(&limit, (0, client(number)), now_ns);
            }
        }
        let mut due = HashMap::new();
        for (number, gap_ns) in requests {
            now_ns += gap_ns;
            let number = number % 40;
            let known_ns = due.get(&number).copied().unwrap_or(0);
            let alone = limit.admit(known_ns, now_ns);
            match (table.admit(&limit, (0, client(number)), now_ns), alone) {
                (Ok(()), Admission::Admitted { due_ns }) => drop(due.insert(number, due_ns)),
                (Ok(()), Admission::Refused { .. }) => prop_assert!(false, "{} got more", number),
                (Err(wait_ns), Admission::Refused { wait_ns: alone_ns }) => {
                    prop_assert!(wait_ns >= alone_ns);
                    prop_assert!(is_small || wait_ns == alone_ns);
                }
                (Err(_), Admission::Admitted { .. }) => prop_assert!(is_small, "{number}"),
            }
        }
    }
}

/// All threads together get no more than one would.
#[test]
fn threads_together_never_exceed_the_limit() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let limit = RateLimit::new(1, 3600 * SECOND_NS, 100).expect("a limit");
    let (table, admitted) = (RateTable::new(1024), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let is_admitted = table.admit(&limit, (0, client(1)), SECOND_NS).is_ok();
                    admitted.fetch_add(u64::from(is_admitted), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 100);
}

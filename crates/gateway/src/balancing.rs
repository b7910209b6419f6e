//! Chooses one of several upstream servers for a request. These are functions of the known state of
//! the servers; random numbers are parameters.

use std::net::IpAddr;

/// The way in which requests are distributed over several upstream servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// The server with the fewest requests that have not ended; by chance one of several.
    #[default]
    LeastConnections,
    /// The server that the client's address stands for.
    ClientHash,
    /// The server that the value of this field stands for.
    HeaderHash(Box<str>),
}

/// The key by which a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BalanceKey {
    /// The number of its requests, and chance.
    Load,
    /// The hash of a key.
    Hash(u64),
}

/// A server that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its index.
    pub(crate) index: usize,
    /// The hash of its URL.
    pub(crate) identity: u64,
    /// Its requests that have not ended.
    pub(crate) requests: usize,
}

/// Returns the candidate that a request goes to. The cost is one look at each.
pub(crate) fn choose(
    key: BalanceKey,
    candidates: impl Iterator<Item = Candidate> + Clone,
    random: u64,
) -> Option<usize> {
    match key {
        BalanceKey::Load => {
            let fewest = candidates.clone().map(|one| one.requests).min()?;
            let mut idlest = candidates.filter(|one| one.requests == fewest);
            let count = idlest.clone().count() as u64;
            // The count is small, so all of them are equally likely but for one in 2^58.
            Some(idlest.nth((random % count.max(1)) as usize)?.index)
        }
        // Rendezvous hashing: every key has an order of all servers, and the first one of them that
        // is there. If one is lost, its keys alone go elsewhere, and to all others alike.
        BalanceKey::Hash(key) => {
            let weight = |one: &Candidate| (mixed(key ^ one.identity), one.index);
            Some(candidates.max_by_key(weight)?.index)
        }
    }
}

/// Returns the key of a client: its IPv4 address, or the /64 of its IPv6 address, since a client
/// changes its address there at will.
pub(crate) fn client_key(address: IpAddr) -> BalanceKey {
    BalanceKey::Hash(match address.to_canonical() {
        IpAddr::V4(address) => hash(&address.octets()),
        IpAddr::V6(address) => {
            let [a, b, c, d, e, f, g, h, ..] = address.octets();
            hash(&[a, b, c, d, e, f, g, h])
        }
    })
}

/// Returns the hash of bytes. It is the same in each process, so that clients keep their server
/// after a restart: FNV-1a, and the finalizer of SplitMix64.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    mixed(bytes.iter().fold(OFFSET, add))
}

/// Mixes a number, so that each bit of the result depends on each of its bits.
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(count: usize) -> Vec<Candidate> {
        let identity = |index: usize| hash(format!("http://10.0.0.{index}:3000").as_bytes());
        (0..count)
            .map(|index| Candidate { index, identity: identity(index), requests: 0 })
            .collect()
    }

    fn chosen(key: BalanceKey, candidates: &[Candidate]) -> Option<usize> {
        choose(key, candidates.iter().copied(), 0)
    }

    #[test]
    fn the_server_with_the_fewest_requests_is_chosen() {
        let with = |requests: [usize; 4]| {
            let all = candidates(4).into_iter().zip(requests);
            all.map(|(one, requests)| Candidate { requests, ..one }).collect::<Vec<_>>()
        };
        assert_eq!(chosen(BalanceKey::Load, &with([3, 1, 2, 9])), Some(1));
        let all = with([2, 1, 1, 1]);
        let found: Vec<_> =
            (0..6).map(|random| choose(BalanceKey::Load, all.iter().copied(), random)).collect();
        let cycle = [Some(1), Some(2), Some(3)];
        assert_eq!(found, [cycle, cycle].concat());
        assert_eq!(chosen(BalanceKey::Load, &[]), None);
        assert_eq!(chosen(BalanceKey::Hash(1), &[]), None);
    }

    #[test]
    fn a_client_is_its_address_or_its_ipv6_network() {
        let key = |text: &str| client_key(text.parse().expect("an address"));
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("2001:db8::1"), key("2001:db8:0:0:ffff::1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    }

    /// With 10 000 keys, the share of each of n servers is within a fifth of 1/n.
    #[test]
    fn every_server_has_its_share_of_keys() {
        for count in 2..=8 {
            let all = candidates(count);
            let mut shares = vec![0; count];
            for key in 0..10_000_u32 {
                let key = client_key(IpAddr::from(key.to_be_bytes()));
                shares[chosen(key, &all).expect("a server")] += 1;
            }
            let expected = 10_000 / count;
            let is_fair = |share: &usize| share.abs_diff(expected) < expected / 5;
            assert!(shares.iter().all(is_fair), "{shares:?}");
        }
    }

    proptest! {
        /// A lost server moves its own keys and no others, and so does one that is added.
        #[test]
        fn a_lost_server_moves_its_own_keys_only(
            count in 2_usize..10,
            lost in 0_usize..10,
            keys in prop::collection::vec(any::<u64>(), 1..200),
        ) {
            let all = candidates(count);
            let lost = lost % count;
            let left: Vec<Candidate> =
                all.iter().copied().filter(|one| one.index != lost).collect();
            for key in keys {
                let key = BalanceKey::Hash(key);
                let before = chosen(key, &all).expect("a server");
                let after = chosen(key, &left).expect("a server");
                prop_assert_ne!(after, lost);
                if before != lost {
                    prop_assert_eq!(after, before);
                }
            }
        }

        /// The order in which servers are written does not matter.
        #[test]
        fn the_order_of_servers_does_not_matter(key in any::<u64>(), count in 1_usize..10) {
            let all = candidates(count);
            let reversed: Vec<Candidate> = all.iter().rev().copied().collect();
            let key = BalanceKey::Hash(key);
            prop_assert_eq!(chosen(key, &all), chosen(key, &reversed));
        }
    }
}

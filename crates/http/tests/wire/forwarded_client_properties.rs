//! Properties of the address that trusted proxies give for a client: any values, and chains of
//! proxies, each given to the check of the fuzz target.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::oracle;

/// Pieces of the fields, good and bad.
const PIECES: &[&[u8]] = &[
    b"10.0.0.2",
    b"10.0.0.3:80",
    b"203.0.113.9",
    b"203.0.113.9:65536",
    b"::1",
    b"[::1]",
    b"[::1]:8080",
    b"\"[2001:db8::1]:_p\"",
    b"::ffff:10.0.0.9",
    b"fe80::1%eth0",
    b"unix:",
    b"unknown",
    b"_hidden",
    b"for=",
    b"For=10.0.0.4",
    b"for=\"10.0.0.4:80\"",
    b"for=203.0.113.9",
    b";proto=https",
    b";proto=http",
    b";host=a.org",
    b";by=_x",
    b"\"",
    b"\\",
    b", ",
    b",",
    b";",
    b"=",
    b" ",
    b"\n",
    b"\xff",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_value_is_read_as_by_the_oracle(kind in any::<u8>(), value in vec(any::<u8>(), 0..60)) {
        oracle::client_identity::check(&[&[kind], &value[..]].concat());
    }

    #[test]
    fn any_pieces_are_read_as_by_the_oracle(
        kind in any::<u8>(),
        pieces in vec(select(PIECES), 0..12),
    ) {
        oracle::client_identity::check(&[&[kind], &pieces.concat()[..]].concat());
    }

    /// Real proxies write chains in this form.
    #[test]
    fn chains_are_read_as_by_the_oracle(
        is_forwarded in any::<bool>(),
        hops in vec((1_u8..4, any::<bool>(), any::<bool>()), 0..110),
    ) {
        let hop = |&(network, has_port, is_secured): &(u8, bool, bool)| {
            let port = if has_port { ":80" } else { "" };
            let ip = if network == 1 { "203.0.113.9" } else { "10.0.0.9" };
            match (is_forwarded, is_secured) {
                (false, _) => format!("{ip}{port}"),
                (true, false) => format!("for=\"{ip}{port}\""),
                (true, true) => format!("by=_a;for=\"{ip}{port}\";proto=https;host=\"a:80\""),
            }
        };
        let text = hops.iter().map(hop).collect::<Vec<_>>().join(", ");
        oracle::client_identity::check(&[&[u8::from(is_forwarded)], text.as_bytes()].concat());
    }
}

//! What the first bytes of a client say of its machine, by the order of its cipher suites.

use rustls::CipherSuite;

/// Whether a client puts AES in front of ChaCha20: then its machine has instructions for AES, and
/// how long the keys are is for the server to say. Clients whose machines have none put ChaCha20
/// first. `input` begins with the record of a ClientHello; when the suites are not in it, it says
/// no.
pub(super) fn prefers_aes(input: &[u8]) -> bool {
    const RECORD_HEADER_BYTES: usize = 5;
    input.get(RECORD_HEADER_BYTES..).is_some_and(message_prefers_aes)
}

/// The same of a ClientHello by itself (RFC 8446 §4.1.2), as QUIC has it.
pub(crate) fn message_prefers_aes(message: &[u8]) -> bool {
    let suites = suites(message).unwrap_or_default();
    let kinds = suites.iter().map(|suite| is_aes(CipherSuite::from(u16::from_be_bytes(*suite))));
    kinds.flatten().next().unwrap_or(false)
}

/// The suites, as far as they have come.
fn suites(message: &[u8]) -> Option<&[[u8; 2]]> {
    const CLIENT_HELLO: u8 = 1;
    // A length of 24 bits, a version, and 32 bytes of randomness.
    const BEFORE_SESSION_BYTES: usize = 3 + 2 + 32;
    let (kind, rest) = message.split_first()?;
    let (session_bytes, rest) = rest.get(BEFORE_SESSION_BYTES..)?.split_first()?;
    let (bytes, rest) = rest.get(usize::from(*session_bytes)..)?.split_first_chunk()?;
    let bytes = usize::from(u16::from_be_bytes(*bytes));
    let (suites, _) = rest.get(..bytes).unwrap_or(rest).as_chunks();
    (*kind == CLIENT_HELLO).then_some(suites)
}

/// Whether a suite is one of AES, or of ChaCha20; `None` when we do not have it.
fn is_aes(suite: CipherSuite) -> Option<bool> {
    use CipherSuite as S;
    match suite {
        S::TLS13_AES_128_GCM_SHA256
        | S::TLS13_AES_256_GCM_SHA384
        | S::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | S::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | S::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        | S::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Some(true),
        S::TLS13_CHACHA20_POLY1305_SHA256
        | S::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | S::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello up to its suites, behind a session id.
    fn hello(session_bytes: u8, suites: &[u16]) -> Vec<u8> {
        let mut bytes = vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
        bytes.extend([7; 32]);
        bytes.push(session_bytes);
        bytes.resize(bytes.len() + usize::from(session_bytes), 0x13);
        bytes.extend((2 * suites.len() as u16).to_be_bytes());
        bytes.extend(suites.iter().flat_map(|suite| suite.to_be_bytes()));
        // The methods of compression.
        bytes.extend([1, 0]);
        bytes
    }

    #[test]
    fn the_first_suite_that_is_known_tells() {
        for (suites, expected) in [
            (&[0x1302, 0x1303, 0x1301][..], true),
            (&[0x1301], true),
            (&[0x1303, 0x1301, 0x1302], false),
            // What Chrome has in front for no purpose (RFC 8701), and suites of old.
            (&[0x8a8a, 0x1301, 0x1303], true),
            (&[0x8a8a, 0x002f, 0x1303, 0x1301], false),
            (&[0xcca9, 0xc02b], false),
            (&[0xc030, 0xcca8], true),
            (&[0x002f, 0x0035], false),
            (&[], false),
        ] {
            for session_bytes in [0, 1, 32] {
                let hello = hello(session_bytes, suites);
                assert_eq!(prefers_aes(&hello), expected, "{suites:04x?}");
            }
        }
    }

    #[test]
    fn what_is_not_there_says_nothing() {
        let whole = hello(32, &[0x1301, 0x1303]);
        let behind_first = whole.len() - 4;
        for bytes in 0..whole.len() {
            assert_eq!(prefers_aes(&whole[..bytes]), bytes >= behind_first, "{bytes}");
        }
        let mut other = whole;
        other[5] = 2;
        assert!(!prefers_aes(&other), "a ServerHello");
    }
}

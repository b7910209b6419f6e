//! Clients that request a server name which is no DNS name, such as `localhost:8443` or `a..b`. RFC
//! 6066 §3 lets a server ignore an unknown name; the library refuses a ClientHello with a name that
//! it cannot parse, and has no setting for that. So the library gets another name of the same
//! length, which is in no certificate, and its hashes of the ClientHello cover the bytes that the
//! client has sent. Both sides have the same transcript then, and the handshake is as safe as any
//! other: if this went wrong, it would fail.
//!
//! A ClientHello in several records, and the second one after a HelloRetryRequest, stay refused.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::{SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};

/// A ClientHello whose name is hidden, up to the end of the name.
#[derive(Debug)]
pub(crate) struct HiddenName {
    /// The bytes that the client has sent.
    sent: Vec<u8>,
    /// The bytes that the library gets.
    shown: Vec<u8>,
}

thread_local! {
    /// The hidden name of the connection that is being processed.
    static AT_WORK: RefCell<Option<Arc<HiddenName>>> = const { RefCell::new(None) };
}

/// A guard: while it lives, hashes of this thread cover the bytes that the client has sent.
pub(crate) struct Restored(());

impl Drop for Restored {
    fn drop(&mut self) {
        AT_WORK.set(None);
    }
}

impl HiddenName {
    /// Hides the name at `name` in `message`, a ClientHello without its record.
    pub(crate) fn hide(message: &mut [u8], name: std::ops::Range<usize>) -> Option<Arc<Self>> {
        let sent = message.get(..name.end)?.to_vec();
        for (at, byte) in message.get_mut(name)?.iter_mut().enumerate() {
            *byte = if at % LABEL_BYTES == LABEL_BYTES - 1 { b'.' } else { b'x' };
        }
        let shown = message.get(..sent.len())?.to_vec();
        Some(Arc::new(Self { sent, shown }))
    }

    /// Makes hashes cover the bytes that the client has sent, as long as the guard lives.
    pub(crate) fn restored(self: &Arc<Self>) -> Restored {
        AT_WORK.set(Some(Arc::clone(self)));
        Restored(())
    }
}

/// Bytes of a label with its dot; RFC 1035 §2.3.4 allows up to 64.
const LABEL_BYTES: usize = 32;

/// Creates a provider with the suites of another one, whose hashes restore hidden names.
pub(super) fn provider(of: CryptoProvider) -> CryptoProvider {
    let restoring = |suite: SupportedCipherSuite| {
        SUITES.iter().copied().find(|restoring| restoring.suite() == suite.suite())
    };
    let cipher_suites = of.cipher_suites.iter().copied().filter_map(restoring).collect();
    CryptoProvider { cipher_suites, ..of }
}

/// All suites of the library, which requires that they live for ever.
static SUITES: LazyLock<Vec<SupportedCipherSuite>> = LazyLock::new(|| {
    let suites = rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES.iter();
    suites.map(|suite| restoring(*suite)).collect()
});

fn restoring(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: Box::leak(Box::new(RestoringHash(common.hash_provider))),
        confidentiality_limit: common.confidentiality_limit,
    };
    match suite {
        SupportedCipherSuite::Tls12(suite) => {
            let common = common(&suite.common);
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite { common, ..*suite })))
        }
        SupportedCipherSuite::Tls13(suite) => {
            let common = common(&suite.common);
            SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite { common, ..*suite })))
        }
    }
}

/// A hash function over ClientHellos as they were sent.
struct RestoringHash(&'static dyn Hash);

impl Hash for RestoringHash {
    fn start(&self) -> Box<dyn Context> {
        Box::new(RestoringContext(self.0.start()))
    }

    fn hash(&self, data: &[u8]) -> Output {
        let mut context = self.start();
        context.update(data);
        context.finish()
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

struct RestoringContext(Box<dyn Context>);

impl Context for RestoringContext {
    fn fork_finish(&self) -> Output {
        self.0.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self(self.0.fork()))
    }

    fn finish(self: Box<Self>) -> Output {
        self.0.finish()
    }

    /// Hashes `data`, in which a hidden name is restored. The library hashes a ClientHello as a
    /// whole, or up to its binders (RFC 8446 §4.2.11.2).
    fn update(&mut self, data: &[u8]) {
        AT_WORK.with_borrow(|name| {
            let hidden = name.as_ref().and_then(|name| {
                data.strip_prefix(name.shown.as_slice()).map(|rest| (name.sent.as_slice(), rest))
            });
            let (sent, rest) = hidden.unwrap_or((&[], data));
            self.0.update(sent);
            self.0.update(rest);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::pki_types::ServerName;

    #[test]
    fn a_name_of_any_length_becomes_a_dns_name() {
        for bytes in 1..=253 {
            let mut message = vec![b'?'; bytes + 10];
            let hidden = HiddenName::hide(&mut message, 5..bytes + 5).expect("hidden");
            let shown = ServerName::try_from(&message[5..bytes + 5]).expect("a name");
            assert!(matches!(shown, ServerName::DnsName(_)), "{shown:?}");
            assert_eq!(hidden.sent, vec![b'?'; bytes + 5]);
            assert_eq!((&message[..5], &message[bytes + 5..]), (&b"?????"[..], &b"?????"[..]));
        }
    }

    #[test]
    fn transcript_hashes_cover_the_hello_as_sent() {
        let sent = b"\x01 a hello that asks for localhost:8443, and more";
        let mut shown = sent.to_vec();
        let name = 24..38;
        assert_eq!(&sent[name.clone()], b"localhost:8443");
        let hidden = HiddenName::hide(&mut shown, name).expect("hidden");
        for suite in provider(default_provider()).cipher_suites {
            let common = match suite {
                SupportedCipherSuite::Tls12(suite) => &suite.common,
                SupportedCipherSuite::Tls13(suite) => &suite.common,
            };
            let hash = |data: &[u8]| common.hash_provider.hash(data).as_ref().to_vec();
            let (of_sent, of_shown) = (hash(sent), hash(&shown));
            assert_ne!(of_sent, of_shown);
            {
                let _restored = hidden.restored();
                assert_eq!(hash(&shown), of_sent);
                assert_eq!(hash(&shown[..40]), hash(&sent[..40]));
                assert_eq!(hash(&sent[1..]), hash(&sent[1..]));
            }
            assert_eq!(hash(&shown), of_shown);
        }
    }
}

//! The settings of listeners and of TLS.

use super::{choice, networks, path, paths, read, row, single};
use crate::cidr_network::Network;
use crate::directive_value_parsers::http_values;
use crate::directives;
use crate::failure::Failure;
use crate::listen_address::Address;
use crate::raw_settings::Low;
use pinion_engine::quic::congestion::CongestionControl;
use pinion_engine::settings::Protocols;
use std::path::PathBuf;

/// The address of a listener, and the content that clients find there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    /// The text as written.
    pub(crate) address: Address,
    /// The kind of content.
    pub(crate) kind: ListenKind,
    /// The protocols that clients may speak.
    pub(crate) protocols: Spoken,
    /// Who clients have to have a certificate from.
    pub(crate) client_ca: Option<PathBuf>,
    /// The congestion control of QUIC connections.
    pub(crate) congestion: CongestionControl,
    /// Proxies whose connections begin with a header of the PROXY protocol.
    pub(crate) proxy_protocol: Vec<Network>,
    /// The file, line and column where the address is written; `None` if it comes from a flag.
    pub(crate) position: Option<String>,
}

/// Versions of HTTP that clients may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    /// Over TCP.
    pub(crate) tcp: Protocols,
    /// HTTP/3, over QUIC; over TLS that it is said to be there.
    pub(crate) http3: bool,
}

/// The kinds of content at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenKind {
    /// The sites.
    Http,
    /// The sites, encrypted.
    Tls,
    /// The sites, encrypted, over QUIC.
    Quic,
    /// The way to the encrypted ones.
    Redirect,
    /// The store.
    Store,
    /// The store, encrypted.
    StoreTls,
}

/// Every kind.
pub(crate) const LISTEN_KINDS: [ListenKind; 6] = [
    ListenKind::Http,
    ListenKind::Tls,
    ListenKind::Quic,
    ListenKind::Redirect,
    ListenKind::Store,
    ListenKind::StoreTls,
];

/// The settings that all encrypted listeners share, and those of redirects to them.
#[derive(Clone, Debug)]
pub(crate) struct TlsSettings {
    /// The certificates for clients; the first is for those that ask for no host.
    pub(crate) certificates: Certificates,
    /// Value of `Strict-Transport-Security`.
    pub(crate) hsts: Option<String>,
    /// The alternative services at which the sites are.
    pub(crate) alt_svc: AltSvc,
    /// The host that redirects lead to. `None`: the first host of the first certificate.
    pub(crate) canonical: Option<CanonicalHost>,
    /// The folder in which an ACME client writes its responses to challenges.
    pub(crate) acme_webroot: Option<PathBuf>,
    /// The state folder, if it was given.
    pub(crate) state: Option<PathBuf>,
}

/// The source of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Certificates {
    /// Files; at least one pair.
    Files(Vec<CertificateFiles>),
    /// Made by us.
    SelfSigned {
        /// The kind of its key.
        key: SelfSignedKey,
    },
}

/// A certificate and its key, which may be one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    /// The chain.
    pub(crate) cert: PathBuf,
    /// The key.
    pub(crate) key: PathBuf,
}

/// `--alt-svc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AltSvc {
    /// The QUIC listeners, if there are any.
    Found,
    /// No alternative service.
    Off,
    /// This value is sent.
    Value(String),
}

/// `--tls-self`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelfSignedKey {
    /// ECDSA on P-256.
    P256,
    /// Ed25519.
    Ed25519,
    /// RSA of 2048 bits.
    Rsa2048,
}

/// `--canonical-host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CanonicalHost {
    /// A name or an address, an IPv6 one in brackets.
    pub(crate) host: String,
    /// None: that of the first TLS listener.
    pub(crate) port: Option<u16>,
}

impl Listen {
    /// The listener of a server when no listener of any kind is configured.
    pub(crate) const UNCONFIGURED: Self = Self {
        address: Address::UNCONFIGURED,
        kind: ListenKind::Http,
        protocols: Spoken::ALL,
        client_ca: None,
        congestion: CongestionControl::Cubic,
        proxy_protocol: Vec::new(),
        position: None,
    };

    /// Returns how an operator wrote the address: a flag, or a key with its position in the file.
    pub(crate) fn origin(&self) -> String {
        match &self.position {
            Some(position) => format!("{position}: {}", self.kind.key()),
            None => format!("--{}", self.kind.row()),
        }
    }
}

impl ListenKind {
    /// Returns whether connections of this kind are encrypted.
    pub(crate) fn is_secured(self) -> bool {
        matches!(self, Self::Tls | Self::Quic | Self::StoreTls)
    }

    /// Returns whether clients of Redis find the store there, and no sites.
    pub(crate) fn is_store(self) -> bool {
        matches!(self, Self::Store | Self::StoreTls)
    }

    /// Returns why nothing of this kind can be at an address; `None` when it can.
    pub(crate) fn cannot_be_at(self, address: &Address) -> Option<&'static str> {
        let is_misplaced = self == Self::Quic && matches!(address, Address::Unix(_));
        is_misplaced.then_some("HTTP/3 needs UDP; give an address and a port, like :443")
    }

    /// Returns the row of an address of this kind.
    pub(crate) fn row(self) -> &'static str {
        match self {
            Self::Http => "listen",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Redirect => "redirect-http",
            Self::Store => "store",
            Self::StoreTls => "store-tls",
        }
    }

    /// Returns the key of an address of this kind.
    pub(crate) fn key(self) -> &'static str {
        if self == Self::Http { "address" } else { self.row() }
    }
}

impl Spoken {
    /// Every version.
    pub(crate) const ALL: Self = Self { tcp: Protocols::ALL, http3: true };

    /// Returns why nothing could be spoken at a listener of a kind; `None` when something can.
    pub(crate) fn silent_at(self, kind: ListenKind) -> Option<String> {
        let (speaks, missing) = match kind {
            ListenKind::Quic => (self.http3, "h3"),
            _ => (self.tcp.http1 || self.tcp.http2, "h1 or h2"),
        };
        (!speaks).then(|| format!("leaves nothing to speak at {}; add {missing}", kind.row()))
    }
}

impl SelfSignedKey {
    /// Returns the word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::P256 => "p256",
            Self::Ed25519 => "ed25519",
            Self::Rsa2048 => "rsa2048",
        }
    }
}

impl TlsSettings {
    /// Reads the settings of a server.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag.
    pub(crate) fn from_low(low: &Low) -> Result<Self, Failure> {
        Ok(Self {
            certificates: certificates(low)?,
            hsts: single(low, "hsts", http_values::hsts)?.flatten(),
            alt_svc: single(low, "alt-svc", http_values::alt_svc)?.unwrap_or(AltSvc::Found),
            canonical: single(low, "canonical-host", http_values::canonical_host)?,
            acme_webroot: path(low, "acme-webroot")?,
            state: path(low, "state")?,
        })
    }
}

/// Reads the addresses of one command line, or of one table of a file.
pub(super) fn listeners(low: &Low) -> Result<Vec<Listen>, Failure> {
    let client_ca = path(low, "client-ca")?;
    let congestion = match choice(low, "quic-congestion")? {
        "bbr" => CongestionControl::Bbr,
        _ => CongestionControl::Cubic,
    };
    let proxies = networks(low, "proxy-protocol")?;
    let mut listeners = Vec::new();
    for kind in LISTEN_KINDS {
        for text in low.values(kind.row()) {
            let address = read(row(kind.row()), text, Address::parse)?;
            if let Some(why) = kind.cannot_be_at(&address) {
                return Err(Failure::usage(format!("--{} {address}: {why}", kind.row())));
            }
            let client_ca = client_ca.clone().filter(|_| kind.is_secured());
            let protocols = spoken(low, kind)?;
            let has_proxies = kind != ListenKind::Quic;
            listeners.push(Listen {
                address,
                kind,
                protocols,
                client_ca,
                congestion,
                proxy_protocol: if has_proxies { proxies.clone() } else { Vec::new() },
                position: None,
            });
        }
    }
    Ok(listeners)
}

/// Returns the listener of a server when no listener of any kind is written down.
pub(super) fn unwritten_listener(low: &Low) -> Result<Listen, Failure> {
    Ok(Listen {
        protocols: spoken(low, ListenKind::Http)?,
        proxy_protocol: networks(low, "proxy-protocol")?,
        ..Listen::UNCONFIGURED
    })
}

/// Returns the protocols that clients may speak at a listener of a kind.
fn spoken(low: &Low, kind: ListenKind) -> Result<Spoken, Failure> {
    let protocols = single(low, "protocols", http_values::protocols)?.unwrap_or(Spoken::ALL);
    match protocols.silent_at(kind) {
        Some(why) => Err(Failure::usage(format!("--protocols: {why}"))),
        None => Ok(protocols),
    }
}

/// Returns a setting that would be accepted silently and have no effect: its row, and why. Rows are
/// named by `named`.
pub(crate) fn without_effect(
    low: &Low,
    named: impl Fn(&'static str) -> String,
) -> Option<(&'static str, String)> {
    const ENCRYPTED: &[&str] = &["tls", "quic", "store-tls"];
    const NEEDS: [(&str, &[&str]); 12] = [
        ("no-health-log", &["health"]),
        ("redirect-http", &["tls"]),
        ("canonical-host", &["redirect-http"]),
        ("key", &["cert"]),
        ("cert", ENCRYPTED),
        ("tls-self", ENCRYPTED),
        ("client-ca", ENCRYPTED),
        ("hsts", &["tls", "quic"]),
        ("alt-svc", &["tls"]),
        ("quic-congestion", &["quic"]),
        ("client-ip-header", &["trusted-proxy"]),
        ("trust-forwarded-host", &["trusted-proxy"]),
    ];
    for (given, needed) in NEEDS {
        if low.given(given) && !needed.iter().any(|needed| low.given(needed)) {
            let is_known = |row: &&&str| directives::of(low.verb).any(|known| known.name == **row);
            let needed = needed.iter().filter(is_known).map(|needed| named(needed)).collect();
            return Some((given, format!("has no effect without {}; add it", any_of(needed))));
        }
    }
    let is_given = |kinds: &[&str]| kinds.iter().any(|kind| low.given(kind));
    if low.given("proxy-protocol")
        && low.given("quic")
        && !is_given(&["listen", "tls", "redirect-http"])
    {
        let why = format!("has no effect with {} alone; leave it out", named("quic"));
        return Some(("proxy-protocol", why));
    }
    let both = low.given("tls-self") && low.given("cert");
    let why = || format!("has no effect with {}; leave out one of them", named("cert"));
    both.then(|| ("tls-self", why()))
}

/// Returns names as a phrase: `a, b or c`.
fn any_of(mut names: Vec<String>) -> String {
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} or {last}", names.join(", ")) }
}

fn certificates(low: &Low) -> Result<Certificates, Failure> {
    let certs = paths(low, "cert")?;
    if certs.is_empty() {
        let key = match choice(low, "tls-self")? {
            "ed25519" => SelfSignedKey::Ed25519,
            "rsa2048" => SelfSignedKey::Rsa2048,
            _ => SelfSignedKey::P256,
        };
        return Ok(Certificates::SelfSigned { key });
    }
    let keys = if low.given("key") { paths(low, "key")? } else { certs.clone() };
    if keys.len() != certs.len() {
        return Err(Failure::usage(format!(
            "there are {} --cert but {} --key; give each --cert its --key, in the same order, or \
             no --key if the keys are in the files of the certificates",
            certs.len(),
            keys.len()
        )));
    }
    let pairs = certs.into_iter().zip(keys);
    Ok(Certificates::Files(pairs.map(|(cert, key)| CertificateFiles { cert, key }).collect()))
}

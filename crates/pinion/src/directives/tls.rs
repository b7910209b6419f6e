//! The flags of a server that encrypts.

use super::config_file_tables::Table;
use super::store::SERVE_AND_STORE;
use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

const SERVE: &[Verb] = &[Verb::Serve];

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "tls",
        short: None,
        verbs: SERVE,
        file: Some(Table::Listen.key("tls")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Listener,
        kind: Kind::Address,
        repeatable: true,
        default: Default::Nothing("no HTTPS"),
        change: TakesEffect::Restart,
        brief: "Where to listen for HTTPS",
        long: "TLS 1.2 and 1.3. An address is written as for `--listen`, and each listener is \
               printed in the same way. Without `--cert` the certificate is self-signed.",
    },
    Directive {
        name: "quic",
        short: None,
        verbs: SERVE,
        file: Some(Table::Listen.key("quic")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Listener,
        kind: Kind::Address,
        repeatable: true,
        default: Default::Nothing("no HTTP/3"),
        change: TakesEffect::Restart,
        brief: "Where to listen for HTTP/3",
        long: "Uses UDP. Use it together with --tls: most browsers first connect with HTTPS \
               over TCP and learn of HTTP/3 from the Alt-Svc header of the response. Open the \
               UDP port in the firewall. Addresses are as for --listen, without Unix sockets. \
               The certificates are those of --tls.",
    },
    Directive {
        name: "quic-congestion",
        short: None,
        verbs: SERVE,
        file: Some(Table::Listen.key("quic-congestion")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Listener,
        kind: Kind::Choice(&["cubic", "bbr"]),
        repeatable: false,
        default: Default::Value("cubic"),
        change: TakesEffect::Restart,
        brief: "How HTTP/3 finds out how fast the path to a client is",
        long: "`cubic` slows down when packets are lost, as TCP does. `bbr` ignores lost packets, \
               and is many times as fast on paths that lose them for other reasons than \
               congestion, such as radio. It leaves other connections on a full path little room \
               if the queue of that path is short.",
    },
    Directive {
        name: "cert",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Certificate.key("cert")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Server,
        kind: Kind::Path,
        repeatable: true,
        default: Default::Auto("a self-signed certificate"),
        change: TakesEffect::Live,
        brief: "A certificate with its chain, as a PEM file",
        long: "The file begins with the certificate of the server; the certificates of the \
               authorities follow. The private key may be in the same file. With several \
               certificates, a client gets the one for its host: by the exact name, or by `*.` for \
               one label; otherwise the first. A changed file is loaded within seconds; if it \
               cannot be used, that is logged, and the previous certificate stays.",
    },
    Directive {
        name: "key",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Certificate.key("key")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Server,
        kind: Kind::Path,
        repeatable: true,
        default: Default::Auto("the file of the certificate"),
        change: TakesEffect::Live,
        brief: "The private key of a certificate, as a PEM file",
        long: "RSA, ECDSA on P-256, P-384 or P-521, or Ed25519, without a password. With several \
               certificates, give one key for each, in the same order.",
    },
    Directive {
        name: "tls-self",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Tls.key("self-signed")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Server,
        kind: Kind::Choice(&["p256", "ed25519", "rsa2048"]),
        repeatable: false,
        default: Default::Value("p256"),
        change: TakesEffect::Restart,
        brief: "The key of the self-signed certificate",
        long: "Without `--cert` the server makes a certificate at the first start and keeps it in \
               the state folder. Each start prints its SHA-256, for clients that need to trust it. \
               Browsers do not accept `ed25519`.",
    },
    Directive {
        name: "client-ca",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Listen.key("client-ca")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Listener,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Nothing("no client certificates"),
        change: TakesEffect::Restart,
        brief: "Require a client certificate from these authorities (mutual TLS)",
        long: "A PEM file with one or more certificates. The flag applies to every listener with \
               TLS or QUIC, the key to the listener of its table.",
    },
    Directive {
        name: "protocols",
        short: None,
        verbs: SERVE,
        file: Some(Table::Listen.key("protocols")),
        group: DirectiveGroup::Network,
        level: DirectiveLevel::Listener,
        kind: Kind::Protocols,
        repeatable: false,
        default: Default::Value("h1,h2,h3"),
        change: TakesEffect::Restart,
        brief: "The versions of HTTP that clients may use",
        long: "With TLS the client and the server negotiate the protocol (ALPN). Without TLS the \
               server looks at the first bytes (HTTP/2 needs prior knowledge), unless there is \
               only one protocol. `h3` is for `--quic`; on a TLS listener it announces HTTP/3 \
               (Alt-Svc).",
    },
    Directive {
        name: "hsts",
        short: None,
        verbs: SERVE,
        file: Some(Table::Tls.key("hsts")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Server,
        kind: Kind::Hsts,
        repeatable: false,
        default: Default::Value("off"),
        change: TakesEffect::Restart,
        brief: "How long browsers are to use only HTTPS",
        long: "Sent over TLS only, as Strict-Transport-Security. `1y,subdomains` includes all \
               subdomains, and `1y,subdomains,preload` allows the makers of browsers to put the \
               host on their built-in lists. Begin with a short time: browsers remember it until \
               it is over.",
    },
    Directive {
        name: "alt-svc",
        short: None,
        verbs: SERVE,
        file: Some(Table::Tls.key("alt-svc")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Server,
        kind: Kind::AltSvc,
        repeatable: false,
        default: Default::Auto("h3 at the ports of the QUIC listeners, for a day"),
        change: TakesEffect::Restart,
        brief: "The Alt-Svc header, by which clients of HTTPS find HTTP/3",
        long: "TLS listeners with `h3` among their `protocols` send it; if you set a value, all of \
               them do. Set it if clients reach HTTP/3 at another port or host, or `off` if they \
               do not reach it.",
    },
    Directive {
        name: "redirect-http",
        short: None,
        verbs: SERVE,
        file: Some(Table::Listen.key("redirect-http")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Listener,
        kind: Kind::Address,
        repeatable: true,
        default: Default::Nothing("no redirects to HTTPS"),
        change: TakesEffect::Restart,
        brief: "Where to listen for HTTP and redirect all requests to HTTPS",
        long: "Every request gets the status 308, with the same path and query on the host of \
               `--canonical-host`.",
    },
    Directive {
        name: "acme-webroot",
        short: None,
        verbs: SERVE,
        file: Some(Table::Tls.key("acme-webroot")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Server,
        kind: Kind::Folder,
        repeatable: false,
        default: Default::Nothing("no webroot"),
        change: TakesEffect::Restart,
        brief: "The webroot for the challenges of Let's Encrypt (ACME)",
        long: "certbot calls this folder --webroot-path. A request for a file directly below \
               /.well-known/acme-challenge/ is answered from there, on every host and every \
               listener, as soon as the file exists. The sites may be archives or anything else.",
    },
    Directive {
        name: "canonical-host",
        short: None,
        verbs: SERVE,
        file: Some(Table::Tls.key("canonical-host")),
        group: DirectiveGroup::Tls,
        level: DirectiveLevel::Server,
        kind: Kind::CanonicalHost,
        repeatable: false,
        default: Default::Auto("the first host of the first certificate"),
        change: TakesEffect::Restart,
        brief: "The host to which --redirect-http redirects",
        long: "Redirects lead to this host, whatever host the client asked for. Without a port, \
               the port of the first TLS listener is used.",
    },
    Directive {
        name: "state",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Server.key("state")),
        group: DirectiveGroup::Process,
        level: DirectiveLevel::Server,
        kind: Kind::Folder,
        repeatable: false,
        default: Default::Auto(
            "$STATE_DIRECTORY, else $XDG_STATE_HOME/pinion, else ~/.local/state/pinion",
        ),
        change: TakesEffect::Restart,
        brief: "The folder for certificates and keys that the server creates",
        long: "Self-signed certificates, and the keys of stateless resets, by which clients of \
               HTTP/3 notice a crash at once. The server creates the folder for its own user only; \
               an existing folder keeps its mode.",
    },
];

//! The flags about the limits of a server: connections, timeouts, memory and space for uploads.

use super::config_file_tables::Table;
use super::store::SERVE_AND_STORE;
use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

const SERVE: &[Verb] = &[Verb::Serve];

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "max-connections",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Limits.key("max-connections")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 10_000_000, unit: "" },
        repeatable: false,
        default: Default::Auto("from the limit on open files and the memory, at most 65536"),
        change: TakesEffect::Restart,
        brief: "How many connections may be open at once",
        long: "When fewer than a sixteenth of them are free, idle connections are closed, first \
               those of the client that holds most. If none is free, new clients wait in the \
               accept queue of the kernel. If the limit on open files allows fewer, the server \
               uses fewer and prints a line at the start.",
    },
    Directive {
        name: "max-connections-per-client",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Limits.key("max-connections-per-client")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 10_000_000, unit: "" },
        repeatable: false,
        default: Default::Nothing("no limit"),
        change: TakesEffect::Restart,
        brief: "How many connections one client may hold at once",
        long: "A client is an IPv4 address or a /64 prefix of IPv6. Further connections are closed \
               as soon as they are accepted, which is logged at most every 10 seconds. Behind a \
               proxy all clients have the address of the proxy, unless it sends theirs \
               (--proxy-protocol).",
    },
    Directive {
        name: "max-outgoing",
        short: None,
        verbs: SERVE,
        file: Some(Table::Limits.key("max-outgoing")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 1_000_000, unit: "" },
        repeatable: false,
        default: Default::Auto("from the limit on open files and the memory, at most 1024"),
        change: TakesEffect::Restart,
        brief: "How many connections to other servers may be open at once",
        long: "These are the connections to servers that requests are forwarded to and those of \
               `pinion.fetch`, of all sites together. Each takes a \
               descriptor, which --max-connections then cannot use.",
    },
    Directive {
        name: "max-tunnels-per-client",
        short: None,
        verbs: SERVE,
        file: Some(Table::Limits.key("max-tunnels-per-client")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 1_000_000, unit: "" },
        repeatable: false,
        default: Default::Auto("a quarter of --max-outgoing, at least 2"),
        change: TakesEffect::Restart,
        brief: "How many WebSockets to other servers one client may have open",
        long: "Each of them takes one of --max-outgoing connections for as long as it is open. \
               Further ones get status 429. A client is an IPv4 address or a /64 prefix of IPv6; \
               behind a proxy it is the client that a trusted proxy names (--trusted-proxy).",
    },
    Directive {
        name: "keep-alive-timeout",
        short: None,
        verbs: SERVE,
        file: Some(Table::Limits.key("keep-alive-timeout")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 86_400, unit: "seconds" },
        repeatable: false,
        default: Default::Value("60"),
        change: TakesEffect::Restart,
        brief: "How long a connection may be idle between two requests",
        long: "Behind a load balancer, use a longer time than its own idle timeout (AWS ALB: 60 \
               seconds, Google Cloud: 600), so that it never sends a request to a connection that \
               is being closed.",
    },
    Directive {
        name: "header-timeout",
        short: None,
        verbs: SERVE,
        file: Some(Table::Limits.key("header-timeout")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 3600, unit: "seconds" },
        repeatable: false,
        default: Default::Value("10"),
        change: TakesEffect::Restart,
        brief: "How long a client may take to send the header section of a request",
        long: "Counted from the first byte of the request; for the first request, from the start \
               of the connection. When the time is over, the response is 408.",
    },
    Directive {
        name: "body-timeout",
        short: None,
        verbs: SERVE,
        file: Some(Table::Limits.key("body-timeout")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 3600, unit: "seconds" },
        repeatable: false,
        default: Default::Value("30"),
        change: TakesEffect::Restart,
        brief: "How long a client may pause while it sends the body of a request",
        long: "Counted from one piece of the body to the next, while a script waits for it. When \
               the time is over, the response is 408.",
    },
    Directive {
        name: "max-requests-per-connection",
        short: None,
        verbs: SERVE,
        file: Some(Table::Limits.key("max-requests-per-connection")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 1_000_000_000, unit: "" },
        repeatable: false,
        default: Default::Nothing("no limit"),
        change: TakesEffect::Restart,
        brief: "How many requests a connection may have before it is closed",
        long: "",
    },
    Directive {
        name: "memory-budget",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Limits.key("memory-budget")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 1 << 20, unit: "MiB" },
        repeatable: false,
        default: Default::Auto("from the number of connections and the memory"),
        change: TakesEffect::Restart,
        brief: "The most memory for all buffers and queues together",
        long: "The start prints the most memory that the server can use. The archive is not part \
               of it.",
    },
    Directive {
        name: "upload-space",
        short: None,
        verbs: SERVE,
        file: Some(Table::Limits.key("upload-space")),
        group: DirectiveGroup::Limits,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 1 << 24, unit: "MiB" },
        repeatable: false,
        default: Default::Value("1024"),
        change: TakesEffect::Restart,
        brief: "The most space for temporary files of all uploads to scripts",
        long: "When three quarters are in use, uploads from clients that have stalled are \
               cancelled. When all is in use, uploads get 503 and Retry-After. The files have no \
               names and are in the folder that TMPDIR names, or /tmp.",
    },
];

//! The flags of a server.

use super::config_file_tables::Table;
use super::store::SERVE_AND_STORE;
use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};
use crate::settings::LogFormat;

const SERVE: &[Verb] = &[Verb::Serve];
const SERVE_RUN_AND_STORE: &[Verb] = &[Verb::Serve, Verb::Run, Verb::Store];

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "listen",
        short: Some('l'),
        verbs: SERVE,
        file: Some(Table::Listen.key("address")),
        group: DirectiveGroup::Network,
        level: DirectiveLevel::Listener,
        kind: Kind::Address,
        repeatable: true,
        default: Default::Auto("127.0.0.1:8080 when there is no listener of any kind"),
        change: TakesEffect::Restart,
        brief: "Where to listen for HTTP",
        long: "A port alone listens on every address of the machine, IPv4 and IPv6. `fd:NAME` \
               is a socket from the service manager, by the name that its unit gives it. Each \
               listener is printed on stderr as one line, `listening URL`.",
    },
    Directive {
        name: "workers",
        short: Some('w'),
        verbs: SERVE_AND_STORE,
        file: Some(Table::Server.key("workers")),
        group: DirectiveGroup::Process,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 1024, unit: "" },
        repeatable: false,
        default: Default::Auto("one for each core, at most one for each 128 MiB of memory"),
        change: TakesEffect::Restart,
        brief: "How many worker threads serve requests",
        long: "Only cores that this process may use count: CPU affinity and cgroup limits apply.",
    },
    Directive {
        name: "io",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Server.key("io")),
        group: DirectiveGroup::Process,
        level: DirectiveLevel::Server,
        kind: Kind::Choice(&["auto", "uring", "epoll"]),
        repeatable: false,
        default: Default::Value("auto"),
        change: TakesEffect::Restart,
        brief: "The interface for input and output",
        long: "`auto` uses io_uring, or epoll where the kernel does not allow io_uring. With \
               `uring` that is an error.",
    },
    Directive {
        name: "memory",
        short: None,
        verbs: SERVE,
        file: Some(Table::Site.key("memory")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::Choice(&["map", "preload", "copy"]),
        repeatable: false,
        default: Default::Value("map"),
        change: TakesEffect::Live,
        brief: "How the archive is held in memory",
        long: "`map` maps the file, and the kernel reads it as needed. `preload` also reads all of \
               it before the first request. `copy` copies it to sealed memory, so that neither a \
               change of the file nor a failure of the disk affects requests. A folder is always \
               held in memory, except for files above 1 MiB, which `map` reads from the folder.",
    },
    Directive {
        name: "access-log",
        short: None,
        verbs: SERVE,
        file: Some(Table::Log.key("access")),
        group: DirectiveGroup::Logging,
        level: DirectiveLevel::Server,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Nothing("no access log"),
        change: TakesEffect::Restart,
        brief: "Log every request to this file, or to stdout with -",
        long: "Workers never wait for the log: if its thread cannot keep up, lines are dropped, \
               and their number is printed on stderr. SIGUSR1 and SIGHUP reopen the file. Sites \
               with an `access-log` of their own in a configuration file are left out.",
    },
    Directive {
        name: "log-format",
        short: None,
        verbs: SERVE,
        file: Some(Table::Log.key("format")),
        group: DirectiveGroup::Logging,
        level: DirectiveLevel::Server,
        kind: Kind::Choice(LogFormat::NAMES),
        repeatable: false,
        default: Default::Value("combined"),
        change: TakesEffect::Restart,
        brief: "The format of the access log",
        long: "Needs an access log.",
    },
    Directive {
        name: "no-health-log",
        short: None,
        verbs: SERVE,
        file: Some(Table::Log.key("health-log")),
        group: DirectiveGroup::Logging,
        level: DirectiveLevel::Server,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "Leave health checks out of the access log",
        long: "Requests for the path of --health with GET, HEAD or OPTIONS have no line. The \
               statistics count them.",
    },
    Directive {
        name: "watch",
        short: None,
        verbs: SERVE,
        file: Some(Table::Site.key("watch")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief: "Reload the site when its files change",
        long: "A folder is rebuilt when files in it have changed and then nothing has for 300 ms; \
               an archive is loaded again when another file replaces it. Requests continue \
               meanwhile, and each response comes from one version only. This is the default for a \
               PATH on the command line when stderr is a terminal.",
    },
    Directive {
        name: "no-watch",
        short: None,
        verbs: SERVE,
        file: None,
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief: "Do not reload the site when its files change, also on a terminal",
        long: "SIGHUP reloads it.",
    },
    Directive {
        name: "live",
        short: None,
        verbs: &[Verb::Serve, Verb::Why],
        file: Some(Table::Site.key("live")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::LiveFolder,
        repeatable: true,
        default: Default::Nothing("no folder"),
        change: TakesEffect::Live,
        brief: "A folder whose files are read for each request, such as uploads",
        long: "The folder of the site is read once, when it is loaded. Files that an application \
               writes later are served from a live folder: one below the folder of the site \
               (media), the whole site (.), or any other with its path in URLs \
               (/media=/srv/app/media). Links in it are not followed, and hidden files, leftovers \
               and sources of scripts are not served.",
    },
    Directive {
        name: "lua-folder",
        short: None,
        verbs: &[Verb::Serve, Verb::Why],
        file: Some(Table::Site.key("lua-folder")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::LuaFolder,
        repeatable: true,
        default: Default::Nothing("no folder"),
        change: TakesEffect::Live,
        brief: "A folder in which Lua scripts read and write files, and its name",
        long: "Scripts reach files by `NAME/some/path` below these folders and nowhere else. With \
               `:ro` after the path they can only read. Links in the folder are not followed.",
    },
    Directive {
        name: "dummy",
        short: None,
        verbs: SERVE,
        file: None,
        group: DirectiveGroup::Measurement,
        level: DirectiveLevel::Server,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "Send the same 13-byte response to every request, for measurements",
        long: "Shows what the server costs without a site. It cannot be combined with PATH or \
               with the flags of a site.",
    },
    Directive {
        name: "dummy-empty",
        short: None,
        verbs: SERVE,
        file: None,
        group: DirectiveGroup::Measurement,
        level: DirectiveLevel::Server,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "Like --dummy, with an empty body",
        long: "Shows what a response without a body costs.",
    },
    Directive {
        name: "dummy-bytes",
        short: None,
        verbs: SERVE,
        file: None,
        group: DirectiveGroup::Measurement,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 0, max: 1 << 20, unit: "bytes" },
        repeatable: false,
        default: Default::Value("13"),
        change: TakesEffect::Restart,
        brief: "The size of the body that --dummy sends",
        long: "",
    },
    Directive {
        name: "dummy-delay",
        short: None,
        verbs: SERVE,
        file: None,
        group: DirectiveGroup::Measurement,
        level: DirectiveLevel::Server,
        kind: Kind::Duration { min: "1ms", max: "60s" },
        repeatable: false,
        default: Default::Nothing("no delay"),
        change: TakesEffect::Restart,
        brief: "How long --dummy waits before each response",
        long: "Simulates the time that a distant server would need.",
    },
    Directive {
        name: "stats",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Log.key("stats")),
        group: DirectiveGroup::Logging,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 86_400, unit: "seconds" },
        repeatable: false,
        default: Default::Nothing("no statistics"),
        change: TakesEffect::Restart,
        brief: "Print a line of statistics on stderr every so many seconds",
        long: "Totals of responses by class of status and of content, with rates since the \
               previous line; rates of processor time, context switches, page faults and disk \
               traffic; the current connections and memory. The last line is printed at the end.",
    },
    Directive {
        name: "health",
        short: None,
        verbs: SERVE,
        file: Some(Table::Server.key("health")),
        group: DirectiveGroup::Network,
        level: DirectiveLevel::Server,
        kind: Kind::UrlPath,
        repeatable: false,
        default: Default::Nothing("no health check"),
        change: TakesEffect::Restart,
        brief: "A path for health checks, such as /healthz, on every host",
        long: "The status is 200, and 503 from SIGTERM on, so that a load balancer sends requests \
               to another server. A page of a site under this path is not served.",
    },
    Directive {
        name: "proxy-protocol",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Listen.key("proxy-protocol")),
        group: DirectiveGroup::Network,
        level: DirectiveLevel::Listener,
        kind: Kind::Network,
        repeatable: true,
        default: Default::Nothing("no proxy"),
        change: TakesEffect::Restart,
        brief: "Accept the PROXY protocol from this load balancer or network",
        long: "Connections from this address or network must begin with a header of the PROXY \
               protocol, version 1 or 2, before TLS and HTTP; others from there are closed. The \
               address in it is then that of the client: in the access log, in scripts, and for \
               the limit of connections per client. Connections from other addresses keep their \
               own address, and are closed if they send such a header. unix stands for all \
               clients of Unix sockets. The flag applies to all listeners except QUIC; in \
               pinion.toml, proxy-protocol is set for each [[listen]].",
    },
    Directive {
        name: "trusted-proxy",
        short: None,
        verbs: SERVE,
        file: Some(Table::Server.key("trusted-proxies")),
        group: DirectiveGroup::Network,
        level: DirectiveLevel::Server,
        kind: Kind::Network,
        repeatable: true,
        default: Default::Nothing("no proxy"),
        change: TakesEffect::Restart,
        brief: "Take the client's address and scheme from this proxy's headers",
        long: "The address or network of a reverse proxy, load balancer or CDN in front of the \
               server. Its `X-Forwarded-For` has the address of the client (`client-ip-header` \
               names another header), its `X-Forwarded-Proto` the scheme. The access log, \
               scripts, limits and forwarded requests have that address. The list is read from \
               its end, as long as the addresses in it are trusted, too. A request whose header \
               is malformed there gets the response 400. Headers of other clients are never read. \
               The proxy may also send requests with the scheme https over a connection without \
               TLS; those of others get the response 421. unix trusts all clients of Unix \
               sockets.",
    },
    Directive {
        name: "client-ip-header",
        short: None,
        verbs: SERVE,
        file: Some(Table::Server.key("client-ip-header")),
        group: DirectiveGroup::Network,
        level: DirectiveLevel::Server,
        kind: Kind::FieldName,
        repeatable: false,
        default: Default::Value("X-Forwarded-For"),
        change: TakesEffect::Restart,
        brief: "The header in which trusted proxies name the client",
        long: "`X-Forwarded-For`, `Forwarded` (RFC 7239), or a header of a CDN such as \
               `CF-Connecting-IP`. Only this header is read, so the proxy must set it or add to \
               it. With `Forwarded`, scheme and host are those of `proto` and `host`; otherwise \
               the scheme is that of `X-Forwarded-Proto`.",
    },
    Directive {
        name: "trust-forwarded-host",
        short: None,
        verbs: SERVE,
        file: Some(Table::Server.key("trust-forwarded-host")),
        group: DirectiveGroup::Network,
        level: DirectiveLevel::Server,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "Take the host from the headers of trusted proxies, too",
        long: "The host in `X-Forwarded-Host`, or in `host` of `Forwarded`, takes the place of \
               `Host`: it selects the site. Use it only if every trusted proxy sets or removes \
               the header, since clients can send it, too.",
    },
    Directive {
        name: "grace",
        short: None,
        verbs: SERVE_RUN_AND_STORE,
        file: Some(Table::Server.key("grace")),
        group: DirectiveGroup::Process,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 0, max: 86_400, unit: "seconds" },
        repeatable: false,
        default: Default::Value("30"),
        change: TakesEffect::Live,
        brief: "How long to wait for open requests and background work after SIGTERM",
        long: "Then they are cut off.",
    },
    Directive {
        name: "control",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Server.key("control")),
        group: DirectiveGroup::Process,
        level: DirectiveLevel::Server,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Auto(
            "pinion.sock in $RUNTIME_DIRECTORY/control or \
                                $XDG_RUNTIME_DIR/pinion",
        ),
        change: TakesEffect::Restart,
        brief: "The Unix socket for commands to the running server",
        long: "Root and the user of the server may use it. Its folder is created if it does not \
               exist, and must have mode 0700. Without such a variable there is none. If another \
               server has the default socket, this one has pinion-PID.sock beside it. `off` for \
               none.",
    },
];

//! The table of uWSGI's options and their equivalents.

/// The meaning of an option for Pinion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionUse {
    Listen,
    Https,
    /// Plain HTTP if `protocol` says so, else another protocol.
    Socket,
    /// Another protocol than HTTP.
    OtherSocket,
    Protocol,
    Module,
    Callable,
    Mount,
    ManageScriptName,
    PythonPath,
    /// The folder that relative paths belong to.
    Chdir,
    Home,
    Variable,
    /// A key of the mount.
    Text(&'static str),
    Number(&'static str),
    MiB(&'static str),
    StaticMap {
        is_parent: bool,
    },
    StaticFolder,
    StaticIndex,
    /// Pinion does it anyway, or has nothing that needs it.
    NotNeeded,
    /// Left out, with the advice.
    LeftOut(&'static str),
    /// A rule that may keep requests out, with the advice.
    Rule(&'static str),
    /// Ends of the names of files that are not sent.
    SkippedExtension,
    Unknown,
}

pub(super) const SOCKET: &str = "speaks another protocol than HTTP: let Pinion take the place of \
                                 the server before it, or let that one forward HTTP (proxy_pass)";

const SCHEDULED: &str = "there is no scheduler: use a timer of systemd, or cron";
const BACKGROUND: &str =
    "there are no background workers: run one, such as Celery, as a [[program]]";
const CACHE: &str = "there is no cache for applications: use memcached or Redis";
const ROUTING: &str = "was not carried: see rules (_redirects, _headers) and mounts";
const LOGS: &str = "was not carried: messages go to stderr, requests to access of [log]";
const FIXED: &str = "was not carried: the number of processes is fixed (python-processes)";
const OTHER: &str = "was not carried: only Python (WSGI) was converted; Pinion also has mounts for \
                     PHP, FastCGI, CGI and other servers";
const EMPEROR: &str = "was not carried: write one [[site]] for each application";
const EVENT_LOOP: &str =
    "was not carried: use python-threads, or make the application ASGI for an event loop";
const INCLUDED: &str = "was not carried: import that file, too, and join the two";
const HEADERS: &str = "was not carried: headers of files are set in _headers";
const COMMANDS: &str =
    "was not carried: write ExecStartPre and ExecStopPost in the unit of systemd";
const SYSTEM: &str = "was not carried: set it in the unit of systemd";

/// Options of a kind that begin with these words.
const PREFIXES: [(&str, OptionUse); 21] = [
    ("route", OptionUse::Rule(ROUTING)),
    ("error-route", OptionUse::Rule(ROUTING)),
    ("response-route", OptionUse::Rule(ROUTING)),
    ("final-route", OptionUse::Rule(ROUTING)),
    ("cron", OptionUse::LeftOut(SCHEDULED)),
    ("unique-cron", OptionUse::LeftOut(SCHEDULED)),
    ("mule", OptionUse::LeftOut(BACKGROUND)),
    ("farm", OptionUse::LeftOut(BACKGROUND)),
    ("spooler", OptionUse::LeftOut(BACKGROUND)),
    ("cache", OptionUse::LeftOut(CACHE)),
    ("cheaper", OptionUse::LeftOut(FIXED)),
    ("emperor", OptionUse::LeftOut(EMPEROR)),
    ("vassal", OptionUse::LeftOut(EMPEROR)),
    ("gevent", OptionUse::LeftOut(EVENT_LOOP)),
    ("asyncio", OptionUse::LeftOut(EVENT_LOOP)),
    ("static-expires", OptionUse::LeftOut(HEADERS)),
    ("static-gzip", OptionUse::NotNeeded),
    ("php", OptionUse::LeftOut(OTHER)),
    ("cgroup", OptionUse::LeftOut(SYSTEM)),
    ("exec-", OptionUse::LeftOut(COMMANDS)),
    ("hook-", OptionUse::LeftOut(COMMANDS)),
];

/// Options that Pinion needs nothing for.
const NOT_NEEDED: [&str; 54] = [
    "auto-procname",
    "autostart",
    "buffer-size",
    "chmod-socket",
    "chown-socket",
    "close-on-exec",
    "die-on-term",
    "disable-logging",
    "disable-write-exception",
    "enable-threads",
    "file-serve-mode",
    "harakiri-verbose",
    "http-auto-chunked",
    "http-raw-body",
    "http-buffer-size",
    "http-chunked-input",
    "honour-stdin",
    "http-keepalive",
    "http-processes",
    "ignore-sigpipe",
    "ignore-write-errors",
    "lazy",
    "lazy-apps",
    "listen",
    "master",
    "max-fd",
    "max-requests-delta",
    "max-worker-lifetime-delta",
    "memory-report",
    "need-app",
    "no-orphans",
    "offload-threads",
    "pidfile",
    "pidfile2",
    "plugin",
    "plugins",
    "plugins-dir",
    "post-buffering",
    "post-buffering-bufsize",
    "procname",
    "procname-prefix",
    "procname-prefix-spaced",
    "py-call-osafterfork",
    "reload-mercy",
    "safe-pidfile",
    "single-interpreter",
    "skip-atexit-teardown",
    "so-keepalive",
    "strict",
    "thunder-lock",
    "vacuum",
    "wsgi-manage-chunked-input",
    "wsgi-env-behaviour",
    "worker-reload-mercy",
];

/// Returns the meaning of an option.
pub(super) fn option_use(name: &str) -> OptionUse {
    // The command line of uWSGI takes both forms.
    let name = name.replace('_', "-");
    let named = match name.as_str() {
        "http" | "http-socket" => OptionUse::Listen,
        "https" | "https-socket" => OptionUse::Https,
        "socket" => OptionUse::Socket,
        "protocol" => OptionUse::Protocol,
        "uwsgi-socket" | "fastcgi-socket" | "scgi-socket" | "suwsgi-socket" => {
            OptionUse::OtherSocket
        }
        "module" | "wsgi" | "wsgi-file" | "file" => OptionUse::Module,
        "callable" => OptionUse::Callable,
        "mount" => OptionUse::Mount,
        "manage-script-name" => OptionUse::ManageScriptName,
        "pythonpath" | "python-path" | "pp" => OptionUse::PythonPath,
        "env" => OptionUse::Variable,
        "chdir" => OptionUse::Chdir,
        "home" | "virtualenv" | "venv" | "pyhome" => OptionUse::Home,
        "uid" | "immediate-uid" => OptionUse::Text("python-user"),
        "processes" | "workers" => OptionUse::Number("python-processes"),
        "threads" => OptionUse::Number("python-threads"),
        "max-requests" => OptionUse::Number("python-max-requests"),
        "max-worker-lifetime" => OptionUse::Number("python-max-lifetime"),
        "harakiri" => OptionUse::Number("timeout"),
        "reload-on-rss" | "evil-reload-on-rss" => OptionUse::MiB("python-max-memory"),
        "static-map" => OptionUse::StaticMap { is_parent: false },
        "static-map2" => OptionUse::StaticMap { is_parent: true },
        "check-static" | "static-check" => OptionUse::StaticFolder,
        "static-index" => OptionUse::StaticIndex,
        "static-skip-ext" => OptionUse::SkippedExtension,
        _ if NOT_NEEDED.contains(&name.as_str()) => OptionUse::NotNeeded,
        _ => OptionUse::Unknown,
    };
    if named != OptionUse::Unknown {
        return named;
    }
    let prefix = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
    prefix.map_or_else(|| left_out(&name), |(_, how)| *how)
}

fn left_out(name: &str) -> OptionUse {
    OptionUse::LeftOut(match name {
        "gid" | "immediate-gid" | "add-gid" => "was not carried: the group is that of the user",
        "ini" | "include" | "inherit" | "xml" | "yaml" | "json" => INCLUDED,
        "http-to" => "was not carried: write proxy of a mount",
        "http-to-https" => "write [[listen]] redirect-http, and canonical-host of [tls]",
        "http-timeout" | "socket-timeout" => {
            "was not carried: see timeout of a mount, and [limits]"
        }
        "static-safe" => "was not carried: links in a live folder are not followed",
        "attach-daemon" | "attach-daemon2" | "smart-attach-daemon" | "legion-attach-daemon" => {
            "was not carried: write a [[program]] with this command"
        }
        "stats" | "stats-server" => "was not carried: use pinion status",
        "touch-reload" | "touch-chain-reload" | "py-autoreload" | "python-autoreload"
        | "py-auto-reload" | "fs-reload" => {
            "was not carried: use pinion reload, or serve with --dev"
        }
        "enable-proxy-protocol" | "http-enable-proxy-protocol" => {
            "was not carried: name the load balancer as proxy-protocol of [[listen]]"
        }
        "import"
        | "py-import"
        | "pyimport"
        | "shared-import"
        | "shared-python-import"
        | "shared-py-import"
        | "python-import"
        | "spooler-import"
        | "spooler-python-import" => {
            "was not carried: import the module in that of the application"
        }
        "pyrun" | "eval" => "was not carried: run the script as a [[program]]",
        "logto" | "logto2" | "log-to" | "logger" | "req-logger" | "daemonize" | "daemonize2"
        | "log-format" | "logformat" | "log-master" | "log-5xx" | "log-4xx" | "log-slow"
        | "log-date" | "logdate" | "log-maxsize" | "log-backupname" | "log-reopen" => LOGS,
        "master-fifo" | "fifo" => "was not carried: use pinion reload and pinion stop",
        "log-x-forwarded-for" => "was not carried: name the proxy with trusted-proxies of [server]",
        "limit-post" => "was not carried: the application limits its content itself",
        "limit-as" | "limit-nproc" | "reload-on-as" | "evil-reload-on-as" => {
            "was not carried: see python-max-memory, or set limits in the unit of systemd"
        }
        "umask" => "was not carried: set UMask in the unit of systemd",
        "chroot" | "pivot-root" | "unshare" | "cap" => SYSTEM,
        "async" | "ugreen" | "greenlet" | "tornado" | "loop" => EVENT_LOOP,
        "cgi" | "psgi" | "rack" | "lua" | "paste" | "ini-paste" | "ini-paste-logged" | "web3"
        | "pump" => OTHER,
        "queue" | "sharedarea" | "locks" => CACHE,
        "subscribe-to" | "subscribe2" | "fastrouter" | "zerg" | "zerg-server" | "legion" => {
            "was not carried: see several servers of a mount with proxy"
        }
        "add-header" => HEADERS,
        "no-site" | "pymodule-alias" | "python-worker-override" | "py-tracebacker" => {
            "has no equal in Pinion"
        }
        _ => return OptionUse::Unknown,
    })
}

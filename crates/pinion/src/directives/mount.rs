//! The parts of a site that other servers respond to. Their options stand in a configuration file
//! alone; the flag `--proxy` is the short form.

use super::config_file_tables::Table;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

/// Returns a row of the table `[[site.mount]]`, with the properties that all of them share.
const fn row(name: &'static str, key: &'static str, kind: Kind) -> Directive {
    Directive {
        name,
        short: None,
        verbs: &[],
        file: Some(Table::Mount.key(key)),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind,
        repeatable: false,
        default: Default::Nothing("not set"),
        change: TakesEffect::Live,
        brief: "",
        long: "",
    }
}

/// Seconds up to an hour.
const SECONDS: Kind = Kind::Number { min: 1, max: 3_600, unit: "seconds" };

/// A number of checks in a row.
const CHECKS: Kind = Kind::Number { min: 1, max: 100, unit: "" };

/// Fields of responses that hold for the whole host.
pub(crate) const HOST_FIELDS: &[&str] = &["Alt-Svc", "Strict-Transport-Security"];

/// The rows, in the order of the reference.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        default: Default::Value("/"),
        brief: "The path that is forwarded, with all paths below it",
        long: "The longest path counts. `/` forwards what no file of the site responds to; any \
               other path is forwarded whatever files there are. `*.php` forwards names with that \
               extension that no file responds to.",
        ..row("mount-path", "path", Kind::MountPath)
    },
    Directive {
        repeatable: true,
        brief: "The server that requests are forwarded to, or several of them",
        long: "At most 64. A mount has either `proxy`, `fastcgi`, `scgi`, `cgi`, `wsgi`, \
               `asgi` or `store`.",
        ..row("mount-proxy", "proxy", Kind::UpstreamUrl)
    },
    Directive {
        repeatable: true,
        brief: "The FastCGI application that responds, or several of them",
        long: "Such as the socket of PHP-FPM. At most 64.",
        ..row("mount-fastcgi", "fastcgi", Kind::Application)
    },
    Directive {
        repeatable: true,
        brief: "The SCGI application that responds, or several of them",
        long: "At most 64.",
        ..row("mount-scgi", "scgi", Kind::Application)
    },
    Directive {
        brief: "The folder of the CGI scripts that respond, or a single script",
        long: "`/cgi-bin/a.sh/x` of a mount with the path `/cgi-bin` is the script `a.sh` of the \
               folder, with `/x` as `PATH_INFO`. A single script responds to all paths of the \
               mount. The files must be executable.",
        ..row("mount-cgi", "cgi", Kind::Path)
    },
    Directive {
        brief: "The Python application (WSGI) that responds",
        long: "`app:app` is the object `app` of the module `app`, `wsgi.py` a file. Without the \
               name of an object it is `application` or `app`. The server starts the processes \
               itself, and nothing has to be installed for it.",
        ..row("mount-wsgi", "wsgi", Kind::Argument)
    },
    Directive {
        brief: "The Python application (ASGI) that responds",
        long: "Named as in `wsgi`: `main:app`.",
        ..row("mount-asgi", "asgi", Kind::Argument)
    },
    Directive {
        brief: "The Python application (WSGI or ASGI) that responds",
        long: "Named as in `wsgi`. Pinion asks the application whether it is WSGI or ASGI, as \
               `pinion serve app.py` does.",
        ..row("mount-python-application", "python-application", Kind::Argument)
    },
    Directive {
        brief: "What the keys of the store begin with whose values are the pages",
        long: "With the path `/live` and `store = \"page:\"`, `/live/about.html` is the value of \
               the key `page:about.html`, and `/live/` that of `page:index.html`. The extension \
               says what type it is; a path without one is HTML.",
        ..row("mount-store", "store", Kind::Argument)
    },
    Directive {
        default: Default::Off,
        brief: "The object that was named returns the Python application",
        long: "It is called without arguments when a process starts: `create_app`.",
        ..row("mount-python-factory", "python-factory", Kind::Switch)
    },
    Directive {
        default: Default::Auto("the working directory of the server"),
        brief: "The folder of the Python application",
        long: "Modules are found in it, and it is the working directory of the application.",
        ..row("mount-python-folder", "python-folder", Kind::Path)
    },
    Directive {
        default: Default::Auto(
            "VIRTUAL_ENV, the folder `.venv` or `venv` of the application, or python3",
        ),
        brief: "The Python interpreter, or the folder of a virtual environment",
        long: "CPython 3.8 or later, or PyPy.",
        ..row("mount-python", "python", Kind::Path)
    },
    Directive {
        default: Default::Value("1"),
        brief: "Processes of the Python application",
        long: "With more than one, global variables of the application are not shared.",
        ..row(
            "mount-python-processes",
            "python-processes",
            Kind::Number { min: 1, max: 32, unit: "" },
        )
    },
    Directive {
        default: Default::Value("1"),
        brief: "Threads of each process of the Python application",
        long: "Each thread has one request at a time.",
        ..row("mount-python-threads", "python-threads", Kind::Number { min: 1, max: 128, unit: "" })
    },
    Directive {
        default: Default::Nothing("no limit"),
        brief: "Requests after which a process of the Python application is replaced",
        long: "Up to a tenth more, so that processes are not replaced at the same time. The new \
               process has loaded the application before it gets requests, and the old one \
               finishes those that it has. For applications that lose memory.",
        ..row(
            "mount-python-max-requests",
            "python-max-requests",
            Kind::Number { min: 1, max: 1_000_000_000, unit: "" },
        )
    },
    Directive {
        default: Default::Nothing("no limit"),
        brief: "Time after which a process of the Python application is replaced",
        long: "Up to a tenth more.",
        ..row(
            "mount-python-max-lifetime",
            "python-max-lifetime",
            Kind::Number { min: 1, max: 31_536_000, unit: "seconds" },
        )
    },
    Directive {
        default: Default::Nothing("no limit"),
        brief: "Memory with which a process of the Python application is replaced",
        long: "The resident set of the process. It is looked at four times a second.",
        ..row("mount-python-max-memory", "python-max-memory", Kind::Size)
    },
    Directive {
        default: Default::Auto("the nice value of the server"),
        brief: "The nice value of the processes of the Python application",
        long: "With 5, others on the same core get three times as much of it while both are busy. \
               Only a server that is started as root can give a lower one than its own.",
        ..row("mount-python-nice", "python-nice", Kind::Nice)
    },
    Directive {
        default: Default::Auto("the user of the server, unless it is root"),
        brief: "The user that the Python application runs as",
        long: "A server that is started as root needs it: applications do not run as root.",
        ..row("mount-python-user", "python-user", Kind::Account)
    },
    Directive {
        default: Default::Auto("the user of the server, unless it is root"),
        brief: "The user that CGI scripts run as",
        long: "A server that is started as root needs it: scripts do not run as root.",
        ..row("mount-cgi-user", "cgi-user", Kind::Account)
    },
    Directive {
        default: Default::Auto("the group of the user"),
        brief: "The group that CGI scripts run as",
        long: "",
        ..row("mount-cgi-group", "cgi-group", Kind::Account)
    },
    Directive {
        default: Default::Auto("the folder of the scripts for a server that is started as root"),
        brief: "The root directory of CGI scripts",
        long: "Scripts see nothing outside of it, so their interpreters and libraries have to be \
               in it. The folder of the scripts is in it, too.",
        ..row("mount-cgi-chroot", "cgi-chroot", Kind::Path)
    },
    Directive {
        default: Default::Off,
        brief: "CGI scripts see all files that their user may read",
        long: "Without this key, scripts of a server that is started as root see only their \
               folder.",
        ..row("mount-cgi-no-chroot", "cgi-no-chroot", Kind::Switch)
    },
    Directive {
        default: Default::Value("32"),
        brief: "Most CGI scripts of the mount that run at the same time",
        long: "Further requests wait for up to 30 seconds, and get status 503 then.",
        ..row("mount-cgi-max", "cgi-max", Kind::Number { min: 1, max: 200, unit: "" })
    },
    Directive {
        default: Default::Value("3600"),
        brief: "The time after which a CGI script is stopped in any case",
        long: "A script that writes nothing is stopped after `timeout`.",
        ..row(
            "mount-cgi-total-timeout",
            "cgi-total-timeout",
            Kind::Number { min: 1, max: 604_800, unit: "seconds" },
        )
    },
    Directive {
        default: Default::Nothing("the application is one program"),
        brief: "The folder of the scripts that the application runs",
        long: "The path `/a/b.php` is the file `a/b.php` of this folder. Without `root` the \
               application is one program for all paths of the mount: it gets the path of the \
               mount as `SCRIPT_NAME` and the rest as `PATH_INFO`.",
        ..row("mount-root", "root", Kind::Folder)
    },
    Directive {
        default: Default::Auto("`root`"),
        brief: "The path of `root` as the application sees it",
        long: "For an application in a container, in a chroot or on another machine. The files \
               have to be in `root`, too.",
        ..row("mount-application-root", "application-root", Kind::AbsolutePath)
    },
    Directive {
        default: Default::Value("index.php"),
        brief: "The script of a folder, and of paths that no script responds to",
        long: "For a mount with `root` whose path is no extension.",
        ..row("mount-index", "index", Kind::SiteFile)
    },
    Directive {
        default: Default::Off,
        brief: "Paths that no script responds to are not found",
        long: "Without this key, the index of the mount responds to them (a front controller).",
        ..row("mount-no-front-controller", "no-front-controller", Kind::Switch)
    },
    Directive {
        repeatable: true,
        default: Default::Value("wp-content/uploads"),
        brief: "Folders below `root` in which no scripts are run",
        long: "Name the folders that the application stores uploaded files in.",
        ..row("mount-no-exec", "no-exec", Kind::SiteFolder)
    },
    Directive {
        default: Default::Off,
        brief: "Pass the header `Authorization` to the application",
        long: "It has the password of the user. Without this key the application gets the name of \
               a user that Pinion has verified, as `REMOTE_USER`.",
        ..row("mount-pass-authorization", "pass-authorization", Kind::Switch)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("none"),
        brief: "Variables that the application gets in addition",
        long: "They replace those of the same name.",
        ..row("mount-variables", "variables", Kind::Variable)
    },
    Directive {
        default: Default::Value("0"),
        brief: "Unused connections that are kept for further requests, of each worker",
        long: "For FastCGI. A kept connection saves time, but most applications, such as PHP-FPM, \
               occupy a process with it: all workers together must keep fewer than there are \
               processes.",
        ..row(
            "mount-keep-connections",
            "keep-connections",
            Kind::Number { min: 0, max: 1_000, unit: "" },
        )
    },
    Directive {
        default: Default::Nothing("no limit but `max-outgoing`"),
        brief: "Most connections to one application, of each worker",
        long: "Further requests wait for `timeout`, and get status 503 then. For FastCGI and SCGI.",
        ..row(
            "mount-max-connections",
            "max-connections",
            Kind::Number { min: 1, max: 10_000, unit: "" },
        )
    },
    Directive {
        default: Default::Value("60"),
        brief: "Longest silence of a server that requests are forwarded to",
        long: "Counts until the first byte of the response, and then between two parts of it.",
        ..row("mount-timeout", "timeout", Kind::Number { min: 1, max: 86_400, unit: "seconds" })
    },
    Directive {
        default: Default::Auto("the path that the client has sent"),
        brief: "The path that the server has in the place of `path`",
        long: "With `path = \"/api\"` and `upstream-path = \"/v1\"`, a request for `/api/users` is \
               forwarded as `/v1/users`, and `Location: /v1/login` in the response becomes \
               `/api/login`. `/` removes the path of the mount.",
        ..row("mount-upstream-path", "upstream-path", Kind::UrlPath)
    },
    Directive {
        default: Default::Auto("`client`, or `upstream` for a server with https"),
        brief: "The host that the server is asked for: `client`, `upstream` or a name",
        long: "`client`: the host of the client's request. `upstream`: that of the server's URL.",
        ..row("mount-host", "host", Kind::UpstreamHost)
    },
    Directive {
        default: Default::Auto("the host of the URL"),
        brief: "The name in the certificate of a server with https",
        long: "It is sent in the handshake (SNI), and the certificate has to be for it.",
        ..row("mount-tls-name", "tls-name", Kind::ServerName)
    },
    Directive {
        default: Default::Auto("the root certificates of the system"),
        brief: "A file with the authorities that are trusted for https",
        long: "Their certificates in PEM. No other authority is trusted then.",
        ..row("mount-tls-ca", "tls-ca", Kind::Path)
    },
    Directive {
        repeatable: true,
        brief: "The certificate or the public key that a server with https must have",
        long: "The SHA-256 fingerprint of a certificate in hexadecimal digits, or that of a public \
               key as `sha256//BASE64`. Neither the name nor the authority counts then.",
        ..row("mount-tls-pin", "tls-pin", Kind::CertificatePin)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("none"),
        brief: "Headers that the server gets in the place of those of the client",
        long: "`[\"X-Site: shop\"]`. Headers of the connection and those that Pinion writes itself \
               are refused: `Host`, `Via`, `X-Forwarded-*` and others.",
        ..row("mount-set-request-headers", "set-request-headers", Kind::Header)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("none"),
        brief: "Headers of the client that the server does not get",
        long: "",
        ..row("mount-remove-request-headers", "remove-request-headers", Kind::FieldName)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("none"),
        brief: "Headers that clients get in the place of those of the server",
        long: "",
        ..row("mount-set-response-headers", "set-response-headers", Kind::Header)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("none"),
        brief: "Headers of the server that clients do not get",
        long: "",
        ..row("mount-remove-response-headers", "remove-response-headers", Kind::FieldName)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("none"),
        brief: "Headers for the whole host that are passed on from the server",
        long: "Without this, `Alt-Svc` and `Strict-Transport-Security` of the server are removed.",
        ..row("mount-pass-response-headers", "pass-response-headers", Kind::Choice(HOST_FIELDS))
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("no files are sent"),
        brief: "Folders with the files that responses may name with `X-Sendfile`",
        long: "Pinion sends such a file in place of the content of the response. A path in front \
               of the folder is for `X-Accel-Redirect`. At most 64.",
        ..row("mount-send-files", "send-files", Kind::SentFolder)
    },
    Directive {
        default: Default::Value("least-connections"),
        brief: "How requests are distributed over several servers",
        long: "`least-connections`: to a server with the fewest requests. `client-hash`: always to \
               the same server for an address of a client (IPv6: for its /64). `header-hash:NAME`: \
               always to the same server for a value of this header. A server that is lost moves \
               its own share only.",
        ..row("mount-balance", "balance", Kind::Balance)
    },
    Directive {
        default: Default::Value("3"),
        brief: "Failed requests until one of several servers is left out",
        long: "A failure is a connection that cannot be opened, that ends without a response, or \
               that is silent for too long. 0 switches this off.",
        ..row("mount-max-fails", "max-fails", Kind::Number { min: 0, max: 1_000, unit: "" })
    },
    Directive {
        default: Default::Value("10"),
        brief: "The time for which a server is left out",
        long: "Failures are counted in as much time.",
        ..row("mount-fail-timeout", "fail-timeout", SECONDS)
    },
    Directive {
        default: Default::Value("4"),
        brief: "Most servers that a request is sent to when one fails",
        long: "A request goes to the next of several servers if a connection cannot be opened, or \
               if a request that changes nothing gets no response.",
        ..row("mount-max-attempts", "max-attempts", Kind::Number { min: 1, max: 64, unit: "" })
    },
    Directive {
        default: Default::Value("30"),
        brief: "The time that a request has to reach one of several servers",
        long: "After that a connection that is still being opened is cancelled, and no other \
               server is tried. If some are left, the response has status 504. The time for which \
               a request waits for a free connection is limited by `timeout`. With one server the \
               key has no effect.",
        ..row("mount-retry-timeout", "retry-timeout", SECONDS)
    },
    Directive {
        default: Default::Nothing("no health checks"),
        brief: "A path that Pinion requests to find out whether a server works",
        long: "A status from 200 to 399 passes.",
        ..row("mount-health-path", "health-path", Kind::UrlPath)
    },
    Directive {
        default: Default::Value("5"),
        brief: "The time between two health checks of a server",
        long: "",
        ..row("mount-health-interval", "health-interval", SECONDS)
    },
    Directive {
        default: Default::Value("5"),
        brief: "The time that a server has to respond to a health check",
        long: "",
        ..row("mount-health-timeout", "health-timeout", SECONDS)
    },
    Directive {
        default: Default::Value("3"),
        brief: "Health checks that fail in a row until a server is left out",
        long: "",
        ..row("mount-health-fails", "health-fails", CHECKS)
    },
    Directive {
        default: Default::Value("2"),
        brief: "Health checks that pass in a row until a server is used again",
        long: "",
        ..row("mount-health-passes", "health-passes", CHECKS)
    },
    Directive {
        default: Default::Auto("`false`; for CGI content up to `buffer-limit`"),
        brief: "Store the content of a request before a server is asked",
        long: "A slow client then takes no connection of the server, and no process of a CGI \
               script. What does not fit into memory is a temporary file, of which all take as \
               much as `upload-space` allows. Without this key, a CGI script gets content that is \
               longer than `buffer-limit` as it comes; with `false` it gets all content so, and \
               `CONTENT_LENGTH` only if the client has announced the length.",
        ..row("mount-buffer-uploads", "buffer-uploads", Kind::Switch)
    },
    Directive {
        default: Default::Value("16M"),
        brief: "The largest content that `buffer-uploads` stores",
        long: "A larger one is refused with status 413. For FastCGI, SCGI and CGI, content without \
               `Content-Length` is stored also without `buffer-uploads`, and a larger one is \
               refused with status 411.",
        ..row("mount-buffer-limit", "buffer-limit", Kind::Size)
    },
];

//! The flags about servers that Lua scripts send requests to, programs that they run, and secrets.

use super::config_file_tables::Table;
use super::lua::{SERVE_AND_RUN, SERVE_RUN_AND_WHY};
use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "fetch-private",
        short: None,
        verbs: &[Verb::Serve],
        file: Some(Table::Site.key("fetch-private")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief: "Let Lua scripts connect to this machine and to private networks",
        long: "Without it, `pinion.fetch` connects to public addresses only: a visitor who can \
               choose a URL cannot reach your other services with it (server-side request \
               forgery). It allows loopback, private, shared and unique local addresses, but not \
               link-local ones and those of cloud metadata services.",
    },
    Directive {
        name: "fetch-network",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("fetch-network")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::IpNetwork,
        repeatable: true,
        default: Default::Nothing("no network"),
        change: TakesEffect::Live,
        brief: "A network that Lua scripts may connect to although it is not public",
        long: "Names a service of your own without opening all private networks, such as \
               10.1.2.3. The address of a cloud metadata service is allowed only if it is given \
               as one address.",
    },
    Directive {
        name: "fetch-socket",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("fetch-socket")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Path,
        repeatable: true,
        default: Default::Nothing("no socket"),
        change: TakesEffect::Live,
        brief: "A Unix socket that Lua scripts may connect to",
        long: "A script names it with the option `socket` of `pinion.fetch`, by the same absolute \
               path.",
    },
    Directive {
        name: "fetch-ca",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("fetch-ca")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Auto("the root certificates of the system"),
        change: TakesEffect::Live,
        brief: "A file with the certificate authorities that Lua scripts trust, as PEM",
        long: "For servers whose certificates come from an authority of your own. The root \
               certificates of the system are not trusted then.",
    },
    Directive {
        name: "fetch-pin",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("fetch-pin")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::CertificatePin,
        repeatable: true,
        default: Default::Nothing("no pins"),
        change: TakesEffect::Live,
        brief: "Trust only a server with this certificate or key, in pinion.fetch",
        long: "The SHA-256 hash of its certificate, as `openssl x509 -fingerprint -sha256` prints \
               it, or sha256// and the Base64 hash of its public key, as curl has it. The name \
               and the dates of the certificate do not count.",
    },
    Directive {
        name: "lua-program",
        short: None,
        verbs: SERVE_RUN_AND_WHY,
        file: Some(Table::Site.key("lua-program")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Program,
        repeatable: true,
        default: Default::Nothing("no programs"),
        change: TakesEffect::Live,
        brief: "A program that Lua scripts may run with `pinion.process.run`",
        long: "NAME is what scripts call it, PATH is absolute. It runs as the user of the server \
               with an environment of PATH, LANG and TMPDIR, in a process group of its own, and \
               is stopped when its request ends. Programs are started by a small process of \
               their own, so a server that was started without any has to be restarted for its \
               first.",
    },
    Directive {
        name: "secret",
        short: None,
        verbs: SERVE_RUN_AND_WHY,
        file: Some(Table::Site.key("secret")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Secret,
        repeatable: true,
        default: Default::Nothing("no secrets"),
        change: TakesEffect::Live,
        brief: "A file with a password or key that scripts get by `pinion.secret`",
        long: "`pinion.secret(\"NAME\")` returns what the file contains, without the end of its \
               last line. The file is read at each reload and can lie outside of the site, such as \
               in the credentials folder of systemd.",
    },
];

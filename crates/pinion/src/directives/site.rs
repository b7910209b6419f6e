//! The keys of a site in a configuration file that are no flags: the command line serves one site,
//! and its path is an operand.

use super::config_file_tables::Table;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};
use crate::settings::LogFormat;

/// The rows, in the order of the reference.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "hosts",
        short: None,
        verbs: &[],
        file: Some(Table::Site.key("hosts")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::Host,
        repeatable: true,
        default: Default::Auto("every host that no other site names"),
        change: TakesEffect::Live,
        brief: "The hosts that the site answers for",
        long: "A host by its name comes first, then the longest `*.` pattern that covers it \
               (`*.example.org` covers a.example.org and a.b.example.org, not example.org itself), \
               then the site without hosts; a request for any other host is answered 421. Case, \
               port and a trailing dot do not matter.",
    },
    Directive {
        name: "path",
        short: None,
        verbs: &[],
        file: Some(Table::Site.key("path")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Required,
        change: TakesEffect::Live,
        brief: "The folder, archive, release folder or Lua script to serve",
        long: "It may be left out of a site with `proxy`, which has no files then.",
    },
    Directive {
        name: "request-id",
        short: None,
        verbs: &[],
        file: Some(Table::Site.key("request-id")),
        group: DirectiveGroup::Logging,
        level: DirectiveLevel::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief: "Give each request a random number, which all logs have in common",
        long: "It is in `X-Request-Id` of the response and of requests that are forwarded, in \
               `req.id` of scripts, and in `request_id` of an access log in JSON. What clients \
               send in `X-Request-Id` is not passed on.",
    },
    Directive {
        name: "site-access-log",
        short: None,
        verbs: &[],
        file: Some(Table::Site.key("access-log")),
        group: DirectiveGroup::Logging,
        level: DirectiveLevel::Site,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Auto("the log of the server, if there is one"),
        change: TakesEffect::Live,
        brief: "Log the requests of the site to a file of its own, or to stdout with -",
        long: "They are left out of the log of the server. Sites that name the same file share it \
               and must use the same format; up to 256 logs can be open. A server that was started \
               without any log opens its first one at a restart.",
    },
    Directive {
        name: "site-log-format",
        short: None,
        verbs: &[],
        file: Some(Table::Site.key("log-format")),
        group: DirectiveGroup::Logging,
        level: DirectiveLevel::Site,
        kind: Kind::Choice(LogFormat::NAMES),
        repeatable: false,
        default: Default::Value("combined"),
        change: TakesEffect::Live,
        brief: "The format of the access log of the site",
        long: "Needs `access-log`.",
    },
];

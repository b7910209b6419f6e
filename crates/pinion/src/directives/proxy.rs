//! The flags about requests that other servers respond to.

use super::config_file_tables::Table;
use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "proxy",
        short: None,
        verbs: &[Verb::Serve, Verb::Why],
        file: Some(Table::Site.key("proxy")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::Upstream,
        repeatable: true,
        default: Default::Nothing("no upstream server"),
        change: TakesEffect::Live,
        brief: "Forward requests to another server over HTTP (reverse proxy)",
        long: "`--proxy http://127.0.0.1:3000` forwards every request that no file of the site \
           responds to. With a path and `=` before the URL, it forwards requests for that path \
           and those below it, whatever files there are: `--proxy /api=http://127.0.0.1:3000`. \
           The longest path counts; paths are forwarded as they are. The server is also named \
           by `https://HOST` or `unix:PATH`.",
    },
    Directive {
        name: "proxy-timeout",
        short: None,
        verbs: &[Verb::Serve],
        file: Some(Table::Site.key("proxy-timeout")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::Number { min: 1, max: 86_400, unit: "seconds" },
        repeatable: false,
        default: Default::Value("60"),
        change: TakesEffect::Live,
        brief: "Longest silence of a server that requests are forwarded to",
        long: "Counts until the first byte of the response, and then between two parts of it. A \
               request that waits for longer gets status 504, or its response is cut off.",
    },
];

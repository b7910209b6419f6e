//! What a configuration file says of a site and no flag does: the command line serves one site, and
//! its path is an operand.

use super::file::Table;
use super::{Change, Default, Directive, Kind, Level};

/// In the order of the reference.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "hosts",
        short: None,
        verbs: &[],
        file: Some(Table::Site.key("hosts")),
        level: Level::Site,
        kind: Kind::Host,
        repeatable: true,
        default: Default::Auto("every host that no other site names"),
        change: Change::Live,
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
        level: Level::Site,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Required,
        change: Change::Live,
        brief: "The folder or the archive to serve",
        long: "",
    },
];

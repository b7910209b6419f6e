//! The flags of the verbs that look into an archive.

use super::verbs::Verb;
use super::{Change, Default, Directive, Kind, Level};

/// In the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "coding",
        short: None,
        verbs: &[Verb::Cat],
        file: None,
        level: Level::Command,
        kind: Kind::Choice(&["identity", "gzip", "br", "zstd"]),
        repeatable: false,
        default: Default::Value("identity"),
        change: Change::Restart,
        brief: "Which stored form of the body to write",
        long: "",
    },
    Directive {
        name: "json",
        short: None,
        verbs: &[
            Verb::Build,
            Verb::Cat,
            Verb::Check,
            Verb::Inspect,
            Verb::Ls,
            Verb::Verify,
            Verb::Version,
        ],
        file: None,
        level: Level::Command,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: Change::Restart,
        brief: "Write one JSON document to stdout",
        long: "It is one document whatever happens: after a failure it has a member `error`. The \
               shapes are stable: members are added, never renamed or removed.",
    },
];

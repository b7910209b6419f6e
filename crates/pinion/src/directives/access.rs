//! Who may request a part of a site, and how often. It stands in a configuration file alone.

use super::file::Table;
use super::{Change, Default, Directive, Group, Kind, Level};

/// A row of the table `[[site.access]]`, with what all of them have in common.
const fn row(name: &'static str, key: &'static str, kind: Kind) -> Directive {
    Directive {
        name,
        short: None,
        verbs: &[],
        file: Some(Table::Access.key(key)),
        group: Group::Site,
        level: Level::Site,
        kind,
        repeatable: false,
        default: Default::Nothing("not set"),
        change: Change::Live,
        brief: "",
        long: "",
    }
}

/// In the order of the reference.
pub(crate) const ROWS: &[Directive] = &[Directive {
    default: Default::Value("/"),
    brief: "The path that the table is about, with all paths below it",
    long: "",
    ..row("access-path", "path", Kind::UrlPath)
}];

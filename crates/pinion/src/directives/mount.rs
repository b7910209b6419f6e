//! The parts of a site that other servers respond to. Their options stand in a configuration file
//! alone; the flag `--proxy` is the short form.

use super::file::Table;
use super::{Change, Default, Directive, Group, Kind, Level};

/// A row of the table `[[site.mount]]`, with what all of them have in common.
const fn row(name: &'static str, key: &'static str, kind: Kind) -> Directive {
    Directive {
        name,
        short: None,
        verbs: &[],
        file: Some(Table::Mount.key(key)),
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
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        default: Default::Value("/"),
        brief: "The path that is forwarded, with all paths below it",
        long: "The longest path counts. `/` forwards what no file of the site responds to; any \
               other path is forwarded whatever files there are.",
        ..row("mount-path", "path", Kind::UrlPath)
    },
    Directive {
        default: Default::Required,
        brief: "The server that requests are forwarded to",
        long: "",
        ..row("mount-proxy", "proxy", Kind::UpstreamUrl)
    },
    Directive {
        default: Default::Value("60"),
        brief: "Longest silence of a server that requests are forwarded to",
        long: "Counts until the first byte of the response, and then between two parts of it.",
        ..row("mount-timeout", "timeout", Kind::Number { min: 1, max: 86_400, unit: "seconds" })
    },
];

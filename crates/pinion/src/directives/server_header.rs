//! The flag about the header `Server` of responses.

use super::config_file_tables::Table;
use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[Directive {
    name: "server-name",
    short: None,
    verbs: &[Verb::Serve],
    file: Some(Table::Server.key("server-name")),
    group: DirectiveGroup::Network,
    level: DirectiveLevel::Server,
    kind: Kind::FieldValue,
    repeatable: false,
    default: Default::Nothing("no Server header"),
    change: TakesEffect::Restart,
    brief: "Send a Server header with this value",
    long: "",
}];

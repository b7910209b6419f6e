//! The flags of the request that `pinion why` explains the response to.

use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

const WHY: &[Verb] = &[Verb::Why];

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "method",
        short: Some('X'),
        verbs: WHY,
        file: None,
        group: DirectiveGroup::Request,
        level: DirectiveLevel::Command,
        kind: Kind::Method,
        repeatable: false,
        default: Default::Value("GET"),
        change: TakesEffect::Restart,
        brief: "The method of the request",
        long: "",
    },
    Directive {
        name: "header",
        short: Some('H'),
        verbs: WHY,
        file: None,
        group: DirectiveGroup::Request,
        level: DirectiveLevel::Command,
        kind: Kind::Header,
        repeatable: true,
        default: Default::Nothing("only Host, from the URL"),
        change: TakesEffect::Restart,
        brief: "A header of the request, such as 'Accept-Encoding: br'",
        long: "`Host` replaces the host of the URL. Headers about the connection or about the body \
               of a request, such as `Connection` and `Content-Length`, are refused.",
    },
];

//! The flags about the Lua scripts of a site.

use super::config_file_tables::Table;
use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

const SERVE: &[Verb] = &[Verb::Serve];
pub(super) const SERVE_AND_RUN: &[Verb] = &[Verb::Serve, Verb::Run];
pub(super) const SERVE_RUN_AND_WHY: &[Verb] = &[Verb::Serve, Verb::Run, Verb::Why];

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "dev",
        short: None,
        verbs: SERVE,
        file: Some(Table::Site.key("dev")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief: "For development: reload pages in the browser, and show errors there",
        long: "Includes --watch. Pages reload in the browser when the site has changed, and show \
               why it cannot be loaded or why a script has failed, with lines of the source. Only \
               browsers on this machine get that, at localhost, a name below it or a loopback \
               address. Do not use it with a proxy on this machine that does not send \
               X-Forwarded-For or a similar header: all its clients would get it.",
    },
    Directive {
        name: "lua-cpu",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("lua-cpu")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Number { min: 1, max: 600_000, unit: "milliseconds" },
        repeatable: false,
        default: Default::Auto("200"),
        change: TakesEffect::Live,
        brief: "The CPU time limit of a request in Lua",
        long: "A request that takes more is stopped with the response 500. While Lua code runs, \
               other requests of its worker wait. Background work may take as much, and at \
               least 1000 ms.",
    },
    Directive {
        name: "lua-memory",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("lua-memory")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Number { min: 1, max: 1 << 16, unit: "MiB" },
        repeatable: false,
        default: Default::Auto("32, less with little memory"),
        change: TakesEffect::Live,
        brief: "The memory limit of a request in Lua",
        long: "A request that needs more is stopped with the response 500; if its response has \
               begun, the connection is closed. What the script keeps between requests does not \
               count. At most --lua-vm-memory.",
    },
    Directive {
        name: "lua-vm-memory",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("lua-vm-memory")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Number { min: 1, max: 1 << 16, unit: "MiB" },
        repeatable: false,
        default: Default::Auto("256, less with little memory"),
        change: TakesEffect::Live,
        brief: "The most memory that Lua may take in each worker",
        long: "It covers all requests of a site and what its script keeps. A request that needs \
               more is stopped with the response 500.",
    },
    Directive {
        name: "lua-time",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("lua-time")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Number { min: 1, max: 86_400, unit: "seconds" },
        repeatable: false,
        default: Default::Auto("30"),
        change: TakesEffect::Live,
        brief: "The time limit of a request in Lua, including waiting",
        long: "A request that takes longer is stopped with the response 503; if its response has \
               begun, the connection is closed. \
               Not counted are up to ten minutes for the request body, and waits for a client that \
               reads slowly, five minutes at a time and one hour in total. The time starts again \
               with each piece of a streamed response, and a route can set its own. Background \
               work may take as long, and at least 600 seconds.",
    },
    Directive {
        name: "lua-unsafe",
        short: None,
        verbs: SERVE_RUN_AND_WHY,
        file: Some(Table::Site.key("lua-unsafe")),
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief: "Turn off the sandbox: scripts get files, programs and C libraries",
        long: "Opens all of os, io, debug and package, bytecode, and in LuaJIT ffi; `require` \
               finds modules of the system too. A script can then do whatever the server can, and \
               crash it; a malicious script can get around the limits above. A call that reads a \
               file or waits for a program blocks every request of its worker.",
    },
];

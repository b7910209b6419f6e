//! The flags about the Lua scripts of a site.

use super::file::Table;
use super::verbs::Verb;
use super::{Change, Default, Directive, Kind, Level};

const SERVE: &[Verb] = &[Verb::Serve];
pub(super) const SERVE_AND_RUN: &[Verb] = &[Verb::Serve, Verb::Run];

/// In the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "dev",
        short: None,
        verbs: SERVE,
        file: Some(Table::Site.key("dev")),
        level: Level::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: Change::Live,
        brief: "For development: reload pages in the browser, and show errors there",
        long: "As --watch. Pages reload in the browser when the site has changed, and show why it \
               cannot be loaded or why a script has failed, with lines of the source. Only \
               browsers on this machine get that, at localhost, a name below it or a loopback \
               address; a proxy on this machine that hides whose requests it passes on shows it \
               to others.",
    },
    Directive {
        name: "lua-cpu",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("lua-cpu")),
        level: Level::Site,
        kind: Kind::Number { min: 1, max: 600_000, unit: "milliseconds" },
        repeatable: false,
        default: Default::Auto("200; no limit for `pinion run`"),
        change: Change::Live,
        brief: "The most CPU that a request may take in Lua",
        long: "Other requests of its worker wait meanwhile. Work beside requests may take as much, \
               and 1000 ms at least.",
    },
    Directive {
        name: "lua-memory",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("lua-memory")),
        level: Level::Site,
        kind: Kind::Number { min: 1, max: 1 << 16, unit: "MiB" },
        repeatable: false,
        default: Default::Auto("32; no limit for `pinion run`"),
        change: Change::Live,
        brief: "The most memory that a request may take in Lua",
        long: "Beside what the script keeps; at most --lua-vm-memory.",
    },
    Directive {
        name: "lua-vm-memory",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("lua-vm-memory")),
        level: Level::Site,
        kind: Kind::Number { min: 1, max: 1 << 16, unit: "MiB" },
        repeatable: false,
        default: Default::Auto("256; no limit for `pinion run`"),
        change: Change::Live,
        brief: "The most memory that Lua may take in each worker",
        long: "For all requests of a site and for what its script keeps.",
    },
    Directive {
        name: "lua-time",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("lua-time")),
        level: Level::Site,
        kind: Kind::Number { min: 1, max: 86_400, unit: "seconds" },
        repeatable: false,
        default: Default::Auto("30; no limit for `pinion run`"),
        change: Change::Live,
        brief: "How long a request may take in Lua, whatever it waits for",
        long: "Not counted are up to ten minutes in which the request body arrives, and up to an \
               hour in which the client reads the response, five minutes at a time. The time \
               starts again with each piece of a streamed response, and a route can set its own. \
               Background work may take as long, and at least 600 seconds.",
    },
    Directive {
        name: "lua-unsafe",
        short: None,
        verbs: SERVE_AND_RUN,
        file: Some(Table::Site.key("lua-unsafe")),
        level: Level::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: Change::Live,
        brief: "Trust the scripts with the machine: files, programs, C",
        long: "Opens all of os, io, debug and package, bytecode, and in LuaJIT ffi; `require` \
               finds modules of the system too. A script can then do whatever the server can, \
               and crash it; the limits above do not stop one that wants to get around them. What \
               reads a file or waits for a program holds up every request of its worker.",
    },
];

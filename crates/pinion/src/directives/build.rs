//! The flags of a build. `pinion serve FOLDER` builds too and takes those that make sense there.

use super::config_file_tables::{Key, Table};
use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

const BUILD_AND_SERVE: &[Verb] = &[Verb::Build, Verb::Serve, Verb::Why];
const BUILD_CHECK_AND_SERVE: &[Verb] = &[Verb::Build, Verb::Check, Verb::Serve, Verb::Why];
/// The verbs that make an archive.
const MAKE_AND_SERVE: &[Verb] = &[Verb::Build, Verb::Import, Verb::Serve, Verb::Why];
/// The verbs that go through all contents of an archive.
const WRITE: &[Verb] = &[Verb::Build, Verb::Extract, Verb::Import];

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "output",
        short: Some('o'),
        verbs: WRITE,
        file: None,
        group: DirectiveGroup::Output,
        level: DirectiveLevel::Build,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Required,
        change: TakesEffect::Restart,
        brief: "The archive to write",
        long: "It is written under another name in the same folder, synced to the disk and then \
               renamed, so that the name always leads to a complete archive. A symbolic link to an \
               archive stays, and its target is replaced.",
    },
    Directive {
        name: "force",
        short: None,
        verbs: WRITE,
        file: None,
        group: DirectiveGroup::Output,
        level: DirectiveLevel::Build,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "Replace the output even if it is not an archive",
        long: "Without it only an archive or an empty file is replaced. A folder, a pipe, a \
               socket or a device is never replaced.",
    },
    Directive {
        name: "report",
        short: None,
        verbs: &[Verb::Build],
        file: None,
        group: DirectiveGroup::Output,
        level: DirectiveLevel::Build,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Nothing("no report"),
        change: TakesEffect::Restart,
        brief: "Write an HTML page about the sizes of the site",
        long: "One HTML file that needs no network: a map of the folders, bytes by type, what each \
               coding saves, equal files, the largest pages with what they load. It replaces an \
               earlier report or an empty file, and any other file only with --force.",
    },
    Directive {
        name: "codings",
        short: None,
        verbs: MAKE_AND_SERVE,
        file: Some(Table::Site.key("codings")),
        group: DirectiveGroup::Compression,
        level: DirectiveLevel::Build,
        kind: Kind::Codings,
        repeatable: false,
        default: Default::Auto("gzip,br"),
        change: TakesEffect::Live,
        brief: "The content codings to store with each file, such as gzip and br",
        long: "A level may follow each name (gzip:12,br:11,zstd:19); without one, --level applies. \
               `zopfli` makes the smallest gzip, slowly. A coding is stored only if it saves \
               enough to be worth its space. `identity` stores the files without compression.",
    },
    Directive {
        name: "level",
        short: None,
        verbs: MAKE_AND_SERVE,
        file: Some(Table::Site.key("level")),
        group: DirectiveGroup::Compression,
        level: DirectiveLevel::Build,
        kind: Kind::Choice(&["fast", "best", "max"]),
        repeatable: false,
        default: Default::Auto("best"),
        change: TakesEffect::Live,
        brief: "The level of compression",
        long: "fast is gzip:1,br:4; best is gzip:6,br:6; max is gzip:12,br:11 and takes about \
               forty times as long as best. It applies to the codings of --codings that have no \
               level.",
    },
    Directive {
        name: "codings-for",
        short: None,
        verbs: MAKE_AND_SERVE,
        file: Some(Table::Site.key("codings-for")),
        group: DirectiveGroup::Compression,
        level: DirectiveLevel::Build,
        kind: Kind::GlobCodings,
        repeatable: true,
        default: Default::Nothing("no pattern"),
        change: TakesEffect::Live,
        brief: "Other content codings for files that match",
        long: "The pattern is written like one of --exclude, the list like that of --codings: \
               '*.svg=zopfli,br:11', 'downloads/**=identity'. If several match, the last one \
               applies. The codings are tried even for types that are compressed already.",
    },
    Directive {
        name: "reuse",
        short: None,
        verbs: &[Verb::Build],
        file: None,
        group: DirectiveGroup::Earlier,
        level: DirectiveLevel::Build,
        kind: Kind::Path,
        repeatable: true,
        default: Default::Auto("the archive that is replaced"),
        change: TakesEffect::Restart,
        brief: "Also take compressed bodies from this archive",
        long: "Bodies with the same content, coding and level are copied instead of compressed \
               again. If the output does not exist yet, the stat file beside this archive shows \
               which files need not be read. The archive that is written does not depend on it.",
    },
    Directive {
        name: "previous",
        short: None,
        verbs: &[Verb::Build],
        file: None,
        group: DirectiveGroup::Earlier,
        level: DirectiveLevel::Build,
        kind: Kind::Path,
        repeatable: true,
        default: Default::Nothing("no archive"),
        change: TakesEffect::Restart,
        brief: "Keep the assets of this archive that the folder no longer has",
        long: "Files whose names change with their content (main.min.0f3c5a7b9d1e2f40.js) stay \
               under their paths, so that a page that was loaded before a release still finds what \
               it loads. Files of the folder have precedence.",
    },
    Directive {
        name: "previous-keep",
        short: None,
        verbs: &[Verb::Build],
        file: None,
        group: DirectiveGroup::Earlier,
        level: DirectiveLevel::Build,
        kind: Kind::Number { min: 1, max: 1000, unit: "" },
        repeatable: false,
        default: Default::Value("5"),
        change: TakesEffect::Restart,
        brief: "For how many builds an asset of an earlier archive stays",
        long: "Counted from the last build whose folder had it.",
    },
    Directive {
        name: "previous-for",
        short: None,
        verbs: &[Verb::Build],
        file: None,
        group: DirectiveGroup::Earlier,
        level: DirectiveLevel::Build,
        kind: Kind::Glob,
        repeatable: true,
        default: Default::Nothing("no pattern"),
        change: TakesEffect::Restart,
        brief: "Also keep matching files of earlier archives",
        long: "The pattern is written like one of --exclude: '*.woff2', 'fonts/**'. It adds to the \
               names that change with their content.",
    },
    Directive {
        name: "no-reuse",
        short: None,
        verbs: &[Verb::Build],
        file: None,
        group: DirectiveGroup::Earlier,
        level: DirectiveLevel::Build,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "Read and compress everything again",
        long: "Neither the archive that is replaced nor its stat file is used.",
    },
    Directive {
        name: "exclude",
        short: None,
        verbs: BUILD_AND_SERVE,
        file: Some(Table::Site.key("exclude")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Build,
        kind: Kind::Glob,
        repeatable: true,
        default: Default::Nothing("no pattern"),
        change: TakesEffect::Live,
        brief: "Leave out paths that match",
        long: "A pattern without a slash is compared with names at any depth (*.psd), one with a \
               slash with the path below the folder (drafts/**).",
    },
    Directive {
        name: "include",
        short: None,
        verbs: BUILD_AND_SERVE,
        file: Some(Table::Site.key("include")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Build,
        kind: Kind::Glob,
        repeatable: true,
        default: Default::Nothing("no pattern"),
        change: TakesEffect::Live,
        brief: "Publish matching paths that are left out by default",
        long: "Hidden files (.htaccess) and leftovers (*.log, *~) are left out because of their \
               names; a pattern, written like one of --exclude, publishes them. A folder that \
               matches is published with all that is in it. Code, private files and rules files \
               are never published, and --exclude wins over --include.",
    },
    Directive {
        name: "compat",
        short: None,
        verbs: BUILD_AND_SERVE,
        file: Some(Table::Site.key("compat")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::Choice(&["80s"]),
        repeatable: false,
        default: Default::Auto("80s if main.lua loads aio.aio"),
        change: TakesEffect::Live,
        brief: "Read the folder as another server does; 80s is a Lua web server",
        long: "With `80s` a file below a folder static/, at any depth, is not a page, whatever its \
               name: static/a.dyn.html is sent unchanged.",
    },
    named_file(
        "rules",
        "More redirects and rewrites, in a file like _redirects",
        "Its lines count as if they were at the end of the `_redirects` at the root of the folder. \
         For rules that a site generator would overwrite, and for rules that sites share.",
    ),
    named_file(
        "fields",
        "More response headers, in a file like _headers",
        "Its lines count as if they were at the end of the `_headers` at the root of the folder. \
         For headers that a site generator would overwrite, and for headers that sites share.",
    ),
    Directive {
        name: "lax-rules",
        short: None,
        verbs: BUILD_CHECK_AND_SERVE,
        file: Some(Table::Site.key("lax-rules")),
        group: DirectiveGroup::Responses,
        level: DirectiveLevel::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief: "Ignore invalid lines of rules files, with a warning for each",
        long: "For `_redirects` and `_headers` that were written for another host, which silently \
               ignores what it does not support. Without it every such line is an error, and \
               nothing is built.",
    },
    Directive {
        name: "cache-control",
        short: None,
        verbs: BUILD_AND_SERVE,
        file: Some(Table::Site.key("cache-control")),
        group: DirectiveGroup::Responses,
        level: DirectiveLevel::Site,
        kind: Kind::FieldValue,
        repeatable: false,
        default: Default::Auto("a year for fingerprinted names, else max-age=0, must-revalidate"),
        change: TakesEffect::Live,
        brief: "The Cache-Control header of files without a fingerprint",
        long: "A name with a fingerprint of its content (main.min.0f3c5a7b9d1e2f40.js) is cached \
               for a year whatever you set here, and a not-found page is never stored. A build \
               prints which names have a fingerprint.",
    },
    Directive {
        name: "immutable",
        short: None,
        verbs: BUILD_AND_SERVE,
        file: Some(Table::Site.key("immutable")),
        group: DirectiveGroup::Responses,
        level: DirectiveLevel::Site,
        kind: Kind::Glob,
        repeatable: true,
        default: Default::Nothing("no pattern"),
        change: TakesEffect::Live,
        brief: "Cache matching files for a year; their names must change with content",
        long: "Clients cache matching files for a year without asking again, which you cannot \
               undo. The pattern is written like one of --exclude and adds to the names that are \
               recognised as those of a build tool. --previous keeps such files too.",
    },
    switch(
        "no-cache-control",
        Some(Table::Site.key("cache-control")),
        "Leave Cache-Control out of every response",
        "Values from `_headers` stay. Clients then decide how long they cache a response.",
    ),
    switch(
        "no-index",
        Some(Table::Site.key("index")),
        "Do not serve index.html for /folder/",
        "By default, /folder/ serves the index.html in it, or a similar name.",
    ),
    switch(
        "listing",
        Some(Table::Site.key("listing")),
        "List the files of folders without an index page",
        "A web page, or JSON for clients whose Accept prefers application/json. Only what is \
         published is listed. With --no-index every folder is listed.",
    ),
    switch(
        "no-clean-urls",
        Some(Table::Site.key("clean-urls")),
        "Serve pages only with their extension: /about.html, not /about",
        "By default, /about serves about.html.",
    ),
    switch(
        "no-slash-redirects",
        Some(Table::Site.key("slash-redirects")),
        "Do not add or remove the slash at the end of a path by a redirect",
        "By default, /folder redirects to /folder/ (308), and /about/ to /about, if only that \
         exists.",
    ),
    switch(
        "no-etag",
        Some(Table::Site.key("etag")),
        "Leave ETag out of every response",
        "Clients then revalidate by the modification time.",
    ),
    Directive {
        name: "single-page",
        short: None,
        verbs: BUILD_AND_SERVE,
        file: Some(Table::Site.key("single-page")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind: Kind::SiteFile,
        repeatable: false,
        default: Default::Nothing("404 for what does not exist"),
        change: TakesEffect::Live,
        brief: "The page of a single-page app, for URLs that do not exist",
        long: "A path below the folder, such as index.html. Only navigations in a browser get it \
               (Sec-Fetch-Mode: navigate, or Accept names text/html); a missing style sheet or \
               image stays 404. It has precedence over a not-found page.",
    },
    Directive {
        name: "no-security-headers",
        short: None,
        verbs: MAKE_AND_SERVE,
        file: Some(Table::Site.key("security-headers")),
        group: DirectiveGroup::Responses,
        level: DirectiveLevel::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief: "Do not send the security headers",
        long: "They are X-Content-Type-Options: nosniff, Referrer-Policy: \
               strict-origin-when-cross-origin and X-Frame-Options: SAMEORIGIN.",
    },
    Directive {
        name: "keep-going",
        short: None,
        verbs: &[Verb::Build, Verb::Extract, Verb::Serve, Verb::Why],
        file: Some(Table::Site.key("keep-going")),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Build,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief: "Skip files that cannot be read",
        long: "Without it every such file is reported, and nothing is written.",
    },
    Directive {
        name: "jobs",
        short: Some('j'),
        verbs: MAKE_AND_SERVE,
        file: Some(Table::Site.key("jobs")),
        group: DirectiveGroup::Compression,
        level: DirectiveLevel::Build,
        kind: Kind::Number { min: 1, max: 1024, unit: "" },
        repeatable: false,
        default: Default::Auto("one for each core"),
        change: TakesEffect::Live,
        brief: "The number of threads that compress",
        long: "It does not change the archive.",
    },
];

/// Returns the row of a file that a site reads beside the files of its folder.
const fn named_file(name: &'static str, brief: &'static str, long: &'static str) -> Directive {
    Directive {
        name,
        short: None,
        verbs: BUILD_CHECK_AND_SERVE,
        file: Some(Table::Site.key(name)),
        group: DirectiveGroup::Responses,
        level: DirectiveLevel::Site,
        kind: Kind::Path,
        repeatable: true,
        default: Default::Nothing("no file"),
        change: TakesEffect::Live,
        brief,
        long,
    }
}

/// Returns a switch of a site.
const fn switch(
    name: &'static str,
    file: Option<Key>,
    brief: &'static str,
    long: &'static str,
) -> Directive {
    Directive {
        name,
        short: None,
        verbs: BUILD_AND_SERVE,
        file,
        group: DirectiveGroup::Responses,
        level: DirectiveLevel::Site,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Live,
        brief,
        long,
    }
}

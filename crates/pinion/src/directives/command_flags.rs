//! The flags of the verbs that look into an archive, or into the program.

use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

/// Verbs that may ask a running server.
const SOCKET: &[Verb] =
    &[Verb::Status, Verb::Reload, Verb::Stop, Verb::Drain, Verb::ReopenLogs, Verb::Why];

/// The verbs with `--json`.
const JSON: &[Verb] = &[
    Verb::Build,
    Verb::Cat,
    Verb::Check,
    Verb::Diff,
    Verb::Drain,
    Verb::Extract,
    Verb::Import,
    Verb::Inspect,
    Verb::Ls,
    Verb::Publish,
    Verb::Releases,
    Verb::Reload,
    Verb::ReopenLogs,
    Verb::Rollback,
    Verb::Status,
    Verb::Stop,
    Verb::Verify,
    Verb::Version,
    Verb::Why,
];

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "coding",
        short: None,
        verbs: &[Verb::Cat],
        file: None,
        group: DirectiveGroup::Output,
        level: DirectiveLevel::Command,
        kind: Kind::Choice(&["identity", "gzip", "br", "zstd"]),
        repeatable: false,
        default: Default::Value("identity"),
        change: TakesEffect::Restart,
        brief: "The content coding in which to write the body",
        long: "",
    },
    Directive {
        name: "exit-code",
        short: None,
        verbs: &[Verb::Diff],
        file: None,
        group: DirectiveGroup::Output,
        level: DirectiveLevel::Command,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "Exit with 1 if the archives differ",
        long: "Without it the exit code is 0 whether or not there are differences.",
    },
    Directive {
        name: "keep",
        short: None,
        verbs: &[Verb::Publish],
        file: None,
        group: DirectiveGroup::Releases,
        level: DirectiveLevel::Command,
        kind: Kind::Number { min: 1, max: 1000, unit: "" },
        repeatable: false,
        default: Default::Value("5"),
        change: TakesEffect::Restart,
        brief: "How many releases to keep",
        long: "The current one, those on the way back from it, then those that were current last. \
               The current one and the one before it are always kept.",
    },
    Directive {
        name: "remote-pinion",
        short: None,
        verbs: &[Verb::Publish, Verb::Releases, Verb::Rollback],
        file: None,
        group: DirectiveGroup::Releases,
        level: DirectiveLevel::Command,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Value("pinion"),
        change: TakesEffect::Restart,
        brief: "The program to run on the other machine",
        long: "For an ssh:// folder, if the shell there does not find `pinion`.",
    },
    Directive {
        name: "sbom",
        short: None,
        verbs: &[Verb::Version],
        file: None,
        group: DirectiveGroup::Output,
        level: DirectiveLevel::Command,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "List the components of the program (SBOM)",
        long: "Every crate and C library that is linked into it or takes part in its build, with \
               version and licence. With `--json` it is a software bill of materials in CycloneDX, \
               with checksums and dependencies.",
    },
    Directive {
        name: "unproven",
        short: None,
        verbs: &[Verb::Publish],
        file: None,
        group: DirectiveGroup::Lua,
        level: DirectiveLevel::Command,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "Do not run the Lua code of the archive before it becomes current",
        long: "Without it the main script of a dynamic site is run once before the switch, in the \
               sandbox and within the usual limits. Use it if the server gives the script more \
               with the --lua- flags, and the script needs that to start.",
    },
    Directive {
        name: "socket",
        short: None,
        verbs: SOCKET,
        file: None,
        group: DirectiveGroup::Process,
        level: DirectiveLevel::Command,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Auto("the only server that is found"),
        change: TakesEffect::Restart,
        brief: "The control socket of the server",
        long: "The value of its --control. Without it, the server is looked for in the folders for \
               such sockets.",
    },
    Directive {
        name: "json",
        short: None,
        verbs: JSON,
        file: None,
        group: DirectiveGroup::Output,
        level: DirectiveLevel::Command,
        kind: Kind::Switch,
        repeatable: false,
        default: Default::Off,
        change: TakesEffect::Restart,
        brief: "Write one JSON document to stdout",
        long: "A failure also gives one JSON document, with a member `error`. Members are added \
               in later versions, but never renamed or removed.",
    },
];

//! The programs that a server keeps running. They stand in a configuration file alone: a command
//! line would have to quote another command line.

use super::config_file_tables::Table;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

/// Returns a row of the table `[[program]]`, with the properties that all of them share.
const fn row(name: &'static str, key: &'static str, kind: Kind) -> Directive {
    Directive {
        name,
        short: None,
        verbs: &[],
        file: Some(Table::Program.key(key)),
        group: DirectiveGroup::Process,
        level: DirectiveLevel::Server,
        kind,
        repeatable: false,
        default: Default::Nothing("not set"),
        change: TakesEffect::Live,
        brief: "",
        long: "",
    }
}

/// The rows, in the order of the reference.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        default: Default::Required,
        brief: "The name of the program in the log and in `pinion status`",
        long: "Each program has another name.",
        ..row("program-name", "name", Kind::ProgramName)
    },
    Directive {
        repeatable: true,
        default: Default::Required,
        brief: "The absolute path of the program, and its arguments",
        long: "No shell is involved: quotes, `*` and `$NAME` have no special meaning. For a shell \
               write `[\"/bin/sh\", \"-c\", \"...\"]`. The program must stay in the foreground.",
        ..row("program-command", "command", Kind::Argument)
    },
    Directive {
        default: Default::Auto("the user of the server"),
        brief: "The user that the program runs as",
        long: "A name or a number of `/etc/passwd`; a number that is not there needs `group`. \
               `HOME`, `USER` and `LOGNAME` are set for it. Another user than that of the server \
               needs root or the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL.",
        ..row("program-user", "user", Kind::Account)
    },
    Directive {
        default: Default::Auto("the group of the user"),
        brief: "The group that the program runs as",
        long: "",
        ..row("program-group", "group", Kind::Account)
    },
    Directive {
        repeatable: true,
        default: Default::Auto("the groups that have the user as a member"),
        brief: "The supplementary groups of the program",
        long: "",
        ..row("program-groups", "groups", Kind::Account)
    },
    Directive {
        default: Default::Nothing("no root directory"),
        brief: "The root directory of the program",
        long: "`command` and `directory` are paths below it. It needs root or the capability \
               CAP_SYS_CHROOT.",
        ..row("program-chroot", "chroot", Kind::AbsolutePath)
    },
    Directive {
        default: Default::Value("/"),
        brief: "The working directory of the program",
        long: "",
        ..row("program-directory", "directory", Kind::AbsolutePath)
    },
    Directive {
        default: Default::Auto("that of the server"),
        brief: "The nice value of the program",
        long: "A higher value leaves more CPU time to others. One below that of the server needs \
               root or the capability CAP_SYS_NICE.",
        ..row("program-nice", "nice", Kind::Nice)
    },
    Directive {
        default: Default::Auto("that of the server"),
        brief: "The most files that a process of the program may have open",
        long: "RLIMIT_NOFILE of setrlimit(2).",
        ..row(
            "program-limit-open-files",
            "limits.open-files",
            Kind::Number { min: 3, max: 1 << 30, unit: "" },
        )
    },
    Directive {
        default: Default::Auto("that of the server"),
        brief: "The most memory of its own that a process of the program may have",
        long: "RLIMIT_DATA of setrlimit(2): memory that it can write to. Shared memory, mapped \
               files and address space that is only reserved do not count.",
        ..row("program-limit-memory", "limits.memory", Kind::Size)
    },
    Directive {
        default: Default::Auto("that of the server"),
        brief: "The most processes and threads that the user of the program may have",
        long: "RLIMIT_NPROC of setrlimit(2). It counts all processes of the user, and does not \
               apply to root.",
        ..row(
            "program-limit-processes",
            "limits.processes",
            Kind::Number { min: 1, max: 1 << 22, unit: "" },
        )
    },
    Directive {
        default: Default::Auto("that of the server"),
        brief: "The CPU time after which a process of the program is killed",
        long: "RLIMIT_CPU of setrlimit(2). The program is started again.",
        ..row(
            "program-limit-cpu-seconds",
            "limits.cpu-seconds",
            Kind::Number { min: 1, max: 1 << 31, unit: "seconds" },
        )
    },
    Directive {
        repeatable: true,
        default: Default::Auto("`PATH`, `LANG=C.UTF-8` and `TMPDIR`, if the server has that"),
        brief: "Variables of the environment of the program",
        long: "They are added to the default ones, or replace them. Nothing else of the \
               environment of the server is passed on.",
        ..row("program-environment", "environment", Kind::Variable)
    },
    Directive {
        default: Default::Value("SIGTERM"),
        brief: "The signal that asks the program to stop",
        long: "",
        ..row("program-stop-signal", "stop-signal", Kind::Choice(STOP_SIGNALS))
    },
    Directive {
        default: Default::Value("10"),
        brief: "The time from the stop signal until the program is killed",
        long: "",
        ..row(
            "program-stop-timeout",
            "stop-timeout",
            Kind::Number { min: 0, max: 600, unit: "seconds" },
        )
    },
];

/// Signals that end a program, or that programs take as a wish to stop.
const STOP_SIGNALS: &[&str] =
    &["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGABRT", "SIGKILL"];

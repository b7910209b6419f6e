//! The end of the help and of the manual page of a verb, and of the program: examples, signals,
//! files, environment, exit status.

use super::verbs::Verb;

/// Entries of one section: the subject of each, and a sentence about it.
pub(crate) type Entries = &'static [(&'static str, &'static str)];

/// One section with its title, in capitals as in a manual page.
#[derive(Debug)]
pub(crate) struct ManualSection {
    pub(crate) title: &'static str,
    pub(crate) entries: Entries,
}

/// The title of commands to try; a test runs all of them.
pub(crate) const EXAMPLES: &str = "EXAMPLES";

/// Returns the sections of a verb, examples first.
pub(crate) fn sections(verb: Verb) -> Vec<ManualSection> {
    let mut sections = vec![ManualSection { title: EXAMPLES, entries: examples(verb) }];
    let more: &[(&str, Entries)] = match verb {
        Verb::Serve => &[(SIGNALS, SERVE_SIGNALS), (FILES, SERVE_FILES), (ENVIRONMENT, SERVED)],
        Verb::Store => &[(SIGNALS, STORE_SIGNALS), (FILES, STORE_FILES), (ENVIRONMENT, STORED)],
        Verb::Build => &[(SIGNALS, BUILD_SIGNALS), (FILES, BUILD_FILES), (ENVIRONMENT, BUILT)],
        Verb::Check => &[(FILES, CHECK_FILES), (ENVIRONMENT, CHECKED)],
        Verb::Why => &[(FILES, WHY_FILES), (ENVIRONMENT, EXPLAINED)],
        Verb::Run => &[(SIGNALS, RUN_SIGNALS), (ENVIRONMENT, &[MASTER_KEY])],
        Verb::Publish => &[(FILES, RELEASE_FILES), (ENVIRONMENT, PUBLISHED)],
        Verb::Rollback => &[(FILES, RELEASE_FILES), (ENVIRONMENT, SWITCHED)],
        Verb::Releases => &[(FILES, RELEASE_FILES), (ENVIRONMENT, &[NO_COLOR])],
        Verb::Status | Verb::Reload | Verb::Stop | Verb::Drain | Verb::ReopenLogs => {
            &[(FILES, CONTROL_FILES), (ENVIRONMENT, CONTROLLED)]
        }
        _ => &[],
    };
    sections.extend(more.iter().map(|&(title, entries)| ManualSection { title, entries }));
    sections.push(ManualSection { title: EXIT_STATUS, entries: exit_status(verb) });
    sections
}

fn exit_status(verb: Verb) -> Entries {
    match verb {
        Verb::Check => &[NO_ERRORS, FAILURE, (WRONG, "There are errors, a line for each.")],
        Verb::Diff => {
            &[DONE, (FAILED, "It failed, or --exit-code was given and they differ."), USED]
        }
        Verb::Run => &[
            DONE,
            (FAILED, "The script has failed, or could not be read."),
            USED,
            ("others", "What the script has given to `pinion.exit`."),
        ],
        Verb::Serve => &[
            (SUCCESS, "Stopped by SIGTERM, SIGINT or `pinion stop`."),
            (FAILED, "It could not start: a site, an address or a file."),
            (WRONG, "The command line, the configuration or a rule is wrong."),
        ],
        Verb::Store => &[
            (SUCCESS, "Stopped by SIGTERM, SIGINT or `pinion stop`."),
            (FAILED, "It could not start: an address or a file."),
            (WRONG, "The command line is wrong."),
        ],
        Verb::Build => &[DONE, FAILURE, (WRONG, "The command line or a rule is wrong.")],
        Verb::Import => &[
            DONE,
            (FAILED, "It failed, or it is done and lets in requests that were refused."),
            (WRONG, "The command line is wrong."),
        ],
        Verb::Why => &[
            (SUCCESS, "There is a response, whatever its status."),
            (FAILED, "The source cannot be loaded, or no server runs; stderr says why."),
            (WRONG, "The command line, the URL, the configuration or a rule is wrong."),
        ],
        Verb::Verify => {
            &[(SUCCESS, "Nothing is damaged."), (FAILED, "Something is damaged."), USED]
        }
        _ => &[DONE, FAILURE, USED],
    }
}

/// Returns the sections of the program itself.
pub(crate) fn program_sections() -> [ManualSection; 5] {
    [
        ManualSection { title: EXAMPLES, entries: PROGRAM_EXAMPLES },
        ManualSection { title: SIGNALS, entries: SERVE_SIGNALS },
        ManualSection { title: FILES, entries: SERVE_FILES },
        ManualSection { title: ENVIRONMENT, entries: SERVED },
        ManualSection { title: EXIT_STATUS, entries: PROGRAM_EXIT_STATUS },
    ]
}

const SIGNALS: &str = "SIGNALS";
const FILES: &str = "FILES";
const ENVIRONMENT: &str = "ENVIRONMENT";
const EXIT_STATUS: &str = "EXIT STATUS";

const SUCCESS: &str = "0";
const FAILED: &str = "1";
const WRONG: &str = "2";

const DONE: (&str, &str) = (SUCCESS, "Done.");
const NO_ERRORS: (&str, &str) = (SUCCESS, "No errors; there may be warnings.");
const FAILURE: (&str, &str) = (FAILED, "It failed; stderr says why.");
const USED: (&str, &str) = (WRONG, "The command line is wrong.");

/// The exit status of all verbs together.
const PROGRAM_EXIT_STATUS: Entries = &[
    (SUCCESS, "Done, or stopped by a signal as asked."),
    (FAILED, "It failed, `verify` found damage, or `diff --exit-code` found differences."),
    (WRONG, "The command line, the configuration or a rule is wrong."),
];

/// They work in the folder of [`examples`], in this order.
const PROGRAM_EXAMPLES: Entries = &[
    ("pinion public", "Serve a folder on port 8080 of this machine, as `pinion serve` does."),
    ("pinion check public", "Find errors in the rules and names of a folder."),
    ("pinion build public -o site.pinion", "Compile a folder into an archive."),
    ("pinion publish site.pinion live", "Publish the archive into the release folder `live`."),
    ("pinion serve live --listen :80", "Serve the current release on all addresses."),
];

const SERVE_SIGNALS: Entries = &[
    ("SIGHUP", "Read the configuration again, load changed sites and reopen the logs."),
    ("SIGUSR1", "Reopen the logs, for logrotate."),
    (
        "SIGUSR2",
        "Ignored. nginx replaces its program on it; here, restart the service to run a new one.",
    ),
    (
        "SIGTERM, SIGINT",
        "Finish open requests, for at most --grace seconds, and stop. A second signal closes the \
         remaining connections.",
    ),
];

const STORE_SIGNALS: Entries = &[
    ("SIGHUP", "Load the certificates again. The data stays."),
    (
        "SIGTERM, SIGINT",
        "Finish commands that run, for at most --grace seconds, and stop. A second signal closes \
         the remaining connections.",
    ),
];

const RUN_SIGNALS: Entries = &[
    (
        "SIGTERM",
        "Let the script finish, for at most --grace seconds; schedules do not run again. A \
         second signal ends it at once.",
    ),
    ("SIGINT", "End the script at once."),
];

const BUILD_SIGNALS: Entries = &[(
    "SIGINT, SIGTERM",
    "End the build at once. An existing output stays as it was, and the next build removes what \
     this one leaves.",
)];

const CONFIGURATION: (&str, &str) =
    ("pinion.toml", "The configuration, if no PATH is given; see pinion.toml(5).");
const RULES: (&str, &str) = ("_redirects, _headers", "Rules of a site, at the root of its folder.");
const MAIN: (&str, &str) = ("main.lua", "The script of a site, at the root of its folder.");
const STATE: (&str, &str) = (
    "~/.local/state/pinion",
    "The state folder: self-signed certificates and the keys of QUIC; see --state.",
);
const CURRENT: (&str, &str) =
    ("DIR/current.pinion", "A link to the release that `pinion serve DIR` serves.");

const SERVE_FILES: Entries = &[CONFIGURATION, RULES, MAIN, CURRENT, STATE];

const STORE_FILES: Entries =
    &[("~/.local/state/pinion", "The state folder: self-signed certificates; see --state.")];

const CHECK_FILES: Entries = &[CONFIGURATION, RULES, MAIN];

const BUILD_FILES: Entries = &[
    RULES,
    MAIN,
    (
        ".NAME.stat",
        "The stat file beside the archive NAME: which files of the folder are unchanged and need \
         not be read by the next build.",
    ),
];

const RELEASE_FILES: Entries = &[
    CURRENT,
    ("DIR/releases/", "The releases that are kept, each named by its digest."),
    ("DIR/log", "A line for each switch: time, digest, publish or rollback, user."),
    ("DIR/.lock", "Locked during a switch."),
];

const CONTROL_FILES: Entries = &[SOCKETS];

const WHY_FILES: Entries = &[CONFIGURATION, RULES, MAIN, SOCKETS];

const SOCKETS: (&str, &str) = (
    "$RUNTIME_DIRECTORY/control/, $XDG_RUNTIME_DIR/pinion/, /run/pinion/control/, \
     /run/pinion-apps/control/",
    "Where servers are looked for: pinion.sock, and pinion-PID.sock for each further one.",
);

const MASTER_KEY: (&str, &str) = (
    "MASTER_KEY",
    "The secret for encrypted links and `pinion.crypto.key`: at least 16 bytes, or base64 after \
     `b64:`. Without it every start makes a new one, and earlier links and tokens become \
     invalid. For a service, set it in an EnvironmentFile that only root can read.",
);
const SOURCE_DATE_EPOCH: (&str, &str) = (
    "SOURCE_DATE_EPOCH",
    "Seconds since 1970: files of a site with a later modification time get this one.",
);
const NO_COLOR: (&str, &str) =
    ("NO_COLOR", "Any value except an empty one turns colours off; `TERM=dumb` does too.");
const USERS: (&str, &str) = (
    "SUDO_USER, USER, LOGNAME",
    "The user in the log of the release folder: the first of them that has a value.",
);
const SSH_CONNECTION: (&str, &str) =
    ("SSH_CONNECTION", "The address of the user in that log; sshd sets it.");

/// The environment of `pinion serve`, and of the program.
const SERVED: Entries = &[
    ("PUBLIC_HTML", "The site to serve, if no PATH is given."),
    MASTER_KEY,
    ("RELOAD", "`true` is the same as --watch."),
    PASSED_SOCKETS,
    NOTIFICATIONS,
    STATE_FOLDERS,
    CONTROL_FOLDERS,
    ("TMPDIR", "Where large uploads are stored while they arrive; /tmp if it is not set."),
    SOURCE_DATE_EPOCH,
    NO_COLOR,
];

/// The environment of `pinion store`.
const STORED: Entries = &[PASSED_SOCKETS, NOTIFICATIONS, STATE_FOLDERS, CONTROL_FOLDERS, NO_COLOR];

const PASSED_SOCKETS: (&str, &str) =
    ("LISTEN_FDS, LISTEN_FDNAMES", "Sockets from the service manager, for fd:NAME.");
const NOTIFICATIONS: (&str, &str) =
    ("NOTIFY_SOCKET, WATCHDOG_USEC", "Where and how often the service manager gets notices.");
const STATE_FOLDERS: (&str, &str) =
    ("STATE_DIRECTORY, XDG_STATE_HOME", "Where the state folder is; systemd sets the first.");
const CONTROL_FOLDERS: (&str, &str) = (
    "RUNTIME_DIRECTORY, XDG_RUNTIME_DIR",
    "Where the control socket is; systemd sets both, the first for a service.",
);

/// The environment of commands for a running server.
const CONTROLLED: Entries = &[SOCKET_FOLDERS, NO_COLOR];

const SOCKET_FOLDERS: (&str, &str) =
    ("RUNTIME_DIRECTORY, XDG_RUNTIME_DIR", "Where the control socket is.");

/// The environment of `pinion why`, which runs the script of a site once, or asks a running server.
const EXPLAINED: Entries = &[MASTER_KEY, SOURCE_DATE_EPOCH, SOCKET_FOLDERS, NO_COLOR];

/// The environment of `pinion build`.
const BUILT: Entries = &[SOURCE_DATE_EPOCH, NO_COLOR];

/// The environment of `pinion check`, which runs the scripts of a site once.
const CHECKED: Entries = &[MASTER_KEY, SOURCE_DATE_EPOCH, NO_COLOR];

/// The environment of `pinion publish`, which runs the scripts of the archive once.
const PUBLISHED: Entries = &[MASTER_KEY, USERS, SSH_CONNECTION, NO_COLOR];

/// The environment of `pinion rollback`.
const SWITCHED: Entries = &[USERS, SSH_CONNECTION, NO_COLOR];

const STORE_EXAMPLES: Entries = &[
    ("pinion store", "Start a store on port 6379 of this machine."),
    ("pinion store unix:store.sock", "Start one on a Unix socket."),
    (
        "pinion store :6379 --store-password password",
        "Start one that other machines can reach, with the password in a file.",
    ),
];

/// Returns commands that work in a folder with a site `public`, another version of it in `next`, a
/// script and the results of the examples of earlier verbs.
pub(crate) fn examples(verb: Verb) -> Entries {
    match verb {
        Verb::Build => &[
            ("pinion build public -o site.pinion", "Compile a folder into an archive."),
            (
                "pinion build next -o next.pinion --level max --previous site.pinion",
                "Compress as well as possible, and keep the assets of the release before.",
            ),
        ],
        Verb::Serve => &[
            ("pinion serve public", "Serve a folder on port 8080 of this machine."),
            ("pinion serve site.pinion --listen :80", "Serve an archive on all addresses."),
            (
                "pinion serve public --tls 127.0.0.1:8443 --quic 127.0.0.1:8443",
                "Add HTTPS and HTTP/3 with a self-signed certificate.",
            ),
            ("pinion serve pinion.toml", "Serve all sites of a configuration."),
        ],
        Verb::Store => STORE_EXAMPLES,
        Verb::Check => &[
            ("pinion check pinion.toml", "Find errors before a reload."),
            ("pinion check public", "Find errors in the rules and names of a folder."),
        ],
        Verb::Inspect => &[("pinion inspect site.pinion", "Show counts, sizes and savings.")],
        Verb::Ls => &[("pinion ls site.pinion --json", "List all paths, for a program.")],
        Verb::Cat => &[("pinion cat site.pinion /index.html", "Show the content of a path.")],
        Verb::Diff => &[
            ("pinion diff site.pinion next.pinion", "Show which responses differ."),
            ("pinion diff site.pinion site.pinion --exit-code", "Fail if any response differs."),
        ],
        Verb::Extract => &[(
            "pinion extract site.pinion -o copy",
            "Write the files of an archive into a new folder.",
        )],
        Verb::Import => &[
            ("pinion import old.cdb -o imported.pinion", "Convert an archive of kawipiko."),
            ("pinion import uwsgi.ini", "Make a pinion.toml of a configuration of uWSGI."),
        ],
        Verb::Verify => &[("pinion verify site.pinion", "Check every byte of an archive.")],
        Verb::Publish => &[
            ("pinion publish site.pinion live", "Publish into the release folder `live`."),
            (
                "pinion publish next.pinion ssh://deploy@www.example.org/srv/live",
                "Publish on another machine.",
            ),
        ],
        Verb::Releases => &[("pinion releases live", "List the releases, the current one marked.")],
        Verb::Rollback => &[("pinion rollback live", "Go back to the release before.")],
        Verb::Run => &[("pinion run script.lua", "Run a script.")],
        Verb::Status => &[
            ("pinion status", "Show all servers of this user."),
            ("pinion status --json", "Show them for a program."),
        ],
        Verb::Reload => &[("pinion reload", "Load changes, and see their errors.")],
        Verb::Stop => &[("pinion stop", "Stop the server, and wait until it has ended.")],
        Verb::Drain => &[("pinion drain", "Let open downloads finish, and wait for that.")],
        Verb::ReopenLogs => &[("pinion reopen-logs", "Write to new log files after a rotation.")],
        Verb::Man => &[("pinion man serve", "Write the manual page of `pinion serve`.")],
        Verb::Completions => &[("pinion completions bash", "Write the completions for bash.")],
        Verb::Why => &[
            ("pinion why public /about", "Explain the response of a folder to a path."),
            (
                "pinion why pinion.toml http://example.org/ -H Accept-Encoding:br",
                "Explain that of the site of a host, to a client that accepts Brotli.",
            ),
            ("pinion why /about", "Explain the response that the running server gives."),
        ],
        Verb::Version => &[("pinion version --json", "Show the build, for a program.")],
    }
}

//! What help and the manual show of a verb after its flags: examples, signals, files, environment.

use super::verbs::Verb;

/// Entries of one section: what it is about, and a sentence about it.
pub(crate) type Entries = &'static [(&'static str, &'static str)];

/// One section with its title, in capitals as in a manual page.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) entries: Entries,
}

/// The title of commands to try; a test runs all of them.
pub(crate) const EXAMPLES: &str = "EXAMPLES";

/// The sections of a verb, examples first.
pub(crate) fn sections(verb: Verb) -> Vec<Section> {
    let mut sections = vec![Section { title: EXAMPLES, entries: examples(verb) }];
    let more: &[(&str, Entries)] = match verb {
        Verb::Serve => &[("SIGNALS", SIGNALS), ("FILES", FILES), ("ENVIRONMENT", ENVIRONMENT)],
        Verb::Build | Verb::Check => &[("FILES", SITE_FILES), ("ENVIRONMENT", BUILD_ENVIRONMENT)],
        Verb::Run => &[("ENVIRONMENT", SCRIPT_ENVIRONMENT)],
        _ => &[],
    };
    sections.extend(more.iter().map(|&(title, entries)| Section { title, entries }));
    sections
}

const SIGNALS: Entries = &[
    ("SIGHUP", "Reads the configuration again, loads changed sites and reopens the logs."),
    ("SIGUSR1", "Reopens the logs, for logrotate."),
    (
        "SIGTERM, SIGINT",
        "Finish open requests, for at most --grace seconds, and stop. A second signal closes the \
         remaining connections.",
    ),
];

const FILES: Entries = &[
    ("pinion.toml", "The configuration, if no PATH is given; see pinion.toml(5)."),
    ("_redirects, _headers", "Rules of a site, at the root of its folder."),
    ("main.lua", "The script of a site, at the root of its folder."),
    (
        "~/.local/state/pinion",
        "The state folder: self-signed certificates and the keys of QUIC; see --state.",
    ),
];

const ENVIRONMENT: Entries = &[
    ("PUBLIC_HTML", "The site, if no PATH is given."),
    ("MASTER_KEY", "The key for encrypted links of pages; base64 after `b64:`."),
    ("RELOAD", "`true` is the same as --watch."),
    ("STATE_DIRECTORY, XDG_STATE_HOME", "Where the state folder is; systemd sets the first."),
    ("TMPDIR", "Where large uploads are stored while they arrive; /tmp if it is not set."),
    ("SOURCE_DATE_EPOCH", "The latest modification time of files in a site, in seconds."),
    ("NO_COLOR", "Any value turns colours off."),
];

const SITE_FILES: Entries = &[
    ("_redirects, _headers", "Rules of a site, at the root of its folder."),
    ("main.lua", "The script of a site, at the root of its folder."),
];

const BUILD_ENVIRONMENT: Entries = &[
    ("SOURCE_DATE_EPOCH", "The latest modification time of files in a site, in seconds."),
    ("NO_COLOR", "Any value turns colours off."),
];

const SCRIPT_ENVIRONMENT: Entries =
    &[("MASTER_KEY", "The key for encrypted links of pages; base64 after `b64:`.")];

/// Commands that work in a folder with a site `public`, another version of it in `next`, a script
/// and what the examples of verbs before this one have made.
fn examples(verb: Verb) -> Entries {
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
        Verb::Import => {
            &[("pinion import old.cdb -o imported.pinion", "Convert an archive of kawipiko.")]
        }
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
        Verb::Man => &[("pinion man serve", "Write the manual page of `pinion serve`.")],
        Verb::Completions => &[("pinion completions bash", "Write the completions for bash.")],
        Verb::Version => &[("pinion version --json", "Show the build, for a program.")],
    }
}

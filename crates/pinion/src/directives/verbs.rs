//! The verbs and their operands (the arguments without a dash).

/// A verb: the task that the program is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// A folder becomes an archive.
    Build,
    /// One body goes to stdout.
    Cat,
    /// Reports the faults in a configuration.
    Check,
    /// Writes the completions of command lines for a shell.
    Completions,
    /// Shows the differences between the responses of two archives.
    Diff,
    /// A running server ends with its last connection.
    Drain,
    /// An archive becomes a folder again.
    Extract,
    /// An archive or a configuration of another server becomes one of ours.
    Import,
    /// Shows the content of an archive, in figures.
    Inspect,
    /// The paths of an archive.
    Ls,
    /// A page of the manual.
    Man,
    /// Makes an archive the one that is served.
    Publish,
    /// Lists the releases that can be served, and the one that is.
    Releases,
    /// A running server loads everything again.
    Reload,
    /// A running server opens its log files again.
    ReopenLogs,
    /// Makes an earlier archive the one that is served.
    Rollback,
    /// A script runs to its end.
    Run,
    /// Answer requests.
    Serve,
    /// Shows the status of running servers.
    Status,
    /// A running server ends.
    Stop,
    /// Serve a store to clients of Redis, without a site.
    Store,
    /// Check every hash of an archive.
    Verify,
    /// Which build of the program this is.
    Version,
    /// Explains why a request gets its response.
    Why,
}

/// One verb.
#[derive(Debug)]
pub(crate) struct VerbRow {
    /// The verb.
    pub(crate) verb: Verb,
    /// The text as written.
    pub(crate) name: &'static str,
    /// The operands, in the order in which they are written.
    pub(crate) operands: &'static [Operand],
    /// One line, no full stop.
    pub(crate) brief: &'static str,
    /// Whole sentences.
    pub(crate) long: &'static str,
}

/// One operand.
#[derive(Debug)]
pub(crate) struct Operand {
    /// The name in capitals, as in the usage line.
    pub(crate) name: &'static str,
    /// Must be given.
    pub(crate) required: bool,
    /// Can be given more than once.
    pub(crate) repeated: bool,
    /// One line, no full stop.
    pub(crate) brief: &'static str,
}

const ARCHIVE: Operand =
    Operand { name: "FILE", required: true, repeated: false, brief: "An archive" };
const RELEASE_FOLDER: Operand = Operand {
    name: "DIR",
    required: true,
    repeated: false,
    brief: "A release folder, here or at ssh://[user@]host[:port]/DIR",
};

/// The operand that takes all further words, with or without a dash.
pub(crate) const REST: &str = "ARGS";

/// Every verb, in the order of the help.
pub(crate) const ALL: &[VerbRow] = &[
    VerbRow {
        verb: Verb::Serve,
        name: "serve",
        operands: &[Operand {
            name: "PATH",
            required: false,
            repeated: false,
            brief: "A folder, an archive, a release folder, a Lua script or a configuration \
                    (.toml); default: $PUBLIC_HTML, else ./pinion.toml, else ./public",
        }],
        brief: "Serve a folder, an archive, or the sites of a configuration file",
        long: "Serves a folder, an archive, or all sites of a configuration file. A folder is \
               first built into an archive in memory. Flags override the configuration file. \
               SIGHUP reads the file again, loads new archives, rebuilds folders and reopens the \
               access logs; SIGTERM and SIGINT finish open requests and stop.",
    },
    VerbRow {
        verb: Verb::Build,
        name: "build",
        operands: &[Operand {
            name: "SRC",
            required: true,
            repeated: false,
            brief: "The folder to build",
        }],
        brief: "Build an archive from a folder",
        long: "Reads the folder SRC and writes one immutable archive for `pinion serve`. The \
               archive appears under its name complete or not at all. The same input gives the \
               same bytes.",
    },
    VerbRow {
        verb: Verb::Check,
        name: "check",
        operands: &[Operand {
            name: "PATH",
            required: false,
            repeated: false,
            brief: "A configuration file, a folder, an archive or a Lua script; default: \
                    ./pinion.toml",
        }],
        brief: "Check a configuration or a folder for errors",
        long: "Checks the keys and values of a configuration file, and what they name: folders and \
               their files can be read, their rules are correct, archives open, addresses are \
               valid. Of a folder the files and rules are checked. Scripts are run once, and no \
               server is started. Every error is a line with file, line and column on stdout, and \
               the exit code is 2; warnings, such as those about rules without effect, are on \
               stderr.",
    },
    VerbRow {
        verb: Verb::Run,
        name: "run",
        operands: &[
            Operand { name: "SCRIPT", required: true, repeated: false, brief: "A Lua file" },
            Operand {
                name: REST,
                required: false,
                repeated: true,
                brief: "Arguments of the script, its table `arg`; flags go before SCRIPT",
            },
        ],
        brief: "Run a Lua script to its end",
        long: "The script has the functions of scripts of a site, without a listener, and may wait \
               anywhere. Its output goes to stdout. It ends when it has no more work: \
               `pinion.every` and `pinion.cron` keep it running until it is interrupted or calls \
               `pinion.exit(code)`. The exit code is 1 if anything has failed.",
    },
    VerbRow {
        verb: Verb::Store,
        name: "store",
        operands: &[Operand {
            name: "ADDRESS",
            required: false,
            repeated: true,
            brief: "Where clients of Redis find the store: host:port, [v6]:port, :port for all \
                    addresses, unix:/path; default: 127.0.0.1:6379",
        }],
        brief: "Serve a store of keys and values to clients of Redis, without a site",
        long: "Keeps keys and values in memory and speaks the protocol of Redis. There is no site \
               and no listener for HTTP. All data is lost when the server stops. SIGTERM and \
               SIGINT finish commands that run, and stop.",
    },
    VerbRow {
        verb: Verb::Status,
        name: "status",
        operands: &[],
        brief: "Show what running servers serve and how much they use",
        long: "Shows every server whose control socket this user can reach, or that of --socket: \
               its listeners, sites, connections, requests and their latency, memory, child \
               processes and certificates.",
    },
    VerbRow {
        verb: Verb::Reload,
        name: "reload",
        operands: &[],
        brief: "Load the configuration and the sites of a running server again",
        long: "Does what SIGHUP does, waits until it is done, and shows what was loaded. Every \
               error is a line on stderr as `pinion check` shows it; what cannot be loaded stays \
               as it was, and the exit code is 1.",
    },
    VerbRow {
        verb: Verb::Stop,
        name: "stop",
        operands: &[],
        brief: "Stop a running server",
        long: "Does what SIGTERM does, and waits until the server has ended: it takes no new \
               connections, and open requests have the time of its --grace to finish.",
    },
    VerbRow {
        verb: Verb::Drain,
        name: "drain",
        operands: &[],
        brief: "Stop a running server after its last request",
        long: "Is like `pinion stop`, but open requests may take as long as they need. `pinion \
               stop` sets the limit later.",
    },
    VerbRow {
        verb: Verb::ReopenLogs,
        name: "reopen-logs",
        operands: &[],
        brief: "Let a running server open its log files again",
        long: "Does what SIGUSR1 does: call it after the files were renamed.",
    },
    VerbRow {
        verb: Verb::Publish,
        name: "publish",
        operands: &[
            Operand {
                name: "FILE",
                required: true,
                repeated: false,
                brief: "An archive; - for one on stdin",
            },
            Operand {
                name: "DIR",
                required: true,
                repeated: false,
                brief: "The release folder, or ssh://[user@]host[:port]/DIR",
            },
        ],
        brief: "Publish an archive as a new release",
        long: "Copies the archive into the release folder DIR, verifies every byte of it, and \
               makes it current in one step: `pinion serve DIR` loads it at once, and no request \
               fails. If anything goes wrong, the previous release stays current. A folder that \
               does not exist is created. For another machine, the ssh of this system runs the \
               `pinion` there.",
    },
    VerbRow {
        verb: Verb::Releases,
        name: "releases",
        operands: &[RELEASE_FOLDER],
        brief: "List the releases of a folder",
        long: "The current release is marked. The column `back` has the number for `pinion \
               rollback`.",
    },
    VerbRow {
        verb: Verb::Rollback,
        name: "rollback",
        operands: &[
            RELEASE_FOLDER,
            Operand {
                name: "N",
                required: false,
                repeated: false,
                brief: "How many releases to go back, or the first digits of one; default: 1",
            },
        ],
        brief: "Make an earlier release current again",
        long: "Goes back to the release that was current before, or further; `pinion releases` \
               shows how far each one is. Nothing is removed: to go forward again, give the digest \
               of a release in place of N.",
    },
    VerbRow {
        verb: Verb::Inspect,
        name: "inspect",
        operands: &[ARCHIVE],
        brief: "Show the counts, sizes and savings of an archive",
        long: "",
    },
    VerbRow {
        verb: Verb::Ls,
        name: "ls",
        operands: &[ARCHIVE],
        brief: "List the paths of an archive",
        long: "",
    },
    VerbRow {
        verb: Verb::Cat,
        name: "cat",
        operands: &[
            ARCHIVE,
            Operand {
                name: "URLPATH",
                required: true,
                repeated: false,
                brief: "A path as `pinion ls` shows it: /index.html",
            },
        ],
        brief: "Write the body of one path to stdout",
        long: "",
    },
    VerbRow {
        verb: Verb::Diff,
        name: "diff",
        operands: &[
            Operand { name: "A", required: true, repeated: false, brief: "The current archive" },
            Operand { name: "B", required: true, repeated: false, brief: "The next archive" },
        ],
        brief: "Compare the responses of two archives",
        long: "Lists every path that is new in B, gone, or answered differently: its status, the \
               target of a redirect, the size of its content, its codings and its headers. \
               Contents are compared by their digests. Paths that differ only in the modification \
               time are counted and not listed.",
    },
    VerbRow {
        verb: Verb::Extract,
        name: "extract",
        operands: &[ARCHIVE],
        brief: "Extract an archive to a folder",
        long: "Writes the files of the site with their modification times into a folder that is \
               new or empty, so that a build of it with the same flags gives the same archive. The \
               folder appears under its name complete or not at all. If a path cannot be the name \
               of a file, it is reported, and nothing is written.",
    },
    VerbRow {
        verb: Verb::Import,
        name: "import",
        operands: &[Operand {
            name: "FILE",
            required: true,
            repeated: false,
            brief: "An archive of kawipiko (.cdb), or a configuration of NGINX Unit (.json) or \
                    uWSGI (.ini)",
        }],
        brief: "Convert a file of kawipiko, NGINX Unit or uWSGI",
        long: "The name of FILE says what it is. A .json or .ini file becomes a pinion.toml in the \
               current folder, or the file that -o names; a file that exists is replaced only with \
               --force. FILE.ini:SECTION reads another section than [uwsgi]. What cannot be \
               carried is printed with its place, and is a comment in the new file. If requests \
               that were refused are let in without it, its line begins with OPEN, and the exit \
               status is 1. Of a .cdb file, contents, media types, Cache-Control, redirects, pages \
               of whole folders and folder listings are converted. Contents are decoded and \
               compressed again, and get new entity tags.",
    },
    VerbRow {
        verb: Verb::Why,
        name: "why",
        operands: &[
            Operand {
                name: "SOURCE",
                required: false,
                repeated: false,
                brief: "What `pinion serve` would serve: a folder, an archive, a release folder, a \
                        Lua script or a configuration (.toml); default: a running server is asked",
            },
            Operand {
                name: "URL",
                required: true,
                repeated: false,
                brief: "The URL, such as http://example.org/about, or only its path",
            },
        ],
        brief: "Explain the response that a URL gets",
        long: "Prints which site, file, rule or route responds to a request for URL, what was \
               tried before it and why that did not respond, and where the status and each header \
               come from. With SOURCE, no server is needed, and none is started: a folder is built \
               in memory as `pinion serve` builds it. Without SOURCE, the server that runs, or \
               that of --socket, explains what it serves now. Handlers of scripts are found and \
               not called. For a configuration and for a running server, scheme and port of the \
               URL select the listener, and its host the site.",
    },
    VerbRow {
        verb: Verb::Verify,
        name: "verify",
        operands: &[ARCHIVE],
        brief: "Check every hash of an archive",
        long: "Reads the whole archive and reports everything that is damaged; the exit code is 1 \
               if anything is.",
    },
    VerbRow {
        verb: Verb::Man,
        name: "man",
        operands: &[Operand {
            name: "PAGE",
            required: false,
            repeated: false,
            brief: "A command, or pinion.toml; default: the page of the program",
        }],
        brief: "Write a manual page to stdout",
        long: "Pipe a page to `man -l -` to read it. To install one, write it to a file: `pinion \
               man serve` to pinion-serve.1, `pinion man pinion.toml` to pinion.toml.5.",
    },
    VerbRow {
        verb: Verb::Completions,
        name: "completions",
        operands: &[Operand {
            name: "SHELL",
            required: true,
            repeated: false,
            brief: "bash, zsh or fish",
        }],
        brief: "Write the completions for a shell to stdout",
        long: "",
    },
    VerbRow {
        verb: Verb::Version,
        name: "version",
        operands: &[],
        brief: "Show the version and the build of the program",
        long: "",
    },
];

impl Operand {
    /// Returns its name as a usage line has it: `FILE`, `[PATH]`, `[ADDRESS]...`.
    pub(crate) fn usage(&self) -> String {
        let name = if self.required { self.name.to_owned() } else { format!("[{}]", self.name) };
        if self.repeated { name + "..." } else { name }
    }
}

impl Verb {
    /// Returns the verb's row.
    pub(crate) fn row(self) -> &'static VerbRow {
        // The test below proves that every verb has one.
        ALL.iter().find(|row| row.verb == self).unwrap_or(&ALL[0])
    }

    /// Returns the verb of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        ALL.iter().find(|row| row.name == name).map(|row| row.verb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_one_row_of_its_name() {
        for row in ALL {
            assert_eq!(Verb::named(row.name), Some(row.verb));
            assert_eq!(row.verb.row().name, row.name);
        }
        assert_eq!(Verb::named("serv"), None);
    }

    #[test]
    fn an_operand_that_may_be_missing_is_the_last() {
        // `pinion why URL` reads best with the source before it, as with all other verbs.
        for row in ALL.iter().filter(|row| row.verb != Verb::Why) {
            let optional = row.operands.iter().position(|operand| !operand.required);
            assert!(optional.is_none_or(|at| at + 1 == row.operands.len()), "{}", row.name);
        }
    }

    #[test]
    fn a_repeated_operand_is_the_last() {
        for row in ALL {
            let repeated = row.operands.iter().position(|operand| operand.repeated);
            assert!(repeated.is_none_or(|at| at + 1 == row.operands.len()), "{}", row.name);
        }
    }
}

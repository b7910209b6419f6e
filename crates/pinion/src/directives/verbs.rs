//! The verbs and their operands (what stands without a dash).

/// What the program is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// A folder becomes an archive.
    Build,
    /// One body goes to stdout.
    Cat,
    /// What an archive holds, in figures.
    Inspect,
    /// The paths of an archive.
    Ls,
    /// Answer requests.
    Serve,
    /// Check every hash of an archive.
    Verify,
    /// Which build of the program this is.
    Version,
}

/// One verb.
#[derive(Debug)]
pub(crate) struct VerbRow {
    /// The verb.
    pub(crate) verb: Verb,
    /// As it is written.
    pub(crate) name: &'static str,
    /// In the order in which they are written.
    pub(crate) operands: &'static [Operand],
    /// One line, no full stop.
    pub(crate) brief: &'static str,
    /// Whole sentences.
    pub(crate) long: &'static str,
}

/// One operand.
#[derive(Debug)]
pub(crate) struct Operand {
    /// In capitals, as in the usage line.
    pub(crate) name: &'static str,
    /// Must be given.
    pub(crate) required: bool,
    /// One line, no full stop.
    pub(crate) brief: &'static str,
}

const ARCHIVE: Operand = Operand { name: "FILE", required: true, brief: "An archive" };

/// Every verb, in the order of the help.
pub(crate) const ALL: &[VerbRow] = &[
    VerbRow {
        verb: Verb::Build,
        name: "build",
        operands: &[Operand { name: "SRC", required: true, brief: "The folder to build" }],
        brief: "Make one archive of a folder",
        long: "Reads the folder SRC and writes one immutable archive that `pinion serve` \
               answers from. The archive appears under its name complete or not at all. The same \
               input gives the same bytes.",
    },
    VerbRow {
        verb: Verb::Serve,
        name: "serve",
        operands: &[Operand {
            name: "PATH",
            required: false,
            brief: "A folder or an archive; without it ./public",
        }],
        brief: "Serve a folder or an archive",
        long: "Answers HTTP requests from an archive, or from a folder that is built into an \
               archive in memory first. SIGHUP takes up a new archive or rebuilds the folder, and \
               reopens the access log; SIGTERM and SIGINT finish what is running and stop.",
    },
    VerbRow {
        verb: Verb::Inspect,
        name: "inspect",
        operands: &[ARCHIVE],
        brief: "Show what an archive holds, in figures",
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
                brief: "A path as `pinion ls` shows it: /index.html",
            },
        ],
        brief: "Write one body of an archive to stdout",
        long: "",
    },
    VerbRow {
        verb: Verb::Verify,
        name: "verify",
        operands: &[ARCHIVE],
        brief: "Check every hash of an archive",
        long: "Reads the whole archive and names everything that is damaged; exit 1 if anything \
               is.",
    },
    VerbRow {
        verb: Verb::Version,
        name: "version",
        operands: &[],
        brief: "Show which build of pinion this is",
        long: "",
    },
];

impl Verb {
    /// The verb's row.
    pub(crate) fn row(self) -> &'static VerbRow {
        // The test below proves that every verb has one.
        ALL.iter().find(|row| row.verb == self).unwrap_or(&ALL[0])
    }

    /// The verb of this name.
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
        for row in ALL {
            let optional = row.operands.iter().position(|operand| !operand.required);
            assert!(optional.is_none_or(|at| at + 1 == row.operands.len()), "{}", row.name);
        }
    }
}

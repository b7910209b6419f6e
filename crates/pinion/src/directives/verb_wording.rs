//! The name and the texts of a flag under one verb, where they differ from its row: an `--output`
//! is an archive for `pinion build` and a folder for `pinion extract`.

use super::verbs::Verb;
use super::{Default, Directive};

/// The texts of a flag under one verb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wording {
    /// The word that stands for the value.
    pub(crate) placeholder: &'static str,
    /// One line, no full stop.
    pub(crate) brief: &'static str,
    /// Whole sentences, or nothing.
    pub(crate) long: &'static str,
    /// Its default.
    pub(crate) default: Default,
}

impl Directive {
    /// Returns the texts of its flag under a verb.
    pub(crate) fn wording(&self, verb: Verb) -> Wording {
        let own = EXCEPTIONS.iter().find(|own| own.verb == verb && own.name == self.name);
        Wording {
            placeholder: own
                .and_then(|own| own.placeholder)
                .unwrap_or_else(|| self.kind.placeholder()),
            brief: own.and_then(|own| own.brief).unwrap_or(self.brief),
            long: own.and_then(|own| own.long).unwrap_or(self.long),
            default: own.and_then(|own| own.default).unwrap_or(self.default),
        }
    }
}

/// Appends the sentences that are not empty.
pub(crate) fn push_sentences<const N: usize>(text: &mut String, sentences: [&str; N]) {
    for more in sentences.into_iter().filter(|more| !more.is_empty()) {
        text.push(' ');
        text.push_str(more);
    }
}

/// The texts that are different under one verb.
struct Exception {
    verb: Verb,
    name: &'static str,
    placeholder: Option<&'static str>,
    brief: Option<&'static str>,
    long: Option<&'static str>,
    default: Option<Default>,
}

/// Returns a flag of a verb of which everything is as in its row.
const fn same(verb: Verb, name: &'static str) -> Exception {
    Exception { verb, name, placeholder: None, brief: None, long: None, default: None }
}

/// Returns a limit of `pinion run`.
const fn run_limit(name: &'static str, brief: &'static str, long: &'static str) -> Exception {
    Exception {
        brief: Some(brief),
        long: Some(long),
        default: Some(Default::Nothing("no limit")),
        ..same(Verb::Run, name)
    }
}

/// Returns a flag of `pinion store` that says something else about a site.
const fn of_store(name: &'static str, brief: &'static str, long: &'static str) -> Exception {
    Exception { brief: Some(brief), ..of_store_long(name, long) }
}

/// Returns a flag of `pinion store` whose sentences are about a site otherwise.
const fn of_store_long(name: &'static str, long: &'static str) -> Exception {
    Exception { long: Some(long), ..same(Verb::Store, name) }
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        placeholder: Some("DIR"),
        brief: Some("The folder to write"),
        long: Some(
            "It has to be new or empty. It is written under another name beside it and then \
             renamed, so that the name always leads to a complete folder.",
        ),
        ..same(Verb::Extract, "output")
    },
    Exception {
        brief: Some("Write into a folder that is not empty"),
        long: Some("Files of the same names are replaced, all others stay."),
        ..same(Verb::Extract, "force")
    },
    Exception {
        brief: Some("Skip paths that cannot be written as files"),
        long: Some("Without it every such path is reported, and nothing is written."),
        ..same(Verb::Extract, "keep-going")
    },
    Exception {
        long: Some("Without it every such file is reported, and the site is not loaded."),
        ..same(Verb::Serve, "keep-going")
    },
    Exception { default: Some(Default::Auto("fast")), ..same(Verb::Serve, "level") },
    run_limit(
        "lua-cpu",
        "The CPU time limit of the script",
        "A script that takes more ends with an error. Less than 1000 ms counts as 1000 ms.",
    ),
    run_limit(
        "lua-memory",
        "The memory limit of the script",
        "A script that needs more ends with an error. At most --lua-vm-memory.",
    ),
    run_limit(
        "lua-vm-memory",
        "The most memory that Lua may take",
        "It covers the script and all its background work.",
    ),
    run_limit(
        "lua-time",
        "The time limit of the script, including waiting",
        "A script that takes longer ends with an error. Less than 600 seconds count as 600 \
         seconds.",
    ),
    Exception {
        long: Some(
            "Opens all of os, io, debug and package, bytecode, and in LuaJIT ffi; `require` finds \
             modules of the system too. A script can then do whatever you can, and crash the \
             program; a malicious script can get around the limits above.",
        ),
        ..same(Verb::Run, "lua-unsafe")
    },
    Exception {
        brief: Some("How long the script may go on after SIGTERM"),
        long: Some("Then it is ended."),
        ..same(Verb::Run, "grace")
    },
    Exception {
        long: Some(
            "`pinion.secret(\"NAME\")` returns what the file contains, without the end of its last \
             line.",
        ),
        ..same(Verb::Run, "secret")
    },
    Exception {
        default: Some(Default::Auto("127.0.0.1:6379, unless there is another address")),
        ..of_store_long(
            "store",
            "It is the same as ADDRESS. A port alone listens on every address of the machine, IPv4 \
             and IPv6. `fd:NAME` is a socket from the service manager, by the name that its unit \
             gives it. Each listener is printed on stderr as one line, `listening URL`. An address \
             that other machines can reach needs --store-password.",
        )
    },
    of_store_long(
        "store-tls",
        "TLS 1.2 and 1.3. Without --cert the certificate is self-signed, and --client-ca applies.",
    ),
    of_store_long("store-memory", "`CONFIG SET maxmemory` changes it while the server runs."),
    of_store_long(
        "tls-self",
        "Without `--cert` the server makes a certificate at the first start and keeps it in the \
         state folder. Each start prints its SHA-256, for clients that need to trust it.",
    ),
    of_store_long(
        "client-ca",
        "A PEM file with one or more certificates. It applies to every --store-tls.",
    ),
    of_store(
        "state",
        "The folder for certificates that the server creates",
        "The server creates the folder for its own user only; an existing folder keeps its mode.",
    ),
    of_store_long(
        "proxy-protocol",
        "Connections from this address or network must begin with a header of the PROXY protocol, \
         version 1 or 2, before TLS and the first command; others from there are closed. The \
         address in it is then that of the client: in `CLIENT LIST`, and for the limit of \
         connections per client. Connections from other addresses keep their own address, and are \
         closed if they send such a header. unix stands for all clients of Unix sockets.",
    ),
    of_store(
        "workers",
        "How many worker threads execute commands",
        "Only cores that this process may use count: CPU affinity and cgroup limits apply. \
         Commands that take long run on two more threads.",
    ),
    of_store(
        "grace",
        "How long to wait for commands that run after SIGTERM",
        "Then they are cut off.",
    ),
    of_store_long(
        "stats",
        "Connections and memory now; rates of processor time, context switches, page faults and \
         disk traffic since the previous line. The last line is printed at the end.",
    ),
    of_store_long(
        "max-connections",
        "If none is free, new clients wait in the accept queue of the kernel. If the limit on open \
         files allows fewer, the server uses fewer and prints a line at the start.",
    ),
    of_store_long(
        "memory-budget",
        "The start prints the most memory that the server can use. Keys and values are not part of \
         it.",
    ),
];

#[cfg(test)]
mod tests {
    use super::super::{of, verbs};
    use super::*;

    #[test]
    fn every_special_wording_is_for_a_flag_of_its_verb() {
        for (at, own) in EXCEPTIONS.iter().enumerate() {
            assert!(of(own.verb).any(|row| row.name == own.name), "{}", own.name);
            let again = EXCEPTIONS[at + 1..].iter();
            let mut again = again.filter(|other| (other.verb, other.name) == (own.verb, own.name));
            assert!(again.next().is_none(), "{} has two", own.name);
        }
    }

    /// A user who reads the help of a command does not need the effects that its flags have
    /// elsewhere.
    #[test]
    fn no_flag_text_mentions_another_verb() {
        for verb in verbs::ALL {
            for row in of(verb.verb) {
                let Wording { brief, long, default, .. } = row.wording(verb.verb);
                let default = match default {
                    Default::Auto(text) | Default::Nothing(text) => text,
                    _ => "",
                };
                for text in [brief, long, default] {
                    let named = text.split("`pinion ").skip(1).map(|rest| {
                        let end = rest.find([' ', '`']).unwrap_or(rest.len());
                        &rest[..end]
                    });
                    let others: Vec<&str> = named.filter(|named| *named != verb.name).collect();
                    assert_eq!(others, [""; 0], "--{} of {}: {text}", row.name, verb.name);
                }
            }
        }
    }

    #[test]
    fn every_wording_follows_the_documentation_style() {
        for verb in verbs::ALL {
            for row in of(verb.verb) {
                let Wording { brief, long, .. } = row.wording(verb.verb);
                assert!(!brief.is_empty() && !brief.ends_with('.'), "{}", row.name);
                assert!(brief.len() <= 72, "{}: {brief}", row.name);
                assert!(long.is_empty() || long.ends_with('.'), "{}", row.name);
            }
        }
    }
}

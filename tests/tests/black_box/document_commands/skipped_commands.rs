//! Commands of documents that are not executed, with the reason and the check that replaces it. A
//! command that is not in this table is executed, or the test of all commands fails.

use super::Reader;
use super::known_words::{
    PROFILED, are_built, builds_an_image, has_flags, is_build, is_chore, is_for_the_unit,
    is_install, is_package_of_ours, is_packaged, measures, runs_an_image,
};
use super::yaml::is_for_a_service;
use std::collections::BTreeSet;

/// Commands for which there is one reason.
struct NotRun {
    /// The name of the commands, for the error if no document has them any more.
    subject: &'static str,
    /// Returns whether a command is one of them, by its words.
    is: fn(&[&str]) -> bool,
    why: &'static str,
    /// Checks the names in such a command.
    look_up: fn(&mut Reader, &[&str]),
}

const TOO_LARGE: &str = "its packages are large; static_site_generators.rs runs it under --long";

const TABLE: &[NotRun] = &[
    NotRun {
        subject: "a folder on another machine",
        is: |words| words[0] == "pinion" && words.iter().any(|word| word.starts_with("ssh://")),
        why: "another machine is not at hand; ssh_releases.rs has one",
        look_up: |reader, words| has_flags(&reader.document, words[1], &words[2..]),
    },
    NotRun {
        subject: "a Python application that is served by its path",
        is: |words| {
            let is_application = |word: &&str| word.ends_with(".py") || *word == "shop";
            words.starts_with(&["pinion", "serve"]) && words[2..].iter().any(is_application)
        },
        why: "its framework is not beside it; python_applications.rs runs each of them",
        look_up: |reader, words| has_flags(&reader.document, words[1], &words[3..]),
    },
    NotRun {
        subject: "a server with a store at its usual address",
        is: |words| {
            let is_beside_site =
                words.starts_with(&["pinion", "serve"]) && words.get(3) == Some(&"--store");
            is_beside_site || words.starts_with(&["pinion", "store"])
        },
        why: "the port may be in use; store_clients.rs and store_alone.rs start them elsewhere",
        look_up: |reader, words| has_flags(&reader.document, words[1], &words[2..]),
    },
    NotRun {
        subject: "a client of a store",
        is: |words| words[0] == "redis-cli",
        why: "no store is at that address; store_clients.rs has one",
        look_up: |_, words| {
            let known = ["SET", "GET", "HSET", "LPUSH", "COMMAND", "GCRA"];
            assert!(known.contains(&words[1]));
        },
    },
    NotRun {
        subject: "the file of a password for the store",
        is: |words| words.last().is_some_and(|word| *word == "/etc/pinion/store-password"),
        why: "the folder belongs to root; store_clients.rs writes such a file",
        look_up: |_, words| assert!(["openssl", "chmod"].contains(&words[0])),
    },
    NotRun {
        subject: "the control socket of NGINX Unit",
        is: |words| words.starts_with(&["curl", "--unix-socket", "/var/run/control.unit.sock"]),
        why: "there is no Unit; a configuration of it is there",
        look_up: |_, words| assert!(words.contains(&"http://localhost/config")),
    },
    NotRun {
        subject: "a command of Django",
        is: |words| words.starts_with(&["python3", "manage.py"]),
        why: "there is no Django project; python_applications.rs runs one",
        look_up: |_, words| assert_eq!(words[2], "collectstatic"),
    },
    NotRun {
        subject: "a chore of the project",
        is: |words| words.starts_with(&["cargo", "xtask"]),
        why: "it runs this very test, or takes as long",
        look_up: |reader, words| is_chore(&reader.document, &words[2..]),
    },
    NotRun {
        subject: "a build of the project",
        is: |words| words[0] == "cargo" && ["build", "test"].contains(&words[1]),
        why: "the program under test was built in the same way, and a profile takes minutes",
        look_up: |reader, words| is_build(&reader.document, &words[2..]),
    },
    NotRun {
        subject: "an installation from the sources",
        is: |words| words.starts_with(&["cargo", "install"]),
        why: "it builds the program once more, and changes the home folder",
        look_up: |reader, words| is_install(&reader.document, &words[2..]),
    },
    NotRun {
        subject: "a measurement",
        is: |words| measures(words[0]),
        why: "it takes minutes, and not every machine allows it",
        look_up: |reader, words| are_built(&reader.document, &words[1..]),
    },
    NotRun {
        subject: "a program that was built to be measured",
        is: |words| words[0].starts_with(PROFILED),
        why: "building it takes minutes",
        look_up: |reader, words| are_built(&reader.document, words),
    },
    NotRun {
        subject: "a package of the project",
        is: |words| words[0] == "tar",
        why: "making it takes minutes; packages.rs unpacks it under --long",
        look_up: |reader, words| is_package_of_ours(&reader.document, &words[1..]),
    },
    NotRun {
        subject: "a file for /etc",
        is: |words| words[0] == "cp" && words.last().is_some_and(|to| to.starts_with("/etc/")),
        why: "it changes the machine",
        look_up: |reader, words| is_packaged(&reader.document, words[1]),
    },
    NotRun {
        subject: "certbot",
        is: |words| words[0] == "certbot",
        why: "it needs an authority for certificates; certbot.rs has one under --long",
        look_up: |reader, words| {
            assert!(
                ["certonly", "renew"].contains(&words[1]),
                "{}: {words:?}",
                reader.document.display()
            );
        },
    },
    NotRun {
        subject: "a group that may read the keys of certbot, and the user of a unit",
        is: |words| ["groupadd", "useradd", "chgrp", "chmod"].contains(&words[0]),
        why: "it changes users and files of the machine; certbot.rs runs chgrp and chmod",
        look_up: |_, _| {},
    },
    NotRun {
        subject: "packages and a database for an application",
        is: |words| ["apt", "mariadb", "chown"].contains(&words[0]),
        why: "it changes the machine",
        look_up: |_, _| {},
    },
    NotRun {
        subject: "a service of systemd",
        is: |words| words[0] == "systemctl",
        why: "no systemd runs services here; systemd_and_container_files.rs runs its command",
        look_up: |reader, words| match words[1..] {
            ["edit", "pinion"] | ["disable", "--now", "nginx"] | ["daemon-reload"] => {}
            [verb, ref rest @ ..] => is_for_the_unit(&reader.document, verb, rest),
            [] => panic!("{}: systemctl", reader.document.display()),
        },
    },
    NotRun {
        subject: "Docker Compose",
        is: |words| words.starts_with(&["docker", "compose"]),
        why: "it needs the service of Docker; the YAML is held against the schema",
        look_up: |reader, words| is_for_a_service(&reader.document, &words[2..]),
    },
    NotRun {
        subject: "an image that is built",
        is: |words| words.starts_with(&["podman", "build"]),
        why: "the image comes from a registry; systemd_and_container_files.rs does the same",
        look_up: |reader, words| builds_an_image(&reader.document, &words[2..]),
    },
    NotRun {
        subject: "an image that is run",
        is: |words| words.starts_with(&["podman", "run"]),
        why: "it needs the image; systemd_and_container_files.rs serves its content as its user",
        look_up: |reader, words| runs_an_image(&reader.document, &words[2..]),
    },
    NotRun {
        subject: "Hugo",
        is: |words| words[0] == "hugo",
        why: TOO_LARGE,
        look_up: |reader, _| reader.generates("public"),
    },
    NotRun {
        subject: "Eleventy",
        is: |words| words.starts_with(&["npx", "@11ty/eleventy"]),
        why: TOO_LARGE,
        look_up: |reader, _| reader.generates("_site"),
    },
    NotRun {
        subject: "Astro",
        is: |words| words.starts_with(&["npx", "astro", "build"]),
        why: TOO_LARGE,
        look_up: |reader, _| reader.generates("dist"),
    },
    NotRun {
        subject: "MkDocs",
        is: |words| words.starts_with(&["mkdocs", "build"]),
        why: TOO_LARGE,
        look_up: |reader, _| reader.generates("site"),
    },
];

impl Reader {
    /// Checks the names in a command that is not executed; returns false if it must be executed.
    pub(super) fn leaves_out(&mut self, words: &[&str]) -> bool {
        let Some(at) = TABLE.iter().position(|row| (row.is)(words)) else { return false };
        eprintln!("  not run: {}", TABLE[at].why);
        self.not_run.insert(at);
        (TABLE[at].look_up)(self, words);
        true
    }
}

/// Asserts that some document needs every row; `used` has the indices of needed rows.
pub(super) fn is_needed(used: &BTreeSet<usize>) {
    for (at, NotRun { subject, .. }) in TABLE.iter().enumerate() {
        assert!(used.contains(&at), "no document has a command for {subject}");
    }
}

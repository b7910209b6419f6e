//! Tests of the meaning of a `[[program]]`. All of them read text, as in a file.

use super::*;
use crate::config;
use pinion_spawner::limits::STARTS_MAX;
use std::path::Path;

/// Reads the keys of a program with this name and command, and more lines.
fn read(lines: &str) -> Result<ProgramStart, ProgramFault> {
    let text = format!(
        "[[site]]\npath = \"a\"\n[[program]]\nname = \"app\"\n{}{lines}\n",
        if lines.contains("command") { "" } else { "command = [\"/bin/sh\", \"-c\", \"\"]\n" },
    );
    let (tables, faults) = config::parse(&text, Path::new("pinion.toml")).expect("TOML");
    assert_eq!(faults, [], "{text}");
    let passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:1001:1002:App,,:/srv/app:/bin/false\n";
    let group = "root:x:0:\napp:x:1002:\nmedia:x:44:app\nlog:x:4:\n";
    supervised_program(&tables.programs[0].low, &Accounts::from_files(passwd, group))
}

fn start(lines: &str) -> ProgramStart {
    read(lines).expect("a program")
}

fn variable<'s>(start: &'s ProgramStart, name: &str) -> Option<&'s OsStr> {
    let mut variables = start.environment.iter();
    variables.find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
}

/// The faults of a file with these lines.
fn faults(lines: &str) -> Vec<String> {
    let text = format!("[[site]]\npath = \"a\"\n{lines}\n");
    let (_, faults) = config::parse(&text, Path::new("p")).expect("TOML");
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn a_program_with_a_name_and_a_command_has_defaults() {
    let start = start("");
    assert_eq!((&*start.name, start.kind), ("app", ProgramKind::Supervised));
    assert_eq!((start.program.as_path(), start.arguments.len()), (Path::new("/bin/sh"), 2));
    assert_eq!((&start.identity, &start.chroot, start.nice), (&None, &None, None));
    assert_eq!(start.working_directory, Path::new("/"));
    assert_eq!((start.stop_signal, start.grace_ms), (Signal::TERM, 10_000));
    assert!(start.resource_limits.is_empty() && !start.allows_arguments);
    assert_eq!(variable(&start, "LANG"), Some("C.UTF-8".as_ref()));
    assert_eq!(variable(&start, "HOME"), None);
}

#[test]
fn every_key_is_a_setting() {
    let lines = "directory = \"/tmp\"\nnice = 7\nstop-signal = \"SIGQUIT\"\nstop-timeout = 3\n\
                 limits = { open-files = 64, memory = \"16M\", processes = 50, cpu-seconds = 9 }\n\
                 environment = { PORT = 8000, LANG = \"de_DE.UTF-8\", EMPTY = \"\" }";
    let start = start(lines);
    assert_eq!((start.working_directory.as_path(), start.nice), (Path::new("/tmp"), Some(7)));
    assert_eq!((start.stop_signal, start.grace_ms), (Signal::QUIT, 3000));
    let limits = [
        (Resource::Nofile, 64),
        (Resource::Data, 16 << 20),
        (Resource::Nproc, 50),
        (Resource::Cpu, 9),
    ];
    let limits = limits.map(|(resource, value)| ResourceLimit {
        resource,
        soft: Some(value),
        hard: Some(value),
    });
    assert_eq!(start.resource_limits, limits);
    for (name, value) in [("PORT", "8000"), ("LANG", "de_DE.UTF-8"), ("EMPTY", "")] {
        assert_eq!(variable(&start, name), Some(value.as_ref()), "{name}");
    }
    let langs = start.environment.iter().filter(|(name, _)| name == "LANG");
    assert_eq!(langs.count(), 1, "the default is replaced");
    // The other forms that TOML has for the same.
    let dotted = read("limits.open-files = 64").expect("a program");
    let below = read("[program.limits]\nopen-files = 64").expect("a program");
    assert_eq!((dotted.resource_limits.len(), &dotted), (1, &below));
}

/// The accounts are looked up for any user who runs this test, whether or not this user may change
/// to them.
#[test]
fn users_and_groups_are_found_by_name_and_number() {
    let of = |lines: &str| match read(lines) {
        Ok(start) => {
            let identity = start.identity.clone().expect("an identity");
            let home = variable(&start, "HOME").map(|home| home.to_string_lossy().into_owned());
            Some((identity.uid, identity.gid, identity.groups, home))
        }
        Err(fault) => {
            assert!(fault.is_privilege, "{}", fault.message);
            assert!(fault.message.starts_with("user: ") && !geteuid().is_root());
            None
        }
    };
    let srv = Some("/srv/app".to_owned());
    for (lines, expected) in [
        ("user = \"app\"", (1001, 1002, vec![1002, 44], srv.clone())),
        ("user = 1001", (1001, 1002, vec![1002, 44], srv.clone())),
        ("user = \"app\"\ngroup = \"media\"", (1001, 44, vec![44], srv.clone())),
        ("user = \"app\"\ngroups = [\"log\", 44]", (1001, 1002, vec![4, 44, 1002], srv)),
        ("user = 4000\ngroup = 4001", (4000, 4001, vec![4001], None)),
    ] {
        if let Some(found) = of(lines) {
            assert_eq!(found, expected, "{lines}");
        }
    }
}

#[test]
fn errors_are_reported_for_their_key() {
    for (lines, row, message) in [
        ("command = \"sh\"", "program-command", "command: \"sh\" is not an absolute path"),
        ("user = \"nosuch\"", "program-user", "user: unknown user `nosuch`"),
        ("group = \"nosuch\"", "program-group", "group: unknown group `nosuch`"),
        ("groups = [\"nosuch\"]", "program-groups", "groups: unknown group `nosuch`"),
        ("user = 4000", "program-user", "user: user 4000 is not in /etc/passwd"),
        ("environment = { PINION_START = \"\" }", "program-environment", "environment: "),
    ] {
        let fault = read(lines).expect_err(lines);
        assert!(fault.message.starts_with(message), "{lines}: {}", fault.message);
        assert_eq!((fault.row, fault.is_privilege), (row, false), "{lines}");
    }
}

/// The files may exist later, so a program is valid without them.
#[test]
fn missing_files_are_reported_for_their_key() {
    for (lines, row, message) in [
        ("command = \"/no/such\"", "program-command", "command: cannot open /no/such: No such"),
        ("command = \"/etc/passwd\"", "program-command", "command: /etc/passwd is not executable"),
        ("directory = \"/no/such\"", "program-directory", "directory: cannot open /no/such"),
        ("directory = \"/etc/passwd\"", "program-directory", "directory: /etc/passwd is not a dir"),
    ] {
        let fault = check_program_files(&start(lines)).expect_err(lines);
        assert!(fault.message.starts_with(message), "{lines}: {}", fault.message);
        assert_eq!(fault.row, row, "{lines}");
    }
    assert!(check_program_files(&start("directory = \"/tmp\"")).is_ok());
}

#[test]
fn errors_have_their_lines() {
    let program = "[[program]]\nname = \"a\"\ncommand = \"/bin/sh\"\n";
    for (lines, expected) in [
        (
            "[[program]]\n",
            &["p:3:1: [[program]] lacks name", "p:3:1: [[program]] lacks command"][..],
        ),
        (
            &format!("{program}{program}"),
            &["p:7:8: name: a is the name of the program in line 4, too"],
        ),
        (&format!("{program}nice = 20"), &["p:6:8: nice: 20 is out of bounds: -20 to 19"]),
        (
            &format!("{program}nice = \"5\""),
            &["p:6:8: nice: a whole number (-20 to 19) is needed, not a string"],
        ),
        (
            &format!("{program}limits = {{ open-file = 5 }}"),
            &["p:6:12: unknown key limits.open-file in [[program]]; did you mean \
               limits.open-files?"],
        ),
        (
            &format!("{program}limits = 5"),
            &["p:6:1: limits is a table; write limits = { KEY = VALUE }"],
        ),
        (
            &format!("{program}limits.memory = \"5 MB\""),
            &["p:6:17: limits.memory: \"5 MB\" is not a size: 512K, 512M, 2G, or a number of \
               bytes"],
        ),
        (
            &format!("{program}environment = {{ A = true, \"B=\" = \"\" }}"),
            &[
                "p:6:17: environment.A: a string is needed",
                "p:6:27: environment.B=: a name has no =",
            ],
        ),
        (
            &format!("{program}environment = [\"A=b\"]"),
            &["p:6:15: environment: a table ({ PORT = \"8000\" }) is needed, not a list"],
        ),
        (
            &format!("{program}directory = \"srv\""),
            &["p:6:13: directory: \"srv\" is not an absolute path: begin it with /"],
        ),
        (
            &format!("{program}stop-signal = \"TERM\""),
            &["p:6:15: stop-signal: \"TERM\" is none of: SIGTERM, SIGINT, SIGQUIT, SIGHUP, \
               SIGUSR1, SIGUSR2, SIGABRT, SIGKILL"],
        ),
        (
            "[[program]]\nname = \"a b\"\ncommand = \"/bin/sh\"",
            &["p:4:8: name: \"a b\" is not a valid name: 1 to 32 letters, digits, -, _ or ."],
        ),
        (
            "[program]\nname = \"a\"",
            &["p:3:2: write [[program]] instead of [program]: a table of \
           which there can be several"],
        ),
    ] {
        assert_eq!(faults(lines), expected, "{lines}");
    }
    let many: String = (0..=STARTS_MAX)
        .map(|number| format!("[[program]]\nname = \"a{number}\"\ncommand = \"/bin/sh\"\n"))
        .collect();
    assert_eq!(faults(&many), ["p:195:1: [[program]] is one too many: 64 are the most"]);
}

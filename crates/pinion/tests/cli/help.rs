//! The help of the program and of its verbs: its structure, and its statements about defaults.

use crate::pinion_runner::{build_site, run, verbs};
use crate::temporary_folder::Folder;
use std::path::Path;

/// Returns the text of `pinion VERB --help`.
fn help(folder: &Folder, verb: &str) -> String {
    run(folder, &format!("{verb} --help")).text().to_owned()
}

/// Returns the description of a flag in a help text, in one line.
#[track_caller]
fn about(help: &str, flag: &str) -> String {
    let is_own = |line: &&str| {
        let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
        line.trim_start().starts_with('-') && words.any(|word| word == flag)
    };
    let lines = help.lines().skip_while(|line| !is_own(line)).skip(1);
    let text = lines.take_while(|line| line.is_empty() || line.starts_with("          "));
    let words: Vec<&str> = text.flat_map(str::split_whitespace).collect();
    assert!(!words.is_empty(), "{flag} in {help}");
    words.join(" ")
}

#[test]
fn the_commands_that_a_site_needs_are_listed_first() {
    let folder = Folder::new();
    assert_eq!(verbs(&folder)[..4], ["serve", "build", "check", "run"]);
}

#[test]
fn flag_groups_have_the_order_of_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/flags.md");
    let reference = std::fs::read_to_string(path).expect("the reference");
    let folder = Folder::new();
    for verb in verbs(&folder) {
        let section = reference.split("\n## pinion ").skip(1);
        let mut section = section.filter(|text| text.split([' ', '\n']).next() == Some(&verb));
        let section = section.next().unwrap_or_else(|| panic!("{verb} is not in the reference"));
        let expected: Vec<String> = section
            .lines()
            .filter_map(|line| match line.strip_prefix("### ") {
                Some(group) => Some(format!("{group}:")),
                None => {
                    let flag = line.strip_prefix("#### `")?;
                    let name = flag.split([' ', '`']).find(|word| word.starts_with("--"));
                    Some(name.expect("a flag").to_owned())
                }
            })
            .collect();
        let help = help(&folder, &verb);
        let is_group = |line: &str| line.ends_with(':') && !line.starts_with([' ', '-']);
        let lines = help.lines().skip_while(|line| *line != "Options:").skip(1);
        let lines = lines.take_while(|line| *line != "Examples:");
        let found: Vec<String> = lines
            .filter_map(|line| match line.trim_start() {
                _ if is_group(line) => Some(line.to_owned()),
                flag if flag.starts_with('-') && line.len() - flag.len() < 10 => {
                    let name = flag.split([' ', '\n']).find(|word| word.starts_with("--"));
                    name.filter(|name| *name != "--help").map(str::to_owned)
                }
                _ => None,
            })
            .collect();
        assert_eq!(found, expected, "{verb}");
    }
    let serve = help(&folder, "serve");
    for group in ["Network", "TLS", "Lua", "Logging", "Limits"] {
        assert!(serve.contains(&format!("\n{group}:\n")), "{group}: {serve}");
    }
}

/// For a flag without a default value, the help states this in words, and neither omits it nor
/// shows a number.
#[test]
fn flags_without_a_default_value_describe_it_in_words() {
    let folder = Folder::new();
    let serve = help(&folder, "serve");
    for (flag, default) in [
        ("--access-log", "no access log"),
        ("--max-connections-per-client", "no limit"),
        ("--max-requests-per-connection", "no limit"),
        ("--server-name", "no Server header"),
        ("--stats", "no statistics"),
        ("--lua-cpu", "200"),
        ("--level", "fast"),
    ] {
        let text = about(&serve, flag);
        assert!(text.contains(&format!("[default: {default}]")), "{flag}: {text}");
    }
    let script = help(&folder, "run");
    for flag in ["--lua-cpu", "--lua-memory", "--lua-vm-memory", "--lua-time"] {
        let text = about(&script, flag);
        assert!(text.contains("[default: no limit]"), "{flag}: {text}");
    }
    assert!(about(&help(&folder, "build"), "--level").contains("[default: best]"));
}

#[test]
fn repeatable_flags_are_marked() {
    let folder = Folder::new();
    let (serve, build) = (help(&folder, "serve"), help(&folder, "build"));
    for (help, flag, may) in [
        (&serve, "--listen", true),
        (&serve, "--trusted-proxy", true),
        (&serve, "--secret", true),
        (&serve, "--workers", false),
        (&build, "--exclude", true),
        (&build, "--output", false),
    ] {
        let text = about(help, flag);
        assert_eq!(
            text.matches("Can be given more than once.").count(),
            usize::from(may),
            "{text}"
        );
    }
}

/// The help names the effect of a limit of scripts on a client; crates/lua and
/// tests/tests/black_box/lua_limits.rs test that effect.
#[test]
fn limits_of_scripts_name_the_response_status() {
    let folder = Folder::new();
    let serve = help(&folder, "serve");
    for (flag, status) in [("--lua-cpu", "500"), ("--lua-memory", "500"), ("--lua-time", "503")] {
        let text = about(&serve, flag);
        assert!(text.contains(&format!("the response {status}")), "{flag}: {text}");
    }
}

#[test]
fn folder_operands_are_named_dir() {
    let folder = Folder::new();
    let (serve, extract) = (help(&folder, "serve"), help(&folder, "extract"));
    for (help, flag) in
        [(&serve, "--state <DIR>"), (&serve, "--acme-webroot <DIR>"), (&extract, "--output <DIR>")]
    {
        assert!(help.contains(flag), "{flag}: {help}");
    }
    assert!(serve.contains("--lua-folder <NAME=DIR>") && serve.contains("--cert <FILE>"));
}

/// An error about a missing path names the path and the expected kind of file.
#[test]
fn missing_paths_are_named_with_the_expected_kind() {
    let folder = Folder::with_site();
    build_site(&folder);
    for (line, code, expected) in [
        ("inspect none", 1, "none does not exist; give the path of an archive"),
        ("ls ~/none", 1, "~/none does not exist; give the path of an archive; ~ and $HOME are not"),
        ("cat none /", 1, "none does not exist; give the path of an archive"),
        ("diff site.pinion none", 1, "none does not exist; give the path of an archive"),
        ("publish none live", 1, "none does not exist; give the path of an archive"),
        ("run none.lua", 1, "none.lua does not exist; give the path of a Lua script"),
        ("build none -o out", 1, "none does not exist; give a folder"),
        ("serve none", 2, "none does not exist; give a folder, an archive, a script or"),
        ("check none", 2, "none does not exist"),
    ] {
        run(&folder, line).refused(code, expected);
    }
    assert_eq!(folder.names(), ["site", "site.pinion"]);
}

#[test]
fn numbers_with_a_unit_get_advice() {
    let folder = Folder::with_site();
    for (line, expected) in [
        (
            "serve site --grace 30s",
            "--grace: \"30s\" is not valid; write a whole number of seconds, without a unit (0 to \
             86400)",
        ),
        (
            "serve site --upload-space 1G",
            "write a whole number of MiB, without a unit (1 to 16777216)",
        ),
        ("serve site --lua-cpu 0.2s", "write a whole number of milliseconds, without a unit"),
    ] {
        run(&folder, line).refused(2, expected);
    }
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\n[server]\ngrace = \"30s\"\n");
    let checked = run(&folder, "check");
    let expected = "pinion.toml:4:9: grace: a whole number of seconds, without a unit (0 to 86400) \
                    is needed, not a string";
    assert!(checked.text().contains(expected), "{}", checked.text());
}

//! Completions as users see them who press the tab key: each shell loads its script and completes
//! command lines itself.

use pinion_tests::binary::pinion;
use pinion_tests::external_programs::{output, program};
use pinion_tests::server::run;
use pinion_tests::temporary_folder::Folder;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// A command line up to the cursor, the words that must be offered, and those that must not.
const LINES: &[(&str, &[&str], &[&str])] = &[
    ("pinion bu", &["build"], &["serve", "bundle"]),
    ("pinion re", &["releases"], &["rollback"]),
    ("pinion serve --wor", &["--workers"], &["--listen"]),
    ("pinion build --no-s", &["--no-security-headers", "--no-slash-redirects"], &["--no-index"]),
    ("pinion diff --", &["--exit-code", "--json"], &["--workers", "--codings"]),
    ("pinion serve --io u", &["uring"], &["epoll", "auto"]),
    ("pinion serve --io ", &["uring", "epoll", "auto"], &["fast"]),
    ("pinion build --level m", &["max"], &["best", "fast"]),
    ("pinion serve --io epoll --mem", &["--memory"], &["--io"]),
    ("pinion completions z", &["zsh"], &["bash", "fish"]),
    ("pinion man pub", &["publish"], &["pinion"]),
];

/// Returns the words that a shell offers at the end of a line, in a folder with its script.
type Complete = fn(&Folder, &str) -> BTreeSet<String>;

#[track_caller]
fn completes(shell: &str, script: &str, complete: Complete) {
    let folder = Folder::new(shell);
    let written = run(&["completions", shell]);
    assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""));
    folder.write(script, &written.stdout);
    for (line, offered, others) in LINES {
        let found = complete(&folder, line);
        for word in *offered {
            assert!(found.contains(*word), "{shell}: {line:?} offers no {word}: {found:?}");
        }
        for word in *others {
            assert!(!found.contains(*word), "{shell}: {line:?} offers {word}: {found:?}");
        }
    }
}

/// Runs a shell in a folder. It finds the program, but no files of the user.
#[track_caller]
fn said(shell: &mut Command, folder: &Folder) -> String {
    let mut path = vec![PathBuf::from(pinion().parent().expect("a folder"))];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    shell.current_dir(folder.path()).env("PATH", std::env::join_paths(path).expect("no colons"));
    shell.env("HOME", folder.path()).env("XDG_CONFIG_HOME", folder.path());
    shell.env("XDG_DATA_HOME", folder.path()).env("ZDOTDIR", folder.path());
    shell.env("TERM", "dumb").env("LC_ALL", "C.UTF-8");
    let ended = output(shell);
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && text.is_empty(), "{}: {text}", ended.status);
    String::from_utf8(ended.stdout).expect("text")
}

/// Sets the words as the shell does for a completion function.
fn in_bash(folder: &Folder, line: &str) -> BTreeSet<String> {
    const SCRIPT: &str = r#"
        . ./pinion.bash
        [[ $(complete -p pinion) == *"-F _pinion"* ]] || exit 8
        read -ra COMP_WORDS <<<"$1"
        [[ $1 == *" " ]] && COMP_WORDS+=("")
        COMP_LINE=$1 COMP_POINT=${#1} COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
        _pinion pinion "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
        ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = program("bash", "bash");
    bash.args(["--norc", "--noprofile", "-c", SCRIPT, "bash", line]);
    said(&mut bash, folder).lines().map(str::to_owned).collect()
}

/// fish prints the words that it would offer, each with its description after a tab.
fn in_fish(folder: &Folder, line: &str) -> BTreeSet<String> {
    let mut fish = program("fish", "fish");
    fish.args(["--no-config", "-c", "source pinion.fish; complete -C $argv[1]", line]);
    let lines = said(&mut fish, folder);
    lines.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

/// Runs an interactive shell on a terminal, in which a key is pressed. The words that its
/// completion system adds are written to a file; then it ends.
fn in_zsh(folder: &Folder, line: &str) -> BTreeSet<String> {
    const OWN: &str = r#"
        PROMPT='ready>'
        fpath=($ZDOTDIR $fpath)
        autoload -Uz compinit && compinit -u -D
        bindkey '^I' complete-word
        compadd() {
            # Those calls only look at what there is.
            if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
                builtin compadd "$@"
                return
            fi
            local -a offered
            builtin compadd -A offered "$@"
            (($#offered)) && print -rl -- $offered >>$ZDOTDIR/offered
            builtin compadd "$@"
        }
        comppostfuncs=(exit)
    "#;
    const DRIVER: &str = r#"
        zmodload zsh/zpty
        zpty shell 'exec zsh -d -i'
        zpty -r shell before '*ready>*' || exit 8
        zpty -n -w shell "$1"$'\t'
        while zpty -r shell after; do :; done
        exit 0
    "#;
    folder.write(".zshrc", OWN);
    folder.write("offered", "");
    let mut zsh = program("zsh", "zsh");
    said(zsh.args(["-f", "-c", DRIVER, "zsh", line]), folder);
    let offered = std::fs::read_to_string(folder.join("offered")).expect("a list");
    offered.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes() {
    completes("bash", "pinion.bash", in_bash);
}

#[test]
fn fish_completes() {
    completes("fish", "pinion.fish", in_fish);
}

#[test]
fn zsh_completes() {
    completes("zsh", "_pinion", in_zsh);
}

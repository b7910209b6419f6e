//! Exit codes and the one line on stderr.

use crate::pinion_runner::{build_site, command, members, run, verbs};
use crate::temporary_folder::Folder;
use std::process::Stdio;

#[test]
fn a_wrong_command_line_is_exit_2_and_one_line() {
    let folder = Folder::new();
    for (arguments, hint) in [
        ("", "pinion serve public"),
        ("serv public", "did you mean serve?"),
        ("serve --wokers 2", "did you mean --workers?"),
        ("serve --workers zero", "--workers: \"zero\" is not a whole number: 1 to 1024"),
        ("serve --listen 99999", "not a port"),
        ("serve --io kqueue", "auto, uring, epoll"),
        ("serve --xyzzy", "`pinion serve --help` lists the flags"),
        ("build", "give the folder to build: pinion build public -o site.pinion"),
        ("build site", "-o site.pinion"),
        ("build site -o out --codings deflate", "not a coding"),
        ("cat site.pinion", "missing <URLPATH>"),
        ("ls a b", "one argument too many"),
        ("inspect a --workers 2", "is a flag of `pinion serve`"),
        ("help xyzzy", "unknown command xyzzy"),
        ("cat site.pinion index.html", "begins with a slash: write /index.html"),
        ("serve --dummy --watch", "--watch has no effect with --dummy"),
        ("serve --log-format json", "--log-format has no effect without --access-log"),
        ("serve --dummy --log-format json", "--log-format has no effect without --access-log"),
        ("man xyzzy", "no page \"xyzzy\"; there are pinion, serve, build"),
        ("completions csh", "\"csh\" is none of: bash, zsh, fish"),
    ] {
        run(&folder, arguments).refused(2, hint);
    }
}

#[test]
fn unservable_arguments_are_exit_2_with_advice() {
    let folder = Folder::new();
    folder.write("notes.txt", "notes");
    for (arguments, hint) in [
        ("serve", "nothing to serve"),
        ("serve none", "does not exist"),
        ("serve notes.txt", "neither a folder nor a Pinion archive"),
        ("serve none.lua", "does not exist"),
        ("serve other.toml", "does not exist"),
        ("serve s3://bucket/site", "addresses are not supported yet"),
        ("serve --dummy notes.txt", "leave out PATH or --dummy"),
        ("serve --dummy --listen fd:web", "no socket from a service manager"),
    ] {
        run(&folder, arguments).refused(2, hint);
    }
    // The first address is not bound any more.
    folder.write("public/index.html", "x");
    let message = "--listen fd:web: there is no socket from a service manager (LISTEN_PID and \
                LISTEN_FDS are not set); start the server by a socket unit or give an address to \
                bind, like 8080";
    run(&folder, "serve public --listen unix:a.sock --listen fd:web").refused(2, message);
    assert!(!folder.join("a.sock").exists());
    // No certificate is created for listeners of which one cannot listen.
    let same = "serve public --listen 127.0.0.1:1 --tls 127.0.0.1:1 --state state";
    run(&folder, same).refused(2, "name the same address; give one of them another port");
    assert!(!folder.join("state").exists());
    run(&folder, "serve public --tls 0 --cert a --cert b --key c").refused(
        2,
        "there are 2 --cert but 1 --key; give each --cert its --key, in the same order, or no \
         --key if the keys are in the files of the certificates",
    );
}

#[test]
fn an_empty_path_is_named() {
    let folder = Folder::new();
    let empty = command(&folder, "serve").arg("").output().expect("it runs");
    assert_eq!(empty.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&empty.stderr),
        "pinion: the path is empty; give a folder, an archive or a configuration file\n"
    );
}

#[test]
fn build_flags_are_refused_for_an_archive() {
    let folder = Folder::with_site();
    build_site(&folder);
    run(&folder, "serve site.pinion --codings br").refused(2, "give it to `pinion build`");
}

/// Returns the names of all pages of the manual: the program, its verbs, its file.
fn pages(folder: &Folder) -> Vec<String> {
    let files = ["pinion", "pinion.toml"].map(str::to_owned);
    files.into_iter().chain(verbs(folder)).collect()
}

#[test]
fn every_page_of_the_manual_is_there() {
    let folder = Folder::new();
    for page in pages(&folder) {
        let run = run(&folder, &format!("man {page}"));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{page}");
        assert!(run.text().starts_with(".TH \"PINION"), "{page}: {}", run.text());
    }
    assert_eq!(run(&folder, "man").text(), run(&folder, "man pinion").text());
}

#[test]
fn a_shell_completes_flags_and_their_values() {
    let folder = Folder::new();
    for (shell, hint) in
        [("bash", "complete -F"), ("zsh", "#compdef pinion"), ("fish", "complete -c pinion")]
    {
        let script = run(&folder, &format!("completions {shell}"));
        assert_eq!((script.code, script.stderr.as_str()), (0, ""));
        assert!(script.text().contains(hint), "{shell}");
    }
    // bash completes the words itself, as after the tab key.
    folder.write("pinion.bash", &run(&folder, "completions bash").stdout);
    let complete = |words: &str| {
        let ask = format!(
            ". ./pinion.bash; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _pinion pinion \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
             echo \"${{COMPREPLY[*]}}\""
        );
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", &ask]).current_dir(folder.path()).output();
        String::from_utf8(output.expect("bash runs").stdout).expect("text")
    };
    assert!(complete("pinion se").contains("serve"));
    assert!(complete("pinion serve --wor").contains("--workers"));
    assert!(complete("pinion serve --io u").contains("uring"));
}

#[test]
fn help_and_version_are_data() {
    let folder = Folder::new();
    for verb in verbs(&folder) {
        let help = run(&folder, &format!("{verb} --help"));
        assert_eq!((help.code, help.stderr.as_str()), (0, ""));
        assert!(help.text().contains(&format!("Usage: pinion {verb}")), "{}", help.text());
        assert_eq!(run(&folder, &format!("help {verb}")).text(), help.text());
    }
    assert_eq!(run(&folder, "help").text(), run(&folder, "--help").text());
    let short = run(&folder, "--version");
    assert_eq!(short.text(), format!("pinion {}\n", env!("CARGO_PKG_VERSION")));
    let json = run(&folder, "version --json").json();
    assert_eq!(members(&json), ["archive_format", "commit", "compiler", "system", "version"]);
}

#[test]
fn output_that_is_no_terminal_has_no_colours() {
    let folder = Folder::with_site();
    build_site(&folder);
    for arguments in ["--help", "inspect site.pinion", "ls site.pinion", "verify site.pinion"] {
        let run = run(&folder, arguments);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(!run.stdout.contains(&0x1b), "{arguments}");
    }
}

#[test]
fn a_closed_output_pipe_is_not_a_failure() {
    let folder = Folder::with_site();
    build_site(&folder);
    for arguments in ["ls site.pinion", "inspect site.pinion", "cat site.pinion /", "--help"] {
        let mut child = command(&folder, arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments}");
    }
}

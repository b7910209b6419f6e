//! `pinion build` on a terminal: the progress bar during the build, and one line at its end.
//! `script` provides the terminal, and an emulator interprets the output as a user sees it. `pinion
//! serve` watches for changes there.

use pinion_tests::binary::pinion;
use pinion_tests::external_programs::{output, program, stdout};
use pinion_tests::server::run;
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::num::NonZero;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use vt100::Parser;

const ROWS: u16 = 24;
const FILES: usize = 10;

/// Returns a site with files that are processed in several steps.
fn site() -> Folder {
    let folder = Folder::new("terminal");
    for number in 0..FILES {
        let line = |line: usize| format!("<p>{}</p>\n", line * line * (number + 7919));
        folder.write(format!("site/{number}.html"), (0..10_000).map(line).collect::<String>());
    }
    folder
}

/// Runs `pinion build site -o site.pinion`, its stderr on a terminal of this many columns, its
/// stdout in the file `stdout`. Returns the output on the terminal.
fn on_a_terminal(
    folder: &Folder,
    columns: u16,
    environment: &[(&str, &str)],
    flag: &str,
) -> String {
    let pinion = pinion().display();
    let size = format!("stty cols {columns} rows {ROWS}");
    let command = format!("{size}; '{pinion}' build site -o site.pinion -j 1 {flag} >stdout");
    let mut script = program("script", "bsdutils");
    script.args(["--quiet", "--command", &command, "/dev/null"]).current_dir(folder.path());
    script.env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("NO_COLOR");
    script.envs(environment.iter().copied());
    let output = output(&mut script);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns an empty screen, which keeps no lines that leave it at its top.
fn screen(columns: u16) -> Parser {
    let size = |length: u16| NonZero::new(length).expect("a screen");
    Parser::new(size(ROWS), size(columns), 0)
}

/// Returns the lines on the screen, without blanks at their ends and blank lines below them.
fn lines(screen: &Parser, columns: u16) -> Vec<String> {
    let rows = screen.screen().rows(0, columns);
    let mut lines: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Returns the contents of the screen at each return of the cursor to the beginning of the line.
fn states(written: &str, columns: u16) -> Vec<Vec<String>> {
    let mut screen = screen(columns);
    let mut states = Vec::new();
    for piece in written.split_inclusive('\r') {
        screen.process(piece.as_bytes());
        states.push(lines(&screen, columns));
    }
    states
}

#[test]
fn a_build_shows_a_bar_and_leaves_one_line() {
    let folder = site();
    for columns in [200, 80, 40, 12] {
        let written = on_a_terminal(&folder, columns, &[], "");
        let summary_at = written.find("\u{1b}[1msite.pinion").expect("a summary in bold");
        let (drawn, summary) = written.split_at(summary_at);

        let states = states(drawn, columns);
        let bars: Vec<&String> = states.iter().flatten().collect();
        assert!(
            states.iter().all(|lines| lines.len() <= 1),
            "{columns}: a bar that wraps: {states:#?}"
        );
        assert!(bars.len() >= 3, "{columns}: {bars:#?}");
        let percents: Vec<u32> = bars.iter().map(|bar| percent(bar)).collect();
        assert!(percents.is_sorted(), "{columns}: {bars:#?}");
        assert!(percents.iter().any(|percent| (1..100).contains(percent)), "{columns}: {bars:#?}");
        assert_eq!(percents.last(), Some(&100), "{columns}: {bars:#?}");
        if columns >= 80 {
            let end = format!(", {FILES} of {FILES} files");
            assert!(bars.last().is_some_and(|bar| bar.ends_with(&end)), "{bars:#?}");
        }
        assert_eq!(states.last(), Some(&Vec::new()), "the bar is gone before the summary");

        assert_eq!(summary.matches('\n').count(), 1, "{summary:?}");
        let mut screen = screen(columns);
        screen.process(written.as_bytes());
        let left = screen.screen().contents();
        let start = format!("site.pinion: {FILES} files in 1 folder, ");
        assert!(left.trim_end().replace('\n', "").starts_with(&start), "{columns}: {left:?}");
    }
}

/// Returns the number of a bar such as ` 40 %  ━━━━╸ …`.
#[track_caller]
fn percent(bar: &str) -> u32 {
    let number = bar.split_once(" %").and_then(|(number, _)| number.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no bar: {bar:?}"))
}

#[test]
fn no_color_and_dumb_terminals_disable_colours() {
    let folder = site();
    let plain = on_a_terminal(&folder, 80, &[("NO_COLOR", "1")], "");
    assert!(plain.contains('━') && !has_colours(&plain), "{plain:?}");
    assert!(has_colours(&on_a_terminal(&folder, 80, &[("NO_COLOR", "")], "")));
    // A terminal without capabilities gets one line.
    let dumb = on_a_terminal(&folder, 80, &[("TERM", "dumb")], "");
    assert!(!dumb.contains('\u{1b}') && dumb.lines().count() == 1, "{dumb:?}");
}

/// Returns whether there is a sequence that sets colours: `ESC [ … m`.
fn has_colours(text: &str) -> bool {
    let parameters = |c: char| c.is_ascii_digit() || c == ';';
    text.split("\u{1b}[").skip(1).any(|rest| rest.trim_start_matches(parameters).starts_with('m'))
}

#[test]
fn json_output_has_no_progress_bar() {
    let folder = site();
    assert_eq!(on_a_terminal(&folder, 80, &[], "--json"), "");
    let document = fs::read(folder.join("stdout")).expect("what it wrote to stdout");
    let document: Value = serde_json::from_slice(&document).expect("one JSON document");
    assert_eq!(document["files"], FILES);
}

#[test]
fn a_failed_build_leaves_only_its_errors_on_the_screen() {
    let folder = site();
    symlink("nowhere", folder.join("site/link")).expect("a link");
    let written = on_a_terminal(&folder, 80, &[], "");
    let mut screen = screen(160);
    screen.process(written.as_bytes());
    let expected = [
        "pinion: link: broken symbolic link",
        "pinion: nothing was built because 1 path cannot be published; correct it, or leave it out \
         with --exclude or --keep-going",
    ];
    assert_eq!(lines(&screen, 160), expected);
}

/// A process that is terminated at the end of the test.
struct EndsWithTest(Option<Pid>);

impl Drop for EndsWithTest {
    fn drop(&mut self) {
        let _has_ended_already = self.0.map(|id| kill_process(id, Signal::TERM));
    }
}

/// On a terminal the server watches for changes without a flag.
#[test]
fn a_server_on_a_terminal_follows_changes() {
    let folder = Folder::with("terminal-serve", [("site/index.html", "before")]);
    let command =
        format!("echo $$ > id; exec '{}' serve site --listen 127.0.0.1:0", pinion().display());
    let mut script = program("script", "bsdutils");
    script.args(["--quiet", "--flush", "--command", &command, "screen"]);
    script.current_dir(folder.path()).env("SHELL", "/bin/sh");
    let mut script = script.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("script");
    let shown = || fs::read_to_string(folder.join("screen")).unwrap_or_default();
    let address = wait_for("a start", || {
        let text = shown();
        let url = text.lines().find_map(|line| line.strip_prefix("listening http://"))?;
        let is_ready = text.lines().any(|line| line == "ready");
        is_ready.then(|| url.trim_end_matches(['/', '\r']).to_owned())
    });
    let id = fs::read_to_string(folder.join("id")).expect("written before");
    let server = EndsWithTest(Pid::from_raw(id.trim().parse().expect("a number")));
    let get = || {
        let mut curl = program("curl", "curl");
        let page = stdout(curl.args(["--silent", &format!("http://{address}/")]));
        String::from_utf8(page).expect("text")
    };
    assert_eq!(get(), "before");
    assert!(shown().lines().any(|line| line.contains("site (1 file, live)")), "{}", shown());
    folder.write("site/index.html", "after");
    wait_for("the new page", || (get() == "after").then_some(()));
    drop(server);
    assert!(script.wait().expect("an end").success());
}

#[test]
fn without_a_terminal_a_build_prints_one_line() {
    let folder = site();
    let words = [folder.join("site"), "-o".into(), folder.join("site.pinion")];
    let ended = run(&[&["build".into()], &words[..]].concat());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    assert!(ended.stderr.lines().count() == 1 && !ended.stderr.contains('\u{1b}'), "{ended:?}");
}

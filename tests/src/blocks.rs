//! What documents have their readers do: commands, and files to write.

/// Before ` = ` and the text of a configuration among commands.
pub const CONFIGURATION: &str = "pinion.toml";
/// The same of a script.
pub const SCRIPT: &str = "site.lua";
/// The same of a file whose path stands behind the language of its block.
pub const FILE: &str = "file";

/// The lines of the blocks that are marked as shell, and of other blocks those that are commands by
/// their look; all without remarks. A block of TOML is a configuration, and one
/// of Lua a script; one that names a path is that file.
#[must_use]
pub fn fenced_commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for block in text.split("\n```").skip(1).step_by(2) {
        let block = block.replace("\\\n", " ");
        let (mark, block) = block.split_once('\n').unwrap_or((&block, ""));
        if let Some((_language, path)) = mark.split_once(' ') {
            commands.push(format!("{FILE} = {path}\n{block}"));
            continue;
        }
        if mark == "toml" {
            commands.push(format!("{CONFIGURATION} = {block}"));
            continue;
        }
        if mark == "lua" {
            commands.push(format!("{SCRIPT} = {block}"));
            continue;
        }
        let is_shell = ["sh", "console", "bash", "shell"].contains(&mark);
        let is_prompted = block.lines().any(|line| line.starts_with("$ "));
        // Behind a prompt stands a command, and what has none is its output.
        let is_command = |line: &&str| match is_prompted {
            true => line.starts_with("$ "),
            false => is_shell || line.starts_with("cargo ") || line.starts_with("pinion "),
        };
        commands.extend(block.lines().filter(is_command).map(plain));
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// The lines that stand behind a prompt on a page.
#[must_use]
pub fn shown_commands(page: &str) -> Vec<String> {
    const PROMPT: &str = "<span class=\"prompt\">$ </span>";
    let lines = page.split(PROMPT).skip(1).map(|rest| rest.lines().next().unwrap_or_default());
    lines.map(|line| plain(&without_tags(line))).collect()
}

/// A command without the remark behind it.
fn plain(line: &str) -> String {
    let line = line.trim().trim_start_matches("$ ");
    let line = line.strip_prefix('#').map_or(line, |_| "");
    line.split_once(" #").map_or(line, |(command, _)| command).trim().to_owned()
}

fn without_tags(text: &str) -> String {
    let mut parts = text.split('<');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('>').map_or("", |(_, rest)| rest))
}

/// The words of a command as a shell has them: quotes hold one together and go away. Nothing else
/// of a shell is known, so the documents use nothing else.
///
/// # Panics
/// Never: there is always a first word.
#[must_use]
pub fn words(command: impl AsRef<str>) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in command.as_ref().split('"').enumerate() {
        if at % 2 == 1 {
            words.last_mut().expect("never empty").push_str(part);
            continue;
        }
        let mut pieces = part.split(char::is_whitespace);
        words.last_mut().expect("never empty").push_str(pieces.next().unwrap_or_default());
        words.extend(pieces.map(str::to_owned));
    }
    words.retain(|word| !word.is_empty());
    words
}

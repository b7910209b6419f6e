//! The commands in documents, and the files to write.

/// The mark before ` = ` and the text of a configuration among commands.
pub const CONFIGURATION: &str = "pinion.toml";
/// The same mark for a script.
pub const SCRIPT: &str = "site.lua";
/// The same mark for a file whose path follows the language of its block.
pub const FILE: &str = "file";

/// Returns the lines of the blocks that are marked as shell, and those of other blocks that look
/// like commands; all without remarks. A block of TOML is a configuration, and one of Lua a script;
/// one with a path is that file.
#[must_use]
pub fn fenced_commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let text = unindented(text);
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
        // A line with a prompt is a command, and one without is its output.
        let is_command = |line: &&str| {
            if is_prompted {
                line.starts_with("$ ")
            } else {
                is_shell || line.starts_with("cargo ") || line.starts_with("pinion ")
            }
        };
        commands.extend(block.lines().filter(is_command).map(plain));
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Returns a document with the blocks of its lists at the start of their lines.
fn unindented(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    // The indentation of the block of a line.
    let mut block = None;
    for line in text.split_inclusive('\n') {
        let indentation = line.len() - line.trim_start_matches(' ').len();
        let is_fence = line[indentation..].starts_with("```");
        let shift = block.unwrap_or(if is_fence { indentation } else { 0 });
        if is_fence {
            block = match block {
                None => Some(indentation),
                Some(opened) => (opened != indentation).then_some(opened),
            };
        }
        whole.push_str(&line[shift.min(indentation)..]);
    }
    whole
}

/// Returns the blocks of a document in a language.
#[must_use]
pub fn marked(text: &str, language: &str) -> Vec<String> {
    let text = unindented(text);
    let blocks = text.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    blocks.filter(|(mark, _)| *mark == language).map(|(_, block)| block.to_owned()).collect()
}

/// Returns the command lines of `pinion` in the blocks of YAML of a document: the steps of a job
/// of CI, and the `command` of a container, which is a command line without the program.
#[must_use]
pub fn yaml_commands(text: &str) -> Vec<String> {
    const STEP: [&str; 2] = ["- ", "run: "];
    let blocks = marked(text, "yaml");
    let lines = blocks.iter().flat_map(|block| block.lines());
    let command = |line: &str| {
        let line = STEP.iter().fold(line.trim(), |line, mark| line.trim_start_matches(mark));
        match line.strip_prefix("command: [").and_then(|rest| rest.strip_suffix(']')) {
            Some(words) => Some(format!("pinion {}", words.replace(',', ""))),
            None => line.starts_with("pinion ").then(|| line.to_owned()),
        }
    };
    lines.filter_map(command).collect()
}

/// Returns the routes of a script of a document: methods, and patterns whose parameters are
/// replaced by values. The script is parsed in the form of the documents: one call in a line, names
/// and patterns between quotes.
#[must_use]
pub fn routes(script: &str) -> Vec<(String, String)> {
    let mut groups = vec![("pinion", String::new())];
    let mut routes = Vec::new();
    for line in script.lines().map(str::trim) {
        let Some((called, arguments)) = line.split_once('(') else { continue };
        let (local, called) = match called.split_once(" = ") {
            Some((local, called)) => (local.trim_start_matches("local "), called),
            None => ("", called),
        };
        let Some((owner, name)) = called.split_once('.') else { continue };
        let Some((_, prefix)) = groups.iter().find(|(known, _)| *known == owner) else { continue };
        let mut texts = arguments.split('"').skip(1).step_by(2);
        let mut text = || texts.next().unwrap_or_default();
        match name {
            "group" => groups.push((local, format!("{prefix}{}", text()))),
            "route" => routes.push((text().to_owned(), filled(prefix, text()))),
            "any" => routes.push(("GET".to_owned(), filled(prefix, text()))),
            "get" | "head" | "post" | "put" | "delete" | "patch" | "options" | "query" => {
                routes.push((name.to_uppercase(), filled(prefix, text())));
            }
            _ => {}
        }
    }
    routes
}

/// Returns a path that a pattern matches.
fn filled(prefix: &str, pattern: &str) -> String {
    let parts = pattern.split('/').map(|part| match part.as_bytes().first() {
        Some(b':') => SAMPLE,
        Some(b'*') => "some/path",
        _ => part,
    });
    format!("{prefix}{}", parts.collect::<Vec<_>>().join("/"))
}

/// The value of `:name` in a path.
pub const SAMPLE: &str = "you";

/// Returns the lines after a prompt on a page.
#[must_use]
pub fn shown_commands(page: &str) -> Vec<String> {
    const PROMPT: &str = "<span class=\"prompt\">$ </span>";
    let lines = page.split(PROMPT).skip(1).map(|rest| rest.lines().next().unwrap_or_default());
    lines.map(|line| plain(&without_tags(line))).collect()
}

/// Returns a command without the remark after it.
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

/// Returns the words of a command line as a shell splits them: quotes join words and are removed.
/// Other syntax of a shell is not supported, so the documents do not use it.
///
/// # Panics
/// Never panics, because there is always a first word.
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

#[cfg(test)]
mod tests {
    use super::{fenced_commands, routes, yaml_commands};

    #[test]
    fn blocks_in_lists_and_blocks_that_contain_fences_are_complete() {
        let list = "1. Do:\n\n   ```sh\n   pinion serve public\n     curl /\n   ```\n2. Done\n";
        let page = "\n```html a.html\n  ``` end\n  <p>\n```\n";
        let document = format!("{list}{page}\n```sh\npinion check\n```\n");
        let file = "file = a.html\n  ``` end\n  <p>";
        let expected = ["pinion serve public", "curl /", file, "pinion check"];
        assert_eq!(fenced_commands(&document), expected);
    }

    #[test]
    fn commands_of_jobs_and_containers_are_found() {
        let document = "\n```yaml\n  - pinion check public\n    run: |\n      pinion build a\n  \
                        run: pinion ls b\n  command: [\"serve\", \"/live\"]\n  pinion: c\n```\n\
                        \n```sh\n- pinion man\n```\n";
        let expected =
            ["pinion check public", "pinion build a", "pinion ls b", "pinion \"serve\" \"/live\""];
        assert_eq!(yaml_commands(document), expected);
    }

    #[test]
    fn routes_are_read_with_the_prefixes_of_their_groups() {
        let script = r#"
            pinion.get("/", function() return "get(\"/no\")" end)
            pinion.any("/echo/*rest", function(req) return req.path end)
            pinion.route("PURGE", "/cache", function(req, res) res:status(204) end)
            local admin = pinion.group("/admin")
            admin.use(function(req, res, next) return next() end)
            local inner = admin.group("/inner")
            inner.delete("/:name/x", function() end)
            other.get("/elsewhere")
        "#;
        let expected = [
            ("GET", "/"),
            ("GET", "/echo/some/path"),
            ("PURGE", "/cache"),
            ("DELETE", "/admin/inner/you/x"),
        ];
        let expected = expected.map(|(method, path)| (method.to_owned(), path.to_owned()));
        assert_eq!(routes(script), expected);
    }
}

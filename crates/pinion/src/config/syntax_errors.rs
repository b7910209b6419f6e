//! Explains syntax errors of a file: the findings of the TOML parser, in words that say how to
//! write it instead. The parser reports several errors for one missing quote, and this module
//! reports one.

use super::unknown_names;
use crate::directives::config_file_tables::Table;
use crate::directives::{self, Kind};

/// A finding: its byte, and one line about it.
pub(crate) type Finding = (usize, String);

/// Quotes that word processors write.
const TYPOGRAPHIC: [char; 6] = ['“', '”', '„', '‘', '’', '«'];

/// Returns the findings to report for the errors of the parser, each with its byte and its message.
pub(crate) fn findings(text: &str, errors: &[Finding]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut explained = None;
    let mut errors: Vec<&Finding> = errors.iter().collect();
    errors.sort_by_key(|(at, _)| *at);
    for (at, message) in errors {
        let at = if text.is_char_boundary(*at) { *at } else { text.len() };
        let line = ConfigLine::at(text, at);
        // The first error of a line explains the others, but for those of a list.
        if explained == Some(line.start) {
            continue;
        }
        let (found, is_of_line) = line.explain(at, message);
        if is_of_line {
            explained = Some(line.start);
        }
        if !findings.contains(&found) {
            findings.push(found);
        }
        let is_open_list = message.starts_with(MISSING_COMMA) && line.begins_anew_at(at);
        if is_open_list || line.is_block() || line.is_yaml() {
            // All that follows would be read as a part of the list, or is not TOML either.
            break;
        }
    }
    findings
}

/// How the parser begins to say that a list lacks a comma before a value.
const MISSING_COMMA: &str = "missing comma between array";

/// A line of a file.
struct ConfigLine<'t> {
    /// The whole file.
    file: &'t str,
    /// The byte that the line begins at.
    start: usize,
    text: &'t str,
}

impl<'t> ConfigLine<'t> {
    /// Returns the line of a byte; a line break belongs to the line before it.
    fn at(text: &'t str, byte: usize) -> Self {
        let (before, after) = text.split_at(byte);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let end = after.find('\n').map_or(text.len(), |at| byte + at);
        Self { file: text, start, text: text.get(start..end).unwrap_or_default() }
    }

    /// Returns whether a table or a key begins at this byte, the first of the line that says
    /// anything.
    fn begins_anew_at(&self, at: usize) -> bool {
        self.before(at).trim().is_empty()
            && (self.text.starts_with('[') || self.key_and_value().is_some())
    }

    /// Returns the text of the line before a byte.
    fn before(&self, at: usize) -> &'t str {
        self.text.get(..at - self.start).unwrap_or_default()
    }

    /// Returns whether the line begins or ends a block of the configuration of another server: of
    /// nginx or Caddy (`server {`), of Apache (`<VirtualHost *:80>`), or of JSON.
    fn is_block(&self) -> bool {
        let text = self.text.trim();
        let is_braced = text.starts_with(['{', '}']) || text.ends_with('{');
        (is_braced && self.key_and_value().is_none()) || text.starts_with('<')
    }

    /// Returns whether the line is one of YAML that no other language has: the begin of a document,
    /// a member of a list, or a key with nothing after its colon.
    fn is_yaml(&self) -> bool {
        let text = self.text.split(" #").next().unwrap_or_default().trim();
        let is_key = |name: &str| !name.is_empty() && name.bytes().all(is_name_byte);
        let is_member = text.strip_prefix("- ").is_some_and(|member| !member.contains('='));
        text == "---" || is_member || text.strip_suffix(':').is_some_and(is_key)
    }

    /// Returns the key, the value without a comment, and the byte of the line that it begins at.
    fn key_and_value(&self) -> Option<(&'t str, &'t str, usize)> {
        let (key, value) = self.text.split_once('=')?;
        let name = key.trim().trim_matches('"');
        if name.is_empty() || !name.bytes().all(is_name_byte) {
            return None;
        }
        let begin = key.len() + 1 + (value.len() - value.trim_start().len());
        let value = value.split(" #").next().unwrap_or_default();
        Some((name, value.trim(), begin))
    }

    /// Returns the finding for an error, and whether it is about all of the line.
    fn explain(&self, at: usize, message: &str) -> (Finding, bool) {
        let of_line = |message: String| ((at, message), true);
        if message == "duplicate key" {
            return (self.duplicate(at), true);
        }
        if message.starts_with("unclosed array table") || message.starts_with("unclosed table") {
            let name = self.text.split('#').next().unwrap_or_default();
            let name = name.trim().trim_matches(['[', ']']);
            let known = Table::named(name).map(Table::header);
            let header = known.unwrap_or_else(|| format!("[{name}]"));
            return of_line(format!("the header of a table is not closed; write {header}"));
        }
        if message.starts_with(MISSING_COMMA) {
            return of_line(self.missing_comma(at));
        }
        if self.is_block() {
            return of_line(BLOCK.to_owned());
        }
        if self.is_yaml() {
            return of_line(YAML.to_owned());
        }
        if message.starts_with("missing escaped value") {
            return of_line(
                "\\ and this character mean nothing in double quotes; write \\\\ for a backslash"
                    .to_owned(),
            );
        }
        match self.key_and_value() {
            Some((key, value, begin)) if at >= self.start + begin => {
                match of_value(key, value, message) {
                    Some(found) => ((self.start + begin, found), true),
                    None => self.of_rest(at, key, message),
                }
            }
            Some(_) => of_line(plain(message).unwrap_or_else(|| NEITHER.to_owned())),
            None => of_line(self.of_keyless(self.item(at), message)),
        }
    }

    /// Returns the item of a list that begins at a byte.
    fn item(&self, at: usize) -> &'t str {
        let rest = self.text.get(at - self.start..).unwrap_or_default();
        rest.split([',', ']']).next().unwrap_or_default().trim()
    }

    /// Returns the name that begins at a byte.
    fn word(&self, at: usize) -> &'t str {
        let rest = self.text.get(at - self.start..).unwrap_or_default();
        let is_end = |c: char| c.is_whitespace() || matches!(c, '=' | ']' | '[' | '.' | ':');
        rest.split(is_end).next().unwrap_or_default().trim_matches('"')
    }

    /// Returns the finding for a name that is there twice, at the line that has to be changed.
    fn duplicate(&self, at: usize) -> Finding {
        let name = self.word(at);
        if !self.text.trim_start().starts_with('[') {
            return (at, format!("{name} is given twice in the same table; give it once"));
        }
        let table = Table::named(name);
        if let Some(table) = table
            && let Some(wrong) = header_at(self.file, &table.wrong_header())
        {
            return (wrong, table.written_wrong());
        }
        let message = match table.filter(|table| table.is_repeated()) {
            Some(table) => {
                format!("{name} is written in two ways; write {} for each", table.header())
            }
            None => format!("[{name}] is given twice; write all its keys below one [{name}]"),
        };
        (at, message)
    }

    /// Returns the advice for a list that lacks a comma before a byte.
    fn missing_comma(&self, at: usize) -> String {
        if self.begins_anew_at(at) {
            return "the list before this line is not closed; write ] after it".to_owned();
        }
        let before = self.before(at).trim();
        if !before.is_empty() {
            let (item, rest) = (self.item(at), self.text.get(at - self.start..));
            let rest = rest.unwrap_or_default().trim();
            return format!("a comma is missing before {item}; write {before}, {rest}");
        }
        let lines = self.file.get(..self.start).unwrap_or_default().lines().rev();
        let mut lines = lines.map(|line| line.split('#').next().unwrap_or_default().trim());
        let last = lines.find(|line| !line.is_empty()).unwrap_or_default();
        format!("a comma is missing at the end of the line before; write {last},")
    }

    /// Explains an error after the beginning of a value that is a string or a list.
    fn of_rest(&self, at: usize, key: &str, message: &str) -> (Finding, bool) {
        let is_end = at == self.start + self.text.len();
        let item = self.item(at);
        if is_end && message.starts_with("invalid basic string") {
            return (
                (at, format!("{key}: the quote \" at the end of the string is missing")),
                true,
            );
        }
        if is_end && message.starts_with("invalid literal string") {
            return ((at, format!("{key}: the quote ' at the end of the string is missing")), true);
        }
        if message.starts_with("unexpected key or value") {
            let rest = self.text.get(at - self.start..).unwrap_or_default();
            let problem = match rest.get(..1) {
                Some(mark @ (";" | ",")) => format!("remove the {mark} after the value"),
                Some("/") => COMMENT.to_owned(),
                _ => "expected nothing more after the value; each key has a line of its own".into(),
            };
            return ((at, format!("{key}: {problem}")), true);
        }
        if message.starts_with("missing opening quote") {
            let problem = format!("a quote is missing before {}", item.trim_matches('"'));
            return ((at, format!("{key}: {problem}")), false);
        }
        if message.starts_with("string values must be quoted") && !item.is_empty() {
            return ((at, format!("{key}: a string needs quotes: {}", quoted(item))), false);
        }
        let problem = plain(message).unwrap_or_else(|| NEITHER.to_owned());
        ((at, format!("{key}: {problem}")), false)
    }

    /// Explains an error in a line that has no `=` after a name.
    fn of_keyless(&self, item: &str, message: &str) -> String {
        let text = self.text.trim_start();
        if text.starts_with("//") {
            return COMMENT.to_owned();
        }
        let (name, rest) = text.split_once([':', ' ', '\t']).unwrap_or((text.trim_end(), ""));
        let value = rest.split(" #").next().unwrap_or_default().trim();
        let value = value.trim_end_matches(';').trim_end();
        // A mount has a key `root`, but a line of another server means the folder of the site.
        let is_key = name != "root"
            && directives::all().any(|row| row.file.is_some_and(|key| key.name == name));
        let is_name = !name.is_empty() && name.bytes().all(is_name_byte);
        match (is_key, value) {
            (true, "") => format!("{name}: a value is missing; write {name} = and a value"),
            (true, value) => {
                format!("{name}: = is missing; write {name} = {}", literal(name, value))
            }
            (false, _) if !item.is_empty() && message.starts_with("string values") => {
                format!("a string needs quotes: {}", quoted(item))
            }
            (false, _) => match of_other_server(name, value) {
                Some(advice) => format!("{name}: this is not TOML; {advice}"),
                None if is_name && !value.is_empty() => {
                    format!("{name}: = is missing; write {name} = {}", literal(name, value))
                }
                None => plain(message).unwrap_or_else(|| NEITHER.to_owned()),
            },
        }
    }
}

/// The advice about a comment of another language.
const COMMENT: &str = "a comment begins with #, not with //";

/// The advice about a line that is no TOML at all.
const NEITHER: &str = "this line is neither a table such as [[site]] nor a key and its value such \
                       as path = \"public\"";

/// The advice about a file of another server.
const BLOCK: &str = "this is the configuration of another server: there are no blocks here; write \
                     [[site]], and below it path = \"public\" and hosts = [\"example.org\"]";

/// The advice about a file in YAML.
const YAML: &str = "this looks like YAML; pinion.toml is TOML: write [[site]], and below it path = \
                    \"public\"";

/// Returns the advice about a directive of another server.
fn of_other_server(name: &str, value: &str) -> Option<String> {
    match name {
        "listen" | "Listen" | "bind" => {
            Some(format!("write [[listen]], and below it address = {}", quoted(value)))
        }
        name => unknown_names::habit(name).map(str::to_owned),
    }
}

/// Returns whether a key may have this byte without quotes.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Returns the byte at which the name of a header stands, if the header is the only text of a line.
fn header_at(file: &str, header: &str) -> Option<usize> {
    let mut start = 0;
    for line in file.split('\n') {
        if line.split('#').next().unwrap_or_default().trim() == header {
            let indent = line.len() - line.trim_start().len();
            let brackets = header.len() - header.trim_start_matches('[').len();
            return Some(start + indent + brackets);
        }
        start += line.len() + 1;
    }
    None
}

/// Returns the error for a value that is neither a string in quotes nor a list; `None` for a right
/// one.
fn of_value(key: &str, value: &str, message: &str) -> Option<String> {
    if value.is_empty() {
        return Some(format!("{key}: the value is missing"));
    }
    // `[::1]:8080` begins like a list and is none.
    let is_list = value.starts_with('[') && (value.ends_with(']') || !value.contains(']'));
    if is_list || value.starts_with(['"', '\'', '{']) {
        return None;
    }
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '_' | '+' | '-');
    if value.chars().all(is_number) {
        return Some(format!("{key}: {}", plain(message)?));
    }
    if value.starts_with(TYPOGRAPHIC) {
        return Some(format!("{key}: write straight quotes: {key} = {}", quoted(value)));
    }
    let lower = value.to_ascii_lowercase();
    if matches!(lower.as_str(), "true" | "false") {
        return Some(format!("{key}: write {lower} in small letters"));
    }
    if matches!(lower.as_str(), "yes" | "on" | "no" | "off") {
        return Some(format!("{key}: write true or false"));
    }
    if let Some(front) = value.strip_suffix(';') {
        return Some(format!("{key}: remove the ; after {}", front.trim_end()));
    }
    if value.ends_with(['"', '\'']) {
        return Some(format!("{key}: a quote is missing: {key} = {}", quoted(value)));
    }
    let row = directives::all().find(|row| row.file.is_some_and(|found| found.name == key));
    if row.is_some_and(directives::Directive::is_list) && value.contains(',') {
        let items: Vec<String> = value.split(',').map(|item| quoted(item.trim())).collect();
        return Some(format!("{key}: a list has brackets: {key} = [{}]", items.join(", ")));
    }
    let digits = value.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    if let Some(row) = row
        && let (Kind::Number { .. }, false) = (row.kind, digits.is_empty())
    {
        let bounds = row.kind.bounds();
        return Some(format!("{key}: write a number alone ({bounds}): {key} = {digits}"));
    }
    Some(format!("{key}: a string needs quotes: {key} = {}", quoted(value)))
}

/// Returns a text as the value of a key: a number and a truth value of a key that takes one without
/// quotes, all others as a string.
fn literal(key: &str, text: &str) -> String {
    let rows = || directives::all().filter(|row| row.file.is_some_and(|found| found.name == key));
    let text = text.trim_end_matches(';').trim_end();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_bare = match text {
        "true" | "false" => rows().any(|row| matches!(row.kind, Kind::Switch)),
        _ => is_number && rows().any(|row| matches!(row.kind, Kind::Number { .. })),
    };
    if is_bare { text.to_owned() } else { quoted(text) }
}

/// Returns a text as a string of TOML, in place of any quotes that it has.
fn quoted(text: &str) -> String {
    let quotes: Vec<char> = TYPOGRAPHIC.into_iter().chain(['"', '\'', '»']).collect();
    let text = text.trim_end_matches(';').trim_matches(&quotes[..]);
    format!("\"{text}\"")
}

/// Returns a message of the parser without its empty phrases; `None` if it only says that the line
/// is no TOML.
fn plain(message: &str) -> Option<String> {
    let is_grammar = ["key with no value", "invalid key-value pair", "missing value"];
    if is_grammar.iter().any(|begin| message.starts_with(begin)) {
        return None;
    }
    Some(message.trim_end_matches(", expected nothing").to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use std::path::Path;

    #[track_caller]
    fn says(text: &str, expected: &[&str]) {
        let faults = tables::read(text, Path::new("p")).expect_err("no TOML");
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn a_missing_quote_is_one_error_that_shows_the_line_to_write() {
        for (line, expected) in [
            ("path = public", "8: path: a string needs quotes: path = \"public\""),
            ("path = ./public # a", "8: path: a string needs quotes: path = \"./public\""),
            ("path = /srv/www", "8: path: a string needs quotes: path = \"/srv/www\""),
            ("path = \"public", "15: path: the quote \" at the end of the string is missing"),
            ("path = 'public", "15: path: the quote ' at the end of the string is missing"),
            ("path = public\"", "8: path: a quote is missing: path = \"public\""),
            ("path = “public”", "8: path: write straight quotes: path = \"public\""),
            ("watch = yes", "9: watch: write true or false"),
            ("workers = two;", "11: workers: remove the ; after two"),
            ("tls = :443", "7: tls: a string needs quotes: tls = \":443\""),
            ("tls = 127.0.0.1:1", "7: tls: a string needs quotes: tls = \"127.0.0.1:1\""),
            ("tls = [::1]:443", "7: tls: a string needs quotes: tls = \"[::1]:443\""),
            ("hsts = 1y,preload", "8: hsts: a string needs quotes: hsts = \"1y,preload\""),
            ("hosts = a, b", "9: hosts: a list has brackets: hosts = [\"a\", \"b\"]"),
            ("grace = 30s", "9: grace: write a number alone (0 to 86400 seconds): grace = 30"),
            ("watch = True", "9: watch: write true in small letters"),
            ("path =", "7: path: the value is missing"),
            ("grace = 0644", "9: grace: unexpected leading zero"),
        ] {
            says(&format!("{line}\n"), &[&format!("p:1:{expected}")]);
        }
    }

    #[test]
    fn each_value_of_a_list_is_checked() {
        says(
            "hosts = [a.test, b.test]\n",
            &[
                "p:1:10: hosts: a string needs quotes: \"a.test\"",
                "p:1:18: hosts: a string needs quotes: \"b.test\"",
            ],
        );
        says("hosts = [\n  \"a\",\n  b.test,\n]\n", &["p:3:3: a string needs quotes: \"b.test\""]);
        says("hosts = [\"a\", b\"]\n", &["p:1:15: hosts: a quote is missing before b"]);
        says(
            "[[site]]\nhosts = [\"a\"\n[log]\n",
            &["p:3:1: the list before this line is not closed; write ] after it"],
        );
    }

    const SINGLE: &str =
        "1:2: write [[site]] instead of [site]: a table of which there can be several";
    const SINGLE_INDENTED: &str =
        "1:3: write [[site]] instead of [site]: a table of which there can be several";
    const DOUBLE: &str = "1:3: write [server] instead of [[server]]: a table that is there once";
    const DOUBLE_LAST: &str =
        "2:3: write [server] instead of [[server]]: a table that is there once";

    #[test]
    fn a_missing_comma_is_one_error_that_shows_the_line_to_write() {
        for (text, expected) in [
            (
                "hosts = [\"a\" \"b\"]\n",
                "1:14: a comma is missing before \"b\"; write hosts = [\"a\", \"b\"]",
            ),
            (
                "hosts = [\n  \"a\"\n  \"b\"\n]\n",
                "3:3: a comma is missing at the end of the line before; write \"a\",",
            ),
            (
                "hosts = [\n  \"a\" # x\n\n  \"b\"]\n",
                "4:3: a comma is missing at the end of the line before; write \"a\",",
            ),
        ] {
            says(text, &[&format!("p:{expected}")]);
        }
    }

    /// Each line of another server has one error, and a file of blocks has one for all of it.
    #[test]
    fn lines_in_the_syntax_of_other_servers_get_advice() {
        for text in [
            "server {\n  listen 80;\n  root /x;\n}\n",
            "example.org {\n  root * /x\n}\n",
            "<VirtualHost *:80>\n  DocumentRoot /x\n</VirtualHost>\n",
            "{\n  \"site\": 1\n}\n",
        ] {
            let faults = tables::read(text, Path::new("p")).expect_err("no TOML");
            let messages: Vec<&str> = faults.iter().map(|fault| &*fault.message).collect();
            assert_eq!(messages, [super::BLOCK], "{text}");
        }
        for (line, expected) in [
            (
                "listen 80;",
                "listen: this is not TOML; write [[listen]], and below it address = \"80\"",
            ),
            ("root /x;", "root: this is not TOML; write path = \"FOLDER\""),
            (
                "server_name a.test;",
                "server_name: this is not TOML; write hosts = [\"example.org\"]",
            ),
            ("gzip on;", "gzip: = is missing; write gzip = \"on\""),
            ("name: value", "name: = is missing; write name = \"value\""),
            ("path /srv/www;", "path: = is missing; write path = \"/srv/www\""),
            ("---", super::YAML),
            ("site:", super::YAML),
            ("  - path: public", super::YAML),
            ("workers: 2", "workers: = is missing; write workers = 2"),
            ("watch: true", "watch: = is missing; write watch = true"),
            ("workers: two", "workers: = is missing; write workers = \"two\""),
            ("path: 2", "path: = is missing; write path = \"2\""),
        ] {
            let faults = tables::read(&format!("{line}\n"), Path::new("p")).expect_err("no TOML");
            let messages: Vec<&str> = faults.iter().map(|fault| &*fault.message).collect();
            assert_eq!(messages, [expected], "{line}");
        }
        says("path = \"a\";\n", &["p:1:11: path: remove the ; after the value"]);
        says("path = \"a\",\n", &["p:1:11: path: remove the , after the value"]);
        says("path = \"a\" // b\n", &["p:1:12: path: a comment begins with #, not with //"]);
    }

    #[test]
    fn malformed_headers_and_keys_get_advice() {
        for (text, expected) in [
            ("[[site]\n", "1:8: the header of a table is not closed; write [[site]]"),
            ("[server\n", "1:8: the header of a table is not closed; write [server]"),
            ("path: \"a\"\n", "1:5: path: = is missing; write path = \"a\""),
            ("path \"a\"\n", "1:6: path: = is missing; write path = \"a\""),
            ("// a\n", "1:1: a comment begins with #, not with //"),
            (
                "a = \"\\l\"\n",
                "1:7: \\ and this character mean nothing in double quotes; write \
                              \\\\ for a backslash",
            ),
            ("a = 1\na = 2\n", "2:1: a is given twice in the same table; give it once"),
            ("[site]\n[[site]]\n", SINGLE),
            ("[site]\n[[site]]\n[[site]]\n", SINGLE),
            (" [site] # a\n[[site]]\n", SINGLE_INDENTED),
            ("[[server]]\n[server]\n", DOUBLE),
            ("[server]\n[[server]]\n", DOUBLE_LAST),
            ("[log]\n[log]\n", "2:2: [log] is given twice; write all its keys below one [log]"),
            (
                "path = \"a\" tls = 1\n",
                "1:12: path: expected nothing more after the value; each key has a line of its own",
            ),
        ] {
            says(text, &[&format!("p:{expected}")]);
        }
    }
}

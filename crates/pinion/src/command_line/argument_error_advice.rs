//! Explains a mistake in the arguments in one line, with the right form to write instead: typing
//! errors, and flags and commands of other servers.

use super::{LISTEN, PORT, other_server_commands, verb_of};
use crate::config::name_suggestion::nearest;
use crate::directives::manual_sections;
use crate::directives::verbs::Verb;
use crate::directives::{self, Directive};
use crate::served_source;
use crate::terminal::shown;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Returns one line for an error that clap found in the arguments: the error, and the advice about
/// it.
pub(super) fn explain(error: &clap::Error, arguments: &[OsString]) -> String {
    let verb = verb_of(arguments);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(" ")),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    let help = format!("`pinion {} --help`", verb.map_or("COMMAND", |verb| verb.row().name));
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let wrong = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            unknown_verb(&wrong, text(ContextKind::SuggestedSubcommand).as_deref())
        }
        ErrorKind::MissingRequiredArgument if verb == Some(Verb::Build) => {
            "give the folder to build: pinion build public -o site.pinion".to_owned()
        }
        ErrorKind::MissingRequiredArgument => {
            let example = verb.and_then(|verb| manual_sections::examples(verb).first());
            let example = example.map_or(help, |(command, _)| format!("`{command}`"));
            format!("missing {argument}; for example: {example}")
        }
        ErrorKind::UnknownArgument if verb == Some(Verb::Build) && !argument.starts_with('-') => {
            format!(
                "{argument:?} is one argument too many; to name the archive write -o {}",
                one_line(&argument)
            )
        }
        ErrorKind::UnknownArgument if verb == Some(Verb::Serve) && !argument.starts_with('-') => {
            format!(
                "{argument:?} is one argument too many: serve takes one PATH; for several sites \
                 write a [[site]] for each in pinion.toml, and serve that"
            )
        }
        ErrorKind::UnknownArgument => {
            let near = text(ContextKind::SuggestedArg);
            unknown(&argument, near, &help, arguments)
        }
        ErrorKind::ArgumentConflict => format!("{argument} is given twice; give it once"),
        ErrorKind::InvalidValue => format!("{argument} needs a value"),
        ErrorKind::TooManyValues => format!("{argument} takes no value"),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            no_verb()
        }
        _ => error.to_string().lines().next().unwrap_or_default().replace("error: ", ""),
    }
}

/// Returns the error for a word that is neither a verb nor the path of something to serve. It is a
/// typing error for the verb `near`, or a path at which there is no file.
fn unknown_verb(wrong: &str, near: Option<&str>) -> String {
    if let Some(hint) = other_server_commands::of_command(wrong) {
        return format!("unknown command {wrong}; {hint}");
    }
    // A slip in the name of the folder to serve must not lead to a verb that changes a site.
    let is_path = wrong.contains(['/', '.'])
        || nearest(wrong, [served_source::PUBLIC]).is_some()
        || served_source::is_output(wrong);
    match near.and_then(|near| nearest(wrong, [near])).filter(|_| !is_path) {
        Some(near) => format!("unknown command {wrong}; did you mean {near}?"),
        None => format!(
            "unknown command {wrong}, and no file or folder has this name; give the path of what \
             to serve, or a command: `pinion --help` lists the commands"
        ),
    }
}

fn unknown(argument: &str, near: Option<String>, help: &str, arguments: &[OsString]) -> String {
    if !argument.starts_with('-') {
        return format!("{argument:?} is one argument too many; {help} shows how it is written");
    }
    let verb = verb_of(arguments);
    let name = argument.trim_start_matches('-');
    if let Some(hint) =
        other_server_commands::of_store_flag(name).filter(|_| verb == Some(Verb::Store))
    {
        return format!("unknown flag {argument}; {hint}");
    }
    let row_name = if name == PORT { LISTEN } else { name };
    let is_row = |row: &&Directive| row.name == row_name || is_letter_of(row, argument);
    if let Some(row) = directives::all().filter(|row| !row.verbs.is_empty()).find(is_row) {
        let homes: Vec<&str> = row.verbs.iter().map(|verb| verb.row().name).collect();
        let advice = verb.map_or_else(|| with_command(row, arguments), |_| String::new());
        let long =
            if is_letter_of(row, argument) { format!("--{}, ", row.name) } else { String::new() };
        let homes = homes.join("`, `pinion ");
        return format!("{argument} is {long}a flag of `pinion {homes}`{advice}");
    }
    if let Some(hint) = other_server_commands::of_flag(name, verb, arguments) {
        return format!("unknown flag {argument}; {hint}");
    }
    if let Some(near) = near_letter(argument, verb.unwrap_or(Verb::Serve)) {
        return format!("unknown flag {argument}; did you mean {near}?");
    }
    match near.filter(|near| nearest(name, [near.trim_start_matches('-')]).is_some()) {
        Some(near) => format!("unknown flag {argument}; did you mean {near}?"),
        None => format!("unknown flag {argument}; {help} lists the flags"),
    }
}

/// Returns whether an argument is the one-letter name of a flag.
fn is_letter_of(row: &Directive, argument: &str) -> bool {
    row.short.is_some_and(|letter| argument.strip_prefix('-') == Some(letter.to_string().as_str()))
}

/// Returns the flags of a verb that begin with the letter of a one-letter flag, if they are few.
fn near_letter(argument: &str, verb: Verb) -> Option<String> {
    const SHOWN_MAX: usize = 3;
    let letter = argument.strip_prefix('-').filter(|letter| letter.len() == 1)?;
    let names = directives::of(verb).map(|row| row.name).filter(|name| name.starts_with(letter));
    let mut names: Vec<String> = names.map(|name| format!("--{name}")).collect();
    names.sort_unstable();
    let (last, others) = names.split_last().filter(|_| names.len() <= SHOWN_MAX)?;
    Some(match others {
        [] => last.clone(),
        others => format!("{} or {last}", others.join(", ")),
    })
}

/// Returns the advice for a command line that begins with a flag.
fn with_command(row: &Directive, arguments: &[OsString]) -> String {
    let serves = row.verbs.contains(&Verb::Serve).then_some(Verb::Serve);
    let Some(verb) = serves.or_else(|| row.verbs.first().copied()) else { return String::new() };
    let words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    let words = words.collect::<Vec<_>>().join(" ");
    format!("; write `pinion {} {}`", verb.row().name, one_line(&words))
}

/// Returns a text whose control characters no terminal obeys.
fn one_line(text: &str) -> String {
    shown(text.as_bytes()).to_string()
}

pub(super) fn no_verb() -> String {
    "no command given; start with `pinion serve public`, `pinion --help` lists the commands"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use crate::failure::Failure;
    use std::ffi::OsString;

    #[test]
    fn each_argument_error_is_one_line_with_advice() {
        for (line, hint) in [
            ("pinion", "no command given"),
            ("pinion serv public", "unknown command serv; did you mean serve?"),
            ("pinion xyzzy", "`pinion --help` lists the commands"),
            ("pinion no/such/folder", "`pinion --help` lists the commands"),
            ("pinion help xyzzy", "unknown command xyzzy"),
            ("pinion public", "unknown command public, and no file or folder has this name"),
            ("pinion pub", "give the path of what to serve"),
            ("pinion start", "write `pinion serve public`"),
            ("pinion file-server", "unknown command file-server; write `pinion serve FOLDER`"),
            ("pinion -t", "unknown flag -t; to check a configuration, write `pinion check PATH`"),
            ("pinion -s reload", "unknown flag -s; write `pinion reload`"),
            ("pinion -s quit", "write `pinion stop`"),
            ("pinion -s reopen", "write `pinion reopen-logs`"),
            ("pinion -s", "write `pinion reload` or `pinion stop`"),
            ("pinion -v", "unknown flag -v; to show the version, write `pinion version`"),
            ("pinion -c a.conf", "unknown flag -c; give the path alone: `pinion serve PATH`"),
            ("pinion check -c a.conf", "give the path alone: `pinion check PATH`"),
            ("pinion serve --tls-cert a", "unknown flag --tls-cert; did you mean --cert?"),
            ("pinion serve --ssl_certificate_key a", "did you mean --key?"),
            ("pinion serve --log a", "unknown flag --log; did you mean --access-log?"),
            ("pinion serve --error-log a", "errors are printed on stderr; redirect that"),
            ("pinion serve -p 80", "unknown flag -p; did you mean --port?"),
            ("pinion serve -q 443", "unknown flag -q; did you mean --quic or --quic-congestion?"),
            ("pinion serve -i b", "did you mean --immutable, --include or --io?"),
            ("pinion serve -f b", "unknown flag -f; `pinion serve --help` lists the flags"),
            (
                "pinion -l 80 site",
                "-l is --listen, a flag of `pinion serve`; write `pinion serve -l 80 site`",
            ),
            ("pinion ls -o a b", "-o is --output, a flag of `pinion build`, `pinion extract`"),
            ("pinion serve --root a", "give the path alone"),
            ("pinion xyzzy", "unknown command xyzzy, and no file or folder has this name"),
            ("pinion ./serv", "unknown command ./serv, and no file or folder has this name"),
            ("pinion serve --wokers 2", "unknown flag --wokers; did you mean --workers?"),
            ("pinion serve --xyzzy", "`pinion serve --help` lists the flags"),
            ("pinion --xyzzy", "`pinion COMMAND --help` lists the flags"),
            ("pinion build a -o b --workers 2", "--workers is a flag of `pinion serve`"),
            ("pinion build", "give the folder to build: pinion build public -o site.pinion"),
            (
                "pinion cat a",
                "missing <URLPATH>; for example: `pinion cat site.pinion /index.html`",
            ),
            ("pinion publish a", "missing <DIR>; for example: `pinion publish site.pinion live`"),
            ("pinion build a b", "\"b\" is one argument too many; to name the archive write -o b"),
            ("pinion ls a b", "\"b\" is one argument too many; `pinion ls --help` shows"),
            ("pinion serve a -listen :80", "unknown flag -listen; did you mean --listen?"),
            ("pinion serve a -port=80", "unknown flag -port; did you mean --port?"),
            ("pinion check --config c", "give the path alone: `pinion check PATH`"),
            (
                "pinion --port 80 public",
                "--port is a flag of `pinion serve`; write `pinion serve --port 80 public`",
            ),
            ("pinion --watch a", "write `pinion serve --watch a`"),
            ("pinion --force a", "write `pinion build --force a`"),
            ("pinion ls a --port 80", "--port is a flag of `pinion serve`"),
            ("pinion build a --headers b", "unknown flag --headers; did you mean --fields?"),
            ("pinion serve a --redirects b", "unknown flag --redirects; did you mean --rules?"),
            ("pinion serve a b", "one PATH; for several sites write a [[site]] for each in"),
            ("pinion redis-server", "unknown command redis-server; write `pinion store`"),
            ("pinion store --port 6379", "give the address alone: `pinion store 127.0.0.1:6379`"),
            ("pinion store --tls :6380", "unknown flag --tls; did you mean --store-tls?"),
            ("pinion store --requirepass a", "did you mean --store-password?"),
            ("pinion store --watch", "--watch is a flag of `pinion serve`"),
            ("pinion serve --workers", "--workers <N> needs a value"),
            ("pinion serve --watch=yes", "takes no value"),
            ("pinion serve --workers 1 --workers 2", "given twice"),
        ] {
            match parse(line.split(' ').map(OsString::from)) {
                Err(Failure::Usage(message)) => {
                    assert!(message.contains(hint), "{line}: {message}");
                    assert!(!message.contains('\n'), "{line}: {message}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}

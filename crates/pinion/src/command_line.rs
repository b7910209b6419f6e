//! The command line, as written: clap is filled from the directive table, and what it finds wrong
//! becomes one line.

use crate::config::nearest::nearest;
use crate::directives::verb_notes::{self, Section};
use crate::directives::verbs::{self, Verb, VerbRow};
use crate::directives::{self, Default, Directive, Kind};
use crate::failure::Failure;
use crate::source;
use crate::terminal::shown;
use crate::written::Low;
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;
use std::path::Path;

/// What the arguments ask for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// To run a verb.
    Run(Low),
    /// To read this on stdout: clap's page of help or its version line.
    Help(clap::Error),
}

/// Reads the arguments, the program's name first.
///
/// # Errors
/// [`Failure::Usage`] with one line.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Asked, Failure> {
    let arguments = serve_as_default(help_as_flag(arguments.collect()));
    if let Some(wrong) = with_one_dash(&arguments) {
        return Err(Failure::usage(format!("unknown flag -{wrong}; did you mean --{wrong}?")));
    }
    let mut matches = match command().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            return Ok(Asked::Help(error));
        }
        Err(error) => return Err(Failure::usage(explain(&error, &arguments))),
    };
    match matches.remove_subcommand() {
        Some((name, matches)) => match Verb::named(&name) {
            Some(verb) => Ok(Asked::Run(low(verb, &matches))),
            None => Err(Failure::usage(no_verb())),
        },
        None => Err(Failure::usage(no_verb())),
    }
}

/// `pinion help VERB` asks for the same as `pinion VERB --help`.
fn help_as_flag(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// `pinion PATH` asks for the same as `pinion serve PATH`, if PATH exists and is not the name of a
/// verb.
fn serve_as_default(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_path = arguments.get(1).is_some_and(|word| {
        let is_verb = word.to_str().is_some_and(|word| Verb::named(word).is_some());
        !is_verb && !word.as_encoded_bytes().starts_with(b"-") && Path::new(word).exists()
    });
    if is_path {
        arguments.insert(1, Verb::Serve.row().name.into());
    }
    arguments
}

/// Returns the name of a flag that is written with one dash, without its dash: clap would take its
/// first letter for a flag and the others for the value of that.
fn with_one_dash(arguments: &[OsString]) -> Option<&'static str> {
    let verb = verb_of(arguments)?;
    // What follows the script belongs to the script.
    let flags = arguments.get(2..).filter(|_| verb != Verb::Run)?;
    let words = flags.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let mut names = words.filter_map(|word| {
        let word = word.strip_prefix('-').filter(|word| !word.starts_with('-'))?;
        Some(word.split('=').next().unwrap_or_default())
    });
    let named = |name: &str| {
        let rows = directives::of(verb).map(|row| row.name);
        let aliases = directives::of(verb).filter(|row| row.name == LISTEN).map(|_| PORT);
        rows.chain(aliases).find(|known| *known == name && known.len() > 1)
    };
    names.find_map(named)
}

/// Returns the verb that the arguments name.
fn verb_of(arguments: &[OsString]) -> Option<Verb> {
    arguments.get(1).and_then(|word| Verb::named(word.to_str()?))
}

/// The flag for addresses, and its other name: what many development servers call it. A port is an
/// address that can be listened on.
const LISTEN: &str = "listen";
const PORT: &str = "port";

/// Whether `--json` stands among arguments that may be wrong otherwise.
pub(crate) fn names_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// What stands in clap's matches of a verb.
fn low(verb: Verb, matches: &ArgMatches) -> Low {
    let mut low = Low::new(verb);
    let flags = directives::of(verb).map(|row| (row.name, matches!(row.kind, Kind::Switch)));
    let operands = verb.row().operands.iter().map(|operand| (operand.name, false));
    for (name, is_switch) in flags.chain(operands) {
        if matches.value_source(name) != Some(ValueSource::CommandLine) {
            continue;
        }
        let values = match is_switch {
            true => None,
            false => matches.get_many::<OsString>(name),
        };
        low.set(name, values.into_iter().flatten().cloned().collect());
    }
    low
}

/// clap's form of the table.
pub(crate) fn command() -> Command {
    Command::new("pinion")
        .bin_name("pinion")
        .about("One small, fast web server")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommands(verbs::ALL.iter().map(verb_command))
        .after_help(FIRST_STEP)
        .after_long_help(format!("{FIRST_STEP}\n\n{}", written(verb_notes::program_sections())))
}

/// The end of the short help of the program.
const FIRST_STEP: &str =
    "`pinion COMMAND --help` shows its flags. To start: pinion serve public, or pinion FOLDER";

fn verb_command(verb: &VerbRow) -> Command {
    let mut command = Command::new(verb.name).about(verb.brief);
    if !verb.long.is_empty() {
        command = command.long_about(format!("{}.\n\n{}", verb.brief, verb.long));
    }
    for operand in verb.operands {
        let mut argument = Arg::new(operand.name).help(operand.brief).required(operand.required);
        if operand.name == verbs::REST {
            argument = argument.num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
        }
        command = command.arg(argument.value_parser(ValueParser::os_string()));
    }
    let command = command.after_long_help(written(verb_notes::sections(verb.verb)));
    directives::of(verb.verb).fold(command, |command, row| command.arg(flag(row)))
}

/// Returns sections as the end of a long help.
fn written(sections: impl IntoIterator<Item = Section>) -> String {
    let mut text = String::new();
    for Section { title, entries } in sections {
        let name = title[..1].to_owned() + &title[1..].to_lowercase();
        let separator = if text.is_empty() { "" } else { "\n" };
        text += &format!("{separator}{name}:\n");
        for (what, about) in entries {
            text += &format!("  {what}\n          {about}\n");
        }
    }
    text
}

fn flag(row: &'static Directive) -> Arg {
    let help = short_help(row);
    let long_help = match [row.long, row.effect()].join(" ").trim() {
        "" => help.clone(),
        more => format!("{help}\n\n{more}"),
    };
    let mut flag = Arg::new(row.name).long(row.name).help_heading(row.level.name());
    flag = flag.help(help).long_help(long_help);
    if let Some(letter) = row.short {
        flag = flag.short(letter);
    }
    if row.name == LISTEN {
        flag = flag.visible_alias(PORT);
    }
    if matches!(row.kind, Kind::Switch) {
        return flag.action(ArgAction::SetTrue);
    }
    flag.value_name(row.kind.placeholder())
        .value_parser(ValueParser::os_string())
        .allow_negative_numbers(true)
        .action(if row.repeatable { ArgAction::Append } else { ArgAction::Set })
}

fn short_help(row: &Directive) -> String {
    let mut help = row.brief.to_owned();
    if let Kind::Choice(_) | Kind::Codings | Kind::Address = row.kind {
        help.push_str(&format!(" [{}]", row.bounds()));
    }
    match row.default {
        Default::Value(text) | Default::Auto(text) => help.push_str(&format!(" [default: {text}]")),
        Default::Off | Default::Required => {}
    }
    help
}

/// One line for what clap found wrong with the arguments: what, and what to do about it.
fn explain(error: &clap::Error, arguments: &[OsString]) -> String {
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
            format!("missing {argument}; {help} shows how it is written")
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

/// Returns what is wrong with a word that is neither a verb nor the path of something to serve. It
/// is a slip of the pen for the verb `near`, or a path where nothing is.
fn unknown_verb(wrong: &str, near: Option<&str>) -> String {
    if let Some(hint) = habit(wrong) {
        return format!("unknown command {wrong}; {hint}");
    }
    // A slip in the name of the folder to serve must not lead to a verb that changes a site.
    let is_path = wrong.contains(['/', '.'])
        || nearest(wrong, [source::PUBLIC]).is_some()
        || source::is_output(wrong);
    match near.and_then(|near| nearest(wrong, [near])).filter(|_| !is_path) {
        Some(near) => format!("unknown command {wrong}; did you mean {near}?"),
        None => format!(
            "unknown command {wrong}, and no file or folder has this name; give the path of what \
             to serve, or a command: `pinion --help` lists the commands"
        ),
    }
}

/// Returns what to do instead of a verb that other servers have.
fn habit(wrong: &str) -> Option<&'static str> {
    Some(match wrong {
        "start" => "write `pinion serve public`",
        "stop" | "quit" => "send the server SIGTERM: `kill PID`",
        "restart" => {
            "stop the server with `kill PID` and start it again, or `systemctl restart pinion`"
        }
        "reload" => "send the server SIGHUP: `kill -HUP PID`",
        "test" | "validate" => "write `pinion check`",
        _ => return None,
    })
}

fn unknown(argument: &str, near: Option<String>, help: &str, arguments: &[OsString]) -> String {
    if !argument.starts_with('-') {
        return format!("{argument:?} is one argument too many; {help} shows how it is written");
    }
    let verb = verb_of(arguments);
    let name = argument.trim_start_matches('-');
    let row_name = if name == PORT { LISTEN } else { name };
    if let Some(row) = directives::all().find(|row| row.name == row_name) {
        let homes: Vec<&str> = row.verbs.iter().map(|verb| verb.row().name).collect();
        let advice = verb.map_or_else(|| with_command(row, arguments), |_| String::new());
        return format!("{argument} is a flag of `pinion {}`{advice}", homes.join("`, `pinion "));
    }
    if let "config" | "root" | "dir" | "directory" = name {
        let row = verb.unwrap_or(Verb::Serve).row();
        let operand = row.operands.first().map_or("PATH", |operand| operand.name);
        let command = format!("pinion {} {operand}", row.name);
        return format!("unknown flag {argument}; give the path alone: `{command}`");
    }
    let meant = match name {
        "header" | "headers" => Some("fields"),
        "redirect" | "redirects" => Some("rules"),
        _ => None,
    };
    let is_of_verb = |meant: &&str| verb.is_some_and(|verb| takes(verb, meant));
    if let Some(meant) = meant.filter(is_of_verb) {
        return format!("unknown flag {argument}; did you mean --{meant}?");
    }
    match near.filter(|near| nearest(name, [near.trim_start_matches('-')]).is_some()) {
        Some(near) => format!("unknown flag {argument}; did you mean {near}?"),
        None => format!("unknown flag {argument}; {help} lists the flags"),
    }
}

/// Returns whether a verb has a flag of this name.
fn takes(verb: Verb, name: &str) -> bool {
    directives::of(verb).any(|row| row.name == name)
}

/// Returns what to write instead of a command line that begins with a flag.
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

fn no_verb() -> String {
    "no command given; start with `pinion serve public`, `pinion --help` lists the commands"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Asked, Failure> {
        parse(line.split(' ').map(OsString::from))
    }

    fn low(line: &str) -> Low {
        match read(line) {
            Ok(Asked::Run(low)) => low,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn clap_accepts_the_table() {
        command().debug_assert();
    }

    #[test]
    fn values_are_kept_as_written_and_in_order() {
        let low = low("pinion serve site --listen 80 -l unix:/a --watch");
        assert_eq!(low.verb, Verb::Serve);
        assert_eq!(low.values("listen").collect::<Vec<_>>(), ["80", "unix:/a"]);
        assert_eq!(low.values("PATH").collect::<Vec<_>>(), ["site"]);
        assert!(low.given("watch") && low.given("listen"));
        assert!(!low.given("dummy") && !low.given("workers"));
        assert!(!low.given("output"), "a flag of another verb is not given");
    }

    #[test]
    fn a_path_alone_is_served() {
        let low = low("pinion src --port 9000 -l unix:/a");
        assert_eq!(low.verb, Verb::Serve);
        assert_eq!(low.values("PATH").collect::<Vec<_>>(), ["src"]);
        assert_eq!(low.values("listen").collect::<Vec<_>>(), ["9000", "unix:/a"]);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line_with_a_way_out() {
        for (line, hint) in [
            ("pinion", "no command given"),
            ("pinion serv public", "unknown command serv; did you mean serve?"),
            ("pinion xyzzy", "`pinion --help` lists the commands"),
            ("pinion no/such/folder", "`pinion --help` lists the commands"),
            ("pinion help xyzzy", "unknown command xyzzy"),
            ("pinion public", "unknown command public, and no file or folder has this name"),
            ("pinion pub", "give the path of what to serve"),
            ("pinion start", "write `pinion serve public`"),
            ("pinion serve --root a", "give the path alone"),
            ("pinion xyzzy", "unknown command xyzzy, and no file or folder has this name"),
            ("pinion ./serv", "unknown command ./serv, and no file or folder has this name"),
            ("pinion serve --wokers 2", "unknown flag --wokers; did you mean --workers?"),
            ("pinion serve --xyzzy", "`pinion serve --help` lists the flags"),
            ("pinion --xyzzy", "`pinion COMMAND --help` lists the flags"),
            ("pinion build a -o b --workers 2", "--workers is a flag of `pinion serve`"),
            ("pinion build", "give the folder to build: pinion build public -o site.pinion"),
            ("pinion cat a", "missing <URLPATH>"),
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
            ("pinion serve --workers", "--workers <N> needs a value"),
            ("pinion serve --watch=yes", "takes no value"),
            ("pinion serve --workers 1 --workers 2", "given twice"),
        ] {
            match read(line) {
                Err(Failure::Usage(message)) => {
                    assert!(message.contains(hint), "{line}: {message}");
                    assert!(!message.contains('\n'), "{line}: {message}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn help_is_asked_for_and_names_every_flag() {
        for verb in verbs::ALL {
            match read(&format!("pinion {} --help", verb.name)) {
                Ok(Asked::Help(page)) => {
                    let text = page.to_string();
                    let spelled_out = read(&format!("pinion help {}", verb.name));
                    assert!(
                        matches!(spelled_out, Ok(Asked::Help(page)) if page.to_string() == text)
                    );
                    for row in directives::of(verb.verb) {
                        assert!(text.contains(&format!("--{}", row.name)), "{}", row.name);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

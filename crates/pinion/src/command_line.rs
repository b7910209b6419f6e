//! Reads the command line: clap is filled from the directive table, and an error that clap finds
//! becomes one line.

mod argument_error_advice;
mod other_server_commands;

use crate::directives::group::grouped;
use crate::directives::manual_sections::{self, ManualSection};
use crate::directives::verb_wording::{Wording, push_sentences};
use crate::directives::verbs::{self, Verb, VerbRow};
use crate::directives::{self, Default, Directive, Kind};
use crate::failure::Failure;
use crate::raw_settings::Low;
use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;
use std::path::Path;

/// The command that the arguments ask for.
#[derive(Debug)]
pub(crate) enum ParsedCommand {
    /// Run a verb.
    Run(Low),
    /// Print this on stdout: clap's page of help or its version line.
    Help(clap::Error),
}

/// Reads the arguments, the program's name first.
///
/// # Errors
/// [`Failure::Usage`] with one line.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<ParsedCommand, Failure> {
    let arguments = serve_as_default(help_as_flag(arguments.collect()));
    if let Some(wrong) = with_one_dash(&arguments) {
        return Err(Failure::usage(format!("unknown flag -{wrong}; did you mean --{wrong}?")));
    }
    let mut matches = match command().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            return Ok(ParsedCommand::Help(error));
        }
        Err(error) => {
            return Err(Failure::usage(argument_error_advice::explain(&error, &arguments)));
        }
    };
    match matches.remove_subcommand() {
        Some((name, matches)) => match Verb::named(&name) {
            Some(verb) => Ok(ParsedCommand::Run(low(verb, &matches))),
            None => Err(Failure::usage(argument_error_advice::no_verb())),
        },
        None => Err(Failure::usage(argument_error_advice::no_verb())),
    }
}

/// Converts `pinion help VERB`, which asks for the same as `pinion VERB --help`.
fn help_as_flag(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// Converts `pinion PATH`, which asks for the same as `pinion serve PATH`, if PATH exists and is
/// not the name of a verb.
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
    // Arguments after the script belong to the script.
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

/// Returns whether a verb has a flag of this name.
fn takes(verb: Verb, name: &str) -> bool {
    directives::of(verb).any(|row| row.name == name || (name == PORT && row.name == LISTEN))
}

/// The flag for addresses, and its other name, which many development servers use. A port is an
/// address that can be listened on.
const LISTEN: &str = "listen";
const PORT: &str = "port";

/// Returns whether `--json` stands among arguments that may be wrong otherwise.
pub(crate) fn names_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// Returns the raw settings in clap's matches of a verb.
fn low(verb: Verb, matches: &ArgMatches) -> Low {
    let mut low = Low::new(verb);
    let flags = directives::of(verb).map(|row| (row.name, matches!(row.kind, Kind::Switch)));
    let operands = verb.row().operands.iter().map(|operand| (operand.name, false));
    for (name, is_switch) in flags.chain(operands) {
        if matches.value_source(name) != Some(ValueSource::CommandLine) {
            continue;
        }
        let values = if is_switch { None } else { matches.get_many::<OsString>(name) };
        low.set(name, values.into_iter().flatten().cloned().collect());
    }
    low
}

/// Returns clap's form of the table.
pub(crate) fn command() -> Command {
    Command::new("pinion")
        .bin_name("pinion")
        .about("One small, fast web server")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommands(verbs::ALL.iter().map(verb_command))
        .after_help(FIRST_STEP)
        .after_long_help(format!(
            "{FIRST_STEP}\n\n{}",
            written(manual_sections::program_sections())
        ))
}

/// The end of the short help of the program.
const FIRST_STEP: &str =
    "`pinion COMMAND --help` shows its flags. To start: pinion serve public, or pinion FOLDER";

fn verb_command(verb: &VerbRow) -> Command {
    let mut command = Command::new(verb.name).about(verb.brief);
    // `pinion why` may lack the first of its operands.
    command = command.allow_missing_positional(verb.verb == Verb::Why);
    if !verb.long.is_empty() {
        command = command.long_about(format!("{}.\n\n{}", verb.brief, verb.long));
    }
    for operand in verb.operands {
        let mut argument = Arg::new(operand.name).help(operand.brief).required(operand.required);
        if operand.repeated {
            argument = argument.num_args(0..);
        }
        if operand.name == verbs::REST {
            argument = argument.trailing_var_arg(true).allow_hyphen_values(true);
        }
        command = command.arg(argument.value_parser(ValueParser::os_string()));
    }
    let command = command.after_long_help(written(manual_sections::sections(verb.verb)));
    let flags = grouped(verb.verb).flat_map(|(group, rows)| {
        rows.into_iter().map(move |row| flag(row, verb.verb).help_heading(group.title()))
    });
    flags.fold(command, Command::arg)
}

/// Returns sections as the end of a long help.
fn written(sections: impl IntoIterator<Item = ManualSection>) -> String {
    let mut text = String::new();
    for ManualSection { title, entries } in sections {
        let name = title[..1].to_owned() + &title[1..].to_lowercase();
        let separator = if text.is_empty() { "" } else { "\n" };
        text += &format!("{separator}{name}:\n");
        for (entry, about) in entries {
            text += &format!("  {entry}\n          {about}\n");
        }
    }
    text
}

fn flag(row: &'static Directive, verb: Verb) -> Arg {
    let wording = row.wording(verb);
    let help = short_help(row, &wording);
    let mut more = String::new();
    push_sentences(&mut more, [wording.long, row.repetition(), row.effect()]);
    let long_help = match more.trim() {
        "" => help.clone(),
        more => format!("{help}\n\n{more}"),
    };
    let mut flag = Arg::new(row.name).long(row.name).help(help).long_help(long_help);
    if let Some(letter) = row.short {
        flag = flag.short(letter);
    }
    if row.name == LISTEN {
        flag = flag.visible_alias(PORT);
    }
    if row.is_switch() {
        return flag.action(ArgAction::SetTrue);
    }
    flag.value_name(wording.placeholder)
        .value_parser(ValueParser::os_string())
        .allow_negative_numbers(true)
        .action(if row.repeatable { ArgAction::Append } else { ArgAction::Set })
}

fn short_help(row: &Directive, wording: &Wording) -> String {
    let mut help = wording.brief.to_owned();
    if let Kind::Choice(_) | Kind::Codings | Kind::Address = row.kind {
        help.push_str(&format!(" [{}]", row.bounds()));
    }
    match wording.default {
        Default::Auto(text) | Default::Nothing(text) | Default::Value(text) => {
            help.push_str(&format!(" [default: {text}]"));
        }
        Default::Off | Default::Required => {}
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<ParsedCommand, Failure> {
        parse(line.split(' ').map(OsString::from))
    }

    fn low(line: &str) -> Low {
        match read(line) {
            Ok(ParsedCommand::Run(low)) => low,
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
    fn the_help_of_each_verb_names_every_flag() {
        for verb in verbs::ALL {
            match read(&format!("pinion {} --help", verb.name)) {
                Ok(ParsedCommand::Help(page)) => {
                    let text = page.to_string();
                    let spelled_out = read(&format!("pinion help {}", verb.name));
                    let Ok(ParsedCommand::Help(page)) = spelled_out else { panic!("no page") };
                    assert_eq!(page.to_string(), text);
                    for row in directives::of(verb.verb) {
                        assert!(text.contains(&format!("--{}", row.name)), "{}", row.name);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

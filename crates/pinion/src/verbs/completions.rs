//! `pinion completions SHELL`: the script that a shell needs to complete command lines.

use crate::command_line;
use crate::directives::verbs::{self, VerbRow};
use crate::directives::{self, Directive, Kind};
use crate::failure::Failure;
use crate::manual;
use clap::{Command, ValueHint};
use clap_complete::{Shell, generate};
use std::io::{self, Write as _};

/// The shells, by their names.
const SHELLS: [(&str, Shell); 3] =
    [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];

/// Writes the completions of a shell to stdout.
pub(crate) fn run(shell: &str) -> Result<(), Failure> {
    let Some((_, shell)) = SHELLS.into_iter().find(|(name, _)| *name == shell) else {
        return Err(Failure::usage(format!("{shell:?} is none of: bash, zsh, fish")));
    };
    io::stdout().lock().write_all(&script(shell))?;
    Ok(())
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut command(), "pinion", &mut script);
    if shell == Shell::Fish {
        script.extend_from_slice(fish_operands().as_bytes());
    }
    script
}

/// Returns the possible operands, for fish: the generator leaves them out of its script.
fn fish_operands() -> String {
    let operands = verbs::ALL.iter().flat_map(|verb| verb.operands.iter().map(move |o| (verb, o)));
    let lines = operands.map(|(verb, operand)| match words(verb, operand.name).join(" ") {
        words if words.is_empty() => words,
        words => format!(
            "complete -c pinion -n \"__fish_pinion_using_subcommand {}\" -f -a \"{words}\"\n",
            verb.name
        ),
    });
    lines.collect()
}

/// Returns the command line with its possible values. They are read elsewhere, so the parser does
/// not know them.
fn command() -> Command {
    verbs::ALL.iter().fold(command_line::command(), |command, verb| {
        command.mut_subcommand(verb.name, |own| {
            let own = directives::of(verb.verb).fold(own, with_values);
            verb.operands.iter().fold(own, |own, operand| with_words(own, verb, operand.name))
        })
    })
}

fn with_values(command: Command, row: &'static Directive) -> Command {
    command.mut_arg(row.name, |flag| match row.kind {
        Kind::Choice(words) => flag.value_parser(words.to_vec()),
        Kind::Folder => flag.value_hint(ValueHint::DirPath),
        Kind::Path => flag.value_hint(ValueHint::FilePath),
        _ => flag,
    })
}

fn with_words(command: Command, verb: &VerbRow, operand: &'static str) -> Command {
    command.mut_arg(operand, |argument| match words(verb, operand) {
        words if !words.is_empty() => argument.value_parser(words),
        _ if ["URLPATH", "ADDRESS"].contains(&operand) => argument,
        _ => argument.value_hint(ValueHint::AnyPath),
    })
}

/// Returns the possible words of an operand, if there is a fixed list.
fn words(verb: &VerbRow, operand: &str) -> Vec<&'static str> {
    match (verb.name, operand) {
        ("man", _) => manual::names().collect(),
        ("completions", _) => SHELLS.map(|(name, _)| name).to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_completion_script_has_every_verb_and_flag() {
        for (name, shell) in SHELLS {
            let script = String::from_utf8(script(shell)).expect("text");
            for verb in verbs::ALL {
                assert!(script.contains(verb.name), "{name}: {}", verb.name);
                for row in directives::of(verb.verb) {
                    assert!(script.contains(row.name), "{name}: --{}", row.name);
                    if let Kind::Choice(words) = row.kind {
                        assert!(
                            words.iter().all(|word| script.contains(word)),
                            "{name}: {words:?}"
                        );
                    }
                }
            }
        }
    }
}

//! `FUNCTION`. The store has no functions, so its lists are empty.

use super::call::Call;
use super::client_commands::unknown_subcommand;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::{Error, SYNTAX};

const SERVER: CommandDefaults =
    CommandDefaults { group: CommandGroup::Server, keys: KeyArguments::None };

pub(super) const COMMANDS: &[CommandSpec] = &[SERVER.command(
    "function",
    -2,
    Flags::ADMIN,
    ("7.0.0", "Lists and removes functions, of which there are none."),
    function,
)];

fn function(call: &mut Call<'_, '_>) -> Result<(), Error> {
    match (call.argument(1).to_ascii_uppercase().as_slice(), call.arguments.len()) {
        (b"LIST", 2..) => call.reply.array(0),
        (b"FLUSH", 2) => call.reply.ok(),
        (b"FLUSH", 3) => {
            let mode = call.argument(2).to_ascii_uppercase();
            if !matches!(mode.as_slice(), b"ASYNC" | b"SYNC") {
                return Err(SYNTAX);
            }
            call.reply.ok();
        }
        _ => return Err(unknown_subcommand(call)),
    }
    Ok(())
}

//! Commands about the connection of a client: its protocol, its password, its database.

use super::call::Call;
use super::keys::database_number;
use super::options::OptionArguments;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::client::ClientState;
use crate::error::{Error, SYNTAX};
use crate::limits::REDIS_VERSION;
use crate::resp::reply_writer::RespVersion;
use crate::store::Store;

pub(super) const CONNECTION: CommandDefaults =
    CommandDefaults { group: CommandGroup::Connection, keys: KeyArguments::None };

const BEFORE_PASSWORD: Flags = Flags::FAST.and(Flags::NO_AUTH);

pub(super) const COMMANDS: &[CommandSpec] = &[
    CONNECTION.command(
        "ping",
        -1,
        Flags::FAST,
        ("1.0.0", "Replies, so the connection works."),
        ping,
    ),
    CONNECTION.command("echo", 2, Flags::FAST, ("1.0.0", "Returns its argument."), echo),
    CONNECTION.command("select", 2, Flags::FAST, ("1.0.0", "Changes the database."), select),
    CONNECTION.command(
        "hello",
        -1,
        BEFORE_PASSWORD.and(Flags::NO_MULTI),
        ("6.0.0", "Chooses the version of the protocol."),
        hello,
    ),
    CONNECTION.command(
        "auth",
        -2,
        BEFORE_PASSWORD.and(Flags::NO_MULTI),
        ("1.0.0", "Authenticates the connection with a password."),
        auth,
    ),
    CONNECTION.command(
        "reset",
        1,
        BEFORE_PASSWORD.and(Flags::NOT_QUEUED),
        ("6.2.0", "Brings the connection to its first state."),
        reset,
    ),
    CONNECTION.command(
        "quit",
        -1,
        BEFORE_PASSWORD.and(Flags::NOT_QUEUED),
        ("1.0.0", "Closes the connection."),
        quit,
    ),
];

fn ping(call: &mut Call<'_, '_>) -> Result<(), Error> {
    match call.arguments.len() {
        1 => call.reply.simple("PONG"),
        2 => call.reply.bulk(call.arguments.get(1).unwrap_or_default()),
        _ => return Err(crate::dispatch::wrong_arity(call.command.name)),
    }
    Ok(())
}

fn echo(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let text = call.argument(1);
    call.reply.bulk(text);
    Ok(())
}

fn select(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let number = database_number(call.argument(1))?;
    call.client.select(number);
    call.reply.ok();
    Ok(())
}

fn hello(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let unsupported = Error::constant("NOPROTO unsupported protocol version");
    let mut version = call.client.version;
    if let Some(text) = call.arguments.get(1) {
        version = match text {
            b"2" => RespVersion::Two,
            b"3" => RespVersion::Three,
            text if text.iter().all(u8::is_ascii_digit) => return Err(unsupported),
            _ => {
                return Err(Error::constant(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        };
    }
    let mut name = None;
    let mut is_authenticated = call.client.is_authenticated;
    let mut options = OptionArguments::from(call.arguments, 2);
    while let Some(option) = options.next_name() {
        match option?.as_bytes() {
            b"AUTH" => {
                let (user, password) = (options.next_value()?, options.next_value()?);
                check_password(call.locks.store(), Some(user), password)?;
                is_authenticated = true;
            }
            b"SETNAME" => name = Some(client_name(options.next_value()?)?),
            _ => return Err(SYNTAX),
        }
    }
    if !is_authenticated {
        return Err(Error::constant(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    call.client.is_authenticated = true;
    if let Some(name) = name {
        call.client.info.set_names(|names| names.name = name);
    }
    call.client.set_version(version);
    call.reply.version = version;
    let id = call.client.info.id as i64;
    let reply = &mut call.reply;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if version == RespVersion::Three { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

/// Returns a name of a client.
///
/// # Errors
/// The name has a space, a line break or another byte that would corrupt the line of the client in
/// `CLIENT LIST`.
pub(super) fn client_name(bytes: &[u8]) -> Result<String, Error> {
    if !bytes.iter().all(u8::is_ascii_graphic) {
        return Err(Error::constant(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn auth(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let store = call.locks.store();
    match call.arguments.len() {
        2 if store.settings.password.is_none() => {
            return Err(Error::constant(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => check_password(store, None, call.argument(1))?,
        3 => check_password(store, Some(call.argument(1)), call.argument(2))?,
        _ => return Err(SYNTAX),
    }
    call.client.is_authenticated = true;
    call.reply.ok();
    Ok(())
}

/// # Errors
/// The user is not `default`, or the password is not that of the store.
fn check_password(store: &Store, user: Option<&[u8]>, password: &[u8]) -> Result<(), Error> {
    let is_known = user.is_none_or(|user| user == b"default");
    let is_right = match &store.settings.password {
        Some(expected) => is_same(expected, password),
        // If the store has no password, any password is valid for the user `default`.
        None => true,
    };
    if is_known && is_right {
        return Ok(());
    }
    Err(Error::constant("WRONGPASS invalid username-password pair or user is disabled."))
}

/// Compares secrets in a time that does not depend on the position of the first difference.
fn is_same(expected: &[u8], given: &[u8]) -> bool {
    let mut difference = expected.len() ^ given.len();
    for (index, byte) in given.iter().enumerate() {
        difference |= usize::from(byte ^ expected[index % expected.len().max(1)]);
    }
    difference == 0
}

fn reset(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let store = call.locks.store();
    let ClientState { transaction, info, is_authenticated, .. } = &mut *call.client;
    transaction.discard(store);
    info.set_names(|names| names.name.clear());
    *is_authenticated = store.settings.password.is_none();
    call.client.select(0);
    call.client.set_version(RespVersion::Two);
    call.reply.version = RespVersion::Two;
    call.reply.simple("RESET");
    Ok(())
}

fn quit(call: &mut Call<'_, '_>) -> Result<(), Error> {
    call.client.is_closing = true;
    call.reply.ok();
    Ok(())
}

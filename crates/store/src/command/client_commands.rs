//! `CLIENT`.

use super::call::Call;
use super::connection::{CONNECTION, client_name};
use super::spec::{CommandSpec, Flags};
use crate::client_registry::ClientInfo;
use crate::error::{Error, SYNTAX};
use crate::resp::number::parse_i64;

pub(super) const COMMANDS: &[CommandSpec] = &[CONNECTION.command(
    "client",
    -2,
    Flags::NONE,
    ("2.4.0", "Names clients, lists them, and closes their connections."),
    client,
)];

/// Returns the error for a subcommand that a command does not have.
pub(super) fn unknown_subcommand(call: &Call<'_, '_>) -> Error {
    let shown = String::from_utf8_lossy(call.argument(1)).replace(['\r', '\n'], " ");
    let name = call.command.name.to_uppercase();
    Error::new(format!("ERR unknown subcommand '{shown}'. Try {name} HELP."))
}

fn client(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let subcommand = call.argument(1).to_ascii_uppercase();
    let count = call.arguments.len();
    match (subcommand.as_slice(), count) {
        (b"ID", 2) => call.reply.integer(call.client.info.id as i64),
        (b"GETNAME", 2) => {
            let name = call.client.info.names().name;
            call.reply.bulk_or_null(Some(name.as_bytes()).filter(|name| !name.is_empty()));
        }
        (b"SETNAME", 3) => {
            let name = client_name(call.argument(2))?;
            call.client.info.set_names(|names| names.name = name);
            call.reply.ok();
        }
        (b"SETINFO", 4) => set_info(call)?,
        (b"INFO", 2) => {
            let line = call.client.info.line(call.now_ms);
            call.reply.verbatim(&line);
        }
        (b"LIST", _) => list(call)?,
        (b"KILL", 3..) => kill(call)?,
        // These options have no effect here. They are accepted, because errors would only fill the
        // logs of clients that set them by default.
        (b"NO-EVICT" | b"NO-TOUCH", 3) | (b"MAINT_NOTIFICATIONS", _) => call.reply.ok(),
        (b"UNPAUSE", 2) => call.reply.ok(),
        (b"GETREDIR", 2) => call.reply.integer(-1),
        (b"TRACKINGINFO", 2) => tracking_info(call),
        (b"TRACKING" | b"CACHING", _) => {
            return Err(Error::constant("ERR client-side caching is not supported"));
        }
        _ => return Err(unknown_subcommand(call)),
    }
    Ok(())
}

fn set_info(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let value = call.argument(3);
    let is_plain = value.iter().all(u8::is_ascii_graphic);
    let text = String::from_utf8_lossy(value).into_owned();
    let set = |is_library: bool| {
        call.client.info.set_names(|names| {
            if is_library { names.library = text } else { names.library_version = text }
        });
    };
    match call.argument(2).to_ascii_uppercase().as_slice() {
        _ if !is_plain => {
            return Err(Error::constant(
                "ERR lib-name and lib-ver cannot contain spaces, newlines or special characters.",
            ));
        }
        b"LIB-NAME" => set(true),
        b"LIB-VER" => set(false),
        other => {
            let shown = String::from_utf8_lossy(other).replace(['\r', '\n'], " ");
            return Err(Error::new(format!("ERR Unrecognized option '{shown}'")));
        }
    }
    call.reply.ok();
    Ok(())
}

fn list(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let is_type = |it: &[u8]| it.eq_ignore_ascii_case(b"TYPE");
    let wanted: Option<Vec<i64>> = match call.arguments.get(2) {
        None => None,
        Some(option) if is_type(option) && call.arguments.len() == 4 => {
            let is_normal = call.argument(3).eq_ignore_ascii_case(b"normal");
            if is_normal { None } else { Some(Vec::new()) }
        }
        Some(option) if option.eq_ignore_ascii_case(b"ID") && call.arguments.len() > 3 => {
            let ids = call.arguments.from(3).map(|id| parse_i64(id).filter(|&id| id > 0));
            let invalid = Error::constant("ERR Invalid client ID");
            Some(ids.collect::<Option<_>>().ok_or(invalid)?)
        }
        Some(_) => return Err(SYNTAX),
    };
    call.work_limit.check(call.locks.store().clients.len())?;
    let clients = call.locks.store().clients.all();
    let is_wanted =
        |info: &ClientInfo| wanted.as_ref().is_none_or(|wanted| wanted.contains(&(info.id as i64)));
    let lines = clients.iter().filter(|info| is_wanted(info)).map(|info| info.line(call.now_ms));
    call.reply.verbatim(&lines.collect::<String>());
    Ok(())
}

/// `CLIENT KILL ADDR` and `CLIENT KILL ID n ADDR a SKIPME no`.
fn kill(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let is_old_form = call.arguments.len() == 3;
    let (mut id, mut address, mut skips_me) = (None, None, true);
    if is_old_form {
        address = call.arguments.get(2);
        skips_me = false;
    } else {
        let mut arguments = call.arguments.from(2);
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or(SYNTAX)?;
            match option.to_ascii_uppercase().as_slice() {
                b"ID" => {
                    let invalid = Error::constant("ERR client-id should be greater than 0");
                    id = Some(parse_i64(value).filter(|&id| id > 0).ok_or(invalid)?);
                }
                b"ADDR" => address = Some(value),
                b"SKIPME" if value.eq_ignore_ascii_case(b"yes") => skips_me = true,
                b"SKIPME" if value.eq_ignore_ascii_case(b"no") => skips_me = false,
                b"USER" | b"TYPE" | b"LADDR" | b"MAXAGE" => {}
                _ => return Err(SYNTAX),
            }
        }
    }
    let own = call.client.info.id;
    call.work_limit.check(call.locks.store().clients.len())?;
    let clients = call.locks.store().clients.all();
    let is_meant = |info: &ClientInfo| {
        id.is_none_or(|id| info.id as i64 == id)
            && address.is_none_or(|address| info.address.as_bytes() == address)
            && !(skips_me && info.id == own)
    };
    let killed: Vec<_> = clients.iter().filter(|info| is_meant(info)).collect();
    killed.iter().filter(|info| info.id != own).for_each(|info| info.kill());
    if killed.iter().any(|info| info.id == own) {
        call.client.is_closing = true;
    }
    match killed.len() {
        0 if is_old_form => return Err(Error::constant("ERR No such client")),
        _ if is_old_form => call.reply.ok(),
        count => call.reply.size(count),
    }
    Ok(())
}

fn tracking_info(call: &mut Call<'_, '_>) {
    let reply = &mut call.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.integer(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
}

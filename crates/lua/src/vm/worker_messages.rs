//! The functions of the host for messages between workers: `pinion.send` and `pinion.on`. Those of
//! `pinion.subscribe` are in `event_subscriptions.rs`.

use std::rc::Rc;

use mlua::{Function, Lua, LuaString, Result, Table, Value};

use super::background_work::STARTED;
use super::host_functions::Host;
use crate::channel_message::ChannelMessage;
use crate::copied_value::CopiedValue;
use crate::limits::{CHANNELS_MAX, SENT_MAX, SENT_MAX_BYTES};

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let send = move |_: &Lua, (channel, value): (LuaString, Value)| {
        let value = match CopiedValue::of(&value) {
            Ok(value) => value,
            Err(why) => return Ok(Some(why)),
        };
        let (channel, mut sent) = (channel.to_string_lossy(), of.work.sent.borrow_mut());
        let before = if sent.is_empty() { 0 } else { of.work.sent_bytes.get() };
        let bytes = size_of::<ChannelMessage>() + channel.len() + value.bytes();
        if sent.len() >= SENT_MAX || before + bytes > SENT_MAX_BYTES {
            let mib = SENT_MAX_BYTES >> 20;
            return Ok(Some(format!(
                "at most {SENT_MAX} messages with {mib} MiB are sent at once; call \
                 pinion.sleep(0) in between"
            )));
        }
        let reservation = of.work.messages.borrow().try_reserve(bytes);
        let Some(reservation) = reservation else {
            return Ok(Some(format!(
                "more than {} MiB of messages wait for their listeners; send less, or try again \
                 later",
                of.work.messages.borrow().max_bytes() >> 20
            )));
        };
        of.work.sent_bytes.set(before + bytes);
        sent.push(ChannelMessage { channel: channel.into(), value, _reservation: reservation });
        of.work.has_news.set(true);
        Ok(None)
    };
    table.raw_set("send", lua.create_function(send)?)?;
    let of = Rc::clone(host);
    let on = move |_: &Lua, (channel, work): (LuaString, Function)| {
        if of.has_started() {
            return Ok(Some(STARTED.to_owned()));
        }
        let mut channels = of.work.channels.borrow_mut();
        if channels.len() >= CHANNELS_MAX {
            return Ok(Some(format!(
                "a script listens to at most {CHANNELS_MAX} channels; send several kinds of \
                 messages on one"
            )));
        }
        match channels.insert(channel.to_string_lossy(), work) {
            Some(_) => Ok(Some(format!(
                "the channel {:?} has a listener already; call both functions from one",
                channel.to_string_lossy()
            ))),
            None => Ok(None),
        }
    };
    table.raw_set("on", lua.create_function(on)?)
}

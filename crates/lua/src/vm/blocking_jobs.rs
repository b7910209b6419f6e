//! The functions of the host for work that blocks. Each stores a job, which the coroutine waits for
//! next.

use std::rc::Rc;

use mlua::{Function, Lua, LuaString, Result, Table};
use pinion_jobs::job_queue::BlockingJob;

use super::host_functions::Host;
use crate::copied_value::CopiedValue;
use crate::library::passwords::{hash_password, verify_password};
use crate::lua_job::LuaJob;

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let limits = host.work.worker_site.borrow().memory().passwords;
    let hash = move |password: LuaString| {
        let password = password.as_bytes().to_vec();
        BlockingJob::passwords(password.len(), move || match hash_password(&password, &limits) {
            Ok(stored) => Ok(CopiedValue::Bytes(stored.into_bytes())),
            Err(error) => Err(error.to_string()),
        })
    };
    table.raw_set("hash_password", job(lua, host, hash)?)?;
    let verify = move |(password, stored): (LuaString, LuaString)| {
        let (password, stored) = (password.as_bytes().to_vec(), stored.to_string_lossy());
        let bytes = password.len() + stored.len();
        BlockingJob::passwords(bytes, move || match verify_password(&password, &stored, &limits) {
            Ok(is_match) => Ok(CopiedValue::Boolean(is_match)),
            Err(error) => Err(error.to_string()),
        })
    };
    table.raw_set("verify_password", job(lua, host, verify)?)
}

/// Returns a function that stores a job for its arguments.
pub(super) fn job<A: mlua::FromLuaMulti>(
    lua: &Lua,
    host: &Rc<Host>,
    make: impl Fn(A) -> LuaJob + 'static,
) -> Result<Function> {
    let of = Rc::clone(host);
    lua.create_function(move |_, arguments: A| {
        of.work.job.replace(Some(make(arguments)));
        Ok(())
    })
}

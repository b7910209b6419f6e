//! Limits that routes set for themselves when they are registered.

use std::rc::Rc;

use mlua::{Lua, Result, Table, Value};

use super::host_functions::Host;
use crate::limits::{ROUTE_BODY_MAX_BYTES, ROUTE_TIME_MAX_S};

/// The limits of the requests of one route that the route has set.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct RouteLimits {
    /// The longest time of a request in all, in place of [`Allowance::wall_ms`].
    ///
    /// [`Allowance::wall_ms`]: crate::script_quotas::Allowance::wall_ms
    pub(crate) wall_ms: Option<u64>,
    /// Most bytes of content.
    pub(crate) body_bytes: Option<u64>,
}

impl RouteLimits {
    /// Reads them from the options of a route. No time is longer than `time_max_s`.
    fn read(options: &Table, time_max_s: u64) -> std::result::Result<Self, String> {
        let mut limits = Self::default();
        for pair in options.pairs::<Value, Value>() {
            let (name, value) = pair.map_err(|error| error.to_string())?;
            let name = match &name {
                Value::String(name) => name.to_string_lossy(),
                other => return Err(format!("an option of a route has no name ({other:?})")),
            };
            let number = value.as_f64().or_else(|| value.as_i64().map(|whole| whole as f64));
            match (name.as_str(), number) {
                ("body", Some(bytes)) if is_body(bytes) => limits.body_bytes = Some(bytes as u64),
                ("body", _) => {
                    return Err(format!(
                        "`body` is a whole number of bytes, from 0 to {ROUTE_BODY_MAX_BYTES}"
                    ));
                }
                ("time", Some(seconds)) if (0.001..=time_max_s as f64).contains(&seconds) => {
                    limits.wall_ms = Some((seconds * 1000.0) as u64);
                }
                ("time", _) => {
                    return Err(format!(
                        "`time` is a number of seconds, more than 0 and at most {time_max_s}"
                    ));
                }
                (other, _) => {
                    return Err(format!(
                        "a route has no option {other:?}; its options are `body` and `time`"
                    ));
                }
            }
        }
        Ok(limits)
    }
}

fn is_body(bytes: f64) -> bool {
    bytes.fract() == 0.0 && (0.0..=ROUTE_BODY_MAX_BYTES as f64).contains(&bytes)
}

impl Host {
    /// Returns the limits that a route has set for itself.
    pub(crate) fn route_limits(&self, route: Option<usize>) -> RouteLimits {
        let limits = self.route_limits.borrow();
        if limits.is_empty() {
            return RouteLimits::default();
        }
        route.and_then(|route| limits.get(&route).copied()).unwrap_or_default()
    }
}

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let check =
        move |_: &Lua, options: Table| Ok(RouteLimits::read(&options, time_max_s(&of)).err());
    table.raw_set("check_route_options", lua.create_function(check)?)?;
    let of = Rc::clone(host);
    let limit = move |_: &Lua, (route, options): (usize, Table)| {
        if let Ok(limits) = RouteLimits::read(&options, time_max_s(&of)) {
            of.route_limits.borrow_mut().insert(route, limits);
        }
        Ok(())
    };
    table.raw_set("limit_route", lua.create_function(limit)?)
}

/// Returns the longest time that a route may set: always at least the time that the operator grants
/// all routes.
fn time_max_s(host: &Host) -> u64 {
    ROUTE_TIME_MAX_S.max(host.tasks.borrow().allowance.wall_ms / 1000)
}

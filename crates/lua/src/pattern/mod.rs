//! Lua's functions that search strings, on a budget of steps.
//!
//! A hook of the VM ends a script that runs too long, and functions written in C or Rust run no
//! hooks: `("a"):rep(40):find(("a*"):rep(20) .. "b")` of Lua itself runs for years and cannot be
//! stopped. So `string.find`, `match`, `gmatch`, `gsub` and `rep` are replaced by these functions,
//! which do the same and count.
//!
//! **In:** a VM and the [`StepsLeft`] of the running request. **Out:** the five functions in its
//! table `string`. Without steps they raise [`TOO_MANY_STEPS`], and the steps stay 0.
//!
//! | module | contents |
//! |---|---|
//! | `string_functions` | the functions as Lua sees them; `library.lua` is their part in Lua |
//! | `compiled_pattern` | a compiled pattern |
//! | `pattern_cache` | the compiled patterns of a VM, by number |
//! | `byte_set` | sets of bytes, in brackets or by their letter |
//! | `matcher` | the search |
//! | `replace` | one match after the other, and their replacement by a text |
//! | `step_budget` | the budget |
//! | `pattern_error` | the errors, in Lua's words |
//! | [`limits`] | every limit |
//! | `differential_tests` | a comparison with Lua's own functions over random patterns, for tests |
//!
//! The differences from Lua: a capture that is not closed is an error even for a `gsub` that does
//! not use it, `gmatch` takes a start in both flavours, and a function that `gsub` calls may yield.

mod byte_set;
mod compiled_pattern;
pub mod limits;
mod matcher;
mod pattern_cache;
mod pattern_error;
mod replace;
mod step_budget;
mod string_functions;

#[cfg(test)]
mod differential_tests;
#[cfg(test)]
mod tests;

pub use compiled_pattern::PatternProgram;
pub use matcher::{Capture, CaptureSpan, Matcher};
pub use pattern_error::{Malformed, PatternFailure};
pub use replace::{MatchWalk, replace};
pub use step_budget::{OutOfSteps, Steps, StepsLeft};
pub use string_functions::install;

/// The error of a request that is over its budget of steps; the message begins with the position in
/// the script.
pub const TOO_MANY_STEPS: &str = "too many steps";

/// Whether the rules are those of Lua 5.1 as LuaJIT has them, or those of Lua 5.4.
const LUAJIT: bool = cfg!(feature = "luajit");

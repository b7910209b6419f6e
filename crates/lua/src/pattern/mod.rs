//! Lua's functions that search strings, on a budget of steps.
//!
//! What ends a script that runs too long is a hook of the VM, and functions written in C or Rust
//! run no hooks: `("a"):rep(40):find(("a*"):rep(20) .. "b")` of Lua itself runs for years and
//! nobody can stop it. So `string.find`, `match`, `gmatch`, `gsub` and `rep` are replaced by ours,
//! which do the same and count.
//!
//! **In:** a VM and the [`StepsLeft`] of whatever request is at work. **Out:** the five functions
//! in its table `string`. Without steps they raise [`TOO_MANY_STEPS`], and the steps stay 0.
//!
//! | module | what it holds |
//! |---|---|
//! | `library` | the functions as Lua sees them; `library.lua` is what of them is Lua |
//! | `program` | a pattern, taken apart |
//! | `set` | sets of bytes, in brackets or by their letter |
//! | `matcher` | the search |
//! | `replace` | one match after the other, and a text in their place |
//! | `steps` | the budget |
//! | `failure` | what can go wrong, in Lua's words |
//! | [`limits`] | every limit |
//!
//! Where this differs from Lua: a capture that is not closed is complained of even by a `gsub`
//! that does not use it, `gmatch` takes a beginning in both flavours, and a function that `gsub`
//! calls may yield.

mod failure;
mod library;
pub mod limits;
mod matcher;
mod program;
mod replace;
mod set;
mod steps;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

pub use failure::{Malformed, PatternFailure};
pub use library::install;
pub use matcher::{Capture, CaptureSpan, Matcher};
pub use program::PatternProgram;
pub use replace::{MatchWalk, replace};
pub use steps::{OutOfSteps, Steps, StepsLeft};

/// The words of the error of a request that is over its budget of steps; in front of them stands
/// where in the script it was.
pub const TOO_MANY_STEPS: &str = "too many steps";

/// Whose rules hold: those of Lua 5.1 as LuaJIT has them, or those of Lua 5.4.
const LUAJIT: bool = cfg!(feature = "luajit");

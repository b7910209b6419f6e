//! Runs pages with LuaJIT and checks their output, their escaping and the refused ones.

mod contexts;
mod corpus;
mod golden;
mod hostile;
mod laws;
mod refused;
mod scripts;
mod site;

// Links LuaJIT, whose functions mlua calls.
use pinion_luajit as _;

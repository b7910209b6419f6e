//! Pages through LuaJIT: what they show, where they escape, what is refused.

mod contexts;
mod corpus;
mod golden;
mod hostile;
mod laws;
mod refused;
mod scripts;
mod site;

// Brings LuaJIT, whose functions mlua calls.
use pinion_luajit as _;

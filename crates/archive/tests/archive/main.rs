//! The format from outside: what goes in comes out, and nothing that happens to the bytes in
//! between gives a wrong answer.

mod compare;
mod corpus;
mod edits;
mod error_pages;
mod forge;
mod format;
#[path = "../../../http/tests/wire/forms_law.rs"]
mod forms_law;
mod hostile;
mod hostile_rules;
mod injury;
mod landmarks;
mod large;
mod oracle;
mod round_trip;
mod sample;

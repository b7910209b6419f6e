//! The responses of a site, requested with HTTP/1.1 heads and parsed like a client, from archives
//! that the writer made in memory.

mod allocation;
#[path = "../../../http/tests/wire/compressed_fields_law.rs"]
mod compressed_fields_law;
mod conditions;
mod damage;
mod document;
mod errors;
mod fallbacks;
mod hosts;
mod hosts_law;
mod interpreter;
mod model;
mod negotiation;
mod paths;
mod ranges;
mod redirects;
mod rules;
mod site;
mod trace;

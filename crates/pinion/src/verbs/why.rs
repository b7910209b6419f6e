//! `pinion why [SOURCE] URL`: which site, rule, file or route gives the response to a request, what
//! was tried before it, and where each header comes from.
//!
//! The response is made by the functions that a server calls; only the sockets are missing.
//!
//! | Module | Does |
//! |---|---|
//! | `request` | URL and headers → the head of a request |
//! | `server` | what a server does before and after its sites: listeners, hosts, scripts |
//! | `recorder`, `steps` | the steps of a look-up, heard and in words |
//! | `rule_lines` | the lines that rules are written in |
//! | `headers` | where each header comes from |
//! | `explanation` | the document |
//! | `text` | the same for a person |

mod explanation;
mod headers;
mod listener;
mod recorder;
mod request;
mod rule_lines;
mod server;
mod site;
mod steps;
mod text;

use crate::failure::Failure;
use crate::plan::Plan;
use crate::settings::Why;
use crate::terminal::Style;
use request::WhyRequest;
use std::io::{self, BufWriter, Write as _};

/// Writes the explanation, for people or as JSON.
pub(crate) fn run(why: Why) -> Result<(), Failure> {
    let request = WhyRequest::new(&why)?;
    let plan = Plan::make(*why.serve)?;
    let explanation = server::explain(plan, &request)?;
    let mut out = BufWriter::new(io::stdout().lock());
    if why.json {
        serde_json::to_writer_pretty(&mut out, &explanation).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        text::write(&explanation, &mut out, Style::of_stdout())?;
    }
    Ok(out.flush()?)
}

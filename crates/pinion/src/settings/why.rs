//! `pinion why`, as meant: a server that is not started, and a request.

use super::{Serve, operand, read, row, single};
use crate::directives::{self, verbs::Verb};
use crate::failure::Failure;
use crate::values;
use crate::written::Low;
use std::ffi::OsString;

/// `pinion why`.
#[derive(Debug)]
pub(crate) struct Why {
    /// The server that would respond.
    pub(crate) serve: Box<Serve>,
    /// The URL, or only a path, as written.
    pub(crate) url: OsString,
    /// The method of the request.
    pub(crate) method: String,
    /// Further headers of the request: names and values.
    pub(crate) headers: Vec<(String, String)>,
    /// `--json`
    pub(crate) json: bool,
}

/// Reads a command line.
pub(super) fn why(low: &Low) -> Result<Why, Failure> {
    let mut headers = Vec::new();
    for text in low.values("header") {
        let owned = |text: &str| {
            let (name, value) = values::header(text)?;
            Ok((name.to_owned(), value.to_owned()))
        };
        headers.push(read(row("header"), text, owned)?);
    }
    Ok(Why {
        serve: Box::new(Serve::from_low(&served(low)?)?),
        url: operand(low, "URL")?.into_os_string(),
        method: single(low, "method", |text| Ok(text.to_owned()))?.unwrap_or_default(),
        headers,
        json: low.given("json"),
    })
}

/// Returns what `pinion serve` would be given.
fn served(low: &Low) -> Result<Low, Failure> {
    let mut serve = Low::new(Verb::Serve);
    if low.given("SOURCE") {
        serve.set("PATH", vec![operand(low, "SOURCE")?.into_os_string()]);
    }
    let rows = directives::of(Verb::Why).filter(|row| row.verbs.contains(&Verb::Serve));
    for row in rows.filter(|row| low.given(row.name)) {
        serve.set(row.name, low.values(row.name).map(OsString::from).collect());
    }
    Ok(serve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{self, Asked};
    use crate::settings::{CONTENT_FLAGS, Settings};

    fn why(line: &str) -> Result<Why, Failure> {
        match command_line::parse(line.split(' ').map(OsString::from))? {
            Asked::Run(low) => match Settings::from_low(&low)? {
                Settings::Why(why) => Ok(why),
                other => panic!("{other:?}"),
            },
            Asked::Help(page) => panic!("{page}"),
        }
    }

    #[test]
    fn the_source_may_be_left_out() {
        let asked = why("pinion why /a").expect("a path");
        assert_eq!((asked.serve.path.as_deref(), asked.url.to_str()), (None, Some("/a")));
        assert_eq!((asked.method.as_str(), asked.headers.len()), ("GET", 0));
        let asked = why("pinion why site http://a/ --listing").expect("both");
        assert_eq!(asked.serve.path.as_deref(), Some("site".as_ref()));
        assert_eq!(asked.url.to_str(), Some("http://a/"));
        assert!(asked.serve.low.given("listing"));
    }

    #[test]
    fn a_request_has_a_method_and_headers() {
        let asked = why("pinion why / -X HEAD -H Accept:a -H B:").expect("a request");
        assert_eq!(asked.method, "HEAD");
        let headers = [("Accept", "a"), ("B", "")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(asked.headers, headers);
    }

    #[test]
    fn every_flag_of_a_folder_is_taken() {
        let rows: Vec<&str> = directives::of(Verb::Why).map(|row| row.name).collect();
        assert!(CONTENT_FLAGS.iter().all(|flag| rows.contains(flag)));
    }
}

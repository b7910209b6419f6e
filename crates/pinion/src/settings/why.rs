//! The settings of `pinion why`: a request, and the server that would respond.

use super::{Serve, operand, path, read, row, single};
use crate::directive_value_parsers::http_values;
use crate::directives::{self, verbs::Verb};
use crate::failure::Failure;
use crate::raw_settings::Low;
use std::ffi::OsString;
use std::path::PathBuf;

/// `pinion why`.
#[derive(Debug)]
pub(crate) struct Why {
    /// The server that would respond.
    pub(crate) server: ExplainedServer,
    /// The URL, or only a path, as written.
    pub(crate) url: OsString,
    /// The method of the request.
    pub(crate) method: String,
    /// Further headers of the request: names and values.
    pub(crate) headers: Vec<(String, String)>,
    /// `--json`
    pub(crate) json: bool,
}

/// The server whose response is explained.
#[derive(Debug)]
pub(crate) enum ExplainedServer {
    /// One that would be started with these settings.
    Planned(Box<Serve>),
    /// A running one. The path is that of its control socket; without it, the only server that is
    /// found.
    Running(Option<PathBuf>),
}

/// Reads a command line.
pub(super) fn why(low: &Low) -> Result<Why, Failure> {
    let mut headers = Vec::new();
    for text in low.values("header") {
        let owned = |text: &str| {
            let (name, value) = http_values::header(text)?;
            Ok((name.to_owned(), value.to_owned()))
        };
        headers.push(read(row("header"), text, owned)?);
    }
    Ok(Why {
        server: server(low)?,
        url: operand(low, "URL")?.into_os_string(),
        method: single(low, "method", |text| Ok(text.to_owned()))?.unwrap_or_default(),
        headers,
        json: low.given("json"),
    })
}

/// Returns the server: that of the source, or without one a running server.
fn server(low: &Low) -> Result<ExplainedServer, Failure> {
    let socket = path(low, "socket")?;
    if low.given("SOURCE") {
        if socket.is_some() {
            return Err(Failure::usage(
                "--socket and SOURCE contradict each other: --socket is for a running server, \
                 SOURCE for one that is not started; give one of them",
            ));
        }
        return Ok(ExplainedServer::Planned(Box::new(Serve::from_low(&served(low)?)?)));
    }
    if let Some(flag) = served_rows(low).next() {
        return Err(Failure::usage(format!(
            "--{flag} has no effect on a running server; give the folder: pinion why FOLDER URL \
             --{flag}"
        )));
    }
    Ok(ExplainedServer::Running(socket))
}

/// Returns the flags of `pinion serve` that were given.
fn served_rows(low: &Low) -> impl Iterator<Item = &'static str> {
    let rows = directives::of(Verb::Why).filter(|row| row.verbs.contains(&Verb::Serve));
    rows.map(|row| row.name).filter(|name| low.given(name))
}

/// Returns the settings that `pinion serve` would be given.
fn served(low: &Low) -> Result<Low, Failure> {
    let mut serve = Low::new(Verb::Serve);
    serve.set("PATH", vec![operand(low, "SOURCE")?.into_os_string()]);
    for name in served_rows(low) {
        serve.set(name, low.values(name).map(OsString::from).collect());
    }
    Ok(serve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{self, ParsedCommand};
    use crate::settings::{Settings, content_flags};

    fn why(line: &str) -> Result<Why, Failure> {
        match command_line::parse(line.split(' ').map(OsString::from))? {
            ParsedCommand::Run(low) => match Settings::from_low(&low)? {
                Settings::Why(why) => Ok(why),
                other => panic!("{other:?}"),
            },
            ParsedCommand::Help(page) => panic!("{page}"),
        }
    }

    #[test]
    fn without_a_source_why_asks_a_running_server() {
        let asked = why("pinion why /a").expect("a path");
        assert!(matches!(asked.server, ExplainedServer::Running(None)), "{asked:?}");
        assert_eq!(asked.url.to_str(), Some("/a"));
        assert_eq!((asked.method.as_str(), asked.headers.len()), ("GET", 0));
        let asked = why("pinion why --socket run/a.sock /a").expect("a socket");
        let ExplainedServer::Running(Some(socket)) = asked.server else { panic!("no socket") };
        assert_eq!(socket.to_str(), Some("run/a.sock"));
        let asked = why("pinion why site http://a/ --listing").expect("both");
        let ExplainedServer::Planned(serve) = asked.server else { panic!("no source") };
        assert_eq!(serve.path.as_deref(), Some("site".as_ref()));
        assert_eq!(asked.url.to_str(), Some("http://a/"));
        assert!(serve.low.given("listing"));
    }

    #[test]
    fn flags_that_have_no_effect_are_refused() {
        for (line, expected) in [
            ("pinion why /a --listing", "--listing has no effect on a running server"),
            ("pinion why /a --socket a --single-page a", "--single-page has no effect"),
            ("pinion why site /a --socket a", "--socket and SOURCE contradict each other"),
        ] {
            let refused = why(line).expect_err(line).reason().expect("a reason");
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn a_request_has_a_method_and_headers() {
        let asked = why("pinion why / -X HEAD -H Accept:a -H B:").expect("a request");
        assert_eq!(asked.method, "HEAD");
        let headers = [("Accept", "a"), ("B", "")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(asked.headers, headers);
    }

    #[test]
    fn every_flag_of_a_folder_is_parsed() {
        let rows: Vec<&str> = directives::of(Verb::Why).map(|row| row.name).collect();
        assert!(content_flags().all(|flag| rows.contains(&flag)));
    }
}

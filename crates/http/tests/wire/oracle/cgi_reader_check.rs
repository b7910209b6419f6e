//! The output of CGI and SCGI programs, whole and in parts, against
//! [the plain reading](super::plain_cgi_output).

use pinion_http::cgi::error::CgiError;
use pinion_http::cgi::response_reader::CgiReader;
use pinion_http::h1::client::response_parser::{InputEnd, Persistence};

use super::plain_cgi_output::{Case, Ended, Found, Step, plain_output, run};

/// The first byte selects the request, the limits and the end of the output, see [`Case`]; the
/// second one selects the sizes of the pieces and the space for content. The rest is the output.
pub(crate) fn check(data: &[u8]) {
    let [kind, cut, output @ ..] = data else { return };
    check_case(&Case::of(*kind), output, usize::from(*cut));
}

/// Panics when the reader disagrees with the grammar, or reads the output in pieces otherwise than
/// in one step.
pub(crate) fn check_case(case: &Case, output: &[u8], cut: usize) -> Found<CgiError> {
    let read = |cut| {
        let mut reader = CgiReader::new(case.request, &case.limits);
        run(case.end, output, cut, |input, end, room, storage| {
            reader.step(input, end, room, storage).map(|step| Step::of(&step))
        })
    };
    let found = read(0);
    for cut in [cut, 1] {
        assert_eq!(found, read(cut), "in parts of {cut} bytes: {}", output.escape_ascii());
    }
    assert_eq!(found, plain_found(case, output), "{}", output.escape_ascii());
    found
}

/// Returns the whole response, as the reader of a pipe must find it.
fn plain_found(case: &Case, output: &[u8]) -> Found<CgiError> {
    let plain = plain_output(case, output);
    let ended = match plain.error.or_else(|| match case.end {
        InputEnd::Open => None,
        InputEnd::Closed => plain.error_at_end,
        InputEnd::Broken => Some(plain.error_at_end.unwrap_or(CgiError::OutputAborted)),
    }) {
        Some(error) => Ended::Error(error),
        None if case.end == InputEnd::Open => Ended::NeedMore,
        None => Ended::End(Persistence::Close),
    };
    Found { events: plain.events, ended }
}

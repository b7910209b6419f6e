//! The program that a Python process runs.

use std::iter;

/// The part that executes the other parts.
const FIRST_PART: &str = include_str!("../program/parts.py");

/// Returns a pair: the name of a part and its text.
macro_rules! part {
    ($file:literal) => {
        ($file, include_str!(concat!("../program/", $file)))
    };
}

/// The other parts.
const PARTS: [(&str, &str); 29] = [
    part!("frames.py"),
    part!("wsgi_asgi_common.py"),
    part!("loading.py"),
    part!("start.py"),
    part!("wsgi_response.py"),
    part!("wsgi_files.py"),
    part!("wsgi_input.py"),
    part!("connection.py"),
    part!("wsgi_threads.py"),
    part!("wsgi_server.py"),
    part!("asgi_head.py"),
    part!("asgi_http.py"),
    part!("asgi_websocket.py"),
    part!("asgi_connection.py"),
    part!("asgi_lifespan.py"),
    part!("asgi_watch.py"),
    part!("asgi_server.py"),
    part!("fapws_import.py"),
    part!("fapws_application.py"),
    part!("fapws_jobs.py"),
    part!("fapws/__init__.py"),
    part!("fapws/_evwsgi.py"),
    part!("fapws/base.py"),
    part!("fapws/config.py"),
    part!("fapws/contrib/__init__.py"),
    part!("fapws/contrib/headers.py"),
    part!("fapws/contrib/log.py"),
    part!("fapws/contrib/views.py"),
    part!("fapws/contrib/zip.py"),
];

/// Returns the text of the program, which is one file for the interpreter. [`crate::command_line`]
/// has the path of that file. All parts but the first one are comments for the interpreter, which
/// needs no memory for them; the first part reads them when they are needed.
#[must_use]
pub fn program() -> String {
    let commented = |(name, text): &(&str, &str)| -> String {
        let lines = text.lines().flat_map(|line| ["#", line, "\n"]);
        ["#= ", name, "\n"].into_iter().chain(lines).collect()
    };
    let parts = PARTS.iter().map(commented);
    iter::once(FIRST_PART.to_owned())
        .chain(parts)
        .chain(iter::once("#= end\n".to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_program_is_a_separate_comment() {
        let program = program();
        let parts = program.strip_prefix(FIRST_PART).expect("the first part comes first");
        assert!(parts.lines().all(|line| line.starts_with('#')));
        let names: Vec<&str> = parts.lines().filter_map(|line| line.strip_prefix("#= ")).collect();
        let expected = PARTS.iter().map(|(name, _)| *name).chain(["end"]);
        assert!(names.iter().copied().eq(expected), "{names:?}");
    }
}

//! The program that a Python process runs.

use crate::limits::PROGRAM_MAX_BYTES;

/// One part: a literal that the interpreter skips and the first part reads.
macro_rules! part {
    ($file:literal) => {
        concat!("r'''# part ", $file, "\n", include_str!(concat!("../program/", $file)), "'''\n")
    };
}

/// The text of the program, which is a file for the interpreter: [`crate::command_line`] says where.
pub const PROGRAM: &str = concat!(
    include_str!("../program/parts.py"),
    part!("frames.py"),
    part!("shared.py"),
    part!("loading.py"),
    part!("start.py"),
    part!("wsgi_response.py"),
    part!("wsgi_files.py"),
    part!("wsgi_input.py"),
    part!("connection.py"),
    part!("wsgi_server.py"),
    part!("asgi_head.py"),
    part!("asgi_http.py"),
    part!("asgi_websocket.py"),
    part!("asgi_connection.py"),
    part!("asgi_lifespan.py"),
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
);

const _: () = assert!(PROGRAM.len() <= PROGRAM_MAX_BYTES);

#[cfg(test)]
mod tests {
    use super::PROGRAM;

    #[test]
    fn no_part_ends_its_own_literal() {
        let first = include_str!("../program/parts.py");
        let parts = PROGRAM.strip_prefix(first).expect("the first part comes first");
        let begins = parts.matches("r'''# part ").count();
        assert_eq!(parts.matches("'''").count(), 2 * begins);
        assert!(!first.contains("'''") && begins > 20);
    }
}

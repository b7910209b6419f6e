//! The program that a Python process runs.

use crate::limits::PROGRAM_MAX_BYTES;

/// One part, compiled apart from the others and without docstrings: the memory that the compiler
/// needs for one part serves for the next, which is 1.4 MiB less than for all at once. Tracebacks
/// name the part. A part of an interface is compiled only for it.
macro_rules! part {
    ($file:literal) => {
        part!("", $file)
    };
    ($file:literal for $interface:literal) => {
        part!(concat!("if interface == '", $interface, "': "), $file)
    };
    ($condition:expr, $file:literal) => {
        concat!(
            $condition,
            "exec(compile(r'''",
            include_str!(concat!("../program/", $file)),
            "''', '<pinion/",
            $file,
            ">', 'exec', 0, True, 2))\n"
        )
    };
}

/// The text of the program: an argument of `python3 -c`. Its parts share their names, and the last
/// one starts it.
pub const PROGRAM: &str = concat!(
    part!("frames.py"),
    part!("shared.py"),
    part!("loading.py"),
    // It sets `interface`, for which it loads the application if the command line leaves it open.
    part!("start.py"),
    part!("wsgi_response.py" for "wsgi"),
    part!("wsgi_input.py" for "wsgi"),
    part!("connection.py" for "wsgi"),
    part!("wsgi_server.py" for "wsgi"),
    part!("asgi_head.py" for "asgi"),
    part!("asgi_http.py" for "asgi"),
    part!("asgi_websocket.py" for "asgi"),
    part!("asgi_connection.py" for "asgi"),
    part!("asgi_lifespan.py" for "asgi"),
    part!("asgi_server.py" for "asgi"),
    part!("main.py"),
);

const _: () = assert!(PROGRAM.len() <= PROGRAM_MAX_BYTES);

#[cfg(test)]
mod tests {
    use super::PROGRAM;

    #[test]
    fn the_program_can_be_an_argument() {
        assert!(!PROGRAM.contains('\0'));
    }

    #[test]
    fn no_part_ends_its_own_literal() {
        assert_eq!(PROGRAM.matches("'''").count(), 2 * PROGRAM.matches("exec(compile(").count());
    }
}

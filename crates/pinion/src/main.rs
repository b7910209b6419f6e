//! The executable; everything is in the library beside it, where tests can reach it too.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pinion::run(std::env::args_os())
}

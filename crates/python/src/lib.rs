//! The Python side of a Python application: the program that its processes run, and their command
//! line.
//!
//! The program is plain Python from version 3.8 on, with nothing but the standard library. Its
//! parts lie in `program/` and are one file for the interpreter, without a name in the file system:
//! `python3 /dev/fd/3 --interface wsgi app:app`, with a listening Unix socket as descriptor 0.
//! Nothing is installed, and no file of the server needs to be readable for the user of the
//! process. Its limits are in `program/frames.py`.
//!
//! | Module | Task |
//! |---|---|
//! | [`program`] | the text of the program |
//! | [`command_line`] | the arguments of an interpreter for an application |
#![forbid(unsafe_code)]

pub mod command_line;
pub mod program;

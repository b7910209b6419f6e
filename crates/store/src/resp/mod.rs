//! The protocol of Redis, RESP: parsing of commands and writing of replies.
//!
//! | Module | Contents |
//! |---|---|
//! | `request_parser` | the parser of commands |
//! | `inline_command` | commands that people type in one line |
//! | `arguments` | the arguments of one command |
//! | `protocol_error` | errors after which a connection cannot continue |
//! | `reply_writer`, `output` | replies in RESP2 and RESP3; replies that wait to be sent |
//! | `reply_reader` | the reader of replies in RESP3 for local clients |
//! | `number` | parsing and formatting of numbers as in Redis |
//! | `long_double`, `wide_integer` | the numbers of `INCRBYFLOAT`; integers of any length |

pub(crate) mod arguments;
pub(crate) mod inline_command;
pub(crate) mod long_double;
pub(crate) mod number;
pub(crate) mod output;
pub(crate) mod protocol_error;
pub(crate) mod reply_reader;
pub(crate) mod reply_writer;
pub(crate) mod request_parser;
mod wide_integer;

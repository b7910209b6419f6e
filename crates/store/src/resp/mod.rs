//! The protocol of Redis, RESP: parsing of commands and writing of replies.

pub(crate) mod arguments;
pub(crate) mod inline_command;
pub(crate) mod long_double;
pub(crate) mod number;
pub(crate) mod output;
pub(crate) mod protocol_error;
pub(crate) mod reply;
pub(crate) mod reply_reader;
pub(crate) mod request_parser;
mod wide_integer;

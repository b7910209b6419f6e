//! The commands: one table for the parser, the checks, `COMMAND` and the documentation.
//!
//! | Module | Contents |
//! |---|---|
//! | `spec`, `table` | the rows of the table, and the table of all commands |
//! | `call`, `work_estimate` | one call of a command, and the estimate of its work |
//! | `options` | parsing of options |
//! | `ranges` | of ranges and counts |
//! | `expiry_option` | of times of expiry |
//! | `keys`, `expiry` | commands on keys of any type; commands on their expiry |
//! | `scan`, `sort` | commands that iterate over all keys; `SORT` and `SORT_RO` |
//! | `strings`, `bitmaps` | commands on strings, and on their bits |
//! | `hashes`, `lists`, `sets`, `sorted_sets` | commands on the collections |
//! | `member_source` | the sources of members for `ZUNION` and similar commands |
//! | `pop_first`, `random_choice` | `LMPOP` and `ZMPOP`; random elements of hashes and sets |
//! | `dump` | `DUMP` and `RESTORE` |
//! | `databases` | commands on whole databases |
//! | `connection`, `client_commands` | commands about the connection of a client, and `CLIENT` |
//! | `transactions` | `MULTI`, `EXEC`, `DISCARD`, `WATCH` and `UNWATCH` |
//! | `server`, `config`, `slow_log` | commands about the server, `CONFIG` and `SLOWLOG` |
//! | `layout_settings` | settings of Redis for the layout of values in memory |
//! | `command_commands`, `function_command` | `COMMAND` and `FUNCTION` |
//! | `rate_limit` | `GCRA`, a rate limit for each key |

pub(crate) mod bitmaps;
pub(crate) mod call;
pub(crate) mod client_commands;
pub(crate) mod command_commands;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod databases;
pub(crate) mod dump;
pub(crate) mod expiry;
pub(crate) mod expiry_option;
pub(crate) mod function_command;
pub(crate) mod hashes;
pub(crate) mod keys;
pub(crate) mod layout_settings;
pub(crate) mod lists;
pub(crate) mod member_source;
pub(crate) mod options;
pub(crate) mod pop_first;
pub(crate) mod random_choice;
pub(crate) mod ranges;
pub(crate) mod rate_limit;
pub(crate) mod scan;
pub(crate) mod server;
pub(crate) mod sets;
pub(crate) mod slow_log;
pub(crate) mod sort;
pub(crate) mod sorted_sets;
pub(crate) mod spec;
pub(crate) mod strings;
pub(crate) mod table;
pub(crate) mod transactions;
pub(crate) mod work_estimate;

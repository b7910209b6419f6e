//! Real folders built into archives, read back with the archive's own reader.

mod answers;
mod codings;
mod failures;
mod folder;
mod large;
mod places;
mod reader;
mod same_bytes;
mod walk;

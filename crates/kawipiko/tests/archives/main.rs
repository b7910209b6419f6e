//! The format from outside: databases made here, archives made by kawipiko's own archiver, and
//! bytes that are neither.

mod archiver_flags;
mod archiver_output;
mod cdb_lookups;
mod cdb_oracle;
mod cdb_writer;
mod corpus;
mod malformed_archives;

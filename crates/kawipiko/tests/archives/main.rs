//! The format from outside: databases made here, archives made by kawipiko's own archiver, and
//! bytes that are neither.

mod corpus;
mod databases;
mod flags;
mod hostile;
mod make;
mod oracle;
mod real;

//! Every hash of an archive checked; damage named.

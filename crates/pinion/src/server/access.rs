//! Access control of a site: the tables `[[site.access]]`, which say who may request which paths,
//! and how often.
//!
//! | Module | Holds |
//! |---|---|
//! | [`request_authorization`] | the decisions of one worker about each request |
//! | [`rules`] | the rules of a site |
//! | [`password_verification`] | requests that wait for the verification of their passwords |
//! | [`path_scope`] | which requests a path covers, in every spelling |
//! | [`password_file`] | users and the hashes of their passwords |
//! | [`credential_cache`] | credentials that were verified lately |
//! | [`rate_table`] | when the next request of each client is due |
//! | [`concurrent_requests`] | how many requests each client has at once |
//! | [`cors`] | which pages of other origins may read responses |
//! | [`access_memory_footprint`] | the memory that all of it can use |
//! | [`limits`] | every limit with its reason |

pub(crate) mod access_memory_footprint;
pub(crate) mod concurrent_requests;
pub(crate) mod cors;
pub(crate) mod credential_cache;
pub(crate) mod limits;
pub(crate) mod password_file;
pub(crate) mod password_verification;
pub(crate) mod path_scope;
pub(crate) mod rate_table;
pub(crate) mod request_authorization;
pub(crate) mod rules;

//! Rules files: what holds for any text, and what the parsers of others say.
//!
//! `laws/` is what the fuzz targets check; the corpus is replayed through it here.

mod corpus;
mod headers_oracle;
mod laws;
mod netlify;
mod redirects_oracle;

//! Rules files: laws for any text, and a comparison with the parsers of other programs.
//!
//! `laws/` has the checks of the fuzz targets; the tests replay the corpus through them.

mod corpus;
mod headers_oracle;
mod laws;
mod netlify_parsers;
mod redirects_oracle;

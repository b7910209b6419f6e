//! The responses of a site, requested with HTTP/1.1 heads and parsed like a client, from archives
//! that the writer made in memory.

mod allocation;
#[path = "../../../http/tests/wire/compressed_fields_law.rs"]
mod compressed_fields_law;
mod damage;
mod fallbacks;
mod host_fuzz_corpus;
mod host_selection_oracle;
mod lookup_trace;
mod methods_and_error_pages;
mod model_comparison;
mod negotiation;
mod path_resolution;
mod preconditions;
mod ranges;
mod redirects;
mod reference_model;
mod resolution_document;
mod rules;
mod sample_site;

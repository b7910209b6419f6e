//! The content of requests: how it arrives, where it is kept, and how forms are read from it.
//!
//! | module | contents |
//! |---|---|
//! | `received_content` | the content of a request as it arrives, and its limit |
//! | `byte_queue` | received bytes in pieces |
//! | `body_memory` | the quota of a worker for received content |
//! | `multipart_form` | forms with files (`multipart/form-data`) |
//! | `urlencoded` | simple forms and queries (`application/x-www-form-urlencoded`) |
//!
//! Scripts read content by the functions of `vm/request_content.rs` and `request_content.lua`. The
//! events of the engine come to `worker_scripts/content_memory.rs`.

pub(crate) mod body_memory;
mod byte_queue;
pub(crate) mod multipart_form;
pub(crate) mod received_content;
pub(crate) mod urlencoded;

//! What holds for every record of a worker, also in the fuzz target.

use pinion_spawner::request::SpawnerRequest;

/// Decodes bytes. What is a request is the encoding of just this request.
pub(crate) fn check(bytes: &[u8]) {
    if let Some(request) = SpawnerRequest::decode(bytes) {
        assert_eq!(request.encode().as_deref(), Some(bytes), "{request:?}");
    }
}

//! The law of every record of a worker, also used by the fuzz target.

use pinion_spawner::worker_request::SpawnerRequest;

/// Decodes bytes. If they are a request, encoding it must give the same bytes.
pub(crate) fn check(bytes: &[u8]) {
    if let Some(request) = SpawnerRequest::decode(bytes) {
        assert_eq!(request.encode().as_deref(), Some(bytes), "{request:?}");
    }
}

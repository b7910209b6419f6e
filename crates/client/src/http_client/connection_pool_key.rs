//! The key of a request in the pool, which requests to the same server share.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use super::request::ClientRequest;
use crate::client_tls::TlsIdentity;
use crate::connection_pool::PoolKey;

/// A [`PoolKey`] with its hash. The pool looks a key up several times for each request, and a key
/// has a name and a policy in it, so it is hashed once.
#[derive(Clone, Debug)]
pub(super) struct RequestKey(Rc<HashedKey>);

#[derive(Debug)]
struct HashedKey {
    hash: u64,
    key: PoolKey,
}

impl PartialEq for RequestKey {
    fn eq(&self, other: &Self) -> bool {
        let (own, other) = (&self.0, &other.0);
        Rc::ptr_eq(own, other) || (own.hash == other.hash && own.key == other.key)
    }
}

impl Eq for RequestKey {}

impl Hash for RequestKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// The source of the keys of requests. Consecutive requests to one server share theirs.
#[derive(Debug, Default)]
pub(super) struct RequestKeys {
    hasher: RandomState,
    last: Option<RequestKey>,
}

impl RequestKeys {
    /// Returns the key of a request: requests with equal keys share connections.
    pub(super) fn of(&mut self, request: &ClientRequest) -> RequestKey {
        let target = request.url.target();
        // Without TLS the settings are not created; `check_tls` has checked whether they can be.
        let tls = request.tls.as_ref().filter(|_| target.is_tls());
        let tls = tls.and_then(|tls| Some(tls.get().ok()?.identity()));
        if let Some(last) = self.last.as_ref().filter(|last| last.is_of(request, tls)) {
            return last.clone();
        }
        // Policies are compared and not hashed: a site has one of them, which may be long.
        let hash = self.hasher.hash_one((request.site, target, tls));
        let (target, policy) = (target.clone(), Arc::clone(&request.policy));
        let key = PoolKey { site: request.site, target, tls, policy };
        let key = RequestKey(Rc::new(HashedKey { hash, key }));
        self.last = Some(key.clone());
        key
    }
}

impl RequestKey {
    fn is_of(&self, request: &ClientRequest, tls: Option<TlsIdentity>) -> bool {
        let key = &self.0.key;
        key.site == request.site
            && key.tls == tls
            && key.target == *request.url.target()
            && key.policy == request.policy
    }
}

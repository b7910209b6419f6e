//! Hashes of passwords by Argon2id (RFC 9106), as PHC strings: `$argon2id$v=19$m=…,t=…,p=…$…`.
//!
//! Slow by intent, some tens of milliseconds each: never on the thread of a worker.

use super::limits::PASSWORD_MAX_BYTES;
use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use std::cell::RefCell;

/// OWASP's first choice of five that cost an attacker alike (Password Storage Cheat Sheet):
/// 19 MiB, so that many can be had at a time.
const MEMORY_KIB: u32 = 19 * 1024;

/// What each thread keeps that has hashed a password, in bytes.
pub(crate) const THREAD_BYTES: usize = MEMORY_KIB as usize * Block::SIZE;

thread_local! {
    /// Where this thread hashes: large blocks that come and go would stay with the allocator.
    static BLOCKS: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// Goes with [`MEMORY_KIB`].
const PASSES: u32 = 2;

/// Goes with [`MEMORY_KIB`]; more would want threads of their own.
const LANES: u32 = 1;

/// What RFC 9106 §3.1 recommends.
const SALT_BYTES: usize = 16;

/// A stored hash says itself what it costs to try. Above this much it is refused, not tried: eight
/// times what RFC 9106 §4 recommends where memory is short, 64 MiB.
const STORED_MEMORY_MAX_KIB: u32 = 512 * 1024;

/// As [`STORED_MEMORY_MAX_KIB`]; people who have less memory make more passes, but not this many.
const STORED_PASSES_MAX: u32 = 16;

/// As [`STORED_MEMORY_MAX_KIB`]; RFC 9106 §4 has 4.
const STORED_LANES_MAX: u32 = 16;

/// Why a password was neither hashed nor compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Longer than anybody types.
    #[error("a password has at most {PASSWORD_MAX_BYTES} bytes")]
    TooLong,
    /// What was stored is no hash by Argon2, or one that costs too much.
    #[error("the stored text is not a hash of pinion.password.hash, or takes too long to verify")]
    NoHash,
    /// The machine has no random bytes, or no memory.
    #[error("the system has no memory or no random bytes for a hash")]
    System,
}

/// A hash to store, another one each time.
///
/// # Errors
/// [`PasswordError::TooLong`], [`PasswordError::System`].
pub fn hash_password(password: &[u8]) -> Result<String, PasswordError> {
    bounded(password)?;
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(|_| PasswordError::System)?;
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|_| PasswordError::System)?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = hashed(&argon2, password, &salt, Params::DEFAULT_OUTPUT_LEN)?;
    let stored = PasswordHash {
        algorithm: Algorithm::Argon2id.ident(),
        version: Some(Version::V0x13.into()),
        params: ParamsString::try_from(argon2.params()).map_err(|_| PasswordError::System)?,
        salt: Some(Salt::new(&salt).map_err(|_| PasswordError::System)?),
        hash: Some(hash),
    };
    Ok(stored.to_string())
}

/// Whether this is the password of a stored hash, compared in constant time. Hashes by other
/// programs are understood: Argon2id, Argon2i and Argon2d with any parameters that are not
/// exorbitant.
///
/// # Errors
/// [`PasswordError::TooLong`], [`PasswordError::NoHash`].
pub fn verify_password(password: &[u8], stored: &str) -> Result<bool, PasswordError> {
    bounded(password)?;
    let (stored, params) = read(stored)?;
    let algorithm = Algorithm::try_from(stored.algorithm.as_str());
    let algorithm = algorithm.map_err(|_| PasswordError::NoHash)?;
    let version = stored.version.map_or(Ok(Version::default()), Version::try_from);
    let version = version.map_err(|_| PasswordError::NoHash)?;
    let argon2 = Argon2::new(algorithm, version, params);
    let (Some(salt), Some(expected)) = (stored.salt, stored.hash) else {
        return Err(PasswordError::NoHash);
    };
    // Outputs are compared in constant time.
    Ok(hashed(&argon2, password, &salt, expected.as_bytes().len())? == expected)
}

/// The hash of a password, made in the memory of this thread. A stored one that needs more gets
/// that for this time.
fn hashed(
    argon2: &Argon2<'_>,
    password: &[u8],
    salt: &[u8],
    bytes: usize,
) -> Result<Output, PasswordError> {
    let mut buffer = [0; Output::MAX_LENGTH];
    let out = buffer.get_mut(..bytes).ok_or(PasswordError::NoHash)?;
    let count = argon2.params().block_count();
    let fill = |blocks: &mut Vec<Block>, count: usize, out: &mut [u8]| {
        let missing = count.saturating_sub(blocks.len());
        blocks.try_reserve_exact(missing).map_err(|_| PasswordError::System)?;
        blocks.resize(blocks.len() + missing, Block::new());
        let hashed = argon2.hash_password_into_with_memory(password, salt, out, blocks);
        hashed.map_err(|_| PasswordError::NoHash)
    };
    if count * Block::SIZE > THREAD_BYTES {
        fill(&mut Vec::new(), count, out)?;
    } else {
        BLOCKS.with_borrow_mut(|blocks| fill(blocks, count, out))?;
    }
    Output::new(out).map_err(|_| PasswordError::System)
}

/// Whether a stored hash is weaker than those that are made now: then hash the password anew when
/// it has just been verified.
///
/// # Errors
/// [`PasswordError::NoHash`].
pub fn is_outdated(stored: &str) -> Result<bool, PasswordError> {
    let (hash, params) = read(stored)?;
    let is_ours = hash.algorithm == Algorithm::Argon2id.ident()
        && hash.version == Some(Version::V0x13.into());
    Ok(!is_ours
        || params.m_cost() < MEMORY_KIB
        || params.t_cost() < PASSES
        || params.p_cost() < LANES)
}

fn bounded(password: &[u8]) -> Result<(), PasswordError> {
    if password.len() > PASSWORD_MAX_BYTES { Err(PasswordError::TooLong) } else { Ok(()) }
}

/// A stored hash and what it costs.
fn read(stored: &str) -> Result<(PasswordHash, Params), PasswordError> {
    let hash = PasswordHash::new(stored).map_err(|_| PasswordError::NoHash)?;
    Algorithm::try_from(hash.algorithm.as_str()).map_err(|_| PasswordError::NoHash)?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(PasswordError::NoHash);
    }
    let params = Params::try_from(&hash).map_err(|_| PasswordError::NoHash)?;
    let is_bearable = params.m_cost() <= STORED_MEMORY_MAX_KIB
        && params.t_cost() <= STORED_PASSES_MAX
        && params.p_cost() <= STORED_LANES_MAX;
    if is_bearable { Ok((hash, params)) } else { Err(PasswordError::NoHash) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_password_and_no_other() {
        let stored = hash_password("correct horse".as_bytes()).expect("hashed");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert_eq!(verify_password(b"correct horse", &stored), Ok(true));
        assert_eq!(verify_password(b"correct horsf", &stored), Ok(false));
        assert_eq!(verify_password(b"", &stored), Ok(false));
        assert_eq!(is_outdated(&stored), Ok(false));
        assert_ne!(hash_password(b"correct horse").expect("hashed"), stored, "salted");
    }

    /// Made by the reference implementation (its `test.c`, version 0x13).
    #[test]
    fn hashes_of_other_programs() {
        for stored in [
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8",
        ] {
            assert_eq!(verify_password(b"password", stored), Ok(true), "{stored}");
            assert_eq!(verify_password(b"Password", stored), Ok(false), "{stored}");
            assert_eq!(is_outdated(stored), Ok(true), "{stored}");
        }
    }

    #[test]
    fn what_is_too_much_is_refused_before_it_is_tried() {
        let long = vec![b'a'; PASSWORD_MAX_BYTES + 1];
        assert_eq!(hash_password(&long), Err(PasswordError::TooLong));
        for costs in ["m=524289,t=1,p=1", "m=256,t=17,p=1", "m=256,t=1,p=17", "m=4294967295,t=4"] {
            let stored = format!(
                "$argon2id$v=19${costs}$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
            );
            assert_eq!(
                verify_password(b"password", &stored),
                Err(PasswordError::NoHash),
                "{costs}"
            );
        }
        assert_eq!(verify_password(&long, "x"), Err(PasswordError::TooLong));
    }

    #[test]
    fn what_is_no_hash() {
        for stored in [
            "",
            "password",
            "$argon2id$v=19$m=256,t=2,p=1",
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ",
            "$argon2id$v=18$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$2b$12$GhvMmNVjRW29ulnudl.LbuAnUtN/LRfe1JsBm1Xu6LE3059z5Tr8m",
            "$scrypt$ln=16,r=8,p=1$aM15713r3Xsvxbi31lqr1Q$nFNh2CVHVjNldFVKDHDlm4CbdRSCdEBsjjJxD+iC",
        ] {
            assert_eq!(
                verify_password(b"password", stored),
                Err(PasswordError::NoHash),
                "{stored}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_stored_text_panics(
            head in "[$]argon2(id|i|d|x)([$]v=[0-9]{1,3})?[$][mtp=,0-4]{0,12}",
            tail in "([$][A-Za-z0-9+/]{0,48}){0,3}",
        ) {
            // Reading it is what may go wrong; what it costs is bounded, but not little.
            let _ = is_outdated(&format!("{head}{tail}"));
        }
    }
}

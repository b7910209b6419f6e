//! Hashes of passwords by Argon2id (RFC 9106), as PHC strings: `$argon2id$v=19$m=…,t=…,p=…$…`.
//!
//! A hash is slow by intent, some tens of milliseconds, and never runs on the thread of a worker.

use super::limits::PASSWORD_MAX_BYTES;
use crate::script_memory_limits::ScriptMemory;
use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use std::cell::RefCell;

/// The cost of a hash for the server, and of each guess for an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashCost {
    memory_kib: u32,
    passes: u32,
}

/// The choices of OWASP that are used here, which cost an attacker alike (Password Storage Cheat
/// Sheet, Argon2id). 19 MiB are so few that several hashes fit at a time; 7 MiB in five passes are
/// for machines with very little memory.
const COSTS: [HashCost; 4] = [
    HashCost { memory_kib: 19 * 1024, passes: 2 },
    HashCost { memory_kib: 12 * 1024, passes: 3 },
    HashCost { memory_kib: 9 * 1024, passes: 4 },
    HashCost { memory_kib: 7 * 1024, passes: 5 },
];

/// The cost limits of password hashes on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordLimits {
    /// The cost of new hashes. Each thread keeps the memory that it has hashed in.
    pub cost: HashCost,
    /// The most memory that the verification of a stored hash may need, in KiB. The part above
    /// [`Self::cost`] is allocated for this time only.
    pub stored_max_kib: u32,
}

thread_local! {
    /// The memory in which this thread hashes: large blocks that come and go would stay with the
    /// allocator.
    static BLOCKS: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// The number of lanes: more would need threads of their own.
const LANES: u32 = 1;

/// The length of the salt, which RFC 9106 §3.1 recommends.
const SALT_BYTES: usize = 16;

/// A stored hash names the memory of its verification. A hash that needs more than this is refused
/// without a trial: eight times the 64 MiB that RFC 9106 §4 recommends where memory is short.
const STORED_MEMORY_MAX_KIB: u32 = 512 * 1024;

/// The limit of [`STORED_MEMORY_MAX_KIB`] where memory is very small: it allows any hash that a
/// server makes by default, and is a quarter of a container of 128 MiB.
const SMALL_STORED_MEMORY_MAX_KIB: u32 = 32 * 1024;

/// From this fraction of the whole scale on, hashes cost as much as on a large machine.
const WHOLE_COST_DIVISOR: u32 = 8;

/// The most passes of a stored hash, as [`STORED_MEMORY_MAX_KIB`]: systems with less memory make
/// more passes, but not this many.
const STORED_PASSES_MAX: u32 = 16;

/// The most lanes of a stored hash, as [`STORED_MEMORY_MAX_KIB`]: RFC 9106 §4 has 4.
const STORED_LANES_MAX: u32 = 16;

/// The reason why a password was neither hashed nor compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// The password is longer than people type.
    #[error("a password has at most {PASSWORD_MAX_BYTES} bytes")]
    TooLong,
    /// The stored text is no Argon2 hash, or its verification costs too much.
    #[error("the stored text is not a hash of pinion.password.hash, or costs too much to verify")]
    NoHash,
    /// The machine has no random bytes, or no memory.
    #[error("the system has no memory or no random bytes for a hash")]
    System,
}

impl HashCost {
    /// Returns the cost with most memory that needs at most so many KiB, or the least.
    fn within(memory_kib: u32) -> Self {
        let [.., least] = COSTS;
        COSTS.into_iter().find(|cost| cost.memory_kib <= memory_kib).unwrap_or(least)
    }

    /// Returns the memory that a hash is made in, in bytes.
    pub(crate) const fn bytes(self) -> usize {
        self.memory_kib as usize * Block::SIZE
    }
}

impl Default for PasswordLimits {
    fn default() -> Self {
        Self::scaled(ScriptMemory::WHOLE)
    }
}

impl PasswordLimits {
    /// Returns the limits at a scale of [`ScriptMemory`].
    pub(crate) fn scaled(scale: u32) -> Self {
        let part = |least: u32, whole: u32, scale: u32| {
            let more = u64::from(whole - least) * u64::from(scale) / u64::from(ScriptMemory::WHOLE);
            least + more as u32
        };
        let [most, .., least] = COSTS;
        let of_cost = (WHOLE_COST_DIVISOR * scale).min(ScriptMemory::WHOLE);
        Self {
            cost: HashCost::within(part(least.memory_kib, most.memory_kib, of_cost)),
            stored_max_kib: part(SMALL_STORED_MEMORY_MAX_KIB, STORED_MEMORY_MAX_KIB, scale),
        }
    }
}

/// Returns a hash to store, with a new salt each time.
///
/// # Errors
/// Returns [`PasswordError::TooLong`] or [`PasswordError::System`].
pub fn hash_password(password: &[u8], limits: &PasswordLimits) -> Result<String, PasswordError> {
    bounded(password)?;
    let HashCost { memory_kib, passes } = limits.cost;
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(|_| PasswordError::System)?;
    let params = Params::new(memory_kib, passes, LANES, None).map_err(|_| PasswordError::System)?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = hashed(&argon2, password, &salt, Params::DEFAULT_OUTPUT_LEN, limits)?;
    let stored = PasswordHash {
        algorithm: Algorithm::Argon2id.ident(),
        version: Some(Version::V0x13.into()),
        params: ParamsString::try_from(argon2.params()).map_err(|_| PasswordError::System)?,
        salt: Some(Salt::new(&salt).map_err(|_| PasswordError::System)?),
        hash: Some(hash),
    };
    Ok(stored.to_string())
}

/// Returns whether this is the password of a stored hash, compared in constant time. Hashes by
/// other programs are understood: Argon2id, Argon2i and Argon2d with any parameters that are not
/// exorbitant.
///
/// # Errors
/// Returns [`PasswordError::TooLong`] or [`PasswordError::NoHash`].
pub fn verify_password(
    password: &[u8],
    stored: &str,
    limits: &PasswordLimits,
) -> Result<bool, PasswordError> {
    bounded(password)?;
    let (stored, params) = read(stored, limits)?;
    let algorithm = Algorithm::try_from(stored.algorithm.as_str());
    let algorithm = algorithm.map_err(|_| PasswordError::NoHash)?;
    let version = stored.version.map_or(Ok(Version::default()), Version::try_from);
    let version = version.map_err(|_| PasswordError::NoHash)?;
    let argon2 = Argon2::new(algorithm, version, params);
    let (Some(salt), Some(expected)) = (stored.salt, stored.hash) else {
        return Err(PasswordError::NoHash);
    };
    // Outputs are compared in constant time.
    Ok(hashed(&argon2, password, &salt, expected.as_bytes().len(), limits)? == expected)
}

/// Returns the hash of a password, made in the memory of this thread. A stored hash that needs more
/// memory gets a block of its own for this time, instead of the block that the thread keeps.
fn hashed(
    argon2: &Argon2<'_>,
    password: &[u8],
    salt: &[u8],
    bytes: usize,
    limits: &PasswordLimits,
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
    if count * Block::SIZE > limits.cost.bytes() {
        drop(BLOCKS.take());
        fill(&mut Vec::new(), count, out)?;
    } else {
        BLOCKS.with_borrow_mut(|blocks| fill(blocks, count, out))?;
    }
    Output::new(out).map_err(|_| PasswordError::System)
}

/// Returns whether a stored hash is weaker than the hashes that are made now, here or on another
/// machine. The caller then hashes the password anew when it has just been verified.
///
/// # Errors
/// Returns [`PasswordError::NoHash`].
pub fn is_outdated(stored: &str, limits: &PasswordLimits) -> Result<bool, PasswordError> {
    let (hash, params) = read(stored, limits)?;
    let is_ours = hash.algorithm == Algorithm::Argon2id.ident()
        && hash.version == Some(Version::V0x13.into());
    let is_enough = COSTS
        .iter()
        .any(|cost| params.m_cost() >= cost.memory_kib && params.t_cost() >= cost.passes);
    Ok(!is_ours || !is_enough || params.p_cost() < LANES)
}

fn bounded(password: &[u8]) -> Result<(), PasswordError> {
    if password.len() > PASSWORD_MAX_BYTES { Err(PasswordError::TooLong) } else { Ok(()) }
}

/// Parses a stored hash and its cost.
fn read(stored: &str, limits: &PasswordLimits) -> Result<(PasswordHash, Params), PasswordError> {
    let hash = PasswordHash::new(stored).map_err(|_| PasswordError::NoHash)?;
    Algorithm::try_from(hash.algorithm.as_str()).map_err(|_| PasswordError::NoHash)?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(PasswordError::NoHash);
    }
    let params = Params::try_from(&hash).map_err(|_| PasswordError::NoHash)?;
    let is_bearable = params.m_cost() <= limits.stored_max_kib
        && params.t_cost() <= STORED_PASSES_MAX
        && params.p_cost() <= STORED_LANES_MAX;
    if is_bearable { Ok((hash, params)) } else { Err(PasswordError::NoHash) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: PasswordLimits =
        PasswordLimits { cost: COSTS[0], stored_max_kib: STORED_MEMORY_MAX_KIB };

    #[test]
    fn only_the_hashed_password_is_verified() {
        let stored = hash_password("correct horse".as_bytes(), &WHOLE).expect("hashed");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert_eq!(verify_password(b"correct horse", &stored, &WHOLE), Ok(true));
        assert_eq!(verify_password(b"correct horsf", &stored, &WHOLE), Ok(false));
        assert_eq!(verify_password(b"", &stored, &WHOLE), Ok(false));
        assert_eq!(is_outdated(&stored, &WHOLE), Ok(false));
        assert_ne!(hash_password(b"correct horse", &WHOLE).expect("hashed"), stored, "salted");
    }

    /// Made by the reference implementation (its `test.c`, version 0x13).
    #[test]
    fn hashes_of_the_argon2_reference_implementation_are_verified() {
        for stored in [
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8",
        ] {
            assert_eq!(verify_password(b"password", stored, &WHOLE), Ok(true), "{stored}");
            assert_eq!(verify_password(b"Password", stored, &WHOLE), Ok(false), "{stored}");
            assert_eq!(is_outdated(stored, &WHOLE), Ok(true), "{stored}");
        }
    }

    #[test]
    fn long_passwords_and_excessive_costs_are_refused() {
        let long = vec![b'a'; PASSWORD_MAX_BYTES + 1];
        assert_eq!(hash_password(&long, &WHOLE), Err(PasswordError::TooLong));
        for costs in ["m=524289,t=1,p=1", "m=256,t=17,p=1", "m=256,t=1,p=17", "m=4294967295,t=4"] {
            let stored = format!(
                "$argon2id$v=19${costs}$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
            );
            assert_eq!(
                verify_password(b"password", &stored, &WHOLE),
                Err(PasswordError::NoHash),
                "{costs}"
            );
        }
        assert_eq!(verify_password(&long, "x", &WHOLE), Err(PasswordError::TooLong));
    }

    /// A site may move to a machine with more memory or less.
    #[test]
    fn hashes_of_small_and_large_machines_are_verified_by_each_other() {
        let small = PasswordLimits::scaled(0);
        assert_eq!(PasswordLimits::default(), WHOLE);
        let stored = hash_password(b"correct horse", &small).expect("hashed");
        assert!(stored.starts_with("$argon2id$v=19$m=7168,t=5,p=1$"), "{stored}");
        let other = hash_password(b"correct horse", &WHOLE).expect("hashed");
        for limits in [small, WHOLE] {
            for stored in [&stored, &other] {
                assert_eq!(verify_password(b"correct horse", stored, &limits), Ok(true));
                assert_eq!(verify_password(b"correct", stored, &limits), Ok(false));
                assert_eq!(is_outdated(stored, &limits), Ok(false));
            }
        }
        let kept = BLOCKS.with_borrow(Vec::len);
        assert!(kept * Block::SIZE <= WHOLE.cost.bytes(), "{kept}");
        let large = stored.replace("m=7168", "m=33000");
        assert_eq!(verify_password(b"correct horse", &large, &small), Err(PasswordError::NoHash));
        let weak = stored.replace("m=7168,t=5", "m=9216,t=3");
        assert_eq!(is_outdated(&weak, &small), Ok(true));
        for scale in 1..=ScriptMemory::WHOLE {
            let (less, more) = (PasswordLimits::scaled(scale - 1), PasswordLimits::scaled(scale));
            assert!(less.cost.memory_kib <= more.cost.memory_kib);
            assert!(less.stored_max_kib <= more.stored_max_kib);
        }
    }

    #[test]
    fn malformed_and_foreign_hashes_are_refused() {
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
                verify_password(b"password", stored, &WHOLE),
                Err(PasswordError::NoHash),
                "{stored}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_stored_hash_panics(
            head in "[$]argon2(id|i|d|x)([$]v=[0-9]{1,3})?[$][mtp=,0-4]{0,12}",
            tail in "([$][A-Za-z0-9+/]{0,48}){0,3}",
        ) {
            // Reading it is what may go wrong; what it costs is bounded, but not little.
            let _ = is_outdated(&format!("{head}{tail}"), &WHOLE);
        }
    }
}

//! Sealed texts, which only their key opens.
//!
//! | bytes | `seal` | bytes | `seal_siv` |
//! |---|---|---|---|
//! | 1 | the form: 1 | 1 | the form: 2 |
//! | 24 | random | 16 | the synthetic initialization vector (RFC 5297 §2.6) |
//! | as many as the text has | AES-256-GCM | as many as the text has | AES-256-CTR |
//! | 16 | the tag | | |
//!
//! The keys come from the given one by HKDF with SHA-256. For `seal` the random bytes are the salt,
//! and the output is 44 bytes: a key and a nonce that serve for this text alone, so there is no
//! number of texts after which a key has to be changed. For `seal_siv` there is no salt and the
//! output is 64 bytes. The two have their own `info`, so one given key serves for both.

use super::expand;
use aes_siv::KeyInit as _;
use aes_siv::siv::Aes256Siv;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

const RANDOM_FORM: u8 = 1;
const SIV_FORM: u8 = 2;

const RANDOM_INFO: &[u8] = b"pinion seal 1";
const SIV_INFO: &[u8] = b"pinion seal_siv 2";

/// The number of random bytes, so many that two texts never share them by chance.
const RANDOM_BYTES: usize = 24;

/// The length of a key of AES-256.
const KEY_BYTES: usize = 32;

/// The length of a nonce of GCM.
const NONCE_BYTES: usize = 12;

/// The length of two keys, one for the vector and one for the text.
const SIV_KEY_BYTES: usize = 64;

/// Seals a text with random bytes. Returns `None` if there are no random bytes.
pub(crate) fn seal(key: &[u8], text: &[u8], context: &[u8]) -> Option<Vec<u8>> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).ok()?;
    seal_with(key, &random, text, context)
}

pub(super) fn seal_with(
    key: &[u8],
    random: &[u8; RANDOM_BYTES],
    text: &[u8],
    context: &[u8],
) -> Option<Vec<u8>> {
    let (key, nonce) = once(key, random)?;
    let mut text = text.to_vec();
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(context), &mut text).ok()?;
    Some([&[RANDOM_FORM], random.as_slice(), &text, tag.as_ref()].concat())
}

/// Opens a text of [`seal`]. Returns `None` if it was sealed otherwise.
pub(crate) fn open(key: &[u8], sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
    let (random, text) = sealed.strip_prefix(&[RANDOM_FORM])?.split_first_chunk()?;
    let (key, nonce) = once(key, random)?;
    let mut text = text.to_vec();
    let length = key.open_in_place(nonce, Aad::from(context), &mut text).ok()?.len();
    text.truncate(length);
    Some(text)
}

/// Derives the key and the nonce of one text.
fn once(key: &[u8], random: &[u8; RANDOM_BYTES]) -> Option<(LessSafeKey, Nonce)> {
    let mut derived = [0; KEY_BYTES + NONCE_BYTES];
    expand(key, random, RANDOM_INFO, &mut derived)?;
    let (key, nonce) = derived.split_at(KEY_BYTES);
    let key = UnboundKey::new(&AES_256_GCM, key).ok()?;
    Some((LessSafeKey::new(key), Nonce::try_assume_unique_for_key(nonce).ok()?))
}

/// Seals a text so that equal texts stay equal. Returns `None` if the text is too long.
pub(crate) fn seal_siv(key: &[u8], text: &[u8], context: &[u8]) -> Option<Vec<u8>> {
    let sealed = always(key)?.encrypt([context], text).ok()?;
    Some([&[SIV_FORM], sealed.as_slice()].concat())
}

/// Opens a text of [`seal_siv`]. Returns `None` if it was sealed otherwise.
pub(crate) fn open_siv(key: &[u8], sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
    always(key)?.decrypt([context], sealed.strip_prefix(&[SIV_FORM])?).ok()
}

fn always(key: &[u8]) -> Option<Aes256Siv> {
    let mut derived = [0; SIV_KEY_BYTES];
    expand(key, b"", SIV_INFO, &mut derived)?;
    Aes256Siv::new_from_slice(&derived).ok()
}

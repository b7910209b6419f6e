use super::super::test_vm::{eval, raised, unhex, vm};
use super::*;
use aes_siv::KeyInit as _;
use aes_siv::siv::Aes128Siv;
use proptest::prelude::*;

fn function(lua: &Lua, name: &str) -> Function {
    let crypto: Table = lua.globals().raw_get("crypto").expect("crypto");
    crypto.raw_get(name).expect(name)
}

/// What a function gives for strings of bytes; `None` is nil.
fn call(lua: &Lua, name: &str, arguments: &[&[u8]]) -> Option<Vec<u8>> {
    let arguments = arguments.iter().map(|bytes| lua.create_string(bytes).map(Value::String));
    let arguments: Result<Vec<Value>> = arguments.collect();
    let arguments = MultiValue::from_vec(arguments.expect("room"));
    let (value, _): (Option<LuaString>, Value) = function(lua, name).call(arguments).expect(name);
    value.map(|value| value.as_bytes().to_vec())
}

/// FIPS 180-4's "abc", and what Python's `hashlib` says of 1000 bytes.
#[test]
fn digests_match_known_values() {
    let lua = vm();
    let long: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
    for (name, data, expected) in [
        ("sha1", &b"abc"[..], "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha256", b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "sha512",
            b"abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        ("sha1", &long, "c9c960a0b925474fab83942cc27d504fc24ac37b"),
        ("sha256", &long, "4e4c294b331f7a2099a379bec34b9f9fc03dc46ab465d998f4d683da53487e6d"),
        (
            "sha512",
            &long,
            "5096498d96f50f9a137c4db5b8b0cd38383ad55350fb5a98805fedc31fa1262f\
             1f0cf4d6f12d7ecd8dedd933a4c9126344fe22e937a8ad35fdeae1e876ae698b",
        ),
        ("blake3", b"", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
    ] {
        assert_eq!(call(&lua, name, &[data]), Some(unhex(expected)), "{name}");
    }
    // The key of BLAKE3's own test vectors.
    let keyed = call(&lua, "blake3", &[b"", b"whats the Elvish word for friend"]);
    let expected = "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26";
    assert_eq!(keyed, Some(unhex(expected)));
    let why = raised("return crypto.blake3('', 'short')");
    assert!(why.contains("the key has 5 bytes, it needs 32"), "{why}");
}

/// RFC 2202 §3 and RFC 4231 §4, and what Python's `hmac` says of a key of 100 bytes.
#[test]
fn hmac_digests_match_known_values() {
    let lua = vm();
    let long: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
    let (eleven, aa) = ([0x0b; 20], [0xaa; 131]);
    let large_key = b"Test Using Larger Than Block-Size Key - Hash Key First";
    for (name, key, data, expected) in [
        ("hmac_sha1", &eleven[..], &b"Hi There"[..], "b617318655057264e28bc0b6fb378c8ef146be00"),
        ("hmac_sha1", &[b'k'; 100], &long, "487dd2853d20d9e93e19fca947ed628b7b59045d"),
        (
            "hmac_sha256",
            &eleven,
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            "hmac_sha256",
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            "hmac_sha256",
            &aa,
            large_key,
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            "hmac_sha512",
            b"Jefe",
            b"what do ya want for nothing?",
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        ),
        (
            "hmac_sha512",
            &[b'k'; 100],
            &long,
            "defb1e11c31dfe0bacc4c26d2edadbd995d0ea9589c24e1bf4643fbc4f3cf6a4\
             9bd5d6514161ca43e1297440c11e5f902be4f3ec6d47280617f93e1e29507b8d",
        ),
    ] {
        assert_eq!(call(&lua, name, &[key, data]), Some(unhex(expected)), "{name}");
    }
}

/// RFC 5869 A.1 and A.3.
#[test]
fn hkdf_keys_match_the_examples_of_rfc_5869() {
    let code = r#"
        local key = ("\11"):rep(22)
        local salt, info = codec.hex_decode("000102030405060708090a0b0c"),
            codec.hex_decode("f0f1f2f3f4f5f6f7f8f9")
        return codec.hex_encode(crypto.hkdf(key, 42, {salt = salt, info = info})),
            codec.hex_encode(crypto.hkdf(key, 42))"#;
    let (first, third): (String, String) = eval(code).expect("ran");
    let expected =
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(first, expected);
    let expected =
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8";
    assert_eq!(third, expected);
    let most: usize = eval("return #crypto.hkdf(('k'):rep(16), 8160)").expect("ran");
    assert_eq!(most, 8160);
    assert!(raised("return crypto.hkdf(('k'):rep(16), 8161)").contains("from 0 to 8160"));
    assert!(raised("return crypto.hkdf('short', 32)").contains("has 5 bytes"));
    assert!(raised("return crypto.hkdf(('k'):rep(16), 32, {sald = 'x'})").contains("no option"));
}

#[test]
fn random_has_the_requested_length_and_equal_compares_bytes() {
    assert_eq!(eval::<usize>("return #crypto.random(32768)").expect("ran"), 32768);
    assert_eq!(eval::<usize>("return #crypto.random(0)").expect("ran"), 0);
    assert!(eval::<bool>("return crypto.random(16) ~= crypto.random(16)").expect("ran"));
    for count in ["32769", "-1", "1.5", "2^40", "0/0", "'x'"] {
        raised(&format!("return crypto.random({count})"));
    }
    for (a, b, is_equal) in
        [("", "", true), ("a", "a", true), ("a", "b", false), ("a", "aa", false)]
    {
        let code = format!("return crypto.equal('{a}', '{b}')");
        assert_eq!(eval::<bool>(&code).expect("ran"), is_equal, "{code}");
    }
}

/// Made by `cryptography` of Python: HKDF, then AES-256-GCM or AES-SIV.
#[test]
fn sealing_matches_another_implementation() {
    let key: Vec<u8> = (0..32).collect();
    let random: [u8; 24] = core::array::from_fn(|i| 100 + i as u8);
    let text = b"The quick brown fox";
    let sealed = unhex(
        "016465666768696a6b6c6d6e6f707172737475767778797a7b7dfa2ef166b23c\
         a712963290ce763af3e2c4617d5aa7de3c23bb5e9caa744980cc2329",
    );
    assert_eq!(seal::seal_with(&key, &random, text, b"context"), Some(sealed.clone()));
    let lua = vm();
    assert_eq!(call(&lua, "open", &[&key, &sealed, b"context"]), Some(text.to_vec()));
    let sealed = unhex("02f548f7ae7ae5138746ea7457e154d2359d976d95f781319107d29b63d145870195f9da");
    assert_eq!(call(&lua, "seal_siv", &[&key, text, b"context"]), Some(sealed.clone()));
    assert_eq!(call(&lua, "open_siv", &[&key, &sealed, b"context"]), Some(text.to_vec()));
    let sealed = unhex("02f0c02757a5f9e4f2f4ebbd237a33d7441515b17deb4cf74333916f371b071d2bbe676e");
    assert_eq!(call(&lua, "seal_siv", &[&key, text]), Some(sealed));
}

/// RFC 5297 A.1.
#[test]
fn aes_siv_matches_the_example_of_rfc_5297() {
    let key = unhex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
    let data = unhex("101112131415161718191a1b1c1d1e1f2021222324252627");
    let sealed = Aes128Siv::new_from_slice(&key)
        .expect("a key")
        .encrypt([&data], &unhex("112233445566778899aabbccddee"))
        .expect("sealed");
    assert_eq!(sealed, unhex("85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c"));
}

#[test]
fn keys_that_are_too_short_raise_an_error() {
    for name in ["seal", "open", "seal_siv", "open_siv"] {
        let why = raised(&format!("return crypto.{name}(('k'):rep(15), 'text')"));
        let words = format!("crypto.{name}: the key has 15 bytes, it needs at least 16");
        assert!(why.contains(&words), "{why}");
    }
    let code = "return crypto.open(('k'):rep(16), 'nonsense')";
    let (text, why): (Value, String) = eval(code).expect("ran");
    assert!(text.is_nil());
    assert_eq!(why, "it cannot be opened with this key and context");
}

#[test]
fn seal_is_randomized_and_seal_siv_is_deterministic() {
    let code = "local k = ('k'):rep(16)
        return crypto.seal(k, 'a') ~= crypto.seal(k, 'a'), #crypto.seal(k, 'a'),
            crypto.seal_siv(k, 'a') == crypto.seal_siv(k, 'a'), #crypto.seal_siv(k, 'a'),
            crypto.seal_siv(k, 'a') == crypto.seal_siv(k, 'a', 'other')";
    let got: (bool, usize, bool, usize, bool) = eval(code).expect("ran");
    assert_eq!(got, (true, 42, true, 18, false));
}

const SEALS: [(&str, &str); 2] = [("seal", "open"), ("seal_siv", "open_siv")];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sealed_text_opens_only_with_its_own_key_and_context(
        key in prop::collection::vec(any::<u8>(), 16..80),
        text in prop::collection::vec(any::<u8>(), 0..40),
        context in prop::collection::vec(any::<u8>(), 0..20),
        other in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let lua = vm();
        for (seal, open) in SEALS {
            let sealed = call(&lua, seal, &[&key, &text, &context]).expect("sealed");
            prop_assert_eq!(call(&lua, open, &[&key, &sealed, &context]), Some(text.clone()));
            if other != context {
                prop_assert_eq!(call(&lua, open, &[&key, &sealed, &other]), None);
            }
            let mut wrong = key.clone();
            wrong[0] ^= 1;
            prop_assert_eq!(call(&lua, open, &[&wrong, &sealed, &context]), None);
            for bit in 0..sealed.len() * 8 {
                let mut changed = sealed.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(call(&lua, open, &[&key, &changed, &context]), None);
            }
            for end in 0..sealed.len() {
                prop_assert_eq!(call(&lua, open, &[&key, &sealed[..end], &context]), None);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_cannot_be_opened(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        form in 0u8..4,
    ) {
        let lua = vm();
        let bytes: Vec<u8> = std::iter::once(form).chain(bytes).collect();
        for (_, open) in SEALS {
            prop_assert_eq!(call(&lua, open, &[&[7; 16], &bytes]), None);
        }
    }
}

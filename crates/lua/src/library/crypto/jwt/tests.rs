mod keys;

use super::super::super::test_vm::{unhex, vm};
use super::algorithm::KeyError;
use super::*;
use keys::*;
use pinion_engine::clock::Now;
use proptest::prelude::*;

/// What the clock of these tests says.
const NOW: f64 = 1_700_000_000.0;

/// A VM whose `jwt` has that clock.
fn at_noon() -> Lua {
    let lua = vm();
    let now = Now { monotonic_ms: 0, unix_seconds: NOW as i64, unix_ms: NOW as u64 * 1000 };
    let clock = Clock::new(now);
    let jwt = table(&lua, &clock).expect("a table");
    lua.globals().raw_set("jwt", jwt).expect("room");
    lua.globals().raw_set("key", "0123456789abcdef".repeat(4)).expect("room");
    lua
}

fn eval<R: mlua::FromLuaMulti>(code: &str) -> R {
    at_noon().load(code).eval().unwrap_or_else(|error| panic!("{code}: {error}"))
}

fn raised(code: &str) -> String {
    match at_noon().load(code).eval::<MultiValue>() {
        Ok(values) => panic!("{code} gave {} values", values.len()),
        Err(error) => error.to_string(),
    }
}

/// Claims as JSON, or why there are none.
fn verified(token: &str, key: &[u8], options: &str) -> core::result::Result<String, String> {
    let lua = at_noon();
    let options: Table = lua.load(options).eval().expect("options");
    let jwt: Table = lua.globals().raw_get("jwt").expect("jwt");
    let verify: mlua::Function = jwt.raw_get("verify").expect("verify");
    let key = lua.create_string(key).expect("room");
    match verify.call::<(Value, Option<String>)>((token, key, options)) {
        Ok((Value::Table(claims), _)) => {
            let style = json::JsonStyle { indent: Vec::new(), is_sorted: true };
            let text = json::encode(&lua, &Value::Table(claims), &style).expect("encoded");
            Ok(String::from_utf8(text).expect("UTF-8"))
        }
        Ok((_, why)) => Err(why.expect("a reason")),
        Err(error) => Err(error.to_string()),
    }
}

const RFC_7515_A_1_KEY: &str =
    "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";

const RFC_7515_A_1: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
    eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
    dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

const RFC_7515_A_3: &str = "eyJhbGciOiJFUzI1NiJ9.\
    eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
    DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

/// RFC 7515 A.1 and A.3: these tokens are long expired, which is said once the signature is right.
#[test]
fn tokens_of_rfc_7515_are_verified() {
    let secret = URL_SAFE_NO_PAD.decode(RFC_7515_A_1_KEY).expect("base64");
    let hs256 = verified(RFC_7515_A_1, &secret, "{alg = 'HS256'}");
    assert_eq!(hs256, Err("the token has expired".to_owned()));
    let es256 = verified(RFC_7515_A_3, RFC_7515_A_3_PUBLIC.as_bytes(), "{alg = 'ES256'}");
    assert_eq!(es256, Err("the token has expired".to_owned()));
    // At the time of the RFC they were good.
    for (token, key, alg) in [
        (RFC_7515_A_1, &secret[..], Algorithm::Hs256),
        (RFC_7515_A_3, RFC_7515_A_3_PUBLIC.as_bytes(), Algorithm::Es256),
    ] {
        let key = alg.verifier(key).expect("a key");
        let payload = signed_payload(alg, token.as_bytes(), |message, signature| {
            key.is_signature(message, signature)
        });
        let claims = payload.expect("signed");
        assert!(claims.starts_with(b"{\"iss\":\"joe\",\r\n"));
    }
}

/// RFC 8037 A.4: the same bytes, for Ed25519 has no randomness.
#[test]
fn ed25519_matches_the_example_of_rfc_8037() {
    let message = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    let expected = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_\
                    MuM0KAg";
    let signature = Algorithm::EdDsa.sign(RFC_8037_A.as_bytes(), message).expect("signed");
    assert_eq!(URL_SAFE_NO_PAD.encode(&signature), expected);
    let key = Algorithm::EdDsa.verifier(RFC_8037_A_PUBLIC.as_bytes()).expect("a key");
    assert!(key.is_signature(message, &signature));
}

const SIGNED: &[(&str, &str, &str)] = &[
    ("RS256", SIGNED_RS256, RSA_PUBLIC),
    ("PS256", SIGNED_PS256, RSA_PUBLIC),
    ("ES256", SIGNED_ES256, P256_PUBLIC),
    ("ES384", SIGNED_ES384, P384_PUBLIC),
    ("EdDSA", SIGNED_EDDSA, ED25519_PUBLIC),
];

#[test]
fn tokens_signed_by_another_program_are_verified() {
    for (alg, token, key) in SIGNED {
        let claims = verified(token, key.as_bytes(), &format!("{{alg = '{alg}'}}"));
        assert_eq!(claims.as_deref(), Ok(r#"{"exp":2000000000,"sub":"anna"}"#), "{alg}");
        for (other, _, key) in SIGNED {
            let claims = verified(token, key.as_bytes(), &format!("{{alg = '{other}'}}"));
            assert_eq!(claims.is_ok(), alg == other, "{alg} as {other}");
        }
    }
}

#[test]
fn signed_tokens_are_verified_with_every_algorithm() {
    let secret = "0123456789abcdef".repeat(4);
    for (alg, private, public) in [
        ("HS256", secret.as_str(), secret.as_str()),
        ("HS384", &secret, &secret),
        ("HS512", &secret, &secret),
        ("RS256", RSA, RSA_PUBLIC),
        ("RS256", RSA_PKCS1, RSA_PUBLIC),
        ("PS256", RSA, RSA_PUBLIC),
        ("ES256", P256, P256_PUBLIC),
        ("ES256", P256_SEC1, P256_PUBLIC),
        ("ES384", P384, P384_PUBLIC),
        ("EdDSA", ED25519, ED25519_PUBLIC),
    ] {
        let lua = at_noon();
        let sign: mlua::Function = lua.load("return jwt.sign").eval().expect("sign");
        let claims = lua.create_table_from([("sub", "ü")]).expect("room");
        let options = lua.create_table_from([("alg", alg)]).expect("room");
        let token: String = sign.call((claims, private, options)).expect(alg);
        let claims = verified(&token, public.as_bytes(), &format!("{{alg = '{alg}'}}"));
        assert_eq!(claims.as_deref(), Ok(r#"{"sub":"ü"}"#), "{alg}");
    }
}

/// RFC 8725 §2.1: a public key is no secret, and a token without a signature is not accepted.
#[test]
fn the_token_does_not_choose_its_algorithm() {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = part(r#"{"sub":"admin"}"#);
    for alg in ["none", "None", "NONE", "", "hs256"] {
        let header = part(&format!(r#"{{"alg":"{alg}"}}"#));
        for signature in ["", "AA"] {
            let token = format!("{header}.{claims}.{signature}");
            for (alg, _, key) in SIGNED {
                let got = verified(&token, key.as_bytes(), &format!("{{alg = '{alg}'}}"));
                assert_eq!(got, Err("the token is signed by another algorithm".to_owned()));
            }
        }
        let why = raised(&format!("return jwt.verify('a.b.c', key, {{alg = '{alg}'}})"));
        assert!(why.contains("alg is one of HS256, HS384, HS512, RS256"), "{why}");
        let why = raised(&format!("return jwt.sign({{}}, key, {{alg = '{alg}'}})"));
        assert!(why.contains("alg is one of"), "{why}");
    }
    assert!(raised("return jwt.verify('a.b.c', key)").contains("state the algorithm"));
    assert!(raised("return jwt.verify('a.b.c', key, {})").contains("state the algorithm"));
    // Signed with the public key as if it were a secret.
    let message = format!("{}.{claims}", part(r#"{"alg":"HS256"}"#));
    let secret = hmac_by(RSA_PUBLIC.as_bytes(), message.as_bytes());
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(secret));
    let got = verified(&token, RSA_PUBLIC.as_bytes(), "{alg = 'RS256'}");
    assert_eq!(got, Err("the token is signed by another algorithm".to_owned()));
    let got = verified(&token, RSA_PUBLIC.as_bytes(), "{alg = 'HS256'}").expect_err("refused");
    assert!(got.contains("HS256 needs a secret, and this is a key as PEM"), "{got}");
}

fn hmac_by(key: &[u8], message: &[u8]) -> Vec<u8> {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key);
    aws_lc_rs::hmac::sign(&key, message).as_ref().to_vec()
}

#[test]
fn keys_of_the_wrong_kind_or_length_are_refused() {
    use Algorithm::*;
    for (algorithm, key) in [
        (Hs256, &b"0123456789abcdef0123456789abcde"[..]),
        (Hs512, &[b'k'; 63]),
        (Rs256, P256.as_bytes()),
        (Rs256, RSA_1024.as_bytes()),
        (Es256, P384.as_bytes()),
        (Es384, P256.as_bytes()),
        (Es256, RSA.as_bytes()),
        (Es256, RSA_PKCS1.as_bytes()),
        (EdDsa, P256.as_bytes()),
        (EdDsa, P256_SEC1.as_bytes()),
        (Es256, ED25519.as_bytes()),
        (Rs256, RSA_PUBLIC.as_bytes()),
        (Rs256, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        (Rs256, b"-----BEGIN PRIVATE KEY-----\n"),
        (Rs256, b"\xff"),
    ] {
        assert!(algorithm.sign(key, b"x").is_err(), "{algorithm:?}");
    }
    for (algorithm, key) in [
        (Rs256, P256_PUBLIC),
        (Es256, P384_PUBLIC),
        (Es384, P256_PUBLIC),
        (EdDsa, P256_PUBLIC),
        (Es256, ED25519_PUBLIC),
        (Rs256, RSA_PKCS1),
        (Es256, P256),
        (EdDsa, ""),
    ] {
        assert!(algorithm.verifier(key.as_bytes()).is_err(), "{algorithm:?}");
    }
    let short = Hs256.sign(b"short", b"x");
    assert_eq!(short, Err(KeyError::Short { name: "HS256", bytes: 32 }));
    let why = raised("return jwt.sign({}, 'short')");
    assert!(why.contains("HS256 needs a key of at least 32 random bytes"), "{why}");
    // Whatever is signed by a key of 1024 bits is refused, if the key itself is not.
    if let Ok(key) = Rs256.verifier(RSA_1024_PUBLIC.as_bytes()) {
        assert!(!key.is_signature(b"x", &unhex(&"00".repeat(128))));
    }
}

#[test]
fn expired_and_not_yet_valid_tokens_are_refused() {
    let token = |claims: &str| eval::<String>(&format!("return jwt.sign({claims}, key)"));
    let secret = "0123456789abcdef".repeat(4);
    let expired = "the token has expired";
    let early = "the token is not valid yet";
    for (claims, leeway, why) in [
        ("{exp = 1700000001}", 0, None),
        ("{exp = 1700000000}", 0, Some(expired)),
        ("{exp = 1700000000}", 1, None),
        ("{exp = 1699999940}", 60, Some(expired)),
        ("{exp = 1699999940.5}", 60, None),
        ("{nbf = 1700000000}", 0, None),
        ("{nbf = 1700000001}", 0, Some(early)),
        ("{nbf = 1700000001}", 1, None),
        ("{nbf = 1, exp = 1}", 0, Some(expired)),
        ("{exp = '2000000000'}", 0, Some("the claim exp is not a time")),
        ("{exp = json.null}", 0, Some("the claim exp is not a time")),
        ("{nbf = true}", 0, Some("the claim nbf is not a time")),
        ("{exp = -1}", 0, Some(expired)),
        ("{exp = 1e300}", 0, None),
        ("{}", 0, None),
    ] {
        let options = format!("{{alg = 'HS256', leeway = {leeway}}}");
        let got = verified(&token(claims), secret.as_bytes(), &options);
        assert_eq!(got.err().as_deref(), why, "{claims}");
    }
    for leeway in ["-1", "86401", "0/0", "1/0"] {
        let code = format!("return jwt.verify('', key, {{alg = 'HS256', leeway = {leeway}}})");
        assert!(raised(&code).contains("leeway is from 0 to 86400"), "{leeway}");
    }
}

#[test]
fn expires_in_sets_iat_and_exp() {
    let secret = "0123456789abcdef".repeat(4);
    let got = |code: &str| verified(&eval::<String>(code), secret.as_bytes(), "{alg = 'HS256'}");
    let claims = got("return jwt.sign({sub = 'a'}, key, {expires_in = 3600})");
    assert_eq!(claims.as_deref(), Ok(r#"{"exp":1700003600,"iat":1700000000,"sub":"a"}"#));
    let claims = got("return jwt.sign({}, key, {expires_in = 1})");
    assert_eq!(claims.as_deref(), Ok(r#"{"exp":1700000001,"iat":1700000000}"#));
    let claims = got("return jwt.sign({iat = 5}, key, {expires_in = 1})");
    assert_eq!(claims.as_deref(), Ok(r#"{"exp":1700000001,"iat":5}"#));
    for (code, words) in [
        ("jwt.sign({exp = 5}, key, {expires_in = 1})", "not both"),
        ("jwt.sign({}, key, {expires_in = 0})", "above 0"),
        ("jwt.sign({}, key, {expires_in = 0/0})", "above 0"),
        ("jwt.sign({}, key, {exp = 1})", "its options are: alg, expires_in"),
        ("jwt.sign({1}, key)", "a table with names"),
        ("jwt.sign('x', key)", "a table with names"),
        ("jwt.sign(nil, key)", "a table with names"),
        ("jwt.sign({a = pairs}, key)", "data.a is a function"),
        ("jwt.sign({a = ('x'):rep(16384)}, key)", "longer than 16384 bytes"),
    ] {
        assert!(raised(&format!("return {code}")).contains(words), "{code}");
    }
}

#[test]
fn tokens_of_another_issuer_or_audience_are_refused() {
    let secret = "0123456789abcdef".repeat(4);
    let (issuer, audience) =
        ("the token is of another issuer", "the token is for another audience");
    for (claims, options, why) in [
        ("{iss = 'a'}", "iss = 'a'", None),
        ("{iss = 'a'}", "iss = 'b'", Some(issuer)),
        ("{}", "iss = 'b'", Some(issuer)),
        ("{iss = {'b'}}", "iss = 'b'", Some(issuer)),
        ("{iss = 'a'}", "", None),
        ("{aud = 'a'}", "aud = 'a'", None),
        ("{aud = {'x', 'a'}}", "aud = 'a'", None),
        ("{aud = {'x', 1}}", "aud = 'a'", Some(audience)),
        ("{aud = 'x'}", "aud = 'a'", Some(audience)),
        ("{}", "aud = 'a'", Some(audience)),
        ("{aud = 'a'}", "", Some(audience)),
        ("{aud = json.array()}", "", Some(audience)),
        ("{}", "require = {'exp'}", Some("a claim is missing that is required")),
        ("{sub = json.null}", "require = {'sub'}", Some("a claim is missing that is required")),
        ("{sub = false}", "require = {'sub'}", None),
    ] {
        let token: String = eval(&format!("return jwt.sign({claims}, key)"));
        let got = verified(&token, secret.as_bytes(), &format!("{{alg = 'HS256', {options}}}"));
        assert_eq!(got.err().as_deref(), why, "{claims} {options}");
    }
    let why = raised("return jwt.verify('', key, {alg = 'HS256', audience = 'a'})");
    assert!(why.contains("no option \"audience\""), "{why}");
}

#[test]
fn malformed_tokens_are_refused() {
    let secret = [b'k'; 32];
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let signed = |header: &str, claims: &str| {
        let message = format!("{}.{}", part(header), part(claims));
        let signature = hmac_by(&secret, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    };
    let plain = r#"{"alg":"HS256"}"#;
    let good = signed(plain, "{}");
    assert!(verified(&good, &secret, "{alg = 'HS256'}").is_ok());
    assert!(
        verified(&signed(r#"{"alg":"HS256","kid":[1]}"#, "{}"), &secret, "{alg='HS256'}").is_ok()
    );
    for token in [
        String::new(),
        "..".to_owned(),
        "...".to_owned(),
        format!("{good}."),
        format!("{good}="),
        format!(" {good}"),
        format!("{good}\n"),
        signed(r#"{"alg":"HS256","crit":["exp"]}"#, "{}"),
        signed(r#"{"alg":"HS256","crit":[],"b64":false}"#, "{}"),
        signed(r#"{"alg":"none","alg":"HS256"}"#, "{}"),
        signed(r#"{"alg":["HS256"]}"#, "{}"),
        signed("{}", "{}"),
        signed("[]", "{}"),
        signed(plain, "null"),
        signed(plain, "\"x\""),
        signed(plain, "[1]"),
        signed(plain, "[]"),
        signed(plain, "{"),
        signed(plain, "{}x"),
        "a".repeat(TOKEN_MAX_BYTES + 1),
    ] {
        let why = verified(&token, &secret, "{alg = 'HS256'}").expect_err(&token);
        assert!(!why.contains("runtime error"), "{token}: {why}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A change of any bit, and every part left out.
    #[test]
    fn changed_or_truncated_tokens_are_refused(sub in ".{0,8}", which in 0..SIGNED.len() + 1) {
        let secret = "0123456789abcdef".repeat(4);
        let (alg, token, key) = match SIGNED.get(which) {
            Some((alg, token, key)) => (*alg, (*token).to_owned(), *key),
            None => {
                let lua = at_noon();
                lua.globals().raw_set("sub", sub).expect("room");
                let code = "return jwt.sign({sub = sub}, key)";
                ("HS256", lua.load(code).eval().expect("signed"), secret.as_str())
            }
        };
        let algorithm = Algorithm::named(alg.as_bytes()).expect("an algorithm");
        let verifier = algorithm.verifier(key.as_bytes()).expect("a key");
        let opens = |token: &[u8]| {
            let is_signature = |m: &[u8], s: &[u8]| verifier.is_signature(m, s);
            signed_payload(algorithm, token, is_signature).is_ok()
        };
        prop_assert!(opens(token.as_bytes()));
        for bit in 0..token.len() * 8 {
            let mut changed = token.clone().into_bytes();
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!opens(&changed), "{alg}, bit {bit}");
        }
        for end in 0..token.len() {
            prop_assert!(!opens(&token.as_bytes()[..end]));
        }
    }

    #[test]
    fn no_bytes_panic(token in r"([\w-]{0,20}[.]){2}[\w-]{0,20}|\PC{0,20}",
                      key in prop::collection::vec(any::<u8>(), 0..80)) {
        for algorithm in Algorithm::ALL {
            let options = format!("{{alg = '{}'}}", algorithm.name());
            prop_assert!(verified(&token, &key, &options).is_err());
        }
    }
}

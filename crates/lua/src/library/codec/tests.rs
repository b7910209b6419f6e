use super::super::test_vm::{eval, raised, vm};
use super::*;
use crate::pattern::limits::RESULT_MAX_BYTES;
use mlua::Function;
use proptest::prelude::*;

fn function(lua: &Lua, name: &str) -> Function {
    let codec: Table = lua.globals().raw_get("codec").expect("codec");
    codec.raw_get(name).expect(name)
}

/// What a function gives for bytes and options; `Err` is nil and a message.
fn call(
    lua: &Lua,
    name: &str,
    data: &[u8],
    options: &str,
) -> core::result::Result<Vec<u8>, String> {
    let data = lua.create_string(data).expect("room");
    let options: Value = lua.load(options).eval().expect("options");
    let (value, why): (Option<LuaString>, Option<String>) =
        function(lua, name).call((data, options)).expect(name);
    value.map(|value| value.as_bytes().to_vec()).ok_or_else(|| why.expect("a reason"))
}

/// RFC 4648 §10.
#[test]
fn base64_matches_the_examples_of_rfc_4648() {
    let lua = vm();
    for (plain, text) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(call(&lua, "base64_encode", plain.as_bytes(), "nil"), Ok(text.into()));
        assert_eq!(call(&lua, "base64_decode", text.as_bytes(), "nil"), Ok(plain.into()));
        let bare = text.trim_end_matches('=').as_bytes();
        assert_eq!(call(&lua, "base64_encode", plain.as_bytes(), "{url = true}"), Ok(bare.into()));
        assert_eq!(call(&lua, "base64_decode", bare, "{pad = false}"), Ok(plain.into()));
        if bare != text.as_bytes() {
            assert!(call(&lua, "base64_decode", bare, "nil").is_err(), "{text}");
            assert!(call(&lua, "base64_decode", text.as_bytes(), "{pad = false}").is_err());
        }
    }
    assert_eq!(
        call(&lua, "base64_encode", b"\xfb\xff", "{url = true, pad = true}"),
        Ok(b"-_8=".into())
    );
    assert_eq!(call(&lua, "base64_encode", b"\xfb\xff", "nil"), Ok(b"+/8=".into()));
}

#[test]
fn base64_and_hex_decoders_refuse_non_canonical_text() {
    let lua = vm();
    for (text, form) in [
        ("Zg", "with { pad = false }"),
        ("-_8=", "with { url = true, pad = true }"),
        ("-_8", "with { url = true }"),
    ] {
        let why = call(&lua, "base64_decode", text.as_bytes(), "nil").expect_err(text);
        assert_eq!(why, format!("the text is Base64 of another form; decode it {form}"));
    }
    for text in ["Zh==", "Zg=", "Zg==\n", " Zg==", "Z", "Zm9v====", "Zm9v\0", "=Zg="] {
        let why = call(&lua, "base64_decode", text.as_bytes(), "nil").expect_err(text);
        assert!(why.starts_with("the text is not Base64: "), "{why}");
    }
    for text in ["0", "0g", "0x00", " 00", "00 ", "é"] {
        assert!(call(&lua, "hex_decode", text.as_bytes(), "nil").is_err(), "{text}");
    }
    assert_eq!(call(&lua, "hex_decode", b"00fFAb", "nil"), Ok(vec![0, 255, 0xab]));
    assert_eq!(call(&lua, "hex_encode", b"\0\xff\x0a", "nil"), Ok(b"00ff0a".into()));
    assert!(raised("return codec.base64_decode('', {padding = true})").contains("no option"));
}

/// RFC 3629 §3, §10: neither a byte alone, nor the half of a pair, nor a longer way than needed.
#[test]
fn is_utf8_accepts_valid_utf8_only() {
    let is_text = |bytes: &[u8]| {
        let lua = vm();
        lua.globals().raw_set("data", lua.create_string(bytes)?)?;
        lua.load("return codec.is_utf8(data)").eval::<bool>()
    };
    for (bytes, expected) in [
        (&b""[..], true),
        ("aü€😀\0".as_bytes(), true),
        (b"\xff\xfe", false),
        (b"\xed\xa0\x80", false),
        (b"\xc0\xaf", false),
        (b"a\xc3", false),
    ] {
        assert_eq!(is_text(bytes).expect("ran"), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn url_encode_and_url_decode_use_percent_escapes() {
    let lua = vm();
    let text = "a b+c/ü~*-._!'()%".as_bytes();
    let encoded = b"a%20b%2Bc%2F%C3%BC~%2A-._%21%27%28%29%25".to_vec();
    assert_eq!(call(&lua, "url_encode", text, "nil"), Ok(encoded));
    let encoded = b"a+b%2Bc%2F%C3%BC%7E*-._%21%27%28%29%25".to_vec();
    assert_eq!(call(&lua, "url_encode", text, "{form = true}"), Ok(encoded));
    assert_eq!(call(&lua, "url_decode", b"a+b%2b%20", "nil"), Ok(b"a+b+ ".into()));
    assert_eq!(call(&lua, "url_decode", b"a+b%2b%20", "{form = true}"), Ok(b"a b+ ".into()));
    for text in ["%", "%2", "a%zz", "%%20", "100%"] {
        assert!(call(&lua, "url_decode", text.as_bytes(), "nil").is_err(), "{text}");
    }
}

#[test]
fn query_and_parse_query_convert_tables() {
    let code =
        "return codec.query({q = 'a b&', page = 2, tag = {'x', 'y'}, ['ü'] = true, f = 2.0})";
    let text: String = eval(code).expect("ran");
    assert_eq!(text, "f=2&page=2&q=a%20b%26&tag=x&tag=y&%C3%BC=true");
    assert!(raised("return codec.query({'a'})").contains("for a key"));
    assert!(raised("return codec.query({a = pairs})").contains("\"a\" is a function"));
    assert!(raised("return codec.query({a = {b = 1}})").contains("\"a\" is a table, but no list"));
    assert_eq!(eval::<String>("return codec.query({a = {}})").expect("ran"), "");
    assert!(raised("return codec.query({a = 0/0})").contains("has no text"));
    let code = "
        local last, all = codec.parse_query('a=1&b&=c&&d==&a=2+3&%C3%BC=100%&a')
        return last.a, last.b, last[''], last.d, last['ü'], table.concat(all.a, '|'), #all.b";
    let got: (String, String, String, String, String, String, usize) = eval(code).expect("ran");
    let text = |text: &str| text.to_owned();
    let expected = (text(""), text(""), text("c"), text("="), text("100%"), text("1|2 3|"), 1);
    assert_eq!(got, expected);
    let many = "return codec.parse_query(('a&'):rep(1000)), codec.parse_query(('a&'):rep(1001))";
    let (last, _, why): (Value, Value, String) = eval(many).expect("ran");
    assert!(last.is_table());
    assert_eq!(why, "more than 1000 pairs");
}

#[test]
fn html_escape_and_unescape_use_character_references() {
    let lua = vm();
    let text = b"<a href=\"x\">'&amp;'</a>";
    let escaped = b"&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;&#39;&lt;/a&gt;".to_vec();
    assert_eq!(call(&lua, "html_escape", text, "nil"), Ok(escaped));
    for (text, plain) in [
        ("&lt;&gt;&amp;&quot;&apos;&#39;&#x27;&#X27;", "<>&\"''''"),
        ("&#228;&#xE4;&#x1F600;&#x0010FFFF;", "ää😀\u{10ffff}"),
        ("&amp;lt;", "&lt;"),
        (
            "&nbsp;&copy &;&#;&#x;&#xD800;&#x110000;&#+39;&#x+27;",
            "&nbsp;&copy &;&#;&#x;&#xD800;&#x110000;&#+39;&#x+27;",
        ),
        ("&&lt;&", "&<&"),
        ("&#0000000000000039;", "&#0000000000000039;"),
    ] {
        assert_eq!(call(&lua, "html_unescape", text.as_bytes(), "nil"), Ok(plain.into()), "{text}");
    }
}

/// What it comes to is known before there is room for it.
#[test]
fn encoded_text_longer_than_16_mib_is_refused() {
    const MAX: usize = RESULT_MAX_BYTES;
    let lua = vm();
    for (name, options, some, each) in [
        ("hex_encode", "nil", "x", 2),
        ("url_encode", "nil", "%", 3),
        ("url_encode", "{form = true}", "~", 3),
        ("html_escape", "nil", "<", 4),
        ("html_escape", "nil", "\"", 6),
    ] {
        let text = some.repeat(MAX / each).into_bytes();
        let grown = call(&lua, name, &text, options).expect("it fits");
        assert_eq!(grown.len(), MAX / each * each, "{name}");
        let code = format!("return codec.{name}(('{some}'):rep({}), {options})", MAX / each + 1);
        let why = raised(&code);
        assert!(why.contains(name) && why.contains("longer than 16 MiB"), "{why}");
    }
    // Four for each three.
    assert!(call(&lua, "base64_encode", &vec![0; MAX / 4 * 3], "nil").is_ok());
    let code = format!("return codec.base64_encode(('x'):rep({} + 1))", MAX / 4 * 3);
    assert!(raised(&code).contains("longer than 16 MiB"));
    let code = format!("return codec.html_unescape(('x'):rep({MAX} + 1))");
    assert!(raised(&code).contains("longer than 16 MiB"));
    let code = "local text = ('<'):rep(2^20) return codec.query({ a = { text, text, text, text, \
                text, text } })";
    assert!(raised(code).contains("codec.query: the text or the result"));
    let zeros = vec![b'0'; MAX + 4];
    for name in ["hex_decode", "base64_decode", "url_decode", "parse_query"] {
        let why = call(&lua, name, &zeros, "nil").expect_err(name);
        assert!(why.contains("longer than 16 MiB"), "{name}: {why}");
    }
}

const PAIRS: &[(&str, &str, &[&str])] = &[
    ("hex_encode", "hex_decode", &["nil"]),
    (
        "base64_encode",
        "base64_decode",
        &["nil", "{url = true}", "{pad = false}", "{url = true, pad = true}"],
    ),
    ("url_encode", "url_decode", &["nil", "{form = true}"]),
    ("html_escape", "html_unescape", &["nil"]),
];

proptest! {
    #[test]
    fn every_encoding_round_trips_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let lua = vm();
        for (encode, decode, options) in PAIRS {
            for options in *options {
                let text = call(&lua, encode, &bytes, options).expect("encoded");
                let back = call(&lua, decode, &text, options);
                prop_assert_eq!(back, Ok(bytes.clone()), "{}", encode);
            }
        }
    }

    /// What is decoded at all is what the encoder would have written, but for the case of digits.
    #[test]
    fn decoders_accept_only_text_that_encoders_write(bytes in "[A-Za-f0-9+/_=-]{0,10}|\\PC{0,4}") {
        let lua = vm();
        for (encode, decode, options) in &PAIRS[..2] {
            for options in *options {
                if let Ok(plain) = call(&lua, decode, bytes.as_bytes(), options) {
                    let again = call(&lua, encode, &plain, options).expect("encoded");
                    let is_hex = *encode == "hex_encode";
                    let expected = if is_hex { bytes.to_ascii_lowercase() } else { bytes.clone() };
                    prop_assert_eq!(String::from_utf8(again).expect("ASCII"), expected);
                }
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let lua = vm();
        for (_, decode, options) in PAIRS {
            for options in *options {
                let _ = call(&lua, decode, &bytes, options);
            }
        }
        let _: MultiValue = function(&lua, "parse_query")
            .call(lua.create_string(&bytes).expect("room")).expect("parsed");
    }

    /// Nothing that was escaped means anything to a parser.
    #[test]
    fn escaped_text_has_no_markup_or_url_delimiters(text in "[a&<>\"'%+ /?#=]{0,24}") {
        let lua = vm();
        let html = call(&lua, "html_escape", text.as_bytes(), "nil").expect("escaped");
        prop_assert!(!html.iter().any(|byte| b"<>\"'".contains(byte)));
        let url = call(&lua, "url_encode", text.as_bytes(), "nil").expect("escaped");
        prop_assert!(!url.iter().any(|byte| b"&<>\"'+ /?#=".contains(byte)));
    }

    #[test]
    fn a_query_round_trips(pairs in prop::collection::btree_map(".{0,4}", ".{0,6}", 0..6)) {
        let lua = vm();
        let table = lua.create_table_from(pairs.clone()).expect("room");
        let text: LuaString = function(&lua, "query").call(table).expect("written");
        let last: std::collections::BTreeMap<String, String> =
            function(&lua, "parse_query").call(text).expect("read");
        prop_assert_eq!(last, pairs);
    }

    /// Queries, forms and `parse_query` agree on the value of a name that comes more than once.
    #[test]
    fn the_last_value_of_a_repeated_name_wins_in_queries_and_forms(
        text in "[ab]=[0-9](&[abc]=?[0-9+%]{0,2}){0,8}",
    ) {
        let lua = vm();
        let query = lua.create_string(&text).expect("room");
        let read: Table = function(&lua, "parse_query").call(query).expect("read");
        let form = crate::body::urlencoded::table(&lua, text.as_bytes()).expect("read");
        for pair in read.pairs::<String, String>() {
            let (name, value) = pair.expect("text");
            let name = name.as_str();
            prop_assert_eq!(form.raw_get::<String>(name).expect("text"), value, "{}", name);
        }
    }
}

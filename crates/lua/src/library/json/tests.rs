use super::super::test_vm::{eval, raised, vm};
use super::*;
use proptest::prelude::*;
use serde_json::Value as Json;

fn encoded(lua: &Lua, value: &Value, is_sorted: bool, indent: &str) -> String {
    let style = JsonStyle { indent: indent.into(), is_sorted };
    String::from_utf8(encode(lua, value, &style).expect("encoded")).expect("UTF-8")
}

fn decoded(lua: &Lua, text: &[u8]) -> std::result::Result<Value, String> {
    decode(lua, text).expect("room")
}

/// Decoded, encoded again with the keys sorted.
fn through(text: &str) -> String {
    let lua = vm();
    let value = decoded(&lua, text.as_bytes()).unwrap_or_else(|why| panic!("{text}: {why}"));
    encoded(&lua, &value, true, "")
}

/// Texts and what Python's `json` makes of them, with sorted keys and without spaces; the last two
/// are those of RFC 8259 §13.
const BY_PYTHON: &[(&str, &str)] = &[
    (
        r#"{"b":[1,2.5,-3e-2,true,null],"a":{"\u00e9\ud83d\ude00":"\b\f\n\r\t\"\\\/"}}"#,
        r#"{"a":{"é😀":"\b\f\n\r\t\"\\/"},"b":[1,2.5,-0.03,true,null]}"#,
    ),
    ("[1E2, 0.1, 123456789012, -0.5e1, 1.0, 5e-324]", "[100,0.1,123456789012,-5,1,5e-324]"),
    (r#"{"":{"":[]},"x":{}, "x":[[[]]]}"#, r#"{"":{"":[]},"x":[[[]]]}"#),
    (" [ ]\t\r\n", "[]"),
    ("-17", "-17"),
    ("\"ü\"", "\"ü\""),
    ("[0.30000000000000004,123456.789]", "[0.30000000000000004,123456.789]"),
    (
        r#"{"Image":{"Width":800,"Height":600,"Title":"View from 15th Floor","Thumbnail":
        {"Url":"http://www.example.com/image/481989943","Height":125,"Width":100},
        "Animated":false,"IDs":[116,943,234,38793]}}"#,
        "{\"Image\":{\"Animated\":false,\"Height\":600,\"IDs\":[116,943,234,38793],\"Thumbnail\":\
         {\"Height\":125,\"Url\":\"http://www.example.com/image/481989943\",\"Width\":100},\
         \"Title\":\"View from 15th Floor\",\"Width\":800}}",
    ),
    (
        r#"[{"precision":"zip","Latitude":37.7668,"Longitude":-122.3959,"Zip":"94107"},
        {"precision":"zip","Latitude":37.371991,"Longitude":-122.026020}]"#,
        "[{\"Latitude\":37.7668,\"Longitude\":-122.3959,\"Zip\":\"94107\",\"precision\":\"zip\"},\
         {\"Latitude\":37.371991,\"Longitude\":-122.02602,\"precision\":\"zip\"}]",
    ),
];

#[test]
fn json_is_encoded_as_by_python() {
    for (text, expected) in BY_PYTHON {
        assert_eq!(through(text), *expected);
    }
    // What is no text in a source file, as Python escapes it.
    assert_eq!(through(r#""\u0000\u001f\u007f""#), "\"\\u0000\\u001f\u{7f}\"");
}

/// After the names of JSONTestSuite: these must be taken,
#[test]
fn valid_json_is_accepted() {
    for text in [
        "null",
        "true",
        "\"\"",
        "0",
        "-0",
        "1e1",
        "1E+2",
        "1e-2",
        "0e1",
        "[1 ]",
        "[1\n,2]",
        "{}",
        r#"["\uD801\udc37"]"#,
        r#"["\u0000"]"#,
        r#"["\uFFFF"]"#,
        "[\"\u{2028}\"]",
        r#"{"a":{}}"#,
        r#"{"a":1,"a":2}"#,
        "[[],[[]]]",
        "123456789012345678901234567890",
        "[1.7976931348623157e308]",
    ] {
        let lua = vm();
        assert!(decoded(&lua, text.as_bytes()).is_ok(), "{text}");
    }
}

/// and these not.
#[test]
fn invalid_json_is_refused() {
    let lua = vm();
    for text in [
        &b""[..],
        b" ",
        b"nul",
        b"True",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"+1",
        b"01",
        b"-01",
        b"1.",
        b".5",
        b"1e",
        b"1e+",
        b"0x1",
        b"1 2",
        b"--1",
        b"[1,]",
        b"[,1]",
        b"[1",
        b"1]",
        b"[1 2]",
        b"{",
        b"{a:1}",
        b"{'a':1}",
        b"{\"a\" 1}",
        b"{\"a\":1,}",
        b"{1:1}",
        b"{\"a\":1}}",
        b"\"",
        b"\"\n\"",
        b"\"\t\"",
        b"\"\0\"",
        b"'a'",
        b"\"\\x41\"",
        b"\"\\u12\"",
        b"\"\\u12g4\"",
        b"\"\\ud800\"",
        b"\"\\ud800\\ud800\"",
        b"\"\\udc00\"",
        b"\"\\ud800a\"",
        b"\"\\\"",
        b"\"\xff\"",
        b"\"\xc0\x80\"",
        b"\"\xed\xa0\x80\"",
        b"\"\xf4\x90\x80\x80\"",
        b"[\"a\xe9\"]",
        b"\xef\xbb\xbf1",
        b"// no\n1",
        b"1 /* no */",
        b"1e400",
        b"-1e400",
        b"\x0c1",
        b"\xff\xfe1\x00",
    ] {
        let shown = String::from_utf8_lossy(text);
        let why = decoded(&lua, text).expect_err(&shown);
        assert!(why.contains(" at line ") && why.contains(" column "), "{shown}: {why}");
    }
}

#[test]
fn decoding_invalid_json_returns_nil_and_an_error() {
    let (value, why) = eval::<(Value, String)>("return json.decode('[1,\\n x]')").expect("ran");
    assert!(value.is_nil());
    assert_eq!(why, "expected value at line 2 column 2");
    assert!(eval::<bool>("return json.decode('null') == json.null").expect("ran"));
    assert!(eval::<bool>("return json.decode('[null]')[1] == json.null").expect("ran"));
    assert!(raised("return json.decode({})").contains("string"));
}

#[test]
fn integers_are_exact_up_to_the_range_of_the_lua_version() {
    for text in ["9007199254740991", "-9007199254740991", "0", "-1"] {
        assert_eq!(through(text), text);
    }
    if cfg!(feature = "lua54") {
        for text in ["9223372036854775807", "-9223372036854775808", "9007199254740993"] {
            assert_eq!(through(text), text);
        }
    }
    // Above them there are floats.
    assert_eq!(through("18446744073709551615"), "1.8446744073709552e+19");
    assert_eq!(through("-0.0"), "-0.0");
    let code = "return json.encode({1.0, 2^53 - 1, -0.5, 1e15, 1e300, 0.1, 10 / 5})";
    let text: String = eval(code).expect("ran");
    assert_eq!(text, "[1,9007199254740991,-0.5,1000000000000000,1e+300,0.1,2]");
}

#[test]
fn empty_arrays_remain_arrays() {
    assert_eq!(eval::<String>("return json.encode({})").expect("ran"), "{}");
    assert_eq!(eval::<String>("return json.encode(json.array())").expect("ran"), "[]");
    assert_eq!(eval::<String>("return json.encode(json.array({}))").expect("ran"), "[]");
    assert_eq!(through(r#"{"a":[],"b":{}}"#), r#"{"a":[],"b":{}}"#);
    let code =
        "local t = json.decode('[]'); t[1] = json.null; json.array(t); return json.encode(t)";
    assert_eq!(eval::<String>(code).expect("ran"), "[null]");
    let code = "return json.array(setmetatable({}, {}))";
    assert!(raised(code).contains("metatable"));
    assert_eq!(eval::<String>("return json.encode(nil)").expect("ran"), "null");
}

#[test]
fn an_error_names_the_path_to_a_value_that_json_cannot_hold() {
    for (code, problem) in [
        ("{items = {1, 2, {x = pairs}}}", "data.items[3].x is a function"),
        ("{['a b'] = {0/0}}", "data[\"a b\"][1] is NaN"),
        ("{a = 1/0}", "data.a is inf"),
        ("-1/0", "data is -inf"),
        ("{a = {'\\195'}}", "data.a[1] is not UTF-8 at byte 1"),
        ("'ab\\255'", "data is not UTF-8 at byte 3"),
        ("{a = {['\\255'] = 1}}", "data.a has the key"),
        ("{a = {1, nil, 3}}", "data.a is an array with holes"),
        ("{a = {[2] = 1}}", "data.a is an array with holes (it has an item 2)"),
        (
            "{a = {1, 2, b = 3}}",
            "data.a has array elements and the key \"b\"; a JSON value is either an array",
        ),
        ("{a = {[true] = 1}}", "data.a has a boolean for a key"),
        ("{a = {[1.5] = 1}}", "data.a has a number for a key"),
        ("json.array({a = 1})", "data has array elements and the key \"a\"; a JSON value is"),
        ("coroutine.create(pairs)", "data is a thread"),
    ] {
        let why = raised(&format!("return json.encode({code})"));
        assert!(why.contains(&format!("json.encode: {problem}")), "{code}: {why}");
        let why = raised(&format!("return json.encode({code}, {{sort = true}})"));
        assert!(why.contains(&format!("json.encode: {problem}")), "{code}: {why}");
    }
}

#[test]
fn circular_and_too_deep_values_are_refused() {
    let circle = "local t = {a = {{}}}; t.a[1].b = t.a; return json.encode(t)";
    let why = raised(circle);
    let words = "data.a[1].b refers to data.a: JSON cannot contain circular references";
    assert!(why.contains(words), "{why}");
    let why = raised("local t = {}; t.t = t; return json.encode(t)");
    assert!(why.contains("data.t refers to data: JSON cannot contain"), "{why}");
    let nested = |levels: usize| {
        format!("local t = 1; for _ = 1, {levels} do t = {{t}} end; return json.encode(t)")
    };
    let text: String = eval(&nested(128)).expect("ran");
    assert_eq!(text, format!("{}1{}", "[".repeat(128), "]".repeat(128)));
    assert!(raised(&nested(129)).contains("deeper than 128 levels"));
    let lua = vm();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels| format!("{}1{}", open.repeat(levels), close.repeat(levels));
        assert!(decoded(&lua, nested(128).as_bytes()).is_ok());
        let why = decoded(&lua, nested(129).as_bytes()).expect_err("too deep");
        assert!(why.contains("deeper than 128 levels at line 1"), "{why}");
        assert!(decoded(&lua, open.repeat(1_000_000).as_bytes()).is_err());
    }
}

#[test]
fn json_text_longer_than_the_limit_is_refused() {
    // Each level holds the one below ten times: 10^9 numbers in 9 tables.
    let many = "local t = 1
        for _ = 1, 9 do t = {t, t, t, t, t, t, t, t, t, t} end
        return json.encode(t)";
    assert!(raised(many).contains("longer than 16777216 bytes"));
    let long = vec![b' '; super::super::limits::JSON_TEXT_MAX_BYTES + 1];
    assert!(decoded(&vm(), &long).expect_err("too long").contains("longer than"));
}

#[test]
fn encode_options_are_applied_and_invalid_ones_are_refused() {
    let code = "return json.encode({b = {1, {}}, a = json.array()}, {sort = true, indent = '\\t'})";
    let expected = "{\n\t\"a\": [],\n\t\"b\": [\n\t\t1,\n\t\t{}\n\t]\n}";
    assert_eq!(eval::<String>(code).expect("ran"), expected);
    for options in ["{indent = 9}", "{indent = -1}", "{indent = 'x'}", "{indent = {}}"] {
        assert!(raised(&format!("return json.encode(1, {options})")).contains("indent"));
    }
    let why = raised("return json.encode(1, {sorted = true})");
    assert!(why.contains("no option \"sorted\"; its options are: indent, sort"), "{why}");
}

/// Memory that a script may not have is not the fault of the text.
#[test]
fn out_of_memory_is_raised() {
    let lua = vm();
    let text = format!("[{}1]", "[],".repeat(100_000));
    lua.set_memory_limit(lua.used_memory() + 100_000).expect("a limit");
    assert!(matches!(decode(&lua, text.as_bytes()), Err(Error::MemoryError(_))));
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-(1i64 << 53)..1 << 53).prop_map(Json::from),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Json::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Equal as numbers go in Lua: 1 and 1.0 are the same.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

proptest! {
    /// `serde_json::Value` is the oracle, both ways and in every form.
    #[test]
    fn json_values_round_trip(value in any_json(), is_sorted: bool, indent in "[ \t]{0,4}") {
        let lua = vm();
        for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("text")] {
            let decoded = decoded(&lua, text.as_bytes()).expect("JSON");
            let again = encoded(&lua, &decoded, is_sorted, &indent);
            let again: Json = serde_json::from_str(&again).expect("JSON");
            prop_assert!(same(&value, &again), "{value} {again}");
        }
    }

    /// The same layout as the oracle's.
    #[test]
    fn indented_json_equals_that_of_serde_json(value in any_json()) {
        // Numbers are written in another way.
        let lua = vm();
        let decoded = decoded(&lua, value.to_string().as_bytes()).expect("JSON");
        let plain = encoded(&lua, &decoded, true, "");
        let value: Json = serde_json::from_str(&plain).expect("JSON");
        prop_assert_eq!(plain, value.to_string());
        let pretty = serde_json::to_string_pretty(&value).expect("text");
        prop_assert_eq!(encoded(&lua, &decoded, true, "  "), pretty);
    }

    #[test]
    fn decoding_refuses_the_texts_that_serde_json_refuses(
        text in r#"[\[\]{}:,"\\ude0-9+.nul t-]{0,
        12}|\PC{0,
        8}"#,
    ) {
        let lua = vm();
        let oracle = serde_json::from_str::<Json>(&text);
        prop_assert_eq!(decoded(&lua, text.as_bytes()).is_ok(), oracle.is_ok());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let lua = vm();
        let _ = decoded(&lua, &bytes);
        let text = Value::String(lua.create_string(&bytes).expect("room"));
        let is_encoded = encode(&lua, &text, &JsonStyle::default()).is_ok();
        prop_assert_eq!(is_encoded, std::str::from_utf8(&bytes).is_ok());
    }

    #[test]
    fn floats_round_trip(bits: u64) {
        let number = f64::from_bits(bits);
        let lua = vm();
        let mut text = Vec::new();
        prop_assert_eq!(write_number(&mut text, number), number.is_finite());
        if number.is_finite() {
            let back = match decoded(&lua, &text).expect("a number") {
                Value::Integer(back) => back as f64,
                back => back.as_number().expect("a float"),
            };
            prop_assert_eq!(back.to_bits(), number.to_bits());
        }
    }
}

#[test]
fn json_values_and_strings_cost_steps_of_the_request() {
    let lua = vm();
    let steps = StepsLeft::new(0);
    lua.set_app_data(steps.clone());
    let doubling = "local t = {} for _ = 1, 60 do t = {t, t} end return json.encode(t)";
    let many = "return json.decode('[' .. ('[],'):rep(100000) .. '[]]')";
    let long = "return json.decode('\"' .. ('x'):rep(16 * 1000000 - 2) .. '\"')";
    let text = "return json.encode(('x'):rep(16 * 1000000))";
    let name = "return json.encode({ [('x'):rep(16 * 1000000)] = 1 })";
    for code in [doubling, many, long, text, name] {
        steps.set(1_000_000);
        let error = lua.load(code).exec().expect_err("too much").to_string();
        assert!(error.contains("too many steps"), "{error}");
        assert!(steps.is_spent());
    }
    steps.set(1_000_000);
    let few = "return json.encode(json.decode('[[], {\"a\": [1, 2]}]'))";
    assert_eq!(lua.load(few).eval::<String>().expect("few"), "[[],{\"a\":[1,2]}]");
    assert!((990_000..1_000_000).contains(&steps.get()));
}

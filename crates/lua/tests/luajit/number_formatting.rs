//! Numbers as text: whole ones up to 2^53 in full, all others in the format of Lua 5.1.

use super::inspectable_vm::{open, traces};

#[test]
fn integers_have_all_digits_in_every_conversion_to_text() {
    let lua = open();
    let code = "local n = ...
        local last
        for at = 1, 200 do
            last = tostring(n) .. '|' .. n .. '|' .. table.concat({ n }) .. '|' .. ('%s'):format(n)
        end
        return last";
    for (number, text) in [
        (1_700_000_000_123_456.0, "1700000000123456"),
        (9_007_199_254_740_992.0, "9007199254740992"),
        (-9_007_199_254_740_992.0, "-9007199254740992"),
        (100_000_000_000_000.0, "100000000000000"),
        (99_999_999_999_999.0, "99999999999999"),
        (-123_456_789_012_345.0, "-123456789012345"),
        (0.0, "0"),
        (-0.0, "-0"),
        (1e15, "1000000000000000"),
        // The format of LuaJIT.
        (9_007_199_254_740_994.0, "9.007199254741e+15"),
        (1e100, "1e+100"),
        (100_000_000_000_000.5, "1e+14"),
        (0.1, "0.1"),
        (1.0 / 3.0, "0.33333333333333"),
        (f64::INFINITY, "inf"),
    ] {
        let all: String = lua.load(code).call(number).expect("text");
        for shown in all.split('|') {
            assert_eq!(shown, text, "{number}");
        }
    }
    assert!(traces(&lua) > 0, "nothing was compiled");
}

#[test]
fn numeric_formats_of_string_format_are_unchanged() {
    let lua = open();
    let code = "return string.format('%.14g %g %e %.3f %d', 1e15, 1e15, 1e15, 1e15, 1e15)";
    let text: String = lua.load(code).eval().expect("text");
    assert_eq!(text, "1e+15 1e+15 1.000000e+15 1000000000000000.000 1000000000000000");
}

//! Numbers and objects as keys of tables: no set of keys that an attacker chooses results in long
//! chains, and the interpreter, compiled code and the functions of C find the same keys.

use std::collections::BTreeSet;
use std::process::Command;

use mlua::{Function, Lua, Table, Value};

use super::inspectable_vm::{jit, lookup_steps, open, traces};

/// The number of keys that a request with 16 MiB of JSON can contain.
const MANY: usize = 1_000_000;

/// Nodes that a lookup may visit on average. With chance alone it is 1.5 when a table is full, but
/// each process draws its own hash function, and few of them are worse for one pattern of keys: of
/// 1.4 million simulated ones 1 in 14 000 needed more than 4 and none more than 12. Keys that
/// collide on purpose need thousands.
const STEPS_PER_KEY_MAX: usize = 64;

/// Returns the hash of a number in LuaJIT without Pinion's patch, which an attacker can compute.
fn unseeded_hash(key: f64) -> u32 {
    let (mut low, mut high) = (key.to_bits() as u32, (key.to_bits() >> 32) as u32);
    high <<= 1;
    low ^= high;
    high = high.rotate_left(14);
    low = low.wrapping_sub(high);
    high = high.rotate_left(5);
    high ^= low;
    high.wrapping_sub(low.rotate_left(13))
}

/// Numbers whose hashes without a seed have zeros in their lowest 20 bits: a table of as many as
/// there are nodes for has one chain.
fn colliding(count: usize) -> Vec<f64> {
    let mut keys = Vec::with_capacity(count);
    for high in 0x4010_0000_u32.. {
        let doubled = high << 1;
        let rotated = doubled.rotate_left(14);
        let mixed = rotated.rotate_left(5);
        for lowest in 0..1 << 13 {
            // The hash is `(mixed ^ w) - rol(w, 13)`; its lowest bits settle the others of `w`.
            let ends = lowest | (((mixed ^ lowest) & 0x1fff) << 19);
            let word = ends | (((lowest & 0x3f) << 13) ^ (mixed & 0x7_e000));
            let low = word.wrapping_add(rotated) ^ doubled;
            let key = f64::from_bits((u64::from(high) << 32) | u64::from(low));
            if unseeded_hash(key).trailing_zeros() >= 20 {
                keys.push(key);
                if keys.len() == count {
                    return keys;
                }
            }
        }
    }
    unreachable!("there are enough such numbers")
}

/// Returns a table with these keys, made by functions of C.
fn table_of(lua: &Lua, keys: impl IntoIterator<Item = f64>) -> (Table, usize) {
    let (table, mut count) = (lua.create_table().expect("a table"), 0);
    for key in keys {
        table.raw_set(key, count).expect("set");
        count += 1;
    }
    (table, count)
}

#[test]
fn a_million_numbers_crafted_to_collide_do_not_collide() {
    let keys = colliding(MANY);
    assert_eq!(keys.iter().map(|key| key.to_bits()).collect::<BTreeSet<_>>().len(), MANY);
    let lua = open();
    let (table, count) = table_of(&lua, keys);
    let most = count * STEPS_PER_KEY_MAX;
    let steps = lookup_steps(&lua, &table, most);
    assert!((count..=most).contains(&steps), "{steps} steps for {count} keys");
}

/// Numbers that are alike in most of their bits, in the ways that hash functions are known to be
/// weak for.
#[test]
fn numbers_in_patterns_do_not_collide() {
    type Pattern = fn(usize) -> f64;
    let patterns: [(&str, Pattern); 8] = [
        ("halves", |n| n as f64 + 0.5),
        ("multiples of 2^32", |n| (n as f64 + 1.0) * 4_294_967_296.0),
        ("multiples of 2^200", |n| (n as f64 + 1.0) * 200_f64.exp2()),
        ("the highest bits", |n| f64::from_bits((n as u64 + 1) << 43)),
        ("the lowest bits", |n| f64::from_bits(1.5_f64.to_bits() + n as u64)),
        ("bits of both halves", |n| f64::from_bits(((n as u64) << 32) | n as u64)),
        ("bytes swapped", |n| f64::from_bits((n as u64).swap_bytes() >> 2)),
        ("whole numbers, negative", |n| -(n as f64) - 1.0),
    ];
    for (name, pattern) in patterns {
        let lua = open();
        let keys = (0..200_000).map(pattern).filter(|key| key.is_finite());
        let (table, count) = table_of(&lua, keys);
        let most = count * STEPS_PER_KEY_MAX;
        let steps = lookup_steps(&lua, &table, most);
        assert!(steps <= most, "{name}: {steps} steps for {count} keys");
    }
}

/// Objects are in memory one after the other, so their addresses are a pattern as well.
#[test]
fn objects_do_not_collide() {
    let code = "local made, keys = ..., {}
        for n = 1, 2e5 do keys[made(n)] = n end
        return keys";
    for made in [
        "function() return {} end",
        "function() return function() return keys end end",
        "function() return coroutine.create(tostring) end",
        "function(n) return 'name' .. n end",
    ] {
        let lua = open();
        let made: Function = lua.load(format!("return {made}")).eval().expect(code);
        let keys: Table = lua.load(code).call(made).expect("a table");
        let most = 200_000 * STEPS_PER_KEY_MAX;
        let steps = lookup_steps(&lua, &keys, most);
        assert!(steps <= most, "{steps} steps");
    }
}

/// Expressions of Lua that give the `n`th key of a kind. None is a whole number that fits into an
/// array.
const KINDS: [(&str, &str); 12] = [
    ("fractions", "n + 0.25"),
    ("negative fractions", "-n - 0.25"),
    ("small numbers", "2 ^ (-n / 8)"),
    ("large numbers", "n * 2 ^ 40"),
    ("numbers beside zero", "n * 5e-324"),
    ("negative whole numbers", "-n"),
    ("whole numbers far apart", "n * 1000003"),
    ("tables", "{}"),
    ("functions", "function() return n end"),
    ("coroutines", "coroutine.create(tostring)"),
    ("strings", "'key ' .. n"),
    ("numbers as text", "tostring(n)"),
];

/// All code that finds a key, and all code that sets one, has to compute the same hash.
#[test]
fn all_code_paths_find_a_key_that_any_of_them_set() {
    let code = r#"
        local function set(table, keys)
            for at = 1, #keys do table[keys[at]] = at end
        end
        local function sum(table, keys)
            local found = 0
            for at = 1, #keys do
                if table[keys[at]] == at then found = found + 1 end
            end
            return found
        end
        local function take(table, keys)
            local absent = 0
            for at = 1, #keys do
                if table[keys[at]] == nil then absent = absent + 1 end
            end
            return absent
        end
        return { set = set, sum = sum, take = take }
    "#;
    for (kind, key) in KINDS {
        let lua = open();
        // Each function is made twice, so that one can be compiled and the other one cannot.
        let off: Function = jit(&lua).get("off").expect("a function");
        let make = || lua.load(code).eval::<Table>().expect("functions");
        let (compiled, interpreted) = (make(), make());
        for function in interpreted.pairs::<String, Function>() {
            off.call::<()>((function.expect("a pair").1, true)).expect("off");
        }
        let keys = format!(
            "local keys, others = {{}}, {{}}
            for n = 1, 3000 do keys[n] = {key} end
            for n = 3001, 6000 do others[n - 3000] = {key} end
            return keys, others"
        );
        let (keys, others): (Table, Table) = lua.load(keys).eval().expect(kind);
        let call = |functions: &Table, name: &str, table: &Table, keys: &Table| -> i64 {
            let function: Function = functions.get(name).expect(name);
            function.call::<Option<i64>>((table, keys)).expect(kind).unwrap_or_default()
        };
        // The code that created the keys may be compiled, and be collected meanwhile.
        lua.gc_collect().expect("collected");
        lua.gc_stop();
        let before = traces(&lua);
        for setter in [&compiled, &interpreted] {
            let table = lua.create_table().expect("a table");
            call(setter, "set", &table, &keys);
            for finder in [&compiled, &interpreted] {
                assert_eq!(call(finder, "sum", &table, &keys), 3000, "{kind}");
                assert_eq!(call(finder, "take", &table, &others), 3000, "{kind}");
                assert_eq!(call(finder, "take", &table, &keys), 0, "{kind}");
            }
            for (at, key) in keys.sequence_values::<Value>().enumerate() {
                let key = key.expect("a key");
                assert_eq!(table.raw_get::<usize>(&key).expect(kind), at + 1, "{kind}");
            }
            let most = 3000 * STEPS_PER_KEY_MAX;
            assert!(lookup_steps(&lua, &table, most) <= most, "{kind}");
        }
        assert!(traces(&lua) > before, "{kind}: nothing was compiled");
    }
}

/// The hash of a constant is computed by the compiler. It is used where the constant is not in the
/// table that the trace was made for, and in others may be.
#[test]
fn constant_keys_are_found_in_tables_of_any_shape() {
    let constants = [
        "0.5", "-0.5", "1e300", "-3", "2^53", "1/0", "5e-324", "true", "false", "'name'", "other",
        "tostring",
    ];
    for constant in constants {
        let lua = open();
        let code = format!(
            "local other, print = {{}}, print
            local tables = {{}}
            for at = 1, 400 do
                local table = {{}}
                for n = 1, at % 40 do table[n + 0.75] = n end
                if at > 200 and at % 3 ~= 0 then table[{constant}] = at end
                tables[at] = table
            end
            local found = {{}}
            for at = 1, 400 do
                local value = tables[at][{constant}]
                if value then found[#found + 1] = value end
            end
            local expected = {{}}
            for at = 201, 400 do
                if at % 3 ~= 0 then expected[#expected + 1] = at end
            end
            return table.concat(found, ' '), table.concat(expected, ' ')"
        );
        let (found, expected): (String, String) = lua.load(code).eval().expect(constant);
        assert_eq!(found, expected, "{constant}");
        assert!(traces(&lua) > 0, "{constant}: nothing was compiled");
    }
}

/// Zero has two forms, and NaN is no key.
#[test]
fn both_zeros_are_one_key_and_nan_is_not_a_key() {
    let lua = open();
    let code = "local zero, table, found = ..., { [0.5] = 1 }, 0
        for n = 1, 300 do
            table[zero] = n
            if table[0] == n and table[-0.0] == n and table[zero * -1] == n then
                found = found + 1
            end
            if table[zero / 0] == nil then found = found + 1 end
        end
        return found";
    for zero in [0.0, -0.0] {
        assert_eq!(lua.load(code).call::<i64>(zero).expect("ran"), 600, "{zero:?}");
    }
    assert!(lua.load("({})[0 / 0] = 1").exec().is_err());
}

/// The variable that has this test print the order of some keys.
const ORDER: &str = "PINION_TEST_ORDER_OF_KEYS";

/// The order in which a table gives its keys is that of their hashes.
#[test]
fn each_process_hashes_keys_differently() {
    let order = || {
        let code = "local table, order = {}, {}
            for n = 1, 100 do table[n + 0.5] = n end
            for key in pairs(table) do order[#order + 1] = key end
            return 'order ' .. _G.table.concat(order, ' ')";
        open().load(code).eval::<String>().expect("the order")
    };
    if std::env::var_os(ORDER).is_some() {
        println!("{}", order());
        return;
    }
    assert_eq!(order(), order(), "VMs of one process share the seed");
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(own);
    command.env(ORDER, "1").args(["--exact", "--nocapture"]);
    command.arg("hash_of_keys::each_process_hashes_keys_differently");
    let output = command.output().expect("it runs");
    let other = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && other.contains("order "), "{other}");
    assert!(!other.contains(&order()), "{other}");
}

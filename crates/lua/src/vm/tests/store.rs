//! The store as scripts use it. Scripts that are tried out have an empty one of their own.

use super::*;

impl Room {
    fn with_store() -> Self {
        let mut watchdog = CpuWatchdogs::new(1).watchdog(0).expect("watched");
        let program = SiteProgram::new("site.lua", Vec::new());
        let place = ScriptSite::default().as_in_a_worker();
        let vm = Vm::start(&program, &mut watchdog, place, Now::read()).expect("started");
        Self { vm, watchdog }
    }

    #[track_caller]
    fn runs(&mut self, code: &str) {
        let code = format!("local store = pinion.store\n{PRELUDE}\n{code}");
        if let Err(fault) = self.ends_some_time(&code) {
            panic!("{}", fault.text());
        }
    }
}

/// What the code of the tests has. Its line is the second one.
const PRELUDE: &str = "local function is(a, b) if a ~= b then error(tostring(a) .. ' is not ' .. \
                       tostring(b), 2) end end local function fails(text, ...) local ok, why = \
                       pcall(...) is(ok, false) if not why:find(text, 1, true) then error(why, 2) \
                       end return why end";

#[test]
fn replies_are_values_of_their_types() {
    Room::with_store().runs(
        r#"
        is(store.get("a"), nil)
        is(store.set("a", 1), "OK")
        is(store.set("a", 2, "NX"), nil)
        is(store.set("a", 2, "EX", 60), "OK")
        is(store.ttl("a"), 60)
        is(store.get("a"), "2")
        is(store.incrby("a", 40), 42)
        is(store.call("GET", "a"), "42")
        is(store.call("get", "a"), "42")
        is(type(store.incr("n")), "number")
        is(store.hset("h", "name", "Ann", "age", 3), 2)
        local h = store.hgetall("h")
        is(h.name, "Ann") is(h.age, "3") is(next(store.hgetall("none")), nil)
        is(store.rpush("l", "x", 1.5, -7), 3)
        local l = store.lrange("l", 0, -1)
        is(#l, 3) is(l[1], "x") is(l[2], "1.5") is(l[3], "-7")
        local values = store.mget("a", "none", "n")
        is(#values, 3) is(values[1], "42") is(values[3], "1")
        is(values[2], store.null) is(values[2], pinion.json.null)
        is(store.sadd("s", "m"), 1)
        is(store.smembers("s")[1], "m")
        is(store.zadd("z", 1.5, "low", "inf", "high"), 2)
        is(store.zscore("z", "low"), 1.5) is(store.zscore("z", "high"), math.huge)
        local pairs_of = store.zrange("z", 0, -1, "WITHSCORES")
        is(pairs_of[1][1], "low") is(pairs_of[1][2], 1.5)
        is(store.type("z"), "zset")
        is(store.exists("a", "h", "none"), 2)
        -- Exact, whatever numbers Lua has.
        store.set("big", "9007199254740992")
        is(store.incrby("big", 0), 9007199254740992)
        is(store.incr("big"), "9007199254740993")
        is(store.decrby("big", "9007199254740993"), 0)
        is(store.decrby("big", "9223372036854775807"), "-9223372036854775807")
        store.del("big")
        is(store.dbsize(), 6)
        "#,
    );
}

#[test]
fn table_arguments_are_lists_or_names_and_values() {
    Room::with_store().runs(
        r#"
        is(store.rpush("l", { "a", "b", 3 }, "c", {}), 4)
        is(table.concat(store.lrange("l", 0, -1)), "ab3c")
        is(store.hset("h", { name = "Ann", age = 3 }), 2)
        is(store.hget("h", "age"), "3")
        is(#store.hmget("h", { "name", "age", "none" }), 3)
        -- As a list that was decoded, which has a metatable.
        is(store.rpush("j", pinion.json.decode('["x", "y"]')), 2)
        -- 10 000 arguments.
        local many = {}
        for n = 1, 10000 do many[n] = n end
        is(store.rpush("many", many), 10000)
        is(#store.lrange("many", 0, -1), 10000)
        is(store.lindex("many", -1), "10000")
        "#,
    );
}

#[test]
fn wrong_arguments_of_commands_are_errors_at_the_call() {
    let mut room = Room::with_store();
    room.runs(
        r#"
        fails("get: argument 1 is a boolean; write a string, a number, or a table of them",
            store.get, true)
        fails("get: argument 1 is a nil", store.get, nil)
        fails("set: argument 2 is a function", store.set, "a", print)
        fails("functions of the store are called with a dot", store.get, store)
        fails("get: argument 1 is a null", store.get, store.null)
        fails("hset: argument 2 is a table with numbers and names, or with gaps", store.hset, "h",
            { "x", name = "y" })
        fails("sadd: argument 2 is a table with numbers and names, or with gaps", store.sadd, "s",
            { [1] = "a", [5] = "b" })
        fails("set: an argument is the result of 0/0", store.set, "k", 0/0)
        fails("a table that contains a table", store.rpush, "a", { {} })
        fails("a table that contains a boolean", store.hset, "a", { x = true })
        fails("the name of a command is a string, not a nil", store.call)
        fails("the name of a command is a string, not a boolean", store.call, true)
        fails("ERR unknown command 'nothing'", store.call, "nothing")
        fails("ERR wrong number of arguments for 'get' command", store.get)
        fails("ERR wrong number of arguments for 'del' command", store.del, {})
        fails("ERR the command 'select' is only for connections", store.call, "SELECT", 1)
        fails("ERR the command 'config' is for operators", store.call, "CONFIG", "GET", "*")
        fails("pinion.store has no function \"gett\"", function() return store.gett end)
        fails("pinion.store has no function \"GET\"; write it in lower case",
            function() return store.GET end)
        fails("pinion.store has no function \"multi_\"", function() return store.multi_ end)
        fails("bad argument #1 to 'pinion.store.multi' (function(tx) expected, got nil)",
            store.multi)
        store.set("a", "x")
        fails("ERR value is not an integer or out of range", store.incr, "a")
        "#,
    );
    let code = "pinion.store.set('a', 'x')\n\nlocal n = pinion.store.lpush('a', 1)";
    let fault = room.ends_some_time(code).expect_err("of the wrong type");
    let expected = "code:3: WRONGTYPE Operation against a key holding the wrong kind of value";
    assert!(fault.text().starts_with(expected), "{}", fault.text());
}

#[test]
fn keys_and_values_may_be_any_bytes() {
    Room::with_store().runs(
        r#"
        local key = "\0\r\n\255*3"
        store.set(key, "\0value\r\n")
        is(store.get(key), "\0value\r\n")
        is(store.keys("*")[1], key)
        local long = ("x"):rep(2^20)
        store.set("long", long)
        is(store.get("long"), long)
        is(store.strlen("long"), 2^20)
        store.hset("h", "f", long)
        is(store.hgetall("h").f, long)
        is(store.get(long), nil)
        -- Lines in a name are no lines of an error.
        local why = fails("ERR unknown command", store.call, "a\r\nb")
        is(why:find("[\r\n]"), nil)
        "#,
    );
}

#[test]
fn commands_and_replies_have_limits() {
    Room::with_store().runs(
        r#"
        local long = ("x"):rep(2^20)
        local list = {}
        for n = 1, 17 do list[n] = long end
        fails("the arguments of a command have at most 16384 KiB", store.rpush, "l", list)
        is(store.exists("l"), 0)
        for n = 1, 17 do store.rpush("l", long) end
        fails("the reply has 17408 KiB, and a script gets at most 16384 KiB", store.lrange, "l", 0,
            -1)
        is(#store.lrange("l", 0, 14), 15)
        local many = {}
        for n = 1, 65536 do many[n] = "" end
        fails("a command has at most 65536 arguments", store.rpush, "m", many)
        many[65536], many[65535] = nil, nil
        store.rpush("m", many) store.rpush("m", "", "", "")
        fails("the reply has more than 65536 elements; ask for fewer at once", store.lrange, "m", 0,
            -1)
        is(#store.lrange("m", 0, 60000), 60001)
        "#,
    );
}

#[test]
fn the_memory_of_replies_is_that_of_the_request() {
    let mut room = Room::with_store();
    room.runs(r#"store.set("long", ("x"):rep(2^20))"#);
    let code = "local all = {} for n = 1, 100 do all[n] = pinion.store.get('long') .. n end";
    let (vm, watchdog) = (&room.vm, &mut room.watchdog);
    let ended = ends_within(vm, watchdog, code, (PATIENT_CPU, 16 << 20));
    assert!(matches!(ended, Err(ScriptFault::OverBudget(_))), "{ended:?}");
}

#[test]
fn a_transaction_is_executed_at_once() {
    Room::with_store().runs(
        r#"
        local replies = store.multi(function(tx)
            is(tx.incr("a"), nil)
            tx.expire("a", 60)
            tx.call("HSET", "h", { f = "v" })
            tx.hgetall("h")
            tx.get("none")
            -- Nothing is done yet.
            is(store.get("a"), nil)
        end)
        is(#replies, 5)
        is(replies[1], 1) is(replies[2], 1) is(replies[3], 1) is(replies[4].f, "v")
        is(replies[5], store.null)
        is(store.ttl("a"), 60)
        is(#store.multi(function() end), 0)
        "#,
    );
}

#[test]
fn a_transaction_that_fails_changes_nothing() {
    Room::with_store().runs(
        r#"
        fails("why", store.multi, function(tx) tx.set("a", 1) error("why") end)
        fails("ERR wrong number of arguments for 'set' command", store.multi,
            function(tx) tx.set("a", 1) tx.set("b") end)
        fails("a transaction has no function \"sett\"", store.multi,
            function(tx) tx.set("a", 1) tx.sett("b") end)
        fails("set: argument 2 is a boolean", store.multi, function(tx) tx.set("a", true) end)
        fails("functions of the store are called with a dot", store.multi,
            function(tx) tx:set("a", 1) end)
        fails("ERR the command 'exec' is only for connections", store.multi,
            function(tx) tx.set("a", 1) tx.call("EXEC") end)
        is(store.dbsize(), 0)
        local kept
        store.multi(function(tx) kept = tx end)
        fails("the transaction is over", kept.get, "a")
        -- As in Redis, the commands around one that fails are executed.
        fails("command 2 of the transaction: ERR value is not an integer", store.multi,
            function(tx) tx.set("a", "x") tx.incr("a") tx.append("a", "y") end)
        is(store.get("a"), "xy")
        -- One within another is on its own.
        store.multi(function(outer)
            outer.append("a", "2")
            store.multi(function(tx) tx.append("a", "1") end)
        end)
        is(store.get("a"), "xy12")
        local function deeper() store.multi(deeper) end
        is(pcall(deeper), false)
        is(store.get("a"), "xy12")
        "#,
    );
}

#[test]
fn large_store_commands_in_the_main_script_run_at_once() {
    // These commands are jobs: the main script cannot wait, so its thread executes them.
    Room::with_store().runs(
        r#"
        local many = {}
        for n = 1, 20000 do many[n] = n end
        is(store.sadd("s", many), 20000)
        is(#store.smembers("s"), 20000)
        is(#store.multi(function(tx) tx.smembers("s") end)[1], 20000)
        "#,
    );
}

#[test]
fn without_a_store_the_error_says_how_to_have_one() {
    let mut room = Room::new();
    let fault = room.ends_some_time("pinion.store.get('a')").expect_err("none");
    let expected = "code:1: there is no store: start the server with --store-memory MIB, or with \
                    --store ADDRESS if clients of Redis are to use it too";
    assert!(fault.text().starts_with(expected), "{}", fault.text());
}

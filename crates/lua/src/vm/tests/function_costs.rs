//! What functions of the libraries cost that take more than a little: each one is seen by a budget,
//! or has a bound. A function that is new has no row here, and the test says so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mlua::{HookTriggers, Table, Value, VmState};
use pinion_http::limits::PARTS_MAX;

use super::*;
use crate::pattern::limits::STEP_BYTES;

/// What one call may cost. `valgrind_function_costs.rs` counts the instructions of the processor.
pub(super) enum Cost {
    /// As much, whatever it is given.
    Constant,
    /// No more than its number of arguments or results, of which the stack bounds the number.
    Arguments,
    /// A copy of what the memory of the request has room for, or a look at each element: some
    /// instructions for each, so that all of its memory takes less than its CPU. With code that
    /// calls it with all there is.
    Once(&'static str),
    /// Up to a bound of its own, that of the row; with code as well.
    UpTo(&'static str, &'static str),
    /// In proportion to its input, which instructions or steps count: code that calls it once with
    /// [`LARGE`] bytes or elements.
    Counted(&'static str),
}

/// How much rows take: `LARGE` bytes, or an eighth as many elements.
const LARGE: usize = 1 << 22;

/// Bytes, or elements of eight bytes, for which at least one step or instruction is counted.
const COUNTED_BYTES: usize = 4 * STEP_BYTES;

/// What code finds.
pub(super) const GIVEN: &str = "local LARGE = ...
    local text = ('x'):rep(LARGE)
    local list = {}
    for at = 1, LARGE / 8 do list[at] = at end
    return text, list";

pub(super) fn cost(name: &str) -> Option<Cost> {
    use Cost::*;
    Some(match name {
        "assert" | "error" | "getmetatable" | "ipairs" | "pairs" | "pcall" | "rawequal"
        | "rawget" | "rawlen" | "rawset" | "setmetatable" | "tostring" | "type" | "xpcall"
        | "collectgarbage" => Constant,
        "require" => Once("pcall(require, text)"),
        "select" | "unpack" => Arguments,
        "next" => Once(
            "local holes = {} for _, at in ipairs(list) do holes[-at] = at end
            for at in pairs(holes) do holes[at] = nil end next(holes)",
        ),
        "tonumber" => Once("tonumber(('1'):rep(#text))"),
        "load" | "loadstring" => Counted("load('x = 1 --' .. text:sub(1, 2^20 - 10))"),
        "print" => Counted("return"),
        _ => return library_cost(name).or_else(|| own_cost(name)),
    })
}

/// What bounds the content of files.
const WAITING_BYTES: &str = "the bytes that may wait to be written";

/// Of Lua's libraries.
fn library_cost(name: &str) -> Option<Cost> {
    use Cost::*;
    let (library, function) = name.split_once('.')?;
    Some(match (library, function) {
        ("coroutine", _) => Arguments,
        ("math" | "bit", _) => Arguments,
        ("debug", "traceback") => UpTo("the levels that Lua shows", "debug.traceback(text)"),
        ("os", "date") => UpTo(
            "a format of 1000 bytes",
            "pcall(os.date, text) pcall(os.date, ('%c'):rep(math.min(500, #text)))",
        ),
        ("os", _) => Constant,
        ("table", "concat") => Counted("table.concat(list)"),
        ("table", "insert") => Once("table.insert(list, 1, 0)"),
        ("table", "maxn") => Once("table.maxn(list)"),
        ("table", "move") => Counted("table.move(list, 1, #list, 2)"),
        ("table", "pack" | "unpack") => Arguments,
        ("table", "remove") if !cfg!(feature = "luajit") => Once("table.remove(list, 1)"),
        ("table", "remove") => Counted("table.remove(list, 1)"),
        ("table", "sort") => Counted("table.sort(list)"),
        ("string", "byte" | "char" | "len") => Arguments,
        // In Lua 5.4 nothing stands between these and the script, whose place errors have.
        ("string", function @ ("format" | "lower" | "reverse" | "upper"))
            if !cfg!(feature = "luajit") =>
        {
            Once(match function {
                "format" => "('%s'):format(text)",
                "lower" => "text:lower()",
                "reverse" => "text:reverse()",
                _ => "text:upper()",
            })
        }
        ("string", "pack") => Once("string.pack('s', text)"),
        ("string", "packsize") => Once("string.packsize(('b'):rep(#text / 8))"),
        ("string", "sub") => Once("text:sub(2)"),
        ("string", "unpack") => Once("string.unpack('z', text .. '\\0')"),
        ("string", "find") => Counted("text:find('y', 1, true)"),
        ("string", "format") => Counted("('%s'):format(text)"),
        ("string", "gmatch") => Counted("text:gmatch('y')()"),
        ("string", "gsub") => Counted("text:gsub('y', 'z')"),
        ("string", "lower") => Counted("text:lower()"),
        ("string", "match") => Counted("text:match('y')"),
        ("string", "rep") => Counted("('x'):rep(#text)"),
        ("string", "reverse") => Counted("text:reverse()"),
        ("string", "upper") => Counted("text:upper()"),
        ("utf8", "char" | "codes") => Arguments,
        ("utf8", "codepoint") => Arguments,
        ("utf8", "len") => Once("utf8.len(text)"),
        ("utf8", "offset") => Once("utf8.offset(text, #text)"),
        _ => return None,
    })
}

/// Of `pinion`.
fn own_cost(name: &str) -> Option<Cost> {
    use Cost::*;
    Some(match name.strip_prefix("pinion.")? {
        "json.encode" => Counted("pinion.json.encode({ text })"),
        "json.decode" => Counted("pinion.json.decode('[' .. ('1,'):rep(#text / 2) .. '1]')"),
        "json.array" => Constant,
        "codec.query" => UpTo(
            "the length of what it makes",
            "pinion.codec.query({ a = text, b = ('%'):rep(#text) })",
        ),
        "codec.parse_query" => UpTo(
            "1000 pairs",
            "pcall(pinion.codec.parse_query, ('a=1&'):rep(#text / 4))
            pinion.codec.parse_query('a=' .. text)",
        ),
        "codec.hex_encode" => Counted("pinion.codec.hex_encode(text)"),
        "codec.hex_decode" => Counted("pinion.codec.hex_decode(text)"),
        "codec.base64_encode" => Counted("pinion.codec.base64_encode(text)"),
        "codec.base64_decode" => Counted("pinion.codec.base64_decode(text)"),
        "codec.url_encode" => Counted("pinion.codec.url_encode(text)"),
        "codec.url_decode" => Counted("pinion.codec.url_decode(text)"),
        "codec.html_escape" => Counted("pinion.codec.html_escape(text)"),
        "codec.html_unescape" => Counted("pinion.codec.html_unescape(text)"),
        "codec.is_utf8" => Counted("pinion.codec.is_utf8(text)"),
        "crypto.sha1" => Counted("pinion.crypto.sha1(text)"),
        "crypto.sha256" => Counted("pinion.crypto.sha256(text)"),
        "crypto.sha512" => Counted("pinion.crypto.sha512(text)"),
        "crypto.blake3" => Counted("pinion.crypto.blake3(text)"),
        "crypto.hmac_sha1" => Counted("pinion.crypto.hmac_sha1('key', text)"),
        "crypto.hmac_sha256" => Counted("pinion.crypto.hmac_sha256('key', text)"),
        "crypto.hmac_sha512" => Counted("pinion.crypto.hmac_sha512('key', text)"),
        "crypto.equal" => Counted("pinion.crypto.equal(text, text)"),
        "crypto.seal" => Counted("pcall(pinion.crypto.seal, text, text)"),
        "crypto.open" => Counted("pcall(pinion.crypto.open, text, text)"),
        "crypto.seal_siv" => Counted("pcall(pinion.crypto.seal_siv, text, text)"),
        "crypto.open_siv" => Counted("pcall(pinion.crypto.open_siv, text, text)"),
        "crypto.random" => UpTo("some KiB", "pcall(pinion.crypto.random, #text)"),
        "crypto.hkdf" => UpTo("some KiB", "pcall(pinion.crypto.hkdf, text, text, text, #text)"),
        "crypto.key" => UpTo("some KiB", "pcall(pinion.crypto.key, text)"),
        "crypto.jwt.sign" => {
            UpTo("a token, which JSON counts", "pcall(pinion.crypto.jwt.sign, { a = text }, text)")
        }
        "crypto.jwt.verify" => UpTo(
            "a token, which JSON counts",
            "pcall(pinion.crypto.jwt.verify, text .. '.' .. text .. '.' .. text, text)",
        ),
        "log" => Counted("return"),
        "send" => UpTo("a value of 1 MiB", "pcall(pinion.send, 'x', text)"),
        "fs.append" => UpTo(WAITING_BYTES, "pcall(pinion.fs.append, 'x', text)"),
        "fs.create" => UpTo(WAITING_BYTES, "pcall(pinion.fs.create, 'x', text)"),
        "fs.write" => UpTo(WAITING_BYTES, "pcall(pinion.fs.write, 'x', text)"),
        // Other threads do what these wait for.
        "fs.list" | "fs.make_folder" | "fs.read" | "fs.remove" | "fs.rename" | "fs.stat" => {
            Constant
        }
        "password.hash" | "password.verify" => Constant,
        "fetch" => UpTo(
            "a request, of which the body is copied",
            "pcall(pinion.fetch, 'http://192.0.2.1/', { body = text, fields = { a = text } })",
        ),
        "process.run" => UpTo("a message with the name", "pcall(pinion.process.run, text)"),
        "secret" => UpTo("a message with the name", "pcall(pinion.secret, text)"),
        // Other threads execute what takes long.
        "store.call" => {
            UpTo("a command of some MiB", "pcall(pinion.store.call, 'rpush', text, list)")
        }
        "store.multi" => UpTo(
            "a transaction of some MiB",
            "pcall(pinion.store.multi, function(tx) tx.rpush(text, list) end)",
        ),
        "session" => Constant,
        // Functions of the script do what these begin.
        "cached" | "cron" | "every" | "gather" | "spawn" | "store.cached" => Constant,
        "count" | "ending" | "exit" | "sleep" | "subscribe" | "wait" => Constant,
        // They keep a function and a pattern of the script, when it starts.
        "any" | "delete" | "get" | "head" | "options" | "patch" | "post" | "put" | "query" => {
            Constant
        }
        "group" | "not_found" | "on" | "on_error" | "route" | "use" => Constant,
        _ => return None,
    })
}

/// Of the methods of requests, responses, files of a form, and subscriptions. The code finds `req`
/// and `res`, and what [`prepared`] makes.
pub(super) fn method_cost(name: &str) -> Option<Cost> {
    use Cost::*;
    const CONTENT: &str = "the content that its limit lets in";
    const OF_FORM: &str = "a file of a form, or a piece of it";
    Some(match name {
        "req.limit" => Constant,
        "req.field" => UpTo("the fields of a head", "pcall(req.field, req, text)"),
        "req.body" => UpTo(CONTENT, "req:body()"),
        "req.form" => UpTo(CONTENT, "req:form()"),
        "req.pieces" => UpTo(CONTENT, "for piece in req:pieces(1000) do end"),
        "req.read" => UpTo(CONTENT, "while req:read(1000) do end"),
        "req.json" => Counted("req:json()"),
        "file.pieces" => UpTo(OF_FORM, "for piece in file:pieces(1000) do end"),
        "file.read" => UpTo(OF_FORM, "file:read()"),
        "subscription.wait" => {
            UpTo("a value of 1 MiB", "subscription:wait(9) subscription:wait(9)")
        }
        "subscription.close" => Constant,
        // What they give comes from other servers, in pieces of at most 64 KiB that a task waits
        // for, and `json` decodes it as that of a request.
        "response.body" | "response.json" | "response.pieces" | "response.read" => Constant,
        "response.close" | "response.field" => Constant,
        "process.output" | "process.pieces" | "process.read" => Constant,
        "process.close" | "process.wait" => Constant,
        // Sessions have at most 64 KiB, and IDs and tokens some bytes.
        "session.check_csrf" | "session.csrf" | "session.destroy" | "session.rotate" => Constant,
        "session.get" => UpTo("a session of 64 KiB", "pcall(session.get, session, text)"),
        "session.set" => UpTo("a value of 16 KiB", "pcall(session.set, session, text, text)"),
        "res.write" => Once("res:write(text) res:write(text, text, text, text)"),
        "res.flush" => Once("res:write(text) res:flush()"),
        "res.stream" => Once(
            "local left = 8
            res:stream(function() left = left - 1 return left > 0 and text or nil end)",
        ),
        "res.status" => Constant,
        "res.compress" => Constant,
        "res.field" => UpTo("the fields of a response", "pcall(res.field, res, 'X', text)"),
        "res.cookie" => UpTo("the fields of a response", "pcall(res.cookie, res, 'x', text)"),
        "res.redirect" => UpTo("the fields of a response", "pcall(res.redirect, res, '/' .. text)"),
        "res.html" => Once("res:html(text)"),
        "res.json" => Counted("res:json({ text })"),
        // Another thread opens it.
        "res.file" => Constant,
        _ => return None,
    })
}

/// Code that runs before that of a method.
pub(super) fn prepared(name: &str) -> &'static str {
    match name.split_once('.') {
        Some(("req", _)) => "req:limit(2^24)",
        Some(("session", _)) => "local session = pinion.session(req, res)",
        Some(("file", _)) => "local file = req:form().file",
        Some(("subscription", _)) => {
            // As much as a queue keeps.
            "local subscription = pinion.subscribe('x')
            pinion.send('x', text:sub(1, #text / 2))
            pinion.send('x', { unpack(list, 1, #list / 32) })"
        }
        _ => "",
    }
}

/// The content of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// A text in JSON, which is all that costs steps.
    Text,
    /// An array in JSON.
    Array,
    /// More fields than are read, and a long one before them.
    Form,
    /// Many parts of the same name.
    Parts,
    /// A part that is a file.
    File,
}

impl Body {
    /// Those that cost a method most.
    pub(super) const fn of(name: &str) -> &'static [Self] {
        match name.as_bytes() {
            b"req.json" => &[Self::Text, Self::Array],
            b"req.form" => &[Self::Form, Self::Parts],
            [b'f', b'i', b'l', b'e', b'.', ..] => &[Self::File],
            _ => &[Self::Text],
        }
    }

    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Text | Self::Array => "application/json",
            Self::Form => "application/x-www-form-urlencoded",
            Self::Parts | Self::File => "multipart/form-data; boundary=b",
        }
    }

    /// About so many bytes of it.
    pub(super) fn bytes(self, bytes: usize) -> Vec<u8> {
        let part = |parameters: &str, bytes: usize| {
            let head = format!("--b\r\nContent-Disposition: form-data; {parameters}\r\n\r\n");
            format!("{head}{}\r\n", "x".repeat(bytes.saturating_sub(head.len())))
        };
        let text = match self {
            Self::Text => format!("\"{}\"", "x".repeat(bytes)),
            Self::Array => format!("[{}1]", "1,".repeat(bytes / 2)),
            Self::Form => format!("a={}{}", "%20".repeat(bytes / 6), "&a=1".repeat(bytes / 8)),
            Self::Parts => {
                let parts = (bytes / 128).min(PARTS_MAX);
                part("name=a", bytes / parts).repeat(parts) + "--b--"
            }
            Self::File => part("name=file; filename=x", bytes) + "--b--",
        };
        text.into_bytes()
    }
}

/// Where methods are written, and what their objects are called there.
const METHODS: [(&str, &str, &str); 9] = [
    (include_str!("../../prelude.lua"), "request_methods", "req"),
    (include_str!("../../request_content.lua"), "methods", "req"),
    (include_str!("../../request_content.lua"), "file_methods", "file"),
    (include_str!("../../subscriptions.lua"), "subscription_methods", "subscription"),
    (include_str!("../../responses.lua"), "response_methods", "res"),
    (include_str!("../../files.lua"), "methods", "res"),
    (include_str!("../../fetch.lua"), "response_methods", "response"),
    (include_str!("../../process.lua"), "process_methods", "process"),
    (include_str!("../../session.lua"), "session_methods", "session"),
];

/// The names of all methods, with those of their objects.
pub(super) fn methods() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (source, table, object) in METHODS {
        let front = format!("function {table}.");
        let before = names.len();
        for line in source.lines() {
            if let Some((name, _)) = line.strip_prefix(&front).and_then(|rest| rest.split_once('('))
            {
                names.insert(format!("{object}.{name}"));
            }
        }
        assert!(names.len() > before, "{table} has no methods");
    }
    names
}

#[test]
fn every_method_has_an_entry_in_the_cost_table() {
    let without: Vec<_> =
        methods().into_iter().filter(|name| method_cost(name).is_none()).collect();
    assert_eq!(without, Vec::<String>::new());
}

/// The names of all functions that a script finds.
pub(super) fn functions(lua: &Lua) -> BTreeSet<String> {
    fn walk(table: &Table, front: &str, names: &mut BTreeSet<String>) {
        for pair in table.pairs::<String, Value>() {
            let (name, value) = pair.expect("names are texts");
            match value {
                Value::Function(_) => drop(names.insert(format!("{front}{name}"))),
                Value::Table(table) if name != "_G" && name != "keep" => {
                    walk(&table, &format!("{front}{name}."), names);
                }
                _ => {}
            }
        }
    }
    let mut names = BTreeSet::new();
    walk(&lua.globals(), "", &mut names);
    names
}

#[test]
fn functions_that_grow_with_their_input_are_counted() {
    let room = Room::new();
    let lua = &room.vm.lua;
    let instructions = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&instructions);
    let triggers = HookTriggers::new().every_nth_instruction(100);
    let count = move |_: &Lua, _: &mlua::debug::Debug<'_>| {
        counted.fetch_add(100, Ordering::Relaxed);
        Ok(VmState::Continue)
    };
    let (text, list): (Value, Value) = lua.load(GIVEN).call(LARGE).expect("given");
    let mut wrong = Vec::new();
    for name in functions(lua) {
        let Some(cost) = cost(&name) else {
            wrong.push(format!("{name} has no row"));
            continue;
        };
        let code = match cost {
            Cost::Counted(code) => code,
            Cost::UpTo(bound, _) => {
                assert!(!bound.is_empty(), "{name} has a bound");
                continue;
            }
            Cost::Constant | Cost::Arguments | Cost::Once(_) => continue,
        };
        if code == "return" {
            // It writes to the log.
            continue;
        }
        let code = format!("local text, list = ... {code}");
        let function = lua.load(&code).into_function().expect(&code);
        room.vm.steps.set(u64::MAX);
        instructions.store(0, Ordering::Relaxed);
        lua.set_hook(triggers, count.clone()).expect("hooked");
        let outcome = function.call::<()>((&text, &list));
        lua.remove_hook();
        let steps = u64::MAX - room.vm.steps.get();
        let seen = instructions.load(Ordering::Relaxed) + steps;
        let least = (LARGE.min(1 << 20) / COUNTED_BYTES) as u64;
        if seen < least {
            wrong.push(format!("{name}: only {seen} of {least} are counted ({outcome:?})"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A handler of a method: its path, and code that is called with about so many bytes.
pub(super) struct MethodCall {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) code: String,
    pub(super) bytes: usize,
}

/// A main script with these handlers.
pub(super) fn script(calls: impl IntoIterator<Item = MethodCall>) -> String {
    let given = format!("local given = function(...) {GIVEN} end\n");
    let handlers = calls.into_iter().map(|MethodCall { name, path, code, bytes }| {
        let prepared = prepared(&name);
        format!(
            "pinion.get('{path}', function(req, res)
                local mark = os.difftime
                local text, list = given({bytes})
                {prepared}
                {code}
            end)\n"
        )
    });
    [given].into_iter().chain(handlers).collect()
}

#[test]
fn methods_that_grow_with_their_input_take_steps() {
    /// The steps of a request are enough for so many bytes of numbers.
    const BYTES: usize = LARGE / 4;
    let counted = methods().into_iter().filter_map(|name| match method_cost(&name)? {
        Cost::Counted(code) => Some((name, code)),
        _ => None,
    });
    let counted: Vec<_> = counted.collect();
    let call = |name: &str, end: &str, code: &str| MethodCall {
        name: name.to_owned(),
        path: format!("/{name}{end}"),
        code: code.to_owned(),
        bytes: BYTES,
    };
    let calls = counted.iter().flat_map(|(name, code)| {
        // The text that the other one is given takes steps, too.
        [call(name, "/without", ""), call(name, "", code)]
    });
    let mut room = handlers::site(&script(calls));
    let mut wrong = Vec::new();
    for (name, _) in &counted {
        for &body in Body::of(name) {
            let content = body.bytes(BYTES);
            let mut steps = |end: &str| {
                let steps = room.steps_of(&format!("/{name}{end}"), body.media_type(), &content);
                steps.unwrap_or_else(|fault| panic!("{name}: {body:?}: {fault:?}"))
            };
            let (without, with) = (steps("/without"), steps(""));
            let least = (BYTES / COUNTED_BYTES) as u64;
            let counted = with - without;
            if counted < least {
                wrong.push(format!("{name}: only {counted} of {least} steps for {body:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Chunks for which the parser takes the square of their length. That of Lua 5.4 does not stop.
#[cfg(feature = "luajit")]
#[test]
fn parsing_of_chunks_counts_against_the_cpu_limit() {
    let mut room = Room::new();
    for part in ["x and ", "x or ", "goto a ", "if x then elseif x then end "] {
        let code = format!(
            "local source = 'return ' .. ('{part}'):rep({} / #'{part}') .. 'x'
            for n = 1, 1000 do load(source) end",
            1 << 20
        );
        let fault = room.ends(&code, MEMORY_MAX_BYTES).expect_err(part);
        assert!(matches!(fault, ScriptFault::OverBudget(_)), "{part}: {fault:?}");
        room.ends("assert(load('return 1')() == 1)", MEMORY_MAX_BYTES).expect("parsed");
    }
}

#[test]
fn long_lists_are_concatenated_like_short_ones() {
    let mut room = Room::new();
    let code = "
        for _, count in ipairs({ 0, 1, 16383, 16384, 16385, 40000 }) do
            local list, expected = {}, {}
            for n = 1, count do list[n] = n end
            for n = 1, count do expected[#expected + 1] = n .. (n < count and ', ' or '') end
            local joined = ''
            local text = table.concat(list, ', ')
            assert(#text == #table.concat(expected), count)
            assert(count == 0 or text:sub(-#tostring(count)) == tostring(count))
            assert(text:find(', ,', 1, true) == nil)
            assert(table.concat(list, ', ', 2, count) == text:sub(4) or count < 2)
        end
        local list = {}
        for n = 1, 40000 do list[n] = 'x' end
        list[30000] = {}
        assert(not pcall(table.concat, list))
        assert(not pcall(table.concat, list, ', ', 'x'))
        assert(not pcall(table.concat))";
    room.ends_some_time(code).expect("alike");
}

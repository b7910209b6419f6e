//! What the parser takes is what LuaJIT takes, over programs whole and damaged.

use mlua::Lua;
use proptest::prelude::*;

use super::parser::Parser;
use super::parser_input::TokenStream;
use super::{Kind, Lexer, LuaToken};

/// One program each; what is not Lua is here too.
const PROGRAMS: &[&str] = &[
    "local a, b = 1, 'x' ; a = b .. 2 return a, b",
    "for i = 1, 10, 2 do print(i) end",
    "for k, v in pairs({1, 2; x = 3, ['y'] = 4, f(), }) do t[k] = v end",
    "while a < 1 and not b do a = a + 1 if a == 5 then break end end",
    "repeat local x = f() until x ~= nil or x == false",
    "if a then b() elseif c then d() else e() end",
    "repeat f(x) until x == nil",
    "function t.a.b:c(x, y, ...) return self, x, ... end",
    "local function f(...) local a = ... return select('#', ...) end",
    "local function f() return f() end",
    "f 'x' f \"y\" f [[z]] f { 1 } f [==[ ]] ]==] a.b.c : d 'e' [1] . x = 2",
    "goto x local a ::x:: ::y::",
    "do goto continue local a ::continue:: end",
    "goto x local a ::x:: print(a)",
    "::top:: f() goto top",
    "do ::inner:: end goto inner",
    "repeat goto on local x ::on:: until x",
    "while true do if a then goto next end ::next:: end",
    "::a:: ::a::",
    "do ::a:: end ::a::",
    "break",
    "while true do local f = function() break end end",
    "return return",
    "return 1 f()",
    "x = 0x1p4 + 1e5 - .5 / 3. % 0xA ^ 2 + 1LL + 2ULL + 3i",
    "x = 1..2",
    "x = 0x",
    "x = 1e",
    "x = 3x",
    "x = '\\x41\\u{48}\\z   y\\065\\n\\'' .. \"\\\"\"",
    "x = '\\400'",
    "x = '\\q'",
    "x = '\\u{110000}'",
    "x = '\\u{}'",
    "x = 'a\nb'",
    "x = 'a\\\nb'",
    "x = [[a\nb]] -- comment\n--[[ long\ncomment ]] y = 2 --[==[ ]] ]==]",
    "f()\n(g)()",
    "(f)() (g or h)(1)",
    "f() = 1",
    "a.b, c[1], d = 1",
    "(a) = 1",
    "(a).b = 1",
    "a, f() = 1",
    "a + 1",
    "local function t.x() end",
    "function t:a.b() end",
    "function f(a, ..., b) end",
    "function f(a,) end",
    "function f() return ... end",
    "local x = function(...) return function() return ... end end",
    "for i = 1 do end",
    "for i, j = 1, 2 do end",
    "for i in do end",
    "not a = 1",
    "x = not not - # - a ^ - b ^ c",
    "x = a .. b .. c == d and e or f < g",
    "x = { , }",
    "x = { 1, 2, , }",
    "x = { a = 1, b; c }",
    "x = { a = , }",
    "if a b() end",
    "if a then else elseif b then end",
    "end",
    "do",
    "x = = 1",
    "x = (1",
    "x = a.1",
    "x = a:b",
    "a:b()",
    "('x'):rep(3)",
    "x = 'x':rep(3)",
    "\u{e9}t\u{e9} = 1",
    "local t = t or {} t[#t + 1] = function() end",
    "x = @",
    "x = a ? b : c",
    "x = $",
    "local a = {} ; a.x = 1 ;",
    "local x <foo> = 1",
    "x = 5 -- [[ not long\ny = 6",
    "x = --[[ inside ]] 7",
];

fn tokens(program: &[u8]) -> Option<Vec<LuaToken>> {
    let mut lexer = Lexer { file: program, at: 0, line: 1 };
    let mut tokens = Vec::new();
    loop {
        lexer.space();
        if lexer.rest().is_empty() {
            return Some(tokens);
        }
        if !lexer.comment().ok()? {
            tokens.push(lexer.token().ok()?);
        }
    }
}

fn is_taken(program: &[u8]) -> bool {
    let Some(tokens) = tokens(program) else { return false };
    Parser::chunk(TokenStream::of_tokens(program, "/x", &tokens), true).is_ok()
}

/// What not both of Lua 5.4 and LuaJIT have. The LuaJIT of 2026 brought much of its own, such as
/// `a ? b : c`, `a != b`, `x += 1`, `const` and `continue`; a page uses none of it.
fn is_of_one_only(program: &[u8]) -> bool {
    let Some(tokens) = tokens(program) else {
        return program.iter().any(|byte| b"?!".contains(byte));
    };
    let text: Vec<&[u8]> = tokens.iter().map(|token| token.of(program)).collect();
    let newer: [&[u8]; 9] = [b"//", b"&", b"|", b"~", b"<<", b">>", b"goto", b"const", b"continue"];
    let goto = |at: usize| {
        text[at] == b"goto" && tokens.get(at + 1).is_some_and(|next| next.kind == Kind::Name)
    };
    let is_newer = |at: usize| newer.contains(&text[at]) && !goto(at);
    let operators: [&[u8]; 7] = [b"+", b"-", b"*", b"/", b"%", b"^", b".."];
    let is_compound = |pair: &[&[u8]]| {
        (operators.contains(&pair[0]) && pair[1] == b"=") || (pair[0] == b"-" && pair[1] == b">")
    };
    // An empty statement: behind nothing, or behind what no statement ends with.
    let empty = |at: usize| {
        let before = at.checked_sub(1).map(|at| text[at]);
        let opens: [&[u8]; 6] = [b";", b"do", b"then", b"else", b"repeat", b"::"];
        text[at] == b";" && before.is_none_or(|word| opens.contains(&word) || word == b")")
    };
    (0..text.len()).any(|at| is_newer(at) || empty(at))
        || text.windows(2).any(|pair| pair[0] == b"<" && pair[1] == b"close" || is_compound(pair))
}

fn agree(lua: &Lua, program: &[u8], is_damaged: bool) {
    // A first line that begins with `#` is for the shell.
    let theirs = lua.load([b" ", program].concat()).set_name("=x").into_function();
    let shown = String::from_utf8_lossy(program);
    match &theirs {
        // Damaged programs may differ: to LuaJIT `x ~= y` as a statement sets `x`, and `goto` may
        // be a name after an operator.
        Ok(_) if is_damaged && (shown.contains("~=") || shown.contains("goto")) => {}
        Ok(_) if !is_of_one_only(program) => assert!(is_taken(program), "LuaJIT takes {shown:?}"),
        Err(error) if !is_of_one_only(program) => {
            assert!(!is_taken(program), "LuaJIT refuses {shown:?}: {error}");
        }
        _ => {}
    }
}

#[test]
fn the_parser_accepts_the_programs_that_luajit_accepts() {
    let lua = Lua::new();
    let mut taken = 0;
    for program in PROGRAMS {
        agree(&lua, program.as_bytes(), false);
        taken += usize::from(is_taken(program.as_bytes()));
    }
    assert!((25..PROGRAMS.len() - 25).contains(&taken), "{taken}");
}

#[test]
fn syntax_of_lua_5_4_is_accepted() {
    for program in [
        "local x <const>, y <close> = 1 // 2, a & b | ~c ~ d << 1 >> 2",
        ";;; local a = 1;; ;",
        "do ; end",
    ] {
        assert!(is_taken(program.as_bytes()), "{program}");
    }
    for program in
        ["local x <const> = 1 x = 2", "local x <const> = 1 local f = function() x = 2 end"]
    {
        assert!(!is_taken(program.as_bytes()), "{program}");
    }
}

#[test]
fn limits_of_the_parser_are_limits_of_luajit_too() {
    let lua = Lua::new();
    let locals = |count: usize| (0..count).map(|n| format!("local v{n} ")).collect::<String>();
    let upvalues = |count: usize| {
        let outer: String = locals(count);
        let used: String = (0..count).map(|n| format!("v{n},")).collect();
        format!("{outer} return function() return {used} 0 end")
    };
    let nested = |count: usize| format!("x = {}1{}", "(".repeat(count), ")".repeat(count));
    for (few, many) in [
        (locals(196), locals(201)),
        (upvalues(60), upvalues(61)),
        (nested(150), nested(250)),
        ("do ".repeat(150) + &"end ".repeat(150), "do ".repeat(250) + &"end ".repeat(250)),
        ("x = - 1".to_owned(), format!("x = {}1", "- ".repeat(250))),
    ] {
        agree(&lua, few.as_bytes(), false);
        agree(&lua, many.as_bytes(), false);
        assert!(is_taken(few.as_bytes()) && !is_taken(many.as_bytes()));
    }
    // None of it goes deep into our own stack.
    for opener in ["(", "{", "do ", "- ", "f(", "a[", "function() ", "if a then ", "a .. ", "::a"] {
        assert!(!is_taken(format!("x = {}", opener.repeat(100_000)).as_bytes()));
        assert!(!is_taken(opener.repeat(100_000).as_bytes()));
    }
}

/// Programs with words of them, and of others, put elsewhere.
fn damaged() -> impl Strategy<Value = String> {
    let words: Vec<String> = PROGRAMS
        .iter()
        .filter_map(|program| Some((tokens(program.as_bytes())?, *program)))
        .flat_map(|(tokens, program)| {
            tokens
                .into_iter()
                .map(|token| program[token.start as usize..token.end as usize].to_owned())
        })
        .collect();
    let edit = (0_u8..4, any::<prop::sample::Index>(), prop::sample::select(words));
    let edits = prop::collection::vec(edit, 0..4);
    (prop::sample::select(PROGRAMS), prop::sample::select(PROGRAMS), edits).prop_map(
        |(one, other, edits)| {
            let Some(found) = tokens(one.as_bytes()) else { return one.to_owned() };
            let mut text: Vec<String> = found
                .iter()
                .map(|token| one[token.start as usize..token.end as usize].to_owned())
                .collect();
            for (kind, at, word) in edits {
                let at = at.index(text.len().max(1)).min(text.len());
                match kind {
                    0 if at < text.len() => _ = text.remove(at),
                    1 => text.insert(at, word),
                    2 if at < text.len() => text[at] = word,
                    _ => text.insert(at, other.to_owned()),
                }
            }
            text.join(" ")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_parser_accepts_the_damaged_programs_that_luajit_accepts(program in damaged()) {
        let lua = Lua::new_with(mlua::StdLib::NONE, mlua::LuaOptions::new()).unwrap();
        agree(&lua, program.as_bytes(), true);
    }

    #[test]
    fn no_bytes_panic_the_parser(program in prop::collection::vec(any::<u8>(), 0..200)) {
        is_taken(&program);
    }
}

//! A site in memory, and the smallest server that can render its pages.

use std::collections::HashMap;

use mlua::{Function, Lua, Table};
use pinion_template::{Template, TemplateProblem, compile};

/// The functions of a server. Blocks that wait begin at once, and those of a parallel page continue
/// in reverse, so that the result must not depend on their order.
const SERVER: &str = r#"
local escapers = { format = string.format }
local function text(v) if v == nil then return "" end return tostring(v) end
local names = { "html", "attr", "name", "url", "url_path", "url_root", "url_query",
    "js", "js_string", "js_attr", "css", "comment" }
for _, name in ipairs(names) do
    escapers["esc_" .. name] = function(v) return "{" .. name .. " " .. text(v) .. "}" end
end
escapers.esc_html = function(v)
    local signs = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
    return (text(v):gsub('[&<>"]', signs))
end
escapers.esc_raw = text

local function joined(out)
    local parts = {}
    for n = 1, out.n do
        parts[n] = type(out[n]) == "table" and joined(out[n]) or out[n]
    end
    return table.concat(parts)
end

local function full(out)
    out.most = out.most * 2
end

local function writer(out)
    return function(text) out.n = out.n + 1; out[out.n] = text end
end

function show(chunk, segments, parallel)
    local out, waiting = { n = 0, most = 2, full = full }, {}
    local values = { write = writer(out), query = { name = "<Ann>" }, method = "GET", locals = {} }
    values.escape = escapers.esc_html
    values.await = function(f) return f() end
    function values.async(block)
        if not parallel then
            local is_done = false
            block(function() is_done = true end, out, values.write)
            assert(is_done, "never done")
            return
        end
        local own = { n = 0, most = 2, full = full }
        values.write(own)
        waiting[#waiting + 1] = function() block(function() end, own, writer(own)) end
    end
    chunk(segments, escapers)(values, out)
    for n = #waiting, 1, -1 do waiting[n]() end
    return joined(out)
end
"#;

/// Returns files by their paths.
pub(crate) fn site<'a>(files: &[(&str, &'a str)]) -> HashMap<String, &'a [u8]> {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes())).collect()
}

/// Compiles the first one of some files.
pub(crate) fn compiled(files: &[(&str, &str)]) -> Result<Template, TemplateProblem> {
    let site = site(files);
    compile(files[0].0, |path| site.get(path).copied())
}

/// Returns the output of the page, or the error of Lua with lines of the files.
pub(crate) fn shown(template: &Template) -> Result<String, String> {
    let lua = Lua::new();
    lua.load(SERVER).exec().expect("the server");
    let explained = |error: mlua::Error| template.explained(&error.to_string(), "page");
    let chunk: Function =
        lua.load(&template.lua[..]).set_name("=page").into_function().map_err(explained)?;
    let segments: Table = lua
        .create_sequence_from(template.segments.iter().map(|s| lua.create_string(s).unwrap()))
        .unwrap();
    let show: Function = lua.globals().get("show").unwrap();
    show.call((chunk, segments, template.parallel)).map_err(explained)
}

/// Returns the output of the first one of some files.
pub(crate) fn page(files: &[(&str, &str)]) -> String {
    let template = compiled(files).unwrap_or_else(|problem| panic!("{problem}"));
    shown(&template).unwrap_or_else(|error| {
        panic!("{error}\n{}", String::from_utf8_lossy(&template.lua));
    })
}

/// Returns the output of one page without other files.
pub(crate) fn alone(text: &str) -> String {
    page(&[("/index.dyn.html", text)])
}

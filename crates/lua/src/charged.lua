-- Functions of Lua's own libraries that take long for what a client may have sent, within one call
-- in which no hook runs. They are charged in advance, in steps of the request, or split into calls
-- between which the hook runs. The chunk gets the function that charges for so many bytes, and
-- whether it runs in LuaJIT.

local charge, is_jit = ...

local type, select, min = type, select, math.min
local lua_concat, lua_format, lua_load = table.concat, string.format, load
local lua_lower, lua_reverse, lua_upper = string.lower, string.reverse, string.upper

-- Texts up to here cost less than to charge for them.
local LONG_BYTES = 16384

-- Elements of a list that are put together in one call: some milliseconds, if all are numbers.
local LIST_PIECE = 16384

-- Bytes that each element of a long list is charged for.
local ELEMENT_BYTES = 16

-- Bytes that the parser is charged for each byte of a chunk: it takes some ten nanoseconds.
local PARSED = 32

local function charge_for(text)
    if type(text) == "string" and #text > LONG_BYTES then
        charge(#text)
    end
end

function table.concat(list, separator, first, last)
    if type(list) ~= "table" then
        return lua_concat(list, separator, first, last)
    end
    local from, to = first or 1, last or #list
    if type(from) ~= "number" or type(to) ~= "number" or to - from < LIST_PIECE then
        return lua_concat(list, separator, first, last)
    end
    charge((to - from) * ELEMENT_BYTES)
    local pieces, count = {}, 0
    for at = from, to, LIST_PIECE do
        count = count + 1
        pieces[count] = lua_concat(list, separator, at, min(at + LIST_PIECE - 1, to))
    end
    return lua_concat(pieces, separator)
end

function load(chunk, ...)
    if type(chunk) == "string" then
        charge(#chunk * PARSED)
    end
    return lua_load(chunk, ...)
end

if loadstring then
    loadstring = load
end

if not is_jit then
    -- In Lua 5.4 a function stays on the stack that calls one of C behind `return`, and errors
    -- would have its place. The others go over their text once, which memory bounds.
    return
end

function string.lower(text)
    charge_for(text)
    return lua_lower(text)
end

function string.reverse(text)
    charge_for(text)
    return lua_reverse(text)
end

function string.upper(text)
    charge_for(text)
    return lua_upper(text)
end

-- Values beyond these are few bytes each, or make the request meet its limit of memory.
function string.format(format, ...)
    local one, two, three, four = ...
    charge_for(format)
    charge_for(one)
    charge_for(two)
    charge_for(three)
    charge_for(four)
    if select("#", ...) > 4 then
        local values, bytes = { ... }, 0
        for at = 5, select("#", ...) do
            bytes = bytes + (type(values[at]) == "string" and #values[at] or 64)
        end
        charge(bytes)
    end
    return lua_format(format, ...)
end

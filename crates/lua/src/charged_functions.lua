-- Library functions of Lua that can take long for data of a client, in one call during which no
-- hook runs. They are charged in advance, in steps of the request, or split into calls between
-- which the hook runs. The chunk gets the function that charges for a number of bytes, and whether
-- it runs in LuaJIT.

local charge, is_jit = ...

local type, select, min = type, select, math.min
local lua_concat, lua_format, lua_load = table.concat, string.format, load
local lua_lower, lua_reverse, lua_upper = string.lower, string.reverse, string.upper

-- Strings up to this length, in bytes, are not charged to the CPU limit: the charge would take
-- longer than the work.
local LONG_BYTES = 16384

-- The most elements of a list that one call concatenates: some milliseconds if all are numbers.
local CONCAT_MAX_ELEMENTS = 16384

-- The bytes that are charged for each element of a long list.
local ELEMENT_BYTES = 16

-- The bytes that are charged for each byte of source: the parser takes about ten nanoseconds for
-- it.
local PARSED_BYTE_COST = 32

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
    if type(from) ~= "number" or type(to) ~= "number" or to - from < CONCAT_MAX_ELEMENTS then
        return lua_concat(list, separator, first, last)
    end
    charge((to - from) * ELEMENT_BYTES)
    local pieces, count = {}, 0
    for start = from, to, CONCAT_MAX_ELEMENTS do
        count = count + 1
        pieces[count] = lua_concat(list, separator, start,
            min(start + CONCAT_MAX_ELEMENTS - 1, to))
    end
    return lua_concat(pieces, separator)
end

function load(chunk, ...)
    if type(chunk) == "string" then
        charge(#chunk * PARSED_BYTE_COST)
    end
    return lua_load(chunk, ...)
end

if loadstring then
    loadstring = load
end

if not is_jit then
    -- In Lua 5.4 a tail call of a C function leaves the calling function on the stack, and errors
    -- would have its position. The other functions read their string once, and the memory limit
    -- bounds its length.
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

-- The arguments are charged. A result that is much longer than they are reaches the memory limit of
-- the request.
function string.format(format, ...)
    local one, two, three, four = ...
    charge_for(format)
    charge_for(one)
    charge_for(two)
    charge_for(three)
    charge_for(four)
    if select("#", ...) > 4 then
        local values, bytes = { ... }, 0
        for index = 5, select("#", ...) do
            bytes = bytes + (type(values[index]) == "string" and #values[index] or 64)
        end
        charge(bytes)
    end
    return lua_format(format, ...)
end

-- Library functions of Lua that could run for any time without a hook, with limits. The chunk gets
-- whether they are those of Lua 5.4.

local is_lua54 = ...

local error, getmetatable, rawget, select, tonumber, type =
    error, getmetatable, rawget, select, tonumber, type
local lua_setmetatable = setmetatable
local lua_insert, lua_remove, lua_date = table.insert, table.remove, os.date

-- The longest format of `os.date`: each of its characters takes about a microsecond.
local DATE_MAX_BYTES = 1000

function os.date(format, ...)
    if type(format) == "string" and #format > DATE_MAX_BYTES then
        error("bad argument #1 to 'date' (more than " .. DATE_MAX_BYTES .. " bytes)", 2)
    end
    return lua_date(format, ...)
end

-- Refuses an index outside of a list of this length.
local function check_index(index, length, name)
    if type(index) ~= "number" or not (index >= 1 and index <= length) then
        error("bad argument #2 to '" .. name .. "' (position out of bounds)", 3)
    end
end

if not is_lua54 then
    -- LuaJIT makes one step for each index from the end of the list down to this one, even far
    -- below 1, and has integers of 32 bits.
    function table.insert(list, ...)
        if select("#", ...) == 2 then
            check_index(tonumber((...)), 2 ^ 31 - 1, "insert")
        end
        return lua_insert(list, ...)
    end
    return
end

-- Only Lua 5.4: no hook runs in finalizers.
function setmetatable(value, meta)
    if type(meta) == "table" and rawget(meta, "__gc") ~= nil then
        error("a metatable of a script cannot have __gc; use <close>", 2)
    end
    return lua_setmetatable(value, meta)
end

-- Only Lua 5.4: the length of a list with a metatable is the result of its `__len`.
function table.insert(list, ...)
    if getmetatable(list) == nil then
        return lua_insert(list, ...)
    end
    local count, index, value = select("#", ...), ...
    local length = #list
    if count == 1 then
        list[length + 1] = index
        return
    elseif count ~= 2 then
        error("wrong number of arguments to 'insert'", 2)
    end
    check_index(index, length + 1, "insert")
    for from = length, index, -1 do
        list[from + 1] = list[from]
    end
    list[index] = value
end

function table.remove(list, ...)
    if getmetatable(list) == nil or select("#", ...) == 0 then
        return lua_remove(list, ...)
    end
    local length, index = #list, ...
    if not (length == 0 and index == 0) and index ~= length then
        check_index(index, length + 1, "remove")
    end
    local value = list[index]
    for to = index, length - 1 do
        list[to] = list[to + 1]
    end
    list[length >= index and length or index] = nil
    return value
end

function table.move(from, first, last, to, into)
    into = into or from
    if last < first then
        return into
    end
    if to > last or to <= first or into ~= from then
        for offset = 0, last - first do
            into[to + offset] = from[first + offset]
        end
    else
        for offset = last - first, 0, -1 do
            into[to + offset] = from[first + offset]
        end
    end
    return into
end

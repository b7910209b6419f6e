-- Functions of Lua's own libraries in which no hook would run for as long as the caller likes, in a
-- way that lets it run. The chunk gets whether they are those of Lua 5.4.

local is_new = ...

local error, getmetatable, rawget, select, tonumber, type =
    error, getmetatable, rawget, select, tonumber, type
local lua_setmetatable = setmetatable
local lua_insert, lua_remove, lua_date = table.insert, table.remove, os.date

-- Most bytes of a format of `os.date`: each of its signs takes about a microsecond.
local DATE_MAX_BYTES = 1000

function os.date(format, ...)
    if type(format) == "string" and #format > DATE_MAX_BYTES then
        error("bad argument #1 to 'date' (more than " .. DATE_MAX_BYTES .. " bytes)", 2)
    end
    return lua_date(format, ...)
end

-- Whether a list that may have this length can have something at this place.
local function in_bounds(at, length, name)
    if type(at) ~= "number" or not (at >= 1 and at <= length) then
        error("bad argument #2 to '" .. name .. "' (position out of bounds)", 3)
    end
end

if not is_new then
    -- LuaJIT makes room from the end of the list to the place, wherever that is, and has whole
    -- numbers of 32 bits.
    function table.insert(list, ...)
        if select("#", ...) == 2 then
            in_bounds(tonumber((...)), 2 ^ 31 - 1, "insert")
        end
        return lua_insert(list, ...)
    end
    return
end

-- Lua 5.4 alone: no hook runs in finalizers.
function setmetatable(value, meta)
    if type(meta) == "table" and rawget(meta, "__gc") ~= nil then
        error("a metatable of a script cannot have __gc; use <close>", 2)
    end
    return lua_setmetatable(value, meta)
end

-- … and a list is as long as its metatable says, whatever is in it.
function table.insert(list, ...)
    if getmetatable(list) == nil then
        return lua_insert(list, ...)
    end
    local count, at, value = select("#", ...), ...
    local length = #list
    if count == 1 then
        list[length + 1] = at
        return
    elseif count ~= 2 then
        error("wrong number of arguments to 'insert'", 2)
    end
    in_bounds(at, length + 1, "insert")
    for place = length, at, -1 do
        list[place + 1] = list[place]
    end
    list[at] = value
end

function table.remove(list, ...)
    if getmetatable(list) == nil or select("#", ...) == 0 then
        return lua_remove(list, ...)
    end
    local length, at = #list, ...
    if not (length == 0 and at == 0) and at ~= length then
        in_bounds(at, length + 1, "remove")
    end
    local value = list[at]
    for place = at, length - 1 do
        list[place] = list[place + 1]
    end
    list[length >= at and length or at] = nil
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

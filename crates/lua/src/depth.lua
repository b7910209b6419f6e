-- Library functions of Lua that are written in C and call functions of the script. Lua does not
-- count everywhere how much of the native stack they use, and a stack overflow ends the process.
-- The chunk gets the functions that return whether the CPU budget and the native stack are used up,
-- whether it runs in LuaJIT, and the most bytes of source that `load` reads.

local is_over, is_deep, is_jit, source_max_bytes = ...

local pcall, select, setmetatable, tostring, type = pcall, select, setmetatable, tostring, type
local concat, error = table.concat, error

-- The table that was thrown last: the log shows its contents.
local thrown = setmetatable({}, { __mode = "v" })

-- Stores a thrown table. Returns the last one.
local function last_thrown(value)
    if type(value) == "table" then
        thrown[1] = value
    end
    return thrown[1]
end

if is_jit then
    -- In Lua 5.4 this function would stay on the stack; there, thrown values are stored where the
    -- bodies of coroutines end.
    function _G.error(value, level)
        last_thrown(value)
        return error(value, level)
    end

    local assert = assert

    -- This makes a tail call, so that the message has the position of the caller.
    function _G.assert(...)
        local ok, why = ...
        if not ok then
            last_thrown(why)
        end
        return assert(...)
    end
end
local lua_format, lua_load, lua_sort, lua_time, lua_xpcall =
    string.format, load, table.sort, os.time, xpcall

local function check_depth(name)
    if is_deep() then
        error("stack overflow (" .. name .. " calls functions that call it again, too deeply)", 3)
    end
end

-- A message handler runs inside of the hook that has raised the error, where no other hook runs. So
-- it is not called for the error that ends a request, nor for errors near the end of the stack.
local function xpcall_with_budget(is_raw, body, handler, ...)
    if is_raw then
        return lua_xpcall(body, handler, ...)
    end
    return lua_xpcall(body, function(...)
        if is_over() or is_deep() then
            return (...)
        end
        return handler(...)
    end, ...)
end

function xpcall(body, handler, ...)
    return xpcall_with_budget(type(handler) ~= "function", body, handler, ...)
end

local function is_less(one, other)
    return one < other
end

-- Comparing long strings takes long, and a list can have the same long string many times. The hook
-- runs in a comparison that is written in Lua.
function table.sort(list, is_before)
    check_depth("table.sort")
    return lua_sort(list, is_before or is_less)
end

-- Reads the pieces of a chunk in Lua and not in a function of the host. There, an error of the
-- script would become an error of the host that contains an earlier one, and so on: no limit counts
-- the memory of such a chain, and dropping it can overflow the stack.
local function read_all(reader)
    local pieces, count, bytes = {}, 0, 0
    while bytes <= source_max_bytes do
        local piece = reader()
        if piece == nil or piece == "" then
            break
        end
        if type(piece) ~= "string" and type(piece) ~= "number" then
            error("reader function must return a string", 0)
        end
        count = count + 1
        pieces[count] = piece
        bytes = bytes + #tostring(piece)
    end
    return concat(pieces)
end

-- As in Lua, an error of the reader is a result of `load`.
function load(chunk, name, ...)
    if type(chunk) ~= "function" then
        return lua_load(chunk, name, ...)
    end
    local is_read, source = pcall(read_all, chunk)
    if not is_read then
        return nil, source
    end
    return lua_load(source, name or "=(load)", ...)
end

if not is_jit then
    -- Lua 5.4 counts the stack of the other functions.
    return last_thrown
end

-- Lua 5.1 has two names for this function.
loadstring = load

-- Only tables have a `__tostring` of the script. Up to four values are checked in a way that LuaJIT
-- compiles.
function string.format(format, ...)
    local one, two, three, four = ...
    if select("#", ...) > 4 or type(one) == "table" or type(two) == "table"
        or type(three) == "table" or type(four) == "table" then
        check_depth("string.format")
    end
    return lua_format(format, ...)
end

-- Reading the fields of the table can call its metamethods.
function os.time(when)
    if when == nil then
        return lua_time()
    end
    check_depth("os.time")
    return lua_time(when)
end

return last_thrown

-- Replaces library functions of Lua that are written in C and call functions of the script. Without
-- that, recursion through them could overflow the native stack, which ends the process, and the
-- debug hook that enforces the CPU limit would not run inside of them. The chunk gets the functions
-- that return whether the CPU budget and the native stack are used up, whether it runs in LuaJIT,
-- and the most bytes of source that `load` reads.

local is_over, is_deep, is_jit, source_max_bytes = ...

local pcall, select, setmetatable, tostring, type = pcall, select, setmetatable, tostring, type
local concat, error = table.concat, error

-- The table that was thrown last: the log shows its contents.
local thrown = setmetatable({}, { __mode = "v" })

-- Records a thrown table, if there is one. Returns the last one.
local function record_thrown(value)
    if type(value) == "table" then
        thrown[1] = value
    end
    return thrown[1]
end

if is_jit then
    -- Only LuaJIT: in Lua 5.4 this wrapper would be in tracebacks, so `coroutines.lua` records
    -- thrown tables.
    function _G.error(value, level)
        record_thrown(value)
        return error(value, level)
    end

    local assert = assert

    -- This makes a tail call, so that the message has the position of the caller.
    function _G.assert(...)
        local ok, why = ...
        if not ok then
            record_thrown(why)
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

-- If the CPU hook raises the error, Lua calls the message handler inside that hook, which could not
-- interrupt the handler. So the handler is skipped when the CPU limit or the native stack is used
-- up.
local function xpcall_with_budget(has_no_handler, body, handler, ...)
    if has_no_handler then
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

-- Without a comparison function `table.sort` compares in C, where the hook does not run: long
-- strings take long. A comparison function that is written in Lua lets the hook run.
function table.sort(list, is_before)
    check_depth("table.sort")
    return lua_sort(list, is_before or is_less)
end

-- Reads the pieces of a chunk in Lua. If a Rust function called the reader, each nested error would
-- be wrapped in another Rust error: no limit counts the memory of that chain, and dropping it can
-- overflow the stack.
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
    return record_thrown
end

-- Lua 5.1 has two names for this function.
loadstring = load

-- Only tables can have a `__tostring` of the script. Up to four values are checked in a way that
-- LuaJIT compiles.
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

return record_thrown

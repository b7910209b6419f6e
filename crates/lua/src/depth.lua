-- Functions of Lua's own libraries, written in C, that call functions of the script. What they take
-- of the stack of the thread Lua does not count everywhere, and its end is the end of the process.
-- The chunk gets what tells that the budget is used up, that much of the stack is, whether it runs
-- in LuaJIT, and how many bytes of source `load` takes.

local is_over, is_deep, is_jit, source_max_bytes = ...

local pcall, select, setmetatable, tostring, type = pcall, select, setmetatable, tostring, type
local concat, error = table.concat, error

-- The table that was thrown last: what the log shows of it is in it, and not in its name.
local thrown = setmetatable({}, { __mode = "v" })

-- Notes a table; without one, gives the last one.
local function last_thrown(value)
    if type(value) == "table" then
        thrown[1] = value
    end
    return thrown[1]
end

if is_jit then
    -- In Lua 5.4 this function would stay on the stack, and what is thrown is seen where bodies of
    -- coroutines end.
    function _G.error(value, level)
        last_thrown(value)
        return error(value, level)
    end

    local assert = assert

    -- A tail call, so that the place of a message is that of the caller.
    function _G.assert(...)
        local is_well, why = ...
        if not is_well then
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

-- A handler of errors runs inside of the hook that has raised the error, where no other hook runs:
-- the error that ends a request is not for it. Neither is any other one where the stack ends.
local function xpcall_on_budget(is_raw, body, handler, ...)
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
    return xpcall_on_budget(type(handler) ~= "function", body, handler, ...)
end

local function is_less(one, other)
    return one < other
end

-- Long texts take long to compare, and many of them are little memory: in a function of Lua the
-- hook runs.
function table.sort(list, is_before)
    check_depth("table.sort")
    return lua_sort(list, is_before or is_less)
end

-- Reads the pieces of a chunk here and not in a function of the host. There, an error of the script
-- would become one of the host, which can hold an earlier one, and that another: a chain of them is
-- memory that no limit counts, and the thread's stack ends where it is released.
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
    -- The others are counted by Lua 5.4 itself.
    return last_thrown
end

-- 5.1 has two names for it.
loadstring = load

-- Only tables have a `__tostring` of the script. Short lists of values are looked at here, which
-- LuaJIT compiles.
function string.format(format, ...)
    local one, two, three, four = ...
    if select("#", ...) > 4 or type(one) == "table" or type(two) == "table"
        or type(three) == "table" or type(four) == "table" then
        check_depth("string.format")
    end
    return lua_format(format, ...)
end

-- The fields of a table are looked up with its metatable.
function os.time(when)
    if when == nil then
        return lua_time()
    end
    check_depth("os.time")
    return lua_time(when)
end

return last_thrown

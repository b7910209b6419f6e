-- Waiting in coroutines: a function that waits yields to the host, through all coroutines of the
-- script that it runs in. The chunk gets the functions of the host. It replaces
-- `coroutine.resume` and `coroutine.wrap`, in Lua 5.4 also `create` and `close`. It returns the
-- function that waits, the check of the running request, and the function that makes a coroutine
-- close its variables.

local host = ...

local error, pcall, setmetatable, tostring, type = error, pcall, setmetatable, tostring, type
local traceback, xpcall = debug.traceback, xpcall
local create, resume, running, status, yield =
    coroutine.create, coroutine.resume, coroutine.running, coroutine.status, coroutine.yield
local bad_argument, current = host.bad_argument, host.current
local WAIT, DEPTH_MAX = host.WAIT, host.COROUTINES_DEPTH_MAX

-- Returns results of pcall, or raises their error.
local function return_or_raise(ok, ...)
    if ok then
        return ...
    end
    error((...), 0)
end

-- To-be-closed variables (Lua 5.4). When an error ends a coroutine, Lua runs the `__close`
-- metamethods without the debug hook, so the CPU limit would not apply. `pcall` around the body
-- closes the variables first, while the hook still runs.
local with_closed_variables
if host.close then
    local lua_create, close = create, host.close
    resume = host.resume

    -- Creates a coroutine whose body runs in `pcall`, and raises its error again unchanged.
    function create(body)
        if type(body) ~= "function" then
            bad_argument(1, "create", "function", body, 2)
        end
        return lua_create(function(...)
            return return_or_raise(pcall(body, ...))
        end)
    end

    coroutine.create = create

    function coroutine.close(inner)
        if type(inner) ~= "thread" then
            bad_argument(1, "close", "coroutine", inner, 2)
        end
        local is = status(inner)
        if is ~= "suspended" and is ~= "dead" then
            error("cannot close a " .. is .. " coroutine", 2)
        end
        return close(inner)
    end

    -- Adds a traceback for the log. Errors of the host have one already.
    local function with_traceback(why)
        host.record_thrown(why)
        return type(why) == "userdata" and why or traceback(tostring(why), 2)
    end

    function with_closed_variables(body)
        return function(...)
            return return_or_raise(xpcall(body, with_traceback, ...))
        end
    end
end

-- Yields to the host until the operation has ended. Returns its results or raises its error.
local function wait(operation, ...)
    return return_or_raise(yield(WAIT, operation, ...))
end

-- Refuses to wait for the client of another request: the host resumes only tasks that wait for
-- their own client.
local function check_own(id, level)
    if current() ~= id then
        error("only the handler of a request can read its body and write its response; send other "
            .. "handlers a message with pinion.send and pinion.subscribe", level)
    end
end

-- The number of coroutines that each coroutine runs in. It is stored for each coroutine instead of
-- counted up and down: an error may end these functions anywhere.
local depths = setmetatable({}, { __mode = "k" })
local resume_nested

-- Passes what a coroutine of the script yields to the host through the coroutine that has resumed
-- it.
local function pass_waits(inner, ok, first, ...)
    if ok and first == WAIT then
        return resume_nested(inner, yield(WAIT, ...))
    end
    return ok, first, ...
end

function resume_nested(inner, ...)
    local depth = (depths[running()] or 0) + 1
    if depth > DEPTH_MAX then
        return false, "more than " .. DEPTH_MAX .. " coroutines inside each other"
    end
    depths[inner] = depth
    return pass_waits(inner, resume(inner, ...))
end

local function checked_resume(inner, ...)
    if type(inner) ~= "thread" then
        bad_argument(1, "resume", "coroutine", inner, 2)
    end
    return resume_nested(inner, ...)
end

coroutine.resume = checked_resume

function coroutine.wrap(body)
    local inner = create(body)
    return function(...)
        return return_or_raise(checked_resume(inner, ...))
    end
end

return { check_own = check_own, wait = wait, with_closed_variables = with_closed_variables }

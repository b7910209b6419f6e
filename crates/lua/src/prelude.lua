-- The runtime of scripts: the functions of `pinion` that are written in Lua, and the loop that runs
-- handlers. All functions that wait are written in Lua, because only Lua can yield. The chunk gets
-- the functions of the host and returns the loop and the parts that pages use.
--
-- CPU limit: when a request has used up its CPU time, a signal sets a debug hook, which raises an
-- error at the next instruction of Lua (`cpu_watchdog.rs`). No hook runs inside of functions that
-- are written in C, so a call with a long string is charged in advance (`host.charge_cpu`).
--
-- Waiting: `wait(operation)` yields to the host, which resumes the coroutine when the operation has
-- ended. `wait("wake")` ends when another part calls `wake` for the task. `wake_when_done(id)`
-- registers that for the end of a task, and returns false if the task has ended already.
--
-- Levels: errors have the position of the script, so a check gets the level of its caller, as in
-- `error(message, level)`. A function in a tail call has no level.

local host = ...

local concat, error, getmetatable, select, setmetatable, tostring, type =
    table.concat, error, getmetatable, select, setmetatable, tostring, type
local gsub, pcall, yield = string.gsub, pcall, coroutine.yield
local DONE = host.DONE
local host_request, host_field = host.request, host.request_field

-- Refuses an argument with the message of the libraries of Lua. `expected` may contain a hint.
local function bad_argument(position, name, expected, value, level)
    error("bad argument #" .. position .. " to '" .. name .. "' (" .. expected .. " expected, got "
        .. type(value) .. ")", level + 1)
end
host.bad_argument = bad_argument

-- Refuses the most common mistake: a method that is called with a dot gets no object, or gets its
-- first argument as the object. `call` shows the correct call, such as "req:field(name)".
local function check_object(object, class, call, level)
    if type(object) ~= "table" or getmetatable(object) ~= class then
        error("call it with a colon: " .. call .. ", not " .. gsub(call, ":", ".", 1), level + 1)
    end
end
host.check_object = check_object

-- Waiting ------------------------------------------------------------------------------------

local coroutines = host.coroutines(host)
local check_own, wait = coroutines.check_own, coroutines.wait

-- Functions of the host ------------------------------------------------------------------------

-- The Lua types of the arguments of host functions.
local LUA_TYPES = { bool = "boolean", integer = "number", f64 = "number", i64 = "number",
    u32 = "number", u64 = "number", usize = "number" }

-- Returns the message of an error that a function of the host has raised, with the name by which
-- the script has called it.
local function host_error_text(why, name)
    why = tostring(why):gsub("^runtime error: ", ""):gsub("\nstack traceback:.*", "")
    local position, given, wanted =
        why:match("^bad argument #(%d+).*: error converting Lua (%S+) to (%S+)")
    if not position then
        return why
    end
    return "bad argument #" .. position .. " to '" .. (name or "?") .. "' ("
        .. (LUA_TYPES[wanted] or wanted) .. " expected, got " .. (LUA_TYPES[given] or given) .. ")"
end

-- Returns results of pcall, or raises their error at the line of the script: errors of the host
-- have no position.
local function return_or_raise(name, ok, ...)
    if ok then
        return ...
    end
    -- The calling function has left the stack by its tail call.
    error(host_error_text((...), name), 2)
end

-- Strings up to this length, in bytes, are not charged to the CPU limit: the charge would take
-- longer than the work.
local LONG_BYTES = 16384

local function charge_for(text)
    if type(text) == "string" and #text > LONG_BYTES then
        host.charge_cpu(#text)
    end
end

-- Wraps all functions of a library of the host: they charge for long arguments, and their errors
-- have a position.
local function wrap_library(library, prefix)
    for name, value in pairs(library) do
        local whole = prefix .. name
        if type(value) == "function" then
            library[name] = function(first, second, ...)
                charge_for(first)
                charge_for(second)
                return return_or_raise(whole, pcall(value, first, second, ...))
            end
        elseif type(value) == "table" then
            wrap_library(value, whole .. ".")
        end
    end
    return library
end

local json_encode, json_decode = host.libraries.json.encode, host.libraries.json.decode

-- Requests -----------------------------------------------------------------------------------

local request_methods, Request = {}, { __name = "request" }

function Request.__index(request, key)
    local method = request_methods[key]
    if method then
        return method
    end
    local value, why = host_request(request[1], key)
    if why then
        error(why, 2)
    end
    if value ~= nil then
        request[key] = value
    end
    return value
end

function request_methods.field(request, name)
    check_object(request, Request, "req:field(name)", 2)
    local value, why = host_field(request[1], name)
    if why then
        error(why, 2)
    end
    return value
end

-- The methods that read the content.
local file_methods = host.content(host, request_methods, Request, wait, check_own)

-- Returns the value of JSON content; nil and the reason if the content is no JSON.
function request_methods.json(request)
    check_object(request, Request, "req:json()", 2)
    return json_decode(request:body())
end

-- Responses ----------------------------------------------------------------------------------

local responses = host.responses(host, {
    check_own = check_own,
    json_encode = json_encode,
    host_error_text = host_error_text,
    wait = wait,
})
local response_methods, new_response, take_rest =
    responses.methods, responses.new_response, responses.take_rest

-- The site ------------------------------------------------------------------------------------

local pinion = wrap_library(host.libraries, "pinion.")
local routes = host.routes(host, pinion)
local handlers, has_middleware = routes.handlers, routes.has_middleware

host.files(host, pinion, response_methods, wait, responses.check_head_is_open, check_own)

function pinion.sleep(seconds)
    if type(seconds) ~= "number" then
        bad_argument(1, "pinion.sleep", "number", seconds, 2)
    elseif not (seconds >= 0) then
        error("bad argument #1 to 'pinion.sleep' (seconds from 0 on expected)", 2)
    end
    wait("sleep", seconds)
end

local check_spawned = host.background_work(host, pinion, wait)
local subscription_methods = host.subscriptions(host, pinion, wait)
local process_methods = host.process(host, pinion, wait)
local current_fragment, make_fragment = host.store(host, pinion, wait)
local session_methods, session_of_page =
    host.session(host, pinion, request_methods, response_methods)
local fetched_methods = host.fetch(host, pinion, wait, json_encode, json_decode)

-- Returns a function that writes its arguments as one line.
local function line_writer(write)
    return function(...)
        local texts = {}
        for index = 1, select("#", ...) do
            texts[index] = tostring((select(index, ...)))
        end
        local text = concat(texts, "\t")
        charge_for(text)
        write(text)
    end
end

pinion.log = line_writer(host.log)
print = pinion.log

-- A script that `pinion run` runs at the command line.
if host.command_line then
    print = line_writer(host.command_line.print)
    pinion.exit = host.command_line.exit
    arg = host.command_line.arguments
end

local own_status = response_methods.status

-- Refuses properties of `res` by which scripts of other servers set the status, the body and the
-- headers.
local function refuse_assigned_properties(response)
    local is_status = response.status ~= own_status
    local field = is_status and "status" or response.body ~= nil and "body" or "headers"
    local instead = is_status and "res:status(404)" or field == "body" and "res:write(text)"
        or "res:field(name, value)"
    error("the handler has set res." .. field .. ", which has no effect; write " .. instead
        .. " instead")
end

-- The routes whose handlers have returned a status, each of which is logged once. It may be no
-- mistake: `text:gsub` also returns a number as its second result.
local logged_routes = {}

local function log_second_value(route, status)
    if not logged_routes[route] then
        logged_routes[route] = true
        host.log(host.route_position(route) .. "the handler returned " .. status
            .. " as a second value, which has no effect; set the status with res:status("
            .. status .. ")")
    end
end

local function count_values(...)
    return select("#", ...), ...
end

-- Refuses nil as the result of a handler: most likely it has lost its content, as in `local text =
-- pinion.fs.read(path) return text`. A handler that has set a status or a field has responded, and
-- one that returns no value means an empty response. `count` is the number of values that the
-- outermost middleware has returned.
local function refuse_nil(response, route, count)
    local has_returned_nil = count > 0
    if has_middleware[route] then
        has_returned_nil = response.has_returned_nil
    end
    local has_head = response.has_begun or response.has_status or response.is_settled
    if has_returned_nil and response.n == 1 and not has_head
        and not host.has_fields(response.id) then
        error("the handler returned nil; return the content, or \"\" for an empty response")
    end
end

-- Runs the handler of one request. For the handler of errors there is a message in place of the
-- parameters of the route, and the ID of the error in the log.
local function handle(id, route, parameters_or_message, error_id)
    local request
    local message = parameters_or_message
    if message and type(route) == "number" then
        request, message = setmetatable({ id, params = parameters_or_message }, Request), nil
    else
        request = setmetatable({ id }, Request)
    end
    local response = new_response(id, route)
    local count, result, second =
        count_values(handlers[route](request, response, message, error_id))
    -- The results of a function that has failed: `return pinion.fs.read(path)`.
    if result == nil and second ~= nil and response.n == 1 and not response.is_settled then
        error("the handler returned nil and an error: " .. tostring(second))
    end
    if response.status ~= own_status or response.body ~= nil or response.headers ~= nil then
        refuse_assigned_properties(response)
    elseif result == nil then
        refuse_nil(response, route, count)
    elseif type(second) == "number" and second >= 100 and second < 600 then
        log_second_value(route, second)
    end
    -- A response with a file is complete, and `res:file` returns true.
    if result ~= nil and result ~= response and (result ~= true or response.n) then
        local kind = type(result)
        if kind ~= "string" and kind ~= "number" then
            error("the handler returned a " .. kind .. "; return a string, a number or nothing, "
                .. "and send a table with res:json(value)")
        end
        response:write(result)
    end
    local text, last = take_rest(response, route)
    response.n = nil
    return text, last
end

-- Handles one request after another in the same coroutine.
local function request_loop(id, route, parameters_or_message, error_id)
    while true do
        id, route, parameters_or_message, error_id =
            yield(DONE, handle(id, route, parameters_or_message, error_id))
    end
end

-- Wraps the function of a background task, so that a frame stays on the stack even if the function
-- ends in a tail call. The host replaces the position of this frame by that of the function. For
-- handlers `handle` is this frame.
local function background_task(work)
    return function(...)
        -- The call through `select` keeps the local name `work` out of the traceback.
        select(1, work)(...)
    end
end

_G.pinion = pinion
-- `pages/pages.lua` uses these parts.
return request_loop, {
    background_task = background_task,
    check_spawned = check_spawned,
    with_closed_variables = coroutines.with_closed_variables,
    classes = {
        req = request_methods,
        res = response_methods,
        file = file_methods,
        process = process_methods,
        response = fetched_methods,
        session = session_methods,
        subscription = subscription_methods,
    },
    current_fragment = current_fragment,
    handlers = handlers,
    host = host,
    host_error_text = host_error_text,
    make_fragment = make_fragment,
    page_with_middleware = routes.page_with_middleware,
    response = response_methods,
    send = responses.send,
    session = session_of_page,
    wait = wait,
}

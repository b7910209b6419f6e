-- What a script sees, as far as it is written in Lua: whatever can wait has to be, because only
-- Lua can yield. The chunk gets the host's functions and gives back what the host calls.

local host = ...

local concat, error, getmetatable, ipairs, select, setmetatable, tostring, type =
    table.concat, error, getmetatable, ipairs, select, setmetatable, tostring, type
local gsub = string.gsub
local pcall, traceback, xpcall = pcall, debug.traceback, xpcall
local create, resume, running, status, yield =
    coroutine.create, coroutine.resume, coroutine.running, coroutine.status, coroutine.yield
local WAIT, DONE = host.WAIT, host.DONE
local host_request, host_field, current = host.request, host.request_field, host.current

-- Arguments of another type, in the words of Lua's own libraries. `expected` may have a hint.
local function bad_argument(position, name, expected, value, level)
    error("bad argument #" .. position .. " to '" .. name .. "' (" .. expected .. " expected, got "
        .. type(value) .. ")", level + 1)
end
host.bad_argument = bad_argument

-- The most common mistake: a method that is called with a dot gets no object, or its first argument
-- in the place of it. `call` is how it is called, such as "req:field(name)".
local function check_object(object, class, call, level)
    if type(object) ~= "table" or getmetatable(object) ~= class then
        error("call it with a colon: " .. call .. ", not " .. gsub(call, ":", ".", 1), level + 1)
    end
end
host.check_object = check_object

-- Waiting ------------------------------------------------------------------------------------

local function outcome(is_well, ...)
    if is_well then
        return ...
    end
    error((...), 0)
end

-- Lua 5.4 has variables that are to be closed. Behind an error that ends a coroutine, no hook would
-- run in what closes them, so no error ends one before they are closed.
local closing
if host.close then
    local lua_create, close = create, host.close
    resume = host.resume

    -- Who resumes a coroutine of the script gets the error as it is.
    function create(body)
        if type(body) ~= "function" then
            bad_argument(1, "create", "function", body, 2)
        end
        return lua_create(function(...)
            return outcome(pcall(body, ...))
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

    -- The host shows where it was. Its own errors know that.
    local function explained(why)
        host.threw(why)
        return type(why) == "userdata" and why or traceback(tostring(why), 2)
    end

    function closing(body)
        return function(...)
            return outcome(xpcall(body, explained, ...))
        end
    end
end

-- Leaves this coroutine, and all that it runs in, until the host has what was asked for.
local function wait(operation, ...)
    return outcome(yield(WAIT, operation, ...))
end

-- Whoever waits for a client waits for its own: the host knows no other.
local function check_own(id, level)
    if current() ~= id then
        error("only the handler of a request can read its body and write its response; send other "
            .. "handlers a message with pinion.send and pinion.subscribe", level)
    end
end

-- How many coroutines each of them runs in. It is looked up, not counted: an error may end the
-- runtime's own functions anywhere.
local depths = setmetatable({}, { __mode = "k" })
local enter

-- Coroutines of the script's own: what they yield to the host passes through whoever resumes them.
local function through(inner, is_well, first, ...)
    if is_well and first == WAIT then
        return enter(inner, yield(WAIT, ...))
    end
    return is_well, first, ...
end

function enter(inner, ...)
    local depth = (depths[running()] or 0) + 1
    if depth > host.COROUTINES_DEPTH_MAX then
        return false, "more than " .. host.COROUTINES_DEPTH_MAX .. " coroutines inside each other"
    end
    depths[inner] = depth
    return through(inner, resume(inner, ...))
end

local function resume_through(inner, ...)
    if type(inner) ~= "thread" then
        bad_argument(1, "resume", "coroutine", inner, 2)
    end
    return enter(inner, ...)
end

coroutine.resume = resume_through

function coroutine.wrap(body)
    local inner = create(body)
    return function(...)
        return outcome(resume_through(inner, ...))
    end
end

-- What scripts call the types that functions of the host take.
local KINDS = { bool = "boolean", integer = "number", f64 = "number", i64 = "number",
    u32 = "number", u64 = "number", usize = "number" }

-- Functions of the host raise errors without a place; a script is told where it has called them,
-- and by which name.
local function said(why, name)
    why = tostring(why):gsub("^runtime error: ", ""):gsub("\nstack traceback:.*", "")
    local position, given, wanted =
        why:match("^bad argument #(%d+).*: error converting Lua (%S+) to (%S+)")
    if not position then
        return why
    end
    return "bad argument #" .. position .. " to '" .. (name or "?") .. "' ("
        .. (KINDS[wanted] or wanted) .. " expected, got " .. (KINDS[given] or given) .. ")"
end

local function placed(name, is_well, ...)
    if is_well then
        return ...
    end
    -- The caller has gone with a tail call.
    error(said((...), name), 2)
end

-- Texts up to here cost less than to charge for them.
local LONG_BYTES = 16384

local function charge_for(text)
    if type(text) == "string" and #text > LONG_BYTES then
        host.charge(#text)
    end
end

local function place(library, prefix)
    for name, value in pairs(library) do
        local whole = prefix .. name
        if type(value) == "function" then
            library[name] = function(first, second, ...)
                charge_for(first)
                charge_for(second)
                return placed(whole, pcall(value, first, second, ...))
            end
        elseif type(value) == "table" then
            place(value, whole .. ".")
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

-- What reads the content.
local file_methods = host.content(host, request_methods, Request, wait, check_own)

-- The value of JSON content; nil and why when it is none.
function request_methods.json(request)
    check_object(request, Request, "req:json()", 2)
    return json_decode(request:body())
end

-- Answers ------------------------------------------------------------------------------------

local answers = host.answers(host, {
    check_own = check_own,
    json_encode = json_encode,
    said = said,
    wait = wait,
})
local response_methods, response_of, rest = answers.methods, answers.response_of, answers.rest

-- The site ------------------------------------------------------------------------------------

local handlers = {}
local pinion = place(host.libraries, "pinion.")

-- Notes what the rest of the way of a request has returned to a middleware.
local function noted(call, ...)
    call.returned, call.why = ...
    return ...
end

local KEEP_RESULTS = "write `return next()`, or keep both results, "
    .. "`local result, why = next()`, and end with `return result, why`"

-- What a middleware has returned. One that has not called `next`, and one that has lost what the
-- handler returned, would otherwise send an empty response with status 200.
local function checked(outer, call, response, said, why, ...)
    local is_of_handler = call.is_used and said == call.returned
    if type(said) == "function" and said == call.next then
        error(host.place(outer) .. "the middleware returned its `next` without calling it; write "
            .. "`return next()`", 0)
    elseif type(said) == "boolean" and response.n and not is_of_handler then
        error(host.place(outer) .. "the middleware returned a boolean; write `return next()` to "
            .. "continue, or return a text to respond", 0)
    end
    local is_empty = said == nil and why == nil and response.n == 1
        and not (response.has_begun or response.is_settled)
    if not is_empty then
        return said, why, ...
    end
    local returned = call.returned
    if returned ~= nil and returned ~= "" and returned ~= response then
        error(host.place(outer) .. "the middleware called `next()` and returned nothing, so what "
            .. "the handler returned is lost; " .. KEEP_RESULTS .. "; write `return \"\"` if the "
            .. "response is to be empty", 0)
    elseif returned == nil and call.why ~= nil and not response.has_status then
        error(host.place(outer) .. "the middleware called `next()` and lost the error that the "
            .. "handler returned (" .. tostring(call.why) .. "); " .. KEEP_RESULTS, 0)
    elseif not call.is_used and not response.has_status then
        error(host.place(outer) .. "the middleware returned nothing and did not call `next()`, so "
            .. "no handler ran; write `return next()`, or `return \"\"` for an empty response", 0)
    end
    return said, why, ...
end

-- Notes whether a handler that has middleware around it has returned a nil, not nothing.
local function nil_noted(response, ...)
    response.has_returned_nil = select("#", ...) > 0 and (...) == nil
    return ...
end

-- The routes whose handlers have middleware around them.
local has_middleware = {}

-- Puts each of `middleware` around what comes behind it, which stands where `shown` does.
local function around(number, middleware, handler, shown)
    host.begins(number, shown, middleware)
    has_middleware[number] = #middleware > 0
    for at = #middleware, 1, -1 do
        local outer, inner, is_innermost = middleware[at], handler, at == #middleware
        handler = function(request, response, more)
            local call = {}
            function call.next()
                call.is_used = true
                if is_innermost then
                    return noted(call, nil_noted(response, inner(request, response, more)))
                end
                return noted(call, inner(request, response, more))
            end
            return checked(outer, call, response, outer(request, response, call.next))
        end
    end
    return handler
end

-- `options` may be left out. `called` is the name of the function that registers the route, and
-- `at` which of its arguments is the pattern.
local function register(called, at, method, prefix, pattern, options, handler, middleware)
    called = (prefix == "" and "pinion." or "group.") .. called
    if type(pattern) == "table" then
        error("a route is written with a dot: " .. called .. "(pattern, handler)", 3)
    elseif type(pattern) ~= "string" then
        bad_argument(at, called, "pattern such as \"/hello/:name\"", pattern, 3)
    end
    pattern = prefix .. pattern
    local handler_at = at + 2
    if handler == nil then
        options, handler, handler_at = nil, options, at + 1
    end
    if type(handler) ~= "function" then
        bad_argument(handler_at, called, "function(req, res)", handler, 3)
    elseif options ~= nil and type(options) ~= "table" then
        bad_argument(at + 1, called, "table such as { time = 9 }", options, 3)
    end
    local wrong = options and host.check_route_options(options)
    if wrong then
        error("the route \"" .. pattern .. "\": " .. wrong, 3)
    end
    local number, why = host.route(method, pattern)
    if not number then
        error(why, 3)
    end
    if options then
        host.limit_route(number, options)
    end
    -- Other servers write parameters so.
    local text, instead = host.foreign_parameter(pattern)
    if text then
        host.warn(host.place(handler) .. "the pattern \"" .. pattern .. "\" matches the text `"
            .. text .. "` itself; write `" .. instead .. "` for a parameter")
    end
    handlers[number] = around(number, middleware, handler, handler)
end

-- What `use` was given, in order: { prefix of the group, function }.
local outers = {}

-- Puts around the handler of a page what was given to `use` for the site, and for groups whose
-- prefix its path has.
local function guarded(number, path, handler, page)
    local middleware = {}
    for _, outer in ipairs(outers) do
        if host.is_below(outer[1], path) then
            middleware[#middleware + 1] = outer[2]
        end
    end
    return around(number, middleware, handler, page)
end

local METHODS = { "get", "head", "post", "put", "delete", "patch", "options", "query" }

-- `outer_used` gives a list of what is used around the group by now.
local function group(into, prefix, outer_used)
    local own = {}
    local function used()
        local all = outer_used()
        for _, outer in ipairs(own) do
            all[#all + 1] = outer
        end
        return all
    end
    for _, name in ipairs(METHODS) do
        local method = name:upper()
        into[name] = function(pattern, options, handler)
            register(name, 1, method, prefix, pattern, options, handler, used())
        end
    end
    function into.any(pattern, options, handler)
        register("any", 1, nil, prefix, pattern, options, handler, used())
    end
    function into.route(method, pattern, options, handler)
        if type(method) ~= "string" then
            bad_argument(1, "pinion.route", "method such as \"GET\"", method, 2)
        end
        register("route", 2, method:upper(), prefix, pattern, options, handler, used())
    end
    -- What is registered behind it runs inside of it.
    function into.use(outer)
        if type(outer) ~= "function" then
            bad_argument(1, "pinion.use", "function(req, res, next)", outer, 2)
        end
        local why = host.group(prefix)
        if why then
            error(why, 2)
        end
        outers[#outers + 1] = { prefix, outer }
        own[#own + 1] = outer
    end
    function into.group(more, body)
        if type(more) == "table" then
            error("a group is made with a dot: pinion.group(prefix)", 2)
        elseif type(more) ~= "string" then
            bad_argument(1, "pinion.group", "prefix such as \"/admin\"", more, 2)
        elseif body ~= nil and type(body) ~= "function" then
            bad_argument(2, "pinion.group", "function(group)", body, 2)
        end
        -- "/admin/" is the same.
        local whole = prefix .. more:gsub("/$", "")
        local why = host.group(whole)
        if why then
            error(why, 2)
        end
        local inner = group({}, whole, used)
        if body then
            body(inner)
        end
        return inner
    end
    return into
end

group(pinion, "", function()
    return {}
end)

host.files(host, pinion, response_methods, wait, answers.changes_head, check_own)

local function special(name)
    return function(handler)
        if type(handler) ~= "function" then
            bad_argument(1, "pinion." .. name, "function(req, res)", handler, 2)
        end
        local why = host.special(name)
        if why then
            error(why, 2)
        end
        handlers[name] = handler
        host.begins(name, handler)
    end
end

pinion.not_found, pinion.on_error = special("not_found"), special("on_error")

function pinion.sleep(seconds)
    if type(seconds) ~= "number" then
        bad_argument(1, "pinion.sleep", "number", seconds, 2)
    elseif not (seconds >= 0) then
        error("bad argument #1 to 'pinion.sleep' (seconds from 0 on expected)", 2)
    end
    wait("sleep", seconds)
end

local spawned = host.work(host, pinion, wait)
local subscription_methods = host.waiting(host, pinion, wait)
local process_methods = host.process(host, pinion, wait)
local current_fragment, make_fragment = host.store(host, pinion, wait)
local session_methods, session_of_page =
    host.session(host, pinion, request_methods, response_methods)
local fetched_methods = host.fetch(host, pinion, wait, json_encode, json_decode)

local function sayer(write)
    return function(...)
        local texts = {}
        for at = 1, select("#", ...) do
            texts[at] = tostring((select(at, ...)))
        end
        local text = concat(texts, "\t")
        charge_for(text)
        write(text)
    end
end

pinion.log = sayer(host.log)
print = pinion.log

-- A program at the command line.
if host.alone then
    print = sayer(host.alone.print)
    pinion.exit = host.alone.exit
    arg = host.alone.arguments
end

local own_status = response_methods.status

-- Fields of the response by which other servers are told the status, the body and the headers.
local function wrong_fields(response)
    local is_status = response.status ~= own_status
    local field = is_status and "status" or response.body ~= nil and "body" or "headers"
    local instead = is_status and "res:status(404)" or field == "body" and "res:write(text)"
        or "res:field(name, value)"
    error("the handler has set res." .. field .. ", which has no effect; write " .. instead
        .. " instead")
end

-- The routes whose handlers have returned a status, each logged once: `text:gsub` returns a second
-- number too.
local noted_routes = {}

local function note_second_value(route, status)
    if not noted_routes[route] then
        noted_routes[route] = true
        host.log(host.route_place(route) .. "the handler returned " .. status
            .. " as a second value, which has no effect; set the status with res:status("
            .. status .. ")")
    end
end

local function counted(...)
    return select("#", ...), ...
end

-- A handler that returns nil has lost what it was to send most likely, as in `local text =
-- pinion.fs.read(path) return text`. What it has set before is a response all the same, and one
-- that returns nothing has meant an empty one. `count` is how much came out of all middleware.
local function check_nil(response, route, count)
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

-- One request after the other, in the same coroutine. With an error come what it says and the name
-- that the log has for it.
local function answer(id, route, more, name)
    local request
    if more and type(route) == "number" then
        request, more = setmetatable({ id, params = more }, Request), nil
    else
        request = setmetatable({ id }, Request)
    end
    local response = response_of(id, route)
    local count, said, why = counted(handlers[route](request, response, more, name))
    -- As functions say that they have failed: `return pinion.fs.read(path)`.
    if said == nil and why ~= nil and response.n == 1 and not response.is_settled then
        error("the handler returned nil and an error: " .. tostring(why))
    end
    if response.status ~= own_status or response.body ~= nil or response.headers ~= nil then
        wrong_fields(response)
    elseif said == nil then
        check_nil(response, route, count)
    elseif type(why) == "number" and why >= 100 and why < 600 then
        note_second_value(route, why)
    end
    -- One that has ended with a file is complete.
    if said ~= nil and said ~= response and (said ~= true or response.n) then
        local kind = type(said)
        if kind ~= "string" and kind ~= "number" then
            error("the handler returned a " .. kind .. "; return a string, a number or nothing, "
                .. "and send a table with res:json(value)")
        end
        response:write(said)
    end
    local text, last = rest(response, route)
    response.n = nil
    return text, last
end

local function strand(id, route, more, name)
    while true do
        id, route, more, name = yield(DONE, answer(id, route, more, name))
    end
end

-- Work without a request, with a function of ours around it, as handlers have: what a call behind
-- `return` fails with then has the place of that one, in whose stead it is told where work begins.
local function beside(work)
    return function(...)
        -- Called as a value, it has no name of ours on the stack.
        select(1, work)(...)
    end
end

_G.pinion = pinion
-- What answers pages of templates stands on this.
return strand, {
    beside = beside,
    closing = closing,
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
    guarded = guarded,
    handlers = handlers,
    host = host,
    make_fragment = make_fragment,
    response = response_methods,
    said = said,
    send = answers.send,
    session = session_of_page,
    spawned = spawned,
    wait = wait,
}

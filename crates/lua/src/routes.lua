-- Routes, groups and middleware. The chunk gets the functions of the host and the table `pinion`,
-- to which it adds the functions that register handlers. It returns the handlers, the set of
-- routes with middleware, and the function that wraps the handler of a page in middleware.

local host, pinion = ...

local error, ipairs, select, tostring, type = error, ipairs, select, tostring, type
local bad_argument = host.bad_argument

-- The handlers, by the number of their route or by the name of a special handler.
local handlers = {}

-- Stores the results of `next` for check_middleware_result.
local function store_results(call, ...)
    call.returned, call.why = ...
    return ...
end

local KEEP_RESULTS = "write `return next()`, or keep both results, "
    .. "`local result, why = next()`, and end with `return result, why`"

-- Raises an error that names the middleware by its position.
local function raise_for(middleware, text)
    error(host.source_position(middleware) .. "the middleware " .. text, 0)
end

-- Checks the results of a middleware function. One that does not call `next`, and one that loses
-- the results of the handler, would otherwise send an empty response with status 200.
local function check_middleware_result(middleware, call, response, result, why, ...)
    local is_result_of_next = call.was_called and result == call.returned
    if type(result) == "function" and result == call.next then
        raise_for(middleware, "returned its `next` without calling it; write `return next()`")
    elseif type(result) == "boolean" and response.n and not is_result_of_next then
        raise_for(middleware, "returned a boolean; write `return next()` to continue, or return a "
            .. "text to respond")
    end
    local is_empty = result == nil and why == nil and response.n == 1
        and not (response.has_begun or response.is_settled)
    if not is_empty then
        return result, why, ...
    end
    local returned = call.returned
    if returned ~= nil and returned ~= "" and returned ~= response then
        raise_for(middleware, "called `next()` and returned nothing, so what the handler returned "
            .. "is lost; " .. KEEP_RESULTS .. "; write `return \"\"` if the response is to be "
            .. "empty")
    elseif returned == nil and call.why ~= nil and not response.has_status then
        raise_for(middleware, "called `next()` and lost the error that the handler returned ("
            .. tostring(call.why) .. "); " .. KEEP_RESULTS)
    elseif not call.was_called and not response.has_status then
        raise_for(middleware, "returned nothing and did not call `next()`, so no handler ran; "
            .. "write `return next()`, or `return \"\"` for an empty response")
    end
    return result, why, ...
end

-- Stores whether a handler inside of middleware has returned nil. A handler that returns no value
-- is no mistake.
local function store_nil_result(response, ...)
    response.has_returned_nil = select("#", ...) > 0 and (...) == nil
    return ...
end

-- Which routes have middleware around their handlers.
local has_middleware = {}

-- Wraps a handler in a list of middleware, the outermost first. `origin` is the function whose
-- position errors have.
local function with_middleware(number, middleware, handler, origin)
    host.set_origin(number, origin, middleware)
    has_middleware[number] = #middleware > 0
    for index = #middleware, 1, -1 do
        local outer, inner, is_innermost = middleware[index], handler, index == #middleware
        handler = function(request, response, more)
            local call = {}
            function call.next()
                call.was_called = true
                if is_innermost then
                    return store_results(call,
                        store_nil_result(response, inner(request, response, more)))
                end
                return store_results(call, inner(request, response, more))
            end
            return check_middleware_result(outer, call, response,
                outer(request, response, call.next))
        end
    end
    return handler
end

-- Registers a route. `options` may be left out. `called` is the name of the function that scripts
-- call, and `position` that of the pattern among its arguments.
local function register(called, position, method, prefix, pattern, options, handler, middleware)
    called = (prefix == "" and "pinion." or "group.") .. called
    if type(pattern) == "table" then
        error("a route is written with a dot: " .. called .. "(pattern, handler)", 3)
    elseif type(pattern) ~= "string" then
        bad_argument(position, called, "pattern such as \"/hello/:name\"", pattern, 3)
    end
    pattern = prefix .. pattern
    local handler_position = position + 2
    if handler == nil then
        options, handler, handler_position = nil, options, position + 1
    end
    if type(handler) ~= "function" then
        bad_argument(handler_position, called, "function(req, res)", handler, 3)
    elseif options ~= nil and type(options) ~= "table" then
        bad_argument(position + 1, called, "table such as { time = 9 }", options, 3)
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
    -- The syntax of parameters in patterns of other servers.
    local text, instead = host.foreign_parameter(pattern)
    if text then
        host.warn(host.source_position(handler) .. "the pattern \"" .. pattern
            .. "\" matches the text `" .. text .. "` itself; write `" .. instead
            .. "` for a parameter")
    end
    handlers[number] = with_middleware(number, middleware, handler, handler)
end

-- All middleware of the site in the order of registration: { prefix of the group, function }.
local all_middleware = {}

-- Wraps the handler of a page in the middleware of the site, and of the groups whose prefix its
-- path has.
local function page_with_middleware(number, path, handler, page)
    local middleware = {}
    for _, outer in ipairs(all_middleware) do
        if host.is_below(outer[1], path) then
            middleware[#middleware + 1] = outer[2]
        end
    end
    return with_middleware(number, middleware, handler, page)
end

local METHODS = { "get", "head", "post", "put", "delete", "patch", "options", "query" }

-- Adds the functions of a group to a table. `inherited` returns a list of the middleware that is
-- registered outside of the group by now.
local function add_group(into, prefix, inherited)
    local own, name_of = {}, prefix == "" and "pinion." or "group."
    local function middleware()
        local all = inherited()
        for _, outer in ipairs(own) do
            all[#all + 1] = outer
        end
        return all
    end
    for _, name in ipairs(METHODS) do
        local method = name:upper()
        into[name] = function(pattern, options, handler)
            register(name, 1, method, prefix, pattern, options, handler, middleware())
        end
    end
    function into.any(pattern, options, handler)
        register("any", 1, nil, prefix, pattern, options, handler, middleware())
    end
    function into.route(method, pattern, options, handler)
        if type(method) ~= "string" then
            bad_argument(1, name_of .. "route", "method such as \"GET\"", method, 2)
        end
        register("route", 2, method:upper(), prefix, pattern, options, handler, middleware())
    end
    -- Handlers that are registered later run inside of this function.
    function into.use(outer)
        if type(outer) ~= "function" then
            bad_argument(1, name_of .. "use", "function(req, res, next)", outer, 2)
        end
        local why = host.check_group_prefix(prefix)
        if why then
            error(why, 2)
        end
        all_middleware[#all_middleware + 1] = { prefix, outer }
        own[#own + 1] = outer
    end
    function into.group(more, body)
        if type(more) == "table" then
            error("a group is made with a dot: " .. name_of .. "group(prefix)", 2)
        elseif type(more) ~= "string" then
            bad_argument(1, name_of .. "group", "prefix such as \"/admin\"", more, 2)
        elseif body ~= nil and type(body) ~= "function" then
            bad_argument(2, name_of .. "group", "function(group)", body, 2)
        end
        -- The prefix "/admin/" means "/admin".
        local whole = prefix .. more:gsub("/$", "")
        local why = host.check_group_prefix(whole)
        if why then
            error(why, 2)
        end
        local inner = add_group({}, whole, middleware)
        if body then
            body(inner)
        end
        return inner
    end
    return into
end

add_group(pinion, "", function()
    return {}
end)

-- Returns the function that registers a handler for a special case.
local function special_handler(name, signature)
    return function(handler)
        if type(handler) ~= "function" then
            bad_argument(1, "pinion." .. name, signature, handler, 2)
        end
        local why = host.register_special_handler(name)
        if why then
            error(why, 2)
        end
        handlers[name] = handler
        host.set_origin(name, handler)
    end
end

pinion.not_found = special_handler("not_found", "function(req, res)")
pinion.on_error = special_handler("on_error", "function(req, res, message, id)")

return {
    handlers = handlers,
    has_middleware = has_middleware,
    page_with_middleware = page_with_middleware,
}

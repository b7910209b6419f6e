-- The functions and values that pages use by name, such as `query` and `header`. The chunk gets the
-- functions of the host, parts of `prelude.lua`, the functions of `page_output.lua` and the escaper
-- of text. It returns a function for each name, which makes the value for one request, and the
-- function that returns the `locals` of a request.

local host, prelude, output, html = ...

local error, pairs, pcall, rawget, setmetatable, tonumber, type =
    error, pairs, pcall, rawget, setmetatable, tonumber, type
local gsub, match = string.gsub, string.match
local bad_argument, host_error_text = prelude.host.bad_argument, prelude.host_error_text
local response_methods = prelude.response
local completion, fragments, writer = output.completion, output.fragments, output.writer
local parameter_count, query_of = host.parameter_count, host.query

-- The functions by name. Each gets the other values of the page, the request and the output.
local make_value = {}

function make_value.session(_, request, out)
    return prelude.session(request, out)
end

-- In the server 80s this is the connection. Pages of Pinion cannot read or write it.
function make_value.fd()
    return {}
end

-- Returns the table `locals` of a request, in which middleware may have stored values.
local function request_locals(request)
    local own = rawget(request, "locals")
    if own == nil then
        own = {}
        request.locals = own
    end
    return own
end

function make_value.locals(_, request)
    return request_locals(request)
end

function make_value.cookies(_, request)
    return request.cookies
end

function make_value.form(_, request)
    return request:form()
end

function make_value.headers(_, request)
    return request.fields
end

function make_value.body(_, request)
    return request:body()
end

function make_value.method(_, request)
    return request.method
end

function make_value.endpoint(_, request)
    return request.path
end

-- The decrypted query of each request.
local decrypted = setmetatable({}, { __mode = "k" })

function make_value.query(_, request)
    local query = request.query
    -- Most queries have no encrypted parameters. A query that another page of this request has
    -- decrypted is not decrypted again.
    local is_plain = rawget(query, "e") == nil and rawget(query, "e[]") == nil
    if not is_plain and decrypted[request] ~= query then
        host.open_query(query, request.path)
        decrypted[request] = query
    end
    return query
end

function make_value.write(_, _, out)
    return writer(out)
end

function make_value.fragment(_, _, out)
    return fragments(out)
end

function make_value.escape()
    return html
end

function make_value.post_render(values)
    return function(render)
        if type(render) ~= "function" then
            bad_argument(1, "post_render", "function(page) or function(locals, page)", render, 2)
        end
        local renders = values.renders or {}
        values.renders = renders
        renders[#renders + 1] = render
    end
end

-- Calls a function. If it has a parameter, `done`, waits until that is called, and returns the
-- arguments of the call; otherwise returns the results of the function. Functions with `...` alone
-- get `done`, too.
function make_value.await()
    return function(body)
        if type(body) ~= "function" then
            return body
        end
        local done, result = completion(body, false)
        if parameter_count(body) > 0 then
            body(done)
            return result()
        end
        return body(done)
    end
end

-- Returns results of pcall, or raises their error at the line of the page, with the name that the
-- function has in pages.
local function return_or_raise(method, name, ok, ...)
    if ok then
        return ...
    end
    local why = ...
    error(type(why) == "string" and gsub(why, method, name, 1) or why, 3)
end

function make_value.header(_, _, out)
    return function(name, value, more)
        local response = return_or_raise("res:field", "header",
            pcall(response_methods.field, out, name, value, more))
        -- A tail call would remove this frame, which the level of the error counts.
        return response
    end
end

-- Pages for the server 80s write a reason phrase, "400 Bad Request". Clients get the number (RFC
-- 9112 §4).
local function status_code(code)
    return type(code) == "string" and tonumber(match(code, "^(%d%d%d) ")) or code
end

function make_value.status(_, _, out)
    return function(code)
        local response = return_or_raise("res:status", "status",
            pcall(response_methods.status, out, status_code(code)))
        return response
    end
end

-- Only blocks that wait have a `done` with an effect.
function make_value.done()
    return function() end
end

-- Returns a URL of this site, with encrypted parameters unless they have `e = false`.
local function to_url(endpoint, params, fragment)
    local plain, is_encrypted, is_random = {}, true, false
    if type(endpoint) ~= "string" then
        bad_argument(1, "to_url", "path", endpoint, 2)
    elseif params ~= nil and type(params) ~= "table" then
        bad_argument(2, "to_url", "table of parameters", params, 2)
    end
    for name, value in pairs(params or plain) do
        if name == "e" and type(value) == "boolean" then
            is_encrypted = value
        elseif name == "iv" and type(value) == "boolean" then
            is_random = value
        elseif name == "e" or name == "e[]" then
            error("to_url: the parameter \"e\" holds the encrypted ones; use another name", 2)
        else
            plain[name] = value
        end
    end
    local ok, query = pcall(query_of, plain)
    if not ok then
        error(host_error_text(query), 2)
    end
    local url, why = host.to_url(endpoint, query, is_encrypted, is_random, fragment)
    if not url then
        error(why, 2)
    end
    return url
end

function make_value.to_url()
    return to_url
end

return make_value, request_locals

-- What the server lends to pages of templates. Gets functions of the host and parts of the prelude,
-- and gives back the function that makes a handler of a page.

local host, prelude = ...

local concat, error, getmetatable, ipairs, pairs, pcall, rawget, select, tostring, type, unpack =
    table.concat, error, getmetatable, ipairs, pairs, pcall, rawget, select, tostring, type, unpack
local globals, setmetatable = _G, setmetatable
local format, huge, isyieldable = string.format, math.huge, coroutine.isyieldable
local gsub, match, tonumber = string.gsub, string.match, tonumber
-- Whether a text has nothing that is escaped in text or in attributes of HTML; nothing without a
-- compiler, where one call is less than two.
local is_plain = host.is_plain
local said, send, response_methods = prelude.said, prelude.send, prelude.response
local spawned, wait = prelude.spawned, prelude.wait
local bad_argument = prelude.host.bad_argument
local current_fragment, make_fragment = prelude.current_fragment, prelude.make_fragment
local awaits, block_task, current, wake, watch =
    prelude.host.awaits, prelude.host.block, prelude.host.current, prelude.host.wake,
    prelude.host.watch
local BUFFER_BYTES, PIECES = host.ANSWER_BUFFER_BYTES, host.PAGE_PIECES
local KNOWN, KNOWN_BYTES = host.ESCAPED_MAX, host.ESCAPED_MAX_BYTES
local set_field, takes = prelude.host.set_field, host.parameters
local json_encode, query_of, null = host.json_encode, host.query, host.null

-- Escaping -----------------------------------------------------------------------------------

-- A value of any type as text.
local function shown(value)
    local kind = type(value)
    -- Numbers of 64 bits are cdata in LuaJIT.
    if kind == "number" or kind == "boolean" or kind == "cdata" then
        return tostring(value)
    elseif value == nil or value == null then
        return ""
    end
    local meta = getmetatable(value)
    if type(meta) == "table" and meta.__tostring then
        local text = tostring(value)
        local given = type(text)
        if given ~= "string" and given ~= "number" then
            error("`__tostring` of a value returned a " .. given .. " and not a string", 3)
        end
        return given == "string" and text or tostring(text)
    end
    if kind == "function" then
        error("a function cannot be inserted; call it: #[[name()]]", 3)
    end
    error("a " .. kind .. " cannot be inserted; insert one of its fields, or use "
        .. "pinion.json.encode", 3)
end

-- Numbers need no escaping where they have only harmless signs.
local function escaper(escape, takes_numbers, is_plain)
    -- Pages show the same short texts again and again, and a look into a table is compiled.
    local known, count = {}, 0
    return function(value)
        local kind = type(value)
        if kind == "string" then
            if is_plain and is_plain(value) then
                return value
            end
            local escaped = known[value]
            if escaped then
                return escaped
            end
            escaped = escape(value)
            if #value <= KNOWN_BYTES then
                if count == KNOWN then
                    known, count = {}, 0
                end
                known[value], count = escaped, count + 1
            end
            return escaped
        elseif kind == "number" and takes_numbers then
            return tostring(value)
        end
        local text = shown(value)
        return escape(text)
    end
end

local function json(value)
    local is_well, text = pcall(json_encode, value)
    if not is_well then
        error(said(text), 3)
    end
    return text
end

local escapers = { format = format }
for name, escape in pairs(host.escapers) do
    local is_markup = host.is_markup[name]
    escapers[name] = escaper(escape, host.takes_numbers[name], is_markup and is_plain)
end
function escapers.esc_raw(value)
    if type(value) == "string" then
        return value
    end
    local text = shown(value)
    return text
end
local attribute, script = host.escapers.esc_attr, host.script
function escapers.esc_js(value)
    local text = json(value)
    return script(text)
end
function escapers.esc_js_attr(value)
    local text = json(value)
    return attribute(script(text))
end
local html = escapers.esc_html

-- What handlers get, and what a page has in place of it.
local HAVE_REQUEST = "write method, endpoint, query, headers, cookies, form, body or locals"
local HAVE_RESPONSE = "write status(code) and header(name, value), and header(\"Location\", url) "
    .. "with status(303) for a redirect"
local HANDLERS_HAVE = { req = HAVE_REQUEST, request = HAVE_REQUEST, res = HAVE_RESPONSE,
    response = HAVE_RESPONSE }
local REDIRECT = "pages have no `redirect`: write status(303) and header(\"Location\", url)"

-- What pages find by names that they have not declared: globals. One that is not there is a slip
-- of the pen far more often than it is meant, and would show nothing.
local environment = setmetatable({}, {
    __metatable = false,
    __newindex = globals,
    __index = function(_, name)
        local value = globals[name]
        if value == nil then
            name = tostring(name)
            local instead = HANDLERS_HAVE[name]
            if instead then
                error("pages have no `" .. name .. "`, which only handlers get: " .. instead, 2)
            elseif name == "redirect" then
                error(REDIRECT, 2)
            end
            error("there is no variable \"" .. name .. "\"; declare it with `local`, or write `_G."
                .. name .. "` for a global that may be nil", 2)
        end
        return value
    end,
})

-- The answer of a page -----------------------------------------------------------------------

-- Called when there are many pieces: they go out if they have many bytes.
local function full(out)
    local n, bytes = out.n, out.bytes
    for at = out.weighed + 1, n do
        local piece = out[at]
        bytes = bytes + (type(piece) == "string" and #piece or 8)
    end
    out.bytes, out.weighed = bytes, n
    -- Nothing can wait in a function that the host has called, such as one for `gsub`.
    if bytes > BUFFER_BYTES and isyieldable() then
        send(out, "write")
        n, out.weighed = 1, 1
    end
    out.most = n + PIECES
end

-- Strings among the values of a format are escaped, numbers stay numbers.
local function formatted(pattern, ...)
    local values, count = { ... }, select("#", ...)
    for at = 1, count do
        if type(values[at]) ~= "number" then
            values[at] = html(values[at])
        end
    end
    local is_well, text = pcall(format, pattern, unpack(values, 1, count))
    if not is_well then
        error(said(text), 3)
    end
    return text
end

local function writer(out)
    return function(piece, ...)
        local n = out.n
        if not n then
            error("the page is complete; nothing can be written to it any more", 2)
        end
        local kind = type(piece)
        if select("#", ...) > 0 then
            piece = formatted(piece, ...)
        elseif kind == "number" then
            piece = tostring(piece)
        elseif kind == "table" then
            piece = json(piece)
        elseif kind ~= "string" then
            bad_argument(1, "write", "string, number or table", piece, 2)
        end
        n = n + 1
        out.n, out[n] = n, piece
        if n > out.most then
            full(out)
        end
    end
end

-- Writes what the function writes, and keeps that until something changes that it has read from the
-- store.
local function fragments(out)
    return function(name, body)
        if type(name) ~= "string" then
            bad_argument(1, "fragment", "string", name, 2)
        elseif type(body) ~= "function" then
            bad_argument(2, "fragment", "function()", body, 2)
        elseif not out.n then
            error("the page is complete; nothing can be written to it any more", 2)
        end
        local entry = current_fragment(name)
        local text = entry and entry.value or make_fragment(name, function()
            local start, most = out.n, out.most
            -- What is sent meanwhile would be missing.
            out.most = huge
            local is_well, why = pcall(body)
            local text = is_well and concat(out, "", start + 1, out.n)
            out.n, out.most = start, most
            if not is_well then
                error(why, 0)
            end
            return text
        end)
        local n = out.n + 1
        out.n, out[n], out.has_fragments = n, text, true
        if n > out.most then
            full(out)
        end
    end
end

-- What is lent, each made for a page that names it: from what is lent besides, the request and what
-- the page has written.
local lend = {}

function lend.session(_, request, out)
    return prelude.session(request, out)
end

-- In 80s it is the connection. Nothing here reads or writes one past the server.
function lend.fd()
    return {}
end

-- That of the request, in which what runs around the page may have put something.
local function locals(request)
    local own = rawget(request, "locals")
    if own == nil then
        own = {}
        request.locals = own
    end
    return own
end

function lend.locals(_, request)
    return locals(request)
end

function lend.cookies(_, request)
    return request.cookies
end

function lend.form(_, request)
    return request:form()
end

function lend.headers(_, request)
    return request.fields
end

function lend.body(_, request)
    return request:body()
end

function lend.method(_, request)
    return request.method
end

function lend.endpoint(_, request)
    return request.path
end

-- By requests, the queries that were opened.
local opened = setmetatable({}, { __mode = "k" })

function lend.query(_, request)
    local query = request.query
    -- What mostly comes has nothing that is encrypted, or said to be. What a page before has opened
    -- is not what the client has said.
    local has_none = rawget(query, "e") == nil and rawget(query, "e[]") == nil
    if not has_none and opened[request] ~= query then
        host.open_query(query, request.path)
        opened[request] = query
    end
    return query
end

function lend.write(_, _, out)
    return writer(out)
end

function lend.fragment(_, _, out)
    return fragments(out)
end

function lend.escape()
    return html
end

function lend.post_render(lent)
    return function(render)
        if type(render) ~= "function" then
            bad_argument(1, "post_render", "function(page) or function(locals, page)", render, 2)
        end
        local renders = lent.renders or {}
        lent.renders = renders
        renders[#renders + 1] = render
    end
end

-- A function to be called once, by any coroutine of the request, and one that waits until it was.
-- `body` is the function of the script that has to see to that, and `is_block` that it is a block.
local function signal(body, is_block)
    local is_done, values, count, waiting = false, nil, 0, nil
    local function done(...)
        if not is_done then
            is_done, values, count = true, { ... }, select("#", ...)
            if waiting then
                wake(waiting)
            end
        end
    end
    return done, function()
        if not is_done then
            waiting = current()
            awaits(body, is_block)
            repeat
                wait("wake")
            until is_done
            awaits(nil, is_block)
        end
        return unpack(values, 1, count)
    end
end

-- Gives all that the function hands to the function that it gets; all that it returns, if it takes
-- none.
function lend.await()
    return function(body)
        if type(body) ~= "function" then
            return body
        end
        local done, result = signal(body, false)
        if takes(body) > 0 then
            body(done)
            return result()
        end
        return body(done)
    end
end

-- Fails where the page has called, by the name that the function has there.
local function named(method, name, is_well, ...)
    if is_well then
        return ...
    end
    local why = ...
    error(type(why) == "string" and gsub(why, method, name, 1) or why, 3)
end

function lend.header(_, _, out)
    return function(name, value, more)
        local response = named("res:field", "header",
            pcall(response_methods.field, out, name, value, more))
        return response
    end
end

-- Pages of 80s name the phrase too, "400 Bad Request". Clients get the number (RFC 9112 §4).
local function status_code(code)
    return type(code) == "string" and tonumber(match(code, "^(%d%d%d) ")) or code
end

function lend.status(_, _, out)
    return function(code)
        local response = named("res:status", "status",
            pcall(response_methods.status, out, status_code(code)))
        return response
    end
end

-- Outside of blocks that wait there is nothing to go on with.
function lend.done()
    return function() end
end

local function to_url(endpoint, params, fragment)
    local plain, is_sealed, is_random = {}, true, false
    if type(endpoint) ~= "string" then
        bad_argument(1, "to_url", "path", endpoint, 2)
    elseif params ~= nil and type(params) ~= "table" then
        bad_argument(2, "to_url", "table of parameters", params, 2)
    end
    for name, value in pairs(params or plain) do
        if name == "e" and type(value) == "boolean" then
            is_sealed = value
        elseif name == "iv" and type(value) == "boolean" then
            is_random = value
        elseif name == "e" or name == "e[]" then
            error("to_url: the parameter \"e\" holds the encrypted ones; use another name", 2)
        else
            plain[name] = value
        end
    end
    local is_well, query = pcall(query_of, plain)
    if not is_well then
        error(said(query), 2)
    end
    local url, why = host.to_url(endpoint, query, is_sealed, is_random, fragment)
    if not url then
        error(why, 2)
    end
    return url
end

function lend.to_url()
    return to_url
end

-- A block that waits. The page goes on when the block has called `done`.
local function async(out)
    return function(block)
        local done, finished = signal(block, true)
        block(done, out, writer(out), fragments(out))
        finished()
    end
end

-- Blocks that wait at the same time: each writes what is put in its place when all are through.
local function parallel(out, blocks)
    return function(block)
        local part = { n = 0, bytes = 0, weighed = 0, most = huge, full = full }
        local at = out.n + 1
        out.n, out[at] = at, ""
        local one = { part = part, at = at }
        blocks[#blocks + 1] = one
        one.id = spawned(block_task(function()
            local is_well, why = pcall(function()
                local done, finished = signal(block, true)
                block(done, part, writer(part), fragments(part))
                finished()
            end)
            one.is_done, one.why = is_well, why
        end))
    end
end

local function join(out, blocks)
    for _, one in ipairs(blocks) do
        while watch(one.id) do
            wait("wake")
        end
        if not one.is_done then
            error(one.why or "a block of the page was ended by a limit; the log has the reason in "
                .. "an earlier line", 0)
        end
        out[one.at] = concat(one.part, "", 1, one.part.n)
    end
end

local function rendered(lent, request, text)
    for _, render in ipairs(lent.renders) do
        local again
        if takes(render) >= 2 then
            again = render(locals(request), text)
        else
            again = render(text)
        end
        if type(again) == "string" then
            text = again
        elseif again ~= nil then
            error("post_render: the function returned a " .. type(again)
                .. ", not the page as a string", 0)
        end
    end
    return text
end

-- Makes the handler of a page out of its path, chunk, the text that it sends as it is, its type,
-- the names of what it uses, and what it is: whether it can be sent while it is made, has blocks
-- that wait, and they do so at the same time.
local function make(number, path, chunk, segments, media, used, is_streamed, has_async, is_parallel)
    local page = chunk(segments, escapers)
    -- Places in a page that are filled later stay until then, and all behind them.
    local pieces = is_streamed and not is_parallel and PIECES or huge
    -- The page is written to the answer, behind what whoever runs around it has written.
    prelude.handlers[number] = prelude.guarded(number, path, function(request, out)
        local start = out.n
        if not start then
            error("the response is complete, and no page can follow", 0)
        end
        local why = not out.has_begun and set_field(out.id, "Content-Type", media, false)
        if why then
            error(why, 0)
        end
        out.weighed, out.most, out.full = start, start + pieces, full
        local lent = {}
        for at = 1, #used do
            local name = used[at]
            lent[name] = lend[name](lent, request, out)
        end
        local blocks = is_parallel and {}
        if has_async then
            lent.async = blocks and parallel(out, blocks) or async(out)
        end
        page(lent, out)
        if blocks then
            join(out, blocks)
        end
        if lent.renders then
            local text = concat(out, "", start + 1, out.n)
            out.n, out[start + 1] = start + 1, rendered(lent, request, text)
        end
    end, page)
end

return make, environment

-- The methods of `res`, and how a response is sent. The chunk gets the functions of the host and
-- parts of `prelude.lua`. It returns the methods, and the functions that make and send responses.

local host, prelude = ...

local concat, error, min, pcall, select, setmetatable, tostring, type =
    table.concat, error, math.min, pcall, select, setmetatable, tostring, type
local check_own, host_error_text, json_encode, wait =
    prelude.check_own, prelude.host_error_text, prelude.json_encode, prelude.wait
local bad_argument, check_object = host.bad_argument, host.check_object
local BUFFER_BYTES, FEW_PIECES, MANY_PIECES =
    host.RESPONSE_BUFFER_BYTES, host.FEW_PIECES, host.MANY_PIECES
local PREFIX_FIRST, PREFIX_COUNT = host.PREFIX_FIRST, host.PREFIX_COUNT
local new_table = host.new_table

-- A response is { "", piece, piece, …, id = the ID of the request }; `n` is the index of the last
-- piece. The first element is for a prefix that the host removes.
local response_methods = {}
local Response = { __index = response_methods, __name = "response" }

-- Refuses a call for a response that is complete. `call` shows the correct call of the method.
local function check_is_open(response, call, level)
    check_object(response, Response, call, level or 3)
    if not response.n then
        error(response.is_file
            and "res:file has sent the complete response; write and return nothing after it"
            or "the response is complete; nothing can be written to it any more", level or 3)
    end
end

-- Refuses a change of the status or of fields that have been sent.
local function check_head_is_open(response, call)
    check_is_open(response, call, 4)
    if response.has_begun then
        error("the headers have been sent already; set status and headers before the first flush",
            3)
    end
end

-- Returns all pieces as one string, after a number that the host removes. It makes long strings
-- differ at their start, so that LuaJIT does not hash them completely (`vm/response_text.rs`).
local serial = 0
local function with_unique_prefix(response)
    serial = (serial + 1) % PREFIX_COUNT
    response[1] = PREFIX_FIRST + serial
    return concat(response, "", 1, response.n)
end

-- Sends the pieces by an operation of the host, and waits for it.
local function send(response, operation)
    check_own(response.id, 4)
    local n = response.n
    local text = with_unique_prefix(response)
    for index = 2, n do
        response[index] = nil
    end
    response.n, response.bytes, response.has_begun = 1, 0, true
    wait(operation, response.id, text)
end

-- Adds a piece. `position` is that of the piece among the arguments of `write`; nil for a piece
-- that a producer has returned.
local function add(response, piece, position)
    local kind = type(piece)
    if kind == "number" then
        piece = tostring(piece)
    elseif kind ~= "string" then
        if position then
            bad_argument(position, "res:write", "string or number", piece, 3)
        end
        error("the function of res:stream returned a " .. kind
            .. "; it returns a string or a number, and nil after the last one", 3)
    end
    local n = response.n + 1
    response[n] = piece
    response.n, response.bytes = n, response.bytes + #piece
end

function response_methods.write(response, piece, ...)
    check_is_open(response, "res:write(text)")
    local count = select("#", ...)
    local second, third = ...
    if count == 2 and type(piece) == "string" and type(second) == "string"
        and type(third) == "string" then
        -- The most common call makes one piece.
        add(response, piece .. second .. third, 1)
    else
        add(response, piece, 1)
        for index = 1, count do
            add(response, (select(index, ...)), index + 1)
        end
    end
    if response.bytes > BUFFER_BYTES then
        send(response, "write")
    end
    return response
end

-- Sends the pieces that have been written.
function response_methods.flush(response)
    check_is_open(response, "res:flush()")
    send(response, "flush")
    return response
end

-- Sends each piece that a function returns at once, until it returns nil. Waits while the client
-- does not read.
function response_methods.stream(response, producer)
    check_is_open(response, "res:stream(producer)")
    if type(producer) ~= "function" then
        bad_argument(1, "res:stream", "function", producer, 2)
    end
    while true do
        local piece = producer()
        if piece == nil then
            return response
        end
        -- The function may have completed the response.
        check_is_open(response, "res:stream(producer)")
        add(response, piece)
        send(response, "flush")
    end
end

function response_methods.status(response, code)
    check_head_is_open(response, "res:status(code)")
    local why = host.set_status(response.id, code)
    if why then
        error(why, 2)
    end
    response.has_status = true
    return response
end

-- Sets a field; with `is_more`, in addition to fields of the same name.
local function set_field(response, name, value, is_more)
    if type(value) == "number" then
        value = tostring(value)
    end
    if type(name) ~= "string" then
        bad_argument(1, "res:field", "string", name, 3)
    elseif type(value) ~= "string" and value ~= nil then
        bad_argument(2, "res:field", "string", value, 3)
    end
    local why = host.set_field(response.id, name, value, is_more or false)
    if why then
        error(why, 3)
    end
end

-- Sets a field, or removes it if there is no value. With `more` fields of the same name are kept.
function response_methods.field(response, name, value, more)
    check_head_is_open(response, "res:field(name, value)")
    set_field(response, name, value, more == "more" or more == true)
    return response
end

function response_methods.cookie(response, name, value, options)
    check_head_is_open(response, "res:cookie(name, value)")
    if options ~= nil and type(options) ~= "table" then
        bad_argument(3, "res:cookie", "table", options, 2)
    end
    local text, why = host.cookie(name, value, options)
    if why then
        error(why, 2)
    end
    set_field(response, "Set-Cookie", text, true)
    return response
end

function response_methods.html(response, text)
    check_head_is_open(response, "res:html(text)")
    if type(text) ~= "string" and type(text) ~= "number" then
        bad_argument(1, "res:html", "string", text, 2)
    end
    set_field(response, "Content-Type", "text/html; charset=utf-8")
    response_methods.write(response, text)
    return response
end

function response_methods.json(response, ...)
    check_head_is_open(response, "res:json(value)")
    if select("#", ...) == 0 then
        error("bad argument #1 to 'res:json' (value expected, got no value; write res:json(nil) "
            .. "for a null)", 2)
    end
    local value, options = ...
    local ok, text = pcall(json_encode, value, options)
    if not ok then
        error(host_error_text(text, "res:json"), 2)
    end
    set_field(response, "Content-Type", "application/json")
    response_methods.write(response, text)
    return response
end

-- Turns compression on or off: the length of a compressed response reveals a secret in it if an
-- attacker controls a part of the content (BREACH).
function response_methods.compress(response, is_wanted)
    check_head_is_open(response, "res:compress(false)")
    if type(is_wanted) ~= "boolean" then
        bad_argument(1, "res:compress", "boolean", is_wanted, 2)
    end
    local why = host.set_compressed(response.id, is_wanted)
    if why then
        error(why, 2)
    end
    return response
end

function response_methods.redirect(response, location, code)
    check_head_is_open(response, "res:redirect(location)")
    code = code or 303
    if type(location) ~= "string" then
        bad_argument(1, "res:redirect", "string", location, 2)
    elseif type(code) ~= "number" or code < 300 or code > 399 then
        error("bad argument #2 to 'res:redirect' (status from 300 to 399 expected, got "
            .. tostring(code) .. ")", 2)
    end
    local why = host.set_status(response.id, code)
    if why then
        error(why, 2)
    end
    set_field(response, "Location", location)
    response.has_status = true
    return response
end

-- The number of pieces that the last response of each route had, if there were many.
local piece_counts = {}

-- Returns an empty response. Its table has room for as many pieces as the last response of the
-- route, so that it does not have to grow.
local function new_response(id, route)
    local count = new_table and piece_counts[route]
    if not count then
        return setmetatable({ "", "", "", "", "", id = id, n = 1, bytes = 0 }, Response)
    end
    -- Pages store some named fields in it: eight hash slots.
    local response = new_table(count, 8)
    response[1], response.id, response.n, response.bytes = "", id, 1, 0
    return setmetatable(response, Response)
end

-- Returns the content that is still to be sent: a string, or the response and the index of its last
-- piece.
local function take_rest(response, route)
    local n = response.n or 1
    local is_long = n > FEW_PIECES
    if is_long or piece_counts[route] then
        piece_counts[route] = is_long and min(n, MANY_PIECES) or nil
    end
    -- The host reads many or long pieces from the table, without one string of all of them.
    if is_long or response.has_fragments then
        return response, n
    elseif n == 2 then
        return response[2]
    end
    return concat(response, "", 2, n)
end

return {
    check_head_is_open = check_head_is_open,
    methods = response_methods,
    new_response = new_response,
    send = send,
    take_rest = take_rest,
}

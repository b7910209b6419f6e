-- Answers of handlers: what they write, and how it leaves them. Gets the functions of the host and
-- what the runtime has of its own, and gives back the methods of an answer and what the runtime
-- does with it.

local host, own = ...

local concat, error, min, pcall, select, setmetatable, tostring, type =
    table.concat, error, math.min, pcall, select, setmetatable, tostring, type
local check_own, json_encode, said, wait = own.check_own, own.json_encode, own.said, own.wait
local bad_argument, check_object = host.bad_argument, host.check_object
local BUFFER_BYTES, FEW_PIECES, MANY_PIECES, STAMP_FIRST, STAMPS =
    host.ANSWER_BUFFER_BYTES, host.FEW_PIECES, host.MANY_PIECES, host.STAMP_FIRST, host.STAMPS
local new_table = host.new_table

-- An answer is { "", piece, piece, …, id = whose it is }; `n` is where its last piece stands. In
-- front is a place for what the host leaves out.
local response_methods = {}
local Response = { __index = response_methods, __name = "response" }

-- `call` is how the method is called.
local function is_open(response, call, level)
    check_object(response, Response, call, level or 3)
    if not response.n then
        error(response.is_file
            and "res:file has sent the complete response; write and return nothing after it"
            or "the response is complete; nothing can be written to it any more", level or 3)
    end
end

local function changes_head(response, call)
    is_open(response, call, 4)
    if response.has_begun then
        error("the headers have been sent already; set status and headers before the first flush",
            3)
    end
end

-- All that was written, behind a number that the host leaves out: where it takes the text it says
-- why.
local serial = 0
local function stamped(response)
    serial = (serial + 1) % STAMPS
    response[1] = STAMP_FIRST + serial
    return concat(response, "", 1, response.n)
end

local function send(response, operation)
    check_own(response.id, 4)
    local n = response.n
    local text = stamped(response)
    for at = 2, n do
        response[at] = nil
    end
    response.n, response.bytes, response.has_begun = 1, 0, true
    wait(operation, response.id, text)
end

-- `at` says which argument of `write` the piece is; none where a producer gave it.
local function add(response, piece, at)
    local kind = type(piece)
    if kind == "number" then
        piece = tostring(piece)
    elseif kind ~= "string" then
        if at then
            bad_argument(at, "res:write", "string or number", piece, 3)
        end
        error("the function of res:stream returned a " .. kind
            .. "; it returns a string or a number, and nil after the last one", 3)
    end
    local n = response.n + 1
    response[n] = piece
    response.n, response.bytes = n, response.bytes + #piece
end

function response_methods.write(response, piece, ...)
    is_open(response, "res:write(text)")
    local count = select("#", ...)
    local second, third = ...
    if count == 2 and type(piece) == "string" and type(second) == "string"
        and type(third) == "string" then
        -- The most common one.
        add(response, piece .. second .. third, 1)
    else
        add(response, piece, 1)
        for at = 1, count do
            add(response, (select(at, ...)), at + 1)
        end
    end
    if response.bytes > BUFFER_BYTES then
        send(response, "write")
    end
    return response
end

-- What was written so far goes out now.
function response_methods.flush(response)
    is_open(response, "res:flush()")
    send(response, "flush")
    return response
end

-- Sends what a function gives, each piece at once, until it gives nil; no faster than the client
-- reads.
function response_methods.stream(response, producer)
    is_open(response, "res:stream(producer)")
    if type(producer) ~= "function" then
        bad_argument(1, "res:stream", "function", producer, 2)
    end
    while true do
        local piece = producer()
        if piece == nil then
            return response
        end
        -- It may have ended the answer itself.
        is_open(response, "res:stream(producer)")
        add(response, piece)
        send(response, "flush")
    end
end

function response_methods.status(response, code)
    changes_head(response, "res:status(code)")
    local why = host.set_status(response.id, code)
    if why then
        error(why, 2)
    end
    response.has_status = true
    return response
end

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

-- Sets a field; without a value takes it away; with `more` beside those of the same name.
function response_methods.field(response, name, value, more)
    changes_head(response, "res:field(name, value)")
    set_field(response, name, value, more == "more" or more == true)
    return response
end

function response_methods.cookie(response, name, value, options)
    changes_head(response, "res:cookie(name, value)")
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
    changes_head(response, "res:html(text)")
    if type(text) ~= "string" and type(text) ~= "number" then
        bad_argument(1, "res:html", "string", text, 2)
    end
    set_field(response, "Content-Type", "text/html; charset=utf-8")
    response_methods.write(response, text)
    return response
end

function response_methods.json(response, ...)
    changes_head(response, "res:json(value)")
    if select("#", ...) == 0 then
        error("bad argument #1 to 'res:json' (value expected, got no value; write res:json(nil) "
            .. "for a null)", 2)
    end
    local value, options = ...
    local is_well, text = pcall(json_encode, value, options)
    if not is_well then
        error(said(text, "res:json"), 2)
    end
    set_field(response, "Content-Type", "application/json")
    response_methods.write(response, text)
    return response
end

-- Compressed or not: the length of a page tells about a secret beside what others choose.
function response_methods.compress(response, is_wanted)
    changes_head(response, "res:compress(false)")
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
    changes_head(response, "res:redirect(location)")
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

-- The pieces that the last answer of a handler had, if they were many.
local rooms = {}

-- A table with as many pieces need not grow on the way.
local function response_of(id, route)
    local room = new_table and rooms[route]
    if not room then
        return setmetatable({ "", "", "", "", "", id = id, n = 1, bytes = 0 }, Response)
    end
    -- What pages keep in it has names as well.
    local response = new_table(room, 8)
    response[1], response.id, response.n, response.bytes = "", id, 1, 0
    return setmetatable(response, Response)
end

-- What is left to send: a string, or a response and where its last piece stands.
local function rest(response, route)
    local n = response.n or 1
    local is_long = n > FEW_PIECES
    if is_long or rooms[route] then
        rooms[route] = is_long and min(n, MANY_PIECES) or nil
    end
    -- The host takes many or long pieces from where they are, without a string of all.
    if is_long or response.has_fragments then
        return response, n
    elseif n == 2 then
        return response[2]
    end
    return concat(response, "", 2, n)
end

return {
    changes_head = changes_head,
    methods = response_methods,
    response_of = response_of,
    rest = rest,
    send = send,
}

-- `pinion.fetch` and `pinion.secret`: requests to other servers. The chunk gets the functions of
-- the host, the table `pinion`, the function that waits and the functions for JSON. It returns the
-- methods of responses.

local host, pinion, wait, json_encode, json_decode = ...

local concat, error, getmetatable, lower, pairs, pcall, setmetatable, sort, tostring, type =
    table.concat, error, getmetatable, string.lower, pairs, pcall, setmetatable, table.sort,
    tostring, type
local bad_argument, check_object = host.bad_argument, host.check_object

local response_methods = {}
local Response = { __name = "response" }

-- The table of the fields is made when a script first uses it.
function Response.__index(response, key)
    if key == "fields" then
        local fields = host.fetch_fields(response[3])
        response.fields = fields
        return fields
    end
    return response_methods[key]
end

-- The type of each option.
local OPTIONS = {
    body = "string or function", fields = "table", json = "any value", length = "number",
    max_bytes = "number", method = "string", redirects = "number", socket = "string",
    timeout = "number",
}

local function check_options(options)
    for key, value in pairs(options) do
        local expected = OPTIONS[key]
        if not expected then
            local names = {}
            for name in pairs(OPTIONS) do
                names[#names + 1] = name
            end
            sort(names)
            error("pinion.fetch has no option \"" .. tostring(key) .. "\"; its options are "
                .. concat(names, ", "), 3)
        end
        local kind = type(value)
        local is_right = expected == kind or expected == "any value"
            or key == "body" and (kind == "string" or kind == "number" or kind == "function")
        if not is_right then
            error("the option `" .. key .. "` of pinion.fetch is a " .. expected .. ", not a "
                .. kind, 3)
        elseif kind == "number" and not (value >= 0) then
            error("the option `" .. key .. "` of pinion.fetch is a number from 0 on", 3)
        end
    end
    if options.json ~= nil and options.body ~= nil then
        error("pinion.fetch takes `json` or `body`, not both", 3)
    end
end

-- Returns the fields of a request that sends JSON.
local function json_fields(fields)
    local all, has_type = {}, false
    for name, value in pairs(fields or {}) do
        all[name] = value
        has_type = has_type or type(name) == "string" and lower(name) == "content-type"
    end
    if not has_type then
        all["Content-Type"] = "application/json"
    end
    return all
end

-- Sends the pieces that a function returns, until it returns nil or the server needs no more.
local function send_pieces(id, body)
    while true do
        local may_write, is_over = host.fetch_takes(id)
        if is_over then
            return
        elseif not may_write then
            wait("wake")
        else
            local piece = body()
            if type(piece) == "number" then
                piece = tostring(piece)
            elseif piece ~= nil and type(piece) ~= "string" then
                error("the function that gives the body of pinion.fetch returned a " .. type(piece)
                    .. "; return a string, or nil at the end", 0)
            end
            host.fetch_write(id, piece)
            if piece == nil then
                return
            end
        end
    end
end

-- Sends a request to another server and waits for the head of the response. Returns the response;
-- nil and the reason if there is none.
function pinion.fetch(url, options)
    if type(url) ~= "string" then
        bad_argument(1, "pinion.fetch", "URL such as \"https://example.org/\"", url, 2)
    elseif options == nil then
        options = {}
    elseif type(options) ~= "table" then
        bad_argument(2, "pinion.fetch", "table such as { method = \"POST\" }", options, 2)
    end
    check_options(options)
    if host.current() == 0 then
        -- This raises the error that the main script cannot wait.
        wait("wake")
    end
    local body, fields, pieces = options.body, options.fields, nil
    if options.json ~= nil then
        body, fields = json_encode(options.json), json_fields(fields)
    elseif type(body) == "function" then
        body, pieces = nil, body
    elseif body ~= nil then
        body = tostring(body)
    end
    local method = options.method or (body or pieces) and "POST" or "GET"
    local id, why = host.fetch_start(method, url, fields, body, pieces ~= nil, options.length,
        options.timeout, options.redirects, options.max_bytes, options.socket)
    if not id then
        return nil, why
    end
    if pieces then
        local ok, wrong = pcall(send_pieces, id, pieces)
        if not ok then
            host.fetch_close(id)
            error(wrong, 0)
        end
    end
    while true do
        local status, url_or_reason, lines = host.fetch_head(id)
        if status then
            return setmetatable({ id, nil, lines, status = status, url = url_or_reason or url },
                Response)
        elseif url_or_reason then
            -- There is no response; the second result is the reason.
            return nil, url_or_reason
        end
        wait("wake")
    end
end

local function check_bytes(bytes, name)
    if bytes ~= nil and type(bytes) ~= "number" then
        bad_argument(1, name, "number", bytes, 3)
    end
end

-- Waits for the next piece of the content. Returns nil at the end; nil and the reason if the
-- content was cut off.
local function next_piece(response, bytes)
    while true do
        local piece, is_over, why = host.fetch_read(response[1], bytes)
        if piece then
            return piece
        elseif is_over then
            return nil, why
        end
        wait("wake")
    end
end

function response_methods.read(response, bytes)
    check_object(response, Response, "response:read(bytes)", 2)
    check_bytes(bytes, "response:read")
    local piece, why = next_piece(response, bytes)
    return piece, why
end

-- Returns an iterator over the pieces. It raises an error if the content was cut off, because a
-- loop cannot get the reason.
function response_methods.pieces(response, bytes)
    check_object(response, Response, "response:pieces(bytes)", 2)
    check_bytes(bytes, "response:pieces")
    return function()
        local piece, why = next_piece(response, bytes)
        if why then
            error(why, 2)
        end
        return piece
    end
end

-- Returns the content that has not been read, as one string; nil and the reason if it was cut off.
function response_methods.body(response)
    check_object(response, Response, "response:body()", 2)
    local body = response[2]
    if body then
        return body
    end
    local pieces, count = {}, 0
    while true do
        local piece, why = next_piece(response)
        if why then
            return nil, why
        elseif not piece then
            break
        end
        count = count + 1
        pieces[count] = piece
    end
    body = concat(pieces, "", 1, count)
    response[2] = body
    return body
end

-- Returns the value of JSON content; nil and the reason if the content is no JSON.
function response_methods.json(response)
    check_object(response, Response, "response:json()", 2)
    local body, why = response:body()
    if not body then
        return nil, why
    end
    return json_decode(body)
end

-- Returns the value of a field; the values of several lines are joined with commas.
function response_methods.field(response, name)
    check_object(response, Response, "response:field(name)", 2)
    if type(name) ~= "string" then
        bad_argument(1, "response:field", "string", name, 2)
    end
    return response.fields[lower(name)]
end

-- Drops the rest of the content.
function response_methods.close(response)
    check_object(response, Response, "response:close()", 2)
    host.fetch_close(response[1])
end

-- Returns a secret of the site.
function pinion.secret(name)
    if type(name) ~= "string" then
        bad_argument(1, "pinion.secret", "string", name, 2)
    end
    local value, why = host.secret(name)
    if not value then
        error(why, 2)
    end
    return value
end

return response_methods

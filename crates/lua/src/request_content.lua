-- The content of a request as a script reads it. The chunk gets the host's functions, the methods
-- of requests and their metatable, what waits, and what makes sure that a request is that of
-- whoever runs.

local host, methods, Request, wait, check_own = ...

local error, setmetatable, type = error, setmetatable, type
local bad_argument, check_object = host.bad_argument, host.check_object
local take_piece, take_whole, take_form = host.take_piece, host.take_whole, host.take_form
local read_file = host.read_file

-- What `take` has, as soon as it has come. The caller of whoever calls this is to blame.
local function await(take, ...)
    while true do
        local value, must_wait, why = take(...)
        if why then
            error(why, 3)
        end
        if not must_wait then
            return value
        end
        check_own((...), 4)
        wait("content")
    end
end

local function check_bytes(bytes, name)
    if bytes ~= nil and type(bytes) ~= "number" then
        bad_argument(1, name, "number", bytes, 3)
    end
end

-- The content may have so many bytes.
function methods.limit(request, bytes)
    check_object(request, Request, "req:limit(bytes)", 2)
    if type(bytes) ~= "number" then
        bad_argument(1, "req:limit", "number", bytes, 2)
    end
    local why = host.limit_content(request[1], bytes)
    if why then
        error(why, 2)
    end
    return request
end

-- The next bytes, as soon as there are some; nil at the end.
function methods.read(request, bytes)
    check_object(request, Request, "req:read(bytes)", 2)
    check_bytes(bytes, "req:read")
    local piece = await(take_piece, request[1], bytes)
    return piece
end

function methods.pieces(request, bytes)
    check_object(request, Request, "req:pieces(bytes)", 2)
    check_bytes(bytes, "req:pieces")
    return function()
        local piece = await(take_piece, request[1], bytes)
        return piece
    end
end

-- The content, or what is left of it, as one string.
function methods.body(request)
    check_object(request, Request, "req:body()", 2)
    local body = request[2]
    if not body then
        body = await(take_whole, request[1])
        request[2] = body
    end
    return body
end

-- Files of a form: { id, number, name =, size =, type = }.
local file_methods = {}
local File = { __index = file_methods, __name = "file" }

local function content(file, at, bytes)
    local text, why = read_file(file[1], file[2], at, bytes)
    if why then
        error(why, 3)
    end
    return text
end

function file_methods.read(file)
    check_object(file, File, "file:read()", 2)
    local text = content(file)
    return text
end

function file_methods.pieces(file, bytes)
    check_object(file, File, "file:pieces(bytes)", 2)
    check_bytes(bytes, "file:pieces")
    local at = 0
    return function()
        local piece = content(file, at, bytes or host.PIECE_BYTES)
        if piece == "" then
            return nil
        end
        at = at + #piece
        return piece
    end
end

local function new_file(id, number, name, size, kind)
    return setmetatable({ id, number, name = name, size = size, type = kind }, File)
end

-- The fields of a form, and its files.
function methods.form(request)
    check_object(request, Request, "req:form()", 2)
    local form = request[3]
    if not form then
        form = await(take_form, request[1], new_file)
        if not form then
            return host.parse_form(request:body())
        end
        request[3] = form
    end
    return form
end

return file_methods

-- The methods of `req` that read the content of a request. The chunk gets the functions of the
-- host, the methods of requests and their metatable, the function that waits, and the check of the
-- running request. It adds its methods and returns those of uploaded files.

local host, methods, Request, wait, check_own = ...

local error, setmetatable, type = error, setmetatable, type
local bad_argument, check_object = host.bad_argument, host.check_object
local take_piece, take_whole, take_form = host.take_piece, host.take_whole, host.take_form
local read_file = host.read_file

-- Calls `take` until it has a result, and waits in between. Errors have the position of the script,
-- which has called the caller of this function.
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

-- Sets the maximum length of the content, in bytes.
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

-- Waits for the next bytes and returns them; nil at the end.
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

-- Returns the content that has not been read, as one string.
function methods.body(request)
    check_object(request, Request, "req:body()", 2)
    local body = request[2]
    if not body then
        body = await(take_whole, request[1])
        request[2] = body
    end
    return body
end

-- Uploaded files of a form: { id, number, name =, size =, type = }.
local file_methods = {}
local File = { __index = file_methods, __name = "file" }

local function content(file, offset, bytes)
    local text, why = read_file(file[1], file[2], offset, bytes)
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
    local offset = 0
    return function()
        local piece = content(file, offset, bytes or host.PIECE_BYTES)
        if piece == "" then
            return nil
        end
        offset = offset + #piece
        return piece
    end
end

local function new_file(id, number, name, size, kind)
    return setmetatable({ id, number, name = name, size = size, type = kind }, File)
end

-- Returns the fields and files of a form.
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

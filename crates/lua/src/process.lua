-- Programs that scripts run. The chunk gets the host's functions, the table of the site and what
-- waits, and gives back the methods of programs that run.

local host, pinion, wait = ...

local concat, error, pairs, pcall, setmetatable, sort, sub, tostring, type =
    table.concat, error, pairs, pcall, setmetatable, table.sort, string.sub, tostring, type
local bad_argument, check_object = host.bad_argument, host.check_object

local process = {}
pinion.process = process

local process_methods = {}
local Process = { __name = "process", __index = process_methods }

-- The type that each option has.
local OPTIONS = { input = "string or function", timeout = "number" }

local function check_options(options)
    for key, value in pairs(options) do
        local expected = OPTIONS[key]
        if not expected then
            local names = {}
            for name in pairs(OPTIONS) do
                names[#names + 1] = name
            end
            sort(names)
            error("pinion.process.run has no option \"" .. tostring(key) .. "\"; its options are "
                .. concat(names, ", "), 3)
        end
        local kind = type(value)
        if not (expected == kind or key == "input" and (kind == "string" or kind == "function"))
        then
            error("the option `" .. key .. "` of pinion.process.run is a " .. expected
                .. ", not a " .. kind, 3)
        elseif kind == "number" and not (value > 0) then
            error("the option `" .. key .. "` of pinion.process.run is a number above 0", 3)
        end
    end
end

-- Arguments are strings; numbers are written as such.
local function check_arguments(arguments)
    local texts = {}
    for at = 1, #arguments do
        local argument = arguments[at]
        if type(argument) == "number" then
            argument = tostring(argument)
        elseif type(argument) ~= "string" then
            error("argument " .. at .. " of the program is a " .. type(argument)
                .. "; write a string", 3)
        end
        texts[at] = argument
    end
    return texts
end

-- A function that gives the pieces of a string.
local PIECE_BYTES = 65536

local function pieces_of(text)
    local at = 1
    return function()
        if at > #text then
            return nil
        end
        local piece = sub(text, at, at + PIECE_BYTES - 1)
        at = at + PIECE_BYTES
        return piece
    end
end

-- Gives the program as much of its input as it takes now.
local function feed(running)
    while running.input do
        local may_write, is_over = host.process_takes(running.id)
        if is_over then
            running.input = nil
        elseif not may_write then
            return
        else
            local is_well, piece = pcall(running.input)
            if is_well and type(piece) == "number" then
                piece = tostring(piece)
            elseif is_well and piece ~= nil and type(piece) ~= "string" then
                is_well, piece = false, "the function that gives the input of a program returned "
                    .. "a " .. type(piece) .. "; return a string, or nil at the end"
            end
            if not is_well then
                running.input = nil
                host.process_close(running.id)
                error(piece, 0)
            end
            host.process_write(running.id, piece)
            if piece == nil then
                running.input = nil
            end
        end
    end
end

-- Runs a program of the site. What runs, as soon as it does; nil and why if it does not.
function process.run(name, arguments, options)
    if type(name) ~= "string" then
        bad_argument(1, "pinion.process.run", "string", name, 2)
    elseif arguments ~= nil and type(arguments) ~= "table" then
        bad_argument(2, "pinion.process.run", "table such as { \"--version\" }", arguments, 2)
    elseif options ~= nil and type(options) ~= "table" then
        bad_argument(3, "pinion.process.run", "table such as { input = text }", options, 2)
    end
    options = options or {}
    check_options(options)
    local texts = check_arguments(arguments or {})
    if host.current() == 0 then
        -- The main script cannot wait while it starts, which this says.
        wait("wake")
    end
    local input = options.input
    local id, why, is_unknown = host.process_start(name, texts, input ~= nil, options.timeout)
    if not id then
        if is_unknown then
            error(why, 2)
        end
        return nil, why
    end
    if type(input) == "string" then
        input = pieces_of(input)
    end
    while true do
        local pid, failed = host.process_started(id)
        if pid then
            local running = setmetatable({ id = id, pid = pid, input = input }, Process)
            feed(running)
            return running
        elseif failed then
            return nil, failed
        end
        wait("wake")
    end
end

-- A program has ended: what is known of it stays with the script.
local function finish(running, why)
    if not running.has_ended then
        running.has_ended = true
        running.status, running.signal = host.process_exit(running.id)
        running.why = why
        host.process_close(running.id)
    end
end

-- The next piece of the output; nil at the end, and nil and why if there is no more of it.
local function next_piece(running, bytes)
    while true do
        feed(running)
        local piece, is_over, why = host.process_read(running.id, bytes)
        if piece then
            return piece
        elseif is_over then
            finish(running, why)
            return nil, why
        end
        wait("wake")
    end
end

local function check_bytes(bytes, name)
    if bytes ~= nil and type(bytes) ~= "number" then
        bad_argument(1, name, "number", bytes, 3)
    end
end

function process_methods.read(running, bytes)
    check_object(running, Process, "process:read(bytes)", 2)
    check_bytes(bytes, "process:read")
    local piece, why = next_piece(running, bytes)
    return piece, why
end

-- All pieces. A loop cannot see why there is no next one, so what goes wrong is an error.
function process_methods.pieces(running, bytes)
    check_object(running, Process, "process:pieces(bytes)", 2)
    check_bytes(bytes, "process:pieces")
    return function()
        local piece, why = next_piece(running, bytes)
        if why then
            error(why, 2)
        end
        return piece
    end
end

-- The output, or what is left of it, as one string; nil and why if it is not complete.
function process_methods.output(running)
    check_object(running, Process, "process:output()", 2)
    local pieces, count = {}, 0
    while true do
        local piece, why = next_piece(running)
        if why then
            return nil, why
        elseif not piece then
            break
        end
        count = count + 1
        pieces[count] = piece
    end
    return concat(pieces, "", 1, count)
end

-- The status with which the program has ended; nil and why if it was stopped, or ended by a signal.
-- Output that was not read is dropped, so that the program does not wait for its reader.
function process_methods.wait(running)
    check_object(running, Process, "process:wait()", 2)
    while not running.has_ended do
        next_piece(running)
    end
    if running.status then
        return running.status
    end
    return nil, running.why or "ended by " .. (running.signal or "process:close()")
end

-- The program is not wanted any more.
function process_methods.close(running)
    check_object(running, Process, "process:close()", 2)
    running.input, running.has_ended = nil, true
    host.process_close(running.id)
end

return process_methods

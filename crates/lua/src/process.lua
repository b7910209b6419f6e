-- `pinion.process`: programs that scripts run. The chunk gets the functions of the host, the table
-- `pinion` and the function that waits. It returns the methods of running programs.

local host, pinion, wait = ...

local concat, error, pairs, pcall, setmetatable, sort, sub, tostring, type =
    table.concat, error, pairs, pcall, setmetatable, table.sort, string.sub, tostring, type
local bad_argument, check_object = host.bad_argument, host.check_object

local process = {}
pinion.process = process

local process_methods = {}
local Process = { __name = "process", __index = process_methods }

-- The type of each option.
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

-- Returns the arguments as strings.
local function argument_texts(arguments)
    local texts = {}
    for index = 1, #arguments do
        local argument = arguments[index]
        if type(argument) == "number" then
            argument = tostring(argument)
        elseif type(argument) ~= "string" then
            error("argument " .. index .. " of the program is a " .. type(argument)
                .. "; write a string", 3)
        end
        texts[index] = argument
    end
    return texts
end

local PIECE_BYTES = 65536

-- Returns a function that returns the pieces of a string.
local function pieces_of(text)
    local start = 1
    return function()
        if start > #text then
            return nil
        end
        local piece = sub(text, start, start + PIECE_BYTES - 1)
        start = start + PIECE_BYTES
        return piece
    end
end

-- Writes as much of the input as the program accepts now.
local function write_input(running)
    while running.input do
        local may_write, is_over = host.process_takes(running.id)
        if is_over then
            running.input = nil
        elseif not may_write then
            return
        else
            local ok, piece = pcall(running.input)
            if ok and type(piece) == "number" then
                piece = tostring(piece)
            elseif ok and piece ~= nil and type(piece) ~= "string" then
                ok, piece = false, "the function that gives the input of a program returned "
                    .. "a " .. type(piece) .. "; return a string, or nil at the end"
            end
            if not ok then
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

-- Runs a program of the site. Returns the running program; nil and the reason if it did not start.
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
    local texts = argument_texts(arguments or {})
    if host.current() == 0 then
        -- This raises the error that the main script cannot wait.
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
            write_input(running)
            return running
        elseif failed then
            return nil, failed
        end
        wait("wake")
    end
end

-- Stores how a program has ended, and releases it.
local function finish(running, why)
    if not running.has_ended then
        running.has_ended = true
        running.status, running.signal = host.process_exit(running.id)
        running.why = why
        host.process_close(running.id)
    end
end

-- Waits for the next piece of the output. Returns nil at the end; nil and the reason if the output
-- was cut off.
local function next_piece(running, bytes)
    while true do
        write_input(running)
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

-- Returns an iterator over the pieces. It raises an error if the output was cut off, because a loop
-- cannot get the reason.
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

-- Returns the output that has not been read, as one string; nil and the reason if it was cut off.
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

-- Waits for the end of the program. Returns its exit status; nil and the reason if it was stopped
-- or ended by a signal. Drops output that was not read, so that the program does not block.
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

-- Stops the program.
function process_methods.close(running)
    check_object(running, Process, "process:close()", 2)
    running.input, running.has_ended = nil, true
    host.process_close(running.id)
end

return process_methods

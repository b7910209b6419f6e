-- Functions that write to a page: `write`, `fragment`, and blocks that wait. The chunk gets the
-- functions of the host, parts of `prelude.lua`, the escaper of text and the function for JSON.

local host, prelude, html, json = ...

local concat, error, ipairs, pcall, select, tostring, type, unpack =
    table.concat, error, ipairs, pcall, select, tostring, type, unpack
local format, huge, isyieldable = string.format, math.huge, coroutine.isyieldable
local bad_argument = prelude.host.bad_argument
local check_spawned, host_error_text, send, wait =
    prelude.check_spawned, prelude.host_error_text, prelude.send, prelude.wait
local current_fragment, make_fragment = prelude.current_fragment, prelude.make_fragment
local awaits, block_task, current, wake, watch =
    prelude.host.awaits, prelude.host.block, prelude.host.current, prelude.host.wake,
    prelude.host.watch
local BUFFER_BYTES, PIECES = host.RESPONSE_BUFFER_BYTES, host.PAGE_PIECES

-- The page calls this when it has many pieces. Sends them if they have many bytes.
local function on_full(out)
    local n, bytes = out.n, out.bytes
    for index = out.counted + 1, n do
        local piece = out[index]
        bytes = bytes + (type(piece) == "string" and #piece or 8)
    end
    out.bytes, out.counted = bytes, n
    -- A function that the host has called, such as one for `gsub`, cannot wait.
    if bytes > BUFFER_BYTES and isyieldable() then
        send(out, "write")
        n, out.counted = 1, 1
    end
    out.most = n + PIECES
end

-- Formats values: strings are escaped, and numbers stay numbers.
local function escaped_format(pattern, ...)
    local values, count = { ... }, select("#", ...)
    for index = 1, count do
        if type(values[index]) ~= "number" then
            values[index] = html(values[index])
        end
    end
    local ok, text = pcall(format, pattern, unpack(values, 1, count))
    if not ok then
        error(host_error_text(text), 3)
    end
    return text
end

-- Returns the function `write` of a page.
local function writer(out)
    return function(piece, ...)
        local n = out.n
        if not n then
            error("the page is complete; nothing can be written to it any more", 2)
        end
        local kind = type(piece)
        if select("#", ...) > 0 then
            piece = escaped_format(piece, ...)
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
            on_full(out)
        end
    end
end

-- Returns the function `fragment` of a page: it writes the output of a function, which is kept
-- until keys of the store change that the function has read.
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
            -- Pieces that are sent meanwhile would be missing in the fragment.
            out.most = huge
            local ok, why = pcall(body)
            local text = ok and concat(out, "", start + 1, out.n)
            out.n, out.most = start, most
            if not ok then
                error(why, 0)
            end
            return text
        end)
        local n = out.n + 1
        out.n, out[n], out.has_fragments = n, text, true
        if n > out.most then
            on_full(out)
        end
    end
end

-- Returns two functions: `done`, which any coroutine of the request calls once, and one that waits
-- for that call and returns its arguments. The log names `body` as the function that did not call
-- `done`; `is_block` says that it is a block of a page.
local function event(body, is_block)
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

-- Returns a function that runs a block and waits until it has called `done`.
local function async(out)
    return function(block)
        local done, finished = event(block, true)
        block(done, out, writer(out), fragments(out))
        finished()
    end
end

-- Returns a function that starts a block, which runs at the same time as others. Its output is
-- inserted by `join`.
local function parallel(out, blocks)
    return function(block)
        local part = { n = 0, bytes = 0, counted = 0, most = huge, full = on_full }
        local index = out.n + 1
        out.n, out[index] = index, ""
        local started = { part = part, index = index }
        blocks[#blocks + 1] = started
        started.id = check_spawned(block_task(function()
            local ok, why = pcall(function()
                local done, finished = event(block, true)
                block(done, part, writer(part), fragments(part))
                finished()
            end)
            started.is_done, started.why = ok, why
        end))
    end
end

-- Waits for all blocks and inserts their output.
local function join(out, blocks)
    for _, started in ipairs(blocks) do
        while watch(started.id) do
            wait("wake")
        end
        if not started.is_done then
            error(started.why or "a block of the page was ended by a limit; the log has the reason "
                .. "in an earlier line", 0)
        end
        out[started.index] = concat(started.part, "", 1, started.part.n)
    end
end

return {
    async = async,
    event = event,
    fragments = fragments,
    join = join,
    on_full = on_full,
    parallel = parallel,
    writer = writer,
}

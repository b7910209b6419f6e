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
local set_awaited, spawn_block, current, wake, wake_when_done =
    prelude.host.set_awaited, prelude.host.spawn_block, prelude.host.current, prelude.host.wake,
    prelude.host.wake_when_done
local BUFFER_BYTES, PIECES = host.RESPONSE_BUFFER_BYTES, host.PAGE_PIECES

-- The page calls this when it has many pieces. Sends them if they have many bytes.
local function send_if_large(out)
    local n, bytes = out.n, out.bytes
    for index = out.counted_pieces + 1, n do
        local piece = out[index]
        bytes = bytes + (type(piece) == "string" and #piece or 8)
    end
    out.bytes, out.counted_pieces = bytes, n
    -- A function that the host has called, such as one for `gsub`, cannot wait.
    if bytes > BUFFER_BYTES and isyieldable() then
        send(out, "write")
        n, out.counted_pieces = 1, 1
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
            send_if_large(out)
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
            send_if_large(out)
        end
    end
end

-- Returns `done`, which any coroutine of the request calls once, and a function that waits for that
-- call and returns its arguments. If it never comes, the log names `body` as the function that did
-- not call `done`; `is_block` says that it is a block of a page.
local function completion(body, is_block)
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
            set_awaited(body, is_block)
            repeat
                wait("wake")
            until is_done
            set_awaited(nil, is_block)
        end
        return unpack(values, 1, count)
    end
end

-- Returns the function `async` of a page: it runs a block and waits until the block has called
-- `done`.
local function waiting_block(out)
    return function(block)
        local done, finished = completion(block, true)
        block(done, out, writer(out), fragments(out))
        finished()
    end
end

-- Returns the function `async` of a page with parallel blocks: it starts a block, which runs at the
-- same time as the others. `join` inserts its output.
local function parallel_block(out, blocks)
    return function(block)
        local part = { n = 0, bytes = 0, counted_pieces = 0, most = huge, full = send_if_large }
        local index = out.n + 1
        out.n, out[index] = index, ""
        local started = { part = part, index = index }
        blocks[#blocks + 1] = started
        started.id = check_spawned(spawn_block(function()
            local ok, why = pcall(function()
                local done, finished = completion(block, true)
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
        while wake_when_done(started.id) do
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
    completion = completion,
    fragments = fragments,
    join = join,
    send_if_large = send_if_large,
    parallel_block = parallel_block,
    waiting_block = waiting_block,
    writer = writer,
}

-- Handlers of template pages. The chunk gets the functions of the host and parts of `prelude.lua`.
-- It returns the function that makes the handler of a page, and the environment of pages.

local host, prelude = ...

local concat, error, ipairs, tostring, type = table.concat, error, ipairs, tostring, type
local format, huge, setmetatable = string.format, math.huge, setmetatable
local globals, parameter_count, set_field = _G, host.parameter_count, prelude.host.set_field
local PIECES = host.PAGE_PIECES

local escapers, json = host.page_escapers(host, prelude)
escapers.format = format
local output = host.page_output(host, prelude, escapers.esc_html, json)
local send_if_large = output.send_if_large
local make_value, request_locals = host.page_values(host, prelude, output, escapers.esc_html)

-- Hints for names that only handlers have.
local HAVE_REQUEST = "write method, endpoint, query, headers, cookies, form, body or locals"
local HAVE_RESPONSE = "write status(code) and header(name, value), and header(\"Location\", url) "
    .. "with status(303) for a redirect"
local HANDLERS_HAVE = { req = HAVE_REQUEST, request = HAVE_REQUEST, res = HAVE_RESPONSE,
    response = HAVE_RESPONSE }
local REDIRECT = "pages have no `redirect`: write status(303) and header(\"Location\", url)"

-- The environment of pages: the globals. A name without a value is an error, because it is far more
-- often a typing error than intended, and the page would lack a part.
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

-- Passes the page to the functions of `post_render`. Returns the new page.
local function post_rendered(values, request, text)
    for _, render in ipairs(values.renders) do
        local again
        if parameter_count(render) >= 2 then
            again = render(request_locals(request), text)
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

-- Makes the handler of a page from its route, path, compiled chunk, literal segments, media type
-- and the names that it uses. `is_streamed` says that the page can be sent while it runs,
-- `has_async` that it has blocks that wait, and `is_parallel` that they run at the same time.
local function make_handler(number, path, chunk, segments, media_type, names, is_streamed,
    has_async, is_parallel)
    local page = chunk(segments, escapers)
    -- The output of parallel blocks is inserted at the end, so nothing can be sent before.
    local pieces = is_streamed and not is_parallel and PIECES or huge
    -- The page is appended to the output of its middleware.
    local function handler(request, out)
        local start = out.n
        if not start then
            error("the response is complete, and no page can follow", 0)
        end
        local why = not out.has_begun and set_field(out.id, "Content-Type", media_type, false)
        if why then
            error(why, 0)
        end
        out.counted_pieces, out.most, out.full = start, start + pieces, send_if_large
        local values = {}
        for index = 1, #names do
            local name = names[index]
            values[name] = make_value[name](values, request, out)
        end
        local blocks = is_parallel and {}
        if has_async then
            values.async = blocks and output.parallel_block(out, blocks)
                or output.waiting_block(out)
        end
        page(values, out)
        if blocks then
            output.join(out, blocks)
        end
        if values.renders then
            local text = concat(out, "", start + 1, out.n)
            out.n, out[start + 1] = start + 1, post_rendered(values, request, text)
        end
    end
    prelude.handlers[number] = prelude.page_with_middleware(number, path, handler, page)
end

return make_handler, environment

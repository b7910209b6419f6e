-- The escapers of values in pages. The chunk gets the functions of the host and parts of
-- `prelude.lua`. It returns the escapers by name, and the functions for text and JSON.

local host, prelude = ...

local error, getmetatable, pairs, pcall, tostring, type =
    error, getmetatable, pairs, pcall, tostring, type
local host_error_text = prelude.host_error_text
-- Returns whether a string has no character that is escaped in text or attributes of HTML. Without
-- a compiler this is nil: one call of the escaper is faster than two calls.
local is_plain = host.is_plain
local CACHE_MAX, CACHED_MAX_BYTES = host.ESCAPED_MAX, host.ESCAPED_MAX_BYTES
local json_encode, null = host.json_encode, host.null

-- Returns a value of any type as text.
local function to_text(value)
    local kind = type(value)
    -- Integers of 64 bits are cdata in LuaJIT.
    if kind == "number" or kind == "boolean" or kind == "cdata" then
        return tostring(value)
    elseif value == nil or value == null then
        return ""
    end
    local meta = getmetatable(value)
    if type(meta) == "table" and meta.__tostring then
        local text = tostring(value)
        local kind_of_text = type(text)
        if kind_of_text ~= "string" and kind_of_text ~= "number" then
            error("`__tostring` of a value returned a " .. kind_of_text
                .. " and not a string", 3)
        end
        return kind_of_text == "string" and text or tostring(text)
    end
    if kind == "function" then
        error("a function cannot be inserted; call it: #[[name()]]", 3)
    end
    error("a " .. kind .. " cannot be inserted; insert one of its fields, or use "
        .. "pinion.json.encode", 3)
end

-- Returns an escaper with a cache. `takes_numbers` says that numbers need no escaping in this
-- context.
local function cached_escaper(escape, takes_numbers, is_plain)
    -- Pages have the same short strings again and again, and LuaJIT compiles a lookup in a table.
    local cache, count = {}, 0
    return function(value)
        local kind = type(value)
        if kind == "string" then
            if is_plain and is_plain(value) then
                return value
            end
            local escaped = cache[value]
            if escaped then
                return escaped
            end
            escaped = escape(value)
            if #value <= CACHED_MAX_BYTES then
                if count == CACHE_MAX then
                    cache, count = {}, 0
                end
                cache[value], count = escaped, count + 1
            end
            return escaped
        elseif kind == "number" and takes_numbers then
            return tostring(value)
        end
        local text = to_text(value)
        return escape(text)
    end
end

-- Returns a value as JSON.
local function json(value)
    local ok, text = pcall(json_encode, value)
    if not ok then
        error(host_error_text(text), 3)
    end
    return text
end

local escapers = {}
for name, escape in pairs(host.escapers) do
    local is_markup = host.is_markup[name]
    escapers[name] = cached_escaper(escape, host.takes_numbers[name], is_markup and is_plain)
end
function escapers.esc_raw(value)
    if type(value) == "string" then
        return value
    end
    local text = to_text(value)
    return text
end
local attribute, script = host.escapers.esc_attr, host.script
function escapers.esc_js(value)
    local text = json(value)
    return script(text)
end
function escapers.esc_js_attr(value)
    local text = json(value)
    return attribute(script(text))
end

return escapers, json

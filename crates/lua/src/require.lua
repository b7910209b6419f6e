-- `require`: Lua files of the site by their names, each run once in each VM.

local host = ...

-- The function of Lua; nil unless the script may use the whole machine.
local lua_require = require

local concat, error, ipairs, pcall, running, setmetatable, type =
    table.concat, error, ipairs, pcall, coroutine.running, setmetatable, type

-- The results of modules, by name.
local loaded = {}

-- The modules that are being loaded, in a list for each coroutine: one that waits, or is ended
-- while it loads a module, does not block the others.
local loading = setmetatable({}, { __mode = "k" })

-- The key of code that runs in no coroutine.
local MAIN = {}

local function finish_loading(list, name, ok, value)
    list[#list] = nil
    if not ok then
        error(value, 0)
    end
    if value == nil then
        value = true
    end
    loaded[name] = value
    return value
end

function require(name)
    if type(name) ~= "string" then
        error("bad argument #1 to 'require' (string expected, got " .. type(name) .. ")", 2)
    end
    local known = loaded[name]
    if known ~= nil then
        return known
    end
    local key = running() or MAIN
    local list = loading[key]
    if not list then
        list = {}
        loading[key] = list
    end
    for _, earlier in ipairs(list) do
        if earlier == name then
            local circle = concat(list, "\" requires \"") .. "\" requires \"" .. name
            error("modules require each other in a circle: \"" .. circle .. "\"", 2)
        end
    end
    local chunk, why = host.code(name)
    if not chunk then
        if lua_require and host.is_missing(name) then
            return lua_require(name)
        end
        error(why, 2)
    end
    list[#list + 1] = name
    return finish_loading(list, name, pcall(chunk, name))
end

-- `require`: Lua files of the site by their names, each run once in each VM.

local host = ...

-- That of Lua, where the script is trusted with the machine.
local of_system = require

local concat, error, ipairs, pcall, running, setmetatable, type =
    table.concat, error, ipairs, pcall, coroutine.running, setmetatable, type

-- What modules have given, by name.
local loaded = {}

-- The modules that are being loaded, in a list for each coroutine: where one waits, or is ended in
-- the middle of it, others are not held up.
local loading = setmetatable({}, { __mode = "k" })

-- What every coroutine outside of any other has for a key.
local MAIN = {}

local function finished(list, name, is_well, value)
    list[#list] = nil
    if not is_well then
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
        if of_system and host.is_missing(name) then
            return of_system(name)
        end
        error(why, 2)
    end
    list[#list + 1] = name
    return finished(list, name, pcall(chunk, name))
end

-- Work beside requests. The chunk gets the host's functions, the table of the site and what waits,
-- and gives back what checks that a task has begun.

local host, pinion, wait = ...

local error, next, pcall, select, setmetatable, tostring, type, unpack =
    error, next, pcall, select, setmetatable, tostring, type, unpack
local bad_argument = host.bad_argument

local function check_function(work, position, name)
    if type(work) ~= "function" then
        bad_argument(position, name, "function", work, 3)
    end
end

local function begun(id, why)
    if not id then
        error(why, 3)
    end
    return id
end

-- Runs `work` when the request that asks for it has been answered.
function pinion.spawn(work)
    check_function(work, 1, "pinion.spawn")
    begun(host.after(work))
end

-- What each task waits for, other tasks. Who waits holds the table, so nothing stays of one that
-- was ended meanwhile.
local awaited = setmetatable({}, { __mode = "v" })

-- Whether a task waits for another one, by way of others too.
local function leads_to(from, to)
    local seen, found, at = { [from] = true }, { from }, 1
    while found[at] do
        if found[at] == to then
            return true
        end
        local ids = awaited[found[at]]
        for each = 1, ids and #ids or 0 do
            if not seen[ids[each]] then
                seen[ids[each]], found[#found + 1] = true, ids[each]
            end
        end
        at = at + 1
    end
    return false
end

-- Runs functions at the same time and waits for all of them; their first results, in this order.
function pinion.gather(...)
    local count = select("#", ...)
    local ids, values, whys = {}, {}, {}
    for at = 1, count do
        check_function((select(at, ...)), at, "pinion.gather")
    end
    for at = 1, count do
        local work = select(at, ...)
        ids[at] = begun(host.child(function()
            local is_well, value = pcall(work)
            values[at], whys[at] = value, not is_well
        end))
    end
    local own, failed = host.current(), nil
    awaited[own] = ids
    for at = 1, count do
        while host.watch(ids[at]) do
            wait("wake")
        end
        if whys[at] ~= false then
            failed = at
            break
        end
    end
    awaited[own] = nil
    if failed and whys[failed] == nil then
        error("function #" .. failed .. " of pinion.gather was ended by a limit; the log has the "
            .. "reason in an earlier line", 2)
    elseif failed then
        error(values[failed], 0)
    end
    return unpack(values, 1, count)
end

local function repeated(name, when, work, options)
    if type(work) ~= "function" then
        bad_argument(2, name, "function", work, 3)
    elseif options ~= nil and type(options) ~= "table" then
        bad_argument(3, name, "table", options, 3)
    end
    for key in next, options or {} do
        if key ~= "each_worker" then
            error(name .. " has no option \"" .. tostring(key) .. "\"; its only option is "
                .. "`each_worker`", 3)
        end
    end
    local why = host.schedule(when, work, (options and options.each_worker) == true)
    if why then
        error(why, 3)
    end
end

-- Runs `work` again and again, in one of the workers or in each.
function pinion.every(seconds, work, options)
    if type(seconds) ~= "number" then
        bad_argument(1, "pinion.every", "number", seconds, 2)
    end
    repeated("pinion.every", seconds, work, options)
end

function pinion.cron(line, work, options)
    if type(line) ~= "string" then
        bad_argument(1, "pinion.cron", "line such as \"30 4 * * 1\"", line, 2)
    end
    repeated("pinion.cron", line, work, options)
end

-- A value that is made once in so many seconds, by the first who asks for it; the others wait.
local cache, cache_keys, cache_next = {}, {}, 1

local function remember(key, entry)
    -- The oldest goes, whoever asks for it again has it made again.
    local old = cache_keys[cache_next]
    if old ~= nil and cache[old] and cache[old].place == cache_next then
        cache[old] = nil
    end
    cache_keys[cache_next], entry.place = key, cache_next
    cache_next = cache_next % host.CACHE_MAX + 1
    cache[key] = entry
end

-- What the host calls when memory is short. Whoever has a value made still gets it.
host.on_shortage(function()
    for key, entry in next, cache do
        if entry.until_ms then
            cache[key], cache_keys[entry.place] = nil, nil
        end
    end
end)

function pinion.cached(key, seconds, produce)
    if key == nil then
        bad_argument(1, "pinion.cached", "key", key, 2)
    elseif type(seconds) ~= "number" then
        bad_argument(2, "pinion.cached", "number", seconds, 2)
    end
    check_function(produce, 3, "pinion.cached")
    local entry, own = cache[key], host.current()
    -- Around a circle nothing would ever be made.
    if entry and not entry.until_ms and leads_to(entry.maker, own) then
        error("pinion.cached(\"" .. tostring(key) .. "\"): its function calls pinion.cached with "
            .. "the same key, itself or through what it waits for, and would wait for itself; "
            .. "use another key", 2)
    end
    if not entry or (entry.until_ms and entry.until_ms <= host.now_ms()) then
        entry = {}
        entry.maker = begun(host.own(function()
            local is_well, value = pcall(produce)
            if is_well then
                -- False is a value too.
                entry.value = value
            else
                entry.why = { value }
            end
            entry.until_ms = is_well and host.now_ms() + seconds * 1000 or 0
        end))
        remember(key, entry)
    end
    if not entry.until_ms then
        local ids = { entry.maker }
        awaited[own] = ids
        while not entry.until_ms and host.watch(ids[1]) do
            wait("wake")
        end
        awaited[own] = nil
    end
    if not entry.until_ms then
        -- It was ended over its budget.
        entry.until_ms, entry.why = 0, { "pinion.cached(\"" .. tostring(key)
            .. "\"): its function was ended by a limit; the log has the reason in an earlier line" }
    end
    if entry.why then
        error(entry.why[1], 0)
    end
    return entry.value
end

-- Passwords, by Argon2id. A thread of its own does it: it is meant to take long.
pinion.password = {}

function pinion.password.hash(password)
    if type(password) ~= "string" then
        bad_argument(1, "pinion.password.hash", "string", password, 2)
    end
    host.hash_password(password)
    return wait("job")
end

-- Whether this is the password that was stored.
function pinion.password.verify(password, stored)
    if type(password) ~= "string" then
        bad_argument(1, "pinion.password.verify", "string", password, 2)
    elseif type(stored) ~= "string" then
        bad_argument(2, "pinion.password.verify", "string", stored, 2)
    end
    host.verify_password(password, stored)
    return wait("job")
end

-- Messages to all workers, this one too.
function pinion.send(channel, value)
    if type(channel) ~= "string" then
        bad_argument(1, "pinion.send", "string", channel, 2)
    end
    local why = host.send(channel, value)
    if why then
        error(why, 2)
    end
end

function pinion.on(channel, work)
    if type(channel) ~= "string" then
        bad_argument(1, "pinion.on", "string", channel, 2)
    end
    check_function(work, 2, "pinion.on")
    local why = host.on(channel, work)
    if why then
        error(why, 2)
    end
end

-- What outlives a reload: copies of plain values.
-- Adds to a counter that all workers share, 1 unless `by` says otherwise, and gives the sum.
function pinion.count(name, by)
    if type(name) ~= "string" then
        bad_argument(1, "pinion.count", "string", name, 2)
    end
    if by == nil then
        by = 1
    elseif type(by) ~= "number" then
        bad_argument(2, "pinion.count", "number", by, 2)
    elseif by % 1 ~= 0 or by > 2^53 or by < -2^53 then
        error("bad argument #2 to 'pinion.count' (whole number up to 2^53 expected)", 2)
    end
    local sum, why = host.count(name, by)
    if why then
        error(why, 2)
    end
    return sum
end

pinion.keep = setmetatable({}, {
    __index = function(_, name)
        if type(name) == "string" then
            return host.kept(name)
        end
    end,
    __newindex = function(_, name, value)
        if type(name) ~= "string" then
            error("a name in pinion.keep is a string, not a " .. type(name), 2)
        end
        local why = host.keep(name, value)
        if why then
            error(why, 2)
        end
    end,
    __metatable = "keep",
})

return begun

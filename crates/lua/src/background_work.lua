-- Background tasks, cached values, password hashes, messages between workers and counters. The
-- chunk gets the functions of the host, the table `pinion` and the function that waits. It returns
-- the check that a task was spawned.

local host, pinion, wait = ...

local error, next, pcall, select, setmetatable, tostring, type, unpack =
    error, next, pcall, select, setmetatable, tostring, type, unpack
local bad_argument = host.bad_argument

local function check_function(work, position, name)
    if type(work) ~= "function" then
        bad_argument(position, name, "function", work, 3)
    end
end

local function check_spawned(id, why)
    if not id then
        error(why, 3)
    end
    return id
end

-- Runs `work` after the response to the request.
function pinion.spawn(work)
    check_function(work, 1, "pinion.spawn")
    check_spawned(host.spawn_after_request(work))
end

-- The tasks that each task waits for. The values are weak: when a waiting task is ended, its list
-- is collected, and the entry disappears.
local awaited = setmetatable({}, { __mode = "v" })

-- Returns whether a task waits for another one, directly or through other tasks.
local function waits_for(from, to)
    local seen, found, index = { [from] = true }, { from }, 1
    while found[index] do
        if found[index] == to then
            return true
        end
        local ids = awaited[found[index]]
        for each = 1, ids and #ids or 0 do
            if not seen[ids[each]] then
                seen[ids[each]], found[#found + 1] = true, ids[each]
            end
        end
        index = index + 1
    end
    return false
end

-- Runs functions at the same time and waits for all of them. Returns the first result of each, in
-- the order of the arguments.
function pinion.gather(...)
    local count = select("#", ...)
    local ids, values, has_failed = {}, {}, {}
    for index = 1, count do
        check_function((select(index, ...)), index, "pinion.gather")
    end
    for index = 1, count do
        local work = select(index, ...)
        ids[index] = check_spawned(host.spawn_child(function()
            local ok, value = pcall(work)
            values[index], has_failed[index] = value, not ok
        end))
    end
    local task, failed = host.current(), nil
    awaited[task] = ids
    for index = 1, count do
        while host.wake_when_done(ids[index]) do
            wait("wake")
        end
        if has_failed[index] ~= false then
            failed = index
            break
        end
    end
    awaited[task] = nil
    if failed and has_failed[failed] == nil then
        error("function #" .. failed .. " of pinion.gather was ended by a limit; the log has the "
            .. "reason in an earlier line", 2)
    elseif failed then
        error(values[failed], 0)
    end
    return unpack(values, 1, count)
end

local function schedule(name, when, work, options)
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

-- Runs `work` at the times of a schedule, in one of the workers or in each.
function pinion.every(seconds, work, options)
    if type(seconds) ~= "number" then
        bad_argument(1, "pinion.every", "number", seconds, 2)
    end
    schedule("pinion.every", seconds, work, options)
end

function pinion.cron(line, work, options)
    if type(line) ~= "string" then
        bad_argument(1, "pinion.cron", "line such as \"30 4 * * 1\"", line, 2)
    end
    schedule("pinion.cron", line, work, options)
end

-- The values of pinion.cached. The first caller makes the value; the others wait for it.
local cache, cache_keys, cache_next = {}, {}, 1

local function store_in_cache(key, entry)
    -- The oldest value makes room; it is made again when it is needed.
    local old = cache_keys[cache_next]
    if old ~= nil and cache[old] and cache[old].index == cache_next then
        cache[old] = nil
    end
    cache_keys[cache_next], entry.index = key, cache_next
    cache_next = cache_next % host.CACHE_MAX + 1
    cache[key] = entry
end

-- The host calls this when memory is short. Values that are being made are kept.
host.on_memory_pressure(function()
    for key, entry in next, cache do
        if entry.until_ms then
            cache[key], cache_keys[entry.index] = nil, nil
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
    local entry, task = cache[key], host.current()
    -- Tasks that wait for each other in a circle would wait forever.
    if entry and not entry.until_ms and waits_for(entry.maker, task) then
        error("pinion.cached(\"" .. tostring(key) .. "\"): its function calls pinion.cached with "
            .. "the same key, itself or through what it waits for, and would wait for itself; "
            .. "use another key", 2)
    end
    if not entry or (entry.until_ms and entry.until_ms <= host.now_ms()) then
        entry = {}
        entry.maker = check_spawned(host.spawn_independent(function()
            local ok, value = pcall(produce)
            if ok then
                -- False is a value, too.
                entry.value = value
            else
                entry.why = { value }
            end
            entry.until_ms = ok and host.now_ms() + seconds * 1000 or 0
        end))
        store_in_cache(key, entry)
    end
    if not entry.until_ms then
        local ids = { entry.maker }
        awaited[task] = ids
        while not entry.until_ms and host.wake_when_done(ids[1]) do
            wait("wake")
        end
        awaited[task] = nil
    end
    if not entry.until_ms then
        -- A limit has ended the task.
        entry.until_ms, entry.why = 0, { "pinion.cached(\"" .. tostring(key)
            .. "\"): its function was ended by a limit; the log has the reason in an earlier line" }
    end
    if entry.why then
        error(entry.why[1], 0)
    end
    return entry.value
end

-- Password hashes by Argon2id. They are slow on purpose, so another thread computes them.
pinion.password = {}

function pinion.password.hash(password)
    if type(password) ~= "string" then
        bad_argument(1, "pinion.password.hash", "string", password, 2)
    end
    host.hash_password(password)
    return wait("job")
end

-- Returns whether this is the password of a stored hash.
function pinion.password.verify(password, stored)
    if type(password) ~= "string" then
        bad_argument(1, "pinion.password.verify", "string", password, 2)
    elseif type(stored) ~= "string" then
        bad_argument(2, "pinion.password.verify", "string", stored, 2)
    end
    host.verify_password(password, stored)
    return wait("job")
end

-- Sends a message to all workers, including this one.
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

-- Adds `by`, or 1, to a counter that all workers share, and returns the sum.
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

-- Copies of plain values that outlive a reload.
pinion.keep = setmetatable({}, {
    __index = function(_, name)
        if type(name) == "string" then
            return host.read_kept(name)
        end
    end,
    __newindex = function(_, name, value)
        if type(name) ~= "string" then
            error("a name in pinion.keep is a string, not a " .. type(name), 2)
        end
        local why = host.write_kept(name, value)
        if why then
            error(why, 2)
        end
    end,
    __metatable = "keep",
})

return check_spawned

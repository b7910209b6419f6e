-- `pinion.store`: the functions of the key-value store. The chunk gets the functions of the host,
-- the table `pinion` and the function that waits. It returns the functions that keep fragments of
-- pages.

local host, pinion, wait = ...

local error, setmetatable, tostring, type = error, setmetatable, tostring, type
local isyieldable, lower = coroutine.isyieldable, string.lower
local next, pcall = next, pcall
local bad_argument = host.bad_argument
local KEPT_MAX = host.STORE_KEPT_MAX
local store_forget, store_is_current, store_record, store_recorded =
    host.store_forget, host.store_is_current, host.store_record, host.store_recorded
local store_begin, store_call, store_pack, store_reply =
    host.store_begin, host.store_call, host.store_pack, host.store_reply

-- Returns the reply of a command, or raises its error at the line of the script. Waits if the
-- command may take long: another thread executes it as a job.
local function await_reply(value, why, job)
    if job then
        why = store_begin(job, isyieldable())
        while job and not why do
            wait("wake")
            value, why, job = store_reply(job)
        end
    end
    if why then
        error(why, 2)
    end
    return value
end

-- Returns the message for a name that is no command for scripts.
local function unknown_command(name)
    local text = tostring(name)
    if text ~= lower(text) and host.store_has(lower(text)) then
        return "has no function \"" .. text .. "\"; write it in lower case"
    end
    return "has no function \"" .. text .. "\": it is no command, or one for connections or for "
        .. "operators"
end

local store = { null = pinion.json.null }
pinion.store = setmetatable(store, {
    -- The function of a command is made when a script first uses it.
    __index = function(_, name)
        if type(name) ~= "string" or not host.store_has(name) then
            error("pinion.store " .. unknown_command(name), 2)
        end
        local function command(...)
            return await_reply(store_call(name, ...))
        end
        store[name] = command
        return command
    end,
})

function store.call(name, ...)
    return await_reply(store_call(name, ...))
end

-- Executes the commands that the function calls on its argument as one transaction; none of them if
-- it raises an error.
function store.multi(work)
    if type(work) ~= "function" then
        bad_argument(1, "pinion.store.multi", "function(tx)", work, 2)
    end
    local queue, is_over = {}, false
    local function add(...)
        if is_over then
            error("the transaction is over; call its functions within pinion.store.multi", 3)
        end
        local packed, why = store_pack(...)
        if why then
            error(why, 3)
        end
        queue[#queue + 1] = packed
    end
    local transaction = {}
    setmetatable(transaction, {
        __index = function(_, name)
            if type(name) ~= "string" or not host.store_has(name) then
                error("a transaction " .. unknown_command(name), 2)
            end
            local function command(...)
                add(name, ...)
            end
            transaction[name] = command
            return command
        end,
    })
    function transaction.call(...)
        add(...)
    end
    work(transaction)
    is_over = true
    return await_reply(host.store_run(queue))
end

-- Makes a cache of values that are current until keys change that were read from the store while
-- they were made. Returns three functions: one that returns the current entry of a name, one that
-- makes the value of a name, and one that removes all entries.
local function store_cache()
    local entries, names, next_index = {}, {}, 1

    local function forget(name)
        local entry = entries[name]
        if entry then
            store_forget(entry.reads)
            entries[name], names[entry.index] = nil, nil
        end
    end

    local function current(name)
        local entry = entries[name]
        if entry and store_is_current(entry.reads) then
            return entry
        end
    end

    local function make(name, produce)
        local begins, why = store_record()
        if why then
            error(why, 3)
        elseif not begins then
            -- The value is a part of another one, which records the keys of both.
            return produce()
        end
        local ok, value = pcall(produce)
        local reads = store_recorded()
        if not ok then
            if reads then
                store_forget(reads)
            end
            error(value, 0)
        end
        forget(name)
        if reads then
            -- The oldest value makes room.
            local old = names[next_index]
            if old ~= nil then
                forget(old)
            end
            names[next_index] = name
            entries[name] = { value = value, reads = reads, index = next_index }
            next_index = next_index % KEPT_MAX + 1
        end
        return value
    end

    local function forget_all()
        for name in next, entries do
            forget(name)
        end
    end

    return current, make, forget_all
end

local current_value, make_value, forget_values = store_cache()

-- Returns the result of the function, which is kept until keys change that the function has read.
function store.cached(name, produce)
    if type(name) ~= "string" then
        bad_argument(1, "pinion.store.cached", "string", name, 2)
    elseif type(produce) ~= "function" then
        bad_argument(2, "pinion.store.cached", "function()", produce, 2)
    end
    local entry = current_value(name)
    if entry then
        return entry.value
    end
    return (make_value(name, produce))
end

local current_fragment, make_fragment, forget_fragments = store_cache()

host.on_memory_pressure(function()
    forget_values()
    forget_fragments()
end)

return current_fragment, make_fragment

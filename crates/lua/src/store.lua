-- The store of the server. The chunk gets the host's functions, the table of the site and what
-- waits.

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

-- What a command has brought, or its error where the script has called it. A job brings it later.
local function replied(value, why, job)
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

-- What is said of a name that is no command for scripts.
local function unknown(name)
    local text = tostring(name)
    if text ~= lower(text) and host.store_has(lower(text)) then
        return "has no function \"" .. text .. "\"; write it in lower case"
    end
    return "has no function \"" .. text .. "\": it is no command, or one for connections or for "
        .. "operators"
end

local store = { null = pinion.json.null }
pinion.store = setmetatable(store, {
    -- The function of a command is made when a script first asks for it.
    __index = function(_, name)
        if type(name) ~= "string" or not host.store_has(name) then
            error("pinion.store " .. unknown(name), 2)
        end
        local function command(...)
            return replied(store_call(name, ...))
        end
        store[name] = command
        return command
    end,
})

function store.call(name, ...)
    return replied(store_call(name, ...))
end

-- Executes at once what the function has called of its argument; nothing if it raises an error.
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
                error("a transaction " .. unknown(name), 2)
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
    return replied(host.store_run(queue))
end

-- Makes two functions for values that are kept until what they were made of changes in the store:
-- one that returns the value of a name in a table, as long as it is current, and one that makes it.
local function keeper()
    local entries, names, next_place = {}, {}, 1

    local function forget(name)
        local entry = entries[name]
        if entry then
            store_forget(entry.reads)
            entries[name], names[entry.place] = nil, nil
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
            -- Within another one, which changes if this one does.
            return produce()
        end
        local is_well, value = pcall(produce)
        local reads = store_recorded()
        if not is_well then
            if reads then
                store_forget(reads)
            end
            error(value, 0)
        end
        forget(name)
        if reads then
            -- The oldest goes.
            local old = names[next_place]
            if old ~= nil then
                forget(old)
            end
            names[next_place] = name
            entries[name] = { value = value, reads = reads, place = next_place }
            next_place = next_place % KEPT_MAX + 1
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

local current_value, make_value, forget_values = keeper()

-- What the function returns, until something changes that it has read from the store.
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

local current_fragment, make_fragment, forget_fragments = keeper()

host.on_shortage(function()
    forget_values()
    forget_fragments()
end)

return current_fragment, make_fragment

-- The store of the server. The chunk gets the host's functions, the table of the site and what
-- waits.

local host, pinion, wait = ...

local error, setmetatable, tostring, type = error, setmetatable, tostring, type
local isyieldable, lower = coroutine.isyieldable, string.lower
local bad_argument = host.bad_argument
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

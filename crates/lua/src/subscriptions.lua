-- Functions that wait for an event: a message, or the end of the server or of the script. The chunk
-- gets the functions of the host, the table `pinion` and the function that waits. It returns the
-- methods of subscriptions.

local host, pinion, wait = ...

local error, setmetatable, type = error, setmetatable, type
local bad_argument, check_object = host.bad_argument, host.check_object

local function check_seconds(seconds, name)
    if type(seconds) ~= "number" then
        bad_argument(1, name, "number", seconds, 3)
    elseif not (seconds >= 0) then
        error("bad argument #1 to '" .. name .. "' (seconds from 0 on expected)", 3)
    end
end

-- Returns "stopping" while the server stops, "reloaded" if the script was replaced; otherwise nil.
function pinion.ending()
    return host.ending()
end

-- Waits, and returns true after `seconds`; nil and the reason as soon as the server stops or the
-- script is replaced.
function pinion.wait(seconds)
    check_seconds(seconds, "pinion.wait")
    local until_ms = host.now_ms() + seconds * 1000
    while true do
        local ending = host.ending()
        if ending then
            return nil, ending
        end
        local left_ms = until_ms - host.now_ms()
        if left_ms <= 0 then
            return true
        end
        wait("await", left_ms / 1000)
    end
end

local subscription_methods = {}
local Subscription = { __index = subscription_methods, __name = "subscription" }

-- Subscribes the calling handler to the messages that a channel gets from now on.
function pinion.subscribe(channel)
    if type(channel) ~= "string" then
        bad_argument(1, "pinion.subscribe", "string", channel, 2)
    end
    local number, why = host.subscribe(channel)
    if not number then
        error(why, 2)
    end
    return setmetatable({ number }, Subscription)
end

-- Waits for the next message. Returns it, and the number of messages that were lost before it; nil
-- and the reason after `seconds`, or when the server stops or the script is replaced.
function subscription_methods.wait(subscription, seconds)
    check_object(subscription, Subscription, "subscription:wait(seconds)", 2)
    check_seconds(seconds, "subscription:wait")
    local until_ms = host.now_ms() + seconds * 1000
    while true do
        local is_open, is_there, message, lost = host.next_message(subscription[1])
        if is_there then
            return message, lost
        elseif not is_open then
            error("the subscription is closed; call pinion.subscribe for a new one", 2)
        end
        local ending = host.ending()
        if ending then
            return nil, ending
        end
        local left_ms = until_ms - host.now_ms()
        if left_ms <= 0 then
            return nil, "timeout"
        end
        wait("await", left_ms / 1000)
    end
end

-- Ends the subscription.
function subscription_methods.close(subscription)
    check_object(subscription, Subscription, "subscription:close()", 2)
    host.unsubscribe(subscription[1])
end

return subscription_methods

-- A front page with news from `pinion.store`, the built-in store for keys and values. This script
-- only fills an empty store with examples. In a real site another program writes the news with any
-- client of Redis, and the next request shows them. The page is public_html/index.dyn.html.

local store = pinion.store

local TOPICS = { "Harbour", "Library", "Market", "Museum", "Railway", "School", "Theatre" }
local EVENTS = {
    "opens a week earlier than planned",
    "gets a new roof & new windows",
    "counts more visitors than last year",
    "looks for volunteers",
}

local function fill()
    -- In one transaction: a request finds all of the news or none. `del` is for several workers
    -- that fill the store at the same time.
    store.multi(function(tx)
        tx.del("news", "reads")
        for number = 1, 50 do
            local topic, event = TOPICS[number % #TOPICS + 1], EVENTS[number % #EVENTS + 1]
            tx.hset("news:" .. number, {
                title = topic .. " " .. event,
                text = ("The %s %s, says the town council. All details follow at the public "
                    .. "meeting in the town hall on day %d."):format(topic:lower(), event, number),
                time = ("%02d:%02d"):format(number % 24, number * 7 % 60),
            })
            tx.rpush("news", number)
            tx.zadd("reads", number * 37 % 1000, topic .. " " .. number)
        end
    end)
end

if store.exists("news") == 0 then
    fill()
end

-- A guestbook: visitors leave a name and a message, which all visitors can read.
--
--     pinion serve examples/guestbook      # http://127.0.0.1:8080/
--
-- This file runs once in each worker, when the server starts and after each reload. The pages are
-- in public_html/, and the modules that they share are in lib/.

local book = require("lib.book")

-- Workers share no memory, so each has its own copy of the book. The worker that gets a new entry
-- sends it to all others, which add it with this function.
pinion.on("signed", book.add)

-- public_html/post.sign.dyn.html only responds to POST /sign. A visitor who opens /sign by hand, or
-- with the back button, is redirected to the start page.
pinion.get("/sign", function(req, res)
    res:redirect("/")
end)

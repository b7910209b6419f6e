-- A guestbook: people leave a name and some words, and everybody can read them.
--
--     pinion serve examples/guestbook      # http://127.0.0.1:8080/
--
-- This file runs once in each worker, when the server starts and at each reload. What people see
-- are the pages in public_html/; what those pages share is in lib/.

local book = require("lib.book")

-- Workers share nothing, so each of them has a book of its own. Whoever is signed tells all the
-- others, and this function is what listens.
pinion.on("signed", book.take)

-- In a folder of pages the address /sign only takes forms. Somebody who opens it by hand, or goes
-- back to it, is led to the start page.
pinion.get("/sign", function(req, res)
    res:redirect("/")
end)

-- wrk -s plain.lua URL: the same request again and again.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "report.lua")

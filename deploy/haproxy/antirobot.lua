-- Asks Antirobot about a request. Sets txn.antirobot to human, stop or down, txn.antirobot_cookie, and txn.antirobot_mark.

local gateway = "127.0.0.1:9091"
local timeout = 2000 -- milliseconds

-- What belongs to one connection, or to the body, which stays here.
local left_out = {
    ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["keep-alive"] = true, ["te"] = true,
    ["trailer"] = true, ["transfer-encoding"] = true, ["upgrade"] = true, ["host"] = true,
}

local function ask(txn)
    local headers = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        if not left_out[name] then
            headers[name] = {}
            for i = 0, #values do
                table.insert(headers[name], values[i])
            end
        end
    end
    local host = txn.sf:req_fhdr("host")
    local secure = txn.f:ssl_fc()
    headers["host"] = { host }
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-host"] = { host }
    headers["x-forwarded-uri"] = { txn.f:pathq() }
    headers["x-forwarded-for"] = { txn.f:src() }
    headers["x-forwarded-proto"] = { (secure == 1 or secure == true) and "https" or "http" }

    txn:set_priv(headers)
    local answer = core.httpclient():get({ url = "http://" .. gateway .. "/check", headers = headers, timeout = timeout })
    if not answer or not answer.status then
        return txn:set_var("txn.antirobot", "down")
    end
    if answer.status == 200 then
        local cookie = answer.headers and answer.headers["set-cookie"]
        if cookie then
            txn:set_var("txn.antirobot_cookie", cookie[0] or cookie[1])
        end
        local mark = answer.headers and answer.headers["x-antirobot-mark"]
        if mark then
            txn:set_var("txn.antirobot_mark", mark[0] or mark[1])
        end
        return txn:set_var("txn.antirobot", "human")
    end
    if answer.status == 401 or answer.status == 403 then
        return txn:set_var("txn.antirobot", "stop")
    end
    txn:set_var("txn.antirobot", "down")
end

core.register_action("antirobot", { "http-req" }, ask)

-- Tells the gateway what the service has answered, a moment later: without it pages and parts are told apart only by what
-- visitors of several networks request alike. While the gateway is slow, what is more than these is left out.
local most = 1000
local answers = {}

local function told(txn)
    local headers = txn:get_priv()
    if headers and #answers < most then
        local kind = txn.sf:res_fhdr("content-type")
        headers["x-antirobot-answer"] = { tostring(txn.sf:status()) .. " " .. (kind or "") }
        table.insert(answers, headers)
    end
end

core.register_action("antirobot_told", { "http-res" }, told)

core.register_task(function()
    while true do
        local headers = table.remove(answers)
        if headers then
            core.httpclient():get({ url = "http://" .. gateway .. "/check?style=answer", headers = headers, timeout = timeout })
        else
            core.msleep(50)
        end
    end
end)

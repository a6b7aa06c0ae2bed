-- Send the requests of a file in turn, each with the token of its caller; print one line of JSON.
-- Arguments: the method; the body, in which a number replaces "#"; a file with lines "token path".

local method, template, requests, number

function init(arguments)
  method, template = arguments[1], arguments[2]
  requests, number = {}, 0
  for line in io.lines(arguments[3]) do
    local token, path = line:match("^(%S+) (%S+)$")
    local headers = {["Authorization"] = "Bearer " .. token}
    if template ~= "" then
      headers["Content-Type"] = "application/json"
    end
    table.insert(requests, {path = path, headers = headers})
  end
  -- Two runs must not send the same numbers, because a PATCH with the same title changes nothing.
  math.randomseed(os.time())
  salt = math.random(1, 99999)
  if template == "" then
    for i, one in ipairs(requests) do
      requests[i] = wrk.format(method, one.path, one.headers)
    end
  end
end

function request()
  number = number + 1
  local one = requests[number % #requests + 1]
  if template == "" then
    return one
  end
  return wrk.format(method, one.path, one.headers, (template:gsub("#", salt .. "-" .. number)))
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.3f, "p50": %.3f, "p99": %.3f, "p999": %.3f, "failed": %d}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout
  ))
end

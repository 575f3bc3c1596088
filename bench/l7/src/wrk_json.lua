-- wrk's summary as one line of JSON, with the names the harness uses.
done = function(summary, latency, requests)
  local e = summary.errors
  local line = '{"requests":%d,"seconds":%.4f,"rps":%.1f,"bytes":%d,' ..
    '"p50_us":%d,"p90_us":%d,"p99_us":%d,"p999_us":%d,"max_us":%d,"errors":%d,"non2xx":%d}\n'
  io.write(line:format(
    summary.requests, summary.duration / 1e6, summary.requests * 1e6 / summary.duration, summary.bytes,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency:percentile(99.9),
    latency.max, e.connect + e.read + e.write + e.timeout, e.status))
end

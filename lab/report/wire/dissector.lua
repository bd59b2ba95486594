-- ---------------------------------------------------------------------------------------------------------------------
-- From here on the file is the same for every table: it reads bytes by the table above, and shows what it has read.

local name = TABLE.name
local made, proto = pcall(Proto, name, TABLE.name .. ": " .. TABLE.title)
if not made then -- Wireshark knows a protocol of this name already
  name = name .. "_table"
  proto = Proto(name, name .. ": " .. TABLE.title)
end

-- Numbers are UInt64 or Int64, so that eight bytes are exact. A number is put together from halves of 32 bits.

local HALF = 2 ^ 32

local function whole(low, high, signed)
  if signed then return Int64.new(low, high) end
  return UInt64.new(low, high)
end

local function constant(number, signed) -- from the table: a number, or 16 hexadecimal digits if it is a large one
  if type(number) == "string" then
    return whole(tonumber(number:sub(9, 16), 16), tonumber(number:sub(1, 8), 16), signed)
  end
  return whole(number % HALF, math.floor(number / HALF) % HALF, signed)
end

local function from_bits(data, first, count) -- the first bit is bit 0 of the data, the highest of its byte
  local low, high = 0, 0
  for bit = first, first + count - 1 do
    local byte = data:byte(math.floor(bit / 8) + 1)
    low = low * 2 + math.floor(byte / 2 ^ (7 - bit % 8)) % 2
    high = high * 2
    if low >= HALF then low, high = low - HALF, high + 1 end
  end
  return low, high
end

local function from_bytes(raw, signed)
  if TABLE.order == "little" then raw = raw:reverse() end
  local count = #raw * 8
  local low, high = from_bits(raw, 0, count)
  if signed and raw:byte(1) >= 128 then -- fill up with ones
    if count < 32 then low = low + HALF - 2 ^ count end
    if count <= 32 then high = HALF - 1 elseif count < 64 then high = high + HALF - 2 ^ (count - 32) end
  end
  return whole(low, high, signed)
end

local function from_digits(raw)
  if #raw == 0 or #raw > 18 or raw:find("[^0-9]") then return nil end
  local upper = #raw > 9 and tonumber(raw:sub(1, -10)) or 0
  return UInt64.new(upper, 0) * UInt64.new(1000000000, 0) + UInt64.new(tonumber(raw:sub(-9)), 0)
end

-- Reading. What is missing is told as MORE (too few bytes) or NO (not this message).

local MORE, NO = "more", "no"
local read

local function extent(field, data, start, values) -- where a field ends, and where the next begins
  if field.rest then return #data, #data end
  if field.ends then
    local found = data:find(string.char(field.ends), start + 1, true)
    if found then return found - 1, found end
    local come = data:sub(start + 1)
    if field.text and field.text:sub(1, #come) ~= come then return nil, NO end
    return nil, MORE
  end
  local size = field.bits and field.bits / 8 or values[field.length]:tonumber() + (field.plus or 0)
  if size < 0 then return nil, NO end
  if start + size > #data then return nil, MORE end
  return start + size, start + size
end

local function entries(field, raw)
  local width, found = 0, {}
  for _, inner in ipairs(field.fields) do width = width + inner.bits / 8 end
  if #raw % width ~= 0 then return nil end
  for at = 0, #raw - 1, width do
    local entry = read(field.fields, raw:sub(at + 1, at + width))
    if not entry then return nil end
    found[#found + 1] = entry
  end
  return found, width
end

local function value_of(field, raw)
  if field.kind == "uint" or field.kind == "int" then return from_bytes(raw, field.signed) end
  if field.kind == "decimal" then
    local number = from_digits(raw)
    return number and field.signed and Int64.new(number:lower(), number:higher()) or number
  end
  if field.kind == "entries" then return entries(field, raw) end
  local last = #raw
  while field.pad and last > 0 and raw:byte(last) == field.pad do last = last - 1 end
  return raw:sub(1, last)
end

local function fits(field, value)
  if value == nil then return false end
  if field.text then return value == field.text end
  if field.value and value ~= constant(field.value, field.signed) then return false end
  if field.low and value < constant(field.low, field.signed) then return false end
  return not (field.high and constant(field.high, field.signed) < value)
end

function read(fields, data)
  local values, places, bit = {}, {}, 0
  for _, field in ipairs(fields) do
    local first, last = math.floor(bit / 8)
    local value, width
    if field.bits and (field.bits % 8 ~= 0 or bit % 8 ~= 0) then
      last = math.ceil((bit + field.bits) / 8)
      if last > #data then return nil, MORE end
      local low, high = from_bits(data, bit, field.bits)
      value, bit = whole(low, high, field.signed), bit + field.bits
    else
      local after
      last, after = extent(field, data, first, values)
      if not last then return nil, after end
      value, width = value_of(field, data:sub(first + 1, last))
      bit = after * 8
    end
    if not fits(field, value) then return nil, NO end
    values[field.name] = value
    places[#places + 1] = {field = field, value = value, first = first, last = last, width = width}
  end
  return places, bit / 8
end

local function possible(message, way)
  for option, wanted in pairs(message.only or {}) do
    if proto.prefs[option] ~= wanted then return false end
  end
  for _, one in ipairs(message.ways) do
    if one == way then return true end
  end
  return false
end

local function decode(data, way) -- the one message that these bytes are, from the first to the last
  local body = data
  if TABLE.ends_with then
    if data:byte(-1) ~= TABLE.ends_with then return nil end
    body = data:sub(1, -2)
  end
  for _, message in ipairs(TABLE.messages) do
    if possible(message, way) then
      local places, finish = read(message.fields, body)
      if places and finish == #body then return {message = message, places = places, finish = #data} end
    end
  end
  return nil
end

local function decode_prefix(data, way) -- the message that these bytes begin with; or nil and MORE or NO
  if TABLE.ends_with then
    local last = data:find(string.char(TABLE.ends_with), 1, true)
    if not last then return nil, MORE end
    return decode(data:sub(1, last), way), NO
  end
  for _, message in ipairs(TABLE.messages) do
    if possible(message, way) then
      local places, finish = read(message.fields, data)
      if places and finish == 0 then return nil, NO end
      if places then return {message = message, places = places, finish = finish} end
      if finish == MORE then return nil, MORE end
    end
  end
  return nil, NO
end

-- Showing.

local columns, all = {}, {}
local message_column = ProtoField.string(name .. ".message", "message", base.UNICODE, "which message it is")
all[1] = message_column

local TYPES = {
  uint = ftypes.UINT64, int = ftypes.INT64, decimal = ftypes.UINT64,
  text = ftypes.STRING, bytes = ftypes.BYTES, entries = ftypes.NONE,
}

local function column(field, filter, key, strings)
  key = filter .. "\n" .. key
  if not columns[key] then
    local kind = field.signed and ftypes.INT64 or TYPES[field.kind]
    local shown = (kind == ftypes.UINT64 or kind == ftypes.INT64) and base.DEC or base.NONE
    columns[key] = ProtoField.new(field.name, filter, kind, strings, shown, nil, field.about)
    all[#all + 1] = columns[key]
  end
  return columns[key]
end

local function make_columns(fields, above) -- values that have a name get a column of their own, with the same filter
  for _, field in ipairs(fields) do
    local filter, strings, key = above .. field.filter, {}, ""
    field.labels = {}
    for _, one in ipairs(field.names or {}) do
      field.labels[tostring(constant(one[1], field.signed))] = one[2]
      if type(one[1]) == "number" then
        strings[one[1]] = one[2]
        key = key .. one[1] .. " " .. one[2] .. "\n"
      end
    end
    field.column = column(field, filter, "")
    field.named = key ~= "" and column(field, filter, key, strings) or field.column
    make_columns(field.fields or {}, filter .. ".")
  end
end

for _, message in ipairs(TABLE.messages) do make_columns(message.fields, name .. ".") end
proto.fields = all
local no_message = ProtoExpert.new(
  name .. ".no_message", "not a message of " .. TABLE.name, expert.group.MALFORMED, expert.severity.WARN)
proto.experts = {no_message}
for option, values in pairs(TABLE.options) do
  proto.prefs[option] = Pref.string(option, "", "the scenario's option; some messages exist only with: " .. values)
end

local function show(tree, tvb, at, places)
  for _, place in ipairs(places) do
    local field, range = place.field, tvb(at + place.first, place.last - place.first)
    if field.kind == "entries" then
      local branch = tree:add(field.column, range)
      for number, entry in ipairs(place.value) do
        local start = at + place.first + (number - 1) * place.width
        show(branch:add(tvb(start, place.width), "entry " .. number), tvb, start, entry)
      end
    elseif field.kind == "text" then
      local item
      if #place.value == 0 then
        item = tree:add(field.column, range, "")
      else
        item = tree:add_packet_field(field.column, tvb(at + place.first, #place.value), ENC_UTF_8)
      end
      item:set_len(place.last - place.first)
    elseif field.kind == "bytes" then
      tree:add(field.column, tvb(at + place.first, #place.value)):set_len(place.last - place.first)
    else
      local label = field.labels[tostring(place.value)]
      tree:add(label and field.named or field.column, range, place.value)
    end
  end
end

local function show_message(tree, tvb, at, found, way)
  local range = tvb(at, found.finish)
  local item = tree:add(proto, range, TABLE.name .. ", " .. found.message.name .. " (" .. way .. ")")
  item:add(message_column, range, found.message.name):set_generated()
  show(item, tvb, at, found.places)
end

local function show_other(tree, tvb, at, count, what)
  local item = tree:add(proto, tvb(at, count), TABLE.name .. ", " .. what .. ", " .. count .. " bytes")
  item:add_proto_expert_info(no_message)
end

local function way_of(pinfo)
  for _, port in ipairs(TABLE.ports) do
    if pinfo.dst_port == port then return "request" end
  end
  for _, port in ipairs(TABLE.ports) do
    if pinfo.src_port == port then return "answer" end
  end
  return "push"
end

local LONGEST = 1048576 -- a message that is not complete after so many bytes is none

local function stream(tvb, pinfo, tree, data, way, names)
  local at = 0
  while at < #data do
    local left = at == 0 and data or data:sub(at + 1)
    local found, why = decode_prefix(left, way)
    local lines = TABLE.ends_with and left:find(string.char(TABLE.ends_with), 1, true)
    if found then
      show_message(tree, tvb, at, found, way)
      names[#names + 1] = found.message.name
      at = at + found.finish
    elseif why == MORE and #left <= LONGEST and pinfo.can_desegment > 0 then
      pinfo.desegment_offset = at
      pinfo.desegment_len = DESEGMENT_ONE_MORE_SEGMENT
      return
    else
      local count = lines or #left
      show_other(tree, tvb, at, count, why == MORE and "an incomplete message" or "no message")
      names[#names + 1] = "(no message)"
      at = at + count
    end
  end
end

function proto.dissector(tvb, pinfo, tree)
  local data, way, names = tvb:raw(0, tvb:len()), way_of(pinfo), {}
  pinfo.cols.protocol = TABLE.name
  if TABLE.transport == "tcp" then
    stream(tvb, pinfo, tree, data, way, names)
  else
    local found = decode(data, way)
    if found then show_message(tree, tvb, 0, found, way) else show_other(tree, tvb, 0, #data, "no message") end
    names[1] = found and found.message.name or "(no message)"
  end
  if #names > 0 then -- a second message of the same frame is written behind the first
    local text = table.concat(names, ", ")
    if pinfo.private[name] then
      pinfo.cols.info:append(", " .. text)
    else
      pinfo.cols.info:set(text)
      pinfo.private[name] = "shown"
    end
    pinfo.cols.info:fence()
  end
end

local ports = DissectorTable.get(TABLE.transport .. ".port")
for _, port in ipairs(TABLE.ports) do ports:add(port, proto) end
